"""One training run with Stable-Baselines3, with or without Solvent's wrapper; reads a job from standard input."""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium
import numpy as np

from bench.training.measure import results, versions_of
from bench.training.meter import Meter
from bench.training.tasks import TASKS, Task, probe

PACKAGES = ("solvent", "gymnasium", "numpy", "torch", "stable-baselines3", "sb3-contrib", "mujoco")
#: Weights of the squared actions in the costs of the continuous tasks.
WEIGHTS = {"Pendulum-v1": 1.0, "HalfCheetah-v4": 0.1}


class Penalized(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Subtract a penalty for each unit over budget; the agent observes what remains and the step."""

    def __init__(self, env: gymnasium.Env, budget: float, penalty: float) -> None:
        super().__init__(env)
        inner = env.observation_space
        low, high = (np.append(side, [s * np.inf] * 2) for side, s in ((inner.low, -1), (inner.high, 1)))
        self.observation_space = gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32))
        self._budget, self._penalty = budget, penalty
        self._remaining, self._step = budget, 0

    def _observe(self, observation: Any) -> Any:
        return np.append(observation, [self._remaining, self._step]).astype(np.float32)

    def reset(self, **options: Any) -> Any:
        """Start an episode with the whole budget."""
        observation, info = self.env.reset(**options)
        self._remaining, self._step = self._budget, 0
        return self._observe(observation), info

    def step(self, action: Any) -> Any:
        """Take a step; what it adds to the excess is fined."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        before = max(-self._remaining, 0.0)
        self._remaining, self._step = self._remaining - info["cost"], self._step + 1
        fine = self._penalty * (max(-self._remaining, 0.0) - before)
        return self._observe(observation), float(reward) - fine, terminated, truncated, info


def wrap(task: Task, method: str, penalty: float = 0.0) -> tuple[gymnasium.Env, Meter]:
    """Return the environment that a method trains on, and its meter."""
    env, meter = task.make()
    if method.startswith("solvent"):
        from solvent.gym import BudgetWrapper, ContinuousBudgetWrapper, NormCost

        if task.discrete:
            costs = [float(task.cost(None, action, {})) for action in range(env.action_space.n)]
            return BudgetWrapper(env, task.budget, cost="cost", cost_bound=costs, layout="flat"), meter
        bound = NormCost(WEIGHTS[task.name])
        return ContinuousBudgetWrapper(env, task.budget, cost="cost", cost_bound=bound, layout="flat"), meter
    return (Penalized(env, task.budget, penalty) if penalty else env), meter


def train(job: dict[str, Any]) -> dict[str, Any]:
    """Train and evaluate; return what was measured."""
    import torch
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import PPO, SAC
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)
    torch.distributions.Distribution.set_default_validate_args(False)  # slow, and no effect on results
    task, method = TASKS[job["task"]], job["method"]
    options = dict(job["settings"])
    env, meter = wrap(task, method, options.pop("penalty", 0.0))
    masked = method.startswith("solvent") and task.discrete
    algorithm = SAC if method == "solvent-sac" else MaskablePPO if masked else PPO
    vector = VecNormalize(DummyVecEnv([lambda: env]), norm_reward=False)
    agent = algorithm("MlpPolicy", vector, seed=job["seed"], device="cpu", **options)
    agent.learn(job["steps"])
    training = meter.read()
    vector.training = False
    observation = vector.reset()
    while len(meter.episodes) < job["evaluation"]:
        masks = {"action_masks": np.stack(vector.env_method("action_masks"))} if masked else {}
        action, _ = agent.predict(observation, deterministic=True, **masks)
        observation, _, _, _ = vector.step(action)
    evaluation = list(meter.episodes)
    return {**results(training, evaluation, job["steps"]), "versions": versions_of(PACKAGES), "probe": probe(task)}


def main() -> None:
    """Run the job on standard input, and print the results as the last line."""
    found = train(json.load(sys.stdin))
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
