"""Vectors and several agents: what environments really cost, whatever is between them and the budget."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RepeatAction
from gymnasium.wrappers import vector as wrappers

from solvent.errors import ModelError, PolicyError
from solvent.gym import EmpiricalCostBound, VectorBudgetWrapper

PRICES: list[Any] = [0, 0.5, 0.9]


class Road(gymnasium.Env[Any, Any]):
    """Reports costs of several types, and keeps its own account; the same array is every observation."""

    observation_space = gymnasium.spaces.Box(-100, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, named: bool = False, prices: list[Any] = PRICES) -> None:
        self._named, self._prices = named, prices
        self._place = np.full(1, 5, np.float32)
        self.most = Fraction(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._spent, self._step = Fraction(0), 0
        self._place[:] = 5
        return self._place, {}

    def step(self, action: Any) -> Any:
        cost = self._prices[action]
        self._spent += Fraction(str(cost))
        self.most = max(self.most, self._spent)
        self._step += 1
        info = {"costs": {"fuel": cost}} if self._named else {"cost": cost}
        return self._place, 1.0, False, self._step == 40, info


def vector(
    make: Callable[[], Any] = Road, mode: AutoresetMode = AutoresetMode.DISABLED, **options: Any
) -> SyncVectorEnv:
    return SyncVectorEnv([make] * 3, autoreset_mode=mode, **options)


def play(env: VectorBudgetWrapper, actions: list[int], steps: int = 60) -> None:
    env.reset(seed=0)
    for _ in range(steps):
        env.step(np.array(actions))


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("prices", [PRICES, [0, Fraction(1, 2), Fraction(9, 10)], [np.uint8(0), 0.5, np.float64(0.9)]])
def test_costs_of_the_type_of_another_environment(named: bool, prices: list[Any]) -> None:
    """Gymnasium puts costs into an array of the type of the first one: 0.9 is 0 beside the whole number 0."""
    envs = vector(partial(Road, named, prices))
    budget: Any = {"fuel": 2} if named else 2
    env = VectorBudgetWrapper(envs, budget, cost_bound=[0, 0.5, 0.9], fallback="first")
    play(env, [0, 2, 1])
    assert [each.most for each in envs.envs] == [0, Fraction(9, 5), 2]
    assert env.violations == 0


class Van(Road):
    """Reports an array of costs, or a dict of them, under one key."""

    def __init__(self, report: Callable[[Any], Any], prices: list[Any] = PRICES) -> None:
        super().__init__(prices=prices)
        self._report = report

    def step(self, action: Any) -> Any:
        *rest, info = super().step(action)
        return *rest, {"paid": self._report(info["cost"])}


@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize("report", [np.array, lambda x: np.array([x]), lambda x: {"fuel": x}])
def test_arrays_and_dicts_of_the_type_of_another_environment(report: Callable[[Any], Any], mode: AutoresetMode) -> None:
    envs = vector(partial(Van, report), mode)
    env = VectorBudgetWrapper(envs, {"fuel": 2}, "paid", [0, 0.5, 0.9], fallback="first")
    play(env, [0, 2, 1])
    assert [each.most for each in envs.envs] == [0, Fraction(9, 5), 2]
    assert env.violations == 0


@pytest.mark.parametrize("report", [lambda x: np.array([x, 2 * x]), lambda x: {"fuel": x, "wear": 2 * x}])
def test_reports_of_several_costs(report: Callable[[Any], Any]) -> None:
    env = VectorBudgetWrapper(
        vector(partial(Van, report)), {"fuel": 9, "wear": 3}, "paid", [(0, 0), (0.5, 1), (0.9, 1.8)], fallback="first"
    )
    play(env, [0, 2, 1], 5)
    assert env.spent == {"fuel": [0, Fraction(9, 10), Fraction(3, 2)], "wear": [0, Fraction(9, 5), 3]}


def test_arrays_of_short_floats() -> None:
    """Costs have the digits of their own type: 0.1 of 32 bits is a tenth."""
    prices = [0, np.float32(0.1), np.float32(0.9)]
    envs = vector(partial(Van, lambda x: np.array([x]), prices))
    env = VectorBudgetWrapper(envs, {"fuel": 2}, "paid", [0, 0.1, 0.9], fallback="first")
    play(env, [0, 1, 2], 2)
    assert env.spent == {"fuel": [0, Fraction(1, 5), Fraction(9, 5)]}


@pytest.mark.parametrize("prices", [PRICES, [0, Fraction(1, 2), Fraction(9, 10)], [0, "0.5", "0.9"]])
def test_dicts_of_costs_by_name(prices: list[Any]) -> None:
    """Costs without a name are 0, and unknown names are refused, as in `BudgetWrapper`."""
    envs = vector(partial(Van, lambda x: {"fuel": x} if x else {}, prices))
    env = VectorBudgetWrapper(envs, {"fuel": 2, "wear": 2}, "paid", [(0, 0), (0.5, 0), (0.9, 0)], fallback="first")
    play(env, [0, 2, 1], 2)
    assert env.spent == {"fuel": [0, Fraction(9, 5), 1], "wear": [0] * 3}
    wrong = VectorBudgetWrapper(vector(partial(Van, lambda x: {"fule": x})), {"fuel": 2}, "paid", 0)
    with pytest.raises(ModelError, match=r"step, cost: expected resources of the model .*found 'fule'"):
        play(wrong, [0, 0, 0], 1)


def test_functions_that_return_dicts() -> None:
    """Costs without a name are 0, and numbers hold for all environments."""

    def charged(cost: Callable[[Any], Any]) -> VectorBudgetWrapper:
        env = VectorBudgetWrapper(
            vector(), {"fuel": 2, "wear": 2}, lambda seen, actions, after: cost(actions), [(1, 1)] * 3
        )
        play(env, [0, 1, 1], 1)
        return env

    assert charged(lambda actions: {"fuel": actions}).spent == {"fuel": [0, 1, 1], "wear": [0] * 3}
    assert charged(lambda actions: {"fuel": 1, "wear": actions}).spent == {"fuel": [1] * 3, "wear": [0, 1, 1]}
    with pytest.raises(
        ModelError, match=r"step, cost: expected resources of the model \('fuel', 'wear'\), found 'fule'"
    ):
        charged(lambda actions: {"fule": actions})
    message = r"step, cost of wear: expected a number, or 3 numbers, one per environment, found shape \(2,\)"
    with pytest.raises(ModelError, match=message):
        charged(lambda actions: {"wear": actions[:2]})


def test_costs_that_a_wrapper_of_the_vector_computes() -> None:
    class Doubled(gymnasium.vector.VectorWrapper):  # type: ignore[type-arg, unused-ignore]
        passes_actions = True

        def step(self, actions: Any) -> Any:
            *rest, info = self.env.step(actions)
            return *rest, {**info, "cost": 2.0 * np.array([0, 0.5, 0.9])[actions]}

    env = VectorBudgetWrapper(Doubled(vector()), 2, cost_bound=[0, 1, "1.8"], fallback="first")
    env.reset(seed=0)
    env.step(np.array([0, 1, 2]))
    assert env.spent == {"cost": [0, 1, Fraction(9, 5)]}


@pytest.mark.parametrize("copy", [False, True])
def test_agents_that_write_into_observations(copy: bool) -> None:
    """The cost depends on the place before the step, which the agent, or the vector, overwrites."""

    def paid(before: Any, actions: Any, after: Any) -> Any:
        return actions * before[:, 0].astype(int)

    env = VectorBudgetWrapper(vector(copy=copy), 20, paid, lambda place, action: action * 5, fallback="first")
    observations, _ = env.reset(seed=0)
    for _ in range(10):
        observations["observation"][:] = 0
        observations, *_ = env.step(np.ones(3, int))
    assert env.spent == {"cost": [20] * 3}


def test_wrappers_of_vectors() -> None:
    def paid(before: Any, actions: Any, after: Any) -> Any:
        return np.array([0, 5, 9])[actions]

    for passing in (
        wrappers.RecordEpisodeStatistics(vector()),
        wrappers.NormalizeObservation(vector(mode=AutoresetMode.NEXT_STEP)),
        wrappers.NormalizeReward(vector(mode=AutoresetMode.NEXT_STEP)),
        wrappers.RescaleObservation(vector(), np.float32(-1), np.float32(1)),
        wrappers.ClipReward(vector(), 0, 1),
    ):
        play(VectorBudgetWrapper(passing, 20, paid, [0, 5, 9], fallback="first"), [0, 1, 2], 50)
    turned = wrappers.TransformAction(vector(), lambda actions: 2 - actions)
    with pytest.raises(ModelError, match=r"found TransformAction, which may change the action; put TransformAction ar"):
        VectorBudgetWrapper(turned, 20, paid, [0, 5, 9])
    VectorBudgetWrapper(turned, 20, "cost", 9)  # the bound holds for all actions, and the environment reports costs

    class Unknown(gymnasium.vector.VectorWrapper):  # type: ignore[type-arg, unused-ignore]
        def step(self, actions: Any) -> Any:
            return self.env.step(actions)

    with pytest.raises(ModelError, match=r"found Unknown, which overrides step or reset.*set passes_actions = True"):
        VectorBudgetWrapper(Unknown(vector()), 20, "cost", 9)


def test_wrappers_in_other_processes() -> None:
    envs = AsyncVectorEnv([lambda: RepeatAction(Road(), 3)] * 2, autoreset_mode=AutoresetMode.DISABLED)
    try:
        with pytest.raises(ModelError, match="found RepeatAction, which takes several steps for one action"):
            VectorBudgetWrapper(envs, 20, 1, 1)
    finally:
        envs.close()


def test_costs_of_other_processes() -> None:
    envs = AsyncVectorEnv([Road] * 2, autoreset_mode=AutoresetMode.DISABLED)
    try:
        env = VectorBudgetWrapper(envs, 2, cost_bound=[0, 0.5, 0.9], fallback="first")
        env.reset(seed=0)
        env.step(np.array([0, 2]))
        assert env.spent == {"cost": [0, Fraction(9, 10)]}
    finally:
        envs.close()


@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP])
def test_own_masks_of_environments(mode: AutoresetMode) -> None:
    """Both masks must allow an action, also in the first step of an episode."""

    class Masked(Road):
        def reset(self, **options: Any) -> Any:
            observation, _ = super().reset(**options)
            return observation, {"action_mask": self._legal()}

        def _legal(self) -> Any:
            legal = np.ones(3, np.int8)
            legal[1 + self._step % 2] = 0
            return legal

        def step(self, action: Any) -> Any:
            assert self._legal()[action]
            observation, reward, _, _, info = super().step(action)
            return observation, reward, False, self._step == 7, {**info, "action_mask": self._legal()}

    rng = np.random.default_rng(0)
    env = VectorBudgetWrapper(vector(Masked, mode), 2, cost_bound=[0, 0.5, 0.9])
    _, info = env.reset(seed=0)
    for step in range(60):
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in info["action_mask"]])
        if mode == AutoresetMode.DISABLED:
            assert not info["action_mask"][:, 1 + step % 7 % 2].any()
        _, _, _, _, info = env.step(actions)
    free = VectorBudgetWrapper(vector(Masked, mode), 2, cost_bound=[0, 0.5, 0.9], own_mask=False)
    assert free.reset(seed=0)[1]["action_mask"].all()
    with pytest.raises(ModelError, match="own_mask: expected None or False, found 'mask'"):
        VectorBudgetWrapper(vector(), 2, cost_bound=1, own_mask="mask")  # type: ignore[arg-type]


def test_what_a_wrong_bound_let_through_is_on_record() -> None:
    """The step was taken in all environments, so all of them are charged before the error is raised."""
    env = VectorBudgetWrapper(vector(), Fraction(7, 10), cost_bound=[0, 0.5, 0.5])
    env.reset(seed=0)
    with pytest.raises(PolicyError, match=r"environment 1: step 0, action 2, cost of cost: expected at most 0\.5"):
        env.step(np.array([0, 2, 1]))
    assert env.spent == {"cost": [0, Fraction(9, 10), Fraction(1, 2)]}
    assert env.violations == 1
    with pytest.raises(PolicyError, match="episodes that ended with an error"):
        env.step(np.zeros(3, int))


class Walk(gymnasium.Env[Any, Any]):
    """Three actions that cost 0, 1 and 2; each step earns -1, and episodes have a length of their own."""

    observation_space = gymnasium.spaces.Box(-100, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, length: int = 4) -> None:
        self._length, self._episode = length, -1

    def _tell(self) -> dict[str, Any]:
        return {"position": self._step, "episode_number": self._episode}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._step, self._episode = 0, self._episode + 1
        return np.zeros(1, np.float32), self._tell() | {"goal": 10 + self._episode}

    def step(self, action: Any) -> Any:
        self._step += 1
        info = self._tell() | {"cost": int(action)}
        return np.full(1, self._step, np.float32), -1.0, self._step == self._length, False, info


def walks(*lengths: int, **options: Any) -> SyncVectorEnv:
    return SyncVectorEnv([partial(Walk, n) for n in lengths], autoreset_mode=AutoresetMode.DISABLED, **options)


def test_wrappers_outside_count_every_step() -> None:
    """They read in the metadata that an episode begins in the step in which the last one ended."""
    env = wrappers.RecordEpisodeStatistics(VectorBudgetWrapper(walks(3, 5), 100, cost_bound=[0, 1, 2]))
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    env.reset(seed=0)
    found = []
    for _ in range(15):
        _, _, terminated, _, info = env.step(np.zeros(2, int))
        found += [
            (int(i), int(info["episode"]["l"][i]), float(info["episode"]["r"][i])) for i in np.flatnonzero(terminated)
        ]
    if gymnasium.__version__ >= "1.4":  # older versions count one step less after the first episode, in that mode too
        assert sorted(found) == [(0, 3, -3.0)] * 5 + [(1, 5, -5.0)] * 3
    waiting = VectorBudgetWrapper(vector(mode=AutoresetMode.NEXT_STEP), 2, cost_bound=[0, 0.5, 0.9])
    assert waiting.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP


@pytest.mark.parametrize("bound", [[0, 1, 2], [1, 1, 2]])
def test_masks_of_the_last_observation_are_not_empty(bound: list[int]) -> None:
    """At the end of an episode and at a dead end, so that a masked softmax is defined there."""
    env = VectorBudgetWrapper(walks(3, 5), 3, cost_bound=bound, mask_in_observation=True)
    env.reset(seed=0)
    ends = 0
    for _ in range(20):
        _, _, terminated, _, info = env.step(np.zeros(2, int) + (bound[0] == 1))
        for i in np.flatnonzero(terminated):
            ends += 1
            assert info["final_obs"][i]["action_mask"].tolist() == [1, 1, 1]
            assert info["final_info"]["action_mask"][i].tolist() == [1, 1, 1]
        assert info["action_mask"].any(axis=1).all()
    assert ends > 5


@pytest.mark.parametrize("layout", ["dict", "flat"])
def test_last_observations_of_vectors_that_use_their_arrays_again(layout: Any) -> None:
    env = VectorBudgetWrapper(walks(3, 5, copy=False), 3, cost_bound=[0, 1, 2], layout=layout)
    env.reset(seed=0)
    for _ in range(3):
        observations, *_, info = env.step(np.zeros(2, int))
    last, first = info["final_obs"][0], observations["observation"] if layout == "dict" else observations
    assert (last["observation"] if layout == "dict" else last)[0] == 3
    assert first[:, 0].tolist() == [0, 3]


@pytest.mark.parametrize("first", [0, 1])
def test_what_one_environment_learns_holds_for_all(first: int) -> None:
    """A cost that was seen in one environment bounds the next action of every other one, in any order."""
    env = VectorBudgetWrapper(walks(30, 30), 1, cost_bound=EmpiricalCostBound(unseen=0))
    env.reset(seed=0)
    actions = np.zeros(2, int)
    actions[first] = 2
    *_, info = env.step(actions)
    assert info["violation"].tolist() == [first == 0, first == 1]
    assert info["action_mask"].tolist() == [[1, 1, 0]] * 2


class Signed(Walk):
    """Its observation has a mask, which allows actions 0 and 2."""

    observation_space = gymnasium.spaces.Dict(  # type: ignore[assignment]
        {"place": Walk.observation_space, "action_mask": gymnasium.spaces.MultiBinary(3)}
    )

    def _seen(self, place: Any) -> Any:
        return {"place": place, "action_mask": np.array([1, 0, 1], np.int8)}

    def reset(self, **options: Any) -> Any:
        place, info = super().reset(**options)
        return self._seen(place), info

    def step(self, action: Any) -> Any:
        place, *rest = super().step(action)
        return self._seen(place), *rest


@pytest.mark.parametrize("layout", ["dict", "flat"])
def test_masks_in_observations_are_replaced(layout: Any) -> None:
    """An agent that reads them there sees what the budget allows, as with `BudgetWrapper`."""
    envs = SyncVectorEnv([Signed] * 2, autoreset_mode=AutoresetMode.DISABLED)
    env = VectorBudgetWrapper(envs, 3, cost_bound=[0, 1, 2], layout=layout)

    def masks(observations: Any) -> Any:
        found = observations[..., :3] if layout == "flat" else observations["observation"]["action_mask"]
        return found.astype(int).tolist()

    observations, info = env.reset(seed=0)
    for _ in range(4):
        assert masks(observations) == env.action_masks().astype(int).tolist() == info["action_mask"].tolist()
        assert env.observation_space.contains(observations)
        observations, *_, info = env.step(np.where(env.action_masks()[:, 2], [0, 2], 0))
    assert masks(observations) == [[1, 0, 1]] * 2
    assert masks(info["final_obs"][1]) == [1, 1, 1]


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_what_reset_reports(kind: Any) -> None:
    """Environments that began anew in a step tell what they report of the next episode, and of the last one apart."""
    envs = kind([partial(Walk, 3), partial(Walk, 5)], autoreset_mode=AutoresetMode.DISABLED)
    env = VectorBudgetWrapper(envs, 9, cost_bound=[0, 1, 2])
    try:
        _, info = env.reset(seed=0)
        assert info["goal"].tolist() == [10, 10]
        for step in range(1, 4):
            *_, info = env.step(np.array([1, 2]))
            assert ("final_info" in info) == (step == 3)
        assert (info["position"].tolist(), info["episode_number"].tolist()) == ([0, 3], [1, 0])
        assert (info["goal"][0], info["_goal"].tolist()) == (11, [True, False])
        assert info["cost"].tolist() == [1, 2]
        assert (info["step"].tolist(), info["remaining"]["cost"].tolist()) == ([0, 3], [9, 3])
        last = info["final_info"]
        assert (last["position"][0], last["episode_number"][0], last["step"][0]) == (3, 0, 3)
        assert (last["remaining"]["cost"][0], last["_position"].tolist()) == (6, [True, False])
        assert "goal" not in last
    finally:
        env.close()


class Native(gymnasium.vector.VectorEnv):  # type: ignore[type-arg, unused-ignore]
    """A vector that computes all its environments at once, with costs in float32."""

    def __init__(self, wide: bool) -> None:
        self.num_envs, self.metadata, self._wide = 2, {"autoreset_mode": AutoresetMode.DISABLED}, wide
        self.single_observation_space, self.single_action_space = Road.observation_space, Road.action_space
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, 2)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, 2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((2, 1), np.float32), {}

    def step(self, actions: Any) -> Any:
        cost = np.array([0, 0.1, 0.7], np.float32)[actions]
        no = np.zeros(2, bool)
        return np.zeros((2, 1), np.float32), np.ones(2), no, no, {"cost": cost[:, None] if self._wide else cost}


@pytest.mark.parametrize("wide", [False, True])
def test_short_floats_of_native_vectors(wide: bool) -> None:
    """Costs have the digits of their type, as with other vectors: 0.1 of 32 bits is a tenth."""
    env = VectorBudgetWrapper(Native(wide), "0.9", cost_bound=[0, "0.1", "0.7"], fallback="first")
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.array([1, 2]))
    assert env.spent == {"cost": [Fraction(3, 10), Fraction(7, 10)]}
