"""Exact amounts as text: the shortest exact text, or an approximation of bounded length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from solvent.core.exact import nearest_float
from solvent.errors import printable, quote


def as_typed(value: Fraction) -> int | str:
    """Return an int if `value` is whole, else its exact text: a decimal if it has one, or "p/q".

    Examples
    --------
    >>> as_typed(Fraction(3)), as_typed(Fraction(3, 2)), as_typed(Fraction(1, 3))
    (3, '1.5', '1/3')
    """
    if value.denominator == 1:
        return value.numerator
    twos, rest = _strip_factor(value.denominator, 2)
    fives, rest = _strip_factor(rest, 5)
    places = max(twos, fives)
    if rest != 1 or places > 40:
        return f"{value.numerator}/{value.denominator}"
    scaled = abs(value.numerator) * 10**places // value.denominator
    whole, part = divmod(scaled, 10**places)
    return f"{'-' if value < 0 else ''}{whole}.{part:0{places}d}"


def _strip_factor(value: int, factor: int) -> tuple[int, int]:
    count = 0
    while value % factor == 0:
        value //= factor
        count += 1
    return count, value


def format_amount(value: Fraction) -> str:
    """Return an exact amount as text.

    Examples
    --------
    >>> format_amount(Fraction(3, 2)), format_amount(Fraction(1, 3))
    ('1.5', '1/3')
    """
    return str(as_typed(value))


def short_amount(value: Fraction, longest: int = 24) -> str:
    """Return an amount as text of bounded length: exact if it is short enough, else "about" a decimal.

    Parameters
    ----------
    value : Fraction
    longest : int
        Length of the longest exact text.

    Examples
    --------
    >>> short_amount(Fraction(1, 3)), short_amount(Fraction(-1, 7**400))
    ('1/3', 'about -9.137e-339')
    """
    # Python refuses to convert integers of more than 4300 digits to text
    if value.numerator.bit_length() + value.denominator.bit_length() <= 4 * longest:
        text = format_amount(value)
        if len(text) <= longest:
            return text
    size = abs(value)
    power = math.floor((size.numerator.bit_length() - size.denominator.bit_length()) * math.log10(2))
    lead = float(size / Fraction(10) ** power)
    shift = math.floor(math.log10(lead))
    text = f"{lead / 10**shift:.4g}e{power + shift:+d}" if abs(power) > 8 else f"{float(size):.6g}"
    return f"about {'-' if value < 0 else ''}{text}"


def quote_amounts(given: object) -> str:
    """Return amounts by resource for a message; anything else as it was given.

    Examples
    --------
    >>> quote_amounts({"fuel": Fraction(1, 2), "hours": 3}), quote_amounts("much")
    ('fuel 0.5, hours 3', "'much'")
    """
    if not isinstance(given, Mapping) or not all(isinstance(amount, int | Fraction) for amount in given.values()):
        return quote(given)
    return ", ".join(f"{printable(str(name))} {short_amount(Fraction(amount))}" for name, amount in given.items())


def amount_above(amount: Fraction, limit: Fraction) -> str:
    """Return an amount that exceeds a limit, and by how much if its text could be that of the limit.

    Examples
    --------
    >>> amount_above(Fraction(3), Fraction(2))
    '3'
    >>> amount_above(Fraction(0.1 + 0.2), Fraction("0.3"))
    'about 0.3 (more by 4.44e-17)'
    """
    text = short_amount(amount)
    return f"{text} (more by {nearest_float(amount - limit):.3g})" if text.startswith("about") else text
