"""Masks from bounds: what an action can cost at most, stated or learned.

With `spent` so far, an action a at observation o is allowed if, for every resource,

    spent + bound(o, a) + max(reserve(o, a), 0) <= limit,

in exact numbers. Such a mask is safe to take, as far as the bound holds. It is safe to continue from only if the
reserve covers what may come after; without one, an episode may run into a dead end, where no action is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact
from solvent.errors import PolicyError
from solvent.gym.account import Account
from solvent.model.amounts import short_amount
from solvent.model.cost_bounds import Bound, BoundLike, CostBounds
from solvent.model.metering import Spent


@runtime_checkable
class CostSupport(Protocol):
    """What the costs of actions can be, learned while acting: pass one as `cost_bound`.

    Costs above the bound are no error then, since that is how it learns. If one breaks the budget, the episode ends
    with `info["violation"]`, and the wrapper counts it.
    """

    def bound(self, step: int, observation: Any, action: int) -> Any:
        """Return the most an action can cost: a number, one per resource in order or by name, or None for never."""

    def observe(
        self, step: int, observation: Any, action: int, cost: Mapping[str, Fraction], next_observation: Any
    ) -> None:
        """Take in what a step cost, exactly."""


def _by_action(observation: Any, action: int) -> Hashable:
    """Return the action, as what shares one memory."""
    return action


class EmpiricalCostBound:
    """A support learned by remembering the greatest cost seen.

    Parameters
    ----------
    unseen : number, sequence or mapping
        The bound of what was never tried. A true bound keeps violations out; 0 lets everything be tried.
    key : function of (observation, action), optional
        What shares one memory: by default the action, so that a mistake made anywhere is repeated nowhere.

    Examples
    --------
    >>> seen = EmpiricalCostBound(unseen=0)
    >>> seen.observe(0, "home", 1, {"fuel": Fraction(3, 2)}, "away")
    >>> seen.bound(1, "away", 1), seen.bound(1, "away", 2)
    ({'fuel': Fraction(3, 2)}, 0)
    """

    def __init__(self, unseen: Any, key: Callable[[Any, int], Hashable] | None = None) -> None:
        self._unseen, self._key = unseen, key or _by_action
        self._most: dict[Hashable, dict[str, Fraction]] = {}

    def bound(self, step: int, observation: Any, action: int) -> Any:
        """Return the greatest cost seen, or `unseen`."""
        seen = self._most.get(self._key(observation, action))
        return self._unseen if seen is None else dict(seen)

    def observe(
        self, step: int, observation: Any, action: int, cost: Mapping[str, Fraction], next_observation: Any
    ) -> None:
        """Remember the cost if it is the greatest so far."""
        seen = self._most.setdefault(self._key(observation, action), dict(cost))
        for name, amount in cost.items():
            seen[name] = max(seen[name], amount)


class BoundMasks:
    """Masks from what actions can cost at most.

    Parameters
    ----------
    account : Account
    n_actions : int
    first_action : int
        The number of the first action.
    cost_bound : CostSupport, function of (observation, action), or numbers
        Numbers: one for all actions, by resource, or an array of shape (A,), (A, D), (S, A) with one resource or
        (S, A, D). Infinity or None forbids an action.
    reserve : function of (observation, action), or numbers, optional
        What must be left after the action.
    """

    def __init__(
        self, account: Account, n_actions: int, first_action: int, cost_bound: BoundLike, reserve: BoundLike = None
    ) -> None:
        self._account, self._n, self._first = account, n_actions, first_action
        self._support = cost_bound if isinstance(cost_bound, CostSupport) else None
        shape = account.resources, n_actions, first_action
        self._bound: Callable[[Any, int], Bound] = self._from_support
        if self._support is None:
            self._bound = CostBounds(cost_bound, *shape)
        nothing = np.zeros((n_actions, len(account.resources)), int)
        self._reserve = CostBounds(nothing if reserve is None else reserve, *shape, where="reserve")
        self._observation: Any = None
        self._offered: list[Bound] = [None] * n_actions  # by which the last mask was made

    @property
    def learns(self) -> bool:
        """Whether bounds are learned, so that they may be wrong."""
        return self._support is not None

    @property
    def over(self) -> bool:
        """Whether the episode is over for reasons of its own: never."""
        return False

    def begin(self, observation: Any) -> None:
        """Begin an episode."""
        self._observation = observation

    def mask(self) -> NDArray[np.bool_]:
        """Return which actions are allowed."""
        return np.array([self._fits(position) for position in range(self._n)], bool)

    def _fits(self, position: int) -> bool:
        bound, account = self._bound(self._observation, position), self._account
        self._offered[position] = bound
        if bound is None:
            return False
        kept = self._reserve(self._observation, position)
        if kept is None:
            return False
        for d, amount in enumerate(account.amounts):
            limit = account.upper(d, account.step)
            if limit is not None and amount + bound[d] + max(kept[d], Fraction(0)) > limit:
                return False
        return True

    def took(self, position: int, next_observation: Any, spent: Spent, terminated: bool) -> list[Fraction]:
        """Take in what came of an action and return its exact costs; a `PolicyError` if they are above the bound."""
        account, where = self._account, f"step {self._account.step}, action {position + self._first}"
        pairs = zip(spent.reported, account.resources, strict=True)
        exactly = [exact(cost, f"{where}, cost of {name}") for cost, name in pairs]
        if self._support is not None:
            named = dict(zip(account.resources, spent.high or exactly, strict=True))
            self._support.observe(account.step, self._observation, position + self._first, named, next_observation)
        else:
            bound = self._offered[position]  # not as a function would say it now, with the step behind it
            assert bound is not None  # or it would have been masked
            # of several steps the most on the way counts: that is what must fit
            for cost, most, name in zip(spent.high or exactly, bound, account.resources, strict=True):
                if cost > most:
                    raise PolicyError(
                        f"{where}, cost of {name}",
                        f"at most {short_amount(most)}, as cost_bound says",
                        short_amount(cost),
                        "the bound must hold for every outcome, or nothing is promised",
                    )
        self._observation = next_observation
        return exactly

    def _from_support(self, observation: Any, position: int) -> Bound:
        assert self._support is not None
        action = position + self._first
        given = self._support.bound(self._account.step, observation, action)
        return self._reserve.read(given, f"bound of action {action}")
