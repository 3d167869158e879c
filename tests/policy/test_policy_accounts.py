"""Agents and policies with saturation, initial amounts and start distributions, compared with plain Fractions."""

from __future__ import annotations

import copy
import pickle
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from random_accounts import (
    KINDS,
    Case,
    draw,
    exact_policy,
    first_state,
    nodes_of,
    random_case,
    randomized_policy,
    rounded_policy,
    rounding,
)

import solvent
from effort import seeds
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.errors import PolicyError
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice
from solvent.policy.derandomize import derandomize
from solvent.policy.markov import MarkovPolicy
from solvent.policy.table import AugmentedPolicy


def tank() -> Any:
    """Return a tank of 10 of which 4 are used at the start; refueling beyond full is lost."""
    b = solvent.CMDP.builder(
        horizon=3,
        start={"depot": 0.5, "town": 0.5},
        resources=[solvent.Resource("fuel", floor=0), "toll"],
        budget={"fuel": 10, "toll": None},
    )
    for state in ("depot", "town"):
        b.add(state, "drive", reward=1, outcomes=[(1, "town", [3, 1])])
        b.add(state, "refuel", outcomes=[(1, state, [-5, 0])])
    return b.build()


def tank_policy(model: Any) -> AugmentedPolicy:
    limits = resolve(model, None, {"fuel": 4})
    town = model.state_index("town")
    drive, refuel = model.action_index("drive"), model.action_index("refuel")
    return AugmentedPolicy.from_nodes(
        model,
        Lattice.fit(model, limits),
        limits,
        layers=[
            ([0, 1], [[4], [4]], [refuel, drive]),
            ([0, 1], [[0], [7]], [drive, refuel]),
            ([town, town], [[3], [2]], [drive, drive]),
        ],
    )


def test_a_tank_takes_no_more_than_it_holds() -> None:
    agent = tank_policy(tank()).agent(state="depot")
    assert agent.spent == {"fuel": 4, "toll": 0}
    assert agent.remaining == {"fuel": 6}
    assert agent.act() == "refuel"
    agent.observe("depot", [-5, 0])
    assert agent.spent == {"fuel": 0, "toll": 0}, "4 - 5 is below the floor"
    assert agent.history[0].cost == {"fuel": -5, "toll": 0}, "the history has observed costs"
    assert agent.remaining == {"fuel": 10}
    assert agent.act() == "drive"
    agent.observe("town", [3, 1])
    assert (agent.spent, agent.act()) == ({"fuel": 3, "toll": 1}, "drive")
    agent.reset()
    assert (agent.state, agent.spent, agent.step) == ("depot", {"fuel": 4, "toll": 0}, 0)
    agent.reset(state="town")
    assert (agent.state, agent.act()) == ("town", "drive")
    with pytest.raises(PolicyError, match="agent, state: expected one of the model's states"):
        agent.reset(state="moon")
    assert agent.state == "town"


@pytest.mark.parametrize("kind", ["exact", "rounded"])
@pytest.mark.parametrize("seed", seeds(60))
def test_agents_add_up_as_plain_fractions_do(seed: int, kind: str) -> None:
    case, rng = random_case(seed), random.Random(seed)
    policy = KINDS[kind](case, seed)
    add, begin = rounding(case, seed)[2] if kind == "rounded" else (case.add, case.initial)
    actions = {
        (step, case.model.states[s], spent): None
        for step, nodes in enumerate(nodes_of(case, (add, begin)))
        for s, spent in nodes
    }
    assert len(policy) == len(actions)
    for _ in range(5):
        state = first_state(case, rng)
        agent = policy.agent(state=state)
        spent, counted, costs = case.initial, begin, []
        while not agent.done:
            assert tuple(agent.spent.values()) == spent
            assert (agent.step, agent.state, counted) in actions
            units = policy.units if kind == "rounded" else (1,) * len(spent)
            ticks = [int(c * u / p) for c, u, p in zip(counted, units, policy.units, strict=True)]
            node = policy.node(agent.step, case.model.states.index(agent.state), ticks)
            assert agent.act() == policy.actions[policy.action_N[node]]
            for name, left in agent.remaining.items():
                limits = policy.limits.upper[policy.resources.index(name)]
                coming = next(limit for limit in limits[agent.step :] if limit is not None)
                assert left == coming - agent.spent[name]
            state, cost = draw(case, agent, rng)
            agent.observe(state, cost)
            costs.append(cost)
            spent, counted = case.add(spent, tuple(cost.values())), add(counted, tuple(cost.values()))
        assert tuple(agent.spent.values()) == spent
        assert [event.cost for event in agent.history] == costs


def best_value(case: Case, policy: Any, step: int, state: int, spent: tuple[Fraction, ...]) -> float:
    """Return the value of the best action that a policy takes with positive probability, by plain recursion."""
    model = case.model
    worth = 0.0 if model.end_reward is None else float(model.end_reward[state])
    if step == model.horizon or model.is_terminal(step, state):
        return worth
    values = []
    for row in model.rows(step, state):
        if isinstance(policy, MarkovPolicy):
            chance = policy.table[step, state, model.row_action[row]]
        else:
            ticks = [int(x / u) for x, u in zip(spent, policy.units, strict=True)]
            actions, weights = policy.choices(policy.node(step, state, ticks))
            chance = dict(zip(actions.tolist(), weights.tolist(), strict=True)).get(int(model.row_action[row]), 0)
        if chance:
            after = (
                (o.probability, model.states.index(o.next_state), case.add(spent, tuple(o.cost.values())))
                for o in model.outcomes(row)
            )
            later = sum(p * best_value(case, policy, step + 1, s, total) for p, s, total in after)
            values.append(float(model.row_reward[row]) + later)
    return max(values)


@pytest.mark.parametrize("seed", seeds(40))
def test_derandomized_policies_are_the_best_within_the_policy(seed: int) -> None:
    case = random_case(seed)
    model = case.model
    if seed % 2:
        rewards = np.random.default_rng(seed).integers(-9, 9, model.n_states).astype(float)
        case.model = model = solvent.model.cmdp.CMDP(**{**model.__dict__, "end_reward": rewards})  # type: ignore[attr-defined]
    for policy in (randomized_policy(case, seed), KINDS["Markov"](case, seed)):
        result = derandomize(model, policy)
        for state in model.start_states.tolist():
            expected = best_value(case, policy, 0, state, case.initial)
            fixed = result
            if isinstance(result, MarkovPolicy):
                fixed = MarkovPolicy(model, np.eye(model.n_actions)[result.table] * (result.table >= 0)[..., None])
            assert best_value(case, fixed, 0, state, case.initial) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", seeds(20))
@pytest.mark.parametrize("kind", KINDS)
def test_policies_are_copied_and_pickled(seed: int, kind: str) -> None:
    policy = KINDS[kind](random_case(seed), seed)
    for twin in (pickle.loads(pickle.dumps(policy)), copy.copy(policy), copy.deepcopy(policy)):
        assert twin == policy
        assert hash(twin) == hash(policy)
        assert repr(twin) == repr(policy)


@pytest.mark.parametrize("name", ["initial_D", "floor_D", "ceiling_D"])
def test_policies_with_other_accounts_differ(name: str) -> None:
    policy = tank_policy(tank())
    other = AugmentedPolicy(**{**{f: getattr(policy, f) for f in policy.__dataclass_fields__}, name: np.array([9])})
    assert other != policy
    assert not getattr(other, name).flags.writeable


def test_accounts_are_plain_if_not_given() -> None:
    policy = tank_policy(tank())
    fields = {f: getattr(policy, f) for f in policy.__dataclass_fields__ if not f.endswith("_D")}
    plain = AugmentedPolicy(**fields)
    assert (plain.initial_D.tolist(), plain.floor_D.tolist(), plain.ceiling_D.tolist()) == (
        [0],
        [MINUS_INFINITY],
        [PLUS_INFINITY],
    )
    with pytest.raises(PolicyError, match="policy, floor of 'fuel': expected the model's, 0, found none"):
        plain.check_model(tank())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"floor_D": [1]}, "policy, floor of 'fuel': expected the model's, 0, found 1"),
        ({"ceiling_D": [5]}, "policy, ceiling of 'fuel': expected none, as in the model, found 5"),
    ],
)
def test_ends_must_be_those_of_the_model(changes: dict[str, Any], message: str) -> None:
    model = tank()
    policy = tank_policy(model)
    fields = {f: getattr(policy, f) for f in policy.__dataclass_fields__}
    wrong = AugmentedPolicy(**{**fields, **{name: np.array(value) for name, value in changes.items()}})
    for use in (wrong.check_model, wrong.agent):
        with pytest.raises(PolicyError, match=message):
            use(model)


def test_rounded_ends_may_be_a_tick_away_from_the_model() -> None:
    for seed in range(30):
        case = random_case(seed)
        rounded_policy(case, seed).check_model(case.model)


def test_amounts_beyond_the_ends_are_refused() -> None:
    policy = tank_policy(tank())
    assert policy.action(1, "depot", 0) == "drive"
    with pytest.raises(PolicyError, match="spent, fuel: expected at least the floor, 0, found -1"):
        policy.action(1, "depot", -1)
    case = next(each for each in map(random_case, range(99)) if each.ends[0][1] is not None)
    beyond = [amount + (9 if d == 0 else 0) for d, amount in enumerate(case.initial)]
    with pytest.raises(PolicyError, match="spent, fuel: expected at most the ceiling"):
        exact_policy(case, 1).action(0, first_state(case, random.Random(1)), beyond)


def test_agents_of_several_first_states_must_be_told_one() -> None:
    policy = tank_policy(tank())
    with pytest.raises(
        PolicyError,
        match=r"agent, state: expected the state in which the episode begins, 'depot' or 'town', found none; use",
    ):
        policy.agent()
    with pytest.raises(
        PolicyError, match=r"agent, state: expected one of the model's states .*, found 'twon'; did you"
    ):
        policy.agent(state="twon")
    b = solvent.CMDP.builder(horizon=1, start={"s0": 0.5, "s1": 0.5}, resources=[])
    for i in range(3):
        b.add(f"s{i}", "x", outcomes=[(1, "s2")])
    markov = MarkovPolicy(b.build(), [[0, 0, 0]])
    with pytest.raises(
        PolicyError,
        match=r"expected a possible first state, 's0' or 's1', found 's2'; to resume in the middle of an episode, also",
    ):
        markov.agent(state="s2")
    assert markov.agent(state="s2", step=0).act() == "x"


def test_initial_amounts_are_needed_where_0_is_beyond_an_end() -> None:
    b = solvent.CMDP.builder(horizon=1, start="s", resources=[solvent.Resource("debt", floor=2)], budget={"debt": 9})
    b.add("s", "pay", outcomes=[(1, "s", -3)])
    policy = MarkovPolicy(b.build(), [[0]])
    with pytest.raises(PolicyError, match=r"agent, spent, debt: expected at least the floor, 2, found 0; say what has"):
        policy.agent()
    agent = policy.agent(spent=4)
    agent.act()
    agent.observe("s", -3)
    assert (agent.spent, agent.remaining) == ({"debt": 2}, {"debt": 7})


def test_accounts_whose_sums_do_not_fit_are_refused() -> None:
    half = 2**62
    b = solvent.CMDP.builder(
        horizon=1, start="s", resources=[solvent.Resource("r", floor=-half, ceiling=half)], budget={"r": 5}
    )
    b.add("s", "x", outcomes=[(1, "s", 1)])
    model = b.build()
    limits = resolve(model, None)
    ends = np.array([0]), np.array([-half]), np.array([half])
    none = np.zeros((1, 1), np.int64)
    lattice = Lattice(("r",), (Fraction(1),), none, none, none, *ends)
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=[([0], [[0]], [0])])
    with pytest.raises(PolicyError, match="costs of r: expected a unit in which sums of costs fit 64 bits, found 1"):
        policy.check_counting(model)


def test_initial_ticks_must_be_those_of_the_limits() -> None:
    model = tank()
    policy = tank_policy(model)
    fields = {f: getattr(policy, f) for f in policy.__dataclass_fields__}
    forgotten = AugmentedPolicy(**{**fields, "initial_D": np.array([0])})
    with pytest.raises(PolicyError, match="initial_D, 'fuel': expected the ticks of 4, found 0"):
        forgotten.agent(state="depot")
