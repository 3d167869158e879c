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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvent.model.cmdp import CMDP
from solvent.plan import path_kernels as kernels
from solvent.plan.bound_kernels import DOWN
from solvent.plan.frontier import RELATIVE_TOLERANCE, Purse
from solvent.plan.limits import Allowance, LimitReached
from solvent.plan.reduction import grown

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
        Minus infinity if none keeps the floors.
    row_H : ndarray of int64, shape (H,)
        The row of each step, or -1 once the episode is over.
    sizes : tuple of int
        Labels after each step in the last search, at least that of the path itself.
    upper : float
        What no path is worth more than: the value, unless the search was stopped.
    stopped : str
        By which limit it was, if so.
    """

    value: float
    row_H: NDArray[np.int64]
    sizes: tuple[int, ...]
    upper: float
    stopped: str = ""


def is_certain(model: CMDP) -> bool:
    """Whether nothing is left to chance: every row has one outcome.

    Examples
    --------
    >>> from solvent.model import instances
    >>> is_certain(instances.knapsack([60], [10])), is_certain(instances.fuel_grid(3))
    (True, False)
    """
    return model.n_outcomes == model.n_rows


def best_path(model: CMDP, purse: Purse, allowance: Allowance) -> Path:
    """Return the best path of a model in which nothing is left to chance; if a limit ends it, the best so far.

    Raises
    ------
    LimitReached
        If time or memory runs out before there is a path.

    Examples
    --------
    >>> from solvent.model import instances
    >>> model = instances.knapsack([60, 100, 120], [10, 20, 30])
    >>> cost = np.array([int(model.cost_of(0, o)) for o in range(model.n_outcomes)])
    >>> best_path(model, Purse(cost, np.full(3, -50), 0, 0), Allowance()).value
    220.0
    """
    search = _Search(model, purse, allowance)
    if not search.feasible:
        return Path(-np.inf, np.full(model.horizon, -1), (0,) * model.horizon, -np.inf)
    search.find_prices()
    width, upper, stopped = _WIDTH, search.value, ""
    try:
        while search.bound > search.value + search.tolerance:
            search.run(width)
            width, upper = width * _WIDER, search.value
    except LimitReached as reached:
        upper, stopped = max(search.bound, search.value), str(reached)
    sizes = tuple(np.maximum(search.size_H, search.row_H >= 0).tolist())
    return Path(float(search.value), search.row_H, sizes, float(upper), stopped)


class _Search:
    """Bounds, and searches that get wider."""

    def __init__(self, model: CMDP, purse: Purse, allowance: Allowance) -> None:
        self._model, self._purse, self._allowance = model, purse, allowance
        shape = (model.horizon + 1, model.n_states)
        allowance.take((1 + 3 * _PRICES) * 8 * shape[0] * shape[1], "bounds per step and state")
        self._need_HS = np.empty(shape, np.int64)
        kernels.fill_needs(
            model.table_of_step, model.row_indptr, model.next_state, purse.cost, purse.floor, self._need_HS
        )
        limited = np.flatnonzero(purse.floor != DOWN)
        self._last = int(limited[-1]) if len(limited) else -1
        size = max(float(np.abs(model.row_reward).max(initial=0.0)), float(np.finfo(float).tiny))
        self.tolerance = RELATIVE_TOLERANCE * size
        self.value, self.bound = -np.inf, np.inf
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
        count, self.value = kernels.fill_prices(
            model.table_of_step, model.row_indptr, model.next_state, model.row_reward, purse.cost, purse.floor,
            self._need_HS, self._last, model.start_index, self.tolerance, self._price_K, self._value_KHS,
            self._earned_KHS, self._want_KHS, self.row_H,
        )  # fmt: skip
        span = -float(purse.floor[self._last]) if self._last >= 0 else 0.0
        ends = self._value_KHS[:count, 0, model.start_index] + self._price_K[:count] * span
        self.bound = float(ends.min())
        # the price that bounds the start best is asked first
        order = np.argsort(ends, kind="stable")
        self._price_K, self._value_KHS = self._price_K[order], self._value_KHS[order]
        self._earned_KHS, self._want_KHS = self._earned_KHS[order], self._want_KHS[order]

    def run(self, width: int) -> None:
        """Search with so many labels at each step; improve the path, and the bound on what is better than it."""
        model, purse, allowance, horizon = self._model, self._purse, self._allowance, self._model.horizon
        arrival_indptr, arrival_row, row_state = self._arrivals
        room = width * int(np.diff(model.row_indptr).max(initial=1))
        taken = 24 * width + 101 * room
        allowance.take(taken, f"{width:,} labels at each step")
        left, value, label = np.zeros(width, np.int64), np.zeros(width), np.full(width, -1)
        new = [np.empty(room, kind) for kind in (np.int64, float, np.int64, np.int32, float)]
        heap = [np.empty((2, room), kind) for kind in (np.int64, float, np.int64, np.int32)]
        stored = max(width, min(width * horizon, _ROOM))
        allowance.take(12 * stored, "labels")
        parent, row = np.empty(stored, np.int64), np.empty(stored, np.int32)
        indptr_S, new_indptr_S = np.zeros((2, model.n_states + 1), np.int64)
        indptr_S[model.start_index + 1 :] = 1
        place, best, cut = np.array([0, 0, -1, -1, -1]), self.value, -np.inf
        while place[kernels.STEP] < horizon:
            allowance.check_time()
            begin = int(place[kernels.STEP])
            allowance.tell("forward", begin, horizon, labels=int(place[kernels.LABELS]))
            stop = min(begin + max(_STRETCH // room, 1), horizon) if allowance.watched else horizon
            best, cut = kernels.search(
                model.table_of_step, model.row_indptr, model.next_state, model.row_reward, purse.cost, purse.floor,
                self._need_HS, arrival_indptr, arrival_row, row_state, self._last, self._price_K, self._value_KHS,
                self._earned_KHS, self._want_KHS, self.tolerance, width, best, cut, begin, stop, place,
                indptr_S, left, value, label, new_indptr_S, *new, *heap, parent, row, self.size_H,
            )  # fmt: skip
            if place[kernels.STEP] < stop:
                allowance.take(12 * stored, "labels")
                stored *= 2
                parent, row = grown(parent, stored), grown(row, stored)
        if best > self.value:
            self.value = best
            self._retrace(parent, row, *place[kernels.BEST_LABEL :].tolist())
        self.bound = cut
        allowance.give_back(taken + 12 * stored)

    @cached_property
    def _arrivals(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The rows that lead to each state, table by table, and the state each row leaves."""
        model = self._model
        place = np.repeat(np.arange(len(model.row_indptr) - 1), np.diff(model.row_indptr))
        table, state = np.divmod(place, model.n_states)
        target = table * model.n_states + model.next_state
        order = np.argsort(target, kind="stable")
        counts = np.bincount(target, minlength=len(model.row_indptr) - 1)
        return np.concatenate([[0], np.cumsum(counts)]), order, state

    def _retrace(self, parent: NDArray[np.int64], row: NDArray[np.int32], label: int, then: int, price: int) -> None:
        """Write the rows that lead to a label, one row after it, and those that are best at a price from there."""
        steps = kernels.retrace(parent, row, label, then, self.row_H)
        if price >= 0:
            model, purse = self._model, self._purse
            kernels.follow(
                model.table_of_step, model.row_indptr, model.next_state, model.row_reward, purse.cost, purse.floor,
                self._need_HS, self._last, self._price_K[price], self._value_KHS[price], steps,
                int(model.next_state[self.row_H[steps - 1]]), False, self.row_H,
            )  # fmt: skip
