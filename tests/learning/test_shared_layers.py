"""Layers that steps share: the same graph as with a layer for each step, and as exact sums along histories say."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flat import assert_equal, flat
from hypothesis import given
from hypothesis import strategies as st

import solvent
from effort import draws, seeds
from solvent import CMDP, Budget, Resource, instances
from solvent.learning.graph import SafeGraph
from solvent.learning.starts import START, limits_with_draw, with_draw
from solvent.learning.support import LearnedSupport
from solvent.learning.worst_case import WorstCase
from solvent.model.budget import Limits, limits_of, read_budgets, resolve
from solvent.model.cost_bounds import CostBounds
from solvent.solvers.augmentation.kernels import repeats
from solvent.solvers.bounds.arrays import Bounds, LimitArrays
from solvent.solvers.problem import Problem

Amounts = tuple[Fraction, ...]


def random_problem(seed: int) -> Problem:
    """Return a problem with a long horizon, of which many steps are alike and some are not."""
    rng = random.Random(seed)
    horizon, n_states = rng.randint(6, 24), rng.randint(2, 4)
    names = ["fuel", "wear"][: rng.choice([0, 1, 1, 1, 2, 2])]
    resources = [
        Resource(name, floor=rng.choice([None, None, 0, -1]), ceiling=rng.choice([None, None, None, 4]))
        for name in names
    ]
    options: dict[str, Any] = {"must_end_in": [0, n_states - 1]} if rng.random() < 0.2 else {}
    start: Any = {0: 0.5, 1: 0.5} if rng.random() < 0.3 else 0
    b = CMDP.builder(horizon=horizon, start=start, resources=resources, states=list(range(n_states)), **options)
    ends = rng.random() < 0.3
    special = rng.randrange(horizon) if rng.random() < 0.3 else None  # the only step with other rows
    for state in range(n_states):
        if ends and state == n_states - 1:
            b.terminal(state)
            continue
        for action in range(rng.randint(1, 3)):
            for steps in [None] if special is None else [[h for h in range(horizon) if h != special], [special]]:
                n = rng.randint(1, 2)
                costs = [[_cost(rng, action) for _ in names] for _ in range(n)]
                b.add(
                    state, action, outcomes=[(Fraction(1, n), rng.randrange(n_states), each) for each in costs],
                    steps=steps,
                )  # fmt: skip
    model = b.build()
    budget = {name: _budget(rng, horizon) for name in names}
    limits = resolve(model, budget)
    if isinstance(model.start, dict):
        model, limits = with_draw(model), limits_with_draw(limits)
    return Problem.exact(model, limits, merge=False)


def _cost(rng: random.Random, action: int) -> Fraction:
    """Return a cost, mostly none: with action 0, never a positive one."""
    most = rng.choice([0, 0, 0, 1, 2, Fraction(1, 2)]) if action else rng.choice([0, 0, 0, 0, -1])
    return Fraction(most)


def _budget(rng: random.Random, horizon: int) -> Budget:
    """Return limits that stay the same, change once, or hold at some steps."""
    upper: list[Any] = [rng.choice([None, 1, 2, 3, 40])] * horizon
    kind, step = rng.randrange(3), rng.randrange(horizon)
    if kind == 1:
        upper[step:] = [rng.choice([None, 1, 2, 4])] * (horizon - step)
    if kind == 2:
        upper[step] = rng.choice([1, 2])
    lower: list[Any] = [rng.choice([None, None, None, -2])] * horizon
    return Budget(upper=upper, lower=lower)


def compare(problem: Problem) -> SafeGraph:
    """Compare the graph of a problem with the one without shared layers; return it."""
    shared, apart = SafeGraph.of(problem), SafeGraph.of(problem, share=False)
    assert (shared.n_nodes, shared.n_rows) == (apart.n_nodes, apart.n_rows)
    assert shared.n_rows == len(apart.layers.row)
    assert shared.feasible == apart.feasible
    assert len(apart.layers.node_state) == apart.n_nodes
    assert len(shared.layers.node_state) <= shared.n_nodes
    assert_equal(flat(shared), flat(apart))
    return shared


@pytest.mark.parametrize("seed", seeds(400))
def test_a_graph_is_the_same_with_a_layer_for_each_step(seed: int) -> None:
    compare(random_problem(seed))


def test_many_of_these_problems_share_layers() -> None:
    graphs = [SafeGraph.of(random_problem(seed)) for seed in range(60)]
    sharing = [graph for graph in graphs if 2 * len(graph.layers.node_state) < graph.n_nodes]
    assert len(sharing) > 15
    limited = [graph for graph in sharing if (graph.layers.node_spent_ND >= 0).any()]
    assert len(limited) > 5, "amounts that are not settled are shared too"


class Histories:
    """A problem in exact sums: which rows are safe after a history."""

    def __init__(self, problem: Problem) -> None:
        self.model, self.limits = problem.model, problem.limits
        self.safe = cache(self._safe)

    def after(self, spent: Amounts, o: int) -> Amounts:
        names, model = self.limits.resources, self.model
        return tuple(
            model.resource(name).clamp(amount + model.cost[model.resource_index(name)].value(o))
            for amount, name in zip(spent, names, strict=True)
        )

    def within(self, spent: Amounts, step: int) -> bool:
        sides = zip(spent, self.limits.upper, self.limits.lower, strict=True)
        return all(
            (up[step] is None or x <= up[step]) and (low[step] is None or low[step] <= x) for x, up, low in sides
        )

    def _safe(self, step: int, state: int, spent: Amounts) -> tuple[int, ...] | None:
        """Return the rows that are safe at a node; None if it is a dead end."""
        model = self.model
        if step == model.horizon:
            return () if model.may_end is None or model.may_end[state] else None
        rows = model.rows(step, state)
        if not len(rows):
            ends = model.may_end is None or bool(model.may_end[state])
            return () if ends and all(self.within(spent, later) for later in range(step, model.horizon)) else None
        return tuple(row for row in rows if self._is_safe(step, spent, row)) or None

    def _is_safe(self, step: int, spent: Amounts, row: int) -> bool:
        for o in range(int(self.model.outcome_indptr[row]), int(self.model.outcome_indptr[row + 1])):
            amounts = self.after(spent, o)
            if not self.within(amounts, step):
                return False
            if self.safe(step + 1, int(self.model.next_state[o]), amounts) is None:
                return False
        return True


@pytest.mark.parametrize("seed", seeds(150))
def test_rows_are_exactly_those_that_are_safe_after_each_history(seed: int) -> None:
    problem = random_problem(1000 + seed)
    graph, exact, model = SafeGraph.of(problem), Histories(problem), problem.model
    layers, start = graph.layers, int(model.start_states[0])
    first = exact.safe(0, start, problem.limits.initial)
    assert graph.feasible == (first is not None)
    if first is None:
        return
    reached = {(0, start, problem.limits.initial)}
    for step in range(model.horizon):
        following = set()
        for node, state, spent in reached:
            stored = node - int(layers.shift_H[step])
            assert layers.node_state[stored] == state
            rows = graph.rows(step, node)
            assert tuple(layers.row[rows.start : rows.stop].tolist()) == exact.safe(step, state, spent)
            if rows:
                ticks = tuple(int(x / unit) for x, unit in zip(spent, problem.lattice.units, strict=True))
                assert graph.find(step, state, ticks) == node
            for row in rows:
                begin, o = int(layers.entry_indptr[row]), int(model.outcome_indptr[layers.row[row]])
                for j in range(int(layers.entry_indptr[row + 1]) - begin):
                    after = int(layers.layer_indptr[step + 1]) + int(layers.entry_next[begin + j])
                    following.add((after, int(model.next_state[o + j]), exact.after(spent, o + j)))
        reached = following if step < model.horizon - 1 else set()


@pytest.mark.parametrize("seed", seeds(60))
def test_a_learned_support_that_grows(seed: int) -> None:
    rng = random.Random(seed)
    n_states, n_actions, horizon = rng.randint(2, 5), rng.randint(1, 3), rng.randint(4, 20)
    names = ("a", "b")[: rng.randint(1, 2)]
    budget = {name: Budget(upper=[rng.choice([2, 3, 30])] * horizon) for name in names}
    limits: Limits = limits_of(read_budgets(budget, names, horizon), horizon)
    bounds: list[list[Any]] = [
        [tuple(Fraction(rng.choice([0, 1, 1, 2]) if a else 0) for _ in names) for a in range(n_actions)]
        for _ in range(n_states)
    ]
    states: tuple[Any, ...] = tuple(range(n_states))
    drawn, worst = rng.random() < 0.5, None
    if drawn:
        states, horizon, limits = (*states, START), horizon + 1, limits_with_draw(limits)
    if rng.random() < 0.7:
        worst = WorstCase.of(CostBounds(lambda s, a: bounds[s][a], names, n_actions), states, n_actions)
    actions = tuple(range(n_actions))
    support = LearnedSupport((START if drawn else 0, states, actions), horizon, limits, worst_case=worst)
    shares = False
    for _ in range(6):
        for _ in range(rng.randint(0, 3 * n_states)):
            row = rng.randrange(n_states * n_actions)
            most = bounds[row // n_actions][row % n_actions]
            less = [rng.choice([0, 0, Fraction(1, 2), 1]) for _ in names]
            after = rng.choice([*range(n_states), support.over])
            support.add(row, after, tuple(max(x - y, Fraction(0)) for x, y in zip(most, less, strict=True)))
        if drawn:
            support.add(n_states * n_actions, rng.randrange(n_states), (Fraction(0),) * len(names))
        graph = compare(support.problem())
        shares = shares or len(graph.layers.node_state) < graph.n_nodes
    assert shares or horizon < 10


@draws(400)
@given(seed=st.integers(0, 10**6))
def test_steps_that_repeat_treat_amounts_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ends = (np.iinfo(np.int64).min, np.iinfo(np.int64).max) if seed % 2 else (-9, 9)

    def sides(shape: tuple[int, ...]) -> tuple[Any, Any]:
        low, high = rng.integers(-3, 4, shape), rng.integers(-3, 4, shape)
        low[rng.random(shape) < 0.4], high[rng.random(shape) < 0.4] = ends
        low[1:][rng.random(low[1:].shape) < 0.7] = low[0].flat[0]
        high[1:][rng.random(high[1:].shape) < 0.7] = high[0].flat[0]
        return low, high

    safe, settled, (lower, upper) = sides((3, 2, 1)), sides((3, 2, 1)), sides((2, 1))
    least, most = np.sort(rng.integers(-2, 3, 2))
    alike = repeats(
        1, Bounds(*safe, *settled), LimitArrays(upper, lower), np.array([least]), np.array([most])
    )  # fmt: skip

    def seen(h: int) -> list[Any]:
        found: list[Any] = []
        for x in range(int(least), int(most) + 1):
            for s in range(2):
                arrives = max(lower[h, 0], safe[0][h + 1, s, 0]) <= x <= min(upper[h, 0], safe[1][h + 1, s, 0])
                is_settled = settled[0][h + 1, s, 0] <= x <= settled[1][h + 1, s, 0]
                found.append((safe[0][h, s, 0] <= x <= safe[1][h, s, 0], arrives, is_settled))
        return found

    if alike:
        assert seen(0) == seen(1)
    assert repeats(1, Bounds(*safe, *settled), LimitArrays(upper, lower), np.array([1]), np.array([0]))


@pytest.mark.parametrize(
    ("bonus", "cost_support"), [("practical", "known"), ("practical", "learned"), ("theory", "known")]
)
def test_learning_is_the_same_without_shared_layers(
    bonus: Any, cost_support: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = instances.fuel_grid(3)
    options: dict[str, Any] = {"bonus": bonus, "cost_support": cost_support, "max_episodes": 200, "budget": 100}
    shared = solvent.learn(model, **options)
    build = SafeGraph.of.__func__  # type: ignore[attr-defined]
    built = []

    def apart(cls: Any, problem: Problem, monitor: Any = None, *, share: bool = True) -> SafeGraph:
        built.append(share)
        graph: SafeGraph = build(cls, problem, monitor, share=False)
        return graph

    monkeypatch.setattr(SafeGraph, "of", classmethod(apart))
    other = solvent.learn(model, **options)
    assert built
    assert shared.history == other.history
    assert shared.returns.tolist() == other.returns.tolist()
    assert (shared.value_lower, shared.value_upper) == (other.value_lower, other.value_upper)
    files = tmp_path / "shared.npz", tmp_path / "apart.npz"
    for result, file in zip((shared, other), files, strict=True):
        result.policy.save(file)
    assert files[0].read_bytes() == files[1].read_bytes()
