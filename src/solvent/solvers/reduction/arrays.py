"""Named tuples of arrays that the kernels of the reduction take and write."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.solvers.arrays import TickCosts


class LayerNodes(NamedTuple):
    """Nodes of a layer, grouped by state.

    Attributes
    ----------
    indptr : ndarray of int64, shape (S + 1,)
        Position of the first node of each state.
    spent_ND : ndarray of int64, shape (N, D)
        Ticks, or `COLLAPSED` where a resource is settled.
    """

    indptr: NDArray[np.int64]
    spent_ND: NDArray[np.int64]


class NodeIndex(NamedTuple):
    """Nodes of a step that can be looked up by state and amounts.

    Attributes
    ----------
    state : ndarray of int32, shape (N,)
    spent_ND : ndarray of int64, shape (N, D)
        Ticks, or `COLLAPSED` where a resource is settled.
    slots : ndarray of int32
        Positions of nodes, by key on the grid or by hash; `EMPTY` where there is no node.
    grid : ndarray of int64, shape (1 + 2 D,)
        Number of keys per state, then the lowest ticks and the stride of each resource. A first entry of 0 means that
        nodes are looked up by hash.
    settled_low_SD, settled_high_SD : ndarray of int64, shape (S, D)
        Amounts that are settled in each state at this step.
    """

    state: NDArray[np.int32]
    spent_ND: NDArray[np.int64]
    slots: NDArray[np.int32]
    grid: NDArray[np.int64]
    settled_low_SD: NDArray[np.int64]
    settled_high_SD: NDArray[np.int64]


class SortedNodes(NamedTuple):
    """Nodes of a step, sorted by state and amounts, that are found by bisection.

    Attributes
    ----------
    indptr : ndarray of int64, shape (S + 1,)
        Position of the first node of each state.
    spent_ND : ndarray of int64, shape (N, D)
    settled_low_SD, settled_high_SD : ndarray of int64, shape (S, D)
        Amounts that are settled in each state at this step.
    """

    indptr: NDArray[np.int64]
    spent_ND: NDArray[np.int64]
    settled_low_SD: NDArray[np.int64]
    settled_high_SD: NDArray[np.int64]


class LayerBounds(NamedTuple):
    """Rows of a step and bounds on the amount spent.

    Attributes
    ----------
    row_indptr : ndarray of int64, shape (S + 1,)
        Position of the first row of each state.
    row_low_RD, row_high_RD : ndarray of int64
        Amounts before the step for which each row is safe; rows count from `row_indptr[0]`.
    end_low_SD, end_high_SD : ndarray of int64, shape (S, D)
        Amounts with which an episode may end in each state before the step.
    """

    row_indptr: NDArray[np.int64]
    row_low_RD: NDArray[np.int64]
    row_high_RD: NDArray[np.int64]
    end_low_SD: NDArray[np.int64]
    end_high_SD: NDArray[np.int64]


class NextValues(NamedTuple):
    """Nodes of the next layer and their values.

    Attributes
    ----------
    nodes : NodeIndex
        If there is a grid, it need not contain nodes.
    value : ndarray of float64
        Value by key on the grid, or by position of the node. Empty after the last step, when values are those of
        ending in each state.
    """

    nodes: NodeIndex
    value: NDArray[np.float64]


class NodeChoices(NamedTuple):
    """Result of maximizing over the rows of each node.

    Attributes
    ----------
    value : ndarray of float64, shape (N,)
    row : ndarray of int32, shape (N,)
        Best row, or `TERMINAL` or `DEAD_END`.
    reward_S : ndarray of float64, shape (S,)
        Largest reward, and at least 0, of a row that some node of the state can take without reaching a dead end.
    """

    value: NDArray[np.float64]
    row: NDArray[np.int32]
    reward_S: NDArray[np.float64]


class TrueTicks(NamedTuple):
    """Bounds on the true costs of outcomes, and on the true ends at which each resource saturates, in ticks.

    Attributes
    ----------
    low_OD, high_OD : ndarray of int64, shape (O, D)
    low_floor_D, high_floor_D, low_ceiling_D, high_ceiling_D : ndarray of int64, shape (D,)
    """

    low_OD: NDArray[np.int64]
    high_OD: NDArray[np.int64]
    low_floor_D: NDArray[np.int64]
    high_floor_D: NDArray[np.int64]
    low_ceiling_D: NDArray[np.int64]
    high_ceiling_D: NDArray[np.int64]


class OutcomeCosts(NamedTuple):
    """Costs of outcomes as a policy counts them, and as they are.

    Attributes
    ----------
    counted : TickCosts
        Costs that define the nodes.
    true : TrueTicks
        In ticks of their own.
    """

    counted: TickCosts
    true: TrueTicks


class ReachedNodes(NamedTuple):
    """Probability of reaching each node of a layer, and bounds on the true amount spent there.

    Attributes
    ----------
    probability : ndarray of float64, shape (N,)
        0 only if the node cannot be reached.
    most_ND, least_ND : ndarray of int64, shape (N, D)
    """

    probability: NDArray[np.float64]
    most_ND: NDArray[np.int64]
    least_ND: NDArray[np.int64]


class SpentExtremes(NamedTuple):
    """Largest and smallest true amounts spent; int64 arrays of shape (D,).

    Attributes
    ----------
    peak_D, trough_D : ndarray
        After a step that was taken.
    ended_peak_D, ended_trough_D : ndarray
        In episodes that have ended.
    """

    peak_D: NDArray[np.int64]
    trough_D: NDArray[np.int64]
    ended_peak_D: NDArray[np.int64]
    ended_trough_D: NDArray[np.int64]
