"""Following a frontier's policy from the start: which points it uses, what it earns, and what it can have spent."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.solvers.accuracy import Followed
from solvent.solvers.bounds.kernels import DOWN
from solvent.solvers.frontier.following_kernels import carry_by_hash, carry_on_grid, follow_on_grid
from solvent.solvers.frontier.frontiers import FAR, Frontier, Purse

#: Nodes are told apart by position while a table of all states and amounts has no more entries than this.
_GRID_KEYS = 4_000_000
#: Memory that an entry of such tables takes, and a node in a hash table: of this step, of the next one, and what the C
#: library keeps in between.
_BYTES_PER_KEY = 80
_BYTES_PER_NODE = 160


@dataclass(frozen=True)
class Visit:
    """Which points a policy follows from a given start.

    Attributes
    ----------
    used : ndarray of bool, shape (N,)
        Whether each point is ever followed.
    peak, trough : ndarray of int64, shape (H,)
        The most and the least that can truly have been spent after each step.
    complete : bool
        Whether these are attained; else there were too many nodes to follow, every point counts as used, and they are
        bounds.
    followed : Followed or None
        What the policy earns at each step, if it could be followed.
    """

    used: NDArray[np.bool_]
    peak: NDArray[np.int64]
    trough: NDArray[np.int64]
    complete: bool
    followed: Followed | None


def visit(
    model: CMDP,
    purse: Purse,
    frontier: Frontier,
    left: int,
    high: NDArray[np.int64],
    low: NDArray[np.int64],
    most_nodes: int = 2_000_000,
    monitor: ResourceMonitor | None = None,
) -> Visit:
    """Follow a frontier's policy from the start with `left` ticks, merging equal nodes.

    Parameters
    ----------
    model : CMDP
    purse : Purse
    frontier : Frontier
    left : int
    high, low : ndarray of int64, shape (O,)
        The most and the least that each outcome truly costs; the purse's own costs unless those were rounded.
    most_nodes : int
        How many nodes of a step are followed before giving up; with 0 nothing is followed.
    monitor : ResourceMonitor, optional
        Fewer nodes are followed if there is no memory for so many, and none any more once time is up.
    """
    monitor = monitor or ResourceMonitor()
    most_nodes = min(most_nodes, max(monitor.room, 0) // _BYTES_PER_NODE)
    most_keys = min(_GRID_KEYS, max(monitor.room, 0) // _BYTES_PER_KEY)
    used = np.zeros(len(frontier.need), bool)
    peak, trough = np.empty(model.horizon, np.int64), np.empty(model.horizon, np.int64)
    earned = Followed.begun(model)
    followed = (
        model.start_index, left, frontier.indptr_HS, frontier.need, frontier.row, model.outcome_indptr,
        model.probability, model.next_state, model.row_reward, purse.cost,
    )  # fmt: skip
    exact = np.array_equal(high, purse.cost) and np.array_equal(low, purse.cost)
    complete = False
    if most_nodes > 0 and exact:
        complete = follow_on_grid(*followed, most_keys, used, earned.reward, earned.size, trough, peak, monitor.halt)
        # this writes what is left; the most is left where the least was spent
        peak, trough = left - trough, left - peak
    elif most_nodes > 0:
        complete = carry_on_grid(
            *followed, high, low, most_keys, used, earned.reward, earned.size, peak, trough, monitor.halt
        )
    if most_nodes > 0 and not complete:
        used[:] = False
        complete = carry_by_hash(
            *followed, high, low, most_nodes, used, earned.reward, earned.size, peak, trough, monitor.halt
        )
    if complete:
        earned = earned.along(model, lambda: [frontier.row[used]])
        return Visit(used, peak, trough, complete=True, followed=earned)
    everything = np.ones(len(frontier.need), bool)
    dearest, cheapest = spent_at_most(model, high), -spent_at_most(model, -low)
    if exact:
        dearest = np.where(purse.floor == DOWN, dearest, np.minimum(dearest, left - np.maximum(purse.floor, -FAR)))
    return Visit(everything, dearest, cheapest, complete=False, followed=None)


def spent_at_most(model: CMDP, cost: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what no history has spent more of after each step: the largest cost of each step that it has taken.

    An episode that is over spends nothing more, so that with negative costs it may have spent most.
    """
    ends = model.outcome_indptr[model.row_indptr[:: model.n_states]]  # of tables, rows and their outcomes are in turn
    largest = [int(cost[a:b].max()) if a < b else 0 for a, b in pairwise(ends.tolist())]
    n_rows_TS = np.diff(model.row_indptr).reshape(model.n_tables, model.n_states)
    if n_rows_TS[model.table_of_step[0], model.start_index] == 0:
        return np.zeros(model.horizon, np.int64)
    total = np.cumsum([largest[table] for table in model.table_of_step.tolist()], dtype=np.int64)
    return total if n_rows_TS.all() else np.maximum.accumulate(total)
