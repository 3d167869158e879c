"""Kernels of the frontier: step functions as sorted points.

One resource, and `left` for what may still be spent. At each (step, state) the value is a non-decreasing step function
of `left`, kept as points (need, value, row) of increasing need and value: with `left` in hand, the last point whose
need it covers is the one to follow.
"""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit
from solvent.solvers.bounds.kernels import DOWN, UP
from solvent.solvers.reduction.kernels import TERMINAL


@jit(inline="always")
def more(need, cost):
    """Return a need raised by a cost; where nothing is needed, that stays so."""
    return need if need == DOWN else need + cost


@jit
def fill_reach(
    table_of_step, row_indptr, outcome_indptr, next_state, cost, floor_H, need_HS, out_lowest_HS, out_highest_HS, halt
):
    """Write the least and the most that can be left at each (step, state) if only safe rows are taken.

    `need_HS`, of shape (H + 1, S), is what must be left for limits to be kept. What there may be at first is in the
    entries of the start, and everything else is UP and DOWN, which stays so where nothing leads to. Ends early once
    `halt[0]` is set.
    """
    n_steps, n_states = out_lowest_HS.shape
    for h in range(n_steps - 1):
        for s in range(n_states):
            highest = out_highest_HS[h, s]
            if halt[0]:
                return
            if highest == DOWN:
                continue
            first = table_of_step[h] * n_states + s
            for r in range(row_indptr[first], row_indptr[first + 1]):
                need = DOWN
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    after = max(floor_H[h], need_HS[h + 1, next_state[o]])
                    need = UP if after == UP else max(need, more(after, cost[o]))
                    if need > highest:
                        break
                if need > highest:
                    continue
                lowest = max(out_lowest_HS[h, s], need)
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    after = next_state[o]
                    out_highest_HS[h + 1, after] = max(out_highest_HS[h + 1, after], highest - cost[o])
                    out_lowest_HS[h + 1, after] = min(out_lowest_HS[h + 1, after], more(lowest, -cost[o]))


@jit(inline="always")
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


@jit(inner=True)
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


@jit(inner=True)
def last_within(need, begin, end, left):
    """Return the last position of an increasing stretch whose need `left` covers; begin - 1 if there is none."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if need[middle] <= left:
            low = middle + 1
        else:
            high = middle
    return low - 1


@jit(inline="always")
def is_rise(value, held, same, resolution):
    """Whether a value is larger than the one held by more than it takes to be a point of its own."""
    return value > held and value - held > max(resolution, same * max(abs(value), abs(held)))


@jit(inline="always")
def _merge_single(
    first, last, outcome_indptr, next_state, row_reward, cost, floor, lowest, highest, next_indptr, next_need,
    next_value, value_base, same, resolution, up, at, end, key, out_need, out_value, out_row, count, out_reward, halt,
):  # fmt: skip
    """Merge the points of rows that have one outcome each; returns the new number of points.

    The largest reward of a row that can be afforded is written to `out_reward[0]` if that is larger than what it holds.
    """
    n_rows = last - first
    fresh, base = True, -np.inf
    for k in range(n_rows):
        o = outcome_indptr[first + k]
        begin, end[k] = next_indptr[next_state[o]], next_indptr[next_state[o] + 1]
        key[k] = UP
        if begin < end[k]:
            start = max(next_need[begin], floor)
            at[k] = last_within(next_need, begin, end[k], start)
            key[k] = more(start, cost[o])
    while True:
        now = UP
        for k in range(n_rows):
            now = min(now, key[k])
        if now > highest or now == UP or halt[0]:
            return count
        best, best_row = -np.inf, TERMINAL
        for k in range(n_rows):
            if key[k] == now:
                out_reward[0] = max(out_reward[0], row_reward[first + k])
                value = row_reward[first + k] + next_value[at[k] - value_base]
                if value > best:
                    best, best_row = value, first + k
                at[k] += 1
                key[k] = next_need[at[k]] + cost[outcome_indptr[first + k]] if at[k] < end[k] else UP
        if fresh or is_rise(best, base, same, resolution):
            if fresh or now > lowest:
                count += 1
            out_need[count - 1], out_value[count - 1], out_row[count - 1] = max(now, lowest), best, best_row
            fresh, base = False, best
        elif up:
            out_value[count - 1] = max(out_value[count - 1], best)


@jit(inline="always")
def _merge_many(
    first, last, outcome_indptr, probability, next_state, row_reward, cost, floor, lowest, highest,
    next_indptr, next_need, next_value, value_base, same, resolution, up, key, item, at, row_of, started,
    out_need, out_value, out_row, count, out_reward, halt,
):  # fmt: skip
    """Merge the points of all outcomes of all rows; returns the new number of points.

    The largest reward of a row that can be afforded is written to `out_reward[0]` if that is larger than what it holds.

    Events wait in a heap: a row that begins to be affordable (items below the number of rows), and an outcome that
    moves on to its next point. A row's value is summed afresh at each of its events, so nothing drifts.
    """
    base, n_rows, size = outcome_indptr[first], last - first, np.int64(0)
    for r in range(first, last):
        started[r - first] = False
        start = DOWN
        for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
            a, b = next_indptr[next_state[o]], next_indptr[next_state[o] + 1]
            if a == b:
                start = UP
                break
            start = max(start, more(max(next_need[a], floor), cost[o]))
        if start > highest:
            continue
        out_reward[0] = max(out_reward[0], row_reward[r])
        for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
            k = o - base
            row_of[k] = r
            a, b = next_indptr[next_state[o]], next_indptr[next_state[o] + 1]
            at[k] = last_within(next_need, a, b, more(start, -cost[o]))
            if at[k] + 1 < b and next_need[at[k] + 1] + cost[o] <= highest:
                _push(key, item, size, next_need[at[k] + 1] + cost[o], n_rows + k)
                size += 1
        _push(key, item, size, start, r - first)
        size += 1
    fresh, held = True, -np.inf
    while size > 0 and not halt[0]:
        now = key[0]
        best, best_row = -np.inf, TERMINAL
        while size > 0 and key[0] == now:
            which = item[0]
            if which < n_rows:
                r = first + which
                started[which] = True
                size -= 1
                key[0], item[0] = key[size], item[size]
            else:
                k = which - n_rows
                r, o = row_of[k], base + k
                at[k] += 1
                following = at[k] + 1
                if following < next_indptr[next_state[o] + 1] and next_need[following] + cost[o] <= highest:
                    key[0] = next_need[following] + cost[o]
                else:
                    size -= 1
                    key[0], item[0] = key[size], item[size]
            _sift_down(key, item, size)
            # a sum taken before all events of this instant are in is only an underestimate
            if started[r - first]:
                value = row_reward[r]
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    value += probability[o] * next_value[at[o - base] - value_base]
                if value > best:
                    best, best_row = value, r
        if best_row >= 0 and (fresh or is_rise(best, held, same, resolution)):
            if fresh or now > lowest:
                count += 1
            out_need[count - 1], out_value[count - 1], out_row[count - 1] = max(now, lowest), best, best_row
            fresh, held = False, best
        elif up and best_row >= 0:
            out_value[count - 1] = max(out_value[count - 1], best)
    return count


@jit
def merge(
    table_of_step, row_indptr, outcome_indptr, probability, next_state, row_reward, cost, floor_H, end_need_H,
    lowest_HS, highest_HS, same, resolution, up, next_value, begin, stop, indptr_HS, need, row, value,
    out_top_H, out_bottom_H, out_reward_H, halt,
):  # fmt: skip
    """Write the points of steps `begin` - 1 down to `stop`, state by state, each step behind the one after it.

    Parameters
    ----------
    floor_H : ndarray
        What must be left after each step.
    end_need_H : ndarray
        What must be left on arrival if the episode is over.
    lowest_HS, highest_HS : ndarray
        Between what values `left` can be; no point is needed beyond, and one is enough below.
    same, resolution : float
        A value must be larger than the last by more than this, relatively and absolutely, to be a point.
    up : bool
        Whether values in between are rounded up to the largest of them, instead of down to the point's own.
    next_value : ndarray
        Values of the points of step `begin`.
    indptr_HS : ndarray of shape (H + 1, S + 1)
        Where the points of each state begin in `need`, `row` and, counted from the step's first, in `value`.
    out_top_H, out_bottom_H, out_reward_H : ndarray
        The largest and the smallest value of each step, and the largest reward of a row that can be afforded there;
        0 where that is larger, or smaller.
    halt : ndarray of bool, shape (1,)
        Once this is set it ends early, and nothing that was written is of use.

    Returns
    -------
    step : int
        The last step that is complete; larger than `stop` if room ran out.
    value : ndarray
        The values of its points.
    """
    n_states = lowest_HS.shape[1]
    widest = 1
    for s in range(row_indptr.shape[0] - 1):
        rows = row_indptr[s + 1] - row_indptr[s]
        widest = max(widest, rows + outcome_indptr[row_indptr[s + 1]] - outcome_indptr[row_indptr[s]])
    key, item, at = np.empty(widest, np.int64), np.empty(widest, np.int64), np.empty(widest, np.int64)
    row_of, end, started = np.empty(widest, np.int64), np.empty(widest, np.int64), np.empty(widest, np.bool_)
    for h in range(begin - 1, stop - 1, -1):
        later = indptr_HS[h + 1]
        base, count = later[0], later[n_states]
        out = need[count:]
        out_row = row[count:]
        made = np.int64(0)  # a plain 0 has a type of its own, for which all calls would be compiled once more
        for s in range(n_states):
            indptr_HS[h, s] = count + made
            if halt[0]:
                return h + 1, next_value
            if highest_HS[h, s] == DOWN:
                continue
            first, last = row_indptr[table_of_step[h] * n_states + s], row_indptr[table_of_step[h] * n_states + s + 1]
            room = 1
            for o in range(outcome_indptr[first], outcome_indptr[last]):
                room += 1 + later[next_state[o] + 1] - later[next_state[o]]
            if made + room > min(out.shape[0], value.shape[0]):
                return h + 1, next_value
            lowest, highest = lowest_HS[h, s], highest_HS[h, s]
            if first == last:
                if end_need_H[h] <= highest:
                    out[made], value[made], out_row[made] = end_need_H[h], 0.0, TERMINAL
                    made += 1
            elif outcome_indptr[last] - outcome_indptr[first] == last - first:
                made = _merge_single(
                    first, last, outcome_indptr, next_state, row_reward, cost, floor_H[h], lowest, highest,
                    later, need, next_value, base, same, resolution, up, at, end, key, out, value, out_row, made,
                    out_reward_H[h : h + 1], halt,
                )  # fmt: skip
            else:
                made = _merge_many(
                    first, last, outcome_indptr, probability, next_state, row_reward, cost, floor_H[h], lowest, highest,
                    later, need, next_value, base, same, resolution, up, key, item, at, row_of, started, out, value,
                    out_row, made, out_reward_H[h : h + 1], halt,
                )  # fmt: skip
        indptr_HS[h, n_states] = count + made
        next_value = value[:made].copy()
        for i in range(made):
            out_top_H[h], out_bottom_H[h] = max(out_top_H[h], value[i]), min(out_bottom_H[h], value[i])
    return stop, next_value
