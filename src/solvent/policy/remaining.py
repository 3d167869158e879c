"""What remains of a budget: how much may still be spent of each limited resource before the next limit.

    remaining = (first upper limit after the coming step or later) - spent

A resource that has lower limits only is the mirror image: what remains is spent - (first lower limit after the coming
step or later), the amount by which spent may still fall. When no limit is left, the last one counts. What has been
spent is the amount after saturation, and floors and ceilings do not count as limits. `Agent.remaining` and
`solvent.gym.BudgetWrapper` mean the same by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from solvent.model.budget import Limits


class RemainingBudget:
    """Computes what remains before each step of an episode.

    Parameters
    ----------
    limits : Limits
        The last limit of a resource also holds for all later steps.

    Examples
    --------
    >>> limits = Limits(("fuel", "cash"), ((None, Fraction(5)), (None, None)), ((None, None), (None, Fraction(-2))))
    >>> remaining = RemainingBudget(limits)
    >>> remaining(0, {"fuel": Fraction(3), "cash": Fraction(1)})
    {'fuel': Fraction(2, 1), 'cash': Fraction(3, 1)}
    """

    def __init__(self, limits: Limits) -> None:
        self.resources = limits.resources
        self._upper = [next_limits(side) for side in limits.upper]
        self._lower = [next_limits(side) for side in limits.lower]

    def __call__(self, step: int, spent: Mapping[str, Fraction]) -> dict[str, Fraction]:
        """Return what remains of each resource before a step, given the amounts spent so far."""
        result = {}
        for name, upper, lower in zip(self.resources, self._upper, self._lower, strict=True):
            most, least = (side[min(step, len(side) - 1)] for side in (upper, lower))
            if most is not None:
                result[name] = most - spent[name]
            elif least is not None:
                result[name] = spent[name] - least
        return result


def next_limits(side: tuple[Fraction | None, ...]) -> tuple[Fraction | None, ...]:
    """Return, for each step, the first limit from that step on or, if there is none, the last one before it."""
    filled: list[Fraction | None] = []
    coming: Fraction | None = None
    for limit in reversed(side):
        coming = coming if limit is None else limit
        filled.append(coming)
    filled.reverse()
    for step in range(1, len(filled)):
        filled[step] = filled[step - 1] if filled[step] is None else filled[step]
    return tuple(filled)
