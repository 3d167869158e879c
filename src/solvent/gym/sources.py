"""Reading what a `BudgetWrapper` is given: limits, an account of them, and where its masks come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.errors import BudgetError, ModelError, quote
from solvent.gym.account import Account, read_limits
from solvent.gym.env import ModelEnv
from solvent.gym.exact_masks import Judge, ModelMasks, Nodes, judge_of, plain_name
from solvent.gym.masks import BoundMasks
from solvent.model.budget import resolve
from solvent.model.cmdp import CMDP, check_model
from solvent.model.cost_bounds import BoundLike
from solvent.model.metering import Spent
from solvent.solvers.augmentation.mdp import AugmentedMDP
from solvent.solvers.curve import Curve


class Masks(Protocol):
    """Where masks come from; one object follows one environment."""

    @property
    def learns(self) -> bool:
        """Whether masks may be wrong while they are learned."""

    @property
    def over(self) -> bool:
        """Whether the episode is over, whatever the environment says."""

    def begin(self, observation: Any) -> None:
        """Begin an episode."""

    def mask(self) -> NDArray[np.bool_]:
        """Return which actions are allowed now, in a new array."""

    def took(self, position: int, next_observation: Any, spent: Spent, terminated: bool) -> Any:
        """Take in what came of an action and return what it cost of each limited resource, exactly."""


@dataclass(frozen=True)
class Source:
    """What a wrapper works with.

    Attributes
    ----------
    account : Account
    masks : Masks
    resources : tuple of str
        Those whose costs are read; the account may track fewer.
    horizon : int or None
    lows, highs : list of float
        Between what values `remaining` of each limited resource lies.
    """

    account: Account
    masks: Masks
    resources: tuple[str, ...]
    horizon: int | None
    lows: list[float]
    highs: list[float]


def find_source(
    env: gymnasium.Env[Any, Any],
    space: gymnasium.spaces.Discrete,
    budget: Any,
    model: Any,
    cost_bound: BoundLike,
    reserve: BoundLike,
    state: Callable[[Any], Hashable] | None,
    actions: Sequence[Hashable] | None,
    memory_limit: int | str | None,
) -> Source:
    """Return the source of masks that the arguments of a `BudgetWrapper` ask for."""
    base = env.unwrapped
    if model is None and cost_bound is None and isinstance(base, ModelEnv):
        model = base.model
    if model is not None:
        for name, given in (("cost_bound", cost_bound), ("reserve", reserve)):
            if given is not None:
                raise ModelError(name, "nothing beside a model, whose masks are exact", quote(given))
        return _from_model(base, space, budget, model, state, actions, memory_limit)
    if cost_bound is None:
        raise ModelError(
            "BudgetWrapper",
            "a model, or a bound on what actions cost",
            "neither",
            "pass model=... for exact masks, or cost_bound=..., without which nothing can be promised",
        )
    account = Account(read_limits(budget))
    masks = BoundMasks(account, int(space.n), int(space.start), cost_bound, reserve)
    limits = [float(account.limit_range(d)[0]) for d in range(len(account.resources))]
    lows = [-math.inf if masks.learns else min(0.0, limit) for limit in limits]
    return Source(account, masks, account.resources, None, lows, [math.inf] * len(lows))


@dataclass(frozen=True)
class _NameOfState:
    """The state that an observation of a model's own environment is the number of."""

    model: CMDP

    def __call__(self, observation: Any) -> Hashable:
        return self.model.states[int(observation)]


def _from_model(
    base: Any,
    space: gymnasium.spaces.Discrete,
    budget: Any,
    given: CMDP | Curve | AugmentedMDP,
    state: Callable[[Any], Hashable] | None,
    actions: Sequence[Hashable] | None,
    memory_limit: int | str | None,
) -> Source:
    judge: Judge
    if isinstance(given, AugmentedMDP):
        if budget is not None:
            raise BudgetError("budget", "None, as an augmented MDP carries its own", quote(budget))
        model, limits, judge = given.model, given.limits, Nodes(given)
    else:
        model = given.model if isinstance(given, Curve) else given
        if isinstance(given, Curve):
            budget = {**dict.fromkeys(model.resources), **_of_curve(given, budget)}
        check_model(model)
        limits = resolve(model, budget)
        judge = judge_of(model, limits, budget, memory_limit)
    if not limits.resources:
        raise BudgetError("budget", "a limit on at least one resource", quote(budget))
    account = Account(limits)
    first = int(space.start)
    own = isinstance(base, ModelEnv) and base.model is model
    names = list(model.actions if own else range(first, first + int(space.n))) if actions is None else list(actions)
    if len(names) != space.n:
        raise ModelError("actions", f"{space.n} names, one for each action of the environment", f"{len(names)}")
    name_of = state or (_NameOfState(model) if own else plain_name)
    masks = ModelMasks(model, judge, account, names, name_of)
    lows, highs = _range(model, account)
    return Source(account, masks, model.resources, model.horizon, lows, highs)


def _of_curve(curve: Curve, budget: Any) -> dict[str, Any]:
    if budget is None:
        raise BudgetError("budget", f"a budget of {curve.resource}", "none", "a curve speaks of every budget")
    if isinstance(budget, dict):
        if set(budget) != {curve.resource}:
            raise BudgetError("budget", f"a budget of {curve.resource} only, as the curve's", quote(budget))
        return budget
    return {curve.resource: budget}


def _range(model: CMDP, account: Account) -> tuple[list[float], list[float]]:
    """Return between what values what remains of each limited resource lies."""
    lows, highs = [], []
    for d, name in enumerate(account.resources):
        resource = model.resource_index(name)
        up, down = (ticks * model.cost[resource].unit for ticks in model.cost_sums[resource])
        least, most = account.limit_range(d)
        ends = (least - up, most + down) if account.counts_down(d) else (-down - most, up - least)
        lows.append(float(ends[0]))
        highs.append(float(ends[1]))
    return lows, highs
