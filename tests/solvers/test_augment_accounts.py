"""`augment` with saturating resources, initial amounts, several first states, end rewards and goals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import solvent
from accounts import FEATURES, Case, random_case
from effort import seeds
from solvent.errors import ModelError, PolicyError
from solvent.model.cmdp import CMDP
from solvent.solvers.augmentation.mdp import AugmentedMDP

SIZES = [(1, False), (1, True), (2, True)]


def values_of(mdp: AugmentedMDP) -> tuple[list[float], list[int]]:
    """Return the value and the best action of each node of a time-expanded MDP, by plain backward induction."""
    value, action = mdp.end_reward.tolist(), [0] * mdp.n_nodes
    for node in mdp.dead_ends.tolist():
        value[node] = -math.inf
    table = mdp.transitions
    for node in range(mdp.n_nodes - 1, -1, -1):
        rows = range(int(mdp.row_indptr[node]), int(mdp.row_indptr[node + 1]))
        best = -math.inf
        for row in rows:
            entries = slice(int(table.indptr[row]), int(table.indptr[row + 1]))
            worth = float(mdp.reward[row])
            for p, after in zip(table.data[entries].tolist(), table.indices[entries].tolist(), strict=True):
                worth += p * value[after]
            if worth > best:
                best, action[node] = worth, int(mdp.row_action[row])
        value[node] = best if rows else value[node]
    return value, action


def start_value(mdp: AugmentedMDP, value: list[float]) -> float:
    firsts = [value[node] for node in mdp.start_nodes.tolist()]
    return -math.inf if -math.inf in firsts else float(np.dot(firsts, mdp.start_probability))


def check(case: Case, prune: bool) -> bool:
    """Compare the MDP of a case with its definition; return whether it is feasible."""
    mdp = solvent.augment(case.model, case.budget, spent=case.spent, prune=prune)
    value, action = values_of(mdp)
    assert mdp.feasible == (case.optimum > -math.inf)
    assert start_value(mdp, value) == pytest.approx(case.optimum, abs=1e-9)
    assert len(mdp.start_nodes) == len(case.model.start_states)
    for node, (p, place) in zip(mdp.start_nodes.tolist(), case.starts(), strict=True):
        assert mdp.node(node).state == case.model.states[place[0]]
        assert mdp.start_probability[node] == p
    if not mdp.feasible:
        return False
    if prune:
        assert not len(mdp.dead_ends)
    policy = mdp.policy(action)
    report = solvent.verify(case.model, policy, case.budget, spent=case.spent)
    assert report.feasible
    assert report.value == pytest.approx(case.optimum, abs=1e-9)
    return True


@pytest.mark.parametrize("prune", [True, False])
@pytest.mark.parametrize(("n_resources", "lower"), SIZES)
@pytest.mark.parametrize("seed", seeds(25))
def test_values_are_as_defined(seed: int, n_resources: int, lower: bool, prune: bool) -> None:
    check(random_case(seed, n_resources=n_resources, lower=lower), prune)


@pytest.mark.parametrize("feature", FEATURES)
def test_one_feature_at_a_time(feature: str) -> None:
    feasible = sum(check(random_case(seed, [feature]), prune=True) for seed in range(40))
    assert 5 < feasible < 40


@pytest.mark.parametrize("seed", seeds(40))
def test_the_export_to_gymnasium(seed: int) -> None:
    case = random_case(seed)
    mdp = solvent.augment(case.model, case.budget, spent=case.spent, prune=seed % 2 == 0)
    table = mdp.to_gymnasium_P()
    value = [0.0] * mdp.n_nodes
    for _ in range(case.model.horizon):  # a planner that stops at `done`
        value = [
            max(
                sum(p * (r + (0.0 if done else value[after])) for p, after, r, done in outcomes)
                for outcomes in table[node].values()
            )
            for node in range(mdp.n_nodes)
        ]
    assert start_value(mdp, value) == pytest.approx(case.optimum, abs=1e-9)


@pytest.mark.parametrize("seed", seeds(20))
def test_the_export_to_quantecon(seed: int) -> None:
    markov = pytest.importorskip("quantecon.markov")
    case = random_case(seed)
    mdp = solvent.augment(case.model, case.budget, spent=case.spent)
    vs, sigmas = markov.backward_induction(mdp.to_quantecon(), case.model.horizon)
    assert start_value(mdp, vs[0].tolist()) == pytest.approx(case.optimum, abs=1e-9)
    if mdp.feasible:
        policy = mdp.policy(sigmas)
        assert solvent.verify(case.model, policy, case.budget, spent=case.spent).value == pytest.approx(case.optimum)


@pytest.mark.parametrize("seed", seeds(40))
def test_the_stationary_form(seed: int) -> None:
    case = random_case(seed, ["saturation", "spent", "start"], terminal=seed % 2 == 0)
    budget = {"r0": 2}
    plain = Case(case.model, budget, case.spent)
    mdp = solvent.augment(case.model, budget, spent=case.spent, stationary=True)
    value = np.zeros(mdp.n_nodes)
    table = mdp.transitions
    for _ in range(case.model.horizon):
        value[mdp.dead_ends] = -np.inf
        worth = [
            mdp.reward[row] + sum(table.data[e] * value[table.indices[e]] for e in range(*table.indptr[row : row + 2]))
            for row in range(mdp.n_rows)
        ]
        after = value.copy()
        for node in range(mdp.n_nodes):
            rows = worth[int(mdp.row_indptr[node]) : int(mdp.row_indptr[node + 1])]
            after[node] = max(rows) if rows else after[node]
        value = after
    value[mdp.dead_ends] = -np.inf
    assert mdp.feasible == (plain.optimum > -math.inf)
    assert start_value(mdp, value.tolist()) == pytest.approx(plain.optimum, abs=1e-9)


def two_starts() -> CMDP:
    b = CMDP.builder(horizon=1, start={"a": 0.5, "b": 0.5}, resources=["x"], end_reward={"b": 2}, must_end_in=["b"])
    b.add("a", "go", reward=1, outcomes=[(1, "b", 1)])
    b.add("a", "stay", reward=9, outcomes=[(1, "a", 0)])
    b.terminal("b")
    return b.build()


def test_a_small_example() -> None:
    mdp = solvent.augment(two_starts(), 1)
    assert mdp.start_nodes.tolist() == [0, 1]
    assert mdp.end_reward.tolist() == [0.0, 2.0, 0.0]
    assert mdp.reward.tolist() == [3.0]  # staying would end outside the goal
    assert mdp.to_gymnasium_P()[1] == {0: [(1.0, 2, 2.0, True)]}
    with pytest.raises(ModelError, match=r"start: expected an MDP with one first node, found 2; read start_nodes and"):
        _ = mdp.start
    with pytest.raises(
        PolicyError, match=r"node 0 \(step 0, state 'a'.*\): expected an action offered there, 0 \('go'"
    ):
        mdp.policy(["stay"] * mdp.n_nodes)


def test_a_terminal_state_outside_the_goal_is_a_dead_end() -> None:
    b = CMDP.builder(horizon=2, start="a", resources=[], must_end_in=["home"])
    b.add("a", "lose", reward=9, outcomes=[(1, "ditch")])
    b.add("a", "go", outcomes=[(1, "home")])
    b.terminal("ditch", "home")
    model = b.build()
    pruned, kept = solvent.augment(model), solvent.augment(model, prune=False)
    assert [model.actions[a] for a in pruned.row_action] == ["go"]
    assert [kept.node(int(i)).state for i in kept.dead_ends] == ["ditch"]
    assert kept.feasible


@pytest.mark.parametrize(
    ("options", "found"),
    [({"end_reward": {0: 1}}, "end rewards"), ({"must_end_in": [0]}, r"a goal \(must_end_in\)")],
)
def test_the_stationary_form_refuses_ends(options: dict[str, object], found: str) -> None:
    b = CMDP.builder(horizon=2, start=0, resources=["x"], **options)
    b.add(0, "go", outcomes=[(0.5, 0, 1), (0.5, 1, 0)])
    b.terminal(1)
    text = rf"stationary=True: expected a model without end rewards and goals, found {found}; leave it out"
    with pytest.raises(ModelError, match=text):
        solvent.augment(b.build(), 1, stationary=True)
