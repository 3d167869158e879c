"""JANI files, read through Storm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from solvent.errors import ModelError, quote
from solvent.formats.jani_costs import keep_costs
from solvent.formats.json import parse
from solvent.formats.programs import ProgramOptions
from solvent.formats.storm import read_program
from solvent.model.cmdp import CMDP

#: Most digits with which a number survives as a float.
_FLOAT_DIGITS = 15


def read(content: bytes, options: ProgramOptions) -> CMDP:
    """Return the model of a JANI file. Costs and rewards are transient variables.

    Raises
    ------
    ModelError
        If Storm refuses the file, or it is neither an MDP nor a DTMC.
    """
    document = parse(content)
    _check_initial_values(document, [options.reward_name, *(each.name for each in options.costs)])
    transitions = keep_costs(document, [each.name for each in options.costs])
    if transitions:
        content = json.dumps(_plain(document)).encode()
    return read_program(content, "jani", options, transitions)


def read_resources(content: bytes) -> list[str]:
    """Return the names of the transient numeric variables of a file, each of which may be a cost."""
    listed = json.loads(content).get("variables", [])
    return [each["name"] for each in listed if each.get("transient") and each.get("type") != "bool"]


def _check_initial_values(document: Any, names: Sequence[str | None]) -> None:
    """Raise a `ModelError` if a cost or a reward has a value where none is assigned: Storm adds it to others."""
    listed = document.get("variables", []) if isinstance(document, dict) else []
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict) and each.get("transient") and each.get("name") in names:
            initial = each.get("initial-value", 0)
            if initial != 0:
                raise ModelError(f"variables, {each['name']}, initial-value", "0", quote(initial))


def _plain(value: Any) -> Any:
    """Return a document with decimals as floats, or as quotients of whole numbers if floats do not hold them."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, Decimal):
        return value
    if len(value.as_tuple().digits) <= _FLOAT_DIGITS:
        return float(value)
    number = Fraction(value)
    return {"op": "/", "left": number.numerator, "right": number.denominator}
