"""The graph on which a learner plans and acts: safe nodes, their rows, and where each outcome of a row leads.

The graph depends only on which outcomes are possible, so it is made once and used by every plan. Every row is safe to
take and to continue from (`solvent.solvers.augmentation.augment`). Entry j of a row belongs to outcome j of the model's
row, so what is known about the model's row is known at every node:

    rows of a node       node_indptr[node] : node_indptr[node + 1]
    entries of a row     entry_indptr[row] : entry_indptr[row + 1]
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
from solvent.solvers.augmentation.augment import expand_by_outcome
from solvent.solvers.augmentation.mdp import AugmentedMDP
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
    mdp : AugmentedMDP
        Its probabilities and rewards are not used.
    row_model : ndarray of int64, shape (R,)
        The row of `problem.model` that each row stands for.
    entry_indptr : ndarray of int64, shape (R + 1,)
    entry_next : ndarray of uint32, shape (E,)
        The node that each outcome leads to; unsigned, so that kernels need not handle negative positions.
    """

    problem: Problem
    mdp: AugmentedMDP
    row_model: NDArray[np.int64]
    entry_indptr: NDArray[np.int64]
    entry_next: NDArray[np.uint32]

    @classmethod
    def of(cls, problem: Problem, monitor: ResourceMonitor | None = None) -> SafeGraph:
        """Return the graph of a problem; its memory stays reserved in the monitor.

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
        >>> graph.entry_next.tolist()
        [1, 2, 3, 3, 3]
        """
        monitor = monitor or ResourceMonitor()
        try:
            mdp, rows = expand_by_outcome(problem.model, problem.limits, problem.lattice, monitor)
            transitions = mdp.transitions
            # with the counts of entries, which are kept for each of them without pooling
            monitor.reserve(48 * mdp.n_rows + 64 * mdp.n_nodes + 12 * transitions.nnz, "the rows of the graph")
            row_model, entry_indptr = rows.astype(np.int64), transitions.indptr.astype(np.int64)
            return cls(problem, mdp, row_model, entry_indptr, transitions.indices.astype(np.uint32))
        except REACHED as reached:
            raise LimitError(f"learning stopped: {reason_of(reached)}; {ROUNDING_HINT}") from None

    @property
    def feasible(self) -> bool:
        """Whether some policy never exceeds the budget."""
        return self.mdp.feasible

    @cached_property
    def layer_indptr(self) -> NDArray[np.int64]:
        """First node of each step, and the number of nodes last; shape (H + 2,)."""
        assert self.mdp.layer_indptr is not None
        return self.mdp.layer_indptr

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
        layer = self._layers.get(step)
        if layer is None:
            layer = self._layers[step] = self._read_layer(step)
        assert self.mdp.settled_low is not None
        assert self.mdp.settled_high is not None
        low, high = self.mdp.settled_low[step].item, self.mdp.settled_high[step].item
        amounts = (COLLAPSED if low(state, d) <= x <= high(state, d) else x for d, x in enumerate(spent))
        return layer.get((state, *amounts))

    @cached_property
    def _layers(self) -> dict[int, dict[tuple[int, ...], int]]:
        """What `find` has read, by step."""
        return {}

    def _read_layer(self, step: int) -> dict[tuple[int, ...], int]:
        """Return the nodes with rows of a step, by state and ticks."""
        mdp, begin, end = self.mdp, int(self.layer_indptr[step]), int(self.layer_indptr[step + 1])
        nodes = np.arange(begin, end)[mdp.row_indptr[begin:end] < mdp.row_indptr[begin + 1 : end + 1]]
        columns = [mdp.node_state[nodes], *mdp.node_spent_ND[nodes].T]
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
        mdp, n_states = self.mdp, origin.n_states
        real = mdp.node_state < (n_states if n_real is None else n_real)
        reached, layers, limits = np.array([mdp.start]), [], mdp.limits
        if drawn:
            reached = np.unique(self.entry_next[spread(self.entry_indptr, row_N[reached])]).astype(np.int64)
            later = {side: tuple(x[1:] for x in getattr(limits, side)) for side in ("upper", "lower")}
            limits = replace(limits, **later)
        for _ in range(origin.horizon):
            nodes = reached[real[reached] & (mdp.row_indptr[reached] < mdp.row_indptr[reached + 1])]
            rows = row_N[nodes]
            layers.append((mdp.node_state[nodes], mdp.node_spent_ND[nodes], mdp.row_action[rows]))
            reached = np.unique(self.entry_next[spread(self.entry_indptr, rows)]).astype(np.int64)
        assert mdp.settled_low is not None
        assert mdp.settled_high is not None
        settled = [
            (low[:n_states], high[:n_states])
            for low, high in zip(mdp.settled_low[int(drawn) :], mdp.settled_high[int(drawn) :], strict=True)
        ]
        return AugmentedPolicy.from_nodes(
            origin, mdp.lattice, limits, layers=layers, settled=settled, counting=self.problem.counting
        )


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
