"""`BudgetWrapper` reports what the environment itself spent, regardless of the wrappers between the two."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import (
    Autoreset,
    FrameStackObservation,
    OrderEnforcing,
    RecordEpisodeStatistics,
    RepeatAction,
    StickyAction,
    TimeLimit,
    TransformAction,
    TransformReward,
)

import solvent
from effort import seeds
from ledgered import Eager, Heir, Ledgered, Quiet, Shifted, Twice
from solvent import ModelError, PolicyError, SolventError
from solvent.gym import BudgetWrapper, CostMeter, EmpiricalCostBound, ModelEnv
from solvent.model import instances
from solvent.model.metering import way_of

PASSING: dict[str, Callable[[Any], Any]] = {
    "time limit": lambda env: TimeLimit(env, 6),
    "order": OrderEnforcing,
    "statistics": RecordEpisodeStatistics,
    "reward": lambda env: TransformReward(env, lambda reward: 2 * reward),
    "autoreset": Autoreset,
    "quiet": Quiet,
}
CHANGING: dict[str, Callable[[Any], Any]] = {
    "sticky": lambda env: StickyAction(env, 0.5),
    "permuted": lambda env: TransformAction(env, lambda action: 2 - action, env.action_space),
}
REPEATING: dict[str, Callable[[Any], Any]] = {
    "repeat": lambda env: RepeatAction(env, 3),
    "twice": Twice,
    "shifted": Shifted,
    "eager": Eager,
    "heir": Heir,
}
WRAPPERS = PASSING | CHANGING | REPEATING
#: The largest number of environment steps that one of these wrappers takes per step.
MOST = {"repeat": 3, "twice": 2}


def play(env: BudgetWrapper, rng: Random, episodes: int) -> None:
    """Take random actions; an error ends only its episode."""
    for _ in range(episodes):
        try:
            _, info = env.reset(seed=rng.randrange(10**6))
            over = info["dead_end"] or not env.safe_actions().size
            while not over:
                action = rng.choice(env.safe_actions().tolist())
                _, _, terminated, truncated, _ = env.step(action)
                over = terminated or truncated or env.spent["cost"] > 100 or rng.random() < 0.02
        except PolicyError:
            pass


@pytest.mark.parametrize("seed", seeds(150))
def test_reported_violations_are_those_of_the_environment(seed: int) -> None:
    rng = Random(seed)
    limit = Fraction(rng.randint(2, 12), rng.choice([1, 3, 10]))
    base = Ledgered(seed, [limit], refunds=rng.random() < 0.5, ends=rng.random() < 0.5)
    names = rng.sample(list(PASSING), rng.randint(0, 2)) + rng.sample([*CHANGING, *REPEATING], rng.choice([0, 1, 1, 2]))
    rng.shuffle(names)
    cost: Any = rng.choice([None, "cost", base.price])
    metered = rng.random() < 0.6
    env: Any = CostMeter(base, cost) if metered else base
    for name in names:
        env = WRAPPERS[name](env)
    most = max(base.largest_cost, Fraction(0))
    for name in names:
        most *= MOST.get(name, 1)
    bounds = {
        "true": most,
        "by action": [base.most(a) for a in range(3)],
        "learned": EmpiricalCostBound(0),
        "wrong": most / 2,
    }
    chosen = rng.choice(list(bounds))
    allowed = {*PASSING, *(CHANGING if cost in (None, "cost") else ())}
    given = (limit, None if metered else cost, bounds[chosen])
    if not metered and not set(names) <= allowed:
        with pytest.raises(ModelError, match=r"CostMeter\(env, cost=...\) below"):
            BudgetWrapper(env, *given)
        return
    env = BudgetWrapper(env, *given, dead_start="end")
    play(env, rng, 30)
    assert base.episodes >= 30
    assert env.violations == base.over
    if chosen == "true" and "eager" not in names:
        assert base.over == 0
    if chosen == "by action" and set(names) <= set(PASSING):
        assert base.over == 0


def test_sticky_actions_with_a_cost_by_action_are_refused() -> None:
    env = Ledgered(1, [Fraction(5)])
    said = (
        r"BudgetWrapper: expected wrappers inside that pass each action on once and unchanged, as costs are computed "
        r"from actions, found StickyAction, which may change the action; measure costs inside: "
        r"put solvent.gym.CostMeter\(env, cost=...\) below StickyAction and omit cost=... here$"
    )
    with pytest.raises(ModelError, match=said):
        BudgetWrapper(StickyAction(env, 0.5), 5, env.price, 4)
    with pytest.raises(ModelError, match=r"CostMeter: expected wrappers inside .* found StickyAction"):
        CostMeter(StickyAction(env, 0.5), env.price)
    said = r"as costs are reported by steps, found RepeatAction, which takes several steps for one action"
    with pytest.raises(ModelError, match=said):
        BudgetWrapper(RepeatAction(env, 2), 5, cost_bound=4)
    said = r"found Twice, which overrides step or reset, .* or set passes_actions = True in the class Twice if"
    with pytest.raises(ModelError, match=said):
        BudgetWrapper(Twice(env), 5, 1, 4)
    inner = BudgetWrapper(env, 5, cost_bound=4, fallback="first")
    with pytest.raises(ModelError, match="found BudgetWrapper"):
        BudgetWrapper(inner, {"time": 3}, lambda before, action, after: action, 2)


def test_every_wrapper_of_gymnasium_is_known() -> None:
    """Wrappers of a new Gymnasium version are refused until they are reviewed; this test finds them."""
    ways: dict[str, set[str]] = {}
    for name in gymnasium.wrappers.__all__:
        try:
            cls = getattr(gymnasium.wrappers, name)
        except (AttributeError, ImportError, gymnasium.error.DependencyNotInstalled):
            continue
        if isinstance(cls, type) and issubclass(cls, gymnasium.Wrapper):
            ways.setdefault(way_of(cls.__new__(cls)), set()).add(name)
    assert ways["repeats"] == {"AtariPreprocessing", "MaxAndSkipObservation", "RepeatAction"}
    assert {"StickyAction", "TransformAction", "ClipAction", "RescaleAction", "DiscretizeAction"} == ways["changes"]
    assert "unknown" not in ways
    assert {"TimeLimit", "FlattenObservation", "RecordVideo", "ClipReward"} <= ways["passes"]


def test_a_step_or_reset_patched_into_an_object_is_unknown() -> None:
    env = TimeLimit(Ledgered(1, [Fraction(5)]), 5)
    env.step = lambda action: TimeLimit.step(env, 2)  # type: ignore[method-assign]
    assert way_of(env) == "unknown"
    env = TimeLimit(Ledgered(1, [Fraction(5)]), 5)
    env.reset = lambda **options: (TimeLimit.reset(env, **options), env.step(0))[0]  # type: ignore[method-assign]
    assert way_of(env) == "unknown"


def test_what_is_spent_between_two_steps_counts() -> None:
    """Spending five and getting it back exceeds a budget of three, although the sum is zero."""

    class Swing(gymnasium.Env[Any, Any]):
        observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(1)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.steps = 0
            return 0, {}

        def step(self, action: Any) -> Any:
            self.steps += 1
            return 0, 0.0, False, False, {"cost": 5 if self.steps % 2 else -5}

    env = BudgetWrapper(RepeatAction(CostMeter(Swing()), 2), 3, cost_bound=EmpiricalCostBound(0))
    env.reset()
    *_, terminated, _, info = env.step(0)
    assert (terminated, info["violation"], env.violations, env.spent) == (True, True, 1, {"cost": 0})
    env = BudgetWrapper(RepeatAction(CostMeter(Swing()), 2), 3, cost_bound=0)
    env.reset()
    with pytest.raises(PolicyError, match="expected at most 0, as cost_bound says, found 5"):
        env.step(0)
    assert env.violations == 1


def test_what_a_reset_spends_counts() -> None:
    base = Ledgered(3, [Fraction(1, 100)])
    while not base.price(0, 2, base.table[0, 2][0][0]):
        base = Ledgered(base.np_random.integers(10**6), [Fraction(1, 100)])
    env = BudgetWrapper(Eager(CostMeter(base)), Fraction(1, 100), cost_bound=0, dead_start="end")
    for _ in range(10):
        env.reset()
    assert env.violations == base.over > 0
    model = instances.knapsack([60, 100, 20], [10, 20, 5])

    class Early(gymnasium.Wrapper[Any, Any, Any, Any]):
        def reset(self, **options: Any) -> Any:
            self.env.reset(**options)
            observation, _, _, _, info = self.env.step(1)
            return observation, info

    with pytest.raises(SolventError, match="reset: expected no cost before the first step"):
        BudgetWrapper(Early(ModelEnv(model)), 30).reset()


def test_an_outcome_that_the_model_excludes_is_on_the_account() -> None:
    model = instances.knapsack([60, 100, 20], [10, 20, 5])
    env = BudgetWrapper(RepeatAction(ModelEnv(model), 2), 20)
    env.reset()
    with pytest.raises(solvent.UnmodeledOutcome):
        env.step(1)
    assert env.spent == {"weight": 30}
    assert env.violations == 1


def test_wrappers_outside_can_change_actions_as_they_like() -> None:
    base = Ledgered(5, [Fraction(2)])
    inside = BudgetWrapper(base, 2, base.price, [base.most(a) for a in range(3)], fallback="first")
    env = StickyAction(inside, 0.5)
    rng = np.random.default_rng(0)
    for seed in range(50):
        env.reset(seed=seed)
        for _ in range(5):
            if any(env.step(int(rng.integers(3)))[2:4]):
                break
    assert inside.violations == base.over == 0


def test_an_environment_that_ends_early_is_judged_by_the_limits_to_come() -> None:
    b = solvent.CMDP.builder(horizon=3, start=0, resources=["cost"])
    b.add(0, 0, outcomes=[(1, 0, 1)])
    model = b.build()

    class Short(gymnasium.Env[Any, Any]):
        observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(1)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return 0, {}

        def step(self, action: Any) -> Any:
            return 0, 0.0, True, False, {"cost": 1}

    env = BudgetWrapper(Short(), {"cost": solvent.Budget(lower=[None, None, 3])}, model=model)
    env.reset()
    info = env.step(0)[4]
    assert (info["violation"], env.violations) == (True, 1)


def test_a_report_that_lacks_a_limited_resource_is_refused() -> None:
    class Named(Ledgered):
        def step(self, action: int) -> Any:
            *result, info = super().step(action)
            return (*result, {"costs": {"fuel": info["cost"]}})

    for budget in (5, {"time": 5}, {"fuel": 5, "time": 5}):
        env = BudgetWrapper(Named(1, [Fraction(5)]), budget, cost_bound=[[4] * (2 if "fuel" in str(budget) else 1)] * 3)
        env.reset(seed=0)
        with pytest.raises(ModelError, match="costs: expected a cost of every limited resource"):
            env.step(1)


def test_meters_in_vectors_and_copies() -> None:
    import copy
    import pickle

    def make() -> BudgetWrapper:
        base = Ledgered(7, [Fraction(3)])
        return BudgetWrapper(StickyAction(CostMeter(base), 0.5), 3, cost_bound=base.largest_cost, dead_start="end")

    vector = gymnasium.vector.SyncVectorEnv([make, make])
    vector.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(100):
        masks = vector.call("action_masks")
        vector.step(np.array([rng.choice(np.flatnonzero(mask)) if mask.any() else 0 for mask in masks]))
    assert vector.get_attr("violations") == (0, 0)
    assert all(env.unwrapped.over == 0 for env in vector.envs)
    for env in (copy.deepcopy(make()), pickle.loads(pickle.dumps(make()))):
        env.reset(seed=2)
        env.step(1)
        assert env.spent["cost"] == env.unwrapped.spent


def test_frames_are_passed_on() -> None:
    base = Ledgered(1, [Fraction(5)])
    assert way_of(FrameStackObservation(base, 2)) == "passes"
