"""Kernels of levels: fixed points from below and from above, with worklists.

All levels are ticks, from 0 to the capacity, or `IMPOSSIBLE`. Kernels that take `halt` return early once `halt[0]` is
set, and all return after a bounded amount of work; they continue where they stopped when they are called again.
"""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit
from solvent.solvers.levels.arrays import IMPOSSIBLE

#: Number of states that a kernel takes from its worklist in one call.
STRETCH = 1 << 22


@jit(inner=True)
def _need(model, level_S, row):
    """Return the level that a row needs: forevery outcome, its cost and the level of the next state, at least 0."""
    need = np.int64(0)
    for o in range(model.outcome_indptr[row], model.outcome_indptr[row + 1]):
        level = level_S[model.next_state[o]]
        if level == IMPOSSIBLE:
            return np.int64(IMPOSSIBLE)
        need = max(need, level + model.cost[o])
    return need


@jit(inner=True)
def _need_without(model, level_S, loop_O, row):
    """Return the level that a row needs without some outcomes; the next states of all others are possible."""
    need = np.int64(0)
    for o in range(model.outcome_indptr[row], model.outcome_indptr[row + 1]):
        if not loop_O[o]:
            need = max(need, level_S[model.next_state[o]] + model.cost[o])
    return need


@jit
def fill_needs(model, capacity, level_S, out_need_R):
    """Write the level that each row needs, or `IMPOSSIBLE` if it is more than the capacity."""
    for row in range(out_need_R.shape[0]):
        need = _need(model, level_S, row)
        out_need_R[row] = IMPOSSIBLE if need > capacity else need


@jit
def fill_best(model, need_R, out_best_S, out_need_S):
    """Write the first row of each state that needs least, and its need; -1 and `IMPOSSIBLE` if none is possible."""
    for s in range(out_best_S.shape[0]):
        best, least = -1, np.int64(IMPOSSIBLE)
        for row in range(model.row_indptr[s], model.row_indptr[s + 1]):
            if need_R[row] < least:
                best, least = row, need_R[row]
        out_best_S[s], out_need_S[s] = best, least


@jit
def start_rising(model, capacity, kinds, out):
    """Write the needs of all rows for the levels at the start, and put every state in the queue that must rise.

    Parameters
    ----------
    model : LevelArrays
    capacity : int
    kinds : StateKinds
    out : Rising
    """
    for row in range(out.need_R.shape[0]):
        need = _need(model, out.level_S, row)
        out.need_R[row] = IMPOSSIBLE if need > capacity else need
    for s in range(out.best_S.shape[0]):
        _find_best(model, out, s)
    out.ends[0], out.ends[1] = 0, 0
    for s in range(out.best_S.shape[0]):
        _rise(model, kinds, out, s)


@jit(inner=True)
def _find_best(model, out, state):
    best, least = -1, np.int64(IMPOSSIBLE)
    for row in range(model.row_indptr[state], model.row_indptr[state + 1]):
        if best < 0 or out.need_R[row] < least:
            best, least = row, out.need_R[row]
    out.best_S[state] = best


@jit(inner=True)
def _rise(model, kinds, out, state):
    """Raise the level of a state to what its best row needs, and put it in the queue if it rose."""
    best = out.best_S[state]
    if best < 0 or kinds.fixed[state]:
        return
    level = out.need_R[best]
    if level != IMPOSSIBLE and kinds.reload[state]:
        level = np.int64(0)
    if level > out.level_S[state]:
        out.level_S[state] = level
        if not out.waiting_S[state]:
            out.waiting_S[state] = True
            end = out.ends[0] + out.ends[1]
            out.queue_S[end - out.queue_S.shape[0] if end >= out.queue_S.shape[0] else end] = state
            out.ends[1] += 1


@jit
def rise(model, capacity, kinds, out, halt):
    """Raise levels until every state has a row that needs no more than its level, or for a bounded amount of work.

    Parameters
    ----------
    model : LevelArrays
    capacity : int
    kinds : StateKinds
    out : Rising
        As `start_rising` or an earlier call left it. The queue is empty at the end.
    halt : ndarray of bool, shape (1,)
    """
    for _ in range(STRETCH):
        if out.ends[1] == 0 or halt[0]:
            return
        s = out.queue_S[out.ends[0]]
        out.ends[0] = 0 if out.ends[0] + 1 == out.queue_S.shape[0] else out.ends[0] + 1
        out.ends[1] -= 1
        out.waiting_S[s] = False
        level = out.level_S[s]
        for i in range(model.into_indptr[s], model.into_indptr[s + 1]):
            o = model.into[i]
            row = model.row_of_outcome[o]
            need = level if level == IMPOSSIBLE else level + model.cost[o]
            if need > out.need_R[row]:
                out.need_R[row] = IMPOSSIBLE if need > capacity else need
                before = np.int64(model.state_of_row[row])
                if out.best_S[before] == row:
                    _find_best(model, out, before)
                    _rise(model, kinds, out, before)


@jit(inner=True)
def _sift_up(out, place):
    state = out.heap_S[place]
    while place > 0:
        parent = (place - 1) >> 1
        above = out.heap_S[parent]
        if out.found_S[above] <= out.found_S[state]:
            break
        out.heap_S[place], out.place_S[above] = above, place
        place = parent
    out.heap_S[place], out.place_S[state] = state, place


@jit(inner=True)
def _push(out, state):
    """Put a state in the heap, or move it up if it is there."""
    if out.place_S[state] < 0:
        out.heap_S[out.sizes[0]], out.place_S[state] = state, out.sizes[0]
        out.sizes[0] += 1
    _sift_up(out, out.place_S[state])


@jit(inner=True)
def _pop(out):
    """Take the state of the least level from the heap."""
    first = out.heap_S[0]
    out.place_S[first] = -1
    out.sizes[0] -= 1
    count = out.sizes[0]
    if count > 0:
        state, place = out.heap_S[count], 0
        while True:
            child = 2 * place + 1
            if child >= count:
                break
            if child + 1 < count and out.found_S[out.heap_S[child + 1]] < out.found_S[out.heap_S[child]]:
                child += 1
            below = out.heap_S[child]
            if out.found_S[state] <= out.found_S[below]:
                break
            out.heap_S[place], out.place_S[below] = below, place
            place = child
        out.heap_S[place], out.place_S[state] = state, place
    return first


@jit
def start_falling(model, kinds, loop_O, out):
    """Put the fixed states in the heap that are possible, and count the missing outcomes of rows.

    Parameters
    ----------
    model : LevelArrays
    kinds : StateKinds
    loop_O : ndarray of bool, shape (O,)
        Outcomes that do not count.
    out : Falling
        `found_S` has the levels of fixed states.
    """
    for row in range(out.missing_R.shape[0]):
        out.missing_R[row] = 0
        for o in range(model.outcome_indptr[row], model.outcome_indptr[row + 1]):
            out.missing_R[row] += not loop_O[o]
    for s in range(out.found_S.shape[0]):
        if kinds.fixed[s] and out.found_S[s] != IMPOSSIBLE:
            _push(out, s)


@jit
def fall(model, capacity, kinds, loop_O, floor_S, hold_R, surely, out, out_rules, halt):
    """Lower levels until no row needs less than the level of its state, or for a bounded amount of work.

    Parameters
    ----------
    model : LevelArrays
    capacity : int
    kinds : StateKinds
    loop_O : ndarray of bool, shape (O,)
        Outcomes that a row does not need if `surely`, except that it needs one outcome.
    floor_S : ndarray of int64, shape (S,)
        Levels below which those of states do not fall.
    hold_R : ndarray of int64, shape (R,)
        Level that each row needs in any case; not used if `surely`.
    surely : bool
        Whether a row needs the levels of all its next states, or of one of them and `hold_R`.
    out : Falling
        As `start_falling` or an earlier call left it. The heap is empty at the end.
    out_rules : RuleArrays
        The kernel returns when it is full.
    halt : ndarray of bool, shape (1,)
    """
    for _ in range(STRETCH):
        if out.sizes[0] == 0 or halt[0] or out.sizes[1] == out_rules.state.shape[0]:
            return
        s = _pop(out)
        was, level = out.level_S[s], out.found_S[s]
        if out.row_S[s] >= 0:
            n = out.sizes[1]
            out_rules.state[n], out_rules.level[n], out_rules.row[n] = s, level, out.row_S[s]
            out.sizes[1] += 1
            if kinds.reload[s]:
                level = np.int64(0)
        out.level_S[s] = level
        for i in range(model.into_indptr[s], model.into_indptr[s + 1]):
            o = model.into[i]
            row = model.row_of_outcome[o]
            before = model.state_of_row[row]
            if surely:
                if was == IMPOSSIBLE and not loop_O[o]:
                    out.missing_R[row] -= 1
                if out.missing_R[row] > 0:
                    continue
            if kinds.fixed[before] or (kinds.reload[before] and out.level_S[before] == 0):
                continue  # it cannot fall further
            need = _need_without(model, out.level_S, loop_O, row) if surely else hold_R[row]
            if not surely or loop_O[o]:
                need = max(need, level + model.cost[o])
            need = max(need, floor_S[before])
            if need <= capacity and need < out.found_S[before]:
                out.found_S[before], out.row_S[before] = need, row
                _push(out, np.int64(before))


@jit
def keep(model, kinds, level_S, out_kept_S, stack_S, count_R):
    """Write the greatest set of states that can be kept forever without more than their level.

    A state is in the set if its level is fixed and possible, if it is a reload state or terminal, or if a row needs no
    more than its level and leads to states of the set only.

    Parameters
    ----------
    model : LevelArrays
    kinds : StateKinds
    level_S : ndarray of int64, shape (S,)
    out_kept_S : ndarray of bool, shape (S,)
    stack_S, count_R : ndarray of int64
        For temporary use.
    """
    size = 0
    for s in range(out_kept_S.shape[0]):
        out_kept_S[s] = level_S[s] != IMPOSSIBLE
        if not out_kept_S[s]:
            stack_S[size] = s
            size += 1
    # count_R: 1 if the row can be used, else 0
    for s in range(out_kept_S.shape[0]):
        usable = 0
        for row in range(model.row_indptr[s], model.row_indptr[s + 1]):
            count_R[row] = _need(model, level_S, row) <= level_S[s]
            usable += count_R[row]
        held = kinds.fixed[s] or kinds.reload[s] or model.row_indptr[s] == model.row_indptr[s + 1]
        if out_kept_S[s] and not held and usable == 0:
            out_kept_S[s] = False
            stack_S[size] = s
            size += 1
    while size > 0:
        size -= 1
        s = stack_S[size]
        for i in range(model.into_indptr[s], model.into_indptr[s + 1]):
            row = model.row_of_outcome[model.into[i]]
            before = model.state_of_row[row]
            if count_R[row] == 0:
                continue
            count_R[row] = 0
            held = kinds.fixed[before] or kinds.reload[before]
            if not out_kept_S[before] or held:
                continue
            usable = False
            for other in range(model.row_indptr[before], model.row_indptr[before + 1]):
                if count_R[other]:
                    usable = True
                    break
            if not usable:
                out_kept_S[before] = False
                stack_S[size] = before
                size += 1


@jit
def has_free_cycle(model, inside_S, stack_S, count_S):
    """Return whether outcomes of cost 0 form a cycle of states in a set.

    Parameters
    ----------
    model : LevelArrays
    inside_S : ndarray of bool, shape (S,)
    stack_S, count_S : ndarray of int64, shape (S,)
        For temporary use.
    """
    count_S[:] = 0
    left = 0
    for o in range(model.cost.shape[0]):
        if model.cost[o] == 0 and inside_S[model.state_of_row[model.row_of_outcome[o]]]:
            count_S[model.next_state[o]] += 1  # number of free outcomes from the set
    size = 0
    for s in range(inside_S.shape[0]):
        if inside_S[s]:
            left += 1
            if count_S[s] == 0:
                stack_S[size] = s
                size += 1
    while size > 0:
        size -= 1
        left -= 1
        s = stack_S[size]
        for o in range(model.outcome_indptr[model.row_indptr[s]], model.outcome_indptr[model.row_indptr[s + 1]]):
            after = model.next_state[o]
            if model.cost[o] == 0:
                count_S[after] -= 1
                if count_S[after] == 0 and inside_S[after]:
                    stack_S[size] = after
                    size += 1
    return left > 0
