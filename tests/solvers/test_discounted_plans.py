"""Planning for ever: the guarantee on infinite histories, bounds on the optimum, and what is said of the tail."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from discounted_models import discounted, tail_sums, walk
from effort import draws
from solvent import CMDP, Budget, BudgetError, DiscountedCMDP, DiscountedPolicy, ModelError, Status
from solvent.solvers.finite import Request
from solvent.solvers.transforms.base import Transform
from solvent.solvers.transforms.discounted import Discounting, PlannedSteps, _Task, plan_finite, read_limits
from solvent.solvers.transforms.tail import make_rules

#: Steps after which the reference stops; sums of costs then fit 64 bits.
LONG = 14


@st.composite
def problems(draw: st.DrawFn, **options: Any) -> tuple[DiscountedCMDP, dict[str, Any], Fraction]:
    """A model, limits on one or both sides of each resource, and an epsilon."""
    model = draw(discounted(**options))
    limit = st.sampled_from([Fraction(x) for x in ("0", "1", "2", "5/2", "4", "1/3")])
    budget: dict[str, Any] = {}
    for name in model.resources:
        kind = draw(st.sampled_from(["upper", "upper", "upper", "lower", "both"]))
        upper, lower = draw(limit), -draw(limit) - 1
        budget[name] = Budget(upper=None if kind == "lower" else upper, lower=None if kind == "upper" else lower)
    return model, budget, draw(st.sampled_from([Fraction(1, 2), Fraction(2), Fraction(1, 5)]))


def widened(budget: dict[str, Any], by: Fraction) -> dict[str, Budget]:
    return {
        name: Budget(
            upper=None if each.upper is None else each.upper + by, lower=None if each.lower is None else each.lower - by
        )
        for name, each in budget.items()
    }


def kept(spent: dict[str, Fraction], budget: dict[str, Budget]) -> bool:
    return all(
        (each.upper is None or spent[name] <= each.upper) and (each.lower is None or spent[name] >= each.lower)
        for name, each in budget.items()
    )


def reference(model: DiscountedCMDP, budget: dict[str, Any]) -> tuple[float, float]:
    """Bounds on the optimum from an exact solve of many steps: with all that the tail could add, and without."""
    first = model.unrolled(LONG)
    reward = model.base.row_reward
    rest = float(model.discount**LONG) / (1 - float(model.discount))
    tails = [model.tail_range(name, LONG) for name in model.resources]
    most = max(max(-low, high) for low, high in tails if low is not None)
    try:
        tight = solvent.solve(first, widened(budget, -most), method="reduction").value + rest * min(0.0, reward.min())
    except BudgetError:  # nothing is left between the limits
        tight = -math.inf
    return tight, solvent.solve(first, budget, method="reduction").value + rest * max(0.0, reward.max())


@given(problems(), st.booleans(), st.sampled_from(["auto", "reduction"]), st.integers(0, 1000))
@draws(60)
def test_the_guarantee_holds_for_ever(
    problem: tuple[DiscountedCMDP, dict[str, Any], Fraction], strict: bool, method: str, seed: int
) -> None:
    model, budget, epsilon = problem
    solution = solvent.solve(model, budget, epsilon=epsilon, strict=strict, method=method)
    lowest, highest = reference(model, budget)
    slack = 1e-9 * (1 + abs(lowest) if math.isfinite(lowest) else 1)
    assert solution.value_upper >= lowest - slack
    assert solution.tail is not None
    if solution.status is Status.INFEASIBLE:
        assert lowest == -math.inf
        return
    if solution.status is Status.NOT_FOUND:
        assert strict
        assert solution.message.startswith("not_found: no policy was found that never exceeds the budget")
        return
    assert solution.status in ((Status.OPTIMAL, Status.FEASIBLE) if strict else (Status.OPTIMAL, Status.RELAXED))
    allowed = widened(budget, Fraction(0) if solution.status is not Status.RELAXED else epsilon)
    report = solvent.verify(model, solution.policy, allowed)
    assert report.feasible
    assert report.value == pytest.approx(solution.value, abs=1e-9)
    for name, each in budget.items():
        assert solution.excess[name] <= (epsilon if solution.status is Status.RELAXED else 0)
        excess = solvent.verify(model, solution.policy, budget).excess[name]
        assert excess is not None
        assert excess <= solution.excess[name]
        if each.upper is not None:
            assert report.worst_spent[name] <= solution.worst_spent[name]
    if solution.status is Status.RELAXED:
        assert solution.value_lower == -math.inf
        assert solution.value >= lowest - slack
    else:
        assert solution.value_lower <= solution.value <= solution.value_upper
        assert solution.value_lower == pytest.approx(solution.value, rel=1e-9)
        assert solution.value <= highest + slack
    rng = np.random.default_rng(seed)
    for _ in range(5):
        agent = solution.policy.agent()
        for spent in walk(agent, model, report.steps + 12, rng):
            assert kept(spent, allowed)
            assert all(spent[name] <= report.worst_spent[name] for name in spent)
            assert all(spent[name] >= report.least_spent[name] for name in spent)
        assert agent.spent == spent


@given(discounted(discounts=("1/2", "3/4"), rest=False), st.sampled_from(["upper", "lower", "both"]))
@draws(40)
def test_rules_for_ever_say_what_they_can_spend(model: DiscountedCMDP, sides: str) -> None:
    upper, lower = (Fraction(1) if sides != "lower" else None), (Fraction(-1) if sides != "upper" else None)
    for rule in make_rules(model, dict.fromkeys(model.resources, (upper, lower))).rules:
        for d in range(model.n_resources):
            least = rule.least_DS[d]
            assert least is not None
            for state in range(model.n_states):
                sums = tail_sums(model, d, state, 5, rule.action_S)
                assert least[state] <= min(sums) <= max(sums) <= rule.most_DS[d][state]
                # and not by much too wide: what five steps leave out, and the grid
                rest = model.tail_range(d, 5)
                assert rest[0] is not None
                assert rule.most_DS[d][state] <= max(sums) + rest[1] + Fraction(1, 100)
                assert least[state] >= min(sums) + rest[0] - Fraction(1, 100)


@given(discounted(rest=False))
@draws(40)
def test_the_first_rule_earns_most(model: DiscountedCMDP) -> None:
    rules = make_rules(model, dict.fromkeys(model.resources, (Fraction(1), None)))
    value = np.zeros(model.n_states)
    base, g = model.base, float(model.discount)
    for _ in range(60):
        value = np.array(
            [
                max(
                    (
                        base.row_reward[r]
                        + g * sum(o.probability * value[base.states.index(o.next_state)] for o in base.outcomes(r))
                        for r in base.rows(0, s)
                    ),
                    default=0.0,
                )
                for s in range(model.n_states)
            ]
        )
    assert rules.rules[0].value_S == pytest.approx(value, abs=1e-9)
    assert rules.slack < 1e-9
    for rule in rules.rules[1:]:
        assert (rule.value_S <= rules.rules[0].value_S + 1e-9).all()


def test_a_careful_rule_spends_the_least_and_earns_what_it_can() -> None:
    b = CMDP.builder(discount="1/2", start="a", resources=["x", "y"])
    b.add("a", "dear", reward=9, outcomes=[(1, "a", {"x": 3})])
    b.add("a", "fair", reward=2, outcomes=[(0.5, "a", {"x": 1}), (0.5, "a", {"x": -1})])
    b.add("a", "same", reward=1, outcomes=[(1, "a", {"x": 1})])
    b.add("a", "other", reward=5, outcomes=[(1, "a", {"x": 2, "y": 4})])
    model = b.build()
    best, careful = make_rules(model, {"x": (Fraction(1), None)}).rules
    assert (best.name, model.actions[best.action_S[0]], best.most_DS) == ("best reward", "dear", ((6,), (0,)))
    assert (careful.name, model.actions[careful.action_S[0]]) == ("careful with x", "fair")
    assert (careful.most_DS, careful.least_DS) == (((2,), (0,)), ((-2,), (0,)))
    assert careful.value_S == pytest.approx([4])
    names = [
        rule.name for rule in make_rules(model, {"x": (Fraction(1), Fraction(-9)), "y": (Fraction(1), None)}).rules
    ]
    assert names[:2] == ["best reward", "careful with x"]


def walker(discount: Any = "1/2", budget: Any = 3) -> DiscountedCMDP:
    b = CMDP.builder(discount=discount, start="home", resources=["fuel"], budget=budget)
    b.add("home", "go", reward=1, outcomes=[(1, "home", 2)])
    b.add("home", "rest", outcomes=[(1, "home")])
    return b.build()


@pytest.mark.parametrize("epsilon", ["1/3", 0.01, 1, 100])
def test_the_effective_horizon_leaves_half_of_epsilon_for_the_tail(epsilon: Any) -> None:
    model = walker(discount=0.9)
    solution = solvent.solve(model, epsilon=epsilon)
    assert solution.tail is not None
    share = solvent.core.exact.exact(epsilon) / 2
    steps = solution.tail.steps
    assert steps == model.effective_horizon(share)
    assert solution.tail.cost == {"fuel": Fraction(9, 10) ** steps * 20}
    assert solution.tail.cost["fuel"] <= share or steps == 1
    assert steps == 1 or model.tail_range("fuel", steps - 1)[1] > share


def test_what_is_said_of_a_relaxed_policy() -> None:
    solution = solvent.solve(walker(), epsilon=0.25)
    assert solution.status is Status.RELAXED
    assert solution.message == (
        "relaxed: worth at least the optimum, and never over budget by more than fuel 0.125; 5 steps are planned, and "
        "the tail after them adds at most 0.125 of fuel"
    )
    assert solution.tail is not None
    assert (solution.tail.steps, solution.tail.cost, solution.tail.refund) == (5, {"fuel": Fraction(1, 8)}, {})
    assert solution.tail.reward_low <= 1 / 16 <= solution.tail.reward_high
    assert solution.tail.reward_low == pytest.approx(solution.tail.reward_high, rel=1e-9)
    # going for ever from step 0 would cost 4, so that something must be left out; 3/2 is the most without being over
    assert solution.value == pytest.approx(1.5625)
    assert solution.value <= solution.value_upper == pytest.approx(1.5625)
    assert isinstance(solution.policy, DiscountedPolicy)


def test_what_is_said_of_a_strict_policy() -> None:
    solution = solvent.solve(walker(), epsilon=0.25, strict=True)
    assert solution.status is Status.FEASIBLE
    assert solution.message == (
        "feasible: never over budget; 5 steps are planned, and the tail after them adds at most 0.125 of "
        "fuel, which is set aside"
    )
    assert solution.value >= solution.value_lower == pytest.approx(1.5)
    assert solution.value_upper == pytest.approx(1.5625)
    assert solution.worst_spent == {"fuel": 3}
    assert solution.excess == {"fuel": 0}


def test_the_bounds_close_as_epsilon_shrinks() -> None:
    wide, close = (solvent.solve(walker("3/4", "7/2"), epsilon=e, strict=True) for e in (1, 0.01))
    assert close.gap < 0.02 < wide.gap
    assert close.value >= wide.value


def test_a_budget_that_cannot_bind_gives_the_optimum() -> None:
    solution = solvent.solve(walker(budget=4), epsilon=1)
    assert solution.status is Status.OPTIMAL
    assert solution.message.startswith("optimal: worth at least the optimum, and never over budget; ")
    assert solution.value_lower <= 2 <= solution.value_upper
    assert solution.value_lower == pytest.approx(solution.value_upper, rel=1e-9)
    assert solvent.verify(walker(budget=4), solution.policy).feasible
    assert solvent.solve(walker(budget=4), epsilon=1, strict=True).status is Status.OPTIMAL
    free = solvent.solve(walker(), {"fuel": None}, epsilon=1)
    assert (free.status, free.value) == (Status.OPTIMAL, pytest.approx(2))
    assert free.message.endswith("1 steps are planned, and the tail after them adds at most nothing limited")


def test_the_steps_are_doubled_until_there_is_room_for_the_reserve() -> None:
    # x and y must take turns, about; a rule that takes one of them for ever fits only after four steps
    b = CMDP.builder(discount="1/2", start=0, resources=["x", "y"], budget={"x": "83/60", "y": "43/60"})
    b.add(0, "take x", reward=1, outcomes=[(1, 0, {"x": 1})])
    b.add(0, "take y", outcomes=[(1, 0, {"y": 1})])
    model = b.build()
    for method in ("reduction", "auto"):
        relaxed = solvent.solve(model, epsilon=1, method=method)
        assert relaxed.tail is not None
        assert (relaxed.status, relaxed.tail.steps) == (Status.RELAXED, 2)
    strict = solvent.solve(model, epsilon=1, method="reduction", strict=True)
    assert strict.tail is not None
    assert (strict.status, strict.tail.steps) == (Status.FEASIBLE, 4)
    assert strict.tail.cost == {"x": Fraction(1, 8), "y": Fraction(1, 8)}
    assert solvent.verify(model, strict.policy).feasible
    agent = strict.policy.agent()
    taken = []
    for _ in range(6):
        taken.append(agent.act())
        agent.observe(0, {"x" if taken[-1] == "take x" else "y": 1})
    assert taken[:3] == ["take x", "take y", "take x"]
    assert all(amount is not None and amount >= 0 for amount in agent.remaining.values())


def test_rounding_is_made_finer_until_there_is_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Fraction] = []

    def spied(made: PlannedSteps, epsilons: dict[str, Fraction], *, strict: bool) -> solvent.Solution:
        tried.append(epsilons["x"])
        return plan_finite(made, epsilons, strict=strict)

    monkeypatch.setattr("solvent.solvers.transforms.discounted.plan_finite", spied)
    # at least 1.5 must be spent in all, and of a budget of 1.51 coarse rounding leaves no room
    b = CMDP.builder(discount="1/3", start=0, resources=["x"], budget="1.51")
    b.add(0, 0, reward=1, outcomes=[(1, 0, 1)])
    b.add(0, 1, reward=2, outcomes=[(1, 0, "11/10")])
    model = b.build()
    solution = solvent.solve(model, epsilon=0.05, strict=True)
    assert solution.status is Status.FEASIBLE
    assert solvent.verify(model, solution.policy).feasible
    relaxed, *strict = tried
    assert strict == [relaxed, relaxed / 2]


def test_a_strict_policy_that_is_not_found_is_no_proof_that_there_is_none() -> None:
    b = CMDP.builder(discount="2/3", start=0, resources=["x"], budget=3)
    b.add(0, 0, reward=1, outcomes=[(1, 0, 1)])
    b.add(0, 1, reward=2, outcomes=[(1, 0, "101/100")])
    model = b.build()
    rounded = solvent.solve(model, epsilon=0.5, strict=True)
    assert rounded.status is Status.NOT_FOUND
    assert rounded.message.startswith(
        "not_found: no policy was found that never exceeds the budget, although there may be one; use a "
        "smaller epsilon; "
        "the last attempt: 7 planned steps, epsilon 0.125 of that asked for: not_found: with epsilon "
    )
    assert 3 < rounded.value_upper <= 6 * (1 + 1e-9)
    with pytest.raises(solvent.SolventError, match="expected a solution with a policy"):
        _ = rounded.policy
    # the bound on the tail is exact here, so that nothing is lost without rounding
    exact = solvent.solve(model, epsilon=0.5, strict=True, method="frontier")
    assert (exact.status, exact.worst_spent) == (Status.FEASIBLE, {"x": 3})


def test_nothing_feasible_is_an_answer() -> None:
    b = CMDP.builder(discount="1/2", start=0, resources=["x"], budget=1)
    b.add(0, 0, reward=1, outcomes=[(1, 0, 1)])
    for strict in (False, True):
        answer = solvent.solve(b.build(), epsilon=0.25, strict=strict)
        assert answer.status is Status.INFEASIBLE
        assert answer.value_upper == -math.inf
        assert answer.message.startswith("infeasible: ")
        assert answer.message.endswith("(in the first 4 steps of a model without a last one)")
        assert answer.tail is not None


def test_lower_limits_reserve_the_refunds_of_the_tail() -> None:
    b = CMDP.builder(discount="1/2", start=0, resources=["x"], budget=Budget(lower=-3))
    b.add(0, "take", reward=1, outcomes=[(1, 0, -2)])
    b.add(0, "rest", outcomes=[(1, 0)])
    model = b.build()
    relaxed, strict = (solvent.solve(model, epsilon=0.25, strict=s) for s in (False, True))
    assert (relaxed.value, strict.value) == (pytest.approx(1.5625), pytest.approx(1.5))
    assert relaxed.tail is not None
    assert (relaxed.tail.cost, relaxed.tail.refund) == ({}, {"x": Fraction(1, 8)})
    assert "adds at most a refund of 0.125 of x" in relaxed.message
    assert solvent.verify(model, strict.policy).least_spent["x"] >= -3
    assert -3 > solvent.verify(model, relaxed.policy).least_spent["x"] >= Fraction("-3.25")  # type: ignore[operator]


def test_continuous_costs_are_planned_for_too() -> None:
    b = CMDP.builder(discount="1/2", start=0, resources=["x", "y"], budget={"x": 3, "y": None})
    b.add(0, "go", reward=1, outcomes=[(1, 0, {"x": solvent.distribution("uniform", low=1, high=2)})])
    b.add(0, "rest", outcomes=[(1, 0, {"y": solvent.distribution("exponential", scale=1, negate=True)})])
    model = b.build()
    solution = solvent.solve(model, epsilon=0.5, strict=True)
    assert solution.worst_spent["x"] <= 3
    assert 1.5 - 1e-9 <= solution.value <= solution.value_upper <= 2
    dear = model.base.cost_of(0, 0)
    assert isinstance(dear, solvent.CostDistribution)
    rng = np.random.default_rng(1)
    for _ in range(20):
        agent = solution.policy.agent()
        for _ in range(40):
            drawn = {"x": float(dear.sample(1, rng)[0])} if agent.act() == "go" else {"y": -float(rng.exponential())}
            agent.observe(0, drawn)
            assert agent.spent["x"] <= 3
    report = solvent.verify(model, solution.policy)
    assert report.feasible
    assert report.worst_spent["x"] <= 3
    assert report.value == pytest.approx(solution.value, abs=1e-9 + report.value_error)
    free = solvent.solve(model, {"x": None, "y": None}, epsilon=1)
    report = solvent.verify(model, free.policy, {"x": 4, "y": None})
    assert (report.feasible, report.worst_spent["x"], report.least_spent["y"]) == (True, 4, None)
    with pytest.raises(BudgetError, match=r"^budget, y: expected no lower limit, as its costs are not bounded below"):
        solvent.solve(model, {"x": 3, "y": Budget(lower=-5)}, epsilon=1)


def test_several_resources_have_their_own_epsilon() -> None:
    b = CMDP.builder(discount="1/2", start=0, resources=["x", "y"], budget={"x": 3, "y": 3})
    b.add(0, "go", reward=1, outcomes=[(1, 0, {"x": 2, "y": 1})])
    b.add(0, "run", reward=2, outcomes=[(1, 0, {"x": 1, "y": 2})])
    b.add(0, "rest", outcomes=[(1, 0)])
    model = b.build()
    solution = solvent.solve(model, epsilon={"x": 1, "y": "1/8"})
    report = solvent.verify(model, solution.policy, {"x": 4, "y": "25/8"})
    assert report.feasible
    with pytest.raises(ModelError, match=r"^epsilon: expected a number for resource 'y', found none"):
        solvent.solve(model, epsilon={"x": 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"^epsilon: expected epsilon=, an accuracy that discounted models require, .* found none"),
        ({"epsilon": 0}, r"^epsilon: expected a number above 0, found 0"),
        ({"epsilon": "small"}, r"^epsilon: expected a finite number"),
        (
            {"epsilon": 1, "approximation": "relative"},
            r"^approximation: expected approximation=\"additive\" for a discounted model, found 'relative'",
        ),
        (
            {"epsilon": 1, "gap": 0.1},
            r"^gap: expected epsilon= for a discounted model, which has no last step, found gap=0.1",
        ),
        (
            {"epsilon": 1, "budget": [1, 2]},
            r"^budget: expected one limit for all time, as a discounted model has no last",
        ),
        ({"epsilon": 1, "budget": Budget.final(1)}, r"^budget: .* found one after the last step"),
        ({"epsilon": 1, "time_limit": -1}, r"^time_limit: expected a number of seconds above 0"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        solvent.solve(walker(), **options)


def test_a_budget_must_come_from_somewhere() -> None:
    with pytest.raises(BudgetError, match=r"^budget: expected a budget, found none; the model carries no default"):
        solvent.solve(walker(budget=None), epsilon=1)
    assert read_limits(walker(), None) == {"fuel": (Fraction(3), None)}


def test_a_solve_can_be_stopped() -> None:
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.ones(6), size=(6, 3))
    C = rng.random((6, 3, 2))
    model = CMDP.from_arrays(P, rng.random((6, 3)), C, discount=0.97, budget={"cost0": 20, "cost1": 20})
    stopped = solvent.solve(model, epsilon=0.5, memory_limit="2MB", strict=True)
    assert stopped.status is Status.LIMIT
    assert stopped.value_upper < 1 / 0.03
    assert stopped.tail is not None


def test_what_the_tail_leaves_is_for_rounding() -> None:
    model = walker()
    task = _Task(model, {"fuel": (Fraction(3), None)}, {"fuel": Fraction(1)}, Request(approximation="additive"))
    steps = task.steps()
    assert steps == 3
    assert task.rounding(steps) == {"fuel": Fraction(1, 2)}
    assert task.rounding(steps + 1) == {"fuel": Fraction(3, 4)}
    assert task.budgets(2, strict=False) == {"fuel": Budget(upper=[3, 3, "7/2"])}
    assert task.budgets(2, strict=True) == {"fuel": Budget(upper=[3, 3, 3])}


@given(problems())
@draws(40)
def test_the_transform_leads_to_a_finite_model_and_back(
    problem: tuple[DiscountedCMDP, dict[str, Any], Fraction],
) -> None:
    model, budget, epsilon = problem
    limits = read_limits(model, budget)
    task = _Task(model, limits, dict.fromkeys(limits, epsilon), Request(approximation="additive"))
    discounting = Discounting(make_rules(model, limits), task.steps())
    transform: Transform[_Task, PlannedSteps, solvent.Solution, solvent.Solution] = discounting
    made = transform.apply(task, task.monitor)
    assert made.model.horizon == discounting.steps + 1
    mapped = transform.invert(made, plan_finite(made, task.rounding(discounting.steps), strict=False))
    direct = solvent.solve(model, budget, epsilon=epsilon)
    assert (mapped.status, mapped.value, mapped.tail) == (direct.status, direct.value, direct.tail)
    assert (mapped.value_lower, mapped.value_upper) == (direct.value_lower, direct.value_upper)
    if mapped.status.has_policy:
        assert mapped.excess == direct.excess
        assert isinstance(mapped.policy, DiscountedPolicy)


@pytest.mark.parametrize("strict", [False, True])
def test_small_improvements_near_a_discount_of_one_are_not_taken_for_rounding(strict: bool) -> None:
    """A row that is better by half a percent for ever, and by less than 1e-12 of the value in one step."""
    little = Fraction(1, 10**10)
    b = CMDP.builder(horizon=None, discount=1 - little, start="s", resources=["fuel"], budget="0.5")
    b.add("s", "dear", reward=1, outcomes=[(1, "s", little)])
    b.add("s", "plain", reward=1, outcomes=[(1, "s", 0)])
    b.add("s", "better", reward=1.005, outcomes=[(1, "s", 0)])
    solution = solvent.solve(b.build(), epsilon=2, strict=strict)
    optimum = 1.005e10
    assert solution.value_lower <= optimum <= solution.value_upper
    if solution.status == "optimal":
        assert solution.value == pytest.approx(optimum, rel=1e-6)
    if solution.status == "relaxed" and "up to" not in solution.message:
        assert solution.value >= optimum * (1 - 1e-6)
