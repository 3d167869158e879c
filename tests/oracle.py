"""Brute force: the optimum and the worst case of tiny problems, by the definitions and nothing else.

Nothing here knows `solvent.plan`. Spending is always exact; values are Fractions, or floats where a model is too large
for that. A node (step, state, spent) is worth

    0           once the episode is over, if what was spent keeps all limits still to come,
    -infinity   if every action has an outcome that breaks a limit now or leads to such a node,
    the best    of reward plus expectation otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from solvent.errors import SolventError
from solvent.model.budget import BudgetLike, resolve
from solvent.model.cmdp import CMDP

INFEASIBLE = -math.inf
#: The state of an episode that has ended.
OVER = "the episode is over"

Amounts = tuple[Fraction, ...]
Value = Fraction | float


class Outcome(NamedTuple):
    probability: Value
    next_state: Hashable
    cost: Amounts


class Row(NamedTuple):
    action: Hashable
    reward: Value
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Walk:
    """What a policy does, over all its histories.

    Attributes
    ----------
    value : Fraction or float
    broken : list of (step, amounts)
        Every amount spent that is beyond a limit, with the step after which it is.
    stuck : list of (step, state, amounts)
        Where a policy of nodes decides nothing although the state has actions.
    most, least : tuple of Fraction
        The extremes of what was spent after any step, per tracked resource.
    """

    value: Value
    broken: list[tuple[int, Amounts]]
    stuck: list[tuple[int, Hashable, Amounts]]
    most: Amounts
    least: Amounts


class Problem:
    """A model and a budget in plain Python: names, Fractions, tuples."""

    def __init__(self, model: CMDP, budget: BudgetLike | None = None, number: Callable[[float], Any] = Fraction):
        limits = resolve(model, budget)
        self.model, self.number = model, number
        self.horizon, self.start = model.horizon, model.start
        self.tracked = limits.resources
        self.nothing: Amounts = (Fraction(0),) * len(self.tracked)
        steps = range(self.horizon)
        self.upper = [tuple(side[step] for side in limits.upper) for step in steps]
        self.lower = [tuple(side[step] for side in limits.lower) for step in steps]

    @cached_property
    def _tables(self) -> dict[tuple[int, Hashable], tuple[Row, ...]]:
        model = self.model
        column = [model.resource_index(name) for name in self.tracked]
        tables: dict[tuple[int, Hashable], tuple[Row, ...]] = {}
        for table, steps in model.steps_of_table():
            for s, state in enumerate(model.states):
                rows = []
                for r in model.rows(steps[0], s):
                    span = range(int(model.outcome_indptr[r]), int(model.outcome_indptr[r + 1]))
                    outcomes = tuple(
                        Outcome(
                            self.number(float(model.probability[o])),
                            model.states[model.next_state[o]],
                            tuple(model.cost_of(d, o) for d in column),
                        )
                        for o in span
                    )
                    reward = self.number(float(model.row_reward[r]))
                    rows.append(Row(model.actions[model.row_action[r]], reward, outcomes))
                tables[table, state] = tuple(rows)
        return tables

    def rows(self, step: int, state: Hashable) -> tuple[Row, ...]:
        """The rows of a state; none if the episode is over there."""
        return self._tables.get((int(self.model.table_of_step[step]), state), ())

    def keeps(self, step: int, spent: Amounts) -> bool:
        """Whether having spent so much after a step is within the limits of that step."""
        sides = zip(self.lower[step], spent, self.upper[step], strict=True)
        return all((low is None or low <= x) and (high is None or x <= high) for low, x, high in sides)

    def keeps_to_the_end(self, step: int, spent: Amounts) -> bool:
        """Whether having spent so much and spending no more is within all limits from this step on."""
        return all(self.keeps(later, spent) for later in range(step, self.horizon))

    def arrivals(self, spent: Amounts, row: Row) -> list[tuple[Value, Hashable, Amounts]]:
        """What may come of a row: (probability, next state, spent)."""
        return [(p, state, _plus(spent, cost)) for p, state, cost in row.outcomes]

    def safe(self, step: int, spent: Amounts, row: Row) -> bool:
        """Whether no outcome breaks a limit of this step."""
        return all(self.keeps(step, then) for _, _, then in self.arrivals(spent, row))


def _plus(spent: Amounts, cost: Amounts) -> Amounts:
    return tuple(a + b for a, b in zip(spent, cost, strict=True))


class Nodes:
    """Values of nodes, by memoized recursion.

    Parameters
    ----------
    penalty : optional
        What a dead end is worth; anything but minus infinity is a wrong answer, kept to show that it is one.
    """

    def __init__(self, problem: Problem, penalty: float = INFEASIBLE) -> None:
        self.problem, self.penalty = problem, penalty
        self._known: dict[tuple[int, Hashable, Amounts], Value] = {}

    def value(self, step: int, state: Hashable, spent: Amounts) -> Value:
        if step == self.problem.horizon:
            return 0
        key = step, state, spent
        if key not in self._known:
            self._known[key] = self._value(*key)
        return self._known[key]

    def _value(self, step: int, state: Hashable, spent: Amounts) -> Value:
        rows = self.problem.rows(step, state)
        if not rows:
            return 0 if self.problem.keeps_to_the_end(step, spent) else self.penalty
        return max((self.row_value(step, spent, row) for row in rows), default=INFEASIBLE)

    def row_value(self, step: int, spent: Amounts, row: Row) -> Value:
        if not self.problem.safe(step, spent, row):
            return self.penalty
        later = [(p, self.value(step + 1, state, then)) for p, state, then in self.problem.arrivals(spent, row)]
        if any(value == INFEASIBLE for _, value in later):
            return INFEASIBLE
        return row.reward + sum(p * value for p, value in later)

    def best_action(self, step: int, state: Hashable, spent: Amounts) -> Hashable:
        rows = self.problem.rows(step, state)
        return max(rows, key=lambda row: self.row_value(step, spent, row)).action

    def viable_rows(self, step: int, state: Hashable, spent: Amounts) -> Iterator[Row]:
        """The rows after which a limit can be kept for sure to the end."""
        return (row for row in self.problem.rows(step, state) if self.row_value(step, spent, row) != INFEASIBLE)


def optimum(model: CMDP, budget: BudgetLike | None = None, number: Callable[[float], Any] = Fraction) -> Value:
    """Return the optimal value; minus infinity if no policy keeps the budget."""
    problem = Problem(model, budget, number)
    return Nodes(problem).value(0, problem.start, problem.nothing)


def feasible(model: CMDP, budget: BudgetLike | None = None) -> bool:
    """Whether any policy keeps the budget."""
    return optimum(model, budget) != INFEASIBLE


def optimum_over_histories(model: CMDP, budget: BudgetLike | None = None) -> Value:
    """Return the optimal value by going through all histories, each judged from its own list of costs."""
    problem = Problem(model, budget)

    def spent_along(costs: tuple[Amounts, ...]) -> Amounts:
        return tuple(sum((cost[d] for cost in costs), Fraction(0)) for d in range(len(problem.tracked)))

    def within(costs: tuple[Amounts, ...]) -> bool:
        return all(problem.keeps(step, spent_along(costs[: step + 1])) for step in range(len(costs)))

    def best(state: Hashable, costs: tuple[Amounts, ...]) -> Value:
        if not within(costs):
            return INFEASIBLE
        step = len(costs)
        if step == problem.horizon:
            return 0
        rows = problem.rows(step, state)
        if not rows:
            idle = (problem.nothing,) * (problem.horizon - step)
            return 0 if within(costs + idle) else INFEASIBLE
        return max(worth(row, costs) for row in rows)

    def worth(row: Row, costs: tuple[Amounts, ...]) -> Value:
        total = row.reward
        for probability, state, cost in row.outcomes:
            later = best(state, (*costs, cost))
            if later == INFEASIBLE:
                return INFEASIBLE
            total += probability * later
        return total

    return best(problem.start, ())


def walk(
    model: CMDP,
    budget: BudgetLike | None,
    choose: Callable[[int, Hashable, dict[str, Fraction]], Hashable],
    number: Callable[[float], Any] = Fraction,
) -> Walk:
    """Follow a policy along all its histories; those that meet in a node go on together."""
    problem = Problem(model, budget, number)
    layer = _rest_where_over(problem, 0, {(problem.start, problem.nothing): number(1)})
    value: Value = number(0)
    broken: list[tuple[int, Amounts]] = []
    stuck: list[tuple[int, Hashable, Amounts]] = []
    seen: set[Amounts] = set()
    for step in range(problem.horizon):
        following: dict[tuple[Hashable, Amounts], Value] = {}
        for (state, spent), weight in layer.items():
            rows = problem.rows(step, state)
            if not rows:
                following[state, spent] = following.get((state, spent), 0) + weight
                continue
            try:
                action = choose(step, state, dict(zip(problem.tracked, spent, strict=True)))
            except SolventError:
                stuck.append((step, state, spent))
                continue
            (row,) = (row for row in rows if row.action == action)
            value += weight * row.reward
            for p, state_after, then in problem.arrivals(spent, row):
                following[state_after, then] = following.get((state_after, then), 0) + weight * p
        layer = _rest_where_over(problem, step + 1, following)
        after = {spent for _, spent in layer}
        seen |= after
        broken += [(step, spent) for spent in after if not problem.keeps(step, spent)]
    columns = list(zip(*seen, strict=True)) if seen else []
    return Walk(value, broken, stuck, tuple(map(max, columns)), tuple(map(min, columns)))


def _rest_where_over(problem: Problem, step: int, layer: dict[Any, Value]) -> dict[Any, Value]:
    """Move what has come to an end to a state of its own, as its state may have actions again at a later step."""
    over: dict[Any, Value] = {}
    for (state, spent), weight in layer.items():
        ended = step < problem.horizon and not problem.rows(step, state)
        key = (OVER if ended else state, spent)
        over[key] = over.get(key, 0) + weight
    return over
