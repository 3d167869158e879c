"""Check the choice of `method="auto"`: time every method that accepts a problem, and "auto", over a catalog.

The catalog has the tests' problems with known answers (all examples among them), the workloads of the benchmarks, and
random families of one to three resources. "auto" may take at most 1.5 times as long as the fastest method. The least
time of repeated solves counts, since disturbances can only increase it, all methods alternately in one process;
kernels are compiled beforehand. A problem that fails is measured again, and the least ratio counts.

    python -m bench.choice [PART OF A NAME ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import solvent
from bench.peers import workloads
from bench.yardstick import clocked
from solvent import CMDP, instances
from solvent.model.budget import resolve
from solvent.solvers import registry
from solvent.solvers.problem import Problem

TESTS = Path(__file__).parent.parent / "tests"
#: "auto" may take this many times as long as the fastest method.
TARGET = 1.5
#: Number of measurements of a problem before it counts as a failure.
TRIES = 3
#: A forced method is stopped if it takes this many times as long as "auto", and longer than this number of seconds.
MOST_TIMES, LEAST_SECONDS = 20.0, 1.0
#: Before a solve that takes fewer seconds than this, another one by the same method is not counted.
BRIEF = 0.01
MEMORY = "4GB"
#: Statuses of a solve that a limit on time or memory ended.
CUT_SHORT = ("limit", "feasible")


@dataclass(frozen=True)
class Entry:
    """A problem of the catalog: a model, a budget if not its own, and further arguments of `solve`."""

    name: str
    model: CMDP
    budget: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    def methods(self) -> list[str]:
        """Return the methods that accept the problem."""
        if self.options:
            return [name for name in registry.names() if self._accepts_with_options(name)]
        problem = Problem.exact(self.model, resolve(self.model, self.budget))
        return [name for name in registry.names() if registry.get(name).accepts(problem) is None]

    def _accepts_with_options(self, method: str) -> bool:
        try:
            self.solve(method, time_limit=LEAST_SECONDS)
        except solvent.ModelError:
            return False
        return True

    def solve(self, method: str, **limits: Any) -> solvent.Solution:
        """Solve by a method."""
        return solvent.solve(self.model, self.budget, method=method, **self.options, **limits)


@dataclass(frozen=True)
class Result:
    """Times of "auto" and of each method in seconds; infinite if a method was stopped."""

    name: str
    chosen: str
    auto: float
    by_method: dict[str, float]

    @property
    def best(self) -> str:
        """The fastest method."""
        return min(self.by_method, key=self.by_method.__getitem__)

    @property
    def ratio(self) -> float:
        """Time of "auto" as a multiple of the fastest method's."""
        return self.auto / self.by_method[self.best]


def catalog() -> Iterator[Entry]:
    """Yield all problems, from small to large."""
    sys.path.insert(0, str(TESTS))
    import catalog as known

    for case in known.CASES:
        if case.spent is None:
            yield Entry(case.name, case.model, case.budget)
    for count in (1, 2, 3):
        for states, horizon, budget in ((3, 6, 6), (10, 20, 10), (10, 20, 20), (40, 30, 20)):
            if count == 3 and states == 40:
                continue
            name = f"random, {count} resources, S={states} H={horizon} B={budget}"
            yield Entry(name, workloads.random_model(horizon, states, 4, 4, count, budget))
            if count > 1 and states > 3:
                continue  # nearly every history has an amount of its own
            real = instances.random(
                states, 3, horizon=horizon // 3 + 2, branching=2, resources=count, cost_range=(0, 5), real_costs=True,
                budget=budget, seed=count,
            )  # fmt: skip
            yield Entry(f"random real costs, {count} resources, S={states} H={real.horizon} B={budget}", real)
    for layers, width, resources in ((8, 4, 2), (12, 8, 4), (16, 10, 3)):
        name = f"paths, {layers} layers of {width}, {resources} resources"
        yield Entry(name, workloads.layered_paths(layers, width, resources, 1))
    for workload in (*workloads.WORKLOADS, *workloads.OWN):
        yield Entry(workload.name, workload.model, None, workload.options)


def measure(entry: Entry, seconds: float) -> Result:
    """Time "auto" and every method alternately.

    Raises
    ------
    AssertionError
        If the methods do not agree on the value, or one of them fails.
    """
    expected = entry.solve(registry.AUTO)
    chosen = expected.method
    once = clocked(lambda: entry.solve(registry.AUTO))
    most = max(MOST_TIMES * once, LEAST_SECONDS)
    limits = {"time_limit": most, "memory_limit": MEMORY}
    stopped, times = [], {registry.AUTO: [], chosen: []}  # type: ignore[var-annotated]
    for method in entry.methods():
        if method == chosen:
            continue
        try:
            found = entry.solve(method, **limits)  # loads its kernels
        except solvent.SolventError as error:
            raise AssertionError(f"{entry.name}: {method}: {error}") from error
        if found.status in CUT_SHORT or clocked(partial(entry.solve, method, **limits)) > most / 2:
            stopped.append(method)
            continue
        if not entry.options and (found.status != expected.status or not _equal(found.value, expected.value)):
            raise AssertionError(f"{entry.name}: {method} finds {found.value!r}, {chosen} {expected.value!r}")
        times[method] = []
    while len(times[registry.AUTO]) < 5 or (
        sum(map(sum, times.values())) < seconds and len(times[registry.AUTO]) < 100
    ):
        for method, taken in times.items():
            solve = partial(entry.solve, method)
            if taken and min(taken) < BRIEF:
                solve()  # else a method would profit from what the one before it has left in caches
            taken.append(clocked(solve))
        if sum(map(sum, times.values())) > 10 * max(seconds, LEAST_SECONDS):
            break
    least = {method: min(taken) for method, taken in times.items()}
    auto = least.pop(registry.AUTO)
    return Result(entry.name, chosen, auto, least | dict.fromkeys(stopped, float("inf")))


def _equal(value: float, other: float) -> bool:
    return value == other or abs(value - other) <= 1e-9 * max(1.0, abs(other))


def judged(entry: Entry, seconds: float) -> Result:
    """Measure a problem, again if "auto" seems to be too slow; return the measurement with the least ratio."""
    found = measure(entry, seconds)
    for _ in range(TRIES - 1):
        if found.ratio <= TARGET:
            break
        found = min(found, measure(entry, seconds), key=lambda result: result.ratio)
    return found


def table(results: Sequence[Result]) -> Table:
    """Return the largest ratios first; times in milliseconds."""
    methods = [name for name in registry.names() if any(name in result.by_method for result in results)]
    shown = Table("problem", "auto is", "auto ms", *(f"{name} ms" for name in methods), "auto / best")
    for result in sorted(results, key=lambda result: -result.ratio):
        times = [
            "" if name not in result.by_method else f"{1000 * result.by_method[name]:.3g}".replace("inf", "stopped")
            for name in methods
        ]
        shown.add_row(result.name, result.chosen, f"{1000 * result.auto:.3g}", *times, f"{result.ratio:.2f}")
    return shown


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; return 1 if "auto" is too slow on a problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of names of problems; by default all")
    parser.add_argument("--seconds", type=float, default=0.2, help="how long to repeat each problem")
    parser.add_argument("--all", action="store_true", help="print all problems, not only the twelve largest ratios")
    given = parser.parse_args(arguments)
    console = Console(width=130)
    results, wrong = [], 0
    for entry in catalog():
        if given.names and not any(part in entry.name for part in given.names):
            continue
        if len(entry.methods()) < 2:
            continue
        try:
            result = judged(entry, given.seconds)
        except AssertionError as error:
            console.print(f"wrong: {error}", markup=False, highlight=False)
            wrong += 1
            continue
        if result.ratio > TARGET:
            console.print(
                f"{result.name}: auto ({result.chosen}) {1000 * result.auto:.3g} ms, {result.best} "
                f"{1000 * result.by_method[result.best]:.3g} ms",
                markup=False, highlight=False,
            )  # fmt: skip
        results.append(result)
    largest = sorted(results, key=lambda result: -result.ratio)[: None if given.all else 12]
    console.print(table(largest))
    over = sum(result.ratio > TARGET for result in results)
    console.print(
        f"{len(results)} problems with a choice; {over} on which auto takes more than {TARGET:g} times the best"
    )
    return int(over + wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
