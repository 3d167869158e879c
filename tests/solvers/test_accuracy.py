"""Bounds contain every rounding error and every tolerance, at any scale of rewards."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_methods import run

import effort
import oracle
import solvent
from catalog import CASES
from effort import draws, seeds, slow_after
from solvent import CMDP, ModelError, Status
from solvent.model import instances
from solvent.solvers.accuracy import Extremes, Followed, Rounding
from solvent.solvers.transforms import gap
from strategies import ONE_SIDED, Tiny, one_sided_problems, problems

METHODS = ("reduction", "hash", "plain", "frontier", "points", "labels", "auto")


def fitting(model: CMDP, budget: Any, methods: tuple[str, ...] = METHODS) -> list[Any]:
    """Return the answers of all methods that take a problem."""
    answers = []
    for method in methods:
        try:
            answers.append(run(method, model, budget))
        except ModelError:
            continue
    return answers


def scaled(model: CMDP, factor: float) -> CMDP:
    end_reward = None if model.end_reward is None else model.end_reward * factor
    return replace(model, row_reward=model.row_reward * factor, end_reward=end_reward)


@given(problems())
def test_bounds_enclose_the_optimum_exactly(tiny: Tiny) -> None:
    exact = oracle.optimum(tiny.model, tiny.budget)
    for solution in fitting(tiny.model, tiny.budget, ("reduction", "hash", "auto")):
        if exact == oracle.INFEASIBLE:
            assert solution.status is Status.INFEASIBLE
        else:
            assert Fraction(solution.value_lower) <= exact <= Fraction(solution.value_upper)
            assert solution.value_lower <= solution.value <= solution.value_upper
            assert solution.value_checked


@given(one_sided_problems(ONE_SIDED), st.sampled_from([0.0, 0.01, 0.2]))
def test_bounds_of_frontiers_and_gaps_enclose_the_optimum_exactly(tiny: Tiny, gap: float) -> None:
    exact = oracle.optimum(tiny.model, tiny.budget)
    answers = fitting(tiny.model, tiny.budget, ("frontier", "points", "labels"))
    answers.append(solvent.solve(tiny.model, tiny.budget, gap=gap))
    for solution in answers:
        if exact == oracle.INFEASIBLE:
            assert solution.status is Status.INFEASIBLE
        else:
            assert Fraction(solution.value_lower) <= exact <= Fraction(solution.value_upper)


@pytest.mark.parametrize("seed", seeds(40))
@pytest.mark.parametrize("enormous", [-1e12, -1e290])
def test_a_row_that_is_never_taken_changes_nothing(seed: int, enormous: float) -> None:
    """Tolerances scale with what is attained, not with the largest reward in the model."""
    rng = random.Random(seed)
    b, other = (CMDP.builder(horizon=4, start=0, resources=["r"], budget=rng.randint(2, 5)) for _ in range(2))
    chance = rng.random() < 0.5
    for state in range(3):
        for action in range(2):
            reward, following = rng.choice([0.5, 1, 2, 3]), [rng.randrange(3) for _ in range(2 if chance else 1)]
            listed = [(1 / len(following), s, rng.randint(0, 2)) for s in following]
            for builder in (b, other):
                builder.add(state, action, reward=reward, outcomes=listed)
        for builder in (b, other):
            builder.add(state, "rest", outcomes=[(1, state, 0)])
        other.add(state, "never", reward=enormous, outcomes=[(1, state, 0)])
    plain, other_model = b.build(), other.build()
    budget = rng.randint(2, 5)
    exact = oracle.optimum(plain, budget)
    for solution in (*fitting(other_model, budget), solvent.solve(other_model, budget, gap=0.0)):
        assert solution.status is Status.OPTIMAL
        assert Fraction(solution.value_lower) <= exact <= Fraction(solution.value_upper)
        assert solution.value_upper - solution.value_lower <= 1e-9 * float(exact)


def test_the_example_of_a_tolerance_that_was_too_large() -> None:
    b = CMDP.builder(horizon=1, start=0, resources=["r"], budget=1)
    b.add(0, "nothing", outcomes=[(1, 0, 0)])
    b.add(0, "something", reward=3, outcomes=[(1, 0, 1)])
    b.add(0, "never", reward=-1e13, outcomes=[(1, 0, 0)])
    for solution in fitting(b.build(), None):
        assert solution.value == 3


@pytest.mark.parametrize("exponent", slow_after(2, [-43, 200, -900, -60, 7]))
@pytest.mark.parametrize("name", ["knapsack-p02", "trap", "gloom", "fuel-grid-3", "two-stores-intervals-8", "chain"])
def test_scaling_rewards_by_a_power_of_two_scales_the_answer_and_nothing_else(name: str, exponent: int) -> None:
    (case,) = (case for case in CASES if case.name == name)
    factor = 2.0**exponent
    options: list[dict[str, Any]] = [{}, {"method": "reduction"}, {"gap": 0.0}, {"gap": 0.05}]
    options += [{"approximation": "additive", "epsilon": e, "strict": s} for e in (1, 3) for s in (False, True)]
    for option in options:
        first = solvent.solve(case.model, case.budget, spent=case.spent, **option)
        second = solvent.solve(scaled(case.model, factor), case.budget, spent=case.spent, **option)
        assert second.status is first.status
        assert second.value == first.value * factor
        assert (second.value_lower, second.value_upper) == (first.value_lower * factor, first.value_upper * factor)
        assert (second.gap, second.method, second.worst_spent) == (first.gap, first.method, first.worst_spent)
        assert second.stats.layer_sizes == first.stats.layer_sizes
        if first._make_policy is not None:
            assert [repr(each) for each in second.policy] == [repr(each) for each in first.policy]


@pytest.mark.parametrize("exponent", [-60, -43, 50])
def test_scaling_rewards_scales_baselines_and_discounted_answers(exponent: int) -> None:
    factor = 2.0**exponent
    model = instances.markov_gap(prize=10)
    for baseline in (solvent.baselines.chance, solvent.baselines.expectation):
        first, second = baseline(model), baseline(scaled(model, factor))
        assert second.value == pytest.approx(first.value * factor, rel=1e-9)

    def walker(reward: float) -> Any:
        b = CMDP.builder(discount="1/2", start="home", resources=["fuel"], budget=3)
        b.add("home", "go", reward=reward, outcomes=[(1, "home", 2)])
        b.add("home", "rest", outcomes=[(1, "home")])
        return b.build()

    for strict in (False, True):
        first, second = (solvent.solve(walker(r), epsilon=0.25, strict=strict) for r in (1.0, factor))
        assert second.status is first.status
        assert second.value == first.value * factor
        assert second.value_upper == pytest.approx(first.value_upper * factor, rel=1e-15)


def test_rewards_whose_sums_would_overflow_are_refused() -> None:
    b = CMDP.builder(horizon=3, start=0, resources=["r"], budget=3)
    b.add(0, "go", reward=1.7e308, outcomes=[(1, 0, 1)])
    with pytest.raises(
        ModelError, match=r"0/go, reward: expected at most 3.33e\+299 in size, so that sums over 3 steps"
    ):
        b.build()
    d = CMDP.builder(discount="9/10", start=0, resources=["r"], budget=3)
    d.add(0, "go", reward=-9e299, outcomes=[(1, 0, 1)])
    with pytest.raises(ModelError, match=r"reward: expected at most 1e\+299 in size, so that discounted sums fit"):
        d.build()


def test_sums_that_are_exact_have_no_error() -> None:
    solution = solvent.solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50))
    assert solution.value_lower == solution.value == solution.value_upper == 220
    rounded = solvent.solve(instances.knapsack([0.1, 0.2, 0.3], [1, 1, 1], capacity=2))
    assert rounded.value_lower < rounded.value < rounded.value_upper < 0.5 * (1 + 1e-9)


def test_the_curve_states_its_error() -> None:
    model = instances.fuel_grid(3)
    curve = solvent.frontier(model)
    for budget in curve.budgets if effort.everything else curve.budgets[::4]:
        exact = oracle.optimum(model, budget)
        assert abs(Fraction(curve.value(budget)) - exact) <= Fraction(curve.error)
    assert 0 < curve.error <= 1e-9 * curve.values[-1]


@draws(30)
@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8), st.integers(1, 6))
def test_the_formula_against_sums_in_fractions(rewards: list[float], n: int) -> None:
    """One row per step whose outcomes all lead on: the true value is within the error of the computed one."""
    b = CMDP.builder(horizon=len(rewards), start=0, resources=["r"], budget=0)
    for step, reward in enumerate(rewards):
        b.add(0, "go", reward=reward, outcomes=[(1 / n, o, 0) for o in range(n)], steps=[step])
        for o in range(1, n):
            b.add(o, "go", reward=reward, outcomes=[(1, 0, 0)], steps=[step])
    model = b.build()
    solution = solvent.solve(model, method="reduction")
    exact = oracle.optimum(model)
    assert Fraction(solution.value_lower) <= exact <= Fraction(solution.value_upper)
    size = sum(map(abs, rewards))
    assert solution.value_upper - solution.value_lower <= 1e-11 * size + 1e-300


def test_errors_of_nothing_are_nothing() -> None:
    rounding, model = Rounding(1e-15, 6), instances.knapsack([0, 0, 0], [1, 1, 1])
    assert Extremes.none(model, lambda: np.arange(model.n_rows)).above(0.0, rounding) < 1e-300
    followed = Followed(*(Extremes.none(model, lambda: np.arange(model.n_rows)).top for _ in range(2)))
    assert followed.value == followed.total == 0
    assert followed.below(rounding) < 1e-300
    assert math.isfinite(Extremes.none(model, lambda: np.arange(model.n_rows)).below(0.0, rounding))


def test_probabilities_that_underflow_are_no_disagreement() -> None:
    """Parts that fail one after the other, each with a small probability: what follows is reached, if hardly ever."""
    n = 28
    b = CMDP.builder(horizon=n + 1, start=0, resources=["x"], budget=n + 1)
    for i in range(n):
        b.add(i, "run", outcomes=[(1e-12, i + 1, 1), (1 - 1e-12, i, 0)])
    b.add(n, "run", reward=-1e6, outcomes=[(1, n, 0)])
    for solution in fitting(b.build(), None, ("reduction", "frontier", "points", "auto")):
        assert solution.status is Status.OPTIMAL
        assert solution.value_lower <= 0 <= solution.value_upper + 1e-300
        assert solution.worst_spent["x"] == n


@pytest.mark.parametrize("penalty", [1e8, 1e12, 1e17])
def test_bins_that_are_unlikely_and_cost_much_are_in_the_bounds(penalty: float) -> None:
    """The probability of a tail is a difference of floats near 1; what it leads to may be large."""
    b = CMDP.builder(horizon=2, start="a", resources=["x"], budget=40)
    b.add("a", "go", outcomes=[(1, "b", solvent.distribution("exponential", scale=1, high=40))], steps=[0])
    b.add("b", "big", outcomes=[(1, "b", 1)], steps=[1])
    b.add("b", "small", reward=-penalty, outcomes=[(1, "b", 0)], steps=[1])
    b.terminal("a", steps=[1])
    model = b.build()
    # "small" is needed if more than 39 were drawn
    tail = (math.exp(-39) - math.exp(-40)) / (1 - math.exp(-40))
    for options in ({"approximation": "additive", "epsilon": 2, "strict": True}, {"gap": 1e-9}):
        solution = solvent.solve(model, **options)
        assert solution.value_lower <= -penalty * tail <= solution.value_upper


def test_bins_far_from_zero_are_in_the_bounds() -> None:
    """Edges of bins are rounded to floats, which moves them by much where a distribution is narrow and far away."""
    low, high, threshold = Fraction(10**9), Fraction(10**9) + Fraction(1, 10), Fraction(10**9) + Fraction(3, 64)
    b = CMDP.builder(horizon=2, start="a", resources=["x"], budget=threshold + 1)
    b.add("a", "go", outcomes=[(1, "b", solvent.distribution("uniform", low=low, high=high))], steps=[0])
    b.add("b", "big", reward=1, outcomes=[(1, "b", 1)], steps=[1])
    b.add("b", "small", outcomes=[(1, "b", 0)], steps=[1])
    b.terminal("a", steps=[1])
    solution = solvent.solve(b.build(), gap=1e-9)
    optimum = (threshold - low) / (high - low)
    assert Fraction(solution.value_lower) <= optimum <= Fraction(solution.value_upper)


@pytest.mark.parametrize("method", ["auto", "frontier", "reduction"])
@pytest.mark.parametrize(("chance", "reward"), [(0.5, -5e-324), (0.75, -5e-324), (0.5, 5e-324), (5e-324, -0.25)])
def test_products_that_underflow_are_in_the_bounds(method: str, chance: float, reward: float) -> None:
    b = CMDP.builder(horizon=2, start="s", resources=["c"], budget=5)
    b.add("s", "go", outcomes=[(chance, "a", 1), (1 - chance, "b", 0)], steps=[0])
    b.add("a", "go", reward=reward, outcomes=[(1, "a", 0)], steps=[1])
    b.add("b", "go", outcomes=[(1, "b", 0)], steps=[1])
    b.terminal("s", steps=[1])
    model = b.build()
    optimum = Fraction(chance) * Fraction(reward)
    solution = solvent.solve(model, method=method)
    assert Fraction(solution.value_lower) <= optimum <= Fraction(solution.value_upper)
    assert optimum <= Fraction(solvent.solve(model, memory_limit=1).value_upper)


def test_nothing_underflows_where_nothing_is_earned() -> None:
    b = CMDP.builder(horizon=2, start="s", resources=["c"], budget=0)
    b.add("s", "dear", reward=1, outcomes=[(1, "s", 1)])
    b.add("s", "rest", outcomes=[(0.5, "s", 0), (0.5, "t", 0)])
    b.add("t", "rest", outcomes=[(1, "s", 0)])
    for method in ("frontier", "reduction"):
        solution = solvent.solve(b.build(), method=method)
        assert (solution.value_lower, solution.value_upper) == (0, 0)


def test_losses_that_are_avoided_do_not_widen_the_bounds_of_policies_that_are_not_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gap, "_FIRST_TRY", 0)
    monkeypatch.setattr(gap, "_FOLLOW", 0)
    b = CMDP.builder(horizon=4, start="s", resources=["x"], budget=solvent.Budget(lower=-16))
    b.add("s", "fall", outcomes=[(0.5, "pit", 10**9), (0.5, "s", -2)])
    b.add("s", "rest", outcomes=[(0.5, "s", 0), (0.5, "s", -1)])
    b.add("pit", "lose", reward=-1e12, outcomes=[(1, "pit", 4)])
    solution = solvent.solve(b.build(), gap=0.5)
    assert not solution.value_checked
    assert solution.status is Status.OPTIMAL
    assert solution.value_lower <= 0 <= solution.value_upper
    assert solution.value_upper - solution.value_lower < 1e-300
