"""Processes that are killed at random moments, started again, and end with the answer of one that was not killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from effort import some

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exact", "layers", "gap", "curve", "surface"])
def test_killed_processes_go_on(kind: str) -> None:
    count = some(12)
    command = [sys.executable, "-m", "bench.kills", "--small", "--kind", kind, "--count", str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = done.stdout.splitlines()[-1].split("|")
    assert int(cells[3]) >= count
    assert cells[-2].strip() == "yes"
