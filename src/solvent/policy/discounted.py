"""Policies for discounted models: a number of planned steps, then a tail rule; and the agent that follows them.

The planned steps are an `AugmentedPolicy` for the model that `close` returns: the first T steps, with discounted costs,
and a last step in which it chooses the tail rule to follow from then on.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.errors import PolicyError, printable, quote
from solvent.model.budget import Limits, SpentLike
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP
from solvent.policy.agent import Agent, Beginning, initial_amounts
from solvent.policy.snapshots import refuse_fields
from solvent.policy.table import AugmentedPolicy
from solvent.policy.tail import TailRule, close


@dataclass(frozen=True, eq=False, repr=False)
class DiscountedPolicy:
    """A policy for a discounted model.

    Made by `solvent.solve` or `load_policy`.

    Attributes
    ----------
    finite : AugmentedPolicy
        The actions of the first T steps and, at step T, the choice of a tail rule; a policy for `closed`.
    rules : tuple of TailRule
        The tail rules, one of which is followed from step T on.
    discount : Fraction
    limits : dict of str to (Fraction or None, Fraction or None)
        The upper and the lower limit of each tracked resource, at all steps.
    model : DiscountedCMDP or None
        The model itself, if known; not a part of the saved policy.
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
    def is_deterministic(self) -> bool:
        """Whether it takes one action at each node: always."""
        return True

    @property
    def steps(self) -> int:
        """Number of planned steps T, after which a tail rule is followed."""
        return self.finite.horizon - 1

    def closed(self, model: DiscountedCMDP | None = None, monitor: ResourceMonitor | None = None) -> CMDP:
        """Return the finite model that `finite` is a policy for; see `solvent.policy.tail.close`.

        Parameters
        ----------
        model : DiscountedCMDP, optional
            If not given, the policy's own.
        monitor : ResourceMonitor, optional
            Time and memory limits.

        Raises
        ------
        PolicyError
            If the policy was made for another model, or no model is known.
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

    def agent(
        self,
        model: DiscountedCMDP | None = None,
        *,
        seed: int = 0,
        step: int | None = None,
        state: Hashable = None,
        spent: SpentLike | None = None,
        snapshot: Mapping[str, Any] | None = None,
    ) -> DiscountedAgent:
        """Return an agent that follows this policy.

        Parameters
        ----------
        model : DiscountedCMDP, optional
            The model that observations are compared with; needed only if the policy was loaded without it.
        seed : int
            Random seed; not used, as the policy is deterministic.
        step, state, spent, snapshot
            Where it begins; see `Agent`. Amounts are discounted sums. After the planned steps only a snapshot says
            which tail rule is followed.
        """
        given = model or self.model
        return DiscountedAgent(self, given, seed=seed, step=step, state=state, spent=spent, snapshot=snapshot)

    def save(self, path: str | Path) -> None:
        """Write the policy to a file, atomically; `load_policy` reads it back."""
        from solvent.policy.writing import save_discounted

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
        return f"DiscountedPolicy({len(self.finite):,} nodes over {self.steps} steps, then {rules})"

    def _repr_html_(self) -> str:
        from solvent.policy.display import discounted_card

        return discounted_card(self)


def _closed(policy: DiscountedPolicy, model: Any, monitor: ResourceMonitor | None = None) -> CMDP:
    model = _check_kind(model)
    fits = model.discount == policy.discount and all(
        len(rule.action_S) == model.n_states and len(rule.most_DS) == model.n_resources for rule in policy.rules
    )
    closed = close(model, policy.steps, policy.rules, monitor) if fits else None
    if closed is None or closed.fingerprint != policy.finite.fingerprint:
        raise PolicyError(
            "policy", f"a policy for this model ({quote(model.name or 'unnamed')})", "one for another model"
        )
    return closed


class DiscountedFollower:
    """Follows the planned steps of a policy, then the tail rule that it chooses at their end.

    Parameters
    ----------
    policy : DiscountedPolicy
    model : DiscountedCMDP
        The model that the policy was made for.
    """

    limits = Limits((), (), ())  # those of a discounted model hold at all steps, and are kept by the agent

    def __init__(self, policy: DiscountedPolicy, model: DiscountedCMDP) -> None:
        self._rules, self._steps, self._discount = policy.rules, policy.steps, model.discount
        self._n_actions = model.base.n_actions
        self._finite = policy.finite.follower(policy.closed(model))
        self.rule: TailRule | None = None

    def reset(self) -> None:
        """Begin a new episode."""
        self._finite.reset()
        self.rule = None

    def resume(self, step: int, spent: Sequence[Fraction]) -> None:
        """Continue from a planned step before which these discounted amounts were spent."""
        if step > self._steps:
            raise PolicyError(
                "agent",
                f"a snapshot, which says which tail rule is followed after {self._steps} planned steps",
                f"the amounts spent before step {step}",
                "use policy.agent(snapshot=agent.snapshot())",
            )
        self._finite.resume(step, spent)
        self.rule = None

    def memory(self, spent: Sequence[Fraction]) -> dict[str, Any]:
        """Return the tail rule, if it was chosen, or what the planned steps need."""
        return self._finite.memory(spent) if self.rule is None else {"tail_rule": self.rule.name}

    def restore(self, step: int, spent: Sequence[Fraction], memory: Mapping[str, Any]) -> None:
        """Continue from a step before which these amounts were spent, with what `memory` returned."""
        rest = dict(memory)
        name = rest.pop("tail_rule", None)
        rules = {rule.name: rule for rule in self._rules}
        if name is None and step <= self._steps:
            self._finite.restore(step, spent, rest)
            self.rule = None
            return
        if not isinstance(name, str) or name not in rules or step < self._steps:
            known = " or ".join(map(quote, rules))
            expected = f"{known} from step {self._steps} on, and none before"
            raise PolicyError("snapshot, tail_rule", expected, f"{quote(name)} at step {step}")
        refuse_fields(rest)
        self._finite.reset()
        self.rule = rules[name]

    def choices(self, step: int, state: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Return position and probability of the action at the current node; None if there is no decision."""
        if step < self._steps:
            return self._finite.choices(step, state)
        if self.rule is None:
            chosen = self._finite.choices(self._steps, state)
            if chosen is None:
                return None
            self.rule = self._rules[int(chosen[0][0]) - self._n_actions]
        return self.rule.action_S[state : state + 1].astype(np.int64), np.ones(1)

    def no_decision(self, step: int, state: int, place: str) -> PolicyError:
        """Return the error for a node that is not in the table of planned steps."""
        return self._finite.no_decision(min(step, self._steps), state, place)

    def observe(self, step: int, costs: Sequence[Fraction]) -> None:
        """Count the discounted costs of a planned step."""
        if step < self._steps:
            scale = self._discount**step
            self._finite.observe(step, [scale * cost for cost in costs])

    def __copy__(self) -> DiscountedFollower:
        """Return a follower that continues from here independently."""
        twin = object.__new__(type(self))
        twin.__dict__ = {**self.__dict__, "_finite": copy.copy(self._finite)}
        return twin


class DiscountedAgent(Agent):
    """Follows a policy for a discounted model, without end; made by `policy.agent()`.

    It observes undiscounted costs. `spent` is their exact discounted sum, whose number of digits grows with the steps;
    it is computed when asked for.
    """

    _follower: DiscountedFollower
    _scale: Fraction | None

    def __init__(
        self,
        policy: DiscountedPolicy,
        model: DiscountedCMDP | None,
        *,
        seed: int = 0,
        step: int | None = None,
        state: Hashable = None,
        spent: SpentLike | None = None,
        snapshot: Mapping[str, Any] | None = None,
    ) -> None:
        if model is None:
            raise PolicyError(
                "agent", "the policy's model", "none", "use policy.agent(model), or load_policy(path, model)"
            )
        follower = DiscountedFollower(policy, _check_kind(model))
        self._bounds, self._discount = policy.limits, model.discount
        # one step of the model has the outcomes of all
        self._initial = initial_amounts(policy.finite.limits)
        self._follow(model.base, policy, follower, seed, step=step, state=state, spent=spent, snapshot=snapshot)

    def _go(self, beginning: Beginning) -> None:
        super()._go(beginning)
        self._added_up, self._scale = 0, None

    @property
    def spent(self) -> dict[str, Fraction]:
        """Amount spent so far of every resource: the discounted sum of costs."""
        for event in self._history[self._added_up :]:
            self._scale = self._discount**event.step if self._scale is None else self._scale * self._discount
            costs = event.cost.values()
            self._spent = [total + self._scale * cost for total, cost in zip(self._spent, costs, strict=True)]
        self._added_up = len(self._history)
        return dict(zip(self.model.resources, self._spent, strict=True))

    def _add(self, costs: Sequence[Fraction]) -> None:
        """Do nothing: costs are added when `spent` is asked for."""

    def _limited(self) -> tuple[str, ...]:
        return tuple(self._bounds)

    @property
    def _fingerprint(self) -> str:
        return str(self.policy.finite.fingerprint)

    def _last_step(self) -> int | None:
        return None

    @property
    def remaining(self) -> dict[str, Fraction]:
        """How much may still be spent of each limited resource, as an amount of step 0; see `Agent.remaining`."""
        spent, result = self.spent, {}
        for name, (upper, lower) in self._bounds.items():
            if upper is not None:
                result[name] = upper - spent[name]
            elif lower is not None:
                result[name] = spent[name] - lower
        return result

    @property
    def tail_rule(self) -> str | None:
        """Name of the tail rule that it follows; None during the planned steps."""
        return None if self._follower.rule is None else self._follower.rule.name

    @property
    def done(self) -> bool:
        """Whether the episode is over: only in a terminal state."""
        return self.model.is_terminal(0, self._state)

    def _rows(self) -> range:
        return self.model.rows(0, self._state)


def _check_kind(model: Any) -> DiscountedCMDP:
    if not isinstance(model, DiscountedCMDP):
        raise PolicyError("model", "the DiscountedCMDP that the policy was made for", quote(model))
    return model
