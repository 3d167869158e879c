"""The graph of a learner with the rows of every node written out, in place of layers that steps share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.learning.graph import SafeGraph


class FlatGraph(NamedTuple):
    """Nodes, rows and entries, each in one array over all steps; `stored_row` is the graph's own number of a row."""

    layer_indptr: NDArray[np.int64]
    node_state: NDArray[np.int64]
    node_spent_ND: NDArray[np.int64]
    row_indptr: NDArray[np.int64]
    row_action: NDArray[np.int64]
    row_model: NDArray[np.int64]
    stored_row: NDArray[np.int64]
    entry_indptr: NDArray[np.int64]
    entry_next: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        return len(self.node_state)


def flat(graph: SafeGraph) -> FlatGraph:
    """Write out a graph, one node after the other."""
    layers, model = graph.layers, graph.problem.model
    states, spents, counts, rows, sizes, after = [], [], [], [], [], []
    for step in range(model.horizon + 1):
        for node in range(int(layers.layer_indptr[step]), int(layers.layer_indptr[step + 1])):
            stored = node - int(layers.shift_H[step])
            states.append(int(layers.node_state[stored]))
            spents.append(layers.node_spent_ND[stored].tolist())
            own = range(int(layers.row_indptr[stored]), int(layers.row_indptr[stored + 1]))
            counts.append(len(own))
            for row in own:
                entries = layers.entry_next[int(layers.entry_indptr[row]) : int(layers.entry_indptr[row + 1])].tolist()
                rows.append(row)
                sizes.append(len(entries))
                after += [int(layers.layer_indptr[step + 1]) + entry for entry in entries]
    stored_row = np.array(rows, np.int64)
    return FlatGraph(
        layer_indptr=layers.layer_indptr,
        node_state=np.array(states, np.int64),
        node_spent_ND=np.array(spents, np.int64).reshape(len(states), -1),
        row_indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        row_action=model.row_action[layers.row[stored_row]],
        row_model=layers.row[stored_row],
        stored_row=stored_row,
        entry_indptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        entry_next=np.array(after, np.int64),
    )


def assert_equal(one: FlatGraph, other: FlatGraph) -> None:
    """Compare two graphs, except for the numbers of their rows."""
    for name in FlatGraph._fields:
        if name != "stored_row":
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
