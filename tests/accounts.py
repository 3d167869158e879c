"""Small random problems with accounts that saturate, initial amounts, drawn starts, end rewards and goals.

`optimum` and `safe_actions` follow their definitions in fractions, history by history. `encode` states the same problem
as a plain model: what was spent is part of the state, a first step draws the start, a last step pays for the end, and a
resource "breach" counts broken limits and missed goals.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

import solvent
from solvent.model.budget import Limits, resolve
from solvent.model.cmdp import CMDP

FEATURES = ("saturation", "spent", "start", "end_reward", "goal")

#: A state by position, and what was spent of each limited resource.
Place = tuple[int, tuple[Fraction, ...]]


@dataclass(frozen=True)
class Case:
    """A model, a budget for it, and what had been spent before."""

    model: CMDP
    budget: dict[str, Any]
    spent: dict[str, Fraction]

    @cached_property
    def limits(self) -> Limits:
        return resolve(self.model, self.budget, self.spent)

    def after(self, spent: tuple[Fraction, ...], outcome: Any) -> tuple[Fraction, ...]:
        """Return what was spent after an outcome."""
        return tuple(
            self.model.resource(name).clamp(amount + outcome.cost[name])
            for name, amount in zip(self.limits.resources, spent, strict=True)
        )

    def keeps(self, step: int, spent: tuple[Fraction, ...]) -> bool:
        """Whether amounts keep the limits after a step."""
        for amount, upper, lower in zip(spent, self.limits.upper, self.limits.lower, strict=True):
            most, least = upper[step], lower[step]
            if (most is not None and amount > most) or (least is not None and amount < least):
                return False
        return True

    def keeps_later(self, step: int, spent: tuple[Fraction, ...]) -> bool:
        return all(self.keeps(later, spent) for later in range(step, self.model.horizon))

    def may_end(self, state: int) -> bool:
        return self.model.may_end is None or bool(self.model.may_end[state])

    def end_reward(self, state: int) -> float:
        return 0.0 if self.model.end_reward is None else float(self.model.end_reward[state])

    def starts(self) -> list[tuple[float, Place]]:
        pairs = zip(self.model.start_probability.tolist(), self.model.start_states.tolist(), strict=True)
        return [(p, (s, self.limits.initial)) for p, s in pairs]

    @cached_property
    def _values(self) -> dict[tuple[int, Place], float]:
        return {}

    def value(self, step: int, place: Place) -> float:
        """Return the optimal value from a place before a step on; minus infinity if no continuation is safe."""
        key = (step, place)
        if key not in self._values:
            state, spent = place
            if step == self.model.horizon or self.model.is_terminal(step, state):
                good = self.may_end(state) and self.keeps_later(step, spent)
                self._values[key] = self.end_reward(state) if good else -math.inf
            else:
                worths = [self.row_value(step, place, row) for row in self.model.rows(step, state)]
                self._values[key] = max(worths)
        return self._values[key]

    def row_value(self, step: int, place: Place, row: int) -> float:
        """Return the value of taking a row; minus infinity if it is not safe."""
        total = float(self.model.row_reward[row])
        for outcome in self.model.outcomes(row):
            after = self.after(place[1], outcome)
            if not self.keeps(step, after):
                return -math.inf
            total += outcome.probability * self.value(step + 1, (self.model.state_index(outcome.next_state), after))
        return total

    def safe_actions(self, step: int, place: Place) -> list[int]:
        rows = self.model.rows(step, place[0])
        return [int(self.model.row_action[r]) for r in rows if self.row_value(step, place, r) > -math.inf]

    @property
    def optimum(self) -> float:
        """The optimal value; minus infinity if some possible first state has no safe policy."""
        values = [self.value(0, place) for _, place in self.starts()]
        chances = [p for p, _ in self.starts()]
        return -math.inf if -math.inf in values else math.fsum(p * v for p, v in zip(chances, values, strict=True))


def random_case(
    seed: int, features: Iterable[str] = FEATURES, *, n_resources: int = 1, lower: bool = False, terminal: bool = True
) -> Case:
    """Return a random problem of a few states with the given features."""
    rng, wanted = np.random.default_rng(seed), set(features)
    n_states, n_actions, horizon = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 5))
    names = [f"r{d}" for d in range(n_resources)]
    resources, spent = [], {}
    for name in names:
        ends: dict[str, Any] = {}
        if "saturation" in wanted:
            kind = rng.integers(3)
            ends |= {"floor": Fraction(int(rng.integers(-2, 1)), 2)} if kind != 1 else {}
            ends |= {"ceiling": Fraction(int(rng.integers(2, 7)), 2)} if kind != 0 else {}
        resources.append(solvent.Resource(name, **ends))
        spent[name] = Fraction(int(rng.integers(0, 3)), 2) if "spent" in wanted else Fraction(0)
    options: dict[str, Any] = {"horizon": horizon, "start": 0, "resources": resources}
    states = list(range(n_states))
    if "start" in wanted:
        shares = rng.integers(0, 4, n_states)
        shares[rng.integers(n_states)] += 1
        options["start"] = {s: Fraction(int(c), int(shares.sum())) for s, c in enumerate(shares) if c}
    if "end_reward" in wanted:
        options["end_reward"] = {s: float(rng.integers(-4, 9)) / 4 for s in states}
    if "goal" in wanted:
        goals = [s for s in states if rng.random() < 0.7]
        options["must_end_in"] = goals or [int(rng.integers(n_states))]
    b = CMDP.builder(**options, states=states)
    ends_at = {s for s in states if terminal and s and rng.random() < 0.2}
    for state, action in product(states, range(n_actions)):
        if state in ends_at or (action and rng.random() < 0.2):
            continue
        n_outcomes = int(rng.integers(1, 4))
        outcomes = [
            (
                Fraction(1, n_outcomes),
                int(rng.integers(n_states)),
                {name: Fraction(int(rng.integers(-3, 5)), 2) for name in names},
            )
            for _ in range(n_outcomes)
        ]
        b.add(state, f"a{action}", reward=float(rng.integers(-2, 9)) / 4, outcomes=outcomes)
    b.terminal(*ends_at)
    budget: dict[str, Any] = {}
    for name in names:
        upper: Any = Fraction(int(rng.integers(1, 8)), 2)
        if rng.random() < 0.3:
            upper = [Fraction(int(rng.integers(1, 8)), 2) for _ in range(horizon)]
        low = Fraction(int(rng.integers(-6, 1)), 2) if lower and rng.random() < 0.7 else None
        budget[name] = solvent.Budget(upper=upper, lower=low)
    return Case(b.build(), budget, spent)


#: Budget of an encoded problem: nothing may be broken.
BREACH = "breach"


def encode(case: Case, *, pay_missed: bool = True, sums: bool = False) -> CMDP:
    """Return a plain model of the same problem, of horizon H + 2, whose resource "breach" must stay at 0.

    Parameters
    ----------
    case : Case
    pay_missed : bool
        Whether ending outside the goal gets the reward for ending.
    sums : bool
        If True, states have no amounts, and the model also has the original resources, which must not saturate.
    """
    model, limits = case.model, case.limits
    names = (*limits.resources, BREACH) if sums else (BREACH,)
    nothing = dict.fromkeys(names, Fraction(0))
    b = CMDP.builder(horizon=model.horizon + 2, start="draw", resources=list(names))
    first = [(Fraction(p), ("at", 0, state, () if sums else spent), nothing) for p, (state, spent) in case.starts()]
    total = sum(p for p, _, _ in first)
    b.add("draw", "draw", outcomes=[(p / total, after, cost) for p, after, cost in first])
    waiting: list[Any] = [after for _, after, _ in first]
    seen: set[Hashable] = set(waiting)
    while waiting:
        place = waiting.pop()
        _, step, state, spent = place
        if step == model.horizon or model.is_terminal(step, state):
            breach = not case.may_end(state) or (
                not sums and not case.keeps_later(step, spent) and step < model.horizon
            )
            paid = case.end_reward(state) if pay_missed or not breach else 0.0
            b.add(place, "end", reward=paid, outcomes=[(1, "over", nothing | {BREACH: int(breach)})])
            continue
        for row in model.rows(step, state):
            outcomes = []
            for outcome in model.outcomes(row):
                after = () if sums else case.after(spent, outcome)
                kept = sums or case.keeps(step, after)
                then = ("at", step + 1, model.state_index(outcome.next_state), after)
                cost = {name: outcome.cost[name] for name in limits.resources} if sums else {}
                outcomes.append((outcome.probability, then, nothing | cost | {BREACH: int(not kept)}))
                if then not in seen:
                    seen.add(then)
                    waiting.append(then)
            name = model.actions[int(model.row_action[row])]
            b.add(place, name, reward=float(model.row_reward[row]), outcomes=outcomes)
    return b.build()
