"""`RandomStart`: a fixed initial state, whose first step leads to the environment's random initial state."""

from __future__ import annotations

from typing import Any

import gymnasium

from solvent.errors import ModelError, quote


class RandomStart(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Start every episode in an additional state, from which any action leads to the random initial state.

    `solvent.learn` needs episodes that all start in the same state; those of Taxi, for example, do not. The first step
    has no reward and no cost, so the horizon must be one step longer.

    Parameters
    ----------
    env : gymnasium.Env
        Environment with a `Discrete` observation space.
    key : str
        Key of the cost of the first step, 0, in `info`.

    Attributes
    ----------
    first : int
        Number of the additional state: the last one.

    Examples
    --------
    >>> env = RandomStart(gymnasium.make("Taxi-v4"))
    >>> observation, info = env.reset(seed=1)
    >>> observation == env.first == 500
    True
    >>> observation, reward, terminated, truncated, info = env.step(0)
    >>> observation < 500, reward, info["cost"]
    (True, 0.0, 0)
    """

    #: Each action is executed once and unchanged.
    passes_actions = True

    def __init__(self, env: gymnasium.Env[Any, Any], key: str = "cost") -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, key=key)
        gymnasium.Wrapper.__init__(self, env)
        space = env.observation_space
        if not isinstance(space, gymnasium.spaces.Discrete):
            raise ModelError("RandomStart", "an environment whose states are numbered (Discrete)", quote(space))
        self.first = int(space.start) + int(space.n)
        self.observation_space = gymnasium.spaces.Discrete(int(space.n) + 1, start=int(space.start))
        self._key, self._waiting = key, False
        self._given: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in the additional state; the environment itself is reset by the first step."""
        self._waiting, self._given = True, {"seed": seed, "options": options}
        return self.first, {self._key: 0}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; the first one is ignored and samples the initial state."""
        if not self._waiting:
            return self.env.step(action)
        self._waiting = False
        observation, info = self.env.reset(**self._given)
        return observation, 0.0, False, False, {**info, self._key: 0}
