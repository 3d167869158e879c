"""Run every peer on every workload, each pair in a separate process with limits on time and memory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.peers.adapters import ADAPTERS
from bench.peers.child import SECONDS, Row
from bench.peers.workloads import Workload

#: Peers of workloads that name none: all but those for networks.
GENERAL = tuple(peer for peer in ADAPTERS if peer != "cspy")
ROOT = Path(__file__).parent.parent.parent
#: Time limit of one peer on one workload in seconds, for the first build and solve.
TIME_LIMIT = 10.0
#: Seconds beyond twice that for imports, building the model and checking the answer.
SETUP = 120.0
#: Limit of its address space in bytes.
MEMORY_LIMIT = 8 * 2**30


def run_one(
    peer: str,
    workload: str,
    reference: float | None = None,
    *,
    time_limit: float = TIME_LIMIT,
    memory_limit: int = MEMORY_LIMIT,
    seconds: float = SECONDS,
) -> Row:
    """Return the row of one peer on one workload; a failure of its process is a row, too."""
    command = [sys.executable, "-m", "bench.peers.child", peer, workload, "--seconds", str(seconds)]
    command += ["--memory", str(memory_limit), "--limit", str(time_limit)]
    if reference is not None:
        command += ["--reference", repr(reference)]
    late = Row(peer, workload, status="time", note=f"no answer within {time_limit:g} s")
    try:
        whole = SETUP + 2 * time_limit
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=whole, check=False)
    except subprocess.TimeoutExpired:
        return late
    if done.returncode == -signal.SIGALRM:
        return late
    lines = done.stdout.strip().splitlines()
    try:
        return Row(**json.loads(lines[-1]))
    except (IndexError, ValueError, TypeError):
        return _fallen(peer, workload, done, memory_limit)


def _fallen(peer: str, workload: str, done: subprocess.CompletedProcess[str], memory_limit: int) -> Row:
    """Return the row of a process that ended without a result."""
    last = (done.stderr.strip().splitlines() or ["no output"])[-1]
    if "bad_alloc" in done.stderr or "MemoryError" in done.stderr:
        return Row(peer, workload, status="memory", note=f"more than {memory_limit / 2**30:.0f} GB")
    return Row(peer, workload, status="failed", note=f"ended with code {done.returncode}: {last}")


def run_all(
    workloads: Iterable[Workload],
    peers: Iterable[str] = ADAPTERS,
    *,
    time_limit: float = TIME_LIMIT,
    seconds: float = SECONDS,
) -> Iterator[Row]:
    """Yield a row for each workload and peer; Solvent comes first, and its verified value is the reference."""
    others = [peer for peer in peers if peer != "solvent"]
    for workload in workloads:
        ours = run_one("solvent", workload.name, time_limit=time_limit, seconds=seconds)
        yield ours
        for peer in others:
            if peer not in (workload.peers or GENERAL):
                continue
            yield run_one(peer, workload.name, ours.value, time_limit=time_limit, seconds=seconds)


def verdict(rows: Iterable[Row]) -> list[str]:
    """Return a line for each wrong answer, and for each workload that Solvent did not solve."""
    return [
        f"{row.peer}, {row.workload}: {row.note}"
        for row in rows
        if row.status == "wrong" or (row.peer == "solvent" and row.status != "ok")
    ]
