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
from solvent.solvers.parts import StatePart, bordered, owners, part_of


@dataclass(frozen=True)
class Part(StatePart):
    """Some states of a problem, and their boxes.

    Attributes
    ----------
    boxes : Boxes
        Offsets are within the part, own states first.
    inner : (int, int)
        The range of positions of own states that no other part needs.
    first_H : ndarray of int64, shape (H + 1,)
        Number of its first amount, counting those of all parts.
    """

    boxes: Boxes
    inner: tuple[int, int]
    first_H: NDArray[np.int64]

    @classmethod
    def all_of(cls, layout: BoxLayout, sets: list[NDArray[np.int64]]) -> list[Part]:
        """Return the parts with the given states of their own, in an order of the part."""
        owner_S, found = owners(sets), []
        first_H = np.zeros(len(layout.boxes.cell), np.int64)
        for own, inner in bordered(layout.model, sets):
            part = part_of(layout, own, owner_S)
            boxes = _boxes_of(layout.boxes, np.concatenate([part.own, part.halo]))
            found.append(cls(**vars(part), boxes=boxes, inner=inner, first_H=first_H))
            first_H = first_H + found[-1].cells_H
        return found

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
        own = max(int(part.stored_H.max()) for part in parts)
        arrivals = max(int(part.boxes.arrival_offset[:, -1].max()) for part in parts)
        return cls(np.empty(own), np.empty(own, np.uint16), np.empty(arrivals))


class PartSweep:
    """Sweeps the boxes of a part, one step at a time.

    For a step h, arrivals at step h + 1 are filled first: those of all states by `end` if that is the last step, else
    by `arrive` and `receive`. Then all of its own states are swept, in any order, and `finish` returns the result.

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
        buffers.row[:] = 0  # of terminal states, which are not swept again if nothing changes
        self._swept = SweptStep(buffers.value, buffers.row, np.zeros(n_states), np.zeros((2, n_states), bool))
        # of the halo, where values are in arrays that are received
        self._received = part.boxes._replace(offset=np.zeros_like(part.boxes.offset))

    def own_values(self, h: int) -> NDArray[np.float64]:
        """Return the values of its own states at step h, which was swept last; a view."""
        return self._swept.value[: int(self.part.stored_H[h])]

    def end(self) -> None:
        """Fill the arrivals of all states after the last step."""
        part, boxes = self.part, self.part.boxes
        last, value = boxes.width[-1, :, 0] > 0, np.zeros(int(boxes.offset[-1, -1]))
        value[boxes.offset[-1, :-1][last]] = part.arrays.end_value[last]
        self._fill(len(boxes.pitch_H) - 1, 0, part.n_states, boxes, value)

    def arrive(self, h: int) -> None:
        """Fill the arrivals of its own states at step h from their values."""
        self._fill(h, 0, len(self.part.own), self.part.boxes, self._swept.value)

    def receive(self, h: int, halo: NDArray[np.int64], value: NDArray[np.float64], at: NDArray[np.int64]) -> None:
        """Fill the arrivals of some states of its halo at step h.

        Parameters
        ----------
        h : int
        halo : ndarray of int64, shape (N,)
            Their positions in the halo, which are consecutive.
        value : ndarray of float64
            Values that contain theirs.
        at : ndarray of int64, shape (N,)
            Where their blocks begin in `value`.
        """
        states = halo + len(self.part.own)
        self._received.offset[h, states] = at
        self._fill(h, int(states[0]), int(states[-1]) + 1, self._received, value)

    def _fill(self, h: int, begin: int, end: int, boxes: Boxes, value: NDArray[np.float64]) -> None:
        """Fill the arrivals of a range of states at step h."""
        part, value = self.part, read_only(value)
        run_by_states(
            lambda first, after: kernels.fill_arrivals(
                begin + first, begin + after, h, part.costs, part.limits, part.bounds, boxes, value, self._arrival,
                self._halt,
            ),
            np.diff(boxes.arrival_offset[h, begin : end + 1]).astype(float),
        )  # fmt: skip

    def sweep(self, h: int, begin: int, end: int) -> None:
        """Sweep a range of its own states at step h, after the arrivals at step h + 1 were filled."""
        part, swept = self.part, self._swept
        swept.same_2S[:] = False
        offset = part.boxes.offset[h, begin : end + 1]
        outcomes_S = np.diff(part.arrays.outcome_indptr[part.row_indptr_at(h)[begin : end + 1]])
        run_by_states(
            lambda first, after: kernels.sweep_states(
                begin + first, begin + after, h, part.arrays, part.costs, part.limits, part.bounds, part.boxes,
                self._arrival, swept, self._halt,
            ),
            np.diff(offset) * (1.0 + outcomes_S),
        )  # fmt: skip

    def finish(self, h: int) -> tuple[RowRuns, NDArray[np.float64]]:
        """Return the result of step h, after all of its own states were swept.

        Returns
        -------
        runs : RowRuns
            Best rows of its own amounts, numbered from `first_H` on; incomplete if the flag was raised.
        extremes : ndarray of float64, shape (3,)
            The largest value, the smallest value, and the largest reward, as in `Extremes`.
        """
        part, room = self.part, int(self.part.cells_H[h])
        runs = RowRuns(np.empty(room, np.int32), np.empty(room, np.uint16))
        extremes = StepExtremes(*np.zeros((3, len(part.boxes.pitch_H))))
        count = kernels.finish_step(h, part.own_boxes, self._swept, 0, runs, extremes)
        runs.start[:count] += np.int32(part.first_H[h])
        found = np.array([extremes.top_H[h], extremes.bottom_H[h], extremes.reward_H[h]])
        return RowRuns(runs.start[:count], runs.row[:count]), found
