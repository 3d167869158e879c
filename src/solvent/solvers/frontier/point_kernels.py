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
from solvent.solvers.reduction.kernels import TERMINAL


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


class Reach(NamedTuple):
    """Range of amounts that can be left on arrival if only safe rows are taken; empty where none can be.

    Attributes
    ----------
    lowest_HS, highest_HS : ndarray of int64, shape (H, S)
    """

    lowest_HS: NDArray[np.int64]
    highest_HS: NDArray[np.int64]


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


@jit(inline="always")
def raised(need, cost):
    """Return a need increased by a cost; MINUS_INFINITY, no need at all, stays as it is."""
    return need if need == MINUS_INFINITY else need + cost


@jit
def fill_reach(model, resource, need_HS, out_reach, halt):
    """Write the range of amounts that can be left at each (step, state) if only safe rows are taken.

    Parameters
    ----------
    model : ModelArrays
    resource : SingleResource
    need_HS : ndarray of int64, shape (H + 1, S)
        The least amount left with which all limits can be kept.
    out_reach : Reach
        Contains the range of amounts at the start; everywhere else plus and minus infinity, which
        stay where nothing leads.
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.
    """
    row_indptr, outcome_indptr, next_state = model.row_indptr, model.outcome_indptr, model.next_state
    cost, lowest_HS, highest_HS = resource.cost, out_reach.lowest_HS, out_reach.highest_HS
    most_left = resource.most_left
    n_steps, n_states = lowest_HS.shape
    for h in range(n_steps - 1):
        for s in range(n_states):
            highest = highest_HS[h, s]
            if halt[0]:
                return
            if highest == MINUS_INFINITY:
                continue
            first = model.table_of_step[h] * n_states + s
            for r in range(row_indptr[first], row_indptr[first + 1]):
                need = MINUS_INFINITY
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    after = max(resource.least_left[h], need_HS[h + 1, next_state[o]])
                    never = after == PLUS_INFINITY or after > most_left
                    need = PLUS_INFINITY if never else max(need, raised(after, cost[o]))
                    if need > highest:
                        break
                if need > highest:
                    continue
                lowest = max(lowest_HS[h, s], need)
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    after = next_state[o]
                    highest_HS[h + 1, after] = max(highest_HS[h + 1, after], min(highest - cost[o], most_left))
                    lowest_HS[h + 1, after] = min(lowest_HS[h + 1, after], min(raised(lowest, -cost[o]), most_left))


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
def _merge_single(model, resource, h, s, reach, precision, after, work, out, count, halt):
    """Merge the points of the rows of a state, each of which has one outcome.

    Returns the new number of points, and the larger of 0 and the largest reward of a row that can be afforded.
    """
    outcome_indptr, next_state, row_reward = model.outcome_indptr, model.next_state, model.row_reward
    cost, least_left, place = (
        resource.cost,
        resource.least_left[h],
        model.table_of_step[h] * reach.lowest_HS.shape[1] + s,
    )
    first, n_rows = model.row_indptr[place], model.row_indptr[place + 1] - model.row_indptr[place]
    lowest, highest = reach.lowest_HS[h, s], reach.highest_HS[h, s]
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
def _merge_many(model, resource, h, s, reach, precision, after, work, out, count, halt):
    """Merge the points of all outcomes of all rows of a state.

    Returns the new number of points, and the larger of 0 and the largest reward of a row that can be afforded.

    A heap holds the needs at which something changes: a row becomes affordable (items below the number of rows), or an
    outcome moves on to its next point. The value of a row is summed anew at each change, so rounding errors do not
    accumulate.
    """
    outcome_indptr, probability, next_state = model.outcome_indptr, model.probability, model.next_state
    cost, least_left, place = (
        resource.cost,
        resource.least_left[h],
        model.table_of_step[h] * reach.lowest_HS.shape[1] + s,
    )
    first, last = model.row_indptr[place], model.row_indptr[place + 1]
    lowest, highest = reach.lowest_HS[h, s], reach.highest_HS[h, s]
    next_indptr, next_need, next_value = after.indptr_S, after.need, after.value
    key, item, at, row_of, started = work.key, work.item, work.at, work.row_of, work.started
    base, n_rows, size, reward = outcome_indptr[first], last - first, np.int64(0), 0.0
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
                _push(key, item, size, next_need[at[k] + 1] + cost[o], n_rows + k)
                size += 1
        _push(key, item, size, start, r - first)
        size += 1
    fresh, kept = True, -np.inf
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
            # a sum taken before all changes at this need are made is only an underestimate
            if started[r - first]:
                value = model.row_reward[r]
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    value += probability[o] * next_value[at[o - base] - after.base]
                if value > best:
                    best, best_row = value, r
        if best_row >= 0 and (fresh or is_rise(best, kept, precision.resolution)):
            if fresh or now > lowest:
                count += 1
            out.need[count - 1], out.value[count - 1], out.row[count - 1] = max(now, lowest), best, best_row
            fresh, kept = False, best
        elif precision.up and best_row >= 0:
            out.value[count - 1] = max(out.value[count - 1], best)
    return count, reward


@jit
def merge(model, resource, reach, precision, begin, stop, next_value, out_points, out_value, out_extremes, halt):
    """Write the points of steps `begin` - 1 down to `stop`, state by state, each step after the one that follows it.

    Parameters
    ----------
    model : ModelArrays
    resource : SingleResource
    reach : Reach
        No point is needed above the highest amount, and one is enough up to the lowest.
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
        The last step that is complete; larger than `stop` if `out_points` or `out_value` is too short.
    value : ndarray of float64
        The values of its points.
    """
    row_indptr, outcome_indptr, next_state = model.row_indptr, model.outcome_indptr, model.next_state
    n_steps, n_states = reach.lowest_HS.shape
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
            if reach.highest_HS[h, s] == MINUS_INFINITY:
                continue
            place = model.table_of_step[h] * n_states + s
            first, last = row_indptr[place], row_indptr[place + 1]
            room = 1
            for o in range(outcome_indptr[first], outcome_indptr[last]):
                room += 1 + later[next_state[o] + 1] - later[next_state[o]]
            if made + room > min(out.need.shape[0], out_value.shape[0]):
                return h + 1, next_value
            if first == last:
                if end_need <= reach.highest_HS[h, s] and model.end_value[s] > -np.inf:
                    out.need[made], out.value[made], out.row[made] = end_need, model.end_value[s], TERMINAL
                    made += 1
            elif outcome_indptr[last] - outcome_indptr[first] == last - first:
                made, found = _merge_single(model, resource, h, s, reach, precision, after, work, out, made, halt)
                reward = max(reward, found)
            else:
                made, found = _merge_many(model, resource, h, s, reach, precision, after, work, out, made, halt)
                reward = max(reward, found)
        out_points.indptr_HS[h, n_states] = count + made
        next_value = out_value[:made].copy()
        out_extremes.reward_H[h] = max(out_extremes.reward_H[h], reward)
        for i in range(made):
            out_extremes.top_H[h] = max(out_extremes.top_H[h], out_value[i])
            out_extremes.bottom_H[h] = min(out_extremes.bottom_H[h], out_value[i])
    return stop, next_value
