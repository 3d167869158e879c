"""docs/cli.md: every command in it runs, and its tables of JSON fields are complete."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from shell import ROOT, run

from solvent.cli import demo

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
LINES = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)
    for line in block.splitlines()
    if line.strip()
]


def test_there_are_lines_to_run() -> None:
    assert len(LINES) >= 20
    assert all(line.startswith("solvent ") for line in LINES)
    commands = re.findall(r"^\| `solvent (\w+)", PAGE, re.M)
    assert {line.split()[1] for line in LINES} == set(commands)


@pytest.mark.slow
def test_every_line_runs(plain_terminal: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "_EPISODES", 2000)
    for line in LINES:
        command, _, remark = line.partition("  # ends with ")
        done = run(command)
        assert done.code == int(remark or 0), f"{line}\n{done.err}"
        assert done.err == ""
        if "--json" in command:
            json.loads(done.out)


def test_the_error_on_the_page_is_the_one_you_get(folder: Path) -> None:
    (block,) = re.findall(r"^```\n(error: .*?)^```$", PAGE, re.M | re.S)
    assert run("solvent solve delivery-van.yaml --budget feul=30").err == block


def test_the_fields_of_json_are_those_on_the_page(van: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_EPISODES", 2000)
    table = PAGE.split("| command | fields |")[1].split("\n\n")[0]
    fields = {
        row[0]: set(re.findall(r"`(\w+)`", row[1])) for row in re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.M)
    }
    lines = {
        "info": "delivery-van.yaml",
        "solve": "delivery-van.yaml",
        "frontier": "delivery-van.yaml --max-budget 10",
        "levels": "delivery-van.yaml --capacity 10",
        "policy": "delivery-van.yaml van.policy",
        "verify": "delivery-van.yaml van.policy",
        "simulate": "delivery-van.yaml van.policy --episodes 10",
        "compare": "covering.yaml",
        "report": "covering.yaml --episodes 10",
        "learn": "delivery-van.yaml --max-episodes 10",
        "convert": "delivery-van.yaml van.npz",
        "examples": "",
        "demo": "",
        "paper": "precision --quick --jobs 1",
        "warmup": "",
    }
    assert set(fields) == set(lines)
    for command, arguments in lines.items():
        record = run(f"solvent {command} {arguments} --json").json
        assert set(record) == fields[command] | {"command", "version"}, command
    solved = run("solvent solve delivery-van.yaml --json").json
    for field in solved["stats"]:
        assert f"`{field}`" in PAGE
