"""Vectorized look-up of many nodes in arrays that are sorted by group and amounts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.policy.search import NOT_FOUND, count_below, find

#: Represents all amounts within the settled interval of a group; less than every true amount.
COLLAPSED = int(np.iinfo(np.int64).min)


def locate_equal(
    spent_ND: NDArray[np.int64],
    node_groups: NDArray[np.int64],
    keys_MD: NDArray[np.int64],
    groups: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the node of each query's group and amounts, or `NOT_FOUND`.

    Parameters
    ----------
    spent_ND, node_groups
        The nodes, sorted by group and then by amounts; groups are numbered from 0 without gaps.
    keys_MD, groups
        Amounts and groups of the queries.

    Examples
    --------
    >>> spent, nodes = np.array([[0, 4], [0, 7], [0, 4]]), np.array([0, 0, 1])
    >>> locate_equal(spent, nodes, np.array([[0, 7], [0, 7]]), np.array([0, 1])).tolist()
    [1, -1]
    """
    return _refine(spent_ND, node_groups, keys_MD, groups)[1]


def locate_nearest(
    spent_ND: NDArray[np.int64],
    node_groups: NDArray[np.int64],
    keys_MD: NDArray[np.int64],
    groups: NDArray[np.int64],
    upwards: bool,
) -> NDArray[np.int64]:
    """Return the node of each query's run of the last amount, or `NOT_FOUND`.

    All amounts but the last must be equal. Of these nodes, it is the first with at least the query's last amount or, if
    not `upwards`, the last with at most it. `COLLAPSED` counts as less than all amounts or, if not `upwards`, as more.

    Parameters
    ----------
    spent_ND, node_groups, keys_MD, groups
        As in `locate_equal`, with at least one resource.
    upwards : bool

    Examples
    --------
    >>> spent, nodes, queries = np.array([[0], [4], [2]]), np.array([0, 0, 1]), np.array([[3], [3]])
    >>> locate_nearest(spent, nodes, queries, np.array([0, 1]), upwards=True).tolist()
    [1, -1]
    >>> locate_nearest(spent, nodes, queries, np.array([0, 1]), upwards=False).tolist()
    [0, 2]
    """
    node_runs, runs = _refine(spent_ND[:, :-1], node_groups, keys_MD[:, :-1], groups)
    spent_N, keys_M = spent_ND[:, -1], keys_MD[:, -1]
    known = runs != NOT_FOUND
    runs = np.where(known, runs, 0)
    values = np.unique(spent_N)
    size = len(values) + 1
    below = count_below(values, keys_M)
    if upwards:
        position = count_below(node_runs * size + count_below(values, spent_N), runs * size + below)
    else:
        at_or_below = below + (values[np.minimum(below, len(values) - 1)] == keys_M)
        collapsed = keys_M == COLLAPSED
        # a collapsed amount is stored first, although it counts as more than all others
        at_or_below[collapsed] = len(values)
        position = count_below(node_runs * size + count_below(values, spent_N), runs * size + at_or_below) - 1
        first = count_below(node_runs, runs)
        position = np.where(collapsed & (spent_N[first] == COLLAPSED), first, position)
    inside = np.clip(position, 0, len(spent_N) - 1)
    found = known & (position == inside) & (node_runs[inside] == runs)
    if not upwards:
        found &= (spent_N[inside] != COLLAPSED) | collapsed
    return np.where(found, position, NOT_FOUND)


def _refine(
    spent_ND: NDArray[np.int64],
    node_groups: NDArray[np.int64],
    keys_MD: NDArray[np.int64],
    groups: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return numbers of nodes and of queries, equal where group and all amounts are; `NOT_FOUND` without such a node.

    Nodes are numbered from 0 without gaps, in their order. After d resources, all nodes with equal group and equal
    first d amounts have the same number.
    """
    node_prefix, prefix, n_prefixes = node_groups, groups, int(node_groups[-1]) + 1
    known = np.ones(len(groups), bool)
    for d in range(spent_ND.shape[1]):
        node_codes, codes, size = _codes(spent_ND[:, d], keys_MD[:, d], n_prefixes)
        known &= codes != NOT_FOUND
        node_keys = node_prefix * size + node_codes
        is_new = np.ones(len(node_keys), bool)
        np.not_equal(node_keys[1:], node_keys[:-1], out=is_new[1:])
        prefix = find(node_keys[is_new], prefix * size + codes)
        node_prefix, n_prefixes = np.cumsum(is_new) - 1, int(is_new.sum())
        known &= prefix != NOT_FOUND
        prefix[~known] = 0
    return node_prefix, np.where(known, prefix, NOT_FOUND)


def _codes(
    node_values: NDArray[np.int64], values: NDArray[np.int64], n_prefixes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return codes of nodes' and queries' values, in the same order (`NOT_FOUND` for unknown values), and a bound."""
    node_collapsed, collapsed = node_values == COLLAPSED, values == COLLAPSED
    plain = node_values[~node_collapsed]
    low, high = (int(plain.min()), int(plain.max())) if len(plain) else (1, 0)
    size = high - low + 2
    if size * n_prefixes < 2**62:
        node_codes = np.where(node_collapsed, 0, node_values - (low - 1))
        inside = (low <= values) & (values <= high)
        codes = np.where(inside, np.where(inside, values, low) - (low - 1), NOT_FOUND)
    else:
        distinct = np.unique(plain)
        node_codes = np.where(node_collapsed, 0, count_below(distinct, node_values) + 1)
        position = find(distinct, values)
        codes = np.where(position == NOT_FOUND, NOT_FOUND, position + 1)
        size = len(distinct) + 1
    return node_codes, np.where(collapsed, 0, codes), size
