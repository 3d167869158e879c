"""`NormCost`: costs that are a norm of the action, with the greatest scale that fits in closed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.errors import ModelError, quote


class NormCost:
    """Cost `weight * norm(action) ** power`, as a bound for `ContinuousBudgetWrapper`.

    The control costs of Gymnasium's MuJoCo environments are `NormCost(weight)`: the weight times the sum of squares,
    with a weight of 0.1 for HalfCheetah, 0.5 for Ant and 0.0001 for Swimmer.

    Parameters
    ----------
    weight : float
        Factor, at least 0.
    order : {2, 1, inf}
        The Euclidean norm, the sum of absolute values, or their maximum.
    power : {1, 2}, optional
        Exponent. Default: 2 for the Euclidean norm (the sum of squares), 1 for the others.

    Examples
    --------
    >>> NormCost(0.1)(None, np.array([3.0, 4.0]))
    2.5
    >>> NormCost(2, order=1)(None, np.array([[3.0, -4.0], [0.0, 1.0]]))
    array([14.,  2.])
    """

    #: It accepts an array with one action per row.
    vectorized = True

    def __init__(self, weight: float = 1.0, order: float = 2, power: int | None = None) -> None:
        if not is_number(weight) or not 0 <= weight < math.inf:
            raise ModelError("weight", "a finite number of at least 0", quote(weight))
        if not is_number(order) or order not in (1, 2, math.inf):
            raise ModelError("order", "1, 2 or infinity", quote(order))
        if power is not None and (not is_number(power) or power not in (1, 2)):
            raise ModelError("power", "1 or 2", quote(power))
        self.weight, self.order = float(weight), float(order)
        self.power = (2 if order == 2 else 1) if power is None else int(power)

    def __call__(self, observation: Any, action: Any) -> Any:
        """Return the cost of an action, or of each row of actions."""
        values = np.abs(np.asarray(action, np.float64))
        if self.order == 2:
            squares = np.square(values).sum(axis=-1)
            found = self.weight * (squares if self.power == 2 else np.sqrt(squares))
        else:
            norm = values.sum(axis=-1) if self.order == 1 else values.max(axis=-1, initial=0.0)
            found = self.weight * norm**self.power
        return float(found) if np.ndim(found) == 0 else found

    def scale(self, cost: float, most: float) -> float:
        """Return the factor by which to shrink an action of some cost so that it costs `most`."""
        return 1.0 if cost <= most else (max(most, 0.0) / cost) ** (1 / self.power)

    def __repr__(self) -> str:
        return f"NormCost({self.weight!r}, order={self.order:g}, power={self.power})"


def is_number(given: Any) -> bool:
    """Whether something is a number of Python or NumPy, and not a truth value.

    Examples
    --------
    >>> is_number(np.float32(0.5)), is_number(True), is_number("1")
    (True, False, False)
    """
    return isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool)


def flat_rows(actions: NDArray[Any]) -> NDArray[Any]:
    """Return actions of any shape as rows."""
    return actions.reshape(len(actions), -1)
