"""`augment`: nodes in a forward pass, which of them can be continued from in a backward pass, then their rows.

The time-expanded form has the layers of the reduction, one after the other, and a single node for the end; the
stationary form has every (state, spent) that can be reached within the horizon, found breadth first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solvent.core.interrupt import held_back
from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.errors import LimitError, ModelError
from solvent.model.budget import BudgetLike, Limits, SpentLike, resolve
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.model.lattice import Lattice
from solvent.solvers.augmentation import kernels as augment_kernels
from solvent.solvers.augmentation.arrays import NextNodes, NodeArrays
from solvent.solvers.augmentation.mdp import AugmentedMDP
from solvent.solvers.augmentation.rows import Rows, judge, may_end, next_nodes, the_end
from solvent.solvers.bounds.bounds import bounds_of
from solvent.solvers.reduction import kernels
from solvent.solvers.reduction.forward import forward
from solvent.solvers.reduction.steps import StepArrays


def augment(
    model: CMDP,
    budget: BudgetLike | None = None,
    *,
    spent: SpentLike | None = None,
    stationary: bool = False,
    prune: bool = True,
    memory_limit: int | str | None = None,
    time_limit: float | None = None,
) -> AugmentedMDP:
    """Turn a budgeted problem into an ordinary MDP, which any planner can solve.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        The model's own default, if not given.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step. Default: nothing.
    stationary : bool
        If True, nodes do not contain the step, and dead ends are kept. Requires a stationary model without end rewards
        and goals, and the same limits at every step.
    prune : bool
        If True, leave out doomed nodes, dead ends, and actions that can lead to them, and leave settled resources out
        of the nodes: every action can then be taken and continued from safely. If False, nodes and actions are exactly
        the paper's. Ignored in the stationary form, where a dead end at one step need not be one at the last.
    memory_limit : int or str, optional
        Bytes, or text such as "8GB". The default is most of the free memory. It is checked before memory is used.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    AugmentedMDP
        Its `feasible` is False if no policy keeps the budget.

    Raises
    ------
    ModelError
        If the budget does not fit the model, or the stationary form does not fit the problem.
    LimitError
        If time or memory runs out.

    Notes
    -----
    Definition 2 (`def: augmentation`) and Corollary 2 (`cor: reduction`) of the paper. The greatest expected reward
    from `start` over `model.horizon` steps is the value of `solve`; with several first states, the average of those
    from `start_nodes`. Rewards of the last step include the expected reward for the state in which the episode ends,
    and actions that can end an episode outside the goal are not safe.

    Examples
    --------
    >>> from solvent.model import instances
    >>> augment(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50))
    AugmentedMDP(6 nodes, 9 rows, horizon 3, tracking weight)
    >>> augment(instances.partition([3, 1, 1]))
    AugmentedMDP(2 nodes, 0 rows, horizon 3, tracking left, right, infeasible)
    """
    check_model(model)
    limits = resolve(model, budget, spent)
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    try:
        with ResourceMonitor(seconds, memory) as monitor:
            monitor.reserve(16 * len(limits.resources) * model.n_outcomes, "costs in ticks")
            lattice = Lattice.fit(model, limits, monitor)
            if stationary:
                _check_stationary(model, lattice)
            return expand(model, limits, lattice, monitor, stationary=stationary, prune=prune and not stationary)
    except LimitReached as reached:
        hint = "raise the limit, or give the costs fewer digits, rounded to the safe side (up for upper limits)"
        raise LimitError(f"augment stopped: {reached}; {hint}") from None


def expand(
    model: CMDP,
    limits: Limits,
    lattice: Lattice,
    monitor: ResourceMonitor,
    *,
    stationary: bool = False,
    prune: bool = True,
) -> AugmentedMDP:
    """Return the MDP on the nodes of a problem whose costs are already in ticks, rounded or not.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    with held_back():
        steps = StepArrays(model, lattice, bounds_of(model, lattice, monitor, prune=prune), monitor)
        parts = _stationary(steps, monitor) if stationary else _expanded(steps, monitor, prune=prune)
    shape = (len(parts.row), len(parts.state))
    transitions = sparse.csr_array((parts.probability, parts.next_node, parts.entry_indptr), shape=shape)
    transitions.sort_indices()
    return AugmentedMDP(
        model=model,
        limits=limits,
        stationary=stationary,
        row_indptr=parts.row_indptr,
        row_action=model.row_action[parts.row],
        reward=_rewards(model, parts),
        transitions=transitions,
        start_nodes=np.arange(len(model.start_states)),
        start_probability=model.start_probability.copy(),
        end_reward=_end_rewards(model, parts),
        feasible=parts.feasible,
        dead_ends=parts.dead_ends,
        layer_indptr=parts.layer_indptr,
        node_state=parts.state,
        node_spent_ND=parts.spent_ND,
        lattice=lattice,
        settled_low=steps.bounds.settled_low[:-1] if prune else None,
        settled_high=steps.bounds.settled_high[:-1] if prune else None,
    )


def _rewards(model: CMDP, parts: _Parts) -> NDArray[np.float64]:
    """Return the reward of each row; in the last step, with the expected reward for ending."""
    reward = model.row_reward[parts.row]
    if model.end_reward is not None and parts.layer_indptr is not None:
        last = slice(*parts.row_indptr[parts.layer_indptr[-3:-1]].tolist())
        used, place = np.unique(parts.row[last], return_inverse=True)
        first, after = model.outcome_indptr[used], model.outcome_indptr[used + 1]
        ends = [
            float(model.probability[begin:end] @ model.end_reward[model.next_state[begin:end]])
            for begin, end in zip(first.tolist(), after.tolist(), strict=True)
        ]
        reward[last] += np.array(ends, float)[place]
    return reward


def _end_rewards(model: CMDP, parts: _Parts) -> NDArray[np.float64]:
    """Return the reward for ending at each node: other than 0 only at terminal nodes."""
    reward = np.zeros(len(parts.state))
    if model.end_reward is not None:
        bare = np.diff(parts.row_indptr) == 0
        bare[parts.dead_ends], bare[-1] = False, False
        reward[bare] = model.end_reward[parts.state[bare]]
    return reward


def _check_stationary(model: CMDP, lattice: Lattice) -> None:
    if model.has_end_values:
        found = "end rewards" if model.may_end is None else "a goal (must_end_in)"
        hint = "leave it out: the last step then differs from the others"
        raise ModelError("stationary=True", "a model without end rewards and goals", found, hint)
    if not model.is_stationary:
        raise ModelError("stationary=True", "a stationary model", f"one with {model.n_tables} tables", "leave it out")
    for side in (lattice.upper_HD, lattice.lower_HD):
        for d in np.flatnonzero((side != side[0]).any(0)):
            name = lattice.resources[d]
            raise ModelError("stationary=True", "the same limits at every step", f"limits of {name} that vary")


@dataclass(frozen=True)
class _Parts:
    """Nodes and rows in flat arrays.

    Attributes
    ----------
    state : ndarray of int32, shape (N,)
    spent_ND : ndarray of int64, shape (N, D)
    layer_indptr : ndarray of int64, shape (H + 2,), or None
        Position of the first node of each step; the end comes last.
    row_indptr : ndarray of int64, shape (N + 1,)
    row : ndarray of int32, shape (R,)
        The model's row.
    entry_indptr, next_node, probability : ndarrays
        Transitions of the rows, in CSR format.
    dead_ends : ndarray of int64
        Nodes without a safe row that are not terminal.
    feasible : bool
    """

    state: NDArray[np.int32]
    spent_ND: NDArray[np.int64]
    layer_indptr: NDArray[np.int64] | None
    row_indptr: NDArray[np.int64]
    row: NDArray[np.int32]
    entry_indptr: NDArray[Any]
    next_node: NDArray[Any]
    probability: NDArray[np.float64]
    dead_ends: NDArray[np.int64]
    feasible: bool


def _expanded(steps: StepArrays, monitor: ResourceMonitor, *, prune: bool) -> _Parts:
    """Return the time-expanded form; with `prune`, without anything that leads to a dead end."""
    horizon, n_resources = steps.model.horizon, len(steps.lattice.resources)
    layers = forward(steps, monitor)
    total = sum(map(len, layers)) + 1
    largest = max(map(len, layers)) + 1
    table_bytes = 4 * (steps.grid.size or 4 * largest) + 12 * largest
    monitor.reserve(total * (22 + 8 * n_resources) + table_bytes, "the nodes of the augmented MDP")
    alive, stuck = [np.empty(0, bool)] * horizon, [np.empty(0, bool)] * horizon
    n_rows = n_entries = 0
    after = the_end(steps)
    for h in range(horizon - 1, -1, -1):
        monitor.check_time()
        layer = layers[h]
        nodes = NodeArrays(layer.state, layer.spent)
        alive[h], stuck[h], *sizes = judge(steps, h, nodes, after, keep_all=not prune)
        n_rows, n_entries = n_rows + sizes[0], n_entries + sizes[1]
        after = next_nodes(steps, h, layer, alive[h])

    rows = Rows(steps.model, n_rows, n_entries, total, monitor)
    wanted, dead_ends, layer_indptr = np.ones(len(layers[0]), bool), [], np.zeros(horizon + 2, np.int64)
    states, spents = [], []
    for h in range(horizon):
        monitor.check_time()
        last = h == horizon - 1
        after = the_end(steps) if last else next_nodes(steps, h + 1, layers[h + 1], alive[h + 1])
        nodes, begin = NodeArrays(layers[h].state, layers[h].spent), int(rows.written[1])
        reached = rows.add(steps, h, nodes, wanted, after, keep_all=not prune)
        dead_ends.append(layer_indptr[h] + np.flatnonzero((~alive[h] if prune else stuck[h])[wanted]))
        states.append(nodes.state[wanted])
        spents.append(nodes.spent_ND[wanted])
        layer_indptr[h + 1] = layer_indptr[h] + len(states[-1])
        number = np.cumsum(reached) - 1 + layer_indptr[h + 1]
        added = slice(begin, int(rows.written[1]))
        rows.next[added] = number[rows.next[added]]
        wanted = reached
    layer_indptr[-1] = layer_indptr[-2] + 1
    rows.counts.append(np.zeros(1, np.int64))
    return _Parts(
        state=np.concatenate([*states, np.array([-1], np.int32)]),
        spent_ND=np.concatenate([*spents, np.zeros((1, n_resources), np.int64)]),
        layer_indptr=layer_indptr,
        dead_ends=np.concatenate(dead_ends),
        feasible=bool(alive[0].all()),
        **rows.parts(),
    )


def _stationary(steps: StepArrays, monitor: ResourceMonitor) -> _Parts:
    """Return the form without steps: all nodes that can be reached, and rows for those reached before the end."""
    every, n_inner = _explore(steps, monitor)
    n_nodes, nodes = len(every.alive), NodeArrays(every.nodes.state[:n_inner], every.nodes.spent_ND[:n_inner])
    monitor.reserve(20 * n_nodes, "the nodes of the augmented MDP")
    _, stuck, n_rows, n_entries = judge(steps, 0, nodes, every, keep_all=True)
    rows = Rows(steps.model, n_rows, n_entries, n_nodes, monitor)
    rows.add(steps, 0, nodes, np.ones(n_inner, bool), every, keep_all=True)
    rows.counts.append(np.zeros(n_nodes - n_inner, np.int64))
    parts, dead_ends = rows.parts(), np.flatnonzero(stuck)
    return _Parts(
        state=every.nodes.state,
        spent_ND=every.nodes.spent_ND,
        layer_indptr=None,
        dead_ends=dead_ends,
        feasible=_is_feasible(parts, dead_ends, len(steps.model.start_states), steps.model.horizon, monitor),
        **parts,
    )


def _explore(steps: StepArrays, monitor: ResourceMonitor) -> tuple[NextNodes, int]:
    """Return all (state, spent) by the step at which they are first reached, and how many are before the end."""
    m, bounds, first = steps.model, steps.at(0), steps.first_layer()
    nodes = steps.index(1)._replace(state=first.state, spent_ND=first.spent)
    count = n_inner = len(first)
    begin = taken = 0
    for _ in range(m.horizon):
        n_inner = count
        while begin < n_inner:
            monitor.check_time()
            if 2 * count > len(nodes.state):
                room, n_resources = max(1024, 4 * count), nodes.spent_ND.shape[1]
                # the length of a hash table is a power of two, at most four times the number of nodes
                needed = room * (4 + 8 * n_resources) + 4 * (steps.grid.size or 4 * room)
                monitor.reserve(needed, "the nodes of the augmented MDP")
                nodes = nodes._replace(
                    state=np.resize(nodes.state[:count], room),
                    spent_ND=np.resize(nodes.spent_ND[:count], (room, n_resources)),
                    slots=steps.grid.empty(room),
                )
                kernels.fill_slots(nodes, count, monitor.halt)
                monitor.release(taken)
                taken = needed
            count, begin = augment_kernels.explore(
                begin, n_inner, steps.arrays, steps.costs, bounds, count, nodes, monitor.halt
            )
        if count == n_inner:
            break
    found = nodes._replace(state=nodes.state[:count].copy(), spent_ND=nodes.spent_ND[:count].copy())
    return NextNodes(found, np.ones(count, bool), may_end(m)), n_inner


def _is_feasible(
    parts: dict[str, Any], dead_ends: NDArray[np.int64], n_first: int, horizon: int, monitor: ResourceMonitor
) -> bool:
    """Return whether each of the first `n_first` nodes can be continued from for `horizon` steps.

    The set of nodes that cannot be continued from only grows, so the search ends at a fixed point.
    """
    dead = np.zeros(len(parts["row_indptr"]) - 1, bool)
    dead[dead_ends] = True
    for _ in range(horizon - 1):
        monitor.check_time()
        arrays = parts["row_indptr"], parts["entry_indptr"], parts["next_node"]
        if not augment_kernels.spread_dead(*arrays, dead, monitor.halt):
            break
    monitor.check_time()
    return not dead[:n_first].any()
