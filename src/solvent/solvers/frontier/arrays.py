"""Frontiers as arrays: one value for each amount, swept backward step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.checkpoint import Section
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.core.threads import run_by_states
from solvent.solvers.accuracy import Extremes
from solvent.solvers.frontier.array_kernels import (
    ArrayLayout,
    PooledRows,
    SweepArrays,
    collect_points,
    sweep_step,
    sweep_steps,
)
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.frontier import Frontier
from solvent.solvers.frontier.point_kernels import Points, StepExtremes
from solvent.solvers.frontier.saved import check_points, load_points, open_section
from solvent.solvers.outcomes.pooling import pool

#: Steps with at least this many amounts are swept on all cores; smaller ones are swept together in one call,
_PARALLEL_FROM = 400_000
#: up to this many amounts in total.
_SWEPT_AT_ONCE = 2**20
#: Copies of the last value after the values of each state; fewer if there are few values.
_PADDING = 8
#: Steps in one call, if time or progress is watched.
_WATCHED_STEPS = 16


def sweep_arrays(bounds: FrontierBounds, monitor: ResourceMonitor) -> Frontier:
    """Return the frontier, computed as arrays.

    Raises
    ------
    LimitReached
        If the arrays of a step do not fit into the memory limit, or the time limit is reached.
    """
    model, horizon = bounds.model, bounds.model.horizon
    sweep = _Sweep(bounds, monitor)
    monitor.reserve(8 * horizon * (model.n_states + 1), "the points of all steps")
    indptr_HS = np.zeros((horizon, model.n_states + 1), np.int64)
    parts: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
    saved = _SavedSweep(bounds, sweep, monitor)
    step, value = saved.load(indptr_HS, parts)
    count = sum(len(need) for need, _ in parts)
    while step > 0:
        if monitor.should_save():
            saved.save(step, indptr_HS, parts, value)
        monitor.check_time()
        monitor.tell("backward", horizon - step, horizon, points=count)
        stop = sweep.last_step_of_call(step, watched=monitor.watched)
        room = sweep.bytes_of(stop, step)
        what = f"of step {stop}" if step - stop == 1 else f"of steps {stop} to {step - 1}"
        monitor.reserve(room, f"the values {what}")
        monitor.expect(float(sweep.evaluations_H[stop:step].sum()), f"the sweep {what}")
        with monitor.postponed():
            need, row, value = sweep.run(stop, step, indptr_HS)
            monitor.check_time()
            indptr_HS[stop:step] += count
            count += len(need)
            parts.append((need, row))
            monitor.release(room)
            monitor.reserve(12 * len(need), f"the points {what}")
            step = stop
    saved.save(0, indptr_HS, parts, value)
    monitor.check_time()
    extremes, pooled, kept = sweep.extremes, sweep.is_pooled, sweep.bytes
    del sweep  # and the values of the last step that was swept
    monitor.reserve(12 * count, "the points of all steps")
    points = Points(indptr_HS, *(np.concatenate(each) for each in zip(*parts, strict=True)))
    del parts
    monitor.release(12 * count + kept)
    return Frontier.of(model, points, value, extremes, swept=_range_of_steps(bounds), pooled=pooled)


def _range_of_steps(bounds: FrontierBounds) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest and the largest amount of each step; 0 and 0 where there is none."""
    live = bounds.top_HS >= bounds.need_HS
    first = np.where(live, bounds.need_HS, PLUS_INFINITY).min(1)
    last = np.where(live, bounds.top_HS, MINUS_INFINITY).max(1)
    return np.where(live.any(1), first, 0), np.where(live.any(1), last, 0)


#: Arrays of `SweepArrays` with one entry for each state.
_BY_STATE = ("flat_S", "count_S", "reward_S", "whole_S", "same_S")


class _SavedSweep:
    """The section of a sweep in the checkpoint, if there is one."""

    def __init__(self, bounds: FrontierBounds, sweep: _Sweep, monitor: ResourceMonitor) -> None:
        self._bounds, self._sweep, self._monitor = bounds, sweep, monitor
        self._section = open_section("arrays", bounds, monitor)
        self._unsaved = 0

    def save(
        self,
        step: int,
        indptr_HS: NDArray[np.int64],
        parts: list[tuple[NDArray[np.int64], NDArray[np.int32]]],
        value: NDArray[np.float64],
    ) -> None:
        """Save the points of the steps from `step` on; those since the last time are added to those before."""
        if self._section is None or step == len(indptr_HS):
            return
        arrays: dict[str, NDArray[Any]] = {"indptr": indptr_HS[step:], "extremes": self._sweep.extremes.saved}
        if step > 0:
            arrays |= self._sweep.arrays_of(step)
        else:
            arrays["first"] = value[: int(indptr_HS[0, -1] - indptr_HS[0, 0])]
        new = parts[self._unsaved :]
        added = {}
        if new:
            added = {"need": np.concatenate([need for need, _ in new]), "row": np.concatenate([row for _, row in new])}
        dropped = () if step > 0 else ("value", "best", *_BY_STATE)
        if self._section.save({"step": step}, arrays, added, dropped=dropped):
            self._unsaved = len(parts)

    def load(
        self, indptr_HS: NDArray[np.int64], parts: list[tuple[NDArray[np.int64], NDArray[np.int32]]]
    ) -> tuple[int, NDArray[np.float64]]:
        """Restore points; return the step that was swept last, or the horizon, and the values of the first step."""
        section, horizon = self._section, len(indptr_HS)
        if section is None or not section.state:
            return horizon, np.empty(0)
        step = section.whole("step", 0, horizon - 1)
        points = load_points(section, self._bounds.model, step)
        self._monitor.reserve(12 * len(points.need), "the points of all steps")
        check_points(section, self._bounds, points, step)
        last = slice(int(points.indptr_HS[0, 0]), int(points.indptr_HS[0, -1]))
        value = np.empty(0)
        if step == 0:
            value = section.array("first", np.float64, (last.stop - last.start,)).copy()
            if not (value < np.inf).all():
                raise section.damaged("first", "numbers", "others")
        else:
            need, row = self._sweep.restore(section, step)
            if not (np.array_equal(need, points.need[last]) and np.array_equal(row, points.row[last])):
                raise section.damaged("value", f"the values of the points of step {step}", "others")
        self._sweep.extremes.restore(section)
        indptr_HS[step:] = points.indptr_HS
        parts.append((points.need, points.row))
        self._unsaved = 1
        return step, value


class _Sweep:
    """A backward sweep: many small steps in one call, so that calls take little time, or one large step on all cores.

    Attributes
    ----------
    extremes : Extremes
    evaluations_H : ndarray of float64, shape (H,)
        Number of outcomes evaluated at each step.
    is_pooled : bool
        Whether rows share cost distributions.
    bytes : int
        Memory that stays reserved.
    """

    def __init__(self, bounds: FrontierBounds, monitor: ResourceMonitor) -> None:
        model, used = bounds.model, monitor.used
        self._model, self._resource, self._halt = model, bounds.resource, monitor.halt
        self._arrays = bounds.arrays
        pooled = pool(model, bounds.resource.cost, monitor)
        costs = pooled.costs
        first = np.repeat(costs.indptr[:-1], np.diff(costs.indptr))
        self._rows = PooledRows(
            pooled.indptr, pooled.probability, pooled.next_state, pooled.cost, pooled.distribution, costs.indptr,
            costs.cost[first] - costs.cost, costs.probability,
        )  # fmt: skip
        self._n_averages = len(costs.indptr)
        self.is_pooled = self._n_averages > 1
        # offsets, and the widths they are summed from
        monitor.reserve(2 * 8 * model.horizon * (model.n_states + 1), "bounds per step and state")
        self.bytes = monitor.used - used
        widths_HS = bounds.top_HS - bounds.need_HS + 1
        offset_HS = np.zeros((model.horizon, model.n_states + 1), np.int64)
        live_HS = widths_HS > 0
        # padding makes the arrays twice as long at most
        padding = min(_PADDING, int(bounds.amounts / max(1, int(np.count_nonzero(live_HS)))))
        np.cumsum(widths_HS + padding * live_HS, axis=1, out=offset_HS[:, 1:])
        self._layout = ArrayLayout(bounds.need_HS, bounds.top_HS, offset_HS, padding)
        self._sizes = offset_HS[:, -1]
        outcomes_TS = np.diff(pooled.indptr[model.row_indptr]).reshape(model.n_tables, model.n_states)
        self.evaluations_H = np.einsum("hs,hs->h", widths_HS, outcomes_TS[model.table_of_step], dtype=float)
        self._row_type = np.uint8 if int(np.diff(model.row_indptr).max(initial=1)) <= 256 else np.int32
        self._after = self._room_for(0)._replace(value_L=np.empty((0, 0)))
        self.extremes = Extremes.none(model, bounds.last_rows)
        self._out_extremes = StepExtremes(self.extremes.top, self.extremes.bottom, self.extremes.reward)

    def arrays_of(self, step: int) -> dict[str, NDArray[Any]]:
        """Return the values of the step that was swept last as arrays by name."""
        size, after = int(self._sizes[step]), self._after
        found = {"value": after.value_L[:, :size], "best": after.row[:size]}
        return found | {name: getattr(after, name) for name in _BY_STATE}

    def restore(self, section: Section, step: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Restore the values of a step from arrays by name; return its points."""
        size, model, layout = int(self._sizes[step]), self._model, self._layout
        after = self._room_for(size)
        after.value_L[:] = section.array("value", np.float64, after.value_L.shape)
        after.row[:] = section.array("best", self._row_type, (size,))
        for name in _BY_STATE:
            into = getattr(after, name)
            into[:] = section.array(name, into.dtype, into.shape)
        need_S, width_S = layout.need_HS[step], np.maximum(layout.top_HS[step] - layout.need_HS[step] + 1, 0)
        live, position = width_S > 0, after.flat_S - need_S
        if ((after.count_S < 0) | (after.count_S > width_S)).any() or np.isnan(after.reward_S).any():
            raise section.damaged("count_S", "numbers of amounts of each state", "others")
        if ((position < 0) | (position >= width_S))[live].any():
            raise section.damaged("flat_S", "amounts of each state", "others")
        rows_S = np.diff(model.row_indptr_at(step))
        state = np.repeat(np.arange(model.n_states), after.count_S)
        at = np.arange(len(state)) + np.repeat(
            layout.offset_HS[step, :-1] - (np.cumsum(after.count_S) - after.count_S), after.count_S
        )
        if (after.row[at] >= np.maximum(rows_S, 1)[state]).any() or (after.row < 0).any():
            raise section.damaged("best", "rows of each state", "others")
        self._after = after
        points = Points(np.zeros_like(layout.offset_HS), np.empty(size, np.int64), np.empty(size, np.int32))
        spare = StepExtremes(*np.zeros((3, model.horizon)))
        count = collect_points(step, self._arrays, layout, after, 0, points, np.empty(size), spare, self._halt)
        return points.need[:count], points.row[:count]

    def last_step_of_call(self, begin: int, *, watched: bool) -> int:
        """Return the last of the steps before `begin`, in backward order, that are swept in one call."""
        small = self._sizes[:begin] < _PARALLEL_FROM
        if not small[-1]:
            return begin - 1
        most = np.cumsum(self._sizes[:begin][::-1]) <= _SWEPT_AT_ONCE
        together = small[::-1] & most
        count = max(1, begin if together.all() else int(np.argmin(together)))
        return begin - min(count, _WATCHED_STEPS if watched else count)

    def bytes_of(self, stop: int, begin: int) -> int:
        """Return the memory that sweeping these steps takes, including the values of the step after them."""
        largest, total = int(self._sizes[stop:begin].max()), int(self._sizes[stop:begin].sum())
        # values are written in turn to one of two arrays, beside those of the step after; points are copied out of
        # arrays that have room for one at each amount
        arrays = (8 * self._n_averages + 4) * largest + 26 * self._model.n_states
        points = 24 * total + (8 * int(self._sizes[0]) if stop == 0 else 0)
        return (2 + (begin - stop > 1)) * arrays + points

    def run(
        self, stop: int, begin: int, out_indptr_HS: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Return needs and rows of the points of steps `begin` - 1 down to `stop`, and the values at step 0."""
        largest, total = int(self._sizes[stop:begin].max()), int(self._sizes[stop:begin].sum())
        points = Points(out_indptr_HS, np.empty(total, np.int64), np.empty(total, np.int32))
        if largest < _PARALLEL_FROM:
            out, spare = self._room_for(largest), self._room_for(largest if begin - stop > 1 else 0)
            count, value = sweep_steps(
                begin, stop, self._arrays, self._rows, self._resource, self._layout, (self._after, out, spare), points,
                self._out_extremes, self._halt,
            )  # fmt: skip
            self._after = out if (begin - stop) % 2 else spare
        else:
            count, value = self._run_parallel(stop, largest, points)
        return points.need[:count].copy(), points.row[:count].copy(), value

    def _room_for(self, size: int) -> SweepArrays:
        """Return arrays for the values of a step."""
        n_states = self._model.n_states
        return SweepArrays(
            np.empty((self._n_averages, size)), np.empty(size, self._row_type), np.empty(n_states, np.int64),
            np.empty(n_states, np.int64), np.empty(n_states), np.empty(n_states, bool), np.empty(n_states, bool),
        )  # fmt: skip

    def _run_parallel(self, step: int, size: int, points: Points) -> tuple[int, NDArray[np.float64]]:
        """Sweep one step on all cores; return the number of its points and, at step 0, their values."""
        out = self._room_for(size)
        widths_S = np.maximum(np.diff(self._layout.offset_HS[step]), 0)
        outcomes_S = np.diff(self._rows.indptr[self._model.row_indptr_at(step)])
        run_by_states(
            lambda begin, end: sweep_step(
                begin, end, step, self._arrays, self._rows, self._resource, self._layout, self._after, out, self._halt
            ),
            widths_S * (1.0 + outcomes_S),
        )  # fmt: skip
        value = np.empty(size if step == 0 else 0)
        count = collect_points(step, self._arrays, self._layout, out, 0, points, value, self._out_extremes, self._halt)
        self._after = out
        return int(count), value
