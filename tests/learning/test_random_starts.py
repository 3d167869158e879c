"""Episodes that begin in a random state, and states that are tuples."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from effort import draws
from solvent import CMDP, ModelError, Status, UnmodeledOutcome
from solvent.learning.starts import START


def drawn_model(seed: int, budget: Any = 3) -> CMDP:
    rng = np.random.default_rng(seed)
    b = CMDP.builder(horizon=3, start={0: 0.25, 1: 0.75}, resources=["cost"], budget=budget)
    for state in range(3):
        for action in range(2):
            chance = round(float(rng.uniform(0.1, 0.9)), 3)
            after, costs = rng.integers(0, 3, 2).tolist(), rng.integers(-1, 3, 2).tolist()
            pairs = list(zip([chance, 1 - chance], after, costs, strict=True))
            if pairs[0][1:] == pairs[1][1:]:
                pairs = [(1.0, *pairs[0][1:])]
            b.add(state, action, reward=round(float(rng.random()), 3), outcomes=pairs)
    return b.build()


@draws(30)
@given(seed=st.integers(0, 10**6), budget=st.sampled_from([2, [1, 2, 4]]), options=st.sampled_from(
    [{}, {"pool": False}, {"stationary": False}, {"bonus": "theory"}, {"cost_support": "learned"}, {"strict": True}]
))  # fmt: skip
def test_drawn_starts_against_the_exact_optimum(seed: int, budget: Any, options: dict[str, Any]) -> None:
    model = drawn_model(seed, solvent.Budget(upper=budget))
    best = solvent.solve(model)
    learned = solvent.learn(model, epsilon=0.02, max_episodes=3000, seed=seed, **options)
    if best.status is Status.INFEASIBLE:
        assert learned.status is Status.INFEASIBLE
        return
    if options != {"cost_support": "learned"}:
        assert learned.violations == 0
        assert learned.value_upper >= best.value - 1e-9
        report = solvent.verify(model, learned.policy)
        assert report.feasible
        assert learned.value_lower <= report.value + 1e-9
        if "bonus" not in options:
            assert report.value >= best.value - 0.15
    assert learned.policy.horizon == 3
    assert START not in [learned.policy.states[s] for s in learned.policy.group_state.tolist()]


class Pairs(gymnasium.Env[Any, Any]):
    """Begins anywhere; states are a place and a light. Records the most ever spent, and whether a limit was broken."""

    def __init__(self, space: gymnasium.Space[Any], make: Any, limit: int) -> None:
        self.observation_space, self.action_space = space, gymnasium.spaces.Discrete(3)
        self.make, self.limit, self.over, self.most = make, limit, 0, 0
        self.place = self.light = self.spent = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.light, self.spent = int(self.np_random.integers(3)), 0, 0
        return self.make(self.place, self.light), {}

    def step(self, action: Any) -> Any:
        cost = int(action) * int(self.np_random.integers(2))
        self.spent += cost
        self.most = max(self.most, self.spent)
        self.over += self.spent > self.limit
        self.place, self.light = int(self.np_random.integers(3)), int(self.np_random.integers(2))
        reward = float(action) / 2 * self.light
        return self.make(self.place, self.light), reward, False, False, {"cost": cost}


two, three = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(3, start=5)
SPACES = {
    "tuple": (gymnasium.spaces.Tuple((three, two)), lambda place, light: (place + 5, light), (5, 0)),
    "dict": (gymnasium.spaces.Dict(a=three, b=two), lambda p, light: {"b": light, "a": np.int64(p + 5)}, (5, 0)),
    "nested": (
        gymnasium.spaces.Dict(x=gymnasium.spaces.Tuple((three,)), y=two), lambda p, light: {"x": (p + 5,), "y": light},
        ((5,), 0),
    ),
    "multi": (gymnasium.spaces.MultiDiscrete([3, 2]), lambda place, light: np.array([place, light]), (0, 0)),
    "binary": (gymnasium.spaces.MultiBinary(3), lambda p, light: np.array([p == 1, p == 2, light], np.int8), (0, 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", SPACES)
def test_states_that_are_tuples(name: str) -> None:
    space, make, first = SPACES[name]
    env = Pairs(space, make, 3)
    learned = solvent.learn(
        env, 4, 3, cost_bound=lambda state, action: action, random_start=True, max_episodes=300, seed=1
    )
    assert env.over == learned.violations == 0
    assert env.most == 3
    assert learned.costs.max() == 3
    assert first in learned.policy.states
    agent = learned.policy.agent(state=first)
    assert agent.act() in (0, 1, 2)


def test_a_draw_in_an_environment_with_a_known_support() -> None:
    lake = gymnasium.make("FrozenLake-v1", max_episode_steps=100)

    class Anywhere(gymnasium.Wrapper[Any, Any, Any, Any]):
        passes_actions = True

        def reset(self, **options: Any) -> Any:
            super().reset(**options)
            self.unwrapped.s = int(self.unwrapped.np_random.integers(2))
            return self.unwrapped.s, {}

    single = CMDP.from_gymnasium(lake, cost=1, horizon=8, budget=8)
    from dataclasses import replace

    support = replace(single, start={0: 0.5, 1: 0.5})
    learned = solvent.learn(Anywhere(lake), 8, support=support, cost=1, return_range=(0, 1), max_episodes=200)
    assert learned.violations == 0
    assert learned.policy.fingerprint == support.fingerprint
    assert solvent.verify(support, learned.policy).feasible


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, r"reset: expected every episode to begin in state \(\d, 0\), found \(\d, 0\); pass random_start=True"),
        (
            {"random_start": True, "support": {(0, 0): [(0, 1)]}, "cost_bound": None},
            "support: expected a model, which has the first states, with random_start=True, found",
        ),
    ],
)
def test_starts_that_are_not_announced(options: dict[str, Any], text: str) -> None:
    space, make, _ = SPACES["tuple"]
    with pytest.raises(ModelError, match=text):
        solvent.learn(Pairs(space, make, 3), 4, 3, max_episodes=50, **{"cost_bound": [0, 1, 2], **options})


def test_other_misuse() -> None:
    with pytest.raises(ModelError, match="random_start: expected False for a model, which has its first states, found"):
        solvent.learn(drawn_model(1), random_start=True)
    wide = gymnasium.spaces.MultiDiscrete([1000, 1001])
    with pytest.raises(ModelError, match="observation_space: expected at most 1,000,000 states, found 1,001,000"):
        solvent.learn(Pairs(wide, tuple, 3), 4, 3, cost_bound=1)
    space, _, _ = SPACES["dict"]
    with pytest.raises(ModelError, match=r"reset, observation: expected one of the space, found \{'a': 9, 'b': 0\}"):
        solvent.learn(Pairs(space, lambda p, light: {"a": 9, "b": light}, 3), 4, 3, cost_bound=1)


class Three(gymnasium.Env[Any, Any]):
    """Begins in state 0 or 1 and goes on for ever; every step earns `reward` and costs `cost`."""

    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(1)

    def __init__(self, reward: float = 0.5, cost: float = 1) -> None:
        self.reward, self.cost, self.state = reward, cost, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(2))
        return self.state, {}

    def step(self, action: int) -> Any:
        return self.state, self.reward, False, False, {"cost": self.cost}


def test_errors_count_the_steps_of_the_environment() -> None:
    """The step that draws the first state has no number."""
    options: dict[str, Any] = {"cost_bound": 1, "random_start": True}
    short = gymnasium.wrappers.TimeLimit(Three(), 3)
    with pytest.raises(ModelError, match=r"step 3: expected the episode to continue, as the horizon is 4, found"):
        solvent.learn(short, 4, 4, **options)
    with pytest.raises(ModelError, match=r"step 0, reward: expected a number from 0 to 1, found 2"):
        solvent.learn(Three(reward=2), 4, 4, **options)
    with pytest.raises(UnmodeledOutcome, match=r"step 0, state [01], action 0: expected cost at most 1") as caught:
        solvent.learn(Three(cost=2), 4, 4, **options)
    assert caught.value.step == 0


def test_a_first_state_that_the_support_does_not_have() -> None:
    b = CMDP.builder(horizon=4, start={0: 0.5, 2: 0.5}, resources=["cost"])
    for state in range(3):
        b.add(state, 0, outcomes=[(1, state, 1)])
    with pytest.raises(
        ModelError, match=r"reset: expected the episode to begin in 0 or 2, as the support says, found 1"
    ):
        solvent.learn(Three(), 4, 4, support=b.build())


@pytest.mark.parametrize("cost_support", ["known", "learned"])
def test_states_may_have_any_name(cost_support: Any) -> None:
    b = CMDP.builder(horizon=3, start={"start": 0.5, "unexplored": 0.5}, resources=["cost"], budget=3)
    for state, after in (("start", "over"), ("unexplored", "gone"), ("gone", "start")):
        b.add(state, "go", reward=1, outcomes=[(0.5, state, 1), (0.5, after, 0)])
    model = b.build()
    learned = solvent.learn(model, cost_support=cost_support, max_episodes=300, epsilon=0.01)
    assert solvent.verify(model, learned.policy).value == pytest.approx(solvent.solve(model).value)
