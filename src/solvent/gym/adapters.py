"""Where costs come from: `info`, a sixth value of `step`, or a function of the transition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from solvent.errors import ModelError, quote
from solvent.gym.env import ModelEnv
from solvent.model.build import read_costs

#: A key of `info`, a function of (observation, action, next observation), or what each step costs.
CostLike = str | Callable[[Any, Any, Any], Any] | Mapping[str, Any] | Any


class CostInInfo(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Puts the cost that `step` returns as a value of its own into `info`, as Gymnasium's other wrappers expect.

    Safety-Gymnasium's `step` returns (observation, reward, cost, terminated, truncated, info). `BudgetWrapper` takes
    that as it is; this adapter is for wrappers that come between the two, such as `TimeLimit`.

    Parameters
    ----------
    env : gymnasium.Env
    key : str
        Where in `info` the cost is put.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], key: str = "cost") -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, key=key)
        gymnasium.Wrapper.__init__(self, env)
        self._key = key

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; nothing has been spent."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, self._key: 0.0}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; the cost is in `info`."""
        observation, reward, terminated, truncated, info, cost = split_step(self.env.step(action))
        if cost is NO_COST:
            raise ModelError("step", "six values, the third of them a cost", "five", "the environment needs no adapter")
        return observation, reward, terminated, truncated, {**info, self._key: cost}


#: The step had no cost of its own.
NO_COST = object()


def split_step(result: Any) -> tuple[Any, Any, bool, bool, dict[str, Any], Any]:
    """Return (observation, reward, terminated, truncated, info, cost) of a step of five values or six."""
    if isinstance(result, tuple) and len(result) == 6:
        observation, reward, cost, terminated, truncated, info = result
        return observation, reward, bool(terminated), bool(truncated), dict(info), cost
    if isinstance(result, tuple) and len(result) == 5:
        observation, reward, terminated, truncated, info = result
        return observation, reward, bool(terminated), bool(truncated), dict(info), NO_COST
    size = f"{len(result)}" if isinstance(result, tuple) else quote(result)
    raise ModelError("step", "five values, or six with a cost after the reward", size)


class CostReader:
    """Finds what a step cost, per resource, as it was reported.

    Parameters
    ----------
    env : gymnasium.Env
    resources : tuple of str
    cost : str, function, mapping, number or None
        A key of `info`; a function of (observation, action, next observation); what each step costs; or None for what
        `step` returns as a value of its own, or else `info["costs"]`, or else `info["cost"]`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], resources: tuple[str, ...], cost: CostLike = None) -> None:
        self._resources, self._cost = resources, cost
        base = env.unwrapped
        self._exact: ModelEnv | None = None
        if cost is None and isinstance(base, ModelEnv) and set(resources) <= set(base.model.resources):
            self._exact = base
        self.begin()

    def begin(self) -> None:
        """Begin an episode."""
        self._spent = {} if self._exact is None else self._exact.spent

    def __call__(
        self, observation: Any, action: Any, next_observation: Any, info: Mapping[str, Any], own: Any
    ) -> list[Any]:
        """Return one entry per resource; a `ModelError` if there is none or they do not fit."""
        cost = self._cost
        if self._exact is not None:  # as the model says it, not as a float of it
            # what was spent since then, as a wrapper in between may have taken several steps
            before, self._spent = self._spent, self._exact.spent
            found: Any = {name: self._spent[name] - before[name] for name in self._resources}
        elif callable(cost):
            found = cost(observation, action, next_observation)
        elif isinstance(cost, str):
            found = _look_up(info, cost)
        elif cost is not None:
            found = cost
        elif own is not NO_COST:
            found = own
        elif isinstance(info.get("costs"), Mapping) and set(self._resources) <= set(info["costs"]):
            found = _pick(info["costs"], self._resources)
        elif "costs" in info and (len(self._resources) > 1 or "cost" not in info):
            found = info["costs"]
        else:
            found = _look_up(info, "cost")
        return read_costs(found, self._resources, "step")


def _pick(costs: Mapping[str, Any], resources: tuple[str, ...]) -> dict[str, Any]:
    return {name: costs[name] for name in resources}


def _look_up(info: Mapping[str, Any], key: str) -> Any:
    if key not in info:
        raise ModelError(
            "info after a step",
            f"a cost under {quote(key)}",
            f"the keys {quote(sorted(map(str, info)))}",
            "pass cost=... to the wrapper: another key, or a function of (observation, action, next_observation)",
        )
    return info[key]
