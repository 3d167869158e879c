"""A plain terminal, a folder of one's own with the examples in it, and the policies of the examples."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from shell import EXAMPLES, run


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with all example models in it."""
    for file in EXAMPLES.glob("*.yaml"):
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def van(folder: Path) -> Path:
    """The same folder with a policy for the van's own tank."""
    assert run("solvent solve delivery-van.yaml --out van.policy --quiet").code == 0
    return folder
