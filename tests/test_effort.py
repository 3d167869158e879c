"""Shares of random problems, and the marks by which `make test-slow` selects tests."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import effort

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("test_*.py"))


def test_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "everything", False)
    assert [effort.some(count) for count in (1, effort.LEAST, 1000)] == [1, effort.LEAST, 1000 // effort.SHARE]
    assert effort.draws(1000).max_examples == 1000 // effort.SHARE
    slow = [seed for seed in effort.seeds(1000) if not isinstance(seed, int)]
    assert len(slow) == 1000 - 1000 // effort.SHARE
    assert all([mark.name for mark in param.marks] == ["slow"] for param in slow)
    monkeypatch.setattr(effort, "everything", True)
    assert effort.some(1000) == effort.draws(1000).max_examples == 1000


def test_all_but_the_first_values_are_slow() -> None:
    for values in ("abc", [("a", 1), ("b", 2), ("c", 3)]):
        found = effort.first(1, values)
        assert found[0] == values[0]
        assert [param.values for param in found[1:]] == [tuple(value) for value in values[1:]]
        assert all([mark.name for mark in param.marks] == ["slow"] for param in found[1:])
    assert effort.first(5, range(3)) == [0, 1, 2]


def test_tests_that_draw_a_share_are_recognized() -> None:
    @given(st.integers())
    def by_hypothesis(number: int) -> None:
        assert number == number

    def by_some() -> None:
        assert effort.some(5)

    def by_everything() -> None:
        assert effort.everything

    def neither() -> None:
        assert effort.few(5)

    assert [effort.draws_a_share(test) for test in (by_hypothesis, by_some, by_everything)] == [True] * 3
    assert not effort.draws_a_share(neither)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TESTS)))
def test_nothing_is_left_out_with_slow_tests(file: Path) -> None:
    """Shares are used in tests, where `conftest.py` recognizes them, and modules that are skipped are marked."""
    module = ast.parse(file.read_text(encoding="utf-8"))
    outside = [node for node in module.body if not getattr(node, "name", "").lower().startswith("test")]
    shares = {"some", "effort.some", "effort.everything"}
    used = {
        ast.unparse(each) for node in outside for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)
    }
    assert used.isdisjoint(shares)
    code = [ast.unparse(node) for node in module.body if isinstance(node, ast.Assign | ast.Expr)]
    if any("importorskip(" in line for line in code):
        marks = [line for line in code if line.startswith("pytestmark")]
        assert any("mark.extras" in line or "mark.slow" in line for line in marks)
