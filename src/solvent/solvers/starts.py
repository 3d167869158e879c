"""The value of a distribution over first states: the expectation of the values of these states."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

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
