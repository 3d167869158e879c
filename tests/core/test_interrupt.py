"""Interrupts: held back while compiled code runs, raised at safe points, and never lost."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import effort
import solvent
from solvent.core import interrupt, threads
from solvent.core.interrupt import Interrupted, check_interrupt, held_back, run_aside, settle, take_interrupt
from solvent.core.jit import KERNELS, jit
from solvent.model import instances
from solvent.model.cmdp import CMDP
from solvent.solvers.base import Run
from solvent.solvers.frontier import sizes

SOURCE = Path(solvent.__file__).parents[1]
SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Check that every handler is restored."""
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    assert [signal.getsignal(number) for number in SIGNALS] == before


@jit
def count_up(n):  # type: ignore[no-untyped-def]
    total = np.int64(0)
    for i in range(n):
        total += i % 7
    return total


def press(number: int = signal.SIGINT) -> None:
    signal.raise_signal(number)


def test_nothing_is_raised_before_a_safe_point() -> None:
    with held_back():
        press()
        reached = True
        with pytest.raises(KeyboardInterrupt):
            check_interrupt()
        check_interrupt()  # it is raised once
    assert reached


def test_the_end_of_the_context_is_a_safe_point() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), held_back():  # noqa: PT012
        press()
        reached.append("within")
    assert reached == ["within"]


def test_only_the_outermost_context_restores_handlers() -> None:
    before = signal.getsignal(signal.SIGINT)
    with held_back():
        within = signal.getsignal(signal.SIGINT)
        with held_back():
            press()
        assert signal.getsignal(signal.SIGINT) == within != before
        assert take_interrupt()


def test_a_second_interrupt_is_raised_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), held_back():  # noqa: PT012
        press()
        press()
        raise AssertionError("unreachable")


def test_an_error_does_not_swallow_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), held_back():  # noqa: PT012
        press()
        raise SystemError("as compiled code raises when it is hit")


def test_an_earlier_interrupt_is_forgotten() -> None:
    with pytest.raises(SystemExit), held_back():  # noqa: PT012
        press()
        sys.exit(3)
    with held_back():
        check_interrupt()


@pytest.mark.parametrize("number", SIGNALS)
def test_handlers_of_the_program_are_called(number: signal.Signals) -> None:
    called: list[int] = []
    before = signal.signal(number, lambda number, frame: called.append(number))
    try:
        with held_back():
            press(number)
            check_interrupt()
        assert called == [number]
    finally:
        signal.signal(number, before)


def test_exceptions_of_handlers_are_held_back() -> None:
    def leave(number: int, frame: object) -> None:
        sys.exit(5)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        with held_back(polled=True):
            press(signal.SIGTERM)
            with pytest.raises(SystemExit) as ended:
                take_interrupt()
        assert ended.value.code == 5
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("kind", [signal.SIG_DFL, signal.SIG_IGN])
def test_default_handlers_are_not_replaced(kind: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, kind)
    try:
        with held_back():
            assert signal.getsignal(signal.SIGINT) is kind
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_set_meanwhile_stays() -> None:
    def new(number: int, frame: object) -> None:
        """Do nothing."""

    before = signal.getsignal(signal.SIGINT)
    try:
        with held_back():
            signal.signal(signal.SIGINT, new)
        assert signal.getsignal(signal.SIGINT) is new
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_not_interrupted() -> None:
    seen: list[bool] = []

    def work() -> None:
        with held_back():
            check_interrupt()
            seen.append(take_interrupt())

    with held_back(polled=True):
        press()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert take_interrupt()
    assert seen == [False]


def later(seconds: float) -> None:
    """Send SIGINT after a while."""
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


def test_a_kernel_returns_before_it_is_interrupted() -> None:
    count_up(10)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        later(0.05)
        for _ in range(100_000):
            count_up(10_000_000)
    assert count_up(10) == 21 + 0 + 1 + 2


def test_every_kernel_is_guarded() -> None:
    if not KERNELS:
        pytest.skip("kernels are not compiled")
    assert {type(kernel).__name__ for kernel in KERNELS} == {"_Kernel"}


@pytest.mark.parametrize("count", [1, 2])
def test_work_on_several_threads_is_interrupted(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_threads", count)
    done: list[int] = []

    def kernel(begin: int, end: int) -> None:
        time.sleep(0.02)
        done.append(begin)

    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        later(0.1)
        threads.run_by_states(kernel, np.full(1000, 1e9))
    assert len(done) < 1000  # that many would take 10 seconds or more


def test_an_interrupt_ends_the_wait_for_a_function_that_runs_aside() -> None:
    release = threading.Event()
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        later(0.1)
        run_aside(release.wait)
    assert time.perf_counter() - began < 60
    release.set()


ASIDE = """
import os, signal, sys, threading, time
from solvent.core.interrupt import run_aside

release = threading.Event()

def work():
    release.wait()
    time.sleep(0.3)
    print("finished", flush=True)

threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    run_aside(work)
except KeyboardInterrupt:
    if sys.argv[1] == "uncaught":
        raise
print("interrupted", flush=True)
release.set()
sys.exit(7)
"""


@pytest.mark.parametrize(("how", "code", "said"), [("caught", 7, "interrupted\nfinished\n"), ("uncaught", -2, "")])
def test_a_process_ends_cleanly_while_a_function_runs_aside(how: str, code: int, said: str) -> None:
    """If Python ended the thread while it runs compiled code, the process would abort."""
    line = [sys.executable, "-c", ASIDE, how]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (code, said)


def test_run_aside_returns_results_and_raises_errors() -> None:
    assert run_aside(lambda: threading.current_thread().name) == "solvent-aside"
    with pytest.raises(ZeroDivisionError):
        run_aside(lambda: 1 / 0)
    names: list[str] = []
    thread = threading.Thread(target=lambda: names.append(run_aside(lambda: threading.current_thread().name)))
    thread.start()
    thread.join()
    assert names == [thread.name]


def test_a_swallowed_interrupt_is_raised_again() -> None:
    lost: list[str] = []

    class Careless:
        def __del__(self) -> None:
            raise Interrupted(lambda: lost.append("in a finalizer"))

    hook = sys.unraisablehook
    sys.unraisablehook = lambda unraisable: None
    try:
        Careless()
    finally:
        sys.unraisablehook = hook
    try:
        raise Interrupted(lambda: lost.append("settled"))
    except KeyboardInterrupt as error:
        settle(error)
    assert lost == ["in a finalizer"]


LARGE = instances.fuel_grid(8, horizon=150, tank=400)
PAIRED = instances.paper(400, seed=1, budget=100, digits=6)
#: Linear programs run to their end in a thread after an interrupt, so this one is small.
SMALL = instances.fuel_grid(4, horizon=30, tank=30)
MODELS = dict.fromkeys(("points", "additive", "labels"), PAIRED) | {"compare": SMALL}
CALLS: dict[str, Callable[[CMDP], Any]] = {
    "frontier": lambda model: solvent.frontier(model),
    "arrays": lambda model: solvent.solve(model, method="frontier"),
    "points": lambda model: solvent.solve(model, method="frontier"),
    "reduction": lambda model: solvent.solve(model, method="reduction"),
    "plain": lambda model: solvent.solve(model, method="reduction", prune=False),
    "additive": lambda model: solvent.solve(model, approximation="additive", epsilon=0.01),
    "labels": lambda model: solvent.solve(model, method="labels"),
    "augment": lambda model: solvent.augment(model),
    "compare": lambda model: solvent.compare(model, methods=["expectation", "chance"]),
}


def test_an_interrupt_ends_solves_in_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solves for several limits of a resource that saturates run in threads, which no signal reaches."""
    b = CMDP.builder(horizon=3, start=0, resources=[solvent.Resource("fuel", floor=0)])
    for cost in range(4):
        b.add(0, cost, reward=cost, outcomes=[(0.5, 0, cost), (0.5, 0, -1)])
    model = b.build()
    ended: list[float] = []
    solve_problem = sizes.solve_problem

    def slow(problem: Any, method: str, run: Run) -> Any:
        if threading.current_thread() is threading.main_thread():
            return solve_problem(problem, method, run)
        began = time.perf_counter()
        try:
            while time.perf_counter() - began < 60:
                run.monitor.check_time()
                time.sleep(0.01)
        finally:
            ended.append(time.perf_counter() - began)

    monkeypatch.setattr(sizes, "solve_problem", slow)
    for limit in (None, 1000.0):
        began = time.perf_counter()
        later(0.3)
        with pytest.raises(KeyboardInterrupt):
            solvent.frontier(model, time_limit=limit)
        assert time.perf_counter() - began < 20
    assert ended


@pytest.fixture(scope="module")
def _imported() -> None:
    """Import all modules that calls need: interrupts are held back during imports."""
    solvent.compare(instances.fuel_grid(2))


@pytest.mark.usefixtures("_imported")
@pytest.mark.parametrize("name", CALLS)
def test_calls_of_the_library_are_interrupted(name: str) -> None:
    """Interrupt each call several times, each time a little later."""
    CALLS[name](instances.paper(12, seed=1, budget=3))  # compiles kernels that are not in the cache
    moments = np.geomspace(0.002, 0.3, 8) if effort.everything else np.array([0.002, 0.03, 0.2])
    interrupted = 0
    gc.collect()
    gc.disable()  # an interrupt in a callback of the garbage collector, which Hypothesis has, would be lost
    try:
        for moment in moments:
            began = time.perf_counter()
            try:
                later(float(moment))
                while time.perf_counter() - began < 60:
                    CALLS[name](MODELS.get(name, LARGE))
            except KeyboardInterrupt:
                interrupted += 1
            assert time.perf_counter() - began < moment + 30
    finally:
        gc.enable()
    assert interrupted == len(moments)


COLD = """
import os, signal, sys, threading
import solvent
from solvent.model import instances
threading.Timer(float(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        solvent.solve(instances.fuel_grid(3), method="reduction")
except KeyboardInterrupt:
    print("interrupted")
print(solvent.solve(instances.fuel_grid(3), method="reduction"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", effort.first(1, [0.2, 1, 0.05, 0.1, 0.15, 0.3, 0.5, 2]))
def test_imports_and_the_compiler_are_interrupted_and_work_afterwards(moment: float, tmp_path: Path) -> None:
    setting = {**os.environ, "PYTHONPATH": str(SOURCE), "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COLD, str(moment)]
    done = subprocess.run(command, env=setting, capture_output=True, text=True, timeout=300)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["interrupted", repr(solvent.solve(instances.fuel_grid(3), method="reduction"))]


class Moment:
    """The raw signal functions, with an interrupt at a given moment of replacing or restoring handlers."""

    def __init__(self, raw: Any, at: int, *, before: bool) -> None:
        self._raw, self._at, self._before, self._calls = raw, at, before, 0

    def getsignal(self, number: int) -> Any:
        return self._raw.getsignal(number)

    def signal(self, number: int, handler: Any) -> Any:
        self._calls += 1
        if self._before and self._calls == self._at:
            signal.raise_signal(signal.SIGINT)
        result = self._raw.signal(number, handler)
        if not self._before and self._calls == self._at:
            signal.raise_signal(signal.SIGINT)
        return result


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_an_interrupt_while_handlers_are_replaced_is_neither_lost_nor_harmful(
    at: int, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(number: int, frame: Any) -> None:
        raise SystemExit("terminated")

    usual = signal.signal(signal.SIGTERM, end), signal.getsignal(signal.SIGINT)
    try:
        monkeypatch.setattr(interrupt, "_raw", Moment(interrupt._raw, at, before=before))
        with pytest.raises(KeyboardInterrupt), interrupt.held_back():
            pass
        monkeypatch.undo()
        assert (interrupt.HELD.depth, interrupt.HELD.handlers, interrupt.HELD.error) == (0, {}, None)
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == (end, usual[1])
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
        with interrupt.held_back():
            assert signal.getsignal(signal.SIGINT) == interrupt.HELD.note
    finally:
        signal.signal(signal.SIGTERM, usual[0])
