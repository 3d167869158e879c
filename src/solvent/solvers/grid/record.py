"""What has been computed of a sweep in parts: values of the last step, and runs of all later ones, in files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvent.core.array_files import ArrayFile, ArrayFolder, ArrayWriter, temporary_folder
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.solvers.accuracy import Extremes
from solvent.solvers.arrays import read_only
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import Boxes, RowRuns
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.parts import Part
from solvent.solvers.grid.runs import StoredRuns, check_step_runs
from solvent.solvers.grid.swept import Swept, last_rows
from solvent.solvers.parts import Exchange


class PartedRecord:
    """A sweep in parts: its parts, and the files with what was computed so far.

    The files are in the folder of the checkpoint if there is one, else in a temporary folder.

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
        self.parts = [Part.of(layout, own) for own in sets]
        self._fixed = sum(part.fixed_bytes for part in self.parts)
        monitor.reserve(self._fixed, "parts of the states")
        self.exchange = Exchange.between(self.parts, layout.model.n_states)
        checkpoint = monitor.checkpoint
        self._section = None if checkpoint is None else monitor.section("parts", *layout.content, *sets)
        self.folder: ArrayFolder = temporary_folder() if checkpoint is None else checkpoint.folder
        self._extremes = Extremes.none(layout.model, lambda: last_rows(layout))
        horizon = layout.model.horizon
        self.values: list[ArrayFile] = []
        self._start_H: list[ArrayFile | None] = [None] * horizon
        self._row_H: list[ArrayFile | None] = [None] * horizon
        self._boxes = _numbered_by_parts(layout.boxes, sets)

    def check_disk(self) -> None:
        """Raise `LimitReached` if the disk has no space for the values of two steps."""
        needed = int(16 * self.layout.sizes.stored_H.max())
        free = shutil.disk_usage(self.folder.path).free
        if needed > free:
            raise LimitReached(
                f"values need {needed / 1e6:,.0f} MB on disk, more than the {free / 1e6:,.0f} MB that are free there; "
                "set TMPDIR to a folder on a larger disk"
            )

    @contextmanager
    def step(self, h: int) -> Iterator[StepRecord]:
        """Context in which the runs of all parts of step h are added, in the order of the parts."""
        starts, rows = self.folder.writer(np.int32), self.folder.writer(np.uint16)
        firsts = [int(self._boxes.cell[h, part.own[0]]) for part in self.parts]
        try:
            yield StepRecord(h, firsts, starts, rows, self._extremes)
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
        extremes = self._extremes
        files = {
            "value": self.values,
            "start": [file for file in self._start_H[h:] if file is not None],
            "row": [file for file in self._row_H[h:] if file is not None],
        }
        arrays = {"extremes": np.stack([extremes.top, extremes.bottom, extremes.reward])}
        self._section.save({"step": h}, arrays, files=files)

    def resumed(self) -> int:
        """Return the step that was swept last, according to the checkpoint; the horizon if there is none."""
        section, horizon, extremes = self._section, self.layout.model.horizon, self._extremes
        if section is None or not section.state:
            return horizon
        h = section.whole("step", 0, horizon)
        found = section.array("extremes", np.float64, (3, horizon))
        values = section.files_of("value", np.float64, (None,))
        stored = [int(part.stored_H[h]) for part in self.parts] if h < horizon else []
        if [file.shape[0] for file in values] != stored or np.isnan(found).any():
            raise section.damaged("value", f"values of {len(stored)} parts", f"{len(values)}")
        starts = section.files_of("start", np.int32, (None,))
        rows = section.files_of("row", np.uint16, (None,))
        if [file.shape for file in starts] != [file.shape for file in rows] or len(starts) != horizon - h:
            raise section.damaged("row", "a row for each run", "another number")
        order = np.concatenate([part.own for part in self.parts])
        for i, (start, row) in enumerate(zip(starts, rows, strict=True)):
            cells = np.append(self._boxes.cell[h + i, order], self._boxes.cell[h + i, -1])
            arrays = self.folder.read(start), self.folder.read(row)
            check_step_runs(self.layout, section, h + i, arrays[0], arrays[1], cells, order)
        extremes.top[:], extremes.bottom[:], extremes.reward[:] = found
        self.values = list(values)
        self._start_H[h:], self._row_H[h:] = starts, rows
        return h

    def finished(self) -> Swept:
        """Return the result after all steps were swept, and release the memory of the parts."""
        self.save(0)
        self._monitor.check_time()
        value = self._first_values()
        start_H, row_H = ([file for file in each if file is not None] for each in (self._start_H, self._row_H))
        self._monitor.release(self._fixed)
        layout = replace(self.layout, boxes=self._boxes)
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

    def __init__(self, h: int, firsts: list[int], starts: ArrayWriter, rows: ArrayWriter, extremes: Extremes) -> None:
        self._h, self._firsts, self._starts, self._rows, self._extremes = h, firsts, starts, rows, extremes

    def add(self, p: int, runs: RowRuns, extremes: NDArray[np.float64]) -> None:
        """Add the runs and the extremes of a part."""
        self._starts.append(runs.start + np.int32(self._firsts[p]))
        self._rows.append(runs.row)
        self._extremes.add(self._h, extremes)


def _numbered_by_parts(boxes: Boxes, sets: list[NDArray[np.int64]]) -> Boxes:
    """Return boxes whose amounts are numbered part by part."""
    order = np.concatenate(sets)
    counts_HS = np.diff(boxes.cell, axis=1)[:, order]
    cell = np.empty_like(boxes.cell)
    cell[:, order] = np.cumsum(counts_HS, axis=1) - counts_HS
    cell[:, -1] = boxes.cell[:, -1]
    return boxes._replace(cell=cell)
