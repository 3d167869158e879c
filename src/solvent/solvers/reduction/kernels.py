"""Kernels of the reduction.

A node of a layer is (state, spent_D). `COLLAPSED` in place of a resource's ticks means that the resource is settled: no
continuation can break its limits, so all such amounts are one node. Nodes of a layer are found through a table of
positions (`slots`): one entry per key of a grid or, without a grid, an open-addressing hash table whose length is a
power of two. Where few of them are looked up, they are found by bisection, as layers are sorted.

Kernels that take `halt` return early once `halt[0]` is set; their results are then incomplete.
"""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit
from solvent.policy.locate import COLLAPSED
from solvent.solvers.bounds.kernels import SMALLEST_FLOAT, clamped

#: Largest number of amounts on the grid for which averages over next states are stored by amount.
_AVERAGED_AMOUNTS = 1 << 16
#: An unused entry of `slots`.
EMPTY = np.int32(-1)
#: In place of a row: the episode has ended, or no row is safe.
TERMINAL = np.int32(-1)
DEAD_END = np.int32(-2)


@jit(inline="always")
def _key(state, spent_ND, i, grid):
    """Return the position of the node (state, spent_ND[i]) on the grid, or its hash if there is no grid.

    `grid` is that of `NodeIndex`.
    """
    n_resources = spent_ND.shape[1]
    if grid[0] > 0:
        key = state * grid[0]
        for d in range(n_resources):
            ticks = spent_ND[i, d]
            if ticks != COLLAPSED:
                key += (ticks - grid[1 + d] + 1) * grid[1 + n_resources + d]
        return key
    mixed = np.uint64(state + 1) * np.uint64(0x9E3779B97F4A7C15)
    for d in range(n_resources):
        mixed ^= np.uint64(spent_ND[i, d])
        mixed *= np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed >> np.uint64(1))


@jit(inline="always")
def _probe(key, state, spent_ND, i, node_state, node_spent, slots):
    """Return the slot of the node (state, spent_ND[i]), or the empty slot for it if the layer does not have it."""
    mask = slots.shape[0] - 1
    at = key & mask
    while slots[at] != EMPTY:
        j = slots[at]
        if node_state[j] == state:
            same = True
            for d in range(spent_ND.shape[1]):
                if node_spent[j, d] != spent_ND[i, d]:
                    same = False
                    break
            if same:
                break
        at = (at + 1) & mask
    return at


@jit(inline="always")
def find(state, spent_ND, i, node_state, node_spent, slots, grid):
    """Return the position of the node (state, spent_ND[i]) in a layer; `EMPTY` if the layer does not have it."""
    at = _key(state, spent_ND, i, grid)
    if grid[0] == 0:
        at = _probe(at, state, spent_ND, i, node_state, node_spent, slots)
    return slots[at]


@jit(inline="always")
def enter(i, node_state, node_spent, slots, grid):
    """Enter node `i` of a layer into its table unless an equal node is there; return whether it was new."""
    at = _key(node_state[i], node_spent, i, grid)
    if grid[0] == 0:
        at = _probe(at, node_state[i], node_spent, i, node_state, node_spent, slots)
    if slots[at] != EMPTY:
        return False
    slots[at] = i
    return True


@jit
def fill_slots(nodes, count, halt):
    """Enter the first `count` nodes of a `NodeIndex`, all different, into its empty table."""
    for i in range(count):
        if halt[0]:
            return
        enter(i, nodes.state, nodes.spent_ND, nodes.slots, nodes.grid)


@jit(inline="always")
def arrive(spent_ND, i, costs, o, state, nodes, out_ND, j):
    """Write the amounts spent after outcome `o` at node `i`, settled resources collapsed, to row `j` of `out_ND`.

    The outcome leads to a state of `nodes`, the next layer.
    """
    for d in range(spent_ND.shape[1]):
        ticks = spent_ND[i, d]
        if ticks != COLLAPSED:
            ticks = clamped(ticks + costs.cost_OD[o, d], costs.floor_D[d], costs.ceiling_D[d])
            if nodes.settled_low_SD[state, d] <= ticks <= nodes.settled_high_SD[state, d]:
                ticks = COLLAPSED
        out_ND[j, d] = ticks


@jit(inline="always")
def allows(spent_ND, i, low_KD, high_KD, k):
    """Return whether every resource of node `i` that is not settled lies within row `k` of the bounds."""
    for d in range(spent_ND.shape[1]):
        if spent_ND[i, d] != COLLAPSED and not low_KD[k, d] <= spent_ND[i, d] <= high_KD[k, d]:
            return False
    return True


@jit(inner=True)
def next_node(spent_ND, i, costs, o, state, nodes, scratch):
    """Return the position of the node, in a state of the next layer, that outcome `o` leads to from node `i`."""
    arrive(spent_ND, i, costs, o, state, nodes, scratch, 0)
    return find(state, scratch, 0, nodes.state, nodes.spent_ND, nodes.slots, nodes.grid)


@jit(inner=True)
def _pick_safe(begin, end, spent_ND, low_KD, high_KD, k, out_safe):
    """List the nodes from `begin` to `end` that row `k` of the bounds allows; return their number."""
    count = 0
    for i in range(begin, end):
        if allows(spent_ND, i, low_KD, high_KD, k):
            out_safe[count] = i
            count += 1
    return count


@jit(inline="always")
def _key_after(spent_ND, i, cost_OD, saturates, floor_D, ceiling_D, o, state, settled_low_SD, settled_high_SD, grid):
    """Return the grid key of the node, in a state of the next layer, that outcome `o` leads to from node `i`."""
    n_resources = spent_ND.shape[1]
    key = state * grid[0]
    for d in range(n_resources):
        ticks = spent_ND[i, d]
        if ticks != COLLAPSED:
            ticks += cost_OD[o, d]
            if saturates:  # the same for all nodes, so that plain resources take no time for it
                ticks = clamped(ticks, floor_D[d], ceiling_D[d])
            if not settled_low_SD[state, d] <= ticks <= settled_high_SD[state, d]:
                key += (ticks - grid[1 + d] + 1) * grid[1 + n_resources + d]
    return key


@jit(inline="always")
def _amount_after(spent_ND, i, cost_KD, floor_D, ceiling_D, c, grid):
    """Return the position on the grid, within any state, of the amounts spent after cost `c` at node `i`.

    A safe amount outside the grid, on either side, is settled in every state that the row leads to, so all of them
    share the position of settled amounts.
    """
    n_resources = spent_ND.shape[1]
    position = 0
    for d in range(n_resources):
        ticks = spent_ND[i, d]
        if ticks != COLLAPSED:
            digit = clamped(ticks + cost_KD[c, d], floor_D[d], ceiling_D[d]) - grid[1 + d] + 1
            last = grid[0] if d == n_resources - 1 else grid[2 + n_resources + d]
            if 1 <= digit < last // grid[1 + n_resources + d]:
                position += digit * grid[1 + n_resources + d]
    return position


@jit(inner=True)
def widest(indptr, begin, end):
    """Return the largest difference of consecutive entries of `indptr`, from entry `begin` to entry `end`."""
    most = 0
    for i in range(begin, end):
        most = max(most, indptr[i + 1] - indptr[i])
    return most


@jit(inner=True)
def _averaged_amounts(grid, distribution_indptr):
    """Return the number of amounts on the grid; 0 if there are too many, or no cost distributions to average over."""
    return grid[0] if grid[0] <= _AVERAGED_AMOUNTS and distribution_indptr.shape[0] > 1 else 0


@jit
def mark(begin_state, end_state, nodes, model, costs, bounds, independent, after, out_marks, halt):
    """Mark on the grid every node that safe rows of the nodes of some states can lead to.

    For rows with a cost distribution, each distinct amount is combined with all next states once.

    Parameters
    ----------
    begin_state, end_state : int
    nodes : LayerNodes
    model : ModelArrays
    costs : TickCosts
    bounds : LayerBounds
    independent : IndependentRows
    after : NodeIndex
        Next layer, still without nodes.
    out_marks : ndarray of bool
    halt : ndarray of bool
    """
    node_indptr, spent_ND, row_indptr, grid = nodes.indptr, nodes.spent_ND, bounds.row_indptr, after.grid
    row_low_RD, row_high_RD = bounds.row_low_RD, bounds.row_high_RD
    settled_low_SD, settled_high_SD = after.settled_low_SD, after.settled_high_SD
    outcome_indptr, next_state = model.outcome_indptr, model.next_state
    cost_OD, floor_D, ceiling_D, saturates = costs
    distribution_R, next_count_R, marginal_state, _, distributions = independent
    cost_indptr, cost_KD, _ = distributions
    n_amounts = _averaged_amounts(grid, cost_indptr)
    safe = np.empty(widest(node_indptr, begin_state, end_state), np.int64)
    stamp, now = np.zeros(n_amounts, np.int64), 0
    for s in range(begin_state, end_state):
        for r in range(row_indptr[s], row_indptr[s + 1]):
            begin, end = node_indptr[s], node_indptr[s + 1]
            count = _pick_safe(begin, end, spent_ND, row_low_RD, row_high_RD, r - row_indptr[0], safe)
            first, distribution = outcome_indptr[r], distribution_R[r]
            if n_amounts > 0 and distribution >= 0:
                now += 1
                for k in range(count):
                    if halt[0]:
                        return
                    for c in range(cost_indptr[distribution], cost_indptr[distribution + 1]):
                        amount = _amount_after(spent_ND, safe[k], cost_KD, floor_D, ceiling_D, c, grid)
                        if stamp[amount] == now:
                            continue
                        stamp[amount] = now
                        for m in range(first, first + next_count_R[r]):
                            state = marginal_state[m]
                            key = _key_after(
                                spent_ND, safe[k], cost_KD, saturates, floor_D, ceiling_D, c, state, settled_low_SD,
                                settled_high_SD, grid,
                            )  # fmt: skip
                            out_marks[key] = True
                continue
            for o in range(first, outcome_indptr[r + 1]):
                if halt[0]:
                    return
                state = next_state[o]
                for k in range(count):
                    key = _key_after(
                        spent_ND, safe[k], cost_OD, saturates, floor_D, ceiling_D, o, state, settled_low_SD,
                        settled_high_SD, grid,
                    )  # fmt: skip
                    out_marks[key] = True


@jit
def count_marks(marks):
    """Return the number of marked keys."""
    count = 0
    for key in range(marks.shape[0]):
        count += marks[key]
    return count


@jit
def collect(marks, grid, out_nodes):
    """List the marked nodes, state by state, and clear the marks."""
    indptr, spent_ND = out_nodes.indptr, out_nodes.spent_ND
    n_resources = spent_ND.shape[1]
    count = 0
    for s in range(indptr.shape[0] - 1):
        indptr[s] = count
        for position in range(grid[0]):
            if marks[s * grid[0] + position]:
                marks[s * grid[0] + position] = False
                rest = position
                for d in range(n_resources - 1, -1, -1):
                    digit = rest // grid[1 + n_resources + d]
                    rest -= digit * grid[1 + n_resources + d]
                    spent_ND[count, d] = COLLAPSED if digit == 0 else digit - 1 + grid[1 + d]
                count += 1
    indptr[indptr.shape[0] - 1] = count


@jit
def expand(begin_state, nodes, model, costs, bounds, count, out_nodes, halt):
    """Add to the next layer, by hash, every node that safe rows of the nodes of states from `begin_state` lead to.

    Parameters
    ----------
    begin_state : int
    nodes : LayerNodes
    model : ModelArrays
    costs : TickCosts
    bounds : LayerBounds
    count : int
        Number of nodes already in the next layer.
    out_nodes : NodeIndex
        Next layer.
    halt : ndarray of bool

    Returns
    -------
    count : int
        Number of nodes in the next layer.
    state : int
        State at which `out_nodes` was full; the number of states if all were expanded.
    """
    node_indptr, spent_ND, row_indptr = nodes.indptr, nodes.spent_ND, bounds.row_indptr
    row_low_RD, row_high_RD = bounds.row_low_RD, bounds.row_high_RD
    out_state, out_spent_ND, slots, grid = out_nodes.state, out_nodes.spent_ND, out_nodes.slots, out_nodes.grid
    room = min(out_state.shape[0], slots.shape[0] // 2)
    n_states = node_indptr.shape[0] - 1
    safe = np.empty(widest(node_indptr, begin_state, n_states), np.int64)
    for s in range(begin_state, n_states):
        for r in range(row_indptr[s], row_indptr[s + 1]):
            begin, end = node_indptr[s], node_indptr[s + 1]
            n_safe = _pick_safe(begin, end, spent_ND, row_low_RD, row_high_RD, r - row_indptr[0], safe)
            for o in range(model.outcome_indptr[r], model.outcome_indptr[r + 1]):
                if halt[0]:
                    return count, s
                state = model.next_state[o]
                for k in range(n_safe):
                    if count >= room:
                        return count, s
                    out_state[count] = state
                    arrive(spent_ND, safe[k], costs, o, state, out_nodes, out_spent_ND, count)
                    if enter(count, out_state, out_spent_ND, slots, grid):
                        count += 1
    return count, n_states


@jit
def sort_amounts(indptr, spent_ND, out_order, halt):
    """Sort the nodes of each state by their amounts, first by those of the last resource, settled ones first.

    This is the order of `collect`.

    Parameters
    ----------
    indptr : ndarray of int64, shape (S + 1,)
    spent_ND : ndarray of int64, shape (N, D)
    out_order : ndarray of int64, shape (N,)
        Positions of the nodes, grouped by state.
    halt : ndarray of bool
    """
    count = out_order.shape[0]
    first = np.zeros(count, np.bool_)  # of those that are equal so far
    for s in range(indptr.shape[0] - 1):
        if indptr[s] < indptr[s + 1]:
            first[indptr[s]] = True
    for d in range(spent_ND.shape[1] - 1, -1, -1):
        begin = 0
        while begin < count:
            if halt[0]:
                return
            end = begin + 1
            while end < count and not first[end]:
                end += 1
            if end - begin > 1:
                before = out_order[begin:end].copy()
                ticks = np.empty(end - begin, np.int64)
                for k in range(end - begin):
                    ticks[k] = spent_ND[before[k], d]
                rank = np.argsort(ticks)
                for k in range(end - begin):
                    out_order[begin + k] = before[rank[k]]
                    if k > 0 and ticks[rank[k]] != ticks[rank[k - 1]]:
                        first[begin + k] = True
            begin = end


@jit
def put_values(nodes, value, grid, out_value):
    """Write the values of a layer's nodes to their keys on the grid."""
    for s in range(nodes.indptr.shape[0] - 1):
        for i in range(nodes.indptr[s], nodes.indptr[s + 1]):
            out_value[_key(s, nodes.spent_ND, i, grid)] = value[i]


@jit
def choose_rows(begin_state, end_state, nodes, model, costs, bounds, independent, after, out_choices, halt):
    """Write the value and the best row of each node of some states, from the values of the next layer.

    On a grid, the value of a row with a cost distribution is averaged over next states once for each amount, then over
    costs.

    Parameters
    ----------
    begin_state, end_state : int
    nodes : LayerNodes
    model : ModelArrays
    costs : TickCosts
    bounds : LayerBounds
    independent : IndependentRows
    after : NextValues
    out_choices : NodeChoices
        `reward_S` is only raised.
    halt : ndarray of bool
    """
    node_indptr, spent_ND, row_indptr = nodes.indptr, nodes.spent_ND, bounds.row_indptr
    row_low_RD, row_high_RD = bounds.row_low_RD, bounds.row_high_RD
    out_value, out_row, out_reward_S = out_choices.value, out_choices.row, out_choices.reward_S
    outcome_indptr, next_nodes, next_value, grid = model.outcome_indptr, after.nodes, after.value, after.nodes.grid
    settled_low_SD, settled_high_SD = next_nodes.settled_low_SD, next_nodes.settled_high_SD
    next_state, probability, row_reward = model.next_state, model.probability, model.row_reward
    cost_OD, floor_D, ceiling_D, saturates = costs
    distribution_R, next_count_R, marginal_state, marginal_probability, distributions = independent
    cost_indptr, cost_KD, cost_probability = distributions
    end_value = model.end_value
    last = next_value.shape[0] == 0
    most = widest(node_indptr, begin_state, end_state)
    n_amounts = _averaged_amounts(grid, cost_indptr)
    safe = np.empty(most, np.int64)
    total = np.empty(most)
    scratch = np.empty((1, spent_ND.shape[1]), np.int64)
    average, stamp, now = np.empty(n_amounts), np.zeros(n_amounts, np.int64), 0
    for s in range(begin_state, end_state):
        begin, end = node_indptr[s], node_indptr[s + 1]
        if row_indptr[s] == row_indptr[s + 1]:
            for i in range(begin, end):
                may_end = end_value[s] > -np.inf and allows(spent_ND, i, bounds.end_low_SD, bounds.end_high_SD, s)
                out_value[i] = end_value[s] if may_end else -np.inf
                out_row[i] = TERMINAL if may_end else DEAD_END
            continue
        for i in range(begin, end):
            out_value[i], out_row[i] = -np.inf, DEAD_END
        for r in range(row_indptr[s], row_indptr[s + 1]):
            count = _pick_safe(begin, end, spent_ND, row_low_RD, row_high_RD, r - row_indptr[0], safe)
            reward, first, distribution = row_reward[r], outcome_indptr[r], distribution_R[r]
            if last:
                start = reward
                for o in range(first, outcome_indptr[r + 1]):
                    start += probability[o] * end_value[next_state[o]]
            else:
                start = reward
            for k in range(count):
                total[k] = start
            if not last and n_amounts > 0 and distribution >= 0:
                now += 1
                for k in range(count):
                    if halt[0]:
                        return
                    for c in range(cost_indptr[distribution], cost_indptr[distribution + 1]):
                        amount = _amount_after(spent_ND, safe[k], cost_KD, floor_D, ceiling_D, c, grid)
                        if stamp[amount] != now:
                            stamp[amount], average[amount] = now, 0.0
                            for m in range(first, first + next_count_R[r]):
                                state = marginal_state[m]
                                key = _key_after(
                                    spent_ND, safe[k], cost_KD, saturates, floor_D, ceiling_D, c, state,
                                    settled_low_SD, settled_high_SD, grid,
                                )  # fmt: skip
                                average[amount] += marginal_probability[m] * next_value[key]
                        total[k] += cost_probability[c] * average[amount]
            elif not last:
                for o in range(first, outcome_indptr[r + 1]):
                    if halt[0]:
                        return
                    state, p = next_state[o], probability[o]
                    if grid[0] > 0:
                        for k in range(count):
                            key = _key_after(
                                spent_ND, safe[k], cost_OD, saturates, floor_D, ceiling_D, o, state, settled_low_SD,
                                settled_high_SD, grid,
                            )  # fmt: skip
                            total[k] += p * next_value[key]
                    else:
                        for k in range(count):
                            j = next_node(spent_ND, safe[k], costs, o, state, next_nodes, scratch)
                            total[k] += p * next_value[j]
            alive = False
            for k in range(count):
                alive |= total[k] > -np.inf
                if total[k] > out_value[safe[k]]:
                    out_value[safe[k]], out_row[safe[k]] = total[k], r
            if alive:
                out_reward_S[s] = max(out_reward_S[s], reward)


@jit(inner=True)
def _position(state, scratch, nodes):
    """Return the position of the node (state, scratch[0]) among sorted ones; `EMPTY` if it is not there."""
    spent_ND, n_resources = nodes.spent_ND, scratch.shape[1]
    low, high = nodes.indptr[state], nodes.indptr[state + 1]
    while low < high:
        middle = (low + high) // 2
        order = 0
        for d in range(n_resources - 1, -1, -1):
            if spent_ND[middle, d] != scratch[0, d]:
                order = 1 if spent_ND[middle, d] > scratch[0, d] else -1
                break
        if order == 0:
            return middle
        if order > 0:
            high = middle
        else:
            low = middle + 1
    return np.int64(EMPTY)


@jit
def follow(spent_ND, row, reached, model, costs, after, out_reached, out_extremes, halt):
    """Carry probability and bounds on true spending from a layer to the next along the chosen rows.

    Parameters
    ----------
    spent_ND : ndarray of int64
        Nodes of the layer.
    row : ndarray of int32, shape (N,)
        Row to take at each node; negative where the episode has ended.
    reached : ReachedNodes
    model : ModelArrays
    costs : OutcomeCosts
    after : SortedNodes
        Nodes of the next layer; empty at the last step.
    out_reached : ReachedNodes
        For the next layer.
    out_extremes : SpentExtremes
        Only widened.
    halt : ndarray of bool
    """
    n_resources = spent_ND.shape[1]
    probability, most_ND, least_ND = reached.probability, reached.most_ND, reached.least_ND
    out_probability, out_most_ND, out_least_ND = out_reached.probability, out_reached.most_ND, out_reached.least_ND
    counted, true, extremes = costs.counted, costs.true, out_extremes
    scratch = np.empty((1, n_resources), np.int64)
    most_D, least_D = np.empty(n_resources, np.int64), np.empty(n_resources, np.int64)
    for i in range(row.shape[0]):
        if halt[0]:
            return
        if probability[i] == 0.0:
            continue
        r = row[i]
        if r < 0:
            for d in range(n_resources):
                extremes.ended_peak_D[d] = max(extremes.ended_peak_D[d], most_ND[i, d])
                extremes.ended_trough_D[d] = min(extremes.ended_trough_D[d], least_ND[i, d])
            continue
        for o in range(model.outcome_indptr[r], model.outcome_indptr[r + 1]):
            for d in range(n_resources):
                most_D[d] = clamped(most_ND[i, d] + true.high_OD[o, d], true.high_floor_D[d], true.high_ceiling_D[d])
                least_D[d] = clamped(least_ND[i, d] + true.low_OD[o, d], true.low_floor_D[d], true.low_ceiling_D[d])
                extremes.peak_D[d] = max(extremes.peak_D[d], most_D[d])
                extremes.trough_D[d] = min(extremes.trough_D[d], least_D[d])
            if after.spent_ND.shape[0] == 0:
                continue
            state = model.next_state[o]
            arrive(spent_ND, i, counted, o, state, after, scratch, 0)
            j = _position(state, scratch, after)
            # a probability may underflow to 0, but a node that is reached must keep a positive one
            out_probability[j] += max(probability[i] * model.probability[o], SMALLEST_FLOAT)
            for d in range(n_resources):
                out_most_ND[j, d] = max(out_most_ND[j, d], most_D[d])
                out_least_ND[j, d] = min(out_least_ND[j, d], least_D[d])
