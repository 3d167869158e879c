"""What the classes of policies have in common: choices for many nodes of a step at once, and the rows they mean."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.model.cmdp import CMDP
from solvent.policy.search import NOT_FOUND, find

#: What `find_rows` returns where an action is not available.
NO_ROW = NOT_FOUND


class Choices(NamedTuple):
    """Supported actions of queried nodes; a node without any entry is one where nothing is decided.

    Attributes
    ----------
    node : ndarray of int64, shape (C,)
        Which query; never falling.
    action : ndarray of int64, shape (C,)
    probability : ndarray of float64, shape (C,)
        Positive.
    """

    node: NDArray[np.int64]
    action: NDArray[np.int64]
    probability: NDArray[np.float64]


class TabularPolicy(Protocol):
    """A policy that can be asked about many nodes at once."""

    @property
    def resources(self) -> tuple[str, ...]:
        """What it looks at, besides step and state."""

    @property
    def units(self) -> tuple[Fraction, ...]:
        """What a tick of each is worth."""

    def choices_at(self, step: int, states: NDArray[Any], ticks_MD: NDArray[np.int64]) -> Choices:
        """Return its choices for states (by position) and what was spent, in ticks."""


def find_rows(model: CMDP, step: int, states: NDArray[Any], actions: NDArray[Any]) -> NDArray[np.int64]:
    """Return the row of each (state, action) of a step, or `NO_ROW`.

    Examples
    --------
    >>> from solvent.model import instances
    >>> model = instances.knapsack([3, 4], [2, 3])
    >>> find_rows(model, 1, np.array([0, 0]), np.array([0, 1])).tolist()
    [2, 3]
    """
    bounds = model.row_indptr_at(step)
    owner = np.repeat(np.arange(model.n_states), np.diff(bounds))
    keys = owner * model.n_actions + model.row_action[bounds[0] : bounds[-1]]
    rows = find(keys, np.asarray(states, np.int64) * model.n_actions + actions)
    return np.where(rows == NO_ROW, NO_ROW, rows + bounds[0])


def is_terminal(model: CMDP, step: int, states: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each state (by position) has no rows at a step."""
    bounds = model.row_indptr_at(step)
    terminal: NDArray[np.bool_] = (np.diff(bounds) == 0)[states]
    return terminal


def spread(indptr: NDArray[np.int64], pieces: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every entry of the pieces, one after another, and which of `pieces` each came from.

    Examples
    --------
    >>> owner, entry = spread(np.array([0, 2, 3]), np.array([1, 0]))
    >>> owner.tolist(), entry.tolist()
    ([0, 1, 1], [2, 0, 1])
    """
    first = indptr[pieces]
    sizes = indptr[pieces + 1] - first
    owner = np.repeat(np.arange(len(pieces)), sizes)
    ends = np.cumsum(sizes)
    entry = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(first - (ends - sizes), sizes)
    return owner, entry
