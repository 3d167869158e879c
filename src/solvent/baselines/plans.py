"""Deterministic plans on the choice graph, by backward induction, and randomized policies that average two of them.

For a deterministic plan, let R be its expected reward and B its probability of ever breaking a limit, from a node on.
Both are sums along the graph, so the best plan for any price per unit of B takes one backward pass. A randomized policy
whose occupancy of each choice is the average of those of two plans has the averages of their R and of their B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.baselines.choice_graph import ChoiceGraph, ChoiceLayer
from solvent.policy.locate import COLLAPSED
from solvent.policy.markov import MarkovPolicy, RandomizedPolicy
from solvent.policy.until_violation import UntilViolationPolicy

Floats = NDArray[np.float64]
#: The smallest positive float.
_LEAST = 5e-324
#: Maps R and B of each choice to the criterion to be maximized and a second one to break ties.
Ranking = Callable[[Floats, Floats], tuple[Floats, Floats]]


def by_reward(reward: Floats, breach: Floats) -> tuple[Floats, Floats]:
    """Rank by reward, then by smaller breach probability."""
    return reward, -breach


def by_breach(reward: Floats, breach: Floats) -> tuple[Floats, Floats]:
    """Rank by smaller breach probability, then by reward."""
    return -breach, reward


def at_price(price: float) -> Ranking:
    """Rank by reward minus `price` times the breach probability."""
    return lambda reward, breach: (reward - price * breach, -breach)


@dataclass(frozen=True)
class NodePlan:
    """A deterministic plan on the graph.

    Attributes
    ----------
    reward : float
        Expected reward.
    breach : float
        Probability of ever breaking a limit.
    chosen : list of ndarray of int64, one per layer
        The choice of each node.
    """

    reward: float
    breach: float
    chosen: list[NDArray[np.int64]]


def best_plan(graph: ChoiceGraph, ranking: Ranking, *, continues: bool) -> NodePlan:
    """Return the plan that ranks highest from every node on.

    Parameters
    ----------
    graph : ChoiceGraph
    ranking : callable
    continues : bool
        Whether the episode continues, and earns rewards, after a limit is broken.
    """
    reward_N, breach_N = np.zeros(0), np.zeros(0)
    chosen: list[NDArray[np.int64]] = []
    for layer in reversed(graph.layers):
        graph.monitor.check_time()
        n = len(layer.row)
        reward = layer.gain + (layer.gain_over if continues else 0.0)
        reward = reward + np.bincount(layer.edge_choice, layer.edge_probability * reward_N[layer.edge_next], n)
        later = breach_N[layer.edge_next]
        # a product may underflow, but a possible breach must keep a positive probability
        later = np.where(later > 0, np.maximum(layer.edge_probability * later, _LEAST), 0.0)
        breach = layer.breach + np.bincount(layer.edge_choice, later, n)
        best = _argmax(layer, *ranking(reward, breach))
        reward_N, breach_N = reward[best], breach[best]
        chosen.append(best)
    gained = graph.start_gain + (graph.start_gain_over if continues else 0.0)
    # products with probabilities may underflow, but a possible breach must keep a positive probability
    breaches = np.where(breach_N > 0, np.maximum(graph.start_N * breach_N, _LEAST), 0.0)
    total = gained + float(graph.start_N @ reward_N)
    return NodePlan(total, min(graph.start_breach + float(breaches.sum()), 1.0), chosen[::-1])


def _argmax(layer: ChoiceLayer, first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the best choice of each node: greatest in `first`, then in `second`; the first such choice."""
    top = np.maximum.reduceat(first, layer.first)
    second = np.where(first == top[layer.node], second, -np.inf)
    top = np.maximum.reduceat(second, layer.first)
    winners = np.flatnonzero(second == top[layer.node])
    best = np.zeros(len(layer.state), np.int64)
    best[layer.node[winners[::-1]]] = winners[::-1]
    return best


@dataclass(frozen=True)
class _Visits:
    """Probability of each node, and whether it is reached at all, even if the probability underflows."""

    weight: NDArray[np.float64]
    reached: NDArray[np.bool_]

    def onward(self, layer: ChoiceLayer, chosen: NDArray[np.int64], n_next: int) -> _Visits:
        taken = np.zeros(len(layer.row), bool)
        taken[chosen] = self.reached
        edges = np.flatnonzero(taken[layer.edge_choice])
        following = layer.edge_next[edges]
        passed = self.weight[layer.node[layer.edge_choice[edges]]] * layer.edge_probability[edges]
        reached = np.zeros(n_next, bool)
        reached[following] = True
        return _Visits(np.asarray(np.bincount(following, passed, n_next), np.float64), reached)


def mix(
    graph: ChoiceGraph, low: NodePlan, high: NodePlan, share: float, after: MarkovPolicy | None
) -> UntilViolationPolicy:
    """Return the policy on nodes whose occupancy is the average of two plans.

    Parameters
    ----------
    graph : ChoiceGraph
    low, high : NodePlan
    share : float
        Weight of `high`; that of `low` is 1 - share.
    after : MarkovPolicy or None
        The policy after a limit is broken; None to decide nothing more.
    """
    visits = [_Visits(graph.start_N, np.ones(len(graph.start_N), bool))] * 2
    tables: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Floats]] = []
    for step in range(graph.model.horizon):
        graph.monitor.check_time()
        states, actions = graph.settled_choices(step)
        collapsed = np.full((len(states), len(graph.lattice.resources)), COLLAPSED)
        parts = [(states, collapsed, actions.astype(np.int64), np.ones(len(states)))]
        if step < len(graph.layers):
            layer = graph.layers[step]
            n_next = len(graph.layers[step + 1].state) if step + 1 < len(graph.layers) else 0
            chosen = [low.chosen[step], high.chosen[step]]
            for at, weight, picks in _shares(visits, share, chosen):
                taken = graph.model.row_action[layer.row[picks]].astype(np.int64)
                parts.append((layer.state[at], layer.spent_ND[at], taken, weight))
            visits = [visit.onward(layer, picks, n_next) for visit, picks in zip(visits, chosen, strict=True)]
        state, spent, action, probability = (np.concatenate(column) for column in zip(*parts, strict=True))
        tables.append((state, spent, action, probability))
    settled = [(graph.bounds.settled_low[h], graph.bounds.settled_high[h]) for h in range(graph.model.horizon)]
    table = RandomizedPolicy.from_nodes(graph.model, graph.lattice, graph.limits, layers=tables, settled=settled)
    return UntilViolationPolicy.of(table, after)


def _shares(
    visits: list[_Visits], share: float, chosen: list[NDArray[np.int64]]
) -> list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]]:
    """Return, for each of two plans: the nodes where it is followed, with what probability, and its choices there."""
    low, high = visits
    weights = (1 - share) * low.weight, share * high.weight
    total = weights[0] + weights[1]
    alone = (high.reached & ~low.reached).astype(np.float64)
    of_high = np.where(total > 0, weights[1] / np.where(total > 0, total, 1.0), alone)
    shares = []
    for probability, picks in ((1 - of_high, chosen[0]), (of_high, chosen[1])):
        at = np.flatnonzero((low.reached | high.reached) & (probability > 0))
        shares.append((at, probability[at], picks[at]))
    return shares
