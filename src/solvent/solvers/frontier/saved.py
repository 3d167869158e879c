"""Frontiers in checkpoints: what was computed from the last step on, and the checks of what is read back.

Kernels that follow a policy rely on the following, which is checked here. Rows are those of their states. From each
point, every outcome of its row leads to a state that has a point with no larger need:

    need(first point of s' at h + 1) <= min(need - cost, most left).
"""

from __future__ import annotations

import numpy as np

from solvent.core.checkpoint import Section
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.policy.choices import spread
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.point_kernels import Points
from solvent.solvers.reduction.kernels import TERMINAL

#: Outcomes that are checked at a time.
_PIECE = 1 << 18
#: Amounts beyond this might overflow.
_FAR = 2**62


def open_section(name: str, bounds: FrontierBounds, monitor: ResourceMonitor, *more: float) -> Section | None:
    """Return the section of a frontier in the checkpoint; None if there is no checkpoint."""
    if monitor.checkpoint is None:
        return None
    kept = (*bounds.arrays, *bounds.resource, *bounds.ranges, bounds.model.start_states)
    return monitor.section(name, *kept, bounds.has_one_start, *more)


def load_points(section: Section, model: CMDP, first: int) -> Points:
    """Return the points of the steps from `first` on, the last one first; they are not checked yet."""
    indptr = section.array("indptr", np.int64, (model.horizon - first, model.n_states + 1))
    needs, rows = section.pieces("need", np.int64, (None,)), section.pieces("row", np.int32, (None,))
    need, row = (np.concatenate(each) if each else np.empty(0, np.int64) for each in (needs, rows))
    before = indptr[1:, -1] if len(indptr) else indptr[:, -1]
    sorted_ = (np.diff(indptr, axis=1) >= 0).all() and (indptr[:-1, 0] == before).all()
    if not sorted_ or len(need) != len(row) or (len(indptr) and indptr[-1, 0] < 0):
        raise section.damaged("indptr", "positions of points, the last step first", "others")
    return Points(indptr.copy(), need, row.astype(np.int32, copy=False))


def check_points(section: Section, bounds: FrontierBounds, points: Points, first: int) -> None:
    """Raise a `ModelError` unless kernels can follow the points of the steps from `first` on.

    `points.indptr_HS` has rows for these steps only, and counts from the first entry of `points.need`.
    """
    model, resource, (indptr_HS, need, row) = bounds.model, bounds.resource, points
    n_steps, n_states = len(indptr_HS), model.n_states
    sizes = np.diff(indptr_HS, axis=1)
    if n_steps and (indptr_HS[-1, 0] != 0 or indptr_HS[0, -1] != len(need)):
        raise section.damaged("indptr", f"positions from 0 to {len(need)}", "others")
    if ((need != MINUS_INFINITY) & (np.abs(need) >= _FAR)).any():
        raise section.damaged("need", f"amounts below {_FAR}", "others")
    # the least need of each (step, state); infinite where there is no point
    some = sizes > 0
    least_HS = np.full((n_steps, n_states), PLUS_INFINITY)
    least_HS[some] = need[indptr_HS[:, :-1][some]]
    # points are stored with the last step first
    order = np.arange(n_steps)[::-1]
    step = np.repeat(np.repeat(order, n_states), sizes[order].ravel())
    state = np.repeat(np.tile(np.arange(n_states), n_steps), sizes[order].ravel())
    place = model.table_of_step[first + step].astype(np.int64) * n_states + state
    taken = np.flatnonzero(row != TERMINAL)
    begin, end = model.row_indptr[place[taken]], model.row_indptr[place[taken] + 1]
    if ((row[taken] < begin) | (row[taken] >= end)).any():
        raise section.damaged("row", "rows of the states of points", "others")
    taken = taken[step[taken] < n_steps - 1]  # after the last step anything may be left
    counts = np.diff(model.outcome_indptr)[row[taken]]
    cuts = np.flatnonzero(np.diff(np.cumsum(counts) // _PIECE)) + 1
    for part in np.split(taken, cuts):
        owner, outcome = spread(model.outcome_indptr, row[part].astype(np.int64))
        before = need[part][owner]
        rest = np.where(before == MINUS_INFINITY, before, before - resource.cost[outcome])
        least = least_HS[step[part][owner] + 1, model.next_state[outcome]]
        if (least > np.minimum(rest, resource.most_left)).any():
            raise section.damaged("need", "a point wherever an outcome leads", "none")
