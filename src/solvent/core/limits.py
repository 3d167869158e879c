"""How long and how large a solve may grow, checked before each piece of work is begun."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from solvent.core.interrupt import check_interrupt, is_interruptible
from solvent.core.jit import preparation_seconds
from solvent.errors import ModelError, quote

_SCALE = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SHARE_OF_FREE = 0.7
#: Nodes that are worked on between two looks at the clock.
_PIECE = 1 << 18
#: No machine evaluates more outcomes in a second than this.
_FASTEST = 4e9
#: Below this nobody need ask what is free.
_NO_MATTER = 64_000_000


class LimitReached(Exception):  # noqa: N818  # caught by `solve`; a status, not an error
    """The time or memory allowed is used up."""


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
        size = float(limit)
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
    if isinstance(limit, bool) or not isinstance(limit, int | float | np.number) or not limit > 0:
        raise ModelError("time_limit", "a number of seconds above 0", quote(limit))
    return float(limit)


def free_memory() -> int:
    """Return how many bytes could be had without swapping; 2 GB where the system does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 2 * 10**9


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 10**6 else f"{size / 1e6:.2g} MB"


@dataclass
class Allowance:
    """What is left of a solve's time and memory.

    Attributes
    ----------
    seconds : float or None
        Allowed in all, not counting those in which kernels are loaded or compiled.
    bytes : int or None
        Allowed at any one time; most of what is free, if None.
    report : callable or None
        Told how far the work has come: (phase, done, total, facts).
    """

    seconds: float | None = None
    bytes: int | None = None
    report: Callable[[str, int, int, dict[str, Any]], None] | None = None
    began: float = field(default_factory=time.perf_counter)
    used: int = 0
    peak: int = 0
    prepared: float = field(default_factory=preparation_seconds)

    @property
    def elapsed(self) -> float:
        """Seconds since the work began, without those in which kernels were loaded or compiled."""
        return time.perf_counter() - self.began - (preparation_seconds() - self.prepared)

    @property
    def left(self) -> float | None:
        """Seconds left; negative if they are used up, None if there is no limit."""
        return None if self.seconds is None else self.seconds - self.elapsed

    @property
    def watched(self) -> bool:
        """Whether there is a clock to watch, somebody to tell, or Ctrl-C to listen for."""
        return self.seconds is not None or self.report is not None or is_interruptible()

    def pieces(self, count: int, *, always: bool = False) -> list[tuple[int, int]]:
        """Cut work on so many nodes into pieces between which the clock is read and Ctrl-C is heard.

        One piece if there is no clock, unless `always`: where work runs on several threads a piece has too few states.
        """
        size = _PIECE if always or self.seconds is not None else count
        return [(begin, min(begin + size, count)) for begin in range(0, count, max(size, 1))] or [(0, 0)]

    def check_time(self) -> None:
        """Raise `LimitReached` once time is up, or an interrupt that was held back."""
        check_interrupt()
        if self.seconds is not None and self.elapsed > self.seconds:
            raise LimitReached(f"the time limit of {self.seconds:g} s was reached")

    def has_time_for(self, evaluations: float, rate: float) -> bool:
        """Whether so many evaluations, at so many a second, fit into the time that is left."""
        if self.seconds is None:
            return True
        return evaluations <= rate * max(self.seconds - self.elapsed, 0.0)

    def expect(self, evaluations: float, what: str) -> None:
        """Raise `LimitReached` if work that cannot be interrupted would surely take longer than what is left."""
        if not self.has_time_for(evaluations, _FASTEST):
            raise LimitReached(f"{what} would take longer than is left of the time limit of {self.seconds:g} s")

    def take(self, size: int, what: str) -> None:
        """Reserve memory before it is used, or raise `LimitReached`."""
        if self.bytes is None and self.used + size > _NO_MATTER:
            self.bytes = int(_SHARE_OF_FREE * free_memory()) + self.used
        if self.bytes is not None and self.used + size > self.bytes:
            raise LimitReached(
                f"{what} would need {_megabytes(self.used + size)}, more than the memory limit of "
                f"{_megabytes(self.bytes)}"
            )
        self.used += size
        self.peak = max(self.peak, self.used)

    def give_back(self, size: int) -> None:
        """Release reserved memory."""
        self.used -= size

    def tell(self, phase: str, done: int, total: int, **facts: Any) -> None:
        """Report progress, if anyone listens."""
        if self.report is not None:
            self.report(phase, done, total, facts)
