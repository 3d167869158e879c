"""What has been computed of a sweep in parts: values of the last step, and runs of all later ones, in files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvent.core.array_files import ArrayFile, ArrayFolder, ArrayWriter, temporary_folder
from solvent.core.checkpoint import Section
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.solvers.accuracy import Extremes
from solvent.solvers.arrays import read_only
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import RowRuns
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.parts import Part
from solvent.solvers.grid.runs import PARTS, WHOLE, SavedSweep, StoredRuns, check_step_runs, step_of
from solvent.solvers.grid.swept import Swept, last_rows
from solvent.solvers.parts import Exchange


class PartedRecord:
    """A sweep in parts: its parts, and the files with what was computed so far.

    The files are in the folder of the checkpoint if there is one, else in a temporary folder. A checkpoint can be
    continued with other parts: values are divided anew, and amounts are numbered by the parts of each step.

    Parameters
    ----------
    layout : BoxLayout
    sets : list of ndarray of int64
        The states of each part.
    monitor : ResourceMonitor

    Attributes
    ----------
    parts : list of Part
    exchange : Exchange
    folder : ArrayFolder
    values : list of ArrayFile
        The values of each part at the step that was swept last; empty at the beginning.
    """

    def __init__(self, layout: BoxLayout, sets: list[NDArray[np.int64]], monitor: ResourceMonitor) -> None:
        self.layout, self._monitor = layout, monitor
        self.parts = Part.all_of(layout, sets)
        self._fixed = sum(part.fixed_bytes for part in self.parts)
        monitor.reserve(self._fixed, "parts of the states")
        self.exchange = Exchange.between(self.parts, layout.model.n_states)
        checkpoint = monitor.checkpoint
        self._section = None if checkpoint is None else monitor.section(PARTS, *layout.content)
        self.folder: ArrayFolder = temporary_folder() if checkpoint is None else checkpoint.folder
        self._extremes = Extremes.none(layout.model, lambda: last_rows(layout))
        horizon = layout.model.horizon
        self.values: list[ArrayFile] = []
        self._start_H: list[ArrayFile | None] = [None] * horizon
        self._row_H: list[ArrayFile | None] = [None] * horizon
        self._order = np.concatenate([part.own for part in self.parts])
        self._cell = _numbered(layout.boxes.cell, self._order)
        self._before: list[tuple[int, NDArray[np.int64]]] = []  # first step and order of states of other parts

    def check_disk(self, h: int) -> None:
        """Raise `LimitReached` if the disk has no space for the values of two steps, after step h was swept."""
        stored_H = self.layout.sizes.stored_H
        needed = 8 * int((stored_H[1 : h + 1] + stored_H[:h]).max(initial=0)) - sum(file.size for file in self.values)
        free = shutil.disk_usage(self.folder.path).free
        if needed > free:
            raise LimitReached(
                f"values need {needed / 1e6:,.0f} MB on disk, more than the {free / 1e6:,.0f} MB that are free there; "
                f"{self._monitor.disk_hint}"
            )

    @contextmanager
    def step(self, h: int) -> Iterator[StepRecord]:
        """Context in which the runs of all parts of step h are added, in the order of the parts."""
        starts, rows = self.folder.writer(np.int32), self.folder.writer(np.uint16)
        try:
            yield StepRecord(h, starts, rows, self._extremes)
        except BaseException:
            starts.discard()
            rows.discard()
            raise
        self._start_H[h], self._row_H[h] = starts.close(), rows.close()

    def replace_values(self, files: list[ArrayFile]) -> None:
        """Keep the values of another step instead of those so far."""
        before, self.values = self.values, files
        for file in before:
            self._discard(file)

    def forget_before(self, h: int) -> None:
        """Discard the runs of all steps before step h, which are computed again."""
        for files in (self._start_H, self._row_H):
            for step in range(h):
                file = files[step]
                if file is not None:
                    self._discard(file)
                files[step] = None

    def _discard(self, file: ArrayFile) -> None:
        if self._monitor.checkpoint is None:
            self.folder.remove(file.number)
        else:
            self._monitor.checkpoint.discard(file)

    def save(self, h: int) -> None:
        """Save what was computed down to step h, whose values must be the current ones, to the checkpoint."""
        if self._section is None:
            return
        files = {
            "value": self.values,
            "start": [file for file in self._start_H[h:] if file is not None],
            "row": [file for file in self._row_H[h:] if file is not None],
        }
        numberings = [*self._before, (h, self._order)]
        arrays = {
            "extremes": self._extremes.saved,
            "first_step": np.array([step for step, _ in numberings], np.int64),
            "order": np.stack([order for _, order in numberings]),
            "part_sizes": np.array([len(part.own) for part in self.parts], np.int64),
        }
        self._section.save({"step": h}, arrays, files=files)

    def resumed(self) -> int:
        """Return the step that was swept last, according to the checkpoint; the horizon if there is none."""
        layout, section = self.layout, self._section
        if section is None:
            return layout.model.horizon
        h, whole = step_of(section, layout), self._monitor.section(WHOLE, *layout.content)
        if whole is not None and step_of(whole, layout) < h:
            return self._resumed_from_memory(whole)
        if not section.state:
            return layout.model.horizon
        horizon, n_states = layout.model.horizon, layout.model.n_states
        order_ES, sizes = self._saved_orders(section, h)
        values = section.files_of("value", np.float64, (None,))
        stored_S = np.diff(layout.boxes.offset[h])
        ends = np.cumsum(sizes)
        sets = [order_ES[-1][end - size : end] for end, size in zip(ends, sizes, strict=True)] if h < horizon else []
        if [file.shape[0] for file in values] != [int(stored_S[own].sum()) for own in sets]:
            raise section.damaged("value", f"values of {len(sets)} parts", f"{len(values)}")
        starts = section.files_of("start", np.int32, (None,))
        rows = section.files_of("row", np.uint16, (None,))
        if [file.shape for file in starts] != [file.shape for file in rows] or len(starts) != horizon - h:
            raise section.damaged("row", "a row for each run", "another number")
        firsts = section.array("first_step", np.int64, (len(order_ES),)).tolist()
        end = horizon
        for first, order in zip(firsts, order_ES, strict=True):
            self._cell[first:end] = _numbered(layout.boxes.cell[first:end], order)
            for step in range(first, end):
                cells = np.append(self._cell[step, order], self._cell[step, n_states])
                arrays = self.folder.read(starts[step - h]), self.folder.read(rows[step - h])
                check_step_runs(layout, section, step, arrays[0], arrays[1], cells, order)
            end = first
        self._extremes.restore(section)
        self._before = list(zip(firsts, order_ES, strict=True))
        if np.array_equal(order_ES[-1], self._order):
            self._before.pop()
        self._start_H[h:], self._row_H[h:] = starts, rows
        self.values = list(values)
        if h < horizon and [own.tolist() for own in sets] != [part.own.tolist() for part in self.parts]:
            self._divide_anew(h, [(file, own) for file, own in zip(values, sets, strict=True)])
        return h

    def _saved_orders(self, section: Section, h: int) -> tuple[list[NDArray[np.int64]], list[int]]:
        """Return the orders of states by which amounts were numbered, and the number of states of each part."""
        horizon, n_states = self.layout.model.horizon, self.layout.model.n_states
        firsts = section.array("first_step", np.int64, (None,))
        order_ES = section.array("order", np.int64, (len(firsts), n_states))
        sizes = section.array("part_sizes", np.int64, (None,))
        if not len(firsts) or firsts[-1] != h or (np.diff(firsts) > 0).any() or firsts[0] > horizon:
            raise section.damaged("first_step", f"steps from at most {horizon} down to {h}", "others")
        if (np.sort(order_ES, axis=1) != np.arange(n_states)).any():
            raise section.damaged("order", "every state once", "others")
        if (sizes < 1).any() or (sizes > n_states).any() or sizes.sum() != n_states:
            raise section.damaged("part_sizes", f"numbers of states, {n_states} in total", "others")
        return [np.array(order) for order in order_ES], sizes.tolist()

    def _resumed_from_memory(self, section: Section) -> int:
        """Take over what a sweep in memory has saved."""
        layout, monitor, horizon = self.layout, self._monitor, self.layout.model.horizon
        saved = SavedSweep.of(section, layout)
        h, runs = saved.step, saved.runs
        with monitor.borrowed(12 * sum(len(each.start) for each in runs), "runs of best rows"):
            first_H, end_H = saved.check_runs(section, layout)
            start, row = (np.concatenate(each) for each in zip(*runs, strict=True))
            for step in range(h, horizon):
                at = slice(int(first_H[step]), int(end_H[step]))
                self._start_H[step], self._row_H[step] = self.folder.write(start[at]), self.folder.write(row[at])
        self._extremes.restore(section)
        order = np.arange(layout.model.n_states)
        self._cell[h:horizon] = layout.boxes.cell[h:horizon]
        self._before = [] if np.array_equal(order, self._order) else [(h, order)]
        self._divide_anew(h, [(saved.file, order)])
        return h

    def _divide_anew(self, h: int, given: list[tuple[ArrayFile, NDArray[np.int64]]]) -> None:
        """Write the values of step h to files of the parts, from files with the values of some states each."""
        sizes_S, files = np.diff(self.layout.boxes.offset[h]), []
        place = np.full(len(sizes_S), -1)
        for part in self.parts:
            with self._monitor.borrowed(8 * int(part.stored_H[h]), "values of boxes of amounts"):
                value = np.empty(int(part.stored_H[h]))
                for file, states in given:
                    place[:] = -1
                    place[states] = np.arange(len(states))
                    to = np.flatnonzero(place[part.own] >= 0)
                    offset = np.concatenate([[0], np.cumsum(sizes_S[states])])
                    kernels.copy_blocks(
                        read_only(self.folder.read(file)), read_only(offset), read_only(place[part.own[to]]), value,
                        part.own_boxes.offset[h], read_only(to),
                    )  # fmt: skip
                files.append(self.folder.write(value))
        self.replace_values(files)

    def finished(self) -> Swept:
        """Return the result after all steps were swept, and release the memory of the parts."""
        self.save(0)
        self._monitor.check_time()
        value = self._first_values()
        start_H, row_H = ([file for file in each if file is not None] for each in (self._start_H, self._row_H))
        self._monitor.release(self._fixed)
        layout = replace(self.layout, boxes=self.layout.boxes._replace(cell=self._cell))
        return Swept(layout, value, StoredRuns(self.folder, start_H, row_H), self._extremes)

    def _first_values(self) -> NDArray[np.float64]:
        """Return the values of all boxes of the first step, in the order of states."""
        size = int(self.layout.sizes.stored_H[0])
        self._monitor.reserve(8 * size, "values of boxes of amounts")
        value, offset = np.empty(size), self.layout.boxes.offset[0]
        for part, file in zip(self.parts, self.values, strict=True):
            given, at = read_only(self.folder.read(file)), read_only(part.own_boxes.offset[0])
            places = np.arange(len(part.own))
            kernels.copy_blocks(given, at, read_only(places), value, offset, read_only(part.own))
        return value


class StepRecord:
    """The runs of one step, written part by part."""

    def __init__(self, h: int, starts: ArrayWriter, rows: ArrayWriter, extremes: Extremes) -> None:
        self._h, self._starts, self._rows, self._extremes = h, starts, rows, extremes

    def add(self, runs: RowRuns, extremes: NDArray[np.float64]) -> None:
        """Add the runs and the extremes of the next part."""
        self._starts.append(runs.start)
        self._rows.append(runs.row)
        self._extremes.add(self._h, extremes)


def _numbered(cell: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of first amounts, shape (N, S + 1), counted in another order of states."""
    counts = np.diff(cell, axis=1)[:, order]
    found = np.empty_like(cell)
    found[:, order] = np.cumsum(counts, axis=1) - counts
    found[:, -1] = cell[:, -1]
    return found
