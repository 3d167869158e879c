"""Layers of nodes, and how nodes are looked up in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.model.lattice import Lattice
from solvent.policy.locate import COLLAPSED
from solvent.policy.search import changes, pack
from solvent.solvers.arrays import Scalar
from solvent.solvers.bounds.arrays import Bounds
from solvent.solvers.reduction import kernels
from solvent.solvers.reduction.arrays import LayerNodes, NodeIndex

#: Largest number of keys of a grid; a larger grid would not stay in the caches.
_GRID_KEYS = 8_000_000
#: Temporary memory for sorting nodes, in bytes per node.
SORTING = 33


@dataclass(frozen=True)
class NodeLayer:
    """The nodes of a step, sorted by state and then by amounts, those of the last resource first.

    The order does not depend on how nodes were found, and with it no sum over nodes.

    Attributes
    ----------
    indptr : ndarray of int64, shape (S + 1,)
        Position of the first node of each state.
    spent : ndarray of int64, shape (N, D)
        Ticks, or `COLLAPSED`, which is less than all ticks, where a resource is settled.
    """

    indptr: NDArray[np.int64]
    spent: NDArray[np.int64]

    @classmethod
    def of(
        cls, state: NDArray[np.int32], spent: NDArray[np.int64], n_states: int, monitor: ResourceMonitor
    ) -> NodeLayer:
        """Return the layer with the given nodes, all different.

        Raises
        ------
        LimitReached
            If time runs out.
        """
        indptr = np.zeros(n_states + 1, np.int64)
        np.cumsum(np.bincount(state, minlength=n_states), out=indptr[1:])
        order = np.argsort(state, kind="stable")
        kernels.sort_amounts(indptr, spent, order, monitor.halt)
        monitor.check_time()
        return cls(indptr, spent[order])

    def __len__(self) -> int:
        return len(self.spent)

    def distinct_amounts(self, settled_as: tuple[int, ...] = ()) -> int:
        """Return the number of distinct amounts spent in the layer, over all states.

        Settled amounts count as one more amount or, if given, as the amounts `settled_as`, one for each resource.
        """
        if not self.spent.shape[1]:
            return 1
        spent = np.where(self.spent == COLLAPSED, settled_as, self.spent) if settled_as else self.spent
        return len(np.unique(pack(list(spent.T))))

    @property
    def state(self) -> NDArray[np.int32]:
        """The state of each node, shape (N,)."""
        return np.arange(len(self.indptr) - 1, dtype=np.int32).repeat(self.indptr[1:] - self.indptr[:-1])

    def state_of(self, nodes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the states of nodes, given their positions."""
        return (np.searchsorted(self.indptr, nodes, side="right") - 1).astype(np.int32)

    def distinct(self) -> NodeLayer:
        """Return the layer without repeated nodes."""
        new = changes(self.state, *self.spent.T)
        return NodeLayer(np.concatenate([[0], np.cumsum(new)])[self.indptr], self.spent[new])

    def in_memory(self) -> NodeLayer:
        """Return the layer with arrays that kernels take: copies of those that are mapped from files."""
        return NodeLayer(self.indptr, in_memory(self.spent))

    def part(self, begin: int, end: int) -> LayerNodes:
        """Return the nodes from position `begin` to `end`, for kernels."""
        if (begin, end) == (0, len(self)):
            return LayerNodes(self.indptr, self.spent)
        return LayerNodes(np.clip(self.indptr, begin, end), self.spent)


@dataclass(frozen=True)
class Grid:
    """Table of all states and amounts, through which nodes are looked up if it is small; if not, they are hashed.

    Attributes
    ----------
    layout : ndarray of int64, shape (1 + 2 D,)
        Number of keys per state, then the lowest ticks and the stride of each resource. A first entry of 0 means that
        there is no grid.
    size : int
        Number of keys; 0 if there is no grid.
    """

    layout: NDArray[np.int64]
    size: int

    @classmethod
    def over(cls, bounds: Bounds, lattice: Lattice, n_states: int) -> Grid:
        """Return the grid of all amounts that are neither doomed nor settled in some node, if it is small."""
        n_resources = bounds.safe_low.shape[2]
        lows, strides, keys = [], [], 1
        for d in range(n_resources):
            low, high = _span(bounds, lattice, d)
            lows.append(low)
            strides.append(keys)
            keys *= high - low + 2
            if keys * n_states > _GRID_KEYS:
                return cls(np.zeros(1, np.int64), 0)
        return cls(np.array([keys, *lows, *strides], np.int64), keys * n_states)

    def index(self, layer: NodeLayer, bounds: Bounds, h: int, halt: NDArray[np.bool_]) -> NodeIndex:
        """Return the nodes of step h with a lookup table, which is incomplete if `halt[0]` is set."""
        settled = bounds.settled_low[h], bounds.settled_high[h]
        nodes = NodeIndex(layer.state, layer.spent, self.empty(len(layer)), self.layout, *settled)
        kernels.fill_slots(nodes, len(layer), halt)
        return nodes

    def no_nodes(self, bounds: Bounds, h: int) -> NodeIndex:
        """Return step h without nodes and without a lookup table."""
        settled, nothing = (bounds.settled_low[h], bounds.settled_high[h]), np.empty(0, np.int32)
        return NodeIndex(nothing, np.empty((0, settled[0].shape[1]), np.int64), nothing, self.layout, *settled)

    def table_bytes(self, n_nodes: int) -> int:
        """Return the size in bytes of a lookup table for up to `n_nodes` nodes."""
        return 4 * (self.size or power_of_two(2 * n_nodes))

    def empty(self, n_nodes: int) -> NDArray[np.int32]:
        """Return an empty lookup table for up to `n_nodes` nodes."""
        return np.full(self.size or power_of_two(2 * n_nodes), kernels.EMPTY, np.int32)


def _span(bounds: Bounds, lattice: Lattice, d: int) -> tuple[int, int]:
    """Return the least and the most ticks of a resource in any node where it is neither doomed nor settled."""
    initial, floor, ceiling = (int(each[d]) for each in lattice.accounts)
    safe_low, safe_high = bounds.safe_low[..., d], bounds.safe_high[..., d]
    settled_low, settled_high = bounds.settled_low[..., d], bounds.settled_high[..., d]
    # below safe_high but not settled: from above settled_high or below settled_low
    some = settled_low <= settled_high
    low = np.where(some & (settled_low == MINUS_INFINITY), settled_high, safe_low)
    high = np.where(some & (settled_high == PLUS_INFINITY), settled_low, safe_high)
    live = (safe_low <= safe_high) & ~(some & (settled_low <= safe_low) & (settled_high >= safe_high))
    live[-1] = False
    if not live.any():
        return initial, initial
    lowest, highest = max(int(low[live].min()), floor), min(int(high[live].max()), ceiling)
    return min(lowest, initial), max(highest, initial)


def power_of_two(least: int) -> int:
    """Return the smallest power of two that is at least 16 and at least `least`."""
    return 1 << max(4, (least - 1).bit_length())


def grown(array: NDArray[Any], length: int) -> NDArray[Any]:
    """Return a copy of an array with a larger length; the new entries are not set."""
    larger = np.empty((length, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def in_memory(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return an array, or a copy if it is read-only, because it is mapped from a file."""
    return array if array.flags.writeable else np.array(array)
