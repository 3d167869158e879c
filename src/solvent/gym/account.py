"""The account of one episode: what was spent, exactly, and what remains.

Amounts are Fractions, so three costs of 0.1 spend 0.3 and not a hair more, however long an episode is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from solvent.errors import BudgetError, quote
from solvent.model.budget import Budget, Limits

#: The resource that a plain number limits where no model names one.
ONLY_RESOURCE = "cost"

_Side = tuple[Fraction | None, ...]


class Account:
    """What was spent of each limited resource since the episode began.

    Parameters
    ----------
    limits : Limits
        After each step; the last one of a resource also holds for all later steps.

    Examples
    --------
    >>> account = Account(read_limits(0.3))
    >>> for _ in range(3):
    ...     account.spend([Fraction("0.1")])
    >>> account.spent, account.remaining, account.broken
    ({'cost': Fraction(3, 10)}, {'cost': Fraction(0, 1)}, False)
    """

    def __init__(self, limits: Limits) -> None:
        self.resources, self._upper, self._lower = limits.resources, limits.upper, limits.lower
        # what remains is counted to the next limit to come: the coming step need not have one
        self._next_upper = [_next(side) for side in limits.upper]
        self._next_lower = [_next(side) for side in limits.lower]
        self.reset()

    def reset(self) -> None:
        """Begin again, with nothing spent."""
        self.step, self.amounts = 0, [Fraction(0)] * len(self.resources)
        self._broken_within = False

    def spend(self, costs: Sequence[Fraction], high: Sequence[Fraction] = (), low: Sequence[Fraction] = ()) -> None:
        """Take in what a step cost, one amount per limited resource.

        `high` and `low` are the most and the least of what was spent of it on the way, if it was several steps of the
        environment. These are judged by the looser of the limits before and after the step.
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
        """Take in what was spent before the first step."""
        self.amounts = list(costs)

    @property
    def spent(self) -> dict[str, Fraction]:
        """What was spent so far, by resource."""
        return dict(zip(self.resources, self.amounts, strict=True))

    @property
    def remaining(self) -> dict[str, Fraction]:
        """What remains to the next upper limit; for a resource with lower limits only, the distance to the next."""
        result = {}
        for d, name in enumerate(self.resources):
            most, least = _at(self._next_upper[d], self.step), _at(self._next_lower[d], self.step)
            if most is not None:
                result[name] = most - self.amounts[d]
            else:
                assert least is not None  # a resource without limits is not tracked
                result[name] = self.amounts[d] - least
        return result

    def upper(self, d: int, step: int) -> Fraction | None:
        """Return the limit on what was spent of a resource (by position) after a step; None if there is none."""
        return _at(self._upper[d], step)

    @property
    def broken(self) -> bool:
        """Whether a limit after the last step, or on the way there, was not kept."""
        return self.step > 0 and (self._broken_within or self._breaks(self.step - 1))

    @property
    def broken_later(self) -> bool:
        """Whether a limit after a later step is not kept by what was spent so far, nothing more being spent."""
        return any(self._breaks(step) for step in range(self.step, max(map(len, self._upper), default=0)))

    def _breaks(self, step: int) -> bool:
        for d, amount in enumerate(self.amounts):
            most, least = _at(self._upper[d], step), _at(self._lower[d], step)
            if (most is not None and amount > most) or (least is not None and amount < least):
                return True
        return False

    def limit_range(self, d: int) -> tuple[Fraction, Fraction]:
        """Return the least and the greatest limit that `remaining` of a resource (by position) is counted from."""
        limits = [x for x in self._next_upper[d] if x is not None] or [x for x in self._next_lower[d] if x is not None]
        return min(limits), max(limits)

    def counts_down(self, d: int) -> bool:
        """Whether `remaining` of a resource (by position) falls as more is spent."""
        return any(limit is not None for limit in self._upper[d])


def _next(side: _Side) -> _Side:
    """Return for each step the first limit from it on, or else the last there was."""
    filled: list[Fraction | None] = []
    coming: Fraction | None = None
    for limit in reversed(side):
        coming = coming if limit is None else limit
        filled.append(coming)
    filled.reverse()
    for step in range(1, len(filled)):
        filled[step] = filled[step - 1] if filled[step] is None else filled[step]
    return tuple(filled)


def _at(side: _Side, step: int) -> Fraction | None:
    return side[min(step, len(side) - 1)]


def read_limits(budget: Any) -> Limits:
    """Return the limits of a budget where there is no model: one anytime upper limit per resource.

    Raises
    ------
    BudgetError
        If there is no limit, or one of another kind: what comes after the next step is then unknown.

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
                "limits that vary, lower and final ones need a model, which knows what may come later: model=...",
            )
        found[str(name)] = plain.upper
    if not found:
        raise BudgetError("budget", "a limit on at least one resource", quote(budget))
    return Limits(tuple(found), tuple((limit,) for limit in found.values()), ((None,),) * len(found))
