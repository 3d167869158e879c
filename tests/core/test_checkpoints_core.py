"""The folder of a checkpoint: what survives a crash, what is refused, and what happens when it cannot be written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import solvent
from effort import some
from interrupting import Crash, crash_after, small_pieces
from solvent.core import array_files
from solvent.core import checkpoint as checkpoints
from solvent.core.array_files import ArrayFolder
from solvent.core.checkpoint import Checkpoint, _checksum, digest
from solvent.core.interrupt import Terminated, check_interrupt
from solvent.errors import CheckpointWarning, ModelError, SolventError
from solvent.model import instances

PROBLEM = {"model": "m"}


def opened(path: Path, **options: Any) -> Checkpoint:
    return Checkpoint(path, "solve", PROBLEM, **options)


def saved_once(path: Path) -> None:
    with opened(path) as checkpoint:
        assert checkpoint.section("a", 1).save({"n": 3}, {"x": np.arange(5.0)}, {"y": np.arange(3)})


def test_arrays_replace_or_add_to_those_before(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with opened(path) as checkpoint:
        section = checkpoint.section("a", np.arange(3))
        section.save({"n": 1}, {"x": np.arange(5.0)}, {"y": np.arange(2)})
        section.save({"n": 2}, {"x": np.ones((2, 2))}, {"y": np.arange(3)})
        section.save({"n": 2}, {"z": np.zeros(1, bool)})
    with opened(path) as checkpoint:
        section = checkpoint.section("a", np.arange(3))
        assert section.state == {"n": 2}
        assert section.array("x", float, (2, 2)).tolist() == [[1, 1], [1, 1]]
        assert [each.tolist() for each in section.pieces("y", np.int64, (None,))] == [[0, 1], [0, 1, 2]]
        assert checkpoint.section("a", np.arange(4)).state == {}
        assert checkpoint.section("b", np.arange(3)).state == {}
        section.save({"n": 3}, dropped=("x", "y"))
        assert section.pieces("y", np.int64, (None,)) == []
    assert sorted(each.name for each in path.glob("*.npy")) == [section.files[0].name]


def test_equal_digests_only_for_equal_content() -> None:
    contents = [
        1, 1.0, True, "1", None, (1,), ((1,),), (1, 1), np.array(1), np.array([1]), np.array([[1]]), np.array([1.0]),
        np.array([1], np.int32), np.array([1, 0]), ("1", "1"), ("11",), (np.arange(2), 3), (np.arange(3), 2), 2**70,
    ]  # fmt: skip
    assert len({digest(each) for each in contents}) == len(contents)
    assert digest((np.arange(6).reshape(2, 3)[:, ::2], 1)) == digest((np.array([[0, 2], [3, 5]]), 1))


@pytest.mark.parametrize("after", range(1, 6))
def test_a_crash_leaves_the_last_state_or_the_one_before(tmp_path: Path, after: int) -> None:
    """Ended between any two writes, the folder has one of the two states, and what is left over is removed."""
    path, calls = tmp_path / "c", 0
    saved_once(path)

    def counted(real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == after:
                raise Crash
            return real(*arguments, **options)

        return call

    patch = pytest.MonkeyPatch()
    try:
        with opened(path) as checkpoint:
            section = checkpoint.section("a", 1)
            patch.setattr(ArrayFolder, "write", counted(ArrayFolder.write))
            patch.setattr(checkpoints, "write_atomically", counted(checkpoints.write_atomically))
            patch.setattr(ArrayFolder, "remove", counted(ArrayFolder.remove))
            patch.setattr(ArrayFolder, "flush", counted(ArrayFolder.flush))
            section.save({"n": 4}, {"x": np.zeros(4)}, {"y": np.arange(7)})
    except Crash:
        pass
    finally:
        patch.undo()
    with opened(path) as checkpoint:
        section = checkpoint.section("a", 1)
        n = section.whole("n", 3, 4)
        assert n == 3 if after <= 4 else n == 4
        assert section.array("x", float, (None,)).shape == ((5,) if n == 3 else (4,))
        assert len(section.pieces("y", np.int64, (None,))) == n - 2
        assert len(list(path.glob("*.npy"))) == n - 1


def test_other_folders_are_refused_and_left_alone(tmp_path: Path) -> None:
    for name in ("notes.txt", "00000001.npy", "20240101.npy", "x.tmp", ".hidden"):
        folder = tmp_path / f"of {name}"
        folder.mkdir()
        (folder / name).write_text("mine")
        with pytest.raises(ModelError, match="expected an empty folder or a checkpoint, found a folder with"):
            opened(folder)
        assert [each.name for each in folder.iterdir()] == [name]
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ModelError, match="expected a folder for a checkpoint, found a file"):
        opened(file)
    with pytest.raises(ModelError, match="expected a folder for a checkpoint, found No such file"):
        opened(tmp_path / "no" / "such")
    saved_once(tmp_path / "c")
    (tmp_path / "c" / "notes.txt").write_text("mine")
    with opened(tmp_path / "c") as checkpoint:
        checkpoint.section("a", 1).save({}, dropped=("x", "y"))
    assert (tmp_path / "c" / "notes.txt").read_text() == "mine"


def test_another_problem_kind_or_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c"
    saved_once(path)
    with pytest.raises(
        ModelError, match=r"model: expected the same as now, 'other', found 'm'; .*remove the folder"
    ) as e:
        Checkpoint(path, "solve", {"model": "other"})
    assert e.value.where == f"{path}, model"
    with pytest.raises(ModelError, match=r"expected a checkpoint of verify, found one of 'solve'; .*remove the folder"):
        Checkpoint(path, "verify", PROBLEM)
    with pytest.raises(ModelError, match="expected a checkpoint of verify"):
        Checkpoint(path, "verify", PROBLEM, anew=True)
    monkeypatch.setattr(checkpoints, "__version__", "0.0.0")
    with pytest.raises(ModelError, match=r"expected a checkpoint of Solvent 0\.0\.0, found one of .*remove the folder"):
        opened(path)
    with opened(path, anew=True) as checkpoint:
        assert checkpoint.section("a", 1).state == {}
    assert not list(path.glob("*.npy"))


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "c"
    code = f"""
import sys, pathlib
from solvent.core.checkpoint import Checkpoint
with Checkpoint(pathlib.Path({str(path)!r}), "solve", {PROBLEM!r}):
    print("open", flush=True)
    sys.stdin.read()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    with pytest.raises(ModelError, match="expected a checkpoint that no other process uses, found one in use"):
        opened(path)
    process.communicate()
    assert process.returncode == 0
    opened(path).close()


def damaged(path: Path, copy: Path, name: str, content: bytes) -> Path:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    (copy / name).write_bytes(content)
    return copy


def use(path: Path) -> None:
    with opened(path) as checkpoint:
        section = checkpoint.section("a", 1)
        section.array("x", float, (5,))
        section.pieces("y", np.int64, (None,))
        section.whole("n", 0, 9)


def message(call: Any) -> str:
    """Return the error that a call raises; empty if it does not."""
    try:
        call()
    except SolventError as error:
        return str(error)
    return ""


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "c"
    saved_once(path)
    for name in sorted(each.name for each in path.iterdir() if each.name != "lock"):
        content = (path / name).read_bytes()
        changes = [content[:k] for k in (0, 1, 127, 128, len(content) - 1)] + [content + b"0"]
        for at in range(len(content)):
            changes.append(content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :])
        for changed in changes:
            copy = damaged(path, tmp_path / "copy", name, changed)
            said = message(partial(use, copy))
            assert "remove the folder" in said or json.loads(changed) == json.loads(content), name


def test_files_that_are_missing_or_something_else(tmp_path: Path) -> None:
    path = tmp_path / "c"
    saved_once(path)
    first = min(path.glob("*.npy")).name
    for make in (Path.mkdir, os.mkfifo, lambda file: file.symlink_to("/dev/zero"), lambda file: None):
        copy = damaged(path, tmp_path / "copy", first, b"")
        (copy / first).unlink()
        make(copy / first)
        with opened(copy) as checkpoint, pytest.raises(ModelError, match="remove the folder"):
            checkpoint.section("a", 1).array("x", float, (5,))
        shutil.rmtree(copy)
    (path / "checkpoint.json").unlink()
    (path / "checkpoint.json").mkdir()
    with pytest.raises(ModelError, match="expected a folder for a checkpoint, found Is a directory"):
        opened(path)


def rewritten(path: Path, change: Any) -> None:
    """Change the content of checkpoint.json, and make its checksum valid again."""
    content = json.loads((path / "checkpoint.json").read_text())
    content.pop("checksum")
    change(content)
    content["checksum"] = _checksum(content)
    (path / "checkpoint.json").write_text(json.dumps(content))


def test_hostile_manifests(tmp_path: Path) -> None:
    path = tmp_path / "c"
    saved_once(path)

    def section_of(content: Any) -> Any:
        return next(iter(content["sections"].values()))

    def describe(entry: Any) -> Any:
        return lambda content: section_of(content)["arrays"].update(x=[entry])

    changes = [
        describe([1, "<f8", [2**60], 0]),
        describe([1, "<f8", [-5], 0]),
        describe([1, "|O", [5], 0]),
        describe([1, "<f1", [5], 0]),
        describe([1, "<f8", [5] * 40, 0]),
        describe([1, "<f8", [5, 0], 0]),
        describe(["../../x", "<f8", [5], 0]),
        describe([True, "<f8", [5], 0]),
        describe(None),
        lambda content: section_of(content).update(state=[1]),
        lambda content: section_of(content).update(arrays=3),
        lambda content: content.update(sections={"a": None}),
        lambda content: content.update(sections=[]),
        lambda content: section_of(content)["state"].update(n="3"),
        lambda content: section_of(content)["state"].update(n=10**400),
    ]
    for change in changes:
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy)
        rewritten(copy, change)
        with pytest.raises(ModelError, match="remove the folder"):
            use(copy)
    for text in (b"", b"[]", b"null", b"{}", b'{"checksum": 1}', b"[" * 100_000, b"\xff\xfe", b"1e999"):
        copy = damaged(path, tmp_path / "copy", "checkpoint.json", text)
        with pytest.raises(ModelError, match="remove the folder"):
            opened(copy)


def test_a_full_disk_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, full = tmp_path / "c", True
    write = array_files.ArrayWriter._write

    def fail(self: Any, content: Any) -> None:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, content)

    saved_once(path)
    with opened(path) as checkpoint:
        section = checkpoint.section("a", 1)
        monkeypatch.setattr(array_files.ArrayWriter, "_write", fail)
        with pytest.warns(CheckpointWarning, match="continues without it: No space left"):
            assert not section.save({"n": 4}, {"x": np.zeros(4)})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not section.save({"n": 5}, {"x": np.zeros(5)})
        assert checkpoint.error == "No space left on device"
        assert section.state == {"n": 3}
        assert section.array("x", float, (5,)).tolist() == [0, 1, 2, 3, 4]
        full = False
        assert section.save({"n": 6}, {"x": np.zeros(6)})
        assert checkpoint.error == ""
    with opened(path) as checkpoint:
        assert checkpoint.section("a", 1).array("x", float, (6,)).tolist() == [0] * 6


def test_a_manifest_that_cannot_be_replaced_keeps_the_state_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    saved_once(path)
    with opened(path) as checkpoint:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
            with pytest.warns(CheckpointWarning):
                assert not checkpoint.section("a", 1).save({"n": 9}, {"x": np.zeros(9)})
            assert not checkpoint.section("b", 1).save({"n": 9}, {"x": np.zeros(9)})
        with monkeypatch.context() as patch:
            patch.setattr(ArrayFolder, "remove", lambda *names: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
            assert checkpoint.section("a", 1).save({"n": 7}, {"x": np.zeros(7)}), "what is left over does no harm"
    with opened(path) as checkpoint:
        assert checkpoint.section("a", 1).array("x", float, (7,)).tolist() == [0] * 7
        assert checkpoint.section("b", 1).state == {}
        assert len(list(path.glob("*.npy"))) == 2


def test_a_computation_goes_on_without_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = instances.random(3, 2, horizon=6, resources=2, cost_range=(0, 3), budget=12, seed=3)
    expected = solvent.solve(model, method="reduction")

    def fail(self: Any, content: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(array_files.ArrayWriter, "_write", fail)
        with pytest.warns(CheckpointWarning) as given:
            found = solvent.solve(model, method="reduction", checkpoint=tmp_path / "c", checkpoint_every=0)
    assert len(given) == 1
    assert found.value == expected.value
    assert solvent.solve(model, method="reduction", checkpoint=tmp_path / "c").value == expected.value


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_held_back_until_the_state_is_saved(tmp_path: Path, number: int) -> None:
    code = f"""
import pathlib, signal, numpy as np
from solvent.core.checkpoint import Checkpoint
from solvent.core.limits import ResourceMonitor
with Checkpoint(pathlib.Path({str(tmp_path / "c")!r}), "solve", {PROBLEM!r}) as checkpoint:
    monitor = ResourceMonitor(checkpoint=checkpoint)
    section = checkpoint.section("a", 1)
    for n in range(9):
        if monitor.should_save():
            section.save({{"n": n}}, {{"x": np.full(3, n)}})
        monitor.check_time()
        with monitor.postponed():
            if n == 4:
                signal.raise_signal({int(number)})
            monitor.check_time()
    print("not interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "not interrupted" not in done.stdout
    assert done.returncode == -number or (number == signal.SIGINT and "KeyboardInterrupt" in done.stderr), done
    with opened(tmp_path / "c") as checkpoint:
        assert checkpoint.section("a", 1).whole("n", 0, 9) == 5


def test_terminated_is_raised_only_where_sigterm_would_end_the_process(tmp_path: Path) -> None:
    with opened(tmp_path / "c"):
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        with pytest.raises(Terminated):  # noqa: PT012
            signal.raise_signal(signal.SIGTERM)
            check_interrupt()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    seen: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with opened(tmp_path / "c"):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert seen == [signal.SIGTERM]


#: A model and a computation for each kind of section.
COMPUTATIONS: dict[str, Any] = {
    "layers": lambda **options: solvent.solve(_rolls(2, horizon=5), method="reduction", **options),
    "hashed": lambda **options: solvent.solve(_rolls(2, horizon=4, real_costs=True), method="reduction", **options),
    "points": lambda **options: solvent.solve(_rolls(1, real_costs=True), method="frontier", **options),
    "arrays": lambda **options: solvent.solve(_rolls(1, horizon=9), approximation="additive", epsilon=1, **options),
    "grid": lambda **options: solvent.solve(_rolls(2), method="grid", **options),
    "labels": lambda **options: solvent.solve(_certain(2), method="labels", **options),
    "path": lambda **options: solvent.solve(_certain(1), method="labels", **options),
    "curve": lambda **options: solvent.frontier(_rolls(1), **options),
    "surface": lambda **options: solvent.frontier(_rolls(2), ["r0", "r1"], **options),
    "gap": lambda **options: solvent.solve(_rolls(2, horizon=4, real_costs=True), gap=0.05, **options),
    "verify": lambda **options: solvent.verify(*_over_budget(), **options),
}


def _rolls(resources: int, horizon: int = 6, **options: Any) -> solvent.CMDP:
    return instances.random(
        3,
        2,
        horizon=horizon,
        resources=resources,
        cost_range=(0, 3),
        budget=2 * horizon,
        seed=3,
        branching=2,
        **options,
    )


def _certain(resources: int) -> solvent.CMDP:
    given = {"cost_range": (-1, 2), "real_costs": True, "budget": 4, "branching": 1, "seed": 0}
    return instances.random(4, 3, horizon=10, resources=resources, **given)


def _over_budget() -> tuple[Any, ...]:
    model = _rolls(2)
    return model, np.zeros((model.horizon, model.n_states), int), {"r0": 9, "r1": 9}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_hostile_sections_never_crash(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content that was changed, with valid checksums, is refused or used, but nothing else happens."""
    rng, refused = Random(7), 0
    monkeypatch.setattr("solvent.solvers.transforms.gap._FIRST_TRY", 1)
    if name == "arrays":
        monkeypatch.setattr("solvent.solvers.frontier.bounds.DENSE_FROM", 0)
    with small_pieces():
        with crash_after(None) as saved:
            COMPUTATIONS[name](checkpoint=tmp_path / "whole", checkpoint_every=0)
        for number in sorted({1, 2, len(saved) // 2, len(saved) - 1} & set(range(1, len(saved) + 1))):
            path = tmp_path / str(number)
            with crash_after(number):
                COMPUTATIONS[name](checkpoint=path, checkpoint_every=0)
            for trial in range(some(8)):
                copy = tmp_path / "copy"
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(path, copy)
                _change(copy, rng)
                limits = {"memory_limit": "200MB", "time_limit": 20}
                said = message(partial(COMPUTATIONS[name], checkpoint=copy, checkpoint_every=0, **limits))
                refused += "remove the folder" in said
                # other values lead to a result, or contradict each other in the end
                others = ("remove the folder", "please report", "found by the search", "limit")
                assert not said or any(each in said for each in others), trial
    assert refused


def _change(path: Path, rng: Random) -> None:
    """Change a number of the state, or an entry or the length of an array, and make all checksums valid again."""
    content = json.loads((path / "checkpoint.json").read_text())
    content.pop("checksum")
    section = rng.choice(list(content["sections"].values()))
    numbers = [key for key, value in section["state"].items() if isinstance(value, int)]
    if numbers and rng.random() < 0.2:
        key = rng.choice(numbers)
        section["state"][key] = rng.choice([-1, 0, 1, 2**40, 2**62, section["state"][key] + rng.choice([-1, 1])])
    elif section["arrays"]:
        files = rng.choice(list(section["arrays"].values()))
        at = rng.randrange(len(files))
        file = path / f"{files[at][0]:08d}.npy"
        array = np.load(file)
        if array.size and rng.random() < 0.8:
            flat = array.reshape(-1)
            kind = array.dtype.kind
            for _ in range(rng.choice([1, 1, 5])):
                values = {"f": [np.nan, np.inf, -np.inf, 1e300, 0.0], "b": [True, False]}.get(
                    kind, [0, 1, -1, 127, 2**31 - 1, -(2**31), 2**62, -(2**63)]
                )
                info = np.iinfo(array.dtype) if kind in "iu" else None
                value = rng.choice(values)
                flat[rng.randrange(array.size)] = value if info is None else min(max(value, info.min), info.max)
        else:
            array = np.resize(array, (*array.shape[:-1], max(array.shape[-1] + rng.choice([-1, 1, 7]), 0)))
        file.unlink()
        writer = array_files.ArrayWriter(file, array.dtype)
        writer.append(array)
        files[at] = writer.close(array.shape).to_json()
    content["checksum"] = _checksum(content)
    (path / "checkpoint.json").write_text(json.dumps(content))


def test_saving_takes_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with opened(tmp_path / "c", every=60) as checkpoint:
        assert not checkpoint.due
        now[0] += 60
        assert checkpoint.due
        write = ArrayFolder.write

        def slow(self: ArrayFolder, array: Any) -> Any:
            now[0] += 30
            return write(self, array)

        monkeypatch.setattr(ArrayFolder, "write", slow)
        checkpoint.section("a").save({}, {"x": np.zeros(1)})
        now[0] += 299
        assert not checkpoint.due, "a save of 30 seconds is followed by 300 without one"
        now[0] += 2
        assert checkpoint.due
