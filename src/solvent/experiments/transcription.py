"""The paper's algorithms, transcribed literally to Python sets and dictionaries: a reference for values and times.

Algorithm 5 (`alg: cost-states`) builds the layers of pairs (state, spent) that safe exploration reaches, from

    S_1 = {(s0, 0)},   S_{h+1} = {(s', spent + c) : (s, spent) in S_h, a safe there, (s', c) an outcome of a},

where a is safe if spent + c <= B for each of its outcomes. Algorithm 1 (`alg: reduction`) solves the MDP on them by
backward induction. Algorithm 3 (`alg: approx-reduction`) does both with f_h(spent, c) in the place of spent + c,

    f_h(spent, c) = spent + floor(c / l) * l          if spent + c >= B - (H - h) * cmax,
                    floor((B - (H - h) * cmax) / l) * l  otherwise.

Nothing is pruned, merged or shared with `solvent.solvers`. Details that the paper leaves open are as follows. Amounts
are integer multiples of the unit of the costs or of the length l, so that nothing is rounded that the paper does not
round; Python's integers are unbounded. Outcomes of probability 0 do not exist. A state without actions ends the
episode. As in the paper, without loss of generality, cmax is at least 0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from solvent.core.exact import Number, exact
from solvent.errors import BudgetError, ModelError, quote
from solvent.model.budget import BudgetLike, resolve
from solvent.model.cmdp import CMDP

#: Amount spent: an integer, or one for each resource.
Spent = Any
Node = tuple[int, Spent]
#: The reward and the outcomes of an action: probability, next state, and the cost in the form that `add` takes.
Action = tuple[float, list[tuple[float, int, Any]]]


class Plain(NamedTuple):
    """Result of a plain algorithm.

    Attributes
    ----------
    value : float
        Value of the best policy; minus infinity if there is none.
    nodes : int
        Pairs of state and spent, in all layers together.
    """

    value: float
    nodes: int


class _Problem(NamedTuple):
    """A problem as Algorithms 1 and 3 share it."""

    start: Node
    actions: list[list[list[Action]]]  # by step and state
    add: list[Callable[[Spent, Any], Spent]]  # by step: spent and cost to spent
    within: Callable[[Spent], bool]


def solve_exact(model: CMDP, budget: BudgetLike | None = None) -> Plain:
    """Solve by the paper's reduction: Algorithm 5, then Algorithm 1.

    Parameters
    ----------
    model : CMDP
        A model without continuous costs.
    budget : number, Budget or mapping, optional
        One upper limit for all steps for each limited resource; by default the model's own.

    Raises
    ------
    ModelError
        If the budget has other kinds of limits, or costs are continuous.

    Examples
    --------
    >>> from solvent.model import instances
    >>> solve_exact(instances.knapsack([60, 100, 120], [10, 20, 30]), 50)
    Plain(value=220.0, nodes=7)
    """
    limits, costs = _read(model, budget)
    units = [model.cost[r].unit for r in costs]
    columns = [[int(tick) for tick in model.cost[r].ticks] for r in costs]
    ticks_O = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True)) or [()] * model.n_outcomes
    add = operator.add if len(units) == 1 else _add_each
    highest = [limit // unit for limit, unit in zip(limits, units, strict=True)]
    return _solve(_Problem(_start(model, len(units)), _actions(model, ticks_O), [add] * model.horizon, _below(highest)))


def solve_approximate(
    model: CMDP, budget: BudgetLike | None, length: Number | Mapping[str, Number], *, truncate: bool = True
) -> Plain:
    """Solve by the paper's approximation: Algorithm 3, with its projection f.

    Parameters
    ----------
    model : CMDP
        A model without continuous costs.
    budget : number, Budget, mapping or None
        One upper limit for all steps for each limited resource; None for the model's own.
    length : number or mapping
        The paper's l, or one for each limited resource by name: epsilon / H for its additive scheme, epsilon * |B| / H
        for its relative scheme (`relative_length`).
    truncate : bool
        If False, f has only its first case. The value is the same, and if no cost is negative (`cor: improved`) so are
        the bounds on the work.

    Raises
    ------
    ModelError
        If the budget has other kinds of limits, costs are continuous, or a length is not positive.

    Examples
    --------
    >>> from solvent.model import instances
    >>> solve_approximate(instances.knapsack([60, 100, 120], [10, 20, 30]), 49, length=8)
    Plain(value=280.0, nodes=5)

    Rounded down to multiples of 8 the weights are 8, 16 and 24, so that all three fit; their true weight is 60.
    """
    limits, costs = _read(model, budget)
    named = [model.resources[r] for r in costs]
    lengths = [_length(length[name] if isinstance(length, Mapping) else length, f"length, {name}") for name in named]
    parts = [_Projection(model, r, limit, each) for r, limit, each in zip(costs, limits, lengths, strict=True)]
    actions = _actions(model, list(range(model.n_outcomes)))
    add = []
    for h, states in enumerate(actions):
        here = [o for offered in states for _, outcomes in offered for _, _, o in outcomes]
        add.append(_projected([part.at(h, here) if truncate else part.accumulate for part in parts]))
    highest = [limit // each for limit, each in zip(limits, lengths, strict=True)]
    return _solve(_Problem(_start(model, len(parts)), actions, add, _below(highest)))


def relative_length(epsilon: Number, budget: Number, horizon: int) -> Fraction:
    """Return the length of the paper's relative scheme, epsilon * |B| / H (`cor: relative`).

    Examples
    --------
    >>> relative_length(0.1, 10, 50)
    Fraction(1, 50)
    """
    return exact(epsilon, "epsilon") * abs(exact(budget, "budget")) / horizon


def smaller_budget(epsilon: Number, budget: Number) -> Fraction:
    """Return the budget of the paper's relative feasibility scheme, B / (1 + epsilon) (`prop: feasible-scheme`).

    Its length must be `relative_length(epsilon, smaller_budget(epsilon, budget), horizon)`. With epsilon * |B| / H,
    another reading of the proposition, a policy may spend B / (1 + epsilon) + epsilon * B, which is more than B.

    Examples
    --------
    >>> smaller_budget(0.25, 10)
    Fraction(8, 1)
    """
    return exact(budget, "budget") / (1 + exact(epsilon, "epsilon"))


def _solve(problem: _Problem) -> Plain:
    """Run Algorithm 5 forward, then backward induction on its layers."""
    horizon = len(problem.add)
    layers: list[set[Node]] = [{problem.start}]
    for h in range(horizon - 1):
        layers.append(set())
        for s, spent in layers[h]:
            for _, outcomes in problem.actions[h][s]:
                after = [(t, problem.add[h](spent, cost)) for _, t, cost in outcomes]
                if all(problem.within(x) for _, x in after):
                    layers[h + 1].update(after)
    later: dict[Node, float] = {}
    for h in reversed(range(horizon)):
        now: dict[Node, float] = {}
        for s, spent in layers[h]:
            best = -math.inf if problem.actions[h][s] else 0.0
            for reward, outcomes in problem.actions[h][s]:
                after = [(t, problem.add[h](spent, cost)) for _, t, cost in outcomes]
                if all(problem.within(x) for _, x in after):
                    value = reward
                    if h + 1 < horizon:
                        value += sum(p * later[node] for (p, _, _), node in zip(outcomes, after, strict=True))
                    best = max(best, value)
            now[s, spent] = best
        later = now
    return Plain(later[problem.start], sum(map(len, layers)))


def _read(model: CMDP, budget: BudgetLike | None) -> tuple[list[Fraction], list[int]]:
    """Return the limits, and the index of the resource of each."""
    if model.distribution_DO is not None:
        raise ModelError("model", "costs without distributions", "continuous costs")
    limits = resolve(model, budget)
    for name, upper, lower in zip(limits.resources, limits.upper, limits.lower, strict=True):
        if len(set(upper)) != 1 or upper[0] is None or any(x is not None for x in lower):
            raise BudgetError(
                f"budget, {name}", "one upper limit for all steps, as in the paper", "other kinds of limits"
            )
    return [upper[0] for upper in limits.upper if upper[0] is not None], list(
        map(model.resource_index, limits.resources)
    )


def _length(length: Any, where: str) -> Fraction:
    number = exact(length, where)
    if number <= 0:
        raise ModelError(where, "a number above 0", quote(length))
    return number


def _start(model: CMDP, resources: int) -> Node:
    return model.start_index, 0 if resources == 1 else (0,) * resources


def _actions(model: CMDP, costs: list[Any]) -> list[list[list[Action]]]:
    """Return the actions of each step and state."""

    def at(row: int) -> Action:
        outcomes = range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1]))
        reached = [(float(model.probability[o]), int(model.next_state[o]), costs[o]) for o in outcomes]
        return float(model.row_reward[row]), reached

    known = [at(row) for row in range(model.n_rows)]
    return [[[known[r] for r in model.rows(h, s)] for s in range(model.n_states)] for h in range(model.horizon)]


def _add_each(spent: tuple[int, ...], cost: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(operator.add, spent, cost))


def _below(highest: list[int]) -> Callable[[Spent], bool]:
    if len(highest) == 1:
        return highest[0].__ge__
    return lambda spent: all(map(operator.le, spent, highest))


class _Projection:
    """The paper's f for one resource, on integer multiples of its length."""

    def __init__(self, model: CMDP, resource: int, limit: Fraction, length: Fraction) -> None:
        column = model.cost[resource]
        self._costs = [column.value(o) for o in range(len(column))]
        self._floors = [cost // length for cost in self._costs]
        self._limit, self._length, self._horizon = limit, length, model.horizon
        self._largest = max([*self._costs, Fraction(0)])

    def accumulate(self, spent: int, outcome: int) -> int:
        """Return the first case of f, from the amount spent and the index of an outcome."""
        return spent + self._floors[outcome]

    def at(self, h: int, outcomes: list[int]) -> Callable[[int, int], int]:
        """Return f at step h, counted from 0, for the outcomes of that step."""
        least = self._limit - (self._horizon - 1 - h) * self._largest
        bottom, floors = least // self._length, self._floors
        # spent * l + c >= least, solved for spent
        bars = {o: math.ceil((least - self._costs[o]) / self._length) for o in outcomes}

        def project(spent: int, outcome: int) -> int:
            return spent + floors[outcome] if spent >= bars[outcome] else bottom

        return project


def _projected(parts: list[Callable[[int, int], int]]) -> Callable[[Spent, int], Spent]:
    if len(parts) == 1:
        return parts[0]
    return lambda spent, outcome: tuple(part(x, outcome) for part, x in zip(parts, spent, strict=True))
