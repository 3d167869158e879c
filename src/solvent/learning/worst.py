"""The worst that can come where nothing is known but what actions cost at most.

Any state can follow any action, or the episode can end. So an action a of state s is safe at (step h, spent) if and
only if `after = spent + bound(s, a)` is within the limit after step h, and

    h is the last step, or in every state s' some action is safe at (h + 1, after),
    and `after` is within all later limits, as the episode may be over.

Under upper limits more spent is never better, so that costs below the bound need not be looked at; and what was seen
cannot make more actions safe, as nobody knows what was not.

Planners are told so by outcomes that never happen. Beside what was seen, each action can lead, at its bound, to `GONE`,
where the episode is over, and to one stand-in for each *kind* of state, whose actions cost their bounds and lead to the
same places. States in which the same bounds are least are of one kind, and of kinds only the hardest matter.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from solvent.errors import ModelError, quote
from solvent.model.cost_bounds import Bound, CostBounds

#: What an action costs at most of each limited resource.
Amounts = tuple[Fraction, ...]
#: The least bounds among the actions of a state.
Kind = tuple[Amounts, ...]

#: Where an episode is that is over for reasons nobody has seen.
GONE = "gone"


@dataclass(frozen=True)
class Worst:
    """Bounds by state and action, and the kinds of states there are.

    Attributes
    ----------
    bounds_S : tuple of tuples of Bound
        By state and action; None where it must not be taken.
    kinds : tuple of Kind
        The hardest ones.
    """

    bounds_S: tuple[tuple[Bound, ...], ...]
    kinds: tuple[Kind, ...]

    @classmethod
    def of(cls, bounds: CostBounds, states: Sequence[Hashable], n_actions: int) -> Worst:
        """Return what can come in these states.

        Raises
        ------
        ModelError
            If every action of a state is forbidden, or a bound is none.

        Examples
        --------
        >>> Worst.of(CostBounds([[0, 3], [2, 1]], ("fuel",), 2), (0, 1), 2).kinds
        (((Fraction(1, 1),),),)
        """
        bounds_S = tuple(tuple(bounds(state, action) for action in range(n_actions)) for state in states)
        for state, row in zip(states, bounds_S, strict=True):
            if all(bound is None for bound in row):
                raise ModelError(
                    f"cost_bound, state {quote(state)}", "an action that may be taken", "none",
                    "a step may lead anywhere, so something must be allowed everywhere",
                )  # fmt: skip
        return cls(bounds_S, _hardest({_kind(row) for row in bounds_S}))


def _kind(row: Sequence[Bound]) -> Kind:
    """Return the bounds of a state that no other of it is below."""
    bounds = {bound for bound in row if bound is not None}
    return tuple(sorted(b for b in bounds if not any(other != b and _within(other, b) for other in bounds)))


def _hardest(kinds: set[Kind]) -> tuple[Kind, ...]:
    """Return the kinds that no other is at least as hard as."""
    return tuple(sorted(k for k in kinds if not any(other != k and _is_harder(other, k) for other in kinds)))


def _is_harder(one: Kind, other: Kind) -> bool:
    """Whether whatever can be done in a state of the one kind can be done as cheaply in the other."""
    return all(any(_within(cheap, dear) for cheap in other) for dear in one)


def _within(one: Amounts, other: Amounts) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
