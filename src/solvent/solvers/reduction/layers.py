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

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.core.threads import run_by_states
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.search import pack
from solvent.solvers.accuracy import Extremes, Followed
from solvent.solvers.bounds.bounds import Bounds, Interval, bounds_of
from solvent.solvers.bounds.kernels import DOWN, UP, fill_live_box, row_bounds
from solvent.solvers.outcomes.pooling import independent_rows
from solvent.solvers.reduction import kernels

#: A grid of at most so many keys is used to look up nodes; a larger one would not stay in the caches.
_GRID_KEYS = 8_000_000
#: Memory that counting distinct amounts takes, per node.
_COUNTING = 48
#: Layers with at least this many nodes are swept on all cores.
PARALLEL_FROM = 20_000


@dataclass(frozen=True)
class Layer:
    """The nodes of a step, state by state.

    Attributes
    ----------
    indptr : ndarray of int64, shape (S + 1,)
        Where the nodes of each state begin.
    spent : ndarray of int64, shape (N, D)
        Ticks, or `kernels.COLLAPSED`.
    """

    indptr: NDArray[np.int64]
    spent: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.spent)

    def distinct_amounts(self, settled_as: tuple[int, ...] = ()) -> int:
        """Return how many different amounts have been spent in the layer, whatever the state.

        Settled amounts count as one of their own, or as those given.
        """
        if not self.spent.shape[1]:
            return 1
        spent = np.where(self.spent == kernels.COLLAPSED, settled_as, self.spent) if settled_as else self.spent
        return len(np.unique(pack(list(spent.T))))

    @property
    def state(self) -> NDArray[np.int32]:
        """The state of each node, shape (N,)."""
        return np.repeat(np.arange(len(self.indptr) - 1, dtype=np.int32), np.diff(self.indptr))


@dataclass(frozen=True)
class Grid:
    """How nodes are looked up: by position on a grid of all states and amounts if that is small, else by hash.

    Attributes
    ----------
    facts : ndarray of int64, shape (1 + 2 D,)
        Keys per state (0: no grid), and the lowest ticks and the stride of each resource.
    size : int
        Number of keys.
    """

    facts: NDArray[np.int64]
    size: int

    @classmethod
    def over(cls, bounds: Bounds, n_states: int) -> Grid:
        """Return the grid of what can be spent in any node that is neither doomed nor settled, if it is small."""
        n_resources = bounds.safe_low.shape[2]
        lows, strides, keys = [], [], 1
        for d in range(n_resources):
            low, high = _span(bounds, d)
            lows.append(low)
            strides.append(keys)
            keys *= high - low + 2
            if keys * n_states > _GRID_KEYS:
                return cls(np.zeros(1, np.int64), 0)
        return cls(np.array([keys, *lows, *strides], np.int64), keys * n_states)

    def table(self, layer: Layer, halt: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Return a lookup table that holds a layer's nodes; not all of them if `halt[0]` was set meanwhile."""
        slots = self.empty(len(layer))
        kernels.fill_slots(layer.state, layer.spent, len(layer), slots, self.facts, halt)
        return slots

    def table_bytes(self, room: int) -> int:
        """Return how much memory a table takes that has room for so many nodes."""
        return 4 * (self.size or _power_of_two(2 * room))

    def empty(self, room: int) -> NDArray[np.int32]:
        """Return a table without nodes; off the grid, one with room for so many."""
        return np.full(self.size or _power_of_two(2 * room), kernels.EMPTY, np.int32)


def _span(bounds: Bounds, d: int) -> tuple[int, int]:
    """Return between which ticks a resource can be in a node that is neither doomed nor settled."""
    safe_low, safe_high = bounds.safe_low[..., d], bounds.safe_high[..., d]
    settled_low, settled_high = bounds.settled_low[..., d], bounds.settled_high[..., d]
    # below safe_high but not settled: from above settled_high or below settled_low
    some = settled_low <= settled_high
    low = np.where(some & (settled_low == DOWN), settled_high, safe_low)
    high = np.where(some & (settled_high == UP), settled_low, safe_high)
    live = (safe_low <= safe_high) & ~(some & (settled_low <= safe_low) & (settled_high >= safe_high))
    live[-1] = False
    if not live.any():
        return 0, 0
    lowest, highest = int(low[live].min()), int(high[live].max())
    return min(lowest, 0), max(highest, 0)


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
    cost_diversity : int or None
        The paper's D_M, the most distinct amounts in a layer; None if layers were pruned.
    extremes : Extremes
        Of its values, for the bounds on their error.
    pooled : bool
        Whether costs were averaged before next states, or after them, anywhere.
    """

    value: float
    layers: list[Layer]
    rows: list[NDArray[np.int32]]
    bounds: Bounds
    cost_diversity: int | None
    extremes: Extremes
    pooled: bool

    def live_box(self) -> Interval:
        """Return the least and the most that was spent in nodes of each step and state that are no dead ends."""
        low, high = (np.empty_like(self.bounds.safe_low[:-1]) for _ in range(2))
        for h, (layer, row) in enumerate(zip(self.layers, self.rows, strict=True)):
            settled = self.bounds.settled_low[h], self.bounds.settled_high[h]
            fill_live_box(layer.indptr, layer.spent, row != kernels.DEAD_END, *settled, low[h], high[h])
        return low, high


def reduce(
    model: CMDP,
    lattice: Lattice,
    monitor: ResourceMonitor,
    *,
    prune: bool = True,
    truncation: Interval | None = None,
    within: Interval | None = None,
) -> Sweep:
    """Solve a problem by forward layers and a backward sweep.

    Without `prune`, the layers are the paper's: exact ones, or those truncated at `truncation`. Nodes outside `within`,
    amounts for each step and state, are known to be doomed.

    Raises
    ------
    LimitReached
        If a layer would not fit into the memory allowed, or time is up.
    """
    bounds = bounds_of(model, lattice, monitor, prune=prune, truncation=truncation, within=within)
    steps = Steps(model, lattice, bounds, monitor)
    layers = forward(steps, monitor)
    value, rows, extremes = _backward(steps, layers, monitor)
    diversity = None
    if not prune:
        # the paper counts amounts after the last step too
        counted = [*layers, next_layer(steps, model.horizon - 1, layers[-1], monitor)]
        with monitor.borrowed(_COUNTING * max(map(len, counted)), "counting amounts"):
            diversity = max(layer.distinct_amounts() for layer in counted)
    if steps.marks is not None:
        monitor.release(steps.grid.size)
    monitor.release(steps.bytes)
    return Sweep(value, layers, rows, steps.bounds, diversity, extremes, steps.pooled)


@dataclass
class Steps:
    """The arrays that the kernels need of one step."""

    model: CMDP
    lattice: Lattice
    bounds: Bounds
    monitor: ResourceMonitor
    marks: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        self.grid = Grid.over(self.bounds, self.model.n_states)
        # ticks of each resource, and the row to be taken
        self.bytes_per_node = 8 * len(self.lattice.resources) + 4
        used = self.monitor.used
        rows = independent_rows(self.model, self.lattice.cost_OD, self.monitor)
        # bounds of the rows of a step, and what was found of independent costs
        widest = int(np.diff(self.model.row_indptr[:: self.model.n_states]).max(initial=0))
        self.monitor.reserve(16 * widest * len(self.lattice.resources), "bounds per row")
        self.bytes = self.monitor.used - used
        self.independent = tuple(getattr(rows, each.name) for each in fields(rows))
        self.pooled = bool((rows.law >= 0).any())

    def at(self, h: int) -> dict[str, Any]:
        """Return the rows of a step and the bounds between which each is safe."""
        m, indptr = self.model, self.model.row_indptr_at(h)
        first, last = int(indptr[0]), int(indptr[-1])
        row_low = np.empty((last - first, len(self.lattice.resources)), np.int64)
        row_high = np.empty_like(row_low)
        row_bounds(
            first, last, m.outcome_indptr, m.next_state, self.lattice.cost_OD, self.lattice.upper_HD[h],
            self.lattice.lower_HD[h], self.bounds.safe_high[h + 1], self.bounds.safe_low[h + 1], row_high, row_low,
        )  # fmt: skip
        return {"row_indptr": indptr, "first_row": first, "row_low": row_low, "row_high": row_high}

    def run(
        self, kernel: Callable[..., None], h: int, node_indptr: NDArray[np.int64], node_spent: NDArray[np.int64],
        *others: Any,
    ) -> None:  # fmt: skip
        """Run a kernel on nodes of step h, on all threads if they are many."""
        arrays = (node_indptr, node_spent, *others)
        if node_indptr[-1] - node_indptr[0] < PARALLEL_FROM:
            kernel(0, self.model.n_states, *arrays)
            return
        outcomes_S = np.diff(self.model.outcome_indptr[self.model.row_indptr_at(h)])
        run_by_states(lambda begin, end: kernel(begin, end, *arrays), np.diff(node_indptr) * (1.0 + outcomes_S))

    def first_layer(self) -> Layer:
        """Return the start as a layer."""
        spent = np.zeros((1, len(self.lattice.resources)), np.int64)
        start = self.model.start_index
        settled = (self.bounds.settled_low[0, start] <= 0) & (self.bounds.settled_high[0, start] >= 0)
        spent[0, settled] = kernels.COLLAPSED
        indptr = np.zeros(self.model.n_states + 1, np.int64)
        indptr[start + 1 :] = 1
        return Layer(indptr, spent)

    def moves(self, h: int) -> tuple[Any, ...]:
        """Return what leads from step h to the next: rows, outcomes, and bounds on both ends."""
        now, m = self.at(h), self.model
        return (
            now["row_indptr"], m.outcome_indptr, m.next_state, self.lattice.cost_OD, now["row_low"], now["row_high"],
            self.bounds.settled_low[h + 1], self.bounds.settled_high[h + 1], now["first_row"], self.grid.facts,
        )  # fmt: skip


def _power_of_two(least: int) -> int:
    return 1 << max(4, (least - 1).bit_length())


def forward(steps: Steps, monitor: ResourceMonitor) -> list[Layer]:
    """Return the layers of safe nodes at each of the H steps."""
    layers = [steps.first_layer()]
    for h in range(steps.model.horizon - 1):
        monitor.check_time()
        monitor.tell("forward", h + 1, steps.model.horizon, nodes=len(layers[-1]))
        layers.append(next_layer(steps, h, layers[-1], monitor))
    return layers


def next_layer(steps: Steps, h: int, layer: Layer, monitor: ResourceMonitor) -> Layer:
    """Return what safe rows of the layer of step h lead to."""
    if steps.grid.size:
        return _next_on_grid(steps, h, layer, monitor)
    return _next_by_hash(steps, h, layer, monitor)


def _next_on_grid(steps: Steps, h: int, layer: Layer, monitor: ResourceMonitor) -> Layer:
    if steps.marks is None:
        monitor.reserve(steps.grid.size, "a grid of all amounts")
        steps.marks = np.zeros(steps.grid.size, bool)
    marks = steps.marks
    moves = steps.moves(h)
    for begin, end in monitor.pieces(len(layer)):
        monitor.check_time()
        steps.run(
            kernels.mark,
            h,
            np.clip(layer.indptr, begin, end),
            layer.spent,
            *moves,
            *steps.independent,
            marks,
            monitor.halt,
        )
    monitor.check_time()
    count = int(kernels.count_marks(marks))
    monitor.reserve(steps.bytes_per_node * count, f"the nodes of step {h + 1}")
    indptr, spent = np.empty_like(layer.indptr), np.empty((count, layer.spent.shape[1]), np.int64)
    kernels.collect(marks, steps.grid.facts, indptr, spent)
    return Layer(indptr, spent)


def _next_by_hash(steps: Steps, h: int, layer: Layer, monitor: ResourceMonitor) -> Layer:
    moves, pieces = steps.moves(h), monitor.pieces(len(layer), always=True)
    room, count, begin, taken = max(64, 2 * len(layer)), 0, 0, 0
    state, spent = np.empty(0, np.int32), np.empty((0, layer.spent.shape[1]), np.int64)
    while True:
        # states and amounts, the table, and what is listed of the layer before while it is expanded
        needed = room * (steps.bytes_per_node + 4) + 4 * _power_of_two(2 * room) + 8 * len(layer)
        monitor.reserve(needed, f"the nodes of step {h + 1}")
        state, spent = grown(state, room), grown(spent, room)
        slots = steps.grid.empty(room)
        kernels.fill_slots(state, spent, count, slots, steps.grid.facts, monitor.halt)
        monitor.release(taken)
        taken = needed
        while pieces:
            indptr = np.clip(layer.indptr, *pieces[0])
            count, begin = kernels.expand(begin, indptr, layer.spent, *moves, count, state, spent, slots, monitor.halt)
            monitor.check_time()
            if begin < steps.model.n_states:
                break
            pieces, begin = pieces[1:], 0
        if not pieces:
            break
        room *= 2
    slots = slots[:0]
    monitor.release(4 * _power_of_two(2 * room))
    taken -= 4 * _power_of_two(2 * room)
    # the order, what sorting takes besides, and the nodes in that order
    monitor.reserve((16 + steps.bytes_per_node) * count, f"the nodes of step {h + 1}")
    order = np.argsort(state[:count], kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(state[:count], minlength=steps.model.n_states))])
    layer_after = Layer(indptr.astype(np.int64), spent[order])
    monitor.release(taken + 16 * count)
    return layer_after


def grown(array: NDArray[Any], room: int) -> NDArray[Any]:
    """Return a longer copy of an array; what is new in it is not set."""
    larger = np.empty((room, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _backward(
    steps: Steps, layers: list[Layer], monitor: ResourceMonitor
) -> tuple[float, list[NDArray[np.int32]], Extremes]:
    m, horizon, grid = steps.model, steps.model.horizon, steps.grid
    no_state, no_spent = np.empty(0, np.int32), np.empty((0, layers[0].spent.shape[1]), np.int64)
    after_state, after_spent, slots, after_value = no_state, no_spent, np.empty(0, np.int32), np.empty(0)
    monitor.reserve(8 * grid.size, "a grid of all amounts")
    on_grid = np.empty(grid.size)
    rows: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * horizon
    value, extremes = np.empty(0), Extremes.none(horizon)
    for h in range(horizon - 1, -1, -1):
        monitor.check_time()
        monitor.tell("backward", horizon - h, horizon, nodes=len(layers[h]))
        layer = layers[h]
        # rows are kept; values of this step and the next, what is listed of a state's nodes, and tables are not
        monitor.reserve(4 * len(layer), f"the values of step {h}")
        size = 33 * len(layer) + 20 * len(after_value) + 4 * len(slots)
        if not grid.size and h:
            size += grid.table_bytes(len(layer)) + 4 * len(layer)
        monitor.reserve(size, f"the values of step {h}")
        value, row, reward_S = np.empty(len(layer)), np.empty(len(layer), np.int32), np.zeros(m.n_states)
        indptr, outcome_indptr, next_state, cost_OD, low, high, settled_low, settled_high, first, facts = steps.moves(h)
        for begin, end in monitor.pieces(len(layer)):
            monitor.check_time()
            steps.run(
                kernels.sweep, h, np.clip(layer.indptr, begin, end), layer.spent, indptr, outcome_indptr, m.probability,
                next_state, m.row_reward, cost_OD, low, high, steps.bounds.safe_low[h], steps.bounds.safe_high[h],
                settled_low, settled_high, first, h == horizon - 1, *steps.independent, facts, after_state, after_spent,
                slots, on_grid if grid.size else after_value, value, row, reward_S, monitor.halt,
            )  # fmt: skip
            monitor.check_time()
        rows[h] = row
        extremes.top[h], extremes.reward[h] = value.max(initial=0.0), reward_S.max()
        extremes.bottom[h] = value[value > -np.inf].min(initial=0.0)
        if grid.size:
            kernels.put_values(layer.indptr, layer.spent, value, facts, on_grid)
        elif h:
            slots = grid.table(layer, monitor.halt)
            monitor.check_time()
            after_state, after_spent, slots, after_value = layer.state, layer.spent, slots, value
        monitor.release(size)
    monitor.release(8 * grid.size)
    return float(value[0]), rows, extremes


@dataclass(frozen=True)
class Trace:
    """Where a reduction's policy leads.

    Attributes
    ----------
    weight : list of ndarray, one per step
        Probability of reaching each node; 0 exactly where it is never reached.
    peak_HD, trough_HD : ndarray of int64, shape (H, D)
        The most and the least that can have been spent after each step.
    followed : Followed
        What it earns at each step.
    """

    weight: list[NDArray[np.float64]]
    peak_HD: NDArray[np.int64]
    trough_HD: NDArray[np.int64]
    followed: Followed


def trace(
    model: CMDP,
    lattice: Lattice,
    sweep: Sweep,
    high_OD: NDArray[np.int64],
    low_OD: NDArray[np.int64],
    monitor: ResourceMonitor,
) -> Trace:
    """Follow the chosen rows from the start, carrying the extremes of what is truly spent.

    Parameters
    ----------
    model : CMDP
    lattice : Lattice
    sweep : Sweep
        What was found for them.
    high_OD, low_OD : ndarray of int64, shape (O, D)
        The most and the least that each outcome truly costs, in ticks of their own.
    monitor : ResourceMonitor

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    n_resources, horizon = len(lattice.resources), model.horizon
    weights = [np.ones(1)]
    most = least = np.zeros((1, n_resources), np.int64)
    peak_HD = np.full((horizon, n_resources), DOWN, np.int64)
    trough_HD = np.full((horizon, n_resources), UP, np.int64)
    ended_most, ended_least = np.full(n_resources, DOWN), np.full(n_resources, UP)
    no_slots = np.empty(0, np.int32)
    grid = Grid.over(sweep.bounds, model.n_states)
    largest = max(map(len, sweep.layers))
    # probabilities are kept; extremes of two layers and a table of one are not
    monitor.reserve(8 * sum(map(len, sweep.layers)), "the probabilities of nodes")
    temporary = (4 * 8 * n_resources + 32) * largest + grid.table_bytes(largest)
    monitor.reserve(temporary, "the extremes of nodes")
    for h in range(horizon):
        after = sweep.layers[h + 1] if h + 1 < horizon else Layer(np.zeros(1, np.int64), least[:0])
        weight = np.zeros(len(after))
        next_most = np.full((len(after), n_resources), DOWN, np.int64)
        next_least = np.full((len(after), n_resources), UP, np.int64)
        kernels.follow(
            sweep.layers[h].spent, sweep.rows[h], weights[-1], most, least, model.outcome_indptr, model.probability,
            model.next_state, lattice.cost_OD, high_OD, low_OD, sweep.bounds.settled_low[h + 1],
            sweep.bounds.settled_high[h + 1], after.state, after.spent,
            grid.table(after, monitor.halt) if len(after) else no_slots, grid.facts, weight, next_most, next_least,
            peak_HD[h], trough_HD[h], ended_most, ended_least, monitor.halt,
        )  # fmt: skip
        monitor.check_time()
        peak_HD[h], trough_HD[h] = np.maximum(peak_HD[h], ended_most), np.minimum(trough_HD[h], ended_least)
        weights.append(weight)
        most, least = next_most, next_least
    monitor.release(temporary)
    weights = weights[:horizon]
    earned = Followed.begun(model)
    for h, (weight, row) in enumerate(zip(weights, sweep.rows, strict=True)):
        acting = row >= 0
        rewards = weight[acting] * model.row_reward[row[acting]]
        earned.reward[h], earned.size[h] = rewards.sum(), np.abs(rewards).sum()
    earned = earned.along(model, lambda: (row[weight > 0] for weight, row in zip(weights, sweep.rows, strict=True)))
    return Trace(weights, peak_HD, trough_HD, earned)
