"""The approximation schemes keep their promises, on every problem of the catalog and on random ones."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from catalog import CASES, Case
from effort import draws, first, seeds
from oracle import optimum
from promises import NOISE, check_worst
from solvent import Budget, ModelError, Status, instances
from solvent.core.limits import ResourceMonitor
from solvent.model.budget import resolve
from solvent.model.cmdp import CMDP
from solvent.solvers.base import Run
from solvent.solvers.choice import solve_problem
from solvent.solvers.solve import solve
from solvent.solvers.transforms.rounding import additive_lengths, project
from strategies import Tiny, problems

EPSILONS = [Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(8)]


def check_all(model: CMDP, budget: Any, exact: float, method: str, epsilon: Fraction, **options: Any) -> None:
    size = NOISE * max(1.0, abs(exact) if math.isfinite(exact) else 1.0)
    relaxed = solve(model, budget, approximation=method, epsilon=epsilon, **options)
    strict = solve(model, budget, approximation=method, epsilon=epsilon, strict=True, **options)
    if exact == -math.inf:
        assert relaxed.status in (Status.RELAXED, Status.INFEASIBLE)
        assert strict.status in (Status.NOT_FOUND, Status.INFEASIBLE)
        assert strict.value == -math.inf
    else:
        assert relaxed.status in (Status.RELAXED, Status.OPTIMAL)
        assert strict.status in (Status.OPTIMAL, Status.FEASIBLE, Status.NOT_FOUND)
        assert relaxed.value >= exact - size
        assert strict.value <= exact + size
    for solution, is_strict in ((relaxed, False), (strict, True)):
        assert solution.value_lower <= exact + size
        assert solution.value_upper >= exact - size
        counted, bound = solution.stats.approximate_costs, solution.stats.approximate_costs_bound
        assert counted is None or counted <= bound
        if math.isfinite(solution.value):
            check_worst(model, budget, solution, method, epsilon, is_strict)
            if solution.status is Status.OPTIMAL:
                assert solution.value == pytest.approx(exact, abs=size)


@pytest.mark.parametrize("method", ["additive", "relative"])
@pytest.mark.parametrize("share", first(1, [Fraction(1, 2), Fraction(1, 10)]), ids=lambda share: f"1 of {1 / share}")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_promises_on_the_catalog(case: Case, share: Fraction, method: str) -> None:
    limits = resolve(case.model, case.budget, case.spent)
    if method == "relative" and any(0 in limits.distinct(d) for d in range(len(limits.resources))):
        with pytest.raises(ModelError, match=r'limit other than 0 .* use approximation="additive"'):
            solve(case.model, case.budget, approximation=method, epsilon=0.1)
        return
    if not limits.resources:
        return
    scale = max(limits.largest(d) for d in range(len(limits.resources))) if method == "additive" else 1
    check_all(case.model, case.budget, case.value, method, share * (scale or 1), spent=case.spent)


@given(problems(min_resources=1, max_resources=2), st.sampled_from(EPSILONS), st.booleans())
@draws(250)
def test_additive_promises(tiny: Tiny, epsilon: Fraction, prune: bool) -> None:
    exact = float(optimum(tiny.model, tiny.budget))
    check_all(tiny.model, tiny.budget, exact, "additive", epsilon, prune=prune)


@given(problems(min_resources=1, max_resources=2), st.sampled_from(EPSILONS))
@draws(250)
def test_relative_promises(tiny: Tiny, epsilon: Fraction) -> None:
    limits = resolve(tiny.model, tiny.budget)
    if any(0 in limits.distinct(d) for d in range(len(limits.resources))):
        return
    check_all(tiny.model, tiny.budget, float(optimum(tiny.model, tiny.budget)), "relative", epsilon)


@given(st.integers(0, 10**6), st.sampled_from(["1/5", "1", "4"]))
@draws(60)
def test_promises_on_real_costs(seed: int, epsilon: str) -> None:
    model = instances.random(
        3, 2, horizon=5, resources=1 + seed % 2, real_costs=True, cost_range=(-1 - seed % 3, 3), budget=4, seed=seed
    )
    exact = solve(model)
    check_all(model, None, exact.value, "additive", Fraction(epsilon))
    check_all(model, None, exact.value, "relative", Fraction(epsilon) / 10)


@given(problems(min_resources=1, max_resources=2), st.sampled_from(EPSILONS))
@draws(100)
def test_rounding_up_is_never_worse_than_the_smaller_budget(tiny: Tiny, epsilon: Fraction) -> None:
    limits = resolve(tiny.model, tiny.budget)
    lengths = additive_lengths((epsilon,) * len(limits.resources), limits, tiny.model.horizon)
    up, smaller = (
        solve_problem(project(tiny.model, limits, lengths, scheme), "auto", Run(ResourceMonitor()))
        for scheme in ("rounded", "smaller budget")
    )
    assert up.value >= smaller.value - NOISE
    if smaller.feasible:
        assert not any(
            project(tiny.model, limits, lengths, "smaller budget").excess(smaller.peak_HD, smaller.trough_HD).values()
        )


def spend_or_rest(costs: list[Any], budget: Any) -> CMDP:
    b = solvent.CMDP.builder(horizon=len(costs), start=0, resources=["x"], budget={"x": budget})
    for step, cost in enumerate(costs):
        b.add(0, "take", reward=1, outcomes=[(1, 0, cost)], steps=[step])
        b.add(0, "rest", outcomes=[(1, 0, 0)], steps=[step])
    return b.build()


def test_the_relative_budget_as_printed_would_go_over() -> None:
    # the paper's proposition takes the length from B itself, with which B / (1 + e) + e B is more than B
    budget, epsilon, cost = Fraction(10), Fraction(3, 5), Fraction("11.9")
    length, smaller = epsilon * budget, budget / (1 + epsilon)
    assert cost // length * length <= smaller
    assert cost > budget
    strict = solve(spend_or_rest([cost], budget), approximation="relative", epsilon=epsilon, strict=True)
    assert strict.value == strict.worst_spent["x"] == 0


def test_a_smaller_budget_can_win_as_its_length_is_finer() -> None:
    # at 0.6 of the budget, 6.1 rounds up to 12; at 3.75 it counts as 3.75, within 6.25 as it should
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["x"], budget={"x": 10})
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    b.add(0, "buy", reward=1, outcomes=[(1, 0, "6.1")])
    b.add(0, "buy more", reward=5, outcomes=[(1, 0, 11)])
    solution = solve(b.build(), approximation="relative", epsilon="3/5", strict=True)
    assert solution.rounding == "against smaller limits"
    assert solution.value == 1
    assert solution.message == "feasible: never over budget, found with a smaller budget"


@pytest.mark.parametrize("seed", seeds(40))
def test_the_better_scheme_is_returned_and_named(seed: int) -> None:
    model = instances.paper(8, seed=seed, budget=1)
    epsilon = Fraction(1, 2)
    solution = solve(model, approximation="relative", epsilon=epsilon, strict=True)
    if solution.status is Status.OPTIMAL and "rounded costs" in solution.message:
        return
    assert solution.approximation == "relative"
    assert solution.rounding in ("away from the limits", "against smaller limits")
    assert solution.value <= solve(model).value + NOISE
    limits = resolve(model, None)
    from solvent.solvers.transforms.rounding import relative_lengths

    values = {}
    for scheme in ("rounded", "smaller budget"):
        lengths = relative_lengths((epsilon,), limits, model.horizon, strict=scheme == "smaller budget")
        values[scheme] = solve_problem(project(model, limits, lengths, scheme), "auto", Run(ResourceMonitor())).value
    assert solution.value == max(values.values())
    assert (solution.rounding == "away from the limits") == (values["rounded"] >= values["smaller budget"])


def test_negative_budgets_are_kept_strictly() -> None:
    # collect at least 5: costs are refunds, the budget is -5; B / (1 + e) would allow -5 / 1.5
    b = solvent.CMDP.builder(horizon=4, start=0, resources=["x"], budget={"x": Budget.final(-5)})
    b.add(0, "work", reward=-1, outcomes=[(0.5, 0, Fraction(-13, 10)), (0.5, 0, -2)])
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    model = b.build()
    for epsilon in ("1/10", "1/2", "9/10", 1, 3):
        solution = solve(model, approximation="relative", epsilon=epsilon, strict=True)
        if solution.value > -math.inf:
            assert solvent.verify(model, solution.policy).feasible
    close = solve(model, approximation="relative", epsilon="1/100", strict=True)
    assert close.value == solve(model).value
    relaxed = solve(model, approximation="relative", epsilon="1/2")
    assert solvent.verify(model, relaxed.policy).worst_spent_by_step["x"][-1] <= -5 * (1 - Fraction(1, 2))


def test_a_budget_of_zero() -> None:
    model = instances.negative_knapsack([3, 1, 2])
    assert solve(model, 0, approximation="additive", epsilon=0.1, strict=True).value == solve(model, 0).value
    with pytest.raises(
        ModelError, match=r'a limit other than 0 with approximation="relative".*found 0.*use approximation="additive"'
    ):
        solve(model, 0, approximation="relative", epsilon=0.1)


def test_agents_are_told_true_costs() -> None:
    model = instances.random(3, 2, horizon=6, real_costs=True, cost_range=(0, 3), budget=12, seed=3)
    solution = solve(model, approximation="additive", epsilon=1)
    assert solution.policy.counting == ("down",)
    agent = solution.policy.agent()
    spent = Fraction(0)
    while not agent.done:
        row = next(
            r for r in model.rows(agent.step, model.state_index(agent.state)) if model.row_action[r] == agent.act()
        )
        outcome = model.outcomes(row)[0]
        agent.observe(outcome.next_state, outcome.cost["r0"])
        spent += outcome.cost["r0"]
    assert agent.spent["r0"] == spent <= 13


def test_more_promises_than_epsilon_per_resource() -> None:
    model = instances.random(3, 2, horizon=4, resources=2, real_costs=True, cost_range=(0, 3), budget=12, seed=1)
    solution = solve(model, approximation="additive", epsilon={"r0": 2, "r1": "1/10"})
    assert solution.excess["r0"] <= 2
    assert solution.excess["r1"] <= Fraction(1, 10)


def test_an_infeasible_problem_is_diagnosed_on_exact_costs() -> None:
    solution = solve(instances.knapsack([5], [3], capacity=-2), approximation="additive", epsilon=0.5)
    assert solution.status is Status.INFEASIBLE
    assert solution.diagnosis is not None
    assert solution.diagnosis.least_budget == {"weight": 0}


def test_not_found_is_not_infeasible() -> None:
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["x"], budget={"x": "3.2"})
    b.add(0, "pay", reward=1, outcomes=[(0.5, 0, 3), (0.5, 0, "3.1")])
    b.add(0, "pay more", reward=2, outcomes=[(1, 0, "3.5")])
    model = b.build()
    solution = solve(model, approximation="additive", epsilon=2, strict=True)
    assert solution.status is Status.NOT_FOUND
    assert (
        "with epsilon 2 no policy was found that never exceeds the budget, although there may be one"
        in solution.message
    )
    assert 2 <= solution.value_upper <= 2 * (1 + 1e-9)
    assert solve(model, approximation="additive", epsilon="1/10", strict=True).status is Status.OPTIMAL


def test_costs_without_a_common_unit_can_be_planned() -> None:
    model = instances.knapsack([3, 4], [Fraction(1, 3**45), Fraction(1, 7**30)], capacity=1)
    with pytest.raises(solvent.LatticeOverflowError, match=r'solve with gap=0\.01, or approximation="additive" with'):
        solve(model)
    solution = solve(model, approximation="additive", epsilon=1)
    assert solution.status is Status.OPTIMAL
    assert solution.value == 7
    assert not solution.worst_is_exact
    assert solution.worst_spent["weight"] >= Fraction(1, 3**45) + Fraction(1, 7**30)


def test_messages_of_wrong_options() -> None:
    model = instances.knapsack([3], [2], capacity=2)
    for options, match in [
        (
            {"approximation": "additive"},
            'approximation="additive": expected epsilon= with it, an amount, found no epsilon',
        ),
        ({"approximation": "additive", "epsilon": 0}, "epsilon: expected a number above 0, found 0"),
        (
            {"approximation": "additive", "epsilon": {"wieght": 1}},
            "epsilon: expected a limited resource .*did you mean 'weight'",
        ),
        ({"approximation": "additive", "epsilon": {}}, "epsilon: expected a number for resource 'weight', found none"),
        (
            {"epsilon": 1},
            'epsilon: expected together with approximation="additive" or "relative", found no approximation',
        ),
        ({"strict": True}, 'strict=True: expected together with approximation="additive" or "relative"'),
        ({"approximation": "aditive", "epsilon": 1}, "approximation: expected one of .*did you mean 'additive'"),
        ({"method": "redaction"}, "method: expected one of auto, reduction, .*did you mean 'reduction'"),
        ({"method": "additive"}, 'method: expected one of auto, reduction, .*use approximation="additive"'),
    ]:
        with pytest.raises(ModelError, match=match):
            solve(model, **options)  # type: ignore[arg-type]
    fine = instances.knapsack([1, 1], [2**50, Fraction(1, 3**45)], capacity=2**50)
    with pytest.raises(ModelError, match=r"epsilon, weight: expected at least about .* fit 64 bits"):
        solve(fine, approximation="additive", epsilon=Fraction(1, 10**12))
