"""Copies: every public object can be pickled and copied, and copies are independent."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle
from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest

import solvent
from solvent import errors
from solvent.core.limits import LimitReached
from solvent.model import instances
from solvent.model.cmdp import CMDP

LOG = [[("a", "go", 1, 2, "b")]]

CONTINUOUS = solvent.CMDP.builder(horizon=2, start="a", resources=["x"], budget=2)
CONTINUOUS.add("a", "go", reward=1, outcomes=[(1, "a", solvent.distribution("uniform", low=0, high=1))])
CONTINUOUS.add("a", "rest", outcomes=[(1, "a", 0)])
GAP = instances.markov_gap(prize=10)
GRID = instances.fuel_grid(2)


def discounted() -> Any:
    b = CMDP.builder(horizon=None, discount="1/2", start="home", resources=["fuel"], budget=3)
    b.add("home", "go", reward=1, outcomes=[(1, "home", 2)])
    b.add("home", "rest", outcomes=[(1, "home")])
    return b.build()


def accounts() -> Any:
    b = CMDP.builder(
        horizon=2, start={"a": 0.25, "b": 0.75}, resources=[solvent.Resource("x", floor=0)], end_reward={"a": 3},
        must_end_in=["a"],
    )  # fmt: skip
    b.add("a", "go", outcomes=[(1, "b", 1)])
    b.add("b", "go", outcomes=[(1, "a", 1)])
    return b.build()


def acting(policy: Any) -> Any:
    agent = policy.agent()
    agent.act()
    return agent


def stepped(env: Any) -> Any:
    env.reset(seed=1)
    return env


#: A function that makes one object of each kind; two calls return equal objects.
MADE: dict[str, Callable[[], Any]] = {
    "model": lambda: GRID,
    "continuous model": CONTINUOUS.build,
    "discounted model": discounted,
    "budget": lambda: solvent.Budget(upper=[3, 1, "1/3"], lower=-1),
    "resource": lambda: solvent.Resource("fuel", floor="-1/3", ceiling=4),
    "model with accounts": accounts,
    "distribution": lambda: solvent.distribution("uniform", low=0, high=1),
    "solution": lambda: solvent.solve(GRID),
    "solution by nodes": lambda: solvent.solve(GRID, method="reduction"),
    "solution with a gap": lambda: solvent.solve(GRID, gap=0.01),
    "infeasible solution": lambda: solvent.solve(instances.partition([3, 1, 1])),
    "discounted solution": lambda: solvent.solve(discounted(), epsilon=0.25),
    "curve": lambda: solvent.frontier(instances.knapsack([3, 9], [2, 3], capacity=4)),
    "surface": lambda: solvent.frontier(instances.partition([3, 1, 2]), ["left", "right"]),
    "levels": lambda: solvent.reach_levels(GRID, GRID.states[-1:], capacity=9, reload=GRID.states[:1]),
    "level policy": lambda: solvent.survival_levels(discounted(), capacity=3).policy,
    "level agent": lambda: acting(solvent.survival_levels(discounted(), capacity=3)),
    "augmented MDP": lambda: solvent.augment(GRID),
    "policy": lambda: solvent.solve(GRID).policy,
    "policy of a curve": lambda: solvent.frontier(instances.knapsack([3, 9], [2, 3], capacity=4)).policy(4),
    "discounted policy": lambda: solvent.solve(discounted(), epsilon=0.25).policy,
    "Markov policy": lambda: solvent.MarkovPolicy(GAP, [[0], [1]]),
    "policy until a violation": lambda: solvent.baselines.chance(GAP).policy,
    "agent": lambda: acting(solvent.solve(GRID).policy),
    "discounted agent": lambda: acting(solvent.solve(discounted(), epsilon=0.25).policy),
    "agent until a violation": lambda: acting(solvent.baselines.chance(GAP).policy),
    "random agent": lambda: acting(solvent.baselines.expectation(GAP).policy),
    "report": lambda: solvent.verify(GRID, solvent.solve(GRID).policy),
    "report of a violation": lambda: solvent.verify(GAP, solvent.MarkovPolicy(GAP, [[0], [1]])),
    "simulation": lambda: solvent.simulate(GAP, solvent.solve(GAP).policy, 50),
    "trajectories": lambda: solvent.simulate(GAP, solvent.solve(GAP).policy, 50, trajectories=3).trajectories,
    "counts": lambda: solvent.EpisodeCounts.of(solvent.CMDP.from_episodes(LOG, 2), LOG),
    "baseline": lambda: solvent.baselines.expectation(GAP),
    "comparison": lambda: solvent.compare(GAP),
    "learned": lambda: solvent.learn(instances.markov_gap(), epsilon=0.5, seed=1),
    "learned infeasible": lambda: solvent.learn(instances.partition([3, 1, 1]), epsilon=0.5),
    "learned support": lambda: solvent.learn(
        instances.markov_gap(), epsilon=0.5, cost_support="learned", max_episodes=50
    ),
    "model environment": lambda: stepped(solvent.gym.ModelEnv(GRID)),
    "budget wrapper": lambda: stepped(solvent.gym.BudgetWrapper(solvent.gym.ModelEnv(GRID))),
    "bounded wrapper": lambda: stepped(
        solvent.gym.BudgetWrapper(gymnasium.make("FrozenLake-v1"), budget=5, cost=1, cost_bound=1)
    ),
    "continuous wrapper": lambda: stepped(
        solvent.gym.ContinuousBudgetWrapper(gymnasium.make("Pendulum-v1"), 5, cost=1, cost_bound=1)
    ),
    "early termination": lambda: stepped(solvent.gym.EarlyTermination(gymnasium.make("Pendulum-v1"), 5, cost=1)),
    "vector wrapper": lambda: stepped(
        solvent.gym.VectorBudgetWrapper(
            gymnasium.vector.SyncVectorEnv(
                [functools.partial(gymnasium.make, "FrozenLake-v1")] * 2,
                autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED,
            ),
            5,
            cost=1,
            cost_bound=1,
        )
    ),
    "norm": lambda: solvent.gym.NormCost(2.0, order=1),
    "evaluation": lambda: solvent.gym.evaluate(
        solvent.gym.BudgetWrapper(solvent.gym.ModelEnv(GRID)), "random", 2, seed=1
    ),
    "metered episode": lambda: solvent.gym.MeteredEpisode(1, 2.0, {"fuel": Fraction(3)}, {"fuel": Fraction(4)}),
    "random start": lambda: stepped(solvent.gym.RandomStart(gymnasium.make("FrozenLake-v1"))),
    "cost in info": lambda: stepped(solvent.gym.CostInInfo(solvent.gym.ModelEnv(GRID))),
    "cost meter": lambda: stepped(solvent.gym.CostMeter(gymnasium.make("FrozenLake-v1"), cost=1)),
    "builder": lambda: CONTINUOUS,
    "discounted builder": lambda: solvent.CMDP.builder(discount="1/2", start="s", resources=["x"]),
    "diagnosis": lambda: solvent.solve(instances.partition([3, 1, 1])).diagnosis,
    "explanation": lambda: solvent.solve(GAP).explain(1, 0, 1),
    "option": lambda: solvent.solve(GAP).explain(1, 0, 1)[1],
    "forbidding outcome": lambda: solvent.solve(GAP).explain(1, 0, 1)[1].forbidden_by,
    "row of a plan": lambda: solvent.solve(GRID).policy.table()[0],
    "statistics": lambda: solvent.Stats(1.0, 2, (1, 1), None, 3, "nodes"),
    "round": lambda: solvent.Round(1.0, 2.0, 1.0, 3, 0.5),
    "tail": lambda: solvent.solve(discounted(), epsilon=0.25).tail,
    "event": lambda: solvent.Event(0, GRID.start, GRID.actions[0], {"fuel": Fraction(1, 3)}, GRID.start),
    "witness": lambda: solvent.verify(GAP, solvent.MarkovPolicy(GAP, [[0], [1]])).witness,
    "witness step": lambda: solvent.verify(GAP, solvent.MarkovPolicy(GAP, [[0], [1]])).witness.steps[0],
    "discounted report": lambda: solvent.verify(discounted(), solvent.solve(discounted(), epsilon=0.25).policy),
    "learning progress": lambda: solvent.learn(instances.markov_gap(), epsilon=0.5, seed=1).history[-1],
    "load limits": lambda: solvent.LoadLimits(seconds=3),
    "empirical cost bound": lambda: solvent.gym.EmpiricalCostBound(unseen=0),
}

if not hasattr(gymnasium.vector, "AutoresetMode"):  # since Gymnasium 1.1
    del MADE["vector wrapper"]

WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle twice": lambda thing: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(thing, 2)))),
}


@cache
def made(name: str) -> Any:
    return MADE[name]()


def facts(thing: Any, depth: int = 6) -> Any:
    """Return the content of an object, in values that can be compared."""
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.shape, thing.tolist()
    if isinstance(thing, list | tuple):
        return [facts(each, depth) for each in thing]
    if isinstance(thing, dict):
        return {str(key): facts(value, depth) for key, value in thing.items() if key != "seconds"}
    if isinstance(thing, Enum) or not type(thing).__module__.startswith("solvent") or not depth:
        return repr(thing) if type(thing).__repr__ is not object.__repr__ else type(thing).__name__
    if dataclasses.is_dataclass(thing):
        fields = [field.name for field in dataclasses.fields(thing)]
    else:
        fields = [name for name in vars(thing) if not name.startswith("__")] if hasattr(thing, "__dict__") else []
    hidden = {"_make_policy", "_rng", "_np_random", "_references", "seconds"}
    return type(thing).__name__, {name: facts(getattr(thing, name), depth - 1) for name in fields if name not in hidden}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MADE)
def test_copies_have_the_same_content(name: str, way: str) -> None:
    thing = made(name)
    twin = WAYS[way](thing)
    assert type(twin) is type(thing)
    assert facts(twin) == facts(thing)
    assert repr(twin) == repr(thing) or type(thing).__repr__ is object.__repr__


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "name", [name for name in MADE if name.startswith(("solution", "learned")) and "infeasible" not in name]
)
def test_copies_of_results_have_policies(name: str, way: str) -> None:
    thing = made(name)
    assert facts(WAYS[way](thing).policy) == facts(thing.policy)


@pytest.mark.parametrize("way", WAYS)
def test_copies_of_policies_work(way: str) -> None:
    policy = WAYS[way](made("policy"))
    assert solvent.verify(GRID, policy).value == made("solution").value
    curve = WAYS[way](made("curve"))
    assert curve.value(4) == made("curve").value(4)
    assert facts(curve.policy(4)) == facts(made("curve").policy(4))
    surface = WAYS[way](made("surface"))
    assert surface.value([3, 3]) == made("surface").value([3, 3])
    assert facts(surface.policy([3, 3])) == facts(made("surface").policy([3, 3]))


@pytest.mark.parametrize("way", WAYS)
def test_copies_of_agents_are_independent(way: str) -> None:
    agent = solvent.baselines.expectation(GAP).policy.agent(seed=3)
    agent.act()
    agent.observe(0, 1)
    twin = WAYS[way](agent)
    before = agent.history, agent.spent, agent.step
    assert (twin.history, twin.spent, twin.step) == before
    assert twin.act() == agent.act()
    twin.observe(0, 0)
    assert (agent.history, agent.spent, agent.step) == before
    agent.reset()
    assert twin.step == 2
    assert len(twin.history) == 2


@pytest.mark.parametrize("way", WAYS)
def test_copies_of_agents_for_discounted_models_are_independent(way: str) -> None:
    policy = solvent.solve(discounted(), epsilon=0.25).policy
    agent, alone = policy.agent(), policy.agent()
    twin = WAYS[way](agent)
    for _ in range(policy.steps + 2):
        action = alone.act()
        assert agent.act() == action
        for each in (agent, alone):
            each.observe("home", 2 if action == "go" else 0)
    assert (twin.step, twin.tail_rule, twin.spent) == (0, None, {"fuel": 0})
    assert (agent.step, agent.tail_rule, agent.spent) == (alone.step, alone.tail_rule, alone.spent)
    later = WAYS[way](agent)
    assert (later.tail_rule, later.remaining) == (agent.tail_rule, agent.remaining)


@pytest.mark.parametrize("way", WAYS)
def test_copies_of_environments_continue_in_the_same_way(way: str) -> None:
    env = solvent.gym.BudgetWrapper(solvent.gym.ModelEnv(GRID))
    _, info = env.reset(seed=5)
    twin = WAYS[way](env)
    if way == "copy":
        return  # a shallow copy of an environment shares what is inside
    for _ in range(3):
        action = int(np.flatnonzero(info["action_mask"])[0])
        first, second = env.step(action), twin.step(action)
        assert repr(first) == repr(second)
        info = first[4]


ERRORS: dict[type[BaseException], tuple[Any, ...]] = {
    errors.SolventError: ("no",),
    errors.LocatedError: ("here", "this", "that", "try"),
    errors.ModelError: ("here", "this", "that", "try"),
    errors.BudgetError: ("here", "this", "that"),
    errors.LatticeOverflowError: ("too fine",),
    errors.LimitError: ("too long",),
    errors.LoadLimitError: ("here", "this", "that", "raise it"),
    errors.PolicyError: ("here", "this", "that"),
    errors.NodeLimitError: ("here", "this", "that", "raise it"),
    errors.UnmodeledOutcome: (3, "a", "go", "state 'b'", ("state 'a'",)),
    errors.CheckpointWarning: ("full",),
    errors.AddressSpaceError: ("too little",),
    LimitReached: ("time is up",),
    errors.ProgramError: ("not solved",),
}


def test_every_error_is_in_the_catalog() -> None:
    public = {each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, BaseException)}
    assert public <= set(ERRORS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_copies_of_errors_keep_their_fields(kind: type[BaseException], way: str) -> None:
    error = kind(*ERRORS[kind])
    error.add_note("while testing")
    twin = WAYS[way](error)
    assert type(twin) is kind
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)
    assert twin.args == error.args


def test_every_public_class_is_in_the_catalog() -> None:
    homes = {name: getattr(solvent, name) for name in solvent.__all__}
    homes |= {f"gym.{name}": getattr(solvent.gym, name) for name in solvent.gym.__all__}
    public = {each for each in homes.values() if inspect.isclass(each) and not issubclass(each, Enum | BaseException)}
    protocols = {each for each in public if getattr(each, "_is_protocol", False)}
    kinds: set[type] = set()
    for name in MADE:
        kinds |= set(type(made(name)).__mro__)
    missing = public - protocols - kinds - {solvent.RandomizedPolicy}  # the base of UntilViolationPolicy
    assert not missing
