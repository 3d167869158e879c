"""Policies that keep count until a limit is broken, and then no longer care.

Those who only bound the *probability* of going over, or who end the day when the budget is gone, have no reason to
spend carefully afterwards. What was spent does not tell whether a limit was broken before: a refund may have brought it
back within. So such a policy remembers one thing more, whether it has lapsed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.errors import PolicyError
from solvent.model.rounding import NO_LOWER, NO_UPPER, limit_ticks
from solvent.policy.choices import Choices
from solvent.policy.markov import MarkovPolicy, RandomizedPolicy


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class UntilViolationPolicy(RandomizedPolicy):
    """A randomized policy on nodes that holds until one of its limits is broken, and what is done from then on.

    Made by `solvent.baselines`. Its table, the fields of `RandomizedPolicy`, speaks of histories that have kept
    `limits` so far.

    Attributes
    ----------
    after : MarkovPolicy or None
        What is followed once a limit was broken; None to stop there.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.model.budget import resolve
    >>> from solvent.model.lattice import Lattice
    >>> model = instances.markov_gap(prize=10, cost=2)
    >>> limits = resolve(model, None)
    >>> careful = [([0], [[0]], [0], [1.0])] * 2
    >>> table = RandomizedPolicy.from_nodes(model, Lattice.fit(model, limits), limits, layers=careful)
    >>> policy = UntilViolationPolicy.of(table, MarkovPolicy(model, [[0], [1]]))
    >>> policy.choices_when(1, np.array([0, 0]), np.array([[0], [2]]), np.array([False, True])).action.tolist()
    [0, 1]
    """

    after: MarkovPolicy | None

    @classmethod
    def of(cls, table: RandomizedPolicy, after: MarkovPolicy | None) -> UntilViolationPolicy:
        """Return the policy that follows `table` until one of its limits is broken, then `after`.

        Raises
        ------
        PolicyError
            If the table counts rounded costs, which do not tell when a limit is broken, or `after` is for another
            model.
        """
        if table.rounds:
            raise PolicyError("table", "one that counts exact costs", f"costs counted {', '.join(table.counting)}")
        if after is not None:
            table.check_model(after.model)
        return cls(**{each.name: getattr(table, each.name) for each in fields(RandomizedPolicy)}, after=after)

    @cached_property
    def _ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Its own limits in its own ticks, rounded inwards: upper and lower, shape (H, D)."""

        def ticks(sides: tuple[tuple[Fraction | None, ...], ...], open_end: int) -> NDArray[np.int64]:
            columns = [limit_ticks(side, unit, open_end) for side, unit in zip(sides, self.units, strict=True)]
            return np.array(columns, np.int64).reshape(len(self.units), self.horizon).T

        return ticks(self.limits.upper, NO_UPPER), ticks(self.limits.lower, NO_LOWER)

    def lapses(self, step: int, ticks_MD: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether having spent so much after a step breaks one of its own limits."""
        upper_HD, lower_HD = self._ends
        broken: NDArray[np.bool_] = ((ticks_MD > upper_HD[step]) | (ticks_MD < lower_HD[step])).any(1)
        return broken

    def choices_when(
        self, step: int, states: NDArray[Any], ticks_MD: NDArray[np.int64], lapsed: NDArray[np.bool_]
    ) -> Choices:
        """Return the supported actions of many nodes of a step, some of them after a limit was broken.

        Parameters
        ----------
        lapsed : ndarray of bool, shape (M,)
            Whether one was.
        """
        kept = np.flatnonzero(~lapsed)
        before = self.choices_at(step, states[kept], ticks_MD[kept])
        if self.after is None or len(kept) == len(states):
            return Choices(kept[before.node], before.action, before.probability)
        broken = np.flatnonzero(lapsed)
        then = self.after.choices_at(step, states[broken])
        node = np.concatenate([kept[before.node], broken[then.node]])
        order = np.argsort(node, kind="stable")
        return Choices(
            node[order],
            np.concatenate([before.action, then.action])[order],
            np.concatenate([before.probability, then.probability])[order],
        )
