"""The worst case when only upper bounds on the costs of actions are known.

Any state can follow any action, or the episode can end. So an action a of state s is safe at (step h, spent) if and
only if `after = spent + bound(s, a)` is within the limit after step h, and

    h is the last step, or in every state s' some action is safe at (h + 1, after),
    and `after` is within all later limits, since the episode may have ended.

Under upper limits, having spent more is never better, so costs below the bound need not be considered. Outcomes seen
cannot make more actions safe, because others may still occur.

The planner learns this from outcomes that never occur. Besides the outcomes seen, each action can lead, at its bound,
to `GONE`, where the episode has ended, and to one representative of each *kind* of state, whose actions cost their
bounds and lead to the same states. States with the same minimal bounds are of one kind, and only the hardest kinds
matter.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from solvent.errors import ModelError, quote
from solvent.learning.starts import START
from solvent.model.cost_bounds import Bound, CostBounds

#: Upper bound on the cost of an action, one amount per limited resource.
Amounts = tuple[Fraction, ...]
#: The minimal bounds among the actions of a state.
Kind = tuple[Amounts, ...]

#: State of an episode that has ended by an outcome that was never seen.
GONE = "(gone)"


@dataclass(frozen=True)
class WorstCase:
    """Bounds by state and action, and the hardest kinds of states.

    Attributes
    ----------
    bounds_S : tuple of tuples of Bound
        Bounds by state and action; None for a forbidden action.
    kinds : tuple of Kind
        The hardest kinds.
    kind_of_state : tuple of int
        Position of a kind that is at least as hard as each state.
    """

    bounds_S: tuple[tuple[Bound, ...], ...]
    kinds: tuple[Kind, ...]
    kind_of_state: tuple[int, ...]

    @classmethod
    def of(cls, bounds: CostBounds, states: Sequence[Hashable], n_actions: int) -> WorstCase:
        """Return the worst case of an environment with these states.

        Raises
        ------
        ModelError
            If every action of a state is forbidden, or a bound is invalid.

        Examples
        --------
        >>> WorstCase.of(CostBounds([[0, 3], [2, 1]], ("fuel",), 2), (0, 1), 2).kinds
        (((Fraction(1, 1),),),)
        """
        bounds_S = tuple(
            tuple(bounds(state, action) for action in range(n_actions)) for state in states if state != START
        )
        for state, row in zip(states, bounds_S, strict=False):
            if all(bound is None for bound in row):
                raise ModelError(
                    f"cost_bound, state {quote(state)}", "an action that is not forbidden", "none",
                    "any state may come next, so every state needs one",
                )  # fmt: skip
        if START in states:  # the last state, which has one action that costs nothing
            nothing: Bound = tuple(Fraction(0) for _ in next(b for b in bounds_S[0] if b is not None))
            bounds_S += ((nothing, *(None,) * (n_actions - 1)),)
        own = [_kind(row) for row in bounds_S]
        kinds = _hardest(set(own))
        harder = {kind: next(i for i, each in enumerate(kinds) if _is_harder(each, kind)) for kind in set(own)}
        return cls(bounds_S, kinds, tuple(harder[kind] for kind in own))


def _kind(row: Sequence[Bound]) -> Kind:
    """Return the minimal bounds of a state."""
    bounds = {bound for bound in row if bound is not None}
    return tuple(sorted(b for b in bounds if not any(other != b and _within(other, b) for other in bounds)))


def _hardest(kinds: set[Kind]) -> tuple[Kind, ...]:
    """Return the kinds for which no other kind is harder."""
    return tuple(sorted(k for k in kinds if not any(other != k and _is_harder(other, k) for other in kinds)))


def _is_harder(one: Kind, other: Kind) -> bool:
    """Return whether every bound of `one` has a bound of `other` that is at most as large."""
    return all(any(_within(low, high) for low in other) for high in one)


def _within(one: Amounts, other: Amounts) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
