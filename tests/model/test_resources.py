from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from solvent import CMDP, ModelError, Resource
from solvent.model.resources import as_resources

amounts = st.fractions(-9, 9, max_denominator=12)


def test_ends_are_read_exactly() -> None:
    tank = Resource("fuel", floor=0.1, ceiling="1/3")
    assert (tank.name, tank.floor, tank.ceiling) == ("fuel", Fraction(1, 10), Fraction(1, 3))
    assert tank.saturates
    assert not Resource("fuel").saturates
    assert Resource("fuel", floor=3, ceiling=3).clamp(Fraction(7)) == 3
    assert repr(tank) == "Resource('fuel', floor='0.1', ceiling='1/3')"
    assert repr(Resource("fuel")) == "Resource('fuel')"
    assert Resource("fuel", floor=1) == Resource("fuel", floor=Fraction(1)) != Resource("fuel")
    assert pickle.loads(pickle.dumps(tank)) == tank
    assert hash(Resource("fuel", floor=1)) == hash(Resource("fuel", floor="1"))


@given(amount=amounts, more=amounts, floor=st.none() | amounts, ceiling=st.none() | amounts)
def test_clamping_is_monotone_and_moves_as_little_as_possible(
    amount: Fraction, more: Fraction, floor: Fraction | None, ceiling: Fraction | None
) -> None:
    if floor is not None and ceiling is not None:
        floor, ceiling = min(floor, ceiling), max(floor, ceiling)
    resource = Resource("x", floor=floor, ceiling=ceiling)
    inside = resource.clamp(amount)
    assert floor is None or inside >= floor
    assert ceiling is None or inside <= ceiling
    assert resource.clamp(inside) == inside
    assert inside in (amount, floor, ceiling)
    other = resource.clamp(amount + abs(more))
    assert 0 <= other - inside <= abs(more)


@pytest.mark.parametrize(
    ("name", "ends", "message"),
    [
        ("", {}, r"^resources: expected names that are non-empty text, found ''$"),
        (3, {}, r"^resources: expected names that are non-empty text, found 3$"),
        (None, {}, r"^resources: expected names that are non-empty text, found None$"),
        ("x", {"floor": "low"}, r"^resource 'x', floor: expected a finite number .* found 'low'$"),
        ("x", {"ceiling": float("inf")}, r"^resource 'x', ceiling: expected a finite number .* found inf$"),
        ("x", {"floor": float("nan")}, r"^resource 'x', floor: expected a finite number .* found nan$"),
        (
            "x",
            {"floor": True},
            r"^resource 'x', floor: expected a finite number .* found True; int\(\.\.\.\) turns True into 1 .*$",
        ),
        (
            "x",
            {"floor": 2, "ceiling": "3/2"},
            r"^resource 'x': expected a floor of at most the ceiling, found floor 2 and ",
        ),
    ],
)
def test_mistakes(name: Any, ends: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Resource(name, **ends)


@pytest.mark.parametrize("resources", ["fuel", Resource("fuel"), {"fuel"}, {"fuel": 1}, 3, None])
def test_a_list_is_needed(resources: Any) -> None:
    with pytest.raises(ModelError, match=r"^resources: expected a list of names, found"):
        as_resources(resources)


def test_names_are_distinct() -> None:
    assert as_resources(["a", Resource("b", floor=0)]) == (Resource("a"), Resource("b", floor=0))
    assert as_resources(()) == ()
    with pytest.raises(ModelError, match=r"^resources: expected each name once, found 'a' twice$"):
        as_resources(["a", Resource("a", floor=0)])


def test_every_constructor_takes_them() -> None:
    tank, heat = Resource("fuel", floor=0), Resource("heat", floor="-1/2", ceiling=9)
    b = CMDP.builder(horizon=2, start=0, resources=[tank, "time", heat])
    b.add(0, "go", outcomes=[(1, 0, [1, 1, 1])])
    P = np.ones((1, 1, 1))
    models = [
        b.build(),
        CMDP.from_arrays(P, [[0]], [[[1, 1, 1]]], horizon=2, resources=[tank, "time", heat], actions=["go"]),
        CMDP.from_function(0, lambda s: ["go"], lambda s, a: [(1, 0, [1, 1, 1])], 2, resources=[tank, "time", heat]),
    ]
    for model in models:
        assert model.resources == ("fuel", "time", "heat")
        assert model.floors == (0, None, Fraction(-1, 2))
        assert model.ceilings == (None, None, 9)
        assert model.is_saturating
        assert [model.resource(name) for name in model.resources] == [tank, Resource("time"), heat]
        assert model == models[0]
        assert model.fingerprint == models[0].fingerprint


def test_a_floor_matters_to_equality_and_fingerprint() -> None:
    def build(*resources: Any) -> CMDP:
        b = CMDP.builder(horizon=1, start=0, resources=resources)
        b.add(0, 0, outcomes=[(1, 0, 1)])
        return b.build()

    models = [
        build("x"),
        build(Resource("x", floor=0)),
        build(Resource("x", ceiling=0)),
        build(Resource("x", floor=-1)),
    ]
    assert len({model.fingerprint for model in models}) == 4
    assert all(a != b for i, a in enumerate(models) for b in models[:i])
    assert build(Resource("x")) == build("x")
    assert build(Resource("x")).fingerprint == build("x").fingerprint
    assert not models[0].is_saturating


def test_discounted_models_have_none() -> None:
    b = CMDP.builder(horizon=None, discount=0.5, start=0, resources=["time", Resource("x", floor=0)])
    b.add(0, 0, outcomes=[(1, 0, [0, 1])])
    with pytest.raises(
        ModelError,
        match=r"^resource 'x': expected no floor and no ceiling, .* found 'x' with floor 0; solvent\.",
    ):
        b.build()
    assert solvent.Resource is Resource
