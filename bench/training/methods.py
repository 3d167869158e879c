"""The methods that are compared, and the jobs of a run: one for each task, method and seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.training.tasks import TASKS, Task

#: Steps between two updates of every on-policy method.
ROLLOUT = 2048


@dataclass(frozen=True)
class Method:
    """A way to train.

    Attributes
    ----------
    name, title : str
    library : {"sb3", "omnisafe"}
        Where it runs: beside Solvent, or in the virtual environment of OmniSafe.
    continuous_only : bool
    promises : bool
        Whether it promises never to exceed the budget.
    """

    name: str
    title: str
    library: str
    continuous_only: bool = False
    promises: bool = False


METHODS = {
    method.name: method
    for method in (
        Method("solvent-ppo", "Solvent, PPO", "sb3", promises=True),
        Method("solvent-sac", "Solvent, SAC", "sb3", continuous_only=True, promises=True),
        Method("ppo", "PPO without a budget", "sb3"),
        Method("penalty", "PPO, small penalty", "sb3"),
        Method("penalty-large", "PPO, large penalty", "sb3"),
        Method("PPOSaute", "OmniSafe PPOSaute", "omnisafe"),
        Method("PPOLag", "OmniSafe PPOLag", "omnisafe"),
        Method("CPO", "OmniSafe CPO", "omnisafe"),
        Method("PPOEarlyTerminated", "OmniSafe PPOEarlyTerminated", "omnisafe"),
    )
}


@dataclass(frozen=True)
class Size:
    """Size of a run.

    Attributes
    ----------
    name : str
    seeds : int
    rollouts : int
        Number of rollouts of 2048 steps of on-policy methods.
    sac_steps : int
    evaluation : int
        Number of evaluation episodes after training.
    episodes : int
        Most episodes of the tabular learners.
    """

    name: str
    seeds: int
    rollouts: int
    sac_steps: int
    evaluation: int
    episodes: int

    @property
    def steps(self) -> int:
        """Number of training steps of on-policy methods."""
        return self.rollouts * ROLLOUT


FULL = Size("full", seeds=10, rollouts=24, sac_steps=10_000, evaluation=20, episodes=10_000)
QUICK = Size("quick", seeds=2, rollouts=2, sac_steps=1_500, evaluation=5, episodes=500)


def settings(task: Task, method: Method) -> dict[str, Any]:
    """Return the hyperparameters that differ from the library's defaults."""
    common = {"gamma": task.gamma, "learning_rate": task.learning_rate}
    if method.name == "solvent-sac":
        return {"learning_starts": 500, "train_freq": 2, "gamma": task.gamma}
    if method.library == "sb3":
        penalties = dict(zip(("penalty", "penalty-large"), task.penalties, strict=True))
        penalty = {"penalty": penalties[method.name]} if method.name in penalties else {}
        return {**common, "n_steps": ROLLOUT, **penalty}
    algo: dict[str, Any] = {"steps_per_epoch": ROLLOUT, "gamma": task.gamma}
    model = {"actor": {"lr": task.learning_rate}, "critic": {"lr": task.learning_rate}}
    if method.name == "CPO":
        return {"algo_cfgs": {**algo, "cost_limit": float(task.budget)}}
    algo |= {"update_iters": 10, "batch_size": 64}
    if method.name == "PPOLag":
        return {"algo_cfgs": algo, "model_cfgs": model, "lagrange_cfgs": {"cost_limit": float(task.budget)}}
    if method.name == "PPOEarlyTerminated":
        return {"algo_cfgs": {**algo, "cost_limit": float(task.budget)}, "model_cfgs": model}
    saute = {
        "safety_budget": float(task.budget), "saute_gamma": 0.9999, "max_ep_len": task.horizon,
        "unsafe_reward": task.unsafe_reward,
    }  # fmt: skip
    return {"algo_cfgs": {**algo, **saute}, "model_cfgs": model}


def training_jobs(size: Size) -> list[dict[str, Any]]:
    """Return the jobs of training: one for each seed, task and method."""
    jobs = []
    for seed in range(size.seeds):
        for task in TASKS.values():
            for method in METHODS.values():
                if method.continuous_only and task.discrete:
                    continue
                jobs.append(
                    {
                        "kind": "training",
                        "task": task.name,
                        "method": method.name,
                        "seed": seed,
                        "steps": size.sac_steps if method.name == "solvent-sac" else size.steps,
                        "evaluation": size.evaluation,
                        "budget": task.budget,
                        "settings": settings(task, method),
                    }
                )
    return jobs
