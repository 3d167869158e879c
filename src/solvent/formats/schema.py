"""The fields of model documents (YAML and JSON): one pydantic model, from which the JSON Schema is generated.

It checks which fields there are and the kind of value in each. What the values mean together is checked when the model
is built, as for models stated in Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from solvent.errors import ModelError, did_you_mean
from solvent.formats.encoding import quote_value
from solvent.formats.fields import (
    NAME_SCHEMA,
    NUMBER_SCHEMA,
    STEPS_SCHEMA,
    Budgets,
    Cost,
    EndReward,
    Name,
    Number,
    ResourceEntry,
    Start,
    Steps,
    expand_terminal,
    from_pydantic,
)

Reader = TypeVar("Reader", bound=Callable[..., Any])

#: Version of the file format.
FORMAT = 1


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)


class OutcomeEntry(_Strict):
    """One joint outcome of a row."""

    probability: Number = Field(description="Probability. The probabilities of a row sum to 1.")
    next: Name = Field(description="Next state.")
    cost: Cost = Field(
        default=0,
        description="Cost: a number or a distribution, a list in the order of the resources, or a mapping by resource.",
    )
    reward: Number = Field(default=0, description="Reward of this outcome, added to the reward of the row.")


class RowEntry(_Strict):
    """The outcomes of one action in one state."""

    state: Name
    action: Name
    reward: Number = Field(default=0, description="Expected reward.")
    steps: Steps | None = Field(default=None, description="Steps at which the row applies. Default: all.")
    outcomes: list[OutcomeEntry] = Field(min_length=1)


class TerminalEntry(_Strict):
    """A state in which the episode ends, at all steps or at the given ones."""

    state: Name
    steps: Steps | None = None


Terminal = Annotated[
    TerminalEntry,
    BeforeValidator(expand_terminal),
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


#: A model has either a horizon or a discount.
_HORIZON_SCHEMA: Any = [
    {"required": ["horizon"], "properties": {"horizon": {"type": "integer"}, "discount": {"type": "null"}}},
    {"required": ["discount"], "properties": {"horizon": {"type": "null"}, "discount": NUMBER_SCHEMA}},
]


class ModelFile(_Strict):
    """A Solvent model: a constrained Markov decision process with an optional default budget."""

    model_config = ConfigDict(json_schema_extra={"oneOf": _HORIZON_SCHEMA})

    solvent: Literal[1] = Field(description="Version of the file format.")
    name: str = Field(default="", description="Title of the model.")
    description: str = Field(default="", description="Description of the model.")
    horizon: int | None = Field(
        default=None, ge=1, description="Number of steps. Null or missing in a model with a discount."
    )
    discount: Number | None = Field(
        default=None,
        description="Discount factor of rewards and costs, above 0 and below 1, for a model without a last step.",
    )
    start: Start = Field(
        description="State at step 0, or probabilities of several: a mapping by state, or a list of "
        "{state: ..., probability: ...} for names that are not text."
    )
    resources: list[ResourceEntry] = Field(
        default=[], description="Resources: a name, or a mapping with name, floor and ceiling."
    )
    states: list[Name] | None = Field(default=None, description="All states. If given, any other state is an error.")
    actions: list[Name] | None = Field(default=None, description="All actions. If given, any other action is an error.")
    terminal: list[Terminal] = Field(default=[], description="States in which the episode ends.")
    end_reward: EndReward = Field(
        default=None,
        description="Reward for being in a state when the episode ends: a mapping by state, or a list of "
        "{state: ..., reward: ...} for names that are not text. Default: 0.",
    )
    must_end_in: list[Name] | None = Field(
        default=None, description="States in which every episode must end. Default: all."
    )
    budget: Budgets = Field(
        default=None,
        description="Default limits by resource, null for no limit. A single limit in a model of one resource.",
    )
    rows: list[RowEntry] = Field(min_length=1)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of model documents.

    Examples
    --------
    >>> sorted(json_schema()["required"])
    ['rows', 'solvent', 'start']
    """
    schema = ModelFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def write_schema() -> None:
    """Write the JSON Schema to its two places: the package and the documentation."""
    text = json.dumps(json_schema(), indent=1) + "\n"
    package = Path(__file__).parent
    package.joinpath("model.schema.json").write_text(text)
    package.parents[2].joinpath("docs", "model.schema.json").write_text(text)


def choose_document_reader(data: Any, readers: Mapping[int, Reader]) -> Reader:
    """Return the reader for the format version of a document.

    Raises
    ------
    ModelError
        If the version is missing or unknown.
    """
    if not isinstance(data, Mapping):
        raise ModelError("file", "a mapping with fields solvent, horizon, start, rows", quote_value(data))
    if "solvent" not in data:
        raise ModelError("file", f"a model, which starts with 'solvent: {FORMAT}'", "no field 'solvent'")
    found = data["solvent"]
    whole = isinstance(found, int) and not isinstance(found, bool)
    if not whole or found not in readers:
        newer = whole and found > max(readers)
        hint = "it was written for a newer version of Solvent, which is needed to read it" if newer else ""
        raise ModelError("solvent", " or ".join(map(str, sorted(readers))), quote_value(found), hint)
    return readers[found]


def check_document(data: Any) -> ModelFile:
    """Check the fields of a document of format 1.

    Raises
    ------
    ModelError
        If a field is missing, unknown or of the wrong kind; the error has the path of the first such field.
    """
    try:
        file = ModelFile.model_validate(data)
    except ValidationError as error:
        raise _first_error(error) from None
    if file.horizon is None and file.discount is None:
        raise ModelError("file", "a field 'horizon'", "none", "or give a discount, for a model without a last step")
    return file


#: Names that users give to what was spent before the first step, and where it is stated instead.
_INITIAL = ("spent", "initial", "initial_spent", "spent_before")
_BEFORE = "what has been spent before the first step is an argument: solve(model, spent=...), or --spent fuel=5"


def _first_error(error: ValidationError) -> ModelError:
    details = error.errors(include_url=False)
    detail = details[0]
    if detail["type"] == "missing":
        # the name of the missing field may be misspelled
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
        where = path + (inside if inside.startswith((".", "[")) else f", {inside}" if inside else "")
        return from_pydantic(context, where)
    if kind == "missing":
        return ModelError(_path(detail["loc"][:-1]) or "file", f"a field {detail['loc'][-1]!r}", "none")
    if kind == "extra_forbidden":
        known, name = _fields_at(detail["loc"]), detail["loc"][-1]
        hint = _BEFORE if len(detail["loc"]) == 1 and name in _INITIAL else did_you_mean(name, known)
        return ModelError(path, f"a known field ({', '.join(known)})", "an unknown one", hint)
    message = detail["msg"].removeprefix("Input should be ").removeprefix("Input should ")
    return ModelError(path or "file", message, quote_value(detail["input"]))


def _path(location: tuple[int | str, ...]) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location]
    return "".join(parts).lstrip(".")


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    owners: dict[str, type[BaseModel]] = {"rows": RowEntry, "outcomes": OutcomeEntry, "terminal": TerminalEntry}
    owner: type[BaseModel] = ModelFile
    for part in location[:-1]:
        owner = owners.get(str(part), owner)
    return list(owner.model_fields)
