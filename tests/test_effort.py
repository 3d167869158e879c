"""Shares of random problems, and the mark by which `make test-slow` selects tests that need extras."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import effort

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("test_*.py"))


def test_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "everything", False)
    assert [effort.some(count) for count in (1, effort.LEAST, 1000)] == [1, effort.LEAST, 1000 // effort.SHARE]
    assert effort.draws(1000).max_examples == len(effort.seeds(1000)) == 1000 // effort.SHARE
    assert effort.first(2, "abc") == ["a", "b"]
    monkeypatch.setattr(effort, "everything", True)
    assert effort.some(1000) == effort.draws(1000).max_examples == len(effort.seeds(1000)) == 1000
    assert effort.first(2, "abc") == ["a", "b", "c"]


def test_all_but_the_first_values_are_slow() -> None:
    for values in ("abc", [("a", 1), ("b", 2), ("c", 3)]):
        found = effort.slow_after(1, values)
        assert found[0] == values[0]
        assert [param.values for param in found[1:]] == [tuple(value) for value in values[1:]]
        assert all([mark.name for mark in param.marks] == ["slow"] for param in found[1:])
    assert effort.slow_after(5, range(3)) == [0, 1, 2]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TESTS)))
def test_files_that_are_skipped_without_a_package_are_marked(file: Path) -> None:
    module = ast.parse(file.read_text(encoding="utf-8"))
    code = [ast.unparse(node) for node in module.body if isinstance(node, ast.Assign | ast.Expr)]
    if any("importorskip(" in line for line in code):
        marks = [line for line in code if line.startswith("pytestmark")]
        assert any("mark.extras" in line or "mark.slow" in line for line in marks)
