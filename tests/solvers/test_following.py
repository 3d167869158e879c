"""Amounts that the policy of a frontier can spend: attained if it is followed, bounds otherwise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import solvent
from effort import seeds
from solvent.core.limits import ResourceMonitor
from solvent.model import instances
from solvent.model.budget import resolve
from solvent.solvers.frontier import following, solver
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.following import follow_policy
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.problem import Problem
from solvent.solvers.transforms import gap as certified


def random_model(rng: np.random.Generator) -> solvent.CMDP:
    """A model with costs of one sign or of both, in which episodes may end early."""
    horizon, n_states = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    low, high = [(-9, -1), (1, 9), (-5, 5), (0, 9), (-9, 0)][int(rng.integers(5))]
    b = solvent.CMDP.builder(horizon=horizon, start=0, resources=["x"], budget=int(rng.integers(-20, 30)))
    for state in range(n_states):
        over = [h for h in range(horizon) if rng.random() < 0.2 and (state or h)]
        steps = [h for h in range(horizon) if h not in over]
        if over:
            b.terminal(state, steps=over)
        for action in range(2):
            nexts = rng.choice(n_states, size=2)
            outcomes = [(Fraction(1, 2), int(s), int(rng.integers(low, high + 1))) for s in nexts]
            if steps:
                b.add(state, action, reward=int(rng.integers(0, 5)), outcomes=outcomes, steps=steps)
    return b.build()


@pytest.mark.parametrize("seed", seeds(150))
def test_bounds_without_following_hold(seed: int) -> None:
    model = random_model(np.random.default_rng(seed))
    problem = Problem.exact(model, resolve(model, None))
    resource = SingleResource.of(problem.lattice)
    found = build(FrontierBounds.at_start(problem.model, resource, ResourceMonitor()), ResourceMonitor())
    if found.value(0) == -np.inf:
        return
    done, bound = (
        follow_policy(problem.model, resource, found, resource.initial_left, max_nodes=most) for most in (10**6, 0)
    )
    assert done.complete
    assert not bound.complete
    assert (bound.most >= done.most).all()
    assert (bound.least <= done.least).all()


def followed(found: Any, problem: Problem, truth: Any, *kernels: Any) -> following.Following:
    """Follow the policy of a frontier with certain kernels, or as usual."""
    resource = SingleResource.of(problem.lattice)
    return follow_policy(problem.model, resource, found, resource.initial_left, truth=truth, kernels=kernels)


def check_same(one: following.Following, other: following.Following) -> None:
    """Check that two ways of following a policy agree."""
    assert one.complete
    assert other.complete
    for name in ("used", "most", "least"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("reward", "size"):
        np.testing.assert_allclose(getattr(one.followed, name), getattr(other.followed, name), rtol=1e-12)


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("seed", seeds(60))
def test_all_ways_of_following_agree(seed: int, arrays: bool) -> None:
    """Point by point, with tables for exact and for rounded costs, and with a hash table."""
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    problem = Problem.exact(model, resolve(model, None))
    resource = SingleResource.of(problem.lattice)
    bounds = FrontierBounds.at_start(problem.model, resource, ResourceMonitor())
    found = build(bounds, ResourceMonitor(), arrays=arrays)
    if found.value(0) == -np.inf:
        return
    cost, wider = resource.cost, resource.cost + rng.integers(0, 2, len(resource.cost))
    for true_cost in ((cost, cost), (cost, wider)):
        low, high = (each[:, None] for each in resource.oriented(*true_cost))
        truth = replace(problem.truth, low_OD=low, high_OD=high)
        hashed = followed(found, problem, truth, following.follow_by_hash)
        check_same(followed(found, problem, truth, following.follow_on_grid), hashed)
        if true_cost[1] is cost:
            check_same(followed(found, problem, truth, following.follow_runs), hashed)
        if not arrays:
            check_same(followed(found, problem, truth, following.follow_points), hashed)


@pytest.mark.parametrize("seed", seeds(40))
def test_a_resource_that_saturates_is_followed_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tank = solvent.Resource("x", floor=0)
    b = solvent.CMDP.builder(horizon=5, start=0, resources=[tank], states=range(3), budget=6)
    for state in range(3):
        for action in range(3):
            outcomes = [(Fraction(1, 2), int(s), int(rng.integers(-3, 4))) for s in rng.choice(3, size=2)]
            b.add(state, action, reward=int(rng.integers(0, 5)), outcomes=outcomes)
        b.add(state, "rest", outcomes=[(1, state)])
    model = b.build()
    problem = Problem.exact(model, resolve(model, None))
    resource = SingleResource.of(problem.lattice)
    found = build(FrontierBounds.at_start(problem.model, resource, ResourceMonitor()), ResourceMonitor(), arrays=True)
    hashed = followed(found, problem, None, following.follow_by_hash)
    check_same(followed(found, problem, None, following.follow_runs), hashed)


@pytest.mark.parametrize("tank", range(4, 12))
def test_points_that_stand_for_several_values_are_not_followed_as_one(tank: int) -> None:
    """Nodes of such a point go on to different points, so amounts are followed instead."""
    model = instances.fuel_grid(4, tank=tank)
    problem = Problem.exact(model, resolve(model, None))
    resource = SingleResource.of(problem.lattice)
    bounds = FrontierBounds.at_start(problem.model, resource, ResourceMonitor())
    found = build(bounds, ResourceMonitor(), arrays=False, resolution=0.1)
    hashed = followed(found, problem, None, following.follow_by_hash)
    check_same(followed(found, problem, None), hashed)
    assert not followed(found, problem, None, following.follow_points).complete


def covering(sign: int) -> tuple[solvent.CMDP, Any]:
    """At least 2 must be delivered: ending early with "risky" falls short by a hundredth, "safe" does not."""
    horizon = 6
    amount = [Fraction("1.99") * -sign, Fraction(-sign), Fraction(-3 * sign, 2)]
    budget = solvent.Budget.final(-2) if sign > 0 else solvent.Budget.final(lower=2)
    b = solvent.CMDP.builder(horizon=horizon, start="s", resources=["x"], budget=budget)
    b.add("s", "risky", reward=10, outcomes=[(0.5, "end", amount[0]), (0.5, "t", amount[1])], steps=[0])
    b.add("s", "safe", outcomes=[(1, "t", amount[1])], steps=[0])
    b.add("t", "on", outcomes=[(0.5, "t", amount[1]), (0.5, "t", amount[2])], steps=range(1, horizon))
    b.terminal("end")
    b.terminal("s", steps=range(1, horizon))
    b.terminal("t", steps=[0])
    return b.build(), budget


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("options", [{"approximation": "additive", "epsilon": "0.3", "strict": True}, {"gap": 0.01}])
def test_policies_that_are_not_followed_keep_the_budget(
    sign: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = covering(sign)
    assert solvent.solve(model).value == 0
    monkeypatch.setattr(solver, "MAX_NODES", 0)
    monkeypatch.setattr(certified, "_FOLLOW", 0)
    monkeypatch.setattr(certified, "_FIRST_TRY", 0)
    found = solvent.solve(model, **options)
    assert solvent.verify(model, found.policy).feasible
    assert found.value_lower <= 0 <= found.value_upper


def test_bounds_of_large_costs_do_not_wrap_around() -> None:
    """The largest cost times the horizon exceeds 64 bits, but no sum of costs does."""
    horizon, large = 80, 2**57
    b = solvent.CMDP.builder(horizon=horizon, start="s", resources=["x"], budget=large + 10)
    b.add("s", "go", outcomes=[(1, "t", large)], steps=[0])
    b.add("t", "on", outcomes=[(0.5, "t", 0), (0.5, "t", 1)], steps=range(1, 9))
    b.add("t", "on", outcomes=[(1, "t", 0)], steps=range(9, horizon))
    b.terminal("s", steps=range(1, horizon))
    b.terminal("t", steps=[0])
    model = b.build()
    problem = Problem.exact(model, resolve(model, None))
    resource = SingleResource.of(problem.lattice)
    found = build(FrontierBounds.at_start(problem.model, resource, ResourceMonitor()), ResourceMonitor())
    bound = follow_policy(problem.model, resource, found, resource.initial_left, max_nodes=0)
    assert bound.most[-1] == large + 8
    assert bound.least[0] == large
