"""Registered environments for learning: made by id, with readable errors and the model in their table, if any."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np

from solvent.errors import ModelError, SolventError, quote
from solvent.gym.env import ENV_ID
from solvent.gym.starts import RandomStart
from solvent.model.budget import Budget, limits_of
from solvent.model.cmdp import CMDP
from solvent.model.gymnasium_tables import from_gymnasium

#: Cost of a step: one per action, a constant, a key of `info`, or None for `info["cost"]`.
StepCost = tuple[Fraction, ...] | Fraction | str | None


@dataclass(frozen=True)
class Registered:
    """A registered environment and what is known about it.

    Attributes
    ----------
    env : gymnasium.Env
    horizon : int
        The requested horizon, plus one step if the start is random.
    budget : dict of str to Budget
        Budget by resource, shifted by one step if the start is random.
    cost : function or str or None
        Argument `cost` of `solvent.learn`.
    table : CMDP or None
        The model in the environment's table `P`, if it has one and costs are numbers.
    reward_range : (float, float) or None
        Range of the rewards in the table.
    """

    env: Any
    horizon: int
    budget: dict[str, Budget]
    cost: Callable[[Any, Any, Any], Any] | str | None
    table: CMDP | None
    reward_range: tuple[float, float] | None


def make_registered(
    name: str,
    arguments: Mapping[str, Any],
    horizon: int,
    step_cost: StepCost,
    budget: Mapping[str, Budget],
    note: Callable[[str], None],
) -> Registered:
    """Make an environment and read its table, if it has one.

    Parameters
    ----------
    name : str
        Id for `gymnasium.make`, which imports the module before a colon.
    arguments : mapping
        Keyword arguments of the environment.
    horizon : int
        Number of steps; replaces the environment's own time limit.
    step_cost : StepCost
    budget : mapping of str to Budget
        Budget by resource.
    note : function of a str
        Receives Gymnasium's warnings.

    Raises
    ------
    ModelError
        If the environment cannot be made.
    """
    env: Any = ErrorReporter(_make(name, arguments, horizon, note), name)
    base = env.unwrapped
    drawn = int(np.count_nonzero(getattr(base, "initial_state_distrib", [1]))) > 1
    if drawn:
        env = RandomStart(env, key=step_cost if isinstance(step_cost, str) else "cost")
        budget = {key: _later(each, horizon, key) for key, each in budget.items()}
    cost = _cost(step_cost, env, env.first if drawn else None)
    found, model = getattr(base, "P", None), None
    if found is not None and callable(cost):
        source, start = (_with_draw(env, found), env.first) if drawn else (env, None)
        options: dict[str, Any] = {
            "resources": tuple(budget),
            "budget": budget,
            "name": env.spec.id if env.spec else "",
        }
        model = from_gymnasium(source, cost, horizon + drawn, start=start, **options)
    return Registered(env, horizon + drawn, dict(budget), cost, model, _rewards(found, drawn))


def _make(name: str, arguments: Mapping[str, Any], horizon: int, note: Callable[[str], None]) -> Any:
    if name == ENV_ID:
        raise ModelError(name, "a model file instead of an environment", quote(name), "solvent learn MODEL")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            env = gymnasium.make(name, max_episode_steps=horizon, disable_env_checker=True, **arguments)
        except gymnasium.error.UnregisteredEnv as error:
            raise ModelError(name, "a model file, or the id of a registered environment", _line(error)) from error
        except Exception as error:  # third-party code may raise anything
            found = f"{type(error).__name__}: {_line(error)}"
            raise ModelError(name, "an environment that can be made", found) from error
    for warning in said:
        note(_line(warning.message))
    return env


def _line(message: object) -> str:
    """Return a third-party message on one line, without color codes."""
    text = " ".join(str(message).split()).replace("\x1b[33m", "").replace("\x1b[0m", "")
    return text.removeprefix("WARN: ") or "no reason given"


def _cost(step_cost: StepCost, env: Any, first: int | None) -> Callable[[Any, Any, Any], Any] | str | None:
    if step_cost is None or isinstance(step_cost, str):
        return step_cost
    begin = int(env.action_space.start)
    if isinstance(step_cost, tuple) and len(step_cost) != env.action_space.n:
        raise ModelError("cost", f"one cost for each of {env.action_space.n} actions", f"{len(step_cost)} costs")

    def cost(before: Any, action: Any, after: Any) -> Fraction:
        if first is not None and before == first:
            return Fraction(0)
        return step_cost[int(action) - begin] if isinstance(step_cost, tuple) else step_cost

    return cost


def _rewards(table: Any, drawn: bool) -> tuple[float, float] | None:
    if table is None:
        return None
    rewards = [float(r) for row in table.values() for outcomes in row.values() for p, _, r, _ in outcomes if p > 0]
    if drawn:
        rewards.append(0.0)
    return min(rewards), max(rewards)


def _later(budget: Budget, horizon: int, where: str) -> Budget:
    """Return a budget for episodes with one extra first step, after which there is no limit."""
    fixed = budget.over(horizon, where)
    if isinstance(fixed.upper, Fraction) and fixed.upper >= 0 and fixed.lower is None:
        return fixed
    limits = limits_of({where: fixed}, horizon)
    if not limits.resources:
        return fixed
    upper, lower = ([None, *side[0]] for side in (limits.upper, limits.lower))
    return Budget(
        upper=upper if any(limit is not None for limit in upper) else None,
        lower=lower if any(limit is not None for limit in lower) else None,
    )


def _with_draw(env: RandomStart, table: Any) -> SimpleNamespace:
    """Return a table with the additional first state of a random start, in which one action draws the next state."""
    chances = np.asarray(env.unwrapped.initial_state_distrib, np.float64)  # type: ignore[attr-defined]
    drawn = [(float(p / chances.sum()), int(s), 0.0, False) for s, p in enumerate(chances.tolist()) if p > 0]
    first_action = int(env.action_space.start)  # type: ignore[attr-defined]
    known = dict(table) if isinstance(table, Mapping) else dict(enumerate(table))
    return SimpleNamespace(P={**known, env.first: {first_action: drawn}})


class ErrorReporter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Turn exceptions inside an environment into a `SolventError` that names the environment."""

    #: Each action is executed once and unchanged.
    passes_actions = True

    def __init__(self, env: gymnasium.Env[Any, Any], name: str) -> None:
        super().__init__(env)
        self._name = name

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        return self._call("reset", lambda: self.env.reset(seed=seed, options=options))  # type: ignore[no-any-return]

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action."""
        return self._call("step", lambda: self.env.step(action))  # type: ignore[no-any-return]

    def _call(self, method: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except SolventError:
            raise
        except Exception as error:  # third-party code may raise anything
            found = f"{type(error).__name__}: {_line(error)}"
            raise SolventError(f"environment {self._name} failed in {method}(): {found}") from error
