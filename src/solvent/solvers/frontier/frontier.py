"""Frontiers: the optimal value for every amount of one limited resource.

Let `left` be the amount that may still be spent. Spending less is never worse, so at each (step, state) the optimal
value is a non-decreasing step function of `left`,

    V_h(s, n) = max over a of  r_h(s, a) + E[ V_{h+1}(s', n - c) ]   over rows with  n - c >= least_left_h  surely,

with n - c cut to `most_left` if the resource saturates: points that need more are left out, and nothing else changes.
Only the points where it rises are kept: (need, value, row), with increasing need and value. They are computed
backward: for each state, the shifted points of all outcomes of all rows are merged (`points`). Dominated points never
arise, which is why the paper's NP-hard family stays small. Where amounts are few, the same functions are computed as
plain arrays instead (`arrays`).

Values whose relative difference is at most `accuracy.SAME_POINT` count as one point, so that rounding errors do not
create points. The effect on the value is part of the bounds of every answer (`accuracy`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.model.cmdp import CMDP
from solvent.policy.search import changes
from solvent.solvers.accuracy import SAME_POINT, Extremes, Rounding
from solvent.solvers.frontier.point_kernels import Points
from solvent.solvers.starts import expectation_error, expected_value


@dataclass(frozen=True)
class Frontier:
    """The step functions of all states at all steps.

    Attributes
    ----------
    points : Points
        Points of all steps and states, without their values.
    start_need : ndarray of int64, shape (P,)
    start_value : ndarray of float64, shape (P,)
        The points of the start: the expectation over first states, from the amount on with which all are feasible.
    start_error : float
        Bound on the rounding error of that expectation.
    swept : pair of ndarrays of int64, shape (H,), or None
        The smallest and the largest amount of each step, if the functions were computed as arrays.
    extremes : Extremes
        Extreme values of each step, for bounds on rounding errors.
    resolution : float
        Values with at most this absolute difference were merged.
    up : bool
        Whether merged values were rounded up.
    pooled : bool
        Whether values were averaged over cost distributions that rows share.
    """

    points: Points
    start_need: NDArray[np.int64]
    start_value: NDArray[np.float64]
    start_error: float
    swept: tuple[NDArray[np.int64], NDArray[np.int64]] | None
    extremes: Extremes
    resolution: float
    up: bool
    pooled: bool

    @classmethod
    def of(
        cls,
        model: CMDP,
        points: Points,
        value: NDArray[np.float64],
        extremes: Extremes,
        *,
        swept: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
        resolution: float = 0.0,
        up: bool = False,
        pooled: bool = False,
    ) -> Frontier:
        """Return the frontier with these points; `value` holds the values of the points of the first step."""
        indptr_S = points.indptr_HS[0]
        starts = []
        for s in model.start_states.tolist():
            begin, end = indptr_S[s : s + 2].tolist()
            starts.append((points.need[begin:end], value[begin - int(indptr_S[0]) : end - int(indptr_S[0])]))
        start_need, start_value, error = _expectation(model, starts)
        return cls(points, start_need, start_value, error, swept, extremes, resolution, up, pooled)

    def above(self, value: float, rounding: Rounding) -> float:
        """Return by how much the optimum can exceed a value at the start."""
        if self.up:
            return self.extremes.above(value, rounding) + self.start_error
        if self.dense:  # values are merged at the start only
            merged = 2 * SAME_POINT * (abs(value) if not self.start_error else self._largest_start)
            return self.extremes.above(value, rounding) + merged + self.start_error
        return self.extremes.above(value, rounding, same=SAME_POINT, resolution=self.resolution) + self.start_error

    @property
    def _largest_start(self) -> float:
        """Return a bound on the absolute value of any first state."""
        return float(max(self.extremes.top[0], -self.extremes.bottom[0]))

    def noise(self, value: float, rounding: Rounding) -> float:
        """Return the part of `above` that is not due to the resolution."""
        return self.extremes.above(value, rounding, same=0.0 if self.up else SAME_POINT) + self.start_error

    @property
    def dense(self) -> bool:
        """Whether the functions were computed as arrays."""
        return self.swept is not None

    def value(self, left: int) -> float:
        """Return the optimal value with `left` ticks at the start; minus infinity if nothing is feasible."""
        at = int(np.searchsorted(self.start_need, left, side="right")) - 1
        return float(self.start_value[at]) if at >= 0 else -np.inf

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Number of points at each step."""
        indptr_HS = self.points.indptr_HS
        return tuple((indptr_HS[:, -1] - indptr_HS[:, 0]).tolist())

    def distinct_amounts(self, lowest: int, highest: int) -> int:
        """Return the largest number of amounts between two that one step distinguishes."""
        if self.swept is None:
            return self._distinct_needs(lowest, highest)
        first, last = np.clip(self.swept, lowest, highest)
        return int((last - first).max()) + 1

    def _distinct_needs(self, lowest: int, highest: int) -> int:
        """Return the largest number of different needs between two amounts among the points of one step."""
        indptr_HS = self.points.indptr_HS
        sizes = indptr_HS[:, -1] - indptr_HS[:, 0]
        step = np.repeat(np.arange(len(sizes)), sizes)
        first = np.cumsum(sizes) - sizes
        at = np.arange(len(step)) - first[step] + indptr_HS[step, 0]
        need = np.clip(self.points.need[at], lowest, highest)
        order = np.lexsort((need, step))
        need, step = need[order], step[order]
        new = np.append(True, (need[1:] != need[:-1]) | (step[1:] != step[:-1])) if len(need) else np.zeros(0, bool)
        return int(np.bincount(step[new], minlength=1).max())

    def layers(self, model: CMDP, used: NDArray[np.bool_]) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Return (state, need, action) of the used points of each step at which an action is taken."""
        found = []
        for indptr in self.points.indptr_HS:
            at = slice(int(indptr[0]), int(indptr[-1]))
            keep = np.flatnonzero(used[at] & (self.points.row[at] >= 0))
            state, row = np.repeat(np.arange(model.n_states), np.diff(indptr))[keep], self.points.row[at][keep]
            # of consecutive points with the same row, the first, which needs the least, is enough
            new = changes(state, row)
            found.append((state[new], self.points.need[at][keep][new], model.row_action[row[new]]))
        return found


def _expectation(
    model: CMDP, starts: list[tuple[NDArray[np.int64], NDArray[np.float64]]]
) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """Return the expectation of step functions, given by their points, and a bound on its rounding error."""
    if len(starts) == 1:
        return *starts[0], 0.0
    if not all(len(need) for need, _ in starts):
        return np.empty(0, np.int64), np.empty(0), 0.0
    least = max(int(need[0]) for need, _ in starts)
    needs = np.unique(np.concatenate([[least], *(need[need > least] for need, _ in starts)]))
    values = [value[np.searchsorted(need, needs, side="right") - 1] for need, value in starts]
    each = list(zip(*(value.tolist() for value in values), strict=True))
    error = max(expectation_error(model, value) for value in each)
    total = np.array([expected_value(model, value) for value in each])
    rises = np.append(True, np.maximum.accumulate(total)[:-1] < total[1:])
    return needs[rises], total[rises], error
