"""`EarlyTermination`: ends an episode when its budget has been exceeded. It does not prevent that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium

from solvent.errors import ModelError, PolicyError, quote
from solvent.gym.account import FAILED, IS_OVER, NO_EPISODE, AccountWrapper
from solvent.gym.adapters import CostLike, CostReader, split_reset, split_step
from solvent.gym.dead_ends import DeadEndReward, longest_episode
from solvent.gym.layout import Layout, own_copy, remaining_space, step_space
from solvent.gym.norms import is_number
from solvent.gym.tracker import ONLY_WITH_MODEL, BudgetTracker, read_accounts, read_limits
from solvent.model.budget import BudgetLike, SpentLike
from solvent.model.resources import ResourceLike


class EarlyTermination(AccountWrapper):
    """End an episode at the first step after which more than the budget has been spent; this promises nothing.

    If costs do not depend on the action, as with contact forces or collisions that no action excludes, no mask can keep
    a budget. This wrapper is the usual substitute: it stops after the fact. The last step of such an episode is over
    budget, `info["violation"]` is true and `violations` counts it. Use `BudgetWrapper` or `ContinuousBudgetWrapper`
    wherever there is an upper bound on the cost of a step, also one that is the same for all actions: they end an
    episode before a step that could exceed the budget.

    Parameters
    ----------
    env : gymnasium.Env
        Environment with any action space.
    budget : number, Budget, or dict of them by resource
        One anytime upper limit per resource.
    cost : str, function, mapping or number, optional
        Cost of a step, as in `BudgetWrapper`.
    termination_reward : float
        Added to the reward of the step that ends an episode over budget.
    layout : {"dict", "flat"}
        Arrangement of observations: a Dict, or one flat Box.
    keys : mapping, optional
        Other names for "observation", "remaining" and "step".
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step.
    resources : sequence of Resource, optional
        Limited resources that saturate.

    Attributes
    ----------
    violations : int
        Number of episodes that exceeded the budget.

    Examples
    --------
    >>> lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    >>> env = EarlyTermination(lake, budget=2, cost=lambda state, action, after: after)  # paid by where it arrives
    >>> _ = env.reset(seed=1)
    >>> observation, reward, terminated, truncated, info = env.step(1)
    >>> terminated, info["violation"], env.remaining["cost"], env.violations
    (True, True, Fraction(-2, 1), 1)
    """

    #: It does not keep a budget.
    keeps_budget = False
    #: Each action is executed once and unchanged.
    passes_actions = True

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        budget: BudgetLike,
        cost: CostLike | None = None,
        *,
        termination_reward: float = 0.0,
        layout: Literal["dict", "flat"] = "dict",
        keys: Mapping[str, str] | None = None,
        spent: SpentLike | None = None,
        resources: Sequence[ResourceLike] | None = None,
    ) -> None:
        super().__init__(
            env, budget=budget, cost=cost, termination_reward=termination_reward, layout=layout, keys=keys, spent=spent,
            resources=resources,
        )  # fmt: skip
        known = read_limits(budget, spent, ONLY_WITH_MODEL)
        tracker = BudgetTracker(known, read_accounts(resources, known))
        reader = CostReader(env, tracker.resources, cost, type(self).__name__)
        longest, count = longest_episode(env), len(tracker.resources)
        if not (is_number(termination_reward) and math.isfinite(termination_reward)):
            raise ModelError("termination_reward", "a finite number", quote(termination_reward))
        reward = DeadEndReward(termination_reward, longest)
        amounts = remaining_space([-float("inf")] * count, [float("inf")] * count)
        arranged = Layout(env.observation_space, amounts, step_space(longest), None, layout, None, keys)
        self._open(tracker, reader, tracker.resources, arranged, reward)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with the whole budget."""
        self._refusal = NO_EPISODE
        self._read.begin()
        observation, info = split_reset(self.env.reset(seed=seed, options=options))
        self._inner = own_copy(observation)
        self._begin(self._read.started())
        self._refusal = ""
        return self._tell(observation, info, None, {})

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; the episode ends if more than the budget has been spent after it."""
        if self._refusal:
            raise PolicyError(self._where(), "reset() first", self._refusal)
        self._refusal = FAILED
        observation, reward, terminated, truncated, info, own = split_step(self.env.step(action))
        following = own_copy(observation)
        spent = self._read(self._inner, action, following, info, own)
        self._spend(self._tracker.to_ticks(self._exactly(spent)), spent)
        self._inner = following
        if self._violation:
            terminated, reward = True, reward + self._dead_end_reward(self._tracker.step)
        self._refusal = IS_OVER if terminated or truncated else ""
        seen, told = self._tell(observation, info, None, {})
        return seen, reward, terminated, truncated, told
