"""The policy of a reduction, followed from the start: what is reached, spent and earned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.solvers.accuracy import Followed
from solvent.solvers.arrays import ModelArrays, read_only
from solvent.solvers.reduction import kernels
from solvent.solvers.reduction.arrays import OutcomeCosts, ReachedNodes, SpentExtremes
from solvent.solvers.reduction.layers import Grid
from solvent.solvers.reduction.reduce import Reduction


@dataclass(frozen=True)
class Trace:
    """The nodes that a policy reaches, and the amounts it spends.

    Attributes
    ----------
    weight : list of ndarray of float64
        For each step, the probability of reaching each node; 0 only if the node is never reached.
    peak_HD, trough_HD : ndarray of int64, shape (H, D)
        The most and the least that can have been spent after each step.
    followed : Followed
        Expected rewards of each step.
    """

    weight: list[NDArray[np.float64]]
    peak_HD: NDArray[np.int64]
    trough_HD: NDArray[np.int64]
    followed: Followed


def trace(
    model: CMDP,
    lattice: Lattice,
    reduction: Reduction,
    high_OD: NDArray[np.int64],
    low_OD: NDArray[np.int64],
    monitor: ResourceMonitor,
) -> Trace:
    """Follow the chosen rows from the start, with the extremes of true spending.

    Parameters
    ----------
    model : CMDP
    lattice : Lattice
    reduction : Reduction
        Result of `reduce` for them.
    high_OD, low_OD : ndarray of int64, shape (O, D)
        Bounds on each outcome's true cost, in ticks of their own.
    monitor : ResourceMonitor

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    n_resources, horizon, layers = len(lattice.resources), model.horizon, reduction.layers
    nothing = np.zeros((1, n_resources), np.int64)
    reached = ReachedNodes(np.ones(1), nothing, nothing)
    weights = [reached.probability]
    peak_HD = np.full((horizon, n_resources), MINUS_INFINITY, np.int64)
    trough_HD = np.full((horizon, n_resources), PLUS_INFINITY, np.int64)
    ended_peak, ended_trough = np.full(n_resources, MINUS_INFINITY), np.full(n_resources, PLUS_INFINITY)
    grid, arrays = Grid.over(reduction.bounds, model.n_states), ModelArrays.of(model)
    costs = OutcomeCosts(read_only(lattice.cost_OD), read_only(high_OD), read_only(low_OD))
    largest = max(map(len, layers))
    # probabilities are kept; extremes of two layers and the lookup table of one are not
    monitor.reserve(8 * sum(map(len, layers)), "the probabilities of nodes")
    temporary = (4 * 8 * n_resources + 32) * largest + grid.table_bytes(largest)
    monitor.reserve(temporary, "the extremes of nodes")
    for h in range(horizon):
        last = h == horizon - 1
        n_after = 0 if last else len(layers[h + 1])
        bounds = reduction.bounds
        after = grid.index(layers[h + 1], bounds, h + 1, monitor.halt) if n_after else grid.no_nodes(bounds, h + 1)
        next_reached = ReachedNodes(
            np.zeros(n_after),
            np.full((n_after, n_resources), MINUS_INFINITY),
            np.full((n_after, n_resources), PLUS_INFINITY),
        )
        extremes = SpentExtremes(peak_HD[h], trough_HD[h], ended_peak, ended_trough)
        kernels.follow(
            layers[h].spent, reduction.rows[h], reached, arrays, costs, after, next_reached, extremes,
            monitor.halt,
        )  # fmt: skip
        del after  # its memory is used for the next lookup table
        monitor.check_time()
        np.maximum(peak_HD[h], ended_peak, out=peak_HD[h])
        np.minimum(trough_HD[h], ended_trough, out=trough_HD[h])
        weights.append(next_reached.probability)
        reached = next_reached
    monitor.release(temporary)
    weights = weights[:horizon]
    earned = Followed.begun(model)
    for h, (weight, row) in enumerate(zip(weights, reduction.rows, strict=True)):
        acting = row >= 0
        rewards = weight[acting] * model.row_reward[row[acting]]
        earned.reward[h], earned.size[h] = rewards.sum(), np.abs(rewards).sum()
    earned = earned.along(model, lambda: (row[weight > 0] for weight, row in zip(weights, reduction.rows, strict=True)))
    return Trace(weights, peak_HD, trough_HD, earned)
