"""Outcomes on a lattice: replacing them, and merging equal ones.

Two outcomes of a row are equal (twins) if they lead to the same state at the same cost in ticks; merged, they are one
outcome whose probability is the sum. Equal outcomes come from outcomes listed twice, from outcomes that differ only in
a resource without limits, and from costs that rounding has made equal. They are merged once, when a problem is made, so
that methods need not expect them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import ExactColumn
from solvent.model.cmdp import CMDP
from solvent.solvers.arrays import read_only
from solvent.solvers.outcomes.merging_kernels import UNKNOWN, find_twins


@dataclass
class Columns:
    """Columns of outcomes that are being replaced or merged.

    Attributes
    ----------
    source : ndarray of int64, shape (O,)
        The outcome of the original model that each comes from.
    probability : ndarray of float64, shape (O,)
    ticks, high, low : list of ndarray of int64
        For each tracked resource, the ticks of each outcome, and upper and lower bounds on its true cost.
    """

    source: NDArray[np.int64]
    probability: NDArray[np.float64]
    ticks: list[NDArray[np.int64]] = field(default_factory=list)
    high: list[NDArray[np.int64]] = field(default_factory=list)
    low: list[NDArray[np.int64]] = field(default_factory=list)

    @classmethod
    def of(cls, model: CMDP) -> Columns:
        """Return the outcomes of a model as they are."""
        return cls(np.arange(model.n_outcomes), model.probability)

    def take(self, at: NDArray[np.int64]) -> Columns:
        """Return the outcomes at the given positions."""
        columns = ([each[at] for each in group] for group in (self.ticks, self.high, self.low))
        return Columns(self.source[at], self.probability[at], *columns)


def merge_twins(model: CMDP, ticks_OD: NDArray[np.int64]) -> tuple[CMDP, NDArray[np.int64]]:
    """Return a model and its ticks with equal outcomes of each row merged, or both unchanged if there are none."""
    found = find_twins(read_only(model.outcome_indptr), read_only(model.next_state), read_only(ticks_OD))
    if not found:
        return model, ticks_OD
    columns = Columns.of(model)
    columns.ticks = list(ticks_OD.T)
    merged = merge(model, columns)
    if merged is columns:  # the kernel did not compare all pairs
        assert found == UNKNOWN
        return model, ticks_OD
    ticks = np.stack(merged.ticks, axis=1) if merged.ticks else np.zeros((len(merged.source), 0), np.int64)
    return rebuilt(model, merged), ticks


def merge(model: CMDP, columns: Columns) -> Columns:
    """Return the outcomes with equal outcomes of each row merged."""
    row = np.repeat(np.arange(model.n_rows), np.diff(model.outcome_indptr))[columns.source]
    keys: list[NDArray[Any]] = [*columns.ticks[::-1], model.next_state[columns.source], row]
    order = np.lexsort(keys)
    new = np.zeros(len(order), bool)
    new[:1] = True
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    if new.all():
        return columns
    first = np.flatnonzero(new)
    sorted_ = columns.take(order)
    merged = sorted_.take(first)
    merged.probability = np.add.reduceat(sorted_.probability, first)
    merged.high = [np.maximum.reduceat(each, first) for each in sorted_.high]
    merged.low = [np.minimum.reduceat(each, first) for each in sorted_.low]
    return merged


def rebuilt(model: CMDP, columns: Columns) -> CMDP:
    """Return the model with its outcomes replaced; costs are kept in the ticks only, and are 0 in the model."""
    as_before = len(columns.source) == model.n_outcomes and np.array_equal(columns.source, np.arange(model.n_outcomes))
    if as_before and np.array_equal(columns.probability, model.probability):
        return model
    row = np.repeat(np.arange(model.n_rows), np.diff(model.outcome_indptr))[columns.source]
    nothing = ExactColumn(np.zeros(len(row), np.int64), Fraction(1))
    return replace(
        model,
        outcome_indptr=np.concatenate([[0], np.cumsum(np.bincount(row, minlength=model.n_rows))]).astype(np.int64),
        probability=columns.probability,
        next_state=model.next_state[columns.source],
        cost=(nothing,) * model.n_resources,
        distributions=(),
        distribution_DO=None,
    )
