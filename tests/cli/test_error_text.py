"""Errors on the command line: Python arguments in messages become options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import solvent
from solvent.cli.text.errors import _PHRASES, in_shell

SOURCES = [path for path in Path(solvent.__file__).parent.rglob("*.py") if "cli" not in path.parts[-3:-1]]


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("raise max_nodes=", "raise --max-nodes"),
        ("epsilon= with it, an amount", "--epsilon with it, an amount"),
        ("with strict=True it never exceeds it", "with --strict it never exceeds it"),
        ("use approximation='additive'", "use --approximation additive"),
        ("memory_limit", "--memory-limit"),
        ("the memory limit of 2 MB", "the memory limit of 2 MB"),
        ("'fuel=3' twice", "'fuel=3' twice"),
    ],
)
def test_arguments_become_options(python: str, shell: str) -> None:
    assert in_shell(python) == shell


def test_every_phrase_occurs_in_a_message() -> None:
    """A message that is reworded must be reworded in the table as well."""
    joined = re.sub(r"""["']\s*\n\s*f?["']""", "", "\n".join(path.read_text(encoding="utf-8") for path in SOURCES))
    missing = [phrase for phrase in _PHRASES if phrase not in joined.replace("\\'", "'")]
    assert missing == []
