"""RLlib with a budget that is never exceeded: PPO with RLlib's own module for action masks.

`layout="rllib"` gives observations with the keys "observations" and "action_mask" (float32), as RLlib's
`ActionMaskingTorchRLModule` expects. The model is the delivery van of `solvent.examples`, with its tank of 30.
Requires RLlib and torch (`pip install "ray[rllib]" torch`).
"""

from __future__ import annotations

import argparse
from typing import Any

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env

import solvent
import solvent.gym

MODEL = solvent.examples.path("delivery-van")


def make(_: Any = None) -> solvent.gym.BudgetWrapper:
    """Return the environment; RLlib makes one in each process."""
    return solvent.gym.BudgetWrapper(solvent.gym.ModelEnv(MODEL), layout="rllib")


def main(argv: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    register_env("within-budget", make)
    config = (
        PPOConfig()
        .environment("within-budget")
        .env_runners(num_env_runners=0)
        .training(train_batch_size_per_learner=500, minibatch_size=125, num_epochs=4)
        .rl_module(
            rl_module_spec=RLModuleSpec(
                module_class=ActionMaskingTorchRLModule,
                model_config={"head_fcnet_hiddens": [64], "head_fcnet_activation": "relu"},
            )
        )
        .debugging(seed=options.seed, log_level="ERROR")
    )
    algorithm = config.build_algo()
    mean = 0.0
    for _ in range(options.iterations):
        # a masked action raises an error, so an iteration that returns has had no violation
        mean = float(algorithm.train()["env_runners"]["episode_return_mean"])
    algorithm.stop()
    ray.shutdown()
    optimum = solvent.solve(solvent.load_model(MODEL)).value
    print(f"mean return {mean:.3f}; optimal value without exceeding the budget: {optimum:.3f}")
    return mean


if __name__ == "__main__":
    main()
