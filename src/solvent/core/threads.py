"""Kernels on several threads: each processes a range of states, without Python's global lock."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

#: Ranges per thread: several, so that a thread that finishes early takes over work of the others.
_PARTS_PER_THREAD = 4
#: Greatest work of a part, about a tenth of a second: interrupts are raised between two parts.
_WORK_OF_PART = 2e7

_pool: ThreadPoolExecutor | None = None
_lock = threading.Lock()


def _available() -> int:
    """Return the number of threads: NUMBA_NUM_THREADS if it is set, else one per processor that we may use."""
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_threads = _available()
#: How many contexts `one_thread` are open, in all threads.
_singles = 0
_counting = threading.Lock()


def thread_count() -> int:
    """Return the number of threads that kernels run on."""
    return 1 if _singles else _threads


def set_thread_count(count: int) -> None:
    """Set the number of threads that kernels run on."""
    global _threads
    _threads = count


@contextmanager
def one_thread() -> Iterator[None]:
    """Let kernels run on one thread within this context; several threads may be within it at the same time."""
    global _singles
    with _counting:
        _singles += 1
    try:
        yield
    finally:
        with _counting:
            _singles -= 1


def _forget_pool() -> None:
    """Discard the pool in a forked process, which has none of its threads."""
    global _pool, _lock, _counting
    _pool, _lock, _counting = None, threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def run_by_states(kernel: Callable[[int, int], object], work_S: NDArray[np.float64]) -> None:
    """Call `kernel(begin, end)` for ranges that together cover all states, on all threads.

    Parameters
    ----------
    kernel : callable
        Must be safe to run for several ranges at the same time.
    work_S : ndarray
        Approximate work of each state, in evaluated outcomes.

    Examples
    --------
    >>> with one_thread():
    ...     run_by_states(print, np.ones(5))
    0 5
    """
    n_parts = math.ceil(float(work_S.sum()) / _WORK_OF_PART)
    threads = thread_count()  # once, as another thread may change it
    if threads < 2:
        for part in split(work_S, n_parts) if n_parts > 1 else [(0, len(work_S))]:
            kernel(*part)
        return
    parts = iter(split(work_S, max(n_parts, threads * _PARTS_PER_THREAD)))

    def work() -> None:
        while (part := next_part()) is not None:
            kernel(*part)

    taking = threading.Lock()

    def next_part() -> tuple[int, int] | None:
        with taking:
            return next(parts, None)

    pool = _executor(threads - 1)
    others = [pool.submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        with taking:
            parts = iter(())  # after an error, no further part is started
        wait(others)
    for other in others:
        other.result()


def split(work_S: NDArray[np.float64], n_parts: int) -> list[tuple[int, int]]:
    """Split states into at most `n_parts` ranges of about equal work.

    Examples
    --------
    >>> split(np.array([1.0, 1, 1, 9, 0, 0]), 2)
    [(0, 3), (3, 6)]
    """
    ends = np.cumsum(work_S)
    targets = ends[-1] * np.arange(1, n_parts) / n_parts
    cuts = np.unique(np.concatenate([[0], np.searchsorted(ends, targets), [len(work_S)]]))
    return [(int(begin), int(end)) for begin, end in pairwise(cuts)]


def _executor(workers: int) -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None or _pool._max_workers < workers:
            _pool = ThreadPoolExecutor(workers, thread_name_prefix="solvent-kernels")
        return _pool
