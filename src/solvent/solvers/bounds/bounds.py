"""What may have been spent at each step and state: the doomed and the settled, one backward pass for each resource."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.solvers.bounds.kernels import DOWN, UP, fill_bounds

#: The least and the most of something: a pair of arrays.
Interval = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Bounds:
    """What may have been spent at each (step, state); int64 arrays of shape (H + 1, S, D)."""

    safe_low: NDArray[np.int64]
    safe_high: NDArray[np.int64]
    settled_low: NDArray[np.int64]
    settled_high: NDArray[np.int64]


def look_ahead(
    model: CMDP,
    cost_OD: NDArray[np.int64],
    upper_HD: NDArray[np.int64],
    lower_HD: NDArray[np.int64],
    monitor: ResourceMonitor,
) -> tuple[NDArray[np.int64], ...]:
    """Return what may have been spent at each (step, state): the arrays of `Bounds`, in their order.

    Memory for them is to be reserved already.

    Raises
    ------
    LimitReached
        If time is up.
    """
    shape = (model.horizon + 1, model.n_states, cost_OD.shape[1])
    found = np.empty((4, *shape), np.int64)
    # nothing binds after the last step
    found[::2, -1], found[1::2, -1] = DOWN, UP
    safe_low, safe_high, settled_low, settled_high = found
    fill_bounds(
        model.table_of_step, model.row_indptr, model.outcome_indptr, model.next_state, cost_OD, upper_HD, lower_HD,
        np.empty_like(upper_HD), np.empty_like(lower_HD), safe_high, safe_low, settled_high, settled_low, monitor.halt,
    )  # fmt: skip
    monitor.check_time()
    return safe_low, safe_high, settled_low, settled_high


def _tails(upper_HD: NDArray[np.int64], lower_HD: NDArray[np.int64]) -> Interval:
    """Return the tightest limits from each step on, upper and lower, which bind once an episode is over."""
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
    """Return the doomed and settled bounds of a problem, or those of the paper's plain layers.

    Those are settled nowhere, or, for its approximate costs, within `truncation`. What lies outside `within` at a step
    and state, arrays of shape (H, S, D), is doomed for other reasons.
    """
    shape = (model.horizon + 1, model.n_states, len(lattice.resources))
    monitor.reserve(4 * 8 * int(np.prod(shape)), "bounds per step and state")
    if prune:
        bounds = look_ahead(model, lattice.cost_OD, lattice.upper_HD, lattice.lower_HD, monitor)
        safe_low, safe_high, settled_low, settled_high = bounds
    else:
        safe_low, safe_high = np.full(shape, DOWN), np.full(shape, UP)
        # nothing is looked ahead, except where the episode is over
        steps, states = np.nonzero((np.diff(model.row_indptr) == 0).reshape(-1, model.n_states)[model.table_of_step])
        tail_upper, tail_lower = _tails(lattice.upper_HD, lattice.lower_HD)
        safe_high[steps, states], safe_low[steps, states] = tail_upper[steps], tail_lower[steps]
        settled_low, settled_high = np.full(shape, UP), np.full(shape, DOWN)
        if truncation is not None:
            settled_low[:-1], settled_high[:-1] = truncation[0][:, None, :], truncation[1][:, None, :]
    if within is not None:
        np.maximum(safe_low[:-1], within[0], out=safe_low[:-1])
        np.minimum(safe_high[:-1], within[1], out=safe_high[:-1])
    return Bounds(safe_low, safe_high, settled_low, settled_high)
