"""Environments and arguments that learning must refuse or correct."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"cost": lambda state, action: 1, "cost_bound": 1},
            r"cost: expected a function of \(observation, action, next_observation\), found one of \(state, action\)",
        ),
        (
            {"cost_bound": lambda state: 1},
            r"cost_bound: expected a function of \(state, action\), found one of \(state\)",
        ),
        ({"support": lambda state: []}, r"support: expected a function of \(state, action\), found one of \(state\)"),
        (
            {"support": lambda state, action: [], "stationary": False},
            r"support: expected a function of \(step, state, action\), found one of \(state, action\)",
        ),
    ],
)
def test_functions_of_other_arguments(options: dict[str, Any], said: str) -> None:
    class Unused(One):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            raise AssertionError("functions are checked before anything is played")

    with pytest.raises(ModelError, match=f"^{said}$"):
        solvent.learn(Unused(), 5, budget=1, **options)


def test_functions_without_a_signature_are_accepted() -> None:
    assert solvent.learn(One(), 5, budget=1, cost=max, cost_bound=0, max_episodes=3).costs.max() == 0


def test_the_function_of_several_seeds_has_no_arguments() -> None:
    said = r"^env: expected a function of \(\), found one of \(seed\)$"
    with pytest.raises(ModelError, match=said):
        solvent.learn_seeds(lambda seed: One(), [1], 5, budget=1, cost_bound=0)


@pytest.mark.parametrize("options", [{"cost_bound": 1}, {"cost_support": "learned"}])
def test_real_costs_of_an_environment_say_what_to_do(options: dict[str, Any]) -> None:
    draws = np.random.default_rng(1)
    said = r"in learn: strict=True, which rounds costs up and, .*, never exceeds the budget$"
    with pytest.raises(solvent.LatticeOverflowError, match=said):
        solvent.learn(One(), 5, budget=5, cost=lambda *_: float(draws.random()), max_episodes=50, **options)
    learned = solvent.learn(
        One(), 5, budget=5, cost=lambda *_: float(draws.random()), max_episodes=50, strict=True, **options
    )
    assert learned.violations == 0


def test_costs_by_name() -> None:
    options: dict[str, Any] = {"horizon": 2, "budget": {"fuel": 2, "time": 2}, "cost_bound": {"fuel": 1, "time": 1}}
    learned = solvent.learn(One(), cost=lambda *_: {"fuel": 1}, max_episodes=3, **options)
    assert learned.costs.tolist() == [[2, 0]] * 3  # a resource that is left out costs 0
    with pytest.raises(
        ModelError, match=r"expected resources of the model \('fuel', 'time'\), found 'feul'; did you mean"
    ):
        solvent.learn(One(), cost=lambda *_: {"feul": 1}, **options)
    with pytest.raises(ModelError, match=r"cost, cost: expected resources of the model .*'feul'; did you mean 'fuel'"):
        solvent.learn(
            One(), 9, budget={"fuel": 1}, cost={"feul": 1}, cost_bound=1
        )  # before it is known to be infeasible

    class Reports(One):
        costs: dict[str, int] = {"fuel": 1, "noise": 9}  # noqa: RUF012

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            return 0, 1.0, False, False, {"costs": self.costs}

    with pytest.raises(ModelError, match=r"expected a cost of every limited resource \('fuel', 'time'\)"):
        solvent.learn(Reports(), **options)
    Reports.costs = {"fuel": 1, "time": 0, "noise": 9}
    assert solvent.learn(Reports(), max_episodes=3, **options).costs.tolist() == [[2, 0]] * 3
