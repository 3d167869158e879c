"""Agents that resume: a snapshot continues exactly, for every kind of policy and at every step."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from random_accounts import KINDS, draw, exact_policy, first_state, random_case, rounded_policy, until_violation_policy

import solvent
from effort import seeds, some
from solvent.errors import ModelError, PolicyError, SolventError
from solvent.model import instances
from solvent.policy.markov import MarkovPolicy


def carried(snapshot: Mapping[str, Any]) -> Any:
    """Return a snapshot after a restart: only text survives."""
    return json.loads(json.dumps(snapshot))


def assert_same(one: Any, other: Any) -> None:
    assert (one.step, one.state, one.spent, one.remaining) == (other.step, other.state, other.spent, other.remaining)
    assert one.done == other.done
    assert one.snapshot() == other.snapshot()


@pytest.mark.parametrize("seed", seeds(40))
@pytest.mark.parametrize("kind", KINDS)
def test_resuming_equals_continuing(kind: str, seed: int) -> None:
    case, rng = random_case(seed), random.Random(seed)
    policy = KINDS[kind](case, seed)
    agent = policy.agent(state=first_state(case, rng), seed=seed)
    others = [policy.agent(snapshot=carried(agent.snapshot()), seed=99)]
    while not agent.done:
        action = agent.act()
        pending = policy.agent(snapshot=carried(agent.snapshot()))
        assert [other.act() for other in (pending, *others)] == [action] * (1 + len(others))
        state, cost = draw(case, agent, rng)
        for each in (agent, pending, *others):
            each.observe(state, cost)
        others.append(pending)
        others.append(policy.agent(snapshot=carried(agent.snapshot())))
        for other in others:
            assert_same(other, agent)
    assert_same(policy.agent(snapshot=carried(agent.snapshot())), agent)


@pytest.mark.parametrize("seed", seeds(40))
def test_resuming_with_amounts_equals_continuing(seed: int) -> None:
    case, rng = random_case(seed), random.Random(seed)
    policy = exact_policy(case, seed)
    agent = policy.agent(state=first_state(case, rng))
    while not agent.done:
        twin = policy.agent(step=agent.step, state=agent.state, spent=agent.spent)
        assert_same(twin, agent)
        assert twin.act() == agent.act()
        agent.observe(*draw(case, agent, rng))
    assert_same(policy.agent(step=agent.step, state=agent.state, spent=agent.spent), agent)


def test_reset_goes_back_to_where_the_agent_began() -> None:
    for seed in range(20):
        case, rng = random_case(seed), random.Random(seed)
        agent = rounded_policy(case, seed).agent(state=first_state(case, rng))
        while not agent.done:
            resumed = agent.policy.agent(snapshot=agent.snapshot())
            before = resumed.snapshot()
            resumed.act()
            resumed.observe(*draw(case, resumed, rng))
            resumed.reset()
            assert (resumed.snapshot(), resumed.history) == (before, [])
            agent.act()
            agent.observe(*draw(case, agent, rng))


def test_a_snapshot_has_what_the_policy_needs_and_no_more() -> None:
    fields = {"exact": set(), "rounded": {"counted"}, "randomized": {"random"}, "Markov": {"random"}}
    fields["until violation"] = {"random", "violated"}
    for kind, own in fields.items():
        found: set[str] = set()
        for seed in range(20):
            case, rng = random_case(seed), random.Random(seed)
            agent = KINDS[kind](case, seed).agent(state=first_state(case, rng))
            agent.act()
            agent.observe(*draw(case, agent, rng))
            found |= set(agent.snapshot())
        assert found - {"solvent_agent", "fingerprint", "step", "state", "spent"} == own, kind


def test_violations_before_the_snapshot_are_known_after_it() -> None:
    seen = set()
    for seed in range(60):
        case, rng = random_case(seed), random.Random(seed)
        policy = until_violation_policy(case, seed)
        agent = policy.agent(state=first_state(case, rng))
        broken = False
        while not agent.done:
            agent.act()
            agent.observe(*draw(case, agent, rng))
            for d, name in enumerate(policy.resources):
                limit = policy.limits.upper[d][agent.step - 1]
                broken |= limit is not None and agent.spent[name] > limit
            snapshot = carried(agent.snapshot())
            assert snapshot["violated"] is broken
            seen.add(broken)
            if not agent.done:
                assert policy.agent(snapshot=snapshot).act() == agent.act()
            with pytest.raises(PolicyError, match="a snapshot, which says whether a limit was broken before"):
                policy.agent(step=agent.step, state=agent.state, spent=agent.spent)
    assert seen == {False, True}


def discounted() -> Any:
    b = solvent.CMDP.builder(horizon=None, discount="2/3", start="s", resources=["z"], budget=2)
    b.add("s", "a", reward=1, outcomes=[(0.5, "s", 1), (0.5, "t", "1/3")])
    b.add("s", "b", outcomes=[(1, "s", 0)])
    b.add(
        "t",
        "b",
        outcomes=[
            (1, "s", 0),
        ],
    )
    return b.build()


@pytest.mark.parametrize("strict", [False, True])
def test_agents_without_end_resume(strict: bool) -> None:
    model, rng = discounted(), random.Random(5)
    policy = solvent.solve(model, epsilon="1/4", strict=strict).policy
    for _ in range(5):
        agent = policy.agent()
        while agent.step < policy.steps + 4:
            for other in (agent, policy.agent(snapshot=carried(agent.snapshot()))):
                assert (other.act(), other.tail_rule) == (agent.act(), agent.tail_rule)
            if agent.step <= policy.steps and not policy.finite.rounds:
                assert policy.agent(step=agent.step, state=agent.state, spent=agent.spent).act() == agent.act()
            twin = policy.agent(snapshot=carried(agent.snapshot()))
            after = [("s", 1), ("t", Fraction(1, 3))] if agent.act() == "a" else [("s", 0)]
            outcome = rng.choice(after)
            agent.observe(*outcome)
            twin.observe(*outcome)
            assert_same(twin, agent)
        with pytest.raises(PolicyError, match=r"a snapshot, which says which tail rule is followed after \d+ planned"):
            policy.agent(step=agent.step, state=agent.state, spent=agent.spent)
        snapshot = agent.snapshot()
        for wrong in (None, "nonsense", 3, []):
            with pytest.raises(PolicyError, match="snapshot, tail_rule: expected"):
                policy.agent(snapshot={**snapshot, "tail_rule": wrong})
        with pytest.raises(PolicyError, match="snapshot, tail_rule: expected"):
            policy.agent(snapshot={**snapshot, "step": 0})


def test_long_sums_survive() -> None:
    model = discounted()
    policy = solvent.solve(model, epsilon="1/4", strict=True).policy
    agent = policy.agent()
    for _ in range(4000):
        if agent.act() == "a":
            agent.observe("t", Fraction(1, 3))
        else:
            agent.observe("s", 0)
    agent = policy.agent(snapshot={**agent.snapshot(), "spent": {"z": hex(7**20_000)}})
    assert agent.spent == {"z": 7**20_000}
    twin = policy.agent(snapshot=carried(agent.snapshot()))
    assert_same(twin, agent)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"step": 1, "spent": 0}, r"agent, state: expected the state at step 1, found none; use policy.agent\(step="),
        ({"step": 1, "state": 0}, "agent, spent: expected what has been spent of 'cost' before step 1, found none"),
        ({"step": 1, "state": 0, "spent": {}}, "agent, spent: expected what has been spent of 'cost' before step 1"),
        ({"step": 3, "state": 0, "spent": 0}, "agent, step: expected a step from 0 to 2, found 3"),
        ({"step": -1, "state": 0, "spent": 0}, "agent, step: expected a step from 0 to 2, found -1"),
        ({"step": True, "state": 0, "spent": 0}, "agent, step: expected a step from 0 to 2, found True"),
        ({"step": 1.0, "state": 0, "spent": 0}, "agent, step: expected a step from 0 to 2, found 1.0"),
        ({"step": 1, "state": 5, "spent": 0}, "agent, state: expected one of the model's states"),
        ({"step": 1, "state": [], "spent": 0}, "agent, state: expected one of the model's states"),
        ({"step": 1, "state": 0, "spent": "x"}, "agent, spent, cost: expected a finite number"),
        ({"step": 1, "state": 0, "spent": {"csot": 1}}, "found 'csot'; did you mean 'cost'?"),
        ({"spent": {"csot": 1}}, "agent, spent: expected a resource of the model .'cost'., found 'csot'; did you mean"),
        ({"step": 1, "snapshot": {}}, "agent: expected a snapshot, or step, state and spent, found both"),
        ({"snapshot": {}}, r"snapshot: expected what agent.snapshot\(\) returns, found {}"),
        ({"snapshot": 3}, r"snapshot: expected what agent.snapshot\(\) returns, found 3"),
    ],
)
def test_places_that_are_none(given: dict[str, Any], message: str) -> None:
    policy = MarkovPolicy(instances.markov_gap(), [[0], [0]])
    with pytest.raises(PolicyError, match=message):
        policy.agent(**given)


def test_places_without_a_decision() -> None:
    model = instances.knapsack([3, 4], [2, 3], capacity=4)
    policy = solvent.solve(model, method="reduction").policy
    name = model.start
    with pytest.raises(
        PolicyError,
        match=r"agent, step 1, state 'knapsack', spent weight 3: expected to have spent .*, found an amount that the "
        r"policy never leads to; a snapshot of the agent that stopped resumes where the policy led to",
    ):
        policy.agent(step=1, state=name, spent=3)
    with pytest.raises(PolicyError, match="spent, weight: expected a whole multiple of 1, found 1/3"):
        policy.agent(step=1, state=name, spent="1/3")
    assert policy.agent(step=2, state=name, spent=3).done
    markov = MarkovPolicy(model, [[0], [-1]])
    with pytest.raises(PolicyError, match="agent, step 1, state 'knapsack', spent weight 0: expected a decision"):
        markov.agent(step=1, state=name, spent=0)


def test_policies_that_find_the_nearest_node_resume_between_nodes() -> None:
    model = instances.knapsack([3, 4], [2, 3], capacity=5)
    policy = solvent.solve(model, method="frontier").policy
    assert policy.lookup == "at_most"
    agent = policy.agent(step=1, state=model.start, spent="3/2")
    assert agent.remaining == {"weight": Fraction(7, 2)}
    assert agent.act() == "take"
    assert agent.snapshot()["counted"] == {"weight": "2"}
    assert_same(policy.agent(snapshot=carried(agent.snapshot())), agent)


def test_names_that_json_cannot_hold() -> None:
    b = solvent.CMDP.builder(horizon=1, start=frozenset("a"), resources=[])
    b.add(frozenset("a"), "x", outcomes=[(1, frozenset("a"))])
    agent = MarkovPolicy(b.build(), [[0]]).agent()
    with pytest.raises(ModelError, match="expected a name that files can hold: text, a number, or a tuple of these"):
        agent.snapshot()


def test_a_broken_agent_has_no_snapshot() -> None:
    agent = MarkovPolicy(instances.markov_gap(), [[0], [0]]).agent()
    agent.act()
    with pytest.raises(solvent.UnmodeledOutcome):
        agent.observe(0, 17)
    with pytest.raises(PolicyError, match="snapshot: expected outcomes that the model allows"):
        agent.snapshot()


SEED = next(seed for seed in range(99) if random_case(seed).ends[0][0] is not None)
CHANGES: list[tuple[str, dict[str, Any], str]] = [
    ("exact", {"solvent_agent": 2}, "snapshot, solvent_agent: expected 1, found 2; it was written by a newer version"),
    ("exact", {"solvent_agent": "1"}, "snapshot, solvent_agent: expected 1, found '1'"),
    ("exact", {"solvent_agent": True}, "snapshot, solvent_agent: expected 1, found True"),
    ("exact", {"fingerprint": "0" * 32}, "snapshot, fingerprint: expected that of the policy's model"),
    ("exact", {"fingerprint": None}, "snapshot, fingerprint: expected that of the policy's model"),
    ("exact", {"step": 4}, "snapshot, step: expected a step from 0 to 3, found 4"),
    ("exact", {"step": "1"}, "snapshot, step: expected a step from 0 to 3, found '1'"),
    ("exact", {"state": "moon"}, "snapshot, state: expected one of the model's states"),
    ("exact", {"state": None}, "snapshot, state: expected a name"),
    ("exact", {"state": {}}, "snapshot, state: expected a name"),
    ("exact", {"spent": {}}, "snapshot, spent: expected an amount of 'fuel'"),
    ("exact", {"spent": 3}, "snapshot, spent: expected an amount of 'fuel'"),
    ("exact", {"spent": {"fuel": 3, "wear": "0"}}, "expected an exact number as text, such as '3/2', found 3"),
    ("exact", {"spent": {"fuel": "1/0", "wear": "0"}}, "expected an exact number as text, such as '3/2', found '1/0'"),
    ("exact", {"spent": {"fuel": "1e9", "wear": "0"}}, "expected an exact number as text"),
    ("exact", {"spent": {"fuel": "9" * 5000, "wear": "0"}}, "expected an exact number as text"),
    (
        "exact",
        {"spent": {"fuel": "-99", "wear": "0"}},
        r"snapshot, spent, fuel: expected an amount within the ends of R",
    ),
    ("exact", {"spent": {"fuel": "1/77777", "wear": "0"}}, "snapshot, fuel: expected a whole multiple of the policy's"),
    ("exact", {"counted": {"fuel": "1/77777", "wear": "0"}}, "resume with the policy that the agent followed"),
    (
        "exact",
        {"violated": True},
        "a snapshot of an agent that follows this policy, found one with the field 'violated'",
    ),
    ("exact", {"action": "moon"}, "snapshot, action: expected one of the model's actions"),
    ("exact", {"random": {}}, "snapshot, random: expected no state of a random number generator, found one"),
    ("randomized", {"random": {}}, "snapshot, random: expected the state of a generator PCG64"),
    ("randomized", {"random": {"bit_generator": "PCG64"}}, "snapshot, random, state: expected 128 bits in hexadecimal"),
    ("until violation", {"violated": 1}, "snapshot, violated: expected whether a limit was broken, found 1"),
    ("Markov", {"counted": {}}, "found one with the field 'counted'"),
]


@pytest.mark.parametrize(("kind", "changes", "message"), CHANGES)
def test_forged_snapshots_are_refused(kind: str, changes: dict[str, Any], message: str) -> None:
    case = random_case(SEED)
    policy = KINDS[kind](case, SEED)
    snapshot = policy.agent(state=first_state(case, random.Random(1))).snapshot()
    names = case.model.resources
    for field in ("spent", "counted"):
        if isinstance(changes.get(field), dict) and changes[field]:
            changes = {**changes, field: {name: changes[field][name] for name in names}}
    with pytest.raises(PolicyError, match=message):
        policy.agent(snapshot={**snapshot, **changes})


def test_generators_are_checked_part_by_part() -> None:
    case = random_case(SEED)
    policy = KINDS["randomized"](case, SEED)
    snapshot = policy.agent(state=first_state(case, random.Random(1))).snapshot()
    for name, wrong in (
        ("state", "0x" + "f" * 33),
        ("inc", 5),
        ("inc", "0xg"),
        ("has_uint32", 2),
        ("uinteger", 2**32),
        ("uinteger", True),
    ):
        with pytest.raises(PolicyError, match=f"snapshot, random, {name}: expected"):
            policy.agent(snapshot={**snapshot, "random": {**snapshot["random"], name: wrong}})
    snapshot.pop("random")
    with pytest.raises(
        PolicyError, match="snapshot, random: expected the state of a random number generator, found none"
    ):
        policy.agent(snapshot=snapshot)


def test_random_snapshots_are_agents_or_errors() -> None:
    rng = random.Random(3)
    hostile: list[Any] = [None, True, -1, 2**70, 1.5, float("nan"), "", "x", "1/0", [], [[]], {}, {"fuel": "1"}, "0x1"]
    deep: Any = "a"
    for _ in range(5000):
        deep = [deep]
    hostile.append(deep)
    for _ in range(some(600)):
        case = random_case(rng.randrange(30))
        policy = rng.choice(list(KINDS.values()))(case, 1)
        snapshot = policy.agent(state=first_state(case, rng)).snapshot()
        for _ in range(rng.randint(1, 2)):
            field = rng.choice([*snapshot, "action", "counted", "random", "violated", "tail_rule"])
            snapshot[field] = rng.choice(hostile)
        try:
            agent = policy.agent(snapshot=snapshot)
            agent.act()
        except SolventError:
            pass


def a_van(seed: int) -> Any:
    """Return a random model in which waiting costs nothing, so that every budget of at least 0 is feasible."""
    rng = random.Random(seed)
    b = solvent.CMDP.builder(horizon=6, start=0, resources=[solvent.Resource("fuel", floor=0)])
    for state in range(3):
        b.add(state, "wait", outcomes=[(1, state, 0)])
        for action in ("drive", "run"):
            outcomes = [(0.5, rng.randrange(3), rng.randint(-2, 4)) for _ in range(2)]
            b.add(state, action, reward=rng.randint(1, 9), outcomes=outcomes)
    return b.build()


def test_a_snapshot_of_another_budget_is_refused_or_keeps_this_one() -> None:
    refused: list[str] = []
    kept = 0
    for seed in range(60):
        model, rng = a_van(seed), random.Random(seed)
        large, small = (solvent.solve(model, {"fuel": budget}).policy for budget in (14, 5))
        agent = large.agent()
        while not agent.done:
            if rng.random() < 0.5:
                agent.act()
            try:
                resumed = small.agent(snapshot=carried(agent.snapshot()))
            except PolicyError as error:
                refused.append(str(error))
            else:
                kept += 1
                while not resumed.done:
                    rows = model.rows(resumed.step, model.state_index(resumed.state))
                    taken = next(row for row in rows if model.actions[model.row_action[row]] == resumed.act())
                    outcome = max(model.outcomes(taken), key=lambda each: each.cost["fuel"])
                    resumed.observe(outcome.next_state, outcome.cost)
                    assert resumed.spent["fuel"] <= 5
            rows = model.rows(agent.step, model.state_index(agent.state))
            taken = next(row for row in rows if model.actions[model.row_action[row]] == agent.act())
            outcome = rng.choice(model.outcomes(taken))
            agent.observe(outcome.next_state, outcome.cost)
    assert all(each.startswith("snapshot, step ") for each in refused if "snapshot, action" not in each)
    assert all(
        each.endswith("; a snapshot is for the policy that was followed, with the same budget") for each in refused
    )
    assert len(refused) > 60
    assert kept > 60


def test_a_pending_action_that_the_policy_does_not_take_is_refused() -> None:
    policy = solvent.solve(a_van(3), {"fuel": 5}).policy
    agent = policy.agent()
    others = {"wait", "drive", "run"} - {agent.act()}
    for other in others:
        with pytest.raises(PolicyError, match="snapshot, action: expected an action that the policy takes at step 0"):
            policy.agent(snapshot={**agent.snapshot(), "action": other})
    far = {**agent.snapshot(), "spent": {"fuel": "1000"}}
    with pytest.raises(PolicyError, match="found an amount that the policy never leads to; a snapshot is for the"):
        policy.agent(snapshot=far)
