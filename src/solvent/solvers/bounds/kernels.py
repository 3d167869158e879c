"""Kernels of bounds: between what amounts a node is neither doomed nor settled, resource by resource."""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit

#: Open sides of limits, and of what follows from them.
UP = np.iinfo(np.int64).max
DOWN = np.iinfo(np.int64).min

#: What is added to a bound for each operation, relative to its terms: more than rounding can have taken off.
_OUTWARD = 2.0**-51
#: The least float above 0: what a product that underflows can have lost.
_LEAST = 5e-324


@jit(inner=True)
def _less(limit, cost):
    return limit if limit == UP or limit == DOWN else limit - cost  # noqa: SIM109  # a tuple compiles slowly


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
    table_of_step, row_indptr, outcome_indptr, next_state, cost_OD, upper_HD, lower_HD, tail_upper_HD, tail_lower_HD,
    out_safe_high, out_safe_low, out_settled_high, out_settled_low, halt,
):  # fmt: skip
    """Write what may have been spent at each (step, state), resource by resource; arrays of shape (H + 1, S, D).

    Outside [safe_low, safe_high] even the most careful continuation breaks a limit: the node is doomed. Inside
    [settled_low, settled_high] even the most careless cannot: the resource is settled. Once an episode is over, the
    tightest limit from each step on binds, which is written to `tail_upper_HD` and `tail_lower_HD`. What holds after
    the last step is to be there already. Ends early once `halt[0]` is set.
    """
    n_steps, n_resources = upper_HD.shape
    n_states = out_safe_high.shape[1]
    for h in range(n_steps - 1, -1, -1):
        later = min(h + 1, n_steps - 1)
        for d in range(n_resources):
            tail_upper_HD[h, d], tail_lower_HD[h, d] = upper_HD[h, d], lower_HD[h, d]
            tail_upper_HD[h, d] = min(tail_upper_HD[h, d], tail_upper_HD[later, d])
            tail_lower_HD[h, d] = max(tail_lower_HD[h, d], tail_lower_HD[later, d])
        if halt[0]:  # once a step: a look at every state would cost more than the bounds of the state
            return
        for s in range(n_states):
            first = table_of_step[h] * n_states + s
            terminal = row_indptr[first] == row_indptr[first + 1]
            for d in range(n_resources):
                if terminal:
                    out_safe_high[h, s, d] = out_settled_high[h, s, d] = tail_upper_HD[h, d]
                    out_safe_low[h, s, d] = out_settled_low[h, s, d] = tail_lower_HD[h, d]
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
def unlimited_value(
    table_of_step, row_indptr, outcome_indptr, probability, next_state, row_reward, n_states, start, halt
):
    """Return an upper bound on the value of the start if there were no limits, outward by more than rounding errs.

    Infinity, if it was ended early by `halt[0]`.
    """
    now, after = np.zeros(n_states), np.zeros(n_states)
    for h in range(table_of_step.shape[0] - 1, -1, -1):
        if halt[0]:
            return np.inf
        for s in range(n_states):
            first = table_of_step[h] * n_states + s
            best = 0.0 if row_indptr[first] == row_indptr[first + 1] else -np.inf
            for r in range(row_indptr[first], row_indptr[first + 1]):
                value, size, some = row_reward[r], abs(row_reward[r]), row_reward[r] != 0.0
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    value += probability[o] * after[next_state[o]]
                    size += probability[o] * abs(after[next_state[o]])
                    some = some or after[next_state[o]] != 0.0
                terms = outcome_indptr[r + 1] - outcome_indptr[r] + 2
                value += terms * _OUTWARD * size
                best = max(best, value + terms * _LEAST if some else value)
            now[s] = best
        now, after = after, now
    return after[start]


@jit
def fill_live_box(node_indptr, node_spent, is_live, settled_low_SD, settled_high_SD, out_low_SD, out_high_SD):
    """Write the least and the most that was spent in live nodes of each state; UP and DOWN where there is none."""
    out_low_SD[:], out_high_SD[:] = UP, DOWN
    for s in range(node_indptr.shape[0] - 1):
        for i in range(node_indptr[s], node_indptr[s + 1]):
            if not is_live[i]:
                continue
            for d in range(node_spent.shape[1]):
                low = high = node_spent[i, d]
                # the sign of a collapsed amount
                if low == DOWN:
                    low, high = settled_low_SD[s, d], settled_high_SD[s, d]
                out_low_SD[s, d], out_high_SD[s, d] = min(out_low_SD[s, d], low), max(out_high_SD[s, d], high)
