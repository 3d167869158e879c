"""Environments that do not depend on Solvent's conventions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from solvent.gym import ModelEnv
from solvent.model.cmdp import CMDP


class Foreign(gymnasium.Env[Any, Any]):
    """A model as a third-party environment: it reports floats and accepts every action."""

    def __init__(self, model: CMDP) -> None:
        self._inner = ModelEnv(model, fallback="first")
        self.observation_space, self.action_space = self._inner.observation_space, self._inner.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._inner.reset(seed=seed)[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._inner.step(action)
        return observation, reward, terminated, truncated, {"cost": info["cost"], "costs": info["costs"]}


class Road(gymnasium.Env[Any, Any]):
    """A road of cells; action a moves a cells ahead and costs prices[a], reported as `report` says."""

    def __init__(
        self, prices: Sequence[Any] = (0, 1, 2), *, length: int = 50, report: str = "info", start: int = 0
    ) -> None:
        self.prices, self._length, self._report, self._start = prices, length, report, start
        self.observation_space = gymnasium.spaces.Box(0, length, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(prices), start=start)
        self.taken: list[int] = []

    def _observe(self) -> Any:
        return np.array([min(self._cell, self._length)], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._cell, self.taken = 0, []
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        position = int(action) - self._start
        self.taken.append(int(action))
        self._cell += position
        cost, terminated = self.prices[position], self._cell >= self._length
        if self._report == "six":
            return self._observe(), float(position), cost, terminated, False, {}
        info = {"info": {"cost": cost}, "fuel": {"fuel": cost}, "nothing": {}}[self._report]
        return self._observe(), float(position), terminated, False, info
