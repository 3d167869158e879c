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


def median_ratio(call: Callable[[], object], yardstick: Callable[[], object], rounds: int) -> float:
    """Return the median of how many times as long as a yardstick a call takes, measured in turns.

    Both are timed right after each other, so that a busy machine slows both.
    """
    call()
    yardstick()
    ratios = []
    for _ in range(rounds):
        before, took, after = clocked(yardstick), clocked(call), clocked(yardstick)
        ratios.append(took / ((before + after) / 2))
    return statistics.median(ratios)
