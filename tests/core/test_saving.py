"""When a process is killed while it saves, the file is the old or the new one; stale temporary files are removed."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from saver import KINDS, savers

import effort
from solvent import ModelError
from solvent.core import files
from solvent.core.files import read_plain, write_atomically


def whole_contents(kind: str, folder: Path) -> set[bytes]:
    found = set()
    for i, save in enumerate(savers(kind)):
        path = folder / f"{i}-{KINDS[kind]}"
        save(path)
        found.add(path.read_bytes())
    assert len(found) == 2
    return found


def kill_often(kind: str, times: int, folder: Path, longest: float = 0.02) -> None:
    """Kill a saving process at random times, and check the file each time."""
    reference, place = folder / "reference", folder / "place"
    reference.mkdir()
    place.mkdir()
    path = place / KINDS[kind]
    whole = whole_contents(kind, reference)
    moments = random.Random(kind)
    seen: set[bytes] = set()
    script = Path(__file__).with_name("saver.py")
    # one process that forks is enough: imports take longer than all saves
    code = f"""
import os, sys, time, random
sys.argv = ["saver.py", {kind!r}, {str(path)!r}]
sys.path.insert(0, {str(script.parent)!r})
import saver
from pathlib import Path
both, path = saver.savers({kind!r}), Path({str(path)!r})
both[0](path)
both[1](path)
for line in sys.stdin:
    both.reverse()
    child = os.fork()
    if not child:
        while True:
            for save in both:
                save(path)
    time.sleep(float(line))
    os.kill(child, 9)
    os.waitpid(child, 0)
    print("killed", flush=True)
"""
    environment = os.environ | {"NUMBA_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(times):
        process.stdin.write(f"{moments.uniform(0, longest)}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "killed\n"
        content = path.read_bytes()
        assert content in whole, f"{kind}: {len(content)} bytes that are neither the old file nor the new one"
        seen.add(content)
    process.stdin.close()
    process.wait(20)
    process.stdout.close()
    assert [entry.name for entry in place.iterdir() if not entry.name.startswith(".solvent-")] == [path.name]
    if times >= 100 and kind != "figure":  # a figure can take longer than the time limit on a busy machine
        assert seen == whole


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_many_random_times(kind: str, tmp_path: Path) -> None:
    kill_often(kind, effort.some(100), tmp_path, 0.6 if kind == "figure" else 0.03)


def test_killed_at_a_few_random_times(tmp_path: Path) -> None:
    kill_often("json", 25, tmp_path)


def left_over(folder: Path, host: str, process: int, age: float) -> Path:
    path = folder / f".solvent-{host}-{process}-0.tmp"
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age,) * 2)
    return path


def dead_process() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


HOST = "".join(c if c.isalnum() and c.isascii() else "_" for c in socket.gethostname())[:64]


def test_only_stale_temporary_files_are_removed(tmp_path: Path) -> None:
    dead = dead_process()
    gone = [left_over(tmp_path, HOST, dead, 3600), left_over(tmp_path, "elsewhere", 1, 2 * 24 * 3600)]
    kept = [
        left_over(tmp_path, HOST, os.getpid(), 3600),  # of a running process
        left_over(tmp_path, "elsewhere", dead, 3600),  # of another host, not a day old
    ]
    fresh = tmp_path / f".solvent-{HOST}-{dead}-1.tmp"  # a process id that may belong to another container
    fresh.write_bytes(b"")
    others = [tmp_path / name for name in (".solvent-notes", "solvent-a-1-1.tmp", f".solvent-{HOST}-{dead}-0.tmp.bak")]
    for path in others:
        path.write_bytes(b"mine")
        os.utime(path, (0, 0))
    folder = tmp_path / f".solvent-{HOST}-{dead}-7.tmp"
    folder.mkdir()
    os.utime(folder, (0, 0))
    link = tmp_path / f".solvent-{HOST}-{dead}-8.tmp"
    link.symlink_to(others[0])
    write_atomically(tmp_path / "file", b"new")
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in (*kept, fresh, *others, folder, link))


def test_a_file_that_is_being_written_is_never_removed(tmp_path: Path) -> None:
    """It is locked, regardless of its name and age."""
    fcntl = pytest.importorskip("fcntl")
    path = left_over(tmp_path, HOST, dead_process(), 10 * 24 * 3600)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_atomically(tmp_path / "file", b"new")
        assert path.exists()
    write_atomically(tmp_path / "file", b"newer")
    assert not path.exists()


def test_content_and_folder_are_synced_around_the_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")  # noqa: PTH112
        sync(descriptor)

    def moved(source: Path, target: Path) -> None:
        assert source.read_bytes() == b"content"
        done.append("move")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", moved)
    write_atomically(tmp_path / "file", b"content")
    assert done == ["file", "move", "folder"]


def test_existing_temporary_names_are_skipped(tmp_path: Path) -> None:
    number = next(files._numbers)
    for i in range(1, 4):
        (tmp_path / f".solvent-{HOST}-{os.getpid()}-{number + i}.tmp").write_bytes(b"")
    write_atomically(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


def test_cyclic_links(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.symlink_to(two)
    two.symlink_to(one)
    with pytest.raises(ModelError, match="a place that can be written"):
        write_atomically(one, b"x")


def test_files_with_a_wrong_size_are_limited(tmp_path: Path) -> None:
    """Files in /proc report a size of 0."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc here")
    assert read_plain(status).startswith(b"Name")
