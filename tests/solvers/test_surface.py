"""Surfaces: every combination of budgets against brute force and against solves of its own, and what they refuse."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import oracle
import solvent
import strategies
from effort import draws
from solvent import Budget, BudgetError, LimitError, ModelError, SolventError, instances
from strategies import Tiny

#: What surfaces over limits are tested with; floors and ceilings only on resources that do not vary.
PLAIN = ("initial", "start", "end_reward", "goal")
INFINITY = math.inf


def van(budget: Any = None) -> solvent.CMDP:
    """A van that uses fuel and wears its tires, in traffic or not, with drivers' hours."""
    b = solvent.CMDP.builder(horizon=4, start="depot", resources=["fuel", "wear", "hours"], budget=budget)
    b.add("depot", "city", reward=3, outcomes=[(0.8, "depot", [2, 0, 1]), (0.2, "depot", [3, 0, 2])])
    b.add("depot", "gravel", reward=4, outcomes=[(0.5, "depot", [1, 2, 1]), (0.5, "depot", [1, 3, 1])])
    b.add("depot", "wait", outcomes=[(1, "depot", [0, 0, 1])])
    return b.build()


def nearby(surface: solvent.Surface, at: int) -> list[Fraction]:
    """Return amounts of one resource at, between, below and beyond the budgets that a table distinguishes."""
    name = surface.resources[at]
    amounts = surface.amounts(name)
    picked = [*amounts[:2], *amounts[len(amounts) // 2 : len(amounts) // 2 + 1], *amounts[-1:], Fraction(0)]
    found = {amount + move for amount in picked for move in (0, Fraction(-1, 1000), Fraction(1, 7))}
    most, flat = surface.max_budget[name], surface.flat_beyond[name]
    found |= {most, most + 5} if flat else {most}
    least = Fraction(0) if surface.vary == "remaining" else min(found)
    return sorted(amount for amount in found if least <= amount and (flat or amount <= most))


def check_values(surface: solvent.Surface, best_at: Any) -> int:
    """Compare a surface with optima in Fractions, given by a function of budgets. Return how many are feasible."""
    feasible = 0
    every = list(itertools.product(*(nearby(surface, at) for at in range(len(surface.resources)))))
    # about forty, by a step that shares no factor with the numbers of amounts
    for budgets in every[:: max(1, len(every) // 40) | 1]:
        value, best = surface.value(budgets), best_at(dict(zip(surface.resources, budgets, strict=True)))
        if best == oracle.INFEASIBLE:
            assert value == -INFINITY, budgets
        else:
            assert abs(Fraction(value) - best) <= Fraction(surface.error), budgets
            feasible += 1
    return feasible


def check_shape(surface: solvent.Surface) -> None:
    """Values never fall in any budget, and follow from those of efficient budgets."""
    table = surface.table
    for d in range(table.ndim):
        low = np.take(table, range(table.shape[d] - 1), axis=d)
        assert (low <= np.take(table, range(1, table.shape[d]), axis=d)).all()
    assert list(table.shape) == [len(surface.amounts(name)) for name in surface.resources]
    feasible = np.argwhere(table > -INFINITY)
    assert bool(len(feasible)) == bool(surface.budgets) == bool(surface.least_budgets)
    for at in feasible[:: max(1, len(feasible) // 20)]:
        budgets = tuple(surface.amounts(name)[i] for name, i in zip(surface.resources, at, strict=True))
        below = [value for e, value in zip(surface.budgets, surface.values, strict=True) if _within(e, budgets)]
        assert max(below) == surface.value(budgets)
    for e, value in zip(surface.budgets, surface.values, strict=True):
        assert surface.value(e) == value
    for one, other in itertools.combinations(surface.least_budgets, 2):
        assert not _within(one, other)
        assert not _within(other, one)


def _within(one: tuple[Fraction, ...], other: tuple[Fraction, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


@draws(60)
@given(data=st.data())
def test_every_combination_of_limits(data):
    """Two or three limits that vary, a third that is fixed or not there, goals, ends, first states, amounts spent."""
    tiny = data.draw(
        strategies.problems(features=PLAIN, min_resources=2, max_resources=3, terminals=data.draw(st.booleans()))
    )
    names, largest = _varied(tiny, data, most=Fraction(5))
    surface = solvent.frontier(tiny.model, names, largest, budget=_others(tiny, names), spent=tiny.spent)
    check_shape(surface)
    feasible = check_values(
        surface, lambda budgets: oracle.optimum(tiny.model, {**tiny.budget, **budgets}, spent=tiny.spent)
    )
    event("feasible" if feasible else "infeasible")
    for least in surface.least_budgets[:3]:
        budgets = dict(zip(names, least, strict=True))
        assert oracle.feasible(tiny.model, {**tiny.budget, **budgets}, spent=tiny.spent)
        for name in names:
            less = {**tiny.budget, **budgets, name: budgets[name] - Fraction(1, 1000)}
            assert not oracle.feasible(tiny.model, less, spent=tiny.spent)
        done = oracle.walk(tiny.model, {**tiny.budget, **budgets}, surface.policy(least).action, spent=tiny.spent)
        assert (done.stuck, done.broken, done.strayed) == ([], [], [])
        assert abs(done.value - Fraction(surface.value(least))) <= Fraction(surface.error)


@draws(40)
@given(data=st.data())
def test_every_combination_of_amounts_that_remain(data):
    """Saturating resources: the limits are fixed, and what remains of them varies."""
    features = (*PLAIN, *data.draw(st.sampled_from([("floor",), ("floor",), ("floor", "ceiling")])))
    tiny = data.draw(strategies.problems(features=features, min_resources=2, max_resources=3))
    names, _ = _varied(tiny, data, most=None)
    limits = {name: data.draw(strategies.limits) for name in names}
    budget = {**tiny.budget, **limits}
    others = {name: amount for name, amount in (tiny.spent or {}).items() if name not in names}
    for name in names:
        resource = tiny.model.resource(name)
        if resource.ceiling is not None and resource.ceiling <= limits[name]:
            with pytest.raises(ModelError, match=r"no ceiling of r\d up to its limit|at least its floor"):
                solvent.frontier(tiny.model, names, vary="remaining", budget=budget, spent=others)
            return
        if resource.floor is not None and limits[name] < resource.floor:
            with pytest.raises(ModelError, match=r"no ceiling of r\d up to its limit|at least its floor"):
                solvent.frontier(tiny.model, names, vary="remaining", budget=budget, spent=others)
            return
    surface = solvent.frontier(tiny.model, names, vary="remaining", budget=budget, spent=others)
    check_shape(surface)

    def best_at(remaining: dict[str, Fraction]) -> Any:
        spent = {**others, **{name: limits[name] - amount for name, amount in remaining.items()}}
        return oracle.optimum(tiny.model, budget, spent=spent)

    feasible = check_values(surface, best_at)
    event("feasible" if feasible else "infeasible")
    for least in surface.least_budgets[:2]:
        spent = {**others, **{name: limits[name] - amount for name, amount in zip(names, least, strict=True)}}
        done = oracle.walk(tiny.model, budget, surface.policy(least).action, spent=spent)
        assert (done.stuck, done.broken, done.strayed) == ([], [], [])


def _varied(tiny: Tiny, data: Any, most: Fraction | None) -> tuple[list[str], dict[str, Fraction] | None]:
    """Return resources that vary, in any order, and the largest amounts of some of them."""
    names = data.draw(st.permutations(tiny.model.resources))
    names = names[: data.draw(st.integers(2, len(names)))]
    for name in names:
        tiny.budget[name] = None
    if most is None:
        return names, None
    known = data.draw(st.sets(st.sampled_from(names)))
    return names, {name: data.draw(st.sampled_from([most, Fraction(1, 2), Fraction(7, 3)])) for name in sorted(known)}


def _others(tiny: Tiny, names: list[str]) -> dict[str, Any] | None:
    return {name: budget for name, budget in tiny.budget.items() if name not in names} or None


@draws(60)
@given(data=st.data())
def test_curves_that_keep_limits_of_other_resources(data):
    """One limit varies, limits of all kinds on other resources are kept: every budget against brute force."""
    tiny = data.draw(
        strategies.problems(features=PLAIN, min_resources=2, max_resources=3, terminals=data.draw(st.booleans()))
    )
    name = data.draw(st.sampled_from(tiny.model.resources))
    others = {other: budget for other, budget in tiny.budget.items() if other != name}
    most = data.draw(st.sampled_from([None, Fraction(5), Fraction(7, 3)]))
    curve = solvent.frontier(tiny.model, name, most, budget=others, spent=tiny.spent)
    assert isinstance(curve, solvent.Curve)

    def limits(budget: Fraction) -> Any:
        return {**others, name: budget}

    check_curve(curve, lambda budget: oracle.optimum(tiny.model, limits(budget), spent=tiny.spent))
    event("feasible" if curve.budgets else "infeasible")
    if curve.budgets:
        least = curve.least_budget
        assert oracle.feasible(tiny.model, limits(least), spent=tiny.spent)
        assert not oracle.feasible(tiny.model, limits(least - Fraction(1, 1000)), spent=tiny.spent)
    for budget in curve.budgets[:3]:
        done = oracle.walk(tiny.model, limits(budget), curve.policy(budget).action, spent=tiny.spent)
        assert (done.stuck, done.broken, done.strayed) == ([], [], [])
        assert abs(done.value - Fraction(curve.value(budget))) <= Fraction(curve.error)


@draws(40)
@given(data=st.data())
def test_curves_of_what_remains_that_keep_limits_of_other_resources(data):
    """What remains of one limit varies, also of a resource that saturates, and limits of others are kept."""
    tiny = data.draw(strategies.problems(features=(*PLAIN, "floor"), min_resources=2, max_resources=3))
    name = data.draw(st.sampled_from(tiny.model.resources))
    limit, resource = data.draw(strategies.limits), tiny.model.resource(name)
    budget = {**tiny.budget, name: limit}
    others = {other: amount for other, amount in (tiny.spent or {}).items() if other != name}
    if resource.floor is not None and limit < resource.floor:
        with pytest.raises(ModelError, match="at least its floor"):
            solvent.frontier(tiny.model, name, vary="remaining", budget=budget, spent=others)
        return
    curve = solvent.frontier(tiny.model, name, vary="remaining", budget=budget, spent=others)
    event("kept" if curve.fixed_limits else "no other limits")

    def best_at(remaining: Fraction) -> Any:
        return oracle.optimum(tiny.model, budget, spent={**others, name: limit - remaining})

    check_curve(curve, best_at)
    for remaining in curve.budgets[:2]:
        spent = {**others, name: limit - remaining}
        done = oracle.walk(tiny.model, budget, curve.policy(remaining).action, spent=spent)
        assert (done.stuck, done.broken, done.strayed) == ([], [], [])


def check_curve(curve: solvent.Curve, best_at: Any) -> None:
    """Compare a curve with optima in Fractions at, between, below and beyond the budgets at which it rises."""
    assert list(curve.values) == sorted(set(curve.values))
    picked = [*curve.budgets[:3], *curve.budgets[-2:], Fraction(0), curve.max_budget]
    budgets = {budget + move for budget in picked for move in (0, Fraction(-1, 1000), Fraction(1, 7))}
    for budget in sorted(budgets):
        if (curve.vary == "remaining" and budget < 0) or (budget > curve.max_budget and not curve.flat_beyond):
            continue
        value, best = curve.value(budget), best_at(budget)
        if best == oracle.INFEASIBLE:
            assert value == -INFINITY, budget
        else:
            assert abs(Fraction(value) - best) <= Fraction(curve.error), budget


@pytest.mark.parametrize("seed", range(6))
def test_a_curve_agrees_with_a_solve_for_each_budget(seed):
    """The model's own limit on the other resource is kept without being named."""
    model = instances.random(
        3, 2, horizon=4, resources=2, cost_range=(-1, 3), cost_unit=("1/3", "0.1")[seed % 2], seed=seed, budget=1
    )
    curve = solvent.frontier(model, "r0")
    assert curve.fixed_limits == {"r1": Budget(1)}
    for budget in [*curve.budgets, Fraction(-1), Fraction(1, 2), Fraction(100)]:
        solution = solvent.solve(model, {"r0": budget, "r1": 1}, method="reduction")
        if solution.status == "infeasible":
            assert curve.value(budget) == -INFINITY
        else:
            assert solution.value_lower - curve.error <= curve.value(budget) <= solution.value_upper + curve.error
            assert solvent.verify(model, curve.policy(budget), {"r0": budget, "r1": 1}).feasible


def test_a_curve_with_other_limits_has_all_that_curves_have():
    model = van({"fuel": 6, "wear": 3, "hours": 6})
    curve = solvent.frontier(model, "fuel")
    surface = solvent.frontier(model, ["fuel", "wear"])
    assert curve.fixed_limits == {"wear": Budget(3), "hours": Budget(6)}
    assert (curve.max_budget, curve.flat_beyond, curve.ignored_limits) == (12, True, ())
    for fuel in range(14):
        assert curve.value(fuel) == surface.value([fuel, 3])
    assert curve.marginal(2) == curve.value(3) - curve.value(2)
    assert curve.plot(budget=3).get_title(loc="left") == "wear at most 3, hours at most 6: optimal value by budget"
    copy = pickle.loads(pickle.dumps(curve))
    assert (copy.budgets, copy.value(5), copy.policy(5)) == (curve.budgets, curve.value(5), curve.policy(5))
    ignoring = solvent.frontier(model, "fuel", ignore_limits=True)
    assert (ignoring.fixed_limits, ignoring.ignored_limits) == ({}, ("wear: at most 3", "hours: at most 6"))
    assert ignoring.value(12) > curve.value(12)
    for budget in ({"wear": 9}, {"wear": 9, "hours": 6}):
        assert solvent.frontier(model, "fuel", budget=budget).value(6) == surface.value([6, 9])
    left = solvent.frontier(model, "fuel", vary="remaining", budget=6, spent={"hours": 1})
    assert left.value(4) == pytest.approx(solvent.solve(model, spent={"fuel": 2, "hours": 1}).value)
    kept = solvent.frontier(model, "fuel", budget={"wear": 9}, ignore_limits=True)
    assert (kept.fixed_limits, kept.ignored_limits) == ({"wear": Budget(9)}, ("hours: at most 6",))


def test_resources_that_are_not_named_have_the_limits_of_the_model():
    model = van({"fuel": 6, "wear": 3, "hours": 6})
    surface = solvent.frontier(model, ["hours", "fuel"], vary="remaining", budget={"fuel": 7})
    assert surface.fixed_limits == {"wear": Budget(3)}
    spent = {"fuel": 4, "hours": 1}
    best = solvent.solve(model, {"fuel": 7, "wear": 3, "hours": 6}, spent=spent)
    assert surface.value({"fuel": 3, "hours": 5}) == pytest.approx(best.value)
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["a", "b", "c", "d"], budget=dict.fromkeys("abcd", 1))
    b.add(0, "go", reward=1, outcomes=[(1, 0, [1, 1, 1, 1])])
    b.add(0, "rest", outcomes=[(1, 0, [0, 0, 0, 0])])
    surface = solvent.frontier(b.build(), ["a", "b"], budget={"c": 5})
    assert surface.fixed_limits == {"c": Budget(5), "d": Budget(1)}
    assert surface.value([2, 2]) == 1


@pytest.mark.parametrize("seed", range(6))
def test_every_combination_agrees_with_a_solve_of_its_own(seed):
    model = instances.random(
        3, 2, horizon=4, resources=2, cost_range=(-1, 3), cost_unit=("1/3", "0.1")[seed % 2], seed=seed
    )
    surface = solvent.frontier(model, ["r1", "r0"])
    assert surface.flat_beyond == {"r1": True, "r0": True}
    amounts = [surface.amounts(name) for name in surface.resources]
    for budgets in itertools.product(amounts[0][::2], amounts[1][::2]):
        solution = solvent.solve(model, dict(zip(surface.resources, budgets, strict=True)))
        if solution.status == "infeasible":
            assert surface.value(budgets) == -INFINITY
        else:
            assert (
                solution.value_lower - surface.error <= surface.value(budgets) <= solution.value_upper + surface.error
            )


def test_least_budgets_are_the_pareto_front():
    model = van()
    surface = solvent.frontier(model, ["fuel", "wear"])
    assert surface.least_budgets == ((0, 0),)
    b = solvent.CMDP.builder(horizon=3, start=0, resources=["fuel", "wear"])
    b.add(0, "road", outcomes=[(1, 0, ["1/3", "0.1"])])
    b.add(0, "gravel", outcomes=[(1, 0, [0, 2])])
    b.add(0, "detour", outcomes=[(1, 0, [3, 0])])
    surface = solvent.frontier(b.build(), ["fuel", "wear"])
    front = set(surface.least_budgets)
    spent = {
        (i * Fraction(1, 3) + 3 * k, i * Fraction(1, 10) + 2 * (3 - i - k)) for i in range(4) for k in range(4 - i)
    }
    assert front == {one for one in spent if not any(_within(other, one) and other != one for other in spent)}
    assert list(surface.least_budgets) == sorted(front)
    assert surface.curve("fuel", at={"wear": "0.3"}).least_budget == 1
    assert surface.curve("fuel", at={"wear": "0.2"}).least_budget == Fraction(11, 3)


def test_values_marginals_and_policies():
    model = van({"fuel": 6, "wear": 6, "hours": 6})
    surface = solvent.frontier(model, ["fuel", "wear"], max_budget={"fuel": 12, "wear": 9})
    assert surface.fixed_limits == {"hours": Budget(6)}
    assert surface.ignored_limits == ()
    assert surface.flat_beyond == {"fuel": True, "wear": False}
    at = {"fuel": 5, "wear": 4}
    assert surface.value(at) == surface.value([5, 4]) == surface.value((5.9, "4.5"))
    assert surface.value(at) == pytest.approx(solvent.solve(model, {**at, "hours": 6}).value)
    gains = surface.marginal(at)
    assert list(gains) == ["fuel", "wear"]
    for name in gains:
        more = solvent.solve(model, {**at, "hours": 6, name: at[name] + 1}).value
        assert gains[name] == pytest.approx(more - surface.value(at))
    assert surface.marginal(at, extra=2)["wear"] == surface.value([5, 6]) - surface.value([5, 4])
    assert list(surface.marginal(at, extra={"wear": 2})) == ["wear"]
    assert surface.marginal([-1, 9], extra={"fuel": 1}) == {"fuel": INFINITY}
    report = solvent.verify(model, surface.policy(at), {**at, "hours": 6})
    assert report.feasible
    assert report.value == pytest.approx(surface.value(at))
    beyond = surface.policy([50, 4])
    assert solvent.verify(model, beyond, {"fuel": 50, "wear": 4, "hours": 6}).value == pytest.approx(
        surface.value([50, 4])
    )
    ignoring = solvent.frontier(model, ["fuel", "wear"], ignore_limits=True)
    assert ignoring.ignored_limits == ("hours: at most 6",)
    assert ignoring.value([12, 12]) > surface.value([12, 9])
    instead = solvent.frontier(model, ["fuel", "wear"], budget={"hours": None})
    assert instead.value([12, 12]) == ignoring.value([12, 12])
    assert (instead.fixed_limits, instead.ignored_limits) == ({}, ())


def test_any_limits_of_other_resources_are_kept():
    for hours in (Budget.final(5), Budget(upper=[1, 3, 4, 6]), Budget(upper=6, lower=1)):
        model = van({"fuel": 6, "wear": 6, "hours": hours})
        surface = solvent.frontier(model, ["wear", "fuel"])
        for budgets in ((0, 0), (3, 3), (6, 6), (12, 12)):
            solution = solvent.solve(model, {"wear": budgets[0], "fuel": budgets[1], "hours": hours})
            assert surface.value(budgets) == pytest.approx(solution.value)


def test_spent_before_the_first_step():
    model = van()
    surface = solvent.frontier(model, ["fuel", "wear"], budget={"hours": 5}, spent={"fuel": "1/2", "hours": 1})
    for budgets in ((0, 3), ("1/2", 0), (3, 3), ("7/2", 2), ("9/2", "5/3")):
        limits = {"fuel": budgets[0], "wear": budgets[1], "hours": 5}
        solution = solvent.solve(model, limits, spent={"fuel": "1/2", "hours": 1})
        assert surface.value(budgets) == pytest.approx(solution.value)
        if solution.status == "optimal":
            policy = surface.policy(budgets)
            assert solvent.verify(model, policy, limits, spent={"fuel": "1/2", "hours": 1}).feasible


def test_cuts():
    model = van()
    surface = solvent.frontier(model, ["fuel", "wear"], {"fuel": 8, "wear": 6}, budget={"hours": 6})
    cut = surface.curve("fuel", at={"wear": 3})
    assert (cut.resource, cut.max_budget, cut.flat_beyond, cut.error) == ("fuel", 8, False, surface.error)
    assert cut.fixed_limits == {"hours": Budget(6), "wear": Budget(3)}
    for fuel in range(9):
        assert cut.value(fuel) == surface.value({"fuel": fuel, "wear": 3})
    assert list(cut.values) == sorted(set(cut.values))
    assert [cut.value(budget) for budget in cut.budgets] == list(cut.values)
    assert solvent.verify(model, cut.policy(5), {"fuel": 5, "wear": 3, "hours": 6}).value == pytest.approx(cut.value(5))
    none = surface.curve("fuel", at={"wear": -1})
    assert (none.least_budget, none.value(5), len(none)) == (None, -INFINITY, 0)
    with pytest.raises(SolventError, match="no policy is feasible with a budget of 5 of fuel: no budget up to 8 is"):
        none.policy(5)
    with pytest.raises(BudgetError, match=r"at: expected a budget of each of 'wear', found \{'hours': 3\}"):
        surface.curve("fuel", at={"hours": 3})
    with pytest.raises(
        BudgetError, match=r"resource: expected a resource of the surface .'fuel', 'wear'., found 'feul'"
    ):
        surface.curve("feul", at={"wear": 3})
    assert "wear at most 3" in cut.plot().get_title(loc="left")


def test_a_cut_trains_agents_within_all_limits():
    from solvent.gym import BudgetWrapper, ModelEnv

    model = van()
    surface = solvent.frontier(model, ["fuel", "wear"], budget={"hours": 6})
    env = BudgetWrapper(ModelEnv(model), budget=5, model=surface.curve("fuel", at={"wear": 3}))
    assert env.budget_resources if hasattr(env, "budget_resources") else True
    _, info = env.reset(seed=1)
    assert len(info["remaining"]) == 3


def test_three_resources():
    model = van()
    surface = solvent.frontier(model, ["hours", "fuel", "wear"], {"wear": 5})
    assert surface.table.ndim == 3
    check_shape(surface)
    for budgets in itertools.product((3, 4, 7), (0, 3, 5), (0, 2, 5)):
        solution = solvent.solve(model, dict(zip(surface.resources, budgets, strict=True)))
        assert surface.value(budgets) == pytest.approx(solution.value)
    part = surface.section(["wear", "fuel"], at={"hours": 5})
    assert part.shape == (len(surface.amounts("wear")), len(surface.amounts("fuel")))
    assert part[2, 3] == surface.value({"wear": 2, "fuel": 3, "hours": 5})


def test_nothing_is_feasible():
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["fuel", "wear"])
    b.add(0, "go", reward=1, outcomes=[(1, 0, [3, 1])])
    model = b.build()
    for most in ({"fuel": 5}, {"fuel": 5, "wear": 1}, {"fuel": -2}):
        surface = solvent.frontier(model, ["fuel", "wear"], most)
        assert (surface.least_budgets, surface.budgets, len(surface), surface.error) == ((), (), 0, 0.0)
        assert surface.value([most["fuel"], 1]) == -INFINITY
        assert surface.marginal([-3, 0]) == {"fuel": 0.0, "wear": 0.0}
        assert repr(surface).endswith("0 points, infeasible)")
        with pytest.raises(
            SolventError, match="no policy is feasible with budgets of -3 of fuel, 1 of wear: no budgets"
        ):
            surface.policy([-3, 1])
        assert surface.curve("wear", at={"fuel": -3}).least_budget is None
        surface.plot()
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["fuel", "wear"], must_end_in=[1], states=[0, 1])
    b.add(0, "go", outcomes=[(1, 0, [3, 1])])
    b.add(1, "go", outcomes=[(1, 1, [3, 1])])
    assert solvent.frontier(b.build(), ["fuel", "wear"]).least_budgets == ()


def test_infeasible_budgets_come_with_a_remedy():
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["fuel", "wear"])
    b.add(0, "road", reward=1, outcomes=[(1, 0, [3, 1])])
    b.add(0, "gravel", reward=1, outcomes=[(1, 0, [1, 2])])
    surface = solvent.frontier(b.build(), ["fuel", "wear"])
    assert surface.least_budgets == ((2, 4), (4, 3), (6, 2))
    message = r"of 3 of fuel, 3\.5 of wear: with the others as they are, 4 of fuel or 4 of wear is enough"
    with pytest.raises(SolventError, match=message):
        surface.policy([3, 3.5])
    with pytest.raises(SolventError, match="of 1 of fuel, 1 of wear: feasible are, for example, 2 of fuel, 4 of wear"):
        surface.policy([1, 1])


def test_budgets_below_zero():
    """Costs that are gains: the least budgets are covering constraints."""
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["debt", "wear"])
    b.add(0, "earn", reward=1, outcomes=[(1, 0, [-2, 1])])
    b.add(0, "rest", reward=2, outcomes=[(1, 0, [-1, 0])])
    surface = solvent.frontier(b.build(), ["debt", "wear"])
    assert surface.least_budgets == ((-2, 1), (-1, 0))
    assert surface.value([-2, 1]) == 3
    assert surface.value([-2, 0]) == -INFINITY


def test_largest_budgets_between_ticks():
    """A largest budget with many digits does not make the table finer."""
    model = van()
    surface = solvent.frontier(model, ["fuel", "wear"], {"fuel": "7.123456789", "wear": 5})
    assert surface.table.shape == (8, 6)
    assert surface.max_budget["fuel"] == Fraction("7.123456789")
    assert surface.value(["7.1234", 5]) == surface.value([7, 5])
    with pytest.raises(BudgetError, match=r"budget of fuel: expected at most 7.123456789, found 7.2; compute the surf"):
        surface.value(["7.2", 5])


def test_values_within_rounding_errors_are_equal():
    """Rewards that add up differently in another order make no efficient budgets of their own."""
    b = solvent.CMDP.builder(horizon=3, start=0, resources=["fuel", "wear"])
    for reward, action in ((0.1, "a"), (0.2, "b"), (0.3, "c"), (0.6, "d")):
        outcomes = [(1, 0, [round(10 * reward), 1])]
        b.add(0, action, reward=reward, outcomes=outcomes)
    surface = solvent.frontier(b.build(), ["fuel", "wear"])
    assert len(surface) == len({round(float(value), 9) for value in surface.values})


def test_surfaces_are_pickled_and_printed():
    surface = solvent.frontier(van({"fuel": 6, "wear": 6, "hours": 6}), ["fuel", "wear"])
    copy = pickle.loads(pickle.dumps(surface))
    assert (copy.budgets, copy.values.tolist(), copy.least_budgets) == (
        surface.budgets, surface.values.tolist(), surface.least_budgets
    )  # fmt: skip
    assert copy.value([5, 3]) == surface.value([5, 3])
    assert copy.policy([5, 3]) == surface.policy([5, 3])
    assert (
        repr(surface) == repr(copy) == f"Surface(fuel up to 12, wear up to 12, {len(surface)} points, 1 least budget)"
    )
    with pytest.raises(ValueError, match="read-only"):
        surface.table[0, 0] = 1


def test_frames(monkeypatch):
    monkeypatch.setattr("solvent.solvers.surface.import_pandas", lambda: SimpleNamespace(DataFrame=dict))
    surface = solvent.frontier(van(), ["fuel", "wear"])
    frame = surface.to_frame()
    assert list(frame) == ["budget_fuel", "budget_wear", "value"]
    assert list(zip(frame["budget_fuel"], frame["budget_wear"], strict=True)) == list(surface.budgets)
    assert frame["value"].tolist() == surface.values.tolist()
    assert frame["budget_fuel"].dtype == int
    every = surface.to_frame(every=True)
    assert len(every["value"]) == surface.table.size
    for fuel, wear, value in zip(*every.values(), strict=True):
        assert surface.value([fuel, wear]) == value
    thirds = solvent.frontier(instances.random(resources=2, cost_unit="1/3", seed=3), ["r0", "r1"]).to_frame()
    assert thirds["budget_r0"].dtype == float
    assert 3 * thirds["budget_r0"][0] == pytest.approx(round(3 * thirds["budget_r0"][0]))


def test_one_resource_is_a_curve():
    model = instances.knapsack([60, 100, 120], [10, 20, 30])
    for names in (["weight"], ("weight",), "weight", None):
        curve = solvent.frontier(model, names, {"weight": 50})
        assert isinstance(curve, solvent.Curve)
        assert curve.value(50) == 220


def both(model: solvent.CMDP, *given: Any, **options: Any) -> solvent.Surface:
    return solvent.frontier(model, ["fuel", "wear"], *given, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: solvent.frontier(m, []), r"resource: expected the name of a resource, or several names, found \[\]"),
        (lambda m: solvent.frontier(m, ["fuel", "feul"]), "did you mean 'fuel'"),
        (lambda m: solvent.frontier(m, ["fuel", "fuel"]), "resource: expected each resource once, found 'fuel' twice"),
        (lambda m: solvent.frontier(m), "pass resource='fuel', or several of them for a surface"),
        (
            lambda m: both(m, 3),
            "max_budget: expected an amount of each resource by name, as in {'fuel': ..., 'wear': ...}, found 3",
        ),
        (
            lambda m: both(m, {"hours": 3}),
            r"max_budget: expected resources that vary \('fuel', 'wear'\), found 'hours'",
        ),
        (lambda m: both(m, {"fuel": "lots"}), "max_budget, fuel: expected a finite number"),
        (
            lambda m: both(m, budget={"fuel": 3, "hours": 2}),
            r"budget: expected resources that do not vary \('hours'\), found 'fuel'; pass max_budget=",
        ),
        (lambda m: both(m, budget=3), "budget: expected limits by name, of 'hours', found 3; pass max_budget="),
        (
            lambda m: solvent.frontier(m, ["fuel", "wear", "hours"], budget={"hours": 3}),
            "budget: expected none, as all resources vary, found a limit of 'hours'; pass max_budget=",
        ),
        (
            lambda m: both(m, budget={"hurs": 3}),
            r"budget: expected resources that do not vary \('hours'\), found 'hurs'; did you mean 'hours'",
        ),
        (
            lambda m: both(m, vary="remaining", budget={"hurs": 3}),
            r"budget: expected resources of the model \('fuel', 'wear', 'hours'\), found 'hurs'; did you mean 'hours'",
        ),
        (
            lambda m: solvent.frontier(m, "fuel", budget={"wear": 3}),
            "budget: expected a limit for resource 'hours', found none",
        ),
        (
            lambda m: both(m, vary="remaining"),
            "frontier: expected a limit of fuel, of which a part remains, found none; pass budget=",
        ),
        (
            lambda m: solvent.frontier(
                m, ["fuel", "wear"], vary="remaining", budget={"fuel": 3, "wear": 3, "hours": None}, spent={"fuel": 1}
            ),
            "spent: expected amounts of resources that do not vary, with vary=.remaining., found an amount of 'fuel'",
        ),
        (lambda m: both(m, vary="both"), "vary: expected one of budget, remaining"),
        (lambda m: both(m).value([1]), "budget: expected a budget of each of 'fuel', 'wear',"),
        (lambda m: both(m).value(3), "budget: expected a budget of each of 'fuel', 'wear', by"),
        (lambda m: both(m).value("35"), "budget: expected a budget of each of"),
        (lambda m: both(m).value({"fuel": 1}), "budget: expected a budget of 'wear', found none"),
        (
            lambda m: both(m).value({"fuel": 1, "war": 2}),
            r"budget: expected a resource of the surface .*, found 'war'; did you mean 'wear'",
        ),
        (lambda m: both(m).value([1, "much"]), "budget of wear: expected a finite number"),
        (lambda m: both(m).marginal([1, 1], {"hours": 1}), "extra: expected a resource of"),
    ],
)  # fmt: skip
def test_mistakes(call, message):
    with pytest.raises(ModelError, match=message):
        call(van())


def test_limits_that_a_surface_cannot_keep():
    for fuel, text in ((Budget(upper=5, lower=0), "fuel: between 0 and 5"), (Budget.final(5), "at most 5 at the end")):
        model = van({"fuel": fuel, "wear": 5, "hours": None})
        with pytest.raises(
            ModelError,
            match=rf"frontier: expected one anytime limit, or none, on each resource that varies.*{text}.*which keeps",
        ):
            solvent.frontier(model, ["fuel", "wear"])
        surface = solvent.frontier(model, ["fuel", "wear"], ignore_limits=True)
        assert len(surface.ignored_limits) == 1
        assert surface.value([12, 12]) > 0


def test_limits_of_resources_that_saturate_do_not_vary_together():
    b = solvent.CMDP.builder(horizon=3, start=0, resources=[solvent.Resource("fuel", floor=0), "wear"], budget=None)
    b.add(0, "go", reward=1, outcomes=[(1, 0, [2, 1])])
    b.add(0, "fill", outcomes=[(1, 0, [-4, 0])])
    model = b.build()
    with pytest.raises(
        ModelError,
        match=r"frontier: expected resources without a floor or a ceiling if several limits vary, found 'fuel' with "
        r"floor 0; use vary=\"remaining\" with budget=... to vary what remains of fixed limits, or solve",
    ):
        solvent.frontier(model, ["fuel", "wear"])
    with pytest.raises(ModelError, match="a floor or a ceiling if limits of other resources are kept, found 'fuel'"):
        solvent.frontier(model, "fuel", budget={"wear": 2})
    surface = solvent.frontier(model, ["fuel", "wear"], vary="remaining", budget={"fuel": 4, "wear": 9})
    assert surface.max_budget == {"fuel": 4, "wear": 3}
    assert surface.flat_beyond == {"fuel": False, "wear": True}
    for fuel, wear in itertools.product((0, 1, 2, 4), (0, 1, 2, 3)):
        best = oracle.optimum(model, {"fuel": 4, "wear": 9}, spent={"fuel": 4 - fuel, "wear": 9 - wear})
        assert surface.value([fuel, wear]) == best
    with pytest.raises(BudgetError, match="fuel remaining: expected at least 0, found -1; solve"):
        surface.value([-1, 1])
    with pytest.raises(BudgetError, match="max_budget, fuel: expected at most 4, found 5; that remains at the floor"):
        solvent.frontier(model, ["fuel", "wear"], {"fuel": 5}, vary="remaining", budget={"fuel": 4, "wear": 9})


def test_continuous_costs():
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["fuel", "wear", "hours"])
    b.add(0, "go", reward=1, outcomes=[(1, 0, [1, 1, solvent.distribution("uniform", low=0, high=1)])])
    model = b.build()
    assert solvent.frontier(model, ["fuel", "wear"]).value([2, 2]) == 2
    for names, budget in ((["fuel", "hours"], None), (["fuel", "wear"], {"hours": 3})):
        with pytest.raises(ModelError, match="cost of hours: expected costs of finite support, which a surface needs"):
            solvent.frontier(model, names, budget=budget)


def test_limits_on_time_and_memory():
    model = instances.random(resources=2, horizon=30, cost_range=(0, 30), seed=1)
    with pytest.raises(
        LimitError, match=r"the surface was not finished: the time limit of .*; raise the limit or lower"
    ):
        solvent.frontier(model, ["r0", "r1"], time_limit=1e-9)
    with pytest.raises(LimitError, match=r"the surface was not finished: .* more than the memory limit of 1 MB"):
        solvent.frontier(model, ["r0", "r1"], memory_limit="1MB")
    fine = instances.random(resources=2, real_costs=True, seed=1)
    with pytest.raises(LimitError, match=r"the values of [\d,]+ budgets would need .* lower max_budget"):
        solvent.frontier(fine, ["r0", "r1"])


def test_progress_is_reported():
    seen = []
    solvent.frontier(van(), ["fuel", "wear"], progress=lambda phase, done, total, facts: seen.append(phase))
    assert seen
