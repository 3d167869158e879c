"""Models without a last step: constructors, files, bounds and unrolling."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import solvent
from discounted_models import discounted, tail_sums
from effort import draws
from solvent import CMDP, Budget, BudgetError, DiscountedCMDP, ModelError
from solvent.formats.documents import to_document
from solvent.formats.files import parse_model


def two_state(**options: Any) -> DiscountedCMDP:
    b = CMDP.builder(horizon=None, start="home", resources=["fuel"], **{"discount": 0.9, "budget": 3, **options})
    b.add("home", "go", reward=2, outcomes=[(0.5, "home", "3/2"), (0.5, "away", "1/3", 4)])
    b.add("away", "rest", outcomes=[(1, "home", -1)])
    return b.build()


@given(discounted(discounts=("1/2", "2/3", 0.9), rest=False), st.integers(1, 6))
@draws(40)
def test_unrolled_steps_have_scaled_costs_and_rewards(model: DiscountedCMDP, horizon: int) -> None:
    base, first = model.base, model.unrolled(horizon)
    assert (first.horizon, first.states, first.actions, first.start) == (horizon, base.states, base.actions, base.start)
    for step in range(horizon):
        scale = model.discount**step
        for state in range(base.n_states):
            rows = list(base.rows(0, state))
            assert len(first.rows(step, state)) == len(rows)
            for mine, row in zip(first.rows(step, state), rows, strict=True):
                assert first.row_action[mine] == base.row_action[row]
                assert first.row_reward[mine] == pytest.approx(float(scale) * base.row_reward[row], rel=1e-15)
                scaled = [
                    (o.probability, o.next_state, {name: scale * cost for name, cost in o.cost.items()})  # type: ignore[operator]
                    for o in base.outcomes(row)
                ]
                assert [tuple(o) for o in first.outcomes(mine)] == scaled


def test_unrolled_is_what_the_builder_would_make() -> None:
    model = two_state(discount="2/3", budget=None)
    b = CMDP.builder(horizon=4, start="home", resources=["fuel"])
    for step in range(4):
        scale = Fraction(2, 3) ** step
        go = [(0.5, "home", scale * Fraction(3, 2)), (0.5, "away", scale / 3)]
        b.add("home", "go", reward=float(scale) * 4.0, outcomes=go, steps=[step])
        b.add("away", "rest", outcomes=[(1, "home", -scale)], steps=[step])
    assert model.unrolled(4) == b.build()


def test_long_unrolled_models_stay_exact() -> None:
    first = two_state().unrolled(200)
    assert not first.cost[0].fits
    assert first.cost_of(0, first.n_outcomes - 1) == -(Fraction(9, 10) ** 199)
    assert first.cost_sums[0][0] * first.cost[0].unit == sum(Fraction(9, 10) ** t * Fraction(3, 2) for t in range(200))


def test_zero_costs_stay_zero() -> None:
    b = CMDP.builder(discount=0.3, start=0, resources=["x"])
    b.add(0, 0, outcomes=[(1, 0)])
    model = b.build()
    assert model.unrolled(50).cost[0].fits
    assert model.effective_horizon(1e-9) == 1


@pytest.mark.parametrize(
    "distribution",
    [
        solvent.distribution("uniform", low=1, high=3),
        solvent.distribution("triangular", low=0, mode=1, high=3),
        solvent.distribution("truncated_normal", mean=1, sd=2, low=-1, high=3),
        solvent.distribution("beta", a=2, b=3, high=4),
        solvent.distribution("exponential", scale=2, high=3),
        solvent.distribution("exponential", scale=2, negate=True),
    ],
    ids=str,
)
def test_distributions_are_scaled(distribution: solvent.CostDistribution) -> None:
    b = CMDP.builder(discount=0.5, start=0, resources=["x"])
    b.add(0, 0, outcomes=[(1, 0, distribution)])
    later = b.build().unrolled(4).cost_of(0, 3)
    assert isinstance(later, solvent.CostDistribution)
    assert later.high == distribution.high / 8
    assert later.low == (None if distribution.low is None else distribution.low / 8)
    points = np.linspace(-1, 3, 9)
    assert later.cdf(points / 8) == pytest.approx(distribution.cdf(points))
    assert later.mean() == pytest.approx(distribution.mean() / 8)


def test_scipy_distributions_are_scaled() -> None:
    b = CMDP.builder(discount=0.5, start=0, resources=["x"])
    b.add(0, 0, outcomes=[(0.5, 0, stats.triang(0.5, loc=1, scale=2)), (0.5, 0, stats.uniform(1, 2))])
    first = b.build().unrolled(2)
    peaked, flat = first.cost_of(0, 2), first.cost_of(0, 3)
    assert isinstance(peaked, solvent.CostDistribution)
    assert isinstance(flat, solvent.CostDistribution)
    assert (peaked.low, peaked.high, peaked.mean()) == (Fraction(1, 2), Fraction(3, 2), pytest.approx(1))
    assert (flat.low, flat.high) == (Fraction(1, 2), Fraction(3, 2))
    assert float(peaked.cdf(1.25)) == pytest.approx(0.875)


def test_distributions_too_narrow_for_floats_are_refused() -> None:
    b = CMDP.builder(discount=0.001, start="here", resources=["x"])
    b.add("here", "go", outcomes=[(1, "here", solvent.distribution("uniform", low=1, high=3))])
    with pytest.raises(
        ModelError, match=r"^here/go at step 109, cost: expected a distribution whose ends are different floats"
    ):
        b.build().unrolled(120)


@given(discounted(rest=False, discounts=("1/2", "3/4")), st.integers(0, 4))
@draws(40)
def test_no_history_leaves_the_tail_range(model: DiscountedCMDP, steps: int) -> None:
    scale = model.discount**steps
    for d, name in enumerate(model.resources):
        low, high = model.tail_range(name, steps)
        assert low is not None
        assert low <= 0 <= high
        for state in range(model.n_states):
            assert all(low <= scale * each <= high for each in tail_sums(model, d, state, 3))


def test_the_tail_range_is_attained_in_the_limit() -> None:
    b = CMDP.builder(discount=0.5, start=0, resources=["x"])
    b.add(0, 0, outcomes=[(1, 0, 3)])
    b.add(0, 1, outcomes=[(1, 0, -1)])
    model = b.build()
    assert model.tail_range("x", 2) == (Fraction(-1, 2), Fraction(3, 2))
    assert max(tail_sums(model, 0, 0, 8)) == 6 * (1 - Fraction(1, 2) ** 8)


@given(
    st.fractions(Fraction(1, 1000), Fraction(999, 1000), max_denominator=1000),
    st.fractions(Fraction(1, 10**6), 10**4, max_denominator=10**6),
    st.fractions(Fraction(1, 1000), 1000, max_denominator=1000),
)
def test_the_effective_horizon_is_the_least(discount: Fraction, epsilon: Fraction, cost: Fraction) -> None:
    b = CMDP.builder(discount=discount, start=0, resources=["x"])
    b.add(0, 0, outcomes=[(0.5, 0, cost), (0.5, 0, -3 * cost)])
    model = b.build()
    steps = model.effective_horizon(epsilon)
    assert model.tail_range("x", steps)[1] <= epsilon or steps == 1
    assert steps == 1 or model.tail_range("x", steps - 1)[1] > epsilon


def test_an_effective_horizon_that_is_too_long_is_refused() -> None:
    model = two_state(discount=1 - 1e-9)
    with pytest.raises(
        ModelError, match=r"^epsilon: expected an effective horizon of at most 1,000,000 steps, found about"
    ):
        model.effective_horizon(0.001)
    with pytest.raises(ModelError, match=r"^epsilon: expected a number above 0, found 0$"):
        model.effective_horizon(0)


def test_all_constructors_give_the_same_model() -> None:
    P = np.array([[[0.5, 0.5], [1, 0]], [[0, 1], [0, 1]]])
    R, C = [[1, 0], [0, 0]], [[2, 0], [1, 1]]
    b = CMDP.builder(discount=0.5, start=0, resources=["cost"], states=[0, 1], actions=[0, 1], budget=2)
    b.add(0, 0, reward=1, outcomes=[(0.5, 0, 2), (0.5, 1, 2)])
    b.add(0, 1, outcomes=[(1, 0, 0)])
    b.add(1, 0, outcomes=[(1, 1, 1)])
    b.add(1, 1, outcomes=[(1, 1, 1)])
    model = b.build()
    assert CMDP.from_arrays(P, R, C, discount=0.5, budget=2) == model
    found = CMDP.from_function(
        0,
        lambda state: [0, 1],
        lambda state, action: [(P[state, action, s], s, C[state][action]) for s in (0, 1)],
        discount="1/2",
        reward=lambda state, action: R[state][action],
        budget=2,
    )
    assert found == model
    assert hash(found) == hash(model)
    assert found.fingerprint == model.fingerprint
    assert model != two_state()
    assert model != 3


def test_functions_are_explored_until_no_state_is_new() -> None:
    model = CMDP.from_function(0, lambda s: ["on"] if s < 40 else [], lambda s, a: [(1, s + 1, 1)], discount=0.5)
    assert model.n_states == 41
    with pytest.raises(ModelError, match=r"^from_function: expected at most 100 reachable states"):
        CMDP.from_function(0, lambda s: ["on"], lambda s, a: [(1, s + 1, 1)], discount=0.5, max_states=100)
    with pytest.raises(ModelError, match=r"^max_states: expected a whole number"):
        CMDP.from_function(0, lambda s: ["on"], lambda s, a: [(1, s, 1)], discount=0.5, max_states="many")
    with pytest.raises(ModelError, match=r"^stationary: expected True, as a discounted model is the same at all steps"):
        CMDP.from_function(0, lambda t, s: ["on"], lambda t, s, a: [(1, s, 1)], discount=0.5, stationary=False)


@pytest.mark.parametrize("kind", ["yaml", "json", "npz"])
def test_files_hold_discounted_models(kind: str, tmp_path: Path) -> None:
    for model in (
        two_state(name="van", description="on the road"),
        two_state(discount="1/3", budget=Budget(upper=3, lower=-1)),
    ):
        model.save(tmp_path / f"model.{kind}")
        again = solvent.load_model(tmp_path / f"model.{kind}", discounted=True)
        assert again == model
        assert (again.name, again.description) == (model.name, model.description)


FILE = """\
solvent: 1
discount: 0.9
start: home
resources: [fuel]
rows:
  - {state: home, action: go, outcomes: [{probability: 1, next: home, cost: 1}]}
"""


def test_a_horizon_may_be_null_or_missing() -> None:
    model = parse_model(FILE)
    assert model == parse_model(FILE + "horizon: null\n")
    assert isinstance(model, DiscountedCMDP)
    assert model.discount == Fraction(9, 10)
    entries = to_document(model)
    assert list(entries)[:3] == ["solvent", "horizon", "discount"]
    assert (entries["horizon"], entries["discount"]) == (None, 0.9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            FILE + "horizon: 3\n",
            r"^discount: expected no horizon beside a discount, found a horizon of 3; write horizon",
        ),
        (FILE.replace("discount: 0.9\n", ""), r"^file: expected a field 'horizon', found none; or give a discount"),
        (FILE.replace("0.9", "1"), r"^discount: expected a number above 0 and below 1, found"),
        (FILE.replace("0.9", "x"), r"^discount: expected a finite number"),
        (FILE.replace("action: go", "action: go, steps: [1]"), r"^home/go, steps: expected no steps, as a discounted"),
        (FILE + "terminal: [{state: away, steps: [1]}]\n", r"^terminal, steps: expected no steps"),
        (
            FILE + "budget: {fuel: [1, 2]}\n",
            r"^budget, fuel: expected one limit for all time, .* found one for each step",
        ),
        (FILE + "budget: {fuel: {upper: 1, final: true}}\n", r"^budget, fuel: .* found one after the last step"),
    ],
)
def test_mistakes_in_files(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        parse_model(text)


def test_mistakes_in_npz_files(tmp_path: Path) -> None:
    from solvent.core.archives import read_archive, write_archive

    two_state().save(tmp_path / "model.npz")
    arrays, header = read_archive((tmp_path / "model.npz").read_bytes())
    for changes, message in (
        ({"horizon": 1}, r"discount: expected no horizon beside a discount"),
        ({"discount": "3/2"}, r"discount: expected a number above 0 and below 1"),
        ({"budget": {"fuel": [3]}}, r"budget, fuel: expected one limit for all time, .* found one for each step"),
    ):
        with pytest.raises(ModelError, match=message):
            parse_model(write_archive(arrays, {**header, **changes}), "npz")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 3, "discount": 0.9}, r"^discount: expected no horizon beside a discount, found a horizon of 3"),
        ({}, r"^horizon: expected a number of steps, or else a discount, found neither$"),
        ({"discount": 0}, r"^discount: expected a number above 0 and below 1, found 0$"),
        ({"discount": 1.0}, r"^discount: expected a number above 0 and below 1, found 1.0$"),
        ({"discount": -0.5}, r"^discount: expected a number above 0 and below 1, found -0.5$"),
        ({"discount": Fraction(1, 10**400)}, r"^discount: expected a number above 0 and below 1"),
        ({"discount": "often"}, r"^discount: expected a finite number .* found 'often'$"),
        ({"discount": 0.5, "budget": [1, 2]}, r"^budget: expected one limit for all time, .* found one for each step$"),
        ({"discount": 0.5, "budget": Budget(lower=[1, 2])}, r"^budget: expected one limit .* found one for each step$"),
        ({"discount": 0.5, "budget": {"x": Budget.final(3)}}, r"^budget, x: .* found one after the last step$"),
        ({"discount": 0.5, "budget": {"x": lambda t: t}}, r"^budget, x: .* found a function of the step$"),
    ],
)
def test_mistakes_in_python(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        CMDP.builder(**{"start": 0, "resources": ["x"], **options})
    assert isinstance(caught.value, BudgetError) == ("budget" in options)
    with pytest.raises(ModelError, match=message):
        CMDP.from_arrays(np.ones((1, 1, 1)), [[0]], [[0]], resources=["x"], **options)
    with pytest.raises(ModelError, match=message):
        CMDP.from_function(0, lambda s: [0], lambda s, a: [(1, 0)], resources=["x"], **options)


def test_rows_and_arrays_that_differ_by_step_are_refused() -> None:
    b = CMDP.builder(discount=0.9, start="home", resources=["fuel"])
    with pytest.raises(
        ModelError, match=r"^home/go, steps: expected no steps, as a discounted model is the same at all"
    ):
        b.add("home", "go", outcomes=[(1, "home")], steps=[0])
    with pytest.raises(ModelError, match=r"^terminal, steps: expected no steps"):
        b.terminal("home", steps=[0])
    with pytest.raises(ModelError, match=r"^P: expected shape \(S, A, S\), as a discounted model"):
        CMDP.from_arrays(np.ones((3, 1, 1, 1)), [[0]], [[0]], discount=0.9)
    with pytest.raises(ModelError, match=r"^base: expected a model of one step, found one of 3$"):
        DiscountedCMDP(two_state().unrolled(3), Fraction(1, 2))


def test_functions_that_need_a_horizon_say_so() -> None:
    model = two_state()
    message = (
        r"^model: expected a CMDP, which has a last step, found a DiscountedCMDP; model.unrolled\(steps\) is the CMDP"
    )
    for use in (solvent.frontier, solvent.augment, lambda model: solvent.simulate(model, np.zeros((1, 2), int))):
        with pytest.raises(ModelError, match=message):
            use(model)  # type: ignore[operator]


def test_repr_and_description() -> None:
    model = two_state(name="van")
    assert repr(model) == (
        "DiscountedCMDP('van': discount 9/10, 2 states, 2 actions, 2 rows, 3 outcomes, resources ['fuel'])"
    )
    assert model.horizon is None
    assert (model.n_states, model.n_actions, model.n_resources) == (2, 2, 1)
    assert model.budget == {"fuel": Budget(3)}
    text = str(model.describe())
    assert "infinite" in text
    assert "0.9" in text
    assert "unbounded (there is no last step)" in text
