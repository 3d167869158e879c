"""Reading what `learn` is given: settings, lengths of runs, and how much is known of what can happen."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from solvent.errors import ModelError, quote
from solvent.learning.learner import Settings
from solvent.model.budget import Limits

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
    if cost_support not in ("known", "learned"):
        raise ModelError("cost_support", "'known' or 'learned'", quote(cost_support))
    if cost_support == "known" and not sure and not bounded:
        raise ModelError(
            "cost_support", "support=... that says what can happen in the environment, or cost_bound=...", "none",
            "or learn it: 'learned'",
        )  # fmt: skip
    return sure and bool(cost_support == "known")


def refuse_lower(limits: Limits) -> None:
    """Raise a `ModelError` if there is a lower limit."""
    for name, side in zip(limits.resources, limits.lower, strict=True):
        if any(limit is not None for limit in side):
            raise ModelError(
                f"budget, {name}", "upper limits only, unless it is known what can happen", "a lower one",
                "what was never tried cannot be thought to keep it",
            )  # fmt: skip


def read_settings(
    epsilon: Any, delta: Any, pool: bool, bonus: Any, bonus_scale: Any, replan: Any, reward_range: Any,
    random_rewards: bool | None, seed: Any,
) -> Settings:  # fmt: skip
    """Return the settings, or raise a `ModelError` for what is none."""
    for name, value in (("epsilon", epsilon), ("bonus_scale", bonus_scale), ("delta", delta)):
        top = 1 if name == "delta" else math.inf
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < top:
            raise ModelError(name, "a number above 0" + (" and below 1" if name == "delta" else ""), quote(value))
    for name, value, choices in (
        ("bonus", bonus, ("practical", "theory")),
        ("replan", replan, ("doubling", "episode")),
    ):
        if value not in choices:
            raise ModelError(name, " or ".join(map(repr, choices)), quote(value))
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ModelError("seed", "a whole number of at least 0", quote(seed))
    try:
        low, high = (float(end) for end in reward_range)
    except (TypeError, ValueError):
        raise ModelError(
            "reward_range", "two numbers, the least and the greatest reward", quote(reward_range)
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ModelError("reward_range", "two finite numbers, the least first", quote(reward_range))
    if bonus == "theory" and not 0 <= low <= high <= 1:
        hint = "divide the rewards, and epsilon, by the greatest"
        raise ModelError("reward_range", 'rewards from 0 to 1 with bonus="theory"', f"{low:g} to {high:g}", hint)
    if bonus == "theory" and random_rewards:
        raise ModelError("random_rewards", 'False with bonus="theory"', "True")
    vary = bonus != "theory" if random_rewards is None else bool(random_rewards)
    return Settings(
        float(epsilon), float(delta), bool(pool), bonus, float(bonus_scale), replan, (low, high), vary, int(seed)
    )


def check_runs(max_episodes: Any, checkpoint: Any, checkpoint_every: Any, *, resume: bool) -> None:
    """Raise a `ModelError` if a run cannot be so long, or has nothing to go on from."""
    for name, value in (("max_episodes", max_episodes), ("checkpoint_every", checkpoint_every)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ModelError(name, "a whole number of at least 1", quote(value))
    if resume and checkpoint is None:
        raise ModelError("resume", "checkpoint=... to go on from", "none")
