"""What was seen so often: counts of outcomes and sums of rewards, pooled over what was spent or kept by node.

The unknown parts of a problem are the chances and rewards of (step, state, action), whatever was spent before. Pooled
counts have one key per row of the model: for a stationary one, per (state, action). Kept by node, as in the paper,
each (step, state, spent, action) has to be learned by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.learning.graph import Graph
from solvent.learning.kernels import average


class Averages(NamedTuple):
    """What counts come to.

    Attributes
    ----------
    share_O : ndarray of float64, shape (O,)
        The share of each outcome in its key's counts.
    reward_O : ndarray of float64, shape (O,)
        The mean reward that came with it; of an outcome that was never seen, the mean of its key.
    noise_K : ndarray of float64, shape (K,)
        The variance of each key's rewards that its outcomes do not explain.
    unseen_K : ndarray of bool, shape (K,)
        Whether some outcome of the key was never seen.
    """

    share_O: NDArray[np.float64]
    reward_O: NDArray[np.float64]
    noise_K: NDArray[np.float64]
    unseen_K: NDArray[np.bool_]


@dataclass(eq=False)
class Counts:
    """Counts by key and outcome.

    Attributes
    ----------
    row_key : ndarray of int64, shape (R,)
        The key of each row of the graph.
    key_indptr : ndarray of int64, shape (K + 1,)
        Where the outcomes of each key begin.
    count_K : ndarray of int64, shape (K,)
    count_O : ndarray of int64, shape (O,)
    reward_sum_O : ndarray of float64, shape (O,)
    square_sum_K : ndarray of float64, shape (K,)
        Of rewards, squared.
    planned_K : ndarray of int64, shape (K,)
        The counts when the last plan was made.
    """

    row_key: NDArray[np.int64]
    key_indptr: NDArray[np.int64]
    count_K: NDArray[np.int64]
    count_O: NDArray[np.int64]
    reward_sum_O: NDArray[np.float64]
    square_sum_K: NDArray[np.float64]
    planned_K: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph, *, pool: bool) -> Counts:
        """Return counts of nothing yet."""
        n_rows = len(graph.row_model)
        key_indptr = (graph.problem.model.outcome_indptr if pool else graph.entry_indptr).view()
        key_indptr.flags.writeable = False  # in both cases, as kernels are compiled for arrays with or without it
        n_keys = len(key_indptr) - 1
        return cls(
            graph.row_model if pool else np.arange(n_rows),
            key_indptr,
            np.zeros(n_keys, np.int64),
            np.zeros(int(key_indptr[-1]), np.int64),
            np.zeros(int(key_indptr[-1])),
            np.zeros(n_keys),
            np.zeros(n_keys, np.int64),
        )

    @cached_property
    def size_K(self) -> NDArray[np.int64]:  # noqa: N802
        """How many outcomes each key has."""
        return np.diff(self.key_indptr)

    def averages(self) -> Averages:
        """Return what the counts come to.

        Examples
        --------
        >>> key_indptr = np.array([0, 3])
        >>> count_O, reward_sum_O = np.array([3, 1, 0]), np.array([3.0, 0.0, 0.0])
        >>> counts = Counts(np.array([0]), key_indptr, np.array([4]), count_O, reward_sum_O,
        ...                 np.array([3.0]), np.array([0]))
        >>> found = counts.averages()
        >>> found.share_O, found.reward_O, found.unseen_K
        (array([0.75, 0.25, 0.  ]), array([1.  , 0.  , 0.75]), array([ True]))
        """
        n_keys, n_outcomes = len(self.count_K), len(self.count_O)
        found = Averages(np.empty(n_outcomes), np.empty(n_outcomes), np.empty(n_keys), np.empty(n_keys, np.bool_))
        average(
            self.key_indptr, self.count_K, self.count_O, self.reward_sum_O, self.square_sum_K, found.share_O,
            found.reward_O, found.noise_K, found.unseen_K,
        )  # fmt: skip
        return found

    def add(self, key: int, outcome: int, reward: float) -> bool:
        """Count one outcome of a key; return whether its count has doubled since the last plan."""
        self.count_K[key] += 1
        self.square_sum_K[key] += reward * reward
        self.count_O[self.key_indptr[key] + outcome] += 1
        self.reward_sum_O[self.key_indptr[key] + outcome] += reward
        return bool(self.count_K[key] >= 2 * self.planned_K[key])

    def regrown(self, graph: Graph, key: int, *, first: bool) -> Counts:
        """Return the same pooled counts on a graph whose row `key` has one more outcome, at the end of it.

        With `first` it takes the place of the one that stood for what nobody had seen.
        """
        count_O, reward_O = self.count_O, self.reward_sum_O
        if not first:
            end = int(self.key_indptr[key + 1])
            count_O, reward_O = np.insert(count_O, end, 0), np.insert(reward_O, end, 0.0)
        indptr = graph.problem.model.outcome_indptr
        return Counts(graph.row_model, indptr, self.count_K, count_O, reward_O, self.square_sum_K, self.planned_K)
