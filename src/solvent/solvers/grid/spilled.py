"""Sweeps whose values do not fit into memory: parts are swept one after another, with values and runs on disk.

At each step, every part reads the values of its own states and of its halo at the next step from files, and writes its
own values and runs to new ones. So memory is needed for the largest part only, and for the boxes themselves.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvent.core.array_files import ArrayFile, ArrayFolder, temporary_folder
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.solvers.accuracy import Extremes
from solvent.solvers.arrays import read_only
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import Boxes
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.parts import Exchange, Part, PartBuffers, PartSweep, split_states
from solvent.solvers.grid.runs import StoredRuns, check_step_runs
from solvent.solvers.grid.swept import Swept, last_rows

#: Share of the memory that is left which one part may take.
_SHARE = 0.8
#: Memory of the arrays of a part, per state and step: four bounds, four ends of boxes, and three offsets.
_FIXED_PER_RESOURCE, _FIXED_PER_STATE = 64, 24


def plan_parts(layout: BoxLayout, room: int, least: int = 1) -> list[NDArray[np.int64]] | None:
    """Return the states of each part, so that every part fits into memory; None if a single state does not.

    Parameters
    ----------
    layout : BoxLayout
    room : int
        Bytes.
    least : int
        The least number of parts.
    """
    model, boxes = layout.model, layout.boxes
    stored_HS, arrivals_HS = np.diff(boxes.offset, axis=1), np.diff(boxes.arrival_offset, axis=1)
    cells_HS = np.diff(boxes.cell, axis=1)
    per_state = len(boxes.low) * (_FIXED_PER_RESOURCE * boxes.low.shape[2] + _FIXED_PER_STATE)
    weight_S = (stored_HS + arrivals_HS).sum(0).astype(float) + 1.0
    n_parts = least
    while n_parts <= 2 * model.n_states:
        sets = split_states(model, weight_S, n_parts)
        left, most = room, 0
        for own in sets:
            states = _with_successors(layout, own)
            left -= per_state * len(states)
            size = 8 * int(stored_HS[:, states].sum(1).max()) + 8 * int(arrivals_HS[:, states].sum(1).max())
            most = max(most, size + 2 * int(stored_HS[:, own].sum(1).max()) + 6 * int(cells_HS[:, own].sum(1).max()))
        if most <= _SHARE * left:
            return sets
        n_parts *= 2
    return None


def _with_successors(layout: BoxLayout, own: NDArray[np.int64]) -> NDArray[np.int64]:
    model = layout.model
    n_tables = (len(model.row_indptr) - 1) // model.n_states
    marked = np.zeros(model.n_states, bool)
    marked[own] = True
    for table in range(n_tables):
        keys = table * model.n_states + own
        for first, last in zip(model.row_indptr[keys].tolist(), model.row_indptr[keys + 1].tolist(), strict=True):
            marked[model.next_state[model.outcome_indptr[first] : model.outcome_indptr[last]]] = True
    return np.flatnonzero(marked)


def sweep_parts(layout: BoxLayout, sets: list[NDArray[np.int64]], monitor: ResourceMonitor) -> Swept:
    """Sweep a problem part by part, with the values of two steps and all runs on disk.

    Raises
    ------
    LimitReached
        If time, memory or space on the disk runs out.
    """
    try:
        return _SpilledSweep(layout, sets, monitor).run()
    except OSError as error:
        raise LimitReached(f"values could not be written to disk: {error.strerror or error}") from None


class _SpilledSweep:
    """One sweep, its parts and their files."""

    def __init__(self, layout: BoxLayout, sets: list[NDArray[np.int64]], monitor: ResourceMonitor) -> None:
        self._layout, self._monitor = layout, monitor
        self._parts = [Part.of(layout, own) for own in sets]
        self._fixed = sum(part.fixed_bytes for part in self._parts)
        monitor.reserve(self._fixed, "parts of the states")
        self._exchange = Exchange.between(self._parts, layout.model.n_states)
        checkpoint = monitor.checkpoint
        self._section = None if checkpoint is None else monitor.section("parts", *layout.content, *sets)
        self._folder: ArrayFolder = temporary_folder() if checkpoint is None else checkpoint.folder
        self._extremes = Extremes.none(layout.model, lambda: last_rows(layout))
        horizon = layout.model.horizon
        self._values: list[ArrayFile] = []
        self._start_H: list[ArrayFile | None] = [None] * horizon
        self._row_H: list[ArrayFile | None] = [None] * horizon
        self._boxes = _numbered_by_parts(layout.boxes, sets)

    def run(self) -> Swept:
        """Sweep all steps."""
        layout, monitor, horizon = self._layout, self._monitor, self._layout.model.horizon
        self._check_disk()
        h = self._resumed()
        buffers = PartBuffers.of(self._parts)
        largest = sum(each.nbytes for each in buffers) + 6 * max(int(part.cells_H.max()) for part in self._parts)
        with monitor.borrowed(largest, "values of boxes of amounts"):
            while h > 0:
                if monitor.should_save():
                    self._save(h)
                monitor.check_time()
                cells = int(layout.sizes.cells_H[h - 1])
                monitor.tell("backward", horizon - h, horizon, cells=cells, parts=len(self._parts))
                h -= 1
                with monitor.postponed():
                    self._sweep_step(h, buffers)
            if self._section is not None:
                self._save(0)
            monitor.check_time()
        del buffers
        layout = replace(layout, boxes=self._boxes)
        value = self._first_values()
        start_H, row_H = ([file for file in each if file is not None] for each in (self._start_H, self._row_H))
        monitor.release(self._fixed)
        return Swept(layout, value, StoredRuns(self._folder, start_H, row_H), self._extremes)

    def _check_disk(self) -> None:
        needed = int(16 * self._layout.sizes.stored_H.max())
        free = shutil.disk_usage(self._folder.path).free
        if needed > free:
            raise LimitReached(
                f"values need {needed / 1e6:,.0f} MB on disk, more than the {free / 1e6:,.0f} MB that are free there; "
                "set TMPDIR to a folder on a larger disk"
            )

    def _sweep_step(self, h: int, buffers: PartBuffers) -> None:
        monitor, parts = self._monitor, self._parts
        before, self._values = self._values, []
        starts, rows = self._folder.writer(np.int32), self._folder.writer(np.uint16)
        try:
            for p, part in enumerate(parts):
                sweep = PartSweep(part, buffers, monitor.halt)
                self._load(p, sweep, h + 1, before)
                runs, extremes = sweep.sweep(h)
                monitor.check_time()
                starts.append(runs.start + np.int32(self._boxes.cell[h, part.own[0]]))
                rows.append(runs.row)
                self._values.append(self._folder.write(sweep.own_values(h)))
                self._extremes.add(h, extremes)
        except BaseException:
            starts.discard()
            rows.discard()
            raise
        self._start_H[h], self._row_H[h] = starts.close(), rows.close()
        for file in before:
            self._discard(file)

    def _load(self, p: int, sweep: PartSweep, h: int, files: list[ArrayFile]) -> None:
        """Load the values of a part and its halo at step h."""
        if h == self._layout.model.horizon:
            sweep.end()
            return
        sweep.own_values(h)[:] = self._folder.read(files[p])
        for q in self._exchange.senders[p]:
            value, offset = self._folder.read(files[q]), self._parts[q].own_boxes.offset[h]
            sweep.receive(h, self._exchange.received[q, p], value, offset, self._exchange.sent[q, p])

    def _discard(self, file: ArrayFile) -> None:
        if self._monitor.checkpoint is None:
            self._folder.remove(file.number)
        else:
            self._monitor.checkpoint.discard(file)

    def _save(self, h: int) -> None:
        assert self._section is not None
        extremes = self._extremes
        files = {
            "value": self._values,
            "start": [file for file in self._start_H if file is not None],
            "row": [file for file in self._row_H if file is not None],
        }
        arrays = {"extremes": np.stack([extremes.top, extremes.bottom, extremes.reward])}
        self._section.save({"step": h}, arrays, files=files)

    def _resumed(self) -> int:
        """Return the step that was swept last, according to the checkpoint; the horizon if there is none."""
        section, horizon, extremes = self._section, self._layout.model.horizon, self._extremes
        if section is None or not section.state:
            return horizon
        h = section.whole("step", 0, horizon)
        found = section.array("extremes", np.float64, (3, horizon))
        extremes.top[:], extremes.bottom[:], extremes.reward[:] = found
        values = section.files_of("value", np.float64, (None,))
        stored = [int(part.stored_H[h]) for part in self._parts] if h < horizon else []
        if [file.shape[0] for file in values] != stored or np.isnan(found).any():
            raise section.damaged("value", f"values of {len(stored)} parts", f"{len(values)}")
        starts = section.files_of("start", np.int32, (None,))
        rows = section.files_of("row", np.uint16, (None,))
        if [file.shape for file in starts] != [file.shape for file in rows] or len(starts) != horizon - h:
            raise section.damaged("row", "a row for each run", "another number")
        order = np.concatenate([part.own for part in self._parts])
        for i, (start, row) in enumerate(zip(starts, rows, strict=True)):
            cells = np.append(self._boxes.cell[h + i, order], self._boxes.cell[h + i, -1])
            arrays = self._folder.read(start), self._folder.read(row)
            check_step_runs(self._layout, section, h + i, arrays[0], arrays[1], cells, order)
        self._values = list(values)
        self._start_H[h:], self._row_H[h:] = starts, rows
        return h

    def _first_values(self) -> NDArray[np.float64]:
        """Return the values of all boxes of the first step, in the order of states."""
        size = int(self._layout.sizes.stored_H[0])
        self._monitor.reserve(8 * size, "values of boxes of amounts")
        value, offset = np.empty(size), self._layout.boxes.offset[0]
        for part, file in zip(self._parts, self._values, strict=True):
            given, at = read_only(self._folder.read(file)), part.own_boxes.offset[0]
            kernels.copy_blocks(given, read_only(at), np.arange(len(part.own)), value, offset, part.own)
        return value


def _numbered_by_parts(boxes: Boxes, sets: list[NDArray[np.int64]]) -> Boxes:
    """Return boxes whose amounts are numbered part by part."""
    order = np.concatenate(sets)
    counts_HS = np.diff(boxes.cell, axis=1)[:, order]
    cell = np.empty_like(boxes.cell)
    cell[:, order] = np.cumsum(counts_HS, axis=1) - counts_HS
    cell[:, -1] = boxes.cell[:, -1]
    return boxes._replace(cell=cell)
