"""Environments that only play a model are played as that model; environments that may differ from it are not."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

import solvent
import solvent.gym
from solvent import ModelError, instances
from solvent.gym import BudgetWrapper, ModelEnv

MODEL = instances.fuel_grid(3)
PLAYED_AS_ONE = {
    "bare": lambda: ModelEnv(MODEL),
    "made": lambda: gymnasium.make("solvent/Model-v0", model=MODEL),
    "unchecked": lambda: gymnasium.make("solvent/Model-v0", model=MODEL, disable_env_checker=True),
    "long enough": lambda: gymnasium.make("solvent/Model-v0", model=MODEL, max_episode_steps=MODEL.horizon),
}


@pytest.mark.parametrize("name", PLAYED_AS_ONE)
def test_a_model_behind_an_environment_is_played_as_one(name: str) -> None:
    direct, behind = (solvent.learn(env, epsilon=0.5, seed=3) for env in (MODEL, PLAYED_AS_ONE[name]()))
    assert direct.history == behind.history
    assert direct.policy == behind.policy


class Doubled(ModelEnv):
    """A derived class, whose rewards are doubled."""

    def step(self, action: int) -> Any:
        observation, reward, *rest = super().step(action)
        return (observation, 2 * reward, *rest)


CHANGED = {
    "another reward": lambda: gymnasium.wrappers.TransformReward(ModelEnv(MODEL), lambda reward: 2 * reward),
    "derived": lambda: Doubled(MODEL),
    "a shorter episode": lambda: gymnasium.make("solvent/Model-v0", model=MODEL, max_episode_steps=3),
    "statistics": lambda: gymnasium.wrappers.RecordEpisodeStatistics(ModelEnv(MODEL)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_may_differ_from_its_model_is_played_step_by_step(name: str) -> None:
    env = CHANGED[name]()
    with pytest.raises(ModelError, match="horizon: expected a number of steps for an environment, found none"):
        solvent.learn(env)
    episodes: list[Any] = []
    genuine = env.reset
    env.reset = lambda **options: episodes.append(options) or genuine(**options)
    learned = solvent.learn(env, 3, {"fuel": 5}, max_episodes=20, reward_range=(0, 2), cost_support="learned")
    assert len(episodes) == 21  # one to read the start, and twenty that were played
    assert learned.episodes == 20


def test_a_wrapped_model_says_how_to_have_it_played_as_one() -> None:
    with pytest.raises(ModelError, match=r"TransformReward may change the model inside it; learn in env.unwrapped to"):
        solvent.learn(CHANGED["another reward"]())
    assert solvent.learn(CHANGED["another reward"]().unwrapped, epsilon=2).episodes > 0


@pytest.mark.parametrize("layers", [0, 1])
def test_a_budget_wrapper_is_refused(layers: int) -> None:
    env: Any = BudgetWrapper(gymnasium.make("solvent/Model-v0", model=MODEL), 5)
    for _ in range(layers):
        env = gymnasium.wrappers.TransformObservation(
            env, lambda o: int(o["observation"]), gymnasium.spaces.Discrete(9)
        )
    text = (
        r"environment: expected one that does not keep a budget, as learning keeps it, found a BudgetWrapper; learn in"
    )
    with pytest.raises(ModelError, match=text):
        solvent.learn(env, 9, 5)
    inside = env.env if not layers else env.env.env
    assert solvent.learn(inside, budget=5, epsilon=2).violations == 0
