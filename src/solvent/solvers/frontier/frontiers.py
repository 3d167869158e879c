"""Frontiers: with one resource and limits on one side, the optimum for every budget at once.

Let `left` be what may still be spent. Spending less is never worse, so at each (step, state) the optimal value is a
non-decreasing step function of `left`,

    V_h(s, n) = max over a of  r_h(s, a) + E[ V_{h+1}(s', n - c) ]   over rows with  n - c >= floor_h  surely,

and only the points where it rises need be kept: (need, value, row), need and value increasing. They are built backward
by merging, per state, the shifted points of all outcomes of all rows. Dominated points never arise, which is why the
paper's NP-hard family stays small here. Where ticks are few, the same functions are swept as plain arrays instead.

Values that differ by less than `accuracy.SAME_POINT`, relatively, are one point, so that rounding errors cannot breed
points. What that can cost in value is part of the bounds of every answer (`accuracy.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.core.threads import run_by_states
from solvent.model.cmdp import CMDP
from solvent.solvers.accuracy import SAME_POINT, Extremes, Rounding
from solvent.solvers.bounds.bounds import look_ahead
from solvent.solvers.bounds.kernels import DOWN, UP
from solvent.solvers.frontier import array_kernels as sweep_kernels
from solvent.solvers.frontier import point_kernels as kernels
from solvent.solvers.outcomes.pooling import pool
from solvent.solvers.outcomes.pooling_kernels import average
from solvent.solvers.reduction.kernels import TERMINAL
from solvent.solvers.reduction.layers import grown

#: With at most so many ticks between need and settled, functions are swept as arrays,
DENSE_WIDTH = 4096
#: if they are so many ticks in all that this pays.
DENSE_FROM = 20_000
#: Rows of so many outcomes are better swept as arrays up to this width.
MANY_OUTCOMES = 16
DENSE_WIDTH_OF_MANY = 2**20
#: A node costs about so many times what a point does.
_NODES_PER_POINT = 8
#: Layers of at least so many amounts are swept on all cores, smaller ones many in one call:
_PARALLEL_FROM = 100_000
#: so many amounts at most.
_SWEPT_AT_ONCE = 2**20
#: Further than any amount that is compared with it.
FAR = 2**62


@dataclass(frozen=True)
class Purse:
    """One resource in ticks: what outcomes cost, what must be left after each step, and what there may be at first.

    Attributes
    ----------
    cost : ndarray of int64, shape (O,)
    floor : ndarray of int64, shape (H,)
        What must be left after each step; `DOWN` if that is open.
    first_low, first_high : int
        Between which values `left` at the start is asked for; a `first_low` of None stands for the least feasible.
    """

    cost: NDArray[np.int64]
    floor: NDArray[np.int64]
    first_low: int | None
    first_high: int


@dataclass(frozen=True)
class Frontier:
    """The step functions of all states at all steps.

    Attributes
    ----------
    indptr_HS : ndarray of int64, shape (H, S + 1)
        Where the points of each (step, state) begin.
    need : ndarray of int64, shape (N,)
        Increasing within a (step, state).
    row : ndarray of int32, shape (N,)
        The row to take, or `TERMINAL`.
    start_need, start_value : ndarray
        The function at the start.
    swept : pair of ndarrays of int64, shape (H,), or None
        Between what amounts each step was swept, if it was swept as arrays.
    extremes : Extremes
        Of its values, for the bounds on their error.
    same, resolution : float
        Up to which difference values were merged, relatively and absolutely.
    up : bool
        Whether merged values were rounded up.
    pooled : bool
        Whether costs were averaged before next states anywhere.
    """

    indptr_HS: NDArray[np.int64]
    need: NDArray[np.int64]
    row: NDArray[np.int32]
    start_need: NDArray[np.int64]
    start_value: NDArray[np.float64]
    swept: tuple[NDArray[np.int64], NDArray[np.int64]] | None
    extremes: Extremes
    same: float
    resolution: float
    up: bool
    pooled: bool

    def above(self, value: float, rounding: Rounding) -> float:
        """Return by how much the optimum can exceed a value at the start."""
        if self.up:
            return self.extremes.above(value, rounding)
        if self.dense:  # values are merged at the start only
            return self.extremes.above(value, rounding) + 2 * self.same * abs(value)
        return self.extremes.above(value, rounding, same=self.same, resolution=self.resolution)

    def noise(self, value: float, rounding: Rounding) -> float:
        """Return the same without what the resolution makes of it."""
        return self.extremes.above(value, rounding, same=0.0 if self.up else self.same)

    @property
    def dense(self) -> bool:
        """Whether it was swept as arrays."""
        return self.swept is not None

    def value(self, left: int) -> float:
        """Return the optimal value with so many ticks; minus infinity if nothing is feasible."""
        at = int(np.searchsorted(self.start_need, left, side="right")) - 1
        return float(self.start_value[at]) if at >= 0 else -np.inf

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Number of points at each step."""
        return tuple((self.indptr_HS[:, -1] - self.indptr_HS[:, 0]).tolist())

    def distinct_amounts(self, lowest: int, highest: int) -> int:
        """Return the most amounts between two that were told apart at one step."""
        if self.swept is None:
            return self._distinct_needs(lowest, highest)
        first, last = np.clip(self.swept, lowest, highest)
        return int((last - first).max()) + 1

    def _distinct_needs(self, lowest: int, highest: int) -> int:
        """Return the largest number of needs between two amounts that the points of one step tell apart."""
        sizes = self.indptr_HS[:, -1] - self.indptr_HS[:, 0]
        step = np.repeat(np.arange(len(sizes)), sizes)
        first = np.cumsum(sizes) - sizes
        at = np.arange(len(step)) - first[step] + self.indptr_HS[step, 0]
        need = np.clip(self.need[at], lowest, highest)
        order = np.lexsort((need, step))
        need, step = need[order], step[order]
        new = np.append(True, (need[1:] != need[:-1]) | (step[1:] != step[:-1])) if len(need) else np.zeros(0, bool)
        return int(np.bincount(step[new], minlength=1).max())

    def layers(self, model: CMDP, used: NDArray[np.bool_]) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Return (state, need, action) of the used points of each step at which something is to be done."""
        found = []
        for indptr in self.indptr_HS:
            at = slice(int(indptr[0]), int(indptr[-1]))
            keep = np.flatnonzero(used[at] & (self.row[at] >= 0))
            state, row = np.repeat(np.arange(model.n_states), np.diff(indptr))[keep], self.row[at][keep]
            # whoever can afford the next point can afford the one before: with the same row, one of them will do
            new = np.ones(len(keep), bool)
            new[1:] = (state[1:] != state[:-1]) | (row[1:] != row[:-1])
            found.append((state[new], self.need[at][keep][new], model.row_action[row[new]]))
        return found


def build(
    model: CMDP,
    purse: Purse,
    monitor: ResourceMonitor,
    work: Work | None = None,
    *,
    arrays: bool | None = None,
    resolution: float = 0.0,
    up: bool = False,
) -> Frontier:
    """Build the frontiers of a model backward.

    Parameters
    ----------
    model : CMDP
    purse : Purse
    monitor : ResourceMonitor
    work : Work, optional
        Saves time if it was made already.
    arrays : bool, optional
        Whether functions are swept as arrays or kept as points; whichever is expected to pay, if not given.
    resolution : float
        For points: values that differ by no more than this are one, at each step.
    up : bool
        Whether they are rounded up, for an upper bound, or down, for a policy worth at least as much.

    Raises
    ------
    LimitReached
        If a layer would not fit into the memory allowed, or time is up.
    """
    work = work or Work(model, purse, monitor)
    if arrays is None:
        arrays = resolution == 0 and work.pays_as_arrays
    if arrays:
        return _sweep(work, monitor)
    return _merge(work, resolution, monitor, up=up)


class Work:
    """Bounds on `left`, and the model's arrays step by step.

    Memory for them stays reserved.

    Raises
    ------
    LimitReached
        If they would not fit into the memory allowed, or time is up.
    """

    #: Arrays of one number per step and state: while they are made, and afterwards.
    _MADE, _KEPT = 12, 5

    def __init__(self, model: CMDP, purse: Purse, monitor: ResourceMonitor) -> None:
        self.model, self.purse = model, purse
        n_steps, n_states = model.horizon, model.n_states
        self.bytes = 8 * self._KEPT * (n_steps + 1) * n_states
        temporary = 8 * self._MADE * (n_steps + 1) * n_states - self.bytes
        monitor.reserve(self.bytes + temporary, "bounds per step and state")
        cost = purse.cost[:, None]
        upper = np.where(purse.floor == DOWN, UP, -purse.floor)[:, None]
        lower = np.full((n_steps, 1), DOWN, np.int64)
        _, safe_high, _, settled_high = look_ahead(model, cost, upper, lower, monitor)
        self.settled_HS = _negated(settled_high[:n_steps, :, 0])
        need_HS = _negated(safe_high[:, :, 0])
        del safe_high, settled_high
        least_need = int(need_HS[0, model.start_index])
        lowest, highest = np.full((n_steps, n_states), UP), np.full((n_steps, n_states), DOWN)
        lowest[0, model.start_index] = least_need if purse.first_low is None else purse.first_low
        highest[0, model.start_index] = purse.first_high
        kernels.fill_reach(
            model.table_of_step, model.row_indptr, model.outcome_indptr, model.next_state, purse.cost, purse.floor,
            need_HS, lowest, highest, monitor.halt,
        )  # fmt: skip
        monitor.check_time()
        need_HS, self.lowest_HS, self.highest_HS = need_HS[:n_steps], lowest, highest
        live = (highest != DOWN) & (need_HS <= highest) & (lowest <= highest)
        # from the least there can be to where more of it makes no difference
        least_HS = np.maximum(need_HS, self.lowest_HS)
        top_HS = np.minimum(self.highest_HS, np.maximum(self.settled_HS, least_HS))
        self.need_HS = np.where(live, np.minimum(least_HS, top_HS), 0)
        self.top_HS = np.where(live, top_HS, -1)
        # in floats: only to decide whether arrays would be small
        widths = self.top_HS.astype(float) - self.need_HS.astype(float) + 1
        self.widest, self.amounts = float(widths.max(initial=0.0)), float(widths.sum())
        monitor.release(temporary)

    def is_quicker_by_nodes(self) -> bool:
        """Whether the reduction is likely to be much quicker: few nodes from the start, many points for all amounts.

        Both counts are bounded by how many amounts there can be at a step, and grow by at most the number of outcomes
        from one step to the next: nodes forward, points backward.
        """
        amounts = np.where(self.top_HS >= self.need_HS, (self.top_HS - self.need_HS).astype(float) + 1, 0).sum(1)
        per_state = np.diff(self.model.outcome_indptr[self.model.row_indptr])
        growth = float(per_state.max(initial=1))
        live = (self.top_HS >= self.need_HS).sum(1).astype(float)
        nodes = _grow(np.ones(1), amounts, growth)
        points = _grow(live[-1:], amounts[::-1], growth)
        return bool(_NODES_PER_POINT * nodes.sum() < points.sum())

    @property
    def pays_as_arrays(self) -> bool:
        """Whether arrays of all amounts are likely to be quicker than points.

        A row of n outcomes takes n steps for each amount, but n times n for each point.
        """
        if np.diff(self.model.outcome_indptr).max(initial=0) >= MANY_OUTCOMES:
            return self.widest <= DENSE_WIDTH_OF_MANY
        return self.widest <= DENSE_WIDTH and self.amounts >= DENSE_FROM

    @property
    def end_need(self) -> NDArray[np.int64]:
        """What must be left from each step on, once the episode is over."""
        # laid out like other arrays, as kernels are compiled for a layout
        return np.ascontiguousarray(np.maximum.accumulate(self.purse.floor[::-1])[::-1])


def settled_need(model: CMDP, cost: NDArray[np.int64], monitor: ResourceMonitor) -> int:
    """Return the ticks with which the start cannot run short whatever is done, if nothing may be overspent."""
    floor = np.zeros(model.horizon, np.int64)
    work = Work(model, Purse(cost, floor, 0, 0), monitor)
    monitor.release(work.bytes)
    return int(work.settled_HS[0, model.start_index])


def _grow(first: NDArray[np.float64], caps: NDArray[np.float64], growth: float) -> NDArray[np.float64]:
    """Return how a count grows from one step to the next by at most a factor, never beyond the step's cap."""
    rate = np.log(max(growth, 1.0)) * np.arange(len(caps))
    logs = np.log(np.maximum(np.minimum(np.append(first, caps[1:]), caps), 1.0))
    grown: NDArray[np.float64] = np.exp(np.minimum(rate + np.minimum.accumulate(logs - rate), 700.0))
    return grown


def _negated(ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn a bound on what was spent into one on what is left, open ends included."""
    return np.where(ticks == UP, DOWN, np.where(ticks == DOWN, UP, -np.where(ticks == DOWN, 0, ticks)))


def _merge(work: Work, resolution: float, monitor: ResourceMonitor, *, up: bool) -> Frontier:
    m, horizon, n_states = work.model, work.model.horizon, work.model.n_states
    indptr = np.zeros((horizon + 1, n_states + 1), np.int64)
    # after the last step everything is worth 0, whatever is left
    indptr[horizon] = np.arange(n_states + 1)
    room = 1024 + 16 * n_states
    # the values of a step, those of the step after it, and a copy of them
    monitor.reserve(12 * room + 8 * indptr.size + 24 * room, "the points of all steps")
    need, row = np.empty(room, np.int64), np.empty(room, np.int32)
    need[:n_states], row[:n_states] = DOWN, TERMINAL
    step, value, wide = horizon, np.zeros(n_states), 1024 + 16 * n_states
    extremes = Extremes.none(horizon)
    while step > 0:
        monitor.check_time()
        monitor.tell("backward", horizon - step, horizon, points=int(indptr[step, -1]))
        # a few steps at a time, if there is a clock to watch or somebody to tell
        stop = max(0, step - 16) if monitor.watched and room > 1 << 20 else 0
        before = step
        step, value = kernels.merge(
            m.table_of_step, m.row_indptr, m.outcome_indptr, m.probability, m.next_state, m.row_reward,
            work.purse.cost, work.purse.floor, work.end_need, work.lowest_HS, work.highest_HS, SAME_POINT, resolution,
            up, value, before, stop, indptr, need, row, np.empty(wide), extremes.top, extremes.bottom, extremes.reward,
            monitor.halt,
        )  # fmt: skip
        monitor.check_time()
        if step > stop:
            # what has run out is doubled: places for the points of all steps, for the values of one, or both
            free, what = room - int(indptr[step, -1]), f"the points of step {step - 1}"
            if wide < 2 * free:
                monitor.reserve(24 * wide, what)
                wide *= 2
            if free < wide:
                monitor.reserve(24 * room, what)
                need, row = grown(need, 2 * room), grown(row, 2 * room)
                monitor.release(12 * room)
                room *= 2
    monitor.release(24 * wide - 8 * len(value))
    at = slice(int(indptr[0, m.start_index]), int(indptr[0, m.start_index + 1]))
    start = slice(at.start - int(indptr[0, 0]), at.stop - int(indptr[0, 0]))
    return Frontier(
        indptr[:horizon], need, row, need[at], value[start], None, extremes, SAME_POINT, resolution, up, pooled=False
    )


def _sweep(work: Work, monitor: ResourceMonitor) -> Frontier:
    m, horizon = work.model, work.model.horizon
    layers = _Layers(work, monitor)
    monitor.reserve(8 * horizon * (m.n_states + 1), "the points of all steps")
    indptr_HS = np.zeros((horizon, m.n_states + 1), np.int64)
    pieces: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
    made, point_value, step = 0, np.empty(0), horizon
    while step > 0:
        monitor.check_time()
        monitor.tell("backward", horizon - step, horizon, points=made)
        stop = layers.stretch(step, watched=monitor.watched)
        room = layers.bytes_of(stop, step)
        what = f"of step {stop}" if step - stop == 1 else f"of steps {stop} to {step - 1}"
        monitor.reserve(room, f"the values {what}")
        monitor.expect(float(layers.evaluations_H[stop:step].sum()), f"the sweep {what}")
        need, row, point_value = layers.sweep(stop, step, indptr_HS)
        monitor.check_time()
        indptr_HS[stop:step] += made
        made += len(need)
        pieces.append((need, row))
        monitor.release(room)
        monitor.reserve(12 * len(need), f"the points {what}")
        step = stop
    layers.forget()
    monitor.reserve(12 * made, "the points of all steps")
    all_needs, all_rows = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    del pieces
    monitor.release(12 * made + layers.bytes)
    at = slice(int(indptr_HS[0, m.start_index]), int(indptr_HS[0, m.start_index + 1]))
    start = slice(at.start - int(indptr_HS[0, 0]), at.stop - int(indptr_HS[0, 0]))
    live = work.top_HS >= work.need_HS
    # where nothing is live there is nothing to tell apart
    ends = (np.where(live, work.need_HS, UP).min(1), np.where(live, work.top_HS, DOWN).max(1))
    swept = (np.where(live.any(1), ends[0], 0), np.where(live.any(1), ends[1], 0))
    return Frontier(
        indptr_HS, all_needs, all_rows, all_needs[at], point_value[start], swept, layers.extremes, SAME_POINT, 0.0,
        up=False, pooled=layers.pooled.n_distributions > 0,
    )  # fmt: skip


class _Layers:
    """The arrays of a sweep: many small steps in one call, so that little time is lost between them, or a large one."""

    def __init__(self, work: Work, monitor: ResourceMonitor) -> None:
        m, used = work.model, monitor.used
        self.work, self.halt, self.extremes = work, monitor.halt, Extremes.none(m.horizon)
        self.pooled = pool(m, work.purse.cost, monitor)
        # offsets, and the widths they are summed from
        monitor.reserve(2 * 8 * m.horizon * (m.n_states + 1), "bounds per step and state")
        self.bytes = monitor.used - used
        widths_HS = work.top_HS - work.need_HS + 1
        self.offset_HS = np.zeros((m.horizon, m.n_states + 1), np.int64)
        np.cumsum(widths_HS, axis=1, out=self.offset_HS[:, 1:])
        self.sizes = self.offset_HS[:, -1]
        outcomes_TS = np.diff(self.pooled.indptr[m.row_indptr]).reshape(m.n_tables, m.n_states)
        self.evaluations_H = np.einsum("hs,hs->h", widths_HS, outcomes_TS[m.table_of_step], dtype=float)
        most_rows = int(np.diff(m.row_indptr).max(initial=1))
        self.row_type = np.uint8 if most_rows <= 256 else np.int32
        self.later_L = np.empty((0, 0))

    def forget(self) -> None:
        """Let go of the values of the last step that was swept."""
        self.later_L = np.empty((0, 0))

    def stretch(self, begin: int, *, watched: bool) -> int:
        """Return down to which step to sweep in one call."""
        small = self.sizes[:begin] < _PARALLEL_FROM
        if not small[-1]:
            return begin - 1
        most = np.cumsum(self.sizes[:begin][::-1]) <= _SWEPT_AT_ONCE
        together = small[::-1] & most
        count = max(1, begin if together.all() else int(np.argmin(together)))
        return begin - min(count, 16 if watched else count)

    def bytes_of(self, stop: int, begin: int) -> int:
        """Return how much memory sweeping these steps takes, the values of the step after them included."""
        largest, total = int(self.sizes[stop:begin].max()), int(self.sizes[stop:begin].sum())
        rows = 1 + self.pooled.n_distributions
        # points are copied out of arrays that have room for one at each amount
        return (20 + 8 * rows * (1 + (begin - stop > 1))) * largest + 24 * total + self.later_L.nbytes

    def sweep(
        self, stop: int, begin: int, out_indptr_HS: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Return needs and rows of the points of the steps before `begin` down to `stop`, and values at `stop`."""
        m, p, work, e = self.work.model, self.pooled, self.work, self.extremes
        largest, total = int(self.sizes[stop:begin].max()), int(self.sizes[stop:begin].sum())
        need, point_row, point_value = np.empty(total, np.int64), np.empty(total, np.int32), np.empty(largest)
        value, row = np.empty(largest), np.empty(largest, self.row_type)
        spare_L = np.empty((1 + p.n_distributions, largest))
        if largest < _PARALLEL_FROM:
            made, self.later_L = sweep_kernels.sweep_layers(
                m.table_of_step, m.row_indptr, p.indptr, p.probability, p.next_state, p.cost, p.distribution,
                m.row_reward,
                *p.costs, work.purse.floor, work.need_HS, work.top_HS,
                self.offset_HS, SAME_POINT, begin, stop, self.later_L, spare_L, value, row,
                out_indptr_HS, need, point_value, point_row, e.top, e.bottom, e.reward, self.halt,
            )  # fmt: skip
            return need[:made].copy(), point_row[:made].copy(), point_value
        rows, after = m.row_indptr_at(stop), min(begin, m.horizon - 1)
        here, reward_S = (work.need_HS[stop], work.top_HS[stop], self.offset_HS[stop]), np.empty(m.n_states)
        arrays = (
            rows, p.indptr, p.probability, p.next_state, p.cost, p.distribution, m.row_reward,
            work.purse.floor[stop], *here,
            work.need_HS[after], work.top_HS[after], self.offset_HS[after], self.later_L, value, row, reward_S,
            self.halt,
        )  # fmt: skip
        widths_S = np.maximum(np.diff(self.offset_HS[stop]), 0)
        run_by_states(
            lambda begin, end: sweep_kernels.sweep_layer(begin, end, *arrays),
            widths_S * (1.0 + np.diff(p.indptr[rows])),
        )
        e.top[stop], e.bottom[stop] = sweep_kernels.span(*here, value)
        e.reward[stop] = reward_S.max()
        made = sweep_kernels.compress_layer(
            rows, *here, value, row, SAME_POINT, stop > 0, out_indptr_HS[stop], need, point_value, point_row, self.halt
        )
        average(*here, *p.costs, value, spare_L, self.halt)
        self.later_L = spare_L
        return need[:made].copy(), point_row[:made].copy(), point_value
