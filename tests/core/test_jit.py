"""Kernels: cached where possible, by how they are compiled, and not counted by time limits."""

from __future__ import annotations

import os
import pickle
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import solvent

SOURCE = Path(solvent.__file__).parents[1]

PROBE = """
import numpy as np
from solvent.core.jit import compiled_kernels, jit

@jit
def pick(values, i):
    return values[i]

@jit
def double(x):
    return 2 * x
"""


@pytest.fixture
def probe(tmp_path):
    """Return a function that runs code with two small kernels and an empty cache in another process."""
    (tmp_path / "probe.py").write_text(PROBE)

    def run(code, first="", **environment):
        setting = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{tmp_path}", **environment}
        setting.setdefault("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
        done = subprocess.run(
            [sys.executable, "-c", f"{first}\nfrom probe import *\n{code}"],
            env=setting, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


REACH = """
try:
    pick(np.zeros(3), 1000)
    print("unchecked", end=" ")
except IndexError:
    print("checked", end=" ")
print(len(compiled_kernels()))
"""


@pytest.mark.slow
def test_checked_and_unchecked_kernels_are_cached_separately(probe):
    assert probe(REACH) == "unchecked 1"
    assert probe(REACH, NUMBA_BOUNDSCHECK="1") == "checked 1"
    assert probe(REACH, NUMBA_BOUNDSCHECK="1") == "checked 0"
    assert probe(REACH, NUMBA_BOUNDSCHECK="0") == "unchecked 0"


@pytest.mark.slow
def test_a_kernel_is_compiled_again_when_another_has_changed(probe):
    """It may contain the other, which is not a part of Numba's key of a cached kernel."""
    call = "print(double(21), len(compiled_kernels()))"
    assert probe(call) == "42 1"
    assert probe(f"from solvent.core import jit as j\nj._digest_of_kernels = lambda: 'another'\n{call}") == "42 1"


FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
"""


def test_a_full_disk_is_survived(probe, tmp_path):
    call = "print(double(21), double(1.5), len(compiled_kernels()))"
    assert probe(FULL_DISK + call) == "42 3.0 2"
    assert not list((tmp_path / "cache").rglob("*.nbc"))


@pytest.mark.slow
def test_the_cache_is_filled_later_and_read_from_a_full_disk(probe):
    call = "print(double(21), double(1.5), len(compiled_kernels()))"
    assert probe(FULL_DISK + call) == "42 3.0 2"
    assert probe(call) == "42 3.0 2"
    assert probe(FULL_DISK + call) == "42 3.0 0"


@pytest.mark.slow
def test_a_folder_that_has_become_unusable_is_survived(probe, tmp_path):
    lose = f"""
import pathlib, shutil
shutil.rmtree({str(tmp_path / "cache")!r})
pathlib.Path({str(tmp_path / "cache")!r}).write_text("")
"""
    assert probe("double(1)\n" + lose + "print(double(1.5))") == "3.0"


NO_SPACE = """
import errno
from numba.core import caching
def full(*given, **options):
    raise OSError(errno.ENOSPC, "No space left on device")
caching.IndexDataCacheFile.{name} = full
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["_save_index", "_save_data", "_open_for_write"])
def test_a_disk_that_fills_up_is_survived(probe, name):
    call = "print(double(21), double(1.5), len(compiled_kernels()))"
    assert probe(NO_SPACE.format(name=name) + call) == "42 3.0 2"
    assert probe(call) == "42 3.0 2"
    assert probe(call) == "42 3.0 0"


DAMAGE = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "text": lambda content: b"not a pickle, in no way\n" * 9,
    "unknown module": lambda content: b"cno_such_module\nthing\n.",
    "another object": lambda content: pickle.dumps({"a": 1}),
}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_not_used(probe, tmp_path, ending, damage):
    call = "print(double(21), len(compiled_kernels()))"
    assert probe(call) == "42 1"
    for file in (tmp_path / "cache").rglob(f"*.{ending}"):
        file.write_bytes(DAMAGE[damage](file.read_bytes()))
    assert probe(call) == "42 1"
    assert probe(call) == "42 0"


def on_terminal(code: str, **environment: str) -> str:
    """Run code in a process whose standard error is a terminal, and return what appears there."""
    ours, theirs = pty.openpty()
    setting = {**os.environ, "TERM": "xterm", "COLUMNS": "120", **environment}
    with subprocess.Popen([sys.executable, "-c", code], env=setting, stderr=theirs, stdout=subprocess.DEVNULL) as child:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
    assert child.returncode == 0, shown.decode()
    return shown.decode()


NOTICE = "Compiling kernels for this machine (once, a few seconds)..."
WORK = """
from solvent.core.progress import open_progress
from probe import double
with open_progress({show}):
    double(1)
    double(1.5)
"""


@pytest.mark.slow
def test_compilation_is_announced_on_a_terminal_once(tmp_path):
    (tmp_path / "probe.py").write_text(PROBE)
    paths = f"{SOURCE}{os.pathsep}{tmp_path}"
    first, second, third = (
        on_terminal(WORK.format(show=show), PYTHONPATH=paths, NUMBA_CACHE_DIR=str(tmp_path / cache))
        for show, cache in [(True, "a"), (True, "a"), (False, "b")]
    )
    assert first.count(NOTICE) == 1
    assert NOTICE not in second
    assert third == ""


def test_nothing_is_announced_where_there_is_no_terminal(probe):
    code = WORK.format(show=True).replace("from probe", "import sys; sys.stderr = sys.stdout\nfrom probe")
    assert probe(code) == ""


LIMITED = """
import solvent
from solvent.core.jit import compiled_kernels, preparation_seconds
b = solvent.CMDP.builder(horizon=3, start="here", resources=["fuel"], budget=2)
b.add("here", "go", reward=1, outcomes=[(0.5, "here", 1), (0.5, "here", 0)])
b.add("here", "rest", outcomes=[(1, "here")])
solution = solvent.solve(b.build(), {options})
print(solution.status.value, len(compiled_kernels()) > 0, preparation_seconds() > {limit})
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "gap=0.01, "])
def test_compilation_does_not_count_against_the_time_limit_of_a_solve(probe, options):
    """Compilation takes several seconds, and the solve some milliseconds."""
    assert probe(LIMITED.format(options=f"{options}time_limit=0.5", limit=0.5)) == "optimal True True"


#: A clock that can skip time, in place of `time.perf_counter`.
CLOCK = """
import time
skipped, running = 0, time.perf_counter
time.perf_counter = lambda: running() + skipped
"""


def test_compilation_does_not_count_against_time_limits(probe):
    code = """
from numba.core import event
from solvent.core.limits import ResourceMonitor
class Long(event.Listener):
    def on_start(self, event):
        global skipped
        skipped += 1000
    def on_end(self, event):
        pass
event.register("numba:compile", Long())
monitor = ResourceMonitor(100)
double(1)
monitor.check_time()
print(monitor.elapsed < 100 < 1000 <= time.perf_counter() - monitor.began)
"""
    assert probe(code, CLOCK) == "True"


@pytest.mark.slow
def test_waiting_for_another_thread_to_compile_does_not_count(probe):
    code = """
import threading
from numba.core.compiler_lock import global_compiler_lock
from solvent.core.limits import ResourceMonitor
from solvent.core.preparation import preparation_clock
double(1)
held, waiting = threading.Event(), preparation_clock()
def hold():
    global skipped
    with global_compiler_lock:
        held.set()
        while not waiting._depth:
            time.sleep(0.01)
        skipped += 1000
threading.Thread(target=hold).start()
held.wait()
monitor = ResourceMonitor(100)
double(1.5)
monitor.check_time()
print(monitor.elapsed < 100 < 1000 <= time.perf_counter() - monitor.began)
"""
    assert probe(code, CLOCK) == "True"


@pytest.mark.slow
def test_the_collector_runs_again_after_compilation(probe):
    code = """
import gc
from numba.core.errors import NumbaError
double(1)
print(gc.isenabled(), end=" ")
try:
    double(None)
except NumbaError:
    print(gc.isenabled(), end=" ")
gc.disable()
double(1.5)
print(gc.isenabled())
"""
    assert probe(code) == "True True False"
