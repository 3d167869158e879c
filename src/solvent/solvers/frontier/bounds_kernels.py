"""Kernel for bounds on the amount left at each step and state.

For one resource with limits on one side, only the largest and the smallest cost of a row for each next state matter, so
outcomes are joined into edges first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.jit import jit


class Ranges(NamedTuple):
    """Bounds on the amount left; int64 arrays of shape (H, S) or, for `safe`, (H + 1, S).

    Attributes
    ----------
    safe : ndarray
        The least amount with which all limits can be kept.
    highest : ndarray
        The most that can be left on arrival if only safe rows are taken; minus infinity where nothing leads.
    need, top : ndarray
        Range of amounts for which values differ; 0 and -1 where there are none. `need` is the least safe amount that
        can be left, and no policy can break a limit from `top` on, unless `top` is the most that can be left.
    """

    safe: NDArray[np.int64]
    highest: NDArray[np.int64]
    need: NDArray[np.int64]
    top: NDArray[np.int64]


class StartRange(NamedTuple):
    """Amounts left at the start for which a frontier is wanted.

    Attributes
    ----------
    state : ndarray of int64
        The first states.
    low, high : int
        The range of amounts.
    from_least : bool
        Whether the range begins with the least feasible amount instead of `low`.
    """

    state: NDArray[np.int64]
    low: int
    high: int
    from_least: bool


class _Edges(NamedTuple):
    """Outcomes of each row, or of each state of a table, joined where they lead to the same next state."""

    indptr: NDArray[np.int64]
    state: NDArray[np.int32]
    largest: NDArray[np.int64]
    smallest: NDArray[np.int64]


@jit(inline="always")
def raised(need, cost):
    """Return a need increased by a cost; MINUS_INFINITY, no need at all, stays as it is."""
    return need if need == MINUS_INFINITY else need + cost


@jit(inline="always")
def _before(need, cost, most_left):
    """Return what is needed before a cost to have `need` left after it."""
    return PLUS_INFINITY if need == PLUS_INFINITY or need > most_left else raised(need, cost)


@jit(inner=True)
def _joined(indptr, next_state, largest, smallest, n_states):
    """Join the entries of each group that lead to the same next state."""
    n_groups, size = indptr.shape[0] - 1, next_state.shape[0]
    out = _Edges(
        np.empty(n_groups + 1, np.int64), np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size, np.int64)
    )
    place_S = np.full(n_states, -1, np.int64)
    count = 0
    for g in range(n_groups):
        out.indptr[g] = begin = count
        for o in range(indptr[g], indptr[g + 1]):
            to = next_state[o]
            k = place_S[to]
            if k < begin:
                k = place_S[to] = count
                out.state[k], out.largest[k], out.smallest[k] = to, largest[o], smallest[o]
                count += 1
            else:
                out.largest[k], out.smallest[k] = max(out.largest[k], largest[o]), min(out.smallest[k], smallest[o])
    out.indptr[n_groups] = count
    return _Edges(out.indptr, out.state[:count], out.largest[:count], out.smallest[:count])


@jit(inner=True)
def _fill_backward(model, resource, by_row, by_state, out_safe, out_settled, out_repeats_H, halt):
    """Write the safe and the settled amounts, and whether each step has the safe amounts of the one after it.

    An amount is settled if no policy can break a limit from there on.
    """
    least_left, most_left, row_indptr, table_of_step = (
        resource.least_left, resource.most_left, model.row_indptr, model.table_of_step,
    )  # fmt: skip
    n_steps, n_states = out_settled.shape
    for s in range(n_states):
        out_safe[n_steps, s] = PLUS_INFINITY if model.end_value[s] == -np.inf else MINUS_INFINITY
    tail, steady = MINUS_INFINITY, False
    for h in range(n_steps - 1, -1, -1):
        least, last = least_left[h], h + 1 == n_steps
        tail = max(tail, least)  # what must be left once an episode has ended
        if halt[0]:  # once per step: for every state it would cost more than the bounds
            return
        same_rows = not last and table_of_step[h] == table_of_step[h + 1] and least == least_left[h + 1]
        # `steady` says whether the amounts after this step are those after the next one
        out_repeats_H[h] = same_rows and steady
        steady = same_rows
        for s in range(n_states):
            place = table_of_step[h] * n_states + s
            if row_indptr[place] == row_indptr[place + 1]:
                out_settled[h, s] = tail
                out_safe[h, s] = PLUS_INFINITY if model.end_value[s] == -np.inf else tail
                steady = steady and out_safe[h, s] == out_safe[h + 1, s]
                continue
            settled = MINUS_INFINITY
            for k in range(by_state.indptr[place], by_state.indptr[place + 1]):
                after = least if last else max(least, out_settled[h + 1, by_state.state[k]])
                settled = max(settled, _before(after, by_state.largest[k], most_left))
            out_settled[h, s] = settled
            if out_repeats_H[h]:
                out_safe[h, s] = out_safe[h + 1, s]
                continue
            safe = PLUS_INFINITY
            for r in range(row_indptr[place], row_indptr[place + 1]):
                need = MINUS_INFINITY
                for k in range(by_row.indptr[r], by_row.indptr[r + 1]):
                    after = max(least, out_safe[h + 1, by_row.state[k]])
                    need = max(need, _before(after, by_row.largest[k], most_left))
                safe = min(safe, need)
            out_safe[h, s] = safe
            steady = steady and safe == out_safe[h + 1, s]


@jit(inner=True)
def _fill_forward(model, resource, by_row, repeats_H, safe, out_lowest, out_highest, halt):
    """Write the range of amounts that can be left at each (step, state) if only safe rows are taken."""
    most_left, row_indptr = resource.most_left, model.row_indptr
    n_steps, n_states = out_lowest.shape
    need_R = np.empty(model.row_reward.shape[0], np.int64)
    for h in range(n_steps - 1):
        table = model.table_of_step[h] * n_states
        if halt[0]:
            return
        if h == 0 or not repeats_H[h - 1]:
            for r in range(row_indptr[table], row_indptr[table + n_states]):
                need = MINUS_INFINITY
                for k in range(by_row.indptr[r], by_row.indptr[r + 1]):
                    after = max(resource.least_left[h], safe[h + 1, by_row.state[k]])
                    need = max(need, _before(after, by_row.largest[k], most_left))
                need_R[r] = need
        next_lowest_S, next_highest_S = out_lowest[h + 1], out_highest[h + 1]
        for s in range(n_states):
            lowest, highest = out_lowest[h, s], out_highest[h, s]
            if highest == MINUS_INFINITY:
                continue
            for r in range(row_indptr[table + s], row_indptr[table + s + 1]):
                if need_R[r] > highest:
                    continue
                low = max(lowest, need_R[r])
                for k in range(np.uintp(by_row.indptr[r]), np.uintp(by_row.indptr[r + 1])):
                    to = np.uintp(by_row.state[k])
                    most = min(highest - by_row.smallest[k], most_left)
                    least = min(raised(low, -by_row.largest[k]), most_left)
                    next_highest_S[to], next_lowest_S[to] = max(next_highest_S[to], most), min(next_lowest_S[to], least)


@jit
def fill_ranges(model, resource, start, out, out_amounts_H, halt):
    """Write bounds on the amount left at each (step, state).

    Parameters
    ----------
    model : ModelArrays
    resource : SingleResource
    start : StartRange
    out : Ranges
    out_amounts_H : ndarray of float64, shape (H,)
        Number of amounts of each step, as a float, because it may be too large for an integer.
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.

    Returns
    -------
    widest : float
        The largest number of amounts of a (step, state).
    last_live : int
        Number of states with amounts at the last step.
    settled : int
        The least amount at the start from which on no policy can break a limit.
    """
    n_steps, n_states = out.need.shape
    by_row = _joined(model.outcome_indptr, model.next_state, resource.cost, resource.cost, n_states)
    indptr_TS = np.empty_like(model.row_indptr)
    for s in range(indptr_TS.shape[0]):
        indptr_TS[s] = by_row.indptr[model.row_indptr[s]]
    by_state = _joined(indptr_TS, by_row.state, by_row.largest, by_row.smallest, n_states)
    repeats_H = np.zeros(n_steps, np.bool_)
    # written over below
    lowest_HS, settled_HS, highest_HS = out.need, out.top, out.highest
    _fill_backward(model, resource, by_row, by_state, out.safe, settled_HS, repeats_H, halt)
    lowest_HS[:], highest_HS[:] = PLUS_INFINITY, MINUS_INFINITY
    settled = MINUS_INFINITY
    for k in range(start.state.shape[0]):
        s = start.state[k]
        lowest_HS[0, s], highest_HS[0, s] = out.safe[0, s] if start.from_least else start.low, start.high
        settled = max(settled, settled_HS[0, s])
    _fill_forward(model, resource, by_row, repeats_H, out.safe, lowest_HS, highest_HS, halt)
    widest, last_live = 0.0, 0
    for h in range(n_steps):
        amounts = 0.0
        if halt[0]:
            break
        for s in range(n_states):
            highest, least = highest_HS[h, s], max(out.safe[h, s], lowest_HS[h, s])
            if highest == MINUS_INFINITY or least > highest:
                out.need[h, s], out.top[h, s] = 0, -1
                continue
            top = min(highest, max(settled_HS[h, s], least))
            out.need[h, s], out.top[h, s] = least, top
            width = float(top) - float(least) + 1.0
            amounts += width
            widest = max(widest, width)
            last_live += h + 1 == n_steps
        out_amounts_H[h] = amounts
    return widest, last_live, settled
