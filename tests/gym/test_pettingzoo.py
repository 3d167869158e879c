"""Several agents: no combination of allowed actions exceeds a budget, of each or shared."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import warnings
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import aec_to_parallel, aec_to_parallel_wrapper, parallel_to_aec
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
    parallel_api_test(ParallelBudgetWrapper(Team(), 10**6, PRICES), num_cycles=20)
    api_test(AECBudgetWrapper(parallel_to_aec(Team()), 10**6, PRICES), num_cycles=20)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("shared", [False, True])
def test_the_checks_of_pettingzoo_with_dead_ends(shared: bool) -> None:
    """Agents that took their last action after a dead end have no rewards, terminations, truncations and infos."""
    api_test(AECBudgetWrapper(parallel_to_aec(Team()), 5, PRICES, shared=shared), num_cycles=20)
    parallel_api_test(ParallelBudgetWrapper(Team(), 5, PRICES, shared=shared, fallback="first"), num_cycles=20)
    env = AECBudgetWrapper(parallel_to_aec(Team()), 1, 1)
    env.reset()
    for _ in "abc":
        env.step(0)
    assert (env.agents, env.rewards) == (list("abc"), dict.fromkeys("abc", 1.0))
    env.step(None)
    assert env.rewards == {"b": 0, "c": 0}
    assert list(env.terminations) == list(env.truncations) == list(env.infos) == ["b", "c"]
    assert env.last()[1] == 1


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
    env = ParallelBudgetWrapper(Team(), 0, prices, lambda agent, seen, action: prices[agent][action], shared=True)
    env.reset()
    for _ in range(5):
        assert env.action_mask("a").tolist() == [True, False, False]  # a third of the refunds each
        env.step({"a": 0, "b": 0, "c": 0})
        env.reset()
    prices["a"] = [2, 2, 2]
    env = ParallelBudgetWrapper(Team(), 0, prices, lambda agent, seen, action: prices[agent][action], shared=True)
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


NOTHING = {"a": 0, "b": 0, "c": 0}


@pytest.mark.parametrize("fallback", [None, "first"])
def test_no_step_after_a_reset_that_raised(fallback: Any) -> None:
    inner = Team()
    env = ParallelBudgetWrapper(inner, 0, 1, fallback=fallback)
    turns = AECBudgetWrapper(parallel_to_aec(Team()), 0, 1, fallback=fallback)
    for wrapper, action in ((env, NOTHING), (turns, 0), (turns, None)):
        with pytest.raises(SolventError, match="reset: expected a start from which the budget can be kept"):
            wrapper.reset()
        with pytest.raises(PolicyError, match=r"step: expected reset\(\) first, found no episode"):
            wrapper.step(action)
        assert wrapper.agents == []
        assert wrapper.violations == 0
    assert not hasattr(inner, "taken")


def test_no_fallback_without_a_safe_action() -> None:
    env = ParallelBudgetWrapper(Team(), 0, 1, fallback="first")
    with pytest.raises(
        PolicyError, match=r"agent 'a', remaining 0: expected an action the mask allows \(none\), found 1"
    ):
        env._accounts.choose("a", 1, np.zeros(3, bool), "first")


def test_no_step_before_reset_or_after_the_end() -> None:
    team = ParallelBudgetWrapper(Team(length=1), 9, PRICES)
    assert team.agents == []
    for act in (lambda: team.step(NOTHING), lambda: team.action_mask("a")):
        with pytest.raises(PolicyError, match=r"(step|action_mask): expected reset\(\) first, found no episode"):
            act()
    team.reset()
    team.step(NOTHING)
    with pytest.raises(PolicyError, match=r"step: expected reset\(\) first, found an episode that is over"):
        team.step(NOTHING)
    assert team.action_mask("a").tolist() == [True] * 3  # none will be executed
    assert team.step({}) == ({},) * 5
    dead = ParallelBudgetWrapper(Team(), Fraction(1, 2), {**PRICES, "b": [Fraction(1, 3)] * 2})
    dead.reset()
    dead.step(NOTHING)
    with pytest.raises(PolicyError, match=r"step: expected reset\(\) first, found an episode that ended in a dead end"):
        dead.step(NOTHING)
    assert dead.step({}) == ({},) * 5
    with pytest.raises(PolicyError, match=r"step: expected reset\(\) first, found no episode"):
        ParallelBudgetWrapper(Team(), 9, PRICES).step({})


class Turns(AECEnv[str, Any, Any]):
    """Two agents that take turns; an action costs its number. An action of 3 is executed and then raises an error."""

    metadata = {"name": "turns", "render_modes": [], "is_parallelizable": True}  # noqa: RUF012

    def __init__(self, length: int = 100) -> None:
        self.possible_agents, self.render_mode, self._length = ["a", "b"], None, length

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(1)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(4)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.agent_selection, self.taken = ["a", "b"], "a", 0
        self.rewards, self._cumulative_rewards = {"a": 0.0, "b": 0.0}, {"a": 0.0, "b": 0.0}
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {"a": {"cost": 0}, "b": {"cost": 0}}
        self.total = 0

    def observe(self, agent: str) -> Any:
        return 0

    def step(self, action: Any) -> None:
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self.total, self.taken = self.total + action, self.taken + 1
        if action == 3:
            raise RuntimeError("connection lost")
        self.terminations = dict.fromkeys(self.agents, self.taken >= self._length)
        self.agent_selection = "b" if self.agent_selection == "a" else "a"


def test_agents_that_take_turns_before_reset() -> None:
    env = AECBudgetWrapper(Turns(), 6, [0, 1, 2, 3])
    assert env.agents == []
    assert env.num_agents == 0
    for name, read in (
        ("step", lambda: env.step(0)),
        ("action_mask", env.action_mask),
        ("observe", lambda: env.observe("a")),
        ("agent_selection", lambda: env.agent_selection),
        ("agent_selection", env.last),
        ("agent_iter", env.agent_iter),
        ("terminations", lambda: env.terminations),
        ("infos", lambda: env.infos),
    ):
        with pytest.raises(PolicyError, match=rf"^{name}: expected reset\(\) first, found no episode$"):
            read()
    env.reset()
    assert (env.agents, env.agent_selection, env.observe("a"), env.action_mask().all()) == (["a", "b"], "a", 0, True)


def refused_until_reset(env: Any) -> None:
    """Check that an episode that ended with an error is over, and that the next one begins as usual."""
    for act in (lambda: env.step(0), lambda: env.step(None), env.action_mask, lambda: env.observe("a"), env.last):
        with pytest.raises(PolicyError, match=r"expected reset\(\) first, found an episode that ended with an error"):
            act()
    assert env.agents == []
    assert all("action_mask" not in info for info in env.infos.values())
    env.reset()
    assert (env.spent, env.agents) == ({"a": 0, "b": 0}, ["a", "b"])
    assert "action_mask" in env.infos["a"]
    env.step(1)
    assert env.spent == {"a": 1, "b": 0}


def test_turns_after_an_error() -> None:
    inner = Turns()
    env = AECBudgetWrapper(inner, 3, [0, 1, 2, 3])
    env.reset()
    with pytest.raises(RuntimeError, match="connection lost"):
        env.step(3)
    assert (inner.total, env.spent["a"]) == (3, 3)
    refused_until_reset(env)
    costs = iter([9, 1])
    lying = AECBudgetWrapper(Turns(), 3, [0, 1, 2, 3], lambda agent, seen, action: next(costs))
    lying.reset()
    with pytest.raises(PolicyError, match="agent 'a', action 2, cost: expected at most 2, as cost_bound says, found 9"):
        lying.step(2)
    assert lying.violations == 1
    refused_until_reset(lying)
    calls = iter([0] * 4 + ["x"] + [1] * 100)
    silly = AECBudgetWrapper(Turns(), 3, lambda agent, seen, action: next(calls), lambda agent, seen, action: 0)
    silly.reset()
    with pytest.raises(ModelError, match="cost_bound of action 0: expected a finite number"):
        silly.step(1)  # the mask of the next agent is unknown
    with pytest.raises(PolicyError, match=r"expected reset\(\) first, found an episode that ended with an error"):
        silly.step(0)


def test_a_reset_of_turns_that_raises() -> None:
    class Broken(Turns):
        def reset(self, seed: int | None = None, options: Any = None) -> None:
            if options:
                raise RuntimeError("no connection")
            super().reset(seed, options)

    env = AECBudgetWrapper(Broken(), 3, [0, 1, 2, 3])
    env.reset()
    with pytest.raises(RuntimeError, match="no connection"):
        env.reset(options={"break": True})
    with pytest.raises(PolicyError, match=r"step: expected reset\(\) first, found no episode"):
        env.step(0)


def test_the_end_of_turns() -> None:
    """Ended agents take None; a masked or unknown action changes nothing, and the turn can be repeated."""
    inner = Turns(length=2)
    env = AECBudgetWrapper(inner, 1, [0, 1, 2, 2])
    env.reset()
    for wrong in (2, 7, None):
        with pytest.raises(PolicyError, match="agent 'a', remaining 1: expected an action"):
            env.step(wrong)
    env.step(1)
    env.step(0)
    with pytest.raises(PolicyError, match="agent 'a': expected None, as the agent has ended, found 1"):
        env.step(1)
    assert inner.total == 1
    env.step(None)
    env.step(None)
    assert env.agents == []
    with pytest.raises(PolicyError, match=r"step: expected reset\(\) first, found an episode that is over"):
        env.step(None)
    dead = AECBudgetWrapper(Turns(), 1, 1)
    dead.reset()
    dead.step(0)
    dead.step(0)
    assert (dead.agents, dead.terminations) == (["a", "b"], {"a": True, "b": True})
    with pytest.raises(PolicyError, match="agent 'a': expected None, as the episode is over, found 0"):
        dead.step(0)
    dead.step(None)
    assert dead.agent_selection == "b"
    dead.step(None)
    assert dead.agents == []
    with pytest.raises(PolicyError, match=r"step: expected reset\(\) first, found an episode that is over"):
        dead.step(None)


def test_conversions_around_the_wrapper() -> None:
    env: Any = aec_to_parallel(AECBudgetWrapper(parallel_to_aec(Team(length=5)), 20, PRICES))
    for _ in range(2):
        env.reset()
        while env.agents:
            env.step(dict.fromkeys(env.agents, 1))
        assert env.aec_env.spent == {"a": 5, "b": 15, "c": Fraction(1, 2)}


class Reporting(Team):
    """Reports the costs of some agents only."""

    def __init__(self, reports: dict[str, Any]) -> None:
        super().__init__()
        self.reports = reports

    def step(self, actions: dict[str, int]) -> Any:
        *rest, infos = super().step(actions)
        return *rest, {agent: {"cost": self.reports[agent]} for agent in infos if agent in self.reports}


def test_reported_costs_are_charged_by_default() -> None:
    inner = Reporting({"a": 0.1, "b": -1})
    env = ParallelBudgetWrapper(inner, 10, 2)
    env.reset()
    _, _, _, _, infos = env.step({"a": 1, "b": 1, "c": 1})
    assert env.spent == {"a": Fraction(1, 10), "b": -1, "c": 2}  # of c, the bound
    assert [infos[agent]["remaining"] for agent in "abc"] == [9.9, 11.0, 8.0]
    del inner.reports["a"]
    env.step({"a": 1, "b": 1, "c": 1})
    assert env.spent == {"a": Fraction(21, 10), "b": -2, "c": 4}
    inner.reports["c"] = 3
    with pytest.raises(PolicyError, match="agent 'c', action 1, cost: expected at most 2, as cost_bound says, found 3"):
        env.step({"a": 1, "b": 1, "c": 1})
    assert env.spent["c"] == 7
    with pytest.raises(PolicyError, match=r"step: expected reset\(\) first, found an episode that ended with an error"):
        env.step(NOTHING)
    with pytest.raises(PolicyError, match=r"action_mask: expected reset\(\) first, found an episode that ended with"):
        env.action_mask("a")
    inner.reports = {"b": "much"}
    env.reset()
    with pytest.raises(ModelError, match=r"agent 'b', cost: expected a finite number .*found 'much'"):
        env.step(NOTHING)


def test_turns_are_charged_as_bounded_by_default() -> None:
    env = AECBudgetWrapper(Turns(), 10, [0, 1, 2, 3])
    env.reset()
    env.step(2)
    assert env.spent == {"a": 2, "b": 0}  # the cost of 0 in `infos` is of an earlier step


def test_conversions_are_charged_as_bounded_by_default() -> None:
    """In an environment whose agents take turns, a reported cost may belong to another step."""
    for cost, spent in ((None, 2), ("cost", 0)):
        env = ParallelBudgetWrapper(aec_to_parallel_wrapper(Turns()), 10, [0, 1, 2, 3], cost)
        env.reset()
        env.step({"a": 2, "b": 2})
        assert env.spent == {"a": spent, "b": spent}


def test_wrong_kinds_of_environments() -> None:
    cart = gymnasium.make("CartPole-v1")
    vector = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")])
    for wrapper, env, text in (
        (
            ParallelBudgetWrapper,
            cart,
            "a ParallelEnv of PettingZoo, found .*CartPole.*; BudgetWrapper is for Gymnasium",
        ),
        (AECBudgetWrapper, cart, "an AECEnv of PettingZoo, found .*CartPole.*; BudgetWrapper is for Gymnasium"),
        (ParallelBudgetWrapper, vector, "a ParallelEnv of PettingZoo, found .*; VectorBudgetWrapper is for vectors"),
        (AECBudgetWrapper, vector, "an AECEnv of PettingZoo, found .*; VectorBudgetWrapper is for vectors"),
        (
            ParallelBudgetWrapper,
            Turns(),
            "a ParallelEnv of PettingZoo, found .*; AECBudgetWrapper is for agents that t",
        ),
        (
            AECBudgetWrapper,
            Team(),
            "an AECEnv of PettingZoo, found .*; ParallelBudgetWrapper is for agents that act at",
        ),
        (ParallelBudgetWrapper, 3, "a ParallelEnv of PettingZoo, found 3$"),
        (AECBudgetWrapper, None, "an AECEnv of PettingZoo, found None$"),
        (ParallelBudgetWrapper, Team, "a ParallelEnv of PettingZoo, found <class .*; pass an instance of the class"),
    ):
        with pytest.raises(ModelError, match=f"^{wrapper.__name__}: expected {text}"):
            wrapper(env, 9, 1)  # type: ignore[operator]

    class Nobody(Team):
        def __init__(self) -> None:
            super().__init__()
            del self.possible_agents

    with pytest.raises(
        ModelError, match=r"ParallelBudgetWrapper: expected a ParallelEnv .* with possible_agents, found"
    ):
        ParallelBudgetWrapper(Nobody(), 9, 1)


FUNCTION = r"a function of \(agent, observation, action\)"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"cost_bound": {**PRICES, "aa": 1}},
            r"cost_bound: expected agents \('a', 'b', 'c'\), found 'aa'; did you mean",
        ),
        ({"cost_bound": lambda seen, action: 1}, rf"cost_bound: expected {FUNCTION}, found one of \(seen, action\)"),
        ({"cost_bound": {**PRICES, "b": lambda: 1}}, rf"cost_bound: expected {FUNCTION}, found one of \(\)"),
        ({"cost": lambda a, b, c, d: 1}, rf"cost: expected {FUNCTION}, found one of \(a, b, c, d\)"),
        ({"cost": 3}, rf"cost: expected .*{FUNCTION}, found 3"),
        ({"cost": {"a": 1}}, rf"cost: expected .*{FUNCTION}, found {{'a': 1}}"),
        ({"shared": "yes"}, "shared: expected True or False, found 'yes'"),
        ({"shared": 1}, "shared: expected True or False, found 1"),
        ({"fallback": np.array([0, 1])}, r"fallback: expected None or 'first', found array\(\[0, 1\]\)"),
        ({"fallback": np.array("first")}, "fallback: expected None or 'first', found array"),
        ({"budget": 10**400}, r"budget: expected an amount of at most 1e300, found about 1e\+400"),
        (
            {"budget": {"a": 1, "b": -(10**400), "c": 1}},
            r"budget, b: expected an amount of at most 1e300, found about -1e\+400",
        ),
        ({"budget": float("nan")}, "budget: expected a finite number .*found nan"),
        ({"budget": float("inf")}, "budget: expected a finite number .*found inf"),
        ({"budget": "much"}, "budget: expected a finite number .*found 'much'"),
        ({"budget": None}, "budget: expected a finite number .*found None"),
    ],
)
@pytest.mark.parametrize("turns", [False, True])
def test_mistakes_in_arguments(options: dict[str, Any], text: str, turns: bool) -> None:
    arguments: dict[str, Any] = {"budget": 9, "cost_bound": PRICES, **options}
    with pytest.raises(ModelError, match=f"^{text}"):
        AECBudgetWrapper(parallel_to_aec(Team()), **arguments) if turns else ParallelBudgetWrapper(Team(), **arguments)


def test_functions_that_are_accepted() -> None:
    class Price:
        def __call__(self, agent: str, seen: Any, action: int, /, factor: int = 1) -> Fraction:
            return factor * price(agent, action)

    for function in (Price(), lambda *arguments: price(arguments[0], arguments[2]), max):
        ParallelBudgetWrapper(Team(), 9, function, function)
    assert ParallelBudgetWrapper(Team(), 9, Price(), shared=np.bool_(True)).remaining("a") == 9  # type: ignore[arg-type]


@pytest.mark.parametrize("shared", [False, True])
def test_unknown_agents(shared: bool) -> None:
    env = ParallelBudgetWrapper(Team(), 9, PRICES, shared=shared)
    turns = AECBudgetWrapper(parallel_to_aec(Team()), 9, PRICES, shared=shared)
    for unknown in ("aa", ["a"], 3):
        found = str(unknown) if isinstance(unknown, list | int) else repr(unknown)
        for wrapper in (env, turns):
            with pytest.raises(ModelError) as caught:
                wrapper.remaining(unknown)
            assert str(caught.value).startswith(f"remaining: expected agents ('a', 'b', 'c'), found {found}")
        env.reset()
        with pytest.raises(ModelError) as caught:
            env.action_mask(unknown)
        assert str(caught.value).startswith(f"action_mask: expected agents ('a', 'b', 'c'), found {found}")


def test_mistakes_in_actions() -> None:
    env = ParallelBudgetWrapper(Team(), 9, PRICES)
    env.reset()
    for actions, text in (
        (None, "step: expected a dict of actions by agent, found None"),
        (0, "step: expected a dict of actions by agent, found 0"),
        ([0, 0, 0], r"step: expected a dict of actions by agent, found \[0, 0, 0\]"),
        ({"a": 0, "b": 0, "cc": 0}, r"step: expected agents \('a', 'b', 'c'\), found 'cc'; did you mean 'c'\?"),
        ({**NOTHING, "zebra": 0}, r"step: expected agents \('a', 'b', 'c'\), found 'zebra'"),
    ):
        with pytest.raises(PolicyError, match=f"^{text}"):
            env.step(actions)  # type: ignore[arg-type]
    env.step(NOTHING)  # nothing was executed


def test_actions_of_agents_that_have_ended() -> None:
    class Leaving(Team):
        def step(self, actions: dict[str, int]) -> Any:
            found = super().step(actions)
            self.agents = ["a", "b"]
            return found

    inner = Leaving()
    env = ParallelBudgetWrapper(inner, 9, PRICES)
    env.reset()
    env.step(NOTHING)
    assert env.agents == ["a", "b"]
    assert env.action_mask("c").tolist() == [True] * 4  # none will be executed
    env.step({**NOTHING, "c": 2})
    assert inner.taken == {"a": 0, "b": 0}


def test_refunds_beyond_the_range_of_floats() -> None:
    env = ParallelBudgetWrapper(Team(), 1, -(10**400), lambda agent, seen, action: -(10**400))
    _, infos = env.reset()
    _, _, _, _, infos = env.step(NOTHING)
    assert infos["a"]["remaining"] == float("inf")
    assert env.remaining("a") == 1 + 10**400


def test_starts_without_a_safe_action() -> None:
    """The message names the agent, and says whether the budget is the reason."""

    class Idle(Team):
        def _seen(self) -> dict[str, Any]:
            seen = super()._seen()
            seen["b"]["action_mask"][:] = 0
            return seen

    start = "^reset: expected a start from which the budget can be kept, found no safe action of agent"
    free = {"a": 0, "b": 0, "c": 0}
    for env, text in (
        (ParallelBudgetWrapper(Team(), 0, PRICES), "'b' with remaining 0; raise the budget$"),
        (ParallelBudgetWrapper(Idle(masked=True), 9, PRICES), "'b', whose own mask or cost_bound allows none$"),
        (ParallelBudgetWrapper(Team(), 9, free | {"c": None}), "'c', whose own mask or cost_bound allows none$"),
        (AECBudgetWrapper(parallel_to_aec(Team()), 0, 1), "'a' with remaining 0; raise the budget$"),
        (AECBudgetWrapper(parallel_to_aec(Team()), 0, free | {"a": [None] * 3}), "'a', whose own mask or cost_bound"),
    ):
        with pytest.raises(SolventError, match=f"{start} {text}"):
            env.reset()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("turns", [False, True])
def test_budgets_of_each_and_of_all(masked: bool, turns: bool) -> None:
    """One wrapper around another: no agent exceeds its own budget, nor all together the shared one."""
    rng, own, together = np.random.default_rng(0), {"a": 9, "b": 4, "c": 9}, 11
    dead = {True: 0, False: 0}  # by whether the budget of an agent ended the episode

    def check(inner: Any) -> None:
        assert inner.spent == env.spent
        assert all(inner.spent[agent] <= own[agent] for agent in own)
        assert sum(inner.spent.values()) <= together

    if turns:
        aec = AECBudgetWrapper(parallel_to_aec(Team(masked)), own, PRICES)
        env: Any = AECBudgetWrapper(aec, together, PRICES, shared=True)
        for _ in range(20):
            env.reset()
            for _ in env.agent_iter():
                _, _, termination, truncation, info = env.last()
                over = termination or truncation
                env.step(None if over else int(rng.choice(np.flatnonzero(info["action_mask"]))))
                check(aec)
            dead[aec._stopped is not None] += info["dead_end"]
    else:
        single = ParallelBudgetWrapper(Team(masked), own, PRICES)
        env = ParallelBudgetWrapper(single, together, PRICES, shared=True)
        for _ in range(20):
            _, infos = env.reset()
            while env.agents:
                masks = {agent: infos[agent]["action_mask"] for agent in env.agents}
                infos = env.step({agent: int(rng.choice(np.flatnonzero(mask))) for agent, mask in masks.items()})[4]
                check(single)
            dead[not single.agents] += infos["a"]["dead_end"]
    assert min(dead.values()) > 1
    assert env.violations == 0
    with pytest.raises(ModelError, match="omit the fallback of the ParallelBudgetWrapper inside"):
        ParallelBudgetWrapper(ParallelBudgetWrapper(Team(), 9, 0, fallback="first"), 9, 0)
