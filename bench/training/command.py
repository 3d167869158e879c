"""The command line that `bench.training` and `bench.claims` share: run what has no record yet, and read the records."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.training.records import Records, only_one
from bench.training.run import ROOT

FOLDER = ROOT / "out" / "bench"
#: A job or its record.
Job = Mapping[str, Any]


class Command(NamedTuple):
    """What differs between the commands.

    Attributes
    ----------
    name : str
        Name of the package in `bench`, and of the file of records.
    description : str
    page : str
        The page that is rewritten.
    duration : str
        How long a full run takes.
    kinds : str
        What can be named by `--only`.
    fields : tuple of str
        The fields of a job that hold such names.
    published : Path or None
        Where the records of a full run are kept with the project; None if they are not.
    """

    name: str
    description: str
    page: str
    duration: str
    kinds: str
    fields: tuple[str, ...]
    published: Path | None = None

    def read(self) -> argparse.Namespace:
        """Return the arguments of the command line."""
        parser = argparse.ArgumentParser(prog=f"python -m bench.{self.name}", description=self.description)
        quick = f"two seeds and few steps: minutes instead of {self.duration}"
        parser.add_argument("--quick", action="store_true", help=quick)
        parser.add_argument("--page", action="store_true", help=f"rewrite docs/{self.page} and its figures")
        default = " or ".join(str(self._path(size).relative_to(ROOT)) for size in ("full", "quick"))
        parser.add_argument("--records", type=Path, help=f"file of records; default: {default}")
        parser.add_argument("--workers", type=int, default=2, help="number of runs at the same time")
        parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help=self.kinds)
        parser.add_argument("--render", action="store_true", help="run nothing; render what is recorded")
        return parser.parse_args()

    def _path(self, size: str) -> Path:
        """Return the file of records of a run of a size."""
        if size == "full" and self.published is not None:
            return self.published
        return FOLDER / f"{self.name}-{size}.jsonl"

    def run(
        self,
        given: argparse.Namespace,
        size: str,
        jobs: Sequence[Job],
        run_all: Callable[..., None],
        report: Callable[[dict[str, Any], int], None],
    ) -> list[dict[str, Any]] | None:
        """Run the chosen jobs that have no record, and return all records; None if the run was interrupted.

        Parameters
        ----------
        given : Namespace
            As `read` returns it.
        size : str
            Name of the size of the run, for the file of records.
        jobs : sequence of dict
        run_all : callable
            Runs jobs: `run_all(jobs, records, workers, report)`.
        report : callable
            Prints a record, and how many jobs are left.
        """
        path = given.records or self._path(size)
        chosen = [job for job in jobs if not given.only or {job[key] for key in self.fields} & set(given.only)]
        if not chosen:
            sys.exit(f"--only: expected {self.kinds}, found {' and '.join(given.only)}")
        if not given.render:
            with only_one(path):
                try:
                    run_all(chosen, Records(path), given.workers, report)
                except KeyboardInterrupt:
                    print(f"interrupted; what is finished is in {path}, and the same command continues")
                    return None
        records = Records(path)
        return [record for job in jobs if (record := records.find(job)) is not None]
