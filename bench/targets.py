"""The targets of the project, measured in one run: `python -m bench.targets`.

Every figure is a ratio to something that is measured alternately in the same process, except for those that are times
by definition. Times are medians, kernels are compiled beforehand, and an answer is checked before its time counts.

    sweep      several resources, grids and points: time of a solve on one core, in plain sweeps (`bench.limit`)
    peers      two resources: time of Storm and QuantEcon from the model to the answer, in solves
    nodes      three resources: time of a solve for each node of the reduction
    gap        two resources, costs of four digits: time of an earlier version for a gap of 1 %, in solves
    knapsack   one state: time of OR-Tools' knapsack solver with its build, in solves
    paths      resource-constrained shortest paths of OR-Library: time of cspy, in solves
    fixed      time of a solve so small that only fixed costs count
    levels     the streets of Manhattan: time of fimdp, in calls of `survival_levels`

Peers are in the extra `bench`. What cannot be measured, since a peer or a file is missing, is listed as such.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

import solvent
from bench import levels, limit
from bench.peers import workloads
from bench.peers.child import Row
from bench.peers.report import PAGE, TITLES, fill, machine, markdown_table, total
from bench.peers.run import ROOT, run_one
from bench.yardstick import cpu_time, median_time, median_times, plain_sweep
from solvent.core.files import write_atomically
from solvent.core.threads import one_thread

RESULTS = ROOT / "out" / "bench" / "targets.json"
#: Times in plain sweeps of `UNIT` that the version of 2026-11-16 needs on one core, without boxes of amounts: the least
#: processor time of eight solves, and less than that of three.
EARLIER = {"courier 30, gap 1%": 82.6, "courier 60, gap 1%": 6800.0}
#: Width and number of evaluations of that sweep, about 8 ms.
UNIT = (10_000, 50_000_000)
#: Seconds of a peer on a workload of the targets.
PEER_SECONDS = 60.0


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Attributes
    ----------
    part : str
    workload : str
    measure : str
        What is measured, with its unit.
    value : float or None
        None if it could not be measured.
    target : float
    at_least : bool
        Whether the value must be at least the target, not at most.
    is_bound : bool
        Whether the peer ended without an answer, so that the true value is larger.
    note : str
        Why there is no value, or what else there is to say.
    """

    part: str
    workload: str
    measure: str
    value: float | None
    target: float
    at_least: bool = False
    is_bound: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if that was not measured.

        Examples
        --------
        >>> Figure("gap", "w", "times faster", 12.0, 10.0, at_least=True).met
        True
        >>> Figure("sweep", "w", "plain sweeps", 12.0, 10.0).met
        False
        """
        if self.value is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    def cells(self) -> list[str]:
        """Return the cells of the table: workload, measure, value, target, verdict."""
        shown = "" if self.value is None else f"{'> ' if self.is_bound else ''}{number(self.value)}"
        verdict = {True: "met", False: "**not met**", None: "not measured"}[self.met]
        told = f"{verdict}: {self.note}" if self.note else verdict
        return [
            self.workload,
            self.measure,
            shown,
            f"{'at least' if self.at_least else 'at most'} {number(self.target)}",
            told,
        ]


def number(value: float) -> str:
    """Return a number with two or three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2g}"


#: Largest number of plain sweeps by workload.
SWEEPS = {
    "two resources n=8": 6.0, "two resources n=12": 6.0, "two resources n=20": 6.0,
    "fuel grid n=10": 4.0, "fuel grid n=20": 3.0, "fuel grid n=40": 2.5, "real costs S=10 H=12, dead ends": 15.0,
}  # fmt: skip


def sweep(seconds: float, *, quick: bool = False) -> Iterator[Figure]:
    """Yield times in plain sweeps."""
    names = [name for name in SWEEPS if name in limit.counts() and not (quick and ("=20" in name or "=40" in name))]
    for rate in limit.rates(names, seconds):
        note = f"{number(rate.solve / rate.generic)} generic sweeps"
        times, target = rate.solve / rate.plain, SWEEPS[rate.workload]
        yield Figure("sweep", rate.workload, "plain sweeps, one core", times, target, note=note)


def against(part: str, peer: str, name: str, target: float, reference: Row, seconds: float) -> Figure:
    """Return how many times Solvent is faster than a peer, from the model to the answer.

    Parameters
    ----------
    part : str
    peer, name : str
        Names of the peer and of the workload.
    target : float
    reference : Row
        Solvent's row, whose value the peer's is compared with. If the peer does not answer, its time limit is divided
        by Solvent's time.
    seconds : float
        How long to repeat.
    """
    row = run_one(peer, name, reference.value, time_limit=PEER_SECONDS, seconds=seconds)
    measure = f"times faster than {TITLES[peer]}"
    whole = total(row)
    if row.status == "ok" and whole is not None and row.ours and row.solve:
        note = f"{number(row.solve / row.ours)} without its build"
        return Figure(part, name, measure, whole / row.ours, target, at_least=True, note=note)
    if row.status in ("time", "memory") and reference.solve:
        bound = PEER_SECONDS / reference.solve if row.status == "time" else None
        return Figure(part, name, measure, bound, target, at_least=True, is_bound=bound is not None, note=row.note)
    return Figure(part, name, measure, None, target, at_least=True, note=f"{row.status}, {row.note}")


def compared(part: str, names: list[str], peers: tuple[str, ...], target: float, seconds: float) -> Iterator[Figure]:
    """Yield comparisons of workloads with peers."""
    for name in names:
        reference = run_one("solvent", name, time_limit=PEER_SECONDS, seconds=seconds)
        if reference.status != "ok":
            raise AssertionError(f"{name}: Solvent ended with {reference.status}, {reference.note}")
        for peer in peers:
            yield against(part, peer, name, target, reference, seconds)


def peers(seconds: float, *, quick: bool = False) -> Iterator[Figure]:
    """Yield comparisons with planners that need the augmented MDP or counters, on two resources."""
    names = [f"two resources n={n}" for n in ((8,) if quick else (8, 12, 20))]
    return compared("peers", names, ("storm", "storm-explicit", "quantecon"), 10.0, seconds)


def knapsack(seconds: float, *, quick: bool = False) -> Iterator[Figure]:
    """Yield comparisons with OR-Tools' knapsack solver."""
    names = ["paper H=100 B=12", "paper H=200 B=50", "paper H=500 B=125", "paper H=1000 B=250"]
    return compared("knapsack", names[:1] if quick else names, ("ortools-knapsack",), 1.0, seconds)


def paths(seconds: float, *, quick: bool = False) -> Iterator[Figure]:
    """Yield comparisons with cspy, and the time of each path."""
    names = [w.name for w in workloads.WORKLOADS if w.family == workloads.RCSP]
    if not names:
        note = "the instances of OR-Library are not there"
        yield Figure("paths", "RCSP #1 to #8", "times faster than cspy", None, 1.0, at_least=True, note=note)
    for name in names[:1] if quick else names:
        reference = run_one("solvent", name, time_limit=PEER_SECONDS, seconds=seconds)
        if reference.status != "ok":
            raise AssertionError(f"{name}: Solvent ended with {reference.status}, {reference.note}")
        yield against("paths", "cspy", name, 1.0, reference, seconds)
        assert reference.solve is not None
        yield Figure("paths", name, "ms", 1e3 * reference.solve, 100.0)


def nodes(seconds: float, *, quick: bool = False) -> Iterator[Figure]:
    """Yield the time for each node of the reduction, with three resources."""
    model = workloads.find("three resources S=10 H=20").model
    by_nodes, found = solvent.solve(model, method="reduction"), solvent.solve(model)
    limit.check_answer(model, found)
    if not abs(found.value - by_nodes.value) <= 1e-9 * abs(by_nodes.value):
        raise AssertionError(f"three resources: {found.method} finds {found.value!r}, not {by_nodes.value!r}")
    took = median_time(partial(solvent.solve, model), seconds)
    yield Figure("nodes", "three resources S=10 H=20", "µs for each node", 1e6 * took / by_nodes.stats.nodes, 0.1)


def gap(seconds: float, *, quick: bool = False) -> Iterator[Figure]:
    """Yield how many times faster than an earlier version certified gaps are, in processor time on one core."""
    for name, earlier in list(EARLIER.items())[: 1 if quick else None]:
        workload = workloads.find(name)
        found = solvent.solve(workload.model, **workload.options)
        limit.check_answer(workload.model, found)
        if not found.gap <= (workload.gap or 0.0):
            raise AssertionError(f"{name}: ended with a gap of {found.gap:g}")
        calls = [partial(solvent.solve, workload.model, **workload.options), plain_sweep(*UNIT)]
        with one_thread():
            took, unit = median_times(calls, seconds, clock=cpu_time)
        yield Figure("gap", name, "times faster than before", earlier * unit / took, 10.0, at_least=True)


def fixed(seconds: float, *, quick: bool = False) -> Iterator[Figure]:
    """Yield the time of small solves."""
    for name in ("paper H=20 B=3", "paper H=20 B=10"):
        model = workloads.find(name).model
        limit.check_answer(model, solvent.solve(model))
        took = median_time(partial(solvent.solve, model), seconds, 2000, cpu_time)
        yield Figure("fixed", name, "µs", 1e6 * took, 100.0)


def survival(seconds: float, *, quick: bool = False) -> Iterator[Figure]:
    """Yield the comparison with fimdp."""
    name, measure = "streets of Manhattan", "times faster than fimdp"
    reason = levels.why_not()
    if reason is not None:
        yield Figure("levels", name, measure, None, levels.TARGET, at_least=True, note=reason)
        return
    streets = levels.Streets.read(levels.FILE)
    for each in levels.measure(streets, "", seconds, only="survive"):
        if each.different:
            raise AssertionError(f"{each.question}: {each.different} levels differ")
        yield Figure("levels", f"{name}, {each.question}", measure, each.factor, levels.TARGET, at_least=True)


PARTS: dict[str, Callable[..., Iterator[Figure]]] = {
    "sweep": sweep, "peers": peers, "nodes": nodes, "gap": gap, "knapsack": knapsack, "paths": paths, "fixed": fixed,
    "levels": survival,
}  # fmt: skip
HEADER = ("workload", "measured in", "value", "target", "verdict")


def measured(parts: list[str], seconds: float, *, quick: bool = False) -> Iterator[Figure]:
    """Yield the figures of some parts; a wrong answer is a figure that is not met."""
    for part in parts:
        try:
            yield from PARTS[part](seconds, quick=quick)
        except AssertionError as error:
            yield Figure(part, part, "wrong answer", float("nan"), 0.0, note=str(error))


def summary(figures: list[Figure]) -> str:
    """Return the number of targets that are met, not met and not measured."""
    verdicts = [figure.met for figure in figures]
    told = f"{verdicts.count(True)} of {len(verdicts)} targets are met"
    return told + (f", {verdicts.count(None)} are not measured" if None in verdicts else "")


def page_part(figures: list[Figure], where: str) -> str:
    """Return the table of the page, as Markdown."""
    table = markdown_table(HEADER, [figure.cells() for figure in figures], "llrrl")
    return f"{summary(figures)}. Measured on {where}.\n\n{table}"


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; return 1 if a target is not met or an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; by default all")
    parser.add_argument("--quick", action="store_true", help="small workloads, few repeats")
    parser.add_argument("--seconds", type=float, help="how long to repeat each measurement")
    parser.add_argument("--page", action="store_true", help="also rewrite docs/benchmarks.md")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file for the figures")
    given = parser.parse_args(arguments)
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    console = Console(width=140)
    figures = []
    seconds = given.seconds or (0.1 if given.quick else 2.0)
    for figure in measured(given.parts or list(PARTS), seconds, quick=given.quick):
        console.print("  ".join(figure.cells()), markup=False, highlight=False)
        figures.append(figure)
    table = Table(*HEADER)
    for figure in figures:
        table.add_row(*figure.cells())
    console.print(table)
    console.print(f"{summary(figures)}. {machine()}")
    given.results.parent.mkdir(parents=True, exist_ok=True)
    kept = {"machine": machine(), "figures": [asdict(figure) | {"met": figure.met} for figure in figures]}
    write_atomically(given.results, (json.dumps(kept, indent=1) + "\n").encode())
    if given.page:
        text = fill(PAGE.read_text(encoding="utf-8"), {"targets": page_part(figures, machine())})
        write_atomically(PAGE, text.encode())
    return int(any(figure.met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
