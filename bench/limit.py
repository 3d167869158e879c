"""Evaluations per second compared with a plain sweep of arrays, and the growth of the time of planning.

An *evaluation* is one outcome of one row at one amount: read a value, multiply, add. The plain sweep does as many
evaluations on arrays of the same width, on one core, without lookups. The whole solve is timed, on one core: bounds,
sweep or merge, and following the policy forward to its worst case. Times are processor times, on which other load on
the machine has little influence.

Evaluations are counted once (`--count` writes `evaluations.json`) and stay the same from then on, so that a method that
avoids some of them is closer to the sweep, not further away:

    several resources    outcomes of safe actions at safe nodes that can be reached (`solvent.augment`)
    one resource         outcomes times amounts of the arrays of a frontier, or points that are merged

The paper bounds exact planning by O(H S^2 A n D), with n costs for each pair of states and D amounts at a step.
Exponents are fitted to medians of times, and to the number of nodes or points, which does not depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

import solvent
from bench.peers import workloads
from bench.peers.report import PAGE, fill, markdown_table, seconds
from bench.peers.workloads import random_model
from bench.yardstick import cpu_time, generic_sweeps, median_time, median_times, plain_sweep
from solvent import CMDP, instances
from solvent.core.files import write_atomically
from solvent.core.limits import ResourceMonitor
from solvent.core.threads import one_thread
from solvent.experiments.fitting import fit_growth
from solvent.model.budget import resolve
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.problem import Problem

COUNTS = Path(__file__).parent / "evaluations.json"


@dataclass(frozen=True)
class Rate:
    """Evaluations of a solve, with its time, that of a plain sweep, and that of one compiled for any processor."""

    workload: str
    way: str
    evaluations: int
    solve: float
    plain: float
    generic: float


def method_of(model: CMDP) -> str:
    """Return the method that `solve` chooses; "frontier" instead of "labels", which avoids most evaluations."""
    method = solvent.solve(model).method
    return "frontier" if method == "labels" and len(model.resources) == 1 else method


@dataclass(frozen=True)
class Count:
    """How many evaluations a workload takes, on which objects, and the width of the arrays of the plain sweep."""

    way: str
    evaluations: int
    width: int


def counts() -> dict[str, Count]:
    """Return the evaluations of each workload as counted by `--count`."""
    return {name: Count(**each) for name, each in json.loads(COUNTS.read_text()).items()}


def count_evaluations(model: CMDP) -> Count:
    """Count the evaluations of a model."""
    if len(model.resources) > 1:
        mdp = solvent.augment(model)
        return Count("nodes", int(mdp.transitions.nnz), max(1, mdp.n_nodes // (model.horizon * model.n_states)))
    solution = solvent.solve(model, method="frontier")
    problem = Problem.exact(model, resolve(model, None))
    bounds = FrontierBounds.at_start(model, SingleResource.of(problem.lattice), ResourceMonitor())
    if solution.stats.representation == "arrays":
        widths = np.maximum(bounds.top_HS - bounds.need_HS + 1, 0)
        per_state = np.stack([np.diff(model.outcome_indptr[model.row_indptr_at(h)]) for h in range(model.horizon)])
        return Count("arrays", int((widths * per_state).sum()), int(widths.max()))
    bounds.has_one_start = False  # count all points within reach, also those that a solve for one amount leaves out
    found = build(bounds, ResourceMonitor(), arrays=False)
    points_HS = np.diff(found.points.indptr_HS, axis=1)
    total = 0
    for h in range(model.horizon):
        rows = model.row_indptr_at(h)
        after = model.next_state[model.outcome_indptr[rows[0]] : model.outcome_indptr[rows[-1]]]
        total += int(points_HS[h + 1][after].sum()) if h + 1 < model.horizon else len(after)
    return Count("points", total, max(1, int(points_HS.max())))


def rates(names: Sequence[str], limit: float = 1.0) -> Iterator[Rate]:
    """Yield the rates of workloads, all on one core; each answer is checked."""
    counted = counts()
    generic = generic_sweeps([(counted[name].width, counted[name].evaluations) for name in names], limit / 4)
    with one_thread():
        for name, any_processor in zip(names, generic, strict=True):
            model, count = workloads.find(name).model, counted[name]
            method = method_of(model)
            check_answer(model, solvent.solve(model, method=method))
            calls = [partial(solvent.solve, model, method=method), plain_sweep(count.width, count.evaluations)]
            solve, plain = median_times(calls, limit, clock=cpu_time)
            yield Rate(name, count.way, count.evaluations, solve, plain, any_processor)


def check_answer(model: CMDP, solution: solvent.Solution) -> None:
    """Verify the policy of a solution independently.

    Raises
    ------
    AssertionError
        If it exceeds the budget, or is not worth what the solution claims.
    """
    report = solvent.verify(model, solution)
    if not report.feasible:
        raise AssertionError(f"{model.name}: the policy exceeds the budget")
    if not abs(report.value - solution.value) <= 1e-9 * max(1.0, abs(solution.value)):
        raise AssertionError(f"{model.name}: claims {solution.value!r}, but its policy is worth {report.value!r}")


RATED = (
    "paper H=100 B=12", "paper H=1000 B=250", "real costs S=10 H=12, dead ends", "fuel grid n=10", "fuel grid n=20",
    "fuel grid n=40", "patrol grid n=15, dead ends", "FrozenLake 8x8 H=60", "two resources n=8", "two resources n=12",
    "two resources n=20",
)  # fmt: skip


@dataclass(frozen=True)
class Sweep:
    """A parameter that is varied: its exponent in the paper's bound, and the models."""

    title: str
    exponent: str
    sizes: tuple[int, ...]
    model: Callable[[int], CMDP]


SWEEPS = (
    Sweep("steps H", "1", (50, 100, 200, 400), lambda x: random_model(x, 40, 4, 4, 1, 100)),
    Sweep("states S, every one a successor", "2", (20, 40, 80, 160), lambda x: random_model(40, x, 3, x, 1, 100)),
    Sweep("actions A", "1", (5, 9, 17, 33), lambda x: random_model(40, 40, x, 4, 1, 100)),
    Sweep("outcomes n", "1", (4, 8, 16, 32), lambda x: random_model(40, 40, 4, x, 1, 100)),
    Sweep("steps H and amounts D together", "2", (100, 200, 400, 800), lambda x: random_model(x, 20, 4, 4, 1, x)),
    Sweep("amounts D of two resources", "1", (10, 15, 20, 30, 40), lambda x: random_model(60, 20, 4, 4, 2, x)),
    Sweep("steps H, the paper's family", "exponential", (125, 250, 500), lambda x: instances.paper(x, 1, x // 4)),
)  # fmt: skip


def growth(sweeps: Sequence[Sweep], limit: float = 1.0) -> Iterator[list[str]]:
    """Yield a line of the table of growth for each parameter."""
    for each in sweeps:
        times, counts = [], []
        for size in each.sizes:
            model = each.model(size)
            times.append(median_time(partial(solvent.solve, model), limit))
            counts.append(solvent.solve(model).stats.nodes)
        sizes = [x**2 for x in each.sizes] if "two resources" in each.title else list(each.sizes)
        yield [
            each.title, " ".join(map(str, each.sizes)), each.exponent,
            str(fit_growth(sizes, times, larger_half=False)), str(fit_growth(sizes, counts, larger_half=False)),
            f"{seconds(times[0])} to {seconds(times[-1])}",
        ]  # fmt: skip


def resources(limit: float = 1.0) -> Iterator[list[str]]:
    """Yield a line for one, two and three resources with a budget of 20 each."""
    for count in (1, 2, 3):
        model = random_model(20, 10, 4, 4, count, 20)
        nodes = solvent.solve(model, method="reduction").stats.nodes
        took = median_time(partial(solvent.solve, model), limit)
        yield [str(count), f"{nodes:,}", solvent.solve(model).method, seconds(took), seconds(took / nodes)]


def _rate_lines(found: Sequence[Rate]) -> list[list[str]]:
    return [
        [
            r.workload, f"{r.solve / r.plain:.1f}", f"{r.solve / r.generic:.1f}", r.way, f"{r.evaluations:,}",
            f"{r.evaluations / r.solve / 1e6:,.0f}", f"{r.evaluations / r.plain / 1e6:,.0f}",
        ]
        for r in found
    ]  # fmt: skip


def main() -> int:
    """Measure, print, and on request rewrite the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the two smallest sizes of each")
    parser.add_argument("--page", action="store_true", help="also rewrite docs/benchmarks.md")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    parser.add_argument("--count", nargs="+", metavar="NAME", help="only count the evaluations of these workloads anew")
    given = parser.parse_args()
    if given.count:
        found = counts() | {name: count_evaluations(workloads.find(name).model) for name in given.count}
        text = json.dumps({name: asdict(found[name]) for name in RATED if name in found}, indent=2)
        write_atomically(COUNTS, (text + "\n").encode())
        return 0
    limit = 0.2 if given.quick else 1.0
    sweeps = [Sweep(s.title, s.exponent, s.sizes[:2], s.model) for s in SWEEPS] if given.quick else SWEEPS
    console = Console(width=150)
    rated = [
        name
        for name in RATED
        if name in counts() and not (given.quick and ("n=40" in name or "n=20" in name or "H=1000" in name))
    ]
    header = (
        "workload", "solve / sweep", "solve / generic", "counted", "evaluations", "solve, million/s", "sweep, million/s"
    )  # fmt: skip
    parts = {"limit": markdown_table(header, _rate_lines(list(rates(rated, limit))), "lrrlrrr")}
    console.print(parts["limit"], markup=False)
    header = ("parameter", "sizes", "bound", "time", "nodes or points", "times")
    parts["growth"] = markdown_table(header, list(growth(sweeps, limit)), "llrrrr")
    console.print(parts["growth"], markup=False)
    header = ("resources", "nodes", "method", "time", "time per node")
    parts["resources"] = markdown_table(header, list(resources(limit)), "lrlrr")
    console.print(parts["resources"], markup=False)
    if given.page:
        write_atomically(given.out, fill(given.out.read_text(encoding="utf-8"), parts).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
