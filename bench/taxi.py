"""Learning in Gymnasium's Taxi with a horizon of 200: CPU seconds, memory, and what was learned.

`python -m bench.taxi` plays 2,000 episodes in which every step costs 1 of a budget of 200, with a bound of 1 on the
cost of every action; kernels are compiled beforehand. `--fuel 10` limits moves instead, of which each costs 1: amounts
then multiply the nodes of the graph.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import gymnasium

import solvent

HORIZON = 200


def learn(episodes: int, seed: int, fuel: int | None) -> solvent.LearnResult:
    """Learn in Taxi."""
    prices: Any = [1] * 6 if fuel is None else [1, 1, 1, 1, 0, 0]
    return solvent.learn(
        gymnasium.make("Taxi-v4", max_episode_steps=HORIZON), HORIZON, budget=HORIZON if fuel is None else fuel,
        cost=lambda state, action, after: prices[action], cost_bound=prices, random_start=True,
        reward_range=(-10, 20), max_episodes=episodes, seed=seed,
    )  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.taxi", description=__doc__)
    parser.add_argument("--episodes", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fuel", type=int, help="limit moves to this many, instead of steps to the horizon")
    given = parser.parse_args()
    learn(5, given.seed, given.fuel)
    began, elapsed = time.process_time(), time.perf_counter()
    learned = learn(given.episodes, given.seed, given.fuel)
    cpu, elapsed = time.process_time() - began, time.perf_counter() - elapsed
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    last = learned.returns[-min(200, len(learned.returns)) :]
    print(f"{given.episodes:,} episodes: {cpu:.1f} s of CPU, {elapsed:.1f} s elapsed, {peak:,.0f} MB")
    plans, nodes = len(learned.history), learned.history[-1].nodes
    print(f"{learned.violations} over budget; {plans} plans, the last with {nodes:,} nodes")
    print(f"mean return {learned.returns.mean():.1f}, of the last {len(last)} episodes {last.mean():.1f}")


if __name__ == "__main__":
    main()
