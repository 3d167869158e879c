"""Kernels that look for equal outcomes."""

from __future__ import annotations

from solvent.core.jit import jit

#: Results of `find_twins`: no row has equal outcomes, some row has, or some row is too long for comparing all pairs.
NONE, SOME, UNKNOWN = 0, 1, 2
#: Longest row whose outcomes are compared pair by pair.
_MOST_COMPARED = 64


@jit
def find_twins(outcome_indptr, next_state, ticks_OD):
    """Return `SOME` if two outcomes of a row lead to the same state at the same cost, else `NONE` or `UNKNOWN`."""
    found = NONE
    for r in range(outcome_indptr.shape[0] - 1):
        begin, end = outcome_indptr[r], outcome_indptr[r + 1]
        if end - begin > _MOST_COMPARED:
            found = UNKNOWN
            continue
        for o in range(begin + 1, end):
            for other in range(begin, o):
                if next_state[o] == next_state[other]:
                    same = True
                    for d in range(ticks_OD.shape[1]):
                        same = same and ticks_OD[o, d] == ticks_OD[other, d]
                    if same:
                        return SOME
    return found
