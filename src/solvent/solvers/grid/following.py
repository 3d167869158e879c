"""The policy of a sweep, followed from the start: what is reached, spent and earned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.solvers.accuracy import Followed
from solvent.solvers.arrays import read_only
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import FollowedSteps, ReachedCells
from solvent.solvers.grid.swept import Swept
from solvent.solvers.problem import Problem, TrueCosts
from solvent.solvers.reduction.arrays import OutcomeCosts, TrueTicks
from solvent.solvers.reduction.following import true_ticks
from solvent.solvers.reduction.layers import grown, power_of_two

#: Number of cells that there is room for at first.
_ROOM = 1 << 12


@dataclass(frozen=True)
class Trace:
    """The cells that a policy reaches, and the amounts it spends.

    Attributes
    ----------
    cells : ReachedCells
        Of all steps, one after another.
    indptr_H : ndarray of int64, shape (H + 1,)
        Position of the first cell of each step.
    peak_HD, trough_HD : ndarray of int64, shape (H, D)
        The most and the least that can have been spent after each step, in the problem's order of resources.
    followed : Followed
        Expected rewards of each step.
    """

    cells: ReachedCells
    indptr_H: NDArray[np.int64]
    peak_HD: NDArray[np.int64]
    trough_HD: NDArray[np.int64]
    followed: Followed

    def layer(self, swept: Swept, h: int) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Return states, amounts in the problem's order of resources, and rows of the cells of a step that act."""
        at = slice(int(self.indptr_H[h]), int(self.indptr_H[h + 1]))
        acting = np.flatnonzero(self.cells.row[at] >= 0)
        state, row = self.cells.state[at][acting], self.cells.row[at][acting]
        boxes = swept.layout.boxes
        rest = self.cells.cell[at][acting] - boxes.cell[h, state]
        spent_ND = np.empty((len(state), boxes.low.shape[2]), np.int64)
        for d in range(spent_ND.shape[1] - 1, -1, -1):
            width = boxes.width[h, state, d]
            spent_ND[:, d] = boxes.low[h, state, d] + rest % width
            rest //= width
        return state, swept.layout.restored(spent_ND), row


def follow(problem: Problem, swept: Swept, monitor: ResourceMonitor) -> Trace:
    """Follow the best rows from the start, with the extremes of true spending.

    Memory for the cells that are reached stays reserved.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    layout, model = swept.layout, problem.model
    horizon, n_resources, starts = model.horizon, len(layout.order), model.start_states
    truth = _ordered_truth(problem.truth, layout.order)
    earned = Followed.begun(model)
    steps = FollowedSteps(
        earned.reward, earned.size, np.full((horizon, n_resources), MINUS_INFINITY),
        np.full((horizon, n_resources), PLUS_INFINITY), np.full(n_resources, MINUS_INFINITY),
        np.full(n_resources, PLUS_INFINITY),
    )  # fmt: skip
    room = max(_ROOM, len(starts))
    bytes_per_cell = 8 + 4 + 8 + 8 + 16 * n_resources
    monitor.reserve(room * bytes_per_cell, "cells that the policy reaches")
    cells = ReachedCells(
        np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room),
        np.empty((room, n_resources), np.int64), np.empty((room, n_resources), np.int64),
    )  # fmt: skip
    boxes = layout.boxes
    count = len(starts)
    cells.state[:count], cells.probability[:count] = starts, model.start_probability
    at = np.zeros(count, np.int64)
    for d in range(n_resources):
        low, width = boxes.low[0, starts, d], boxes.width[0, starts, d]
        at = at * width + np.clip(layout.lattice.initial_D[d], low, low + width - 1) - low
    cells.cell[:count] = boxes.cell[0, starts] + at
    accounts = problem.truth.high_accounts.initial_D, problem.truth.low_accounts.initial_D
    cells.most_ND[:count], cells.least_ND[:count] = (initial[layout.order] for initial in accounts)
    costs = OutcomeCosts(layout.costs, truth)
    indptr_H = np.zeros(horizon + 1, np.int64)
    most_cells = int(layout.sizes.cells_H[:-1].max())
    slots = _empty_slots(min(2 * room, most_cells), monitor)
    h = 0
    while h < horizon:
        runs, stop = swept.runs.from_step(h)
        reached, count = kernels.follow_steps(
            h, stop, count, layout.arrays, costs, boxes, runs, slots, cells, indptr_H, steps, monitor.halt
        )
        monitor.check_time()
        h = reached
        if reached < stop:
            monitor.reserve(2 * room * bytes_per_cell, "cells that the policy reaches")
            cells = ReachedCells(*(grown(each, 2 * room) for each in cells))
            monitor.release(room * bytes_per_cell)
            room *= 2
            if len(slots) < min(2 * room, most_cells):
                monitor.release(slots.nbytes)
                slots = _empty_slots(min(2 * room, most_cells), monitor)
    monitor.release(slots.nbytes)
    indptr_H[horizon] = count
    rows = cells.row[:count]
    earned = earned.along(model, lambda: [rows])
    back = layout.restored
    return Trace(cells, indptr_H, back(steps.peak_HD), back(steps.trough_HD), earned)


def _empty_slots(size: int, monitor: ResourceMonitor) -> NDArray[np.int32]:
    """Return an empty hash table with at least `size` places, after reserving memory for it."""
    length = power_of_two(size)
    monitor.reserve(4 * length, "cells that the policy reaches")
    return np.full(length, -1, np.int32)


def _ordered_truth(truth: TrueCosts, order: NDArray[np.int64]) -> TrueTicks:
    """Return the true costs with resources in another order."""
    ticks = true_ticks(truth)
    if (np.diff(order) >= 0).all():
        return ticks
    return TrueTicks(*(read_only(np.ascontiguousarray(each[..., order])) for each in ticks))
