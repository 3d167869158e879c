"""Bounds on the difference between a computed value and the true one, from rounding errors and tolerances.

Values are floats. Let V_h(x) be the value computed at a node x of step h, V*_h(x) the optimum there, and for a safe row
with reward r, Q the exact sum r + E[V_{h+1}(x')]. Two things keep V_h(x) from being the maximum of Q over the rows:

    rounding    the computed sum differs from Q by at most g (|r| + E|V_{h+1}(x')|)
    merging     a value above the one kept counts as equal to it if it is larger by at most t max(|values|) + d

With T_h the largest value of step h, R_h the largest reward of a row that is safe somewhere at step h, and neither
below 0, induction from the last step gives

    V*_h(x) <= V_h(x) + w_h (T_h - V_h(x)) + E_h,      w_h = w_{h+1} + g + t,
    E_h = E_{h+1} + w_{h+1} (T_{h+1} + R_h - T_h) + g (2 R_h + 2 T_{h+1} - T_h) + t T_h + d,

so very low values of actions that no optimal policy takes do not enter the bound. The value of the policy that attains
V_0 is at least

    V_0 - g * sum over h of  E|r_h| + E|V_{h+1}|,

both taken along its own histories; where these are not known, the sum is at most 2 (R_0 + ... + R_{H-1}) - V_0 plus
2 T_{h+1} + R_0 + ... + R_h - V_0 for each h below H - 1. See docs/guarantees.md for the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.checkpoint import Section
from solvent.model.cmdp import CMDP
from solvent.solvers.bounds.kernels import SMALLEST_FLOAT
from solvent.solvers.outcomes.pooling_kernels import ROUNDING

#: Half the distance from 1 to the next float: the largest relative error of one operation.
ROUNDOFF = 2.0**-53
#: Relative difference up to which values on a frontier are one point, so that rounding errors do not add points.
SAME_POINT = 2.0**-48
#: Largest difference, relative to the expected absolute reward, between the value of a policy followed forward and the
#: value computed backward.
AGREEMENT = 1e-9
#: The formulas leave out products of errors, which are far smaller than this share of the rest.
_SAFETY = 1.0 + 2.0**-6
#: Products larger than two to this power do not underflow, nor do their differences.
_SMALLEST_EXPONENT = -900


@dataclass(frozen=True)
class Rounding:
    """Relative errors of one evaluation of a row.

    Attributes
    ----------
    row : float
        The `g` of the module's formulas.
    row_terms : int
        Number of operations that `row` accounts for.
    bins : float
        Total error of the probabilities of a row.
    model : CMDP or None
        The model that is solved.
    """

    row: float
    row_terms: int
    bins: float = 0.0
    model: CMDP | None = field(default=None, repr=False)

    @property
    def may_underflow(self) -> bool:
        """Whether a product of probabilities and a reward can be too small for a float of full precision."""
        if self.model is None:
            return True
        least, reward = self.model.probability.min(initial=1.0), np.abs(self.model.row_reward)
        least = min(least, float(self.model.start_probability.min()))
        if self.model.end_reward is not None:
            reward = np.append(reward, np.abs(self.model.end_reward))
        smallest = reward.min(initial=np.inf, where=reward > 0)
        # differences of such products are at least a unit in the last place of them
        if least <= 0:  # of a bin
            return True
        return bool((self.model.horizon + 1) * math.log2(least) + math.log2(min(smallest, 1.0)) < _SMALLEST_EXPONENT)

    @classmethod
    def of(cls, origin: CMDP, model: CMDP, *, pooled: bool, bin_error: float) -> Rounding:
        """Return the errors of rows of `model`, whose outcomes were merged from or split out of those of `origin`.

        Parameters
        ----------
        origin, model : CMDP
        pooled : bool
            Whether costs and next states may be averaged separately, where they are independent up to `ROUNDING`.
        bin_error : float
            Total error of the probabilities of a row, where they are differences of a distribution function.
        """
        terms = origin.most_outcomes + model.most_outcomes + 4
        row = terms * ROUNDOFF
        if pooled:
            row += 4 * ROUNDING
        return cls(row, terms, bin_error, model)


@dataclass(frozen=True)
class Extremes:
    """Extremes of values and rewards at each step.

    Attributes
    ----------
    top : ndarray of float64, shape (H,)
        The largest value of any node, or 0 if that is larger.
    bottom : ndarray of float64, shape (H,)
        The smallest value of any node that is no dead end, or 0 if that is smaller.
    reward : ndarray of float64, shape (H,)
        The largest reward of a row that is safe somewhere, or 0 if that is larger.
    end_top, end_bottom : float
        The largest and the smallest end reward after the last step, or 0 if that is larger or smaller; the values of
        step H.
    has_ends : bool
        Whether the model has end rewards.
    """

    top: NDArray[np.float64]
    bottom: NDArray[np.float64]
    reward: NDArray[np.float64]
    end_top: float = 0.0
    end_bottom: float = 0.0
    has_ends: bool = False

    @classmethod
    def none(cls, model: CMDP, last_rows: Callable[[], NDArray[np.int64]]) -> Extremes:
        """Return extremes of 0, to be filled in, and those of the end rewards after the last step.

        Parameters
        ----------
        model : CMDP
        last_rows : callable
            Returns the rows that may be taken at the last step; called only if there are end rewards.
        """
        top, bottom, reward = (np.zeros(model.horizon) for _ in range(3))
        if model.end_reward is None:
            return cls(top, bottom, reward)
        rows = last_rows()
        counts = np.diff(model.outcome_indptr)[rows]
        first = np.cumsum(counts) - counts
        outcome = np.arange(int(counts.sum())) - np.repeat(first - model.outcome_indptr[rows], counts)
        ends = model.end_value[model.next_state[outcome]]
        ends = ends[np.isfinite(ends)]
        return cls(top, bottom, reward, float(ends.max(initial=0.0)), float(ends.min(initial=0.0)), has_ends=True)

    def add(self, step: int, found: NDArray[np.float64]) -> None:
        """Take in the largest value, the smallest value and the largest reward of some nodes of a step."""
        self.top[step] = max(self.top[step], found[0])
        self.bottom[step] = min(self.bottom[step], found[1])
        self.reward[step] = max(self.reward[step], found[2])

    @property
    def saved(self) -> NDArray[np.float64]:
        """All of them in one array, shape (3, H), for a checkpoint."""
        return np.stack([self.top, self.bottom, self.reward])

    def restore(self, section: Section) -> None:
        """Restore what `saved` returned from the array "extremes" of a section."""
        found = section.array("extremes", np.float64, (3, len(self.top)))
        if not np.isfinite(found).all():
            raise section.damaged("extremes", "finite numbers", "others")
        self.top[:], self.bottom[:], self.reward[:] = found

    def above(self, value: float, rounding: Rounding, *, same: float = 0.0, resolution: float = 0.0) -> float:
        """Return an upper bound on the optimum minus a value computed for the start.

        Parameters
        ----------
        value : float
        rounding : Rounding
        same : float
            Relative difference up to which values were merged.
        resolution : float
            Absolute difference up to which values were merged.
        """
        g, horizon = rounding.row, len(self.top)
        top, end_top = self._carried() if self.has_ends else (self.top, self.end_top)
        top_after = np.append(top[1:], end_top)
        weight_after = (g + same) * np.arange(horizon - 1, -1, -1)
        slack = weight_after * np.maximum(top_after + self.reward - top, 0.0)
        errors = slack + g * (2 * (self.reward + top_after) - top) + same * top + resolution
        error = float(errors.sum()) + horizon * (g + same) * max(float(top[0]) - value, 0.0) + self.shifted(rounding)
        some = bool(self.top.any() or self.reward.any() or self.end_top) or (
            bool(self.bottom.any() or self.end_bottom) and rounding.may_underflow
        )
        return _with_underflow(error, horizon, rounding, some)

    def _carried(self) -> tuple[NDArray[np.float64], float]:
        """Return upper bounds on the values of all steps that never fall by more than the largest reward of a step.

        Values of terminal states, which are end rewards, are carried on to later steps.
        """
        earned = np.concatenate([[0.0], np.cumsum(self.reward)])
        total = np.maximum.accumulate(np.append(self.top, self.end_top) + earned)
        # rounding may have made a sum too small
        tops = (total - earned) * (1 + 2.0**-40) + 2.0**-40 * earned
        return tops[:-1], float(tops[-1])

    def shifted(self, rounding: Rounding) -> float:
        """Return the largest error of the start's value that is due to the probabilities of bins."""
        if rounding.bins == 0:
            return 0.0
        later = np.maximum(self.top, -self.bottom)[1:].sum() + max(self.end_top, -self.end_bottom)
        return rounding.bins * float(later)

    def below(self, value: float, rounding: Rounding) -> float:
        """Return an upper bound on the value computed for a policy at the start minus its true value.

        The policy need not be known: its expected |r_h| + |V_{h+1}| is bounded in two ways, by the largest absolute
        values of each step, and by the largest rewards and values minus the value of the policy.
        """
        size = np.maximum(np.abs(self.top), np.abs(self.bottom))
        end_size = max(self.end_top, -self.end_bottom)
        total = float(size.sum() + 2 * size[1:].sum()) + 2 * end_size
        earned = np.cumsum(self.reward)
        along = 2 * float(earned[-1]) - value + float((2 * self.top[1:] + earned[:-1] - value).sum())
        if self.has_ends:  # rewards of steps sum to the value less the end reward, and E|V_H| is a further term
            most = max(float(self.top.max()), self.end_top)
            along += len(size) * most + max(2 * self.end_top + float(earned[-1]) + most - value, 0.0)
        error = rounding.row * min(total, max(along, 0.0)) + self.shifted(rounding)
        return _with_underflow(error, len(size), rounding, bool(size.any() or end_size))


@dataclass(frozen=True)
class Followed:
    """A policy's rewards, followed forward from the start.

    Attributes
    ----------
    reward : ndarray of float64, shape (H,) or (H + 1,)
        Expected reward of each step and, if the model has end rewards, of the end.
    size : ndarray of float64, of the same shape
        Expected absolute rewards.
    largest : float
        The largest absolute reward of any row.
    some : bool
        Whether any reward that the policy can earn is not 0.
    """

    reward: NDArray[np.float64]
    size: NDArray[np.float64]
    largest: float = 0.0
    some: bool = True

    @classmethod
    def begun(cls, model: CMDP) -> Followed:
        """Return rewards of 0, to be filled in."""
        largest = float(np.abs(model.row_reward).max(initial=0.0))
        if model.end_reward is None:
            return cls(np.zeros(model.horizon), np.zeros(model.horizon), largest)
        largest = max(largest, float(np.abs(model.end_reward).max()))
        return cls(np.zeros(model.horizon + 1), np.zeros(model.horizon + 1), largest)

    def along(self, model: CMDP, rows: Callable[[], Iterable[NDArray[Any]]]) -> Followed:
        """Return these rewards with `some` set from the rows that were taken; negative rows are skipped."""
        if self.size.any() or model.end_reward is not None:
            return self
        return replace(self, some=any(bool(model.row_reward[row[row >= 0]].any()) for row in rows()))

    @property
    def floor(self) -> float:
        """Upper bound on what nodes with an underflowing probability, kept above 0, have added to the value."""
        return 2.0**-900 * self.largest

    @property
    def value(self) -> float:
        """Expected reward of all steps."""
        return math.fsum(self.reward.tolist())

    @property
    def total(self) -> float:
        """Expected absolute reward of all steps."""
        return math.fsum(self.size.tolist())

    def below(self, rounding: Rounding, resolution: float = 0.0) -> float:
        """Return an upper bound on the policy's value computed backward minus its true value."""
        horizon = len(self.size)
        # a reward of step h is part of the sums of all steps up to h
        passes = float((self.size * np.arange(1, horizon + 1)).sum())
        lost = rounding.row * (passes + horizon * horizon * resolution)
        some = self.some and (bool(self.size.any()) or rounding.may_underflow)
        return _with_underflow(lost, horizon, rounding, some)


def _with_underflow(error: float, horizon: int, rounding: Rounding, some: bool) -> float:
    """Return an error enlarged by products of errors and by products that underflow; 0 if all terms are 0."""
    return _SAFETY * error + horizon * rounding.row_terms * SMALLEST_FLOAT if some or error > 0 else 0.0
