"""Kernels for boxes of amounts.

The box of a (step, state) has every amount that can be reached and is not doomed. Amounts that are settled at one end
of it are one amount: the end. Outcomes lead to amounts that may lie beyond the box of the next state, because they are
settled, because the resource saturates, or because a limit is broken. Therefore values are first copied to *arrivals*,
boxes that are large enough for every amount x + c that is looked up:

    arrival(y) = value(clamped to the box)  if y, after saturation, is safe,  else  minus infinity.

Then an outcome is a block of arrivals at a constant distance from the block of the box, whatever the amounts. Values
and arrivals have the same pitch, the distance between two rows of the last resource, so that the block of the last two
resources is added up as one contiguous array. What that computes in the space between rows is never read.

Kernels that take `halt` return early once `halt[0]` is set; their results are then incomplete.
"""

from __future__ import annotations

import numpy as np

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.jit import jit
from solvent.solvers.bounds.kernels import SMALLEST_FLOAT, clamped, fill_row_interval
from solvent.solvers.grid.arrays import RowRuns
from solvent.solvers.reduction.kernels import widest

#: Number of values that are summed at a time.
_TILE = 1024
#: Number of values that take less time than beginning another block.
_SHORT = 64
#: More values than any machine has memory for; positions are only stored up to this number.
MOST_CELLS = 2.0**40


@jit(inline="always")
def _fill_taken(row_low_D, row_high_D, low_D, width_D, out_from_D, out_to_D):
    """Write the positions in a box, from and up to, for which a row is evaluated; return whether there are any.

    Of the last resource, all amounts are evaluated unless the row is safe for less than three quarters of them: those
    for which it is not safe arrive at minus infinity.
    """
    some = True
    last = low_D.shape[0] - 1
    for d in range(last + 1):
        first, final = max(row_low_D[d], low_D[d]), min(row_high_D[d], low_D[d] + width_D[d] - 1)
        if first > final:  # possibly infinities
            some = False
            first, final = low_D[d], low_D[d]
        out_from_D[d], out_to_D[d] = first - low_D[d], final - low_D[d] + 1
    if some and 4 * (out_to_D[last] - out_from_D[last]) >= 3 * width_D[last]:
        out_from_D[last], out_to_D[last] = 0, width_D[last]
    return some


@jit(inner=True)
def _stored(width_D, pitch):
    """Return the number of values that are stored for a box, as a float."""
    if width_D[0] == 0:
        return 0.0
    rows = 1.0
    for d in range(width_D.shape[0] - 1):
        rows *= width_D[d]
    return rows * pitch


@jit
def fill_boxes(model, costs, limits, bounds, start, out_boxes, out_sizes, halt):
    """Write the boxes of all steps, by following the amounts that can be reached.

    Parameters
    ----------
    model : ModelArrays
    costs : TickCosts
    limits : LimitArrays
    bounds : Bounds
    start : Reach
        Amounts before the first step.
    out_boxes : Boxes
        Without positions in steps of more than `MOST_CELLS` values.
    out_sizes : BoxSizes
    halt : ndarray of bool
    """
    cost_OD, floor_D, ceiling_D, _ = costs
    n_layers, n_states, n_resources = out_boxes.low.shape
    last = n_resources - 1
    low_SD, high_SD = start.low_SD.copy(), start.high_SD.copy()
    after_low_SD, after_high_SD = np.empty_like(low_SD), np.empty_like(high_SD)
    row_low_D, row_high_D = np.empty(n_resources, np.int64), np.empty(n_resources, np.int64)
    from_D, to_D = np.empty(n_resources, np.int64), np.empty(n_resources, np.int64)
    out_boxes.arrival_low[:], out_boxes.arrival_width[:] = PLUS_INFINITY, 0
    for h in range(n_layers):
        out_low_SD, out_width_SD, cell = out_boxes.low[h], out_boxes.width[h], out_boxes.cell[h]
        total = work = 0.0
        pitch = np.int64(1)
        then = min(h + 1, n_layers - 1)
        after_low_SD[:], after_high_SD[:] = PLUS_INFINITY, MINUS_INFINITY
        arrival_low_SD, arrival_width_SD = out_boxes.arrival_low[then], out_boxes.arrival_width[then]
        limit = min(h, n_layers - 2)
        upper_D, lower_D = limits.upper_HD[limit], limits.lower_HD[limit]
        safe_low_SD, safe_high_SD = bounds.safe_low[then], bounds.safe_high[then]
        for s in range(n_states):
            if halt[0]:
                return
            cell[s] = np.int64(min(total, MOST_CELLS))
            cells = 1.0
            for d in range(n_resources):
                # of what can be reached, only what is not doomed is continued from
                low_SD[s, d] = max(low_SD[s, d], bounds.safe_low[h, s, d])
                high_SD[s, d] = min(high_SD[s, d], bounds.safe_high[h, s, d])
                low, high = low_SD[s, d], high_SD[s, d]
                if low > high:
                    cells = 0.0
                    break
                settled_low, settled_high = bounds.settled_low[h, s, d], bounds.settled_high[h, s, d]
                if settled_low <= low and high <= settled_high:
                    high = low
                elif settled_low <= low <= settled_high:
                    low = settled_high
                elif settled_low <= high <= settled_high:
                    high = settled_low
                out_low_SD[s, d], out_width_SD[s, d] = low, high - low + 1
                cells *= high - low + 1
            if cells == 0.0:
                out_low_SD[s], out_width_SD[s] = 0, 0
                continue
            total += cells
            pitch = max(pitch, out_width_SD[s, last])
            if h == n_layers - 1:
                continue
            first = model.table_of_step[h] * n_states + s
            for r in range(model.row_indptr[first], model.row_indptr[first + 1]):
                fill_row_interval(r, model, costs, upper_D, lower_D, safe_low_SD, safe_high_SD, row_low_D, row_high_D)
                if not _fill_taken(row_low_D, row_high_D, out_low_SD[s], out_width_SD[s], from_D, to_D):
                    continue
                taken = 1.0
                for d in range(n_resources):
                    taken *= to_D[d] - from_D[d]
                work += taken * (model.outcome_indptr[r + 1] - model.outcome_indptr[r])
                for o in range(model.outcome_indptr[r], model.outcome_indptr[r + 1]):
                    after = model.next_state[o]
                    for d in range(n_resources):
                        low = out_low_SD[s, d] + from_D[d] + cost_OD[o, d]
                        high = low + to_D[d] - from_D[d] - 1
                        # widths are positions of the last amount until all rows are known
                        if arrival_low_SD[after, d] == PLUS_INFINITY:
                            arrival_low_SD[after, d], arrival_width_SD[after, d] = low, high
                        arrival_low_SD[after, d] = min(arrival_low_SD[after, d], low)
                        arrival_width_SD[after, d] = max(arrival_width_SD[after, d], high)
                        low, high = max(row_low_D[d], low_SD[s, d]), min(row_high_D[d], high_SD[s, d])
                        low = clamped(low + cost_OD[o, d], floor_D[d], ceiling_D[d])
                        high = clamped(high + cost_OD[o, d], floor_D[d], ceiling_D[d])
                        after_low_SD[after, d] = min(after_low_SD[after, d], low)
                        after_high_SD[after, d] = max(after_high_SD[after, d], high)
        cell[n_states] = np.int64(min(total, MOST_CELLS))
        if h < n_layers - 1:
            for s in range(n_states):
                for d in range(n_resources):
                    if arrival_low_SD[s, d] == PLUS_INFINITY:
                        arrival_low_SD[s, d], arrival_width_SD[s, d] = 0, 0
                    else:
                        arrival_width_SD[s, d] -= arrival_low_SD[s, d] - 1
                pitch = max(pitch, arrival_width_SD[s, last])
        stored = arrivals = 0.0
        for s in range(n_states):
            out_boxes.offset[h, s] = np.int64(min(stored, MOST_CELLS))
            stored += _stored(out_width_SD[s], pitch)
            if h < n_layers - 1:
                out_boxes.arrival_offset[then, s] = np.int64(min(arrivals, MOST_CELLS))
                arrivals += _stored(arrival_width_SD[s], pitch)
        out_boxes.offset[h, n_states] = np.int64(min(stored, MOST_CELLS))
        out_boxes.pitch_H[h] = pitch
        if h < n_layers - 1:
            out_boxes.arrival_offset[then, n_states] = np.int64(min(arrivals, MOST_CELLS))
            out_sizes.arrivals_H[then] = arrivals
        out_sizes.cells_H[h], out_sizes.stored_H[h], out_sizes.work_H[h] = total, stored, work
        low_SD, after_low_SD = after_low_SD, low_SD
        high_SD, after_high_SD = after_high_SD, high_SD


@jit
def fill_arrivals(begin_state, end_state, h, costs, limits, bounds, boxes, value, out_arrival, halt):
    """Write the values of all amounts of some states that outcomes of step h - 1 lead to.

    Parameters
    ----------
    begin_state, end_state, h : int
        The range of states, and the step.
    costs : TickCosts
    limits : LimitArrays
    bounds : Bounds
    boxes : Boxes
    value : ndarray of float64
        Values of the boxes of step h.
    out_arrival : ndarray of float64
    halt : ndarray of bool
    """
    _, floor_D, ceiling_D, _ = costs
    n_resources = boxes.low.shape[2]
    last = n_resources - 1
    low_SD, width_SD, offset, pitch = boxes.low[h], boxes.width[h], boxes.offset[h], boxes.pitch_H[h]
    arrival_low_SD, arrival_width_SD = boxes.arrival_low[h], boxes.arrival_width[h]
    arrival_offset, arrival_pitch = boxes.arrival_offset[h], boxes.pitch_H[h - 1]
    index_D = np.empty(n_resources, np.int64)
    floor, ceiling = floor_D[last], ceiling_D[last]
    for s in range(begin_state, end_state):
        columns = arrival_width_SD[s, last]
        if columns == 0:
            continue
        if halt[0]:
            return
        # ranges of the last resource: unsafe, lowest value, shifted values, highest value, unsafe
        least = max(limits.lower_HD[h - 1, last], bounds.safe_low[h, s, last])
        most = min(limits.upper_HD[h - 1, last], bounds.safe_high[h, s, last])
        begin, low, high = arrival_low_SD[s, last], low_SD[s, last], low_SD[s, last] + width_SD[s, last] - 1
        first, final = clamped(floor, low, high), clamped(ceiling, low, high)
        safe_from = 0 if least <= floor else clamped(least - begin, 0, columns) if least <= ceiling else columns
        safe_to = columns if most >= ceiling else clamped(most - begin + 1, 0, columns) if most >= floor else 0
        safe_to = max(safe_from, safe_to)
        if width_SD[s, last] == 0:
            safe_from = safe_to = 0
        rising = clamped(first - begin, safe_from, safe_to)
        flat = clamped(final - begin + 1, rising, safe_to)
        index_D[:] = 0
        to = arrival_offset[s]
        while True:
            at = np.int64(0)
            for d in range(last):
                end = low_SD[s, d] + width_SD[s, d] - 1
                ticks = clamped(arrival_low_SD[s, d] + index_D[d], floor_D[d], ceiling_D[d])
                at = at * width_SD[s, d] + clamped(ticks, low_SD[s, d], end) - low_SD[s, d]
            at = offset[s] + at * pitch
            for i in range(safe_from):
                out_arrival[to + i] = -np.inf
            if safe_from < rising:
                lowest = value[at + first - low]
                for i in range(safe_from, rising):
                    out_arrival[to + i] = lowest
            shifted = at + begin - low
            for i in range(rising, flat):
                out_arrival[to + i] = value[shifted + i]
            if flat < safe_to:
                highest = value[at + final - low]
                for i in range(flat, safe_to):
                    out_arrival[to + i] = highest
            for i in range(safe_to, arrival_pitch):
                out_arrival[to + i] = -np.inf
            to += arrival_pitch
            d = last - 1
            while d >= 0:
                index_D[d] += 1
                if index_D[d] < arrival_width_SD[s, d]:
                    break
                index_D[d] = 0
                d -= 1
            if d < 0:
                break


@jit(inline="always")
def _add_block(to, length, start, which, n_outcomes, probability, first, at_K, arrival, total, out_value, out_row):
    """Evaluate a row for a contiguous block of amounts, and keep it where it is better than the best so far.

    Positions are unsigned, so that no code is needed for negative ones and the loops are vectorized.
    """
    block, end = np.uint64(to), np.uint64(length)
    if n_outcomes == 1:
        p, one = probability[first], np.uint64(at_K[0])
        for i in range(end):
            new = start + p * arrival[one + i]
            better = new > out_value[block + i]
            out_value[block + i] = new if better else out_value[block + i]
            out_row[block + i] = which if better else out_row[block + i]
    elif n_outcomes == 2:
        p, q, one, two = probability[first], probability[first + 1], np.uint64(at_K[0]), np.uint64(at_K[1])
        for i in range(end):
            new = start + p * arrival[one + i] + q * arrival[two + i]
            better = new > out_value[block + i]
            out_value[block + i] = new if better else out_value[block + i]
            out_row[block + i] = which if better else out_row[block + i]
    else:
        for tile in range(0, length, _TILE):
            size = np.uint64(min(_TILE, length - tile))
            p, q = probability[first], probability[first + 1]
            one, two = np.uint64(at_K[0] + tile), np.uint64(at_K[1] + tile)
            for i in range(size):
                total[i] = start + p * arrival[one + i] + q * arrival[two + i]
            for k in range(2, n_outcomes - 1, 2):
                p, q = probability[first + k], probability[first + k + 1]
                one, two = np.uint64(at_K[k] + tile), np.uint64(at_K[k + 1] + tile)
                for i in range(size):
                    total[i] = total[i] + p * arrival[one + i] + q * arrival[two + i]
            if n_outcomes % 2:
                p, one = probability[first + n_outcomes - 1], np.uint64(at_K[n_outcomes - 1] + tile)
                for i in range(size):
                    total[i] += p * arrival[one + i]
            block = np.uint64(to + tile)
            for i in range(size):
                better = total[i] > out_value[block + i]
                out_value[block + i] = total[i] if better else out_value[block + i]
                out_row[block + i] = which if better else out_row[block + i]


@jit(inner=True)
def _stays(h, s, model, limits, bounds, boxes):
    """Return whether the box of a state at step h, and what can be done there, is that of the following step."""
    if h + 2 >= boxes.low.shape[0] or model.table_of_step[h] != model.table_of_step[h + 1]:
        return False
    if boxes.offset[h, s] != boxes.offset[h + 1, s] or boxes.pitch_H[h] != boxes.pitch_H[h + 1]:
        return False
    for d in range(boxes.low.shape[2]):
        if limits.upper_HD[h, d] != limits.upper_HD[h + 1, d] or limits.lower_HD[h, d] != limits.lower_HD[h + 1, d]:
            return False
        if boxes.low[h, s, d] != boxes.low[h + 1, s, d] or boxes.width[h, s, d] != boxes.width[h + 1, s, d]:
            return False
        if bounds.safe_low[h, s, d] != bounds.safe_low[h + 1, s, d]:
            return False
        if bounds.safe_high[h, s, d] != bounds.safe_high[h + 1, s, d]:
            return False
    return True


@jit(inner=True)
def _all_same(begin, end, next_state, same_S):
    """Return whether all next states of some outcomes are marked."""
    o = begin
    while o < end and same_S[next_state[o]]:
        o += 1
    return o >= end


@jit(inner=True)
def _is_alive(lines, columns, pitch, n_outcomes, at_K, arrival):
    """Return whether no outcome leads to a dead end from some amount of a block."""
    for line in range(lines):
        for i in range(line * pitch, line * pitch + columns):
            k = 0
            while k < n_outcomes and arrival[at_K[k] + i] > -np.inf:
                k += 1
            if k == n_outcomes:
                return True
    return False


@jit
def sweep_states(begin_state, end_state, h, model, costs, limits, bounds, boxes, arrival, out, halt):
    """Write the value and the best row for every amount in the boxes of some states.

    Parameters
    ----------
    begin_state, end_state, h : int
        The range of states, and the step.
    model : ModelArrays
    costs : TickCosts
    limits : LimitArrays
    bounds : Bounds
    boxes : Boxes
    arrival : ndarray of float64
        Values of the amounts that outcomes lead to.
    out : SweptStep
        With what was written for step h + 1. It stays where nothing has changed.
    halt : ndarray of bool
    """
    _, n_states, n_resources = boxes.low.shape
    last, outer = n_resources - 1, max(n_resources - 2, 0)
    low_SD, width_SD, offset, pitch = boxes.low[h], boxes.width[h], boxes.offset[h], boxes.pitch_H[h]
    arrival_low_SD, arrival_width_SD = boxes.arrival_low[h + 1], boxes.arrival_width[h + 1]
    arrival_offset = boxes.arrival_offset[h + 1]
    upper_D, lower_D = limits.upper_HD[h], limits.lower_HD[h]
    safe_low_SD, safe_high_SD = bounds.safe_low[h + 1], bounds.safe_high[h + 1]
    row_indptr = model.row_indptr[model.table_of_step[h] * n_states :]
    outcome_indptr, next_state, probability = model.outcome_indptr, model.next_state, model.probability
    cost_OD, row_reward = costs.cost_OD, model.row_reward
    out_value, out_row, out_reward_S = out.value, out.row, out.reward_S
    row_low_D, row_high_D = np.empty(n_resources, np.int64), np.empty(n_resources, np.int64)
    from_D, to_D = np.empty(n_resources, np.int64), np.empty(n_resources, np.int64)
    index_D, stride_D = np.empty(n_resources, np.int64), np.empty(n_resources, np.int64)
    most = max(widest(outcome_indptr, row_indptr[begin_state], row_indptr[end_state]), 1)
    stride_KD = np.empty((most, n_resources), np.int64)
    origin_K, at_K = np.empty(most, np.int64), np.empty(most, np.int64)
    total, before = np.empty(_TILE), np.empty(widest(offset, begin_state, end_state))
    after_same_S, out_same_S = out.same_2S[(h + 1) % 2], out.same_2S[h % 2]
    for s in range(begin_state, end_state):
        base, size = offset[s], offset[s + 1] - offset[s]
        begin_row, end_row = row_indptr[s], row_indptr[s + 1]
        stays = _stays(h, s, model, limits, bounds, boxes)
        out_same_S[s] = stays
        if size == 0 or (
            stays and _all_same(outcome_indptr[begin_row], outcome_indptr[end_row], next_state, after_same_S)
        ):
            continue
        if stays:
            for i in range(size):
                before[i] = out_value[base + i]
        out_reward_S[s] = 0.0
        worth = model.end_value[s] if begin_row == end_row else -np.inf
        for i in range(base, base + size):
            out_value[i], out_row[i] = worth, 0
        low_D, width_D = low_SD[s], width_SD[s]
        stride = pitch
        stride_D[last] = 1
        for d in range(last - 1, -1, -1):
            stride_D[d] = stride
            stride *= width_D[d]
        for r in range(begin_row, end_row):
            if halt[0]:
                return
            fill_row_interval(r, model, costs, upper_D, lower_D, safe_low_SD, safe_high_SD, row_low_D, row_high_D)
            if not _fill_taken(row_low_D, row_high_D, low_D, width_D, from_D, to_D):
                continue
            first, n_outcomes = outcome_indptr[r], outcome_indptr[r + 1] - outcome_indptr[r]
            for k in range(n_outcomes):
                after = next_state[first + k]
                stride = pitch
                stride_KD[k, last] = 1
                origin_K[k] = arrival_offset[after]
                for d in range(last, -1, -1):
                    if d < last:
                        stride_KD[k, d] = stride
                        stride *= arrival_width_SD[after, d]
                    ticks = low_D[d] + from_D[d] + cost_OD[first + k, d]
                    origin_K[k] += (ticks - arrival_low_SD[after, d]) * stride_KD[k, d]
            columns = to_D[last] - from_D[last]
            lines = to_D[last - 1] - from_D[last - 1] if last else 1
            # as one block, unless that would write over other amounts, or much of it would be space between rows
            dense = pitch - columns <= _SHORT or 5 * columns >= 3 * pitch
            whole = lines == 1 or (columns == width_D[last] and dense)
            length, blocks = ((lines - 1) * pitch + columns, 1) if whole else (columns, lines)
            # rows that only lead to dead ends do not count
            counts = row_reward[r] <= out_reward_S[s]
            for d in range(outer):
                index_D[d] = 0
            while True:
                here = base + from_D[last]
                if last:
                    here += from_D[last - 1] * pitch
                for d in range(outer):
                    here += (from_D[d] + index_D[d]) * stride_D[d]
                for k in range(n_outcomes):
                    at_K[k] = origin_K[k]
                    for d in range(outer):
                        at_K[k] += index_D[d] * stride_KD[k, d]
                if not counts and _is_alive(lines, columns, pitch, n_outcomes, at_K, arrival):
                    counts, out_reward_S[s] = True, row_reward[r]
                for _ in range(blocks):
                    _add_block(
                        here, length, row_reward[r], r - begin_row + 1, n_outcomes, probability, first, at_K, arrival,
                        total, out_value, out_row,
                    )  # fmt: skip
                    here += pitch
                    for k in range(n_outcomes):
                        at_K[k] += pitch
                d = outer - 1
                while d >= 0:
                    index_D[d] += 1
                    if index_D[d] < to_D[d] - from_D[d]:
                        break
                    index_D[d] = 0
                    d -= 1
                if d < 0:
                    break
        if stays:
            for line in range(0, size, pitch):
                for i in range(line, line + width_D[last]):
                    if before[i] != out_value[base + i]:
                        out_same_S[s] = False
                        break
                if not out_same_S[s]:
                    break


@jit
def finish_step(h, boxes, swept, made, out_runs, out_extremes):
    """Write the runs of best rows of a step and its extreme values.

    Parameters
    ----------
    h : int
        The step.
    boxes : Boxes
    swept : SweptStep
    made : int
        Number of runs of other steps; those of this one are written after them.
    out_runs : RowRuns
    out_extremes : StepExtremes

    Returns
    -------
    count : int
        Number of runs of this step.
    """
    n_states, last = boxes.low.shape[1], boxes.low.shape[2] - 1
    pitch, count, number = boxes.pitch_H[h], made, np.int64(0)
    top, bottom, reward, before = 0.0, 0.0, 0.0, np.int64(-1)
    for s in range(n_states):
        columns = boxes.width[h, s, last]
        if columns == 0:
            continue
        reward = max(reward, swept.reward_S[s])
        for line in range(boxes.offset[h, s], boxes.offset[h, s + 1], pitch):
            value, row = swept.value[line : line + columns], swept.row[line : line + columns]
            for i in range(columns):
                if row[i] != before:
                    before = np.int64(row[i])
                    out_runs.start[count], out_runs.row[count] = number + i, row[i]
                    count += 1
                v = value[i]
                if v > top:
                    top = v
                elif v < bottom and v > -np.inf:
                    bottom = v
            number += columns
    out_extremes.top_H[h], out_extremes.bottom_H[h], out_extremes.reward_H[h] = top, bottom, reward
    return count - made


@jit
def sweep_steps(begin, stop, model, costs, limits, bounds, boxes, buffers, out_runs, out_extremes, halt):
    """Sweep the steps from `begin` - 1 down to `stop`.

    Parameters
    ----------
    begin, stop : int
    model : ModelArrays
    costs : TickCosts
    limits : LimitArrays
    bounds : Bounds
    boxes : Boxes
    buffers : SweepBuffers
        `swept` has the values of step `begin`, and at the end those of step `stop`.
    out_runs : StepRuns
        `indptr_H[begin]` is given; runs of earlier steps are written after those of later ones.
    out_extremes : StepExtremes
    halt : ndarray of bool
    """
    n_states, first_state = boxes.low.shape[1], np.int64(0)
    runs = RowRuns(out_runs.start, out_runs.row)
    made = np.int64(0)
    for h in range(begin - 1, stop - 1, -1):
        if halt[0]:
            return
        swept, arrival = buffers
        fill_arrivals(first_state, n_states, h + 1, costs, limits, bounds, boxes, swept.value, arrival, halt)
        sweep_states(first_state, n_states, h, model, costs, limits, bounds, boxes, arrival, swept, halt)
        out_runs.first_H[h] = made
        made += finish_step(h, boxes, swept, made, runs, out_extremes)
        out_runs.end_H[h] = made


@jit
def copy_blocks(value, offset, states, out_value, out_offset, out_states):
    """Copy the values of some states, which are numbered differently on both sides."""
    for i in range(states.shape[0]):
        begin, to = offset[states[i]], out_offset[out_states[i]]
        for k in range(offset[states[i] + 1] - begin):
            out_value[to + k] = value[begin + k]


@jit(inner=True)
def _best_row(cell, start, row, begin, end):
    """Return the entry of the run, between two positions, that a number of an amount belongs to."""
    while end - begin > 1:
        middle = (begin + end) // 2
        if start[middle] <= cell:
            begin = middle
        else:
            end = middle
    return row[begin]


@jit
def follow_steps(h, stop, count, model, costs, boxes, runs, slots, out_cells, out_indptr_H, out_followed, halt):
    """Follow the best rows of some steps, with probabilities and bounds on true spending.

    Parameters
    ----------
    h, stop : int
        The step to continue from, and the step before which to stop.
    count : int
        Number of cells that are known so far, up to those of step `h`.
    model : ModelArrays
    costs : OutcomeCosts
    boxes : Boxes
    runs : StepRuns
        Of at least these steps.
    slots : ndarray of int32
        A hash table of cells: -1 everywhere, and again at the end. Its length is a power of two, and at least twice the
        length of `out_cells` or as large as the number of cells of any step.
    out_cells : ReachedCells
        Those of step `h` are given.
    out_indptr_H : ndarray of int64, shape (H + 1,)
        Position of the first cell of each step, given up to step `h`.
    out_followed : FollowedSteps
    halt : ndarray of bool

    Returns
    -------
    h : int
        The step for which there was not enough space in `out_cells`; `stop` if all were followed.
    count : int
        Number of cells.
    """
    n_steps, n_states, n_resources = boxes.low.shape[0] - 1, boxes.low.shape[1], boxes.low.shape[2]
    counted, true, followed, cells = costs.counted, costs.true, out_followed, out_cells
    floor_D, ceiling_D = counted.floor_D, counted.ceiling_D
    index_D = np.empty(n_resources, np.int64)
    most_D, least_D = np.empty(n_resources, np.int64), np.empty(n_resources, np.int64)
    mask = slots.shape[0] - 1
    while h < stop:
        begin, end = out_indptr_H[h], count
        final = h == n_steps - 1
        table = model.table_of_step[h] * n_states
        room = 0
        for i in range(begin, end):
            s = cells.state[i]
            which = _best_row(cells.cell[i], runs.start, runs.row, runs.first_H[h], runs.end_H[h])
            # in place of a row, -1 in terminal states
            r = cells.row[i] = model.row_indptr[table + s] + which - 1 if which > 0 else -1
            room += model.outcome_indptr[r + 1] - model.outcome_indptr[r] if which > 0 else 0
        if not final and count + min(room, boxes.cell[h + 1, n_states]) > cells.cell.shape[0]:
            return h, count
        for i in range(begin, end):
            if halt[0]:
                return h, count
            s, r, probability = cells.state[i], cells.row[i], cells.probability[i]
            if r < 0:
                for d in range(n_resources):
                    followed.ended_peak_D[d] = max(followed.ended_peak_D[d], cells.most_ND[i, d])
                    followed.ended_trough_D[d] = min(followed.ended_trough_D[d], cells.least_ND[i, d])
                if followed.reward.shape[0] > n_steps:
                    followed.reward[n_steps] += probability * model.end_value[s]
                    followed.size[n_steps] += probability * abs(model.end_value[s])
                continue
            followed.reward[h] += probability * model.row_reward[r]
            followed.size[h] += probability * abs(model.row_reward[r])
            rest = cells.cell[i] - boxes.cell[h, s]
            for d in range(n_resources - 1, -1, -1):
                index_D[d] = rest % boxes.width[h, s, d]
                rest //= boxes.width[h, s, d]
            for o in range(model.outcome_indptr[r], model.outcome_indptr[r + 1]):
                after = model.next_state[o]
                cell = np.int64(0)
                for d in range(n_resources):
                    most = cells.most_ND[i, d] + true.high_OD[o, d]
                    least = cells.least_ND[i, d] + true.low_OD[o, d]
                    most_D[d] = clamped(most, true.high_floor_D[d], true.high_ceiling_D[d])
                    least_D[d] = clamped(least, true.low_floor_D[d], true.low_ceiling_D[d])
                    followed.peak_HD[h, d] = max(followed.peak_HD[h, d], most_D[d])
                    followed.trough_HD[h, d] = min(followed.trough_HD[h, d], least_D[d])
                    low, width = boxes.low[h + 1, after, d], boxes.width[h + 1, after, d]
                    ticks = clamped(boxes.low[h, s, d] + index_D[d] + counted.cost_OD[o, d], floor_D[d], ceiling_D[d])
                    cell = cell * width + clamped(ticks, low, low + width - 1) - low
                # a probability may underflow to 0, but a cell that is reached must keep a positive one
                arriving = max(probability * model.probability[o], SMALLEST_FLOAT)
                if final:
                    if followed.reward.shape[0] > n_steps:
                        followed.reward[n_steps] += arriving * model.end_value[after]
                        followed.size[n_steps] += arriving * abs(model.end_value[after])
                    continue
                cell += boxes.cell[h + 1, after]
                slot = cell & mask
                while slots[slot] >= 0 and cells.cell[slots[slot]] != cell:
                    slot = (slot + 1) & mask
                j = slots[slot]
                if j < 0:
                    j = slots[slot] = count
                    count += 1
                    cells.cell[j], cells.state[j], cells.probability[j] = cell, after, 0.0
                    for d in range(n_resources):
                        cells.most_ND[j, d], cells.least_ND[j, d] = most_D[d], least_D[d]
                cells.probability[j] += arriving
                for d in range(n_resources):
                    cells.most_ND[j, d] = max(cells.most_ND[j, d], most_D[d])
                    cells.least_ND[j, d] = min(cells.least_ND[j, d], least_D[d])
        for j in range(end, count):
            slot = cells.cell[j] & mask
            while slots[slot] != j:
                slot = (slot + 1) & mask
            slots[slot] = -2
        for j in range(end, count):
            slot = cells.cell[j] & mask
            while slots[slot] == -2:
                slots[slot] = -1
                slot = (slot + 1) & mask
        for d in range(n_resources):
            followed.peak_HD[h, d] = max(followed.peak_HD[h, d], followed.ended_peak_D[d])
            followed.trough_HD[h, d] = min(followed.trough_HD[h, d], followed.ended_trough_D[d])
        h += 1
        if not final:
            out_indptr_H[h] = end
    return h, count


@jit
def fill_live_box(model, bounds, boxes, runs, out_low_HSD, out_high_HSD):
    """Write the least and the most spent over all amounts of a box that are no dead ends.

    Settled amounts extend these to the ends of the settled interval; plus and minus infinity if there are none.
    """
    n_steps, n_states, n_resources = out_low_HSD.shape
    last = n_resources - 1
    index_D = np.empty(n_resources, np.int64)
    out_low_HSD[:], out_high_HSD[:] = PLUS_INFINITY, MINUS_INFINITY
    for h in range(n_steps):
        run, end = runs.first_H[h], runs.end_H[h]
        number = np.int64(0)
        for s in range(n_states):
            table = model.table_of_step[h] * n_states + s
            terminal = model.row_indptr[table] == model.row_indptr[table + 1]
            width_D, low_D = boxes.width[h, s], boxes.low[h, s]
            index_D[:] = 0
            for _ in range((boxes.cell[h, s + 1] - boxes.cell[h, s]) // max(width_D[last], 1)):
                first, final = width_D[last], np.int64(-1)
                column = np.int64(0)
                while column < width_D[last]:
                    while run + 1 < end and runs.start[run + 1] <= number + column:
                        run += 1
                    stop = runs.start[run + 1] - number if run + 1 < end else width_D[last]
                    stop = min(stop, width_D[last])
                    if terminal or runs.row[run] > 0:
                        first, final = min(first, column), stop - 1
                    column = stop
                number += width_D[last]
                if final >= 0:
                    for d in range(n_resources):
                        low = low_D[d] + (first if d == last else index_D[d])
                        high = low_D[d] + (final if d == last else index_D[d])
                        settled_low, settled_high = bounds.settled_low[h, s, d], bounds.settled_high[h, s, d]
                        if settled_low <= low <= settled_high:
                            low = settled_low
                        if settled_low <= high <= settled_high:
                            high = settled_high
                        out_low_HSD[h, s, d] = min(out_low_HSD[h, s, d], low)
                        out_high_HSD[h, s, d] = max(out_high_HSD[h, s, d], high)
                for d in range(last - 1, -1, -1):
                    index_D[d] += 1
                    if index_D[d] < width_D[d]:
                        break
                    index_D[d] = 0
