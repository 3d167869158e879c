"""Processes and threads: forked children solve again after a large solve, and threads solve at the same time."""

from __future__ import annotations

import ast
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import solvent
from solvent.core import threads
from solvent.core.interrupt import held_back, take_interrupt
from solvent.model import instances
from solvent.solvers.frontier import arrays, bounds

SOURCE = Path(solvent.__file__).parent
#: Large enough for several threads, as frontiers and as layers of nodes.
LARGE = instances.fuel_grid(8, horizon=24, tank=3500, thirst=(("3/4", 97), ("1/4", 211)), refill=500)
SMALL = instances.fuel_grid(3)

needs_fork = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the pool of threads and let it work."""
    monkeypatch.setattr(threads, "_threads", 3)
    monkeypatch.setattr(arrays, "_PARALLEL_FROM", 1000)
    monkeypatch.setattr(bounds, "DENSE_FROM", 0)  # arrays rather than points
    threads._forget_pool()
    solve_large()
    assert threads._pool is not None


def solve_large() -> float:
    return solvent.solve(LARGE).value


def solve_nodes() -> float:
    return solvent.solve(LARGE, method="reduction").value


def learn() -> float:
    return solvent.learn(SMALL, epsilon=0.5, seed=1).value_upper


def compare() -> list[float | None]:
    return [row.value for row in solvent.compare(SMALL).rows]


def wait_for(pid: int, seconds: float = 60) -> int:
    """Return the exit code of a child; kill it if it hangs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


@needs_fork
@pytest.mark.parametrize(
    "work", [solve_large, *(pytest.param(each, marks=pytest.mark.slow) for each in (solve_nodes, learn, compare))]
)
def test_a_forked_child_works_like_its_parent(work: Callable[[], Any], pool: None) -> None:
    expected = work()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() == expected else 2
        finally:
            os._exit(code)
    assert wait_for(pid) == 0
    assert work() == expected


@needs_fork
def test_pools_of_forked_processes(pool: None) -> None:
    expected = solve_large()
    with multiprocessing.get_context("fork").Pool(2) as workers:
        waiting = [workers.apply_async(solve_large) for _ in range(3)]
        assert [each.get(60) for each in waiting] == [expected] * 3


@pytest.mark.slow
@needs_fork
def test_fork_while_another_thread_works(pool: None) -> None:
    stop = threading.Event()
    expected = solve_large()

    def work() -> None:
        while not stop.is_set():
            solve_large()

    busy = threading.Thread(target=work)
    busy.start()
    try:
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    code = 0 if solve_large() == expected else 2
                finally:
                    os._exit(code)
            assert wait_for(pid) == 0
    finally:
        stop.set()
        busy.join()


@needs_fork
def test_a_forked_child_can_be_interrupted() -> None:
    """This includes a child that was forked while interrupts were held back."""
    ready, tell = os.pipe()
    with held_back(polled=True):
        pid = os.fork()
        if pid == 0:
            try:
                os.write(tell, b".")
                time.sleep(60)
            except KeyboardInterrupt:
                os._exit(7)
            os._exit(0)
        os.read(ready, 1)
        os.kill(pid, signal.SIGINT)
        assert wait_for(pid) == 7
        assert not take_interrupt()
    os.close(ready)
    os.close(tell)


@pytest.mark.parametrize("method", ["frontier", pytest.param("reduction", marks=pytest.mark.slow)])
def test_threads_solve_at_the_same_time(method: str, pool: None) -> None:
    def work(_: int) -> tuple[float, Any]:
        found = solvent.solve(LARGE, method=method)
        return found.value, found.worst_spent

    expected = work(0)
    with ThreadPoolExecutor(4) as several:
        assert list(several.map(work, range(8))) == [expected] * 8


@pytest.mark.slow
def test_threads_do_different_things_at_the_same_time(pool: None) -> None:
    works: list[Callable[[], Any]] = [solve_large, solve_nodes, learn, compare]
    expected = [work() for work in works]
    with ThreadPoolExecutor(4) as several:
        found = [several.submit(work) for work in works * 2]
        assert [each.result(120) for each in found] == expected * 2


def test_no_kernel_uses_threads_of_numba() -> None:
    """Those of OpenMP do not survive a fork, and others cannot be called from several threads."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "prange" in text or "parallel" in text else ():
            names = [getattr(node, "attr", None), getattr(node, "id", None)]
            assert "prange" not in names, path
            assert not (isinstance(node, ast.keyword) and node.arg == "parallel"), path
    from numba.np.ufunc import parallel

    solve_large()
    assert not parallel._is_initialized
