"""Time and memory limits: one object that is asked before each piece of work and before each allocation.

Time in which kernels are loaded or compiled does not count.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from solvent.core.checkpoint import Checkpoint, Section
from solvent.core.interrupt import HELD, check_interrupt, held_back, is_interruptible
from solvent.core.logs import get_logger
from solvent.core.memory import LOADING, free_memory, hard_memory, process_memory, trim_memory
from solvent.core.preparation import PreparationClock, preparation_clock, working_time
from solvent.core.progress import NO_PROGRESS, NoProgress, ProgressSink
from solvent.errors import AddressSpaceError, ModelError, quote

T = TypeVar("T")

_logger = get_logger(__name__)

#: A size in bytes, as text.
_SIZE = re.compile(r"\s*(?P<number>[\d.]+(e\+?\d+)?)\s*((?P<prefix>[kmgt])(?P<binary>i)?)?b?\s*", re.IGNORECASE)
#: Share of the free memory that may be reserved.
_SHARE_OF_FREE = 0.7
#: Nodes that are processed between two readings of the clock.
_PIECE = 1 << 18
#: More outcomes than any machine evaluates in a second.
_FASTEST = 4e9
#: Freed memory is returned to the system whenever it adds up to the memory limit divided by this.
_SHARE_KEPT = 8
#: Bytes that can be reserved without asking how much memory is free.
_ALWAYS_FREE = 64_000_000


class LimitReached(Exception):  # noqa: N818  # caught by every public function; a status, or a `LimitError`
    """The allowed time or memory is used up."""


#: What libraries raise when there is no address space left to load a module, start a thread or map a file.
_STARVED = (SystemError, ImportError, OSError, RuntimeError)
#: What ends a computation when a limit is reached: one that was set, or all memory.
REACHED = (LimitReached, MemoryError)


def reason_of(error: BaseException) -> str:
    """Return the limit that was reached, for a message."""
    return str(error) if isinstance(error, LimitReached) else out_of_memory(error)


def read_memory(limit: int | str | None) -> int | None:
    """Return a memory limit in bytes, or None if there is none.

    Text is a number and a unit: "8GB", "8 GB" and "8G" are 8 * 1000**3 bytes, "8GiB" is 8 * 1024**3.

    Examples
    --------
    >>> read_memory("8GB"), read_memory("512M"), read_memory("1KiB"), read_memory(1000)
    (8000000000, 512000000, 1024, 1000)
    """
    if limit is None:
        return None
    if isinstance(limit, int) and not isinstance(limit, bool):
        size = float(min(max(limit, -1), 2**62))
    else:
        size = _read_size(str(limit))
    if not 1 <= size < math.inf:
        raise ModelError("memory_limit", "bytes, or text such as '8GB'", quote(limit))
    return int(size)


def _read_size(text: str) -> float:
    """Return the number of bytes that a text states; NaN if it does not."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return math.nan
    try:
        number = float(found["number"])
    except ValueError:  # more than one point
        return math.nan
    power = " kmgt".index((found["prefix"] or " ").lower())
    return number * float((1024 if found["binary"] else 1000) ** power)


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
    """Raises a flag that kernels read when the time of a monitor is up.

    It waits in its own thread, which asks the monitor again when it wakes up, because time in which kernels were
    compiled does not count. If no thread can be started, the clock is only read between pieces of work.
    """

    #: Longest wait in seconds; systems limit how long a wait may be.
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
            del monitor  # waiting must not keep it alive
            if self._canceled.wait(min(left, self._LONGEST)):
                return

    def cancel(self) -> None:
        self._canceled.set()


#: The flag of monitors without a time limit: never raised.
_NEVER = np.zeros(1, bool)


@dataclass
class ResourceMonitor:
    """Time and memory limits of one call, and how much of each is left.

    As a context, it stops its clock at the end, and turns a `MemoryError`, or any other error caused by a lack of
    address space, into `LimitReached`.

    Attributes
    ----------
    seconds : float or None
        Time limit, without the time in which kernels are loaded or compiled.
    bytes : int or None
        Memory limit at any one time; if None, most of the free memory.
    sink : ProgressSink
        Receives the reports of `tell`.
    began : float
        When the computation began, by `clock.now`.
    used, peak : int
        Bytes that are reserved now, and the most that were.
    checkpoint : Checkpoint or None
        Where finished parts of the work are saved.

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
    sink: ProgressSink = NO_PROGRESS
    began: float = field(default_factory=working_time)
    used: int = 0
    peak: int = 0
    clock: PreparationClock = field(default_factory=preparation_clock, repr=False)
    checkpoint: Checkpoint | None = field(default=None, repr=False)
    _asked: float | None = None
    _longest: float = 0.0
    _flag: NDArray[np.bool_] | None = field(default=None, repr=False)
    _alarm: _Alarm | None = field(default=None, repr=False)
    _free: int | None = None
    _asked_at: int = -1
    _kept: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
        if isinstance(error, MemoryError) or (isinstance(error, _STARVED) and is_starved()):
            reached = LimitReached(out_of_memory(error))
            _logger.info("limit reached: %s", reached)
            raise reached from None
        if isinstance(error, LimitReached):
            _logger.info("limit reached: %s", error)

    def close(self) -> None:
        """Stop the clock's thread."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    @property
    def elapsed(self) -> float:
        """Seconds since the computation began, without those in which kernels were loaded or compiled."""
        return self.clock.now - self.began

    @property
    def left(self) -> float | None:
        """Seconds that are left; negative if the time is up, None if there is no time limit."""
        return None if self.seconds is None else self.seconds - self.elapsed

    @property
    def watched(self) -> bool:
        """Whether work must be cut into pieces: for a time limit, reports of progress, or Ctrl-C."""
        return self.seconds is not None or not isinstance(self.sink, NoProgress) or is_interruptible()

    @property
    def halt(self) -> NDArray[np.bool_]:
        """A flag for kernels, shape (1,), raised when the time is up. A kernel that sees it raised returns at once.

        The output of such a kernel is incomplete: call `check_time` after every kernel that takes the flag.
        """
        if self._flag is None:
            if self.seconds is None or self.seconds == math.inf:
                return _NEVER
            self._flag = np.zeros(1, bool)
            self._alarm = _Alarm(self, self._flag)
        return self._flag

    def new_flag(self) -> NDArray[np.bool_]:
        """Return a flag for parts of the work in other threads: that of `halt` or, without a time limit, a new one.

        Raise it to end these parts, for example on Ctrl-C, of which only the main thread learns.
        """
        return np.zeros(1, bool) if self.halt is _NEVER else self.halt

    def within(self, size: int | None, flag: NDArray[np.bool_] | None = None) -> ResourceMonitor:
        """Return a monitor with the same clock and sink for a part of the work, with its own memory limit (bytes).

        The part ends when `flag`, made by `new_flag`, is raised.
        """
        flag = self.halt if flag is None else flag
        part = ResourceMonitor(
            self.seconds, size, self.sink, self.began, clock=self.clock, _flag=flag, checkpoint=self.checkpoint
        )
        if self.seconds is None:
            # so that the clock is read, and no piece of work is long
            part.seconds = math.inf
        return part

    def record_part(self, part: ResourceMonitor) -> None:
        """Include the peak memory of a finished part of the work, which was used besides what is reserved here."""
        self.peak = max(self.peak, self.used + part.peak)

    def pieces(self, count: int, *, always: bool = False) -> list[tuple[int, int]]:
        """Cut work on `count` nodes into ranges between which the clock is read and interrupts are raised.

        One range if there is no time limit, unless `always`; on several threads a range would have too few states.
        """
        size = _PIECE if always or self.seconds is not None else count
        return [(begin, min(begin + size, count)) for begin in range(0, count, max(size, 1))] or [(0, 0)]

    def section(self, name: str, *content: Any) -> Section | None:
        """Return the section of the checkpoint for a computation that `content` determines; None without checkpoint."""
        return None if self.checkpoint is None else self.checkpoint.section(name, *content)

    @property
    def disk_hint(self) -> str:
        """What to do if the disk on which arrays are kept is full."""
        return f"{'give a checkpoint' if self.checkpoint is not None else 'set TMPDIR to a folder'} on a larger disk"

    def disk_limit(self, what: str, error: OSError) -> LimitReached:
        """Return the limit that is reached if arrays cannot be written to disk."""
        return LimitReached(f"{what} could not be written to disk: {error.strerror or error}; {self.disk_hint}")

    def should_save(self) -> bool:
        """Return whether to save a section now: it is due, or the computation is about to end.

        Called between two pieces of work. A time limit ends a piece halfway, with a state that cannot be saved.
        Therefore it is saved as soon as another piece like the longest one so far might not be finished in time.
        """
        if self.checkpoint is None:
            return False
        now = time.monotonic()
        if self._asked is not None:
            self._longest = max(self._longest, now - self._asked)
        self._asked = now
        if self.checkpoint.due or HELD.error is not None:
            return True
        return self.left is not None and self.left <= 2 * (self._longest + self.checkpoint.saving_time)

    def postponed(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context that holds interrupts back until its end, where a section can be saved.

        A time limit is not held back, because kernels that are halted leave incomplete results. Without a checkpoint,
        interrupts are not held back either.
        """
        return contextlib.nullcontext() if self.checkpoint is None else held_back(polled=True)

    def check_time(self) -> None:
        """Raise `LimitReached` if the time is up, or an interrupt that was held back."""
        if HELD.error is not None:
            check_interrupt()
        if self.seconds is not None and (self.elapsed > self.seconds or (self._flag is not None and self._flag[0])):
            raise LimitReached(f"the time limit of {self.seconds:g} s was reached")

    def each(self, items: Iterable[T], every: int = 256) -> Iterable[T]:
        """Return the same items; with a time limit, the clock is read before each `every` of them."""
        return items if self.seconds is None else self._timed(items, every)

    def _timed(self, items: Iterable[T], every: int) -> Iterator[T]:
        for i, item in enumerate(items):
            if i % every == 0:
                self.check_time()
            yield item

    def has_time_for(self, evaluations: float, rate: float) -> bool:
        """Whether `evaluations` fit into the time that is left, at `rate` of them per second."""
        if self.seconds is None:
            return True
        return evaluations <= rate * max(self.seconds - self.elapsed, 0.0)

    def expect(self, evaluations: float, what: str) -> None:
        """Raise `LimitReached` if uninterruptible work would take longer than the time that is left on any machine."""
        if not self.has_time_for(evaluations, _FASTEST):
            raise LimitReached(f"{what} would take longer than is left of the time limit of {self.seconds:g} s")

    def reserve(self, size: int, what: str) -> None:
        """Reserve memory before it is allocated, or raise `LimitReached`.

        Free memory is the limit if there is no memory limit, or if a container or `ulimit -v` leaves less.
        """
        total = self.used + size
        if self.bytes is not None and total > self.bytes:
            raise LimitReached(
                f"{what} would need {_megabytes(total)}, more than the memory limit of {_megabytes(self.bytes)}"
            )
        if total > max(_ALWAYS_FREE, 2 * self._asked_at):
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
        """Find out how much memory is free; called again when twice as much is needed."""
        self._asked_at = total
        free = free_memory() if self.bytes is None else hard_memory()
        self._free = None if free is None else int(_SHARE_OF_FREE * free) + self.used

    @property
    def room(self) -> int:
        """Bytes that can still be reserved, as far as known."""
        ends = [end for end in (self.bytes, self._free) if end is not None]
        return min(ends, default=2**62) - self.used

    def has_room_for(self, size: int) -> bool:
        """Return whether this much memory can be reserved."""
        if self.used + size > max(_ALWAYS_FREE, 2 * self._asked_at):
            self._ask(self.used + size)
        return size <= self.room

    def release(self, size: int) -> None:
        """Release reserved memory.

        Under a memory limit, freed memory that the C library keeps is returned to the system from time to time.
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
        """Report progress to the sink; see `ProgressSink.report`."""
        self.sink.report(phase, done, total, facts)


def is_starved() -> bool:
    """Whether the limits of the process (`ulimit -v`) leave so little address space that libraries may fail."""
    left = process_memory()
    return left is not None and left < LOADING


def out_of_memory(error: BaseException) -> str:
    """Return the message for an allocation that failed."""
    if isinstance(error, AddressSpaceError):
        return str(error)
    left = process_memory()
    where = "" if left is None else f" within the limits of this process (ulimit -v), which leave {_megabytes(left)}"
    return f"memory ran out{where}"
