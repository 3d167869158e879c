"""Label setting with several resources: the same answers as brute force, with any number of labels and prices."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

import effort
import oracle
import solvent
import strategies
from effort import draws, seeds
from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError
from solvent.model.budget import Budget, resolve
from solvent.model.cmdp import CMDP
from solvent.model.resources import Resource
from solvent.solvers.base import Run
from solvent.solvers.choice import choose
from solvent.solvers.labels import several
from solvent.solvers.labels.network import PathNetwork
from solvent.solvers.labels.solver import SOLVER, _is_plain
from solvent.solvers.problem import Problem
from solvent.solvers.solve import solve
from solvent.verification.verify import verify

CASES = Path(os.environ.get("SOLVENT_CASES", Path(__file__).parents[3] / "shared" / "cases"))
WITH_ENDS = ("floor", "ceiling", "initial", "end_reward", "goal")


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as context:
        yield context


def narrow(patch: pytest.MonkeyPatch, rng: Random) -> None:
    """Make searches begin with few labels, few prices and little room."""
    patch.setattr(several, "_WIDTH", rng.choice([1, 2, 16]))
    patch.setattr(several, "_WIDER", rng.choice([2, 8]))
    patch.setattr(several, "_TRIES", rng.choice([1, 4, 40]))
    patch.setattr(several, "_ROOM", rng.choice([8, 4096]))


def check(model: CMDP, budget: Any, value: Any, spent: Any = None) -> None:
    """Check the answer of labels against the optimum, and its policy against its budget."""
    found = solve(model, budget, method="labels", spent=spent)
    if value == -math.inf:
        assert found.status == "infeasible"
        return
    assert found.status == "optimal"
    assert found.value_lower <= value <= found.value_upper
    assert found.value_upper - found.value_lower <= 1e-9 * max(1.0, abs(float(value)))
    report = verify(model, found.policy, budget, spent=spent)
    assert report.feasible
    assert report.value == pytest.approx(float(value), abs=1e-9)


@given(strategies.problems(certain=True, min_resources=1, max_horizon=5), st.integers(0, 10**6))
@draws(300)
def test_random_limits(tiny, seed):
    assume(resolve(tiny.model, tiny.budget).resources)
    value = oracle.optimum(tiny.model, tiny.budget)
    event("infeasible" if value == -math.inf else "feasible")
    with pytest.MonkeyPatch.context() as patch:
        narrow(patch, Random(seed))
        check(tiny.model, tiny.budget, value)


@given(strategies.problems(certain=True, min_resources=1, max_resources=2, features=WITH_ENDS), st.integers(0, 10**6))
@draws(300)
def test_random_accounts_goals_and_end_rewards(tiny, seed):
    assume(resolve(tiny.model, tiny.budget, tiny.spent).resources)
    value = oracle.optimum(tiny.model, tiny.budget, spent=tiny.spent)
    event("infeasible" if value == -math.inf else "feasible")
    with pytest.MonkeyPatch.context() as patch:
        narrow(patch, Random(seed))
        check(tiny.model, tiny.budget, value, tiny.spent)


def paths_model(rng: Random) -> tuple[CMDP, dict[str, Any]]:
    """A model in which steps may or may not matter: without cycles, with cycles that do not help, or with any."""
    n_states, horizon, n_resources = rng.randint(2, 7), rng.randint(1, 9), rng.randint(1, 4)
    style, negative = rng.choice(["forward", "cycles", "any"]), rng.random() < 0.4
    rewards = rng.choice(["losses", "none"] if style == "cycles" else ["whole", "float", "losses", "none"])
    last = n_states - 1
    ends: dict[str, Any] = {"must_end_in": [last]} if style == "cycles" or rng.random() < 0.5 else {}
    if rng.random() < 0.3:
        ends["end_reward"] = {last: rng.choice([1, -3, 0.7])}
    names = [f"r{d}" for d in range(n_resources)]
    b = CMDP.builder(horizon=horizon, start=0, resources=names, states=range(n_states), **ends)
    draw = {
        "whole": lambda: rng.randint(-5, 9),
        "float": lambda: round(rng.uniform(-2, 5), 2),
        "losses": lambda: -rng.randint(0, 9),
        "none": lambda: 0,
    }[rewards]
    for state in range(n_states):
        terminal = state == last and style != "any"
        for action in range(0 if terminal else rng.randint(1, 4)):
            after = rng.randint(state + 1, last) if style == "forward" else rng.randrange(n_states)
            least = -2 if negative and style != "cycles" else 0
            cost = [rng.randint(least, 4) for _ in names]
            b.add(state, action, reward=draw(), outcomes=[(1, after, cost)])
        if rng.random() < 0.25:
            b.add(state, "wait", outcomes=[(1, state)])
        elif terminal:
            b.terminal(state)
    budget: dict[str, Any] = {}
    for name in names:
        high, low = rng.randint(1, 3 * horizon), rng.randint(-4, horizon)
        by_step = [rng.choice([None, rng.randint(0, 2 * horizon)]) for _ in range(horizon - 1)] + [3 * horizon]
        budget[name] = rng.choice(
            [high, high, high, Budget.final(high), Budget(lower=min(low, 0)), Budget(lower=min(low, high), upper=high),
             Budget.final(high, lower=min(low, high)), Budget(upper=by_step)]
        )  # fmt: skip
    return b.build(), budget


def best_by_amounts(model: CMDP, budget: Any) -> Fraction | float:
    """The optimum of a deterministic model: the best value of each state and amounts, step by step."""
    limits = resolve(model, budget)
    index = [model.resource_index(name) for name in limits.resources]

    def kept(step: int, spent: tuple[Fraction, ...]) -> bool:
        sides = zip(spent, limits.upper, limits.lower, strict=True)
        return all((u[step] is None or x <= u[step]) and (lo[step] is None or x >= lo[step]) for x, u, lo in sides)

    best: Fraction | float = -math.inf
    layer = {(model.start_index, tuple(Fraction(0) for _ in index)): Fraction(0)}
    for step in range(model.horizon):
        after: dict[Any, Fraction] = {}
        for (state, spent), value in layer.items():
            end, later = model.end_value[state], range(step, model.horizon)
            if model.is_terminal(step, state) and end > -math.inf and all(kept(h, spent) for h in later):
                best = max(best, value + Fraction(float(end)))
            for row in model.rows(step, state):
                node = (
                    int(model.next_state[row]),
                    tuple(x + Fraction(model.cost_of(d, row)) for x, d in zip(spent, index, strict=True)),
                )
                if kept(step, node[1]):
                    after[node] = max(after.get(node, -math.inf), value + Fraction(float(model.row_reward[row])))
        layer = after
    ends = (
        value + Fraction(float(model.end_value[s])) for (s, _), value in layer.items() if model.end_value[s] > -math.inf
    )
    return max(best, max(ends, default=-math.inf))


@pytest.mark.parametrize("first", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(50, 600, 50))])
def test_paths_on_which_steps_may_not_matter(first, patch):
    collapsed = 0
    for seed in range(first, first + 50):
        rng = Random(seed)
        model, budget = paths_model(rng)
        narrow(patch, rng)
        problem = Problem.exact(model, resolve(model, budget))
        collapsed += PathNetwork.of(model, problem.lattice, ResourceMonitor()).wait_of_state is not None
        check(model, budget, best_by_amounts(model, budget))
    assert collapsed > 5


def network(model: CMDP, budget: Any = None) -> PathNetwork:
    return PathNetwork.of(model, Problem.exact(model, resolve(model, budget)).lattice, ResourceMonitor())


def ring(horizon: int, *, reward: float = -1, cost: int = 1, goal: bool = True, wait: bool = False) -> CMDP:
    """Ten places in a ring, with a way out from the fifth."""
    b = CMDP.builder(
        horizon=horizon, start=0, resources=["fuel", "time"], states=range(11), must_end_in=[10] if goal else None
    )
    for place in range(10):
        b.add(place, "on", reward=reward, outcomes=[(1, (place + 1) % 10, (cost, 1))])
    b.add(5, "out", reward=-3, outcomes=[(1, 10, (1, 2))])
    if wait:
        b.add(10, "wait", outcomes=[(1, 10)])
    return b.build()


def test_the_horizon_does_not_count_where_steps_do_not_matter():
    budget = {"fuel": 30, "time": 30}
    for wait in (False, True):
        for horizon in (10, 1000):
            model = ring(horizon, wait=wait)
            assert network(model, budget).n_places == 11
            assert solve(model, budget, method="labels").value == -8
    # six steps are needed, and the number of steps is one more amount
    assert network(ring(6), budget).sides.final_K.tolist() == [30, 30, 6]
    assert solve(ring(6), budget, method="labels").value == -8
    assert solve(ring(5), budget, method="labels").status == "infeasible"


def test_steps_matter_where_a_cycle_can_help_or_a_path_can_end_anywhere():
    budget = {"fuel": Budget(lower=-30, upper=30), "time": 30}
    for model in (ring(20, reward=1), ring(20, cost=-1), ring(20, cost=1), ring(20, goal=False)):
        assert network(model, budget).wait_of_state is None
    assert network(ring(20, reward=1), {"fuel": 30, "time": 30}).wait_of_state is None
    assert network(ring(20, goal=False), {"fuel": 30, "time": 30}).wait_of_state is None
    assert solve(ring(20, reward=1), {"fuel": 30, "time": 30}, method="labels").value == 12


def test_kernels_get_arrays_of_one_layout():
    """Arrays in another order would be other types, for which kernels are compiled once more."""
    models = [*(random_paths(25, 90, 3, 1, cyclic=cyclic) for cyclic in (True, False)), knapsack(5, 3, 1)]
    for model in models:
        found = network(model, dict.fromkeys(model.resources, 9))
        arrays = [array for array in (*found.network, *found.sides) if isinstance(array, np.ndarray)]
        assert all(array.flags.c_contiguous for array in arrays)


def test_waiting_at_a_start_beyond_the_limits():
    b = CMDP.builder(horizon=3, start="a", resources=["x", "y"], budget={"x": 1, "y": 5})
    b.add("a", "wait", outcomes=[(1, "a")])
    b.add("a", "go", reward=-1, outcomes=[(1, "b", (-2, 1))])
    b.add("b", "go", reward=-1, outcomes=[(1, "c", (0, 1))])
    b.terminal("c")
    model = b.build()
    assert solve(model, method="labels").value == 0
    # at 3 it must leave at once, and then cannot wait
    assert solve(model, spent={"x": 3}, method="labels").value == -2


def test_spending_less_is_not_better_under_lower_limits():
    """Two ways to the same state: the cheaper one, of a larger value, cannot reach the lower limit any more."""
    b = CMDP.builder(horizon=2, start="a", resources=["x", "y"])
    b.add("a", "cheap", reward=5, outcomes=[(1, "b", (0, 1))])
    b.add("a", "dear", reward=0, outcomes=[(1, "b", (4, 1))])
    b.add("b", "on", outcomes=[(1, "b", (1, 1))])
    model = b.build()
    for lower, value in ((0, 5), (1, 5), (2, 0), (5, 0)):
        budget = {"x": Budget.final(6, lower=lower), "y": 2}
        assert solve(model, budget, method="labels").value == value
    assert solve(model, {"x": Budget.final(6, lower=6), "y": 2}, method="labels").status == "infeasible"


def knapsack(n: int, n_resources: int, seed: int, *, both: bool = False) -> CMDP:
    """Items with weights of several kinds, of which about half can be taken."""
    rng = Random(seed)
    names = [f"w{k}" for k in range(n_resources)]
    weights = [[rng.randint(1, 60) for _ in names] for _ in range(n)]
    half = [sum(w[k] for w in weights) // 2 for k in range(n_resources)]
    budget = {name: Budget.final(h + 2, lower=h - 2) if both else h for name, h in zip(names, half, strict=True)}
    b = CMDP.builder(horizon=n, start=0, resources=names, budget=budget)
    for step, weight in enumerate(weights):
        b.add(
            0, "take", reward=sum(weight) // n_resources + rng.randint(0, 20), outcomes=[(1, 0, weight)], steps=[step]
        )
        b.add(0, "leave", outcomes=[(1, 0)], steps=[step])
    return b.build()


@pytest.mark.parametrize(("n", "n_resources", "both"), [(22, 2, False), (16, 4, False), (18, 2, True), (14, 3, True)])
def test_the_same_as_the_reduction_on_knapsacks(n, n_resources, both):
    model = knapsack(n, n_resources, 3, both=both)
    found, known = (solve(model, method=method) for method in ("labels", "reduction"))
    assert (found.status, found.value) == (known.status, known.value)
    if known.status == "optimal":
        assert verify(model, found.policy).feasible
        assert found.stats.nodes < known.stats.nodes


def test_many_labels_with_equal_amounts():
    """Amounts coincide often, so that labels are merged by them before they are compared."""
    rng = Random(1)
    b = CMDP.builder(horizon=12, start=0, resources=["x", "y", "z"], budget={"x": 18, "y": 17, "z": Budget(lower=-9)})
    for state in range(4):
        for action in range(6):
            cost = (rng.randint(0, 3), rng.randint(0, 3), rng.randint(-2, 1))
            b.add(state, action, reward=rng.random(), outcomes=[(1, rng.randrange(4), cost)])
    model = b.build()
    found, known = (solve(model, method=method) for method in ("labels", "reduction"))
    assert found.value == pytest.approx(known.value, abs=1e-12)
    assert verify(model, found.policy).feasible


@pytest.mark.parametrize("seed", seeds(20))
def test_bounds_hold_at_every_price(seed):
    """Bounds of all prices are at least the optimum, before and after arcs are removed."""
    model = knapsack(9, 2, seed)
    value = float(best_by_amounts(model, None))
    search = several.SeveralSearch(Problem.exact(model, resolve(model, None)), ResourceMonitor())
    for _ in range(3):
        search._prepare(3)
        if search.bound == -math.inf:
            assert search.value == value
            return
        in_use = search._prices.bound_M[1:]
        assert (in_use >= value).all()
        assert (search._prices.price_MK >= 0).all()


def test_stopped_searches_have_a_path_and_a_bound():
    model = knapsack(120, 5, 1)
    solve(knapsack(12, 2, 1), method="labels")  # what is compiled first does not count
    for limit, said in (({"time_limit": 0.5}, "time limit"), ({"memory_limit": "1MB"}, "labels")):
        stopped = solve(model, method="labels", **limit)
        assert stopped.status == "feasible"
        assert said in stopped.message
        assert verify(model, stopped.policy).feasible
        assert stopped.value_lower == stopped.value < stopped.value_upper
        assert stopped.gap < 0.1
    stopped = solve(model, method="labels", memory_limit="1KB")
    assert stopped.status == "limit"


@pytest.mark.parametrize("seed", seeds(60))
def test_bounds_of_a_stopped_search_hold(seed, patch):
    rng = Random(seed)
    model, budget = paths_model(rng)
    narrow(patch, rng)
    patch.setattr(several, "_ROOM", 8)
    value = best_by_amounts(model, budget)
    size = rng.choice([3_000, 10_000, 30_000])
    stopped = solve(model, budget, method="labels", memory_limit=size)
    if stopped.status in ("optimal", "feasible"):
        assert stopped.value_lower <= value <= stopped.value_upper
        assert verify(model, stopped.policy, budget).feasible
    elif stopped.status == "infeasible":
        assert value == -math.inf
    else:
        assert stopped.status == "limit"


def test_auto_gives_up_where_labels_are_many(patch):
    model = knapsack(14, 2, 5)
    assert solve(model).method == "labels"
    patch.setattr(several, "_SMALL", 0)
    patch.setattr(several, "_LABEL_WORK", 1e9)
    patch.setattr(several, "_WIDTH", 1)
    patch.setattr(several, "_TRIES", 1)
    monitor = ResourceMonitor()
    problem = Problem.exact(model, resolve(model, None), monitor=monitor)
    used = monitor.used
    estimate = SOLVER.estimate(problem, Run(monitor))
    assert estimate.work > 1
    SOLVER.discard(estimate.prepared, Run(monitor))
    assert monitor.used == used
    assert choose(problem, "auto", Run(monitor))[0].name != "labels"
    assert solve(model).value == solve(model, method="labels").value


def test_refusals():
    b = CMDP.builder(horizon=2, start={0: 0.5, 1: 0.5}, resources=["x", "y"], budget={"x": 1, "y": 1})
    for state in range(2):
        b.add(state, "go", outcomes=[(1, state, (1, 0))])
    drawn = b.build()
    with pytest.raises(ModelError, match=r'method="labels": expected one first state, found a distribution over 2'):
        solve(drawn, method="labels")
    with pytest.raises(
        ModelError, match=r'expected a model without randomness, found 2 outcomes of .*; use method="auto"'
    ):
        solve(_random_pair(), method="labels")
    far = CMDP.builder(horizon=2, start=0, resources=["x", "y"], budget={"x": 2**61, "y": 1})
    far.add(0, "go", outcomes=[(1, 0, (2**60 + 1, 1))])
    with pytest.raises(
        ModelError,
        match=r"expected amounts of at most 2\*\*60 units, found sums of up to .*; use method=.auto., or gap=0.01",
    ):
        solve(far.build(), method="labels")
    free = CMDP.builder(horizon=1, start=0, resources=["x"])
    free.add(0, "go", outcomes=[(1, 0, 1)])
    with pytest.raises(ModelError, match="expected a limited resource, found no limits"):
        solve(free.build(), {"x": None}, method="labels")


def _random_pair() -> CMDP:
    b = CMDP.builder(horizon=1, start=0, resources=["x", "y"], budget={"x": 1, "y": 1})
    b.add(0, "go", outcomes=[(0.5, 0, (1, 0)), (0.5, 0, (0, 1))])
    return b.build()


def test_one_resource_with_a_goal_or_a_floor():
    b = CMDP.builder(
        horizon=4, start=0, resources=[Resource("fuel", floor=0)], must_end_in=[2], end_reward={2: 4}, budget=3
    )
    for state in range(3):
        b.add(state, "on", reward=1, outcomes=[(1, min(state + 1, 2), 2)])
        b.add(state, "rest", outcomes=[(1, state, -1)])
    model = b.build()
    assert not _is_plain(Problem.exact(model, resolve(model, None)))
    for method in ("labels", "reduction"):
        assert solve(model, method=method).value == 6


def shortest_path(text: str) -> CMDP:
    """A problem of OR-Library: a path from place 1 to place n; visits of places use resources, too."""
    numbers = iter(map(int, text.split()))
    n, m, count = (next(numbers) for _ in range(3))
    _, upper = ([next(numbers) for _ in range(count)] for _ in range(2))
    visit = [[next(numbers) for _ in range(count)] for _ in range(n)]
    names = [f"r{k}" for k in range(count)]
    budget = {name: limit - used for name, limit, used in zip(names, upper, visit[0], strict=True)}
    b = CMDP.builder(horizon=n - 1, start=1, resources=names, must_end_in=[n], budget=budget)
    for _ in range(m):
        tail, head, cost = (next(numbers) for _ in range(3))
        used = [next(numbers) + visit[head - 1][k] for k in range(count)]
        if tail != n:
            b.add(tail, head, reward=-cost, outcomes=[(1, head, used)])
    return b.build()


@pytest.mark.skipif(not (CASES / "rcsp").exists(), reason="the problems of OR-Library are not there")
@pytest.mark.parametrize(("number", "cost"), list(enumerate([131, 131, 2, 2, 100, 100, 6, 14], 1)))
def test_shortest_paths_of_or_library(number, cost):
    model = shortest_path((CASES / "rcsp" / f"rcsp{number}.txt").read_text())
    found = solve(model)
    assert (found.method, found.status, found.value) == ("labels", "optimal", -cost)
    assert found.value_upper == -cost
    report = verify(model, found.policy)
    assert report.feasible
    assert report.value == -cost
    assert network(model).n_places <= model.n_states
    assert found.stats.nodes < 1000


def random_paths(n: int, m: int, n_resources: int, seed: int, *, cyclic: bool) -> CMDP:
    """A problem like those of OR-Library."""
    rng = np.random.default_rng(seed)
    names = [f"r{k}" for k in range(n_resources)]
    b = CMDP.builder(horizon=n - 1, start=0, resources=names, must_end_in=[n - 1], states=range(n))
    pairs = {(i, i + 1) for i in range(n - 1)}
    while len(pairs) < m:
        tail, head = (int(x) for x in rng.integers(0, n, 2))
        if tail != head and tail != n - 1 and (cyclic or tail < head < tail + n // 4):
            pairs.add((tail, head))
    for tail, head in sorted(pairs):
        used = rng.integers(0, 10, n_resources).tolist()
        b.add(tail, head, reward=-int(rng.integers(1, 50)), outcomes=[(1, head, used)])
    return b.build()


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("n_resources", [1, 3])
def test_the_same_as_the_reduction_on_random_networks(n_resources, cyclic):
    for seed in range(4 if effort.everything else 1):
        model = random_paths(25, 90, n_resources, seed, cyclic=cyclic)
        for limit in (6, 9, 14, 20):
            budget = dict.fromkeys(model.resources, limit)
            found, known = (solve(model, budget, method=method) for method in ("labels", "reduction"))
            assert (found.status, found.value) == (known.status, known.value)
            if known.status == "optimal":
                assert solvent.verify(model, found.policy, budget).feasible
