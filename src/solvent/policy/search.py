"""Vectorized look-up of integers: with a dense table if the values are close together, else by bisection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Returned by `find` for a value that is not there.
NOT_FOUND = -1
#: Greatest size of a dense table.
_DENSE_ENTRIES = 2**26


def count_below(values: NDArray[Any], queries: NDArray[Any]) -> NDArray[np.int64]:
    """Return, for each query, the number of the increasing `values` that are smaller.

    Examples
    --------
    >>> count_below(np.array([2, 3, 7]), np.array([0, 3, 4, 9])).tolist()
    [0, 1, 2, 3]
    """
    if not len(values):
        return np.zeros(len(queries), np.int64)
    low, high = int(values[0]), int(values[-1])
    span = high - low + 1
    if span > min(4 * len(queries) + len(values), _DENSE_ENTRIES):
        return np.searchsorted(values, queries).astype(np.int64, copy=False)
    below = np.cumsum(np.bincount(values - low + 1, minlength=span + 1))
    result: NDArray[np.int64] = below[np.clip(queries, low, high + 1) - low]
    return result


def find(values: NDArray[Any], queries: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each query in the strictly increasing `values`, or `NOT_FOUND`.

    Examples
    --------
    >>> find(np.array([2, 3, 7]), np.array([3, 4, 7])).tolist()
    [1, -1, 2]
    """
    if not len(values):
        return np.full(len(queries), NOT_FOUND, np.int64)
    position = np.minimum(count_below(values, queries), len(values) - 1)
    position[values[position] != queries] = NOT_FOUND
    return position


def changes(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows of the columns differ from the row before; True for the first.

    Examples
    --------
    >>> changes(np.array([1, 1, 1, 2]), np.array([5, 5, 6, 6])).tolist()
    [True, False, True, True]
    """
    result = np.zeros(len(columns[0]), bool)
    result[:1] = True
    for column in columns:
        result[1:] |= column[1:] != column[:-1]
    return result


def compact(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct keys in increasing order, and the position of each key among them.

    Examples
    --------
    >>> values, position = compact(np.array([7, 2, 7]))
    >>> values.tolist(), position.tolist()
    ([2, 7], [1, 0, 1])
    """
    if not len(keys):
        return keys, np.zeros(0, np.int64)
    low, high = int(keys.min()), int(keys.max())
    span = high - low + 1
    if span > min(4 * len(keys) + 1024, _DENSE_ENTRIES):
        values, position = np.unique(keys, return_inverse=True)
        return values, position
    shifted = keys - low
    present = np.zeros(span, bool)
    present[shifted] = True
    rank = np.cumsum(present) - 1
    return np.flatnonzero(present) + low, rank[shifted]


def pack(columns: list[NDArray[Any]]) -> NDArray[np.int64]:
    """Return one integer per row of the columns, such that integers compare as the rows do.

    The columns may contain Python integers of any size.

    Examples
    --------
    >>> pack([np.array([1, 0, 1]), np.array([5, 9, 5])]).tolist()
    [5, 4, 5]
    """
    packed = np.zeros(len(columns[0]), np.int64)
    width = 1
    for column in columns:
        codes, size = _codes(column)
        if width * size >= 2**62:
            values, packed = compact(packed)
            width = len(values)
        if width * size >= 2**62:
            values, codes = np.unique(codes, return_inverse=True)
            size = len(values)
        packed = packed * size + codes
        width *= size
    return packed


def _codes(column: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Return codes of a column, from 0 and in the same order, and a bound on them."""
    if not len(column):
        return np.zeros(0, np.int64), 1
    if column.dtype != object:
        low, high = int(column.min()), int(column.max())
        if high - low < 2**61:
            return column.astype(np.int64, copy=False) - low, high - low + 1
    values, codes = np.unique(column, return_inverse=True)
    return codes.astype(np.int64, copy=False), len(values)
