"""Parts of a problem: some of its states, with all that is needed to compute what belongs to their nodes.

What belongs to a state at a step depends on its successors at the next step (values) or on its predecessors at the
step before (which nodes there are), and on nothing else. So states can be divided into parts that are processed
independently of each other, step by step, on other machines or one after another, if each part is given what it needs
of others:

    own states       processed by this part
    halo             further states that outcomes of own states lead to; own states of other parts
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.model.cmdp import CMDP
from solvent.solvers.arrays import ModelArrays, TickCosts, read_only
from solvent.solvers.bounds.arrays import ArraySource, Bounds, LimitArrays


class Divisible(ArraySource, Protocol):
    """A problem that can be divided into parts."""

    @property
    def model(self) -> CMDP:
        """The model."""


@dataclass(frozen=True)
class StatePart:
    """Some states of a problem.

    All arrays are over the states of the part: its own, then its halo. Rows are those of its own states.

    Attributes
    ----------
    own : ndarray of int64
        Its own states.
    halo : ndarray of int64
        The states of other parts that outcomes of its own states lead to.
    rows : ndarray of int64
        The position of each row among those of the model.
    arrays : ModelArrays
    costs : TickCosts
    limits : LimitArrays
    bounds : Bounds
    """

    own: NDArray[np.int64]
    halo: NDArray[np.int64]
    rows: NDArray[np.int64]
    arrays: ModelArrays
    costs: TickCosts
    limits: LimitArrays
    bounds: Bounds

    @property
    def n_states(self) -> int:
        """Number of its states."""
        return len(self.own) + len(self.halo)

    def row_indptr_at(self, h: int) -> NDArray[np.int64]:
        """Return the position of the first row of each of its own states at a step, and the end of the last one."""
        first = int(self.arrays.table_of_step[h]) * self.n_states
        return self.arrays.row_indptr[first : first + len(self.own) + 1]


def part_of(problem: Divisible, own: NDArray[np.int64], owner_S: NDArray[np.int64] | None = None) -> StatePart:
    """Return the part with the given states of its own.

    Its halo is increasing or, if `owner_S` has the part of each state, in the order of these parts.
    """
    given, found = problem.arrays, rows_of(problem, own)
    halo = np.setdiff1d(found.after, own).astype(np.int64)
    if owner_S is not None:
        halo = halo[np.argsort(owner_S[halo], kind="stable")]
    states = np.concatenate([own, halo])
    place = np.empty(problem.model.n_states, np.int32)
    place[states] = np.arange(len(states), dtype=np.int32)
    counts_TS = np.zeros((len(found.row_counts_TS), len(states)), np.int64)
    counts_TS[:, : len(own)] = found.row_counts_TS
    outcomes = found.outcomes
    arrays = ModelArrays(
        given.table_of_step, read_only(_indptr(counts_TS.ravel())), read_only(given.row_reward[found.rows]),
        read_only(_indptr(found.outcome_counts)), read_only(given.probability[outcomes]),
        read_only(place[found.after]),
        read_only(given.end_value[states]),
    )  # fmt: skip
    costs = problem.costs._replace(cost_OD=read_only(np.ascontiguousarray(problem.costs.cost_OD[outcomes])))
    bounds = Bounds(*(np.ascontiguousarray(each[:, states]) for each in problem.bounds))
    return StatePart(own, halo, found.rows, arrays, costs, problem.limits, bounds)


class OwnRows(NamedTuple):
    """The rows of some states at all steps, and their outcomes.

    Attributes
    ----------
    rows : ndarray of int64, shape (R,)
    row_counts_TS : ndarray of int64, shape (T, S)
        Number of rows of each state in each table.
    outcomes : ndarray of int64, shape (O,)
    outcome_counts : ndarray of int64, shape (R,)
        Number of outcomes of each row.
    after : ndarray of int32, shape (O,)
        The next state of each outcome.
    """

    rows: NDArray[np.int64]
    row_counts_TS: NDArray[np.int64]
    outcomes: NDArray[np.int64]
    outcome_counts: NDArray[np.int64]
    after: NDArray[np.int32]


def rows_of(problem: Divisible, states: NDArray[np.int64]) -> OwnRows:
    """Return the rows of some states and their outcomes."""
    model, arrays = problem.model, problem.arrays
    n_tables = (len(model.row_indptr) - 1) // model.n_states
    keys = (np.arange(n_tables)[:, None] * model.n_states + states).ravel()
    rows, row_counts = ranges(model.row_indptr, keys)
    outcomes, outcome_counts = ranges(model.outcome_indptr, rows)
    shape = (n_tables, len(states))
    return OwnRows(rows, row_counts.reshape(shape), outcomes, outcome_counts, arrays.next_state[outcomes])


def ranges(indptr: NDArray[np.int64], keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all positions that an index pointer assigns to some keys, one key after another, and their numbers."""
    first, counts = indptr[keys], indptr[keys + 1] - indptr[keys]
    shift = first - (np.cumsum(counts) - counts)
    return np.arange(int(counts.sum())) + np.repeat(shift, counts), counts


def _indptr(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def split_states(model: CMDP, weight_S: NDArray[np.float64], n_parts: int) -> list[NDArray[np.int64]]:
    """Divide states into at most `n_parts` sets of about equal weight with few transitions between them.

    By recursive bisection: states are put into an order in which successors are close to each other (reverse
    Cuthill-McKee), which is cut in two.

    Examples
    --------
    >>> from solvent.model import instances
    >>> [len(part) for part in split_states(instances.fuel_grid(4), np.ones(16), 2)]
    [8, 8]
    """
    from scipy.sparse import csr_matrix  # not needed by workers, which begin sooner without it
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    if n_parts < 2:
        return [np.arange(model.n_states)]
    state_O, shape = _state_of_outcomes(model), (model.n_states, model.n_states)
    graph: Any = csr_matrix((np.ones(len(state_O), np.int8), (state_O, model.next_state)), shape)
    graph = csr_matrix(graph + graph.T)
    found: list[NDArray[np.int64]] = []
    waiting = [(np.arange(model.n_states), min(n_parts, model.n_states))]
    while waiting:
        states, count = waiting.pop()
        if count == 1:
            found.append(np.sort(states))
            continue
        inner = graph[states][:, states] if len(states) < model.n_states else graph
        ordered = states[reverse_cuthill_mckee(csr_matrix(inner), symmetric_mode=True)]
        left = count // 2
        total = np.cumsum(weight_S[ordered])
        cut = int(np.searchsorted(total, total[-1] * left / count))
        cut = min(max(cut + 1, left), len(states) - (count - left))  # each part has a state
        waiting += [(ordered[cut:], count - left), (ordered[:cut], left)]
    return found


def _state_of_outcomes(model: CMDP) -> NDArray[np.int64]:
    """Return the state in which each outcome may happen, shape (O,)."""
    state_R = np.repeat(np.arange(len(model.row_indptr) - 1) % model.n_states, np.diff(model.row_indptr))
    return np.repeat(state_R, np.diff(model.outcome_indptr))


def owners(sets: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the number of the set that each state belongs to, shape (S,)."""
    owner_S = np.empty(sum(map(len, sets)), np.int64)
    for p, states in enumerate(sets):
        owner_S[states] = p
    return owner_S


class BorderedSet(NamedTuple):
    """The states of a part in an order in which those that other parts need come first or last.

    Attributes
    ----------
    states : ndarray of int64
        First all that the first of these parts needs, last all that the last of them needs in addition.
    inner : (int, int)
        The range of positions of those that no other part needs.
    """

    states: NDArray[np.int64]
    inner: tuple[int, int]


def bordered(model: CMDP, sets: Sequence[NDArray[np.int64]]) -> list[BorderedSet]:
    """Return the states of each part with its border at the ends, so that most of what is sent is contiguous.

    Examples
    --------
    >>> from solvent.model import instances
    >>> [each.inner for each in bordered(instances.fuel_grid(4), [np.arange(8), np.arange(8, 16)])]
    [(4, 8), (4, 8)]
    """
    owner_S = owners(sets)
    receiver = owner_S[_state_of_outcomes(model)]
    crossing = receiver != owner_S[model.next_state]
    sent, receiver = model.next_state[crossing], receiver[crossing]
    first_S, last_S = np.full(len(owner_S), len(sets)), np.full(len(owner_S), -1)
    np.minimum.at(first_S, sent, receiver)
    np.maximum.at(last_S, sent, receiver)
    found = []
    for states in sets:
        first, last = first_S[states], last_S[states]
        at_end = (last >= 0) & (last == last.max()) & (first > first.min())
        rank = np.where(last < 0, 2, np.where(first == first.min(), 0, np.where(at_end, 3, 1)))
        order = np.argsort(rank, kind="stable")
        found.append(BorderedSet(states[order], (int((rank < 2).sum()), int((rank < 3).sum()))))
    return found


@dataclass(frozen=True)
class Exchange:
    """The states of which parts need values of each other, and whose nodes they find for each other.

    Attributes
    ----------
    senders : list of list of int
        For each part, the parts that its halo belongs to.
    sent : dict of ndarray of int64 by (sender, receiver)
        Positions, among the sender's own states, of those in the receiver's halo.
    received : dict of ndarray of int64 by (sender, receiver)
        Positions of the same states in the receiver's halo.
    """

    senders: list[list[int]]
    sent: dict[tuple[int, int], NDArray[np.int64]]
    received: dict[tuple[int, int], NDArray[np.int64]]

    @classmethod
    def between(cls, parts: Sequence[StatePart], n_states: int) -> Exchange:
        """Return what parts that together have all states need of each other."""
        owner, place = np.empty(n_states, np.int64), np.empty(n_states, np.int64)
        for p, part in enumerate(parts):
            owner[part.own], place[part.own] = p, np.arange(len(part.own))
        senders, sent, received = [], {}, {}
        for q, part in enumerate(parts):
            senders.append(np.unique(owner[part.halo]).tolist())
            for p in senders[-1]:
                at = np.flatnonzero(owner[part.halo] == p)
                sent[p, q], received[p, q] = place[part.halo[at]], at
        return cls(senders, sent, received)

    @property
    def receivers(self) -> list[list[int]]:
        """For each part, the parts whose halo contains states of it."""
        count = len(self.senders)
        return [[q for q in range(count) if p in self.senders[q]] for p in range(count)]
