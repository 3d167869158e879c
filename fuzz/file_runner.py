"""Runs inputs from outside on several processes, for as long as asked.

Workers get ranges of seeds. Each notes the seed it is at in shared memory, so that an input that ends its worker, or
does not terminate, is known, can be reproduced, and is saved.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import os
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fuzz.processes import busy_seconds, hangs

#: Seeds that a worker gets at once.
BATCH = 200
#: An input that takes longer than this hangs.
HANG_SECONDS = 30.0
#: A worker is replaced after this many batches, so that damage it leaves behind is noticed.
PER_WORKER = 500
#: Number of failures of the same cause that are saved.
PER_CAUSE = 3
#: Memory limit of a worker, in bytes.
_ADDRESS_SPACE = 6 * 2**30


@dataclass
class Batch:
    """Results of a range of seeds."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str, str]] = field(default_factory=list)


def work(pipe: Connection, target: str, at: Any) -> None:
    """Run ranges of seeds that come through a pipe until there are no more."""
    import faulthandler

    from fuzz.files import check_input, make_input

    faulthandler.enable()
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.getrlimit(resource.RLIMIT_AS)[1]))
    for seed in range(-20, 0):  # compiles and imports, which takes time and memory once
        check_input(make_input(target, seed))
    warnings.simplefilter("error")
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        if task is None:
            return
        batch = Batch()
        for seed in range(*task):
            at.value = seed
            try:
                verdict = check_input(make_input(target, seed))
            except Exception as error:  # of the fuzzer itself
                batch.failures.append((seed, f"fuzzer raises {type(error).__name__}", traceback.format_exc()))
                continue
            batch.outcomes[verdict.outcome] += 1
            if verdict.outcome == "failed":
                batch.failures.append((seed, verdict.why, verdict.detail))
        pipe.send(batch)


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    at: Any
    task: tuple[int, int] | None = None
    seen: int = -1
    since: float = 0.0
    busy: float = 0.0
    done: int = 0


class FileFuzzer:
    """Distributes seeds of one target to workers and collects their results.

    Parameters
    ----------
    target : {"files", "policies", "checkpoints", "flips"}
    minutes : float
    seed : int
        The first one.
    jobs : int
    out : Path
        Where inputs that fail are saved.
    """

    def __init__(self, target: str, *, minutes: float, seed: int, jobs: int, out: Path) -> None:
        self.target, self.minutes, self.next_seed, self.jobs, self.out = target, minutes, seed, jobs, out
        self.first_seed = seed
        self.context = multiprocessing.get_context("spawn")
        self.outcomes: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.saved: list[Path] = []
        self.seconds = 0.0

    def run(self) -> int:
        """Run until the time is over, print a summary, and return the exit code."""
        began = time.monotonic()
        workers = [self._start() for _ in range(self.jobs)]
        deadline = time.monotonic() + 60 * self.minutes
        try:
            while True:
                for i, worker in enumerate(workers):
                    if worker.task is None and worker.done >= PER_WORKER:
                        _end(worker)
                        workers[i] = worker = self._start()
                    if worker.task is None and time.monotonic() < deadline:
                        self._give(worker)
                busy = [worker for worker in workers if worker.task is not None]
                if not busy:
                    break
                wait([worker.pipe for worker in busy] + [worker.process.sentinel for worker in busy], timeout=1.0)
                for worker in busy:
                    self._collect(worker, workers)
            for worker in workers:
                _end(worker)
                if worker.process.exitcode:
                    self._fail(worker.seen, f"worker ends with exit code {worker.process.exitcode}", "")
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        finally:
            for worker in workers:
                _stop(worker)
        self.seconds = time.monotonic() - began
        return self._summary()

    def _start(self) -> _Worker:
        ours, theirs = self.context.Pipe()
        at = self.context.Value(ctypes.c_longlong, -1, lock=False)
        process = self.context.Process(target=work, args=(theirs, self.target, at), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours, at)

    def _give(self, worker: _Worker) -> None:
        worker.task = (self.next_seed, self.next_seed + BATCH)
        self.next_seed += BATCH
        worker.seen, worker.since = -1, time.monotonic()
        worker.pipe.send(worker.task)

    def _collect(self, worker: _Worker, workers: list[_Worker]) -> None:
        try:
            if worker.pipe.poll():
                batch = worker.pipe.recv()
                self.outcomes += batch.outcomes
                for failure in batch.failures:
                    self._fail(*failure)
                worker.task, worker.done = None, worker.done + 1
                return
            alive = worker.process.is_alive()
        except (EOFError, ConnectionError):
            worker.process.join(5)
            alive = False
        if worker.at.value != worker.seen:
            worker.seen, worker.since = worker.at.value, time.monotonic()
            worker.busy = busy_seconds(worker.process)
        # the first input waits for kernels
        patience = HANG_SECONDS if worker.seen >= 0 else 10 * HANG_SECONDS
        if alive and not hangs(worker.process, time.monotonic() - worker.since, worker.busy, patience):
            return
        why = f"no end within {HANG_SECONDS:g} seconds" if alive else f"crash with exit code {worker.process.exitcode}"
        _stop(worker)
        self._fail(worker.seen, why, "")
        assert worker.task is not None
        rest = worker.task[1]
        fresh = workers[workers.index(worker)] = self._start()
        if 0 <= worker.seen < rest - 1:  # go on behind it; the batch's counts up to there are lost
            fresh.task, fresh.since = (worker.seen + 1, rest), time.monotonic()
            fresh.pipe.send(fresh.task)

    def _fail(self, seed: int, why: str, detail: str) -> None:
        from fuzz.files import make_input

        self.causes[why] += 1
        if self.causes[why] > PER_CAUSE or seed < 0:
            return
        path = make_input(self.target, seed).save(self.out)
        path.with_suffix(path.suffix + ".txt").write_text(f"{why}\n{detail}\n", encoding="utf-8")
        self.saved.append(path)
        print(f"failure: {self.target} {seed}: {why}: {path}", file=sys.stderr, flush=True)

    def _summary(self) -> int:
        total, failed = sum(self.outcomes.values()), sum(self.causes.values())
        rate = total / max(self.seconds, 1e-9)
        print(
            f"{self.target:<12} {total:>10,} inputs, {self.outcomes['loaded']:>9,} loaded, "
            f"{self.outcomes['refused']:>10,} refused, {failed} failures; {rate:,.0f} per second on {self.jobs} "
            f"processes; first seed {self.first_seed}",
            flush=True,
        )
        for why, count in self.causes.most_common():
            print(f"{count:>5} x {why}")
        return 1 if failed or not total else 0

    def record(self) -> dict[str, Any]:
        """Return the counts, for JSON."""
        return {"outcomes": dict(self.outcomes), "failures": dict(self.causes), "seconds": self.seconds}


def _end(worker: _Worker) -> None:
    with contextlib.suppress(OSError):
        worker.pipe.send(None)
    worker.process.join(120)
    _stop(worker)


def _stop(worker: _Worker) -> None:
    worker.pipe.close()
    if worker.process.is_alive():
        worker.process.kill()
    worker.process.join(5)


def run_targets(
    targets: list[str], *, minutes: float, seed: int, jobs: int, out: Path, record: Path | None = None
) -> int:
    """Run targets one after the other, each for its share of the time; return the exit code."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    code, records = 0, {}
    for target in targets:
        fuzzer = FileFuzzer(target, minutes=minutes / len(targets), seed=seed, jobs=jobs, out=out)
        code = max(code, fuzzer.run())
        records[target] = fuzzer.record()
    if record is not None:
        record.write_text(json.dumps(records, indent=1), encoding="utf-8")
    return code
