from __future__ import annotations

from collections import defaultdict
from typing import Any

import gymnasium
import numpy as np
import pytest

from solvent import CMDP, ModelError, Resource

ENVIRONMENTS = ["Taxi-v4", "FrozenLake-v1", "CliffWalking-v1"]
HORIZON = 200


def compare(model: CMDP, table: Any, cost: Any) -> set[Any]:
    """Compare every row of the model with the table of the environment; return the states compared."""
    compared = set()
    for state, name in enumerate(model.states):
        if model.is_terminal(0, state):
            continue
        compared.add(name)
        rows = model.rows(0, state)
        assert [model.actions[model.row_action[row]] for row in rows] == list(table[name])
        for row, action in zip(rows, table[name], strict=True):
            reward, chance = 0.0, defaultdict(float)
            for p, following, r, done in table[name][action]:
                reward += p * r
                if p > 0:
                    chance[int(following), bool(done)] += p
            assert model.row_reward[row] == pytest.approx(reward)
            found: dict[Any, float] = defaultdict(float)
            for outcome in model.outcomes(row):
                after = outcome.next_state
                number = after[0] if isinstance(after, tuple) else after
                done = model.is_terminal(0, model.state_index(after))
                found[number, done] += outcome.probability
                assert outcome.cost == {"cost": cost(name, action, number)}
            assert dict(found) == pytest.approx(dict(chance))
    return compared


def reachable(table: Any, first: list[int]) -> set[int]:
    """Return the states in which an episode has not ended."""
    seen, waiting = set(first), list(first)
    while waiting:
        for transitions in table[waiting.pop()].values():
            for p, following, _, done in transitions:
                if p > 0 and not done and following not in seen:
                    seen.add(int(following))
                    waiting.append(int(following))
    return seen


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_rows_are_those_of_the_environment(name: str) -> None:
    env = gymnasium.make(name)
    table, initial = env.unwrapped.P, np.asarray(env.unwrapped.initial_state_distrib)
    first = np.flatnonzero(initial).tolist()

    def cost(state: int, action: int, following: int) -> int:
        return (state + 2 * action + 3 * following) % 5

    model = CMDP.from_gymnasium(env, cost, HORIZON)
    assert model.name == name
    assert compare(model, table, cost) == reachable(table, first)
    assert model.horizon == HORIZON
    if len(first) == 1:
        assert model.start == first[0]
    else:
        assert name == "Taxi-v4"
        assert model.start == pytest.approx({s: initial[s] / initial.sum() for s in first})
        assert {model.states[s] for s in model.start_states} == set(first)
    env.close()


def test_limits_per_step_are_those_of_the_environment() -> None:
    """Drawing the first state takes no step, so a limit per step needs no more limits than the horizon."""
    model = CMDP.from_gymnasium(gymnasium.make("Taxi-v4"), 1, 4, budget={"cost": [1, 2, 3, 4]})
    assert model.horizon == 4
    assert model.cost_range(0) == (1, 1)


def test_a_given_distribution_of_the_first_state() -> None:
    env = gymnasium.make("FrozenLake-v1")
    model = CMDP.from_gymnasium(env, 1, 30, start={0: "1/4", 1: 0.75, 5: 0})
    assert model.start == {0: 0.25, 1: 0.75}
    with pytest.raises(ModelError, match=r"start: expected a state of the table \(0 to 15\), found 99"):
        CMDP.from_gymnasium(env, 1, 30, start={0: 0.5, 99: 0.5})


def test_tanks_goals_and_end_rewards() -> None:
    lake = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=False)
    model = CMDP.from_gymnasium(
        lake, 1, 20, resources=[Resource("heat", floor=0, ceiling=9)], end_reward={15: 3}, must_end_in=[15]
    )
    assert model.resource("heat") == Resource("heat", floor=0, ceiling=9)
    assert model.end_reward is not None
    assert model.may_end is not None
    goal = model.state_index(15)
    assert model.end_reward.tolist() == [3 if s == goal else 0 for s in range(model.n_states)]
    assert np.flatnonzero(model.may_end).tolist() == [goal]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_given_start(name: str) -> None:
    env = gymnasium.make(name)
    model = CMDP.from_gymnasium(env, 1, 30, start=1, budget=20)
    assert model.start == 1
    assert model.horizon == 30
    compare(model, env.unwrapped.P, lambda *_: 1)


def test_episodes_end_where_the_environment_says() -> None:
    lake = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=False)
    model = CMDP.from_gymnasium(lake, 1, 100)
    terminal = {name for i, name in enumerate(model.states) if model.is_terminal(0, i)}
    assert terminal == {5, 7, 11, 12, 15}
    cliff = CMDP.from_gymnasium(gymnasium.make("CliffWalking-v1"), 1, 100)
    assert {name for i, name in enumerate(cliff.states) if cliff.is_terminal(0, i)} == {47}


def test_costs_by_resource() -> None:
    env = gymnasium.make("FrozenLake-v1")
    model = CMDP.from_gymnasium(env, {"time": 1, "risk": "1/3"}, 5, resources=["time", "risk"])
    assert str(model.outcomes(0)[0].cost) == "{'time': Fraction(1, 1), 'risk': Fraction(1, 3)}"


class Table:
    """A minimal environment with a state that can be entered with and without ending the episode."""

    P: Any = {  # noqa: RUF012
        0: {0: [(0.5, 1, 1.0, True), (0.25, 1, 0.0, False), (0.25, 1, 4.0, False)]},
        1: {0: [(1.0, 0, 0.0, False), (0.0, 7, 0.0, False)]},
    }
    initial_state_distrib = (0.0, 2.0)


def test_a_terminal_copy_of_a_state_is_separate() -> None:
    model = CMDP.from_gymnasium(Table(), lambda s, a, n: n, 4)
    assert set(model.states) == {1, 0, (1, "done")}
    assert model.start == 1
    assert model.is_terminal(0, model.state_index((1, "done")))
    compare(model, Table.P, lambda s, a, n: n)
    assert model.name == "Table"


def test_environments_without_a_table() -> None:
    with pytest.raises(
        ModelError, match=r"an environment with a transition table P, found CartPoleEnv, which has none"
    ):
        CMDP.from_gymnasium(gymnasium.make("CartPole-v1"), 1, 10)
    with pytest.raises(ModelError, match=r"start: expected a state of the table \(0 to 1\), found 9"):
        CMDP.from_gymnasium(Table(), 1, 10, start=9)

    class Bare:
        P = Table.P

    with pytest.raises(ModelError, match=r"expected a start state, .*pass start="):
        CMDP.from_gymnasium(Bare(), 1, 10)
    assert CMDP.from_gymnasium(Bare(), 1, 10, start=0).start == 0
