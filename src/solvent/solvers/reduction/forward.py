"""Forward pass of the reduction: layer h + 1 holds every node that safe rows of layer h can lead to."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.solvers.arrays import ModelArrays, TickCosts
from solvent.solvers.reduction import kernels
from solvent.solvers.reduction.arrays import LayerBounds, LayerNodes, NodeIndex
from solvent.solvers.reduction.layers import SORTING, Grid, NodeLayer, grown, power_of_two
from solvent.solvers.reduction.saved import SavedPasses
from solvent.solvers.reduction.steps import StepArrays


class HashedSteps(Protocol):
    """Arrays of all states of a problem, or of some, for nodes that are looked up by hash; see `StepArrays`."""

    arrays: ModelArrays
    costs: TickCosts
    grid: Grid
    bytes_per_node: int

    def at(self, h: int) -> LayerBounds:
        """Return the rows of a step and the amounts for which each is safe."""

    def index(self, h: int) -> NodeIndex:
        """Return step h without nodes."""


def forward(
    steps: StepArrays, monitor: ResourceMonitor, passes: SavedPasses | None = None, most_work: float = math.inf
) -> list[NodeLayer]:
    """Return the layers of safe nodes at each of the H steps; `passes` are added to, if given.

    The last layers are missing if those before have `most_work` outcomes or more.
    """
    layers = [steps.first_layer()] if passes is None else passes.layers
    for h in range(len(layers) - 1, steps.model.horizon - 1):
        if most_work < math.inf and steps.work(layers) >= most_work:
            break
        if passes is not None and monitor.should_save():
            passes.save()
        monitor.check_time()
        monitor.tell("forward", h + 1, steps.model.horizon, nodes=len(layers[-1]))
        with monitor.postponed():
            layers.append(next_layer(steps, h, layers[-1], monitor))
    return layers


def next_layer(steps: StepArrays, h: int, layer: NodeLayer, monitor: ResourceMonitor) -> NodeLayer:
    """Return the nodes that safe rows of the layer of step h lead to."""
    if steps.grid.size:
        return _next_on_grid(steps, h, layer, monitor)
    return _next_by_hash(steps, h, layer, monitor)


def _next_on_grid(steps: StepArrays, h: int, layer: NodeLayer, monitor: ResourceMonitor) -> NodeLayer:
    marks, bounds, after = steps.marks, steps.at(h), steps.index(h + 1)
    for begin, end in monitor.pieces(len(layer)):
        monitor.check_time()
        nodes = layer.part(begin, end)
        steps.run(
            kernels.mark, h, nodes, steps.arrays, steps.costs, bounds, steps.independent, after, marks, monitor.halt
        )
    monitor.check_time()
    count = int(kernels.count_marks(marks))
    monitor.reserve(steps.bytes_per_node * count, f"the nodes of step {h + 1}")
    found = LayerNodes(np.empty_like(layer.indptr), np.empty((count, layer.spent.shape[1]), np.int64))
    kernels.collect(marks, after.grid, found)
    return NodeLayer(*found)


def _next_by_hash(steps: StepArrays, h: int, layer: NodeLayer, monitor: ResourceMonitor) -> NodeLayer:
    used = monitor.used
    state, spent = expand_by_hash(steps, h, layer, monitor)
    # the order, temporary memory for sorting, and the nodes in that order
    monitor.reserve((SORTING + steps.bytes_per_node) * len(state), f"the nodes of step {h + 1}")
    after = NodeLayer.of(state, spent, steps.model.n_states, monitor)
    monitor.release(monitor.used - used - steps.bytes_per_node * len(state))
    return after


def expand_by_hash(
    steps: HashedSteps, h: int, layer: NodeLayer, monitor: ResourceMonitor
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return states and amounts, each node once, of the nodes that safe rows of the layer of step h lead to.

    Memory for them stays reserved.
    """
    bounds, pieces, n_states = steps.at(h), monitor.pieces(len(layer), always=True), len(layer.indptr) - 1
    room, count, begin, taken = max(64, 2 * len(layer)), 0, 0, 0
    found = steps.index(h + 1)
    while True:
        # states and amounts, the table, and the list of safe nodes of the layer while it is expanded
        needed = room * (steps.bytes_per_node + 4) + 4 * power_of_two(2 * room) + 8 * len(layer)
        monitor.reserve(needed, f"the nodes of step {h + 1}")
        found = found._replace(
            state=grown(found.state, room), spent_ND=grown(found.spent_ND, room), slots=steps.grid.empty(room)
        )
        if count:
            kernels.fill_slots(found, count, monitor.halt)
        monitor.release(taken)
        taken = needed
        while pieces:
            nodes = layer.part(*pieces[0])
            count, begin = kernels.expand(begin, nodes, steps.arrays, steps.costs, bounds, count, found, monitor.halt)
            monitor.check_time()
            if begin < n_states:
                break
            pieces, begin = pieces[1:], 0
        if not pieces:
            break
        room *= 2
    monitor.release(4 * power_of_two(2 * room) + 8 * len(layer))  # the table
    return found.state[:count], found.spent_ND[:count]
