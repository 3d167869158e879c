from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from bad_files import BAD_STRUCTURES, BASE
from hypothesis import HealthCheck, given

from effort import draws
from make_models import models
from solvent import CMDP, examples
from solvent.formats.documents import to_document
from solvent.formats.files import parse_model
from solvent.formats.schema import json_schema

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_published_copies_are_current() -> None:
    current = json_schema()
    packaged = resources.files("solvent.formats").joinpath("model.schema.json").read_text()
    assert json.loads(packaged) == current
    assert (ROOT / "docs" / "model.schema.json").read_text() == packaged


def test_the_base_model_is_valid(validator: Any) -> None:
    validator.validate(yaml.safe_load(BASE))


@draws(40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(model=models(wide=True))
def test_saved_models_are_valid(validator: Any, model: CMDP) -> None:
    entries = json.loads(json.dumps(to_document(model)))
    validator.validate(entries)
    assert parse_model(json.dumps(entries), "json") == model


@pytest.mark.parametrize(("changes", "message"), BAD_STRUCTURES)
def test_bad_structures_are_invalid_too(validator: Any, changes: dict[str, Any], message: str) -> None:
    entries = {**yaml.safe_load(BASE), **changes}
    entries = {key: value for key, value in entries.items() if value is not ...}
    entries = json.loads(json.dumps(entries, default=lambda _: None))
    assert not validator.is_valid(entries), message


@pytest.mark.parametrize("name", examples.names())
def test_example_files_are_valid(validator: Any, name: str) -> None:
    validator.validate(yaml.safe_load(examples.path(name).read_text()))
