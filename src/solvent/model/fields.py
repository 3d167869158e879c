"""What may stand in one field of a model file: numbers, names, costs, steps; each with its JSON Schema."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from solvent.core.exact import exact
from solvent.errors import LoadLimitError, ModelError, printable, quote
from solvent.model.assemble import MAX_HORIZON
from solvent.model.distributions import FAMILIES, CostDistribution, distribution
from solvent.model.steps import Steps as StepSet

NUMBER_SCHEMA = {
    "anyOf": [
        {"type": "number"},
        {"type": "string", "pattern": r"^\s*[+-]?(\d+/\d+|(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?)\s*$"},
    ]
}
NAME_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "array", "minItems": 1}]}
_DISTRIBUTION_SCHEMA = {
    "oneOf": [
        {
            "type": "object",
            "properties": {
                "distribution": {"const": name},
                **dict.fromkeys((*family.required, *family.optional), NUMBER_SCHEMA),
                "negate": {"type": "boolean"},
            },
            "required": ["distribution", *family.required],
            "additionalProperties": False,
        }
        for name, family in FAMILIES.items()
    ]
}
_ONE_COST_SCHEMA = {"anyOf": [NUMBER_SCHEMA, _DISTRIBUTION_SCHEMA]}
_COST_SCHEMA = {
    "anyOf": [
        _ONE_COST_SCHEMA,
        {"type": "array", "items": _ONE_COST_SCHEMA},
        {
            "type": "object",
            "additionalProperties": _ONE_COST_SCHEMA,
            "not": {"required": ["distribution"]},
        },
    ]
}
_STEPS = re.compile(r"(\d{1,9})-(\d{1,9})")
STEPS_SCHEMA = {
    "type": "array",
    "items": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^\d+-\d+$"}]},
    "minItems": 1,
}


def refused(error: ModelError) -> PydanticCustomError:
    """Return an error of ours in the form pydantic passes on."""
    return PydanticCustomError(
        "solvent",
        "expected {expected}, found {found}",
        {
            # what UTF-8 cannot hold would raise when pydantic renders it
            "expected": printable(error.expected),
            "found": printable(error.found),
            "hint": printable(error.hint),
            "inside": printable(error.where),
            "limit": isinstance(error, LoadLimitError),
        },
    )


def raised(context: Mapping[str, Any], where: str) -> ModelError:
    """Return the error of ours that pydantic passed on, at a place."""
    kind = LoadLimitError if context["limit"] else ModelError
    return kind(where, context["expected"], context["found"], context["hint"])


def read_number(value: Any) -> Any:
    """Return a number as it was typed, if it is one."""
    try:
        exact(value, "")
    except ModelError as error:
        raise refused(error) from None
    return value


def read_plain_name(value: Any) -> Any:
    """Return a name: text, a number, or a tuple of names."""
    if isinstance(value, list) and value:
        return tuple(part if isinstance(part, bool) else read_plain_name(part) for part in value)
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float | Decimal) and math.isfinite(float(value)):
        return float(value)
    raise refused(ModelError("", "a name: text, a number, or a list of them", quote(value), "put it in quotes"))


def read_cost(value: Any) -> Any:
    """Return the cost of one resource: a number, or a distribution."""
    if isinstance(value, CostDistribution) or not isinstance(value, Mapping):
        return read_number(value)
    parameters = {str(key): entry for key, entry in value.items() if key not in ("distribution", "negate")}
    negate = value.get("negate", False)
    try:
        if not isinstance(negate, bool):
            raise ModelError("negate", "true or false", quote(negate))
        family = value.get("distribution")
        if not isinstance(family, str):
            raise ModelError("", "a number, or a mapping that names its distribution", quote(value))
        if "where" in parameters or "name" in parameters:
            raise ModelError("", f"parameters of {family}", "where or name")
        return distribution(family, negate=negate, where="", **parameters)
    except ModelError as error:
        raise refused(error) from None


def _cost(value: Any) -> Any:
    if isinstance(value, list):
        return [read_cost(entry) for entry in value]
    if isinstance(value, Mapping) and "distribution" not in value:
        return {read_resource(key): read_cost(entry) for key, entry in value.items()}
    return read_cost(value)


def read_resource(value: Any) -> str:
    """Return the name of a resource."""
    if not isinstance(value, str):
        raise refused(ModelError("", "the name of a resource", quote(value)))
    return value


def _steps(value: Any) -> StepSet:
    if not isinstance(value, list) or not value:
        raise refused(ModelError("", 'a list of steps or ranges, as in [0, 1, "4-9"]', quote(value)))
    ranges: list[range] = []
    for entry in value:
        match = _STEPS.fullmatch(entry) if isinstance(entry, str) else None
        if match and int(match[1]) <= int(match[2]) < MAX_HORIZON:
            ranges.append(range(int(match[1]), int(match[2]) + 1))
        elif isinstance(entry, int) and not isinstance(entry, bool):
            ranges.append(range(entry, entry + 1))
        else:
            raise refused(ModelError("", 'a step or a range such as "4-9"', quote(entry)))
    return StepSet(ranges)


def bare_terminal(value: Any) -> Any:
    """Return a terminal entry that is only a state as one with fields."""
    return value if isinstance(value, Mapping) else {"state": value}


Number = Annotated[Any, PlainValidator(read_number), WithJsonSchema(NUMBER_SCHEMA)]
Name = Annotated[Any, PlainValidator(read_plain_name), WithJsonSchema(NAME_SCHEMA)]
Cost = Annotated[Any, PlainValidator(_cost), WithJsonSchema(_COST_SCHEMA)]
Steps = Annotated[StepSet, PlainValidator(_steps), WithJsonSchema(STEPS_SCHEMA)]
