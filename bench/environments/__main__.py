"""`python -m bench.environments`: play what has no record yet, write docs/environments.md; status 1 if over budget."""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.environments import page
from bench.environments.cases import CASES, QUICK, Case, steps_of
from bench.environments.play import modes, play
from bench.training.records import only_one
from bench.training.run import ROOT
from solvent.core.files import write_atomically

FULL_STEPS, QUICK_STEPS = 3_000, 300
SEED = 1
#: What says which run a record is of.
_JOB = ("name", "version", "mode", "cost", "budget", "planned_steps", "seed")
Record = dict[str, Any]


def job_of(case: Case, mode: str, steps: int) -> Record:
    """Return what identifies a run."""
    return {
        "name": case.name, "package": case.package, "version": version(case.package), "mode": mode, "cost": case.cost,
        "budget": str(case.budget), "planned_steps": steps_of(case, steps), "seed": SEED,
    }  # fmt: skip


def is_installed(case: Case) -> bool:
    """Return whether the package of an environment is installed."""
    try:
        version(case.package)
    except PackageNotFoundError:
        return False
    return True


def run(case: Case, mode: str, steps: int) -> Record:
    """Play a case in a mode; return its record, which has the error if the environment cannot be played."""
    job, began = job_of(case, mode, steps), time.perf_counter()
    try:
        found = play(case, mode, job["planned_steps"], SEED)
    except Exception as error:  # a run that fails is a row that says why, and the command fails
        found = {"error": f"{type(error).__name__}: {error}"}
    return {**job, **found, "seconds": round(time.perf_counter() - began, 1)}


def _key(record: Record) -> str:
    return json.dumps({part: record[part] for part in _JOB}, sort_keys=True)


def read(path: Path) -> dict[str, Record]:
    """Return the records in a file, by what identifies them."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {_key(record): record for record in map(json.loads, lines)}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 if an episode was over budget or a run failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.environments", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few environments and steps; rewrites nothing")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="only these environments; rewrites nothing"
    )
    parser.add_argument("--records", type=Path, help="file of records of your own; rewrites nothing")
    parser.add_argument("--again", action="store_true", help="forget the records, and play everything")
    given = parser.parse_args(arguments)
    if unknown := set(given.only) - {case.name for case in CASES}:
        sys.exit(f"no environment is named {' or '.join(sorted(unknown))}")
    path = given.records or ROOT / "out" / "bench" / f"environments{'-quick' if given.quick else ''}.jsonl"
    steps, names = (QUICK_STEPS, set(QUICK)) if given.quick else (FULL_STEPS, {case.name for case in CASES})
    chosen = [case for case in CASES if case.name in (set(given.only) or names)]
    present, missing = ([case for case in chosen if is_installed(case) is there] for there in (True, False))
    with only_one(path):
        known = {} if given.again else read(path)
        records = []
        for case in present:
            for mode in modes(case):
                key = _key(job_of(case, mode, steps))
                if key not in known or "error" in known[key]:
                    known[key] = run(case, mode, steps)
                    write_atomically(path, "".join(json.dumps(each) + "\n" for each in known.values()).encode())
                records.append(known[key])
                print(page.row(known[key]), flush=True)
    for case in missing:
        print(f"{case.name}: not played, as the package {case.package} is not installed")
    if not given.quick and not given.only and given.records is None:
        page.write(records, missing, steps)
    over, failures = page.broken(records), page.failed(records)
    for line in over:
        print(f"over budget: {line}")
    for line in failures:
        print(f"failed: {line}")
    return 1 if over or failures else 0


if __name__ == "__main__":
    sys.exit(main())
