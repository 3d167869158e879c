"""Learning: episodes until the policy earns 95% of the optimum, pooled and by node, and episodes per second.

Speeds are those of whole runs in one process, kernels compiled beforehand, in a model stepped by compiled code.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import solvent
from solvent import CMDP, instances

#: Episodes after which a run is looked at, each so many times the one before.
GROWTH = 1.25
MOST = 2_000_000


def episodes_to(model: CMDP, share: float, seed: int, **options: Any) -> int:
    """Return after how many episodes, in steps of a quarter more, the policy is worth so much of the optimum."""
    wanted, episodes = share * solvent.solve(model).value, 10
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.npz"
        while episodes < MOST:
            learned = solvent.learn(
                model, epsilon=1e-9, max_episodes=episodes, seed=seed, checkpoint=file, resume=file.exists(), **options
            )
            if solvent.verify(model, learned.policy).value >= wanted:
                break
            episodes = int(episodes * GROWTH) + 1
    return episodes


def speed(model: CMDP, episodes: int, **options: Any) -> float:
    """Return episodes per second, after one short run that is not counted."""
    solvent.learn(model, epsilon=1e-9, max_episodes=10, **options)
    began = time.perf_counter()
    solvent.learn(model, epsilon=1e-9, max_episodes=episodes, **options)
    return episodes / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    table = Table("problem", "pooled", "by node", "by node / pooled")
    for model in (instances.fuel_grid(3), instances.fuel_grid(5)):
        pooled, by_node = (
            statistics.median(episodes_to(model, 0.95, seed, pool=pool) for seed in seeds) for pool in (True, False)
        )
        table.add_row(model.name, f"{pooled:,.0f}", f"{by_node:,.0f}", f"{by_node / pooled:.1f}")
    console = Console(width=110)
    console.print("episodes to 95% of the optimum, median over seeds", table)
    grid = instances.fuel_grid(5, horizon=20)
    table = Table("5 x 5 grid, H = 20", "episodes a second", "target")
    table.add_row("plans when counts double", f"{speed(grid, 500_000):,.0f}", "20,000")
    table.add_row("plans after every episode", f"{speed(grid, 5_000, replan='episode'):,.0f}", "2,000")
    console.print(table)


if __name__ == "__main__":
    main()
