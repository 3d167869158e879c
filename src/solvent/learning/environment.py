"""Environments to learn in: the required interface, and how states, actions and costs are read."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple, Protocol

from solvent.core.exact import Number, exact
from solvent.errors import ModelError, quote
from solvent.learning.starts import START
from solvent.model.build import read_costs
from solvent.model.cmdp import CMDP
from solvent.model.metering import Spent, Tape, check_wrappers, find_meter, kind_of, pick_costs
from solvent.model.spaces import finite_states, numbers_of, state_reader

#: Where to find the cost of a step: a key of `info`, a function of (observation, action, next observation), the cost of
#: every step, or None for `info["costs"]` or `info["cost"]`.
CostLike = str | Callable[[Any, Any, Any], Any] | Number | Mapping[str, Number] | None

#: Episodes are seeded with numbers below this.
_SEEDS = 2**31 - 1
#: The most exact costs kept for look-up.
_MOST_COSTS = 1_000_000


class Environment(Protocol):
    """The part of Gymnasium's interface that learning uses.

    `action_space` is `Discrete`: it has `n`, and may have `start`. `observation_space` is `Discrete`, `MultiDiscrete`
    or `MultiBinary`, or a `Tuple` or `Dict` of these. If there is an attribute `last_cost`, a dict of exact numbers by
    resource, it is read after each step in place of `info`.
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


def default_rewards(env: Any) -> tuple[float, float]:
    """Return the range of rewards that is assumed by default: that of a model, or else from 0 to 1."""
    model = env if isinstance(env, CMDP) else model_of(env)
    if model is None or not model.n_rows:
        return 0.0, 1.0
    return float(model.row_reward.min()), float(model.row_reward.max())


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
    observation : int, or tuple of int
        Name of the next state.
    reward : float
    costs : tuple of Fraction
        True cost of each limited resource.
    within : pair of tuples of Fraction, or None
        If the action took several steps of the environment: the most and the least of each resource spent after any of
        these steps.
    terminated, truncated : bool
        Whether the episode ended, or was truncated.
    """

    observation: Hashable
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

    drawn : bool
        Whether episodes begin with a step that draws the first state, and costs nothing (`solvent.learning.starts`).

    Raises
    ------
    ModelError
        If states or actions are not numbered, episodes do not all begin in the same state, or a wrapper inside can make
        the costs read differ from the true costs.
    """

    def __init__(
        self,
        env: Environment,
        resources: tuple[str, ...],
        cost: CostLike = None,
        seed: int = 0,
        *,
        drawn: bool = False,
    ) -> None:
        self._env, self._resources, self._seed = env, resources, seed
        self._cost = cost
        if cost is not None and not isinstance(cost, str) and not callable(cost):
            for constant in read_costs(cost, resources, "cost"):
                exact(constant, "cost")
        self._tape: Tape | None = None
        meter = find_meter(env, resources) if cost is None else None
        if meter is None:
            check_wrappers(env, kind_of(cost), "learn")
        else:
            self._tape = Tape(resources)
            meter.attach(self._tape)
        space: Any = getattr(env, "observation_space", None)
        self.observations = finite_states(space)
        self.actions = _actions(env)
        read = state_reader(space)
        assert read is not None  # other spaces have been refused
        self._read_state, self._known = read, frozenset(self.observations)
        self._exact: dict[tuple[type, Any], Fraction] = {}
        #: Costs of a single resource, by number: equal ones are the same tuple, which the account looks up.
        self._single: dict[tuple[type, Any], tuple[Fraction, ...]] = {}
        self._numbered = isinstance(self.observations, range)
        self.drawn, self._waiting = drawn, False
        self._observation: Any = None
        first = self._begin(0)
        self.start: Hashable = START if drawn else first
        self._nothing = (Fraction(0),) * len(resources)

    @property
    def states(self) -> tuple[Hashable, ...]:
        """Names of all states, with the one that draws the first state."""
        return (*self.observations, START) if self.drawn else tuple(self.observations)

    def _seed_of(self, episode: int) -> int:
        return (self._seed * 1_000_003 + episode) % _SEEDS

    def _begin(self, episode: int) -> Hashable:
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
        first = self._begin(episode)
        self._waiting = self.drawn
        if not self.drawn and first != self.start:
            expected = f"every episode to begin in state {self.start}"
            raise ModelError("reset", expected, str(first), "pass random_start=True")

    def step(self, action: Any) -> Transition:
        """Take an action; return its outcome. The first one may only draw the first state."""
        if self._waiting:
            self._waiting = False
            return Transition(self._state, 0.0, self._nothing, None, False, False)
        before = self._observation
        result = self._env.step(action)
        if not isinstance(result, tuple) or len(result) != 5:
            size = f"{len(result)}" if isinstance(result, tuple) else quote(result)
            raise ModelError("step", "five values: observation, reward, terminated, truncated, info", size)
        observation, reward, terminated, truncated, info = result
        state = self._read(observation, "step")
        if type(reward) is not float and type(reward) is not int and not isinstance(reward, Real):
            raise ModelError("step, reward", "a number", quote(reward))
        if self._tape is None:
            within = None
            costs = self._read_costs(self._find_cost(before, action, info))
        else:
            spent = self._tape.take()
            within = None if spent.high is None or spent.low is None else (spent.high, spent.low)
            costs = self._exactly(spent)
        return Transition(state, float(reward), costs, within, bool(terminated), bool(truncated))

    def _read_costs(self, cost: Any) -> tuple[Fraction, ...]:
        """Return the costs of a single step; a number seen before is looked up."""
        known = self._single.get((type(cost), cost)) if type(cost) is int or type(cost) is float else None
        if known is not None:
            return known
        costs = self._exactly(Spent.once(read_costs(cost, self._resources, "step")))
        if (type(cost) is int or type(cost) is float) and len(self._single) < _MOST_COSTS:
            self._single[type(cost), cost] = costs
        return costs

    def _exactly(self, spent: Spent) -> tuple[Fraction, ...]:
        return tuple(map(self._exact_cost, spent.reported))

    def _exact_cost(self, cost: Any) -> Fraction:
        """Return a cost as an exact number; numbers seen before are looked up."""
        if type(cost) is not int and type(cost) is not float:
            return exact(cost, "step, cost")
        found = self._exact.get((type(cost), cost))
        if found is None:
            found = exact(cost, "step, cost")
            if len(self._exact) < _MOST_COSTS:
                self._exact[type(cost), cost] = found
        return found

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

    def _read(self, observation: Any, where: str) -> Hashable:
        """Return the name of the state that an observation is, and keep both."""
        try:
            state = self._read_state(observation)
        except (TypeError, ValueError, KeyError, IndexError):
            state = None
        if state not in self._known:
            states = self.observations
            kind = f"a number from {states[0]} to {states[-1]}" if isinstance(states, range) else "one of the space"
            raise ModelError(f"{where}, observation", kind, quote(observation))
        self._state = state
        if self._numbered:
            self._observation = state
        elif callable(self._cost):  # a copy, since an environment may write into the same array at every step
            self._observation = copy.deepcopy(observation)
        return state


def _actions(env: Any) -> range:
    return numbers_of(getattr(env, "action_space", None), "action_space", "actions", "a Discrete space")
