"""What a machine can do at best: a plain sweep over arrays, to measure solves by instead of by the clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit
def sweep(total: NDArray[np.float64], value: NDArray[np.float64], probability: float, repeats: int) -> None:
    """Add a multiple of one array to another and keep the greater, as the innermost loop of planning must."""
    for k in range(repeats):
        for i in range(len(total)):
            new = probability * value[i] + k
            if new > total[i]:
                total[i] = new


def plain_sweep(width: int, evaluations: int) -> Callable[[], None]:
    """Return a call that evaluates so many outcomes (in whole sweeps) over arrays of that width; it is compiled."""
    total, value = np.zeros(width), np.random.default_rng(0).random(width)
    repeats = max(1, evaluations // width)
    sweep(total, value, 0.5, 1)

    def run() -> None:
        total[:] = 0.0
        sweep(total, value, 0.5, repeats)

    return run


def clocked(call: Callable[[], object]) -> float:
    """Return how long a call takes, in seconds."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def median_time(call: Callable[[], object], seconds: float = 1.0, most: int = 200) -> float:
    """Return the median time of a call in seconds, after one that is not counted."""
    call()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < seconds and len(times) < most):
        times.append(clocked(call))
    return statistics.median(times)


def cpu_time(call: Callable[[], object]) -> float:
    """Return how long a call keeps the processor busy, in seconds: waiting for others does not count."""
    began = time.process_time()
    call()
    return time.process_time() - began


def work_ratio(call: Callable[[], object], yardstick: Callable[[], object], rounds: int) -> float:
    """Return how many times as much processor time as a yardstick a call takes.

    Both are measured in turns, and the least of each counts: whatever disturbs them only ever adds.
    """
    call()
    yardstick()
    taken = [(cpu_time(call), cpu_time(yardstick)) for _ in range(rounds)]
    return min(mine for mine, _ in taken) / min(plain for _, plain in taken)
