"""Wrappers after an error, and accounts of numbers of any type: nothing is executed or forgotten silently."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from robots import Motor

from solvent.errors import BudgetError, ModelError, PolicyError, SolventError
from solvent.gym import (
    BudgetWrapper,
    ContinuousBudgetWrapper,
    CostMeter,
    EarlyTermination,
    NormCost,
    VectorBudgetWrapper,
)
from solvent.model.budget import Budget


class Till(gymnasium.Env[Any, Any]):
    """Reports in `info` what a function of (step, action) returns, and counts its own steps."""

    observation_space = spaces.Discrete(1000)

    def __init__(self, report: Callable[[int, Any], dict[str, Any]], space: Any = None, steps: int = 10**9) -> None:
        self._report, self._steps, self.first = report, steps, 0
        self.action_space = spaces.Discrete(2) if space is None else space
        self.executed: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        return self.first, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.executed.append(action)
        self._time += 1
        return self._time, 0.0, False, self._time >= self._steps, self._report(self._time, action)


def one_each(step: int, action: Any) -> dict[str, Any]:
    return {"cost": 1}


def vector(mode: AutoresetMode, *environments: Till) -> SyncVectorEnv:
    return SyncVectorEnv([lambda each=each: each for each in environments], autoreset_mode=mode)  # type: ignore[misc]


# after an error


def test_a_vector_with_autoreset_stops_at_a_dead_end() -> None:
    inside = [Till(one_each), Till(one_each)]
    env = VectorBudgetWrapper(vector(AutoresetMode.NEXT_STEP, *inside), 2, cost_bound=1, fallback="first")
    env.reset()
    env.step(np.zeros(2, int))
    with pytest.raises(SolventError, match="environment 0, step 2: expected a safe action, found a dead end"):
        env.step(np.zeros(2, int))
    for _ in range(2):
        with pytest.raises(PolicyError, match=r"expected reset\(\) first, found episodes that ended with an error"):
            env.step(np.zeros(2, int))
    assert [len(each.executed) for each in inside] == [2, 2]
    env.reset()
    env.step(np.zeros(2, int))


def test_no_step_follows_a_reset_that_failed() -> None:
    rich, poor = Till(one_each), Till(one_each)
    env = VectorBudgetWrapper(
        vector(AutoresetMode.DISABLED, rich, poor), 2, cost_bound=lambda seen, action: 3 * (seen == 7), fallback="first"
    )
    env.reset()
    poor.first = 7
    with pytest.raises(SolventError, match="environment 1: expected a start from which the budget can be kept"):
        env.reset()
    with pytest.raises(PolicyError, match=r"expected reset\(\) first, found no episode"):
        env.step(np.zeros(2, int))
    assert rich.executed == poor.executed == []


def test_environments_that_reset_together_may_have_several_resources() -> None:
    inside = [Till(lambda step, action: {"costs": {"fuel": 1, "noise": 2}}, steps=2) for _ in range(2)]
    env = VectorBudgetWrapper(
        vector(AutoresetMode.NEXT_STEP, *inside), {"fuel": 3, "noise": 6}, cost_bound={"fuel": 1, "noise": 2}
    )
    env.reset()
    seen = []
    for _ in range(6):
        info = env.step(np.zeros(2, int))[4]
        seen.append(info["remaining"]["noise"].tolist())
    assert seen == [[4, 4], [2, 2], [6, 6]] * 2


# numbers of any type


@pytest.mark.parametrize("reserve", [lambda seen, action: Fraction(seen, 7), lambda seen, action: 0.1 * seen])
def test_info_tells_the_cost_of_the_step_whatever_the_next_reserve_is(reserve: Any) -> None:
    env = BudgetWrapper(Till(one_each), budget=50, cost_bound=1, reserve=reserve)
    env.reset()
    for _ in range(8):
        info = env.step(0)[4]
        assert info["cost"] == info["costs"]["cost"] == 1.0
    two = BudgetWrapper(
        Till(lambda step, action: {"costs": {"a": 1, "b": 0.5}}),
        {"a": 50, "b": 50},
        cost_bound={"a": 1, "b": 1},
        reserve=lambda seen, action: {"a": Fraction(seen, 7), "b": Fraction(seen, 11)},
    )
    two.reset()
    for _ in range(5):
        info = two.step(0)[4]
        assert info["cost"] == 1.5
        assert info["costs"] == {"a": 1.0, "b": 0.5}


@pytest.mark.parametrize("form", ["array", "list of arrays", "by resource", "by observation", "list", "function"])
def test_bounds_and_costs_in_float32_are_read_alike(form: str) -> None:
    prices = np.array([0.1, 0.7], np.float32)
    bound: Any = {
        "array": prices,
        "list of arrays": [prices[:1], prices[1:]],
        "by resource": {"cost": prices},
        "by observation": np.tile(prices, (1000, 1)),
        "list": list(prices),
        "function": lambda seen, action: prices[action],
    }[form]
    for budget, fits in ((0.7, True), (0.69999999, False)):  # float32(0.7) is less than 0.69999999 as a binary number
        env = BudgetWrapper(Till(lambda step, action: {"cost": prices[action]}), budget, cost_bound=bound)
        env.reset()
        assert env.action_masks().tolist() == [True, fits]
        if fits:
            assert env.step(1)[4]["cost"] == 0.7
            assert env.spent["cost"] == Fraction(7, 10)
            assert env.violations == 0


@pytest.mark.parametrize("value", [np.int8(-128), np.array(-128, np.int8), -128, -128.0, Fraction(-128), "-128"])
def test_the_negative_of_a_key_of_any_type(value: Any) -> None:
    env = BudgetWrapper(Till(lambda step, action: {"r": value}), budget=200, cost="-r", cost_bound=128)
    env.reset()
    assert env.step(0)[4]["cost"] == 128
    assert env.spent["cost"] == 128
    assert env.action_masks().all()  # nothing fits, and no action will be executed
    assert env.safe_actions().tolist() == []


@pytest.mark.parametrize("value", [None, np.bool_(True), float("nan"), "much"])
def test_the_negative_of_something_else(value: Any) -> None:
    env = BudgetWrapper(Till(lambda step, action: {"r": value}), budget=200, cost="-r", cost_bound=128)
    env.reset()
    with pytest.raises(ModelError, match="info after a step, 'r': expected a finite number"):
        env.step(0)


def test_the_negative_of_costs_by_name_and_in_order() -> None:
    for report in ({"fuel": -1, "noise": np.uint8(3)}, [-1, np.uint8(3)], np.array([-1, 3])):
        env = BudgetWrapper(
            Till(lambda step, action, report=report: {"r": report}),  # type: ignore[misc]
            {"fuel": 5, "noise": 5}, cost="-r", cost_bound={"fuel": 1, "noise": 0},
        )  # fmt: skip
        env.reset()
        env.step(0)
        assert env.spent == {"fuel": 1, "noise": -3}


def test_vectors_read_the_negative_of_a_key() -> None:
    inside = [Till(lambda step, action: {"r": np.int8(-128)}), Till(lambda step, action: {"r": -0.5})]
    env = VectorBudgetWrapper(vector(AutoresetMode.DISABLED, *inside), 200, cost="-r", cost_bound=128)
    env.reset()
    assert env.step(np.zeros(2, int))[4]["cost"].tolist() == [128, 0.5]
    wrong = VectorBudgetWrapper(vector(AutoresetMode.DISABLED, *inside), 200, cost="-q", cost_bound=128)
    wrong.reset()
    with pytest.raises(ModelError, match="a cost under '-q'"):
        wrong.step(np.zeros(2, int))


def test_ticks_do_not_become_finer_for_ever() -> None:
    costs = iter(Fraction(1, n) for n in range(10**9, 10**9 + 10**4))
    spent = Fraction(0)

    def report(step: int, action: Any) -> dict[str, Any]:
        nonlocal spent
        cost = next(costs)
        spent = cost if step == 1 else spent + cost
        return {"cost": cost}

    env = BudgetWrapper(Till(report), budget=5, cost_bound=1)
    for _ in range(200):
        env.reset()
        for _ in range(3):
            env.step(0)
            assert env.spent["cost"] == spent
        assert env._tracker.scale[0].bit_length() < 600


def test_a_forgotten_minus() -> None:
    def make(**options: Any) -> ContinuousBudgetWrapper:
        box = spaces.Box(-1, 1, (2,), np.float32)
        inside = Till(lambda step, action: {"reward_ctrl": -0.1 * np.sum(np.square(action))}, box)
        return ContinuousBudgetWrapper(inside, 1, **options)

    env = make(cost="reward_ctrl", cost_bound=NormCost(0.1))
    env.reset()
    with pytest.raises(ModelError, match=r"at least 0 in info\['reward_ctrl'\].*; pass cost='-reward_ctrl'"):
        env.step(np.ones(2, np.float32))
    inside = CostMeter(make(cost="-reward_ctrl", cost_bound=NormCost(0.1)).env, cost="reward_ctrl")
    metered = ContinuousBudgetWrapper(inside, 1, cost_bound=NormCost(0.1))
    metered.reset()
    with pytest.raises(ModelError, match=r"at least 0 in info\['reward_ctrl'\].*; pass cost='-reward_ctrl'"):
        metered.step(np.ones(2, np.float32))
    right = make(cost="-reward_ctrl", cost_bound=NormCost(0.1))
    refunds = make(cost="reward_ctrl", cost_bound=lambda seen, action: 0.1 * np.sum(np.square(action)))
    for each, sign in ((right, 1), (refunds, -1)):
        each.reset()
        each.step(np.ones(2, np.float32))
        assert sign * each.spent["cost"] > 0


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int64])
def test_no_greater_scale_fits(kind: Any) -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        size, most = int(rng.integers(1, 8)), 9 if kind == np.int64 else 1
        budget = float(rng.uniform(0.01, 0.1 * size * most**2 / 3))
        inside = Till(
            lambda step, action: {"cost": 0.1 * float(np.sum(np.square(action.astype(np.float64))))},
            spaces.Box(-most, most, (size,), kind),
        )
        env = ContinuousBudgetWrapper(inside, budget, cost_bound=NormCost(0.1), margin=1e-9)
        env.reset()
        proposed = rng.uniform(-most, most, size).astype(kind)
        info = env.step(proposed)[4]
        if info["action_scale"] == 1:
            continue
        scales = info["action_scale"] + (1 - info["action_scale"]) * np.arange(1, 2001) / 2000
        moved = scales[:, None] * proposed.astype(float)
        rounded = (np.rint(moved) if kind == np.int64 else moved).astype(kind).astype(float)
        costs = 0.1 * np.square(rounded).sum(axis=1)
        larger = np.square(rounded).sum(axis=1) > np.square(info["executed_action"].astype(float)).sum() * (1 + 2**-20)
        slack = 1 - 1e-9 - (size + 8) * (2.0**-10 if kind == np.float16 else 2.0**-23) * 1.01
        tiny = (size + 8) * 2.0**-24 * 1.01 if kind == np.float16 else 0.0
        assert not (larger & (costs + tiny <= budget * slack)).any()


def test_rounding_may_let_a_greater_scale_fit() -> None:
    box = spaces.Box(-9, 9, (3,), np.int64)
    inside = Till(lambda step, action: {"cost": 0.1 * float(np.sum(np.square(action)))}, box)
    env = ContinuousBudgetWrapper(inside, 1.2306, cost_bound=NormCost(0.1))
    env.reset()
    # the closed form is 0.2986, where the second component rounds to 1; from 0.3 to 0.3125 it rounds to 2, for 1.2
    assert env.step(np.array([-8, 5, -7]))[4]["executed_action"].tolist() == [-2, 2, -2]


# mistakes


def test_mistakes_in_actions() -> None:
    wide = Till(one_each, spaces.Box(-np.inf, np.inf, (2,), np.float32))
    env = ContinuousBudgetWrapper(wide, 3, cost_bound=1)
    env.reset()
    for wrong in ([[1], [1, 2]], np.array([1 + 2j, 0]), np.array([1e300, 0]), "ab", None):
        with pytest.raises(PolicyError, match=r"expected finite numbers of shape \(2,\)"):
            env.step(wrong)
    with pytest.raises(PolicyError, match="which is infinite as float32"):
        env.step([1e300, 0])
    discrete = BudgetWrapper(Till(one_each), 3, cost_bound=1)
    discrete.reset()
    for truth in (True, np.array(True), np.bool_(False)):
        with pytest.raises(PolicyError, match=r"an action of Discrete\(2\)"):
            discrete.step(truth)
    many = VectorBudgetWrapper(vector(AutoresetMode.DISABLED, Till(one_each), Till(one_each)), 3, cost_bound=1)
    many.reset()
    with pytest.raises(PolicyError, match="2 whole numbers, one action per environment"):
        many.step([[0], [1, 2]])
    assert wide.executed == []


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        (lambda seen, actions: ["x"] * len(actions), "cost_bound: expected a finite number"),
        (lambda seen, actions: [[1], [1, 2]], "cost_bound: expected a finite number"),
        (lambda seen, actions: [1.0, 2.0, 3.0], "one row per action, found shape"),
        (lambda seen: 1.0, r"cost_bound: expected a function of \(observation, action\), found one of \(seen\)"),
    ],
)
def test_mistakes_in_bounds_of_many_actions(bound: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):  # noqa: PT012
        env = ContinuousBudgetWrapper(Motor(2), 3, cost_bound=bound, vectorized=True)
        env.reset()
        env.step(np.ones(2, np.float32))


def test_none_forbids_actions_of_many_too() -> None:
    def bound(seen: Any, actions: Any) -> list[float | None]:
        return [None if each > 0.5 else float(each) for each in np.abs(actions).max(axis=1)]

    box = spaces.Box(-1, 1, (2,), np.float32)
    env = ContinuousBudgetWrapper(Till(lambda step, action: {"cost": 0}, box), 3, cost_bound=bound, vectorized=True)
    env.reset()
    assert env.step(np.ones(2))[4]["executed_action"].max() == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fallback": np.array([1, 2])}, "fallback: expected None"),
        ({"layout": ["dict"]}, "layout: expected"),
        ({"budget": 10**400}, "budget, cost: expected amounts of at most 1e300"),
        ({"cost": lambda action: 0}, r"cost: expected a function of .*, found one of \(action\)"),
        ({"cost_bound": lambda action: 0}, r"cost_bound: expected a function of \(observation, action\)"),
        ({"reserve": lambda: 0}, r"reserve: expected a function of \(observation, action\), found one of \(\)"),
    ],
)
def test_mistakes_in_arguments(options: dict[str, Any], message: str) -> None:
    given = {"budget": 3, "cost_bound": 1} | options
    with pytest.raises((ModelError, BudgetError), match=message):
        BudgetWrapper(Till(one_each), **given)
    with pytest.raises((ModelError, BudgetError), match=message):
        VectorBudgetWrapper(vector(AutoresetMode.DISABLED, Till(one_each)), **given)


def test_single_environments_and_vectors_are_told_apart() -> None:
    inside = vector(AutoresetMode.DISABLED, Till(one_each))
    with pytest.raises(ModelError, match=r"expected a single Gymnasium environment, found .*use VectorBudgetWrapper"):
        BudgetWrapper(inside, 3, cost_bound=1)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="BudgetWrapper is for a single environment"):
        VectorBudgetWrapper(Till(one_each), 3, cost_bound=1)  # type: ignore[arg-type]


def test_amounts_beyond_floats() -> None:
    env = ContinuousBudgetWrapper(Motor(2), 3, cost_bound=lambda seen, action: 10**400 if action.any() else 0)
    env.reset()
    assert not env.step(np.ones(2, np.float32))[4]["executed_action"].any()
    with pytest.raises(BudgetError, match="amounts of at most 1e300"):
        ContinuousBudgetWrapper(Motor(2), 10**400, cost_bound=1)


def test_norms_of_numpy_numbers() -> None:
    assert NormCost(np.float32(0.5), order=np.int64(1), power=np.int64(2))(None, np.array([1.0, 1.0])) == 2.0  # type: ignore[arg-type]
    for wrong in ({"weight": True}, {"order": np.array([1, 2])}, {"power": np.array([1, 2])}, {"weight": "1"}):
        with pytest.raises(ModelError, match="expected"):
            NormCost(**wrong)  # type: ignore[arg-type]


def test_a_registered_environment_needs_a_model() -> None:
    said = r"^model: expected a CMDP, or the path of a model file, found none; gymnasium\.make\('solvent/Model-v0', "
    with pytest.raises(ModelError, match=said):
        gymnasium.make("solvent/Model-v0")


def test_rewards_and_shares_are_numbers_of_any_type() -> None:
    box = spaces.Box(-1, 1, (2,), np.float32)
    for kind in (np.float32, np.float64, np.int64):
        EarlyTermination(Till(one_each), 1, termination_reward=kind(-2))
        BudgetWrapper(Till(one_each), 1, cost_bound=1, dead_end_reward=kind(-2))
        ContinuousBudgetWrapper(Till(one_each, box), 1, cost_bound=1, margin=kind(0), slack=kind(0))
    for wrong in ("x", None, True, float("inf")):
        with pytest.raises(ModelError, match=r"^termination_reward: expected a finite number, found "):
            EarlyTermination(Till(one_each), 1, termination_reward=wrong)  # type: ignore[arg-type]


def test_budgets_that_need_a_model_where_none_can_be_passed() -> None:
    box = spaces.Box(-1, 1, (2,), np.float32)
    for make in (
        lambda budget: EarlyTermination(Till(one_each), budget),
        lambda budget: ContinuousBudgetWrapper(Till(one_each, box), budget, cost_bound=1),
        lambda budget: VectorBudgetWrapper(vector(AutoresetMode.DISABLED, Till(one_each)), budget, cost_bound=1),
    ):
        with pytest.raises(BudgetError, match=r"need a model: use BudgetWrapper with model=\.\.\.$"):
            make(Budget(lower=1))
