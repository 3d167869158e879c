"""Units of time that are measured in the same run as a solve, so that a comparison holds on any machine.

A plain sweep over arrays is an upper bound on the speed of this machine. A solve is part Python and part compiled
kernels, whose speeds differ from machine to machine: each part has a yardstick that does the same kind of work without
using the package.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from solvent.core import jit

#: Seconds of a first call above which it is not repeated.
TOO_LONG = 10.0
#: Processor time that work ratios of one call may take in seconds, and the number of rounds that are made in any case.
MOST_SECONDS, FEWEST_ROUNDS = 5.0, 5


@numba.njit
def sweep(total: NDArray[np.float64], value: NDArray[np.float64], probability: float, repeats: int) -> None:
    """Keep the maximum of one array and a multiple of another, as the innermost loop of planning does."""
    for k in range(repeats):
        for i in range(len(total)):
            new = probability * value[i] + k
            if new > total[i]:
                total[i] = new


def plain_sweep(width: int, evaluations: int) -> Callable[[], None]:
    """Return a compiled call that makes a number of evaluations, in whole sweeps over arrays of a given width."""
    total, value = np.zeros(width), np.random.default_rng(0).random(width)
    repeats = max(1, evaluations // width)
    sweep(total, value, 0.5, 1)

    def run() -> None:
        total[:] = 0.0
        sweep(total, value, 0.5, repeats)

    return run


def generic_sweeps(sizes: Sequence[tuple[int, int]], seconds: float = 1.0) -> list[float]:
    """Return the median processor times of plain sweeps whose code uses no instructions beyond those of any processor.

    Processors with wide vectors make a plain sweep several times faster, and planning less so: this is a yardstick
    that depends less on them. It needs a process of its own, in which Numba compiles for a generic processor.

    Parameters
    ----------
    sizes : sequence of (int, int)
        Width and number of evaluations of each sweep.
    seconds : float, optional
        How long to repeat each.
    """
    command = [sys.executable, "-m", "bench.yardstick", json.dumps([list(size) for size in sizes]), str(seconds)]
    environment = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], env=environment, capture_output=True, text=True, check=True
    )
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times


def clocked(call: Callable[[], object]) -> float:
    """Return the wall time of a call, in seconds."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def cpu_time(call: Callable[[], object]) -> float:
    """Return the processor time of a call, in seconds."""
    began = time.process_time()
    call()
    return time.process_time() - began


def median_times(
    calls: Sequence[Callable[[], object]],
    seconds: float = 1.0,
    most: int = 200,
    clock: Callable[[Callable[[], object]], float] = clocked,
) -> list[float]:
    """Return the median time of each call in seconds, measured alternately so that other load affects all alike.

    Each is called once without being counted, unless that takes longer than all repeats should; then it is the only
    measurement of all.

    Parameters
    ----------
    calls : sequence of callable
    seconds : float, optional
        How long to repeat; each is called at least three times.
    most : int, optional
        Largest number of repeats.
    clock : callable, optional
        `clocked`, or `cpu_time` for calls that run on one thread: other load on the machine does not count.
    """
    first = [clock(call) for call in calls]
    if sum(first) > max(10 * seconds, TOO_LONG):
        return first
    rounds: list[list[float]] = []
    while len(rounds) < 3 or (sum(map(sum, rounds)) < seconds and len(rounds) < most):
        rounds.append([clock(call) for call in calls])
    return [statistics.median(taken) for taken in zip(*rounds, strict=True)]


def median_time(
    call: Callable[[], object],
    seconds: float = 1.0,
    most: int = 200,
    clock: Callable[[Callable[[], object]], float] = clocked,
) -> float:
    """Return the median time of a call in seconds, see `median_times`."""
    return median_times([call], seconds, most, clock)[0]


@numba.njit
def _plan(
    value: NDArray[np.float64],
    after: NDArray[np.int64],
    cost: NDArray[np.int64],
    weight: NDArray[np.float64],
    steps: int,
) -> float:
    """Return the value of plain backward induction over states and amounts: two outcomes of each of three actions."""
    n_states, width = value.shape
    for _ in range(steps):
        new = np.full((n_states, width), -np.inf)
        for s in range(n_states):
            for a in range(after.shape[1]):
                for left in range(width):
                    total = 0.0
                    for k in range(after.shape[2]):
                        rest = left - cost[s, a, k]
                        total += weight[s, a, k] * (value[after[s, a, k], rest] if rest >= 0 else -np.inf)
                    if total > new[s, left]:
                        new[s, left] = total
        value = new
    return value[0, width - 1]


def plain_kernel(states: int = 64, width: int = 32, steps: int = 8) -> Callable[[], object]:
    """Return compiled planning of a random model by plain loops: the yardstick of kernels, a fifth of a millisecond."""
    rng = np.random.default_rng(0)
    shape = (states, 3, 2)
    after, cost = rng.integers(0, states, shape), rng.integers(0, 4, shape)
    weight, value = rng.random(shape), rng.random((states, width))
    _plan(value, after, cost, weight, 1)
    return lambda: _plan(value, after, cost, weight, steps)


@dataclass(frozen=True)
class _Entry:
    amount: Fraction
    place: int

    @property
    def double(self) -> Fraction:
        return 2 * self.amount


def plain_python(repeats: int = 40) -> Callable[[], object]:
    """Return a call with fractions, dataclasses and short arrays: the yardstick of Python, a third of a millisecond."""
    short = np.arange(20)

    def run() -> object:
        found: dict[int, Fraction] = {}
        for i in range(repeats):
            entry = _Entry(Fraction(i, 7), i)
            found[i] = max(entry.double, Fraction(1))
            moved = np.where(short > i, short, i)
            found[-i] = Fraction(int(moved.max()) + int((moved == i).any()))
        return found

    return run


@contextlib.contextmanager
def kernel_clock() -> Iterator[list[float]]:
    """Collect the processor time of each call of a compiled kernel of the package."""
    taken: list[float] = []
    original = jit._Kernel.__call__

    def timed(self: Any, *arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return original(self, *arguments)
        finally:
            taken.append(time.thread_time() - began)

    jit._Kernel.__call__ = timed  # type: ignore[method-assign]
    try:
        yield taken
    finally:
        jit._Kernel.__call__ = original  # type: ignore[method-assign]


def work_ratios(call: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the processor time that a call spends in Python and in kernels, each as a multiple of its yardstick.

    All are measured alternately, and the least of each counts: disturbances can only increase it.
    """
    yardsticks = (plain_python(), plain_kernel())
    parts: list[tuple[float, float]] = []
    units: list[tuple[float, float]] = []
    with kernel_clock() as taken:
        long = cpu_time(call)
        for _ in range(min(rounds, max(FEWEST_ROUNDS, int(MOST_SECONDS / long)))):
            taken.clear()
            total = cpu_time(call)
            parts.append((total - sum(taken), sum(taken)))
            units.append((cpu_time(yardsticks[0]), cpu_time(yardsticks[1])))
    python, kernels = (min(part[i] for part in parts) / min(unit[i] for unit in units) for i in (0, 1))
    return python, kernels


if __name__ == "__main__":
    # the child of `generic_sweeps`
    print(
        json.dumps(
            [median_time(plain_sweep(*size), float(sys.argv[2]), clock=cpu_time) for size in json.loads(sys.argv[1])]
        )
    )
