"""Exact amounts spent and remaining during one episode.

Amounts are whole numbers of ticks, with one `scale` (ticks per unit) for each resource, so three costs of 0.1 add up to
exactly 0.3 and errors do not accumulate in long episodes. A number that is not a whole number of ticks makes the scale
finer: the scale becomes the least common multiple of the denominators seen. Python's integers do not overflow. If the
ticks have become very fine, the next episode begins with those of the limits again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from solvent.core.exact import exact
from solvent.errors import BudgetError, ModelError, did_you_mean, quote
from solvent.model.amounts import short_amount
from solvent.model.budget import Budget, Limits, is_constant
from solvent.model.resources import Resource, as_resources
from solvent.policy.remaining import next_limits

#: Name of the resource that a plain number limits if there is no model.
ONLY_RESOURCE = "cost"

#: What to do about limits that need a model: where it can be passed, and elsewhere.
PASS_MODEL, ONLY_WITH_MODEL = "pass model=...", "use BudgetWrapper with model=..."

_Side = tuple[Fraction | None, ...]
_TickSide = list[int | None]
#: Types whose ticks may be remembered, and how many are remembered. Equal values of these types are equal numbers below
#: 2**53; a Fraction may equal a float that stands for another number, such as 0.1 for one tenth.
REMEMBERED = frozenset([int, float, np.float64])
_LARGE = 2**53
#: Greatest limit: amounts are told as floats.
_LARGEST = 10**300
_MOST_REMEMBERED = 4096
#: Ticks finer than this are forgotten when an episode begins.
_FINEST_KEPT = 2**256


class BudgetTracker:
    """Tracks what was spent of each limited resource since the episode began.

    Parameters
    ----------
    limits : Limits
        Limits after each step; the last limit of a resource also holds for all later steps. Episodes begin with the
        initial amounts.
    accounts : mapping of str to Resource, optional
        Resources that may saturate, by name; others do not.

    Attributes
    ----------
    scale : list of int
        Ticks per unit of each resource. It grows when a number needs finer ticks, and then `version` changes.
    ticks : list of int
        What was spent of each resource.

    Examples
    --------
    >>> tracker = BudgetTracker(read_limits(0.3))
    >>> for _ in range(3):
    ...     tracker.spend(tracker.to_ticks([Fraction("0.1")]))
    >>> tracker.spent, tracker.remaining, tracker.broken
    ({'cost': Fraction(3, 10)}, {'cost': Fraction(0, 1)}, False)
    """

    def __init__(self, limits: Limits, accounts: Mapping[str, Resource] | None = None) -> None:
        self.limits, self.resources = limits, limits.resources
        self._upper, self._lower = (
            [side[:1] if is_constant(side) else side for side in sides] for sides in (limits.upper, limits.lower)
        )
        known = accounts or {}
        self.accounts = tuple(known.get(name) or Resource(name) for name in limits.resources)
        self.saturates = any(account.saturates for account in self.accounts)
        self.initial = limits.initial
        self._next_upper = [next_limits(side) for side in self._upper]
        self._next_lower = [next_limits(side) for side in self._lower]
        self.version = 0
        self.scale = [1] * len(self.resources)
        self.ticks = [0] * len(self.resources)
        self._remembered: list[dict[Any, int]] = [{} for _ in self.resources]
        for d, account in enumerate(self.accounts):
            stated = (*self._upper[d], *self._lower[d], account.floor, account.ceiling, self.initial[d])
            if any(x is not None and abs(x) > _LARGEST for x in stated):
                raise BudgetError(f"budget, {account.name}", "amounts of at most 1e300", "a greater one")
            self.scale[d] = math.lcm(*(x.denominator for x in stated if x is not None))
        self._first_scale = list(self.scale)
        self._convert()
        self.reset()

    def _refine(self, d: int, denominator: int) -> None:
        """Make the ticks of a resource fine enough for numbers with a denominator."""
        scale = math.lcm(self.scale[d], denominator)
        self.ticks[d] *= scale // self.scale[d]
        self.scale[d], self._remembered[d] = scale, {}
        self.version += 1
        self._convert()

    def _convert(self) -> None:
        """Compute limits, floors and ceilings in ticks."""

        def sides(all_sides: Sequence[_Side]) -> list[_TickSide]:
            return [[_in_ticks(x, scale) for x in side] for side, scale in zip(all_sides, self.scale, strict=True)]

        self._upper_ticks, self._lower_ticks = sides(self._upper), sides(self._lower)
        self._next_upper_ticks, self._next_lower_ticks = sides(self._next_upper), sides(self._next_lower)
        # the usual case, one resource with one upper limit: that limit
        simple = len(self.scale) == 1 and len(self._upper[0]) == 1 and self._lower[0] == (None,) and not self.saturates
        self._limit = self._upper_ticks[0][0] if simple else None
        self._ends = [
            (_in_ticks(account.floor, scale), _in_ticks(account.ceiling, scale))
            for account, scale in zip(self.accounts, self.scale, strict=True)
        ]

    def reset(self) -> None:
        """Start a new episode, with the initial amounts."""
        self.step = 0
        if max(self.scale, default=1) > _FINEST_KEPT and self.scale != self._first_scale:
            self.scale, self._remembered = list(self._first_scale), [{} for _ in self.scale]
            self.version += 1
            self._convert()
        self.ticks = [x.numerator * (s // x.denominator) for x, s in zip(self.initial, self.scale, strict=True)]
        self._broken_within = False

    def to_ticks(self, costs: Sequence[Fraction]) -> list[int]:
        """Return exact costs, one per resource, in ticks; makes ticks finer where necessary."""
        for d, cost in enumerate(costs):
            if self.scale[d] % cost.denominator:
                self._refine(d, cost.denominator)
        return [cost.numerator * (scale // cost.denominator) for cost, scale in zip(costs, self.scale, strict=True)]

    def recall(self, d: int, cost: Any) -> int | None:
        """Return a number that was read before, of a resource by index, in ticks; None if it was not."""
        return self._remembered[d].get(cost) if type(cost) in REMEMBERED else None

    def read(self, d: int, cost: Any, where: str) -> int:
        """Return one cost as reported, of a resource by index, in ticks; makes ticks finer where necessary."""
        known = self._remembered[d]
        plain = type(cost) in REMEMBERED and -_LARGE < cost < _LARGE
        if plain and cost in known:
            return known[cost]
        amount = exact(cost, f"{where}, cost of {self.resources[d]}")
        if self.scale[d] % amount.denominator:
            self._refine(d, amount.denominator)
            known = self._remembered[d]
        ticks = amount.numerator * (self.scale[d] // amount.denominator)
        if plain:
            if len(known) >= _MOST_REMEMBERED:
                known.clear()
            known[cost] = ticks
        return ticks

    def to_floats(self, ticks: Sequence[int]) -> list[float]:
        """Return amounts in ticks as the nearest floats."""
        if len(ticks) == 1:
            return [ticks[0] / self.scale[0]]
        return [amount / scale for amount, scale in zip(ticks, self.scale, strict=True)]

    def spend(self, costs: Sequence[int], high: Sequence[Fraction] = (), low: Sequence[Fraction] = ()) -> None:
        """Add the cost of a step.

        Parameters
        ----------
        costs : sequence of int
            Ticks of each limited resource.
        high, low : sequence of Fraction, optional
            The greatest and the least cumulative cost within the step, if it was several steps of the environment.
            They are compared with the looser of the limits before and after the step.

        Raises
        ------
        ModelError
            If a resource saturates and the step was several steps of the environment: the amount then depends on each
            of their costs.
        """
        if high and self.saturates:
            account = next(account for account in self.accounts if account.saturates)
            raise self._several_at_once(f"step {self.step}", account)
        if self._limit is not None and not high:  # the usual case, without further calls
            self.ticks = [self.ticks[0] + costs[0]]
            self._broken_within = False
            self.step += 1
            return
        self._broken_within = bool(high) and any(
            self._breaks_within(d, amount + most, amount + least)
            for d, (amount, most, least) in enumerate(zip(self.amounts, high, low, strict=True))
        )
        self.ticks = self.ticks_after(costs)
        self.step += 1

    def ticks_after(self, costs: Sequence[int]) -> list[int]:
        """Return what would be spent after a step of these costs, all in ticks."""
        if self._limit is not None:
            return [self.ticks[0] + costs[0]]
        spent = [amount + cost for amount, cost in zip(self.ticks, costs, strict=True)]
        if self.saturates:
            for d, (floor, ceiling) in enumerate(self._ends):
                spent[d] = spent[d] if floor is None else max(spent[d], floor)
                spent[d] = spent[d] if ceiling is None else min(spent[d], ceiling)
        return spent

    def after(self, costs: Sequence[Fraction]) -> list[Fraction]:
        """Return what would be spent after a step of these costs."""
        return self._exactly(self.ticks_after(self.to_ticks(costs)))

    def _exactly(self, ticks: Sequence[int]) -> list[Fraction]:
        return [Fraction(amount, scale) for amount, scale in zip(ticks, self.scale, strict=True)]

    def _breaks_within(self, d: int, most: Fraction, least: Fraction) -> bool:
        steps = {max(self.step - 1, 0), self.step}
        uppers, lowers = ([_at(side[d], step) for step in steps] for side in (self._upper, self._lower))
        over = all(limit is not None and most > limit for limit in uppers)
        return over or all(limit is not None and least < limit for limit in lowers)

    @staticmethod
    def _several_at_once(where: str, account: Resource) -> ModelError:
        hint = "put the BudgetWrapper inside the wrapper that repeats actions"
        expected = f"one step of the environment, as {quote(account.name)} saturates"
        return ModelError(where, expected, "several at once", hint)

    def begin_with(self, costs: Sequence[int], high: Sequence[Fraction] = (), low: Sequence[Fraction] = ()) -> bool:
        """Add what was spent in `reset`, before the first step; return whether that exceeded a limit.

        Parameters
        ----------
        costs : sequence of int
            Ticks of each limited resource.
        high, low : sequence of Fraction, optional
            The greatest and the least cumulative cost, if it was several steps of the environment.

        Raises
        ------
        ModelError
            If a resource saturated after one of several steps: the amount then depends on each of their costs.
        """
        before, reached = self.amounts, []
        for account, amount, *ends in zip(self.accounts, before, high, low, strict=True) if high else ():
            if any(account.clamp(amount + end) != amount + end for end in ends):
                raise self._several_at_once("reset", account)
            reached.append(amount + ends[0])
        self.ticks = self.ticks_after(costs)
        reached = reached or self.amounts
        limits = [self.upper(d, 0) for d in range(len(reached))]
        return any(limit is not None and most > limit for most, limit in zip(reached, limits, strict=True))

    @property
    def amounts(self) -> list[Fraction]:
        """Amount spent so far of each resource, in order."""
        return self._exactly(self.ticks)

    @property
    def spent(self) -> dict[str, Fraction]:
        """Amount spent so far, by resource."""
        return dict(zip(self.resources, self.amounts, strict=True))

    @property
    def remaining(self) -> dict[str, Fraction]:
        """Amount that may still be spent before the next limit is reached, by resource.

        The next upper limit minus what was spent. For a resource with lower limits only: what was spent minus the next
        lower limit.
        """
        return dict(zip(self.resources, self._exactly(self.remaining_ticks()), strict=True))

    def remaining_ticks(self) -> list[int]:
        """Return `remaining` of each resource in ticks; every limited resource has a limit on some side."""
        if self._limit is not None:
            return [self._limit - self.ticks[0]]
        step, result = self.step, []
        for amount, upper, lower in zip(self.ticks, self._next_upper_ticks, self._next_lower_ticks, strict=True):
            most = upper[step] if step < len(upper) else upper[-1]
            if most is not None:
                result.append(most - amount)
            else:
                least = lower[step] if step < len(lower) else lower[-1]
                result.append(amount - (least or 0))
        return result

    def upper(self, d: int, step: int) -> Fraction | None:
        """Return the upper limit of a resource (by index) after a step; None if there is none."""
        return _at(self._upper[d], step)

    def room(self) -> list[int | None]:
        """Return how much more may have been spent after the coming step, in ticks; None without an upper limit."""
        if self._limit is not None:
            return [self._limit - self.ticks[0]]
        limits = [side[min(self.step, len(side) - 1)] for side in self._upper_ticks]
        return [None if x is None else x - amount for x, amount in zip(limits, self.ticks, strict=True)]

    @property
    def broken(self) -> bool:
        """Whether the last step broke a limit, at its end or within it."""
        if self._limit is not None and not self._broken_within:
            return self.step > 0 and self.ticks[0] > self._limit
        return self.step > 0 and (self._broken_within or self._breaks(self.step - 1))

    @property
    def broken_later(self) -> bool:
        """Whether what was spent so far breaks the limit of a later step even if nothing more is spent."""
        return any(
            self._breaks(step) for step in range(self.step, max(map(len, (*self._upper, *self._lower)), default=0))
        )

    def _breaks(self, step: int) -> bool:
        if self._limit is not None:
            return self.ticks[0] > self._limit
        for amount, upper, lower in zip(self.ticks, self._upper_ticks, self._lower_ticks, strict=True):
            most = upper[step] if step < len(upper) else upper[-1]
            least = lower[step] if step < len(lower) else lower[-1]
            if (most is not None and amount > most) or (least is not None and amount < least):
                return True
        return False

    def limit_range(self, d: int) -> tuple[Fraction, Fraction]:
        """Return the least and the greatest of the limits that `remaining` of a resource (by index) refers to."""
        limits = [x for x in self._upper[d] if x is not None] or [x for x in self._lower[d] if x is not None]
        return min(limits), max(limits)

    def counts_down(self, d: int) -> bool:
        """Whether `remaining` of a resource (by index) decreases as more is spent."""
        return any(limit is not None for limit in self._upper[d])


def _in_ticks(amount: Fraction | None, scale: int) -> int | None:
    return None if amount is None else amount.numerator * (scale // amount.denominator)


def _at(side: _Side, step: int) -> Fraction | None:
    return side[min(step, len(side) - 1)]


def read_limits(budget: Any, spent: Any = None, hint: str = PASS_MODEL) -> Limits:
    """Return the limits of a budget without a model: one anytime upper limit per resource.

    Parameters
    ----------
    budget : number, Budget, or mapping of them by resource
    spent : number, or mapping of numbers by resource, optional
        What has been spent before the first step.
    hint : str
        What to do about limits of another kind.

    Raises
    ------
    BudgetError
        If there is no limit, or a limit of another kind, which needs a model.

    Examples
    --------
    >>> read_limits({"fuel": 30, "time": None}).resources
    ('fuel',)
    """
    by_name = dict(budget) if isinstance(budget, Mapping) else {ONLY_RESOURCE: budget}
    found: dict[str, Fraction] = {}
    for name, given in by_name.items():
        where = f"budget, {name}" if isinstance(budget, Mapping) else "budget"
        if given is None:
            continue
        plain = given if isinstance(given, Budget) else Budget(given)
        if plain.lower is not None or plain.only_final or not isinstance(plain.upper, Fraction):
            raise BudgetError(
                where,
                "one anytime upper limit",
                quote(given),
                f"limits per step, lower limits and final limits need a model: {hint}",
            )
        found[str(name)] = plain.upper
    if not found:
        raise BudgetError("budget", "a limit on at least one resource", quote(budget))
    initial = _read_initial(spent, tuple(found))
    return Limits(tuple(found), tuple((limit,) for limit in found.values()), ((None,),) * len(found), initial)


def _read_initial(spent: Any, resources: tuple[str, ...]) -> tuple[Fraction, ...]:
    if spent is None:
        return ()
    given = dict(spent) if isinstance(spent, Mapping) else {resources[0]: spent} if len(resources) == 1 else None
    if given is None:
        raise BudgetError("spent", f"an amount of each of {', '.join(map(quote, resources))} by name", quote(spent))
    for name in given:
        if name not in resources:
            known = ", ".join(map(quote, resources))
            raise BudgetError("spent", f"limited resources ({known})", quote(name), did_you_mean(name, resources))
    return tuple(exact(given.get(name, 0), f"spent, {name}") for name in resources)


def read_accounts(resources: Any, limits: Limits) -> dict[str, Resource]:
    """Return resources that may saturate, by name.

    Raises
    ------
    ModelError
        If they are not resources of the budget, or an initial amount lies beyond a floor or a ceiling.

    Examples
    --------
    >>> read_accounts([Resource("fuel", floor=0)], read_limits({"fuel": 30}))
    {'fuel': Resource('fuel', floor=0)}
    """
    found = {each.name: each for each in as_resources(() if resources is None else resources)}
    for name in found:
        if name not in limits.resources:
            known = ", ".join(map(quote, limits.resources))
            hint = did_you_mean(name, limits.resources)
            raise ModelError("resources", f"limited resources ({known})", quote(name), hint)
    for name, amount in zip(limits.resources, limits.initial, strict=True):
        account = found.get(name, Resource(name))
        if account.clamp(amount) != amount:
            raise BudgetError(f"spent, {name}", f"an amount that {account} can have", short_amount(amount))
    return found
