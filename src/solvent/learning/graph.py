"""The graph on which a learner plans and acts: safe nodes, their rows, and where each outcome of a row leads.

The graph depends only on which outcomes are possible, so it is made once and used by every plan. Every row is safe to
take and to continue from (`solvent.solvers.augmentation.augment`). Entry j of a row belongs to outcome j of the model's
row, so what is known about the model's row is known at every node. Steps whose nodes and rows are the same share them
(`solvent.solvers.augmentation.shared`): a row is that of a stored node, and of the same node at each of these steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import REACHED, ResourceMonitor, reason_of
from solvent.errors import LimitError
from solvent.model.cmdp import CMDP
from solvent.policy.locate import COLLAPSED
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.augmentation.shared import SharedLayers, expand_shared
from solvent.solvers.problem import Problem

#: What to do if a graph does not fit.
ROUNDING_HINT = (
    "raise the limit, or round costs: strict=True rounds them up and never exceeds the budget, "
    "epsilon_cost= says how far"
)


@dataclass(frozen=True, eq=False)
class SafeGraph:
    """Safe nodes and rows of a problem, and where outcomes lead.

    Attributes
    ----------
    problem : Problem
    layers : SharedLayers
        The first node, in which episodes begin, is node 0.
    """

    problem: Problem
    layers: SharedLayers

    @classmethod
    def of(cls, problem: Problem, monitor: ResourceMonitor | None = None, *, share: bool = True) -> SafeGraph:
        """Return the graph of a problem; its memory stays reserved in the monitor.

        Parameters
        ----------
        problem : Problem
        monitor : ResourceMonitor, optional
        share : bool
            If False, every step has rows of its own, for which counts can be kept.

        Raises
        ------
        LimitError
            If the time or memory limit is reached.

        Examples
        --------
        >>> from solvent.model import instances
        >>> from solvent.model.budget import resolve
        >>> model = instances.knapsack([60, 100], [10, 20], capacity=20)
        >>> graph = SafeGraph.of(Problem.exact(model, resolve(model, None), merge=False))
        >>> graph.layers.layer_indptr.tolist(), graph.layers.entry_next.tolist()
        ([0, 1, 3, 4], [0, 1, 0, 0, 0])
        """
        monitor = monitor or ResourceMonitor()
        try:
            layers = expand_shared(problem.model, problem.lattice, monitor, share=share)
            # with the counts of rows and entries, which are kept for each of them without pooling
            counts = 0 if share else 64 * len(layers.row) + 40 * len(layers.entry_next)
            monitor.reserve(64 * layers.n_nodes + counts, "plans")
            return cls(problem, layers)
        except REACHED as reached:
            raise LimitError(f"learning stopped: {reason_of(reached)}; {ROUNDING_HINT}") from None

    @property
    def feasible(self) -> bool:
        """Whether some policy never exceeds the budget."""
        return self.layers.feasible

    @property
    def n_nodes(self) -> int:
        """Number of nodes, with the end."""
        return self.layers.n_nodes

    @property
    def n_rows(self) -> int:
        """Number of rows of all nodes."""
        return self.layers.n_rows

    def rows(self, step: int, node: int) -> range:
        """Return the rows of a node at its step."""
        stored = node - self.layers.shift_H.item(step)
        return range(self.layers.row_indptr.item(stored), self.layers.row_indptr.item(stored + 1))

    def find(self, step: int, state: int, spent: tuple[int, ...]) -> int | None:
        """Return the node with rows at a step, by state and ticks spent; None if there is none.

        Examples
        --------
        >>> from solvent.model import instances
        >>> from solvent.model.budget import resolve
        >>> model = instances.knapsack([60, 100], [10, 20], capacity=20)
        >>> graph = SafeGraph.of(Problem.exact(model, resolve(model, None), merge=False))
        >>> graph.find(1, 0, (0,)), graph.find(1, 0, (5,))
        (1, None)
        """
        layers = self.layers
        shift = layers.shift_H.item(step)
        begin = layers.layer_indptr.item(step) - shift
        stored = self._places.get(begin)
        if stored is None:
            stored = self._places[begin] = self._read_places(begin, layers.layer_indptr.item(step + 1) - shift)
        place = [state]
        for d, x in enumerate(spent):
            is_settled = layers.settled_low.item(step, state, d) <= x <= layers.settled_high.item(step, state, d)
            place.append(COLLAPSED if is_settled else x)
        found = stored.get(tuple(place))
        return None if found is None else found + shift

    @cached_property
    def _places(self) -> dict[int, dict[tuple[int, ...], int]]:
        """What `find` has read, by the first node of a stored layer."""
        return {}

    def _read_places(self, begin: int, end: int) -> dict[tuple[int, ...], int]:
        """Return the nodes with rows of a stored layer, by state and ticks."""
        layers = self.layers
        nodes = np.arange(begin, end)[layers.row_indptr[begin:end] < layers.row_indptr[begin + 1 : end + 1]]
        columns = [layers.node_state[nodes], *layers.node_spent_ND[nodes].T]
        return dict(zip(zip(*(each.tolist() for each in columns), strict=True), nodes.tolist(), strict=True))

    def policy(
        self, row_N: NDArray[np.int64], origin: CMDP, n_real: int | None = None, *, drawn: bool = False
    ) -> AugmentedPolicy:
        """Return the policy that takes the given rows, at the nodes it can reach, as a policy for `origin`.

        Parameters
        ----------
        row_N : ndarray of int64, shape (N,)
            The row of each node; ignored where a node has no rows.
        origin : CMDP
            The user's model; its states are the first states of the problem's model.
        n_real : int, optional
            Number of states, from the first, that really exist; the policy decides nothing in the others. Default: all.
        drawn : bool
            Whether the first step draws the first state; the policy begins after it.
        """
        layers, model, n_states = self.layers, self.problem.model, origin.n_states
        real = layers.node_state < (n_states if n_real is None else n_real)
        reached, chosen, limits = np.zeros(1, np.int64), [], self.problem.limits
        if drawn:
            reached = self._after(0, row_N[reached])
            later = {side: tuple(x[1:] for x in getattr(limits, side)) for side in ("upper", "lower")}
            limits = replace(limits, **later)
        for h in range(int(drawn), origin.horizon + int(drawn)):
            stored = reached - layers.shift_H[h]
            with_rows = real[stored] & (layers.row_indptr[stored] < layers.row_indptr[stored + 1])
            stored, rows = stored[with_rows], row_N[reached[with_rows]]
            actions = model.row_action[layers.row[rows]]
            chosen.append((layers.node_state[stored], layers.node_spent_ND[stored], actions))
            reached = self._after(h, rows)
        settled = [
            (low[:n_states], high[:n_states])
            for low, high in zip(layers.settled_low[int(drawn) :], layers.settled_high[int(drawn) :], strict=True)
        ]
        return AugmentedPolicy.from_nodes(
            origin, self.problem.lattice, limits, layers=chosen, settled=settled, counting=self.problem.counting
        )

    def _after(self, step: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the nodes that rows of a step can lead to."""
        layers = self.layers
        places = np.unique(layers.entry_next[spread(layers.entry_indptr, rows)]).astype(np.int64)
        found: NDArray[np.int64] = places + layers.layer_indptr[step + 1]
        return found


def spread(indptr: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of the entries of some rows, one row after the other.

    Examples
    --------
    >>> spread(np.array([0, 2, 3, 6]), np.array([2, 0])).tolist()
    [3, 4, 5, 0, 1]
    """
    sizes = indptr[rows + 1] - indptr[rows]
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    entries: NDArray[np.int64] = np.arange(total) + np.repeat(indptr[rows] - (ends - sizes), sizes)
    return entries
