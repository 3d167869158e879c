"""SAC with continuous actions and a budget of control energy that is never exceeded, compared with a penalty.

A pendulum is swung up by a motor of limited torque, and the battery holds `--energy` units; a step costs the square of
its torque. `ContinuousBudgetWrapper` moves each proposed torque towards 0 until it fits what remains. For comparison,
the same agent without the wrapper pays for each unit over budget and is not stopped. A meter directly around the
environment counts the episodes that exceeded the budget. Requires the extra `rl`.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np
import torch
from meter import Meter, Penalized, Tally, show
from stable_baselines3 import PPO, SAC, TD3

import solvent.gym

AGENTS = {"SAC": SAC, "TD3": TD3, "PPO": PPO}


class Energy(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Report the square of the torque, in float32, as the cost of a step."""

    passes_actions = True

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, "cost": np.sum(np.square(np.float32(action)))}


def run(agent: Any, env: gymnasium.Env[Any, Any], meter: Meter, steps: int) -> tuple[Tally, Tally]:
    """Return the tallies of training and of 20 evaluation episodes."""
    agent.learn(steps)
    training = meter.read()
    for _ in range(20):
        observation, _ = env.reset()
        over = False
        while not over:
            action, _ = agent.predict(observation, deterministic=True)
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    return training, meter.read()


def main(argv: list[str] | None = None) -> dict[str, tuple[Tally, Tally]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--agent", choices=AGENTS, default="SAC")
    parser.add_argument("--energy", type=int, default=60, help="the budget of an episode")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--penalty", type=float, default=2.0, help="penalty per unit over budget")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)  # more threads slow down such small networks
    meters = [Meter(Energy(gymnasium.make("Pendulum-v1")), options.energy) for _ in range(2)]
    wrapped = solvent.gym.ContinuousBudgetWrapper(
        meters[0], options.energy, cost_bound=solvent.gym.NormCost(), layout="flat"
    )
    penalized = gymnasium.wrappers.FlattenObservation(Penalized(meters[1], options.penalty))
    rows = {}
    for name, env, meter in (
        ("budget wrapper", wrapped, meters[0]),
        (f"penalty of {options.penalty:g}", penalized, meters[1]),
    ):
        agent = AGENTS[options.agent]("MlpPolicy", env, seed=options.seed, device="cpu")
        rows[f"{options.agent}, {name}"] = run(agent, env, meter, options.steps)
    show(f"pendulum, energy {options.energy}", rows)
    return rows


if __name__ == "__main__":
    main()
