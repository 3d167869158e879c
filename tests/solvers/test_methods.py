"""Every method on every problem of the catalog and on random ones: the same answers as brute force."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import event, given, settings

import catalog
import oracle
import strategies
from catalog import CASES, INFEASIBLE, run
from effort import draws
from solvent.errors import SolventError
from solvent.model.budget import resolve
from solvent.solvers.solve import solve

#: The relative error allowed between floats and Fractions.
CLOSE = 1e-9


def close(value, size=1.0):
    return pytest.approx(float(value), rel=CLOSE, abs=CLOSE * max(1.0, size))


def check(model, budget, solution, value, number=Fraction, spent=None):
    """Check everything a solution says against a known optimum and against all histories of its policy."""
    limits = resolve(model, budget, spent)
    if value == INFEASIBLE:
        assert solution.status == "infeasible"
        assert solution.value == solution.value_lower == solution.value_upper == INFEASIBLE
        assert solution.diagnosis is not None
        assert solution.message.startswith("infeasible: ")
        with pytest.raises(SolventError, match="infeasible"):
            _ = solution.policy
        return
    size = model.horizon * float(abs(model.row_reward).max())
    assert solution.status == "optimal"
    assert solution.value == close(value, size)
    assert solution.value_lower <= solution.value <= solution.value_upper
    assert solution.value_lower == close(value, size)
    assert solution.value_upper == close(value, size)
    assert solution.gap == pytest.approx(0, abs=CLOSE)
    assert solution.diagnosis is None
    done = oracle.walk(model, budget, solution.policy.action, number, spent)
    assert done.stuck == []
    assert done.broken == []
    assert done.strayed == []
    assert float(done.value) == close(value, size)
    if number is Fraction:  # the bounds contain every rounding error, so nothing is allowed for it here
        assert Fraction(solution.value_lower) <= done.value
    if isinstance(value, Fraction):
        assert Fraction(solution.value_lower) <= value <= Fraction(solution.value_upper)
    assert solution.value_checked
    assert solution.worst_is_exact
    assert set(solution.worst_spent) == set(limits.resources)
    assert tuple(solution.worst_spent[name] for name in limits.resources) == done.most
    for d, name in enumerate(limits.resources):
        upper = [limit for limit in limits.upper[d] if limit is not None]
        if len(upper) == model.horizon:
            assert solution.worst_spent[name] <= max(upper)


# half of the methods on each problem by default, and half of the problems by each method
@pytest.mark.parametrize(
    ("case", "method"),
    [
        pytest.param(case, method, id=f"{case.name}-{method}", marks=() if (i + j) % 2 else pytest.mark.slow)
        for i, case in enumerate(CASES)
        for j, method in enumerate(case.methods)
    ],
)
def test_catalog(case, method):
    solution = run(method, case.model, case.budget, case.spent)
    check(case.model, case.budget, solution, case.value, float, case.spent)
    for name, worst in case.worst.items():
        assert solution.worst_spent[name] == worst


def test_the_catalog_has_all_kinds():
    assert len({case.name for case in CASES}) == len(CASES)
    for method in catalog.ALL_METHODS:
        values = [case.value for case in CASES if method in case.methods]
        assert INFEASIBLE in values
        assert len(values) > (25 if method == "labels" else 50)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name)
        for case in catalog.OWN
        if case.model.n_rows <= 60 and case.name != "knapsack-p08"
    ],
)
def test_the_catalog_is_right(case):
    """Brute force agrees, where it takes but a moment."""
    assert float(oracle.optimum(case.model, case.budget, float, case.spent)) == close(case.value)


def test_a_penalty_is_no_substitute_for_minus_infinity():
    model = catalog.ridge()
    problem = oracle.Problem(model, None, float)
    penalized = oracle.Nodes(problem, penalty=-1e6)
    start = (0, problem.start, problem.nothing)
    assert penalized.value(*start) == pytest.approx(catalog.RIDGE_WITH_A_PENALTY, rel=1e-9)
    assert oracle.Nodes(problem).value(*start) == pytest.approx(catalog.RIDGE, rel=1e-9)

    def by_penalty(step, state, spent):
        return penalized.best_action(step, state, tuple(spent.values()))

    done = oracle.walk(model, None, by_penalty, float)
    assert done.broken, "the penalized optimum walks into a pit"
    safe = oracle.walk(model, None, solve(model).policy.action, float)
    assert not safe.broken
    assert safe.value < penalized.value(*start) - 1


@given(strategies.problems())
@draws(150)
def test_random_problems(tiny):
    value = oracle.optimum(tiny.model, tiny.budget)
    event("infeasible" if value == INFEASIBLE else "feasible")
    methods = ["reduction", "hash", "plain", "auto"]
    for method in methods + ["grid"] * bool(resolve(tiny.model, tiny.budget).resources):
        check(tiny.model, tiny.budget, run(method, tiny.model, tiny.budget), value)


@given(strategies.one_sided_problems())
@draws(150)
def test_random_problems_of_one_resource(tiny):
    value = oracle.optimum(tiny.model, tiny.budget)
    event("infeasible" if value == INFEASIBLE else "feasible")
    for method in catalog.ALL_METHODS:
        if method != "labels" or tiny.model.n_rows == tiny.model.n_outcomes:
            check(tiny.model, tiny.budget, run(method, tiny.model, tiny.budget), value)


@given(strategies.problems(max_horizon=3))
@draws(60)
def test_nodes_are_enough(tiny):
    """What happened before a node does not matter (`lem: value`): the optimum over all histories is the same."""
    value = oracle.optimum_over_histories(tiny.model, tiny.budget)
    assert value == oracle.optimum(tiny.model, tiny.budget)
    assert solve(tiny.model, tiny.budget).value == close(value)


@pytest.mark.slow
@pytest.mark.parametrize("problems", [strategies.problems(), strategies.one_sided_problems()])
def test_random_problems_are_often_feasible_and_often_not(problems):
    found = []

    @given(problems)
    @settings(max_examples=100, derandomize=True, database=None)
    def draw(tiny):
        found.append(oracle.feasible(tiny.model, tiny.budget))

    draw()
    assert 0.3 < sum(found) / len(found) < 0.9


def test_the_value_is_a_plain_number():
    case = next(case for case in CASES if case.name == "markov-gap")
    solution = solve(case.model)
    assert type(solution.value) is float
    assert math.isfinite(solution.stats.seconds)
    assert all(type(spent) is Fraction for spent in solution.worst_spent.values())
