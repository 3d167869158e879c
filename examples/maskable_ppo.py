"""MaskablePPO with a budget that is never exceeded, compared with PPO and a penalty.

The delivery van of `solvent.examples`: seven places, roads whose fuel use depends on traffic, and a tank of 30. The
wrapper's masks come from the model, so every action that they allow is safe. The agents are those of Stable-Baselines3,
unchanged. Requires the extra `rl`.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import torch
from meter import Meter, Penalized, Tally, show
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO

import solvent
import solvent.gym


def run(algorithm: Any, env: gymnasium.Env[Any, Any], meter: Meter, steps: int, seed: int) -> tuple[Tally, Tally]:
    """Return the tallies of training and of 100 evaluation episodes."""
    agent = algorithm(
        "MlpPolicy", env, n_steps=512, batch_size=128, learning_rate=1e-3, ent_coef=0.01, seed=seed, device="cpu"
    )
    agent.learn(steps)
    training = meter.read()
    for _ in range(100):
        observation, info = env.reset()
        over = False
        while not over:
            masks = {"action_masks": info["action_mask"]} if algorithm is MaskablePPO else {}
            action, _ = agent.predict(observation, deterministic=True, **masks)
            observation, _, terminated, truncated, info = env.step(int(action))
            over = terminated or truncated
    return training, meter.read()


def main(argv: list[str] | None = None) -> dict[str, tuple[Tally, Tally]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=16_384)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--penalty", type=float, default=2.0, help="penalty per unit over budget")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)  # more threads slow down such small networks
    model = solvent.examples.load("delivery-van")
    tank = model.budget["fuel"].upper
    # PPO has no masks, so an action that is not available is replaced by the first available one
    meters = [Meter(solvent.gym.ModelEnv(model, fallback="first"), tank) for _ in range(2)]
    wrapped = solvent.gym.BudgetWrapper(meters[0], tank, layout="flat")
    penalized = gymnasium.wrappers.FlattenObservation(Penalized(meters[1], options.penalty))
    rows = {
        "MaskablePPO, budget wrapper": run(MaskablePPO, wrapped, meters[0], options.steps, options.seed),
        f"PPO, penalty of {options.penalty:g}": run(PPO, penalized, meters[1], options.steps, options.seed),
    }
    show(f"{model.name}, tank {tank}", rows)
    print(f"Optimal value without exceeding the budget: {solvent.solve(model).value:.3f}")
    return rows


if __name__ == "__main__":
    main()
