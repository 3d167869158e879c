"""Random models whose resources saturate, with start distributions, initial amounts and policies on their nodes.

Everything about amounts is computed here with Fractions and `min` and `max`, independently of the package.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import solvent
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice
from solvent.policy.markov import MarkovPolicy, RandomizedPolicy
from solvent.policy.table import AugmentedPolicy
from solvent.policy.until_violation import UntilViolationPolicy

Amounts = tuple[Fraction, ...]
STATES, ACTIONS = ("a", ("b", 2), 7), ("go", 3)


@dataclass
class Case:
    """A model, its ends, and what has been spent before the first step."""

    model: Any
    ends: list[tuple[Fraction | None, Fraction | None]]
    initial: Amounts
    budget: dict[str, Any]

    @property
    def limits(self) -> Any:
        return resolve(self.model, self.budget, dict(zip(self.model.resources, self.initial, strict=True)))

    def add(self, spent: Amounts, cost: Amounts) -> Amounts:
        """Return what has been spent after a step."""
        result = []
        for s, c, (floor, ceiling) in zip(spent, cost, self.ends, strict=True):
            total = s + c
            total = total if floor is None else max(total, floor)
            result.append(total if ceiling is None else min(total, ceiling))
        return tuple(result)

    def outcomes(self, step: int, state: int) -> Iterator[tuple[int, int, Amounts]]:
        """Yield action, next state and costs of everything that can happen in a state."""
        for row in self.model.rows(step, state):
            for outcome in self.model.outcomes(row):
                cost = tuple(outcome.cost[name] for name in self.model.resources)
                yield int(self.model.row_action[row]), self.model.states.index(outcome.next_state), cost


def _amount(rng: random.Random, low: int, high: int) -> Fraction:
    return Fraction(rng.randint(2 * low, 2 * high), rng.choice([2, 2, 3]))


def random_case(seed: int, *, several: bool = True) -> Case:
    rng = random.Random(seed)
    names = ["fuel", "wear"][: rng.randint(1, 2)]
    ends, resources, initial, budget = [], [], [], {}
    for name in names:
        floor = -_amount(rng, 0, 2) if rng.random() < 0.7 else None
        ceiling = _amount(rng, 1, 4) if rng.random() < 0.5 else None
        ends.append((floor, ceiling))
        resources.append(solvent.Resource(name, floor=floor, ceiling=ceiling))
        start = _amount(rng, -2, 3) if rng.random() < 0.7 else Fraction(0)
        start = start if floor is None else max(start, floor)
        initial.append(start if ceiling is None else min(start, ceiling))
        budget[name] = solvent.Budget(upper=[rng.choice([None, 2, "7/2"]) for _ in range(2)] + [5])
    chances = {"a": 0.25, ("b", 2): 0.75} if several and rng.random() < 0.6 else "a"
    b = solvent.CMDP.builder(horizon=3, start=chances, resources=resources, states=STATES, actions=ACTIONS)
    for state in STATES[: 2 + (rng.random() < 0.5)]:
        for action in ACTIONS:
            b.add(
                state,
                action,
                reward=rng.randint(0, 5),
                outcomes=[(0.5, rng.choice(STATES), [_amount(rng, -2, 2) for _ in names]) for _ in range(2)],
            )
    return Case(b.build(), ends, tuple(initial), budget)


def nodes_of(case: Case, counts: Any = None) -> list[list[tuple[int, tuple[Any, ...]]]]:
    """Return the nodes (state, amounts) that some policy leads to at each step; amounts as `counts` adds them."""
    add, begin = counts or (case.add, case.initial)
    first = case.model.start
    starts = first if isinstance(first, dict) else [first]
    layer: set[tuple[int, tuple[Any, ...]]] = {(case.model.states.index(name), begin) for name in starts}
    layers = []
    for step in range(case.model.horizon):
        layers.append(sorted(node for node in layer if not case.model.is_terminal(step, node[0])))
        layer = {(after, add(spent, cost)) for state, spent in layer for _, after, cost in case.outcomes(step, state)}
    return layers


def exact_policy(case: Case, seed: int) -> AugmentedPolicy:
    rng = random.Random(seed)
    lattice = Lattice.fit(case.model, case.limits)
    layers = []
    for nodes in nodes_of(case):
        ticks = [[int(x / u) for x, u in zip(spent, lattice.units, strict=True)] for _, spent in nodes]
        layers.append(([s for s, _ in nodes], ticks, [rng.randrange(2) for _ in nodes]))
    return AugmentedPolicy.from_nodes(case.model, lattice, case.limits, layers=_shaped(layers, lattice))


def randomized_policy(case: Case, seed: int) -> RandomizedPolicy:
    rng = random.Random(seed)
    lattice = Lattice.fit(case.model, case.limits)
    layers = []
    for nodes in nodes_of(case):
        entries = [(s, spent, a, p) for s, spent in nodes for p in [rng.random()] for a, p in ((0, p), (1, 1 - p))]
        ticks = [[int(x / u) for x, u in zip(spent, lattice.units, strict=True)] for _, spent, _, _ in entries]
        layers.append(([e[0] for e in entries], ticks, [e[2] for e in entries], [e[3] for e in entries]))
    return RandomizedPolicy.from_nodes(case.model, lattice, case.limits, layers=_shaped(layers, lattice))


def until_violation_policy(case: Case, seed: int) -> UntilViolationPolicy:
    return UntilViolationPolicy.of(randomized_policy(case, seed), markov_policy(case, seed + 1))


def markov_policy(case: Case, seed: int) -> MarkovPolicy:
    weight = np.random.default_rng(seed).random((case.model.horizon, case.model.n_states, 1))
    return MarkovPolicy(case.model, np.concatenate([weight, 1 - weight], axis=2))


def rounding(case: Case, seed: int) -> tuple[tuple[Fraction, ...], tuple[str, ...], Any]:
    """Return units, the direction of counting, and (add, initial) in ticks that are rounded in that direction."""
    rng = random.Random(seed)
    units = tuple(Fraction(rng.randint(2, 5), 3) for _ in case.initial)
    counting = tuple(rng.choice(["up", "down"]) for _ in case.initial)

    def count(d: int, amount: Fraction) -> int:
        return (math.ceil if counting[d] == "up" else math.floor)(amount / units[d])

    def add(ticks: tuple[int, ...], cost: Amounts) -> tuple[int, ...]:
        result = []
        for d, (t, c, (floor, ceiling)) in enumerate(zip(ticks, cost, case.ends, strict=True)):
            total = t + count(d, c)
            total = total if floor is None else max(total, count(d, floor))
            result.append(total if ceiling is None else min(total, count(d, ceiling)))
        return tuple(result)

    return units, counting, (add, tuple(count(d, amount) for d, amount in enumerate(case.initial)))


def rounded_policy(case: Case, seed: int) -> AugmentedPolicy:
    rng = random.Random(seed)
    units, counting, counts = rounding(case, seed)
    fitted = Lattice.fit(case.model, case.limits)

    def ends(side: int, none: int) -> Any:
        given = [pair[side] for pair in case.ends]
        whole = [
            none if end is None else (math.ceil if way == "up" else math.floor)(end / unit)
            for end, unit, way in zip(given, units, counting, strict=True)
        ]
        return np.array(whole, np.int64)

    lattice = Lattice(
        fitted.resources, units, fitted.cost_OD, fitted.upper_HD, fitted.lower_HD,
        np.array(counts[1], np.int64), ends(0, MINUS_INFINITY), ends(1, PLUS_INFINITY),
    )  # fmt: skip
    layers = [
        ([s for s, _ in nodes], [ticks for _, ticks in nodes], [rng.randrange(2) for _ in nodes])
        for nodes in nodes_of(case, counts)
    ]
    return AugmentedPolicy.from_nodes(
        case.model, lattice, case.limits, layers=_shaped(layers, lattice), counting=counting
    )


def _shaped(layers: list[Any], lattice: Lattice) -> list[Any]:
    """Return layers with arrays of amounts that have two dimensions, also where there is no node."""
    return [
        (layer[0], np.array(layer[1], np.int64).reshape(len(layer[0]), len(lattice.resources)), *layer[2:])
        for layer in layers
    ]


#: Functions that return a policy of each kind for a case and a seed.
KINDS = {
    "exact": exact_policy,
    "rounded": rounded_policy,
    "randomized": randomized_policy,
    "until violation": until_violation_policy,
    "Markov": markov_policy,
}


def first_state(case: Case, rng: random.Random) -> Hashable:
    start = case.model.start
    return rng.choice(list(start)) if isinstance(start, dict) else start


def draw(case: Case, agent: Any, rng: random.Random) -> tuple[Hashable, dict[str, Fraction]]:
    """Return an outcome of the agent's action: the next state and the cost."""
    action = case.model.actions.index(agent.act())
    state = case.model.states.index(agent.state)
    possible = [each for each in case.outcomes(agent.step, state) if each[0] == action]
    _, after, cost = rng.choice(possible)
    return case.model.states[after], dict(zip(case.model.resources, cost, strict=True))
