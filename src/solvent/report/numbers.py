"""Numbers as the page shows them: amounts exactly, values with a stated number of digits."""

from __future__ import annotations

import math
from fractions import Fraction

from solvent.core.exact import nearest_float
from solvent.model.amounts import short_amount


def value_text(value: float) -> str:
    """Return a value with ten digits.

    Examples
    --------
    >>> value_text(72.0), value_text(0.1 + 0.2), value_text(-math.inf)
    ('72', '0.3', 'none')
    """
    if not math.isfinite(value):
        return "none" if value < 0 else "unbounded"
    return f"{value:.10g}"


def rounded_text(value: float | None, digits: int = 6) -> str:
    """Return a value with some of its digits; a dash for None.

    Examples
    --------
    >>> rounded_text(72.38673147), rounded_text(None), rounded_text(1234567.0)
    ('72.3867', '–', '1.23457e+06')
    """
    return "–" if value is None else f"{value:.{digits}g}"


def share_text(probability: float | None) -> str:
    """Return a probability as a percentage.

    Examples
    --------
    >>> share_text(0.41189), share_text(0.0), share_text(1e-9), share_text(None)
    ('41.2 %', '0 %', '1e-07 %', 'unknown')
    """
    return "unknown" if probability is None else f"{100 * probability:.3g} %"


def amount_text(value: Fraction | None) -> str:
    """Return an amount exactly, if that is short; "unbounded" for None."""
    return "unbounded" if value is None else short_amount(value)


def as_float(value: Fraction | None) -> float | None:
    """Return an amount as a number for a chart; None stays None."""
    if value is None:
        return None
    found = nearest_float(value)
    return found if math.isfinite(found) else None


def finite(value: float | None) -> float | None:
    """Return a value that JSON can hold; None for infinity and NaN."""
    return float(value) if value is not None and math.isfinite(value) else None
