"""`solve_many`: the same solutions as one by one, in this process and with helpers, or an error with its place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from enum import Enum

import numpy as np
import pytest

import effort
import solvent
from solvent.errors import BudgetError, LatticeOverflowError, ModelError
from solvent.model import instances
from solvent.model.cmdp import CMDP
from solvent.solvers import many
from solvent.solvers.many import solve_many
from solvent.solvers.solve import solve
from solvent.verification.verify import verify


@pytest.fixture(params=["here", pytest.param("helpers", marks=pytest.mark.slow)])
def place(request, monkeypatch):
    """Both ways of solving: in this process only, and by helpers, except for the first model."""
    if request.param == "helpers":
        leave_to_helpers(monkeypatch)
    return request.param


def leave_to_helpers(monkeypatch):
    """Let this process solve the first model, and those that helpers cannot solve."""
    take_one = many._Batch._take_one
    monkeypatch.setattr(many, "_PAYS", -1.0)
    monkeypatch.setattr(many, "_TRIED", -1.0)
    monkeypatch.setattr(many._Batch, "_take_one", lambda self: take_one(self) if self._left or not self._next else None)


def assert_same(found, expected):
    assert (found.status, found.value, found.method) == (expected.status, expected.value, expected.method)
    assert (found.value_lower, found.value_upper) == (expected.value_lower, expected.value_upper)
    assert (found.worst_spent, found.excess) == (expected.worst_spent, expected.excess)
    assert found.message == expected.message
    assert found.stats.layer_sizes == expected.stats.layer_sizes
    if expected.status.has_policy:
        assert list(found.policy) == list(expected.policy)


def some_models():
    """Models for every method, one without a feasible policy."""
    return [
        instances.paper(20, seed=1, budget=3),
        instances.fuel_grid(3),
        instances.random(4, 2, horizon=4, resources=2, budget=4, seed=1),
        instances.partition([3, 1, 1]),
        instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50),
    ]


def test_helpers_solve_the_same(monkeypatch):
    leave_to_helpers(monkeypatch)
    assert_the_same_as_one_by_one()


def test_the_same_as_one_by_one(place):
    assert_the_same_as_one_by_one()


def assert_the_same_as_one_by_one():
    models = some_models() * 6
    found = solve_many(models, jobs=3)
    assert len(found) == len(models)
    for model, solution in zip(models, found, strict=True):
        assert_same(solution, solve(model))
        if solution.status.has_policy:
            assert solution.policy.model is model
            assert verify(model, solution.policy).feasible
            assert solution.explain(0, model.start).options


def test_one_model_with_many_budgets(place):
    model = instances.fuel_grid(3)
    budgets = [*range(2, 30), {"fuel": "7/2"}, solvent.Budget.final(4), None]
    for budget, solution in zip(budgets, solve_many(model, iter(budgets), jobs=2), strict=True):
        assert_same(solution, solve(model, budget))


def test_one_budget_or_one_for_each_model():
    models = [instances.paper(12, seed=seed) for seed in range(6)]
    for model, solution in zip(models, solve_many(iter(models), 2), strict=True):
        assert_same(solution, solve(model, 2))
    for model, budget, solution in zip(models, range(6), solve_many(models, range(6)), strict=True):
        assert_same(solution, solve(model, budget))
    assert solve_many([]) == solve_many(models[0], []) == solve_many([], []) == []


def test_options_are_those_of_solve(place):
    models = [instances.paper(15, seed=seed, budget=3) for seed in range(20)]
    several = [{"approximation": "relative", "epsilon": 0.1, "strict": True}, {"method": "frontier"}, {"gap": 0.1}]
    for options in several if effort.everything or place == "here" else several[:1]:  # helpers take time to start
        for model, solution in zip(models, solve_many(models, jobs=2, **options), strict=True):
            expected = solve(model, **options)
            assert (solution.status, solution.value) == (expected.status, expected.value)
    later = solve_many(models[0], [2, 3], spent=1)
    assert [each.value for each in later] == [solve(models[0], budget, spent=1).value for budget in (2, 3)]


def test_discounted_models(place):
    b = CMDP.builder(horizon=None, discount="1/2", start="home", resources=["fuel"], budget=3)
    b.add("home", "go", reward=1, outcomes=[(1, "home", 2)])
    b.add("home", "rest", outcomes=[(1, "home")])
    found = solve_many([b.build()] * 3, epsilon=0.25, strict=True, jobs=2)
    assert {each.value for each in found} == {solve(b.build(), epsilon=0.25, strict=True).value}


def test_an_error_names_its_place(place):
    good = instances.paper(10, seed=1, budget=3)
    b = CMDP.builder(horizon=2, start=0, resources=["x"], budget=10**18)
    b.add(0, "a", outcomes=[(1, 0, "1/1000000007")])
    with pytest.raises(BudgetError, match=r"^models\[30\]: budget: expected a budget, found none"):
        solve_many([good] * 30 + [instances.paper(10, seed=1)] + [good] * 9, jobs=2)
    with pytest.raises(BudgetError, match=r"^budgets\[1\]: budget, cost, upper: expected a finite number"):
        solve_many(good, [1, "many"], jobs=2)
    with pytest.raises(LatticeOverflowError, match=r"^models\[1\]: resource 'x': expected costs and limits"):
        solve_many([good, b.build()], jobs=2)
    with pytest.raises(ModelError, match=r"^models\[2\]: model: expected"):
        solve_many([good, good, "paper"], jobs=2)


def test_wrong_arguments():
    good = instances.paper(10, seed=1, budget=3)
    with pytest.raises(ModelError, match=r"models: expected a model, or several in a list, found 3"):
        solve_many(3)
    with pytest.raises(ModelError, match=r"budgets: expected one for each of 2 models, found 1 budgets"):
        solve_many([good, good], [1])
    with pytest.raises(ModelError, match=r"budgets: expected several budgets in a list.*use solve"):
        solve_many(good, 3)
    for jobs in (0, True, 1.5, "2"):
        with pytest.raises(ModelError, match=r"jobs: expected an integer of at least 1"):
            solve_many([good], jobs=jobs)
    with pytest.raises(ModelError, match=r"time_limit: expected a number of seconds above 0"):
        solve_many([good], time_limit=0)


def hard_model():
    """A model whose bounds are weak, so that its search takes minutes."""
    weights = np.random.default_rng(5).integers(100_000, 200_000, 200)
    return instances.knapsack((weights + 10_000).tolist(), weights.tolist(), capacity=int(weights.sum()) // 2)


def test_limits_are_for_each_solve(place):
    easy, hard = instances.paper(20, seed=1, budget=3), hard_model()
    found = solve_many([easy, hard, easy], time_limit=1, jobs=2)
    assert [each.status.value for each in found] == ["optimal", "feasible", "optimal"]
    assert "time limit of 1 s" in found[1].message
    found = solve_many([easy, hard] * 2, memory_limit="2MB", jobs=2)
    assert [each.status.value for each in found] == ["optimal", "feasible"] * 2
    assert "memory limit of 2 MB" in found[3].message


def test_progress(place):
    reports = []
    models = [instances.paper(10, seed=seed, budget=2) for seed in range(30)]
    solve_many(models, jobs=2, progress=lambda phase, done, total, facts: reports.append((phase, done, total)))
    assert {(phase, total) for phase, _, total in reports} == {("solves", 30)}
    done = [each for _, each, _ in reports]
    assert done == sorted(done)
    assert done[-1] == 30


class Town(Enum):
    """Names that a helper cannot read, as it does not import this module by its name."""

    HOME = 1


def test_names_that_helpers_cannot_read(monkeypatch):
    leave_to_helpers(monkeypatch)
    monkeypatch.setattr(many, "_MESSAGE", 1e9)  # one message for all, on slow machines too
    monkeypatch.setattr(many, "_MOST", 100)
    Town.__module__ = "nowhere"
    b = CMDP.builder(horizon=2, start=Town.HOME, resources=["fuel"], budget=3)
    b.add(Town.HOME, "go", reward=1, outcomes=[(1, Town.HOME, 2)])
    b.add(Town.HOME, "rest", outcomes=[(1, Town.HOME)])
    assert [each.value for each in solve_many([b.build()] * 40, jobs=2)] == [1.0] * 40


def test_helpers_do_not_take_part_in_small_batches(monkeypatch):
    monkeypatch.setattr(many, "Helpers", None)
    assert len(solve_many([instances.paper(15, seed=1, budget=3)] * 100)) == 100
    monkeypatch.setattr(many, "_PAYS", -1.0)
    monkeypatch.setattr(many, "_TRIED", -1.0)
    assert len(solve_many([instances.paper(15, seed=1, budget=3)] * 10, jobs=1)) == 10


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals to a thread")
def test_ctrl_c_ends_it_at_once(place):
    hard = hard_model()
    timer = threading.Timer(1.5, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    began = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            solve_many([hard] * 50, jobs=2)
    finally:
        timer.cancel()
    assert time.perf_counter() - began < 60
    assert not [thread for thread in threading.enumerate() if thread.name == "solvent-helper"]


#: A script without `if __name__ == "__main__"`, whose models have names of a class of its own.
SCRIPT = """
import collections, solvent
from solvent.solvers import many
print("begun")
many._PAYS = many._TRIED = -1.0
Place = collections.namedtuple("Place", "x y")
b = solvent.CMDP.builder(horizon=2, start=Place(0, 0), resources=["fuel"], budget=3)
b.add(Place(0, 0), "go", reward=1, outcomes=[(1, Place(0, 0), 2)])
b.add(Place(0, 0), "rest", outcomes=[(1, Place(0, 0))])
models = [b.build(), *(solvent.instances.paper(15, seed=s, budget=3) for s in range(60))]
print(sum(each.status == "optimal" for each in solvent.solve_many(models, jobs=3)))
"""


@pytest.mark.slow
def test_a_script_without_a_guard():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, env=dict(os.environ), check=True
    )
    assert done.stdout.split() == ["begun", "61"]
