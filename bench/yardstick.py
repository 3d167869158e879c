"""A plain sweep over arrays: an upper bound on the speed of this machine, as a unit of time for solves."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numba
import numpy as np
from numpy.typing import NDArray


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


def clocked(call: Callable[[], object]) -> float:
    """Return the wall time of a call, in seconds."""
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
    """Return the processor time of a call, in seconds."""
    began = time.process_time()
    call()
    return time.process_time() - began


def work_ratio(call: Callable[[], object], yardstick: Callable[[], object], rounds: int) -> float:
    """Return the processor time of a call as a multiple of a yardstick's.

    Both are measured alternately, and the least of each counts: disturbances can only increase it.
    """
    call()
    yardstick()
    taken = [(cpu_time(call), cpu_time(yardstick)) for _ in range(rounds)]
    return min(mine for mine, _ in taken) / min(plain for _, plain in taken)
