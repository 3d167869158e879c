"""Small environments with continuous and several discrete actions, and an account of floats that is kept beside."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Motor(gymnasium.Env[Any, Any]):
    """Costs `weight * sum(action ** 2)`, computed as MuJoCo environments do, in the action's own type."""

    def __init__(self, size: int = 3, weight: float = 0.1, dtype: Any = np.float32, steps: int = 200) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = spaces.Box(-1, 1, (size,), dtype)
        self._weight, self._steps = weight, steps

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step, self._at = 0, np.zeros(self.action_space.shape)
        return self._at.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action.dtype == self.action_space.dtype
        assert self.action_space.contains(action)
        self._step, self._at = self._step + 1, self._at + action
        control = self._weight * np.sum(np.square(action))
        reward = float(np.sum(action)) - float(control)
        return self._at.copy(), reward, False, self._step >= self._steps, {"reward_ctrl": -control, "cost": control}


class Switches(gymnasium.Env[Any, Any]):
    """Components with values, each of which costs its price."""

    def __init__(self, space: Any, prices: list[list[Any]]) -> None:
        self.observation_space, self.action_space = spaces.Discrete(1), space
        self.prices = [[Fraction(str(price)) for price in each] for each in prices]

    def price(self, observation: Any, action: Any, *_: Any) -> Fraction:
        start = np.asarray(getattr(self.action_space, "start", 0)) * np.ones(np.shape(action), int)
        values = np.ravel(np.asarray(action) - start)
        return sum((each[int(v)] for each, v in zip(self.prices, values, strict=True)), Fraction(0))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return 0, float(np.sum(action)), False, False, {"cost": self.price(0, action)}


class FloatMeter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds up a key of `info` in three ways: exactly, as float64, and as the sum of the numbers so far."""

    passes_actions = True

    def __init__(self, env: Any, key: str = "cost", sign: float = 1.0) -> None:
        super().__init__(env)
        self._key, self._sign = key, sign
        self.most, self.most_float, self.most_sum, self.steps = Fraction(0), 0.0, 0.0, 0

    def reset(self, **options: Any) -> Any:
        self._exact, self._float, self._all = Fraction(0), 0.0, []
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        cost = self._sign * float(result[4][self._key])
        self._exact, self._float = self._exact + Fraction(cost), self._float + cost
        self._all.append(cost)
        self.most, self.most_float = max(self.most, self._exact), max(self.most_float, self._float)
        self.most_sum, self.steps = max(self.most_sum, float(np.sum(self._all))), self.steps + 1
        return result
