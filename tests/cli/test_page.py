"""docs/cli.md: every command in it runs, and its tables of JSON fields are complete."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from shell import ROOT, run

from effort import slow_after
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


#: Fields of each command, by the table on the page, and arguments of each; the last four take a second each.
TABLE = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.split("| command | fields |")[1].split("\n\n")[0], re.M)
FIELDS = {command: set(re.findall(r"`(\w+)`", fields)) for command, fields in TABLE}
ARGUMENTS = {
    "info": "delivery-van.yaml",
    "solve": "delivery-van.yaml",
    "frontier": "delivery-van.yaml --max-budget 10",
    "levels": "delivery-van.yaml --capacity 10",
    "policy": "delivery-van.yaml van.policy",
    "verify": "delivery-van.yaml van.policy",
    "simulate": "delivery-van.yaml van.policy --episodes 10",
    "learn": "delivery-van.yaml --max-episodes 10",
    "convert": "delivery-van.yaml van.npz",
    "examples": "",
    "warmup": "",
    "compare": "covering.yaml",
    "report": "covering.yaml --episodes 10",
    "demo": "",
    "paper": "precision --quick --jobs 1",
}


@pytest.mark.parametrize("command", slow_after(len(ARGUMENTS) - 4, ARGUMENTS))
def test_the_fields_of_json_are_those_on_the_page(command: str, van: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_EPISODES", 2000)
    record = run(f"solvent {command} {ARGUMENTS[command]} --json").json
    assert set(record) == FIELDS[command] | {"command", "version"}


def test_all_fields_are_on_the_page(folder: Path) -> None:
    assert set(FIELDS) == set(ARGUMENTS)
    solved = run("solvent solve delivery-van.yaml --json").json
    for field in solved["stats"]:
        assert f"`{field}`" in PAGE
