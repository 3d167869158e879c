"""The fuzzer: random problems for a given time, on several processes.

A worker that crashes, aborts or hangs is a failure of the problem it was at: the problem is run once more by itself and
reported, and another worker takes its place. Workers note each call in a file before they make it, so that the report
has the call that did not return.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

from fuzz.file_runner import run_targets
from fuzz.generate import KINDS, WEIGHTS, generate
from fuzz.ledger import Doing, Failure, Found, Run, Watch
from fuzz.problems import Problem
from fuzz.processes import busy_seconds, hangs
from fuzz.script import script

#: Targets besides problems: untrusted files (`fuzz.files`), and their share of the time.
TARGETS = ("files", "policies", "checkpoints", "flips")
_FILES_SHARE = 0.2
#: A problem that takes longer than this hangs.
HANG_SECONDS = 120.0
#: A worker has this long to end when it is told to.
END_SECONDS = 120.0
#: A worker is replaced after this many problems: one that damaged its memory often fails only when it ends.
PER_WORKER = 60
#: A crash has this long to happen again.
REPRODUCE_SECONDS = 60.0
#: A worker may take this long to shrink a failure.
SHRINK_SECONDS = 15.0
#: Number of failures of the same comparison that are shrunk and written,
PER_CHECK = 3
#: and of one problem.
PER_PROBLEM = 2


@dataclass(frozen=True)
class Settings:
    """Options of workers; sent to each when it starts.

    Attributes
    ----------
    slack : Fraction
        Rounding forgiven in bounds.
    environment : dict of str to str
        Environment variables to set.
    shrink_seconds : float
        How long to shrink a failure.
    notes : str
        A file of the worker's own, which holds the call that it is making; empty for none.
    """

    slack: Fraction
    environment: dict[str, str]
    shrink_seconds: float = SHRINK_SECONDS
    notes: str = ""


@dataclass
class Result:
    """Result of one problem."""

    seed: int
    kind: str
    compared: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    failures: list[Found] = field(default_factory=list)
    seconds: float = 0.0
    answered: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)


def work(pipe: Connection, settings: Settings) -> None:
    """Run problems that come through a pipe until there are no more."""
    os.environ.update(settings.environment)
    import faulthandler

    faulthandler.enable()
    known: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        watch = stack.enter_context(noting(Path(settings.notes))) if settings.notes else None
        while True:
            try:
                task = pipe.recv()
            except EOFError:  # the run was interrupted
                return
            if task is None:  # the exit code tells whether memory is sound
                return
            seed, kind = task
            pipe.send(run_problem(seed, kind, settings, known, watch))


@contextlib.contextmanager
def noting(path: Path) -> Iterator[Watch]:
    """Open a file for notes and return the function that replaces what it holds."""
    with path.open("wb", buffering=0) as file:

        def note(doing: Doing) -> None:
            text = pickle.dumps(doing)
            # one write, so that a note is never half there
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            file.write(len(text).to_bytes(8) + text)

        yield note


def noted(path: Path) -> Doing:
    """Return the call that is noted in a file; none if nothing was written."""
    if not path.exists():
        return Doing()
    content = path.read_bytes()
    size = int.from_bytes(content[:8])
    if not content or len(content) < 8 + size:
        return Doing()
    doing = pickle.loads(content[8 : 8 + size])
    assert isinstance(doing, Doing)
    return doing


def run_problem(seed: int, kind: str, settings: Settings, known: Counter[str], watch: Watch | None = None) -> Result:
    """Generate and check one problem, and shrink it if it is among the first to fail.

    Parameters
    ----------
    seed : int
    kind : str
    settings : Settings
    known : Counter of str
        How often each comparison has failed so far; updated.
    watch : callable, optional
        Told of each call when it begins and when it ends.
    """
    from fuzz.checks import check_problem
    from fuzz.shrink import shrink

    began = time.monotonic()
    problem = generate(seed, kind)
    try:
        ledger = check_problem(problem, seed, settings.slack, watch=watch)
    except Exception as error:
        return Result(seed, kind, failures=[Found(_fuzzer_raises(error), problem, seed, kind)])
    result = Result(seed, kind, ledger.compared, ledger.skipped, seconds=time.monotonic() - began)
    result.answered, result.refused = ledger.answered, ledger.refused
    first: dict[str, list[Failure]] = {}
    for failure in ledger.failures:
        first.setdefault(failure.check, []).append(failure)
    until = time.monotonic() + settings.shrink_seconds
    for check, failures in list(first.items()):
        known[check] += 1
        failure = failures[0]
        labels = tuple(dict.fromkeys(each.run.label for each in failures))
        found = Found(failure, problem, seed, kind, labels=labels)
        left = until - time.monotonic()
        if known[check] <= PER_CHECK and len(result.failures) < PER_PROBLEM and left > 0:

            def again(candidate: Problem, failure: Failure = failure) -> Failure | None:
                told = None if watch is None else _watch_candidate(watch, candidate)
                try:
                    later = check_problem(candidate, seed, settings.slack, failure.run, told).failures
                except Exception as error:  # such as a candidate that cannot be built: not the same failure
                    later = [_fuzzer_raises(error)]
                return next((each for each in later if each.signature == failure.signature), None)

            small = shrink(problem, lambda candidate: again(candidate) is not None, left)
            if small != problem:
                found = replace(found, failure=again(small) or failure, problem=small, shrunk=True)
        result.failures.append(found)
    return result


def _fuzzer_raises(error: Exception) -> Failure:
    """Return an error of the fuzzer itself as a failure, so that it is not taken for a crash of a solver."""
    text = "".join(traceback.format_exception(error))
    return Failure(f"fuzzer raises {type(error).__name__}", Run("any", "all"), "no exception", str(error), text)


def _watch_candidate(watch: Watch, candidate: Problem) -> Watch:
    """Return a watch for a problem that is not the generated one."""

    def told(doing: Doing) -> None:
        watch(doing if doing.run is None or doing.problem is not None else replace(doing, problem=candidate))

    return told


@dataclass
class Worker:
    """A process, its pipe, and its current task."""

    process: BaseProcess
    pipe: Connection
    notes: Path
    task: tuple[int, str] | None = None
    since: float = 0.0
    busy: float = 0.0
    done: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class Tally:
    """Everything a run has found."""

    problems: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    compared: Counter[str] = field(default_factory=Counter)
    by_kind: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    labels: dict[str, Counter[str]] = field(default_factory=dict)
    first_seen: dict[str, tuple[float, str, int]] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)
    answered: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)


class Fuzzer:
    """Distributes problems to workers and collects their results."""

    def __init__(
        self, options: argparse.Namespace, settings: Settings, target: Callable[[Connection, Settings], None] = work
    ) -> None:
        self.options, self.settings, self.target = options, settings, target
        self.context = multiprocessing.get_context("spawn")
        self.tally, self.began = Tally(), time.monotonic()
        self.next_seed = options.seed
        self.started = 0
        self.out = Path(options.out)
        self.terminal = sys.stderr.isatty()

    def run(self) -> int:
        """Run until the time is over; return the exit code."""
        with tempfile.TemporaryDirectory(prefix="solvent-fuzz-") as folder:
            self.folder = Path(folder)
            self._run()
        return self._summary()

    def _run(self) -> None:
        workers = [self._start() for _ in range(self.options.jobs)]
        deadline = time.monotonic() + 60 * self.options.minutes
        try:
            while True:
                for i, worker in enumerate(workers):
                    if worker.task is None and len(worker.done) >= PER_WORKER:
                        self._dismiss(worker)
                        workers[i] = worker = self._start()
                    if worker.task is None and time.monotonic() < deadline:
                        self._give(worker)
                busy = [worker for worker in workers if worker.task is not None]
                if not busy:
                    break
                wait([worker.pipe for worker in busy] + [worker.process.sentinel for worker in busy], timeout=1.0)
                for worker in busy:
                    self._collect(worker, workers)
                self._progress()
            for worker in workers:
                self._dismiss(worker)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        finally:
            for worker in workers:
                _stop(worker)

    def _start(self) -> Worker:
        ours, theirs = self.context.Pipe()
        self.started += 1
        notes = self.folder / f"worker-{self.started}"
        settings = replace(self.settings, notes=str(notes))
        process = self.context.Process(target=self.target, args=(theirs, settings), daemon=True)
        process.start()
        theirs.close()
        return Worker(process, ours, notes)

    def _give(self, worker: Worker) -> None:
        seed, self.next_seed = self.next_seed, self.next_seed + 1
        worker.task, worker.since = (seed, self._kind(seed)), time.monotonic()
        worker.busy = busy_seconds(worker.process)
        worker.pipe.send(worker.task)

    def _kind(self, seed: int) -> str:
        """Return the kind of a problem; the first ones go through all kinds."""
        kinds: list[str] = self.options.kinds
        index: int = seed - self.options.seed
        if index < len(kinds):
            return kinds[index]
        return Random(f"kind-{seed}").choices(kinds, weights=[WEIGHTS[kind] for kind in kinds])[0]

    def _collect(self, worker: Worker, workers: list[Worker]) -> None:
        task = worker.task
        assert task is not None
        try:
            if worker.pipe.poll():
                self._count(worker.pipe.recv())
                worker.done.append(task)
                worker.task = None
                return
            alive = worker.process.is_alive()
        except (EOFError, ConnectionError):
            worker.process.join(5)
            alive = False
        took = time.monotonic() - worker.since
        limit = HANG_SECONDS + self.settings.shrink_seconds
        if alive and not hangs(worker.process, took, worker.busy, limit):
            return
        how = f"no answer within {took:.0f} seconds" if alive else f"exit code {worker.process.exitcode}"
        _stop(worker)
        workers[workers.index(worker)] = self._start()
        self._lost(task, "hang" if alive else "crash", how, noted(worker.notes))

    def _dismiss(self, worker: Worker) -> None:
        """End a worker normally; if that fails, its memory was damaged, and its problems are run one by one."""
        code = _end(worker)
        if code == 0 or not worker.done:
            return
        until = time.monotonic() + REPRODUCE_SECONDS
        guilty = None
        for task in worker.done:
            if time.monotonic() > until:
                break
            alone = self._start()
            alone.pipe.send(task)
            try:
                alone.pipe.recv()
            except (EOFError, ConnectionError):
                alone.process.join(5)
            if _end(alone) != 0:
                guilty = task
                break
        which = f"problems {', '.join(f'{kind} {seed}' for seed, kind in worker.done)}"
        seed, kind = guilty or worker.done[-1]
        note = "this problem alone does the same" if guilty else f"one or more of {which}"
        failure = Failure("worker exit", Run("any", "all"), "exit code 0", f"exit code {code}; {note}")
        self._count(Result(seed, kind, failures=[Found(failure, generate(seed, kind), seed, kind, labels=("exit",))]))

    def _lost(self, task: tuple[int, str], check: str, how: str, doing: Doing) -> None:
        """Report a problem that ended its worker; after a crash, run it once more alone."""
        if check == "hang":
            self._report(task, "worker hang", how, doing)
            return
        again = self._start()
        again.pipe.send(task)
        answered = False
        if again.pipe.poll(self.settings.shrink_seconds + REPRODUCE_SECONDS):
            try:
                again.pipe.recv()
                answered = True
            except (EOFError, ConnectionError):
                again.process.join(5)
        _stop(again)
        if not answered:
            repeated = noted(again.notes)
            doing = doing if repeated.run is None else repeated
        note = "it did not happen again in a fresh process" if answered else "it happened again in a fresh process"
        self._report(task, "worker crash", f"{how}; {note}", doing)

    def _report(self, task: tuple[int, str], check: str, how: str, doing: Doing) -> None:
        """Count a problem whose call did not return."""
        seed, kind = task
        run = doing.run or Run("any", "all")
        if doing.run is None:
            how += "; not during a call"
        elif doing.problem is not None:
            how += "; the problem was made from the generated one"
        failure = Failure(check, run, "an answer", how, comparison=doing.comparison)
        problem = generate(seed, kind) if doing.problem is None else doing.problem
        self._count(Result(seed, kind, failures=[Found(failure, problem, seed, kind, labels=(run.label,))]))

    def _count(self, result: Result) -> None:
        tally = self.tally
        tally.problems[result.kind] += 1
        tally.seconds[result.kind] += result.seconds
        tally.by_kind[result.kind] += sum(result.compared.values())
        tally.compared += result.compared
        tally.skipped += result.skipped
        tally.answered += result.answered
        tally.refused += result.refused
        if result.failures:
            tally.failed[result.kind] += 1
        for i, found in enumerate(result.failures):
            check = found.failure.check
            found = replace(found, seconds=time.monotonic() - self.began)
            tally.checks[check] += 1
            tally.labels.setdefault(check, Counter()).update(found.labels)
            tally.first_seen.setdefault(check, (found.seconds, found.kind, found.seed))
            if tally.checks[check] <= PER_CHECK and i < PER_PROBLEM:
                self._write(found)

    def _write(self, found: Found) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        name = "".join(c if c.isalnum() else "-" for c in found.failure.signature).strip("-")[:80]
        path = self.out / f"{name}-{found.kind}-{found.seed}.py"
        heap = {key: os.environ[key] for key in ("LD_PRELOAD", "MALLOC_CHECK_") if key in os.environ}
        path.write_text(script(found, heap | self.settings.environment), encoding="utf-8")
        self.tally.written.append(path)
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr)
        print(f"failure after {found.seconds:.0f} s: {found.failure.signature}: {path}", file=sys.stderr, flush=True)

    def _progress(self) -> None:
        if self.terminal:
            elapsed, tally = time.monotonic() - self.began, self.tally
            print(
                f"\r{elapsed / 60:5.1f} of {self.options.minutes:g} min, {sum(tally.problems.values()):,} problems, "
                f"{sum(tally.compared.values()):,} comparisons, {sum(tally.failed.values())} failures",
                end="", file=sys.stderr, flush=True,
            )  # fmt: skip

    def _summary(self) -> int:
        tally = self.tally
        if self.terminal:
            print(file=sys.stderr)
        print(f"{'kind':<15} {'problems':>9} {'comparisons':>12} {'seconds':>9} {'failures':>9}")
        for kind in self.options.kinds:
            print(
                f"{kind:<15} {tally.problems[kind]:>9,} {tally.by_kind[kind]:>12,} {tally.seconds[kind]:>9.1f} "
                f"{tally.failed[kind]:>9,}"
            )
        problems, compared = sum(tally.problems.values()), sum(tally.compared.values())
        failed = sum(tally.failed.values())
        total = sum(tally.seconds.values())
        print(f"{'all':<15} {problems:>9,} {compared:>12,} {total:>9.1f} {failed:>9,}")
        for reason, count in tally.skipped.most_common():
            print(f"skipped: {reason}: {count:,}")
        for call, feature in sorted(tally.refused):
            answered, refused = tally.answered[call, feature], tally.refused[call, feature]
            print(f"refused: {call}: {refused:,} problems with the feature {feature}; {answered:,} answered")
        for check, (seconds, kind, seed) in sorted(tally.first_seen.items(), key=lambda item: item[1]):
            labels = ", ".join(f"{label} ({count})" for label, count in tally.labels[check].most_common(4))
            print(f"{tally.checks[check]:>5} x {check}; first after {seconds:.0f} s, {kind}, seed {seed}; {labels}")
        idle = [kind for kind in self.options.kinds if tally.problems[kind] and not tally.by_kind[kind]]
        if idle or not compared:
            print(f"nothing was compared for: {', '.join(idle) or 'any kind'}")
        print(f"{failed} failures in {problems:,} problems, {compared:,} comparisons, first seed {self.options.seed}")
        if self.options.json:
            Path(self.options.json).write_text(json.dumps(self._record(), indent=1), encoding="utf-8")
        return 1 if failed or idle or not compared else 0

    def _record(self) -> dict[str, Any]:
        tally = self.tally
        return {
            "seed": self.options.seed,
            "problems": dict(tally.problems),
            "compared": dict(tally.compared),
            "skipped": dict(tally.skipped),
            "first_seen": {key: list(value) for key, value in tally.first_seen.items()},
            "failures": dict(tally.checks),
        }


def _end(worker: Worker) -> int:
    """Let a worker finish and return its exit code."""
    with contextlib.suppress(OSError):  # it is gone already, and its exit code tells why
        worker.pipe.send(None)
    worker.process.join(END_SECONDS)
    _stop(worker)
    return worker.process.exitcode or 0


def _stop(worker: Worker) -> None:
    worker.pipe.close()
    if worker.process.is_alive():
        worker.process.kill()
    worker.process.join(5)


def _check_heap() -> None:
    """Enable the C library's heap checks in workers, if available: they then abort soon after a stray write."""
    library = "libc_malloc_debug.so.0"
    try:
        ctypes.CDLL(library)
    except OSError:
        return
    os.environ.update({"LD_PRELOAD": library, "MALLOC_CHECK_": "3"})


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer from the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description="Differential fuzzing of every solver, and hostile files."
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="duration in minutes (default: 10)")
    parser.add_argument("--seed", type=int, default=None, help="first seed (default: random)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    parser.add_argument(
        "--target",
        choices=["all", "problems", *TARGETS],
        default="all",
        help="solvers on problems, untrusted files, or all, with a fifth of the time for files (default)",
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="kinds of problems")
    parser.add_argument("--out", default="out/fuzz", help="directory for failures, as scripts (default: out/fuzz)")
    parser.add_argument("--slack", default="0", help="relative rounding error allowed in bounds (default: 0)")
    parser.add_argument("--boundscheck", action="store_true", help="check array bounds in compiled code; slow to start")
    parser.add_argument("--no-shrink", action="store_true", help="report problems as they were generated")
    parser.add_argument("--json", default=None, help="write counts to this file")
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = SystemRandom().randrange(10**9)
    # two threads even on busy machines, so that parallel kernels run as such
    environment = {"NUMBA_NUM_THREADS": "2"}
    if options.boundscheck:
        environment["NUMBA_BOUNDSCHECK"] = "1"
    code, out = 0, Path(options.out)
    if options.target != "problems":
        share, targets = (_FILES_SHARE, list(TARGETS)) if options.target == "all" else (1.0, [options.target])
        alone = options.target != "all"
        record = Path(options.json) if options.json and alone else None
        minutes = share * options.minutes
        code = run_targets(targets, minutes=minutes, seed=options.seed, jobs=options.jobs, out=out, record=record)
        if alone:
            return code
        options.minutes -= minutes
    _check_heap()
    settings = Settings(Fraction(options.slack), environment, 0.0 if options.no_shrink else SHRINK_SECONDS)
    return max(code, Fuzzer(options, settings).run())
