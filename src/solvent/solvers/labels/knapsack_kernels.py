"""Kernels for one state without randomness: a knapsack problem in which one row is chosen at each step.

If no cost is negative and no earlier limit is tighter than those after the last choice, only the total cost matters,
and steps can be looked at in any order. At a price p per tick, let b be a best row of each step. Another row i of the
step has

    loss_i = p (c_i - c_b) - (r_i - r_b) >= 0,

and a choice of rows that keeps the limit gains at most `p room - sum of losses` over the rows b, where `room` is the
limit minus the cost of all b. Rows whose loss alone exceeds the distance of this bound to the best choice known are
left out. The steps with other rows are the core. They are looked at in the order of their least losses, and a
combination of rows is dropped if another one costs no more and earns no less, or if it cannot lead to a better choice
even with the least loss of the next step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY
from solvent.core.jit import jit

#: Results of `pack`: the best choice is found; no choice keeps the limit; more than the total cost matters; there are
#: too many combinations; the time is up.
BEST, NONE, UNFIT, FULL, HALTED = 0, 1, 2, 3, 4
#: Entries of `Choice.facts`: the unit of rewards, the tolerance, a bound on rounding errors, the distance of the upper
#: bound on all choices to the best one, and the sum of the largest rewards of all steps.
UNIT, TOLERANCE, NOISE, ABOVE, REWARD = 0, 1, 2, 3, 4
#: Added to a bound for each operation, relative to its terms: more than rounding can have taken off.
_OUTWARD = 2.0**-51
#: The smallest positive float, the largest error of an operation that underflows.
_SMALLEST = 5e-324
#: The largest number of prices tried.
_PRICES = 100
#: Number of combinations that there is room for at first.
_FEW = 128
#: Size of the tree of combinations, relative to the largest number of combinations at a time.
_TREE = 8


class Items(NamedTuple):
    """What can be chosen: rows of a model with one state and one outcome per row; names and shapes as in `CMDP`.

    Attributes
    ----------
    table_of_step : ndarray of int32, shape (H,)
    row_indptr : ndarray of int64, shape (T + 1,)
    row_reward : ndarray of float64, shape (R,)
    cost : ndarray of int64, shape (R,)
    least_left : ndarray of int64, shape (H,)
        As in `SingleResource`; the amount left at the start is 0.
    """

    table_of_step: NDArray[np.int32]
    row_indptr: NDArray[np.int64]
    row_reward: NDArray[np.float64]
    cost: NDArray[np.int64]
    least_left: NDArray[np.int64]


class Choice(NamedTuple):
    """The best choice of rows.

    Attributes
    ----------
    row_H : ndarray of int64, shape (H,)
        The row of each step; -1 once the episode is over.
    spent_H : ndarray of int64, shape (H,)
        The total cost after each step.
    size_H : ndarray of int64, shape (H,)
        Number of combinations after each step, at least 1; 0 once the episode is over.
    facts : ndarray of float64, shape (5,)
        Entries are named by the constants above.
    """

    row_H: NDArray[np.int64]
    spent_H: NDArray[np.int64]
    size_H: NDArray[np.int64]
    facts: NDArray[np.float64]


class _Core(NamedTuple):
    """Steps of the core in the order of their least losses, and their rows.

    Attributes
    ----------
    step, loss : ndarray, shape (C,)
    begin, end : ndarray of int64, shape (C,)
        Range of the rows of each step.
    row, row_step : ndarray of int64, shape (N,)
        Rows, and the step that each belongs to; a table may serve several steps.
    """

    step: NDArray[np.int64]
    loss: NDArray[np.float64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    row: NDArray[np.int64]
    row_step: NDArray[np.int64]


class _Combinations(NamedTuple):
    """Combinations of rows by rising cost and gain: three of each array, shape (3, W), which are used in turn.

    Attributes
    ----------
    cost, gain : ndarray, shape (3, W)
        Cost and reward, compared with the best rows at the price.
    node, added : ndarray of int64, shape (3, W)
        Position in the tree of the combination that this one extends, or -1, and the position in `_Core.row` of what
        it adds, or -1.
    """

    cost: NDArray[np.int64]
    gain: NDArray[np.float64]
    node: NDArray[np.int64]
    added: NDArray[np.int64]


@jit
def reward_unit(reward, steps):
    """Return a power of two that divides all rewards, if sums of `steps` of them are then exact in floats; else 0.

    So are sums of as many differences of two rewards.
    """
    unit, largest = np.inf, 0.0
    for r in range(reward.shape[0]):
        size = abs(reward[r])
        if size > 0.0:
            largest = max(largest, size)
            if unit == np.inf:
                unit = math.ldexp(1.0, math.frexp(size)[1])
            while np.floor(size / unit) * unit != size:
                unit /= 2
            # if twice the number of rewards times the largest reward is less than 2**53 units, so are all sums
            if unit < 2.0**-1000 or 2.0 * steps * largest >= unit * 2.0**53:
                return 0.0
    return 1.0 if unit == np.inf else unit


@jit(inner=True)
def _price(items, limit, over_N, kept_N, halt):
    """Return the price at which the bound on all choices is lowest; `kept_N` are then best rows that keep the limit.

    Before the call, `over_N` are rows of the largest rewards, which exceed the limit, and `kept_N` those of the least
    costs, which keep it. The lines of the two choices, as functions of the price, cross at the next price to try; its
    best rows replace one of the two, until no choice lies above. Steps where the two agree are not looked at again.
    """
    table_of_step, row_indptr, row_reward, cost, _ = items
    count = over_N.shape[0]
    active, new_N = np.arange(count), np.empty(count, np.int64)
    price, left = 0.0, limit  # what the limit leaves to steps that are still looked at
    for _ in range(_PRICES):
        reward, spent, over_spent, kept_spent, n = 0.0, np.int64(0), np.int64(0), np.int64(0), 0
        for i in range(count):
            h = active[i]
            over, kept = over_N[h], kept_N[h]
            if over == kept:
                left -= cost[kept]
                continue
            active[n] = h
            n += 1
            reward += row_reward[over] - row_reward[kept]
            over_spent += cost[over]
            kept_spent += cost[kept]
        count = n
        if over_spent <= kept_spent or halt[0]:
            break
        price = max(reward / float(over_spent - kept_spent), 0.0)
        for i in range(count):
            h = active[i]
            best = kept_N[h]
            most = row_reward[best] - price * cost[best]
            for r in range(row_indptr[table_of_step[h]], row_indptr[table_of_step[h] + 1]):
                worth = row_reward[r] - price * cost[r]
                if worth > most:
                    best, most = r, worth
            new_N[h] = best
            spent += cost[best]
        if spent in (kept_spent, over_spent):
            break
        if spent <= left:
            for i in range(count):
                kept_N[active[i]] = new_N[active[i]]
        else:
            for i in range(count):
                over_N[active[i]] = new_N[active[i]]
    # at this price the rows of both choices are equally good: use what is left
    for i in range(count):
        left -= cost[kept_N[active[i]]]
    for i in range(count):
        h = active[i]
        more = cost[over_N[h]] - cost[kept_N[h]]
        if more <= left:
            left -= more
            kept_N[h] = over_N[h]
    return price


@jit(inline="always")
def _least_loss(price, cost, gain):
    """Return a lower bound on the loss of a row or a combination."""
    paid = price * cost
    return paid - gain - _OUTWARD * (abs(paid) + abs(gain))


@jit(inline="always")
def _is_hopeless(above, loss, enough):
    """Whether no choice that loses this much can be better than `enough`."""
    return above - loss + _OUTWARD * (abs(above) + loss) <= enough


@jit(inline="always")
def _sort_by_loss(core, count):
    """Sort the first `count` steps of the core by their least losses."""
    step, loss, begin, end = core.step, core.loss, core.begin, core.end
    distance = 1
    while 3 * distance < count:
        distance = 3 * distance + 1
    while distance > 0:
        for i in range(distance, count):
            at, mine, low, high, j = step[i], loss[i], begin[i], end[i], i
            while j >= distance and loss[j - distance] > mine:
                other = j - distance
                step[j], loss[j], begin[j], end[j] = step[other], loss[other], begin[other], end[other]
                j = other
            step[j], loss[j], begin[j], end[j] = at, mine, low, high
        distance //= 3


@jit(inline="always")
def _merge(done, a, old, size, count, b, cost, gain, added):
    """Merge `size` combinations of side `a` with the `count` of side `old` extended by a row, into side `b`.

    Returns their number. Combinations are taken by rising cost; one is kept if its gain exceeds that of all before it.
    """
    a_cost, a_gain, a_node, a_added = done.cost[a], done.gain[a], done.node[a], done.added[a]
    b_cost, b_gain, b_node, b_added = done.cost[b], done.gain[b], done.node[b], done.added[b]
    old_cost, old_gain, old_node = done.cost[old], done.gain[old], done.node[old]
    i, j, n, top = 0, 0, 0, -np.inf
    while i < size or j < count:
        mine = j == count
        if i < size and j < count:
            other = old_cost[j] + cost
            mine = a_cost[i] < other or (a_cost[i] == other and a_gain[i] >= old_gain[j] + gain)
        if mine:
            if a_gain[i] > top:
                top = a_gain[i]
                b_cost[n], b_gain[n], b_node[n], b_added[n] = a_cost[i], top, a_node[i], a_added[i]
                n += 1
            i += 1
        else:
            if old_gain[j] + gain > top:
                top = old_gain[j] + gain
                b_cost[n], b_gain[n], b_node[n], b_added[n] = old_cost[j] + cost, top, old_node[j], added
                n += 1
            j += 1
    return n


@jit(inner=True)
def _wider(array, width):
    """Return a copy of an array with room for `width` columns."""
    wide = np.empty((array.shape[0], width), array.dtype)
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            wide[i, j] = array[i, j]
    return wide


@jit(inner=True)
def _combine(items, base_N, core, n_core, price, room, bounds, room_for, out, halt):
    """Combine rows of the core, and write the best choice to `out.row_H` if it gains more than `bounds[0]`.

    `bounds` are the gain of the best choice known, the upper bound on the gain of any choice, and the tolerance.
    Returns a result of `pack`, the gain of the best choice, and the number of steps looked at.
    """
    row_reward, cost = items.row_reward, items.cost
    gained, above, tolerance = bounds
    done = _Combinations(
        np.empty((3, _FEW), np.int64), np.empty((3, _FEW)), np.empty((3, _FEW), np.int64), np.empty((3, _FEW), np.int64)
    )
    done.cost[0, 0], done.gain[0, 0], done.node[0, 0], done.added[0, 0] = 0, 0.0, -1, -1
    tree, n_tree = np.empty((2, _FEW), np.int64), 0
    side, count, best_node, best_added, seen, result = 0, 1, np.int64(-1), np.int64(-1), 0, BEST
    for c in range(n_core):
        if _is_hopeless(above, core.loss[c], gained + tolerance):
            break
        n_rows = core.end[c] - core.begin[c]
        if halt[0]:
            result = HALTED
            break
        if count * (1 + n_rows) > room_for or n_tree + count * n_rows > _TREE * room_for:
            result = FULL
            break
        if count * (1 + n_rows) > done.cost.shape[1]:
            width = max(count * (1 + n_rows), min(2 * done.cost.shape[1], room_for))
            done = _Combinations(
                _wider(done.cost, width), _wider(done.gain, width), _wider(done.node, width), _wider(done.added, width)
            )
        if n_tree + count * n_rows > tree.shape[1]:
            tree = _wider(tree, max(n_tree + count * n_rows, min(2 * tree.shape[1], _TREE * room_for)))
        base, a, total, seen = base_N[core.step[c]], side, count, seen + 1
        for i in range(core.begin[c], core.end[c]):
            r, b = core.row[i], 3 - side - a if a != side else (side + 1) % 3
            more, gain = cost[r] - cost[base], row_reward[r] - row_reward[base]
            total = _merge(done, a, side, total, count, b, more, gain, i)
            a = b
        # keep combinations that may lead to a better choice with rows of later steps
        later, last, n = core.loss[min(c + 1, n_core - 1)], c + 1 == n_core, 0
        a_cost, a_gain, a_node, a_added = done.cost[a], done.gain[a], done.node[a], done.added[a]
        for i in range(total):
            spent, gain, node, added = a_cost[i], a_gain[i], a_node[i], a_added[i]
            if added >= 0 and spent <= room and gain > gained:
                gained, best_node, best_added = gain, node, added
            loss = max(_least_loss(price, spent, gain), 0.0) + later
            if last or _is_hopeless(above, loss, gained + tolerance):
                continue
            if added >= 0:
                tree[0, n_tree], tree[1, n_tree] = node, added
                node = n_tree
                n_tree += 1
            a_cost[n], a_gain[n], a_node[n], a_added[n] = spent, gain, node, -1
            n += 1
        side, count = a, n
        out.size_H[core.step[c]] = n
    if best_added >= 0:
        for h in range(base_N.shape[0]):
            out.row_H[h] = base_N[h]
    while best_added >= 0:
        out.row_H[core.row_step[best_added]] = core.row[best_added]
        best_added, best_node = (tree[1, best_node], tree[0, best_node]) if best_node >= 0 else (-1, -1)
    return result, gained, seen


@jit(inner=True)
def _search(items, limit, price, base_N, n_rows, same, room_for, out, halt):
    """Search for choices that are better than `base_N`, which keeps the limit; return a result of `pack`."""
    table_of_step, row_indptr, row_reward, cost, _ = items
    row_H, facts, n_steps = out.row_H, out.facts, base_N.shape[0]
    room, size, gained, n_moved, terms = limit, 0.0, 0.0, 0, 0.0
    for h in range(n_steps):
        kept = base_N[h]
        row_H[h] = kept
        best, most = kept, row_reward[kept] - price * cost[kept]
        for r in range(row_indptr[table_of_step[h]], row_indptr[table_of_step[h] + 1]):
            worth = row_reward[r] - price * cost[r]
            if worth > most + _OUTWARD * (abs(row_reward[r]) + price * cost[r]):  # not only by rounding
                best, most = r, worth
        if best != kept:
            base_N[h] = best
            gained += row_reward[kept] - row_reward[best]
            n_moved, terms = n_moved + 1, terms + abs(row_reward[kept]) + abs(row_reward[best])
        room -= cost[best]
        size += abs(row_reward[kept]) + price * cost[kept]
    # losses of all rows, and the best choice with one other row
    loss_N, at, surplus, single, single_step = np.empty(n_rows), 0, 0.0, -1, 0
    for h in range(n_steps):
        base, least = base_N[h], 0.0
        for r in range(row_indptr[table_of_step[h]], row_indptr[table_of_step[h] + 1]):
            gain, more = row_reward[r] - row_reward[base], cost[r] - cost[base]
            loss = _least_loss(price, more, gain) if r != base else 0.0
            least = min(least, loss)
            loss_N[at] = max(loss, 0.0)
            at += 1
            if more <= room and gain > gained:
                gained, single, single_step = gain, r, h
        surplus -= least
    if single >= 0:
        for h in range(n_steps):
            row_H[h] = base_N[h]
        row_H[single_step] = single
        terms += abs(row_reward[single]) + abs(row_reward[base_N[single_step]])
    above = price * room
    above += _OUTWARD * abs(above) + surplus * (1.0 + 2.0**-20)  # at least what any choice can gain
    core = _Core(
        np.empty(n_steps, np.int64), np.empty(n_steps), np.empty(n_steps, np.int64), np.empty(n_steps, np.int64),
        np.empty(n_rows, np.int64), np.empty(n_rows, np.int64),
    )  # fmt: skip
    while True:
        tolerance = same * size if facts[UNIT] == 0.0 else min(same * size, facts[UNIT] / 4)
        n_core, at, n, moved = np.int64(0), 0, 0, terms
        for h in range(n_steps):
            begin, least, largest = n, np.inf, abs(row_reward[base_N[h]])
            for r in range(row_indptr[table_of_step[h]], row_indptr[table_of_step[h] + 1]):
                if r != base_N[h] and not _is_hopeless(above, loss_N[at], gained + tolerance):
                    core.row[n], core.row_step[n] = r, h
                    least, largest, n = min(least, loss_N[at]), max(largest, abs(row_reward[r])), n + 1
                at += 1
            if n > begin:
                core.step[n_core], core.loss[n_core], core.begin[n_core], core.end[n_core] = h, least, begin, n
                n_core, moved = n_core + 1, moved + 2.0 * largest
        _sort_by_loss(core, n_core)
        result, gained, seen = _combine(
            items, base_N, core, n_core, price, room, (gained, above, tolerance), room_for, out, halt
        )
        # every gain is a sum with at most one term for each of these steps
        facts[NOISE] = 2.0**-52 * (seen + n_moved + 4) * moved + 64.0 * n_rows * _SMALLEST
        facts[TOLERANCE], facts[ABOVE] = tolerance, max(above - gained, 0.0)
        size = 0.0
        for h in range(n_steps):
            size += abs(row_reward[row_H[h]]) + price * cost[row_H[h]]
        # rows that were left out for a tolerance that has since become much smaller must be looked at again
        if result != BEST or tolerance <= 2.0 * same * size:
            return result


@jit
def pack(items, same, room_for, out, halt):
    """Find the best choice of rows.

    Parameters
    ----------
    items : Items
    same : float
        A choice counts as equal to the best one known if it is better by at most this, relative to the rewards and
        prices of that one.
    room_for : int
        The largest number of combinations at a time.
    out : Choice
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.

    Returns
    -------
    int
        One of the constants above. Unless it is NONE or UNFIT, `out` is the best choice found.
    """
    table_of_step, row_indptr, row_reward, cost, _ = items
    row_H, facts, horizon = out.row_H, out.facts, out.row_H.shape[0]
    facts[:] = 0.0
    # the choices of the largest rewards and of the least costs
    over_N, kept_N = np.empty(horizon, np.int64), np.empty(horizon, np.int64)
    over_spent, kept_spent, n_steps, n_rows = np.int64(0), np.int64(0), 0, np.int64(0)
    for h in range(horizon):
        row_H[h], out.size_H[h] = -1, 0
    for h in range(horizon):
        begin, end = row_indptr[table_of_step[h]], row_indptr[table_of_step[h] + 1]
        if begin == end:
            break
        most, least = begin, begin
        for r in range(begin, end):
            if cost[r] < 0:
                return UNFIT
            if row_reward[r] > row_reward[most] or (row_reward[r] == row_reward[most] and cost[r] < cost[most]):
                most = r
            if cost[r] < cost[least] or (cost[r] == cost[least] and row_reward[r] > row_reward[least]):
                least = r
        over_N[h], kept_N[h] = most, least
        over_spent += cost[most]
        kept_spent += cost[least]
        n_steps, n_rows = h + 1, n_rows + (end - begin)
    least_left, at_end = MINUS_INFINITY, MINUS_INFINITY
    for h in range(horizon):
        least_left = max(least_left, items.least_left[h])
        if h >= n_steps - 1:
            at_end = max(at_end, items.least_left[h])
    if at_end < least_left or least_left == MINUS_INFINITY:
        return UNFIT
    limit, result = -least_left, BEST
    if kept_spent > limit:
        return NONE
    facts[UNIT] = reward_unit(row_reward, horizon)
    for h in range(n_steps):
        best, beyond, others = -np.inf, -np.inf, kept_spent - cost[kept_N[h]]
        for r in range(row_indptr[table_of_step[h]], row_indptr[table_of_step[h] + 1]):
            if cost[r] <= limit - others:
                best = max(best, row_reward[r])
            else:
                beyond = max(beyond, row_reward[r])
        if beyond > best:  # the reward of a row that no choice within the limit has would widen the bounds
            return UNFIT
        facts[REWARD] += max(best, 0.0)
    if over_spent <= limit:
        for h in range(n_steps):
            row_H[h] = over_N[h]
    else:
        price = _price(items, limit, over_N[:n_steps], kept_N[:n_steps], halt)
        result = _search(items, limit, price, kept_N[:n_steps], n_rows, same, room_for, out, halt)
    spent = np.int64(0)
    for h in range(horizon):
        if h < n_steps:
            spent += cost[row_H[h]]
            out.size_H[h] = max(out.size_H[h], 1)
        out.spent_H[h] = spent
    return result
