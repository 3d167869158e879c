"""The expectation-constrained optimum against hulls and against mixtures of all deterministic policies."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from brute import best_at, spending_pairs
from hypothesis import assume, given
from scipy.optimize import linprog

import solvent
from effort import draws
from oracle import Problem
from solvent import baselines
from solvent.model import instances
from solvent.model.budget import resolve
from strategies import Tiny, problems

NUMBERS = problems("number final", min_resources=1, max_resources=1, max_horizon=3)


@given(NUMBERS)
def test_value_is_that_of_the_best_mixture(tiny: Tiny) -> None:
    limit = resolve(tiny.model, tiny.budget).upper[0][-1]
    assert limit is not None
    pairs = spending_pairs(Problem(tiny.model, tiny.budget))
    found = baselines.expectation(tiny.model, tiny.budget)
    expected = best_at(pairs, limit)
    if expected is None:
        assume(pairs[0][0] - limit > Fraction(1, 10**8))
        assert found.status == "infeasible"
        assert not found.has_policy
        with pytest.raises(solvent.SolventError, match="expectation has no policy: the status is 'infeasible'"):
            _ = found.policy
        return
    # if the limit is close to the spending of a policy, the value may jump within the tolerance of the program
    less, more = (best_at(pairs, limit + sign * Fraction(1, 10**9)) for sign in (-1, 1))
    assert more is not None
    assert (-math.inf if less is None else float(less)) - 1e-7 <= found.value <= float(more) + 1e-7
    assert solvent.verify(tiny.model, found.policy, tiny.budget).value == pytest.approx(found.value, abs=1e-6)


def all_markov_policies(model: solvent.CMDP) -> list[np.ndarray]:
    places = [(h, s) for h in range(model.horizon) for s in range(model.n_states) if len(model.rows(h, s))]
    offers = [model.row_action[list(model.rows(h, s))].tolist() for h, s in places]
    assume(np.prod([len(offer) for offer in offers]) <= 600)
    tables = []
    for chosen in itertools.product(*offers):
        table = np.full((model.horizon, model.n_states), -1)
        for (h, s), action in zip(places, chosen, strict=True):
            table[h, s] = action
        tables.append(table)
    return tables


def spends(model: solvent.CMDP, table: np.ndarray) -> tuple[float, np.ndarray]:
    """Return value and expected spending after each step, by forward recursion over state names."""
    mass, value, total = {model.start_index: 1.0}, 0.0, np.zeros(model.n_resources)
    after = np.zeros((model.horizon, model.n_resources))
    for h in range(model.horizon):
        following: dict[int, float] = {}
        for s, weight in mass.items():
            for row in model.rows(h, s):
                if model.row_action[row] == table[h, s]:
                    value += weight * model.row_reward[row]
                    for outcome in model.outcomes(row):
                        total = total + weight * outcome.probability * np.array(
                            [float(c) for c in outcome.cost.values()]
                        )
                        then = model.state_index(outcome.next_state)
                        following[then] = following.get(then, 0.0) + weight * outcome.probability
        mass, after[h] = following, total
    return value, after


@draws(60)
@given(problems(max_resources=2, max_horizon=2))
def test_several_resources_and_limits_at_every_step(tiny: Tiny) -> None:
    model, limits = tiny.model, resolve(tiny.model, tiny.budget)
    facts = [spends(model, table) for table in all_markov_policies(model)]
    sides, right = [], []
    for sign, ends in ((1, limits.upper), (-1, limits.lower)):
        for name, side in zip(limits.resources, ends, strict=True):
            for h, limit in enumerate(side):
                if limit is not None:
                    sides.append([sign * after[h, model.resource_index(name)] for _, after in facts])
                    right.append(sign * float(limit))
    answer = linprog(
        [-value for value, _ in facts],
        A_ub=sides or None,
        b_ub=right or None,
        A_eq=[[1.0] * len(facts)],
        b_eq=[1.0],
    )
    found = baselines.expectation(model, tiny.budget, every_step=True)
    assert found.has_policy == (answer.status == 0)
    if found.has_policy:
        assert found.value == pytest.approx(-answer.fun, abs=1e-6)
        table = found.policy.table
        assert np.allclose(table.sum(2)[table.any(2)], 1)
        assert solvent.verify(model, found.policy, tiny.budget).value == pytest.approx(found.value, abs=1e-6)


@given(NUMBERS)
def test_exact_feasible_policies_keep_the_expectation(tiny: Tiny) -> None:
    exact = solvent.solve(tiny.model, tiny.budget)
    assert baselines.expectation(tiny.model, tiny.budget).value >= exact.value - 1e-8


def test_limits_of_every_step_bind_more_than_the_total() -> None:
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["x"], budget=0)
    b.add(0, "borrow", reward=1, outcomes=[(1, 0, 1)], steps=[0])
    b.add(0, "wait", outcomes=[(1, 0, 0)], steps=[0])
    b.add(0, "repay", outcomes=[(1, 0, -1)], steps=[1])
    model = b.build()
    assert baselines.expectation(model).value == pytest.approx(1)
    assert baselines.expectation(model, every_step=True).value == pytest.approx(0)


def test_unlikely_states_decide_too() -> None:
    b = solvent.CMDP.builder(horizon=2, start="a", resources=["x"], budget=1)
    b.add("a", "go", outcomes=[(Fraction(1, 10**14), "rare", 0), (1 - Fraction(1, 10**14), "usual", 0)])
    for state in ("rare", "usual"):
        b.add(state, "rest", outcomes=[(1, state, 0)])
        b.add(state, "take", reward=1, outcomes=[(1, state, 1)])
    model = b.build()
    found = baselines.expectation(model)
    assert found.policy.probabilities(1, "rare") == {"take": 1.0}
    assert solvent.verify(model, found.policy).value == pytest.approx(1)


def test_continuous_costs_enter_by_their_means() -> None:
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["x"], budget=1)
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    b.add(0, "take", reward=1, outcomes=[(1, 0, solvent.distribution("uniform", low=0, high=4))])
    assert baselines.expectation(b.build()).value == pytest.approx(0.5)


@pytest.mark.parametrize("scale", [10**-9, 1, 10**12])
def test_the_scale_of_costs_does_not_matter(scale: float) -> None:
    model = instances.markov_gap(prize=10, budget=Fraction(scale).limit_denominator(10**12))
    assert baselines.expectation(model).value == pytest.approx(5)


def test_an_episode_that_is_over_at_once() -> None:
    b = solvent.CMDP.builder(horizon=2, start="end", resources=["x"])
    b.terminal("end")
    b.add("other", "go", outcomes=[(1, "end", 1)])
    model = b.build()
    assert baselines.expectation(model, 0).value == 0
    assert baselines.expectation(model, -1).status == "infeasible"
    assert baselines.chance(model, -1, 0.5).status == "infeasible"
    assert baselines.smaller_budget(model, -1).status == "not_found"
    assert solvent.verify(model, baselines.chance(model, 0).policy).feasible
