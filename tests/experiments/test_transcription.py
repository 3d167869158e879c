"""The paper's algorithms as written agree with the solvers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from effort import draws
from solvent.errors import BudgetError, ModelError
from solvent.experiments.transcription import Plain, relative_length, smaller_budget, solve_approximate, solve_exact
from solvent.model import instances
from solvent.model.budget import Budget
from solvent.model.cmdp import CMDP
from solvent.model.distributions import distribution
from solvent.solvers.solve import solve

LENGTHS = [Fraction(text) for text in ["1/7", "1/4", "1/3", "1/2", "1", "2"]]


@st.composite
def problems(draw: st.DrawFn) -> tuple[CMDP, dict[str, Any]]:
    """Draw a tiny model and one upper limit, or none, for each of its resources."""
    model = draw(strategies.models())
    return model, {name: draw(st.one_of(st.none(), strategies.limits)) for name in model.resources}


@given(problems())
@draws(80)
def test_the_reduction_finds_the_optimum(problem: tuple[CMDP, dict[str, Any]]) -> None:
    model, budget = problem
    expected = solve(model, budget)
    found = solve_exact(model, budget)
    assert found.value == (pytest.approx(expected.value) if expected.status == "optimal" else -math.inf)
    assert found.nodes >= 1


@given(problems(), st.sampled_from(LENGTHS))
@draws(80)
def test_the_approximation_is_between_two_optima(problem: tuple[CMDP, dict[str, Any]], length: Fraction) -> None:
    """Theorem `thm: approx`: at least the optimum, and feasible for a budget larger by H * l."""
    model, budget = problem
    larger = {name: None if limit is None else limit + model.horizon * length for name, limit in budget.items()}
    low, high = solve_exact(model, budget).value, solve_exact(model, larger).value
    found = solve_approximate(model, budget, length)
    assert low - 1e-9 <= found.value <= high + 1e-9
    assert solve_approximate(model, budget, dict.fromkeys(budget, length)) == found
    whole = solve_approximate(model, budget, length, truncate=False)
    assert whole.value == found.value


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("budget", [Fraction(1, 10), 3, 10, 100])
@pytest.mark.parametrize("seed", range(3))
def test_the_schemes_find_what_ours_do(budget: Fraction, strict: bool, seed: int) -> None:
    model = instances.paper(24, seed, budget=budget)
    used = smaller_budget(0.1, budget) if strict else budget
    length = relative_length(0.1, used, model.horizon)
    found, plain = solve(model, used, approximation="relative", epsilon=0.1), solve_approximate(model, used, length)
    assert plain.value == pytest.approx(found.value, rel=1e-12)
    assert solve_approximate(model, used, length, truncate=False).value == plain.value
    if strict:
        assert plain.value <= solve(model).value + 1e-12


def test_layers_are_those_of_the_paper() -> None:
    # without a limit that binds, every subset of the costs has a sum of its own
    assert solve_exact(instances.paper(9, 0), 9).nodes == 2**9 - 1
    model = instances.paper(9, 0, budget=1)
    assert solve_exact(model).nodes == solve(model, method="reduction", prune=False).stats.nodes


def test_a_budget_that_cannot_bind_is_truncated_away() -> None:
    """With B >= H * cmax the second case of f holds from the first step on, and a layer has one node."""
    model = instances.paper(20, 0, budget=20)
    length = relative_length(0.1, 20, 20)
    assert solve_approximate(model, 20, length).nodes == 20
    assert solve_approximate(model, 20, length, truncate=False).nodes > 500


def test_numbers_of_any_length() -> None:
    model = instances.paper(8, 0, budget=2, digits=32)
    assert not model.cost[0].fits
    assert solve_exact(model).value == solve(model, gap=0).value


def test_nothing_feasible_is_minus_infinity() -> None:
    model = instances.knapsack([1], [1])
    assert solve_exact(model, -1) == Plain(-math.inf, 1)
    assert solve_approximate(model, -1, 1) == Plain(-math.inf, 1)


def test_what_the_paper_does_not_solve_is_refused() -> None:
    model = instances.knapsack([1, 2], [1, 1])
    for budget in (Budget.final(1), Budget(upper=[1, 2]), Budget(upper=2, lower=0)):
        with pytest.raises(
            BudgetError, match="budget, weight: expected one upper limit for all steps, as in the paper"
        ):
            solve_exact(model, budget)
    with pytest.raises(ModelError, match="length, weight: expected a number above 0, found 0"):
        solve_approximate(model, 1, 0)
    b = CMDP.builder(horizon=1, start=0, resources=["x"])
    b.add(0, 0, outcomes=[(1, 0, distribution("uniform", low=0, high=1))])
    with pytest.raises(ModelError, match="model: expected costs without distributions, found continuous costs"):
        solve_exact(b.build(), 1)
