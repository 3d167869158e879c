"""`VectorBudgetWrapper`: keeps every environment of a vector within its own budget, with batched masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, iterate
from numpy.typing import NDArray

from solvent.core.arguments import check_signature
from solvent.core.exact import Number, exact
from solvent.errors import ModelError, PolicyError, SolventError, did_you_mean, quote
from solvent.gym.actions import allowed, as_array, check_discrete
from solvent.gym.adapters import key_of, negative
from solvent.gym.dead_ends import DeadEndReward
from solvent.gym.layout import OWN_MASK, find_own_mask, own_copy, remaining_space, step_space
from solvent.gym.masks import BoundMasks
from solvent.gym.own_masks import OwnMask
from solvent.gym.tracker import ONLY_WITH_MODEL, BudgetTracker, read_accounts, read_limits
from solvent.gym.vector_reports import Reports, begin_anew, told_of
from solvent.model.amounts import short_amount
from solvent.model.budget import BudgetLike, SpentLike
from solvent.model.build import read_costs
from solvent.model.cost_bounds import BoundLike
from solvent.model.metering import Kind, Spent, check_wrappers, kind_of
from solvent.model.resources import ResourceLike

#: A key of `info`, a function of batches (observations, actions, next observations), or the constant cost of a step.
VectorCostLike = str | Callable[[Any, Any, Any], Any] | Mapping[str, Number] | Number


class VectorBudgetWrapper(VectorWrapper):  # type: ignore[type-arg, unused-ignore]  # not generic before Gymnasium 1.3
    """Keep every environment of a vector within its own budget: at any step, under any outcome.

    For environments that are vectorized already. Each has its own account, and masks come in one array. To put a
    `BudgetWrapper` around each environment instead, with models or meters, pass it to `gymnasium.make_vec(...,
    wrappers=[...])`.

    Parameters
    ----------
    env : VectorEnv
        Vector of environments with a `Discrete` action space, without autoreset (`AutoresetMode.DISABLED`), so that an
        environment at a dead end can be reset; or with `AutoresetMode.NEXT_STEP` if there are no dead ends.
    budget : number, Budget, or dict of them by resource
        One anytime upper limit per resource, for each environment.
    cost : str, function, mapping or number, optional
        Cost of a step: a key of `info` ("-reward_ctrl" for the negative of that key); a function of (observations,
        actions, next observations), all of them batches, that returns an array of shape (N,) or (N, D) or a dict of
        arrays by resource; or a constant. Default: `info["costs"]` or `info["cost"]`.
    cost_bound : function, numbers or CostSupport
        Upper bound on the cost of an action, as in `BudgetWrapper`: functions take a single observation and action.
    reserve : function or numbers, optional
        Amount that must remain after an action, as in `BudgetWrapper`.
    fallback : None or "first"
        What to do with a masked action: raise a `PolicyError`, or take the first safe action.
    dead_end_reward : float, optional
        Added to the reward of a step that ends in a dead end, as in `BudgetWrapper`; a time limit is assumed to be
        1,000 steps.
    layout : {"dict", "flat"}
        Arrangement of observations: a Dict of batches, or one batch of flat arrays.
    mask_in_observation : bool
        Whether a Dict of observations includes the masks.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step.
    resources : sequence of Resource, optional
        Limited resources that saturate.
    own_mask : False, optional
        Default: an action must also be allowed by the environment's own mask, if it has one in `info["action_mask"]` or
        `observation["action_mask"]`; the latter is replaced by the combined mask. False to ignore it.

    Attributes
    ----------
    violations : int
        Number of steps so far that broke a limit, as in `BudgetWrapper`.

    Notes
    -----
    Without autoreset inside, this wrapper resets the environments that ended in the same step
    (`AutoresetMode.SAME_STEP`): the observation and what `reset` reports are those of the next episode, and
    `info["final_obs"]` and `info["final_info"]` have the last ones. `info` has "cost", "remaining", "step",
    "action_mask", "dead_end" and "violation" as arrays with one row per environment. Masks are never empty: if the
    next step is a reset, and in "final_obs" and "final_info" after a termination, they are all True; after a
    truncation, those there have the actions that would be safe.

    Examples
    --------
    >>> from gymnasium.vector import AutoresetMode, SyncVectorEnv
    >>> carts = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=AutoresetMode.DISABLED)
    >>> env = VectorBudgetWrapper(carts, budget=2, cost=lambda seen, actions, after: actions, cost_bound=[0, 1])
    >>> observations, info = env.reset(seed=1)
    >>> for _ in range(2):
    ...     actions = np.array([0, 1, 1]) * info["action_mask"][:, 1]
    ...     observations, rewards, terminated, truncated, info = env.step(actions)
    >>> env.action_masks()
    array([[ True,  True],
           [ True, False],
           [ True, False]])
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        budget: BudgetLike,
        cost: VectorCostLike | None = None,
        cost_bound: BoundLike = None,
        *,
        reserve: BoundLike = None,
        fallback: Literal["first"] | None = None,
        dead_end_reward: float | None = None,
        layout: Literal["dict", "flat"] = "dict",
        mask_in_observation: bool = False,
        spent: SpentLike | None = None,
        resources: Sequence[ResourceLike] | None = None,
        own_mask: Literal[False] | None = None,
    ) -> None:
        if not isinstance(env, VectorEnv):
            hint = "pass what gymnasium.make_vec(...) returns; BudgetWrapper is for a single environment"
            raise ModelError("VectorBudgetWrapper", "a vector environment", quote(env), hint)
        super().__init__(env)
        self._space = check_discrete(env.single_action_space, "VectorBudgetWrapper")
        self._same_step = _autoreset(env) == "disabled"
        if self._same_step:  # wrappers outside, such as RecordEpisodeStatistics, count steps accordingly
            self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        _check_inside(env, kind_of(cost))
        if fallback is not None and not (isinstance(fallback, str) and fallback == "first"):
            raise ModelError("fallback", "None or 'first'", quote(fallback))
        if own_mask is not None and own_mask is not False:
            raise ModelError("own_mask", "None or False", quote(own_mask))
        if cost_bound is None:
            raise ModelError("VectorBudgetWrapper", "a bound on the cost of actions", "none", "pass cost_bound=...")
        if callable(cost):
            check_signature(cost, ("observations", "actions", "next_observations"), "cost")
        self._cost, self._fallback = cost, fallback
        self._reports = Reports.of(env.unwrapped)
        known = read_limits(budget, spent, ONLY_WITH_MODEL)
        accounts = read_accounts(resources, known)
        self._trackers = [BudgetTracker(known, accounts) for _ in range(env.num_envs)]
        self._n_actions, self._first = int(self._space.n), int(self._space.start)
        self._sources = [
            BoundMasks(tracker, self._n_actions, self._first, cost_bound, reserve) for tracker in self._trackers
        ]
        self._own_mask = OwnMask(None, own_mask, self._n_actions)
        self._own: list[NDArray[np.bool_] | None] = [None] * env.num_envs
        self._rewards = [DeadEndReward(dead_end_reward, None) for _ in self._trackers]
        self._resources, self.violations = known.resources, 0
        self._arrange(layout, mask_in_observation)
        n = env.num_envs
        self._masks = np.zeros((n, self._n_actions), bool)
        self._last_costs = np.zeros((n, len(self._resources)))
        self._waiting = np.zeros(n, bool)  # environments whose next step is a reset
        self._seen: list[Any] = []
        self._batch: Any = None
        self._refusal = "no episode"

    def _arrange(self, layout: str, with_mask: bool) -> None:
        """Set the observation spaces."""
        if not isinstance(layout, str) or layout not in ("dict", "flat"):
            raise ModelError("layout", "'dict' or 'flat'", quote(layout), did_you_mean(layout, ("dict", "flat")))
        if with_mask and layout == "flat":
            raise ModelError("mask_in_observation", "False for flat observations", quote(with_mask))
        self._flat, self._with_mask = layout == "flat", with_mask
        count, inner = len(self._resources), self.env.single_observation_space
        self._inner_space, self._replaced = inner, find_own_mask(inner, self._n_actions)
        amounts, steps = remaining_space([-math.inf] * count, [math.inf] * count), step_space(None)
        single: gymnasium.Space[Any]
        if self._flat:
            flat = gymnasium.spaces.flatten_space(inner)
            low, high = (
                np.concatenate([np.float32(getattr(box, side)) for box in (flat, amounts, steps)])
                for side in ("low", "high")
            )
            single = gymnasium.spaces.Box(low, high, dtype=np.float32)
        else:
            mask = {"action_mask": gymnasium.spaces.Box(0, 1, (self._n_actions,), np.int8)} if with_mask else {}
            single = gymnasium.spaces.Dict({"observation": inner, "remaining": amounts, "step": steps, **mask})
        self.single_observation_space = single
        self.observation_space = batch_space(single, self.env.num_envs)

    @property
    def spent(self) -> dict[str, list[Fraction]]:
        """Exact amount spent in each environment, by resource."""
        return {name: [tracker.amounts[d] for tracker in self._trackers] for d, name in enumerate(self._resources)}

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are safe in each environment, shape (N, A), as a new array."""
        return self._masks.copy()

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment.

        Raises
        ------
        SolventError
            If no action is safe at the start of an environment.
        """
        if options is not None and "reset_mask" in options:
            raise ModelError("options", "no reset_mask, as this wrapper resets environments itself", quote(options))
        self._refusal = "no episode"  # until every environment has a safe action
        observations, info = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        self._read(observations, info)
        self._waiting[:] = False
        for i in range(self.env.num_envs):
            self._begin(i)
        self._refusal = ""
        dead = np.zeros(self.env.num_envs, bool)
        return self._observe(observations), self._info(info, dead, dead)

    def _read(self, observations: Any, info: Mapping[str, Any]) -> None:
        # agents may change the observations they get, and vectors may use their arrays again
        self._batch = own_copy(observations)
        self._seen = list(iterate(self.env.observation_space, self._batch))
        given, reported = info.get(OWN_MASK), info.get(f"_{OWN_MASK}")
        for i, seen in enumerate(self._seen):
            has = given is not None and (reported is None or reported[i])
            self._own[i] = self._own_mask(seen, {OWN_MASK: given[i]} if has else {})  # type: ignore[index]

    def _mask(self, i: int) -> NDArray[np.bool_]:
        """Return which actions of an environment are allowed, by its budget and by itself."""
        mask, own = self._sources[i].mask(), self._own[i]
        return mask if own is None else mask & own

    def _begin(self, i: int) -> None:
        """Start the account of an environment."""
        self._trackers[i].reset()
        self._sources[i].begin(self._seen[i])
        self._last_costs[i] = 0.0
        self._masks[i] = self._mask(i)
        if not self._masks[i].any():
            raise SolventError(
                f"environment {i}: expected a start from which the budget can be kept, found no safe action with "
                f"{self._left(i)}; raise the budget"
            )

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take a safe action in every environment.

        Raises
        ------
        PolicyError
            If an action is masked and there is no fallback, or a cost exceeds its bound.
        SolventError
            If an environment with autoreset reaches a dead end.
        """
        if self._refusal:
            raise PolicyError("step", "reset() first", self._refusal)
        chosen = self._choose(actions)
        waiting = self._waiting.copy()
        self._refusal = "episodes that ended with an error"
        before = self._batch
        if self._reports is not None:
            self._reports.clear()
        observations, rewards, terminated, truncated, info = self.env.step(chosen)
        rewards, terminated = np.array(rewards, np.float64), np.array(terminated, bool)
        truncated = np.array(truncated, bool)
        reported = self._costs(before, chosen, observations, info, waiting)
        self._read(observations, info)
        violated, dead = np.zeros(len(chosen), bool), np.zeros(len(chosen), bool)
        wrong: PolicyError | None = None
        for i in map(int, np.flatnonzero(~waiting)):
            try:
                self._add(i, int(chosen[i]) - self._first, Spent.once(reported[i]), bool(terminated[i]))
            except PolicyError as found:  # the others have taken their steps too
                wrong = wrong or found
            violated[i] = self._trackers[i].broken
        self.violations += int(violated.sum())
        if wrong is not None:
            raise wrong
        terminated |= violated
        for i in range(len(chosen)):  # now bounds that are learned include the costs of all environments
            if waiting[i]:
                self._begin(i)
                continue
            self._masks[i] = False if terminated[i] else self._mask(i)
            dead[i] = not (terminated[i] or truncated[i] or self._masks[i].any())
            self._rewards[i].observe(rewards[i])
            rewards[i] += self._rewards[i](self._trackers[i].step) if dead[i] else 0.0
        terminated |= dead
        ended = terminated | truncated
        # no action will be executed there; after a truncation, the mask has those that would be safe
        self._masks[terminated | ~self._masks.any(axis=1)] = True
        finished = self._finish(observations, rewards, terminated, truncated, info, ended, dead, violated)
        self._refusal = ""
        return finished

    def _choose(self, given: Any) -> NDArray[Any]:
        """Return the actions to execute."""
        n, actions = self.env.num_envs, as_array(given)
        if actions is None or actions.shape != (n,) or not np.issubdtype(actions.dtype, np.integer):
            raise PolicyError("step", f"{n} whole numbers, one action per environment", quote(given))
        positions = actions - self._first
        if ((positions < 0) | (positions >= self._n_actions)).any():
            raise PolicyError("step", f"actions of {self._space}", quote(actions))
        refused = np.flatnonzero(~self._masks[np.arange(n), positions])
        chosen = actions.copy()
        for i in map(int, refused):
            if self._fallback is None:
                where = f"environment {i}, step {self._trackers[i].step}, {self._left(i)}"
                hint = "pass fallback='first' to replace such actions"
                raise PolicyError(where, allowed(self._masks[i], self._space), quote(int(actions[i])), hint)
            chosen[i] = int(np.argmax(self._masks[i])) + self._first
        return chosen

    def _costs(
        self, before: Any, actions: Any, after: Any, info: Mapping[str, Any], waiting: NDArray[np.bool_]
    ) -> list[list[Any]]:
        """Return the reported costs of each environment, one per resource."""
        n, names, cost = len(actions), self._resources, self._cost
        found: Any
        if waiting.all():  # no environment took a step
            return [[0] * len(names)] * n
        if cost is None:
            by_name = info.get("costs")
            if isinstance(by_name, Mapping) and set(names) <= set(by_name):
                found = {name: self._reported(by_name, ("costs", name), waiting) for name in names}
            else:
                found = self._reported(info, ("cost",), waiting)
        elif isinstance(cost, str):
            key = key_of(cost, info)
            found = self._reported(info, (key,), waiting)
            found = found if key == cost else negative(found, f"step, {quote(key)}")
        elif callable(cost):
            found = cost(before, actions, after)
        else:
            return [read_costs(cost, names, "cost")] * n
        if isinstance(found, Mapping):
            columns = [_column(x, n, name) for x, name in zip(read_costs(found, names, "step"), names, strict=True)]
            return [list(row) for row in zip(*columns, strict=True)]
        table = as_array(found)
        shape = () if table is None else table.shape
        table = table[:, None] if table is not None and shape == (n,) else table
        if table is None or table.shape != (n, len(names)):
            expected = (
                f"{n} numbers, one per environment" if len(names) == 1 else f"numbers of shape ({n}, {len(names)})"
            )
            raise ModelError("step, cost", expected, f"shape {shape}" if shape else quote(found))
        return [list(row) for row in table]

    def _reported(self, info: Mapping[str, Any], keys: tuple[str, ...], waiting: NDArray[np.bool_]) -> Any:
        """Return what environments report under the last key of a path, as they reported it."""
        found = _look_up(info, keys[-1], waiting)
        if isinstance(found, Mapping):
            masks = {f"_{name}" for name in found}  # Gymnasium says there which environments report a name
            read_costs({name: 0 for name in found if name not in masks}, self._resources, "step")
            return {name: self._original((*keys, name), _or_nothing(found, name)) for name in self._resources}
        return self._original(keys, found)

    def _original(self, keys: tuple[str, ...], found: Any) -> Any:
        return found if self._reports is None else self._reports.original(keys, found)

    def _add(self, i: int, position: int, spent: Spent, terminated: bool) -> None:
        """Add the cost of a step of one environment."""
        tracker, source = self._trackers[i], self._sources[i]
        try:
            costs = source.took(position, self._seen[i], spent, terminated)
        except PolicyError as wrong:
            # it was spent even though it exceeds the bound
            pairs = zip(spent.reported, self._resources, strict=True)
            tracker.spend(tracker.to_ticks([exact(cost, f"step, cost of {name}") for cost, name in pairs]))
            raise wrong.within(f"environment {i}") from None
        tracker.spend(costs)
        self._last_costs[i] = tracker.to_floats(costs)

    def _finish(
        self,
        observations: Any,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        info: dict[str, Any],
        ended: NDArray[np.bool_],
        dead: NDArray[np.bool_],
        violated: NDArray[np.bool_],
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Reset the environments that ended, or wait until they reset themselves."""
        if not self._same_step:
            if dead.any() or violated.any():
                i = int(np.argmax(dead | violated))
                raise SolventError(
                    f"environment {i}, step {self._trackers[i].step}: expected a safe action, found a dead end with "
                    f"{self._left(i)}, where a vector with autoreset cannot end the episode; make it with "
                    f"vector_kwargs={{'autoreset_mode': AutoresetMode.DISABLED}}, or pass reserve=..."
                )
            self._waiting = ended
            self._masks[ended] = True
            return self._observe(observations), rewards, terminated, truncated, self._info(info, dead, violated)
        told = self._info(info, dead, violated)
        if ended.any():
            last = self._observe(self._batch)  # a vector may use its arrays again in `reset`
            final = np.full(len(ended), None, object)
            for i, seen in enumerate(iterate(self.observation_space, last)):
                if ended[i]:
                    final[i] = seen
            own = list(self._own)
            observations, begun = self.env.reset(options={"reset_mask": ended.copy()})
            self._read(observations, begun)
            self._own = [self._own[i] if ended[i] else own[i] for i in range(len(ended))]
            for at in np.flatnonzero(ended):
                self._begin(int(at))
            fresh = self._info(begin_anew(info, begun, ended), dead, violated)
            fresh |= {key: told[key] for key in ("cost", "costs")}  # of the step that was taken
            final_info = told_of(told, ended)
            told = {**fresh, "final_obs": final, "_final_obs": ended, "final_info": final_info, "_final_info": ended}
        return self._observe(observations), rewards, terminated, truncated, told

    def _observe(self, observations: Any) -> Any:
        remaining = np.array([tracker.to_floats(tracker.remaining_ticks()) for tracker in self._trackers], np.float32)
        steps = np.array([[tracker.step] for tracker in self._trackers], np.float32)
        if self._replaced is not None:
            shape, dtype = self._replaced
            observations = {**observations, OWN_MASK: self._masks.reshape(-1, *shape).astype(dtype)}
        if self._flat:
            rows = [
                np.asarray(gymnasium.spaces.flatten(self._inner_space, seen), np.float32)
                for seen in iterate(self.env.observation_space, observations)
            ]
            return np.concatenate([np.array(rows), remaining, steps], axis=1)
        mask = {"action_mask": self._masks.astype(np.int8)} if self._with_mask else {}
        return {"observation": observations, "remaining": remaining, "step": steps, **mask}

    def _info(self, info: Mapping[str, Any], dead: NDArray[np.bool_], violated: NDArray[np.bool_]) -> dict[str, Any]:
        remaining = np.array([tracker.to_floats(tracker.remaining_ticks()) for tracker in self._trackers])
        return {
            **info,
            "cost": self._last_costs.sum(axis=1),
            "costs": {name: self._last_costs[:, d].copy() for d, name in enumerate(self._resources)},
            "remaining": {name: remaining[:, d].copy() for d, name in enumerate(self._resources)},
            "step": np.array([tracker.step for tracker in self._trackers]),
            "action_mask": self._masks.astype(np.int8),
            "dead_end": dead.copy(),
            "violation": violated.copy(),
        }

    def _left(self, i: int) -> str:
        amounts = self._trackers[i].remaining.items()
        return "remaining " + ", ".join(f"{name} {short_amount(x)}" for name, x in amounts)


def _autoreset(env: Any) -> str:
    """Return how a vector resets its environments: "disabled" or "next_step"."""
    mode = env.metadata.get("autoreset_mode")
    found = str(getattr(mode, "name", mode)).lower()
    if found not in ("disabled", "next_step"):
        raise ModelError(
            "VectorBudgetWrapper",
            "a vector with AutoresetMode.DISABLED, or NEXT_STEP if there are no dead ends",
            f"autoreset mode {quote(mode)}",
            "pass vector_kwargs={'autoreset_mode': AutoresetMode.DISABLED} to gymnasium.make_vec",
        )
    return found


def _check_inside(env: Any, kind: Kind) -> None:
    """Raise a `ModelError` if a wrapper of a vector, or of one of its environments, may change or repeat actions."""
    where, base = "VectorBudgetWrapper", env.unwrapped
    check_wrappers(env, kind, where, vector=True)
    for each in getattr(base, "envs", ()):
        check_wrappers(each, kind, where, vector=True)
    if hasattr(base, "envs"):
        return
    for make in {id(make): make for make in getattr(base, "env_fns", ())}.values():
        probe = make()  # environments of other processes cannot be looked at
        try:
            check_wrappers(probe, kind, where, vector=True)
        finally:
            probe.close()


def _column(costs: Any, n: int, name: str) -> list[Any]:
    """Return the costs of one resource in each environment, from an array or a number for all."""
    given = as_array(costs)
    if given is None or given.shape not in ((), (n,)):
        expected = f"a number, or {n} numbers, one per environment"
        raise ModelError(f"step, cost of {name}", expected, quote(costs) if given is None else f"shape {given.shape}")
    return list(np.broadcast_to(given, (n,)))


def _or_nothing(costs: Mapping[str, Any], name: str) -> Any:
    """Return the costs of one resource in each environment; 0 where they leave it out."""
    given, reported = costs.get(name, 0), costs.get(f"_{name}")
    if reported is None or not isinstance(given, np.ndarray) or given.dtype.kind != "O":
        return given  # Gymnasium fills in 0 for numbers of NumPy
    return np.where(np.asarray(reported, bool), given, 0)


def _look_up(info: Mapping[str, Any], key: str, waiting: NDArray[np.bool_]) -> Any:
    """Return what environments report under a key; those that were reset need not report anything."""
    if key in info:
        # Gymnasium fills in 0 for environments that do not report anything
        reported = np.asarray(info.get(f"_{key}", np.ones(len(waiting), bool)), bool)
        if (reported | waiting).all():
            return info[key]
        found = f"none from environment {int(np.argmin(reported | waiting))}"
    else:
        found = f"the keys {quote(sorted(map(str, info)))}"
    hint = "pass cost=...: another key, or a function of (observations, actions, next observations)"
    raise ModelError("info after a step", f"a cost under {quote(key)}", found, hint)
