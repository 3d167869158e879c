"""Evaluations per second compared with a plain sweep of arrays, and the growth of the time of planning.

An *evaluation* is one outcome of one row at one amount: read a value, multiply, add. The plain sweep does as many
evaluations on arrays of the same width, on one core, without lookups. The whole solve is timed, on one core: bounds,
sweep or merge, and following the policy forward to its worst case. Evaluations are those of the plain recursion over
all amounts within reach: the yardstick of a solve that can do without some of them is not smaller.

The paper bounds exact planning by O(H S^2 A n D), with n costs for each pair of states and D amounts at a step.
Exponents are fitted to medians of times, and to the number of nodes or points, which does not depend on the machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

import solvent
from bench.peers import workloads
from bench.peers.report import PAGE, fill, seconds
from bench.yardstick import median_time, plain_sweep
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


@dataclass(frozen=True)
class Rate:
    """Evaluations of a solve, with its time and that of a plain sweep."""

    workload: str
    way: str
    evaluations: int
    solve: float
    plain: float


def method_of(model: CMDP) -> str:
    """Return the method that `solve` chooses; "frontier" instead of "labels", which avoids most evaluations."""
    method = solvent.solve(model).method
    return "frontier" if method == "labels" else method


def evaluations_of(model: CMDP) -> tuple[str, int, int]:
    """Return the representation that `solve` uses, the number of evaluations, and the width of its arrays."""
    solution = solvent.solve(model, method=method_of(model))
    if solution.method == "reduction":
        mdp = solvent.augment(model)
        return "nodes", int(mdp.transitions.nnz), max(1, solution.stats.nodes // (model.horizon * model.n_states))
    problem = Problem.exact(model, resolve(model, None))
    bounds = FrontierBounds.at_start(model, SingleResource.of(problem.lattice), ResourceMonitor())
    if solution.stats.representation == "arrays":
        widths = np.maximum(bounds.top_HS - bounds.need_HS + 1, 0)
        per_state = np.stack([np.diff(model.outcome_indptr[model.row_indptr_at(h)]) for h in range(model.horizon)])
        return "arrays", int((widths * per_state).sum()), int(widths.max())
    bounds.has_one_start = False  # count all points within reach, also those that a solve for one amount leaves out
    found = build(bounds, ResourceMonitor(), arrays=False)
    points_HS = np.diff(found.points.indptr_HS, axis=1)
    total = 0
    for h in range(model.horizon):
        rows = model.row_indptr_at(h)
        after = model.next_state[model.outcome_indptr[rows[0]] : model.outcome_indptr[rows[-1]]]
        total += int(points_HS[h + 1][after].sum()) if h + 1 < model.horizon else len(after)
    return "points", total, max(1, int(points_HS.max()))


def rates(names: Sequence[str], limit: float = 1.0) -> Iterator[Rate]:
    """Yield the rates of workloads, all on one core."""
    with one_thread():
        for name in names:
            model = workloads.find(name).model
            way, evaluations, width = evaluations_of(model)
            solve = median_time(partial(solvent.solve, model, method=method_of(model)), limit)
            plain = median_time(plain_sweep(width, evaluations), limit)
            yield Rate(name, way, evaluations, solve, plain)


RATED = (
    "paper H=100 B=12", "paper H=1000 B=250", "real costs S=10 H=12, dead ends", "fuel grid n=10", "fuel grid n=20",
    "fuel grid n=40", "patrol grid n=15, dead ends", "FrozenLake 8x8 H=60", "two resources n=8", "two resources n=12",
)  # fmt: skip


def random_model(horizon: int, n_states: int, n_actions: int, n_outcomes: int, resources: int, budget: int) -> CMDP:
    """Return a random model whose number of amounts depends on the budget alone: costs are 0 to 3, rest is free."""
    rng = np.random.default_rng(7)
    names = [f"r{d}" for d in range(resources)]
    b = CMDP.builder(
        horizon=horizon, start=0, resources=names, states=range(n_states), actions=range(n_actions),
        budget=dict.fromkeys(names, budget),
    )  # fmt: skip
    for state in range(n_states):
        b.add(state, 0, outcomes=[(1, state)])
        for action in range(1, n_actions):
            chances = rng.dirichlet(np.ones(n_outcomes))
            after, cost = rng.integers(n_states, size=n_outcomes), rng.integers(4, size=(n_outcomes, resources))
            outcomes = [(p, int(s), c.tolist()) for p, s, c in zip(chances, after, cost, strict=True)]
            b.add(state, action, reward=float(rng.random()), outcomes=outcomes)
    return b.build()


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
            times.append(median_time(lambda model=model: solvent.solve(model), limit))  # type: ignore[misc]
            counts.append(solvent.solve(model).stats.nodes)
        sizes = [x**2 for x in each.sizes] if "two resources" in each.title else list(each.sizes)
        yield [
            each.title, " ".join(map(str, each.sizes)), each.exponent,
            str(fit_growth(sizes, times, larger_half=False)), str(fit_growth(sizes, counts, larger_half=False)),
            " ".join(map(seconds, times)).replace(" s", " s,").rstrip(","),
        ]  # fmt: skip


def resources(limit: float = 1.0) -> Iterator[list[str]]:
    """Yield a line for one, two and three resources with a budget of 20 each."""
    for count in (1, 2, 3):
        model = random_model(20, 10, 4, 4, count, 20)
        solution = solvent.solve(model, method="reduction")
        took = median_time(lambda model=model: solvent.solve(model, method="reduction"), limit)  # type: ignore[misc]
        yield [str(count), f"{solution.stats.nodes:,}", seconds(took), seconds(took / solution.stats.nodes)]


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table."""
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *lines)) + "\n"


def _rate_lines(found: Sequence[Rate]) -> list[list[str]]:
    return [
        [
            r.workload, r.way, f"{r.evaluations:,}", f"{r.evaluations / r.solve / 1e6:,.0f}",
            f"{r.evaluations / r.plain / 1e6:,.0f}", f"{r.solve / r.plain:.1f}",
        ]
        for r in found
    ]  # fmt: skip


def main() -> int:
    """Measure, print, and on request rewrite the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the two smallest sizes of each")
    parser.add_argument("--page", action="store_true", help="also rewrite docs/benchmarks.md")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    given = parser.parse_args()
    limit = 0.2 if given.quick else 1.0
    sweeps = [Sweep(s.title, s.exponent, s.sizes[:2], s.model) for s in SWEEPS] if given.quick else SWEEPS
    console = Console(width=150)
    rated = [name for name in RATED if not (given.quick and ("n=40" in name or "H=1000" in name))]
    header = ("workload", "representation", "evaluations", "million per second", "plain sweep", "solve / sweep")
    parts = {"limit": markdown(header, _rate_lines(list(rates(rated, limit))), 2)}
    console.print(parts["limit"], markup=False)
    header = ("parameter", "sizes", "bound", "time", "nodes or points", "times")
    parts["growth"] = markdown(header, list(growth(sweeps, limit)), 2)
    console.print(parts["growth"], markup=False)
    parts["resources"] = markdown(("resources", "nodes", "time", "time per node"), list(resources(limit)))
    console.print(parts["resources"], markup=False)
    if given.page:
        write_atomically(given.out, fill(given.out.read_text(encoding="utf-8"), parts).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
