"""Sweeps in parts: the same values and best rows, bit for bit, for any number of parts and wherever they are kept."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from test_grid import random_model

import solvent
from bench.peers.workloads import two_resource_grid
from solvent import instances
from solvent.core import array_files
from solvent.core.checkpoint import Checkpoint
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.model.budget import resolve
from solvent.solvers.grid import spilled, sweep
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.parts import Exchange, Part, split_states
from solvent.solvers.grid.runs import KeptRuns, StoredRuns
from solvent.solvers.grid.spilled import plan_parts, sweep_parts
from solvent.solvers.grid.swept import Swept
from solvent.solvers.problem import Problem


def layout_of(model, budget) -> BoxLayout:
    problem = Problem.exact(model, resolve(model, budget))
    return BoxLayout.at_start(problem.model, problem.lattice, ResourceMonitor())


def rows_of(swept: Swept, h: int) -> list[int]:
    """Return the best row of every amount of a step, state by state."""
    boxes, runs = swept.layout.boxes, swept.runs
    found, _ = runs.from_step(h)
    start, row = (each[found.first_H[h] : found.end_H[h]] for each in found[:2])
    rows: list[int] = []
    for s in range(swept.layout.model.n_states):
        count = int(np.prod(boxes.width[h, s]))
        at = boxes.cell[h, s] + np.arange(count)
        rows += row[np.searchsorted(start, at, side="right") - 1].tolist() if count else []
    return rows


def assert_same(found: Swept, expected: Swept) -> None:
    """Check that two sweeps of a problem have the same result."""
    boxes, last = expected.layout.boxes, expected.layout.boxes.width.shape[2] - 1
    pitch = int(boxes.pitch_H[0])
    for s in range(expected.layout.model.n_states):
        for line in range(int(boxes.offset[0, s]), int(boxes.offset[0, s + 1]), pitch):
            used = slice(line, line + int(boxes.width[0, s, last]))
            assert found.value[used].tobytes() == expected.value[used].tobytes()
    for h in range(expected.layout.model.horizon):
        assert rows_of(found, h) == rows_of(expected, h)
    for field in fields(expected.extremes):
        np.testing.assert_array_equal(getattr(found.extremes, field.name), getattr(expected.extremes, field.name))


@pytest.mark.parametrize("n_resources", [1, 2, 3])
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
    parts = [Part.of(layout, own) for own in sets]
    # a strip of two lines of the grid has neighbors in at most one line on either side
    assert max(len(part.halo) for part in parts) <= 24
    exchange = Exchange.between(parts, model.n_states)
    assert max(map(len, exchange.senders)) <= 3


def line(n_states: int = 16, horizon: int = 24) -> solvent.CMDP:
    """Return a model of states in a line, each with many amounts."""
    rng = np.random.default_rng(3)
    b = solvent.CMDP.builder(horizon=horizon, start=0, resources=["fuel", "time"], budget={"fuel": 200, "time": 190})
    for s in range(n_states):
        for a in range(3):
            after = [min(s + k, n_states - 1) for k in (0, 1)]
            # the same costs wherever it leads to, so that few of the amounts are reached
            cost = [int(c) for c in rng.integers(0, 1 + 8 * a, 2)]
            outcomes = [(0.5, t, cost) for t in after]
            b.add(s, a, reward=float(rng.random() + a), outcomes=outcomes)
    return b.build()


def little_memory(model, share: float) -> int:
    """Return a memory limit that does not suffice for the values of a step."""
    layout = layout_of(model, None)
    return layout.bytes + int(share * layout.peak_bytes)


def assert_same_solution(found: solvent.Solution, expected: solvent.Solution) -> None:
    """Check that two solutions agree, bit for bit."""
    assert found.status == expected.status
    assert (found.value, found.value_lower, found.value_upper) == (
        expected.value, expected.value_lower, expected.value_upper,
    )  # fmt: skip
    assert found.policy == expected.policy
    assert found.worst_spent == expected.worst_spent


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
    with pytest.raises(LimitReached, match="could not be written to disk: No space left"):
        sweep_parts(layout, sets, ResourceMonitor())


def test_a_state_that_does_not_fit_is_a_limit():
    model = two_resource_grid(8)
    solution = solvent.solve(model, method="grid", memory_limit=layout_of(model, None).bytes + 1000)
    assert solution.status == "limit"
    assert "memory limit" in solution.message


class Stop(Exception):  # noqa: N818
    """Ends a sweep."""


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
