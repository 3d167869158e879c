"""Tabular Q-learning with a budget that is never exceeded, compared with Q-learning and a penalty.

A grid with slippery moves, a tank, and stations that give fuel back. The learner does not know the model; the wrapper's
masks show it the safe actions, and it takes no others. The second learner has the same observations, pays for each
unit over budget, and is not stopped. Requires numpy only.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import gymnasium
import numpy as np
from meter import Meter, Penalized, Tally, show

import solvent
import solvent.gym


class QLearner:
    """One-step Q-learning; states are pairs of the cell and the remaining fuel."""

    def __init__(self, n_actions: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._value: Any = defaultdict(lambda: np.zeros(n_actions))
        self._visits: Any = defaultdict(lambda: np.zeros(n_actions, int))

    def act(self, observation: Any, mask: Any, explore: float) -> int:
        actions = np.flatnonzero(mask)
        if self._rng.random() < explore:
            return int(self._rng.choice(actions))
        values = self._value[_node(observation)][actions]
        return int(self._rng.choice(actions[values == values.max()]))

    def learn(self, observation: Any, action: int, reward: float, following: Any, mask: Any) -> None:
        node, then = _node(observation), self._value[_node(following)][np.flatnonzero(mask)]
        self._visits[node][action] += 1
        step_size = max(self._visits[node][action] ** -0.6, 0.02)
        later = then.max() if len(then) else 0.0
        self._value[node][action] += step_size * (reward + later - self._value[node][action])


def _node(observation: Any) -> tuple[int, float]:
    return int(observation["observation"]), float(observation["remaining"][0])


def play(env: gymnasium.Env[Any, Any], agent: QLearner, episodes: int, explore: float) -> None:
    """Play episodes; if `explore` > 0, learn as well, with exploration that decreases to 0."""
    for episode in range(episodes):
        observation, info = env.reset()
        over = False
        while not over:
            action = agent.act(observation, info["action_mask"], explore * (1 - episode / episodes))
            following, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            if explore:
                agent.learn(observation, action, reward, following, info["action_mask"] * (not over))
            observation = following


def run(env: gymnasium.Env[Any, Any], meter: Meter, episodes: int, seed: int) -> tuple[Tally, Tally]:
    """Return the tallies of training and of evaluation."""
    agent = QLearner(int(env.action_space.n), seed)
    env.reset(seed=seed)
    play(env, agent, episodes, explore=0.5)
    training = meter.read()
    play(env, agent, max(episodes // 10, 10), explore=0)
    return training, meter.read()


def main(argv: list[str] | None = None) -> dict[str, tuple[Tally, Tally]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--penalty", type=float, default=2.0, help="penalty per unit over budget")
    options = parser.parse_args(argv)
    model = solvent.instances.fuel_grid(3)
    tank = model.budget["fuel"].upper
    meters = [Meter(solvent.gym.ModelEnv(model), tank) for _ in range(2)]
    wrapped, penalized = solvent.gym.BudgetWrapper(meters[0], tank), Penalized(meters[1], options.penalty)
    rows = {
        "budget wrapper": run(wrapped, meters[0], options.episodes, options.seed),
        f"penalty of {options.penalty:g}": run(penalized, meters[1], options.episodes, options.seed),
    }
    show(f"Q-learning on {model.name}, tank {tank}", rows)
    print(f"Optimal value without exceeding the budget: {solvent.solve(model).value:.3f}")
    return rows


if __name__ == "__main__":
    main()
