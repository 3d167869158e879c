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
from solvent.policy.search import pack
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.augmentation.augment import expand
from solvent.solvers.augmentation.mdp import AugmentedMDP
from solvent.solvers.problem import Problem


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
            mdp = expand(problem.model, problem.limits, problem.lattice, monitor)
            monitor.reserve(32 * mdp.n_rows, "the rows of the graph")
            row_model = _model_rows(mdp)
            sizes = np.diff(problem.model.outcome_indptr)[row_model]
            entry_indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            # entries and their counts; while one step is looked up, also keys and amounts
            assert mdp.layer_indptr is not None
            per_step = np.diff(entry_indptr[mdp.row_indptr[mdp.layer_indptr]])
            temporary = int(per_step.max(initial=0)) * (64 + 48 * len(problem.lattice.resources))
            monitor.reserve(12 * int(entry_indptr[-1]) + 48 * mdp.n_nodes, "the entries of the graph")
            with monitor.borrowed(temporary, "the entries of a step"):
                return cls(problem, mdp, row_model, entry_indptr, _next_nodes(mdp, row_model, entry_indptr, monitor))
        except REACHED as reached:
            hint = "raise the limit, or round costs (epsilon_cost=, with strict=True to never exceed the budget)"
            raise LimitError(f"learning stopped: {reason_of(reached)}; {hint}") from None

    @property
    def feasible(self) -> bool:
        """Whether some policy never exceeds the budget."""
        return self.mdp.feasible

    @cached_property
    def layer_indptr(self) -> NDArray[np.int64]:
        """First node of each step, and the number of nodes last; shape (H + 2,)."""
        assert self.mdp.layer_indptr is not None
        return self.mdp.layer_indptr

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
            limits = replace(limits, **{side: tuple(x[1:] for x in getattr(limits, side)) for side in ("upper", "lower")})
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


def _model_rows(mdp: AugmentedMDP) -> NDArray[np.int64]:
    """Return the model's row of each row of the graph."""
    model, layers = mdp.model, mdp.layer_indptr
    assert layers is not None
    node_of, found = mdp.row_node, np.empty(mdp.n_rows, np.int64)
    for step in range(model.horizon):
        begin, end = (int(mdp.row_indptr[layers[step + i]]) for i in (0, 1))
        indptr = model.row_indptr_at(step)
        states = np.repeat(np.arange(model.n_states), np.diff(indptr))
        keys = states * model.n_actions + model.row_action[indptr[0] : indptr[-1]]
        wanted = mdp.node_state[node_of[begin:end]].astype(np.int64) * model.n_actions + mdp.row_action[begin:end]
        found[begin:end] = indptr[0] + np.searchsorted(keys, wanted)
    return found


def _next_nodes(
    mdp: AugmentedMDP, row_model: NDArray[np.int64], entry_indptr: NDArray[np.int64], monitor: ResourceMonitor
) -> NDArray[np.uint32]:
    """Return the node that each outcome of each row leads to."""
    model, layers, lattice = mdp.model, mdp.layer_indptr, mdp.lattice
    assert layers is not None
    assert mdp.settled_low is not None
    assert mdp.settled_high is not None
    node_of = mdp.row_node
    after = np.full(int(entry_indptr[-1]), mdp.n_nodes - 1, np.uint32)
    for step in range(model.horizon - 1):
        begin, end = (int(mdp.row_indptr[layers[step + i]]) for i in (0, 1))
        monitor.check_time()
        if begin == end:
            continue
        first, last = int(layers[step + 1]), int(layers[step + 2])
        outcomes = spread(model.outcome_indptr, row_model[begin:end])
        sizes = np.diff(entry_indptr[begin : end + 1])
        spent = np.repeat(mdp.node_spent_ND[node_of[begin:end]], sizes, axis=0)
        state = model.next_state[outcomes]
        moved = np.clip(spent + lattice.cost_OD[outcomes], lattice.floor_D, lattice.ceiling_D)
        moved = np.where(spent == COLLAPSED, COLLAPSED, moved)
        low, high = mdp.settled_low[step + 1][state], mdp.settled_high[step + 1][state]
        moved = np.where((low <= moved) & (moved <= high), COLLAPSED, moved)
        known = mdp.node_spent_ND[first:last]
        columns = [np.concatenate([mdp.node_state[first:last], state]).astype(np.int64)]
        columns += [np.concatenate([known[:, d], moved[:, d]]) for d in range(known.shape[1])]
        keys = pack(columns)
        order = np.argsort(keys[: last - first], kind="stable")
        place = np.searchsorted(keys[: last - first], keys[last - first :], sorter=order)
        after[entry_indptr[begin] : entry_indptr[end]] = first + order[place]
    return after
