"""Copies of models with changed fields: right, or refused with a message."""

from __future__ import annotations

import re
import sys
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))
import solvent
from effort import draws
from solvent import CMDP, Budget, ModelError, Resource, SolventError
from strategies import FEATURES, budgets, models, outcomes


def trips(horizon: int = 4, **options: Any) -> CMDP:
    b = CMDP.builder(horizon=horizon, start="home", resources=["fuel"], **{"budget": {"fuel": 3}, **options})
    b.add("home", "go", reward=2, outcomes=[(0.5, "away", 1), (0.5, "lost", "4/3")])
    b.add("home", "rest", reward=0.25, outcomes=[(1, "home", 0)])
    b.add("away", "return", reward=1, outcomes=[(1, "home", "2/3")])
    b.terminal("lost")
    return b.build()


def by_step() -> CMDP:
    b = CMDP.builder(horizon=3, start="s", resources=["fuel"], budget=5)
    for step in range(3):
        b.add("s", "go", reward=step, outcomes=[(1, "s", step)], steps=[step])
    return b.build()


@pytest.mark.parametrize("horizon", [1, 2, 4, 9])
def test_another_horizon_of_a_stationary_model(horizon: int) -> None:
    changed, built = replace(trips(), horizon=horizon), trips(horizon)
    assert changed == built
    assert changed.fingerprint == built.fingerprint
    assert solvent.augment(changed).n_nodes == solvent.augment(built).n_nodes
    assert solvent.solve(changed).value == solvent.solve(built).value
    assert changed.own_limits == built.own_limits
    assert changed.cost_sums == built.cost_sums


@st.composite
def stationary(draw: st.DrawFn) -> tuple[CMDP, CMDP]:
    """The same rows with two horizons, and a budget that does not depend on the step."""
    n_states, n_resources = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    names = [f"r{i}" for i in range(n_resources)]
    limits = {name: draw(budgets(1, "number final final_lower box none")) for name in names}
    terminal = [bool(state) and draw(st.integers(0, 2)) == 0 for state in range(n_states)]
    rows = {
        state: [(f"a{i}", draw(st.integers(-2, 3)), draw(outcomes(n_states, n_resources))) for i in range(2)]
        for state in range(n_states)
        if not terminal[state]
    }
    made = []
    for horizon in (draw(st.integers(1, 5)), draw(st.integers(1, 5))):
        b = CMDP.builder(horizon=horizon, start=0, resources=names, budget=limits, states=list(range(n_states)))
        for state, listed in rows.items():
            for action, reward, found in listed:
                b.add(state, action, reward=reward, outcomes=found)
        for state in range(n_states):
            if terminal[state]:
                b.terminal(state)
        made.append(b.build())
    return made[0], made[1]


@draws(150)
@given(stationary())
def test_random_models_with_another_horizon(pair: tuple[CMDP, CMDP]) -> None:
    model, other = pair
    changed = replace(model, horizon=other.horizon)
    assert changed == other
    assert changed.fingerprint == other.fingerprint
    assert solvent.solve(changed).value == solvent.solve(other).value
    solvent.augment(changed)


@draws(150)
@given(models(features=FEATURES), st.integers(1, 6))
def test_random_models_with_another_horizon_are_right_or_refused(model: CMDP, horizon: int) -> None:
    if model.is_stationary or horizon == model.horizon:
        changed = replace(model, horizon=horizon)
        assert changed.table_of_step.shape == (horizon,)
        free = dict.fromkeys(model.resources)
        solvent.augment(changed, free)
    else:
        with pytest.raises(ModelError, match=r"^horizon: expected \d+, the length of table_of_step, found \d+; r"):
            replace(model, horizon=horizon)


@draws(300)
@given(models(features=FEATURES, min_resources=1), st.data())
def test_random_models_with_a_shorter_field_are_refused(model: CMDP, data: st.DataObject) -> None:
    sized = [
        each.name for each in fields(model)
        if isinstance(getattr(model, each.name), tuple | np.ndarray)
        and len(getattr(model, each.name)) > (each.name in ("floors", "ceilings"))  # () is short for none at all
    ]  # fmt: skip
    name = data.draw(st.sampled_from(sized))
    value = getattr(model, name)
    if name == "table_of_step" and model.is_stationary:
        assert replace(model, table_of_step=value[:-1]) == model
        return
    if name == "states":  # fewer states may fit as well, as those of more tables, of which a model need not use all
        assume(len(value) == 1 or (len(model.row_indptr) - 1) % (len(value) - 1))
    with pytest.raises(SolventError, match=r"expected .*, found "):
        replace(model, **{name: value[:-1].copy() if isinstance(value, np.ndarray) else value[:-1]})


def test_any_field_can_be_given_again() -> None:
    for model in (trips(), by_step(), solvent.instances.fuel_grid(3)):
        for each in fields(model):
            assert replace(model, **{each.name: getattr(model, each.name)}) == model


def test_a_budget_as_users_state_it() -> None:
    assert replace(trips(), budget=7).budget == {"fuel": Budget(7)}
    assert replace(trips(), budget=None).budget is None
    assert solvent.solve(replace(trips(), budget={"fuel": "7/3"})).value == solvent.solve(trips(), "7/3").value


@pytest.mark.parametrize("end", [1, 1.5, "3/2", Decimal("1.5"), np.float64(1.5)])
def test_floors_and_ceilings_as_users_state_them(end: Any) -> None:
    b = CMDP.builder(horizon=4, start=0, resources=[Resource("fuel", ceiling=end)])
    b.add(0, 0, reward=1, outcomes=[(1, 0, 1)])
    b.add(0, 1, reward=0.25, outcomes=[(1, 0, -1)])
    built = b.build()
    changed = replace(replace(built, ceilings=()), ceilings=(end,))
    assert changed == built
    assert changed.fingerprint == built.fingerprint
    assert solvent.solve(changed, 1).value == solvent.solve(built, 1).value
    assert replace(built, floors=(-1,)).floors == (Fraction(-1),)
    assert type(replace(built, floors=(-1,)).floors[0]) is Fraction


def test_first_states_in_any_mapping() -> None:
    chances = {"home": 0.25, "away": 0.75}
    changed = replace(trips(), start=MappingProxyType(chances))
    assert changed == replace(trips(), start=chances)
    assert solvent.solve(changed).value == solvent.solve(replace(trips(), start=chances)).value


def test_a_budget_by_step_needs_the_horizon() -> None:
    model = trips(3, budget={"fuel": Budget(upper=[1, 2, 3])})
    with pytest.raises(solvent.BudgetError, match=r"^budget, fuel, upper: expected 4 limits, one after each step, f"):
        replace(model, horizon=4)
    changed = replace(model, horizon=4, budget=Budget(upper=[1, 2, 3, 4]))
    assert changed.own_limits.upper == ((1, 2, 3, 4),)


def test_rows_by_step_with_their_tables() -> None:
    model = by_step()
    changed = replace(model, horizon=4, table_of_step=np.array([0, 1, 2, 2], np.int32))
    assert solvent.solve(changed, 7).value == 0 + 1 + 2 + 2


COLUMN = trips().cost[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 0}, "horizon: expected a whole number of at least 1, found 0"),
        ({"start": "hone"}, "start: expected one of the model's states, found 'hone'; did you mean 'home'?"),
        ({"start": {"home": 0.5, "away": 0.6}}, "start: expected positive floats with a sum of 1, found"),
        ({"states": ("home", "away")}, "row_indptr: expected one entry per table and state, and one more: a multipl"),
        ({"states": ["home", "away", "lost"]}, "states: expected a tuple of names, found"),
        ({"states": ("home", "away", "away")}, "states: expected each name once, found 'away' twice"),
        ({"states": ("home", "away", [1])}, "states: expected hashable names, found"),
        ({"actions": ("go", "rest")}, "row_action: expected positions of actions, from 0 to 1, found 2"),
        ({"resources": ("water",)}, "budget: expected a resource of the model ('water'), found 'fuel'"),
        ({"resources": ("fuel", "water")}, "cost: expected 2 entries, one per resource, found 1"),
        ({"floors": (3,), "ceilings": (1,)}, "resource 'fuel': expected a floor of at most the ceiling, found"),
        ({"cost": ()}, "cost: expected 1 entry, one per resource, found 0"),
        ({"cost": (3,)}, "cost of 'fuel': expected an ExactColumn, found a value of type int"),
        ({"cost": (replace(COLUMN, ticks=COLUMN.ticks[:2]),)}, "cost of 'fuel': expected 4 entries, one per outcome"),
        ({"cost": (replace(COLUMN, ticks=COLUMN.ticks / 2),)}, "cost of 'fuel', ticks: expected an array of int64, or"),
        ({"cost": (replace(COLUMN, ticks=[1, 0, 1, 0]),)}, "cost of 'fuel', ticks: expected an array of int64, or of"),
        ({"cost": (replace(COLUMN, unit=Fraction(-1)),)}, "cost of 'fuel', unit: expected a positive Fraction, found"),
        ({"cost": (replace(COLUMN, unit=0.5),)}, "cost of 'fuel', unit: expected a positive Fraction, found 0.5"),
        ({"floors": ("none",)}, "resource 'fuel', floor: expected a finite number"),
        ({"distributions": ("normal",)}, "distributions: expected a tuple of cost distributions, found ('normal',)"),
        ({"row_reward": [1, 2, 3]}, "row_reward: expected an array of float64, found a value of type list"),
        ({"row_reward": np.array([1, 2, 3])}, "row_reward: expected an array of float64, found an array of int64 with"),
        ({"row_reward": np.zeros(6)[::2]}, "row_reward: expected an array of float64, found an array of float64 with"),
        ({"row_reward": np.array([1, np.nan, 0])}, "row_reward: expected finite numbers, found nan"),
        ({"row_reward": np.array([1e300, 0, 0])}, "row_reward: expected at most 2.5e+299 in size, so that sums over 4"),
        ({"row_indptr": np.array([0, 2, 1, 3])}, "row_indptr: expected non-decreasing numbers from 0 to 3, the number"),
        ({"row_indptr": np.array([0, 2, 3, 3, 3])}, "row_indptr: expected one entry per table and state, and one more"),
        ({"row_action": np.array([1, 0, 2], np.int32)}, "row_action: expected actions in increasing order within each"),
        ({"outcome_indptr": np.array([0, 2, 2, 4])}, "outcome_indptr: expected increasing numbers from 0 to 4, the n"),
        ({"probability": np.array([0.5, 0.4, 1, 1])}, "probability: expected a sum of 1 over each row (to wit"),
        ({"probability": np.array([1.5, -0.5, 1, 1])}, "probability: expected numbers from 0 to 1, found -0.5"),
        ({"next_state": np.array([0, 1, 2, 9], np.int32)}, "next_state: expected positions of states, from 0 to 2, fo"),
        ({"table_of_step": np.array([0, 0, 1, 0], np.int32)}, "table_of_step: expected positions of tables, from 0"),
        ({"end_reward": np.zeros(2)}, "end_reward: expected 3 entries, one per state, found 2"),
        ({"end_reward": np.array([np.inf, 0, 0])}, "end_reward: expected finite numbers of at most 1e+300 in size, f"),
        ({"may_end": np.ones(4, bool)}, "may_end: expected 3 entries, one per state, found 4"),
        ({"distribution_DO": np.zeros((1, 4), np.int32)}, "distribution_DO: expected positions of distributions, from"),
        ({"distribution_DO": np.zeros((2, 4), np.int32)}, "distribution_DO: expected shape (1, 4), resources and outc"),
        ({"name": None}, "name: expected text, found None"),
    ],
)  # fmt: skip
def test_messages(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"^{re.escape(message)}"):
        replace(trips(), **changes)


@pytest.mark.parametrize("suffix", ["yaml", "json", "npz"])
def test_a_table_that_no_step_uses_does_not_matter(suffix: str, tmp_path: Path) -> None:
    model = replace(by_step(), horizon=2, table_of_step=np.array([0, 1], np.int32))
    assert solvent.solve(model).value == 0 + 1
    assert [model.place_of(outcome) for outcome in range(3)] == ["s/go at step 0", "s/go at step 1", "s/go"]
    model.save(tmp_path / f"short.{suffix}")
    loaded = solvent.load_model(tmp_path / f"short.{suffix}")
    assert (loaded.n_tables, solvent.solve(loaded).value) == (2, 1)


def test_costs_stay_exact() -> None:
    changed = replace(trips(), horizon=50)
    assert changed.cost[0].value(1) == Fraction(4, 3)
