"""Outcomes in coarse ticks: continuous costs become bins, and outcomes that have become equal are merged.

A cost with distribution function F that is rounded down counts as k ticks of length l with probability
F((k + 1) l) - F(k l). The values of k are decided by the support alone: a bin may be so unlikely that its probability
is 0 in floating point and still be in the support. Sums over outcomes stay right: a dead end behind such a bin
contributes 0 times minus infinity, which is NaN, and no comparison takes NaN for better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MAX_TICKS, ExactColumn, common_unit
from solvent.core.limits import ResourceMonitor
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.distributions import CostDistribution
from solvent.model.lattice import AccountTicks
from solvent.model.rounding import round_to
from solvent.policy.nodes import Counting
from solvent.solvers.outcomes.merging import Columns, merge, rebuilt
from solvent.solvers.problem import TrueCosts

#: Measured memory of splitting: a few columns per resource and their copies, and fractions for edges.
_BYTES_PER_OUTCOME = 80
_BYTES_PER_BIN = 100
#: Approximate work per byte, in evaluations of outcomes.
_WORK_PER_BYTE = 10


@dataclass(frozen=True)
class Measure:
    """How the costs of one resource are counted.

    Attributes
    ----------
    resource : int
        Its position in the model.
    unit : Fraction
        Amount of one tick.
    counting : {"exact", "down", "up"}
    bottom : int or None
        The least number of ticks that a cost counts as, where distributions may be unbounded below.
    reach : Fraction
        Bound on the absolute value of every sum of its costs.
    fixed : tuple of Fraction
        What its account begins with and where it saturates, without amounts of 0.
    """

    resource: int
    unit: Fraction
    counting: Counting
    bottom: int | None
    reach: Fraction
    fixed: tuple[Fraction, ...] = ()


@dataclass(frozen=True)
class Parts:
    """A model with outcomes split into bins and merged, their ticks and their true costs.

    Attributes
    ----------
    lumped : bool
        Whether one bin holds all costs below a bottom, which a policy counts differently.
    error : float
        Bound on the total error of the probabilities of a row's outcomes, which those of bins have.
    """

    model: CMDP
    ticks_OD: NDArray[np.int64]
    truth: TrueCosts
    lumped: bool
    error: float


def split(model: CMDP, limits: Limits, measures: tuple[Measure, ...], monitor: ResourceMonitor | None = None) -> Parts:
    """Return the model in coarse ticks.

    Parameters
    ----------
    model : CMDP
    limits : Limits
    measures : tuple of Measure
        One for each tracked resource.
    monitor : ResourceMonitor, optional
        Time and memory limits; memory for the result stays reserved.

    Raises
    ------
    LimitReached
        If the bins would not fit into the memory limit.
    """
    monitor, size = monitor or ResourceMonitor(), _size(model, measures)
    what = "costs in ticks" if model.distribution_DO is None else "the bins of continuous costs"
    monitor.reserve(size, what)
    if model.distribution_DO is not None:
        monitor.expect(float(size * _WORK_PER_BYTE), what)
    units, columns, exact = [], Columns.of(model), True
    for measure in measures:
        unit, is_exact = _true_unit(model, measure)
        column = model.cost[measure.resource]
        columns.ticks.append(round_to(column, measure.unit, up=measure.counting == "up", monitor=monitor))
        columns.high.append(round_to(column, unit, up=True, monitor=monitor))
        columns.low.append(columns.high[-1] if is_exact else round_to(column, unit, up=False, monitor=monitor))
        monitor.check_time()
        units.append(unit)
        exact &= is_exact
    error = 0.0
    for d, measure in enumerate(measures):
        columns, wrong = _split_distributions(model, measure, d, units[d], columns, monitor)
        error += wrong
    columns = merge(model, columns)
    monitor.check_time()
    n_tracked = len(measures)
    ticks_OD, high_OD, low_OD = (
        np.stack(group, axis=1) if n_tracked else np.zeros((len(columns.source), 0), np.int64)
        for group in (columns.ticks, columns.high, columns.low)
    )
    lumped = any(
        _lowest(model.distributions[i], each) < _range(model.distributions[i], each)[0]
        for each in measures
        for i in _used_distributions(model, each.resource)
    )
    high, low = (AccountTicks.of(model, limits, units, (up,) * n_tracked) for up in (True, False))
    truth = TrueCosts(tuple(units), high_OD, low_OD, high, low, exact)
    parts = Parts(rebuilt(model, columns), ticks_OD, truth, lumped, error)
    monitor.release(size - min(size, len(columns.source) * (20 + 24 * n_tracked)))
    return parts


def _used_distributions(model: CMDP, resource: int) -> list[int]:
    if model.distribution_DO is None:
        return []
    used = model.distribution_DO[resource]
    return [int(i) for i in np.unique(used[used != NO_DISTRIBUTION])]


def _size(model: CMDP, measures: tuple[Measure, ...]) -> int:
    """Return the approximate number of bytes needed to split the distributions of a model into bins."""
    outcomes, bins = np.ones(model.n_outcomes), 0
    for measure in measures:
        for i in _used_distributions(model, measure.resource):
            assert model.distribution_DO is not None
            first, last = _range(model.distributions[i], measure)
            bins += last - first + 1
            outcomes[model.distribution_DO[measure.resource] == i] *= float(last - first + 1)
    return int(outcomes.sum()) * _BYTES_PER_OUTCOME * (1 + len(measures)) + bins * _BYTES_PER_BIN


def _true_unit(model: CMDP, measure: Measure) -> tuple[Fraction, bool]:
    """Return a unit for true costs, and whether it divides all of them and their bins."""
    if measure.counting == "exact":
        return measure.unit, True
    column = model.cost[measure.resource]
    used = [model.distributions[i] for i in _used_distributions(model, measure.resource)]
    ends = [end for each in used for end in (each.low, each.high) if end is not None]
    amounts = [*ends, *measure.fixed, *([measure.unit] if used else [])]
    unit = common_unit([*([column.unit] if column.ticks.any() else []), *amounts])
    if measure.reach <= MAX_TICKS * unit:
        return unit, True
    unit = Fraction(1)
    while 8 * measure.reach > MAX_TICKS * unit:
        unit *= 2
    while 0 < 16 * measure.reach <= MAX_TICKS * unit:
        unit /= 2
    return unit, False


def _split_distributions(
    model: CMDP, measure: Measure, d: int, true_unit: Fraction, columns: Columns, monitor: ResourceMonitor
) -> tuple[Columns, float]:
    """Return the outcomes with those of continuous cost of one resource split into bins, and the error of these."""
    used = _used_distributions(model, measure.resource)
    if not used:
        return columns, 0.0
    assert model.distribution_DO is not None
    bins = {}
    for i in used:
        monitor.check_time()
        bins[i] = _bins(model.distributions[i], measure, true_unit)
    which_O = model.distribution_DO[measure.resource][columns.source]
    sizes = np.ones(len(which_O), np.int64)
    for i in used:
        sizes[which_O == i] = len(bins[i].ticks)
    owner = np.repeat(np.arange(len(which_O)), sizes)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    parts = columns.take(owner)
    for i in used:
        at = np.flatnonzero(which_O[owner] == i)
        which = within[at]
        parts.probability[at] *= bins[i].probability[which]
        parts.ticks[d][at] = bins[i].ticks[which]
        parts.high[d][at] = bins[i].high[which]
        parts.low[d][at] = bins[i].low[which]
    return parts, max(each.error for each in bins.values())


@dataclass(frozen=True)
class _Bins:
    """The bins of a distribution: ticks, probabilities, ends of the true costs, and the error of all probabilities."""

    ticks: NDArray[np.int64]
    probability: NDArray[np.float64]
    high: NDArray[np.int64]
    low: NDArray[np.int64]
    error: float


def _bins(distribution: CostDistribution, measure: Measure, true_unit: Fraction) -> _Bins:
    up, unit = measure.counting == "up", measure.unit
    first, last = _range(distribution, measure)
    ticks = np.arange(first, last + 1)
    # bin k ends where k + 1 begins: at (k + 1) l if costs are rounded down, at k l if up
    edges = ticks[:-1] + (not up)
    at = edges * float(unit)
    below = distribution.cdf(at) if len(edges) else np.empty(0)
    error = 0.0
    if len(edges):
        # an edge and the ends of the support are rounded to floats; the function itself is accurate to 2**-50
        ends = [abs(float(end)) for end in (distribution.low, distribution.high) if end is not None]
        moved = 2.0**-51 * np.maximum(np.abs(at), max(ends))
        error = 2 * float((distribution.cdf(at + moved) - distribution.cdf(at - moved)).sum()) + len(edges) * 2.0**-49
    probability = np.diff(np.concatenate([[0.0], np.maximum.accumulate(below), [1.0]]))
    column = ExactColumn(edges, unit)
    lowest = (first - 1) * unit if distribution.low is None else distribution.low
    high = np.append(round_to(column, true_unit, up=True), _ceil(distribution.high, true_unit))
    low = np.append(_floor(lowest, true_unit), round_to(column, true_unit, up=False))
    return _Bins(ticks, np.maximum(probability, 0.0), high, low, error)


def _range(distribution: CostDistribution, measure: Measure) -> tuple[int, int]:
    """Return the first and the last bin of a distribution."""
    assert measure.bottom is not None
    first = int(max(_lowest(distribution, measure), measure.bottom))
    return first, max(_count(distribution.high, measure.unit, up=measure.counting == "up"), first)


def _lowest(distribution: CostDistribution, measure: Measure) -> float:
    """Return the ticks of the lower end of the support; minus infinity if it has none."""
    low = distribution.low
    return -math.inf if low is None else _count(low, measure.unit, up=measure.counting == "up")


def _count(amount: Fraction, unit: Fraction, *, up: bool) -> int:
    return _ceil(amount, unit) if up else _floor(amount, unit)


def _floor(amount: Fraction, unit: Fraction) -> int:
    return int(amount // unit)


def _ceil(amount: Fraction, unit: Fraction) -> int:
    return int(-(-amount // unit))
