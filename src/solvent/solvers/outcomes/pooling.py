"""Pooling: where cost and next state of a row are independent, average over costs once and over states once.

A row of S next states and n costs has S * n joint outcomes. If they are independent, the costs have a law of their own,
and laws recur: all moves on a grid burn fuel alike. The average of a next state's value over a law is then taken once
for all rows that share it, and each row is left with S outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.policy.search import pack
from solvent.solvers.outcomes.pooling_kernels import factor_rows

#: Models with more distinct laws than this are not pooled beyond them.
MOST_LAWS = 64
_MOST_COSTS = 64
#: Memory that taking rows apart takes in all: copies of costs, their order, and what is found.
_BYTES_PER_OUTCOME, _BYTES_PER_ROW = 72, 48


@dataclass(frozen=True)
class Pooled:
    """The outcomes of a model with laws of cost taken out.

    Attributes
    ----------
    indptr : ndarray of int64, shape (R + 1,)
        Where the outcomes of each row begin.
    probability, next_state, cost : ndarrays, shape (O',)
        Of what is left of the outcomes; the cost is the law's largest where there is one.
    law : ndarray of int32, shape (O',)
        0 for a plain outcome, else one more than the position of its law.
    law_indptr, law_cost, law_probability : ndarrays
        The laws, costs falling.
    """

    indptr: NDArray[np.int64]
    probability: NDArray[np.float64]
    next_state: NDArray[np.int32]
    cost: NDArray[np.int64]
    law: NDArray[np.int32]
    law_indptr: NDArray[np.int64]
    law_cost: NDArray[np.int64]
    law_probability: NDArray[np.float64]

    @property
    def n_laws(self) -> int:
        """Number of laws taken out."""
        return len(self.law_indptr) - 1


def _reserve(model: CMDP, monitor: ResourceMonitor) -> int:
    """Reserve memory for taking the rows of a model apart; return how much."""
    size = model.n_outcomes * _BYTES_PER_OUTCOME + model.n_rows * _BYTES_PER_ROW
    monitor.reserve(size, "the outcomes of the model")
    return size


def pool(model: CMDP, cost: NDArray[np.int64], monitor: ResourceMonitor | None = None) -> Pooled:
    """Take out the laws that are shared by enough rows to be worth it.

    Independence is judged to rounding: a joint probability must be the product of its margins to a few units in the
    last place. Memory for the result stays reserved.

    Raises
    ------
    LimitReached
        If it would not fit into the memory allowed, or time is up.
    """
    monitor = monitor or ResourceMonitor()
    size = _reserve(model, monitor)
    found = _factor(model, cost, monitor)
    law_of_row, mix_count, law_indptr, n_laws = found.law, found.mix_count, found.indptr, found.n_laws
    sizes = np.diff(model.outcome_indptr)
    used = law_of_row >= 0
    saved = np.bincount(law_of_row[used], (sizes - mix_count)[used], max(n_laws, 1))
    worth = saved > np.append(np.diff(law_indptr[: n_laws + 1]), 1)[: len(saved)] * model.n_states
    law_of_row = np.where(used & worth[np.maximum(law_of_row, 0)], law_of_row, -1)
    used = law_of_row >= 0
    lengths = np.where(used, mix_count, sizes)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    source = np.repeat(model.outcome_indptr[:-1] - indptr[:-1], lengths) + np.arange(indptr[-1])
    mixed = np.repeat(used, lengths)
    law = np.repeat(law_of_row + 1, lengths).astype(np.int32)
    dearest = np.concatenate([[0], found.cost[law_indptr[:n_laws]]])
    monitor.release(size - 24 * int(indptr[-1]) - 8 * model.n_rows)
    return Pooled(
        indptr,
        np.where(mixed, found.mix_probability[source], model.probability[source]),
        np.where(mixed, found.mix_state[source], model.next_state[source]).astype(np.int32),
        np.where(mixed, dearest[law], cost[source]),
        law,
        law_indptr[: n_laws + 1],
        found.cost[: law_indptr[n_laws]],
        found.probability[: law_indptr[n_laws]],
    )


@dataclass(frozen=True)
class _Factors:
    """Rows taken apart into a law of costs and a mix of next states, which stands where their outcomes do."""

    law: NDArray[np.int32]
    mix_count: NDArray[np.int64]
    mix_state: NDArray[np.int32]
    mix_probability: NDArray[np.float64]
    indptr: NDArray[np.int64]
    cost: NDArray[np.int64]
    probability: NDArray[np.float64]
    n_laws: int


def _factor(model: CMDP, cost: NDArray[np.int64], monitor: ResourceMonitor) -> _Factors:
    n_rows, n_outcomes = model.n_rows, model.n_outcomes
    law_of_row = np.full(n_rows, -1, np.int32)
    mix_count = np.zeros(n_rows, np.int64)
    mix_state, mix_probability = np.empty(n_outcomes, np.int32), np.empty(n_outcomes)
    law_indptr = np.zeros(MOST_LAWS + 1, np.int64)
    law_cost = np.empty(MOST_LAWS * _MOST_COSTS, np.int64)
    law_probability = np.empty(MOST_LAWS * _MOST_COSTS)
    n_laws = factor_rows(
        model.outcome_indptr, model.probability, model.next_state, cost, _MOST_COSTS, law_of_row, mix_count, mix_state,
        mix_probability, law_indptr, law_cost, law_probability, monitor.halt,
    )  # fmt: skip
    monitor.check_time()
    return _Factors(law_of_row, mix_count, mix_state, mix_probability, law_indptr, law_cost, law_probability, n_laws)


@dataclass(frozen=True)
class IndependentRows:
    """Rows whose costs, of all resources together, are independent of the next state, with enough of both to matter.

    Attributes
    ----------
    law : ndarray of int32, shape (R,)
        The law of each row's costs, or -1 where the row is taken as it is.
    mix_count : ndarray of int64, shape (R,)
        Number of next states.
    mix_state, mix_probability : ndarrays, shape (O,)
        The next states of a row, from where its outcomes begin.
    law_indptr, law_cost_KD, law_probability : ndarrays
        The laws.
    """

    law: NDArray[np.int32]
    mix_count: NDArray[np.int64]
    mix_state: NDArray[np.int32]
    mix_probability: NDArray[np.float64]
    law_indptr: NDArray[np.int64]
    law_cost_KD: NDArray[np.int64]
    law_probability: NDArray[np.float64]


def independent_rows(
    model: CMDP, cost_OD: NDArray[np.int64], monitor: ResourceMonitor | None = None
) -> IndependentRows:
    """Find the rows for which averaging over costs and over next states one after the other saves work.

    Memory for the result stays reserved.

    Raises
    ------
    LimitReached
        If it would not fit into the memory allowed, or time is up.
    """
    monitor = monitor or ResourceMonitor()
    size = _reserve(model, monitor)
    packed = pack(list(cost_OD.T)) if cost_OD.shape[1] else np.zeros(len(cost_OD), np.int64)
    _, first, label = np.unique(packed, return_index=True, return_inverse=True)
    found = _factor(model, label.astype(np.int64), monitor)
    monitor.release(size - 12 * model.n_outcomes - 12 * model.n_rows)
    sizes = np.diff(model.outcome_indptr)
    lengths = np.append(np.diff(found.indptr[: found.n_laws + 1]), 1)
    worth = (found.law >= 0) & (sizes >= 2 * (found.mix_count + lengths[found.law]))
    used = slice(0, int(found.indptr[found.n_laws]))
    return IndependentRows(
        np.where(worth, found.law, -1).astype(np.int32),
        found.mix_count,
        found.mix_state,
        found.mix_probability,
        found.indptr[: found.n_laws + 1],
        np.ascontiguousarray(cost_OD[first[found.cost[used]]]),
        found.probability[used],
    )
