"""The wrapper with vector environments, time limits, monitors, and agents that use masks."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from ledger import Ledger

from solvent.gym import ENV_ID, BudgetWrapper, ModelEnv
from solvent.model import instances


def make(layout: str = "dict", **options: Any) -> BudgetWrapper:
    return BudgetWrapper(ModelEnv(instances.fuel_grid(3)), 4, layout=layout, **options)


@pytest.mark.filterwarnings("ignore:os.fork", "ignore::pytest.PytestUnraisableExceptionWarning")  # JAX, if it is loaded
@pytest.mark.parametrize("kind", [SyncVectorEnv, partial(AsyncVectorEnv, context="fork")], ids=["sync", "async"])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_vectors(kind: Any, mode: AutoresetMode) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of fork where threads run
        env = kind([make] * 3, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=[1, 2, 3])
    ends = 0
    try:
        for _ in range(60):
            masks = np.array(env.call("action_masks"))
            assert masks.shape == (3, 5)
            actions = np.array([rng.choice(np.flatnonzero(mask)) if mask.any() else 0 for mask in masks])
            observation, _, terminated, truncated, info = env.step(actions)
            assert info["_cost"].all()
            assert info["action_mask"].dtype == np.int8
            assert (observation["remaining"] >= 0).all()
            assert not truncated.any()
            ends += terminated.sum()
    finally:
        env.close()
    assert ends >= 15


def test_time_limits_inside_and_outside() -> None:
    for env in (TimeLimit(make(), 3), BudgetWrapper(TimeLimit(ModelEnv(instances.fuel_grid(3)), 3), 4)):
        env.reset(seed=1)
        ends = [env.step(4)[2:4] for _ in range(3)]
        assert ends == [(False, False), (False, False), (False, True)]


def test_registered_environments_can_be_made_again_from_their_spec() -> None:
    env = BudgetWrapper(gymnasium.make(ENV_ID, model=instances.fuel_grid(3)), 4)
    assert env.spec is not None
    again = env.spec.make()
    assert isinstance(again, BudgetWrapper)
    assert again.reset(seed=1)[0]["remaining"] == env.reset(seed=1)[0]["remaining"]


def test_seeds_reach_the_environment() -> None:
    env = make()
    runs = []
    for _ in range(2):
        seen = []
        env.reset(seed=9)
        for _ in range(6):
            seen.append(env.step(int(env.safe_actions()[0]))[4]["cost"])
        runs.append(seen)
    assert runs[0] == runs[1]


def test_monitor_and_the_check_of_stable_baselines() -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.monitor import Monitor

    for layout in ("dict", "flat"):
        check_env(make(layout, fallback="first"))
    env = Monitor(make(), info_keywords=("cost", "dead_end"))
    env.reset(seed=0)
    terminated = False
    while not terminated:
        mask = env.get_wrapper_attr("action_masks")()
        _, _, terminated, _, info = env.step(int(np.flatnonzero(mask)[0]))
    assert info["episode"]["l"] == 9
    assert info["episode"]["cost"] == info["cost"]


@pytest.fixture
def _one_thread() -> None:
    """Use one thread: small networks get slower with more, even more so in parallel tests."""
    pytest.importorskip("torch").set_num_threads(1)


@pytest.mark.slow
@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("envs", [1, 3])
def test_maskable_ppo_never_goes_over(envs: int) -> None:
    pytest.importorskip("sb3_contrib")
    from sb3_contrib import MaskablePPO
    from sb3_contrib.common.maskable.evaluation import evaluate_policy
    from stable_baselines3.common.env_util import make_vec_env

    ledgers: list[Ledger] = []

    def wrapped() -> BudgetWrapper:
        ledgers.append(Ledger(ModelEnv(instances.fuel_grid(3))))  # below the wrapper, and on its own account
        return BudgetWrapper(ledgers[-1], 4, layout="flat")

    training = make_vec_env(wrapped, envs, seed=0)  # in a Monitor each
    agent = MaskablePPO("MlpPolicy", training, n_steps=256, batch_size=64, seed=0, device="cpu")
    agent.learn(2048)
    trained = ledgers[:]
    assert sum(ledger.steps for ledger in trained) >= 2048
    assert max(ledger.most() for ledger in trained) == 4  # it went to the limit, and never over
    assert sum(training.get_attr("violations")) == 0
    for deterministic in (True, False):
        evaluate_policy(agent, make_vec_env(wrapped, 1, seed=1), n_eval_episodes=20, deterministic=deterministic)
        assert len([episode for episode in ledgers[-1].episodes if episode]) >= 20
        assert ledgers[-1].most() <= 4


@pytest.mark.slow
@pytest.mark.usefixtures("_one_thread")
def test_the_ledger_sees_what_ppo_does_without_the_wrapper() -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO

    ledger = Ledger(ModelEnv(instances.fuel_grid(3)))
    PPO("MlpPolicy", ledger, n_steps=256, batch_size=64, seed=0, device="cpu").learn(512)
    assert ledger.most() > 4


@pytest.mark.slow
@pytest.mark.usefixtures("_one_thread")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python warns of fork where threads run
@pytest.mark.filterwarnings("ignore:os.fork", "ignore::pytest.PytestUnraisableExceptionWarning")  # JAX, if it is loaded
def test_maskable_ppo_in_other_processes() -> None:
    pytest.importorskip("sb3_contrib")
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.vec_env import SubprocVecEnv

    training = SubprocVecEnv([partial(make, "flat")] * 2, start_method="fork")
    try:
        MaskablePPO("MlpPolicy", training, n_steps=64, batch_size=64, seed=0, device="cpu").learn(256)
        assert training.get_attr("violations") == [0, 0]
        assert max(float(spent["fuel"]) for spent in training.get_attr("spent")) <= 4
    finally:
        training.close()
