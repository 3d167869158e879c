"""Parts of a sweep: some states of a problem, with all that is needed to sweep their boxes.

The values of a state at a step are one *block* of numbers, the same in every part. No sum depends on how states are
divided, so that values and best rows are the same, bit for bit, for any number of parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.threads import run_by_states
from solvent.solvers.arrays import read_only
from solvent.solvers.frontier.point_kernels import StepExtremes
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import Boxes, RowRuns, SweptStep
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.parts import StatePart, part_of


@dataclass(frozen=True)
class Part(StatePart):
    """Some states of a problem, and their boxes.

    Attributes
    ----------
    boxes : Boxes
        Offsets are within the part, own states first.
    """

    boxes: Boxes

    @classmethod
    def of(cls, layout: BoxLayout, own: NDArray[np.int64]) -> Part:
        """Return the part with the given states of its own."""
        part = part_of(layout, own)
        return cls(**vars(part), boxes=_boxes_of(layout.boxes, np.concatenate([part.own, part.halo])))

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
        fields = ((self.rows,), self.arrays, self.costs[:3], self.bounds, self.boxes)
        return sum(int(array.nbytes) for each in fields for array in each)


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
        outcomes_S = np.diff(part.arrays.outcome_indptr[part.row_indptr_at(h)])
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
