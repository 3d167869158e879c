"""Kernels of the reduction: flat arrays in, flat arrays out.

A node of a layer is (state, spent_D). `COLLAPSED` in place of a resource's ticks says that it is settled there: no
continuation can break its limits any more, so all such amounts are one node. Nodes of a layer are found through an
open-addressing table of positions (`slots`, a power of two long).
"""

from __future__ import annotations

import numpy as np
from numba import prange

from solvent.plan.jit import jit

#: Open sides of limits, and of what follows from them.
UP = np.iinfo(np.int64).max
DOWN = np.iinfo(np.int64).min
#: In place of ticks: this resource is settled.
COLLAPSED = np.iinfo(np.int64).min
#: An unused entry of `slots`.
EMPTY = np.int32(-1)
#: In place of a row: the episode is over, or there is no safe way on.
TERMINAL = np.int32(-1)
DEAD_END = np.int32(-2)


@jit
def _less(limit, cost):
    return limit if limit == UP or limit == DOWN else limit - cost


@jit
def _fill_tails(upper_HD, lower_HD, out_upper_HD, out_lower_HD):
    """Write the tightest limit from each step on, which is what binds once an episode is over."""
    n_steps, n_resources = upper_HD.shape
    for d in range(n_resources):
        tightest_up, tightest_low = UP, DOWN
        for h in range(n_steps - 1, -1, -1):
            tightest_up = min(tightest_up, upper_HD[h, d])
            tightest_low = max(tightest_low, lower_HD[h, d])
            out_upper_HD[h, d], out_lower_HD[h, d] = tightest_up, tightest_low


@jit
def row_bounds(
    first_row, last_row, outcome_indptr, next_state, cost_OD, upper_D, lower_D, high_SD, low_SD, out_high_RD, out_low_RD
):
    """Write, per row, the most and least that may have been spent before it if no outcome shall break a bound.

    `high_SD` and `low_SD` bound what may have been spent on arrival in each next state.
    """
    for r in range(first_row, last_row):
        for d in range(cost_OD.shape[1]):
            most, least = UP, DOWN
            for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                cost = cost_OD[o, d]
                most = min(most, _less(min(upper_D[d], high_SD[next_state[o], d]), cost))
                least = max(least, _less(max(lower_D[d], low_SD[next_state[o], d]), cost))
            out_high_RD[r - first_row, d], out_low_RD[r - first_row, d] = most, least


@jit
def fill_bounds(
    table_of_step, row_indptr, outcome_indptr, next_state, cost_OD, upper_HD, lower_HD,
    out_safe_high, out_safe_low, out_settled_high, out_settled_low,
):  # fmt: skip
    """Write what may have been spent at each (step, state), resource by resource; arrays of shape (H + 1, S, D).

    Outside [safe_low, safe_high] even the most careful continuation breaks a limit: the node is doomed. Inside
    [settled_low, settled_high] even the most careless cannot: the resource is settled.
    """
    n_steps, n_resources = upper_HD.shape
    n_states = out_safe_high.shape[1]
    tail_upper, tail_lower = np.empty_like(upper_HD), np.empty_like(lower_HD)
    _fill_tails(upper_HD, lower_HD, tail_upper, tail_lower)
    out_safe_high[n_steps], out_safe_low[n_steps] = UP, DOWN
    out_settled_high[n_steps], out_settled_low[n_steps] = UP, DOWN
    for h in range(n_steps - 1, -1, -1):
        for s in range(n_states):
            first = table_of_step[h] * n_states + s
            terminal = row_indptr[first] == row_indptr[first + 1]
            for d in range(n_resources):
                if terminal:
                    out_safe_high[h, s, d] = out_settled_high[h, s, d] = tail_upper[h, d]
                    out_safe_low[h, s, d] = out_settled_low[h, s, d] = tail_lower[h, d]
                    continue
                safe_high, safe_low, settled_high, settled_low = DOWN, UP, UP, DOWN
                for r in range(row_indptr[first], row_indptr[first + 1]):
                    row_high, row_low = UP, DOWN
                    for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                        cost, after = cost_OD[o, d], next_state[o]
                        row_high = min(row_high, _less(min(upper_HD[h, d], out_safe_high[h + 1, after, d]), cost))
                        row_low = max(row_low, _less(max(lower_HD[h, d], out_safe_low[h + 1, after, d]), cost))
                        high = min(upper_HD[h, d], out_settled_high[h + 1, after, d])
                        low = max(lower_HD[h, d], out_settled_low[h + 1, after, d])
                        settled_high = min(settled_high, _less(high, cost))
                        settled_low = max(settled_low, _less(low, cost))
                    safe_high, safe_low = max(safe_high, row_high), min(safe_low, row_low)
                out_safe_high[h, s, d], out_safe_low[h, s, d] = safe_high, safe_low
                out_settled_high[h, s, d], out_settled_low[h, s, d] = settled_high, settled_low


@jit
def fill_plain_bounds(table_of_step, row_indptr, upper_HD, lower_HD, out_safe_high, out_safe_low):
    """Write the bounds of the paper's plain layers: nothing is looked ahead, except where the episode is over."""
    n_steps = upper_HD.shape[0]
    n_states = out_safe_high.shape[1]
    tail_upper, tail_lower = np.empty_like(upper_HD), np.empty_like(lower_HD)
    _fill_tails(upper_HD, lower_HD, tail_upper, tail_lower)
    out_safe_high[:], out_safe_low[:] = UP, DOWN
    for h in range(n_steps):
        for s in range(n_states):
            first = table_of_step[h] * n_states + s
            if row_indptr[first] == row_indptr[first + 1]:
                out_safe_high[h, s], out_safe_low[h, s] = tail_upper[h], tail_lower[h]


@jit
def _slot(state, spent, mask):
    mixed = np.uint64(state + 1) * np.uint64(0x9E3779B97F4A7C15)
    for d in range(spent.shape[0]):
        mixed ^= np.uint64(spent[d])
        mixed *= np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed & np.uint64(mask))


@jit
def find(state, spent, node_state, node_spent, slots):
    """Return the position of a node in its layer, or that of the empty slot's sentinel."""
    mask = slots.shape[0] - 1
    at = _slot(state, spent, mask)
    while slots[at] != EMPTY:
        i = slots[at]
        if node_state[i] == state:
            same = True
            for d in range(spent.shape[0]):
                if node_spent[i, d] != spent[d]:
                    same = False
                    break
            if same:
                return i
        at = (at + 1) & mask
    return EMPTY


@jit
def fill_slots(node_state, node_spent, count, slots):
    """Enter the first `count` nodes into an empty table."""
    mask = slots.shape[0] - 1
    for i in range(count):
        at = _slot(node_state[i], node_spent[i], mask)
        while slots[at] != EMPTY:
            at = (at + 1) & mask
        slots[at] = i


@jit
def arrive(spent, cost_OD, o, settled_low_D, settled_high_D, out_spent):
    """Write what has been spent after an outcome, settled resources collapsed."""
    for d in range(spent.shape[0]):
        ticks = spent[d]
        if ticks != COLLAPSED:
            ticks += cost_OD[o, d]
            if settled_low_D[d] <= ticks <= settled_high_D[d]:
                ticks = COLLAPSED
        out_spent[d] = ticks


@jit
def allows(spent, low_D, high_D):
    """Whether every resource that still matters lies within bounds."""
    for d in range(spent.shape[0]):
        if spent[d] != COLLAPSED and not low_D[d] <= spent[d] <= high_D[d]:
            return False
    return True


@jit
def expand(
    node_state, node_spent, begin, row_indptr, outcome_indptr, next_state, cost_OD, row_low_RD, row_high_RD,
    settled_low_SD, settled_high_SD, first_row, count, out_state, out_spent, slots,
):  # fmt: skip
    """Add to the next layer everything that safe rows of the nodes from `begin` on can lead to.

    Returns the number of nodes in the next layer and the node at which room ran out (or the number of nodes).
    """
    n_resources = node_spent.shape[1]
    mask = slots.shape[0] - 1
    room = min(out_state.shape[0], slots.shape[0] // 2)
    spent = np.empty(n_resources, np.int64)
    for i in range(begin, node_state.shape[0]):
        s = node_state[i]
        for r in range(row_indptr[s], row_indptr[s + 1]):
            if not allows(node_spent[i], row_low_RD[r - first_row], row_high_RD[r - first_row]):
                continue
            for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                after = next_state[o]
                arrive(node_spent[i], cost_OD, o, settled_low_SD[after], settled_high_SD[after], spent)
                at = _slot(after, spent, mask)
                known = False
                while slots[at] != EMPTY:
                    j = slots[at]
                    if out_state[j] == after:
                        known = True
                        for d in range(n_resources):
                            if out_spent[j, d] != spent[d]:
                                known = False
                                break
                        if known:
                            break
                    at = (at + 1) & mask
                if not known:
                    if count >= room:
                        return count, i
                    slots[at] = count
                    out_state[count] = after
                    for d in range(n_resources):
                        out_spent[count, d] = spent[d]
                    count += 1
    return count, node_state.shape[0]


def _sweep(
    node_state, node_spent, row_indptr, outcome_indptr, probability, next_state, row_reward, cost_OD,
    row_low_RD, row_high_RD, ends_low_SD, ends_high_SD, settled_low_SD, settled_high_SD, first_row,
    next_node_state, next_node_spent, next_slots, next_value, out_value, out_row,
):  # fmt: skip
    """Write the value and the best row of each node of a layer, from the values of the next.

    An empty `next_value` says that this is the last step, after which everything is worth 0.
    """
    last = next_value.shape[0] == 0
    for i in prange(node_state.shape[0]):
        s = node_state[i]
        if row_indptr[s] == row_indptr[s + 1]:
            over = allows(node_spent[i], ends_low_SD[s], ends_high_SD[s])
            out_value[i] = 0.0 if over else -np.inf
            out_row[i] = TERMINAL if over else DEAD_END
            continue
        best, best_row = -np.inf, DEAD_END
        spent = np.empty(node_spent.shape[1], np.int64)
        for r in range(row_indptr[s], row_indptr[s + 1]):
            if not allows(node_spent[i], row_low_RD[r - first_row], row_high_RD[r - first_row]):
                continue
            value = row_reward[r]
            if not last:
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    after = next_state[o]
                    arrive(node_spent[i], cost_OD, o, settled_low_SD[after], settled_high_SD[after], spent)
                    j = find(after, spent, next_node_state, next_node_spent, next_slots)
                    value += probability[o] * next_value[j]
            if value > best:
                best, best_row = value, np.int32(r)
        out_value[i], out_row[i] = best, best_row


sweep = jit(_sweep)
sweep_parallel = jit(_sweep, parallel=True)


@jit
def follow(
    node_spent, node_row, weight, most_ND, least_ND, outcome_indptr, probability, next_state, cost_OD,
    settled_low_SD, settled_high_SD, next_node_state, next_node_spent, next_slots,
    out_weight, out_most, out_least, peak_D, trough_D, ended_most_D, ended_least_D,
):  # fmt: skip
    """Carry probability and the extremes of true spending from a layer to the next along the chosen rows.

    Writes the extremes over all of them after this step into `peak_D` and `trough_D`, and those of episodes that are
    over into `ended_most_D` and `ended_least_D`. The next layer is empty at the last step.
    """
    n_resources = node_spent.shape[1]
    spent = np.empty(n_resources, np.int64)
    for i in range(node_row.shape[0]):
        if weight[i] == 0.0:
            continue
        r = node_row[i]
        if r < 0:
            for d in range(n_resources):
                ended_most_D[d] = max(ended_most_D[d], most_ND[i, d])
                ended_least_D[d] = min(ended_least_D[d], least_ND[i, d])
            continue
        for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
            for d in range(n_resources):
                peak_D[d] = max(peak_D[d], most_ND[i, d] + cost_OD[o, d])
                trough_D[d] = min(trough_D[d], least_ND[i, d] + cost_OD[o, d])
            if next_slots.shape[0] == 0:
                continue
            after = next_state[o]
            arrive(node_spent[i], cost_OD, o, settled_low_SD[after], settled_high_SD[after], spent)
            j = find(after, spent, next_node_state, next_node_spent, next_slots)
            # probabilities may underflow to 0, but a node once reached stays reached
            out_weight[j] += max(weight[i] * probability[o], 5e-324)
            for d in range(n_resources):
                out_most[j, d] = max(out_most[j, d], most_ND[i, d] + cost_OD[o, d])
                out_least[j, d] = min(out_least[j, d], least_ND[i, d] + cost_OD[o, d])
