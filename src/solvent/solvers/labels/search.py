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

from solvent.core.checkpoint import Section
from solvent.core.exact import MINUS_INFINITY
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.solvers.accuracy import ROUNDOFF, SAME_POINT
from solvent.solvers.arrays import ModelArrays
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.labels import kernels
from solvent.solvers.labels.knapsack import best_choice
from solvent.solvers.labels.knapsack_kernels import reward_unit
from solvent.solvers.labels.path import Path, Searched, check_path, conclude
from solvent.solvers.reduction.layers import grown

#: The largest number of prices tried.
_PRICES = 16
#: Number of labels kept at each step of the first search, and the factor by which it grows in each further search.
_WIDTH, _WIDER = 64, 16
#: Number of labels that the label tree has room for at first.
_ROOM = 1 << 20
#: The largest number of labels made between two checks of the time.
_STRETCH = 1 << 20
#: More labels than any search makes.
_MOST = 2**40


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
    stopped = ""
    try:
        search.restore()
        while search.bound > search.value + search.tolerance:
            search.run()
    except LimitReached as reached:
        stopped = str(reached)
    return search.conclude(stopped)


#: Arrays of `kernels.Labels`, as named in a checkpoint.
_LABELS = ("indptr", "left", "worth", "label", "place", "best")


def _is_path(model: CMDP, row_H: NDArray[np.int64]) -> bool:
    """Return whether rows are those of their steps; none follows where the episode is over."""
    taken = int((row_H >= 0).sum())
    if (row_H[:taken] < 0).any() or (row_H < -1).any():
        return False
    table = np.searchsorted(model.row_indptr[:: model.n_states], row_H[:taken], side="right") - 1
    return np.array_equal(table, model.table_of_step[:taken])


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
        self._used, self._width = 0.0, _WIDTH
        self._section: Section | None = None
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

    def restore(self) -> None:
        """Continue from the checkpoint, if there is one; bounds and prices have been computed anew."""
        if self._monitor.checkpoint is None:
            return
        content = (*self._arrays, *self._resource, self._model.start_index, self._drift, self.value)
        self._section = section = self._monitor.checkpoint.section("path", *content)
        if not section.state:
            return
        self._width = section.whole("width", _WIDTH, _MOST)
        numbers = [section.number(name) for name in ("value", "bound", "tolerance", "used")]
        row_H = section.array("path", np.int64, (self._model.horizon,)).copy()
        size_H = section.array("size", np.int64, (self._model.horizon,)).copy()
        check_path(section, self._model, row_H[row_H >= 0], numbers[0])
        if (
            not _is_path(self._model, row_H)
            or any(map(math.isnan, numbers))
            or not ((size_H >= 0) & (size_H < _MOST)).all()
        ):
            raise section.damaged("path", "the rows of a path, and numbers", "others")
        self.value, self.bound, self.tolerance, self._used = numbers
        self.row_H, self.size_H = row_H, size_H

    def _save(self, state: dict[str, int], arrays: dict[str, NDArray[Any]], **parts: Any) -> bool:
        """Save the best path and bounds, and more."""
        assert self._section is not None
        numbers = {"value": self.value, "bound": self.bound, "tolerance": self.tolerance, "used": self._used}
        hexadecimal = {name: float(number).hex() for name, number in numbers.items()}
        path = {"path": self.row_H, "size": self.size_H}
        return self._section.save({"width": self._width, **hexadecimal, **state}, {**path, **arrays}, **parts)

    def run(self) -> None:
        """Search with more labels at each step than before; improve the best path and the bound."""
        model, monitor, horizon, width = self._model, self._monitor, self._model.horizon, self._width
        room = width * int(np.diff(model.row_indptr).max(initial=1))
        taken = 24 * width + 101 * room
        monitor.reserve(taken, f"{width:,} labels at each step")
        stored, section = max(width, min(width * horizon, _ROOM)), self._section
        running = section is not None and "room" in section.state
        if section is not None and running:
            stored = section.whole("room", stored, _MOST)
        monitor.reserve(12 * stored, "labels")
        tree = kernels.LabelTree(np.empty(stored, np.int64), np.empty(stored, np.int32), self.size_H)
        indptr_S, place = np.zeros(model.n_states + 1, np.int64), np.array([0, 0, -1, -1, -1])
        indptr_S[model.start_index + 1 :] = 1
        labels = kernels.Labels(
            indptr_S, np.zeros(width, np.int64), np.zeros(width), np.full(width, -1), place,
            np.array([self.value, -np.inf]),
        )  # fmt: skip
        arrivals = kernels.Arrivals(*model.arrivals)
        if running:
            self._load_labels(labels, tree)
        saved = int(place[kernels.LABELS])
        while place[kernels.STEP] < horizon:
            if section is not None and monitor.should_save() and place[kernels.STEP] > 0:
                saved = self._save_labels(labels, tree, saved)
            monitor.check_time()
            begin = int(place[kernels.STEP])
            monitor.tell("forward", begin, horizon, labels=int(place[kernels.LABELS]))
            stop = min(begin + max(_STRETCH // room, 1), horizon) if monitor.watched else horizon
            with monitor.postponed():
                kernels.search(
                    self._arrays, self._resource, self.bounds, self.prices, self.tolerance, room, stop, arrivals,
                    labels, tree, monitor.halt,
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
        self._width *= _WIDER
        if self._section is not None:
            self._save({}, {}, dropped=(*_LABELS, "parent", "row"))
        monitor.release(taken + 12 * stored)

    def _save_labels(self, labels: kernels.Labels, tree: kernels.LabelTree, saved: int) -> int:
        """Save a search that is not finished; return how many labels of the tree are saved."""
        made, count = int(labels.place[kernels.LABELS]), int(labels.indptr_S[-1])
        arrays = dict(zip(_LABELS, labels, strict=True))
        arrays |= {name: arrays[name][:count] for name in ("left", "worth", "label")}
        added = {"parent": tree.parent[saved:made], "row": tree.row[saved:made]} if saved < made else {}
        return made if self._save({"room": len(tree.parent)}, arrays, added=added) else saved

    def _load_labels(self, labels: kernels.Labels, tree: kernels.LabelTree) -> None:
        """Restore a search that was not finished."""
        section, model = self._section, self._model
        assert section is not None
        place = section.array("place", np.int64, (5,))
        step, made, best, then, price = place.tolist()
        parent = np.concatenate([np.empty(0, np.int64), *section.pieces("parent", np.int64, (None,))])
        row = np.concatenate([np.empty(0, np.int32), *section.pieces("row", np.int32, (None,))])
        fits = 0 <= step <= model.horizon and made == len(parent) == len(row) <= len(tree.parent)
        ends = np.concatenate([[-1, 0], np.cumsum(self.size_H[:step])]) if fits else np.zeros(2, np.int64)
        if not fits or ends[-1] != made or not ((row >= 0) & (row < model.n_rows)).all():
            raise section.damaged("place", "a search up to a step", "something else")
        # the parent of a label is one of the step before, of which there is one at the start
        level = np.repeat(np.arange(step), self.size_H[:step])
        if not ((parent >= ends[level]) & (parent < ends[level + 1])).all():
            raise section.damaged("parent", "labels of the step before", "others")
        depth = 0 if best < 0 else int(np.searchsorted(ends[1:], best, side="right"))
        if not -1 <= best < made or not -1 <= then < model.n_rows or depth + (then >= 0) > model.horizon:
            raise section.damaged("place", "a label and a row", "others")
        if not -1 <= price < len(self.prices.price_K) or (price >= 0 and then < 0):
            raise section.damaged("place", "a price", "another number")
        indptr = section.array("indptr", np.int64, (model.n_states + 1,))
        count = int(indptr[-1])
        if indptr[0] != 0 or (np.diff(indptr) < 0).any() or count > len(labels.left):
            raise section.damaged("indptr", "positions of labels", "others")
        label = section.array("label", np.int64, (count,))
        if not ((label >= ends[step] if step else label == -1) & (label < max(ends[step + 1], 0))).all():
            raise section.damaged("label", "labels of the last step", "others")
        labels.indptr_S[:], labels.place[:] = indptr, place
        labels.left[:count] = section.array("left", np.int64, (count,))
        labels.value[:count], labels.label[:count] = section.array("worth", np.float64, (count,)), label
        labels.best[:] = section.array("best", np.float64, (2,))
        if np.isnan(labels.value[:count]).any() or np.isnan(labels.best).any():
            raise section.damaged("worth", "numbers", "others")
        tree.parent[:made], tree.row[:made] = parent, row

    def _retrace(self, tree: kernels.LabelTree, label: int, then: int, price: int) -> None:
        """Write the rows that lead to a label, one row after it, and the best rows at a price from there on."""
        steps = kernels.retrace(tree, label, then, self.row_H)
        if price >= 0:
            state = int(self._model.next_state[self.row_H[steps - 1]])
            kernels.follow(
                self._arrays, self._resource, self.bounds, self.prices, price, steps, state, False, self.row_H
            )
