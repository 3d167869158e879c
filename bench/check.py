"""Check for performance regressions: `make bench-check` compares with `bench/baseline.json`, never in seconds.

Four numbers are measured for each workload:

- `nodes`: the number of nodes, points or labels that a solve works on, in all rounds if a gap is certified. It is
  exactly reproducible; one more is a regression.
- `calls`: the number of calls of Solvent's own Python functions in a warm solve on one thread. It is the same on each
  run and does not depend on the machine or on the versions of dependencies; 10 % more is a regression.
- `python`, `kernels`: the processor time of a solve in Python and in compiled kernels, each divided by that of a
  yardstick of the same kind (`bench.yardstick`) measured alternately in the same process, the least of each. A machine
  that is faster at one of the two is faster at its yardstick too. Twice the time in
  Python, or 1.5 times the time in kernels, three times in a row, is a regression.

`--update` writes a new baseline; commit it with the change that caused it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import solvent
from bench.peers import workloads
from bench.yardstick import work_ratios
from solvent.core.files import write_atomically
from solvent.core.threads import one_thread

BASELINE = Path(__file__).parent / "baseline.json"
#: Factor by which each number may exceed its baseline.
TOLERANCE = {"nodes": 1.0, "calls": 1.1, "python": 2.0, "kernels": 1.5}
#: Numbers that are ratios of times, in which noise can only increase the numerator.
RATIOS = ("python", "kernels")
#: Number of measurements of a ratio before it counts as a regression.
TRIES = 3
ROUNDS = 25
WORKLOADS = (
    "paper H=20 B=3",
    "paper H=100 B=12",
    "paper H=100 B=12 e=0.1",
    "paper H=1000 B=250",
    "fuel grid n=10",
    "fuel grid n=20",
    "patrol grid n=15, dead ends",
    "two resources n=8",
    "two resources n=12",
    "three resources S=10 H=20",
    "courier 30, gap 1%",
    "paths, 4 resources",
    "real costs S=10 H=12, dead ends",
    "FrozenLake 8x8 H=60",
)

Numbers = dict[str, float]


def python_calls(call: Callable[[], object]) -> int:
    """Return how often a call calls Python functions of the package.

    Comprehensions are left out, as they are functions in some versions of Python only.
    """
    count, package = 0, str(Path(solvent.__file__).parent)

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        if event == "call" and frame.f_code.co_filename.startswith(package):
            count += not frame.f_code.co_name.endswith("comp>")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count


def measure(name: str, rounds: int = ROUNDS) -> Numbers:
    """Return the numbers of one workload."""
    workload = workloads.find(name)
    model, options = workload.model, workload.options

    def call() -> solvent.Solution:
        return solvent.solve(model, **options)

    call()
    python, kernels = work_ratios(call, rounds)
    with one_thread():  # the number of parts, and of times that they are waited for, depends on the number of cores
        calls = python_calls(call)
    return {"nodes": call().stats.nodes, "calls": calls, "python": python, "kernels": kernels}


def worse(found: Mapping[str, float], baseline: Mapping[str, float]) -> list[str]:
    """Return the names of the numbers that exceed their baseline by more than the tolerance.

    Examples
    --------
    >>> baseline = {"nodes": 100, "calls": 100, "python": 1.0, "kernels": 1.0}
    >>> worse({"nodes": 101, "calls": 109, "python": 1.9, "kernels": 2.1}, baseline)
    ['nodes', 'kernels']
    """
    return [name for name, factor in TOLERANCE.items() if found[name] > factor * baseline[name]]


def judge(baseline: Mapping[str, Numbers], take: Callable[[str], Numbers]) -> tuple[dict[str, Numbers], list[str]]:
    """Measure every workload of a baseline; return the numbers and a line for each regression.

    A ratio that is too large is measured again, and the least counts: noise can only increase it.
    """
    found: dict[str, Numbers] = {}
    regressions = []
    for name, before in baseline.items():
        numbers = take(name)
        for _ in range(TRIES - 1):
            if not worse(numbers, before) or set(worse(numbers, before)) - set(RATIOS):
                break
            again = take(name)
            numbers |= {ratio: min(numbers[ratio], again[ratio]) for ratio in RATIOS}
        found[name] = numbers
        regressions += [
            f"{name}: {number} was {before[number]:g}, is {numbers[number]:g}" for number in worse(numbers, before)
        ]
    return found, regressions


def table(found: Mapping[str, Numbers], baseline: Mapping[str, Numbers]) -> Table:
    """Return the numbers with their baseline."""
    shown = Table("workload", *(f"{name}, {when}" for name in TOLERANCE for when in ("before", "now")))
    for name, numbers in found.items():
        cells = [
            f"{x:,.4g}" if key in RATIOS else f"{x:,.0f}"
            for key in TOLERANCE
            for x in (baseline[name][key], numbers[key])
        ]
        shown.add_row(name, *cells)
    return shown


def main(arguments: list[str] | None = None) -> int:
    """Compare or update; return 1 if there is a regression."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the current measurements as the baseline")
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    given = parser.parse_args(arguments)
    console = Console(width=130)
    if given.update:
        numbers = {name: measure(name) for name in WORKLOADS}
        for each in numbers.values():
            each |= {ratio: float(f"{each[ratio]:.3g}") for ratio in RATIOS}
        write_atomically(given.baseline, (json.dumps(numbers, indent=2) + "\n").encode())
        return 0
    baseline: dict[str, Numbers] = json.loads(given.baseline.read_text())
    found, regressions = judge(baseline, measure)
    console.print(table(found, baseline))
    for line in regressions:
        console.print(f"[red]worse[/] {line}", highlight=False)
    fewer = [name for name, each in found.items() if each["nodes"] < baseline[name]["nodes"]]
    if fewer:
        console.print(f"fewer nodes than before on {', '.join(fewer)}: update the baseline (--update)")
    return 1 if regressions else 0


if __name__ == "__main__":
    sys.exit(main())
