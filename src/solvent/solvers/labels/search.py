"""Where nothing is left to chance: the best path, found by labels and bounds.

If every row of a model has one outcome, a policy is a path, and the problem is to find the longest one that one
resource allows. Labels (state, left, value) are carried forward, and only those are kept which no other label of their
state beats in both. That alone is as much work as a frontier. What makes it quick are bounds: at a price p per tick, a
label at (step, state) can still earn at most

    W_p(step, state) + p (left - floor),     W_p = max over rows of  reward - p cost + W_p after it,

since no path within the floor has spent more than it had. For a knapsack, the best such price gives the bound of its
linear relaxation. A label whose bound is no better than the best path known is dropped, and few remain. That path is
found first, by a search that keeps but a few labels at each step; the next keeps more, until none was left out that
could have been better.

Rewards are floats. Bounds are computed outward, so that rounding never makes one too small, and a label is dropped if
its bound exceeds the best path by no more than a tolerance, relative to the terms of that path. Both are part of
`upper`. If all sums of rewards are exact, because the rewards are whole multiples of one power of two and not too
large, the tolerance is smaller than that power, and the path is exactly the best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import SolventError
from solvent.model.cmdp import CMDP
from solvent.solvers.accuracy import AGREEMENT, ROUNDOFF, SAME_POINT
from solvent.solvers.bounds.kernels import DOWN
from solvent.solvers.frontier.frontiers import Purse
from solvent.solvers.labels import kernels
from solvent.solvers.reduction.layers import grown

#: How many prices are tried at most.
_PRICES = 16
#: Labels kept at a step at first, and how many times as many in each further search.
_WIDTH, _WIDER = 64, 16
#: Labels that there is room for at first.
_ROOM = 1 << 20
#: Labels that are made between two looks at the clock, at most.
_STRETCH = 1 << 20


@dataclass(frozen=True)
class Path:
    """The best path.

    Attributes
    ----------
    value : float
        The sum of its rewards, rounded once; minus infinity if none keeps the floors.
    row_H : ndarray of int64, shape (H,)
        The row of each step, or -1 once the episode is over.
    sizes : tuple of int
        Labels after each step in the last search, at least that of the path itself.
    lower, upper : float
        What it is worth at least, and what no path is worth more than: the value up to rounding and the tolerance of
        the search, unless the search was stopped.
    stopped : str
        By which limit it was, if so.
    """

    value: float
    row_H: NDArray[np.int64]
    sizes: tuple[int, ...]
    lower: float
    upper: float
    stopped: str = ""


def best_path(model: CMDP, purse: Purse, monitor: ResourceMonitor, drift: float = 0.0) -> Path:
    """Return the best path of a model in which nothing is left to chance; if a limit ends it, the best so far.

    `drift` is by how much the probability of a row's outcome, which should be 1, can differ from it: it may be a sum.

    Raises
    ------
    LimitReached
        If time or memory runs out before there is a path.

    Examples
    --------
    >>> from solvent.model import instances
    >>> model = instances.knapsack([60, 100, 120], [10, 20, 30])
    >>> cost = np.array([int(model.cost_of(0, o)) for o in range(model.n_outcomes)])
    >>> best_path(model, Purse(cost, np.full(3, -50), 0, 0), ResourceMonitor()).value
    220.0
    """
    search = _Search(model, purse, monitor, drift)
    if not search.feasible:
        return Path(-np.inf, np.full(model.horizon, -1), (0,) * model.horizon, -np.inf, -np.inf)
    search.find_prices()
    width, stopped = _WIDTH, ""
    try:
        while search.bound > search.value + search.tolerance:
            search.run(width)
            width *= _WIDER
    except LimitReached as reached:
        stopped = str(reached)
    sizes = tuple(np.maximum(search.size_H, search.row_H >= 0).tolist())
    return search.conclude(sizes, stopped)


class _Search:
    """Bounds, and searches that get wider."""

    def __init__(self, model: CMDP, purse: Purse, monitor: ResourceMonitor, drift: float) -> None:
        self._drift = drift
        self._model, self._purse, self._monitor = model, purse, monitor
        shape = (model.horizon + 1, model.n_states)
        # prices are sorted at the end, for which the arrays of all of them are copied one after the other
        monitor.reserve((2 + 4 * _PRICES) * 8 * shape[0] * shape[1], "bounds per step and state")
        self._need_HS = np.empty(shape, np.int64)
        kernels.fill_needs(
            model.table_of_step, model.row_indptr, model.next_state, purse.cost, purse.floor, self._need_HS,
            monitor.halt,
        )  # fmt: skip
        self._highest_HS, self._reward_H = np.full(shape, DOWN, np.int64), np.empty(model.horizon)
        kernels.fill_highest(
            model.table_of_step, model.row_indptr, model.next_state, model.row_reward, purse.cost, purse.floor,
            self._need_HS, model.start_index, self._highest_HS, self._reward_H, monitor.halt,
        )  # fmt: skip
        monitor.check_time()
        limited = np.flatnonzero(purse.floor != DOWN)
        self._last = int(limited[-1]) if len(limited) else -1
        # bounds are computed outward, so that those of equals differ by as much as that adds in all steps
        self._same, self._unit = SAME_POINT + 16 * ROUNDOFF * (model.horizon + 4), 0.0
        if drift == 0:
            self._unit = model.reward_unit
        self.value, self.bound, self.tolerance, self._used = -np.inf, np.inf, 0.0, 0.0
        self.row_H, self.size_H = np.full(model.horizon, -1), np.zeros(model.horizon, np.int64)

    @property
    def feasible(self) -> bool:
        """Whether any path keeps the floors."""
        return bool(self._need_HS[0, self._model.start_index] <= 0)

    def find_prices(self) -> None:
        """Find prices that bound what can be earned, and a first path."""
        model, purse = self._model, self._purse
        self._price_K = np.empty(_PRICES)
        shape = (_PRICES, *self._need_HS.shape)
        self._value_KHS, self._earned_KHS, self._want_KHS = np.empty(shape), np.empty(shape), np.empty(shape, np.int64)
        count, self.value, tolerance = kernels.fill_prices(
            model.table_of_step, model.row_indptr, model.next_state, model.row_reward, purse.cost, purse.floor,
            self._need_HS, self._highest_HS, self._last, model.start_index, self._same, self._price_K, self._value_KHS,
            self._earned_KHS, self._want_KHS, self.row_H, self._monitor.halt,
        )  # fmt: skip
        self._monitor.check_time()
        span = -float(purse.floor[self._last]) if self._last >= 0 else 0.0
        ends, paid = self._value_KHS[:count, 0, model.start_index], self._price_K[:count] * span
        ends = ends + paid + 4 * ROUNDOFF * (np.abs(ends) + np.abs(paid))
        self.bound = float(ends.min())
        # the price that bounds the start best is asked first
        order = np.argsort(ends, kind="stable")
        self._price_K, self._value_KHS = self._price_K[order], self._value_KHS[order]
        self._earned_KHS = self._earned_KHS[order]
        self._want_KHS = self._want_KHS[order]
        self._monitor.release((4 * _PRICES - 3 * count) * 8 * self._need_HS.size)
        self.tolerance = self._at_most_a_unit(tolerance)

    def _tolerance(self) -> float:
        """Return how much better a path may be than the best one known and still count as equal to it."""
        taken = self.row_H[self.row_H >= 0]
        priced = float(self._price_K[0]) * float(np.abs(self._purse.cost[taken].astype(float)).sum())
        return self._at_most_a_unit(self._same * (float(np.abs(self._model.row_reward[taken]).sum()) + priced))

    def _at_most_a_unit(self, tolerance: float) -> float:
        """Return a tolerance, or a part of the unit of rewards if that is smaller, so that nothing better is lost."""
        return min(tolerance, self._unit / 4) if self._unit else tolerance

    def conclude(self, sizes: tuple[int, ...], stopped: str) -> Path:
        """Return the best path with bounds on what it and any other is worth."""
        rewards = self._model.row_reward[self.row_H[self.row_H >= 0]]
        value, size = math.fsum(rewards.tolist()), float(np.abs(rewards).sum())
        if abs(value - self.value) > AGREEMENT * size:
            raise SolventError(f"the path is worth {value!r}, but {self.value!r} was found by the search")
        upper = max(self.value, value)
        if stopped:
            upper = max(upper, self.bound)
        if self._unit:
            lower = value
        else:
            # the terms of a better path add up to no more than twice the largest rewards, less what it is worth
            share = len(self.row_H) * (2 * ROUNDOFF + self._drift)
            terms = 2 * float(self._reward_H.sum()) + abs(upper)
            below = len(self.row_H) * self._drift * size + 4 * ROUNDOFF * abs(value)
            lower, upper = value - below, upper + share * terms
        if stopped or not self._unit:
            upper += max(self.tolerance, self._used) + 4 * ROUNDOFF * abs(upper)
        return Path(value, self.row_H, sizes, lower, upper, stopped)

    def run(self, width: int) -> None:
        """Search with so many labels at each step; improve the path, and the bound on what is better than it."""
        model, purse, monitor, horizon = self._model, self._purse, self._monitor, self._model.horizon
        arrival_indptr, arrival_row, row_state = self._model.arrivals
        room = width * int(np.diff(model.row_indptr).max(initial=1))
        taken = 24 * width + 101 * room
        monitor.reserve(taken, f"{width:,} labels at each step")
        left, value, label = np.zeros(width, np.int64), np.zeros(width), np.full(width, -1)
        new = [np.empty(room, kind) for kind in (np.int64, float, np.int64, np.int32, float)]
        heap = [np.empty((2, room), kind) for kind in (np.int64, float, np.int64, np.int32)]
        stored = max(width, min(width * horizon, _ROOM))
        monitor.reserve(12 * stored, "labels")
        parent, row = np.empty(stored, np.int64), np.empty(stored, np.int32)
        indptr_S, new_indptr_S = np.zeros((2, model.n_states + 1), np.int64)
        indptr_S[model.start_index + 1 :] = 1
        place, best, cut = np.array([0, 0, -1, -1, -1]), self.value, -np.inf
        while place[kernels.STEP] < horizon:
            monitor.check_time()
            begin = int(place[kernels.STEP])
            monitor.tell("forward", begin, horizon, labels=int(place[kernels.LABELS]))
            stop = min(begin + max(_STRETCH // room, 1), horizon) if monitor.watched else horizon
            best, cut = kernels.search(
                model.table_of_step, model.row_indptr, model.next_state, model.row_reward, purse.cost, purse.floor,
                self._need_HS, arrival_indptr, arrival_row, row_state, self._last, self._price_K, self._value_KHS,
                self._earned_KHS, self._want_KHS, self.tolerance, width, best, cut, begin, stop, place,
                indptr_S, left, value, label, new_indptr_S, *new, *heap, parent, row, self.size_H,
                monitor.halt,
            )  # fmt: skip
            monitor.check_time()
            if place[kernels.STEP] < stop:
                monitor.reserve(24 * stored, "labels")
                parent, row = grown(parent, 2 * stored), grown(row, 2 * stored)
                monitor.release(12 * stored)
                stored *= 2
        self._used = self.tolerance
        if best > self.value:
            self.value = best
            self._retrace(parent, row, *place[kernels.BEST_LABEL :].tolist())
            self.tolerance = self._tolerance()
        # what was dropped for a tolerance that is far too large by now must be looked at again
        self.bound = max(cut, best + self._used) if self._used > 2 * self.tolerance else cut
        monitor.release(taken + 12 * stored)

    def _retrace(self, parent: NDArray[np.int64], row: NDArray[np.int32], label: int, then: int, price: int) -> None:
        """Write the rows that lead to a label, one row after it, and those that are best at a price from there."""
        steps = kernels.retrace(parent, row, label, then, self.row_H)
        if price >= 0:
            model, purse = self._model, self._purse
            kernels.follow(
                model.table_of_step, model.row_indptr, model.next_state, model.row_reward, purse.cost, purse.floor,
                self._need_HS, self._highest_HS, self._last, self._price_K[price], self._value_KHS[price], steps,
                int(model.next_state[self.row_H[steps - 1]]), False, self.row_H,
            )  # fmt: skip
