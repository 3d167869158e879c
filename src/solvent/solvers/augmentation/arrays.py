"""Named tuples of arrays that the kernels of the augmented MDP take and write."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.solvers.reduction.arrays import NodeIndex


class NodeArrays(NamedTuple):
    """Nodes by position.

    Attributes
    ----------
    state : ndarray of int32, shape (N,)
    spent_ND : ndarray of int64, shape (N, D)
        Ticks, or `COLLAPSED` where a resource is settled.
    """

    state: NDArray[np.int32]
    spent_ND: NDArray[np.int64]


class NextNodes(NamedTuple):
    """Nodes of the next layer.

    Attributes
    ----------
    nodes : NodeIndex
        `slots` is empty after the last step, when there is only the end.
    alive : ndarray of bool, shape (N,)
        Whether each node can be continued from.
    may_end_S : ndarray of bool, shape (S,)
        Whether an episode may end in each state of the model, after the last step or where the state is terminal.
    """

    nodes: NodeIndex
    alive: NDArray[np.bool_]
    may_end_S: NDArray[np.bool_]


class RowArrays(NamedTuple):
    """Rows of the augmented MDP as they are written.

    Attributes
    ----------
    row_count : ndarray of int64, shape (N,)
        Number of rows of each node of the current layer.
    row : ndarray of int32
        The model's row, for each row.
    indptr : ndarray of int32 or int64
        Position of the first transition of each row.
    next, probability : ndarray
        Transitions: position of the next node in its layer, and probability.
    written : ndarray of int64, shape (2,)
        Number of rows and of transitions written.
    """

    row_count: NDArray[np.int64]
    row: NDArray[np.int32]
    indptr: NDArray[Any]
    next: NDArray[Any]
    probability: NDArray[np.float64]
    written: NDArray[np.int64]
