"""The choice between boxes of amounts and layers of nodes.

The work of boxes is known in advance, that of layers is not: how many amounts can be reached depends on how costs add
up. Therefore layers are expanded first. After each of them, the layers so far and a forecast for the others, that none
is smaller than the last one, are compared with the boxes. Boxes are chosen as soon as they are expected to take less
time, so that little has been expanded in vain. If that never happens, the layers are used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.solvers.base import Run
from solvent.solvers.bounds.arrays import Bounds
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.problem import Problem
from solvent.solvers.reduction.forward import next_layer
from solvent.solvers.reduction.layers import Grid
from solvent.solvers.reduction.reduce import Reduction, finish
from solvent.solvers.reduction.saved import SavedPasses
from solvent.solvers.reduction.steps import StepArrays

#: Time of the reduction for one outcome of a node, relative to that of a sweep for one outcome of an amount.
_NODE_WORK = 40.0
#: Time of the reduction for one key of a grid through which nodes are looked up, which it scans at every step.
_SCAN_WORK = 8.0


def reduce_if_cheaper(problem: Problem, run: Run, layout: BoxLayout) -> Reduction | None:
    """Return the reduction of a problem if that is less work than boxes, else None.

    Parameters
    ----------
    problem : Problem
    run : Run
    layout : BoxLayout
        The boxes.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    model, monitor = problem.model, run.monitor
    used, box_work = monitor.used, layout.work
    monitor.reserve(sum(each.nbytes for each in layout.bounds), "bounds per step and state")
    bounds = Bounds(*map(layout.restored, layout.bounds))
    if box_work <= _SCAN_WORK * model.horizon * Grid.over(bounds, problem.lattice, model.n_states).size:
        monitor.release(monitor.used - used)
        return None
    steps = StepArrays(model, problem.lattice, bounds, monitor)
    passes, done = SavedPasses(steps, monitor), 0.0
    passes.into_memory()
    layers = passes.layers
    evaluations = np.concatenate([[0], np.cumsum(_evaluations(steps))])
    for h in range(model.horizon):
        if monitor.should_save():
            passes.save()
        monitor.check_time()
        monitor.tell("forward", h, model.horizon, nodes=len(layers[h]))
        evaluations_S = np.diff(evaluations[model.row_indptr_at(h)])
        work = _NODE_WORK * float((np.diff(layers[h].indptr) * evaluations_S).sum())
        done += work
        if passes.abandoned or box_work <= max(done, work * (model.horizon - h)):
            passes.abandon()
            steps.release()
            del steps, bounds, layers, passes
            monitor.release(monitor.used - used)
            return None
        if h + 1 == len(layers) < model.horizon:
            with monitor.postponed():
                layers.append(next_layer(steps, h, layers[h], monitor))
    return finish(steps, passes, monitor, engine=run.engine)


def _evaluations(steps: StepArrays) -> NDArray[np.int64]:
    """Return the evaluations of each row at a node, shape (R,), where independent costs are averaged apart."""
    rows, counts = steps.independent, np.diff(steps.model.outcome_indptr)
    pooled = np.flatnonzero(rows.distribution >= 0)
    if steps.grid.size and len(pooled):
        counts[pooled] = rows.next_count[pooled] + np.diff(rows.costs.indptr)[rows.distribution[pooled]]
    return counts
