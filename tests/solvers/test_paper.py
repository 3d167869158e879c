"""The paper's propositions and hardness theorems, as problems with known answers."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_methods import run

import catalog
import oracle
import strategies
from effort import draws, seeds
from solvent.errors import ModelError
from solvent.model import instances
from solvent.solvers.solve import solve

METHODS = pytest.mark.parametrize("method", catalog.ALL_METHODS)


def markov_policies(model):
    """Yield every deterministic Markov policy as a function of (step, state, spent) that ignores what was spent."""
    places = [(step, state) for step in range(model.horizon) for state in range(model.n_states)]
    offers = [[model.actions[model.row_action[row]] for row in model.rows(*place)] or [None] for place in places]
    for actions in itertools.product(*offers):
        table = dict(zip(places, actions, strict=True))
        yield lambda step, state, spent, table=table: table[step, model.state_index(state)]


def best_markov(model):
    """Return the value of the best Markov policy that keeps the budget."""
    walks = (oracle.walk(model, None, policy) for policy in markov_policies(model))
    return max((walk.value for walk in walks if not walk.broken), default=oracle.INFEASIBLE)


@pytest.mark.parametrize(("prize", "wait"), [(1, 0), (10, 0), (10**6, 0), (8, 1)])
def test_forgetting_what_was_spent_costs_everything(prize, wait):
    """Proposition 1 (`prop: Markovian-suboptimality`): with one state and two actions, 0 against half the prize."""
    model = instances.markov_gap(prize=prize, wait=wait)
    assert (model.n_states, model.n_actions) == (1, 2)
    assert best_markov(model) == 0
    for method in catalog.ALL_METHODS:
        if method != "labels":  # the costs are random
            assert run(method, model).value == pytest.approx(prize / 2, rel=1e-12)


def test_the_optimum_remembers():
    policy = solve(instances.markov_gap(prize=10)).policy
    assert policy.action(1, 0, 0) == 1
    assert policy.action(1, 0, 1) == 0


@given(strategies.problems(), st.sampled_from([1e-9, 1e-3, 1.0]), st.data())
@draws(60)
def test_the_optimum_is_continuous_in_the_rewards(tiny, size, data):
    """The first half of Proposition 2 (`prop: cost-sensitivity`), with its constant: H times the change."""
    model = tiny.model
    shifts = data.draw(st.lists(st.floats(-1, 1), min_size=model.n_rows, max_size=model.n_rows))
    moved = replace(model, row_reward=model.row_reward + size * np.array(shifts))
    before, after = solve(model, tiny.budget), solve(moved, tiny.budget)
    assert before.status == after.status
    if before.status == "optimal":
        assert abs(before.value - after.value) <= model.horizon * size + 1e-9


@METHODS
@pytest.mark.parametrize("exponent", [1, 6, 12, 15])
def test_the_optimum_jumps_in_costs_and_budgets(exponent, method):
    """The second half of Proposition 2: the least change of a cost or a budget takes all of the prize."""
    little = Fraction(1, 10**exponent)
    assert run(method, instances.knapsack([100], [3], 3)).value == 100
    if method == "grid" and exponent > 12:
        with pytest.raises(ModelError, match="expected amounts that are few enough for a grid"):
            run(method, instances.knapsack([100], [3 + little], 3))
        return
    assert run(method, instances.knapsack([100], [3 + little], 3)).value == 0
    assert run(method, instances.knapsack([100], [3], 3 - little)).value == 0
    assert run(method, instances.knapsack([100], [3 - little], 3 - little)).value == 100


@METHODS
def test_feasibility_jumps_too(method):
    little = Fraction(1, 10**12)
    assert run(method, catalog.tenths(3, "1/3", 1)).status == "optimal"
    assert run(method, catalog.tenths(3, Fraction(1, 3) + little, 1)).status == "infeasible"
    assert run(method, catalog.tenths(3, "1/3", 1 - little)).status == "infeasible"


def knapsack_by_table(values, weights, capacity):
    best = [0] * (capacity + 1)
    for value, weight in zip(values, weights, strict=True):
        for room in range(capacity, weight - 1, -1):
            best[room] = max(best[room], value + best[room - weight])
    return best[capacity]


def random_knapsack(seed):
    rng = random.Random(seed)
    n = rng.randint(1, 12)
    weights = [rng.randint(0, 30) for _ in range(n)]
    return [rng.randint(0, 50) for _ in range(n)], weights, rng.randint(0, sum(weights) + 5)


@METHODS
@pytest.mark.parametrize("seed", seeds(10))
def test_knapsacks(seed, method):
    """Theorem 1 (`thm: np-hardness`): one state, two actions, integers; the optimum is the knapsack's."""
    values, weights, capacity = random_knapsack(seed)
    model = instances.knapsack(values, weights, capacity)
    assert run(method, model).value == knapsack_by_table(values, weights, capacity)


@pytest.mark.parametrize("seed", seeds(10))
def test_knapsacks_agree_with_an_independent_solver(seed):
    module = pytest.importorskip("ortools.algorithms.python.knapsack_solver")
    kind = module.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER
    values, weights, capacity = random_knapsack(100 + seed)
    solver = module.KnapsackSolver(kind, "knapsack")
    solver.init(values, [weights], [capacity])
    best = solver.solve()
    solution = solve(instances.knapsack(values, weights, capacity))
    assert solution.value == best
    assert solution.worst_spent["weight"] <= capacity


@pytest.mark.parametrize("name", catalog.KNAPSACKS)
def test_classical_knapsacks_agree_with_an_independent_solver(name):
    module = pytest.importorskip("ortools.algorithms.python.knapsack_solver")
    kind = module.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER
    capacity, weights, profits, best = catalog.KNAPSACKS[name]
    solver = module.KnapsackSolver(kind, name)
    solver.init(profits, [weights], [capacity])
    assert solver.solve() == best


def can_be_halved(numbers):
    total = sum(numbers)
    subsets = itertools.chain.from_iterable(itertools.combinations(numbers, k) for k in range(len(numbers) + 1))
    return any(2 * sum(subset) == total for subset in subsets)


def random_numbers(seed):
    rng = random.Random(seed)
    return [rng.randint(1, 12) for _ in range(rng.randint(1, 7))]


@pytest.mark.parametrize("method", ["reduction", "hash", "plain", "auto"])
@pytest.mark.parametrize("seed", seeds(20))
def test_partitions(seed, method):
    """Theorem 2 (`thm: approx-hard`): with two resources, to be feasible at all is to solve a partition problem."""
    numbers = random_numbers(seed)
    solution = run(method, instances.partition(numbers))
    assert (solution.status == "optimal") == can_be_halved(numbers)
    if solution.status == "optimal":
        assert solution.value == 1
        assert solution.worst_spent == {side: Fraction(sum(numbers), 2) for side in ("left", "right")}


def test_random_partitions_are_of_both_kinds():
    assert {can_be_halved(random_numbers(seed)) for seed in range(20)} == {True, False}


@METHODS
@pytest.mark.parametrize("seed", seeds(10))
def test_knapsacks_of_negative_weight(seed, method):
    """The construction of Proposition 5 (`prop: relax-hard`): 1 if the numbers can be halved, 0 if not."""
    numbers = random_numbers(seed)
    if sum(numbers) % 2:
        numbers.append(1)
    solution = run(method, instances.negative_knapsack(numbers))
    assert solution.value == (1 if can_be_halved(numbers) else 0)
