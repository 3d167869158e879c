"""Planning with what was counted: which rows to play, which policy to return, and bounds on values.

A plan has three rows for each node, computed backward over the steps with the bounds of `solvent.learning.bonus`:

    exploring   the greatest upper bound with small radii: finds a good policy in few episodes
    optimistic  the greatest upper bound with full radii: closes the gap
    policy      the greatest lower bound with small radii: what would be returned now

Three of four episodes play the first, the fourth the second. The upper bound on the optimum is that of the optimistic
rows, and the lower bound is computed for the rows of the policy, both with full radii, so they hold no matter which
rows were played.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.learning.bonus import Bonus, TheoryBonus
from solvent.learning.counts import Counts
from solvent.learning.graph import SafeGraph
from solvent.learning.kernels import EXPLORING, OPTIMISTIC, POLICY, NodeValues, Ranges, sweep, sweep_theory

_UP, _DOWN = 1.0, -1.0
#: A gap of this many epsilon may be closed by a policy with greater lower bounds.
_NEAR = 4


class Planner(Protocol):
    """Makes plans on one graph."""

    graph: SafeGraph

    def plan(
        self, counts: Counts, epsilon: float, rng: NDArray[np.uint64], out_row_PN: NDArray[np.int64], *, careful: bool
    ) -> Bounds:
        """Write the rows of a plan, and return bounds at the start.

        Parameters
        ----------
        counts : Counts
        epsilon : float
            The gap at which learning ends.
        rng : ndarray of uint64, shape (1,)
            State of the generator, which breaks ties; changed.
        out_row_PN : ndarray of int64, shape (3, N)
        careful : bool
            Whether to look for a policy that closes the gap even if it is more than a few epsilon.
        """


@dataclass(frozen=True)
class Bounds:
    """Bounds at the start: `upper` on the optimum, `gap` on how much less the policy is worth."""

    upper: float
    gap: float


class ConfidencePlanner:
    """Plans with confidence bounds, and explores with smaller ones.

    Parameters
    ----------
    graph : SafeGraph
    bonus : Bonus
    ranges : Ranges
    scale : float
        Factor of the radii with which to explore.
    """

    def __init__(self, graph: SafeGraph, bonus: Bonus, ranges: Ranges, scale: float) -> None:
        self.graph, self._bonus, self._ranges, self._scale = graph, bonus, ranges, scale
        self._value_N = np.empty(graph.n_nodes)
        self._careful_N = np.zeros(graph.n_nodes, np.int64)

    def plan(
        self, counts: Counts, epsilon: float, rng: NDArray[np.uint64], out_row_PN: NDArray[np.int64], *, careful: bool
    ) -> Bounds:
        """Write the rows of a plan; see `Planner.plan`.

        If the gap closes for the rows with the greatest lower bound but not for those of the policy, these become the
        policy.
        """
        arrays, estimates, radii = counts.graph_arrays(self.graph), counts.estimates(), self._bonus.radii(counts)

        def run(sign: float, scale: float, row_N: NDArray[np.int64], *, choose: bool = True) -> float:
            sweep(arrays, estimates, radii, scale, self._ranges, sign, choose, rng, self._value_N, row_N)
            return float(self._value_N[0])

        upper = run(_UP, 1.0, out_row_PN[OPTIMISTIC])
        run(_UP, self._scale, out_row_PN[EXPLORING])
        run(_DOWN, self._scale, out_row_PN[POLICY])
        lower = run(_DOWN, 1.0, out_row_PN[POLICY], choose=False)
        if epsilon < upper - lower and (careful or upper - lower <= _NEAR * epsilon):
            greatest = run(_DOWN, 1.0, self._careful_N)
            if upper - greatest <= epsilon:
                out_row_PN[POLICY], lower = self._careful_N, greatest
        return Bounds(upper, max(upper - lower, 0.0))


class TheoryPlanner:
    """Plans as BPI-UCBVI does: the optimistic rows are also played and returned.

    Parameters
    ----------
    graph : SafeGraph
    bonus : TheoryBonus
    """

    def __init__(self, graph: SafeGraph, bonus: TheoryBonus) -> None:
        self.graph, self._bonus = graph, bonus
        self._values = NodeValues(*np.empty((3, graph.n_nodes)))

    def plan(
        self, counts: Counts, epsilon: float, rng: NDArray[np.uint64], out_row_PN: NDArray[np.int64], *, careful: bool
    ) -> Bounds:
        """Write the rows of a plan; see `Planner.plan`."""
        arrays, estimates = counts.graph_arrays(self.graph), counts.estimates()
        sweep_theory(arrays, estimates, self._bonus.weights(counts), rng, self._values, out_row_PN[POLICY])
        out_row_PN[EXPLORING] = out_row_PN[OPTIMISTIC] = out_row_PN[POLICY]
        return Bounds(float(self._values.up_N[0]), float(self._values.gap_N[0]))


def value_ranges(
    reward_range: tuple[float, float], return_range: tuple[float, float] | None, horizon: int, *, drawn: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the most and the least that can be earned from each step on, shape (H + 1,) each.

    A node at step h was reached with at least h times the least reward, so at most the rest of the greatest return is
    left. With `drawn`, the first step only draws the first state, without a reward.

    Examples
    --------
    >>> value_ranges((0.0, 1.0), (0.0, 1.0), 3)[0].tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    low, high = reward_range
    steps = horizon - drawn
    left, played = np.arange(steps, -1, -1.0), np.arange(steps + 1.0)
    cap_H, floor_H = left * max(high, 0.0), left * min(low, 0.0)
    if return_range is not None:
        cap_H = np.minimum(cap_H, return_range[1] - played * low)
        floor_H = np.maximum(floor_H, return_range[0] - played * high)
        cap_H[-1] = floor_H[-1] = 0.0
    if drawn:
        cap_H, floor_H = np.append(cap_H[:1], cap_H), np.append(floor_H[:1], floor_H)
    return cap_H, floor_H
