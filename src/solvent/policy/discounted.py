"""Policies for discounted models: so many planned steps, then a rule for ever; and the agent that follows them.

The planned steps are an `AugmentedPolicy` on the model that `close` makes: the first T steps, with discounted costs,
and a last one in which it chooses the rule to hand over to.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from solvent.core.limits import ResourceMonitor
from solvent.errors import PolicyError, printable, quote
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP
from solvent.policy.agent import Agent
from solvent.policy.table import AugmentedPolicy
from solvent.policy.tail import TailRule, close


@dataclass(frozen=True, eq=False, repr=False)
class DiscountedPolicy:
    """A policy for a discounted model.

    Made by `solvent.solve` or `load_policy`.

    Attributes
    ----------
    finite : AugmentedPolicy
        What is done in the first T steps, and at step T, which rule takes over; on `closed`.
    rules : tuple of TailRule
        What can be done from step T on.
    discount : Fraction
    limits : dict of str to (Fraction or None, Fraction or None)
        The upper and the lower limit of each tracked resource, for all time.
    model : DiscountedCMDP or None
        The model itself, if it is at hand; no part of the saved policy.
    """

    finite: AugmentedPolicy
    rules: tuple[TailRule, ...]
    discount: Fraction
    limits: dict[str, tuple[Fraction | None, Fraction | None]]
    model: DiscountedCMDP | None = None

    def __post_init__(self) -> None:
        if self.finite.horizon < 2:
            raise PolicyError("finite", "at least one step and one for the tail", f"{self.finite.horizon}")

    @property
    def steps(self) -> int:
        """How many steps are planned before a rule takes over."""
        return self.finite.horizon - 1

    def closed(self, model: DiscountedCMDP | None = None, monitor: ResourceMonitor | None = None) -> CMDP:
        """Return the finite model that `finite` is a policy for; see `solvent.policy.tail.close`.

        Parameters
        ----------
        model : DiscountedCMDP, optional
            The policy's own, if not given.
        monitor : ResourceMonitor, optional
            What time and memory there is for it.

        Raises
        ------
        PolicyError
            If `model` is not the one this policy was made for, or there is none.
        """
        if model is None or model is self.model:
            if self.model is not None and "_closed" not in self.__dict__:
                self.__dict__["_closed"] = _closed(self, self.model, monitor)
            return self._closed
        return _closed(self, model, monitor)

    @cached_property
    def _closed(self) -> CMDP:
        if self.model is None:
            raise PolicyError("policy", "its model", "none", "use policy.agent(model), or load_policy(path, model)")
        return _closed(self, self.model)

    def agent(self, model: DiscountedCMDP | None = None, *, seed: int = 0) -> DiscountedAgent:
        """Return an agent that follows this policy and keeps the account.

        Parameters
        ----------
        model : DiscountedCMDP, optional
            What the world is held to; needed only if the policy was loaded without it.
        seed : int
            For the sake of agents of other policies; this one does nothing at random.
        """
        return DiscountedAgent(self, model or self.model, seed=seed)

    def save(self, path: str | Path) -> None:
        """Write the policy to a file of any name, whole or not at all; `load_policy` reads it back."""
        from solvent.policy.discounted_files import save_discounted

        save_discounted(self, path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DiscountedPolicy):
            return NotImplemented
        mine, others = ((each.discount, each.limits, each.rules, each.finite) for each in (self, other))
        return mine == others

    def __hash__(self) -> int:
        return hash((self.finite, self.discount))

    def __repr__(self) -> str:
        rules = printable(" or ".join(rule.name for rule in self.rules))
        return f"DiscountedPolicy({len(self.finite):,} nodes over {self.steps} steps, then {rules} for ever)"


def _closed(policy: DiscountedPolicy, model: Any, monitor: ResourceMonitor | None = None) -> CMDP:
    if not isinstance(model, DiscountedCMDP):
        raise PolicyError("model", "the DiscountedCMDP that the policy was made for", quote(model))
    fits = model.discount == policy.discount and all(
        len(rule.action_S) == model.n_states and len(rule.most_DS) == model.n_resources for rule in policy.rules
    )
    closed = close(model, policy.steps, policy.rules, monitor) if fits else None
    if closed is None or closed.fingerprint != policy.finite.fingerprint:
        raise PolicyError("policy", f"a policy for this model ({quote(model.name or 'unnamed')})", "one for another")
    return closed


class DiscountedAgent(Agent):
    """Follows a policy for a discounted model, for ever; made by `policy.agent()`.

    It is told true costs, as they are at the step. `spent` is their discounted sum, exactly, so that its digits grow
    with the steps; it is added up when asked for.
    """

    def __init__(self, policy: DiscountedPolicy, model: DiscountedCMDP | None, *, seed: int = 0) -> None:
        if model is None:
            raise PolicyError(
                "agent", "the policy's model", "none", "use policy.agent(model), or load_policy(path, model)"
            )
        self._rules, self._bounds, self._steps = policy.rules, policy.limits, policy.steps
        self._finite = Agent(policy.closed(model), policy.finite, seed=seed)
        # one step of the model says what can happen at any; the account of the planned steps is kept by `_finite`
        self.model, self.policy, self._tracked = model.base, policy.finite, []
        self._discount = model.discount
        self.reset()

    def reset(self) -> None:
        """Go back to the start of an episode, with nothing spent."""
        super().reset()
        self._finite.reset()
        self._rule: TailRule | None = None
        self._sum = [Fraction(0)] * self.model.n_resources
        self._added_up, self._scale = 0, Fraction(1)

    @property
    def spent(self) -> dict[str, Fraction]:
        """What was spent so far of every resource: the discounted sum of costs."""
        for event in self._history[self._added_up :]:
            self._sum = [total + self._scale * cost for total, cost in zip(self._sum, event.cost.values(), strict=True)]
            self._scale *= self._discount
        self._added_up = len(self._history)
        return dict(zip(self.model.resources, self._sum, strict=True))

    @property
    def remaining(self) -> dict[str, Fraction | None]:
        """What may still be spent, in amounts of step 0; None where there is no upper limit."""
        spent = self.spent
        return {name: None if upper is None else upper - spent[name] for name, (upper, _) in self._bounds.items()}

    @property
    def tail_rule(self) -> str | None:
        """Name of the rule that it follows for ever; None while steps are still planned."""
        return None if self._rule is None else self._rule.name

    @property
    def done(self) -> bool:
        """Whether a terminal state is reached; nothing else ends an episode."""
        return self.model.is_terminal(0, self._state)

    def _choose(self) -> int:
        if self._step < self._steps:
            return self.model.action_index(self._finite.act())
        if self._rule is None:
            handed_to = self._finite.model.action_index(self._finite.act())
            self._rule = self._rules[handed_to - self.model.n_actions]
        return int(self._rule.action_S[self._state])

    def _row(self, action: int) -> int | None:
        return next((row for row in self.model.rows(0, self._state) if self.model.row_action[row] == action), None)

    def observe(self, state: Hashable, cost: Any = 0) -> None:
        """Take in what came of the last action; `cost` is the true one, not discounted. See `Agent.observe`."""
        step = self._step
        super().observe(state, cost)
        if step < self._steps:
            event, scale = self._history[-1], self._discount**step
            self._finite.observe(event.next_state, {name: scale * c for name, c in event.cost.items()})
