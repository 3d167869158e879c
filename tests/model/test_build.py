from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import solvent
from effort import draws
from solvent import CMDP, Budget, BudgetError, ModelError
from solvent.core.exact import exact
from solvent.model.cmdp import NO_DISTRIBUTION


def builder(**options: Any) -> Any:
    return CMDP.builder(**{"horizon": 3, "start": "a", "resources": ["x"], **options})


def one_row(outcomes: Any, **options: Any) -> CMDP:
    b = builder(**options)
    b.terminal("end")
    b.add("a", "go", outcomes=outcomes)
    return b.build()


@st.composite
def statements(draw: Any) -> tuple[int, list[tuple[Any, ...]]]:
    """Rows in any order: (state, action, steps, reward, outcomes)."""
    horizon = draw(st.integers(1, 4))
    rows: list[tuple[Any, ...]] = []
    outcome = st.tuples(st.integers(0, 5), st.integers(0, 2), st.tuples(*[st.integers(-2, 2)] * 2), st.integers(-4, 4))
    for state in range(3):
        for action in draw(st.sets(st.integers(0, 2), min_size=1)):
            cut = draw(st.integers(0, horizon))
            for steps in (list(range(cut)), list(range(cut, horizon))):
                listed = draw(st.lists(outcome, min_size=1, max_size=3).filter(lambda o: sum(x[0] for x in o)))
                total = sum(x[0] for x in listed)
                if steps:
                    when = None if len(steps) == horizon else steps
                    weighted = [(Fraction(p, total), s, list(c), r) for p, s, c, r in listed]
                    rows.append((state, action, when, draw(st.integers(-9, 9)), weighted))
    return horizon, draw(st.permutations(rows))


@draws(60)
@given(statements())
def test_the_layout_holds_the_rows_that_were_added(statement: tuple[int, list[tuple[Any, ...]]]) -> None:
    horizon, rows = statement
    b = CMDP.builder(horizon=horizon, start=0, resources=["x", "y"], states=range(3), actions=range(3))
    for state, action, steps, reward, outcomes in rows:
        b.add(state, action, reward=reward, outcomes=outcomes, steps=steps)
    model = b.build()
    assert sorted(set(model.table_of_step.tolist())) == list(range(model.n_tables))
    contents = set()
    for step in range(horizon):
        content = []
        for state in range(3):
            stated = sorted((r for r in rows if r[0] == state and (r[2] is None or step in r[2])), key=lambda r: r[1])
            found = model.rows(step, state)
            assert [int(model.row_action[row]) for row in found] == [r[1] for r in stated]
            assert model.is_terminal(step, state) == (not stated)
            for row, (_, action, _, reward, outcomes) in zip(found, stated, strict=True):
                expected = reward + sum(p * r for p, _, _, r in outcomes)
                assert model.row_reward[row] == pytest.approx(float(expected), abs=1e-12)
                possible = [(p, s, c) for p, s, c, _ in outcomes if p > 0]
                listed = model.outcomes(row)
                assert [o.next_state for o in listed] == [s for _, s, _ in possible]
                assert [o.cost for o in listed] == [{"x": c[0], "y": c[1]} for _, _, c in possible]
                assert [o.probability for o in listed] == pytest.approx([float(p) for p, _, _ in possible])
                content.append((state, action, model.row_reward[row], str(listed)))
                place = f"{state}/{action}" + (
                    f" at step {model.table_of_step.tolist().index(model.table_of_step[step])}"
                )
                at = int(model.outcome_indptr[row])
                assert model.place_of(at) == (place if model.n_tables > 1 else f"{state}/{action}")
        contents.add(str(content))
    assert len(contents) == model.n_tables


def test_rewards_of_rows_and_outcomes_add_up() -> None:
    b = builder()
    b.add("a", "both", reward=2, outcomes=[("1/4", "a", 0, 8), (0.75, "a", 1, -4)])
    b.add("a", "row", reward="1/3", outcomes=[(1, "a", 0)])
    b.add("a", "none", outcomes=[(1, "a")])
    model = b.build()
    assert dict(zip(model.actions, model.row_reward.tolist(), strict=True)) == {"both": 1.0, "row": 1 / 3, "none": 0.0}


@pytest.mark.parametrize(
    ("horizon", "found"),
    [(0, "0"), (-1, "-1"), (2.5, "2.5"), (2.0, "2.0"), (True, "True"), ("3", "'3'"), (math.nan, "nan")],
)
def test_invalid_horizons(horizon: Any, found: str) -> None:
    with pytest.raises(ModelError, match=f"^horizon: expected a whole number of at least 1, found {found}$"):
        builder(horizon=horizon)


def test_horizons_of_numpy_and_the_largest() -> None:
    assert type(builder(horizon=np.int64(4)).horizon) is int
    with pytest.raises(ModelError, match="horizon: expected at most 1000000, found"):
        builder(horizon=10**9)


def test_a_long_horizon_stays_small() -> None:
    b = builder(horizon=10**6)
    b.add("a", "go", outcomes=[(1, "a", 1)])
    assert b.build().n_tables == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resources": "fuel"}, r"resources: expected a list of names, found 'fuel'"),
        ({"resources": ["x", "x"]}, r"resources: expected each name once, found 'x' twice"),
        ({"resources": [1]}, r"resources: expected names that are non-empty text, found 1"),
        ({"resources": [""]}, r"resources: expected names that are non-empty text, found ''"),
        ({"states": "abc"}, r"states: expected a list of names, found 'abc'"),
        ({"states": ["a", "b", "a"]}, r"states: expected each name once, found 'a' twice"),
        ({"actions": [["a"]]}, r"actions: expected hashable names, found \['a'\]"),
        (
            {"start": ["a"]},
            r"start: expected a hashable state name, found \['a'\]; for several first states, give a dict",
        ),
        ({"start": {"a": 0.5, "b": 0.6}}, r"start: expected probabilities with a sum of 1 .*, found 1.1"),
        ({"start": {"a": -1, "b": 2}}, r"start, probability of 'a': expected a number from 0 to 1, found -1"),
        ({"start": {}}, r"start: expected probabilities with a sum of 1 .*, found none"),
        ({"start": "home", "states": ["hom"]}, r"start: .*unknown state 'home'; did you mean 'hom'\?"),
    ],
)
def test_bad_declarations(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        builder(**options)


def test_a_start_without_rows_is_an_error() -> None:
    b = builder(start="hom")
    b.add("home", "go", outcomes=[(1, "home", 1)])
    with pytest.raises(ModelError, match=r"start: expected a state with actions .* found 'hom'; did you mean 'home'\?"):
        b.build()


def test_no_rows() -> None:
    with pytest.raises(ModelError, match=r"model: expected at least one row, found none; call add"):
        builder().build()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"state": "c"}, r"c/go: expected a declared state, found unknown state 'c'"),
        ({"action": "gone"}, r"a/gone: expected a declared action, found unknown action 'gone'; did you mean 'go'\?"),
        ({"outcomes": [(1, "bb", 0)]}, r"a/go, outcome 0, next state: .* unknown state 'bb'; did you mean 'b'\?"),
        ({"outcomes": [(1, ["b"], 0)]}, r"a/go, outcome 0, next state: expected a hashable state name, found \['b'\]"),
        ({"outcomes": []}, r"a/go: expected at least one outcome, found none"),
        ({"outcomes": 5}, r"a/go, outcomes: expected a list of outcomes, found 5"),
        ({"outcomes": "ab"}, r"a/go, outcomes: expected a list of outcomes, found 'ab'"),
        ({"outcomes": {"b": 1}}, r"a/go, outcomes: expected a list of outcomes"),
        ({"outcomes": ["ab"]}, r"a/go, outcome 0: expected \(probability, next state\)"),
        ({"outcomes": [(1,)]}, r"a/go, outcome 0: expected \(probability, next state\)"),
        ({"outcomes": [(1, "b", 0, 0, 0)]}, r"a/go, outcome 0: expected \(probability, next state\)"),
        ({"outcomes": [("half", "b", 0)]}, r"a/go, outcome 0, probability: expected a finite number"),
        ({"outcomes": [(True, "b", 0)]}, r"a/go, outcome 0, probability: expected a finite number"),
        (
            {"outcomes": [(0.5, "a"), (-0.5, "b")]},
            r"a/go, outcome 1, probability: expected a number from 0 to 1, found -0.5",
        ),
        (
            {"outcomes": [(1, "a"), (Fraction(-1, 10**400), "b")]},
            r"outcome 1, probability: expected a number from 0 to 1",
        ),
        ({"outcomes": [(math.nan, "a")]}, r"a/go, outcome 0, probability: expected a number from 0 to 1, found nan"),
        ({"outcomes": [(math.inf, "a")]}, r"a/go, outcome 0, probability: expected a number from 0 to 1, found inf"),
        ({"outcomes": [(10**400, "a")]}, r"a/go, outcome 0, probability: expected a number from 0 to 1, found 1000"),
        (
            {"outcomes": [(1, "b", {"fule": 1})]},
            r"a/go, outcome 0, cost: .*\('fuel', 'risk'\), found 'fule'; did you mean 'fuel'\?",
        ),
        ({"outcomes": [(1, "b", [1])]}, r"a/go, outcome 0, cost: expected 2 costs, one per resource, found 1: \[1\]"),
        ({"outcomes": [(1, "b", 3)]}, r"a/go, outcome 0, cost: expected a cost for each resource \('fuel', 'risk'\)"),
        ({"outcomes": [(1, "b", False)]}, r"a/go, outcome 0, cost: expected a cost for each resource"),
        ({"outcomes": [(1, "b", 0, math.inf)]}, r"a/go, outcome 0, reward: expected a finite number, found inf"),
        ({"reward": math.nan}, r"a/go, reward: expected a finite number, found nan"),
        ({"reward": "much"}, r"a/go, reward: expected a finite number"),
        ({"reward": 10**400}, r"a/go, reward: expected a number a float can hold"),
        ({"steps": [3]}, r"a/go, steps: expected steps from 0 to 2, found 3"),
        ({"steps": [-1]}, r"a/go, steps: expected steps from 0 to 2, found -1"),
        ({"steps": [0.5]}, r"a/go, steps: expected steps from 0 to 2, found 0.5"),
        ({"steps": [True]}, r"a/go, steps: expected steps from 0 to 2, found True"),
        ({"steps": []}, r"a/go, steps: expected at least one step, found none"),
        ({"steps": 1.5}, r"a/go, steps: expected a list of steps, found 1.5"),
    ],
)
def test_bad_rows_name_state_and_action(row: dict[str, Any], message: str) -> None:
    b = builder(states=["a", "b"], actions=["go"], resources=["fuel", "risk"])
    good = {"state": "a", "action": "go", "outcomes": [(1, "b", 0)]}
    given_row = good | row
    with pytest.raises(ModelError, match=message):
        b.add(given_row.pop("state"), given_row.pop("action"), **given_row)
    # a refused row leaves the builder unchanged
    b.add("a", "go", outcomes=[(1, "b", 0)])
    assert b.build().n_rows == 1


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (math.inf, r"a/go, outcome 0, cost of x: expected a finite number .* found inf"),
        (math.nan, r"a/go, outcome 0, cost of x: .* found nan"),
        ([[1]], r"a/go, outcome 0, cost of x: .* found \[1\]"),
        (Decimal("sNaN"), r"a/go, outcome 0, cost of x: .* found sNaN"),
        ("cheap", r"a/go, outcome 0, cost of x: .* found 'cheap'"),
        (None, r"a/go, outcome 0, cost of x: .* found None"),
        (True, r"a/go, outcome 0, cost of x: .* found True"),
    ],
)
def test_bad_costs(cost: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        one_row([(1, "end", cost)])


def test_the_place_of_a_bad_cost_is_right_among_many() -> None:
    b = builder()
    b.add("b", "go", outcomes=[(0.5, "a", 1), (0.5, "b", math.inf)])
    b.add("a", "go", outcomes=[(1, "b", 2)])
    with pytest.raises(ModelError, match=r"b/go, outcome 1, cost of x"):
        b.build()


def test_extreme_rewards_that_overflow() -> None:
    b = builder()
    b.add("a", "go", reward=1.7e308, outcomes=[(1, "a", 0, 1.7e308)])
    b.add("a", "no", outcomes=[(1, "a", 0, 1.7e308), (1, "a", 0, 1.7e308)])
    with pytest.raises(ModelError, match=r"a/go, reward: expected a finite number, found inf"):
        b.build()


def test_costs_in_every_form() -> None:
    b = builder(resources=["x", "y"])
    forms: list[Any] = [{"y": "1/3"}, [0, "1/3"], (0, Fraction(1, 3)), np.array([0, 0]), {}, 0, 0.0, Decimal("0.0")]
    for i, cost in enumerate(forms):
        b.add("a", i, outcomes=[(1, "a", cost)])
    b.add("a", "none", outcomes=[(1, "a")])
    model = b.build()
    costs = [model.outcomes(row)[0].cost["y"] for row in range(model.n_rows)]
    assert costs == [Fraction(1, 3)] * 3 + [0] * 6
    assert one_row([(1, "end", np.array(0.5))]).cost[0].value(0) == Fraction(1, 2)


@pytest.mark.parametrize("off", [1e-10, -1e-10, 9e-10, 3e-12])
def test_sums_near_one_are_normalized(off: float) -> None:
    model = one_row([(0.25, "a"), (0.5, "a"), (0.25 + off, "end")])
    assert math.fsum(model.probability) == pytest.approx(1, abs=1e-15)
    assert model.probability[1] < 0.5 if off > 0 else model.probability[1] > 0.5


@pytest.mark.parametrize("probabilities", [[0.5, 0.4], [1.1], [0.0], [0.5, 0.5 + 2e-9], [0.5, 0.5 - 2e-9], [1, 1e-8]])
def test_sums_far_from_one_are_refused(probabilities: list[float]) -> None:
    with pytest.raises(ModelError, match=r"^a/go, probabilities: expected a sum of 1 \(to within 1e-09\), found "):
        one_row([(p, "end") for p in probabilities])


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=12), st.floats(-9e-10, 9e-10))
def test_normalizing_once_is_enough(weights: list[int], off: float) -> None:
    p = [w / sum(weights) * (1 + off) for w in weights]
    model = one_row([(x, "end") for x in p])
    assert abs(math.fsum(model.probability) - 1) < 1e-14
    again = one_row([(float(x), "end") for x in model.probability])
    assert again == model


def test_outcomes_of_probability_zero_are_dropped() -> None:
    dear = solvent.distribution("uniform", low=0, high=10**6)
    model = one_row([(0, "a", "1/7"), (1, "end", 2), ("0", "a", dear), (0.0, "a", 10**300)])
    assert model.n_outcomes == 1
    assert model.cost[0].unit == 2
    assert model.distributions == ()
    assert not model.has_continuous_costs
    assert model == one_row([(1, "end", 2)])


def test_outcomes_of_probability_zero_do_not_widen_the_tolerance() -> None:
    p = 1 + 8e-15
    assert one_row([(p, "end"), *[(0, "a")] * 20]) == one_row([(p, "end")])


@pytest.mark.parametrize("tiny", [1e-12, 5e-324, Fraction(1, 10**400), "1e-400", Decimal("1e-350")])
def test_tiny_probabilities_are_possible(tiny: Any) -> None:
    model = one_row([(1, "end", 0), (tiny, "a", 9)])
    assert model.n_outcomes == 2
    assert 0 < model.probability[1] <= 1e-12
    spread = one_row([(1 - 1e-10, "end", 0), (tiny, "a", 9)])
    assert spread.probability[1] > 0


def test_duplicate_rows() -> None:
    b = builder()
    b.add("a", "go", outcomes=[(1, "a", 0)], steps=[0, 1])
    b.add("a", "go", outcomes=[(1, "a", 1)], steps=2)
    with pytest.raises(ModelError, match=r"a/go: expected each row once, found a second one for step 1"):
        b.add("a", "go", outcomes=[(1, "a", 0)], steps=[1])
    with pytest.raises(ModelError, match=r"a/go: expected each row once, found a second one for step 0"):
        b.add("a", "go", outcomes=[(1, "a", 0)])
    b.add("a", "no", outcomes=[(1, "a", 0)])
    with pytest.raises(ModelError, match=r"a/no: expected each row once, found a second one$"):
        b.add("a", "no", outcomes=[(1, "a", 0)], steps=[1])


def test_states_without_actions_are_terminal() -> None:
    b = builder()
    b.add("a", "go", outcomes=[(0.5, "a"), (0.5, "end")])
    model = b.build()
    assert model.states == ("a", "end")
    assert [model.is_terminal(step, 1) for step in range(3)] == [True] * 3
    assert not model.is_terminal(0, 0)


def test_once_terminal_states_are_declared_all_must_be() -> None:
    b = builder()
    b.add("a", "go", outcomes=[(0.5, "end"), (0.5, "ned")])
    b.terminal("end")
    with pytest.raises(ModelError, match=r"a/go, outcome 1: .*unknown state 'ned'; did you mean 'end'\?"):
        b.build()


def test_a_terminal_state_has_no_actions() -> None:
    b = builder()
    b.terminal("a", steps=[1, 2])
    b.add("a", "go", outcomes=[(1, "a")])
    with pytest.raises(ModelError, match=r"a/go: expected no action in a terminal state at step 1, found this row"):
        b.build()
    b = builder(start="b")
    b.terminal("a")
    b.add("a", "go", outcomes=[(1, "b")], steps=[2])
    b.add("b", "go", outcomes=[(1, "b")])
    with pytest.raises(ModelError, match=r"a/go: expected no action in a terminal state at step 2"):
        b.build()


def test_stranded_states_are_an_error_unless_declared_terminal() -> None:
    def build(declare: bool) -> CMDP:
        b = builder()
        b.add("a", "go", outcomes=[(1, "b", 1)])
        b.add("b", "go", outcomes=[(1, "b", 1)], steps=[1])
        if declare:
            b.terminal("b", steps=[2])
        return b.build()

    with pytest.raises(
        ModelError,
        match=r"state 'b': expected an action at step 2, where it can be reached, found actions only at steps 1; "
        r"if the episode ends there, declare it terminal: terminal\('b', steps=\[2\]\)",
    ):
        build(declare=False)
    model = build(declare=True)
    assert [model.is_terminal(step, 1) for step in range(3)] == [True, False, True]


def test_a_state_without_actions_where_it_cannot_be_reached_is_fine() -> None:
    b = builder()
    b.add("a", "go", outcomes=[(1, "b", 1), (0, "c", 0)], steps=[0])
    b.add("b", "go", outcomes=[(1, "c", 1)], steps=[1])
    b.add("c", "go", outcomes=[(1, "c", 1)], steps=[2])
    assert b.build().n_tables == 3


def test_equal_tables_are_shared() -> None:
    b = builder(horizon=6)
    for step in range(6):
        b.add("a", "go", reward=step % 2, outcomes=[(1, "a", f"{step % 2}.5")], steps=[step])
    model = b.build()
    assert model.n_tables == 2
    assert model.table_of_step.tolist() == [0, 1, 0, 1, 0, 1]
    assert model.n_rows == 2
    assert dict(model.steps_of_table()) == {0: [0, 2, 4], 1: [1, 3, 5]}
    assert not model.is_stationary


def test_equal_tables_give_the_stationary_model() -> None:
    b = builder()
    for step in (2, 0, 1):
        b.add("a", "go", reward=-0.0 if step else 0.0, outcomes=[(1, "a", "1/3")], steps=[step])
    stationary = builder()
    stationary.add("a", "go", outcomes=[(1, "a", "1/3")])
    assert b.build() == stationary.build()
    assert b.build().fingerprint == stationary.build().fingerprint


def test_continuous_costs_by_distribution_and_by_scipy() -> None:
    distribution = solvent.distribution("triangular", low=0, mode=1, high=2)
    b = builder(resources=["x", "y"])
    b.add("a", "go", outcomes=[(0.5, "a", [distribution, 1]), (0.5, "a", [stats.beta(2, 3), stats.uniform(0.1, 0.2)])])
    b.add("a", "no", outcomes=[(1, "a", {"x": distribution})])
    model = b.build()
    assert model.has_continuous_costs
    assert model.distribution_DO is not None
    assert model.distribution_DO.shape == (2, 3)
    go, no = (model.outcomes(row) for row in range(2))
    assert go[0].cost == {"x": distribution, "y": 1}
    assert go[1].cost["x"].name == "scipy.beta"
    assert go[1].cost["y"] == solvent.distribution("uniform", low=0.1, high="0.3")
    assert no[0].cost == {"x": distribution, "y": 0}
    assert len(model.distributions) == 3
    assert model.distribution_DO[1].tolist() == [NO_DISTRIBUTION, 2, NO_DISTRIBUTION]
    assert model.cost_range(0) == (0, 2)
    assert model.cost_range(1) == (0, 1)


def test_unbounded_scipy_costs_name_their_place() -> None:
    with pytest.raises(
        ModelError, match=r"a/go, outcome 1, cost of x: expected a cost bounded above, found scipy's expon"
    ):
        one_row([(0.5, "end", 1), (0.5, "end", stats.expon())])


def test_distributions_do_not_depend_on_the_order_of_statements() -> None:
    distributions = [solvent.distribution("uniform", low=0, high=k) for k in (1, 2)]

    def build(order: list[int]) -> CMDP:
        b = builder(horizon=2)
        for step in order:
            b.add("a", "go", outcomes=[(1, "a", distributions[step])], steps=[step])
        return b.build()

    assert build([0, 1]) == build([1, 0])


def test_everything_is_read_only() -> None:
    model = one_row([(0.5, "end", 1), (0.5, "a", solvent.distribution("uniform", low=0, high=1))])
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[..., 0] = 1
        with pytest.raises(AttributeError):
            setattr(model, field.name, value)
    with pytest.raises(ValueError, match="read-only"):
        model.cost[0].ticks[0] = 5
    assert model.probability.dtype == model.row_reward.dtype == np.float64
    assert model.row_indptr.dtype == model.outcome_indptr.dtype == np.int64
    assert model.next_state.dtype == model.row_action.dtype == model.table_of_step.dtype == np.int32


def test_equality_and_hash() -> None:
    def build(cost: Any = "1/2", **options: Any) -> CMDP:
        return one_row([(1, "end", cost)], **options)

    model = build()
    assert model == build(0.5)
    assert hash(model) == hash(build(0.5))
    assert model.fingerprint == build(0.5).fingerprint
    for other in (build(1), build(horizon=4), build(budget=3), build(name="n"), build(resources=["y"]), "model"):
        assert model != other
    assert build(budget=3) == build(budget={"x": Budget(3)})
    assert build(name="n", budget=3).fingerprint == model.fingerprint
    assert build(1).fingerprint != model.fingerprint


def test_numpy_names_equal_python_names() -> None:
    def build(start: Any) -> CMDP:
        b = CMDP.builder(horizon=1, start=(start, "s"), resources=["x"])
        b.add((start, "s"), start, outcomes=[(1, (start, "s"), 0)])
        return b.build()

    one, other = build(1), build(np.int64(1))
    assert one == other
    assert hash(one) == hash(other)
    assert one.fingerprint == other.fingerprint


def test_repr() -> None:
    assert repr(one_row([(1, "end", 0)])) == (
        "CMDP(horizon 3, 2 states, 1 actions, 1 rows, 1 outcomes, stationary, resources ['x'])"
    )
    assert repr(one_row([(1, "end", 0)], name="van")).startswith("CMDP('van': horizon 3")


def test_default_budgets_are_checked() -> None:
    with pytest.raises(BudgetError, match=r"expected a resource of the model \('x'\), found 'y'"):
        one_row([(1, "end", 0)], budget={"y": 1})
    model = one_row([(1, "end", 0)], budget=Budget(upper=lambda step: step))
    assert model.budget == {"x": Budget(upper=[0, 1, 2])}


def test_lookups_by_name() -> None:
    model = one_row([(1, "end", 0)])
    assert (model.state_index("end"), model.action_index("go"), model.resource_index("x")) == (1, 0, 0)
    assert (model.n_states, model.n_actions, model.n_resources, model.start_index) == (2, 1, 1, 0)
    with pytest.raises(
        ModelError, match=r"state: expected one of the model's states \('a', 'end'\), found 'ende'; did"
    ):
        model.state_index("ende")
    with pytest.raises(ModelError, match=r"action: .* found \['go'\]"):
        model.action_index(["go"])  # type: ignore[arg-type]


def test_rows_can_be_added_after_a_build() -> None:
    b = builder()
    b.add("b", "go", outcomes=[(1, "a", 1)])
    b.add("a", "go", outcomes=[(1, "b", 2)])
    first = b.build()
    assert b.build() == first
    b.add("a", "no", outcomes=[(1, "a", 3)])
    assert b.build().n_rows == 3
    assert first.n_rows == 2


@draws(30)
@given(st.lists(st.floats(0, 10), min_size=1, max_size=6))
def test_float_costs_are_read_together(costs: list[float]) -> None:
    model = one_row([(Fraction(1, len(costs)), "end", c) for c in costs])
    assert [float(model.cost[0].value(i)) for i in range(len(costs))] == costs
    if model.cost[0].decimal_digits == 15:
        assert [model.cost_of(0, i) for i in range(len(costs))] == [exact(c) for c in costs]


def test_warning_on_a_misspelled_state() -> None:
    b = CMDP.builder(horizon=2, start="home", resources=["fuel"])
    b.add("home", "go", outcomes=[(0.5, "home", 1), (0.5, "hmoe", 1)])
    with pytest.warns(UserWarning, match="home/go leads to 'hmoe', .* therefore terminal; did you mean 'home'?"):
        b.build()
    b.terminal("hmoe")
    assert b.build().is_terminal(0, 1)


def test_no_warning_on_other_states_without_rows() -> None:
    b = CMDP.builder(horizon=2, start="day1", resources=["fuel"])
    b.add("day1", "go", outcomes=[(0.5, "day2", 1), (0.5, "end", 1)])
    assert b.build().states == ("day1", "day2", "end")
