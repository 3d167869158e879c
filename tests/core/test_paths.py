"""Arguments that are paths: every function refuses other values with the same message."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import solvent
from solvent.experiments.paper import reproduce, write_claims
from solvent.learning import CsvLog, LearnResult


@cache
def knapsack() -> solvent.CMDP:
    return solvent.instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50)


@cache
def solved() -> solvent.Solution:
    return solvent.solve(knapsack())


@cache
def learned() -> LearnResult:
    return solvent.learn(solvent.instances.markov_gap(), epsilon=0.3)


def figure(path: Any) -> None:
    solvent.plot.save(solvent.frontier(knapsack()).plot(), path)


#: Functions of a path, the place that their message names, and what it expects.
TAKERS: dict[str, tuple[Callable[[Any], object], str, str]] = {
    "load_model": (solvent.load_model, "load_model", "the path of a model file"),
    "model.save": (lambda path: knapsack().save(path), "save", "the path of a model file"),
    "augment": (lambda path: solvent.augment(knapsack()).save(path), "save", "the path of a model file"),
    "load_policy": (solvent.load_policy, "load_policy", "the path of a policy file"),
    "policy.save": (lambda path: solved().policy.save(path), "save", "the path of a policy file"),
    "policy.export": (lambda path: solved().policy.export(path), "export", "the path of a .c or .json file"),
    "learned.save": (lambda path: learned().save(path), "save", "the path of a result of learning"),
    "LearnResult.load": (LearnResult.load, "load", "the path of a result of learning"),
    "CsvLog": (CsvLog, "path", "the path of a CSV file"),
    "report": (lambda path: solved().report(path), "report", "the path of an .html file"),
    "plot.save": (figure, "save", "the path of a .png, .svg or .pdf file"),
    "solve": (lambda path: solvent.solve(knapsack(), checkpoint=path), "checkpoint", "a path"),
    "reproduce": (lambda path: list(reproduce(["precision"], path)), "folder", "the path of a folder"),
    "write_claims": (lambda path: write_claims([], path), "folder", "the path of a folder"),
    "from_rddl": (
        lambda path: solvent.CMDP.from_rddl(path, "1", lambda *_: 0),
        "from_rddl, domain",
        "a path or a name",
    ),
}


@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.parametrize("value", [3, b"van.html", ["a"]], ids=["number", "bytes", "list"])
def test_other_types_are_refused(name: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, where, what = TAKERS[name]
    message = f"{where}: expected {what}, found {value!r}; a path is text or a pathlib.Path"
    with pytest.raises(solvent.errors.LocatedError, match=f"^{re.escape(message)}$"):
        call(value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.parametrize("value", ["", "a\0b.html"], ids=["empty", "nul"])
def test_text_that_is_no_path_is_refused(name: str, value: str) -> None:
    call, where, what = TAKERS[name]
    with pytest.raises(solvent.errors.LocatedError, match=f"^{re.escape(f'{where}: expected {what}, found ')}"):
        call(value)


class Place:
    """An object with a path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


def test_objects_with_a_path_are_accepted(tmp_path: Path) -> None:
    knapsack().save(Place(tmp_path / "sack.yaml"))  # type: ignore[arg-type]
    assert solvent.load_model(Place(tmp_path / "sack.yaml")) == knapsack()  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.txt", "expected a name ending in .html or .htm, found '.txt'"),
        ("x", "expected a name ending in .html or .htm, found no ending"),
        ("x.htms", "expected a name ending in .html or .htm, found '.htms'; did you mean '.htm'?"),
    ],
)
def test_suffixes_of_reports(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(solvent.ModelError, match=re.escape(f"{tmp_path / name}: {message}") + "$"):
        solved().report(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x.html", "x.htm", "x.HTML"])
def test_suffixes_that_reports_have(name: str, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    solved().report(tmp_path / name, episodes=10, time_limit=5)
    assert (tmp_path / name).read_text().startswith("<!DOCTYPE html>")
