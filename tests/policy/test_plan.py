"""Plans as rows: they cover exactly the decisions of a policy, with values that brute force confirms."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
import random_accounts as accounts

import solvent
from effort import seeds
from solvent.model import instances
from solvent.policy.plan import range_text
from solvent.policy.table import AugmentedPolicy


def inside(amount: Fraction, ends: tuple[Fraction | None, Fraction | None]) -> bool:
    low, high = ends
    return (low is None or low <= amount) and (high is None or amount <= high)


def decisions(policy: Any) -> list[Any]:
    """Return all nodes of a policy: step, state, amounts and the probability of each action."""
    found = []
    for step in range(policy.horizon):
        for group in range(int(policy.step_indptr[step]), int(policy.step_indptr[step + 1])):
            for node in range(int(policy.node_indptr[group]), int(policy.node_indptr[group + 1])):
                actions, weights = policy.choices(node)
                choices = {policy.actions[a]: p for a, p in zip(actions.tolist(), weights.tolist(), strict=True)}
                state = policy.states[int(policy.group_state[group])]
                found.append((step, state, dict(zip(policy.resources, policy.amounts(node), strict=True)), choices))
    return found


def next_limit(side: Any, step: int) -> Fraction | None:
    later = [limit for limit in side[step:] if limit is not None]
    before = [limit for limit in side[:step] if limit is not None]
    return later[0] if later else before[-1] if before else None


def check_rows(policy: Any, rows: list[Any]) -> None:
    nodes = decisions(policy)
    assert sum(row.nodes for row in rows) == len(nodes)
    for step, state, spent, choices in nodes:
        (row,) = (
            row
            for row in rows
            if (row.step, row.state) == (step, state)
            and all(inside(amount, row.spent[name]) for name, amount in spent.items())
        )
        assert row.choices == choices
    for row in rows:
        for d, name in enumerate(policy.resources):
            (low, high), limit = row.spent[name], next_limit(policy.limits.upper[d], row.step)
            if limit is not None:
                expected = (None if high is None else limit - high, None if low is None else limit - low)
            else:
                least = next_limit(policy.limits.lower[d], row.step)
                assert least is not None
                expected = (None if low is None else low - least, None if high is None else high - least)
            assert row.remaining[name] == expected


def check_merged(policy: Any, rows: list[Any], along: str) -> None:
    """Check that no two neighbors could have been one row."""
    for one, two in itertools.pairwise(rows):
        others = [name for name in policy.resources if name != along]
        settled = (None, None) in (one.spent[along], two.spent[along])
        same = (one.step, one.state, [one.spent[o] for o in others]) == (
            two.step, two.state, [two.spent[o] for o in others],
        )  # fmt: skip
        assert not same or one.choices != two.choices or settled


@pytest.mark.parametrize("kind", ["exact", "rounded", "randomized"])
@pytest.mark.parametrize("seed", seeds(20))
def test_rows_cover_exactly_the_decisions(kind: str, seed: int) -> None:
    case = accounts.random_case(seed)
    policy: Any = accounts.KINDS[kind](case, seed)
    for resource in [None, *policy.resources]:
        rows = policy.table(resource=resource)
        check_rows(policy, rows)
        check_merged(policy, rows, resource or policy.resources[-1])
    step, state = 1, case.model.states[0]
    assert policy.table(step=step, state=state) == [
        row for row in policy.table() if (row.step, row.state) == (step, state)
    ]


def values_of(case: Any, policy: AugmentedPolicy) -> dict[Any, Fraction]:
    """Return what the policy earns from each node to which it leads, by the definition."""
    model, known = case.model, {}

    def value(step: int, state: int, spent: Any) -> Fraction:
        if step == model.horizon or model.is_terminal(step, state):
            return Fraction(0) if model.end_reward is None else Fraction(float(model.end_reward[state]))
        key = (step, model.states[state], spent)
        if key not in known:
            amounts = dict(zip(model.resources, spent, strict=True))
            action = model.actions.index(policy.action(step, model.states[state], amounts))
            (row,) = (row for row in model.rows(step, state) if model.row_action[row] == action)
            total = Fraction(float(model.row_reward[row]))
            for outcome in model.outcomes(row):
                cost = tuple(outcome.cost[name] for name in model.resources)
                after = model.states.index(outcome.next_state)
                total += Fraction(outcome.probability) * value(step + 1, after, case.add(spent, cost))
            known[key] = total
        return known[key]

    starts = model.start if isinstance(model.start, dict) else [model.start]
    for name in starts:
        value(0, model.states.index(name), case.initial)
    return known


@pytest.mark.parametrize("method", ["auto", "reduction"])
@pytest.mark.parametrize("seed", seeds(30))
def test_values_and_ranges_of_optimal_policies(method: str, seed: int) -> None:
    case = accounts.random_case(seed)
    initial = dict(zip(case.model.resources, case.initial, strict=True))
    solution = solvent.solve(case.model, case.budget, spent=initial, method=method)
    if not solution.status.has_policy:
        assert solution.status.value == "infeasible"
        return
    policy = solution.policy
    rows = policy.table()
    known = values_of(case, policy)
    used = {id(row): [] for row in rows}
    for (step, state, spent), value in known.items():
        amounts = dict(zip(case.model.resources, spent, strict=True))
        (row,) = (
            row
            for row in rows
            if (row.step, row.state) == (step, state)
            and all(inside(amounts[name], row.spent[name]) for name in policy.resources)
        )
        assert list(row.choices) == [policy.action(step, state, amounts)]
        used[id(row)].append(value)
    for row in rows:
        found = used[id(row)]
        assert row.value == ((pytest.approx(float(min(found))), pytest.approx(float(max(found)))) if found else None)


def test_a_row_applies_to_all_amounts_in_its_range():
    model = instances.fuel_grid(3)
    policy = solvent.solve(model, method="frontier").policy
    assert policy.lookup == "at_most"
    (name,) = policy.resources
    for row in policy.table():
        low, high = row.spent[name]
        assert high is not None
        unit = policy.units[0]
        begin = high - 5 * unit if low is None else low
        for k in range(int((high - begin) / unit) + 1):
            assert policy.action(row.step, row.state, begin + k * unit) == row.action_text


def test_text():
    one, two = Fraction(1), Fraction(5, 2)
    assert range_text((one, two)) == "1 to 2.5"
    policy = solvent.solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50), method="reduction").policy
    rows = policy.table(step=1)
    assert [(row.action_text, row.value_text) for row in rows] == [("take", "220")]


def test_mistakes():
    policy = solvent.solve(instances.knapsack([60], [10], capacity=50)).policy
    with pytest.raises(solvent.PolicyError, match="step: expected a step from 0 to 0, found 1"):
        policy.table(step=1)
    with pytest.raises(solvent.PolicyError, match="state: expected a state of the policy's model, found 'sack'"):
        policy.table(state="sack")
    with pytest.raises(solvent.PolicyError, match=r"resource: expected one of the tracked resources \('weight'\)"):
        policy.table(resource="wieght")


def test_policies_without_their_model_or_with_continuous_costs_have_no_values(tmp_path):
    model = instances.knapsack([60], [10], capacity=50)
    solvent.solve(model).policy.save(tmp_path / "p.policy")
    (row,) = solvent.load_policy(tmp_path / "p.policy").table()
    assert (row.value, row.value_text) == (None, "")
    (row,) = solvent.load_policy(tmp_path / "p.policy").table(model=model)
    assert row.value == (60.0, 60.0)
    b = solvent.CMDP.builder(horizon=1, start="a", resources=["x"], budget=2)
    b.add("a", "go", reward=1, outcomes=[(1, "a", solvent.distribution("uniform", low=0, high=1))])
    assert all(row.value is None for row in solvent.solve(b.build(), gap=0.1).policy.table())
