"""Bounds on the amount spent at each step and state: one backward pass for each resource.

A node is doomed if even the most careful continuation may break a limit, and a resource is settled if no continuation
can break its limits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.solvers.arrays import ModelArrays, TickCosts, read_only
from solvent.solvers.bounds.arrays import Bounds, LimitArrays
from solvent.solvers.bounds.kernels import fill_bounds

__all__ = ["Bounds", "Interval", "bounds_of", "look_ahead"]

#: Lower and upper bounds: a pair of arrays of one shape.
Interval = tuple[NDArray[np.int64], NDArray[np.int64]]


def look_ahead(
    model: CMDP,
    costs: TickCosts,
    upper_HD: NDArray[np.int64],
    lower_HD: NDArray[np.int64],
    monitor: ResourceMonitor,
) -> Bounds:
    """Return the safe and the settled amounts at each (step, state).

    The caller has reserved memory for the result.

    Raises
    ------
    LimitReached
        If time runs out.
    """
    found = np.empty((4, model.horizon + 1, model.n_states, costs.cost_OD.shape[1]), np.int64)
    # after the last step there are no bounds
    found[::2, -1], found[1::2, -1] = MINUS_INFINITY, PLUS_INFINITY
    if model.may_end is not None:
        found[0, -1, ~model.may_end], found[1, -1, ~model.may_end] = PLUS_INFINITY, MINUS_INFINITY
    bounds = Bounds(*found)
    limits = LimitArrays(read_only(upper_HD), read_only(lower_HD))
    tails = LimitArrays(np.empty_like(upper_HD), np.empty_like(lower_HD))
    fill_bounds(ModelArrays.of(model), costs, limits, tails, bounds, monitor.halt)
    monitor.check_time()
    return bounds


def _tails(upper_HD: NDArray[np.int64], lower_HD: NDArray[np.int64]) -> Interval:
    """Return the tightest limits from each step on, upper and lower, which bind once an episode has ended."""
    return np.minimum.accumulate(upper_HD[::-1])[::-1], np.maximum.accumulate(lower_HD[::-1])[::-1]


def bounds_of(
    model: CMDP,
    lattice: Lattice,
    monitor: ResourceMonitor,
    *,
    prune: bool = True,
    truncation: Interval | None = None,
    within: Interval | None = None,
) -> Bounds:
    """Return bounds on the amount spent at each (step, state) of a problem.

    Parameters
    ----------
    model : CMDP
    lattice : Lattice
    monitor : ResourceMonitor
    prune : bool
        If False, return the bounds of the paper's layers: no node is doomed, and no amount is settled.
    truncation : pair of ndarrays of int64, shape (H, D), optional
        Without `prune`, amounts before each step that are settled in every state: the paper's truncation of rounded
        costs.
    within : pair of ndarrays of int64, shape (H, S, D), optional
        Nodes outside are known to be doomed.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    shape = (model.horizon + 1, model.n_states, len(lattice.resources))
    monitor.reserve(4 * 8 * int(np.prod(shape)), "bounds per step and state")
    if prune:
        bounds = look_ahead(model, TickCosts.of(lattice), lattice.upper_HD, lattice.lower_HD, monitor)
    else:
        safe_low, safe_high = np.full(shape, MINUS_INFINITY), np.full(shape, PLUS_INFINITY)
        # limits of later steps only bind where the episode has ended
        steps, states = np.nonzero((np.diff(model.row_indptr) == 0).reshape(-1, model.n_states)[model.table_of_step])
        tail_upper, tail_lower = _tails(lattice.upper_HD, lattice.lower_HD)
        safe_high[steps, states], safe_low[steps, states] = tail_upper[steps], tail_lower[steps]
        settled_low, settled_high = np.full(shape, PLUS_INFINITY), np.full(shape, MINUS_INFINITY)
        if truncation is not None:
            settled_low[:-1], settled_high[:-1] = truncation[0][:, None, :], truncation[1][:, None, :]
        bounds = Bounds(safe_low, safe_high, settled_low, settled_high)
    if within is not None:
        np.maximum(bounds.safe_low[:-1], within[0], out=bounds.safe_low[:-1])
        np.minimum(bounds.safe_high[:-1], within[1], out=bounds.safe_high[:-1])
    return bounds
