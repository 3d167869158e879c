"""`simulate` compared with `verify`: in distribution, and exactly for deterministic models."""

from __future__ import annotations

from fractions import Fraction

import histories
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from effort import draws
from solvent.errors import PolicyError
from solvent.model import instances
from solvent.policy.markov import MarkovPolicy
from solvent.verification.simulate import LEVELS, _Draw, simulate
from solvent.verification.verify import verify

MAKERS = [
    histories.augmented_case,
    histories.randomized_case,
    histories.callable_case,
    lambda model, seed: histories.markov_case(model, seed, randomized=False),
    lambda model, seed: histories.markov_case(model, seed, randomized=True),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("seed", [1, 2])
def test_it_agrees_with_verify(make, seed):
    model = instances.random(4, 3, horizon=5, resources=2, seed=seed, budget=6)
    case = make(model, seed)
    report, result = verify(model, case.policy), simulate(model, case.policy, 20_000, seed=seed)
    assert abs(result.mean_reward - report.value) < 4.5 * result.standard_error + 1e-9
    p = report.violation_probability
    assert abs(result.violations / 20_000 - p) <= 4.5 * np.sqrt(p * (1 - p) / 20_000) + 1e-12
    for name in model.resources:
        assert result.max_spent[name] <= report.worst_spent[name]
        highs, lows = result.quantile(name, 1), result.quantile(name, 0)
        assert (highs <= np.array(report.worst_spent_by_step[name], float)).all()
        assert (lows >= np.array(report.least_spent_by_step[name], float)).all()
        assert (np.diff(result.spent_quantiles[name], axis=0) >= 0).all()
        assert result.spent_quantiles[name].shape == (len(LEVELS), 5)


@draws(40)
@given(histories.models(), st.integers(0, 10**6))
def test_no_episode_exceeds_the_extremes(model, seed):
    case = histories.augmented_case(model, seed)
    report, result = verify(model, case.policy), simulate(model, case.policy, 50, seed=seed)
    for name in model.resources:
        assert report.least_spent[name] <= result.max_spent[name] <= report.worst_spent[name]
    if report.feasible:
        assert result.violations == 0
    if report.violation_probability == 1:
        assert result.violations == 50


def test_deterministic_models_are_simulated_exactly():
    model = instances.knapsack([3, 4, 5], ["1/3", "1/7", 2], capacity=1)
    result = simulate(model, np.ones((3, 1), int), 7)
    report = verify(model, np.ones((3, 1), int))
    assert result.rewards.tolist() == [12.0] * 7
    assert result.violations == 7
    assert result.max_spent == {"weight": report.worst_spent["weight"]} == {"weight": Fraction(52, 21)}
    for level in (0, 0.5, 1):
        assert result.quantile("weight", level) == pytest.approx([1 / 3, 10 / 21, 52 / 21])


def test_seeds():
    model = instances.fuel_grid(3)
    policy = MarkovPolicy(model, np.zeros((9, 9), int))
    first, again, other = (simulate(model, policy, 100, seed=seed) for seed in (1, 1, 2))
    assert first.quantile("fuel", 0.5).tolist() == again.quantile("fuel", 0.5).tolist()
    assert first.max_spent == again.max_spent
    assert first.quantile("fuel", 0.9).tolist() != other.quantile("fuel", 0.9).tolist()


def test_episodes_stop_without_a_decision_after_a_violation():
    model = instances.random(3, 2, horizon=5, resources=1, cost_range=(0, 3), budget=4, seed=2)
    case = histories.augmented_case(model, 0, forget=True)
    report, result = verify(model, case.policy), simulate(model, case.policy, 5000)
    assert 0 < report.violation_probability < 1
    assert abs(result.violations / 5000 - report.violation_probability) < 0.03
    assert abs(result.mean_reward - report.value) < 4.5 * result.standard_error


def test_quantiles_are_order_statistics():
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["x"])
    b.add(0, 0, outcomes=[(0.25, 0, 1), (0.25, 0, 2), (0.5, 0, 10)])
    result = simulate(b.build(), np.zeros((1, 1), int), 40_000)
    assert [result.quantile("x", q)[0] for q in (0, 0.2, 0.3, 0.45, 0.55, 1)] == [1, 1, 2, 2, 10, 10]
    assert result.violations == 0


def test_draws_follow_the_probabilities_of_a_row():
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["x"])
    weights = np.random.default_rng(0).dirichlet(np.full(50, 0.1))
    b.add(0, 0, outcomes=[(p, 0, i) for i, p in enumerate(weights)])
    b.add(0, 1, outcomes=[(1, 0, 99)])
    model = b.build()
    draw = _Draw(model.outcome_indptr, model.probability)
    uniform = (np.arange(100_000) + 0.5) / 100_000
    outcome = draw(np.zeros(100_000, int), uniform)
    share = np.bincount(outcome, minlength=model.n_outcomes)[: len(model.probability) - 1] / 100_000
    assert np.abs(share - model.probability[:-1]).max() < 3e-5
    assert draw(np.array([1, 1, 0]), np.array([0.0, np.nextafter(1, 0), np.nextafter(1, 0)])).tolist() == [
        model.n_outcomes - 1,
        model.n_outcomes - 1,
        model.n_outcomes - 2,
    ]


def test_batches_have_random_numbers_of_their_own(monkeypatch):
    b = solvent.CMDP.builder(horizon=8, start=0, resources=["fuel"])
    b.add(0, 0, outcomes=[(0.5, 0, 0), (0.5, 1, 1)], reward=1)
    b.add(1, 0, outcomes=[(0.3, 0, 0), (0.7, 1, 1)])
    model, policy = b.build(), np.zeros((8, 2), int)
    whole = simulate(model, policy, 3000, seed=5).rewards
    monkeypatch.setattr("solvent.verification.simulate._BATCH", 1000)
    first, all_of_them = simulate(model, policy, 1000, seed=5), simulate(model, policy, 2500, seed=5)
    generator = np.random.default_rng(5)  # of the first batch
    monkeypatch.setattr(np.random, "default_rng", lambda _: generator)
    np.testing.assert_array_equal(first.rewards, simulate(model, policy, 1000, seed=7).rewards)
    np.testing.assert_array_equal(first.rewards, all_of_them.rewards[:1000])
    assert not np.array_equal(all_of_them.rewards[:1000], all_of_them.rewards[1000:2000])
    assert abs(all_of_them.rewards.mean() - whole.mean()) < 0.2 * whole.std()


def test_continuous_costs_stay_within_their_range():
    b = solvent.CMDP.builder(horizon=3, start=0, resources=["dose"])
    b.add(0, "drip", outcomes=[(1, 0, solvent.distribution("uniform", low="1/3", high="2/3"))])
    model = b.build()
    result = simulate(model, np.zeros((3, 1), int), 20_000, budget=2)
    assert result.violations == 0
    assert result.quantile("dose", 0.5)[-1] == pytest.approx(1.5, abs=0.02)
    assert Fraction(19, 10) < result.max_spent["dose"] <= 2
    # the chance that three uniform draws of width 1/3 fall short of their maximum by less than 1/30 is 1/6000
    assert 0 < simulate(model, np.zeros((3, 1), int), 20_000, budget=2 - Fraction(1, 30)).violations < 12


def test_what_cannot_be_simulated():
    model = instances.markov_gap()
    with pytest.raises(solvent.ModelError, match="episodes: expected a whole number of at least 1"):
        simulate(model, np.zeros((2, 1), int), 0)
    with pytest.raises(PolicyError, match="a decision"):
        simulate(model, np.full((2, 1), -1))
    result = simulate(model, np.zeros((2, 1), int), 1)
    assert np.isnan(result.standard_error)
    with pytest.raises(solvent.ModelError, match="resource: expected one of 'cost'"):
        result.quantile("fuel", 0.5)
    with pytest.raises(solvent.ModelError, match="level"):
        result.quantile("cost", 2)
