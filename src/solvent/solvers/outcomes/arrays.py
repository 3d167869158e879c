"""Named tuples of arrays about rows whose costs are independent of the next state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class CostDistributions(NamedTuple):
    """Distinct distributions of costs, one after the other.

    Attributes
    ----------
    indptr : ndarray of int64, shape (K + 1,)
        Position of the first cost of each distribution.
    cost : ndarray of int64, shape (C,) or (C, D)
        Ticks: of one resource in decreasing order, or of all resources.
    probability : ndarray of float64, shape (C,)
    """

    indptr: NDArray[np.int64]
    cost: NDArray[np.int64]
    probability: NDArray[np.float64]


class IndependentRows(NamedTuple):
    """Rows whose costs, of all resources together, are independent of the next state.

    Attributes
    ----------
    distribution : ndarray of int32, shape (R,)
        Position of the row's cost distribution; -1 if the row is used as it is.
    next_count : ndarray of int64, shape (R,)
        Number of distinct next states.
    next_state : ndarray of int32, shape (O,)
        Distinct next states of each row, from the position of its first outcome.
    next_probability : ndarray of float64, shape (O,)
        Their probabilities.
    costs : CostDistributions
    """

    distribution: NDArray[np.int32]
    next_count: NDArray[np.int64]
    next_state: NDArray[np.int32]
    next_probability: NDArray[np.float64]
    costs: CostDistributions
