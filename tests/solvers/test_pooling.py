"""Costs that are independent of the next state: averaged one after the other, with the same result."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import oracle
from effort import first
from solvent import CMDP, Budget
from solvent.solvers.outcomes import pooling
from solvent.solvers.solve import solve


def independent_model(seed, resources, horizon=3, points=4, states=5, budget=6):
    """Return a model in the paper's form: costs drawn beside the next state."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(states), (states, 3))
    C = rng.permuted(np.tile(np.arange(points) - 1, (states, 3, resources, 1)), axis=-1).swapaxes(2, 3)
    q = rng.dirichlet(np.ones(points), (states, 3))
    return CMDP.from_arrays(
        P,
        rng.random((states, 3)),
        C,
        cost_probability=q,
        horizon=horizon,
        budget=dict.fromkeys(["cost"] if resources == 1 else [f"cost{i}" for i in range(resources)], budget),
    )


@pytest.mark.parametrize("resources", [1, 2])
@pytest.mark.parametrize("method", ["reduction", "auto"])
@pytest.mark.parametrize("seed", first(2, range(6)))
def test_the_value_is_that_of_the_joint_outcomes(seed, resources, method, monkeypatch):
    model = independent_model(seed, resources)
    rows = pooling.independent_rows(model, np.stack([column.ticks for column in model.cost], 1))
    assert (rows.distribution >= 0).any()
    monkeypatch.setattr("solvent.solvers.frontier.bounds.DENSE_FROM", 0)
    pooled = solve(model, method=method)
    monkeypatch.setattr(pooling, "MOST_DISTRIBUTIONS", 0)
    joint = solve(model, method=method)
    assert pooled.value == pytest.approx(joint.value, rel=1e-12)
    assert pooled.value == pytest.approx(float(oracle.optimum(model, None, float)), rel=1e-9)


def test_rows_are_taken_apart_exactly():
    model = independent_model(0, 2)
    cost_OD = np.stack([column.ticks for column in model.cost], 1)
    rows = pooling.independent_rows(model, cost_OD)
    for r in np.flatnonzero(rows.distribution >= 0).tolist():
        first, last = int(model.outcome_indptr[r]), int(model.outcome_indptr[r + 1])
        joint = {}
        for o in range(first, last):
            key = (int(model.next_state[o]), tuple(cost_OD[o].tolist()))
            joint[key] = joint.get(key, 0.0) + float(model.probability[o])
        costs, k = rows.costs, int(rows.distribution[r])
        product = {
            (int(rows.next_state[m]), tuple(costs.cost[c].tolist())): rows.next_probability[m] * costs.probability[c]
            for m in range(first, first + int(rows.next_count[r]))
            for c in range(int(costs.indptr[k]), int(costs.indptr[k + 1]))
        }
        assert product.keys() == joint.keys()
        for key, p in joint.items():
            assert product[key] == pytest.approx(p, rel=1e-12)


def test_dependent_costs_are_left_as_they_are():
    b = CMDP.builder(horizon=2, start=0, resources=["x"])
    states = range(4)
    uneven = [Fraction(1 + (s * c) % 3, 1) for s in states for c in range(4)]
    total = sum(uneven)
    outcomes = [(uneven[4 * s + c] / total, s, c) for s in states for c in range(4)]
    for s in states:
        b.add(s, "go", outcomes=outcomes)
    model = b.build()
    assert (pooling.independent_rows(model, model.cost[0].ticks[:, None]).distribution == -1).all()
    assert pooling.pool(model, model.cost[0].ticks).n_distributions == 0


def drifting(costs, horizon=6, states=4):
    """Two actions whose costs are independent of the next state, in a resource that must not run low."""
    shape = (states, 2, states)
    C = np.zeros((*shape, 2), int)
    C[:, 0, :, 0], C[:, 1, :, 0] = costs
    C[..., 1], C[:, 1, :, 1] = 1, 0
    return CMDP.from_arrays(
        np.full(shape, 1 / states), np.array([[1.0, 0.0]] * states), C, cost_probability=np.full(shape, 1 / states),
        horizon=horizon, start=0, resources=["charge", "time"],
    )  # fmt: skip


@pytest.mark.parametrize("far", first(2, [3, -30, 2**40, 30, 10**6, -(2**40)]))
@pytest.mark.parametrize("side", ["lower", "upper", "both", "ends early"])
def test_independent_costs_that_lead_beyond_the_grid(far, side):
    """Amounts beyond all that matters, on either side, are one."""
    model = drifting(([-1, 0, 1, far], [0, 1, 2, far]))
    charge = {
        "lower": Budget(lower=-2), "upper": Budget(4), "both": Budget(upper=4 + 6 * abs(far), lower=-3),
        "ends early": Budget(upper=[None, 50, *[None] * 4], lower=[-1, -1, -1, *[None] * 3]),
    }[side]  # fmt: skip
    budget = {"charge": charge, "time": 4}
    value = oracle.optimum(model, budget, float)
    solution = solve(model, budget)
    if value == oracle.INFEASIBLE:
        assert solution.status == "infeasible"
    else:
        assert solution.value == pytest.approx(value)
        walked = oracle.walk(model, budget, solution.policy.action, float)
        assert walked.broken == walked.stuck == []
