"""The shape of model files: one pydantic model, from which the published JSON Schema is made.

It knows which fields there are and what kind of thing stands in each; what the numbers and names mean together is
checked by the builder, as for models stated in Python.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.assemble import MAX_HORIZON
from solvent.model.distributions import FAMILIES, CostLaw, law
from solvent.model.exact import exact

#: Version of the file format.
FORMAT = 1

_NUMBER_SCHEMA = {
    "anyOf": [
        {"type": "number"},
        {"type": "string", "pattern": r"^\s*[+-]?(\d+/\d+|(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?)\s*$"},
    ]
}
_NAME_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "array", "minItems": 1}]}
_LAW_SCHEMA = {
    "oneOf": [
        {
            "type": "object",
            "properties": {
                "distribution": {"const": name},
                **dict.fromkeys((*family.required, *family.optional), _NUMBER_SCHEMA),
                "negate": {"type": "boolean"},
            },
            "required": ["distribution", *family.required],
            "additionalProperties": False,
        }
        for name, family in FAMILIES.items()
    ]
}
_ONE_COST_SCHEMA = {"anyOf": [_NUMBER_SCHEMA, _LAW_SCHEMA]}
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
_STEPS_SCHEMA = {
    "type": "array",
    "items": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^\d+-\d+$"}]},
    "minItems": 1,
}


def _refuse(error: ModelError) -> PydanticCustomError:
    return PydanticCustomError(
        "solvent",
        "expected {expected}, found {found}",
        {"expected": error.expected, "found": error.found, "hint": error.hint, "inside": error.where},
    )


def _number(value: Any) -> Any:
    try:
        exact(value, "")
    except ModelError as error:
        raise _refuse(error) from None
    return value


def _name(value: Any) -> Any:
    if isinstance(value, list) and value:
        return tuple(part if isinstance(part, bool) else _name(part) for part in value)
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float | Decimal) and math.isfinite(float(value)):
        return float(value)
    raise _refuse(ModelError("", "a name: text, a number, or a list of them", quote(value), "put it in quotes"))


def _one_cost(value: Any) -> Any:
    if isinstance(value, CostLaw) or not isinstance(value, Mapping):
        return _number(value)
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
        return law(family, negate=negate, where="", **parameters)
    except ModelError as error:
        raise _refuse(error) from None


def _cost(value: Any) -> Any:
    if isinstance(value, list):
        return [_one_cost(entry) for entry in value]
    if isinstance(value, Mapping) and "distribution" not in value:
        return {_resource(key): _one_cost(entry) for key, entry in value.items()}
    return _one_cost(value)


def _resource(value: Any) -> str:
    if not isinstance(value, str):
        raise _refuse(ModelError("", "the name of a resource", quote(value)))
    return value


def _steps(value: Any) -> list[int]:
    if not isinstance(value, list) or not value:
        raise _refuse(ModelError("", 'a list of steps or ranges, as in [0, 1, "4-9"]', quote(value)))
    steps: list[int] = []
    for entry in value:
        match = _STEPS.fullmatch(entry) if isinstance(entry, str) else None
        if match and int(match[1]) <= int(match[2]) and len(steps) + int(match[2]) - int(match[1]) < MAX_HORIZON:
            steps.extend(range(int(match[1]), int(match[2]) + 1))
        elif isinstance(entry, int) and not isinstance(entry, bool):
            steps.append(entry)
        else:
            raise _refuse(ModelError("", 'a step or a range such as "4-9"', quote(entry)))
    return steps


def _bare_terminal(value: Any) -> Any:
    return value if isinstance(value, Mapping) else {"state": value}


Number = Annotated[Any, PlainValidator(_number), WithJsonSchema(_NUMBER_SCHEMA)]
Name = Annotated[Any, PlainValidator(_name), WithJsonSchema(_NAME_SCHEMA)]
Cost = Annotated[Any, PlainValidator(_cost), WithJsonSchema(_COST_SCHEMA)]
Steps = Annotated[list[int], PlainValidator(_steps), WithJsonSchema(_STEPS_SCHEMA)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)


class OutcomeEntry(_Strict):
    """One thing that may happen."""

    probability: Number = Field(description="Positive; those of a row sum to 1.")
    next: Name = Field(description="The state that follows.")
    cost: Cost = Field(
        default=0,
        description="What it costs: a number or a distribution, a list in the order of the resources, or by name.",
    )
    reward: Number = Field(default=0, description="What it earns, beside the reward of the row.")


class RowEntry(_Strict):
    """What may happen on taking an action in a state."""

    state: Name
    action: Name
    reward: Number = Field(default=0, description="Expected reward.")
    steps: Steps | None = Field(default=None, description="When the row holds; always, if not given.")
    outcomes: list[OutcomeEntry] = Field(min_length=1)


class TerminalEntry(_Strict):
    """A state in which the episode ends, at all steps or at some."""

    state: Name
    steps: Steps | None = None


def _limit(value: Any) -> Any:
    """Read one budget: null, a number, a list per step, or a mapping with upper, lower, final."""
    if value is None:
        return {}
    if isinstance(value, list):
        return {"upper": [_open(x) for x in value]}
    if not isinstance(value, Mapping):
        return {"upper": _open(value)}
    result: dict[str, Any] = {}
    for key, entry in value.items():
        if key not in ("upper", "lower", "final"):
            hint = did_you_mean(key, ["upper", "lower", "final"])
            raise _refuse(ModelError("", "upper, lower or final", quote(key), hint))
        if key == "final":
            if not isinstance(entry, bool):
                raise _refuse(ModelError("final", "true or false", quote(entry)))
            result[key] = entry
        else:
            result[key] = [_open(x) for x in entry] if isinstance(entry, list) else _open(entry)
    if result.get("final") and any(isinstance(side, list) for side in result.values()):
        raise _refuse(ModelError("final", "single limits beside final: true", "a list"))
    return result


def _open(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise _refuse(ModelError("", "a finite number", str(value), "use null for no limit"))
    return None if value is None else _number(value)


def _budget(value: Any) -> Any:
    """Read limits by resource; a bare limit, for a model of one resource, is kept under None."""
    if not isinstance(value, Mapping):
        return value if value is None else {None: _limit(value)}
    limits = {}
    for name, entry in value.items():
        try:
            limits[_resource(name)] = _limit(entry)
        except PydanticCustomError as error:
            facts = dict(error.context or {})
            inside = ", ".join(part for part in (f".{name}", facts["inside"]) if part)
            raise _refuse(ModelError(inside, facts["expected"], facts["found"], facts["hint"])) from None
    return limits


_SIDE_SCHEMA = {
    "anyOf": [
        {"type": "null"},
        _NUMBER_SCHEMA,
        {"type": "array", "items": {"anyOf": [{"type": "null"}, _NUMBER_SCHEMA]}},
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
Limits = Annotated[
    Any,
    PlainValidator(_budget),
    WithJsonSchema({"anyOf": [_SIDE_SCHEMA, {"type": "object", "additionalProperties": _LIMIT_SCHEMA}]}),
]
Terminal = Annotated[
    TerminalEntry,
    BeforeValidator(_bare_terminal),
    WithJsonSchema(
        {
            "anyOf": [
                _NAME_SCHEMA,
                {
                    "type": "object",
                    "properties": {"state": _NAME_SCHEMA, "steps": _STEPS_SCHEMA},
                    "required": ["state"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


#: Either a number of steps or a discount.
_HORIZON_SCHEMA: Any = [
    {"required": ["horizon"], "properties": {"horizon": {"type": "integer"}, "discount": {"type": "null"}}},
    {"required": ["discount"], "properties": {"horizon": {"type": "null"}, "discount": _NUMBER_SCHEMA}},
]


class ModelFile(_Strict):
    """A Solvent model: a constrained Markov decision process, and perhaps its budget."""

    model_config = ConfigDict(json_schema_extra={"oneOf": _HORIZON_SCHEMA})

    solvent: Literal[1] = Field(description="Version of the file format.")
    name: str = Field(default="", description="A title.")
    about: str = Field(default="", description="What it shows.")
    horizon: int | None = Field(
        default=None, ge=1, description="Number of steps; null, or not given, in a model with a discount."
    )
    discount: Number | None = Field(
        default=None,
        description="By how much rewards and costs shrink with each step, above 0 and below 1; no step is the last.",
    )
    start: Name = Field(description="The state at step 0.")
    resources: list[str] = Field(default=[], description="Names of what is spent.")
    states: list[Name] | None = Field(default=None, description="All states; any other is then an error.")
    actions: list[Name] | None = Field(default=None, description="All actions; any other is then an error.")
    terminal: list[Terminal] = Field(default=[], description="Where the episode ends.")
    budget: Limits = Field(
        default=None, description="Limits by resource, null for none; a bare limit for a model of one resource."
    )
    rows: list[RowEntry] = Field(min_length=1)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of model files.

    Examples
    --------
    >>> sorted(json_schema()["required"])
    ['rows', 'solvent', 'start']
    """
    schema = ModelFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def write_schema() -> None:
    """Write the published copies of the schema: one in the package, one in the documentation."""
    text = json.dumps(json_schema(), indent=1) + "\n"
    package = Path(__file__).parent
    package.joinpath("model.schema.json").write_text(text)
    package.parents[2].joinpath("docs", "model.schema.json").write_text(text)


def read_entries(data: Any) -> ModelFile:
    """Check the shape of a parsed file.

    Raises
    ------
    ModelError
        Naming the path of the first field that is not what it should be.
    """
    if not isinstance(data, Mapping):
        raise ModelError("file", "a mapping with fields solvent, horizon, start, rows", quote(data))
    if "solvent" not in data:
        raise ModelError("file", f"a model, which begins with 'solvent: {FORMAT}'", "no field 'solvent'")
    if isinstance(data["solvent"], bool):  # which Python takes for 1
        raise ModelError("solvent", str(FORMAT), quote(data["solvent"]))
    try:
        file = ModelFile.model_validate(data)
    except ValidationError as error:
        raise _first(error) from None
    if file.horizon is None and file.discount is None:
        raise ModelError("file", "a field 'horizon'", "none", "or a discount, for a model without a last step")
    return file


def read_name(value: Any, where: str) -> Any:
    """Check one name that stands outside a file of entries."""
    return _outside(_name, value, where)


def read_limit(value: Any, where: str) -> dict[str, Any]:
    """Check one budget entry that stands outside a file of entries."""
    return _outside(_limit, value, where)  # type: ignore[no-any-return]


def read_law(value: Any, where: str) -> CostLaw:
    """Check one distribution that stands outside a file of entries."""
    result = _outside(_one_cost, value, where)
    if not isinstance(result, CostLaw):
        raise ModelError(where, "a distribution", quote(value))
    return result


def _outside(reader: Callable[[Any], Any], value: Any, where: str) -> Any:
    try:
        return reader(value)
    except PydanticCustomError as error:
        context = error.context or {}
        raise ModelError(where, context["expected"], context["found"], context["hint"]) from None


def _first(error: ValidationError) -> ModelError:
    details = error.errors(include_url=False)
    detail = details[0]
    if detail["type"] == "missing":
        # a field that is missing because its name is misspelt
        misspelt = [
            other
            for other in details
            if other["type"] == "extra_forbidden"
            and other["loc"][:-1] == detail["loc"][:-1]
            and did_you_mean(other["loc"][-1], [detail["loc"][-1]])
        ]
        detail = misspelt[0] if misspelt else detail
    path = _path(detail["loc"])
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "solvent":
        inside = context["inside"].strip(", ")
        where = path + (inside if inside.startswith(".") else f", {inside}" if inside else "")
        return ModelError(where, context["expected"], context["found"], context["hint"])
    if kind == "missing":
        return ModelError(_path(detail["loc"][:-1]) or "file", f"a field {detail['loc'][-1]!r}", "none")
    if kind == "extra_forbidden":
        known = _fields_at(detail["loc"])
        return ModelError(
            path,
            f"a known field ({', '.join(known)})",
            "an unknown one",
            did_you_mean(detail["loc"][-1], known),
        )
    message = detail["msg"].removeprefix("Input should be ").removeprefix("Input should ")
    return ModelError(path or "file", message, quote(detail["input"]))


def _path(location: tuple[int | str, ...]) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location]
    return "".join(parts).lstrip(".")


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    owners: dict[str, type[BaseModel]] = {"rows": RowEntry, "outcomes": OutcomeEntry, "terminal": TerminalEntry}
    owner: type[BaseModel] = ModelFile
    for part in location[:-1]:
        owner = owners.get(str(part), owner)
    return list(owner.model_fields)
