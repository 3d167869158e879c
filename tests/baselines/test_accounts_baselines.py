"""Baselines on models with saturating resources, initial amounts, drawn starts, end rewards and goals.

Each is compared with itself on a plain model of the same problem, in which amounts are part of the state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import solvent
from accounts import BREACH, FEATURES, Case, encode, random_case
from effort import seeds
from solvent.baselines import Baseline, chance, compare, expectation, knapsack_style, smaller_budget, unconstrained
from solvent.baselines.compare import METHODS
from solvent.solvers.solution import Status
from solvent.verification.report import VerifyReport

SIZES = [(1, False), (1, True), (2, True)]
PLAIN = [feature for feature in FEATURES if feature != "saturation"]


def verified(case: Case, found: Baseline) -> VerifyReport:
    return solvent.verify(case.model, found.policy, case.budget, spent=case.spent)


@pytest.mark.parametrize(("n_resources", "lower"), SIZES)
@pytest.mark.parametrize("seed", seeds(15))
def test_unconstrained(seed: int, n_resources: int, lower: bool) -> None:
    case = random_case(seed, n_resources=n_resources, lower=lower)
    found = unconstrained(case.model, case.budget, spent=case.spent)
    assert found.value == pytest.approx(unconstrained(encode(case)).value, abs=1e-9)
    assert verified(case, found).value == pytest.approx(found.value, abs=1e-9)
    assert found.value >= case.optimum - 1e-9


@pytest.mark.parametrize("delta", [0, 0.1, 0.4, 1])
@pytest.mark.parametrize(("n_resources", "lower"), SIZES)
@pytest.mark.parametrize("seed", seeds(8))
def test_chance(seed: int, n_resources: int, lower: bool, delta: float) -> None:
    case = random_case(seed, n_resources=n_resources, lower=lower)
    found = chance(case.model, case.budget, delta, spent=case.spent)
    other = chance(encode(case), {BREACH: 0}, delta)
    assert found.status == other.status
    assert found.value == pytest.approx(other.value, abs=1e-9)
    if delta == 0:
        assert found.value == pytest.approx(case.optimum, abs=1e-9)
    if found.has_policy:
        report = verified(case, found)
        assert report.value == pytest.approx(found.value, abs=1e-9)
        assert report.violation_probability is not None
        assert report.violation_probability <= delta + 1e-9


@pytest.mark.parametrize(("n_resources", "lower"), SIZES)
@pytest.mark.parametrize("seed", seeds(15))
def test_knapsack(seed: int, n_resources: int, lower: bool) -> None:
    case = random_case(seed, n_resources=n_resources, lower=lower)
    found = knapsack_style(case.model, case.budget, spent=case.spent, stops=True)
    other = knapsack_style(encode(case, pay_missed=False), {BREACH: 0})
    assert found.value == pytest.approx(other.value, abs=1e-9)


def encoded_budget(case: Case, *, every_step: bool) -> dict[str, Any]:
    """Return the budget of an encoded problem with sums of costs, which has a step before and one after."""
    budget: dict[str, Any] = {BREACH: 0}
    for d, name in enumerate(case.limits.resources):
        sides: list[Any] = []
        for side in (case.limits.upper[d], case.limits.lower[d]):
            moved = [None if limit is None else limit - case.limits.initial[d] for limit in side]
            if all(limit is None for limit in moved):
                sides.append(None)
            elif len(set(moved)) == 1 and not every_step:
                sides.append([None] * (len(moved) + 1) + moved[:1])
            else:
                sides.append([None, *moved, None])
        budget[name] = solvent.Budget(upper=sides[0], lower=sides[1])
    return budget


@pytest.mark.parametrize("every_step", [False, True])
@pytest.mark.parametrize(("n_resources", "lower"), SIZES)
@pytest.mark.parametrize("seed", seeds(15))
def test_expectation(seed: int, n_resources: int, lower: bool, every_step: bool) -> None:
    case = random_case(seed, PLAIN, n_resources=n_resources, lower=lower)
    found = expectation(case.model, case.budget, spent=case.spent, every_step=every_step)
    budget = encoded_budget(case, every_step=every_step)
    other = expectation(encode(case, sums=True), budget, every_step=every_step)
    assert found.status == other.status
    assert found.value == pytest.approx(other.value, abs=1e-6)
    if found.has_policy:
        assert verified(case, found).value == pytest.approx(found.value, abs=1e-6)


def test_expectation_always_reaches_the_goal() -> None:
    reached = 0
    for seed in range(60):
        case = random_case(seed, PLAIN)
        found = expectation(case.model, case.budget, spent=case.spent)
        if found.has_policy:
            reached += 1
            everything = dict.fromkeys(case.model.resources)
            assert solvent.verify(case.model, found.policy, everything, spent=case.spent).feasible
    assert reached > 10


@pytest.mark.parametrize("of", ["expectation", "chance"])
@pytest.mark.parametrize("seed", seeds(10))
def test_smaller_budgets(seed: int, of: Any) -> None:
    case = random_case(seed, FEATURES if of == "chance" else PLAIN)
    found = smaller_budget(case.model, case.budget, of, 0.2, spent=case.spent)
    if found.has_policy:
        report = verified(case, found)
        assert report.feasible
        assert report.value == pytest.approx(found.value, abs=1e-6)
        assert found.limits.initial == case.limits.initial


def test_expected_spending_is_that_of_an_account_that_does_not_saturate() -> None:
    checked = 0
    for seed in range(20):
        case = random_case(seed, ["saturation"])
        found = expectation(case.model, case.budget)
        plain = expectation(replace(case.model, floors=(), ceilings=()), case.budget)
        assert found.status == plain.status
        assert found.value == pytest.approx(plain.value, abs=1e-6)
        if found.has_policy:
            assert found.message.endswith(", as if r0 did not saturate")
            assert verified(case, found).value == pytest.approx(found.value, abs=1e-6)
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("seed", range(6))
def test_compare_runs_every_method(seed: int) -> None:
    case = random_case(seed)
    found = compare(case.model, case.budget, spent=case.spent, delta=0.2)
    assert tuple(row.method for row in found.rows) == METHODS
    assert not any(row.status is Status.REFUSED for row in found.rows)
    exact = found["exact"]
    if exact.feasible:
        assert exact.value == pytest.approx(case.optimum, abs=1e-9)
    else:
        assert exact.status is Status.INFEASIBLE


def test_messages_name_the_goal() -> None:
    b = solvent.CMDP.builder(horizon=1, start="a", resources=["x"], must_end_in=["home"])
    b.add("a", "go", outcomes=[(0.5, "home", 1), (0.5, "a", 1)])
    b.terminal("home")
    model = b.build()
    assert chance(model, 1, 0.1).message == (
        "every policy exceeds the budget or ends outside the goal with probability at least 0.5"
    )
    assert knapsack_style(model, 1).message == "breaks a limit or ends outside the goal with probability 0.5"
    assert expectation(model, 1).message == "every policy breaks some limit in expectation, or may end outside the goal"
