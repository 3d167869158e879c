"""Saturation, goals, end rewards, several first states and initial amounts: every method against brute force."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import catalog
import oracle
import promises
import solvent
import strategies
from effort import draws
from solvent.errors import ModelError
from solvent.model.budget import resolve
from solvent.solvers import registry
from solvent.solvers.problem import Problem
from strategies import FEATURES, Tiny

CLOSE = 1e-9
EACH = [pytest.param((name,), id=name) for name in FEATURES]
SETS = [*EACH, pytest.param(("floor", "ceiling", "initial"), id="accounts"), pytest.param(FEATURES, id="all")]


def given_of(tiny: Tiny) -> dict[str, Any]:
    """Return the arguments of `solve` and `verify` besides model and budget."""
    return {} if tiny.spent is None else {"spent": tiny.spent}


def accepted(tiny: Tiny) -> set[str]:
    """Return the methods that say that they accept a problem."""
    problem = Problem.exact(tiny.model, resolve(tiny.model, tiny.budget, tiny.spent))
    return {name for name in registry.names() if registry.get(name).accepts(problem) is None}


def size_of(tiny: Tiny) -> float:
    """Return a bound on what can be earned."""
    model = tiny.model
    end = 0.0 if model.end_reward is None else float(np.abs(model.end_reward).max())
    return model.horizon * float(np.abs(model.row_reward).max(initial=0.0)) + end


def check(tiny: Tiny, solution: Any, best: oracle.Value) -> None:
    """Check an exact answer, in Fractions: bounds around the optimum, and a policy that keeps limits and goals."""
    if best == oracle.INFEASIBLE:
        assert solution.status == "infeasible"
        assert solution.value == solution.value_lower == solution.value_upper == -math.inf
        assert solution.message.startswith("infeasible: ")
        return
    assert solution.status == "optimal"
    assert Fraction(solution.value_lower) <= best <= Fraction(solution.value_upper)
    assert solution.value_upper - solution.value_lower <= CLOSE * max(1.0, size_of(tiny))
    done = oracle.walk(tiny.model, tiny.budget, solution.policy.action, spent=tiny.spent)
    assert (done.stuck, done.broken, done.strayed) == ([], [], [])
    assert Fraction(solution.value_lower) <= done.value <= best
    assert (
        tuple(solution.worst_spent[name] for name in resolve(tiny.model, tiny.budget, tiny.spent).resources)
        == done.most
    )
    report = solvent.verify(tiny.model, solution.policy, tiny.budget, **given_of(tiny))
    assert report.feasible
    assert report.value == pytest.approx(float(done.value), rel=CLOSE, abs=CLOSE * max(1.0, size_of(tiny)))
    assert report.worst_spent == {
        name: solution.worst_spent.get(name, report.worst_spent[name]) for name in report.worst_spent
    }


def check_exact(tiny: Tiny) -> Counter[str]:
    """Solve by every method that accepts a problem; others must refuse. Return which did."""
    best = oracle.optimum(tiny.model, tiny.budget, spent=tiny.spent)
    event("infeasible" if best == oracle.INFEASIBLE else "feasible")
    fits, done = accepted(tiny), Counter[str]()
    assert "reduction" in fits
    for method in catalog.ALL_METHODS:
        name = catalog.VARIANTS.get(method, method)
        if name == registry.AUTO or name in fits:
            check(tiny, catalog.run(method, tiny.model, tiny.budget, tiny.spent), best)
            done[method] += 1
        else:
            with pytest.raises(ModelError):
                catalog.run(method, tiny.model, tiny.budget, tiny.spent)
    return done


@pytest.mark.parametrize("features", SETS)
@draws(20)
@given(data=st.data())
def test_brute_force_agrees_with_itself(features, data):
    tiny = data.draw(strategies.problems(features=features, max_resources=2, max_horizon=3))
    assert oracle.optimum(tiny.model, tiny.budget, spent=tiny.spent) == oracle.optimum_over_histories(
        tiny.model, tiny.budget, tiny.spent
    )


@pytest.mark.parametrize("features", SETS)
@draws(25)
@given(data=st.data())
def test_every_method(features, data):
    check_exact(data.draw(strategies.problems(features=features, max_resources=2)))


@pytest.mark.parametrize("features", SETS)
@draws(25)
@given(data=st.data())
def test_every_method_on_one_side(features, data):
    check_exact(data.draw(strategies.one_sided_problems(features=features)))


@pytest.mark.parametrize("features", SETS)
@draws(25)
@given(data=st.data())
def test_every_method_without_chance(features, data):
    check_exact(data.draw(strategies.one_sided_problems(features=features, certain=True)))


@pytest.mark.parametrize("strict", [False, True], ids=["relaxed", "strict"])
@pytest.mark.parametrize("approximation", ["additive", "relative"])
@pytest.mark.parametrize("features", SETS)
@draws(10)
@given(data=st.data())
def test_rounded_costs(features, approximation, strict, data):
    tiny = data.draw(strategies.problems(features=features, max_resources=2))
    epsilon = data.draw(st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(7, 3)]))
    limits = resolve(tiny.model, tiny.budget, tiny.spent)
    options = {"approximation": approximation, "epsilon": epsilon, "strict": strict}
    if approximation == "relative" and any(not x for d in range(len(limits.resources)) for x in limits.distinct(d)):
        return  # a share of nothing
    solution = solvent.solve(tiny.model, tiny.budget, **given_of(tiny), **options)
    best = oracle.optimum(tiny.model, tiny.budget, spent=tiny.spent)
    event(str(solution.status))
    assert solution.status in (
        {"optimal", "feasible", "infeasible", "not_found"} if strict else {"optimal", "relaxed", "infeasible"}
    )
    if best == oracle.INFEASIBLE:
        assert solution.status in ("infeasible", "relaxed", "not_found")
        assert solution.value_lower == -math.inf
    else:
        assert solution.status != "infeasible"
        assert solution.value_lower <= best <= Fraction(solution.value_upper)
    if solution.status in ("infeasible", "not_found"):
        return
    report = promises.check_worst(tiny.model, tiny.budget, solution, approximation, epsilon, strict, tiny.spent)
    if solution.status != "relaxed":
        assert report.value >= solution.value_lower - CLOSE * max(1.0, size_of(tiny))


@pytest.mark.parametrize("features", SETS)
@draws(10)
@given(data=st.data())
def test_gap(features, data):
    tiny = data.draw(strategies.problems(features=features, max_resources=2))
    asked = data.draw(st.sampled_from([0, 0.01, 0.5]))
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans(), "rounds at once"):
            patch.setattr("solvent.solvers.transforms.gap._FIRST_TRY", 0)
        solution = solvent.solve(tiny.model, tiny.budget, gap=asked, **given_of(tiny))
    best = oracle.optimum(tiny.model, tiny.budget, spent=tiny.spent)
    if best == oracle.INFEASIBLE:
        assert solution.status == "infeasible"
        return
    assert solution.status in ("optimal", "within_gap")
    assert Fraction(solution.value_lower) <= best <= Fraction(solution.value_upper)
    size = max(abs(solution.value_lower), abs(solution.value_upper))
    # rounding errors are relative to what can be earned, of which positive and negative parts may cancel
    assert solution.value_upper - solution.value_lower <= asked * size + CLOSE * size_of(tiny)
    assert solvent.verify(tiny.model, solution.policy, tiny.budget, **given_of(tiny)).feasible


@pytest.mark.parametrize("features", SETS)
@draws(10)
@given(data=st.data())
def test_episodes_end_in_goals_within_limits(features, data):
    tiny = data.draw(strategies.problems(features=features, max_resources=2))
    solution = solvent.solve(tiny.model, tiny.budget, **given_of(tiny))
    if solution.status == "infeasible":
        return
    done = solvent.simulate(tiny.model, solution.policy, 50, 0, tiny.budget, **given_of(tiny))
    assert done.violations == 0
    problem = oracle.Problem(tiny.model, tiny.budget, spent=tiny.spent)
    for first in problem.starts:
        agent = solution.policy.agent(state=first)
        spent, path = problem.initial, []
        while not agent.done:
            rows = problem.rows(agent.step, agent.state)
            (row,) = (row for row in rows if row.action == agent.act())
            choice = data.draw(st.integers(0, len(row.outcomes) - 1))
            _, state, cost = row.outcomes[choice]
            step, spent = agent.step, problem.plus(spent, cost)
            full = _costs(tiny, agent.step, agent.state, agent.act(), choice)
            agent.observe(state, full)
            path.append(state)
            assert problem.keeps(step, spent)
            assert tuple(agent.spent[name] for name in problem.tracked) == spent
        assert problem.end(agent.state) != oracle.INFEASIBLE
        assert problem.keeps_to_the_end(agent.step, spent)


def _costs(tiny: Tiny, step: int, state: Any, action: Any, choice: int) -> dict[str, Any]:
    """Return the costs of an outcome of all resources, also of those without limits."""
    model = tiny.model
    rows = model.rows(step, model.state_index(state))
    (row,) = (r for r in rows if model.actions[model.row_action[r]] == action)
    return model.outcomes(row)[choice].cost


@pytest.mark.parametrize("prune", [True, False], ids=["pruned", "plain"])
@pytest.mark.parametrize("features", SETS)
@draws(10)
@given(data=st.data())
def test_augmented_models(features, prune, data):
    from fuzz.oracles import backward_value

    tiny = data.draw(strategies.problems(features=features, max_resources=2))
    best = oracle.optimum(tiny.model, tiny.budget, spent=tiny.spent)
    mdp = solvent.augment(tiny.model, tiny.budget, prune=prune, **given_of(tiny))
    assert mdp.feasible == (best != oracle.INFEASIBLE)
    if mdp.feasible:
        assert backward_value(mdp) == pytest.approx(float(best), rel=CLOSE, abs=CLOSE * max(1.0, size_of(tiny)))


@pytest.mark.parametrize("features", SETS)
@draws(10)
@given(data=st.data())
def test_curves_over_budgets(features, data):
    """The value at each tank size is that of a solve at that size."""
    tiny = data.draw(strategies.problems(features=features, min_resources=1, max_resources=2))
    name = data.draw(st.sampled_from(tiny.model.resources))
    curve = solvent.frontier(tiny.model, name, ignore_limits=True, **given_of(tiny))
    free: dict[str, Any] = dict.fromkeys(tiny.model.resources)
    budgets = {*strategies.LIMITS, *curve.budgets, *(budget - Fraction(1, 1000) for budget in curve.budgets)}
    values = []
    for budget in sorted(budgets):
        if budget > curve.max_budget and not curve.flat_beyond:
            continue
        best = oracle.optimum(tiny.model, {**free, name: budget}, spent=tiny.spent)
        values.append(curve.value(budget))
        assert values[-1] == pytest.approx(float(best), rel=CLOSE, abs=CLOSE * max(1.0, size_of(tiny)))
    assert values == sorted(values)


@pytest.mark.parametrize("features", SETS)
@draws(10)
@given(data=st.data())
def test_curves_over_what_remains(features, data):
    """The value of each amount that remains of a limit is that of a solve that begins with the rest spent."""
    tiny = data.draw(strategies.problems(features=features, min_resources=1, max_resources=2))
    name, limit = data.draw(st.sampled_from(tiny.model.resources)), data.draw(st.sampled_from(strategies.LIMITS))
    resource = tiny.model.resource(name)
    budget: dict[str, Any] = {**dict.fromkeys(tiny.model.resources), name: limit}
    if resource.ceiling is not None and resource.ceiling <= limit:
        with pytest.raises(solvent.ModelError, match=f"no ceiling of {name} up to its limit"):
            solvent.frontier(tiny.model, name, vary="remaining", budget=budget)
        return
    if resource.floor is not None and limit < resource.floor:
        with pytest.raises(solvent.BudgetError, match=f"a limit of {name} of at least its floor"):
            solvent.frontier(tiny.model, name, vary="remaining", budget=budget)
        return
    curve = solvent.frontier(tiny.model, name, vary="remaining", budget=budget)
    others = {other: tiny.model.resource(other).clamp(Fraction(0)) for other in tiny.model.resources}
    amounts = {*strategies.LIMITS, *curve.budgets, *(amount - Fraction(1, 1000) for amount in curve.budgets)}
    for amount in sorted(amounts):
        spent = limit - amount
        beyond = amount < 0 or (amount > curve.max_budget and not curve.flat_beyond)
        if spent != resource.clamp(spent) or beyond:
            continue
        best = oracle.optimum(tiny.model, budget, spent={**others, name: spent})
        tolerance = CLOSE * max(1.0, size_of(tiny))
        assert curve.value(amount) == pytest.approx(float(best), rel=CLOSE, abs=tolerance)
