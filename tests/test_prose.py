"""The list of banned phrases catches what it should, and nothing in plain sentences."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SAMPLES = [
    "Between what amounts the outcomes stand.",
    "So many steps are planned that the rest is small.",
    "A node that is none.",
    "Of the draws; the same seed, the same episodes.",
    "A row is safe only if its dearest bin is.",
    "It cannot break a limit any more, whatever he does.",
    "What is in the house",
    "The rooms",
    "Policies that keep a budget, under no luck.",
    "The two below Solvent's line are baselines.",
    "Amounts that are of no account.",
    "A policy that is never over.",
    "# never\n    # over, in a comment",
]


@pytest.fixture(scope="module")
def prose() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / ".ci" / "prose.py"))


@pytest.mark.parametrize("sample", SAMPLES)
def test_sample_is_caught(
    prose: dict[str, Any], sample: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(sample)
    assert prose["main"]([str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith(f"{page}:1: ")


def test_plain_sentences_pass(prose: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.md").write_text(
        "The policy is never over budget, at any step, under any outcome.\nIt has no room left."
    )
    assert prose["main"]([str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""


def test_line_of_a_later_phrase(prose: dict[str, Any]) -> None:
    (hit,) = prose["hits"]("One.\nTwo.\nThe rooms.\n")
    assert (hit.line, hit.found, hit.instead) == (3, "rooms", "packages")


def test_hidden_folders_of_tools_are_skipped(prose: dict[str, Any], tmp_path: Path) -> None:
    for name in ("__pycache__/a.py", "golden/b.txt", "test_c.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("rooms")
    assert list(prose["files"]([str(tmp_path)])) == []
