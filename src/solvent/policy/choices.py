"""What all policies have in common: choices at many nodes of a step at once, and following one episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.errors import PolicyError
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.policy.search import NOT_FOUND, find

#: What `find_rows` returns where an action is not available.
NO_ROW = NOT_FOUND


class Choices(NamedTuple):
    """Actions of positive probability at queried nodes; a node without an entry has no decision.

    Attributes
    ----------
    node : ndarray of int64, shape (C,)
        Positions of the queries, in nondecreasing order.
    action : ndarray of int64, shape (C,)
        Positions of actions.
    probability : ndarray of float64, shape (C,)
        Positive probabilities.
    """

    node: NDArray[np.int64]
    action: NDArray[np.int64]
    probability: NDArray[np.float64]


class TabularPolicy(Protocol):
    """A policy that can be queried at many nodes at once."""

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources whose amounts it depends on."""

    @property
    def units(self) -> tuple[Fraction, ...]:
        """The amount of one tick of each of these resources."""

    def choices_at(self, step: int, states: NDArray[Any], ticks_MD: NDArray[np.int64]) -> Choices:
        """Return its choices for states (by position) and amounts spent, in ticks."""


class Follower(Protocol):
    """Follows a policy through one episode at a time, and stores what the policy needs to know of it."""

    @property
    def limits(self) -> Limits:
        """The limits of the budget that the policy is for."""

    def reset(self) -> None:
        """Begin a new episode."""

    def resume(self, step: int, spent: Sequence[Fraction]) -> None:
        """Continue from a step before which these amounts were spent, one per resource of the model.

        Raises
        ------
        PolicyError
            If the policy must know more than that.
        """

    def memory(self, spent: Sequence[Fraction]) -> dict[str, Any]:
        """Return what `restore` needs in addition to the step and the amounts spent, as JSON can hold it."""

    def restore(self, step: int, spent: Sequence[Fraction], memory: Mapping[str, Any]) -> None:
        """Continue from a step before which these amounts were spent, with what `memory` returned.

        Raises
        ------
        PolicyError
            If it was returned by the follower of another policy.
        """

    def choices(self, step: int, state: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Return positions and probabilities of the actions at a step and state; None if there is no decision."""

    def no_decision(self, step: int, state: int, place: str) -> PolicyError:
        """Return the error for a step and state without a decision; `place` describes them."""

    def observe(self, step: int, costs: Sequence[Fraction]) -> None:
        """Take in the costs of a step, one per resource of the model."""

    def __copy__(self) -> Follower:
        """Return a follower that continues from here independently."""


class FollowedPolicy(Protocol):
    """A policy that an `Agent` can follow."""

    @property
    def is_deterministic(self) -> bool:
        """Whether it takes one action at each node."""

    def follower(self, model: CMDP) -> Follower:
        """Return a follower for episodes of a model."""


def find_rows(model: CMDP, step: int, states: NDArray[Any], actions: NDArray[Any]) -> NDArray[np.int64]:
    """Return the row of each (state, action) at a step, or `NO_ROW`.

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
    """Return the position in `pieces` and the index of each entry of some pieces of a CSR array.

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
