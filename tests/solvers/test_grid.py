"""Boxes of amounts: the same answers as layers of nodes, however boxes are laid out, split and swept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import oracle
import solvent
from effort import some
from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError
from solvent.model.budget import Budget, resolve
from solvent.model.cmdp import CMDP
from solvent.solvers import registry
from solvent.solvers.base import Run, SolverOptions
from solvent.solvers.choice import solve_problem
from solvent.solvers.grid import choice, solver, sweep
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.problem import Problem
from sweeps import random_model


def same(model: CMDP, budget: Any, **options: Any) -> bool:
    """Check that boxes give the very values and the worst case of the reduction; return whether there is a policy."""
    expected = solvent.solve(model, budget, method="reduction", **options)
    found = solvent.solve(model, budget, method="grid", **options)
    assert found.status == expected.status
    assert found.value == pytest.approx(expected.value, rel=1e-12, abs=1e-12)
    if not expected.status.has_policy:
        return False
    assert found.value_checked
    report = solvent.verify(model, found, budget)
    assert report.feasible
    assert report.value == pytest.approx(found.value, rel=1e-9, abs=1e-9)
    assert {name: report.worst_spent[name] for name in found.worst_spent} == found.worst_spent
    return True


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("n_resources", [1, 2, 3])
def test_random_models(n_resources, features):
    feasible = 0
    for seed in range(some(60)):
        model, budget = random_model(1000 * n_resources + seed, n_resources, features=features)
        feasible += same(model, budget)
    assert feasible >= some(60) // 6


@pytest.mark.parametrize("n_resources", [1, 2])
def test_small_models_by_brute_force(n_resources):
    for seed in range(15):
        model, budget = random_model(7000 + 100 * n_resources + seed, n_resources, features=seed % 2 == 0)
        if model.horizon > 4:
            continue
        found = solvent.solve(model, budget, method="grid")
        best = oracle.optimum(model, budget)
        if best == oracle.INFEASIBLE:
            assert found.status == "infeasible"
        else:
            assert found.value_lower <= best <= found.value_upper


@pytest.fixture(params=["threads", "single steps", "small tiles"])
def another_way(request, monkeypatch) -> Iterator[None]:
    """Sweep every step on all threads, or by a call of its own."""
    if request.param == "threads":
        monkeypatch.setattr(sweep, "_PARALLEL_FROM", 0)
    elif request.param == "single steps":
        monkeypatch.setattr(sweep, "_WORK_OF_CALL", 0)
    else:
        monkeypatch.setattr(sweep, "_CELLS_OF_CALL", 50)
    return


@pytest.mark.usefixtures("another_way")
def test_steps_are_swept_in_any_way():
    for seed in range(some(25)):
        same(*random_model(300 + seed, 2, features=True))


def test_what_does_not_change_is_not_swept_again():
    """Stationary models with many steps, in which values stop changing; limits or actions that change at some step."""
    for seed in range(some(40)):
        rng = np.random.default_rng(seed)
        horizon, n_states = 40, int(rng.integers(2, 6))
        b = CMDP.builder(horizon=horizon, start=0, resources=["x", "y"], states=range(n_states), actions=range(4))
        change = int(rng.integers(1, horizon - 1))
        for s in range(n_states):
            b.add(s, 0, outcomes=[(1, s)])
            for a in range(1, 3):
                after, costs = rng.integers(n_states, size=2).tolist(), rng.integers(0, 3, size=(2, 2)).tolist()
                costs[0][int(rng.integers(2))] += 1
                outcomes = [(0.4, after[0], costs[0]), (0.6, after[1], costs[1])]
                steps = {"steps": range(change)} if seed % 4 == 1 and a == 2 else {}
                b.add(s, a, reward=float(rng.random()), outcomes=outcomes, **steps)
        limit = int(rng.integers(3, 8))
        tighter = [limit + 2] * change + [limit] * (horizon - change) if seed % 4 == 2 else limit
        same(b.build(), {"x": Budget(upper=tighter), "y": 6})


@pytest.mark.parametrize("n_resources", [2, 3])
def test_all_first_amounts_at_once(n_resources):
    """Every amount spent before the first step has the value that a solve of its own has."""
    compared = 0
    for seed in range(25):
        model, budget = random_model(500 + seed, n_resources, features=True)
        limits = resolve(model, budget)
        problem = Problem.exact(model, limits)
        low, high = np.full(n_resources, -2), np.full(n_resources, 4)
        found = sweep.sweep_starts(problem, low, high, ResourceMonitor())
        rng = np.random.default_rng(seed)
        amounts_ND = rng.integers(-2, 5, size=(12, n_resources))
        values = found.value_of(amounts_ND)
        for amounts, value in zip(amounts_ND, values, strict=True):
            if (amounts < problem.lattice.floor_D).any() or (amounts > problem.lattice.ceiling_D).any():
                continue
            spent = dict(zip(limits.resources, amounts.tolist(), strict=True))
            answer = solve_problem(
                Problem.exact(model, resolve(model, budget, spent)), "reduction", Run(ResourceMonitor())
            )
            if -np.inf in value:
                assert answer.value == -np.inf
            else:
                assert answer.value == pytest.approx(model.start_probability @ value, rel=1e-12, abs=1e-12)
                compared += 1
    assert compared > 20


def test_live_box_contains_the_live_nodes():
    compared = 0
    for seed in range(40):
        model, budget = random_model(900 + seed, 2, features=seed % 2 == 0)
        problem = Problem.exact(model, resolve(model, budget))
        nodes, boxes = (solve_problem(problem, name, Run(ResourceMonitor())) for name in ("reduction", "grid"))
        if nodes.live_box is None or boxes.live_box is None:
            continue
        (low, high), (box_low, box_high) = nodes.live_box(), boxes.live_box()
        if model.may_end is None:  # else layers have nodes beside a state in which no episode may end
            assert (box_low <= low).all()
            assert (box_high >= high).all()
        options = SolverOptions(within=(low, high))
        for name in ("reduction", "grid"):
            pruned = solve_problem(problem, name, Run(ResourceMonitor(), options))
            assert pruned.value == nodes.value
        compared += 1
    assert compared > 10


def grid_of(n: int) -> CMDP:
    """Return a corridor with two resources and many reachable amounts."""
    b = CMDP.builder(horizon=n, start=0, resources=["x", "y"], budget={"x": n, "y": 2 * n})
    for s in range(3):
        b.add(s, "a", reward=1, outcomes=[(0.5, (s + 1) % 3, [1, 2]), (0.5, s, [2, 1])])
        b.add(s, "b", reward=0.5, outcomes=[(0.5, (s + 1) % 3, [1, 0]), (0.5, s, [0, 1])])
        b.add(s, "rest", outcomes=[(1, s)])
    return b.build()


def test_boxes_are_chosen_where_amounts_are_dense():
    solution = solvent.solve(grid_of(20))
    assert solution.method == "grid"
    assert solution.stats.representation == "amounts"
    assert solution.stats.nodes == sum(solution.stats.layer_sizes)


def sparse() -> CMDP:
    """Return a model whose boxes are large, and of which few amounts are reached."""
    b = CMDP.builder(horizon=12, start=0, resources=["x", "y"], budget={"x": 5000, "y": 5000})
    b.add(0, "a", reward=1, outcomes=[(0.5, 0, [997, 0]), (0.5, 0, [0, 991])])
    b.add(0, "rest", outcomes=[(1, 0)])
    return b.build()


def test_layers_are_chosen_where_amounts_are_sparse():
    assert solvent.solve(sparse()).method == "reduction"


@pytest.mark.slow
def test_a_sweep_finds_the_same_where_amounts_are_sparse():
    swept = solvent.solve(sparse(), method="grid")
    assert swept.method == "grid"
    assert solvent.solve(sparse()).value == swept.value


@pytest.mark.parametrize("node_work", [1e-9, 1.0, 1e3, 1e12])
def test_either_choice_gives_the_same_answer(monkeypatch, node_work):
    """Whenever expanding layers is given up for boxes, or never."""
    monkeypatch.setattr(solver, "_SMALL_STEP", 0.0)
    monkeypatch.setattr(choice, "_NODE_WORK", node_work)
    monkeypatch.setattr(choice, "_SCAN_WORK", 0.0)
    model = grid_of(9)
    solution = solvent.solve(model)
    assert solution.method == ("reduction" if node_work < 1 else "grid") or node_work == 1.0
    expected = solvent.solve(model, method="reduction")
    assert solution.value == expected.value
    assert solution.worst_spent == expected.worst_spent


def test_the_memory_of_layers_that_are_given_up_is_released(monkeypatch):
    monkeypatch.setattr(solver, "_SMALL_STEP", 0.0)
    monkeypatch.setattr(choice, "_NODE_WORK", 1e3)
    model = grid_of(20)
    problem, monitor = Problem.exact(model, resolve(model, None)), ResourceMonitor()
    prepared = registry.get("grid").estimate(problem, Run(monitor)).prepared
    before = monitor.used
    assert choice.reduce_if_cheaper(problem, Run(monitor), prepared) is None
    assert monitor.used == before


def test_memory_is_reserved_before_it_is_allocated():
    model = grid_of(200)
    problem = Problem.exact(model, resolve(model, None))
    layout = BoxLayout.at_start(model, problem.lattice, ResourceMonitor())
    solution = solvent.solve(model, method="grid", memory_limit=int(layout.bytes + 0.9 * layout.peak_bytes))
    assert solution.status == "limit"
    assert "boxes of amounts" in solution.message
    enough = solvent.solve(model, method="grid")
    assert layout.peak_bytes < enough.stats.peak_bytes
    assert solvent.solve(model, method="grid", memory_limit=enough.stats.peak_bytes + 100_000).status == "optimal"


def test_time_limit():
    solution = solvent.solve(grid_of(150), method="grid", time_limit=1e-6)
    assert solution.status == "limit"
    assert "time limit" in solution.message


def test_policies_are_runs():
    """Of consecutive amounts with the same action, one is enough."""
    model, budget = grid_of(40), {"x": 40, "y": 30}
    solution = solvent.solve(model, budget, method="grid")
    everything = solvent.solve(model, budget, method="reduction")
    assert solution.value == everything.value
    assert solution.policy.lookup == "at_most"
    assert len(solution.policy.spent_ND) < 0.8 * len(everything.policy.spent_ND)
    assert solvent.verify(model, solution.policy, budget).feasible


def test_a_grid_refuses_what_it_cannot_hold():
    b = CMDP.builder(horizon=2, start=0, resources=["x", "y"], budget={"x": 10**9, "y": 10**9})
    b.add(0, "go", reward=1, outcomes=[(0.5, 0, [10**8 + 1, 3]), (0.5, 0, [3, 10**8 + 1])])
    b.add(0, "rest", outcomes=[(1, 0)])
    with pytest.raises(ModelError, match='method="grid": expected amounts that are few enough for a grid, found up to'):
        solvent.solve(b.build(), method="grid")
    unlimited = CMDP.builder(horizon=1, start=0, resources=["x"], budget={"x": None})
    unlimited.add(0, "go", outcomes=[(1, 0, 1)])
    with pytest.raises(ModelError, match='method="grid": expected a limited resource, found none'):
        solvent.solve(unlimited.build(), method="grid")


def test_gaps_are_closed_on_boxes():
    rng = np.random.default_rng(3)
    b = CMDP.builder(horizon=12, start=0, resources=["x", "y"], budget={"x": 4, "y": 30})
    b.add(0, "pass", outcomes=[(1, 0)])
    for step in range(12):
        x, y = round(float(rng.uniform(0.2, 1)), 5), round(float(rng.uniform(1, 12)), 5)
        b.add(0, "stop", reward=1 + step % 3, outcomes=[(0.8, 0, [x, y]), (0.2, 0, [2 * x, y])], steps=[step])
    model = b.build()
    exact = solvent.solve(model, method="reduction")
    for memory in ("3MB", None):  # with little memory, the exact problem is not tried first
        found = solvent.solve(model, gap=0.02, memory_limit=memory)
        assert found.value_lower <= exact.value_upper
        assert exact.value_lower <= found.value_upper
        assert found.gap <= 0.02
        assert solvent.verify(model, found).feasible
