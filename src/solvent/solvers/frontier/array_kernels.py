"""Kernels for frontiers as arrays: one value for each amount `left`.

For each (step, state), the amounts from `need` to `top` have a value: below `need` nothing is feasible, and above `top`
the value does not change. The arrays of all states of a step are stored one after another, each followed by `padding`
copies of its last value, so that most rows read nothing beyond them.

Often the value stops changing before `top`. If the values of all next states of a row are constant from some amounts
on, that of the row is, too: beyond the last of these amounts over all rows of a state, nothing is computed.

Indices in inner loops are unsigned: a signed index might be negative, and the check for that prevents vectorization.
Each sum is taken in the order of the outcomes, so that results do not depend on the processor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.jit import jit
from solvent.solvers.frontier.bounds_kernels import raised
from solvent.solvers.frontier.point_kernels import is_rise
from solvent.solvers.outcomes.pooling_kernels import TILE, add_shifted, average_state
from solvent.solvers.reduction.kernels import TERMINAL, widest


class ArrayLayout(NamedTuple):
    """Amounts for which each (step, state) has values, and where these are stored.

    Attributes
    ----------
    need_HS, top_HS : ndarray of int64, shape (H, S)
        The smallest and the largest amount; empty where `top` is less than `need`.
    offset_HS : ndarray of int64, shape (H, S + 1)
        Position of the value of `need` within the arrays of the step; last, their length.
    padding : int
        Number of entries after the value of `top` that repeat it.
    """

    need_HS: NDArray[np.int64]
    top_HS: NDArray[np.int64]
    offset_HS: NDArray[np.int64]
    padding: int


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
    distribution_saved, distribution_probability : ndarray of int64 and float64
        Costs of each distribution in decreasing order: by how much they are less than the first, and their
        probabilities.
    """

    indptr: NDArray[np.int64]
    probability: NDArray[np.float64]
    next_state: NDArray[np.int32]
    cost: NDArray[np.int64]
    distribution: NDArray[np.int32]
    distribution_indptr: NDArray[np.int64]
    distribution_saved: NDArray[np.int64]
    distribution_probability: NDArray[np.float64]


class SweepArrays(NamedTuple):
    """Values and best rows of one step.

    Attributes
    ----------
    value_L : ndarray of float64, shape (1 + L, N)
        The values, and their averages over each cost distribution; see `pooling_kernels.average_state`.
    row : ndarray of uint8 or int32, shape (N,)
        Position of the best row among those of its state.
    flat_S : ndarray of int64, shape (S,)
        The least amount from which on the value of a state does not change.
    count_S : ndarray of int64, shape (S,)
        Number of amounts of each state that have an entry in `row`; from the last of them on, the row does not change.
    reward_S : ndarray of float64, shape (S,)
        The larger of 0 and the largest reward of a row that can be afforded in each state.
    whole_S : ndarray of bool, shape (S,)
        Whether no row of a state changes above `top`.
    same_S : ndarray of bool, shape (S,)
        Whether the values of a state are those of the following step.
    """

    value_L: NDArray[np.float64]
    row: NDArray[Any]
    flat_S: NDArray[np.int64]
    count_S: NDArray[np.int64]
    reward_S: NDArray[np.float64]
    whole_S: NDArray[np.bool_]
    same_S: NDArray[np.bool_]


class RowSums(NamedTuple):
    """Workspace for the rows of one state.

    Attributes
    ----------
    start, stop : ndarray of int64, one for each row
        Positions, counted from `need`, from which on the row is safe, and from which on its value does not change.
    place : ndarray of int64, one for each outcome
        Position among the values of the next step that belongs to `need`; it may lie before the first.
    most : ndarray of int64, one for each outcome
        The last position among the values of the next step that may be read.
    total : ndarray of float64
        Values of a row.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    place: NDArray[np.int64]
    most: NDArray[np.int64]
    total: NDArray[np.float64]


@jit(inline="always")
def _most_outcomes(row_indptr, indptr, begin_state, end_state):
    """Return the largest number of outcomes of a state."""
    most = np.int64(1)
    for s in range(begin_state, end_state):
        most = max(most, indptr[row_indptr[s + 1]] - indptr[row_indptr[s]])
    return most


@jit(inline="always")
def _keep_larger(total, begin, stop, base, which, out_value, out_row):
    """Replace values and rows that are smaller than the first entries of `total`."""
    at, count = np.uintp(base + begin), np.uintp(stop - begin)
    for i in range(count):
        old = out_value[at + i]
        better = total[i] > old
        out_value[at + i] = total[i] if better else old
        out_row[at + i] = which if better else out_row[at + i]


@jit(inline="always")
def _sweep_rows(first, end, base, width, model, rows, value, work, out_value, out_row, halt):
    """Write the value and the best row for the first `width` amounts of a state.

    Parameters
    ----------
    first, end, base, width : int
        The rows of the state, the position of its first value, and the number of amounts.
    model : ModelArrays
    rows : PooledRows
    value : ndarray of float64
        Values of the next step and their averages, one after another; of length 0 after the last step.
    work : RowSums
        `total` is overwritten.
    out_value, out_row : ndarray
        Filled with minus infinity and 0.
    halt : ndarray of bool, shape (1,)
    """
    indptr, probability, total = rows.indptr, rows.probability, work.total
    last, first_outcome, to = value.shape[0] == 0, indptr[first], np.int64(0)
    # tile by tile, so that sums stay in the nearest cache
    for tile in range(0, width, TILE):
        tile_stop = min(tile + TILE, width)
        for r in range(first, end):
            begin = max(work.start[r - first], tile)
            if begin >= tile_stop or halt[0]:
                continue
            start_value, o, o_end = model.row_reward[r], indptr[r], indptr[r + 1]
            if last:
                for k in range(o, o_end):
                    start_value += probability[k] * model.end_value[rows.next_state[k]]
                o_end = o
            # from `stop` on the value does not change; up to `safe`, nothing beyond the padding is read
            stop = min(max(work.stop[r - first], begin), tile_stop)
            safe = stop
            for k in range(np.uintp(o - first_outcome), np.uintp(o_end - first_outcome)):
                safe = min(safe, work.most[k] - work.place[k] + 1)
            safe = max(safe, begin)
            if begin < safe:
                add_shifted(
                    value, work.place, probability, o, o_end, first_outcome, begin, safe, start_value, total, to
                )
            for i in range(safe, stop):
                new = start_value
                for k in range(o, o_end):
                    new += probability[k] * value[min(work.place[k - first_outcome] + i, work.most[k - first_outcome])]
                total[i - begin] = new
            if stop < tile_stop:
                constant = start_value
                for k in range(o, o_end):
                    at = min(work.place[k - first_outcome] + stop, work.most[k - first_outcome])
                    constant += probability[k] * value[at]
                if begin == stop and constant <= out_value[base + stop]:
                    continue  # values do not decrease, so none is smaller
                for i in range(stop - begin, tile_stop - begin):
                    total[i] = constant
            _keep_larger(total, begin, tile_stop, base, r - first, out_value, out_row)


@jit
def sweep_step(begin_state, end_state, h, model, rows, resource, layout, after, out, halt):
    """Write the values, their averages and the best rows of some states.

    Parameters
    ----------
    begin_state, end_state, h : int
        The range of states, and the step.
    model : ModelArrays
    rows : PooledRows
    resource : SingleResource
    layout : ArrayLayout
    after : SweepArrays
        Those of the following step; `value_L` has length 0 if there is none.
    out : SweepArrays
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.
    """
    n_steps, n_states = layout.need_HS.shape
    least_left, never, end_value = resource.least_left[h], resource.least_left[h] > resource.most_left, model.end_value
    last, stride, padding = after.value_L.shape[0] == 0, after.value_L.shape[1], layout.padding
    next_value = after.value_L.reshape(-1)
    indptr, next_state, cost, distribution = rows.indptr, rows.next_state, rows.cost, rows.distribution
    need_S, top_S, offset_S = layout.need_HS[h], layout.top_HS[h], layout.offset_HS[h]
    after_h = min(h + 1, n_steps - 1)
    next_need_S, next_top_S, next_offset_S = layout.need_HS[after_h], layout.top_HS[after_h], layout.offset_HS[after_h]
    same_rows = not last and model.table_of_step[h] == model.table_of_step[h + 1]
    same_rows = same_rows and least_left == resource.least_left[h + 1]
    after_row, after_flat_S, after_count_S, after_same_S = after.row, after.flat_S, after.count_S, after.same_S
    out_value, out_row, out_stride = out.value_L.reshape(-1), out.row, out.value_L.shape[1]
    out_flat_S, out_count_S, out_reward_S, out_whole_S, out_same_S = (
        out.flat_S, out.count_S, out.reward_S, out.whole_S, out.same_S,
    )  # fmt: skip
    row_indptr = model.row_indptr[model.table_of_step[h] * n_states :]
    n_rows, n_outcomes = (
        widest(row_indptr, begin_state, end_state),
        _most_outcomes(row_indptr, indptr, begin_state, end_state),
    )
    work = RowSums(
        np.empty(n_rows, np.int64), np.empty(n_rows, np.int64), np.empty(n_outcomes, np.int64),
        np.empty(n_outcomes, np.int64), np.empty(TILE),
    )  # fmt: skip
    place, most = work.place, work.most
    for s in range(begin_state, end_state):
        need, width = need_S[s], top_S[s] - need_S[s] + 1
        out_reward_S[s], out_count_S[s], out_same_S[s] = 0.0, 0, False
        is_live = not last and next_top_S[s] >= next_need_S[s]
        if width <= 0:
            out_same_S[s] = not (last or is_live)
            continue
        base, next_base, reward, limit, whole = offset_S[s], next_offset_S[s], 0.0, np.int64(0), True
        first, end = row_indptr[s], row_indptr[s + 1]
        first_outcome = np.uintp(indptr[first])
        # the values are those of the following step if all values that the rows lead to are the same, and no row
        # changes where amounts are added or left out
        repeats = same_rows and is_live and next_need_S[s] == need and width >= after_count_S[s]
        repeats = repeats and (next_top_S[s] == top_S[s] or after.whole_S[s])
        o = first_outcome
        while repeats and o < np.uintp(indptr[end]):
            repeats = after_same_S[np.uintp(next_state[o])]
            o += np.uintp(1)
        if repeats:
            flat = after_flat_S[s] - need
            out_flat_S[s], out_reward_S[s], out_count_S[s] = need + flat, after.reward_S[s], after_count_S[s]
            out_whole_S[s], out_same_S[s] = after.whole_S[s], True
            for i in range(np.uintp(after_count_S[s])):
                out_row[np.uintp(base) + i] = after_row[np.uintp(next_base) + i]
            for k in range(out.value_L.shape[0]):
                to, at = np.uintp(k * out_stride + base), np.uintp(k * stride + next_base)
                for i in range(np.uintp(flat)):
                    out_value[to + i] = next_value[at + i]
                top = next_value[at + np.uintp(flat)]
                for i in range(np.uintp(flat), np.uintp(width + padding)):
                    out_value[to + i] = top
            continue
        for r in range(first, end):
            start, flat = need, MINUS_INFINITY
            for o in range(np.uintp(indptr[r]), np.uintp(indptr[r + 1])):
                to, c = np.uintp(next_state[o]), cost[o]
                start = PLUS_INFINITY if never else max(start, raised(least_left, c))
                if last:
                    start = PLUS_INFINITY if end_value[to] == -np.inf else start
                elif next_top_S[to] < next_need_S[to]:
                    start = PLUS_INFINITY
                else:
                    next_need = next_need_S[to]
                    start = max(start, next_need + c)
                    flat = max(flat, after_flat_S[to] + c)
                    first_place = distribution[o] * stride + next_offset_S[to]
                    place[o - first_outcome] = first_place + need - c - next_need
                    most[o - first_outcome] = first_place + next_top_S[to] - next_need + padding
            work.start[r - first] = width
            whole = whole and start <= top_S[s] and flat <= top_S[s]
            if start <= top_S[s]:
                work.start[r - first] = start - need
                work.stop[r - first] = min(max(flat, start) - need, width)
                limit = max(limit, work.stop[r - first])
                reward = max(reward, model.row_reward[r])
        # the amounts beyond the last one at which a row changes have the same value as that one
        count = min(limit + 1, width)
        for i in range(np.uintp(base), np.uintp(base + count)):
            out_value[i], out_row[i] = -np.inf, 0
        if first == end:
            out_value[base] = end_value[s]
        else:
            _sweep_rows(first, end, base, count, model, rows, next_value, work, out_value, out_row, halt)
        top = out_value[base + count - 1]
        for i in range(np.uintp(base + count), np.uintp(base + width + padding)):
            out_value[i] = top
        flat = count - 1
        while flat > 0 and out_value[base + flat - 1] == top:
            flat -= 1
        out_flat_S[s], out_reward_S[s], out_count_S[s], out_whole_S[s] = need + flat, reward, count, whole
        if halt[0]:
            break
        if is_live and next_need_S[s] == need and after_flat_S[s] == need + flat:
            i = flat
            while i >= 0 and out_value[base + i] == next_value[next_base + i]:
                i -= 1
            out_same_S[s] = i < 0
        average_state(
            base, width + padding, flat, rows.distribution_indptr, rows.distribution_saved,
            rows.distribution_probability, out_value, out_stride,
        )  # fmt: skip


@jit
def collect_points(h, model, layout, arrays, made, out_points, out_value, out_extremes, halt):
    """Turn the values of a step into points.

    A point is where the value rises or, after the first step, where the best row changes. The kernel returns early once
    `halt[0]` is set.

    Parameters
    ----------
    h : int
        The step.
    model : ModelArrays
    layout : ArrayLayout
    arrays : SweepArrays
    made : int
        Number of points of later steps; those of this one are written after them.
    out_points : Points
    out_value : ndarray of float64
        Values of the points of the first step.
    out_extremes : StepExtremes
    halt : ndarray of bool, shape (1,)

    Returns
    -------
    count : int
        Number of points of this step.
    """
    n_states = layout.need_HS.shape[1]
    need_S, offset_S = layout.need_HS[h], layout.offset_HS[h]
    row_indptr, table = model.row_indptr, model.table_of_step[h] * n_states
    point_need, point_row = out_points.need[made:], out_points.row[made:]
    value, row = arrays.value_L[0], arrays.row
    by_row, count, top, bottom, reward = h > 0, np.int64(0), 0.0, 0.0, 0.0
    out_points.indptr_HS[h, 0] = made
    for s in range(n_states):
        if halt[0]:
            return count
        reward = max(reward, arrays.reward_S[s])
        base, end = offset_S[s], offset_S[s] + arrays.count_S[s]
        at = base
        while at < end and value[at] == -np.inf:
            at += 1
        if at < end:
            first = row_indptr[table + s]
            ends = first == row_indptr[table + s + 1]
            # values increase, so the first is the smallest, and the last the largest
            top, bottom = max(top, value[end - 1]), min(bottom, value[at])
            kept, kept_row = value[at], row[at]
            point_need[count], point_row[count] = need_S[s] + at - base, TERMINAL if ends else first + kept_row
            if not by_row:
                out_value[count] = kept
            count += 1
            for i in range(np.uintp(at + 1), np.uintp(end)):
                if row[i] == kept_row if by_row else not is_rise(value[i], kept, 0.0):
                    continue
                kept, kept_row = value[i], row[i]
                point_need[count], point_row[count] = need_S[s] + np.int64(i) - base, first + kept_row
                if not by_row:
                    out_value[count] = kept
                count += 1
        out_points.indptr_HS[h, s + 1] = made + count
    out_extremes.top_H[h], out_extremes.bottom_H[h], out_extremes.reward_H[h] = top, bottom, reward
    return count


@jit
def sweep_steps(begin, stop, model, rows, resource, layout, arrays, out_points, out_extremes, halt):
    """Sweep the steps from `begin` - 1 down to `stop`, and write their points one after another.

    Parameters
    ----------
    begin, stop : int
    model : ModelArrays
    rows : PooledRows
    resource : SingleResource
    layout : ArrayLayout
    arrays : tuple of three SweepArrays
        The values of step `begin`, of length 0 if there is none, and two that are written in turn, beginning with the
        first of them; both are long enough for the largest step.
    out_points : Points
        Long enough for all amounts of these steps.
    out_extremes : StepExtremes
    halt : ndarray of bool, shape (1,)
        The kernel returns early once this is set.

    Returns
    -------
    count : int
        Number of points.
    point_value : ndarray of float64
        Values of the points of the first step, if it is among these; at least as many entries.
    """
    n_states = layout.need_HS.shape[1]
    made, first_state = np.int64(0), np.int64(0)
    point_value = np.empty(layout.offset_HS[0, n_states] if stop == 0 else 0)
    after, out, spare = arrays
    for h in range(begin - 1, stop - 1, -1):
        if halt[0]:
            break
        sweep_step(first_state, n_states, h, model, rows, resource, layout, after, out, halt)
        made += collect_points(h, model, layout, out, made, out_points, point_value, out_extremes, halt)
        after, out, spare = out, spare, out
    return made, point_value
