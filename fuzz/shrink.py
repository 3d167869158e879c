"""Greedy shrinking: drop parts of a failing problem and simplify its numbers while the failure stays.

A candidate counts only if it can still be built and the same comparison fails in the same call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from fuzz.generate import fraction_of
from fuzz.problems import Cost, Distribution, Limit, Number, Problem, Row, Side

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
        for candidates in (_fewer_rows, _fewer_steps, _fewer_resources, _fewer_outcomes, _simpler_numbers):
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
    reached = {o.next_state for row in rows for o in row.outcomes} | {problem.start}
    declared = tuple((state, steps) for state, steps in problem.terminal if state in reached)
    over = {state for state, _ in declared}
    lost = sorted(reached - acting - over, key=repr)
    yield problem.with_(rows=rows, terminal=(*declared, *((state, None) for state in lost)))
    if lost and problem.start in acting:
        back = tuple(
            row._replace(
                outcomes=tuple(
                    o._replace(next_state=problem.start) if o.next_state in lost else o for o in row.outcomes
                )
            )
            for row in rows
        )
        yield problem.with_(rows=back, terminal=declared)


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
    return problem.with_(resources=problem.resources[:d] + problem.resources[d + 1 :], rows=rows, limits=limits)


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
