"""What the scripts on agents share: a meter that nobody can talk to, the penalized rival, and a table.

`Meter` sits between the environment and everything else, adds up costs by itself, exactly, and counts the episodes that
were over budget after some step. `Penalized` is what people use instead of a budget: the agent sees what remains, pays
for each unit that it is over, and is not stopped.
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
    """What happened in a number of episodes: how many of them were over budget, and what they earned in all."""

    episodes: int = 0
    over: int = 0
    earned: float = 0.0


class Meter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds up the costs in `info` and the rewards, and changes nothing."""

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
        """Return the tally, and begin a new one."""
        tally, self.tally = self.tally, Tally()
        return tally


class Penalized(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes `penalty` off the reward for each unit over budget; shows the same as `BudgetWrapper` does."""

    def __init__(self, meter: Meter, penalty: float) -> None:
        super().__init__(meter)
        self._meter, self._penalty, self._step = meter, penalty, 0
        box = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        parts = {"observation": meter.observation_space, "remaining": box, "step": box}
        self.observation_space = gymnasium.spaces.Dict(parts)

    @property
    def remaining(self) -> Fraction:
        return self._meter.budget - self._meter.spent

    def _seen(self, observation: Any) -> dict[str, Any]:
        remaining, step = np.array([self.remaining], np.float32), np.array([self._step], np.float32)
        return {"observation": observation, "remaining": remaining, "step": step}

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        self._step = 0
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        over = max(-self.remaining, 0)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._step += 1
        fine = self._penalty * float(max(-self.remaining, 0) - over)
        return self._seen(observation), float(reward) - fine, terminated, truncated, info


def show(title: str, rows: Mapping[str, tuple[Tally, Tally]]) -> None:
    """Print who was over budget how often, in training and after it, and what they earned in the end."""
    table = Table("", title=title, title_justify="left")
    for column in ("training episodes", "over budget", "evaluation episodes", "over budget", "mean reward"):
        table.add_column(column, justify="right")
    for name, (training, evaluation) in rows.items():
        mean = evaluation.earned / evaluation.episodes
        counts = (training.episodes, training.over, evaluation.episodes, evaluation.over)
        table.add_row(name, *(f"{count:,}" for count in counts), f"{mean:.3f}")
    Console().print(table)
