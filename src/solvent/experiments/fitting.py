"""Growth rates: an exponent fitted by least squares, with its standard error.

If y = a * x**p, then log y = log a + p log x: a line of slope p. Constant overhead (calls, allocations) dominates small
sizes, so only the larger half of the sizes is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvent.errors import ModelError


@dataclass(frozen=True)
class Growth:
    """A fitted power law.

    Attributes
    ----------
    exponent : float
        The slope on logarithmic axes.
    error : float
        Its standard error, from the residuals; NaN for a line through two points.
    factor : float
        Coefficient of the power.
    points : int
        Number of points fitted.
    """

    exponent: float
    error: float
    factor: float
    points: int

    def __str__(self) -> str:
        spread = "" if math.isnan(self.error) else f" ± {self.error:.2f}"
        return f"{self.exponent:.2f}{spread}"


def fit_growth(sizes: Sequence[float], amounts: Sequence[float], *, larger_half: bool = True) -> Growth:
    """Fit amounts = factor * sizes**exponent by least squares on logarithms.

    Parameters
    ----------
    sizes, amounts : sequences of positive numbers
        Of equal length, at least two of the sizes distinct.
    larger_half : bool
        Fit only the larger half of the distinct sizes, at least two of them.

    Raises
    ------
    ModelError
        If there are fewer than two sizes, or a number is not positive and finite.

    Examples
    --------
    >>> growth = fit_growth([10, 20, 40, 80], [3, 12, 48, 192])
    >>> round(growth.exponent, 12), growth.points
    (2.0, 2)
    >>> print(fit_growth([1, 2, 4, 8], [1, 8.4, 63, 520], larger_half=False))
    3.00 ± 0.02
    """
    x, y = np.asarray(sizes, np.float64), np.asarray(amounts, np.float64)
    distinct = np.unique(x)
    if len(distinct) < 2 or x.shape != y.shape:
        raise ModelError(
            "sizes", "two or more distinct ones, and an amount for each", f"{len(x)} sizes and {len(y)} amounts"
        )
    if not (np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)).all():
        raise ModelError("sizes and amounts", "positive finite numbers", "others")
    if larger_half:
        kept = x >= distinct[min(len(distinct) // 2, len(distinct) - 2)]
        x, y = x[kept], y[kept]
    u, v = np.log(x), np.log(y)
    centered = u - u.mean()
    spread = float((centered**2).sum())
    slope = float((centered * v).sum()) / spread
    offset = float(v.mean() - slope * u.mean())
    left = len(u) - 2
    residual = float(((v - offset - slope * u) ** 2).sum())
    error = math.sqrt(residual / left / spread) if left > 0 else math.nan
    return Growth(slope, error, math.exp(offset), len(u))


def fit_factor(steps: Sequence[float], amounts: Sequence[float]) -> float:
    """Return the factor by which amounts grow per step, by least squares over the larger half of the steps.

    Examples
    --------
    >>> round(fit_factor([1, 2, 3, 4], [5, 10, 20, 40]), 12)
    2.0
    """
    growth = fit_growth([math.exp(step) for step in steps], amounts)
    return math.exp(growth.exponent)
