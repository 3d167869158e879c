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

An action fits if clamp(spent + bound) + max(reserve, 0) <= limit, as for masks, where clamp moves an amount to the
floor f or the ceiling c of a resource that saturates. Since clamp(x) = min(max(x, f), c), clamp(x) <= y if and only if
c <= y, or x <= y and f <= y; so `FloatNeeds` compares the reserve with limit - c, bound + reserve with limit - spent,
and the reserve with limit - f.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact
from solvent.errors import ModelError, quote
from solvent.gym.norms import NormCost, flat_rows
from solvent.gym.tracker import BudgetTracker
from solvent.model.build import read_costs
from solvent.model.cost_bounds import Bound, CostBounds
from solvent.model.resources import Resource

#: Twice the unit roundoff, and a bound on the error of a result below the normal range: of float32, and of float16.
_ROUNDOFF, _SMALLEST = 2.0**-23, 2.0**-126
_HALF_ROUNDOFF, _HALF_SMALLEST = 2.0**-10, 2.0**-24
#: The smallest positive number of float32, and the greatest factor of a square root in a function that is allowed for.
_LEAST, _FACTOR = 2.0**-149, 1024.0
_GREATEST = sys.float_info.max


class Needs(Protocol):
    """Decides which actions fit what remains."""

    def fits(self, observation: Any, actions: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether each action, one per row, keeps all limits."""

    def most(self, observation: Any, action: NDArray[Any]) -> list[Fraction]:
        """Return the greatest cost of an action that fits, by resource in order."""

    def charge(self, cost: Any, where: str) -> Fraction:
        """Return a reported cost as the exact amount to be charged."""


def limits_of(tracker: BudgetTracker, margin: Fraction) -> list[Fraction]:
    """Return the most that may have been spent of each resource after the coming step.

    That is its limit less a share, or what has been spent if that is more: a step that costs nothing always fits.
    """
    found = []
    for d, spent in enumerate(tracker.amounts):
        limit = tracker.upper(d, tracker.step)
        assert limit is not None  # budgets without a model have one upper limit per resource
        found.append(max(limit - abs(limit) * margin, min(spent, limit)))
    return found


class _Left(NamedTuple):
    """What is left of each resource before a step, rounded down; arrays of shape (D,).

    Attributes
    ----------
    now, at_floor, at_ceiling : ndarray of float64
        The limit minus what was spent, minus the floor (infinity without one), and minus the ceiling (-infinity).
    most : ndarray of float64
        The most that the step may cost without a reserve.
    """

    now: NDArray[np.float64]
    at_floor: NDArray[np.float64]
    at_ceiling: NDArray[np.float64]
    most: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        limits: Sequence[Fraction],
        amounts: Sequence[Fraction],
        accounts: Sequence[Resource],
        caps: NDArray[np.float64],
    ) -> _Left:
        """Return what is left, given limits and caps on the cost of the step."""
        rows = []
        for limit, spent, account, cap in zip(limits, amounts, accounts, caps.tolist(), strict=True):
            now = round_down(limit - spent)
            at_floor = math.inf if account.floor is None else round_down(limit - account.floor)
            at_ceiling = -math.inf if account.ceiling is None else round_down(limit - account.ceiling)
            free = math.inf if at_ceiling >= 0 else -math.inf if at_floor < 0 else now
            rows.append((now, at_floor, at_ceiling, min(free, cap)))
        return cls(*np.array(rows).T)


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
        self._state: tuple[int, ...] = ()  # of the tracker, when what is left was computed
        self._known: _Left

    @property
    def norm(self) -> NormCost | None:
        """The bound if it is a `NormCost` of the only resource and there is no reserve; None otherwise."""
        bound = self._bound
        if isinstance(bound, Mapping) and len(bound) == 1:
            (bound,) = bound.values()
        single = len(self._tracker.resources) == 1 and self._reserve is None
        return bound if isinstance(bound, NormCost) and single else None

    def greatest(self) -> float:
        """Return the greatest value of the bound, before it is raised, that fits, up to rounding.

        For one resource without a reserve; not above 0 if only actions that cost nothing fit.
        """
        return (float(self._left().most[0]) - self._tiny) / (1 + self._slack)

    def _left(self) -> _Left:
        tracker = self._tracker
        state = tracker.version, tracker.step, *tracker.ticks
        if state != self._state:
            self._state, limits = state, limits_of(tracker, self._margin)
            self._known = _Left.of(limits, tracker.amounts, tracker.accounts, self._caps)
        return self._known

    def fits(self, observation: Any, actions: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether each action, one per row, keeps all limits."""
        bound = self._upper(observation, actions)
        left = self._left()
        fitting = np.isfinite(bound) & (bound <= left.most)
        if self._reserve is not None:
            kept = np.maximum(self._evaluate(self._reserve, observation, actions, "reserve"), 0.0)
            together = np.where(kept > 0, np.nextafter(bound + kept, np.inf), bound)
            # clamp(spent + bound) + kept <= limit
            fitting &= (kept <= left.at_ceiling) | ((together <= left.now) & (kept <= left.at_floor))
        return np.asarray(fitting.all(axis=1))

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
                by_name = zip(names, read_costs(answer, names, where), strict=True)
                columns = [self._rows(each, actions, f"{where}, {quote(name)}") for name, each in by_name]
                found = np.stack(columns, axis=1)
            else:
                found = _floats(answer, where)
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
            return self._rows(given(observation, self._argument(given, actions)), actions, where)
        if callable(given):
            found = [round_up(given(observation, action), where) for action in self._argument(given, actions)]
            return np.array(found)
        return np.full(len(actions), round_up(given, where))

    @staticmethod
    def _rows(given: Any, actions: NDArray[Any], where: str) -> NDArray[np.float64]:
        """Return the numbers of one resource, one per action, from an array or a number for all."""
        found = _floats(given, where)
        if found.size != len(actions) and found.ndim:
            raise ModelError(where, f"{len(actions)} numbers, one per action", f"shape {found.shape}")
        return np.full(len(actions), found) if not found.ndim else found.reshape(len(actions))

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
        tracker, limits = self._tracker, limits_of(self._tracker, self._margin)
        each = zip(bound, kept, self._caps, tracker.amounts, tracker.accounts, limits, strict=True)
        return all(
            (cap is None or most <= cap) and account.clamp(spent + most) + max(least, Fraction(0)) <= limit
            for most, least, cap, spent, account, limit in each
        )

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


def _floats(given: Any, where: str) -> NDArray[np.float64]:
    """Return numbers that a function of many actions returned; None stands for infinity, as elsewhere."""
    if isinstance(given, np.ndarray) and given.dtype.kind in "fiu":
        return given.astype(np.float64)
    table = np.array(given, object) if isinstance(given, Sequence) else np.asarray(given, object)
    found = np.empty(table.shape)
    for index in np.ndindex(*table.shape):
        found[index] = round_up(table[index], where)
    return found


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
    if abs(amount) > _GREATEST:
        return _GREATEST if amount > 0 else -math.inf
    found = float(amount)
    return found if Fraction(found) <= amount else math.nextafter(found, -math.inf)


def round_up(amount: Any, where: str) -> float:
    """Return the least float that is not below a number; infinity for None or infinity."""
    if amount is None or (isinstance(amount, float | np.floating) and math.isinf(amount) and amount > 0):
        return math.inf
    given = exact(amount, where)
    if abs(given) > _GREATEST:
        return math.inf if given > 0 else -_GREATEST
    found = float(given)
    return found if Fraction(found) >= given else math.nextafter(found, math.inf)
