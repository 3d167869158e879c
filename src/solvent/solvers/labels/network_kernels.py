"""Kernels that build the network of a deterministic model, and bound the amounts at its places.

Every row of the model has one outcome, so that outcome r belongs to row r. Amounts are those of *sides*: upper limits
of a resource are one side, whose amount is what was spent; lower limits are another side, whose amount is minus what
was spent. So every side has upper limits only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.jit import jit
from solvent.solvers.bounds.kernels import clamped, highest_before


class Network(NamedTuple):
    """Places that a path can visit and the arcs between them; see `solvent.solvers.labels.network`.

    Arcs lead from lower to higher levels. Place 0, alone on level 0, is the start, to which no arc leads. A network
    with cycles has two levels, and arcs also lead from places of the second level to others of it.

    Attributes
    ----------
    level_indptr : ndarray of int64, shape (L + 1,)
        First place of each level.
    arc_indptr : ndarray of int64, shape (V + 1,)
        First arc of those that lead to each place. Arcs that are removed leave gaps.
    arc_end : ndarray of int64, shape (V,)
        End of the arcs that lead to each place.
    tail : ndarray of int32, shape (A,)
        The place that each arc comes from.
    row : ndarray of int32, shape (A,)
    row_reward : ndarray of float64, shape (R,)
    cost_RK : ndarray of int64, shape (R, K)
        Cost of each row, by side.
    end_value : ndarray of float64, shape (V,)
        What it is worth to end at each place; minus infinity if no path can.
    is_cyclic : bool
    """

    level_indptr: NDArray[np.int64]
    arc_indptr: NDArray[np.int64]
    arc_end: NDArray[np.int64]
    tail: NDArray[np.int32]
    row: NDArray[np.int32]
    row_reward: NDArray[np.float64]
    cost_RK: NDArray[np.int64]
    end_value: NDArray[np.float64]
    is_cyclic: bool


class Sides(NamedTuple):
    """Limits of the sides; int64 arrays.

    Attributes
    ----------
    limit_LK : ndarray, shape (L, K)
        The most on arrival at places of a level; PLUS_INFINITY for no limit.
    end_limit_LK : ndarray, shape (L, K)
        The most if the path ends at a place of a level: the tightest limit from its arrival on.
    initial_K, floor_K, ceiling_K : ndarray, shape (K,)
        The amount at the start, and the ends at which it saturates.
    final_K : ndarray, shape (K,)
        The last limit of each side.
    last_K : ndarray, shape (K,)
        The last level on whose arrival that limit counts; costs of later arcs do not matter.
    """

    limit_LK: NDArray[np.int64]
    end_limit_LK: NDArray[np.int64]
    initial_K: NDArray[np.int64]
    floor_K: NDArray[np.int64]
    ceiling_K: NDArray[np.int64]
    final_K: NDArray[np.int64]
    last_K: NDArray[np.int64]


class Amounts(NamedTuple):
    """Bounds on the amounts at each place, side by side; int64 arrays of shape (V, K).

    Attributes
    ----------
    least : ndarray
        The least with which a path can arrive; PLUS_INFINITY if none can.
    safe : ndarray
        The most with which a path can go on or end; MINUS_INFINITY if none can.
    settled : ndarray
        The most with which every path from here keeps the limits; MINUS_INFINITY if there are cycles.
    onward : ndarray of bool, shape (V,)
        Whether an arc leads from here to a place from which a path can go on or end.
    """

    least: NDArray[np.int64]
    safe: NDArray[np.int64]
    settled: NDArray[np.int64]
    onward: NDArray[np.bool_]


@jit
def expand(model, start):
    """Return the network whose places are the reachable pairs of step and state.

    Returns
    -------
    level_indptr, arc_indptr, tail, row : ndarray
        As in `Network`.
    state : ndarray of int32, shape (V,)
    ends : ndarray of bool, shape (V,)
        Whether an episode is over at each place.
    """
    table_of_step, row_indptr, next_state = model.table_of_step, model.row_indptr, model.next_state
    n_steps, n_states = table_of_step.shape[0], model.end_value.shape[0]
    level_indptr = np.zeros(n_steps + 2, np.int64)
    here, there = np.zeros(n_states, np.bool_), np.zeros(n_states, np.bool_)
    n_arcs = 0
    here[start] = True
    level_indptr[1] = 1
    for h in range(n_steps):
        there[:] = False
        first = table_of_step[h] * n_states
        for s in range(n_states):
            if here[s]:
                n_arcs += row_indptr[first + s + 1] - row_indptr[first + s]
                for r in range(row_indptr[first + s], row_indptr[first + s + 1]):
                    there[next_state[r]] = True
        count = 0
        for s in range(n_states):
            count += there[s]
        level_indptr[h + 2] = level_indptr[h + 1] + count
        here, there = there, here
    n_places = level_indptr[n_steps + 1]
    arc_indptr = np.zeros(n_places + 1, np.int64)
    tail, row = np.empty(n_arcs, np.int32), np.empty(n_arcs, np.int32)
    state, ends = np.empty(n_places, np.int32), np.zeros(n_places, np.bool_)
    place, filled = np.zeros(n_states, np.int64), np.zeros(n_states, np.int64)
    state[0] = start
    arcs = 0
    for h in range(n_steps):
        first, begin, end = table_of_step[h] * n_states, level_indptr[h], level_indptr[h + 1]
        filled[:] = 0
        for v in range(begin, end):
            s = first + state[v]
            ends[v] = row_indptr[s] == row_indptr[s + 1]
            for r in range(row_indptr[s], row_indptr[s + 1]):
                filled[next_state[r]] += 1
        v = end
        for s in range(n_states):
            if filled[s] > 0:
                place[s], state[v] = v, s
                arc_indptr[v] = arcs
                arcs, filled[s] = arcs + filled[s], arcs
                v += 1
        for u in range(begin, end):
            s = first + state[u]
            for r in range(row_indptr[s], row_indptr[s + 1]):
                a = filled[next_state[r]]
                tail[a], row[a] = u, r
                filled[next_state[r]] = a + 1
    for v in range(level_indptr[n_steps], n_places):
        ends[v] = True
    arc_indptr[n_places] = arcs
    return level_indptr, arc_indptr, tail, row, state, ends


@jit
def collapse(model, start, is_wait, start_waits, gains, n_steps):
    """Return the network whose places are reachable states, or one without places if steps matter.

    Rows that wait are left out. A state has two places, for paths that could have waited somewhere and for others; the
    former can end anywhere, as the time can be filled by waiting.

    Parameters
    ----------
    model : ModelArrays
        With one table.
    start : int
    is_wait : ndarray of bool, shape (R,)
        Whether a row leads back to its state and changes nothing.
    start_waits : bool
        Whether a path can wait at the start, if it has a row that waits.
    gains : ndarray of bool, shape (R,)
        Whether a row has a positive reward or, on some side, a negative cost.
    n_steps : int

    Returns
    -------
    level_indptr, arc_indptr, tail, row, state, ends : ndarray
        As of `expand`. If there are cycles, there are two levels: the start and all other places.
    is_cyclic : bool
    may_exceed : bool
        Whether a path that visits no place twice can have more than `n_steps` arcs.
    """
    row_indptr, next_state = model.row_indptr, model.next_state
    n_states = row_indptr.shape[0] - 1
    n_nodes = 2 * n_states  # state s, and n_states + s for paths that could have waited
    can_wait = np.zeros(n_states, np.bool_)
    for s in range(n_states):
        for r in range(row_indptr[s], row_indptr[s + 1]):
            can_wait[s] = can_wait[s] or is_wait[r]
    origin = start + n_states * int(can_wait[start] and start_waits)
    # reachable nodes, in the order of a breadth-first search; no path need return to the start
    arrivals, level = np.full(n_nodes, -1, np.int64), np.zeros(n_nodes, np.int64)
    queue, order = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    arrivals[origin], queue[0] = 0, origin
    done, found, n_arcs, returns = 0, 1, 0, False
    while done < found:
        node = queue[done]
        done += 1
        s, waited = node % n_states, node // n_states
        for r in range(row_indptr[s], row_indptr[s + 1]):
            if is_wait[r]:
                continue
            after = next_state[r] + n_states * int(waited > 0 or can_wait[next_state[r]])
            if after == origin:
                returns = True
                continue
            if arrivals[after] < 0:
                arrivals[after], queue[found] = 0, after
                found += 1
            arrivals[after] += 1
            n_arcs += 1
    n_places = found
    # levels: places that lie on no cycle, and behind none
    left = arrivals.copy()
    order[0] = origin
    done, found, depth = 0, 1, 0
    while done < found:
        node = order[done]
        done += 1
        depth = max(depth, level[node])
        s, waited = node % n_states, node // n_states
        for r in range(row_indptr[s], row_indptr[s + 1]):
            after = next_state[r] + n_states * int(waited > 0 or can_wait[next_state[r]])
            if not is_wait[r] and after != origin:
                level[after] = max(level[after], level[node] + 1)
                left[after] -= 1
                if left[after] == 0:
                    order[found] = after
                    found += 1
    is_cyclic = returns or found < n_places
    may_exceed = depth + n_places - found > n_steps
    fits = True
    for i in range(n_places if is_cyclic or may_exceed else 0):
        # a path without its cycles must be as good, and must end where a path of any length may end
        s, waited = queue[i] % n_states, queue[i] // n_states
        if waited == 0 and row_indptr[s] < row_indptr[s + 1] and model.end_value[s] != -np.inf:
            fits = False
        on_cycle = returns or left[queue[i]] > 0
        for r in range(row_indptr[s], row_indptr[s + 1]):
            fits = fits and not (on_cycle and gains[r])
    if not fits:
        n_places, n_arcs, depth = 0, 0, 0
    if is_cyclic:
        depth = 1
        for i in range(n_places):
            level[queue[i]] = min(i, 1)
    level_indptr = np.zeros(depth + 2, np.int64)
    for i in range(n_places):
        level_indptr[level[queue[i]] + 1] += 1
    for h in range(depth + 1):
        level_indptr[h + 1] += level_indptr[h]
    arc_indptr = np.zeros(n_places + 1, np.int64)
    tail, row = np.empty(n_arcs, np.int32), np.empty(n_arcs, np.int32)
    state, ends = np.empty(n_places, np.int32), np.zeros(n_places, np.bool_)
    place, filled = np.full(n_nodes, -1, np.int64), level_indptr.copy()
    for i in range(n_places):
        node = queue[i]
        v, s = filled[level[node]], node % n_states
        filled[level[node]] += 1
        place[node], state[v] = v, s
        ends[v] = node >= n_states or row_indptr[s] == row_indptr[s + 1]
        arc_indptr[v + 1] = arrivals[node]
    for v in range(n_places):
        arc_indptr[v + 1] += arc_indptr[v]
    position = arc_indptr.copy()
    for i in range(n_places):
        s, waited = queue[i] % n_states, queue[i] // n_states
        for r in range(row_indptr[s], row_indptr[s + 1]):
            after = next_state[r] + n_states * int(waited > 0 or can_wait[next_state[r]])
            if not is_wait[r] and after != origin:
                v = place[after]
                tail[position[v]], row[position[v]] = place[queue[i]], r
                position[v] += 1
    return level_indptr, arc_indptr, tail, row, state, ends, is_cyclic, may_exceed


@jit(inner=True)
def _fill_backward(network, sides, out_amounts, halt):
    """Write `Amounts.safe`, `settled` and `onward`; return whether anything has changed, if there are cycles."""
    level_indptr, arc_indptr, arc_end, tail, row = (
        network.level_indptr, network.arc_indptr, network.arc_end, network.tail, network.row,
    )  # fmt: skip
    cost_RK, end_value, is_cyclic = network.cost_RK, network.end_value, network.is_cyclic
    limit_LK, end_limit_LK, floor_K, ceiling_K = sides.limit_LK, sides.end_limit_LK, sides.floor_K, sides.ceiling_K
    _, safe, settled, onward = out_amounts
    n_levels, n_sides = level_indptr.shape[0] - 1, cost_RK.shape[1]
    changed = False
    for h in range(n_levels - 1, -1, -1):
        if halt[0]:
            return False
        for v in range(level_indptr[h + 1] - 1, level_indptr[h] - 1, -1):
            if end_value[v] != -np.inf:
                for k in range(n_sides):
                    safe[v, k] = max(safe[v, k], end_limit_LK[h, k])
                    settled[v, k] = min(settled[v, k], end_limit_LK[h, k])
            alive = end_value[v] != -np.inf or onward[v]
            for a in range(arc_indptr[v], arc_end[v] if alive else arc_indptr[v]):
                u, r = tail[a], row[a]
                changed = changed or not onward[u]
                onward[u] = True
                for k in range(n_sides):
                    cost, floor, ceiling = cost_RK[r, k], floor_K[k], ceiling_K[k]
                    high = highest_before(min(limit_LK[h, k], safe[v, k]), cost, floor, ceiling)
                    if high > safe[u, k]:
                        safe[u, k], changed = high, True
                    if not is_cyclic:
                        low = highest_before(min(limit_LK[h, k], settled[v, k]), cost, floor, ceiling)
                        settled[u, k] = min(settled[u, k], low)
    return changed and is_cyclic


@jit(inner=True)
def _fill_forward(network, sides, out_amounts, halt):
    """Lower `Amounts.least` along the arcs that fit; return whether anything has changed, if there are cycles."""
    level_indptr, arc_indptr, arc_end, tail, row = (
        network.level_indptr, network.arc_indptr, network.arc_end, network.tail, network.row,
    )  # fmt: skip
    cost_RK, end_value = network.cost_RK, network.end_value
    limit_LK, floor_K, ceiling_K = sides.limit_LK, sides.floor_K, sides.ceiling_K
    least, safe, _, onward = out_amounts
    n_sides, changed = cost_RK.shape[1], False
    for h in range(1, level_indptr.shape[0] - 1):
        if halt[0]:
            return False
        for v in range(level_indptr[h], level_indptr[h + 1]):
            if end_value[v] == -np.inf and not onward[v]:
                continue
            for a in range(arc_indptr[v], arc_end[v]):
                if _fits(least, tail[a], row[a], cost_RK, limit_LK[h], safe[v], floor_K, ceiling_K):
                    for k in range(n_sides):
                        amount = clamped(least[tail[a], k] + cost_RK[row[a], k], floor_K[k], ceiling_K[k])
                        if amount < least[v, k]:
                            least[v, k], changed = amount, True
    return changed and network.is_cyclic


@jit(inline="always")
def _fits(least, u, r, cost_RK, limit_K, safe_K, floor_K, ceiling_K):
    """Whether the least amounts at place u, after row r, keep the limits of each side."""
    if least[u, 0] == PLUS_INFINITY:
        return False
    for k in range(cost_RK.shape[1]):
        if clamped(least[u, k] + cost_RK[r, k], floor_K[k], ceiling_K[k]) > min(limit_K[k], safe_K[k]):
            return False
    return True


@jit(inner=True)
def fill_amounts(network, sides, out_amounts, halt):
    """Write bounds on amounts, and remove arcs that no path within the limits of any one side can take.

    Returns the number of arcs removed. Returns early once `halt[0]` is set.
    """
    arc_indptr, arc_end, tail, row = network.arc_indptr, network.arc_end, network.tail, network.row
    least, safe, settled, onward = out_amounts
    safe[:], least[:] = MINUS_INFINITY, PLUS_INFINITY
    # amounts may rise on cycles, so that none is known to be settled
    settled[:] = MINUS_INFINITY if network.is_cyclic else PLUS_INFINITY
    onward[:] = False
    while _fill_backward(network, sides, out_amounts, halt):
        pass
    for k in range(least.shape[1]):
        least[0, k] = sides.initial_K[k]
    while _fill_forward(network, sides, out_amounts, halt):
        pass
    removed = 0
    for h in range(1, network.level_indptr.shape[0] - 1):
        if halt[0]:
            return removed
        for v in range(network.level_indptr[h], network.level_indptr[h + 1]):
            alive, kept = network.end_value[v] != -np.inf or onward[v], arc_indptr[v]
            for a in range(arc_indptr[v], arc_end[v] if alive else kept):
                u, r = tail[a], row[a]
                if _fits(least, u, r, network.cost_RK, sides.limit_LK[h], safe[v], sides.floor_K, sides.ceiling_K):
                    tail[kept], row[kept] = u, r
                    kept += 1
            removed += arc_end[v] - kept
            arc_end[v] = kept
    return removed
