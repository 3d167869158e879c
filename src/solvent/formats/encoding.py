"""How files hold names, numbers, costs and budgets; shared by all formats and by policy files.

Numbers are read from their text, never through a float, and are written so that they read back exactly.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from numbers import Integral
from typing import Any

from solvent.core.exact import exact
from solvent.errors import LoadLimitError, ModelError, did_you_mean, printable, quote
from solvent.model.amounts import as_typed
from solvent.model.budget import Budget
from solvent.model.distributions import CostDistribution, distribution

_CONSTANTS = {None: "null", True: "true", False: "false"}
_LONGEST_QUOTE = 80
_MOST_QUOTED = 8
_INFINITY = ("inf", "infinity", ".inf")


def quote_value(value: object) -> str:
    """Return a value of a file for a message, written as in YAML and cut to a readable length.

    Examples
    --------
    >>> quote_value(None), quote_value({"depot": Decimal("0.5"), "town": True}), quote_value("fuel")
    ('null', "{'depot': 0.5, 'town': true}", "'fuel'")
    """
    if not isinstance(value, bool | None | Mapping | list):
        return quote(value)
    text = printable(_flow(value, depth=0))
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."


def _flow(value: object, depth: int) -> str:
    if value is None or isinstance(value, bool):
        return _CONSTANTS[value]
    if not isinstance(value, Mapping | list):
        return quote(value)
    if depth > 2:
        return "..."
    if isinstance(value, Mapping):
        pairs = islice(value.items(), _MOST_QUOTED)
        parts = [f"{_flow(key, depth + 1)}: {_flow(each, depth + 1)}" for key, each in pairs]
    else:
        parts = [_flow(each, depth + 1) for each in value[:_MOST_QUOTED]]
    text = ", ".join([*parts, *(["..."] if len(value) > _MOST_QUOTED else [])])
    return f"{{{text}}}" if isinstance(value, Mapping) else f"[{text}]"


def _inside(where: str, part: str) -> str:
    return f"{where}, {part}" if where else part


def encode_text(text: str) -> bytes:
    """Return text as UTF-8.

    Raises
    ------
    ModelError
        If the text has a lone surrogate.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        found = quote(text[error.start : error.end])
        raise ModelError("model", "names and texts that UTF-8 can hold", f"the lone surrogate {found}") from None


# ---------------------------------------------------------------------------------------------------------------------
# numbers


def encode_number(value: Fraction | float) -> int | float | str:
    """Return a number for a file: an int or a float if its text reads back exactly, else text.

    Examples
    --------
    >>> encode_number(Fraction(1, 4)), encode_number(Fraction(1, 3)), encode_number(2.0)
    (0.25, '1/3', 2)
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if value.denominator == 1 and value.numerator.bit_length() < 1024:
        return value.numerator
    text = as_typed(value)
    try:
        close = float(value)
    except OverflowError:
        return str(text)
    return close if Fraction(Decimal(repr(close))) == value else str(text)


def check_number(value: Any, where: str) -> Any:
    """Return a number of a file as it is.

    Raises
    ------
    ModelError
        If it is not a finite number.
    """
    try:
        exact(value, where)
    except LoadLimitError:
        raise
    except ModelError as error:
        if not error.expected.startswith("a finite number"):
            raise
        found = quote_value(value) if isinstance(value, bool | None | Mapping | list) else error.found
        raise ModelError(where, "a finite number such as 3, 0.25 or 1/3", found) from None
    return value


# ---------------------------------------------------------------------------------------------------------------------
# names of states and actions


def encode_name(name: Hashable, kind: str) -> Any:
    """Return a name in a form that JSON can hold: text, a number, or a list for a tuple.

    Raises
    ------
    ModelError
        If files cannot hold the name.
    """
    if isinstance(name, tuple) and name:
        return [part if isinstance(part, bool) else encode_name(part, kind) for part in name]
    if isinstance(name, Integral) and not isinstance(name, bool):
        return int(name)
    if isinstance(name, str) or (isinstance(name, float) and math.isfinite(name)):
        return str(name) if isinstance(name, str) else float(name)
    raise ModelError(
        f"{kind} {quote(name)}",
        "a name that files can hold: text, a number, or a tuple of these",
        f"a {type(name).__name__}",
    )


def decode_name(value: Any, where: str = "header, names") -> Any:
    """Return the name that a file holds: text, a number, or a tuple of names.

    Raises
    ------
    ModelError
        If it is something else.
    """
    if isinstance(value, list) and value:
        return tuple(part if isinstance(part, bool) else decode_name(part, where) for part in value)
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float | Decimal) and math.isfinite(float(value)):
        return float(value)
    # `null`, `true` and `.nan` are names if they are written as text
    hint = "put it in quotes if it is a name" if isinstance(value, bool | None | float) else ""
    raise ModelError(where, "a name: text, a number, or a list of these", quote_value(value), hint)


# ---------------------------------------------------------------------------------------------------------------------
# costs


def encode_cost(cost: Fraction | CostDistribution) -> Any:
    """Return a cost for a file: a number, or a mapping for a distribution.

    Raises
    ------
    ModelError
        If it is a distribution of `scipy.stats`, which files cannot hold.
    """
    if not isinstance(cost, CostDistribution):
        return encode_number(cost)
    if not cost.in_files:
        raise ModelError(
            f"cost {cost}",
            "a distribution that files can hold (solvent.distribution)",
            "a distribution of scipy.stats",
        )
    return {
        key: encode_number(Fraction(value)) if not isinstance(value, bool) and key != "distribution" else value
        for key, value in cost.as_entry().items()
    }


def decode_cost(value: Any, where: str) -> Any:
    """Return the cost of one resource: a number as it is, or a distribution.

    Raises
    ------
    ModelError
        If it is neither.
    """
    if isinstance(value, CostDistribution) or not isinstance(value, Mapping):
        return check_number(value, where)
    if not isinstance(value.get("distribution"), str):
        raise ModelError(where, "a number, or a mapping with a field 'distribution'", quote_value(value))
    return decode_distribution(value, where)


def decode_distribution(value: Any, where: str) -> CostDistribution:
    """Return the distribution that a mapping of a file describes.

    Raises
    ------
    ModelError
        If it does not describe one.
    """
    family = value.get("distribution") if isinstance(value, Mapping) else None
    if not isinstance(family, str):
        raise ModelError(where, "a distribution", quote_value(value))
    parameters = {str(key): entry for key, entry in value.items() if key not in ("distribution", "negate")}
    negate = value.get("negate", False)
    if not isinstance(negate, bool):
        raise ModelError(_inside(where, "negate"), "true or false", quote_value(negate))
    if "where" in parameters or "name" in parameters:  # these are arguments of `distribution`
        raise ModelError(where, f"parameters of {family}", "where or name")
    return distribution(family, negate=negate, where=where, **parameters)


# ---------------------------------------------------------------------------------------------------------------------
# budgets


def encode_budget(budget: Budget) -> Any:
    """Return the budget of one resource for a file."""
    upper, lower = (_encode_side(side) for side in (budget.upper, budget.lower))
    if budget.only_final:
        entry = {"upper": upper, "lower": lower, "final": True}
        return {key: value for key, value in entry.items() if value is not None}
    if lower is None:
        return upper
    return {"lower": lower} if upper is None else {"upper": upper, "lower": lower}


def _encode_side(side: Any) -> Any:
    if isinstance(side, tuple):
        return [None if limit is None else encode_number(limit) for limit in side]
    return None if side is None else encode_number(side)


def decode_budget(value: Any, where: str) -> Budget:
    """Return the budget of one resource from null, a number, a list of limits, or a mapping.

    Raises
    ------
    ModelError
        If it is none of these, or a field of the mapping is invalid.

    Examples
    --------
    >>> decode_budget({"upper": 30, "lower": 0}, "budget"), decode_budget(None, "budget")
    (Budget(upper=30, lower=0), Budget(None))
    """
    if not isinstance(value, Mapping):
        return Budget(upper=_decode_side(value, where))
    sides: dict[str, Any] = {}
    final = False
    for key, entry in value.items():
        if key == "final":
            if not isinstance(entry, bool):
                raise ModelError(_inside(where, "final"), "true or false", quote_value(entry))
            final = entry
        elif key in ("upper", "lower"):
            sides[key] = _decode_side(entry, where)
        else:
            hint = did_you_mean(key, ["upper", "lower", "final"])
            raise ModelError(where, "upper, lower or final", quote_value(key), hint)
    if not final:
        return Budget(**sides)
    if any(isinstance(side, list) for side in sides.values()):
        raise ModelError(_inside(where, "final"), "single limits beside final: true", "a list")
    return Budget.final(sides.get("upper"), lower=sides.get("lower"))


def _decode_side(value: Any, where: str) -> Any:
    return [_decode_limit(limit, where) for limit in value] if isinstance(value, list) else _decode_limit(value, where)


def _decode_limit(value: Any, where: str) -> Any:
    infinite = isinstance(value, float) and not math.isfinite(value)
    if infinite or (isinstance(value, str) and value.strip().lstrip("+-").lower() in _INFINITY):
        found = str(value) if infinite else quote(value)
        raise ModelError(where, "a finite number", found, "use null for no limit")
    return None if value is None else check_number(value, where)
