"""The shape of model files: one pydantic model, from which the published JSON Schema is made.

It knows which fields there are and what kind of thing stands in each; what the numbers and names mean together is
checked by the builder, as for models stated in Python.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

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
from solvent.model.distributions import CostDistribution
from solvent.model.fields import (
    NAME_SCHEMA,
    NUMBER_SCHEMA,
    STEPS_SCHEMA,
    Cost,
    Name,
    Number,
    Steps,
    bare_terminal,
    raised,
    read_cost,
    read_number,
    read_plain_name,
    read_resource,
    refused,
)

Reader = TypeVar("Reader", bound=Callable[..., Any])

#: Version of the file format.
FORMAT = 1


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
            raise refused(ModelError("", "upper, lower or final", quote(key), hint))
        if key == "final":
            if not isinstance(entry, bool):
                raise refused(ModelError("final", "true or false", quote(entry)))
            result[key] = entry
        else:
            result[key] = [_open(x) for x in entry] if isinstance(entry, list) else _open(entry)
    if result.get("final") and any(isinstance(side, list) for side in result.values()):
        raise refused(ModelError("final", "single limits beside final: true", "a list"))
    return result


def _open(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise refused(ModelError("", "a finite number", str(value), "use null for no limit"))
    return None if value is None else read_number(value)


def _budget(value: Any) -> Any:
    """Read limits by resource; a bare limit, for a model of one resource, is kept under None."""
    if not isinstance(value, Mapping):
        return value if value is None else {None: _limit(value)}
    limits = {}
    for name, entry in value.items():
        try:
            limits[read_resource(name)] = _limit(entry)
        except PydanticCustomError as error:
            facts = dict(error.context or {})
            inside = ", ".join(part for part in (f".{name}", facts["inside"]) if part)
            raise refused(raised(facts, inside)) from None
    return limits


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
Limits = Annotated[
    Any,
    PlainValidator(_budget),
    WithJsonSchema({"anyOf": [_SIDE_SCHEMA, {"type": "object", "additionalProperties": _LIMIT_SCHEMA}]}),
]
Terminal = Annotated[
    TerminalEntry,
    BeforeValidator(bare_terminal),
    WithJsonSchema(
        {
            "anyOf": [
                NAME_SCHEMA,
                {
                    "type": "object",
                    "properties": {"state": NAME_SCHEMA, "steps": STEPS_SCHEMA},
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
    {"required": ["discount"], "properties": {"horizon": {"type": "null"}, "discount": NUMBER_SCHEMA}},
]


class ModelFile(_Strict):
    """A Solvent model: a constrained Markov decision process, and perhaps its budget."""

    model_config = ConfigDict(json_schema_extra={"oneOf": _HORIZON_SCHEMA})

    solvent: Literal[1] = Field(description="Version of the file format.")
    name: str = Field(default="", description="A title.")
    description: str = Field(default="", description="What it shows.")
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


def choose_entries_reader(data: Any, readers: Mapping[int, Reader]) -> Reader:
    """Return the reader for the format that a parsed file states.

    Raises
    ------
    ModelError
        If it states none, or one that is not known.
    """
    if not isinstance(data, Mapping):
        raise ModelError("file", "a mapping with fields solvent, horizon, start, rows", quote(data))
    if "solvent" not in data:
        raise ModelError("file", f"a model, which begins with 'solvent: {FORMAT}'", "no field 'solvent'")
    found = data["solvent"]
    whole = isinstance(found, int) and not isinstance(found, bool)
    if not whole or found not in readers:
        newer = whole and found > max(readers)
        hint = "it was written for a newer version of Solvent: pip install --upgrade solvent" if newer else ""
        raise ModelError("solvent", " or ".join(map(str, sorted(readers))), quote(found), hint)
    return readers[found]


def read_entries(data: Any) -> ModelFile:
    """Check the shape of a parsed file of format 1.

    Raises
    ------
    ModelError
        Naming the path of the first field that is not what it should be.
    """
    try:
        file = ModelFile.model_validate(data)
    except ValidationError as error:
        raise _first(error) from None
    if file.horizon is None and file.discount is None:
        raise ModelError("file", "a field 'horizon'", "none", "or a discount, for a model without a last step")
    return file


def read_name(value: Any, where: str) -> Any:
    """Check one name that stands outside a file of entries."""
    return _outside(read_plain_name, value, where)


def read_limit(value: Any, where: str) -> dict[str, Any]:
    """Check one budget entry that stands outside a file of entries."""
    return _outside(_limit, value, where)  # type: ignore[no-any-return]


def read_distribution(value: Any, where: str) -> CostDistribution:
    """Check one distribution that stands outside a file of entries."""
    result = _outside(read_cost, value, where)
    if not isinstance(result, CostDistribution):
        raise ModelError(where, "a distribution", quote(value))
    return result


def _outside(reader: Callable[[Any], Any], value: Any, where: str) -> Any:
    try:
        return reader(value)
    except PydanticCustomError as error:
        raise raised(error.context or {}, where) from None


def _first(error: ValidationError) -> ModelError:
    details = error.errors(include_url=False)
    detail = details[0]
    if detail["type"] == "missing":
        # a field that is missing because its name is misspelled
        misspelled = [
            other
            for other in details
            if other["type"] == "extra_forbidden"
            and other["loc"][:-1] == detail["loc"][:-1]
            and did_you_mean(other["loc"][-1], [detail["loc"][-1]])
        ]
        detail = misspelled[0] if misspelled else detail
    path = _path(detail["loc"])
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "solvent":
        inside = context["inside"].strip(", ")
        where = path + (inside if inside.startswith(".") else f", {inside}" if inside else "")
        return raised(context, where)
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
