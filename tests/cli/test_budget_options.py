"""The grammar of `--budget`, and its errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from solvent import Budget, BudgetError, ModelError
from solvent.cli.budgets import read_budget_options, read_epsilon_options, read_limits


def model(*resources: str, budget: object = None) -> solvent.CMDP:
    b = solvent.CMDP.builder(horizon=3, start=0, resources=list(resources), budget=budget)
    b.add(0, 0, outcomes=[(1, 0, dict.fromkeys(resources, 1))])
    return b.build()


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("30", Budget(30)),
        (" 30 ", Budget(30)),
        ("-2", Budget(-2)),
        ("0.1", Budget("1/10")),
        ("1/3", Budget("1/3")),
        ("1e-3", Budget("1/1000")),
        ("none", Budget()),
        ("0..30", Budget(upper=30, lower=0)),
        ("-1/2..0.5", Budget(upper="1/2", lower="-1/2")),
        ("5..", Budget(lower=5)),
        ("..30", Budget(30)),
        ("10,20,30", Budget(upper=[10, 20, 30])),
        ("10, none, 0..30", Budget(upper=[10, None, 30], lower=[None, None, 0])),
        ("none,none,2..", Budget(lower=[None, None, 2])),
        ("none,none,none", Budget()),
        ("final:30", Budget.final(30)),
        ("final: -12", Budget.final(-12)),
        ("final:5..30", Budget.final(30, lower=5)),
        ("final:5..", Budget.final(lower=5)),
    ],
)
def test_limits(text: str, budget: Budget) -> None:
    assert read_limits(text) == budget


@given(st.fractions(), st.fractions())
def test_any_exact_interval_reads_back(one: object, two: object) -> None:
    low, high = sorted([one, two])  # type: ignore[type-var]
    assert read_limits(f"{low}..{high}") == Budget(upper=high, lower=low)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found ''; write none for no limit"),
        ("abc", "expected a limit such as 30, 0..30, 10,20,30 or final:30, found 'abc'"),
        ("1..x", "found 'x'"),
        ("..", "expected a number on at least one side of '..', found '..'; write none for no limit"),
        ("inf", "found 'inf'; write none for no limit"),
        ("1,,2", "found ''"),
        ("nan", "found 'nan'"),
        ("final:1,2", "expected one limit for the end, found 2 limits"),
        ("finl:3", "found 'finl:3'; did you mean 'final'?"),
        ("1/0", "found '1/0'"),
    ],
)
def test_what_is_no_limit(text: str, message: str) -> None:
    with pytest.raises(BudgetError) as caught:
        read_limits(text)
    assert message in str(caught.value)


def test_no_option_means_the_models_own() -> None:
    assert read_budget_options(None, model("fuel", budget=3)) is None
    assert read_budget_options([], model("fuel", budget=3)) is None


def test_the_name_may_be_left_out_where_there_is_one() -> None:
    assert read_budget_options(["4"], model("fuel")) == {"fuel": Budget(4)}
    assert read_budget_options(["fuel=4"], model("fuel")) == {"fuel": Budget(4)}


def test_resources_not_named_keep_the_models_own() -> None:
    both = model("fuel", "risk", budget={"fuel": 3, "risk": "1/2"})
    assert read_budget_options(["risk=1"], both) == {"fuel": Budget(3), "risk": Budget(1)}
    with pytest.raises(
        BudgetError, match=r"a limit for resource 'fuel', found none.*add --budget fuel=LIMIT, or --budget fuel=none"
    ):
        read_budget_options(["risk=1"], model("fuel", "risk"))


def test_names_with_equals_signs() -> None:
    odd = model("a", "a=b")
    assert read_budget_options(["a=b=1", "a=2"], odd) == {"a": Budget(2), "a=b": Budget(1)}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["feul=3", "risk=1"], r"--budget feul=3: expected a resource of the model \('fuel', 'risk'\), found 'feul'"),
        (["3"], r"--budget 3: expected the name of a resource .* write --budget fuel=3"),
        (["fuel=1", "fuel=2"], "--budget: expected each resource once, found 'fuel' twice"),
        (["fuel=1,2", "risk=1"], "--budget, fuel, upper: expected 3 limits, one after each step, found 2"),
        (["fuel=5..3", "risk=1"], "no lower limit above the upper one"),
    ],
)
def test_what_does_not_fit_the_model(texts: list[str], message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        read_budget_options(texts, model("fuel", "risk"))


def test_a_model_that_spends_nothing() -> None:
    with pytest.raises(BudgetError, match="this model has no resources"):
        read_budget_options(["3"], model())


def test_epsilon() -> None:
    two = model("fuel", "risk")
    assert read_epsilon_options(None, two) is None
    assert read_epsilon_options(["1/3"], two) == "1/3"
    assert read_epsilon_options(["fuel=1", "risk=0.1"], two) == {"fuel": "1", "risk": "0.1"}
    with pytest.raises(ModelError, match="--epsilon feul=1: expected a resource of the model"):
        read_epsilon_options(["feul=1"], two)
    with pytest.raises(ModelError, match="--epsilon: expected each resource once, found 'fuel' twice"):
        read_epsilon_options(["fuel=1", "fuel=2"], two)
    with pytest.raises(ModelError, match="--epsilon 1: expected the name of a resource"):
        read_epsilon_options(["1", "2"], two)
