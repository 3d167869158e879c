"""Kernels of the augmented MDP: which nodes can be continued from, and the rows of each.

Nodes are those of `solvent.solvers.reduction.kernels`. If `NextNodes.nodes.slots` is empty, this is the last step: the
only node after it is the end, at position 0. A row of the last step that can lead to a state in which an episode must
not end is not safe, and a terminal node in such a state is a dead end.

Kernels return early once `halt[0]` is set; their results are then incomplete.
"""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit
from solvent.solvers.reduction.kernels import allows, arrive, enter, find


@jit(inner=True)
def ends_well(model, row, may_end_S):
    """Return whether an episode may end in every state that a row leads to."""
    good = True
    for o in range(model.outcome_indptr[row], model.outcome_indptr[row + 1]):
        good &= may_end_S[model.next_state[o]]
    return good


@jit(inner=True)
def _same_within(low, high, other_low, other_high, least, most):
    """Return whether two intervals contain the same amounts from `least` to `most`; False may be wrong, True is not."""
    same = min(max(low, least), most + 1) == min(max(other_low, least), most + 1)
    return same and min(max(high, least - 1), most) == min(max(other_high, least - 1), most)


@jit
def repeats(h, bounds, limits, least_D, most_D):
    """Return whether steps h - 1 and h, neither of them the last, treat all amounts of a range alike.

    If so, the same rows are safe at the same amounts, the same amounts are settled after them, and the same amounts are
    safe where an episode has ended. Both steps have the same rows.

    Parameters
    ----------
    h : int
    bounds : Bounds
    limits : LimitArrays
    least_D, most_D : ndarray of int64, shape (D,)
        The amounts before and after the steps, as far as they are not settled; `least_D` is greater where all are.
    """
    safe_low, safe_high = bounds.safe_low, bounds.safe_high
    settled_low, settled_high = bounds.settled_low, bounds.settled_high
    upper_HD, lower_HD = limits.upper_HD, limits.lower_HD
    for d in range(least_D.shape[0]):
        least, most = least_D[d], most_D[d]
        if least > most:
            continue
        for s in range(safe_low.shape[1]):
            same = _same_within(
                safe_low[h - 1, s, d], safe_high[h - 1, s, d], safe_low[h, s, d], safe_high[h, s, d], least, most
            )
            same &= _same_within(
                max(lower_HD[h - 1, d], safe_low[h, s, d]), min(upper_HD[h - 1, d], safe_high[h, s, d]),
                max(lower_HD[h, d], safe_low[h + 1, s, d]), min(upper_HD[h, d], safe_high[h + 1, s, d]), least, most,
            )  # fmt: skip
            same &= _same_within(
                settled_low[h, s, d], settled_high[h, s, d], settled_low[h + 1, s, d], settled_high[h + 1, s, d],
                least, most,
            )  # fmt: skip
            if not same:
                return False
    return True


@jit
def judge(nodes, model, costs, bounds, after, keep_all, merge, out_alive, out_stuck, halt):
    """Write which nodes of a layer can be continued from (alive), and which have no safe row at all (stuck).

    Parameters
    ----------
    nodes : NodeArrays
    model : ModelArrays
    costs : TickCosts
    bounds : LayerBounds
    after : NextNodes
    keep_all : bool
        If True, all safe rows are counted; else only those that lead to alive nodes only.
    merge : bool
        Whether outcomes of a row that lead to the same node are one transition.
    out_alive, out_stuck : ndarray of bool, shape (N,)
    halt : ndarray of bool

    Returns
    -------
    n_rows, n_entries : int
        Number of rows that are counted, and an upper bound on the number of their transitions.
    """
    n_rows = n_entries = 0
    row_indptr, outcome_indptr, spent_ND = bounds.row_indptr, model.outcome_indptr, nodes.spent_ND
    next_nodes = after.nodes
    last = next_nodes.slots.shape[0] == 0
    scratch = np.empty((1, spent_ND.shape[1]), np.int64)
    for i in range(nodes.state.shape[0]):
        if halt[0]:
            break
        s = nodes.state[i]
        if row_indptr[s] == row_indptr[s + 1]:
            out_alive[i] = after.may_end_S[s] and allows(spent_ND, i, bounds.end_low_SD, bounds.end_high_SD, s)
            out_stuck[i] = not out_alive[i]
            continue
        out_alive[i], out_stuck[i] = False, True
        for r in range(row_indptr[s], row_indptr[s + 1]):
            if not allows(spent_ND, i, bounds.row_low_RD, bounds.row_high_RD, r - row_indptr[0]):
                continue
            if last and not ends_well(model, r, after.may_end_S):
                continue
            out_stuck[i] = False
            good = True
            if not last:
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    t = model.next_state[o]
                    arrive(spent_ND, i, costs, o, t, next_nodes, scratch, 0)
                    j = find(t, scratch, 0, next_nodes.state, next_nodes.spent_ND, next_nodes.slots, next_nodes.grid)
                    if not after.alive[j]:
                        good = False
                        break
            out_alive[i] |= good
            if good or keep_all:
                n_rows += 1
                n_entries += 1 if last and merge else outcome_indptr[r + 1] - outcome_indptr[r]
    return n_rows, n_entries


@jit
def emit(nodes, wanted, model, costs, bounds, after, keep_all, merge, out_rows, out_reached, halt):
    """Append the rows of the wanted nodes, as `judge` counts them, to those already written.

    Parameters
    ----------
    nodes : NodeArrays
    wanted : ndarray of bool, shape (N,)
    model : ModelArrays
    costs : TickCosts
    bounds : LayerBounds
    after : NextNodes
    keep_all, merge : bool
        As for `judge`; without merging, transition j of a row is outcome j of the model's row.
    out_rows : RowArrays
        A row is written before it is known whether it is kept, so `next` needs space for one more row.
    out_reached : ndarray of bool
        Set to True for the nodes of the next layer that rows lead to.
    halt : ndarray of bool
    """
    row_indptr, outcome_indptr, spent_ND = bounds.row_indptr, model.outcome_indptr, nodes.spent_ND
    out_next, out_probability = out_rows.next, out_rows.probability
    n_rows, n_entries = out_rows.written[0], out_rows.written[1]
    next_nodes = after.nodes
    last = next_nodes.slots.shape[0] == 0
    scratch = np.empty((1, spent_ND.shape[1]), np.int64)
    # the entry of each next node in the current row, and the row that it was made for
    entry_of, tried_in = np.empty(out_reached.shape[0], np.int64), np.zeros(out_reached.shape[0], np.int64)
    tries = 0
    for i in range(nodes.state.shape[0]):
        out_rows.row_count[i] = 0
        if halt[0]:
            break
        if not wanted[i]:
            continue
        s = nodes.state[i]
        for r in range(row_indptr[s], row_indptr[s + 1]):
            if not allows(spent_ND, i, bounds.row_low_RD, bounds.row_high_RD, r - row_indptr[0]):
                continue
            if last and not ends_well(model, r, after.may_end_S):
                continue
            begin, good = n_entries, True
            tries += 1
            if last and merge:
                out_next[n_entries], out_probability[n_entries] = 0, 1.0
                n_entries += 1
            elif last:
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    out_next[n_entries], out_probability[n_entries] = 0, model.probability[o]
                    n_entries += 1
            else:
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    t = model.next_state[o]
                    arrive(spent_ND, i, costs, o, t, next_nodes, scratch, 0)
                    j = find(t, scratch, 0, next_nodes.state, next_nodes.spent_ND, next_nodes.slots, next_nodes.grid)
                    if not keep_all and not after.alive[j]:
                        good = False
                        break
                    if merge and tried_in[j] == tries:
                        out_probability[entry_of[j]] += model.probability[o]
                        continue
                    out_next[n_entries], out_probability[n_entries] = j, model.probability[o]
                    entry_of[j], tried_in[j] = n_entries, tries
                    n_entries += 1
            if not good:
                n_entries = begin
                continue
            for e in range(begin, n_entries):
                out_reached[out_next[e]] = True
            out_rows.row[n_rows] = r
            n_rows += 1
            out_rows.indptr[n_rows] = n_entries
            out_rows.row_count[i] += 1
    out_rows.written[0], out_rows.written[1] = n_rows, n_entries


@jit
def explore(begin, end, model, costs, bounds, count, out_nodes, halt):
    """Add to a set of `count` nodes everything that safe rows of the nodes from `begin` to `end` can lead to.

    Parameters
    ----------
    begin, end, count : int
    model : ModelArrays
    costs : TickCosts
    bounds : LayerBounds
    out_nodes : NodeIndex
    halt : ndarray of bool

    Returns
    -------
    count : int
        Number of nodes.
    node : int
        Node at which `out_nodes` was full; `end` if all were explored.
    """
    state, spent_ND, slots, grid = out_nodes.state, out_nodes.spent_ND, out_nodes.slots, out_nodes.grid
    for i in range(begin, end):
        if halt[0]:
            return count, i
        s = state[i]
        for r in range(bounds.row_indptr[s], bounds.row_indptr[s + 1]):
            if not allows(spent_ND, i, bounds.row_low_RD, bounds.row_high_RD, r - bounds.row_indptr[0]):
                continue
            for o in range(model.outcome_indptr[r], model.outcome_indptr[r + 1]):
                if count >= state.shape[0]:
                    return count, i
                state[count] = model.next_state[o]
                arrive(spent_ND, i, costs, o, state[count], out_nodes, spent_ND, count)
                if enter(count, state, spent_ND, slots, grid):
                    count += 1
    return count, end


@jit
def spread_dead(row_indptr, entry_indptr, next_node, dead, halt):
    """Mark in `dead` the nodes all of whose rows can lead to a dead node; return whether any were new."""
    found = np.zeros(dead.shape[0], np.bool_)
    changed = False
    for i in range(dead.shape[0]):
        if halt[0]:
            return changed
        if dead[i] or row_indptr[i] == row_indptr[i + 1]:
            continue
        stuck = True
        for r in range(row_indptr[i], row_indptr[i + 1]):
            good = True
            for e in range(entry_indptr[r], entry_indptr[r + 1]):
                if dead[next_node[e]]:
                    good = False
                    break
            if good:
                stuck = False
                break
        if stuck:
            found[i] = changed = True
    for i in range(dead.shape[0]):
        dead[i] |= found[i]
    return changed
