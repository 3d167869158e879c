from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from solvent import CMDP, Budget, LatticeOverflowError, ModelError, instances
from solvent.core.exact import MAX_TICKS, MINUS_INFINITY, PLUS_INFINITY
from solvent.model import lattice as lattice_module
from solvent.model.budget import resolve
from solvent.model.lattice import AccountTicks, Lattice


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
    assert (
        message.index("gap=0.01")
        < message.index("strict=True")
        < message.index("fewer digits, rounded to the safe side")
    )
    assert 'approximation="additive" with epsilon= and strict=True' in message
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
    with pytest.raises(
        ModelError, match=r"s/go, cost of x: .*uniform\(low=0, high=1\).*gap=0.01, .* and strict=True: "
    ):
        fit(model, {"x": 1, "y": 1})
    assert fit(model, {"x": None, "y": 1}).resources == ("y",)


# ---------------------------------------------------------------------------------------------------------------------
# floors, ceilings and initial amounts

exact_amounts = st.fractions(-9, 9, max_denominator=50)


def tank(costs: list[Any], **ends: Any) -> CMDP:
    b = CMDP.builder(horizon=3, start="s", resources=[solvent.Resource("x", **ends)])
    b.add("s", "go", outcomes=[(Fraction(1, len(costs)), "s", c) for c in costs])
    return b.build()


@given(
    costs=st.lists(exact_amounts, min_size=1, max_size=4),
    ends=st.lists(exact_amounts, min_size=3, max_size=3).map(sorted),
    has=st.tuples(st.booleans(), st.booleans()),
    limit=exact_amounts,
)
def test_floors_ceilings_and_initial_amounts_are_whole_ticks(
    costs: list[Fraction], ends: list[Fraction], has: tuple[bool, bool], limit: Fraction
) -> None:
    floor, initial, ceiling = ends[0] if has[0] else None, ends[1], ends[2] if has[1] else None
    model = tank(costs, floor=floor, ceiling=ceiling)
    lattice = Lattice.fit(model, resolve(model, limit, initial))
    unit = lattice.units[0]
    assert lattice.initial_D.dtype == lattice.floor_D.dtype == lattice.ceiling_D.dtype == np.int64
    assert lattice.initial_D[0] * unit == initial
    assert lattice.floor_D[0] == MINUS_INFINITY if floor is None else int(lattice.floor_D[0]) * unit == floor
    assert lattice.ceiling_D[0] == PLUS_INFINITY if ceiling is None else int(lattice.ceiling_D[0]) * unit == ceiling
    assert lattice.saturates == any(has)
    # following any costs in ticks is following them in amounts
    spent, ticks = initial, int(lattice.initial_D[0])
    for _ in range(model.horizon):
        for cost, cost_ticks in zip(costs, lattice.cost_OD[:, 0].tolist(), strict=True):
            spent = model.resource("x").clamp(spent + cost)
            ticks = min(max(ticks + cost_ticks, int(lattice.floor_D[0])), int(lattice.ceiling_D[0]))
            assert ticks * unit == spent
            assert (ticks <= lattice.upper_HD[0, 0]) == (spent <= limit)


def test_plain_accounts() -> None:
    initial, floor, ceiling = AccountTicks.plain(2)
    assert initial.tolist() == [0, 0]
    assert floor.tolist() == [MINUS_INFINITY] * 2
    assert ceiling.tolist() == [PLUS_INFINITY] * 2
    assert not fit(spend([[1]]), 3).saturates


def test_a_limit_between_ticks_is_rounded_inward_beside_a_floor() -> None:
    lattice = fit(tank([10**17, 2], floor="-1/2"), "10.0000000000000000000001")
    assert lattice.units == (Fraction(1, 2),)
    assert lattice.upper_HD[0, 0] == 20
    assert lattice.floor_D[0] == -1


@pytest.mark.parametrize(
    ("ends", "spent", "found"),
    [
        ({"floor": "-1e30"}, 0, "found a cost of 1 (s/go) beside a floor of about -1e+30 over"),
        ({"ceiling": 10**30}, 0, "found a cost of 1 (s/go) beside a ceiling of about 1e+30 over"),
        ({}, 10**30, "found a cost of 1 (s/go) beside an initial amount of about 1e+30 over"),
        ({"floor": "-1e-30"}, 0, "found a floor of "),
        ({}, "1e-30", "found an initial amount of "),
        ({"ceiling": "1/1000000000000000000000007"}, 0, "found a ceiling of "),
    ],
)
def test_overflow_by_other_amounts_names_them(ends: Any, spent: Any, found: str) -> None:
    model = tank([1, 2], **ends)
    with pytest.raises(LatticeOverflowError) as caught:
        Lattice.fit(model, resolve(model, 5, spent))
    assert found in str(caught.value), str(caught.value)


def test_a_small_model_keeps_the_lattice_of_its_own_budget():
    model = instances.paper(20, seed=1, budget=3)
    own = resolve(model, None)
    kept = Lattice.fit(model, own)
    assert Lattice.fit(model, resolve(model, None)) is kept
    assert Lattice.fit(model, resolve(model, 4)).upper_HD[0, 0] * kept.units[0] == 4
    spent = Lattice.fit(model, resolve(model, None, 1))
    assert spent is not kept
    assert spent.initial_D[0] * spent.units[0] == 1
    other = pickle.loads(pickle.dumps(model))
    assert Lattice.fit(other, resolve(other, None)).upper_HD.tolist() == kept.upper_HD.tolist()
    large = instances.paper(2100, seed=1, budget=3, digits=2)
    assert Lattice.fit(large, resolve(large, None)) is not Lattice.fit(large, resolve(large, None))
