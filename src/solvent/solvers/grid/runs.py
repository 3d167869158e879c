"""Runs of best rows of all steps: in memory, or in files that are read step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.core.array_files import ArrayFile, ArrayFolder
from solvent.core.checkpoint import Section
from solvent.solvers.grid.arrays import RowRuns, StepRuns
from solvent.solvers.grid.layout import BoxLayout


@dataclass(frozen=True)
class KeptRuns:
    """The runs of all steps, in memory."""

    all: StepRuns

    def from_step(self, h: int) -> tuple[StepRuns, int]:
        """Return the runs of step h and of later ones, and the step before which they end."""
        return self.all, len(self.all.first_H)


@dataclass(frozen=True)
class StoredRuns:
    """The runs of all steps, in files of a folder.

    Attributes
    ----------
    folder : ArrayFolder
    start_H, row_H : list of ArrayFile
        Those of each step.
    """

    folder: ArrayFolder
    start_H: list[ArrayFile]
    row_H: list[ArrayFile]

    def from_step(self, h: int) -> tuple[StepRuns, int]:
        """Return the runs of step h, and h + 1."""
        start, row = self.folder.read(self.start_H[h]), self.folder.read(self.row_H[h])
        first_H, end_H = np.zeros((2, len(self.start_H)), np.int64)
        end_H[h] = len(start)
        return StepRuns(start, row, first_H, end_H), h + 1


#: Names of sections of a checkpoint: of a sweep in memory, and of one in parts.
WHOLE, PARTS = "grid", "parts"


def step_of(section: Section, layout: BoxLayout) -> int:
    """Return the step down to which a sweep was saved; the horizon if there is nothing yet."""
    horizon = layout.model.horizon
    return section.whole("step", 0, horizon) if section.state else horizon


@dataclass(frozen=True)
class SavedSweep:
    """What a sweep in memory saves to its section of a checkpoint, besides extremes.

    Attributes
    ----------
    step : int
        The step that was swept last.
    file : ArrayFile
    value : ndarray of float64
        The values of that step, in the order of states.
    ends : ndarray of int64, shape (2, H)
        Where the runs of each step begin, and end.
    runs : list of RowRuns
        From the last step to the first, those of one or several steps each.
    """

    step: int
    file: ArrayFile
    value: NDArray[np.float64]
    ends: NDArray[np.int64]
    runs: list[RowRuns]

    @classmethod
    def of(cls, section: Section, layout: BoxLayout) -> SavedSweep:
        """Return what was saved, after checking it; runs are not checked yet."""
        h, horizon = step_of(section, layout), layout.model.horizon
        value = section.array("value", np.float64, (int(layout.sizes.stored_H[h]),))
        ends = section.array("ends", np.int64, (2, horizon))
        if not (value < np.inf).all():
            raise section.damaged("value", "numbers", "others")
        starts = section.pieces("start", np.int32, (None,))
        rows = section.pieces("row", np.uint16, (None,))
        if [len(each) for each in starts] != [len(each) for each in rows]:
            raise section.damaged("row", "a row for each run", "another number")
        (file,) = section.files_of("value", np.float64, (None,))
        return cls(h, file, value, ends, [RowRuns(*each) for each in zip(starts, rows, strict=True)])

    def check_runs(self, section: Section, layout: BoxLayout) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the runs of each step begin, and end, after checking that a sweep can have made them.

        Kernels rely on this: the runs of a step begin with its first amount, increase, and have rows of their states.

        Raises
        ------
        ModelError
            If they are damaged.
        """
        first_H, end_H = self.ends
        start = np.concatenate([each.start for each in self.runs] or [np.empty(0, np.int32)])
        row = np.concatenate([each.row for each in self.runs] or [np.empty(0, np.uint16)])
        begin = 0
        for h in range(layout.model.horizon - 1, self.step - 1, -1):
            cells_S = layout.boxes.cell[h]
            if first_H[h] != begin or not begin <= end_H[h] <= len(start):
                raise section.damaged("ends", f"runs of step {h} that begin at {begin}", "others")
            check_step_runs(layout, section, h, start[begin : end_H[h]], row[begin : end_H[h]], cells_S)
            begin = int(end_H[h])
        if begin != len(start):
            raise section.damaged("ends", f"{len(start)} runs", f"{begin}")
        return first_H, end_H


def check_step_runs(
    layout: BoxLayout,
    section: Section,
    h: int,
    start: NDArray[np.int32],
    row: NDArray[np.uint16],
    cells_S: NDArray[np.int64],
    states: NDArray[np.int64] | None = None,
) -> None:
    """Raise a `ModelError` unless the runs of step h are possible.

    `cells_S` has the first amount of each state, and last their number; `states` their order, if it is another one.
    """
    total = int(cells_S[-1])
    if (total > 0) != (len(start) > 0) or (total and start[0] != 0) or (np.diff(start) <= 0).any():
        raise section.damaged("start", f"runs of step {h} that increase from 0", "others")
    if not len(start):
        return
    if start[-1] >= total:
        raise section.damaged("start", f"runs of step {h} up to {total - 1}", str(start[-1]))
    rows_S = np.diff(layout.model.row_indptr_at(h))
    rows_S = rows_S if states is None else rows_S[states]
    # a run may extend over several states: its row must be one of each of them
    some = np.flatnonzero(np.diff(cells_S) > 0)
    begins = np.union1d(start.astype(np.int64), cells_S[some])
    state = some[np.searchsorted(cells_S[some], begins, side="right") - 1]
    taken = row[np.searchsorted(start, begins, side="right") - 1]
    if (taken > rows_S[state]).any():
        raise section.damaged("row", f"rows of states at step {h}", "others")
