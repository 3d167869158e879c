"""Following the policy of a frontier from the start: the points it uses, what it earns, and what it can spend."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.solvers.accuracy import Followed
from solvent.solvers.arrays import ModelArrays
from solvent.solvers.frontier.following_kernels import (
    FollowedCosts,
    FollowedSteps,
    Starts,
    follow_by_hash,
    follow_on_grid,
    follow_points,
    follow_runs,
)
from solvent.solvers.frontier.frontier import Frontier
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.problem import TrueCosts

#: Number of nodes of one step that are followed before giving up.
MAX_NODES = 2_000_000
#: Nodes are entries of a table of all states and amounts if it has at most this many entries.
_GRID_KEYS = 4_000_000
#: Memory per entry of such a table, and per node of a hash table: for this step, the next one, and what the C library
#: keeps in between.
_BYTES_PER_KEY = 80
_BYTES_PER_NODE = 160
#: Larger than any amount it is compared with.
_FAR = 2**62
#: Ticks that stand for no floor, with the other sign, or no ceiling; they can be negated.
_OPEN = int(PLUS_INFINITY)


@dataclass(frozen=True)
class Following:
    """What the policy of a frontier does from a given start.

    Attributes
    ----------
    used : ndarray of bool, shape (N,)
        Whether each point is ever followed.
    most, least : ndarray of int64, shape (H,)
        The most and the least that can truly have been spent after each step.
    complete : bool
        Whether these are attained. If not, the policy has too many nodes to be followed, they are bounds, and every
        point counts as used.
    followed : Followed or None
        Expected rewards of each step, if complete.
    """

    used: NDArray[np.bool_]
    most: NDArray[np.int64]
    least: NDArray[np.int64]
    complete: bool
    followed: Followed | None


def follow_policy(
    model: CMDP,
    resource: SingleResource,
    frontier: Frontier,
    left: int,
    *,
    origin: int = 0,
    truth: TrueCosts | None = None,
    max_nodes: int = MAX_NODES,
    monitor: ResourceMonitor | None = None,
    kernels: Sequence[Any] = (),
) -> Following:
    """Follow the policy of a frontier from the start, merging equal nodes.

    Parameters
    ----------
    model : CMDP
    resource : SingleResource
    frontier : Frontier
    left : int
        The amount left at the start.
    origin : int
        The amount that would be left if nothing had been spent.
    truth : TrueCosts, optional
        The true costs; those of the resource if not given.
    max_nodes : int
        Number of nodes of one step that are followed before giving up; 0 to follow none.
    monitor : ResourceMonitor, optional
        Fewer nodes are followed if its memory limit requires it, and none after its time limit.
    kernels : sequence of kernels, optional
        Try these one after another, instead of those that suit the frontier.
    """
    monitor = monitor or ResourceMonitor()
    max_nodes = min(max_nodes, max(monitor.room, 0) // _BYTES_PER_NODE)
    max_keys = min(_GRID_KEYS, max(monitor.room, 0) // _BYTES_PER_KEY)
    costs = _costs(resource, left, origin, truth)
    horizon, points = model.horizon, frontier.points
    earned, complete = Followed.begun(model), False
    if max_nodes > 0:
        steps = FollowedSteps(
            np.zeros(len(points.need), bool), earned.reward, earned.size, np.empty(horizon, np.int64),
            np.empty(horizon, np.int64),
        )  # fmt: skip
        arrays, starts = ModelArrays.of(model), Starts(model.start_states, model.start_probability, left)
        on_grid = (follow_runs if costs.exact else follow_on_grid, follow_by_hash)
        # points of arrays begin where the row changes, not where the value rises
        for kernel in kernels or (on_grid if frontier.dense else (follow_points, *on_grid)):
            size_limit = max_keys if kernel in (follow_runs, follow_on_grid) else max_nodes
            complete = kernel(starts, points, arrays, costs, size_limit, steps, monitor.halt)
            if complete:
                break
            steps.used[:] = False
    if complete:
        earned = earned.along(model, lambda: [points.row[steps.used]])
        return Following(steps.used, steps.most_H, steps.least_H, complete=True, followed=earned)
    most = _furthest(model, costs.high, costs.start_high, costs.floor_high, costs.ceiling_high)
    least = -_furthest(model, -costs.low, -costs.start_low, -costs.ceiling_low, -costs.floor_low)
    if costs.exact:
        limit = origin - np.maximum(resource.least_left, -_FAR)
        most = np.where(resource.least_left == MINUS_INFINITY, most, np.minimum(most, limit))
    return Following(np.ones(len(points.need), bool), most, least, complete=False, followed=None)


def _costs(resource: SingleResource, left: int, origin: int, truth: TrueCosts | None) -> FollowedCosts:
    """Return the costs of outcomes as planned with and as they are, both in the orientation of the resource."""
    if truth is None:
        floor = -_OPEN if resource.most_left == PLUS_INFINITY else origin - resource.most_left
        ends = (origin - left, origin - left, floor, floor, _OPEN, _OPEN)
        return FollowedCosts(resource.cost, resource.cost, resource.cost, *ends, resource.most_left, origin, exact=True)
    low, high = resource.oriented(truth.low_OD[:, 0], truth.high_OD[:, 0])
    accounts = [
        np.clip([each[0] for each in side], -_OPEN, _OPEN) for side in (truth.low_accounts, truth.high_accounts)
    ]
    (low_start, low_floor, low_ceiling), (high_start, high_floor, high_ceiling) = (each.tolist() for each in accounts)
    if resource.mirrored:
        low_start, high_start = -high_start, -low_start
        low_floor, high_floor, low_ceiling, high_ceiling = -high_ceiling, -low_ceiling, -high_floor, -low_floor
    # costs of 0 are the same in every unit, but the account need not be
    floor = -_OPEN if resource.most_left == PLUS_INFINITY else origin - resource.most_left
    same = low_start == high_start == origin - left and low_floor == high_floor == floor and low_ceiling == _OPEN
    exact = same and truth.exact and np.array_equal(low, resource.cost) and np.array_equal(high, resource.cost)
    ends = (low_start, high_start, low_floor, high_floor, low_ceiling, high_ceiling)
    return FollowedCosts(resource.cost, low, high, *ends, resource.most_left, origin, exact)


def _furthest(model: CMDP, cost: NDArray[np.int64], start: int, floor: int, ceiling: int) -> NDArray[np.int64]:
    """Return an upper bound on the amount spent after each step: the largest cost of each step, added up.

    An episode that is over spends nothing more, so with negative costs it may have spent the most.

    Returns
    -------
    ndarray of int64, shape (H,)
    """
    # the rows of a table, and their outcomes, are stored one after another
    ends = model.outcome_indptr[model.row_indptr[:: model.n_states]]
    largest = [int(cost[a:b].max()) if a < b else 0 for a, b in pairwise(ends.tolist())]
    n_rows_TS = np.diff(model.row_indptr).reshape(model.n_tables, model.n_states)
    ended = n_rows_TS[model.table_of_step[0], model.start_states] == 0
    if ended.all():
        return np.full(model.horizon, start, np.int64)
    steps = [largest[table] for table in model.table_of_step.tolist()]
    if floor == -_OPEN and ceiling == _OPEN:
        total = start + np.cumsum(steps, dtype=np.int64)
    else:
        clamped = itertools.accumulate(steps, lambda spent, cost: min(max(spent + cost, floor), ceiling), initial=start)
        total = np.array(list(clamped)[1:], np.int64)
    if n_rows_TS.all():
        return total
    return np.maximum.accumulate(np.maximum(total, start) if ended.any() else total)
