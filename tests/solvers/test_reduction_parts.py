"""The reduction in parts: the same nodes, rows and values, bit for bit, for any number of parts and if actors are lost.

A stand-in takes the place of Ray; `tests/cluster` has the same with processes that are killed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_solver_checkpoints import same_solution

import solvent
from effort import some
from fuzz.generate import generate
from interrupting import crash_after, every_crash, small_pieces
from solvent.core.checkpoint import Checkpoint
from solvent.core.engines import RayEngine
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import SolventError
from solvent.model import instances
from solvent.model.budget import resolve
from solvent.policy.writing import to_bytes
from solvent.solvers.engines import actors
from solvent.solvers.problem import Problem
from solvent.solvers.reduction import layers, reduce
from standin import StandIn
from sweeps import random_model

KINDS = ("general", "one_sided", "product", "rewards", "steps", "resources", "accounts")


@pytest.fixture(autouse=True)
def _always_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_GRID_KEYS", 0)
    monkeypatch.setattr(reduce, "DISTRIBUTED_FROM", 0.0)
    monkeypatch.setattr(actors, "start_worker", lambda: None)  # this process keeps its threads


def engine_of(workers: int, losses: set[int] = frozenset()) -> RayEngine:
    return RayEngine(StandIn(workers, losses))


def reduced(model: solvent.CMDP, budget: object, engine: object = "local", monitor: ResourceMonitor | None = None):
    """Return the reduction of a problem."""
    problem = Problem.exact(model, resolve(model, budget))
    options = {} if engine == "local" else {"engine": engine}
    return reduce.reduce(problem.model, problem.lattice, monitor or ResourceMonitor(), **options)


def assert_same(found: reduce.Reduction, expected: reduce.Reduction) -> None:
    """Check that two reductions of a problem are the same."""
    assert found.value == expected.value
    assert found.start_error == expected.start_error
    for name in ("top", "bottom", "reward", "end_top", "end_bottom"):
        np.testing.assert_array_equal(getattr(found.extremes, name), getattr(expected.extremes, name))
    assert len(found.layers) == len(expected.layers)
    for mine, theirs in zip(found.layers, expected.layers, strict=True):
        np.testing.assert_array_equal(mine.indptr, theirs.indptr)
        np.testing.assert_array_equal(mine.spent, theirs.spent)
    for mine, theirs in zip([*found.rows, *found.live_box()], [*expected.rows, *expected.live_box()], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_nodes_are_sorted_by_state_and_amounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are looked up; Python's tuples are the oracle."""
    large = 0
    for seed in range(some(40)):
        model, budget = random_model(60_000 + seed, 1 + seed % 3, features=True)
        if seed % 2:
            given = {"horizon": 5, "resources": 1 + seed % 3, "cost_range": (-1, 4), "budget": 15, "seed": seed}
            model, budget = instances.random(4, 3, **given), None
        hashed = reduced(model, budget)
        with monkeypatch.context() as patch:
            patch.setattr(layers, "_GRID_KEYS", 10**9)
            on_grid = reduced(model, budget)
        for mine, theirs in zip(hashed.layers, on_grid.layers, strict=True):
            nodes = [(s, *x[::-1]) for s, x in zip(mine.state.tolist(), mine.spent.tolist(), strict=True)]
            assert nodes == sorted(set(nodes))
            np.testing.assert_array_equal(mine.indptr, theirs.indptr)
            np.testing.assert_array_equal(mine.spent, theirs.spent)
            large += len(nodes) > 10
    assert large


@pytest.mark.parametrize("n_resources", [1, 2, 3])
def test_any_number_of_parts(n_resources: int) -> None:
    several = 0
    for seed in range(some(25)):
        model, budget = random_model(61_000 + 100 * n_resources + seed, n_resources, features=True)
        expected = reduced(model, budget)
        for workers in (1, 2, 3, 5):
            engine = engine_of(workers)
            assert_same(reduced(model, budget, engine), expected)
            several += engine.ray.started > 1
    assert several


@pytest.mark.parametrize("kind", KINDS)
def test_whole_solutions(kind: str) -> None:
    solved = 0
    for seed in range(some(30)):
        drawn = generate(seed, kind)
        try:
            model, budget = drawn.build()
            expected = solvent.solve(
                model, budget, method="reduction", time_limit=5, memory_limit="50MB", **drawn.given
            )
        except SolventError:
            continue
        if expected.status == "limit":
            continue
        found = solvent.solve(model, budget, method="reduction", engine=engine_of(3), **drawn.given)
        same_solution(found, expected)
        solved += expected.status == "optimal"
    assert solved


def rolls(horizon: int = 6, n_states: int = 7) -> solvent.CMDP:
    """Return a random model whose nodes are hashed."""
    return instances.random(
        n_states, 3, horizon=horizon, resources=2, cost_range=(0, 9), budget=7 * horizon, real_costs=True, seed=5
    )


@pytest.mark.parametrize("every", [0.0, 100.0])
def test_actors_are_lost_at_any_call(monkeypatch: pytest.MonkeyPatch, every: float) -> None:
    """With values that are kept at every step, and with none."""
    monkeypatch.setattr(actors, "_KEEP_EVERY", every)
    model = rolls(4, 5)
    expected, whole = reduced(model, None), engine_of(3)
    reduced(model, None, whole)
    for call in range(1, whole.ray.calls + 1, 1 if every else 2):
        engine = engine_of(3, {call, call + 9})
        assert_same(reduced(model, None, engine), expected)
        assert engine.ray.started > 3


def test_actors_that_are_lost_again_and_again() -> None:
    with pytest.raises(SolventError, match="workers of the cluster were lost 6 times"):
        reduced(rolls(), None, engine_of(3, set(range(1000))))


def test_only_large_problems_leave_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first layers are expanded here; actors are started when there is enough work."""
    model = rolls()
    expected = reduced(model, None)
    outcomes_S = np.diff(model.outcome_indptr[model.row_indptr_at(0)])
    work = np.cumsum([(np.diff(layer.indptr) * outcomes_S).sum() for layer in expected.layers])
    for least, starts in ((work[1], True), (work[3] + 1, True), (work[-1], True), (work[-1] + 1, False)):
        monkeypatch.setattr(reduce, "DISTRIBUTED_FROM", least)
        engine = engine_of(2)
        assert_same(reduced(model, None, engine), expected)
        assert (engine.ray.started > 0) == starts
    monkeypatch.setattr(reduce, "DISTRIBUTED_FROM", 0.0)
    for options in ({"prune": False}, {"grid": True}):  # which have no parts
        engine = engine_of(2)
        if "grid" in options:
            monkeypatch.setattr(layers, "_GRID_KEYS", 10**9)
            solvent.solve(instances.fuel_grid(3), method="reduction", engine=engine)
        else:
            solvent.solve(model, method="reduction", prune=False, engine=engine)
        assert engine.ray.started == 0


def test_a_checkpoint_goes_on_from_every_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actors, "_AHEAD", 1)  # otherwise several steps are finished between two saves
    model = rolls(5, 5)
    for workers in (1, 3):
        (tmp_path / str(workers)).mkdir()

        def compute(workers: int = workers, **options: object) -> solvent.Solution:
            return solvent.solve(model, method="reduction", engine=engine_of(workers), **options)

        with small_pieces():
            saved = every_crash(tmp_path / str(workers), compute, same_solution)
        assert set(saved) == {"layers"}
        assert len(saved) >= 2 * model.horizon - 2


def test_a_checkpoint_is_for_any_engine(tmp_path: Path) -> None:
    """A run goes on in this process or on a cluster of any size, wherever it was stopped."""
    model = rolls(5, 5)
    expected = solvent.solve(model, method="reduction")
    for k in range(1, 9):
        for turn in range(9):
            engine = ("local", engine_of(2), engine_of(4))[(k + turn) % 3]
            options = {"engine": engine, "checkpoint": tmp_path / str(k), "checkpoint_every": 0}
            with small_pieces(), crash_after(k if turn < 8 else None):
                same_solution(solvent.solve(model, method="reduction", **options), expected)


def test_an_interrupted_run_keeps_its_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although no save was due."""
    model, calls = rolls(), [0]
    usual = actors.Actors.wait

    def wait(self: actors.Actors, references: list[object]) -> list[object]:
        calls[0] += 1
        if calls[0] == 5:
            raise KeyboardInterrupt
        return usual(self, references)

    with monkeypatch.context() as patch:
        patch.setattr(actors.Actors, "wait", wait)
        with pytest.raises(KeyboardInterrupt):
            solvent.solve(model, method="reduction", engine=engine_of(2), checkpoint=tmp_path / "c")
    saved = Checkpoint(tmp_path / "c", "solve", {})
    (section,) = saved._sections.values()
    assert section.state["layers"] > 2
    saved.close()
    found = solvent.solve(model, method="reduction", checkpoint=tmp_path / "c")
    same_solution(found, solvent.solve(model, method="reduction"))


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = rolls()
    few = solvent.solve(model, method="reduction", engine=engine_of(2), memory_limit="30kB")
    assert few.status == "limit"
    assert "more than the memory limit of 0.03 MB" in few.message
    with pytest.raises(LimitReached, match="the time limit of 1e-09 s was reached"):
        reduced(model, None, engine_of(2), ResourceMonitor(1e-9))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("solvent.core.array_files.ArrayFolder.write", fail)
    with pytest.raises(LimitReached, match="nodes could not be written to disk: No space left on device"):
        reduced(model, None, engine_of(2))


def test_a_worker_with_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of an actor is a limit of the solve, not an error."""
    usual = ResourceMonitor.reserve

    def reserve(self: ResourceMonitor, size: int, what: str) -> None:
        if self.bytes == 10**9 and what == "the nodes of step 3":
            raise LimitReached("there is none")
        usual(self, size, what)

    monkeypatch.setattr(ResourceMonitor, "reserve", reserve)
    found = solvent.solve(rolls(), method="reduction", engine=engine_of(2), memory_limit=10**9)
    assert found.status == "limit"
    assert found.message.startswith("limit: on a worker: there is none; ")


def test_bytes_of_policies() -> None:
    model = rolls()
    one, other = (solvent.solve(model, method="reduction", engine=engine_of(workers)) for workers in (1, 4))
    assert to_bytes(one.policy) == to_bytes(other.policy) == to_bytes(solvent.solve(model, method="reduction").policy)
    assert solvent.verify(model, one).feasible
