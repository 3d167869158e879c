"""Environments and masks of models with saturating resources, initial amounts, drawn starts, end rewards and goals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest

import solvent
from accounts import FEATURES, Case, random_case
from effort import seeds
from solvent.errors import BudgetError, ModelError, PolicyError, SolventError, UnmodeledOutcome
from solvent.gym import BudgetWrapper, ModelEnv
from solvent.gym.exact_masks import NodeRule, ThresholdRule, choose_rule
from solvent.model.cmdp import CMDP


def play(env: BudgetWrapper, inner: ModelEnv, case: Case, seed: int) -> int:
    """Play at random among safe actions; masks must be as defined, and nothing may be broken. Return the steps."""
    rng, steps = np.random.default_rng(seed), 0
    starts = {place[0] for _, place in case.starts()}
    for episode in range(4):
        _, info = env.reset(seed=seed if episode == 0 else None)
        assert env.spent == dict(zip(case.limits.resources, case.limits.initial, strict=True))
        assert case.model.state_index(inner.state) in starts
        for step in range(case.model.horizon):
            place = case.model.state_index(inner.state), tuple(env.spent.values())
            expected = [] if inner.done else case.safe_actions(step, place)
            assert env.safe_actions().tolist() == expected
            assert np.flatnonzero(env.action_masks()).tolist() == (expected or list(range(env.action_space.n)))
            if not expected:
                assert step == 0 or inner.done, "a safe action led to a dead end"
                lost = inner.done and case.value(step, place) == -math.inf
                assert step == 0 or not lost
                assert info["violation"] == lost
                assert info["dead_end"] == (not inner.done)
                break
            observation, _, terminated, _, info = env.step(int(rng.choice(env.safe_actions())))
            steps += 1
            assert case.keeps(step, tuple(env.spent.values()))
            assert {name: inner.spent[name] for name in env.spent} == env.spent
            assert not info["violation"]
            assert terminated == inner.done
            assert env.observation_space.contains(observation)
    return steps


@pytest.mark.parametrize("seed", seeds(40))
@pytest.mark.parametrize(("n_resources", "lower"), [(1, False), (1, True), (2, True)])
def test_masks_are_as_defined(seed: int, n_resources: int, lower: bool) -> None:
    case = random_case(seed, n_resources=n_resources, lower=lower)
    inner = ModelEnv(case.model, spent=case.spent)
    play(BudgetWrapper(inner, case.budget, dead_start="end"), inner, case, seed)
    mdp = solvent.augment(case.model, case.budget, spent=case.spent)
    play(BudgetWrapper(inner, model=mdp, dead_start="end"), inner, case, seed)


@pytest.mark.parametrize("seed", seeds(60))
def test_thresholds_of_an_account_that_saturates(seed: int) -> None:
    case = random_case(seed, [f for f in FEATURES if f != "goal"])
    assert isinstance(choose_rule(case.model, case.limits, case.budget, None, case.spent), ThresholdRule)
    inner = ModelEnv(case.model, spent=case.spent)
    play(BudgetWrapper(inner, case.budget, spent=case.spent, dead_start="end"), inner, case, seed)


def test_the_cases_are_not_all_dead() -> None:
    steps = 0
    for seed in range(20):
        case = random_case(seed)
        inner = ModelEnv(case.model, spent=case.spent)
        steps += play(BudgetWrapper(inner, case.budget, dead_start="end"), inner, case, seed)
    assert steps > 20


def test_a_goal_alone_is_enough() -> None:
    b = CMDP.builder(horizon=2, start="a", resources=["x"], must_end_in=["b"])
    b.add("a", "stay", outcomes=[(1, "a", 0)])
    b.add("a", "go", outcomes=[(1, "b", 1)])
    b.add("b", "stay", outcomes=[(1, "b", 0)])
    model = b.build()
    inner = ModelEnv(model)
    env = BudgetWrapper(inner, {"x": None})
    assert isinstance(choose_rule(model, solvent.model.budget.resolve(model, {"x": None}), {"x": None}, None), NodeRule)
    env.reset()
    assert [model.actions[i] for i in env.safe_actions()] == ["stay", "go"]
    env.step(model.action_index("stay"))
    assert [model.actions[i] for i in env.safe_actions()] == ["go"]
    with pytest.raises(PolicyError, match=r"step 1, no limits: expected an action the mask allows"):
        env.step(model.action_index("stay"))
    assert env.step(model.action_index("go"))[4]["violation"] is False


def tank(horizon: int = 3, **options: Any) -> CMDP:
    fuel = solvent.Resource("fuel", floor=0, ceiling=9)
    b = CMDP.builder(horizon=horizon, start="road", resources=[fuel], **options)
    b.add("road", "drive", reward=1, outcomes=[(1, "road", 3)])
    b.add("road", "refuel", outcomes=[(1, "road", -5)])
    return b.build()


def test_an_environment_clamps() -> None:
    env = ModelEnv(tank(), spent=4, render_mode="ansi")
    env.reset()
    seen = []
    for action in (1, 0, 0):
        env.step(action)
        seen.append(env.spent["fuel"])
    assert seen == [0, 3, 6]
    assert env.last_cost == {"fuel": Fraction(3)}
    assert env.initial == {"fuel": Fraction(4)}
    with pytest.raises(BudgetError, match=r"spent, fuel: expected at most the ceiling, 9, found 10"):
        ModelEnv(tank(), spent=10)


def test_ends_are_paid_and_missed_goals_reported() -> None:
    b = CMDP.builder(horizon=1, start="a", resources=["x"], end_reward={"b": 5, "c": 7}, must_end_in=["b"])
    b.add("a", "b", reward=1, outcomes=[(1, "b", 0)])
    b.add("a", "c", reward=1, outcomes=[(1, "c", 0)])
    env = ModelEnv(b.build(), render_mode="ansi")
    _, info = env.reset()
    assert (info["goal_missed"], info["end_reward"]) == (False, 0.0)
    _, reward, terminated, _, info = env.step(0)
    assert (reward, terminated, info["goal_missed"], info["end_reward"]) == (6.0, True, False, 5.0)
    env.reset()
    _, reward, _, _, info = env.step(1)
    assert (reward, info["goal_missed"]) == (8.0, True)
    assert "over outside the goal" in str(env.render())
    # bounds on costs know nothing of the goal, but the environment reports it
    bounded = BudgetWrapper(env, {"x": 1}, cost_bound=0)
    bounded.reset()
    assert bounded.step(1)[4]["violation"] is True
    assert bounded.violations == 1


def test_average_reward_is_the_value_of_the_policy() -> None:
    case = random_case(3, ["saturation", "start", "end_reward"])
    planned = solvent.baselines.unconstrained(case.model, case.budget)
    env, total, episodes = ModelEnv(case.model, fallback="first"), 0.0, 4000
    at_once = 0.0
    for episode in range(episodes):
        state, info = env.reset(seed=7 if episode == 0 else None)
        at_once += info["end_reward"]
        for step in range(case.model.horizon):
            if env.done:
                break
            actions, _ = planned.policy.choices(step, state)
            state, reward, _, _, _ = env.step(int(actions[0]))
            total += reward
    assert (total + at_once) / episodes == pytest.approx(planned.value, abs=0.1)


def test_first_states_are_drawn() -> None:
    b = CMDP.builder(horizon=1, start={"a": 0.25, "b": 0.75}, resources=[])
    for state in "ab":
        b.add(state, "stay", outcomes=[(1, state)])
    env = ModelEnv(b.build())
    drawn = [env.reset(seed=5 if i == 0 else None)[0] for i in range(2000)]
    assert np.mean(drawn) == pytest.approx(0.75, abs=0.04)


class Other(gymnasium.Env[Any, Any]):
    """An environment without a model whose steps cost what the action says."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, first: int = 0) -> None:
        self.first = first

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return self.first, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return self.first, 0.0, False, False, {"cost": (-5, 3, 4)[action]}


def test_bounds_on_an_account_that_saturates() -> None:
    account = solvent.Resource("cost", floor=0)
    env = BudgetWrapper(Other(), 6, cost_bound=[-5, 3, 4], resources=[account], spent=2)
    observation, _ = env.reset()
    assert observation["remaining"].tolist() == [4.0]
    assert env.safe_actions().tolist() == [0, 1, 2]
    seen = []
    for action in (2, 0, 0, 1, 1):
        observation, *_ = env.step(action)
        assert env.observation_space.contains(observation)
        seen.append(int(env.spent["cost"]))
    assert seen == [6, 1, 0, 3, 6]
    assert env.safe_actions().tolist() == [0]
    plain = BudgetWrapper(Other(), 6, cost_bound=[-5, 3, 4], spent=2)
    plain.reset()
    for action in (0, 0):
        plain.step(action)
    assert plain.spent == {"cost": Fraction(-8)}


def test_a_ceiling_keeps_what_may_be_spent_within_the_limit() -> None:
    env = BudgetWrapper(Other(), 6, cost_bound=[-5, 3, 4], resources=[solvent.Resource("cost", ceiling=6)])
    env.reset()
    for _ in range(3):
        assert env.safe_actions().tolist() == [0, 1, 2]
        env.step(2)
    assert env.spent == {"cost": Fraction(6)}
    assert env.violations == 0


def test_refusals() -> None:
    model = tank()
    with pytest.raises(
        ModelError, match=r"resources: expected None if there is a model, which has floors and ceilings"
    ):
        BudgetWrapper(ModelEnv(model), 6, resources=[solvent.Resource("fuel", floor=0)])
    with pytest.raises(
        ModelError, match=r"resources: expected limited resources \('cost'\), found 'cots'; did you mean"
    ):
        BudgetWrapper(Other(), 6, cost_bound=4, resources=[solvent.Resource("cots", floor=0)])
    with pytest.raises(BudgetError, match=r"spent, cost: expected an amount that Resource\('cost', floor=0\) can have"):
        BudgetWrapper(Other(), 6, cost_bound=4, resources=[solvent.Resource("cost", floor=0)], spent=-1)
    with pytest.raises(BudgetError, match=r"spent: expected limited resources \('cost'\), found 'fuel'"):
        BudgetWrapper(Other(), 6, cost_bound=4, spent={"fuel": 1})
    with pytest.raises(BudgetError, match=r"spent: expected an amount of each of 'a', 'b' by name, found 3"):
        BudgetWrapper(Other(), {"a": 1, "b": 1}, cost_bound=4, spent=3)
    with pytest.raises(BudgetError, match=r"spent: expected None, since an augmented MDP has its own initial amounts"):
        BudgetWrapper(ModelEnv(model), model=solvent.augment(model, 6), spent=3)
    with pytest.raises(SolventError, match=r"found no safe action with remaining fuel -6; raise the budget"):
        BudgetWrapper(ModelEnv(model), 3, spent=9).reset()


def test_several_steps_at_once_are_refused_where_a_resource_saturates() -> None:
    class Twice(gymnasium.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            self.env.step(action)
            return self.env.step(action)

    meter = solvent.gym.CostMeter(Other())
    env = BudgetWrapper(Twice(meter), 12, cost_bound=[-5, 6, 8], resources=[solvent.Resource("cost", floor=0)])
    env.reset()
    with pytest.raises(
        ModelError, match=r"expected one step of the environment, as 'cost' saturates, found several at"
    ):
        env.step(1)


class Prelude(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes some actions in its `reset`."""

    def __init__(self, env: Any, *actions: int) -> None:
        super().__init__(env)
        self._actions = actions

    def reset(self, **options: Any) -> Any:
        observation, info = self.env.reset(**options)
        for action in self._actions:
            observation, _, _, _, info = self.env.step(action)
        return observation, info


@pytest.mark.parametrize(("actions", "over"), [((1,), True), ((1, 0), True), ((0,), False), ((0, 1, 0), False)])
def test_what_a_reset_spends_is_added_to_what_had_been_spent(actions: tuple[int, ...], over: bool) -> None:
    meter = solvent.gym.CostMeter(Other())  # costs of -5, 3 and 4
    env = BudgetWrapper(Prelude(meter, *actions), 6, cost_bound=[-5, 3, 4], spent=4)
    info = env.reset()[1]
    assert (info["violation"], env.violations) == (over, int(over))
    assert env.spent["cost"] == 4 + meter.spent["cost"]


@pytest.mark.parametrize("wrapper", [BudgetWrapper, solvent.gym.EarlyTermination])
def test_a_resource_that_saturates_within_a_reset(wrapper: Any) -> None:
    tank, options = [solvent.Resource("cost", floor=0)], {"cost_bound": [-5, 3, 4]} if wrapper is BudgetWrapper else {}
    for actions, found in (((0,), 0), ((1,), 3), ((2, 2, 0), 3), ((2, 2, 0, 1), 6)):
        env = wrapper(Prelude(solvent.gym.CostMeter(Other()), *actions), 12, resources=tank, **options)
        env.reset()
        assert env.spent["cost"] == found
    env = wrapper(Prelude(solvent.gym.CostMeter(Other()), 0, 1), 12, resources=tank, **options)
    with pytest.raises(ModelError, match=r"reset: expected one step .* 'cost' saturates, found several at once"):
        env.reset()  # 3 was spent, although the sum of the costs is -2


def test_a_start_that_the_model_does_not_have() -> None:
    b = CMDP.builder(horizon=2, start={0: 0.5, 1: 0.5}, resources=["cost"])
    for state in range(3):
        for action in range(3):
            b.add(state, action, outcomes=[(1, state, (-5, 3, 4)[action])])
    model = b.build()
    env = BudgetWrapper(Other(1), 6, model=model)
    env.reset()
    assert env.safe_actions().tolist() == [0, 1, 2]
    env.step(1)
    assert env.safe_actions().tolist() == [0, 1]
    with pytest.raises(UnmodeledOutcome, match=r"expected state 0 or state 1, found state 2"):
        BudgetWrapper(Other(2), 6, model=model).reset()


def test_an_episode_that_is_over_at_once() -> None:
    b = CMDP.builder(horizon=1, start={"a": 0.5, "b": 0.5}, resources=["x"], must_end_in=["a"])
    b.add("a", "stay", outcomes=[(1, "a", 0)])
    b.terminal("b")
    env = BudgetWrapper(ModelEnv(b.build()), 1, dead_start="end")
    seen = set()
    for seed in range(12):
        _, info = env.reset(seed=seed)
        seen.add((info["violation"], info["goal_missed"], bool(env.safe_actions().size)))
    assert seen == {(False, False, True), (True, True, False)}
    strict = BudgetWrapper(ModelEnv(b.build()), 1)
    text = r"expected a start from which the budget can be kept and the goal reached, found the end of the episode"
    ends_at_once = next(seed for seed in range(12) if env.reset(seed=seed)[1]["violation"])
    with pytest.raises(SolventError, match=text):
        strict.reset(seed=ends_at_once)


def test_a_curve_over_what_remains_is_refused() -> None:
    curve = solvent.frontier(tank(), vary="remaining", budget=6)
    text = r"model: expected a Curve over budgets, found one over what remains of fuel; pass the model itself, with"
    with pytest.raises(ModelError, match=text):
        BudgetWrapper(ModelEnv(tank()), 3, model=curve)
    sizes = solvent.frontier(tank(), max_budget=12)
    env = BudgetWrapper(ModelEnv(sizes.model), 6, model=sizes)
    env.reset()
    assert env.safe_actions().tolist() == [0, 1]
