"""What learning returns: a policy, bounds on its value, and how it went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from solvent.errors import PolicyError, SolventError, quote
from solvent.model.cmdp import CMDP
from solvent.policy.table import AugmentedPolicy


class LearnStatus(StrEnum):
    """How learning ended."""

    WITHIN_EPSILON = "within_epsilon"
    LIMIT = "limit"
    INFEASIBLE = "infeasible"


class LearnProgress(NamedTuple):
    """How far learning was when a plan was made.

    Attributes
    ----------
    episodes : int
        Played so far.
    gap : float
        By how much the policy is short of the optimum, at most.
    value_lower, value_upper : float
        Of the policy, at least; of the optimum, at most.
    violations : int
        Episodes that broke a limit so far.
    nodes : int
        Of the graph.
    """

    episodes: int
    gap: float
    value_lower: float
    value_upper: float
    violations: int
    nodes: int

    def __str__(self) -> str:
        return (
            f"{self.episodes:>12,} {self.value_lower:>12.6g} {self.value_upper:>12.6g} {self.gap:>12.6g} "
            f"{self.violations:>10,} {self.nodes:>12,}"
        )


HEADER = f"{'episodes':>12} {'lower':>12} {'upper':>12} {'gap':>12} {'violations':>10} {'nodes':>12}"


@dataclass(frozen=True, eq=False)
class LearnResult:
    """What was learned.

    Attributes
    ----------
    status : LearnStatus
        "within_epsilon"; "limit" (stopped before the gap was closed: the policy is the best guess so far); "infeasible"
        (what is known to be possible leaves no policy that keeps the budget).
    value_lower : float
        What the policy is worth at least.
    value_upper : float
        What the optimum is worth at most.
    gap : float
        The bound that was compared with epsilon; `value_upper - value_lower`.
    guaranteed : bool
        Whether these bounds hold with probability at least 1 - delta: with `bonus="theory"`. Else they are estimates.
    episodes : int
    violations : int
        How many of them broke a limit, by an exact account of what really was spent. 0 with a known support or a bound
        on costs, unless costs are rounded down (`epsilon_cost` without `strict`).
    history : tuple of LearnProgress
        One for each plan.
    message : str
        What happened, and what to try.
    limit_reached : bool
        Whether `time_limit` or `memory_limit` ended it.
    checkpoint_error : str
        Why the last checkpoint could not be written; empty if it was, or none was asked for.
    """

    status: LearnStatus
    value_lower: float
    value_upper: float
    gap: float
    guaranteed: bool
    episodes: int
    violations: int
    history: tuple[LearnProgress, ...]
    message: str
    _make_policy: Callable[[], AugmentedPolicy] | None = field(default=None, repr=False)
    limit_reached: bool = False
    checkpoint_error: str = ""

    @cached_property
    def policy(self) -> AugmentedPolicy:
        """The policy; a `SolventError` if there is none."""
        if self._make_policy is None:
            raise SolventError(f"there is no policy: the status is {self.status.value!r}. {self.message}")
        return self._make_policy()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy in another process needs: the policy itself in place of how to make it."""
        state = dict(self.__dict__)
        if self._make_policy is not None:
            state |= {"policy": self.policy, "_make_policy": None}
        return state

    @property
    def log(self) -> str:
        """How the bounds closed, a line per plan."""
        return "\n".join([HEADER, *map(str, self.history)])

    def policy_for(self, model: CMDP) -> AugmentedPolicy:
        """Return the policy as one for a model whose states, actions and resources have the same names.

        For `solvent.verify`, where a model of the environment is known after all. A policy learned by seeing what
        happens decides nothing where it has never been.

        Raises
        ------
        PolicyError
            If the model has another horizon, or lacks a state or action of the policy.
        """
        return restate(self.policy, model)

    def __repr__(self) -> str:
        known = self.status is not LearnStatus.INFEASIBLE
        bounds = f"value {self.value_lower:.6g} to {self.value_upper:.6g}, " if known else ""
        return f"LearnResult({self.status.value}, {bounds}{self.episodes:,} episodes, {self.violations:,} violations)"


def restate(policy: AugmentedPolicy, model: CMDP) -> AugmentedPolicy:
    """Return a policy as one for another model, by the names of states and actions.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.solvers.solve import solve
    >>> dear, cheap = (instances.knapsack([3, price], [2, 3], capacity=4) for price in (9, 1))
    >>> restate(solve(dear).policy, cheap).fingerprint == cheap.fingerprint
    True
    """
    if model.horizon != policy.horizon:
        raise PolicyError("model", f"a horizon of {policy.horizon}", str(model.horizon))
    places = {name: i for i, name in enumerate(model.states)}
    actions = {name: i for i, name in enumerate(model.actions)}
    used = np.unique(policy.action_N).tolist()
    for kind, known, names in (
        ("state", places, [policy.states[s] for s in np.unique(policy.group_state).tolist()]),
        ("action", actions, [policy.actions[a] for a in used]),
    ):
        missing = [name for name in names if name not in known]
        if missing:
            raise PolicyError("model", f"every {kind} the policy decides on", f"no {kind} {quote(missing[0])}")
    new_action = np.zeros(len(policy.actions), np.int64)
    new_action[used] = [actions[policy.actions[a]] for a in used]
    layers, settled = [], []
    shape = (model.n_states, len(policy.resources))
    for step in range(policy.horizon):
        groups = slice(int(policy.step_indptr[step]), int(policy.step_indptr[step + 1]))
        states = np.array([places[policy.states[s]] for s in policy.group_state[groups].tolist()], np.int64)
        ends = policy.node_indptr[groups.start : groups.stop + 1]
        nodes = slice(int(ends[0]), int(ends[-1]))
        layers.append((np.repeat(states, np.diff(ends)), policy.spent_ND[nodes], new_action[policy.action_N[nodes]]))
        low, high = np.ones(shape, np.int64), np.zeros(shape, np.int64)
        if policy.settled_low_GD is not None and policy.settled_high_GD is not None:
            low[states], high[states] = policy.settled_low_GD[groups], policy.settled_high_GD[groups]
        settled.append((low, high))
    kept = None if policy.settled_low_GD is None else settled
    return AugmentedPolicy.from_nodes(
        model, policy, policy.limits, layers=layers, settled=kept, lookup=policy.lookup, counting=policy.counting
    )
