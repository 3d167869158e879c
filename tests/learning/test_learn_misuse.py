"""Environments and arguments that learning must refuse or correct."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

import solvent
from solvent import ModelError


class One(gymnasium.Env[Any, Any]):
    """One state and one action with a reward of 1 and no cost; it never terminates."""

    observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, 1.0, False, False, {"cost": 0}


@pytest.mark.parametrize(
    "options", [{"cost_bound": 0}, {"cost_support": "learned"}, {"cost_bound": 0, "stationary": False}]
)
def test_a_time_limit_below_the_horizon_is_no_outcome(options: dict[str, Any]) -> None:
    env = gymnasium.wrappers.TimeLimit(One(), 5)
    said = r"step 5: expected the episode to continue, as the horizon is 8, found its end by a time limit; .*horizon"
    with pytest.raises(ModelError, match=said):
        solvent.learn(env, 8, budget=1, epsilon=0.3, **options)
    assert solvent.learn(env, 5, budget=1, epsilon=0.3, **options).value_upper == pytest.approx(5)


def test_what_reset_returns() -> None:
    class Old(One):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return 0

    with pytest.raises(ModelError, match=r"reset: expected two values: observation and info, found 0"):
        solvent.learn(Old(), 5, budget=1)


@pytest.mark.parametrize(
    ("env", "options", "said"),
    [
        ("FrozenLake-v1", {}, r"learn: expected a CMDP or an environment, found 'FrozenLake-v1'; .*gymnasium.make"),
        (3, {}, r"learn: expected a CMDP or an environment, found 3"),
        (One(), {"support": {(0, 0): [3]}}, r"support of \(0, 0\): expected pairs \(next state, cost\), found 3"),
        (One(), {"epsilon_cost": -1}, r"epsilon_cost: expected a number above 0, found -1"),
    ],
)
def test_mistakes(env: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        solvent.learn(env, 5, budget=1, **options)


def test_a_checkpoint_that_is_a_file_or_another_folder(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ModelError, match="expected a folder for a checkpoint, found a file"):
        solvent.learn(solvent.instances.markov_gap(), checkpoint=tmp_path / "file")
    with pytest.raises(ModelError, match="expected an empty folder or a checkpoint, found a folder with 'file'"):
        solvent.learn(solvent.instances.markov_gap(), checkpoint=tmp_path)
    assert (tmp_path / "file").read_text() == "mine"
