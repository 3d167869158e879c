"""The reduction: layers of safe nodes forward, values backward (Definitions 1-2, Algorithms 1 and 5 of the paper).

The right state is the node (step, state, spent). An action is safe at a node iff every supported outcome keeps every
limit of that step, and layer h + 1 holds what safe actions of layer h can lead to. On nodes the problem is an ordinary
MDP:

    V_h(s, x) = max over safe a of  r_h(s, a) + E[ V_{h+1}(s', x + c) ],   V_H = 0,  minus infinity at a dead end.

Two exact prunings go beyond the paper. With `prune`, a row counts as safe only if no outcome is *doomed*, that is
beyond what even the most careful continuation could mend, resource by resource; and a resource that is *settled*,
because not even the most careless continuation could break its limits, is struck from the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.plan import kernels
from solvent.plan.limits import Allowance

#: Layers with at least this many nodes are swept on all cores.
PARALLEL_FROM = 20_000


@dataclass(frozen=True)
class Bounds:
    """What may have been spent at each (step, state); int64 arrays of shape (H + 1, S, D)."""

    safe_low: NDArray[np.int64]
    safe_high: NDArray[np.int64]
    settled_low: NDArray[np.int64]
    settled_high: NDArray[np.int64]


@dataclass(frozen=True)
class Layer:
    """The nodes of a step.

    Attributes
    ----------
    state : ndarray of int32, shape (N,)
    spent : ndarray of int64, shape (N, D)
        Ticks, or `kernels.COLLAPSED`.
    """

    state: NDArray[np.int32]
    spent: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.state)

    def table(self) -> NDArray[np.int32]:
        """Return the lookup table of the layer's nodes."""
        slots = np.full(_power_of_two(2 * len(self)), kernels.EMPTY, np.int32)
        kernels.fill_slots(self.state, self.spent, len(self), slots)
        return slots


@dataclass(frozen=True)
class Sweep:
    """What the reduction found.

    Attributes
    ----------
    value : float
        At the start; minus infinity if nothing is feasible.
    layers : list of Layer
        One for each of the H steps.
    rows : list of ndarray of int32
        The row to take at each node, or `kernels.TERMINAL` or `kernels.DEAD_END`.
    bounds : Bounds
    """

    value: float
    layers: list[Layer]
    rows: list[NDArray[np.int32]]
    bounds: Bounds


def bounds_of(model: CMDP, lattice: Lattice, allowance: Allowance, *, prune: bool = True) -> Bounds:
    """Return the doomed and settled bounds of a problem, or those of the paper's plain layers."""
    shape = (model.horizon + 1, model.n_states, len(lattice.resources))
    allowance.take(4 * 8 * int(np.prod(shape)), "bounds per step and state")
    safe_low, safe_high, settled_low, settled_high = (np.empty(shape, np.int64) for _ in range(4))
    if prune:
        kernels.fill_bounds(
            model.table_of_step, model.row_indptr, model.outcome_indptr, model.next_state, lattice.cost_OD,
            lattice.upper_HD, lattice.lower_HD, safe_high, safe_low, settled_high, settled_low,
        )  # fmt: skip
    else:
        kernels.fill_plain_bounds(
            model.table_of_step, model.row_indptr, lattice.upper_HD, lattice.lower_HD, safe_high, safe_low
        )
        settled_low[:], settled_high[:] = kernels.UP, kernels.DOWN
    return Bounds(safe_low, safe_high, settled_low, settled_high)


def reduce(model: CMDP, lattice: Lattice, allowance: Allowance, *, prune: bool = True) -> Sweep:
    """Solve a problem by forward layers and a backward sweep.

    Raises
    ------
    LimitReached
        If a layer would not fit into the memory allowed, or time is up.
    """
    steps = _Steps(model, lattice, bounds_of(model, lattice, allowance, prune=prune))
    layers = _forward(steps, allowance)
    value, rows = _backward(steps, layers, allowance)
    return Sweep(value, layers, rows, steps.bounds)


@dataclass
class _Steps:
    """The arrays that the kernels need of one step."""

    model: CMDP
    lattice: Lattice
    bounds: Bounds

    def at(self, h: int) -> dict[str, Any]:
        m, table, n = self.model, int(self.model.table_of_step[h]), self.model.n_states
        indptr = m.row_indptr[table * n : (table + 1) * n + 1]
        first, last = int(indptr[0]), int(indptr[-1])
        row_low = np.empty((last - first, len(self.lattice.resources)), np.int64)
        row_high = np.empty_like(row_low)
        kernels.row_bounds(
            first, last, m.outcome_indptr, m.next_state, self.lattice.cost_OD, self.lattice.upper_HD[h],
            self.lattice.lower_HD[h], self.bounds.safe_high[h + 1], self.bounds.safe_low[h + 1], row_high, row_low,
        )  # fmt: skip
        return {"row_indptr": indptr, "first_row": first, "row_low": row_low, "row_high": row_high}

    def first_layer(self) -> Layer:
        spent = np.zeros((1, len(self.lattice.resources)), np.int64)
        start = self.model.start_index
        settled = (self.bounds.settled_low[0, start] <= 0) & (self.bounds.settled_high[0, start] >= 0)
        spent[0, settled] = kernels.COLLAPSED
        return Layer(np.array([start], np.int32), spent)


def _power_of_two(least: int) -> int:
    return 1 << max(4, (least - 1).bit_length())


def _forward(steps: _Steps, allowance: Allowance) -> list[Layer]:
    m, horizon = steps.model, steps.model.horizon
    layers = [steps.first_layer()]
    per_node = 4 + 8 * len(steps.lattice.resources)
    for h in range(horizon - 1):
        allowance.check_time()
        allowance.tell("forward", h + 1, horizon, nodes=len(layers[-1]))
        now = steps.at(h)
        room = max(64, 2 * len(layers[-1]))
        room_bytes = room * per_node + 4 * _power_of_two(2 * room)
        allowance.take(room_bytes, f"the nodes of step {h + 1}")
        state, spent = np.empty(room, np.int32), np.empty((room, layers[-1].spent.shape[1]), np.int64)
        slots = np.full(_power_of_two(2 * room), kernels.EMPTY, np.int32)
        count = begin = 0
        while True:
            count, begin = kernels.expand(
                layers[-1].state, layers[-1].spent, begin, now["row_indptr"], m.outcome_indptr, m.next_state,
                steps.lattice.cost_OD, now["row_low"], now["row_high"], steps.bounds.settled_low[h + 1],
                steps.bounds.settled_high[h + 1], now["first_row"], count, state, spent, slots,
            )  # fmt: skip
            if begin == len(layers[-1]):
                break
            allowance.check_time()
            room *= 2
            grown = room * per_node + 4 * _power_of_two(2 * room)
            allowance.take(grown, f"the nodes of step {h + 1}")
            state, spent = _grown(state, room), _grown(spent, room)
            slots = np.full(_power_of_two(2 * room), kernels.EMPTY, np.int32)
            kernels.fill_slots(state, spent, count, slots)
            allowance.give_back(room_bytes)
            room_bytes = grown
        layers.append(Layer(state[:count].copy(), spent[:count].copy()))
        allowance.give_back(room_bytes)
        allowance.take(count * (per_node + 4), f"the nodes of step {h + 1}")
    return layers


def _grown(array: NDArray[Any], room: int) -> NDArray[Any]:
    larger = np.empty((room, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _backward(
    steps: _Steps, layers: list[Layer], allowance: Allowance
) -> tuple[float, list[NDArray[np.int32]]]:
    m, horizon = steps.model, steps.model.horizon
    empty = Layer(np.empty(0, np.int32), np.empty((0, layers[0].spent.shape[1]), np.int64))
    after, slots, after_value = empty, np.empty(0, np.int32), np.empty(0)
    rows: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * horizon
    for h in range(horizon - 1, -1, -1):
        allowance.check_time()
        allowance.tell("backward", horizon - h, horizon, nodes=len(layers[h]))
        now, layer = steps.at(h), layers[h]
        size = 8 * len(layer) + 4 * len(slots)
        allowance.take(size, f"the values of step {h}")
        value, row = np.empty(len(layer)), np.empty(len(layer), np.int32)
        kernel = kernels.sweep_parallel if len(layer) >= PARALLEL_FROM else kernels.sweep
        # a last step without nodes after it and a layer that is really empty must not be confused
        if h < horizon - 1 and len(after) == 0:
            row_low = np.full_like(now["row_low"], kernels.UP)
            now["row_low"] = row_low
        kernel(
            layer.state, layer.spent, now["row_indptr"], m.outcome_indptr, m.probability, m.next_state, m.row_reward,
            steps.lattice.cost_OD, now["row_low"], now["row_high"], steps.bounds.safe_low[h],
            steps.bounds.safe_high[h], steps.bounds.settled_low[h + 1], steps.bounds.settled_high[h + 1],
            now["first_row"], after.state, after.spent, slots, after_value, value, row,
        )  # fmt: skip
        rows[h] = row
        after, slots, after_value = layer, layer.table() if h else slots, value
        allowance.give_back(size)
    return float(after_value[0]), rows


@dataclass(frozen=True)
class Trace:
    """Where a reduction's policy leads.

    Attributes
    ----------
    weight : list of ndarray, one per step
        Probability of reaching each node; 0 exactly where it is never reached.
    peak_HD, trough_HD : ndarray of int64, shape (H, D)
        The most and the least that can have been spent after each step.
    """

    weight: list[NDArray[np.float64]]
    peak_HD: NDArray[np.int64]
    trough_HD: NDArray[np.int64]


def trace(model: CMDP, lattice: Lattice, sweep: Sweep) -> Trace:
    """Follow the chosen rows from the start, carrying the extremes of true spending through collapsed nodes."""
    n_resources, horizon = len(lattice.resources), model.horizon
    weights = [np.ones(1)]
    most = least = np.zeros((1, n_resources), np.int64)
    peak_HD = np.full((horizon, n_resources), kernels.DOWN, np.int64)
    trough_HD = np.full((horizon, n_resources), kernels.UP, np.int64)
    ended_most, ended_least = np.full(n_resources, kernels.DOWN), np.full(n_resources, kernels.UP)
    no_slots = np.empty(0, np.int32)
    for h in range(horizon):
        after = sweep.layers[h + 1] if h + 1 < horizon else Layer(no_slots, np.empty((0, n_resources), np.int64))
        weight = np.zeros(len(after))
        next_most = np.full((len(after), n_resources), kernels.DOWN, np.int64)
        next_least = np.full((len(after), n_resources), kernels.UP, np.int64)
        kernels.follow(
            sweep.layers[h].spent, sweep.rows[h], weights[-1], most, least, model.outcome_indptr, model.probability,
            model.next_state, lattice.cost_OD, sweep.bounds.settled_low[h + 1], sweep.bounds.settled_high[h + 1],
            after.state, after.spent, after.table() if len(after) else no_slots, weight, next_most, next_least,
            peak_HD[h], trough_HD[h], ended_most, ended_least,
        )  # fmt: skip
        peak_HD[h], trough_HD[h] = np.maximum(peak_HD[h], ended_most), np.minimum(trough_HD[h], ended_least)
        weights.append(weight)
        most, least = next_most, next_least
    return Trace(weights[:horizon], peak_HD, trough_HD)
