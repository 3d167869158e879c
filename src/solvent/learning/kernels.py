"""Kernels of learning: optimistic planning on nodes, and episodes in a model; flat arrays in, flat arrays out.

A *key* is what counts are kept for: a row of the model (pooled) or a row of a node. Outcome j of a row with key k is
outcome `key_indptr[k] + j` of the counts.

The same seed gives the same result, bit for bit, on every CPU. Therefore all kernels are compiled without `fastmath`,
sums run from left to right, and only operations that IEEE 754 rounds correctly are used: + - * / and the square root.
Logarithms are computed from these (`log`), as those of the C library differ between CPUs in the last bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from solvent.core.jit import jit

#: How a run of episodes ended: all were played; a count has doubled; an outcome came that was not known to be possible.
PLAYED, DUE, SURPRISED = 0, 1, 2

#: ln 2 as the sum of 33 leading bits, of which small multiples are exact, and a rest.
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
_ROOT_HALF = math.sqrt(0.5)


class RowEstimates(NamedTuple):
    """Estimates for the rows of one step: scratch space of `sweep`, one array of float64 per field.

    Attributes
    ----------
    variance, spread : ndarray
        Variance of reward plus upper value, and the weight of its square root in the bonus.
    up, gap, low : ndarray
        Upper value, gap and lower value; at first without the part that depends on the variance.
    cap, sure, low_floor : ndarray
        What is certain: the most that `up` can be, and the least that `up - gap` and `low` can be.
    """

    variance: Any
    spread: Any
    up: Any
    gap: Any
    low: Any
    cap: Any
    sure: Any
    low_floor: Any


@jit
def draw(rng):
    """Return the next number in [0, 1) of a generator whose state is one 64-bit word (SplitMix64)."""
    rng[0] += np.uint64(0x9E3779B97F4A7C15)
    z = rng[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@jit
def log(x):
    """Return the natural logarithm of a positive number, the same on every CPU, with an error below one ulp.

    With x = 2^k (1 + f) and s = f / (2 + f): log(1 + f) = 2 atanh(s) = f - s (f - 2 s^2 / 3 - 2 s^4 / 5 - ...).

    Examples
    --------
    >>> log(1.0), log(2.0) == math.log(2)
    (0.0, True)
    """
    m, k = math.frexp(x)
    if m < _ROOT_HALF:
        m, k = 2.0 * m, k - 1
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    series = 0.0
    for n in range(23, 1, -2):
        series = z * (2.0 / n + series)
    return k * _LN2_HIGH - ((s * (f - series) - k * _LN2_LOW) - f)


@jit
def accumulate(indptr, probability, out):
    """Write the sums of probabilities within each row, up to and including each outcome."""
    for row in range(indptr.shape[0] - 1):
        total = 0.0
        for o in range(indptr[row], indptr[row + 1]):
            total += probability[o]
            out[o] = total


@jit
def average(
    key_indptr, count_K, count_O, reward_sum_O, square_sum_K, out_share_O, out_reward_O, out_noise_K, out_unseen_K
):
    """Write the share of each outcome in its key's counts, mean rewards, their variance, and whether one was unseen.

    The reward of an outcome that was never seen is the mean of its key. The variance is that which outcomes do not
    explain.
    """
    for key in range(count_K.shape[0]):
        first, end = key_indptr[key], key_indptr[key + 1]
        n = max(count_K[key], 1)
        total = 0.0
        for o in range(first, end):
            total += reward_sum_O[o]
        explained, unseen = 0.0, False
        for o in range(first, end):
            seen = count_O[o]
            unseen |= seen == 0
            share, reward = seen / n, reward_sum_O[o] / seen if seen > 0 else total / n
            explained += share * reward * reward
            out_share_O[o], out_reward_O[o] = share, reward
        out_noise_K[key] = max(square_sum_K[key] / n - explained, 0.0)
        out_unseen_K[key] = unseen


@jit
def weigh_practical(count_K, confidence, scale, out_spread_K, out_range_K, out_gap_K):
    """Write the weights of the practical bonus; untried keys, which are not judged by them, as if tried once."""
    for key in range(count_K.shape[0]):
        n = max(count_K[key], 1)
        out_spread_K[key] = scale * np.sqrt(2 * confidence / n)
        out_range_K[key] = scale * 7 * confidence / (3 * n)
        out_gap_K[key] = 2 * out_range_K[key]


@jit
def weigh_theory(count_K, size_K, confidence, out_spread_K, out_range_K, out_gap_K):
    """Write the weights of the theory's bonus; untried keys, which are not judged by them, as if tried once."""
    for key in range(count_K.shape[0]):
        n = max(count_K[key], 1)
        growth = log(8 * np.e * (n + 1.0))
        beta = confidence + size_K[key] * growth
        out_spread_K[key] = 3 * np.sqrt((confidence + growth) / n)
        out_range_K[key], out_gap_K[key] = 14 * beta / n, 36 * beta / n


@jit(error_model="numpy")
def _larger(one, other):
    """Return the larger of two numbers; one instruction, unlike `max`, which has to look for NaN."""
    return one if one > other else other


@jit(error_model="numpy")
def _smaller(one, other):
    """Return the smaller of two numbers."""
    return one if one < other else other


@jit(error_model="numpy")
def _average_rows(
    first, stop, row_key, entry_indptr, entry_next, key_indptr, count_K, share_O, reward_O, spread_weight_K,
    range_weight_K, gap_weight_K, noise_K, doubt_K, eta_up, eta_gap, fixed_range, cap, floor, reward_low, reward_high,
    known, up_N, low_N, gap_N, out,
):  # fmt: skip
    """Write the estimates of the rows of one step, without the parts that depend on the variance."""
    one = np.uint64(1)
    for row in range(first, stop):
        key, i = np.uint64(row_key[row]), row - first
        entry, end = np.uint64(entry_indptr[row]), np.uint64(entry_indptr[row + one])
        outcome = np.uint64(key_indptr[key])
        highest, lowest, surest = -np.inf, np.inf, np.inf  # upper and lower values, and upper ones minus their gaps
        top, bottom = -np.inf, np.inf  # rewards plus upper values
        mean = square = mean_low = mean_gap = 0.0
        for e in range(entry, end):
            after, o = np.uint64(entry_next[e]), outcome + (e - entry)
            share, reward = share_O[o], reward_O[o]
            up, gap = up_N[after], gap_N[after]
            worth = reward + up
            part = share * worth
            mean += part
            square += part * worth
            mean_gap += share * gap
            highest, surest = _larger(up, highest), _smaller(up - gap, surest)
            top, bottom = _larger(worth, top), _smaller(worth, bottom)
            if eta_up > 0.0:  # nothing else is made of lower values
                low = low_N[after]
                lowest = _smaller(low, lowest)
                mean_low += share * (reward + low)
        out.cap[i] = _smaller(reward_high + highest, cap) if known else cap
        out.sure[i] = _larger(reward_low + surest, floor) if known else floor
        if eta_up > 0.0:
            out.low_floor[i] = _larger(reward_low + lowest, floor) if known else floor
        doubt = doubt_K[key]
        if count_K[key] == 0:  # only what is certain counts
            out.variance[i], out.spread[i], out.up[i], out.gap[i] = 0.0, 0.0, np.inf, np.inf
            if eta_up > 0.0:
                out.low[i] = -np.inf
        elif known and end - entry == one and doubt == 0.0:  # what is certain needs no bonus
            out.variance[i], out.spread[i], out.up[i], out.gap[i] = 0.0, 0.0, mean, mean_gap
            if eta_up > 0.0:
                out.low[i] = mean_low
        else:
            reach = fixed_range if fixed_range >= 0.0 else top - bottom + doubt
            out.variance[i] = _larger(square - mean * mean, 0.0) + noise_K[key]
            out.spread[i] = spread_weight_K[key]
            bonus = range_weight_K[key] * reach
            if eta_up > 0.0:
                bonus += eta_up * (mean - mean_low)
                out.low[i] = mean_low - bonus
                mean_gap *= 1.0 + eta_gap
            out.up[i] = mean + bonus
            out.gap[i] = gap_weight_K[key] * reach + mean_gap


@jit(error_model="numpy")
def _add_deviations(n, eta_up, out):
    """Add the parts that depend on the variance, and keep to what is certain.

    Loops of their own, which compilers turn into vector instructions: within the loop over entries, each row would wait
    for the square root of the one before.
    """
    deviation = out.variance
    for i in range(n):
        deviation[i] = out.spread[i] * np.sqrt(deviation[i])
    for i in range(n):
        out.up[i] = _smaller(out.up[i] + deviation[i], out.cap[i])
    for i in range(n):
        out.gap[i] = _smaller(out.gap[i] + 2.0 * deviation[i], out.up[i] - out.sure[i])
    if eta_up > 0.0:
        for i in range(n):
            out.low[i] = _larger(out.low[i] - deviation[i], out.low_floor[i])


@jit(error_model="numpy")
def _choose_rows(begin, end, node_indptr, eta_up, rows, rng, out_up_N, out_low_N, out_gap_N, out_row):
    """Write upper value, lower value, gap and a greedy row of the nodes of one step; draw among equally good rows."""
    one = np.uint64(1)
    offset = np.uint64(node_indptr[begin])
    for node in range(begin, end):
        first, stop = np.uint64(node_indptr[node]), np.uint64(node_indptr[node + one])
        if first == stop:
            out_up_N[node] = out_low_N[node] = out_gap_N[node] = 0.0
            continue
        best, best_low, best_gap, best_row, ties = -np.inf, -np.inf, 0.0, first, 0
        for row in range(first, stop):
            i = row - offset
            row_up = rows.up[i]
            if eta_up > 0.0:
                best_low = _larger(rows.low[i], best_low)
            if row_up < best:
                continue
            ties = ties + 1 if row_up == best else 1
            if ties == 1 or draw(rng) * ties < 1.0:
                best, best_row, best_gap = row_up, row, rows.gap[i]
        out_up_N[node], out_low_N[node], out_gap_N[node] = best, best_low, best_gap
        out_row[node] = best_row


@jit(error_model="numpy")
def sweep(
    layer_indptr, node_indptr, row_key, entry_indptr, entry_next, key_indptr, count_K, share_O, reward_O,
    spread_weight_K, range_weight_K, gap_weight_K, noise_K, doubt_K, eta_up, eta_gap, range_rule, reward_low,
    reward_high, known, rng, out_up_N, out_low_N, out_gap_N, out_row,
):  # fmt: skip
    """Write upper value, lower value and gap of all nodes, and a greedy row, the last step first.

    `reward_O` is the mean reward of an outcome or, of one that was never seen, of its row. Lower values mean something
    only if `eta_up`, their weight in the bonus, is positive. `noise_K` is the variance of rewards that outcomes do not
    explain, `doubt_K` the range of rewards where they are not known once all outcomes are.

    `range_rule` is the range of values that bonuses are made of if positive, the range over a row's outcomes if
    negative, and the range of all that can still be earned if 0. Of rows that are equally good one is drawn.

    Positions are unsigned throughout: signed ones cost half of the time, as each could count from an array's end.
    """
    horizon, one = layer_indptr.shape[0] - 2, np.uint64(1)
    last = np.uint64(layer_indptr[horizon])
    out_up_N[last] = out_low_N[last] = out_gap_N[last] = 0.0
    width = 0
    for step in range(horizon):
        width = max(width, node_indptr[layer_indptr[step + 1]] - node_indptr[layer_indptr[step]])
    low_width = width if eta_up > 0.0 else 0
    rows = RowEstimates(
        np.empty(width), np.empty(width), np.empty(width), np.empty(width), np.empty(low_width), np.empty(width),
        np.empty(width), np.empty(low_width),
    )  # fmt: skip
    for left in range(1, horizon + 1):
        step = np.uint64(horizon - left)
        cap, floor = left * max(reward_high, 0.0), left * min(reward_low, 0.0)
        fixed_range = range_rule if range_rule != 0.0 else cap - floor
        begin, end = np.uint64(layer_indptr[step]), np.uint64(layer_indptr[step + one])
        first, stop = np.uint64(node_indptr[begin]), np.uint64(node_indptr[end])
        _average_rows(
            first, stop, row_key, entry_indptr, entry_next, key_indptr, count_K, share_O, reward_O, spread_weight_K,
            range_weight_K, gap_weight_K, noise_K, doubt_K, eta_up, eta_gap, fixed_range, cap, floor, reward_low,
            reward_high, known, out_up_N, out_low_N, out_gap_N, rows,
        )  # fmt: skip
        _add_deviations(stop - first, eta_up, rows)
        _choose_rows(begin, end, node_indptr, eta_up, rows, rng, out_up_N, out_low_N, out_gap_N, out_row)


@jit
def _breaks(spent, upper_HD, lower_HD, step):
    """Whether what was spent breaks a limit after a step."""
    broken = False
    for d in range(spent.shape[0]):
        broken |= spent[d] > upper_HD[step, d] or spent[d] < lower_HD[step, d]
    return broken


@jit
def play(
    node_indptr, row_model, row_key, entry_indptr, entry_next, key_indptr, chosen_row, world_indptr, cumulative_O,
    world_reward, world_cost_OD, local_O, upper_HD, lower_HD, planned_K, episodes, every_episode, rng, count_K, count_O,
    reward_sum_O, out_spent, out_drawn, out_surprise,
):  # fmt: skip
    """Play episodes in a model by the chosen rows, and count what comes of them.

    Row r of the graph is row `row_model[r]` of the world, whose outcome o is outcome `local_O[o]` of the graph's row,
    or negative if it was never seen. Returns how it ended, the episodes that were played, and how many of them broke a
    limit. A surprise is written to `out_surprise` (step, row, outcome of the world, whether a limit was broken before
    it) with what was spent before it in `out_spent`; it is neither counted nor judged here, nor is its episode. The
    outcomes of the last episode are written to `out_drawn`.
    """
    horizon = upper_HD.shape[0]
    violations = 0
    for episode in range(episodes):
        node, step, due = 0, 0, every_episode
        broken = False
        out_spent[:] = 0
        while step < horizon and node_indptr[node] < node_indptr[node + 1]:
            row = chosen_row[node]
            world = row_model[row]
            u, o, last = draw(rng), world_indptr[world], world_indptr[world + 1] - 1
            while o < last and u >= cumulative_O[o]:
                o += 1
            out_drawn[step] = o
            j = local_O[o]
            if j < 0:
                out_surprise[0], out_surprise[1], out_surprise[2], out_surprise[3] = step, row, o, broken
                return SURPRISED, episode + 1, violations
            key = row_key[row]
            count_K[key] += 1
            count_O[key_indptr[key] + j] += 1
            reward_sum_O[key_indptr[key] + j] += world_reward[world]
            due = due or count_K[key] >= 2 * planned_K[key]
            for d in range(out_spent.shape[0]):
                out_spent[d] += world_cost_OD[o, d]
            broken = broken or _breaks(out_spent, upper_HD, lower_HD, step)
            node = entry_next[entry_indptr[row] + j]
            step += 1
        while step < horizon and not broken:  # over early: what was spent stays, and so do later limits
            broken = _breaks(out_spent, upper_HD, lower_HD, step)
            step += 1
        violations += broken
        if due:
            return DUE, episode + 1, violations
    return PLAYED, episodes, violations
