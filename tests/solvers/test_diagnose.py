"""When nothing is feasible: how much budget it would take, and how far anyone can get."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import catalog
import oracle
import strategies
from effort import draws, slow_after
from solvent.core.limits import ResourceMonitor
from solvent.model import instances
from solvent.model.budget import Budget, resolve
from solvent.model.cmdp import CMDP
from solvent.solvers.diagnosis import diagnose, relaxed_value
from solvent.solvers.problem import Problem
from solvent.solvers.solve import solve

#: Less than any difference of two amounts that these problems can come to.
LITTLE = Fraction(1, 10**6)


def alone(model, name, budget):
    """Return a budget for one resource with the others unlimited."""
    return {other: budget if other == name else None for other in model.resources}


def moved(model, name, budget, by):
    """Return a budget for one resource with its limits all widened by so much, the others unlimited."""
    limits = resolve(model, alone(model, name, budget))
    upper = [None if x is None else x + by for x in limits.upper[0]]
    lower = [None if x is None else x - by for x in limits.lower[0]]
    return alone(model, name, Budget(upper=upper, lower=lower))


def relaxed(model, budget, name, by):
    """Return a budget with the limits of one resource all widened by so much, and those of the others as they are."""
    return {**budget, name: moved(model, name, budget[name], by)[name]}


def stuck_step(model, budget):
    """Return the first step whose limits cannot be kept together with the earlier ones."""
    limits = resolve(model, budget)

    def until(step):
        return {
            name: Budget(
                upper=[*limits.upper[d][: step + 1], *[None] * (model.horizon - step - 1)],
                lower=[*limits.lower[d][: step + 1], *[None] * (model.horizon - step - 1)],
            )
            for d, name in enumerate(limits.resources)
        } | {name: None for name in model.resources if name not in limits.resources}

    return next(step for step in range(model.horizon) if not oracle.feasible(model, until(step)))


def check(model, budget, solution):
    diagnosis = solution.diagnosis
    assert diagnosis.stuck_step == stuck_step(model, budget)
    tracked = resolve(model, budget).resources
    assert set(diagnosis.least_budget) <= set(diagnosis.shortfall) <= set(tracked)
    for name in tracked:
        if name not in diagnosis.shortfall:
            assert oracle.feasible(model, moved(model, name, budget[name], 0))
            continue
        extra = diagnosis.shortfall[name]
        if extra is None:
            event("no slack would help")
            assert not oracle.feasible(model, moved(model, name, budget[name], 1000))
            continue
        assert extra > 0
        assert oracle.feasible(model, moved(model, name, budget[name], extra))
        assert not oracle.feasible(model, moved(model, name, budget[name], extra - LITTLE))
    for name, least in diagnosis.least_budget.items():
        assert type(least) is Fraction
        assert diagnosis.shortfall[name] is not None
    check_sufficient(model, budget, diagnosis, tracked)


def at_the_same_steps(budget, limit):
    """Return an upper limit at those steps at which a budget has one."""
    if isinstance(budget, Budget) and budget.only_final:
        return Budget.final(limit)
    if isinstance(budget, Budget) and isinstance(budget.upper, tuple):
        return Budget(upper=[None if each is None else limit for each in budget.upper])
    return limit


def check_sufficient(model, budget, diagnosis, tracked):
    """Limits of single resources, or of those to blame together, are relaxed by no more than is needed."""
    assert set(diagnosis.sufficient_budget) <= set(diagnosis.sufficient_extra) <= set(tracked)
    if diagnosis.n_constraints == 1:
        assert not diagnosis.sufficient_extra
        return
    for name in tracked:
        if name not in diagnosis.sufficient_extra:
            assert not oracle.feasible(model, {**budget, name: None})
            continue
        event("relaxing one resource is enough")
        extra = diagnosis.sufficient_extra[name]
        assert oracle.feasible(model, relaxed(model, budget, name, extra))
        assert not oracle.feasible(model, relaxed(model, budget, name, extra - LITTLE))
    for name, enough in diagnosis.sufficient_budget.items():
        assert oracle.feasible(model, {**budget, name: at_the_same_steps(budget[name], enough)})
    together = diagnosis.sufficient_together
    if together:
        event("relaxing several resources is enough")

        def with_limits(limits):
            return {**budget, **{n: at_the_same_steps(budget[n], x) for n, x in limits.items()}}

        assert set(together) == set(diagnosis.blame)
        assert oracle.feasible(model, with_limits(together))
        for name in together:
            assert not oracle.feasible(model, with_limits({**together, name: together[name] - LITTLE}))


@given(strategies.problems("number number number upper lower interval box final", min_resources=1, rest=False))
@draws(150)
def test_random_problems(tiny):
    solution = solve(tiny.model, tiny.budget)
    event(solution.status.value)
    if solution.status == "infeasible":
        check(tiny.model, tiny.budget, solution)


@given(strategies.models(min_resources=1, max_resources=2, rest=False), st.data())
@draws(100)
def test_the_least_budget_is_exact(model, data):
    tight = st.sampled_from([Fraction(text) for text in ["-6", "-3", "-2", "-1", "-1/2", "0", "1/7", "1/2"]])
    form = data.draw(st.sampled_from([lambda limit: limit, Budget.final]))
    budget = {name: form(data.draw(tight)) for name in model.resources}
    solution = solve(model, budget)
    event(solution.status.value)
    if solution.status != "infeasible":
        return
    for name in model.resources:
        if name in solution.diagnosis.least_budget:
            least = solution.diagnosis.least_budget[name]
            assert oracle.feasible(model, alone(model, name, form(least)))
            assert not oracle.feasible(model, alone(model, name, form(least - LITTLE)))
        else:
            assert oracle.feasible(model, alone(model, name, budget[name]))


@pytest.mark.parametrize("method", ["reduction", "frontier"])
def test_one_resource(method):
    solution = solve(catalog.tenths(3, "1/3", "0.9"), method=method)
    assert solution.diagnosis.least_budget == {"money": 1}
    assert solution.diagnosis.shortfall == {"money": Fraction(1, 10)}
    assert solution.diagnosis.stuck_step == 2
    assert "the least feasible budget of money is 1" in solution.message
    assert "every policy can break a limit at or before step 2" in solution.message
    assert solve(catalog.tenths(3, "1/3", 1)).status == "optimal"


def test_a_covering_budget():
    solution = solve(catalog.covering(), -3)
    assert solution.diagnosis.least_budget == {"money": -2}
    assert solution.diagnosis.stuck_step == 0


def test_limits_by_step_have_a_shortfall():
    solution = solve(catalog.tenths(3, 2, None), Budget(upper=[1, 5, 4]))
    assert solution.diagnosis.least_budget == {}
    assert solution.diagnosis.shortfall == {"money": 2}
    assert solution.diagnosis.stuck_step == 0
    assert "the limits of money are too tight by 2" in solution.message


def test_lower_limits_have_a_shortfall():
    solution = solve(catalog.tenths(3, "1/2", None), Budget.final(lower=2))
    assert solution.diagnosis.shortfall == {"money": Fraction(1, 2)}
    assert solution.diagnosis.stuck_step == 2
    assert "the limits of money are too tight by 0.5" in solution.message


def test_resources_that_only_clash():
    solution = solve(instances.partition([3, 1, 1]))
    assert solution.diagnosis.least_budget == {}
    assert solution.diagnosis.shortfall == {}
    assert "each resource can be kept within its limits by itself, but not all of them together" in solution.message


def test_what_is_enough_while_other_limits_are_kept():
    b = CMDP.builder(horizon=2, start="depot", resources=["hours", "tolls"])
    for here, there in (("depot", "town"), ("town", "depot")):
        b.add(here, "road", outcomes=[(1, there, [3, 0])])
        b.add(here, "highway", outcomes=[(1, there, [1, 2])])
    model = b.build()
    solution = solve(model, {"hours": 3, "tolls": 3})
    diagnosis = solution.diagnosis
    assert diagnosis.sufficient_budget == {"hours": 4, "tolls": 4}
    assert diagnosis.sufficient_extra == {"hours": 1, "tolls": 1}
    assert diagnosis.stuck_step == 1
    state, broken = diagnosis.stuck_at
    assert (state, set(broken) <= {"hours", "tolls"}) == ("town", True)
    assert "with everything else as it is, 4 of hours or 4 of tolls is enough" in solution.message
    assert "at or before step 1, for example in state 'town', where every action breaks a limit of" in solution.message


def test_limits_that_must_be_raised_together():
    b = CMDP.builder(horizon=2, start=0, resources=["a", "b", "c"])
    b.add(0, "go", outcomes=[(1, 0, [3, 2, 1])])
    b.add(0, "walk", outcomes=[(1, 0, [4, 1, 1])])
    solution = solve(b.build(), {"a": 5, "b": 1, "c": 2})
    assert solution.diagnosis.blame == ("a", "b")
    assert solution.diagnosis.sufficient_budget == {}
    assert solution.diagnosis.sufficient_together == {"a": 6, "b": 4}
    assert "with everything else as it is, 6 of a and 4 of b together are enough, for example" in solution.message


def test_a_goal_that_needs_more_of_one_resource():
    b = CMDP.builder(horizon=2, start=0, resources=["a", "b"], must_end_in=[1])
    b.add(0, "wait", outcomes=[(1, 0, [0, 0])])
    b.add(0, "go", outcomes=[(1, 1, [3, 1])])
    b.add(1, "wait", outcomes=[(1, 1, [0, 0])])
    solution = solve(b.build(), {"a": 2, "b": 5})
    assert solution.diagnosis.goal == "with limits"
    assert solution.diagnosis.least_budget == solution.diagnosis.sufficient_budget == {"a": 3}
    assert solution.message.count("3") == 1


def long_paths(n: int, m: int, n_resources: int, seed: int) -> CMDP:
    """Paths through a random network with costs of several resources."""
    rng = np.random.default_rng(seed)
    names = [f"r{k}" for k in range(n_resources)]
    b = CMDP.builder(horizon=n - 1, start=0, resources=names, must_end_in=[n - 1], states=range(n))
    pairs = {(i, i + 1) for i in range(n - 1)}
    while len(pairs) < m:
        tail, head = (int(x) for x in rng.integers(0, n, 2))
        if tail < head < tail + n // 4:
            pairs.add((tail, head))
    for tail, head in sorted(pairs):
        b.add(tail, head, reward=-1, outcomes=[(1, head, rng.integers(0, 10, n_resources).tolist())])
    return b.build()


@pytest.mark.parametrize(("n", "m", "n_resources", "limit"), slow_after(1, [(100, 900, 3, 12), (300, 4000, 5, 12)]))
def test_long_paths_have_a_full_diagnosis(n, m, n_resources, limit):
    """Labels find out what is enough; layers of nodes would take too long."""
    model = long_paths(n, m, n_resources, seed=1)
    budget = dict.fromkeys(model.resources, limit)
    limits = resolve(model, budget)
    problem = Problem.exact(model, limits)
    diagnosis = diagnose(problem.model, problem.lattice, limits, ResourceMonitor(30))
    assert diagnosis.stuck_is_first
    assert diagnosis.stuck_at is not None
    for name, enough in diagnosis.sufficient_budget.items():
        assert solve(model, {**budget, name: enough}).status == "optimal"
        assert solve(model, {**budget, name: enough - 1}, method="labels").status == "infeasible"
    together = diagnosis.sufficient_together
    assert diagnosis.sufficient_budget or together
    if together:
        assert solve(model, {**budget, **together}).status == "optimal"


def test_each_resource_by_itself():
    b = CMDP.builder(horizon=2, start=0, resources=["a", "b", "c"])
    b.add(0, "left", outcomes=[(1, 0, [3, 1, 0])])
    b.add(0, "right", outcomes=[(0.5, 0, [2, 4, 0]), (0.5, 0, [1, 5, 0])])
    solution = solve(b.build(), {"a": 3, "b": 1, "c": 0})
    assert solution.diagnosis.least_budget == {"a": 4, "b": 2}
    assert "least feasible budget of a, with other resources unlimited, is 4" in solution.message
    assert "least feasible budget of b, with other resources unlimited, is 2" in solution.message


def test_goals_and_limits_that_are_each_to_blame():
    b = CMDP.builder(horizon=1, start=0, resources=["a", "b"], must_end_in=[1])
    b.add(0, "go", outcomes=[(1, 0, [1, 1])])
    b.add(1, "go", outcomes=[(1, 1, [0, 0])])
    diagnosis = solve(b.build(), {"a": 0, "b": 5}).diagnosis
    assert (diagnosis.goal, diagnosis.stuck_step, diagnosis.blame) == ("unreachable", 0, ("a", "must_end_in"))


def test_an_interval_is_widened_on_both_sides():
    solution = solve(catalog.tenths(2, 1, None), Budget(upper=20, lower=[10, 10]))
    assert solution.diagnosis.shortfall == {"money": 9}


def test_running_out_of_time_is_not_taken_for_no_slack_would_help():
    """Widening these limits by 1 would do, but to find that out takes solving a knapsack of real weights."""
    horizon = 30
    budget = Budget(upper=[horizon / 4] * (horizon - 1) + [-1], lower=-100)
    solution = solve(instances.paper(horizon, seed=0), budget, time_limit=0.5)
    assert solution.status == "infeasible"
    assert solution.diagnosis.shortfall.get("cost", 1) == 1


def test_the_least_budget_is_exact_where_the_limit_has_a_finer_unit_than_fits():
    """A limit that no common unit can hold is floored for solving, which must not show in what is reported."""
    b = CMDP.builder(horizon=1, start=0, resources=["x"])
    b.add(0, "pay", outcomes=[(0.5, 0, 10**17), (0.5, 0, 10**17 + 1)])
    solution = solve(b.build(), Fraction(1, 1000))
    assert solution.diagnosis.least_budget == {"x": 10**17 + 1}


def test_a_step_in_the_middle():
    b = CMDP.builder(horizon=5, start=0, resources=["x"])
    b.add(0, "walk", outcomes=[(1, 0, 0)], steps=[0, 1, 3, 4])
    b.add(0, "toll", outcomes=[(1, 0, 2)], steps=[2])
    solution = solve(b.build(), 1)
    assert solution.diagnosis.stuck_step == 2
    assert solution.diagnosis.least_budget == {"x": 2}


def test_ending_in_debt():
    solution = solve(catalog.ended(), -1)
    assert solution.diagnosis.stuck_step == 0
    assert solution.diagnosis.least_budget == {"x": 0}


@given(strategies.models())
@draws(50)
def test_the_relaxed_value_is_the_optimum_without_limits(model):
    free = oracle.optimum(model, dict.fromkeys(model.resources))
    assert relaxed_value(model) == pytest.approx(float(free), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("budget", "shortfall"),
    [
        ("-1e-300", "1e-300"),
        (Budget(upper=[1, "-1e-300"]), "1e-300"),
        (Budget(lower="2.5e-300", upper=["0.5", "0.5"]), "2.5e-300"),
    ],
)
def test_the_shortfall_is_exact_where_limits_have_a_finer_unit_than_fits(budget, shortfall):
    b = CMDP.builder(horizon=2, start=0, resources=["x"])
    b.add(0, "pay", reward=1, outcomes=[(1, 0, 1)])
    b.add(0, "wait", outcomes=[(1, 0, 0)])
    assert solve(b.build(), budget).diagnosis.shortfall == {"x": Fraction(shortfall)}


@given(strategies.problems("number upper lower box final", max_resources=1, min_resources=1, rest=False), st.data())
@draws(100)
def test_shortfalls_of_limits_between_ticks(tiny, data):
    model, budget = tiny.model, tiny.budget
    limits = resolve(model, budget)
    if not limits.resources:
        return
    small = st.integers(0, 3).map(lambda k: Fraction(k, 10**30))

    def shifted(side):
        return [None if x is None else x + data.draw(small) for x in side]

    upper, lower = shifted(limits.upper[0]), shifted(limits.lower[0])
    lower = [low if low is None or high is None else min(low, high) for high, low in zip(upper, lower, strict=True)]
    uneven = {model.resources[0]: Budget(upper=upper, lower=lower)}
    solution = solve(model, uneven)
    if solution.status != "infeasible":
        return
    extra = solution.diagnosis.shortfall.get(model.resources[0])
    if extra is None:
        return
    event("has a shortfall")
    assert oracle.feasible(model, moved(model, model.resources[0], uneven[model.resources[0]], extra))
    less = extra - Fraction(1, 10**40)
    assert not oracle.feasible(model, moved(model, model.resources[0], uneven[model.resources[0]], less))
