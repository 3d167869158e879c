"""Kernels of the augmented MDP: which nodes have a way on, and the rows of each; flat arrays in, flat arrays out.

A layer and the one after it are as in `solvent.solvers.reduction.kernels`. An empty `next_slots` says that this is the
last step, after which there is only the end, at position 0.
"""

from __future__ import annotations

import numpy as np

from solvent.core.jit import jit
from solvent.solvers.reduction.kernels import allows, arrive, enter, find


@jit(inner=True)
def _has_way_on(
    node_spent, i, r, outcome_indptr, next_state, cost_OD, settled_low_SD, settled_high_SD, next_node_state,
    next_node_spent, next_slots, grid, next_alive, scratch,
):  # fmt: skip
    """Whether every outcome of row r leads from node i to a node that is alive."""
    if next_slots.shape[0] == 0:
        return True
    for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
        after = next_state[o]
        arrive(node_spent, i, cost_OD, o, after, settled_low_SD, settled_high_SD, scratch, 0)
        if not next_alive[find(after, scratch, 0, next_node_state, next_node_spent, next_slots, grid)]:
            return False
    return True


@jit
def judge(
    node_state, node_spent, row_indptr, outcome_indptr, next_state, cost_OD, row_low_RD, row_high_RD, ends_low_SD,
    ends_high_SD, settled_low_SD, settled_high_SD, first_row, next_node_state, next_node_spent, next_slots, grid,
    next_alive, keep_all, out_alive, out_stuck, halt,
):  # fmt: skip
    """Write which nodes of a layer are alive, that is can be continued from, and which have no safe row at all.

    Returns how many rows the layer is to have, and a bound on their transitions: those that lead only to nodes that
    are alive or, with `keep_all`, all safe ones. Ends early once `halt[0]` is set.
    """
    n_rows = n_entries = 0
    last = next_slots.shape[0] == 0
    scratch = np.empty((1, node_spent.shape[1]), np.int64)
    for i in range(node_state.shape[0]):
        if halt[0]:
            break
        s = node_state[i]
        if row_indptr[s] == row_indptr[s + 1]:
            out_alive[i] = allows(node_spent, i, ends_low_SD, ends_high_SD, s)
            out_stuck[i] = not out_alive[i]
            continue
        out_alive[i], out_stuck[i] = False, True
        for r in range(row_indptr[s], row_indptr[s + 1]):
            if not allows(node_spent, i, row_low_RD, row_high_RD, r - first_row):
                continue
            out_stuck[i] = False
            good = _has_way_on(
                node_spent, i, r, outcome_indptr, next_state, cost_OD, settled_low_SD, settled_high_SD,
                next_node_state, next_node_spent, next_slots, grid, next_alive, scratch,
            )  # fmt: skip
            out_alive[i] |= good
            if good or keep_all:
                n_rows += 1
                n_entries += 1 if last else outcome_indptr[r + 1] - outcome_indptr[r]
    return n_rows, n_entries


@jit
def emit(
    node_state, node_spent, wanted, row_indptr, outcome_indptr, probability, next_state, cost_OD, row_low_RD,
    row_high_RD, settled_low_SD, settled_high_SD, first_row, next_node_state, next_node_spent, next_slots, grid,
    next_alive, keep_all, n_rows, n_entries, out_n_rows, out_row, out_indptr, out_next, out_probability, out_reached,
    halt,
):  # fmt: skip
    """Append the rows of the wanted nodes, as `judge` counts them, to those already written.

    Per row writes the model's row and its transitions, one for each node it can lead to, by position in the next
    layer; marks these in `out_reached`. Returns the number of rows and of transitions written so far. As a row is
    written before it is known to be kept, transitions need room for one row more. Ends early once `halt[0]` is set.
    """
    last = next_slots.shape[0] == 0
    scratch = np.empty((1, node_spent.shape[1]), np.int64)
    # the entry a next node has in the row being tried, and the try it was made in
    entry_of, tried_in = np.empty(out_reached.shape[0], np.int64), np.zeros(out_reached.shape[0], np.int64)
    tries = 0
    for i in range(node_state.shape[0]):
        out_n_rows[i] = 0
        if halt[0]:
            break
        if not wanted[i]:
            continue
        s = node_state[i]
        for r in range(row_indptr[s], row_indptr[s + 1]):
            if not allows(node_spent, i, row_low_RD, row_high_RD, r - first_row):
                continue
            begin, good = n_entries, True
            tries += 1
            if last:
                out_next[n_entries], out_probability[n_entries] = 0, 1.0
                n_entries += 1
            else:
                for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                    after = next_state[o]
                    arrive(node_spent, i, cost_OD, o, after, settled_low_SD, settled_high_SD, scratch, 0)
                    j = find(after, scratch, 0, next_node_state, next_node_spent, next_slots, grid)
                    if not keep_all and not next_alive[j]:
                        good = False
                        break
                    if tried_in[j] == tries:
                        out_probability[entry_of[j]] += probability[o]
                        continue
                    out_next[n_entries], out_probability[n_entries] = j, probability[o]
                    entry_of[j], tried_in[j] = n_entries, tries
                    n_entries += 1
            if not good:
                n_entries = begin
                continue
            for e in range(begin, n_entries):
                out_reached[out_next[e]] = True
            out_row[n_rows] = r
            n_rows += 1
            out_indptr[n_rows] = n_entries
            out_n_rows[i] += 1
    return n_rows, n_entries


@jit
def explore(
    begin, end, row_indptr, outcome_indptr, next_state, cost_OD, row_low_RD, row_high_RD, settled_low_SD,
    settled_high_SD, first_row, count, node_state, node_spent, slots, grid, halt,
):  # fmt: skip
    """Add to a set of `count` nodes everything that safe rows of those from `begin` to `end` can lead to.

    Returns the number of nodes and the node at which room ran out, or `end`. Ends early once `halt[0]` is set.
    """
    room = node_state.shape[0]
    for i in range(begin, end):
        if halt[0]:
            return count, i
        s = node_state[i]
        for r in range(row_indptr[s], row_indptr[s + 1]):
            if not allows(node_spent, i, row_low_RD, row_high_RD, r - first_row):
                continue
            for o in range(outcome_indptr[r], outcome_indptr[r + 1]):
                if count >= room:
                    return count, i
                after = next_state[o]
                node_state[count] = after
                arrive(node_spent, i, cost_OD, o, after, settled_low_SD, settled_high_SD, node_spent, count)
                if enter(count, node_state, node_spent, slots, grid):
                    count += 1
    return count, end


@jit
def spread_dead(row_indptr, entry_indptr, next_node, dead, halt):
    """Mark in `dead` the nodes all of whose rows can lead to a dead one so far; return whether there were any.

    Ends early once `halt[0]` is set.
    """
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
