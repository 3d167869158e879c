"""Kernels of the frontier where ticks are few: step functions as plain arrays, one value for each amount.

One resource, and `left` for what may still be spent. Of each state, amounts from `need` to `top` are worked on: below
nothing is feasible, above the value does not change any more. The arrays of all states of a step lie one after another,
each from its `offset`.
"""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit
from solvent.solvers.bounds.kernels import UP
from solvent.solvers.frontier.point_kernels import is_rise, more
from solvent.solvers.outcomes.pooling_kernels import average
from solvent.solvers.reduction.kernels import TERMINAL, widest

#: Amounts of a state that are summed at a time.
_TILE = 1024


@jit
def sweep_layer(
    begin_state, end_state, row_indptr, outcome_indptr, probability, next_state, cost, law, row_reward, floor, need_S,
    top_S, offset_S, next_need_S, next_top_S, next_offset_S, next_value_L, out_value, out_row, out_reward_S, halt,
):  # fmt: skip
    """Write the value and best row for every `left` from need_S to top_S, for some states.

    The largest reward of a row that can be afforded in each state, if above 0, is written to `out_reward_S`.

    After the step at least `floor` must be left. Each outcome takes its values from the row of `next_value_L` that its
    law names. That is empty at the last step. Beyond `top` the value does not change any more; where `top` lies below
    `need`, there is nothing. Ends early once `halt[0]` is set.
    """
    last = next_value_L.shape[0] == 0
    total = np.empty(_TILE)
    starts = np.empty(widest(row_indptr, begin_state, end_state), np.int64)
    for s in range(begin_state, end_state):
        need, width = need_S[s], top_S[s] - need_S[s] + 1
        out_reward_S[s] = 0.0
        if width <= 0:
            continue
        base = offset_S[s]
        first, end = row_indptr[s], row_indptr[s + 1]
        if first == end:
            for i in range(base, base + width):
                out_value[i], out_row[i] = 0.0, 0
            continue
        for i in range(base, base + width):
            out_value[i] = -np.inf
        for r in range(first, end):
            start = need
            for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                after = next_state[o]
                start = max(start, more(floor, cost[o]))
                if not last:
                    dead = next_top_S[after] < next_need_S[after]
                    start = UP if dead else max(start, next_need_S[after] + cost[o])
            starts[r - first] = width if start > top_S[s] else start - need
            if start <= top_S[s]:
                out_reward_S[s] = max(out_reward_S[s], row_reward[r])
        # tile by tile, so that sums stay in the nearest cache
        for tile in range(0, width, _TILE):
            stop = min(tile + _TILE, width)
            for r in range(first, end):
                if halt[0]:
                    return
                skip = max(starts[r - first], tile)
                for i in range(skip, stop):
                    total[i - tile] = row_reward[r]
                if not last and skip < stop:
                    for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                        after, p = next_state[o], probability[o]
                        next_value = next_value_L[law[o]]
                        shift = next_offset_S[after] + need - cost[o] - next_need_S[after]
                        # from here on `left` is beyond what matters in the next state
                        flat = min(max(next_top_S[after] + cost[o] - need + 1, skip), stop)
                        for i in range(skip, flat):
                            total[i - tile] += p * next_value[shift + i]
                        if flat < stop:
                            rest = p * next_value[next_offset_S[after] + next_top_S[after] - next_need_S[after]]
                            for i in range(flat, stop):
                                total[i - tile] += rest
                which = r - first
                for i in range(skip, stop):
                    better = total[i - tile] > out_value[base + i]
                    out_value[base + i] = total[i - tile] if better else out_value[base + i]
                    out_row[base + i] = which if better else out_row[base + i]


@jit
def span(need_S, top_S, offset_S, value):
    """Return the largest and the smallest finite value, or 0 where that is larger, or smaller; values rise by state."""
    top = bottom = 0.0
    for s in range(need_S.shape[0]):
        first, end = offset_S[s], offset_S[s] + top_S[s] - need_S[s] + 1
        while first < end and value[first] == -np.inf:
            first += 1
        if first < end:
            top, bottom = max(top, value[end - 1]), min(bottom, value[first])
    return top, bottom


@jit
def compress_layer(
    row_indptr, need_S, top_S, offset_S, value, row, same, by_row, out_indptr, out_need, out_value, out_row, halt
):
    """Turn a swept layer into points, where the value rises or, `by_row`, the best row changes; returns how many.

    Ends early once `halt[0]` is set.
    """
    count = 0
    for s in range(need_S.shape[0]):
        if halt[0]:
            return count
        fresh = True
        for i in range(top_S[s] - need_S[s] + 1):
            v = value[offset_S[s] + i]
            ends = row_indptr[s] == row_indptr[s + 1]
            r = TERMINAL if ends else row_indptr[s] + row[offset_S[s] + i]
            new = r != out_row[count - 1] if by_row else is_rise(v, out_value[count - 1], same, 0.0)
            if v == -np.inf or not (fresh or new):
                continue
            out_need[count], out_value[count], out_row[count] = need_S[s] + i, v, r
            count += 1
            fresh = False
        out_indptr[s + 1] = count
    return count


@jit
def sweep_layers(
    table_of_step, row_indptr, outcome_indptr, probability, next_state, cost, law, row_reward, law_indptr, law_cost,
    law_probability, floor_H, need_HS, top_HS, offset_HS, same, begin, stop, later, spare, value, row,
    out_indptr_HS, out_need, out_value, out_row, out_top_H, out_bottom_H, out_reward_H, halt,
):  # fmt: skip
    """Sweep the steps from `begin - 1` down to `stop` and write their points one after another.

    The values of step `begin`, averaged by law, are in `later`, which is empty after the last step. `spare`, `value`,
    `row` and `out_value` have room for the largest step, `out_need` and `out_row` for all of them together. Returns how
    many points there are, and the values of `stop`, averaged; those of its points are in `out_value`. The largest and
    the smallest value of each step and the largest reward that can be had there are kept beside 0 in `out_top_H`,
    `out_bottom_H` and `out_reward_H`. Ends early once `halt[0]` is set.
    """
    n_states = need_HS.shape[1]
    made, after, first_state = 0, min(begin, need_HS.shape[0] - 1), np.int64(0)
    reward_S = np.empty(n_states)
    for h in range(begin - 1, stop - 1, -1):
        if halt[0]:
            break
        first = table_of_step[h] * n_states
        rows = row_indptr[first : first + n_states + 1]
        size = offset_HS[h, n_states]
        sweep_layer(
            first_state, n_states, rows, outcome_indptr, probability, next_state, cost, law, row_reward, floor_H[h],
            need_HS[h], top_HS[h], offset_HS[h], need_HS[after], top_HS[after], offset_HS[after], later, value, row,
            reward_S, halt,
        )  # fmt: skip
        out_top_H[h], out_bottom_H[h] = span(need_HS[h], top_HS[h], offset_HS[h], value)
        for s in range(n_states):
            out_reward_H[h] = max(out_reward_H[h], reward_S[s])
        count = compress_layer(
            rows, need_HS[h], top_HS[h], offset_HS[h], value, row, same, h > 0,
            out_indptr_HS[h], out_need[made:], out_value, out_row[made:], halt,
        )  # fmt: skip
        for s in range(n_states + 1):
            out_indptr_HS[h, s] += made
        made += count
        average(need_HS[h], top_HS[h], offset_HS[h], law_indptr, law_cost, law_probability, value[:size], spare, halt)
        if h == begin - 1:  # what came from before need not be wide enough
            later = np.empty_like(spare)
        later, spare = spare, later
        after = h
    return made, later
