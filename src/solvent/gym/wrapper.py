"""`BudgetWrapper`: keeps an environment with discrete actions within a budget.

Before every step it computes which actions are safe, and it never executes any other. Amounts are tracked exactly;
observations contain them as floats.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.errors import ModelError, PolicyError, SolventError, quote
from solvent.gym.account import DEAD, FAILED, IS_OVER, NO_EPISODE, AccountWrapper
from solvent.gym.actions import Fallback, allowed, check_discrete, check_fallback, position, replacement
from solvent.gym.adapters import CostLike, CostReader, split_reset, split_step
from solvent.gym.dead_ends import DeadEndReward, longest_episode
from solvent.gym.env import ModelEnv
from solvent.gym.layout import Layout, own_copy, remaining_space, step_space
from solvent.gym.own_masks import OwnMask, OwnMaskLike
from solvent.gym.sources import find_source
from solvent.model.budget import BudgetLike, SpentLike
from solvent.model.cmdp import CMDP
from solvent.model.cost_bounds import BoundLike
from solvent.model.resources import ResourceLike
from solvent.solvers.augmentation.mdp import AugmentedMDP
from solvent.solvers.curve import Curve

#: Types of actions that need no further checks.
_INTEGERS = frozenset([int, np.int64, np.int32])


class BudgetWrapper(AccountWrapper):
    """Keep an environment within a budget: at any step, under any outcome.

    Parameters
    ----------
    env : gymnasium.Env
        Environment with a `Discrete` action space.
    budget : number, Budget, or dict of them by resource
        With a model: any budget of that model, or None for the model's own. Without: one anytime upper limit per
        resource.
    cost : str, function, mapping or number, optional
        Cost of a step: a key of `info`, a function of (observation, action, next observation), or a constant. Default:
        the first available of a `CostMeter` inside, the sixth value of `step`, `info["costs"]`, `info["cost"]`.
        Wrappers inside that may change or repeat actions are refused unless a meter is below them.
    cost_bound : function, numbers or CostSupport, optional
        Upper bound on the cost of an action: a function of (observation, action), a number, an array by action (and
        observation), or an object that learns it. Infinity or None forbids an action.
    model : CMDP, Curve or AugmentedMDP, optional
        Model for exact masks. Default: the model of a `ModelEnv`, unless `cost_bound` is given.
    reserve : function or numbers, optional
        With `cost_bound`: amount that must remain after an action, as a function of (observation, action) or numbers.
        Negative amounts count as 0.
    fallback : None, "first", int or function
        What to do with a masked action. None raises a `PolicyError`; "first" takes the first safe action, a number
        takes that action, and a function of (observation, mask) returns the action to take.
    dead_start : {"raise", "end"}
        What `reset` does if no action is safe at the start: raise an error, or return with `info["dead_end"]` set. In
        the latter case the first step ends the episode and does nothing. An episode that is over at the start, outside
        the goal or with more spent than a later limit allows, raises an error as well, or has `info["violation"]` set.
    layout : {"dict", "flat", "rllib", "pettingzoo"}
        Arrangement of observations: a Dict, one flat Box, or a Dict of that Box and the mask.
    mask_in_observation : bool, optional
        Whether observations include the mask. Default: only in the last two layouts.
    keys : mapping, optional
        Other names for "observation", "remaining", "step" and "action_mask".
    state : function of an observation, optional
        Returns the model's name of a state. Default: the observation itself.
    actions : sequence, optional
        The model's names of the environment's actions, in order. Default: their numbers.
    memory_limit : int or str, optional
        Memory for exact masks: bytes, or text such as "8GB".
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step. Default: nothing, or as in a `ModelEnv` inside.
    resources : sequence of Resource, optional
        With `cost_bound`: limited resources that saturate, such as `Resource("fuel", floor=0)` for a tank that takes no
        more when it is full. A model says this itself.
    dead_end_reward : float, optional
        Added to the reward of a step that ends in a dead end. Default: `min(r, 0) * (T - t)`, where r is the lowest
        reward seen so far, T the time limit (1,000 if there is none) and t the number of steps taken: no continuation
        with rewards of at least r earns less, so that a dead end does not attract. 0 for no such reward.
    own_mask : False, str or function, optional
        Where the environment's own mask is; both masks must allow an action. Default: `info["action_mask"]`,
        `observation["action_mask"]` and the environment's `action_masks()`, whichever exist; with a model none, since
        the model defines the available actions. False for none; a key of `info` or of the observation; or a function
        of (observation, info).

    Attributes
    ----------
    violations : int
        Number of steps so far that broke a limit, in exact numbers, or ended an episode outside the model's goal. Other
        than 0 only if costs are learned, if a stated bound or model was wrong (which also raises an error), if masks
        from `cost_bound` do not know the goal of a `ModelEnv`, if an episode is over at its start, or if a wrapper
        inside spends in its `reset` or takes several steps at once that the model does not describe.

    Notes
    -----
    After `reset` and every `step`, `info` has "cost" (float), "costs" and "remaining" (dicts of floats by resource),
    "step", "action_mask" (int8), "dead_end" and "violation"; after a step also "action", the action taken, and at a
    dead end "dead_end_reward". Masks of a model with a goal (`must_end_in`) allow only actions after which the goal can
    be reached for sure, and the episode can be kept within the budget. A mask in the environment's own observation,
    under "action_mask" of a Dict, is replaced by the combined mask.

    Examples
    --------
    >>> from solvent.gym.env import ModelEnv
    >>> from solvent.model import instances
    >>> env = BudgetWrapper(ModelEnv(instances.knapsack([60, 100], [10, 20])), budget=20)
    >>> observation, info = env.reset()
    >>> observation["remaining"], env.action_masks()
    (array([20.], dtype=float32), array([ True,  True]))
    >>> observation, reward, terminated, truncated, info = env.step(1)
    >>> env.remaining, info["action_mask"]
    ({'weight': Fraction(10, 1)}, array([1, 0], dtype=int8))
    >>> env.step(1)
    Traceback (most recent call last):
    ...
    solvent.errors.PolicyError: step 1, remaining weight 10: expected an action the mask allows (0), found 1; pass
    fallback=... to replace such actions
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        budget: BudgetLike | None = None,
        cost: CostLike | None = None,
        cost_bound: BoundLike = None,
        model: CMDP | Curve | AugmentedMDP | None = None,
        *,
        reserve: BoundLike = None,
        fallback: Fallback = None,
        dead_start: Literal["raise", "end"] = "raise",
        layout: Literal["dict", "flat", "rllib", "pettingzoo"] = "dict",
        mask_in_observation: bool | None = None,
        keys: Mapping[str, str] | None = None,
        state: Callable[[Any], Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        memory_limit: int | str | None = None,
        spent: SpentLike | None = None,
        resources: Sequence[ResourceLike] | None = None,
        dead_end_reward: float | None = None,
        own_mask: OwnMaskLike = None,
    ) -> None:
        super().__init__(
            env, budget=budget, cost=cost, cost_bound=cost_bound, model=model, reserve=reserve, fallback=fallback,
            dead_start=dead_start, layout=layout, mask_in_observation=mask_in_observation, keys=keys, state=state,
            actions=actions, memory_limit=memory_limit, spent=spent, resources=resources,
            dead_end_reward=dead_end_reward, own_mask=own_mask,
        )  # fmt: skip
        self._space = check_discrete(env.action_space, "BudgetWrapper")
        self._first, self._n_actions = int(self._space.start), int(self._space.n)
        if dead_start not in ("raise", "end"):
            raise ModelError("dead_start", "'raise' or 'end'", quote(dead_start))
        self._fallback, self._dead_start = check_fallback(fallback, self._space), dead_start
        source = find_source(
            env, self._space, budget, model, cost_bound, reserve, state, actions, memory_limit, spent, resources
        )
        base = env.unwrapped
        self._model_env = base if isinstance(base, ModelEnv) else None
        self._masks = source.masks
        # a model defines the available actions itself
        asked = False if own_mask is None and source.horizon is not None else own_mask
        self._own_mask, self._by_bounds = OwnMask(env, asked, self._n_actions), source.horizon is None
        reader = CostReader(env, source.resources, cost)
        longest = longest_episode(env, source.horizon)
        amounts = remaining_space(source.lows, source.highs)
        arranged = Layout(
            env.observation_space, amounts, step_space(longest), self._n_actions, layout, mask_in_observation, keys
        )
        self._open(source.tracker, reader, source.resources, arranged, DeadEndReward(dead_end_reward, longest))
        self._none, self._all = _constant(False, self._n_actions), _constant(True, self._n_actions)
        self._mask = self._none
        self._alive = False  # whether the mask allows anything

    @property
    def passes_actions(self) -> bool:
        """Whether each action is executed once and unchanged: True unless a fallback replaces masked actions."""
        return self._fallback is None

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are safe now, as a new array.

        All True when the episode has ended and no action will be executed, so that the mask of a last observation is
        never empty; `safe_actions` is empty then. After truncation, the actions that would be safe, for bootstrapping.
        """
        return self._shown.copy()

    @property
    def _shown(self) -> NDArray[np.bool_]:
        """The mask that agents see."""
        return self._mask if self._alive else self._all

    def safe_actions(self) -> NDArray[np.int64]:
        """Return the numbers of the safe actions; none when the episode has terminated."""
        return np.flatnonzero(self._mask) + self._first

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with the whole budget.

        Raises
        ------
        SolventError
            If no action is safe at the start, unless `dead_start="end"`.
        UnmodeledOutcome
            If the model cannot start in that state.
        """
        self._refusal, self._mask, self._alive = NO_EPISODE, self._none, False
        self._read.begin()
        observation, info = split_reset(self.env.reset(seed=seed, options=options))
        self._inner = own_copy(observation)
        self._begin(self._read.started())
        if not self._by_bounds and any(self._costs):
            raise SolventError(
                f"reset: expected no cost before the first step, as in the model, found {self._left()}; "
                "a wrapper inside takes steps in its reset: pass cost_bound=... instead of a model"
            )
        self._masks.begin(self._inner)
        self._allow(info)
        over = self._masks.over
        self._dead_end = not self._alive and not over
        # an episode that is over at once breaks a later limit, or misses the goal
        lost = over and (self._misses_goal or self._tracker.broken_later)
        if (self._dead_end or lost) and self._dead_start == "raise":
            can = "the budget can be kept" + (" and the goal reached" if self._has_goal else "")
            found = "the end of the episode" if lost else "no safe action"
            raise SolventError(
                f"reset: expected a start from which {can}, found {found} with {self._left()}; "
                f"raise the budget, or pass dead_start='end' to end such episodes at once"
            )
        if lost:
            self._violation, self.violations = True, self.violations + 1
        self._refusal = "" if self._alive or self._dead_end else IS_OVER
        return self._tell(observation, info, self._shown, {})

    @property
    def _has_goal(self) -> bool:
        return self._model_env is not None and self._model_env.model.may_end is not None

    @property
    def _misses_goal(self) -> bool:
        """Whether the episode has ended outside the goal of the model, or of a `ModelEnv` inside."""
        return self._masks.goal_missed or (self._model_env is not None and self._model_env.goal_missed)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a safe action.

        Raises
        ------
        PolicyError
            If the action is masked and there is no fallback, the episode has ended, or a cost exceeds its bound.
        UnmodeledOutcome
            If the outcome is impossible in the model.
        ModelError
            If the cost is missing.
        """
        if self._refusal:
            raise PolicyError(self._where(), "reset() first", self._refusal)
        if self._dead_end:
            self._refusal = DEAD
            seen, told = self._tell(own_copy(self._inner), {}, self._shown, {"action": None})
            return seen, 0.0, True, False, told
        chosen = self._position(action)
        # after an error below, the amount spent is unknown, so the episode cannot continue
        self._refusal, self._mask, self._alive = FAILED, self._none, False
        done = chosen + self._first
        observation, reward, terminated, truncated, info, own = split_step(self.env.step(done))
        following = own_copy(observation)
        spent = self._read(self._inner, done, following, info, own)
        try:
            costs = self._masks.took(chosen, following, spent, terminated)
        except PolicyError:
            with contextlib.suppress(ModelError):  # the cost is not a number
                # it was spent even though it exceeds the bound
                self._spend(self._tracker.to_ticks(self._exactly(spent)), spent)
            raise
        self._spend(costs, spent)
        self._inner = following
        ended = terminated or self._violation or self._masks.over
        if ended and not self._violation:
            early = terminated and not self._masks.over and self._tracker.broken_later
            if early or self._misses_goal:
                # the environment ended before the model's horizon: nothing more is spent, and later limits still hold
                self._violation = True
                self.violations += 1
        if not ended:
            self._allow(info)
        self._dead_end = not (ended or truncated or self._alive)
        ended = ended or self._dead_end
        self._refusal = IS_OVER if ended or truncated else ""
        reward, more = self._paid(reward)
        seen, told = self._tell(observation, info, self._shown, {"action": done, **more})
        return seen, reward, ended, truncated, told

    def _position(self, action: Any) -> int:
        """Return the position of the action to execute: the given one, or its replacement if it is masked."""
        if type(action) in _INTEGERS:
            chosen = int(action) - self._first
            if not 0 <= chosen < self._n_actions:
                raise PolicyError(self._where(), f"an action of {self._space}", quote(action))
        else:
            chosen = position(action, self._space, self._where())
        if self._mask[chosen]:
            return chosen
        if self._fallback is None:
            hint = "pass fallback=... to replace such actions"
            raise PolicyError(self._where(), allowed(self._mask, self._space), quote(chosen + self._first), hint)
        return replacement(self._fallback, self._inner, self._mask, self._space, self._where())

    def _allow(self, info: Mapping[str, Any]) -> None:
        """Compute the mask, combined with the environment's own."""
        mask, own = self._masks.mask(), self._own_mask(self._inner, info)
        self._mask = mask if own is None else mask & own
        self._alive = b"\x01" in self._mask.tobytes()  # faster than any() for the few actions of most environments


def _constant(value: bool, n_actions: int) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = np.full(n_actions, value)
    mask.flags.writeable = False
    return mask
