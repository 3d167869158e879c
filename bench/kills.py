"""Kill computations at random moments, start them again until they are finished, and compare their answers.

    python -m bench.kills --count 100

Each computation runs in a process of its own that is ended by SIGKILL, which no program can notice, after a random
time. The next process goes on from the checkpoint. That is repeated, with further computations, until the given number
of processes has been killed for each kind. The result is compared, byte by byte, with that of a computation that was
never killed and kept no checkpoint.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import solvent
from solvent.model import instances
from solvent.policy.writing import to_bytes

#: Share of the duration of a computation after which a process is killed at the latest.
_LATEST = 0.6
#: Seconds between two saves.
_EVERY = 0.05


def _solution(solution: solvent.Solution) -> Any:
    bounds = (solution.value, solution.value_lower, solution.value_upper)
    return (
        solution.status.value,
        bounds,
        solution.worst_spent,
        [each[:4] for each in solution.rounds],
        to_bytes(solution.policy),
    )


def _exact(**options: Any) -> Any:
    """Sweep boxes of amounts of two resources."""
    model = instances.random(60, 4, horizon=60, resources=2, cost_range=(0, 9), budget=430, seed=1)
    return _solution(solvent.solve(model, method="grid", **options))


def _layers(**options: Any) -> Any:
    """Expand layers of nodes forward, and compute values backward."""
    model = instances.random(30, 3, horizon=14, resources=2, cost_range=(0, 50), budget=520, seed=2)
    return _solution(solvent.solve(model, method="reduction", **options))


def _gap(**options: Any) -> Any:
    """Close a gap in rounds, with real costs of two resources."""
    model = instances.random(20, 3, horizon=30, resources=2, cost_range=(0, 9), real_costs=True, budget=190, seed=3)
    return _solution(solvent.solve(model, gap=0.000003, **options))


def _curve(**options: Any) -> Any:
    """Compute the values of all budgets of one resource."""
    model = instances.random(60, 4, horizon=60, cost_range=(0, 400), branching=4, seed=4, budget=1)
    curve = solvent.frontier(model, **options)
    return curve.budgets, curve.values.tobytes(), curve.error


def _surface(**options: Any) -> Any:
    """Compute the values of all budgets of two resources."""
    model = instances.random(60, 4, horizon=90, resources=2, cost_range=(0, 9), budget=1, seed=1)
    surface = solvent.frontier(model, ["r0", "r1"], **options)
    return surface.table.tobytes(), surface.error, surface.budgets


KINDS: dict[str, Callable[..., Any]] = {
    "exact": _exact, "layers": _layers, "gap": _gap, "curve": _curve, "surface": _surface,
}  # fmt: skip


@dataclass
class Tally:
    """What happened to the computations of one kind.

    Attributes
    ----------
    kind : str
    seconds : float
        Duration of a computation without a checkpoint.
    kills, resumes, finished : int
        Processes that were killed, those that found a checkpoint, and computations that were finished.
    worked : float
        Seconds of all processes.
    same : bool
        Whether all results were the expected one.
    """

    kind: str
    seconds: float
    kills: int = 0
    resumes: int = 0
    finished: int = 0
    worked: float = 0.0
    same: bool = True

    def row(self) -> str:
        """Return a row of the table."""
        again = self.worked / self.seconds - self.finished
        cells = (
            self.kind, f"{self.seconds:.1f} s", self.kills, self.resumes, self.finished,
            f"{again / max(self.kills, 1):.2f}", "yes" if self.same else "NO",
        )  # fmt: skip
        return "| " + " | ".join(map(str, cells)) + " |"


HEAD = (
    "| computation | duration | kills | resumes | finished | work repeated per kill, in durations | all equal |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)


def _start(compute: Callable[..., Any], result: Path, **options: Any) -> int:
    """Start a process that computes and writes its result; return its id."""
    process = os.fork()
    if process:
        return process
    try:
        content = pickle.dumps(compute(**options))
        temporary = result.with_suffix(".part")
        temporary.write_bytes(content)
        temporary.rename(result)
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def _run(compute: Callable[..., Any], result: Path, **options: Any) -> float:
    """Compute in a process that is not killed; return its duration."""
    began = time.perf_counter()
    _, status = os.waitpid(_start(compute, result, **options), 0)
    if status:
        raise SystemExit(f"a computation ended with status {status}")
    return time.perf_counter() - began


def run(kind: str, count: int, rng: Random, folder: Path) -> Tally:
    """Kill processes of one kind until `count` of them were."""
    compute, result, path = KINDS[kind], folder / "result", folder / "run.ckpt"
    _run(compute, result)  # so that kernels are compiled
    seconds = _run(compute, result)
    expected = result.read_bytes()
    tally = Tally(kind, seconds)
    while tally.kills < count:
        shutil.rmtree(path, ignore_errors=True)
        result.unlink()
        while not result.exists():
            tally.resumes += path.exists()
            began = time.perf_counter()
            process = _start(compute, result, checkpoint=path, checkpoint_every=_EVERY)
            time.sleep(rng.uniform(0, _LATEST * seconds))
            ended, status = os.waitpid(process, os.WNOHANG)
            if not ended:
                os.kill(process, signal.SIGKILL)
                _, status = os.waitpid(process, 0)
                tally.kills += os.WIFSIGNALED(status)
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                tally.same = False  # refused its own checkpoint, for example
                return tally
            tally.worked += time.perf_counter() - began
        tally.finished += 1
        tally.same &= result.read_bytes() == expected
    return tally


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="number of kills of each kind")
    parser.add_argument("--kind", choices=list(KINDS), action="append", help="only this kind; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(HEAD)
    same = True
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kind or KINDS:
            tally = run(kind, options.count, Random(f"{options.seed}-{kind}"), Path(folder))
            print(tally.row(), flush=True)
            same &= tally.same
            shutil.rmtree(Path(folder) / "run.ckpt", ignore_errors=True)
    raise SystemExit(not same)


if __name__ == "__main__":
    main()
