"""Look-ups in augmented policies compared with a dictionary, and their public methods."""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from effort import draws
from solvent.errors import PolicyError, SolventError
from solvent.model import instances
from solvent.model.budget import Limits, resolve
from solvent.model.lattice import Lattice
from solvent.policy.search import compact, count_below, find, pack
from solvent.policy.table import COLLAPSED, NO_ACTION, AugmentedPolicy, Decision

BIG = 2**62


@functools.cache
def model_of(n_states: int, n_actions: int, horizon: int, n_resources: int):
    return instances.random(n_states, n_actions, horizon=horizon, resources=n_resources, branching=1, seed=1)


@functools.cache
def lattice_of(model, n_tracked: int):
    limits = resolve(model, {name: 10 if i < n_tracked else None for i, name in enumerate(model.resources)})
    return Lattice.fit(model, limits), limits


@st.composite
def tables(draw):
    """Draw nodes with actions, as a dictionary and in random order; some amounts are too far apart for dense tables."""
    n_tracked, horizon = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    n_states, n_actions = draw(st.integers(1, 5)), draw(st.sampled_from([1, 3, 300]))
    ticks = draw(st.sampled_from([st.integers(-4, 4), st.sampled_from([-BIG, -BIG + 1, -1, 0, 1, BIG])]))
    node = st.tuples(st.integers(0, n_states - 1), st.tuples(*[ticks] * n_tracked))
    action = st.integers(0, n_actions - 1)
    layers = [draw(st.dictionaries(node, action, max_size=30)) for _ in range(horizon)]
    order = [draw(st.permutations(list(layer.items()))) for layer in layers]
    queries = draw(st.lists(node, min_size=1, max_size=20))
    return model_of(n_states, n_actions, horizon, 3), n_tracked, layers, order, queries


def columns(items, n_tracked):
    return (
        np.array([state for (state, _), _ in items], int),
        np.array([ticks for (_, ticks), _ in items], np.int64).reshape(len(items), n_tracked),
        np.array([action for _, action in items], int),
    )


def both_ways(policy, step, queries, n_tracked):
    """Look up many nodes at once and one by one, and compare."""
    states = np.array([state for state, _ in queries])
    ticks = np.array([t for _, t in queries], np.int64).reshape(len(queries), n_tracked)
    many = policy.action_indices(step, states, ticks).tolist()
    assert many == [policy.action_index(step, state, list(t)) for state, t in queries]
    return many


@draws(120)
@given(tables())
def test_equal_lookups(case):
    model, n_tracked, layers, order, queries = case
    lattice, limits = lattice_of(model, n_tracked)
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=[columns(items, n_tracked) for items in order])
    assert len(policy) == sum(map(len, layers))
    for step, layer in enumerate(layers):
        asked = [*layer, *queries]
        assert both_ways(policy, step, asked, n_tracked) == [layer.get(node, NO_ACTION) for node in asked]
    listed = {(d.step, d.state, tuple(d.spent.values())): d.action for d in policy}
    assert listed == {
        (step, state, tuple(t * u for t, u in zip(ticks, lattice.units, strict=True))): action
        for step, layer in enumerate(layers)
        for (state, ticks), action in layer.items()
    }


@draws(100)
@given(tables(), st.integers(0, 10**6))
def test_settled_lookups(case, seed):
    model, n_tracked, layers, order, queries = case
    lattice, limits = lattice_of(model, n_tracked)
    rng = np.random.default_rng(seed)
    low = rng.integers(-5, 5, (len(layers), model.n_states, n_tracked))
    high = low + rng.integers(-1, 5, low.shape)

    def key(step, node):
        state, ticks = node
        inside = [a <= t <= b for a, t, b in zip(low[step, state], ticks, high[step, state], strict=True)]
        return state, tuple(None if i else t for i, t in zip(inside, ticks, strict=True))

    oracle = [{key(step, node): a for node, a in layer.items()} for step, layer in enumerate(layers)]
    agreed = [[(node, oracle[step][key(step, node)]) for node, _ in items] for step, items in enumerate(order)]
    policy = AugmentedPolicy.from_nodes(
        model,
        lattice,
        limits,
        layers=[columns(items, n_tracked) for items in agreed],
        settled=list(zip(low, high, strict=True)),
    )
    assert len(policy) == sum(map(len, oracle))
    for step, layer in enumerate(layers):
        asked = [*layer, *queries]
        expected = [oracle[step].get(key(step, node), NO_ACTION) for node in asked]
        assert both_ways(policy, step, asked, n_tracked) == expected
    assert sum(None in d.spent.values() for d in policy) == sum(None in k[1] for layer in oracle for k in layer)


@draws(100)
@given(tables(), st.sampled_from(["at_most", "at_least"]), st.lists(st.integers(-6, 6), min_size=1))
def test_nearest_lookups(case, lookup, amounts):
    model, _, layers, _, _ = case
    layers = [{(state, ticks[:1] or (0,)): a for (state, ticks), a in layer.items()} for layer in layers]
    lattice, limits = lattice_of(model, 1)
    policy = AugmentedPolicy.from_nodes(
        model, lattice, limits, layers=[columns(list(layer.items()), 1) for layer in layers], lookup=lookup
    )
    for step, layer in enumerate(layers):
        asked = [*layer, *((state, (t,)) for state in range(model.n_states) for t in amounts)]
        expected = []
        for state, (t,) in asked:
            known = sorted((u, a) for (s, (u,)), a in layer.items() if s == state)
            fits = [a for u, a in known if u >= t] if lookup == "at_most" else [a for u, a in known if u <= t][::-1]
            expected.append(fits[0] if fits else NO_ACTION)
        assert both_ways(policy, step, asked, 1) == expected


@given(st.lists(st.integers(-20, 20)), st.lists(st.integers(-25, 25), max_size=200))
def test_searches(values, queries):
    values, queries = np.unique(np.array(values, np.int64)), np.array(queries, np.int64)
    assert count_below(values, queries).tolist() == np.searchsorted(values, queries).tolist()
    expected = [values.tolist().index(q) if q in values else -1 for q in queries]
    assert find(values, queries).tolist() == expected
    found, position = compact(queries)
    assert found.tolist() == sorted(set(queries.tolist()))
    assert found[position].tolist() == queries.tolist()


@given(st.lists(st.tuples(*[st.sampled_from([-BIG, -1, 0, 3, BIG, 2**70, -(2**80)])] * 3), min_size=1), st.booleans())
def test_packing_keeps_rows_distinct_and_in_order(rows, wide):
    if not wide:
        rows = [tuple(x % 2**62 - 2**61 for x in row) for row in rows]
    packed = pack([np.array(column, object if wide else np.int64) for column in zip(*rows, strict=True)])
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            assert (packed[i] < packed[j]) == (a < b)


def van():
    b = solvent.CMDP.builder(horizon=2, start="home", resources=["fuel", "noise", "time"])
    b.add("home", "go", outcomes=[(1, "away", {"fuel": "1/2", "time": 3})])
    b.add("away", "wait", outcomes=[(1, "away", {"time": 1})])
    b.add("away", "go", outcomes=[(1, "home", {"fuel": "1/2"})])
    model = b.build()
    limits = resolve(model, {"fuel": 1, "noise": None, "time": 9})
    lattice = Lattice.fit(model, limits)
    home, away = model.state_index("home"), model.state_index("away")
    go = model.action_index("go")
    layers = [([home], [[0, 0]], [go]), ([away], [[1, 3]], [go])]
    return model, lattice, limits, layers


def test_names():
    model, lattice, limits, layers = van()
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers)
    assert policy.action(1, "away", {"fuel": 0.5, "time": 3, "noise": 7}) == "go"
    assert policy.action(1, "away", ["1/2", 3]) == "go"
    assert list(policy)[1] == Decision(1, "away", {"fuel": Fraction(1, 2), "time": Fraction(3)}, "go")
    assert repr(policy) == "AugmentedPolicy(2 nodes over 2 steps, tracking fuel, time)"
    assert policy.covers(0, "home")
    assert not policy.covers(0, "away")
    assert policy.spent_ND.nbytes + policy.action_N.nbytes <= 2 * 17
    with pytest.raises(ValueError, match="read-only"):
        policy.action_N[0] = 1


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ((1, "away", [0, 3]), "step 1, state 'away', spent fuel 0, time 3: expected to have spent fuel 0.5, time 3"),
        ((1, "away", ["1/3", 3]), "expected fuel in whole multiples of 0.5, found 1/3"),
        (
            (0, "away", [0, 0]),
            "step 0, state 'away', .*a state for which the policy has a decision at this step, found one that",
        ),
        ((2, "away", [0, 0]), "step: expected a step from 0 to 1, found 2"),
        ((0, "homee", [0, 0]), "state: expected a state of the policy's model, found 'homee'; did you mean 'home'?"),
        ((0, "home", 0), "spent: expected amounts of 'fuel', 'time', by name or in this order, found 0"),
        ((0, "home", {"fuel": 0}), "spent: expected an amount of 'time'"),
    ],
)
def test_missing_decisions(query, message):
    model, lattice, limits, layers = van()
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers)
    with pytest.raises(PolicyError, match=message):
        policy.action(*query)


def test_nearest_lookups_accept_amounts_between_ticks():
    model = instances.knapsack([1, 1], [2, 2], capacity=4)
    limits = resolve(model, None)
    lattice = Lattice.fit(model, limits)
    layers = [([0], [[0]], [1]), ([0, 0], [[1], [2]], [1, 0])]
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers, lookup="at_most")
    assert [policy.action(1, "knapsack", x) for x in (-5, 2, "2.1", 4)] == ["take", "take", "leave", "leave"]
    with pytest.raises(PolicyError, match="expected to have spent at most 4"):
        policy.action(1, "knapsack", 4.5)


def test_wrong_layers_are_refused():
    model, lattice, limits, layers = van()
    wrong = [
        ([layers[0]], None, "equal", "layers: expected 2, one per step, found 1"),
        ([([0, 0], [[0, 0], [0, 0]], [0, 1]), layers[1]], None, "equal", "step 0, state 'home': expected one action"),
        ([([0], [[0, 0]], [9]), layers[1]], None, "equal", "step 0: expected actions from 0 to 1"),
        ([*layers, layers[1]], None, "equal", "layers: expected 2, one per step, found more"),
    ]
    for given_layers, settled, lookup, message in wrong:
        with pytest.raises(PolicyError, match=message):
            AugmentedPolicy.from_nodes(model, lattice, limits, layers=given_layers, settled=settled, lookup=lookup)


def test_actions_beyond_a_byte():
    model = model_of(2, 300, 1, 1)
    lattice, limits = lattice_of(model, 1)
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=[([0, 1], [[0], [0]], [299, 255])])
    assert policy.action_N.dtype == np.uint16
    assert policy.action(0, 0, 0) == 299


def test_equality():
    model, lattice, limits, layers = van()
    first, second = (AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers) for _ in range(2))
    other = AugmentedPolicy.from_nodes(model, lattice, limits, layers=[layers[0], ([1], [[1, 3]], [1])])
    assert first == second
    assert hash(first) == hash(second)
    assert first != other
    assert first != Limits((), (), ())


def test_frames():
    model, lattice, limits, layers = van()
    low, high = np.array([[0, 0], [1, 0]]), np.array([[-1, -1], [1, -1]])
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers, settled=[(low, high)] * 2)
    assert policy.spent_ND.tolist() == [[0, 0], [COLLAPSED, 3]]
    try:
        import pandas as pd
    except ImportError:
        with pytest.raises(SolventError, match="to_frame: expected pandas"):
            policy.to_frame()
        return
    frame = policy.to_frame()
    assert frame.columns.tolist() == ["step", "state", "spent_fuel", "spent_time", "action"]
    assert frame["action"].tolist() == ["go", "go"]
    assert frame["spent_time"].tolist() == [0, 3]
    assert pd.isna(frame["spent_fuel"][1])
    grid = instances.fuel_grid(2, horizon=1)
    lattice, limits = lattice_of(grid, 1)
    assert AugmentedPolicy.from_nodes(grid, lattice, limits, layers=[([0], [[0]], [0])]).to_frame()["state"][0] == (
        0,
        0,
    )
