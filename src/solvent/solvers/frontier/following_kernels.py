"""Kernels that follow the policy of a frontier from the start.

Nodes are distinguished by the amount left according to the costs that were planned with. Each node carries the
probability of reaching it, which is 0 only if it cannot be reached, and the most and the least that any history leading
to it has truly spent. The expected reward of each step and the expectation of its absolute value are accumulated.

All kernels have the same parameters.

Parameters
----------
starts : Starts
points : Points
model : ModelArrays
costs : FollowedCosts
size_limit : int
    The largest table, or the largest number of nodes in one step, before the kernel gives up.
out : FollowedSteps
halt : ndarray of bool, shape (1,)
    The kernel gives up once this is set.

Returns
-------
complete : bool
    Whether the policy was followed to the end; otherwise the contents of `out` are meaningless.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.jit import jit
from solvent.solvers.bounds.kernels import clamped
from solvent.solvers.frontier.point_kernels import last_within
from solvent.solvers.reduction.kernels import EMPTY

#: Probabilities may underflow, but a node that can be reached must keep a positive one.
_LEAST_PROBABILITY = 5e-324


class Starts(NamedTuple):
    """Where episodes begin.

    Attributes
    ----------
    state : ndarray of int64, shape (K,)
    probability : ndarray of float64, shape (K,)
    left : int
        The amount left.
    """

    state: NDArray[np.int64]
    probability: NDArray[np.float64]
    left: int


class FollowedCosts(NamedTuple):
    """Costs of each outcome: as planned with, and bounds on the true cost and on the true account.

    Attributes
    ----------
    cost, low, high : ndarray of int64, shape (O,)
    start_low, start_high, floor_low, floor_high, ceiling_low, ceiling_high : int
        Bounds on what has truly been spent before the first step, and on where the resource truly saturates.
    most_left : int
        The most that can be left, as planned with.
    origin : int
        The amount left, as planned with, if nothing has been spent.
    exact : bool
        Whether costs and the account are exactly what was planned with.
    """

    cost: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    start_low: int
    start_high: int
    floor_low: int
    floor_high: int
    ceiling_low: int
    ceiling_high: int
    most_left: int
    origin: int
    exact: bool


class FollowedSteps(NamedTuple):
    """What a policy does and spends.

    Attributes
    ----------
    used : ndarray of bool, shape (N,)
        Whether each point is followed; all False before the call.
    reward_H, size_H : ndarray of float64, shape (H,) or (H + 1,)
        Expected reward of each step, and expectation of its absolute value; last, those of end rewards.
    least_H, most_H : ndarray of int64, shape (H,)
        The least and the most that can have been spent after each step.
    """

    used: NDArray[np.bool_]
    reward_H: NDArray[np.float64]
    size_H: NDArray[np.float64]
    least_H: NDArray[np.int64]
    most_H: NDArray[np.int64]


@jit(inner=True, forceinline=True)
def _mass(weight, begin, stop):
    """Return the sum of a range of weights: of four sums, each of every fourth weight, in a fixed order."""
    a = b = c = d = 0.0
    whole = begin + (stop - begin) // 4 * 4
    for i in range(begin, whole, 4):
        a += weight[i]
        b += weight[i + 1]
        c += weight[i + 2]
        d += weight[i + 3]
    for i in range(whole, stop):
        a += weight[i]
    return (a + b) + (c + d)


@jit(inner=True, forceinline=True)
def _pass_on(weight, begin, stop, probability, out, out_at):
    """Add a multiple of a range of weights to another range; positive weights stay positive."""
    source, to, count = np.uintp(begin), np.uintp(out_at), np.uintp(stop - begin)
    for i in range(count):
        w = weight[source + i]
        passed = w * probability
        out[to + i] += _LEAST_PROBABILITY if w > 0.0 and passed == 0.0 else passed


@jit
def follow_runs(starts, points, model, costs, size_limit, out, halt):
    """Follow a policy under exact costs, with nodes as entries of a table of all states and amounts.

    Amounts of a state for which the same row is taken are followed together. The amount spent follows from the amount
    left. Entries are set back to 0 once they have been followed, so that both tables can be used again.
    """
    outcome_indptr, probability, next_state = model.outcome_indptr, model.probability, model.next_state
    indptr_HS, need, row, row_reward = points.indptr_HS, points.need, points.row, model.row_reward
    cost, used, origin, most_left = costs.cost, out.used, costs.origin, costs.most_left
    n_steps, n_states = out.least_H.shape[0], indptr_HS.shape[1] - 1
    smallest, largest = PLUS_INFINITY, MINUS_INFINITY
    for o in range(cost.shape[0]):
        smallest, largest = min(smallest, cost[o]), max(largest, cost[o])
    has_ends = out.reward_H.shape[0] > n_steps
    end_reward = end_size = 0.0
    lowest, width, first, last = starts.left, 1, starts.left, starts.left
    weight, after = np.zeros(n_states), np.zeros(n_states)
    # the range of amounts reached in each state
    low_S, high_S = np.full(n_states, PLUS_INFINITY), np.full(n_states, MINUS_INFINITY)
    next_low_S, next_high_S = np.full(n_states, PLUS_INFINITY), np.full(n_states, MINUS_INFINITY)
    for k in range(starts.state.shape[0]):
        weight[starts.state[k]] = starts.probability[k]
        low_S[starts.state[k]] = high_S[starts.state[k]] = starts.left
    ended_first, ended_last = PLUS_INFINITY, MINUS_INFINITY
    for h in range(n_steps):
        reward = size = 0.0
        next_lowest = min(first - largest, most_left)
        next_width = min(last - smallest, most_left) - next_lowest + 1
        if next_width < 1 or next_width > size_limit // n_states:
            return False
        if n_states * next_width > after.shape[0]:
            after = np.zeros(min(2 * n_states * next_width, max(size_limit, n_states * next_width)))
        first, last = PLUS_INFINITY, MINUS_INFINITY
        for s in range(n_states):
            high, amount, base = high_S[s], low_S[s], s * width - lowest
            if halt[0]:
                return False
            j, end = indptr_HS[h, s], indptr_HS[h, s + 1]
            while amount <= high:
                while j + 1 < end and need[j + 1] <= amount:
                    j += 1
                # all of these amounts follow point j; those at both ends are reached
                begin, stop = amount, high + 1
                if j + 1 < end:
                    stop = min(stop, need[j + 1])
                amount = stop
                while begin < stop and weight[base + begin] == 0.0:
                    begin += 1
                if begin == stop:
                    continue
                while weight[base + stop - 1] == 0.0:
                    stop -= 1
                used[j] = True
                r, mass = row[j], _mass(weight, base + begin, base + stop)
                if r < 0:
                    if has_ends:
                        end_reward += mass * model.end_value[s]
                        end_size += mass * abs(model.end_value[s])
                    ended_first, ended_last = min(ended_first, begin), max(ended_last, stop - 1)
                    continue
                reward += mass * row_reward[r]
                size += mass * abs(row_reward[r])
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    to, c, p = next_state[o], cost[o], probability[o]
                    low, top = min(begin - c, most_left), min(stop - 1 - c, most_left)
                    first, last = min(first, low), max(last, top)
                    if h + 1 == n_steps:
                        if has_ends:
                            end_reward += mass * p * model.end_value[to]
                            end_size += mass * p * abs(model.end_value[to])
                        continue
                    next_low_S[to], next_high_S[to] = min(next_low_S[to], low), max(next_high_S[to], top)
                    at = to * next_width - next_lowest
                    cut = stop if most_left == PLUS_INFINITY else max(min(stop, most_left + c + 1), begin)
                    _pass_on(weight, base + begin, base + cut, p, after, at + low)
                    for i in range(base + cut, base + stop):
                        passed = weight[i] * p
                        after[at + most_left] += _LEAST_PROBABILITY if weight[i] > 0.0 and passed == 0.0 else passed
            if low_S[s] <= high:
                for i in range(np.uintp(base + low_S[s]), np.uintp(base + high + 1)):
                    weight[i] = 0.0
            low_S[s], high_S[s] = PLUS_INFINITY, MINUS_INFINITY
        out.reward_H[h], out.size_H[h] = reward, size
        out.most_H[h], out.least_H[h] = origin - min(first, ended_first), origin - max(last, ended_last)
        if last == MINUS_INFINITY:
            for later in range(h, n_steps):
                out.most_H[later], out.least_H[later] = origin - ended_first, origin - ended_last
            break
        weight, after = after, weight
        low_S, next_low_S = next_low_S, low_S
        high_S, next_high_S = next_high_S, high_S
        lowest, width = next_lowest, next_width
    if has_ends:
        out.reward_H[n_steps], out.size_H[n_steps] = end_reward, end_size
    return True


@jit
def follow_on_grid(starts, points, model, costs, size_limit, out, halt):
    """Follow a policy under rounded costs, with nodes as entries of a table of all states and amounts.

    The amounts and the points of a state both increase, so one pass finds the point of each amount.
    """
    outcome_indptr, probability, next_state = model.outcome_indptr, model.probability, model.next_state
    indptr_HS, need, row, row_reward = points.indptr_HS, points.need, points.row, model.row_reward
    cost, low, high, used = costs.cost, costs.low, costs.high, out.used
    n_steps, n_states = out.least_H.shape[0], indptr_HS.shape[1] - 1
    smallest, largest = PLUS_INFINITY, MINUS_INFINITY
    for o in range(cost.shape[0]):
        smallest, largest = min(smallest, cost[o]), max(largest, cost[o])
    lowest, width, most_left = starts.left, 1, costs.most_left
    has_ends = out.reward_H.shape[0] > n_steps
    end_reward = end_size = 0.0
    weight = np.zeros(n_states)
    for k in range(starts.state.shape[0]):
        weight[starts.state[k]] = starts.probability[k]
    most, least = np.empty(n_states, np.int64), np.empty(n_states, np.int64)
    most[:], least[:] = costs.start_high, costs.start_low
    ended_most, ended_least = MINUS_INFINITY, PLUS_INFINITY
    for h in range(n_steps):
        reward = size = 0.0
        next_lowest = min(lowest - largest, most_left)
        next_width = min(lowest + width - 1 - smallest, most_left) - next_lowest + 1
        if next_width < 1 or next_width > size_limit // n_states:
            return False
        n_after = n_states * next_width if h + 1 < n_steps else 0
        after = np.zeros(n_after)
        after_most, after_least = np.empty(n_after, np.int64), np.empty(n_after, np.int64)
        first, last, step_most, step_least = PLUS_INFINITY, MINUS_INFINITY, MINUS_INFINITY, PLUS_INFINITY
        for s in range(n_states):
            if halt[0]:
                return False
            j, end = indptr_HS[h, s], indptr_HS[h, s + 1]
            for place in range(width):
                i = s * width + place
                w = weight[i]
                if w == 0.0:
                    continue
                amount = lowest + place
                while j + 1 < end and need[j + 1] <= amount:
                    j += 1
                used[j] = True
                r = row[j]
                if r < 0:
                    if has_ends:
                        end_reward += w * model.end_value[s]
                        end_size += w * abs(model.end_value[s])
                    ended_most, ended_least = max(ended_most, most[i]), min(ended_least, least[i])
                    continue
                reward += w * row_reward[r]
                size += w * abs(row_reward[r])
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    rest = min(amount - cost[o], most_left)
                    first, last = min(first, rest), max(last, rest)
                    above = clamped(most[i] + high[o], costs.floor_high, costs.ceiling_high)
                    below = clamped(least[i] + low[o], costs.floor_low, costs.ceiling_low)
                    step_most, step_least = max(step_most, above), min(step_least, below)
                    if h + 1 < n_steps:
                        at = next_state[o] * next_width + rest - next_lowest
                        new = after[at] == 0.0
                        after_most[at] = above if new else max(after_most[at], above)
                        after_least[at] = below if new else min(after_least[at], below)
                        passed = w * probability[o]
                        after[at] += passed if passed > 0.0 else _LEAST_PROBABILITY
                    elif has_ends:
                        end_reward += w * probability[o] * model.end_value[next_state[o]]
                        end_size += w * probability[o] * abs(model.end_value[next_state[o]])
        out.reward_H[h], out.size_H[h] = reward, size
        out.most_H[h], out.least_H[h] = max(step_most, ended_most), min(step_least, ended_least)
        if last == MINUS_INFINITY:
            for later in range(h, n_steps):
                out.most_H[later], out.least_H[later] = ended_most, ended_least
            break
        weight, most, least, lowest, width = after, after_most, after_least, next_lowest, next_width
        if h + 1 < n_steps and last - first + 1 < width:
            # the next step looks only at amounts that were reached
            narrow = last - first + 1
            for s in range(n_states):
                for place in range(narrow):
                    to, at = s * narrow + place, s * width + first - lowest + place
                    weight[to], most[to], least[to] = after[at], after_most[at], after_least[at]
            lowest, width = first, narrow
    if has_ends:
        out.reward_H[n_steps], out.size_H[n_steps] = end_reward, end_size
    return True


class _PointNodes(NamedTuple):
    """Nodes that follow each point of a step: the range of amounts left, empty if there are none; else as `_Nodes`."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    weight: NDArray[np.float64]
    most: NDArray[np.int64]
    least: NDArray[np.int64]


@jit(inner=True)
def _no_nodes(count):
    """Return a number of points that no node follows."""
    return _PointNodes(
        np.full(count, PLUS_INFINITY), np.full(count, MINUS_INFINITY), np.zeros(count),
        np.full(count, MINUS_INFINITY), np.full(count, PLUS_INFINITY),
    )  # fmt: skip


@jit
def follow_points(starts, points, model, costs, size_limit, out, halt):
    """Follow a policy, with all nodes that follow the same point as one.

    That is right if all of them follow the same point after each outcome, as they do if a point begins wherever the
    value rises: the smallest and the largest amount of a point must agree. If they do not, because a rise was too small
    for a point of its own, the kernel gives up.
    """
    outcome_indptr, probability, next_state = model.outcome_indptr, model.probability, model.next_state
    cost, low, high, row_reward = costs.cost, costs.low, costs.high, model.row_reward
    indptr_HS, need = points.indptr_HS, points.need
    n_steps, n_states = out.least_H.shape[0], indptr_HS.shape[1] - 1
    has_ends = out.reward_H.shape[0] > n_steps
    end_reward = end_size = 0.0
    ended_most, ended_least = MINUS_INFINITY, PLUS_INFINITY
    nodes = _no_nodes(indptr_HS[0, n_states] - indptr_HS[0, 0])
    for k in range(starts.state.shape[0]):
        s = starts.state[k]
        j = last_within(need, indptr_HS[0, s], indptr_HS[0, s + 1], starts.left) - indptr_HS[0, 0]
        nodes.low[j] = nodes.high[j] = starts.left
        nodes.weight[j], nodes.most[j], nodes.least[j] = starts.probability[k], costs.start_high, costs.start_low
    for h in range(n_steps):
        reward, size, most, least = 0.0, 0.0, MINUS_INFINITY, PLUS_INFINITY
        base, next_h = indptr_HS[h, 0], min(h + 1, n_steps - 1)
        next_base, n_after = indptr_HS[next_h, 0], indptr_HS[next_h, n_states] - indptr_HS[next_h, 0]
        if n_after > size_limit:
            return False
        after = _no_nodes(n_after if h + 1 < n_steps else 0)
        for s in range(n_states):
            if halt[0]:
                return False
            for i in range(indptr_HS[h, s] - base, indptr_HS[h, s + 1] - base):
                if nodes.high[i] == MINUS_INFINITY:
                    continue
                out.used[base + i] = True
                r, w = points.row[base + i], nodes.weight[i]
                if r < 0:
                    ended_most, ended_least = max(ended_most, nodes.most[i]), min(ended_least, nodes.least[i])
                    if has_ends:
                        end_reward += w * model.end_value[s]
                        end_size += w * abs(model.end_value[s])
                    continue
                reward += w * row_reward[r]
                size += w * abs(row_reward[r])
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    to = next_state[o]
                    above = clamped(nodes.most[i] + high[o], costs.floor_high, costs.ceiling_high)
                    below = clamped(nodes.least[i] + low[o], costs.floor_low, costs.ceiling_low)
                    most, least = max(most, above), min(least, below)
                    if h + 1 == n_steps:
                        if has_ends:
                            end_reward += w * probability[o] * model.end_value[to]
                            end_size += w * probability[o] * abs(model.end_value[to])
                        continue
                    lowest = min(nodes.low[i] - cost[o], costs.most_left)
                    highest = min(nodes.high[i] - cost[o], costs.most_left)
                    end = indptr_HS[h + 1, to + 1]
                    j = last_within(need, indptr_HS[h + 1, to], end, lowest)
                    if j + 1 < end and need[j + 1] <= highest:
                        return False
                    k = j - next_base
                    after.low[k], after.high[k] = min(after.low[k], lowest), max(after.high[k], highest)
                    after.most[k], after.least[k] = max(after.most[k], above), min(after.least[k], below)
                    after.weight[k] += w * probability[o]
        out.reward_H[h], out.size_H[h] = reward, size
        out.most_H[h], out.least_H[h] = max(most, ended_most), min(least, ended_least)
        nodes = after
    if has_ends:
        out.reward_H[n_steps], out.size_H[n_steps] = end_reward, end_size
    return True


class _Nodes(NamedTuple):
    """Nodes of one step: state, amount left, probability, and the most and the least truly spent."""

    state: NDArray[np.int32]
    left: NDArray[np.int64]
    weight: NDArray[np.float64]
    most: NDArray[np.int64]
    least: NDArray[np.int64]


@jit(inner=True)
def _make_nodes(room):
    """Return arrays for a number of nodes."""
    return _Nodes(
        np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64),
        np.empty(room, np.int64),
    )  # fmt: skip


@jit(inner=True)
def _slot_of(state, left, nodes, slots):
    """Return the slot that holds the position of the node (state, left), or the empty slot where it belongs."""
    mixed = (np.uint64(state + 1) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(np.int64(left))
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    mask = slots.shape[0] - 1
    slot = np.int64(mixed >> np.uint64(1)) & mask
    while slots[slot] != EMPTY and (nodes.state[slots[slot]] != state or nodes.left[slots[slot]] != left):
        slot = (slot + 1) & mask
    return slot


@jit
def follow_by_hash(starts, points, model, costs, size_limit, out, halt):
    """Follow a policy, with nodes in a hash table."""
    outcome_indptr, probability, next_state = model.outcome_indptr, model.probability, model.next_state
    cost, low, high, row_reward = costs.cost, costs.low, costs.high, model.row_reward
    n_steps = out.least_H.shape[0]
    has_ends = out.reward_H.shape[0] > n_steps
    end_reward = end_size = 0.0
    count = starts.state.shape[0]
    nodes = _make_nodes(np.int64(count))
    for k in range(count):
        nodes.state[k], nodes.left[k], nodes.weight[k] = starts.state[k], starts.left, starts.probability[k]
        nodes.most[k], nodes.least[k] = costs.start_high, costs.start_low
    ended_most, ended_least = MINUS_INFINITY, PLUS_INFINITY
    for h in range(n_steps):
        reward = size = 0.0
        room = np.int64(0)
        taken = np.empty(count, np.int32)
        for i in range(count):
            if halt[0]:
                return False
            s = nodes.state[i]
            j = last_within(points.need, points.indptr_HS[h, s], points.indptr_HS[h, s + 1], nodes.left[i])
            out.used[j] = True
            r = taken[i] = points.row[j]
            if r >= 0:
                room += outcome_indptr[r + 1] - outcome_indptr[r]
        room = min(room, size_limit) + 1
        n_slots = 16
        while n_slots < 2 * room:
            n_slots *= 2
        slots = np.empty(n_slots, np.int32)
        slots[:] = EMPTY
        after, n_after, most, least = _make_nodes(room), 0, MINUS_INFINITY, PLUS_INFINITY
        for i in range(count):
            if halt[0]:
                return False
            r, w = taken[i], nodes.weight[i]
            if r < 0:
                ended_most, ended_least = max(ended_most, nodes.most[i]), min(ended_least, nodes.least[i])
                if has_ends:
                    end_reward += w * model.end_value[nodes.state[i]]
                    end_size += w * abs(model.end_value[nodes.state[i]])
                continue
            reward += w * row_reward[r]
            size += w * abs(row_reward[r])
            for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                above = clamped(nodes.most[i] + high[o], costs.floor_high, costs.ceiling_high)
                below = clamped(nodes.least[i] + low[o], costs.floor_low, costs.ceiling_low)
                most, least = max(most, above), min(least, below)
                if h + 1 == n_steps:
                    if has_ends:
                        end_reward += w * probability[o] * model.end_value[next_state[o]]
                        end_size += w * probability[o] * abs(model.end_value[next_state[o]])
                    continue
                rest = min(nodes.left[i] - cost[o], costs.most_left)
                slot = _slot_of(next_state[o], rest, after, slots)
                k = slots[slot]
                if k == EMPTY:
                    if n_after == size_limit:
                        return False
                    k = slots[slot] = n_after
                    n_after += 1
                    after.state[k], after.left[k], after.weight[k] = next_state[o], rest, 0.0
                    after.most[k], after.least[k] = above, below
                after.weight[k] += w * probability[o]
                after.most[k], after.least[k] = max(after.most[k], above), min(after.least[k], below)
        out.reward_H[h], out.size_H[h] = reward, size
        out.most_H[h], out.least_H[h] = max(most, ended_most), min(least, ended_least)
        nodes, count = after, n_after
    if has_ends:
        out.reward_H[n_steps], out.size_H[n_steps] = end_reward, end_size
    return True
