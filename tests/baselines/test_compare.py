"""Comparison of all methods: the paper's Corollary 1, the delivery van, and the table."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

import solvent
from effort import slow_after
from solvent.baselines.compare import METHODS
from solvent.errors import ProgramError
from solvent.model import instances
from solvent.verification.finite import verify_within

VAN = solvent.examples.path("delivery-van")


def masked(table: str) -> str:
    return re.sub(r"\d+\.\d\d (?=│$)", "#.## ", table, flags=re.M)


GOLDEN = """\
markov_gap
┏━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━┳━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━┳━━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━┓
┃ method              ┃ status    ┃ claims ┃ value ┃ worst cost ┃ P(over) ┃ mean excess ┃ feasible ┃ seconds ┃
┡━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━╇━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━╇━━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━┩
│ exact               │ optimal   │      5 │     5 │          1 │       0 │           0 │ yes      │    #.## │
│ expectation         │ optimal   │      5 │     5 │          2 │    0.25 │        0.25 │ no       │    #.## │
│ chance              │ optimal   │    5.5 │   5.5 │          2 │    0.05 │        0.05 │ no       │    #.## │
│ smaller expectation │ feasible  │      0 │     0 │          1 │       0 │           0 │ yes      │    #.## │
│ smaller chance      │ not found │      - │     - │          - │       - │           - │ -        │    #.## │
│ knapsack            │ optimal   │     10 │    10 │          2 │     0.5 │         0.5 │ no       │    #.## │
│ unconstrained       │ optimal   │     10 │    10 │          2 │     0.5 │         0.5 │ no       │    #.## │
└─────────────────────┴───────────┴────────┴───────┴────────────┴─────────┴─────────────┴──────────┴─────────┘
smaller expectation: planned for cost at most 0.5
smaller chance: none of 33 surrogate budgets has a policy that never exceeds the true budget"""


def test_the_table() -> None:
    assert masked(str(solvent.compare(instances.markov_gap(prize=10)))) == GOLDEN


@pytest.mark.parametrize("wait", [0, 3])
@pytest.mark.parametrize("budget", [1, "2/3", 7])
def test_expectation_goes_over_with_probability_one_quarter(budget: object, wait: int) -> None:
    # the construction of Proposition 1: cost B with probability 1/2, then a prize for B
    row = solvent.compare(instances.markov_gap(10, budget, wait=wait), methods=["expectation"])["expectation"]
    assert row.violation_probability == pytest.approx(0.25)
    assert row.worst_spent["cost"] == 2 * Fraction(budget)
    assert row.value == pytest.approx(5)


@pytest.mark.parametrize("chance", ["1/2", "1/10", "1/1000"])
def test_expectation_can_go_over_by_any_amount(chance: str) -> None:
    # Corollary 1: cost B / (2 delta) with probability delta; half the time the prize is taken on top
    rare = Fraction(chance)
    model = instances.markov_gap(10, 1, rare, 1 / (2 * rare))
    row = solvent.compare(model, methods=["expectation"])["expectation"]
    assert row.worst_spent["cost"] == 1 / (2 * rare) + 1
    assert row.violation_probability == pytest.approx(float(rare) if rare < Fraction(1, 2) else 0.25)
    assert row.value == pytest.approx(5)


@pytest.mark.parametrize("cost", [1, 100, 10**6])
def test_chance_can_go_over_by_any_amount(cost: int) -> None:
    model = instances.markov_gap(10, 1, "1/20", cost)
    row = solvent.compare(model, methods=["chance"], delta=0.05)["chance"]
    assert row.value == pytest.approx(10)
    assert row.violation_probability == pytest.approx(0.05)
    assert row.worst_spent["cost"] == cost + 1


@pytest.mark.parametrize("prize", slow_after(1, [1000, 1]))
@pytest.mark.parametrize("chance", ["1/2", "1/3", "1/7"])
def test_a_smaller_budget_earns_nothing(prize: float, chance: str) -> None:
    found = solvent.compare(instances.markov_gap(prize, 1, chance), delta=float(Fraction(chance)))
    assert found["exact"].value == pytest.approx(prize * (1 - float(Fraction(chance))))
    assert found["smaller expectation"].value == pytest.approx(0)
    assert found["smaller expectation"].feasible
    assert found["smaller chance"].status == "not_found"
    assert found["knapsack"].violation_probability == pytest.approx(float(Fraction(chance)))


@pytest.mark.slow
def test_a_tank_that_cannot_be_overfilled() -> None:
    found = solvent.compare(solvent.load_model(VAN))
    assert found["exact"].value == pytest.approx(72.38673148)
    assert found["exact"].worst_spent == {"fuel": 30}
    assert found["expectation"].message == "expected spending fuel 30, as if fuel did not saturate"
    assert found["expectation"].violation_probability == pytest.approx(0.49720127)
    assert found["chance"].value == pytest.approx(76.31108342)
    assert found["chance"].violation_probability == pytest.approx(0.05)
    assert found["unconstrained"].value == pytest.approx(117)


@pytest.mark.slow
def test_the_delivery_van() -> None:
    found = solvent.compare(replace(solvent.load_model(VAN), floors=()))  # what does not fit goes into cans
    assert tuple(row.method for row in found.rows) == METHODS
    assert found["exact"].feasible
    assert found["exact"].value == pytest.approx(72.38982793)
    assert found["exact"].worst_spent == {"fuel": 30}
    for name in ("expectation", "chance", "knapsack", "unconstrained"):
        row = found[name]
        assert row.feasible is False
        assert row.worst_spent["fuel"] > 30
        assert row.value > found["exact"].value
    assert found["expectation"].value == pytest.approx(84.08121129)
    assert found["expectation"].violation_probability == pytest.approx(0.4972, abs=1e-3)
    assert found["chance"].violation_probability == pytest.approx(0.05)
    assert found["knapsack"].claimed < found["knapsack"].value
    smaller = found["smaller expectation"]
    assert smaller.feasible
    assert smaller.value < 0 < found["exact"].value


def test_what_a_method_cannot_do_is_a_row_that_says_why() -> None:
    found = solvent.compare(solvent.load_model(VAN.parent / "campaign.yaml"))
    for name in ("exact", "chance", "smaller chance", "knapsack"):
        assert found[name].status == "refused"
        assert "costs of finite support" in found[name].message
        assert found[name].value is None
        assert found[name].feasible is None
    assert found["expectation"].violation_probability is None
    assert found["expectation"].feasible is False
    assert "unknown" in str(found)


def test_a_check_that_stops_is_a_row_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    # by module name, because `baselines.compare` is the function
    monkeypatch.setattr(sys.modules[solvent.compare.__module__], "verify_within", partial(verify_within, max_nodes=1))
    row = solvent.compare(instances.markov_gap(), methods=["exact"])["exact"]
    assert row.status == "refused"
    assert row.message == "verification stopped: verify, step 0: expected at most 1 nodes, found more; raise max_nodes="
    assert row.value is None


def test_a_program_that_is_not_solved_is_a_row_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failed:
        status, message = 4, "numerical difficulties"

    monkeypatch.setattr("solvent.baselines.occupancy.linprog", lambda *_, **__: Failed)
    with pytest.raises(ProgramError, match="occupancy measures was not solved: numerical difficulties"):
        solvent.baselines.expectation(instances.markov_gap())
    found = solvent.compare(instances.markov_gap(), methods=["expectation", "exact"])
    assert found["expectation"].status == "refused"
    assert "numerical difficulties" in found["expectation"].message
    assert found["exact"].feasible


def test_infeasible_problems() -> None:
    found = solvent.compare(instances.partition([3, 1, 1]))
    assert found["exact"].status == "infeasible"
    assert found["exact"].feasible is None
    assert found["expectation"].feasible is False
    assert "infeasible: every policy can break a limit" in str(found)


def test_several_resources_lower_limits_and_frames() -> None:
    found = solvent.compare(solvent.load_model(VAN.parent / "drone.yaml"), methods=["unconstrained", "exact"])
    assert [row.method for row in found.rows] == ["unconstrained", "exact"]
    text = str(found)
    assert "0 to 20" in text
    assert "excess risk" in text
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert frame["worst_battery"].tolist()[1] == 20
    assert frame["feasible"].tolist() == [False, True]
    assert frame["expected_excess_risk"].tolist()[1] == 0


def test_errors_say_what_was_expected() -> None:
    model = instances.markov_gap()
    with pytest.raises(solvent.ModelError, match=r"methods: expected some of exact, .*, found 'knapsak'; did you mean"):
        solvent.compare(model, methods=["knapsak"])
    with pytest.raises(solvent.ModelError, match="delta: expected a probability from 0 to 1, found 2"):
        solvent.compare(model, delta=2)
    with pytest.raises(solvent.BudgetError, match="the model carries no default"):
        solvent.compare(instances.knapsack([1], [1]))
    with pytest.raises(solvent.ModelError, match=r"method: expected a method that was compared \('exact'\), found"):
        solvent.compare(model, methods=["exact"])["chance"]


@pytest.mark.parametrize("methods", ["chance", 5, [["a"]], ["chanse"]])
def test_methods_are_a_list_of_names(methods) -> None:
    with pytest.raises(solvent.ModelError, match=r"^methods: expected (a list of names|some of exact)"):
        solvent.compare(instances.markov_gap(), methods=methods)
