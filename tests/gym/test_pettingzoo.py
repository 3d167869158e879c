"""Several agents: no combination of allowed actions exceeds a budget, of each or shared."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec
from pettingzoo.utils.wrappers import BaseParallelWrapper

from solvent.errors import ModelError, PolicyError, SolventError
from solvent.gym.pettingzoo import AECBudgetWrapper, ParallelBudgetWrapper

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its own environments, if pygame is installed
    from pettingzoo.test import api_test, parallel_api_test

PRICES = {"a": [0, 1, 2], "b": [Fraction(1, 3), 3], "c": [0, "0.1", 5, 1]}


class Team(ParallelEnv[str, Any, int]):
    """Agents that act at the same time; with masks, the last action of each is illegal at even steps."""

    metadata = {"name": "team", "render_modes": []}  # noqa: RUF012

    def __init__(self, masked: bool = False, length: int = 30) -> None:
        self.possible_agents, self.render_mode = list(PRICES), None
        self._masked, self._length = masked, length
        cell = spaces.Box(0, 1000, (1,), np.float32)
        masks = {agent: spaces.Box(0, 1, (len(each),), np.int8) for agent, each in PRICES.items()}
        parts = {agent: spaces.Dict({"observation": cell, "action_mask": mask}) for agent, mask in masks.items()}
        self.observation_spaces: Any = parts if masked else dict.fromkeys(PRICES, cell)
        self.action_spaces: Any = {agent: spaces.Discrete(len(each)) for agent, each in PRICES.items()}

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def _seen(self) -> dict[str, Any]:
        cell = np.array([self._step], np.float32)
        if not self._masked:
            return dict.fromkeys(self.agents, cell)
        self.legal = {agent: np.ones(len(PRICES[agent]), np.int8) for agent in self.agents}
        for mask in self.legal.values():
            mask[-1] = self._step % 2
        return {agent: {"observation": cell, "action_mask": mask.copy()} for agent, mask in self.legal.items()}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self._step = list(self.possible_agents), 0
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        assert set(actions) == set(self.agents)
        if self._masked:
            assert all(self.legal[agent][action] for agent, action in actions.items())
        self._step += 1
        self.taken = dict(actions)
        infos = {agent: {"cost": Fraction(PRICES[agent][action])} for agent, action in actions.items()}
        rewards, over = dict.fromkeys(actions, 1.0), self._step >= self._length
        seen = self._seen()
        self.agents = [] if over else self.agents
        return seen, rewards, dict.fromkeys(actions, False), dict.fromkeys(actions, over), infos


def price(agent: str, action: int) -> Fraction:
    return Fraction(PRICES[agent][action])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("cost", [None, "cost", lambda agent, seen, action: price(agent, action)])
def test_agents_that_act_together(masked: bool, shared: bool, cost: Any) -> None:
    budget = 20 if shared else {"a": 3, "b": 8, "c": "2.5"}
    env = ParallelBudgetWrapper(Team(masked), budget, PRICES, cost, shared=shared)
    rng = np.random.default_rng(0)
    dead = full = 0
    for _ in range(12):
        _, infos = env.reset()
        spent = dict.fromkeys(PRICES, Fraction(0))
        while env.agents:
            allowed = {agent: np.flatnonzero(infos[agent]["action_mask"]) for agent in env.agents}
            for joint in itertools.product(*allowed.values()):  # any combination fits
                total = {agent: spent[agent] + price(agent, a) for agent, a in zip(allowed, joint, strict=True)}
                if shared:
                    assert sum(total.values()) <= 20
                else:
                    assert all(total[agent] <= Fraction(limit) for agent, limit in budget.items())  # type: ignore[attr-defined]
            actions = {agent: int(rng.choice(each)) for agent, each in allowed.items()}
            _, _, terminations, _, infos = env.step(actions)
            spent = {agent: spent[agent] + price(agent, a) for agent, a in actions.items()}
            assert env.spent == spent
            dead += all(terminations.values())
            assert all(info["dead_end"] == all(terminations.values()) for info in infos.values())
            full += not all(terminations.values()) and not env.agents
    assert env.violations == 0
    assert dead > 3  # b has no free action
    assert full == 0


def test_masks_of_the_environment_are_replaced() -> None:
    env = ParallelBudgetWrapper(Team(masked=True), 100, PRICES)
    seen, infos = env.reset()
    for agent in env.agents:
        assert seen[agent]["action_mask"].tolist() == infos[agent]["action_mask"].tolist()
        assert seen[agent]["action_mask"][-1] == 0
        assert env.observation_space(agent).contains(seen[agent])
    assert env.action_mask("a").tolist() == [True, True, False]


@pytest.mark.parametrize("shared", [False, True])
def test_agents_that_take_turns(shared: bool) -> None:
    budget = 12 if shared else 5
    env = AECBudgetWrapper(parallel_to_aec(Team(length=40)), budget, PRICES, shared=shared)
    rng = np.random.default_rng(1)
    ends = 0
    for _ in range(8):
        env.reset(seed=1)
        spent = dict.fromkeys(PRICES, Fraction(0))
        for agent in env.agent_iter(10_000):
            _, _, termination, truncation, info = env.last()
            if termination or truncation:
                ends += info["dead_end"]
                env.step(None)
                continue
            mask = info["action_mask"].astype(bool)
            total = sum(spent.values(), Fraction(0)) if shared else spent[agent]
            assert mask.tolist() == [total + price(agent, a) <= budget for a in range(len(mask))]
            action = int(rng.choice(np.flatnonzero(mask)))
            env.step(action)
            spent[agent] += price(agent, action)
            assert env.spent == spent
        assert not env.agents
    assert ends == 8 * 3  # b runs out, and all are told
    assert env.violations == 0


@pytest.mark.filterwarnings("ignore::UserWarning")  # observations are a single number
def test_the_checks_of_pettingzoo() -> None:
    free = {"a": [0, 1, 2], "b": [0, 3], "c": [0, 1, 5, 1]}
    parallel_api_test(ParallelBudgetWrapper(Team(), 10**6, free), num_cycles=20)
    api_test(AECBudgetWrapper(parallel_to_aec(Team()), 10**6, free), num_cycles=20)


def test_masked_actions() -> None:
    env = ParallelBudgetWrapper(Team(), {"a": 1, "b": 9, "c": 9}, PRICES)
    with pytest.raises(PolicyError, match=r"step: expected reset\(\) first"):
        env.step({"a": 0})
    env.reset()
    with pytest.raises(
        PolicyError, match=r"agent 'a', remaining 1: expected an action the mask allows \(0, 1\), found 2"
    ):
        env.step({"a": 2, "b": 0, "c": 0})
    with pytest.raises(PolicyError, match="step: expected an action of each agent"):
        env.step({"a": 0})
    with pytest.raises(PolicyError, match="agent 'a', remaining 1: expected an action of Discrete"):
        env.step({"a": 7, "b": 0, "c": 0})
    env.step({"a": 1, "b": 0, "c": 0})
    replaced = ParallelBudgetWrapper(Team(), {"a": 1, "b": 9, "c": 9}, PRICES, fallback="first")
    replaced.reset()
    replaced.step({"a": 2, "b": 0, "c": 0})
    assert replaced.unwrapped.taken["a"] == 0
    turns = AECBudgetWrapper(parallel_to_aec(Team()), 1, PRICES)
    turns.reset()
    with pytest.raises(PolicyError, match="agent 'a', remaining 1"):
        turns.step(2)


def test_mistakes_with_several_agents() -> None:
    for options, text in (
        ({"budget": {"a": 1}}, "budget: expected a number for each agent, found none for 'b'"),
        ({"budget": {"aa": 1}}, r"budget: expected agents \('a', 'b', 'c'\), found 'aa'"),
        ({"budget": {"a": 1}, "shared": True}, "budget: expected one number, as it is shared"),
        ({"cost_bound": {"a": 1}}, "cost_bound: expected a bound for each agent, found none for 'b'"),
        ({"cost_bound": None}, "cost_bound: expected a bound on the cost of actions, found none"),
        ({"fallback": "last"}, "fallback: expected None or 'first', found 'last'"),
    ):
        with pytest.raises(ModelError, match=text):
            ParallelBudgetWrapper(Team(), **{"budget": 9, "cost_bound": PRICES, **options})  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"cost: expected a function of \(agent, observation, action\), found 'cost'"):
        AECBudgetWrapper(parallel_to_aec(Team()), 9, PRICES, "cost")  # type: ignore[arg-type]
    with pytest.raises(SolventError, match="reset: expected a start from which the budget can be kept"):
        ParallelBudgetWrapper(Team(), 0, PRICES).reset()
    lying = ParallelBudgetWrapper(Team(), 9, {**PRICES, "b": [0, 0]}, "cost")
    lying.reset()
    with pytest.raises(
        PolicyError, match="agent 'b', action 0, cost: expected at most 0, as cost_bound says, found 1/3"
    ):
        lying.step({"a": 0, "b": 0, "c": 0})
    silent = ParallelBudgetWrapper(Team(), 9, PRICES, "fuel")
    silent.reset()
    with pytest.raises(ModelError, match="info of agent 'a': expected a cost under 'fuel'"):
        silent.step({"a": 0, "b": 0, "c": 0})


def test_refunds_at_the_same_time() -> None:
    """What agents spend and give back in one step counts together: no limit is broken between them."""
    prices = {"a": [0, 2, 2], "b": [-1, -1], "c": [-1, -1, -1, -1]}
    env = ParallelBudgetWrapper(Team(), 0, prices, shared=True)
    env.reset()
    for _ in range(5):
        assert env.action_mask("a").tolist() == [True, False, False]  # a third of the refunds each
        env.step({"a": 0, "b": 0, "c": 0})
        env.reset()
    env = ParallelBudgetWrapper(Team(), 0, {"a": [2, 2, 2], "b": [-1, -1], "c": [-1, -1, -1, -1]}, shared=True)
    env.reset()
    for _ in range(5):
        env.step({"a": 0, "b": 0, "c": 0})
    assert (sum(env.spent.values()), env.violations) == (0, 0)


@pytest.mark.parametrize(("shared", "count"), [(False, 2), (True, 1)])
def test_all_agents_are_charged_before_an_error(shared: bool, count: int) -> None:
    """A wrong bound of one agent does not hide what the others spent."""
    env = ParallelBudgetWrapper(Team(), 2, 0, cost="cost", shared=shared)
    env.reset()
    with pytest.raises(PolicyError, match="agent 'a', action 2, cost: expected at most 0, as cost_bound says, found 2"):
        env.step({"a": 2, "b": 1, "c": 2})
    assert env.spent == {"a": 2, "b": 3, "c": 5}
    assert env.violations == count
    missing = ParallelBudgetWrapper(Team(), 2, 0, cost="price")
    missing.reset()
    with pytest.raises(
        ModelError, match=r"info of agent 'a': expected a cost under 'price', found the keys \['cost'\]"
    ):
        missing.step({"a": 0, "b": 0, "c": 0})


def test_copies_of_wrappers_of_several_agents() -> None:
    env = ParallelBudgetWrapper(Team(), 9, PRICES)
    env.reset()
    env.step({"a": 1, "b": 0, "c": 0})
    twin = pickle.loads(pickle.dumps(env))
    assert twin.spent == env.spent
    assert isinstance(AECBudgetWrapper(parallel_to_aec(Team()), 9, PRICES), AECEnv)


def test_without_the_package() -> None:
    code = "import sys; sys.modules['pettingzoo'] = None; import solvent.gym.pettingzoo"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'expected pettingzoo, found no such package; pip install "solvent[pettingzoo]"' in done.stderr


class Shared(ParallelEnv[str, Any, int]):
    """One agent, whose observation is always the same array; an action costs what the observation says."""

    metadata = {"name": "shared", "render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        self.possible_agents, self.render_mode, self.most = ["a"], None, 0
        self._cell = np.zeros(1, np.float32)

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 1000, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self._spent = ["a"], 0
        self._cell[:] = 8
        return {"a": self._cell}, {"a": {}}

    def step(self, actions: dict[str, int]) -> Any:
        self._spent += actions["a"] * int(self._cell[0])
        self.most = max(self.most, self._spent)
        self._cell[:] = 9 - self._cell[0]
        return {"a": self._cell}, {"a": 1.0}, {"a": False}, {"a": False}, {"a": {}}


def by_cell(agent: str, seen: Any, action: int) -> int:
    return action * int(seen[0])


@pytest.mark.parametrize("cost", [None, by_cell])
@pytest.mark.parametrize("turns", [False, True])
def test_observations_in_one_array(cost: Any, turns: bool) -> None:
    """What is charged depends on the observation before the step, also if the environment has overwritten it."""
    inner = Shared()
    if turns:
        aec = AECBudgetWrapper(parallel_to_aec(inner), 30, by_cell, cost, fallback="first")
        aec.reset()
        for _ in range(20):
            aec.step(1)
    else:
        env = ParallelBudgetWrapper(inner, 30, by_cell, cost, fallback="first")
        env.reset()
        for _ in range(20):
            env.step({"a": 1})
    assert inner.most == 30


def test_wrappers_inside_that_change_actions() -> None:
    class Turned(BaseParallelWrapper[str, Any, int]):
        def step(self, actions: dict[str, int]) -> Any:
            return super().step({agent: 1 - action for agent, action in actions.items()})

    class Looked(BaseParallelWrapper[str, Any, int]):
        passes_actions = True

        def step(self, actions: dict[str, int]) -> Any:
            return super().step(actions)

    with pytest.raises(ModelError, match=r"ParallelBudgetWrapper: .*found Turned, .*put Turned around ParallelBudgetW"):
        ParallelBudgetWrapper(Turned(Shared()), 30, by_cell)
    with pytest.raises(ModelError, match=r"AECBudgetWrapper: .*found Turned, which overrides step or reset"):
        AECBudgetWrapper(parallel_to_aec(Turned(Shared())), 30, by_cell)
    patched = BaseParallelWrapper(Shared())
    patched.step = lambda actions: patched.env.step({"a": 1})  # type: ignore[method-assign]
    with pytest.raises(ModelError, match="found BaseParallelWrapper, which overrides step or reset"):
        ParallelBudgetWrapper(patched, 30, by_cell)
    ParallelBudgetWrapper(Looked(BaseParallelWrapper(Shared())), 30, by_cell)
