"""Kernels of learning: optimistic planning on nodes, and episodes in a model; flat arrays in, flat arrays out.

A *key* is what counts are kept for: a row of the model (pooled) or a row of a node. Outcome j of a row with key k is
outcome `key_indptr[k] + j` of the counts.
"""

from __future__ import annotations

import numpy as np

from solvent.plan.jit import jit

#: How a run of episodes ended: all were played; a count has doubled; an outcome came that was not known to be possible.
PLAYED, DUE, SURPRISED = 0, 1, 2


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
        growth = np.log(8 * np.e * (n + 1.0))
        beta = confidence + size_K[key] * growth
        out_spread_K[key] = 3 * np.sqrt((confidence + growth) / n)
        out_range_K[key], out_gap_K[key] = 14 * beta / n, 36 * beta / n


@jit(inline="always")
def _judge_row(
    n, entry, stop, outcome, entry_next, share_O, reward_O, spread_weight, range_weight, gap_weight, noise, doubt,
    eta_up, eta_gap, fixed_range, cap, floor, reward_low, reward_high, known, up_N, low_N, gap_N,
):  # fmt: skip
    """Return the upper value, the lower value and the gap of one row."""
    highest, lowest, surest = -np.inf, np.inf, np.inf  # upper and lower values, and upper ones minus their gaps
    top, bottom = -np.inf, np.inf  # rewards plus upper values
    mean = square = mean_low = mean_gap = 0.0
    certain = stop - entry == 1 and doubt == 0.0
    for e in range(entry, stop):
        after, o = np.uint64(entry_next[e]), outcome + (e - entry)
        share, reward = share_O[o], reward_O[o]
        up, gap = up_N[after], gap_N[after]
        worth = reward + up
        part = share * worth
        mean += part
        square += part * worth
        mean_gap += share * gap
        highest, surest = max(highest, up), min(surest, up - gap)
        top, bottom = max(top, worth), min(bottom, worth)
        if eta_up > 0.0:  # nothing else is made of lower values
            low = low_N[after]
            lowest = min(lowest, low)
            mean_low += share * (reward + low)
    most_low = most_sure = floor
    if known:
        cap, most_sure = min(cap, reward_high + highest), max(floor, reward_low + surest)
        if eta_up > 0.0:
            most_low = max(floor, reward_low + lowest)
    if n == 0:
        return cap, most_low, cap - most_sure
    if known and certain:  # what is certain needs no bonus
        row_up = min(cap, mean)
        return row_up, max(most_low, mean_low), min(row_up - most_sure, mean_gap)
    reach = fixed_range
    if reach < 0.0:
        reach = top - bottom + doubt
    deviation = spread_weight * np.sqrt(max(square - mean * mean, 0.0) + noise)
    bonus = deviation + range_weight * reach + eta_up * (mean - mean_low)
    row_gap = 2.0 * deviation + gap_weight * reach + (1.0 + eta_gap) * mean_gap
    row_up = min(cap, mean + bonus)
    return row_up, max(most_low, mean_low - bonus), min(row_up - most_sure, row_gap)


@jit(inline="always")
def _sweep_layer(
    begin, end, node_indptr, row_key, entry_indptr, entry_next, key_indptr, count_K, share_O, reward_O, spread_weight_K,
    range_weight_K, gap_weight_K, noise_K, doubt_K, eta_up, eta_gap, fixed_range, cap, floor, reward_low, reward_high,
    known, rng, out_up_N, out_low_N, out_gap_N, out_row,
):  # fmt: skip
    """Write upper value, lower value, gap and a greedy row of the nodes of one step."""
    one = np.uint64(1)
    for node in range(begin, end):
        first, stop = np.uint64(node_indptr[node]), np.uint64(node_indptr[node + one])
        if first == stop:
            out_up_N[node] = out_low_N[node] = out_gap_N[node] = 0.0
            continue
        best, best_low, best_gap, best_row, ties = -np.inf, -np.inf, 0.0, first, 0
        for row in range(first, stop):
            key = np.uint64(row_key[row])
            row_up, row_low, row_gap = _judge_row(
                count_K[key], np.uint64(entry_indptr[row]), np.uint64(entry_indptr[row + one]),
                np.uint64(key_indptr[key]), entry_next, share_O, reward_O, spread_weight_K[key], range_weight_K[key],
                gap_weight_K[key], noise_K[key], doubt_K[key], eta_up, eta_gap, fixed_range, cap, floor, reward_low,
                reward_high, known, out_up_N, out_low_N, out_gap_N,
            )  # fmt: skip
            best_low = max(best_low, row_low)
            if row_up < best:
                continue
            ties = ties + 1 if row_up == best else 1
            if ties == 1 or draw(rng) * ties < 1.0:
                best, best_row, best_gap = row_up, row, row_gap
        out_up_N[node], out_low_N[node], out_gap_N[node] = best, best_low, best_gap
        out_row[node] = best_row


@jit(error_model="numpy", fastmath={"nnan", "nsz", "reassoc", "contract", "arcp"})
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

    Positions are unsigned throughout: signed ones cost half of the time, as each could count from an array's end. Code
    for an `eta_up` of 0 is compiled apart, without lower values.
    """
    horizon, one = layer_indptr.shape[0] - 2, np.uint64(1)
    last = np.uint64(layer_indptr[horizon])
    out_up_N[last] = out_low_N[last] = out_gap_N[last] = 0.0
    for left in range(1, horizon + 1):
        step = np.uint64(horizon - left)
        cap, floor = left * max(reward_high, 0.0), left * min(reward_low, 0.0)
        fixed_range = range_rule if range_rule != 0.0 else cap - floor
        begin, end = np.uint64(layer_indptr[step]), np.uint64(layer_indptr[step + one])
        if eta_up > 0.0:
            _sweep_layer(
                begin, end, node_indptr, row_key, entry_indptr, entry_next, key_indptr, count_K, share_O, reward_O,
                spread_weight_K, range_weight_K, gap_weight_K, noise_K, doubt_K, eta_up, eta_gap, fixed_range, cap,
                floor, reward_low, reward_high, known, rng, out_up_N, out_low_N, out_gap_N, out_row,
            )  # fmt: skip
        else:
            _sweep_layer(
                begin, end, node_indptr, row_key, entry_indptr, entry_next, key_indptr, count_K, share_O, reward_O,
                spread_weight_K, range_weight_K, gap_weight_K, noise_K, doubt_K, 0.0, 0.0, fixed_range, cap, floor,
                reward_low, reward_high, known, rng, out_up_N, out_low_N, out_gap_N, out_row,
            )  # fmt: skip


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
    reward_sum_O, out_spent, out_surprise,
):  # fmt: skip
    """Play episodes in a model by the chosen rows, and count what comes of them.

    Row r of the graph is row `row_model[r]` of the world, whose outcome o is outcome `local_O[o]` of the graph's row,
    or negative if it was never seen. Returns how it ended, the episodes that were played, and how many of them broke a
    limit. A surprise is written to `out_surprise` (step, row, outcome of the world) with what was spent before it in
    `out_spent`, and is neither counted nor judged here.
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
            j = local_O[o]
            if j < 0:
                out_surprise[0], out_surprise[1], out_surprise[2] = step, row, o
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
