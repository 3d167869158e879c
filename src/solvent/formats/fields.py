"""Fields of a model document: one pydantic type per kind of value, with its JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from solvent.errors import LoadLimitError, ModelError, printable
from solvent.formats.accounts import PROBABILITY, REWARD, decode_by_state, decode_resource, decode_start
from solvent.formats.encoding import check_number, decode_budget, decode_cost, decode_name, quote_value
from solvent.model.budget import Budget
from solvent.model.consistency import MAX_HORIZON
from solvent.model.distributions import FAMILIES
from solvent.model.resources import Resource
from solvent.model.steps import StepSet

NUMBER_SCHEMA = {
    "anyOf": [
        {"type": "number"},
        {"type": "string", "pattern": r"^\s*[+-]?(\d+/\d+|(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?)\s*$"},
    ]
}
NAME_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "array", "minItems": 1}]}
_END_SCHEMA = {"anyOf": [{"type": "null"}, NUMBER_SCHEMA]}
_RESOURCE_SCHEMA = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "floor": {**_END_SCHEMA, "description": "The amount spent is never below it."},
                "ceiling": {**_END_SCHEMA, "description": "The amount spent is never above it."},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    ]
}


def _by_state_schema(field: str) -> list[dict[str, Any]]:
    """Return the schemas of numbers by state: a mapping, and a list for names that are not text."""
    entry = {
        "type": "object",
        "properties": {"state": NAME_SCHEMA, field: NUMBER_SCHEMA},
        "required": ["state", field],
        "additionalProperties": False,
    }
    return [{"type": "object", "additionalProperties": NUMBER_SCHEMA}, {"type": "array", "items": entry}]


_START_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {"type": "number"},
        {"type": "array", "minItems": 1, "items": {"not": {"type": "object"}}},
        *({**each, "minProperties": 1, "minItems": 1} for each in _by_state_schema(PROBABILITY)),
    ]
}
_END_REWARD_SCHEMA = {"anyOf": [{"type": "null"}, *_by_state_schema(REWARD)]}
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
_STEP_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})")
STEPS_SCHEMA = {
    "type": "array",
    "items": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^\d+-\d+$"}]},
    "minItems": 1,
}
_SIDE_SCHEMA = {
    "anyOf": [
        {"type": "null"},
        NUMBER_SCHEMA,
        {"type": "array", "items": {"anyOf": [{"type": "null"}, NUMBER_SCHEMA]}},
    ]
}
_LIMIT_SCHEMA = {
    "anyOf": [
        _SIDE_SCHEMA,
        {
            "type": "object",
            "properties": {"upper": _SIDE_SCHEMA, "lower": _SIDE_SCHEMA, "final": {"type": "boolean"}},
            "additionalProperties": False,
        },
    ]
}
_BUDGET_SCHEMA = {"anyOf": [_SIDE_SCHEMA, {"type": "object", "additionalProperties": _LIMIT_SCHEMA}]}


def to_pydantic(error: ModelError) -> PydanticCustomError:
    """Return a `ModelError` in a form that pydantic passes on."""
    return PydanticCustomError(
        "solvent",
        "expected {expected}, found {found}",
        {
            # pydantic raises when it renders text that UTF-8 cannot hold
            "expected": printable(error.expected),
            "found": printable(error.found),
            "hint": printable(error.hint),
            "inside": printable(error.where),
            "limit": isinstance(error, LoadLimitError),
        },
    )


def from_pydantic(context: Mapping[str, Any], where: str) -> ModelError:
    """Return the `ModelError` that pydantic passed on, with another place."""
    kind = LoadLimitError if context["limit"] else ModelError
    return kind(where, context["expected"], context["found"], context["hint"])


def _validator(decode: Callable[[Any, str], Any]) -> PlainValidator:
    """Return a pydantic validator of a function that takes a value and a place and raises `ModelError`."""

    def validate(value: Any) -> Any:
        try:
            return decode(value, "")
        except ModelError as error:
            raise to_pydantic(error) from None

    return PlainValidator(validate)


def _decode_end_reward(value: Any, where: str) -> Any:
    return None if value is None else decode_by_state(value, REWARD, where)


def _decode_costs(value: Any, where: str) -> Any:
    if isinstance(value, list):
        return [decode_cost(entry, where) for entry in value]
    if isinstance(value, Mapping) and "distribution" not in value:
        return {_decode_resource(key, where): decode_cost(entry, where) for key, entry in value.items()}
    return decode_cost(value, where)


def _decode_resource(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ModelError(where, "the name of a resource", quote_value(value))
    return value


def _decode_budgets(value: Any, where: str) -> dict[str | None, Budget] | None:
    """Return budgets by resource; a single limit, for a model of one resource, has the key None."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return {None: decode_budget(value, where)}
    return {
        _decode_resource(name, where): decode_budget(entry, f"{where}.{printable(str(name))}")
        for name, entry in value.items()
    }


def _decode_steps(value: Any, where: str) -> StepSet:
    if not isinstance(value, list) or not value:
        raise ModelError(where, 'a list of steps or ranges, as in [0, 1, "4-9"]', quote_value(value))
    ranges: list[range] = []
    for entry in value:
        match = _STEP_RANGE.fullmatch(entry) if isinstance(entry, str) else None
        if match and int(match[1]) <= int(match[2]) < MAX_HORIZON:
            ranges.append(range(int(match[1]), int(match[2]) + 1))
        elif isinstance(entry, int) and not isinstance(entry, bool):
            ranges.append(range(entry, entry + 1))
        else:
            raise ModelError(where, 'a step or a range such as "4-9"', quote_value(entry))
    return StepSet(ranges)


def expand_terminal(value: Any) -> Any:
    """Return an entry of `terminal` as a mapping; a state alone stands for all steps."""
    return value if isinstance(value, Mapping) else {"state": value}


Number = Annotated[Any, _validator(check_number), WithJsonSchema(NUMBER_SCHEMA)]
Name = Annotated[Any, _validator(decode_name), WithJsonSchema(NAME_SCHEMA)]
Start = Annotated[Any, _validator(decode_start), WithJsonSchema(_START_SCHEMA)]
ResourceEntry = Annotated[Resource, _validator(decode_resource), WithJsonSchema(_RESOURCE_SCHEMA)]
EndReward = Annotated[Any, _validator(_decode_end_reward), WithJsonSchema(_END_REWARD_SCHEMA)]
Cost = Annotated[Any, _validator(_decode_costs), WithJsonSchema(_COST_SCHEMA)]
Steps = Annotated[StepSet, _validator(_decode_steps), WithJsonSchema(STEPS_SCHEMA)]
Budgets = Annotated[Any, _validator(_decode_budgets), WithJsonSchema(_BUDGET_SCHEMA)]
