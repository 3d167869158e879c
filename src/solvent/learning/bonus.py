"""Confidence bounds: how far estimates may be from the truth, depending on how often each row was tried.

For a row tried n times, let p be the shares of its k outcomes and f the reward plus the value after each. With
probability at least 1 - delta, for all rows and all n, the true probabilities q satisfy

    KL(p, q) <= a,   n a = log(K / delta) + log C(n + k - 1, k - 1) + log(n! / (n_1! ... n_k!) p_1^n_1 ... p_k^n_k),

where K is the number of counts, and whenever that holds

    q f <= p f + sqrt(2 a Var_p(f)) + a (max f - p f).

Both are proved in docs/guarantees.md. The same bound, with a times `scale`, chooses where to explore; whether the
bounds hold does not depend on that.

"theory" is BPI-UCBVI (Menard et al. 2021), as in the paper. With V_up and V_low the values after the outcomes and sd
the standard deviation of reward plus V_up under p:

    Q_up  = mean + bonus,         bonus = s sd + c range + eta p(V_up - V_low)
    Q_low = mean of V_low - bonus
    G     = 2 s sd + c_gap range + (1 + 3 eta) p G

with s = 3 sqrt(beta* / n), c range = 14 H^2 beta / n, c_gap range = 36 H^2 beta / n and eta = 1 / H.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from solvent.learning.counts import Counts
from solvent.learning.kernels import Radii, Weights, log, weigh_theory, write_radii

BonusName = Literal["practical", "theory"]


@dataclass(frozen=True)
class Bonus:
    """The bounds of all rows, and their parameters.

    Attributes
    ----------
    delta : float
        Accepted probability that the bounds fail.
    n_keys : int
        Number of keys, each with its own counts.
    known : bool
        Whether all possible outcomes are known.
    reward_width : float
        The greatest minus the least possible reward if rewards are random; else 0.
    """

    delta: float
    n_keys: int
    known: bool = True
    reward_width: float = 0.0

    @cached_property
    def confidence(self) -> float:
        """The logarithm of the number of simultaneous bounds over delta."""
        return float(log((2.0 if self.reward_width > 0 else 1.0) * max(self.n_keys, 1)) - log(self.delta))

    def radii(self, counts: Counts) -> Radii:
        """Return how far the estimates from counts may be from the truth.

        Examples
        --------
        >>> counts = Counts(np.zeros(2, np.int64), np.array([0, 2, 3]), np.array([9, 9]), np.array([3, 6, 9]),
        ...                 np.zeros(3), np.zeros(2), np.zeros(2, np.int64))
        >>> Bonus(0.05, 2).radii(counts).radius_K.round(3).tolist()  # a single outcome is certain
        [0.522, 0.0]
        """
        n_keys = len(counts.count_K)
        radii = Radii(np.empty(n_keys), np.empty(n_keys))
        write_radii(counts.key_indptr, counts.arrays, self.confidence, self.known, self.reward_width, radii)
        return radii


@dataclass(frozen=True)
class TheoryBonus:
    """The bonus of BPI-UCBVI, and its parameters.

    Attributes
    ----------
    delta : float
        Accepted probability that the bounds fail.
    horizon : int
    functions : int
        Number of rows of nodes for which the bounds hold simultaneously.
    """

    delta: float
    horizon: int
    functions: int

    @cached_property
    def confidence(self) -> float:
        """The logarithm of the number of simultaneous bounds over delta, log(3 functions / delta)."""
        return float(log(3.0 * max(self.functions, 1)) - log(self.delta))

    def weights(self, counts: Counts) -> Weights:
        """Return the weights of keys.

        Examples
        --------
        >>> counts = Counts(np.zeros(1, np.int64), np.array([0, 2]), np.array([9]), np.array([3, 6]),
        ...                 np.zeros(2), np.zeros(1), np.zeros(1, np.int64))
        >>> TheoryBonus(0.1, horizon=2, functions=3).weights(counts).range_K.round(3).tolist()
        [23.758]
        """
        spread_K, range_K, gap_K = np.empty((3, len(counts.count_K)))
        weigh_theory(counts.count_K, counts.size_K, self.confidence, spread_K, range_K, gap_K)
        return Weights(spread_K, range_K, gap_K, 1 / self.horizon, float(self.horizon * self.horizon))
