"""Third-party environments: 10,000 steps each with random masked agents, with an independent count of costs.

A `Ledger` below the wrapper adds up, in fractions, what the environment really took, and knows nothing of masks.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from ledger import Ledger

from environments import newest
from solvent.gym import BudgetWrapper
from solvent.model.cmdp import CMDP

STEPS = 10_000


def play(env: BudgetWrapper, ledger: Ledger, seed: int) -> int:
    """Take random safe actions, hold the wrapper to the ledger at every step, and return the number of dead ends."""
    rng, dead_ends = np.random.default_rng(seed), 0
    env.reset(seed=seed)
    for _ in range(STEPS):
        _, _, terminated, truncated, info = env.step(int(rng.choice(env.safe_actions())))
        assert env.spent["cost"] == ledger.episodes[-1][-1]
        assert info["remaining"]["cost"] >= 0
        dead_ends += info["dead_end"]
        if terminated or truncated:
            env.reset()
    assert ledger.steps == STEPS
    assert env.violations == 0
    return dead_ends


def fuel(before: Any, action: Any, after: Any, *_: Any) -> Fraction:
    return Fraction(1, 3) if before == after else Fraction(1)


@pytest.mark.parametrize(("name", "seed"), [(newest("Taxi"), 1), (newest("CliffWalking"), 2), ("FrozenLake-v1", 3)])
def test_a_bound_keeps_tables_within_fuel(name: str, seed: int) -> None:
    ledger = Ledger(gymnasium.make(name), fuel)
    dead_ends = play(BudgetWrapper(ledger, 15, fuel, cost_bound=1), ledger, seed)
    assert 14 < ledger.most() <= 15
    assert name == "FrozenLake-v1" or dead_ends > 10  # there the holes are near


def test_the_ledger_would_notice() -> None:
    ledger = Ledger(gymnasium.make(newest("CliffWalking")), fuel)
    rng = np.random.default_rng(0)
    ledger.reset(seed=0)
    for _ in range(60):
        ledger.step(int(rng.integers(4)))
    assert ledger.most() > 15


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [(newest("Taxi"), 3), (newest("CliffWalking"), 4)])
def test_a_model_keeps_tables_within_fuel_and_out_of_dead_ends(name: str, seed: int) -> None:
    def heat(before: Any, action: Any, *_: Any) -> Fraction:
        return Fraction(0) if action == 0 else Fraction(2, 3)  # going south, or up, is free

    inner = gymnasium.make(name)
    model = CMDP.from_gymnasium(inner, cost=heat, horizon=40)
    ledger = Ledger(inner, heat)
    dead_ends = play(BudgetWrapper(ledger, 7, heat, model=model), ledger, seed)
    assert ledger.most() == Fraction(20, 3)  # what fits of 7
    assert dead_ends == 0


@pytest.mark.slow
def test_the_minecart_keeps_its_tank() -> None:
    mo_gymnasium = pytest.importorskip("mo_gymnasium")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it makes a Box of float64
        cart = mo_gymnasium.make("minecart-v0")
    frames = 4 * np.array([55, 5, 5, 30, 5, 5])  # thousandths for each action, four frames long

    def burned(before: Any, action: int, after: Any, reward: Any, *_: Any) -> Fraction:
        fuel = Fraction(int(frames[action]), 1000)
        assert abs(float(reward[-1]) + float(fuel)) < 1e-6  # as the environment says in its last reward
        return fuel

    class Reported(gymnasium.Wrapper[Any, Any, Any, Any]):
        passes_actions = True

        def step(self, action: Any) -> Any:
            observation, rewards, terminated, truncated, info = self.env.step(action)
            cost = round(float(-rewards[-1]), 3)  # it adds in float32, and 0.12 comes as 0.120000005
            return observation, float(rewards[:-1].sum()), terminated, truncated, {**info, "cost": cost}

    ledger = Ledger(cart, burned)
    env = BudgetWrapper(Reported(ledger), "1.5", cost_bound=[0.22, 0.02, 0.02, 0.12, 0.02, 0.02])
    dead_ends = play(env, ledger, 5)
    assert ledger.most() == Fraction(3, 2)
    assert dead_ends > 10


@pytest.mark.slow
def test_the_knapsack_of_jumanji_is_packed_within_a_tighter_one() -> None:
    pytest.importorskip("jumanji")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of JAX and what it loads
        from jumanji.environments import Knapsack
        from jumanji.wrappers import JumanjiToGymWrapper

        sack = JumanjiToGymWrapper(Knapsack())

    def weight(observation: Any, action: int, *_: Any) -> Fraction:
        return Fraction(float(observation["weights"][action]))  # its float32, exactly

    def executed(observation: Any, action: int, *outcome: Any) -> Fraction:
        assert observation["action_mask"][action]  # the wrapper reads the environment's own mask
        return weight(observation, action)

    ledger = Ledger(sack, executed)
    env = BudgetWrapper(ledger, 6, weight, cost_bound=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dead_ends = play(env, ledger, 6)
    assert Fraction(59, 10) < ledger.most() <= 6
    assert dead_ends > 100  # its own limit, 12.5, is never what ends an episode
