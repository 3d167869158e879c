"""Every Python block of the README and the documentation runs, and prints what it says it prints."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.findall(page.read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, f"{page.name}", "exec"), namespace)
        expected = re.findall(r"^# ?> ?(.*)$", block, re.M)
        if expected:
            assert [line.rstrip() for line in printed.getvalue().splitlines()] == [e.rstrip() for e in expected]


def test_there_are_blocks_to_run() -> None:
    assert sum(len(BLOCK.findall(page.read_text())) for page in PAGES) > 10


def test_readme_says_what_its_screen_of_python_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = BLOCK.findall((ROOT / "README.md").read_text())
    exec(compile(block, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == ["optimal 1.7", "5/2", "True 0.0", "go", "3/2"]
    assert "found" in lines[-1]
    assert "7" in lines[-1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
