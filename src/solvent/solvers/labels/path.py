"""The best path of a deterministic model: what all searches of the method "labels" return."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.checkpoint import Section
from solvent.errors import SolventError
from solvent.model.cmdp import CMDP
from solvent.solvers.accuracy import AGREEMENT, ROUNDOFF


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


@dataclass(frozen=True)
class Searched:
    """What a search knows about the values of all paths when it ends.

    Attributes
    ----------
    value : float
        The value of the best path as computed by the search.
    bound : float
        Upper bound on the value of any path if the search was stopped, up to `tolerance`.
    dropped : float
        The largest value of a path that may have been dropped, as computed by the search.
    tolerance : float
        Paths that are better by at most this count as equal to the best one.
    exact : bool
        Whether all sums of rewards are exact in floats.
    drift : float
        Bound on the difference between 1 and the probability of any outcome.
    most_gained : float
        Upper bound on the sum of the positive rewards of any path; not needed if sums are exact.
    """

    value: float
    bound: float
    dropped: float
    tolerance: float
    exact: bool
    drift: float
    most_gained: float


def conclude(
    model: CMDP, row_H: NDArray[np.int64], size_H: NDArray[np.int64], searched: Searched, stopped: str
) -> Path:
    """Return the best path with bounds on its value and on that of any other path.

    Parameters
    ----------
    model : CMDP
    row_H : ndarray of int64, shape (H,)
        The rows of the best path, as in `Path`.
    size_H : ndarray of int64, shape (H,)
        Number of labels after each step.
    searched : Searched
    stopped : str
        The limit that stopped the search, if any.
    """
    taken = row_H[row_H >= 0]
    state = int(model.next_state[taken[-1]]) if len(taken) else model.start_index
    rewards = np.append(model.row_reward[taken], model.end_value[state])
    value, size = math.fsum(rewards.tolist()), float(np.abs(rewards).sum())
    if abs(value - searched.value) > AGREEMENT * size:
        raise SolventError(
            f"the path is worth {value!r}, but {searched.value!r} was found by the search; please report this"
        )
    lower, upper = value, max(searched.value, value)
    if stopped:
        upper = max(upper, searched.bound)
    if not searched.exact:
        # any path has at most one reward per step and one at the end; those of a better path add up, in absolute
        # terms, to at most twice what can be gained, minus its value
        n_rewards = model.horizon + 1
        lower -= n_rewards * searched.drift * size + 4 * ROUNDOFF * abs(value)
        share = n_rewards * (2 * ROUNDOFF + searched.drift)
        upper = max(upper, searched.dropped) + share * (2 * searched.most_gained + abs(upper))
    if stopped or not searched.exact:
        upper += searched.tolerance + 4 * ROUNDOFF * abs(upper)
    sizes = tuple(np.maximum(size_H, row_H >= 0).tolist())
    return Path(value, row_H, sizes, lower, upper, stopped)


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
