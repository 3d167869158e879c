"""Players of episodes: agents of other libraries, functions, policies of Solvent, and random actions.

A player returns the action for an observation; it also knows the `info` and whether a step is the first of its episode.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from solvent.errors import ModelError, PolicyError, did_you_mean, quote
from solvent.gym.account import AccountWrapper
from solvent.gym.env import ModelEnv
from solvent.gym.recording import recording_meter
from solvent.model.metering import Tape, layers
from solvent.model.spaces import state_reader

_AGENTS = "an object with predict, a function of (observation, info), a policy of Solvent, or 'random'"


class Player(ABC):
    """Plays episodes."""

    #: Greatest number of steps that it can take in an episode.
    horizon: int | None = None

    @abstractmethod
    def __call__(self, observation: Any, info: Mapping[str, Any], first: bool) -> Any:
        """Return an action; `first` says that the step is the first of its episode."""

    def close(self) -> None:  # noqa: B027  # most players hold nothing
        """Release what it holds of the environment."""


def player_of(env: Any, agent: Any, seed: int | None, deterministic: bool) -> Player:
    """Return the player for an agent; raise a `ModelError` if it is none."""
    if isinstance(agent, str) and agent == "random":
        return _RandomPlayer(env, seed)
    if isinstance(agent, type):
        raise ModelError("agent", _AGENTS, quote(agent), "pass an instance of the class")
    if callable(getattr(agent, "predict", None)):
        return _PredictPlayer(agent, deterministic)
    policy = agent if callable(agent) else getattr(agent, "policy", agent)  # of the result of `solve` or `learn`
    if callable(getattr(policy, "agent", None)):
        if isinstance(env.unwrapped, ModelEnv):
            return _PolicyPlayer(env.unwrapped, policy, seed)
        return _StatePlayer(env, policy, seed)
    if callable(agent):
        return _FunctionPlayer(agent)
    raise ModelError("agent", _AGENTS, quote(agent), did_you_mean(agent, ["random"]) if isinstance(agent, str) else "")


class _PredictPlayer(Player):
    """Calls `predict`, with the mask if it takes one, and with the state that a recurrent agent returned before."""

    def __init__(self, agent: Any, deterministic: bool) -> None:
        self._predict, self._deterministic = agent.predict, deterministic
        self._takes = inspect.signature(agent.predict).parameters
        self._state: Any = None

    def __call__(self, observation: Any, info: Mapping[str, Any], first: bool) -> Any:
        given: dict[str, Any] = {"deterministic": self._deterministic}
        if "action_masks" in self._takes and "action_mask" in info:
            given["action_masks"] = info["action_mask"]
        if {"state", "episode_start"} <= self._takes.keys():
            given |= {"state": None if first else self._state, "episode_start": np.array([first])}
        answer = self._predict(observation, **given)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise ModelError("agent, predict", "a tuple (action, state)", quote(answer))
        action, self._state = answer
        return action.item() if isinstance(action, np.ndarray) and action.ndim == 0 else action


class _FunctionPlayer(Player):
    """Calls a function of (observation, info), or of the observation alone."""

    def __init__(self, agent: Callable[..., Any]) -> None:
        expected = "a function of (observation, info) or of the observation alone"
        hint = "write lambda observation, info: ..."
        try:
            signature = inspect.signature(agent)
        except (TypeError, ValueError):  # some functions of C have none
            raise ModelError("agent", expected, quote(agent), hint) from None
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        empty = inspect.Parameter.empty
        required = [each for each in signature.parameters.values() if each.kind in kinds and each.default is empty]
        self._agent, self._with_info = agent, len(required) != 1 and _accepts(signature, 2)
        if not self._with_info and not _accepts(signature, 1):
            raise ModelError("agent", expected, f"one with the arguments {signature}", hint)

    def __call__(self, observation: Any, info: Mapping[str, Any], first: bool) -> Any:
        return self._agent(observation, info) if self._with_info else self._agent(observation)


def _accepts(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


class _RandomPlayer(Player):
    """Samples actions, among those that a mask allows if there is one."""

    def __init__(self, env: Any, seed: int | None) -> None:
        self._space, self._rng = env.action_space, np.random.default_rng(seed)
        self._space.seed(int(self._rng.integers(2**31)))

    def __call__(self, observation: Any, info: Mapping[str, Any], first: bool) -> Any:
        if "action_mask" in info and isinstance(self._space, gymnasium.spaces.Discrete):
            safe = np.flatnonzero(info["action_mask"])
            if not len(safe):
                raise PolicyError("agent", "a mask that allows an action", "an empty mask in info")
            return int(self._rng.choice(safe)) + int(self._space.start)
        return self._space.sample()


class _PolicyPlayer(Player):
    """Follows a policy of Solvent in a `ModelEnv`."""

    def __init__(self, base: ModelEnv, policy: Any, seed: int | None) -> None:
        self._base, self._policy, self._rng = base, policy, np.random.default_rng(seed)
        self._model = [base.model] if getattr(policy, "model", base) is None else []  # it was loaded without a model
        self._agent: Any = None

    def __call__(self, observation: Any, info: Mapping[str, Any], first: bool) -> int:
        if first:
            seed = int(self._rng.integers(2**31))
            self._agent = self._policy.agent(*self._model, seed=seed, step=0, state=self._base.state)
        else:
            self._agent.observe(self._base.state, self._base.last_cost)
        return self._base.model.actions.index(self._agent.act())


class _StatePlayer(Player):
    """Follows a policy of Solvent in an environment whose observations name the states of the policy's model.

    Observations are those inside all wrappers with a budget, and states are named as in `solvent.learn`. Episodes end
    at the horizon of the policy, which has no decisions after it.
    """

    def __init__(self, env: Any, policy: Any, seed: int | None) -> None:
        wrappers = [layer for layer in layers(env) if isinstance(layer, AccountWrapper)]
        self._wrapper = wrappers[-1] if wrappers else None
        space = (env if self._wrapper is None else self._wrapper.env).observation_space
        read, model = state_reader(space), getattr(policy, "model", None)
        if read is None or model is None:
            raise _not_followed(quote(space) if read is None else "a policy without its model")
        self._policy, self._rng, self._read = policy, np.random.default_rng(seed), read
        self.horizon, self._states = int(model.horizon), frozenset(model.states)
        self._agent: Any = None
        self._tape = Tape(model.resources)
        self._meter = recording_meter(env, model.resources, "agent, resources of the policy")
        self._meter.attach(self._tape)

    def __call__(self, observation: Any, info: Mapping[str, Any], first: bool) -> Any:
        state = self._read(observation if self._wrapper is None else self._wrapper._inner)
        spent = self._tape.take()
        if state not in self._states:
            raise _not_followed(f"an observation of {quote(state)}")
        if first:
            self._agent = self._policy.agent(seed=int(self._rng.integers(2**31)), step=0, state=state)
        else:
            self._agent.observe(state, dict(zip(self._tape.resources, spent.reported, strict=True)))
        return self._agent.act()

    def close(self) -> None:
        """Read the meter no longer."""
        self._meter.detach(self._tape)


def _not_followed(found: str) -> ModelError:
    expected = "a policy only for a ModelEnv, or for an environment whose observations name the states of its model"
    return ModelError("agent", expected, found, "pass a function of (observation, info) that follows the policy")
