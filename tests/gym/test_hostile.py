"""Environments, agents and wrappers that misbehave or do unusual things."""

from __future__ import annotations

import warnings
from fractions import Fraction
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from foreign import Road
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics, TimeLimit
from ledger import Ledger

from solvent.errors import ModelError, PolicyError
from solvent.gym import BudgetWrapper, ModelEnv
from solvent.model import instances


class SameArray(Road):
    """Writes every observation into one array."""

    def _observe(self) -> Any:
        self._shared = getattr(self, "_shared", np.zeros(1, np.float32))
        self._shared[0] = self._cell
        return self._shared


def distance(before: Any, action: int, after: Any) -> int:
    return int(after[0] - before[0])


@pytest.mark.parametrize("layout", ["dict", "flat"])
def test_an_environment_that_reuses_its_arrays(layout: str) -> None:
    env = BudgetWrapper(SameArray(report="nothing"), 5, distance, [0, 1, 2], layout=layout)
    env.reset()
    env.step(2)
    env.step(2)
    assert env.spent == {"cost": 4}
    assert env.action_masks().tolist() == [True, True, False]


def test_an_agent_that_writes_into_what_it_is_shown() -> None:
    env = BudgetWrapper(
        Road(report="nothing"), 5, distance, cost_bound=[0, 1, 2], reserve=lambda seen, action: int(seen[0])
    )
    observation, info = env.reset()
    for action in (2, 0):
        observation, _, _, _, info = env.step(action)
        observation["observation"][:] = 0
        info["action_mask"][:] = 1
        info["remaining"]["cost"] = 100
    assert env.spent == {"cost": 2}
    assert env.action_masks().tolist() == [True, True, False]  # 2 away: 2 are spent, 2 kept back
    with pytest.raises(PolicyError, match=r"expected an action the mask allows \(0, 1\), found 2"):
        env.step(2)


class Rising(Road):
    """Asks more for every step."""

    def step(self, action: Any) -> Any:
        self.prices = [price + 1 for price in self.prices]
        return super().step(action)


def test_a_bound_that_looks_at_the_environment_is_taken_at_its_word() -> None:
    road = Rising([0, 1, 2])
    env = BudgetWrapper(road, 2, cost_bound=lambda observation, action: road.prices[action])
    env.reset()
    match = r"step 0, action 2, cost of cost: expected at most 2, as cost_bound says, found 3"
    with pytest.raises(PolicyError, match=match):
        env.step(2)


class Twice(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes every step two times, and reports the second."""

    def step(self, action: Any) -> Any:
        self.env.step(action)
        return self.env.step(action)


def test_steps_that_a_wrapper_repeats_are_all_paid_for() -> None:
    model = instances.knapsack([60, 100, 20, 30], [10, 20, 5, 5])
    ledger = Ledger(ModelEnv(model))
    env = BudgetWrapper(Twice(ledger), {"weight": 40}, cost_bound=[0, 30])
    env.reset()
    assert env.step(1)[4]["cost"] == 30.0
    assert env.spent == {"weight": 30} == {"weight": ledger.most()}
    assert env.action_masks().tolist() == [True, False]
    env.reset()
    assert env.step(1)[4]["cost"] == 30.0  # nothing is left over from the episode before


def test_masks_of_another_shape() -> None:
    class Odd(Road):
        def reset(self, **options: Any) -> Any:
            return super().reset(**options)[0], {"action_mask": np.array([1], np.int8)}

    with pytest.raises(
        ModelError, match=r"info, action_mask: expected 3 entries, one for each action, found shape \(1,\)"
    ):
        BudgetWrapper(Odd(), 3, cost_bound=[0, 1, 2]).reset()


@pytest.mark.parametrize("layout", ["dict", "flat", "rllib", "pettingzoo"])
@pytest.mark.parametrize("prices", [[0, 1, 2], [1, 2, 3]], ids=["alive", "dead start"])
def test_the_check_of_gymnasium(layout: str, prices: list[int]) -> None:
    env = BudgetWrapper(Road(prices), 0, cost_bound=prices, dead_start="end", layout=layout, fallback="first")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version.*|.*infinity.*")
        check_env(env, skip_render_check=True)


def test_a_truncated_episode_says_what_would_be_safe() -> None:
    env = BudgetWrapper(TimeLimit(Road(), 1), 3, cost_bound=[0, 1, 2])
    env.reset()
    _, _, terminated, truncated, info = env.step(2)
    assert (terminated, truncated, info["dead_end"]) == (False, True, False)
    assert info["action_mask"].tolist() == env.action_masks().tolist() == [1, 1, 0]  # to bootstrap from
    with pytest.raises(PolicyError, match=r"expected reset\(\) first, found an episode that is over"):
        env.step(0)


def test_two_wrappers_keep_two_budgets() -> None:
    ledger = Ledger(Road())
    inner = BudgetWrapper(ledger, {"fuel": 3}, "cost", [0, 1, 2])
    names = {"remaining": "hours", "step": "hour"}
    env = BudgetWrapper(inner, {"time": 2}, cost=Fraction(1, 2), cost_bound="1/2", keys=names)
    observation, _ = env.reset()
    assert (observation["remaining"], observation["hours"]) == (3, 2)
    assert env.step(2)[4]["action_mask"].tolist() == [1, 1, 0]  # fuel for 1
    for _ in range(3):
        info = env.step(0)[4]
    assert info["dead_end"]
    assert (inner.spent, env.spent) == ({"fuel": 2}, {"time": 2})


@pytest.mark.parametrize("outer", [FlattenObservation, RecordEpisodeStatistics, lambda env: TimeLimit(env, 7)])
def test_under_other_wrappers_costs_are_in_info_on_every_path(outer: Any) -> None:
    ledger = Ledger(TimeLimit(Road([-1, Fraction(1, 2), 2], length=30), 40))
    env = outer(BudgetWrapper(ledger, 3, cost_bound=[-1, "1/2", 2]))
    attribute = getattr(env, "get_wrapper_attr", partial(getattr, env))  # since Gymnasium 0.29
    rng = np.random.default_rng(0)
    info = env.reset(seed=0)[1]
    for _ in range(300):
        assert {"cost", "costs", "remaining", "step", "action_mask", "dead_end", "violation"} <= set(info)
        mask = attribute("action_masks")()
        _, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        if terminated or truncated:
            assert "cost" in info
            info = env.reset()[1]
            assert (info["cost"], info["step"]) == (0.0, 0)
    assert 2 < ledger.most() <= 3


def test_a_reserve_below_zero_counts_as_zero() -> None:
    """What comes back later must not be spent before."""
    for reserve in (-5, lambda observation, action: -1):
        env = BudgetWrapper(Purse(), budget="0.7", cost_bound=[0, "0.1", "0.2", "0.3"], reserve=reserve)
        rng = np.random.default_rng(0)
        for _ in range(50):
            env.reset(seed=int(rng.integers(1000)))
            spent, ended = Fraction(0), False
            while not ended:
                _, _, terminated, truncated, info = env.step(rng.choice(env.safe_actions()))
                spent, ended = spent + Fraction(str(info["cost"])), terminated or truncated
                assert spent <= Fraction("0.7")
        assert env.violations == 0


def test_what_a_wrong_bound_let_through_is_on_record() -> None:
    env = BudgetWrapper(Purse(), budget="0.2", cost_bound=0)
    env.reset(seed=0)
    with pytest.raises(PolicyError, match=r"expected at most 0, as cost_bound says, found 0\.3"):
        env.step(3)
    assert env.spent == {"cost": Fraction(3, 10)}
    assert env.violations == 1
    with pytest.raises(PolicyError, match="ended with an error"):
        env.step(0)


def test_a_name_is_no_environment() -> None:
    said = r"BudgetWrapper: expected a Gymnasium environment, found 'FrozenLake-v1'; .*make"
    with pytest.raises(ModelError, match=said):
        BudgetWrapper("FrozenLake-v1", budget=1, cost=1, cost_bound=1)


class Purse(gymnasium.Env):
    """Action a costs a tenth of it; eight steps."""

    observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action):
        self.steps += 1
        return 0, 1.0, self.steps == 8, False, {"cost": [0, 0.1, 0.2, 0.3][action]}
