"""Boxes of amounts: which amounts of each (step, state) have values, and where these are stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.solvers.arrays import ModelArrays, TickCosts, read_only
from solvent.solvers.bounds.arrays import Bounds, LimitArrays
from solvent.solvers.bounds.bounds import Interval, bounds_of
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import Boxes, BoxSizes, Reach

#: The largest number of amounts of one step, whose numbers have 32 bits.
MOST_CELLS = 2**31 - 1
#: The largest number of rows of a state, whose numbers have 16 bits.
MOST_ROWS = 2**16 - 2


@dataclass(frozen=True)
class BoxLayout:
    """The boxes of all steps of a problem.

    Resources are in an order of their own, so that the one with the most amounts comes last.

    Attributes
    ----------
    model : CMDP
    order : ndarray of int64, shape (D,)
        The resource of the problem that each axis of a box stands for.
    lattice : Lattice
        Costs and limits in that order.
    bounds : Bounds
        In that order.
    arrays : ModelArrays
    costs : TickCosts
    limits : LimitArrays
    boxes : Boxes
    sizes : BoxSizes
    bytes : int
        Memory that is reserved for the bounds and the boxes.
    """

    model: CMDP
    order: NDArray[np.int64]
    lattice: Lattice
    bounds: Bounds
    arrays: ModelArrays
    costs: TickCosts
    limits: LimitArrays
    boxes: Boxes
    sizes: BoxSizes
    bytes: int

    @classmethod
    def at_start(
        cls,
        model: CMDP,
        lattice: Lattice,
        monitor: ResourceMonitor,
        *,
        start: Interval | None = None,
        within: Interval | None = None,
    ) -> BoxLayout:
        """Return the boxes of all amounts that can be reached from the first states.

        Parameters
        ----------
        model : CMDP
        lattice : Lattice
        monitor : ResourceMonitor
        start : pair of ndarrays of int64, shape (D,), optional
            Least and most spent before the first step. Default: the initial amounts.
        within : pair of ndarrays of int64, shape (H, S, D), optional
            Nodes outside are known to be doomed.

        Raises
        ------
        LimitReached
            If time or memory runs out.
        """
        used = monitor.used
        order = _order(model, lattice)
        if (np.diff(order) < 0).any():
            lattice = _ordered(lattice, order)
            within = None if within is None else (within[0][..., order], within[1][..., order])
            start = None if start is None else (start[0][order], start[1][order])
        bounds = bounds_of(model, lattice, monitor, within=within)
        low_D, high_D = (lattice.initial_D, lattice.initial_D) if start is None else start
        shape = (model.n_states, len(lattice.resources))
        reach = Reach(np.full(shape, PLUS_INFINITY), np.full(shape, MINUS_INFINITY))
        reach.low_SD[model.start_states], reach.high_SD[model.start_states] = low_D, high_D
        arrays, costs = ModelArrays.of(model), TickCosts.of(lattice)
        limits = LimitArrays(read_only(lattice.upper_HD), read_only(lattice.lower_HD))
        layers, n_states = model.horizon + 1, model.n_states
        monitor.reserve(8 * layers * (4 * shape[0] * shape[1] + 3 * (n_states + 1) + 5), "boxes of amounts")
        low, width, arrival_low, arrival_width = np.empty((4, layers, *shape), np.int64)
        offset, arrival_offset, cell = np.empty((3, layers, n_states + 1), np.int64)
        arrival_offset[0] = 0  # nothing arrives before the first step
        pitch_H = np.empty(layers, np.int64)
        boxes = Boxes(low, width, arrival_low, arrival_width, pitch_H, offset, arrival_offset, cell)
        sizes = BoxSizes(*np.zeros((4, layers)))
        kernels.fill_boxes(arrays, costs, limits, bounds, reach, boxes, sizes, monitor.halt)
        monitor.check_time()
        return cls(model, order, lattice, bounds, arrays, costs, limits, boxes, sizes, monitor.used - used)

    @property
    def content(self) -> tuple[Any, ...]:
        """What determines the result of a sweep, for the name of its section in a checkpoint."""
        boxes = (self.boxes.low, self.boxes.width, self.boxes.arrival_low, self.boxes.arrival_width)
        return (*self.arrays, *self.costs, *self.limits, *self.bounds, *boxes)

    @property
    def work(self) -> float:
        """Number of outcomes that are evaluated in all steps, and of values that are stored."""
        return float(self.sizes.work_H.sum() + self.sizes.stored_H.sum() + self.sizes.arrivals_H.sum())

    @property
    def peak_bytes(self) -> float:
        """Memory for a sweep: the values, the arrivals and the best rows of the largest steps, and their runs."""
        cells, stored, arrivals = (float(each.max()) for each in self.sizes[:3])
        return 10 * stored + 8 * arrivals + 6 * cells

    def restored(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return an array whose last axis is that of a box in the problem's order of resources."""
        result = np.empty_like(ends)
        result[..., self.order] = ends
        return result


def spans(model: CMDP, lattice: Lattice) -> NDArray[np.float64]:
    """Return upper bounds on the number of amounts of each resource, shape (D,), from costs and limits alone."""
    initial = lattice.initial_D.astype(float)
    costs = lattice.cost_OD
    rise = np.maximum(costs.max(0, initial=0), 0).astype(float) * model.horizon
    fall = np.minimum(costs.min(0, initial=0), 0).astype(float) * model.horizon
    most = np.minimum(np.minimum(initial + rise, lattice.upper_HD.max(0)), lattice.ceiling_D)
    least = np.maximum(np.maximum(initial + fall, lattice.lower_HD.min(0)), lattice.floor_D)
    counts: NDArray[np.float64] = np.maximum(most - least, 0.0) + 1
    return counts


def _order(model: CMDP, lattice: Lattice) -> NDArray[np.int64]:
    """Return the resources by the number of their amounts, smallest first."""
    n_resources = len(lattice.resources)
    return np.argsort(spans(model, lattice), kind="stable") if n_resources > 1 else np.arange(n_resources)


def _ordered(lattice: Lattice, order: NDArray[np.int64]) -> Lattice:
    """Return a lattice with its resources in another order."""
    return replace(
        lattice,
        resources=tuple(lattice.resources[d] for d in order),
        units=tuple(lattice.units[d] for d in order),
        cost_OD=np.ascontiguousarray(lattice.cost_OD[:, order]),
        upper_HD=np.ascontiguousarray(lattice.upper_HD[:, order]),
        lower_HD=np.ascontiguousarray(lattice.lower_HD[:, order]),
        initial_D=lattice.initial_D[order],
        floor_D=lattice.floor_D[order],
        ceiling_D=lattice.ceiling_D[order],
    )
