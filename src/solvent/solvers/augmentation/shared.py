"""The pruned, time-expanded MDP with its transitions by outcome, in which equal layers are stored once.

Write L(h) for the nodes that safe rows lead to at step h, and T(h) for what step h does with them: which rows are safe
at a node, and which node of L(h + 1) each of their outcomes leads to. In a stationary model with a long horizon, most
steps do what the step before them did, because what was spent is settled or because it stays within the same few
amounts. Three passes use this:

    L(h) = L(h - 1) and T(h) = T(h - 1)                                  imply  L(h + 1) = L(h)
    the same, and the same nodes of L(h + 1) and L(h) are alive          imply  the same nodes of L(h) and L(h - 1) are
    the same, and the same nodes of L(h) and L(h - 1) can be reached     imply  step h has the rows of step h - 1, and
                                                                                L(h + 1) the reached nodes of L(h)

Each right side is a function of its left side, so the result is the one that would be computed step by step.
T(h) = T(h - 1) holds if both steps have the same table of rows, none is the last, and every bound that is compared with
an amount is the same (`kernels.repeats`) for all amounts from the least to the greatest of L(h) and of those after one
more outcome; settled resources are not compared with bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.interrupt import held_back
from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.locate import COLLAPSED
from solvent.solvers.augmentation import kernels
from solvent.solvers.augmentation.arrays import NodeArrays
from solvent.solvers.augmentation.rows import Rows, judge, next_nodes, the_end
from solvent.solvers.bounds.bounds import bounds_of
from solvent.solvers.reduction.forward import next_layer
from solvent.solvers.reduction.layers import NodeLayer
from solvent.solvers.reduction.steps import StepArrays


@dataclass(frozen=True, eq=False)
class SharedLayers:
    """Nodes by step, and the stored layers that have their rows.

    Nodes are numbered step by step; the end comes last. Node i of step h is stored node `i - shift_H[h]`:

        rows of a stored node    row_indptr[stored] : row_indptr[stored + 1]
        entries of a row         entry_indptr[row] : entry_indptr[row + 1]
        node after an entry      layer_indptr[h + 1] + entry_next[entry]

    Attributes
    ----------
    layer_indptr : ndarray of int64, shape (H + 2,)
        First node of each step and the end, and the number of nodes.
    shift_H : ndarray of int64, shape (H + 1,)
    node_state : ndarray of int32, shape (N,)
        State of each stored node; -1 for the end.
    node_spent_ND : ndarray of int64, shape (N, D)
        Ticks spent at each stored node, or `COLLAPSED`.
    row_indptr : ndarray of int64, shape (N + 1,)
    row : ndarray of int64, shape (R,)
        The model's row.
    entry_indptr : ndarray of int64, shape (R + 1,)
        Entry j of a row belongs to outcome j of the model's row.
    entry_next : ndarray of uint32, shape (E,)
        Position of a node within the next layer.
    feasible : bool
    settled_low, settled_high : ndarray of int64, shape (H, S, D)
        Amounts that are settled.
    """

    layer_indptr: NDArray[np.int64]
    shift_H: NDArray[np.int64]
    node_state: NDArray[np.int32]
    node_spent_ND: NDArray[np.int64]
    row_indptr: NDArray[np.int64]
    row: NDArray[np.int64]
    entry_indptr: NDArray[np.int64]
    entry_next: NDArray[np.uint32]
    feasible: bool
    settled_low: NDArray[np.int64]
    settled_high: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all steps, with the end."""
        return int(self.layer_indptr[-1])

    @cached_property
    def n_rows(self) -> int:
        """Number of rows of the nodes of all steps; those that steps share count for each."""
        first, last = self.layer_indptr[:-1] - self.shift_H, self.layer_indptr[1:] - self.shift_H
        return int((self.row_indptr[last] - self.row_indptr[first]).sum())


def expand_shared(model: CMDP, lattice: Lattice, monitor: ResourceMonitor, *, share: bool = True) -> SharedLayers:
    """Return the pruned MDP of a problem whose costs are in ticks; its memory stays reserved in the monitor.

    Parameters
    ----------
    model : CMDP
    lattice : Lattice
    monitor : ResourceMonitor
    share : bool
        If False, every step has a stored layer of its own.

    Raises
    ------
    LimitReached
        If time or memory runs out.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.model.budget import resolve
    >>> model = instances.fuel_grid(3)
    >>> layers = expand_shared(model, Lattice.fit(model, resolve(model, 100)), ResourceMonitor())
    >>> layers.n_nodes, len(layers.node_state)
    (64, 37)
    """
    with held_back():
        steps = StepArrays(model, lattice, bounds_of(model, lattice, monitor), monitor)
        return _Expansion(steps, share=share).layers()


@dataclass(frozen=True)
class _Stored:
    """A stored layer: nodes, number of rows of each, rows, number of entries of each, and entries."""

    state: NDArray[np.int32]
    spent_ND: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    row: NDArray[np.int64]
    n_entries: NDArray[np.int64]
    entry_next: NDArray[np.uint32]


class _Expansion:
    """The three passes. Equal layers, and equal sets of nodes, are the same object."""

    def __init__(self, steps: StepArrays, *, share: bool) -> None:
        self.steps, self.monitor, self.share = steps, steps.monitor, share
        self.horizon = steps.model.horizon
        #: Whether each step does with its nodes what the step before does with the same nodes.
        self.repeats = [False] * self.horizon
        cost_OD = steps.lattice.cost_OD
        zero = np.zeros((1, cost_OD.shape[1]), np.int64)
        self._least_cost_D = np.concatenate([cost_OD, zero]).min(axis=0).tolist()
        self._most_cost_D = np.concatenate([cost_OD, zero]).max(axis=0).tolist()

    def layers(self) -> SharedLayers:
        """Return the layers."""
        nodes = self._forward()
        distinct = {id(layer): len(layer) for layer in nodes}
        largest, n_resources = max(distinct.values()) + 1, len(self.steps.lattice.resources)
        table_bytes = 4 * (self.steps.grid.size or 4 * largest) + 12 * largest
        total = sum(distinct.values()) * (6 + 8 * n_resources)
        self.monitor.reserve(total + table_bytes, "the nodes of the graph")
        alive, sizes = self._backward(nodes)
        stored, place, counts = self._emit(nodes, alive, sizes)
        bounds = self.steps.bounds
        layer_indptr = _indptr(np.array([*counts, 1]))
        begin = _indptr(np.array([len(each.state) for each in stored]))
        end = _Stored(
            np.array([-1], np.int32), np.zeros((1, n_resources), np.int64), np.zeros(1, np.int64),
            np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint32),
        )  # fmt: skip
        every = [*stored, end]
        return SharedLayers(
            layer_indptr=layer_indptr,
            shift_H=layer_indptr[:-1] - begin[[*place, len(stored)]],
            node_state=np.concatenate([each.state for each in every]),
            node_spent_ND=np.concatenate([each.spent_ND for each in every]),
            row_indptr=_indptr(np.concatenate([each.n_rows for each in every])),
            row=np.concatenate([each.row for each in every]),
            entry_indptr=_indptr(np.concatenate([each.n_entries for each in every])),
            entry_next=np.concatenate([each.entry_next for each in every]),
            feasible=bool(alive[0].all()),
            settled_low=bounds.settled_low[:-1],
            settled_high=bounds.settled_high[:-1],
        )

    def _forward(self) -> list[NodeLayer]:
        """Return the nodes that safe rows lead to at each step."""
        steps, monitor = self.steps, self.monitor
        found = [steps.first_layer()]
        for h in range(self.horizon - 1):
            monitor.check_time()
            monitor.tell("forward", h + 1, self.horizon, nodes=len(found[-1]))
            layer = found[h]
            if h and layer is found[h - 1] and self._does_repeat(h, layer):
                self.repeats[h] = True
                found.append(layer)
                continue
            after = next_layer(steps, h, layer, monitor)
            if self.share and _is_same(after, layer):
                monitor.release(steps.bytes_per_node * len(after))
                after = layer
            found.append(after)
        return found

    def _does_repeat(self, h: int, layer: NodeLayer) -> bool:
        """Return whether step h does with a layer what step h - 1 does, neither of them the last."""
        steps = self.steps
        if steps.model.table_of_step[h] != steps.model.table_of_step[h - 1]:
            return False
        return bool(kernels.repeats(h, steps.bounds, steps.limits, *self._amounts(layer)))

    def _amounts(self, layer: NodeLayer) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the least and the greatest amounts of a layer that are not settled, and of those after one outcome."""
        lattice, least, most = self.steps.lattice, [], []
        for d, spent in enumerate(layer.spent.T):
            tracked = spent[spent != COLLAPSED]
            if not len(tracked):
                least.append(1)
                most.append(0)
                continue
            floor, ceiling = int(lattice.floor_D[d]), int(lattice.ceiling_D[d])
            low, high = int(tracked.min()), int(tracked.max())
            # one more than any amount must be a number of 64 bits
            least.append(max(min(low, max(low + self._least_cost_D[d], floor)), MINUS_INFINITY + 2))
            most.append(min(max(high, min(high + self._most_cost_D[d], ceiling)), PLUS_INFINITY - 2))
        return np.array(least, np.int64), np.array(most, np.int64)

    def _backward(self, nodes: list[NodeLayer]) -> tuple[list[NDArray[np.bool_]], list[tuple[int, int]]]:
        """Return which nodes of each step can be continued from, and bounds on its numbers of rows and entries."""
        alive, sizes = [np.empty(0, bool)] * self.horizon, [(0, 0)] * self.horizon
        for h in range(self.horizon - 1, -1, -1):
            self.monitor.check_time()
            last = h == self.horizon - 1
            if not last and self.repeats[h + 1] and alive[h + 1] is alive[h + 2]:
                alive[h], sizes[h] = alive[h + 1], sizes[h + 1]
                continue
            after = the_end(self.steps) if last else next_nodes(self.steps, h + 1, nodes[h + 1], alive[h + 1])
            arrays = NodeArrays(nodes[h].state, nodes[h].spent)
            found, _, *size = judge(self.steps, h, arrays, after, keep_all=False, merge=False)
            same = not last and nodes[h] is nodes[h + 1] and np.array_equal(found, alive[h + 1])
            alive[h], sizes[h] = alive[h + 1] if same else found, (size[0], size[1])
        return alive, sizes

    def _emit(
        self, nodes: list[NodeLayer], alive: list[NDArray[np.bool_]], sizes: list[tuple[int, int]]
    ) -> tuple[list[_Stored], list[int], list[int]]:
        """Return the stored layers, the one of each step, and the number of nodes of each step."""
        stored, place, counts = list[_Stored](), list[int](), list[int]()
        before, wanted = np.empty(0, bool), np.ones(len(nodes[0]), bool)
        for h in range(self.horizon):
            self.monitor.check_time()
            if self.repeats[h] and wanted is before and alive[h + 1] is alive[h]:
                place.append(place[-1])
                counts.append(counts[-1])
                continue
            found, reached = self._emit_step(h, nodes, alive, wanted, sizes[h])
            place.append(len(stored))
            counts.append(len(found.state))
            stored.append(found)
            shared = h < self.horizon - 1 and nodes[h + 1] is nodes[h] and np.array_equal(reached, wanted)
            before, wanted = wanted, wanted if shared else reached
        return stored, place, counts

    def _emit_step(
        self,
        h: int,
        nodes: list[NodeLayer],
        alive: list[NDArray[np.bool_]],
        wanted: NDArray[np.bool_],
        size: tuple[int, int],
    ) -> tuple[_Stored, NDArray[np.bool_]]:
        """Return the wanted nodes of a step with their rows, and which nodes of the next step these lead to."""
        steps, monitor, used = self.steps, self.monitor, self.monitor.used
        last, layer = h == self.horizon - 1, nodes[h]
        after = the_end(steps) if last else next_nodes(steps, h + 1, nodes[h + 1], alive[h + 1])
        rows = Rows(steps.model, *size, len(after.alive), monitor)
        reached = rows.add(steps, h, NodeArrays(layer.state, layer.spent), wanted, after, keep_all=False, merge=False)
        parts = rows.parts()
        number = (np.cumsum(reached) - 1).astype(np.uint32)
        found = _Stored(
            layer.state[wanted], layer.spent[wanted], rows.counts[0], parts["row"].astype(np.int64),
            np.diff(parts["entry_indptr"]).astype(np.int64), number[parts["next_node"]],
        )  # fmt: skip
        monitor.release(monitor.used - used)
        # twice: until all are joined, and then in one piece
        kept = 2 * (
            24 * len(found.row) + 4 * len(found.entry_next) + (20 + 8 * layer.spent.shape[1]) * len(found.state)
        )
        monitor.reserve(kept, "the rows of the graph")
        return found, reached


def _is_same(one: NodeLayer, other: NodeLayer) -> bool:
    return np.array_equal(one.indptr, other.indptr) and np.array_equal(one.spent, other.spent)


def _indptr(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
