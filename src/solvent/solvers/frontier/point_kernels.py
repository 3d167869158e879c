"""Kernels for frontiers as sorted points.

At each (step, state) the value is a non-decreasing step function of the amount `left`. It is kept as points (need,
value, row) with increasing need and value: the point to follow is the last one whose need is at most `left`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.jit import jit
from solvent.solvers.accuracy import SAME_POINT
from solvent.solvers.frontier.bounds_kernels import raised
from solvent.solvers.reduction.kernels import TERMINAL

#: Up to this many items are compared one by one, instead of in a heap.
_FEW_ITEMS = 16


class Points(NamedTuple):
    """Points of all steps and states, the last step first; the points of each step are sorted by state and need.

    Attributes
    ----------
    indptr_HS : ndarray of int64, shape (H, S + 1) or (H + 1, S + 1)
        Where the points of each (step, state) begin.
    need : ndarray of int64, shape (N,)
        The least amount left with which the row can be taken.
    row : ndarray of int32, shape (N,)
        The row to take, or `TERMINAL`.
    """

    indptr_HS: NDArray[np.int64]
    need: NDArray[np.int64]
    row: NDArray[np.int32]


class StepExtremes(NamedTuple):
    """Extreme values of each step, for bounds on rounding errors; see `accuracy.Extremes`.

    Attributes
    ----------
    top_H, bottom_H : ndarray of float64, shape (H,)
        The larger of 0 and the largest value, and the smaller of 0 and the smallest value.
    reward_H : ndarray of float64, shape (H,)
        The larger of 0 and the largest reward of a row that is safe somewhere.
    """

    top_H: NDArray[np.float64]
    bottom_H: NDArray[np.float64]
    reward_H: NDArray[np.float64]


class Precision(NamedTuple):
    """Which values count as different.

    Attributes
    ----------
    resolution : float
        A value becomes a point only if it exceeds the last one by more than this, and by more than `SAME_POINT`
        relative to both.
    up : bool
        Whether other values are rounded up, to the largest of them, instead of down to that of the point before.
    """

    resolution: float
    up: bool


class Wanted(NamedTuple):
    """Amounts at which points are wanted.

    Attributes
    ----------
    lowest, highest : ndarray of int64, shape (H, S)
        No point is needed above the highest amount, and one is enough up to the lowest.
    known : int
        At this many of the first steps, the amounts themselves are known, and points are made for nothing else.
    indptr_HS : ndarray of int64, shape (H, S + 1)
        Where the known amounts of each (step, state) begin.
    left : ndarray of int64
        Known amounts; those of each (step, state) increase.
    enough : int
        Return after a step with more points than this, unless the amounts of the step before are known.
    """

    lowest: NDArray[np.int64]
    highest: NDArray[np.int64]
    known: int
    indptr_HS: NDArray[np.int64]
    left: NDArray[np.int64]
    enough: int


class NextStep(NamedTuple):
    """The points of the following step; those of state s begin at `indptr_S[s]`, their values at that minus `base`."""

    indptr_S: NDArray[np.int64]
    need: NDArray[np.int64]
    value: NDArray[np.float64]
    base: int


class NewPoints(NamedTuple):
    """Where the points of a step are written."""

    need: NDArray[np.int64]
    value: NDArray[np.float64]
    row: NDArray[np.int32]


class Workspace(NamedTuple):
    """Arrays for merging the points of one state, with one place for each of its rows and outcomes."""

    key: NDArray[np.int64]
    item: NDArray[np.int64]
    at: NDArray[np.int64]
    end: NDArray[np.int64]
    row_of: NDArray[np.int64]
    started: NDArray[np.bool_]


@jit
def points_per_node(amounts_H, last_live, growth):
    """Return the expected number of points divided by that of nodes.

    Both grow by at most a factor from step to step, and are between 1 and the number of amounts of the step. The
    nodes begin with 1 at the first step, the points with 1 for each live state of the last step.
    """
    nodes, points, all_nodes, all_points, n_steps = 1.0, last_live, 0.0, 0.0, amounts_H.shape[0]
    for h in range(n_steps):
        nodes = max(min(nodes, amounts_H[h]), 1.0)
        points = max(min(points, amounts_H[n_steps - 1 - h]), 1.0)
        all_nodes += nodes
        all_points += points
        nodes *= growth
        points *= growth
    return all_points / all_nodes


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


@jit(inner=True, forceinline=True)
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


@jit(inner=True, forceinline=True)
def last_within(need, begin, end, left):
    """Return the last position in an increasing range whose need is at most `left`; begin - 1 if there is none."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if need[middle] <= left:
            low = middle + 1
        else:
            high = middle
    return low - 1


@jit(inline="always")
def is_rise(value, kept, resolution):
    """Whether a value exceeds the one kept by enough to become a point of its own."""
    return value > kept and value - kept > max(resolution, SAME_POINT * max(abs(value), abs(kept)))


@jit(inner=True, forceinline=True)
def _merge_single(model, resource, h, s, wanted, precision, after, work, out, count, halt):
    """Merge the points of the rows of a state, each of which has one outcome.

    Returns the new number of points, and the larger of 0 and the largest reward of a row that can be afforded.
    """
    outcome_indptr, next_state, row_reward = model.outcome_indptr, model.next_state, model.row_reward
    cost, least_left, place = (
        resource.cost,
        resource.least_left[h],
        model.table_of_step[h] * wanted.lowest.shape[1] + s,
    )
    first, n_rows = model.row_indptr[place], model.row_indptr[place + 1] - model.row_indptr[place]
    lowest, highest = wanted.lowest[h, s], wanted.highest[h, s]
    next_need, next_value = after.need, after.value
    key, at, end = work.key, work.at, work.end
    fresh, kept, reward = True, -np.inf, 0.0
    for k in range(n_rows):
        o = outcome_indptr[first + k]
        begin, end[k] = after.indptr_S[next_state[o]], after.indptr_S[next_state[o] + 1]
        key[k] = PLUS_INFINITY
        if begin < end[k]:
            start = max(next_need[begin], least_left)
            at[k] = last_within(next_need, begin, end[k], start)
            key[k] = PLUS_INFINITY if start > resource.most_left else raised(start, cost[o])
    while True:
        now = PLUS_INFINITY
        for k in range(n_rows):
            now = min(now, key[k])
        if now > highest or now == PLUS_INFINITY or halt[0]:
            return count, reward
        best, best_row = -np.inf, TERMINAL
        for k in range(n_rows):
            if key[k] == now:
                reward = max(reward, row_reward[first + k])
                value = row_reward[first + k] + next_value[at[k] - after.base]
                if value > best:
                    best, best_row = value, first + k
                at[k] += 1
                key[k] = next_need[at[k]] + cost[outcome_indptr[first + k]] if at[k] < end[k] else PLUS_INFINITY
        if fresh or is_rise(best, kept, precision.resolution):
            if fresh or now > lowest:
                count += 1
            out.need[count - 1], out.value[count - 1], out.row[count - 1] = max(now, lowest), best, best_row
            fresh, kept = False, best
        elif precision.up:
            out.value[count - 1] = max(out.value[count - 1], best)


@jit(inner=True, forceinline=True)
def _merge_many(model, resource, h, s, wanted, precision, after, work, out, count, halt):
    """Merge the points of all outcomes of all rows of a state.

    Returns the new number of points, and the larger of 0 and the largest reward of a row that can be afforded.

    Needs at which something changes are taken in order: a row becomes affordable (items below the number of rows), or
    an outcome moves on to its next point. A few items are compared one by one, more are kept in a heap. The value of a
    row is summed anew at each change, so rounding errors do not accumulate.
    """
    outcome_indptr, probability, next_state = model.outcome_indptr, model.probability, model.next_state
    cost, least_left, place = (
        resource.cost,
        resource.least_left[h],
        model.table_of_step[h] * wanted.lowest.shape[1] + s,
    )
    first, last = model.row_indptr[place], model.row_indptr[place + 1]
    lowest, highest = wanted.lowest[h, s], wanted.highest[h, s]
    next_indptr, next_need, next_value = after.indptr_S, after.need, after.value
    key, item, at, row_of, started = work.key, work.item, work.at, work.row_of, work.started
    base, n_rows, size, reward = outcome_indptr[first], last - first, np.int64(0), 0.0
    n_items = n_rows + outcome_indptr[last] - base
    few = n_items <= _FEW_ITEMS
    if few:
        for i in range(n_items):
            key[i] = PLUS_INFINITY
    for r in range(first, last):
        started[r - first] = False
        start = MINUS_INFINITY
        for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
            a, b = next_indptr[next_state[o]], next_indptr[next_state[o] + 1]
            if a == b or max(next_need[a], least_left) > resource.most_left:
                start = PLUS_INFINITY
                break
            start = max(start, raised(max(next_need[a], least_left), cost[o]))
        if start > highest:
            continue
        reward = max(reward, model.row_reward[r])
        for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
            k = o - base
            row_of[k] = r
            a, b = next_indptr[next_state[o]], next_indptr[next_state[o] + 1]
            at[k] = last_within(next_need, a, b, raised(start, -cost[o]))
            if at[k] + 1 < b and next_need[at[k] + 1] + cost[o] <= highest:
                if few:
                    key[n_rows + k] = next_need[at[k] + 1] + cost[o]
                else:
                    _push(key, item, size, next_need[at[k] + 1] + cost[o], n_rows + k)
                    size += 1
        if few:
            key[r - first] = start
        else:
            _push(key, item, size, start, r - first)
            size += 1
    fresh, kept = True, -np.inf
    now, best, best_row = MINUS_INFINITY, -np.inf, TERMINAL
    while not halt[0]:
        soonest, which = PLUS_INFINITY, np.int64(-1)
        if few:
            for i in range(n_items):
                which = i if key[i] < soonest else which
                soonest = min(soonest, key[i])
        elif size > 0:
            soonest, which = key[0], item[0]
        if soonest > now or which < 0:  # all changes at the need before are made
            if best_row >= 0 and (fresh or is_rise(best, kept, precision.resolution)):
                if fresh or now > lowest:
                    count += 1
                out.need[count - 1], out.value[count - 1], out.row[count - 1] = max(now, lowest), best, best_row
                fresh, kept = False, best
            elif precision.up and best_row >= 0:
                out.value[count - 1] = max(out.value[count - 1], best)
            now, best, best_row = soonest, -np.inf, TERMINAL
            if which < 0:
                break
        following, r = PLUS_INFINITY, first + which
        if which < n_rows:
            started[which] = True
        else:
            k = which - n_rows
            r, o = row_of[k], base + k
            at[k] += 1
            if at[k] + 1 < next_indptr[next_state[o] + 1] and next_need[at[k] + 1] + cost[o] <= highest:
                following = next_need[at[k] + 1] + cost[o]
        if few:
            key[which] = following
        else:
            if following < PLUS_INFINITY:
                key[0] = following
            else:
                size -= 1
                key[0], item[0] = key[size], item[size]
            _sift_down(key, item, size)
        # a sum taken before all changes at this need are made is only an underestimate
        if started[r - first]:
            value = model.row_reward[r]
            for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                value += probability[o] * next_value[at[o - base] - after.base]
            if value > best:
                best, best_row = value, r
    return count, reward


@jit(inner=True, forceinline=True)
def _value_amounts(model, resource, h, s, wanted, after, total, out, count):
    """Write a point for each known amount of a state.

    Returns the new number of points, and the larger of 0 and the largest reward of a row that can be afforded. Amounts
    increase, so one pass finds the points of each outcome.
    """
    outcome_indptr, probability, next_state = model.outcome_indptr, model.probability, model.next_state
    next_indptr, next_need, cost, least_left = after.indptr_S, after.need, resource.cost, resource.least_left[h]
    place = model.table_of_step[h] * wanted.lowest.shape[1] + s
    begin, end, reward = wanted.indptr_HS[h, s], wanted.indptr_HS[h, s + 1], 0.0
    for i in range(begin, end):
        k = count + i - begin
        out.need[k], out.value[k], out.row[k] = wanted.left[i], -np.inf, TERMINAL
    for r in range(model.row_indptr[place], model.row_indptr[place + 1]):
        start = MINUS_INFINITY
        for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
            a, b = next_indptr[next_state[o]], next_indptr[next_state[o] + 1]
            if a == b or max(next_need[a], least_left) > resource.most_left:
                start = PLUS_INFINITY
                break
            start = max(start, raised(max(next_need[a], least_left), cost[o]))
        first = begin
        while first < end and wanted.left[first] < start:
            first += 1
        if first == end:
            continue
        reward = max(reward, model.row_reward[r])
        for i in range(first, end):
            total[i - begin] = model.row_reward[r]
        for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
            p, c, b = probability[o], cost[o], next_indptr[next_state[o] + 1]
            at = last_within(next_need, next_indptr[next_state[o]], b, wanted.left[first] - c)
            for i in range(first, end):
                rest = wanted.left[i] - c
                while at + 1 < b and next_need[at + 1] <= rest:
                    at += 1
                total[i - begin] += p * after.value[at - after.base]
        for i in range(first, end):
            k = count + i - begin
            if total[i - begin] > out.value[k]:
                out.value[k], out.row[k] = total[i - begin], r
    return count + end - begin, reward


@jit
def merge(model, resource, wanted, precision, begin, stop, next_value, out_points, out_value, out_extremes, halt):
    """Write the points of steps `begin` - 1 down to `stop`, state by state, each step after the one that follows it.

    Parameters
    ----------
    model : ModelArrays
    resource : SingleResource
    wanted : Wanted
    precision : Precision
    begin, stop : int
    next_value : ndarray of float64
        Values of the points of step `begin`.
    out_points : Points
        `indptr_HS` has shape (H + 1, S + 1); the points of step `begin` are there already.
    out_value : ndarray of float64
        Workspace for the values of one step.
    out_extremes : StepExtremes
        Updated, not overwritten.
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set, and the points of its last step are incomplete.

    Returns
    -------
    step : int
        The last step that is complete; larger than `stop` if `out_points` or `out_value` is too short, or if there are
        more points than `wanted.enough`.
    value : ndarray of float64
        The values of its points.
    """
    row_indptr, outcome_indptr, next_state = model.row_indptr, model.outcome_indptr, model.next_state
    n_steps, n_states = wanted.lowest.shape
    most_known = np.int64(0)
    for h in range(wanted.known):
        for s in range(n_states):
            most_known = max(most_known, wanted.indptr_HS[h, s + 1] - wanted.indptr_HS[h, s])
    total = np.empty(most_known)
    widest = 1
    for s in range(row_indptr.shape[0] - 1):
        rows = row_indptr[s + 1] - row_indptr[s]
        widest = max(widest, rows + outcome_indptr[row_indptr[s + 1]] - outcome_indptr[row_indptr[s]])
    work = Workspace(
        np.empty(widest, np.int64), np.empty(widest, np.int64), np.empty(widest, np.int64), np.empty(widest, np.int64),
        np.empty(widest, np.int64), np.empty(widest, np.bool_),
    )  # fmt: skip
    end_need = MINUS_INFINITY
    for h in range(n_steps - 1, begin - 1, -1):
        end_need = max(end_need, resource.least_left[h])
    for h in range(begin - 1, stop - 1, -1):
        # what must be left on arrival if the episode is over
        end_need = max(end_need, resource.least_left[h])
        later = out_points.indptr_HS[h + 1]
        count = later[n_states]
        after = NextStep(later, out_points.need, next_value, later[0])
        out = NewPoints(out_points.need[count:], out_value, out_points.row[count:])
        made = np.int64(0)  # a plain 0 has a type of its own, for which all calls would be compiled once more
        reward = 0.0
        for s in range(n_states):
            out_points.indptr_HS[h, s] = count + made
            if halt[0]:
                return h + 1, next_value
            if wanted.highest[h, s] == MINUS_INFINITY:
                continue
            place = model.table_of_step[h] * n_states + s
            first, last = row_indptr[place], row_indptr[place + 1]
            room = 1
            if h < wanted.known:
                room += wanted.indptr_HS[h, s + 1] - wanted.indptr_HS[h, s]
            else:
                for o in range(outcome_indptr[first], outcome_indptr[last]):
                    room += 1 + later[next_state[o] + 1] - later[next_state[o]]
            if made + room > min(out.need.shape[0], out_value.shape[0]):
                return h + 1, next_value
            if h < wanted.known and first < last:
                made, found = _value_amounts(model, resource, h, s, wanted, after, total, out, made)
                reward = max(reward, found)
            elif first == last:
                if end_need <= wanted.highest[h, s] and model.end_value[s] > -np.inf:
                    out.need[made], out.value[made], out.row[made] = end_need, model.end_value[s], TERMINAL
                    made += 1
            elif outcome_indptr[last] - outcome_indptr[first] == last - first:
                made, found = _merge_single(model, resource, h, s, wanted, precision, after, work, out, made, halt)
                reward = max(reward, found)
            else:
                made, found = _merge_many(model, resource, h, s, wanted, precision, after, work, out, made, halt)
                reward = max(reward, found)
        out_points.indptr_HS[h, n_states] = count + made
        next_value = out_value[:made].copy()
        out_extremes.reward_H[h] = max(out_extremes.reward_H[h], reward)
        for i in range(made):
            out_extremes.top_H[h] = max(out_extremes.top_H[h], out_value[i])
            out_extremes.bottom_H[h] = min(out_extremes.bottom_H[h], out_value[i])
        if made > wanted.enough and h > wanted.known:
            return h, next_value
    return stop, next_value


@jit(inner=True)
def _sort_runs(values, spare):
    """Sort values that consist of a few increasing runs, by merging neighboring runs; a second array is overwritten."""
    n = values.shape[0]
    while True:
        begin, runs = 0, 0
        while begin < n:
            middle = begin + 1
            while middle < n and values[middle - 1] <= values[middle]:
                middle += 1
            end = min(middle + 1, n)
            while end < n and values[end - 1] <= values[end]:
                end += 1
            i, j = begin, middle
            for k in range(begin, end):
                if j == end or (i < middle and values[i] <= values[j]):
                    spare[k] = values[i]
                    i += 1
                else:
                    spare[k] = values[j]
                    j += 1
            begin = end
            runs += 1
        for k in range(n):
            values[k] = spare[k]
        if runs <= 1:
            return


@jit
def spread(model, resource, ranges, begin, stop, enough, out_indptr_HS, out_left, halt):
    """Write the amounts that can be left at the steps after `begin`, up to `stop`, if only safe rows are taken.

    Amounts above the top, from which on the value does not change, count as the top.

    Parameters
    ----------
    model : ModelArrays
    resource : SingleResource
    ranges : Ranges
    begin, stop : int
        The amounts of step `begin` are there already.
    enough : int
        Stop at a step with at least this many amounts.
    out_indptr_HS : ndarray of int64, shape (H, S + 1)
    out_left : ndarray of int64
        The amounts of each (step, state) increase.
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.

    Returns
    -------
    step : int
        The last step that is complete.
    full : bool
        Whether `out_left` is too short for the next one.
    """
    row_indptr, outcome_indptr, next_state = model.row_indptr, model.outcome_indptr, model.next_state
    n_states, most_left = out_indptr_HS.shape[1] - 1, resource.most_left
    for h in range(begin, stop):
        now_S, table = out_indptr_HS[h], model.table_of_step[h] * n_states
        if now_S[n_states] - now_S[0] >= enough or halt[0]:
            return h, False
        first_row, end_row = row_indptr[table], row_indptr[table + n_states]
        # the first amount of its state with which each row is safe
        first_R = np.empty(end_row - first_row, np.int64)
        ends_S = np.zeros(n_states + 1, np.int64)
        for s in range(n_states):
            for r in range(row_indptr[table + s], row_indptr[table + s + 1]):
                need = MINUS_INFINITY
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    after = max(resource.least_left[h], ranges.safe[h + 1, next_state[o]])
                    never = after == PLUS_INFINITY or after > most_left
                    need = PLUS_INFINITY if never else max(need, raised(after, resource.cost[o]))
                i = now_S[s]
                while i < now_S[s + 1] and out_left[i] < need:
                    i += 1
                first_R[r - first_row] = i
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    ends_S[next_state[o] + 1] += now_S[s + 1] - i
        for s in range(n_states):
            ends_S[s + 1] += ends_S[s]
        if now_S[n_states] + ends_S[n_states] > out_left.shape[0]:
            return h, True
        found, spare, at_S = np.empty(ends_S[n_states], np.int64), np.empty(ends_S[n_states], np.int64), ends_S.copy()
        for s in range(n_states):
            for r in range(row_indptr[table + s], row_indptr[table + s + 1]):
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    to = next_state[o]
                    most, at = min(most_left, ranges.top[h + 1, to]), at_S[to]
                    for i in range(first_R[r - first_row], now_S[s + 1]):
                        found[at] = min(out_left[i] - resource.cost[o], most)
                        at += 1
                    at_S[to] = at
        count = now_S[n_states]
        for s in range(n_states):
            out_indptr_HS[h + 1, s] = count
            _sort_runs(found[ends_S[s] : ends_S[s + 1]], spare)
            for i in range(ends_S[s], ends_S[s + 1]):
                if i == ends_S[s] or found[i] != found[i - 1]:
                    out_left[count] = found[i]
                    count += 1
        out_indptr_HS[h + 1, n_states] = count
    return stop, False
