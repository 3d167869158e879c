"""Frames on request: pandas is not a dependency, and is imported only to make one.

A frame that is read may be any table with named columns: of pandas, of Arrow (`pyarrow.Table`), of Polars, or a dict of
lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from solvent.errors import ModelError, SolventError, quote

_LARGEST = 2**63 - 1


def import_pandas() -> Any:
    """Return the module pandas.

    Raises
    ------
    SolventError
        If it is not installed.
    """
    try:
        import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise SolventError('to_frame: expected pandas, found no such package; pip install "solvent[pandas]"') from None
    return pandas


def amounts_column(amounts: Sequence[Fraction | None]) -> list[Any]:
    """Return exact amounts as entries of a column: all integers, all floats, or text.

    Floats are used only if each reads back as the amount. None stays None.

    Examples
    --------
    >>> amounts_column([Fraction(1), Fraction(2)]), amounts_column([Fraction(1, 10), Fraction(2)])
    ([1, 2], [0.1, 2.0])
    >>> amounts_column([Fraction(1, 3), None])
    ['1/3', None]
    """
    known = [each for each in amounts if each is not None]
    if all(each.denominator == 1 and abs(each.numerator) <= _LARGEST for each in known):
        return [None if each is None else each.numerator for each in amounts]
    if all(_is_short(each) for each in known):
        return [None if each is None else float(each) for each in amounts]
    return [None if each is None else str(each) for each in amounts]


def _is_short(value: Fraction) -> bool:
    try:
        return Fraction(Decimal(repr(float(value)))) == value
    except OverflowError:
        return False


def read_columns(frame: Any, where: str) -> dict[str, list[Any]]:
    """Return the columns of a frame as lists.

    Raises
    ------
    ModelError
        If it is not a table with named columns of equal length.

    Examples
    --------
    >>> read_columns({"state": ["home", "away"], "cost": (1, 2)}, "from_frame")
    {'state': ['home', 'away'], 'cost': [1, 2]}
    """
    if isinstance(frame, Mapping):
        names: Any = list(frame)
    else:  # Arrow calls its columns by names, pandas and Polars have an index of names
        names = getattr(frame, "column_names", None)
        names = getattr(frame, "columns", None) if names is None else names
    if names is None or isinstance(frame, str):
        raise ModelError(where, "a table with named columns, such as a pandas DataFrame", quote(type(frame).__name__))
    repeated = [name for name, count in Counter(map(str, names)).items() if count > 1]
    if repeated:
        raise ModelError(where, "each column once", f"several columns {quote(repeated[0])}")
    found = {str(name): _listed(frame[name], f"{where}, column {quote(name)}") for name in names}
    lengths = {len(column) for column in found.values()}
    if len(lengths) > 1:
        raise ModelError(where, "columns of equal length", f"lengths {', '.join(map(str, sorted(lengths)))}")
    return found


def _listed(column: Any, where: str) -> list[Any]:
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    if isinstance(column, str | Mapping) or not isinstance(column, Sequence):
        raise ModelError(where, "a list", quote(column))
    return list(column)


def is_missing(value: Any) -> bool:
    """Return whether an entry of a frame is missing: None, NaN, or pandas' own mark.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing(0)
    (True, True, False)
    """
    if value is None:
        return True
    try:
        return bool(value != value)  # NaN is not equal to itself
    except TypeError:  # pandas.NA has no truth value
        return True
