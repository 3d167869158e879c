"""Sweeps on a Ray cluster: the same bits as in one process, also when workers are lost."""

from __future__ import annotations

import numpy as np
import pytest

import effort
import solvent
from interrupting import crash_after
from losses import at_waits, doomed_workers, kill, slow_workers
from solvent.core.checkpoint import Checkpoint
from solvent.core.engines import RayEngine
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import SolventError
from solvent.model import instances
from solvent.solvers.engines import actors, ray_grid
from solvent.solvers.engines.ray_grid import sweep_on_ray
from solvent.solvers.grid import sweep
from solvent.solvers.transforms import gap
from sweeps import Stop, assert_same, assert_same_solution, layout_of, line, random_model

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


def test_random_models(engine):
    for seed in range(3):
        model, budget = random_model(50_000 + seed, 1 + seed % 3, features=True)
        layout = layout_of(model, budget)
        assert_same(sweep_on_ray(layout, engine, ResourceMonitor()), sweep.sweep(layout, ResourceMonitor()))


def test_a_solution(engine, monkeypatch):
    monkeypatch.setattr(sweep, "DISTRIBUTED_FROM", 0)
    used = []
    monkeypatch.setattr(sweep, "sweep_on_ray", lambda *given: used.append(1) or sweep_on_ray(*given))
    model = line()
    assert_same_solution(solvent.solve(model, method="grid", engine=engine), solvent.solve(model, method="grid"))
    assert used
    names, most = ["fuel", "time"], {"fuel": 60, "time": 60}
    found = solvent.frontier(model, names, max_budget=most, engine=engine)
    np.testing.assert_array_equal(found.table, solvent.frontier(model, names, max_budget=most).table)
    assert len(used) == 2


def test_rounds_share_their_actors(engine, monkeypatch):
    monkeypatch.setattr(sweep, "DISTRIBUTED_FROM", 0)
    monkeypatch.setattr(gap, "_FIRST_TRY", 1)
    monkeypatch.setattr(gap, "_FIRST_AMOUNTS", (4, 4))
    used, started = [], set()
    monkeypatch.setattr(sweep, "sweep_on_ray", lambda *given: used.append(1) or sweep_on_ray(*given))
    usual = actors.Actors._start

    def start(self):
        usual(self)
        started.update(handle._actor_id.hex() for handle in self._handles)

    monkeypatch.setattr(actors.Actors, "_start", start)
    given = {"horizon": 4, "resources": 2, "cost_range": (0, 3), "branching": 2, "seed": 3}
    model = instances.random(3, 2, budget=8, real_costs=True, **given)
    expected = solvent.solve(model, gap=0.05)
    found = solvent.solve(model, gap=0.05, engine=engine)
    assert len(used) > 2
    assert len(started) == 2
    assert engine.idle_actors is None
    assert engine.call(lambda: 3) == 3  # processors are free again
    assert_same_solution(found, expected)


@pytest.mark.parametrize("every", effort.first(1, [0.0, 100.0]))
def test_a_worker_is_killed(engine, monkeypatch, every):
    """With values that were saved at every step, and without any."""
    monkeypatch.setattr(actors, "_KEEP_EVERY", every)
    slow_workers(monkeypatch, 0.01)
    layout = layout_of(line(), None)
    killed: list[int] = []
    at_waits(monkeypatch, {10, 14}, lambda group: killed.append(kill(group, len(killed))))
    found = sweep_on_ray(layout, engine, ResourceMonitor())
    assert len(set(killed)) == 2
    assert_same(found, sweep.sweep(layout, ResourceMonitor()))


def test_workers_that_are_lost_again_and_again_are_an_error(engine, monkeypatch):
    doomed_workers(monkeypatch)
    monkeypatch.setattr(actors, "_MOST_LOSSES", 1)
    with pytest.raises(SolventError, match="were lost 2 times"):
        sweep_on_ray(layout_of(line(4, 3), None), engine, ResourceMonitor())


def test_a_checkpoint_goes_on(engine, monkeypatch, tmp_path):
    layout = layout_of(line(), None)
    usual, swept = ray_grid._RaySweep._keep_values, []

    def stop_after_some(self):
        usual(self)
        swept.append(self._step)
        if len(swept) in (4, 9):
            raise Stop

    monkeypatch.setattr(ray_grid._RaySweep, "_keep_values", stop_after_some)
    for attempt in range(3):
        monitor = ResourceMonitor()
        try:
            with Checkpoint(tmp_path / "run.ckpt", "solve", {}, 0.0) as monitor.checkpoint:
                found = sweep_on_ray(layout, engine, monitor)
        except Stop:
            assert attempt < 2
    assert swept == sorted(set(swept), reverse=True)
    assert_same(found, sweep.sweep(layout, ResourceMonitor()))


def test_a_checkpoint_goes_on_elsewhere(engine, monkeypatch, tmp_path):
    """On a cluster of another size, and in this process."""
    monkeypatch.setattr(sweep, "DISTRIBUTED_FROM", 0)
    model, path = line(), tmp_path / "run.ckpt"
    expected = solvent.solve(model, method="grid")
    with crash_after(2):
        solvent.solve(model, method="grid", checkpoint=path, checkpoint_every=0)
    for workers in (2, 3, 1):
        with monkeypatch.context() as patch:
            patch.setattr(RayEngine, "workers", workers)
            at_waits(patch, {4}, interrupt)
            with pytest.raises(KeyboardInterrupt):
                solvent.solve(model, method="grid", engine=engine, checkpoint=path, checkpoint_every=0)
    with Checkpoint(path, "solve", {}) as saved:
        assert min(section.state["step"] for section in saved._sections.values()) < model.horizon - 6
    assert_same_solution(solvent.solve(model, method="grid", checkpoint=path), expected)
    assert_same_solution(solvent.solve(model, method="grid", engine=engine, checkpoint=path), expected)


def interrupt(group):
    raise KeyboardInterrupt


def test_a_time_limit_ends_the_actors(engine, monkeypatch):
    slow_workers(monkeypatch, 60.0)
    with pytest.raises(LimitReached, match="time limit of 1 s"):
        sweep_on_ray(layout_of(line(4, 3), None), engine, ResourceMonitor(1))


@pytest.mark.nightly
def test_a_node_is_lost(cluster, engine, monkeypatch):
    other = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    monkeypatch.setattr(actors, "_KEEP_EVERY", 0.05)
    slow_workers(monkeypatch, 0.02)
    layout = layout_of(line(), None)
    removed: list[int] = []

    def remove_node(group):
        removed.append(len(group))
        cluster.remove_node(other, allow_graceful=False)

    at_waits(monkeypatch, {10}, remove_node)
    found = sweep_on_ray(layout, engine, ResourceMonitor())
    assert removed == [3]
    assert_same(found, sweep.sweep(layout, ResourceMonitor()))
