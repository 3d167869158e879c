"""Greedy shrinking: drop parts of a failing problem and simplify its numbers while the failure stays.

A candidate counts only if it can still be built and the same comparison fails in the same call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from fractions import Fraction
from typing import Any

from fuzz.generate import fraction_of
from fuzz.problems import Account, Cost, Distribution, Limit, Number, Problem, Row, Side

Keeps = Callable[[Problem], bool]


def shrink(problem: Problem, keeps: Keeps, seconds: float = 20.0) -> Problem:
    """Return a smaller problem for which `keeps` still holds.

    Parameters
    ----------
    problem : Problem
    keeps : callable
        Whether a problem still fails; it must not raise.
    seconds : float
        Stop after this time.
    """
    until = time.monotonic() + seconds
    before = None
    while before != problem:
        before = problem
        for candidates in (
            _fewer_rows,
            _fewer_steps,
            _fewer_features,
            _fewer_resources,
            _fewer_outcomes,
            _simpler_numbers,
        ):
            changed = True
            while changed:
                changed = False
                for candidate in candidates(problem):
                    if time.monotonic() > until:
                        return problem
                    if candidate != problem and keeps(candidate):
                        problem, changed = candidate, True
                        break
    return problem


def _fewer_rows(problem: Problem) -> Iterator[Problem]:
    rows = problem.rows
    for size in (len(rows) // 2, len(rows) // 4, 1):
        if size:
            for i in range(0, len(rows), size):
                yield from _without_rows(problem, rows[:i] + rows[i + size :])


def _fewer_steps(problem: Problem) -> Iterator[Problem]:
    if problem.horizon is not None and problem.horizon > 1:
        for horizon in dict.fromkeys((1, problem.horizon // 2, problem.horizon - 1)):
            yield from _shorter(problem, horizon)


def _fewer_features(problem: Problem) -> Iterator[Problem]:
    """Yield the problem without some of its floors, ceilings, initial amounts, end rewards, goals and first states."""
    if problem.goals is not None:
        yield problem.with_(goals=None)
        if len(problem.goals) > 1:
            yield from (problem.with_(goals=(goal,)) for goal in problem.goals)
    if problem.end_reward:
        yield problem.with_(end_reward={})
        for state, reward in problem.end_reward.items():
            rest = {other: worth for other, worth in problem.end_reward.items() if other != state}
            yield problem.with_(end_reward=rest)
            yield from (problem.with_(end_reward={**rest, state: simpler}) for simpler in _numbers(reward))
    if isinstance(problem.start, Mapping):
        yield from (problem.with_(start=state) for state in problem.start)
        if len(problem.start) > 2:
            for state in problem.start:
                left = [other for other in problem.start if other != state]
                yield problem.with_(start=dict.fromkeys(left, Fraction(1, len(left))))
        even = dict.fromkeys(problem.start, Fraction(1, len(problem.start)))
        if even != problem.start:
            yield problem.with_(start=even)
    if problem.accounts:
        yield problem.with_(accounts={})
    for name, account in problem.accounts.items():
        yield problem.with_(accounts={key: each for key, each in problem.accounts.items() if key != name})
        if account.floor is not None:
            for floor in (None, *_numbers(account.floor)):
                yield _with_account(problem, name, account._replace(floor=floor))
        if account.ceiling is not None:
            for ceiling in (None, *_numbers(account.ceiling)):
                yield _with_account(problem, name, account._replace(ceiling=ceiling))
        yield from (
            _with_account(problem, name, account._replace(initial=simpler)) for simpler in _numbers(account.initial)
        )


def _with_account(problem: Problem, name: str, account: Account) -> Problem:
    return problem.with_(accounts={**problem.accounts, name: account})


def _fewer_resources(problem: Problem) -> Iterator[Problem]:
    for d in range(len(problem.resources)):
        yield _without_resource(problem, d)
    for name in problem.limits:
        yield problem.with_(limits={k: v for k, v in problem.limits.items() if k != name})
        yield from (_with_limit(problem, name, limit) for limit in _limits(problem.limits[name]))
    if problem.terminal:
        yield problem.with_(terminal=())


def _fewer_outcomes(problem: Problem) -> Iterator[Problem]:
    yield from _with_rows(problem, _fewer)


def _simpler_numbers(problem: Problem) -> Iterator[Problem]:
    yield from _with_rows(problem, _simpler)


def _with_rows(problem: Problem, variants: Callable[[Row], Iterator[Row]]) -> Iterator[Problem]:
    rows = problem.rows
    for i, row in enumerate(rows):
        yield from (problem.with_(rows=(*rows[:i], other, *rows[i + 1 :])) for other in variants(row))


def _without_rows(problem: Problem, rows: tuple[Row, ...]) -> Iterator[Problem]:
    """Yield the problem with fewer rows; states left without any are terminal, or lead back to the start."""
    if not rows:
        return
    acting = {row.state for row in rows}
    reached = {o.next_state for row in rows for o in row.outcomes} | {*problem.first_states}
    reached |= {*(problem.goals or ())} & {state for state, _ in problem.terminal}
    problem = _about(problem, reached | acting)
    if problem.goals == ():
        return
    declared = tuple((state, steps) for state, steps in problem.terminal if state in reached)
    over = {state for state, _ in declared}
    lost = sorted(reached - acting - over, key=repr)
    yield problem.with_(rows=rows, terminal=(*declared, *((state, None) for state in lost)))
    first = next(iter(problem.first_states))
    if lost and first in acting and not {*problem.first_states} & {*lost}:
        back = tuple(
            row._replace(
                outcomes=tuple(o._replace(next_state=first) if o.next_state in lost else o for o in row.outcomes)
            )
            for row in rows
        )
        kept = _about(problem, (reached | acting) - {*lost})
        if kept.goals != ():
            yield kept.with_(rows=back, terminal=declared)


def _about(problem: Problem, states: Collection[Any]) -> Problem:
    """Return the problem with end rewards and goals of some states only."""
    ends = {state: reward for state, reward in problem.end_reward.items() if state in states}
    goals = None if problem.goals is None else tuple(state for state in problem.goals if state in states)
    return problem.with_(end_reward=ends, goals=goals)


def _shorter(problem: Problem, horizon: int) -> Iterator[Problem]:
    if horizon < 1:
        return
    rows = []
    for row in problem.rows:
        steps = None if row.steps is None else tuple(step for step in row.steps if step < horizon)
        if steps is None or steps:
            rows.append(row._replace(steps=steps))
    terminal: list[tuple[Any, tuple[int, ...] | None]] = []
    for state, over in problem.terminal:
        kept = None if over is None else tuple(step for step in over if step < horizon)
        if kept is None or kept:
            terminal.append((state, kept))
    limits = {}
    for name, limit in problem.limits.items():
        upper, lower = (side[:horizon] if isinstance(side, tuple) else side for side in (limit.upper, limit.lower))
        limits[name] = limit._replace(upper=upper, lower=lower)
    yield problem.with_(horizon=horizon, rows=tuple(rows), terminal=tuple(terminal), limits=limits)


def _without_resource(problem: Problem, d: int) -> Problem:
    rows = tuple(
        row._replace(outcomes=tuple(o._replace(cost=o.cost[:d] + o.cost[d + 1 :]) for o in row.outcomes))
        for row in problem.rows
    )
    name = problem.resources[d]
    limits = {key: limit for key, limit in problem.limits.items() if key != name}
    accounts = {key: account for key, account in problem.accounts.items() if key != name}
    names = problem.resources[:d] + problem.resources[d + 1 :]
    return problem.with_(resources=names, rows=rows, limits=limits, accounts=accounts)


def _with_limit(problem: Problem, name: str, limit: Limit) -> Problem:
    return problem.with_(limits={**problem.limits, name: limit})


def _limits(limit: Limit) -> Iterator[Limit]:
    if limit.upper is not None and limit.lower is not None:
        yield limit._replace(upper=None)
        yield limit._replace(lower=None)
    if limit.final:
        yield limit._replace(final=False)
    yield from (limit._replace(upper=side) for side in _sides(limit.upper))
    yield from (limit._replace(lower=side) for side in _sides(limit.lower))


def _sides(side: Side) -> Iterator[Number]:
    """Yield simpler limits for all steps."""
    if isinstance(side, tuple):
        yield from dict.fromkeys(x for x in side if x is not None)
    elif side is not None:
        yield from _numbers(side)


def _fewer(row: Row) -> Iterator[Row]:
    outcomes = row.outcomes
    if row.steps is not None:
        yield row._replace(steps=None)
    if len(outcomes) > 1:
        for i in range(len(outcomes)):
            kept = outcomes[:i] + outcomes[i + 1 :]
            total = sum(fraction_of(o.probability) for o in kept)
            if total:
                even = tuple(o._replace(probability=Fraction(1, len(kept))) for o in kept)
                yield row._replace(outcomes=even)
                yield row._replace(outcomes=tuple(o._replace(probability=_scaled(o.probability, total)) for o in kept))
        even = tuple(o._replace(probability=Fraction(1, len(outcomes))) for o in outcomes)
        if even != outcomes:
            yield row._replace(outcomes=even)


def _simpler(row: Row) -> Iterator[Row]:
    outcomes = row.outcomes
    for reward in _numbers(row.reward):
        yield row._replace(reward=reward)
    for i, outcome in enumerate(outcomes):
        for d, cost in enumerate(outcome.cost):
            for simpler in _costs(cost):
                changed = outcome._replace(cost=(*outcome.cost[:d], simpler, *outcome.cost[d + 1 :]))
                yield row._replace(outcomes=(*outcomes[:i], changed, *outcomes[i + 1 :]))


def _scaled(probability: Number, total: Fraction) -> Number:
    return float(fraction_of(probability) / total)


def _costs(cost: Cost) -> Iterator[Cost]:
    if isinstance(cost, Distribution):
        yield from (0, 1)
        if cost.name != "uniform":
            ends = dict(cost.parameters)
            if "low" in ends and "high" in ends:
                yield Distribution("uniform", (("low", ends["low"]), ("high", ends["high"])), cost.negate)
        return
    yield from _numbers(cost)


def _size(number: Number) -> int:
    """Return how complicated a number is: 0, 1 and -1 are the simplest, then those of few digits."""
    value = fraction_of(number)
    return [0, 1, -1].index(int(value)) if value in (0, 1, -1) else 3 + len(repr(number))


def _numbers(number: Number) -> Iterator[Number]:
    """Yield simpler numbers near or instead of one."""
    value = fraction_of(number)
    candidates: list[Number] = [0, 1, -1]
    if abs(value) < 10**300:
        candidates += [round(value), float(f"{float(value):.2g}"), int(value) // 2]
    yield from (simpler for simpler in candidates if _size(simpler) < _size(number))


_CANDIDATES = (_fewer_rows, _fewer_steps, _fewer_features, _fewer_resources, _fewer_outcomes, _simpler_numbers)
