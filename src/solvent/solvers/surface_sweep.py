"""The values of all budgets of one or several resources, from one sweep.

Let a problem have the limits M and no saturation. What matters is how much may still be spent, so that the optimum with
limits b <= M, of which x has been spent before the first step, is the optimum with the limits M of which x + M - b has
been spent. One backward sweep over boxes of amounts (`solvent.solvers.grid.sweep`) has the values of all amounts spent
before the first step, and so of all budgets. If a resource saturates, the same sweep has the values of all amounts that
remain of the limit M.

Budgets are distinguished up to the unit of costs. Per resource, less than the safe amount is infeasible, and a budget
that no policy can spend is as good as a larger one; in between, values are kept in a table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import LatticeOverflowError
from solvent.model.amounts import format_amount
from solvent.solvers.accuracy import SAME_POINT
from solvent.solvers.base import Run
from solvent.solvers.bounds.bounds import Interval, bounds_of
from solvent.solvers.grid.sweep import sweep_starts
from solvent.solvers.grid.swept import Swept
from solvent.solvers.problem import Problem
from solvent.solvers.registry import get
from solvent.solvers.starts import expectations_error, expected_values

#: Budgets whose values are looked up at a time.
_PIECE = 1 << 18


@dataclass(frozen=True)
class Axis:
    """The budgets of one resource that a table distinguishes.

    Attributes
    ----------
    name : str
    unit : Fraction
        Amount of one tick.
    low : int
        The least budget, in ticks; with less, nothing is feasible.
    size : int
        Number of budgets; the largest is as good as all larger ones that the table is about.
    """

    name: str
    unit: Fraction
    low: int
    size: int

    def amount(self, index: int) -> Fraction:
        """Return the budget at an index."""
        return (self.low + int(index)) * self.unit

    def index(self, amount: Fraction) -> int:
        """Return the index of the largest budget up to an amount; negative if there is none."""
        return min(int(amount // self.unit) - self.low, self.size - 1)


@dataclass(frozen=True)
class SurfaceValues:
    """The values of all budgets.

    Attributes
    ----------
    axes : tuple of Axis
        One per resource that varies.
    table : ndarray of float64, one dimension per axis
        The optimal value; minus infinity where nothing is feasible. It never decreases along an axis.
    error : float
        Bound on the difference between any value and the optimum.
    """

    axes: tuple[Axis, ...]
    table: NDArray[np.float64]
    error: float


def sweep_surface(
    problem: Problem,
    origins: Mapping[str, Fraction],
    run: Run,
    *,
    from_zero: bool,
) -> SurfaceValues:
    """Return the values of all budgets of a problem: with the budget b, `origin - b` is spent before the first step.

    The amount that the problem has spent before the first step belongs to the largest budget.

    Parameters
    ----------
    problem : Problem
        Exact. The resources that vary have one upper limit for all steps; others may have any limits.
    origins : mapping of Fraction by resource
        For each resource that varies, a multiple of its unit.
    run : Run
    from_zero : bool
        Whether budgets below 0 are of no interest.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    lattice, monitor = problem.lattice, run.monitor
    settled_D, safe_D = _start_bounds(problem, monitor)
    low_D, high_D = lattice.initial_D.copy(), lattice.initial_D.copy()
    axes, order = [], []
    for name, amount in origins.items():
        d = lattice.resources.index(name)
        origin, between = divmod(amount, lattice.units[d])
        if between:  # only if no unit of 64 bits divides this amount too
            raise LatticeOverflowError(
                f"resource {name!r}: expected a limit that is a multiple of {format_amount(lattice.units[d])}, the "
                f"unit of its costs, found {format_amount(amount)}; give the limit fewer digits"
            )
        most = min(int(safe_D[d]), origin) if from_zero else int(safe_D[d])
        least = max(int(low_D[d]), min(int(settled_D[d]), most))
        low_D[d], high_D[d] = least, most
        axes.append(Axis(name, lattice.units[d], origin - most, max(most - least + 1, 0)))
        order.append(d)
    count = math.prod(axis.size for axis in axes)
    if not count:
        return SurfaceValues(tuple(axes), np.zeros([axis.size for axis in axes]), 0.0)
    monitor.reserve(8 * count, f"the values of {count:,} budgets")
    refusal = get("grid").accepts(problem)
    if refusal is not None:
        raise LimitReached(f"its sweep needs {refusal.expected}, found {refusal.found}")
    found = sweep_starts(problem, low_D, high_D, monitor, run.engine)
    table, start_error = _expected(problem, order, [axis.size for axis in axes], high_D, found, monitor)
    for d in range(table.ndim):  # a larger budget is never worse, and rounding errors must not make it so
        np.maximum.accumulate(table, axis=d, out=table)
    with monitor.borrowed(32 * count, "merging values"):
        table, merged = _merged(table)
    monitor.check_time()
    feasible = table > -np.inf
    if not feasible.any():
        return SurfaceValues(tuple(axes), table, 0.0)
    rounding, least_value = problem.rounding(pooled=False), float(table[feasible].min())
    errors = found.extremes.above(least_value, rounding), found.extremes.below(least_value, rounding)
    return _trimmed(SurfaceValues(tuple(axes), table, max(errors) + start_error + merged))


def _start_bounds(problem: Problem, monitor: ResourceMonitor) -> Interval:
    """Return, per resource, the most spent before the first step that is settled, and the most that is not doomed."""
    model, shape = problem.model, (4, problem.model.horizon + 1, problem.model.n_states, len(problem.limits.resources))
    bounds = bounds_of(model, problem.lattice, monitor)
    ends = tuple(each[0, model.start_states].min(0) for each in (bounds.settled_high, bounds.safe_high))
    monitor.release(8 * math.prod(shape))
    return ends[0], ends[1]


def _expected(
    problem: Problem,
    order: list[int],
    shape: list[int],
    high_D: NDArray[np.int64],
    found: Swept,
    monitor: ResourceMonitor,
) -> tuple[NDArray[np.float64], float]:
    """Return the table of expectations over first states, and a bound on their rounding errors."""
    table, error = np.empty(math.prod(shape)), 0.0
    n_starts = len(problem.model.start_states)
    piece = max(_PIECE // n_starts, 1)
    with monitor.borrowed(8 * piece * (2 * len(high_D) + 3 * n_starts), "looking up values"):
        for begin in range(0, len(table), piece):
            monitor.check_time()
            at = np.arange(begin, min(begin + piece, len(table)))
            spent_ND = np.repeat(high_D[None, :], len(at), 0)
            spent_ND[:, order] -= np.stack(np.unravel_index(at, shape), 1)
            value_NS = found.value_of(spent_ND)
            table[at] = expected_values(problem.model, value_NS)
            error = max(error, expectations_error(problem.model, value_NS))
    return table.reshape(shape), error


def _merged(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return a table in which values that differ by rounding errors are equal, and a bound on the changes.

    Each value is replaced by the least one that it exceeds by no more than a share `SAME_POINT`, or by the value that
    replaces that one. The order of values stays the same.
    """
    values = np.unique(table[table > -np.inf])
    near = np.zeros(len(values), bool)
    near[1:] = np.diff(values) <= SAME_POINT * np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    if not near.any():
        return table, 0.0
    kept = values.copy()
    for i in np.flatnonzero(near).tolist():
        first, value = kept[i - 1], values[i]
        if value - first <= SAME_POINT * max(abs(first), abs(value)):
            kept[i] = first
    feasible = table > -np.inf
    table[feasible] = kept[np.searchsorted(values, table[feasible])]
    return table, float((values - kept).max() * (1 + 2.0**-40))


def _trimmed(found: SurfaceValues) -> SurfaceValues:
    """Return the values without budgets of a resource with which nothing is feasible, whatever the others are."""
    table, axes = found.table, list(found.axes)
    for d, axis in enumerate(axes):
        # with the largest budgets of all others
        line = table[tuple(slice(None) if e == d else -1 for e in range(table.ndim))]
        skipped = int(np.argmax(line > -np.inf))
        table = table[(slice(None),) * d + (slice(skipped, None),)]
        axes[d] = replace(axis, low=axis.low + skipped, size=axis.size - skipped)
    return replace(found, axes=tuple(axes), table=np.ascontiguousarray(table))
