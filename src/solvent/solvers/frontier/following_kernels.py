"""Kernels that follow a frontier's policy from the start, carrying probability and what is truly spent.

Nodes are told apart by what is left as counted; each carries the probability of reaching it, which is 0 only if it
cannot be reached, and the most and the least that any history that ends in it has truly spent. The expected reward of
each step and its expected absolute value are summed on the way.
"""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit
from solvent.solvers.bounds.kernels import DOWN, UP
from solvent.solvers.frontier.point_kernels import last_within
from solvent.solvers.reduction.kernels import EMPTY, enter, find

#: A probability may underflow, but what can be reached stays reachable.
_LEAST = 5e-324


@jit(inline="always")
def _span(cost):
    """Return the least and the greatest cost."""
    least, most = UP, DOWN
    for o in range(cost.shape[0]):
        least, most = min(least, cost[o]), max(most, cost[o])
    return least, most


@jit
def follow_on_grid(
    start, left, indptr_HS, need, row, outcome_indptr, probability, next_state, row_reward, cost, most_keys, out_used,
    out_reward_H, out_size_H, out_least_H, out_most_H, halt,
):  # fmt: skip
    """Mark the points that are followed from the start with `left`, and write what can be left after each step.

    Nodes are entries of a table of all states and amounts; amounts and points of a state both increase, so that one
    walk finds the point of each. Returns False, with nothing of use written, if the table would have more than
    `most_keys` entries or `halt[0]` is set.
    """
    n_steps, n_states = out_least_H.shape[0], indptr_HS.shape[1] - 1
    cheapest, dearest = _span(cost)
    lowest, width = left, 1
    weight = np.zeros(n_states)
    weight[start] = 1.0
    ended_least, ended_most = UP, DOWN
    for h in range(n_steps):
        reward = size = 0.0
        next_lowest = lowest - dearest
        next_width = width + (dearest - cheapest)
        if next_width < 1 or next_width > most_keys // n_states:
            return False
        after = np.zeros(n_states * next_width if h + 1 < n_steps else 0)
        least, most = UP, DOWN
        for s in range(n_states):
            if halt[0]:
                return False
            j, end = indptr_HS[h, s], indptr_HS[h, s + 1]
            for place in range(width):
                w = weight[s * width + place]
                if w == 0.0:
                    continue
                amount = lowest + place
                while j + 1 < end and need[j + 1] <= amount:
                    j += 1
                out_used[j] = True
                r = row[j]
                if r < 0:
                    ended_least, ended_most = min(ended_least, amount), max(ended_most, amount)
                    continue
                reward += w * row_reward[r]
                size += w * abs(row_reward[r])
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    rest = amount - cost[o]
                    least, most = min(least, rest), max(most, rest)
                    if h + 1 < n_steps:
                        passed = w * probability[o]
                        at = next_state[o] * next_width + rest - next_lowest
                        after[at] += passed if passed > 0.0 else _LEAST
        out_reward_H[h], out_size_H[h] = reward, size
        out_least_H[h], out_most_H[h] = min(least, ended_least), max(most, ended_most)
        if least == UP:
            for later in range(h, n_steps):
                out_least_H[later], out_most_H[later] = ended_least, ended_most
            return True
        # only what was reached is looked at in the next step
        weight, lowest, width = after, next_lowest, next_width
        if h + 1 < n_steps and most - least + 1 < width:
            narrow = most - least + 1
            for s in range(n_states):
                for place in range(narrow):
                    weight[s * narrow + place] = after[s * width + least - lowest + place]
            lowest, width = least, narrow
    return True


@jit
def carry_on_grid(
    start, left, indptr_HS, need, row, outcome_indptr, probability, next_state, row_reward, cost, high, low,
    most_keys, out_used, out_reward_H, out_size_H, out_peak_H, out_trough_H, halt,
):  # fmt: skip
    """Mark the points that are followed, and write the most and the least truly spent after each step.

    Returns False, with nothing of use written, if the table would have more than `most_keys` entries or `halt[0]` is
    set.
    """
    n_steps, n_states = out_peak_H.shape[0], indptr_HS.shape[1] - 1
    cheapest, dearest = _span(cost)
    lowest, width = left, 1
    weight, most, least = np.zeros(n_states), np.full(n_states, DOWN), np.full(n_states, UP)
    weight[start] = 1.0
    most[start] = least[start] = 0
    ended_most, ended_least = DOWN, UP
    for h in range(n_steps):
        out_reward_H[h] = out_size_H[h] = 0.0
        next_lowest, next_width = lowest - dearest, width + (dearest - cheapest)
        if next_width < 1 or next_width > most_keys // n_states:
            return False
        size = n_states * next_width if h + 1 < n_steps else 0
        after, after_most, after_least = np.zeros(size), np.full(size, DOWN), np.full(size, UP)
        peak, trough, first, last = DOWN, UP, UP, DOWN
        for s in range(n_states):
            if halt[0]:
                return False
            j, end = indptr_HS[h, s], indptr_HS[h, s + 1]
            for place in range(width):
                i = s * width + place
                if most[i] == DOWN:
                    continue
                amount = lowest + place
                while j + 1 < end and need[j + 1] <= amount:
                    j += 1
                out_used[j] = True
                r = row[j]
                if r < 0:
                    ended_most, ended_least = max(ended_most, most[i]), min(ended_least, least[i])
                    continue
                out_reward_H[h] += weight[i] * row_reward[r]
                out_size_H[h] += weight[i] * abs(row_reward[r])
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    above, below, rest = most[i] + high[o], least[i] + low[o], amount - cost[o]
                    peak, trough = max(peak, above), min(trough, below)
                    first, last = min(first, rest), max(last, rest)
                    if h + 1 < n_steps:
                        at = next_state[o] * next_width + rest - next_lowest
                        after[at] += weight[i] * probability[o]
                        after_most[at], after_least[at] = max(after_most[at], above), min(after_least[at], below)
        out_peak_H[h], out_trough_H[h] = max(peak, ended_most), min(trough, ended_least)
        if last == DOWN:
            for later in range(h, n_steps):
                out_peak_H[later], out_trough_H[later] = ended_most, ended_least
            return True
        weight, most, least, lowest, width = after, after_most, after_least, next_lowest, next_width
        if h + 1 < n_steps and last - first + 1 < width:
            # only what was reached is looked at in the next step
            narrow = last - first + 1
            for s in range(n_states):
                for place in range(narrow):
                    weight[s * narrow + place] = after[s * width + first - lowest + place]
                    most[s * narrow + place] = after_most[s * width + first - lowest + place]
                    least[s * narrow + place] = after_least[s * width + first - lowest + place]
            lowest, width = first, narrow
    return True


@jit
def carry_by_hash(
    start, left, indptr_HS, need, row, outcome_indptr, probability, next_state, row_reward, cost, high, low, most_nodes,
    out_used, out_reward_H, out_size_H, out_peak_H, out_trough_H, halt,
):  # fmt: skip
    """Do the same with nodes in a hash table.

    Returns whether that was possible with at most `most_nodes` distinct nodes in a step and before `halt[0]` was set.
    """
    n_steps = out_peak_H.shape[0]
    node_state, node_left = np.full(1, start, np.int32), np.full((1, 1), left, np.int64)
    weight, most, least = np.ones(1), np.zeros(1, np.int64), np.zeros(1, np.int64)
    ended_most, ended_least = DOWN, UP
    no_grid = np.zeros(1, np.int64)
    for h in range(n_steps):
        out_reward_H[h] = out_size_H[h] = 0.0
        indptr, room = indptr_HS[h], 0
        taken = np.empty(node_state.shape[0], np.int32)
        for i in range(node_state.shape[0]):
            if halt[0]:
                return False
            s = node_state[i]
            j = last_within(need, indptr[s], indptr[s + 1], node_left[i, 0])
            out_used[j] = True
            taken[i] = row[j]
            if row[j] >= 0:
                room += outcome_indptr[row[j] + 1] - outcome_indptr[row[j]]
        room = min(room, most_nodes) + 1
        size = 16
        while size < 2 * room:
            size *= 2
        slots = np.full(size, EMPTY, np.int32)
        after_state, after_left = np.empty(room, np.int32), np.empty((room, 1), np.int64)
        after, after_most, after_least = np.empty(room), np.empty(room, np.int64), np.empty(room, np.int64)
        count, peak, trough = 0, DOWN, UP
        for i in range(node_state.shape[0]):
            if halt[0]:
                return False
            r = taken[i]
            if r < 0:
                ended_most, ended_least = max(ended_most, most[i]), min(ended_least, least[i])
                continue
            out_reward_H[h] += weight[i] * row_reward[r]
            out_size_H[h] += weight[i] * abs(row_reward[r])
            for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                above, below = most[i] + high[o], least[i] + low[o]
                peak, trough = max(peak, above), min(trough, below)
                if h + 1 == n_steps:
                    continue
                if count >= most_nodes:
                    return False
                after_left[count, 0] = node_left[i, 0] - cost[o]
                after_state[count] = next_state[o]
                if enter(count, after_state, after_left, slots, no_grid):
                    after[count], after_most[count], after_least[count] = weight[i] * probability[o], above, below
                    count += 1
                else:
                    at = find(next_state[o], after_left, count, after_state, after_left, slots, no_grid)
                    after[at] += weight[i] * probability[o]
                    after_most[at], after_least[at] = max(after_most[at], above), min(after_least[at], below)
        out_peak_H[h], out_trough_H[h] = max(peak, ended_most), min(trough, ended_least)
        weight = after[:count].copy()
        node_state, node_left = after_state[:count].copy(), after_left[:count].copy()
        most, least = after_most[:count].copy(), after_least[:count].copy()
    return True
