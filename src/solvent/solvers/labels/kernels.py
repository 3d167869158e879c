"""Kernels of the label-setting search for the best path of a deterministic model.

Every row has one outcome, so that outcome r belongs to row r. As in a frontier, `left` is the amount that each row
reduces by its cost, and `resource.least_left` is the least amount that must be left after each step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.jit import jit

#: Added to a bound for each operation, relative to its terms: more than rounding can have taken off.
_OUTWARD = 2.0**-51
#: Entries of `Labels.place`: the next step, the number of labels so far, and the best path: its last label, the row
#: after that or -1, and the price whose best rows complete it or -1.
STEP, LABELS, BEST_LABEL, BEST_ROW, BEST_PRICE = 0, 1, 2, 3, 4
#: Entries of `Labels.best`: the value of the best path, and the highest bound of a label left out for lack of room.
BEST, CUT = 0, 1


class LabelBounds(NamedTuple):
    """Amounts with which the limits can be kept.

    Attributes
    ----------
    need_HS : ndarray of int64, shape (H + 1, S)
        The least amount left at each (step, state) with which a path can keep all limits; PLUS_INFINITY if none can.
    highest_HS : ndarray of int64, shape (H + 1, S)
        The most that a path that keeps all limits can have left; MINUS_INFINITY if none leads there.
    last_limited : int
        The last step with a limit, after which costs do not matter; -1 if there is none.
    """

    need_HS: NDArray[np.int64]
    highest_HS: NDArray[np.int64]
    last_limited: int


class Prices(NamedTuple):
    """Prices per tick, and what is earned at each of them from each (step, state) on.

    Attributes
    ----------
    price_K : ndarray of float64, shape (K,)
    value_KHS : ndarray of float64, shape (K, H + 1, S)
        Upper bounds on the largest sum of rewards minus the price of all costs, with no limits.
    earned_KHS : ndarray of float64, shape (K, H + 1, S)
        The sum of rewards alone, on the path that attains it.
    want_KHS : ndarray of int64, shape (K, H + 1, S)
        The least amount left with which that path keeps all limits.
    """

    price_K: NDArray[np.float64]
    value_KHS: NDArray[np.float64]
    earned_KHS: NDArray[np.float64]
    want_KHS: NDArray[np.int64]


class Arrivals(NamedTuple):
    """The rows that lead to each state; see `CMDP.arrivals`.

    Attributes
    ----------
    indptr : ndarray of int64, shape (T * S + 1,)
        Where the rows that lead to each (table, state) begin.
    row : ndarray of int64, shape (R,)
    state : ndarray of int64, shape (R,)
        The state that each row belongs to.
    """

    indptr: NDArray[np.int64]
    row: NDArray[np.int64]
    state: NDArray[np.int64]


class Labels(NamedTuple):
    """State of a search between two calls: the labels of the step reached, and the best path found.

    Labels are sorted by state and, within a state, by falling `left` and rising value.

    Attributes
    ----------
    indptr_S : ndarray of int64, shape (S + 1,)
    left : ndarray of int64, shape (W,)
    value : ndarray of float64, shape (W,)
    label : ndarray of int64, shape (W,)
        Position in the label tree; -1 at the start.
    place : ndarray of int64, shape (5,)
    best : ndarray of float64, shape (2,)
        Entries of both are named by the constants above.
    """

    indptr_S: NDArray[np.int64]
    left: NDArray[np.int64]
    value: NDArray[np.float64]
    label: NDArray[np.int64]
    place: NDArray[np.int64]
    best: NDArray[np.float64]


class LabelTree(NamedTuple):
    """All labels of a search, from which paths are read backward.

    Attributes
    ----------
    parent : ndarray of int64, shape (N,)
        Position of the previous label; -1 for labels of the first step.
    row : ndarray of int32, shape (N,)
        The row that leads from there to this label.
    size_H : ndarray of int64, shape (H,)
        Number of labels of each step.
    """

    parent: NDArray[np.int64]
    row: NDArray[np.int32]
    size_H: NDArray[np.int64]


class _Candidates(NamedTuple):
    """Labels of the next step, in the same order; `bound` is an upper bound on the value of a path through a label."""

    indptr_S: NDArray[np.int64]
    left: NDArray[np.int64]
    value: NDArray[np.float64]
    parent: NDArray[np.int64]
    row: NDArray[np.int32]
    bound: NDArray[np.float64]


class _Merged(NamedTuple):
    """Labels of one state, merged row by row: two of each array, shape (2, M), which are read and written in turn."""

    left: NDArray[np.int64]
    value: NDArray[np.float64]
    parent: NDArray[np.int64]
    row: NDArray[np.int32]


class _PricesHere(NamedTuple):
    """Prices, and their values at one (step, state); see `Prices`."""

    price_K: NDArray[np.float64]
    value_K: NDArray[np.float64]
    earned_K: NDArray[np.float64]
    want_K: NDArray[np.int64]


@jit(inner=True)
def _fill_needs(model, resource, out_need_HS, halt):
    """Write `LabelBounds.need_HS`; returns early once `halt[0]` is set."""
    n_steps, n_states = out_need_HS.shape[0] - 1, out_need_HS.shape[1]
    row_indptr, next_state, cost, least_left = model.row_indptr, model.next_state, resource.cost, resource.least_left
    table_of_step = model.table_of_step
    out_need_HS[n_steps] = MINUS_INFINITY
    tail = MINUS_INFINITY
    for h in range(n_steps - 1, -1, -1):
        tail = max(tail, least_left[h])
        for s in range(n_states):
            if halt[0]:
                return
            first = table_of_step[h] * n_states + s
            begin, end = row_indptr[first], row_indptr[first + 1]
            least = tail if begin == end else PLUS_INFINITY
            for r in range(begin, end):
                after = max(least_left[h], out_need_HS[h + 1, next_state[r]])
                if after != PLUS_INFINITY:
                    least = min(least, MINUS_INFINITY if after == MINUS_INFINITY else after + cost[r])
            out_need_HS[h, s] = least


@jit(inline="always")
def _is_safe(left, cost, least_left, need):
    """Whether the limits can be kept after a row; False where `left` is MINUS_INFINITY, as no path leads there."""
    return left != MINUS_INFINITY and need != PLUS_INFINITY and left - cost >= max(least_left, need)


@jit(inner=True)
def _fill_highest(model, resource, start, out_bounds, out_reward_H, halt):
    """Write `LabelBounds.highest_HS`, which is MINUS_INFINITY everywhere before the call, from its `need_HS`.

    Also written is the larger of 0 and the largest reward of a row that a path that keeps all limits can take at each
    step. The kernel returns early once `halt[0]` is set.
    """
    row_indptr, next_state, row_reward, cost = model.row_indptr, model.next_state, model.row_reward, resource.cost
    table_of_step, least_left = model.table_of_step, resource.least_left
    need_HS, highest_HS = out_bounds.need_HS, out_bounds.highest_HS
    n_steps, n_states = need_HS.shape[0] - 1, need_HS.shape[1]
    highest_HS[0, start] = 0
    for h in range(n_steps):
        out_reward_H[h] = 0.0
        for s in range(n_states):
            if halt[0]:
                return
            left, first = highest_HS[h, s], table_of_step[h] * n_states + s
            for r in range(row_indptr[first], row_indptr[first + 1]):
                after = next_state[r]
                if _is_safe(left, cost[r], least_left[h], need_HS[h + 1, after]):
                    out_reward_H[h] = max(out_reward_H[h], row_reward[r])
                    highest_HS[h + 1, after] = max(highest_HS[h + 1, after], left - cost[r])


@jit(inline="always")
def _worth_at_most(reward, paid, later):
    """Return an upper bound on `reward - paid + later`."""
    return reward - paid + later + _OUTWARD * (abs(reward) + abs(paid) + abs(later))


@jit(inline="always")
def _best_row(begin, end, h, left, least_left, price, next_state, row_reward, cost, need_HS, value_HS):
    """Return the best row at a price among the safe rows from `begin` to `end`, and its worth; -1 if none is safe."""
    best, chosen = -np.inf, -1
    for r in range(begin, end):
        if _is_safe(left, cost[r], least_left, need_HS[h + 1, next_state[r]]):
            worth = _worth_at_most(row_reward[r], price * cost[r], value_HS[h + 1, next_state[r]])
            if worth > best:
                best, chosen = worth, r
    return best, chosen


@jit(inner=True)
def _fill_values(model, resource, bounds, k, out_prices, halt):
    """Write the values of price k.

    Only rows are considered that a path that keeps all limits can take. Each step adds more than rounding can have
    taken off, so the values are upper bounds. The kernel returns early once `halt[0]` is set.
    """
    # tuples are taken apart before the loops: reading an array from a tuple takes time
    row_indptr, next_state, row_reward, cost = model.row_indptr, model.next_state, model.row_reward, resource.cost
    table_of_step, least_left_H, last = model.table_of_step, resource.least_left, bounds.last_limited
    need_HS, highest_HS = bounds.need_HS, bounds.highest_HS
    value_HS, earned_HS, want_HS = out_prices.value_KHS[k], out_prices.earned_KHS[k], out_prices.want_KHS[k]
    n_steps, n_states = value_HS.shape[0] - 1, value_HS.shape[1]
    value_HS[n_steps] = earned_HS[n_steps] = 0.0
    want_HS[n_steps] = MINUS_INFINITY
    for h in range(n_steps - 1, -1, -1):
        price = out_prices.price_K[k] if h <= last else 0.0
        for s in range(n_states):
            if halt[0]:
                return
            first = table_of_step[h] * n_states + s
            begin, end = row_indptr[first], row_indptr[first + 1]
            if begin == end:
                value_HS[h, s] = earned_HS[h, s] = 0.0
                want_HS[h, s] = need_HS[h, s]
                continue
            best, r = _best_row(
                begin, end, h, highest_HS[h, s], least_left_H[h], price, next_state, row_reward, cost, need_HS, value_HS
            )
            value_HS[h, s], earned_HS[h, s], want_HS[h, s] = best, -np.inf, PLUS_INFINITY
            if r >= 0:
                after = next_state[r]
                want = max(least_left_H[h], want_HS[h + 1, after])
                earned_HS[h, s] = row_reward[r] + earned_HS[h + 1, after]
                want_HS[h, s] = want if want == MINUS_INFINITY else want + cost[r]


@jit
def follow(model, resource, bounds, prices, k, step, state, within_limits, out_row_H):
    """Write the best rows at price k from a step and state on, with an amount of 0 left there.

    If `within_limits`, only rows are taken after which the limits can be kept. Returns the sum of rewards, the amount
    spent up to the last step with a limit, and the sum of the absolute values of all rewards and prices paid.
    """
    row_indptr, next_state, row_reward, cost = model.row_indptr, model.next_state, model.row_reward, resource.cost
    table_of_step, least_left_H, last = model.table_of_step, resource.least_left, bounds.last_limited
    need_HS, highest_HS, value_HS = bounds.need_HS, bounds.highest_HS, prices.value_KHS[k]
    n_steps, n_states = value_HS.shape[0] - 1, value_HS.shape[1]
    s, left, earned, spent, size = state, 0, 0.0, 0, 0.0
    for h in range(step, n_steps):
        out_row_H[h] = -1
    for h in range(step, n_steps):
        first = table_of_step[h] * n_states + s
        price = prices.price_K[k] if h <= last else 0.0
        most = left if within_limits else highest_HS[h, s]
        _, r = _best_row(
            row_indptr[first], row_indptr[first + 1], h, most, least_left_H[h], price, next_state, row_reward, cost,
            need_HS, value_HS,
        )  # fmt: skip
        if r < 0:
            break
        out_row_H[h] = r
        left -= cost[r]
        earned += row_reward[r]
        size += abs(row_reward[r]) + abs(price * cost[r])
        if h <= last:
            spent += cost[r]
        s = next_state[r]
    return earned, spent, size


@jit
def prepare(model, resource, start, same, out_bounds, out_prices, out_reward_H, out_row_H, halt):
    """Write bounds, find the price per tick with the lowest bound on the optimum, and a first path.

    At any price p >= 0, a path earns at most value[step, state] + p (left - least_left[last]) from a (step, state) on.
    At the start this is convex in p: the next price to try is where the lines of two paths cross, one that exceeds the
    limit and one that keeps it, until no path lies above. Bounds count as equal if they differ by at most `same`,
    relative to the terms of the best path known.

    Parameters
    ----------
    model : ModelArrays
    resource : SingleResource
    start : int
    same : float
    out_bounds : LabelBounds
        `highest_HS` is MINUS_INFINITY everywhere before the call.
    out_prices : Prices
        All prices that were tried, in this order.
    out_reward_H : ndarray of float64, shape (H,)
        The larger of 0 and the largest reward of a row that a path that keeps all limits can take at each step.
    out_row_H : ndarray of int64, shape (H,)
        The rows of a path that keeps all limits.
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.

    Returns
    -------
    count : int
        Number of prices tried; 0 if no path keeps the limits.
    value, tolerance : float
        The sum of rewards of the path, and the tolerance that goes with it.
    """
    _fill_needs(model, resource, out_bounds.need_HS, halt)
    _fill_highest(model, resource, start, out_bounds, out_reward_H, halt)
    last = out_bounds.last_limited
    limit = -resource.least_left[last] if last >= 0 else 0
    row_H = np.empty(out_row_H.shape[0], np.int64)
    best, price, k, tolerance = -np.inf, 0.0, np.int64(0), 0.0
    if halt[0] or out_bounds.need_HS[0, start] > 0:
        return k, best, tolerance
    # variables, as constants have types of their own
    first, within, free = np.int64(0), np.bool_(True), np.bool_(False)
    over_reward, over_spent, kept_reward, kept_spent = 0.0, 0, 0.0, 0
    while True:
        out_prices.price_K[k] = price
        _fill_values(model, resource, out_bounds, k, out_prices, halt)
        tried = k + 1
        if halt[0]:
            return tried, best, tolerance
        earned, spent, size = follow(model, resource, out_bounds, out_prices, k, first, start, within, row_H)
        if earned > best:
            best, tolerance = earned, same * size
            for h in range(row_H.shape[0]):
                out_row_H[h] = row_H[h]
        if k == 0:
            kept_reward, kept_spent = earned, spent
        bound = out_prices.value_KHS[k, 0, start] + price * limit
        if bound <= best + tolerance or tried == out_prices.price_K.shape[0]:
            return tried, best, tolerance
        earned, spent, size = follow(model, resource, out_bounds, out_prices, k, first, start, free, row_H)
        if spent <= limit:
            if k == 0 or earned - price * spent <= kept_reward - price * kept_spent + tolerance:
                return tried, best, tolerance
            kept_reward, kept_spent = earned, spent
        else:
            if k > 0 and earned - price * spent <= over_reward - price * over_spent + tolerance:
                return tried, best, tolerance
            over_reward, over_spent = earned, spent
        price = max((over_reward - kept_reward) / (over_spent - kept_spent), 0.0)
        k = tried


@jit(inline="always")
def _merge(size, side, merged, begin, end, labels, r, cost, reward, need):
    """Merge the labels of a side with those that arrive by row r; write them to the other side and return their number.

    Labels are taken in the order of falling `left`; one is kept if its value exceeds that of all before it.
    """
    left, value, label = labels.left, labels.value, labels.label
    a_left, a_value, a_parent, a_row = merged.left[side], merged.value[side], merged.parent[side], merged.row[side]
    other = 1 - side
    b_left, b_value, b_parent, b_row = merged.left[other], merged.value[other], merged.parent[other], merged.row[other]
    i, j, n, top = 0, begin, 0, -np.inf
    while i < size or j < end:
        if j < end and left[j] - cost < need:
            j = end  # all that follow have less left
            continue
        old = j == end
        if i < size and j < end:
            mine, new = a_left[i], left[j] - cost
            old = mine > new or (mine == new and a_value[i] >= value[j] + reward)
        if old:
            if a_value[i] > top:
                top = a_value[i]
                b_left[n], b_value[n], b_parent[n], b_row[n] = a_left[i], top, a_parent[i], a_row[i]
                n += 1
            i += 1
        else:
            if value[j] + reward > top:
                top = value[j] + reward
                b_left[n], b_value[n], b_parent[n], b_row[n] = left[j] - cost, top, label[j], r
                n += 1
            j += 1
    return n


@jit(inline="always")
def _prune(size, side, merged, here, priced, least_left, tolerance, n, out, labels):
    """Append the merged labels of a state whose bound exceeds the best path known, and try to complete each.

    Prices are in order of their bounds at the start, the lowest first. Returns the number of candidates.
    """
    m_left, m_value, m_parent, m_row = merged.left[side], merged.value[side], merged.parent[side], merged.row[side]
    price_K, value_K, earned_K, want_K = here
    place, best = labels.place, labels.best[BEST]
    for i in range(np.uint64(size)):
        left, worth = m_left[i], m_value[i]
        spare = float(left - least_left) if priced else 0.0
        most = np.inf
        for k in range(np.uint64(price_K.shape[0])):
            paid = price_K[k] * spare
            outward = _OUTWARD * (abs(value_K[k]) + abs(paid) + abs(worth))
            most = min(most, value_K[k] + paid + outward)
            if worth + most <= best + tolerance:
                break
            if left >= want_K[k] and worth + earned_K[k] > best:
                best = worth + earned_K[k]
                place[BEST_LABEL], place[BEST_ROW], place[BEST_PRICE] = m_parent[i], m_row[i], k
        if worth + most > best + tolerance:
            out.left[n], out.value[n], out.bound[n] = left, worth, worth + most
            out.parent[n], out.row[n] = m_parent[i], m_row[i]
            n += 1
    labels.best[BEST] = best
    return n


@jit(inline="always")
def select(values, k):
    """Return the value that would be at position k if all were sorted; changes their order."""
    low, high = 0, values.shape[0] - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@jit(inner=True)
def _keep_best(width, count, out):
    """Keep the `width` candidates with the highest bounds, in their order; return the highest bound of the others."""
    indptr_S, left, value, parent, row, bound = out.indptr_S, out.left, out.value, out.parent, out.row, out.bound
    worst = select(bound[:count].copy(), count - width)
    ties = width
    for i in range(count):
        ties -= bound[i] > worst
    n, cut, begin = 0, -np.inf, 0
    for s in range(indptr_S.shape[0] - 1):
        end = indptr_S[s + 1]
        for i in range(begin, end):
            keep = bound[i] > worst
            if bound[i] == worst and ties > 0:
                keep, ties = True, ties - 1
            if keep:
                left[n], value[n], parent[n], row[n] = left[i], value[i], parent[i], row[i]
                n += 1
            else:
                cut = max(cut, bound[i])
        begin = end
        indptr_S[s + 1] = n
    return cut


@jit(inner=True)
def _note_ends(model, h, labels):
    """Note the best label of states in which the episode is over at step h, or of all states after the last step."""
    n_states, place = labels.indptr_S.shape[0] - 1, labels.place
    for s in range(n_states):
        over = h == model.table_of_step.shape[0]
        if not over:
            first = model.table_of_step[h] * n_states + s
            over = model.row_indptr[first] == model.row_indptr[first + 1]
        final = labels.indptr_S[s + 1] - 1  # the label with the least left has the largest value
        if over and labels.indptr_S[s] <= final and labels.value[final] > labels.best[BEST]:
            labels.best[BEST] = labels.value[final]
            place[BEST_LABEL], place[BEST_ROW], place[BEST_PRICE] = labels.label[final], -1, -1


@jit
def search(model, resource, bounds, prices, tolerance, room, stop, arrivals, out_labels, out_tree, halt):
    """Carry labels (state, left, value) forward step by step, up to step `stop`.

    A label is left out if another one of its state has no less left and no smaller value, if the upper bound on what it
    can still earn does not make it better than the best path known, or if it is not among the most promising labels of
    its step for which `Labels` has room.

    Parameters
    ----------
    model : ModelArrays
    resource : SingleResource
    bounds : LabelBounds
    prices : Prices
        The price with the lowest bound at the start comes first.
    tolerance : float
        A path must be better by more than this to be looked for.
    room : int
        Number of labels that all rows of the labels of a step lead to, at most.
    stop : int
    arrivals : Arrivals
    out_labels : Labels
        Tells where to begin, and then how far the search has come.
    out_tree : LabelTree
        The kernel returns before `stop` if this is too short for another step.
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.
    """
    row_reward, cost, n_prices = model.row_reward, resource.cost, prices.price_K.shape[0]
    arrival_indptr, arrival_row, row_state = arrivals.indptr, arrivals.row, arrivals.state
    indptr_S, place, last = out_labels.indptr_S, out_labels.place, bounds.last_limited
    n_states, width = indptr_S.shape[0] - 1, out_labels.left.shape[0]
    least_left = resource.least_left[last] if last >= 0 else 0
    here = _PricesHere(prices.price_K, np.empty(n_prices), np.empty(n_prices), np.empty(n_prices, np.int64))
    new = _Candidates(
        np.zeros(n_states + 1, np.int64), np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64),
        np.empty(room, np.int32), np.empty(room),
    )  # fmt: skip
    merged = _Merged(
        np.empty((2, room), np.int64), np.empty((2, room)), np.empty((2, room), np.int64), np.empty((2, room), np.int32)
    )
    for h in range(place[STEP], stop):
        place[STEP] = h
        if halt[0] or place[LABELS] + width > out_tree.parent.shape[0]:
            return
        _note_ends(model, h, out_labels)
        first, n = model.table_of_step[h] * n_states, np.int64(0)
        for s in range(n_states):
            if halt[0]:
                return
            need, size, side = max(resource.least_left[h], bounds.need_HS[h + 1, s]), np.int64(0), 0
            for a in range(arrival_indptr[first + s], arrival_indptr[first + s + 1] if need != PLUS_INFINITY else 0):
                r = arrival_row[a]
                low, high = indptr_S[row_state[r]], indptr_S[row_state[r] + 1]
                if low < high:
                    size = _merge(size, side, merged, low, high, out_labels, r, cost[r], row_reward[r], need)
                    side = 1 - side
            if size > 0:
                for k in range(n_prices):
                    here.value_K[k] = prices.value_KHS[k, h + 1, s]
                    here.earned_K[k], here.want_K[k] = prices.earned_KHS[k, h + 1, s], prices.want_KHS[k, h + 1, s]
                n = _prune(size, side, merged, here, h < last, least_left, tolerance, n, new, out_labels)
            new.indptr_S[s + 1] = n
        if n > width:
            out_labels.best[CUT] = max(out_labels.best[CUT], _keep_best(width, n, new))
            n = width
        made = place[LABELS]
        for i in range(n):
            out_labels.left[i], out_labels.value[i], out_labels.label[i] = new.left[i], new.value[i], made + i
            out_tree.parent[made + i], out_tree.row[made + i] = new.parent[i], new.row[i]
        place[LABELS] = made + n
        out_tree.size_H[h] = n
        for s in range(n_states + 1):
            indptr_S[s] = new.indptr_S[s]
    if stop == model.table_of_step.shape[0]:
        _note_ends(model, stop, out_labels)
    place[STEP] = stop


@jit
def retrace(tree, label, then, out_row_H):
    """Write the rows that lead to a label, and row `then` after it unless negative; return how many these are."""
    count, at = int(then >= 0), label
    while at >= 0:
        count, at = count + 1, tree.parent[at]
    out_row_H[:] = -1
    place = count
    if then >= 0:
        place -= 1
        out_row_H[place] = then
    while label >= 0:
        place -= 1
        out_row_H[place] = tree.row[label]
        label = tree.parent[label]
    return count
