"""`RandomStart`: episodes that begin in one state, by making the draw of the first one a step of its own."""

from __future__ import annotations

from typing import Any

import gymnasium

from solvent.errors import ModelError, quote


class RandomStart(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Begins every episode in one state more, from which the first step, whatever the action, leads to the true start.

    `solvent.learn` asks for episodes that all begin in the same state; Taxi's do not. The first step earns and costs
    nothing, so a horizon needs to be one longer.

    Parameters
    ----------
    env : gymnasium.Env
        With a `Discrete` observation space.
    key : str
        Where in `info` the cost of the first step, 0, is put.

    Attributes
    ----------
    first : int
        The state that was added, after all others.

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

    #: Each action is taken once and as it is.
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
        """Begin an episode; what is inside begins it with the first step."""
        self._waiting, self._given = True, {"seed": seed, "options": options}
        return self.first, {self._key: 0}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; the first one only draws the state in which the episode truly begins."""
        if not self._waiting:
            return self.env.step(action)
        self._waiting = False
        observation, info = self.env.reset(**self._given)
        return observation, 0.0, False, False, {**info, self._key: 0}
