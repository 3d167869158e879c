"""Bonuses for optimism: weights that depend on how often each row was tried.

For a row tried n times, with p the shares of its outcomes, V_up and V_low the values after them and sd the standard
deviation of reward plus V_up under p:

    Q_up  = mean + bonus,         bonus = a sd + c range + eta p(V_up - V_low)
    Q_low = mean of V_low - bonus
    G     = 2 a sd + c_gap range + (1 + 3 eta) p G

"theory" is BPI-UCBVI (Menard et al. 2021): a = 3 sqrt(beta* / n), c range = 14 H^2 beta / n,
c_gap range = 36 H^2 beta / n and eta = 1 / H. "practical" is a scaled empirical Bernstein bound: a = sqrt(2 L / n),
c = 7 L / (3 n), c_gap = 2 c and eta = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solvent.learning.kernels import Weights, log, weigh_practical, weigh_theory

BonusName = Literal["practical", "theory"]


@dataclass(frozen=True)
class Bonus:
    """A bonus and its parameters.

    Attributes
    ----------
    name : {"practical", "theory"}
    delta : float
        Accepted probability that the bounds fail; nominal for the practical bonus.
    scale : float
        Factor of the practical bonus.
    horizon : int
    functions : int
        Number of rows of nodes for which the bound holds simultaneously.
    known : bool
        Whether all possible outcomes are known.
    """

    name: BonusName
    delta: float
    scale: float
    horizon: int
    functions: int
    known: bool

    @cached_property
    def confidence(self) -> float:
        """The logarithm of the number of simultaneous bounds over delta, log(3 functions / delta)."""
        return float(log(3.0 * max(self.functions, 1)) - log(self.delta))

    def weights(self, count_K: NDArray[np.int64], size_K: NDArray[np.int64]) -> Weights:
        """Return the weights of keys.

        Parameters
        ----------
        count_K : ndarray of int64, shape (K,)
            How often each key was tried.
        size_K : ndarray of int64, shape (K,)
            Number of outcomes of each key.

        Examples
        --------
        >>> bonus = Bonus("practical", 0.1, 1.0, horizon=2, functions=3, known=True)
        >>> bonus.weights(np.array([0, 9]), np.array([2, 2])).range_K.round(3).tolist()
        [10.5, 1.167]
        """
        confidence = self.confidence
        n_keys = len(count_K)
        spread_K, range_K, gap_K = np.empty(n_keys), np.empty(n_keys), np.empty(n_keys)
        if self.name == "practical":
            weigh_practical(count_K, confidence, self.scale, spread_K, range_K, gap_K)
            return Weights(spread_K, range_K, gap_K, 0.0, 0.0, -1.0 if self.known else 0.0)
        weigh_theory(count_K, size_K, confidence, spread_K, range_K, gap_K)
        eta = 1 / self.horizon
        return Weights(spread_K, range_K, gap_K, eta, 3 * eta, float(self.horizon * self.horizon))
