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
    """The runs of all steps, in files of a folder; amounts are numbered part by part.

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


def check_runs(
    layout: BoxLayout,
    section: Section,
    runs: list[RowRuns],
    steps: tuple[int, NDArray[np.int64], NDArray[np.int64]],
) -> None:
    """Raise a `ModelError` unless runs from a checkpoint are some that a sweep can have made.

    Kernels rely on this: the runs of a step begin with its first amount, increase, and have rows of their states.

    Parameters
    ----------
    layout : BoxLayout
    section : Section
    runs : list of RowRuns
        From the last step to the first.
    steps : (int, ndarray, ndarray)
        The first step with runs, and where the runs of each step begin and end.
    """
    first, first_H, end_H = steps
    start = np.concatenate([each.start for each in runs] or [np.empty(0, np.int32)])
    row = np.concatenate([each.row for each in runs] or [np.empty(0, np.uint16)])
    begin = 0
    for h in range(layout.model.horizon - 1, first - 1, -1):
        cells_S = layout.boxes.cell[h]
        if first_H[h] != begin or not begin <= end_H[h] <= len(start):
            raise section.damaged("ends", f"runs of step {h} that begin at {begin}", "others")
        check_step_runs(layout, section, h, start[begin : end_H[h]], row[begin : end_H[h]], cells_S)
        begin = int(end_H[h])
    if begin != len(start):
        raise section.damaged("ends", f"{len(start)} runs", f"{begin}")


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
