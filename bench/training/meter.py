"""An independent meter, placed directly around the environment in every run; it imports nothing of Solvent.

An episode is over budget if, after some step, the exact sum of the costs so far exceeds the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import gymnasium


class Episode(NamedTuple):
    """One episode, as measured.

    Attributes
    ----------
    end : int
        Number of steps of the run at the end of the episode.
    earned : float
        Sum of the environment's own rewards.
    most : float
        The most that was spent after any step.
    over : bool
        Whether the budget was exceeded after any step.
    finished : bool
        Whether the environment, its horizon or the method ended the episode; False if the training loop cut it off.
    """

    end: int
    earned: float
    most: float
    over: bool
    finished: bool


class Meter(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Add up costs and rewards of an environment, and report each step's cost as `info["cost"]`.

    Parameters
    ----------
    env : gymnasium.Env
    cost : function of (environment, action, info)
        Cost of the step just taken.
    budget : int
    horizon : int
        Number of steps after which an episode is finished.

    Attributes
    ----------
    episodes : list of Episode
        The episodes so far, without the one under way.
    reset_finishes : bool
        Whether a reset ends an episode as the method intends; set for methods that terminate early.
    """

    #: Solvent's wrappers accept wrappers inside that pass actions on unchanged.
    passes_actions = True

    def __init__(
        self, env: gymnasium.Env, cost: Callable[[Any, Any, dict[str, Any]], float], budget: int, horizon: int
    ) -> None:
        super().__init__(env)
        self.episodes: list[Episode] = []
        self.reset_finishes = False
        self._cost, self._budget, self._horizon = cost, Fraction(budget), horizon
        self._steps = 0
        self._begin()

    def _begin(self) -> None:
        self._length, self._earned, self._ended = 0, 0.0, False
        self._spent = self._most = Fraction(0)

    def _close(self) -> None:
        if self._length:
            finished = self.reset_finishes or self._ended or self._length >= self._horizon
            over = self._most > self._budget
            self.episodes.append(Episode(self._steps, self._earned, float(self._most), over, finished))
        self._begin()

    def reset(self, **options: Any) -> Any:
        """Close the episode, if one has begun, and start another."""
        self._close()
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        """Take a step and measure it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        cost = self._cost(self.env.unwrapped, action, info)
        self._spent += Fraction(cost)
        self._most = max(self._most, self._spent)
        self._steps, self._length = self._steps + 1, self._length + 1
        self._earned += float(reward)
        self._ended = bool(terminated)
        return observation, reward, terminated, truncated, {**info, "cost": cost}

    def read(self) -> list[Episode]:
        """Return the episodes so far, including one that is under way, and start counting again."""
        self._close()
        episodes, self.episodes, self._steps = self.episodes, [], 0
        return episodes
