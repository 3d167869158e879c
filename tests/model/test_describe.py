from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import solvent
from solvent import CMDP, Budget, instances


def build(costs: list[Any], **options: Any) -> CMDP:
    b = CMDP.builder(**{"horizon": 4, "start": "s", "resources": ["x"], **options})
    b.add("s", "go", outcomes=[(Fraction(1, len(costs)), "s", c) for c in costs])
    return b.build()


def test_sizes() -> None:
    facts = instances.fuel_grid(3).describe()
    assert (facts.title, facts.horizon, facts.states, facts.actions) == ("fuel_grid(3)", 9, 9, 5)
    assert (facts.rows, facts.outcomes, facts.tables, facts.terminal_states) == (45, 209, 1, 0)
    b = CMDP.builder(horizon=2, start="a")
    b.add("a", "go", outcomes=[(1, "end")])
    assert b.build().describe().terminal_states == 1
    assert b.build().describe().title == "model"


@pytest.mark.parametrize(
    ("costs", "low", "high", "unit", "bits"),
    [
        ([0], 0, 0, 1, 0),
        ([1], 1, 1, 1, 1),
        (["1/2", "3/2"], Fraction(1, 2), Fraction(3, 2), Fraction(1, 2), 2),
        ([0.1, 0.7], Fraction(1, 10), Fraction(7, 10), Fraction(1, 10), 3),
        ([-4, 3], -4, 3, 1, 4),
        ([255, 1], 1, 255, 1, 8),
        ([1e300, 1e-300], Fraction(1, 10**300), 10**300, Fraction(1, 10**300), (10**600).bit_length()),
    ],
)
def test_facts_about_a_resource(costs: list[Any], low: Any, high: Any, unit: Any, bits: int) -> None:
    (facts,) = build(costs).describe().resources
    assert (facts.low, facts.high, facts.unit, facts.bits) == (low, high, unit, bits)


def test_the_bound_on_cost_diversity_is_that_of_lemma_4() -> None:
    # H^d 2^((k+1)d) with H = 4, d = 1, k = 2
    assert build(["1/2", "3/2"]).describe().diversity_bound_log2 == 2 + 3
    b = CMDP.builder(horizon=4, start="s", resources=["x", "y"])
    b.add("s", "go", outcomes=[(0.5, "s", [3, 1]), (0.5, "s", [1, 1])])
    assert b.build().describe().diversity_bound_log2 == (2 + 3) + (2 + 2)


def test_continuous_costs_have_no_precision() -> None:
    model = build([1, solvent.distribution("exponential", scale=1, negate=True)])
    facts = model.describe()
    assert facts.resources[0].bits is None
    assert (facts.resources[0].low, facts.resources[0].high) == (None, 1)
    assert facts.diversity_bound_log2 is None
    text = str(facts)
    assert "-inf to 1" in text
    assert "continuous" in text
    assert "unbounded" in text


def test_the_table() -> None:
    text = str(instances.knapsack([3, 4], [2, "7/2"], capacity=4).describe())
    assert text.splitlines()[0] == "knapsack"
    assert "2 (2 tables)" in text
    assert "at most 32" in text
    for cell in ("weight", "0 to 3.5", "0.5", "4"):
        assert cell in text


@pytest.mark.parametrize(
    ("budget", "shown"),
    [
        (30, "30"),
        ("1/3", "1/3"),
        (None, "-"),
        ({"x": None}, "no limit"),
        (Budget.final(3), "3 at the end"),
        (Budget(upper=20, lower=0), "between 0 and 20"),
        (
            Budget(upper=[10**9, 2, 3, 4]),
            "at most 1000000000 after step 0, at most 2 after step 1, at most 3 after step 2, at most 4 after step 3",
        ),
    ],
)
def test_budgets_are_shown(budget: Any, shown: str) -> None:
    assert build([1], budget=budget).describe().resources[0].limit == shown


@pytest.mark.parametrize("name", ["[/red]", "[bold]x[/bold]", ":smile:", "[link=http://x]y"])
def test_names_are_not_markup(name: str) -> None:
    text = str(build([1], name=name, resources=[name]).describe())
    assert text.splitlines()[0] == name
    assert text.count(name) == 2


@pytest.mark.parametrize("cost", [10**350, Fraction(1, 10**350), Fraction(1, 3**300), -(10**350), 2.0**-60, "1/7"])
def test_extreme_amounts_are_shown_briefly(cost: Any) -> None:
    text = str(build([cost]).describe())
    assert max(map(len, text.splitlines())) < 100
    if cost == 2.0**-60:
        assert "2^-60" in text
    if cost == 10**350:
        assert "1e+350" in text


def test_accounts_are_shown() -> None:
    model = build(
        [1],
        start={"s": 0.5, "t": 0.5},
        resources=[solvent.Resource("x", floor="-1/2", ceiling=3)],
        states=["s", "t"],
        end_reward={"t": 2.5},
        must_end_in=["s"],
    )
    facts = model.describe()
    assert facts.start == {"s": 0.5, "t": 0.5}
    assert facts.end_reward == {"t": 2.5}
    assert facts.must_end_in == ("s",)
    assert (facts.resources[0].floor, facts.resources[0].ceiling) == (Fraction(-1, 2), 3)
    lines = [" ".join(line.replace("│", " ").split()) for line in str(facts).splitlines()]
    assert "start s (0.5), t (0.5)" in lines
    assert "end reward t 2.5" in lines
    assert "must end in s" in lines
    assert "x 1 to 1 1 1 -0.5 3 -" in lines
    assert repr(model) == (
        "CMDP(horizon 4, 2 states, 1 actions, 1 rows, 1 outcomes, stationary, resources [Resource('x', floor='-0.5', "
        "ceiling=3)], 2 first states, end rewards in 1 state, must end in 1 state)"
    )


def test_plain_accounts_are_not_mentioned() -> None:
    text = str(build([1]).describe())
    assert not any(word in text for word in ("floor", "ceiling", "start", "end reward", "must end in"))
    assert repr(build([1])).endswith("resources ['x'])")


def test_long_lists_of_states_are_cut() -> None:
    names = [f"s{i}" for i in range(12)]
    b = CMDP.builder(horizon=1, start=dict.fromkeys(names, Fraction(1, 12)), states=names, must_end_in=lambda s: False)
    b.add("s0", "go", outcomes=[(1, "s0")])
    text = " ".join(str(b.build().describe()).split())
    assert "s5 (0.08333), ... (12 states)" in text
    assert "must end in no state" in text


def test_floors_between_costs_count_for_the_bound_on_diversity() -> None:
    # amounts are multiples of 1/2 once the floor has been hit: one more bit
    plain = build([1, 2]).describe().diversity_bound_log2
    assert plain is not None
    for floor, extra in ((-1, 0), ("-1/2", 1), ("-1/3", 2), ("-1/5", 3)):
        model = build([1, 2], resources=[solvent.Resource("x", floor=floor)])
        assert model.describe().diversity_bound_log2 == plain + extra
        assert model.describe().resources[0].bits == 2
