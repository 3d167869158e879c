"""Sweeping boxes of amounts backward: values of every amount, and the best rows as runs.

At each (step, state) the values of a box of amounts x are computed from those of the next step,

    V_h(s, x) = max over a of  r_h(s, a) + E[ V_{h+1}(s', x + c) ],   minus infinity where a limit is broken,

with every amount that is neither doomed nor out of reach in one dense array. See `kernels` for the layout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.core.threads import run_by_states
from solvent.model.cmdp import CMDP
from solvent.solvers.accuracy import Extremes
from solvent.solvers.frontier.point_kernels import StepExtremes
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import RowRuns, StepRuns, SweepBuffers, SweptStep
from solvent.solvers.grid.layout import MOST_CELLS, BoxLayout
from solvent.solvers.problem import Problem

#: Evaluations of one step from which on it is swept on all threads.
_PARALLEL_FROM = 1_000_000
#: The largest number of evaluations, and of amounts, of several steps that are swept by one call.
_WORK_OF_CALL, _CELLS_OF_CALL = 4e6, 2.0**19


@dataclass(frozen=True)
class Swept:
    """Result of a sweep.

    Attributes
    ----------
    layout : BoxLayout
    value : ndarray of float64
        Values of the boxes of the first step.
    runs : StepRuns
    extremes : Extremes
    """

    layout: BoxLayout
    value: NDArray[np.float64]
    runs: StepRuns
    extremes: Extremes

    def value_of(self, amounts_ND: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values of amounts spent before the first step, in each possible first state.

        Parameters
        ----------
        amounts_ND : ndarray of int64, shape (N, D)
            Ticks, in the problem's order of resources, between those that the sweep began with.

        Returns
        -------
        ndarray of float64, shape (N, number of first states)
            Minus infinity where nothing is feasible.
        """
        layout, boxes = self.layout, self.layout.boxes
        amounts_ND = amounts_ND[:, layout.order]
        found = np.full((len(amounts_ND), len(layout.model.start_states)), -np.inf)
        for k, s in enumerate(layout.model.start_states.tolist()):
            low, width = boxes.low[0, s], boxes.width[0, s]
            if not width[0]:
                continue
            high = np.minimum(layout.bounds.safe_high[0, s], low + width - 1)
            doomed = (amounts_ND > layout.bounds.safe_high[0, s]) | (amounts_ND < layout.bounds.safe_low[0, s])
            at = np.zeros(len(amounts_ND), np.int64)
            for d in range(len(width)):
                stride = 1 if d == len(width) - 1 else int(boxes.pitch_H[0]) * int(np.prod(width[d + 1 : -1]))
                at += (np.clip(amounts_ND[:, d], low[d], high[d]) - low[d]) * stride
            found[:, k] = np.where(doomed.any(1), -np.inf, self.value[boxes.offset[0, s] + at])
        return found


def sweep_starts(
    problem: Problem, low_D: NDArray[np.int64], high_D: NDArray[np.int64], monitor: ResourceMonitor
) -> Swept:
    """Return the values of all amounts spent before the first step between two, inclusive.

    Raises
    ------
    LimitReached
        If time or memory runs out, or a step has more amounts than can be numbered.
    """
    layout = BoxLayout.at_start(problem.model, problem.lattice, monitor, start=(low_D, high_D))
    most = float(layout.sizes.cells_H.max())
    if most > MOST_CELLS:
        raise LimitReached(f"a step would have {most:.3g} amounts, more than {MOST_CELLS:.3g}")
    return sweep(layout, monitor)


def sweep(layout: BoxLayout, monitor: ResourceMonitor) -> Swept:
    """Compute the values of all boxes, from the last step to the first.

    Memory for the runs of best rows stays reserved, and for the values of the first step.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    return _Sweep(layout, monitor).run()


class _Sweep:
    """One sweep and its buffers."""

    def __init__(self, layout: BoxLayout, monitor: ResourceMonitor) -> None:
        self._layout, self._monitor, self._model = layout, monitor, layout.model
        sizes = layout.sizes
        self._temporary = int(8 * sizes.arrivals_H.max() + 2 * sizes.stored_H.max()) + 10 * layout.model.n_states
        monitor.reserve(int(8 * sizes.stored_H.max()) + self._temporary, "values of boxes of amounts")
        stored, n_states = int(sizes.stored_H.max()), layout.model.n_states
        swept = SweptStep(
            np.empty(stored), np.empty(stored, np.uint16), np.zeros(n_states), np.zeros((2, n_states), bool)
        )
        self._buffers = SweepBuffers(swept, np.empty(int(sizes.arrivals_H.max())))
        self._extremes = Extremes.none(layout.model, lambda: _last_rows(layout))
        self._out_extremes = StepExtremes(self._extremes.top, self._extremes.bottom, self._extremes.reward)
        self._runs: list[RowRuns] = []
        self._first_H, self._end_H = np.zeros((2, layout.model.horizon), np.int64)
        self._made = 0
        last = layout.boxes.width[-1, :, 0] > 0
        swept.value[layout.boxes.offset[-1, :-1][last]] = layout.model.end_value[last]

    def run(self) -> Swept:
        """Sweep all steps."""
        layout, monitor, horizon = self._layout, self._monitor, self._model.horizon
        work_H, cells_H = layout.sizes.work_H, layout.sizes.cells_H
        h = horizon
        while h > layout.begin:
            monitor.check_time()
            monitor.tell("backward", horizon - h, horizon - layout.begin, cells=int(cells_H[h - 1]))
            if work_H[h - 1] >= _PARALLEL_FROM:
                h -= 1
                self._sweep_step(h)
                continue
            stop, work, cells = h - 1, float(work_H[h - 1]), float(cells_H[h - 1])
            while stop > layout.begin and work_H[stop - 1] < _PARALLEL_FROM:
                work, cells = work + float(work_H[stop - 1]), cells + float(cells_H[stop - 1])
                if work > _WORK_OF_CALL or cells > _CELLS_OF_CALL:
                    break
                stop -= 1
            self._sweep_steps(h, stop)
            h = stop
        monitor.check_time()
        value = self._buffers.swept.value[: int(layout.sizes.stored_H[layout.begin])]
        monitor.release(self._temporary)
        runs = StepRuns(
            np.concatenate([each.start for each in self._runs]), np.concatenate([each.row for each in self._runs]),
            self._first_H, self._end_H,
        )  # fmt: skip
        return Swept(layout, value, runs, self._extremes)

    def _sweep_steps(self, begin: int, stop: int) -> None:
        """Sweep the steps from `begin` - 1 down to `stop` by one call."""
        layout, halt = self._layout, self._monitor.halt
        room = int(layout.sizes.cells_H[stop:begin].sum())
        with self._monitor.borrowed(6 * room, "runs of best rows"):
            runs = StepRuns(np.empty(room, np.int32), np.empty(room, np.uint16), self._first_H, self._end_H)
            kernels.sweep_steps(
                begin, stop, layout.arrays, layout.costs, layout.limits, layout.bounds, layout.boxes, self._buffers,
                runs, self._out_extremes, halt,
            )  # fmt: skip
            self._monitor.check_time()
            self._keep(RowRuns(runs.start, runs.row), int(self._end_H[stop]))
        self._first_H[stop:begin] += self._made
        self._end_H[stop:begin] += self._made
        self._made = int(self._end_H[stop])

    def _sweep_step(self, h: int) -> None:
        """Sweep one step on all threads."""
        layout, monitor, swept, arrival = self._layout, self._monitor, *self._buffers
        arrays, costs, limits, bounds, boxes = layout.arrays, layout.costs, layout.limits, layout.bounds, layout.boxes
        halt = monitor.halt
        run_by_states(
            lambda begin, end: kernels.fill_arrivals(
                begin, end, h + 1, costs, limits, bounds, boxes, swept.value, arrival, halt
            ),
            np.diff(boxes.arrival_offset[h + 1]).astype(float),
        )
        monitor.check_time()
        outcomes_S = np.diff(self._model.outcome_indptr[self._model.row_indptr_at(h)])
        run_by_states(
            lambda begin, end: kernels.sweep_states(
                begin, end, h, arrays, costs, limits, bounds, boxes, arrival, swept, halt
            ),
            np.diff(boxes.offset[h]) * (1.0 + outcomes_S),
        )
        monitor.check_time()
        room = int(layout.sizes.cells_H[h])
        with monitor.borrowed(6 * room, "runs of best rows"):
            runs = RowRuns(np.empty(room, np.int32), np.empty(room, np.uint16))
            count = kernels.finish_step(h, boxes, swept, 0, runs, self._out_extremes)
            self._keep(runs, count)
        self._first_H[h], self._end_H[h] = self._made, self._made + count
        self._made += count

    def _keep(self, runs: RowRuns, count: int) -> None:
        """Keep the first runs of arrays that are longer."""
        # twice, as they are concatenated at the end
        self._monitor.reserve(12 * count, "runs of best rows")
        self._runs.append(RowRuns(runs.start[:count].copy(), runs.row[:count].copy()))


def _last_rows(layout: BoxLayout) -> NDArray[np.int64]:
    """Return the rows of states that have boxes at the last step."""
    model: CMDP = layout.model
    indptr = model.row_indptr_at(model.horizon - 1)
    owner = np.repeat(np.arange(model.n_states), np.diff(indptr))
    return np.flatnonzero(layout.boxes.width[-2, owner, 0] > 0) + int(indptr[0])
