"""A wrapper below `BudgetWrapper` that adds up costs independently."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import gymnasium


class Ledger(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Records what was spent after each step of each episode.

    The cost is a function of (observation, action, next observation, reward, info), by default `info["cost"]`.
    """

    passes_actions = True

    def __init__(self, env: Any, price: Callable[..., Fraction] | None = None) -> None:
        super().__init__(env)
        self._price, self._before = price or _reported, None
        self.episodes: list[list[Fraction]] = []

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        self._before = observation
        self.episodes.append([])
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        spent = self.episodes[-1]
        cost = self._price(self._before, int(action), *result[:2], result[-1])
        spent.append((spent[-1] if spent else Fraction(0)) + cost)
        self._before = result[0]
        return result

    @property
    def steps(self) -> int:
        """Number of steps recorded."""
        return sum(map(len, self.episodes))

    def most(self) -> Fraction:
        """Return the greatest amount spent after any step."""
        return max(amount for episode in self.episodes for amount in episode)


def _reported(before: Any, action: int, after: Any, reward: Any, info: Any) -> Fraction:
    return Fraction(str(info["cost"]))
