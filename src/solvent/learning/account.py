"""What an episode has spent, exactly, in whole numbers of a unit that divides every amount so far.

Sums and comparisons of fractions take microseconds each, those of whole numbers much less. The unit becomes finer when
a cost needs it, and what was spent is then expressed in the finer unit, so nothing is ever rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from solvent.model.budget import Limits
from solvent.model.resources import Resource

#: The most costs whose whole numbers are kept for look-up.
_MOST_KEPT = 100_000


class ExactAccount:
    """The account of one episode after the other.

    Parameters
    ----------
    limits : Limits
    resources : sequence of Resource
        The limited resources, which say where amounts saturate.

    Examples
    --------
    >>> from solvent.model.budget import limits_of, read_budgets
    >>> account = ExactAccount(limits_of(read_budgets("1/2", ("fuel",), 2), 2), [Resource("fuel")])
    >>> account.begin()
    >>> account.charge((Fraction(1, 3),), 0), account.charge((Fraction(1, 4),), 1), account.spent
    (False, True, (Fraction(7, 12),))
    """

    def __init__(self, limits: Limits, resources: Sequence[Resource]) -> None:
        self._limits, self._resources = limits, tuple(resources)
        amounts = [
            [
                each
                for each in (*limits.upper[d], *limits.lower[d], limits.initial[d], r.floor, r.ceiling)
                if each is not None
            ]
            for d, r in enumerate(self._resources)
        ]
        self._units = [math.lcm(1, *(each.denominator for each in found)) for found in amounts]
        self._kept: dict[int, tuple[tuple[Fraction, ...], tuple[int, ...]]] = {}
        self._ticks: list[int] = [0] * len(self._resources)
        self._express()
        self.begin()

    def _express(self) -> None:
        """Express limits and ends in the units."""
        self._kept, units, limits = {}, self._units, self._limits
        self._initial = [int(amount * unit) for amount, unit in zip(limits.initial, units, strict=True)]
        self._ends: list[tuple[float, float] | None] = [
            (_ticks(each.floor, unit, -math.inf), _ticks(each.ceiling, unit, math.inf)) if each.saturates else None
            for each, unit in zip(self._resources, units, strict=True)
        ]
        self._upper, self._lower = (
            [[_ticks(each, unit, end) for each in side] for side, unit in zip(sides, units, strict=True)]
            for sides, end in ((limits.upper, math.inf), (limits.lower, -math.inf))
        )
        # the tightest limits after a step and all later ones
        self._later_upper = [list(accumulate(reversed(side), min))[::-1] for side in self._upper]
        self._later_lower = [list(accumulate(reversed(side), max))[::-1] for side in self._lower]

    def begin(self) -> None:
        """Start an episode."""
        self._ticks = list(self._initial)

    @property
    def spent(self) -> tuple[Fraction, ...]:
        """What the episode has spent."""
        return tuple(Fraction(ticks, unit) for ticks, unit in zip(self._ticks, self._units, strict=True))

    def charge(self, costs: tuple[Fraction, ...], step: int) -> bool:
        """Add costs; return whether what was spent breaks a limit after a step.

        Costs are looked up by identity, so it is faster if equal costs are the same tuple.
        """
        known = self._kept.get(id(costs))
        added = self._read(costs) if known is None else known[1]
        ticks, broken = self._ticks, False
        for d, amount in enumerate(added):
            amount += ticks[d]
            ends = self._ends[d]
            if ends is not None:
                amount = int(min(max(amount, ends[0]), ends[1]))
            ticks[d] = amount
            broken = broken or amount > self._upper[d][step] or amount < self._lower[d][step]
        return broken

    def breaks_later(self, step: int) -> bool:
        """Return whether what was spent breaks the limit after some step, from `step` to the last."""
        return any(
            step < len(upper) and (amount > upper[step] or amount < lower[step])
            for amount, upper, lower in zip(self._ticks, self._later_upper, self._later_lower, strict=True)
        )

    def _read(self, costs: tuple[Fraction, ...]) -> tuple[int, ...]:
        """Return costs in ticks, in finer units if they need them; keep the tuple, so that its identity is unique."""
        finer = [math.lcm(unit, cost.denominator) for unit, cost in zip(self._units, costs, strict=True)]
        if finer != self._units:
            self._ticks = [t * (new // old) for t, new, old in zip(self._ticks, finer, self._units, strict=True)]
            self._units = finer
            self._express()
        ticks = tuple(cost.numerator * (unit // cost.denominator) for cost, unit in zip(costs, finer, strict=True))
        if len(self._kept) < _MOST_KEPT:
            self._kept[id(costs)] = costs, ticks
        return ticks


def _ticks(amount: Fraction | None, unit: int, end: float) -> float:
    """Return an amount in ticks, a whole number that Python compares exactly; an infinite end if there is none."""
    return end if amount is None else int(amount * unit)
