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
from solvent.solvers.arrays import ModelArrays, TickCosts, read_only
from solvent.solvers.problem import TrueCosts
from solvent.solvers.reduction import kernels
from solvent.solvers.reduction.arrays import OutcomeCosts, ReachedNodes, SortedNodes, SpentExtremes, TrueTicks
from solvent.solvers.reduction.layers import NodeLayer, in_memory
from solvent.solvers.reduction.reduce import Reduction


@dataclass(frozen=True)
class Trace:
    """The nodes that a policy reaches, and the amounts it spends.

    Attributes
    ----------
    reached : list of ndarray of int64
        For each step, the positions of the nodes that the policy can reach.
    weight : list of ndarray of float64
        Their probabilities, above 0.
    peak_HD, trough_HD : ndarray of int64, shape (H, D)
        The most and the least that can have been spent after each step.
    followed : Followed
        Expected rewards of each step.
    """

    reached: list[NDArray[np.int64]]
    weight: list[NDArray[np.float64]]
    peak_HD: NDArray[np.int64]
    trough_HD: NDArray[np.int64]
    followed: Followed


def trace(
    model: CMDP,
    lattice: Lattice,
    reduction: Reduction,
    truth: TrueCosts,
    monitor: ResourceMonitor,
) -> Trace:
    """Follow the chosen rows from the start, with the extremes of true spending.

    Parameters
    ----------
    model : CMDP
    lattice : Lattice
    reduction : Reduction
        Result of `reduce` for them.
    truth : TrueCosts
    monitor : ResourceMonitor

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    n_resources, horizon, layers = len(lattice.resources), model.horizon, reduction.layers
    n_starts = len(model.start_states)
    most, least = (np.tile(each.initial_D, (n_starts, 1)) for each in (truth.high_accounts, truth.low_accounts))
    now = ReachedNodes(model.start_probability.copy(), most, least)
    reached: list[NDArray[np.int64]] = []
    weights: list[NDArray[np.float64]] = []
    peak_HD = np.full((horizon, n_resources), MINUS_INFINITY, np.int64)
    trough_HD = np.full((horizon, n_resources), PLUS_INFINITY, np.int64)
    ended_peak, ended_trough = np.full(n_resources, MINUS_INFINITY), np.full(n_resources, PLUS_INFINITY)
    arrays, bounds = ModelArrays.of(model), reduction.bounds
    costs = OutcomeCosts(TickCosts.of(lattice), true_ticks(truth))
    largest = max(map(len, layers))
    # probabilities and extremes of two layers, and copies of layers that are in files
    temporary = (4 * 8 * n_resources + 32) * largest
    if not all(layer.spent.flags.writeable for layer in layers):
        temporary += (2 * 8 * n_resources + 4) * largest
    monitor.reserve(temporary, "the extremes of nodes")
    layer = layers[0].in_memory()
    for h in range(horizon):
        last = h == horizon - 1
        next_layer = NodeLayer(layer.indptr, layer.spent[:0]) if last else layers[h + 1].in_memory()
        n_after = len(next_layer)
        after = SortedNodes(next_layer.indptr, next_layer.spent, bounds.settled_low[h + 1], bounds.settled_high[h + 1])
        then = ReachedNodes(
            np.zeros(n_after),
            np.full((n_after, n_resources), MINUS_INFINITY),
            np.full((n_after, n_resources), PLUS_INFINITY),
        )
        extremes = SpentExtremes(peak_HD[h], trough_HD[h], ended_peak, ended_trough)
        kernels.follow(
            layer.spent, in_memory(reduction.rows[h]), now, arrays, costs, after, then, extremes, monitor.halt
        )
        monitor.check_time()
        np.maximum(peak_HD[h], ended_peak, out=peak_HD[h])
        np.minimum(trough_HD[h], ended_trough, out=trough_HD[h])
        at = np.flatnonzero(now.probability)
        monitor.reserve(16 * len(at), "the nodes that the policy reaches")
        reached.append(at)
        weights.append(now.probability[at])
        layer, now = next_layer, then
    monitor.release(temporary)
    earned, rows = Followed.begun(model), [row[at] for row, at in zip(reduction.rows, reached, strict=True)]
    if model.end_reward is not None:
        states = [layer.state_of(at) for layer, at in zip(layers, reached, strict=True)]
        _add_end_rewards(model, states, rows, weights, earned)
    for h, (weight, row) in enumerate(zip(weights, rows, strict=True)):
        acting = row >= 0
        rewards = weight[acting] * model.row_reward[row[acting]]
        earned.reward[h], earned.size[h] = rewards.sum(), np.abs(rewards).sum()
    return Trace(reached, weights, peak_HD, trough_HD, earned.along(model, lambda: rows))


def true_ticks(truth: TrueCosts) -> TrueTicks:
    """Return the true costs of a problem in the form that kernels take."""
    low, high = truth.low_accounts, truth.high_accounts
    arrays = (truth.low_OD, truth.high_OD, low.floor_D, high.floor_D, low.ceiling_D, high.ceiling_D)
    return TrueTicks(*map(read_only, arrays))


def _add_end_rewards(
    model: CMDP,
    states: list[NDArray[np.int32]],
    rows: list[NDArray[np.int32]],
    weights: list[NDArray[np.float64]],
    earned: Followed,
) -> None:
    """Add the expected end rewards, in terminal states and after the last step, to the last entry of `earned`.

    The lists are those of the nodes that are reached at each step.
    """
    assert model.end_reward is not None
    parts = [
        weight[row < 0] * model.end_reward[state[row < 0]]
        for state, row, weight in zip(states, rows, weights, strict=True)
    ]
    acting = rows[-1] >= 0
    taken = rows[-1][acting]
    counts = np.diff(model.outcome_indptr)[taken]
    first = np.cumsum(counts) - counts
    outcome = np.arange(int(counts.sum())) - np.repeat(first - model.outcome_indptr[taken], counts)
    reached = np.repeat(weights[-1][acting], counts) * model.probability[outcome]
    parts.append(reached * model.end_reward[model.next_state[outcome]])
    rewards = np.concatenate(parts)
    earned.reward[-1], earned.size[-1] = rewards.sum(), np.abs(rewards).sum()
