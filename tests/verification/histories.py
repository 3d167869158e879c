"""Enumeration of all histories of tiny models, in fractions and by name; and strategies for models and policies."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

import solvent
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.model.budget import Limits, resolve
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.markov import MarkovPolicy, RandomizedPolicy
from solvent.policy.table import COLLAPSED, AugmentedPolicy
from solvent.policy.until_violation import UntilViolationPolicy

#: (step, state name, spent by resource) -> probabilities by action name; None where there is no decision.
Decide = Callable[[int, Any, Any], Mapping[Any, float] | None]
#: (step, what the policy knows, costs of the step) -> what it knows afterwards
Update = Callable[[int, Any, dict[str, Fraction]], Any]


class UndecidedError(Exception):
    """A history within the limits reaches a node without a decision."""


@dataclass
class TrueCosts:
    value: list[float] = field(default_factory=list)
    worst: dict[str, list[Any]] = field(default_factory=dict)
    least: dict[str, list[Any]] = field(default_factory=dict)
    amounts: list[set[tuple[Fraction, ...]]] = field(default_factory=list)
    nodes: set[tuple[Any, ...]] = field(default_factory=set)
    violated: list[float] = field(default_factory=list)
    excess: dict[str, list[float]] = field(default_factory=dict)
    shortest: int | None = None

    def shorten(self, length: int) -> None:
        self.shortest = length if self.shortest is None else min(self.shortest, length)


def excess_of(limits: Limits, step: int, spent: Mapping[str, Fraction]) -> dict[str, Fraction]:
    result = {}
    for d, name in enumerate(limits.resources):
        upper, lower = limits.upper[d][step], limits.lower[d][step]
        over = Fraction(0) if upper is None else spent[name] - upper
        under = Fraction(0) if lower is None else lower - spent[name]
        result[name] = max(Fraction(0), over, under)
    return result


def pay(model: CMDP, spent: Mapping[str, Fraction], cost: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Return what has been spent after a cost: no less than the floor, no more than the ceiling."""
    after = {}
    for name, floor, ceiling in zip(model.resources, model.floors, model.ceilings, strict=True):
        total = spent[name] + cost[name]
        if floor is not None and total < floor:
            total = floor
        if ceiling is not None and total > ceiling:
            total = ceiling
        after[name] = total
    return after


def starts(model: CMDP) -> dict[Any, float]:
    return model.start if isinstance(model.start, dict) else {model.start: 1.0}


def may_end(model: CMDP, state: Any) -> bool:
    return model.may_end is None or bool(model.may_end[model.states.index(state)])


def nothing_spent(model: CMDP) -> dict[str, Fraction]:
    return dict.fromkeys(model.resources, Fraction(0))


def truth(
    model: CMDP,
    decide: Decide,
    limits: Limits,
    spent: dict[str, Fraction] | None = None,
    first: Any = None,
    update: Update | None = None,
) -> TrueCosts:
    """Enumerate all histories.

    `spent` has been spent before the first step. The policy knows `first` then, and what `update` returns after each
    step; if not given, it knows what has been spent.
    """
    found = TrueCosts(
        worst={name: [None] * model.horizon for name in model.resources},
        least={name: [None] * model.horizon for name in model.resources},
        amounts=[set() for _ in range(model.horizon)],
        excess={name: [] for name in limits.resources},
    )

    def visit(step: int, state: Any, spent: dict, known: Any, p: float, excess: dict, over: bool, bad: bool) -> None:
        rows = range(0) if over or step == model.horizon else model.rows(step, model.state_index(state))
        if not over and not rows:
            over = True
            if model.end_reward is not None:
                found.value.append(p * float(model.end_reward[model.state_index(state)]))
            if not may_end(model, state):
                bad = True
                found.shorten(step)
        if step == model.horizon:
            if bad or any(excess.values()):
                found.violated.append(p)
            for name, amount in excess.items():
                found.excess[name].append(p * float(amount))
            return
        by_action = {model.actions[model.row_action[row]]: row for row in rows}
        if rows:
            found.nodes.add((step, state, *spent.values()))
        choices = decide(step, state, spent if update is None else known) if rows else None
        if rows and choices is None and not any(excess.values()):
            raise UndecidedError
        if not rows or choices is None:
            after(step, state, spent, known, p, excess, True, bad)
            return
        for action, q in choices.items():
            row = by_action[action]
            found.value.append(p * q * float(model.row_reward[row]))
            for outcome in model.outcomes(row):
                total = pay(model, spent, outcome.cost)
                then = None if update is None else update(step, known, outcome.cost)
                after(step, outcome.next_state, total, then, p * q * outcome.probability, excess, False, bad)

    def after(step: int, state: Any, spent: dict, known: Any, p: float, excess: dict, over: bool, bad: bool) -> None:
        now = excess_of(limits, step, spent)
        if any(now.values()):
            found.shorten(step + 1)
        found.amounts[step].add(tuple(spent.values()))
        for name, amount in spent.items():
            worst, least = found.worst[name], found.least[name]
            worst[step] = amount if worst[step] is None else max(worst[step], amount)
            least[step] = amount if least[step] is None else min(least[step], amount)
        visit(step + 1, state, spent, known, p, {name: max(excess[name], now[name]) for name in now}, over, bad)

    for state, p in starts(model).items():
        zero = dict.fromkeys(limits.resources, Fraction(0))
        visit(0, state, spent or nothing_spent(model), first, p, zero, False, False)
    return found


def assert_true(
    report: Any,
    model: CMDP,
    decide: Decide,
    limits: Limits,
    spent: dict[str, Fraction] | None = None,
    first: Any = None,
    update: Update | None = None,
) -> TrueCosts:
    """Compare a report with the enumeration, and replay its witness."""
    expected = truth(model, decide, limits, spent, first, update)
    assert math.isclose(report.value, math.fsum(expected.value), rel_tol=1e-12, abs_tol=1e-12)
    assert report.worst_spent_by_step == {name: tuple(amounts) for name, amounts in expected.worst.items()}
    assert report.least_spent_by_step == {name: tuple(amounts) for name, amounts in expected.least.items()}
    assert report.feasible == (expected.shortest is None)
    assert math.isclose(report.violation_probability, math.fsum(expected.violated), rel_tol=1e-9, abs_tol=1e-12)
    for name in limits.resources:
        assert math.isclose(report.expected_excess[name], math.fsum(expected.excess[name]), rel_tol=1e-9, abs_tol=1e-12)
    assert report.initial == (spent or nothing_spent(model))
    if expected.shortest is None:
        assert report.witness is None
    else:
        assert len(report.witness) == expected.shortest
        replay(report.witness, model, decide, limits, spent, first, update)
    return expected


def replay(
    witness: Any,
    model: CMDP,
    decide: Decide,
    limits: Limits,
    spent: dict[str, Fraction] | None = None,
    first: Any = None,
    update: Update | None = None,
) -> None:
    """Follow a witness through the model; only its last step may violate anything, and does so as it says."""
    state, spent, known, over = witness.start, spent or nothing_spent(model), first, False
    assert starts(model)[state] > 0
    assert witness.initial == {name: spent[name] for name in limits.resources}
    broken: dict[str, Fraction] = {}
    over = not model.rows(0, model.state_index(state))
    ends = over
    for i, each in enumerate(witness.steps):
        assert not (ends and not may_end(model, state)), "ended astray before its last step"
        ends = False
        assert each.step == i
        assert each.state == state
        if over:
            assert each.action is None
            assert each.next_state == state
            assert each.cost == {}
        else:
            assert decide(i, state, spent if update is None else known)[each.action] > 0
            rows = model.rows(i, model.state_index(state))
            row = next(row for row in rows if model.actions[model.row_action[row]] == each.action)
            outcome = next(o for o in model.outcomes(row) if (o.next_state, o.cost) == (each.next_state, each.cost))
            spent = pay(model, spent, outcome.cost)
            known = None if update is None else update(i, known, outcome.cost)
            state = outcome.next_state
            ends = over = i + 1 == model.horizon or not model.rows(i + 1, model.state_index(state))
        assert each.spent == {name: spent[name] for name in limits.resources}
        broken = excess_of(limits, i, spent)
        astray = ends and not may_end(model, state)
        assert (any(broken.values()) or astray) == (i == len(witness) - 1)
    assert witness.resource is None or broken[witness.resource] > 0
    assert (witness.resource is None) == (not any(broken.values()))
    assert witness.ends_astray == (ends and not may_end(model, state))
    if witness.ends_astray:
        assert witness.ends_in == state
        assert witness.must_end_in == tuple(name for name in model.states if may_end(model, name))
        assert repr(state) in str(witness)
    else:
        assert (witness.ends_in, witness.must_end_in) == (None, ())


AMOUNTS = [Fraction(n, d) for n in range(-3, 5) for d in (1, 2, 3)]


@st.composite
def models(draw: st.DrawFn, max_resources: int = 3, max_horizon: int = 3, min_resources: int = 1) -> CMDP:
    """Draw tiny models with negative costs, terminal states, rows that depend on the step, and budgets of all kinds."""
    horizon = draw(st.integers(1, max_horizon))
    resources = [f"r{i}" for i in range(draw(st.integers(min_resources, max_resources)))]
    n_states, n_actions = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    states = [*(f"s{i}" for i in range(n_states)), "end"]
    amount = st.sampled_from(AMOUNTS)
    b = solvent.CMDP.builder(
        horizon=horizon,
        start="s0",
        resources=resources,
        states=states,
        budget={name: draw(budgets(horizon)) for name in resources},
    )
    b.terminal("end")
    stationary = draw(st.booleans())
    for steps in [None] if stationary else [[step] for step in range(horizon)]:
        for state in states[:-1]:
            if steps is not None and (state, steps) != ("s0", [0]) and draw(st.integers(0, 9)) == 0:
                b.terminal(state, steps=steps)
                continue
            for action in range(n_actions):
                n = draw(st.integers(1, 2))
                p = [Fraction(1)] if n == 1 else draw(st.sampled_from([[0.5, 0.5], [0.25, 0.75], [0.1, 0.9]]))
                outcomes = [(q, draw(st.sampled_from(states)), [draw(amount) for _ in resources]) for q in p]
                b.add(state, f"a{action}", reward=draw(st.integers(-3, 3)), outcomes=outcomes, steps=steps)
    return b.build()


@dataclass
class Account:
    """A model with saturation, several first states, goals and end rewards, and what has been spent before."""

    model: CMDP
    spent: dict[str, Fraction]


@st.composite
def accounts(draw: st.DrawFn, max_resources: int = 2, max_horizon: int = 3, min_resources: int = 1) -> Account:
    """Draw a model as `models` does, and give it some of these."""
    model = draw(models(max_resources, max_horizon, min_resources))
    amount = st.sampled_from(AMOUNTS)
    floors, ceilings, spent = [], [], {}
    for name in model.resources:
        ends = sorted([draw(amount) - 1, draw(amount)])
        floor, ceiling = (end if draw(st.integers(0, 2)) else None for end in ends)
        first = draw(amount)
        first = first if floor is None else max(first, floor)
        floors.append(floor)
        ceilings.append(ceiling)
        spent[name] = first if ceiling is None else min(first, ceiling)
    n = model.n_states
    changes: dict[str, Any] = {"floors": tuple(floors), "ceilings": tuple(ceilings)}
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(model.states), min_size=2, max_size=3, unique=True))
        weights = [0.5, 0.5] if len(names) == 2 else [0.2, 0.3, 0.5]
        changes["start"] = dict(zip(names, weights, strict=True))
    elif draw(st.integers(0, 5)) == 0:
        changes["start"] = "end"
    if draw(st.booleans()):
        changes["end_reward"] = np.array([draw(st.integers(-5, 5)) / 2 for _ in range(n)])
    if draw(st.booleans()):
        allowed = np.array([draw(st.integers(0, 3)) > 0 for _ in range(n)])
        changes["may_end"] = None if allowed.all() else allowed
    return Account(replace(model, **changes), spent)


@st.composite
def budgets(draw: st.DrawFn, horizon: int) -> Any:
    """Draw no limit, one number, limits by step on both sides, or a final limit."""
    amount = st.sampled_from(AMOUNTS)
    kind = draw(st.sampled_from(["none", "number", "interval", "final"]))
    if kind == "none":
        return None
    if kind == "number":
        return solvent.Budget(draw(amount) + 2)
    if kind == "final":
        return solvent.Budget.final(draw(amount) + 2, lower=draw(st.sampled_from([None, -4])))
    lower = [draw(st.none() | amount) for _ in range(horizon)]
    upper = [draw(st.none() | amount.map(lambda x: x + 3)) for _ in range(horizon)]
    upper = [u if u is None or low is None else max(u, low) for u, low in zip(upper, lower, strict=True)]
    return solvent.Budget(upper=upper, lower=lower)


def offered(model: CMDP, step: int, state: int) -> list[int]:
    return [int(model.row_action[row]) for row in model.rows(step, state)]


def reachable(model: CMDP, lattice: Lattice, choose: Callable[..., list[int]]) -> list[dict[tuple, list[int]]]:
    """Return, by step, the nodes (state, ticks) that `choose` leads to, with its actions."""
    layers: list[dict[tuple, list[int]]] = []
    current = {(model.state_index(name), tuple(lattice.initial_D.tolist())) for name in starts(model)}
    for step in range(model.horizon):
        nodes, following = {}, set()
        for state, ticks in sorted(current):
            actions = offered(model, step, state)
            if not actions:
                continue
            nodes[state, ticks] = chosen = choose(step, state, ticks, actions)
            for row in model.rows(step, state):
                if model.row_action[row] in chosen:
                    for o in range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])):
                        total = clamped(lattice, [a + int(b) for a, b in zip(ticks, lattice.cost_OD[o], strict=True)])
                        following.add((int(model.next_state[o]), total))
        layers.append(nodes)
        current = following
    return layers


def clamped(lattice: Lattice, ticks: list[int]) -> tuple[int, ...]:
    ends = zip(lattice.floor_D.tolist(), ticks, lattice.ceiling_D.tolist(), strict=True)
    return tuple(sorted(each)[1] for each in ends)


@dataclass
class Case:
    """A policy together with a function that gives its decisions.

    `first` is what the policy knows before the first step, and `update` what it knows after a step; without `update` it
    knows what has been spent.
    """

    model: CMDP
    limits: Limits
    policy: Any
    decide: Decide
    spent: dict[str, Fraction] | None = None
    first: Any = None
    update: Update | None = None

    def truth(self) -> TrueCosts:
        return truth(self.model, self.decide, self.limits, self.spent, self.first, self.update)

    def compare(self, report: Any) -> TrueCosts:
        return assert_true(report, self.model, self.decide, self.limits, self.spent, self.first, self.update)


def settled_intervals(model: CMDP, n_tracked: int, seed: int, settle: bool) -> tuple[Any, Any, Callable[..., tuple]]:
    """Return arbitrary settled intervals, right or wrong, and a function that returns the amounts of a node."""
    rng = np.random.default_rng(seed)
    low = rng.integers(-6, 7, (model.horizon, model.n_states, n_tracked))
    high = low + rng.integers(-2, 20, low.shape)

    def key(step: int, state: int, ticks: tuple) -> tuple:
        if not settle:
            return tuple(ticks)
        inside = (low[step, state] <= np.array(ticks)) & (np.array(ticks) <= high[step, state])
        return tuple(COLLAPSED if i else int(t) for i, t in zip(inside, ticks, strict=True))

    return low, high, key


def augmented_case(
    model: CMDP, seed: int, *, settle: bool = False, forget: bool = False, spent: dict[str, Fraction] | None = None
) -> Case:
    """Return an arbitrary deterministic policy on nodes; `forget` drops nodes beyond a broken limit."""
    limits = resolve(model, None, spent)
    lattice = Lattice.fit(model, limits)
    n_tracked = len(lattice.resources)
    low, high, key = settled_intervals(model, n_tracked, seed, settle)

    def choose(step: int, state: int, ticks: tuple, actions: list[int]) -> list[int]:
        return [random.Random(repr((seed, step, state, key(step, state, ticks)))).choice(actions)]

    nodes = reachable(model, lattice, choose)
    if forget:
        nodes = [
            {node: chosen for node, chosen in layer.items() if step == 0 or within(lattice, step - 1, node[1])}
            for step, layer in enumerate(nodes)
        ]
    layers = [
        (
            np.array([state for state, _ in layer], np.int64),
            np.array([key(step, *node) for node in layer], np.int64).reshape(len(layer), n_tracked),
            np.array([chosen[0] for chosen in layer.values()], np.int64),
        )
        for step, layer in enumerate(nodes)
    ]
    settled = [(low[h], high[h]) for h in range(model.horizon)] if settle else None
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers, settled=settled)
    kept = [{(state, key(h, state, ticks)): c for (state, ticks), c in nodes[h].items()} for h in range(model.horizon)]

    def decide(step: int, state: Any, spent: dict[str, Fraction]) -> Mapping[Any, float] | None:
        ticks = tuple(int(spent[name] / unit) for name, unit in zip(lattice.resources, lattice.units, strict=True))
        index = model.state_index(state)
        chosen = kept[step].get((index, key(step, index, ticks)))
        return None if chosen is None else {model.actions[chosen[0]]: 1.0}

    return Case(model, limits, policy, decide, spent)


def within(lattice: Lattice, step: int, ticks: tuple) -> bool:
    return bool((lattice.lower_HD[step] <= ticks).all() and (ticks <= lattice.upper_HD[step]).all())


def randomized_case(model: CMDP, seed: int, spent: dict[str, Fraction] | None = None, *, settle: bool = False) -> Case:
    """Return an arbitrary randomized policy on nodes."""
    limits = resolve(model, None, spent)
    lattice = Lattice.fit(model, limits)
    low, high, key = settled_intervals(model, len(lattice.resources), seed, settle)

    def weights(step: int, state: int, ticks: tuple, actions: list[int]) -> dict[int, float]:
        rng = random.Random(repr((seed, step, state, key(step, state, ticks))))
        parts = {action: rng.choice([0, 1, 3]) for action in actions}
        total = sum(parts.values())
        return {a: p / total for a, p in parts.items() if p} if total else {actions[0]: 1.0}

    def choose(step: int, state: int, ticks: tuple, actions: list[int]) -> list[int]:
        return list(weights(step, state, ticks, actions))

    layers = []
    for step, layer in enumerate(reachable(model, lattice, choose)):
        nodes = {(state, key(step, state, ticks)): ticks for state, ticks in layer}
        entries = [
            (state, ticks, action, p)
            for (state, _), ticks in nodes.items()
            for action, p in weights(step, state, ticks, offered(model, step, state)).items()
        ]
        columns = list(zip(*entries, strict=True)) if entries else [(), (), (), ()]
        ticks = np.array(columns[1], np.int64).reshape(len(entries), len(lattice.resources))
        layers.append((np.array(columns[0], np.int64), ticks, np.array(columns[2]), np.array(columns[3], float)))
    settled = [(low[h], high[h]) for h in range(model.horizon)] if settle else None
    policy = RandomizedPolicy.from_nodes(model, lattice, limits, layers=layers, settled=settled)

    def decide(step: int, state: Any, spent: dict[str, Fraction]) -> Mapping[Any, float]:
        ticks = tuple(int(spent[name] / unit) for name, unit in zip(lattice.resources, lattice.units, strict=True))
        index = model.state_index(state)
        chosen = weights(step, index, ticks, offered(model, step, index))
        return {model.actions[a]: p for a, p in chosen.items()}

    return Case(model, limits, policy, decide, spent)


def markov_case(model: CMDP, seed: int, *, randomized: bool, spent: dict[str, Fraction] | None = None) -> Case:
    """Return an arbitrary policy on states."""
    rng = np.random.default_rng(seed)
    table = np.zeros((model.horizon, model.n_states, model.n_actions))
    for step in range(model.horizon):
        for state in range(model.n_states):
            actions = offered(model, step, state)
            if actions:
                parts = (
                    rng.integers(0, 3, len(actions)) if randomized else np.eye(len(actions))[rng.integers(len(actions))]
                )
                parts = parts if parts.sum() else np.ones(len(actions))
                table[step, state, actions] = parts / parts.sum()
    actions_HS = np.where(table.any(2), table.argmax(2), -1)
    policy = MarkovPolicy(model, table if randomized else actions_HS)
    limits = resolve(model, None, spent)
    return Case(model, limits, policy, lambda step, state, _: policy.probabilities(step, state), spent)


def callable_case(model: CMDP, seed: int, spent: dict[str, Fraction] | None = None) -> Case:
    """Return an arbitrary function of step, state and spent, which may be randomized."""

    def decide(step: int, state: Any, spent: dict[str, Fraction]) -> Mapping[Any, float]:
        rng = random.Random(repr((seed, step, state, sorted(spent.items()))))
        names = [model.actions[a] for a in offered(model, step, model.state_index(state))]
        if len(names) > 1 and rng.random() < 0.3:
            return {names[0]: 0.25, names[1]: 0.75}
        return {rng.choice(names): 1.0}

    def policy(step: int, state: Any, spent: Any) -> Any:
        by_name = spent if isinstance(spent, dict) else {model.resources[0]: spent}
        chosen = decide(step, state, by_name)
        return next(iter(chosen)) if len(chosen) == 1 else chosen

    return Case(model, resolve(model, None, spent), policy, decide, spent)


def until_violation_case(
    model: CMDP, seed: int, spent: dict[str, Fraction] | None = None, *, settle: bool = False
) -> Case:
    """Return an arbitrary randomized policy on nodes, and a Markov policy once one of its limits is broken."""
    before = randomized_case(model, seed, spent, settle=settle)
    then = markov_case(model, seed, randomized=True, spent=spent)
    policy = UntilViolationPolicy.of(before.policy, then.policy)

    def decide(step: int, state: Any, known: Any) -> Mapping[Any, float] | None:
        amounts, violated = known
        return then.decide(step, state, amounts) if violated else before.decide(step, state, amounts)

    def update(step: int, known: Any, cost: dict[str, Fraction]) -> Any:
        total = pay(model, known[0], cost)
        return total, known[1] or any(excess_of(before.limits, step, total).values())

    first = (spent or nothing_spent(model), False)
    return Case(model, before.limits, policy, decide, spent, first, update)


def rounded_case(
    model: CMDP, seed: int, unit: Fraction, counting: str, spent: dict[str, Fraction] | None = None
) -> Case:
    """Return an arbitrary policy that counts in multiples of `unit`, rounded up or down, and clamps its counts."""
    limits = resolve(model, None, spent)
    turn = math.floor if counting == "down" else math.ceil
    columns = [model.resource_index(name) for name in limits.resources]
    n = len(columns)
    cost_OD = np.array([[turn(model.cost[r].value(o) / unit) for r in columns] for o in range(model.n_outcomes)])
    ends = [
        [turn(amount / unit) for amount in limits.initial],
        [MINUS_INFINITY if model.floors[r] is None else turn(model.floors[r] / unit) for r in columns],
        [PLUS_INFINITY if model.ceilings[r] is None else turn(model.ceilings[r] / unit) for r in columns],
    ]
    free = np.zeros((model.horizon, n), np.int64)
    lattice = Lattice(
        limits.resources,
        (unit,) * n,
        cost_OD.reshape(model.n_outcomes, n),
        free,
        free,
        *(np.array(each, np.int64) for each in ends),
    )

    def choose(step: int, state: int, ticks: tuple, actions: list[int]) -> list[int]:
        return [random.Random(repr((seed, step, state, ticks))).choice(actions)]

    layers = [
        (
            np.array([state for state, _ in layer], np.int64),
            np.array([ticks for _, ticks in layer], np.int64).reshape(len(layer), n),
            np.array([chosen[0] for chosen in layer.values()], np.int64),
        )
        for layer in reachable(model, lattice, choose)
    ]
    policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers, counting=(counting,) * n)

    def decide(step: int, state: Any, ticks: tuple) -> Mapping[Any, float]:
        index = model.state_index(state)
        return {model.actions[choose(step, index, ticks, offered(model, step, index))[0]]: 1.0}

    def update(step: int, ticks: tuple, cost: dict[str, Fraction]) -> tuple:
        counts = [turn(cost[name] / unit) for name in limits.resources]
        return clamped(lattice, [a + b for a, b in zip(ticks, counts, strict=True)])

    return Case(model, limits, policy, decide, spent, tuple(ends[0]), update)
