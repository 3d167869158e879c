"""The value of a distribution over first states: the expectation of the values of these states."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solvent.model.cmdp import CMDP

#: Largest relative error of the products and of their sum.
_ERROR = 2.0**-51


def expected_value(model: CMDP, values: Sequence[float]) -> float:
    """Return the expectation of values of the possible first states; minus infinity if one of them is.

    Examples
    --------
    >>> from solvent.model import instances
    >>> expected_value(instances.knapsack([1], [1]), [3.5])
    3.5
    """
    if len(values) == 1:
        return float(values[0])
    if -math.inf in values:
        return -math.inf
    return math.fsum(p * value for p, value in zip(model.start_probability.tolist(), values, strict=True))


def expectation_error(model: CMDP, values: Sequence[float]) -> float:
    """Return a bound on the rounding error of `expected_value`."""
    if len(values) == 1:
        return 0.0
    size = math.fsum(p * abs(v) for p, v in zip(model.start_probability.tolist(), values, strict=True) if v > -math.inf)
    return _ERROR * size + (len(values) * 5e-324 if np.any(values) else 0.0)


def expected_values(model: CMDP, value_NS: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the expectation of each row of values of the possible first states; minus infinity if one of them is.

    Examples
    --------
    >>> from solvent.model import instances
    >>> expected_values(instances.knapsack([1], [1]), np.array([[3.5], [-np.inf]])).tolist()
    [3.5, -inf]
    """
    if value_NS.shape[1] == 1:
        return np.ascontiguousarray(value_NS[:, 0])
    total = np.zeros(len(value_NS))
    for s, probability in enumerate(model.start_probability.tolist()):  # in this order on every machine
        total += probability * value_NS[:, s]
    return total


def expectations_error(model: CMDP, value_NS: NDArray[np.float64]) -> float:
    """Return a bound on the rounding error of each of the `expected_values`."""
    n_starts = value_NS.shape[1]
    if n_starts == 1:
        return 0.0
    largest = float(np.abs(value_NS, where=value_NS > -np.inf, out=np.zeros_like(value_NS)).max(initial=0.0))
    # n products and n sums, of probabilities that add up to 1 within the tolerance of models
    return float((n_starts + 2) * _ERROR * largest + (n_starts * 5e-324 if largest else 0.0))
