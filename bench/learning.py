"""Learning: episodes until the policy earns 95% of the optimum, pooled and by node, and episodes per second.

Speeds are those of whole runs in one process, by processor time, kernels compiled beforehand, in a model stepped by
compiled code.
`python -m bench.learning --page` also writes the results into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

import solvent
from bench.peers.report import PAGE, fill
from solvent import CMDP, instances
from solvent.core.engines import Engine, open_engine
from solvent.core.files import write_atomically

#: Ratio of the numbers of episodes after which a run is evaluated.
GROWTH = 1.25
MOST = 2_000_000
#: Number of runs; the speed is their median.
RUNS = 5


def episodes_to(model: CMDP, share: float, seed: int, **options: Any) -> int:
    """Return the number of episodes after which the policy is worth a share of the optimum, in steps of 25 %."""
    wanted, episodes = share * solvent.solve(model).value, 10
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.ckpt"
        while episodes < MOST:
            learned = solvent.learn(
                model, epsilon=1e-9, max_episodes=episodes, seed=seed, checkpoint=file, resume=file.exists(), **options
            )
            if solvent.verify(model, learned.policy).value >= wanted:
                break
            episodes = int(episodes * GROWTH) + 1
    return episodes


def speed(model: CMDP, episodes: int, **options: Any) -> float:
    """Return episodes per second of processor time, the median of several runs after a short one."""
    solvent.learn(model, epsilon=1e-9, max_episodes=10, **options)
    rates = []
    for seed in range(RUNS):
        began = time.process_time()
        solvent.learn(model, epsilon=1e-9, max_episodes=episodes, seed=seed, **options)
        rates.append(episodes / (time.process_time() - began))
    return statistics.median(rates)


def measure(seeds: range, engine: Engine) -> str:
    """Return the results as two tables; seeds are learned with by the workers of an engine."""
    lines = [
        f"Episodes until the policy is worth 95 % of the optimum, median of {len(seeds)} seeds:",
        "",
        "| problem | pooled | by node | by node / pooled |",
        "| --- | ---: | ---: | ---: |",
    ]
    for model in (instances.fuel_grid(3), instances.fuel_grid(5)):
        pooled, by_node = (
            statistics.median(dict(engine.map(partial(episodes_to, model, 0.95, pool=pool), seeds)).values())
            for pool in (True, False)
        )
        lines.append(f"| {model.name} | {pooled:,.0f} | {by_node:,.0f} | {by_node / pooled:.1f} |")
    grid = instances.fuel_grid(5, horizon=20)
    doubling, each = speed(grid, 500_000), speed(grid, 4_000, replan="episode")
    lines += [
        "",
        f"Episodes per second of processor time on a 5 x 5 grid with H = 20, median of {RUNS} runs:",
        "",
        "| the learner plans | episodes per second |",
        "| --- | ---: |",
        f"| when counts double | {doubling:,.0f} |",
        f"| after every episode | {each:,.0f} |",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.learning", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--page", action="store_true", help="also rewrite docs/benchmarks.md")
    parser.add_argument("--engine", default="local", help="where to learn with all seeds: local or ray")
    parser.add_argument("--address", help="address of a Ray cluster")
    given = parser.parse_args()
    with open_engine(given.engine, given.address) as engine:
        text = measure(range(given.seeds), engine)
    Console(width=110).print(Markdown(text))
    if given.page:
        write_atomically(PAGE, fill(PAGE.read_text(encoding="utf-8"), {"learning": text}).encode())


if __name__ == "__main__":
    main()
