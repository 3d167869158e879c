"""Layouts of observations: spaces and keys, and that observations match them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from foreign import Road
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import solvent
from environments import newest
from solvent.errors import ModelError
from solvent.gym import ENV_ID, BudgetWrapper, ModelEnv
from solvent.model import instances
from solvent.model.budget import Budget

WRAPPED = pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version:UserWarning")
LAYOUTS = ["dict", "flat", "rllib", "pettingzoo"]


@WRAPPED
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_passes_gymnasiums_check(layout: str) -> None:
    env = gymnasium.make(ENV_ID, model=instances.fuel_grid(3))
    check_env(BudgetWrapper(env, 5, layout=layout, fallback="first"))
    check_env(BudgetWrapper(env, layout=layout, mask_in_observation=True))
    two = gymnasium.make(ENV_ID, model=instances.random(4, 2, resources=2, horizon=4, cost_range=(-2, 3)))
    check_env(BudgetWrapper(two, layout=layout, fallback="first"))


@WRAPPED
@pytest.mark.filterwarnings("ignore:.*value is -?infinity:UserWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_environments_pass_it_too(layout: str) -> None:
    for name in ("FrozenLake-v1", newest("Taxi"), "CartPole-v1"):
        env = gymnasium.make(name)
        wrapped = BudgetWrapper(env, 20, cost=1, cost_bound=1, layout=layout, fallback="first")
        check_env(wrapped, skip_render_check=True)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "budget", [30, Budget.final(6), Budget(upper=[9] * 9, lower=[-20] * 9), Budget(lower=-4), Budget(upper=range(9))]
)
def test_what_is_seen_is_in_the_space(layout: str, budget: Any) -> None:
    env = BudgetWrapper(ModelEnv(instances.fuel_grid(3)), budget, layout=layout)
    rng = np.random.default_rng(1)
    for _ in range(20):
        observation, _ = env.reset()
        done = False
        while not done:
            assert env.observation_space.contains(observation)
            observation, _, done, _, _ = env.step(int(rng.choice(env.safe_actions())))
        assert env.observation_space.contains(observation)


def test_dict() -> None:
    env = BudgetWrapper(Road(), {"fuel": 7, "time": "1/2"}, cost=[0, 0], cost_bound=[[0, 0]] * 3)
    assert isinstance(env.observation_space, spaces.Dict)
    assert list(env.observation_space.spaces) == ["observation", "remaining", "step"]
    observation, _ = env.reset()
    assert observation["remaining"].tolist() == [7.0, 0.5]
    assert env.step(0)[0]["step"].tolist() == [1.0]


def test_flat_holds_observation_remaining_and_step_in_this_order() -> None:
    env = BudgetWrapper(ModelEnv(instances.knapsack([1, 2], [1, 2])), 3, layout="flat")
    env.reset()
    assert env.step(1)[0].tolist() == [1.0, 2.0, 1.0]  # one state of one, two are left, step one
    assert env.observation_space.shape == (3,)


def test_steps_are_bounded_by_limits_that_someone_enforces() -> None:
    lake = gymnasium.make("FrozenLake-v1")  # has a time limit of 100
    model = solvent.CMDP.from_gymnasium(lake, cost=1, horizon=30)
    for inner, given, most in ((lake, None, 100.0), (lake.unwrapped, None, np.inf), (lake.unwrapped, model, 30.0)):
        env = BudgetWrapper(inner, 40, 1, None if given else 1, given)
        assert env.observation_space["step"].high.tolist() == [most]  # type: ignore[index]


def test_the_layouts_of_other_libraries() -> None:
    model = instances.knapsack([1, 2], [1, 2])
    rllib = BudgetWrapper(ModelEnv(model), 2, layout="rllib")
    assert list(rllib.observation_space.spaces) == ["action_mask", "observations"]  # type: ignore[attr-defined]
    rllib.reset()
    seen = rllib.step(1)[0]
    assert seen["action_mask"].dtype == np.float32
    assert seen["action_mask"].tolist() == [1.0, 0.0]
    zoo = BudgetWrapper(ModelEnv(model), 2, layout="pettingzoo")
    seen, _ = zoo.reset()
    assert set(seen) == {"observation", "action_mask"}
    assert seen["action_mask"].dtype == np.int8


def test_keys_can_be_renamed() -> None:
    keys = {"remaining": "tank", "action_mask": "mask"}
    env = BudgetWrapper(Road(), 3, cost_bound=[0, 1, 2], keys=keys, mask_in_observation=True)
    seen, info = env.reset()
    assert set(seen) == {"observation", "tank", "step", "mask"}
    assert seen["mask"].tolist() == info["action_mask"].tolist() == env.action_masks().tolist()
    with pytest.raises(ModelError, match=r"keys: expected names for .*, found 'remainin'; did you mean 'remaining'\?"):
        BudgetWrapper(Road(), 3, cost_bound=1, keys={"remainin": "tank"})


class Dashboard(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows a Dict."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = spaces.Dict({"cell": env.observation_space, "step": spaces.Discrete(2)})

    def observation(self, observation: Any) -> Any:
        return {"cell": observation, "step": 1}


def test_a_dict_is_not_nested() -> None:
    env = BudgetWrapper(Dashboard(Road()), 3, cost_bound=[0, 1, 2], keys={"step": "time"})
    seen, _ = env.reset()
    assert set(seen) == {"cell", "step", "remaining", "time"}
    assert env.observation_space.contains(seen)
    with pytest.raises(ModelError, match=r"keys: expected names that are all different, found 'step' twice; rename it"):
        BudgetWrapper(Dashboard(Road()), 3, cost_bound=1)
    flat = BudgetWrapper(Dashboard(Road()), 3, cost_bound=1, layout="flat")
    assert flat.observation_space.contains(flat.reset()[0])


def test_layouts_that_do_not_exist() -> None:
    with pytest.raises(ModelError, match=r"layout: expected one of 'dict', .*, found 'flatt'; did you mean 'flat'\?"):
        BudgetWrapper(Road(), 3, cost_bound=1, layout="flatt")
    road = Road()
    road.observation_space = spaces.Sequence(spaces.Discrete(3))
    with pytest.raises(ModelError, match=r"layout: expected observations that can be flattened, found Sequence"):
        BudgetWrapper(road, 3, cost_bound=1, layout="flat")


def test_remaining_of_other_budgets() -> None:
    model = instances.knapsack([1] * 4, [1] * 4)
    shown = []
    for budget in (
        Budget(upper=[None, 3, None, 4]),
        Budget.final(2),
        Budget(lower=-1),
        Budget(upper=[5, 4, None, None]),
    ):
        env = BudgetWrapper(ModelEnv(model), budget)
        env.reset()
        env.step(1)
        shown.append(int(env.remaining["weight"]))
        env.step(0)
        shown.append(int(env.remaining["weight"]))
    assert shown == [2, 3, 1, 1, 2, 2, 3, 3]


def test_the_wrapper_is_reached_from_the_package() -> None:
    assert solvent.gym.BudgetWrapper is BudgetWrapper
