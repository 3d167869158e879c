"""Encodings: starts, ends and saturation said in the words of plain models, with extra steps, states and resources.

A plain model has one first state, resources that begin at 0 and do not saturate, and ends that are worth nothing and
are allowed everywhere. Each encoding removes some features and keeps the optimum:

    start_as_step       an extra first step draws the first state and spends the initial amounts
    ends_as_step        an extra action ends the episode, and earns what the end is worth
    the same            where it must not end, that action spends 2 of an extra resource that is limited to 1
    levels_in_states    a state is (state, levels); costs are the differences between levels

They share no code with the solvers or the oracles, so that `fuzz.oracles` can be compared with plain solvers on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from fuzz.generate import amount_of, fraction_of
from fuzz.problems import Account, Limit, Number, Outcome, Problem, Row, Side

#: The state before the first one, the state after the last one, and the actions that lead from and to them.
BEFORE, BEGIN, AFTER, END = ("before", "all"), ("begin", "all"), ("after", "all"), ("end", "all")


class TooManyLevels(Exception):  # noqa: N818
    """The encoding would be too large."""


def _steps(row: Row, horizon: int) -> tuple[int, ...]:
    return tuple(range(horizon)) if row.steps is None else row.steps


def states_of(problem: Problem) -> tuple[Any, ...]:
    """Return all states of a problem."""
    named = [*problem.first_states, *(row.state for row in problem.rows)]
    named += [o.next_state for row in problem.rows for o in row.outcomes]
    named += [state for state, _ in problem.terminal]
    return tuple(dict.fromkeys(named))


def _per_step(limit: Limit, horizon: int) -> tuple[tuple[Number | None, ...], tuple[Number | None, ...]]:
    def side(given: Side) -> tuple[Number | None, ...]:
        if isinstance(given, tuple):
            return given
        return (*[None] * (horizon - 1), given) if limit.final else (given,) * horizon

    return side(limit.upper), side(limit.lower)


def _padded(problem: Problem, before: int, after: int) -> dict[str, Limit]:
    """Return the limits with steps without limits around them."""
    assert problem.horizon is not None
    found = {}
    for name, limit in problem.limits.items():
        upper, lower = _per_step(limit, problem.horizon)
        first, last = (None,) * before, (None,) * after
        found[name] = Limit(upper=(*first, *upper, *last), lower=(*first, *lower, *last))
    return found


def start_as_step(problem: Problem) -> Problem:
    """Return the problem with an extra first step, in which initial amounts are spent and the first state is drawn.

    Limits are one step later, as none holds before the first step. Only resources that do not saturate have their
    initial amounts spent; a level between floor and ceiling would need a cost beyond them.
    """
    assert problem.horizon is not None
    moved, kept = [], {}
    for name in problem.resources:
        account = problem.account(name)
        saturates = account.floor is not None or account.ceiling is not None
        moved.append(Fraction(0) if saturates else fraction_of(account.initial))
        if saturates:
            kept[name] = account
    rows = [row if row.steps is None else row._replace(steps=tuple(s + 1 for s in row.steps)) for row in problem.rows]
    first = tuple(Outcome(p, state, tuple(moved)) for state, p in problem.first_states.items())
    rows.append(Row(BEFORE, BEGIN, 0, first))
    over = tuple((state, None if steps is None else tuple(s + 1 for s in steps)) for state, steps in problem.terminal)
    return problem.with_(
        horizon=problem.horizon + 1,
        start=BEFORE,
        rows=tuple(rows),
        terminal=over,
        limits=_padded(problem, 1, 0),
        accounts=kept,
    )


def ends_as_step(problem: Problem) -> Problem:
    """Return the problem with an action that ends the episode, where it ended before, and earns what that is worth.

    Where the episode must not end, the action spends 2 of an extra resource that is limited to 1.
    """
    horizon = problem.horizon
    assert horizon is not None
    acting: dict[Any, set[int]] = {}
    for row in problem.rows:
        acting.setdefault(row.state, set()).update(_steps(row, horizon))
    astray = next(name for i in range(len(problem.resources) + 1) if (name := f"astray{i}") not in problem.resources)
    rows = []
    for row in problem.rows:
        outcomes = tuple(o._replace(cost=(*o.cost, 0)) for o in row.outcomes)
        rows.append(row._replace(outcomes=outcomes, steps=_steps(row, horizon)))
    for state in states_of(problem):
        ends = tuple(step for step in range(horizon + 1) if step not in acting.get(state, ()))
        missed = problem.goals is not None and state not in problem.goals
        cost = (*[0] * len(problem.resources), 2 * missed)
        rows.append(Row(state, END, problem.end_reward.get(state, 0), (Outcome(1, AFTER, cost),), ends))
    limits = _padded(problem, 0, 1) | ({astray: Limit(upper=1)} if problem.goals is not None else {})
    return problem.with_(
        horizon=horizon + 1,
        resources=(*problem.resources, astray),
        rows=tuple(rows),
        terminal=((AFTER, None),),
        limits=limits,
        end_reward={},
        goals=None,
    )


def clamped(account: Account, amount: Fraction) -> Fraction:
    """Return an amount moved to the floor or the ceiling if it lies beyond."""
    if account.floor is not None and amount < fraction_of(account.floor):
        return fraction_of(account.floor)
    if account.ceiling is not None and amount > fraction_of(account.ceiling):
        return fraction_of(account.ceiling)
    return amount


def levels_in_states(problem: Problem, cap: int = 400) -> Problem:
    """Return the problem with states (state, levels): one level for each resource that saturates.

    The cost of an outcome is the difference between the levels after and before it, so nothing saturates any more.
    Resources keep their initial amounts. Only nodes that can be reached, limits aside, have rows.

    Raises
    ------
    TooManyLevels
        If there are more than `cap` pairs of a state and levels at the steps together.
    """
    horizon = problem.horizon
    assert horizon is not None
    accounts = [problem.account(name) for name in problem.resources]
    wet = [d for d, account in enumerate(accounts) if account.floor is not None or account.ceiling is not None]
    full = tuple(fraction_of(accounts[d].initial) for d in wet)
    by_state: dict[Any, list[Row]] = {}
    for row in problem.rows:
        by_state.setdefault(row.state, []).append(row)

    def outcomes(levels: tuple[Fraction, ...], row: Row) -> Iterator[Outcome]:
        for o in row.outcomes:
            after = tuple(clamped(accounts[d], x + amount_of(o.cost[d])) for d, x in zip(wet, levels, strict=True))
            cost = list(o.cost)
            for d, x, y in zip(wet, levels, after, strict=True):
                cost[d] = y - x
            yield Outcome(o.probability, (o.next_state, after), tuple(cost))

    rows: dict[tuple[Any, tuple[Fraction, ...], int], list[int]] = {}
    known: dict[tuple[Any, tuple[Fraction, ...], int], Row] = {}
    current = {(state, full) for state in problem.first_states}
    every = dict.fromkeys(current)
    met = 0
    for step in range(horizon):
        following = {}
        for state, levels in current:
            for i, row in enumerate(by_state.get(state, ())):
                if step not in _steps(row, horizon):
                    continue
                key = state, levels, i
                if key not in known:
                    known[key] = row._replace(state=(state, levels), outcomes=tuple(outcomes(levels, row)))
                rows.setdefault(key, []).append(step)
                following.update(dict.fromkeys(o.next_state for o in known[key].outcomes if fraction_of(o.probability)))
        met += len(current)
        if met > cap:
            raise TooManyLevels(f"more than {cap}")
        current = set(following)
        every |= following
    # outcomes of probability zero lead to states that are never met
    every |= dict.fromkeys(o.next_state for row in known.values() for o in row.outcomes)
    made = [known[key]._replace(steps=tuple(steps)) for key, steps in rows.items()]
    acting: dict[Any, set[int]] = {}
    for row in made:
        acting.setdefault(row.state, set()).update(row.steps or ())
    over: list[tuple[Any, tuple[int, ...] | None]] = []
    for state in every:
        idle = tuple(step for step in range(horizon) if step not in acting.get(state, ()))
        if idle:
            over.append((state, None if len(idle) == horizon else idle))
    start = {(state, full): p for state, p in problem.first_states.items()}
    single = not isinstance(problem.start, Mapping)
    goals = None if problem.goals is None else tuple(state for state in every if state[0] in problem.goals)
    unmet = () if goals != () else (("unmet", "goal"),)
    return problem.with_(
        start=(problem.start, full) if single else start,
        rows=tuple(made),
        terminal=(*over, *((state, None) for state in unmet)),
        accounts={name: Account(initial=each.initial) for name, each in problem.accounts.items()},
        end_reward={state: problem.end_reward[state[0]] for state in every if state[0] in problem.end_reward},
        goals=goals or unmet if goals is not None else None,
    )


def plain(problem: Problem, cap: int = 400) -> Problem:
    """Return a plain problem with the same optimum.

    Raises
    ------
    TooManyLevels
        If there are too many levels for states of their own.
    """
    features = problem.features
    if {"floor", "ceiling"} & set(features):
        problem = levels_in_states(problem, cap)
    if {"end_reward", "goal"} & set(features):
        problem = ends_as_step(problem)
    if {"start", "initial"} & set(features):
        problem = start_as_step(problem)
    return problem
