"""Kernels of pooling: factoring joint outcomes, and averaging values over cost distributions."""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit

#: The largest relative difference between a joint probability and the product of its marginals, or between the
#: probabilities of two cost distributions that count as equal.
ROUNDING = 1e-14
#: Number of amounts of a state that are summed at a time.
TILE = 1024


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
        n_states = n_costs = np.int64(0)
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


@jit(inner=True, forceinline=True)
def add_shifted(value, place, weight, first, end, base, begin, stop, start_value, out, out_at):
    """Write a constant plus a weighted sum of shifted values, each sum in the order of its terms.

    Parameters
    ----------
    value : ndarray of float64
    place : ndarray of int64
        Shift of term k, at position k - `base`.
    weight : ndarray of float64
    first, end : int
        The terms.
    base, begin, stop : int
        Entry `out_at` + i - `begin` of `out` is the sum over k of `weight[k] * value[place[k - base] + i]`, for i from
        `begin` to `stop` - 1.
    start_value : float
    out : ndarray of float64
    out_at : int
    """
    count, k, to = np.uintp(stop - begin), first, np.uintp(out_at)
    # several terms in one pass, so that sums are stored less often
    if end - k >= 3:
        p0, p1, p2 = weight[k], weight[k + 1], weight[k + 2]
        i0 = np.uintp(place[k - base] + begin)
        i1 = np.uintp(place[k + 1 - base] + begin)
        i2 = np.uintp(place[k + 2 - base] + begin)
        for i in range(count):
            out[to + i] = start_value + p0 * value[i0 + i] + p1 * value[i1 + i] + p2 * value[i2 + i]
        k += 3
    elif end - k == 2:
        p0, p1 = weight[k], weight[k + 1]
        i0, i1 = np.uintp(place[k - base] + begin), np.uintp(place[k + 1 - base] + begin)
        for i in range(count):
            out[to + i] = start_value + p0 * value[i0 + i] + p1 * value[i1 + i]
        k += 2
    elif k < end:
        p0, i0 = weight[k], np.uintp(place[k - base] + begin)
        for i in range(count):
            out[to + i] = start_value + p0 * value[i0 + i]
        k += 1
    else:
        for i in range(count):
            out[to + i] = start_value
    while end - k >= 4:
        p0, p1, p2, p3 = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
        i0 = np.uintp(place[k - base] + begin)
        i1 = np.uintp(place[k + 1 - base] + begin)
        i2 = np.uintp(place[k + 2 - base] + begin)
        i3 = np.uintp(place[k + 3 - base] + begin)
        for i in range(count):
            total = out[to + i] + p0 * value[i0 + i] + p1 * value[i1 + i]
            out[to + i] = total + p2 * value[i2 + i] + p3 * value[i3 + i]
        k += 4
    while k < end:
        p0, i0 = weight[k], np.uintp(place[k - base] + begin)
        for i in range(count):
            out[to + i] += p0 * value[i0 + i]
        k += 1


@jit(inline="always")
def average_state(base, width, flat, indptr, saved, probability, out, stride):
    """Write the averages of the values of a state over each cost distribution.

    Parameters
    ----------
    base, width : int
        Where the values of the state begin, and their number.
    flat : int
        From this position on, counted from `base`, values do not change.
    indptr, saved, probability : ndarray
        Costs of each distribution, which begin with the largest one: by how much each is less, and its probability.
    out : ndarray of float64
        The values and, after each `stride` entries, the averages over the next distribution. An average is the value of
        having the largest cost of its distribution left on top of the amount.
    stride : int
    """
    top = out[base + flat]
    for k in range(indptr.shape[0] - 1):
        first, end, out_base = indptr[k], indptr[k + 1], (k + 1) * stride + base
        # up to `safe`, nothing beyond the values of the state is read
        safe, constant = flat, 0.0
        for c in range(first, end):
            safe = min(safe, width - saved[c])
            constant += probability[c] * top
        for begin in range(0, safe, TILE):
            at, stop = base + begin, base + min(begin + TILE, safe)
            add_shifted(out, saved, probability, first, end, np.int64(0), at, stop, 0.0, out, out_base + begin)
        for i in range(max(safe, 0), flat):
            new = 0.0
            for c in range(first, end):
                new += probability[c] * out[base + min(i + saved[c], flat)]
            out[out_base + i] = new
        for i in range(np.uintp(out_base + flat), np.uintp(out_base + width)):
            out[i] = constant
