"""Check the choice of `method="auto"`: time every problem of the tests' catalog that both exact methods accept.

Prints the largest ratios of "auto" to the faster of the two. Medians of repeated solves in one process; kernels
compiled beforehand.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import solvent

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import catalog

METHODS = ("auto", "reduction", "frontier")


def medians_ms(case: Any, seconds: float = 0.3) -> list[float]:
    """Return the median time of each method, measured alternately so that other load affects all alike."""
    for method in METHODS:
        solvent.solve(case.model, case.budget, method=method)
    times: list[list[float]] = [[] for _ in METHODS]
    while len(times[0]) < 9 or (sum(map(sum, times)) < seconds and len(times[0]) < 100):
        for method, taken in zip(METHODS, times, strict=True):
            began = time.perf_counter()
            solvent.solve(case.model, case.budget, method=method)
            taken.append(time.perf_counter() - began)
    return [1000 * statistics.median(taken) for taken in times]


def main() -> None:
    """Measure and print."""
    rows = []
    for case in catalog.CASES:
        if "frontier" not in case.methods:
            continue
        auto, reduction, frontier = medians_ms(case)
        rows.append((auto / min(reduction, frontier), case.name, auto, reduction, frontier))
    rows.sort(reverse=True)
    table = Table("problem", "auto ms", "reduction ms", "frontier ms", "auto / better")
    for ratio, name, auto, reduction, frontier in rows[:12]:
        table.add_row(name, f"{auto:.3f}", f"{reduction:.3f}", f"{frontier:.3f}", f"{ratio:.2f}")
    console = Console(width=110)
    console.print(table)
    over = sum(ratio > 2 for ratio, *_ in rows)
    console.print(f"{len(rows)} problems, largest ratio first; {over} with a ratio above 2")


if __name__ == "__main__":
    main()
