from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import solvent
from solvent import CMDP, Budget, ModelError, instances
from solvent.core.exact import exact


def paths(model: CMDP) -> dict[tuple[Any, ...], tuple[float, list[tuple[Fraction, ...]]]]:
    """Return the value and what was spent after each step by sequence of actions, in a deterministic model."""
    result = {}
    choices = [[(model.actions[model.row_action[r]], r) for r in model.rows(h, 0)] for h in range(model.horizon)]
    for sequence in itertools.product(*choices):
        costs = [tuple(model.outcomes(row)[0].cost.values()) for _, row in sequence]
        spent = [tuple(map(sum, zip(*costs[: h + 1], strict=True))) for h in range(model.horizon)]
        result[tuple(a for a, _ in sequence)] = (sum(float(model.row_reward[row]) for _, row in sequence), spent)
    return result


def best(model: CMDP) -> float | None:
    """Return the optimum by enumeration; None if no sequence is feasible."""
    assert model.budget is not None
    limits = [budget.upper for budget in model.budget.values()]
    values = [
        value
        for value, spent in paths(model).values()
        if all(s <= limit for step in spent for s, limit in zip(step, limits, strict=True))
    ]
    return max(values, default=None)


def test_knapsack() -> None:
    model = instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50)
    assert (model.n_states, model.n_actions, model.horizon) == (1, 2, 3)
    assert best(model) == 220
    taken = paths(model)["leave", "take", "take"]
    assert taken == (220, [(0,), (20,), (50,)])
    assert instances.knapsack([1], [1]).budget is None
    assert instances.knapsack([], [], capacity=1).horizon == 1
    assert paths(instances.knapsack([1, 2], ["1/3", -2]))["take", "take"] == (
        3,
        [(Fraction(1, 3),), (Fraction(-5, 3),)],
    )
    with pytest.raises(ModelError, match="knapsack: expected as many values as weights, found 1 and 2"):
        instances.knapsack([1], [1, 2])


def test_paper() -> None:
    model = instances.paper(400, seed=2, budget=3)
    assert (model.states, model.actions, model.resources) == ((0,), (0, 1), ("cost",))
    assert model.budget == {"cost": Budget(3)}
    rewards, costs = [], []
    for step in range(400):
        idle, act = model.rows(step, 0)
        assert model.row_reward[idle] == 0
        assert model.outcomes(idle) == [(1.0, 0, {"cost": 0})]
        ((p, after, cost),) = model.outcomes(act)
        assert (p, after) == (1, 0)
        rewards.append(float(model.row_reward[act]))
        costs.append(cost["cost"])
    assert all((c * 2**53).denominator == 1 for c in costs)
    for draws in (rewards, [float(c) for c in costs]):
        assert 0 <= min(draws) < 0.05
        assert 0.95 < max(draws) < 1
        assert np.mean(draws) == pytest.approx(0.5, abs=0.06)
        assert np.var(draws) == pytest.approx(1 / 12, abs=0.02)
    assert abs(np.corrcoef(rewards, [float(c) for c in costs])[0, 1]) < 0.15
    assert model == instances.paper(400, seed=2, budget=3)
    assert model != instances.paper(400, seed=3, budget=3)


def test_paper_with_fewer_digits() -> None:
    fine, coarse = instances.paper(50, seed=1), instances.paper(50, seed=1, digits=2)
    for step in range(50):
        a, b = (m.cost[0].value(m.rows(step, 0)[1]) for m in (fine, coarse))
        assert b == Fraction(int(a * 100), 100)
    assert coarse.cost[0].unit == Fraction(1, 100)
    with pytest.raises(ModelError, match="horizon"):
        instances.paper(-1)


@pytest.mark.parametrize("numbers", [[1, 1], [3, 1, 2], [2, 2, 3, 5], [1, 2], [3, 3, 3], [7, 1, 1, 1], [5]])
def test_partition(numbers: list[int]) -> None:
    model = instances.partition(numbers)
    half = Fraction(sum(numbers), 2)
    assert model.budget == {"left": Budget(half), "right": Budget(half)}
    divisible = any(sum(x for x, in_ in zip(numbers, mask, strict=True) if in_) == half
                    for mask in itertools.product([0, 1], repeat=len(numbers)))  # fmt: skip
    assert best(model) == (1 if divisible else None)


@pytest.mark.parametrize("numbers", [[1, 1], [3, 1, 2], [2, 2, 3, 5], [3, 3, 2], [7, 1, 1, 1], [2, 4], [1, 5, 2, 4]])
@pytest.mark.parametrize("epsilon", [0, 0.5, 0.99])
def test_negative_knapsack_solves_partition_under_any_relaxation(numbers: list[int], epsilon: float) -> None:
    model = instances.negative_knapsack(numbers)
    total = sum(numbers)
    # the special item first, then items of weight and value 2x
    offered = [model.outcomes(model.rows(h, 0)[1])[0].cost["weight"] for h in range(model.horizon)]
    values = [model.row_reward[model.rows(h, 0)[1]] for h in range(model.horizon)]
    assert offered == [-total, *(2 * x for x in numbers)]
    assert values == [1 - total, *(2 * x for x in numbers)]
    assert model.budget == {"weight": Budget(1)}
    divisible = any(2 * sum(x for x, in_ in zip(numbers, mask, strict=True) if in_) == total
                    for mask in itertools.product([0, 1], repeat=len(numbers)))  # fmt: skip
    relaxed = max(value for value, spent in paths(model).values() if all(s[0] <= 1 + exact(epsilon) for s in spent))
    assert relaxed == (1 if divisible else 0)


@pytest.mark.parametrize("numbers", [[1, 2], [0, 2], [-1, 1], [1.5, 0.5], [True, True]])
def test_negative_knapsack_needs_positive_integers_of_even_sum(numbers: Any) -> None:
    with pytest.raises(ModelError, match=r"numbers: expected (an even sum|positive integers)"):
        instances.negative_knapsack(numbers)


@pytest.mark.parametrize("wait", [0, 3])
def test_markov_gap_is_the_construction_of_proposition_1(wait: int) -> None:
    model = instances.markov_gap(prize=10, budget="5/2", wait=wait)
    h = wait
    assert (model.states, model.actions, model.horizon) == ((0,), (0, 1), wait + 2)
    assert model.budget == {"cost": Budget("5/2")}
    for step in range(model.horizon):
        for row in model.rows(step, 0):
            action = model.actions[model.row_action[row]]
            bold = step == h + 1 and action == 1
            assert model.row_reward[row] == (10 if bold else 0)
            costs = [(o.probability, o.cost["cost"]) for o in model.outcomes(row)]
            if step == h:
                assert costs == [(0.5, Fraction(5, 2)), (0.5, 0)]
            else:
                assert costs == [(1, Fraction(5, 2) if bold else 0)]


def test_markov_gap_of_corollary_1() -> None:
    model = instances.markov_gap(chance="1/10", cost=Fraction(1, 2) / Fraction(1, 10))
    random = model.outcomes(model.rows(0, 0)[0])
    assert [(o.probability, o.cost["cost"]) for o in random] == [(0.1, 5), (0.9, 0)]
    # the expectation B/2 + pB of the proof, at p = 1/2, is B
    assert sum(Fraction(str(o.probability)) * o.cost["cost"] for o in random) + Fraction(1, 2) == 1
    for chance in (0, 1, 2, -1):
        with pytest.raises(ModelError, match="chance: expected a probability between 0 and 1"):
            instances.markov_gap(chance=chance)


def test_markov_gap_values() -> None:
    """With the history, the prize is won half of the time; without it, never."""
    model = instances.markov_gap(prize=8)
    first, last = model.outcomes(model.rows(0, 0)[0]), model.outcomes(model.rows(1, 0)[1])
    price = last[0].cost["cost"]
    adaptive = sum(o.probability * 8 for o in first if o.cost["cost"] + price <= 1)
    assert adaptive == 4
    assert not all(o.cost["cost"] + price <= 1 for o in first)


@pytest.mark.parametrize(("n", "slip"), [(2, "1/10"), (4, 0.25), (3, 0), (3, "1/2")])
def test_fuel_grid(n: int, slip: Any) -> None:
    model = instances.fuel_grid(n, slip=slip)
    side = exact(slip)
    moves = {"north": (0, -1), "south": (0, 1), "east": (1, 0), "west": (-1, 0)}
    across = {
        "north": ["east", "west"],
        "south": ["east", "west"],
        "east": ["north", "south"],
        "west": ["north", "south"],
    }
    stations = {(n // 2, n // 2), (n - 1, 0), (0, n - 1)}
    assert set(model.states) == set(itertools.product(range(n), repeat=2))
    assert (model.start, model.horizon, model.is_stationary) == ((0, 0), 3 * n, True)
    assert model.budget == {"fuel": Budget(-(-3 * n // 2))}

    def land(cell: Any, direction: str) -> Any:
        x, y = cell[0] + moves[direction][0], cell[1] + moves[direction][1]
        return (x, y) if 0 <= x < n and 0 <= y < n else cell

    for i, cell in enumerate(model.states):
        rows = {model.actions[model.row_action[row]]: row for row in model.rows(0, i)}
        assert set(rows) == {*moves, "stay"}
        assert {model.row_reward[row] for row in rows.values()} == {1.0 if cell == (n - 1, n - 1) else 0.0}
        assert model.outcomes(rows["stay"]) == [(1.0, cell, {"fuel": -5 if cell in stations else 0})]
        for direction in moves:
            expected: dict[Any, Fraction] = {}
            for heading, p in [(direction, 1 - 2 * side), *((other, side) for other in across[direction])]:
                for q, fuel in ((Fraction(3, 4), 1), (Fraction(1, 4), 2)):
                    key = (land(cell, heading), fuel)
                    expected[key] = expected.get(key, Fraction(0)) + p * q
            found = {(o.next_state, o.cost["fuel"]): o.probability for o in model.outcomes(rows[direction])}
            assert found == pytest.approx({key: float(p) for key, p in expected.items() if p})


def test_fuel_grid_options() -> None:
    model = instances.fuel_grid(2, horizon=4, tank="7/2", thirst=[(1, "1/3")], refill=2, stations=[(1, 1)], reward=3)
    assert model.budget == {"fuel": Budget("7/2")}
    assert model.horizon == 4
    assert model.cost_range(0) == (-2, Fraction(1, 3))
    for bad in ({"n": 1}, {"n": 2.0}, {"n": 2, "slip": 0.6}, {"n": 2, "slip": -0.1}):
        with pytest.raises(ModelError, match=r"^(n|slip): expected"):
            instances.fuel_grid(**bad)
    with pytest.raises(ModelError, match="expected a sum of 1"):
        instances.fuel_grid(2, thirst=[(0.5, 1)])


def test_random() -> None:
    model = instances.random(6, 3, horizon=4, resources=2, branching=4, cost_range=(-3, 7), cost_unit="1/4", seed=9)
    assert (model.n_states, model.n_actions, model.n_rows, model.n_outcomes) == (6, 3, 18, 72)
    assert model.resources == ("r0", "r1")
    assert model.budget == dict.fromkeys(["r0", "r1"], Budget("7/2"))
    for d in range(2):
        assert model.cost[d].unit == Fraction(1, 4)
        low, high = model.cost_range(d)
        assert low is not None
        assert Fraction(-3, 4) <= low < 0 < high <= Fraction(7, 4)
    assert ((model.row_reward >= 0) & (model.row_reward <= 1)).all()
    same = {"horizon": 4, "resources": 2, "branching": 4, "cost_range": (-3, 7), "cost_unit": "1/4"}
    assert model == instances.random(6, 3, seed=9, **same)
    assert model != instances.random(6, 3, seed=10, **same)
    varying = instances.random(stationary=False, seed=1, budget=3)
    assert varying.n_tables == varying.horizon
    real = instances.random(real_costs=True, cost_range=(-1, 1), seed=1)
    assert real.cost[0].unit < Fraction(1, 2**40)
    assert real.cost[0].fits


@pytest.mark.parametrize("kind", ["yaml", "npz"])
@pytest.mark.parametrize(
    "model",
    [instances.partition([1, 2, 3]), instances.negative_knapsack([1, 1]), instances.random()],
    ids=lambda m: m.name,
)
def test_instances_are_models_like_others(tmp_path: Any, kind: str, model: CMDP) -> None:
    model.save(tmp_path / f"m.{kind}")
    assert solvent.load_model(tmp_path / f"m.{kind}") == model
