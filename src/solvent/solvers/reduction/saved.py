"""The layers of a reduction, and their values from the last step on: in memory, in files, and in a checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.array_files import ArrayFile, ArrayFolder, temporary_folder
from solvent.core.checkpoint import Section
from solvent.core.limits import ResourceMonitor
from solvent.policy.locate import COLLAPSED
from solvent.solvers.accuracy import Extremes
from solvent.solvers.reduction.kernels import DEAD_END, TERMINAL
from solvent.solvers.reduction.layers import NodeLayer, in_memory
from solvent.solvers.reduction.steps import StepArrays


class SavedPasses:
    """What both passes of a reduction have computed so far; without a checkpoint, nothing is saved.

    Layers and rows that were loaded or stored here are mapped from files, until `into_memory` is called.

    Attributes
    ----------
    layers : list of NodeLayer
        Those of the first steps.
    rows : list of ndarray of int32
        The row of each node of the steps from `step` on; not defined for others.
    step : int
        The step whose values were computed last; the horizon if none were.
    value : ndarray of float64
        The values of the nodes of `step`.
    """

    def __init__(self, steps: StepArrays, monitor: ResourceMonitor) -> None:
        self._steps, self._monitor, model = steps, monitor, steps.model
        self.layers = [steps.first_layer()]
        self.rows: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * model.horizon
        self.step, self.value = model.horizon, np.empty(0)
        self._section: Section | None = None
        self._folder: ArrayFolder | None = None
        self._spent_files: dict[int, ArrayFile] = {}
        self._row_files: dict[int, ArrayFile] = {}
        if monitor.checkpoint is not None:
            content = (*steps.arrays, *steps.costs, *steps.limits, *steps.bounds, steps.lattice.initial_D)
            self._section = monitor.section("layers", *content, model.start_states)
            self._load()

    @property
    def abandoned(self) -> bool:
        """Whether another method was found to be less work."""
        return self._section is not None and bool(self._section.state.get("abandoned"))

    def abandon(self) -> None:
        """Save that another method is less work, and no layers."""
        if self._section is not None:
            self._section.save({"abandoned": 1}, dropped=("indptr", "spent", "row", "value", "extremes"))

    def save(self, extremes: Extremes | None = None) -> None:
        """Save the layers and, from the backward pass, the rows and values; only what is new is written."""
        if self._section is None:
            return
        state = self._section.state
        new = range(state.get("layers", 1), len(self.layers))
        after = range(state.get("step", self._steps.model.horizon) - 1, self.step - 1, -1)
        arrays: dict[str, NDArray[Any]] = {}
        added: dict[str, NDArray[Any]] = {}
        # those in memory were computed before those in files
        spent = [self.layers[h].spent for h in new if h not in self._spent_files]
        row = [self.rows[h] for h in after if h not in self._row_files]
        if new:
            added["indptr"] = np.stack([self.layers[h].indptr for h in new])
        if spent:
            added["spent"] = np.concatenate(spent)
        if row:
            added["row"] = np.concatenate(row)
        if after:
            assert extremes is not None
            arrays = {"value": self.value, "extremes": extremes.saved}
        stored = {
            "spent": [self._spent_files[h] for h in new if h in self._spent_files],
            "row": [self._row_files[h] for h in after if h in self._row_files],
        }
        files = {name: each for name, each in stored.items() if each}
        self._section.save({"layers": len(self.layers), "step": self.step}, arrays, added, added_files=files)

    @property
    def folder(self) -> ArrayFolder:
        """The folder of the checkpoint or, without one, a temporary folder."""
        if self._folder is None:
            checkpoint = self._monitor.checkpoint
            self._folder = temporary_folder() if checkpoint is None else checkpoint.folder
        return self._folder

    def store_layer(self, layer: NodeLayer) -> None:
        """Add a layer, whose nodes are written to a file."""
        file = self.folder.write(layer.spent)
        self._spent_files[len(self.layers)] = file
        self.layers.append(NodeLayer(layer.indptr, self.folder.read(file)))

    def store_rows(self, h: int, row: NDArray[np.int32]) -> None:
        """Write the rows of a step to a file; `step` and `value` are to be set later."""
        file = self.folder.write(row)
        self._row_files[h], self.rows[h] = file, self.folder.read(file)

    def forget_rows(self) -> None:
        """Remove the rows of steps before `step` that were stored."""
        for h in [h for h in self._row_files if h < self.step]:
            file, self.rows[h] = self._row_files.pop(h), np.empty(0, np.int32)
            if self._monitor.checkpoint is None:
                self.folder.remove(file.number)
            else:
                self._monitor.checkpoint.discard(file)

    def into_memory(self) -> None:
        """Copy layers and rows that are mapped from files into memory.

        Raises
        ------
        LimitReached
            If there is too little of it.
        """
        for h, layer in enumerate(self.layers):
            if not layer.spent.flags.writeable:
                self._monitor.reserve(self._steps.bytes_per_node * len(layer), "the nodes of all steps")
                self.layers[h] = layer.in_memory()
        for h in range(self.step, len(self.rows)):
            if not self.rows[h].flags.writeable:
                self._monitor.reserve(4 * len(self.rows[h]), f"the values of step {h}")
                self.rows[h] = in_memory(self.rows[h])

    def _load(self) -> None:
        section, model = self._section, self._steps.model
        assert section is not None
        if not section.state or self.abandoned:
            return
        count = section.whole("layers", 1, model.horizon)
        step = section.whole("step", 0 if count == model.horizon else model.horizon, model.horizon)
        indptrs = [each for piece in section.pieces("indptr", np.int64, (None, model.n_states + 1)) for each in piece]
        if len(indptrs) != count - 1:
            raise section.damaged("indptr", f"the nodes of {count - 1} steps", f"{len(indptrs)}")
        for indptr in indptrs:
            if indptr[0] != 0 or (np.diff(indptr) < 0).any():
                raise section.damaged("indptr", "positions of nodes", "others")
        n_resources, sizes = len(self._steps.lattice.resources), [int(indptr[-1]) for indptr in indptrs]
        pieces = section.pieces("spent", np.int64, (None, n_resources)) or [np.empty((0, n_resources), np.int64)]
        if sum(map(len, pieces)) != sum(sizes):
            raise section.damaged("spent", f"{sum(sizes)} nodes", f"{sum(map(len, pieces))}")
        parts = _cut(pieces, sizes)
        for indptr, spent in zip(indptrs, parts, strict=True):
            self._check_amounts(spent)
            self.layers.append(NodeLayer(indptr.copy(), spent))
        self._load_values(step)
        self.step = step

    def _check_amounts(self, spent_ND: NDArray[np.int64]) -> None:
        """Refuse amounts outside the grid through which nodes are looked up, if there is one."""
        assert self._section is not None
        grid, n_resources = self._steps.grid, spent_ND.shape[1]
        if not grid.size:
            return
        lows, strides = grid.layout[1 : 1 + n_resources], grid.layout[1 + n_resources :]
        counts = np.append(strides[1:], grid.layout[0]) // strides
        inside = (spent_ND >= lows) & (spent_ND - lows < counts - 1)
        if not (inside | (spent_ND == COLLAPSED)).all():
            raise self._section.damaged("spent", "amounts within limits", "others")

    def _load_values(self, step: int) -> None:
        section, model = self._section, self._steps.model
        assert section is not None
        if step == model.horizon:
            return
        after = list(range(model.horizon - 1, step - 1, -1))
        sizes = [len(self.layers[h]) for h in after]
        pieces = section.pieces("row", np.int32, (None,)) or [np.empty(0, np.int32)]
        if sum(map(len, pieces)) != sum(sizes):
            raise section.damaged("row", f"the rows of {sum(sizes)} nodes", f"{sum(map(len, pieces))}")
        for h, row in zip(after, _cut(pieces, sizes), strict=True):
            indptr, state = model.row_indptr_at(h), self.layers[h].state
            own = (row >= indptr[state]) & (row < indptr[state + 1])
            if not (own | (row == TERMINAL) | (row == DEAD_END)).all():
                raise section.damaged("row", f"rows of states at step {h}", "others")
            self.rows[h] = row
        self.value = section.array("value", np.float64, (sizes[-1],)).copy()
        if not (self.value < np.inf).all():
            raise section.damaged("value", "numbers", "others")

    def restore(self, extremes: Extremes) -> None:
        """Restore the extremes of the steps whose values were saved."""
        if self._section is not None and self.step < self._steps.model.horizon:
            extremes.restore(self._section)


def _cut(pieces: list[NDArray[Any]], sizes: list[int]) -> list[NDArray[Any]]:
    """Return consecutive parts of some arrays, which have the given sizes in total: views, unless arrays end in one."""
    parts, at, piece = [], 0, 0
    for size in sizes:
        taken, left = [], size
        while left:
            found = pieces[piece][at : at + left]
            if not len(found):
                piece, at = piece + 1, 0
                continue
            taken.append(found)
            at, left = at + len(found), left - len(found)
        parts.append(taken[0] if len(taken) == 1 else np.concatenate(taken or [pieces[0][:0]]))
    return parts
