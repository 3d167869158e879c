"""Sweeps in parts: the same values and best rows, bit for bit, for any number of parts and wherever they are kept."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

import solvent
from bench.peers.workloads import two_resource_grid
from effort import some
from interrupting import crash_after, small_pieces
from solvent import instances
from solvent.core import array_files
from solvent.core.checkpoint import Checkpoint
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import ModelError
from solvent.solvers.grid import spilled, sweep
from solvent.solvers.grid.parts import Part
from solvent.solvers.grid.runs import KeptRuns, StoredRuns
from solvent.solvers.grid.spilled import plan_parts, sweep_parts
from solvent.solvers.parts import Exchange, split_states
from sweeps import Stop, assert_same, assert_same_solution, layout_of, line, little_memory, random_model


@pytest.mark.parametrize("n_resources", [2, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 3))])
def test_any_number_of_parts(n_resources):
    several = 0
    for seed in range(25):
        model, budget = random_model(40_000 + 100 * n_resources + seed, n_resources, features=True)
        layout = layout_of(model, budget)
        expected = sweep.sweep(layout, ResourceMonitor())
        assert isinstance(expected.runs, KeptRuns)
        for n_parts in (1, 2, 3, 5):
            sets = plan_parts(layout, 2**62, least=n_parts)
            several += len(sets) > 2
            found = sweep_parts(layout, sets, ResourceMonitor())
            assert isinstance(found.runs, StoredRuns)
            assert_same(found, expected)
    assert several > 20


def test_states_are_split_along_transitions():
    model = instances.fuel_grid(8)
    sets = split_states(model, np.ones(model.n_states), 4)
    assert sorted(np.concatenate(sets).tolist()) == list(range(model.n_states))
    assert all(14 <= len(each) <= 18 for each in sets)
    layout = layout_of(model, None)
    parts = Part.all_of(layout, sets)
    # a strip of two lines of the grid has neighbors in at most one line on either side
    assert max(len(part.halo) for part in parts) <= 24
    exchange = Exchange.between(parts, model.n_states)
    assert max(map(len, exchange.senders)) <= 3


@pytest.fixture
def in_parts(monkeypatch) -> list[int]:
    """The number of parts of each sweep in parts."""
    used: list[int] = []
    usual = spilled.sweep_parts
    monkeypatch.setattr(sweep, "sweep_parts", lambda *given: used.append(len(given[1])) or usual(*given))
    return used


@pytest.mark.parametrize("method", ["grid", "auto"])
def test_values_that_do_not_fit_are_kept_on_disk(in_parts, method):
    model = line()
    whole = solvent.solve(model, method="grid")
    assert not in_parts
    found = solvent.solve(model, method=method, memory_limit=little_memory(model, 0.7))
    assert in_parts
    assert in_parts[0] > 1
    assert_same_solution(found, whole)
    assert solvent.verify(model, found).value == pytest.approx(whole.value)


@pytest.mark.slow
def test_any_amount_of_memory_from_the_least_on_suffices():
    """Values may fit into memory while the runs of all steps do not."""
    rng = np.random.default_rng(0)
    b = solvent.CMDP.builder(
        horizon=40, start={0: 0.5, 1: 0.5}, resources=["fuel", "time"], budget={"fuel": 40, "time": 40}
    )
    for s in range(40):
        for a in range(4):
            cost = [int(c) for c in rng.integers(0, 2 + a, 2)]
            b.add(s, a, reward=float(rng.random() + a / 2), outcomes=[(1, (s + a + 1 if a < 2 else s - a) % 40, cost)])
    model = b.build()
    whole = solvent.solve(model, method="grid")
    layout = layout_of(model, None)
    for share in (0.9, 1.05, 1.5, 2.0, 3.0, 5.0):
        limit = 2 * layout.bytes + int(share * layout.peak_bytes)
        assert_same_solution(solvent.solve(model, method="grid", memory_limit=limit), whole)


def test_a_gap_is_not_closed_on_disk(in_parts):
    model = line()
    solution = solvent.solve(model, gap=0.001, memory_limit=little_memory(model, 0.1))
    assert solution.value_lower <= solvent.solve(model).value <= solution.value_upper
    assert not in_parts


def test_a_surface_on_disk(in_parts, monkeypatch):
    model, most = line(), {"fuel": 150, "time": 150}
    expected = solvent.frontier(model, ["fuel", "time"], max_budget=most)
    monkeypatch.setattr(ResourceMonitor, "has_room_for", lambda self, size: False)
    monkeypatch.setattr(sweep, "plan_parts", lambda layout, room: plan_parts(layout, 2**62, least=3))
    found = solvent.frontier(model, ["fuel", "time"], max_budget=most)
    assert in_parts == [3]
    np.testing.assert_array_equal(found.table, expected.table)


def test_no_temporary_files_are_left(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(array_files.tempfile, "tempdir", None)
    layout = layout_of(two_resource_grid(5), None)
    found = sweep_parts(layout, plan_parts(layout, 2**62, least=2), ResourceMonitor())
    (folder,) = tmp_path.iterdir()
    assert len(list(folder.glob("*.npy"))) == 2 * layout.model.horizon + 2
    del found
    assert not list(tmp_path.iterdir())


def test_folders_of_killed_processes_are_removed(monkeypatch, tmp_path):
    monkeypatch.setattr(array_files.tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "solvent-spill-abc"
    left.mkdir()
    (left / "lock").touch()
    (left / "00000001.npy").touch()
    used = array_files.temporary_folder()
    array_files.temporary_folder()
    assert [each.name for each in tmp_path.iterdir()] == [used.path.name]


def test_a_full_disk_is_a_limit(monkeypatch):
    layout = layout_of(two_resource_grid(5), None)
    sets = plan_parts(layout, 2**62, least=2)
    monkeypatch.setattr("solvent.solvers.grid.record.shutil.disk_usage", lambda path: type("U", (), {"free": 1000})())
    with pytest.raises(LimitReached, match=r"values need .* MB on disk.*set TMPDIR"):
        sweep_parts(layout, sets, ResourceMonitor())
    monkeypatch.undo()

    def fail(self, array):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(array_files.ArrayWriter, "append", fail)
    with pytest.raises(LimitReached, match="could not be written to disk: No space left on device; set TMPDIR to"):
        sweep_parts(layout, sets, ResourceMonitor())


def test_a_full_disk_of_a_checkpoint_is_a_limit(monkeypatch, tmp_path):
    """What is on it already does not count when a computation goes on."""
    layout = layout_of(two_resource_grid(5), None)
    assert go_on(layout, tmp_path / "run.ckpt", 2, 3) is None
    stored_H = layout.sizes.stored_H
    usage = type("U", (), {"free": 8 * int((stored_H[1:] + stored_H[:-1]).max()) - 1})()  # too little for two steps
    monkeypatch.setattr("solvent.solvers.grid.record.shutil.disk_usage", lambda path: usage)
    with pytest.raises(LimitReached, match=r"values need .* MB on disk.*; give a checkpoint on a larger disk"):
        go_on(layout, tmp_path / "other.ckpt", 2, None)
    assert_same(go_on(layout, tmp_path / "run.ckpt", 2, None), sweep.sweep(layout, ResourceMonitor()))


def test_a_state_that_does_not_fit_is_a_limit():
    model = two_resource_grid(8)
    solution = solvent.solve(model, method="grid", memory_limit=layout_of(model, None).bytes + 1000)
    assert solution.status == "limit"
    assert "memory limit" in solution.message


@pytest.mark.parametrize("n_parts", [1, 3])
def test_parts_go_on_from_a_checkpoint(monkeypatch, tmp_path, n_parts):
    model = two_resource_grid(4)
    layout = layout_of(model, None)
    expected = sweep.sweep(layout, ResourceMonitor())
    sets = plan_parts(layout, 2**62, least=n_parts)
    swept: list[int] = []
    usual = spilled._sweep_step

    def some_steps(record, h, buffers, monitor):
        if len(swept) % 3 == 2:
            swept.append(-1)
            raise Stop
        swept.append(h)
        usual(record, h, buffers, monitor)

    monkeypatch.setattr(spilled, "_sweep_step", some_steps)
    for attempt in range(100):
        monitor = ResourceMonitor()
        try:
            with Checkpoint(tmp_path / "run.ckpt", "solve", {}, 0.0) as monitor.checkpoint:
                found = sweep_parts(layout, sets, monitor)
                assert_same(found, expected)
                break
        except Stop:
            assert attempt < 99
    done = [h for h in swept if h >= 0]
    assert done == sorted(done, reverse=True)
    assert sorted(set(done)) == list(range(model.horizon))
    # what was saved last is repeated at most once
    assert len(done) <= model.horizon + swept.count(-1)


def test_files_of_another_problem_are_not_used(tmp_path: Path):
    for n in (3, 4):
        monitor = ResourceMonitor()
        layout = layout_of(two_resource_grid(n), None)
        with Checkpoint(tmp_path / "run.ckpt", "solve", {}, 0.0) as monitor.checkpoint:
            found = sweep_parts(layout, plan_parts(layout, 2**62, least=2), monitor)
            assert_same(found, sweep.sweep(layout, ResourceMonitor()))


def go_on(layout, path: Path, n_parts: int, saves: int | None):
    """Sweep with a checkpoint in some parts, or in memory if there are 0; None if it ended after some saves."""
    monitor, found = ResourceMonitor(), None
    with crash_after(saves), Checkpoint(path, "solve", {}, 0.0) as monitor.checkpoint:
        if n_parts:
            found = sweep_parts(layout, plan_parts(layout, 2**62, least=n_parts), monitor)
        else:
            found = sweep.sweep(layout, monitor)
    return found


def test_a_checkpoint_goes_on_with_other_parts(tmp_path: Path):
    """In memory, or in any number of parts, at every start."""
    used = set()
    for seed in range(some(96)):
        rng = Random(seed)
        model, budget = random_model(45_000 + seed, 1 + seed % 3, features=True)
        layout = layout_of(model, budget)
        expected = sweep.sweep(layout, ResourceMonitor())
        found, ways = None, []
        with small_pieces():
            while found is None:
                ways.append(rng.choice([0, 0, 1, 2, 3, 5]))
                found = go_on(
                    layout, tmp_path / str(seed), ways[-1], rng.choice([1, 2, 3, 4])
                )  # the first save is of no new step
        assert len(ways) <= 100
        used |= set(pairwise(ways))
        assert_same(found, expected)
        assert_same(go_on(layout, tmp_path / str(seed), rng.choice([0, 2]), None), expected)
    assert {(0, 2), (2, 0), (2, 3), (3, 2)} <= used


def test_a_checkpoint_without_steps_goes_on_with_other_parts(tmp_path: Path):
    layout = layout_of(two_resource_grid(3), None)
    for n_parts in (2, 3, 4):
        assert go_on(layout, tmp_path / "run.ckpt", n_parts, 1) is None
    assert_same(go_on(layout, tmp_path / "run.ckpt", 2, None), sweep.sweep(layout, ResourceMonitor()))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("order", lambda array: array * 0, "order: expected every state once"),
        ("order", lambda array: array[:, ::2], "order: expected int64 of shape"),
        ("first_step", lambda array: array + 1, "first_step: expected steps from at most"),
        ("first_step", lambda array: np.append(array, array), "order: expected int64 of shape"),
        ("part_sizes", lambda array: array + 1, "part_sizes: expected numbers of states, 16 in total"),
        ("part_sizes", lambda array: np.append(array, 0), "part_sizes: expected numbers of states, 16 in total"),
        ("part_sizes", lambda array: array + np.array([1, -1]), "value: expected values of 2 parts"),
        ("extremes", lambda array: array + np.nan, "extremes: expected finite numbers"),
    ],
)
def test_damaged_parts_of_a_checkpoint_are_refused(tmp_path: Path, name, content, message):
    layout = layout_of(two_resource_grid(4), None)
    path = tmp_path / "run.ckpt"
    assert go_on(layout, path, 2, 5) is None
    with Checkpoint(path, "solve", {}, 0.0) as checkpoint:
        (section,) = checkpoint._sections.values()
        (file,) = section._files[name]
        assert section.save(section.state, {name: content(checkpoint.folder.read(file))})
    with pytest.raises(ModelError, match=message):
        go_on(layout, path, 3, None)
