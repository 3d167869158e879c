"""Reading what `learn` is given: settings, lengths of runs, and how much is known of what can happen."""

from __future__ import annotations

import errno
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from solvent.errors import ModelError, quote
from solvent.learning.learner import Settings
from solvent.model.budget import Limits
from solvent.model.cost_bounds import CostBounds, shape_of, show_shape

CostSupport = Literal["known", "learned"]


def knows_support(cost_support: Any, *, sure: bool, bounded: bool) -> bool:
    """Return whether it is known what can happen; a `ModelError` if that is not what was asked for.

    Parameters
    ----------
    cost_support : {"known", "learned"} or None
        What was asked for.
    sure : bool
        Whether there is a model or a support.
    bounded : bool
        Whether there is a bound on costs, which keeps the budget as well.
    """
    if cost_support is None:
        return sure
    _read_choice("cost_support", cost_support, ("known", "learned"))
    if cost_support == "known" and not sure and not bounded:
        raise ModelError(
            "cost_support", "support=... that says what can happen in the environment, or cost_bound=...", "none",
            "or learn it: 'learned'",
        )  # fmt: skip
    return sure and bool(cost_support == "known")


def refuse_unasked(cost_support: CostSupport | None) -> None:
    """Raise a `ModelError` if what an environment costs is to be found out by going over budget and nobody said so."""
    if cost_support != "learned":
        raise ModelError(
            "learn", "to be told what actions of the environment can cost, so that no episode goes over budget",
            "neither a support nor a bound",
            "pass support=... (what can happen: a model, a dict or a function) or cost_bound=... (what an action costs "
            'at most), or ask for cost_support="learned", which finds out by going over budget',
        )  # fmt: skip


def refuse_lower(limits: Limits) -> None:
    """Raise a `ModelError` if there is a lower limit."""
    for name, side in zip(limits.resources, limits.lower, strict=True):
        if any(limit is not None for limit in side):
            raise ModelError(
                f"budget, {name}", "upper limits only, unless it is known what can happen", "a lower one",
                "what was never tried cannot be thought to keep it",
            )  # fmt: skip


def read_settings(
    epsilon: Any, delta: Any, pool: Any, bonus: Any, bonus_scale: Any, replan: Any, reward_range: Any,
    random_rewards: Any, seed: Any,
) -> Settings:  # fmt: skip
    """Return the settings, or raise a `ModelError` that names the argument."""
    positive = {"epsilon": epsilon, "bonus_scale": bonus_scale}
    numbers = {name: _read_number(name, value, "a number above 0", above=0) for name, value in positive.items()}
    numbers["delta"] = _read_number("delta", delta, "a number above 0 and below 1", above=0, below=1)
    _read_choice("bonus", bonus, ("practical", "theory"))
    _read_choice("replan", replan, ("doubling", "episode"))
    low, high = _read_range(reward_range)
    if bonus == "theory" and not 0 <= low <= high <= 1:
        hint = "divide the rewards, and epsilon, by the greatest"
        raise ModelError("reward_range", 'rewards from 0 to 1 with bonus="theory"', f"{low:g} to {high:g}", hint)
    vary = read_switch("random_rewards", random_rewards, optional=True)
    if bonus == "theory" and vary:
        raise ModelError("random_rewards", 'False with bonus="theory"', "True")
    return Settings(
        numbers["epsilon"], numbers["delta"], bool(read_switch("pool", pool)), bonus, numbers["bonus_scale"], replan,
        (low, high), bonus != "theory" if vary is None else vary, read_whole("seed", seed, 0),
    )  # fmt: skip


def check_reward_sums(reward_range: tuple[float, float], horizon: int) -> None:
    """Raise a `ModelError` if sums of rewards over an episode are so large that their squares are not finite."""
    largest = horizon * max(map(abs, reward_range))
    if not math.isfinite(largest * largest):
        raise ModelError(
            "reward_range", f"rewards whose sums over {horizon} steps have a finite square in double precision",
            f"{reward_range[0]:g} to {reward_range[1]:g}", "scale the rewards",
        )  # fmt: skip


def check_runs(max_episodes: Any, checkpoint: Any, checkpoint_every: Any, *, resume: Any, progress: Any) -> None:
    """Raise a `ModelError` if the length of a run is not a positive integer, or there is no checkpoint to resume."""
    read_whole("max_episodes", max_episodes, 1)
    read_whole("checkpoint_every", checkpoint_every, 1)
    read_switch("progress", progress)
    if read_switch("resume", resume) and checkpoint is None:
        raise ModelError("resume", "checkpoint=... to go on from", "none")


def read_path(checkpoint: Any) -> Path | None:
    """Return the path of a checkpoint, or None if there is none."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, str | os.PathLike) or not isinstance(os.fspath(checkpoint), str):
        raise ModelError("checkpoint", "a path", quote(checkpoint))
    return Path(checkpoint)


def check_place(path: Path) -> None:
    """Raise a `ModelError` if nothing can ever be written at a path; a disk that is full may have room later."""
    expected = "a place that can be written"
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            raise ModelError(str(path), expected, "a folder" if target.is_dir() else "no plain file")
        with tempfile.TemporaryFile(dir=target.parent, prefix=".solvent-"):
            pass
    except ModelError:
        raise
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) not in (errno.ENOSPC, errno.EDQUOT):
            raise ModelError(str(path), expected, getattr(error, "strerror", None) or str(error)) from None


def check_callback(callback: Any) -> None:
    """Raise a `ModelError` if a callback cannot be called."""
    if callback is not None and not callable(callback):
        raise ModelError("callback", "a function of a LearnProgress, or None", quote(callback))


def read_bounds(given: Any, resources: tuple[str, ...], states: range, actions: range) -> CostBounds:
    """Return bounds on the cost of each action; of an array by state, after counting its rows.

    Examples
    --------
    >>> read_bounds({"fuel": [0, 2]}, ("fuel",), range(3), range(2))("anywhere", 1)
    (Fraction(2, 1),)
    >>> read_bounds({"fuel": [[0, 2], [1, 2]]}, ("fuel",), range(3), range(2))
    Traceback (most recent call last):
    solvent.errors.ModelError: cost_bound, 'fuel': expected a number, or 2 numbers, one for each action, found shape \
(2, 2); for bounds by state pass an array with one row for each, or a function of (state, action)
    """
    bounds = CostBounds(given, resources, len(actions), actions[0])
    if bounds.n_rows not in (None, len(states)):
        raise ModelError(
            "cost_bound", f"{len(states)} rows, one for each state", f"shape {show_shape(shape_of(given))}"
        )
    return bounds


def read_switch(name: str, value: Any, *, optional: bool = False) -> bool | None:
    """Return True or False, or None if that is allowed."""
    if value is None and optional:
        return None
    if not isinstance(value, bool | np.bool_):
        raise ModelError(name, "True or False" + (" or None" if optional else ""), quote(value))
    return bool(value)


def read_whole(name: str, value: Any, least: int) -> int:
    """Return an integer of at least `least`."""
    if not _is_integer(value) or value < least:
        raise ModelError(name, f"a whole number of at least {least}", quote(value))
    return int(value)


def _read_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ModelError(name, " or ".join(map(repr, choices)), quote(value))


def _read_number(
    name: str, value: Any, expected: str, *, above: float = -math.inf, below: float = math.inf, shown: Any = None
) -> float:
    try:
        number = float(value) if _is_integer(value) or isinstance(value, float | np.floating) else math.nan
    except OverflowError:
        number = math.nan
    if not above < number < below:
        raise ModelError(name, expected, quote(value if shown is None else shown))
    return number


def _read_range(given: Any) -> tuple[float, float]:
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__len__") or shape_of(given) != (2,):
        raise ModelError("reward_range", "two numbers, the least and the greatest reward", quote(given))
    expected = "two finite numbers, the least first"
    low, high = (_read_number("reward_range", end, expected, shown=given) for end in given)
    if low > high:
        raise ModelError("reward_range", expected, quote(given))
    return low, high


def _is_integer(value: Any) -> bool:
    """Whether a value is an integer; NumPy counts time spans among them."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
