"""Lemma 1: a deterministic policy whose worst case is not greater, and whose value is not less."""

from __future__ import annotations

import histories
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from effort import draws
from solvent.errors import PolicyError
from solvent.model import instances
from solvent.policy.derandomize import derandomize
from solvent.policy.markov import MarkovPolicy
from solvent.policy.table import AugmentedPolicy
from solvent.verification.verify import verify

SEEDS = st.integers(0, 10**6)


def assert_no_worse(model, before, after, limits):
    old, new = verify(model, before), verify(model, after)
    assert new.value >= old.value - 1e-12
    for name in model.resources:
        for mine, other in zip(new.worst_spent_by_step[name], old.worst_spent_by_step[name], strict=True):
            assert mine <= other
        for mine, other in zip(new.least_spent_by_step[name], old.least_spent_by_step[name], strict=True):
            assert mine >= other
    assert new.feasible or not old.feasible


@draws(60)
@given(histories.models(), SEEDS)
def test_policies_on_nodes(model, seed):
    case = histories.randomized_case(model, seed)
    result = derandomize(model, case.policy)
    assert isinstance(result, AugmentedPolicy)
    assert_no_worse(model, case.policy, result, case.limits)
    for step, state, spent, action in result:
        amounts = {name: spent.get(name, 0) for name in model.resources}
        assert case.decide(step, state, amounts).get(action, 0) > 0


@draws(60)
@given(histories.models(), SEEDS)
def test_policies_on_states(model, seed):
    case = histories.markov_case(model, seed, randomized=True)
    result = derandomize(model, case.policy)
    assert result.is_deterministic
    assert_no_worse(model, case.policy, result, case.limits)
    for step, state in np.argwhere(result.table >= 0):
        name = model.states[state]
        assert set(result.probabilities(int(step), name)) <= set(case.policy.probabilities(int(step), name))


@draws(40)
@given(histories.models(max_resources=2), SEEDS)
def test_deterministic_policies_are_unchanged(model, seed):
    case = histories.augmented_case(model, seed, settle=True)
    assert_no_worse(model, case.policy, derandomize(model, case.policy), case.limits)


def test_it_is_the_best_policy_with_these_actions():
    model = instances.random(3, 3, horizon=4, seed=5)
    value = np.zeros(3)
    for step in reversed(range(4)):
        worth = np.full((3, 3), -np.inf)
        for state in range(3):
            for row in model.rows(step, state):
                part = slice(model.outcome_indptr[row], model.outcome_indptr[row + 1])
                later = value[model.next_state[part]] @ model.probability[part]
                worth[state, model.row_action[row]] = model.row_reward[row] + later
        value = worth.max(1)
    uniform = MarkovPolicy(model, np.full((4, 3, 3), 1 / 3))
    assert verify(model, derandomize(model, uniform)).value == pytest.approx(value[0])


def test_a_solution_stands_for_its_policy():
    model = instances.fuel_grid(3)
    solution = solvent.solve(model)
    assert derandomize(model, solution) == derandomize(model, solution.policy)
    with pytest.raises(solvent.SolventError, match="a solution with a policy, found status infeasible"):
        derandomize(model, solvent.solve(model, -1))


def test_what_cannot_be_derandomized():
    model = instances.markov_gap()
    with pytest.raises(PolicyError, match="expected a MarkovPolicy"):
        derandomize(model, lambda *_: 0)
    with pytest.raises(PolicyError, match="for another"):
        derandomize(instances.markov_gap(prize=2), MarkovPolicy(model, [[0], [1]]))
    b = solvent.CMDP.builder(horizon=1, start="s", resources=["x"], actions=["go", "fly"], budget=1)
    b.add("s", "go", outcomes=[(1, "s", 0)])
    model = b.build()
    with pytest.raises(PolicyError, match="step 0, state 's': expected an available action, found 'fly'"):
        derandomize(model, MarkovPolicy(model, [[[0.5, 0.5]]]))
