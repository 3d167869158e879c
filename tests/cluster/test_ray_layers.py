"""The reduction on a Ray cluster: the same bits as in one process, also when workers are lost."""

from __future__ import annotations

import pytest

import effort
import solvent
from losses import at_waits, doomed_workers, kill, slow_workers
from solvent.errors import SolventError
from solvent.model import instances
from solvent.policy.writing import to_bytes
from solvent.solvers.engines import actors
from solvent.solvers.reduction import layers, reduce
from sweeps import assert_same_solution

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _always_in_parts(monkeypatch):
    monkeypatch.setattr(layers, "_GRID_KEYS", 0)
    monkeypatch.setattr(reduce, "DISTRIBUTED_FROM", 0.0)


def rolls(horizon=7):
    return instances.random(
        12, 3, horizon=horizon, resources=2, cost_range=(0, 9), budget=7 * horizon, real_costs=True, seed=5
    )


def check(model, engine, **options):
    """Solve on the cluster and here, and compare everything."""
    found = solvent.solve(model, method="reduction", engine=engine, **options)
    expected = solvent.solve(model, method="reduction")
    assert_same_solution(found, expected)
    assert found.stats.layer_sizes == expected.stats.layer_sizes
    assert to_bytes(found.policy) == to_bytes(expected.policy)


def test_a_solution(engine, monkeypatch):
    used = []
    usual = reduce.reduce_on_ray
    monkeypatch.setattr(reduce, "reduce_on_ray", lambda *given: used.append(1) or usual(*given))
    check(rolls(), engine)
    assert used
    check(rolls(), engine, memory_limit="1GB")


@pytest.mark.parametrize("every", effort.first(1, [0.0, 100.0]))
def test_workers_are_killed_in_both_passes(engine, monkeypatch, every):
    monkeypatch.setattr(actors, "_KEEP_EVERY", every)
    slow_workers(monkeypatch, 0.02)
    killed: list[int] = []
    # the first wait is for parts to be loaded, further ones are for a layer, rows or values each
    at_waits(monkeypatch, {4, 14}, lambda group: killed.append(kill(group, len(killed))))
    check(rolls(), engine)
    assert len(set(killed)) == 2


def test_a_node_is_lost(cluster, engine, monkeypatch):
    other = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    slow_workers(monkeypatch, 0.02)
    removed: list[int] = []

    def remove_node(group):
        removed.append(len(group))
        cluster.remove_node(other, allow_graceful=False)

    at_waits(monkeypatch, {5}, remove_node)
    check(rolls(), engine)
    assert removed == [3]


@pytest.mark.nightly
def test_workers_that_are_lost_again_and_again_are_an_error(engine, monkeypatch):
    doomed_workers(monkeypatch)
    monkeypatch.setattr(actors, "_MOST_LOSSES", 1)
    with pytest.raises(SolventError, match="were lost 2 times"):
        solvent.solve(rolls(), method="reduction", engine=engine)


def test_limits_of_time_and_memory(engine, monkeypatch):
    few = solvent.solve(rolls(), method="reduction", engine=engine, memory_limit="100kB")
    assert few.status == "limit"
    assert "memory limit" in few.message
    slow_workers(monkeypatch, 60.0)
    slow = solvent.solve(rolls(), method="reduction", engine=engine, time_limit=1)
    assert slow.status == "limit"
    assert "the time limit of 1 s was reached" in slow.message


def test_a_checkpoint_goes_on(engine, monkeypatch, tmp_path):
    """From a run on the cluster that was interrupted, in this process."""
    model = rolls()

    def interrupt(group):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        at_waits(patch, {5}, interrupt)
        with pytest.raises(KeyboardInterrupt):
            solvent.solve(model, method="reduction", engine=engine, checkpoint=tmp_path / "c")
    check(model, engine, checkpoint=tmp_path / "c")
    assert_same_solution(
        solvent.solve(model, method="reduction", checkpoint=tmp_path / "c"), solvent.solve(model, method="reduction")
    )
