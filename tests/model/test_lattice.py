from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import solvent
from solvent import CMDP, Budget, LatticeOverflowError, ModelError, instances
from solvent.model import lattice as lattice_module
from solvent.model.budget import resolve
from solvent.model.exact import MAX_TICKS
from solvent.model.lattice import NO_LOWER, NO_UPPER, Lattice


def spend(costs_per_step: list[list[Any]]) -> CMDP:
    """One state; at each step any of the given costs may happen."""
    b = CMDP.builder(horizon=len(costs_per_step), start="s", resources=["x"])
    for step, costs in enumerate(costs_per_step):
        b.add("s", "go", outcomes=[(Fraction(1, len(costs)), "s", c) for c in costs], steps=[step])
    return b.build()


def fit(model: CMDP, budget: Any, rounding: Any = "exact") -> Lattice:
    return Lattice.fit(model, resolve(model, budget), rounding)


@pytest.mark.parametrize(
    ("cost", "limit", "times"),
    [(0.1, 0.3, 3), ("1/3", 1, 3), (0.1, 1, 10), (0.7, 2.1, 3), (Fraction(1, 7), "1", 7), (1e-9, 1e-8, 10)],
)
def test_sums_that_meet_the_limit_exactly_are_within_it(cost: Any, limit: Any, times: int) -> None:
    lattice = fit(spend([[cost]] * times), limit)
    total = int(lattice.cost_OD[0, 0]) * times
    assert total == lattice.upper_HD[-1, 0]
    assert total + 1 > lattice.upper_HD[-1, 0]
    assert lattice.exact == (True,)


def test_floats_alone_would_say_otherwise() -> None:
    assert 0.1 + 0.1 + 0.1 > 0.3


@given(
    st.lists(st.fractions(-9, 9, max_denominator=50), min_size=1, max_size=5),
    st.fractions(-9, 9, max_denominator=50),
    st.fractions(0, 9, max_denominator=50),
)
def test_exact_ticks_are_the_costs_and_limits(costs: list[Fraction], low: Fraction, width: Fraction) -> None:
    lattice = fit(spend([costs, costs]), Budget(upper=[low + width, None], lower=[low, low]))
    unit = lattice.units[0]
    # outcomes of the shared table, in order
    assert [int(t) * unit for t in lattice.cost_OD[:, 0]] == costs
    assert lattice.upper_HD[0, 0] * unit == low + width
    assert lattice.upper_HD[1, 0] == NO_UPPER
    assert [t * unit for t in lattice.lower_HD[:, 0].tolist()] == [low, low]
    assert lattice.amount(0, 3) == 3 * unit


def test_only_limited_resources_are_tracked() -> None:
    b = CMDP.builder(horizon=2, start=0, resources=["a", "b", "c"])
    b.add(0, 0, outcomes=[(1, 0, [1, 2, 3])])
    lattice = fit(b.build(), {"a": None, "b": Budget(upper=[None, None]), "c": 4})
    assert lattice.resources == ("c",)
    assert lattice.cost_OD.tolist() == [[3]]
    assert lattice.lower_HD.tolist() == [[NO_LOWER], [NO_LOWER]]


def test_overflow_names_resource_cost_and_remedy() -> None:
    model = instances.knapsack([1, 1], [1e300, 1e-300])
    with pytest.raises(LatticeOverflowError) as caught:
        fit(model, 1)
    message = str(caught.value)
    assert "resource 'weight'" in message
    assert "a cost of about 1e-300 (knapsack/take at step 1)" in message
    assert "about 1e+300 (knapsack/take at step 0)" in message
    assert "fewer digits" in message
    assert '"additive", "relative"' in message
    assert isinstance(caught.value, OverflowError)


@pytest.mark.parametrize("costs", [[0, 0], [1, 1], [-1, "1/3"]])
def test_overflow_by_a_limit_names_the_limit(costs: list[Any]) -> None:
    with pytest.raises(LatticeOverflowError, match=r"beside a limit of about 1e\+300"):
        fit(instances.knapsack([1, 1], costs), Budget(upper=[1e300, "1e-300"]))


def test_overflow_with_units_too_long_to_print() -> None:
    primes = [10**390 + k for k in (7, 9, 13, 19, 21, 27, 31, 33, 37, 39, 43, 49)]
    model = instances.knapsack([1] * 12, [Fraction(1, p) for p in primes])
    with pytest.raises(LatticeOverflowError, match="the finest unit is about"):
        fit(model, 1)
    assert "unit" in str(model.describe())


def test_the_bound_is_checked_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("computed ticks although they do not fit")

    monkeypatch.setattr(lattice_module, "_round_costs", never)
    with pytest.raises(LatticeOverflowError):
        fit(spend([[2**62, 1]] * 3), 5)


@pytest.mark.parametrize(("limit", "fits"), [(MAX_TICKS - 2**62, True), (MAX_TICKS - 2**62 + 1, False)])
def test_the_bound_is_sharp(limit: int, fits: bool) -> None:
    model = spend([[2**61, 1], [2**61, 1]])
    if fits:
        assert fit(model, limit).upper_HD[0, 0] == limit
    else:
        with pytest.raises(LatticeOverflowError):
            fit(model, limit)


def test_costs_of_different_steps_and_signs_do_not_add_up() -> None:
    # 2**62 once and -2**62 once never leave the range, although horizon * max|cost| would
    lattice = fit(spend([[2**62], [-(2**62)], [0]]), 1)
    assert lattice.exact == (True,)


def test_a_limit_finer_than_the_costs_is_rounded_inwards() -> None:
    model = spend([[2**60], [1]])
    lattice = fit(model, Budget(upper="1/1000000007", lower=Fraction(-1, 1000000009)))
    assert lattice.exact == (True,)
    assert lattice.units == (Fraction(1),)
    assert lattice.upper_HD[:, 0].tolist() == [0, 0]
    assert lattice.lower_HD[:, 0].tolist() == [0, 0]


def test_continuous_costs_are_refused_with_the_methods_that_take_them() -> None:
    b = CMDP.builder(horizon=1, start="s", resources=["x", "y"])
    b.add("s", "go", outcomes=[(1, "s", [solvent.law("uniform", low=0, high=1), 1])])
    model = b.build()
    with pytest.raises(ModelError, match=r's/go, cost of x: .*uniform\(low=0, high=1\).*"additive" and "relative"'):
        fit(model, {"x": 1, "y": 1})
    assert fit(model, {"x": None, "y": 1}).resources == ("y",)


hard = st.one_of(
    st.integers(-3, 3).map(lambda k: k * 2**61),
    st.fractions(-3, 3, max_denominator=10**6).map(lambda x: x * 2**60),
    st.sampled_from(["1e-300", "-1e-300", Fraction(2**62, 3), Fraction(-(2**62), 7), 1]),
).map(Fraction)


@settings(max_examples=100)
@given(
    st.lists(st.lists(hard, min_size=1, max_size=3, unique=True), min_size=1, max_size=3),
    st.sampled_from(["upper", "lower", "both"]),
    st.data(),
)
def test_directed_rounding(costs: list[list[Fraction]], sides: str, data: Any) -> None:
    horizon = len(costs)
    paths = list(itertools.product(*costs))
    totals = {sum(path[: h + 1]) for path in paths for h in range(horizon)}
    # limits on and beside the totals themselves, where rounding decides
    near = st.sampled_from(sorted(totals)).flatmap(
        lambda t: st.sampled_from([t, t - Fraction(1, 10**9), t + Fraction(1, 10**9), t + 2**20])
    )
    first, second = data.draw(near), data.draw(near)
    upper = max(first, second) if sides != "lower" else None
    lower = min(first, second) if sides != "upper" else None
    model = spend(costs)
    budget = Budget(upper=upper, lower=lower)
    assert model.n_tables <= horizon

    def within(path: tuple[Fraction, ...]) -> bool:
        sums = list(itertools.accumulate(path))
        return all((upper is None or s <= upper) and (lower is None or s >= lower) for s in sums)

    def within_ticks(lattice: Lattice, path: tuple[Fraction, ...]) -> bool:
        spent = 0
        for h, cost in enumerate(path):
            (row,) = model.rows(h, 0)
            at = range(model.outcome_indptr[row], model.outcome_indptr[row + 1])
            spent += next(int(lattice.cost_OD[o, 0]) for o in at if model.cost[0].value(o) == cost)
            assert abs(spent) <= MAX_TICKS
            if not lattice.lower_HD[h, 0] <= spent <= lattice.upper_HD[h, 0]:
                return False
        return True

    safe, relaxed = fit(model, budget, "safe"), fit(model, budget, "relaxed")
    for path in paths:
        if within_ticks(safe, path):
            assert within(path)
        if within(path):
            assert within_ticks(relaxed, path)
        if safe.exact == (True,):
            assert within(path) == within_ticks(safe, path) == within_ticks(relaxed, path)
    assert all(np.abs(each.cost_OD).max() <= MAX_TICKS for each in (safe, relaxed))


@pytest.mark.parametrize("sign", [1, -1])
def test_both_sides_at_once_move_by_what_rounding_hides(sign: int) -> None:
    costs = [sign * Fraction(2**62, 3), sign * Fraction(2**62, 7), sign * Fraction(1, 10**30)]
    totals = list(itertools.accumulate(costs))
    model = spend([[cost] for cost in costs])
    lattice = fit(model, Budget(upper=totals, lower=totals), "relaxed")
    assert lattice.exact == (False,)
    ticks = list(itertools.accumulate(int(lattice.cost_OD[model.rows(h, 0)[0], 0]) for h in range(3)))
    assert all(lattice.lower_HD[h, 0] <= ticks[h] <= lattice.upper_HD[h, 0] for h in range(3))
    # one tick of slack per step and no more
    assert all(lattice.upper_HD[h, 0] - lattice.lower_HD[h, 0] <= h + 2 for h in range(3))
    strict = fit(model, Budget(upper=totals, lower=totals), "safe")
    assert all(strict.lower_HD[h, 0] > strict.upper_HD[h, 0] for h in range(3))


def test_rounding_is_reported_and_fine() -> None:
    model = instances.knapsack([1, 1], [1e300, 1e-300])
    safe, relaxed = fit(model, 1e300, "safe"), fit(model, 1e300, "relaxed")
    assert safe.exact == relaxed.exact == (False,)
    take = model.rows(1, 0)[1]
    assert safe.cost_OD[take, 0] == 1
    assert relaxed.cost_OD[take, 0] == 0
    # no coarser than 64 bits make necessary
    assert float(safe.units[0]) < 1e300 / 2**60
