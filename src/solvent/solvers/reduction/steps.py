"""The arrays that the kernels of the reduction take, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.core.threads import run_by_states
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.locate import COLLAPSED
from solvent.solvers.arrays import ModelArrays, TickCosts, read_only
from solvent.solvers.bounds.arrays import ArraySource, Bounds, LimitArrays
from solvent.solvers.bounds.kernels import fill_row_bounds
from solvent.solvers.outcomes.pooling import independent_rows
from solvent.solvers.reduction.arrays import LayerBounds, LayerNodes, NodeIndex
from solvent.solvers.reduction.layers import Grid, NodeLayer

#: Layers with at least this many nodes are processed on all threads.
PARALLEL_FROM = 20_000
#: Bounds of rows are kept for all steps if they take at most this many bytes in total.
_KEPT_BYTES = 1 << 20


class StepArrays:
    """Arrays of a problem in the form that kernels take.

    Attributes
    ----------
    model : CMDP
    lattice : Lattice
    bounds : Bounds
    monitor : ResourceMonitor
    arrays : ModelArrays
    costs : TickCosts
    grid : Grid
    independent : IndependentRows
    pooled : bool
        Whether some rows have a cost distribution, so that costs and next states are averaged one after the other.
    bytes_per_node : int
        Memory for the ticks and the chosen row of a node.
    """

    def __init__(self, model: CMDP, lattice: Lattice, bounds: Bounds, monitor: ResourceMonitor) -> None:
        self.model, self.lattice, self.bounds, self.monitor = model, lattice, bounds, monitor
        self.arrays, self.costs = ModelArrays.of(model), TickCosts.of(lattice)
        self.limits = LimitArrays(read_only(lattice.upper_HD), read_only(lattice.lower_HD))
        self.grid = Grid.over(bounds, lattice, model.n_states)
        self.bytes_per_node = 8 * len(lattice.resources) + 4
        used = monitor.used
        self.independent = independent_rows(model, lattice.cost_OD, monitor)
        # bounds of the rows of a step, or of all steps if they are small
        size = 16 * int(np.diff(model.row_indptr[:: model.n_states]).max(initial=0)) * len(lattice.resources)
        self._keeps = model.horizon * size <= _KEPT_BYTES
        self._kept: dict[int, LayerBounds] = {}
        monitor.reserve(model.horizon * size if self._keeps else size, "bounds per row")
        self._reserved = monitor.used - used
        self.pooled = bool((self.independent.distribution >= 0).any())
        self._marks: NDArray[np.bool_] | None = None

    @property
    def marks(self) -> NDArray[np.bool_]:
        """One mark for each key of the grid, False between uses."""
        if self._marks is None:
            self.monitor.reserve(self.grid.size, "a grid of all amounts")
            self._reserved += self.grid.size
            self._marks = np.zeros(self.grid.size, bool)
        return self._marks

    def release(self) -> None:
        """Release the memory that was reserved here."""
        self.monitor.release(self._reserved)
        self._reserved, self._marks = 0, None
        self._kept.clear()

    def at(self, h: int) -> LayerBounds:
        """Return the rows of a step and the amounts for which each is safe."""
        if h in self._kept:
            return self._kept[h]
        found = layer_bounds(self, h, self.model.row_indptr_at(h))
        if self._keeps:
            self._kept[h] = found
        return found

    def run(self, kernel: Callable[..., None], h: int, nodes: LayerNodes, *others: Any) -> None:
        """Call `kernel(begin_state, end_state, nodes, *others)` for nodes of step h, on all threads if many."""
        if nodes.indptr[-1] - nodes.indptr[0] < PARALLEL_FROM:
            kernel(0, self.model.n_states, nodes, *others)
            return
        outcomes_S = np.diff(self.model.outcome_indptr[self.model.row_indptr_at(h)])
        run_by_states(lambda begin, end: kernel(begin, end, nodes, *others), np.diff(nodes.indptr) * (1.0 + outcomes_S))

    def work_of_states(self, h: int, layer: NodeLayer) -> NDArray[np.float64]:
        """Return the number of outcomes of the nodes of each state in the layer of step h."""
        outcomes_S = np.diff(self.model.outcome_indptr[self.model.row_indptr_at(h)])
        return np.diff(layer.indptr).astype(np.float64) * outcomes_S

    def work(self, layers: list[NodeLayer]) -> float:
        """Return the number of outcomes of all nodes of the first layers."""
        return float(sum(self.work_of_states(h, layer).sum() for h, layer in enumerate(layers)))

    def first_layer(self) -> NodeLayer:
        """Return the layer of step 0: one node for each possible first state, in the order of `start_states`."""
        initial_D, starts = self.lattice.initial_D, self.model.start_states
        low, high = self.bounds.settled_low[0, starts], self.bounds.settled_high[0, starts]
        spent = np.where((low <= initial_D) & (initial_D <= high), COLLAPSED, initial_D)
        indptr = np.searchsorted(starts, np.arange(self.model.n_states + 1))
        return NodeLayer(indptr, spent)

    def index(self, h: int, layer: NodeLayer | None = None) -> NodeIndex:
        """Return the nodes of step h (none, unless given) with a lookup table."""
        if layer is None:
            return self.grid.no_nodes(self.bounds, h)
        return self.grid.index(layer, self.bounds, h, self.monitor.halt)


def layer_bounds(source: ArraySource, h: int, row_indptr: NDArray[np.int64]) -> LayerBounds:
    """Return the rows of a step, which `row_indptr` assigns to states, and the amounts for which each is safe."""
    row_indptr, limits, bounds = read_only(row_indptr), source.limits, source.bounds
    shape = (int(row_indptr[-1] - row_indptr[0]), source.costs.cost_OD.shape[1])
    row_low, row_high = np.empty(shape, np.int64), np.empty(shape, np.int64)
    fill_row_bounds(
        row_indptr, source.arrays, source.costs, limits.upper_HD[h], limits.lower_HD[h], bounds.safe_low[h + 1],
        bounds.safe_high[h + 1], row_low, row_high,
    )  # fmt: skip
    return LayerBounds(row_indptr, row_low, row_high, bounds.safe_low[h], bounds.safe_high[h])
