"""`python -m bench.claims`: run what has no record yet, and render the page from the records."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from bench.claims import page
from bench.claims.jobs import FULL, QUICK, all_jobs
from bench.claims.run import run_all
from bench.training.records import Records, only_one
from bench.training.run import ONE_THREAD, ROOT

FOLDER = ROOT / "out" / "bench"


def main() -> int:
    """Run the command line; return 1 if a claim that is proved was found to be broken."""
    parser = argparse.ArgumentParser(prog="python -m bench.claims", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two seeds and few steps: minutes instead of an hour")
    parser.add_argument("--page", action="store_true", help="rewrite docs/learning-claims.md and its figures")
    parser.add_argument("--records", type=Path, help="file of records; default: out/bench/claims-SIZE.jsonl")
    parser.add_argument("--workers", type=int, default=2, help="number of runs at the same time")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="kinds, problems or learners")
    parser.add_argument("--render", action="store_true", help="run nothing; render what is recorded")
    given = parser.parse_args()
    size = QUICK if given.quick else FULL
    path = given.records or FOLDER / f"claims-{size.name}.jsonl"
    jobs = all_jobs(size)
    chosen = [j for j in jobs if not given.only or {j["kind"], j["task"], j["method"]} & set(given.only)]
    if not chosen:
        sys.exit(f"no kind, problem or learner is named {' or '.join(given.only)}")
    os.environ.update(ONE_THREAD)
    if not given.render:
        with only_one(path):
            try:
                run_all(chosen, Records(path), given.workers, _report)
            except KeyboardInterrupt:
                print(f"interrupted; what is finished is in {path}, and the same command continues")
                return 130
    records = Records(path)
    found = [record for job in jobs if (record := records.find(job)) is not None]
    print(page.tables(found))
    if given.page:
        page.write(found, size)
    broken = page.broken(found)
    for line in broken:
        print(f"broken: {line}")
    return 1 if broken else 0


def _report(record: dict[str, Any], left: int) -> None:
    name = f"{record['kind']}, {record['task']}, {record['method']}, seed {record['seed']}"
    result = record["error"] if "error" in record else f"{record['seconds']:.0f} s"
    print(f"{name}: {result}; {left} left", flush=True)


if __name__ == "__main__":
    sys.exit(main())
