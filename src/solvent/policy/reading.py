"""Matching observed outcomes with those of the model."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from solvent.core.exact import exact
from solvent.errors import quote
from solvent.model.amounts import format_amount
from solvent.model.cmdp import CMDP
from solvent.model.distributions import CostDistribution

#: Next state and exact costs of the outcomes that match an observation, and whether all costs are equal exactly.
Matches = dict[tuple[int, tuple[Fraction, ...]], bool]


@dataclass(frozen=True)
class Reading:
    """An observed cost: its exact value, and the float that it was given as, if it was."""

    value: Fraction
    as_float: float | None

    @classmethod
    def of(cls, cost: Any, where: str) -> Reading:
        """Return the reading of a number; raise a `ModelError` if it is not a number."""
        is_float = isinstance(cost, float | np.floating)
        return cls(exact(cost, where), float(cost) if is_float else None)

    def match(self, modeled: Fraction | CostDistribution) -> Fraction | None:
        """Return the modeled amount that matches, or None; a float also matches an amount that rounds to it.

        Examples
        --------
        >>> Reading.of(1 / 3, "cost").match(Fraction(1, 3))
        Fraction(1, 3)
        """
        if isinstance(modeled, CostDistribution):
            low, high = modeled.low, modeled.high
            if self.value <= high and (low is None or self.value >= low):
                return self.value
            ends = [end for end in (low, high) if end is not None and self._is_double_of(end)]
            return ends[0] if ends else None
        return modeled if self.value == modeled or self._is_double_of(modeled) else None

    def _is_double_of(self, amount: Fraction) -> bool:
        try:
            return self.as_float is not None and float(amount) == self.as_float
        except OverflowError:
            return False


def find_matches(model: CMDP, row: int, state: int, readings: list[Reading]) -> Matches:
    """Return the outcomes of a row that match, with exact costs; only those that are exactly equal, if any are."""
    found: Matches = {}
    for o in range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])):
        if model.next_state[o] != state:
            continue
        costs = [reading.match(model.cost_of(d, o)) for d, reading in enumerate(readings)]
        if None not in costs:
            amounts = tuple(c for c in costs if c is not None)
            literal = all(c == reading.value for c, reading in zip(amounts, readings, strict=True))
            found[state, amounts] = literal
    return {key: True for key, literal in found.items() if literal} or found


def possible_texts(model: CMDP, row: int) -> tuple[str, ...]:
    """Return the distinct outcomes of a row as text, for messages."""
    possible = []
    for outcome in model.outcomes(row):
        costs = ", ".join(
            (f"{name} " if len(outcome.cost) > 1 else "")
            + (str(c) if isinstance(c, CostDistribution) else format_amount(c))
            for name, c in outcome.cost.items()
        )
        possible.append(f"state {quote(outcome.next_state)}" + (f" at cost {costs}" if costs else ""))
    return tuple(dict.fromkeys(possible))
