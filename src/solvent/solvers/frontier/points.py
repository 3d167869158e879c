"""Frontiers as points, merged backward step by step.

If the value of a single amount at the start is wanted, few amounts are reached at the first steps, and many points of
these would be computed in vain. So the two directions meet: points are merged backward and the amounts that can be
reached are enumerated forward, in turn wherever there are fewer of them, until all steps are covered. At the steps with
known amounts, the value of each of them is computed, and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.checkpoint import Section
from solvent.core.exact import MINUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.solvers.accuracy import Extremes
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.frontier import Frontier
from solvent.solvers.frontier.point_kernels import Points, Precision, StepExtremes, Wanted, merge, spread
from solvent.solvers.frontier.saved import check_points, load_points, open_section
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

    @property
    def state(self) -> dict[str, int]:
        """Numbers for a checkpoint."""
        return {"known": self.known, "enough": self.enough, "amounts": len(self._left)}

    @property
    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """Arrays for a checkpoint."""
        ends = self._indptr_HS[: self.known]
        return {"known": ends, "left": self._left[: int(ends[-1, -1])]} if self.known else {}

    def restore(self, section: Section, step: int) -> None:
        """Restore what was saved before the points of `step` were extended."""
        n_states, least = self._bounds.model.n_states, self.enough
        known = section.whole("known", 0, self._bounds.model.horizon)
        self.enough = section.whole("enough", least, _NO_LIMIT)
        if not known or not step:
            return
        ends = section.array("known", np.int64, (known, n_states + 1))
        left = section.array("left", np.int64, (None,))
        room = section.whole("amounts", max(len(left), 1024 + 16 * n_states), _NO_LIMIT)
        chained = ends[0, 0] == 0 and (ends[1:, 0] == ends[:-1, -1]).all() and ends[-1, -1] == len(left)
        increasing = (np.diff(left) > 0) | np.isin(np.arange(1, len(left)), ends)
        if (
            not chained
            or (np.diff(ends, axis=1) < 0).any()
            or not increasing.all()
            or (np.abs(left) >= _NO_LIMIT).any()
        ):
            raise section.damaged("left", "amounts of each state that increase", "others")
        self._begin(room)
        self._indptr_HS[:known], self._left[: len(left)], self.known = ends, left, known

    def _begin(self, room: int) -> None:
        """Make room for the first amounts."""
        model = self._bounds.model
        self._monitor.reserve(8 * model.horizon * (model.n_states + 1), "the amounts of all steps")
        self._indptr_HS = np.zeros((model.horizon, model.n_states + 1), np.int64)
        self._resize(room)

    def extend(self, stop: int, size: int) -> None:
        """Enumerate amounts before step `stop` until a step has at least `size` of them."""
        bounds, monitor = self._bounds, self._monitor
        if self.known == 0:
            self._begin(1024 + 16 * bounds.model.n_states)
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
    return _Merge(bounds, precision, monitor).run()


class _Merge:
    """Points of the steps from `_step` on, and the values of those of `_step`."""

    def __init__(self, bounds: FrontierBounds, precision: Precision, monitor: ResourceMonitor) -> None:
        self._bounds, self._precision, self._monitor = bounds, precision, monitor
        model, horizon, n_states = bounds.model, bounds.model.horizon, bounds.model.n_states
        indptr_HS = np.zeros((horizon + 1, n_states + 1), np.int64)
        # after the last step the value is that of ending in a state, with any amount left
        may_end = model.end_value > -np.inf
        indptr_HS[horizon, 1:] = np.cumsum(may_end)
        self._room = self._wide = 4096 + 16 * n_states
        # the values of a step, those of the step after it, and a copy of them
        monitor.reserve(12 * self._room + 8 * indptr_HS.size + 24 * self._wide, "the points of all steps")
        self._points = Points(indptr_HS, np.empty(self._room, np.int64), np.empty(self._room, np.int32))
        self._points.need[:n_states], self._points.row[:n_states] = MINUS_INFINITY, TERMINAL
        self._step, self._value = horizon, model.end_value[may_end]
        self._extremes = Extremes.none(model, bounds.last_rows)
        self._reached = _Reached(bounds, monitor)
        self._section = open_section("points", bounds, monitor, *precision)
        self._saved = self._count

    @property
    def _count(self) -> int:
        """Number of points, counting those after the last step."""
        return int(self._points.indptr_HS[self._step, -1])

    def run(self) -> Frontier:
        """Merge the points of all steps."""
        monitor, horizon, precision = self._monitor, self._bounds.model.horizon, self._precision
        self._load()
        while self._step > 0:
            if monitor.should_save():
                self._save()
            monitor.check_time()
            monitor.tell("backward", horizon - self._step, horizon, points=self._count)
            with monitor.postponed():
                self._merge()
        self._save()
        monitor.check_time()
        self._reached.release()
        monitor.release(24 * self._wide - 8 * len(self._value))
        indptr_HS, need, row = self._points
        points = Points(indptr_HS[:horizon], need[: self._count], row[: self._count])
        return Frontier.of(
            self._bounds.model, points, self._value, self._extremes, resolution=precision.resolution, up=precision.up
        )

    def _merge(self) -> None:
        """Merge the points of some steps, or enlarge what is too short for one of them."""
        bounds, monitor, reached = self._bounds, self._monitor, self._reached
        many = self._room > _MANY_POINTS or self._section is not None
        stop = max(0, self._step - _WATCHED_STEPS) if monitor.watched and many else 0
        extremes = StepExtremes(self._extremes.top, self._extremes.bottom, self._extremes.reward)
        self._step, self._value = merge(
            bounds.arrays, bounds.resource, reached.wanted(), self._precision, self._step, stop, self._value,
            self._points, np.empty(self._wide), extremes, monitor.halt,
        )  # fmt: skip
        monitor.check_time()
        free, wide = self._room - self._count, self._wide
        if self._step > reached.known and len(self._value) > reached.enough:
            reached.extend(self._step, len(self._value))
            wide = max(wide, 8 * len(self._value))  # a guess, so that the next step is not begun in vain
        elif self._step == stop:
            return
        elif wide < 2 * free:
            wide = _larger(wide)
        # enlarge what is too short: the array for the values of one step, those for the points of all steps, or both
        self._widen(wide, f"the points of step {self._step - 1}")
        if free < wide:
            longer = max(_larger(self._room), self._room - free + wide)
            self._lengthen(longer, f"the points of step {self._step - 1}")

    def _widen(self, wide: int, what: str) -> None:
        """Make room for the values of a step."""
        self._monitor.reserve(24 * (wide - self._wide), what)
        self._wide = wide

    def _lengthen(self, room: int, what: str) -> None:
        """Make room for points."""
        self._monitor.reserve(12 * room, what)
        indptr_HS, need, row = self._points
        self._points = Points(indptr_HS, grown(need, room), grown(row, room))
        self._monitor.release(12 * self._room)
        self._room = room

    @property
    def _base(self) -> int:
        """Number of points after the last step."""
        return int(self._points.indptr_HS[-1, -1])

    def _save(self) -> None:
        """Save the points of the steps so far; those since the last time are added to those before."""
        horizon, indptr_HS = self._bounds.model.horizon, self._points.indptr_HS
        if self._section is None or self._step == horizon:
            return
        state = {"step": self._step, "room": self._room, "wide": self._wide, **self._reached.state}
        arrays = {
            "indptr": indptr_HS[self._step : horizon] - self._base,
            "value": self._value,
            "extremes": self._extremes.saved,
            **self._reached.arrays,
        }
        new, added = slice(self._saved, self._count), dict[str, NDArray[Any]]()
        if self._saved < self._count:
            added = {"need": self._points.need[new], "row": self._points.row[new]}
        dropped = tuple(self._reached.arrays) if self._step == 0 else ()
        arrays = {name: array for name, array in arrays.items() if name not in dropped}
        if self._section.save(state, arrays, added, dropped=dropped):
            self._saved = self._count

    def _load(self) -> None:
        """Restore what was saved, with as much memory reserved as if it had just been computed."""
        section, model, base = self._section, self._bounds.model, self._base
        if section is None or not section.state:
            return
        step = section.whole("step", 0, model.horizon - 1)
        found = load_points(section, model, step)
        check_points(section, self._bounds, found, step)
        count = base + len(found.need)
        room = section.whole("room", max(count, self._room), _NO_LIMIT)
        size = int(found.indptr_HS[0, -1] - found.indptr_HS[0, 0])
        wide = section.whole("wide", max(size, self._wide), _NO_LIMIT)
        self._widen(wide, "the points of all steps")
        if room > self._room:
            self._lengthen(room, "the points of all steps")
        value = section.array("value", np.float64, (size,)).copy()
        if not (value < np.inf).all():
            raise section.damaged("value", "numbers", "others")
        self._extremes.restore(section)
        self._reached.restore(section, step)
        self._points.indptr_HS[step:-1] = found.indptr_HS + base
        self._points.need[base:count], self._points.row[base:count] = found.need, found.row
        self._step, self._value, self._saved = step, value, count


def _larger(size: int) -> int:
    """Return a larger size for an array that is too short."""
    return (4 if size < _SMALL else 2) * size
