"""`python -m bench.claims`: run what has no record yet, and render the page from the records."""

from __future__ import annotations

import os
import sys
from typing import Any

from bench.claims import page
from bench.claims.jobs import FULL, QUICK, all_jobs
from bench.claims.run import run_all
from bench.training.command import Command
from bench.training.run import ONE_THREAD

COMMAND = Command(
    "claims", __doc__, "learning-claims.md", "an hour", "kinds, problems or learners", ("kind", "task", "method")
)


def main() -> int:
    """Run the command line; return 1 if a claim that is proved was found to be broken."""
    given = COMMAND.read()
    size = QUICK if given.quick else FULL
    os.environ.update(ONE_THREAD)
    found = COMMAND.run(given, size.name, all_jobs(size), run_all, _report)
    if found is None:
        return 130
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
