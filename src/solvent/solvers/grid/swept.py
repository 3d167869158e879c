"""The result of a sweep: values of the first step, and the best rows of all steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.solvers.accuracy import Extremes
from solvent.solvers.arrays import read_only
from solvent.solvers.bounds.kernels import fill_row_bounds
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.runs import KeptRuns, StoredRuns


@dataclass(frozen=True)
class Swept:
    """Result of a sweep.

    Attributes
    ----------
    layout : BoxLayout
    value : ndarray of float64
        Values of the boxes of the first step.
    runs : KeptRuns or StoredRuns
    extremes : Extremes
    """

    layout: BoxLayout
    value: NDArray[np.float64]
    runs: KeptRuns | StoredRuns
    extremes: Extremes

    def value_of(self, amounts_ND: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values of amounts spent before the first step, in each possible first state.

        Parameters
        ----------
        amounts_ND : ndarray of int64, shape (N, D)
            Ticks, in the problem's order of resources, between those that the sweep began with.

        Returns
        -------
        ndarray of float64, shape (N, number of first states)
            Minus infinity where nothing is feasible.
        """
        layout, boxes = self.layout, self.layout.boxes
        amounts_ND = amounts_ND[:, layout.order]
        found = np.full((len(amounts_ND), len(layout.model.start_states)), -np.inf)
        for k, s in enumerate(layout.model.start_states.tolist()):
            low, width = boxes.low[0, s], boxes.width[0, s]
            if not width[0]:
                continue
            high = np.minimum(layout.bounds.safe_high[0, s], low + width - 1)
            doomed = (amounts_ND > layout.bounds.safe_high[0, s]) | (amounts_ND < layout.bounds.safe_low[0, s])
            at = np.zeros(len(amounts_ND), np.int64)
            for d in range(len(width)):
                stride = 1 if d == len(width) - 1 else int(boxes.pitch_H[0]) * int(np.prod(width[d + 1 : -1]))
                at += (np.clip(amounts_ND[:, d], low[d], high[d]) - low[d]) * stride
            found[:, k] = np.where(doomed.any(1), -np.inf, self.value[boxes.offset[0, s] + at])
        return found


def last_rows(layout: BoxLayout) -> NDArray[np.int64]:
    """Return the rows that are safe for some amount of a box at the last step."""
    model, boxes, bounds = layout.model, layout.boxes, layout.bounds
    indptr = read_only(model.row_indptr_at(model.horizon - 1))
    low_RD, high_RD = np.empty((2, int(indptr[-1] - indptr[0]), len(layout.order)), np.int64)
    upper_D, lower_D = layout.limits.upper_HD[-1], layout.limits.lower_HD[-1]
    fill_row_bounds(
        indptr, layout.arrays, layout.costs, upper_D, lower_D, bounds.safe_low[-1], bounds.safe_high[-1], low_RD,
        high_RD,
    )  # fmt: skip
    owner = np.repeat(np.arange(model.n_states), np.diff(indptr))
    first, width = boxes.low[-2, owner], boxes.width[-2, owner]
    safe = (np.maximum(low_RD, first) <= np.minimum(high_RD, first + width - 1)).all(1)
    return np.flatnonzero(safe) + int(indptr[0])
