"""Label setting: the best path of a deterministic model with one limited resource.

If every row of a model has one outcome, a policy is a path, and the problem is to find the longest path that keeps the
limits of one resource. Labels (state, left, value) are carried forward, and a label is kept only if no other label of
its state has as much left and as large a value. That alone is as much work as a frontier. Bounds make it fast: at a
price p per tick, a label at (step, state) can still earn at most

    W_p(step, state) + p (left - least_left),     W_p = max over rows of  reward - p cost + W_p after the row,

since no path within the limit spends more than it has. For a knapsack, the best such price gives the bound of the
linear relaxation. A label whose bound does not exceed the value of the best path known is dropped, and few remain. That
path is first found by a search that keeps only a few labels at each step. Each further search keeps more, until no
label was left out that could have led to a better path.

Rewards are floats. Bounds are rounded outward, so that they are never too small. A label is dropped if its bound
exceeds the best path by at most a tolerance, relative to the terms of that path. Both are part of `Path.upper`. If all
sums of rewards are exact, because the rewards are integer multiples of one power of two and not too large, the
tolerance is smaller than that power, and the path is exactly the best.

With one state, a path is a choice of one row at each step, and most such problems are solved by `knapsack`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.solvers.accuracy import ROUNDOFF, SAME_POINT
from solvent.solvers.arrays import ModelArrays
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.labels import kernels
from solvent.solvers.labels.knapsack import best_choice
from solvent.solvers.labels.knapsack_kernels import reward_unit
from solvent.solvers.labels.path import Path, Searched, conclude
from solvent.solvers.reduction.layers import grown

#: The largest number of prices tried.
_PRICES = 16
#: Number of labels kept at each step of the first search, and the factor by which it grows in each further search.
_WIDTH, _WIDER = 64, 16
#: Number of labels that the label tree has room for at first.
_ROOM = 1 << 20
#: The largest number of labels made between two checks of the time.
_STRETCH = 1 << 20


def best_path(model: CMDP, resource: SingleResource, monitor: ResourceMonitor, drift: float = 0.0) -> Path:
    """Return the best path of a deterministic model.

    Parameters
    ----------
    model : CMDP
        Every row has one outcome.
    resource : SingleResource
        The amount left at the start is 0.
    monitor : ResourceMonitor
        If a limit stops the search after a path was found, the best path so far is returned.
    drift : float
        Bound on the difference between 1 and the probability of any outcome, which may be a rounded sum.

    Raises
    ------
    LimitReached
        If time or memory runs out before a path was found.

    Examples
    --------
    >>> from solvent.model import instances
    >>> model = instances.knapsack([60, 100, 120], [10, 20, 30])
    >>> cost = np.array([int(model.cost_of(0, o)) for o in range(model.n_outcomes)])
    >>> best_path(model, SingleResource(cost, np.full(3, -50)), ResourceMonitor()).value
    220.0
    """
    known: Path | None = None
    if model.n_states == 1:
        known, proved = best_choice(model, resource, monitor, drift)
        if known is not None and proved:
            return known
    search = _Search(model, resource, monitor, drift)
    if not search.feasible:
        return Path.none(model.horizon)
    if known is not None and known.value > search.value:
        search.begin_with(known)
    width, stopped = _WIDTH, ""
    try:
        while search.bound > search.value + search.tolerance:
            search.run(width)
            width *= _WIDER
    except LimitReached as reached:
        stopped = str(reached)
    return search.conclude(stopped)


class _Search:
    """Searches for the best path, each wider than the one before.

    Attributes
    ----------
    feasible : bool
        Whether any path keeps the limits; if not, only this and `bounds` are defined.
    value : float
        The value of the best path found, as computed by the search.
    bound : float
        Upper bound on the value of any path, up to `tolerance`.
    tolerance : float
        Paths that are better by at most this count as equal to the best one.
    row_H : ndarray of int64, shape (H,)
        The rows of the best path; -1 once the episode is over.
    size_H : ndarray of int64, shape (H,)
        Number of labels of each step in the last search.
    bounds : LabelBounds
    prices : Prices
        The price with the lowest bound at the start comes first.
    """

    feasible: bool
    value: float
    bound: float
    tolerance: float
    prices: kernels.Prices

    def __init__(self, model: CMDP, resource: SingleResource, monitor: ResourceMonitor, drift: float) -> None:
        self._drift = drift
        self._model, self._resource, self._monitor = model, resource, monitor
        self._arrays = ModelArrays.of(model)
        shape = (model.horizon + 1, model.n_states)
        # prices are sorted at the end, which copies the arrays of all of them one after the other
        monitor.reserve((2 + 4 * _PRICES) * 8 * shape[0] * shape[1], "bounds per step and state")
        limited = np.flatnonzero(resource.least_left != MINUS_INFINITY)
        last = int(limited[-1]) if len(limited) else -1
        self.bounds = kernels.LabelBounds(np.empty(shape, np.int64), np.full(shape, MINUS_INFINITY, np.int64), last)
        self._reward_H = np.empty(model.horizon)
        # equal bounds that are rounded outward can differ by as much as that adds in all steps
        self._same = SAME_POINT + 16 * ROUNDOFF * (model.horizon + 4)
        self._unit = reward_unit(self._arrays.row_reward, model.horizon) if drift == 0 else 0.0
        self.row_H, self.size_H = np.full(model.horizon, -1), np.zeros(model.horizon, np.int64)
        self._used = 0.0
        self._prepare()

    def _prepare(self) -> None:
        """Find prices that bound the value of any path, and a first path."""
        start, last = self._model.start_index, self.bounds.last_limited
        shape = (_PRICES, *self.bounds.need_HS.shape)
        tried = kernels.Prices(np.empty(_PRICES), np.empty(shape), np.empty(shape), np.empty(shape, np.int64))
        count, self.value, tolerance = kernels.prepare(
            self._arrays, self._resource, start, self._same, self.bounds, tried, self._reward_H, self.row_H,
            self._monitor.halt,
        )  # fmt: skip
        self._monitor.check_time()
        self.feasible = count > 0
        if not self.feasible:
            return
        limit = -float(self._resource.least_left[last]) if last >= 0 else 0.0
        ends, paid = tried.value_KHS[:count, 0, start], tried.price_K[:count] * limit
        ends = ends + paid + 4 * ROUNDOFF * (np.abs(ends) + np.abs(paid))
        self.bound = float(ends.min())
        order = np.argsort(ends, kind="stable")
        arrays: list[NDArray[Any]] = [*tried]
        del tried  # so that memory of each array is free again before the next one is copied
        for i, each in enumerate(arrays):
            arrays[i] = each[order]
        self.prices = kernels.Prices(*arrays)
        self._monitor.release((4 * _PRICES - 3 * count) * 8 * self.bounds.need_HS.size)
        self.tolerance = self._below_unit(tolerance)

    def begin_with(self, path: Path) -> None:
        """Begin with a path that is better than the one found."""
        self.value, self.row_H[:] = path.value, path.row_H
        self.tolerance = self._tolerance()

    def _tolerance(self) -> float:
        """Return by how much a path may be better than the best one known and still count as equal to it."""
        taken = self.row_H[self.row_H >= 0]
        priced = float(self.prices.price_K[0]) * float(np.abs(self._resource.cost[taken].astype(float)).sum())
        return self._below_unit(self._same * (float(np.abs(self._model.row_reward[taken]).sum()) + priced))

    def _below_unit(self, tolerance: float) -> float:
        """Return a tolerance, reduced to a fraction of the unit of rewards if there is one."""
        return min(tolerance, self._unit / 4) if self._unit else tolerance

    def conclude(self, stopped: str) -> Path:
        """Return the best path with bounds on its value and on that of any other path."""
        searched = Searched(
            self.value, self.bound, -math.inf, max(self.tolerance, self._used), bool(self._unit), self._drift,
            float(self._reward_H.sum()),
        )  # fmt: skip
        return conclude(self._model, self.row_H, self.size_H, searched, stopped)

    def run(self, width: int) -> None:
        """Search with at most `width` labels at each step; improve the best path and the bound."""
        model, monitor, horizon = self._model, self._monitor, self._model.horizon
        room = width * int(np.diff(model.row_indptr).max(initial=1))
        taken = 24 * width + 101 * room
        monitor.reserve(taken, f"{width:,} labels at each step")
        stored = max(width, min(width * horizon, _ROOM))
        monitor.reserve(12 * stored, "labels")
        tree = kernels.LabelTree(np.empty(stored, np.int64), np.empty(stored, np.int32), self.size_H)
        indptr_S, place = np.zeros(model.n_states + 1, np.int64), np.array([0, 0, -1, -1, -1])
        indptr_S[model.start_index + 1 :] = 1
        labels = kernels.Labels(
            indptr_S, np.zeros(width, np.int64), np.zeros(width), np.full(width, -1), place,
            np.array([self.value, -np.inf]),
        )  # fmt: skip
        arrivals = kernels.Arrivals(*model.arrivals)
        while place[kernels.STEP] < horizon:
            monitor.check_time()
            begin = int(place[kernels.STEP])
            monitor.tell("forward", begin, horizon, labels=int(place[kernels.LABELS]))
            stop = min(begin + max(_STRETCH // room, 1), horizon) if monitor.watched else horizon
            kernels.search(
                self._arrays, self._resource, self.bounds, self.prices, self.tolerance, room, stop, arrivals, labels,
                tree, monitor.halt,
            )  # fmt: skip
            monitor.check_time()
            if place[kernels.STEP] < stop:
                monitor.reserve(24 * stored, "labels")
                tree = kernels.LabelTree(grown(tree.parent, 2 * stored), grown(tree.row, 2 * stored), self.size_H)
                monitor.release(12 * stored)
                stored *= 2
        best, cut = labels.best.tolist()
        self._used = self.tolerance
        if best > self.value:
            self.value = best
            self._retrace(tree, *place[kernels.BEST_LABEL :].tolist())
            self.tolerance = self._tolerance()
        # labels that were dropped for a tolerance that has since become much smaller must be looked at again
        self.bound = max(cut, best + self._used) if self._used > 2 * self.tolerance else cut
        monitor.release(taken + 12 * stored)

    def _retrace(self, tree: kernels.LabelTree, label: int, then: int, price: int) -> None:
        """Write the rows that lead to a label, one row after it, and the best rows at a price from there on."""
        steps = kernels.retrace(tree, label, then, self.row_H)
        if price >= 0:
            state = int(self._model.next_state[self.row_H[steps - 1]])
            kernels.follow(
                self._arrays, self._resource, self.bounds, self.prices, price, steps, state, False, self.row_H
            )
