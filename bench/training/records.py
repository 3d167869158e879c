"""The records of finished runs: a file of JSON lines, replaced as a whole, so that it is never half-written."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from solvent.core.files import write_atomically

#: The parts of a record that say which run it was; a run with other settings is another run.
JOB = ("kind", "task", "method", "seed", "steps", "evaluation", "budget", "settings")


def key(record: dict[str, Any]) -> str:
    """Return what identifies the run of a record or a job."""
    return json.dumps({part: record.get(part) for part in JOB}, sort_keys=True)


class Records:
    """The records in a file.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self._by_key = {key(record): record for record in map(json.loads, text.splitlines())}

    def find(self, job: dict[str, Any]) -> dict[str, Any] | None:
        """Return the record of a job, if there is one."""
        return self._by_key.get(key(job))

    def needs(self, job: dict[str, Any]) -> bool:
        """Return whether a job has no record, or one of a failure."""
        found = self.find(job)
        return found is None or "error" in found

    def add(self, record: dict[str, Any]) -> None:
        """Keep a record, in place of another of the same job, and write the file."""
        with self._lock:
            self._by_key[key(record)] = record
            lines = "".join(json.dumps(each) + "\n" for each in self._by_key.values())
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, lines.encode())


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Refuse to run while another process writes the same records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(f"{path}: another run is writing these records; wait for it, or pass --records") from None
        yield
