"""Learning in models with saturating resources, initial amounts and goals; what is not learned is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from flat import flat

import solvent
from accounts import Case, random_case
from effort import seeds
from solvent.errors import ModelError
from solvent.gym import ModelEnv
from solvent.learning.graph import SafeGraph
from solvent.model.cmdp import CMDP
from solvent.policy.locate import COLLAPSED
from solvent.solvers.problem import Problem

HONORED = ["saturation", "spent", "goal"]
SETTINGS: dict[str, Any] = {"reward_range": (-1, 3), "max_episodes": 2000, "bonus_scale": 0.1}


def learned(case: Case, env: Any = None, **options: Any) -> solvent.LearnResult:
    played = case.model if env is None else env
    return solvent.learn(played, budget=case.budget, epsilon=0.05, **(SETTINGS | options))


@pytest.mark.parametrize(("n_resources", "lower"), [(1, False), (2, True)])
@pytest.mark.parametrize("seed", seeds(12))
def test_no_episode_breaks_anything(seed: int, n_resources: int, lower: bool) -> None:
    case = random_case(seed, HONORED, n_resources=n_resources, lower=lower)
    found = learned(case, spent=case.spent, seed=seed)
    assert (found.status.value == "infeasible") == (case.optimum == -math.inf)
    assert found.violations == 0
    if case.optimum > -math.inf:
        report = solvent.verify(case.model, found.policy, case.budget, spent=case.spent)
        assert report.feasible
        assert report.value <= case.optimum + 1e-9


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("seed", seeds(12))
def test_rounded_costs(seed: int, strict: bool) -> None:
    case = random_case(seed, HONORED)
    found = learned(case, spent=case.spent, seed=seed, epsilon_cost="5/7", strict=strict)
    if found.status.value == "infeasible":
        assert strict or case.optimum == -math.inf
        return
    report = solvent.verify(case.model, found.policy, case.budget, spent=case.spent)
    if strict:
        assert found.violations == 0
        assert report.feasible
    loose = {
        name: solvent.Budget(upper=[None if x is None else x + Fraction(5, 7) for x in side])
        for name, side in zip(case.limits.resources, case.limits.upper, strict=True)
    }
    assert solvent.verify(case.model, found.policy, loose, spent=case.spent).feasible
    assert found.violations == 0 or not report.feasible


def test_the_optimum_is_learned() -> None:
    close = 0
    for seed in range(12):
        case = random_case(seed, HONORED)
        if case.optimum == -math.inf:
            continue
        found = learned(case, spent=case.spent, max_episodes=20_000)
        report = solvent.verify(case.model, found.policy, case.budget, spent=case.spent)
        close += report.value >= case.optimum - 0.1
    assert close >= 3


@pytest.mark.parametrize("seed", range(8))
def test_an_environment_that_plays_the_model_begins_with_its_amounts(seed: int) -> None:
    case = random_case(seed, HONORED)
    one = learned(case, spent=case.spent, seed=seed)
    other = learned(case, ModelEnv(case.model, spent=case.spent), seed=seed)
    assert (one.status, one.value_upper, one.episodes) == (other.status, other.value_upper, other.episodes)


class Outside(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Hides that a model is played."""

    passes_actions = True


def numbered(case: Case) -> CMDP:
    """Return the model with actions named by their numbers, as environments have them."""
    return replace(case.model, actions=tuple(range(case.model.n_actions)))


@pytest.mark.parametrize("seed", seeds(10))
def test_the_support_of_an_environment_may_have_accounts(seed: int) -> None:
    case = random_case(seed, HONORED, terminal=False)
    model = numbered(case)
    inner = ModelEnv(model, spent=case.spent)
    env = Outside(inner)
    options = {"support": model, "spent": case.spent, "horizon": model.horizon, "max_episodes": 40}
    found = learned(case, env, **options)
    assert found.violations == 0
    assert not inner.goal_missed
    assert (found.status.value == "infeasible") == (case.optimum == -math.inf)


def test_the_graph_follows_clamped_amounts() -> None:
    fuel = solvent.Resource("fuel", floor=0)
    b = CMDP.builder(horizon=2, start="a", resources=[fuel])
    b.add("a", "refuel", outcomes=[(1, "a", -5)])
    b.add("a", "drive", reward=1, outcomes=[(1, "a", 3)])
    model = b.build()
    graph = SafeGraph.of(Problem.exact(model, solvent.model.budget.resolve(model, 6, 2), merge=False))
    nodes = flat(graph)
    ticks = nodes.node_spent_ND[nodes.layer_indptr[1] : nodes.layer_indptr[2], 0].tolist()
    assert [graph.problem.lattice.amount(0, each) for each in ticks if each != COLLAPSED] == [5]


def test_a_checkpoint_is_for_its_initial_amounts(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    case = next(c for c in (random_case(seed, ["saturation"]) for seed in range(50)) if c.optimum > -math.inf)
    learned(case, checkpoint=path, max_episodes=10)
    learned(case, checkpoint=path, max_episodes=20, resume=True)
    with pytest.raises(ModelError, match="environment, horizon and budget: expected the same as now"):
        learned(case, checkpoint=path, max_episodes=30, resume=True, spent={"r0": "1/2"})


def refusing(features: list[str]) -> Case:
    return next(
        case
        for case in (random_case(seed, features) for seed in range(200))
        if ("goal" not in features or case.model.may_end is not None)
        and ("spent" not in features or any(case.spent.values()))
    )


@pytest.mark.parametrize(
    ("features", "options", "text"),
    [
        (["end_reward"], {}, r"end_reward: expected a model without rewards for ending, .* found some; pay them in a"),
        (
            ["goal"],
            {"cost_support": "learned"},
            r'must_end_in: expected a model without a goal with cost_support="learned", found a goal; use cost_',
        ),
        (
            ["saturation"],
            {"cost_support": "learned"},
            r"resource 'r0': expected a resource that does not saturate with cost_support=\"learned\", found 'r0' with",
        ),
        (
            ["spent"],
            {"cost_support": "learned"},
            r"spent, r0: expected nothing before the first step with cost_support=\"learned\", found .*; lower the lim",
        ),
    ],
)
def test_refusals(features: list[str], options: dict[str, Any], text: str) -> None:
    case = refusing(features)
    with pytest.raises(ModelError, match=text):
        learned(case, spent=case.spent, **options)


@pytest.mark.parametrize(
    ("features", "found"),
    [
        (["saturation"], "resources that saturate"),
        (["goal"], r"a goal \(must_end_in\)"),
        (["end_reward"], r"rewards for ending \(end_reward\)"),
        (["spent"], "amounts spent before the first step"),
    ],
)
def test_a_wrapped_model_is_not_taken_for_a_plain_one(features: list[str], found: str) -> None:
    case = refusing(features)
    env = Outside(ModelEnv(case.model, spent=case.spent))
    text = rf"environment: expected an environment of a plain model, .*, found a model with {found}; pass support=env"
    with pytest.raises(ModelError, match=text):
        learned(case, env, horizon=case.model.horizon, cost_support="learned")


def test_spent_needs_a_model() -> None:
    case = random_case(0, [])
    env = Outside(ModelEnv(case.model))
    text = r"spent: expected a model, or a support that is one, found 1; lower the limits by what has been spent"
    with pytest.raises(ModelError, match=text):
        learned(case, env, horizon=case.model.horizon, cost_support="learned", spent=1)
    with pytest.raises(ModelError, match=text):
        learned(case, env, horizon=case.model.horizon, support=lambda *_: [], spent=1)
