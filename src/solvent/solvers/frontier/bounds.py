"""Bounds on the amount left at each step and state, from which the representation of frontiers is chosen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.solvers.arrays import ModelArrays
from solvent.solvers.frontier.bounds_kernels import Ranges, StartRange, fill_ranges
from solvent.solvers.frontier.point_kernels import points_per_node
from solvent.solvers.frontier.resource import SingleResource

#: Arrays are used if no state has more amounts than this between need and top,
DENSE_WIDTH = 4096
#: and if the amounts in total, times the outcomes of a row after the first, are at least this many.
DENSE_FROM = 5_000
#: What rows of one outcome, whose points are only shifted, count as instead.
_ONE_OUTCOME = 0.25
#: If a row has at least this many outcomes, arrays are used up to a larger width.
MANY_OUTCOMES = 16
DENSE_WIDTH_OF_MANY = 2**20
#: How much more a node of the reduction costs than a point.
_NODES_PER_POINT = 8


class FrontierBounds:
    """Bounds on the amount left at each step and state.

    Memory for them stays reserved.

    Parameters
    ----------
    model : CMDP
    resource : SingleResource
    monitor : ResourceMonitor
    start_low, start_high : int
        Range of amounts left at the start for which the frontier is wanted. If `start_low` is None, the range begins
        with the least feasible amount.

    Attributes
    ----------
    arrays : ModelArrays
    ranges : Ranges
        All bounds.
    settled : int
        The least amount at the start from which on no policy can break a limit.
    need_HS, top_HS : ndarray of int64, shape (H, S)
        Range of amounts for which values differ: below, nothing is feasible; above, the value does not change. Empty
        where `top` is less than `need`.
    widest, amounts : float
        The largest number of amounts of a (step, state), and the total over all of them.
    has_one_start : bool
        Whether the frontier is wanted for a single amount at the start.
    bytes : int
        Memory that stays reserved.

    Raises
    ------
    LimitReached
        If the bounds do not fit into the memory limit, or the time limit is reached.
    """

    #: Number of arrays with one number per step and state.
    _ARRAYS = 4
    #: Memory for joining outcomes, by row and by state.
    _BYTES_PER_OUTCOME, _BYTES_PER_ROW = 40, 24

    def __init__(
        self,
        model: CMDP,
        resource: SingleResource,
        monitor: ResourceMonitor,
        start_low: int | None,
        start_high: int,
    ) -> None:
        self.model, self.resource, self.arrays = model, resource, ModelArrays.of(model)
        n_steps, n_states = model.horizon, model.n_states
        self.bytes = 8 * self._ARRAYS * (n_steps + 1) * n_states
        temporary = self._BYTES_PER_OUTCOME * model.n_outcomes + self._BYTES_PER_ROW * (model.n_rows + 1)
        monitor.reserve(self.bytes + temporary, "bounds per step and state")
        found = np.empty((self._ARRAYS - 1, n_steps, n_states), np.int64)
        self.ranges = Ranges(np.empty((n_steps + 1, n_states), np.int64), *found)
        self._amounts_H = np.empty(n_steps)
        self.has_one_start = start_low == start_high
        start = StartRange(model.start_states, 0 if start_low is None else start_low, start_high, start_low is None)
        widest, last_live, settled = fill_ranges(
            self.arrays, resource, start, self.ranges, self._amounts_H, monitor.halt
        )
        self.widest, self._last_live, self.settled = float(widest), float(last_live), int(settled)
        monitor.check_time()
        self.need_HS, self.top_HS, self.amounts = self.ranges.need, self.ranges.top, float(self._amounts_H.sum())
        monitor.release(temporary)

    @classmethod
    def at_start(cls, model: CMDP, resource: SingleResource, monitor: ResourceMonitor) -> FrontierBounds:
        """Return the bounds for the amount that is left before the first step."""
        return cls(model, resource, monitor, resource.initial_left, resource.initial_left)

    def last_rows(self) -> NDArray[np.int64]:
        """Return the rows that may be taken at the last step: those that are safe with the most that can be left."""
        model, resource = self.model, self.resource
        indptr, least = model.row_indptr_at(model.horizon - 1), int(resource.least_left[-1])
        owner = np.repeat(np.arange(model.n_states), np.diff(indptr))
        begin, end = model.outcome_indptr[[indptr[0], indptr[-1]]].tolist()
        if begin == end or least > resource.most_left:
            return np.empty(0, np.int64)
        largest = np.maximum.reduceat(resource.cost[begin:end], model.outcome_indptr[indptr[0] : indptr[-1]] - begin)
        highest = self.ranges.highest[-1, owner]
        affordable = (least == MINUS_INFINITY) | (highest.astype(float) >= float(least) + largest.astype(float))
        return np.flatnonzero((highest != MINUS_INFINITY) & affordable) + int(indptr[0])

    def relative_work(self) -> float:
        """Return the expected work of a frontier relative to the reduction: its points to the nodes from the start.

        Both counts are at most the number of amounts of a step, and grow by at most the number of outcomes from one
        step to the next: nodes forward, points backward.
        """
        growth = float(np.diff(self.model.outcome_indptr[self.model.row_indptr]).max(initial=1))
        return float(points_per_node(self._amounts_H, self._last_live, growth)) / _NODES_PER_POINT

    @property
    def pays_as_arrays(self) -> bool:
        """Whether arrays of all amounts are likely to be faster than points.

        A row of n outcomes takes n operations for each amount, but n * n for each point.
        """
        outcomes = self.model.most_outcomes
        if outcomes >= MANY_OUTCOMES:
            return self.widest <= DENSE_WIDTH_OF_MANY
        return self.widest <= DENSE_WIDTH and self.amounts * max(outcomes - 1, _ONE_OUTCOME) >= DENSE_FROM


def settled_need(model: CMDP, cost: NDArray[np.int64], monitor: ResourceMonitor) -> int:
    """Return the least amount at the start that no policy can overspend.

    Parameters
    ----------
    model : CMDP
    cost : ndarray of int64, shape (O,)
        In ticks.
    monitor : ResourceMonitor
    """
    bounds = FrontierBounds.at_start(model, SingleResource(cost, np.zeros(model.horizon, np.int64)), monitor)
    monitor.release(bounds.bytes)
    return bounds.settled
