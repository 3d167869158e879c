"""The jobs of a run: what is measured, with which settings, on how many seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.claims import approximate, complexity, reduction

#: Settings of the learners of `cor: reduction`; they were chosen on seeds that are not among those of a run.
SETTINGS: dict[str, dict[str, Any]] = {
    "q": {"explore": 1.0, "power": 0.6},
    "ppo": {
        "n_envs": 128, "n_steps": 16, "batch_size": 1024, "n_epochs": 10, "gamma": 1.0, "ent_coef": 0.003,
        "learning_rate": 2e-3,
    },
    "dqn": {
        "n_envs": 32, "train_freq": 1, "gradient_steps": 4, "batch_size": 128, "buffer_size": 50_000,
        "learning_starts": 0, "target_update_interval": 512, "exploration_fraction": 0.8,
        "exploration_final_eps": 0.05, "gamma": 1.0, "learning_rate": 1e-3,
    },
}  # fmt: skip
#: Training steps by problem and learner.
STEPS = {
    "knapsack": {"q": 200_000, "ppo": 40_960, "dqn": 40_000},
    "fuel grid": {"q": 10_000_000, "ppo": 204_800, "dqn": 40_000},
    "delivery van": {"q": 40_000_000, "ppo": 204_800, "dqn": 40_000},
}


@dataclass(frozen=True)
class Size:
    """Size of a run.

    Attributes
    ----------
    name : str
    seeds : int
        Number of seeds of every measurement but BPI-UCBVI by node.
    theory_seeds : int
        Number of seeds of BPI-UCBVI by node, which plays millions of episodes.
    share : float
        Share of the training steps in `STEPS`.
    levels : dict
        Levels of each sweep of `prop: complexity`.
    theory_levels : dict
        The same for BPI-UCBVI by node.
    """

    name: str
    seeds: int
    theory_seeds: int
    share: float
    levels: dict[str, list[int]]
    theory_levels: dict[str, list[int]]


_LEVELS = {"D": [2, 4, 8, 16], "H": [4, 8, 16, 32], "S": [2, 4, 8, 16], "A": [2, 4, 8, 16], "1/gamma": [1, 2, 4, 8]}
FULL = Size(
    "full", seeds=10, theory_seeds=3, share=1.0, levels=_LEVELS,
    theory_levels={**_LEVELS, "H": [4, 6, 8, 10], "A": [2, 4, 8, 12], "1/gamma": [1, 2, 4]},
)  # fmt: skip
QUICK = Size(
    "quick", seeds=2, theory_seeds=1, share=0.05,
    levels={"D": [2, 4, 8], "H": [4, 6, 8], "S": [2, 4, 8], "A": [2, 4, 8], "1/gamma": [1, 2, 4]},
    theory_levels={"D": [2, 4], "H": [4, 5], "S": [2, 4], "A": [2, 4], "1/gamma": [1, 2]},
)  # fmt: skip

RUNNERS = {"reduction": reduction.run, "complexity": complexity.run, "rounding": approximate.run}


def all_jobs(size: Size) -> list[dict[str, Any]]:
    """Return the jobs of one claim after another, problem by problem."""
    jobs: list[dict[str, Any]] = [
        {"kind": "rounding", "task": name, "method": "learn", "seed": seed,
         "settings": {"epsilon": 0.2, "max_episodes": 200_000}}
        for name in approximate.PROBLEMS for seed in range(size.seeds)
    ]  # fmt: skip
    for method in reversed(complexity.LEARNERS):
        theory = method == "theory"
        levels = size.theory_levels if theory else size.levels
        for seed in range(size.theory_seeds if theory else size.seeds):
            jobs.append(
                {"kind": "complexity", "task": "family", "method": method, "seed": seed, "settings": {"levels": levels}}
            )
    for task in reduction.PROBLEMS:
        for seed in range(size.seeds):
            for method in reduction.LEARNERS:
                steps = max(int(size.share * STEPS[task][method]), 1)
                jobs.append(
                    {"kind": "reduction", "task": task, "method": method, "seed": seed, "steps": steps,
                     "settings": SETTINGS[method]}
                )  # fmt: skip
    return jobs
