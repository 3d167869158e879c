"""Kernels that look for outcomes that are one."""

from __future__ import annotations

from solvent.core.jit import jit

#: What `find_twins` answers: no row has any, some row has, or a row is too long to be compared pair by pair.
NONE, SOME, UNKNOWN = 0, 1, 2
#: Longer rows are left to sorting.
_MOST_COMPARED = 64


@jit
def find_twins(outcome_indptr, next_state, ticks_OD):
    """Return whether two outcomes of a row lead to the same state at the same ticks: `NONE`, `SOME` or `UNKNOWN`."""
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
