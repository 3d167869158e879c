"""Pooling: where the cost and the next state of a row are independent, average over each of them separately.

A row of S next states and n costs has S * n joint outcomes. If they are independent, the row has a distribution of
costs, and many rows share one: all moves on a grid burn fuel alike. The average of a next state's value over a cost
distribution is then computed once for all rows that share it, and each row is left with S outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.policy.search import pack
from solvent.solvers.arrays import ModelArrays, read_only
from solvent.solvers.outcomes.arrays import CostDistributions, IndependentRows
from solvent.solvers.outcomes.pooling_kernels import factor_rows

#: Largest number of distinct cost distributions; rows with further ones are used as they are.
MOST_DISTRIBUTIONS = 64
#: Largest number of distinct costs of a row that is pooled.
_MOST_COSTS = 64
#: Memory for factoring rows: copies of costs, their order, and the result.
_BYTES_PER_OUTCOME, _BYTES_PER_ROW = 72, 48


@dataclass(frozen=True)
class Pooled:
    """Outcomes of a model whose rows share cost distributions.

    Attributes
    ----------
    indptr : ndarray of int64, shape (R + 1,)
        Position of the first outcome of each row.
    probability, next_state, cost : ndarray, shape (O',)
        Outcomes that remain. The cost of an outcome with a cost distribution is the largest of the distribution.
    distribution : ndarray of int32, shape (O',)
        0 for an outcome with one cost, else one more than the position of its cost distribution.
    costs : CostDistributions
        Costs of each distribution in decreasing order.
    """

    indptr: NDArray[np.int64]
    probability: NDArray[np.float64]
    next_state: NDArray[np.int32]
    cost: NDArray[np.int64]
    distribution: NDArray[np.int32]
    costs: CostDistributions

    @property
    def n_distributions(self) -> int:
        """Number of cost distributions."""
        return len(self.costs.indptr) - 1


def _reserve(model: CMDP, monitor: ResourceMonitor) -> int:
    """Reserve memory for factoring the rows of a model; return its size in bytes."""
    size = model.n_outcomes * _BYTES_PER_OUTCOME + model.n_rows * _BYTES_PER_ROW
    monitor.reserve(size, "the outcomes of the model")
    return size


def pool(model: CMDP, cost: NDArray[np.int64], monitor: ResourceMonitor | None = None) -> Pooled:
    """Pool the rows whose cost distribution is shared by enough rows to save work.

    Costs and next states count as independent if each joint probability is the product of its marginals up to a few
    units in the last place. Memory for the result stays reserved.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    monitor = monitor or ResourceMonitor()
    size = _reserve(model, monitor)
    rows, count = _factor(model, cost, monitor)
    costs, of_row = rows.costs, rows.distribution
    sizes = np.diff(model.outcome_indptr)
    used = of_row >= 0
    saved = np.bincount(of_row[used], (sizes - rows.next_count)[used], max(count, 1))
    worth = saved > np.append(np.diff(costs.indptr[: count + 1]), 1)[: len(saved)] * model.n_states
    of_row = np.where(used & worth[np.maximum(of_row, 0)], of_row, -1)
    used = of_row >= 0
    lengths = np.where(used, rows.next_count, sizes)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    source = np.repeat(model.outcome_indptr[:-1] - indptr[:-1], lengths) + np.arange(indptr[-1])
    is_pooled = np.repeat(used, lengths)
    distribution = np.repeat(of_row + 1, lengths).astype(np.int32)
    largest = np.concatenate([[0], costs.cost[costs.indptr[:count]]])
    monitor.release(size - 24 * int(indptr[-1]) - 8 * model.n_rows)
    end = int(costs.indptr[count])
    return Pooled(
        indptr,
        np.where(is_pooled, rows.next_probability[source], model.probability[source]),
        np.where(is_pooled, rows.next_state[source], model.next_state[source]).astype(np.int32),
        np.where(is_pooled, largest[distribution], cost[source]),
        distribution,
        CostDistributions(costs.indptr[: count + 1], costs.cost[:end], costs.probability[:end]),
    )


def _factor(model: CMDP, cost: NDArray[np.int64], monitor: ResourceMonitor) -> tuple[IndependentRows, int]:
    """Return the independent rows of a model, with space for further distributions, and the number of distributions."""
    costs = CostDistributions(
        np.zeros(MOST_DISTRIBUTIONS + 1, np.int64),
        np.empty(MOST_DISTRIBUTIONS * _MOST_COSTS, np.int64),
        np.empty(MOST_DISTRIBUTIONS * _MOST_COSTS),
    )
    rows = IndependentRows(
        np.full(model.n_rows, -1, np.int32),
        np.zeros(model.n_rows, np.int64),
        np.empty(model.n_outcomes, np.int32),
        np.empty(model.n_outcomes),
        costs,
    )
    count = factor_rows(ModelArrays.of(model), read_only(cost), _MOST_COSTS, rows, monitor.halt)
    monitor.check_time()
    return rows, count


def independent_rows(
    model: CMDP, cost_OD: NDArray[np.int64], monitor: ResourceMonitor | None = None
) -> IndependentRows:
    """Find the rows for which averaging first over next states and then over costs saves work.

    Memory for the result stays reserved.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    monitor = monitor or ResourceMonitor()
    size = _reserve(model, monitor)
    packed = pack(list(cost_OD.T)) if cost_OD.shape[1] else np.zeros(len(cost_OD), np.int64)
    _, first, label = np.unique(packed, return_index=True, return_inverse=True)
    rows, count = _factor(model, label.astype(np.int64), monitor)
    monitor.release(size - 12 * model.n_outcomes - 12 * model.n_rows)
    sizes, indptr = np.diff(model.outcome_indptr), rows.costs.indptr[: count + 1]
    lengths = np.append(np.diff(indptr), 1)
    worth = (rows.distribution >= 0) & (sizes >= 2 * (rows.next_count + lengths[rows.distribution]))
    used = slice(0, int(indptr[-1]))
    cost_KD = read_only(np.ascontiguousarray(cost_OD[first[rows.costs.cost[used]]]))
    costs = CostDistributions(indptr, cost_KD, rows.costs.probability[used])
    return rows._replace(distribution=np.where(worth, rows.distribution, -1).astype(np.int32), costs=costs)
