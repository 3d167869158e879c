"""Label setting on deterministic models: the same answers as brute force and frontiers, with any number of labels."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from test_methods import check, close

import oracle
import strategies
from effort import draws, seeds
from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError
from solvent.model import instances
from solvent.model.budget import Budget, resolve
from solvent.model.cmdp import CMDP
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.labels import search as labels_search
from solvent.solvers.problem import Problem
from solvent.solvers.solve import solve
from solvent.verification.verify import verify


def certain_model(seed: int, *, n_states: int = 6, horizon: int = 12, real: bool = True) -> CMDP:
    """A random deterministic model with refueling and states that end the episode."""
    rng = np.random.default_rng(seed)
    b = CMDP.builder(horizon=horizon, start=0, resources=["fuel"])
    for state in range(n_states - 1):
        for action in range(3):
            cost = Fraction(float(rng.random())) * 3 - 1 if real else int(rng.integers(-1, 4))
            b.add(state, action, reward=float(rng.random()), outcomes=[(1, int(rng.integers(n_states)), cost)])
    b.terminal(n_states - 1)
    return b.build()


@given(strategies.one_sided_problems(certain=True), st.sampled_from([1, 2, 64]), st.sampled_from([1, 16]))
@draws(300)
def test_random_problems_with_any_number_of_labels(tiny, width, prices):
    value = oracle.optimum(tiny.model, tiny.budget)
    event("infeasible" if value == -math.inf else "feasible")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels_search, "_WIDTH", width)
        patch.setattr(labels_search, "_WIDER", 2)
        patch.setattr(labels_search, "_PRICES", prices)
        check(tiny.model, tiny.budget, solve(tiny.model, tiny.budget, method="labels"), value)


@pytest.mark.parametrize("seed", seeds(40))
def test_the_same_as_frontiers_on_larger_models(seed):
    model = certain_model(seed, real=seed % 2 == 0)
    for budget in (1, 3, Budget.final(2), Budget(upper=[4, None] * 6), Budget(lower=[-6] * 12)):
        found, known = solve(model, budget, method="labels"), solve(model, budget, method="frontier")
        assert found.status == known.status
        if known.status == "optimal":
            assert found.value == close(known.value, 12)
            report = verify(model, found.policy, budget)
            assert report.feasible
            assert report.value == close(found.value, 12)


def test_the_papers_family_with_few_labels():
    labels = points = 0
    for seed in range(10):
        model = instances.paper(60, seed=seed, budget=7)
        found, known = solve(model), solve(model, method="frontier")
        assert found.method == "labels"
        assert found.value == close(known.value, 60)
        assert verify(model, found.policy).feasible
        labels, points = labels + found.stats.nodes, points + known.stats.nodes
    assert labels < points / 4, "the bounds leave most of it out"


@given(st.integers(0, 10**6))
@draws(60)
def test_bounds_hold_at_every_price(seed):
    """The bound of a price at a (step, state) with some amount left is at least what can be earned from there."""
    model = certain_model(seed, n_states=4, horizon=5, real=False)
    problem = Problem.exact(model, resolve(model, 3))
    resource = SingleResource.of(problem.lattice)
    search = labels_search._Search(model, resource, ResourceMonitor(), drift=0.0)
    if not search.feasible:
        return
    least, prices = int(resource.least_left[-1]), search.prices
    nodes = oracle.Nodes(oracle.Problem(model, 3))
    for step in range(5):
        for state in range(4):
            for left in range(least, min(least + 8, int(search.bounds.highest_HS[step, state]) + 1)):
                value = nodes.value(step, model.states[state], (Fraction(-left),))
                for k in range(len(prices.price_K)):
                    bound = prices.value_KHS[k, step, state] + prices.price_K[k] * (left - least)
                    assert bound >= value


def test_a_budget_that_does_not_bind_needs_no_other_labels():
    solution = solve(instances.paper(50, seed=3), 100)
    assert solution.stats.layer_sizes == (1,) * 50
    assert solution.value == close(solve(instances.paper(50, seed=3), 100, method="frontier").value)


def test_ties_do_not_create_labels():
    model = instances.knapsack([1] * 40, [1] * 40, capacity=20)
    solution = solve(model)
    assert solution.value == 20
    assert solution.stats.nodes <= 40 * 20


def test_an_episode_that_is_over_at_once():
    b = CMDP.builder(horizon=3, start="end", resources=["fuel"])
    b.add("on", "go", reward=1, outcomes=[(1, "on", 1)])
    b.terminal("end")
    model = b.build()
    solution = solve(model, 1, method="labels")
    assert solution.value == 0
    assert solution.worst_spent == {"fuel": 0}
    assert verify(model, solution.policy, 1).feasible


def test_room_for_labels_grows():
    """Strongly correlated items make the bounds weak, so that there are more labels than room at first."""
    rng = np.random.default_rng(5)
    weights = rng.integers(1000, 2000, 60)
    model = instances.knapsack((weights + 100).tolist(), weights.tolist(), capacity=int(weights.sum()) // 2)
    solution = solve(model)
    assert solution.method == "labels"
    assert solution.stats.nodes > 1 << 14
    assert solution.value == close(solve(model, method="frontier").value, 2100)


def test_it_refuses_chance():
    expected = r'method="labels": expected a model without randomness, found 6 outcomes of .*; use method="auto"'
    with pytest.raises(ModelError, match=expected):
        solve(instances.fuel_grid(3), method="labels")


def test_limits_of_time_and_memory():
    rng = np.random.default_rng(5)
    weights = rng.integers(100_000, 200_000, 200)
    hard = instances.knapsack((weights + 10_000).tolist(), weights.tolist(), capacity=int(weights.sum()) // 2)
    solve(hard, approximation="relative", epsilon=0.5)  # what is compiled first does not count
    for limit, said in (({"time_limit": 0.5}, "time limit"), ({"memory_limit": "2MB"}, "labels")):
        stopped = solve(hard, method="labels", **limit)
        assert stopped.status == "feasible"
        assert said in stopped.message
        assert "never over" in stopped.message
        assert verify(hard, stopped.policy).feasible
        assert stopped.value_lower == stopped.value < stopped.value_upper
        assert stopped.gap < 0.01
    stopped = solve(hard, method="labels", memory_limit="1KB")
    assert stopped.status == "limit"
    assert stopped.value == -math.inf


@given(st.integers(0, 10**6))
@draws(40)
def test_bounds_of_a_stopped_search_hold(seed):
    model = certain_model(seed)
    known = solve(model, 3, method="frontier")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels_search, "_WIDTH", 1)
        patch.setattr(labels_search, "_PRICES", 2)
        stopped = solve(model, 3, method="labels", memory_limit=7_000)
    if known.status == "optimal" and stopped.status != "limit":
        event(stopped.status)
        assert stopped.value <= known.value + 1e-9
        assert stopped.value_upper >= known.value - 1e-9
