"""Policies on rounded costs: they count in coarse ticks, and are verified with the true costs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from effort import draws
from solvent import instances
from solvent.core.exact import MINUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.errors import PolicyError
from solvent.model.budget import resolve
from solvent.model.lattice import AccountTicks, Lattice
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.reduction.reduce import reduce


def rounded_policy(model, unit, counting):
    """Solve with costs rounded to multiples of `unit`; None if that is infeasible."""
    limits = resolve(model, None)
    turn = math.floor if counting == "down" else math.ceil
    cost_OD = np.array(
        [[turn(column.value(o) / unit) for column in model.cost] for o in range(model.n_outcomes)], np.int64
    )
    upper_HD = np.array([[math.floor(side[h] / unit) for side in limits.upper] for h in range(model.horizon)])
    n = len(limits.resources)
    accounts = AccountTicks.plain(n)
    lattice = Lattice(
        limits.resources, (unit,) * n, cost_OD, upper_HD, np.full_like(upper_HD, MINUS_INFINITY), *accounts
    )
    found = reduce(model, lattice, ResourceMonitor())
    if found.value == -math.inf:
        return None
    layers = []
    for layer, row in zip(found.layers, found.rows, strict=True):
        keep = row >= 0
        layers.append((layer.state[keep], layer.spent[keep], model.row_action[row[keep]]))
    settled = [(found.bounds.settled_low[h], found.bounds.settled_high[h]) for h in range(model.horizon)]
    return AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers, settled=settled, counting=(counting,) * n)


def all_histories(model, policy):
    """Return probability, value and true totals after each step of every history."""
    turn = math.floor if policy.counting[0] == "down" else math.ceil

    def walk(step, state, counted, totals, probability, earned):
        if step == model.horizon:
            yield probability, earned, totals
            return
        action = policy.action_index(step, state, counted)
        (row,) = [r for r in model.rows(step, state) if model.row_action[r] == action]
        for o in range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])):
            costs = [column.value(o) for column in model.cost]
            before = totals[-1] if totals else [Fraction(0)] * len(costs)
            yield from walk(
                step + 1,
                int(model.next_state[o]),
                [k + turn(c / policy.units[d]) for d, (k, c) in enumerate(zip(counted, costs, strict=True))],
                [*totals, [b + c for b, c in zip(before, costs, strict=True)]],
                probability * float(model.probability[o]),
                earned + float(model.row_reward[row]),
            )

    yield from walk(0, model.start_index, [0] * model.n_resources, [], 1.0, 0.0)


@given(
    st.integers(0, 10**6),
    st.sampled_from(["down", "up"]),
    st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(7, 3)]),
)
@draws(60)
def test_the_worst_case_is_that_of_true_costs(seed, counting, unit):
    model = instances.random(
        3, 2, horizon=4, resources=1 + seed % 2, branching=2, real_costs=True, cost_range=(-1, 3), budget=7, seed=seed
    )
    policy = rounded_policy(model, unit, counting)
    if policy is None:
        return
    histories = list(all_histories(model, policy))
    report = solvent.verify(model, policy)
    limit = Fraction(7)
    for d, name in enumerate(model.resources):
        for step in range(model.horizon):
            assert report.worst_spent_by_step[name][step] == max(totals[step][d] for _, _, totals in histories)
            assert report.least_spent_by_step[name][step] == min(totals[step][d] for _, _, totals in histories)
    over = [p for p, _, totals in histories if any(total > limit for totals_h in totals for total in totals_h)]
    assert report.feasible == (not over)
    assert report.violation_probability == pytest.approx(sum(over), abs=1e-12)
    assert report.value == pytest.approx(sum(p * earned for p, earned, _ in histories))
    assert set(report.worst_spent) == set(model.resources)
    if counting == "up":
        assert report.feasible
    else:
        # rounded down: over by less than one tick for each step (Theorem 5, `thm: approx`)
        worst = max(report.worst_spent.values())
        assert worst < limit + model.horizon * unit
    runs = solvent.simulate(model, policy, episodes=200, seed=1)
    assert set(runs.max_spent) == set(model.resources)
    for d, name in enumerate(model.resources):
        assert runs.max_spent[name] <= max(total[d] for _, _, totals in histories for total in totals)


def test_agents_count_rounded_costs_and_report_true_ones(tmp_path):
    b = solvent.CMDP.builder(horizon=3, start=0, resources=["fuel"], budget=2)
    b.add(0, "go", reward=1, outcomes=[(1, 0, "3/4")])
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    model = b.build()
    policy = rounded_policy(model, Fraction(1, 2), "down")
    policy.save(tmp_path / "rounded.policy")
    loaded = solvent.load_policy(tmp_path / "rounded.policy", model)
    assert loaded == policy
    assert loaded.counting == ("down",)
    agent = loaded.agent()
    for _ in range(3):
        assert agent.act() == "go"  # three times 3/4 is counted as three times 1/2, which fits 2
        agent.observe(0, 0.75)
    assert agent.spent["fuel"] == Fraction(9, 4)
    assert agent.remaining["fuel"] == Fraction(-1, 4)
    report = solvent.verify(model, policy)
    assert not report.feasible
    assert report.worst_spent_by_step["fuel"][-1] == Fraction(9, 4)
    assert len(report.witness.steps) == 3


def test_a_policy_that_does_not_round_refuses_other_costs():
    model = instances.knapsack([1], [1], capacity=1)
    policy = solvent.solve(model).policy
    with pytest.raises(PolicyError, match=r"cost of weight: expected a whole multiple of 1, found 0\.5"):
        policy.count(0, Fraction(1, 2))
    assert policy.counting == ("exact",)
