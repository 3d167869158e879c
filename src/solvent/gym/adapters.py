"""Sources of costs: a meter, `info`, a sixth value of `step`, or a function of the transition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from solvent.core.arguments import check_signature
from solvent.core.exact import Number, exact
from solvent.errors import ModelError, quote
from solvent.model.build import read_costs
from solvent.model.metering import Spent, Tape, check_wrappers, find_meter, kind_of, pick_costs

#: A key of `info` (with a minus before it: the negative), a function of (observation, action, next observation), or the
#: constant cost of a step.
CostLike = str | Callable[[Any, Any, Any], Any] | Mapping[str, Number] | Sequence[Number] | Number


#: Arguments of a function that returns the cost of a step.
COST_ARGUMENTS = ("observation", "action", "next_observation")


class CostInInfo(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Move the cost from the sixth value of `step` into `info`, as Gymnasium's own wrappers expect.

    Safety-Gymnasium's `step` returns (observation, reward, cost, terminated, truncated, info). `BudgetWrapper` accepts
    that directly; this adapter is for wrappers between the two, such as `TimeLimit`.

    Parameters
    ----------
    env : gymnasium.Env
        Environment whose `step` returns six values.
    key : str
        Key of the cost in `info`.
    """

    #: Each action is executed once and unchanged (see `solvent.model.metering`).
    passes_actions = True

    def __init__(self, env: gymnasium.Env[Any, Any], key: str = "cost") -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, key=key)
        gymnasium.Wrapper.__init__(self, env)
        self._key = key

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the cost in `info` is 0."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, self._key: 0.0}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; the cost is in `info`."""
        observation, reward, terminated, truncated, info, cost = split_step(self.env.step(action))
        if cost is NO_COST:
            raise ModelError("step", "six values, the third of them a cost", "five", "the environment needs no adapter")
        return observation, reward, terminated, truncated, {**info, self._key: cost}


#: Stands for the missing cost of a `step` that returns five values.
NO_COST = object()


def split_step(result: Any) -> tuple[Any, Any, bool, bool, dict[str, Any], Any]:
    """Return (observation, reward, terminated, truncated, info, cost) from the five or six values of `step`."""
    if isinstance(result, tuple) and len(result) == 5:
        observation, reward, terminated, truncated, info = result
        if type(info) is not dict:
            check_info(info, "step")
        return observation, reward, bool(terminated), bool(truncated), info, NO_COST
    if isinstance(result, tuple) and len(result) == 6:
        observation, reward, cost, terminated, truncated, info = result
        check_info(info, "step")
        return observation, reward, bool(terminated), bool(truncated), info, cost
    size = f"{len(result)}" if isinstance(result, tuple) else quote(result)
    raise ModelError("step", "five values, or six with a cost after the reward", size)


def split_reset(result: Any) -> tuple[Any, dict[str, Any]]:
    """Return (observation, info) from what `reset` returns.

    Raises
    ------
    ModelError
        If it returns anything else, such as the observation only.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        size = f"{len(result)}" if isinstance(result, tuple) else "the observation only, or another object"
        hint = "old environments need an adapter, such as shimmy's GymV21CompatibilityV0"
        raise ModelError("reset", "two values, the observation and a dict", size, hint)
    check_info(result[1], "reset")
    return result


def check_info(info: Any, method: str) -> None:
    """Raise a `ModelError` if what `reset` or `step` returned as `info` is not a dict."""
    if type(info) is not dict and not isinstance(info, Mapping):
        raise ModelError(f"info of {method}", "a dict", quote(info))


class CostReader:
    """Read the reported cost of a step, per resource.

    Parameters
    ----------
    env : gymnasium.Env
    resources : tuple of str
    cost : str, function, mapping, number or None
        A key of `info`, or its negative if a minus is before it ("-reward_ctrl"); a function of (observation, action,
        next observation); a constant; or None for the first available of: a meter inside, the sixth value of `step`,
        `info["costs"]`, `info["cost"]`.
    where : str
        Name of the reader in errors.

    Raises
    ------
    ModelError
        If a wrapper inside may replace or repeat actions and no meter records the cost.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        resources: tuple[str, ...],
        cost: CostLike | None = None,
        where: str = "BudgetWrapper",
    ) -> None:
        self._resources, self._cost = resources, cost
        self._tape: Tape | None = None
        self._constant: Spent | None = None
        if callable(cost):
            check_signature(cost, COST_ARGUMENTS, "cost")
        elif cost is not None and not isinstance(cost, str):
            self._constant = Spent.once(read_costs(cost, resources, "cost"))
        meter = find_meter(env, resources) if cost is None else None
        if meter is None:
            check_wrappers(env, kind_of(cost), where)
        else:
            self._tape = Tape(resources)
            meter.attach(self._tape)

    def begin(self) -> None:
        """Discard recorded costs; called before the environment is reset."""
        if self._tape is not None:
            self._tape.rewind()

    def started(self) -> Spent:
        """Return the cost of starting the episode, as seen by a meter: a wrapper may take steps in its `reset`."""
        return Spent(0, [0] * len(self._resources), None, None) if self._tape is None else self._tape.take()

    def __call__(
        self, observation: Any, action: Any, next_observation: Any, info: Mapping[str, Any], own: Any
    ) -> Spent:
        """Return one cost per resource; raise a `ModelError` if there is none or it does not match the resources."""
        if self._constant is not None:
            return self._constant
        if self._tape is not None:
            return self._tape.take()
        found = find_cost(self._cost, self._resources, observation, action, next_observation, info, own)
        return Spent.once(read_costs(found, self._resources, "step"))


def find_cost(
    cost: CostLike | None,
    resources: tuple[str, ...],
    observation: Any,
    action: Any,
    next_observation: Any,
    info: Mapping[str, Any],
    own: Any,
) -> Any:
    """Return the reported cost of a step; raise a `ModelError` if there is none."""
    if callable(cost):
        return cost(observation, action, next_observation)
    if isinstance(cost, str):
        key = key_of(cost, info)
        return _look_up(info, cost) if key == cost else negative(info[key], f"info after a step, {quote(key)}")
    if cost is not None:
        return cost
    if own is not NO_COST:
        return own
    reported = info.get("costs")
    if isinstance(reported, Mapping) and set(resources) <= set(reported):
        return pick_costs(reported, resources, "info after a step")
    if "costs" in info and (len(resources) > 1 or "cost" not in info):
        return pick_costs(reported, resources, "info after a step")
    return _look_up(info, "cost")


def key_of(cost: str, info: Mapping[str, Any]) -> str:
    """Return the key of `info` that a cost refers to, without the minus of "-key" unless there is such a key."""
    return cost[1:] if cost.startswith("-") and cost not in info and cost[1:] in info else cost


def negative(found: Any, where: str) -> Any:
    """Return the negative of a number, of numbers in order, or of numbers by name; exact, whatever their types.

    Examples
    --------
    >>> negative(np.int8(-128), "step"), negative({"fuel": -0.5}, "step")
    (Fraction(128, 1), {'fuel': 0.5})
    """
    if isinstance(found, Mapping):
        return {name: negative(each, where) for name, each in found.items()}
    if isinstance(found, np.ndarray) and found.ndim:
        result = np.empty(found.shape, object)
        for index in np.ndindex(*found.shape):
            result[index] = negative(found[index], where)
        return result
    if isinstance(found, list | tuple):
        return [negative(each, where) for each in found]
    if isinstance(found, float | np.floating) and np.isfinite(found):
        return -found  # exact, and of the same type
    return -exact(found[()] if isinstance(found, np.ndarray) else found, where)


def _look_up(info: Mapping[str, Any], key: str) -> Any:
    if key not in info:
        raise ModelError(
            "info after a step",
            f"a cost under {quote(key)}",
            f"the keys {quote(sorted(map(str, info)))}",
            "pass cost=... to the wrapper: another key, or a function of (observation, action, next_observation)",
        )
    return info[key]
