"""Backward pass of the reduction: values and best rows of the nodes of all layers, from the last step to the first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.solvers.accuracy import Extremes
from solvent.solvers.reduction import kernels
from solvent.solvers.reduction.arrays import NextValues, NodeChoices
from solvent.solvers.reduction.layers import NodeLayer
from solvent.solvers.reduction.saved import SavedPasses
from solvent.solvers.reduction.steps import StepArrays


def backward(steps: StepArrays, passes: SavedPasses, monitor: ResourceMonitor) -> Extremes:
    """Compute the rows of all nodes and the values of the first step; return the extremes of values and rewards."""
    m, horizon, grid = steps.model, steps.model.horizon, steps.grid
    monitor.reserve(8 * grid.size, "a grid of all amounts")
    on_grid = np.empty(grid.size)
    after, layers, rows = NextValues(steps.index(horizon), np.empty(0)), passes.layers, passes.rows
    extremes = Extremes.none(m, lambda: last_rows(steps, layers[-1]))
    passes.restore(extremes)
    if 0 < passes.step < horizon:
        after = _next_values(steps, passes, on_grid)
    for h in range(passes.step - 1, -1, -1):
        layer, n_nodes = layers[h], len(layers[h])
        if monitor.should_save():
            passes.save(extremes)
        monitor.check_time()
        monitor.tell("backward", horizon - h, horizon, nodes=n_nodes)
        # rows are kept; values of this step and the next, lists of a state's nodes, and lookup tables are not
        monitor.reserve(4 * n_nodes, f"the values of step {h}")
        size = 33 * n_nodes
        if not grid.size:
            size += 20 * len(after.value) + 4 * len(after.nodes.slots)
            size += grid.table_bytes(n_nodes) + 4 * n_nodes if h else 0
        monitor.reserve(size, f"the values of step {h}")
        choices = NodeChoices(np.empty(n_nodes), np.empty(n_nodes, np.int32), np.zeros(m.n_states))
        bounds, value = steps.at(h), choices.value
        with monitor.postponed():
            for begin, end in monitor.pieces(n_nodes):
                monitor.check_time()
                steps.run(
                    kernels.choose_rows, h, layer.part(begin, end), steps.arrays, steps.costs, bounds,
                    steps.independent, after, choices, monitor.halt,
                )  # fmt: skip
                monitor.check_time()
            rows[h], passes.step, passes.value = choices.row, h, value
            extremes.top[h], extremes.reward[h] = value.max(initial=0.0), choices.reward_S.max()
            extremes.bottom[h] = value[value > -np.inf].min(initial=0.0)
            if h:
                after = _next_values(steps, passes, on_grid)
        monitor.release(size)
    passes.save(extremes)
    monitor.check_time()
    monitor.release(8 * grid.size)
    return extremes


def _next_values(steps: StepArrays, passes: SavedPasses, on_grid: NDArray[np.float64]) -> NextValues:
    """Return the nodes of the step whose values were computed last, and their values."""
    h, layer = passes.step, passes.layers[passes.step]
    if steps.grid.size:
        kernels.put_values(layer.part(0, len(layer)), passes.value, steps.grid.layout, on_grid)
        return NextValues(steps.index(h), on_grid)
    after = NextValues(steps.index(h, layer), passes.value)
    steps.monitor.check_time()
    return after


def last_rows(steps: StepArrays, layer: NodeLayer) -> NDArray[np.int64]:
    """Return the rows of states that have nodes at the last step, without those that no amount allows."""
    bounds = steps.at(steps.model.horizon - 1)
    owner = np.repeat(np.arange(steps.model.n_states), np.diff(bounds.row_indptr))
    possible = (np.diff(layer.indptr) > 0)[owner] & (bounds.row_low_RD <= bounds.row_high_RD).all(1)
    return np.flatnonzero(possible) + int(bounds.row_indptr[0])
