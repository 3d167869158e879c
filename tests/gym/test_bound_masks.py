"""Masks from bounds, stated and learned, and sources of costs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from foreign import Road
from hypothesis import given
from hypothesis import strategies as st

from solvent.errors import BudgetError, ModelError, PolicyError, SolventError
from solvent.gym import (
    BudgetWrapper,
    ContinuousBudgetWrapper,
    CostInInfo,
    CostSupport,
    EarlyTermination,
    EmpiricalCostBound,
)
from solvent.model.budget import Budget
from solvent.model.cost_bounds import CostBounds

amounts = st.sampled_from(["0", "0.1", "1/3", "1", "2.5", "-0.5"])


@given(st.lists(amounts, min_size=1, max_size=4), st.sampled_from(["0", "0.3", "1", "5/2", "7"]), st.integers(0, 99))
def test_the_budget_holds_under_random_play(prices: list[str], budget: str, seed: int) -> None:
    costs = [Fraction(price) for price in prices]
    env = BudgetWrapper(Road(costs, length=10**6), budget, cost_bound=costs, dead_start="end")
    rng = np.random.default_rng(seed)
    _, info = env.reset()
    total = Fraction(0)
    for _ in range(20):
        allowed = [total + cost <= Fraction(budget) for cost in costs]
        assert env.safe_actions().tolist() == np.flatnonzero(allowed).tolist()
        assert env.action_masks().tolist() == (allowed if any(allowed) else [True] * len(allowed))
        assert info["dead_end"] == (not any(allowed))
        if info["dead_end"]:
            break
        action = int(rng.choice(env.safe_actions()))
        _, _, terminated, _, info = env.step(action)
        total += costs[action]
        assert env.spent == {"cost": total}
        assert total <= Fraction(budget)
        assert terminated == info["dead_end"]


@pytest.mark.parametrize(
    "bound",
    [
        [0, 1, 2],
        np.array([0.0, 1.0, 2.0]),
        lambda observation, action: action,
        lambda observation, action: [action],
        {"cost": [0, 1, 2]},
    ],
)
def test_ways_to_state_a_bound(bound: Any) -> None:
    env = BudgetWrapper(Road(), 3, cost_bound=bound)
    env.reset()
    env.step(2)
    assert env.action_masks().tolist() == [True, True, False]
    env.step(1)
    assert env.action_masks().tolist() == [True, False, False]
    assert env.remaining == {"cost": 0}


def test_one_number_bounds_all_actions() -> None:
    env = BudgetWrapper(Road(), 3, cost_bound=2)
    env.reset()
    env.step(1)
    assert env.action_masks().all()
    info = env.step(1)[4]
    assert not env.safe_actions().size
    assert info["dead_end"]


@pytest.mark.parametrize("never", [None, math.inf, np.inf])
def test_what_must_never_be_done(never: Any) -> None:
    env = BudgetWrapper(Road(), 100, cost_bound=[0, never, 2])
    env.reset()
    assert env.action_masks().tolist() == [True, False, True]


def test_bounds_by_observation() -> None:
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    table = np.ones((16, 4))
    table[1] = 3
    env = BudgetWrapper(lake, 3, cost=lambda s, a, n: 3 if s == 1 else 1, cost_bound=table)
    env.reset()
    assert env.step(2)[4]["dead_end"]  # state 1 costs 3, and 2 are left


def test_a_reserve_keeps_the_way_home_open() -> None:
    home = BudgetWrapper(
        Road(length=100),
        10,
        cost_bound=[0, 1, 2],
        reserve=lambda observation, action: int(observation[0]) + action,  # as far as it will be from the start
    )
    home.reset()
    while home.action_masks()[1:].any():
        home.step(int(home.safe_actions()[-1]))
    assert home.spent["cost"] == 5  # five out, and five are left
    fixed = BudgetWrapper(Road(), 10, cost_bound=[0, 1, 2], reserve=8)
    fixed.reset()
    fixed.step(2)
    assert fixed.action_masks().tolist() == [True, False, False]


def test_several_resources() -> None:
    def cost(observation: Any, action: int, next_observation: Any) -> dict[str, Any]:
        return {"fuel": action, "time": "1/2"}

    env = BudgetWrapper(Road(), {"fuel": 3, "time": 2}, cost, np.array([[0, 0.5], [1, 0.5], [2, 0.5]]))
    observation, info = env.reset()
    assert observation["remaining"].tolist() == [3, 2]
    info = env.step(2)[4]
    assert info["costs"] == {"fuel": 2.0, "time": 0.5}
    assert info["cost"] == 2.5
    assert info["remaining"] == {"fuel": 1.0, "time": 1.5}
    assert info["action_mask"].tolist() == [1, 1, 0]
    for _ in range(3):
        info = env.step(0)[4]
    assert info["dead_end"]  # time is up
    assert env.remaining == {"fuel": 1, "time": 0}


def test_where_costs_are_found() -> None:
    for env in (
        BudgetWrapper(Road(report="six"), 3, cost_bound=[0, 1, 2]),
        BudgetWrapper(CostInInfo(Road(report="six")), 3, cost_bound=[0, 1, 2]),
        BudgetWrapper(Road(report="fuel"), 3, cost="fuel", cost_bound=[0, 1, 2]),
        BudgetWrapper(Road(report="nothing"), 3, cost=lambda o, a, n: int(n[0] - o[0]), cost_bound=[0, 1, 2]),
        BudgetWrapper(Road(report="nothing"), 3, cost=2, cost_bound=2),
    ):
        _, info = env.reset()
        assert info["cost"] == 0.0
        assert env.step(2)[4]["cost"] == 2.0
        assert env.remaining == {"cost": 1}
    adapted = CostInInfo(Road(report="six"))
    assert adapted.reset()[1] == {"cost": 0.0}
    assert adapted.step(1)[4] == {"cost": 1}


def test_costs_that_are_not_there() -> None:
    env = BudgetWrapper(Road(report="nothing"), 3, cost_bound=1)
    env.reset()
    with pytest.raises(ModelError, match=r"info after a step: expected a cost under 'cost', found the keys \[\]; pass"):
        env.step(1)
    with pytest.raises(PolicyError, match=r"an episode that ended with an error"):
        env.step(1)
    plain = CostInInfo(Road())
    plain.reset()
    with pytest.raises(ModelError, match=r"step: expected six values, the third of them a cost, found five"):
        plain.step(1)
    broken = BudgetWrapper(Road(prices=[1]), 3, cost="cost", cost_bound=1)
    broken.env.step = lambda action: (1, 2, 3)  # type: ignore[assignment, method-assign, return-value]
    broken.reset()
    with pytest.raises(ModelError, match=r"step: expected five values, or six with a cost after the reward, found 3"):
        broken.step(0)
    wrong = BudgetWrapper(Road(), 3, cost=lambda o, a, n: "dear", cost_bound=1)
    wrong.reset()
    with pytest.raises(ModelError, match=r"step 0, action 0, cost of cost: expected a finite number"):
        wrong.step(0)


def test_a_bound_that_does_not_hold_is_an_error() -> None:
    env = BudgetWrapper(Road([0, 1, 5]), 30, cost_bound=[0, 1, 2])
    env.reset()
    env.step(1)
    match = r"step 1, action 2, cost of cost: expected at most 2, as cost_bound says, found 5; cost_bound must hold"
    with pytest.raises(PolicyError, match=match):
        env.step(2)


def test_learned_bounds() -> None:
    seen = EmpiricalCostBound(unseen=0)
    assert isinstance(seen, CostSupport)
    env = BudgetWrapper(Road([0, 1, 5]), 4, cost_bound=seen)
    env.reset()
    _, _, terminated, _, info = env.step(2)
    assert terminated
    assert info["violation"]
    assert not info["dead_end"]
    assert env.violations == 1
    _, info = env.reset()
    assert not info["violation"]
    assert info["action_mask"].tolist() == [1, 1, 0]  # the same mistake is not repeated
    assert env.violations == 1
    for _ in range(4):
        info = env.step(1)[4]
    assert info["action_mask"].tolist() == [1, 0, 0]
    by_cell = EmpiricalCostBound(unseen=1, key=lambda observation, action: (float(observation[0]), action))
    by_cell.observe(0, np.array([3.0]), 1, {"cost": Fraction(7)}, None)
    assert by_cell.bound(0, np.array([3.0]), 1) == {"cost": 7}
    assert by_cell.bound(0, np.array([4.0]), 1) == 1


class Picky(Road):
    """Forbids its second action."""

    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0], {"action_mask": np.array([1, 0, 1], np.int8)}


def test_the_environments_own_mask_counts_as_well() -> None:
    env = BudgetWrapper(Picky(), 10, cost_bound=[0, 1, 2])
    _, info = env.reset()
    assert info["action_mask"].tolist() == [1, 0, 1]


def test_actions_need_not_begin_at_zero() -> None:
    env = BudgetWrapper(Road(start=5), 3, cost_bound=lambda o, a: a - 5)
    env.reset()
    env.step(7)
    assert env.action_masks().tolist() == [True, True, False]
    assert env.safe_actions().tolist() == [5, 6]
    with pytest.raises(PolicyError, match=r"remaining cost 1: expected an action the mask allows \(5, 6\), found 7"):
        env.step(7)


def test_budgets_that_need_a_model() -> None:
    hint = r"expected one anytime upper limit, found .*; limits per step, lower limits and final limits need"
    for budget in (Budget(upper=[1, 2]), Budget.final(3), Budget(3, lower=0), {"cost": Budget.final(3)}):
        with pytest.raises(BudgetError, match=hint):
            BudgetWrapper(Road(), budget, cost_bound=1)
    with pytest.raises(BudgetError, match=r"budget: expected a limit on at least one resource, found None"):
        BudgetWrapper(Road(), cost_bound=1)


def test_bounds_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match=r"BudgetWrapper: expected a model, or a bound on the cost of actions, found"):
        BudgetWrapper(Road(), 3)
    with pytest.raises(ModelError, match=r"cost_bound: expected numbers of shape \(3,\), found shape \(2,\)"):
        BudgetWrapper(Road(), 3, cost_bound=[1, 2])
    with pytest.raises(ModelError, match=r"cost_bound: expected numbers of shape \(3, 2\), found shape \(\)"):
        BudgetWrapper(Road(), {"a": 1, "b": 1}, cost_bound=1)
    with pytest.raises(ModelError, match=r"cost_bound: expected numbers for each of 'cost', found 'fuel'"):
        BudgetWrapper(Road(), 3, cost_bound={"fuel": 1})
    with pytest.raises(
        ModelError, match=r"cost_bound: expected numbers for each of 'fuel', found 'feul'; did you mean"
    ):
        BudgetWrapper(Road(), {"fuel": 3}, cost_bound={"feul": 1})
    env = BudgetWrapper(Road(), 3, cost=lambda *_: 0.1 + 0.2, cost_bound=0.3)
    env.reset()
    with pytest.raises(PolicyError, match=r"at most 0\.3, as cost_bound says, found about 0\.3 \(more by 4\.44e-17\)"):
        env.step(1)
    env = BudgetWrapper(Road(), 3, cost=lambda seen, action, after: action == 1, cost_bound=1)
    env.reset()
    with pytest.raises(ModelError, match=r"found True; int\(\.\.\.\) turns True into 1 and False into 0"):
        env.step(1)
    with pytest.raises(ModelError, match=r"cost_bound: expected numbers for each of 'a', 'b', found only \['a'\]"):
        BudgetWrapper(Road(), {"a": 1, "b": 1}, cost_bound={"a": 1})
    with pytest.raises(ModelError, match=r"cost_bound\[1\]: expected a finite number"):
        BudgetWrapper(Road(), 3, cost_bound=[1, "much", 2])
    env = BudgetWrapper(Road(), 3, cost_bound=np.zeros((4, 3)))
    with pytest.raises(ModelError, match=r"cost_bound: expected an observation from 0 to 3, as the array has 4 rows"):
        env.reset()
    with pytest.raises(
        ModelError, match=r"expected a Discrete action space, found Box.*; .* ContinuousBudgetWrapper is for"
    ):
        BudgetWrapper(gymnasium.make("Pendulum-v1"), 3, cost_bound=1)


def test_dead_starts() -> None:
    match = r"reset: expected a start from which the budget can be kept, found no safe action with remaining cost 0.5;"
    with pytest.raises(SolventError, match=match):
        BudgetWrapper(Road([1, 2]), "1/2", cost_bound=[1, 2]).reset()
    road = Road([1, 2])
    env = BudgetWrapper(road, "1/2", cost_bound=[1, 2], dead_start="end")
    _, info = env.reset()
    assert info["dead_end"]
    assert info["cost"] == 0.0
    assert len(env.safe_actions()) == 0
    _, reward, terminated, truncated, info = env.step(1)
    assert (reward, terminated, truncated, info["dead_end"], info["cost"]) == (0.0, True, False, True, 0.0)
    assert road.taken == []  # nothing was done
    with pytest.raises(PolicyError, match=r"expected reset\(\) first, found an episode that ended in a dead end"):
        env.step(0)
    with pytest.raises(ModelError, match=r"dead_start: expected 'raise' or 'end', found 'stay'"):
        BudgetWrapper(Road(), 3, cost_bound=1, dead_start="stay")


def test_fallbacks() -> None:
    road = Road([1, 2, 0])
    env = BudgetWrapper(road, 2, cost_bound=[1, 2, 0], fallback="first")
    env.reset()
    env.step(0)
    info = env.step(1)[4]
    assert info["action"] == 0
    info = env.step(1)[4]
    assert info["action"] == 2
    assert road.taken == [0, 0, 2]
    named = BudgetWrapper(Road([1, 2, 0]), 2, cost_bound=[1, 2, 0], fallback=2)
    named.reset()
    named.step(1)
    assert named.step(1)[4]["action"] == 2
    chooser = BudgetWrapper(Road([1, 2, 0]), 2, cost_bound=[1, 2, 0], fallback=lambda o, mask: np.flatnonzero(mask)[-1])
    chooser.reset()
    chooser.step(1)
    assert chooser.step(0)[4]["action"] == 2
    useless = BudgetWrapper(Road([1, 2, 0]), 2, cost_bound=[1, 2, 0], fallback=1)
    useless.reset()
    useless.step(1)
    with pytest.raises(PolicyError, match=r"fallback: expected an action the mask allows \(2\), found 1, which is"):
        useless.step(0)


def test_refused_actions_change_nothing() -> None:
    road = Road()
    env = BudgetWrapper(road, 2, cost_bound=[0, 1, 2])
    with pytest.raises(PolicyError, match=r"step 0, remaining cost 2: expected reset\(\) first, found no episode"):
        env.step(0)
    env.reset()
    env.step(2)
    for action in (1, 2):
        with pytest.raises(PolicyError, match=r"step 1, remaining cost 0: expected an action the mask allows \(0\)"):
            env.step(action)
    for wrong in (3, -1, True, 0.5, "go", np.array([1, 2])):
        with pytest.raises(PolicyError, match=r"expected an action of Discrete\(3\), found"):
            env.step(wrong)
    assert road.taken == [2]
    assert env.step(np.array(0))[4]["step"] == 2


def test_nothing_leaks_from_one_episode_to_the_next() -> None:
    env = BudgetWrapper(Road(), 3, cost_bound=[0, 1, 2])
    first = env.reset(seed=1)
    env.step(2)
    env.step(1)
    again = env.reset(seed=1)
    assert first[0]["remaining"] == again[0]["remaining"]
    assert {**first[1], "action_mask": 0} == {**again[1], "action_mask": 0}
    assert env.spent == {"cost": 0}
    mask = env.action_masks()
    mask[:] = False
    assert env.action_masks().all()


def test_bounds_of_a_wrong_shape_are_refused() -> None:
    with pytest.raises(ModelError, match=r"^bound, 'fuel': expected a number, or 2 numbers, .* found shape \(2, 2\)"):
        CostBounds({"fuel": [[0, 1], [2, 3]]}, ("fuel",), n_actions=2, where="bound")
    with pytest.raises(ModelError, match=r"^bound: expected rows of the same length, found shape \(2, \?\)"):
        CostBounds([[0, 1], [2]], ("fuel",), n_actions=2, where="bound")


def test_equal_values_that_stand_for_different_numbers() -> None:
    """0.1 is one tenth, but the fraction that equals it is its binary value; the same for large numbers."""

    class Reports(Road):
        def step(self, action: Any) -> Any:
            *rest, _ = super().step(action)
            return *rest, {"cost": reported.pop(0)}

    large = 99999999999999991611392  # equals 1e23
    for numbers in ([0.1, Fraction(0.1)], [Fraction(0.1), 0.1], [1e23, large], [large, 1e23]):
        reported, read = list(numbers), [Fraction(str(x)) if isinstance(x, float) else Fraction(x) for x in numbers]
        env = BudgetWrapper(Reports(), 10**25, cost_bound=10**24)
        env.reset()
        for expected in (read[0], sum(read)):
            env.step(0)
            assert env.spent["cost"] == expected


@pytest.mark.parametrize("wrapper", [BudgetWrapper, ContinuousBudgetWrapper, EarlyTermination])
def test_what_reset_and_step_must_return(wrapper: Any) -> None:
    class Old(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,))
        action_space = gymnasium.spaces.Discrete(2)
        first: Any = np.zeros(2, np.float32)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return self.first

        def step(self, action: Any) -> Any:
            return np.zeros(2, np.float32), 1.0, False, False, None

    inner = Old()
    if wrapper is ContinuousBudgetWrapper:
        inner.action_space = gymnasium.spaces.MultiBinary(2)  # type: ignore[assignment]
    options = {} if wrapper is EarlyTermination else {"cost_bound": 1}
    env = wrapper(inner, 5, 1, **options)
    with pytest.raises(
        ModelError, match="reset: expected two values, the observation and a dict, found the observation"
    ):
        env.reset()
    inner.first = np.zeros(2, np.float32), None
    with pytest.raises(ModelError, match="info of reset: expected a dict, found None"):
        env.reset()
    inner.first = np.zeros(2, np.float32), {}
    env.reset()
    with pytest.raises(ModelError, match="info of step: expected a dict, found None"):
        env.step(inner.action_space.sample())


def test_thousands_of_actions_with_different_bounds() -> None:
    """Masks are made as they occur: one for each amount that can remain would be 10 GB for 100,000 actions."""
    n = 20_000
    prices = np.random.default_rng(1).permutation(n) + 1

    class Shop(gymnasium.Env[Any, Any]):
        observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(n)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return 0, {}

        def step(self, action: Any) -> Any:
            return 0, 0.0, False, False, {"cost": int(prices[action])}

    env = BudgetWrapper(Shop(), 5 * n, cost_bound=[None if price == 7 else int(price) for price in prices])
    rng = np.random.default_rng(2)
    for _ in range(30):
        env.reset()
        over = False
        while not over:
            left = int(env.remaining["cost"])
            assert np.array_equal(env.safe_actions(), np.flatnonzero((prices <= left) & (prices != 7)))
            over = env.step(rng.choice(env.safe_actions()))[2]
    remembered = env._masks._by_need._masks  # type: ignore[attr-defined]
    assert 0 < sum(mask.size for mask in remembered.values()) <= 2**22
