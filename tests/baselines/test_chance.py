"""Chance constraints against hulls over all histories, and policies that change after a violation."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from brute import best_at, chance_pairs
from hypothesis import assume, given
from hypothesis import strategies as st

import solvent
from effort import draws
from oracle import Problem
from solvent import baselines
from solvent.model import instances
from solvent.policy.markov import MarkovPolicy
from solvent.policy.until_violation import UntilViolationPolicy
from strategies import Tiny, problems

TINY = problems(max_resources=2, max_horizon=3)
DELTAS = st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.3, 0.5, 0.75, 1.0])


@given(TINY, DELTAS)
def test_value_is_that_of_the_best_mixture_of_history_policies(tiny: Tiny, delta: float) -> None:
    expected = best_at(chance_pairs(Problem(tiny.model, tiny.budget)), Fraction(delta) * (1 + Fraction(1, 10**12)))
    found = baselines.chance(tiny.model, tiny.budget, delta)
    if expected is None:
        assert found.status == "infeasible"
        assert "at least" in found.message
        return
    assert found.status == "optimal"
    assert found.value == pytest.approx(float(expected), abs=1e-8)
    report = solvent.verify(tiny.model, found.policy, tiny.budget)
    assert report.value == pytest.approx(found.value, abs=1e-8)
    assert report.violation_probability is not None
    assert report.violation_probability <= delta + 1e-9


@given(TINY)
def test_no_chance_at_all_is_what_solve_finds(tiny: Tiny) -> None:
    found, exact = baselines.chance(tiny.model, tiny.budget, 0), solvent.solve(tiny.model, tiny.budget)
    assert (found.status == "infeasible") == (exact.status == "infeasible")
    if found.has_policy:
        assert found.value == pytest.approx(exact.value, abs=1e-8)
        assert solvent.verify(tiny.model, found.policy, tiny.budget).feasible


@given(TINY)
def test_values_rise_from_exact_to_unconstrained(tiny: Tiny) -> None:
    values = [baselines.chance(tiny.model, tiny.budget, delta).value for delta in (0, 0.1, 0.4, 1)]
    values = [solvent.solve(tiny.model, tiny.budget).value, *values]
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(values))
    assert values[-1] == pytest.approx(baselines.unconstrained(tiny.model, tiny.budget).value, abs=1e-8)


@draws(25)
@given(TINY, st.sampled_from([0.1, 0.5]))
def test_simulation_agrees_with_verification(tiny: Tiny, delta: float) -> None:
    found = baselines.chance(tiny.model, tiny.budget, delta)
    assume(found.has_policy)
    report = solvent.verify(tiny.model, found.policy, tiny.budget)
    runs = solvent.simulate(tiny.model, found.policy, episodes=4000, seed=3, budget=tiny.budget)
    assert abs(runs.mean_reward - report.value) <= 6 * runs.standard_error + 1e-9
    p = report.violation_probability
    assert p is not None
    assert abs(runs.violations / 4000 - p) <= 6 * np.sqrt(p * (1 - p) / 4000) + 1e-9


def refunded() -> solvent.CMDP:
    """A first step that may break the limit and is refunded, so that `spent` does not reveal it; then a gamble."""
    b = solvent.CMDP.builder(horizon=3, start="a", resources=["x"], budget=1)
    b.add("a", "go", outcomes=[(0.5, "b", 2), (0.5, "b", 1)], steps=[0])
    b.add("b", "even", outcomes=[(0.5, "c", -1), (0.5, "c", 0)], steps=[1])
    b.add("c", "stay", outcomes=[(1, "c", 0)], steps=[2])
    b.add("c", "gamble", reward=1, outcomes=[(1, "c", 5)], steps=[2])
    return b.build()


def test_a_refund_does_not_make_the_policy_forget() -> None:
    model = refunded()
    found = baselines.chance(model, delta=0.5)
    # after a violation gambling is optimal, and without one it is not allowed, although both have spent 1
    assert found.value == pytest.approx(0.5)
    report = solvent.verify(model, found.policy)
    assert report.value == pytest.approx(0.5)
    assert report.violation_probability == pytest.approx(0.5)
    agent = found.policy.agent()
    for first, second, action in ((2, -1, "gamble"), (1, 0, "stay")):
        agent.reset()
        agent.act()
        agent.observe("b", first)
        agent.act()
        agent.observe("c", second)
        assert agent.spent["x"] == 1
        assert agent.act() == action


def test_an_agent_that_stops_says_why() -> None:
    model = refunded()
    agent = baselines.knapsack_style(model, stops=True).policy.agent()
    agent.act()
    agent.observe("b", 2)
    with pytest.raises(solvent.PolicyError, match="expected a decision, found none, because a limit was broken before"):
        agent.act()


def test_lapsing_policies_are_not_derandomized() -> None:
    model = refunded()
    with pytest.raises(solvent.PolicyError, match="found one that depends on earlier violations"):
        solvent.derandomize(model, baselines.chance(model, delta=0.5).policy)


def test_what_follows_a_lapse_is_for_the_same_model() -> None:
    policy = baselines.chance(refunded(), delta=0.5).policy
    other = instances.markov_gap()
    with pytest.raises(solvent.PolicyError, match="a policy for this model"):
        UntilViolationPolicy.of(policy, MarkovPolicy(other, [[0], [1]]))


@pytest.mark.parametrize("delta", [-0.1, 1.5, "a", True, float("nan")])
def test_delta_is_a_probability(delta: object) -> None:
    with pytest.raises(solvent.ModelError, match=r"^delta: expected a probability from 0 to 1, found"):
        baselines.chance(instances.markov_gap(), delta=delta)


def test_too_many_nodes_are_refused() -> None:
    model = instances.random(4, 3, horizon=6, real_costs=True, cost_range=(0, 1), budget=3)
    with pytest.raises(
        solvent.ModelError, match=r"chance, step \d: expected at most 100 nodes, found more; raise max_"
    ):
        baselines.chance(model, max_nodes=100)


def test_larger_models() -> None:
    model = instances.fuel_grid(5)
    exact = solvent.solve(model).value
    values = [baselines.chance(model, delta=delta).value for delta in (0, 0.02, 0.3)]
    assert values[0] == pytest.approx(exact)
    assert values[0] < values[1] < values[2]
    report = solvent.verify(model, baselines.chance(model, delta=0.02).policy)
    assert report.value == pytest.approx(values[1])
    assert report.violation_probability == pytest.approx(0.02)


def test_a_breach_of_the_least_probability_is_still_one() -> None:
    """With delta 0 the result is that of `solve`, however small the probability of a breach."""
    b = solvent.CMDP.builder(horizon=3, start=0, resources=["r"], budget=1)
    b.add(0, "risk", reward=2, outcomes=[(1.0, 1, 0), (5e-324, 2, 0)])
    b.add(0, "safe", reward=1, outcomes=[(1, 1, 0)])
    b.add(1, "rest", outcomes=[(1, 1, 0)])
    b.add(2, "pay", outcomes=[(0.5, 3, 0), (0.5, 3, 2)])
    b.add(3, "rest", outcomes=[(1, 3, 0)])
    model = b.build()
    assert baselines.chance(model, delta=0).value == solvent.solve(model).value == 1
    assert baselines.chance(model, delta=1e-300).value == 2
