"""Rows of the augmented MDP: those of one layer of nodes after the other, and which nodes can be continued from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.solvers.arrays import read_only
from solvent.solvers.augmentation import kernels
from solvent.solvers.augmentation.arrays import NextNodes, NodeArrays, RowArrays
from solvent.solvers.reduction.layers import NodeLayer
from solvent.solvers.reduction.steps import StepArrays


def the_end(steps: StepArrays) -> NextNodes:
    """Return the end, the only node after the last step."""
    return NextNodes(steps.index(steps.model.horizon), np.ones(1, bool), may_end(steps.model))


def may_end(model: CMDP) -> NDArray[np.bool_]:
    """Return whether an episode may end in each state."""
    return read_only(np.ones(model.n_states, bool) if model.may_end is None else model.may_end)


def next_nodes(steps: StepArrays, h: int, layer: NodeLayer, alive: NDArray[np.bool_]) -> NextNodes:
    """Return the nodes of step h with a lookup table, and which can be continued from."""
    return NextNodes(steps.index(h, layer), alive, may_end(steps.model))


class Rows:
    """Rows as they are written, with space for a known number of rows and for one that is tried and not kept."""

    def __init__(self, model: CMDP, n_rows: int, n_entries: int, n_nodes: int, monitor: ResourceMonitor) -> None:
        n_entries += model.most_outcomes
        index = np.int32 if max(n_entries, n_nodes) < np.iinfo(np.int32).max else np.int64
        width = np.dtype(index).itemsize
        # actions and rewards are taken from the model once all rows are written
        monitor.reserve(n_rows * (16 + width) + n_entries * (8 + width), "the rows of the augmented MDP")
        self.row, self.indptr = np.empty(n_rows, np.int32), np.zeros(n_rows + 1, index)
        self.next, self.probability = np.empty(n_entries, index), np.empty(n_entries)
        self.written = np.zeros(2, np.int64)
        self.counts: list[NDArray[np.int64]] = []

    def add(
        self,
        steps: StepArrays,
        h: int,
        nodes: NodeArrays,
        wanted: NDArray[np.bool_],
        after: NextNodes,
        *,
        keep_all: bool,
        merge: bool = True,
    ) -> NDArray[np.bool_]:
        """Append the rows of the wanted nodes of a layer; return which nodes of the next layer they lead to."""
        count, reached = np.empty(len(wanted), np.int64), np.zeros(len(after.alive), bool)
        kernels.emit(
            nodes, wanted, steps.arrays, steps.costs, steps.at(h), after, keep_all, merge,
            RowArrays(count, self.row, self.indptr, self.next, self.probability, self.written), reached,
            steps.monitor.halt,
        )  # fmt: skip
        steps.monitor.check_time()
        self.counts.append(count[wanted])
        return reached

    def parts(self) -> dict[str, Any]:
        """Return the arrays by name, cut to what was written; see `solvent.solvers.augmentation.augment`."""
        n_rows, n_entries = self.written.tolist()
        for array, size in (
            (self.row, n_rows),
            (self.indptr, n_rows + 1),
            (self.next, n_entries),
            (self.probability, n_entries),
        ):
            array.resize(size, refcheck=False)
        return {
            "row_indptr": np.concatenate([[0], np.cumsum(np.concatenate(self.counts))]).astype(np.int64),
            "row": self.row,
            "entry_indptr": self.indptr,
            "next_node": self.next,
            "probability": self.probability,
        }


def judge(
    steps: StepArrays, h: int, nodes: NodeArrays, after: NextNodes, *, keep_all: bool, merge: bool = True
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], int, int]:
    """Return which nodes can be continued from, which have no safe row, and the numbers of rows and of entries."""
    alive, stuck = np.empty(len(nodes.state), bool), np.empty(len(nodes.state), bool)
    n_rows, n_entries = kernels.judge(
        nodes, steps.arrays, steps.costs, steps.at(h), after, keep_all, merge, alive, stuck, steps.monitor.halt
    )
    steps.monitor.check_time()
    return alive, stuck, n_rows, n_entries
