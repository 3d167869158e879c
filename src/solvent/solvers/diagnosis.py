"""Diagnosis of infeasible problems: the budget that would be needed, and the step at which every policy fails."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.nodes import Counting
from solvent.solvers.accuracy import ROUNDOFF
from solvent.solvers.arrays import ModelArrays
from solvent.solvers.base import Answer, Run
from solvent.solvers.bounds.bounds import bounds_of
from solvent.solvers.bounds.kernels import unlimited_value
from solvent.solvers.choice import solve_problem
from solvent.solvers.problem import Problem, TrueCosts
from solvent.solvers.registry import AUTO
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
    # all solves are about feasibility, and most methods are faster if they need not find the best policy
    model = replace(model, row_reward=np.zeros_like(model.row_reward), end_reward=None)
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
        if _is_plain(limits, d):
            ticks = int(lattice.upper_HD[:, d].min())
            least[name] = None if missing is None else lattice.amount(d, ticks + missing)
    goal, stuck, is_first, at = None, None, True, None
    if model.may_end is not None:
        goal = "unreachable" if relaxed_value(model) == -np.inf else "with limits"
    anywhere = model if model.may_end is None else replace(model, may_end=None)
    with contextlib.suppress(LimitReached):
        if model.may_end is None or not _feasible(anywhere, lattice, monitor):
            goal = goal if goal == "unreachable" else None
            stuck, is_first = stuck_step(anywhere, lattice, monitor)
            at = (
                _stuck_at(anywhere, lattice, stuck, monitor)
                if is_first and model.n_states > 1 and _is_path(model)
                else None
            )
    constraints = len(limits.resources) + (model.may_end is not None)
    blame = _blame(model, lattice, monitor)
    extra = _sufficient(model, lattice, limits, shortfall, monitor) if constraints > 1 else {}
    enough = _raised(limits, extra)
    together: dict[str, Fraction] = {}
    if len(blame) > 1 and GOAL not in blame:
        together = _raised(limits, _sufficient_together(model, lattice, limits, blame, monitor))
    return Diagnosis(
        least, shortfall, stuck, is_first, tuple(unknown), goal, blame, constraints, enough, extra,
        together if len(together) == len(blame) else {}, at,
    )  # fmt: skip


def _raised(limits: Limits, extra: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Return the limits of resources that have one upper limit, raised by given amounts."""
    raised = {}
    for d, name in enumerate(limits.resources):
        if name in extra and _is_plain(limits, d):
            raised[name] = next(limit for limit in limits.upper[d] if limit is not None) + extra[name]
    return raised


def _is_path(model: CMDP) -> bool:
    """Return whether a policy is a path: nothing is random, not even the first state."""
    return model.is_deterministic and not isinstance(model.start, dict)


def _is_plain(limits: Limits, d: int) -> bool:
    """Return whether a resource has one upper limit, at all steps that have any, and no lower one."""
    upper = {limit for limit in limits.upper[d] if limit is not None}
    return len(upper) == 1 and all(limit is None for limit in limits.lower[d])


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


def _sufficient(
    model: CMDP,
    lattice: Lattice,
    limits: Limits,
    shortfall: Mapping[str, Fraction | None],
    monitor: ResourceMonitor,
) -> dict[str, Fraction]:
    """Return the amounts by which the limits of single resources must be relaxed while all others are kept.

    Resources for which no amount is enough, or for which there is no time, are left out.
    """
    enough: dict[str, Fraction] = {}
    with contextlib.suppress(LimitReached):
        for d, name in enumerate(lattice.resources):
            others = [e for e in range(len(lattice.resources)) if e != d]
            unit, alone = lattice.units[d], shortfall.get(name, Fraction(0))
            if alone is None or any(limit % unit for limit in limits.distinct(d)):
                continue
            if _feasible(model, _only(lattice, others), monitor):
                ticks = _least_widening(model, lattice, d, monitor, known=int(alone / unit))
                if ticks is not None:
                    enough[name] = ticks * unit
    return enough


def _sufficient_together(
    model: CMDP, lattice: Lattice, limits: Limits, blame: tuple[str, ...], monitor: ResourceMonitor
) -> dict[str, Fraction]:
    """Return amounts by which limits of several resources must be relaxed so that none of them can be relaxed less.

    One resource after the other is relaxed by as little as possible, while those that follow are unlimited. Empty if
    there is no time.
    """
    enough: dict[str, Fraction] = {}
    at = [lattice.resources.index(name) for name in blame]
    upper, lower = lattice.upper_HD.copy(), lattice.lower_HD.copy()
    upper[:, at], lower[:, at] = PLUS_INFINITY, MINUS_INFINITY
    try:
        for d in at:
            if any(limit % lattice.units[d] for limit in limits.distinct(d)):
                return {}
            upper[:, d], lower[:, d] = lattice.upper_HD[:, d], lattice.lower_HD[:, d]
            ticks = _least_widening(model, replace(lattice, upper_HD=upper, lower_HD=lower), d, monitor)
            if ticks is None:
                return {}
            enough[lattice.resources[d]] = ticks * lattice.units[d]
            upper[:, d] = _widened(upper[:, d], ticks, PLUS_INFINITY)
            lower[:, d] = _widened(lower[:, d], -ticks, MINUS_INFINITY)
    except LimitReached:
        return {}
    return enough


def _widened(ticks_H: NDArray[np.int64], by: int, none: int) -> NDArray[np.int64]:
    """Return limits after each step, moved by some ticks where there is one."""
    return np.where(ticks_H == none, none, ticks_H + by)


def _stuck_at(
    model: CMDP, lattice: Lattice, step: int, monitor: ResourceMonitor
) -> tuple[Hashable, tuple[str, ...]] | None:
    """Return where a path ends that keeps all limits before a step, and the resources whose limits are broken there.

    The model has no randomness. None if the episode is over before that step.
    """
    state, spent_D = model.start_index, lattice.initial_D
    limited = _until(lattice, step)
    kept = _limited(limited)
    answer = _solve(model, limited, monitor)
    assert answer.make_policy is not None
    policy = answer.make_policy()

    def after(row: int) -> NDArray[np.int64]:
        spent: NDArray[np.int64] = np.clip(spent_D + lattice.cost_OD[row], lattice.floor_D, lattice.ceiling_D)
        return spent

    for h in range(step):
        action = policy.action_index(h, state, spent_D[kept].tolist())
        row = next((row for row in model.rows(h, state) if model.row_action[row] == action), None)
        if row is None:
            return None
        state, spent_D = int(model.next_state[row]), after(row)
    broken = np.zeros(len(lattice.resources), bool)
    for row in model.rows(step, state):
        broken |= (after(row) > lattice.upper_HD[step]) | (after(row) < lattice.lower_HD[step])
    names = tuple(name for name, breaks in zip(lattice.resources, broken.tolist(), strict=True) if breaks)
    return (model.states[state], names) if names else None


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
        return _least_widening(model, alone, 0, monitor)
    if alone.saturates:  # limits that are moved are no longer a shift of the amounts
        return _least_widening(model, alone, 0, monitor)
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


def _least_widening(model: CMDP, lattice: Lattice, d: int, monitor: ResourceMonitor, known: int = 0) -> int | None:
    """Return by how many ticks the limits of one resource must be widened, on both sides, for a policy to be feasible.

    By bisection on exact solves, from `known` ticks on, which are not more than needed. None if no number is enough.
    """

    def feasible(extra: int) -> bool:
        upper, lower = lattice.upper_HD.copy(), lattice.lower_HD.copy()
        upper[:, d] = _widened(upper[:, d], extra, PLUS_INFINITY)
        lower[:, d] = _widened(lower[:, d], -extra, MINUS_INFINITY)
        return _feasible(model, replace(lattice, upper_HD=upper, lower_HD=lower), monitor)

    if feasible(known):
        return known
    cost, limits = lattice.cost_OD[:, d], (lattice.upper_HD[:, d], lattice.lower_HD[:, d])
    most = int(np.abs(cost).max(initial=0)) * model.horizon
    finite = [int(abs(x)) for side in limits for x in side if x not in (PLUS_INFINITY, MINUS_INFINITY)]
    fixed = sum(abs(int(each[d])) for each in lattice.accounts if each[d] not in (PLUS_INFINITY, MINUS_INFINITY))
    enough = min(most + max(finite, default=0) + fixed, 2**61)
    if not feasible(enough):
        return None
    low, high, stride = known, enough, 1
    while low + stride < high:  # steps that double, as small numbers are frequent and take less time
        if feasible(low + stride):
            high = low + stride
            break
        low, stride = low + stride, 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if feasible(middle) else (middle, high)
    return high


def _feasible(model: CMDP, lattice: Lattice, monitor: ResourceMonitor) -> bool:
    """Return whether some policy keeps the limits."""
    used = monitor.used
    try:
        return _solve(model, lattice, monitor).feasible
    finally:
        monitor.release(monitor.used - used)


def _limited(lattice: Lattice) -> list[int]:
    """Return the resources that have a limit at any step, by position."""
    limited_HD = (lattice.upper_HD != PLUS_INFINITY) | (lattice.lower_HD != MINUS_INFINITY)
    return np.flatnonzero(limited_HD.any(0)).tolist()


def _solve(model: CMDP, lattice: Lattice, monitor: ResourceMonitor) -> Answer:
    """Solve a problem that differs from the user's by its limits, with the method that is expected to be fastest."""
    kept = _limited(lattice)
    if len(kept) < len(lattice.resources):
        lattice = _only(lattice, kept)

    def side(ticks_HD: NDArray[np.int64], none: int) -> tuple[tuple[Fraction | None, ...], ...]:
        return tuple(
            tuple(None if ticks == none else lattice.amount(d, ticks) for ticks in ticks_HD[:, d].tolist())
            for d in range(len(lattice.resources))
        )

    initial = tuple(lattice.amount(d, int(ticks)) for d, ticks in enumerate(lattice.initial_D))
    upper, lower = side(lattice.upper_HD, PLUS_INFINITY), side(lattice.lower_HD, MINUS_INFINITY)
    limits = Limits(lattice.resources, upper, lower, initial)
    truth = TrueCosts(
        lattice.units, lattice.cost_OD, lattice.cost_OD, lattice.accounts, lattice.accounts, exact=True
    )  # fmt: skip
    exactly: Counting = "exact"
    problem = Problem(model, limits, model, lattice, (exactly,) * len(kept), truth)
    return solve_problem(problem, AUTO, Run(monitor))


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
