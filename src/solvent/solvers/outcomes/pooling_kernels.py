"""Kernels of pooling: factoring joint outcomes, and averaging values over cost distributions."""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit

#: The largest relative difference between a joint probability and the product of its marginals, or between the
#: probabilities of two cost distributions that count as equal.
ROUNDING = 1e-14


@jit(inner=True)
def _find(values, count, value):
    """Return the position of a value among the first `count` of some values; `count` if it is not there."""
    for k in range(count):
        if values[k] == value:
            return k
    return count


@jit(inline="always")
def _sort_down(values, count, out_order):
    """Write the positions of a few values, the largest first; numba's own sorting takes seconds to compile."""
    for k in range(count):
        at = k
        while at > 0 and values[out_order[at - 1]] < values[k]:
            out_order[at] = out_order[at - 1]
            at -= 1
        out_order[at] = k


@jit
def factor_rows(model, cost, most_costs, out_rows, halt):
    """Find the rows whose costs are independent of the next state, and the distinct distributions of these costs.

    A row is independent if its outcomes are all pairs of a cost and a next state, each pair once, and the probability
    of each pair is the product of its marginals. Returns early once `halt[0]` is set.

    Parameters
    ----------
    model : ModelArrays
    cost : ndarray of int64, shape (O,)
    most_costs : int
        Rows with more distinct costs are not independent.
    out_rows : IndependentRows
        `distribution` is -1 beforehand. The length of `costs.indptr` limits the number of distributions.
    halt : ndarray of bool

    Returns
    -------
    int
        Number of distributions.
    """
    outcome_indptr, probability, next_state = model.outcome_indptr, model.probability, model.next_state
    known, out_cost, out_probability = out_rows.costs
    n_known, most_known = 0, known.shape[0] - 1
    row_cost, row_probability = np.empty(most_costs, np.int64), np.empty(most_costs)
    longest = 0
    for r in range(outcome_indptr.shape[0] - 1):
        longest = max(longest, outcome_indptr[r + 1] - outcome_indptr[r])
    # the last row in which each pair was seen
    seen_in = np.full(longest, -1, np.int64)
    order = np.empty(most_costs, np.int64)
    for r in range(outcome_indptr.shape[0] - 1):
        if halt[0]:
            return n_known
        begin, end = outcome_indptr[r], outcome_indptr[r + 1]
        states, masses = out_rows.next_state[begin:end], out_rows.next_probability[begin:end]
        n_states = n_costs = 0
        for o in range(begin, end):
            k = _find(row_cost, n_costs, cost[o])
            if k == n_costs:
                if n_costs == most_costs:
                    break
                row_cost[k], row_probability[k] = cost[o], 0.0
                n_costs += 1
            row_probability[k] += probability[o]
            j = _find(states, n_states, next_state[o])
            if j == n_states:
                states[j], masses[j] = next_state[o], 0.0
                n_states += 1
            masses[j] += probability[o]
        if n_costs < 2 or n_costs * n_states != end - begin:
            continue
        independent = True
        for o in range(begin, end):
            k, j = _find(row_cost, n_costs, cost[o]), _find(states, n_states, next_state[o])
            product = row_probability[k] * masses[j]
            again = seen_in[k * n_states + j] == r
            if again or abs(product - probability[o]) > ROUNDING * probability[o]:
                independent = False
                break
            seen_in[k * n_states + j] = r
        if not independent:
            continue
        _sort_down(row_cost, n_costs, order)
        distribution = n_known
        for each in range(n_known):
            first = known[each]
            same = known[each + 1] - first == n_costs
            k = 0
            while same and k < n_costs:
                p = row_probability[order[k]]
                same = out_cost[first + k] == row_cost[order[k]]
                same = same and abs(out_probability[first + k] - p) <= ROUNDING * p
                k += 1
            if same:
                distribution = each
                break
        if distribution == n_known:
            if n_known == most_known:
                continue
            first = known[n_known]
            for k in range(n_costs):
                out_cost[first + k] = row_cost[order[k]]
                out_probability[first + k] = row_probability[order[k]]
            n_known += 1
            known[n_known] = first + n_costs
        out_rows.distribution[r], out_rows.next_count[r] = distribution, n_states
    return n_known


@jit
def average(
    need_S, top_S, offset_S, distribution_indptr, distribution_cost, distribution_probability, value, out_value_L, halt
):
    """Write the values themselves to row 0, and their averages over each cost distribution to the rows below.

    In row `k + 1`, an entry is the value of having the largest cost of distribution `k`, which comes first, left on top
    of the amount. Rows of `out_value_L` may be longer than `value`. Returns early once `halt[0]` is set.
    """
    for i in range(value.shape[0]):
        out_value_L[0, i] = value[i]
    for k in range(distribution_indptr.shape[0] - 1):
        first = distribution_indptr[k]
        for s in range(need_S.shape[0]):
            width = top_S[s] - need_S[s] + 1
            if width <= 0:
                continue
            base = offset_S[s]
            for i in range(base, base + width):
                out_value_L[k + 1, i] = distribution_probability[first] * value[i]
            for c in range(first + 1, distribution_indptr[k + 1]):
                if halt[0]:
                    return
                p = distribution_probability[c]
                saved = min(distribution_cost[first] - distribution_cost[c], width)
                for i in range(base, base + width - saved):
                    out_value_L[k + 1, i] += p * value[i + saved]
                # above the top, values are constant
                flat = p * value[base + width - 1]
                for i in range(base + width - saved, base + width):
                    out_value_L[k + 1, i] += flat
