"""Kernels: cached where possible, by how they are compiled, and not counted by time limits."""

from __future__ import annotations

import copy
import os
import pickle
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import solvent
from solvent.core.jit import KERNELS
from solvent.core.kernel_cache import _UnknownContent, content, digest

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
        own = {"PYTHONPATH": f"{SOURCE}{os.pathsep}{tmp_path}", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        setting = {**os.environ, **own, **environment}
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


#: A kernel that calls one of another file, which contains a constant of a third one.
OUTER = "from solvent.core.jit import jit\nfrom between import scaled\n@jit\ndef twice(x):\n    return 2 * scaled(x)\n"
INNER = "from solvent.core.jit import jit\nfrom settings import SCALE\n@jit\ndef scaled(x):\n    return SCALE * x\n"


@pytest.mark.slow
def test_a_changed_constant_and_a_renamed_file_are_noticed(probe, tmp_path):
    def run(scale, file="inner", inner=INNER):
        for name, text in [("outer", OUTER), ("between", f"from {file} import scaled\n"), (file, inner)]:
            if not (tmp_path / f"{name}.py").exists() or name == "between":
                (tmp_path / f"{name}.py").write_text(text)
        (tmp_path / "settings.py").write_text(f"SCALE = {scale}\n")
        return probe("from outer import twice\nprint(twice(1), len(compiled_kernels()))")

    assert run("10") == "20 2"
    assert run("10") == "20 0"
    assert run("250") == "500 2"
    (tmp_path / "inner.py").unlink()
    assert run("250", "renamed", INNER.replace("SCALE * x", "SCALE + x")) == "502 2"
    assert run("10", "inner") == "20 0"


SAME_POINT = """
import sys
sys.path.insert(0, {source!r})
import solvent
from solvent import instances
assert solvent.__file__.startswith({source!r})
print(len(solvent.frontier(instances.fuel_grid(3), max_budget=40).budgets))
"""


@pytest.mark.slow
def test_a_changed_constant_of_a_solver_is_noticed(tmp_path):
    """The points of a frontier differ by more than a rounding error, which the module `accuracy` defines."""
    shutil.copytree(SOURCE / "solvent", tmp_path / "solvent", ignore=shutil.ignore_patterns("__pycache__"))
    accuracy = tmp_path / "solvent" / "solvers" / "accuracy.py"
    setting = {**os.environ, "PYTHONPATH": "", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    counts = []
    for value in (None, "1e-2", None):
        text = (SOURCE / "solvent" / "solvers" / "accuracy.py").read_text()
        accuracy.write_text(text if value is None else f"{text}\nSAME_POINT = {value}\n")
        code = SAME_POINT.format(source=str(tmp_path))
        done = subprocess.run([sys.executable, "-c", code], env=setting, capture_output=True, text=True, check=True)
        counts.append(int(done.stdout))
    assert counts[0] == counts[2] > counts[1]


@pytest.mark.slow
def test_copies_of_the_code_share_a_cache(probe, tmp_path):
    call = "print(double(21), len(compiled_kernels()))"
    assert probe(call) == "42 1"
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "probe.py").write_text(f"# the same kernels, some lines below\n{PROBE}")
    first = f"import sys; sys.path.insert(0, {str(tmp_path / 'copy')!r})"
    assert probe(call, first, PYTHONHASHSEED="1") == "42 0"


@pytest.mark.slow
def test_kernels_compiled_from_what_was_changed_later_are_not_kept(probe, tmp_path):
    (tmp_path / "outer.py").write_text(OUTER.replace("between", "inner"))
    (tmp_path / "inner.py").write_text(INNER)
    (tmp_path / "settings.py").write_text("SCALE = 10\n")
    changed = "import inner, outer; inner.SCALE = 2; inner.scaled(1); inner.SCALE = 10; print(outer.twice(1))"
    assert probe(changed) == "4"  # as Numba does not compile a kernel again
    assert probe("from outer import twice; print(twice(1), len(compiled_kernels()))") == "20 2"


@pytest.mark.slow
def test_settings_of_numba_are_a_part_of_the_key(probe):
    assert probe(CALL, NUMBA_OPT="0") == "42 1"
    assert probe(CALL) == "42 1"
    assert probe(CALL) == "42 0"


TAKES = """
from typing import NamedTuple
class Pair(NamedTuple):
    {fields}
@jit
def first(pair):
    return pair.a
print(first(Pair(b=1, a=2)), len(compiled_kernels()))
"""


@pytest.mark.slow
def test_fields_of_named_tuples_are_a_part_of_the_key(probe, tmp_path):
    """Two kernels of the same code take tuples with the same types in another order."""
    found = []
    for fields in ("a: int; b: int", "b: int; a: int", "a: int; b: int"):
        text = "from probe import *\n" + TAKES.format(fields=fields)
        (tmp_path / "pairs.py").write_text(text + "#" * len(found))  # Python goes by the size and the time
        found.append(probe("import pairs"))
    assert found == ["2 1", "2 1", "2 0"]


def test_every_kernel_can_be_cached():
    """The digest of a kernel knows all kinds of globals that kernels use."""
    import solvent.warmup  # noqa: F401  # imports all kernels

    assert len({digest(kernel) for kernel in KERNELS}) == len(KERNELS) > 40


def test_digests_stay_the_same_when_kernels_are_profiled(probe):
    call = "import sys\nfrom solvent.core.kernel_cache import digest\nbefore = digest(double)\ndouble(1)\n"
    call += "sys.setprofile(lambda *_: None); double(1); sys.setprofile(None)\nprint(digest(double) == before)"
    assert probe(call) == "True"


@pytest.mark.parametrize("other", [np.random.default_rng, os, object(), {}, [1]])
def test_globals_of_unknown_content_are_not_cached(other):
    with pytest.raises(_UnknownContent):
        content(other)


@pytest.mark.parametrize(
    ("one", "another"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ("1", 1),
        (np.int32(1), np.int64(1)),
        ((1, 2), (2, 1)),
        (np.zeros(1), np.ones(1)),
    ],
)
def test_constants_are_told_apart(one, another):
    assert content(one) == content(copy.copy(one))
    assert content(one) != content(another)


LOGGED = "import logging; logging.basicConfig(stream=sys.stdout, format='%(message)s')"
CALL = "print(double(21), len(compiled_kernels()))"


@pytest.mark.slow
def test_a_cache_that_others_can_change_is_not_used(probe, tmp_path):
    folder = tmp_path / "cache" / "solvent"
    assert probe(CALL) == "42 1"
    assert folder.stat().st_mode & 0o777 == 0o700
    (entry,) = folder.iterdir()
    assert entry.stat().st_mode & 0o777 == 0o600
    for place, mode in [(folder, 0o770), (folder, 0o702), (folder.parent, 0o777)]:
        before = place.stat().st_mode
        place.chmod(mode)
        warning, result = probe(f"import sys; {LOGGED}; double(1.5)\n{CALL}").splitlines()
        place.chmod(before)
        assert result == "42 2"
        assert warning == (
            f"{place}: expected a cache of compiled kernels that only user {os.geteuid()} can change, "
            f"found owner {os.geteuid()} and mode {mode:o}; not used"
        )
        assert list(folder.iterdir()) == [entry]
    foreign = probe(f"import sys; {LOGGED}; {CALL}", "import os; os.geteuid = lambda: 12345")
    assert foreign.startswith(f"{folder}: expected a cache of compiled kernels that only user 12345 can change, found ")
    assert foreign.endswith("\n42 1")
    entry.chmod(0o620)
    assert probe(CALL) == "42 1"
    assert entry.stat().st_mode & 0o777 == 0o600
    folder.parent.chmod(0o1777)  # others can add files, but not replace ours
    assert probe(CALL) == "42 0"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders to other users")
def test_links_in_the_folder_of_another_user_are_not_followed(probe, tmp_path):
    mine, other = tmp_path / "mine", tmp_path / "other"
    assert probe(CALL, NUMBA_CACHE_DIR=str(mine)) == "42 1"
    assert probe(CALL, NUMBA_CACHE_DIR=str(mine)) == "42 0"
    other.mkdir()
    (other / "solvent").symlink_to(mine / "solvent")
    assert probe(CALL, NUMBA_CACHE_DIR=str(other)) == "42 0"
    os.chown(other, 12345, 12345)
    assert probe(CALL, NUMBA_CACHE_DIR=str(other)) == "42 1"
    os.chown(other, 0, 12345)
    other.chmod(0o775)
    assert probe(CALL, NUMBA_CACHE_DIR=str(other)) == "42 1"
    (entry,) = (mine / "solvent").iterdir()
    entry.rename(mine / "elsewhere")
    entry.symlink_to(mine / "elsewhere")
    assert probe(CALL, NUMBA_CACHE_DIR=str(mine)) == "42 1"


@pytest.mark.slow
def test_folders_are_made_for_the_user_alone(probe, tmp_path):
    place = tmp_path / "new" / "cache"
    assert probe(CALL, "import os; os.umask(0)", NUMBA_CACHE_DIR=str(place)) == "42 1"
    assert [folder.stat().st_mode & 0o777 for folder in (place.parent, place, place / "solvent")] == [0o700] * 3
    assert probe(CALL, NUMBA_CACHE_DIR=str(place)) == "42 0"


#: Two interrupts while another thread compiles: the second one ends the wait for it.
INTERRUPTED = """
import os, signal, threading, time
from numba.core.compiler_lock import global_compiler_lock
from solvent.core.preparation import working_time

held, ended = threading.Event(), threading.Event()

def hold():
    with global_compiler_lock:
        held.set()
        ended.wait()

def press():
    for _ in range(2):
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=hold).start()
held.wait()
threading.Thread(target=press).start()
try:
    double(1)
except KeyboardInterrupt:
    print("interrupted", end=" ")
ended.set()
before = working_time()
time.sleep(0.2)
print(working_time() - before >= 0.2, double(21))
"""


@pytest.mark.slow
def test_the_clock_goes_on_after_an_interrupt_that_was_not_held_back(probe):
    assert probe(INTERRUPTED) == "interrupted True 42"


@pytest.mark.slow
def test_entries_that_are_not_used_are_removed(probe, tmp_path):
    assert probe(f"double(1.5); {CALL}") == "42 2"
    folder, long_ago = tmp_path / "cache" / "solvent", time.time() - 100 * 86400
    (folder / "other").write_text("a file of another program")
    for entry in folder.iterdir():
        os.utime(entry, (long_ago, long_ago))
    assert probe(CALL) == "42 0"  # it is used
    assert len(list(folder.iterdir())) == 3
    assert probe("pick(np.zeros(3), 1)") == ""
    assert len(list(folder.iterdir())) == 3
    assert (folder / "other").exists()
    assert probe(CALL) == "42 0"


FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
"""


def test_a_full_disk_is_survived(probe, tmp_path):
    call = "print(double(21), double(1.5), len(compiled_kernels()))"
    assert probe(FULL_DISK + call) == "42 3.0 2"
    assert not list((tmp_path / "cache").rglob("*.kernel"))


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
import errno, {module}
def full(*given, **options):
    raise OSError(errno.ENOSPC, "No space left on device")
{module}.{name} = full
"""


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name"), [("tempfile", "mkstemp"), ("os", "replace"), ("os", "fdopen")])
def test_a_disk_that_fills_up_is_survived(probe, tmp_path, module, name):
    call = "print(double(21), double(1.5), len(compiled_kernels()))"
    assert probe(NO_SPACE.format(module=module, name=name) + call) == "42 3.0 2"
    assert list((tmp_path / "cache" / "solvent").iterdir()) == []
    assert probe(call) == "42 3.0 2"
    assert probe(call) == "42 3.0 0"


DAMAGE = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "text": lambda content: b"not a pickle, in no way\n" * 9,
    "unknown module": lambda content: b"cno_such_module\nthing\n.",
    "another object": lambda content: pickle.dumps({"a": 1}),
    "one bit": lambda content: content[:-99] + bytes([content[-99] ^ 1]) + content[-98:],
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_not_used(probe, tmp_path, damage):
    call = "print(double(21), len(compiled_kernels()))"
    assert probe(call) == "42 1"
    for file in (tmp_path / "cache").rglob("*.kernel"):
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
    first, second, third, last = (
        on_terminal(WORK.format(show=show), PYTHONPATH=paths, NUMBA_CACHE_DIR=str(tmp_path / cache))
        for show, cache in [(True, "a"), (True, "a"), (False, "b"), (True, "/dev/null/x")]
    )
    assert first.count(NOTICE) == 1
    assert NOTICE not in second
    assert third == ""
    assert NOTICE not in last
    assert "Compiling kernels (a few seconds in each process, as no folder can keep them)..." in last


def test_nothing_is_announced_where_there_is_no_terminal(probe):
    code = WORK.format(show=True).replace("from probe", "import sys; sys.stderr = sys.stdout\nfrom probe")
    assert probe(code) == ""


LIMITED = """
import time
import solvent
from solvent.core.jit import compiled_kernels
b = solvent.CMDP.builder(horizon=3, start="here", resources=["fuel"], budget=2)
b.add("here", "go", reward=1, outcomes=[(0.5, "here", 1), (0.5, "here", 0)])
b.add("here", "rest", outcomes=[(1, "here")])
began = time.perf_counter()
solution = solvent.solve(b.build(), {options})
taken = time.perf_counter() - began
print(solution.status.value, len(compiled_kernels()) > 0, solution.stats.seconds < {limit} < taken)
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
monitor, began = ResourceMonitor(100), time.perf_counter()
double(1)
monitor.check_time()
print(monitor.elapsed < 100 < 1000 <= time.perf_counter() - began)
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
monitor, began = ResourceMonitor(100), time.perf_counter()
double(1.5)
monitor.check_time()
print(monitor.elapsed < 100 < 1000 <= time.perf_counter() - began)
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
