"""Learning step by step in environments with independent accounts: the budget is kept, and policies are near-optimal.

Few episodes are played, as the environments are written in Python: the bounds hold, and policies are near-optimal
before their gaps close. The value of a policy is computed by `verify` on the true model; whether an episode exceeded
the budget is judged by the environment.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import pytest
from walker import Account, Walker

import solvent
from solvent import CMDP, instances

HORIZON, BUDGET = 20, 26


def toll(state: Any, action: Any, after: Any) -> int:
    """Return the cost of a step: 2 down and right, towards the goal, else 1."""
    return 2 if action in (1, 2) else 1


def numbered(model: CMDP) -> CMDP:
    """Return a model whose states and actions are named by their positions, as in an environment."""
    states, actions = (tuple(range(n)) for n in (model.n_states, model.n_actions))
    return replace(model, start=model.start_index, states=states, actions=actions)


def check_lake(seeds: range) -> None:
    lake = gymnasium.make("FrozenLake-v1", is_slippery=True, max_episode_steps=HORIZON, disable_env_checker=True)
    model = CMDP.from_gymnasium(lake, cost=toll, horizon=HORIZON, budget=BUDGET)
    best = solvent.solve(model).value
    assert best > 0.15  # so that an epsilon of 0.1 is informative
    for seed in seeds:
        env = Account(lake, toll, BUDGET)
        learned = solvent.learn(
            env, HORIZON, support=model, cost=toll, epsilon=1e-3, return_range=(0, 1), max_episodes=1500, seed=seed
        )
        check(model, learned, best, 0.1)
        assert env.episodes == learned.episodes + 1 > 100
        assert env.over == learned.violations == 0
        assert env.most == BUDGET  # the whole budget was spent


def check_walker(model: CMDP, limit: Any, epsilon: float, seeds: range) -> None:
    best = solvent.solve(model, limit).value
    for seed in seeds:
        env = Walker(model, limit)
        learned = solvent.learn(
            env, model.horizon, limit, support=model, epsilon=1e-3, max_episodes=500, seed=seed, random_rewards=False
        )
        check(model, learned, best, epsilon)
        assert env.over == learned.violations == 0
        assert env.worst <= limit


def check(model: CMDP, learned: solvent.LearnResult, best: float, epsilon: float) -> None:
    report = solvent.verify(model, learned.policy)
    assert report.feasible
    assert best - epsilon <= report.value <= best + 1e-9
    assert learned.guaranteed
    assert learned.value_lower <= report.value + 1e-9
    assert learned.value_upper >= best - 1e-9


def test_a_slippery_lake() -> None:
    check_lake(range(1))


@pytest.mark.nightly
def test_a_slippery_lake_over_many_seeds() -> None:
    check_lake(range(20))


def test_a_grid_with_fuel() -> None:
    check_walker(numbered(instances.fuel_grid(5)), 8, 0.3, range(1))


@pytest.mark.nightly
def test_a_grid_with_fuel_over_many_seeds() -> None:
    check_walker(numbered(instances.fuel_grid(5)), 8, 0.3, range(20))


def test_the_family_of_the_paper_over_many_seeds() -> None:
    check_walker(numbered(instances.paper(10)), 2, 0.1, range(20))
