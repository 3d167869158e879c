"""Runs: the amounts of the last resource that share a node of a `NodeTable`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.policy.locate import COLLAPSED
from solvent.policy.nodes import NodeTable
from solvent.policy.search import changes


def run_bounds(policy: NodeTable, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the least and the greatest amount of the last resource to which each node of a group applies, in ticks.

    `MINUS_INFINITY` and `PLUS_INFINITY` where there is no end. They are equal for a single amount; for a `COLLAPSED`
    node they are the ends of the settled interval.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.solvers.solve import solve
    >>> policy = solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50), method="frontier").policy
    >>> low, high = run_bounds(policy, 1)
    >>> low.tolist() == [MINUS_INFINITY], (high * policy.units[0]).tolist()
    (True, [Fraction(0, 1)])
    """
    spent_ND = policy.spent_ND[int(policy.node_indptr[group]) : int(policy.node_indptr[group + 1])]
    at = spent_ND[:, -1]
    low, high = at.copy(), at.copy()
    settled_low, settled_high = PLUS_INFINITY, MINUS_INFINITY
    if policy.settled_low_GD is not None and policy.settled_high_GD is not None:
        settled_low, settled_high = int(policy.settled_low_GD[group, -1]), int(policy.settled_high_GD[group, -1])
    collapsed = at == COLLAPSED
    first = changes(np.zeros(len(at), np.int64), *spent_ND.T[:-1])
    beside_collapsed = collapsed[first][np.cumsum(first) - 1]
    if policy.lookup == "at_most":
        low[1:] = at[:-1] + 1
        end = np.where(beside_collapsed, min(settled_high + 1, PLUS_INFINITY), policy.floor_D[-1])
        outermost = first | np.append(False, collapsed[:-1])
        low = np.where(outermost, np.minimum(end, at), low)
    elif policy.lookup == "at_least":
        high[:-1] = at[1:] - 1
        end = np.where(beside_collapsed, max(settled_low - 1, MINUS_INFINITY), policy.ceiling_D[-1])
        outermost = np.append(first[1:], True)
        high = np.where(outermost, np.maximum(end, at), high)
    return np.where(collapsed, settled_low, low), np.where(collapsed, settled_high, high)
