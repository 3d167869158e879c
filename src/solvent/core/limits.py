"""Time and memory limits: one object that is asked before each piece of work and before each allocation."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from solvent.core.interrupt import HELD, check_interrupt, is_interruptible
from solvent.core.memory import LOADING, AddressSpaceError, free_memory, hard_memory, process_memory, trim_memory
from solvent.core.preparation import PreparationClock, preparation_clock
from solvent.errors import ModelError, quote

T = TypeVar("T")

_SCALE = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SHARE_OF_FREE = 0.7
#: Nodes that are worked on between two looks at the clock.
_PIECE = 1 << 18
#: No machine evaluates more outcomes in a second than this.
_FASTEST = 4e9
#: Freed memory is given back whenever it adds up to this part of a memory limit.
_SHARE_KEPT = 8
#: Below this nobody need ask what is free.
_NO_MATTER = 64_000_000


class LimitReached(Exception):  # noqa: N818  # caught by every public function; a status, or a `LimitError`
    """The time or memory allowed is used up."""


#: What libraries raise when they can load nothing, start no thread or map no file any more.
_STARVED = (SystemError, ImportError, OSError, RuntimeError)
#: What ends a piece of work when a limit is reached: one that was set, or all the memory there is.
REACHED = (LimitReached, MemoryError)


def reason_of(error: BaseException) -> str:
    """Return which limit was reached, for a message."""
    return str(error) if isinstance(error, LimitReached) else out_of_memory(error)


def read_memory(limit: int | str | None) -> int | None:
    """Return a memory limit in bytes, or None if there is none.

    Examples
    --------
    >>> read_memory("8GB"), read_memory(1000)
    (8000000000, 1000)
    """
    if limit is None:
        return None
    if isinstance(limit, int) and not isinstance(limit, bool):
        size = float(min(max(limit, -1), 2**62))
    else:
        text = str(limit).strip().upper().replace("IB", "B")
        digits = text.rstrip("BKMGT ")
        try:
            size = float(digits) * _SCALE[text[len(digits) :].strip()]
        except (ValueError, KeyError):
            size = math.nan
    if not 1 <= size < math.inf:
        raise ModelError("memory_limit", "bytes, or text such as '8GB'", quote(limit))
    return int(size)


def read_seconds(limit: Any) -> float | None:
    """Return a time limit in seconds, or None if there is none."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | float | np.integer | np.floating) or not limit > 0:
        raise ModelError("time_limit", "a number of seconds above 0", quote(limit))
    try:
        return float(limit)
    except OverflowError:  # longer than any number of seconds
        return math.inf


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 10**6 else f"{size / 1e6:.2g} MB"


class _Alarm:
    """Raises a flag that kernels look at, once the time of a monitor is up.

    It waits in a thread of its own, which asks the monitor again when it wakes, as time in which kernels were compiled
    does not count. Where no thread can be started, only the clock between pieces of work is left.
    """

    #: No wait is longer, so that no time is too long for the system.
    _LONGEST = 3600.0

    def __init__(self, monitor: ResourceMonitor, flag: NDArray[np.bool_]) -> None:
        self._monitor, self._flag, self._canceled = weakref.ref(monitor), flag, threading.Event()
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._wait, name="solvent-clock", daemon=True).start()

    def _wait(self) -> None:
        while True:
            monitor = self._monitor()
            left = None if monitor is None else monitor.left
            if left is None:
                return
            if left <= 0:
                self._flag[0] = True
                return
            del monitor  # else waiting would keep it alive
            if self._canceled.wait(min(left, self._LONGEST)):
                return

    def cancel(self) -> None:
        self._canceled.set()


#: The flag of monitors without a clock: never raised.
_NEVER = np.zeros(1, bool)


@dataclass
class ResourceMonitor:
    """Time and memory limits of one call: how much of both is left.

    Used as a context, it stops its clock at the end and turns a `MemoryError` into `LimitReached`, and so every other
    error that comes of having no address space left.

    Attributes
    ----------
    seconds : float or None
        Time allowed in all, not counting the time in which kernels are loaded or compiled.
    bytes : int or None
        Memory allowed at any one time; most of what is free, if None.
    report : callable or None
        Told how far the work has come: (phase, done, total, facts).

    Examples
    --------
    >>> with ResourceMonitor(seconds=60, bytes=1000) as monitor:
    ...     monitor.reserve(600, "the first array")
    ...     monitor.release(600)
    ...     monitor.reserve(900, "the second array")
    >>> monitor.used, monitor.peak
    (900, 900)
    """

    seconds: float | None = None
    bytes: int | None = None
    report: Callable[[str, int, int, dict[str, Any]], None] | None = None
    began: float = field(default_factory=time.perf_counter)
    used: int = 0
    peak: int = 0
    clock: PreparationClock = field(default_factory=preparation_clock, repr=False)
    prepared: float = -1.0
    _flag: NDArray[np.bool_] | None = field(default=None, repr=False)
    _alarm: _Alarm | None = field(default=None, repr=False)
    _free: int | None = None
    _asked_at: int = -1
    _kept: int = 0

    def __post_init__(self) -> None:
        if self.prepared < 0:
            self.prepared = self.clock.seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
        if isinstance(error, MemoryError) or (isinstance(error, _STARVED) and is_starved()):
            raise LimitReached(out_of_memory(error)) from None

    def close(self) -> None:
        """Stop the clock's thread."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    @property
    def elapsed(self) -> float:
        """Seconds since the work began, without those in which kernels were loaded or compiled."""
        return time.perf_counter() - self.began - (self.clock.seconds - self.prepared)

    @property
    def left(self) -> float | None:
        """Seconds left; negative if they are used up, None if there is no limit."""
        return None if self.seconds is None else self.seconds - self.elapsed

    @property
    def watched(self) -> bool:
        """Whether there is a clock to watch, somebody to tell, or Ctrl-C to listen for."""
        return self.seconds is not None or self.report is not None or is_interruptible()

    @property
    def halt(self) -> NDArray[np.bool_]:
        """A flag for kernels, shape (1,): raised once time is up. A kernel that sees it returns at once.

        What such a kernel has written is of no use: `check_time` must follow every kernel that is given the flag.
        """
        if self.seconds is None or self.seconds == math.inf:
            return _NEVER
        if self._flag is None:
            self._flag = np.zeros(1, bool)
            self._alarm = _Alarm(self, self._flag)
        return self._flag

    def within(self, size: int | None) -> ResourceMonitor:
        """Return a monitor of the same clock for a part of the work, with a memory limit and an account of its own."""
        part = ResourceMonitor(
            self.seconds, size, self.report, self.began, clock=self.clock, prepared=self.prepared, _flag=self.halt
        )
        if self.seconds is None:
            # the clock is read all the same, so that no piece of work is long
            part.seconds = math.inf
        return part

    def pieces(self, count: int, *, always: bool = False) -> list[tuple[int, int]]:
        """Cut work on so many nodes into pieces between which the clock is read and Ctrl-C is heard.

        One piece if there is no clock, unless `always`: where work runs on several threads a piece has too few states.
        """
        size = _PIECE if always or self.seconds is not None else count
        return [(begin, min(begin + size, count)) for begin in range(0, count, max(size, 1))] or [(0, 0)]

    def check_time(self) -> None:
        """Raise `LimitReached` once time is up, or an interrupt that was held back."""
        if HELD.error is not None:
            check_interrupt()
        if self.seconds is not None and (self.elapsed > self.seconds or (self._flag is not None and self._flag[0])):
            raise LimitReached(f"the time limit of {self.seconds:g} s was reached")

    def each(self, items: Iterable[T], every: int = 256) -> Iterable[T]:
        """Return the same items; with a clock, it is read before every so many of them."""
        return items if self.seconds is None else self._timed(items, every)

    def _timed(self, items: Iterable[T], every: int) -> Iterator[T]:
        for i, item in enumerate(items):
            if i % every == 0:
                self.check_time()
            yield item

    def has_time_for(self, evaluations: float, rate: float) -> bool:
        """Whether so many evaluations, at so many a second, fit into the time that is left."""
        if self.seconds is None:
            return True
        return evaluations <= rate * max(self.seconds - self.elapsed, 0.0)

    def expect(self, evaluations: float, what: str) -> None:
        """Raise `LimitReached` if work that cannot be interrupted would surely take longer than what is left."""
        if not self.has_time_for(evaluations, _FASTEST):
            raise LimitReached(f"{what} would take longer than is left of the time limit of {self.seconds:g} s")

    def reserve(self, size: int, what: str) -> None:
        """Reserve memory before it is allocated, or raise `LimitReached`.

        Without a memory limit, or beyond what is left by a container or `ulimit -v`, free memory is the limit.
        """
        total = self.used + size
        if self.bytes is not None and total > self.bytes:
            raise LimitReached(
                f"{what} would need {_megabytes(total)}, more than the memory limit of {_megabytes(self.bytes)}"
            )
        if total > max(_NO_MATTER, 2 * self._asked_at):
            self._ask(total)
        if self._free is not None and total > self._free:
            self._ask(total)
            if self._free is not None and total > self._free:
                raise LimitReached(
                    f"{what} would need {_megabytes(total)}, more than the {_megabytes(self._free)} of free memory"
                )
        self.used = total
        self.peak = max(self.peak, self.used)

    def _ask(self, total: int) -> None:
        """Find out how much memory is free; asked again when twice as much is wanted."""
        self._asked_at = total
        free = free_memory() if self.bytes is None else hard_memory()
        self._free = None if free is None else int(_SHARE_OF_FREE * free) + self.used

    @property
    def room(self) -> int:
        """How many more bytes can be reserved, as far as is known."""
        ends = [end for end in (self.bytes, self._free) if end is not None]
        return min(ends, default=2**62) - self.used

    def release(self, size: int) -> None:
        """Release reserved memory.

        Under a memory limit, what the C library keeps of it for later is given back to the system now and then.
        """
        self.used -= size
        if self.bytes is not None:
            self._kept += size
            if self._kept > self.bytes // _SHARE_KEPT:
                self._kept = 0
                trim_memory()

    @contextlib.contextmanager
    def borrowed(self, size: int, what: str) -> Iterator[None]:
        """Reserve memory for temporary arrays and release it at the end."""
        self.reserve(size, what)
        try:
            yield
        finally:
            self.release(size)

    def tell(self, phase: str, done: int, total: int, **facts: Any) -> None:
        """Report progress, if anyone listens."""
        if self.report is not None:
            self.report(phase, done, total, facts)


def is_starved() -> bool:
    """Whether the limits of the process (`ulimit -v`) leave so little that libraries fail in whatever way they do."""
    left = process_memory()
    return left is not None and left < LOADING


def out_of_memory(error: BaseException) -> str:
    """Return what to say when memory ran out although it was reserved, or could not be."""
    if isinstance(error, AddressSpaceError):
        return str(error)
    left = process_memory()
    where = "" if left is None else f" within the limits of this process (ulimit -v), which leave {_megabytes(left)}"
    return f"memory ran out{where}"
