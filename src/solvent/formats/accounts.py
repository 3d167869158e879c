"""How documents hold resources that saturate, first states, end rewards and goals.

A resource is its name, or a mapping with `name`, `floor` and `ceiling`. Numbers by state are a mapping by name, or, as
keys of JSON are text, a list of mappings such as `{state: [0, 1], probability: 0.5}`. A name is never a mapping, so
that a list of mappings cannot be a name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from solvent.errors import ModelError, did_you_mean, printable, quote
from solvent.formats.encoding import check_number, decode_name, encode_name, encode_number, quote_value
from solvent.model.resources import Resource

_RESOURCE_FIELDS = ("name", "floor", "ceiling")
#: Field of the number in an entry of `start` and of `end_reward`.
PROBABILITY, REWARD = "probability", "reward"


def encode_resource(resource: Resource) -> Any:
    """Return a resource for a file: its name, or a mapping if it saturates.

    Examples
    --------
    >>> encode_resource(Resource("fuel")), encode_resource(Resource("fuel", floor=0, ceiling="1/3"))
    ('fuel', {'name': 'fuel', 'floor': 0, 'ceiling': '1/3'})
    """
    if not resource.saturates:
        return resource.name
    ends = {"floor": resource.floor, "ceiling": resource.ceiling}
    return {"name": resource.name, **{side: encode_number(end) for side, end in ends.items() if end is not None}}


def decode_resource(value: Any, where: str) -> Resource:
    """Return the resource that a file holds.

    Raises
    ------
    ModelError
        If it is not a name or a mapping of the fields of a resource.

    Examples
    --------
    >>> decode_resource({"name": "fuel", "floor": 0}, "resources[0]")
    Resource('fuel', floor=0)
    """
    fields = value if isinstance(value, Mapping) else {"name": value}
    if not isinstance(value, str | Mapping):
        expected = "a name, or a mapping with the fields name, floor and ceiling"
        raise ModelError(where, expected, quote_value(value))
    for key in fields:
        if key not in _RESOURCE_FIELDS:
            hint = did_you_mean(key, _RESOURCE_FIELDS)
            raise ModelError(_inside(where, key), "a known field (name, floor, ceiling)", "an unknown one", hint)
    if "name" not in fields:
        raise ModelError(where, "a field 'name'", "none")
    if not isinstance(fields["name"], str) or not fields["name"]:
        raise ModelError(_inside(where, "name"), "non-empty text", quote_value(fields["name"]))
    ends = {side: fields[side] for side in ("floor", "ceiling") if fields.get(side) is not None}
    for side, end in ends.items():
        check_number(end, _inside(where, side))
    try:
        return Resource(fields["name"], **ends)
    except ModelError as error:
        raise ModelError(where, error.expected, error.found, error.hint) from None


def encode_start(start: Hashable | Mapping[Hashable, float]) -> Any:
    """Return the first state, or the probabilities of several, for a file.

    Examples
    --------
    >>> encode_start("a"), encode_start({"a": 0.5, "b": 0.5})
    ('a', {'a': 0.5, 'b': 0.5})
    >>> encode_start({1: 0.5, "b": 0.5})
    [{'state': 1, 'probability': 0.5}, {'state': 'b', 'probability': 0.5}]
    """
    return encode_by_state(start, PROBABILITY) if isinstance(start, Mapping) else encode_name(start, "state")


def decode_start(value: Any, where: str) -> Any:
    """Return the first state that a file holds, or numbers by state.

    Raises
    ------
    ModelError
        If it is neither.
    """
    several = isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value)
    if several or isinstance(value, Mapping):
        return decode_by_state(value, PROBABILITY, where)
    return decode_name(value, where)


def encode_by_state(numbers: Mapping[Hashable, float], field: str) -> Any:
    """Return numbers by state for a file: a mapping if all names are text, else a list of mappings."""
    pairs = [(encode_name(state, "state"), encode_number(float(number))) for state, number in numbers.items()]
    if all(isinstance(state, str) for state, _ in pairs):
        return dict(pairs)
    return [{"state": state, field: number} for state, number in pairs]


def decode_by_state(value: Any, field: str, where: str) -> dict[Hashable, Any]:
    """Return numbers by state from a mapping by name, or a list of mappings with `state` and the given field.

    Raises
    ------
    ModelError
        If it is neither, a number is not finite, or a state occurs twice.

    Examples
    --------
    >>> decode_by_state([{"state": [0, 1], "reward": 5}], "reward", "end_reward")
    {(0, 1): 5}
    """
    if not isinstance(value, Mapping | list):
        raise ModelError(where, f"a mapping by state, or a list of {{state: ..., {field}: ...}}", quote_value(value))
    found: dict[Hashable, Any] = {}
    for state, number, place in _pairs(value, field, where):
        if state in found:
            raise ModelError(where, "each state once", f"{quote(state)} twice")
        found[state] = check_number(number, place)
    return found


def _pairs(value: Any, field: str, where: str) -> Iterable[tuple[Hashable, Any, str]]:
    """Yield each state, its number and the place of the number."""
    if isinstance(value, Mapping):
        for key, number in value.items():
            yield decode_name(key, where), number, _inside(where, key)
        return
    for i, entry in enumerate(value):
        place = f"{where}[{i}]"
        if not isinstance(entry, Mapping):
            raise ModelError(place, f"a mapping with the fields state and {field}", quote_value(entry))
        for key in entry:
            if key not in ("state", field):
                hint = did_you_mean(key, ["state", field])
                raise ModelError(_inside(place, key), f"a known field (state, {field})", "an unknown one", hint)
        for key in ("state", field):
            if key not in entry:
                raise ModelError(place, f"a field {key!r}", "none")
        yield decode_name(entry["state"], _inside(place, "state")), entry[field], _inside(place, field)


def _inside(where: str, key: Any) -> str:
    return f"{where}.{printable(str(key))}"
