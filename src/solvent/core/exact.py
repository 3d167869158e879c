"""Exact numbers: numbers as users write them, as fractions and as integer multiples of a unit.

An int, `Fraction`, `Decimal` or text such as "1/3" is taken exactly. A float stands for its shortest decimal if that
has at most 15 digits (0.1 is one tenth), and for its exact binary value otherwise. A column of numbers is stored as
`ticks * unit`, where `unit` is the greatest rational that divides all of them.

Computed floats (random draws, measurements) stand for their binary values, but about one in nine of them prints with 15
digits or fewer, and tenths and 53-bit binary fractions have no common unit in which sums fit 64 bits. If a column has
no unit that fits, its longest decimals are read as binary values, then the next longest, until one fits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.loading import current_load, refuse
from solvent.errors import ModelError, quote

Number = int | float | Fraction | Decimal | str

#: A float with more significant decimal digits than this stands for its binary value.
TYPED_DIGITS = 15
#: Largest absolute value of a total in ticks.
MAX_TICKS = 2**63 - 2
#: The two int64 values beyond it: no limit on that side. A range from plus to minus infinity is empty.
PLUS_INFINITY = np.iinfo(np.int64).max
MINUS_INFINITY = np.iinfo(np.int64).min

_LONGEST = 400
#: Largest number of bits of the denominator of a common unit, in general and for numbers in a file.
_LONGEST_UNIT, LONGEST_FILE_UNIT = 2_000_000, 100_000
#: Powers of ten that are exact doubles; NumPy's `10.0 ** k` on arrays may not be exact.
_POWERS = np.array([float(10**k) for k in range(23)])
_NUMBER = re.compile(r"[+-]?(\d+/\d+|(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?)", re.ASCII)
_EXPECTED = "a finite number (int, float, Fraction, Decimal, or text such as '1/3' or '0.25')"


def exact(value: Any, where: str = "number") -> Fraction:
    """Return a number as an exact fraction.

    Parameters
    ----------
    value : int, float, Fraction, Decimal or str
    where : str
        Place for error messages.

    Raises
    ------
    ModelError
        If it is not a finite number, or has far more than 400 digits.

    Examples
    --------
    >>> exact(0.1), exact("1/3"), exact(1.5)
    (Fraction(1, 10), Fraction(1, 3), Fraction(3, 2))
    >>> exact(2**-0.5) == Fraction(*(2**-0.5).as_integer_ratio())
    True
    """
    if isinstance(value, bool | np.bool_):
        raise ModelError(where, _EXPECTED, quote(value), "int(...) turns True into 1 and False into 0")
    if isinstance(value, np.timedelta64) or value is np.ma.masked:  # NumPy treats them as numbers
        raise ModelError(where, _EXPECTED, quote(value))
    if isinstance(value, Rational | np.integer):
        # NumPy registers its integers as Rational, but a Fraction of them would overflow
        return _bounded(Fraction(int(value) if isinstance(value, np.integer) else value), where)
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            raise ModelError(where, _EXPECTED, str(value))
        decimal = Decimal(repr(float(value)) if isinstance(value, float) else str(value))
        if _digits(decimal) <= TYPED_DIGITS:
            return Fraction(decimal)
        return Fraction(*value.as_integer_ratio())
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ModelError(where, _EXPECTED, str(value))
        return _from_decimal(value, where)
    if isinstance(value, str):
        return _from_text(value, where)
    raise ModelError(where, _EXPECTED, quote(value))


def decimal(text: str) -> Decimal:
    """Return a number of a file as a `Decimal` with all its digits.

    Raises
    ------
    ModelError
        If its exponent is too large.
    """
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ModelError("file", f"numbers of at most {_LONGEST} digits", quote(text)) from None


def _digits(value: Decimal) -> int:
    return len("".join(map(str, value.as_tuple().digits)).strip("0")) or 1


def _from_decimal(value: Decimal, where: str) -> Fraction:
    _, digits, exponent = value.as_tuple()
    if max(len(digits), abs(int(exponent))) > 2 * _LONGEST:  # a fraction would take too much memory
        raise ModelError(where, f"a number of at most {_LONGEST} digits", quote(value))
    return _bounded(Fraction(value), where)


def _bounded(value: Fraction, where: str) -> Fraction:
    """Return a number after checking its length, so that its text in any form can be read back."""
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    if bits > 4 * _LONGEST:
        raise ModelError(where, f"a number of at most {_LONGEST} digits", "one far longer")
    if bits > 64 and (load := current_load()) is not None and bits > 4 * load.limits.digits:
        refuse("digits", f"a number of at most {load.limits.digits} digits", "one far longer", where)
    return value


def _from_text(text: str, where: str) -> Fraction:
    text = text.strip()
    if len(text) > 3 * _LONGEST or not _NUMBER.fullmatch(text):
        raise ModelError(where, _EXPECTED, quote(text))
    if "/" not in text:
        return _from_decimal(Decimal(text), where)
    numerator, denominator = text.split("/")
    if int(denominator) == 0:
        raise ModelError(where, _EXPECTED, f"{quote(text)}, which divides by zero")
    return _bounded(Fraction(int(numerator), int(denominator)), where)


def nearest_float(value: Fraction | int) -> float:
    """Return the double nearest to a number; infinity if it is too large.

    Examples
    --------
    >>> nearest_float(Fraction(1, 3)), nearest_float(-(10**400))
    (0.3333333333333333, -inf)
    """
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def common_unit(values: Iterable[Fraction], longest: int = _LONGEST_UNIT) -> Fraction:
    """Return the greatest rational that divides every value; 1 if all are zero.

    Parameters
    ----------
    values : iterable of Fraction
    longest : int
        Largest number of bits of the denominator of the unit.

    Raises
    ------
    ModelError
        If the denominator has more than `longest` bits.

    Examples
    --------
    >>> common_unit([Fraction(3, 4), Fraction(1, 2)])
    Fraction(1, 4)
    """
    numerator, denominator = 0, 1
    for value in values:
        if value:
            # gcd(a/b, c/d) = gcd(a, c) / lcm(b, d) in lowest terms
            numerator = math.gcd(numerator, value.numerator)
            if denominator % value.denominator:
                denominator = math.lcm(denominator, value.denominator)
                if denominator.bit_length() > longest:
                    expected = f"numbers with a common unit of at most {longest * 3 // 10:,} digits"
                    raise ModelError("numbers", expected, "denominators with a longer common multiple")
    return Fraction(numerator, denominator) if numerator else Fraction(1)


@dataclass(frozen=True, eq=False)
class ExactColumn:
    """A column of exact numbers `ticks * unit`.

    Attributes
    ----------
    ticks : ndarray of shape (n,)
        Integers: int64 if they fit, else Python ints in an object array.
    unit : Fraction
        The greatest rational that divides every entry; positive.
    decimal_digits : int
        Floats with more significant decimal digits than this were read as binary values.
    """

    ticks: NDArray[Any]
    unit: Fraction
    decimal_digits: int = TYPED_DIGITS

    @property
    def fits(self) -> bool:
        """Whether the ticks are 64-bit integers."""
        return self.ticks.dtype != object

    def value(self, index: int) -> Fraction:
        """Return one entry as a fraction."""
        return int(self.ticks[index]) * self.unit

    def __len__(self) -> int:
        return len(self.ticks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactColumn):
            return NotImplemented
        return self.unit == other.unit and bool(np.array_equal(self.ticks, other.ticks))

    __hash__ = None  # type: ignore[assignment]

    def take(self, index: NDArray[np.int64]) -> ExactColumn:
        """Return the entries at `index` as a canonical column."""
        return canonical(self.ticks[index], self.unit, self.decimal_digits)


def canonical(ticks: NDArray[Any], unit: Fraction, decimal_digits: int = TYPED_DIGITS) -> ExactColumn:
    """Return the column `ticks * unit` with the greatest possible unit, so that equal columns have equal fields."""
    if ticks.dtype == object:
        shared = math.gcd(*ticks.tolist()) if len(ticks) else 0
    else:
        shared = int(np.gcd.reduce(ticks)) if len(ticks) else 0
    if shared == 0:
        return ExactColumn(np.zeros(len(ticks), np.int64), Fraction(1), decimal_digits)
    ticks = ticks // shared if shared != 1 else ticks
    if ticks.dtype == object and max(map(abs, ticks.tolist())) <= MAX_TICKS:
        ticks = ticks.astype(np.int64)
    elif ticks.dtype != object and max(int(ticks.max()), -int(ticks.min())) > MAX_TICKS:
        ticks = ticks.astype(object)
    return ExactColumn(ticks, unit * shared, decimal_digits)


def exact_column(
    values: Sequence[Any] | NDArray[Any],
    *,
    steps: int = 1,
    where: Callable[[int], str] = lambda index: f"entry {index}",
) -> ExactColumn:
    """Read a flat column of numbers exactly.

    Parameters
    ----------
    values : sequence or 1-d ndarray
        Numbers of any accepted type.
    steps : int
        Number of entries that a sum may have; decides whether a unit fits.
    where : callable
        Returns the place of an index for error messages.

    Examples
    --------
    >>> exact_column([0.1, "1/4", 3])
    ExactColumn(ticks=array([ 2,  5, 60]), unit=Fraction(1, 20), decimal_digits=15)
    """
    array = values if isinstance(values, np.ndarray) else None
    if array is not None and array.dtype.kind in "iu":
        wide = bool(array.size) and max(int(array.max()), -int(array.min())) > MAX_TICKS
        return canonical(array.astype(object if wide else np.int64), Fraction(1))
    if array is not None and array.dtype == np.float64:
        distinct, inverse = np.unique(array, return_inverse=True)
        _refuse_non_finite(array, where)
        return _combine(distinct, [], steps).take(inverse)
    return _read_mixed(list(values), steps, where)


def _refuse_non_finite(array: NDArray[np.float64], where: Callable[[int], str]) -> None:
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise ModelError(where(int(bad[0])), _EXPECTED, str(array[bad[0]]))


def _read_mixed(values: list[Any], steps: int, where: Callable[[int], str]) -> ExactColumn:
    """Read Python numbers of any type. Only floats may be read as binary values."""
    place: dict[Any, int] = {}
    floats: list[float] = []
    fixed: list[Fraction] = []
    index = np.empty(len(values), np.int64)
    for i, value in enumerate(values):
        # -0.0 == 0 == False: the type distinguishes values that compare equal
        key: Any = (type(value), value)
        try:
            known = place.get(key)
        except Exception:  # not hashable, so not a number: `exact` refuses it
            key, known = i, None
        if known is None:
            if isinstance(value, float):
                if not math.isfinite(value):
                    raise ModelError(where(i), _EXPECTED, str(value))
                floats.append(float(value))
                known = len(floats) - 1
            else:
                fixed.append(exact(value, where(i)))
                known = -len(fixed)
            place[key] = known
        index[i] = known
    index[index < 0] = len(floats) - 1 - index[index < 0]
    return _combine(np.array(floats, np.float64), fixed, steps).take(index)


def _combine(floats: NDArray[np.float64], fixed: list[Fraction], steps: int) -> ExactColumn:
    """Return floats and fractions on a common unit, reading the longest decimals as binary values if none fits."""
    fixed_unit = common_unit(fixed, _LONGEST_UNIT if current_load() is None else LONGEST_FILE_UNIT)
    if not len(floats):
        largest = max(map(abs, fixed), default=Fraction(0))
        wide = largest / fixed_unit * max(steps, 1) > MAX_TICKS
        return _place(0, [], fixed, fixed_unit, TYPED_DIGITS, wide=wide)
    mantissa, exponent, digits = _decimal_parts(floats)
    binary_mantissa, binary_exponent = _binary_parts(floats)
    fallback = None
    for limit in range(TYPED_DIGITS, -1, -1):
        if limit < TYPED_DIGITS and not np.any(digits == limit + 1):
            continue
        decimal = digits <= limit
        levels = [
            *_levels(10, mantissa, exponent, np.flatnonzero(decimal)),
            *_levels(2, binary_mantissa, binary_exponent, np.flatnonzero(~decimal)),
        ]
        unit = common_unit([*(level.unit for level in levels), *([fixed_unit] if any(fixed) else [])])
        largest = max([*(level.largest for level in levels), *(abs(value) for value in fixed)], default=Fraction(0))
        column = (levels, unit, limit)
        if largest / unit * max(steps, 1) <= MAX_TICKS:
            return _place(len(floats), levels, fixed, unit, limit, wide=False)
        fallback = fallback or column
    assert fallback is not None
    levels, unit, limit = fallback
    return _place(len(floats), levels, fixed, unit, limit, wide=True)


@dataclass(frozen=True)
class _Level:
    """Floats with the same exponent: `mantissa * scale` at the positions `index`."""

    index: NDArray[np.int64]
    mantissa: NDArray[np.int64]
    scale: Fraction

    @property
    def unit(self) -> Fraction:
        return int(np.gcd.reduce(self.mantissa)) * self.scale

    @property
    def largest(self) -> Fraction:
        return int(np.abs(self.mantissa).max()) * self.scale


def _levels(
    base: int, mantissa: NDArray[np.int64], exponent: NDArray[np.int64], index: NDArray[np.int64]
) -> list[_Level]:
    order = index[np.argsort(exponent[index], kind="stable")]
    scales, starts = np.unique(exponent[order], return_index=True)
    pieces = np.split(order, starts[1:]) if len(order) else []
    return [
        _Level(piece, mantissa[piece], Fraction(base) ** int(scale))
        for scale, piece in zip(scales, pieces, strict=True)
    ]


def _place(
    n_floats: int, levels: list[_Level], fixed: list[Fraction], unit: Fraction, limit: int, *, wide: bool
) -> ExactColumn:
    ticks = np.zeros(n_floats + len(fixed), object if wide else np.int64)
    for level in levels:
        factor = level.scale / unit
        plain = not wide and factor.denominator == 1 and factor.numerator <= MAX_TICKS
        whole = level.mantissa if plain else level.mantissa.astype(object)
        ticks[level.index] = whole * factor.numerator // factor.denominator
    for i, value in enumerate(fixed):
        ticks[n_floats + i] = int(value / unit)
    return ExactColumn(ticks, unit, limit)


def _decimal_parts(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the mantissa, exponent and number of digits of each shortest decimal; 16 digits stand for 16 or more.

    A double has a decimal of at most 15 digits iff rounding it to 15 digits and converting back returns it. With powers
    of ten up to 1e22, which are exact doubles, this test is one correctly rounded operation.
    """
    magnitude = np.abs(values)
    with np.errstate(divide="ignore"):
        lead = np.where(magnitude > 0, np.floor(np.log10(magnitude)), 0.0).astype(np.int64)
    shift = TYPED_DIGITS - 1 - lead
    plain = np.abs(shift) < 22
    mantissa, short = _rounded(values, np.where(plain, shift, 0))
    # just below a power of ten, log10 rounds up and the mantissa has one digit less: try again with one more
    wider, wider_short = _rounded(values, np.where(plain, shift + 1, 0))
    wider_short &= ~short & (np.abs(wider) < 10**TYPED_DIGITS)
    shift = np.where(wider_short, shift + 1, shift)
    short = plain & (short | wider_short)
    mantissa_int = np.where(short, np.where(wider_short, wider, mantissa), 0).astype(np.int64)
    exponent = -shift
    for i in np.flatnonzero(~plain):
        decimal = Decimal(repr(float(values[i])))
        if _digits(decimal) <= TYPED_DIGITS:
            sign, figures, scale = decimal.as_tuple()
            mantissa_int[i] = int("".join(map(str, figures))) * (-1 if sign else 1)
            exponent[i], short[i] = int(scale), True
    zeros = np.zeros(len(values), np.int64)
    for step in (8, 4, 2, 1):
        divides = (mantissa_int % 10**step == 0) & (mantissa_int != 0)
        mantissa_int = np.where(divides, mantissa_int // 10**step, mantissa_int)
        zeros += np.where(divides, step, 0)
    exponent = np.where(mantissa_int == 0, 0, exponent + zeros)
    figures_count = np.searchsorted(10 ** np.arange(18), np.abs(mantissa_int), side="right")
    figures_count = np.maximum(figures_count, 1)
    digits = np.where(short, np.minimum(figures_count, TYPED_DIGITS + 1), TYPED_DIGITS + 1)
    return mantissa_int, exponent, digits


def _rounded(values: NDArray[np.float64], shift: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return `values * 10**shift` rounded to integers, and whether each converts back to its value."""
    power = _POWERS[np.abs(shift)]
    mantissa = np.rint(np.where(shift >= 0, values * power, values / power))
    back = np.where(shift >= 0, mantissa / power, mantissa * power)
    return mantissa, (back == values) & (np.abs(mantissa) < 2**53)


def _binary_parts(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the odd mantissa and the exponent of each exact binary value."""
    fraction, exponent = np.frexp(values)
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    scale = np.where(mantissa == 0, 0, exponent.astype(np.int64) - 53)
    lowest = mantissa & -mantissa
    zeros = np.where(mantissa == 0, 0, np.frexp(np.maximum(lowest, 1).astype(float))[1].astype(np.int64) - 1)
    return mantissa >> zeros, np.where(mantissa == 0, 0, scale + zeros)
