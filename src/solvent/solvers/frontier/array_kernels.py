"""Kernels for frontiers as arrays: one value for each amount `left`.

For each (step, state), the amounts from `need` to `top` are computed: below `need` nothing is feasible, and above
`top` the value does not change. The arrays of all states of a step are stored one after another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import PLUS_INFINITY
from solvent.core.jit import jit
from solvent.solvers.frontier.point_kernels import is_rise, raised
from solvent.solvers.outcomes.pooling_kernels import average
from solvent.solvers.reduction.kernels import TERMINAL, widest

#: Number of amounts of a state that are summed at a time.
_TILE = 1024


class ArrayLayout(NamedTuple):
    """Amounts for which each (step, state) has values, and where these are stored.

    Attributes
    ----------
    need_HS, top_HS : ndarray of int64, shape (H, S)
        The smallest and the largest amount; empty where `top` is less than `need`.
    offset_HS : ndarray of int64, shape (H, S + 1)
        Position of the value of `need` within the arrays of the step; last, their length.
    """

    need_HS: NDArray[np.int64]
    top_HS: NDArray[np.int64]
    offset_HS: NDArray[np.int64]


class PooledRows(NamedTuple):
    """Outcomes of all rows, with cost distributions that many rows share taken out.

    Attributes
    ----------
    indptr : ndarray of int64, shape (R + 1,)
        Where the outcomes of each row begin.
    probability, next_state, cost : ndarray of float64, int32 and int64, shape (O',)
        For an outcome with a cost distribution, `cost` is the largest cost of the distribution.
    distribution : ndarray of int32, shape (O',)
        0 for an outcome with one cost, otherwise 1 + the position of its cost distribution.
    distribution_indptr : ndarray of int64, shape (L + 1,)
    distribution_cost, distribution_probability : ndarray of int64 and float64
        Costs of each distribution in decreasing order, and their probabilities.
    """

    indptr: NDArray[np.int64]
    probability: NDArray[np.float64]
    next_state: NDArray[np.int32]
    cost: NDArray[np.int64]
    distribution: NDArray[np.int32]
    distribution_indptr: NDArray[np.int64]
    distribution_cost: NDArray[np.int64]
    distribution_probability: NDArray[np.float64]


class SweepArrays(NamedTuple):
    """Values of one step.

    Attributes
    ----------
    value : ndarray of float64, shape (N,)
    row : ndarray of uint8 or int32, shape (N,)
        Position of the best row among those of its state.
    average_L : ndarray of float64, shape (1 + L, N)
        The values, and their averages over each cost distribution; see `pooling_kernels.average`.
    point_value : ndarray of float64, shape (N,)
        Values of the points of the step.
    """

    value: NDArray[np.float64]
    row: NDArray[Any]
    average_L: NDArray[np.float64]
    point_value: NDArray[np.float64]


@jit
def sweep_step(begin_state, end_state, h, model, rows, resource, layout, next_average_L, out, out_reward_S, halt):
    """Write the value and the best row for every amount of some states.

    Parameters
    ----------
    begin_state, end_state, h : int
        The range of states, and the step.
    model : ModelArrays
    rows : PooledRows
    resource : SingleResource
    layout : ArrayLayout
    next_average_L : ndarray of float64, shape (1 + L, N')
        Values of the following step and their averages; of length 0 if there is none.
    out : SweepArrays
        Only `value` and `row` are written.
    out_reward_S : ndarray of float64, shape (S,)
        The larger of 0 and the largest reward of a row that can be afforded in each state.
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.
    """
    n_steps, n_states = layout.need_HS.shape
    least_left, never, end_value = resource.least_left[h], resource.least_left[h] > resource.most_left, model.end_value
    last = next_average_L.shape[0] == 0
    indptr, probability, next_state, cost = rows.indptr, rows.probability, rows.next_state, rows.cost
    need_S, top_S, offset_S = layout.need_HS[h], layout.top_HS[h], layout.offset_HS[h]
    after_h = min(h + 1, n_steps - 1)
    next_need_S, next_top_S, next_offset_S = layout.need_HS[after_h], layout.top_HS[after_h], layout.offset_HS[after_h]
    out_value, out_row, row_reward, distribution = out.value, out.row, model.row_reward, rows.distribution
    row_indptr = model.row_indptr[model.table_of_step[h] * n_states :]
    total = np.empty(_TILE)
    starts = np.empty(widest(row_indptr, begin_state, end_state), np.int64)
    for s in range(begin_state, end_state):
        need, width = need_S[s], top_S[s] - need_S[s] + 1
        out_reward_S[s] = 0.0
        if width <= 0:
            continue
        base = offset_S[s]
        first, end = row_indptr[s], row_indptr[s + 1]
        if first == end:
            for i in range(base, base + width):
                out_value[i], out_row[i] = end_value[s], 0
            continue
        for i in range(base, base + width):
            out_value[i] = -np.inf
        for r in range(first, end):
            start = need
            for o in range(indptr[r], indptr[r + 1]):
                after = next_state[o]
                start = PLUS_INFINITY if never else max(start, raised(least_left, cost[o]))
                if last:
                    start = PLUS_INFINITY if end_value[after] == -np.inf else start
                else:
                    dead = next_top_S[after] < next_need_S[after]
                    start = PLUS_INFINITY if dead else max(start, next_need_S[after] + cost[o])
            starts[r - first] = width if start > top_S[s] else start - need
            if start <= top_S[s]:
                out_reward_S[s] = max(out_reward_S[s], row_reward[r])
        # tile by tile, so that sums stay in the nearest cache
        for tile in range(0, width, _TILE):
            stop = min(tile + _TILE, width)
            for r in range(first, end):
                if halt[0]:
                    return
                skip = max(starts[r - first], tile)
                start_value = row_reward[r]
                if last and skip < stop:
                    for o in range(indptr[r], indptr[r + 1]):
                        start_value += probability[o] * end_value[next_state[o]]
                for i in range(skip, stop):
                    total[i - tile] = start_value
                if not last and skip < stop:
                    for o in range(indptr[r], indptr[r + 1]):
                        after, p = next_state[o], probability[o]
                        next_value = next_average_L[distribution[o]]
                        shift = next_offset_S[after] + need - cost[o] - next_need_S[after]
                        # beyond `flat`, the amount left exceeds the top of the next state
                        flat = min(max(next_top_S[after] + cost[o] - need + 1, skip), stop)
                        for i in range(skip, flat):
                            total[i - tile] += p * next_value[shift + i]
                        if flat < stop:
                            rest = p * next_value[next_offset_S[after] + next_top_S[after] - next_need_S[after]]
                            for i in range(flat, stop):
                                total[i - tile] += rest
                which = r - first
                for i in range(skip, stop):
                    better = total[i - tile] > out_value[base + i]
                    out_value[base + i] = total[i - tile] if better else out_value[base + i]
                    out_row[base + i] = which if better else out_row[base + i]


@jit
def finish_step(h, model, rows, layout, arrays, made, out_points, out_extremes, halt):
    """Turn the values of a step into points, and average them for the step before.

    A point is where the value rises or, after the first step, where the best row changes. The kernel returns early once
    `halt[0]` is set.

    Parameters
    ----------
    h : int
        The step.
    model : ModelArrays
    rows : PooledRows
    layout : ArrayLayout
    arrays : SweepArrays
        `value` and `row` are read; `average_L` and `point_value` are written.
    made : int
        Number of points of later steps; those of this one are written after them.
    out_points : Points
    out_extremes : StepExtremes
        `top_H` and `bottom_H` are written.
    halt : ndarray of bool, shape (1,)

    Returns
    -------
    count : int
        Number of points of this step.
    """
    n_states = layout.need_HS.shape[1]
    need_S, top_S, offset_S = layout.need_HS[h], layout.top_HS[h], layout.offset_HS[h]
    row_indptr, table = model.row_indptr, model.table_of_step[h] * n_states
    value, row, point_value = arrays.value, arrays.row, arrays.point_value
    point_need, point_row = out_points.need[made:], out_points.row[made:]
    by_row, count, top, bottom = h > 0, 0, 0.0, 0.0
    out_points.indptr_HS[h, 0] = made
    for s in range(n_states):
        if halt[0]:
            return count
        fresh, first = True, row_indptr[table + s]
        ends = first == row_indptr[table + s + 1]
        for i in range(top_S[s] - need_S[s] + 1):
            v = value[offset_S[s] + i]
            if v == -np.inf:
                continue
            r = TERMINAL if ends else first + row[offset_S[s] + i]
            if fresh:
                bottom = min(bottom, v)
            elif by_row:
                if r == point_row[count - 1]:
                    continue
            elif not is_rise(v, point_value[count - 1], 0.0):
                continue
            point_need[count], point_value[count], point_row[count] = need_S[s] + i, v, r
            count += 1
            fresh = False
        if not fresh:  # values increase, so the last one is the largest
            top = max(top, value[offset_S[s] + top_S[s] - need_S[s]])
        out_points.indptr_HS[h, s + 1] = made + count
    out_extremes.top_H[h], out_extremes.bottom_H[h] = top, bottom
    average(
        need_S, top_S, offset_S, rows.distribution_indptr, rows.distribution_cost, rows.distribution_probability,
        value[: offset_S[n_states]], arrays.average_L, halt,
    )  # fmt: skip
    return count


@jit
def sweep_steps(begin, stop, model, rows, resource, layout, next_average_L, out_arrays, out_points, out_extremes, halt):
    """Sweep the steps from `begin` - 1 down to `stop`, and write their points one after another.

    Parameters
    ----------
    begin, stop : int
    model : ModelArrays
    rows : PooledRows
    resource : SingleResource
    layout : ArrayLayout
    next_average_L : ndarray of float64, shape (1 + L, N')
        Values of step `begin` and their averages; of length 0 if there is none.
    out_arrays : SweepArrays
        Long enough for the largest step. At the end, `point_value` holds the values of the points of step `stop`.
    out_points : Points
        Long enough for all amounts of these steps.
    out_extremes : StepExtremes
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.

    Returns
    -------
    count : int
        Number of points.
    average_L : ndarray of float64, shape (1 + L, N)
        The values of step `stop` and their averages.
    """
    n_states = layout.need_HS.shape[1]
    made, first_state = np.int64(0), np.int64(0)
    reward_S = np.empty(n_states)
    arrays = out_arrays
    for h in range(begin - 1, stop - 1, -1):
        if halt[0]:
            break
        sweep_step(
            first_state,
            n_states,
            h,
            model,
            rows,
            resource,
            layout,
            next_average_L,
            arrays,
            reward_S,
            halt,
        )
        for s in range(n_states):
            out_extremes.reward_H[h] = max(out_extremes.reward_H[h], reward_S[s])
        made += finish_step(h, model, rows, layout, arrays, made, out_points, out_extremes, halt)
        # the averages of the step after this one need not be long enough to be written over
        spare_L = next_average_L if h < begin - 1 else np.empty_like(arrays.average_L)
        next_average_L = arrays.average_L
        arrays = SweepArrays(arrays.value, arrays.row, spare_L, arrays.point_value)
    return made, next_average_L
