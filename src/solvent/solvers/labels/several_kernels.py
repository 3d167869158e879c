"""Kernels of the label-setting search on a network: prices of the sides, and labels carried from level to level.

At prices p >= 0 of the sides, a path that has arrived at a place with amounts x can still earn at most

    W_p(place) + sum over sides of p (final - x),     W_p = max over arcs of  reward - p cost + W_p after the arc,

because no path within the limits ends with more than `final`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.jit import jit
from solvent.solvers.bounds.kernels import clamped, highest_before
from solvent.solvers.labels.kernels import select
from solvent.solvers.labels.network_kernels import fill_amounts

#: Added to a bound for each operation, relative to its terms: more than rounding can have taken off.
_OUTWARD = 2.0**-51
#: Entries of `Labels.counts`: the next level, the labels so far, those made before any was left out, and what there was
#: too little room for; then the best path: its last label, the row after that, the place it leads to, and the price
#: whose best arcs complete it (-1 for a path that ends there).
LEVEL, LABELS, MADE, SHORT, BEST_LABEL, BEST_ROW, BEST_PLACE, BEST_PRICE = 0, 1, 2, 3, 4, 5, 6, 7
#: What there was too little room for: nothing, the labels, or the candidates of one place.
FITS, NO_ROOM, NO_SCRATCH = 0, 1, 2
#: Entries of `Labels.best`: the value of the best path, and the highest bound of a label left out for lack of room.
BEST, CUT = 0, 1
#: Number of labels of a place, the best first, with which another one is compared.
_COMPARED = 256
#: Number of candidates from which those with equal amounts are merged before they are compared.
_MANY = 128
#: Relative difference up to which values on a network with cycles count as equal.
_SAME = 2.0**-46
#: Iterations without a lower bound after which prices change by smaller steps, and the smallest of these.
_PATIENCE, _SMALLEST_STEP = 3, 0.01

#: Iterations between two removals of arcs, and a number of arcs so small that better prices do not matter.
_EVERY, _FEW = 8, 32


class Prices(NamedTuple):
    """Prices of the sides, and what is earned at each of them from each place on.

    Attributes
    ----------
    bound_M : ndarray of float64, shape (M,)
        Upper bounds on the value of any path; infinity for slots that are not in use.
    price_MK : ndarray of float64, shape (M, K)
    value_MV : ndarray of float64, shape (M, V)
        Upper bounds on the largest sum of rewards minus the price of all costs, with no limits.
    earned_MV : ndarray of float64, shape (M, V)
        The sum of rewards alone, on the path that attains it.
    want_MVK : ndarray of int64, shape (M, V, K)
        The most with which that path keeps all limits.
    next_row_MV, next_place_MV : ndarray of int32, shape (M, V)
        The first arc of that path; -1 if it ends.
    """

    bound_M: NDArray[np.float64]
    price_MK: NDArray[np.float64]
    value_MV: NDArray[np.float64]
    earned_MV: NDArray[np.float64]
    want_MVK: NDArray[np.int64]
    next_row_MV: NDArray[np.int32]
    next_place_MV: NDArray[np.int32]


class Labels(NamedTuple):
    """All labels of a search, sorted by level, place, and falling bound.

    Attributes
    ----------
    begin, end : ndarray of int64, shape (2, V)
        Labels of each place. With cycles, levels are numbers of arcs, and those of even and odd levels alternate.
    amount : ndarray of int64, shape (N, K)
    value, bound : ndarray of float64, shape (N,)
        Rewards so far, and an upper bound on the value of a path through the label.
    parent : ndarray of int64, shape (N,)
        Position of the previous label; -1 at the start.
    row : ndarray of int32, shape (N,)
        The row that leads from there to this label.
    older : ndarray of int64, shape (N,)
        With cycles, another label of the same place that has no more arcs; -1 for none.
    newest : ndarray of int64, shape (V,)
        With cycles, the label of each place that was made last; -1 for none.
    size_L : ndarray of int64, shape (L,)
        Number of labels of each level.
    counts : ndarray of int64, shape (8,)
    best : ndarray of float64, shape (2,)
        Entries of both are named by the constants above.
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    amount: NDArray[np.int64]
    value: NDArray[np.float64]
    bound: NDArray[np.float64]
    parent: NDArray[np.int64]
    row: NDArray[np.int32]
    older: NDArray[np.int64]
    newest: NDArray[np.int64]
    size_L: NDArray[np.int64]
    counts: NDArray[np.int64]
    best: NDArray[np.float64]


class Candidates(NamedTuple):
    """Labels that arrive at one place, before any is compared with others; `slot` is a hash table."""

    amount: NDArray[np.int64]
    value: NDArray[np.float64]
    bound: NDArray[np.float64]
    parent: NDArray[np.int64]
    row: NDArray[np.int32]
    slot: NDArray[np.int32]


@jit(inner=True)
def _copy(numbers, out):
    """Copy an array; the assignment of arrays takes long to compile, as it has messages about their shapes."""
    for i in range(numbers.shape[0]):
        out[i] = numbers[i]


@jit(inner=True)
def _fill_worth(network, sides, price_K, level, out_worth_R):
    """Write upper bounds on the reward minus the price of each row that leads to a level."""
    row_reward, cost_RK, last_K = network.row_reward, network.cost_RK, sides.last_K
    n_sides = cost_RK.shape[1]
    outward = _OUTWARD * (n_sides + 1)
    for r in range(row_reward.shape[0]):
        worth, size = row_reward[r], abs(row_reward[r])
        for k in range(n_sides):
            if level <= last_K[k]:
                paid = price_K[k] * cost_RK[r, k]
                worth -= paid
                size += abs(paid)
        out_worth_R[r] = worth + outward * size


@jit(inline="always")
def _changes(last_K, level):
    """Whether some price counts on arrival at a level, but not at the next one."""
    changes = False
    for k in range(last_K.shape[0]):
        changes = changes or last_K[k] == level
    return changes


@jit(inner=True)
def _sweep_back(network, sides, m, worth_R, out_prices, halt):
    """Raise what is earned at price m along all arcs, from the last place to the first; see `_fill_values`."""
    level_indptr, arc_indptr, arc_end, tail, row = (
        network.level_indptr, network.arc_indptr, network.arc_end, network.tail, network.row,
    )  # fmt: skip
    n_levels, outward = level_indptr.shape[0] - 1, 0.0 if network.is_cyclic else _OUTWARD
    value, next_row, next_place = out_prices.value_MV[m], out_prices.next_row_MV[m], out_prices.next_place_MV[m]
    changed = False
    for h in range(n_levels - 1, 0, -1):
        if halt[0]:
            return False
        if h == n_levels - 1 or _changes(sides.last_K, h):
            _fill_worth(network, sides, out_prices.price_MK[m], h, worth_R)
        for v in range(level_indptr[h + 1] - 1, level_indptr[h] - 1, -1):
            best = value[v]
            if best == -np.inf:
                continue
            for a in range(arc_indptr[v], arc_end[v]):
                worth = worth_R[row[a]] + best
                worth += outward * abs(worth)
                u = tail[a]
                if worth > value[u] and (
                    not network.is_cyclic or value[u] == -np.inf or worth - value[u] > _SAME * abs(worth)
                ):
                    value[u], next_row[u], next_place[u], changed = worth, row[a], v, True
    return changed and network.is_cyclic


@jit(inner=True)
def _slack(network, value_V, worth_R):
    """Return by how much values on a network with cycles, where bounds are not rounded outward, may be too small."""
    size = 0.0
    for v in range(value_V.shape[0]):
        if value_V[v] != -np.inf:
            size = max(size, abs(value_V[v]))
    largest = 0.0
    for r in range(worth_R.shape[0]):
        largest = max(largest, abs(worth_R[r]))
    return 2 * _SAME * value_V.shape[0] * (size + largest)


@jit(inner=True)
def _fill_values(network, sides, m, complete, worth_R, out_prices, halt):
    """Write what is earned at price m; `earned_MV` and `want_MVK` only if `complete`.

    With cycles, arcs are followed until nothing changes by more than a share `_SAME`; the errors of all arcs of a path
    are then added to all values.
    """
    value, end_value = out_prices.value_MV[m], network.end_value
    out_prices.next_row_MV[m, :], out_prices.next_place_MV[m, :] = -1, -1
    _copy(end_value, value)
    while _sweep_back(network, sides, m, worth_R, out_prices, halt):
        pass
    if network.is_cyclic:
        value += _slack(network, value, worth_R)
    if complete and not halt[0]:
        _complete(network, sides, m, out_prices)


@jit(inner=True)
def _complete(network, sides, m, out_prices):
    """Write `earned_MV` and `want_MVK` of price m from its best arcs."""
    row_reward, cost_RK, end_value = network.row_reward, network.cost_RK, network.end_value
    earned, want = out_prices.earned_MV[m], out_prices.want_MVK[m]
    next_row, next_place = out_prices.next_row_MV[m], out_prices.next_place_MV[m]
    n_places, n_sides = end_value.shape[0], cost_RK.shape[1]
    stack, done = np.empty(n_places, np.int64), np.zeros(n_places, np.bool_)
    level = network.level_indptr.shape[0] - 2
    for first in range(n_places - 1, -1, -1):
        v, depth = np.int64(first), 0
        while not done[v] and depth < n_places:
            stack[depth] = v
            depth += 1
            if next_row[v] < 0:
                break
            v = next_place[v]
        while network.level_indptr[level] > first:
            level -= 1
        looping = depth == n_places and not done[v] and next_row[v] >= 0  # by rounding errors only
        while depth > 0:
            depth -= 1
            v = stack[depth]
            r, w, h = next_row[v], next_place[v], level
            done[v] = True
            earned[v] = -np.inf if looping else end_value[v] if r < 0 else row_reward[r] + earned[w]
            for k in range(n_sides):
                if earned[v] == -np.inf:
                    most = MINUS_INFINITY
                elif r < 0:
                    most = sides.end_limit_LK[h, k]
                else:
                    most = highest_before(want[w, k], cost_RK[r, k], sides.floor_K[k], sides.ceiling_K[k])
                want[v, k] = min(most, sides.limit_LK[h, k])  # on arrival


@jit(inner=True)
def _bound_at_start(sides, prices, m):
    """Return the upper bound of price m on the value of any path."""
    bound = prices.value_MV[m, 0]
    size = abs(bound)
    for k in range(sides.final_K.shape[0]):
        paid = prices.price_MK[m, k] * float(sides.final_K[k] - sides.initial_K[k])
        bound += paid
        size += abs(paid)
    return bound + _OUTWARD * (sides.final_K.shape[0] + 1) * size


@jit(inner=True)
def _sweep_ahead(network, sides, prices, m, worth_R, out_ahead_V, halt):
    """Raise what was earned at price m on arrival at each place; return whether anything changed, with cycles."""
    level_indptr, arc_indptr, arc_end, tail, row = (
        network.level_indptr, network.arc_indptr, network.arc_end, network.tail, network.row,
    )  # fmt: skip
    changed, outward = False, 0.0 if network.is_cyclic else _OUTWARD
    for h in range(1, level_indptr.shape[0] - 1):
        if halt[0]:
            return False
        if h == 1 or _changes(sides.last_K, h - 1):
            _fill_worth(network, sides, prices.price_MK[m], h, worth_R)
        for v in range(level_indptr[h], level_indptr[h + 1]):
            for a in range(arc_indptr[v], arc_end[v]):
                if out_ahead_V[tail[a]] == -np.inf:
                    continue
                arrives = out_ahead_V[tail[a]] + worth_R[row[a]]
                arrives += outward * abs(arrives)
                if arrives > out_ahead_V[v] and (
                    not network.is_cyclic
                    or out_ahead_V[v] == -np.inf
                    or arrives - out_ahead_V[v] > _SAME * abs(arrives)
                ):
                    out_ahead_V[v], changed = arrives, True
    return changed and network.is_cyclic


@jit(inner=True)
def _remove_arcs(network, sides, prices, m, least, worth_R, ahead_V, halt):
    """Remove arcs through which no path is worth more than `least` by the bound of price m."""
    level_indptr, arc_indptr, arc_end, tail, row = (
        network.level_indptr, network.arc_indptr, network.arc_end, network.tail, network.row,
    )  # fmt: skip
    value = prices.value_MV[m]
    start = _bound_at_start(sides, prices, m) - value[0]
    ahead_V[:] = -np.inf
    ahead_V[0] = start + _OUTWARD * (abs(start) + abs(value[0]))
    while _sweep_ahead(network, sides, prices, m, worth_R, ahead_V, halt):
        pass
    if halt[0]:
        return
    if network.is_cyclic:
        ahead_V += _slack(network, ahead_V, worth_R)
    for h in range(1, level_indptr.shape[0] - 1):
        if h == 1 or _changes(sides.last_K, h - 1):
            _fill_worth(network, sides, prices.price_MK[m], h, worth_R)
        for v in range(level_indptr[h], level_indptr[h + 1]):
            kept = arc_indptr[v]
            for a in range(arc_indptr[v], arc_end[v]):
                u, r = tail[a], row[a]
                through = ahead_V[u] + worth_R[r] + value[v]
                if through + _OUTWARD * (abs(ahead_V[u]) + abs(worth_R[r]) + abs(value[v])) > least:
                    tail[kept], row[kept] = u, r
                    kept += 1
            arc_end[v] = kept


@jit(inner=True)
def _walk(network, sides, prices, m, out_used_K, out_row_L):
    """Follow the best path at price m; return what it earns, its length, and whether it keeps all limits.

    The cost of each side, up to the level after which it does not matter, is written to `out_used_K`.
    """
    n_sides = out_used_K.shape[0]
    amount_K = sides.initial_K.copy()
    out_used_K[:] = 0
    place, level, length, earned, keeps = np.int64(0), 0, 0, 0.0, True
    while prices.next_row_MV[m, place] >= 0 and length < out_row_L.shape[0]:
        r = prices.next_row_MV[m, place]
        place = prices.next_place_MV[m, place]
        while network.level_indptr[level + 1] <= place:
            level += 1
        earned += network.row_reward[r]
        out_row_L[length] = r
        length += 1
        for k in range(n_sides):
            cost = network.cost_RK[r, k]
            amount_K[k] = clamped(amount_K[k] + cost, sides.floor_K[k], sides.ceiling_K[k])
            keeps = keeps and amount_K[k] <= sides.limit_LK[level, k]
            if level <= sides.last_K[k]:
                out_used_K[k] += cost
    keeps = keeps and prices.next_row_MV[m, place] < 0
    for k in range(n_sides):
        keeps = keeps and amount_K[k] <= sides.end_limit_LK[level, k]
    return earned + network.end_value[place], length, keeps


@jit(inner=True)
def _count_arcs(network):
    """Return the number of arcs that remain."""
    arcs = np.int64(0)
    for v in range(network.arc_end.shape[0]):
        arcs += network.arc_end[v] - network.arc_indptr[v]
    return arcs


@jit(inline="always")
def _insert(bound, price_K, out_prices):
    """Insert prices into those with the lowest bounds, sorted; slot 0 is left free for the next ones to try."""
    bound_M, price_MK = out_prices.bound_M, out_prices.price_MK
    m = bound_M.shape[0] - 1
    for i in range(1, m + 1):
        if bound_M[i] == bound and np.all(price_MK[i] == price_K):
            return
    if bound >= bound_M[m]:
        return
    while m > 1 and bound_M[m - 1] > bound:
        bound_M[m] = bound_M[m - 1]
        _copy(price_MK[m - 1], price_MK[m])
        m -= 1
    bound_M[m] = bound
    _copy(price_K, price_MK[m])


@jit
def prepare(network, sides, tries, known, tolerance, out_amounts, out_prices, out_row_L, halt):
    """Remove arcs that no better path can take, and find prices with low bounds on the value of any path.

    Prices are improved by subgradient steps toward the value of the best path known, from those in slot 1.

    Parameters
    ----------
    network : Network
        Arcs are removed from it.
    sides : Sides
    tries : int
        Number of prices to try.
    known : float
        Value of the best path known.
    tolerance : float
        A path must be better by more than this to be looked for.
    out_amounts : Amounts
    out_prices : Prices
        Slot 0 is used to try prices. The others are in the order of rising bounds at the start.
    out_row_L : ndarray of int32, shape (L,)
        The rows of a better path, if one is found.
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.

    Returns
    -------
    best : float
        The value of the best path.
    length : int
        Number of rows of a better path that was found; -1 if none was.
    arcs : int
        Number of arcs that remain; -1 if no path is better.
    """
    n_places, n_sides = network.end_value.shape[0], sides.final_K.shape[0]
    worth_R, ahead_V = np.empty(network.row_reward.shape[0]), np.empty(n_places)
    used_K, scale_K, price_K, row_L = (
        np.empty(n_sides, np.int64),
        np.empty(n_sides),
        np.empty(n_sides),
        out_row_L.copy(),
    )
    best, found, bound_M = known, np.int64(-1), out_prices.bound_M
    try_slot, no, yes = np.int64(0), np.bool_(False), np.bool_(True)
    for _ in range(4):
        removed = fill_amounts(network, sides, out_amounts, halt)
        for k in range(n_sides):
            if halt[0] or sides.initial_K[k] > out_amounts.safe[0, k]:
                return best, found, np.int64(-1)
        if removed == 0:
            break
    for k in range(n_sides):
        scale_K[k] = max(1.0, abs(float(sides.final_K[k] - out_amounts.least[0, k])))
    _copy(out_prices.price_MK[1], price_K)
    started = out_prices.price_MK.copy()
    slots = 0
    for m in range(1, bound_M.shape[0]):
        slots += bound_M[m] < np.inf
    bound_M[:] = np.inf
    # prices of earlier calls, on the arcs that remain
    for m in range(1, slots + 1):
        _copy(started[m], out_prices.price_MK[0])
        _fill_values(network, sides, try_slot, no, worth_R, out_prices, halt)
        if halt[0]:
            return best, found, np.int64(-1)
        _insert(_bound_at_start(sides, out_prices, try_slot), started[m], out_prices)
    if slots > 0:
        _copy(out_prices.price_MK[1], price_K)
    lowest, step, stalled = bound_M[1], 0.25 if slots > 0 else 1.0, 0
    for t in range(tries):
        _copy(price_K, out_prices.price_MK[0])
        _fill_values(network, sides, try_slot, no, worth_R, out_prices, halt)
        if halt[0]:
            return best, found, np.int64(-1)
        bound = _bound_at_start(sides, out_prices, try_slot)
        _insert(bound, price_K, out_prices)
        earned, length, keeps = _walk(network, sides, out_prices, try_slot, used_K, row_L)
        if keeps and earned > best:
            best, found = earned, np.int64(length)
            _copy(row_L[:length], out_row_L[:length])
        if min(lowest, bound) <= best + tolerance:
            return best, found, np.int64(-1)
        if best > -np.inf and t % _EVERY == _EVERY - 1:
            first_slot = np.int64(1)
            _fill_values(network, sides, first_slot, no, worth_R, out_prices, halt)
            _remove_arcs(network, sides, out_prices, first_slot, best + tolerance, worth_R, ahead_V, halt)
            if _count_arcs(network) <= _FEW:
                break
        if bound < lowest:
            lowest, stalled = bound, 0
        else:
            stalled += 1
            if stalled >= _PATIENCE:
                step, stalled = step / 2, 0
                _copy(out_prices.price_MK[1], price_K)
                if step < _SMALLEST_STEP:
                    break
        # a step against the slack of the path, where a price can change; amounts are relative to the limits
        target = best if best > -np.inf else lowest - 0.1 * max(abs(lowest), abs(earned), 1e-300)
        norm = 0.0
        for k in range(n_sides):
            slack = float(sides.final_K[k] - sides.initial_K[k] - used_K[k]) / scale_K[k]
            if sides.ceiling_K[k] == PLUS_INFINITY and (price_K[k] > 0 or slack < 0):
                norm += slack * slack
        if norm == 0:
            break
        stride = step * max(bound - target, 1e-12 * abs(bound)) / norm
        for k in range(n_sides):
            if sides.ceiling_K[k] == PLUS_INFINITY:
                slack = float(sides.final_K[k] - sides.initial_K[k] - used_K[k]) / scale_K[k]
                price_K[k] = max(price_K[k] - stride * slack / scale_K[k], 0.0)
    for m in range(1, bound_M.shape[0]):
        if bound_M[m] < np.inf:
            _fill_values(network, sides, np.int64(m), no, worth_R, out_prices, halt)
            if best > -np.inf:
                _remove_arcs(network, sides, out_prices, np.int64(m), best + tolerance, worth_R, ahead_V, halt)
    for _ in range(4):
        removed = fill_amounts(network, sides, out_amounts, halt)
        for k in range(n_sides):
            if halt[0] or sides.initial_K[k] > out_amounts.safe[0, k]:
                return best, found, np.int64(-1)
        if removed == 0:
            break
    for m in range(1, bound_M.shape[0]):
        if bound_M[m] < np.inf:
            _fill_values(network, sides, np.int64(m), yes, worth_R, out_prices, halt)
    return best, found, _count_arcs(network)


@jit(inner=True)
def _drop_equal(count, candidates):
    """Drop candidates that have the same amounts as one of no smaller value; return how many remain."""
    amount, value, bound, parent, row, slot = candidates
    n_sides = amount.shape[1]
    size = 64
    while size < 2 * count:
        size *= 2
    slot[:size] = -1
    n = 0
    for i in range(count):
        key = np.uint64(0)
        for k in range(n_sides):
            key = (key ^ np.uint64(amount[i, k])) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        at = np.int64(key & np.uint64(size - 1))
        while True:
            j = slot[at]
            if j < 0:
                break
            same = True
            for k in range(n_sides):
                same = same and amount[j, k] == amount[i, k]
            if same:
                break
            at = (at + 1) & (size - 1)
        if j < 0:
            slot[at] = j = n
            n += 1
        elif value[i] <= value[j]:
            continue
        for k in range(n_sides):
            amount[j, k] = amount[i, k]
        value[j], bound[j], parent[j], row[j] = value[i], bound[i], parent[i], row[i]
    return n


@jit(inline="always")
def _is_dominated(begin, end, amount, value, i, amount_NK, value_N):
    """Whether one of the labels from `begin` to `end` has no larger amounts and no smaller value than candidate i."""
    n_sides = amount.shape[1]
    mine, first = value[i], amount[i, 0]
    for j in range(begin, end):
        if value_N[j] >= mine and amount_NK[j, 0] <= first:
            k = 1
            while k < n_sides and amount_NK[j, k] <= amount[i, k]:
                k += 1
            if k == n_sides:
                return True
    return False


@jit(inline="always")
def _is_detour(newest, older_N, amount, value, i, amount_NK, value_N):
    """Whether a label with no more arcs, among the last ones made, has no larger amounts and no smaller value."""
    n_sides, j = amount.shape[1], newest
    for _ in range(_COMPARED):
        if j < 0:
            return False
        k = 0
        while k < n_sides and amount_NK[j, k] <= amount[i, k]:
            k += 1
        if k == n_sides and value_N[j] >= value[i]:
            return True
        j = older_N[j]
    return False


@jit(inner=True)
def _keep_best(width, first_place, last_place, begin_label, begin, end, out_labels):
    """Keep the `width` labels with the highest bounds from `begin_label` on; return the highest bound of the others."""
    _, _, amount, value, bound, parent, row, _, _, _, counts, _ = out_labels
    count = counts[LABELS]
    worst = select(bound[begin_label:count].copy(), count - begin_label - width)
    ties = width
    for i in range(begin_label, count):
        ties -= bound[i] > worst
    n, cut = begin_label, -np.inf
    for v in range(first_place, last_place):
        low, high = begin[v], end[v]
        begin[v] = n
        for i in range(low, high):
            keep = bound[i] > worst
            if bound[i] == worst and ties > 0:
                keep, ties = True, ties - 1
            if keep:
                for k in range(amount.shape[1]):
                    amount[n, k] = amount[i, k]
                value[n], bound[n], parent[n], row[n] = value[i], bound[i], parent[i], row[i]
                n += 1
            else:
                cut = max(cut, bound[i])
        end[v] = n
    counts[LABELS] = n
    return cut


@jit
def search(network, sides, amounts, prices, tolerance, width, stop, scratch, out_labels, halt):
    """Carry labels (place, amounts, value) forward level by level, up to level `stop`.

    A label is left out if another one of its place has no larger amounts and no smaller value, if the upper bound on
    what it can still earn does not make it better than the best path known, or if it is not among the `width` most
    promising labels of its level.

    Parameters
    ----------
    network : Network
    sides : Sides
    amounts : Amounts
    prices : Prices
        Slot 0 is not used. The price with the lowest bound at the start is in slot 1.
    tolerance : float
        A path must be better by more than this to be looked for.
    width : int
    stop : int
    scratch : Candidates
    out_labels : Labels
        Tells where to begin, and then how far the search has come. The kernel returns before `stop` if `counts[SHORT]`
        says that there is too little room.
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.
    """
    level_indptr, arc_indptr, arc_end, tail, row = (
        network.level_indptr, network.arc_indptr, network.arc_end, network.tail, network.row,
    )  # fmt: skip
    row_reward, cost_RK, end_value = network.row_reward, network.cost_RK, network.end_value
    safe, settled, onward = amounts.safe, amounts.settled, amounts.onward
    price_MK, value_MV, earned_MV, want_MVK = prices.price_MK, prices.value_MV, prices.earned_MV, prices.want_MVK
    limit_LK, end_limit_LK, final_K = sides.limit_LK, sides.end_limit_LK, sides.final_K
    floor_K, ceiling_K = sides.floor_K, sides.ceiling_K
    begin_2V, end_2V, amount_NK, value_N, bound_N, parent_N, row_N, older_N, newest, size_L, counts, best = out_labels
    is_cyclic = network.is_cyclic
    c_amount, c_value, c_bound, c_parent, c_row, _ = scratch
    n_prices, n_sides = np.sum(prices.bound_M < np.inf) + 1, final_K.shape[0]
    outward = _OUTWARD * (n_sides + 3)
    counts[SHORT] = FITS
    for level in range(counts[LEVEL], stop):
        counts[LEVEL] = level
        h = min(level, 1) if is_cyclic else level
        source, target = (1 - level % 2, level % 2) if is_cyclic else (0, 0)
        old_begin, old_end, begin, end = begin_2V[source], end_2V[source], begin_2V[target], end_2V[target]
        level_begin, first, last = counts[LABELS], level_indptr[h], level_indptr[h + 1]
        for v in range(first, last):
            begin[v] = end[v] = counts[LABELS]
            if halt[0]:
                return
            arriving = 0
            for a in range(arc_indptr[v], arc_end[v]):
                arriving += old_end[tail[a]] - old_begin[tail[a]]
            if arriving == 0:
                continue
            counts[MADE] += arriving
            if arriving > c_value.shape[0]:
                counts[SHORT], counts[LABELS] = NO_SCRATCH, level_begin
                return
            n = np.int64(0)
            for a in range(arc_indptr[v], arc_end[v]):
                if halt[0]:
                    return
                u, r = tail[a], row[a]
                reward = row_reward[r]
                for i in range(old_begin[u], old_end[u]):
                    fits, ends = True, end_value[v] != -np.inf
                    for k in range(n_sides):
                        x = clamped(amount_NK[i, k] + cost_RK[r, k], floor_K[k], ceiling_K[k])
                        if x > min(limit_LK[h, k], safe[v, k]):
                            fits = False
                            break
                        ends = ends and x <= end_limit_LK[h, k]
                        if x <= settled[v, k]:
                            x = settled[v, k] if settled[v, k] != PLUS_INFINITY else final_K[k]
                        c_amount[n, k] = x
                    if not fits:
                        continue
                    worth = value_N[i] + reward
                    if ends and worth + end_value[v] > best[BEST]:
                        best[BEST] = worth + end_value[v]
                        counts[BEST_LABEL], counts[BEST_ROW], counts[BEST_PLACE], counts[BEST_PRICE] = i, r, v, -1
                    if not onward[v]:
                        continue
                    most = np.inf
                    for m in range(1, n_prices):
                        bound = worth + value_MV[m, v]
                        size = abs(worth) + abs(bound)
                        for k in range(n_sides):
                            paid = price_MK[m, k] * float(final_K[k] - c_amount[n, k])
                            bound += paid
                            size += abs(paid)
                        most = min(most, bound + outward * size)
                        if most <= best[BEST] + tolerance:
                            break
                        if worth + earned_MV[m, v] > best[BEST]:
                            completes = True
                            for k in range(n_sides):
                                x = c_amount[n, k]
                                completes = completes and (x <= want_MVK[m, v, k] or x <= settled[v, k])
                            if completes:
                                best[BEST] = worth + earned_MV[m, v]
                                counts[BEST_LABEL], counts[BEST_ROW] = i, r
                                counts[BEST_PLACE], counts[BEST_PRICE] = v, m
                    if most > best[BEST] + tolerance:
                        c_value[n], c_bound[n], c_parent[n], c_row[n] = worth, most, i, r
                        n += 1
            if n == 0:
                continue
            if n > _MANY:
                n = _drop_equal(n, scratch)
            order = np.argsort(-c_bound[:n], kind="mergesort")
            made = counts[LABELS]
            for at in range(n):
                i = order[at]
                if halt[0] or c_bound[i] <= best[BEST] + tolerance:
                    break  # as are all that follow
                low = begin[v]
                if _is_dominated(low, min(made, low + _COMPARED), c_amount, c_value, i, amount_NK, value_N):
                    continue
                if is_cyclic and _is_detour(newest[v], older_N, c_amount, c_value, i, amount_NK, value_N):
                    continue
                if made - low == width:
                    best[CUT] = max(best[CUT], c_bound[i])
                    break
                if made == value_N.shape[0]:
                    counts[SHORT], counts[LABELS] = NO_ROOM, level_begin
                    return
                for k in range(n_sides):
                    amount_NK[made, k] = c_amount[i, k]
                value_N[made], bound_N[made], parent_N[made], row_N[made] = (
                    c_value[i],
                    c_bound[i],
                    c_parent[i],
                    c_row[i],
                )
                made += 1
            end[v] = counts[LABELS] = made
            if made - level_begin > 8 * width:
                best[CUT] = max(best[CUT], _keep_best(width, first, v + 1, level_begin, begin, end, out_labels))
        if counts[LABELS] - level_begin > width:
            best[CUT] = max(best[CUT], _keep_best(width, first, last, level_begin, begin, end, out_labels))
        size_L[level] = counts[LABELS] - level_begin
        if is_cyclic:
            if size_L[level] == 0:
                counts[LEVEL] = size_L.shape[0]
                return
            old_begin[0] = old_end[0] = 0
            for v in range(first, last):
                for i in range(begin[v], end[v]):
                    older_N[i], newest[v] = newest[v], i
    counts[LEVEL] = stop


@jit
def retrace(labels, prices, out_row_L):
    """Write the rows of the best path of a search; return how many these are."""
    length = 1
    label = labels.counts[BEST_LABEL]
    while labels.parent[label] >= 0:
        length, label = length + 1, labels.parent[label]
    at, label = length - 1, labels.counts[BEST_LABEL]
    out_row_L[at] = labels.counts[BEST_ROW]
    while at > 0:
        at -= 1
        out_row_L[at] = labels.row[label]
        label = labels.parent[label]
    m, place = labels.counts[BEST_PRICE], labels.counts[BEST_PLACE]
    while m >= 0 and prices.next_row_MV[m, place] >= 0:
        out_row_L[length] = prices.next_row_MV[m, place]
        length += 1
        place = prices.next_place_MV[m, place]
    return length
