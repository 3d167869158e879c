"""Pooling: where cost and next state of a row are independent, average over costs once and over states once.

A row of S next states and n costs has S * n joint outcomes. If they are independent, the costs have a law of their own,
and laws recur: all moves on a grid burn fuel alike. The average of a next state's value over a law is then taken once
for all rows that share it, and each row is left with S outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.model.cmdp import CMDP
from solvent.plan.pooling_kernels import factor_rows

#: Models with more distinct laws than this are not pooled beyond them.
MOST_LAWS = 64
_MOST_COSTS = 64


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


def pool(model: CMDP, cost: NDArray[np.int64]) -> Pooled:
    """Take out the laws that are shared by enough rows to be worth it.

    Independence is judged to rounding: a joint probability must be the product of its margins to a few units in the
    last place.
    """
    n_rows, n_outcomes = model.n_rows, model.n_outcomes
    law_of_row = np.full(n_rows, -1, np.int32)
    mix_count = np.zeros(n_rows, np.int64)
    mix_state, mix_probability = np.empty(n_outcomes, np.int32), np.empty(n_outcomes)
    law_indptr = np.zeros(MOST_LAWS + 1, np.int64)
    law_cost = np.empty(MOST_LAWS * _MOST_COSTS, np.int64)
    law_probability = np.empty(MOST_LAWS * _MOST_COSTS)
    n_laws = factor_rows(
        model.outcome_indptr, model.probability, model.next_state, cost, _MOST_COSTS, law_of_row, mix_count, mix_state,
        mix_probability, law_indptr, law_cost, law_probability,
    )  # fmt: skip
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
    dearest = np.concatenate([[0], law_cost[law_indptr[:n_laws]]])
    return Pooled(
        indptr,
        np.where(mixed, mix_probability[source], model.probability[source]),
        np.where(mixed, mix_state[source], model.next_state[source]).astype(np.int32),
        np.where(mixed, dearest[law], cost[source]),
        law,
        law_indptr[: n_laws + 1],
        law_cost[: law_indptr[n_laws]],
        law_probability[: law_indptr[n_laws]],
    )
