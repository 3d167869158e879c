"""Policies kept as runs: look-ups against brute force, and the same decisions as a table of all nodes."""

from __future__ import annotations

import functools
import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
import random_accounts as accounts
from hypothesis import given
from hypothesis import strategies as st

import solvent
from effort import draws, first
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.errors import PolicyError
from solvent.learning.result import restate
from solvent.model import instances
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice
from solvent.policy.derandomize import derandomize
from solvent.policy.files import from_bytes
from solvent.policy.locate import COLLAPSED
from solvent.policy.markov import RandomizedPolicy
from solvent.policy.nodes import NO_NODE, run_lookup
from solvent.policy.runs import run_bounds
from solvent.policy.table import NO_ACTION, AugmentedPolicy
from solvent.policy.writing import to_bytes

FAR = [-(2**63) + 1, -(2**62), -1, 0, 1, 2**62, 2**63 - 1]


@functools.cache
def plain_model(horizon: int) -> Any:
    return instances.random(3, 4, horizon=horizon, resources=3, branching=1, seed=1)


@functools.cache
def plain_lattice(horizon: int, n_tracked: int) -> Any:
    model = plain_model(horizon)
    limits = resolve(model, {name: 10 if i < n_tracked else None for i, name in enumerate(model.resources)})
    return Lattice.fit(model, limits), limits


class Oracle:
    """Looks up amounts in a dictionary, as the documentation of `NodeTable` defines it."""

    def __init__(self, lookup: str, low: Any, high: Any) -> None:
        self.lookup, self.low, self.high = lookup, low, high
        self.nodes: list[dict[tuple[int, tuple[int | None, ...]], int]] = [{} for _ in low]

    def key(self, step: int, state: int, ticks: Any) -> tuple[int | None, ...]:
        ends = zip(self.low[step][state].tolist(), ticks, self.high[step][state].tolist(), strict=True)
        return tuple(None if x == COLLAPSED or a <= x <= b else x for a, x, b in ends)

    def rank(self, key: tuple[int | None, ...]) -> float | int:
        if key[-1] is None:
            return -math.inf if self.lookup == "at_most" else math.inf
        return key[-1]

    def runs(self, step: int) -> dict[Any, list[tuple[float | int, int]]]:
        """Return the actions by state and all amounts but the last, in the order of the last."""
        found: dict[Any, list[tuple[float | int, int]]] = {}
        for (state, key), action in self.nodes[step].items():
            found.setdefault((state, key[:-1]), []).append((self.rank(key), action))
        return {prefix: sorted(entries) for prefix, entries in found.items()}

    def action(self, step: int, state: int, ticks: Any) -> int:
        key = self.key(step, state, ticks)
        entries, rank = self.runs(step).get((state, key[:-1]), []), self.rank(key)
        if self.lookup == "at_most":
            return next((action for at, action in entries if at >= rank), NO_ACTION)
        return next((action for at, action in reversed(entries) if at <= rank), NO_ACTION)


@st.composite
def tables(draw: Any) -> Any:
    """Draw a policy of runs and the oracle that was given the same nodes, and amounts to look up."""
    horizon, n_tracked = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    lookup = draw(st.sampled_from(["at_most", "at_least"]))
    amount = draw(st.sampled_from([st.integers(-4, 4), st.integers(0, 12), st.sampled_from(FAR)]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    kind = draw(st.sampled_from(["none", "limits", "any"]))
    low = rng.integers(-5, 5, (horizon, 3, n_tracked))
    high = low + rng.integers(-1, 5, low.shape)
    if kind == "none":
        low, high = np.ones_like(low), np.zeros_like(high)
    elif kind == "limits" and lookup == "at_most":
        low = np.full_like(low, MINUS_INFINITY)
    elif kind == "limits":
        high = np.full_like(low, PLUS_INFINITY)
    oracle = Oracle(lookup, low, high)
    # few different amounts of the other resources, so that many nodes share them
    node = st.tuples(st.integers(0, 1), st.tuples(*[st.sampled_from([-1, 6])] * (n_tracked - 1), amount))
    layers = []
    for step in range(horizon):
        given_nodes = draw(st.lists(node, max_size=40))
        for state, ticks in given_nodes:
            oracle.nodes[step].setdefault((state, oracle.key(step, state, ticks)), draw(st.integers(0, 2)))
        actions = [oracle.nodes[step][state, oracle.key(step, state, ticks)] for state, ticks in given_nodes]
        spent = np.array([ticks for _, ticks in given_nodes], np.int64).reshape(-1, n_tracked)
        layers.append(([state for state, _ in given_nodes], spent, actions))
    lattice, limits = plain_lattice(horizon, n_tracked)
    policy = AugmentedPolicy.from_nodes(
        plain_model(horizon), lattice, limits, lookup=lookup,
        layers=iter(layers), settled=None if kind == "none" else list(zip(low, high, strict=True)),
    )  # fmt: skip
    queries = draw(st.lists(node, min_size=1, max_size=30))
    queries += [(state, tuple(spent)) for states, rows, _ in layers for state, spent in zip(states, rows, strict=True)]
    return policy, oracle, queries


@draws(400)
@given(tables())
def test_look_ups_against_brute_force(case: Any) -> None:
    policy, oracle, queries = case
    states = np.array([state for state, _ in queries])
    ticks = np.array([spent for _, spent in queries], np.int64)
    for step in range(policy.horizon):
        expected = [oracle.action(step, state, spent) for state, spent in queries]
        assert [policy.action_index(step, state, list(map(int, spent))) for state, spent in queries] == expected
        assert policy.action_indices(step, states, ticks).tolist() == expected
        # amounts that are known to be settled only
        collapsed = np.array(ticks)
        collapsed[:, -1] = COLLAPSED
        expected = [oracle.action(step, state, spent) for state, spent in zip(states.tolist(), collapsed, strict=True)]
        assert policy.action_indices(step, states, collapsed).tolist() == expected


@draws(200)
@given(tables())
def test_each_node_that_is_kept_is_needed(case: Any) -> None:
    policy, oracle, _ = case
    runs = [entries for step in range(policy.horizon) for entries in oracle.runs(step).values()]
    needed = sum(1 + sum(a != b for (_, a), (_, b) in itertools.pairwise(entries)) for entries in runs)
    assert len(policy) == needed


@draws(200)
@given(tables())
def test_runs_are_saved_and_restated(case: Any) -> None:
    policy, _, _ = case
    assert from_bytes(to_bytes(policy)) == policy
    assert restate(policy, plain_model(policy.horizon)) == policy


@draws(200)
@given(tables())
def test_bounds_of_runs(case: Any) -> None:
    """A node applies to an amount if and only if it lies within the node's bounds, where settled amounts are an end."""
    policy, oracle, _ = case
    low, high = oracle.low, oracle.high
    upwards = policy.lookup == "at_most"
    if ((low <= high) & (low != MINUS_INFINITY if upwards else high != PLUS_INFINITY)).any():
        return
    for step in range(policy.horizon):
        for group in range(int(policy.step_indptr[step]), int(policy.step_indptr[step + 1])):
            state, (low_N, high_N) = int(policy.group_state[group]), run_bounds(policy, group)
            first, last = policy.node_indptr[group : group + 2].tolist()
            for node in range(first, last):
                prefix = [
                    int(x) if x != COLLAPSED else int((low if policy.lookup == "at_least" else high)[step, state, d])
                    for d, x in enumerate(policy.spent_ND[node, :-1].tolist())
                ]
                for x in range(-12, 13):
                    inside = bool(low_N[node - first] <= x <= high_N[node - first])
                    # without a collapsed node, settled amounts belong to the outermost run
                    assert (policy.node(step, state, [*prefix, x]) == node) == inside


def solved(seed: int, *, mirrored: bool = False) -> Any:
    """Return a random model with several resources, its optimal policy on all reached nodes, and the same as runs."""
    rng = random.Random(seed)
    n_resources = rng.choice([2, 2, 3])
    sign = -1 if mirrored else 1
    floor = [rng.choice([None, 0, -1]) for _ in range(n_resources)]
    ends = [{} if end is None else {"ceiling" if mirrored else "floor": sign * end} for end in floor]
    resources = [solvent.Resource(f"r{d}", **each) for d, each in enumerate(ends)]
    budget = {
        f"r{d}": solvent.Budget(**{"lower" if mirrored else "upper": [sign * rng.randint(2, 6) for _ in range(5)]})
        for d in range(n_resources)
    }
    b = solvent.CMDP.builder(horizon=5, start=0, resources=resources, budget=budget, states=range(3), actions=range(3))
    for state in range(3):
        for action in range(3):
            outcomes = [
                (0.5, rng.randrange(3), [sign * rng.choice([-1, 0, 0, 1, 2]) * (action > 0) for _ in resources])
                for _ in range(2)
            ]
            b.add(state, action, reward=rng.randint(0, 3) + 2 * action, outcomes=outcomes)
    model = b.build()
    table = solvent.solve(model, method="reduction").policy
    return model, table, as_runs(model, table)


def as_runs(model: Any, table: AugmentedPolicy) -> AugmentedPolicy:
    """Return the decisions of a table of all nodes as runs."""
    lookup = run_lookup(table.limits)
    shape = (model.n_states, len(table.resources))
    layers, settled = [], []
    for step in range(table.horizon):
        groups = slice(*table.step_indptr[step : step + 2].tolist())
        ends = table.node_indptr[groups.start : groups.stop + 1]
        nodes = slice(int(ends[0]), int(ends[-1]))
        state = np.repeat(table.group_state[groups], np.diff(ends))
        layers.append((state, table.spent_ND[nodes], table.action_N[nodes]))
        low, high = np.ones(shape, np.int64), np.zeros(shape, np.int64)
        if table.settled_low_GD is not None and table.settled_high_GD is not None:
            low[table.group_state[groups]] = table.settled_low_GD[groups]
            high[table.group_state[groups]] = table.settled_high_GD[groups]
        settled.append((low, high))
    return AugmentedPolicy.from_nodes(
        model, table, table.limits, layers=layers, settled=settled, lookup=lookup, counting=table.counting
    )


SOLVED = [(seed, mirrored) for seed in range(25) for mirrored in (False, True)]


@pytest.mark.parametrize(("seed", "mirrored"), first(8, SOLVED))
def test_runs_decide_as_the_table_does(seed: int, mirrored: bool) -> None:
    model, table, runs = solved(seed, mirrored=mirrored)
    assert runs.lookup == ("at_least" if mirrored else "at_most")
    assert len(runs) <= len(table)
    one, two = solvent.verify(model, table), solvent.verify(model, runs)
    assert two.feasible
    assert one == two
    assert solvent.simulate(model, table, 200).mean_reward == solvent.simulate(model, runs, 200).mean_reward
    for decision in table:
        if None not in decision.spent.values():
            assert runs.action(decision.step, decision.state, decision.spent) == decision.action
    assert derandomize(model, runs) == derandomize(model, table)
    rng = random.Random(seed)
    agents = [policy.agent() for policy in (table, runs)]
    while not agents[0].done:
        actions = {agent.act() for agent in agents}
        assert len(actions) == 1
        (row,) = (
            row
            for row in model.rows(agents[0].step, model.states.index(agents[0].state))
            if model.actions[model.row_action[row]] in actions
        )
        outcome = rng.choice(list(model.outcomes(row)))
        for agent in agents:
            agent.observe(outcome.next_state, outcome.cost)


@pytest.mark.parametrize(("seed", "mirrored"), first(8, SOLVED))
def test_runs_are_safe_where_the_table_never_gets(seed: int, mirrored: bool) -> None:
    """With less of the last resource spent before the first step, all limits are kept as well."""
    model, _, runs = solved(seed, mirrored=mirrored)
    name, resource = model.resources[-1], model.resource(model.resources[-1])
    seen = 0
    for less in range(1, 6):
        amount = less if mirrored else -less
        if resource.clamp(amount) == amount:
            report = solvent.verify(model, runs, spent={name: amount})
            assert report.feasible, less
            assert math.isfinite(report.value)
            seen += 1
    assert seen or resource.floor == 0 or resource.ceiling == 0


def test_unsafe_runs_would_be_found() -> None:
    """With limits on both sides, the decision for more spent is not safe for less, and `run_lookup` says so."""
    b = solvent.CMDP.builder(horizon=2, start="s", resources=["a", "x"])
    b.add("s", "toss", outcomes=[(0.5, "s", [0, 0]), (0.5, "s", [0, 2])], steps=[0])
    b.add("s", "up", outcomes=[(1, "s", [1, 1])], steps=[1])
    b.add("s", "down", outcomes=[(1, "s", [1, -1])], steps=[1])
    model = b.build()
    budget = {"a": 1, "x": solvent.Budget(upper=[None, 1], lower=[None, 1])}
    table = solvent.solve(model, budget, method="reduction", prune=False).policy
    assert run_lookup(table.limits) == "equal"
    assert len(table) == 3
    layers = [([0], [[0, 0]], [0]), ([0], [[0, 2]], [model.action_index("down")])]
    runs = AugmentedPolicy.from_nodes(model, table, table.limits, layers=layers, lookup="at_most")
    assert not solvent.verify(model, runs).feasible


@pytest.mark.parametrize(("seed", "mirrored"), first(8, SOLVED[:30]))
def test_plans_of_runs(seed: int, mirrored: bool) -> None:
    """Rows apply to the amounts that they name, whichever resource is merged."""
    model, table, runs = solved(seed, mirrored=mirrored)
    values = {row.value for row in table.table()} - {None}
    for resource in runs.resources:
        rows = runs.table(resource=resource)
        assert sum(row.nodes for row in rows) == len(runs)
        assert {end for row in rows for end in row.value or ()} <= {end for pair in values for end in pair}
        for row in rows:
            some = []
            for name, (low, high) in row.spent.items():
                begin = high - 3 if low is None and high is not None else low if low is not None else 0
                ends = [begin, begin + 3 if high is None else high]
                some.append([model.resource(name).clamp(end) for end in ends])
            for spent in itertools.product(*some):
                assert str(runs.action(row.step, row.state, list(spent))) == row.action_text
        for decision in runs:
            if None not in decision.spent.values():
                matching = [row for row in rows if _applies(row, decision)]
                assert [row.action_text for row in matching] == [str(decision.action)]


def _applies(row: Any, decision: Any) -> bool:
    inside = [
        (low is None or low <= decision.spent[name]) and (high is None or decision.spent[name] <= high)
        for name, (low, high) in row.spent.items()
    ]
    return (row.step, row.state) == (decision.step, decision.state) and all(inside)


def van() -> tuple[Any, Any, Any]:
    b = solvent.CMDP.builder(horizon=1, start="home", resources=["fuel", "time"])
    b.add("home", "go", outcomes=[(1, "home", {"fuel": "1/2", "time": "1/2"})])
    b.add("home", "wait", outcomes=[(1, "home", 0)])
    model = b.build()
    limits = resolve(model, {"fuel": 9, "time": 9})
    return model, Lattice.fit(model, limits), limits


def test_messages_name_the_runs() -> None:
    model, lattice, limits = van()
    nodes = [([0] * 4, [[1, 1], [1, 4], [2, COLLAPSED], [2, 3]], [0, 1, 0, 1])]
    settled = [(np.array([[0, -9], [0, 0]]), np.array([[-1, -1], [-1, -1]]))]
    for lookup, message, known in (
        ("at_most", "fuel 0.5, time at most 2 or fuel 1, time at most 1.5", ["0.75", "0.25"]),
        ("at_least", "fuel 0.5, time at least 0.5 or fuel 1, time at least 1.5", ["0.75", "2"]),
    ):
        policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=nodes, settled=settled, lookup=lookup)
        assert len(policy) == 4
        with pytest.raises(PolicyError, match=f"expected to have spent {message}, found an amount that the policy"):
            policy.action(0, "home", ["1/2", 9 if lookup == "at_most" else "1/4"])
        with pytest.raises(PolicyError, match=r"expected fuel in whole multiples of 0\.5, found 0\.75"):
            policy.action(0, "home", ["3/4", 1])
        assert [policy.action(0, "home", ["1/2", x]) for x in known] == [
            "wait" if lookup == "at_most" else "go", "go" if lookup == "at_most" else "wait"
        ]  # fmt: skip


def test_without_resources_there_are_no_runs() -> None:
    model = instances.random(2, 2, horizon=1, resources=1, branching=1, seed=1)
    limits = resolve(model, {model.resources[0]: None})
    lattice = Lattice.fit(model, limits)
    with pytest.raises(PolicyError, match="lookup: expected 'equal' where no resource is tracked, found 'at_most'"):
        AugmentedPolicy.from_nodes(model, lattice, limits, layers=[([0], [[]], [0])], lookup="at_most")
    assert run_lookup(limits) == "equal"


def test_randomized_runs() -> None:
    model, lattice, limits = van()
    layers = [([0, 0, 0], [[0, 4], [0, 4], [0, 9]], [0, 1, 1], [0.25, 0.75, 1.0])]
    policy = RandomizedPolicy.from_nodes(model, lattice, limits, layers=layers, lookup="at_most")
    assert policy.probabilities(0, "home", [0, 1]) == {"go": 0.25, "wait": 0.75}
    assert policy.probabilities(0, "home", [0, "2.25"]) == {"wait": 1.0}
    assert policy.node(0, 0, [0, 10]) == NO_NODE
    assert [row.action_text for row in policy.table()] == ["go (0.25), wait (0.75)", "wait"]


@pytest.mark.slow
def test_a_policy_of_millions_of_nodes_is_small() -> None:
    """Actions change along diagonals: one node for each amount of the first resource and each band."""
    n, bands = 1500, 4
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["a", "b"], budget={"a": n, "b": n})
    for action in range(bands):
        b.add(0, action, outcomes=[(1, 0, [1, action])])
    model = b.build()
    lattice, limits = Lattice.fit(model, resolve(model, None)), resolve(model, None)

    def layers() -> Any:
        for size in (10, n):
            a, x = (axis.ravel() for axis in np.meshgrid(np.arange(size), np.arange(size), indexing="ij"))
            yield np.zeros(len(a), np.int32), np.column_stack([a, x]), (a + x) * bands // (2 * n)

    table = AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers())
    runs = AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers(), lookup="at_most")
    assert len(table) == n * n + 100
    assert len(runs) < 3.1 * n
    assert len(to_bytes(runs)) < len(to_bytes(table)) / 50
    rng = np.random.default_rng(1)
    ticks = rng.integers(0, n, (100_000, 2))
    states = np.zeros(len(ticks), np.int64)
    assert (runs.action_indices(1, states, ticks) == table.action_indices(1, states, ticks)).all()


@pytest.mark.parametrize("kind", ["exact", "rounded", "randomized"])
def test_random_policies_of_runs_are_verified_as_their_decisions_say(kind: str) -> None:
    """`verify` merges settled amounts and looks up many nodes at once; a function is asked one node at a time."""
    for seed in range(12):
        case = accounts.random_case(seed)
        if len(case.model.resources) < 2:
            continue
        policy: Any = accounts.KINDS[kind](case, seed)
        rng = np.random.default_rng(seed)
        layers = []
        for step in range(policy.horizon):
            groups = slice(*policy.step_indptr[step : step + 2].tolist())
            ends = policy.node_indptr[groups.start : groups.stop + 1]
            nodes = slice(int(ends[0]), int(ends[-1]))
            state, spent = np.repeat(policy.group_state[groups], np.diff(ends)), policy.spent_ND[nodes].copy()
            layers.append((state, spent, rng.integers(0, 2, len(state)), np.ones(len(state))))
        settled = [
            (np.full((case.model.n_states, 2), MINUS_INFINITY), rng.integers(-3, 3, (case.model.n_states, 2)))
            for _ in range(policy.horizon)
        ]
        layers = [(*layer[:2], (layer[1] > settled[h][1][layer[0]]).sum(1) % 2) for h, layer in enumerate(layers)]
        runs = AugmentedPolicy.from_nodes(
            case.model, policy, policy.limits, layers=layers, settled=settled, lookup="at_most",
            counting=policy.counting,
        )  # fmt: skip
        plain = solvent.verify(case.model, runs)
        again = solvent.verify(case.model, _without_settled(case.model, runs))
        assert plain.value == pytest.approx(again.value)
        assert plain.worst_spent_by_step == again.worst_spent_by_step
        assert plain.violation_probability == pytest.approx(again.violation_probability)


def _without_settled(model: Any, runs: AugmentedPolicy) -> AugmentedPolicy:
    """Return the decisions of runs at all amounts around them as a table of all nodes."""
    box = list(itertools.product(range(-25, 26), repeat=len(runs.resources)))
    layers = []
    for step in range(runs.horizon):
        states = np.repeat(np.arange(model.n_states), len(box))
        spent = np.array(box * model.n_states, np.int64)
        actions = runs.action_indices(step, states, spent)
        layers.append((states[actions >= 0], spent[actions >= 0], actions[actions >= 0]))
    return AugmentedPolicy.from_nodes(model, runs, runs.limits, layers=layers, counting=runs.counting)
