"""One state without randomness: the best choice of rows, against all choices in exact arithmetic."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from test_methods import close

from effort import draws, seeds
from solvent.core.limits import ResourceMonitor
from solvent.model import instances
from solvent.model.budget import Budget, resolve
from solvent.model.cmdp import CMDP
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.labels import knapsack
from solvent.solvers.labels import knapsack_kernels as kernels
from solvent.solvers.labels.search import best_path
from solvent.solvers.problem import Problem
from solvent.solvers.solve import solve
from solvent.verification.verify import verify

#: Rewards and costs of every kind: ties, zeros, floats without a common unit, items worth what they cost.
REWARDS = st.one_of(
    st.integers(-3, 6), st.sampled_from([0.1, 0.3, 0.5, 1 / 3, 1e-9, 1e16]), st.floats(-2, 2, allow_subnormal=False)
)
COSTS = st.one_of(
    st.integers(0, 5), st.sampled_from(["0.1", "1/3", "2.75"]), st.integers(0, 2**53).map(lambda n: Fraction(n, 2**53))
)


@st.composite
def knapsacks(draw):
    """A model with one state and at most 4 rows at each of at most 6 steps, and a budget."""
    horizon, tables = draw(st.integers(1, 6)), draw(st.booleans())
    proportional = draw(st.booleans())
    b = CMDP.builder(horizon=horizon, start="here", resources=["fuel"], states=["here"])
    ends = draw(st.integers(1, horizon)) if tables else horizon
    sign = draw(st.sampled_from([1, 1, -1]))
    for step in range(horizon if tables else 1):
        for action in range(draw(st.integers(1, 4 if horizon < 5 else 3)) if step < ends else 0):
            cost = draw(COSTS)
            reward = float(Fraction(cost)) if proportional and draw(st.booleans()) else draw(REWARDS)
            steps = [step] if tables else None
            b.add("here", action, reward=reward, outcomes=[(1, "here", sign * Fraction(cost))], steps=steps)
    if ends < horizon:
        b.terminal("here", steps=range(ends, horizon))
    limit = draw(st.one_of(st.integers(0, 8), st.fractions(0, 6, max_denominator=8)))
    kind = draw(st.sampled_from(["all", "all", "final", "tightening", "some"]))
    if kind == "final":
        return b.build(), Budget.final(limit) if sign > 0 else Budget.final(lower=-limit)
    sides = [limit] * horizon
    if kind == "tightening":
        sides = [limit + horizon - 1 - h for h in range(horizon)]
    elif kind == "some":
        sides = [None if draw(st.booleans()) else limit + draw(st.integers(0, 2)) for _ in range(horizon)]
        sides[draw(st.integers(0, horizon - 1))] = limit
    sides = [None if side is None else sign * side for side in sides]
    return b.build(), Budget(upper=sides) if sign > 0 else Budget(lower=sides)


def best_of_all(model, budget):
    """The largest exact sum of rewards of a choice that keeps the limits; None if there is none."""
    limits = resolve(model, budget)
    choices = list(itertools.takewhile(len, (model.rows(h, 0) for h in range(model.horizon))))
    best = None
    for rows in itertools.product(*choices):
        spent, reward, kept = Fraction(0), Fraction(0), True
        for h in range(model.horizon):
            if h < len(rows):
                spent += model.cost_of(0, rows[h])
                reward += Fraction(float(model.row_reward[rows[h]]))
            upper, lower = limits.upper[0][h], limits.lower[0][h]
            kept &= (upper is None or spent <= upper) and (lower is None or spent >= lower)
        if kept and (best is None or reward > best):
            best = reward
    return best


@given(knapsacks(), st.sampled_from([4, 16, 1 << 13]))
@draws(600)
def test_the_best_of_all_choices(problem, room):
    model, budget = problem
    known = best_of_all(model, budget)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knapsack, "_ROOM", room)
        found = solve(model, budget)
    if known is None:
        assert found.status == "infeasible"
        return
    assert found.status == "optimal"
    assert found.method == "labels"
    assert Fraction(found.value_lower) <= known <= Fraction(found.value_upper)
    report = verify(model, found.policy, budget)
    assert report.feasible
    assert Fraction(found.value_lower) <= Fraction(report.value) + Fraction(2) ** -40 * (1 + abs(known))
    size = 2 * sum(float(np.abs(model.row_reward[model.rows(h, 0)]).max(initial=0)) for h in range(model.horizon))
    assert found.value_upper - found.value_lower <= 2.0**-40 * size
    exact = kernels.reward_unit(model.row_reward, model.horizon) > 0
    event("exact sums" if exact else "rounded sums")
    if exact:
        assert Fraction(found.value) == known
        assert found.value_lower == found.value == found.value_upper


@given(knapsacks(), st.sampled_from([4, 1 << 13]), st.booleans())
@draws(300)
def test_what_is_proved_about_a_choice(problem, room, halted):
    """The kernel's bounds hold also where it has no room for all combinations or is stopped."""
    model, budget = problem
    resource = _resource(model, budget)
    numbers = np.empty((3, model.horizon), np.int64)
    choice = kernels.Choice(*numbers, np.empty(5))
    items = kernels.Items(model.table_of_step, model.row_indptr, model.row_reward, resource.cost, resource.least_left)
    result = kernels.pack(items, 2.0**-48, room, choice, np.array([halted]))
    event(("best", "none", "unfit", "full", "halted")[result])
    known = best_of_all(model, budget)
    if result == kernels.NONE:
        assert known is None
    if result in (kernels.NONE, kernels.UNFIT):
        return
    taken = choice.row_H[choice.row_H >= 0].tolist()
    assert [r in model.rows(h, 0) for h, r in enumerate(taken)] == [True] * len(taken)
    value = sum(Fraction(float(model.row_reward[r])) for r in taken)
    assert value <= known, "it keeps the limits"
    assert choice.spent_H.tolist()[: len(taken)] == np.cumsum(resource.cost[taken]).tolist()
    tolerance, noise, above = (
        Fraction(float(choice.facts[i])) for i in (kernels.TOLERANCE, kernels.NOISE, kernels.ABOVE)
    )
    assert known <= value + (tolerance if result == kernels.BEST else above + tolerance) + noise


@pytest.mark.parametrize("seed", seeds(12))
def test_larger_problems_as_frontiers(seed):
    rng = np.random.default_rng(seed)
    horizon, kind = int(rng.integers(20, 60)), seed % 4
    b = CMDP.builder(horizon=horizon, start=0, resources=["cost"])
    for step in range(horizon):
        for action in range(1 + seed % 3 + 1):
            cost = Fraction(float(rng.random())) if kind < 2 else int(rng.integers(0, 30))
            reward = {
                0: rng.random(),
                1: float(cost) + 0.1 * rng.random(),
                2: int(rng.integers(0, 40)),
                3: int(cost) + 3,
            }
            b.add(0, action, reward=float(reward[kind]), outcomes=[(1, 0, cost)], steps=[step])
    model = b.build()
    low, _ = model.cost_range(0)
    for share in (Fraction(1, 8), Fraction(2, 5)):
        budget = max(low, 0) * horizon + share * horizon * (1 if kind < 2 else 30)
        found, known = solve(model, budget), solve(model, budget, method="frontier")
        assert found.method == "labels"
        assert found.status == known.status
        if known.status == "optimal":
            assert found.value == close(known.value, horizon)
            assert verify(model, found.policy, budget).feasible


def test_a_core_of_few_rows():
    """Of a thousand steps, few need be looked at."""
    found = solve(instances.paper(1000, seed=3, budget=250))
    looked_at = [size for size in found.stats.layer_sizes if size > 1]
    assert len(looked_at) < 60
    assert found.stats.nodes < 5000
    assert found.value_upper - found.value_lower < 1e-10


def test_a_price_for_every_row_of_a_step():
    """More than two rows at a step: the one in the middle is best where neither of the others is."""
    b = CMDP.builder(horizon=2, start=0, resources=["fuel"], budget=5)
    for action, (reward, cost) in enumerate([(0, 0), (6, 2), (7, 5)]):
        b.add(0, action, reward=reward, outcomes=[(1, 0, cost)])
    assert solve(b.build()).value == 12


def test_costs_given_back_and_tighter_limits_are_left_to_labels():
    b = CMDP.builder(horizon=3, start=0, resources=["fuel"])
    b.add(0, "go", reward=3, outcomes=[(1, 0, 3)])
    b.add(0, "fill", reward=0, outcomes=[(1, 0, -2)])
    back = b.build()
    assert knapsack.best_choice(back, _resource(back, 4), ResourceMonitor(), 0.0) == (None, False)
    assert solve(back, 4).value == 6
    plain = instances.knapsack([3, 3, 3], [1, 1, 1])
    early = Budget(upper=[0, 1, 3])
    assert knapsack.best_choice(plain, _resource(plain, early), ResourceMonitor(), 0.0) == (None, False)
    assert solve(plain, early).value == 6


def _resource(model, budget):
    return SingleResource.of(Problem.exact(model, resolve(model, budget)).lattice).from_zero()


def test_too_many_combinations_are_left_to_labels():
    rng = np.random.default_rng(5)
    weights = rng.integers(10_000, 20_000, 40)
    model = instances.knapsack((weights + 1000).tolist(), weights.tolist(), capacity=int(weights.sum()) // 2)
    path, proved = knapsack.best_choice(model, _resource(model, None), ResourceMonitor(), 0.0)
    assert path is not None
    assert not proved
    best = best_path(model, _resource(model, None), ResourceMonitor())
    assert best.value >= path.value
    assert best.value == solve(model, method="frontier").value


@pytest.mark.parametrize(
    ("rewards", "steps", "unit"),
    [([60, 100, 120], 3, 4.0), ([0.1, 0.3], 2, 0.0), ([], 3, 1.0), ([0, 0], 2, 1.0), ([1e300, 1], 2, 0.0),
     ([-0.5, 3], 9, 0.5),
     ([2.0**51, 1], 1, 1.0), ([2.0**52, 1], 1, 0.0), ([2.0**-1001], 1, 0.0)],
)  # fmt: skip
def test_unit_of_rewards(rewards, steps, unit):
    assert kernels.reward_unit(np.array(rewards, float), steps) == unit
    if unit:
        assert all(math.remainder(reward, unit) == 0 for reward in rewards)
