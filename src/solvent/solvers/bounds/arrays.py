"""Named tuples of arrays that the kernels of bounds take and write, and what has them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.solvers.arrays import ModelArrays, TickCosts


class Bounds(NamedTuple):
    """Bounds on the amount spent at each (step, state); int64 arrays of shape (H + 1, S, D).

    A node is doomed if a resource lies outside [safe_low, safe_high]: every continuation may break one of its limits.
    A resource is settled if it lies inside [settled_low, settled_high]: no continuation can break its limits.
    """

    safe_low: NDArray[np.int64]
    safe_high: NDArray[np.int64]
    settled_low: NDArray[np.int64]
    settled_high: NDArray[np.int64]


class LimitArrays(NamedTuple):
    """Limits on the amount spent after each step; int64 arrays of shape (H, D), in ticks."""

    upper_HD: NDArray[np.int64]
    lower_HD: NDArray[np.int64]


class ArraySource(Protocol):
    """What steps are computed from: the arrays of a problem, or of a part of its states."""

    @property
    def arrays(self) -> ModelArrays:
        """Rows and outcomes."""

    @property
    def costs(self) -> TickCosts:
        """Costs of all outcomes."""

    @property
    def limits(self) -> LimitArrays:
        """Limits after each step."""

    @property
    def bounds(self) -> Bounds:
        """Bounds on the amounts at each step and state."""
