"""Time that each thread spends on preparing kernels, which does not count towards time limits.

`core.jit` runs these clocks and `core.limits` reads them, so that limits can be used without importing Numba.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class PreparationClock:
    """Seconds that one thread has spent on loading, compiling or waiting for kernels."""

    def __init__(self) -> None:
        self._seconds, self._began, self._depth = 0.0, 0.0, 0

    @property
    def seconds(self) -> float:
        """Seconds so far, including a preparation in progress; any thread may read it."""
        return self._seconds + (time.perf_counter() - self._began if self._depth else 0.0)

    def begin(self) -> None:
        """Start the clock; preparations may be nested."""
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1

    def end(self) -> None:
        """Stop the clock at the end of the outermost preparation."""
        if self._depth == 1:
            self._seconds += time.perf_counter() - self._began
        self._depth -= 1


class _Local(threading.local):
    def __init__(self) -> None:
        self.clock = PreparationClock()


_local = _Local()


def preparation_clock() -> PreparationClock:
    """Return the clock of this thread."""
    return _local.clock


def preparation_seconds() -> float:
    """Return the seconds that this thread has spent on loading, compiling or waiting for kernels."""
    return _local.clock.seconds


@contextmanager
def preparing() -> Iterator[None]:
    """Count the time within this context as preparation."""
    clock = _local.clock
    clock.begin()
    try:
        yield
    finally:
        clock.end()
