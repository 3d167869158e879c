"""Kernels of bounds: amounts that are safe and amounts that are settled, one resource at a time.

Kernels that take `halt` return early once `halt[0]` is set; their results are then incomplete.
"""

from __future__ import annotations

import numpy as np

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.jit import jit
from solvent.policy.locate import COLLAPSED

#: Smallest positive float, and the largest error of a product that underflows.
SMALLEST_FLOAT = 5e-324

#: Added to a bound for each operation, relative to its terms: more than the rounding error.
_OUTWARD = 2.0**-51


@jit(inline="always")
def clamped(ticks, floor, ceiling):
    """Return an amount moved to the nearer end at which a resource saturates, if it lies beyond."""
    return min(max(ticks, floor), ceiling)


@jit(inner=True)
def highest_before(bound, cost, floor, ceiling):
    """Return the largest amount before a cost that leads to at most `bound`: none at all, or any, if it saturates."""
    if bound >= ceiling:
        return PLUS_INFINITY
    return MINUS_INFINITY if bound < floor or bound == MINUS_INFINITY else bound - cost


@jit(inner=True)
def lowest_before(bound, cost, floor, ceiling):
    """Return the least amount before a cost that leads to at least `bound`; the mirror image of `highest_before`."""
    if bound <= floor:
        return MINUS_INFINITY
    return PLUS_INFINITY if bound > ceiling or bound == PLUS_INFINITY else bound - cost


@jit(inline="always")
def fill_row_interval(r, model, costs, upper_D, lower_D, safe_low_SD, safe_high_SD, out_low_D, out_high_D):
    """Write the amounts before a step for which no outcome of row `r` breaks a limit or leads to a doomed node."""
    cost_OD, floor_D, ceiling_D, _ = costs
    for d in range(cost_OD.shape[1]):
        floor, ceiling = floor_D[d], ceiling_D[d]
        most, least = PLUS_INFINITY, MINUS_INFINITY
        for o in range(model.outcome_indptr[r], model.outcome_indptr[r + 1]):
            cost, after = cost_OD[o, d], model.next_state[o]
            high, low = min(upper_D[d], safe_high_SD[after, d]), max(lower_D[d], safe_low_SD[after, d])
            most = min(most, highest_before(high, cost, floor, ceiling))
            least = max(least, lowest_before(low, cost, floor, ceiling))
        out_high_D[d], out_low_D[d] = most, least


@jit
def fill_row_bounds(row_indptr, model, costs, upper_D, lower_D, safe_low_SD, safe_high_SD, out_low_RD, out_high_RD):
    """Write the amounts before a step for which each row is safe; see `fill_row_interval`.

    Parameters
    ----------
    row_indptr : ndarray of int64, shape (S + 1,)
        Rows of the step.
    model : ModelArrays
    costs : TickCosts
    upper_D, lower_D : ndarray of int64
        Limits after the step.
    safe_low_SD, safe_high_SD : ndarray of int64
        Safe amounts in each state after the step.
    out_low_RD, out_high_RD : ndarray of int64
        Rows count from `row_indptr[0]`.
    """
    first_row = row_indptr[0]
    for r in range(first_row, row_indptr[row_indptr.shape[0] - 1]):
        fill_row_interval(
            r, model, costs, upper_D, lower_D, safe_low_SD, safe_high_SD, out_low_RD[r - first_row],
            out_high_RD[r - first_row],
        )  # fmt: skip


@jit
def fill_bounds(model, costs, limits, out_tails, out_bounds, halt):
    """Write the safe and the settled amounts at each (step, state), one resource at a time.

    Parameters
    ----------
    model : ModelArrays
    costs : TickCosts
    limits : LimitArrays
    out_tails : LimitArrays
        The tightest limits from each step on, which bind once an episode has ended.
    out_bounds : Bounds
        The entries after the last step are given.
    halt : ndarray of bool
    """
    cost_OD, floor_D, ceiling_D, _ = costs
    upper_HD, lower_HD = limits
    tail_upper_HD, tail_lower_HD = out_tails
    out_safe_low, out_safe_high, out_settled_low, out_settled_high = out_bounds
    row_indptr, outcome_indptr, next_state = model.row_indptr, model.outcome_indptr, model.next_state
    n_steps, n_resources = upper_HD.shape
    n_states = out_safe_high.shape[1]
    for h in range(n_steps - 1, -1, -1):
        later = min(h + 1, n_steps - 1)
        for d in range(n_resources):
            tail_upper_HD[h, d], tail_lower_HD[h, d] = upper_HD[h, d], lower_HD[h, d]
            tail_upper_HD[h, d] = min(tail_upper_HD[h, d], tail_upper_HD[later, d])
            tail_lower_HD[h, d] = max(tail_lower_HD[h, d], tail_lower_HD[later, d])
        if halt[0]:  # once per step: for every state it would cost more than the bounds
            return
        for s in range(n_states):
            first = model.table_of_step[h] * n_states + s
            terminal = row_indptr[first] == row_indptr[first + 1]
            for d in range(n_resources):
                if terminal:
                    out_safe_high[h, s, d] = out_settled_high[h, s, d] = tail_upper_HD[h, d]
                    out_safe_low[h, s, d] = out_settled_low[h, s, d] = tail_lower_HD[h, d]
                    if model.end_value[s] == -np.inf:
                        out_safe_high[h, s, d], out_safe_low[h, s, d] = MINUS_INFINITY, PLUS_INFINITY
                    continue
                floor, ceiling = floor_D[d], ceiling_D[d]
                safe_high, safe_low = MINUS_INFINITY, PLUS_INFINITY
                settled_high, settled_low = PLUS_INFINITY, MINUS_INFINITY
                for r in range(row_indptr[first], row_indptr[first + 1]):
                    row_high, row_low = PLUS_INFINITY, MINUS_INFINITY
                    for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                        cost, after = cost_OD[o, d], next_state[o]
                        high = min(upper_HD[h, d], out_safe_high[h + 1, after, d])
                        low = max(lower_HD[h, d], out_safe_low[h + 1, after, d])
                        row_high = min(row_high, highest_before(high, cost, floor, ceiling))
                        row_low = max(row_low, lowest_before(low, cost, floor, ceiling))
                        high = min(upper_HD[h, d], out_settled_high[h + 1, after, d])
                        low = max(lower_HD[h, d], out_settled_low[h + 1, after, d])
                        settled_high = min(settled_high, highest_before(high, cost, floor, ceiling))
                        settled_low = max(settled_low, lowest_before(low, cost, floor, ceiling))
                    safe_high, safe_low = max(safe_high, row_high), min(safe_low, row_low)
                out_safe_high[h, s, d], out_safe_low[h, s, d] = safe_high, safe_low
                out_settled_high[h, s, d], out_settled_low[h, s, d] = settled_high, settled_low


@jit
def unlimited_value(model, n_states, halt):
    """Return upper bounds on the optimal values of all states without limits, rounding errors included.

    Minus infinity where some episode must end outside the goal. Infinity if `halt[0]` was set.
    """
    row_indptr, outcome_indptr, next_state = model.row_indptr, model.outcome_indptr, model.next_state
    now, after = np.zeros(n_states), model.end_value.copy()
    for h in range(model.table_of_step.shape[0] - 1, -1, -1):
        if halt[0]:
            now[:] = np.inf
            return now
        for s in range(n_states):
            first = model.table_of_step[h] * n_states + s
            best = model.end_value[s] if row_indptr[first] == row_indptr[first + 1] else -np.inf
            for r in range(row_indptr[first], row_indptr[first + 1]):
                reward = model.row_reward[r]
                value, size, some, lost = reward, abs(reward), reward != 0.0, False
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    p, next_value = model.probability[o], after[next_state[o]]
                    lost = lost or next_value == -np.inf
                    value += p * next_value
                    size += p * abs(next_value)
                    some = some or next_value != 0.0
                if lost:
                    continue
                terms = outcome_indptr[r + 1] - outcome_indptr[r] + 2
                value += terms * _OUTWARD * size
                best = max(best, value + terms * SMALLEST_FLOAT if some else value)
            now[s] = best
        now, after = after, now
    return after


@jit
def fill_live_box(nodes, is_live, settled_low_SD, settled_high_SD, out_low_SD, out_high_SD):
    """Write the least and the most spent in live nodes of each state; plus and minus infinity if it has none.

    Parameters
    ----------
    nodes : LayerNodes
    is_live : ndarray of bool, shape (N,)
    settled_low_SD, settled_high_SD : ndarray of int64
        Amounts that are settled in each state: `COLLAPSED` stands for all of them.
    out_low_SD, out_high_SD : ndarray of int64
    """
    out_low_SD[:], out_high_SD[:] = PLUS_INFINITY, MINUS_INFINITY
    for s in range(nodes.indptr.shape[0] - 1):
        for i in range(nodes.indptr[s], nodes.indptr[s + 1]):
            if not is_live[i]:
                continue
            for d in range(nodes.spent_ND.shape[1]):
                low = high = nodes.spent_ND[i, d]
                if low == COLLAPSED:
                    low, high = settled_low_SD[s, d], settled_high_SD[s, d]
                out_low_SD[s, d], out_high_SD[s, d] = min(out_low_SD[s, d], low), max(out_high_SD[s, d], high)
