"""Reads the arguments of a `BudgetWrapper`: its limits, their tracker, and the source of its masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.errors import BudgetError, ModelError, quote
from solvent.gym.env import ModelEnv
from solvent.gym.exact_masks import ModelMasks, NodeRule, SafetyRule, choose_rule, plain_name
from solvent.gym.masks import BoundMasks
from solvent.gym.tracker import BudgetTracker, read_accounts, read_limits
from solvent.model.budget import resolve
from solvent.model.cmdp import CMDP
from solvent.model.cost_bounds import BoundLike
from solvent.model.discounted import check_model
from solvent.model.metering import Spent
from solvent.solvers.augmentation.mdp import AugmentedMDP
from solvent.solvers.curve import Curve


class Masks(Protocol):
    """Source of masks, which follows the episodes of one environment."""

    @property
    def learns(self) -> bool:
        """Whether the masks are learned, and so may be wrong."""

    @property
    def over(self) -> bool:
        """Whether the episode has ended, even if the environment continues."""

    @property
    def goal_missed(self) -> bool:
        """Whether the episode has ended in a state in which it must not end."""

    def begin(self, observation: Any) -> None:
        """Start an episode."""

    def mask(self) -> NDArray[np.bool_]:
        """Return which actions are allowed now, as an array that must not be changed."""

    def took(self, position: int, next_observation: Any, spent: Spent, terminated: bool) -> list[int]:
        """Record the outcome of an action and return its cost for each limited resource, in the tracker's ticks."""


@dataclass(frozen=True)
class Source:
    """The parts from which a wrapper is built.

    Attributes
    ----------
    tracker : BudgetTracker
    masks : Masks
    resources : tuple of str
        Resources whose costs are read; the tracker may track fewer.
    horizon : int or None
    lows, highs : list of float
        Bounds on `remaining` of each limited resource.
    """

    tracker: BudgetTracker
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
    spent: Any,
    resources: Any,
) -> Source:
    """Return the source of masks for the arguments of a `BudgetWrapper`."""
    base = env.unwrapped
    if model is None and cost_bound is None and isinstance(base, ModelEnv):
        model = base.model
    if model is not None:
        for name, given in (("cost_bound", cost_bound), ("reserve", reserve)):
            if given is not None:
                raise ModelError(name, "None if there is a model, whose masks are exact", quote(given))
        if resources is not None:
            raise ModelError("resources", "None if there is a model, which has floors and ceilings", quote(resources))
        return _from_model(base, space, budget, model, state, actions, memory_limit, spent)
    if cost_bound is None:
        raise ModelError(
            "BudgetWrapper",
            "a model, or a bound on the cost of actions",
            "neither",
            "pass model=... for exact masks, or cost_bound=...",
        )
    known = read_limits(budget, spent)
    tracker = BudgetTracker(known, read_accounts(resources, known))
    masks = BoundMasks(tracker, int(space.n), int(space.start), cost_bound, reserve)
    limits = [tracker.limit_range(d)[0] for d in range(len(tracker.resources))]
    lows = [
        -math.inf if masks.learns else float(min(Fraction(0), limit, limit - amount))
        for limit, amount in zip(limits, tracker.initial, strict=True)
    ]
    highs = [
        math.inf if account.floor is None else float(limit - account.floor)
        for limit, account in zip(limits, tracker.accounts, strict=True)
    ]
    return Source(tracker, masks, tracker.resources, None, lows, highs)


@dataclass(frozen=True)
class _NameOfState:
    """Returns the name of the state whose index is the observation of a `ModelEnv`."""

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
    spent: Any,
) -> Source:
    rule: SafetyRule
    if isinstance(given, AugmentedMDP):
        if budget is not None:
            raise BudgetError("budget", "None, since an augmented MDP has its own budget", quote(budget))
        if spent is not None:
            raise BudgetError("spent", "None, since an augmented MDP has its own initial amounts", quote(spent))
        model, limits, rule = given.model, given.limits, NodeRule(given)
    else:
        model = given.model if isinstance(given, Curve) else given
        if isinstance(given, Curve):
            if given.vary != "budget":
                hint = "pass the model itself, with budget=... and spent=..."
                raise ModelError("model", "a Curve over budgets", f"one over what remains of {given.resource}", hint)
            budget = {**dict.fromkeys(model.resources), **given.fixed_limits, **_of_curve(given, budget)}
        check_model(model)
        if spent is None and isinstance(base, ModelEnv) and base.model is model:
            spent = base.initial
        limits = resolve(model, budget, spent)
        rule = choose_rule(model, limits, budget, memory_limit, spent)
    if not limits.resources and model.may_end is None:
        raise BudgetError("budget", "a limit on at least one resource", quote(budget))
    tracker = BudgetTracker(limits, {name: model.resource(name) for name in limits.resources})
    first = int(space.start)
    own = isinstance(base, ModelEnv) and base.model is model
    names = list(model.actions if own else range(first, first + int(space.n))) if actions is None else list(actions)
    if len(names) != space.n:
        raise ModelError("actions", f"{space.n} names, one for each action of the environment", f"{len(names)}")
    name_of = state or (_NameOfState(model) if own else plain_name)
    masks = ModelMasks(model, rule, tracker, names, name_of)
    lows, highs = _range(model, tracker)
    return Source(tracker, masks, model.resources, model.horizon, lows, highs)


def _of_curve(curve: Curve, budget: Any) -> dict[str, Any]:
    if budget is None:
        raise BudgetError("budget", f"a budget of {curve.resource}", "none", "a curve has a value for every budget")
    if isinstance(budget, dict):
        if set(budget) != {curve.resource}:
            raise BudgetError("budget", f"a budget of {curve.resource} only, as in the curve", quote(budget))
        return budget
    return {curve.resource: budget}


def _range(model: CMDP, tracker: BudgetTracker) -> tuple[list[float], list[float]]:
    """Return lower and upper bounds on the remaining amount of each limited resource."""
    lows, highs = [], []
    for d, name in enumerate(tracker.resources):
        resource = model.resource_index(name)
        up, down = (ticks * model.cost[resource].unit for ticks in model.cost_sums[resource])
        account, initial = tracker.accounts[d], tracker.initial[d]
        lowest, highest = account.clamp(initial - down), account.clamp(initial + up)
        least, most = tracker.limit_range(d)
        ends = (least - highest, most - lowest) if tracker.counts_down(d) else (lowest - most, highest - least)
        lows.append(float(ends[0]))
        highs.append(float(ends[1]))
    return lows, highs
