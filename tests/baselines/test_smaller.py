"""Smaller budgets: every policy found keeps the true budget, and may be worth almost nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from effort import draws
from solvent import baselines
from solvent.baselines.smaller import _gaps as gaps_of
from solvent.baselines.smaller import as_budget, simplest_between, tighten
from solvent.model import instances
from solvent.model.budget import Budget, resolve
from strategies import Tiny, problems


@draws(20)
@given(problems(max_resources=2, max_horizon=3), st.sampled_from(["expectation", "chance"]))
def test_what_is_found_is_feasible_and_no_better_than_exact(tiny: Tiny, of: str) -> None:
    found = baselines.smaller_budget(tiny.model, tiny.budget, of, 0.1)
    if not found.has_policy:
        assert found.status == "not_found"
        return
    assert found.status == "feasible"
    report = solvent.verify(tiny.model, found.policy, tiny.budget)
    assert report.feasible
    assert report.value == pytest.approx(found.value, abs=1e-6)
    assert found.value <= solvent.solve(tiny.model, tiny.budget).value + 1e-6


@given(problems(max_resources=2, max_horizon=3), st.fractions(0, 1, max_denominator=8), st.fractions(0, 1))
def test_tightening_tightens(tiny: Tiny, t: Fraction, more: Fraction) -> None:
    limits = resolve(tiny.model, tiny.budget)
    gaps = gaps_of(tiny.model, limits)
    loose, tight = tighten(limits, gaps, t), tighten(limits, gaps, t + more)
    for side, sign in (("upper", 1), ("lower", -1)):
        for before, after in zip(getattr(loose, side), getattr(tight, side), strict=True):
            for a, b in zip(before, after, strict=True):
                assert (a is None) == (b is None)
                assert a is None or b is None or sign * b <= sign * a
                assert a is None or b is None or (a == b) == (more == 0)
    assert tighten(limits, gaps, Fraction(0)) == limits


@given(st.fractions(0, 5, max_denominator=60), st.fractions(0, 5, max_denominator=60))
def test_simplest_fraction(low: Fraction, high: Fraction) -> None:
    low, high = sorted((low, high))
    if low == high:
        return
    found = simplest_between(low, high)
    assert low < found <= high
    simpler = (Fraction(n, d) for d in range(1, found.denominator) for n in range(5 * d + 1))
    assert not any(low < each <= high for each in simpler)


def test_limits_go_back_and_forth() -> None:
    model = instances.random(2, 2, horizon=3, resources=2)
    budget = {"r0": Budget(upper=[1, None, 3], lower=[None, 0, 1]), "r1": None}
    limits = resolve(model, budget)
    assert resolve(model, as_budget(model, limits)) == limits


def test_a_point_is_found_where_only_one_will_do() -> None:
    # 30 is the only surrogate whose policy takes two whole items
    found = baselines.smaller_budget(instances.knapsack([60, 100, 120], [10, 20, 30], 50))
    assert found.message == "planned for weight at most 30"
    assert found.value == pytest.approx(160)
    assert solvent.solve(instances.knapsack([60, 100, 120], [10, 20, 30], 50)).value == 220


def test_no_smaller_budget_is_tried_if_the_budget_cannot_be_kept_in_expectation() -> None:
    b = solvent.CMDP.builder(horizon=1, start="s", resources=["fuel"], budget={"fuel": 1})
    b.add("s", "go", outcomes=[(1, "s", {"fuel": 2})])
    found = baselines.smaller_budget(b.build())
    assert found.message == "no smaller budget was tried, since the budget itself cannot be kept in expectation"


def test_covering_limits_are_shifted() -> None:
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["x"], budget=Budget.final(-1))
    b.add(0, "rest", reward=1, outcomes=[(1, 0, 0)])
    b.add(0, "work", outcomes=[(0.5, 0, -3), (0.5, 0, 0)])
    b.add(0, "toil", reward=-1, outcomes=[(1, 0, -2)])
    model = b.build()
    assert not solvent.verify(model, baselines.expectation(model).policy).feasible
    # the plan found toils and works, which surely refunds the 1 required; toiling and resting would be enough
    found = baselines.smaller_budget(model)
    assert found.message == "planned for x at most -3.5 after step 1"
    assert found.value == pytest.approx(-1)
    assert solvent.verify(model, found.policy, Budget.final(-1)).feasible
    assert solvent.solve(model).value == 0


def test_a_long_surrogate_is_cut_short() -> None:
    model = instances.random(2, 2, horizon=30, cost_range=(0, 1))
    found = baselines.smaller_budget(model, Budget(upper=range(40, 70)))
    assert found.status == "feasible"
    assert found.message.endswith("...")
    assert len(found.message) < 110


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(solvent.ModelError, match="of: expected one of expectation, chance, found 'chanse'; did you"):
        baselines.smaller_budget(instances.markov_gap(), of="chanse")
