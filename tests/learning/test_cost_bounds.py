"""A bound on costs is enough to keep the budget: checked by brute force over outcomes and by independent accounts."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
from flat import flat
from hypothesis import given
from hypothesis import strategies as st
from walker import Account, Walker

import solvent
from effort import draws
from solvent import CMDP, Budget, ModelError, Status, UnmodeledOutcome, instances
from solvent.learning.graph import SafeGraph
from solvent.learning.support import LearnedSupport
from solvent.learning.worst_case import WorstCase
from solvent.model.budget import Limits, limits_of, read_budgets
from solvent.model.cost_bounds import CostBounds
from solvent.policy.locate import COLLAPSED

Amounts = tuple[Fraction, ...]


def is_safe(bounds: Any, limits: Limits, step: int, state: int, spent: Amounts, action: int) -> bool:
    """Return whether an action keeps the limits under every outcome, by definition, one history at a time."""

    def within(spent: Amounts, step: int) -> bool:
        sides = zip(spent, limits.upper, strict=True)
        return all(side[step] is None or amount <= side[step] for amount, side in sides)  # type: ignore[operator]

    horizon = len(limits.upper[0])

    @cache
    def safe(step: int, state: int, spent: Amounts, action: int) -> bool:
        bound = bounds[state][action]
        if bound is None:
            return False
        after = tuple(a + b for a, b in zip(spent, bound, strict=True))
        if not all(within(after, later) for later in range(step, horizon)):  # the episode may have ended
            return False
        if step + 1 == horizon:
            return True
        return all(any(safe(step + 1, s, after, a) for a in range(len(bounds[s]))) for s in range(len(bounds)))

    return safe(step, state, spent, action)


amounts = st.sampled_from([Fraction(x, 2) for x in (-2, 0, 0, 1, 2, 3)])


@st.composite
def problems(draw: Any) -> tuple[Any, Limits]:
    n_states, n_actions, n_resources = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    bound = st.tuples(*[amounts] * n_resources)
    maybe = st.one_of(bound, bound, st.none())
    bounds = [[draw(bound), *(draw(maybe) for _ in range(n_actions - 1))] for _ in range(n_states)]
    names, horizon = tuple("ab"[:n_resources]), draw(st.integers(1, 4))
    limit = st.one_of(amounts, st.integers(0, 5), st.none())
    budget = {name: Budget(draw(st.lists(limit, min_size=horizon, max_size=horizon))) for name in names}
    return bounds, limits_of(read_budgets(budget, names, horizon), horizon)


@draws(150)
@given(problem=problems(), data=st.data())
def test_exactly_the_safe_actions_are_offered(problem: Any, data: Any) -> None:
    bounds, limits = problem
    if len(limits.resources) < len(bounds[0][0]):
        return
    horizon, n_states, n_actions = len(limits.upper[0]), len(bounds), len(bounds[0])
    read = CostBounds(lambda s, a: bounds[s][a], limits.resources, n_actions)
    worst = WorstCase.of(read, range(n_states), n_actions)
    seen = LearnedSupport((0, tuple(range(n_states)), tuple(range(n_actions))), horizon, limits, worst_case=worst)
    for row, bound in enumerate(seen.bounds[: sum(b is not None for each in bounds for b in each)]):
        assert bound is not None
        for after in data.draw(st.sets(st.integers(0, n_states - 1), max_size=2)):
            less = data.draw(st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(2)]))
            seen.add(row, after, tuple(amount - less for amount in bound))
    graph = SafeGraph.of(seen.problem())
    mdp = flat(graph)
    nothing = (Fraction(0),) * len(limits.upper)
    assert graph.feasible == any(is_safe(bounds, limits, 0, 0, nothing, action) for action in range(n_actions))
    if not graph.feasible:
        return
    for node in range(mdp.n_nodes - 1):
        state, spent = int(mdp.node_state[node]), mdp.node_spent_ND[node]
        if state >= n_states or (spent == COLLAPSED).any():
            continue
        step = int(np.searchsorted(mdp.layer_indptr, node, side="right")) - 1
        paid = tuple(graph.problem.lattice.amount(d, ticks) for d, ticks in enumerate(spent.tolist()))
        rows = range(int(mdp.row_indptr[node]), int(mdp.row_indptr[node + 1]))
        offered = {int(mdp.row_action[row]) for row in rows}
        assert offered == {a for a in range(n_actions) if is_safe(bounds, limits, step, state, paid, a)}
        assert offered, "a node that was led to has a way on"


def most_by_row(model: CMDP) -> list[list[Any]]:
    """Return the true bound of each state and action; None where an action is not available."""
    (name,) = model.resources
    table: list[list[Any]] = [[None] * model.n_actions for _ in range(model.n_states)]
    for state in range(model.n_states):
        for row in model.rows(0, state):
            table[state][int(model.row_action[row])] = max(each.cost[name] for each in model.outcomes(row))
    return table


@draws(40)
@given(seed=st.integers(0, 10**6), budget=st.integers(-2, 8), horizon=st.integers(1, 5), slack=st.integers(0, 1))
def test_no_episode_is_ever_over(seed: int, budget: int, horizon: int, slack: int) -> None:
    model = instances.random(3, 3, horizon=horizon, branching=2, cost_range=(-1, 3), seed=seed)
    bound = [[None if most is None else most + slack for most in row] for row in most_by_row(model)]
    env = Walker(model, budget)
    learned = solvent.learn(env, horizon, budget, epsilon=0.2, cost_bound=bound, seed=seed, max_episodes=150)
    assert learned.violations == env.over == 0
    if learned.status is Status.INFEASIBLE:
        assert learned.episodes == 0
    else:
        assert env.worst <= budget


@pytest.mark.slow
@draws(400)
@given(seed=st.integers(0, 10**6), budget=st.integers(-2, 12), horizon=st.integers(1, 7))
def test_no_episode_is_ever_over_in_many_environments(seed: int, budget: int, horizon: int) -> None:
    test_no_episode_is_ever_over.hypothesis.inner_test(seed, budget, horizon, 0)


def test_bounds_that_leave_room_lose_nothing() -> None:
    b = CMDP.builder(horizon=3, start=0, resources=["cost"])
    b.add(0, 0, reward=0.1, outcomes=[(1, 0, 0)])
    b.add(0, 1, reward=0.9, outcomes=[(0.5, 0, 1), (0.5, 1, 2)])
    b.add(1, 0, reward=0.2, outcomes=[(1, 0, 0)])
    b.add(1, 1, reward=0.5, outcomes=[(0.5, 0, 1), (0.5, 1, 0)])
    model = b.build()
    env = Walker(model, 4)
    learned = solvent.learn(env, 3, 4, epsilon=0.3, cost_bound=most_by_row(model))
    assert learned.status is Status.WITHIN_GAP
    assert env.over == learned.violations == 0
    report = solvent.verify(model, learned.policy_for(model), 4)
    assert report.feasible
    # a step can always be free, so an action is safe by the bound if and only if it is safe in the model
    assert report.value >= solvent.solve(model, 4).value - 0.3


def lake() -> Any:
    return gymnasium.make("FrozenLake-v1", max_episode_steps=100)


@pytest.mark.parametrize(
    "bound",
    [[0, 2, 1, 1], [[0, 2, 1, 1]] * 16, {"cost": [0, 2, 1, 1]}, lambda state, action: [0, 2, 1, 1][action]],
    ids=["by action", "by state and action", "by resource", "function"],
)
def test_bounds_in_every_form(bound: Any) -> None:
    toll = [0, 2, 1, 1]
    env = Account(lake(), lambda state, action, after: toll[action])
    learned = solvent.learn(
        env, 10, 5, epsilon=0.3, cost_bound=bound, cost=lambda s, a, n: toll[a], max_episodes=200, seed=2
    )
    assert learned.violations == 0
    assert 0 < env.most <= 5


def test_a_reserve_is_kept_for_states_that_may_come() -> None:
    # in every state a step costs up to 2: of a budget of 7, an episode of three steps may spend 3 on its first
    bound = [[3, 4], [2, 9]]
    b = CMDP.builder(horizon=3, start=0, resources=["cost"])
    for action in (0, 1):
        b.add(0, action, reward=action, outcomes=[(1, 0, 0)])
        b.add(1, action, outcomes=[(1, 1, 0)])
    assert solvent.learn(Walker(b.build()), 3, 8, cost_bound=bound).status is Status.INFEASIBLE
    learned = solvent.learn(Walker(b.build()), 3, 9, cost_bound=bound, max_episodes=50)
    assert learned.policy.action(0, 0, 0) == 0
    richer = solvent.learn(Walker(b.build()), 3, 10, cost_bound=bound, max_episodes=50)
    assert richer.policy.action(0, 0, 0) == 1


def test_several_resources() -> None:
    model = instances.random(3, 2, horizon=3, branching=2, cost_range=(0, 2), seed=5)

    class Two(Walker):
        most = 0

        def step(self, action: Any) -> Any:
            *result, info = super().step(action)
            self.moves = action + (self.moves if self.steps > 1 else 0)
            self.most = max(self.most, self.moves)
            return (*result, {"costs": {"cost": info["cost"], "moves": int(action)}})

    most = most_by_row(model)
    env = Two(model, 4)
    learned = solvent.learn(
        env, 3, {"cost": 4, "moves": 1}, max_episodes=300,
        cost_bound=lambda state, action: None if most[state][action] is None else (most[state][action], action),
    )  # fmt: skip
    assert learned.episodes > 0
    assert learned.violations == env.over == 0
    assert env.most <= 1
    assert learned.policy.resources == ("cost", "moves")


def test_a_cost_above_its_bound_ends_learning() -> None:
    with pytest.raises(UnmodeledOutcome, match=r"action 1: expected cost at most 1, as cost_bound says, found cost 2"):
        solvent.learn(lake(), 5, 9, cost_bound=1, cost=lambda s, a, n: 1 + (a == 1), max_episodes=20)


def test_rounded_costs_are_bounded_too() -> None:
    model = instances.random(3, 2, horizon=4, real_costs=True, cost_range=(0, 3), seed=3)
    env = Walker(model, 8)
    learned = solvent.learn(env, 4, 8, epsilon_cost=1, cost_bound=most_by_row(model), max_episodes=200)
    assert learned.violations == env.over
    assert env.worst <= 9
    assert learned.policy.counting == ("down",)
    env = Walker(model, 8)
    learned = solvent.learn(env, 4, 8, epsilon_cost=0.2, strict=True, cost_bound=most_by_row(model), max_episodes=200)
    assert learned.violations == env.over == 0
    assert learned.policy.counting == ("up",)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"cost_bound": [1, 2]}, r"cost_bound: expected numbers of shape \(4,\), found shape \(2,\)"),
    ({"cost_bound": {"fuel": 1}}, "cost_bound: expected numbers for each of 'cost', found 'fuel'"),
    (
        {"cost_bound": [None] * 4},
        "cost_bound, state 0: expected an action that is not forbidden, found none",
    ),
    ({"cost_bound": 1, "cost_support": "learned"}, 'cost_bound: expected none with cost_support="learned", found 1'),
    ({"cost_bound": 1, "support": {(0, 0): [(0, 1)]}}, "support: expected none with a cost_bound"),
    ({"cost_bound": 1, "bonus": "theory"}, 'bonus: expected "practical" with a learned support'),
    ({"cost_bound": 1, "pool": False}, "pool: expected True with a learned support"),
    ({"cost_bound": 1, "budget": Budget(9, lower=-1)}, "budget, cost: expected only upper limits"),
    ({"cost_support": "known"}, r"cost_support: expected support=... .* or cost_bound=..., found neither"),
]


@pytest.mark.parametrize(("options", "text"), REFUSED)
def test_what_does_not_fit_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        solvent.learn(lake(), 5, **{"budget": 9, "cost": 1, "max_episodes": 5, **options})


def test_a_model_needs_no_bound() -> None:
    with pytest.raises(ModelError, match="expected no support, cost_bound or cost with a model"):
        solvent.learn(instances.fuel_grid(2), cost_bound=1)


def test_known_is_a_name_for_it() -> None:
    one, two = (
        solvent.learn(lake(), 5, 4, cost_bound=1, cost=1, cost_support=support, max_episodes=30)
        for support in (None, "known")
    )
    assert one.status is Status.INFEASIBLE
    assert two.status is Status.INFEASIBLE
    assert "no policy keeps the budget" in one.message
