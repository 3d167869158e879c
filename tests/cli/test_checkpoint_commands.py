"""`--checkpoint` of solve, frontier and verify: the same command goes on, also after Ctrl-C and SIGTERM."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from shell import run

import solvent
from solvent.model import instances

TIMES = ("time", "seconds", "peak_bytes", "written")


def without_times(record: Any) -> Any:
    """Return a record without what differs from run to run."""
    if isinstance(record, dict):
        return {key: without_times(value) for key, value in record.items() if key not in TIMES}
    return [without_times(each) for each in record] if isinstance(record, list) else record


@pytest.mark.parametrize(
    "line",
    [
        "solve delivery-van.yaml",
        "solve delivery-van.yaml --method reduction",
        "solve delivery-van.yaml --gap 0.01",
        "frontier delivery-van.yaml",
        "frontier drone.yaml -r battery -r risk --ignore-limits",
        "verify delivery-van.yaml van.policy --budget fuel=20",
    ],
)
def test_the_same_command_gives_the_same_answer(van: Path, line: str) -> None:
    whole = run(f"solvent {line} --json")
    saved = run(f"solvent {line} --json --checkpoint run.ckpt --checkpoint-every 0")
    again = run(f"solvent {line} --json --checkpoint run.ckpt")
    assert whole.code == saved.code == again.code
    assert without_times(whole.json) == without_times(saved.json) == without_times(again.json)
    assert (van / "run.ckpt" / "checkpoint.json").exists()


def test_mistakes(van: Path) -> None:
    run("solvent solve delivery-van.yaml --checkpoint run.ckpt")
    other = run("solvent solve delivery-van.yaml --budget 20 --checkpoint run.ckpt")
    assert other.code == 2
    assert "run.ckpt, budget" in other.err
    assert "remove the folder to begin anew" in " ".join(other.err.split())
    assert run("solvent frontier delivery-van.yaml --checkpoint run.ckpt").code == 2
    assert run("solvent solve delivery-van.yaml --checkpoint delivery-van.yaml").code == 2
    assert "--checkpoint-every" in run("solvent solve delivery-van.yaml --checkpoint c --checkpoint-every -1").err
    assert (van / "delivery-van.yaml").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_once_more(tmp_path: Path, number: int) -> None:
    model = instances.random(60, 4, horizon=60, resources=2, cost_range=(0, 9), budget=430, seed=1)
    model.save(tmp_path / "m.npz")
    line = [sys.executable, "-m", "solvent", "solve", "m.npz", "--method", "grid", "--json"]
    line += ["--checkpoint", "run.ckpt", "--checkpoint-every"]

    def steps() -> list[int]:
        file = tmp_path / "run.ckpt" / "checkpoint.json"
        sections = json.loads(file.read_text())["sections"].values() if file.exists() else []
        return [each["state"]["step"] for each in sections]

    process = subprocess.Popen([*line, "0.01"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not steps() or steps()[0] == 60:
        time.sleep(0.02)
        assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    if process.returncode == 0:  # it was faster
        return
    assert process.returncode == 128 + number
    assert "the same command goes on from the checkpoint run.ckpt" in err
    assert json.loads(out)["interrupted"] is True
    before = steps()
    assert before[0] < 60
    process = subprocess.Popen([*line, "1000"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=120)
    assert json.loads(out)["value"] == solvent.solve(model, method="grid").value
    assert steps() == [0]
