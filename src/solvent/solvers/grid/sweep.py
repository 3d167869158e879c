"""Sweeping boxes of amounts backward: values of every amount, and the best rows as runs.

At each (step, state) the values of a box of amounts x are computed from those of the next step,

    V_h(s, x) = max over a of  r_h(s, a) + E[ V_{h+1}(s', x + c) ],   minus infinity where a limit is broken,

with every amount that is neither doomed nor out of reach in one dense array. See `kernels` for the layout.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.core.engines import LOCAL, Engine, RayEngine
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.core.threads import run_by_states
from solvent.solvers.accuracy import Extremes
from solvent.solvers.arrays import read_only
from solvent.solvers.engines.ray_grid import sweep_on_ray
from solvent.solvers.frontier.point_kernels import StepExtremes
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import RowRuns, StepRuns, SweepBuffers, SweptStep
from solvent.solvers.grid.layout import MOST_CELLS, BoxLayout
from solvent.solvers.grid.runs import PARTS, WHOLE, KeptRuns, SavedSweep, step_of
from solvent.solvers.grid.spilled import plan_parts, sweep_parts
from solvent.solvers.grid.swept import Swept, last_rows
from solvent.solvers.problem import Problem

#: Evaluations of one step from which on it is swept on all threads.
_PARALLEL_FROM = 1_000_000
#: Evaluations of a problem, about a second on one core, from which on a cluster sweeps it.
DISTRIBUTED_FROM = 5e8
#: The largest number of evaluations, and of amounts, of several steps that are swept by one call.
_WORK_OF_CALL, _CELLS_OF_CALL = 4e6, 2.0**19


def sweep_starts(
    problem: Problem,
    low_D: NDArray[np.int64],
    high_D: NDArray[np.int64],
    monitor: ResourceMonitor,
    engine: Engine = LOCAL,
) -> Swept:
    """Return the values of all amounts spent before the first step between two, inclusive.

    Raises
    ------
    LimitReached
        If time or memory runs out, or a step has more amounts than can be numbered.
    """
    layout = BoxLayout.at_start(problem.model, problem.lattice, monitor, start=(low_D, high_D))
    return sweep(layout, monitor, engine=engine)


def sweep(layout: BoxLayout, monitor: ResourceMonitor, *, spill: bool = True, engine: Engine = LOCAL) -> Swept:
    """Compute the values of all boxes, from the last step to the first.

    Memory for the runs of best rows stays reserved, and for the values of the first step.

    Parameters
    ----------
    layout : BoxLayout
    monitor : ResourceMonitor
    spill : bool
        Whether to keep values on disk if they do not fit into memory.
    engine : Engine
        Where to sweep. Small problems are swept in this process in any case.

    Raises
    ------
    LimitReached
        If time, memory or space on the disk runs out, or a step has more amounts than can be numbered.
    """
    most = float(layout.sizes.cells_H.max())
    if most > MOST_CELLS:
        raise LimitReached(f"a step would have {most:.3g} amounts, more than {MOST_CELLS:.3g}")
    if isinstance(engine, RayEngine) and layout.work >= DISTRIBUTED_FROM:
        return sweep_on_ray(layout, engine, monitor)
    if monitor.checkpoint is not None and _is_in_parts(layout, monitor):
        sets = plan_parts(layout, monitor.room)
        if sets is not None:
            return sweep_parts(layout, sets, monitor)
    if not spill:
        return _Sweep(layout, monitor).run()
    used, reason = monitor.used, ""
    if monitor.has_room_for(int(layout.peak_bytes)):
        try:
            return _Sweep(layout, monitor).run()
        except LimitReached as reached:  # for example because the runs of all steps do not fit
            monitor.check_time()
            reason = str(reached)
        monitor.release(monitor.used - used)
    sets = plan_parts(layout, monitor.room)
    if sets is not None:
        return sweep_parts(layout, sets, monitor)
    if reason:
        raise LimitReached(reason)
    return _Sweep(layout, monitor).run()  # ends with the reason


def _is_in_parts(layout: BoxLayout, monitor: ResourceMonitor) -> bool:
    """Whether the checkpoint is that of a sweep in parts, for example on a cluster."""
    parts, whole = (monitor.section(name, *layout.content) for name in (PARTS, WHOLE))
    assert parts is not None
    assert whole is not None
    return step_of(parts, layout) < step_of(whole, layout)


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
        self._extremes = Extremes.none(layout.model, lambda: last_rows(layout))
        self._out_extremes = StepExtremes(self._extremes.top, self._extremes.bottom, self._extremes.reward)
        self._runs: list[RowRuns] = []
        self._first_H, self._end_H = np.zeros((2, layout.model.horizon), np.int64)
        self._made = 0
        last = layout.boxes.width[-1, :, 0] > 0
        swept.value[layout.boxes.offset[-1, :-1][last]] = layout.model.end_value[last]
        self._section = monitor.section(WHOLE, *layout.content) if monitor.checkpoint is not None else None
        self._unsaved = 0

    def run(self) -> Swept:
        """Sweep all steps."""
        layout, monitor, horizon = self._layout, self._monitor, self._model.horizon
        work_H, cells_H = layout.sizes.work_H, layout.sizes.cells_H
        h = self._resumed()
        while h > 0:
            if monitor.should_save():
                self._save(h)
            monitor.check_time()
            monitor.tell("backward", horizon - h, horizon, cells=int(cells_H[h - 1]))
            if work_H[h - 1] >= _PARALLEL_FROM:
                h -= 1
                with monitor.postponed():
                    self._sweep_step(h)
                continue
            stop, work, cells = h - 1, float(work_H[h - 1]), float(cells_H[h - 1])
            while stop > 0 and work_H[stop - 1] < _PARALLEL_FROM:
                work, cells = work + float(work_H[stop - 1]), cells + float(cells_H[stop - 1])
                if work > _WORK_OF_CALL or cells > _CELLS_OF_CALL:
                    break
                stop -= 1
            with monitor.postponed():
                self._sweep_steps(h, stop)
            h = stop
        if self._section is not None:
            self._save(0)
        monitor.check_time()
        value = self._buffers.swept.value[: int(layout.sizes.stored_H[0])]
        monitor.release(self._temporary)
        start, row = (np.concatenate(each) for each in zip(*self._runs, strict=True))
        runs = StepRuns(read_only(start), read_only(row), self._first_H, self._end_H)
        return Swept(layout, value, KeptRuns(runs), self._extremes)

    def _save(self, h: int) -> None:
        """Save what was computed, down to step h; runs since the last time are added to those before."""
        assert self._section is not None
        swept = self._buffers.swept
        new = self._runs[self._unsaved :]
        saved = self._section.save(
            {"step": h},
            {
                "value": swept.value[: int(self._layout.sizes.stored_H[h])],
                "extremes": self._extremes.saved,
                "ends": np.stack([self._first_H, self._end_H]),
            },
            {
                "start": np.concatenate([each.start for each in new] or [np.empty(0, np.int32)]),
                "row": np.concatenate([each.row for each in new] or [np.empty(0, np.uint16)]),
            },
        )
        if saved:
            self._unsaved = len(self._runs)

    def _resumed(self) -> int:
        """Return the step that was swept last, according to the checkpoint; the horizon if there is none."""
        layout, section, horizon = self._layout, self._section, self._model.horizon
        if section is None or not section.state:
            return horizon
        saved = SavedSweep.of(section, layout)
        self._extremes.restore(section)
        for start, row in saved.runs:
            self._monitor.reserve(12 * len(start), "runs of best rows")
            self._runs.append(RowRuns(start.copy(), row.copy()))
            self._made += len(start)
        self._first_H[:], self._end_H[:] = saved.check_runs(section, layout)
        self._buffers.swept.value[: len(saved.value)] = saved.value
        self._buffers.swept.row[:] = 0  # of terminal states, which are not swept again if nothing changes
        self._unsaved = len(self._runs)
        return saved.step

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
        halt, value = monitor.halt, read_only(swept.value)
        run_by_states(
            lambda begin, end: kernels.fill_arrivals(
                begin, end, h + 1, costs, limits, bounds, boxes, value, arrival, halt
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
