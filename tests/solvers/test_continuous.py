"""Continuous costs: the approximation schemes promise the same as for finite support, over the whole support."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import solvent
from densities import Dense, dense_problems, enclosure
from effort import draws
from promises import NOISE, check_worst
from solvent import CMDP, Budget, ModelError, Status
from solvent.model.budget import resolve
from solvent.model.distributions import CostDistribution
from solvent.solvers.solve import solve
from solvent.solvers.transforms.rounding import project

EPSILONS = [Fraction(1, 2), Fraction(1), Fraction(3)]


def solve_both(model: CMDP, budget: Any, method: str, epsilon: Fraction, **options: Any) -> tuple[Any, Any]:
    """Solve relaxed and strict, and hold both to their promises."""
    relaxed = solve(model, budget, approximation=method, epsilon=epsilon, **options)
    strict = solve(model, budget, approximation=method, epsilon=epsilon, strict=True, **options)
    assert relaxed.status in (Status.RELAXED, Status.OPTIMAL, Status.INFEASIBLE)
    assert strict.status in (Status.FEASIBLE, Status.OPTIMAL, Status.NOT_FOUND, Status.INFEASIBLE)
    assert (relaxed.status is Status.INFEASIBLE) == (strict.status is Status.INFEASIBLE)
    assert relaxed.value >= strict.value - NOISE
    assert strict.value_upper >= strict.value
    for solution, is_strict in ((relaxed, False), (strict, True)):
        if math.isfinite(solution.value):
            check_worst(model, budget, solution, method, epsilon, is_strict)
    return relaxed, strict


@given(dense_problems, st.sampled_from(EPSILONS), st.booleans())
@draws(200)
def test_additive_promises(problem: Dense, epsilon: Fraction, prune: bool) -> None:
    solve_both(problem.model(), problem.budget, "additive", epsilon, prune=prune)


@given(dense_problems, st.sampled_from(EPSILONS))
@draws(60)
def test_relative_promises(problem: Dense, epsilon: Fraction) -> None:
    model = problem.model()
    limits = resolve(model, problem.budget)
    smallest = min((abs(x) for d in range(len(limits.resources)) for x in limits.distinct(d)), default=Fraction(1))
    if smallest > 0:
        solve_both(model, problem.budget, "relative", epsilon / 4)


@given(dense_problems, st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(3)]))
@draws(120)
def test_the_optimum_is_where_a_hand_made_enclosure_says(problem: Dense, epsilon: Fraction) -> None:
    model = problem.model()
    lower, upper = enclosure(problem, resolve(model, problem.budget))
    assert lower <= upper + NOISE
    relaxed = solve(model, problem.budget, approximation="additive", epsilon=epsilon)
    strict = solve(model, problem.budget, approximation="additive", epsilon=epsilon, strict=True)
    assert relaxed.value >= lower - NOISE
    assert relaxed.value_upper >= lower - NOISE
    assert strict.value <= upper + NOISE
    assert strict.value_lower <= upper + NOISE
    if relaxed.status is Status.INFEASIBLE:
        assert lower == -math.inf
    if relaxed.status is Status.OPTIMAL:
        assert relaxed.value <= upper + NOISE


def shop(horizon: int = 4, budget: Any = 5) -> CMDP:
    """Look, buy or send back: uniform, triangular, plain and refunded costs."""
    b = CMDP.builder(horizon=horizon, start="shop", resources=["money"], budget=budget)
    b.add("shop", "look", outcomes=[(1, "shop", 0)])
    b.add(
        "shop",
        "buy",
        reward=1,
        outcomes=[(0.5, "shop", solvent.distribution("uniform", low=0, high=2)), (0.5, "shop", "1/3")],
    )
    b.add(
        "shop", "splurge", reward=3, outcomes=[(1, "shop", solvent.distribution("triangular", low=1, mode=2, high=4))]
    )
    b.add(
        "shop", "return", reward=-1, outcomes=[(1, "shop", solvent.distribution("exponential", scale=1, negate=True))]
    )
    return b.build()


def test_both_sides_converge() -> None:
    model = shop()
    gaps = []
    for epsilon in ("4", "1", "1/4", "1/16"):
        relaxed, strict = solve_both(model, None, "additive", Fraction(epsilon))
        gaps.append(relaxed.value - strict.value)
    assert all(later < earlier for earlier, later in itertools.pairwise(gaps))
    assert gaps[-1] < 0.1 < gaps[0]


def test_without_pruning_the_answer_is_the_same() -> None:
    budgets = [5, Budget(upper=5, lower=-3), Budget(upper=[5, 5, 4, 4], lower=[0, None, None, None]), Budget.final(4)]
    for budget, strict in itertools.product(budgets, (False, True)):
        pruned, plain = (
            solve(shop(), budget, approximation="additive", epsilon=1, strict=strict, prune=prune)
            for prune in (True, False)
        )
        assert pruned.status is plain.status
        assert pruned.value == pytest.approx(plain.value, abs=NOISE)
        if math.isfinite(plain.value):
            assert solvent.verify(shop(), plain.policy).value == pytest.approx(plain.value, abs=NOISE)


def test_exact_methods_point_to_the_approximate_ones() -> None:
    for method in ("auto", "frontier", "reduction"):
        with pytest.raises(
            ModelError,
            match=r'shop/buy, cost of money: .*gap=0\.01, or approximation="additive" with epsilon= and strict',
        ):
            solve(shop(), method=method)


def bins_of(distribution: CostDistribution, unit: Fraction, scheme: Any) -> tuple[Any, Any, Any]:
    """Return ticks, probabilities and upper ends of the bins of one distribution; no bin is left out."""
    b = CMDP.builder(horizon=1, start=0, resources=["x"])
    b.add(0, "go", outcomes=[(1, 0, distribution)])
    model = b.build()
    problem = project(model, resolve(model, -100), (unit,), scheme)
    high = [int(x) * problem.truth.units[0] for x in problem.truth.high_OD[:, 0]]
    return problem.lattice.cost_OD[:, 0], problem.model.probability, high


DISTRIBUTIONS = [
    solvent.distribution("uniform", low="-1/3", high=2),
    solvent.distribution("triangular", low=0, mode="1/2", high=2),
    solvent.distribution("truncated_normal", mean=1, sd="1/2", low=0, high=2),
    solvent.distribution("beta", a="1/2", b=3, low=-1, high=1),
    solvent.distribution("exponential", scale=1, high=3, negate=True),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
@pytest.mark.parametrize("scheme", ["relaxed", "rounded"])
def test_bins_have_the_probability_of_their_draws(distribution: CostDistribution, scheme: str) -> None:
    unit = Fraction(2, 7)
    ticks, probability, high = bins_of(distribution, unit, scheme)
    assert probability.sum() == pytest.approx(1)
    frozen = distribution._frozen
    for k, p in zip(ticks.tolist(), probability.tolist(), strict=True):
        low, top = ((k - 1) * unit, k * unit) if scheme == "rounded" else (k * unit, (k + 1) * unit)
        if distribution.negate:
            low, top = -top, -low
        assert p == pytest.approx(frozen.cdf(float(top)) - frozen.cdf(float(low)), abs=1e-12)
    assert high[-1] == distribution.high
    draws = distribution.sample(100_000, np.random.default_rng(1)) / float(unit)
    counted = np.ceil(draws) if scheme == "rounded" else np.floor(draws)
    share = np.array([(counted == k).mean() for k in ticks])
    assert np.abs(share - probability).max() < 5 * math.sqrt(0.25 / 100_000)


@pytest.mark.parametrize(
    "distribution",
    [
        solvent.distribution("beta", a=1, b=400, low=0, high=4),
        solvent.distribution("truncated_normal", mean=0, sd="1/20", low=0, high=4),
    ],
    ids=str,
)
def test_what_floats_call_impossible_is_kept_in_the_budget(distribution: CostDistribution) -> None:
    # the upper tail is so thin that the distribution function is 1 long before the end of the support
    assert distribution.cdf(3.5) == 1.0
    ticks, probability, high = bins_of(distribution, Fraction(1, 2), "relaxed")
    assert ticks[-1] == 8
    assert high[-1] == 4
    assert probability[ticks == 7] == 0
    b = CMDP.builder(horizon=1, start=0, resources=["x"], budget=3)
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    b.add(0, "dare", reward=1, outcomes=[(1, 0, distribution)])
    model = b.build()
    for epsilon, strict in itertools.product(("1/10", "1/2"), (False, True)):
        solution = solve(model, approximation="additive", epsilon=epsilon, strict=strict)
        assert solution.value == solution.worst_spent["x"] == 0
    loose = solve(model, 4, approximation="additive", epsilon="1/2", strict=True)
    assert (loose.value, loose.worst_spent["x"]) == (1, 4)
    report = solvent.verify(model, loose.policy, 3)
    assert not report.feasible
    assert report.worst_spent_by_step["x"] == (4,)


def test_dead_ends_behind_an_impossible_draw_are_avoided() -> None:
    # only both resources together make the second step a dead end, which bounds per resource cannot see, and only a
    # draw of probability 0 in floats leads there
    thin = solvent.distribution("beta", a=1, b=400, low=0, high=4)
    b = CMDP.builder(horizon=2, start="s", resources=["x", "y"], budget={"x": 4, "y": 4})
    b.add("s", "dare", reward=1, outcomes=[(1, "t", {"x": thin, "y": 2})], steps=[0])
    b.add("s", "rest", outcomes=[(1, "u", 0)], steps=[0])
    b.add("t", "pay x", outcomes=[(1, "u", {"x": 1, "y": 0})], steps=[1])
    b.add("t", "pay y", outcomes=[(1, "u", {"x": 0, "y": 3})], steps=[1])
    b.add("u", "rest", outcomes=[(1, "u", 0)], steps=[1])
    b.terminal("s", steps=[1])
    model = b.build()
    for prune in (True, False):
        solution = solve(model, approximation="additive", epsilon="1/2", strict=True, prune=prune)
        assert solution.value == 0
        assert solvent.verify(model, solution.policy).feasible
    assert solve(model, {"x": 5, "y": 4}, approximation="additive", epsilon="1/2", strict=True).value == 1


def test_distributions_of_scipy() -> None:
    b = CMDP.builder(horizon=2, start=0, resources=["x"], budget=3)
    b.add(0, "go", reward=1, outcomes=[(1, 0, stats.triang(0.5, loc=0, scale=2))])
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    b.add(0, "back", outcomes=[(1, 0, stats.weibull_max(0.3))])
    relaxed, strict = solve_both(b.build(), None, "additive", Fraction(1, 8))
    # the second step is taken if the first cost at most 1, which happens half of the time
    assert strict.value <= 1.5 <= relaxed.value
    assert relaxed.value - strict.value < 0.2


def test_bins_beyond_all_memory_are_a_limit_not_a_crash() -> None:
    solution = solve(shop(), approximation="additive", epsilon="1e-12")
    assert solution.status is Status.LIMIT
    assert "limit: the bins of continuous costs would need" in solution.message
    assert 12 <= solution.value_upper <= 12 * (1 + 1e-9)
    small = solve(shop(), approximation="additive", epsilon="1/100", memory_limit="100kB")
    assert small.status is Status.LIMIT


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(50)])
@pytest.mark.parametrize(
    "budget", [8, Budget(lower=-310), Budget(upper=3, lower=-400), Budget(lower=[-100, None, None])]
)
def test_costs_that_are_all_far_below_zero(budget: Any, epsilon: Fraction) -> None:
    """Bins below all that matters are one, and a policy says what to do there, however it counts the draws."""
    b = CMDP.builder(horizon=3, start="s", resources=["r"])
    b.add("s", "go", reward=8, outcomes=[(1, "s", solvent.distribution("uniform", low=-100, high=-90))])
    b.add("s", "rest", outcomes=[(1, "s", 0)])
    model = b.build()
    relaxed, strict = solve_both(model, budget, "additive", epsilon)
    for solution in (relaxed, strict):
        assert solution.value == pytest.approx(24)
        assert solution.value_lower <= 24 <= solution.value_upper
        assert solvent.verify(model, solution.policy, budget).feasible
        assert solvent.simulate(model, solution.policy, 50, seed=1, budget=budget).violations == 0
        agent = solution.policy.agent()
        for draw in (-100, -95.5, -90):
            assert agent.act() == "go"
            agent.observe("s", draw)


@pytest.mark.parametrize("low", [None, -1000])
@pytest.mark.parametrize("high", [-40, -1, 2])
@pytest.mark.parametrize("budget", [5, Budget(lower=[-3, None, None, None])])
def test_one_outcome_that_holds_many_amounts_is_no_certain_path(low: int | None, high: int, budget: Any) -> None:
    b = CMDP.builder(horizon=4, start="s", resources=["r"])
    distribution = stats.uniform(low, high - low) if low is not None else stats.weibull_max(2.0, loc=high, scale=5)
    b.add("s", "draw", reward=1, outcomes=[(1, "s", distribution)], steps=[1, 2, 3])
    b.add("s", "rest", outcomes=[(1, "s", 0)])
    model = b.build()
    solution = solve(model, budget, approximation="additive", epsilon=1, strict=True)
    assert solution.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert solvent.verify(model, solution.policy, budget).feasible
    assert solvent.simulate(model, solution.policy, 200, seed=2, budget=budget).violations == 0
