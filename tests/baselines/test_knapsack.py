"""Episodes that end when a limit is broken and keep their rewards."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

import pytest
from hypothesis import given

import solvent
from oracle import Amounts, Problem
from solvent import baselines
from solvent.model import instances
from strategies import Tiny, problems


def ends_when_broken(problem: Problem) -> Fraction:
    """Return the most that can be earned, by recursion over histories."""

    def best(step: int, state: Hashable, spent: Amounts) -> Fraction:
        rows = problem.rows(step, state) if step < problem.horizon else ()
        worths = []
        for row in rows:
            worth = Fraction(row.reward)
            for p, after, then in problem.arrivals(spent, row):
                if problem.keeps(step, then):
                    worth += Fraction(p) * best(step + 1, after, then)
            worths.append(worth)
        return max(worths, default=Fraction(0))

    return best(0, problem.start, problem.nothing)


@given(problems(max_resources=2, max_horizon=3))
def test_value_and_both_ways_to_run_it(tiny: Tiny) -> None:
    expected = float(ends_when_broken(Problem(tiny.model, tiny.budget)))
    stopped = baselines.knapsack_style(tiny.model, tiny.budget, stops=True)
    running = baselines.knapsack_style(tiny.model, tiny.budget)
    assert stopped.value == running.value == pytest.approx(expected, abs=1e-9)
    report = solvent.verify(tiny.model, stopped.policy, tiny.budget)
    assert report.value == pytest.approx(expected, abs=1e-9)
    on = solvent.verify(tiny.model, running.policy, tiny.budget)
    assert on.violation_probability == pytest.approx(report.violation_probability, abs=1e-9)
    assert on.feasible == report.feasible


def test_the_breaking_step_is_paid() -> None:
    model = instances.knapsack([5, 7], [1, 1], capacity=1)
    found = baselines.knapsack_style(model)
    assert found.value == 12
    assert found.message == "breaks a limit with probability 1"


def test_unconstrained_is_the_best_of_all() -> None:
    model = instances.random(4, 3, horizon=6, seed=3)
    found = baselines.unconstrained(model)
    assert solvent.verify(model, found.policy).value == pytest.approx(found.value)
    loose = solvent.solve(model, {"r0": None}).value
    assert found.value == pytest.approx(loose)
    assert baselines.unconstrained(instances.knapsack([1], [1])).value == 1
