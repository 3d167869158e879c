"""Exact amounts spent and remaining during one episode.

Amounts are Fractions, so three costs of 0.1 add up to exactly 0.3, and errors do not accumulate in long episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from solvent.errors import BudgetError, quote
from solvent.model.budget import Budget, Limits
from solvent.policy.remaining import RemainingBudget

#: Name of the resource that a plain number limits if there is no model.
ONLY_RESOURCE = "cost"

_Side = tuple[Fraction | None, ...]


class BudgetTracker:
    """Tracks what was spent of each limited resource since the episode began.

    Parameters
    ----------
    limits : Limits
        Limits after each step; the last limit of a resource also holds for all later steps.

    Examples
    --------
    >>> tracker = BudgetTracker(read_limits(0.3))
    >>> for _ in range(3):
    ...     tracker.spend([Fraction("0.1")])
    >>> tracker.spent, tracker.remaining, tracker.broken
    ({'cost': Fraction(3, 10)}, {'cost': Fraction(0, 1)}, False)
    """

    def __init__(self, limits: Limits) -> None:
        self.resources, self._upper, self._lower = limits.resources, limits.upper, limits.lower
        self._remaining = RemainingBudget(limits)
        self.reset()

    def reset(self) -> None:
        """Start a new episode, with nothing spent."""
        self.step, self.amounts = 0, [Fraction(0)] * len(self.resources)
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
        """
        self._broken_within = any(
            self._breaks_within(d, self.amounts[d] + most, self.amounts[d] + least)
            for d, (most, least) in enumerate(zip(high, low, strict=True))
        )
        self.amounts = [amount + cost for amount, cost in zip(self.amounts, costs, strict=True)]
        self.step += 1

    def _breaks_within(self, d: int, most: Fraction, least: Fraction) -> bool:
        steps = {max(self.step - 1, 0), self.step}
        uppers, lowers = ([_at(side[d], step) for step in steps] for side in (self._upper, self._lower))
        over = all(limit is not None and most > limit for limit in uppers)
        return over or all(limit is not None and least < limit for limit in lowers)

    def begin_with(self, costs: Sequence[Fraction]) -> None:
        """Set what was spent before the first step."""
        self.amounts = list(costs)

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


def read_limits(budget: Any) -> Limits:
    """Return the limits of a budget without a model: one anytime upper limit per resource.

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
    return Limits(tuple(found), tuple((limit,) for limit in found.values()), ((None,),) * len(found))
