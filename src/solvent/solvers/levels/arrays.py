"""Named tuples of arrays that the kernels of levels take and write."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.model.cmdp import CMDP
from solvent.solvers.arrays import read_only

#: The level of a state from which no level is enough.
IMPOSSIBLE = int(np.iinfo(np.int64).max)


class LevelArrays(NamedTuple):
    """A stationary model with the costs of one resource in ticks, and its outcomes by next state.

    Attributes
    ----------
    row_indptr : ndarray of int64, shape (S + 1,)
        First row of each state.
    outcome_indptr : ndarray of int64, shape (R + 1,)
        First outcome of each row.
    next_state : ndarray of int32, shape (O,)
    cost : ndarray of int64, shape (O,)
        Costs in ticks, from minus the capacity to the capacity plus one: larger ones make no difference.
    state_of_row : ndarray of int32, shape (R,)
    row_of_outcome : ndarray of int64, shape (O,)
    into_indptr : ndarray of int64, shape (S + 1,)
        First entry of `into` of each next state.
    into : ndarray of int64, shape (O,)
        Outcomes, sorted by next state.
    """

    row_indptr: NDArray[np.int64]
    outcome_indptr: NDArray[np.int64]
    next_state: NDArray[np.int32]
    cost: NDArray[np.int64]
    state_of_row: NDArray[np.int32]
    row_of_outcome: NDArray[np.int64]
    into_indptr: NDArray[np.int64]
    into: NDArray[np.int64]

    @classmethod
    def of(cls, model: CMDP, cost: NDArray[np.int64]) -> LevelArrays:
        """Return the arrays of a model of one table with costs in ticks."""
        states = np.repeat(np.arange(model.n_states, dtype=np.int32), np.diff(model.row_indptr))
        rows = np.repeat(np.arange(model.n_rows), np.diff(model.outcome_indptr))
        counts = np.bincount(model.next_state, minlength=model.n_states)
        arrays = (
            model.row_indptr,
            model.outcome_indptr,
            model.next_state,
            cost,
            states,
            rows,
            np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            np.argsort(model.next_state, kind="stable"),
        )
        return cls(*map(read_only, arrays))  # type: ignore[arg-type]


class StateKinds(NamedTuple):
    """What is special about states; arrays of bool, shape (S,).

    Attributes
    ----------
    fixed : ndarray
        States whose level is given and does not change.
    reload : ndarray
        States that set the level to the capacity: arriving there needs a level of 0 if they can be left with the
        capacity, and is impossible otherwise.
    """

    fixed: NDArray[np.bool_]
    reload: NDArray[np.bool_]

    @classmethod
    def of(cls, fixed: NDArray[np.bool_], reload: NDArray[np.bool_]) -> StateKinds:
        """Return the kinds of states, in read-only arrays."""
        return cls(read_only(fixed), read_only(reload))


class Rising(NamedTuple):
    """A computation of levels that rise.

    Attributes
    ----------
    level_S : ndarray of int64, shape (S,)
        Level with which a state must be entered.
    need_R : ndarray of int64, shape (R,)
        Level that each row needs.
    best_S : ndarray of int64, shape (S,)
        Row of each state that needs least, or -1.
    queue_S : ndarray of int64, shape (S,)
        Ring buffer of states whose level has risen since it was last passed on.
    waiting_S : ndarray of bool, shape (S,)
        Whether a state is in the queue.
    ends : ndarray of int64, shape (2,)
        First position in the queue, and number of states in it.
    """

    level_S: NDArray[np.int64]
    need_R: NDArray[np.int64]
    best_S: NDArray[np.int64]
    queue_S: NDArray[np.int64]
    waiting_S: NDArray[np.bool_]
    ends: NDArray[np.int64]


class Falling(NamedTuple):
    """A computation of levels that fall.

    Attributes
    ----------
    level_S : ndarray of int64, shape (S,)
        Level with which a state must be entered, as far as it was passed on.
    found_S : ndarray of int64, shape (S,)
        Least level found so far for leaving each state.
    row_S : ndarray of int64, shape (S,)
        The row that needs it, or -1.
    missing_R : ndarray of int64, shape (R,)
        Number of outcomes of each row whose next state is impossible so far.
    heap_S : ndarray of int64, shape (S,)
        Binary heap of states whose level has fallen, by `found_S`.
    place_S : ndarray of int64, shape (S,)
        Place of each state in the heap, or -1.
    sizes : ndarray of int64, shape (2,)
        Number of states in the heap, and number of rules.
    """

    level_S: NDArray[np.int64]
    found_S: NDArray[np.int64]
    row_S: NDArray[np.int64]
    missing_R: NDArray[np.int64]
    heap_S: NDArray[np.int64]
    place_S: NDArray[np.int64]
    sizes: NDArray[np.int64]


class RuleArrays(NamedTuple):
    """Rules in the order in which they were found: from this level on, this row leads to an earlier rule.

    Attributes
    ----------
    state : ndarray of int32, shape (N,)
    level : ndarray of int64, shape (N,)
    row : ndarray of int64, shape (N,)
    """

    state: NDArray[np.int32]
    level: NDArray[np.int64]
    row: NDArray[np.int64]

    def resized(self, size: int) -> RuleArrays:
        """Return a copy with place for `size` rules, of which the first are the same."""
        return RuleArrays(np.resize(self.state, size), np.resize(self.level, size), np.resize(self.row, size))
