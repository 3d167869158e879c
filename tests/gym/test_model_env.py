"""Models as environments: the API, the dynamics, the texts."""

from __future__ import annotations

import copy
from collections import Counter
from fractions import Fraction
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

import solvent
from solvent.errors import ModelError, PolicyError
from solvent.gym import ENV_ID, ModelEnv
from solvent.model import instances
from solvent.model.cmdp import CMDP
from strategies import models

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "model",
    [
        instances.fuel_grid(3),
        instances.paper(4),
        instances.random(4, 3, resources=2, horizon=3),
        instances.random(4, 3, resources=3, horizon=3, stationary=False),
        solvent.examples.load("delivery-van"),
    ],
    ids=lambda model: model.name,
)
def test_it_passes_gymnasiums_check(model: CMDP) -> None:
    env = gymnasium.make(ENV_ID, model=model, fallback="first")
    check_env(env.unwrapped)
    assert env.unwrapped.model == model


def test_a_file_will_do() -> None:
    env = gymnasium.make(ENV_ID, model=str(solvent.examples.path("delivery-van")))
    assert env.unwrapped.model.resources == ("fuel",)


def episode(env: ModelEnv, seed: int | None) -> list[object]:
    rng, seen = np.random.default_rng(7), []
    observation, info = env.reset(seed=seed)
    done = False
    while not done:
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        observation, reward, done, truncated, info = env.step(action)
        assert not truncated
        seen.append((observation, reward, info["cost"], env.state))
    return seen


def test_the_same_seed_gives_the_same_episodes() -> None:
    first, second = ModelEnv(instances.fuel_grid(4)), ModelEnv(instances.fuel_grid(4))
    runs = [[episode(env, 3), episode(env, None)] for env in (first, second)]
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]
    assert episode(first, 4) != runs[0][0]


@given(models(), st.integers(0, 100))
def test_everything_that_happens_is_modeled(model: CMDP, seed: int) -> None:
    env = ModelEnv(model)
    _, info = env.reset(seed=seed)
    spent = [Fraction(0)] * model.n_resources
    for step in range(model.horizon):
        state = model.state_index(env.state)
        rows = {int(model.row_action[r]): r for r in model.rows(step, state)}
        assert np.flatnonzero(info["action_mask"]).tolist() == ([] if env.done else sorted(rows))
        assert info["step"] == step
        if env.done:
            break
        action = sorted(rows)[seed % len(rows)]
        _, reward, done, _, info = env.step(action)
        assert reward == model.row_reward[rows[action]]
        outcomes = [(o.next_state, o.cost) for o in model.outcomes(rows[action])]
        assert (env.state, env.last_cost) in outcomes
        spent = [a + b for a, b in zip(spent, env.last_cost.values(), strict=True)]
        assert list(env.spent.values()) == spent
        assert info["costs"] == {name: float(cost) for name, cost in env.last_cost.items()}
        assert info["cost"] == float(sum(env.last_cost.values()))
        assert done == env.done
    assert env.done


def test_outcomes_come_as_often_as_they_should() -> None:
    b = CMDP.builder(horizon=1, start=0, resources=["x"])
    b.add(0, 0, outcomes=[(0.5, 0, 0), (0.3, 0, 1), (0.2, 0, 2)])
    env = ModelEnv(b.build())
    env.reset(seed=5)
    counts: Counter[float] = Counter()
    for _ in range(4000):
        env.reset()
        counts[env.step(0)[4]["cost"]] += 1
    assert [round(counts[c] / 4000, 1) for c in (0.0, 1.0, 2.0)] == [0.5, 0.3, 0.2]


def test_continuous_costs_stay_within_their_support() -> None:
    b = CMDP.builder(horizon=30, start=0, resources=["x"])
    b.add(0, 0, outcomes=[(1, 0, solvent.distribution("uniform", low="1/3", high="2/3"))])
    env = ModelEnv(b.build())
    env.reset(seed=1)
    costs = [env.step(0) and env.last_cost["x"] for _ in range(30)]
    assert all(Fraction(1, 3) <= cost <= Fraction(2, 3) for cost in costs)
    assert len(set(costs)) > 20


def test_text() -> None:
    env = ModelEnv(instances.knapsack([1, 2], ["1/3", 2]), render_mode="ansi")
    env.reset()
    assert env.render() == "step 0 of 2, state knapsack, spent weight 0"
    env.step(1)
    env.step(0)
    assert env.render() == "step 2 of 2, state knapsack, spent weight 1/3, over; last leave: reward 0, cost weight 0"
    assert ModelEnv(instances.knapsack([1], [1])).render() is None


def partial() -> CMDP:
    b = CMDP.builder(horizon=2, start="a", resources=["x"])
    b.add("a", "go", outcomes=[(1, "b", 1)])
    b.add("b", "stay", outcomes=[(1, "b", 0)])
    return b.build()


def test_actions_that_are_not_offered() -> None:
    env = ModelEnv(partial())
    env.reset()
    with pytest.raises(PolicyError, match=r"step 0, state 'a': expected an action the mask allows \(0\), found 1"):
        env.step(1)
    assert env.state == "a"
    with pytest.raises(PolicyError, match=r"step 0, state 'a': expected an action of Discrete\(2\), found 2"):
        env.step(2)
    with pytest.raises(PolicyError, match=r"expected an action of Discrete\(2\), found 'go'"):
        env.step("go")
    replaced = ModelEnv(partial(), fallback="first")
    replaced.reset()
    assert replaced.step(1)[4]["action"] == 0


def test_out_of_turn() -> None:
    env = ModelEnv(partial())
    with pytest.raises(PolicyError, match=r"step 0, state 'a': expected reset\(\) first, found no episode"):
        env.step(0)
    env.reset()
    env.step(0)
    assert env.step(1)[2]
    with pytest.raises(PolicyError, match=r"step 2, state 'b': expected reset\(\) first, found an episode that is"):
        env.step(1)


def test_what_is_no_model() -> None:
    with pytest.raises(ModelError, match=r"model: expected a CMDP, found 3"):
        ModelEnv(3)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"render_mode: expected None or 'ansi', found 'human'"):
        ModelEnv(partial(), render_mode="human")
    with pytest.raises(ModelError, match=r"fallback: expected None, 'first', .* or an action of Discrete\(2\), fou"):
        ModelEnv(partial(), fallback=7)


def test_it_can_be_copied() -> None:
    env = ModelEnv(instances.fuel_grid(3))
    env.reset(seed=2)
    twin = copy.deepcopy(env)
    assert [env.step(1)[:2] for _ in range(5)] == [twin.step(1)[:2] for _ in range(5)]
