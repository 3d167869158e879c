"""Saturation, initial amounts, several first states, goals and end rewards: `verify` and `simulate` against an
enumeration of all histories."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import histories
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from effort import draws
from solvent import Budget, BudgetError, PolicyError, Resource, simulate, verify
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice
from solvent.policy.markov import MarkovPolicy, RandomizedPolicy
from solvent.policy.table import AugmentedPolicy
from solvent.policy.until_violation import UntilViolationPolicy

SEEDS = st.integers(0, 10**6)
UNITS = [Fraction(1, 2), Fraction(1), Fraction(7, 3)]
many = draws(150)


def check(case: histories.Case) -> None:
    report = verify(case.model, case.policy, spent=case.spent)
    expected = case.compare(report)
    if isinstance(case.policy, AugmentedPolicy) and set(case.spent or ()) == set(case.policy.resources):
        assert verify(case.model, case.policy) == report, "what the policy was made for"
    play(case, report, expected)


def play(case: histories.Case, report: Any, expected: histories.TrueCosts) -> None:
    """Compare a simulation with all histories: amounts after each step, rewards, violations."""
    result = simulate(case.model, case.policy, 60, seed=3, spent=case.spent)
    for r, name in enumerate(case.model.resources):
        for step, seen in enumerate(result.distributions[name]):
            possible = np.array(sorted({float(amounts[r]) for amounts in expected.amounts[step]}))
            assert np.abs(seen.values[:, None] - possible[None]).min(1).max() < 1e-9
        assert result.max_spent[name] in {amounts[r] for step in expected.amounts for amounts in step}
    if report.feasible:
        assert result.violations == 0
    if report.violation_probability == 1:
        assert result.violations == 60


@many
@given(histories.accounts(), SEEDS)
def test_augmented_policies(account: histories.Account, seed: int) -> None:
    check(histories.augmented_case(account.model, seed, spent=account.spent))


@many
@given(histories.accounts(), SEEDS)
def test_policies_with_settled_amounts(account: histories.Account, seed: int) -> None:
    check(histories.augmented_case(account.model, seed, settle=True, spent=account.spent))


@many
@given(histories.accounts(), SEEDS)
def test_markov_policies(account: histories.Account, seed: int) -> None:
    for randomized in (False, True):
        check(histories.markov_case(account.model, seed, randomized=randomized, spent=account.spent))


@many
@given(histories.accounts(), SEEDS, st.booleans())
def test_randomized_policies(account: histories.Account, seed: int, settle: bool) -> None:
    check(histories.randomized_case(account.model, seed, account.spent, settle=settle))


@many
@given(histories.accounts(), SEEDS, st.booleans())
def test_policies_until_a_violation(account: histories.Account, seed: int, settle: bool) -> None:
    check(histories.until_violation_case(account.model, seed, account.spent, settle=settle))


@many
@given(histories.accounts(), SEEDS)
def test_callables(account: histories.Account, seed: int) -> None:
    check(histories.callable_case(account.model, seed, account.spent))


@many
@given(histories.accounts(), SEEDS, st.sampled_from(UNITS), st.sampled_from(["up", "down"]))
def test_policies_on_rounded_costs(account: histories.Account, seed: int, unit: Fraction, counting: str) -> None:
    check(histories.rounded_case(account.model, seed, unit, counting, account.spent))


@many
@given(histories.accounts(), SEEDS)
def test_a_history_without_decisions_stops_only_beyond_a_limit(account: histories.Account, seed: int) -> None:
    case = histories.augmented_case(account.model, seed, forget=True, spent=account.spent)
    try:
        case.truth()
    except histories.UndecidedError:
        with pytest.raises(PolicyError, match="expected"):
            verify(case.model, case.policy, spent=case.spent)
    else:
        check(case)


AMOUNT = st.fractions(-4, 4, max_denominator=6)


@draws(300)
@given(
    st.tuples(AMOUNT, AMOUNT).map(sorted),
    st.tuples(st.booleans(), st.booleans()),
    AMOUNT,
    st.lists(AMOUNT, min_size=1, max_size=6),
    st.sampled_from(UNITS),
    st.booleans(),
)
def test_counts_stay_close_to_what_is_spent(ends, has, first, costs, unit, up) -> None:
    """The bounds on the page on guarantees: clamping is monotone and 1-Lipschitz."""
    turn = math.ceil if up else math.floor
    resource = Resource("x", floor=ends[0] if has[0] else None, ceiling=ends[1] if has[1] else None)
    counter = Resource(
        "x",
        floor=None if resource.floor is None else turn(resource.floor / unit),
        ceiling=None if resource.ceiling is None else turn(resource.ceiling / unit),
    )
    spent = resource.clamp(first)
    count = counter.clamp(Fraction(turn(spent / unit)))
    whole = count * unit == spent
    for step, cost in enumerate(costs):
        spent, count = resource.clamp(spent + cost), counter.clamp(count + turn(cost / unit))
        error = (count * unit - spent) * (1 if up else -1)
        assert 0 <= error < (step + (1 if whole else 2)) * unit


@draws(80)
@given(histories.accounts(), SEEDS, st.data())
def test_another_budget_than_the_policys(account: histories.Account, seed: int, data: st.DataObject) -> None:
    model = account.model
    case = histories.augmented_case(model, seed, spent=account.spent)
    budget = {name: data.draw(histories.budgets(model.horizon)) for name in model.resources}
    case.limits = resolve(model, budget, account.spent)
    case.compare(verify(model, case.policy, budget, spent=account.spent))


@draws(80)
@given(histories.accounts(), SEEDS)
def test_amounts_beyond_64_bits(account: histories.Account, seed: int) -> None:
    """A tiny cost beside large ones: the ledgers then hold Python integers."""
    model, tiny = account.model, Fraction(1, 10**25)
    ends = {
        side: tuple(None if end is None else end + sign * tiny for end in getattr(model, side))
        for side, sign in (("floors", -1), ("ceilings", 1))
    }
    model = histories.replace(model, **ends)
    spent = {name: amount + tiny / 7 for name, amount in account.spent.items()}
    case = histories.callable_case(model, seed, spent)
    case.compare(verify(model, case.policy, spent=spent))


@draws(60)
@given(histories.accounts(min_resources=1), SEEDS)
def test_episodes_keep_the_account(account: histories.Account, seed: int) -> None:
    """A function that is asked for decisions sees only nodes of true histories."""
    case = histories.callable_case(account.model, seed, account.spent)
    nodes, names = case.truth().nodes, case.model.resources

    def watch(step: int, state: Any, spent: Any) -> Any:
        amounts = spent.values() if len(names) > 1 else [spent]
        assert (step, state, *amounts) in nodes
        return case.policy(step, state, spent)

    simulate(case.model, watch, 100, seed=seed, spent=case.spent)


@pytest.mark.parametrize("seed", range(8))
def test_simulations_agree_with_the_verifier(seed: int) -> None:
    rng = np.random.default_rng(seed)
    b = solvent.CMDP.builder(
        horizon=5,
        start={0: 0.2, 1: 0.5, "home": 0.3},
        resources=[Resource("x", floor=-1, ceiling=4), Resource("y", floor=0)],
        states=[0, 1, "home"],
        budget={"x": 3, "y": 4},
        end_reward={0: 2, "home": -1, 1: 0.5},
        must_end_in=["home", 1],
    )
    for state in (0, 1):
        for action in range(2):
            outcomes = [(0.25, target, rng.integers(-2, 3, 2).tolist()) for target in (0, 1, "home", state)]
            b.add(state, action, reward=int(rng.integers(0, 4)), outcomes=outcomes)
    model = b.terminal("home") or b.build()
    spent = {"x": 1, "y": 2}
    for case in (
        histories.markov_case(model, seed, randomized=True, spent={k: Fraction(v) for k, v in spent.items()}),
        histories.augmented_case(model, seed, spent={k: Fraction(v) for k, v in spent.items()}),
    ):
        report, result = verify(model, case.policy, spent=spent), simulate(model, case.policy, 20_000, 1, spent=spent)
        assert abs(result.mean_reward - report.value) < 4.5 * result.standard_error
        p = report.violation_probability
        assert 0 < p < 1
        assert abs(result.violations / 20_000 - p) < 4.5 * np.sqrt(p * (1 - p) / 20_000)


def van(**options: Any) -> Any:
    """Return a tank that takes no more than it holds: drive for 3, or fill up by 5."""
    b = solvent.CMDP.builder(horizon=3, start="road", resources=[Resource("fuel", floor=0)], budget=6, **options)
    b.add("road", "drive", reward=2, outcomes=[(1, "road", 3)])
    b.add("road", "fill", outcomes=[(0.5, "road", -5), (0.5, "town", -5)])
    b.add("town", "rest", outcomes=[(1, "town", 0)])
    return b.build()


def test_a_full_tank_takes_no_more() -> None:
    model = van()
    fill_first = ["fill", "drive", "drive"]

    def plan(step: int, state: Any, spent: Any) -> Any:
        return fill_first[step] if state == "road" else "rest"

    report = verify(model, plan)
    assert report.worst_spent_by_step == {"fuel": (0, 3, 6)}
    assert (report.feasible, report.value, report.initial) == (True, 2, {"fuel": 0})
    report = verify(model, plan, spent=6)
    assert report.worst_spent_by_step == {"fuel": (1, 4, 7)}
    assert (report.feasible, report.violation_probability) == (False, 0.5)
    assert "breaks the limit of fuel after step 2 (spent before the first step: fuel 6)" in str(report.witness)
    assert verify(model, plan, spent={"fuel": "5"}).worst_spent == {"fuel": 6}
    assert simulate(model, plan, 50, spent=6).max_spent == {"fuel": 7}


def test_the_witness_names_the_end() -> None:
    model = van(must_end_in=["town"], end_reward={"town": 10, "road": 1})
    report = verify(model, lambda step, state, spent: "fill" if state == "road" else "rest")
    assert (report.feasible, report.violation_probability, report.has_goal) == (False, 0.125, True)
    assert report.value == 10 * 0.875 + 1 * 0.125
    witness = report.witness
    assert (witness.resource, witness.ends_astray, witness.ends_in, witness.must_end_in) == (
        None,
        True,
        "road",
        ("town",),
    )
    assert (witness.start, len(witness)) == ("road", 3)
    assert "ends in 'road' after step 2, expected 'town'" in str(witness)
    assert "breaks a limit or ends where it must not with probability 0.125" in str(report)
    both = verify(model, lambda *_: "drive")
    assert both.witness.resource == "fuel"
    assert "breaks the limit of fuel after step 2 and ends in 'road', expected 'town'" in str(both.witness)
    b = solvent.CMDP.builder(horizon=1, start="road", resources=[], states=["road", "sea"], must_end_in=["road"])
    b.add("road", "stay", outcomes=[(1, "road")])
    b.terminal("sea")
    assert "never breaks a limit and always ends where it may" in str(verify(b.build(), lambda *_: "stay"))


def test_a_first_state_that_is_terminal() -> None:
    b = solvent.CMDP.builder(
        horizon=2,
        start={"in": 0.75, "out": 0.25},
        resources=["x"],
        budget=2,
        must_end_in=["in"],
        end_reward={"in": 4, "out": 8},
    )
    b.add("in", "stay", reward=1, outcomes=[(1, "in", 1)])
    b.terminal("out")
    report = verify(b.build(), lambda *_: "stay")
    assert (report.feasible, report.violation_probability, report.value) == (False, 0.25, 0.75 * 6 + 0.25 * 8)
    assert (report.witness.steps, report.witness.start, report.witness.ends_in) == ((), "out", "out")
    assert str(report.witness) == "ends in 'out' before the first step, expected 'in'"
    assert report.worst_spent_by_step == {"x": (1, 2)}
    assert report.least_spent_by_step == {"x": (0, 0)}
    runs = simulate(b.build(), lambda *_: "stay", 4000)
    assert 900 < runs.violations < 1100
    assert set(runs.rewards.tolist()) == {6.0, 8.0}


def test_a_goal_without_resources() -> None:
    b = solvent.CMDP.builder(horizon=2, start=0, resources=[], must_end_in=[1])
    b.add(0, "go", outcomes=[(0.5, 0), (0.5, 1)])
    b.add(1, "stay", outcomes=[(1, 1)])
    report = verify(b.build(), lambda step, state, spent: ["go", "stay"][state])
    assert (report.feasible, report.violation_probability, len(report.witness)) == (False, 0.25, 2)
    assert report.worst_spent == {}


def test_what_spent_may_be() -> None:
    model = van()
    plan = np.zeros((3, 2), int)
    with pytest.raises(BudgetError, match=r"spent, fuel: expected at least the floor, 0, found -1"):
        verify(model, plan, spent=-1)
    with pytest.raises(BudgetError, match="did you mean 'fuel'"):
        simulate(model, plan, spent={"fuels": 1})
    limits = resolve(model, None, 3)
    lattice = Lattice.fit(model, limits)
    layers = [([0], [[3 + 3 * step]], [0]) for step in range(3)]
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers)
    assert verify(model, policy).initial == {"fuel": 3}
    assert verify(model, policy, 100).worst_spent == {"fuel": 12}
    assert verify(model, policy, 100).feasible
    for use in (verify, simulate):
        with pytest.raises(PolicyError, match="step 0, state 'road', spent fuel 4: expected to have spent 3"):
            use(model, policy, spent=4)
        with pytest.raises(PolicyError, match=r"spent, fuel: expected a whole multiple of 1, found 3\.5"):
            use(model, policy, spent="7/2")
        with pytest.raises(PolicyError, match="expected to have spent 3"):
            use(model, policy, spent=10**30)


@pytest.mark.parametrize("changed", [{"floor_D": -1}, {"ceiling_D": 9}, {"initial_D": 2}], ids=str)
@pytest.mark.parametrize("use", [verify, simulate])
def test_a_policy_must_count_as_the_model_does(use: Any, changed: dict[str, int]) -> None:
    model = van()
    limits = resolve(model, None, 3)
    layers = [([0], [[3 + 3 * step]], [0]) for step in range(3)]
    policy = AugmentedPolicy.from_nodes(model, Lattice.fit(model, limits), limits, layers=layers)
    tampered = histories.replace(policy, **{name: np.array([end]) for name, end in changed.items()})
    with pytest.raises(PolicyError, match="'fuel': expected"):
        use(model, tampered)


def test_an_initial_amount_between_two_ticks() -> None:
    """A policy for at most an amount counts it rounded up, and is then followed by its own count."""
    b = solvent.CMDP.builder(horizon=2, start=0, resources=[Resource("x", ceiling=3)], budget=2)
    b.add(0, "go", reward=1, outcomes=[(1, 0, 1)])
    b.add(0, "stay", outcomes=[(1, 0, 0)])
    model = b.build()
    limits = resolve(model, None)
    layers = [([0, 0], [[1], [3]], [0, 1])] * 2
    policy = AugmentedPolicy.from_nodes(model, Lattice.fit(model, limits), limits, layers=layers, lookup="at_most")
    report = verify(model, policy, spent="1/2")
    assert (report.feasible, report.value) == (True, 1)
    assert report.worst_spent_by_step == {"x": (Fraction(3, 2), Fraction(3, 2))}
    assert simulate(model, policy, 5, spent="1/2").max_spent == {"x": Fraction(3, 2)}
    assert verify(model, policy).value == 2


def test_merged_amounts_of_which_some_break_a_limit() -> None:
    """A table that says amounts no longer matter is not believed where some of them break one of its limits."""
    b = solvent.CMDP.builder(
        horizon=3, start=0, resources=["x"], budget={"x": Budget(upper=[None, 4, None], lower=[None, 0, None])}
    )
    b.add(0, "a", reward=1, outcomes=[(0.25, 0, 3), (0.25, 0, 0), (0.5, 0, -3)], steps=[0])
    b.add(0, "a", reward=2, outcomes=[(1, 0, 2)], steps=[1, 2])
    b.add(0, "b", reward=5, outcomes=[(1, 0, 2)], steps=[1, 2])
    model = b.build()
    limits = resolve(model, None)
    lattice = Lattice.fit(model, limits)
    settled = [(np.array([[-99]]), np.array([[99]]))] * 3
    layers = [([0], [[0]], [0], [1.0])] * 3
    table = RandomizedPolicy.from_nodes(model, lattice, limits, layers=layers, settled=settled)
    policy = UntilViolationPolicy.of(table, MarkovPolicy(model, [[0], [0], [1]]))
    for budget, chance in ((None, 0.75), (100, 0)):
        report = verify(model, policy, budget)
        assert (report.value, report.violation_probability) == (1 + 2 + 0.75 * 5 + 0.25 * 2, chance)


def test_discounted_models_refuse_spent() -> None:
    b = solvent.CMDP.builder(horizon=None, discount="1/2", start="home", resources=["fuel"], budget=3)
    b.add("home", "go", reward=1, outcomes=[(1, "home", 1)])
    model = b.build()
    with pytest.raises(BudgetError, match="spent: expected nothing for a discounted model, found 1"):
        verify(model, solvent.solve(model, epsilon=0.25).policy, spent=1)


def test_resources_without_limits_have_initial_amounts() -> None:
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["x", Resource("y", floor=2)], budget={"x": 1, "y": None})
    b.add(0, 0, outcomes=[(1, 0, {"x": 1, "y": -3})])
    model = b.build()
    with pytest.raises(BudgetError, match=r"spent, y: expected at least the floor, 2, found 0; .*spent="):
        verify(model, np.zeros((1, 1), int))
    report = verify(model, np.zeros((1, 1), int), spent={"y": 4})
    assert (report.worst_spent, report.initial) == ({"x": 1, "y": 2}, {"x": 0, "y": 4})


def test_policies_on_nodes_begin_unlimited_resources_as_their_agents_do() -> None:
    y, z = Resource("y", floor=2), Resource("z", ceiling=-1)
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["x", y, z], budget={"x": 1, "y": None, "z": None})
    b.add(0, 0, outcomes=[(1, 0, {"x": 1, "y": 1, "z": -1})])
    model = b.build()
    policy = solvent.solve(model, spent={"y": 5, "z": -3}).policy
    report = verify(model, policy)
    assert report.initial == policy.agent().spent == {"x": 0, "y": 2, "z": -1}
    assert (report.feasible, report.worst_spent) == (True, {"x": 1, "y": 3, "z": -2})
    assert simulate(model, policy, 3).violations == 0
    assert verify(model, policy, spent={"y": 4}).initial == {"x": 0, "y": 4, "z": -1}
