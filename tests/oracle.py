"""Brute force: the optimum and the worst case of tiny problems, by the definitions and nothing else.

Nothing here knows `solvent.plan`. Spending is always exact; values are Fractions, or floats where a model is too large
for that. A node (step, state, spent) is worth

    its end     once the episode is over, if it may end in this state and what was spent keeps all limits still to come,
    -infinity   if not, or if every action has an outcome that breaks a limit now or leads to such a node,
    the best    of reward plus expectation otherwise,

and a problem the expectation over the first states, if none of them is worth -infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from solvent.errors import SolventError
from solvent.model.budget import BudgetLike, SpentLike, read_spent, resolve
from solvent.model.cmdp import CMDP

INFEASIBLE = -math.inf
Amounts = tuple[Fraction, ...]
Value = Fraction | float


class Over(NamedTuple):
    """The state of an episode that has ended in a state."""

    state: Hashable


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
    strayed : list of state
        Where histories end although they must not.
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
    strayed: list[Hashable] = field(default_factory=list)


class Problem:
    """A model and a budget in plain Python: names, Fractions, tuples."""

    def __init__(
        self,
        model: CMDP,
        budget: BudgetLike | None = None,
        number: Callable[[float], Any] = Fraction,
        spent: SpentLike | None = None,
    ):
        limits = resolve(model, budget, spent)
        self.model, self.number = model, number
        self.horizon, self.start = model.horizon, model.start
        self.starts = {
            model.states[s]: number(p)
            for s, p in zip(model.start_states.tolist(), model.start_probability.tolist(), strict=True)
        }
        self.tracked = limits.resources
        self.nothing: Amounts = (Fraction(0),) * len(self.tracked)
        before = read_spent(model, spent)
        self.initial: Amounts = tuple(before[name] for name in self.tracked)
        self.saturation = [
            (model.floors[model.resource_index(name)], model.ceilings[model.resource_index(name)])
            for name in self.tracked
        ]
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
        return [(p, state, self.plus(spent, cost)) for p, state, cost in row.outcomes]

    def plus(self, spent: Amounts, cost: Amounts) -> Amounts:
        """What has been spent after a cost: never less than a floor, never more than a ceiling."""
        found = []
        for a, b, (floor, ceiling) in zip(spent, cost, self.saturation, strict=True):
            total = a + b
            total = total if floor is None else max(total, floor)
            found.append(total if ceiling is None else min(total, ceiling))
        return tuple(found)

    def end(self, state: Hashable) -> Value:
        """What it is worth to end in a state; minus infinity where an episode must not end."""
        s = self.model.state_index(state)
        if self.model.may_end is not None and not self.model.may_end[s]:
            return INFEASIBLE
        return self.end_reward(state)

    def end_reward(self, state: Hashable) -> Value:
        """What is earned by ending in a state, goal or not."""
        s = self.model.state_index(state)
        return self.number(0.0 if self.model.end_reward is None else float(self.model.end_reward[s]))

    def safe(self, step: int, spent: Amounts, row: Row) -> bool:
        """Whether no outcome breaks a limit of this step."""
        return all(self.keeps(step, then) for _, _, then in self.arrivals(spent, row))


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
            return self.problem.end(state)
        key = step, state, spent
        if key not in self._known:
            self._known[key] = self._value(*key)
        return self._known[key]

    def _value(self, step: int, state: Hashable, spent: Amounts) -> Value:
        rows = self.problem.rows(step, state)
        if not rows:
            return self.problem.end(state) if self.problem.keeps_to_the_end(step, spent) else self.penalty
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


def over_starts(problem: Problem, value: Callable[[Hashable], Value]) -> Value:
    """Return the expectation of a value over the first states; minus infinity if one of them is worth that."""
    found = [(p, value(state)) for state, p in problem.starts.items()]
    if any(worth == INFEASIBLE for _, worth in found):
        return INFEASIBLE
    return sum(p * worth for p, worth in found)


def optimum(
    model: CMDP,
    budget: BudgetLike | None = None,
    number: Callable[[float], Any] = Fraction,
    spent: SpentLike | None = None,
) -> Value:
    """Return the optimal value; minus infinity if no policy keeps the budget."""
    problem = Problem(model, budget, number, spent)
    nodes = Nodes(problem)
    return over_starts(problem, lambda state: nodes.value(0, state, problem.initial))


def feasible(model: CMDP, budget: BudgetLike | None = None, spent: SpentLike | None = None) -> bool:
    """Whether any policy keeps the budget."""
    return optimum(model, budget, spent=spent) != INFEASIBLE


def optimum_over_histories(model: CMDP, budget: BudgetLike | None = None, spent: SpentLike | None = None) -> Value:
    """Return the optimal value by going through all histories, each judged from its own list of costs."""
    problem = Problem(model, budget, spent=spent)

    def spent_along(costs: tuple[Amounts, ...]) -> Amounts:
        total = problem.initial
        for cost in costs:
            total = problem.plus(total, cost)
        return total

    def within(costs: tuple[Amounts, ...]) -> bool:
        return all(problem.keeps(step, spent_along(costs[: step + 1])) for step in range(len(costs)))

    def best(state: Hashable, costs: tuple[Amounts, ...]) -> Value:
        if not within(costs):
            return INFEASIBLE
        step = len(costs)
        if step == problem.horizon:
            return problem.end(state)
        rows = problem.rows(step, state)
        if not rows:
            idle = (problem.nothing,) * (problem.horizon - step)
            return problem.end(state) if within(costs + idle) else INFEASIBLE
        return max(worth(row, costs) for row in rows)

    def worth(row: Row, costs: tuple[Amounts, ...]) -> Value:
        total = row.reward
        for probability, state, cost in row.outcomes:
            later = best(state, (*costs, cost))
            if later == INFEASIBLE:
                return INFEASIBLE
            total += probability * later
        return total

    return over_starts(problem, lambda state: best(state, ()))


def walk(
    model: CMDP,
    budget: BudgetLike | None,
    choose: Callable[[int, Hashable, dict[str, Fraction]], Hashable],
    number: Callable[[float], Any] = Fraction,
    spent: SpentLike | None = None,
) -> Walk:
    """Follow a policy along all its histories; those that meet in a node go on together."""
    problem = Problem(model, budget, number, spent)
    layer = _rest_where_over(problem, 0, {(state, problem.initial): p for state, p in problem.starts.items()})
    value: Value = number(0)
    broken: list[tuple[int, Amounts]] = []
    stuck: list[tuple[int, Hashable, Amounts]] = []
    seen: set[Amounts] = set()
    for step in range(problem.horizon):
        following: dict[tuple[Hashable, Amounts], Value] = {}
        for (state, amounts), weight in layer.items():
            if isinstance(state, Over):
                following[state, amounts] = following.get((state, amounts), 0) + weight
                continue
            rows = problem.rows(step, state)
            try:
                action = choose(step, state, dict(zip(problem.tracked, amounts, strict=True)))
            except SolventError:
                stuck.append((step, state, amounts))
                continue
            (row,) = (row for row in rows if row.action == action)
            value += weight * row.reward
            for p, state_after, then in problem.arrivals(amounts, row):
                following[state_after, then] = following.get((state_after, then), 0) + weight * p
        layer = _rest_where_over(problem, step + 1, following)
        after = {amounts for _, amounts in layer}
        seen |= after
        broken += [(step, amounts) for amounts in after if not problem.keeps(step, amounts)]
    strayed: list[Hashable] = []
    for (state, _), weight in layer.items():
        last = state.state if isinstance(state, Over) else state
        value += weight * problem.end_reward(last)
        if problem.end(last) == INFEASIBLE:
            strayed.append(last)
    columns = list(zip(*seen, strict=True)) if seen else []
    return Walk(value, broken, stuck, tuple(map(max, columns)), tuple(map(min, columns)), strayed)


def _rest_where_over(problem: Problem, step: int, layer: dict[Any, Value]) -> dict[Any, Value]:
    """Mark what has come to an end, as its state may have actions again at a later step."""
    over: dict[Any, Value] = {}
    for (state, spent), weight in layer.items():
        ended = step < problem.horizon and not isinstance(state, Over) and not problem.rows(step, state)
        key = (Over(state) if ended else state, spent)
        over[key] = over.get(key, 0) + weight
    return over
