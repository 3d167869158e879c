"""Where costs come from: a meter, `info`, a sixth value of `step`, or a function of the transition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from solvent.errors import ModelError, quote
from solvent.gym.layout import own_copy
from solvent.model.build import read_costs
from solvent.model.metering import Spent, Tape, check_wrappers, find_meter, kind_of, pick_costs

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

    #: Each action is taken once and as it is (`solvent.model.metering`).
    passes_actions = True

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


class CostMeter(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Measures costs where they arise, for a `BudgetWrapper` or `solvent.learn` further out.

    Wrappers between an environment and its budget may replace or repeat actions (`StickyAction`, `RepeatAction`), so
    that what a step costs cannot be told from the outside. A meter directly around the environment sees what was really
    done: it notes the cost of every step, and whoever keeps the budget reads it there.

    Parameters
    ----------
    env : gymnasium.Env
        The environment itself, or the adapter that reports its costs.
    cost : str, function, mapping or number, optional
        What a step costs: a key of `info`, a function of (observation, action, next observation) as they are here, or
        the same each time. If not given: what `step` returns as a sixth value, or else `info["costs"]` or
        `info["cost"]`.

    Raises
    ------
    ModelError
        If a wrapper inside can make the cost differ from what arises.

    Examples
    --------
    >>> from gymnasium.wrappers import StickyAction
    >>> from solvent.gym import BudgetWrapper
    >>> lake = CostMeter(gymnasium.make("FrozenLake-v1"), cost=lambda state, action, after: action)
    >>> env = BudgetWrapper(StickyAction(lake, 0.5), budget=12, cost_bound=3)  # whatever is taken costs at most 3
    >>> _ = env.reset(seed=1)
    >>> _ = env.step(3), env.step(0)
    >>> env.spent
    {'cost': Fraction(6, 1)}
    """

    #: Each action is taken once and as it is.
    passes_actions = True

    def __init__(self, env: gymnasium.Env[Any, Any], cost: CostLike = None) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, _disable_deepcopy=True, cost=cost)
        gymnasium.Wrapper.__init__(self, env)
        check_wrappers(env, kind_of(cost), "CostMeter", adapted=True)
        self._cost, self._before = cost, None
        self._tapes: list[Tape] = []

    def meters(self, resources: tuple[str, ...]) -> bool:
        """Whether it measures these resources: any, as its cost says."""
        return True

    def attach(self, tape: Tape) -> None:
        """Write on a tape from now on."""
        self._tapes.append(tape)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._before = own_copy(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action, and note what it cost."""
        observation, reward, terminated, truncated, info, own = split_step(self.env.step(action))
        before, self._before = self._before, own_copy(observation)
        for tape in self._tapes:
            tape.write(find_cost(self._cost, tape.resources, before, action, self._before, info, own))
        return observation, reward, terminated, truncated, info


class CostReader:
    """Finds what a step cost, per resource, as it was reported.

    Parameters
    ----------
    env : gymnasium.Env
    resources : tuple of str
    cost : str, function, mapping, number or None
        A key of `info`; a function of (observation, action, next observation); what each step costs; or None for what
        a meter inside measures, or else `step` returns as a value of its own, or else `info["costs"]`, or else
        `info["cost"]`.

    Raises
    ------
    ModelError
        If a wrapper inside can make the cost differ from what arises, and no meter measures it.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], resources: tuple[str, ...], cost: CostLike = None) -> None:
        self._resources, self._cost = resources, cost
        self._tape: Tape | None = None
        meter = find_meter(env, resources) if cost is None else None
        if meter is None:
            check_wrappers(env, kind_of(cost), "BudgetWrapper")
        else:
            self._tape = Tape(resources)
            meter.attach(self._tape)

    def begin(self) -> None:
        """Forget what was spent; before the environment begins an episode."""
        if self._tape is not None:
            self._tape.rewind()

    def begun(self) -> Spent:
        """Return what beginning the episode cost, if a meter saw that: a wrapper may take steps in its `reset`."""
        return Spent(0, [0] * len(self._resources), None, None) if self._tape is None else self._tape.take()

    def __call__(
        self, observation: Any, action: Any, next_observation: Any, info: Mapping[str, Any], own: Any
    ) -> Spent:
        """Return one entry per resource; a `ModelError` if there is none or they do not fit."""
        if self._tape is not None:
            return self._tape.take()
        found = find_cost(self._cost, self._resources, observation, action, next_observation, info, own)
        return Spent.once(read_costs(found, self._resources, "step"))


def find_cost(
    cost: CostLike,
    resources: tuple[str, ...],
    observation: Any,
    action: Any,
    next_observation: Any,
    info: Mapping[str, Any],
    own: Any,
) -> Any:
    """Return what a step cost, as it was reported; a `ModelError` if there is nothing where it should be."""
    if callable(cost):
        return cost(observation, action, next_observation)
    if isinstance(cost, str):
        return _look_up(info, cost)
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


def _look_up(info: Mapping[str, Any], key: str) -> Any:
    if key not in info:
        raise ModelError(
            "info after a step",
            f"a cost under {quote(key)}",
            f"the keys {quote(sorted(map(str, info)))}",
            "pass cost=... to the wrapper: another key, or a function of (observation, action, next_observation)",
        )
    return info[key]
