"""Exact masks compared with brute force, and environments that deviate from their model."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from foreign import Foreign
from hypothesis import assume, given
from hypothesis import strategies as st

import solvent
from environments import newest
from oracle import Nodes, Problem
from solvent.errors import BudgetError, LimitError, ModelError, UnmodeledOutcome
from solvent.gym import BudgetWrapper, ModelEnv
from solvent.gym.exact_masks import NodeRule, ThresholdRule, choose_rule
from solvent.model import instances
from solvent.model.budget import Budget, resolve
from solvent.model.cmdp import CMDP
from strategies import Tiny, one_sided_problems, problems


def play_against_oracle(env: BudgetWrapper, inner: ModelEnv, tiny: Tiny, seed: int) -> None:
    """Play at random among safe actions; every mask must be what brute force says, and no limit may break."""
    problem = Problem(tiny.model, tiny.budget)
    nodes, rng = Nodes(problem), np.random.default_rng(seed)
    for episode in range(3):
        _, info = env.reset(seed=seed if episode == 0 else None)
        assert env.spent == dict.fromkeys(problem.tracked, Fraction(0))
        for step in range(tiny.model.horizon):
            state, spent = inner.state, tuple(env.spent.values())
            viable = [] if inner.done else [row.action for row in nodes.viable_rows(step, state, spent)]
            expected = sorted(tiny.model.action_index(action) for action in viable)
            assert env.safe_actions().tolist() == expected
            shown = expected or list(range(env.action_space.n))  # no mask is empty
            assert np.flatnonzero(env.action_masks()).tolist() == shown
            assert np.flatnonzero(info["action_mask"]).tolist() == shown
            assert info["dead_end"] == (not expected and not inner.done)
            if inner.done or not expected:
                assert step == 0 or inner.done, "a safe action led to a dead end"
                break
            _, _, terminated, _, info = env.step(int(rng.choice(env.safe_actions())))
            assert problem.keeps(step, tuple(env.spent.values()))
            assert not info["violation"]
            assert terminated == inner.done


@given(problems(), st.integers(0, 1000))
def test_masks_are_what_brute_force_says(tiny: Tiny, seed: int) -> None:
    assume(resolve(tiny.model, tiny.budget).resources)
    inner = ModelEnv(tiny.model)
    play_against_oracle(BudgetWrapper(inner, tiny.budget, dead_start="end"), inner, tiny, seed)


@given(one_sided_problems(), st.integers(0, 1000))
def test_amounts_per_row_and_nodes_agree(tiny: Tiny, seed: int) -> None:
    limits = resolve(tiny.model, tiny.budget)
    assert isinstance(choose_rule(tiny.model, limits, tiny.budget, None), ThresholdRule)
    inner = ModelEnv(tiny.model)
    mdp = solvent.augment(tiny.model, tiny.budget)
    play_against_oracle(BudgetWrapper(inner, model=mdp, dead_start="end"), inner, tiny, seed)


@given(problems(min_resources=1), st.integers(0, 1000))
def test_an_environment_that_reports_floats(tiny: Tiny, seed: int) -> None:
    model = tiny.model
    assume(resolve(model, tiny.budget).resources)
    foreign = Foreign(model)
    env = BudgetWrapper(
        foreign,
        tiny.budget,
        model=model,
        state=lambda observation: model.states[observation],
        actions=model.actions,
        dead_start="end",
    )
    play_against_oracle(env, foreign._inner, tiny, seed)


def test_who_judges() -> None:
    two = instances.random(3, 2, resources=2, horizon=3)
    both = {"r0": 5, "r1": 5}
    assert isinstance(choose_rule(two, resolve(two, both), both, None), NodeRule)
    one = {"r0": 5, "r1": None}
    assert isinstance(choose_rule(two, resolve(two, one), one, None), ThresholdRule)
    box = {"r0": Budget(upper=5, lower=0), "r1": None}
    assert isinstance(choose_rule(two, resolve(two, box), box, None), NodeRule)


def test_a_frontier_will_do() -> None:
    model = instances.knapsack([60, 100, 120], [10, 20, 30])
    curve = solvent.frontier(model)
    env = BudgetWrapper(ModelEnv(model), 20, model=curve)
    _, info = env.reset()
    assert info["action_mask"].tolist() == [1, 1]
    assert env.step(1)[4]["action_mask"].tolist() == [1, 0]
    with pytest.raises(
        BudgetError, match=r"budget: expected a budget of weight, found none; a curve has a value for every"
    ):
        BudgetWrapper(ModelEnv(model), model=curve)
    with pytest.raises(BudgetError, match=r"a budget of weight only, as in the curve, found \{'fuel': 3\}"):
        BudgetWrapper(ModelEnv(model), {"fuel": 3}, model=curve)


def test_an_augmented_mdp_will_do_if_it_is_pruned() -> None:
    model = instances.knapsack([60, 100], [10, 20], capacity=20)
    with pytest.raises(ModelError, match=r"model: expected a pruned augmented MDP with a finite horizon"):
        BudgetWrapper(ModelEnv(model), model=solvent.augment(model, prune=False))
    with pytest.raises(BudgetError, match=r"expected None, since an augmented MDP has its own budget, found 3"):
        BudgetWrapper(ModelEnv(model), 3, model=solvent.augment(model))


def test_the_mask_looks_further_than_one_step() -> None:
    b = CMDP.builder(horizon=2, start="home", resources=["fuel"], budget=2)
    b.add("home", "go", reward=1, outcomes=[(1, "away", 1)])
    b.add("home", "rest", outcomes=[(1, "home", 0)])
    b.add("away", "return", outcomes=[("1/1000", "home", 2), ("999/1000", "home", 0)])
    env = BudgetWrapper(ModelEnv(b.build()))
    _, info = env.reset()
    assert info["action_mask"].tolist() == [0, 1, 0]  # one step ahead, "go" would fit


def test_spending_exactly_the_budget_is_fine() -> None:
    env = BudgetWrapper(ModelEnv(instances.knapsack([1, 1, 1], [0.1, 0.1, 0.1])), 0.3)
    env.reset()
    for _ in range(3):
        info = env.step(1)[4]
    assert env.remaining == {"weight": 0}
    assert not info["violation"]
    assert not info["dead_end"]


def test_lake_and_taxi_are_held_to_their_tables() -> None:
    lake = gymnasium.make("FrozenLake-v1", is_slippery=True)
    model = CMDP.from_gymnasium(lake, cost=lambda s, a, n: 0 if a == 0 else 1, horizon=30)
    env = BudgetWrapper(lake, 8, cost=lambda s, a, n: 0 if a == 0 else 1, model=model)
    play(env, 2000)
    taxi = gymnasium.make(newest("Taxi"))
    starts = CMDP.from_gymnasium(taxi, cost={"fuel": 1}, horizon=12, resources=["fuel"])
    assert isinstance(starts.start, dict)
    assert len(starts.start) == 300
    play(BudgetWrapper(taxi, {"fuel": 12}, cost=1, model=starts), 500)
    with pytest.raises(solvent.SolventError, match=r"found no safe action with remaining fuel 11; raise the budget"):
        BudgetWrapper(taxi, {"fuel": 11}, cost=1, model=starts).reset(seed=0)


def test_drawn_starts_with_several_resources() -> None:
    taxi = gymnasium.make(newest("Taxi"))
    costs = {"fuel": 1, "time": "1/2"}
    model = CMDP.from_gymnasium(taxi, cost=costs, horizon=3, resources=["fuel", "time"])
    env = BudgetWrapper(taxi, {"fuel": 3, "time": 2}, costs, model=model)
    assert play(env, 60) == 21
    short = BudgetWrapper(taxi, {"fuel": 3, "time": 1}, costs, model=model, dead_start="end")
    assert short.reset(seed=1)[1]["dead_end"]


def test_floats_that_several_amounts_round_to() -> None:
    b = CMDP.builder(horizon=1, start=0, resources=["x"], budget=1)
    b.add(0, 0, outcomes=[("1/2", 0, Fraction(1, 3)), ("1/2", 0, Fraction(1, 3) - Fraction(1, 10**17))])
    model = b.build()
    env = BudgetWrapper(Foreign(model), model=model)
    env.reset()
    with pytest.raises(UnmodeledOutcome, match=r"found state 0 at cost 0.33+, a float that several of these round to"):
        env.step(0)
    own = BudgetWrapper(ModelEnv(model))  # says exactly what it means
    own.reset()
    own.step(0)


def play(env: BudgetWrapper, steps: int) -> int:
    """Take a number of random safe actions and return the number of episodes."""
    rng, episodes = np.random.default_rng(0), 1
    _, info = env.reset(seed=0)
    for _ in range(steps):
        _, _, terminated, truncated, info = env.step(int(rng.choice(env.safe_actions())))
        assert min(env.remaining.values()) >= 0
        assert not info["dead_end"]
        if terminated or truncated:
            env.reset()
            episodes += 1
    return episodes


class Liar(Foreign):
    """Reports outcomes that the model excludes."""

    says: Any = (0, 7.0)

    def step(self, action: Any) -> Any:
        _, reward, terminated, truncated, _ = super().step(action)
        return self.says[0], reward, terminated, truncated, {"cost": self.says[1]}


@pytest.mark.parametrize(
    ("says", "found"),
    [((0, 7.0), "state 'knapsack' at cost 7.0"), ((5, 10), "state 5 at cost 10"), ((0, "x"), "at cost 'x'")],
)
def test_what_the_model_excludes_ends_the_promise(says: Any, found: str) -> None:
    model = instances.knapsack([60, 100], [10, 20], capacity=30)
    liar = Liar(model)
    liar.says = says
    names = {0: "knapsack"}
    env = BudgetWrapper(liar, model=model, state=lambda o: names.get(o, o), actions=model.actions)
    env.reset()
    with pytest.raises(UnmodeledOutcome, match=rf"'take': expected state 'knapsack' at cost 10, found .*{found}"):
        env.step(1)
    with pytest.raises(
        solvent.PolicyError, match=r"expected reset\(\) first, found an episode that ended with an error"
    ):
        env.step(0)
    env.reset()
    assert env.remaining == {"weight": 30}


def test_starts_that_the_model_does_not_know() -> None:
    model = instances.knapsack([60, 100], [10, 20], capacity=30)
    env = BudgetWrapper(Foreign(model), model=model, actions=model.actions)
    with pytest.raises(UnmodeledOutcome, match=r"action 'reset': expected state 'knapsack', found state 0"):
        env.reset()


def test_arguments_that_do_not_fit_a_model() -> None:
    model = instances.knapsack([60, 100], [10, 20], capacity=30)
    with pytest.raises(ModelError, match=r"actions: expected names of the model's actions \('leave', 'take'\), found"):
        BudgetWrapper(Foreign(model), model=model)
    with pytest.raises(ModelError, match=r"actions: expected 2 names, one for each action of the environment, found 1"):
        BudgetWrapper(Foreign(model), model=model, actions=["take"])
    with pytest.raises(ModelError, match=r"cost_bound: expected None if there is a model, whose masks are exact, fo"):
        BudgetWrapper(Foreign(model), model=model, cost_bound=3)
    with pytest.raises(BudgetError, match=r"budget: expected a limit on at least one resource"):
        BudgetWrapper(ModelEnv(model), {"weight": None})
    b = CMDP.builder(horizon=3, start=0, resources=["x"])
    b.add(0, 0, outcomes=[(1, 0, solvent.distribution("uniform", low=0, high=1))])
    with pytest.raises(ModelError, match=r"costs with finitely many values, which exact masks need, found uniform"):
        BudgetWrapper(ModelEnv(b.build()), 3)
    with pytest.raises(LimitError, match=r"the masks were not computed: bounds per step and state would need .*"):
        BudgetWrapper(ModelEnv(model), memory_limit=10)


def test_continuous_costs_under_a_bound() -> None:
    b = CMDP.builder(horizon=30, start=0, resources=["x"])
    b.add(0, "go", outcomes=[(1, 0, solvent.distribution("uniform", low=0, high=1))])
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    env = BudgetWrapper(ModelEnv(b.build()), {"x": 3}, cost_bound=[1, 0])
    env.reset(seed=3)
    for _ in range(30):
        env.step(int(env.safe_actions()[0]))
    assert 2 < env.spent["x"] <= 3


def test_a_resource_without_a_limit_is_left_out_of_the_account() -> None:
    model = instances.random(3, 2, resources=2, horizon=4, cost_range=(1, 2))
    for env in (
        BudgetWrapper(ModelEnv(model), {"r0": 8, "r1": None}),
        BudgetWrapper(ModelEnv(model), {"r0": 8, "r1": None}, cost_bound=2),
        BudgetWrapper(Foreign(model), {"r0": 8}, cost_bound=2),
    ):
        env.reset(seed=1)
        _, _, _, _, info = env.step(0)
        assert info["cost"] == float(env.spent["r0"])
        assert list(env.spent) == ["r0"]
