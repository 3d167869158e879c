"""Costs and limits as integers: all costs of a model and all limits in one unit per resource.

The unit divides every cost, both ends of every continuous distribution, every limit, the amount spent before the first
step, the floor and the ceiling, and the policy's unit, so that comparisons are exact. Where sums might not fit 64 bits,
Python integers are used.

With f the floor and g the ceiling, what has been spent after a step is

    spent' = clamp(spent + cost),      clamp(x) = min(max(x, f), g).

clamp is monotone and continuous, so that it maps the amounts from a to b to the amounts from clamp(a) to clamp(b). The
most and the least that can have been spent are therefore those of the clamped ends, whatever the costs in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY, common_unit
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
    initial : int
        What has been spent before the first step.
    floor, ceiling : int or None
        Ends at which the resource saturates; None where there is none.
    """

    name: str
    unit: Fraction
    high_O: NDArray[Any]
    low_O: NDArray[Any]
    upper: tuple[int | None, ...]
    lower: tuple[int | None, ...]
    continuous: bool
    counted: bool = False
    initial: int = 0
    floor: int | None = None
    ceiling: int | None = None

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

    def start(self, size: int) -> NDArray[Any]:
        """Return the amount before the first step, `size` times."""
        return np.full_like(self.high_O, self.initial, shape=size)

    def clamp(self, ticks: NDArray[Any]) -> NDArray[Any]:
        """Return amounts, with those beyond the floor or the ceiling moved to it."""
        if self.floor is not None:
            ticks = np.maximum(ticks, self.floor)
        if self.ceiling is not None:
            ticks = np.minimum(ticks, self.ceiling)
        return ticks

    def add(self, ticks: Any, cost: Any) -> Any:
        """Return one amount after a cost."""
        return self.clamp(np.array([ticks + cost], object))[0]

    def excess(self, step: int, high: NDArray[Any], low: NDArray[Any]) -> NDArray[Any]:
        """Return by how many ticks amounts from `low` to `high` break a limit after `step`; at most 0 if not."""
        upper, lower = self.upper[step], self.lower[step]
        over = None if upper is None else high - upper
        under = None if lower is None else lower - low
        if over is None:
            return np.zeros_like(high) if under is None else under
        return over if under is None else np.maximum(over, under)


def open_ledgers(
    model: CMDP, limits: Limits, policy_units: Mapping[str, Fraction], initial: Mapping[str, Fraction] | None = None
) -> tuple[Ledger, ...]:
    """Return a ledger for each of the model's resources.

    Parameters
    ----------
    model : CMDP
    limits : Limits
    policy_units : mapping of str to Fraction
        Units that the ledgers' units must divide, by resource.
    initial : mapping of str to Fraction, optional
        What has been spent of each resource before the first step. Default: nothing.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.model.budget import resolve
    >>> model = instances.knapsack([3, 4], ["1/2", 3])
    >>> ledger, = open_ledgers(model, resolve(model, "1/3"), {})
    >>> ledger.unit, ledger.upper, ledger.high_O.tolist()
    (Fraction(1, 6), (2, 2), [0, 3, 0, 18])
    """
    return tuple(_open(model, r, limits, policy_units, initial or {}) for r in range(model.n_resources))


def count_ledgers(policy: NodeTable, count_OD: NDArray[np.int64], first: Sequence[int]) -> tuple[Ledger, ...]:
    """Return a ledger, without limits, of the counted costs of each resource that a policy on rounded costs tracks.

    Each starts with the count in `first`; floors and ceilings are those of the policy.
    """
    return tuple(_count(policy, d, count_OD[:, d], first[d]) for d in range(len(policy.resources)))


def _count(policy: NodeTable, d: int, count_O: NDArray[np.int64], first: int) -> Ledger:
    none = (None,) * policy.horizon
    floor, ceiling = int(policy.floor_D[d]), int(policy.ceiling_D[d])
    ends = [abs(end) for end in (floor, ceiling) if end not in (MINUS_INFINITY, PLUS_INFINITY)]
    largest = int(np.abs(count_O).max(initial=0))
    if largest * (policy.horizon + 1) + abs(first) + max(ends, default=0) >= _SAFE:
        count_O = count_O.astype(object)
    return Ledger(
        policy.resources[d],
        policy.units[d],
        count_O,
        count_O,
        none,
        none,
        continuous=False,
        counted=True,
        initial=first,
        floor=None if floor == MINUS_INFINITY else floor,
        ceiling=None if ceiling == PLUS_INFINITY else ceiling,
    )


def _open(
    model: CMDP, r: int, limits: Limits, policy_units: Mapping[str, Fraction], initial: Mapping[str, Fraction]
) -> Ledger:
    name, column = model.resources[r], model.cost[r]
    start, floor, ceiling = initial.get(name, Fraction(0)), model.floors[r], model.ceilings[r]
    fixed = [amount for amount in (start, floor, ceiling) if amount]
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
    unit = common_unit([*costs, *ends, *given, *fixed, *([policy_units[name]] if name in policy_units else [])])
    factor = int(column.unit / unit) if costs else 0
    top = max(int(abs(column.ticks).max()) if costs else 0, 0) * factor
    top = max([top, *(int(abs(end) / unit) for end in ends)])
    total = top * (model.horizon + 1) + max((int(abs(limit) / unit) for limit in given), default=0)
    total += sum(int(abs(amount) / unit) for amount in fixed)
    wide = total >= _SAFE or any(distribution.low is None for distribution in used)
    ticks = column.ticks.astype(object) if wide else column.ticks.astype(np.int64)
    high_O, low_O = ticks * factor, ticks * factor
    if used:
        high_O[is_distribution] = np.array([int(distribution.high / unit) for distribution in used], ticks.dtype)[which]
        lows = [-np.inf if distribution.low is None else int(distribution.low / unit) for distribution in used]
        low_O[is_distribution] = np.array(lows, ticks.dtype)[which]

    def whole(amount: Fraction | None) -> int | None:
        return None if amount is None else int(amount / unit)

    return Ledger(
        name,
        unit,
        high_O,
        low_O,
        tuple(map(whole, upper)),
        tuple(map(whole, lower)),
        bool(used),
        initial=int(start / unit),
        floor=whole(floor),
        ceiling=whole(ceiling),
    )
