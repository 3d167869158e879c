"""Kernels of the search for a best path, where nothing is left to chance; flat arrays in, flat arrays out.

Every row has one outcome, so that outcome r is row r. `left` is what may still be spent, `floor` what must be left
after each step. `last` is the last step with a floor, after which costs do not matter.
"""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit
from solvent.solvers.bounds.kernels import DOWN, UP

#: What is added to a bound for each operation, relative to its terms: more than rounding can have taken off.
_OUTWARD = 2.0**-51
#: Where `search` says how far it has come, and which path is best: a label, the row taken there or -1, and the price
#: at which to go on from there or -1.
STEP, LABELS, BEST_LABEL, BEST_ROW, BEST_PRICE = 0, 1, 2, 3, 4


@jit
def fill_needs(table_of_step, row_indptr, next_state, cost, floor, out_need_HS, halt):
    """Write the least that must be left at each (step, state), shape (H + 1, S); UP if no path from there will do.

    Ends early once `halt[0]` is set.
    """
    n_steps, n_states = out_need_HS.shape[0] - 1, out_need_HS.shape[1]
    out_need_HS[n_steps] = DOWN
    tail = DOWN
    for h in range(n_steps - 1, -1, -1):
        tail = max(tail, floor[h])
        for s in range(n_states):
            if halt[0]:
                return
            first = table_of_step[h] * n_states + s
            begin, end = row_indptr[first], row_indptr[first + 1]
            least = tail if begin == end else UP
            for r in range(begin, end):
                after = max(floor[h], out_need_HS[h + 1, next_state[r]])
                if after != UP:
                    least = min(least, DOWN if after == DOWN else after + cost[r])
            out_need_HS[h, s] = least


@jit(inline="always")
def _is_safe(left, cost, floor, need):
    """Whether a row can be taken and gone on from; not where `left` is DOWN, which stands for never being there."""
    return left != DOWN and need != UP and left - cost >= max(floor, need)


@jit
def fill_highest(
    table_of_step, row_indptr, next_state, row_reward, cost, floor, need_HS, start, out_highest_HS, out_reward_H, halt
):
    """Write the most that a path within the floors can have left at each (step, state).

    Where no path comes, DOWN is left, which is to be there at first. Also the largest reward of a row that such a path
    could take at each step, or 0. Ends early once `halt[0]` is set.
    """
    n_steps, n_states = need_HS.shape[0] - 1, need_HS.shape[1]
    out_highest_HS[0, start] = 0
    for h in range(n_steps):
        out_reward_H[h] = 0.0
        for s in range(n_states):
            if halt[0]:
                return
            left, first = out_highest_HS[h, s], table_of_step[h] * n_states + s
            for r in range(row_indptr[first], row_indptr[first + 1]):
                after = next_state[r]
                if _is_safe(left, cost[r], floor[h], need_HS[h + 1, after]):
                    out_reward_H[h] = max(out_reward_H[h], row_reward[r])
                    out_highest_HS[h + 1, after] = max(out_highest_HS[h + 1, after], left - cost[r])


@jit(inline="always")
def _worth_at_most(reward, paid, later):
    """Return an upper bound on `reward - paid + later`."""
    return reward - paid + later + _OUTWARD * (abs(reward) + abs(paid) + abs(later))


@jit
def fill_values(
    table_of_step, row_indptr, next_state, row_reward, cost, floor, need_HS, highest_HS, last, price, out_value_HS,
    out_earned_HS, out_want_HS, halt,
):  # fmt: skip
    """Write the most that can be earned from each (step, state) if every tick costs so much and none is forbidden.

    Only rows are looked at that some path within the floors could take, at the step alone or by what it has left.

    These are upper bounds: each step adds more than rounding can have taken off. Also what the path that does so earns
    before that cost, and what must be left for it to keep the floors. Ends early once `halt[0]` is set.
    """
    n_steps, n_states = out_value_HS.shape[0] - 1, out_value_HS.shape[1]
    out_value_HS[n_steps] = out_earned_HS[n_steps] = 0.0
    out_want_HS[n_steps] = DOWN
    for h in range(n_steps - 1, -1, -1):
        toll = price if h <= last else 0.0
        for s in range(n_states):
            if halt[0]:
                return
            first = table_of_step[h] * n_states + s
            begin, end = row_indptr[first], row_indptr[first + 1]
            if begin == end:
                out_value_HS[h, s] = out_earned_HS[h, s] = 0.0
                out_want_HS[h, s] = need_HS[h, s]
                continue
            best, chosen = -np.inf, -1
            for r in range(begin, end):
                if _is_safe(highest_HS[h, s], cost[r], floor[h], need_HS[h + 1, next_state[r]]):
                    worth = _worth_at_most(row_reward[r], toll * cost[r], out_value_HS[h + 1, next_state[r]])
                    if worth > best:
                        best, chosen = worth, r
            out_value_HS[h, s], out_earned_HS[h, s], out_want_HS[h, s] = best, -np.inf, UP
            if chosen >= 0:
                after = next_state[chosen]
                want = max(floor[h], out_want_HS[h + 1, after])
                out_earned_HS[h, s] = row_reward[chosen] + out_earned_HS[h + 1, after]
                out_want_HS[h, s] = want if want == DOWN else want + cost[chosen]


@jit
def follow(
    table_of_step, row_indptr, next_state, row_reward, cost, floor, need_HS, highest_HS, last, price, value_HS, step,
    state, careful, out_row_H,
):  # fmt: skip
    """Follow the best rows at a price from a step and state with nothing left over; write them from that step on.

    If careful, only rows are taken after which the floors can be kept. Returns the reward, what was spent up to the
    last step with a floor, and the sum of the absolute values of all rewards and prices paid.
    """
    n_steps, n_states = value_HS.shape[0] - 1, value_HS.shape[1]
    s, left, earned, spent, size = state, 0, 0.0, 0, 0.0
    for h in range(step, n_steps):
        out_row_H[h] = -1
    for h in range(step, n_steps):
        first = table_of_step[h] * n_states + s
        toll = price if h <= last else 0.0
        best, chosen = -np.inf, -1
        for r in range(row_indptr[first], row_indptr[first + 1]):
            most = left if careful else highest_HS[h, s]
            if not _is_safe(most, cost[r], floor[h], need_HS[h + 1, next_state[r]]):
                continue
            worth = _worth_at_most(row_reward[r], toll * cost[r], value_HS[h + 1, next_state[r]])
            if worth > best:
                best, chosen = worth, r
        if chosen < 0:
            break
        out_row_H[h] = chosen
        left -= cost[chosen]
        earned += row_reward[chosen]
        size += abs(row_reward[chosen]) + abs(toll * cost[chosen])
        if h <= last:
            spent += cost[chosen]
        s = next_state[chosen]
    return earned, spent, size


@jit
def fill_prices(
    table_of_step, row_indptr, next_state, row_reward, cost, floor, need_HS, highest_HS, last, start, same, out_price_K,
    out_value_KHS, out_earned_KHS, out_want_KHS, out_row_H, halt,
):  # fmt: skip
    """Find the price of a tick that bounds the optimum best, and write all prices that were tried with their values.

    At any price p >= 0, what is earned from a (step, state) is at most value[step, state] + p (left - floor[last]). At
    the start this is convex in p: the lines of two paths, one too dear and one within the floor, meet at the next price
    to try, until no path lies above. Bounds count as equal if they differ by less than `same`, relative to the terms of
    the best path known. Returns how many prices were tried, the reward of a path that keeps all floors, written to
    `out_row_H`, and the tolerance that goes with it. Ends early once `halt[0]` is set.
    """
    span = -floor[last] if last >= 0 else 0
    first, careful, careless = np.int64(0), np.bool_(True), np.bool_(False)  # variables, as constants have own types
    row_H = np.empty(out_row_H.shape[0], np.int64)
    best, price, k, tolerance = -np.inf, 0.0, 0, 0.0
    dear_reward, dear_spent, cheap_reward, cheap_spent = 0.0, 0, 0.0, 0
    while True:
        value_HS = out_value_KHS[k]
        out_price_K[k] = price
        fill_values(
            table_of_step, row_indptr, next_state, row_reward, cost, floor, need_HS, highest_HS, last, price,
            value_HS, out_earned_KHS[k], out_want_KHS[k], halt,
        )  # fmt: skip
        k += 1
        if halt[0]:
            return k, best, tolerance
        earned, spent, size = follow(
            table_of_step, row_indptr, next_state, row_reward, cost, floor, need_HS, highest_HS, last, price, value_HS,
            first, start, careful, row_H,
        )  # fmt: skip
        if earned > best:
            best, tolerance = earned, same * size
            for h in range(row_H.shape[0]):
                out_row_H[h] = row_H[h]
        if k == 1:
            cheap_reward, cheap_spent = earned, spent
        bound = value_HS[0, start] + price * span
        if bound <= best + tolerance or k == out_price_K.shape[0]:
            return k, best, tolerance
        earned, spent, size = follow(
            table_of_step, row_indptr, next_state, row_reward, cost, floor, need_HS, highest_HS, last, price, value_HS,
            first, start, careless, row_H,
        )  # fmt: skip
        if spent <= span:
            if k == 1 or earned - price * spent <= cheap_reward - price * cheap_spent + tolerance:
                return k, best, tolerance
            cheap_reward, cheap_spent = earned, spent
        else:
            if k > 1 and earned - price * spent <= dear_reward - price * dear_spent + tolerance:
                return k, best, tolerance
            dear_reward, dear_spent = earned, spent
        price = max((dear_reward - cheap_reward) / (dear_spent - cheap_spent), 0.0)


@jit(inline="always")
def _prune(
    size, heap_left, heap_value, heap_parent, heap_row, price_K, value_K, earned_K, want_K, priced, floor_left,
    tolerance, best, n, place, new_left, new_value, new_parent, new_row, new_bound,
):  # fmt: skip
    """Append the labels of one state whose bound is above the best path known, and see how they could be completed.

    The `_K` arrays are of this step and state, the price that bounds the start best first. Returns the best value, and
    how many labels there are now.
    """
    for i in range(np.uint64(size)):
        left, worth = heap_left[i], heap_value[i]
        spare = float(left - floor_left) if priced else 0.0
        most = np.inf
        for k in range(np.uint64(price_K.shape[0])):
            paid = price_K[k] * spare
            outward = _OUTWARD * (abs(value_K[k]) + abs(paid) + abs(worth))
            most = min(most, value_K[k] + paid + outward)
            if worth + most <= best + tolerance:
                break
            if left >= want_K[k] and worth + earned_K[k] > best:
                best = worth + earned_K[k]
                place[BEST_LABEL], place[BEST_ROW], place[BEST_PRICE] = heap_parent[i], heap_row[i], k
        if worth + most > best + tolerance:
            new_left[n], new_value[n], new_bound[n] = left, worth, worth + most
            new_parent[n], new_row[n] = heap_parent[i], heap_row[i]
            n += 1
    return best, n


@jit(inline="always")
def _merge(
    size, a_left, a_value, a_parent, a_row, begin, end, left, value, label, r, cost, reward, need, b_left, b_value,
    b_parent, b_row,
):  # fmt: skip
    """Merge labels with those that come by a row, the richest first; keep what is worth more than all richer ones."""
    i, j, n, top = 0, begin, 0, -np.inf
    while i < size or j < end:
        if j < end and left[j] - cost < need:
            j = end  # and so are all that follow
            continue
        old = j == end
        if i < size and j < end:
            mine, other = a_left[i], left[j] - cost
            old = mine > other or (mine == other and a_value[i] >= value[j] + reward)
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
def _select(values, k):
    """Return the value that would be at position k if all were sorted; leaves them in another order."""
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


@jit(inline="always")
def _keep_best(width, count, bound, indptr_S, left, value, parent, row):
    """Keep so many labels with the highest bounds, in their order; return the highest bound of those left out."""
    worst = _select(bound[:count].copy(), count - width)
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


@jit
def search(
    table_of_step, row_indptr, next_state, row_reward, cost, floor, need_HS, arrival_indptr, arrival_row, row_state,
    last, price_K, value_KHS, earned_KHS, want_KHS, tolerance, width, best, cut, begin, stop, place, indptr_S,
    left, value, label, new_indptr_S, new_left, new_value, new_parent, new_row, new_bound, heap_left, heap_value,
    heap_parent, heap_row, out_parent, out_row, out_size_H, halt,
):  # fmt: skip
    """Carry labels forward, a step at a time: (state, left, value), none of them poorer and worth less than another.

    A label is left out if even the bound on what it can still earn does not make it better than the best path known,
    and, where more than `width` remain, those of the least bounds. Ends before `stop` if `out_parent` is too small for
    another step. The `new_` arrays and the two rows of the `heap_` arrays have room for every row of `width` labels.
    Returns the best value and the highest bound among those left out for want of width. Ends early once `halt[0]` is
    set.
    """
    n_states, n_prices = indptr_S.shape[0] - 1, price_K.shape[0]
    at_K, earned_K, want_K = np.empty(n_prices), np.empty(n_prices), np.empty(n_prices, np.int64)
    floor_left = floor[last] if last >= 0 else 0
    for h in range(begin, stop):
        if place[LABELS] + min(width, new_left.shape[0]) > out_parent.shape[0]:
            place[STEP] = h
            return best, cut
        first, n = table_of_step[h] * n_states, np.int64(0)
        for s in range(n_states):
            if indptr_S[s] < indptr_S[s + 1] and row_indptr[first + s] == row_indptr[first + s + 1]:
                final = indptr_S[s + 1] - 1  # the poorest is worth most
                if value[final] > best:
                    best = value[final]
                    place[BEST_LABEL], place[BEST_ROW], place[BEST_PRICE] = label[final], -1, -1
        for s in range(n_states):
            if halt[0]:
                place[STEP] = h
                return best, cut
            need, size, side = max(floor[h], need_HS[h + 1, s]), np.int64(0), 0
            for a in range(arrival_indptr[first + s], arrival_indptr[first + s + 1] if need != UP else 0):
                r = arrival_row[a]
                low, high = indptr_S[row_state[r]], indptr_S[row_state[r] + 1]
                if low < high:
                    size = _merge(
                        size, heap_left[side], heap_value[side], heap_parent[side], heap_row[side], low, high, left,
                        value, label, r, cost[r], row_reward[r], need, heap_left[1 - side], heap_value[1 - side],
                        heap_parent[1 - side], heap_row[1 - side],
                    )  # fmt: skip
                    side = 1 - side
            if size > 0:
                for k in range(n_prices):
                    at_K[k] = value_KHS[k, h + 1, s]
                    earned_K[k], want_K[k] = earned_KHS[k, h + 1, s], want_KHS[k, h + 1, s]
                best, n = _prune(
                    size, heap_left[side], heap_value[side], heap_parent[side], heap_row[side], price_K, at_K, earned_K,
                    want_K, h < last, floor_left, tolerance, best, n, place, new_left, new_value, new_parent, new_row,
                    new_bound,
                )  # fmt: skip
            new_indptr_S[s + 1] = n
        if n > width:
            cut = max(cut, _keep_best(width, n, new_bound, new_indptr_S, new_left, new_value, new_parent, new_row))
            n = width
        made = place[LABELS]
        for i in range(n):
            left[i], value[i], label[i] = new_left[i], new_value[i], made + i
            out_parent[made + i], out_row[made + i] = new_parent[i], new_row[i]
        place[LABELS] = made + n
        out_size_H[h] = n
        for s in range(n_states + 1):
            indptr_S[s] = new_indptr_S[s]
    if stop == table_of_step.shape[0]:
        for s in range(n_states):
            final = indptr_S[s + 1] - 1
            if indptr_S[s] <= final and value[final] > best:
                best = value[final]
                place[BEST_LABEL], place[BEST_ROW], place[BEST_PRICE] = label[final], -1, -1
    place[STEP] = stop
    return best, cut


@jit
def retrace(parent, row, label, then, out_row_H):
    """Write the rows that lead to a label, and one more if it is not negative; return how many."""
    count, at = int(then >= 0), label
    while at >= 0:
        count, at = count + 1, parent[at]
    out_row_H[:] = -1
    place = count
    if then >= 0:
        place -= 1
        out_row_H[place] = then
    while label >= 0:
        place -= 1
        out_row_H[place] = row[label]
        label = parent[label]
    return count
