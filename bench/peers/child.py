"""Run one peer on one workload in a separate process, and print one line of JSON.

The first build and solve are the *cold* ones. Then both are repeated in the warm process, alternately with solves by
Solvent, so that other load on the machine affects both alike, and medians are taken. Memory is the peak after the cold
solve minus the peak after imports and building the model. The answer is checked only then, so that checking uses
neither time nor memory of the peer.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import resource
import signal
import statistics
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import solvent
from bench.peers import workloads
from bench.peers.adapters import make
from bench.peers.adapters.base import Adapter, Answer, Built
from bench.peers.workloads import Workload
from solvent.model.budget import resolve

#: Total seconds of repeated solves, unless two take longer.
SECONDS = 0.5
MOST_REPEATS = 200
#: Seconds of a call after which garbage is collected, which takes time itself.
LONG = 0.1
#: Number of solves by Solvent for each one by a peer, and the seconds after which there are no more.
OURS, OURS_SECONDS = 5, 0.05


@dataclass
class Row:
    """Measurements of one peer on one workload; times in seconds, memory in bytes.

    Attributes
    ----------
    status : {"ok", "cannot", "failed", "wrong", "time", "memory"}
        "ok" only if the answer was checked.
    note : str
        The reason for the status, or how the answer was checked.
    value : float or None
    states : int
        Number of states, nodes, points or variables that the peer worked on.
    augment, writing, build, solve : float or None
        Medians of the times of `solvent.augment`, of writing the peer's input, of the peer's own build, and of its
        solve.
    ours : float or None
        Median of the time of `solvent.solve` in the same process, measured alternately with the peer.
    cold_build, cold_solve : float or None
        Times of the first call in a new process, with all parts of the build together.
    repeats : int
    memory : int or None
        Peak beyond `base_memory`.
    base_memory : int or None
        Memory after imports and building the model.
    """

    peer: str
    workload: str
    version: str = ""
    status: str = "failed"
    note: str = ""
    value: float | None = None
    states: int = 0
    augment: float | None = None
    writing: float | None = None
    build: float | None = None
    solve: float | None = None
    ours: float | None = None
    cold_build: float | None = None
    cold_solve: float | None = None
    repeats: int = 0
    memory: int | None = None
    base_memory: int | None = None


def peak() -> int:
    """Return the peak memory of this process, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def timed(adapter: Adapter, workload: Workload) -> tuple[Built, Answer, float, float]:
    """Build and solve once; return both results and the seconds of each."""
    began = time.perf_counter()
    built = adapter.build(workload)
    halfway = time.perf_counter()
    answer = adapter.solve(built)
    return built, answer, halfway - began, time.perf_counter() - halfway


@contextlib.contextmanager
def ended_after(limit: float) -> Iterator[None]:
    """End this process by a signal if the context lasts longer than a number of seconds, whatever code is running."""
    if limit == math.inf:
        yield
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def measure(
    adapter: Adapter, workload: Workload, row: Row, seconds: float, limit: float = math.inf
) -> tuple[Built, Answer]:
    """Fill in times and memory; return the first answer.

    Parameters
    ----------
    adapter : Adapter
    workload : Workload
    row : Row
        Where measurements are written to.
    seconds : float
        How long to repeat.
    limit : float, optional
        Seconds after which the process is ended if the first build and solve take longer.
    """
    row.base_memory = peak()
    with ended_after(limit):
        built, answer, row.cold_build, row.cold_solve = timed(adapter, workload)
    row.memory = max(0, peak() - row.base_memory)
    row.value, row.states = answer.value, built.states
    builds, solves, augments, writings, ours = [], [], [], [], []
    beside = None if row.peer == "solvent" else make("solvent")
    if beside is not None:
        timed(beside, workload)
    gc.disable()
    spent = 0.0
    while spent < seconds and len(solves) < MOST_REPEATS:
        again, _, build, solve = timed(adapter, workload)
        spent += build + solve
        builds.append(build - again.augment - again.writing)
        solves.append(solve)
        augments.append(again.augment)
        writings.append(again.writing)
        del again
        ours += [solve] if beside is None else _times_of_ours(beside, workload)
        if build + solve > LONG:  # a large model may be kept alive by a reference cycle
            gc.collect()
    gc.enable()
    row.augment, row.writing = statistics.median(augments), statistics.median(writings)
    row.build, row.solve, row.repeats = statistics.median(builds), statistics.median(solves), len(solves)
    row.ours = statistics.median(ours)
    return built, answer


def _times_of_ours(solvent_adapter: Adapter, workload: Workload) -> list[float]:
    """Return the times of a few solves by Solvent."""
    taken: list[float] = []
    while len(taken) < OURS and sum(taken) < OURS_SECONDS:
        taken.append(timed(solvent_adapter, workload)[3])
    return taken


def check(adapter: Adapter, workload: Workload, answer: Answer, policy: Any, reference: float | None) -> str:
    """Return how an answer was checked.

    Raises
    ------
    AssertionError
        If its value is not the reference, or its policy exceeds the budget or has another value.
    """
    problem = workload.model if adapter.package == "solvent" else workload.problem
    allowed = adapter.tolerance * max(1.0, abs(answer.value))
    if reference is not None and not abs(answer.value - reference) <= allowed:
        raise AssertionError(f"value {answer.value!r} instead of {reference!r}")
    if policy is None:
        return "value equal to that of our verified policy"
    report = solvent.verify(problem, policy, resolve_budget(problem))
    if not abs(report.value - answer.value) <= allowed:
        raise AssertionError(f"claims {answer.value!r}, but its policy is worth {report.value!r}")
    if report.feasible:
        return "policy verified"
    if workload.epsilon is None or problem is not workload.model:
        raise AssertionError(f"its policy exceeds the budget with probability {report.violation_probability:.3g}")
    [name] = problem.resources
    limit = resolve(problem, None).upper[0][0]
    worst = report.worst_spent[name]
    assert limit is not None
    if worst > limit * (1 + workload.epsilon):
        raise AssertionError(f"its policy spends {float(worst)!r}, more than epsilon allows")
    return "policy verified, excess at most epsilon"


def resolve_budget(model: solvent.CMDP) -> Any:
    """Return the model's own budget, regardless of the limits of a policy."""
    return dict(model.budget) if model.budget is not None else None


def run(peer: str, name: str, reference: float | None, seconds: float = SECONDS, limit: float = math.inf) -> Row:
    """Measure one peer on one workload."""
    row = Row(peer, name)
    try:
        workload = workloads.find(name)
        adapter = make(peer)
        row.version = adapter.version
        _ = workload.model, workload.problem
        reason = adapter.can(workload)
        if reason is not None:
            row.status, row.note = "cannot", reason
            return row
        built, answer = measure(adapter, workload, row, seconds, limit)
    except MemoryError as error:
        row.status, row.note = "memory", str(error) or "out of memory"
        return row
    except Exception as error:
        limit = isinstance(error, solvent.LimitError)
        row.status = "memory" if limit and "memory" in str(error) else "failed"
        row.note = f"{type(error).__name__}: {error}"
        traceback.print_exc()
        return row
    try:
        if not math.isfinite(answer.value):
            raise AssertionError(f"value {answer.value!r}")
        row.note = check(adapter, workload, answer, adapter.policy(workload, built, answer), reference)
        row.status = "ok"
    except Exception as error:
        row.status, row.note = "wrong", f"{type(error).__name__}: {error}"
        traceback.print_exc()
    return row


def main() -> None:
    """Measure the peer and the workload named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer")
    parser.add_argument("workload")
    parser.add_argument("--reference", type=float)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which the process is ended")
    parser.add_argument("--memory", type=int, help="bytes of address space the process may take")
    arguments = parser.parse_args()
    if arguments.memory:
        resource.setrlimit(resource.RLIMIT_AS, (arguments.memory, arguments.memory))
    row = run(arguments.peer, arguments.workload, arguments.reference, arguments.seconds, arguments.limit)
    print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main()
