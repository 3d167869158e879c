"""Policies that depend on the amounts spent until a limit is broken, and on step and state afterwards.

A policy that only bounds the *probability* of a violation has no reason to be careful after one. The amounts spent do
not tell whether a limit was broken before, because a negative cost may have brought them back within the limit. Such a
policy therefore needs one more bit of memory: whether a limit was broken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.errors import PolicyError, quote
from solvent.model.cmdp import CMDP
from solvent.model.rounding import limit_ticks
from solvent.policy.choices import Choices
from solvent.policy.markov import MarkovPolicy, RandomizedPolicy
from solvent.policy.nodes import NodeFollower


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class UntilViolationPolicy(RandomizedPolicy):
    """A randomized policy on nodes until one of its limits is broken, and a Markov policy from then on.

    Made by `solvent.baselines`. The fields of `RandomizedPolicy` define the decisions as long as `limits` are kept.

    Attributes
    ----------
    after : MarkovPolicy or None
        The policy after a limit was broken; None to stop there.

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
            If the table counts rounded costs, with which broken limits cannot be detected, or `after` is for another
            model.
        """
        if table.rounds:
            raise PolicyError("table", "one that counts exact costs", f"costs rounded {', '.join(table.counting)}")
        if after is not None:
            table.check_model(after.model)
        return cls(**{each.name: getattr(table, each.name) for each in fields(RandomizedPolicy)}, after=after)

    def follower(self, model: CMDP) -> UntilViolationFollower:
        """Return what an agent needs to follow this policy."""
        return UntilViolationFollower(self, model)

    @cached_property
    def _ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Upper and lower limits in ticks, rounded inwards, shape (H, D)."""

        def ticks(sides: tuple[tuple[Fraction | None, ...], ...], open_end: int) -> NDArray[np.int64]:
            columns = [limit_ticks(side, unit, open_end) for side, unit in zip(sides, self.units, strict=True)]
            return np.array(columns, np.int64).reshape(len(self.units), self.horizon).T

        return ticks(self.limits.upper, PLUS_INFINITY), ticks(self.limits.lower, MINUS_INFINITY)

    def breaks_limits(self, step: int, ticks_MD: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether amounts spent after a step, shape (M, D), break one of the policy's own limits, shape (M,)."""
        upper_HD, lower_HD = self._ends
        broken: NDArray[np.bool_] = ((ticks_MD > upper_HD[step]) | (ticks_MD < lower_HD[step])).any(1)
        return broken

    def choices_when(
        self, step: int, states: NDArray[Any], ticks_MD: NDArray[np.int64], violated: NDArray[np.bool_]
    ) -> Choices:
        """Return the actions of positive probability at many nodes of a step.

        Parameters
        ----------
        step : int
        states : ndarray of int, shape (M,)
        ticks_MD : ndarray of int64, shape (M, D)
        violated : ndarray of bool, shape (M,)
            Whether a limit was broken before.
        """
        kept = np.flatnonzero(~violated)
        before = self.choices_at(step, states[kept], ticks_MD[kept])
        if self.after is None or len(kept) == len(states):
            return Choices(kept[before.node], before.action, before.probability)
        broken = np.flatnonzero(violated)
        then = self.after.choices_at(step, states[broken])
        node = np.concatenate([kept[before.node], broken[then.node]])
        order = np.argsort(node, kind="stable")
        return Choices(
            node[order],
            np.concatenate([before.action, then.action])[order],
            np.concatenate([before.probability, then.probability])[order],
        )


class UntilViolationFollower(NodeFollower):
    """Follows an `UntilViolationPolicy`: also stores whether a limit was broken."""

    _policy: UntilViolationPolicy

    def reset(self) -> None:
        """Begin a new episode."""
        super().reset()
        self._violated = False

    def resume(self, step: int, spent: Sequence[Fraction]) -> None:
        """Continue from step 0; later, amounts do not tell whether a limit was broken before."""
        if step:
            raise PolicyError(
                "agent",
                "a snapshot, which says whether a limit was broken before",
                f"the amounts spent before step {step}",
                "use policy.agent(snapshot=agent.snapshot())",
            )
        super().resume(step, spent)
        self._violated = False

    def memory(self, spent: Sequence[Fraction]) -> dict[str, Any]:
        """Return whether a limit was broken."""
        return {**super().memory(spent), "violated": self._violated}

    def restore(self, step: int, spent: Sequence[Fraction], memory: Mapping[str, Any]) -> None:
        """Continue from a step before which these amounts were spent, with what `memory` returned."""
        rest = dict(memory)
        violated = rest.pop("violated", None)
        if not isinstance(violated, bool):
            raise PolicyError("snapshot, violated", "whether a limit was broken", quote(violated))
        super().restore(step, spent, rest)
        self._violated = violated

    def choices(self, step: int, state: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Return positions and probabilities of the actions at the current node; None if there is no decision."""
        if not self._violated:
            return super().choices(step, state)
        if self._policy.after is None:
            return None
        actions, weights = self._policy.after.choices(step, state)
        return (actions, weights) if len(actions) else None

    def no_decision(self, step: int, state: int, place: str) -> PolicyError:
        """Return the error for a node without a decision."""
        if self._violated:
            return PolicyError(place, "a decision", "none, because a limit was broken before")
        return super().no_decision(step, state, place)

    def observe(self, step: int, costs: Sequence[Fraction]) -> None:
        """Count the costs of a step, and check the limits after it."""
        super().observe(step, costs)
        self._violated |= bool(self._policy.breaks_limits(step, np.array([self._counted], np.int64))[0])
