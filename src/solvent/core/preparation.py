"""Time without that spent on preparing kernels, by which time limits are kept and reported times are measured.

`core.jit` runs these clocks and `core.limits` reads them, so that limits can be used without importing Numba.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class PreparationClock:
    """A clock of one thread that stands still while the thread loads or compiles kernels, or waits for them."""

    def __init__(self) -> None:
        self._seconds, self._began, self._depth = 0.0, 0.0, 0

    @property
    def now(self) -> float:
        """The time in seconds; any thread may read it."""
        return (self._began if self._depth else time.perf_counter()) - self._seconds

    def begin(self) -> None:
        """Stop the clock; preparations may be nested."""
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1

    def end(self) -> None:
        """Let the clock go on at the end of the outermost preparation."""
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


def working_time() -> float:
    """Return the time in seconds, by the clock of this thread."""
    return _local.clock.now


@contextmanager
def preparing() -> Iterator[None]:
    """Count the time within this context as preparation."""
    clock = _local.clock
    clock.begin()
    try:
        yield
    finally:
        clock.end()
