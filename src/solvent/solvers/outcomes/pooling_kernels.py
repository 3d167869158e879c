"""Kernels of pooling: taking joint outcomes apart, and averaging values over laws of cost."""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit

#: The largest relative difference between a joint probability and the product of its margins, or between the
#: probabilities of two laws that count as one.
ROUNDING = 1e-14


@jit(inner=True)
def _find(values, count, value):
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
def factor_rows(
    outcome_indptr, probability, next_state, cost, most_costs, out_law, out_mix_count, out_mix_state,
    out_mix_probability, out_law_indptr, out_law_cost, out_law_probability, halt,
):  # fmt: skip
    """Find the rows whose costs are independent of the next state, and the distinct laws of these costs.

    A row is independent if its outcomes are all pairs of a cost and a next state, each pair once, and the probability
    of each is the product of its margins. The margins over next states are written where the outcomes of the row stand.
    Returns the number of laws. Ends early once `halt[0]` is set.
    """
    n_laws, most_laws = 0, out_law_indptr.shape[0] - 1
    law_cost, law_probability = np.empty(most_costs, np.int64), np.empty(most_costs)
    longest = 0
    for r in range(outcome_indptr.shape[0] - 1):
        longest = max(longest, outcome_indptr[r + 1] - outcome_indptr[r])
    # the row in which each pair was seen last
    seen_in = np.full(longest, -1, np.int64)
    order = np.empty(most_costs, np.int64)
    for r in range(outcome_indptr.shape[0] - 1):
        if halt[0]:
            return n_laws
        begin, end = outcome_indptr[r], outcome_indptr[r + 1]
        states, masses = out_mix_state[begin:end], out_mix_probability[begin:end]
        n_states = n_costs = 0
        for o in range(begin, end):
            k = _find(law_cost, n_costs, cost[o])
            if k == n_costs:
                if n_costs == most_costs:
                    break
                law_cost[k], law_probability[k] = cost[o], 0.0
                n_costs += 1
            law_probability[k] += probability[o]
            j = _find(states, n_states, next_state[o])
            if j == n_states:
                states[j], masses[j] = next_state[o], 0.0
                n_states += 1
            masses[j] += probability[o]
        if n_costs < 2 or n_costs * n_states != end - begin:
            continue
        independent = True
        for o in range(begin, end):
            k, j = _find(law_cost, n_costs, cost[o]), _find(states, n_states, next_state[o])
            product = law_probability[k] * masses[j]
            again = seen_in[k * n_states + j] == r
            if again or abs(product - probability[o]) > ROUNDING * probability[o]:
                independent = False
                break
            seen_in[k * n_states + j] = r
        if not independent:
            continue
        _sort_down(law_cost, n_costs, order)
        law = n_laws
        for known in range(n_laws):
            first = out_law_indptr[known]
            same = out_law_indptr[known + 1] - first == n_costs
            k = 0
            while same and k < n_costs:
                p = law_probability[order[k]]
                same = out_law_cost[first + k] == law_cost[order[k]]
                same = same and abs(out_law_probability[first + k] - p) <= ROUNDING * p
                k += 1
            if same:
                law = known
                break
        if law == n_laws:
            if n_laws == most_laws:
                continue
            first = out_law_indptr[n_laws]
            for k in range(n_costs):
                out_law_cost[first + k] = law_cost[order[k]]
                out_law_probability[first + k] = law_probability[order[k]]
            n_laws += 1
            out_law_indptr[n_laws] = first + n_costs
        out_law[r], out_mix_count[r] = law, n_states
    return n_laws


@jit
def average(need_S, top_S, offset_S, law_indptr, law_cost, law_probability, value, out_value_L, halt):
    """Write the values themselves as row 0, and below it their average over each law; the rows may be longer.

    In row `law + 1` an entry speaks of having as much more left as the law's dearest cost, which comes first. Ends
    early once `halt[0]` is set.
    """
    for i in range(value.shape[0]):
        out_value_L[0, i] = value[i]
    for law in range(law_indptr.shape[0] - 1):
        first = law_indptr[law]
        for s in range(need_S.shape[0]):
            width = top_S[s] - need_S[s] + 1
            if width <= 0:
                continue
            base = offset_S[s]
            for i in range(base, base + width):
                out_value_L[law + 1, i] = law_probability[first] * value[i]
            for k in range(first + 1, law_indptr[law + 1]):
                if halt[0]:
                    return
                p = law_probability[k]
                spared = min(law_cost[first] - law_cost[k], width)
                for i in range(base, base + width - spared):
                    out_value_L[law + 1, i] += p * value[i + spared]
                # what is left beyond the top makes no difference any more
                flat = p * value[base + width - 1]
                for i in range(base + width - spared, base + width):
                    out_value_L[law + 1, i] += flat
