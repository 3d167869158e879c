"""The registry of methods: names, choice, refusals, and a method from outside the package."""

from __future__ import annotations

import functools
import itertools
import logging
import pickle
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

import catalog
import solvent
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import ModelError
from solvent.model import instances
from solvent.model.budget import resolve
from solvent.policy.table import AugmentedPolicy
from solvent.solvers import choice, registry
from solvent.solvers.base import Answer, Estimate, Refusal, Run, Solver
from solvent.solvers.problem import Problem
from solvent.solvers.solution import Stats


class BruteForce:
    """Every deterministic policy on nodes, evaluated one by one: a complete method for tiny problems."""

    name = "brute"
    summary = "exact; tiny problems without randomness, by enumeration"

    def accepts(self, problem: Problem) -> Refusal | None:
        if not problem.model.is_deterministic:
            return Refusal("a model without randomness", "several outcomes")
        if problem.model.horizon > 6:
            return Refusal("at most 6 steps", f"{problem.model.horizon}")
        return None

    def estimate(self, problem: Problem, run: Run) -> Estimate:
        return Estimate(float("inf"))

    def discard(self, prepared: Any, run: Run) -> None:
        return None

    def solve(self, problem: Problem, run: Run, prepared: Any = None) -> Answer:
        model, lattice = problem.model, problem.lattice
        best: tuple[float, list[int], Any] | None = None
        count = 0
        for rows in self._histories(problem):
            run.monitor.check_time()
            count += 1
            spent = np.cumsum(lattice.cost_OD[rows], axis=0)
            after = np.vstack([spent, np.repeat(spent[-1:], model.horizon - len(rows), axis=0)]) if rows else None
            if after is None:
                after = np.zeros((model.horizon, len(lattice.resources)), np.int64)
            if not ((after <= lattice.upper_HD) & (after >= lattice.lower_HD)).all():
                continue
            value = float(sum(model.row_reward[row] for row in rows))
            if best is None or value > best[0]:
                best = value, rows, after
        stats = Stats(0.0, count, (), None, run.monitor.peak, "labels")
        if best is None:
            return Answer.infeasible(self.name, stats, problem)
        value, rows, after = best
        before = np.vstack([np.zeros((1, len(lattice.resources)), np.int64), after])
        state = [model.start_index, *(int(model.next_state[model.outcome_indptr[row]]) for row in rows)]

        def make_policy() -> AugmentedPolicy:
            layers = [
                (
                    np.array(state[h : h + 1] if h < len(rows) else [], np.int64),
                    before[h : h + 1] if h < len(rows) else before[:0],
                    model.row_action[rows[h : h + 1]],
                )
                for h in range(model.horizon)
            ]
            return AugmentedPolicy.from_nodes(problem.origin, lattice, problem.limits, layers=layers)

        error = 1e-9 * (1 + abs(value))
        return Answer(value, value - error, value + error, self.name, stats, after, after, True, make_policy)

    def _histories(self, problem: Problem) -> Iterator[list[int]]:
        model = problem.model

        def go(step: int, state: int) -> Iterator[list[int]]:
            indptr = model.row_indptr_at(step) if step < model.horizon else None
            if indptr is None or indptr[state] == indptr[state + 1]:
                yield []
                return
            for row in range(int(indptr[state]), int(indptr[state + 1])):
                for rest in go(step + 1, int(model.next_state[model.outcome_indptr[row]])):
                    yield [row, *rest]

        return go(0, model.start_index)


@pytest.fixture
def brute(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a method as another package would: by an entry point."""
    points = [EntryPoint("brute", f"{__name__}:BruteForce", registry.GROUP)]
    points += [EntryPoint("reduction", f"{__name__}:BruteForce", registry.GROUP)]  # a name that is taken
    points += [EntryPoint("missing", "no_such_module:Solver", registry.GROUP)]
    points += [EntryPoint("number", "math:pi", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: [p for p in points if p.group == group])
    for cached in (registry.external_solvers, registry.get):
        cached.cache_clear()
    yield
    for cached in (registry.external_solvers, registry.get):
        cached.cache_clear()


def test_every_method_is_a_solver_of_its_name() -> None:
    assert registry.names()[:4] == ("reduction", "frontier", "grid", "labels")
    summaries = registry.summaries()
    assert list(summaries) == [registry.AUTO, *registry.names()]
    for name in registry.names():
        solver = registry.get(name)
        assert isinstance(solver, Solver)
        assert (solver.name, solver.summary) == (name, summaries[name])


@pytest.mark.parametrize("case", catalog.CASES, ids=lambda case: case.name)
def test_every_method_solves_what_it_accepts(case: Any) -> None:
    """A method that accepts a problem solves it to the known value, and one that refuses says why."""
    problem = Problem.exact(case.model, resolve(case.model, case.budget, case.spent))
    for name in registry.names():
        refusal = registry.get(name).accepts(problem)
        if refusal is None:
            if name not in case.without:
                solution = solvent.solve(case.model, case.budget, spent=case.spent, method=name)
                assert solution.method == name
                assert solution.value == pytest.approx(case.value, rel=1e-9, abs=1e-12)
            continue
        with pytest.raises(ModelError) as caught:
            solvent.solve(case.model, case.budget, spent=case.spent, method=name)
        assert str(refusal) in str(caught.value)


def test_a_method_from_another_package(brute: None) -> None:
    assert "brute" in registry.names()
    assert registry.summaries()["brute"] == BruteForce.summary
    rng = np.random.default_rng(5)
    for seed in range(25):
        values, weights = rng.integers(1, 9, 5), rng.integers(1, 6, 5)
        model = instances.knapsack(values.tolist(), weights.tolist(), capacity=int(rng.integers(0, 15)))
        found = solvent.solve(model, method="brute")
        known = solvent.solve(model)
        assert (found.method, known.method) == ("brute", "labels")
        assert found.value == known.value, seed
        report = solvent.verify(model, found.policy)
        assert report.feasible
        assert report.value == pytest.approx(found.value)
    infeasible = solvent.solve(instances.partition([3, 1, 1]), method="brute")
    assert infeasible.status is solvent.Status.INFEASIBLE
    assert infeasible.diagnosis is not None


def test_a_method_from_another_package_refuses_what_it_does_not_accept(brute: None) -> None:
    with pytest.raises(ModelError, match=r'^method="brute": expected a model without randomness, found several'):
        solvent.solve(instances.fuel_grid(3), method="brute")
    with pytest.raises(ModelError, match=r'^method="missing": expected a solver at no_such_module:Solver'):
        solvent.solve(instances.fuel_grid(3), method="missing")
    with pytest.raises(ModelError, match=r'^method="number": expected an object with the attributes'):
        solvent.solve(instances.fuel_grid(3), method="number")


def test_a_name_that_is_taken_is_ignored(brute: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="solvent"):
        names = registry.names()
    assert names.count("reduction") == 1
    assert "the solver 'reduction'" in caplog.text
    assert registry.get("reduction").summary != BruteForce.summary


def test_the_choice_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="solvent"):
        solvent.solve(instances.fuel_grid(3))
    assert "labels does not accept the problem: expected a model without randomness" in caplog.text
    assert "times the work of the reduction" in caplog.text


def test_what_estimates_prepared_is_released() -> None:
    """Memory that a method reserved to estimate its work is given back if another one is chosen."""
    model = instances.random(12, 3, horizon=12, real_costs=True, cost_range=(0, 3), budget=1000, seed=1)
    chosen = set()
    for budget in (5, 1000):
        monitor = ResourceMonitor()
        problem = Problem.exact(model, resolve(model, budget), monitor=monitor)
        used = monitor.used
        solver, prepared = choice.choose(problem, registry.AUTO, Run(monitor))
        solver.discard(prepared, Run(monitor))
        assert monitor.used == used
        chosen.add(solver.name)
    assert chosen <= {"reduction", "frontier"}


def test_problems_pickle() -> None:
    model = instances.random(5, 2, horizon=4, resources=2, budget=9, seed=2)
    problem = Problem.exact(model, resolve(model, None))
    again = pickle.loads(pickle.dumps(problem))
    run = functools.partial(choice.solve_problem, method="reduction", run=Run(ResourceMonitor()))
    assert run(again).value == run(problem).value
    assert all(
        np.array_equal(a, b)
        for a, b in itertools.zip_longest(
            (again.lattice.cost_OD, again.lattice.upper_HD), (problem.lattice.cost_OD, problem.lattice.upper_HD)
        )
    )


class Faulty(BruteForce):
    """A method that raises, or returns what it should not, in one of its functions."""

    where = ""

    def accepts(self, problem: Problem) -> Any:
        if self.where == "accepts":
            raise ValueError("faulty")
        return "no" if self.where == "refusal" else None

    def estimate(self, problem: Problem, run: Run) -> Any:
        if self.where == "estimate":
            raise ValueError("faulty")
        return None if self.where == "estimate of None" else Estimate(float("inf"))

    def solve(self, problem: Problem, run: Run, prepared: Any = None) -> Any:
        return None if self.where == "answer" else registry.get("reduction").solve(problem, run)


@pytest.fixture
def faulty(brute: None, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("brute", f"{__name__}:Faulty", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    for cached in (registry.external_solvers, registry.get):
        cached.cache_clear()


@pytest.mark.parametrize("where", ["accepts", "refusal", "estimate", "estimate of None"])
@pytest.mark.parametrize("options", [{}, {"gap": 0.1}])
def test_a_faulty_method_that_was_not_asked_for_is_ignored(
    where: str, options: Any, faulty: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Faulty, "where", where)
    with caplog.at_level(logging.WARNING, logger="solvent"):
        solution = solvent.solve(instances.fuel_grid(3), **options)
    assert solution.status is solvent.Status.OPTIMAL
    assert "the solver 'brute' is ignored: " in caplog.text


def test_a_faulty_method_that_was_asked_for(faulty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    model = instances.fuel_grid(3)
    monkeypatch.setattr(Faulty, "where", "refusal")
    with pytest.raises(ModelError, match=r"expected None or a `Refusal` from its `accepts`, found 'no'"):
        solvent.solve(model, method="brute")
    monkeypatch.setattr(Faulty, "where", "answer")
    with pytest.raises(ModelError, match=r"expected an `Answer` from its solver, found None"):
        solvent.solve(model, method="brute")
    monkeypatch.setattr(Faulty, "where", "")
    assert solvent.solve(model, method="brute").method == "brute"


def test_a_discounted_model_is_not_optimal_if_its_solver_was_stopped(
    faulty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Any, problem: Problem, run: Run, prepared: Any = None) -> Answer:
        answer = registry.get("reduction").solve(problem, run)
        if not run.options.unfinished:
            raise LimitReached("the time limit was reached")
        return replace(answer, upper=answer.upper + 100, stopped="the time limit was reached")

    monkeypatch.setattr(Faulty, "solve", stop)
    b = solvent.CMDP.builder(horizon=None, discount="1/2", start="s", resources=["f"])
    b.add("s", "go", reward=1, outcomes=[(1, "s", 1)])
    b.add("s", "rest", outcomes=[(1, "s", 0)])
    for budget, strict in itertools.product((4, 1), (False, True)):
        solution = solvent.solve(b.build(), budget, epsilon="1/4", method="brute", strict=strict)
        assert solution.status is solvent.Status.LIMIT
    assert solvent.solve(b.build().unrolled(4), 1, method="brute").status is solvent.Status.FEASIBLE


def test_copies_of_solutions_can_be_changed() -> None:
    solution = solvent.solve(instances.fuel_grid(3))
    again = pickle.loads(pickle.dumps(solution))
    assert again.found.worst_spent == solution.worst_spent
    assert solvent.verify(instances.fuel_grid(3), replace(again, message="changed")).feasible
