"""Costs and limits as integers: all costs of a model and all limits in one unit per resource.

The unit divides every cost, both ends of every continuous distribution, every limit, and the policy's unit, so that
comparisons are exact. Where sums might not fit 64 bits, Python integers are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import common_unit
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.policy.nodes import NodeTable

#: Sums below this in absolute value are stored in 64 bits.
_SAFE = 2**61


@dataclass(frozen=True)
class Ledger:
    """The costs of all outcomes of one resource, and its limits after each step, in multiples of a unit.

    Attributes
    ----------
    name : str
    unit : Fraction
    high_O, low_O : ndarray of int64, or of Python numbers, shape (O,)
        The cost of each outcome. For a continuous cost, its greatest and least possible value; minus infinity if it is
        not bounded below.
    upper, lower : tuple of int or None
        Limits after each step; None where there is none.
    continuous : bool
        Whether some cost is continuous.
    counted : bool
        If True, the costs are those that a policy on rounded costs counts, not those that are spent.
    """

    name: str
    unit: Fraction
    high_O: NDArray[Any]
    low_O: NDArray[Any]
    upper: tuple[int | None, ...]
    lower: tuple[int | None, ...]
    continuous: bool
    counted: bool = False

    @property
    def limited(self) -> bool:
        """Whether it has any limit."""
        return any(limit is not None for limit in (*self.upper, *self.lower))

    def amount(self, ticks: Any) -> Fraction | None:
        """Return the amount of a number of ticks; None for minus infinity."""
        return None if ticks == -np.inf else int(ticks) * self.unit

    def limit(self, ticks: int | None) -> Fraction | None:
        """Return the amount of a limit; None if there is none."""
        return None if ticks is None else ticks * self.unit

    def excess(self, step: int, high: NDArray[Any], low: NDArray[Any]) -> NDArray[Any]:
        """Return by how many ticks amounts from `low` to `high` break a limit after `step`; at most 0 if not."""
        upper, lower = self.upper[step], self.lower[step]
        over = None if upper is None else high - upper
        under = None if lower is None else lower - low
        if over is None:
            return np.zeros_like(high) if under is None else under
        return over if under is None else np.maximum(over, under)


def open_ledgers(model: CMDP, limits: Limits, policy_units: Mapping[str, Fraction]) -> tuple[Ledger, ...]:
    """Return a ledger for each of the model's resources.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.model.budget import resolve
    >>> model = instances.knapsack([3, 4], ["1/2", 3])
    >>> ledger, = open_ledgers(model, resolve(model, "1/3"), {})
    >>> ledger.unit, ledger.upper, ledger.high_O.tolist()
    (Fraction(1, 6), (2, 2), [0, 3, 0, 18])
    """
    return tuple(_open(model, r, limits, policy_units) for r in range(model.n_resources))


def count_ledgers(policy: NodeTable, count_OD: NDArray[np.int64]) -> tuple[Ledger, ...]:
    """Return a ledger, without limits, of the counted costs of each resource that a policy on rounded costs tracks."""
    none = (None,) * policy.horizon
    return tuple(
        Ledger(name, policy.units[d], count_OD[:, d], count_OD[:, d], none, none, continuous=False, counted=True)
        for d, name in enumerate(policy.resources)
    )


def _open(model: CMDP, r: int, limits: Limits, policy_units: Mapping[str, Fraction]) -> Ledger:
    name, column = model.resources[r], model.cost[r]
    upper: tuple[Fraction | None, ...] = (None,) * model.horizon
    lower = upper
    if name in limits.resources:
        d = limits.resources.index(name)
        upper, lower = limits.upper[d], limits.lower[d]
    distributions = (
        np.full(model.n_outcomes, NO_DISTRIBUTION) if model.distribution_DO is None else model.distribution_DO[r]
    )
    is_distribution = distributions != NO_DISTRIBUTION
    numbers, which = np.unique(distributions[is_distribution], return_inverse=True)
    used = [model.distributions[i] for i in numbers]
    ends = [end for distribution in used for end in (distribution.low, distribution.high) if end is not None]
    given = [limit for limit in (*upper, *lower) if limit is not None]
    costs = [column.unit] if column.ticks.any() else []
    unit = common_unit([*costs, *ends, *given, *([policy_units[name]] if name in policy_units else [])])
    factor = int(column.unit / unit) if costs else 0
    top = max(int(abs(column.ticks).max()) if costs else 0, 0) * factor
    top = max([top, *(int(abs(end) / unit) for end in ends)])
    total = top * (model.horizon + 1) + max((int(abs(limit) / unit) for limit in given), default=0)
    wide = total >= _SAFE or any(distribution.low is None for distribution in used)
    ticks = column.ticks.astype(object) if wide else column.ticks.astype(np.int64)
    high_O, low_O = ticks * factor, ticks * factor
    if used:
        high_O[is_distribution] = np.array([int(distribution.high / unit) for distribution in used], ticks.dtype)[which]
        lows = [-np.inf if distribution.low is None else int(distribution.low / unit) for distribution in used]
        low_O[is_distribution] = np.array(lows, ticks.dtype)[which]
    return Ledger(
        name,
        unit,
        high_O,
        low_O,
        tuple(None if limit is None else int(limit / unit) for limit in upper),
        tuple(None if limit is None else int(limit / unit) for limit in lower),
        bool(used),
    )
