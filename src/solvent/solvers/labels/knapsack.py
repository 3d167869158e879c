"""One state without randomness: the best choice of a row at each step, as in a knapsack problem.

See `knapsack_kernels` for the method. It does not apply where costs are given back or an earlier limit is tighter than
the last one, and it gives up if there are too many combinations of rows, as for items whose rewards are all
proportional to their costs up to a constant; the label search then takes over, from the best choice found.
"""

from __future__ import annotations

import math

import numpy as np

from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.solvers.accuracy import ROUNDOFF, SAME_POINT
from solvent.solvers.arrays import read_only
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.labels import knapsack_kernels as kernels
from solvent.solvers.labels.path import Path

#: The largest number of combinations of rows at a time.
_ROOM = 1 << 13
#: Bytes for each of them, with all trees and copies.
_BYTES = 224


def best_choice(
    model: CMDP, resource: SingleResource, monitor: ResourceMonitor, drift: float
) -> tuple[Path | None, bool]:
    """Return the best choice of rows of a model with one state, and whether it is proved to be the best.

    Parameters are those of `search.best_path`. The choice is None if the method does not apply.
    """
    horizon = model.horizon
    n_rows = model.n_rows if model.n_tables == horizon else horizon * model.n_rows
    taken = _BYTES * _ROOM + 96 * horizon + 24 * n_rows
    try:
        monitor.reserve(taken, "combinations of rows")
    except LimitReached:
        return None, False
    numbers = np.empty((3, horizon), np.int64)
    choice = kernels.Choice(numbers[0], numbers[1], numbers[2], np.empty(5))
    items = kernels.Items(
        read_only(model.table_of_step), read_only(model.row_indptr), read_only(model.row_reward), resource.cost,
        resource.least_left,
    )  # fmt: skip
    result = kernels.pack(items, SAME_POINT, _ROOM, choice, monitor.halt)
    monitor.release(taken)
    if result == kernels.UNFIT:
        return None, False
    if result == kernels.NONE:
        return Path.none(horizon), True
    unit, tolerance, noise, above, most = choice.facts.tolist()
    row_H = choice.row_H
    rewards = model.row_reward[row_H if row_H[-1] >= 0 else row_H[row_H >= 0]].tolist()
    value = lower = upper = math.fsum(rewards)
    stopped = ""
    if result == kernels.HALTED:
        try:
            monitor.check_time()
        except LimitReached as reached:
            stopped = str(reached)
        tolerance = above
    if stopped or unit == 0.0 or drift > 0.0:
        upper += max(tolerance, 0.0) + noise + 4 * ROUNDOFF * (abs(value) + tolerance)
        lower -= 4 * ROUNDOFF * abs(value)
        if drift > 0.0:
            # the terms of a better choice add up to at most twice the largest rewards, minus its value
            upper += horizon * drift * (2 * most + abs(upper))
            lower -= horizon * drift * math.fsum(map(abs, rewards))
    return Path(value, row_H, tuple(choice.size_H.tolist()), lower, upper, stopped), result != kernels.FULL
