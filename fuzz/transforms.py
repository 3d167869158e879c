"""Metamorphic transformations: changes to a problem after which theory says what its answer must be.

A transformation T maps a problem P to T(P) together with a `Relation`. If V(P) is the optimum of P, then

    V(T(P)) = 2^k V(P) + c,

T(P) is feasible exactly if P is, and the amounts spent under corresponding policies are related by a factor for each
resource. Nothing here solves anything: `fuzz.metamorphic` compares the answers that the package gives for P and T(P).

Transformations take problems in canonical form (`canonical`): exact costs and limits, probabilities and rewards as the
floats that the package reads them as, no outcomes of probability zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

from fuzz.encodings import TooManyLevels, ends_as_step, levels_in_states, start_as_step, states_of
from fuzz.generate import amount_of, fraction_of, support
from fuzz.problems import Account, Cost, Distribution, Limit, Number, Outcome, Problem, Row

_EPS = 2.0**-52
_ZERO = Fraction(0)


class Spending(NamedTuple):
    """The name of a resource in the transformed problem; its amounts are multiplied by a factor, then moved."""

    name: str
    factor: Fraction = Fraction(1)
    shift: Fraction = Fraction(0)

    def amount(self, original: Fraction) -> Fraction:
        """Return what an amount of the original corresponds to."""
        return self.factor * original + self.shift

    def original(self, amount: Fraction) -> Fraction:
        """Return the amount of the original that corresponds to one of the transformed problem."""
        return (amount - self.shift) / self.factor


@dataclass(frozen=True)
class Relation:
    """How the answer of a transformed problem follows from that of the original.

    Attributes
    ----------
    exponent, shift : int, Fraction
        The optimum is multiplied by `2**exponent`, then `shift` is added.
    slack : float
        How far the optimum may be from that, where the probabilities of a row sum to one only up to rounding.
    exact : bool
        Whether every float the package computes is scaled without rounding, so that bounds correspond exactly and the
        policies are the same.
    rounding : bool
        Whether corresponding costs are rounded to corresponding amounts, given epsilons that are scaled alike.
    curves : bool
        Whether the problems correspond for every budget of every resource, all others being unlimited.
    spent : dict of str to Spending
        For each resource of the original that is changed. Other resources keep name and amounts.
    copies : dict of str to (str, Fraction)
        Added resources, all in names of the transformed problem: each is always the factor times the other one.
    delay : int
        Number of steps that come before the original ones.
    lifts : bool
        Whether amounts correspond at every node, so that policies can be carried over.
    states : dict
        The original of each state that was added or renamed.
    actions : dict
        The new name of each action of the original that was renamed.
    """

    exponent: int = 0
    shift: Fraction = _ZERO
    slack: float = 0.0
    exact: bool = False
    rounding: bool = True
    curves: bool = True
    spent: Mapping[str, Spending] = field(default_factory=dict)
    copies: Mapping[str, tuple[str, Fraction]] = field(default_factory=dict)
    delay: int = 0
    lifts: bool = True
    states: Mapping[Any, Any] = field(default_factory=dict)
    actions: Mapping[Any, Any] = field(default_factory=dict)

    def value(self, original: float) -> Fraction:
        """Return what a finite value of the original corresponds to."""
        return Fraction(original) * Fraction(2) ** self.exponent + self.shift

    def spending(self, resource: str) -> Spending:
        """Return what becomes of the amounts of a resource of the original."""
        return self.spent.get(resource, Spending(resource))


class Transformed(NamedTuple):
    """A transformed problem and how its answer is related to that of the original."""

    problem: Problem
    relation: Relation


Transformation = Callable[[Problem, Random], Transformed | None]

#: All transformations by name; each returns None if it does not apply.
TRANSFORMATIONS: dict[str, Transformation] = {}


def _register(transformation: Transformation) -> Transformation:
    TRANSFORMATIONS[transformation.__name__] = transformation
    return transformation


def canonical(problem: Problem) -> Problem:
    """Return the problem with exact costs and limits, float rewards and probabilities, and no impossible outcomes.

    A float as a cost may be read as a decimal or as a binary number, depending on the other costs of its resource.
    Fractions have one meaning only, so that changing one cost does not change another.
    """

    def cost(value: Cost) -> Cost:
        return value if isinstance(value, Distribution) else fraction_of(value)

    rows = tuple(
        row._replace(
            reward=_float(row.reward) + 0.0,
            outcomes=tuple(
                Outcome(_float(o.probability) or 5e-324, o.next_state, tuple(map(cost, o.cost)))
                for o in row.outcomes
                if Fraction(o.probability)
            ),
        )
        for row in problem.rows
    )
    limits = {name: _map_limit(limit, lambda x: x) for name, limit in problem.limits.items()}
    accounts = {name: _map_account(account, lambda x: x) for name, account in problem.accounts.items()}
    start = problem.start
    if isinstance(start, Mapping):
        start = {state: _float(p) or 5e-324 for state, p in start.items() if Fraction(p)}
    ends = {state: _float(reward) + 0.0 for state, reward in problem.end_reward.items()}
    return problem.with_(rows=rows, limits=limits, accounts=accounts, start=start, end_reward=ends)


def reward_size(problem: Problem) -> float:
    """Return a bound on the absolute value of any policy: the horizon times the largest absolute reward, and an end."""
    steps = float(problem.horizon) if problem.horizon is not None else 1 / (1 - float(_discount(problem)))
    end = max((abs(_float(reward)) for reward in problem.end_reward.values()), default=0.0)
    return steps * max((abs(_float(row.reward)) for row in problem.rows), default=0.0) + end


# ---------------------------------------------------------------------------------------------------------------------
# helpers


def _float(number: Number) -> float:
    return number if isinstance(number, float) else float(Fraction(number))


def _discount(problem: Problem) -> Fraction:
    assert problem.discount is not None
    return fraction_of(problem.discount)


def _map_side(side: Any, change: Callable[[Fraction], Fraction]) -> Any:
    if side is None:
        return None
    if isinstance(side, tuple):
        return tuple(None if limit is None else change(fraction_of(limit)) for limit in side)
    return change(fraction_of(side))


def _map_limit(limit: Limit, change: Callable[[Fraction], Fraction]) -> Limit:
    return limit._replace(upper=_map_side(limit.upper, change), lower=_map_side(limit.lower, change))


def _map_account(account: Account, change: Callable[[Fraction], Fraction]) -> Account:
    floor, ceiling = (None if end is None else change(fraction_of(end)) for end in (account.floor, account.ceiling))
    return Account(floor, ceiling, change(fraction_of(account.initial)))


def _initial(problem: Problem, d: int) -> Fraction:
    return fraction_of(problem.account(problem.resources[d]).initial)


def _per_step(problem: Problem, resource: str) -> tuple[list[Fraction | None], list[Fraction | None]]:
    """Return the upper and the lower limits of a resource after each step."""
    limit, horizon = problem.limits.get(resource, Limit()), problem.horizon
    assert horizon is not None

    def side(given: Any) -> list[Fraction | None]:
        if isinstance(given, tuple):
            return [None if x is None else fraction_of(x) for x in given]
        one = None if given is None else fraction_of(given)
        return [*[None] * (horizon - 1), one] if limit.final else [one] * horizon

    return side(limit.upper), side(limit.lower)


def _largest_limit(problem: Problem, resource: str) -> Fraction:
    limit, found = problem.limits.get(resource, Limit()), [_ZERO]
    for side in (limit.upper, limit.lower):
        found += [abs(fraction_of(x)) for x in (side if isinstance(side, tuple) else (side,)) if x is not None]
    return max(found)


def _is_limited(problem: Problem, resource: str) -> bool:
    limit = problem.limits.get(resource, Limit())
    sides = (side if isinstance(side, tuple) else (side,) for side in (limit.upper, limit.lower))
    return any(x is not None for side in sides for x in side)


def _costs(problem: Problem, d: int) -> list[Cost]:
    return [o.cost[d] for row in problem.rows for o in row.outcomes]


def _is_continuous(problem: Problem, d: int) -> bool:
    return any(isinstance(cost, Distribution) for cost in _costs(problem, d))


def _with_outcomes(problem: Problem, change: Callable[[Row], Sequence[Outcome]]) -> Problem:
    return problem.with_(rows=tuple(row._replace(outcomes=tuple(change(row))) for row in problem.rows))


def _halves(p: float, rng: Random) -> tuple[float, float] | None:
    """Return two floats that sum to p exactly, or None if there are none."""
    for share in rng.sample([0.5, 0.25, 0.75, 0.125], 4):
        part = p * share
        rest = p - part
        if part > 0 and rest > 0 and Fraction(part) + Fraction(rest) == Fraction(p):
            return part, rest
    return None


def _deviation(problem: Problem) -> Fraction:
    """Return the largest difference between one and the sum of the probabilities of a row, or of the first states."""
    sums = [sum((Fraction(o.probability) for o in row.outcomes), _ZERO) for row in problem.rows]
    sums.append(sum((Fraction(p) for p in problem.first_states.values()), _ZERO))
    return max(abs(total - 1) for total in sums)


def _slack(problem: Problem) -> float:
    """Return how far apart two values may be if sums of probabilities are rounded in another order.

    Rows that sum to one up to a few units in the last place are taken as they are. Other rows are divided by their sum,
    which is a float that depends on the order.
    """
    if _deviation(problem) < 4 * _EPS:
        return 0.0
    steps = problem.horizon or 1 / (1 - float(_discount(problem)))
    return 16 * _EPS * steps * reward_size(problem)


def _same(problem: Problem, changed: Problem, **relation: Any) -> Transformed:
    return Transformed(changed, Relation(slack=_slack(problem), **relation))


def _fresh(names: Iterable[Any], stem: str) -> str:
    taken = set(names)
    return next(name for i in range(len(taken) + 1) if (name := f"{stem}{i}") not in taken)


def _add_resource(
    problem: Problem, name: str, at: int, cost: Callable[[Outcome], Sequence[tuple[float, Cost]]]
) -> Problem:
    """Insert a resource; `cost` returns the probabilities and the new costs of the parts of an outcome."""

    def change(row: Row) -> list[Outcome]:
        return [Outcome(p, o.next_state, (*o.cost[:at], new, *o.cost[at:])) for o in row.outcomes for p, new in cost(o)]

    resources = (*problem.resources[:at], name, *problem.resources[at:])
    return _with_outcomes(problem.with_(resources=resources), change)


def _reached(problem: Problem) -> tuple[set[tuple[int, Any]], bool]:
    """Return the (step, state) pairs that can be reached, limits aside, and whether all of them have actions."""
    assert problem.horizon is not None
    current, found, acting = {*problem.first_states}, set(), True
    for step in range(problem.horizon):
        found |= {(step, state) for state in current}
        after = set()
        for state in current:
            here = [row for row in problem.rows if row.state == state and (row.steps is None or step in row.steps)]
            acting = acting and bool(here)
            after |= {o.next_state for row in here for o in row.outcomes}
        current = after
    return found, acting


# ---------------------------------------------------------------------------------------------------------------------
# outcomes


@_register
def split_outcomes(problem: Problem, rng: Random) -> Transformed | None:
    """Split outcomes into two with the same next state and cost.

    Probabilities of equal outcomes add up, and they are split so that the sum is exact: the model is the same.
    """
    share, changed = rng.choice([0.2, 0.5, 1.0]), False

    def change(row: Row) -> list[Outcome]:
        nonlocal changed
        found = list(row.outcomes)
        for outcome in row.outcomes:
            parts = _halves(_float(outcome.probability), rng) if rng.random() < share else None
            if parts is not None:
                changed = True
                found[found.index(outcome)] = outcome._replace(probability=parts[0])
                found.insert(rng.randrange(len(found) + 1), outcome._replace(probability=parts[1]))
        return found

    result = _with_outcomes(problem, change)
    return _same(problem, result) if changed else None


@_register
def duplicate_outcomes(problem: Problem, rng: Random) -> Transformed | None:
    """Replace each outcome of a row by the same number of copies, with equal parts of its probability.

    As for splitting. With as many copies as the row has outcomes, and equal probabilities, the copies look like the
    product of costs and next states if only their number and their margins are compared.
    """
    changed = False

    def change(row: Row) -> list[Outcome]:
        nonlocal changed
        n = len(row.outcomes)
        copies = n if 1 < n <= 8 and rng.random() < 0.8 else rng.choice([2, 4])
        if any(Fraction(_float(o.probability) / copies) * copies != Fraction(o.probability) for o in row.outcomes):
            return list(row.outcomes)
        changed = True
        return [o._replace(probability=_float(o.probability) / copies) for o in row.outcomes for _ in range(copies)]

    result = _with_outcomes(problem, change)
    return _same(problem, result) if changed else None


@_register
def merge_outcomes(problem: Problem, rng: Random) -> Transformed | None:
    """Merge outcomes of a row with the same next state and cost, where the sum of their probabilities is exact.

    The inverse of splitting: the model is the same.
    """
    changed = False

    def change(row: Row) -> list[Outcome]:
        nonlocal changed
        found: dict[tuple[Any, tuple[Cost, ...]], float] = {}
        apart: list[Outcome] = []
        for o in row.outcomes:
            key, p = (o.next_state, o.cost), _float(o.probability)
            if key not in found:
                found[key] = p
            elif Fraction(found[key] + p) == Fraction(found[key]) + Fraction(p):
                found[key] += p
                changed = True
            else:
                apart.append(o)
        return [*(Outcome(p, state, cost) for (state, cost), p in found.items()), *apart]

    result = _with_outcomes(problem, change)
    return _same(problem, result) if changed else None


@_register
def permute_outcomes(problem: Problem, rng: Random) -> Transformed | None:
    """Change the order of the outcomes of each row, which has no meaning."""
    if all(len(row.outcomes) == 1 for row in problem.rows):
        return None
    return _same(problem, _with_outcomes(problem, lambda row: rng.sample(row.outcomes, len(row.outcomes))))


@_register
def break_products(problem: Problem, rng: Random) -> Transformed | None:
    """Hide that the costs of a row are independent of its next state.

    A row with one outcome for each pair of a next state and a cost vector may be averaged over costs and next states
    one after the other. Its outcomes are put into another order and one of them is split in two, which leaves the same
    distribution but another number of outcomes.
    """
    changed = False

    def change(row: Row) -> list[Outcome]:
        nonlocal changed
        found = list(row.outcomes)
        states, costs = {o.next_state for o in found}, {o.cost for o in found}
        pairs = {(o.next_state, o.cost) for o in found}
        if min(len(states), len(costs)) < 2 or not len(states) * len(costs) == len(pairs) == len(found):
            return found
        at = rng.randrange(len(found))
        parts = _halves(_float(found[at].probability), rng)
        if parts is not None:
            changed = True
            found += [found[at]._replace(probability=part) for part in parts]
            del found[at]
        return rng.sample(found, len(found))

    result = _with_outcomes(problem, change)
    return _same(problem, result) if changed else None


@_register
def clone_state(problem: Problem, rng: Random) -> Transformed | None:
    """Add a second copy of a state, with the same rows, and let some outcomes lead to the copy instead.

    The two are bisimilar, so every node has the same value with either of them.
    """
    states = list(dict.fromkeys(row.state for row in problem.rows))
    state = rng.choice(states)
    copy, share = ("copy", state), rng.choice([0.0, 0.5])
    if all(o.next_state != state for row in problem.rows for o in row.outcomes):
        return None

    def change(row: Row) -> list[Outcome]:
        found: list[Outcome] = []
        for o in row.outcomes:
            parts = _halves(_float(o.probability), rng) if rng.random() < share else None
            if o.next_state != state:
                found.append(o)
            elif parts is None:
                found.append(o._replace(next_state=rng.choice([state, copy])))
            else:
                found += [o._replace(probability=parts[0]), o._replace(probability=parts[1], next_state=copy)]
        return found

    rows = tuple(
        row._replace(state=name)
        for row in problem.rows
        for name in ([state, copy] if row.state == state else [row.state])
    )
    over = tuple((name, steps) for at, steps in problem.terminal for name in ([state, copy] if at == state else [at]))
    ends, goals = dict(problem.end_reward), problem.goals
    if state in ends:
        ends[copy] = ends[state]
    if goals is not None and state in goals:
        goals = (*goals, copy)
    changed = _with_outcomes(problem.with_(rows=rows, terminal=over, end_reward=ends, goals=goals), change)
    return _same(problem, changed, states={copy: state})


# ---------------------------------------------------------------------------------------------------------------------
# names and order


@_register
def rename(problem: Problem, rng: Random) -> Transformed | None:
    """Give states, actions and resources other names, which have no meaning."""
    states = list(
        dict.fromkeys(
            [
                *problem.first_states,
                *(row.state for row in problem.rows),
                *(o.next_state for row in problem.rows for o in row.outcomes),
                *(state for state, _ in problem.terminal),
            ]
        )
    )
    actions = list(dict.fromkeys(row.action for row in problem.rows))
    state = dict(zip(states, (("state", i) for i in rng.sample(range(1000), len(states))), strict=True))
    action = dict(zip(actions, (("action", i) for i in rng.sample(range(1000), len(actions))), strict=True))
    numbers = rng.sample(range(1000), len(problem.resources))
    resource = {name: f"resource {i}" for name, i in zip(problem.resources, numbers, strict=True)}
    single = not isinstance(problem.start, Mapping)
    changed = problem.with_(
        start=state[problem.start] if single else {state[name]: p for name, p in problem.first_states.items()},
        accounts={resource[name]: account for name, account in problem.accounts.items()},
        end_reward={state[name]: reward for name, reward in problem.end_reward.items()},
        goals=None if problem.goals is None else tuple(state[name] for name in problem.goals),
        resources=tuple(resource[name] for name in problem.resources),
        rows=tuple(
            Row(
                state[row.state],
                action[row.action],
                row.reward,
                tuple(o._replace(next_state=state[o.next_state]) for o in row.outcomes),
                row.steps,
            )
            for row in problem.rows
        ),
        limits={resource[name]: limit for name, limit in problem.limits.items()},
        terminal=tuple((state[name], steps) for name, steps in problem.terminal),
    )
    return _same(
        problem,
        changed,
        spent={old: Spending(new) for old, new in resource.items()},
        states={new: old for old, new in state.items()},
        actions=action,
    )


@_register
def permute_rows(problem: Problem, rng: Random) -> Transformed | None:
    """Change the order of the rows, which decides the order of states and actions but has no meaning."""
    if len(problem.rows) == 1:
        return None
    return _same(problem, problem.with_(rows=tuple(rng.sample(problem.rows, len(problem.rows)))))


@_register
def permute_actions(problem: Problem, rng: Random) -> Transformed | None:
    """Change the order of actions alone: at a tie another one may be chosen, of the same value."""
    actions = list(dict.fromkeys(row.action for row in problem.rows))
    if len(actions) == 1:
        return None
    order = dict(zip(actions, rng.sample(range(len(actions)), len(actions)), strict=True))
    return _same(problem, problem.with_(rows=tuple(sorted(problem.rows, key=lambda row: order[row.action]))))


@_register
def permute_resources(problem: Problem, rng: Random) -> Transformed | None:
    """Change the order of the resources, which has no meaning."""
    n = len(problem.resources)
    if n < 2:
        return None
    order = rng.sample(range(n), n)
    changed = _with_outcomes(
        problem, lambda row: [o._replace(cost=tuple(o.cost[d] for d in order)) for o in row.outcomes]
    )
    return _same(problem, changed.with_(resources=tuple(problem.resources[d] for d in order)))


# ---------------------------------------------------------------------------------------------------------------------
# irrelevant additions


@_register
def add_unlimited_resource(problem: Problem, rng: Random) -> Transformed | None:
    """Add a resource without limits; some outcomes are split into two that differ only in what they cost of it.

    No limit depends on it, and the values of nodes that differ only there are equal.
    """
    pools: list[list[int | Fraction]] = [
        [0, 1],
        [0, 1, -2, 5],
        [Fraction(1, 7), Fraction(-2, 3), 0],
        [10**12, 1, -1000],
    ]
    pool = rng.choice(pools)
    share = rng.choice([0.0, 0.5, 1.0])

    def cost(o: Outcome) -> list[tuple[float, Cost]]:
        parts = _halves(_float(o.probability), rng) if rng.random() < share else None
        return [(p, Fraction(rng.choice(pool))) for p in (parts or (_float(o.probability),))]

    name = _fresh(problem.resources, "unlimited")
    return _same(problem, _add_resource(problem, name, rng.randint(0, len(problem.resources)), cost))


@_register
def add_unreachable_state(problem: Problem, rng: Random) -> Transformed | None:
    """Add a state to which no outcome of another state leads, so that its rewards and costs do not matter."""
    state = ("unreachable", 0)
    targets = [state, *(row.state for row in problem.rows if row.steps is None)]
    size = max(abs(_float(row.reward)) for row in problem.rows) or 1.0
    reward = rng.choice([0.0, size, 1e12, -1e12, 1e3 * size])
    if not math.isfinite(reward * (problem.horizon or 100)):
        return None
    costs = [o.cost for row in problem.rows for o in row.outcomes]
    rows = []
    weights = rng.choice([[1.0], [1.0], [0.5, 0.5], [0.25, 0.75]])
    for i in range(rng.randint(1, 2)):
        outcomes = tuple(Outcome(p, rng.choice(targets), rng.choice(costs)) for p in weights)
        rows.append(Row(state, rng.choice(problem.rows).action if i else ("only", 0), reward, outcomes))
    at = rng.randint(0, len(problem.rows))
    return _same(problem, problem.with_(rows=(*problem.rows[:at], *rows, *problem.rows[at:])))


@_register
def add_unsafe_action(problem: Problem, rng: Random) -> Transformed | None:
    """Add an action that breaks a limit, with probability one or a small one, and has any reward.

    Its cost is larger than all limits and everything that any history spends or gains back together, and there is a
    limit after the last step: no policy that keeps the limits ever takes it.
    """
    if problem.horizon is None:
        return None
    choices = []
    for d, name in enumerate(problem.resources):
        upper, lower = _per_step(problem, name)
        account = problem.account(name)  # a cost beyond an end counts only in part
        sides = ((1, upper, account.ceiling), (-1, lower, account.floor))
        if not _is_continuous(problem, d):
            choices += [(d, sign) for sign, side, end in sides if side[-1] is not None and end is None]
    if not choices:
        return None
    d, sign = rng.choice(choices)
    most = max(abs(amount_of(cost)) for cost in _costs(problem, d))
    step = most or Fraction(1)
    known = _largest_limit(problem, problem.resources[d]) + abs(_initial(problem, d))
    enough = 4 * (known + problem.horizon * most) // step + 4
    cost = sign * step * enough * rng.choice([1, 1, 3, 1000])
    model_row = rng.choice(problem.rows)
    keep = rng.random() < 0.5  # whether costs still differ, and stay independent of next states if they were

    def beyond(old: Cost) -> Fraction:
        return cost + amount_of(old) if keep else cost

    worse = [o._replace(cost=(*o.cost[:d], beyond(o.cost[d]), *o.cost[d + 1 :])) for o in model_row.outcomes]
    if rng.random() < 0.5:
        outcomes = tuple(worse)
    else:
        first, *others = model_row.outcomes
        p = _float(first.probability)
        tiny = p * 2.0**-40
        if tiny == 0 or Fraction(p - tiny) + Fraction(tiny) != Fraction(p):
            return None
        outcomes = (first._replace(probability=p - tiny), worse[0]._replace(probability=tiny), *others)
    size = max(abs(_float(row.reward)) for row in problem.rows) or 1.0
    reward = rng.choice([1e12, -1e12, size, 1e6 * size])
    if not math.isfinite(reward * problem.horizon):
        return None
    action = ("unsafe", 0)
    at = rng.randint(0, len(problem.rows))
    row = Row(model_row.state, action, reward, outcomes, model_row.steps)
    changed = problem.with_(rows=(*problem.rows[:at], row, *problem.rows[at:]))
    return _same(problem, changed, curves=False, rounding=bool(most))


@_register
def add_dominated_action(problem: Problem, rng: Random) -> Transformed | None:
    """Add an action that is a copy of another one in the same state with no larger reward, or a far smaller one.

    Replacing it by the action it copies never lowers the value.
    """
    row = rng.choice(problem.rows)
    reward = _float(row.reward)
    lower = rng.choice([-1e12, -1e12, -1e9, reward - abs(reward), reward])
    if not math.isfinite(lower * (problem.horizon or 100)):
        return None
    copy = row._replace(action=("dominated", 0), reward=min(lower, reward))
    at = rng.randint(0, len(problem.rows))
    return _same(problem, problem.with_(rows=(*problem.rows[:at], copy, *problem.rows[at:])))


@_register
def add_loose_limit(problem: Problem, rng: Random) -> Transformed | None:
    """Limit an unlimited resource, or the open side of another, by an amount that no history can pass.

    The sum of the largest costs over the horizon is never exceeded, so the limit cannot bind.
    """
    if problem.horizon is None:
        return None
    choices = []
    for d, name in enumerate(problem.resources):
        limit = problem.limits.get(name, Limit())
        if not _is_continuous(problem, d) and not limit.final:
            choices += [(d, side) for side in ("upper", "lower") if getattr(limit, side) is None]
    if not choices:
        return None
    d, side = rng.choice(choices)
    sign = 1 if side == "upper" else -1
    most = max(_ZERO, *(sign * amount_of(cost) for cost in _costs(problem, d)))
    loose = sign * (problem.horizon * most + Fraction(rng.choice(["0", "0", "1", "1/2", "1000000"])))
    loose += _initial(problem, d)
    name = problem.resources[d]
    limit = problem.limits.get(name, Limit())
    value = loose if rng.random() < 0.7 else tuple(rng.choice([loose, loose + sign]) for _ in range(problem.horizon))
    other = [x for x in _per_step(problem, name)[side == "upper"] if x is not None]
    if any(sign * x > sign * loose for x in other):
        return None  # the other limit lies beyond what can be reached, and intervals must not be empty
    changed = limit._replace(upper=value) if side == "upper" else limit._replace(lower=value)
    limits = {**problem.limits, name: changed}
    return _same(problem, problem.with_(limits=limits), rounding=False)


# ---------------------------------------------------------------------------------------------------------------------
# rewards


@_register
def scale_rewards(problem: Problem, rng: Random) -> Transformed | None:
    """Multiply all rewards by a power of two.

    The value of every policy is multiplied by it. Floats are multiplied without rounding as long as none overflows or
    becomes subnormal, so that every comparison of values comes out the same and bounds are multiplied exactly.
    """
    rewards = [abs(_float(x)) for x in (*(row.reward for row in problem.rows), *problem.end_reward.values()) if x]
    if not rewards:
        return None
    least = min(_float(o.probability) for row in problem.rows for o in row.outcomes)
    least = min(least, *(_float(p) for p in problem.first_states.values()), 1.0)
    depth = math.log2(min(rewards)) + (problem.horizon or 100) * math.log2(least)
    height = math.log2(max(rewards)) + math.log2((problem.horizon or 100) + 1)
    exponents = [k for k in range(-60, 61) if k and depth + min(k, 0) > -900 and height + max(k, 0) < 900]
    if not exponents:
        return None
    k = rng.choice([rng.choice(exponents), exponents[0], exponents[-1]])
    changed = problem.with_(
        rows=tuple(row._replace(reward=math.ldexp(_float(row.reward), k)) for row in problem.rows),
        end_reward={state: math.ldexp(_float(reward), k) for state, reward in problem.end_reward.items()},
    )
    return Transformed(changed, Relation(exponent=k, exact=True))


@_register
def shift_rewards(problem: Problem, rng: Random) -> Transformed | None:
    """Add a constant to all rewards of a problem in which no history ends early.

    Every history earns the constant once at each step: H times in all, or 1 / (1 - discount) times. The constant is
    such that the sums of floats are exact.
    """
    if problem.horizon is not None:
        if not _reached(problem)[1]:
            return None
        times = Fraction(problem.horizon)
        steps = problem.horizon
    else:
        acting = {row.state for row in problem.rows}
        if any(o.next_state not in acting for row in problem.rows for o in row.outcomes) or problem.start not in acting:
            return None
        times = 1 / (1 - _discount(problem))
        steps = math.ceil(times)
    size = max(abs(_float(row.reward)) for row in problem.rows) or 1.0
    power = 2.0 ** math.floor(math.log2(size))
    for shift in rng.sample([1.0, -1.0, power, -power, power / 2, 8 * power, 0.5, -16.0], 8):
        moved = [_float(row.reward) + shift for row in problem.rows]
        if all(
            Fraction(new) == Fraction(row.reward) + Fraction(shift)
            for new, row in zip(moved, problem.rows, strict=True)
        ):
            rows = tuple(row._replace(reward=new) for new, row in zip(moved, problem.rows, strict=True))
            lost = 2 * float(times) * steps * float(_deviation(problem)) * abs(shift)
            return Transformed(
                problem.with_(rows=rows), Relation(shift=Fraction(shift) * times, slack=_slack(problem) + lost)
            )
    return None


@_register
def shift_end_rewards(problem: Problem, rng: Random) -> Transformed | None:
    """Add a constant to what all ends are worth.

    Every history ends once and earns the constant once. It is such that the sums of floats are exact.
    """
    if problem.horizon is None:
        return None
    states = states_of(problem)
    ends = {state: _float(problem.end_reward.get(state, 0)) for state in states}
    size = reward_size(problem) / (problem.horizon + 1) or 1.0
    power = 2.0 ** math.floor(math.log2(size))
    for shift in rng.sample([1.0, -1.0, power, -power, power / 2, 8 * power, -16.0], 7):
        moved = {state: end + shift for state, end in ends.items()}
        if all(Fraction(moved[state]) == Fraction(ends[state]) + Fraction(shift) for state in states):
            lost = 2 * (problem.horizon + 1) * float(_deviation(problem)) * abs(shift)
            relation = Relation(shift=Fraction(shift), slack=_slack(problem) + lost)
            return Transformed(problem.with_(end_reward=moved), relation)
    return None


# ---------------------------------------------------------------------------------------------------------------------
# costs and limits


@_register
def scale_costs(problem: Problem, rng: Random) -> Transformed | None:
    """Multiply the costs and the limits of each resource by a positive rational of its own: a change of units."""
    factors: dict[str, Fraction] = {}
    for d, name in enumerate(problem.resources):
        if not _is_continuous(problem, d):
            factors[name] = rng.choice(
                [Fraction(2), Fraction(1, 3), Fraction(7, 2), Fraction(10**6), Fraction(1, 1024), Fraction(22, 7)]
            )
    if not factors:
        return None
    by_index = [factors.get(name) for name in problem.resources]

    def change(row: Row) -> list[Outcome]:
        return [
            o._replace(cost=tuple(c if f is None else f * amount_of(c) for c, f in zip(o.cost, by_index, strict=True)))
            for o in row.outcomes
        ]

    limits = dict(problem.limits)
    for name in factors.keys() & limits.keys():
        limits[name] = _map_limit(limits[name], factors[name].__mul__)
    accounts = dict(problem.accounts)
    for name in factors.keys() & accounts.keys():
        accounts[name] = _map_account(accounts[name], factors[name].__mul__)
    changed = _with_outcomes(problem.with_(limits=limits, accounts=accounts), change)
    return _same(problem, changed, spent={name: Spending(name, factor) for name, factor in factors.items()})


@_register
def enlarge_settled_costs(problem: Problem, rng: Random) -> Transformed | None:
    """Move costs further from the only side that is limited, where one of them alone decides that limits are kept.

    Let D be the most that costs toward the limit can add up to over the horizon. After a cost that leads away from all
    limits by D more than any history can be beyond them, no limit can be broken any more, however large it is.
    """
    if problem.horizon is None:
        return None
    factor, changed = rng.choice([2, 10, 1000]), False
    rows = problem.rows
    for d, name in enumerate(problem.resources):
        upper, lower = ([x for x in side if x is not None] for side in _per_step(problem, name))
        if _is_continuous(problem, d) or bool(upper) == bool(lower) or _saturates(problem, name):
            continue
        sign = 1 if lower else -1  # where amounts are safe
        values = [sign * amount_of(cost) for cost in _costs(problem, d)]
        enough = max(sign * x for x in (*upper, *lower)) + 2 * problem.horizon * max(_ZERO, -min(values))
        enough += abs(_initial(problem, d))
        if max(values) < enough or max(values) <= 0:
            continue
        changed = True

        def further(outcome: Outcome, d: int = d, sign: int = sign, enough: Fraction = enough) -> Outcome:
            cost = amount_of(outcome.cost[d])
            moved = factor * cost if sign * cost >= max(enough, _ZERO) else cost
            return outcome._replace(cost=(*outcome.cost[:d], moved, *outcome.cost[d + 1 :]))

        rows = tuple(row._replace(outcomes=tuple(map(further, row.outcomes))) for row in rows)
    if not changed:
        return None
    return _same(problem, problem.with_(rows=rows), rounding=False, curves=False, lifts=False)


@_register
def mirror(problem: Problem, rng: Random) -> Transformed | None:
    """Change the sign of the costs of some resources, and exchange upper and lower limits, floors and ceilings.

    Spending at most b is the same as gaining back at least -b. The most that was spent becomes minus the least. If both
    sides are limited, rounding costs down is no longer the mirror image of itself.
    """
    names = [
        name for d, name in enumerate(problem.resources) if all(support(c)[0] is not None for c in _costs(problem, d))
    ]
    if not names:
        return None
    chosen = set(rng.sample(names, rng.randint(1, len(names))))
    flip = [name in chosen for name in problem.resources]

    def negative(cost: Cost) -> Cost:
        return cost._replace(negate=not cost.negate) if isinstance(cost, Distribution) else -fraction_of(cost)

    def change(row: Row) -> list[Outcome]:
        return [
            o._replace(cost=tuple(negative(c) if f else c for c, f in zip(o.cost, flip, strict=True)))
            for o in row.outcomes
        ]

    limits = dict(problem.limits)
    for name in chosen & set(limits):
        turned = _map_limit(limits[name], lambda x: -x)
        limits[name] = turned._replace(upper=turned.lower, lower=turned.upper)
    one_sided = all(limit.upper is None or limit.lower is None for name, limit in limits.items() if name in chosen)
    accounts = dict(problem.accounts)
    for name in chosen & set(accounts):
        flipped = _map_account(accounts[name], lambda x: -x)
        accounts[name] = flipped._replace(floor=flipped.ceiling, ceiling=flipped.floor)
    return _same(
        problem,
        _with_outcomes(problem.with_(limits=limits, accounts=accounts), change),
        spent={name: Spending(name, Fraction(-1)) for name in chosen},
        rounding=one_sided,
    )


@_register
def split_resource(problem: Problem, rng: Random) -> Transformed | None:
    """Add two unlimited resources whose costs sum to those of another one, which keeps its limits.

    They are a breakdown of what is spent, and nothing depends on them.
    """
    choices = [d for d in range(len(problem.resources)) if not _is_continuous(problem, d)]
    if not choices:
        return None
    d = rng.choice(choices)
    shares = [Fraction(0), Fraction(1, 2), Fraction(1, 3), Fraction(1)]

    def change(row: Row) -> list[Outcome]:
        found = []
        for o in row.outcomes:
            cost = amount_of(o.cost[d])
            part = cost * rng.choice(shares)
            found.append(o._replace(cost=(part, *o.cost, cost - part)))
        return found

    first = _fresh(problem.resources, "part")
    second = _fresh((*problem.resources, first), "part")
    return _same(problem, _with_outcomes(problem.with_(resources=(first, *problem.resources, second)), change))


@_register
def duplicate_resource(problem: Problem, rng: Random) -> Transformed | None:
    """Add a resource whose costs and limits are a positive multiple of those of another one.

    Its limits are kept exactly when those of the other one are.
    """
    choices = [
        d for d, name in enumerate(problem.resources) if not _is_continuous(problem, d) and _is_limited(problem, name)
    ]
    if not choices:
        return None
    d = rng.choice(choices)
    original = problem.resources[d]
    factor = rng.choice([Fraction(1), Fraction(1), Fraction(1, 2), Fraction(3)])
    name = _fresh(problem.resources, "copy")

    def cost(o: Outcome) -> list[tuple[float, Cost]]:
        return [(_float(o.probability), factor * amount_of(o.cost[d]))]

    changed = _add_resource(problem, name, rng.randint(0, len(problem.resources)), cost)
    limits = {**problem.limits, name: _map_limit(problem.limits[original], lambda x: factor * x)}
    accounts = {**problem.accounts, name: _map_account(problem.account(original), lambda x: factor * x)}
    return _same(problem, changed.with_(limits=limits, accounts=accounts), copies={name: (original, factor)})


# ---------------------------------------------------------------------------------------------------------------------
# accounts, starts and ends


def _saturates(problem: Problem, name: str) -> bool:
    account = problem.account(name)
    return account.floor is not None or account.ceiling is not None


@_register
def shift_accounts(problem: Problem, rng: Random) -> Transformed | None:
    """Move the initial amount of each resource together with its limits, floor and ceiling.

    All amounts are moved alike. Shares of limits, which "relative" rounds to, are others.
    """
    if problem.horizon is None or not problem.resources:
        return None
    amounts: list[Fraction] = [_ZERO, Fraction(1), Fraction(-2), Fraction(1, 3), Fraction(1000)]
    shifts = {name: rng.choice(amounts) for name in problem.resources}
    if not any(shifts.values()):
        return None
    accounts, limits = {}, dict(problem.limits)
    for name, shift in shifts.items():
        accounts[name] = _map_account(problem.account(name), shift.__add__)
        if name in limits:
            limits[name] = _map_limit(limits[name], shift.__add__)
    spent = {name: Spending(name, shift=shift) for name, shift in shifts.items()}
    return _same(problem, problem.with_(accounts=accounts, limits=limits), spent=spent, rounding=False)


@_register
def add_loose_ends(problem: Problem, rng: Random) -> Transformed | None:
    """Give resources a floor and a ceiling beyond what any history can spend.

    The initial amount plus the least, and the greatest, costs of all steps is never passed, so nothing saturates there.
    """
    if problem.horizon is None:
        return None
    accounts = dict(problem.accounts)
    for d, name in enumerate(problem.resources):
        if _is_continuous(problem, d) or rng.random() < 0.3:
            continue
        account, costs = problem.account(name), [amount_of(cost) for cost in _costs(problem, d)]
        further = Fraction(rng.choice(["0", "0", "1", "1/2", "1000"]))
        lowest = _initial(problem, d) + problem.horizon * min(_ZERO, *costs) - further
        highest = _initial(problem, d) + problem.horizon * max(_ZERO, *costs) + further
        if account.floor is None and rng.random() < 0.7:
            account = account._replace(floor=lowest)
        if account.ceiling is None and rng.random() < 0.7:
            account = account._replace(ceiling=highest)
        accounts[name] = account
    if accounts == problem.accounts:
        return None
    return _same(problem, problem.with_(accounts=accounts), rounding=False)


@_register
def put_levels_in_states(problem: Problem, rng: Random) -> Transformed | None:
    """Make the levels of saturating resources part of the state; see `encodings.levels_in_states`."""
    if problem.horizon is None or not any(_saturates(problem, name) for name in problem.resources):
        return None
    if any(_is_continuous(problem, d) for d in range(len(problem.resources))):
        return None
    try:
        changed = levels_in_states(problem, 120)
    except TooManyLevels:
        return None
    origin = {state: state[0] for state in states_of(changed)}
    return _same(problem, changed, states=origin, rounding=False)


@_register
def begin_in_a_step(problem: Problem, rng: Random) -> Transformed | None:
    """Draw the first state and spend initial amounts in an extra first step; see `encodings.start_as_step`."""
    if problem.horizon is None or not {"start", "initial"} & set(problem.features):
        return None
    return _same(problem, start_as_step(problem), delay=1, rounding=False, curves=False)


@_register
def end_in_a_step(problem: Problem, rng: Random) -> Transformed | None:
    """Earn what ends are worth in an extra last step, with goals as a resource; see `encodings.ends_as_step`."""
    if problem.horizon is None or not {"end_reward", "goal"} & set(problem.features):
        return None
    return _same(problem, ends_as_step(problem), rounding=False, curves=False, lifts=False)


# ---------------------------------------------------------------------------------------------------------------------
# time


@_register
def unroll(problem: Problem, rng: Random) -> Transformed | None:
    """State every row once for each step at which it holds, with its outcomes in another order at each.

    The model at each step is the same. Without the other order equal steps would share one table again.
    """
    if problem.horizon is None or problem.horizon < 2:
        return None
    rows = []
    for row in problem.rows:
        for step in range(problem.horizon) if row.steps is None else row.steps:
            rows.append(row._replace(steps=(step,), outcomes=tuple(rng.sample(row.outcomes, len(row.outcomes)))))
    return _same(problem, problem.with_(rows=tuple(rows)))


@_register
def prefix_step(problem: Problem, rng: Random) -> Transformed | None:
    """Add a step at the beginning at which nothing is earned, spent or decided, with all limits one step later.

    The problem after that step is the original. The horizon differs, and with it the accuracy of rounded costs.
    """
    if problem.horizon is None:
        return None
    start, wait = ("before", 0), ("wait", 0)
    rows = [row if row.steps is None else row._replace(steps=tuple(s + 1 for s in row.steps)) for row in problem.rows]
    nothing: tuple[Cost, ...] = (_ZERO,) * len(problem.resources)
    first = tuple(Outcome(_float(p), state, nothing) for state, p in problem.first_states.items())
    rows.append(Row(start, wait, 0.0, first))
    terminal = tuple(
        (state, None if steps is None else tuple(s + 1 for s in steps)) for state, steps in problem.terminal
    )
    limits: dict[str, Limit] = {}
    for name, limit in problem.limits.items():
        if limit.final:
            limits[name] = limit
            continue
        sides: dict[str, Any] = {}
        for key, sign in (("upper", 1), ("lower", -1)):
            side = getattr(limit, key)
            if isinstance(side, tuple):
                sides[key] = (None, *side)
            elif side is not None and (
                sign * fraction_of(side) < sign * _initial(problem, problem.resources.index(name)) or rng.random() < 0.5
            ):
                sides[key] = (None, *[side] * problem.horizon)
            else:
                sides[key] = side
        limits[name] = Limit(**sides)
    changed = problem.with_(
        horizon=problem.horizon + 1, start=start, rows=tuple(rows), terminal=terminal, limits=limits
    )
    return _same(problem, changed, delay=1, rounding=False, curves=False)
