"""Run the stages of `.ci/check.py` or `.ci/nightly.py`, and print the wall and processor time of each.

A stage is a command in a process of its own. Stages run side by side as far as processors reach: each says how many
processors it keeps busy, and which stages come before it. A stage's output is printed when it ends. No
stage starts after one has failed.

Tests that are skipped in every stage must be listed in `.ci/skips.txt` with the reason that they give.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

#: Processors that a stage keeps busy: one, all of them, or hardly any, as it waits most of the time.
ONE, ALL, WAITING = 1.0, 0.0, 1 / 64
#: Variables of a developer that would change what stages do.
CHOICES = ("MAKEFLAGS", "PYTEST_ADDOPTS", "PYTHON", "TESTS", "VENV", "WORKERS")


@dataclass(frozen=True)
class Stage:
    """A command, the processors that it keeps busy, and the names of the stages that come before it."""

    name: str
    command: str
    cores: float = ONE
    after: tuple[str, ...] = ()
    #: Whether it mainly installs packages: its time depends on downloads.
    installs: bool = False
    #: Environment variables to set, or to remove where the value is None.
    variables: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """A stage that has ended: its exit code, and its wall and processor time in seconds."""

    stage: Stage
    code: int
    wall: float
    processor: float


class Running:
    """A stage that runs, with its output in a file."""

    def __init__(self, stage: Stage, folder: Path, variables: Mapping[str, str | None]) -> None:
        self.stage, self.began = stage, time.monotonic()
        self.output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed after it is printed
        given = {**os.environ, **variables, **stage.variables}
        self.process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", stage.command], cwd=folder,
            env={name: value for name, value in given.items() if value is not None},
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def ended(self) -> Ended | None:
        """Return the end of the stage, or None as long as it runs; processor time includes that of its children."""
        found, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if not found:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(
            self.stage, self.process.returncode, time.monotonic() - self.began, usage.ru_utime + usage.ru_stime
        )

    def kill(self) -> None:
        """End the stage and all processes that it started.

        They are found one by one, as tests with Ray fail in a process group of their own.
        """
        parents = dict[int, int]()
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has just ended
                parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        found = [self.process.pid]
        for each in found:  # grows meanwhile
            found += [number for number, parent in parents.items() if parent == each]
        for each in found:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGTERM)

    def print_output(self) -> None:
        """Print what the stage has written."""
        self.output.seek(0)
        sys.stdout.flush()
        sys.stdout.buffer.write(self.output.read())
        sys.stdout.buffer.flush()
        self.output.close()


def run_stages(stages: Sequence[Stage], folder: Path, variables: Mapping[str, str | None], cores: int) -> list[Ended]:
    """Run stages in a folder, in an order that respects `after`; return those that have ended."""
    running = list[Running]()
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return _run_stages(stages, folder, variables, cores, running)
    finally:
        for each in running:  # after an interrupt or an error
            each.kill()
        signal.signal(signal.SIGTERM, before)


def _run_stages(
    stages: Sequence[Stage],
    folder: Path,
    variables: Mapping[str, str | None],
    cores: int,
    running: list[Running],
) -> list[Ended]:
    """Run stages, while `running` has those that run."""
    began, waiting, done = time.monotonic(), list(stages), list[Ended]()
    while waiting or running:
        failed = any(each.code for each in done)
        finished = {each.stage.name for each in done}
        free = cores + WAITING - sum(each.stage.cores or cores for each in running)
        startable = [each for each in waiting if finished.issuperset(each.after) and (each.cores or cores) <= free]
        if startable and not failed:
            waiting.remove(startable[0])
            running.append(Running(startable[0], folder, variables))
            print(f"[{_clock(began)}] {startable[0].name}: started", flush=True)
            continue
        if failed and not running:
            break
        if not running:
            raise SystemExit(f"stages that wait for others or for processors that do not exist: {waiting}")
        time.sleep(0.1)
        for each in list(running):
            if end := each.ended():
                running.remove(each)
                done.append(end)
                print(f"\n[{_clock(began)}] {each.stage.name}: {each.stage.command}", flush=True)
                each.print_output()
                print(f"[{_clock(began)}] {each.stage.name}: code {end.code}, {end.wall:.0f} s", flush=True)
    return done


def _clock(began: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    return f"{minutes:3d}:{seconds:02d}"


def table(done: Sequence[Ended], wall: float) -> str:
    """Return the times of all stages as a table in Markdown."""
    lines = ["| stage | wall, s | processor, s |", "| --- | ---: | ---: |"]
    lines += [
        f"| {each.stage.name}{' (installs)' if each.stage.installs else ''} | {each.wall:.0f} | {each.processor:.0f} |"
        for each in done
    ]
    processor = sum(each.processor for each in done)
    apart = sum(each.processor for each in done if each.stage.installs)
    lines.append(f"| all | {wall:.0f} | {processor:.0f}, of which {apart:.0f} install |")
    return "\n".join(lines)


def outcomes_of(folder: Path) -> tuple[set[str], dict[str, str]]:
    """Return the tests that ran in some stage, and those that were only skipped, with the reason of the last skip.

    `tests/conftest.py` writes a line for each test and stage into a file of the folder. A file that is
    skipped as a whole counts as run if one of its tests has run in another stage.
    """
    ran, files, skipped = set[str](), set[str](), dict[str, str]()
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            name, reason = json.loads(line)
            if reason is None:
                ran.add(name)
                files.add(name.partition("::")[0])
            else:
                skipped[name] = reason
    return ran, {name: reason for name, reason in sorted(skipped.items()) if name not in ran | files}


def unlisted(skipped: Mapping[str, str], listed: str) -> list[str]:
    """Return a line for each skipped test whose reason is not a line of a text, in which `#` begins a comment."""
    reasons = {line.strip() for line in listed.splitlines() if line.strip() and not line.startswith("#")}
    return [f"{name}: {reason}" for name, reason in skipped.items() if reason not in reasons]


def run(
    stages: Sequence[Stage], folder: Path, variables: Mapping[str, str | None] | None = None
) -> tuple[list[Ended], int, int]:
    """Run stages in a checkout and print their times; exit with 1 if one fails or a skip is not listed.

    Return the stages, the number of tests that ran, and the number of those that were skipped in every stage.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="outcomes-") as name:
        given = {**dict.fromkeys(CHOICES), "SOLVENT_OUTCOMES": name, **(variables or {})}
        done = run_stages(stages, folder, given, len(os.sched_getaffinity(0)))
        ran, skipped = outcomes_of(Path(name))
    print(f"\n{table(done, time.monotonic() - began)}", flush=True)
    if failed := [each.stage.name for each in done if each.code]:
        raise SystemExit(f"failed: {', '.join(failed)}")
    if missed := unlisted(skipped, (folder / ".ci" / "skips.txt").read_text(encoding="utf-8")):
        raise SystemExit("no stage runs these tests, and .ci/skips.txt does not list the reason:\n" + "\n".join(missed))
    return done, len(ran), len(skipped)
