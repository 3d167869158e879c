"""One training run with OmniSafe, in a virtual environment of its own; reads a job from standard input.

OmniSafe's policies are Gaussian. For discrete actions they propose one number per action, and the action with the
greatest number is taken. Actions are clipped to the environment's bounds, as Stable-Baselines3 does.
"""

from __future__ import annotations

import json
import sys
import tempfile
import types
from typing import Any, ClassVar

import numpy as np

from bench.training.measure import results, versions_of
from bench.training.tasks import TASKS, probe

#: Prefix of the names of tasks in OmniSafe, which has environments of its own with the names of Gymnasium's.
PREFIX = "Metered-"
PACKAGES = ("omnisafe", "gymnasium", "numpy", "torch", "mujoco")


def load() -> Any:
    """Import OmniSafe, without safety-gymnasium, and register the tasks as its environments.

    The environments of safety-gymnasium are not used here, and its module does not load with Python 3.11: it has a
    dataclass with an array as a default value.
    """
    sys.modules["safety_gymnasium"] = types.ModuleType("safety_gymnasium")
    import omnisafe
    import torch
    from gymnasium.spaces import Box
    from omnisafe.envs.core import CMDP, env_register

    torch.distributions.Distribution.set_default_validate_args(False)  # slow, and no effect on results

    @env_register
    class Metered(CMDP):
        """A task, in the form that OmniSafe expects."""

        need_auto_reset_wrapper = True
        need_time_limit_wrapper = False
        _support_envs: ClassVar[list[str]] = [PREFIX + name for name in TASKS]

        def __init__(self, env_id: str, num_envs: int = 1, device: Any = "cpu", **_: Any) -> None:
            self._num_envs, self._task = num_envs, TASKS[env_id.removeprefix(PREFIX)]
            self._inner, self.meter = self._task.make()
            inner = self._inner.action_space
            if self._task.discrete:
                self._action_space = Box(-1.0, 1.0, (int(inner.n),), np.float32)
            else:
                self._action_space = Box(inner.low, inner.high, dtype=np.float32)
            seen = self._inner.observation_space
            self._observation_space = Box(seen.low.astype(np.float32), seen.high.astype(np.float32))
            self._metadata: dict[str, Any] = {}
            self._seed: int | None = None

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            seed, self._seed = (self._seed if seed is None else seed), None
            observation, _ = self._inner.reset(seed=seed)
            return torch.as_tensor(observation, dtype=torch.float32), {}

        def step(self, action: Any) -> Any:
            values = action.detach().cpu().numpy()
            if self._task.discrete:
                taken: Any = int(np.argmax(values))
            else:
                taken = np.clip(values, self._action_space.low, self._action_space.high).astype(np.float32)
            observation, reward, terminated, truncated, info = self._inner.step(taken)
            numbers = (observation, reward, info["cost"], terminated, truncated)
            return (*(torch.as_tensor(x, dtype=torch.float32) for x in numbers), {})

        def set_seed(self, seed: int) -> None:
            self._seed = seed

        def render(self) -> Any:
            return None

        def close(self) -> None:
            self._inner.close()

        @property
        def max_episode_steps(self) -> int:
            return self._task.horizon

    return omnisafe


def train(job: dict[str, Any]) -> dict[str, Any]:
    """Train and evaluate; return what was measured."""
    omnisafe = load()
    with tempfile.TemporaryDirectory() as folder:
        configuration = {
            **job["settings"],
            "seed": job["seed"],
            "train_cfgs": {
                "total_steps": job["steps"], "torch_threads": 1, "vector_env_nums": 1, "parallel": 1, "device": "cpu",
            },
            "logger_cfgs": {"use_wandb": False, "use_tensorboard": False, "log_dir": folder},
        }  # fmt: skip
        agent = omnisafe.Agent(job["method"], PREFIX + job["task"], custom_cfgs=configuration)
        adapter, actor = agent.agent._env, agent.agent._actor_critic.actor
        meter = adapter._env.meter
        meter.reset_finishes = job["method"] == "PPOEarlyTerminated"
        agent.agent.learn()
        training = meter.read()
        observation, _ = adapter.reset()
        while len(meter.episodes) < job["evaluation"]:
            observation = adapter.step(actor.predict(observation, deterministic=True))[0]
        evaluation = list(meter.episodes)
    found = results(training, evaluation, job["steps"])
    return {**found, "versions": versions_of(PACKAGES), "probe": probe(TASKS[job["task"]])}


def main() -> None:
    """Run the job on standard input, and print the results as the last line."""
    found = train(json.load(sys.stdin))
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
