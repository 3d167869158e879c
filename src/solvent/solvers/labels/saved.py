"""Searches on a network in a checkpoint: what finished ones have found, and the labels of one that is not finished.

Prices and arcs, which are improved before each search, are not saved: given what the searches before have found, they
are computed again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.checkpoint import Section
from solvent.core.limits import ResourceMonitor
from solvent.solvers.arrays import ModelArrays, TickCosts
from solvent.solvers.labels import several_kernels as kernels
from solvent.solvers.labels.path import check_path
from solvent.solvers.problem import Problem

#: More labels than any search makes, and more searches than there ever are.
_MOST, _MOST_SEARCHES = 2**40, 2**20
#: Arrays of labels to which labels are only added, and those that change from level to level.
_ADDED = ("amount", "worth", "bound", "parent", "row", "older")
_REPLACED = ("begin", "end", "newest", "sizes", "counts", "best")


class Found(NamedTuple):
    """What a search has found.

    Attributes
    ----------
    best : float
        Value of the best path known.
    cut : float
        The highest bound of a label left out for lack of room.
    made : int
        Number of labels before any was left out.
    row_T : ndarray of int32
        The rows of the best path, if this search has found it; else empty.
    """

    best: float
    cut: float
    made: int
    row_T: NDArray[np.int32]


class SavedSearches:
    """The section of all searches; without a checkpoint, nothing is saved.

    Parameters
    ----------
    problem : Problem
    monitor : ResourceMonitor
    room : int
        Number of labels, and of candidates, for which there is room at first.

    Attributes
    ----------
    size_L : ndarray of int64, shape (L,)
        Number of labels of each level in the last search that was finished.
    """

    def __init__(self, problem: Problem, monitor: ResourceMonitor, room: int) -> None:
        self._model, self._room, self._count = problem.model, room, 0
        self._found: list[Found] = []
        self.size_L = np.zeros(0, np.int64)
        self._section: Section | None = None
        self._added = 0
        if monitor.checkpoint is not None:
            lattice = problem.lattice
            costs = (*TickCosts.of(lattice), lattice.upper_HD, lattice.lower_HD, lattice.initial_D)
            content = (*ModelArrays.of(problem.model), *costs, problem.model.start_index, problem.drift)
            self._section = monitor.section("paths", *content)
            self._load()

    def _load(self) -> None:
        section, model = self._section, self._model
        assert section is not None
        if not section.state:
            return
        count = section.whole("searches", 0, _MOST_SEARCHES)
        if not count:
            return
        numbers = section.array("numbers", np.float64, (count, 2))
        made = section.array("made", np.int64, (count, 2))
        rows = section.array("rows", np.int32, (None,))
        self.size_L = section.array("size", np.int64, (None,)).copy()
        ends = np.append(0, np.cumsum(made[:, 1]))
        fits = ((made >= 0) & (made < _MOST)).all() and (made[:, 1] <= model.horizon).all() and ends[-1] == len(rows)
        if not fits or np.isnan(numbers).any() or not ((self.size_L >= 0) & (self.size_L < _MOST)).all():
            raise section.damaged("made", "what searches have found", "something else")
        for k in range(count):
            row_T = rows[ends[k] : ends[k + 1]].copy()
            best, cut = numbers[k].tolist()
            if len(row_T):
                inside = 0 <= int(row_T[-1]) < model.n_rows
                end = float(model.end_value[model.next_state[row_T[-1]]]) if inside else 0.0
                check_path(section, model, row_T, best, end)
            self._found.append(Found(best, cut, int(made[k, 0]), row_T))

    def next_search(self, value: float, levels: int) -> Found | None:
        """Return what the next search has found; None if it was not finished.

        Parameters
        ----------
        value : float
            That of the best path so far.
        levels : int
        """
        self._count += 1
        if self._count > len(self._found):
            return None
        found = self._found[self._count - 1]
        if self._section is not None and (found.best > value) != (len(found.row_T) > 0):
            raise self._section.damaged("rows", "a path for each better value", "none")
        if self._section is not None and self._count == len(self._found) and len(self.size_L) != levels:
            raise self._section.damaged("size", f"the labels of {levels} levels", f"{len(self.size_L)}")
        return found

    @property
    def _running(self) -> Section | None:
        """The section, if it contains labels of the search that comes next."""
        section = self._section
        return section if section is not None and "room" in section.state and self._count > len(self._found) else None

    @property
    def space(self) -> tuple[int, int]:
        """Number of labels, and of candidates, for which the search needs room."""
        section = self._running
        if section is None:
            return self._room, self._room
        return section.whole("room", self._room, _MOST), section.whole("scratch", self._room, _MOST)

    def save_search(self, found: Found, size_L: NDArray[np.int64]) -> None:
        """Save a search that is finished, without its labels."""
        self._found.append(found)
        self.size_L = size_L
        if self._section is None:
            return
        arrays = {
            "numbers": np.array([(each.best, each.cut) for each in self._found]),
            "made": np.array([(each.made, len(each.row_T)) for each in self._found], np.int64),
            "rows": np.concatenate([each.row_T for each in self._found]).astype(np.int32),
            "size": size_L,
        }
        self._section.save({"searches": len(self._found)}, arrays, dropped=(*_ADDED, *_REPLACED))
        self._added = 0

    def save_labels(self, labels: kernels.Labels, scratch: int) -> None:
        """Save a search that is not finished; labels since the last time are added to those before."""
        made = int(labels.counts[kernels.LABELS])
        if self._section is None or made == 1:
            return
        # a level for which there was too little room begins again
        begin, end = np.minimum(labels.begin, made), np.minimum(labels.end, made)
        replaced = (begin, end, labels.newest, labels.size_L, labels.counts, labels.best)
        each = (labels.amount, labels.value, labels.bound, labels.parent, labels.row, labels.older)
        added = dict(zip(_ADDED, (array[self._added : made] for array in each), strict=True))
        if self._added == made:
            added = {}
        elif not len(labels.older):
            del added["older"]
        state = {"searches": len(self._found), "room": len(labels.value), "scratch": scratch}
        if self._section.save(state, dict(zip(_REPLACED, replaced, strict=True)), added):
            self._added = made

    def load_labels(self, labels: kernels.Labels, prices: kernels.Prices) -> None:
        """Restore a search that was not finished, if there is one; `labels` are those of a search that begins."""
        section = self._running
        if section is None:
            return
        counts, best = section.array("counts", np.int64, (8,)), section.array("best", np.float64, (2,))
        places, levels, made = labels.begin.shape[1], len(labels.size_L), int(counts[kernels.LABELS])
        size_L = section.array("sizes", np.int64, (levels,))
        level, begun = int(counts[kernels.LEVEL]), 1 <= made <= len(labels.value)
        begun = begun and 1 <= level <= levels and bool(((size_L >= 0) & (size_L < _MOST)).all())
        if not begun or 1 + int(size_L[1:level].sum()) != made or size_L[0] or counts[kernels.MADE] < 0:
            raise section.damaged("counts", "a search up to a level", "something else")
        begin, end = (section.array(name, np.int64, (2, places)) for name in ("begin", "end"))
        newest = section.array("newest", np.int64, (places,))
        if not ((begin >= 0) & (begin <= end) & (end <= made)).all() or not ((newest >= -1) & (newest < made)).all():
            raise section.damaged("begin", "positions of labels", "others")
        into: list[NDArray[Any]] = [labels.amount, labels.value, labels.bound, labels.parent, labels.row, labels.older]
        for name, array in zip(_ADDED, into, strict=True):
            if len(array):
                shape = (None, *array.shape[1:])
                pieces = section.pieces(name, array.dtype, shape)
                if sum(map(len, pieces)) != made:
                    raise section.damaged(name, f"{made} labels", f"{sum(map(len, pieces))}")
                array[:made] = np.concatenate(pieces)
        self._check_tree(section, labels, np.repeat(np.arange(level), [1, *size_L[1:level].tolist()]), made)
        labels.begin[:], labels.end[:], labels.newest[:], labels.size_L[:] = begin, end, newest, size_L
        unimproved = best[kernels.BEST] == labels.best[kernels.BEST]
        labels.counts[:], labels.best[:] = counts, best
        if np.isnan(labels.value[:made]).any() or np.isnan(labels.bound[:made]).any() or np.isnan(best).any():
            raise section.damaged("worth", "numbers", "others")
        if not unimproved:
            self._check_best(section, labels, prices, made)
        self._added = made

    def _check_tree(self, section: Section, labels: kernels.Labels, level: NDArray[np.int64], made: int) -> None:
        """Refuse labels whose parents are not on an earlier level, or whose rows do not exist."""
        parent, row = labels.parent[:made], labels.row[1:made]
        own = (parent[1:] >= 0) & (parent[1:] < np.arange(1, made))
        own = own & (level[np.where(own, parent[1:], 0)] < level[1:])
        if parent[0] != -1 or not own.all() or not ((row >= 0) & (row < self._model.n_rows)).all():
            raise section.damaged("parent", "labels of earlier levels", "others")
        older = labels.older[:made]
        if len(older) and not ((older >= -1) & (older < np.arange(made))).all():
            raise section.damaged("older", "labels made before", "others")

    def _check_best(self, section: Section, labels: kernels.Labels, prices: kernels.Prices, made: int) -> None:
        """Refuse a best path that is longer than any path."""
        label, row, place, price = labels.counts[kernels.BEST_LABEL :].tolist()
        fits = 0 <= label < made and 0 <= row < self._model.n_rows and 0 <= place < labels.begin.shape[1]
        fits = fits and -1 <= price < len(prices.bound_M)
        length, most = 1, len(labels.size_L) - 1
        while fits and label > 0:
            length, label = length + 1, int(labels.parent[label])
        while fits and price >= 0 and prices.next_row_MV[price, place] >= 0 and length <= most:
            length, place = length + 1, int(prices.next_place_MV[price, place])
        if not fits or length > most:
            raise section.damaged("counts", "a path", "something else")
