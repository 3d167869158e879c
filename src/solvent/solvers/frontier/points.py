"""Frontiers as points, merged backward step by step.

If the value of a single amount at the start is wanted, few amounts are reached at the first steps, and many points of
these would be computed in vain. So the two directions meet: points are merged backward and the amounts that can be
reached are enumerated forward, in turn wherever there are fewer of them, until all steps are covered. At the steps with
known amounts, the value of each of them is computed, and nothing else.
"""

from __future__ import annotations

import numpy as np

from solvent.core.exact import MINUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.solvers.accuracy import Extremes
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.frontier import Frontier
from solvent.solvers.frontier.point_kernels import Points, Precision, StepExtremes, Wanted, merge, spread
from solvent.solvers.reduction.kernels import TERMINAL
from solvent.solvers.reduction.layers import grown

#: Steps in one call, if time or progress is watched and the points are many.
_WATCHED_STEPS, _MANY_POINTS = 16, 1 << 20
#: Arrays with fewer places than this are made four times as long if they are too short, others twice as long.
_SMALL = 1 << 16
#: Amounts are enumerated forward only after a step with more points than this.
MEET_FROM = 1000
_NO_LIMIT = 2**62


class _Reached:
    """Amounts that can be left at the first steps, enumerated forward as far as it pays.

    Attributes
    ----------
    known : int
        Number of steps at which they are known.
    """

    def __init__(self, bounds: FrontierBounds, monitor: ResourceMonitor) -> None:
        self._bounds, self._monitor = bounds, monitor
        self.known = 0
        self._indptr_HS, self._left = np.zeros((1, bounds.model.n_states + 1), np.int64), np.empty(0, np.int64)
        self.enough = MEET_FROM if bounds.has_one_start else _NO_LIMIT

    def wanted(self) -> Wanted:
        """Return what is known as an argument of `merge`."""
        ranges = self._bounds.ranges
        return Wanted(ranges.need, ranges.highest, self.known, self._indptr_HS, self._left, self.enough)

    def extend(self, stop: int, size: int) -> None:
        """Enumerate amounts before step `stop` until a step has at least `size` of them."""
        bounds, monitor = self._bounds, self._monitor
        if self.known == 0:
            monitor.reserve(8 * bounds.ranges.need.shape[0] * (bounds.model.n_states + 1), "the amounts of all steps")
            self._indptr_HS = np.zeros((bounds.model.horizon, bounds.model.n_states + 1), np.int64)
            self._resize(1024 + 16 * bounds.model.n_states)
            starts = np.flatnonzero(bounds.top_HS[0] >= bounds.need_HS[0])
            self._left[: len(starts)] = bounds.top_HS[0, starts]
            self._indptr_HS[0, 1:] = np.cumsum(bounds.top_HS[0] >= bounds.need_HS[0])
            self.known = 1
        full = True
        while full:
            step, full = spread(
                bounds.arrays, bounds.resource, bounds.ranges, self.known - 1, stop - 1, size, self._indptr_HS,
                self._left, monitor.halt,
            )  # fmt: skip
            monitor.check_time()
            self.known = step + 1
            if full:
                self._resize(2 * len(self._left))
        # no more are needed before a step with more points than this
        self.enough = max(self.enough, int(self._indptr_HS[self.known - 1, -1] - self._indptr_HS[self.known - 1, 0]))

    def _resize(self, size: int) -> None:
        """Make room for a number of amounts."""
        # the amounts, and those of one step before they are merged
        self._monitor.reserve(24 * (size - len(self._left)), "the amounts of all steps")
        self._left = grown(self._left, size)

    def release(self) -> None:
        """Release the memory."""
        self._monitor.release(24 * len(self._left) + (self._indptr_HS.nbytes if self.known else 0))


def merge_points(bounds: FrontierBounds, precision: Precision, monitor: ResourceMonitor) -> Frontier:
    """Return the frontier as points.

    Raises
    ------
    LimitReached
        If the points do not fit into the memory limit, or the time limit is reached.
    """
    model, horizon, n_states = bounds.model, bounds.model.horizon, bounds.model.n_states
    indptr_HS = np.zeros((horizon + 1, n_states + 1), np.int64)
    # after the last step the value is that of ending in a state, with any amount left
    may_end = model.end_value > -np.inf
    indptr_HS[horizon, 1:] = np.cumsum(may_end)
    room = wide = 4096 + 16 * n_states
    # the values of a step, those of the step after it, and a copy of them
    monitor.reserve(12 * room + 8 * indptr_HS.size + 24 * room, "the points of all steps")
    points = Points(indptr_HS, np.empty(room, np.int64), np.empty(room, np.int32))
    points.need[:n_states], points.row[:n_states] = MINUS_INFINITY, TERMINAL
    step, value, extremes = horizon, model.end_value[may_end], Extremes.none(model, bounds.last_rows)
    out_extremes = StepExtremes(extremes.top, extremes.bottom, extremes.reward)
    reached = _Reached(bounds, monitor)
    while step > 0:
        monitor.check_time()
        monitor.tell("backward", horizon - step, horizon, points=int(indptr_HS[step, -1]))
        stop = max(0, step - _WATCHED_STEPS) if monitor.watched and room > _MANY_POINTS else 0
        step, value = merge(
            bounds.arrays, bounds.resource, reached.wanted(), precision, step, stop, value, points, np.empty(wide),
            out_extremes, monitor.halt,
        )  # fmt: skip
        monitor.check_time()
        free, new_wide = room - int(indptr_HS[step, -1]), wide
        if step > reached.known and len(value) > reached.enough:
            reached.extend(step, len(value))
            new_wide = max(wide, 8 * len(value))  # a guess, so that the next step is not begun in vain
        elif step == stop:
            continue
        elif wide < 2 * free:
            new_wide = _larger(wide)
        # enlarge what is too short: the array for the values of one step, those for the points of all steps, or both
        what = f"the points of step {step - 1}"
        monitor.reserve(24 * (new_wide - wide), what)
        wide = new_wide
        if free < wide:
            longer = max(_larger(room), room - free + wide)
            monitor.reserve(12 * longer, what)
            points = Points(indptr_HS, grown(points.need, longer), grown(points.row, longer))
            monitor.release(12 * room)
            room = longer
    reached.release()
    monitor.release(24 * wide - 8 * len(value))
    count = int(indptr_HS[0, -1])
    points = Points(indptr_HS[:horizon], points.need[:count], points.row[:count])
    return Frontier.of(model, points, value, extremes, resolution=precision.resolution, up=precision.up)


def _larger(size: int) -> int:
    """Return a larger size for an array that is too short."""
    return (4 if size < _SMALL else 2) * size
