"""Training loops: masks in every convention, vectors, dead ends, and errors of other processes."""

from __future__ import annotations

import copy
import pickle
import warnings
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from foreign import Road
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from robots import Switches

from environments import newest
from solvent.errors import LocatedError, ModelError, PolicyError, SolventError, UnmodeledOutcome
from solvent.gym import BudgetWrapper, ContinuousBudgetWrapper, ModelEnv, VectorBudgetWrapper
from solvent.model import instances


class Masked(gymnasium.Env[Any, Any]):
    """Three actions, of which some are illegal, said in one of the usual places."""

    def __init__(self, place: str, legal: tuple[int, ...] = (1, 0, 1)) -> None:
        self._place, self._legal = place, np.array(legal, np.int8)
        self.action_space: Any = spaces.Discrete(3)
        cell = spaces.Discrete(5)
        self.observation_space = (
            spaces.Dict({"cell": cell, "action_mask": spaces.Box(0, 1, (3,), np.int8)})
            if place == "observation"
            else cell
        )
        if place == "method":
            self.__class__ = MaskedByMethod

    def _seen(self) -> tuple[Any, dict[str, Any]]:
        if self._place == "observation":
            return {"cell": 1, "action_mask": self._legal.copy()}, {}
        return 1, {"info": {"action_mask": self._legal.copy()}, "other": {"legal": self._legal}}.get(self._place, {})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._seen()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self._legal[action], "an illegal action was executed"
        seen, info = self._seen()
        return seen, 0.0, False, False, {**info, "cost": int(action)}


class MaskedByMethod(Masked):
    def action_masks(self) -> Any:
        return self._legal.astype(bool)


@pytest.mark.parametrize("place", ["info", "observation", "method", "other"])
@pytest.mark.parametrize("layout", ["dict", "flat", "rllib", "pettingzoo"])
def test_the_own_mask_is_combined(place: str, layout: Any) -> None:
    own = {"own_mask": "legal"} if place == "other" else {}
    env = BudgetWrapper(Masked(place), 2, cost_bound=[0, 1, 2], fallback="first", layout=layout, **own)
    seen, info = env.reset()
    assert env.action_masks().tolist() == [True, False, True]
    env.step(1)  # replaced
    seen, _, _, _, info = env.step(2)
    assert env.action_masks().tolist() == info["action_mask"].tolist() == [1, 0, 0]
    assert env.observation_space.contains(seen)
    if layout == "dict" and place == "observation":
        assert seen["action_mask"].tolist() == [1, 0, 0]  # the agent never sees a mask that allows too much
    if layout in ("rllib", "pettingzoo"):
        assert seen["action_mask"].tolist() == [1, 0, 0]
        part = seen["observations" if layout == "rllib" else "observation"]
        assert part.shape == (5 + 1 + 1,)  # the environment's own mask is not repeated
    if layout == "flat":
        assert seen.shape == (5 + 2 + 3 * (place == "observation"),)


def test_ways_to_say_where_the_own_mask_is() -> None:
    ignored = BudgetWrapper(Masked("info"), 1, cost_bound=0, own_mask=False)
    ignored.reset()
    assert ignored.action_masks().all()
    computed = BudgetWrapper(Masked("info"), 1, cost_bound=0, own_mask=lambda seen, info: [0, 0, seen == 1])
    computed.reset()
    assert computed.safe_actions().tolist() == [2]
    with pytest.raises(ModelError, match="own_mask: expected 'legal' in info or the observation, found neither"):
        BudgetWrapper(Masked("info"), 1, cost_bound=0, own_mask="legal").reset()
    with pytest.raises(ModelError, match=r"own_mask: expected 3 entries, one for each action, found shape \(2,\)"):
        BudgetWrapper(Masked("info"), 1, cost_bound=0, own_mask=lambda seen, info: [1, 1]).reset()
    with pytest.raises(ModelError, match="own_mask: expected None, False, a key, or a function"):
        BudgetWrapper(Masked("info"), 1, cost_bound=0, own_mask=3)  # type: ignore[arg-type]
    nested = BudgetWrapper(
        BudgetWrapper(Masked("info"), 2, cost_bound=[0, 1, 2]),
        5,
        cost_bound=2,
        keys={"remaining": "more", "step": "time"},
    )
    nested.reset()
    assert nested.safe_actions().tolist() == [0, 2]
    nested.step(2)
    assert nested.safe_actions().tolist() == [0]


def test_masks_are_never_empty() -> None:
    env = BudgetWrapper(Road([1, 2]), 3, cost_bound=[1, 2])
    env.reset()
    env.step(1)
    info = env.step(0)[4]
    assert info["dead_end"]
    assert info["action_mask"].tolist() == [1, 1]
    assert env.action_masks().tolist() == [True, True]
    assert env.safe_actions().tolist() == []
    with pytest.raises(PolicyError):
        env.step(0)  # nothing is executed all the same
    late = BudgetWrapper(Road([4]), 3, cost_bound=[4], dead_start="end")
    assert late.reset()[1]["action_mask"].tolist() == [1]
    assert late.step(0)[2]
    assert late.unwrapped.taken == []


def softmax(logits: Any, mask: Any) -> Any:
    weights = np.where(mask, np.exp(logits), 0.0)
    return weights / weights.sum(axis=-1, keepdims=True)


def grid() -> BudgetWrapper:
    return BudgetWrapper(ModelEnv(instances.fuel_grid(3)), 4)


@pytest.mark.parametrize(
    ("space", "own", "entries"),
    [
        (spaces.MultiDiscrete([2, 3]), ([1, 0], [1, 1, 0]), [1, 0, 1, 1, 0]),
        (spaces.MultiDiscrete([2, 2]), ([1, 0], [1, 1]), [1, 0, 1, 1]),
        (spaces.MultiDiscrete([[2, 3], [2, 1]]), (([1, 0], [1, 1, 0]), ([1, 1], [1])), [1, 0, 1, 1, 0, 1, 1, 1]),
        (spaces.MultiBinary(3), [0, 1, 2], [1, 0, 0, 1, 1, 1]),
        (spaces.MultiBinary(2), [1, 0, 1, 1], [1, 0, 1, 1]),  # as sb3-contrib has them
    ],
)
def test_own_masks_of_several_actions(space: Any, own: Any, entries: list[int]) -> None:
    """The masks that `sample` of the action space takes are combined with those of the wrapper."""

    class Several(gymnasium.Env[Any, Any]):
        observation_space, action_space = spaces.Discrete(1), space
        mask: Any = None

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return 0, {"action_mask": self.mask}

        def step(self, action: Any) -> Any:
            return 0, 0.0, False, False, {"action_mask": self.mask, "cost": 0}

    def masks(part: Any) -> Any:  # tuples of arrays, as `sample` wants them
        return tuple(map(masks, part)) if isinstance(part, tuple) else np.array(part, np.int8)

    Several.mask = masks(own)
    if len(own) == len(space.nvec) if isinstance(space, spaces.MultiDiscrete) else len(own) == space.n:
        assert space.contains(space.sample(mask=Several.mask))
    env = ContinuousBudgetWrapper(Several(), 1, cost_bound=0)
    assert env.reset()[1]["action_mask"].tolist() == entries
    assert env.step(np.zeros(space.shape, int))[4]["action_mask"].tolist() == entries
    Several.mask = np.ones(20, np.int8)
    with pytest.raises(ModelError, match=r"info, action_mask: expected \d entries, one for each value of each c"):
        env.reset()


@pytest.mark.filterwarnings("ignore:os.fork", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [SyncVectorEnv, partial(AsyncVectorEnv, context="fork")], ids=["sync", "async"])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_masked_softmax_is_defined_at_every_step(kind: Any, mode: AutoresetMode) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        env = kind([grid] * 3, autoreset_mode=mode)
    rng, ends = np.random.default_rng(0), 0
    try:
        _, info = env.reset(seed=1)
        for _ in range(60):
            assert (info["action_mask"].astype(bool) == np.array(env.call("action_masks"))).all()
            chances = softmax(rng.normal(size=(3, 5)), info["action_mask"])
            assert np.isfinite(chances).all()
            actions = np.array([rng.choice(5, p=row) for row in chances])
            _, _, terminated, _, info = env.step(actions)
            ends += terminated.sum()
        assert sum(env.call("violations") if mode else ()) == 0
    finally:
        env.close()
    assert ends >= 10


def test_make_vec_with_the_wrapper() -> None:
    envs = gymnasium.make_vec(
        "CartPole-v1", 2, vectorization_mode="sync",
        wrappers=[partial(BudgetWrapper, budget=3, cost=lambda s, a, n: a, cost_bound=[0, 1])],
    )  # fmt: skip
    _, info = envs.reset(seed=0)
    for _ in range(6):
        _, _, _, _, info = envs.step(info["action_mask"][:, 1].astype(np.int64))
    assert envs.call("violations") == (0, 0)
    assert max(info["remaining"]["cost"]) <= 3


def priced(before: Any, actions: Any, after: Any) -> Any:
    return np.where(actions == 1, 1.0, 0.25)


def carts(mode: AutoresetMode = AutoresetMode.DISABLED, count: int = 4) -> Any:
    return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * count, autoreset_mode=mode)


@pytest.mark.parametrize("layout", ["dict", "flat"])
def test_batched_masks(layout: Any) -> None:
    env = VectorBudgetWrapper(carts(), 5, priced, [0.25, 1], layout=layout)
    rng = np.random.default_rng(0)
    observations, info = env.reset(seed=3)
    assert env.observation_space.contains(observations)
    spent, dead, ended = np.zeros(4), 0, 0
    for _ in range(300):
        masks = env.action_masks()
        assert masks.shape == (4, 2)
        assert (info["action_mask"] == masks).all()
        assert (masks == np.stack([spent + 0.25 <= 5, spent + 1 <= 5], axis=1)).all()
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        observations, _, terminated, truncated, info = env.step(actions)
        assert env.observation_space.contains(observations)
        spent += priced(None, actions, None)
        assert (spent <= 5).all()
        over = terminated | truncated
        assert (info["dead_end"] <= over).all()
        assert (over[info["dead_end"]] & (spent[info["dead_end"]] == 5)).all()
        if over.any():
            last = info["final_info"]["remaining"]["cost"]
            assert last[over] == pytest.approx(5 - spent[over])
            for i in np.flatnonzero(over):
                assert env.single_observation_space.contains(info["final_obs"][i])
        spent[over] = 0
        assert info["remaining"]["cost"] == pytest.approx(5 - spent)
        dead, ended = dead + info["dead_end"].sum(), ended + over.sum()
    assert dead > 20
    assert ended > dead
    assert env.violations == 0


def test_the_vector_agrees_with_single_wrappers() -> None:
    singles = [
        BudgetWrapper(gymnasium.make("CartPole-v1"), 6, cost=lambda s, a, n: a, cost_bound=[0, 1]) for _ in range(3)
    ]
    env = VectorBudgetWrapper(carts(count=3), 6, lambda s, a, n: a, [0, 1], mask_in_observation=True)
    seen, _ = env.reset(seed=5)
    for i, single in enumerate(singles):
        single.reset(seed=5 + i)
    rng = np.random.default_rng(1)
    for _ in range(12):
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in seen["action_mask"]])
        seen, rewards, terminated, _, _ = env.step(actions)
        if terminated.any():
            break
        for i, single in enumerate(singles):
            alone, reward, _, _, info = single.step(int(actions[i]))
            assert (alone["observation"] == seen["observation"][i]).all()
            assert info["action_mask"].tolist() == seen["action_mask"][i].tolist()
            assert (reward, single.spent["cost"]) == (rewards[i], env.spent["cost"][i])


def test_native_vectors() -> None:
    """A vector with its own autoreset: no dead ends, and masks of ended episodes are not empty."""
    native = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point")
    env = VectorBudgetWrapper(native, 8, lambda s, a, n: a, [0, 1])
    _, info = env.reset(seed=0)
    rng, spent = np.random.default_rng(0), np.zeros(3)
    waiting = np.zeros(3, bool)
    for _ in range(150):
        assert info["action_mask"].any(axis=1).all()
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in info["action_mask"]])
        _, _, terminated, truncated, info = env.step(actions)
        spent = np.where(waiting, 0, spent + actions)
        assert (spent <= 8).all()
        waiting = terminated | truncated
        assert info["remaining"]["cost"][~waiting] == pytest.approx(8 - spent[~waiting])
    dead = VectorBudgetWrapper(gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point"), 2, 1, 1)
    dead.reset(seed=0)
    dead.step(np.array([0, 1]))
    with pytest.raises(
        SolventError, match=r"environment 0, step 2: expected a safe action, found a dead end.*DISABLED"
    ):
        dead.step(np.array([0, 1]))


def test_mistakes_with_vectors() -> None:
    with pytest.raises(ModelError, match="VectorBudgetWrapper: expected a vector environment, found"):
        VectorBudgetWrapper(gymnasium.make("CartPole-v1"), 1, 1, 1)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"expected a vector with AutoresetMode\.DISABLED"):
        VectorBudgetWrapper(carts(AutoresetMode.SAME_STEP), 1, 1, 1)
    with pytest.raises(ModelError, match="expected a bound on the cost of actions, found none"):
        VectorBudgetWrapper(carts(), 1, 1)
    with pytest.raises(ModelError, match="fallback: expected None or 'first', found 'last'"):
        VectorBudgetWrapper(carts(), 1, 1, 1, fallback="last")  # type: ignore[arg-type]
    env = VectorBudgetWrapper(carts(), 1, lambda s, a, n: a, [0, 1])
    with pytest.raises(PolicyError, match=r"step: expected reset\(\) first, found no episode"):
        env.step(np.zeros(4, int))
    with pytest.raises(SolventError, match="environment 0: expected a start from which the budget can be kept"):
        VectorBudgetWrapper(carts(), "1/2", 1, 1).reset()
    env.reset(seed=0)
    for wrong in (np.zeros(3, int), np.zeros(4), np.array([0, 0, 2, 0])):
        with pytest.raises(PolicyError, match="step: expected"):
            env.step(wrong)
    env.step(np.ones(4, int))
    with pytest.raises(
        PolicyError, match=r"environment 1, step 1, remaining cost 0: .*\(0\), found 1; pass fallback='first'"
    ):
        env.step(np.array([0, 1, 0, 0]))
    lying = VectorBudgetWrapper(carts(), 9, lambda s, a, n: a * 2, [0, 1])
    lying.reset(seed=0)
    with pytest.raises(PolicyError, match="environment 2: step 0, action 1, cost of cost: expected at most 1"):
        lying.step(np.array([0, 0, 1, 0]))
    silent = VectorBudgetWrapper(carts(), 9, cost_bound=1)
    silent.reset(seed=0)
    with pytest.raises(ModelError, match=r"info after a step: expected a cost under 'cost', found the keys \[\]"):
        silent.step(np.zeros(4, int))


def test_a_vector_in_which_one_environment_reports_no_cost() -> None:
    def make(report: str) -> Any:
        return lambda: Road(report=report)

    env = VectorBudgetWrapper(
        SyncVectorEnv([make("info"), make("nothing")], autoreset_mode=AutoresetMode.DISABLED), 9, cost_bound=2
    )
    env.reset()
    with pytest.raises(ModelError, match="a cost under 'cost', found none from environment 1"):
        env.step(np.zeros(2, int))


def fail(env: Any) -> BaseException:
    with pytest.raises(SolventError) as caught:
        env.step(1)
    return caught.value


@pytest.mark.parametrize("kind", ["policy", "outcome", "model"])
def test_errors_can_be_pickled_and_raised_again(kind: str) -> None:
    if kind == "policy":
        env: Any = BudgetWrapper(Road(), 1, cost_bound=[0, 2, 2])
    elif kind == "outcome":
        model = instances.knapsack([60, 100], [10, 20])
        env = BudgetWrapper(
            Road(), 100, cost=11, model=model, state=lambda seen: "knapsack", actions=["leave", "take", None]
        )
    else:
        env = BudgetWrapper(Road(report="nothing"), 5, cost_bound=1)
    env.reset()
    error = fail(env)
    twins = [pickle.loads(pickle.dumps(error)), copy.copy(error), type(error)(error)]  # type: ignore[call-arg]
    for twin in twins:  # the last is what Gymnasium raises for errors of workers
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert isinstance(twin, LocatedError)
        assert twin.found == error.found  # type: ignore[attr-defined]
    if kind == "outcome":
        assert isinstance(error, UnmodeledOutcome)
        assert twins[2].possible == error.possible


@pytest.mark.filterwarnings("ignore")  # Gymnasium warns of the error
def test_errors_of_workers_arrive_with_their_text() -> None:
    env = AsyncVectorEnv([partial(BudgetWrapper, Road(), 1, cost_bound=[0, 2, 2])] * 2, context="fork")
    try:
        env.reset()
        text = r"step 0, remaining cost 1: expected an action the mask allows \(0\), found 2"
        with pytest.raises(PolicyError, match=text):
            env.step(np.array([0, 2]))
    finally:
        env.close(terminate=True)


def test_wrappers_can_be_pickled_in_the_middle_of_an_episode() -> None:
    switches = Switches(spaces.MultiBinary(2), [[0, 1], [0, 2]])
    for env, action in (
        (BudgetWrapper(Road(), 3, cost_bound=[0, 1, 2]), 1),
        (ContinuousBudgetWrapper(switches, 3, cost_bound=2), np.array([1, 0], np.int8)),
        (grid(), 4),
    ):
        env.reset(seed=1)
        env.step(action)
        twin = pickle.loads(pickle.dumps(env))
        assert twin.spent == env.spent
        twin.step(action), env.step(action)
        assert twin.spent == env.spent
        assert (twin.action_masks() == env.action_masks()).all()


def test_dead_end_rewards() -> None:
    def end(**options: Any) -> tuple[float, dict[str, Any]]:
        env = BudgetWrapper(gymnasium.make(newest("CliffWalking")), 2, cost=1, cost_bound=1, **options)
        env.reset(seed=0)
        env.step(0)
        result = env.step(0)
        assert result[4]["dead_end"]
        return result[1], result[4]

    assert end(dead_end_reward=0)[0] == -1
    assert end(dead_end_reward=-5)[0] == -6
    reward, info = end()
    assert info["dead_end_reward"] == -998  # 1,000 steps are assumed, and two were taken
    assert reward == -999
    limited = BudgetWrapper(gymnasium.make("CartPole-v1"), 3, cost=1, cost_bound=1)
    limited.reset(seed=0)
    rewards = [limited.step(i % 2)[1] for i in range(3)]
    assert rewards == [1, 1, 1]  # rewards are not negative, so nothing is lost by stopping
    with pytest.raises(ModelError, match="dead_end_reward: expected a finite number, or None, found 'low'"):
        BudgetWrapper(Road(), 1, cost_bound=1, dead_end_reward="low")  # type: ignore[arg-type]


def cliff(**options: Any) -> BudgetWrapper:
    """CliffWalking, where going down costs 5 and anything else 1: a budget of 20 is enough for the way, 13 + 4."""
    prices = [1, 1, 5, 1]
    env = gymnasium.make(newest("CliffWalking"))
    return BudgetWrapper(env, 20, cost=lambda s, a, n: prices[a], cost_bound=prices, **options)


def learn_and_play(env: BudgetWrapper, episodes: int, seed: int) -> tuple[float, bool]:
    """Train tabular Q-learning on (state, remaining); return the environment's own return, and how it ended."""
    rng = np.random.default_rng(seed)
    table: dict[tuple[int, int], Any] = {}

    def row(seen: Any) -> Any:
        return table.setdefault((int(seen["observation"]), int(seen["remaining"][0])), np.zeros(4))

    for episode in range(episodes + 1):
        seen, info = env.reset(seed=seed if episode == 0 else None)
        total, over = 0.0, False
        while not over:
            mask = info["action_mask"].astype(bool)
            greedy = episode == episodes or rng.random() > 0.2
            values = np.where(mask, row(seen), -np.inf)
            action = int(np.argmax(values)) if greedy else int(rng.choice(np.flatnonzero(mask)))
            following, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            ahead = 0.0 if terminated else np.where(info["action_mask"], row(following), -np.inf).max()
            row(seen)[action] += 0.5 * (reward + ahead - row(seen)[action])
            seen, total = following, total + reward - info.get("dead_end_reward", 0.0)
    return total, not info["dead_end"]


@pytest.mark.slow
def test_cliff_walking_reaches_its_goal_within_a_bound() -> None:
    total, reached = learn_and_play(cliff(), 4000, seed=0)
    assert reached
    assert total == -13  # the shortest way


def test_without_a_reward_dead_ends_attract() -> None:
    total, reached = learn_and_play(cliff(dead_end_reward=0.0), 500, seed=0)
    assert not reached
    assert total > -13
