"""The environments, all from Gymnasium, each with a cost and a budget; this module imports nothing of Solvent.

The same code runs beside Solvent and, in the virtual environment of OmniSafe, with an older Gymnasium.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from bench.training.meter import Meter


@dataclass(frozen=True)
class Task:
    """An environment with a budget.

    Attributes
    ----------
    name : str
        Identifier in Gymnasium.
    horizon : int
        Steps of an episode.
    budget : int
    cost : function of (environment, action, info)
        Cost of the step just taken; a number whose value in the record is exact.
    charge : str
        The cost in words.
    discrete : bool
    gamma, learning_rate : float
        Discount factor and learning rate of every PPO.
    penalties : (float, float)
        Penalties per unit over budget.
    unsafe_reward : float
        Reward of PPOSaute when the budget is used up; below the rewards of a step.
    """

    name: str
    horizon: int
    budget: int
    cost: Callable[[Any, Any, dict[str, Any]], float]
    charge: str
    discrete: bool
    gamma: float
    learning_rate: float
    penalties: tuple[float, float]
    unsafe_reward: float

    def make(self) -> tuple[gymnasium.Env, Meter]:
        """Return the environment with its time limit, and the meter directly around its innermost part."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions of some environments exist
            inner = gymnasium.make(self.name).unwrapped
        meter = Meter(inner, self.cost, self.budget, self.horizon)
        return TimeLimit(meter, self.horizon), meter


def _push_right(env: Any, action: Any, info: dict[str, Any]) -> float:
    return float(int(action) == 1)


def _torque(env: Any, action: Any, info: dict[str, Any]) -> float:
    return float(int(action) != 1)


def _squared_torque(env: Any, action: Any, info: dict[str, Any]) -> float:
    torque = float(np.float32(env.last_u))
    return torque * torque  # exact: the square of a float32 fits in a float64


def _control(env: Any, action: Any, info: dict[str, Any]) -> float:
    return -float(info["reward_ctrl"])


TASKS = {
    task.name: task
    for task in (
        Task("CartPole-v1", 500, 50, _push_right, "1 for each push to the right", True, 0.99, 1e-3, (1, 10), -1),
        Task("Acrobot-v1", 500, 150, _torque, "1 for each step with torque", True, 0.99, 1e-3, (1, 10), -2),
        Task("Pendulum-v1", 200, 60, _squared_torque, "squared torque", False, 0.9, 1e-3, (1, 10), -20),
        Task("HalfCheetah-v4", 200, 10, _control, "the environment's control cost", False, 0.99, 3e-4, (10, 100), -5),
    )
}


def probe(task: Task, steps: int = 50) -> list[float]:
    """Return the last observation, total reward and total cost of a fixed sequence of actions.

    The values agree if two installations simulate the same environment.
    """
    env, meter = task.make()
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    observation = np.zeros(0)
    for _ in range(steps):
        if task.discrete:
            action: Any = int(rng.integers(env.action_space.n))
        else:
            space = env.action_space
            action = rng.uniform(space.low, space.high).astype(np.float32)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
    episode = meter.read()[-1]
    return [float(round(float(x), 6)) for x in (*observation, episode.earned, episode.most)]
