"""Environments to learn in: the required interface, and how states, actions and costs are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple, Protocol

from solvent.core.exact import Number, exact
from solvent.errors import ModelError, quote
from solvent.model.build import read_costs
from solvent.model.cmdp import CMDP
from solvent.model.metering import Spent, Tape, check_wrappers, find_meter, kind_of, pick_costs

#: Where to find the cost of a step: a key of `info`, a function of (observation, action, next observation), the cost of
#: every step, or None for `info["costs"]` or `info["cost"]`.
CostLike = str | Callable[[Any, Any, Any], Any] | Number | Mapping[str, Number] | None

#: Episodes are seeded with numbers below this.
_SEEDS = 2**31 - 1


class Environment(Protocol):
    """The part of Gymnasium's interface that learning uses.

    `observation_space` and `action_space` are `Discrete`: they have `n`, and may have `start`. If there is an attribute
    `last_cost`, a dict of exact numbers by resource, it is read after each step in place of `info`.
    """

    observation_space: Any
    action_space: Any

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and return the observation and `info`; the same seed must give the same episode."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; return the next observation, reward, terminated, truncated and `info`."""


#: Wrappers that `gymnasium.make` adds and that do not change what an environment does.
_TRANSPARENT = ("gymnasium.wrappers.common.OrderEnforcing", "gymnasium.wrappers.common.PassiveEnvChecker")
#: Another such wrapper, unless it ends episodes before the horizon.
_TIME_LIMIT = "gymnasium.wrappers.common.TimeLimit"


def model_of(env: Any) -> CMDP | None:
    """Return the model that an environment plays, if it does nothing else, so that the model can be played instead.

    A class declares this by `plays_its_model`; the declaration does not extend to derived classes. Only wrappers that
    `gymnasium.make` adds are removed: any other may change costs, rewards or the effect of an action.
    """
    inner, longest = env, None
    while (name := f"{type(inner).__module__}.{type(inner).__qualname__}") in (*_TRANSPARENT, _TIME_LIMIT):
        if name == _TIME_LIMIT:
            longest = min(inner._max_episode_steps, inner._max_episode_steps if longest is None else longest)
        inner = inner.env
    model = getattr(inner, "model", None)
    if vars(type(inner)).get("plays_its_model") is not True or not isinstance(model, CMDP):
        return None
    return model if longest is None or longest >= model.horizon else None


def wrapped_model_hint(env: Any) -> str:
    """Return a hint if an environment contains a model that is not played directly because of a wrapper."""
    inner = getattr(env, "unwrapped", env)
    if inner is env or model_of(inner) is None:
        return ""
    return f"{type(env).__name__} may change the model inside it; learn in env.unwrapped to ignore the wrapper"


def refuse_budget_wrapper(env: Any) -> None:
    """Raise a `ModelError` if an environment keeps a budget itself, which would interfere with learning."""
    inner = env
    while inner is not None:
        if getattr(type(inner), "keeps_budget", False) is True:
            raise ModelError(
                "environment", "one that does not keep a budget, as learning keeps it", f"a {type(inner).__name__}",
                "learn in the environment inside, env.env, with budget=... and support=... or cost_bound=...",
            )  # fmt: skip
        inner = getattr(inner, "env", None)


class Transition(NamedTuple):
    """The outcome of an action.

    Attributes
    ----------
    observation : int
    reward : float
    costs : tuple of Fraction
        True cost of each limited resource.
    within : pair of tuples of Fraction, or None
        If the action took several steps of the environment: the most and the least of each resource spent after any of
        these steps.
    terminated, truncated : bool
        Whether the episode ended, or was truncated.
    """

    observation: int
    reward: float
    costs: tuple[Fraction, ...]
    within: tuple[tuple[Fraction, ...], tuple[Fraction, ...]] | None
    terminated: bool
    truncated: bool


class ExactEnvironment:
    """An environment whose costs are read as exact numbers.

    Parameters
    ----------
    env : Environment
    resources : tuple of str
        The limited resources.
    cost : CostLike
    seed : int
        Random seed. The seed of each episode follows from it and the episode's number, so that a run can be resumed
        anywhere.

    Raises
    ------
    ModelError
        If states or actions are not numbered, episodes do not all begin in the same state, or a wrapper inside can make
        the costs read differ from the true costs.
    """

    def __init__(self, env: Environment, resources: tuple[str, ...], cost: CostLike = None, seed: int = 0) -> None:
        self._env, self._resources, self._seed = env, resources, seed
        self._cost = cost
        self._tape: Tape | None = None
        meter = find_meter(env, resources) if cost is None else None
        if meter is None:
            check_wrappers(env, kind_of(cost), "learn")
        else:
            self._tape = Tape(resources)
            meter.attach(self._tape)
        self.observations = _numbers(env, "observation_space", "states")
        self.actions = _numbers(env, "action_space", "actions")
        self._observation: Any = None
        self.start = self._begin(0)

    def _seed_of(self, episode: int) -> int:
        return (self._seed * 1_000_003 + episode) % _SEEDS

    def _begin(self, episode: int) -> int:
        if self._tape is not None:
            self._tape.rewind()
        result = self._env.reset(seed=self._seed_of(episode))
        if not isinstance(result, tuple) or len(result) != 2:
            raise ModelError("reset", "two values: observation and info", quote(result))
        if self._tape is not None and any(self._exactly(self._tape.take())):
            raise ModelError(
                "reset", "no costs before the first step", "costs measured by a meter inside",
                "make the steps that a wrapper takes in reset a separate step: solvent.gym.RandomStart(env)",
            )  # fmt: skip
        return self._read(result[0], "reset")

    def reset(self, episode: int) -> None:
        """Begin the episode with this number."""
        self._observation = self._begin(episode)
        if self._observation != self.start:
            raise ModelError(
                "reset",
                f"every episode to begin in state {self.start}",
                str(self._observation),
                "make the draw of the first state a separate step: solvent.gym.RandomStart(env)",
            )

    def step(self, action: Any) -> Transition:
        """Take an action; return its outcome."""
        before = self._observation
        result = self._env.step(action)
        if not isinstance(result, tuple) or len(result) != 5:
            size = f"{len(result)}" if isinstance(result, tuple) else quote(result)
            raise ModelError("step", "five values: observation, reward, terminated, truncated, info", size)
        observation, reward, terminated, truncated, info = result
        self._observation = self._read(observation, "step")
        if not isinstance(reward, Real):
            raise ModelError("step, reward", "a number", quote(reward))
        if self._tape is not None:
            spent = self._tape.take()
        else:
            spent = Spent.once(read_costs(self._find_cost(before, action, info), self._resources, "step"))
        within = None if spent.high is None or spent.low is None else (spent.high, spent.low)
        costs = self._exactly(spent)
        return Transition(self._observation, float(reward), costs, within, bool(terminated), bool(truncated))

    @staticmethod
    def _exactly(spent: Spent) -> tuple[Fraction, ...]:
        return tuple(exact(each, "step, cost") for each in spent.reported)

    def _find_cost(self, before: Any, action: Any, info: Mapping[str, Any]) -> Any:
        if callable(self._cost):
            return self._cost(before, action, self._observation)
        if self._cost is not None and not isinstance(self._cost, str):
            return self._cost
        if self._cost is None:
            exactly = getattr(self._env, "last_cost", None)
            if exactly is not None:
                return pick_costs(exactly, self._resources, "last_cost")
            if "costs" in info and (len(self._resources) > 1 or "cost" not in info):
                return pick_costs(info["costs"], self._resources, "info after a step")
        key = "cost" if self._cost is None else self._cost
        if key not in info:
            raise ModelError(
                "info after a step",
                f"a cost under {quote(key)}",
                f"the keys {quote(sorted(map(str, info)))}",
                "pass cost=...: another key, a number, or a function of (observation, action, next_observation)",
            )
        return info[key]

    def _read(self, observation: Any, where: str) -> int:
        try:
            number = int(observation)
        except (TypeError, ValueError):
            number = None
        if number is None or number not in self.observations:
            first, last = self.observations[0], self.observations[-1]
            raise ModelError(f"{where}, observation", f"a number from {first} to {last}", quote(observation))
        return number


def _numbers(env: Any, name: str, kind: str) -> range:
    space = getattr(env, name, None)
    n = getattr(space, "n", None)
    if n is None or getattr(space, "shape", ()) != ():
        raise ModelError(
            f"environment, {name}", f"a Discrete space, as {kind} must be numbered", quote(space),
            f"learn in a CMDP, or wrap the environment so that its {kind} are numbered",
        )  # fmt: skip
    first = int(getattr(space, "start", 0))
    return range(first, first + int(n))
