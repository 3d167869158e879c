"""Evaluation by an independent meter, the meter's own account, and early termination."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from foreign import Foreign, Road
from gymnasium.wrappers import TimeLimit

import solvent
from solvent.errors import ModelError, PolicyError
from solvent.gym import (
    BudgetWrapper,
    ContinuousBudgetWrapper,
    CostMeter,
    EarlyTermination,
    Evaluation,
    ModelEnv,
    evaluate,
)
from solvent.model import instances


def fake(returns: list[float], violated: list[bool], confidence: float = 0.95) -> Evaluation:
    n = len(returns)
    return Evaluation(
        np.array(returns), np.full(n, 3), {"cost": np.arange(n, dtype=float)}, {"cost": (Fraction(0),) * n},
        np.array(violated), 0, confidence,
    )  # fmt: skip


def binomial_tail(n: int, least: int, p: float) -> float:
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(least, n + 1))


@pytest.mark.parametrize(("n", "k"), [(10, 0), (10, 3), (10, 10), (200, 1)])
def test_intervals_of_the_violation_probability(n: int, k: int) -> None:
    """The ends are where k or more, or k or fewer, violations have probability 2.5%, by the definition."""
    low, high = fake([0.0] * n, [i < k for i in range(n)]).violation_interval
    assert low <= k / n <= high
    assert low == 0 if k == 0 else binomial_tail(n, k, low) == pytest.approx(0.025)
    assert high == 1 if k == n else 1 - binomial_tail(n, k + 1, high) == pytest.approx(0.025)


def test_intervals_of_the_mean_and_quantiles() -> None:
    found = fake([1.0, 2.0, 3.0, 4.0], [False] * 4)
    low, high = found.return_interval
    assert found.mean_return == 2.5
    assert (low, high) == pytest.approx((2.5 - 3.1824 * 0.6455, 2.5 + 3.1824 * 0.6455), abs=1e-3)  # t with 3 degrees
    assert fake([1.0], [False]).return_interval == (-math.inf, math.inf)
    assert found.quantile(0.5) == 2.5
    assert found.quantile([0, 1], "cost").tolist() == [0, 3]
    assert found.quantile(0.5, "length") == 3
    with pytest.raises(ModelError, match="of: expected one of 'cost', 'return', 'length', found 'fuel'"):
        found.quantile(0.5, "fuel")
    assert "violations  0 (95% interval of the probability: 0 to 0.6)" in str(found)


def test_the_meter_counts_for_itself() -> None:
    meter = CostMeter(Road([0, 1, 2]))
    for actions in ([2, 2, 2], [1], [], [2, 0]):
        meter.reset()
        for action in actions:
            meter.step(action)
    assert [episode.most["cost"] for episode in meter.episodes()] == [6, 1, 2]
    assert [episode.steps for episode in meter.episodes()] == [3, 1, 2]
    assert meter.episodes()[0].reward == 6
    assert (meter.violations(1), meter.violations(2), meter.violations({"cost": 5}), meter.violations({"x": 0})) == (
        2,
        1,
        1,
        0,
    )
    charge = CostMeter(Road([3, -5]))
    charge.reset()
    charge.step(0), charge.step(1)
    assert charge.spent == {"cost": -2}
    assert charge.episodes()[0].most == {"cost": 3}
    named = CostMeter(Foreign(instances.fuel_grid(3)))
    named.reset(seed=0)
    named.step(1)
    assert set(named.spent) == {"fuel"}
    pair = CostMeter(Road(), cost=lambda seen, action, after: [1, action])
    pair.reset()
    pair.step(2)
    assert pair.spent == {"0": 1, "1": 2}


def test_agents_that_can_be_evaluated() -> None:
    model = instances.fuel_grid(3)
    env = BudgetWrapper(ModelEnv(model), 4)
    optimal = solvent.solve(model, budget=4)
    found = evaluate(env, optimal.policy, episodes=300, seed=1)
    assert found.violations == 0
    low, high = found.return_interval
    assert low - 0.1 <= optimal.value <= high + 0.1

    class Predicts:
        def predict(self, observation: Any, deterministic: bool, action_masks: Any) -> Any:
            assert deterministic
            return np.array(int(np.argmax(action_masks))), None

    for agent in (
        Predicts(),
        lambda observation: 4,
        lambda observation, info: int(np.argmax(info["action_mask"])),
        "random",
    ):
        again = evaluate(env, agent, episodes=5, seed=2)
        assert again.episodes == 5
        assert again.violations == 0
        assert max(again.most["fuel"]) <= 4
    with pytest.raises(ModelError, match="agent: expected an object with predict, a function of"):
        evaluate(env, 3, 1)
    with pytest.raises(ModelError, match="agent: expected a policy only for a ModelEnv"):
        evaluate(BudgetWrapper(CostMeter(Road()), 3, cost_bound=2), optimal.policy, 1)


def test_evaluations_need_a_meter_and_a_budget() -> None:
    with pytest.raises(ModelError, match=r"evaluate: expected an environment with a meter inside.*CostMeter"):
        evaluate(BudgetWrapper(Road(), 3, cost_bound=2), "random", 1)
    with pytest.raises(ModelError, match="budget: expected a budget, as no wrapper of the environment has one"):
        evaluate(CostMeter(Road()), "random", 1)
    with pytest.raises(ModelError, match="episodes: expected a whole number of at least 1, found 0"):
        evaluate(CostMeter(Road()), "random", 0, budget=1)
    with pytest.raises(ModelError, match="confidence: expected a number between 0 and 1, found 1"):
        evaluate(CostMeter(Road()), "random", 1, budget=1, confidence=1)


def test_violations_within_a_step_are_counted() -> None:
    """Costs of 3 and -5 within one step exceed a budget of 2, though the sum does not."""

    class Pulse(Road):
        def step(self, action: Any) -> Any:
            self.prices = [3 if self._cell % 2 == 0 else -5] * 2
            return super().step(1)

    if not hasattr(gymnasium.wrappers, "RepeatAction"):
        pytest.skip("Gymnasium before 1.0 has no wrapper that repeats actions")
    meter = CostMeter(Pulse([0, 0], length=4))
    env = gymnasium.wrappers.RepeatAction(meter, 2)
    found = evaluate(env, lambda observation: 1, 2, budget=2, max_steps=1)
    assert found.violations == 2
    assert found.most["cost"] == (3, 3)
    assert meter._tapes == []  # nothing is left behind
    assert evaluate(env, lambda observation: 1, 2, budget=3, max_steps=1).violations == 0


def test_limits_by_step_are_evaluated() -> None:
    model = instances.knapsack([60, 100, 20], [10, 20, 5])
    env = ModelEnv(model)
    wrapped = BudgetWrapper(env, solvent.Budget(upper=[10, 30, 30]))
    assert evaluate(wrapped, "random", 20, seed=0).violations == 0
    assert evaluate(env, lambda observation: 1, 3, budget={"weight": 34}).violations == 3
    assert evaluate(env, lambda observation: 1, 3, budget={"weight": 35}).violations == 0


def test_early_termination_is_after_the_fact() -> None:
    meter = CostMeter(Road([0, 1, 2], length=10**6))
    env = EarlyTermination(meter, 3, termination_reward=-7)
    env.reset()
    assert env.step(2)[2] is False
    _, reward, terminated, truncated, info = env.step(2)
    assert (reward, terminated, truncated, info["violation"], info["dead_end"]) == (-5, True, False, True, False)
    assert (env.violations, env.remaining["cost"], meter.violations(3)) == (1, -1, 1)
    with pytest.raises(PolicyError, match="an episode that is over"):
        env.step(0)
    found = evaluate(env, "random", 30, seed=0)
    assert found.violations == 30  # it promises nothing
    assert evaluate(BudgetWrapper(meter, 3, cost_bound=2), "random", 30, seed=0).violations == 0
    box = EarlyTermination(gymnasium.make("Pendulum-v1"), 1, cost=1, layout="flat")
    box.reset(seed=0)
    assert [box.step([0.5])[2] for _ in range(2)] == [False, True]


def test_a_constant_bound_ends_episodes_in_time() -> None:
    """Costs that do not depend on the action, with a bound: the promise is kept by ending the episode."""
    for env in (
        BudgetWrapper(CostMeter(gymnasium.make("FrozenLake-v1"), cost=lambda s, a, n: n % 4), 7, cost_bound=3),
        ContinuousBudgetWrapper(
            CostMeter(TimeLimit(gymnasium.make("Pendulum-v1"), 50), cost=lambda s, a, n: abs(round(float(n[2]), 3))),
            20,
            cost_bound=8,
        ),
    ):
        found = evaluate(env, "random", 20, seed=0)
        assert found.violations == 0
        assert found.dead_ends > 0
