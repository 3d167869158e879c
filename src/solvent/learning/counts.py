"""Counts of outcomes and sums of rewards, pooled over amounts spent or kept for each node.

The unknown parts of a problem are the probabilities and rewards of (step, state, action), which do not depend on what
was spent. Pooled counts have one key per row of the model; for a stationary model, one per (state, action). Without
pooling, as in the paper, each (step, state, spent, action) is learned separately.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvent.learning.graph import SafeGraph
from solvent.learning.kernels import CountArrays, GraphArrays, KeyEstimates, average


@dataclass(eq=False)
class Counts:
    """Counts by key and outcome. Arrays are changed in place and never replaced.

    Attributes
    ----------
    row_key : ndarray of int64, shape (R,)
        The key of each row of the graph.
    key_indptr : ndarray of int64, shape (K + 1,)
        First outcome of each key.
    count_K : ndarray of int64, shape (K,)
    count_O : ndarray of int64, shape (O,)
    reward_sum_O : ndarray of float64, shape (O,)
    square_sum_K : ndarray of float64, shape (K,)
        Sums of squared rewards.
    planned_K : ndarray of int64, shape (K,)
        `count_K` when the last plan was made.
    """

    row_key: NDArray[np.int64]
    key_indptr: NDArray[np.int64]
    count_K: NDArray[np.int64]
    count_O: NDArray[np.int64]
    reward_sum_O: NDArray[np.float64]
    square_sum_K: NDArray[np.float64]
    planned_K: NDArray[np.int64]
    _graph_arrays: tuple[SafeGraph, GraphArrays] | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, graph: SafeGraph, *, pool: bool) -> Counts:
        """Return counts that are all 0.

        Parameters
        ----------
        graph : SafeGraph
            Without pooling, one whose steps share no rows.
        pool : bool
        """
        layers = graph.layers
        key_indptr = (graph.problem.model.outcome_indptr if pool else layers.entry_indptr).view()
        key_indptr.flags.writeable = False  # in both cases, because kernels are compiled for one of the two types
        n_keys = len(key_indptr) - 1
        return cls(
            row_key=layers.row if pool else np.arange(len(layers.row)),
            key_indptr=key_indptr,
            count_K=np.zeros(n_keys, np.int64),
            count_O=np.zeros(int(key_indptr[-1]), np.int64),
            reward_sum_O=np.zeros(int(key_indptr[-1])),
            square_sum_K=np.zeros(n_keys),
            planned_K=np.zeros(n_keys, np.int64),
        )

    @cached_property
    def size_K(self) -> NDArray[np.int64]:  # noqa: N802
        """Number of outcomes of each key."""
        return np.diff(self.key_indptr)

    @cached_property
    def arrays(self) -> CountArrays:
        """The counts as kernels take them."""
        return CountArrays(self.count_K, self.count_O, self.reward_sum_O, self.square_sum_K, self.planned_K)

    @cached_property
    def _estimates(self) -> KeyEstimates:
        n_keys, n_outcomes = len(self.count_K), len(self.count_O)
        seen = np.empty(n_keys, np.int64), np.empty(n_outcomes, np.int64)
        return KeyEstimates(self.count_K, np.empty(n_outcomes), np.empty(n_outcomes), np.empty(n_keys), *seen)

    def graph_arrays(self, graph: SafeGraph) -> GraphArrays:
        """Return the graph as kernels take it, with the keys of its rows; kept for the next call."""
        if self._graph_arrays is None or self._graph_arrays[0] is not graph:
            layers = graph.layers
            arrays = GraphArrays(
                layer_indptr=layers.layer_indptr,
                shift_H=layers.shift_H,
                node_indptr=layers.row_indptr,
                row_model=layers.row,
                row_key=self.row_key,
                entry_indptr=layers.entry_indptr,
                entry_next=layers.entry_next,
                key_indptr=self.key_indptr,
            )
            self._graph_arrays = (graph, arrays)
        return self._graph_arrays[1]

    def estimates(self) -> KeyEstimates:
        """Return estimates from the counts; the next call overwrites them.

        Examples
        --------
        >>> key_indptr = np.array([0, 3])
        >>> count_O, reward_sum_O = np.array([3, 1, 0]), np.array([3.0, 0.0, 0.0])
        >>> counts = Counts(np.array([0]), key_indptr, np.array([4]), count_O, reward_sum_O,
        ...                 np.array([3.0]), np.array([0]))
        >>> found = counts.estimates()
        >>> found.share_O, found.reward_O, found.reward_K
        (array([0.75, 0.25, 0.  ]), array([1.  , 0.  , 0.75]), array([0.75]))
        """
        average(self.key_indptr, self.arrays, self._estimates)
        return self._estimates

    def add(self, key: int, outcome: int, reward: float) -> bool:
        """Count one outcome of a key; return whether its count has doubled since the last plan."""
        # plain numbers, which take a fraction of the time of NumPy's
        o, count = self.key_indptr.item(key) + outcome, self.count_K.item(key) + 1
        self.count_K[key] = count
        self.square_sum_K[key] = self.square_sum_K.item(key) + reward * reward
        self.count_O[o] = self.count_O.item(o) + 1
        self.reward_sum_O[o] = self.reward_sum_O.item(o) + reward
        return bool(count >= 2 * self.planned_K.item(key))

    def regrown(self, graph: SafeGraph, sizes: NDArray[np.int64]) -> Counts:
        """Return the same pooled counts for a graph whose rows have more outcomes, at their ends.

        Parameters
        ----------
        graph : SafeGraph
        sizes : ndarray of int64, shape (K,)
            How many outcomes of each row keep their counts; those at their ends begin at 0.
        """
        indptr = graph.problem.model.outcome_indptr
        kept, target = _leading(self.key_indptr, sizes), _leading(indptr, sizes)
        count_O, reward_sum_O = np.zeros(int(indptr[-1]), np.int64), np.zeros(int(indptr[-1]))
        count_O[target], reward_sum_O[target] = self.count_O[kept], self.reward_sum_O[kept]
        return Counts(graph.layers.row, indptr, self.count_K, count_O, reward_sum_O, self.square_sum_K, self.planned_K)


def _leading(indptr: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of the first entries of each row, one row after the other.

    Examples
    --------
    >>> _leading(np.array([0, 2, 3, 6]), np.array([1, 1, 2])).tolist()
    [0, 2, 3, 4]
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    found: NDArray[np.int64] = np.arange(total) + np.repeat(indptr[:-1] - (ends - sizes), sizes)
    return found
