"""`BudgetWrapper`: any environment with numbered actions, kept within a budget.

Before every step it says which actions are safe; a step that is not is never taken. The account is exact, and what an
agent is shown of it are floats of that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact
from solvent.errors import ModelError, PolicyError, SolventError, quote
from solvent.gym.actions import Fallback, allowed, check_discrete, check_fallback, position, replacement
from solvent.gym.adapters import CostLike, CostReader, split_step
from solvent.gym.layout import Layout, own_copy, remaining_space, step_space
from solvent.gym.sources import find_source
from solvent.model.amounts import short_amount
from solvent.model.cost_bounds import BoundLike
from solvent.model.metering import Spent


class BudgetWrapper(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Keeps an environment within its budget: at no step over, under no luck.

    Parameters
    ----------
    env : gymnasium.Env
        With a `Discrete` action space.
    budget : number, Budget, or dict of them by resource
        With a model any budget of it, or None for its own; else one anytime upper limit per resource.
    cost : str, function, mapping or number, optional
        What a step costs: a key of `info`, a function of (observation, action, next observation), or the same each
        time. If not given: what a `CostMeter` inside measures, or else `step` returns as a sixth value, or else
        `info["costs"]` (several resources) or `info["cost"]`. Wrappers inside that may change or repeat actions are
        refused unless there is a meter below them.
    cost_bound : function, numbers or CostSupport, optional
        The most that an action can cost: a function of (observation, action), one number, an array by action (and
        observation), or an object that learns it. Infinity or None forbids an action.
    model : CMDP, Curve or AugmentedMDP, optional
        Makes exact masks: safe to take and to continue from. That of a `ModelEnv`, if neither is given.
    reserve : function or numbers, optional
        Beside a bound: what must be left after an action, as a function of (observation, action) or numbers; below 0
        it counts as 0.
    fallback : None, "first", int or function
        What replaces a masked action: None refuses it with a `PolicyError`; "first" takes the first safe one, a number
        that action, and a function of (observation, mask) chooses one.
    dead_start : {"raise", "end"}
        What `reset` does if nothing is safe from the beginning: raise, or return `info["dead_end"]`, after which any
        step ends the episode and does nothing.
    layout : {"dict", "flat", "rllib", "pettingzoo"}
        How observations are arranged: a Dict, one flat Box, or a Dict of that Box and the mask.
    mask_in_observation : bool, optional
        Whether the mask is a part of observations; if not given, only in the last two layouts.
    keys : mapping, optional
        Other names for "observation", "remaining", "step" and "action_mask".
    state : function of an observation, optional
        The model's name of a state; if not given, the observation itself.
    actions : sequence, optional
        The model's names of the environment's actions, in order; if not given, their numbers.
    memory_limit : int or str, optional
        For exact masks: bytes, or text such as "8GB".

    Attributes
    ----------
    violations : int
        Steps that broke a limit so far, by an exact account of what really was spent; can be other than 0 only while
        costs are learned, or if a stated bound or model was wrong, which raises, or if a wrapper inside spends in its
        `reset` or takes several steps at once of which the model says nothing.

    Notes
    -----
    `info` has, after `reset` and every `step`: "cost" (float), "costs" and "remaining" (dicts of floats by resource),
    "step", "action_mask" (int8), "dead_end" and "violation". After a step also "action", what was done.

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
    fallback=... to have such actions replaced
    """

    @property
    def passes_actions(self) -> bool:
        """Whether each action is taken once and as it is: unless a fallback replaces those that are masked."""
        return self._fallback is None

    #: Tells `solvent.learn`, which keeps budgets itself, that it should be given what is inside.
    keeps_budget = True

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        budget: Any = None,
        cost: CostLike = None,
        cost_bound: BoundLike = None,
        model: Any = None,
        *,
        reserve: BoundLike = None,
        fallback: Fallback = None,
        dead_start: str = "raise",
        layout: str = "dict",
        mask_in_observation: bool | None = None,
        keys: Mapping[str, str] | None = None,
        state: Callable[[Any], Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        memory_limit: int | str | None = None,
    ) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(
            self, _disable_deepcopy=True, budget=budget, cost=cost, cost_bound=cost_bound, model=model, reserve=reserve,
            fallback=fallback, dead_start=dead_start, layout=layout, mask_in_observation=mask_in_observation, keys=keys,
            state=state, actions=actions, memory_limit=memory_limit,
        )  # fmt: skip
        if not isinstance(env, gymnasium.Env):
            hint = "pass what gymnasium.make(...) returns"
            raise ModelError("BudgetWrapper", "a Gymnasium environment", quote(env), hint)
        gymnasium.Wrapper.__init__(self, env)
        self._space = check_discrete(env.action_space, "BudgetWrapper")
        if dead_start not in ("raise", "end"):
            raise ModelError("dead_start", "'raise' or 'end'", quote(dead_start))
        self._fallback, self._dead_start = check_fallback(fallback, self._space), dead_start
        source = find_source(env, self._space, budget, model, cost_bound, reserve, state, actions, memory_limit)
        self._account, self._masks = source.account, source.masks
        self._read, self._resources = CostReader(env, source.resources, cost), source.resources
        self._own_masks = source.horizon is None
        amounts = remaining_space(source.lows, source.highs)
        steps, n_actions = step_space(env, source.horizon), int(self._space.n)
        self._layout = Layout(env.observation_space, amounts, steps, n_actions, layout, mask_in_observation, keys)
        self.observation_space = self._layout.space
        self.violations = 0
        self._mask = np.zeros(n_actions, bool)
        self._cost = [Fraction(0)] * len(source.account.resources)
        self._refusal, self._inner, self._dead_end, self._violation = "no episode", None, False, False

    @property
    def spent(self) -> dict[str, Fraction]:
        """What was spent since the episode began, exactly."""
        return self._account.spent

    @property
    def remaining(self) -> dict[str, Fraction]:
        """What may still be spent, exactly; for a resource with lower limits only, the distance to the next."""
        return self._account.remaining

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are safe now, in a new array.

        All False when the episode has ended; after one that was truncated, what would be safe, to bootstrap from.
        """
        return self._mask.copy()

    def safe_actions(self) -> NDArray[np.int64]:
        """Return the safe actions by number, to choose from; as many as `action_masks` has."""
        return np.flatnonzero(self._mask) + int(self._space.start)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the whole budget.

        Raises
        ------
        SolventError
            If no action is safe there, unless `dead_start="end"`.
        UnmodeledOutcome
            If the model does not begin there.
        """
        self._refusal, self._mask = "no episode", np.zeros_like(self._mask)
        self._read.begin()
        observation, info = self.env.reset(seed=seed, options=options)
        self._account.reset()
        begun = self._read.begun()
        self._cost = self._exactly(begun)
        self._inner, self._violation = own_copy(observation), False
        if begun.steps:
            self._begin_with(begun)
        self._masks.begin(self._inner)
        self._mask = self._allowed(info)
        self._dead_end = not self._mask.any() and not self._masks.over
        if self._dead_end and self._dead_start == "raise":
            raise SolventError(
                f"reset: expected a start from which the budget can be kept, found no safe action with "
                f"{self._left()}; raise the budget, or pass dead_start='end' to have such episodes end at once"
            )
        self._refusal = "" if self._mask.any() or self._dead_end else "an episode that is over"
        return self._seen(observation), self._told(info)

    def _begin_with(self, begun: Spent) -> None:
        """Take in what a wrapper inside spent in its `reset`."""
        high = self._cost if begun.high is None else self._tracked(begun.high)
        self._account.begin_with(self._cost)
        limits = [self._account.upper(d, 0) for d in range(len(high))]
        broken = any(limit is not None and most > limit for most, limit in zip(high, limits, strict=True))
        self.violations, self._violation = self.violations + broken, broken
        if not self._own_masks and any(self._cost):
            raise SolventError(
                f"reset: expected nothing to be spent before the first step, as the model says, found {self._left()}; "
                "a wrapper inside takes steps in its reset: pass cost_bound=... instead of a model"
            )

    def _exactly(self, spent: Spent) -> list[Fraction]:
        pairs = zip(self._resources, spent.reported, strict=True)
        return self._tracked([exact(cost, f"step, cost of {name}") for name, cost in pairs])

    def _tracked(self, costs: Sequence[Fraction]) -> list[Fraction]:
        return [costs[self._resources.index(name)] for name in self._account.resources]

    def _spend(self, costs: list[Fraction], spent: Spent) -> None:
        """Take a step into the account, and count it if that broke a limit."""
        self._cost = costs
        high, low = ((), ()) if spent.high is None or spent.low is None else map(self._tracked, (spent.high, spent.low))
        self._account.spend(costs, high, low)
        self._violation = self._account.broken
        self.violations += self._violation

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a safe action.

        Raises
        ------
        PolicyError
            If the action is masked and there is no fallback, the episode is over, or a cost is above its bound.
        UnmodeledOutcome
            If what came of it is impossible in the model.
        ModelError
            If there is no cost where it was looked for.
        """
        where = f"step {self._account.step}, {self._left()}"
        if self._refusal:
            raise PolicyError(where, "reset() first", self._refusal)
        if self._dead_end:
            self._refusal = "an episode that ended in a dead end"
            return self._seen(own_copy(self._inner)), 0.0, True, False, {**self._told({}), "action": None}
        chosen = position(action, self._space, where)
        if not self._mask[chosen]:
            if self._fallback is None:
                hint = "pass fallback=... to have such actions replaced"
                raise PolicyError(where, allowed(self._mask, self._space), quote(chosen + int(self._space.start)), hint)
            chosen = replacement(self._fallback, self._inner, self._mask, self._space, where)
        # whatever fails from here on, the episode cannot go on: its account would not be known
        self._refusal, self._mask = "an episode that broke off", np.zeros_like(self._mask)
        done = chosen + int(self._space.start)
        observation, reward, terminated, truncated, info, own = split_step(self.env.step(done))
        following = own_copy(observation)
        spent = self._read(self._inner, done, following, info, own)
        try:
            costs = list(self._masks.took(chosen, following, spent, terminated))
        except PolicyError:
            with contextlib.suppress(ModelError):  # no number, so that nobody can tell
                self._spend(self._exactly(spent), spent)  # it was spent, whatever had been promised
            raise
        self._spend(costs, spent)
        self._inner = following
        if terminated and not self._violation and not self._masks.over and self._account.broken_later:
            # the environment has ended where the model goes on: nothing more is spent, and later limits stay
            self._violation = True
            self.violations += 1
        ended = terminated or self._violation or self._masks.over
        if not ended:
            self._mask = self._allowed(info)
        self._dead_end = not (ended or truncated or self._mask.any())
        ended = ended or self._dead_end
        self._refusal = "an episode that is over" if ended or truncated else ""
        told = {**self._told(info), "action": done}
        return self._seen(observation), reward, ended, truncated, told

    def _allowed(self, info: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return the mask; without a model, what the environment itself forbids is left out as well."""
        mask = self._masks.mask()
        if self._own_masks and "action_mask" in info:
            own = np.asarray(info["action_mask"])
            if own.shape != mask.shape:
                raise ModelError("info, action_mask", f"shape {mask.shape}", f"shape {own.shape}")
            mask &= own.astype(bool)
        return mask

    def _seen(self, observation: Any) -> Any:
        remaining = [float(amount) for amount in self._account.remaining.values()]
        return self._layout(observation, remaining, self._account.step, self._mask)

    def _told(self, info: Mapping[str, Any]) -> dict[str, Any]:
        costs = {name: float(cost) for name, cost in zip(self._account.resources, self._cost, strict=True)}
        return {
            **info,
            "cost": float(sum(self._cost)),
            "costs": costs,
            "remaining": {name: float(amount) for name, amount in self._account.remaining.items()},
            "step": self._account.step,
            "action_mask": self._mask.astype(np.int8),
            "dead_end": self._dead_end,
            "violation": self._violation,
        }

    def _left(self) -> str:
        return "remaining " + ", ".join(f"{name} {short_amount(x)}" for name, x in self._account.remaining.items())
