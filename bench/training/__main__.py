"""`python -m bench.training`: run what has no record yet, and render the page from the records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bench.training import page
from bench.training.command import Command
from bench.training.methods import FULL, QUICK, Size, training_jobs
from bench.training.run import run_all
from bench.training.tabular import learning_jobs

#: Records of the published page, kept with the project so that a long run can continue on another machine.
PUBLISHED = Path(__file__).with_name("results.jsonl")
COMMAND = Command(
    "training", __doc__, "learning-benchmarks.md", "hours", "environments, problems or methods", ("task", "method"),
    PUBLISHED,
)  # fmt: skip


def jobs_of(size: Size) -> list[dict[str, Any]]:
    """Return all jobs of a run, seed by seed, so that an interrupted run has whole comparisons."""
    return sorted(training_jobs(size) + learning_jobs(size), key=lambda job: int(job["seed"]))


def main() -> int:
    """Run the command line; return 1 if a method that promises to keep the budget exceeded it."""
    given = COMMAND.read()
    size = QUICK if given.quick else FULL
    found = COMMAND.run(given, size.name, jobs_of(size), run_all, _report)
    if found is None:
        return 130
    print(page.tables(found, size))
    if given.page:
        page.write(found, size)
    broken = page.broken_promises(found)
    for line in broken:
        print(f"over budget: {line}")
    return 1 if broken else 0


def _report(record: dict[str, Any], left: int) -> None:
    name = f"{record['task']}, {record['method']}, seed {record['seed']}"
    counts = record.get("training", {})
    result = record.get("error") or f"{counts['over']} of {counts['episodes']} episodes over, {record['seconds']:.0f} s"
    print(f"{name}: {result}; {left} left", flush=True)


if __name__ == "__main__":
    sys.exit(main())
