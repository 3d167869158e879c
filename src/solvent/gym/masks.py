"""Masks from upper bounds on the cost of actions, stated or learned.

With `spent` so far, an action a at observation o is allowed if, for every resource,

    clamp(spent + bound(o, a)) + max(reserve(o, a), 0) <= limit,

in exact numbers, where clamp moves an amount to the floor or the ceiling at which the resource saturates. If the bound
holds, the next step keeps the limit. Later steps can be continued safely only if the reserve covers them; without a
reserve, an episode may reach a dead end, where no action is allowed.
"""

from __future__ import annotations

import bisect
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import Number
from solvent.errors import PolicyError
from solvent.gym.tracker import REMEMBERED, BudgetTracker
from solvent.model.amounts import amount_above, short_amount
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
        self._bounds = None if self._support is not None else CostBounds(cost_bound, *shape)
        nothing = np.zeros((n_actions, len(tracker.resources)), int)
        self._reserve = CostBounds(nothing if reserve is None else reserve, *shape, where="reserve")
        self._keeps = reserve is not None
        self._observation: Any = None
        #: the bounds behind the last mask, in ticks of the scale at that time
        self._last_bound: list[list[int] | None] = [None] * n_actions
        self._last_scale = list(tracker.scale)
        self._by_need = self._needs_by_action()

    def _needs_by_action(self) -> _ByNeed | None:
        """Return masks by the amount that remains, if bounds depend on nothing but the action; None otherwise."""
        bounds = None if self._bounds is None else self._bounds.by_action
        reserves = self._reserve.by_action
        if bounds is None or reserves is None or len(self._tracker.resources) != 1 or self._tracker.saturates:
            return None
        return _ByNeed(self._tracker, bounds, reserves)

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
        """Return which actions are allowed, as an array that must not be changed."""
        if self._by_need is not None:
            mask, self._last_bound = self._by_need.find()
            self._last_scale = self._by_need.scale
            return mask
        # numbers that need finer ticks change the scale, so all of them are read before any is compared
        needs = [self._read(position) for position in range(self._n)]
        while (scale := list(self._tracker.scale)) != self._last_scale:
            self._last_scale = scale
            needs = [self._read(position) for position in range(self._n)]
        self._last_bound = [None if need is None else need[0] for need in needs]
        return np.array([need is not None and self._fits(*need) for need in needs], bool)

    def _read(self, position: int) -> tuple[list[int], list[int]] | None:
        """Return the bound and the reserve of an action in ticks; None if it is forbidden."""
        bound = self._bound(position)
        if bound is None:
            return None
        if not self._keeps:
            return bound, [0] * len(bound)
        kept = self._reserve(self._observation, position)
        return None if kept is None else (bound, [max(x, 0) for x in self._tracker.to_ticks(kept)])

    def _bound(self, position: int) -> list[int] | None:
        tracker, action = self._tracker, position + self._first
        if self._support is not None:
            given = self._support.bound(tracker.step, self._observation, action)
            read = self._reserve.read(given, f"bound of action {action}")
            return None if read is None else tracker.to_ticks(read)
        assert self._bounds is not None
        if self._bounds.function is not None and len(tracker.resources) == 1:
            given = self._bounds.function(self._observation, action)
            known = tracker.recall(0, given)
            if known is not None:
                return [known]
            read = self._bounds.read(given, f"cost_bound of action {action}")
            if read is not None and type(given) in REMEMBERED:
                return [tracker.read(0, given, "cost_bound")]
        else:
            read = self._bounds(self._observation, position)
        return None if read is None else tracker.to_ticks(read)

    def _fits(self, bound: list[int], kept: list[int]) -> bool:
        tracker = self._tracker
        after = tracker.ticks_after(bound)
        each = zip(after, tracker.ticks, kept, tracker.room(), strict=True)
        return all(room is None or most - spent + least <= room for most, spent, least, room in each)

    def took(self, position: int, next_observation: Any, spent: Spent, terminated: bool) -> list[int]:
        """Record the outcome of an action and return its costs in ticks; raise `PolicyError` if above the bound."""
        tracker = self._tracker
        if self._support is None and len(spent.reported) == 1 and spent.high is None:  # the usual case
            known, bound = tracker.recall(0, spent.reported[0]), self._last_bound[position]
            if known is not None and bound is not None and known <= bound[0] and tracker.scale == self._last_scale:
                self._observation = next_observation
                return [known]
        costs = [
            known if (known := tracker.recall(d, cost)) is not None else tracker.read(d, cost, self._where(position))
            for d, cost in enumerate(spent.reported)
        ]
        if self._support is not None:
            exactly = [Fraction(cost, scale) for cost, scale in zip(costs, tracker.scale, strict=True)]
            named = dict(zip(tracker.resources, spent.high or exactly, strict=True))
            self._support.observe(tracker.step, self._observation, position + self._first, named, next_observation)
        else:
            self._check(position, costs, spent)
        self._observation = next_observation
        return costs

    def _check(self, position: int, costs: list[int], spent: Spent) -> None:
        """Raise a `PolicyError` if a cost, or the greatest cumulative cost within the step, exceeds its bound."""
        bound = self._last_bound[position]  # a function may return another bound after the step
        assert bound is not None  # otherwise the action would have been masked
        scales = self._tracker.scale
        if spent.high is None and scales == self._last_scale and all(map(operator.le, costs, bound)):
            return
        for d, (cost, ticks) in enumerate(zip(costs, bound, strict=True)):
            highest = Fraction(cost, scales[d]) if spent.high is None else spent.high[d]
            most = Fraction(ticks, self._last_scale[d])
            if highest > most:
                raise PolicyError(
                    f"{self._where(position)}, cost of {self._tracker.resources[d]}",
                    f"at most {short_amount(most)}, as cost_bound says",
                    amount_above(highest, most),
                    "cost_bound must hold for every outcome",
                )

    def _where(self, position: int) -> str:
        return f"step {self._tracker.step}, action {position + self._first}"


class _ByNeed:
    """Masks for one resource if bounds and reserves depend on the action only.

    An action is allowed if and only if what remains is at least its bound plus its reserve, so there are at most A + 1
    masks. The number of needs that fit is found by bisection, and the masks that occurred are remembered.
    """

    #: Number of entries of the masks that are remembered.
    _most_remembered = 2**22

    def __init__(self, tracker: BudgetTracker, bounds: list[Bound], reserves: list[Bound]) -> None:
        self._tracker, self._given = tracker, list(zip(bounds, reserves, strict=True))
        self._version = -1
        self._read()

    def _read(self) -> None:
        tracker, nothing = self._tracker, Fraction(0)
        for pair in self._given:  # the first conversion may change the scale
            for amount in pair:
                if amount is not None:
                    tracker.to_ticks(amount)
        bounds = [None if bound is None or kept is None else tracker.to_ticks(bound) for bound, kept in self._given]
        needs = [
            None if bound is None or kept is None else tracker.to_ticks([bound[0] + max(kept[0], nothing)])[0]
            for bound, kept in self._given
        ]
        self._bounds, self.scale, self._version = bounds, list(tracker.scale), tracker.version
        self._levels = sorted({need for need in needs if need is not None})
        rank = {need: position for position, need in enumerate(self._levels)}
        self._ranks = np.array([len(rank) if need is None else rank[need] for need in needs])
        self._masks: dict[int, NDArray[np.bool_]] = {}

    def find(self) -> tuple[NDArray[np.bool_], list[list[int] | None]]:
        """Return the mask for what remains, and the bounds of all actions in ticks."""
        if self._version != self._tracker.version:
            self._read()
        (room,) = self._tracker.room()
        fitting = len(self._levels) if room is None else bisect.bisect_right(self._levels, room)
        mask = self._masks.get(fitting)
        if mask is None:
            mask = self._ranks < fitting
            mask.flags.writeable = False
            if (len(self._masks) + 1) * len(mask) > self._most_remembered:
                self._masks.clear()
            self._masks[fitting] = mask
        return mask, self._bounds
