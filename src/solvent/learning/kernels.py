"""Kernels of learning: optimistic planning on nodes, and episodes in a model.

A *key* is what counts are kept for: a row of the model (pooled) or a row of a node. Outcome j of a row with key k is
outcome `key_indptr[k] + j` of the counts.

The same seed gives the same result, bit for bit, on every CPU. Therefore all kernels are compiled without `fastmath`,
sums run from left to right, and only operations that IEEE 754 rounds correctly are used: + - * / and the square root.
Logarithms are computed from these (`log`), because those of the C library differ between CPUs in the last bit.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.jit import jit

#: How a call of `play` ended: all episodes were played; a count has doubled; an outcome occurred that was not known to
#: be possible.
PLAYED, REPLAN, NEW_OUTCOME = 0, 1, 2

#: ln 2 as the sum of its 33 leading bits, small multiples of which are exact, and a remainder.
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
_ROOT_HALF, _TWO_PI = math.sqrt(0.5), 2 * math.pi
#: The rows of a plan: those that explore, those with the greatest upper bounds, and those of the policy.
EXPLORING, OPTIMISTIC, POLICY = 0, 1, 2
#: Of this many episodes, all but the last explore; the last takes the optimistic rows.
CYCLE = 4


class GraphArrays(NamedTuple):
    """The graph of safe nodes, and the keys of its rows.

    Attributes
    ----------
    layer_indptr : ndarray of int64, shape (H + 2,)
        First node of each step; the last layer is the single node where episodes end.
    shift_H : ndarray of int64, shape (H + 1,)
        Node i of step h is stored node `i - shift_H[h]`, which other steps may share.
    node_indptr : ndarray of int64, shape (stored nodes + 1,)
        First row of each stored node.
    row_model : ndarray of int64, shape (R,)
        The model's row that each row stands for.
    row_key : ndarray of int64, shape (R,)
        The key of each row.
    entry_indptr : ndarray of int64, shape (R + 1,)
        First entry of each row; entry j of a row belongs to outcome j of its key.
    entry_next : ndarray of uint32, shape (E,)
        The node that each entry leads to, counted from the first one of the next step.
    key_indptr : ndarray of int64, shape (K + 1,)
        First outcome of each key.
    """

    layer_indptr: NDArray[np.int64]
    shift_H: NDArray[np.int64]
    node_indptr: NDArray[np.int64]
    row_model: NDArray[np.int64]
    row_key: NDArray[np.int64]
    entry_indptr: NDArray[np.int64]
    entry_next: NDArray[np.uint32]
    key_indptr: NDArray[np.int64]


class CountArrays(NamedTuple):
    """Counts of outcomes and sums of rewards.

    Attributes
    ----------
    count_K : ndarray of int64, shape (K,)
        How often each key was tried.
    count_O : ndarray of int64, shape (O,)
        How often each outcome occurred.
    reward_sum_O : ndarray of float64, shape (O,)
        Sum of the rewards that came with each outcome.
    square_sum_K : ndarray of float64, shape (K,)
        Sum of the squared rewards of each key.
    planned_K : ndarray of int64, shape (K,)
        `count_K` when the last plan was made.
    """

    count_K: NDArray[np.int64]
    count_O: NDArray[np.int64]
    reward_sum_O: NDArray[np.float64]
    square_sum_K: NDArray[np.float64]
    planned_K: NDArray[np.int64]


class KeyEstimates(NamedTuple):
    """Estimates from counts, on which a plan is based.

    Attributes
    ----------
    count_K : ndarray of int64, shape (K,)
        As in `CountArrays`.
    share_O : ndarray of float64, shape (O,)
        The share of each outcome in its key's count.
    reward_O : ndarray of float64, shape (O,)
        The mean reward of each outcome; the mean of its key if the outcome never occurred.
    reward_K : ndarray of float64, shape (K,)
        The mean reward of each key.
    n_seen_K : ndarray of int64, shape (K,)
        Number of outcomes of each key that occurred.
    seen_O : ndarray of int64, shape (O,)
        Positions, within the key, of those outcomes, in ascending order from the key's first outcome on.
    """

    count_K: NDArray[np.int64]
    share_O: NDArray[np.float64]
    reward_O: NDArray[np.float64]
    reward_K: NDArray[np.float64]
    n_seen_K: NDArray[np.int64]
    seen_O: NDArray[np.int64]


class Radii(NamedTuple):
    """How far the estimates of each key may be from the truth (`solvent.learning.bonus`).

    Attributes
    ----------
    radius_K : ndarray of float64, shape (K,)
        Upper bound on the Kullback-Leibler divergence of the shares from the probabilities.
    reward_K : ndarray of float64, shape (K,)
        Upper bound on the distance of the mean reward from its expectation; 0 if rewards are not random.
    """

    radius_K: NDArray[np.float64]
    reward_K: NDArray[np.float64]


class Ranges(NamedTuple):
    """What is certain about rewards and values regardless of what was counted.

    Attributes
    ----------
    cap_H, floor_H : ndarray of float64, shape (H + 1,)
        The most and the least that can be earned from each step on; 0 after the last step.
    reward_low, reward_high : float
        The least and the greatest reward of a step.
    known : bool
        Whether all possible outcomes are known.
    random : bool
        Whether an outcome can come with different rewards.
    by_row : bool
        Whether the reward is the same for all outcomes of a row.
    free_key : int
        The key that draws the first state, whose reward is always 0; negative if there is none.
    """

    cap_H: NDArray[np.float64]
    floor_H: NDArray[np.float64]
    reward_low: float
    reward_high: float
    known: bool
    random: bool
    by_row: bool
    free_key: int


class Weights(NamedTuple):
    """Weights of the bonus "theory" (`solvent.learning.bonus`).

    Attributes
    ----------
    spread_K, range_K, gap_K : ndarray of float64, shape (K,)
        The coefficients a, c and c_gap of each key.
    eta : float
        The coefficient eta.
    span : float
        The range of values, H squared.
    """

    spread_K: NDArray[np.float64]
    range_K: NDArray[np.float64]
    gap_K: NDArray[np.float64]
    eta: float
    span: float


class NodeValues(NamedTuple):
    """Values of nodes in a plan with the bonus "theory".

    Attributes
    ----------
    up_N, low_N, gap_N : ndarray of float64, shape (N,)
        Upper value, lower value and gap of each node.
    """

    up_N: NDArray[np.float64]
    low_N: NDArray[np.float64]
    gap_N: NDArray[np.float64]


class RowEstimates(NamedTuple):
    """Estimates for the rows of one step: scratch space of `sweep_theory`, one array of float64 per field.

    Attributes
    ----------
    variance, spread : ndarray
        Variance of reward plus upper value, and the weight of its square root in the bonus.
    up, gap, low : ndarray
        Upper value, gap and lower value; at first without the part that depends on the variance.
    cap, sure, low_floor : ndarray
        Certain bounds: an upper bound on `up`, and lower bounds on `up - gap` and `low`.
    """

    variance: NDArray[np.float64]
    spread: NDArray[np.float64]
    up: NDArray[np.float64]
    gap: NDArray[np.float64]
    low: NDArray[np.float64]
    cap: NDArray[np.float64]
    sure: NDArray[np.float64]
    low_floor: NDArray[np.float64]


class WorldArrays(NamedTuple):
    """A model in which episodes are played, and the limits by which they are judged.

    Attributes
    ----------
    outcome_indptr : ndarray of int64, shape (R + 1,)
        First outcome of each row.
    cumulative_O : ndarray of float64, shape (O,)
        Cumulative probabilities within each row.
    row_reward : ndarray of float64, shape (R,)
    cost_OD : ndarray of int64, shape (O, D)
        True costs, in ticks.
    local_O : ndarray of int64, shape (O,)
        The position of each outcome in its row of the graph; negative if it is not known to be possible.
    upper_HD, lower_HD : ndarray of int64, shape (H, D)
        Limits after each step, in ticks.
    initial_D, floor_D, ceiling_D : ndarray of int64, shape (D,)
        What has been spent before the first step, and the ends at which each resource saturates, in ticks.
    """

    outcome_indptr: NDArray[np.int64]
    cumulative_O: NDArray[np.float64]
    row_reward: NDArray[np.float64]
    cost_OD: NDArray[np.int64]
    local_O: NDArray[np.int64]
    upper_HD: NDArray[np.int64]
    lower_HD: NDArray[np.int64]
    initial_D: NDArray[np.int64]
    floor_D: NDArray[np.int64]
    ceiling_D: NDArray[np.int64]


class EpisodeRecord(NamedTuple):
    """What `play` writes about episodes.

    Attributes
    ----------
    return_E : ndarray of float64, shape (E,)
        Sum of the rewards of each episode; without the reward of a new outcome.
    spent_ED : ndarray of int64, shape (E, D)
        What each episode spent in the end, in ticks; without the cost of a new outcome.
    spent : ndarray of int64, shape (D,)
        The same for the last episode.
    drawn : ndarray of int64, shape (H,)
        The outcome of each step of the last episode.
    new_outcome : ndarray of int64, shape (4,)
        If the last episode ended with a new outcome: its step, its row of the graph, its position in the model, and
        whether a limit was broken before it.
    """

    return_E: NDArray[np.float64]
    spent_ED: NDArray[np.int64]
    spent: NDArray[np.int64]
    drawn: NDArray[np.int64]
    new_outcome: NDArray[np.int64]


@jit
def draw(rng):
    """Return the next random number in [0, 1) of a generator whose state is one 64-bit word (SplitMix64)."""
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
def average(key_indptr, counts, out):
    """Write estimates from counts.

    Parameters
    ----------
    key_indptr : ndarray of int64, shape (K + 1,)
    counts : CountArrays
    out : KeyEstimates
        Written, except for `count_K`.
    """
    count_K, count_O, reward_sum_O = counts.count_K, counts.count_O, counts.reward_sum_O
    share_O, reward_O, reward_K = out.share_O, out.reward_O, out.reward_K
    for key in range(count_K.shape[0]):
        first, end = key_indptr[key], key_indptr[key + 1]
        n = max(count_K[key], 1)
        total = 0.0
        for o in range(first, end):
            total += reward_sum_O[o]
        reward_K[key] = total / n
        n_seen = 0
        for o in range(first, end):
            seen = count_O[o]
            share_O[o], reward_O[o] = seen / n, reward_sum_O[o] / seen if seen > 0 else total / n
            if seen > 0:
                out.seen_O[first + n_seen] = o - first
                n_seen += 1
        out.n_seen_K[key] = n_seen


@jit
def write_radii(key_indptr, counts, confidence, known, reward_width, out):
    """Write how far estimates may be from the truth, simultaneously for all keys and at all times.

    Parameters
    ----------
    key_indptr : ndarray of int64, shape (K + 1,)
    counts : CountArrays
    confidence : float
        Logarithm of the number of simultaneous bounds over their share of delta.
    known : bool
        Whether all possible outcomes are known; if not, those never seen count as one.
    reward_width : float
        The greatest minus the least possible reward if rewards are random; else 0.
    out : Radii
        Values of untried keys are not used.
    """
    count_K, count_O = counts.count_K, counts.count_O
    for key in range(count_K.shape[0]):
        n = max(count_K[key], 1)
        size = 0 if known else 1
        repeats = 0.5 * log(_TWO_PI * n) + 1.0 / (12.0 * n)  # log of how many orders of outcomes have these counts
        for o in range(key_indptr[key], key_indptr[key + 1]):
            seen = count_O[o]
            size += known or seen > 0
            if seen > 0:
                repeats -= 0.5 * log(_TWO_PI * seen) + 1.0 / (12.0 * seen + 1.0)
        mixed = 0.0  # log of the number of possible counts
        for j in range(1, size):
            mixed += log((n + j) / j)
        out.radius_K[key] = (confidence + mixed + min(repeats, 0.0)) / n if size > 1 else 0.0
        out.reward_K[key] = 0.0
        if reward_width > 0.0:
            total = 0.0
            for o in range(key_indptr[key], key_indptr[key + 1]):
                total += counts.reward_sum_O[o]
            out.reward_K[key] = reward_width
            if n > 1:
                variance = max(counts.square_sum_K[key] - total * (total / n), 0.0) / (n - 1)
                level = confidence + log(4.0 * n * (n + 1.0))
                radius = np.sqrt(2.0 * variance * level / n) + 7.0 * reward_width * level / (3.0 * (n - 1))
                out.reward_K[key] = min(radius, reward_width)


@jit
def weigh_theory(count_K, size_K, confidence, out_spread_K, out_range_K, out_gap_K):
    """Write the weights of the bonus "theory"; those of untried keys, which are not used, as if tried once."""
    for key in range(count_K.shape[0]):
        n = max(count_K[key], 1)
        growth = log(8 * np.e * (n + 1.0))
        beta = confidence + size_K[key] * growth
        out_spread_K[key] = 3 * np.sqrt((confidence + growth) / n)
        out_range_K[key], out_gap_K[key] = 14 * beta / n, 36 * beta / n


@jit(inner=True)
def _larger(one, other):
    """Return the larger of two numbers; one instruction, unlike `max`, which has to check for NaN."""
    return one if one > other else other


@jit(inner=True)
def _smaller(one, other):
    """Return the smaller of two numbers."""
    return one if one < other else other


@jit(inner=True)
def _bound_layer(step, graph, estimates, radii, scale, ranges, sign, choose, rng, out_value_N, out_row_N):
    """Write bounds on the values of the nodes of one step, and the rows that have them; see `sweep`.

    The bound of a row is an upper bound on what it is worth if `sign` is 1, and a lower bound if it is -1. All
    comparisons are made between numbers times `sign`, so that the bound is always the largest possible worth.

    Unless all possible outcomes are known, only those that occurred matter: others have a share of 0 and enter no
    maximum. Arrays are taken from their tuples outside the loops, as Numba counts references wherever one is taken.
    """
    layer_indptr, node_indptr, row_key = graph.layer_indptr, graph.node_indptr, graph.row_key
    entry_indptr, entry_next, key_indptr = graph.entry_indptr, graph.entry_next, graph.key_indptr
    count_K, share_O, reward_O, reward_K = estimates.count_K, estimates.share_O, estimates.reward_O, estimates.reward_K
    n_seen_K, seen_O = estimates.n_seen_K, estimates.seen_O
    radius_K, reward_radius_K = radii.radius_K, radii.reward_K
    known, by_row, one = ranges.known, ranges.by_row, np.uint64(1)
    free_key, highest = np.int64(ranges.free_key), ranges.reward_high if sign > 0.0 else ranges.reward_low
    certain = ranges.cap_H[step] if sign > 0.0 else -ranges.floor_H[step]
    later = ranges.cap_H[step + one] if sign > 0.0 else -ranges.floor_H[step + one]
    begin, base, shift = (
        np.uint64(layer_indptr[step]),
        np.uint64(layer_indptr[step + one]),
        np.uint64(graph.shift_H[step]),
    )
    for node in range(begin, base):
        stored = node - shift
        first, stop = np.uint64(node_indptr[stored]), np.uint64(node_indptr[stored + one])
        if first == stop:
            out_value_N[node] = 0.0
            continue
        if not choose:
            first = np.uint64(out_row_N[node])
            stop = first + one
        top, top_row, ties = -np.inf, first, 0
        for row in range(first, stop):
            key = np.uint64(row_key[row])
            tried = count_K[key] > 0
            most = certain
            if known or tried:
                extreme, random = highest, ranges.random
                if np.int64(key) == free_key:
                    extreme, random = 0.0, False
                entry, outcome = np.uint64(entry_indptr[row]), np.uint64(key_indptr[key])
                n = np.uint64(entry_indptr[row + one]) - entry if known else np.uint64(n_seen_K[key])
                furthest = best = -np.inf  # values after the outcomes, and rewards plus values
                origin = mean = square = 0.0  # moments of the distance from the worth of the first outcome
                for i in range(n):
                    j = i if known else np.uint64(seen_O[outcome + i])
                    worth, share = out_value_N[base + np.uint64(entry_next[entry + j])], share_O[outcome + j]
                    furthest = _larger(sign * worth, furthest)
                    if not random:
                        worth += reward_O[outcome + j] if by_row or share > 0.0 else extreme
                    if i == 0:
                        origin = worth
                    best = _larger(sign * worth, best)
                    distance = worth - origin
                    mean += share * distance
                    square += share * distance * distance
                if known:
                    most = _smaller(sign * extreme + furthest, most)
                elif scale >= 1.0:  # exploring ignores outcomes that were never seen
                    best = _larger((0.0 if random else sign * extreme) + later, best)
                if tried:  # else only certain bounds apply
                    radius = scale * radius_K[key]
                    middle = sign * (origin + mean)
                    variance = square - mean * mean
                    deviation = np.sqrt(2.0 * radius * variance) if variance > 0.0 else 0.0
                    bound = middle + deviation + radius * (best - middle)
                    if random:
                        bound += sign * reward_K[key] + scale * reward_radius_K[key]
                    most = _smaller(bound, most)
            value = sign * most
            if value < top:
                continue
            ties = ties + 1 if value == top else 1
            if ties == 1 or draw(rng) * ties < 1.0:
                top, top_row = value, row
        out_value_N[node] = top
        out_row_N[node] = top_row


@jit
def sweep(graph, estimates, radii, scale, ranges, sign, choose, rng, out_value_N, out_row_N):
    """Write bounds on the values of all nodes, beginning with the last step.

    Parameters
    ----------
    graph : GraphArrays
    estimates : KeyEstimates
    radii : Radii
    scale : float
        Factor of the radii.
    ranges : Ranges
    sign : float
        1 for upper bounds, -1 for lower bounds.
    choose : bool
        Whether to choose the row of each node whose bound is largest, ties broken at random; else the values are those
        of the rows given.
    rng : ndarray of uint64, shape (1,)
        State of the generator; changed if rows are chosen.
    out_value_N : ndarray of float64, shape (N,)
    out_row_N : ndarray of int64, shape (N,)
        Written if rows are chosen, else read.

    Notes
    -----
    Positions are unsigned throughout: with signed ones a sweep takes twice as long, as each could count from the end.
    """
    horizon = graph.layer_indptr.shape[0] - 2
    out_value_N[np.uint64(graph.layer_indptr[horizon])] = 0.0
    for left in range(1, horizon + 1):
        step = np.uint64(horizon - left)
        _bound_layer(step, graph, estimates, radii, scale, ranges, sign, choose, rng, out_value_N, out_row_N)


@jit(inner=True)
def _average_rows(first, stop, base, left, graph, estimates, weights, values, out):
    """Write the estimates of the rows of one step, without the parts that depend on the variance.

    Parameters
    ----------
    first, stop : uint64
        The rows of the step.
    base : uint64
        The first node of the next step.
    left : int
        Number of steps left, which is also the most that can be earned, as rewards are from 0 to 1.
    graph : GraphArrays
    estimates : KeyEstimates
    weights : Weights
    values : NodeValues
        Values of the nodes of the next step.
    out : RowEstimates
    """
    row_key, entry_indptr, entry_next, key_indptr = (
        graph.row_key, graph.entry_indptr, graph.entry_next, graph.key_indptr,
    )  # fmt: skip
    share_O, reward_O = estimates.share_O, estimates.reward_O
    up_N, low_N, gap_N = values.up_N, values.low_N, values.gap_N
    one = np.uint64(1)
    for row in range(first, stop):
        key, i = np.uint64(row_key[row]), row - first
        entry, end = np.uint64(entry_indptr[row]), np.uint64(entry_indptr[row + one])
        outcome = np.uint64(key_indptr[key])
        highest, lowest, surest = -np.inf, np.inf, np.inf  # upper and lower values, and upper ones minus their gaps
        mean = square = mean_low = mean_gap = 0.0
        for e in range(entry, end):
            after, o = base + np.uint64(entry_next[e]), outcome + (e - entry)
            share, reward = share_O[o], reward_O[o]
            up, low, gap = up_N[after], low_N[after], gap_N[after]
            worth = reward + up
            part = share * worth
            mean += part
            square += part * worth
            mean_gap += share * gap
            mean_low += share * (reward + low)
            highest, lowest, surest = _larger(up, highest), _smaller(low, lowest), _smaller(up - gap, surest)
        out.cap[i] = _smaller(1.0 + highest, left)
        out.sure[i], out.low_floor[i] = _larger(surest, 0.0), _larger(lowest, 0.0)
        if estimates.count_K[key] == 0:  # only certain bounds apply
            out.variance[i], out.spread[i], out.up[i], out.gap[i], out.low[i] = 0.0, 0.0, np.inf, np.inf, -np.inf
        elif end - entry == one:  # a certain outcome needs no bonus
            out.variance[i], out.spread[i], out.up[i], out.gap[i], out.low[i] = 0.0, 0.0, mean, mean_gap, mean_low
        else:
            out.variance[i] = _larger(square - mean * mean, 0.0)
            out.spread[i] = weights.spread_K[key]
            bonus = weights.range_K[key] * weights.span + weights.eta * (mean - mean_low)
            out.up[i], out.low[i] = mean + bonus, mean_low - bonus
            out.gap[i] = weights.gap_K[key] * weights.span + (1.0 + 3.0 * weights.eta) * mean_gap


@jit(inner=True)
def _add_deviations(n, out):
    """Add the parts that depend on the variance, and clip the results to certain bounds.

    These are separate loops, which compile to vector instructions. Within the loop over entries, each row would have to
    wait for the square root of the row before.
    """
    deviation = out.variance
    for i in range(n):
        deviation[i] = out.spread[i] * np.sqrt(deviation[i])
    for i in range(n):
        out.up[i] = _smaller(out.up[i] + deviation[i], out.cap[i])
    for i in range(n):
        out.gap[i] = _smaller(out.gap[i] + 2.0 * deviation[i], out.up[i] - out.sure[i])
    for i in range(n):
        out.low[i] = _larger(out.low[i] - deviation[i], out.low_floor[i])


@jit(inner=True)
def _choose_rows(begin, end, shift, node_indptr, rows, rng, out, out_row):
    """Write the values and a greedy row of the nodes of one step; ties between rows are broken at random.

    Parameters
    ----------
    begin, end : uint64
        The nodes of the step.
    shift : uint64
        A node minus this is its stored node.
    node_indptr : ndarray of int64, shape (stored nodes + 1,)
    rows : RowEstimates
    rng : ndarray of uint64, shape (1,)
    out : NodeValues
    out_row : ndarray of int64, shape (N,)
    """
    out_up_N, out_low_N, out_gap_N = out.up_N, out.low_N, out.gap_N
    one = np.uint64(1)
    offset = np.uint64(node_indptr[begin - shift])
    for node in range(begin, end):
        stored = node - shift
        first, stop = np.uint64(node_indptr[stored]), np.uint64(node_indptr[stored + one])
        if first == stop:
            out_up_N[node] = out_low_N[node] = out_gap_N[node] = 0.0
            continue
        best, best_low, best_gap, best_row, ties = -np.inf, -np.inf, 0.0, first, 0
        for row in range(first, stop):
            i = row - offset
            row_up = rows.up[i]
            best_low = _larger(rows.low[i], best_low)
            if row_up < best:
                continue
            ties = ties + 1 if row_up == best else 1
            if ties == 1 or draw(rng) * ties < 1.0:
                best, best_row, best_gap = row_up, row, rows.gap[i]
        out_up_N[node], out_low_N[node], out_gap_N[node] = best, best_low, best_gap
        out_row[node] = best_row


@jit
def sweep_theory(graph, estimates, weights, rng, out, out_row):
    """Write the values of all nodes with the bonus "theory", and a greedy row of each, beginning with the last step.

    Rewards are from 0 to 1, and all possible outcomes are known. Ties between rows are broken at random.

    Parameters
    ----------
    graph : GraphArrays
    estimates : KeyEstimates
    weights : Weights
    rng : ndarray of uint64, shape (1,)
        State of the generator; changed.
    out : NodeValues
    out_row : ndarray of int64, shape (N,)
    """
    layer_indptr, shift_H, node_indptr = graph.layer_indptr, graph.shift_H, graph.node_indptr
    horizon, one = layer_indptr.shape[0] - 2, np.uint64(1)
    last = np.uint64(layer_indptr[horizon])
    out.up_N[last] = out.low_N[last] = out.gap_N[last] = 0.0
    width = 0
    for step in range(horizon):
        width = max(
            width, node_indptr[layer_indptr[step + 1] - shift_H[step]] - node_indptr[layer_indptr[step] - shift_H[step]]
        )
    rows = RowEstimates(
        np.empty(width), np.empty(width), np.empty(width), np.empty(width), np.empty(width), np.empty(width),
        np.empty(width), np.empty(width),
    )  # fmt: skip
    for left in range(1, horizon + 1):
        step = np.uint64(horizon - left)
        begin, end = np.uint64(layer_indptr[step]), np.uint64(layer_indptr[step + one])
        shift = np.uint64(shift_H[step])
        first, stop = np.uint64(node_indptr[begin - shift]), np.uint64(node_indptr[end - shift])
        _average_rows(first, stop, end, left, graph, estimates, weights, out, rows)
        _add_deviations(stop - first, rows)
        _choose_rows(begin, end, shift, node_indptr, rows, rng, out, out_row)


@jit(inner=True)
def _breaks(spent, upper_HD, lower_HD, step):
    """Return whether what was spent breaks a limit after a step."""
    broken = False
    for d in range(spent.shape[0]):
        broken |= spent[d] > upper_HD[step, d] or spent[d] < lower_HD[step, d]
    return broken


@jit
def play(graph, chosen_row_PN, world, counts, first, episodes, every_episode, rng, out):
    """Play episodes in a model by the chosen rows, and count their outcomes.

    A new outcome, one that is not known to be possible, ends its episode. It is recorded in `out`, and neither counted
    nor judged here.

    Parameters
    ----------
    graph : GraphArrays
    chosen_row_PN : ndarray of int64, shape (3, N)
        The rows of a plan; which of them an episode takes depends on its number (`CYCLE`).
    world : WorldArrays
    counts : CountArrays
        Changed, except for `square_sum_K`.
    first : int
        Number of the first episode.
    episodes : int
        Number of episodes to play at most.
    every_episode : bool
        Whether to stop after each episode; else after one in which a count has doubled since the last plan.
    rng : ndarray of uint64, shape (1,)
        State of the generator; changed.
    out : EpisodeRecord

    Returns
    -------
    end : int
        `PLAYED`, `REPLAN` or `NEW_OUTCOME`.
    episodes : int
        Number of episodes played.
    violations : int
        Number of episodes that broke a limit.
    """
    layer_indptr, shift_H, node_indptr = graph.layer_indptr, graph.shift_H, graph.node_indptr
    row_model, row_key = graph.row_model, graph.row_key
    entry_indptr, entry_next, key_indptr = graph.entry_indptr, graph.entry_next, graph.key_indptr
    world_indptr, cumulative_O, world_reward = world.outcome_indptr, world.cumulative_O, world.row_reward
    world_cost_OD, local_O, upper_HD, lower_HD = world.cost_OD, world.local_O, world.upper_HD, world.lower_HD
    initial_D, floor_D, ceiling_D = world.initial_D, world.floor_D, world.ceiling_D
    count_K, count_O, reward_sum_O, planned_K = counts.count_K, counts.count_O, counts.reward_sum_O, counts.planned_K
    return_E, spent_ED, spent, drawn, new_outcome = out.return_E, out.spent_ED, out.spent, out.drawn, out.new_outcome
    horizon = upper_HD.shape[0]
    violations = 0
    for episode in range(episodes):
        node, step, due = 0, np.int64(0), every_episode
        plan = OPTIMISTIC if (first + episode) % CYCLE == CYCLE - 1 else EXPLORING
        broken, earned = False, 0.0
        for d in range(spent.shape[0]):  # copying whole arrays would compile a check of shapes, with its message
            spent[d] = initial_D[d]
        while step < horizon and node_indptr[node - shift_H[step]] < node_indptr[node - shift_H[step] + 1]:
            row = chosen_row_PN[plan, node]
            model_row = row_model[row]
            u, o, last = draw(rng), world_indptr[model_row], world_indptr[model_row + 1] - 1
            while o < last and u >= cumulative_O[o]:
                o += 1
            drawn[step] = o
            j = local_O[o]
            if j < 0:
                new_outcome[0], new_outcome[1], new_outcome[2], new_outcome[3] = step, row, o, broken
                return_E[episode] = earned
                return NEW_OUTCOME, episode + 1, violations
            key = row_key[row]
            count_K[key] += 1
            count_O[key_indptr[key] + j] += 1
            reward_sum_O[key_indptr[key] + j] += world_reward[model_row]
            earned += world_reward[model_row]
            due = due or count_K[key] >= 2 * planned_K[key]
            for d in range(spent.shape[0]):
                spent[d] = min(max(spent[d] + world_cost_OD[o, d], floor_D[d]), ceiling_D[d])
            broken = broken or _breaks(spent, upper_HD, lower_HD, step)
            step += 1
            node = layer_indptr[step] + entry_next[entry_indptr[row] + j]
        while step < horizon and not broken:  # the episode ended early: later limits still apply
            broken = _breaks(spent, upper_HD, lower_HD, step)
            step += 1
        violations += broken
        return_E[episode] = earned
        for d in range(spent.shape[0]):
            spent_ED[episode, d] = spent[d]
        if due:
            return REPLAN, episode + 1, violations
    return PLAYED, episodes, violations
