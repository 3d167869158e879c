"""Frontiers as points, merged backward step by step."""

from __future__ import annotations

import numpy as np

from solvent.core.exact import MINUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.solvers.accuracy import Extremes
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.frontier import Frontier
from solvent.solvers.frontier.point_kernels import Points, Precision, StepExtremes, merge
from solvent.solvers.reduction.kernels import TERMINAL
from solvent.solvers.reduction.layers import grown

#: Steps in one call, if time or progress is watched and the points are many.
_WATCHED_STEPS, _MANY_POINTS = 16, 1 << 20


def merge_points(bounds: FrontierBounds, precision: Precision, monitor: ResourceMonitor) -> Frontier:
    """Return the frontier as points.

    Raises
    ------
    LimitReached
        If the points do not fit into the memory limit, or the time limit is reached.
    """
    model, horizon, n_states = bounds.model, bounds.model.horizon, bounds.model.n_states
    indptr_HS = np.zeros((horizon + 1, n_states + 1), np.int64)
    # after the last step the value is that of ending in a state, with any amount left
    may_end = model.end_value > -np.inf
    indptr_HS[horizon, 1:] = np.cumsum(may_end)
    room = wide = 1024 + 16 * n_states
    # the values of a step, those of the step after it, and a copy of them
    monitor.reserve(12 * room + 8 * indptr_HS.size + 24 * room, "the points of all steps")
    points = Points(indptr_HS, np.empty(room, np.int64), np.empty(room, np.int32))
    points.need[:n_states], points.row[:n_states] = MINUS_INFINITY, TERMINAL
    step, value, extremes = horizon, model.end_value[may_end], Extremes.none(model, bounds.last_rows)
    out_extremes = StepExtremes(extremes.top, extremes.bottom, extremes.reward)
    while step > 0:
        monitor.check_time()
        monitor.tell("backward", horizon - step, horizon, points=int(indptr_HS[step, -1]))
        stop = max(0, step - _WATCHED_STEPS) if monitor.watched and room > _MANY_POINTS else 0
        step, value = merge(
            bounds.arrays, bounds.resource, bounds.reach, precision, step, stop, value, points, np.empty(wide),
            out_extremes, monitor.halt,
        )  # fmt: skip
        monitor.check_time()
        if step > stop:
            # double what was too short: the arrays for the points of all steps, for the values of one, or both
            free, what = room - int(indptr_HS[step, -1]), f"the points of step {step - 1}"
            if wide < 2 * free:
                monitor.reserve(24 * wide, what)
                wide *= 2
            if free < wide:
                monitor.reserve(24 * room, what)
                points = Points(indptr_HS, grown(points.need, 2 * room), grown(points.row, 2 * room))
                monitor.release(12 * room)
                room *= 2
    monitor.release(24 * wide - 8 * len(value))
    count = int(indptr_HS[0, -1])
    points = Points(indptr_HS[:horizon], points.need[:count], points.row[:count])
    return Frontier.of(model, points, value, extremes, resolution=precision.resolution, up=precision.up)
