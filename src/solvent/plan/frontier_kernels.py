"""Kernels of the frontier: step functions as sorted points, or as plain arrays where ticks are few.

One resource, and `left` for what may still be spent. At each (step, state) the value is a non-decreasing step function
of `left`, kept as points (need, value, row) of increasing need and value: with `left` in hand, the last point whose
need it covers is the one to follow.
"""

from __future__ import annotations

import numpy as np

from solvent.plan.jit import jit
from solvent.plan.kernels import DOWN, UP


@jit
def fill_reach(table_of_step, row_indptr, outcome_indptr, next_state, cost, start, out_min_HS, out_max_HS):
    """Write the least and the most that any policy can have spent at each (step, state); UP and DOWN if never there."""
    n_steps, n_states = out_min_HS.shape
    out_min_HS[:], out_max_HS[:] = UP, DOWN
    out_min_HS[0, start] = out_max_HS[0, start] = 0
    for h in range(n_steps - 1):
        for s in range(n_states):
            if out_min_HS[h, s] == UP:
                continue
            first = table_of_step[h] * n_states + s
            for r in range(row_indptr[first], row_indptr[first + 1]):
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    after = next_state[o]
                    out_min_HS[h + 1, after] = min(out_min_HS[h + 1, after], out_min_HS[h, s] + cost[o])
                    out_max_HS[h + 1, after] = max(out_max_HS[h + 1, after], out_max_HS[h, s] + cost[o])


@jit
def _sift_down(key, item, size):
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        if child + 1 < size and key[child + 1] < key[child]:
            child += 1
        if key[i] <= key[child]:
            return
        key[i], key[child] = key[child], key[i]
        item[i], item[child] = item[child], item[i]
        i = child


@jit
def _push(key, item, size, new_key, new_item):
    i = size
    key[i], item[i] = new_key, new_item
    while i > 0:
        parent = (i - 1) // 2
        if key[parent] <= key[i]:
            return
        key[i], key[parent] = key[parent], key[i]
        item[i], item[parent] = item[parent], item[i]
        i = parent


@jit
def _last_within(need, begin, end, left):
    """Return the last position of an increasing stretch whose need `left` covers; begin - 1 if there is none."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if need[middle] <= left:
            low = middle + 1
        else:
            high = middle
    return low - 1


@jit
def merge_layer(
    begin_state, row_indptr, outcome_indptr, probability, next_state, row_reward, cost, floor, end_need,
    lowest_S, highest_S, next_indptr, next_need, next_value, tolerance,
    out_indptr, out_need, out_value, out_row,
):  # fmt: skip
    """Write the points of a step's states from those of the next step, state by state from `begin_state` on.

    Parameters
    ----------
    floor : int
        What must be left after this step.
    end_need : int
        What must be left on arrival if the episode is over.
    lowest_S, highest_S : ndarray
        Between what values `left` can be in each state; no point is needed beyond, and one is enough below.
    tolerance : float
        A value must be larger than the last by more than this to be a point.

    Returns
    -------
    int
        The state at which room ran out, or the number of states.
    """
    n_states = lowest_S.shape[0]
    widest = 1
    for s in range(n_states):
        rows = row_indptr[s + 1] - row_indptr[s]
        outcomes = outcome_indptr[row_indptr[s + 1]] - outcome_indptr[row_indptr[s]]
        widest = max(widest, rows + outcomes)
    key, item = np.empty(widest, np.int64), np.empty(widest, np.int64)
    at = np.empty(widest, np.int64)
    row_of = np.empty(widest, np.int64)
    started = np.empty(widest, np.bool_)
    for s in range(begin_state, n_states):
        count = out_indptr[s]
        if highest_S[s] == DOWN:
            out_indptr[s + 1] = count
            continue
        first, last = row_indptr[s], row_indptr[s + 1]
        base = outcome_indptr[first]
        room = 1
        for o in range(base, outcome_indptr[last]):
            room += 1 + next_indptr[next_state[o] + 1] - next_indptr[next_state[o]]
        if count + room > out_need.shape[0]:
            return s
        if first == last:
            if end_need <= highest_S[s]:
                out_need[count], out_value[count], out_row[count] = end_need, 0.0, -1
                count += 1
            out_indptr[s + 1] = count
            continue
        size = 0
        n_rows = last - first
        for r in range(first, last):
            started[r - first] = False
            start = DOWN
            for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                a, b = next_indptr[next_state[o]], next_indptr[next_state[o] + 1]
                if a == b:
                    start = UP
                    break
                start = max(start, max(next_need[a], floor) + cost[o])
            if start > highest_S[s]:
                continue
            for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                k = o - base
                row_of[k] = r
                a, b = next_indptr[next_state[o]], next_indptr[next_state[o] + 1]
                at[k] = _last_within(next_need, a, b, start - cost[o])
                if at[k] + 1 < b and next_need[at[k] + 1] + cost[o] <= highest_S[s]:
                    _push(key, item, size, next_need[at[k] + 1] + cost[o], n_rows + k)
                    size += 1
            _push(key, item, size, start, r - first)
            size += 1
        fresh = True
        while size > 0:
            now = key[0]
            best, best_row = -np.inf, -1
            while size > 0 and key[0] == now:
                which = item[0]
                if which < n_rows:
                    r = first + which
                    started[which] = True
                    size -= 1
                    key[0], item[0] = key[size], item[size]
                else:
                    k = which - n_rows
                    r = row_of[k]
                    at[k] += 1
                    following = at[k] + 1
                    o = base + k
                    if following < next_indptr[next_state[o] + 1] and next_need[following] + cost[o] <= highest_S[s]:
                        key[0] = next_need[following] + cost[o]
                    else:
                        size -= 1
                        key[0], item[0] = key[size], item[size]
                _sift_down(key, item, size)
                # a sum taken before all events of this instant are in is only an underestimate
                if started[r - first]:
                    value = row_reward[r]
                    for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                        value += probability[o] * next_value[at[o - base]]
                    if value > best:
                        best, best_row = value, r
            if best_row >= 0 and (fresh or best > out_value[count - 1] + tolerance):
                if fresh or now > lowest_S[s]:
                    count += 1
                out_need[count - 1], out_value[count - 1], out_row[count - 1] = now, best, best_row
                fresh = False
        out_indptr[s + 1] = count
    return n_states


@jit
def sweep_layer(
    row_indptr, outcome_indptr, probability, next_state, row_reward, cost, row_need_R, first_row,
    need_S, top_S, offset_S, next_need_S, next_top_S, next_offset_S, next_value, out_value, out_row,
):  # fmt: skip
    """Write the value and best row for every `left` from need_S to top_S, state by state.

    `next_value` is empty at the last step. Beyond `top` the value does not change any more.
    """
    last = next_value.shape[0] == 0
    n_states = need_S.shape[0]
    widest = 1
    for s in range(n_states):
        widest = max(widest, top_S[s] - need_S[s] + 1)
    total = np.empty(widest)
    for s in range(n_states):
        need, width = need_S[s], top_S[s] - need_S[s] + 1
        if width <= 0:
            continue
        base = offset_S[s]
        first, end = row_indptr[s], row_indptr[s + 1]
        if first == end:
            out_value[base : base + width] = 0.0
            out_row[base : base + width] = 0
            continue
        out_value[base : base + width] = -np.inf
        for r in range(first, end):
            skip = max(row_need_R[r - first_row] - need, 0)
            if skip >= width:
                continue
            for i in range(skip, width):
                total[i] = row_reward[r]
            if not last:
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    after, p = next_state[o], probability[o]
                    shift = next_offset_S[after] + need - cost[o] - next_need_S[after]
                    # from here on `left` is beyond what matters in the next state
                    flat = min(max(next_top_S[after] + cost[o] - need + 1, skip), width)
                    for i in range(skip, flat):
                        total[i] += p * next_value[shift + i]
                    if flat < width:
                        rest = p * next_value[next_offset_S[after] + next_top_S[after] - next_need_S[after]]
                        for i in range(flat, width):
                            total[i] += rest
            which = r - first
            for i in range(skip, width):
                better = total[i] > out_value[base + i]
                out_value[base + i] = total[i] if better else out_value[base + i]
                out_row[base + i] = which if better else out_row[base + i]


@jit
def compress_layer(
    row_indptr, need_S, top_S, offset_S, value, row, tolerance, out_indptr, out_need, out_value, out_row
):
    """Turn a swept layer into points; returns their number."""
    count = 0
    for s in range(need_S.shape[0]):
        fresh = True
        for i in range(top_S[s] - need_S[s] + 1):
            v = value[offset_S[s] + i]
            if v == -np.inf or not (fresh or v > out_value[count - 1] + tolerance):
                continue
            out_need[count], out_value[count] = need_S[s] + i, v
            ends = row_indptr[s] == row_indptr[s + 1]
            out_row[count] = -1 if ends else row_indptr[s] + row[offset_S[s] + i]
            count += 1
            fresh = False
        out_indptr[s + 1] = count
    return count


@jit
def follow_points(state, left, indptr, need, row, outcome_indptr, next_state, cost, out_point, out_state, out_left):
    """Write which point each node follows and the nodes it leads to; returns their number, or -1 if room ran out."""
    count = 0
    for i in range(state.shape[0]):
        s = state[i]
        j = _last_within(need, indptr[s], indptr[s + 1], left[i])
        out_point[i] = j
        r = row[j]
        if r < 0:
            continue
        for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
            if count == out_state.shape[0]:
                return -1
            out_state[count], out_left[count] = next_state[o], left[i] - cost[o]
            count += 1
    return count
