"""Runs command lines inside the test process and records their output, with times and sizes masked."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import solvent
from solvent.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLES = Path(solvent.examples.__file__).parent
GOLDEN = Path(__file__).parent / "golden"
#: Set it to rewrite the golden files: UPDATE_GOLDEN=1 pytest tests/cli
UPDATE = "UPDATE_GOLDEN"

_MASKS = [
    (re.compile(r"\d+\.\d\d(\s+)s\b"), r"#.##\1s"),
    (re.compile(r"\([\d,]+ bytes"), "(# bytes"),
    (re.compile(r'"version": "[^"]+"'), '"version": "#"'),
]


@dataclass(frozen=True)
class Run:
    """Output and exit code of a command line."""

    line: str
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def transcript(self) -> str:
        said = "".join(f"! {line}\n" for line in mask(self.err).splitlines())
        return f"$ {self.line}\n{mask(self.out)}{said}=> {self.code}\n"


def mask(text: str) -> str:
    for pattern, mark in _MASKS:
        text = pattern.sub(mark, text)
    return text


def run(line: str | Sequence[str | Path]) -> Run:
    """Run a command line such as "solvent info van.yaml", or its parts, which may be paths with spaces."""
    parts = shlex.split(line) if isinstance(line, str) else [str(part) for part in line]
    program, *arguments = parts
    assert program == "solvent"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return Run(line if isinstance(line, str) else shlex.join(parts), code, out.getvalue(), err.getvalue())


def check_golden(name: str, transcript: str) -> None:
    file = GOLDEN / f"{name}.txt"
    if os.environ.get(UPDATE):
        file.write_text(transcript, encoding="utf-8")
    assert transcript == file.read_text(encoding="utf-8"), f"{file.name} differs; {UPDATE}=1 rewrites it"
