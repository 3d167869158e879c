"""Frontiers: one resource, limits on one side, the value as a step function of the amount left."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from test_methods import check, run

import catalog
import oracle
import strategies
from effort import draws, seeds
from solvent.core.jit import compiled_kernels
from solvent.core.limits import ResourceMonitor
from solvent.core.progress import CallbackProgress
from solvent.errors import ModelError
from solvent.model import instances
from solvent.model.budget import Budget, resolve
from solvent.model.cmdp import CMDP
from solvent.model.resources import Resource
from solvent.solvers.frontier import arrays, points
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.following import follow_policy
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.problem import Problem
from solvent.solvers.solve import solve
from solvent.verification.verify import verify

BOTH = pytest.mark.parametrize("method", ["frontier", "points"])


def mirrored(model):
    """Return the model with the sign of every cost changed."""
    return replace(model, cost=tuple(replace(column, ticks=-column.ticks) for column in model.cost))


def one_state(horizon, *actions):
    """A model of one state with actions of (reward, cost)."""
    b = CMDP.builder(horizon=horizon, start=0, resources=["x"])
    for i, (reward, cost) in enumerate(actions):
        b.add(0, i, reward=reward, outcomes=[(1, 0, cost)])
    return b.build()


def test_it_refuses_lower_and_upper_limits():
    model = catalog.tenths(3, 1, None)
    with pytest.raises(ModelError, match=r"both lower and upper limits of money.*use method=.auto."):
        solve(model, Budget(upper=3, lower=0), method="frontier")
    with pytest.raises(ModelError, match="limits on one side"):
        solve(model, Budget(upper=[3, None, None], lower=[None, None, 0]), method="frontier")


def test_it_refuses_several_limited_resources():
    model = instances.partition([1, 1])
    with pytest.raises(ModelError, match=r"expected one limited resource.*found 2 limited resources \(left, right\)"):
        solve(model, method="frontier")


def test_it_refuses_when_nothing_is_limited():
    with pytest.raises(ModelError, match=r"expected one limited resource.*found 0 limited resources"):
        solve(catalog.tenths(3, 1, None), {"money": None}, method="frontier")


def test_it_takes_several_resources_if_one_is_limited():
    solution = solve(instances.partition([3, 1, 1]), {"left": 2, "right": None}, method="frontier")
    assert solution.value == 1
    assert solution.worst_spent["left"] <= 2


def test_auto_takes_what_fits():
    assert solve(instances.knapsack([1], [1], 1)).method == "labels"
    assert solve(instances.fuel_grid(3)).method in ("frontier", "reduction")
    assert solve(instances.partition([1, 1])).method == "labels"
    assert solve(instances.fuel_grid(3), Budget(upper=12, lower=0)).method == "grid"


@given(strategies.models(min_resources=1, max_resources=1), st.data())
@draws(60)
def test_lower_limits_are_upper_limits_of_the_mirrored_problem(model, data):
    lower = data.draw(st.one_of(strategies.side(model.horizon), strategies.limits))
    upper = [None if x is None else -x for x in lower] if isinstance(lower, list) else -lower
    expected = solve(model, Budget(lower=lower), method="reduction")
    event(expected.status.value)
    mirror = solve(mirrored(model), Budget(upper=upper), method="reduction")
    assert mirror.value == pytest.approx(expected.value, rel=1e-9, abs=1e-9)
    if all(x is None for x in (lower if isinstance(lower, list) else [lower])):
        return
    for method in ("frontier", "points"):
        assert run(method, model, Budget(lower=lower)).value == pytest.approx(expected.value, rel=1e-9, abs=1e-9)


@BOTH
@pytest.mark.parametrize("kind", ["number", "upper", "lower", "final", "final_lower"])
def test_each_kind_of_limit(kind, method):
    @given(strategies.one_sided_problems(kind))
    @draws(25)
    def agree(tiny):
        check(tiny.model, tiny.budget, run(method, tiny.model, tiny.budget), oracle.optimum(tiny.model, tiny.budget))

    agree()


@BOTH
@pytest.mark.parametrize(
    ("model", "budget", "value"),
    [
        pytest.param(one_state(2, (0, 0)), Budget(upper=[0, None]), 0, id="free"),
        pytest.param(one_state(2, (1, -1)), Budget(upper=[0, None]), 2, id="negative cost at the open step"),
        pytest.param(one_state(3, (1, 1), (0, -1)), Budget(upper=[1, None, None]), 3, id="two open steps"),
        pytest.param(one_state(4, (0, 0), (1, 1)), Budget(lower=[None, None, 0, None]), 4, id="lower"),
        pytest.param(one_state(3, (1, 2), (0, 0)), Budget(upper=[None, 2, None]), 2, id="open on both ends"),
    ],
)
def test_limits_that_end_before_the_last_step(model, budget, value, method):
    check(model, budget, run(method, model, budget), value)


@BOTH
def test_a_state_that_ends_the_episode_after_the_last_limit(method):
    b = CMDP.builder(horizon=3, start=0, resources=["x"])
    b.add(0, "stay", reward=1, outcomes=[(1, 0, 1)])
    b.add(0, "leave", reward=5, outcomes=[(0.5, "out", -1), (0.5, "out", 2)])
    b.terminal("out")
    model = b.build()
    check(model, Budget(upper=[1, None, None]), run(method, model, Budget(upper=[1, None, None])), 7)


CURVES = {
    "knapsack": (instances.knapsack([6, 10, 12, 1], [1, 2, 3, Fraction(1, 2)]), range(-1, 9), 2),
    "negative costs": (instances.knapsack([-3, 10, 12, 1], [-2, 2, 3, 1]), range(-4, 8), 1),
    "refueling": (instances.fuel_grid(2, horizon=6), range(-4, 16), 1),
    "random": (
        instances.random(3, 3, horizon=4, branching=2, cost_range=(-2, 3), stationary=False, seed=1),
        range(-4, 12),
        1,
    ),
    "gloom": (catalog.gloom(), range(-1, 8), 1),
    "ends": (catalog.shrinking(), range(-7, 10), 1),
    "covering": (catalog.covering(), range(-6, 3), 1),
    "doubles": (catalog.doubles(2), range(-4, 12), 3),
}


def final_lower(limit):
    return Budget.final(lower=limit)


@cache
def expected_curve(name, form):
    model, numerators, denominator = CURVES[name]
    return [float(oracle.optimum(model, form(Fraction(numerator, denominator)), float)) for numerator in numerators]


def found_curve(name, form, method):
    model, numerators, denominator = CURVES[name]
    return [run(method, model, form(Fraction(numerator, denominator))).value for numerator in numerators]


@BOTH
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("form", [Fraction, Budget.final])
def test_more_budget_is_never_worth_less(name, form, method):
    values = found_curve(name, form, method)
    assert values == pytest.approx(expected_curve(name, form), rel=1e-9, abs=1e-12)
    assert all(less <= more + 1e-9 for less, more in pairwise(values))
    assert len(set(values)) > 2


@BOTH
@pytest.mark.parametrize("name", CURVES)
def test_asking_for_more_is_never_worth_more(name, method):
    values = found_curve(name, final_lower, method)
    assert values == pytest.approx(expected_curve(name, final_lower), rel=1e-9, abs=1e-12)
    assert all(more >= less - 1e-9 for more, less in pairwise(values))


def knapsack_by_table(values, weights, capacity):
    best = [0.0] * (capacity + 1)
    for value, weight in zip(values, weights, strict=True):
        best = [
            max(best[room], value + best[room - weight]) if weight <= room else best[room]
            for room in range(capacity + 1)
        ]
    return best[capacity]


@BOTH
@pytest.mark.parametrize("seed", [0, 1])
def test_the_papers_family_at_length(seed, method):
    model = instances.paper(60, seed=seed, budget=6, digits=3)
    rows = [list(model.rows(step, 0))[-1] for step in range(60)]
    weights = [int(1000 * model.outcomes(row)[0].cost["cost"]) for row in rows]
    rewards = [float(model.row_reward[row]) for row in rows]
    solution = run(method, model)
    assert solution.value == pytest.approx(knapsack_by_table(rewards, weights, 6000), rel=1e-9)
    assert solution.worst_spent["cost"] <= 6


def test_real_costs_at_length():
    exact = solve(instances.paper(100, seed=3, budget=10))
    coarse = solve(instances.paper(100, seed=3, budget=10, digits=4))
    assert exact.status == "optimal"
    assert exact.value <= coarse.value <= exact.value * 1.01
    assert exact.worst_spent["cost"] <= 10


def test_rounding_errors_do_not_create_points():
    """Sums of tenths depend on their order in the last bits; equal values must stay one point."""
    tenths = [1 + i % 3 for i in range(30)]
    weights = [1 + Fraction(i * i % 31, 2**50) for i in range(30)]
    solution = run("points", instances.knapsack([tenth / 10 for tenth in tenths], weights, 20))
    for step, size in enumerate(solution.stats.layer_sizes):
        assert size <= 1 + sum(tenths[step:])


@pytest.mark.parametrize(
    ("parallel_from", "at_once"), [(0, 2**20), (10**9, 0), (10**9, 200), (60, 150), (10**9, 2**20)]
)
def test_all_ways_to_sweep_agree(monkeypatch, parallel_from, at_once):
    """Many steps in one call, one by one, or on all cores."""
    model = instances.fuel_grid(4, horizon=14, tank=9)
    problem = Problem.exact(model, resolve(model, None))
    resource = SingleResource.of(problem.lattice)

    def found(monitor, *, as_arrays):
        return build(FrontierBounds.at_start(model, resource, monitor), monitor, arrays=as_arrays)

    points = found(ResourceMonitor(), as_arrays=False)
    usual = found(ResourceMonitor(), as_arrays=True)
    monkeypatch.setattr(arrays, "_PARALLEL_FROM", parallel_from)
    monkeypatch.setattr(arrays, "_SWEPT_AT_ONCE", at_once)
    watched = ResourceMonitor(sink=CallbackProgress(lambda *_: None))
    for monitor in (ResourceMonitor(), watched):
        swept = found(monitor, as_arrays=True)
        assert swept.value(0) == pytest.approx(points.value(0), rel=1e-12)
        assert swept.start_need.tolist() == points.start_need.tolist()
        for mine, theirs in zip((*swept.points, swept.start_value), (*usual.points, usual.start_value), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        # memory that stays reserved: four bounds per step and state, where points begin, and the points
        bounds = 4 * 8 * (model.horizon + 1) * model.n_states
        assert monitor.used == bounds + swept.points.indptr_HS.nbytes + 12 * len(swept.points.need)


def random_grid(rng, horizon=9):
    """Return a model in which much stays the same from step to step: free rests, refills, and states without reward."""
    n_states = int(rng.integers(2, 5))
    tank = Resource("x", floor=0) if rng.random() < 0.5 else "x"
    ends = {0: 2.0} if rng.random() < 0.3 else None
    budget = int(rng.integers(0, 25))
    b = CMDP.builder(horizon=horizon, start=0, resources=[tank], budget=budget, end_reward=ends)
    changes = int(rng.integers(1, horizon))  # the step from which on rewards differ
    for state in range(n_states):
        if state and rng.random() < 0.2:
            b.terminal(state)
            continue
        for action in range(int(rng.integers(1, 4))):
            after, cost = rng.integers(0, n_states, 2), rng.integers(-12 if rng.random() < 0.2 else 0, 9, 2)
            outcomes = [(Fraction(k + 1, 3), int(s), int(c)) for k, (s, c) in enumerate(zip(after, cost, strict=True))]
            reward = int(rng.integers(-1, 4)) if rng.random() < 0.4 else 0
            b.add(state, action, reward=reward, outcomes=outcomes, steps=range(changes))
            b.add(state, action, reward=reward // 2, outcomes=outcomes, steps=range(changes, horizon))
        if rng.random() < 0.7:
            b.add(state, "rest", outcomes=[(1, state)])
    return b.build()


@pytest.mark.parametrize("seed", seeds(120))
def test_arrays_leave_out_nothing_that_changes(seed, monkeypatch):
    """Amounts beyond the last change, states whose values repeat, and reads beyond an array, against brute force."""
    model = random_grid(np.random.default_rng(seed))
    problem = Problem.exact(model, resolve(model, None))
    resource = SingleResource.of(problem.lattice)
    found = []
    for padding in (0, 1, 8):
        monkeypatch.setattr(arrays, "_PADDING", padding)
        bounds = FrontierBounds.at_start(problem.model, resource, ResourceMonitor())
        found.append(build(bounds, ResourceMonitor(), arrays=True))
    expected = float(oracle.optimum(model))
    assert found[0].value(resource.initial_left) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    for other in found[1:]:
        for mine, theirs in zip(
            (*other.points, other.start_value), (*found[0].points, found[0].start_value), strict=True
        ):
            np.testing.assert_array_equal(mine, theirs)
    bounds = FrontierBounds(problem.model, resource, ResourceMonitor(), None, resource.initial_left)
    swept, merged = (build(bounds, ResourceMonitor(), arrays=as_arrays) for as_arrays in (True, False))
    assert swept.start_need.tolist() == merged.start_need.tolist()
    np.testing.assert_allclose(swept.start_value, merged.start_value, rtol=1e-12)
    for name in ("top", "bottom", "reward"):
        np.testing.assert_allclose(getattr(swept.extremes, name), getattr(merged.extremes, name), rtol=1e-12)


def test_a_row_that_only_one_of_two_steps_can_afford():
    """The shop has the same rows and the same next state at steps 1 and 2, but less is left at step 2."""
    b = CMDP.builder(horizon=6, start="start", resources=["x"])
    b.add("start", "direct", outcomes=[(1, "shop")])
    b.add("start", "detour", outcomes=[(1, "hill", 7)])
    b.add("hill", "down", outcomes=[(1, "shop")])
    b.add("shop", "pass", outcomes=[(1, "home")])
    b.add("shop", "buy", reward=1, outcomes=[(1, "home", 5)])
    b.add("home", "rest", outcomes=[(1, "home")])
    model = b.build()
    resource = SingleResource(np.array([0, 7, 0, 0, 5, 0]), np.zeros(6, np.int64))
    bounds = FrontierBounds(model, resource, ResourceMonitor(), None, 10)
    for as_arrays in (True, False):
        found = build(bounds, ResourceMonitor(), arrays=as_arrays)
        assert found.start_need.tolist() == [0, 5]
        assert found.start_value.tolist() == [0, 1]


@pytest.mark.parametrize("meet_from", [0, 1, 3])
@pytest.mark.parametrize("seed", seeds(80))
def test_amounts_that_are_enumerated_forward_have_their_values(seed, meet_from, monkeypatch):
    """Points meet enumerated amounts at any step; the policy attains the value and its worst case is exact."""
    monkeypatch.setattr(points, "MEET_FROM", meet_from)
    model = random_grid(np.random.default_rng(seed), horizon=6)
    problem = Problem.exact(model, resolve(model, None))
    resource = SingleResource.of(problem.lattice)
    bounds = FrontierBounds.at_start(problem.model, resource, ResourceMonitor())
    monitor = ResourceMonitor()
    found = build(bounds, monitor, arrays=False)
    assert found.value(resource.initial_left) == pytest.approx(float(oracle.optimum(model)), rel=1e-12, abs=1e-12)
    # only the points stay in memory; their arrays may have space for more
    assert monitor.used >= found.points.indptr_HS.nbytes + 12 * len(found.points.need)
    bounds.has_one_start = False
    everything = build(bounds, ResourceMonitor(), arrays=False)
    assert found.value(resource.initial_left) == everything.value(resource.initial_left)
    if found.value(resource.initial_left) > -np.inf:
        solution = run("points", model)
        report = verify(model, solution.policy)
        assert report.feasible
        assert report.value == pytest.approx(solution.value)
        assert report.worst_spent == solution.worst_spent


def test_few_amounts_are_reached_from_one_start():
    """With real costs, the first steps have many points, but few amounts can be left."""
    options = {"horizon": 10, "branching": 3, "cost_range": (0, 5), "real_costs": True, "seed": 1}
    least = solve(instances.random(10, 3, **options), 0).diagnosis.least_budget["r0"]
    model = instances.random(10, 3, budget=least * Fraction(101, 100), **options)
    resource = SingleResource.of(Problem.exact(model, resolve(model, None)).lattice)
    bounds = FrontierBounds.at_start(model, resource, ResourceMonitor())
    found = build(bounds, ResourceMonitor(), arrays=False)
    bounds.has_one_start = False
    everything = build(bounds, ResourceMonitor(), arrays=False)
    assert found.value(resource.initial_left) == everything.value(resource.initial_left)
    assert 2 * sum(found.layer_sizes) < sum(everything.layer_sizes)


@pytest.mark.parametrize("as_arrays", [False, True])
def test_parts_are_pickled(as_arrays):
    """So that the bounds, or a frontier, can be sent to another process."""
    model = instances.fuel_grid(4, horizon=14, tank=9)
    resource = SingleResource.of(Problem.exact(model, resolve(model, None)).lattice)
    bounds = FrontierBounds.at_start(model, resource, ResourceMonitor())
    frontier = build(bounds, ResourceMonitor(), arrays=as_arrays)
    before = len(compiled_kernels())
    copy = build(pickle.loads(pickle.dumps(bounds)), ResourceMonitor(), arrays=as_arrays)
    assert len(compiled_kernels()) == before  # a copy has arrays of the same types
    for other in (copy, pickle.loads(pickle.dumps(frontier))):
        assert type(other.points) is type(frontier.points)
        for mine, theirs in zip(
            (*other.points, other.start_value), (*frontier.points, frontier.start_value), strict=True
        ):
            np.testing.assert_array_equal(mine, theirs)
        assert other.value(0) == frontier.value(0)
        assert other.layer_sizes == frontier.layer_sizes
        assert (other.extremes.top == frontier.extremes.top).all()
    assert follow_policy(model, pickle.loads(pickle.dumps(resource)), copy, resource.initial_left).complete
