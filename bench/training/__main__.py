"""`python -m bench.training`: run what has no record yet, and render the page from the records."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from bench.training import page
from bench.training.methods import FULL, QUICK, training_jobs
from bench.training.records import Records, only_one
from bench.training.run import ROOT, run_all
from bench.training.tabular import learning_jobs

#: Records of the published page, kept with the project so that a long run can continue on another machine.
PUBLISHED = Path(__file__).with_name("results.jsonl")
#: Records of quick runs.
QUICK_RUNS = ROOT / "out" / "bench" / "training-quick.jsonl"


def main() -> int:
    """Run the command line; return 1 if a method that promises to keep the budget exceeded it."""
    parser = argparse.ArgumentParser(prog="python -m bench.training", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two seeds and few steps: minutes instead of hours")
    parser.add_argument("--page", action="store_true", help="rewrite docs/learning-benchmarks.md and its figures")
    parser.add_argument(
        "--records",
        type=Path,
        help="file of records; default: bench/training/results.jsonl, with --quick out/bench/training-quick.jsonl",
    )
    parser.add_argument("--workers", type=int, default=2, help="number of runs at the same time")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="environments, problems or methods")
    parser.add_argument("--render", action="store_true", help="run nothing; render what is recorded")
    given = parser.parse_args()
    size = QUICK if given.quick else FULL
    path = given.records or (QUICK_RUNS if given.quick else PUBLISHED)
    # seed by seed, so that an interrupted run has whole comparisons
    jobs = sorted(training_jobs(size) + learning_jobs(size), key=lambda job: int(job["seed"]))
    chosen = [job for job in jobs if not given.only or {job["task"], job["method"]} & set(given.only)]
    if not chosen:
        sys.exit(f"no environment, problem or method is named {' or '.join(given.only)}")
    if not given.render:
        with only_one(path):
            try:
                run_all(chosen, Records(path), given.workers, _report)
            except KeyboardInterrupt:
                print(f"interrupted; what is finished is in {path}, and the same command continues")
                return 130
    records = Records(path)
    found = [record for job in jobs if (record := records.find(job)) is not None]
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
