"""Available memory: limits of the system, the container and the process."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import solvent
from effort import slow_after
from solvent.core import limits, memory
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.core.memory import container_memory, free_memory

SOURCE = Path(solvent.__file__).parents[1]
MB = 1_000_000


@pytest.fixture
def root(tmp_path):
    """Return a folder that looks like the root of a system with 8 GB available and no container."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    return tmp_path


def group(root, path, **files):
    """Write the files of a control group; a double underscore in a name stands for a dot."""
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def test_the_system_alone(root):
    assert free_memory(root) == 8_000_000 * 1024
    assert container_memory(root) is None


def test_no_information(tmp_path):
    assert free_memory(tmp_path) == 2 * 10**9


def test_version_2(root):
    (root / "proc/self/cgroup").write_text("0::/pod/box\n")
    group(
        root, "pod/box", memory__max=500 * MB, memory__current=300 * MB, memory__stat=f"anon 1\ninactive_file {80 * MB}"
    )
    assert container_memory(root) == 280 * MB
    assert free_memory(root) == 280 * MB


def test_a_parent_may_have_a_lower_limit(root):
    (root / "proc/self/cgroup").write_text("0::/pod/box\n")
    group(root, "pod/box", memory__max="max", memory__current=10 * MB, memory__stat="inactive_file 0")
    group(root, "pod", memory__max=400 * MB, memory__current=350 * MB, memory__stat="inactive_file 0")
    assert container_memory(root) == 50 * MB


def test_version_1(root):
    (root / "proc/self/cgroup").write_text("5:cpu:/\n4:memory,hugetlb:/docker/abc\n0::/\n")
    group(
        root, "memory/docker/abc", memory__limit_in_bytes=700 * MB, memory__usage_in_bytes=600 * MB,
        memory__stat=f"total_inactive_file {50 * MB}",
    )  # fmt: skip
    group(root, "memory", memory__limit_in_bytes=9223372036854771712, memory__usage_in_bytes=900 * MB)
    assert container_memory(root) == 150 * MB


def test_the_path_may_not_exist_within_a_container(root):
    (root / "proc/self/cgroup").write_text("4:memory:/docker/abc\n")
    group(root, "memory", memory__limit_in_bytes=700 * MB, memory__usage_in_bytes=650 * MB)
    assert container_memory(root) == 50 * MB


def test_more_used_than_allowed_leaves_nothing(root):
    (root / "proc/self/cgroup").write_text("0::/\n")
    group(root, "", memory__max=100 * MB, memory__current=120 * MB, memory__stat="inactive_file 0")
    assert free_memory(root) == 0


@pytest.mark.parametrize("text", ["", "nonsense", "0::", "4:memory"])
def test_invalid_files(root, text):
    (root / "proc/self/cgroup").write_text(text)
    group(root, "", memory__max="many", memory__current="")
    assert free_memory(root) == 8_000_000 * 1024


def test_free_memory_is_the_limit_if_there_is_no_other(monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: 1000 * MB)
    monitor = ResourceMonitor()
    monitor.reserve(600 * MB, "most of it")
    with pytest.raises(LimitReached, match=r"too much would need 1,400 MB, more than the 1,300 MB of free memory"):
        monitor.reserve(800 * MB, "too much")


def test_a_container_counts_in_addition_to_a_limit(monkeypatch):
    monkeypatch.setattr(limits, "hard_memory", lambda: 100 * MB)
    monitor = ResourceMonitor(bytes=8000 * MB)
    with pytest.raises(LimitReached, match=r"more than the 70 MB of free memory"):
        monitor.reserve(90 * MB, "this")


def run(code, size, seconds=120):
    """Run code in a process whose address space is limited, and return its exit code and what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=seconds,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


SOLVE = """
import solvent
from solvent import instances
try:
    for model in (instances.fuel_grid(4), instances.paper(60, budget=30)):
        print(solvent.solve(model, method="reduction", prune=False).message)
except solvent.LimitError as error:
    print("LimitError", error)
"""


@pytest.mark.parametrize("size", slow_after(1, [300, 700, 200, 400, 450, 500, 550]))
def test_too_little_address_space_is_an_error(size):
    """LLVM would end the process, or hang."""
    code, out, err = run(SOLVE, size * MB)
    assert code == 0, err[-1000:]
    assert "ulimit -v" in out or "of free memory" in out


@pytest.mark.parametrize("size", [150, 300])
def test_the_command_line_checks_address_space_before_it_starts(size):
    code, out, err = run("import sys; from solvent.cli import main; sys.exit(main(['schema']))", size * MB)
    assert (code, out) == (3, "")
    assert "error: Solvent needs about 360 MB of address space" in err
    assert "(ulimit -v)" in err


def test_errors_of_libraries_without_address_space(monkeypatch):
    monkeypatch.setattr(limits, "process_memory", lambda: 5 * MB)
    message = r"memory ran out within the limits of this process \(ulimit -v\)"
    with pytest.raises(LimitReached, match=message), ResourceMonitor():
        raise SystemError("error return without exception set")
    monkeypatch.setattr(limits, "process_memory", lambda: None)
    with pytest.raises(SystemError), ResourceMonitor():
        raise SystemError("something else")


def test_process_memory(monkeypatch):
    assert memory.process_memory() is None or memory.process_memory() > 0
    code, out, err = run("from solvent.core.memory import *; print(process_memory(), free_memory())", 300 * MB)
    assert code == 0, err
    left, free = map(int, out.split())
    assert 0 < free <= left < 300 * MB
