"""Validation of the arguments of `learn`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeGuard

import numpy as np

from solvent.core.arguments import check_signature, read_switch
from solvent.errors import ModelError, quote
from solvent.learning.bonus import BonusName
from solvent.learning.learner import Callback, LearnSettings, Replan
from solvent.model.amounts import short_amount
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.cost_bounds import BoundLike, CostBounds, shape_of, show_shape

#: Default factor of the bonus for exploring.
BONUS_SCALE = 0.03

#: Whether the support, the set of possible outcomes, is known from the start or learned from what occurs.
SupportSource = Literal["known", "learned"]

#: Whether `epsilon_cost` is an amount, or a share of the smallest limit.
ApproximationName = Literal["additive", "relative"]


def is_support_known(cost_support: object, *, given: bool, bounded: bool) -> bool:
    """Return whether the support is known, or raise a `ModelError` if it is not and was said to be.

    Parameters
    ----------
    cost_support : {"known", "learned"} or None
        The argument of `learn`.
    given : bool
        Whether there is a model or a support.
    bounded : bool
        Whether there is a bound on costs, which is enough to keep the budget.
    """
    if cost_support is None:
        return given
    check_choice("cost_support", cost_support, ("known", "learned"))
    if cost_support == "known" and not given and not bounded:
        raise ModelError(
            "cost_support", "support=... (the possible outcomes of the environment) or cost_bound=...", "neither",
            'or learn the support: "learned"',
        )  # fmt: skip
    return given and cost_support == "known"


def require_consent(cost_support: SupportSource | None) -> None:
    """Raise a `ModelError` unless the user asked to learn an environment's costs by exceeding the budget."""
    if cost_support != "learned":
        raise ModelError(
            "learn", "what actions of the environment can cost, so that no episode exceeds the budget",
            "neither a support nor a bound",
            "pass support=... (the possible outcomes: a model, a dict or a function) or cost_bound=... (the most an "
            'action can cost), or ask for cost_support="learned", which may exceed the budget while it learns',
        )  # fmt: skip


def check_accounts(model: CMDP, limits: Limits, *, known: bool) -> None:
    """Raise a `ModelError` if learning does not honor something that a model says about accounts and ends.

    Parameters
    ----------
    model : CMDP
    limits : Limits
    known : bool
        Whether the support is known.
    """
    if model.end_reward is not None:
        raise ModelError(
            "end_reward", "a model without rewards for ending, as only rewards of steps are learned", "some",
            "pay them in a last step of their own; solve honors them if the model is known",
        )  # fmt: skip
    if known:
        return
    way, hint = 'cost_support="learned"', 'use cost_support="known"'
    if model.may_end is not None:
        raise ModelError("must_end_in", f"a model without a goal with {way}", "a goal", hint)
    for name, amount in zip(limits.resources, limits.initial, strict=True):
        if model.resource(name).saturates:
            expected = f"a resource that does not saturate with {way}"
            raise ModelError(f"resource {quote(name)}", expected, model.resource(name).text, hint)
        if amount:
            expected = f"nothing before the first step with {way}"
            raise ModelError(f"spent, {name}", expected, short_amount(amount), "lower the limits by this amount")


def refuse_lower_limits(limits: Limits) -> None:
    """Raise a `ModelError` if there is a lower limit."""
    for name, side in zip(limits.resources, limits.lower, strict=True):
        if any(limit is not None for limit in side):
            raise ModelError(
                f"budget, {name}", "only upper limits, unless the support is known", "a lower limit",
                "no bound says that an action never tried keeps a lower limit",
            )  # fmt: skip


def read_settings(
    *,
    epsilon: float,
    delta: float,
    pool: bool,
    bonus: BonusName,
    bonus_scale: float,
    replan: Replan,
    reward_range: tuple[float, float],
    return_range: tuple[float, float] | None,
    random_rewards: bool | None,
    seed: int,
) -> LearnSettings:
    """Return the settings of a learner, or raise a `ModelError` that names the wrong argument."""
    check_choice("bonus", bonus, ("practical", "theory"))
    check_choice("replan", replan, ("doubling", "episode"))
    low, high = _read_range("reward_range", reward_range)
    if bonus == "theory" and not 0 <= low <= high <= 1:
        hint = "divide the rewards, and epsilon, by the greatest reward"
        raise ModelError("reward_range", 'rewards from 0 to 1 with bonus="theory"', f"{low:g} to {high:g}", hint)
    vary = read_switch("random_rewards", random_rewards, optional=True)
    if bonus == "theory" and vary:
        raise ModelError("random_rewards", 'False with bonus="theory"', "True")
    returns = None if return_range is None else _read_range("return_range", return_range, "return")
    if bonus == "theory" and returns is not None:
        raise ModelError("return_range", 'none with bonus="theory", whose constants are fixed', quote(return_range))
    return LearnSettings(
        epsilon=_read_number("epsilon", epsilon, "a number above 0", above=0),
        delta=_read_number("delta", delta, "a number above 0 and below 1", above=0, below=1),
        pool=read_switch("pool", pool),
        bonus=bonus,
        bonus_scale=_read_number("bonus_scale", bonus_scale, "a number above 0", above=0),
        replan=replan,
        reward_range=(low, high),
        return_range=returns,
        random_rewards=bonus != "theory" if vary is None else vary,
        seed=read_whole("seed", seed, 0),
    )


def check_reward_sums(reward_range: tuple[float, float], horizon: int) -> None:
    """Raise a `ModelError` if the square of the sum of rewards over an episode may not be finite."""
    largest = horizon * max(map(abs, reward_range))
    if not math.isfinite(largest * largest):
        raise ModelError(
            "reward_range", f"rewards whose sums over {horizon} steps have a finite square in double precision",
            f"{reward_range[0]:g} to {reward_range[1]:g}", "scale the rewards",
        )  # fmt: skip


def check_returns(model: CMDP, return_range: tuple[float, float] | None) -> None:
    """Raise a `ModelError` if the rewards of some episode of a model have a sum outside the range."""
    if return_range is None:
        return
    most, least = np.zeros(model.n_states), np.zeros(model.n_states)
    outcome_row = np.repeat(np.arange(model.n_rows), np.diff(model.outcome_indptr))
    row_state = np.repeat(np.arange(len(model.row_indptr) - 1) % model.n_states, np.diff(model.row_indptr))
    for step in reversed(range(model.horizon)):
        indptr = model.row_indptr_at(step)
        rows = slice(int(indptr[0]), int(indptr[-1]))
        ends = []
        for after, reduce, worst in ((most, np.maximum, -np.inf), (least, np.minimum, np.inf)):
            by_row, by_state = np.full(model.n_rows, worst), np.full(model.n_states, worst)
            reduce.at(by_row, outcome_row, after[model.next_state])
            reduce.at(by_state, row_state[rows], (model.row_reward + by_row)[rows])
            ends.append(np.where(np.isfinite(by_state), by_state, 0.0))
        most, least = ends
    low, high = float(least[model.start_states].min()), float(most[model.start_states].max())
    slack = 1e-9 * max(abs(low), abs(high), 1.0)
    if not return_range[0] - slack <= low <= high <= return_range[1] + slack:
        expected = f"the range of the sums of rewards, at least {low:g} to {high:g}"
        raise ModelError("return_range", expected, f"{return_range[0]:g} to {return_range[1]:g}")


def check_run(max_episodes: object, checkpoint: object, checkpoint_every: object, *, resume: object) -> None:
    """Raise a `ModelError` if a number of episodes is not a positive integer, or there is no checkpoint to resume."""
    read_whole("max_episodes", max_episodes, 1)
    read_whole("checkpoint_every", checkpoint_every, 1)
    if read_switch("resume", resume) and checkpoint is None:
        raise ModelError("resume", "checkpoint=... to go on from", "none")


def read_callbacks(callback: object) -> tuple[Callback, ...]:
    """Return callbacks, given as one function, a list or tuple of them, or None.

    Examples
    --------
    >>> read_callbacks(None), read_callbacks([print, print])
    ((), (<built-in function print>, <built-in function print>))
    >>> read_callbacks([print, 3])
    Traceback (most recent call last):
    solvent.errors.ModelError: callback[1]: expected a function of a LearnProgress, found 3
    """
    if callback is None:
        return ()
    if not callable(callback) and not isinstance(callback, list | tuple):
        several = isinstance(callback, Iterable) and not isinstance(callback, str | bytes)
        hint = "pass several callbacks as a list" if several else ""
        raise ModelError("callback", "a function of a LearnProgress, or None", quote(callback), hint)
    named = {"callback": callback} if callable(callback) else {f"callback[{i}]": c for i, c in enumerate(callback)}
    for where, each in named.items():
        if not callable(each):
            raise ModelError(where, "a function of a LearnProgress", quote(each))
        check_signature(each, ("progress",), where)
    return tuple(named.values())


def check_functions(*, cost: object, cost_bound: object, support: object, stationary: bool | None) -> None:
    """Raise a `ModelError` if a function that describes an environment cannot take its arguments."""
    place = ("state", "action")
    for where, given, arguments in (
        ("cost", cost, ("observation", "action", "next_observation")),
        ("cost_bound", cost_bound, place),
        ("support", support, ("step", *place) if stationary is False else place),
    ):
        if callable(given) and not isinstance(given, Mapping | CMDP):
            check_signature(given, arguments, where)


def read_bounds(given: BoundLike, resources: tuple[str, ...], states: Sequence[Any], actions: range) -> CostBounds:
    """Return bounds on the cost of each action; an array by state must have a row for each state.

    Examples
    --------
    >>> read_bounds({"fuel": [0, 2]}, ("fuel",), range(3), range(2))("anywhere", 1)
    (Fraction(2, 1),)
    >>> read_bounds({"fuel": [[0, 2], [1, 2]]}, ("fuel",), range(3), range(2))
    Traceback (most recent call last):
    solvent.errors.ModelError: cost_bound, 'fuel': expected a number, or 2 numbers, one for each action, found shape \
(2, 2); for bounds by state pass an array with one row per state, or a function of (state, action)
    """
    bounds = CostBounds(given, resources, len(actions), actions[0])
    if bounds.n_rows not in (None, len(states)):
        raise ModelError(
            "cost_bound", f"{len(states)} rows, one for each state", f"shape {show_shape(shape_of(given))}"
        )
    return bounds


def read_whole(name: str, value: object, least: int) -> int:
    """Return an integer of at least `least`."""
    if not _is_integer(value) or value < least:
        raise ModelError(name, f"a whole number of at least {least}", quote(value))
    return int(value)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise a `ModelError` if a value is not one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ModelError(name, " or ".join(map(repr, choices)), quote(value))


def _read_number(
    name: str, value: object, expected: str, *, above: float = -math.inf, below: float = math.inf, shown: object = None
) -> float:
    try:
        number = float(value) if _is_integer(value) or isinstance(value, float | np.floating) else math.nan
    except OverflowError:
        number = math.nan
    if not above < number < below:
        raise ModelError(name, expected, quote(value if shown is None else shown))
    return number


def _read_range(name: str, given: Any, kind: str = "reward") -> tuple[float, float]:
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__len__") or shape_of(given) != (2,):
        raise ModelError(name, f"two numbers, the least and the greatest {kind}", quote(given))
    expected = "two finite numbers, the least first"
    low, high = (_read_number(name, end, expected, shown=given) for end in given)
    if low > high:
        raise ModelError(name, expected, quote(given))
    return low, high


def _is_integer(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer; NumPy's time spans, which it counts as integers, are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
