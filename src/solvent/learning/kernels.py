"""Kernels of learning: optimistic planning on nodes, and episodes in a model.

A *key* is what counts are kept for: a row of the model (pooled) or a row of a node. Outcome j of a row with key k is
outcome `key_indptr[k] + j` of the counts.

The same seed gives the same result, bit for bit, on every CPU. Therefore all kernels are compiled without `fastmath`,
sums run from left to right, and only operations that IEEE 754 rounds correctly are used: + - * / and the square root.
Logarithms are computed from these (`log`), because those of the C library differ between CPUs in the last bit.

Kernels take named tuples of arrays. These are defined in this file because the cache of compiled kernels is keyed by
the source of the files named `kernels.py`.
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
_ROOT_HALF = math.sqrt(0.5)


class GraphArrays(NamedTuple):
    """The graph of safe nodes, and the keys of its rows.

    Attributes
    ----------
    layer_indptr : ndarray of int64, shape (H + 2,)
        First node of each step; the last layer is the single node where episodes end.
    node_indptr : ndarray of int64, shape (N + 1,)
        First row of each node.
    row_model : ndarray of int64, shape (R,)
        The model's row that each row stands for.
    row_key : ndarray of int64, shape (R,)
        The key of each row.
    entry_indptr : ndarray of int64, shape (R + 1,)
        First entry of each row; entry j of a row belongs to outcome j of its key.
    entry_next : ndarray of uint32, shape (E,)
        The node that each entry leads to.
    key_indptr : ndarray of int64, shape (K + 1,)
        First outcome of each key.
    """

    layer_indptr: NDArray[np.int64]
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
    noise_K : ndarray of float64, shape (K,)
        The part of the variance of a key's rewards that its outcomes do not explain; 0 if rewards are not random.
    doubt_K : ndarray of float64, shape (K,)
        The width of the range of rewards if these are random or some outcome of the key never occurred; else 0.
    """

    count_K: NDArray[np.int64]
    share_O: NDArray[np.float64]
    reward_O: NDArray[np.float64]
    noise_K: NDArray[np.float64]
    doubt_K: NDArray[np.float64]


class Weights(NamedTuple):
    """Weights of the bonus (`solvent.learning.bonus`).

    Attributes
    ----------
    spread_K, range_K, gap_K : ndarray of float64, shape (K,)
        The coefficients a, c and c_gap of each key.
    eta_up, eta_gap : float
        The coefficients eta and 3 eta. Lower values are computed only if `eta_up` is positive.
    range_rule : float
        The range of values itself if positive; 0 for the range of what can still be earned; negative for the range
        over a row's outcomes.
    """

    spread_K: NDArray[np.float64]
    range_K: NDArray[np.float64]
    gap_K: NDArray[np.float64]
    eta_up: float
    eta_gap: float
    range_rule: float


class NodeValues(NamedTuple):
    """Values of nodes.

    Attributes
    ----------
    up_N, low_N, gap_N : ndarray of float64, shape (N,)
        Upper value, lower value and gap of each node.
    """

    up_N: NDArray[np.float64]
    low_N: NDArray[np.float64]
    gap_N: NDArray[np.float64]


class RowEstimates(NamedTuple):
    """Estimates for the rows of one step: scratch space of `sweep`, one array of float64 per field.

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


class CertainBounds(NamedTuple):
    """Bounds that hold at one step regardless of what was counted.

    Attributes
    ----------
    cap, floor : float
        The most and the least that can be earned from this step on.
    fixed_range : float
        The range of values that bonuses are made of; negative for the range over a row's outcomes.
    reward_low, reward_high : float
        The least and the greatest reward of a step.
    known : bool
        Whether all possible outcomes are known.
    """

    cap: float
    floor: float
    fixed_range: float
    reward_low: float
    reward_high: float
    known: bool


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
    """What `play` writes about the last episode.

    Attributes
    ----------
    spent : ndarray of int64, shape (D,)
        What it spent, in ticks; without the cost of a new outcome.
    drawn : ndarray of int64, shape (H,)
        The outcome of each step.
    new_outcome : ndarray of int64, shape (4,)
        If the episode ended with a new outcome: its step, its row of the graph, its position in the model, and whether
        a limit was broken before it.
    """

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
def average(key_indptr, counts, reward_width, random_rewards, out):
    """Write estimates from counts.

    Parameters
    ----------
    key_indptr : ndarray of int64, shape (K + 1,)
    counts : CountArrays
    reward_width : float
        The greatest minus the least possible reward.
    random_rewards : bool
        Whether an outcome can come with different rewards.
    out : KeyEstimates
        Written, except for `count_K`.
    """
    count_K, count_O, reward_sum_O = counts.count_K, counts.count_O, counts.reward_sum_O
    square_sum_K = counts.square_sum_K
    share_O, reward_O, noise_K, doubt_K = out.share_O, out.reward_O, out.noise_K, out.doubt_K
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
            share_O[o], reward_O[o] = share, reward
        noise_K[key] = max(square_sum_K[key] / n - explained, 0.0) if random_rewards else 0.0
        doubt_K[key] = reward_width if unseen or random_rewards else 0.0


@jit
def weigh_practical(count_K, confidence, scale, out_spread_K, out_range_K, out_gap_K):
    """Write the weights of the practical bonus; those of untried keys, which are not used, as if tried once."""
    for key in range(count_K.shape[0]):
        n = max(count_K[key], 1)
        out_spread_K[key] = scale * np.sqrt(2 * confidence / n)
        out_range_K[key] = scale * 7 * confidence / (3 * n)
        out_gap_K[key] = 2 * out_range_K[key]


@jit
def weigh_theory(count_K, size_K, confidence, out_spread_K, out_range_K, out_gap_K):
    """Write the weights of the proven bonus; those of untried keys, which are not used, as if tried once."""
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
def _average_rows(first, stop, graph, estimates, weights, bounds, values, out):
    """Write the estimates of the rows of one step, without the parts that depend on the variance.

    Parameters
    ----------
    first, stop : uint64
        The rows of the step.
    graph : GraphArrays
    estimates : KeyEstimates
    weights : Weights
    bounds : CertainBounds
    values : NodeValues
        Values of the nodes of the next step.
    out : RowEstimates
    """
    row_key, entry_indptr, entry_next, key_indptr = (
        graph.row_key, graph.entry_indptr, graph.entry_next, graph.key_indptr,
    )  # fmt: skip
    share_O, reward_O = estimates.share_O, estimates.reward_O
    eta_up, eta_gap, fixed_range, known = weights.eta_up, weights.eta_gap, bounds.fixed_range, bounds.known
    cap, floor, reward_low, reward_high = bounds.cap, bounds.floor, bounds.reward_low, bounds.reward_high
    up_N, low_N, gap_N = values.up_N, values.low_N, values.gap_N
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
            if eta_up > 0.0:  # lower values are used for nothing else
                low = low_N[after]
                lowest = _smaller(low, lowest)
                mean_low += share * (reward + low)
        out.cap[i] = _smaller(reward_high + highest, cap) if known else cap
        out.sure[i] = _larger(reward_low + surest, floor) if known else floor
        if eta_up > 0.0:
            out.low_floor[i] = _larger(reward_low + lowest, floor) if known else floor
        doubt = estimates.doubt_K[key]
        if estimates.count_K[key] == 0:  # only certain bounds apply
            out.variance[i], out.spread[i], out.up[i], out.gap[i] = 0.0, 0.0, np.inf, np.inf
            if eta_up > 0.0:
                out.low[i] = -np.inf
        elif known and end - entry == one and doubt == 0.0:  # a certain outcome needs no bonus
            out.variance[i], out.spread[i], out.up[i], out.gap[i] = 0.0, 0.0, mean, mean_gap
            if eta_up > 0.0:
                out.low[i] = mean_low
        else:
            reach = fixed_range if fixed_range >= 0.0 else top - bottom + doubt
            out.variance[i] = _larger(square - mean * mean, 0.0) + estimates.noise_K[key]
            out.spread[i] = weights.spread_K[key]
            bonus = weights.range_K[key] * reach
            if eta_up > 0.0:
                bonus += eta_up * (mean - mean_low)
                out.low[i] = mean_low - bonus
                mean_gap *= 1.0 + eta_gap
            out.up[i] = mean + bonus
            out.gap[i] = weights.gap_K[key] * reach + mean_gap


@jit(inner=True)
def _add_deviations(n, eta_up, out):
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
    if eta_up > 0.0:
        for i in range(n):
            out.low[i] = _larger(out.low[i] - deviation[i], out.low_floor[i])


@jit(inner=True)
def _choose_rows(begin, end, node_indptr, eta_up, rows, rng, out, out_row):
    """Write the values and a greedy row of the nodes of one step; ties between rows are broken at random.

    Parameters
    ----------
    begin, end : uint64
        The nodes of the step.
    node_indptr : ndarray of int64, shape (N + 1,)
    eta_up : float
    rows : RowEstimates
    rng : ndarray of uint64, shape (1,)
    out : NodeValues
    out_row : ndarray of int64, shape (N,)
    """
    out_up_N, out_low_N, out_gap_N = out.up_N, out.low_N, out.gap_N
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


@jit
def sweep(graph, estimates, weights, reward_low, reward_high, known, rng, out, out_row):
    """Write the values of all nodes, and a greedy row of each, beginning with the last step.

    Ties between rows are broken at random.

    Parameters
    ----------
    graph : GraphArrays
    estimates : KeyEstimates
    weights : Weights
    reward_low, reward_high : float
        The least and the greatest reward of a step.
    known : bool
        Whether all possible outcomes are known.
    rng : ndarray of uint64, shape (1,)
        State of the generator; changed.
    out : NodeValues
        Lower values are written only if `weights.eta_up` is positive.
    out_row : ndarray of int64, shape (N,)

    Notes
    -----
    Positions are unsigned throughout: with signed ones a sweep takes twice as long, as each could count from the end.
    """
    layer_indptr, node_indptr = graph.layer_indptr, graph.node_indptr
    eta_up, range_rule = weights.eta_up, weights.range_rule
    horizon, one = layer_indptr.shape[0] - 2, np.uint64(1)
    last = np.uint64(layer_indptr[horizon])
    out.up_N[last] = out.low_N[last] = out.gap_N[last] = 0.0
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
        bounds = CertainBounds(cap, floor, fixed_range, reward_low, reward_high, known)
        _average_rows(first, stop, graph, estimates, weights, bounds, out, rows)
        _add_deviations(stop - first, eta_up, rows)
        _choose_rows(begin, end, node_indptr, eta_up, rows, rng, out, out_row)


@jit(inner=True)
def _breaks(spent, upper_HD, lower_HD, step):
    """Return whether what was spent breaks a limit after a step."""
    broken = False
    for d in range(spent.shape[0]):
        broken |= spent[d] > upper_HD[step, d] or spent[d] < lower_HD[step, d]
    return broken


@jit
def play(graph, chosen_row, world, counts, episodes, every_episode, rng, out):
    """Play episodes in a model by the chosen rows, and count their outcomes.

    A new outcome, one that is not known to be possible, ends its episode. It is recorded in `out`, and neither counted
    nor judged here.

    Parameters
    ----------
    graph : GraphArrays
    chosen_row : ndarray of int64, shape (N,)
    world : WorldArrays
    counts : CountArrays
        Changed, except for `square_sum_K`.
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
    node_indptr, row_model, row_key = graph.node_indptr, graph.row_model, graph.row_key
    entry_indptr, entry_next, key_indptr = graph.entry_indptr, graph.entry_next, graph.key_indptr
    world_indptr, cumulative_O, world_reward = world.outcome_indptr, world.cumulative_O, world.row_reward
    world_cost_OD, local_O, upper_HD, lower_HD = world.cost_OD, world.local_O, world.upper_HD, world.lower_HD
    initial_D, floor_D, ceiling_D = world.initial_D, world.floor_D, world.ceiling_D
    count_K, count_O, reward_sum_O, planned_K = counts.count_K, counts.count_O, counts.reward_sum_O, counts.planned_K
    spent, drawn, new_outcome = out.spent, out.drawn, out.new_outcome
    horizon = upper_HD.shape[0]
    violations = 0
    for episode in range(episodes):
        node, step, due = 0, np.int64(0), every_episode
        broken = False
        for d in range(spent.shape[0]):  # copying whole arrays would compile a check of shapes, with its message
            spent[d] = initial_D[d]
        while step < horizon and node_indptr[node] < node_indptr[node + 1]:
            row = chosen_row[node]
            model_row = row_model[row]
            u, o, last = draw(rng), world_indptr[model_row], world_indptr[model_row + 1] - 1
            while o < last and u >= cumulative_O[o]:
                o += 1
            drawn[step] = o
            j = local_O[o]
            if j < 0:
                new_outcome[0], new_outcome[1], new_outcome[2], new_outcome[3] = step, row, o, broken
                return NEW_OUTCOME, episode + 1, violations
            key = row_key[row]
            count_K[key] += 1
            count_O[key_indptr[key] + j] += 1
            reward_sum_O[key_indptr[key] + j] += world_reward[model_row]
            due = due or count_K[key] >= 2 * planned_K[key]
            for d in range(spent.shape[0]):
                spent[d] = min(max(spent[d] + world_cost_OD[o, d], floor_D[d]), ceiling_D[d])
            broken = broken or _breaks(spent, upper_HD, lower_HD, step)
            node = entry_next[entry_indptr[row] + j]
            step += 1
        while step < horizon and not broken:  # the episode ended early: later limits still apply
            broken = _breaks(spent, upper_HD, lower_HD, step)
            step += 1
        violations += broken
        if due:
            return REPLAN, episode + 1, violations
    return PLAYED, episodes, violations
