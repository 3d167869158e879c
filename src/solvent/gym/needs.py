"""What actions may cost at most, compared with what may still be spent; without a rounding error on the wrong side.

Actions of a Box are floats, and environments compute with them in float32. Let u = 2**-24, the unit roundoff of
float32, and n the number of components. A sum of n nonnegative terms with at most one rounding in each, multiplied by a
rounded weight, is at most (1 + u)**(n + 2) times its true value; reading the result as a decimal adds one more factor,
and results below the normal range add at most 2**-149 each. Since (1 + u)**k <= 1 + 2 k u for k u <= 1, the bound

    up(b) = b + |b| * slack + tiny,    slack = (n + 8) * 2**-23,    tiny = (n + 8) * max(1, weight) * 2**-126,

computed in float64, is not below what the environment reports. If b is 0, all terms are 0 and up(b) = 0. If the Box is
of float16, an environment may compute in that: u is 2**-11 then, and results below the normal range add at most 2**-24.

A square root magnifies what squares below the normal range add: sqrt(s + e) <= sqrt(s) + sqrt(e), where e is at most
n + 8 times 2**-149 (2**-24 in float16). So `tiny` has one more term for the Euclidean norm itself, and for functions,
which may compute one.

Actions of MultiDiscrete and MultiBinary spaces are whole numbers, and their bounds are compared as exact numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact
from solvent.errors import ModelError, quote
from solvent.gym.norms import NormCost, flat_rows
from solvent.gym.tracker import BudgetTracker
from solvent.model.build import read_costs
from solvent.model.cost_bounds import Bound, CostBounds

#: Twice the unit roundoff, and a bound on the error of a result below the normal range: of float32, and of float16.
_ROUNDOFF, _SMALLEST = 2.0**-23, 2.0**-126
_HALF_ROUNDOFF, _HALF_SMALLEST = 2.0**-10, 2.0**-24
#: The smallest positive number of float32, and the greatest factor of a square root in a function that is allowed for.
_LEAST, _FACTOR = 2.0**-149, 1024.0


class Needs(Protocol):
    """Decides which actions fit what remains."""

    def fits(self, observation: Any, actions: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether each action, one per row, keeps all limits."""

    def most(self, observation: Any, action: NDArray[Any]) -> list[Fraction]:
        """Return the greatest cost of an action that fits, by resource in order."""

    def charge(self, cost: Any, where: str) -> Fraction:
        """Return a reported cost as the exact amount to be charged."""


def room_of(tracker: BudgetTracker, margin: Fraction) -> list[Fraction | None]:
    """Return how much each resource may cost in the coming step, less a share of its limit; None for any amount."""
    found: list[Fraction | None] = []
    for d, (spent, account) in enumerate(zip(tracker.amounts, tracker.accounts, strict=True)):
        limit = tracker.upper(d, tracker.step)
        assert limit is not None  # budgets without a model have one upper limit per resource
        limit -= abs(limit) * margin
        if account.ceiling is not None and account.ceiling <= limit:
            found.append(None)
        elif account.floor is not None and account.floor > limit:
            found.append(Fraction(-1) - abs(limit) - abs(spent))  # never
        else:
            found.append(limit - spent)
    return found


class FloatNeeds:
    """Decides for actions of a Box, in float64 with outward rounding.

    Parameters
    ----------
    tracker : BudgetTracker
    cost_bound : function of (observation, action), number, or dict of them by resource
    reserve : function of (observation, action), number, or dict of them by resource, optional
    step_cap : list of Fraction or None
        Greatest cost of a single step, by resource in order; None for no cap.
    size : int
        Number of components of an action.
    slack : float or None
        Relative rounding error to allow for. Default: that of sums in float32, or in float16.
    margin : Fraction
        Share of each limit that is not spent.
    vectorized : bool
        Whether functions take an array of actions, one per row.
    half : bool
        Whether actions are of float16.
    """

    def __init__(
        self,
        tracker: BudgetTracker,
        cost_bound: Any,
        reserve: Any,
        step_cap: Sequence[Fraction | None],
        size: int,
        slack: float | None,
        margin: Fraction,
        vectorized: bool,
        half: bool = False,
    ) -> None:
        self._tracker, self._margin, self._vectorized = tracker, margin, vectorized
        self._bound, self._reserve = cost_bound, reserve
        self._caps = np.array([np.inf if cap is None else round_down(cap) for cap in step_cap])
        roundoff, smallest = (_HALF_ROUNDOFF, _HALF_SMALLEST) if half else (_ROUNDOFF, _SMALLEST)
        self._slack = (size + 8) * roundoff if slack is None else slack
        norms = cost_bound.values() if isinstance(cost_bound, Mapping) else [cost_bound]
        weight = max([1.0, *(each.weight for each in norms if isinstance(each, NormCost))])
        self._tiny = 0.0 if slack == 0 else (size + 8) * weight * smallest
        if slack != 0 and any(_may_take_a_root(each) for each in norms):
            factor, least = (weight, _HALF_SMALLEST) if half else (max(weight, _FACTOR), _LEAST)
            self._tiny += factor * math.sqrt((size + 8) * least)

    @property
    def norm(self) -> NormCost | None:
        """The bound if it is a `NormCost` of the only resource and there is no reserve; None otherwise."""
        bound = self._bound
        if isinstance(bound, Mapping) and len(bound) == 1:
            (bound,) = bound.values()
        single = len(self._tracker.resources) == 1 and self._reserve is None
        return bound if isinstance(bound, NormCost) and single else None

    @property
    def relative(self) -> float:
        """The relative rounding error that is allowed for."""
        return self._slack

    def room(self) -> NDArray[np.float64]:
        """Return the greatest cost of the coming step that fits, shape (D,), rounded down."""
        return np.asarray(np.minimum(self._left(), self._caps))

    def _left(self) -> NDArray[np.float64]:
        return np.array([np.inf if x is None else round_down(x) for x in room_of(self._tracker, self._margin)])

    def fits(self, observation: Any, actions: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether each action, one per row, keeps all limits."""
        bound = self._upper(observation, actions)
        fitting = (bound <= self._caps).all(axis=1)
        if self._reserve is not None:
            kept = self._evaluate(self._reserve, observation, actions, "reserve")
            bound = np.nextafter(bound + np.maximum(kept, 0.0), np.inf)
        return np.asarray(fitting & (bound <= self._left()).all(axis=1))

    def most(self, observation: Any, action: NDArray[Any]) -> list[Fraction]:
        """Return the greatest cost of an action that fits, by resource in order."""
        return [Fraction(float(x)) for x in self._upper(observation, action[None])[0]]

    def charge(self, cost: Any, where: str) -> Fraction:
        """Return a reported cost as the greater of its two readings, as a decimal and as a binary number."""
        found = exact(cost, where)
        return max(found, Fraction(float(cost))) if isinstance(cost, float | np.floating) else found

    def _upper(self, observation: Any, actions: NDArray[Any]) -> NDArray[np.float64]:
        bound = self._evaluate(self._bound, observation, actions, "cost_bound")
        raised = bound + np.abs(bound) * self._slack + self._tiny
        return np.asarray(np.where(bound == 0, 0.0, raised))

    def _evaluate(self, given: Any, observation: Any, actions: NDArray[Any], where: str) -> NDArray[np.float64]:
        """Return numbers for each action and resource, shape (K, D)."""
        names = self._tracker.resources
        if isinstance(given, Mapping):
            columns = [self._column(given[name], observation, actions, f"{where}, {quote(name)}") for name in names]
            found = np.stack(columns, axis=1)
        elif callable(given) and (self._vectorized or getattr(given, "vectorized", False)):
            answer = given(observation, self._argument(given, actions))
            if isinstance(answer, Mapping):
                answer = np.stack([np.asarray(answer[name], np.float64) for name in names], axis=1)
            found = np.asarray(answer, np.float64)
            found = found[:, None] if found.ndim == 1 else found
            if found.shape != (len(actions), len(names)):
                expected = f"numbers of shape ({len(actions)}, {len(names)}), one row per action"
                raise ModelError(where, expected, f"shape {found.shape}")
        elif callable(given):
            rows = [self._numbers(given(observation, action), where) for action in self._argument(given, actions)]
            found = np.array(rows)
        else:
            found = np.array([self._numbers(given, where)] * len(actions))
        if np.isnan(found).any():
            raise ModelError(where, "numbers", "NaN")
        return found

    def _column(self, given: Any, observation: Any, actions: NDArray[Any], where: str) -> NDArray[np.float64]:
        if callable(given) and (self._vectorized or getattr(given, "vectorized", False)):
            return np.asarray(given(observation, self._argument(given, actions)), np.float64).reshape(len(actions))
        if callable(given):
            found = [round_up(given(observation, action), where) for action in self._argument(given, actions)]
            return np.array(found)
        return np.full(len(actions), round_up(given, where))

    @staticmethod
    def _argument(given: Any, actions: NDArray[Any]) -> NDArray[Any]:
        wide = actions.astype(np.float64)  # exact: bounds are computed in float64
        return flat_rows(wide) if isinstance(given, NormCost) else wide

    def _numbers(self, given: Any, where: str) -> list[float]:
        if given is None:
            return [math.inf] * len(self._tracker.resources)
        return [round_up(each, where) for each in read_costs(given, self._tracker.resources, where)]


class ExactNeeds:
    """Decides for actions of whole numbers, in exact numbers.

    Parameters
    ----------
    tracker : BudgetTracker
    cost_bound : function of (observation, action), number, or dict of numbers by resource
    reserve : function of (observation, action), number, or dict of numbers by resource, optional
    step_cap : list of Fraction or None
        Greatest cost of a single step, by resource in order; None for no cap.
    margin : Fraction
        Share of each limit that is not spent.
    """

    def __init__(
        self,
        tracker: BudgetTracker,
        cost_bound: Any,
        reserve: Any,
        step_cap: Sequence[Fraction | None],
        margin: Fraction,
    ) -> None:
        self._tracker, self._margin, self._caps = tracker, margin, step_cap
        self._bound, self._reserve = cost_bound, reserve
        self._reading = CostBounds([[0] * len(tracker.resources)], tracker.resources, 1)

    def fits(self, observation: Any, actions: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether each action, one per row, keeps all limits."""
        return np.array([self._fits(observation, action) for action in actions], bool)

    def _fits(self, observation: Any, action: NDArray[Any]) -> bool:
        bound = self._read(self._bound, observation, action, "cost_bound")
        kept = self._read(0 if self._reserve is None else self._reserve, observation, action, "reserve")
        if bound is None or kept is None:
            return False
        each = zip(bound, kept, self._caps, room_of(self._tracker, self._margin), strict=True)
        for most, least, cap, room in each:
            if (cap is not None and most > cap) or (room is not None and most + max(least, Fraction(0)) > room):
                return False
        return True

    def _read(self, given: Any, observation: Any, action: NDArray[Any], where: str) -> Bound:
        if isinstance(given, Mapping):
            found = {name: each(observation, action) if callable(each) else each for name, each in given.items()}
        else:
            found = given(observation, action) if callable(given) else given
        return self._reading.read(found, where)

    def most(self, observation: Any, action: NDArray[Any]) -> list[Fraction]:
        """Return the greatest cost of an action that fits, by resource in order."""
        bound = self._read(self._bound, observation, action, "cost_bound")
        assert bound is not None
        return list(bound)

    def charge(self, cost: Any, where: str) -> Fraction:
        """Return a reported cost as an exact number."""
        return exact(cost, where)


def _may_take_a_root(bound: Any) -> bool:
    """Whether a bound is the square root of a sum, as the Euclidean norm is, or a function, which may be one."""
    return bound.order == 2 and bound.power == 1 if isinstance(bound, NormCost) else callable(bound)


def round_down(amount: Fraction) -> float:
    """Return the greatest float that is not above an amount.

    Examples
    --------
    >>> Fraction(round_down(Fraction(1, 3))) <= Fraction(1, 3) < Fraction(round_up(Fraction(1, 3), "x"))
    True
    """
    found = float(amount)
    return found if Fraction(found) <= amount else math.nextafter(found, -math.inf)


def round_up(amount: Any, where: str) -> float:
    """Return the least float that is not below a number; infinity for None or infinity."""
    if amount is None or (isinstance(amount, float | np.floating) and math.isinf(amount) and amount > 0):
        return math.inf
    given = exact(amount, where)
    found = float(given)
    return found if Fraction(found) >= given else math.nextafter(found, math.inf)
