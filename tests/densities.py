"""Tiny random problems with continuous costs, and their optimum enclosed by hand.

The enclosure cuts every distribution into cells of a fixed length, puts all of a cell's probability on one of its ends,
and solves the model of finite support that this gives with an exact method. Ends that favor the policy bound the
optimum from above, the others from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from solvent import Budget
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.distributions import CostDistribution, distribution
from solvent.solvers.solve import solve

CELL = Fraction(1, 4)
#: Where distributions have no lower end, everything below is one cell,
DEEP = Fraction(-8)
#: which counts as so much less if it is rounded down: no cost of these problems could ever make up for that.
DEEPER = Fraction(-100)
UNBOUNDED = [
    distribution("exponential", scale=1, negate=True),
    distribution("exponential", scale="1/2", low="-1/2", negate=True),
    distribution("truncated_normal", mean=0, sd=1, high="3/4"),
]
BOUNDED = [
    distribution("uniform", low=0, high=1),
    distribution("uniform", low="1/2", high="3/2"),
    distribution("uniform", low="-1", high="1/3"),
    distribution("triangular", low=0, mode="1/2", high=2),
    distribution("triangular", low="-3/2", mode=0, high="1/2"),
    distribution("truncated_normal", mean=1, sd="1/2", low=0, high=2),
    distribution("beta", a=2, b=3, low="1/4", high="5/4"),
    distribution("beta", a="1/2", b="1/2", low=-1, high=1),
    distribution("exponential", scale="1/2", high="7/4"),
    distribution("exponential", scale=1, high=2, negate=True),
]
PLAIN = [Fraction(text) for text in ("0", "0", "1", "1/2", "1/3", "3/2", "-1", "-1/2", "0.7")]
LIMITS = [Fraction(text) for text in ("1", "3/2", "2", "5/2", "3", "4/3", "1/2", "4", "-1/2")]
KINDS = ["number", "number", "number", "upper", "lower", "final", "final_lower", "box", "interval", "none"]


@dataclass(frozen=True)
class Row:
    """One action in one state; outcomes are (probability, next state, costs by resource)."""

    state: int
    action: str
    reward: int
    outcomes: list[tuple[Fraction, int, list[Any]]]


@dataclass(frozen=True)
class Dense:
    """A problem with continuous costs."""

    horizon: int
    resources: list[str]
    rows: list[Row]
    budget: dict[str, Any]

    def model(self) -> CMDP:
        return self.build([row.outcomes for row in self.rows])

    def build(self, outcomes: list[list[Any]]) -> CMDP:
        b = CMDP.builder(horizon=self.horizon, start=0, resources=self.resources)
        for row, listed in zip(self.rows, outcomes, strict=True):
            b.add(row.state, row.action, reward=row.reward, outcomes=listed)
        return b.build()


def _costs(rng: Random, n_resources: int) -> list[Any]:
    first = rng.choice([*BOUNDED, *BOUNDED, *PLAIN, *UNBOUNDED])
    # few parts in all, as those of several resources are combined
    return [first, *(rng.choice([*BOUNDED, *PLAIN]) for _ in range(n_resources - 1))]


def _budget(rng: Random, horizon: int) -> Any:
    kind = rng.choice(KINDS)
    if kind == "none":
        return None
    if kind == "number":
        return rng.choice(LIMITS)
    if kind == "final":
        return Budget.final(rng.choice(LIMITS))
    if kind == "final_lower":
        return Budget.final(lower=-rng.choice(LIMITS))
    if kind == "box":
        return Budget(upper=abs(rng.choice(LIMITS)) + 1, lower=-abs(rng.choice(LIMITS)) - 1)
    upper = [rng.choice([None, *LIMITS]) for _ in range(horizon)]
    lower = [None if x is None else -2 - abs(x) for x in (rng.choice([None, None, *LIMITS]) for _ in range(horizon))]
    if kind == "upper":
        return Budget(upper=upper)
    return Budget(lower=lower) if kind == "lower" else Budget(upper=upper, lower=lower)


def random_problem(seed: int) -> Dense:
    """Return a problem of 1 to 3 steps, 1 or 2 states and 1 or 2 resources."""
    rng = Random(seed)
    horizon, n_states = rng.choice([3, 3, 2, 1]), rng.randint(1, 2)
    resources = [f"r{i}" for i in range(rng.randint(1, 2))]
    rows = []
    for state in range(n_states):
        for action in range(rng.randint(1, 2)):
            weights = rng.choice([[1], [1, 1], [1, 3]])
            outcomes = [
                (Fraction(w, sum(weights)), rng.randrange(n_states), _costs(rng, len(resources))) for w in weights
            ]
            rows.append(Row(state, f"a{action}", rng.choice([1, 2, 5, 0, -1]), outcomes))
        if rng.random() < 0.75:
            nothing = [(Fraction(1), state, [0] * len(resources))]
            rows.append(Row(state, "rest", rng.choice([0, -1]), nothing))
    return Dense(horizon, resources, rows, {name: _budget(rng, horizon) for name in resources})


#: Seeds, so that problems are as varied as they can be; a smaller one is no simpler.
dense_problems = st.integers(0, 10**9).map(random_problem)


def cells(cost: CostDistribution, up: bool) -> list[tuple[float, Fraction]]:
    """Cut a distribution into cells, each with all its probability on its upper or its lower end."""
    low = DEEP if cost.low is None else cost.low
    first, last = math.floor(low / CELL), math.ceil(cost.high / CELL)
    edges = [k * CELL for k in range(first, last + 1)]
    chance = np.diff(cost.cdf([float(edge) for edge in edges]))
    found = [(float(p), b if up else a) for p, a, b in zip(chance, edges[:-1], edges[1:], strict=True)]
    if cost.low is None:
        found.append((float(cost.cdf(float(DEEP))), DEEP if up else DEEPER))
    # nothing that is possible may be dropped, however unlikely
    return [(max(p, 1e-30), at) for p, at in found]


def discretized(problem: Dense, up: list[bool]) -> CMDP:
    """Return the problem's model with costs on the ends of cells, per resource the upper or the lower ones."""
    rows = []
    for row in problem.rows:
        listed: list[Any] = []
        for probability, state, given in row.outcomes:
            parts: list[tuple[float, list[Fraction]]] = [(float(probability), [])]
            for cost, is_up in zip(given, up, strict=True):
                choices = cells(cost, is_up) if isinstance(cost, CostDistribution) else [(1.0, Fraction(cost))]
                parts = [(p * q, [*before, at]) for p, before in parts for q, at in choices]
            listed += [(p, state, at) for p, at in parts]
        rows.append(listed)
    return problem.build(rows)


def enclosure(problem: Dense, limits: Limits) -> tuple[float, float]:
    """Return a lower and an upper bound on the optimum, minus and plus infinity where there is none."""
    found = []
    for favor in (False, True):
        up, budget = [], {}
        for d, name in enumerate(problem.resources):
            if name not in limits.resources:
                up.append(False)
                budget[name] = None
                continue
            at = limits.resources.index(name)
            upper, lower = limits.upper[at], limits.lower[at]
            has_upper, has_lower = any(x is not None for x in upper), any(x is not None for x in lower)
            if not (has_upper and has_lower):
                up.append(has_upper != favor)
            else:
                if not favor and any(_is_unbounded(row, d) for row in problem.rows):
                    found.append(-math.inf)
                    break
                # rounded down, which hides up to a cell for each step: move the side on which that is wrong
                up.append(False)
                hidden = [CELL * (h + 1) for h in range(problem.horizon)]
                if favor:
                    lower = tuple(None if x is None else x - y for x, y in zip(lower, hidden, strict=True))
                else:
                    upper = tuple(None if x is None else x - y for x, y in zip(upper, hidden, strict=True))
                    if any(None not in (x, y) and x < y for x, y in zip(upper, lower, strict=True)):
                        found.append(-math.inf)
                        break
            budget[name] = Budget(upper=list(upper), lower=list(lower))
        else:
            model = discretized(problem, up)
            found.append(solve(model, budget).value)
    return found[0], found[1]


def _is_unbounded(row: Row, d: int) -> bool:
    costs_of_row = [given[d] for _, _, given in row.outcomes]
    return any(isinstance(cost, CostDistribution) and cost.low is None for cost in costs_of_row)
