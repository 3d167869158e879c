"""Learned policies against exact optima, and budgets against independent accounts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from walker import Walker

import solvent
from effort import draws, slow_after
from solvent import CMDP, Status, instances


def toll(state: int, action: int, after: int) -> int:
    """Return the cost of a step: 2 down and right, towards the goal, else 1."""
    return 2 if action in (1, 2) else 1


def lake(horizon: int = 30, budget: int = 38) -> CMDP:
    return CMDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), cost=toll, horizon=horizon, budget=budget)


PROBLEMS = {
    "fuel_grid": (lambda: instances.fuel_grid(5), 0.3),
    "paper": (lambda: instances.paper(10, budget=2), 0.1),
    "lake": (lake, 0.1),
}


def check_within(name: str, seeds: range) -> None:
    make, epsilon = PROBLEMS[name]
    model = make()
    best = solvent.solve(model).value
    for seed in seeds:
        learned = solvent.learn(model, epsilon=epsilon, seed=seed)
        report = solvent.verify(model, learned.policy)
        assert learned.status is Status.WITHIN_GAP
        assert learned.violations == 0
        assert report.feasible
        assert best - epsilon <= report.value <= best + 1e-9
        assert learned.value_lower - 1e-9 <= report.value
        assert best <= learned.value_upper + 1e-9


@pytest.mark.parametrize("name", PROBLEMS)
def test_policies_are_within_epsilon(name: str) -> None:
    check_within(name, range(2))


@pytest.mark.nightly
@pytest.mark.parametrize("name", PROBLEMS)
def test_policies_are_within_epsilon_over_many_seeds(name: str) -> None:
    check_within(name, range(20))


def small(seed: int, resources: int = 1, **options: Any) -> CMDP:
    return instances.random(3, 2, horizon=3, branching=2, resources=resources, seed=seed, **options)


@draws(25)
@given(seed=st.integers(0, 10**6), resources=st.integers(0, 2), budget=st.integers(-3, 6), stationary=st.booleans())
def test_no_violation_with_a_known_support(seed: int, resources: int, budget: int, stationary: bool) -> None:
    model = small(seed, resources, budget=budget, stationary=stationary)
    best = solvent.solve(model)
    learned = solvent.learn(model, epsilon=0.05, seed=seed, max_episodes=3000)
    assert learned.violations == 0
    if best.status is Status.INFEASIBLE:
        assert learned.status is Status.INFEASIBLE
        assert learned.episodes == 0
    else:
        assert solvent.verify(model, learned.policy).feasible
        assert learned.value_upper >= best.value - 0.05


@draws(40)
@given(
    seed=st.integers(0, 10**6), bonus=st.sampled_from(["practical", "theory"]), pool=st.booleans(),
    stationary=st.sampled_from([None, False]), scale=st.sampled_from([1e-6, 0.03, 1.0]),
)  # fmt: skip
def test_bounds_hold_at_every_plan(seed: int, bonus: Any, pool: bool, stationary: bool | None, scale: float) -> None:
    model = small(seed)
    best = solvent.solve(model)
    learned = solvent.learn(
        model, epsilon=1e-3, bonus=bonus, seed=seed, max_episodes=5000, pool=pool, stationary=stationary,
        bonus_scale=scale, delta=1e-6,
    )  # fmt: skip
    if best.status is Status.INFEASIBLE:
        return
    assert learned.guaranteed
    assert all(moment.value_upper >= best.value - 1e-9 for moment in learned.history)
    assert all(moment.value_lower <= best.value + 1e-9 for moment in learned.history)
    worth = solvent.verify(model, learned.policy).value
    assert learned.value_lower <= worth + 1e-9
    assert learned.gap >= best.value - worth - 1e-9


def check_early(seeds: range) -> None:
    """Check that few episodes suffice for 95 % of the optimum, and that the bounds hold long before they close."""
    model = instances.fuel_grid(5)
    best = solvent.solve(model).value
    for seed in seeds:
        worth = []
        for episodes in (100, 200, 350, 500):
            learned = solvent.learn(model, epsilon=1e-9, max_episodes=episodes, seed=seed)
            worth.append(solvent.verify(model, learned.policy).value)
            assert learned.guaranteed
            assert learned.violations == 0
            assert learned.value_lower <= worth[-1] + 1e-9
            assert learned.value_upper >= best - 1e-9
        assert max(worth) >= 0.95 * best
        assert worth[-1] >= 0.9 * best


def test_few_episodes_suffice_for_a_good_policy() -> None:
    check_early(range(2))


@pytest.mark.nightly
def test_few_episodes_suffice_for_a_good_policy_over_many_seeds() -> None:
    check_early(range(20))


def test_theory_closes_its_gap() -> None:
    model = instances.markov_gap()
    learned = solvent.learn(model, epsilon=0.3, bonus="theory")
    assert learned.status is Status.WITHIN_GAP
    assert "with probability at least 0.95" in learned.message
    assert learned.episodes > 10 * solvent.learn(model, epsilon=0.3).episodes


def test_a_result_says_whether_its_bounds_are_proved() -> None:
    learned = solvent.learn(instances.markov_gap())
    assert learned.guaranteed
    assert "with probability at least 0.95" in learned.message
    learned = solvent.learn(instances.markov_gap(), cost_support="learned", epsilon=0.3)
    assert not learned.guaranteed
    assert "by estimate, which is no guarantee" in learned.message


def test_what_is_certain_takes_few_episodes() -> None:
    model = instances.paper(10, budget=2)
    assert solvent.learn(model, epsilon=1e-6, bonus="theory").episodes < 50


def test_pooling_takes_fewer_episodes() -> None:
    model = instances.fuel_grid(3)
    pooled, by_node = (
        solvent.learn(model, epsilon=0.3, pool=pool, max_episodes=10**6).episodes for pool in (True, False)
    )
    assert 4 * pooled < by_node


def test_a_run_is_repeated_by_its_seed() -> None:
    one, two, other = (solvent.learn(instances.fuel_grid(3), epsilon=0.5, seed=seed) for seed in (7, 7, 8))
    assert one.history == two.history
    assert one.policy == two.policy
    assert one.history != other.history


def test_ties_are_broken_at_random() -> None:
    b = CMDP.builder(horizon=1, start=0, resources=["x"], budget=0)
    for action in range(4):
        b.add(0, action, reward=1, outcomes=[(1, 0, 0)])
    model = b.build()
    chosen = {solvent.learn(model, seed=seed).policy.action(0, 0, 0) for seed in range(40)}
    assert chosen == {0, 1, 2, 3}


def test_replanning_every_episode_plans_every_episode() -> None:
    learned = solvent.learn(instances.fuel_grid(3), replan="episode", max_episodes=50)
    assert [moment.episodes for moment in learned.history] == list(range(51))
    assert learned.status is Status.LIMIT
    assert "after 50 episodes" in learned.message


def test_a_callback_can_stop() -> None:
    told: list[Any] = []

    def stop(moment: Any) -> bool:
        told.append(moment)
        return moment.episodes > 100

    learned = solvent.learn(instances.fuel_grid(3), callback=stop)
    assert told == list(learned.history)
    assert 100 < learned.episodes < 1000
    assert "stopped by the callback" in learned.message


def test_rewards_of_any_range() -> None:
    b = CMDP.builder(horizon=3, start=0, resources=["x"], budget=2)
    b.add(0, 0, reward=-3, outcomes=[(0.5, 0, 0), (0.5, 1, 1)])
    b.add(0, 1, reward=20, outcomes=[(0.5, 0, 2), (0.5, 1, 1)])
    b.add(1, 0, reward=5, outcomes=[(1, 0, 0)])
    model = b.build()
    learned = solvent.learn(model, epsilon=2, reward_range=(-3, 20))
    best = solvent.solve(model).value
    assert best - 2 <= solvent.verify(model, learned.policy).value <= best
    assert learned.value_upper >= best
    for same in (model, solvent.gym.ModelEnv(model)):  # the default is the range of the model
        by_default = solvent.learn(same, epsilon=2)
        assert (by_default.episodes, by_default.value_upper) == (learned.episodes, learned.value_upper)
    message = 'reward_range: expected rewards from 0 to 1 with bonus="theory", found -3 to 20'
    with pytest.raises(solvent.ModelError, match=message):
        solvent.learn(model, epsilon=2, bonus="theory")


def test_rounded_costs() -> None:
    model = instances.random(3, 2, horizon=4, real_costs=True, cost_range=(0, 3), budget=8, seed=3)
    learned = solvent.learn(model, epsilon=0.2, epsilon_cost=1)
    relaxed = solvent.solve(model, approximation="additive", epsilon=1)
    report = solvent.verify(model, learned.policy)
    assert learned.policy.counting == ("down",)
    assert report.value >= relaxed.value - 0.2
    assert report.worst_spent["r0"] <= 9


def test_continuous_costs() -> None:
    from scipy import stats

    b = CMDP.builder(horizon=3, start=0, resources=["x"], budget=2)
    b.add(0, 0, outcomes=[(1, 0, 0)])
    b.add(0, 1, reward=1, outcomes=[(1, 0, stats.uniform(0, 1))])
    learned = solvent.learn(b.build(), epsilon=0.3, epsilon_cost=0.6)
    assert learned.status is Status.WITHIN_GAP
    assert solvent.verify(b.build(), learned.policy).worst_spent["x"] <= Fraction(26, 10)


@pytest.mark.slow
def test_a_learned_support_counts_its_violations_and_ends_safe() -> None:
    model = instances.fuel_grid(3)
    for seed in range(3):
        learned = solvent.learn(model, epsilon=0.3, cost_support="learned", seed=seed)
        report = solvent.verify(model, learned.policy)
        assert 0 < learned.violations < 60
        assert report.feasible
        assert report.value >= solvent.solve(model).value - 0.3
        assert learned.violations == learned.history[-1].violations


def test_the_same_mistake_is_not_repeated_elsewhere() -> None:
    # one row, whose expensive outcome breaks the budget at the step where it first occurs; all steps share the row
    b = CMDP.builder(horizon=6, start=0, resources=["x"], budget=3)
    b.add(0, 0, reward=1, outcomes=[(0.5, 0, 0), (0.5, 0, 4)])
    b.add(0, 1, outcomes=[(1, 0, 0)])
    shared, apart = (
        solvent.learn(b.build(), epsilon=0.5, cost_support="learned", stationary=stationary, max_episodes=20_000)
        for stationary in (None, False)
    )
    assert shared.violations == 1
    assert apart.violations == 6


def test_a_learned_support_finds_what_is_infeasible() -> None:
    b = CMDP.builder(horizon=2, start=0, resources=["x"], budget=1)
    b.add(0, 0, reward=1, outcomes=[(0.5, 0, 0), (0.5, 0, 2)])
    learned = solvent.learn(b.build(), cost_support="learned")
    assert learned.status is Status.INFEASIBLE
    assert learned.violations == 1
    with pytest.raises(
        solvent.SolventError, match="policy: expected a result with a policy, found status infeasible: "
    ):
        _ = learned.policy


def test_learned_support_without_limits() -> None:
    b = CMDP.builder(horizon=3, start=0, resources=["fuel"], budget={"fuel": None})
    b.add(0, 0, reward=0.5, outcomes=[(0.5, 0, 1), (0.5, 1, 0)])
    b.add(1, 0, reward=1, outcomes=[(1, 0, 0)])
    learned = solvent.learn(b.build(), epsilon=0.5, cost_support="learned")
    assert learned.status is solvent.Status.WITHIN_GAP
    assert solvent.verify(b.build(), learned.policy).value == 1.875


@pytest.mark.parametrize("budget", [-2, [3, 1, -2]], ids=["covering", "falling"])
def test_a_learned_support_tries_what_could_keep_limits_that_fall(budget: Any) -> None:
    # an action never tried may refund something, so nothing is infeasible until outcomes show it
    b = CMDP.builder(horizon=3, start=0, resources=["x"], budget=solvent.Budget(budget))
    b.add(0, 0, reward=0.1, outcomes=[(0.5, 0, -2), (0.5, 0, -3)])
    b.add(0, 1, reward=1, outcomes=[(0.5, 0, 3), (0.5, 0, 1)])
    model = b.build()
    learned = solvent.learn(model, epsilon=0.3, cost_support="learned", max_episodes=20_000)
    assert learned.status is Status.WITHIN_GAP
    assert solvent.verify(model, learned.policy).value >= solvent.solve(model).value - 0.3


def grid() -> CMDP:
    """A small grid whose states and actions are numbers."""
    model = instances.fuel_grid(2, horizon=4)
    place = {name: i for i, name in enumerate(model.states)}
    b = CMDP.builder(horizon=4, start=0, resources=["cost"], budget=3)
    for state in range(model.n_states):
        for row in model.rows(0, state):
            outcomes = [(each.probability, place[each.next_state], each.cost["fuel"]) for each in model.outcomes(row)]
            b.add(state, int(model.row_action[row]), reward=float(model.row_reward[row]), outcomes=outcomes)
    return b.build()


def possible(model: CMDP) -> dict[tuple[int, int], list[Any]]:
    return {
        (state, int(model.row_action[row])): [(each.next_state, each.cost["cost"]) for each in model.outcomes(row)]
        for state in range(model.n_states)
        for row in model.rows(0, state)
    }


@pytest.mark.parametrize(
    ("form", "exact"),
    slow_after(
        3,
        [
            ("model", True), ("dict", False), ("function", True),
            ("model", False), ("dict", True), ("function", False),
        ],
    ),
)  # fmt: skip
def test_an_environment_with_a_known_support_is_never_over(form: str, exact: bool) -> None:
    model = grid()
    env, table = Walker(model, 3, exact=exact), possible(model)
    support: Any = {"model": model, "dict": table, "function": lambda state, action: table.get((state, action))}[form]
    learned = solvent.learn(env, 4, 3, epsilon=0.5, support=support, max_episodes=2000)
    assert env.worst <= 3
    assert learned.violations == env.over == 0
    policy = learned.policy if form == "model" else learned.policy_for(model)
    report = solvent.verify(model, policy)
    assert report.feasible
    assert report.value >= solvent.solve(model).value - 0.5


def test_an_environment_whose_support_is_learned_counts_what_it_breaks() -> None:
    model = grid()
    env = Walker(model, 3)
    learned = solvent.learn(env, 4, 3, epsilon=0.5, max_episodes=3000, cost_support="learned")
    assert learned.violations == env.over > 0
    report = solvent.verify(model, learned.policy_for(model))
    assert report.feasible
    assert report.value >= solvent.solve(model).value - 0.5
    assert learned.policy.agent().act() in model.actions


def test_an_environment_with_rounded_costs() -> None:
    model = grid()
    env = Walker(model, 3)
    learned = solvent.learn(env, 4, 3, epsilon=0.5, epsilon_cost="1/2", max_episodes=1000, cost_support="learned")
    assert learned.policy.counting == ("down",)
    assert learned.policy.units == (Fraction(1, 8),)
    assert learned.violations == env.over


def test_a_frozen_lake_with_a_step_cost() -> None:
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=1000)
    model = lake(12, 16)
    learned = solvent.learn(env, 12, support=model, cost=toll, epsilon=0.4, max_episodes=1500)
    assert learned.violations == 0
    report = solvent.verify(model, learned.policy)
    assert report.feasible
    assert report.value >= solvent.solve(model).value - 0.4


def test_an_exact_last_cost_is_read_before_info() -> None:
    class Exact(Walker):
        last_cost: dict[str, Fraction]

        def step(self, action: Any) -> Any:
            *result, info = super().step(action)
            self.last_cost = {"cost": info["cost"]}
            return (*result, {"cost": float("nan")})

    learned = solvent.learn(Exact(grid(), 3), 4, 3, support=possible(grid()), max_episodes=20)
    assert learned.violations == 0


def test_several_resources_in_an_environment() -> None:
    class Two(Walker):
        def step(self, action: Any) -> Any:
            *result, info = super().step(action)
            return (*result, {"costs": {"cost": info["cost"], "moves": int(action != 4), "noise": 1}})

    env = Two(grid(), 3)
    learned = solvent.learn(env, 4, {"cost": 3, "moves": 2}, epsilon=0.5, max_episodes=500, cost_support="learned")
    assert learned.policy.resources == ("cost", "moves")
    assert learned.violations > 0


def test_rewards_that_are_chance_are_averaged() -> None:
    class Lucky(Walker):
        def step(self, action: Any) -> Any:
            observation, _, over, cut, info = super().step(action)
            return observation, float(self.rng.random() < 0.5 * action), over, cut, info

    b = CMDP.builder(horizon=1, start=0, resources=["cost"], budget=1)
    b.add(0, 0, outcomes=[(1, 0, 0)])
    b.add(0, 1, outcomes=[(0.5, 0, 0), (0.5, 0, 1)])
    learned = solvent.learn(Lucky(b.build(), 1), 1, 1, epsilon=0.4, support=b.build(), max_episodes=3000)
    assert learned.status is Status.WITHIN_GAP
    assert learned.policy.action(0, 0, 0) == 1
    assert learned.value_lower <= 0.5 <= learned.value_upper

    def as_if_not() -> None:
        for seed in range(10):  # a run ends before if every outcome occurred, always with the same reward
            solvent.learn(Lucky(b.build(), 1), 1, 1, support=b.build(), random_rewards=False, seed=seed)

    with pytest.raises(solvent.ModelError, match=r"the same reward as before with this outcome .*, found"):
        as_if_not()


def test_log_and_repr() -> None:
    learned = solvent.learn(instances.knapsack([1, 1], [3, 4], capacity=4), seed=1)
    assert learned.log.splitlines()[0].split() == ["episodes", "lower", "upper", "gap", "violations", "nodes"]
    assert len(learned.log.splitlines()) == len(learned.history) + 1
    assert repr(learned).startswith("LearnResult(within_gap, value 1 to 1, ")
    assert not np.isnan([moment.gap for moment in learned.history]).any()
