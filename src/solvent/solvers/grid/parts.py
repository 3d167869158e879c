"""Parts of a sweep: some states of a problem, with all that is needed to sweep their boxes.

The values of a state at a step depend on those of its successors at the next step, and on nothing else. So states can
be divided into parts that are swept independently of each other, step by step, on other machines or one after another,
if each part is given the values of its successors:

    own states       swept by this part
    halo             further states that outcomes of own states lead to; swept by other parts

The values of a state at a step are one *block* of numbers, the same in every part. No sum depends on how states are
divided, so that values and best rows are the same, bit for bit, for any number of parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from solvent.core.threads import run_by_states
from solvent.model.cmdp import CMDP
from solvent.solvers.arrays import ModelArrays, TickCosts, read_only
from solvent.solvers.bounds.arrays import Bounds, LimitArrays
from solvent.solvers.frontier.point_kernels import StepExtremes
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import Boxes, RowRuns, SweptStep
from solvent.solvers.grid.layout import BoxLayout


@dataclass(frozen=True)
class Part:
    """Some states of a problem.

    All arrays are over the states of the part: its own, then its halo. Rows are those of its own states.

    Attributes
    ----------
    own : ndarray of int64
        Its own states, increasing.
    halo : ndarray of int64
        The states of other parts that outcomes of its own states lead to, increasing.
    arrays : ModelArrays
    costs : TickCosts
    limits : LimitArrays
    bounds : Bounds
    boxes : Boxes
        Offsets are within the part, own states first.
    """

    own: NDArray[np.int64]
    halo: NDArray[np.int64]
    arrays: ModelArrays
    costs: TickCosts
    limits: LimitArrays
    bounds: Bounds
    boxes: Boxes

    @classmethod
    def of(cls, layout: BoxLayout, own: NDArray[np.int64]) -> Part:
        """Return the part with the given states of its own."""
        model, boxes = layout.model, layout.boxes
        n_states, n_tables = model.n_states, (len(model.row_indptr) - 1) // model.n_states
        keys = (np.arange(n_tables)[:, None] * n_states + own).ravel()
        rows, row_counts = _ranges(model.row_indptr, keys)
        outcomes, outcome_counts = _ranges(model.outcome_indptr, rows)
        after = layout.arrays.next_state[outcomes]
        halo = np.setdiff1d(after, own).astype(np.int64)
        states = np.concatenate([own, halo])
        place = np.empty(n_states, np.int32)
        place[states] = np.arange(len(states), dtype=np.int32)
        counts_TS = np.zeros((n_tables, len(states)), np.int64)
        counts_TS[:, : len(own)] = row_counts.reshape(n_tables, len(own))
        given = layout.arrays
        arrays = ModelArrays(
            given.table_of_step, read_only(_indptr(counts_TS.ravel())), read_only(given.row_reward[rows]),
            read_only(_indptr(outcome_counts)), read_only(given.probability[outcomes]), read_only(place[after]),
            read_only(given.end_value[states]),
        )  # fmt: skip
        costs = layout.costs._replace(cost_OD=read_only(np.ascontiguousarray(layout.costs.cost_OD[outcomes])))
        bounds = Bounds(*(np.ascontiguousarray(each[:, states]) for each in layout.bounds))
        return cls(own, halo, arrays, costs, layout.limits, bounds, _boxes_of(boxes, states))

    @property
    def n_states(self) -> int:
        """Number of its states."""
        return len(self.own) + len(self.halo)

    @cached_property
    def own_boxes(self) -> Boxes:
        """The boxes of its own states only."""
        n_own = len(self.own)
        low, width, arrival_low, arrival_width = (np.ascontiguousarray(each[:, :n_own]) for each in self.boxes[:4])
        offset, arrival_offset, cell = (np.ascontiguousarray(each[:, : n_own + 1]) for each in self.boxes[5:])
        return Boxes(low, width, arrival_low, arrival_width, self.boxes.pitch_H, offset, arrival_offset, cell)

    @property
    def stored_H(self) -> NDArray[np.int64]:  # noqa: N802
        """Number of values of its own states at each step, shape (H + 1,)."""
        return self.own_boxes.offset[:, -1]

    @property
    def cells_H(self) -> NDArray[np.int64]:  # noqa: N802
        """Number of amounts of its own states at each step, shape (H + 1,)."""
        return self.own_boxes.cell[:, -1]

    @property
    def fixed_bytes(self) -> int:
        """Memory for the part itself."""
        fields = (self.arrays, self.costs[:3], self.bounds, self.boxes)
        return sum(int(array.nbytes) for each in fields for array in each)


def _ranges(indptr: NDArray[np.int64], keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all positions that an index pointer assigns to some keys, one key after another, and their numbers."""
    first, counts = indptr[keys], indptr[keys + 1] - indptr[keys]
    shift = first - (np.cumsum(counts) - counts)
    return np.arange(int(counts.sum())) + np.repeat(shift, counts), counts


def _indptr(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _boxes_of(boxes: Boxes, states: NDArray[np.int64]) -> Boxes:
    """Return the boxes of some states, with offsets among these."""
    low, width, arrival_low, arrival_width = (np.ascontiguousarray(each[:, states]) for each in boxes[:4])
    zero = np.zeros((len(low), 1), np.int64)

    def offsets(each: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.concatenate([zero, np.cumsum((each[:, 1:] - each[:, :-1])[:, states], axis=1)], axis=1)

    return Boxes(
        low, width, arrival_low, arrival_width, boxes.pitch_H, offsets(boxes.offset), offsets(boxes.arrival_offset),
        offsets(boxes.cell),
    )  # fmt: skip


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
    owner = np.repeat(np.arange(len(model.row_indptr) - 1) % model.n_states, np.diff(model.row_indptr))
    state_O = np.repeat(owner, np.diff(model.outcome_indptr))
    shape = (model.n_states, model.n_states)
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


class PartBuffers(NamedTuple):
    """Arrays that are long enough for every step of some parts.

    Attributes
    ----------
    value : ndarray of float64
    row : ndarray of uint16
    arrival : ndarray of float64
    """

    value: NDArray[np.float64]
    row: NDArray[np.uint16]
    arrival: NDArray[np.float64]

    @classmethod
    def of(cls, parts: list[Part]) -> PartBuffers:
        """Return buffers for one of some parts at a time."""
        stored = max(int(part.boxes.offset[:, -1].max()) for part in parts)
        own = max(int(part.stored_H.max()) for part in parts)
        arrivals = max(int(part.boxes.arrival_offset[:, -1].max()) for part in parts)
        return cls(np.empty(stored), np.empty(own, np.uint16), np.empty(arrivals))


class PartSweep:
    """Sweeps the boxes of a part, one step at a time.

    Parameters
    ----------
    part : Part
    buffers : PartBuffers
    halt : ndarray of bool, shape (1,)
        A flag that ends kernels early when it is raised.
    """

    def __init__(self, part: Part, buffers: PartBuffers, halt: NDArray[np.bool_]) -> None:
        self.part, self._halt, self._arrival = part, halt, buffers.arrival
        n_states = part.n_states
        self._swept = SweptStep(buffers.value, buffers.row, np.zeros(n_states), np.zeros((2, n_states), bool))

    def end(self) -> None:
        """Set the values after the last step."""
        boxes, value = self.part.boxes, self._swept.value
        last = boxes.width[-1, :, 0] > 0
        value[boxes.offset[-1, :-1][last]] = self.part.arrays.end_value[last]

    def own_values(self, h: int) -> NDArray[np.float64]:
        """Return the values of its own states at step h, which was swept last; a view."""
        return self._swept.value[: int(self.part.stored_H[h])]

    def receive(
        self, h: int, halo: NDArray[np.int64], value: NDArray[np.float64], offset: NDArray[np.int64],
        states: NDArray[np.int64],
    ) -> None:  # fmt: skip
        """Copy the values at step h of some states of its halo.

        Parameters
        ----------
        h : int
        halo : ndarray of int64, shape (N,)
            Their positions in the halo.
        value : ndarray of float64
            Values that contain theirs.
        offset : ndarray of int64
            Where the blocks of `value` begin, and where the last one ends.
        states : ndarray of int64, shape (N,)
            The positions of their blocks.
        """
        to = self.part.boxes.offset[h]
        places = read_only(halo + len(self.part.own))
        kernels.copy_blocks(read_only(value), read_only(offset), read_only(states), self._swept.value, to, places)

    def sweep(self, h: int) -> tuple[RowRuns, NDArray[np.float64]]:
        """Sweep step h, given the values of its own states and of its halo at step h + 1.

        Returns
        -------
        runs : RowRuns
            Best rows of its own amounts; incomplete if the flag was raised.
        extremes : ndarray of float64, shape (3,)
            The largest value, the smallest value, and the largest reward, as in `Extremes`.
        """
        part, swept, halt = self.part, self._swept, self._halt
        swept.same_2S[:] = False
        swept.row[: int(part.stored_H[h])] = 0  # of terminal states, which are not swept again if nothing changes
        run_by_states(
            lambda begin, end: kernels.fill_arrivals(
                begin, end, h + 1, part.costs, part.limits, part.bounds, part.boxes, swept.value, self._arrival, halt
            ),
            np.diff(part.boxes.arrival_offset[h + 1]).astype(float),
        )
        first = int(part.arrays.table_of_step[h]) * part.n_states
        indptr = part.arrays.row_indptr[first : first + len(part.own) + 1]
        outcomes_S = np.diff(part.arrays.outcome_indptr[indptr])
        run_by_states(
            lambda begin, end: kernels.sweep_states(
                begin, end, h, part.arrays, part.costs, part.limits, part.bounds, part.boxes, self._arrival, swept, halt
            ),
            np.diff(part.own_boxes.offset[h]) * (1.0 + outcomes_S),
        )
        room = int(part.cells_H[h])
        runs = RowRuns(np.empty(room, np.int32), np.empty(room, np.uint16))
        extremes = StepExtremes(*np.zeros((3, len(part.boxes.pitch_H))))
        count = kernels.finish_step(h, part.own_boxes, swept, 0, runs, extremes)
        found = np.array([extremes.top_H[h], extremes.bottom_H[h], extremes.reward_H[h]])
        return RowRuns(runs.start[:count], runs.row[:count]), found


@dataclass(frozen=True)
class Exchange:
    """Blocks of values that parts need of each other.

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
    def between(cls, parts: list[Part], n_states: int) -> Exchange:
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
