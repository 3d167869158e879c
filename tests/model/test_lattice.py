from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from solvent import CMDP, Budget, LatticeOverflowError, ModelError, instances
from solvent.core.exact import MAX_TICKS, MINUS_INFINITY, PLUS_INFINITY
from solvent.model import lattice as lattice_module
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice


def spend(costs_per_step: list[list[Any]]) -> CMDP:
    """Return a model with one state and one action, whose cost at each step is random, one of the given costs."""
    b = CMDP.builder(horizon=len(costs_per_step), start="s", resources=["x"])
    for step, costs in enumerate(costs_per_step):
        b.add("s", "go", outcomes=[(Fraction(1, len(costs)), "s", c) for c in costs], steps=[step])
    return b.build()


def fit(model: CMDP, budget: Any) -> Lattice:
    return Lattice.fit(model, resolve(model, budget))


@pytest.mark.parametrize(
    ("cost", "limit", "times"),
    [(0.1, 0.3, 3), ("1/3", 1, 3), (0.1, 1, 10), (0.7, 2.1, 3), (Fraction(1, 7), "1", 7), (1e-9, 1e-8, 10)],
)
def test_sums_that_meet_the_limit_exactly_are_within_it(cost: Any, limit: Any, times: int) -> None:
    lattice = fit(spend([[cost]] * times), limit)
    total = int(lattice.cost_OD[0, 0]) * times
    assert total == lattice.upper_HD[-1, 0]
    assert total + 1 > lattice.upper_HD[-1, 0]


def test_floats_would_give_the_wrong_answer() -> None:
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
    assert lattice.upper_HD[1, 0] == PLUS_INFINITY
    assert [t * unit for t in lattice.lower_HD[:, 0].tolist()] == [low, low]
    assert lattice.amount(0, 3) == 3 * unit


def test_only_limited_resources_are_tracked() -> None:
    b = CMDP.builder(horizon=2, start=0, resources=["a", "b", "c"])
    b.add(0, 0, outcomes=[(1, 0, [1, 2, 3])])
    lattice = fit(b.build(), {"a": None, "b": Budget(upper=[None, None]), "c": 4})
    assert lattice.resources == ("c",)
    assert lattice.cost_OD.tolist() == [[3]]
    assert lattice.lower_HD.tolist() == [[MINUS_INFINITY], [MINUS_INFINITY]]


def test_overflow_names_resource_cost_and_remedy() -> None:
    model = instances.knapsack([1, 1], [1e300, 1e-300])
    with pytest.raises(LatticeOverflowError) as caught:
        fit(model, 1)
    message = str(caught.value)
    assert "resource 'weight'" in message
    assert "a cost of about 1e-300 (knapsack/take at step 1)" in message
    assert "about 1e+300 (knapsack/take at step 0)" in message
    assert "fewer digits" in message
    assert '"additive" or "relative"' in message
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


def test_the_bound_is_checked_before_ticks_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("computed ticks although they do not fit")

    monkeypatch.setattr(lattice_module, "round_to", never)
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


def test_the_bound_keeps_signs_and_steps_apart() -> None:
    # 2**62 once and -2**62 once never leave the range, although horizon * max|cost| would
    lattice = fit(spend([[2**62], [-(2**62)], [0]]), 1)
    assert lattice.units == (1,)


def test_a_limit_finer_than_the_costs_is_rounded_inward() -> None:
    model = spend([[2**60], [1]])
    lattice = fit(model, Budget(upper="1/1000000007", lower=Fraction(-1, 1000000009)))
    assert lattice.units == (Fraction(1),)
    assert lattice.upper_HD[:, 0].tolist() == [0, 0]
    assert lattice.lower_HD[:, 0].tolist() == [0, 0]


def test_continuous_costs_are_refused_with_a_hint() -> None:
    b = CMDP.builder(horizon=1, start="s", resources=["x", "y"])
    b.add("s", "go", outcomes=[(1, "s", [solvent.distribution("uniform", low=0, high=1), 1])])
    model = b.build()
    with pytest.raises(ModelError, match=r's/go, cost of x: .*uniform\(low=0, high=1\).*"additive" or "relative"'):
        fit(model, {"x": 1, "y": 1})
    assert fit(model, {"x": None, "y": 1}).resources == ("y",)
