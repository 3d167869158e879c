"""Exact amounts spent and remaining during one episode.

Amounts are Fractions, so three costs of 0.1 add up to exactly 0.3, and errors do not accumulate in long episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from solvent.core.exact import exact
from solvent.errors import BudgetError, ModelError, did_you_mean, quote
from solvent.model.amounts import short_amount
from solvent.model.budget import Budget, Limits
from solvent.model.resources import Resource, as_resources
from solvent.policy.remaining import RemainingBudget

#: Name of the resource that a plain number limits if there is no model.
ONLY_RESOURCE = "cost"

_Side = tuple[Fraction | None, ...]


class BudgetTracker:
    """Tracks what was spent of each limited resource since the episode began.

    Parameters
    ----------
    limits : Limits
        Limits after each step; the last limit of a resource also holds for all later steps. Episodes begin with the
        initial amounts.
    accounts : mapping of str to Resource, optional
        Resources that may saturate, by name; others do not.

    Examples
    --------
    >>> tracker = BudgetTracker(read_limits(0.3))
    >>> for _ in range(3):
    ...     tracker.spend([Fraction("0.1")])
    >>> tracker.spent, tracker.remaining, tracker.broken
    ({'cost': Fraction(3, 10)}, {'cost': Fraction(0, 1)}, False)
    """

    def __init__(self, limits: Limits, accounts: Mapping[str, Resource] | None = None) -> None:
        self.resources, self._upper, self._lower = limits.resources, limits.upper, limits.lower
        known = accounts or {}
        self.accounts = tuple(known.get(name) or Resource(name) for name in limits.resources)
        self.initial = limits.initial
        self._remaining = RemainingBudget(limits)
        self.reset()

    def reset(self) -> None:
        """Start a new episode, with the initial amounts."""
        self.step, self.amounts = 0, list(self.initial)
        self._broken_within = False

    def spend(self, costs: Sequence[Fraction], high: Sequence[Fraction] = (), low: Sequence[Fraction] = ()) -> None:
        """Add the cost of a step.

        Parameters
        ----------
        costs : sequence of Fraction
            One amount per limited resource.
        high, low : sequence of Fraction, optional
            The greatest and the least cumulative cost within the step, if it was several steps of the environment.
            They are compared with the looser of the limits before and after the step.

        Raises
        ------
        ModelError
            If a resource saturates and the step was several steps of the environment: the amount then depends on each
            of their costs.
        """
        if high and any(account.saturates for account in self.accounts):
            name = next(account.name for account in self.accounts if account.saturates)
            raise ModelError(
                f"step {self.step}",
                f"one step of the environment, as {quote(name)} saturates",
                "several at once",
                "put the BudgetWrapper inside the wrapper that repeats actions",
            )
        self._broken_within = any(
            self._breaks_within(d, self.amounts[d] + most, self.amounts[d] + least)
            for d, (most, least) in enumerate(zip(high, low, strict=True))
        )
        self.amounts = self.after(costs)
        self.step += 1

    def after(self, costs: Sequence[Fraction]) -> list[Fraction]:
        """Return what would be spent after a step of these costs."""
        return [
            account.clamp(amount + cost)
            for account, amount, cost in zip(self.accounts, self.amounts, costs, strict=True)
        ]

    def _breaks_within(self, d: int, most: Fraction, least: Fraction) -> bool:
        steps = {max(self.step - 1, 0), self.step}
        uppers, lowers = ([_at(side[d], step) for step in steps] for side in (self._upper, self._lower))
        over = all(limit is not None and most > limit for limit in uppers)
        return over or all(limit is not None and least < limit for limit in lowers)

    def begin_with(self, costs: Sequence[Fraction]) -> None:
        """Add what was spent in `reset`, before the first step."""
        self.amounts = self.after(costs)

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
        return self._remaining(self.step, self.spent)

    def upper(self, d: int, step: int) -> Fraction | None:
        """Return the upper limit of a resource (by index) after a step; None if there is none."""
        return _at(self._upper[d], step)

    @property
    def broken(self) -> bool:
        """Whether the last step broke a limit, at its end or within it."""
        return self.step > 0 and (self._broken_within or self._breaks(self.step - 1))

    @property
    def broken_later(self) -> bool:
        """Whether what was spent so far breaks the limit of a later step even if nothing more is spent."""
        return any(self._breaks(step) for step in range(self.step, max(map(len, self._upper), default=0)))

    def _breaks(self, step: int) -> bool:
        for d, amount in enumerate(self.amounts):
            most, least = _at(self._upper[d], step), _at(self._lower[d], step)
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


def _at(side: _Side, step: int) -> Fraction | None:
    return side[min(step, len(side) - 1)]


def read_limits(budget: Any, spent: Any = None) -> Limits:
    """Return the limits of a budget without a model: one anytime upper limit per resource.

    Parameters
    ----------
    budget : number, Budget, or mapping of them by resource
    spent : number, or mapping of numbers by resource, optional
        What has been spent before the first step.

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
                "limits per step, lower limits and final limits need a model: pass model=...",
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
