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

    After d resources, all nodes with equal group and equal first d amounts have the same number.

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
    return np.where(known, prefix, NOT_FOUND)


def locate_nearest(
    spent_N: NDArray[np.int64],
    node_groups: NDArray[np.int64],
    keys_M: NDArray[np.int64],
    groups: NDArray[np.int64],
    upwards: bool,
) -> NDArray[np.int64]:
    """Return the first node of a query's group with at least its amount or, if not `upwards`, the last with at most it.

    Examples
    --------
    >>> spent, nodes, queries = np.array([0, 4, 2]), np.array([0, 0, 1]), np.array([3, 3])
    >>> locate_nearest(spent, nodes, queries, np.array([0, 1]), upwards=True).tolist()
    [1, -1]
    >>> locate_nearest(spent, nodes, queries, np.array([0, 1]), upwards=False).tolist()
    [0, 2]
    """
    values = np.unique(spent_N)
    size = len(values) + 1
    node_keys = node_groups * size + count_below(values, spent_N)
    if upwards:
        position = count_below(node_keys, groups * size + count_below(values, keys_M))
    else:
        at_or_below = count_below(values, np.minimum(keys_M, values[-1]) + 1)
        position = count_below(node_keys, groups * size + at_or_below) - 1
    inside = np.clip(position, 0, len(spent_N) - 1)
    found = (position == inside) & (node_groups[inside] == groups)
    return np.where(found, position, NOT_FOUND)


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
