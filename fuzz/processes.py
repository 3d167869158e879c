"""What a worker has used, so that a busy machine does not pass for a worker that hangs."""

from __future__ import annotations

import os
from multiprocessing.process import BaseProcess
from pathlib import Path

#: A worker that gets hardly any time on the processor may take this many times as long as one that gets all.
PATIENCE = 5.0


def busy_seconds(process: BaseProcess) -> float:
    """Return the processor time of a process; infinity where the system does not tell.

    Examples
    --------
    >>> import multiprocessing
    >>> busy_seconds(multiprocessing.current_process()) > 0
    True
    """
    try:
        # the name of the program, in parentheses, may hold anything; times are the 14th and the 15th field of all
        after = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(after[11]) + int(after[12])) / float(os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return float("inf")


def hangs(process: BaseProcess, elapsed: float, busy_before: float, seconds: float) -> bool:
    """Return whether a process has worked for this many seconds since it had used `busy_before`, or waits forever."""
    if elapsed < seconds:
        return False
    busy = busy_seconds(process)
    return elapsed > PATIENCE * seconds or busy == float("inf") or busy - busy_before >= seconds
