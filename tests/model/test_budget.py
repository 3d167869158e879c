from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import solvent
from solvent import CMDP, Budget, BudgetError, ModelError, instances
from solvent.model.budget import Limits, read_spent, resolve


@pytest.fixture
def one() -> CMDP:
    return instances.knapsack([1, 1, 1], [1, 1, 1])


@pytest.fixture
def two() -> CMDP:
    b = CMDP.builder(horizon=3, start=0, resources=["fuel", "risk"])
    b.add(0, 0, outcomes=[(1, 0, [1, 1])])
    return b.build()


THIRD = Fraction(1, 3)


@pytest.mark.parametrize(
    ("budget", "upper", "lower"),
    [
        (30, (30,) * 3, (None,) * 3),
        (0.1, (Fraction(1, 10),) * 3, (None,) * 3),
        ("1/3", (THIRD,) * 3, (None,) * 3),
        (Decimal("-2.5"), (Fraction(-5, 2),) * 3, (None,) * 3),
        (np.float64(0.5), (Fraction(1, 2),) * 3, (None,) * 3),
        ({"weight": 30}, (30,) * 3, (None,) * 3),
        ({"weight": [1, None, "1/3"]}, (1, None, THIRD), (None,) * 3),
        ([1, 2, 3], (1, 2, 3), (None,) * 3),
        (range(1, 4), (1, 2, 3), (None,) * 3),
        (np.array([1.5, 2, 3]), (Fraction(3, 2), 2, 3), (None,) * 3),
        (np.array(4), (4,) * 3, (None,) * 3),
        (Budget(30), (30,) * 3, (None,) * 3),
        (Budget(upper=[10, 20, 30], lower=[0, 0, 5]), (10, 20, 30), (0, 0, 5)),
        (Budget(upper=lambda step: 10 * step), (0, 10, 20), (None,) * 3),
        (Budget(lower=lambda step: None if step < 2 else -1), (None,) * 3, (None, None, -1)),
        (Budget(upper=5, lower=-5), (5,) * 3, (-5,) * 3),
        (Budget.final(7), (None, None, 7), (None,) * 3),
        (Budget.final("1/3", lower=-2), (None, None, THIRD), (None, None, -2)),
        (Budget.final(lower=1), (None,) * 3, (None, None, 1)),
    ],
)
def test_every_form_resolves_to_limits_per_step(one: CMDP, budget: Any, upper: Any, lower: Any) -> None:
    limits = resolve(one, budget)
    assert limits.resources == ("weight",)
    assert limits.upper == (upper,)
    assert limits.lower == (lower,)
    assert all(type(x) is Fraction for x in (*limits.upper[0], *limits.lower[0]) if x is not None)


@pytest.mark.parametrize(
    "budget", [{"weight": None}, Budget(), Budget.final(), Budget(upper=[None] * 3), Budget(lower=lambda _: None)]
)
def test_a_resource_without_limits_is_untracked(one: CMDP, budget: Any) -> None:
    assert resolve(one, budget).resources == ()


def test_limits_are_in_the_order_of_the_model(two: CMDP) -> None:
    limits = resolve(two, {"risk": 1, "fuel": Budget(upper=[2, 3, 4], lower=-7)})
    assert limits.resources == ("fuel", "risk")
    assert limits.upper == ((2, 3, 4), (1, 1, 1))
    assert [limits.largest(d) for d in (0, 1)] == [7, 1]


def test_the_budget_of_the_model_is_the_default() -> None:
    model = instances.knapsack([1], [1], capacity=4)
    assert resolve(model, None).upper == ((4,),)
    assert resolve(model, 9).upper == ((9,),)
    with pytest.raises(BudgetError, match=r"expected a budget, found none; the model carries no default: pass budget="):
        resolve(instances.knapsack([1], [1]), None)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (
            {"wieght": 1},
            r"budget: expected a resource of the model \('weight'\), found 'wieght'; did you mean 'weight'\?",
        ),
        (
            {},
            r"budget: expected a limit for resource 'weight', found none; "
            r"give it a limit, or write weight: None to leave it unlimited",
        ),
        (math.nan, r"budget, weight, upper: expected a finite number .* found nan$"),
        (math.inf, r"found inf; use None for no limit"),
        (-math.inf, r"found -inf; use None for no limit"),
        ("inf", r"found 'inf'; use None for no limit"),
        (Decimal("Infinity"), r"found Infinity; use None for no limit"),
        (True, r"budget, weight, upper: expected a finite number .* found True"),
        ("much", r"found 'much'"),
        ({"weight": {"upper": 3}}, r"budget, weight, upper: expected a finite number .* found \{'upper': 3\}"),
        (
            [1, 2],
            r"budget, weight, upper: expected 3 limits, one after each step, found 2; use None for a step without",
        ),
        ([1, 2, math.nan], r"budget, weight, upper after step 2: expected a finite number .* found nan"),
        (np.ones((3, 1)), r"budget, weight, upper after step 0: expected a finite number"),
        (Budget(upper=lambda step: math.inf), r"budget, weight, upper after step 0: .* found inf; use None"),
        (Budget(lower=[1]), r"budget, weight, lower: expected 3 limits"),
        (
            Budget(upper=[3, 2, 1], lower=2),
            r"budget, weight: expected no lower limit above the upper one, found lower 2 above upper 1 after step 2",
        ),
        (Budget.final(1, lower="3/2"), r"found lower 1.5 above upper 1 after step 2"),
    ],
)
def test_errors_say_where_and_what(one: CMDP, budget: Any, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        resolve(one, budget)


def test_a_single_limit_is_not_enough_for_two_resources(two: CMDP) -> None:
    with pytest.raises(
        BudgetError, match=r"a limit for each of 'fuel', 'risk' by name, found 3; a single limit is enough"
    ):
        resolve(two, 3)
    with pytest.raises(BudgetError, match=r"expected a limit for resource 'risk', found none"):
        resolve(two, {"fuel": 3})


def test_a_model_without_resources_takes_only_an_empty_budget() -> None:
    b = CMDP.builder(horizon=1, start=0)
    b.add(0, 0, outcomes=[(1, 0)])
    assert resolve(b.build(), {}).resources == ()
    with pytest.raises(BudgetError, match="expected no budget, found 3"):
        resolve(b.build(), 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Budget(3, upper=4), r"budget: expected one upper limit, found both 3 and upper=4"),
        (lambda: Budget(math.nan), r"budget, upper: expected a finite number"),
        (lambda: Budget(lower="x"), r"budget, lower: expected a finite number"),
        (lambda: Budget.final([1, 2]), r"budget, final limit: expected a finite number .* found \[1, 2\]"),
        (lambda: Budget.final(lower=len), r"budget, final lower: expected a finite number"),
        (lambda: Budget.final(math.inf), r"budget, final limit: .*use None for no limit"),
    ],
)
def test_errors_on_stating_a_budget(make: Any, message: str) -> None:
    with pytest.raises(BudgetError, match=message) as caught:
        make()
    assert isinstance(caught.value, ModelError)


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (Budget(30), "Budget(30)"),
        (Budget("1/3"), "Budget('1/3')"),
        (Budget(), "Budget(None)"),
        (Budget(upper=[1, None], lower=0.5), "Budget(upper=[1, None], lower='0.5')"),
        (Budget.final(3), "Budget.final(3)"),
        (Budget.final(3, lower=1), "Budget.final(3, lower=1)"),
        (Budget(lower=1), "Budget(lower=1)"),
    ],
)
def test_repr_can_be_evaluated(budget: Budget, text: str) -> None:
    assert repr(budget) == text
    assert eval(text) == budget
    assert hash(eval(text)) == hash(budget)


def test_budgets_are_equal_by_value() -> None:
    assert Budget(0.5) == Budget("1/2") != Budget.final(0.5)
    assert Budget(upper=[1, 2]) != Budget(upper=[1, 3])
    with pytest.raises(AttributeError):
        Budget(1).upper = 2  # type: ignore[misc]


def test_a_model_without_resources_needs_no_budget() -> None:
    b = CMDP.builder(horizon=2, start="s")
    b.add("s", "go", reward=1, outcomes=[(1, "s")])
    assert resolve(b.build(), None).resources == ()
    assert solvent.solve(b.build()).value == 2


# ---------------------------------------------------------------------------------------------------------------------
# what has been spent before the first step


def tanks() -> CMDP:
    b = CMDP.builder(
        horizon=2,
        start="s",
        resources=["time", solvent.Resource("fuel", floor=0), solvent.Resource("heat", ceiling="1/2")],
    )
    b.add("s", "go", outcomes=[(1, "s", 0)])
    return b.build()


def test_initial_amounts_are_read_exactly(one: CMDP, two: CMDP) -> None:
    assert read_spent(one, None) == {"weight": 0}
    assert read_spent(one, "1/3") == {"weight": Fraction(1, 3)}
    assert read_spent(one, {"weight": 0.1}) == {"weight": Fraction(1, 10)}
    assert read_spent(one, -2) == {"weight": -2}
    assert read_spent(two, {}) == dict.fromkeys(two.resources, 0)
    assert read_spent(tanks(), {"fuel": 3, "heat": "-7"}) == {"time": 0, "fuel": 3, "heat": -7}


def test_limits_carry_the_initial_amounts_of_tracked_resources(one: CMDP) -> None:
    assert resolve(one, 4).initial == (0,)
    assert resolve(one, 4, "3/2").initial == (Fraction(3, 2),)
    assert resolve(one, 4, 7).initial == (7,), "limits hold after each step, not before the first"
    model = tanks()
    limits = resolve(model, {"time": None, "fuel": 3, "heat": 0}, {"time": 5, "fuel": 2})
    assert (limits.resources, limits.initial) == (("fuel", "heat"), (2, 0))
    assert Limits((), (), ()).initial == ()
    assert Limits(("x",), ((None,),), ((None,),)).initial == (0,)


@pytest.mark.parametrize(
    ("spent", "message"),
    [
        (3, r"^spent: expected an amount of each of 'time', 'fuel', 'heat' by name, found 3$"),
        (
            {"fule": 3},
            r"^spent: expected a resource of the model \('time', 'fuel', 'heat'\), found 'fule'; did you mean",
        ),
        ({"fuel": "x"}, r"^spent, fuel: expected a finite number .* found 'x'$"),
        ({"fuel": None}, r"^spent, fuel: expected a finite number .* found None$"),
        ({"fuel": float("nan")}, r"^spent, fuel: expected a finite number .* found nan$"),
        ({"fuel": -1}, r"^spent, fuel: expected at least the floor, 0, found -1$"),
        ({"heat": 1}, r"^spent, heat: expected at most the ceiling, 0.5, found 1$"),
    ],
)
def test_errors_in_initial_amounts(spent: Any, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        read_spent(tanks(), spent)


def test_a_floor_above_zero_needs_an_initial_amount() -> None:
    b = CMDP.builder(horizon=1, start="s", resources=[solvent.Resource("level", floor=2)], budget=5)
    b.add("s", "go", outcomes=[(1, "s", 1)])
    model = b.build()
    message = (
        r"^spent, level: expected at least the floor, 2, found 0; say what has been spent before the first step: spent="
    )
    with pytest.raises(BudgetError, match=message):
        resolve(model, None)
    assert resolve(model, None, 3).initial == (3,)


def test_a_model_without_resources_spends_nothing() -> None:
    b = CMDP.builder(horizon=1, start="s")
    b.add("s", "go", outcomes=[(1, "s")])
    assert read_spent(b.build(), None) == {}
    with pytest.raises(BudgetError, match=r"^spent: expected nothing, as the model has no resources, found 3$"):
        read_spent(b.build(), 3)
