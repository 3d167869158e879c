"""Exact planning: times, with targets.

Medians over repeated solves in one process, kernels compiled beforehand. Times are noisy: compare ratios.
The peer in the same run is a literal transcription of the paper's Algorithms 1 and 5 with Python dictionaries.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

import solvent
from solvent import instances
from solvent.experiments.transcription import solve_exact


@dataclass(frozen=True)
class Result:
    """One line of the table; times in milliseconds."""

    workload: str
    method: str
    milliseconds: float
    target: float | None
    value: float
    nodes: int
    plain: float | None


def median_of(run: Callable[[], object], seconds: float = 2.0) -> float:
    """Return the median time of a call in milliseconds, after one call that is not counted."""
    run()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < seconds and len(times) < 200):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def two_resources() -> solvent.CMDP:
    """Return a model with two limits that both bind."""
    return instances.random(200, 4, horizon=30, resources=2, branching=4, cost_range=(0, 4), budget=100, seed=1)


def measure() -> list[Result]:
    """Run every workload."""
    results = []
    workloads: list[tuple[str, solvent.CMDP, str, float | None, float | None]] = [
        ("paper H=15 B=15", instances.paper(15, 1, budget=15), "auto", 0.5, 15),
        ("paper H=20 B=3", instances.paper(20, 1, budget=3), "auto", 0.5, 3),
        ("fuel_grid(5) H=15 tank 8", instances.fuel_grid(5), "auto", None, 8),
        ("paper H=100 B=10", instances.paper(100, 1, budget=10), "auto", None, None),
        ("paper H=1000 B=250", instances.paper(1000, 1, budget=250), "auto", 2000, None),
        ("fuel_grid(20) H=60 tank 30", instances.fuel_grid(20, horizon=60, tank=30), "auto", 50, None),
        ("fuel_grid(20) H=60 tank 30", instances.fuel_grid(20, horizon=60, tank=30), "reduction", None, None),
        ("fuel_grid(40) H=120 tank 60", instances.fuel_grid(40, horizon=120, tank=60), "auto", None, None),
        ("two resources, 200 states", two_resources(), "reduction", None, None),
    ]
    for name, model, method, target, plain_budget in workloads:
        solution = solvent.solve(model, method=method)
        took = median_of(lambda model=model, method=method: solvent.solve(model, method=method))  # type: ignore[misc]
        plain = None
        if plain_budget is not None:
            began = time.perf_counter()
            value = solve_exact(model, plain_budget).value
            plain = 1000 * (time.perf_counter() - began)
            if not math.isclose(value, solution.value, rel_tol=1e-9):
                raise AssertionError(f"{name}: the plain transcription finds {value}, we found {solution.value}")
        results.append(Result(name, solution.method, took, target, solution.value, solution.stats.nodes, plain))
    model = instances.paper(100, 1)
    curve = solvent.frontier(model, max_budget=10)
    took = median_of(lambda: solvent.frontier(model, max_budget=10))
    results.append(Result("paper H=100, all B up to 10", "curve", took, 3, curve.value(10), len(curve), None))
    return results


def expansions_per_second() -> tuple[float, float]:
    """Return (node, action) expansions and bytes per node of the reduction with two resources."""
    model = two_resources()
    solution = solvent.solve(model, method="reduction")
    took = median_of(lambda: solvent.solve(model, method="reduction")) / 1000
    rows = model.n_rows / model.n_states
    return solution.stats.nodes * rows / took, solution.stats.peak_bytes / solution.stats.nodes


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    results = measure()
    rate, size = expansions_per_second()
    if arguments.json:
        print(json.dumps({"results": [asdict(r) for r in results], "expansions": rate, "bytes_per_node": size}))
        return
    console = Console(width=130)
    table = Table("workload", "method", "median ms", "target ms", "nodes or points", "plain Python ms", "times ours")
    for r in results:
        table.add_row(
            r.workload, r.method, f"{r.milliseconds:.3f}", "" if r.target is None else f"{r.target:g}",
            f"{r.nodes:,}", "" if r.plain is None else f"{r.plain:,.0f}",
            "" if r.plain is None else f"{r.plain / r.milliseconds:,.0f}",
        )  # fmt: skip
    console.print(table)
    console.print(
        f"reduction, two resources: {rate / 1e6:.1f} million (node, action) expansions per second, whole solve"
    )
    console.print(f"planned memory: {size:.0f} bytes per node at the peak")
    console.print(f"{platform.platform()}, Python {platform.python_version()}, solvent {solvent.__version__}")


if __name__ == "__main__":
    main()
