"""Computing a frontier, as points or arrays."""

from __future__ import annotations

from solvent.core.limits import ResourceMonitor
from solvent.solvers.frontier.arrays import sweep_arrays
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.frontier import Frontier
from solvent.solvers.frontier.point_kernels import Precision
from solvent.solvers.frontier.points import merge_points


def build(
    bounds: FrontierBounds,
    monitor: ResourceMonitor,
    *,
    arrays: bool | None = None,
    resolution: float = 0.0,
    up: bool = False,
) -> Frontier:
    """Compute the frontier of a model backward.

    Parameters
    ----------
    bounds : FrontierBounds
        Has the model, the resource, and the range of amounts at the start.
    monitor : ResourceMonitor
    arrays : bool, optional
        Whether functions are computed as arrays or kept as points; if not given, the one likely to be faster.
    resolution : float
        For points: at each step, values with at most this difference are merged.
    up : bool
        Whether merged values are rounded up, for an upper bound, or down, for a policy that attains them.

    Raises
    ------
    LimitReached
        If a step does not fit into the memory limit, or the time limit is reached.
    """
    if arrays is None:
        arrays = resolution == 0 and bounds.pays_as_arrays
    if arrays:
        return sweep_arrays(bounds, monitor)
    return merge_points(bounds, Precision(float(resolution), up), monitor)
