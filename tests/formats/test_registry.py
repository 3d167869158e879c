"""One registry of formats: files, messages, help and completion read it."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
import typer

import solvent
from solvent.cli.completion import resource_names
from solvent.cli.environments import is_model_file
from solvent.errors import ModelError
from solvent.formats import json as json_format
from solvent.formats import registry
from solvent.formats.files import parse_model
from solvent.model import instances
from solvent.model.discounted import AnyModel

DISCOUNTED = """\
solvent: 1
discount: 1/2
start: home
resources: [fuel]
rows: [{state: home, action: go, outcomes: [{probability: 1, next: home, cost: 1}]}]
"""


@pytest.fixture
def reversed_json(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register a format: JSON, written backwards."""
    module = types.ModuleType("reversed_json")

    def read(content: bytes) -> AnyModel:
        return json_format.read(content[::-1])

    def write(model: AnyModel) -> bytes:
        return json_format.write(model)[::-1]

    module.read, module.write = read, write  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "reversed_json", module)
    line = registry.FileFormat("reversed", (".nosj",), "reversed_json", is_text=True)
    monkeypatch.setattr(registry, "FORMATS", (*registry.FORMATS, line))
    return ".nosj"


def test_a_new_format_is_one_module_and_one_line(reversed_json: str, tmp_path: Path) -> None:
    model = instances.knapsack([3, 4], ["1/3", 3], capacity=4)
    path = tmp_path / f"model{reversed_json}"
    model.save(path)
    assert path.read_bytes().startswith(b"\n}")
    assert solvent.load_model(path) == model
    assert parse_model(path.read_bytes(), "reversed") == model
    assert resource_names(path) == ["weight"]
    assert is_model_file(path)
    assert registry.suffixes_text() == ".yaml, .json, .npz, .prism, .jani, .drn, .umb or .nosj"
    with pytest.raises(solvent.LoadLimitError, match="bytes of text"):
        solvent.load_model(path, limits=solvent.LoadLimits(text_bytes=10))
    with pytest.raises(ModelError, match=r"a file ending in \.yaml, \.yml, .*, \.umb or \.nosj, found '\.txt'"):
        solvent.load_model(tmp_path / "model.txt")


@pytest.mark.parametrize("each", registry.DOCUMENTS, ids=lambda each: each.name)
def test_every_format_reads_what_it_writes(each: registry.FileFormat, tmp_path: Path) -> None:
    model = instances.partition([3, 1, 2])
    content = each.write(model)
    assert each.read(content) == model
    assert each.read_resources(content) == ["left", "right"]
    assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in each.suffixes)
    for suffix in (*each.suffixes, each.suffixes[0].upper()):
        assert registry.find_format(tmp_path / f"model{suffix}") is each


def test_no_suffix_and_no_name_is_listed_twice() -> None:
    suffixes = registry.model_suffixes()
    assert len(set(suffixes)) == len(suffixes)
    assert len({each.name for each in registry.FORMATS}) == len(registry.FORMATS)
    with pytest.raises(ModelError, match=r"format: expected one of yaml, json, npz, prism, .*, found 'xml'"):
        parse_model("", "xml")


def test_help_lists_the_formats() -> None:
    from solvent.cli.models import convert
    from solvent.cli.options import ModelArgument

    texts = [ModelArgument.__metadata__[0].help]  # type: ignore[attr-defined]
    texts += [str(typer.main.get_params_from_function(convert)["target"].default.help)]
    assert registry.suffixes_text() in texts[0]
    assert registry.suffixes_text(writing=True) in texts[1]


@pytest.mark.parametrize("suffix", sorted({*registry.model_suffixes(), *registry.model_suffixes(writing=True)}))
def test_documentation_lists_the_formats(suffix: str) -> None:
    pages = "\n".join(
        Path(__file__).parents[2].joinpath("docs", name).read_text() for name in ("models.md", "formats.md")
    )
    assert f"`{suffix}`" in pages
    assert suffix in str(solvent.load_model.__doc__) or suffix not in registry.model_suffixes()


def test_programs_say_what_may_be_a_cost(tmp_path: Path) -> None:
    path = tmp_path / "rover.prism"
    path.write_text('mdp\nrewards "time"\n  true : 1;\nendrewards\nrewards\n  true : 1;\nendrewards\n')
    assert resource_names(path) == ["time", "unnamed"]
    path = tmp_path / "rover.jani"
    path.write_text('{"variables": [{"name": "x"}, {"name": "time", "transient": true, "type": "real"}]}')
    assert resource_names(path) == ["time"]
    path = tmp_path / "rover.drn"
    path.write_text("@type: MDP\n")
    assert resource_names(path) == []


def test_the_kind_of_model_is_checked(tmp_path: Path) -> None:
    endless, ending = tmp_path / "endless.yaml", tmp_path / "ending.yaml"
    endless.write_text(DISCOUNTED)
    instances.knapsack([1], [1]).save(ending)
    assert isinstance(solvent.load_model(endless, discounted=True), solvent.DiscountedCMDP)
    assert isinstance(solvent.load_model(endless, discounted=None), solvent.DiscountedCMDP)
    assert isinstance(solvent.load_model(ending), solvent.CMDP)
    assert isinstance(solvent.load_model(ending, discounted=None), solvent.CMDP)
    message = r"endless.yaml: discount: expected a model with a horizon, found a model with a discount; .*=True"
    with pytest.raises(ModelError, match=message):
        solvent.load_model(endless)
    with pytest.raises(ModelError, match=r"expected a model with a discount, found a model with a horizon"):
        solvent.load_model(ending, discounted=True)
