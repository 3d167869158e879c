"""The best path of a deterministic model: what all searches of the method "labels" return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Path:
    """The best path.

    Attributes
    ----------
    value : float
        The sum of its rewards, rounded once; minus infinity if no path keeps the limits.
    row_H : ndarray of int64, shape (H,)
        The row of each step, or -1 once the episode is over.
    sizes : tuple of int
        Number of labels after each step in the last search, counting at least the path itself.
    lower, upper : float
        Bounds: the path is worth at least `lower`, and no path is worth more than `upper`. Unless the search was
        stopped, both equal the value up to rounding errors and the tolerance of the search.
    stopped : str
        The limit that stopped the search, if any.
    """

    value: float
    row_H: NDArray[np.int64]
    sizes: tuple[int, ...]
    lower: float
    upper: float
    stopped: str = ""

    @classmethod
    def none(cls, horizon: int) -> Path:
        """Return the answer that no path keeps the limits."""
        return cls(-np.inf, np.full(horizon, -1), (0,) * horizon, -np.inf, -np.inf)
