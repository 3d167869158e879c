"""Kernels of the reduction: flat arrays in, flat arrays out.

A node of a layer is (state, spent_D). `COLLAPSED` in place of a resource's ticks says that it is settled there: no
continuation can break its limits any more, so all such amounts are one node. Nodes of a layer are found through an
open-addressing table of positions (`slots`, a power of two long).
"""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit

#: In place of ticks: this resource is settled.
COLLAPSED = np.iinfo(np.int64).min
#: With at most so many amounts on the grid, averages over next states are kept by amount.
_AVERAGED_AMOUNTS = 1 << 16
#: An unused entry of `slots`.
EMPTY = np.int32(-1)
#: In place of a row: the episode is over, or there is no safe way on.
TERMINAL = np.int32(-1)
DEAD_END = np.int32(-2)


@jit(inline="always")
def _key(state, spent_ND, i, grid):
    """Return where a node stands on the grid, or a hash of it where there is no grid.

    `grid` holds the number of keys per state, then the lowest ticks and the stride of each resource; a first entry of 0
    says that the amounts are too scattered for a grid.
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
    """Return the slot that holds the node (state, spent_ND[i]) of a layer, or the empty one where it would go."""
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
    """Return the position in a layer of the node (state, spent_ND[i]); `EMPTY` if it is not there."""
    at = _key(state, spent_ND, i, grid)
    if grid[0] == 0:
        at = _probe(at, state, spent_ND, i, node_state, node_spent, slots)
    return slots[at]


@jit(inline="always")
def enter(i, node_state, node_spent, slots, grid):
    """Enter node `i` of a layer into its table unless an equal one is there; returns whether it was new."""
    at = _key(node_state[i], node_spent, i, grid)
    if grid[0] == 0:
        at = _probe(at, node_state[i], node_spent, i, node_state, node_spent, slots)
    if slots[at] != EMPTY:
        return False
    slots[at] = i
    return True


@jit
def fill_slots(node_state, node_spent, count, slots, grid, halt):
    """Enter the first `count` nodes, all different, into an empty table; ends early once `halt[0]` is set."""
    for i in range(count):
        if halt[0]:
            return
        enter(i, node_state, node_spent, slots, grid)


@jit(inline="always")
def arrive(spent_ND, i, cost_OD, o, after, settled_low_SD, settled_high_SD, out_ND, j):
    """Write what has been spent after an outcome, settled resources collapsed, into row j of `out_ND`."""
    for d in range(spent_ND.shape[1]):
        ticks = spent_ND[i, d]
        if ticks != COLLAPSED:
            ticks += cost_OD[o, d]
            if settled_low_SD[after, d] <= ticks <= settled_high_SD[after, d]:
                ticks = COLLAPSED
        out_ND[j, d] = ticks


@jit(inline="always")
def allows(spent_ND, i, low_KD, high_KD, k):
    """Whether every resource that still matters lies within row k of the bounds."""
    for d in range(spent_ND.shape[1]):
        if spent_ND[i, d] != COLLAPSED and not low_KD[k, d] <= spent_ND[i, d] <= high_KD[k, d]:
            return False
    return True


@jit(inner=True)
def _pick_safe(begin, end, node_spent, low_KD, high_KD, k, out_safe):
    """List the nodes from `begin` to `end` that row k of the bounds allows; returns their number."""
    count = 0
    for i in range(begin, end):
        if allows(node_spent, i, low_KD, high_KD, k):
            out_safe[count] = i
            count += 1
    return count


@jit(inline="always")
def _key_after(node_spent, i, cost_OD, o, after, settled_low_SD, settled_high_SD, grid):
    """Return the key of where an outcome leads to from node i, on the grid."""
    n_resources = node_spent.shape[1]
    key = after * grid[0]
    for d in range(n_resources):
        ticks = node_spent[i, d]
        if ticks != COLLAPSED:
            ticks += cost_OD[o, d]
            if not settled_low_SD[after, d] <= ticks <= settled_high_SD[after, d]:
                key += (ticks - grid[1 + d] + 1) * grid[1 + n_resources + d]
    return key


@jit(inline="always")
def _amount_after(node_spent, i, cost_KD, c, grid):
    """Return the place on the grid, whatever the state, of what has been spent after a cost.

    A safe amount outside the grid, on either side, is settled in every state that the row leads to, so all of them
    share the place of settled amounts.
    """
    n_resources = node_spent.shape[1]
    place = 0
    for d in range(n_resources):
        ticks = node_spent[i, d]
        if ticks != COLLAPSED:
            digit = ticks + cost_KD[c, d] - grid[1 + d] + 1
            last = grid[0] if d == n_resources - 1 else grid[2 + n_resources + d]
            if 1 <= digit < last // grid[1 + n_resources + d]:
                place += digit * grid[1 + n_resources + d]
    return place


@jit(inner=True)
def widest(indptr, begin, end):
    """Return the length of the longest of some stretches, each of which ends where the next begins."""
    most = 0
    for i in range(begin, end):
        most = max(most, indptr[i + 1] - indptr[i])
    return most


@jit(inner=True)
def _averaged_amounts(grid, law_indptr):
    """Return by how many amounts to keep what rows share: all on the grid, or 0 if too many or no row would use it."""
    return grid[0] if grid[0] <= _AVERAGED_AMOUNTS and law_indptr.shape[0] > 1 else 0


@jit
def mark(
    begin_state, end_state, node_indptr, node_spent, row_indptr, outcome_indptr, next_state, cost_OD, row_low_RD,
    row_high_RD, settled_low_SD, settled_high_SD, first_row, grid,
    law, mix_count, mix_state, mix_probability, law_indptr, law_cost_KD, law_probability, marks, halt,
):  # fmt: skip
    """Mark on the grid everything that safe rows of the nodes of some states can lead to.

    Of rows with a law of costs of their own, each amount is taken to all next states once. Ends early once `halt[0]`
    is set.
    """
    n_amounts = _averaged_amounts(grid, law_indptr)
    safe = np.empty(widest(node_indptr, begin_state, end_state), np.int64)
    stamp, now = np.zeros(n_amounts, np.int64), 0
    for s in range(begin_state, end_state):
        for r in range(row_indptr[s], row_indptr[s + 1]):
            count = _pick_safe(
                node_indptr[s], node_indptr[s + 1], node_spent, row_low_RD, row_high_RD, r - first_row, safe
            )
            if n_amounts > 0 and law[r] >= 0:
                now += 1
                first = outcome_indptr[r]
                for k in range(count):
                    if halt[0]:
                        return
                    for c in range(law_indptr[law[r]], law_indptr[law[r] + 1]):
                        amount = _amount_after(node_spent, safe[k], law_cost_KD, c, grid)
                        if stamp[amount] == now:
                            continue
                        stamp[amount] = now
                        for m in range(first, first + mix_count[r]):
                            key = _key_after(
                                node_spent, safe[k], law_cost_KD, c, mix_state[m], settled_low_SD, settled_high_SD,
                                grid,
                            )  # fmt: skip
                            marks[key] = True
                continue
            for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                if halt[0]:
                    return
                after = next_state[o]
                for k in range(count):
                    key = _key_after(node_spent, safe[k], cost_OD, o, after, settled_low_SD, settled_high_SD, grid)
                    marks[key] = True


@jit
def count_marks(marks):
    """Return how many keys are marked."""
    count = 0
    for key in range(marks.shape[0]):
        count += marks[key]
    return count


@jit
def collect(marks, grid, out_indptr, out_spent):
    """List the marked nodes, state by state, and wipe the marks."""
    n_resources = out_spent.shape[1]
    count = 0
    for s in range(out_indptr.shape[0] - 1):
        out_indptr[s] = count
        for place in range(grid[0]):
            if marks[s * grid[0] + place]:
                marks[s * grid[0] + place] = False
                rest = place
                for d in range(n_resources - 1, -1, -1):
                    digit = rest // grid[1 + n_resources + d]
                    rest -= digit * grid[1 + n_resources + d]
                    out_spent[count, d] = COLLAPSED if digit == 0 else digit - 1 + grid[1 + d]
                count += 1
    out_indptr[out_indptr.shape[0] - 1] = count


@jit
def expand(
    begin_state, node_indptr, node_spent, row_indptr, outcome_indptr, next_state, cost_OD, row_low_RD, row_high_RD,
    settled_low_SD, settled_high_SD, first_row, grid, count, out_state, out_spent, slots, halt,
):  # fmt: skip
    """Add to the next layer, by hash, everything that safe rows of the nodes of states from `begin_state` on lead to.

    Returns the number of nodes in the next layer and the state at which room ran out (or the number of states).
    Ends early once `halt[0]` is set.
    """
    room = min(out_state.shape[0], slots.shape[0] // 2)
    n_states = node_indptr.shape[0] - 1
    safe = np.empty(widest(node_indptr, begin_state, n_states), np.int64)
    for s in range(begin_state, n_states):
        for r in range(row_indptr[s], row_indptr[s + 1]):
            n_safe = _pick_safe(
                node_indptr[s], node_indptr[s + 1], node_spent, row_low_RD, row_high_RD, r - first_row, safe
            )
            for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                if halt[0]:
                    return count, s
                after = next_state[o]
                for k in range(n_safe):
                    if count >= room:
                        return count, s
                    out_state[count] = after
                    arrive(node_spent, safe[k], cost_OD, o, after, settled_low_SD, settled_high_SD, out_spent, count)
                    if enter(count, out_state, out_spent, slots, grid):
                        count += 1
    return count, n_states


@jit
def put_values(node_indptr, node_spent, value, grid, out_value):
    """Write a layer's values to their places on the grid."""
    for s in range(node_indptr.shape[0] - 1):
        for i in range(node_indptr[s], node_indptr[s + 1]):
            out_value[_key(s, node_spent, i, grid)] = value[i]


@jit
def sweep(
    begin_state, end_state, node_indptr, node_spent, row_indptr, outcome_indptr, probability, next_state, row_reward,
    cost_OD, row_low_RD, row_high_RD, ends_low_SD, ends_high_SD, settled_low_SD, settled_high_SD, first_row, last,
    law, mix_count, mix_state, mix_probability, law_indptr, law_cost_KD, law_probability,
    grid, next_node_state, next_node_spent, next_slots, next_value, out_value, out_row, out_reward_S, halt,
):  # fmt: skip
    """Write the value and the best row of each node of some states, from the values of the next layer.

    The largest reward of a row that leads on somewhere in a state, if above what `out_reward_S` holds, is written
    there.

    On a grid, `next_value` holds them by key, and rows with a law of costs of their own are averaged over next states
    once for each amount, then over costs. Else it holds them by position, which `next_slots` gives. After the `last`
    step everything is worth 0. Ends early once `halt[0]` is set.
    """
    most = widest(node_indptr, begin_state, end_state)
    n_amounts = _averaged_amounts(grid, law_indptr)
    safe = np.empty(most, np.int64)
    total = np.empty(most)
    spent = np.empty((1, node_spent.shape[1]), np.int64)
    average, stamp, now = np.empty(n_amounts), np.zeros(n_amounts, np.int64), 0
    for s in range(begin_state, end_state):
        begin, end = node_indptr[s], node_indptr[s + 1]
        if row_indptr[s] == row_indptr[s + 1]:
            for i in range(begin, end):
                over = allows(node_spent, i, ends_low_SD, ends_high_SD, s)
                out_value[i] = 0.0 if over else -np.inf
                out_row[i] = TERMINAL if over else DEAD_END
            continue
        for i in range(begin, end):
            out_value[i], out_row[i] = -np.inf, DEAD_END
        for r in range(row_indptr[s], row_indptr[s + 1]):
            count = _pick_safe(begin, end, node_spent, row_low_RD, row_high_RD, r - first_row, safe)
            for k in range(count):
                total[k] = row_reward[r]
            if not last and n_amounts > 0 and law[r] >= 0:
                now += 1
                begin_mix = outcome_indptr[r]
                for k in range(count):
                    if halt[0]:
                        return
                    for c in range(law_indptr[law[r]], law_indptr[law[r] + 1]):
                        amount = _amount_after(node_spent, safe[k], law_cost_KD, c, grid)
                        if stamp[amount] != now:
                            stamp[amount], average[amount] = now, 0.0
                            for m in range(begin_mix, begin_mix + mix_count[r]):
                                key = _key_after(
                                    node_spent, safe[k], law_cost_KD, c, mix_state[m], settled_low_SD,
                                    settled_high_SD, grid,
                                )  # fmt: skip
                                average[amount] += mix_probability[m] * next_value[key]
                        total[k] += law_probability[c] * average[amount]
            elif not last:
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    if halt[0]:
                        return
                    after, p = next_state[o], probability[o]
                    if grid[0] > 0:
                        for k in range(count):
                            key = _key_after(
                                node_spent, safe[k], cost_OD, o, after, settled_low_SD, settled_high_SD, grid
                            )
                            total[k] += p * next_value[key]
                    else:
                        for k in range(count):
                            arrive(node_spent, safe[k], cost_OD, o, after, settled_low_SD, settled_high_SD, spent, 0)
                            j = find(after, spent, 0, next_node_state, next_node_spent, next_slots, grid)
                            total[k] += p * next_value[j]
            alive = False
            for k in range(count):
                alive |= total[k] > -np.inf
                if total[k] > out_value[safe[k]]:
                    out_value[safe[k]], out_row[safe[k]] = total[k], r
            if alive:
                out_reward_S[s] = max(out_reward_S[s], row_reward[r])


@jit
def follow(
    node_spent, node_row, weight, most_ND, least_ND, outcome_indptr, probability, next_state, cost_OD, high_OD, low_OD,
    settled_low_SD, settled_high_SD, next_node_state, next_node_spent, next_slots, grid,
    out_weight, out_most, out_least, peak_D, trough_D, ended_most_D, ended_least_D, halt,
):  # fmt: skip
    """Carry probability and the extremes of true spending from a layer to the next along the chosen rows.

    Nodes go by `cost_OD`; what is truly spent lies between `low_OD` and `high_OD`, in ticks of its own. Writes the
    extremes over all nodes after this step into `peak_D` and `trough_D`, and those of episodes that are over into
    `ended_most_D` and `ended_least_D`. The next layer is empty at the last step. Ends early once `halt[0]` is set.
    """
    n_resources = node_spent.shape[1]
    spent = np.empty((1, n_resources), np.int64)
    for i in range(node_row.shape[0]):
        if halt[0]:
            return
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
                peak_D[d] = max(peak_D[d], most_ND[i, d] + high_OD[o, d])
                trough_D[d] = min(trough_D[d], least_ND[i, d] + low_OD[o, d])
            if next_node_state.shape[0] == 0:
                continue
            after = next_state[o]
            arrive(node_spent, i, cost_OD, o, after, settled_low_SD, settled_high_SD, spent, 0)
            j = find(after, spent, 0, next_node_state, next_node_spent, next_slots, grid)
            # probabilities may underflow to 0, but a node once reached stays reached
            out_weight[j] += max(weight[i] * probability[o], 5e-324)
            for d in range(n_resources):
                out_most[j, d] = max(out_most[j, d], most_ND[i, d] + high_OD[o, d])
                out_least[j, d] = min(out_least[j, d], least_ND[i, d] + low_OD[o, d])
