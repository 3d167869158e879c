"""`BudgetWrapper`: keeps an environment with discrete actions within a budget.

Before every step it computes which actions are safe, and it never executes any other. Amounts are tracked exactly;
observations contain them as floats.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact
from solvent.errors import ModelError, PolicyError, SolventError, quote
from solvent.gym.actions import Fallback, allowed, check_discrete, check_fallback, position, replacement
from solvent.gym.adapters import CostLike, CostReader, split_step
from solvent.gym.env import ModelEnv
from solvent.gym.layout import Layout, own_copy, remaining_space, step_space
from solvent.gym.sources import find_source
from solvent.model.amounts import short_amount
from solvent.model.budget import BudgetLike, SpentLike
from solvent.model.cmdp import CMDP
from solvent.model.cost_bounds import BoundLike
from solvent.model.metering import Spent
from solvent.model.resources import ResourceLike
from solvent.solvers.augmentation.mdp import AugmentedMDP
from solvent.solvers.curve import Curve


class BudgetWrapper(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
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
    "step", "action_mask" (int8), "dead_end" and "violation"; after a step also "action", the action taken. Masks of a
    model with a goal (`must_end_in`) allow only actions after which the goal can be reached for sure, and the episode
    can be kept within the budget.

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

    @property
    def passes_actions(self) -> bool:
        """Whether each action is executed once and unchanged: True unless a fallback replaces masked actions."""
        return self._fallback is None

    #: Tells `solvent.learn`, which keeps budgets itself, to refuse this wrapper.
    keeps_budget = True

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
    ) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(
            self, _disable_deepcopy=True, budget=budget, cost=cost, cost_bound=cost_bound, model=model, reserve=reserve,
            fallback=fallback, dead_start=dead_start, layout=layout, mask_in_observation=mask_in_observation, keys=keys,
            state=state, actions=actions, memory_limit=memory_limit, spent=spent, resources=resources,
        )  # fmt: skip
        if not isinstance(env, gymnasium.Env):
            hint = "pass what gymnasium.make(...) returns"
            raise ModelError("BudgetWrapper", "a Gymnasium environment", quote(env), hint)
        gymnasium.Wrapper.__init__(self, env)
        self._space = check_discrete(env.action_space, "BudgetWrapper")
        if dead_start not in ("raise", "end"):
            raise ModelError("dead_start", "'raise' or 'end'", quote(dead_start))
        self._fallback, self._dead_start = check_fallback(fallback, self._space), dead_start
        source = find_source(
            env, self._space, budget, model, cost_bound, reserve, state, actions, memory_limit, spent, resources
        )
        base = env.unwrapped
        self._model_env = base if isinstance(base, ModelEnv) else None
        self._tracker, self._masks = source.tracker, source.masks
        self._read, self._resources = CostReader(env, source.resources, cost), source.resources
        self._own_masks = source.horizon is None
        amounts = remaining_space(source.lows, source.highs)
        steps, n_actions = step_space(env, source.horizon), int(self._space.n)
        self._layout = Layout(env.observation_space, amounts, steps, n_actions, layout, mask_in_observation, keys)
        self.observation_space = self._layout.space
        self.violations = 0
        self._mask = np.zeros(n_actions, bool)
        self._cost = [Fraction(0)] * len(source.tracker.resources)
        self._refusal, self._inner, self._dead_end, self._violation = "no episode", None, False, False

    @property
    def spent(self) -> dict[str, Fraction]:
        """Exact amount spent, by resource; with what had been spent before the first step."""
        return self._tracker.spent

    @property
    def remaining(self) -> dict[str, Fraction]:
        """Exact amount that may still be spent before the next limit is reached, by resource.

        The next upper limit minus what was spent, as in `Agent.remaining`. For a resource with lower limits only: what
        was spent minus the next lower limit.
        """
        return self._tracker.remaining

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are safe now, as a new array.

        All False when the episode has terminated. After truncation, the actions that would be safe, for bootstrapping.
        """
        return self._mask.copy()

    def safe_actions(self) -> NDArray[np.int64]:
        """Return the numbers of the safe actions."""
        return np.flatnonzero(self._mask) + int(self._space.start)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with the whole budget.

        Raises
        ------
        SolventError
            If no action is safe at the start, unless `dead_start="end"`.
        UnmodeledOutcome
            If the model cannot start in that state.
        """
        self._refusal, self._mask = "no episode", np.zeros_like(self._mask)
        self._read.begin()
        observation, info = self.env.reset(seed=seed, options=options)
        self._tracker.reset()
        started = self._read.started()
        self._cost = self._exactly(started)
        self._inner, self._violation = own_copy(observation), False
        if started.steps:
            self._begin_with(started)
        self._masks.begin(self._inner)
        self._mask = self._allowed(info)
        over = self._masks.over
        self._dead_end = not self._mask.any() and not over
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
        self._refusal = "" if self._mask.any() or self._dead_end else "an episode that is over"
        return self._observe(observation), self._info(info)

    @property
    def _has_goal(self) -> bool:
        return self._model_env is not None and self._model_env.model.may_end is not None

    @property
    def _misses_goal(self) -> bool:
        """Whether the episode has ended outside the goal of the model, or of a `ModelEnv` inside."""
        return self._masks.goal_missed or (self._model_env is not None and self._model_env.goal_missed)

    def _begin_with(self, started: Spent) -> None:
        """Record what a wrapper inside spent in its `reset`."""
        high = self._cost if started.high is None else self._tracked(started.high)
        self._tracker.begin_with(self._cost)
        limits = [self._tracker.upper(d, 0) for d in range(len(high))]
        broken = any(limit is not None and most > limit for most, limit in zip(high, limits, strict=True))
        self.violations, self._violation = self.violations + broken, broken
        if not self._own_masks and any(self._cost):
            raise SolventError(
                f"reset: expected no cost before the first step, as in the model, found {self._left()}; "
                "a wrapper inside takes steps in its reset: pass cost_bound=... instead of a model"
            )

    def _exactly(self, spent: Spent) -> list[Fraction]:
        pairs = zip(self._resources, spent.reported, strict=True)
        return self._tracked([exact(cost, f"step, cost of {name}") for name, cost in pairs])

    def _tracked(self, costs: Sequence[Fraction]) -> list[Fraction]:
        return [costs[self._resources.index(name)] for name in self._tracker.resources]

    def _spend(self, costs: list[Fraction], spent: Spent) -> None:
        """Add the cost of a step to the tracker, and count a violation if it broke a limit."""
        self._cost = costs
        high, low = ((), ()) if spent.high is None or spent.low is None else map(self._tracked, (spent.high, spent.low))
        self._tracker.spend(costs, high, low)
        self._violation = self._tracker.broken
        self.violations += self._violation

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
        where = f"step {self._tracker.step}, {self._left()}"
        if self._refusal:
            raise PolicyError(where, "reset() first", self._refusal)
        if self._dead_end:
            self._refusal = "an episode that ended in a dead end"
            return self._observe(own_copy(self._inner)), 0.0, True, False, {**self._info({}), "action": None}
        chosen = position(action, self._space, where)
        if not self._mask[chosen]:
            if self._fallback is None:
                hint = "pass fallback=... to replace such actions"
                raise PolicyError(where, allowed(self._mask, self._space), quote(chosen + int(self._space.start)), hint)
            chosen = replacement(self._fallback, self._inner, self._mask, self._space, where)
        # after an error below, the amount spent is unknown, so the episode cannot continue
        self._refusal, self._mask = "an episode that ended with an error", np.zeros_like(self._mask)
        done = chosen + int(self._space.start)
        observation, reward, terminated, truncated, info, own = split_step(self.env.step(done))
        following = own_copy(observation)
        spent = self._read(self._inner, done, following, info, own)
        try:
            costs = list(self._masks.took(chosen, following, spent, terminated))
        except PolicyError:
            with contextlib.suppress(ModelError):  # the cost is not a number
                self._spend(self._exactly(spent), spent)  # it was spent even though it exceeds the bound
            raise
        self._spend(costs, spent)
        self._inner = following
        early = terminated and not self._masks.over and self._tracker.broken_later
        if not self._violation and (early or self._misses_goal):
            # if the environment ended before the model's horizon, nothing more is spent, and later limits still hold
            self._violation = True
            self.violations += 1
        ended = terminated or self._violation or self._masks.over
        if not ended:
            self._mask = self._allowed(info)
        self._dead_end = not (ended or truncated or self._mask.any())
        ended = ended or self._dead_end
        self._refusal = "an episode that is over" if ended or truncated else ""
        told = {**self._info(info), "action": done}
        return self._observe(observation), reward, ended, truncated, told

    def _allowed(self, info: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return the mask; without a model, combined with the environment's own `action_mask`."""
        mask = self._masks.mask()
        if self._own_masks and "action_mask" in info:
            own = np.asarray(info["action_mask"])
            if own.shape != mask.shape:
                raise ModelError("info, action_mask", f"shape {mask.shape}", f"shape {own.shape}")
            mask &= own.astype(bool)
        return mask

    def _observe(self, observation: Any) -> Any:
        remaining = [float(amount) for amount in self._tracker.remaining.values()]
        return self._layout(observation, remaining, self._tracker.step, self._mask)

    def _info(self, info: Mapping[str, Any]) -> dict[str, Any]:
        costs = {name: float(cost) for name, cost in zip(self._tracker.resources, self._cost, strict=True)}
        return {
            **info,
            "cost": float(sum(self._cost)),
            "costs": costs,
            "remaining": {name: float(amount) for name, amount in self._tracker.remaining.items()},
            "step": self._tracker.step,
            "action_mask": self._mask.astype(np.int8),
            "dead_end": self._dead_end,
            "violation": self._violation,
        }

    def _left(self) -> str:
        if not self._tracker.resources:
            return "no limits"
        return "remaining " + ", ".join(f"{name} {short_amount(x)}" for name, x in self._tracker.remaining.items())
