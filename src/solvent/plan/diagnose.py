"""Why nothing is feasible: how much budget it would take, and how far anyone can get."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from solvent.core.limits import Allowance, LimitReached
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.model.rounding import NO_LOWER, NO_UPPER
from solvent.plan import reduction
from solvent.plan.bound_kernels import DOWN, UP, unlimited_value
from solvent.plan.bounds import bounds_of
from solvent.plan.solution import Diagnosis


def relaxed_value(model: CMDP) -> float:
    """Return the optimal value without any limits: an upper bound, whatever the budget."""
    return float(
        unlimited_value(
            model.table_of_step, model.row_indptr, model.outcome_indptr, model.probability, model.next_state,
            model.row_reward, model.n_states, model.start_index,
        )
    )  # fmt: skip


def diagnose(model: CMDP, lattice: Lattice, limits: Limits, allowance: Allowance) -> Diagnosis:
    """Say what stands in the way of any feasible policy, within an allowance for what is not cheap to find."""
    least: dict[str, Fraction | None] = {}
    shortfall: dict[str, Fraction | None] = {}
    unknown: list[str] = []
    for d, name in enumerate(limits.resources):
        try:
            missing = _missing_ticks(model, lattice, d, allowance)
        except LimitReached:
            unknown.append(name)
            continue
        if missing == 0:
            continue
        shortfall[name] = None if missing is None else lattice.amount(d, missing)
        upper = {limit for limit in limits.upper[d] if limit is not None}
        if len(upper) == 1 and all(limit is None for limit in limits.lower[d]):
            ticks = int(lattice.upper_HD[:, d].min())
            least[name] = None if missing is None else lattice.amount(d, ticks + missing)
    stuck, is_first = _stuck_step(model, lattice, allowance)
    return Diagnosis(least, shortfall, stuck, is_first, tuple(unknown))


def _alone(lattice: Lattice, d: int) -> Lattice:
    """Return the lattice of one of its resources."""
    return replace(
        lattice,
        resources=(lattice.resources[d],),
        units=(lattice.units[d],),
        cost_OD=np.ascontiguousarray(lattice.cost_OD[:, d : d + 1]),
        upper_HD=np.ascontiguousarray(lattice.upper_HD[:, d : d + 1]),
        lower_HD=np.ascontiguousarray(lattice.lower_HD[:, d : d + 1]),
    )


def _missing_ticks(model: CMDP, lattice: Lattice, d: int, allowance: Allowance) -> int | None:
    """Return by how many ticks one resource's limits are too tight by themselves; None if slack cannot help."""
    alone = _alone(lattice, d)
    if (alone.upper_HD != NO_UPPER).any() and (alone.lower_HD != NO_LOWER).any():
        return _missing_interval(model, alone, allowance)
    bounds = bounds_of(model, alone, Allowance())
    start = model.start_index
    # with limits on one side only one of these is finite: how far 0 lies outside of what is safe
    high, low = int(bounds.safe_high[0, start, 0]), int(bounds.safe_low[0, start, 0])
    if high == DOWN or low == UP:
        return None
    above = 0 if high == UP else -high
    below = 0 if low == DOWN else low
    return max(0, above, below)


def _missing_interval(model: CMDP, alone: Lattice, allowance: Allowance) -> int | None:
    """Find, by bisection on exact solves, by how much an interval must be widened on both sides."""

    def feasible(extra: int) -> bool:
        upper = np.where(alone.upper_HD == NO_UPPER, NO_UPPER, alone.upper_HD + extra)
        lower = np.where(alone.lower_HD == NO_LOWER, NO_LOWER, alone.lower_HD - extra)
        return _feasible(model, replace(alone, upper_HD=upper, lower_HD=lower), allowance)

    if feasible(0):
        return 0
    most = int(np.abs(alone.cost_OD).max(initial=0)) * model.horizon
    finite = [int(abs(x)) for x in (*alone.upper_HD.flat, *alone.lower_HD.flat) if x not in (NO_UPPER, NO_LOWER)]
    low, high = 0, min(most + max(finite, default=0), 2**61)
    if not feasible(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if feasible(middle) else (middle, high)
    return high


def _feasible(model: CMDP, lattice: Lattice, allowance: Allowance) -> bool:
    allowance.used = 0
    return reduction.reduce(model, lattice, allowance).value > -np.inf


def _until(lattice: Lattice, steps: int) -> Lattice:
    """Return the lattice with limits only on the first so many steps."""
    upper, lower = lattice.upper_HD.copy(), lattice.lower_HD.copy()
    upper[steps:], lower[steps:] = NO_UPPER, NO_LOWER
    return replace(lattice, upper_HD=upper, lower_HD=lower)


def _stuck_step(model: CMDP, lattice: Lattice, allowance: Allowance) -> tuple[int, bool]:
    """Return the first step that no policy is sure to survive, and whether an earlier one can be ruled out.

    The limits are cut off after some step; the more of them are left, the less can survive them, so bisection will do.
    The bounds of each resource by itself are cheap and cap the search; the rest takes exact solves.
    """

    def start_is_safe(steps: int) -> bool:
        bounds = bounds_of(model, _until(lattice, steps), Allowance())
        start = model.start_index
        return bool((bounds.safe_low[0, start] <= 0).all() and (bounds.safe_high[0, start] >= 0).all())

    good, bad = 0, model.horizon
    if not start_is_safe(bad):
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if start_is_safe(middle) else (good, middle)
    good = 0
    try:
        if len(lattice.resources) > 1 or (
            (lattice.lower_HD != NO_LOWER).any() and (lattice.upper_HD != NO_UPPER).any()
        ):
            while bad - good > 1:
                middle = (good + bad) // 2
                survives = _feasible(model, _until(lattice, middle), allowance)
                good, bad = (middle, bad) if survives else (good, middle)
    except LimitReached:
        return bad - 1, False
    return bad - 1, True
