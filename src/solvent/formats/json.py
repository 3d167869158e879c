"""Models as JSON."""

from __future__ import annotations

import json
from typing import Any

from solvent.core.exact import decimal
from solvent.errors import ModelError, SolventError, quote
from solvent.formats.documents import from_document, to_document
from solvent.formats.encoding import encode_text
from solvent.model.discounted import AnyModel


def read(content: bytes) -> AnyModel:
    """Return the model in a JSON file.

    Raises
    ------
    ModelError
        If the content is not JSON or not a valid model.
    """
    return from_document(parse(content))


def write(model: AnyModel) -> bytes:
    """Return the content of a JSON file that holds a model."""
    return encode_text(json.dumps(to_document(model), indent=1, ensure_ascii=False) + "\n")


def read_resources(content: bytes) -> list[str]:
    """Return the names of the resources in a JSON file."""
    listed = json.loads(content).get("resources", [])
    return [each["name"] if isinstance(each, dict) else each for each in listed]


def parse(content: bytes) -> Any:
    """Return the value of a JSON document; numbers with a fraction or an exponent become `Decimal`.

    Raises
    ------
    ModelError
        If the content is not JSON, or if an object has a key twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise ModelError("file", "each key once", f"{quote(key)} twice")
            result[key] = value
        return result

    try:
        return json.loads(content, parse_float=decimal, object_pairs_hook=unique)
    except SolventError:
        raise
    except ValueError as error:
        raise ModelError("file", "JSON", str(error)) from None
