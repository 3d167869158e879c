"""Equal outcomes are merged once, and only rows whose outcomes are a full product are taken for independent."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

import oracle
import solvent
from effort import seeds
from solvent import CMDP
from solvent.model.budget import resolve
from solvent.solvers.outcomes.merging import merge_twins
from solvent.solvers.outcomes.pooling import independent_rows, pool
from solvent.solvers.problem import Problem


def repeated(times: int = 4) -> CMDP:
    """A row whose number of outcomes is that of a product of costs and states, but each pair stands in it again."""
    b = CMDP.builder(horizon=2, start="s", resources=["r"], budget=3)
    for action in "xy":
        listed = [(Fraction(1, 4 * times), q, q) for q in range(4) for _ in range(times)]
        b.add("s", action, outcomes=listed)
    for q in range(4):
        b.add(q, "buy", reward=10, outcomes=[(1, q, 3 - q)])
    return b.build()


def test_repeated_pairs_are_not_a_product() -> None:
    model = repeated()
    assert solvent.solve(model).value == 10
    assert solvent.solve(model, method="reduction").value == 10
    assert solvent.frontier(model).value(3) == 10
    assert solvent.solve(model, gap=0.01).value == 10


def test_independence_needs_every_pair_once() -> None:
    model = repeated()
    cost = np.array([int(model.cost_of(0, o)) for o in range(model.n_outcomes)])
    assert pool(model, cost).n_distributions == 0
    assert (independent_rows(model, cost[:, None]).distribution == -1).all()
    merged, ticks = merge_twins(model, cost[:, None])
    assert merged.n_outcomes == 12
    assert len(ticks) == 12
    assert merged.probability[:4].tolist() == [0.25] * 4


def test_outcomes_that_differ_in_an_unlimited_resource_are_one() -> None:
    b = CMDP.builder(horizon=3, start=0, resources=["fuel", "noise"], budget={"fuel": 3, "noise": None})
    b.add(0, "go", reward=1, outcomes=[(0.25, 0, [1, n]) for n in range(4)])
    model = b.build()
    problem = Problem.exact(model, resolve(model, None))
    assert problem.model.n_outcomes == 1
    assert problem.model.is_deterministic
    assert solvent.solve(model).method == "labels"
    assert solvent.solve(model).value == 3


def test_long_rows_are_merged_as_well() -> None:
    b = CMDP.builder(horizon=2, start=0, resources=["fuel"], budget=2)
    b.add(0, "go", reward=1, outcomes=[(Fraction(1, 100), 0, o % 2) for o in range(100)])
    problem = Problem.exact(b.build(), resolve(b.build(), None))
    assert problem.model.n_outcomes == 2
    assert problem.model.probability == pytest.approx([0.5, 0.5])


def test_models_without_twins_stay_as_they_are() -> None:
    model = solvent.instances.fuel_grid(3)
    problem = Problem.exact(model, resolve(model, None))
    assert problem.model is model


@pytest.mark.parametrize("seed", seeds(30))
def test_repeated_and_scrambled_products_against_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    n_states, n_costs = rng.randint(2, 4), rng.randint(2, 4)
    b = CMDP.builder(horizon=2, start=0, resources=["r", "free"], budget={"r": rng.randint(1, 6), "free": None})
    for state in range(n_states):
        for action in "ab":
            pairs = [(s, c) for s in range(n_states) for c in range(n_costs)]
            kind = rng.choice(["product", "repeated", "scrambled"])
            if kind == "repeated":  # as many outcomes as a product has, but some pairs twice and some not at all
                pairs = [rng.choice(pairs) for _ in pairs]
            if kind == "scrambled":
                pairs = pairs + rng.sample(pairs, len(pairs) // 2)
            rng.shuffle(pairs)
            listed = [(Fraction(1, len(pairs)), s, [c, rng.randint(0, 2)]) for s, c in pairs]
            b.add(state, action, reward=rng.randint(0, 5), outcomes=listed)
        b.add(state, "rest", outcomes=[(1, state)])
    model = b.build()
    exact = oracle.optimum(model)
    for method in ("auto", "reduction", "frontier"):
        solution = solvent.solve(model, method=method)
        assert Fraction(solution.value_lower) <= exact <= Fraction(solution.value_upper)
        assert solution.value == pytest.approx(float(exact))


def test_bins_that_merge_into_a_plain_cost_keep_their_probability() -> None:
    """A continuous cost that shares a bin with a plain one changes probabilities, not the number of outcomes."""
    b = CMDP.builder(horizon=3, start="s", resources=["r"], budget=8)
    costs = [2, solvent.distribution("uniform", low=2, high=3)]
    b.add("s", "a", reward=8, outcomes=[(0.5, "s", cost) for cost in costs])
    b.add("s", "b", reward=5, outcomes=[(1, "s", 1)])
    model = b.build()
    strict = solvent.solve(model, approximation="additive", epsilon=3, strict=True)
    # "a" twice always fits; a third time if no cost was above 2, which happens with probability 1/4 as counted
    rule = 8 + 8 + 0.25 * 8 + 0.75 * 5
    assert strict.value_upper >= rule
    assert strict.value_lower <= strict.value <= 24
    assert solvent.verify(model, strict.policy).feasible
