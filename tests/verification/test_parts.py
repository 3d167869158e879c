"""Policies on rounded costs for models with continuous costs: verified, simulated, followed by agents."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from densities import random_problem
from effort import draws, seeds
from solvent import CMDP, Budget, PolicyError
from solvent.model.distributions import CostDistribution
from solvent.verification.parts import least_count, take_apart

SPECK = Fraction(1, 10**9)
FREE_FALL = solvent.distribution("exponential", scale=1, negate=True)
SEEDS = st.integers(0, 10**9)


def plan(model: CMDP, epsilon: Any, budget: Any = None, **options: Any) -> Any:
    return solvent.solve(model, budget, approximation="additive", epsilon=epsilon, **options)


def twice(distribution: Any = None, budget: Any = 3) -> CMDP:
    """Return a model of two steps with a cost from 0 to 2, or none."""
    b = CMDP.builder(horizon=2, start=0, resources=["x"], budget=budget)
    b.add(0, "go", reward=1, outcomes=[(1, 0, distribution or solvent.distribution("uniform", low=0, high=2))])
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    return b.build()


def test_an_example_computed_by_hand() -> None:
    # ticks of 1/2, rounded down: a second go counts as up to 4 ticks, so 6 allow it after at most 2, a cost below 3/2
    relaxed = plan(twice(), 1)
    report = solvent.verify(twice(), relaxed.policy)
    assert report.value == pytest.approx(1.75) == relaxed.value
    assert report.worst_spent_by_step == {"x": (2, Fraction(7, 2))}
    assert report.least_spent_by_step == {"x": (0, 0)}
    assert not report.feasible
    assert (report.violation_probability, report.expected_excess) == (None, {"x": None})
    # rounded up: after at most 2 ticks, a cost of at most 1
    strict = plan(twice(), 1, strict=True)
    report = solvent.verify(twice(), strict.policy)
    assert report.value == pytest.approx(1.5) == strict.value
    assert report.worst_spent_by_step == {"x": (2, 3)}
    assert (report.feasible, report.violation_probability) == (True, 0)


def test_the_witness_shows_the_interval() -> None:
    witness = solvent.verify(twice(), plan(twice(), 1).policy).witness
    assert witness is not None
    first, last = witness.steps
    assert str(first.cost["x"]) == "1 to 1.5 of uniform(low=0, high=2)"
    assert (first.cost["x"].low, first.cost["x"].high) == (1, Fraction(3, 2))
    assert first.cost["x"].distribution == solvent.distribution("uniform", low=0, high=2)
    assert last.spent["x"] > 3 >= last.spent["x"] - Fraction(1, 2)
    text = str(witness)
    assert "breaks the limit of x after step 1" in text
    assert "of uniform(low=0, high=2)" in text


def test_the_end_of_the_range_is_a_separate_part() -> None:
    parts = take_apart(twice(), plan(twice(), 1).policy, most=100)
    costs = [parts.cost_of(0, o) for o in range(parts.model.n_outcomes)]
    assert [str(cost) for cost in costs[:6]] == [
        "0 to 0.5 of uniform(low=0, high=2)",
        "0.5 to 1 of uniform(low=0, high=2)",
        "1 to 1.5 of uniform(low=0, high=2)",
        "1.5 to 2 of uniform(low=0, high=2)",
        "2 of uniform(low=0, high=2)",
        "0",
    ]
    assert parts.count_OD.ravel().tolist() == [0, 1, 2, 3, 4, 0]
    assert parts.source_O.tolist() == [0, 0, 0, 0, 0, 1]
    assert parts.model.probability.tolist() == pytest.approx([0.25, 0.25, 0.25, 0.25, 0, 1])


def test_distributions_of_two_resources_are_independent() -> None:
    b = CMDP.builder(horizon=1, start=0, resources=["x", "free", "y"], budget={"x": 4, "free": None, "y": 4})
    pair = {
        "x": solvent.distribution("uniform", low=0, high=1),
        "free": FREE_FALL,
        "y": solvent.distribution("beta", a=2, b=2),
    }
    b.add(0, "go", outcomes=[(0.25, 0, {"x": 1, "y": "1/3"}), (0.75, 0, pair)])
    model = b.build()
    parts = take_apart(model, plan(model, {"x": "1/2", "y": "1/3"}).policy, most=100)
    found = {
        (int(x), int(y)): p
        for (x, y), p, source in zip(parts.count_OD, parts.model.probability, parts.source_O, strict=True)
        if source == 1
    }
    share = np.diff(solvent.distribution("beta", a=2, b=2).cdf([0, 1 / 3, 2 / 3, 1]))
    for (x, y), p in found.items():
        assert p == pytest.approx(0.75 * [0.5, 0.5, 0][x] * [*share, 0][y])
    assert set(found) == {(x, y) for x in range(3) for y in range(4)}
    assert parts.count_OD[parts.source_O == 0].tolist() == [[2, 1]]
    assert all(parts.cost_of(1, o) == (0 if parts.source_O[o] == 0 else FREE_FALL) for o in range(13))


def representatives(distribution: CostDistribution, unit: Fraction, deep: Fraction) -> list[Fraction]:
    """Return costs of a distribution close to where a policy's decision may change, and both ends."""
    low = deep if distribution.low is None else distribution.low
    edges = [k * unit for k in range(math.floor(low / unit), math.ceil(distribution.high / unit) + 1)]
    near = {edge + shift for edge in edges for shift in (-SPECK, 0, SPECK)} | {low, distribution.high}
    return sorted(x for x in near if low <= x <= distribution.high)


@given(SEEDS, st.sampled_from([Fraction(1), Fraction(3)]), st.booleans(), st.booleans())
@draws(150)
def test_extremes_are_those_of_all_histories(seed: int, epsilon: Any, strict: bool, prune: bool) -> None:
    problem = random_problem(seed)
    if len(problem.resources) > 1:
        return
    model = problem.model()
    solution = plan(model, epsilon, problem.budget, strict=strict, prune=prune)
    if not math.isfinite(solution.value) or not solution.policy.resources:
        return
    policy = solution.policy
    report = solvent.verify(model, policy, problem.budget)
    unit, deep = policy.units[0], Fraction(-20)
    layer = {(model.start_index, 0, Fraction(0))}
    for step in range(model.horizon):
        following = set()
        for state, count, spent in layer:
            action = policy.action_index(step, state, [count])
            (row,) = [r for r in model.rows(step, state) if model.row_action[r] == action]
            for o in range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])):
                cost = model.cost_of(0, o)
                for c in representatives(cost, unit, deep) if isinstance(cost, CostDistribution) else [cost]:
                    following.add((int(model.next_state[o]), count + policy.count(0, c), spent + c))
        layer = following
        most, least = max(spent for _, _, spent in layer), min(spent for _, _, spent in layer)
        assert most <= report.worst_spent_by_step["r0"][step] <= most + (step + 1) * SPECK
        if report.least_spent_by_step["r0"][step] is None:
            assert least < deep + 5
        else:
            assert least - (step + 1) * SPECK <= report.least_spent_by_step["r0"][step] <= least
        # of histories that the policy does not distinguish, the extremes suffice
        by_spent = sorted(layer, key=lambda node: node[2])
        ends = [{node[:2]: node for node in ordered} for ordered in (by_spent, by_spent[::-1])]
        layer = {node for last in ends for node in last.values()}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("seed", seeds(24))
def test_simulations_agree_with_the_verifier(seed: int, strict: bool) -> None:
    problem = random_problem(1000 + seed)
    model = problem.model()
    solution = plan(model, 1, problem.budget, strict=strict)
    if not math.isfinite(solution.value):
        return
    runs = solvent.simulate(model, solution.policy, episodes=4000, seed=seed)
    report = solvent.verify(model, solution.policy)
    assert abs(runs.mean_reward - solution.value) < 5 * runs.standard_error + 1e-9
    assert runs.violations == 0 or not report.feasible
    for name, worst in report.worst_spent_by_step.items():
        assert runs.max_spent[name] <= max(worst)
        highs = runs.quantile(name, 1)
        assert (highs <= np.array([float(x) for x in worst]) + 1e-9).all()


def test_simulations_stay_within_the_guarantee() -> None:
    relaxed = plan(twice(), 1)
    runs = solvent.simulate(twice(), relaxed.policy, episodes=50_000, seed=3)
    # over if the first cost is c < 3/2 and the second more than 3 - c: the mean over c of (c - 1)+ / 2, up to 3/2
    assert runs.violations / 50_000 == pytest.approx(1 / 32, abs=0.004)
    assert Fraction(33, 10) < runs.max_spent["x"] <= Fraction(7, 2)
    assert runs.mean_reward == pytest.approx(1.75, abs=0.01)
    assert solvent.simulate(twice(), plan(twice(), 1, strict=True).policy, episodes=50_000, seed=3).violations == 0


def falling(budget: Any) -> CMDP:
    """Return a model with a step of two discrete costs, one of a cost not bounded below, then two more."""
    b = CMDP.builder(horizon=4, start=0, resources=["x"], budget=budget)
    b.add(0, "pay", reward=1, outcomes=[(0.5, 0, "0.7"), (0.5, 0, 1)], steps=[0, 2, 3])
    b.add(0, "rest", outcomes=[(1, 0, 0)], steps=[0, 2, 3])
    b.add(0, "fall", outcomes=[(1, 0, FREE_FALL)], steps=[1])
    return b.build()


@pytest.mark.parametrize("prune", [True, False])
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "budget",
    [
        2,
        Budget.final(1),
        Budget(lower=[0, None, None, None]),
        Budget(upper=[2, 2, 2, 2], lower=[-1, None, None, None]),
        Budget(upper=[2, None, None, None], lower=[-1, None, None, None]),
    ],
    ids=repr,
)
def test_costs_without_a_lower_end(budget: Any, strict: bool, prune: bool) -> None:
    model = falling(budget)
    policy = plan(model, 1, strict=strict, prune=prune).policy
    report = solvent.verify(model, policy)
    assert report.feasible or not strict
    assert report.least_spent_by_step["x"][1:] == (None,) * 3
    assert solvent.simulate(model, policy, episodes=500, seed=1).violations == 0 or not strict
    for drop in (0, -0.0, -1e-9, "-1/3", -(2.0**70), -1e300, -(10**40), Fraction(-(10**40), 3)):
        agent = policy.agent()
        spent = Fraction(0)
        for cost in (None, drop, None, None):
            action = agent.act()
            paid = cost if cost is not None else {"pay": "0.7", "rest": 0}[action]
            agent.observe(0, paid)
            spent += Fraction(paid)
        assert agent.done
        assert agent.spent["x"] == spent or isinstance(drop, float)


def test_heavy_tails_do_not_overflow() -> None:
    from scipy import stats

    b = CMDP.builder(horizon=3, start=0, resources=["x"], budget=2)
    b.add(0, "gamble", reward=1, outcomes=[(1, 0, stats.weibull_max(0.02, loc=1))])
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    model = b.build()
    policy = plan(model, 1, strict=True).policy
    runs = solvent.simulate(model, policy, episodes=2000, seed=0)
    assert runs.violations == 0
    assert min(runs.quantile("x", 0)) < -(2.0**70)
    assert abs(runs.mean_reward - solvent.verify(model, policy).value) < 5 * runs.standard_error


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("seed", seeds(40))
def test_agents_have_decisions_after_extreme_costs(seed: int, strict: bool) -> None:
    problem = random_problem(5000 + seed)
    model = problem.model()
    solution = plan(model, "1/2", problem.budget, strict=strict)
    if not math.isfinite(solution.value):
        return
    rng = np.random.default_rng(seed)
    limits = solution.policy.limits
    for how in ("high", "low", "float high", "float low", "drawn", "mixed"):
        agent = solution.policy.agent()
        while not agent.done:
            state, action = model.state_index(agent.state), agent.act()
            (row,) = [r for r in model.rows(agent.step, state) if model.actions[model.row_action[r]] == action]
            outcome = model.outcomes(row)[rng.integers(len(model.outcomes(row)))]
            chosen = [rng.choice(["high", "low", "drawn"]) if how == "mixed" else how for _ in model.resources]
            step = agent.step
            paid = [pick(cost, way, rng) for cost, way in zip(outcome.cost.values(), chosen, strict=True)]
            agent.observe(outcome.next_state, paid)
            for d, name in enumerate(limits.resources):
                upper, slack = limits.upper[d][step], 0 if strict else Fraction(1, 2)
                assert upper is None or agent.spent[name] <= upper + slack


def pick(cost: Any, how: str, rng: np.random.Generator) -> Any:
    if not isinstance(cost, CostDistribution):
        return cost
    if how == "drawn":
        return float(cost.sample(1, rng)[0])
    end = cost.high if "high" in how else Fraction(-1000) if cost.low is None else cost.low
    return float(end) if "float" in how else end


def test_too_many_parts_are_refused() -> None:
    model = twice()
    policy = plan(model, "1/100").policy
    with pytest.raises(PolicyError, match=r"costs of x: expected at most 300 parts .*, found 401; raise max_nodes="):
        solvent.verify(model, policy, max_nodes=300)
    assert solvent.verify(model, policy, max_nodes=10_000).value == pytest.approx(1.5, abs=0.02)
    b = CMDP.builder(horizon=1, start=0, resources=["x", "y"], budget={"x": 2, "y": 2})
    same = solvent.distribution("uniform", low=0, high=1)
    b.add(0, "go", outcomes=[(1, 0, {"x": same, "y": same})])
    with pytest.raises(PolicyError, match=r"costs of y: expected at most 100 parts .*, found 121; raise max_nodes="):
        solvent.verify(b.build(), plan(b.build(), "1/10").policy, max_nodes=100)


def test_below_the_least_count_nothing_changes() -> None:
    model = falling(2)
    for prune in (True, False):
        policy = plan(model, 1, prune=prune).policy
        least = least_count(model, policy, 0)
        for step in (2, 3):
            states = np.zeros(3, np.int64)
            # also after an increase by up to two of the greatest costs
            ticks = np.array([[least + 8], [least - 10**6], [-(2**60)]])
            assert len(set(policy.action_indices(step, states, ticks).tolist())) == 1


def test_continuous_costs_have_no_ticks() -> None:
    policy = plan(twice(), 1).policy
    with pytest.raises(
        PolicyError, match="costs of x: expected costs of finite support, found a continuous distribution"
    ):
        policy.cost_ticks(twice())
    with pytest.raises(
        PolicyError, match="costs of x: expected costs of finite support, found a continuous distribution"
    ):
        solvent.derandomize(twice(), policy)


def test_derandomizing_keeps_how_costs_are_counted() -> None:
    model = twice(Fraction(3, 10))
    policy = plan(model, 1).policy
    assert policy.counting == ("down",)
    same = solvent.derandomize(model, policy)
    assert same.counting == ("down",)
    assert solvent.verify(model, same).worst_spent_by_step == solvent.verify(model, policy).worst_spent_by_step


def test_saved_policies_count_in_the_same_way(tmp_path: Any) -> None:
    model = twice()
    policy = plan(model, 1, strict=True).policy
    policy.save(tmp_path / "rounded.policy")
    loaded = solvent.load_policy(tmp_path / "rounded.policy", model)
    assert solvent.verify(model, loaded).worst_spent_by_step == solvent.verify(model, policy).worst_spent_by_step
    with pytest.raises(PolicyError, match="a policy for this model"):
        solvent.verify(twice(budget=4), plan(twice(solvent.distribution("uniform", low=0, high=1)), 1).policy)
