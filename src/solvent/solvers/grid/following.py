"""The policy of a sweep, followed from the start: what is reached, spent and earned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.core.array_files import ArrayFile, ArrayFolder, temporary_folder
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.solvers.accuracy import Followed
from solvent.solvers.arrays import read_only
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import FollowedSteps, ReachedCells
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.runs import StoredRuns
from solvent.solvers.grid.swept import Swept
from solvent.solvers.problem import Problem, TrueCosts
from solvent.solvers.reduction.arrays import OutcomeCosts, TrueTicks
from solvent.solvers.reduction.following import true_ticks
from solvent.solvers.reduction.layers import grown, power_of_two

#: Number of cells that there is room for at first.
_ROOM = 1 << 12
#: Number of cells up to which there is made room for eight times as many, and for twice as many beyond.
_FEW = 1 << 16


@dataclass(frozen=True)
class Trace:
    """The cells that a policy reaches, and the amounts it spends.

    Attributes
    ----------
    cells : ReachedLayers
    peak_HD, trough_HD : ndarray of int64, shape (H, D)
        The most and the least that can have been spent after each step, in the problem's order of resources.
    followed : Followed
        Expected rewards of each step.
    """

    cells: ReachedLayers
    peak_HD: NDArray[np.int64]
    trough_HD: NDArray[np.int64]
    followed: Followed

    @property
    def is_stored(self) -> bool:
        """Whether the cells are in files."""
        return isinstance(self.cells, _StoredLayers)

    def layer(self, layout: BoxLayout, h: int) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Return states, amounts in the problem's order of resources, and rows of the cells of a step that act."""
        cell, state, row = self.cells.at(h)
        acting = np.flatnonzero(row >= 0)
        state, row = state[acting], row[acting]
        boxes = layout.boxes
        rest = cell[acting] - boxes.cell[h, state]
        spent_ND = np.empty((len(state), boxes.low.shape[2]), np.int64)
        for d in range(spent_ND.shape[1] - 1, -1, -1):
            width = boxes.width[h, state, d]
            spent_ND[:, d] = boxes.low[h, state, d] + rest % width
            rest //= width
        return state, layout.restored(spent_ND), row


#: Cells, states and rows of a step.
Layer = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]


class ReachedLayers(Protocol):
    """The cells that a policy reaches at each step."""

    def at(self, h: int) -> Layer:
        """Return their numbers, their states, and the rows that are taken, -1 where the episode has ended."""

    def rows(self) -> Iterable[NDArray[np.int64]]:
        """Return the rows of all steps."""


@dataclass(frozen=True)
class _KeptLayers:
    """Cells of all steps in memory, one after another."""

    cells: ReachedCells
    indptr_H: NDArray[np.int64]

    def at(self, h: int) -> Layer:
        at = slice(int(self.indptr_H[h]), int(self.indptr_H[h + 1]))
        return self.cells.cell[at], self.cells.state[at], self.cells.row[at]

    def rows(self) -> Iterable[NDArray[np.int64]]:
        return [self.cells.row[: int(self.indptr_H[-1])]]


@dataclass(frozen=True)
class _StoredLayers:
    """Cells of each step in files."""

    folder: ArrayFolder
    files: list[tuple[ArrayFile, ArrayFile, ArrayFile]] = field(default_factory=list)

    def write(self, cells: ReachedCells, begin: int, end: int) -> None:
        """Write the cells of the next step."""
        cell, state, row = (self.folder.write(each[begin:end]) for each in (cells.cell, cells.state, cells.row))
        self.files.append((cell, state, row))

    def at(self, h: int) -> Layer:
        cell, state, row = (self.folder.read(file) for file in self.files[h])
        return cell, state, row

    def rows(self) -> Iterable[NDArray[np.int64]]:
        return (self.folder.read(row) for _, _, row in self.files)


def follow(problem: Problem, swept: Swept, monitor: ResourceMonitor, *, spill: bool = True) -> Trace:
    """Follow the best rows from the start, with the extremes of true spending.

    Memory for the cells that are reached stays reserved. If they do not fit into memory, or runs are stored in files,
    they are written to files (unless `spill` is False), and only those of two steps are in memory.

    Raises
    ------
    LimitReached
        If time, memory or space on the disk runs out.
    """
    try:
        return _Following(problem, swept, monitor, spill=spill).run()
    except OSError as error:
        raise monitor.disk_limit("cells", error) from None


class _Following:
    """The cells that are reached, and what is spent and earned there."""

    def __init__(self, problem: Problem, swept: Swept, monitor: ResourceMonitor, *, spill: bool) -> None:
        self._swept, self._monitor, self._model, self._spill = swept, monitor, problem.model, spill
        self._stored: _StoredLayers | None = None
        layout, model = swept.layout, problem.model
        horizon, n_resources, starts = model.horizon, len(layout.order), model.start_states
        self._earned = Followed.begun(model)
        self._steps = FollowedSteps(
            self._earned.reward, self._earned.size, np.full((horizon, n_resources), MINUS_INFINITY),
            np.full((horizon, n_resources), PLUS_INFINITY), np.full(n_resources, MINUS_INFINITY),
            np.full(n_resources, PLUS_INFINITY),
        )  # fmt: skip
        self._room = max(_ROOM, len(starts))
        self._bytes_per_cell = 8 + 4 + 8 + 8 + 16 * n_resources
        monitor.reserve(self._room * self._bytes_per_cell, "cells that the policy reaches")
        room = self._room
        cells = ReachedCells(
            np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room),
            np.empty((room, n_resources), np.int64), np.empty((room, n_resources), np.int64),
        )  # fmt: skip
        boxes, count = layout.boxes, len(starts)
        cells.state[:count], cells.probability[:count] = starts, model.start_probability
        at = np.zeros(count, np.int64)
        for d in range(n_resources):
            low, width = boxes.low[0, starts, d], boxes.width[0, starts, d]
            at = at * width + np.clip(layout.lattice.initial_D[d], low, low + width - 1) - low
        cells.cell[:count] = boxes.cell[0, starts] + at
        accounts = problem.truth.high_accounts.initial_D, problem.truth.low_accounts.initial_D
        cells.most_ND[:count], cells.least_ND[:count] = (initial[layout.order] for initial in accounts)
        self._cells, self._count = cells, count
        self._costs = OutcomeCosts(layout.costs, _ordered_truth(problem.truth, layout.order))
        self._most_cells = int(layout.sizes.cells_H[:-1].max())
        self._slots = _empty_slots(min(2 * room, self._most_cells), monitor)
        self._indptr_H = np.zeros(horizon + 1, np.int64)

    def run(self) -> Trace:
        """Follow all steps."""
        layout, model, monitor, runs = self._swept.layout, self._model, self._monitor, self._swept.runs
        horizon, h = model.horizon, 0
        while h < horizon:
            monitor.tell("following", h, horizon, cells=self._count)
            now, stop = runs.from_step(h)
            h, self._count = kernels.follow_steps(
                h, stop, self._count, layout.arrays, self._costs, layout.boxes, now, self._slots, self._cells,
                self._indptr_H, self._steps, monitor.halt,
            )  # fmt: skip
            monitor.check_time()
            self._indptr_H[horizon] = self._count
            if isinstance(runs, StoredRuns):
                self._write(h)
            if h < stop:
                self._enlarge(h)
        monitor.release(self._slots.nbytes)
        cells: ReachedLayers = _KeptLayers(self._cells, self._indptr_H)
        if self._stored is not None:
            self._write(horizon)
            monitor.release(self._room * self._bytes_per_cell)
            cells = self._stored
        back = layout.restored
        earned = self._earned.along(model, cells.rows)
        return Trace(cells, back(self._steps.peak_HD), back(self._steps.trough_HD), earned)

    def _enlarge(self, h: int) -> None:
        """Make room for more cells, if necessary by writing those before step h to files."""
        monitor, room, size = self._monitor, self._room, self._bytes_per_cell
        larger = room * (2 if room > _FEW else 8)
        if not monitor.has_room_for(larger * size + 8 * larger):
            larger = 2 * room
        if self._spill and self._indptr_H[h] and not monitor.has_room_for(larger * size + 8 * larger):
            self._write(h)
            return  # perhaps there is enough room now
        monitor.reserve(larger * size, "cells that the policy reaches")
        self._cells = ReachedCells(*(grown(each, larger) for each in self._cells))
        monitor.release(room * size)
        self._room = room = larger
        wanted = min(2 * room, self._most_cells)
        if len(self._slots) < wanted:
            monitor.release(self._slots.nbytes)
            self._slots = _empty_slots(wanted, monitor)

    def _write(self, h: int) -> None:
        """Write the cells of all steps before step h to files."""
        if self._stored is None:
            self._stored = _StoredLayers(temporary_folder())
        indptr_H, cells = self._indptr_H, self._cells
        for step in range(len(self._stored.files), h):
            self._stored.write(cells, int(indptr_H[step]), int(indptr_H[step + 1]))
        gone = int(indptr_H[h])
        for each in cells:
            each[: self._count - gone] = each[gone : self._count].copy()
        self._count -= gone
        indptr_H[:] = 0
        indptr_H[-1] = self._count


def _empty_slots(size: int, monitor: ResourceMonitor) -> NDArray[np.int32]:
    """Return an empty hash table with at least `size` places, after reserving memory for it."""
    length = power_of_two(size)
    monitor.reserve(4 * length, "cells that the policy reaches")
    return np.full(length, -1, np.int32)


def _ordered_truth(truth: TrueCosts, order: NDArray[np.int64]) -> TrueTicks:
    """Return the true costs with resources in another order."""
    ticks = true_ticks(truth)
    if (np.diff(order) >= 0).all():
        return ticks
    return TrueTicks(*(read_only(np.ascontiguousarray(each[..., order])) for each in ticks))
