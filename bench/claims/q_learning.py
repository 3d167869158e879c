"""Tabular Q-learning (Watkins 1989) on nodes: one entry for each safe action of each node, one step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.claims.nodes import Nodes


def learn(nodes: Nodes, steps: int, seed: int, explore: float, power: float) -> tuple[NDArray[np.int64], int, int]:
    """Return the greedy action of each node, the number of episodes, and the number of them over budget.

    Parameters
    ----------
    nodes : Nodes
    steps : int
    seed : int
    explore : float
        Probability of a random safe action at the first step; it decreases linearly to 0.
    power : float
        The n-th update of an entry has the step size n**-power.
    """
    mdp = nodes.mdp
    first = mdp.row_indptr.astype(np.int64)
    value, episodes, over = _learn(
        first, nodes.row_indptr, nodes.next_node, nodes.cumulative, nodes.reward, nodes.over, int(mdp.start),
        steps, seed, explore, power,
    )  # fmt: skip
    by_action = np.where(nodes.mask, value[nodes.row], -np.inf)
    return by_action.argmax(axis=1), episodes, over


@njit(cache=True)  # type: ignore[untyped-decorator]
def _learn(
    first: Any, outcome_indptr: Any, next_node: Any, cumulative: Any, reward: Any, over: Any, start: int,
    steps: int, seed: int, explore: float, power: float,
) -> Any:  # fmt: skip
    np.random.seed(seed)  # noqa: NPY002  # what Numba has
    value, visits = np.zeros(len(reward)), np.zeros(len(reward))
    node, episodes, episodes_over, was_over = start, 0, 0, False
    for step in range(steps):
        begin, end = first[node], first[node + 1]
        if np.random.random() < explore * (1 - step / steps):  # noqa: NPY002
            row = np.random.randint(begin, end)  # noqa: NPY002
        else:
            row = begin + np.argmax(value[begin:end])
        draw, place = np.random.random(), outcome_indptr[row]  # noqa: NPY002
        while draw >= cumulative[place]:
            place += 1
        after = next_node[place]
        was_over = was_over or over[after]
        done = first[after] == first[after + 1]
        later = 0.0 if done else value[first[after] : first[after + 1]].max()
        visits[row] += 1
        value[row] += visits[row] ** -power * (reward[row] + later - value[row])
        node = after
        if done:
            episodes, episodes_over = episodes + 1, episodes_over + was_over
            node, was_over = start, False
    return value, episodes, episodes_over
