"""Learning curves on a model with an unknown law: `solvent.learn`, node-keyed UCBVI, and Q-learning on nodes.

Every learner knows which outcomes are possible, and none of their probabilities; its masks allow safe actions only. The
meter is directly around the environment. Values are exact: those of the policy learned so far, by `solvent.verify`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import solvent
import solvent.gym
from bench.training.measure import versions_of
from bench.training.meter import Meter
from bench.training.methods import Size
from solvent import CMDP, instances

#: Titles of the learners.
LEARNERS = {
    "pooled": "solvent.learn",
    "node": "solvent.learn, by node",
    "theory": "UCBVI by node, as in the paper",
    "q": "Q-learning by node",
    "ucb-q": "optimistic Q-learning by node",
}
SIZES = {"fuel_grid(3)": 3, "fuel_grid(5)": 5}
OPTIONS: dict[str, dict[str, Any]] = {
    "pooled": {"pool": True, "bonus": "practical"},
    "node": {"pool": False, "bonus": "practical"},
    "theory": {"pool": False, "bonus": "theory"},
    "q": {"explore": 0.5, "bonus": 0.0},
    "ucb-q": {"explore": 0.0, "bonus": 0.02},
}
#: Number of episodes at which policies are evaluated, from 10.
GROWTH = 1.6


def learning_jobs(size: Size) -> list[dict[str, Any]]:
    """Return one job for each problem, learner and seed."""
    return [
        {"kind": "learning", "task": problem, "method": learner, "seed": seed, "steps": size.episodes,
         "settings": OPTIONS[learner]}
        for seed in range(size.seeds) for problem in SIZES for learner in LEARNERS
    ]  # fmt: skip


def counts(most: int) -> list[int]:
    """Return the numbers of episodes after which policies are evaluated."""
    found, count = [], 10.0
    while count < most:
        found.append(int(count))
        count *= GROWTH
    return [*found, most]


def problem(name: str) -> CMDP:
    """Return a problem, with numbers instead of names, as its environment has."""
    model = instances.fuel_grid(SIZES[name])
    return dataclasses.replace(
        model, states=tuple(range(model.n_states)), actions=tuple(range(model.n_actions)), start=model.start_index
    )


def first_safe(model: CMDP) -> Callable[[int, int, Fraction], int]:
    """Return a function of (step, state, spent) that returns the first action with a safe continuation, else -1."""
    (limit,) = model.budget.values()
    account = model.resource(model.resources[0])

    @cache
    def first(step: int, state: int, spent: Fraction) -> int:
        for row in model.rows(step, state):
            outcomes = ((o.next_state, account.clamp(spent + o.cost[account.name])) for o in model.outcomes(row))
            if all(continues(step + 1, following, then) for following, then in outcomes):
                return int(model.row_action[row])
        return -1

    def continues(step: int, state: int, spent: Fraction) -> bool:
        ended = step >= model.horizon or model.is_terminal(step, state)
        return spent <= limit.upper and (ended or first(step, state, spent) >= 0)

    return first


def metered(model: CMDP) -> Meter:
    """Return the model as an environment, with the meter directly around it."""
    (limit,) = model.budget.values()
    env = solvent.gym.ModelEnv(model)
    return Meter(env, lambda env, action, info: info["cost"], limit.upper, model.horizon)


class QLearner:
    """One-step Q-learning whose states are nodes: the step, the state and what remains.

    Parameters
    ----------
    model : CMDP
        Its horizon and budget are used, not its probabilities.
    env : gymnasium.Env
        The environment with masks.
    seed : int
    explore : float
        Probability of a random safe action in the first episode; it decreases linearly to 0.
    bonus : float
        Factor of the bonus of Q-learning with UCB (Jin et al. 2018). If 0, values start at 0 and there is no bonus;
        else they start at the number of steps left.
    """

    def __init__(self, model: CMDP, env: Any, seed: int, explore: float, bonus: float) -> None:
        self._model, self._env = model, env
        self._rng = np.random.default_rng(seed)
        self._explore, self._bonus = explore, bonus
        self._value: dict[Any, Any] = {}
        self._visits: Any = defaultdict(lambda: np.zeros(env.action_space.n, int))
        self._masks: dict[Any, Any] = {}
        self._played = 0

    def play(self, episodes: int, most: int) -> None:
        """Play until a number of episodes is reached; exploration decreases linearly to 0 at `most`."""
        while self._played < episodes:
            explore = self._explore * (1 - self._played / most)
            observation, info = self._env.reset(seed=None if self._played else int(self._rng.integers(2**31)))
            over = False
            while not over:
                node, mask = self._node(observation), np.flatnonzero(info["action_mask"])
                self._masks[node] = mask
                action = int(self._rng.choice(mask)) if self._rng.random() < explore else self._best(node, mask)
                observation, reward, terminated, truncated, info = self._env.step(action)
                over = terminated or truncated
                then = np.flatnonzero(info["action_mask"])
                later = 0.0 if over or not len(then) else self._values(self._node(observation))[then].max()
                self._learn(node, action, reward + later)
            self._played += 1

    def _learn(self, node: Any, action: int, target: float) -> None:
        horizon = self._model.horizon
        self._visits[node][action] += 1
        count = self._visits[node][action]
        size = (horizon + 1) / (horizon + count) if self._bonus else max(count**-0.6, 0.02)
        target = min(target + self._bonus * (horizon**3 / count) ** 0.5, horizon - node[0])
        self._values(node)[action] += size * (target - self._values(node)[action])

    def _values(self, node: Any) -> Any:
        if node not in self._value:
            first = float(self._model.horizon - node[0]) if self._bonus else 0.0
            self._value[node] = np.full(self._env.action_space.n, first)
        return self._value[node]

    def _best(self, node: Any, mask: Any) -> int:
        values = self._values(node)[mask]
        return int(self._rng.choice(mask[values == values.max()]))

    def _node(self, observation: Any) -> tuple[int, int, float]:
        return int(observation["step"][0]), int(observation["observation"]), float(observation["remaining"][0])

    def policy(self, otherwise: Callable[[int, int, Fraction], int]) -> Callable[[int, int, Fraction], int]:
        """Return the greedy policy as a function of (step, state, spent); `otherwise` acts at nodes never visited."""
        (limit,) = self._model.budget.values()

        def act(step: int, state: int, spent: Fraction) -> int:
            node = (step, state, float(limit.upper - spent))
            mask = self._masks.get(node)
            return otherwise(step, state, spent) if mask is None else int(mask[np.argmax(self._values(node)[mask])])

        return act


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Learn, evaluate the policy at growing numbers of episodes, and return the values and the metered violations."""
    model = problem(job["task"])
    best = solvent.solve(model)
    meter, points = metered(model), counts(job["steps"])
    values = (
        _q_values(job, model, meter, points) if job["method"] in ("q", "ucb-q") else _values(job, model, meter, points)
    )
    episodes = meter.read()
    return {
        "episodes": points,
        "value": values,
        "optimum": best.value,
        "training": {"episodes": len(episodes), "over": sum(e.over for e in episodes)},
        "versions": versions_of(("solvent", "numpy", "numba")),
    }


def _values(job: dict[str, Any], model: CMDP, meter: Meter, points: list[int]) -> list[float]:
    values = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.ckpt"
        for count in points:
            learned = solvent.learn(
                meter, horizon=model.horizon, budget=model.budget, epsilon=1e-9, max_episodes=count, seed=job["seed"],
                support=model, random_rewards=False, checkpoint=file, resume=file.exists(), **job["settings"],
            )  # fmt: skip
            values.append(solvent.verify(model, learned.policy).value)
    return values


def _q_values(job: dict[str, Any], model: CMDP, meter: Meter, points: list[int]) -> list[float]:
    env = solvent.gym.BudgetWrapper(meter, model=model, cost="cost")
    learner = QLearner(model, env, job["seed"], **job["settings"])
    otherwise = first_safe(model)
    values = []
    for count in points:
        learner.play(count, job["steps"])
        values.append(solvent.verify(model, learner.policy(otherwise)).value)
    return values


def main() -> None:
    """Run the job on standard input, and print the results as the last line."""
    found = run(json.load(sys.stdin))
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
