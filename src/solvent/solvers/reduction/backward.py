"""Backward pass of the reduction: values and best rows of the nodes of all layers, from the last step to the first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.solvers.accuracy import Extremes
from solvent.solvers.reduction import kernels
from solvent.solvers.reduction.arrays import NextValues, NodeChoices
from solvent.solvers.reduction.layers import NodeLayer
from solvent.solvers.reduction.steps import StepArrays


def backward(
    steps: StepArrays, layers: list[NodeLayer], monitor: ResourceMonitor
) -> tuple[list[float], list[NDArray[np.int32]], Extremes]:
    """Return the value of each possible first state, the row of each node, and the extremes of values and rewards."""
    m, horizon, grid = steps.model, steps.model.horizon, steps.grid
    monitor.reserve(8 * grid.size, "a grid of all amounts")
    on_grid = np.empty(grid.size)
    after = NextValues(steps.index(horizon), np.empty(0))
    rows: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * horizon
    value, extremes = np.empty(0), Extremes.none(m, lambda: _last_rows(steps, layers[-1]))
    for h in range(horizon - 1, -1, -1):
        layer, n_nodes = layers[h], len(layers[h])
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
        for begin, end in monitor.pieces(n_nodes):
            monitor.check_time()
            steps.run(
                kernels.choose_rows, h, layer.part(begin, end), steps.arrays, steps.costs, bounds, steps.independent,
                after, choices, monitor.halt,
            )  # fmt: skip
            monitor.check_time()
        rows[h] = choices.row
        extremes.top[h], extremes.reward[h] = value.max(initial=0.0), choices.reward_S.max()
        extremes.bottom[h] = value[value > -np.inf].min(initial=0.0)
        if grid.size:
            kernels.put_values(layer.part(0, n_nodes), value, grid.layout, on_grid)
            after = NextValues(steps.index(h), on_grid)
        elif h:
            after = NextValues(steps.index(h, layer), value)
            monitor.check_time()
        monitor.release(size)
    monitor.release(8 * grid.size)
    return value.tolist(), rows, extremes


def _last_rows(steps: StepArrays, layer: NodeLayer) -> NDArray[np.int64]:
    """Return the rows of states that have nodes at the last step, without those that no amount allows."""
    bounds = steps.at(steps.model.horizon - 1)
    owner = np.repeat(np.arange(steps.model.n_states), np.diff(bounds.row_indptr))
    possible = (np.diff(layer.indptr) > 0)[owner] & (bounds.row_low_RD <= bounds.row_high_RD).all(1)
    return np.flatnonzero(possible) + int(bounds.row_indptr[0])
