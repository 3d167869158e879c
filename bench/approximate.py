"""Approximation: times of the schemes and of certified gaps, with a transcription of the paper and targets.

Medians over repeated solves in one process, kernels compiled beforehand. Times are noisy: compare ratios. The peer
in the same run is the paper's approximate MDP (its projection f and Algorithm 3) with Python dictionaries.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import solvent
from solvent import instances
from solvent.core.limits import ResourceMonitor
from solvent.core.threads import one_thread
from solvent.experiments.transcription import relative_length, solve_approximate
from solvent.model.budget import resolve
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.transforms.rounding import project

sys.path.insert(0, str(Path(__file__).parent))
from exact import median_of


@dataclass(frozen=True)
class Result:
    """One line of the table; times in milliseconds."""

    workload: str
    milliseconds: float
    target: float | None
    status: str
    gap: float
    plain: float | None


def schemes() -> list[Result]:
    """Time the relative scheme on the paper's family, with a budget that binds and one that does not."""
    results = []
    for budget in (100, 10):
        for epsilon, target in ((0.1, 20.0), (1.0, 1.0)):
            model = instances.paper(100, 1, budget=budget)
            for strict in (False, True):
                options = {"approximation": "relative", "epsilon": epsilon, "strict": strict}
                solution = solvent.solve(model, **options)
                took = median_of(lambda model=model, options=options: solvent.solve(model, **options), 1.0)
                plain = None
                if not strict:
                    began = time.perf_counter()
                    value = solve_approximate(model, budget, relative_length(epsilon, budget, model.horizon)).value
                    plain = 1000 * (time.perf_counter() - began)
                    if not math.isclose(value, solution.value, rel_tol=1e-6):
                        raise AssertionError(f"the plain transcription finds {value}, we found {solution.value}")
                name = f"paper H=100 B={budget} e={epsilon:g}{' strict' if strict else ''}"
                results.append(Result(name, took, None if strict else target, solution.status, solution.gap, plain))
    return results


def certified() -> list[Result]:
    """Time certified gaps of one percent on random real costs, with budgets slightly above the least feasible one."""
    results = []
    for seed in range(3):
        model = instances.random(50, 4, horizon=50, branching=3, cost_range=(0, 5), real_costs=True, seed=seed)
        diagnosis = solvent.solve(model, 0).diagnosis
        assert diagnosis is not None
        least = diagnosis.least_budget["r0"]
        assert least is not None
        for share in (Fraction(101, 100), Fraction(11, 10)):
            budget = least * share
            solution = solvent.solve(model, budget, gap=0.01)
            took = median_of(lambda model=model, budget=budget: solvent.solve(model, budget, gap=0.01), 2.0)
            name = f"random 50 states, seed {seed}, B = {float(share):.2f} least, gap 1%"
            results.append(Result(name, took, 5000, solution.status, solution.gap, None))
    return results


def sweep_rate() -> tuple[float, float]:
    """Return outcome evaluations per second on one core, and additions per second of a plain NumPy sweep."""
    model = instances.random(50, 4, horizon=50, branching=3, cost_range=(0, 5), real_costs=True, seed=1)
    problem = project(model, resolve(model, 160), (Fraction(1, 64),), "relaxed")
    bounds = FrontierBounds.at_start(problem.model, SingleResource.of(problem.lattice), ResourceMonitor())
    outcomes = np.diff(problem.model.outcome_indptr[problem.model.row_indptr])
    widths = np.maximum(bounds.top_HS - bounds.need_HS + 1, 0)
    evaluations = float((widths * outcomes[: model.n_states]).sum())
    with one_thread():
        took = median_of(lambda: build(bounds, ResourceMonitor(), arrays=True), 3.0) / 1000
    total, value = np.zeros(int(widths.max())), np.ones(int(widths.max()))
    repeats = int(evaluations / len(total) / 20)

    def plain() -> None:
        for _ in range(repeats):
            np.add(total, value, out=total)

    return evaluations / took, repeats * len(total) / (median_of(plain, 1.0) / 1000)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    results = [*schemes(), *certified()]
    rate, plain_rate = sweep_rate()
    if arguments.json:
        print(json.dumps({"results": [asdict(r) for r in results], "rate": rate, "plain_rate": plain_rate}))
        return
    console = Console(width=130)
    table = Table("workload", "median ms", "target ms", "status", "gap", "plain Python ms", "times ours")
    for r in results:
        table.add_row(
            r.workload, f"{r.milliseconds:.2f}", "" if r.target is None else f"{r.target:g}", str(r.status),
            "" if math.isinf(r.gap) else f"{r.gap:.3%}", "" if r.plain is None else f"{r.plain:,.0f}",
            "" if r.plain is None else f"{r.plain / r.milliseconds:,.0f}",
        )  # fmt: skip
    console.print(table)
    console.print(
        f"array sweeps: {rate / 1e6:,.0f} million outcome evaluations per second on one core (target 300); numpy adds "
        f"{plain_rate / 1e6:,.0f} million numbers"
    )
    console.print(f"{platform.platform()}, Python {platform.python_version()}, solvent {solvent.__version__}")


if __name__ == "__main__":
    main()
