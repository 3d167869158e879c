"""The lattice: costs and limits of a problem as integers (ticks).

For each tracked resource, `unit` is the greatest rational that divides every cost and limit, the amount spent before
the first step, and the ends at which the resource saturates, so that feasibility is integer arithmetic. Sums cannot
overflow: with `c_h` the possible costs of step h and `limit` the sum of all these other amounts, all totals and
remainders lie in

    [ sum_h min(0, min c_h) - |limit| , sum_h max(0, max c_h) + |limit| ],

which must fit into `MAX_TICKS`. If it does not, there is no lattice, and an error says so.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MAX_TICKS, MINUS_INFINITY, PLUS_INFINITY, common_unit
from solvent.core.limits import ResourceMonitor
from solvent.errors import LatticeOverflowError
from solvent.model.amounts import short_amount
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.rounding import inside, limit_ticks, round_to

#: What to do about continuous costs.
_CONTINUOUS = (
    'solve with gap=0.01, or approximation="additive" with epsilon= and strict=True: these accept continuous costs and '
    "never exceed the budget"
)


#: Number of outcomes up to which a model keeps the lattice of its own budget, and under which name.
_SMALL, _KEPT = 4096, "_own_lattice"


class AccountTicks(NamedTuple):
    """Where the account of each resource begins and saturates, in ticks; int64 arrays of shape (D,).

    Attributes
    ----------
    initial_D : ndarray
        What has been spent before the first step.
    floor_D, ceiling_D : ndarray
        `MINUS_INFINITY` and `PLUS_INFINITY` for none.
    """

    initial_D: NDArray[np.int64]
    floor_D: NDArray[np.int64]
    ceiling_D: NDArray[np.int64]

    @classmethod
    @functools.cache
    def plain(cls, n_resources: int) -> AccountTicks:
        """Return the accounts of resources that start at 0 and do not saturate; their arrays are read-only."""
        ends = np.zeros((3, n_resources), np.int64)
        ends[1], ends[2] = MINUS_INFINITY, PLUS_INFINITY
        ends.flags.writeable = False
        return cls(ends[0], ends[1], ends[2])

    @classmethod
    def of(cls, model: CMDP, limits: Limits, units: Sequence[Fraction], up: Sequence[bool]) -> AccountTicks:
        """Return the accounts of the limited resources in multiples of units, rounded up where `up`, else down."""
        if not model.is_saturating and not any(limits.initial):
            return cls.plain(len(units))
        found = cls(*(np.empty(len(units), np.int64) for _ in cls._fields))
        for d, (name, unit, upwards) in enumerate(zip(limits.resources, units, up, strict=True)):
            r = model.resource_index(name)
            sides = ((limits.initial[d], 0), (model.floors[r], MINUS_INFINITY), (model.ceilings[r], PLUS_INFINITY))
            for array, (amount, none) in zip(found, sides, strict=True):
                array[d] = none if amount is None else -(-amount // unit) if upwards else amount // unit
        return found


def fixed_amounts(model: CMDP, limits: Limits, d: int) -> list[Fraction]:
    """Return what a limited resource begins with and where it saturates, without amounts of 0."""
    if not model.is_saturating and not limits.initial[d]:
        return []
    r = model.resource_index(limits.resources[d])
    return [amount for amount in (limits.initial[d], model.floors[r], model.ceilings[r]) if amount]


@dataclass(frozen=True)
class Lattice:
    """A model's costs and a budget's limits in ticks.

    Attributes
    ----------
    resources : tuple of str
        The D tracked resources.
    units : tuple of Fraction
        Amount of one tick of each resource.
    cost_OD : ndarray of int64, shape (O, D)
        Cost of each outcome of the model.
    upper_HD, lower_HD : ndarray of int64, shape (H, D)
        Limits on what has been spent after each step; `PLUS_INFINITY` and `MINUS_INFINITY` for no limit.
    initial_D : ndarray of int64, shape (D,)
        What has been spent before the first step.
    floor_D, ceiling_D : ndarray of int64, shape (D,)
        Ends at which each resource saturates; `MINUS_INFINITY` and `PLUS_INFINITY` for none.
    """

    resources: tuple[str, ...]
    units: tuple[Fraction, ...]
    cost_OD: NDArray[np.int64]
    upper_HD: NDArray[np.int64]
    lower_HD: NDArray[np.int64]
    initial_D: NDArray[np.int64]
    floor_D: NDArray[np.int64]
    ceiling_D: NDArray[np.int64]

    @property
    def accounts(self) -> AccountTicks:
        """Where the account of each resource begins and saturates."""
        return AccountTicks(self.initial_D, self.floor_D, self.ceiling_D)

    @property
    def saturates(self) -> bool:
        """Whether some resource has a floor or a ceiling."""
        return bool((self.floor_D != MINUS_INFINITY).any() or (self.ceiling_D != PLUS_INFINITY).any())

    @classmethod
    def fit(cls, model: CMDP, limits: Limits, monitor: ResourceMonitor | None = None) -> Lattice:
        """Return the lattice of a problem.

        Parameters
        ----------
        model : CMDP
        limits : Limits
            Resolved budget.
        monitor : ResourceMonitor, optional
            Time limit.

        Raises
        ------
        LatticeOverflowError
            If a resource has no unit in which all sums fit 64-bit integers.
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
        own = limits is model.__dict__.get("own_limits") and model.n_outcomes <= _SMALL
        if own and (kept := model.__dict__.get(_KEPT)) is not None:
            lattice: Lattice = kept
            return lattice
        n_tracked = len(limits.resources)
        cost_DO = np.empty((n_tracked, model.n_outcomes), np.int64)
        upper_DH, lower_DH = (np.empty((n_tracked, model.horizon), np.int64) for _ in range(2))
        units = []
        for d, name in enumerate(limits.resources):
            resource = model.resource_index(name)
            model.refuse_continuous(resource, "costs of finite support, which exact methods need", _CONTINUOUS)
            unit = _choose_unit(model, resource, limits, d, monitor or ResourceMonitor())
            cost_DO[d] = round_to(model.cost[resource], unit, up=False, monitor=monitor)
            upper, lower = limits.upper[d], limits.lower[d]
            if limits.constant[d] == (True, True):
                upper_DH[d], lower_DH[d] = inside(upper[0], unit, PLUS_INFINITY), inside(lower[0], unit, MINUS_INFINITY)
            else:
                upper_DH[d], lower_DH[d] = (
                    limit_ticks(upper, unit, PLUS_INFINITY), limit_ticks(lower, unit, MINUS_INFINITY)
                )  # fmt: skip
            units.append(unit)
        accounts = AccountTicks.of(model, limits, units, (False,) * n_tracked)
        cost_OD, upper_HD, lower_HD = map(_transposed, (cost_DO, upper_DH, lower_DH))
        lattice = cls(limits.resources, tuple(units), cost_OD, upper_HD, lower_HD, *accounts)
        if own:
            model.__dict__[_KEPT] = lattice  # as a cached property; the model is frozen
        return lattice

    def amount(self, resource: int, ticks: int) -> Fraction:
        """Return the amount of `ticks` ticks of a tracked resource (by position)."""
        return int(ticks) * self.units[resource]


def _transposed(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the transpose of an array in C order; no copy if there is one row."""
    return array.reshape(-1, 1) if len(array) == 1 else np.ascontiguousarray(array.T)


def _choose_unit(model: CMDP, resource: int, limits: Limits, d: int, monitor: ResourceMonitor) -> Fraction:
    column = model.cost[resource]
    largest = max(int(column.ticks.max()), -int(column.ticks.min())) if len(column) else 0
    fixed, bounds = fixed_amounts(model, limits, d), limits.distinct(d)
    amounts = [column.unit, *fixed] if largest else fixed
    unit = common_unit([*amounts, *bounds])
    others = [_multiple(amount, unit) for amount in (*bounds, *fixed)]
    if model.horizon * largest * _multiple(column.unit, unit) + sum(map(abs, others)) <= MAX_TICKS:
        return unit  # sums cannot reach more than that
    reach = max(model.cost_sums[resource]) * column.unit + limits.largest(d) + sum(map(abs, fixed))
    if reach <= MAX_TICKS * unit:
        return unit
    # a limit between two multiples of the unit of amounts is equivalent to the nearest multiple inside
    unit = common_unit(amounts) if amounts else column.unit
    if reach <= MAX_TICKS * unit:
        return unit
    raise LatticeOverflowError(_overflow_message(model, resource, limits, d, reach, monitor))


def _multiple(amount: Fraction, unit: Fraction) -> int:
    """Return an amount in units, rounded down; exact if the unit divides it."""
    return amount.numerator * unit.denominator // (amount.denominator * unit.numerator)


def _overflow_message(
    model: CMDP, resource: int, limits: Limits, d: int, reach: Fraction, monitor: ResourceMonitor
) -> str:
    column = model.cost[resource]
    first = {ticks: i for i, ticks in reversed(list(enumerate(column.ticks.tolist())))}
    values = [
        (column.value(first[ticks]), first[ticks]) for ticks in monitor.each(sorted(first, key=first.__getitem__))
    ]
    finest, finest_at = max(values, key=lambda x: (x[0] != 0, x[0].denominator))
    largest, largest_at = max(values, key=lambda x: abs(x[0]))
    given = (
        (limits.initial[d], "an initial amount"),
        (model.floors[resource], "a floor"),
        (model.ceilings[resource], "a ceiling"),
    )
    others = [(amount, what) for amount, what in given if amount]
    unit = common_unit([column.unit * bool(column.ticks.any()), *(amount for amount, _ in others)])
    found, beside = f"a cost of {short_amount(finest)} ({model.place_of(finest_at)})", "one of"
    for amount, what in others:
        if amount.denominator > finest.denominator:
            finest, found, beside = amount, f"{what} of {short_amount(amount)}", "a cost of"
    beside += f" {short_amount(largest)} ({model.place_of(largest_at)})"
    most = model.horizon * abs(largest)
    for amount, what in [(limits.largest(d), "a limit"), *others]:
        if abs(amount) > most:
            most, beside = abs(amount), f"{what} of {short_amount(amount)}"
    return (
        f"resource {limits.resources[d]!r}: expected costs and limits with a common unit in which all sums fit "
        f"64-bit integers, found {found} beside {beside} over {model.horizon} steps: the finest unit is "
        f"{short_amount(unit)} and sums reach {short_amount(reach / unit)} of it; solve with gap=0.01, or "
        'approximation="additive" with epsilon= and strict=True, which round costs and never exceed the budget; or '
        "give the costs fewer digits, rounded to the safe side (up for upper limits)"
    )
