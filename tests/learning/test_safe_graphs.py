"""The graph of a learner against one that is worked out node by node in fractions, before and after it grows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flat import assert_equal, flat

from effort import seeds
from solvent.learning.graph import SafeGraph
from solvent.learning.learner import Learner, LearnSettings
from solvent.learning.setup import LearnSetup
from solvent.model import instances
from solvent.model.budget import resolve
from solvent.model.cmdp import CMDP
from solvent.policy.locate import COLLAPSED
from solvent.solvers.problem import Problem

SETTINGS = LearnSettings(
    epsilon=0.05, delta=0.05, pool=True, bonus="practical", bonus_scale=0.03, replan="doubling",
    reward_range=(0.0, 1.0), return_range=None, random_rewards=True, seed=0,
)  # fmt: skip


def amounts_after(graph: SafeGraph, node: int, o: int) -> tuple[int, ...]:
    """Return what was spent after an outcome, as the node that it leads to has it."""
    layers, lattice = graph.layers, graph.problem.lattice
    step = int(np.searchsorted(layers.layer_indptr, node, side="right")) - 1
    spent = layers.node_spent_ND[node - layers.shift_H[step]].tolist()
    state = int(graph.problem.model.next_state[o])
    found = []
    for d, (before, cost) in enumerate(zip(spent, lattice.cost_OD[o].tolist(), strict=True)):
        if before == COLLAPSED:
            found.append(COLLAPSED)
            continue
        amount = min(max(before + cost, int(lattice.floor_D[d])), int(lattice.ceiling_D[d]))
        settled = int(layers.settled_low[step + 1, state, d]) <= amount <= int(layers.settled_high[step + 1, state, d])
        found.append(COLLAPSED if settled else amount)
    return tuple(found)


def check(graph: SafeGraph) -> int:
    """Compare every entry of a graph with the model; return the number of entries."""
    mdp, model = flat(graph), graph.problem.model
    assert graph.layers.entry_indptr[-1] == len(graph.layers.entry_next)
    for step in range(model.horizon):
        begin, end = mdp.layer_indptr[step : step + 2].tolist()
        indptr = model.row_indptr_at(step)
        for node in range(begin, end):
            state = int(mdp.node_state[node])
            for row in range(int(mdp.row_indptr[node]), int(mdp.row_indptr[node + 1])):
                own = int(mdp.row_model[row])
                assert indptr[state] <= own < indptr[state + 1]
                assert model.row_action[own] == mdp.row_action[row]
                outcomes = range(int(model.outcome_indptr[own]), int(model.outcome_indptr[own + 1]))
                entries = mdp.entry_next[mdp.entry_indptr[row] : mdp.entry_indptr[row + 1]].tolist()
                assert len(entries) == len(outcomes)
                for after, o in zip(entries, outcomes, strict=True):
                    if step == model.horizon - 1:
                        assert after == mdp.n_nodes - 1
                        continue
                    assert mdp.layer_indptr[step + 1] <= after < mdp.layer_indptr[step + 2]
                    assert mdp.node_state[after] == model.next_state[o]
                    assert tuple(mdp.node_spent_ND[after].tolist()) == amounts_after(graph, node, o)
    return len(mdp.entry_next)


@pytest.mark.parametrize("seed", seeds(60))
def test_entries_are_the_outcomes_of_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = instances.random(
        int(rng.integers(1, 6)), int(rng.integers(1, 4)), horizon=int(rng.integers(1, 6)),
        branching=int(rng.integers(1, 4)), cost_range=(int(rng.integers(-2, 1)), int(rng.integers(1, 4))),
        resources=int(rng.integers(1, 3)), budget=int(rng.integers(1, 9)), seed=seed,
    )  # fmt: skip
    graph = SafeGraph.of(Problem.exact(model, resolve(model, None), merge=False))
    check(graph)


def test_some_rows_lead_to_a_node_twice() -> None:
    model = twice()
    graph = SafeGraph.of(Problem.exact(model, resolve(model, None), merge=False))
    entries = graph.layers.entry_next[: graph.layers.entry_indptr[1]].tolist()
    assert len(entries) == 3
    assert len(set(entries)) == 2  # two amounts that no limit can tell apart lead to the same node
    check(graph)


def twice() -> CMDP:
    b = CMDP.builder(horizon=2, start="a", resources=["x"], budget=9)
    third = Fraction(1, 3)
    b.add("a", "go", outcomes=[(third, "a", 1), (third, "a", 2), (third, "b", 2)])
    b.add("b", "go", outcomes=[(1, "b", 0)])
    return b.build()


@pytest.mark.parametrize("seed", seeds(12))
def test_a_graph_that_grew_is_the_graph_from_scratch(seed: int) -> None:
    model = instances.random(4, 2, horizon=4, cost_range=(0, 3), budget=8, seed=seed)
    learner: Learner = LearnSetup(env=model, settings=SETTINGS, cost_support="learned").learner()
    learner.run(60)
    support = learner.learned_support
    assert support is not None
    fresh = SafeGraph.of(support.problem())
    if not support.pending:
        assert_equal(flat(learner.graph), flat(fresh))
    assert check(fresh) > 0 or not fresh.feasible
