"""Masks from upper bounds on the cost of actions, stated or learned.

With `spent` so far, an action a at observation o is allowed if, for every resource,

    clamp(spent + bound(o, a)) + max(reserve(o, a), 0) <= limit,

in exact numbers, where clamp moves an amount to the floor or the ceiling at which the resource saturates. If the bound
holds, the next step keeps the limit. Later steps can be continued safely only if the reserve covers them; without a
reserve, an episode may reach a dead end, where no action is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import Number, exact
from solvent.errors import PolicyError
from solvent.gym.tracker import BudgetTracker
from solvent.model.amounts import short_amount
from solvent.model.cost_bounds import Bound, BoundLike, CostBounds
from solvent.model.metering import Spent


@runtime_checkable
class CostSupport(Protocol):
    """Protocol of cost bounds that are learned while acting; pass an instance as `cost_bound`.

    A cost above the bound is not an error then, since the bound is updated from it. If it breaks the budget, the
    episode ends with `info["violation"]` set, and the wrapper counts the violation.
    """

    def bound(self, step: int, observation: Any, action: int) -> Any:
        """Return an upper bound on the cost: a number, one per resource in order or by name, or None to forbid it."""

    def observe(
        self, step: int, observation: Any, action: int, cost: Mapping[str, Fraction], next_observation: Any
    ) -> None:
        """Record the exact cost of a step, by resource."""


def _by_action(observation: Any, action: int) -> Hashable:
    """Return the default key: the action."""
    return action


class EmpiricalCostBound:
    """Cost bound learned from data: the greatest cost observed so far.

    Parameters
    ----------
    unseen : number, sequence or mapping
        Bound for what was never tried. A true bound avoids all violations; 0 allows everything to be tried once.
    key : function of (observation, action), optional
        Observations are grouped by this key. Default: the action, so that a violation is not repeated in another state.

    Examples
    --------
    >>> seen = EmpiricalCostBound(unseen=0)
    >>> seen.observe(0, "home", 1, {"fuel": Fraction(3, 2)}, "away")
    >>> seen.bound(1, "away", 1), seen.bound(1, "away", 2)
    ({'fuel': Fraction(3, 2)}, 0)
    """

    def __init__(
        self,
        unseen: Number | Sequence[Number] | Mapping[str, Number],
        key: Callable[[Any, int], Hashable] | None = None,
    ) -> None:
        self._unseen, self._key = unseen, key or _by_action
        self._most: dict[Hashable, dict[str, Fraction]] = {}

    def bound(self, step: int, observation: Any, action: int) -> Any:
        """Return the greatest cost observed, or `unseen`."""
        seen = self._most.get(self._key(observation, action))
        return self._unseen if seen is None else dict(seen)

    def observe(
        self, step: int, observation: Any, action: int, cost: Mapping[str, Fraction], next_observation: Any
    ) -> None:
        """Update the greatest cost observed."""
        seen = self._most.setdefault(self._key(observation, action), dict(cost))
        for name, amount in cost.items():
            seen[name] = max(seen[name], amount)


class BoundMasks:
    """Masks from upper bounds on the cost of actions.

    Parameters
    ----------
    tracker : BudgetTracker
    n_actions : int
    first_action : int
        Number of the first action.
    cost_bound : CostSupport, function of (observation, action), or numbers
        Numbers: one for all actions, by resource, or an array of shape (A,), (A, D), (S, A) with one resource or
        (S, A, D). Infinity or None forbids an action.
    reserve : function of (observation, action), or numbers, optional
        Amount that must remain after the action.
    """

    def __init__(
        self,
        tracker: BudgetTracker,
        n_actions: int,
        first_action: int,
        cost_bound: BoundLike,
        reserve: BoundLike = None,
    ) -> None:
        self._tracker, self._n, self._first = tracker, n_actions, first_action
        self._support = cost_bound if isinstance(cost_bound, CostSupport) else None
        shape = tracker.resources, n_actions, first_action
        self._bound: Callable[[Any, int], Bound] = self._from_support
        if self._support is None:
            self._bound = CostBounds(cost_bound, *shape)
        nothing = np.zeros((n_actions, len(tracker.resources)), int)
        self._reserve = CostBounds(nothing if reserve is None else reserve, *shape, where="reserve")
        self._observation: Any = None
        self._last_bound: list[Bound] = [None] * n_actions  # the bounds behind the last mask

    @property
    def learns(self) -> bool:
        """Whether bounds are learned, and so may be wrong."""
        return self._support is not None

    @property
    def over(self) -> bool:
        """Whether the masks end the episode: never."""
        return False

    @property
    def goal_missed(self) -> bool:
        """Whether the episode has ended where it must not end: never known here."""
        return False

    def begin(self, observation: Any) -> None:
        """Start an episode."""
        self._observation = observation

    def mask(self) -> NDArray[np.bool_]:
        """Return which actions are allowed."""
        return np.array([self._fits(position) for position in range(self._n)], bool)

    def _fits(self, position: int) -> bool:
        bound, tracker = self._bound(self._observation, position), self._tracker
        self._last_bound[position] = bound
        if bound is None:
            return False
        kept = self._reserve(self._observation, position)
        if kept is None:
            return False
        for d, most in enumerate(tracker.after(bound)):
            limit = tracker.upper(d, tracker.step)
            if limit is not None and most + max(kept[d], Fraction(0)) > limit:
                return False
        return True

    def took(self, position: int, next_observation: Any, spent: Spent, terminated: bool) -> list[Fraction]:
        """Record the outcome of an action and return its exact costs; raise `PolicyError` if they exceed the bound."""
        tracker, where = self._tracker, f"step {self._tracker.step}, action {position + self._first}"
        pairs = zip(spent.reported, tracker.resources, strict=True)
        exactly = [exact(cost, f"{where}, cost of {name}") for cost, name in pairs]
        if self._support is not None:
            named = dict(zip(tracker.resources, spent.high or exactly, strict=True))
            self._support.observe(tracker.step, self._observation, position + self._first, named, next_observation)
        else:
            bound = self._last_bound[position]  # a function may return another bound after the step
            assert bound is not None  # otherwise the action would have been masked
            # within several steps of the environment, the greatest cumulative cost must not exceed the bound
            for cost, most, name in zip(spent.high or exactly, bound, tracker.resources, strict=True):
                if cost > most:
                    raise PolicyError(
                        f"{where}, cost of {name}",
                        f"at most {short_amount(most)}, as cost_bound says",
                        short_amount(cost),
                        "cost_bound must hold for every outcome",
                    )
        self._observation = next_observation
        return exactly

    def _from_support(self, observation: Any, position: int) -> Bound:
        assert self._support is not None
        action = position + self._first
        given = self._support.bound(self._tracker.step, observation, action)
        return self._reserve.read(given, f"bound of action {action}")
