"""The reduction: layers of safe nodes forward, values backward (Definitions 1-2, Algorithms 1 and 5 of the paper).

The sufficient state is the node (step, state, spent). An action is safe at a node iff every supported outcome keeps
every limit of that step, and layer h + 1 holds the nodes that safe actions of layer h can lead to. On nodes the problem
is an ordinary MDP:

    V_h(s, x) = max over safe a of  r_h(s, a) + E[ V_{h+1}(s', x + c) ],   V_H = end reward,  -inf at a dead end,

with x + c clamped to where the resource saturates. An episode that must not end in a state is at a dead end there.

Two exact prunings go beyond the paper. With `prune`, a row is safe only if no outcome leads to a *doomed* node, from
which even the most careful continuation may break a limit of some resource; and a resource that is *settled*, because
no continuation can break its limits, is left out of the node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.core.engines import LOCAL, Engine, RayEngine
from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.solvers.accuracy import Extremes
from solvent.solvers.bounds.bounds import Bounds, Interval, bounds_of
from solvent.solvers.bounds.kernels import fill_live_box
from solvent.solvers.engines.ray_layers import reduce_on_ray
from solvent.solvers.reduction.backward import backward
from solvent.solvers.reduction.forward import forward, next_layer
from solvent.solvers.reduction.kernels import DEAD_END
from solvent.solvers.reduction.layers import NodeLayer
from solvent.solvers.reduction.saved import SavedPasses
from solvent.solvers.reduction.steps import StepArrays
from solvent.solvers.starts import expectation_error, expected_value

#: Outcomes of the nodes of all layers so far, about two seconds on one core for both passes, from which on a cluster
#: continues.
DISTRIBUTED_FROM = 2e7
#: Memory for counting distinct amounts, in bytes per node.
_COUNTING = 48


@dataclass(frozen=True)
class Reduction:
    """Layers of a problem, and the best row of each of their nodes.

    Attributes
    ----------
    value : float
        Expected value of the first state; minus infinity if no policy is feasible.
    start_error : float
        Bound on the rounding error of that expectation.
    layers : list of NodeLayer
        One for each of the H steps. Those of a large problem may be mapped from files, as may rows.
    rows : list of ndarray of int32
        The row to take at each node, or `kernels.TERMINAL` or `kernels.DEAD_END`.
    bounds : Bounds
    cost_diversity : int or None
        The paper's D_M, the largest number of distinct amounts in a layer; None if layers were pruned.
    extremes : Extremes
        Extremes of values and rewards, for bounds on rounding errors.
    pooled : bool
        Whether some rows have a cost distribution, so that costs and next states were averaged one after the other.
    """

    value: float
    start_error: float
    layers: list[NodeLayer]
    rows: list[NDArray[np.int32]]
    bounds: Bounds
    cost_diversity: int | None
    extremes: Extremes
    pooled: bool

    def live_box(self) -> Interval:
        """Return the least and the most spent at each (step, state), over nodes that are not dead ends."""
        low, high = (np.empty_like(self.bounds.safe_low[:-1]) for _ in range(2))
        for h, (stored, row) in enumerate(zip(self.layers, self.rows, strict=True)):
            layer = stored.in_memory()
            settled = self.bounds.settled_low[h], self.bounds.settled_high[h]
            fill_live_box(layer.part(0, len(layer)), row != DEAD_END, *settled, low[h], high[h])
        return low, high


def reduce(
    model: CMDP,
    lattice: Lattice,
    monitor: ResourceMonitor,
    *,
    prune: bool = True,
    truncation: Interval | None = None,
    within: Interval | None = None,
    engine: Engine = LOCAL,
) -> Reduction:
    """Solve a problem by a forward pass over layers and a backward pass over values.

    Parameters
    ----------
    model : CMDP
    lattice : Lattice
    monitor : ResourceMonitor
    prune : bool
        If False, the layers are the paper's.
    truncation : pair of ndarrays of int64, shape (H, D), optional
        Without `prune`, amounts before each step that are settled: the paper's truncation of rounded costs.
    within : pair of ndarrays of int64, shape (H, S, D), optional
        Nodes outside are known to be doomed.
    engine : Engine
        Where to solve. Small problems are solved in this process in any case.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    bounds = bounds_of(model, lattice, monitor, prune=prune, truncation=truncation, within=within)
    steps = StepArrays(model, lattice, bounds, monitor)
    passes = SavedPasses(steps, monitor)
    most_work = _most_local_work(steps, engine, prune=prune)
    if steps.work(passes.layers) < most_work:
        passes.into_memory()
        forward(steps, monitor, passes, most_work)
    return finish(steps, passes, monitor, prune=prune, engine=engine)


def _most_local_work(steps: StepArrays, engine: Engine, *, prune: bool) -> float:
    """Return the work from which on a cluster continues; infinity if this process solves problems of any size.

    Nodes must be hashed: if they are looked up through a grid of all amounts, layers are small.
    """
    return DISTRIBUTED_FROM if isinstance(engine, RayEngine) and prune and not steps.grid.size else math.inf


def finish(
    steps: StepArrays, passes: SavedPasses, monitor: ResourceMonitor, *, prune: bool = True, engine: Engine = LOCAL
) -> Reduction:
    """Solve a problem whose layers are known, all of them or enough for a cluster, by a backward pass over values.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    model, layers = steps.model, passes.layers
    if isinstance(engine, RayEngine) and steps.work(layers) >= _most_local_work(steps, engine, prune=prune):
        extremes = reduce_on_ray(steps, passes, engine, monitor)
    else:
        extremes = backward(steps, passes, monitor)
    values, rows = passes.value.tolist(), passes.rows
    diversity = None
    if not prune:
        # the paper counts the amounts after the last step too
        counted = [*layers, next_layer(steps, model.horizon - 1, layers[-1], monitor)]
        with monitor.borrowed(_COUNTING * max(map(len, counted)), "counting amounts"):
            diversity = max(layer.distinct_amounts() for layer in counted)
    steps.release()
    value, error = expected_value(model, values), expectation_error(model, values)
    return Reduction(value, error, layers, rows, steps.bounds, diversity, extremes, steps.pooled)
