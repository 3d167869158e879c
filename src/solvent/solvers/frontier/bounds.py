"""Bounds on the amount left at each step and state, from which the representation of frontiers is chosen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.solvers.arrays import ModelArrays, TickCosts, read_only
from solvent.solvers.bounds.bounds import look_ahead
from solvent.solvers.frontier.point_kernels import Reach, fill_reach, points_per_node
from solvent.solvers.frontier.resource import SingleResource

#: Arrays are used if no state has more amounts than this between need and top,
DENSE_WIDTH = 4096
#: and if there are at least this many amounts in total.
DENSE_FROM = 20_000
#: If a row has at least this many outcomes, arrays are used up to a larger width.
MANY_OUTCOMES = 16
DENSE_WIDTH_OF_MANY = 2**20
_NO_CEILING = np.array([PLUS_INFINITY])
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
    reach : Reach
        Range of amounts that can be left if only safe rows are taken.
    settled_HS : ndarray of int64, shape (H, S)
        The least amount left with which no policy can break a limit.
    need_HS, top_HS : ndarray of int64, shape (H, S)
        Range of amounts for which values differ: below, nothing is feasible; above, the value does not change. Empty
        where `top` is less than `need`.
    widest, amounts : float
        The largest number of amounts of a (step, state), and the total over all of them.
    bytes : int
        Memory that stays reserved.

    Raises
    ------
    LimitReached
        If the bounds do not fit into the memory limit, or the time limit is reached.
    """

    #: Number of arrays with one number per step and state: while they are computed, and afterwards.
    _COMPUTED, _KEPT = 12, 5

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
        self.bytes = 8 * self._KEPT * (n_steps + 1) * n_states
        temporary = 8 * self._COMPUTED * (n_steps + 1) * n_states - self.bytes
        monitor.reserve(self.bytes + temporary, "bounds per step and state")
        # the amount spent is minus the amount left
        upper = np.where(resource.least_left == MINUS_INFINITY, PLUS_INFINITY, -resource.least_left)[:, None]
        lower = np.full((n_steps, 1), MINUS_INFINITY, np.int64)
        floor = MINUS_INFINITY if resource.most_left == PLUS_INFINITY else -resource.most_left
        ends = read_only(np.array([floor])), read_only(_NO_CEILING)
        costs = TickCosts(read_only(resource.cost[:, None]), *ends, floor != MINUS_INFINITY)
        _, safe_high, _, settled_high = look_ahead(model, costs, upper, lower, monitor)
        self.settled_HS = _negated(settled_high[:n_steps, :, 0])
        need_HS = _negated(safe_high[:, :, 0])
        del safe_high, settled_high
        lowest, highest = np.full((n_steps, n_states), PLUS_INFINITY), np.full((n_steps, n_states), MINUS_INFINITY)
        starts = model.start_states
        lowest[0, starts] = need_HS[0, starts] if start_low is None else start_low
        highest[0, starts] = start_high
        self.reach = Reach(lowest, highest)
        fill_reach(self.arrays, resource, need_HS, self.reach, monitor.halt)
        monitor.check_time()
        need_HS = need_HS[:n_steps]
        live = (highest != MINUS_INFINITY) & (need_HS <= highest) & (lowest <= highest)
        least_HS = np.maximum(need_HS, lowest)
        top_HS = np.minimum(highest, np.maximum(self.settled_HS, least_HS))
        self.need_HS = np.where(live, np.minimum(least_HS, top_HS), 0)
        self.top_HS = np.where(live, top_HS, -1)
        # in floats: only to decide whether arrays would be small
        widths_HS = self.top_HS.astype(float) - self.need_HS + 1
        self._amounts_H, self._last_live = widths_HS.sum(1), float(np.count_nonzero(widths_HS[-1]))
        self.widest, self.amounts = float(widths_HS.max(initial=0.0)), float(self._amounts_H.sum())
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
        highest = self.reach.highest_HS[-1, owner]
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
        if self.model.most_outcomes >= MANY_OUTCOMES:
            return self.widest <= DENSE_WIDTH_OF_MANY
        return self.widest <= DENSE_WIDTH and self.amounts >= DENSE_FROM


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
    return int(bounds.settled_HS[0, model.start_states].max())


def _negated(ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return bounds on the amount left, given bounds on the amount spent; plus and minus infinity are exchanged."""
    negated = ~ticks  # one less than minus the ticks, which exchanges the ends of the range
    negated += (ticks != PLUS_INFINITY) & (ticks != MINUS_INFINITY)
    return negated
