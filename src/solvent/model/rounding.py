"""Directed rounding of exact amounts to whole multiples of a unit: costs up or down, limits inward."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MAX_TICKS, PLUS_INFINITY, ExactColumn
from solvent.core.limits import ResourceMonitor
from solvent.model.budget import is_constant


def round_to(
    column: ExactColumn, unit: Fraction, *, up: bool, monitor: ResourceMonitor | None = None
) -> NDArray[np.int64]:
    """Return a column in whole multiples of another unit, each entry exactly rounded up or down.

    Floats are used where they are precise enough. Entries close to a multiple are computed with integers.

    Parameters
    ----------
    column : ExactColumn
    unit : Fraction
    up : bool
        If True, round up; else down.
    monitor : ResourceMonitor, optional
        Time limit.

    Examples
    --------
    >>> column = ExactColumn(np.array([1, 2, 3]), Fraction(1, 10))
    >>> round_to(column, Fraction(1, 5), up=False).tolist(), round_to(column, Fraction(1, 5), up=True).tolist()
    ([0, 1, 1], [1, 1, 2])
    """
    if column.fits and column.unit == unit:
        return column.ticks
    if not column.ticks.any():
        return np.zeros(len(column), np.int64)
    factor = column.unit / unit
    above, below = factor.numerator, factor.denominator
    if column.fits and int(np.abs(column.ticks).max()) * above <= MAX_TICKS:
        whole = column.ticks * np.int64(above)
        if below == 1:
            return whole
        if below <= MAX_TICKS:
            return -(-whole // below) if up else whole // below
    try:
        scaled = column.ticks.astype(np.float64) * float(factor)
    except OverflowError:
        scaled = np.full(len(column), np.inf)
    if not np.isfinite(scaled).all():
        scaled = np.full(len(column), 2.0**62)
    nearest = np.rint(scaled)
    # the relative error of a product of two rounded numbers is less than 2**-51
    doubtful = np.abs(scaled - nearest) <= 2.0**-48 * (np.abs(scaled) + 1)
    rounded = (np.ceil(scaled) if up else np.floor(scaled)).astype(np.int64)
    ticks, found = column.ticks, dict[int, int]()  # each long integer is rounded once
    for i in (monitor or ResourceMonitor()).each(np.flatnonzero(doubtful).tolist()):
        key = id(ticks[i]) if ticks.dtype == object else -1
        exactly = found.get(key)
        if exactly is None:
            product = int(ticks[i]) * above
            exactly = -(-product // below) if up else product // below
            if key >= 0:
                found[key] = exactly
        rounded[i] = exactly
    return rounded


def inside(limit: Fraction | None, unit: Fraction, open_end: int) -> int:
    """Return an upper or a lower limit in ticks, rounded inward; `open_end` says which it is, see `limit_ticks`."""
    if limit is None:
        return open_end
    above, below = limit.numerator * unit.denominator, limit.denominator * unit.numerator
    return above // below if open_end == PLUS_INFINITY else -(-above // below)


def limit_ticks(
    side: Iterable[Fraction | None], unit: Fraction, open_end: int, moved: NDArray[np.int64] | int = 0
) -> NDArray[np.int64]:
    """Return upper or lower limits in ticks, rounded inward and then shifted.

    Parameters
    ----------
    side : iterable of Fraction or None
        Limit after each step; None for no limit.
    unit : Fraction
        Amount of one tick.
    open_end : {PLUS_INFINITY, MINUS_INFINITY}
        Which limits these are, and the value that stands for no limit.
    moved : ndarray or int
        Ticks to add to each limit.

    Examples
    --------
    >>> from solvent.core.exact import MINUS_INFINITY
    >>> limit_ticks([Fraction(7, 2), None], Fraction(1), PLUS_INFINITY).tolist()[0]
    3
    >>> limit_ticks([Fraction(7, 2)], Fraction(1), MINUS_INFINITY).tolist()
    [4]
    """
    limits = tuple(side)
    known: dict[int, int] = {}
    for limit in limits[:1] if is_constant(limits) else limits:
        if id(limit) not in known:
            known[id(limit)] = inside(limit, unit, open_end)
    if len(known) == 1:
        (only,) = known.values()
        if only == open_end or isinstance(moved, int):
            return np.full(len(limits), only if only == open_end else only + moved, np.int64)
        whole = np.full(len(limits), only, np.int64)
    else:
        whole = np.array([known[id(limit)] for limit in limits], np.int64)
    return np.where(whole == open_end, open_end, whole + moved)
