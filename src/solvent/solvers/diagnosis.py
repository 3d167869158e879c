"""Diagnosis of infeasible problems: the budget that would be needed, and the step at which every policy fails."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.solvers.accuracy import ROUNDOFF
from solvent.solvers.arrays import ModelArrays
from solvent.solvers.bounds.bounds import bounds_of
from solvent.solvers.bounds.kernels import unlimited_value
from solvent.solvers.reduction.reduce import reduce
from solvent.solvers.solution import GOAL, Diagnosis
from solvent.solvers.starts import expectation_error, expected_value

#: Time for an upper bound once a time limit has been reached: seconds, and share of the limit; the larger one holds.
_GRACE, _GRACE_SHARE = 0.1, 0.03


def relaxed_value(model: CMDP, seconds: float | None = None) -> float:
    """Return an upper bound on the value for any budget: the optimal value without limits.

    If `seconds`, a time limit, is given, computing it takes at most a small part of that time; if that is not enough,
    the bound is the sum of the largest rewards of all steps.
    """
    value = np.inf
    grace = None if seconds is None else max(_GRACE, _GRACE_SHARE * seconds)
    with contextlib.suppress(LimitReached), ResourceMonitor(grace) as monitor:
        values = unlimited_value(ModelArrays.of(model), model.n_states, monitor.halt)[model.start_states].tolist()
        value = expected_value(model, values) + expectation_error(model, values)
    if value < np.inf:
        return float(value)
    ends = model.row_indptr[:: model.n_states][: model.n_tables + 1]
    best = np.array([model.row_reward[a:b].max(initial=0.0) for a, b in itertools.pairwise(ends)])
    end = 0.0 if model.end_reward is None else model.end_reward.max(initial=0.0)
    total = math.fsum([*best[model.table_of_step].tolist(), float(end)])
    return total + 4 * ROUNDOFF * model.horizon * abs(total)


def diagnose(model: CMDP, lattice: Lattice, limits: Limits, monitor: ResourceMonitor) -> Diagnosis:
    """Return why no policy is feasible, as far as time and memory allow."""
    least: dict[str, Fraction | None] = {}
    shortfall: dict[str, Fraction | None] = {}
    unknown: list[str] = []
    for d, name in enumerate(limits.resources):
        try:
            missing = _missing_ticks(model, lattice, d, monitor)
            short = None if missing is None else _shortfall(model, lattice, limits, d, missing, monitor)
        except LimitReached:
            unknown.append(name)
            continue
        if missing == 0:
            continue
        shortfall[name] = short
        upper = {limit for limit in limits.upper[d] if limit is not None}
        if len(upper) == 1 and all(limit is None for limit in limits.lower[d]):
            ticks = int(lattice.upper_HD[:, d].min())
            least[name] = None if missing is None else lattice.amount(d, ticks + missing)
    goal, stuck, is_first = None, None, True
    if model.may_end is not None:
        goal = "unreachable" if relaxed_value(model) == -np.inf else "with limits"
    anywhere = model if model.may_end is None else replace(model, may_end=None)
    with contextlib.suppress(LimitReached):
        if model.may_end is None or not _feasible(anywhere, lattice, monitor):
            goal = goal if goal == "unreachable" else None
            stuck, is_first = stuck_step(anywhere, lattice, monitor)
    constraints = len(limits.resources) + (model.may_end is not None)
    blame = _blame(model, lattice, monitor)
    return Diagnosis(least, shortfall, stuck, is_first, tuple(unknown), goal, blame, constraints)


def _blame(model: CMDP, lattice: Lattice, monitor: ResourceMonitor) -> tuple[str, ...]:
    """Return a smallest set of constraints whose removal makes the problem feasible; empty if time runs out."""
    goals = () if model.may_end is None else (GOAL,)
    constraints = (*lattice.resources, *goals)
    if len(constraints) == 1:
        return constraints
    try:
        for size in range(1, len(constraints)):
            for removed in itertools.combinations(constraints, size):
                kept = [d for d, name in enumerate(lattice.resources) if name not in removed]
                without = replace(model, may_end=None) if GOAL in removed else model
                if _feasible(without, _only(lattice, kept), monitor):
                    return removed
    except LimitReached:
        return ()
    return constraints


def _only(lattice: Lattice, kept: list[int]) -> Lattice:
    """Return the lattice of some resources."""
    return Lattice(
        tuple(lattice.resources[d] for d in kept),
        tuple(lattice.units[d] for d in kept),
        *(np.ascontiguousarray(each[:, kept]) for each in (lattice.cost_OD, lattice.upper_HD, lattice.lower_HD)),
        *(each[kept] for each in lattice.accounts),
    )


def _missing_ticks(model: CMDP, lattice: Lattice, d: int, monitor: ResourceMonitor) -> int | None:
    """Return how many ticks one resource's limits, taken alone, are too tight; None if no slack is enough."""
    alone = _only(lattice, [d])
    if (alone.upper_HD != PLUS_INFINITY).any() and (alone.lower_HD != MINUS_INFINITY).any():
        return _missing_interval(model, alone, monitor)
    if alone.saturates:  # limits that are moved are no longer a shift of the amounts
        return _missing_interval(model, alone, monitor)
    used = monitor.used
    bounds = bounds_of(model, alone, monitor)
    monitor.release(monitor.used - used)
    starts, initial = model.start_states, int(alone.initial_D[0])
    # with limits on one side, only one of these is finite: the distance of the initial amount from the safe ones
    high, low = int(bounds.safe_high[0, starts, 0].min()), int(bounds.safe_low[0, starts, 0].max())
    if high == MINUS_INFINITY or low == PLUS_INFINITY:
        return None
    above = 0 if high == PLUS_INFINITY else initial - high
    below = 0 if low == MINUS_INFINITY else low - initial
    return max(0, above, below)


def _shortfall(
    model: CMDP, lattice: Lattice, limits: Limits, d: int, missing: int, monitor: ResourceMonitor
) -> Fraction:
    """Return the least amount by which one resource's limits are too tight, given the least number of ticks.

    A limit between two ticks was tightened by a part of a tick. If all limits are widened by `missing` ticks less that
    part, this limit moves by `missing` ticks, and limits that were tightened by a smaller part move by one tick less.
    """
    unit, alone = lattice.units[d], _only(lattice, [d])
    if missing == 0 or all(limit % unit == 0 for limit in limits.distinct(d)):
        return missing * unit
    upper = [None if limit is None else limit % unit for limit in limits.upper[d]]
    lower = [None if limit is None else -limit % unit for limit in limits.lower[d]]
    parts = sorted({part for part in (*upper, *lower) if part is not None}, reverse=True)

    def enough(part: Fraction) -> bool:
        def moved(side: list[Fraction | None]) -> NDArray[np.int64]:
            return np.array([missing - (each is not None and each < part) for each in side])[:, None]

        upper_HD = np.where(alone.upper_HD == PLUS_INFINITY, PLUS_INFINITY, alone.upper_HD + moved(upper))
        lower_HD = np.where(alone.lower_HD == MINUS_INFINITY, MINUS_INFINITY, alone.lower_HD - moved(lower))
        return _missing_ticks(model, replace(alone, upper_HD=upper_HD, lower_HD=lower_HD), 0, monitor) == 0

    at = bisect.bisect_left(range(len(parts) - 1), True, key=lambda i: enough(parts[i]))
    return missing * unit - parts[at]


def _missing_interval(model: CMDP, alone: Lattice, monitor: ResourceMonitor) -> int | None:
    """Return by how many ticks an interval must be widened on both sides, by bisection on exact solves."""

    def feasible(extra: int) -> bool:
        upper = np.where(alone.upper_HD == PLUS_INFINITY, PLUS_INFINITY, alone.upper_HD + extra)
        lower = np.where(alone.lower_HD == MINUS_INFINITY, MINUS_INFINITY, alone.lower_HD - extra)
        return _feasible(model, replace(alone, upper_HD=upper, lower_HD=lower), monitor)

    if feasible(0):
        return 0
    most = int(np.abs(alone.cost_OD).max(initial=0)) * model.horizon
    finite = [
        int(abs(x)) for x in (*alone.upper_HD.flat, *alone.lower_HD.flat) if x not in (PLUS_INFINITY, MINUS_INFINITY)
    ]
    fixed = sum(abs(int(x)) for each in alone.accounts for x in each if x not in (PLUS_INFINITY, MINUS_INFINITY))
    low, high = 0, min(most + max(finite, default=0) + fixed, 2**61)
    if not feasible(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if feasible(middle) else (middle, high)
    return high


def _feasible(model: CMDP, lattice: Lattice, monitor: ResourceMonitor) -> bool:
    """Return whether some policy keeps the limits."""
    used = monitor.used
    try:
        return reduce(model, lattice, monitor).value > -np.inf
    finally:
        monitor.release(monitor.used - used)


def _until(lattice: Lattice, steps: int) -> Lattice:
    """Return the lattice with limits on the first `steps` steps only."""
    upper, lower = lattice.upper_HD.copy(), lattice.lower_HD.copy()
    upper[steps:], lower[steps:] = PLUS_INFINITY, MINUS_INFINITY
    return replace(lattice, upper_HD=upper, lower_HD=lower)


def stuck_step(model: CMDP, lattice: Lattice, monitor: ResourceMonitor) -> tuple[int, bool]:
    """Return the first step after which every policy may have broken a limit, and whether it is certainly the first.

    The step is found by bisection on the number of steps that have limits: more limits are harder to keep. The bounds
    of each resource alone are cheap and give an upper end; the rest takes exact solves.
    """

    def start_is_safe(steps: int) -> bool:
        used = monitor.used
        bounds = bounds_of(model, _until(lattice, steps), monitor)
        monitor.release(monitor.used - used)
        starts, initial = model.start_states, lattice.initial_D
        return bool((bounds.safe_low[0, starts] <= initial).all() and (bounds.safe_high[0, starts] >= initial).all())

    good, bad = 0, model.horizon
    try:
        if not start_is_safe(bad):
            while bad - good > 1:
                middle = (good + bad) // 2
                good, bad = (middle, bad) if start_is_safe(middle) else (good, middle)
        good = 0
        if len(lattice.resources) > 1 or (
            (lattice.lower_HD != MINUS_INFINITY).any() and (lattice.upper_HD != PLUS_INFINITY).any()
        ):
            while bad - good > 1:
                middle = (good + bad) // 2
                survives = _feasible(model, _until(lattice, middle), monitor)
                good, bad = (middle, bad) if survives else (good, middle)
    except LimitReached:
        return bad - 1, False
    return bad - 1, True
