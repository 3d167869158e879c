"""The lattice: exact costs and limits of a problem as whole numbers of ticks.

For each tracked resource, `unit` is the greatest rational that divides every cost and limit, so that feasibility is
integer arithmetic. Sums are bounded beforehand: with `c_h` the costs possible at step h, no total can leave

    [ sum_h min(0, min c_h) - |limit| , sum_h max(0, max c_h) + |limit| ],

and that must fit in `MAX_TICKS`. Where no unit does, the exact lattice is refused, and a rounded one can be had: `safe`
(whatever is within the rounded limits is within the true ones) or `relaxed` (the converse). For upper limits that
means costs rounded up and down; for lower limits, the other way round; for both at once, down, with the limits moved
by what rounding can have hidden until then.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvent.errors import LatticeOverflowError, ModelError
from solvent.model.amounts import short_amount
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.exact import MAX_TICKS, ExactColumn, common_unit

Rounding = Literal["exact", "safe", "relaxed"]

#: Stands in `upper_HD` and `lower_HD` for an open side; every tick compares with it as it should.
NO_UPPER = np.iinfo(np.int64).max
NO_LOWER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Lattice:
    """A model's costs and a budget's limits in ticks.

    Attributes
    ----------
    resources : tuple of str
        The tracked resources, D of them.
    units : tuple of Fraction
        What one tick of each is worth.
    exact : tuple of bool
        Whether each resource's ticks are its true costs; else they were rounded.
    cost_OD : ndarray of int64, shape (O, D)
        Cost of each outcome of the model.
    upper_HD, lower_HD : ndarray of int64, shape (H, D)
        Limits on what has been spent after each step; `NO_UPPER` and `NO_LOWER` where a side is open.
    """

    resources: tuple[str, ...]
    units: tuple[Fraction, ...]
    exact: tuple[bool, ...]
    cost_OD: NDArray[np.int64]
    upper_HD: NDArray[np.int64]
    lower_HD: NDArray[np.int64]

    @classmethod
    def fit(cls, model: CMDP, limits: Limits, rounding: Rounding = "exact") -> Lattice:
        """Return the lattice of a problem.

        Raises
        ------
        LatticeOverflowError
            If `rounding` is "exact" and a resource has no unit that fits.
        ModelError
            If a tracked resource has continuous costs.

        Examples
        --------
        >>> from solvent.model import instances
        >>> from solvent.model.budget import resolve
        >>> model = instances.knapsack([1, 1, 1], [0.1, 0.1, 0.1])
        >>> lattice = Lattice.fit(model, resolve(model, 0.3))
        >>> lattice.units, lattice.upper_HD.ravel().tolist()
        ((Fraction(1, 10),), [3, 3, 3])
        """
        n_tracked = len(limits.resources)
        cost_OD = np.zeros((model.n_outcomes, n_tracked), np.int64)
        upper_HD = np.full((model.horizon, n_tracked), NO_UPPER, np.int64)
        lower_HD = np.full((model.horizon, n_tracked), NO_LOWER, np.int64)
        units, are_exact = [], []
        for d, name in enumerate(limits.resources):
            resource = model.resource_index(name)
            _refuse_laws(model, resource)
            column = model.cost[resource]
            reach = max(model.cost_sums[resource]) * column.unit + limits.largest(d)
            unit, is_exact = _choose_unit(model, resource, limits, d, reach, rounding)
            sides = _Sides.of(limits, d)
            cost_OD[:, d] = _round_costs(column, unit, sides.rounds_up(rounding))
            slack = 0 if is_exact or sides.one_sided else 1
            moved = slack * np.arange(1, model.horizon + 1)
            upper_HD[:, d] = _whole(limits.upper[d], unit, NO_UPPER, moved if rounding == "safe" else 0)
            lower_HD[:, d] = _whole(limits.lower[d], unit, NO_LOWER, moved if rounding == "relaxed" else 0)
            units.append(unit)
            are_exact.append(is_exact)
        return cls(limits.resources, tuple(units), tuple(are_exact), cost_OD, upper_HD, lower_HD)

    def amount(self, resource: int, ticks: int) -> Fraction:
        """Return what so many ticks of a tracked resource (by position) are worth."""
        return int(ticks) * self.units[resource]


@dataclass(frozen=True)
class _Sides:
    """Which sides of a resource have limits, and so which way rounding is safe."""

    upper: bool
    lower: bool

    @classmethod
    def of(cls, limits: Limits, d: int) -> _Sides:
        return cls(any(x is not None for x in limits.upper[d]), any(x is not None for x in limits.lower[d]))

    @property
    def one_sided(self) -> bool:
        return not (self.upper and self.lower)

    def rounds_up(self, rounding: Rounding) -> bool:
        if not self.one_sided:
            return False
        return (rounding == "safe") == self.upper


def _refuse_laws(model: CMDP, resource: int) -> None:
    if model.law_DO is None:
        return
    used = np.flatnonzero(model.law_DO[resource] >= 0)
    if len(used):
        raise ModelError(
            f"{model.place_of(int(used[0]))}, cost of {model.resources[resource]}",
            "costs of finite support, which exact methods need",
            str(model.cost_of(resource, int(used[0]))),
            'continuous costs are for the approximate methods "additive" and "relative", not in this version yet',
        )


def _choose_unit(
    model: CMDP, resource: int, limits: Limits, d: int, reach: Fraction, rounding: Rounding
) -> tuple[Fraction, bool]:
    column = model.cost[resource]
    bounds = limits.distinct(d)
    # a limit between two whole numbers of cost units is as good as the nearest one inside
    candidates = (common_unit([*([column.unit] if column.ticks.any() else []), *bounds]), column.unit)
    for unit in candidates:
        if reach <= MAX_TICKS * unit:
            return unit, True
    if rounding == "exact":
        raise LatticeOverflowError(_overflow_message(model, resource, limits, d, reach))
    unit = Fraction(1)
    while reach + model.horizon * unit > MAX_TICKS // 2 * unit:
        unit *= 2
    while reach + model.horizon * unit / 2 <= MAX_TICKS // 2 * unit / 2:
        unit /= 2
    return unit, False


def _overflow_message(model: CMDP, resource: int, limits: Limits, d: int, reach: Fraction) -> str:
    column = model.cost[resource]
    values = [(column.value(i), i) for i in range(len(column))]
    finest, finest_at = max(values, key=lambda x: (x[0] != 0, x[0].denominator))
    largest, largest_at = max(values, key=lambda x: abs(x[0]))
    limit = limits.largest(d)
    beside = f"one of {short_amount(largest)} ({model.place_of(largest_at)})"
    if limit > model.horizon * abs(largest):
        beside = f"a limit of {short_amount(limit)}"
    return (
        f"resource {limits.resources[d]!r}: expected costs and limits with a common unit in which all sums fit "
        f"64-bit integers, "
        f"found a cost of {short_amount(finest)} ({model.place_of(finest_at)}) beside {beside} over {model.horizon} "
        f"steps: the finest unit is {short_amount(column.unit)} and sums reach {short_amount(reach / column.unit)} of "
        f"it; give the costs and limits fewer digits (or no limit: None); methods that round with a guarantee "
        f'("additive", "relative") are not in this version yet'
    )


def _whole(
    side: tuple[Fraction | None, ...], unit: Fraction, open_end: int, moved: NDArray[np.int64] | int
) -> NDArray[np.int64]:
    """Return the limits of one side in ticks, rounded inwards."""
    ticks: list[int] = []
    for h, limit in enumerate(side):
        if h and limit is side[h - 1]:
            ticks.append(ticks[-1])
        elif limit is None:
            ticks.append(open_end)
        else:
            ticks.append(limit // unit if open_end == NO_UPPER else -(-limit // unit))
    whole = np.array(ticks, np.int64)
    return whole if isinstance(moved, int) else np.where(whole == open_end, open_end, whole - moved)


def _round_costs(column: ExactColumn, unit: Fraction, up: bool) -> NDArray[Any]:
    if not column.ticks.any():
        return np.zeros(len(column), np.int64)
    factor = column.unit / unit
    if factor.denominator == 1 and column.fits:
        return column.ticks * np.int64(factor.numerator)
    whole = column.ticks.astype(object) * factor.numerator
    rounded = -(-whole // factor.denominator) if up else whole // factor.denominator
    return rounded.astype(np.int64)
