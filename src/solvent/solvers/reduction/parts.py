"""Parts of layers: the nodes of some states, expanded and valued without those of other states.

A part expands the nodes of its own states. Those that it finds in its own states it keeps; those in its halo it gives
to the parts that they belong to, each node once. A part merges what it has found itself with what others have found
for it, and sorts it. Layers are sorted by state and amounts, so that they are the same for any division into parts.

Backward, a part needs the values of the next layer in its own states, which it has computed itself, and in its halo.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.solvers.arrays import ModelArrays, read_only
from solvent.solvers.bounds.arrays import Bounds, LimitArrays
from solvent.solvers.outcomes.arrays import CostDistributions, IndependentRows
from solvent.solvers.parts import StatePart, ranges
from solvent.solvers.reduction import kernels
from solvent.solvers.reduction.arrays import LayerBounds, NextValues, NodeChoices, NodeIndex
from solvent.solvers.reduction.forward import expand_by_hash
from solvent.solvers.reduction.layers import SORTING, Grid, NodeLayer, in_memory
from solvent.solvers.reduction.steps import layer_bounds


class FoundNodes(NamedTuple):
    """Nodes that a part has found for another one.

    Attributes
    ----------
    state : ndarray of int32, shape (N,)
        Positions among the states of the other part that are in the halo of this one.
    spent : ndarray of int64, shape (N, D)
    """

    state: NDArray[np.int32]
    spent: NDArray[np.int64]


class ValuedNodes(NamedTuple):
    """All nodes of a part in states that are in the halo of another one, and their values.

    Attributes
    ----------
    counts : ndarray of int64
        Number of nodes of each of these states.
    spent : ndarray of int64, shape (N, D)
    value : ndarray of float64, shape (N,)
    """

    counts: NDArray[np.int64]
    spent: NDArray[np.int64]
    value: NDArray[np.float64]


class OwnNodes(NamedTuple):
    """The nodes of a part in its own states.

    Attributes
    ----------
    counts : ndarray of int64
        Number of nodes of each of its own states.
    spent : ndarray of int64, shape (N, D)
    """

    counts: NDArray[np.int64]
    spent: NDArray[np.int64]

    @property
    def layer(self) -> NodeLayer:
        """The same as a layer of the states of the part."""
        return NodeLayer(np.concatenate([[0], np.cumsum(self.counts)]), in_memory(self.spent))


class LayerPart:
    """The nodes of one part at one step, from which those of other steps are computed.

    Parameters
    ----------
    part : StatePart
    sent : list of ndarray of int64
        For each part whose halo contains states of this one, the positions of these states among its own.
    received : list of ndarray of int64
        For each part whose states are in the halo of this one, the positions of these states in the halo.
    memory : int, optional
        Memory limit in bytes. Default: most of the free memory.
    """

    def __init__(
        self, part: StatePart, sent: list[NDArray[np.int64]], received: list[NDArray[np.int64]], memory: int | None
    ) -> None:
        # kernels are compiled for read-only arrays of models and limits, and for writable bounds
        self._part = part = replace(
            part,
            arrays=ModelArrays._make(read_only(each) for each in part.arrays),
            limits=LimitArrays(*map(read_only, part.limits)),
            bounds=Bounds(*map(in_memory, part.bounds)),
        )
        self.arrays, self.limits, self.bounds = part.arrays, part.limits, part.bounds
        cost_OD, floor_D, ceiling_D, _ = part.costs
        self.costs = part.costs._replace(
            cost_OD=read_only(cost_OD), floor_D=read_only(floor_D), ceiling_D=read_only(ceiling_D)
        )
        self.grid, self.bytes_per_node = Grid(np.zeros(1, np.int64), 0), 8 * cost_OD.shape[1] + 4
        self._sent, self._received, self._memory = sent, received, memory
        #: The part that each state of the halo belongs to, and its position among those that `received` lists.
        self._owner, self._place = (np.empty(len(part.halo), np.int32) for _ in range(2))
        for k, at in enumerate(received):
            self._owner[at], self._place[at] = k, np.arange(len(at))
        self._independent = _no_independent_rows(len(part.rows), cost_OD.shape[1])
        nothing = np.empty((0, cost_OD.shape[1]), np.int64)
        self._found = FoundNodes(np.empty(0, np.int32), nothing)
        self._layer, self._value = NodeLayer(np.zeros(len(part.own) + 1, np.int64), nothing), np.empty(0)

    def at(self, h: int) -> LayerBounds:
        """Return the rows of a step and the amounts for which each is safe."""
        return layer_bounds(self, h, self._part.row_indptr_at(h))

    def index(self, h: int) -> NodeIndex:
        """Return step h without nodes."""
        return self.grid.no_nodes(self.bounds, h)

    def expand(self, h: int, counts: NDArray[np.int64], spent: NDArray[np.int64]) -> list[FoundNodes]:
        """Begin with its own nodes of step h, given as in `OwnNodes`; return what it finds for each other part."""
        self._layer = OwnNodes(counts, spent).layer
        return self._expand(h)

    def extend(self, h: int, *blocks: FoundNodes) -> list[OwnNodes | FoundNodes]:
        """Merge what it has found itself and what others have found for it at step h, and expand that.

        Returns
        -------
        list
            Its own nodes of step h, then what it finds for each other part at step h + 1.
        """
        monitor = ResourceMonitor(bytes=self._memory)
        state = np.concatenate([self._found.state, *(at[b.state] for at, b in zip(self._sent, blocks, strict=True))])
        size = (2 * self.bytes_per_node + SORTING) * len(state)
        monitor.reserve(size, f"the nodes of step {h}")
        spent = np.concatenate([self._found.spent, *(block.spent for block in blocks)])
        n_own = len(self._part.own)
        self._layer = layer = NodeLayer.of(state.astype(np.int32, copy=False), spent, n_own, monitor).distinct()
        del state, spent
        return [OwnNodes(np.diff(layer.indptr), layer.spent), *self._expand(h)]

    def _expand(self, h: int) -> list[FoundNodes]:
        horizon, n_own = len(self.arrays.table_of_step), len(self._part.own)
        monitor = ResourceMonitor(bytes=self._memory)
        monitor.reserve(self.bytes_per_node * len(self._layer), f"the nodes of step {h}")
        if h == horizon - 1:
            state, spent = np.empty(0, np.int32), self._layer.spent[:0]
        else:
            state, spent = expand_by_hash(self, h, self._layer, monitor)
        own = state < n_own
        self._found = FoundNodes(state[own], spent[own])
        owner = np.full(len(state), -1, np.int32)
        owner[~own] = self._owner[state[~own] - n_own]
        found = []
        for k in range(len(self._received)):
            mine = owner == k
            found.append(FoundNodes(self._place[state[mine] - n_own], spent[mine]))
        return found

    def restore(
        self, counts: NDArray[np.int64], spent: NDArray[np.int64], value: NDArray[np.float64]
    ) -> list[ValuedNodes]:
        """Begin with its own nodes of some step and their values; return what other parts need of them."""
        self._layer, self._value = OwnNodes(counts, spent).layer, in_memory(value)
        return self._needed()

    def choose(
        self, h: int, counts: NDArray[np.int64], spent: NDArray[np.int64], *blocks: ValuedNodes
    ) -> list[tuple[NDArray[np.int32], NDArray[np.float64]] | ValuedNodes]:
        """Compute the values and best rows of its own nodes of step h, given those of its halo at the next step.

        Returns
        -------
        list
            A pair of the best row of each node, a row of the model, and the largest value, the smallest value and the
            largest reward, as in `Extremes`; then what other parts need.
        """
        after, layer = self._next_values(h + 1, blocks), OwnNodes(counts, spent).layer
        n_own, n_nodes = len(self._part.own), len(layer)
        choices = NodeChoices(np.empty(n_nodes), np.empty(n_nodes, np.int32), np.zeros(n_own))
        halt = np.zeros(1, bool)
        kernels.choose_rows(
            0, n_own, layer.part(0, n_nodes), self.arrays, self.costs, self.at(h), self._independent, after, choices,
            halt,
        )  # fmt: skip
        self._layer, self._value = layer, choices.value
        value, row = choices.value, choices.row
        row[row >= 0] = self._part.rows[row[row >= 0]]
        extremes = np.array(
            [value.max(initial=0.0), value[value > -np.inf].min(initial=0.0), choices.reward_S.max(initial=0.0)]
        )
        return [(row, extremes), *self._needed()]

    def _next_values(self, h: int, blocks: tuple[ValuedNodes, ...]) -> NextValues:
        """Return the nodes of step h in its own states and its halo, and their values."""
        if h == len(self.arrays.table_of_step):
            return NextValues(self.index(h), np.empty(0))
        n_own, n_nodes = len(self._part.own), len(self._layer) + sum(len(block.value) for block in blocks)
        monitor = ResourceMonitor(bytes=self._memory)
        # states, amounts and values of all of them, the table, and twice its own values and rows
        size = n_nodes * (self.bytes_per_node + 8) + self.grid.table_bytes(n_nodes) + 32 * len(self._layer)
        monitor.reserve(size, f"the values of step {h}")
        halo = [np.repeat(n_own + at, block.counts) for at, block in zip(self._received, blocks, strict=True)]
        nodes = self.index(h)._replace(
            state=np.concatenate([self._layer.state, *halo]).astype(np.int32, copy=False),
            spent_ND=np.concatenate([self._layer.spent, *(block.spent for block in blocks)]),
            slots=self.grid.empty(n_nodes),
        )
        kernels.fill_slots(nodes, n_nodes, monitor.halt)
        return NextValues(nodes, np.concatenate([self._value, *(block.value for block in blocks)]))

    def _needed(self) -> list[ValuedNodes]:
        """Return the nodes and values that each other part needs."""
        found = []
        for states in self._sent:
            nodes, counts = ranges(self._layer.indptr, states)
            found.append(ValuedNodes(counts, self._layer.spent[nodes], self._value[nodes]))
        return found

    def values(self) -> NDArray[np.float64]:
        """Return the values of its own nodes of the step whose rows were chosen last."""
        return self._value


def _no_independent_rows(n_rows: int, n_resources: int) -> IndependentRows:
    """Return rows that are all used as they are: hashed nodes have no averages over next states."""
    costs = CostDistributions(
        np.zeros(1, np.int64), read_only(np.empty((0, n_resources), np.int64)), np.empty(0, np.float64)
    )
    return IndependentRows(
        np.full(n_rows, -1, np.int32), np.zeros(n_rows, np.int64), np.empty(0, np.int32), np.empty(0), costs
    )
