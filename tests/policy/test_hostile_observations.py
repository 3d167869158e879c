"""Invalid observations and amounts: always an error of this package."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import solvent
from solvent import Budget, SolventError, instances
from solvent.core.exact import exact, nearest_float


class BadHash:
    def __hash__(self) -> int:
        raise RuntimeError("no hash")


class BadEquals:
    def __hash__(self) -> int:
        return hash(0)

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError


def nested() -> Any:
    deep: Any = 0
    for _ in range(50_000):
        deep = [deep]
    return deep


ODD: list[Any] = [
    float("nan"), float("inf"), -float("inf"), 10**5000, -(10**400), 1e308, "1e999999999", "nan", "1/0", "", "\x1b[2J",
    "\ud800", Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e999999"), np.float64("nan"),
    np.longdouble("inf"), np.timedelta64(1, "s"), np.timedelta64("NaT"), np.datetime64("2020-01-01"), np.ma.masked,
    np.ma.array([1], mask=[True]), np.array("x"), np.array([[1]]), np.array([]), np.array([object()]), True, np.True_,
    None, [], [[]], {}, {"x": 1}, {"cost": None}, {"cost": [1]}, b"1", 1j, set(), object(), BadHash(), BadEquals(),
    np.void(b"1"), range(0), nested(), solvent.distribution("uniform", low=0, high=1), type, print,
]  # fmt: skip


def two() -> solvent.CMDP:
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["x", "y"], budget={"x": 3, "y": 3})
    b.add(0, 0, outcomes=[(1, 0, [1, 0])])
    return b.build()


MODELS = [instances.markov_gap(), two()]
POLICIES = [solvent.solve(model).policy for model in MODELS]


@pytest.mark.parametrize("place", range(len(ODD)))
def test_agents_refuse_invalid_observations(place: int) -> None:
    odd = ODD[place]
    for model, policy in zip(MODELS, POLICIES, strict=True):
        single = model.n_resources == 1
        for state, cost in ((odd, 1 if single else [1, 0]), (0, odd), (0, [odd] * model.n_resources)):
            agent = policy.agent()
            agent.act()
            try:
                agent.observe(state, cost)
            except SolventError as error:
                said = str(error)
            else:  # resources that are not named cost nothing
                said = "taken"
                assert cost in ({}, {"cost": 1}, {"x": 1})
            assert said
            assert agent.step == (said == "taken")
            assert said == "taken" or set(agent.spent.values()) == {Fraction(0)}


def test_negative_zero_is_zero() -> None:
    model = instances.markov_gap()
    agent = solvent.solve(model).policy.agent()
    agent.act()
    agent.observe(0, -0.0)
    assert agent.spent == {"cost": 0}


@pytest.mark.parametrize("place", range(len(ODD)))
def test_invalid_amounts(place: int) -> None:
    odd = ODD[place]
    model, policy = MODELS[0], POLICIES[0]

    def build() -> None:
        b = solvent.CMDP.builder(horizon=2, start=0, resources=["x"])
        b.add(0, 0, outcomes=[(1, 0, odd)])
        b.build()

    calls: list[Any] = [
        lambda: exact(odd), lambda: Budget(odd), lambda: Budget(upper=[odd, odd]), lambda: Budget.final(odd), build,
        lambda: policy.action(0, 0, odd), lambda: policy.action(0, 0, [odd]),
        lambda: policy.action(0, 0, {"cost": odd}), lambda: policy.action(odd, odd, 0),
        lambda: model.state_index(odd), lambda: solvent.LoadLimits(seconds=odd),
    ]  # fmt: skip
    for call in calls:
        with contextlib.suppress(SolventError):
            call()
    for numpy_thing in (np.timedelta64(3, "s"), np.ma.masked):
        with pytest.raises(solvent.ModelError, match="a finite number"):
            exact(numpy_thing)
        with pytest.raises(solvent.BudgetError, match="a finite number"):
            Budget(numpy_thing)


@pytest.mark.parametrize("reward", [1e300, -1e300, 9e299])
@pytest.mark.parametrize("cost", [1, 10**350, "1e390"])
def test_huge_rewards_and_costs_stay_finite_or_are_refused(reward: float, cost: Any) -> None:
    for horizon in (1, 3):
        b = solvent.CMDP.builder(horizon=horizon, start=0, resources=["x"], budget=3)
        b.add(0, 0, reward=reward / horizon, outcomes=[(0.5, 0, cost), (0.5, 0, 0)])
        b.add(0, 1, reward=-reward / horizon, outcomes=[(1, 0, 0)])
        model = b.build()
        bold = np.zeros((horizon, 1), int)
        report = solvent.verify(model, bold)
        assert np.isfinite(report.value)
        assert str(report)
        simulation = solvent.simulate(model, bold, 30)
        assert np.isfinite(simulation.mean_reward)
        assert repr(simulation)
        for call in (lambda m=model: solvent.solve(m), lambda m=model: solvent.solve(m, method="reduction")):
            try:
                solution = call()
            except SolventError:
                assert cost != 1
            else:
                assert np.isfinite(solution.value)


def test_tiny_discounts() -> None:
    b = solvent.CMDP.builder(horizon=None, discount="1e-300", start=0, resources=["x"], budget=3)
    b.add(0, 0, reward=1, outcomes=[(0.5, 0, 1), (0.5, 0, 0)])
    assert np.isfinite(solvent.solve(b.build(), epsilon="1/10").value)


def test_nearest_float() -> None:
    assert nearest_float(10**400) == np.inf
    assert nearest_float(Fraction(-(10**400), 3)) == -np.inf
    assert nearest_float(Fraction(1, 10**400)) == 0
