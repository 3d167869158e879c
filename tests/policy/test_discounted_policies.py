"""Policies for discounted models: agents, files, and verification of their tail rules."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from solvent import CMDP, DiscountedCMDP, DiscountedPolicy, PolicyError, UnmodeledOutcome
from solvent.core.archives import read_archive, write_archive
from solvent.policy.tail import close, tail_actions


def van(discount: Any = "2/3", budget: Any = 3) -> DiscountedCMDP:
    b = CMDP.builder(discount=discount, start="depot", resources=["fuel"], budget=budget)
    b.add("depot", "drive", reward=2, outcomes=[(0.5, "depot", "4/3"), (0.5, "stuck", "1/3")])
    b.add("depot", "park", outcomes=[(1, "done", 0)])
    b.add("stuck", "pull", outcomes=[(1, "depot", 1)])
    b.add("stuck", "sleep", outcomes=[(1, "depot", 0)])
    b.terminal("done")
    return b.build()


@pytest.fixture(scope="module")
def model() -> DiscountedCMDP:
    return van()


@pytest.fixture(scope="module")
def policy(model: DiscountedCMDP) -> DiscountedPolicy:
    found = solvent.solve(model, epsilon=1, strict=True).policy
    assert isinstance(found, DiscountedPolicy)
    assert [rule.name for rule in found.rules] == ["best reward", "careful with fuel"]
    return found


def test_the_agent_discounts_true_costs(model: DiscountedCMDP, policy: DiscountedPolicy) -> None:
    agent = policy.agent()
    total, scale = Fraction(0), Fraction(1)
    for step in range(policy.steps + 40):
        assert (agent.step, agent.done) == (step, False)
        action = agent.act()
        assert (agent.tail_rule is None) == (step < policy.steps)
        assert action == agent.act()
        state, cost = ("depot", 4 / 3) if action == "drive" else ("depot", 1 if action == "pull" else 0)
        if action == "park":
            state, cost = "done", 0
        agent.observe(state, cost)  # 4 / 3 as a float matches the modeled fraction
        total, scale = total + scale * (Fraction(4, 3) if action == "drive" else cost), scale * model.discount
        assert agent.spent == {"fuel": total}
        assert agent.remaining == {"fuel": 3 - total}
        assert total <= 3
        if agent.done:
            break
    assert agent.history[0].cost in ({"fuel": Fraction(4, 3)}, {"fuel": Fraction(0)})
    agent.reset()
    assert (agent.step, agent.spent, agent.history, agent.tail_rule) == (0, {"fuel": 0}, [], None)


def test_the_agent_compares_outcomes_with_the_model_after_the_planned_steps() -> None:
    b = CMDP.builder(discount="1/2", start="a", resources=["x"], budget=2)
    b.add("a", "go", reward=1, outcomes=[(1, "a", 1)])
    policy = solvent.solve(b.build(), epsilon=1).policy
    for step in (0, 3, 12):
        agent = policy.agent()
        for _ in range(step):
            agent.act()
            agent.observe("a", 1)
        with pytest.raises(PolicyError, match=r"^observe: expected a call of act\(\) before"):
            agent.observe("a", 1)
        agent.act()
        with pytest.raises(UnmodeledOutcome) as caught:
            agent.observe("a", 2)
        assert (
            str(caught.value)
            == f"step {step}, state 'a', action 'go': expected state 'a' at cost 1, found state 'a' at cost 2"
        )
        with pytest.raises(PolicyError, match=r"^act: expected outcomes that the model allows"):
            agent.act()


def test_the_agent_ends_in_terminal_states_only() -> None:
    b = CMDP.builder(discount="1/2", start="a", resources=["x"], budget=9)
    b.add("a", "go", reward=1, outcomes=[(0.5, "a", 1), (0.5, "end", 1)])
    agent = solvent.solve(b.build(), epsilon=1).policy.agent()
    for step in range(30):
        agent.act()
        agent.observe("a" if step < 29 else "end", 1)
    assert agent.done
    with pytest.raises(
        PolicyError, match=r"^act: expected an episode that is not over, found one that is over after 30"
    ):
        agent.act()


def test_policies_are_saved_and_loaded(model: DiscountedCMDP, policy: DiscountedPolicy, tmp_path: Path) -> None:
    file = tmp_path / "van.policy"
    policy.save(file)
    again = solvent.load_policy(file, model)
    assert again == policy
    assert hash(again) == hash(policy)
    assert again.agent().act() == policy.agent().act()
    assert solvent.verify(model, again).worst_spent == solvent.verify(model, policy).worst_spent
    bare = solvent.load_policy(file)
    assert bare == policy
    assert isinstance(bare, DiscountedPolicy)
    assert bare.model is None
    with pytest.raises(
        PolicyError, match=r"^agent: expected the policy's model, found none; use policy.agent\(model\)"
    ):
        bare.agent()
    with pytest.raises(PolicyError, match=r"^policy: expected its model, found none"):
        bare.closed()
    assert bare.agent(model).act() == policy.agent().act()
    assert policy != 3


def test_policies_of_other_models_are_refused(model: DiscountedCMDP, policy: DiscountedPolicy, tmp_path: Path) -> None:
    policy.save(tmp_path / "van.policy")
    finite = solvent.solve(model.unrolled(3), 4, method="frontier").policy
    finite.save(tmp_path / "finite.policy")
    for other in (van(discount="1/2"), CMDP.from_arrays(np.ones((1, 1, 1)), [[0]], [[0]], discount="2/3")):
        with pytest.raises(
            PolicyError, match=r"policy: expected a policy for this model \('unnamed'\), found one for another"
        ):
            solvent.load_policy(tmp_path / "van.policy", other)
        with pytest.raises(PolicyError, match=r"expected a policy for this model"):
            solvent.verify(other, policy)
    with pytest.raises(
        PolicyError, match=r"expected a policy for one with a horizon, found one for a discounted model"
    ):
        solvent.load_policy(tmp_path / "van.policy", model.unrolled(3))
    with pytest.raises(
        PolicyError, match=r"expected a policy for a discounted model, found one for one with a horizon"
    ):
        solvent.load_policy(tmp_path / "finite.policy", model)
    with pytest.raises(PolicyError, match=r"^model: expected the DiscountedCMDP that the policy was made for"):
        policy.agent(model.unrolled(3))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rules": []}, r"header, rules: expected names of tail rules, found \[\]"),
        ({"rules": [1]}, r"header, rules: expected names of tail rules"),
        ({"discount": "2"}, r"discount: expected a number above 0 and below 1, found '2'"),
        ({"limits": {}}, r"header, limits: expected limits of \['fuel'\], found \{\}"),
        ({"limits": {"fuel": ["4"]}}, r"header, limits, fuel: expected an upper and a lower limit as text"),
        ({"limits": {"fuel": ["x", None]}}, r"header, limits, fuel: expected a finite number"),
        ({"tail_action": np.zeros((1, 1), np.int32)}, r"tail_action: expected shape \(2, 3\), found shape \(1, 1\)"),
        ({"tail_action": None}, r"file: expected an array 'tail_action', found none"),
        ({"tail_action": np.full((2, 3), 9, np.int32)}, r"tail_action: expected positions from -1 to 3, found 9 to 9"),
        ({"tail_value": np.full((2, 3), np.nan)}, r"tail_value: expected numbers of at most 1e\+300 in size"),
        ({"tail_most": np.zeros((2, 1, 3))}, r"tail_most: expected numbers as text"),
        ({"tail_most": np.full((2, 1, 3), "x")}, r"tail_most: expected a finite number"),
        ({"tail_most": np.full((2, 1, 3), "")}, r"tail_most: expected a bound for each resource"),
        ({"tail_most": np.full((2, 2, 3), "1")}, r"tail_most: expected a bound for each resource"),
    ],
)
def test_broken_files_are_refused(
    policy: DiscountedPolicy, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    file = tmp_path / "van.policy"
    policy.save(file)
    arrays, header = read_archive(file.read_bytes())
    for key, value in changes.items():
        if isinstance(value, np.ndarray):
            arrays[key] = value
        elif key in arrays:
            arrays.pop(key)
        else:
            header[key] = value
    file.write_bytes(write_archive(arrays, header))
    with pytest.raises(PolicyError, match=message):
        solvent.load_policy(file)


def test_closed_models_have_the_costs_of_the_tail(model: DiscountedCMDP, policy: DiscountedPolicy) -> None:
    steps = policy.steps
    closed = close(model, steps, policy.rules)
    assert closed.horizon == steps + 1
    scale = model.discount**steps
    for state in (0, 1):
        rows = closed.rows(steps, state)
        assert len(rows) == len(policy.rules)
        for row, rule in zip(rows, policy.rules, strict=True):
            most, least = (o.cost["fuel"] for o in closed.outcomes(row))
            assert (most, least) == (scale * rule.most_DS[0][state], scale * rule.least_DS[0][state])  # type: ignore[index]
            assert closed.row_reward[row] == pytest.approx(float(scale) * rule.value_S[state])
            assert closed.actions[closed.row_action[row]] == ("tail", rule.name)
    assert closed.is_terminal(steps, 2)


def test_names_of_tail_actions_are_new() -> None:
    b = CMDP.builder(discount="1/2", start=0, resources=["x"])
    b.add(0, ("tail", "best reward"), outcomes=[(1, 0, 1)])
    assert tail_actions(b.build().base, ["best reward"]) == (("tail", "tail", "best reward"),)


def changed(policy: DiscountedPolicy, model: DiscountedCMDP, **parts: Any) -> DiscountedPolicy:
    """Return the same policy with another first rule, as if it had been made with it."""
    rules = (replace(policy.rules[0], **parts), *policy.rules[1:])
    finite = replace(policy.finite, fingerprint=close(model, policy.steps, rules).fingerprint)
    return replace(policy, finite=finite, rules=rules)


def test_bounds_of_tails_are_checked(model: DiscountedCMDP, policy: DiscountedPolicy) -> None:
    rule = policy.rules[0]
    most, least = rule.most_DS[0], rule.least_DS[0]
    assert least is not None
    pull = np.array([model.base.action_index("pull"), *rule.action_S[1:]], np.int32)
    small = (most[0] / 2, *most[1:])
    with pytest.raises(
        PolicyError, match=r"^tail rule best reward, state '\w+', fuel: expected a bound of at least .*, because"
    ):
        solvent.verify(model, changed(policy, model, most_DS=(small,)))
    with pytest.raises(
        PolicyError, match=r"^tail rule best reward, state 'depot', fuel: expected bounds on both sides of 0"
    ):
        solvent.verify(model, changed(policy, model, most_DS=((Fraction(-1), *most[1:]),)))
    with pytest.raises(PolicyError, match=r"expected bounds on both sides of 0, because of its outcomes, found others"):
        solvent.verify(model, changed(policy, model, least_DS=((Fraction(1), *least[1:]),)))
    with pytest.raises(PolicyError, match=r"^tail rule best reward: expected a lower bound of fuel, found none"):
        solvent.verify(model, changed(policy, model, least_DS=(None,)))
    with pytest.raises(
        PolicyError, match=r"^tail rule best reward, state 'depot': expected one of \['drive', 'park'\], found 'pull'"
    ):
        solvent.verify(model, changed(policy, model, action_S=pull))
    with pytest.raises(PolicyError, match=r"expected one of \['drive', 'park'\], found no decision"):
        solvent.verify(model, changed(policy, model, action_S=np.array([-1, *rule.action_S[1:]], np.int32)))
    wide = solvent.verify(model, changed(policy, model, most_DS=(tuple(x + 10 for x in most[:2]) + most[2:],)))
    assert wide.tail["fuel"] > solvent.verify(model, policy).tail["fuel"]


def test_lower_bounds_of_tails_are_checked() -> None:
    b = CMDP.builder(discount="1/2", start=0, resources=["x"], budget=solvent.Budget(lower=-9))
    b.add(0, 0, outcomes=[(1, 0, -1)])
    model = b.build()
    policy = solvent.solve(model, epsilon=1).policy
    assert isinstance(policy, DiscountedPolicy)
    high = ((Fraction(-1),),)
    with pytest.raises(
        PolicyError, match=r"state 0, x: expected a lower bound of at most -1.5, because of its outcomes, found -1$"
    ):
        solvent.verify(model, changed(policy, model, least_DS=high))


def test_values_of_tails_are_checked(model: DiscountedCMDP, policy: DiscountedPolicy) -> None:
    honest = solvent.verify(model, policy)
    assert honest.value_error < 1e-12
    more = policy.rules[0].value_S + np.array([1.0, 1.0, 0.0])
    boast = solvent.verify(model, changed(policy, model, value_S=more))
    assert boast.value_error > 0.1 * float(model.discount) ** policy.steps


def test_only_discounted_policies_are_verified_for_discounted_models(
    model: DiscountedCMDP, policy: DiscountedPolicy
) -> None:
    with pytest.raises(
        PolicyError, match=r"^policy: expected a DiscountedPolicy, .*verify\(model.unrolled\(steps\), policy\)"
    ):
        solvent.verify(model, np.zeros((1, 3), int))
    with pytest.raises(solvent.BudgetError, match=r"^budget: expected one limit for all time"):
        solvent.verify(model, policy, [1, 2])
    with pytest.raises(PolicyError, match=r"^finite: expected at least one step and one for the tail, found 1"):
        replace(policy, finite=solvent.solve(model.unrolled(1), 9).policy)


def test_reports(model: DiscountedCMDP, policy: DiscountedPolicy) -> None:
    report = solvent.verify(model, policy)
    assert report.feasible
    assert report.excess == {"fuel": 0}
    assert report.worst_spent["fuel"] <= 3
    text = str(report)
    assert text.startswith("never breaks a limit; value ")
    assert f"{policy.steps} steps and a tail" in text
    tight = solvent.verify(model, policy, report.worst_spent["fuel"] - Fraction(1, 100))
    assert not tight.feasible
    assert tight.excess == {"fuel": Fraction(1, 100)}
    assert str(tight).startswith("may break a limit; value ")
    assert repr(policy).startswith("DiscountedPolicy(")
