"""Every entry point around the solvers, on models with each feature of accounts, starts and ends.

It must agree with a plain model of the same problem, in which what was spent is part of the state, the goal is a cost
and the start is a step; or refuse the feature with a message that says what to do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effort
import solvent
import solvent.plot
from accounts import BREACH, FEATURES, Case, encode, random_case
from solvent import baselines
from solvent.errors import ModelError
from solvent.gym import BudgetWrapper, ModelEnv
from solvent.model.cmdp import CMDP
from solvent.plot.panels import spending_panels

ZERO = {BREACH: 0}


def close(found: float, expected: float) -> None:
    assert found == pytest.approx(expected, abs=1e-6)


def claimed(found: Any) -> float:
    return float(found.value) if found.has_policy else -math.inf


def spent_of(case: Case) -> dict[str, Any]:
    return {"spent": case.spent}


def by_augment(case: Case) -> None:
    mdp = solvent.augment(case.model, case.budget, **spent_of(case))
    plain = solvent.augment(encode(case), ZERO)
    assert mdp.feasible == plain.feasible == (case.optimum > -math.inf)


def by_stationary(case: Case) -> None:
    free = dict.fromkeys(case.model.resources)
    limits = free | {case.model.resources[0]: 2}
    mdp = solvent.augment(case.model, limits, stationary=True, **spent_of(case))
    assert mdp.feasible == (Case(case.model, limits, case.spent).optimum > -math.inf)


def by_env(case: Case) -> None:
    """The average of random episodes, which take the first action, is that of the plain model."""
    model, plain = case.model, encode(case)
    means = []
    for each, options in ((model, spent_of(case)), (plain, {})):
        env, total = ModelEnv(each, **options), 0.0
        for episode in range(500):
            _, info = env.reset(seed=1 if episode == 0 else None)
            total += info.get("end_reward", 0.0)
            while not env.done:
                rows = each.rows(env._step, env._state)
                total += env.step(int(each.row_action[rows[0]]))[1]
        means.append(total / 500)
    assert means[0] == pytest.approx(means[1], abs=0.35)


def first_mask(case: Case, **options: Any) -> None:
    inner = ModelEnv(case.model, spent=case.spent)
    env = BudgetWrapper(inner, dead_start="end", **options)
    for seed in range(6):
        env.reset(seed=seed)
        place = inner._state, tuple(env.spent.values())
        safe = [] if inner.done else case.safe_actions(0, place)
        assert env.safe_actions().tolist() == safe


def by_wrapper(case: Case) -> None:
    first_mask(case, budget=case.budget)


def by_wrapped_mdp(case: Case) -> None:
    first_mask(case, model=solvent.augment(case.model, case.budget, **spent_of(case)))


def by_bounds(case: Case) -> None:
    """Bounds on costs: the account of the wrapper is that of the environment, and missed goals are violations."""
    inner = ModelEnv(case.model, spent=case.spent, fallback="first")
    accounts = [case.model.resource(name) for name in case.model.resources]
    env = BudgetWrapper(inner, {"r0": 3}, cost_bound=2, spent=case.spent, resources=accounts, dead_start="end")
    rng = np.random.default_rng(0)
    for seed in range(10):
        _, info = env.reset(seed=seed)
        while not inner.done and env.safe_actions().size:
            assert env.spent == inner.spent
            before = env.violations
            *_, info = env.step(int(rng.choice(env.safe_actions())))
            assert info["violation"] == inner.goal_missed
            assert env.violations == before + inner.goal_missed
            assert env.spent["r0"] <= 3
    assert "goal_missed" in info or case.model.may_end is None


def by_learning(case: Case) -> None:
    settings = {"reward_range": (-1, 3), "max_episodes": 200, "budget": case.budget}
    found = solvent.learn(case.model, **settings, **spent_of(case))
    assert (found.status.value == "infeasible") == (case.optimum == -math.inf)
    assert found.violations == 0
    if case.optimum > -math.inf:
        assert solvent.verify(case.model, found.policy, case.budget, **spent_of(case)).feasible


def by_learned_support(case: Case) -> None:
    settings = {"reward_range": (-1, 3), "max_episodes": 200, "budget": case.budget, "cost_support": "learned"}
    solvent.learn(case.model, **settings, **spent_of(case))


def by_unconstrained(case: Case) -> None:
    close(baselines.unconstrained(case.model, **spent_of(case)).value, baselines.unconstrained(encode(case)).value)


def by_expectation(case: Case) -> None:
    everything = dict.fromkeys(case.model.resources)  # limits are compared in tests/baselines
    found = baselines.expectation(case.model, everything, **spent_of(case))
    plain = encode(Case(case.model, everything, case.spent))
    close(claimed(found), claimed(baselines.expectation(plain, ZERO)))
    baselines.expectation(case.model, case.budget, **spent_of(case))


def by_chance(case: Case) -> None:
    found = baselines.chance(case.model, case.budget, 0.25, **spent_of(case))
    close(claimed(found), claimed(baselines.chance(encode(case), ZERO, 0.25)))


def by_knapsack(case: Case) -> None:
    found = baselines.knapsack_style(case.model, case.budget, **spent_of(case))
    close(found.value, baselines.knapsack_style(encode(case, pay_missed=False), ZERO).value)


def by_smaller(case: Case, of: Any = "expectation") -> None:
    found = baselines.smaller_budget(case.model, case.budget, of, 0.2, **spent_of(case))
    if found.has_policy:
        report = solvent.verify(case.model, found.policy, case.budget, **spent_of(case))
        assert report.feasible
        close(report.value, found.value)


def by_smaller_chance(case: Case) -> None:
    by_smaller(case, "chance")


def by_compare(case: Case) -> None:
    found = baselines.compare(case.model, case.budget, methods=["exact", "chance", "unconstrained"], **spent_of(case))
    close(claimed_row(found["exact"]), case.optimum)
    close(claimed_row(found["unconstrained"]), baselines.unconstrained(encode(case)).value)


def claimed_row(row: Any) -> float:
    return -math.inf if row.claimed is None else float(row.claimed)


def policy_of(case: Case) -> Any:
    return baselines.chance(case.model, case.budget, 1, **spent_of(case)).policy


def by_spending(case: Case) -> None:
    axes = solvent.plot.spending(case.model, policy_of(case), case.budget, episodes=50, **spent_of(case))
    worst = next(line for line in axes.get_lines() if line.get_label() == "worst case")
    assert worst.get_ydata()[0] == case.spent["r0"]
    shown = {text.get_text().split()[0] for text in axes.texts}
    resource = case.model.resource("r0")
    assert ("floor" in shown) == (resource.floor is not None)
    assert ("ceiling" in shown) == (resource.ceiling is not None)
    assert len(spending_panels(case.model, policy_of(case), case.budget, episodes=50).axes) == 1


def by_decisions(case: Case) -> None:
    policy = policy_of(case)
    starts = [case.model.states[s] for s in case.model.start_states.tolist()]
    shown = next((s for s in starts if case.model.rows(0, case.model.state_index(s))), None)
    if shown is not None:
        axes = solvent.plot.policy(policy, shown)
        assert axes.get_ylabel() == "remaining r0"
    if len(starts) > 1:
        text = rf"state: expected one to show, as there are {len(starts)} first states, found none; pass state="
        with pytest.raises(solvent.PolicyError, match=text):
            solvent.plot.policy(policy)


ENTRIES: dict[str, Callable[[Case], None]] = {
    "augment": by_augment,
    "augment, stationary": by_stationary,
    "ModelEnv": by_env,
    "BudgetWrapper, model": by_wrapper,
    "BudgetWrapper, augmented MDP": by_wrapped_mdp,
    "BudgetWrapper, cost_bound": by_bounds,
    "learn, known": by_learning,
    "learn, learned": by_learned_support,
    "unconstrained": by_unconstrained,
    "expectation": by_expectation,
    "chance": by_chance,
    "knapsack_style": by_knapsack,
    "smaller_budget, expectation": by_smaller,
    "smaller_budget, chance": by_smaller_chance,
    "compare": by_compare,
    "plot.spending": by_spending,
    "plot.policy": by_decisions,
}

#: What each entry point says about a feature that it does not honor.
REFUSED: dict[tuple[str, str], str] = {
    (
        "augment, stationary",
        "end_reward",
    ): r"stationary=True: expected a model without end rewards and goals, .*; leave",
    (
        "augment, stationary",
        "goal",
    ): r"stationary=True: expected a model without end rewards and goals, .*; leave it out",
    ("learn, known", "end_reward"): r"end_reward: expected a model without rewards for ending, .*; pay them in a last",
    ("learn, learned", "end_reward"): r"end_reward: expected a model without rewards for ending",
    ("learn, learned", "goal"): r'must_end_in: expected a model without a goal .*; use cost_support="known"',
    ("learn, learned", "saturation"): r'expected a resource that does not saturate .*; use cost_support="known"',
    (
        "learn, learned",
        "spent",
    ): r"spent, r0: expected nothing before the first step .*; lower the limits by this amount",
}


@functools.cache
def cases(feature: str) -> list[Case]:
    """Return a few problems that really have a feature."""
    has: dict[str, Callable[[Case], bool]] = {
        "saturation": lambda case: case.model.is_saturating,
        "spent": lambda case: any(case.spent.values()),
        "start": lambda case: len(case.model.start_states) > 1,
        "end_reward": lambda case: case.model.end_reward is not None,
        "goal": lambda case: case.model.may_end is not None,
    }
    found = [case for case in (random_case(seed, [feature]) for seed in range(40)) if has[feature](case)]
    assert len(found) > 5
    return found[:5]


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("entry", ENTRIES)
def test_honored_or_refused(entry: str, feature: str) -> None:
    text = REFUSED.get((entry, feature))
    for case in cases(feature) if effort.everything else cases(feature)[:2]:
        if text is None:
            ENTRIES[entry](case)
        else:
            with pytest.raises(ModelError, match=text):
                ENTRIES[entry](case)


def test_the_goal_and_first_states_are_marked_on_a_grid() -> None:
    starts = {(0, 0): 0.5, (1, 1): 0.5}
    b = CMDP.builder(horizon=3, start=starts, resources=["x"], must_end_in=[(1, 0)])
    for x in range(2):
        for y in range(2):
            b.add((x, y), "east", outcomes=[(1, (1, y), 1)])
            b.add((x, y), "north", outcomes=[(1, (x, 0), 1)])
    model = b.build()
    policy = baselines.chance(model, 3, 0).policy
    axes = solvent.plot.arrows(model, policy)
    marks = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in axes.get_lines()}
    assert marks["start"] == [(0, 0), (1, 1)]
    assert marks["goal"] == [(1, 0)]
