"""`ContinuousBudgetWrapper`: keeps an environment with continuous or several discrete actions within a budget.

There are too many actions for a mask. Instead, the proposed action is moved towards a null action, such as no control
at all, until what it may cost fits what remains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from solvent.core.arguments import check_signature
from solvent.core.exact import Number, exact
from solvent.errors import BudgetError, ModelError, PolicyError, SolventError, did_you_mean, quote
from solvent.gym.account import DEAD, FAILED, IS_OVER, NO_EPISODE, AccountWrapper
from solvent.gym.actions import as_array
from solvent.gym.adapters import CostLike, CostReader, split_reset, split_step
from solvent.gym.dead_ends import ASSUMED_STEPS, DeadEndReward, longest_episode
from solvent.gym.layout import Layout, own_copy, remaining_space, step_space
from solvent.gym.needs import ExactNeeds, FloatNeeds
from solvent.gym.norms import NormCost, is_number
from solvent.gym.own_masks import OwnMask
from solvent.gym.projection import Moved, move_components, move_in_box
from solvent.gym.tracker import ONLY_WITH_MODEL, BudgetTracker, read_accounts, read_limits
from solvent.model.amounts import amount_above, short_amount
from solvent.model.budget import BudgetLike, SpentLike
from solvent.model.metering import Spent, find_meter, layers, way_of
from solvent.model.resources import ResourceLike

#: Default share of a limit that is not spent, so that a meter that adds up float64 does not exceed it either.
_MARGIN = Fraction(1, 10**9)
#: The unit roundoff of float32, in which meters of environments with such actions may add up, and the greatest number
#: of steps for which the default margin allows for that.
_ROUNDOFF, _MOST_STEPS = Fraction(1, 2**24), 2**14


class ContinuousBudgetWrapper(AccountWrapper):
    """Keep an environment with `Box`, `MultiDiscrete` or `MultiBinary` actions within a budget, at any step.

    Every proposed action is replaced by the nearest one, on the way to a null action, that fits what remains. If the
    null action costs nothing, episodes continue when the budget is used up, without control.

    Parameters
    ----------
    env : gymnasium.Env
    budget : number, Budget, or dict of them by resource
        One anytime upper limit per resource.
    cost : str, function, mapping or number, optional
        Cost of a step: a key of `info` ("-reward_ctrl" for the negative of that key), a function of (observation,
        action, next observation), or a constant. Default: the first available of a `CostMeter` inside, the sixth value
        of `step`, `info["costs"]`, `info["cost"]`.
    cost_bound : NormCost, function, number, or dict of them by resource
        Upper bound on the cost of an action, for every outcome: a function of (observation, action), where the action
        is an array of float64 for a Box; or a `NormCost`, for which the greatest scale is known in closed form.
        Infinity or None forbids an action.
    reserve : function, number, or dict of them by resource, optional
        Amount that must remain after an action. Negative amounts count as 0.
    step_cap : number, or dict of numbers by resource, optional
        Greatest cost of any single step.
    null_action : array, optional
        Action towards which others are moved. Default: 0 in each component.
    vectorized : bool
        Whether the functions `cost_bound` and `reserve` take many actions, one per row, and return one number, or one
        row, for each; fewer calls are then needed.
    slack : float, optional
        Relative error of the environment's arithmetic that bounds are raised by. Default: `(n + 8) * 2**-23` for a Box
        with n components, enough for sums of n terms of the same sign in float32; `(n + 8) * 2**-10` for a Box of
        float16. Actions of whole numbers have no such error.
    margin : float, optional
        Share of each limit that is not spent, for meters that add up floats. Default: for a Box of float32 or float16,
        `(T + 2) * 2**-24` with the time limit T (1,000 steps if there is none), enough for sums in float32; 1e-9 for
        other Boxes, enough for sums in float64; 0 for other actions.
    dead_start : {"raise", "end"}
        What `reset` does if the null action does not fit at the start, as in `BudgetWrapper`.
    dead_end_reward : float, optional
        Added to the reward of a step that ends in a dead end, where the null action does not fit; as in
        `BudgetWrapper`.
    layout : {"dict", "flat", "rllib", "pettingzoo"}
        Arrangement of observations, as in `BudgetWrapper`; the last two have masks, so they are not for a Box.
    mask_in_observation : bool, optional
        Whether observations include the mask of `MultiDiscrete` or `MultiBinary` actions.
    keys : mapping, optional
        Other names for "observation", "remaining", "step" and "action_mask".
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step.
    resources : sequence of Resource, optional
        Limited resources that saturate.

    Attributes
    ----------
    violations : int
        Number of steps so far that broke a limit; other than 0 only if a stated bound was wrong, which also raises an
        error.

    Notes
    -----
    `info` has the keys of `BudgetWrapper`, and after a step "executed_action" (array) and "action_scale": the share of
    the way from the null action to the proposed one, 1 if the latter was executed. Actions outside the space are first
    moved to its bounds. For `MultiDiscrete` and `MultiBinary`, "action_mask" has one entry for each value of each
    component, as sb3-contrib expects: whether the value fits while all other components are those of the null action.

    A bound must hold for every outcome. Costs that do not depend on the action, such as contact forces, cannot be
    limited by changing it: with a constant bound the wrapper ends episodes in time, and without a bound only
    `EarlyTermination` remains, which promises nothing.

    Examples
    --------
    >>> class Motor(gymnasium.Env):
    ...     observation_space = action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    ...     def reset(self, *, seed=None, options=None):
    ...         return np.zeros(2, np.float32), {}
    ...     def step(self, action):
    ...         return action, float(action.sum()), False, False, {"cost": np.sum(action**2)}
    >>> env = ContinuousBudgetWrapper(Motor(), budget=3, cost_bound=NormCost())
    >>> observation, info = env.reset()
    >>> for _ in range(3):
    ...     observation, reward, terminated, truncated, info = env.step(np.ones(2, np.float32))
    ...     print(info["executed_action"].round(2), round(info["remaining"]["cost"], 3))
    [1. 1.] 1.0
    [0.71 0.71] 0.0
    [0. 0.] 0.0
    >>> env.spent["cost"] <= 3
    True
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        budget: BudgetLike,
        cost: CostLike | None = None,
        cost_bound: Any = None,
        *,
        reserve: Any = None,
        step_cap: Number | Mapping[str, Number] | None = None,
        null_action: Any = None,
        vectorized: bool = False,
        slack: float | None = None,
        margin: float | None = None,
        dead_start: Literal["raise", "end"] = "raise",
        dead_end_reward: float | None = None,
        layout: Literal["dict", "flat", "rllib", "pettingzoo"] = "dict",
        mask_in_observation: bool | None = None,
        keys: Mapping[str, str] | None = None,
        spent: SpentLike | None = None,
        resources: Sequence[ResourceLike] | None = None,
    ) -> None:
        super().__init__(
            env, budget=budget, cost=cost, cost_bound=cost_bound, reserve=reserve, step_cap=step_cap,
            null_action=null_action, vectorized=vectorized, slack=slack, margin=margin, dead_start=dead_start,
            dead_end_reward=dead_end_reward, layout=layout, mask_in_observation=mask_in_observation, keys=keys,
            spent=spent, resources=resources,
        )  # fmt: skip
        self._space, self._sizes = _check_space(env.action_space)
        if dead_start not in ("raise", "end"):
            raise ModelError("dead_start", "'raise' or 'end'", quote(dead_start))
        self._dead_start, self._null = dead_start, _read_null(null_action, self._space)
        known = read_limits(budget, spent, ONLY_WITH_MODEL)
        tracker = BudgetTracker(known, read_accounts(resources, known))
        bound, kept = (
            _read_bound(given, tracker.resources, name)
            for given, name in ((cost_bound, "cost_bound"), (reserve, "reserve"))
        )
        if bound is None:
            hint = "pass cost_bound=NormCost(...) or a function of (observation, action)"
            raise ModelError("ContinuousBudgetWrapper", "a bound on the cost of actions", "none", hint)
        _check_inside(env, bound)
        stated = bound if isinstance(bound, Mapping) else dict.fromkeys(tracker.resources, bound)
        self._norms = {name for name, each in stated.items() if isinstance(each, NormCost)}
        meter = find_meter(env, tracker.resources) if cost is None else None
        self._key = cost if isinstance(cost, str) else getattr(meter, "key", None)
        caps = _read_caps(step_cap, tracker.resources)
        longest = longest_episode(env)
        share = _read_share(margin, "margin", _default_margin(self._space, longest))
        relative = None if slack is None else float(_read_share(slack, "slack", Fraction(0)))
        self._many = vectorized or isinstance(bound, NormCost)
        self._needs: FloatNeeds | ExactNeeds
        if isinstance(self._space, spaces.Box):
            size = int(np.prod(self._space.shape))
            half = self._space.dtype == np.float16
            self._needs = FloatNeeds(tracker, bound, kept, caps, size, relative, share, vectorized, half)
        else:
            if vectorized or relative:
                raise ModelError("vectorized" if vectorized else "slack", "a Box for this argument", quote(self._space))
            self._needs = ExactNeeds(tracker, bound, kept, caps, share)
        reader = CostReader(env, tracker.resources, cost, type(self).__name__)
        amounts = remaining_space(*_range(tracker))
        entries = None if self._sizes is None else sum(self._sizes)
        arranged = Layout(
            env.observation_space, amounts, step_space(longest), entries, layout, mask_in_observation, keys
        )
        kind: Literal["multi-binary", "multi-discrete"]
        kind = "multi-binary" if isinstance(self._space, spaces.MultiBinary) else "multi-discrete"
        self._own_mask = None if entries is None else OwnMask(env, None, entries, kind)
        self._open(tracker, reader, tracker.resources, arranged, DeadEndReward(dead_end_reward, longest))
        self._mask: NDArray[np.bool_] | None = None

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the mask of `MultiDiscrete` and `MultiBinary` actions, one entry for each value of each component.

        Raises
        ------
        ModelError
            If the action space is a Box.
        """
        if self._sizes is None:
            raise ModelError("action_masks", "MultiDiscrete or MultiBinary actions", quote(self._space))
        return np.ones(sum(self._sizes), bool) if self._mask is None else self._mask.copy()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with the whole budget.

        Raises
        ------
        SolventError
            If the null action does not fit at the start, unless `dead_start="end"`.
        """
        self._refusal = NO_EPISODE
        self._read.begin()
        observation, info = split_reset(self.env.reset(seed=seed, options=options))
        self._inner = own_copy(observation)
        self._begin(self._read.started())
        self._dead_end = not self._null_fits()
        if self._dead_end and self._dead_start == "raise":
            raise SolventError(
                f"reset: expected a start at which the null action fits the budget, found {self._left()}; "
                f"raise the budget, or pass dead_start='end' to end such episodes at once"
            )
        self._refusal = ""
        return self._tell(observation, info, self._masks(info, ended=self._dead_end), {})

    def _null_fits(self) -> bool:
        return bool(self._needs.fits(self._inner, self._null[None])[0])

    def _masks(self, info: Mapping[str, Any], ended: bool) -> NDArray[np.bool_] | None:
        """Compute the mask; all True if no action will be executed."""
        if self._sizes is None:
            return None
        if ended:
            self._mask = None
            return self.action_masks()
        trials = []
        for component, size in enumerate(self._sizes):
            for value in range(size):
                trial = self._null.reshape(-1).copy()
                trial[component] = value + self._starts[component]
                trials.append(trial.reshape(self._null.shape))
        mask = self._needs.fits(self._inner, np.array(trials))
        own = None if self._own_mask is None else self._own_mask(self._inner, info)
        self._mask = mask if own is None else _non_empty(mask & own, mask, self._sizes)
        return self._mask

    @property
    def _starts(self) -> NDArray[np.int64]:
        start = getattr(self._space, "start", None)
        count = len(self._sizes or ())
        return np.zeros(count, np.int64) if start is None else np.asarray(start, np.int64).reshape(-1)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Execute the action, moved towards the null action if necessary.

        Raises
        ------
        PolicyError
            If the action does not have the space's shape or is not finite, the episode has ended, or a cost exceeds its
            bound.
        ModelError
            If the cost is missing.
        """
        if self._refusal:
            raise PolicyError(self._where(), "reset() first", self._refusal)
        if self._dead_end:
            self._refusal = DEAD
            more: dict[str, Any] = {"executed_action": None, "action_scale": 0.0}
            seen, told = self._tell(own_copy(self._inner), {}, self._masks({}, ended=True), more)
            return seen, 0.0, True, False, told
        moved = self._move(_read_action(action, self._space, self._where))
        most = self._needs.most(self._inner, moved.action)
        # after an error below, the amount spent is unknown, so the episode cannot continue
        self._refusal = FAILED
        executed = moved.action.copy()
        observation, reward, terminated, truncated, info, own = split_step(self.env.step(moved.action))
        following = own_copy(observation)
        spent = self._read(self._inner, executed, following, info, own)
        self._charge(spent, most)
        self._inner = following
        ended = terminated or self._violation
        self._dead_end = not (ended or truncated or self._null_fits())
        ended = ended or self._dead_end
        self._refusal = IS_OVER if ended or truncated else ""
        reward, more = self._paid(reward)
        more |= {"executed_action": executed, "action_scale": moved.scale}
        seen, told = self._tell(observation, info, self._masks(info, ended), more)
        return seen, reward, ended, truncated, told

    def _move(self, action: NDArray[Any]) -> Moved:
        if isinstance(self._space, spaces.Box):
            assert isinstance(self._needs, FloatNeeds)
            return move_in_box(self._needs, self._inner, action, self._null, self._space, self._many)
        return move_components(self._needs, self._inner, action, self._null)

    def _exactly(self, spent: Spent) -> list[Fraction]:
        """Return what is charged; costs of several steps at once are refused for floats, as each has two readings."""
        where = f"step {self._tracker.step}"
        if spent.high is not None and isinstance(self._needs, FloatNeeds):
            hint = "put ContinuousBudgetWrapper inside the wrapper that repeats actions"
            raise ModelError(where, "one step of the environment for each action", "several at once", hint)
        reported = zip(spent.reported, self._tracker.resources, strict=True)
        found = [self._needs.charge(cost, f"{where}, cost of {name}") for cost, name in reported]
        for cost, name in zip(found, self._tracker.resources, strict=True):
            if cost < 0 and name in self._norms and self._key is not None:
                hint = f"pass cost='-{self._key}' for the negative of that key"
                expected = f"at least 0 in info[{quote(self._key)}], as cost_bound is a norm"
                raise ModelError(f"{where}, cost of {name}", expected, short_amount(cost), hint)
        return found

    def _charge(self, spent: Spent, bound: list[Fraction]) -> None:
        """Add the cost of a step to the account; raise a `PolicyError` if it exceeds the bound."""
        where, names = f"step {self._tracker.step}", self._tracker.resources
        costs = self._exactly(spent)
        self._spend(self._tracker.to_ticks(costs), spent)
        for cost, most, name in zip(spent.high or costs, bound, names, strict=True):
            if cost > most:
                raise PolicyError(
                    f"{where}, cost of {name}",
                    f"at most {short_amount(most)}, as cost_bound says",
                    amount_above(cost, most),
                    "cost_bound must hold for every outcome; if costs do not depend on the action, use a constant",
                )


def _check_space(space: Any) -> tuple[spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary, list[int] | None]:
    """Return the action space, and the number of values of each component unless it is a Box."""
    if isinstance(space, spaces.Box) and (
        np.issubdtype(space.dtype, np.floating) or np.issubdtype(space.dtype, np.integer)
    ):
        return space, None
    if isinstance(space, spaces.MultiDiscrete):
        return space, [int(n) for n in np.asarray(space.nvec).reshape(-1)]
    if isinstance(space, spaces.MultiBinary):
        return space, [2] * int(np.prod(space.shape))
    hint = (
        "use BudgetWrapper" if isinstance(space, spaces.Discrete) else "wrap the environment so that actions are a Box"
    )
    expected = "an action space Box, MultiDiscrete or MultiBinary"
    raise ModelError("ContinuousBudgetWrapper", expected, quote(space), hint)


def _read_null(given: Any, space: Any) -> NDArray[Any]:
    found = np.zeros(space.shape, space.dtype) if given is None else as_array(given)
    if given is not None and found is not None and np.can_cast(found.dtype, space.dtype, "same_kind"):
        found = found.astype(space.dtype)
    if found is None or not space.contains(found):
        hint = "pass null_action=..., an action of known cost" if given is None else ""
        raise ModelError("null_action", f"an action of {space}", quote(given if found is None else found), hint)
    return found


def _read_action(given: Any, space: Any, where: Any) -> NDArray[Any]:
    """Return an action in the shape and type of the space, and within its bounds."""
    action = as_array(given)
    expected = f"finite numbers of shape {space.shape}, an action of {space}"
    if action is None or action.dtype.kind not in "fiub":
        raise PolicyError(where(), expected, quote(given))
    if action.shape != space.shape or not np.isfinite(action).all():
        raise PolicyError(where(), expected, quote(given))
    found: NDArray[Any]
    if isinstance(space, spaces.Box):
        with np.errstate(over="ignore"):
            found = np.asarray(np.clip(action, space.low, space.high).astype(space.dtype))
        if not np.isfinite(found).all():
            raise PolicyError(where(), expected, f"{quote(given)}, which is infinite as {space.dtype}")
        return found
    found = action.astype(space.dtype)
    if not (np.equal(found, action).all() and space.contains(found)):
        raise PolicyError(where(), f"an action of {space}", quote(given))
    return found


def _read_bound(given: Any, resources: tuple[str, ...], where: str) -> Any:
    for function in given.values() if isinstance(given, Mapping) else [given]:
        if callable(function):
            check_signature(function, ("observation", "action"), where)
    if not isinstance(given, Mapping):
        return given
    for name in given:
        if name not in resources:
            known = ", ".join(map(quote, resources))
            raise ModelError(where, f"limited resources ({known})", quote(name), did_you_mean(name, resources))
    if missing := [name for name in resources if name not in given]:
        expected = f"a bound for each of {', '.join(map(quote, resources))}"
        raise ModelError(where, expected, f"none for {quote(missing[0])}")
    return dict(given)


def _check_inside(env: Any, bound: Any) -> None:
    """Raise a `ModelError` if a bound is a norm of the action but a wrapper inside changes or repeats actions."""
    stated = bound.values() if isinstance(bound, Mapping) else [bound]
    if not any(isinstance(each, NormCost) for each in stated):
        return
    for layer in layers(env):
        if isinstance(layer, gymnasium.Wrapper) and way_of(layer) in ("changes", "repeats"):
            name = type(layer).__name__
            raise ModelError(
                "cost_bound",
                "no wrapper inside that changes or repeats actions, as a NormCost refers to executed actions",
                name,
                f"put {name} around ContinuousBudgetWrapper, or pass a function of the actions that arrive here",
            )


def _read_caps(given: Any, resources: tuple[str, ...]) -> list[Fraction | None]:
    if given is None:
        return [None] * len(resources)
    named = given if isinstance(given, Mapping) else {resources[0]: given} if len(resources) == 1 else None
    if named is None:
        known = ", ".join(map(quote, resources))
        raise BudgetError("step_cap", f"a cap for each of {known} by name", quote(given))
    for name in named:
        if name not in resources:
            known = ", ".join(map(quote, resources))
            raise BudgetError("step_cap", f"limited resources ({known})", quote(name), did_you_mean(name, resources))
    return [None if named.get(name) is None else exact(named[name], f"step_cap, {name}") for name in resources]


def _read_share(given: Any, where: str, default: Fraction) -> Fraction:
    if given is None:
        return default
    if not is_number(given) or not 0 <= given < 1:
        raise ModelError(where, "a number of at least 0 and less than 1", quote(given))
    return exact(given, where)


def _default_margin(space: spaces.Space[Any], longest: int | None) -> Fraction:
    """Return the share of a limit that sums of costs in floats may hide."""
    if not isinstance(space, spaces.Box):
        return Fraction(0)
    if space.dtype not in (np.float32, np.float16):
        return _MARGIN
    steps = ASSUMED_STEPS if longest is None else longest
    return max(_MARGIN, min(steps + 2, _MOST_STEPS) * _ROUNDOFF)


def _range(tracker: BudgetTracker) -> tuple[list[float], list[float]]:
    """Return lower and upper bounds on the remaining amount of each resource."""
    limits = [tracker.limit_range(d)[0] for d in range(len(tracker.resources))]
    lows = [float(min(Fraction(0), x, x - y)) for x, y in zip(limits, tracker.initial, strict=True)]
    return lows, [
        math.inf if account.floor is None else float(limit - account.floor)
        for limit, account in zip(limits, tracker.accounts, strict=True)
    ]


def _non_empty(mask: NDArray[np.bool_], otherwise: NDArray[np.bool_], sizes: list[int]) -> NDArray[np.bool_]:
    """Return a mask, where components without any value have those of another mask."""
    found, first = mask.copy(), 0
    for size in sizes:
        part = slice(first, first + size)
        if not found[part].any():
            found[part] = otherwise[part]
        first += size
    return found
