"""Growth of a count with the number of steps: as a power, an exponential, or in between.

Each shape is a line through the logarithm of the mean count N(H):

    power        log N = a + p log H        the parameter is the exponent p
    root         log N = a + q sqrt(H)      the parameter is q, N growing like exp(q sqrt(H))
    exponential  log N = a + b H            the parameter is exp(b), the factor per step

The shape with the smallest sum of squared residuals over all horizons is chosen. Its parameter is then fitted to the
larger half of them, where lower-order terms matter less. The uncertainty of both is estimated by resampling the trials
of each horizon with replacement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.errors import ModelError

SHAPES = ("power", "root", "exponential")
#: Number of resamples, and the share of them outside the interval on each side.
_RESAMPLES, _TAIL = 1000, 0.025


@dataclass(frozen=True)
class Shape:
    """A fitted shape.

    Attributes
    ----------
    name : str
        One of `SHAPES`.
    parameter : float
        The exponent of a power, the coefficient of a root, the factor per step of an exponential.
    low, high : float
        The 95 % interval of the parameter over resamples.
    sure : float
        The share of resamples in which this shape is chosen.
    since : int
        The shortest horizon that the parameter was fitted to.
    """

    name: str
    parameter: float
    low: float
    high: float
    sure: float
    since: int


def fit_shape(horizons: Sequence[int], counts: Sequence[Sequence[int]], *, name: str | None = None) -> Shape:
    """Fit the growth of mean counts.

    Parameters
    ----------
    horizons : sequence of int
        At least four, increasing.
    counts : sequence of sequences of int
        The counts of the trials at each horizon.
    name : str, optional
        Shape to fit; by default the one that fits best.

    Raises
    ------
    ModelError
        If there are too few horizons, or a horizon has no counts.

    Examples
    --------
    >>> shape = fit_shape([4, 6, 8, 10, 12], [[2**h, 2**h] for h in (4, 6, 8, 10, 12)])
    >>> shape.name, round(shape.parameter, 6), shape.sure
    ('exponential', 2.0, 1.0)
    """
    if len(horizons) < 4 or len(counts) != len(horizons) or not all(len(trials) for trials in counts):
        raise ModelError("counts", "trials at each of four or more horizons", f"{len(counts)} for {len(horizons)}")
    h = np.asarray(horizons, np.float64)
    logs_R = np.log(_resampled_means(counts))
    squares_RK = np.stack([_squares(_abscissa(shape, h), logs_R) for shape in SHAPES], axis=1)
    chosen = SHAPES[int(squares_RK[0].argmin())] if name is None else name
    half = slice(len(h) // 2, None)
    slopes = _slopes(_abscissa(chosen, h)[half], logs_R[:, half])
    parameters = np.exp(slopes) if chosen == "exponential" else slopes
    low, high = np.quantile(parameters[1:], [_TAIL, 1 - _TAIL])
    sure = float((squares_RK[1:].argmin(axis=1) == SHAPES.index(chosen)).mean())
    return Shape(chosen, float(parameters[0]), float(low), float(high), sure, int(h[half][0]))


def _resampled_means(counts: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Return the means at each horizon: of the trials themselves in row 0, of resamples in the others."""
    rng = np.random.default_rng(1)
    columns = []
    for trials in counts:
        values = np.asarray(trials, np.float64)
        picked = rng.integers(len(values), size=(_RESAMPLES, len(values)))
        columns.append(np.concatenate([[values.mean()], values[picked].mean(axis=1)]))
    return np.stack(columns, axis=1)


def _abscissa(name: str, horizons: NDArray[np.float64]) -> NDArray[np.float64]:
    return {"power": np.log(horizons), "root": np.sqrt(horizons), "exponential": horizons}[name]


def _slopes(x: NDArray[np.float64], y_R: NDArray[np.float64]) -> NDArray[np.float64]:
    centered = x - x.mean()
    slopes: NDArray[np.float64] = y_R @ centered / (centered @ centered)
    return slopes


def _squares(x: NDArray[np.float64], y_R: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of squared residuals of a fitted line, for each resample."""
    rest = y_R - y_R.mean(axis=1, keepdims=True) - np.outer(_slopes(x, y_R), x - x.mean())
    squares: NDArray[np.float64] = (rest**2).sum(axis=1)
    return squares
