"""Label setting on a network: the best path of a deterministic model with any limits on any number of resources.

Labels (place, amounts, value) are carried forward from level to level of the `PathNetwork`. A label is dropped if
another one of its place has no larger amount of any side and no smaller value. Bounds make it fast: at prices of the
sides, the best path without limits bounds what a label can still earn; see `several_kernels`. Prices are found by
subgradient steps. Arcs through which no better path can lead are removed: where even the least amounts on the way to
them and from them exceed a limit, or where the bound of a path through them is too low.

The first search keeps only a few labels at each level. Each further search keeps more, until no label was left out that
could have led to a better path. Before each of them, prices and arcs are improved with the best path known.

Rewards are floats. As for one resource, bounds are rounded outward, and a label is dropped if its bound exceeds the
best path by at most a tolerance, which is part of `Path.upper`. If all sums of rewards are exact, because the rewards
are integer multiples of one unit and not too large, the tolerance is a little less than that unit, and the path is
exactly the best.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.solvers.accuracy import ROUNDOFF, SAME_POINT
from solvent.solvers.arrays import read_only
from solvent.solvers.labels import several_kernels as kernels
from solvent.solvers.labels.knapsack_kernels import reward_unit
from solvent.solvers.labels.network import PathNetwork
from solvent.solvers.labels.network_kernels import Amounts
from solvent.solvers.labels.path import Path, Searched, conclude
from solvent.solvers.labels.saved import Found, SavedSearches
from solvent.solvers.problem import Problem
from solvent.solvers.reduction.layers import grown

#: Number of prices whose bounds are used, and one slot to try others.
_SLOTS = 1 + 4
#: The largest number of prices tried before the first search, and before each further one.
_TRIES, _MORE_TRIES = 40, 20
#: Number of labels kept at each level of the first search, and the factor by which it grows in each further search.
_WIDTH, _WIDER = 16, 8
#: Number of labels, and of candidates of one place, for which there is room at first.
_ROOM = 1 << 12
#: Share of the unit of rewards that is less than any difference between two paths.
_BELOW_UNIT = 1 - 2.0**-20
#: Levels between two checks of the time.
_STRETCH = 64
#: Work of making one label, relative to evaluating one outcome in the reduction; and a number of labels that is always
#: worth a try.
_LABEL_WORK, _SMALL = 4.0, 32768
#: Memory of the reduction for each outcome that it evaluates, roughly.
_NODE_BYTES = 32.0
#: Searches begin again if labels were dropped for a tolerance that has since become smaller by more than this factor.
_TOO_LARGE = 2.0


class SeveralSearch:
    """Searches for the best path, each wider than the one before.

    Attributes
    ----------
    value : float
        The value of the best path found, as computed by the search; minus infinity if none was found.
    bound : float
        Upper bound on the value of any path that is better by more than the tolerance; minus infinity if there is none.
    tolerance : float
        Paths that are better by at most this count as equal to the best one.
    stopped : str
        The limit that stopped the search, if any.
    """

    def __init__(self, problem: Problem, monitor: ResourceMonitor) -> None:
        self._model, self._lattice, self._monitor = problem.model, problem.lattice, monitor
        self._drift = problem.drift
        self._unit = 0.0 if self._drift else _grain(problem)
        self.value, self.bound, self.tolerance = -math.inf, math.inf, self._unit * _BELOW_UNIT
        self.stopped = ""
        self._made, self._width, self._dropped = 0, 0, -math.inf
        self._row_T: NDArray[np.int32] = np.zeros(0, np.int32)
        self._held = 0
        self._saved = SavedSearches(problem, monitor, _ROOM)
        self._begin()

    @property
    def done(self) -> bool:
        """Whether no path is better than the best one known."""
        return self.bound <= self.value + self.tolerance

    def _begin(self) -> None:
        """Build the network and its bounds."""
        monitor = self._monitor
        self._net = net = PathNetwork.of(self._model, self._lattice, monitor)
        places, levels, sides = net.n_places, net.n_levels, len(net.sides.final_K)
        # equal bounds that are rounded outward can differ by as much as that adds in all steps
        self._same = SAME_POINT + 16 * ROUNDOFF * (levels + 4) * (sides + 3)
        taken = (24 * sides + 9 + (24 + 8 * sides) * _SLOTS + 49) * places + 8 * len(net.network.row_reward)
        taken += 32 * len(net.network.tail)
        monitor.reserve(taken, "bounds per place")
        self._held = net.bytes + taken
        least, safe, settled = np.empty((3, places, sides), np.int64)
        self._amounts = Amounts(least, safe, settled, np.empty(places, np.bool_))
        shape = (_SLOTS, places)
        self._prices = kernels.Prices(
            np.full(_SLOTS, np.inf), np.zeros((_SLOTS, sides)), np.empty(shape), np.empty(shape),
            np.empty((*shape, sides), np.int64), np.empty(shape, np.int32), np.empty(shape, np.int32),
        )  # fmt: skip
        self._size_L = np.zeros(self._longest + 1, np.int64)
        ends = net.network.end_value[0]
        if ends > self.value and (net.sides.initial_K <= net.sides.end_limit_LK[0]).all():
            self._improve(float(ends), np.zeros(0, np.int32))

    @property
    def _longest(self) -> int:
        """The largest number of arcs of a path."""
        net = self._net
        return min(net.n_places - 1, self._model.horizon) if net.network.is_cyclic else net.n_levels - 1

    def release(self) -> None:
        """Release the memory of the network and its bounds."""
        self._monitor.release(self._held)
        self._held = 0

    def run(self, *, compare: bool = False) -> float:
        """Search until no path is better, a limit is reached, or another method is expected to take less work.

        Parameters
        ----------
        compare : bool
            Whether to stop before a search that is expected to take more work than visiting all nodes.

        Returns
        -------
        float
            The work that is expected for the next search relative to that of the reduction. 0 if there is none, or if
            a limit was reached; infinity if that was memory, and there is enough for the nodes of the reduction.
        """
        try:
            while not self.done:
                if compare and self._width:
                    work = _LABEL_WORK * _WIDER * self._made / max(self._outcomes(), 1.0)
                    if self._made * _WIDER > _SMALL and work > 1:
                        return work
                self.step()
        except LimitReached as reached:
            self.stopped = str(reached)
            if compare and self._fits_elsewhere():
                return math.inf
        return 0.0

    def _fits_elsewhere(self) -> bool:
        """Whether there is time left, and memory for all nodes."""
        try:
            self._monitor.check_time()
            return _NODE_BYTES * self._outcomes() <= self._monitor.room
        except LimitReached:
            return False

    def _outcomes(self) -> float:
        """Return how many outcomes of nodes within the bounds on amounts the reduction would evaluate, at most."""
        net, (least, safe, settled, _) = self._net, self._amounts
        with self._monitor.borrowed(40 * least.size, "an estimate of the work"):
            # settled amounts count as one
            width_VK = safe.astype(float) - np.maximum(least, settled) + 1
            nodes_V = np.ones(net.n_places)
            for d in set(net.resource_K.tolist()) - {-1}:
                # both sides of a resource are one amount
                nodes_V *= np.maximum(width_VK[:, net.resource_K == d].min(axis=1), 1.0)
            nodes_V[(least > safe).any(axis=1)] = 0
        rows = len(net.network.tail) / net.n_places
        if net.wait_of_state is not None:
            return float(nodes_V.sum()) * rows * self._model.horizon
        level = np.add.reduceat(nodes_V, net.network.level_indptr[:-1])
        with np.errstate(over="ignore"):
            paths = max(rows, 1.0) ** np.arange(len(level), dtype=float)
        return float(np.minimum(level, paths).sum()) * rows

    def step(self) -> None:
        """Improve prices and arcs, then search with more labels than before.

        Raises
        ------
        LimitReached
            If time or memory runs out; the best path so far is known.
        """
        self._prepare(_MORE_TRIES if self._width else _TRIES)
        if not self.done:
            self._width = self._width * _WIDER or _WIDTH
            self._search(self._width)
        if self.done and self._dropped > self.value + _TOO_LARGE * self.tolerance:
            # arcs were removed for the sake of a path with much larger rewards
            self.release()
            self.bound, self._dropped, self._width = math.inf, -math.inf, 0
            self._begin()

    def _prepare(self, tries: int) -> None:
        row_L = np.zeros(self._longest, np.int32)
        self._dropped = max(self._dropped, self.value + self.tolerance)
        best, length, arcs = kernels.prepare(
            self._net.network, self._net.sides, tries, self.value, self.tolerance, self._amounts, self._prices,
            row_L, self._monitor.halt,
        )  # fmt: skip
        self._monitor.check_time()
        if length >= 0:
            self._improve(best, row_L[:length])
        self._dropped = max(self._dropped, self.value + self.tolerance)
        self.bound = min(self.bound, float(self._prices.bound_M[1:].min())) if arcs >= 0 else -math.inf

    def _improve(self, value: float, row_T: NDArray[np.int32]) -> None:
        """Note a better path."""
        self.value, self._row_T = value, row_T
        if not self._unit:
            net = self._net
            paid = np.abs(self._prices.price_MK[1] * net.network.cost_RK[row_T]).sum()
            size = float(np.abs(self._model.row_reward[row_T]).sum() + paid) + self._end_size
            self.tolerance = self._same * size

    @property
    def _end_size(self) -> float:
        """The largest absolute end reward."""
        return 0.0 if self._model.end_reward is None else float(np.abs(self._model.end_reward).max())

    def _search(self, width: int) -> None:
        """Search with at most `width` labels at each level; improve the best path and the bound."""
        found = self._saved.next_search(self.value, self._longest + 1)
        if found is not None:
            self._note(found)
            self.bound, self._size_L = min(self.bound, found.cut), self._saved.size_L
            return
        net, monitor = self._net, self._monitor
        sides, levels = len(net.sides.final_K), self._longest + 1
        counts = np.array([1, 1, 0, 0, -1, -1, -1, -1])
        per_label, per_candidate, room, scratch_room = (
            28 + 8 * (sides + net.network.is_cyclic),
            36 + 8 * sides,
            *self._saved.space,
        )
        monitor.reserve(per_label * room + per_candidate * scratch_room, "labels")
        labels = kernels.Labels(
            np.zeros((2, net.n_places), np.int64), np.zeros((2, net.n_places), np.int64),
            np.empty((room, sides), np.int64), np.zeros(room), np.empty(room), np.full(room, -1),
            np.empty(room, np.int32), np.empty(room if net.network.is_cyclic else 0, np.int64),
            np.full(net.n_places, -1), np.zeros(levels, np.int64), counts, np.array([self.value, -np.inf]),
        )  # fmt: skip
        labels.end[0, 0] = 1
        labels.amount[0] = net.sides.initial_K
        scratch = _candidates(scratch_room, sides)
        self._saved.load_labels(labels, self._prices)
        try:
            while counts[kernels.LEVEL] < levels:
                if monitor.should_save():
                    self._saved.save_labels(labels, scratch_room)
                monitor.check_time()
                begin = int(counts[kernels.LEVEL])
                monitor.tell("forward", begin, levels, labels=int(counts[kernels.LABELS]))
                stop = min(begin + _STRETCH, levels) if monitor.watched else levels
                with monitor.postponed():
                    kernels.search(
                        net.network, net.sides, self._amounts, self._prices, self.tolerance, width, stop, scratch,
                        labels, monitor.halt,
                    )  # fmt: skip
                    monitor.check_time()
                    if counts[kernels.SHORT] == kernels.NO_ROOM:
                        monitor.reserve(2 * per_label * room, "labels")
                        labels = _grown(labels, 2 * room)
                        monitor.release(per_label * room)
                        room *= 2
                    elif counts[kernels.SHORT] == kernels.NO_SCRATCH:
                        monitor.release(per_candidate * scratch_room)
                        scratch_room *= 4
                        scratch = _candidates(0, sides)
                        monitor.reserve(per_candidate * scratch_room, "labels that arrive at one place")
                        scratch = _candidates(scratch_room, sides)
        finally:
            best, cut = labels.best.tolist()
            row_L = np.empty(levels - 1, np.int32)
            length = kernels.retrace(labels, self._prices, row_L) if best > self.value else 0
            found = Found(best, cut, int(counts[kernels.MADE]), row_L[:length])
            self._note(found)
            monitor.release(per_label * room + per_candidate * scratch_room)
        self.bound = min(self.bound, cut)
        self._size_L = labels.size_L
        self._saved.save_search(found, self._size_L)

    def _note(self, found: Found) -> None:
        """Note what a search has found, which may not be finished."""
        self._made = found.made
        self._dropped = max(self._dropped, self.value + self.tolerance)
        if found.best > self.value:
            self._improve(found.best, found.row_T)
            self._dropped = max(self._dropped, self.value + self.tolerance)

    def conclude(self) -> Path:
        """Return the best path with bounds on its value and on that of any other path.

        Raises
        ------
        LimitReached
            If the search was stopped before a path was found.
        """
        horizon, model, stopped = self._model.horizon, self._model, self.stopped
        sizes = np.zeros(horizon, np.int64)
        sizes[: min(len(self._size_L) - 1, horizon)] = self._size_L[1 : horizon + 1]
        if self.value == -math.inf:
            if stopped:
                raise LimitReached(stopped)
            return Path(-math.inf, np.full(horizon, -1), tuple(sizes.tolist()), -math.inf, -math.inf)
        row_H = self._net.with_waits(model, self._row_T.astype(np.int64), horizon=horizon)
        exact = bool(self._unit)
        searched = Searched(
            self.value, self.bound, self._dropped, self.tolerance, exact, self._drift,
            0.0 if exact else self._most_gained(),
        )  # fmt: skip
        return conclude(model, row_H, sizes, searched, stopped)

    def _most_gained(self) -> float:
        """Return an upper bound on the sum of the positive rewards of any path on the arcs that remain."""
        network = self._net.network
        counts = network.arc_end - network.arc_indptr
        # arcs, in a row without gaps
        arc = np.arange(int(counts.sum())) + np.repeat(network.arc_indptr - (np.cumsum(counts) - counts), counts)
        largest = float(network.row_reward[network.row[arc]].max(initial=0.0))
        return (largest * self._longest + self._end_size) * (1 + 2.0**-40)


def _grain(problem: Problem) -> float:
    """Return a number that divides all rewards, if all their sums are exact in floats; else 0."""
    model = problem.model
    every = model.row_reward if model.end_reward is None else np.append(model.row_reward, model.end_reward)
    unit = float(reward_unit(read_only(every), model.horizon + (model.end_reward is not None)))
    return unit * max(int(np.gcd.reduce((every / unit).astype(np.int64))), 1) if unit else 0.0


def _candidates(room: int, sides: int) -> kernels.Candidates:
    """Return empty arrays for candidates, and a hash table of at least twice their number."""
    return kernels.Candidates(
        np.empty((room + 1, sides), np.int64), np.empty(room), np.empty(room), np.empty(room, np.int64),
        np.empty(room, np.int32), np.empty(max(2 * room, 64), np.int32),
    )  # fmt: skip


def _grown(labels: kernels.Labels, room: int) -> kernels.Labels:
    """Return the labels with room for more of them."""
    return labels._replace(
        amount=grown(labels.amount, room),
        value=grown(labels.value, room),
        bound=grown(labels.bound, room),
        parent=grown(labels.parent, room),
        row=grown(labels.row, room),
        older=grown(labels.older, room) if len(labels.older) else labels.older,
    )
