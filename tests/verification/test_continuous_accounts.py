"""Continuous costs of saturating resources: the extremes of policies on rounded costs against histories close to the
ends of all intervals, and simulations against the verifier."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvent
from densities import BOUNDED, PLAIN, UNBOUNDED
from effort import draws, seeds
from solvent import CMDP, Budget, Resource, simulate, verify
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.model.budget import resolve
from solvent.model.distributions import CostDistribution
from solvent.model.lattice import Lattice
from solvent.policy.table import AugmentedPolicy
from solvent.verification.parts import least_count

SPECK = Fraction(1, 10**9)
DEEP = Fraction(-9)
#: One past the end of the states, for histories that have ended.
ENDED = -1


@dataclass(frozen=True)
class Problem:
    model: CMDP
    spent: Fraction
    policy: AugmentedPolicy


def random_problem(seed: int) -> Problem:
    """Return a model with one resource, and an arbitrary policy that counts its costs rounded up or down."""
    rng = Random(seed)
    horizon, unit = rng.choice([2, 3, 3]), rng.choice([Fraction(1, 2), Fraction(3, 4), Fraction(1)])
    floor, ceiling = sorted(rng.choice(PLAIN) * rng.choice([1, 2]) for _ in range(2))
    floor, ceiling = rng.choice([(floor, None), (None, ceiling), (floor, ceiling), (floor - 1, ceiling + 1)])
    resource = Resource("x", floor=floor, ceiling=ceiling)
    limit = rng.choice([1, 2, Fraction(5, 2), None])
    budget = Budget(upper=limit, lower=rng.choice([None, None, -2]) if limit else -1)
    start: Any = rng.choice([0, {0: 0.5, 1: 0.5}, {0: 0.25, "end": 0.75}])
    goal = rng.choice([None, ["end", 0], ["end", 0, 1]])
    b = CMDP.builder(
        horizon=horizon,
        start=start,
        resources=[resource],
        states=[0, 1, "end"],
        actions=["a", "b"],
        budget={"x": budget},
        must_end_in=goal,
        end_reward={0: 1, "end": 3} if rng.random() < 0.5 else None,
    )
    b.terminal("end")
    for state in (0, 1):
        for action in "ab":
            weights = rng.choice([[1], [0.5, 0.5], [0.25, 0.75]])
            outcomes = [(w, rng.choice([0, 1, "end"]), rng.choice([*BOUNDED, *UNBOUNDED, *PLAIN])) for w in weights]
            b.add(state, action, reward=rng.choice([0, 1, 2]), outcomes=outcomes)
    model = b.build()
    spent = resource.clamp(rng.choice(PLAIN))
    return Problem(model, spent, random_policy(model, spent, unit, rng))


def random_policy(model: CMDP, spent: Fraction, unit: Fraction, rng: Random) -> AugmentedPolicy:
    limits = resolve(model, None, spent)
    counting = rng.choice(["up", "down"])
    turn = math.ceil if counting == "up" else math.floor
    floor, ceiling = model.floors[0], model.ceilings[0]
    ends = [
        turn(spent / unit),
        MINUS_INFINITY if floor is None else turn(floor / unit),
        PLUS_INFINITY if ceiling is None else turn(ceiling / unit),
    ]
    free = np.zeros((model.horizon, 1), np.int64)
    counts = np.zeros((model.n_outcomes, 1), np.int64)
    lattice = Lattice(("x",), (unit,), counts, free, free, *(np.array([end], np.int64) for end in ends))
    layers = []
    for _ in range(model.horizon):
        nodes = [(s, [t], rng.randrange(2)) for s in (0, 1) for t in [*sorted(rng.sample(range(-5, 6), 4)), 10**6]]
        layers.append(tuple(np.array(column) for column in zip(*nodes, strict=True)))
    return AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers, lookup="at_most", counting=(counting,))


def representatives(cost: Any, unit: Fraction) -> list[Fraction]:
    """Return costs close to where the count changes, and both ends."""
    if not isinstance(cost, CostDistribution):
        return [cost]
    low = DEEP if cost.low is None else cost.low
    edges = [k * unit for k in range(math.floor(low / unit), math.ceil(cost.high / unit) + 1)]
    near = {edge + shift for edge in edges for shift in (-SPECK, 0, SPECK)} | {low, cost.high}
    return sorted(x for x in near if low <= x <= cost.high)


def middle(floor: Any, amount: Any, ceiling: Any) -> Any:
    amount = amount if floor is None else max(amount, floor)
    return amount if ceiling is None else min(amount, ceiling)


@given(st.integers(0, 10**9))
@draws(300)
def test_extremes_are_those_of_all_histories(seed: int) -> None:
    problem = random_problem(seed)
    model, policy = problem.model, problem.policy
    unit, turn = policy.units[0], math.ceil if policy.counting[0] == "up" else math.floor
    floor, ceiling = model.floors[0], model.ceilings[0]
    ends = None if floor is None else turn(floor / unit), None if ceiling is None else turn(ceiling / unit)
    report = verify(model, policy)
    astray = False

    def place(step: int, state: int) -> int:
        nonlocal astray
        if step < model.horizon and model.rows(step, state):
            return state
        astray |= model.may_end is not None and not model.may_end[state]
        return ENDED

    layer = {(place(0, int(s)), turn(problem.spent / unit), problem.spent) for s in model.start_states}
    for step in range(model.horizon):
        following = set()
        for state, count, spent in layer:
            if state == ENDED:
                following.add((ENDED, 0, spent))
                continue
            action = policy.action_index(step, state, [count])
            (row,) = [r for r in model.rows(step, state) if model.row_action[r] == action]
            for o in range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])):
                after = place(step + 1, int(model.next_state[o]))
                for cost in representatives(model.cost_of(0, o), unit):
                    counted = middle(ends[0], count + turn(cost / unit), ends[1])
                    following.add((after, 0 if after == ENDED else counted, middle(floor, spent + cost, ceiling)))
        layer = following
        most, least = max(spent for _, _, spent in layer), min(spent for _, _, spent in layer)
        assert most <= report.worst_spent_by_step["x"][step] <= most + (step + 1) * SPECK
        if report.least_spent_by_step["x"][step] is None:
            assert floor is None
            assert least < DEEP + 6
        else:
            assert least - (step + 1) * SPECK <= report.least_spent_by_step["x"][step] <= least
        # of histories that the policy does not distinguish, the extremes suffice, since saturation keeps their order
        by_spent = sorted(layer, key=lambda node: node[2])
        layer = {
            node for ordered in (by_spent, by_spent[::-1]) for node in {each[:2]: each for each in ordered}.values()
        }
    kept = all(
        (upper is None or worst <= upper) and (lower is None or (least is not None and least >= lower))
        for upper, lower, worst, least in zip(
            report.upper["x"], report.lower["x"], report.worst_spent_by_step["x"], report.least_spent_by_step["x"],
            strict=True,
        )
    )  # fmt: skip
    assert report.feasible == (kept and not astray)
    if not report.feasible:
        assert report.witness is not None
        assert report.witness.initial == {"x": problem.spent}
        assert astray or not report.witness.ends_astray
        assert report.violation_probability is None or kept or not model.has_continuous_costs


@pytest.mark.parametrize("seed", seeds(40))
def test_simulations_agree_with_the_verifier(seed: int) -> None:
    problem = random_problem(seed)
    report = verify(problem.model, problem.policy)
    runs = simulate(problem.model, problem.policy, 4000, seed=seed)
    assert abs(runs.mean_reward - report.value) < 5 * runs.standard_error + 1e-9
    assert runs.violations == 0 or not report.feasible
    if report.violation_probability is not None:
        p = report.violation_probability
        assert abs(runs.violations / 4000 - p) < 5 * math.sqrt(p * (1 - p) / 4000) + 1e-9
    assert runs.max_spent["x"] <= report.worst_spent["x"]
    for level, side in ((1, report.worst_spent_by_step), (0, report.least_spent_by_step)):
        for amount, end in zip(runs.quantile("x", level).tolist(), side["x"], strict=True):
            assert end is None or (amount <= float(end) + 1e-9 if level else amount >= float(end) - 1e-9)


@pytest.mark.parametrize("seed", seeds(60))
def test_counts_below_the_least_change_nothing(seed: int) -> None:
    """The count of a step is replaced by the least one if it is smaller: later decisions stay the same."""
    problem = random_problem(seed)
    policy, rng = problem.policy, np.random.default_rng(seed)
    least = least_count(problem.model, policy, 0)
    most = policy.count(0, problem.model.cost_range(0)[1])
    for _ in range(50):
        count, decisions = int(policy.initial_D[0]), []
        at = int(rng.integers(problem.model.horizon - 1))
        counts = rng.integers(-6, max(most, -5) + 1, problem.model.horizon).tolist()
        for lowest in (least, least - int(rng.integers(1, 2000))):
            count, asked = int(policy.initial_D[0]), []
            for step in range(problem.model.horizon):
                asked += [policy.action_index(step, state, [count]) for state in (0, 1)]
                count = policy.clamp(0, count + (lowest if step == at else counts[step]))
            decisions.append(asked)
        assert decisions[0] == decisions[1]


def test_an_example_computed_by_hand() -> None:
    """A charge between 1 and 2 of what was lost, to a full battery at most; then a loss of at most 1."""
    b = CMDP.builder(horizon=2, start=0, resources=[Resource("lost", floor=0)], budget=3)
    b.add(0, "charge", outcomes=[(1, 0, solvent.distribution("uniform", low=-2, high=-1))], steps=[0])
    b.add(0, "go", outcomes=[(1, 0, solvent.distribution("uniform", low=0, high=1))], steps=[1])
    model = b.build()
    only = np.zeros((2, 1), int)
    only[1] = model.action_index("go")
    for spent, worst, least in ((3, (2, 3), (1, 1)), (1, (0, 1), (0, 0)), ("3/2", ("1/2", "3/2"), (0, 0))):
        report = verify(model, only, spent=spent)
        assert report.worst_spent_by_step == {"lost": tuple(map(Fraction, worst))}
        assert report.least_spent_by_step == {"lost": tuple(map(Fraction, least))}
        assert report.feasible
        assert simulate(model, only, 500, spent=spent).violations == 0
    report = verify(model, only, 2, spent=3)
    assert (report.feasible, report.violation_probability, len(report.witness)) == (False, None, 2)
    assert report.witness.steps[-1].spent == {"lost": 3}


def test_a_deep_fall_after_a_large_initial_amount() -> None:
    """Costs are told apart down to where the policy no longer distinguishes the amounts, however much was spent."""
    b = CMDP.builder(horizon=2, start=0, resources=[Resource("x", ceiling=12)], budget=12)
    b.add(0, "fall", outcomes=[(1, 0, solvent.distribution("exponential", scale=5, negate=True))])
    b.add(0, "pay", reward=1, outcomes=[(1, 0, 1)])
    model = b.build()
    limits = resolve(model, None, 10)
    free, ends = np.zeros((2, 1), np.int64), [[10], [MINUS_INFINITY], [12]]
    lattice = Lattice(("x",), (Fraction(1),), np.zeros((2, 1), np.int64), free, free, *map(np.array, ends))
    layers = [([0], [[12]], [0]), ([0, 0], [[-5], [12]], [1, 0])]
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers, lookup="at_most", counting=("up",))
    assert verify(model, policy).value == pytest.approx(math.exp(-15 / 5))
    assert verify(model, policy, spent=0).value == pytest.approx(math.exp(-5 / 5))
    assert simulate(model, policy, 20_000, seed=1).mean_reward == pytest.approx(math.exp(-3), abs=0.008)


def test_a_floor_bounds_what_is_not_bounded_below() -> None:
    b = CMDP.builder(horizon=3, start=0, resources=[Resource("x", floor=-2)], budget=Budget(lower=-2))
    b.add(0, "fall", outcomes=[(1, 0, solvent.distribution("exponential", scale=5, negate=True))])
    model = b.build()
    report = verify(model, np.zeros((3, 1), int))
    assert report.least_spent_by_step == {"x": (-2, -2, -2)}
    assert report.feasible
    runs = simulate(model, np.zeros((3, 1), int), 1000)
    assert runs.violations == 0
    assert runs.quantile("x", 0).tolist() == [-2, -2, -2]


def test_a_missed_goal_does_not_depend_on_continuous_costs() -> None:
    """The probability of ending elsewhere is known if no limit can be broken, and unknown if one can."""
    b = CMDP.builder(horizon=2, start=0, resources=["x"], states=[0, 1], must_end_in=[0])
    b.add(0, "go", outcomes=[(0.75, 0, solvent.distribution("uniform", low=0, high=1)), (0.25, 1, 0)])
    b.terminal(1)
    model = b.build()
    report = verify(model, np.zeros((2, 2), int), 2)
    assert (report.feasible, report.violation_probability) == (False, 1 - 0.75**2)
    assert (len(report.witness), report.witness.ends_in, report.witness.resource) == (1, 1, None)
    report = verify(model, np.zeros((2, 2), int), "3/2")
    assert (report.feasible, report.violation_probability) == (False, None)
    assert (len(report.witness), report.witness.ends_in) == (1, 1)
    assert replace(report.witness, ends_astray=False, resource="x")._title() == "breaks the limit of x after step 0"
