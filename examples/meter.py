"""Shared by the scripts on agents: an independent meter, a wrapper with a penalty for comparison, and a table.

`Meter` is placed directly around the environment. It adds up costs exactly and counts the episodes that exceeded the
budget after some step. `Penalized` is the common alternative to a hard budget: the agent observes the remaining budget,
pays for each unit over budget, and is not stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table


class Tally(NamedTuple):
    """Number of episodes, number of those over budget, and total reward."""

    episodes: int = 0
    over: int = 0
    earned: float = 0.0


class Meter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Add up the costs in `info` and the rewards, without changing anything."""

    passes_actions = True

    def __init__(self, env: gymnasium.Env[Any, Any], budget: int | str) -> None:
        super().__init__(env)
        self.budget, self.spent, self.tally = Fraction(budget), Fraction(0), Tally()
        self._begun = self._over = False

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.spent, self._begun, self._over = Fraction(0), False, False
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.spent += Fraction(str(info["cost"]))
        episodes, over, earned = self.tally
        newly_over = self.spent > self.budget and not self._over
        self.tally = Tally(episodes + (not self._begun), over + newly_over, earned + float(reward))
        self._begun, self._over = True, self._over or newly_over
        return observation, reward, terminated, truncated, info

    def read(self) -> Tally:
        """Return the tally and start a new one."""
        tally, self.tally = self.tally, Tally()
        return tally


class Penalized(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Subtract `penalty` from the reward for each unit over budget; observations are those of `BudgetWrapper`."""

    def __init__(self, meter: Meter, penalty: float) -> None:
        super().__init__(meter)
        self._meter, self._penalty, self._step = meter, penalty, 0
        box = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        parts = {"observation": meter.observation_space, "remaining": box, "step": box}
        self.observation_space = gymnasium.spaces.Dict(parts)

    @property
    def remaining(self) -> Fraction:
        return self._meter.budget - self._meter.spent

    def _observe(self, observation: Any) -> dict[str, Any]:
        remaining, step = np.array([self.remaining], np.float32), np.array([self._step], np.float32)
        return {"observation": observation, "remaining": remaining, "step": step}

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        self._step = 0
        return self._observe(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        over = max(-self.remaining, 0)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._step += 1
        fine = self._penalty * float(max(-self.remaining, 0) - over)
        return self._observe(observation), float(reward) - fine, terminated, truncated, info


def show(title: str, rows: Mapping[str, tuple[Tally, Tally]]) -> None:
    """Print a table of the tallies of training and evaluation, one row per agent."""
    table = Table("", title=title, title_justify="left")
    for column in ("training episodes", "over budget", "evaluation episodes", "over budget", "mean reward"):
        table.add_column(column, justify="right")
    for name, (training, evaluation) in rows.items():
        mean = evaluation.earned / evaluation.episodes
        counts = (training.episodes, training.over, evaluation.episodes, evaluation.over)
        table.add_row(name, *(f"{count:,}" for count in counts), f"{mean:.3f}")
    Console().print(table)
