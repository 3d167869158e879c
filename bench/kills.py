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

#: Share of the duration of a computation, and seconds, after which a process is killed at the latest.
_LATEST, _LEAST = 1.1, 0.5
#: Seconds between two saves.
_EVERY = 0.05


def _solution(solution: solvent.Solution) -> Any:
    bounds = (solution.value, solution.value_lower, solution.value_upper)
    rounds = [each[:4] for each in solution.rounds]
    return solution.status.value, bounds, solution.worst_spent, rounds, to_bytes(solution.policy)


def _exact(n: int, horizon: int) -> Callable[..., Any]:
    """Return a solve by boxes of amounts of two resources."""
    model = instances.random(n, 4, horizon=horizon, resources=2, cost_range=(0, 9), budget=43 * horizon // 6, seed=1)
    return lambda **options: _solution(solvent.solve(model, method="grid", **options))


def _layers(cost: int, horizon: int) -> Callable[..., Any]:
    """Return a solve by layers of nodes."""
    budget = cost * horizon * 3 // 4
    model = instances.random(30, 3, horizon=horizon, resources=2, cost_range=(0, cost), budget=budget, seed=2)
    return lambda **options: _solution(solvent.solve(model, method="reduction", **options))


def _gap(horizon: int, gap: float) -> Callable[..., Any]:
    """Return a solve that closes a gap in rounds, with real costs of two resources."""
    given = {"horizon": horizon, "resources": 2, "cost_range": (0, 9), "budget": 19 * horizon // 3}
    model = instances.random(20, 3, **given, real_costs=True, seed=3)
    return lambda **options: _solution(solvent.solve(model, gap=gap, **options))


def _curve(n: int, horizon: int) -> Callable[..., Any]:
    """Return a computation of the values of all budgets of one resource."""
    model = instances.random(n, 4, horizon=horizon, cost_range=(0, 400), branching=4, seed=4, budget=1)

    def compute(**options: Any) -> Any:
        curve = solvent.frontier(model, **options)
        return curve.budgets, curve.values.tobytes(), curve.error

    return compute


def _surface(n: int, horizon: int) -> Callable[..., Any]:
    """Return a computation of the values of all budgets of two resources."""
    model = instances.random(n, 4, horizon=horizon, resources=2, cost_range=(0, 9), budget=1, seed=1)

    def compute(**options: Any) -> Any:
        surface = solvent.frontier(model, ["r0", "r1"], **options)
        return surface.table.tobytes(), surface.error, surface.budgets

    return compute


#: Computations of several seconds, and of a fraction of a second.
KINDS: dict[str, Callable[[], Callable[..., Any]]] = {
    "exact": lambda: _exact(60, 60),
    "layers": lambda: _layers(50, 14),
    "gap": lambda: _gap(30, 3e-6),
    "curve": lambda: _curve(60, 60),
    "surface": lambda: _surface(60, 90),
}
SMALL: dict[str, Callable[[], Callable[..., Any]]] = {
    "exact": lambda: _exact(40, 40),
    "layers": lambda: _layers(30, 12),
    "gap": lambda: _gap(20, 1e-3),
    "curve": lambda: _curve(40, 30),
    "surface": lambda: _surface(60, 50),
}


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


def run(kind: str, compute: Callable[..., Any], count: int, rng: Random, folder: Path) -> Tally:
    """Kill processes that compute until `count` of them were."""
    result, path = folder / "result", folder / "run.ckpt"
    expected = pickle.dumps(compute())  # kernels are now compiled, also in all processes that are forked
    began = time.perf_counter()
    compute()
    tally = Tally(kind, time.perf_counter() - began)
    while tally.kills < count:
        shutil.rmtree(path, ignore_errors=True)
        result.unlink(missing_ok=True)
        while not result.exists():
            tally.resumes += path.exists()
            began = time.perf_counter()
            process = _start(compute, result, checkpoint=path, checkpoint_every=_EVERY)
            time.sleep(rng.uniform(0, max(_LATEST * tally.seconds, _LEAST)))
            ended, status = os.waitpid(process, os.WNOHANG)
            if not ended:
                os.kill(process, signal.SIGKILL)
                _, status = os.waitpid(process, 0)
                tally.kills += os.WIFSIGNALED(status)
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                tally.same = False  # it refused its own checkpoint, for example
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
    parser.add_argument("--small", action="store_true", help="computations of a fraction of a second")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(HEAD)
    same = True
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kind or KINDS:
            compute = (SMALL if options.small else KINDS)[kind]()
            tally = run(kind, compute, options.count, Random(f"{options.seed}-{kind}"), Path(folder))
            print(tally.row(), flush=True)
            same &= tally.same
            shutil.rmtree(Path(folder) / "run.ckpt", ignore_errors=True)
    raise SystemExit(not same)


if __name__ == "__main__":
    main()
