"""Validation: `build_model` checks the parts of a model and returns the `CMDP`. All constructors end here.

The checks run over whole arrays. Messages are built only for the first error found.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import ExactColumn
from solvent.core.loading import check_time, current_load
from solvent.errors import ModelError, did_you_mean, printable, quote
from solvent.model.budget import Budget, BudgetLike, read_budgets
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.consistency import MAX_TOTAL_REWARD, PROBABILITY_TOLERANCE
from solvent.model.distributions import CostDistribution
from solvent.model.ends import EndRewardLike, GoalLike, first_states, read_end_reward, read_must_end_in
from solvent.model.resources import Resource
from solvent.model.steps import StepSet

#: Number of sets of states kept to detect a cycle.
_MOST_KEPT = 10_000


@dataclass(frozen=True)
class Names:
    """Names of a model: its start, states, actions and resources, its title and its description."""

    start: Hashable | dict[Hashable, float]
    states: tuple[Hashable, ...]
    actions: tuple[Hashable, ...]
    resources: tuple[str, ...]
    name: str = ""
    description: str = ""


@dataclass(frozen=True)
class Accounts:
    """What a model says of its accounts and of the ends of episodes, as users state it.

    Attributes
    ----------
    resources : tuple of Resource
        Empty if no resource saturates.
    end_reward, must_end_in
        See `solvent.model.ends`.
    """

    resources: tuple[Resource, ...] = ()
    end_reward: EndRewardLike | None = None
    must_end_in: GoalLike | None = None


@dataclass(frozen=True)
class Rows:
    """Rows and outcomes in the layout of `CMDP`, before validation."""

    row_indptr: NDArray[np.int64]
    row_action: NDArray[np.int32]
    row_reward: NDArray[np.float64]
    outcome_indptr: NDArray[np.int64]
    probability: NDArray[np.float64]
    next_state: NDArray[np.int32]
    cost: tuple[ExactColumn, ...]
    distributions: tuple[CostDistribution, ...] = ()
    distribution_DO: NDArray[np.int32] | None = None


def build_model(
    names: Names,
    rows: Rows,
    *,
    horizon: int,
    table_of_step: NDArray[np.int32],
    budget: BudgetLike | None = None,
    terminal_at: Mapping[int, StepSet] | None = None,
    accounts: Accounts | None = None,
) -> CMDP:
    """Check the parts of a model, drop outcomes of probability zero, normalize probabilities, and return the model.

    Parameters
    ----------
    names : Names
    rows : Rows
        Rows of all tables.
    horizon : int
        Number of steps H.
    table_of_step : ndarray of int32, shape (H,)
        Table of each step.
    budget : number, Budget, or dict of these by resource, optional
        Default budget.
    terminal_at : mapping of state position to StepSet, optional
        Steps at which a state is declared terminal although it has actions at other steps.
    accounts : Accounts, optional
        Saturation of resources, end rewards and goals.

    Raises
    ------
    ModelError
        If probabilities are negative, NaN or do not sum to one, rewards are not finite, a name does not exist, or a
        state can be reached at a step at which it has no action and is not declared terminal.
    """
    for start in first_states(names.start):
        if start not in names.states:
            raise ModelError("start", "one of the model's states", quote(start), did_you_mean(start, names.states))
    accounts = accounts or Accounts()
    end_reward = read_end_reward(accounts.end_reward, names.states)
    if not len(rows.row_action):
        raise ModelError("model", "at least one row", "none")
    _check_rewards(names, rows, horizon, end_reward)
    rows = _check_probabilities(names, replace(rows, row_reward=rows.row_reward + 0.0))  # -0.0 is 0.0
    rows, table_of_step = _share_tables(rows, table_of_step, len(names.states))
    rows = _renumber_distributions(rows)
    budgets: dict[str, Budget] | None = None
    if budget is not None:
        budgets = read_budgets(budget, names.resources, horizon)
    model = CMDP(
        horizon=horizon,
        start=names.start,
        states=names.states,
        actions=names.actions,
        resources=names.resources,
        table_of_step=table_of_step,
        budget=budgets,
        name=names.name,
        description=names.description,
        floors=tuple(each.floor for each in accounts.resources),
        ceilings=tuple(each.ceiling for each in accounts.resources),
        end_reward=end_reward,
        may_end=read_must_end_in(accounts.must_end_in, names.states),
        **{key: getattr(rows, key) for key in Rows.__dataclass_fields__},
    )
    _check_stranded(model, terminal_at or {})
    return model


def _place(names: Names, rows: Rows, row: int) -> str:
    state = (int(np.searchsorted(rows.row_indptr, row, side="right")) - 1) % len(names.states)
    return printable(f"{names.states[state]}/{names.actions[rows.row_action[row]]}")


def _check_rewards(names: Names, rows: Rows, horizon: int, end_reward: NDArray[np.float64] | None) -> None:
    if end_reward is not None and float(np.abs(end_reward).max()) > MAX_TOTAL_REWARD:
        at = int(np.argmax(np.abs(end_reward)))
        expected = f"at most {MAX_TOTAL_REWARD:.3g} in size, so that sums of rewards fit 64-bit floats"
        raise ModelError(f"end_reward of {quote(names.states[at])}", expected, str(end_reward[at]))
    bad = np.flatnonzero(~np.isfinite(rows.row_reward))
    if len(bad):
        where = f"{_place(names, rows, int(bad[0]))}, reward"
        raise ModelError(where, "a finite number", str(rows.row_reward[bad[0]]))
    largest = int(np.argmax(np.abs(rows.row_reward)))
    if abs(float(rows.row_reward[largest])) > MAX_TOTAL_REWARD / horizon:
        where = f"{_place(names, rows, largest)}, reward"
        most = MAX_TOTAL_REWARD / horizon
        expected = f"at most {most:.3g} in size, so that sums over {horizon} steps fit 64-bit floats"
        raise ModelError(where, expected, str(rows.row_reward[largest]))


def _check_probabilities(names: Names, rows: Rows) -> Rows:
    p, counts = rows.probability, np.diff(rows.outcome_indptr)
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        raise ModelError(_place(names, rows, int(empty[0])), "at least one outcome", "none")
    row_of = np.repeat(np.arange(len(counts)), counts)
    bad = np.flatnonzero(~((p >= 0) & (p <= 2)))  # the sum may exceed 1 slightly; it is checked below
    if len(bad):
        first = int(bad[0])
        row = int(row_of[first])
        where = f"{_place(names, rows, row)}, outcome {first - int(rows.outcome_indptr[row])}, probability"
        raise ModelError(where, "a number from 0 to 1", str(p[first]))
    totals = np.add.reduceat(p, rows.outcome_indptr[:-1])
    bad = np.flatnonzero(np.abs(totals - 1) > PROBABILITY_TOLERANCE)
    if len(bad):
        where = f"{_place(names, rows, int(bad[0]))}, probabilities"
        raise ModelError(where, f"a sum of 1 (to within {PROBABILITY_TOLERANCE})", repr(float(totals[bad[0]])))
    kept = np.flatnonzero(p > 0)
    counts = np.bincount(row_of[kept], minlength=len(counts))
    # rows that sum to one up to rounding are not changed, so that a saved model loads unchanged
    off = np.abs(totals - 1) > 4 * np.finfo(float).eps * (counts + 2)
    if off.any():
        # never below the smallest double: a possible outcome must not become impossible
        p = np.where(off[row_of] & (p > 0), np.maximum(p / totals[row_of], 5e-324), p)
    if len(kept) == len(p):
        return replace(rows, probability=p)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return replace(
        rows,
        outcome_indptr=indptr.astype(np.int64),
        probability=p[kept],
        next_state=rows.next_state[kept],
        cost=tuple(column.take(kept) for column in rows.cost),
        distribution_DO=None if rows.distribution_DO is None else np.ascontiguousarray(rows.distribution_DO[:, kept]),
    )


def _share_tables(rows: Rows, table_of_step: NDArray[np.int32], n_states: int) -> tuple[Rows, NDArray[np.int32]]:
    """Merge equal tables, and number them in the order in which the steps use them."""
    n_tables = (len(rows.row_indptr) - 1) // n_states
    if n_tables == 1:
        return rows, table_of_step
    row_at = rows.row_indptr[::n_states]
    outcome_at = rows.outcome_indptr[row_at]
    distributions = [] if rows.distribution_DO is None else list(rows.distribution_DO)
    by_outcome = [rows.probability, rows.next_state, *(column.ticks for column in rows.cost), *distributions]

    def content(table: int) -> Hashable:
        r, o = slice(row_at[table], row_at[table + 1]), slice(outcome_at[table], outcome_at[table + 1])
        states = np.diff(rows.row_indptr[table * n_states : (table + 1) * n_states + 1])
        lengths = np.diff(rows.outcome_indptr[row_at[table] : row_at[table + 1] + 1])
        plain = [states, lengths, rows.row_action[r], rows.row_reward[r]]
        return tuple(
            tuple(part.tolist()) if part.dtype == object else part.tobytes()
            for part in (*plain, *(column[o] for column in by_outcome))
        )

    known: dict[Hashable, int] = {}
    first: list[int] = []
    number: dict[int, int] = {}
    for table in table_of_step.tolist():
        if table not in number:
            number[table] = known.setdefault(content(table), len(known))
            if number[table] == len(first):
                first.append(table)
    if first == list(range(n_tables)):
        return rows, table_of_step
    r = np.concatenate([np.arange(row_at[t], row_at[t + 1]) for t in first])
    o = np.concatenate([np.arange(outcome_at[t], outcome_at[t + 1]) for t in first])
    per_state = np.concatenate([np.diff(rows.row_indptr[t * n_states : (t + 1) * n_states + 1]) for t in first])
    kept = Rows(
        row_indptr=np.concatenate([[0], np.cumsum(per_state)]).astype(np.int64),
        row_action=rows.row_action[r],
        row_reward=rows.row_reward[r],
        outcome_indptr=np.concatenate([[0], np.cumsum(np.diff(rows.outcome_indptr)[r])]).astype(np.int64),
        probability=rows.probability[o],
        next_state=rows.next_state[o],
        cost=tuple(column.take(o) for column in rows.cost),
        distributions=rows.distributions,
        distribution_DO=None if rows.distribution_DO is None else np.ascontiguousarray(rows.distribution_DO[:, o]),
    )
    return kept, np.array([number[table] for table in table_of_step.tolist()], np.int32)


def _renumber_distributions(rows: Rows) -> Rows:
    """Renumber the distributions in the order in which outcomes use them, and drop unused ones."""
    if rows.distribution_DO is None:
        return replace(rows, distributions=())
    used, first = np.unique(rows.distribution_DO, return_index=True)
    order = used[np.argsort(first)]
    order = order[order != NO_DISTRIBUTION]
    if not len(order):
        return replace(rows, distributions=(), distribution_DO=None)
    number = np.full(len(rows.distributions) + 1, NO_DISTRIBUTION, np.int32)
    number[order] = np.arange(len(order))
    distributions = tuple(rows.distributions[i] for i in order.tolist())
    return replace(rows, distributions=distributions, distribution_DO=number[rows.distribution_DO])


def _check_stranded(model: CMDP, terminal_at: Mapping[int, StepSet]) -> None:
    """Refuse a state that can be reached at a step at which it has no action, although it has some at other steps."""
    if model.n_tables == 1:
        return
    has_rows = np.diff(model.row_indptr).reshape(model.n_tables, model.n_states) > 0
    partial = has_rows.any(0) & ~has_rows.all(0)
    if not partial.any():
        return
    reached = np.zeros(model.n_states, bool)
    reached[model.start_states] = True
    declared = {state: terminal_at[state] for state in np.flatnonzero(partial).tolist() if state in terminal_at}
    bounds = {0, model.horizon, *(np.flatnonzero(np.diff(model.table_of_step)) + 1).tolist()}
    bounds.update(end for steps in declared.values() for each in steps.ranges for end in (each.start, each.stop))
    for first, after in itertools.pairwise(sorted(bounds)):
        stranded = partial & ~has_rows[model.table_of_step[first]]
        for state, steps in declared.items():
            if first in steps:
                stranded[state] = False
        reached = _follow(model, range(first, after), reached, stranded)


def _follow(model: CMDP, steps: range, reached: NDArray[np.bool_], stranded: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the states that can be reached after steps that share a table; refuse stranded states on the way.

    When a set of reached states occurs again, the sets since its first occurrence repeat: whole cycles are skipped.
    """
    table = int(model.table_of_step[steps.start])
    seen: dict[bytes, int] = {}
    step = steps.start
    while step < steps.stop:
        for state in np.flatnonzero(reached & stranded).tolist():
            _refuse_stranded(model, step, state)
        key = np.packbits(reached).tobytes()
        if key in seen:
            step += (steps.stop - 1 - step) // (step - seen[key]) * (step - seen[key])
            seen = {}
        elif len(seen) < _MOST_KEPT:
            seen[key] = step
        reached = _successors(model, table, reached)
        step += 1
        if not step % 1024:
            check_time()
    return reached


def _refuse_stranded(model: CMDP, step: int, state: int) -> NoReturn:
    has_rows = np.diff(model.row_indptr).reshape(model.n_tables, model.n_states)[:, state] > 0
    actions_at = np.flatnonzero(has_rows[model.table_of_step])[:6].tolist()
    name = quote(model.states[state])
    hint = f"if the episode ends there, declare it terminal: terminal({name}, steps=[{step}])"
    if current_load() is not None:
        hint = f"if the episode ends there, add to terminal: {{state: {name}, steps: [{step}]}}"
    raise ModelError(
        f"state {name}",
        f"an action at step {step}, where it can be reached",
        f"actions only at steps {', '.join(map(str, actions_at))}",
        hint,
    )


def _successors(model: CMDP, table: int, reached: NDArray[np.bool_]) -> NDArray[np.bool_]:
    first = table * model.n_states
    starts = model.outcome_indptr[model.row_indptr[first : first + model.n_states + 1]]
    lengths = np.diff(starts)
    live = np.repeat(reached, lengths)
    after = np.zeros(model.n_states, bool)
    after[model.next_state[starts[0] : starts[-1]][live]] = True
    return after
