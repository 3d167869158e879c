"""The best path of a deterministic model: what all searches of the method "labels" return."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.checkpoint import Section
from solvent.model.cmdp import CMDP
from solvent.solvers.accuracy import AGREEMENT


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


def check_path(section: Section, model: CMDP, row_T: NDArray[Any], value: float, end: float = 0.0) -> None:
    """Raise a `ModelError` unless rows from a checkpoint are a path from the start that is worth a value."""
    inside = bool(((row_T >= 0) & (row_T < model.n_rows)).all())
    if inside and len(row_T):
        owner = (np.searchsorted(model.row_indptr, row_T, side="right") - 1) % model.n_states
        inside = bool(owner[0] == model.start_index) and np.array_equal(owner[1:], model.next_state[row_T[:-1]])
    rewards = model.row_reward[row_T] if inside else np.zeros(0)
    size = float(np.abs(rewards).sum()) + abs(end)
    if not inside or not abs(math.fsum([*rewards.tolist(), end]) - value) <= AGREEMENT * size:
        raise section.damaged("path", f"a path that is worth {value!r}", "another one")
