"""Sweeps on a Ray cluster: the same bits as in one process, also when workers are lost."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import solvent
from solvent.core.checkpoint import Checkpoint
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import SolventError
from solvent.solvers.engines import ray_grid
from solvent.solvers.engines.ray_grid import sweep_on_ray
from solvent.solvers.grid import sweep
from sweeps import Stop, assert_same, assert_same_solution, layout_of, line, random_model

ray = pytest.importorskip("ray")
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


def slow_steps(monkeypatch, seconds: float) -> None:
    """Make each step of an actor slower, so that there is time to kill it."""

    class SlowActor(ray_grid.PartActor):
        def step(self, h, *blocks):
            time.sleep(seconds)
            return super().step(h, *blocks)

        def process(self):
            return os.getpid()

    monkeypatch.setattr(ray_grid, "PartActor", SlowActor)


@pytest.mark.parametrize("every", [0.0, 100.0])
def test_a_worker_is_killed(engine, monkeypatch, every):
    """With values that were saved at every step, and without any."""
    monkeypatch.setattr(ray_grid, "_SAVE_EVERY", every)
    slow_steps(monkeypatch, 0.01)
    layout = layout_of(line(), None)
    killed: list[int] = []
    usual = ray_grid._RaySweep._await

    def kill_one(self, references):
        if len(killed) < 2 and self._record._start_H[8 - 4 * len(killed)] is not None:
            victim = ray.get(self._actors[len(killed)].process.remote())
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)
        return usual(self, references)

    monkeypatch.setattr(ray_grid._RaySweep, "_await", kill_one)
    found = sweep_on_ray(layout, engine, ResourceMonitor())
    assert len(set(killed)) == 2
    assert_same(found, sweep.sweep(layout, ResourceMonitor()))


def test_workers_that_are_lost_again_and_again_are_an_error(engine, monkeypatch):
    class Doomed(ray_grid.PartActor):
        def step(self, h, *blocks):
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(ray_grid, "PartActor", Doomed)
    monkeypatch.setattr(ray_grid, "_MOST_LOSSES", 1)
    with pytest.raises(SolventError, match="were lost 2 times"):
        sweep_on_ray(layout_of(line(4, 3), None), engine, ResourceMonitor())


def test_a_checkpoint_goes_on(engine, monkeypatch, tmp_path):
    layout = layout_of(line(), None)
    usual, swept = ray_grid._RaySweep._keep_values, []

    def stop_after_some(self, h):
        usual(self, h)
        swept.append(h)
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


def test_a_time_limit_ends_the_actors(engine, monkeypatch):
    slow_steps(monkeypatch, 60.0)
    with pytest.raises(LimitReached, match="time limit of 1 s"):
        sweep_on_ray(layout_of(line(4, 3), None), engine, ResourceMonitor(1))


def test_a_node_is_lost(cluster, engine, monkeypatch):
    other = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    monkeypatch.setattr(ray_grid, "_SAVE_EVERY", 0.05)
    slow_steps(monkeypatch, 0.02)
    layout = layout_of(line(), None)
    removed: list[int] = []
    usual = ray_grid._RaySweep._await

    def remove_node(self, references):
        if not removed and self._record._start_H[10] is not None:
            removed.append(len(self._actors))
            cluster.remove_node(other, allow_graceful=False)
        return usual(self, references)

    monkeypatch.setattr(ray_grid._RaySweep, "_await", remove_node)
    found = sweep_on_ray(layout, engine, ResourceMonitor())
    assert removed == [3]
    assert_same(found, sweep.sweep(layout, ResourceMonitor()))
