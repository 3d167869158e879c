"""The demo: its sections in order, its numbers, and files that it must not replace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shell import EXAMPLES, run

import solvent
from solvent.cli import demo

WRITTEN = ["delivery-van.yaml", "demo-files.json", "frontier.csv", "frontier.png", "spending.png", "van.policy"]


@pytest.fixture(autouse=True)
def fewer_days(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "sections" not in request.node.name:
        monkeypatch.setattr(demo, "_EPISODES", 4000)


@pytest.fixture
def empty(plain_terminal: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_sections(empty: Path) -> None:
    done = run("solvent demo")
    assert done.code == 0
    assert done.err == ""
    titles = ["The problem", "A budget kept on average", "A budget never exceeded", "What another liter", "Files ─"]
    places = [done.out.index(title) for title in titles]
    assert places == sorted(places)
    assert "How much can it earn without ever running dry?" in done.out
    assert "breaks the limit of fuel after step" in done.out
    assert "optimal: never over budget" in done.out
    assert "0 of 100,000 days run dry" in done.out
    assert "▲ least budget 0" in done.out
    assert sorted(path.name for path in (empty / "solvent-demo").iterdir()) == WRITTEN
    for name in WRITTEN:
        assert f"solvent-demo/{name}" in done.out


def test_its_numbers_are_true(empty: Path) -> None:
    record = run("solvent demo --json --into here").json
    model = solvent.load_model(EXAMPLES / "delivery-van.yaml")
    solution = solvent.solve(model)
    assert record["never_over"]["value"] == solution.value
    assert record["never_over"]["feasible"] is True
    assert record["never_over"]["violations"] == 0
    average = record["on_average"]
    plan = solvent.baselines.expectation(model)
    report = solvent.verify(model, plan.policy)
    assert average["value"] == pytest.approx(plan.value)
    assert average["violation_probability"] == pytest.approx(report.violation_probability)
    chance, days = average["violation_probability"], average["episodes"]
    assert abs(average["violations"] / days - chance) < 5 * (chance * (1 - chance) / days) ** 0.5
    assert 0.3 < chance < 0.7
    assert record["frontier"]["least_budget"] == "0"
    written = solvent.load_model(empty / "here" / "delivery-van.yaml")
    assert written == model
    assert solvent.load_policy(empty / "here" / "van.policy", written) == solution.policy
    assert (empty / "here" / "frontier.png").read_bytes().startswith(b"\x89PNG")
    lines = (empty / "here" / "frontier.csv").read_text().splitlines()
    assert len(lines) == 1 + len(record["frontier"]["points"])


@pytest.mark.slow
def test_the_suggested_commands_work(empty: Path) -> None:
    told = run("solvent demo").out.splitlines()
    lines = [line.strip() for line in told if line.startswith("  solvent ")]
    assert len(lines) == 3
    assert [run(line).code for line in lines] == [0, 0, 0]


@pytest.mark.slow
def test_it_may_be_run_twice(empty: Path) -> None:
    assert run("solvent demo --quiet").code == 0
    again = run("solvent demo --json")
    assert again.code == 0
    assert all(file["replaced"] for file in again.json["written"].values())


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != "demo-files.json"])
def test_files_of_others_are_left_alone(name: str, empty: Path) -> None:
    folder = empty / "solvent-demo"
    folder.mkdir()
    (folder / name).write_text("mine")
    done = run("solvent demo")
    assert done.code == 2
    assert f"found     a file '{name}' that the demo did not write, or that was changed since" in done.err
    assert "choose another folder" in done.err
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_text() == "mine"


@pytest.mark.slow
def test_what_was_changed_since_is_left_alone(empty: Path) -> None:
    assert run("solvent demo --quiet").code == 0
    file = empty / "solvent-demo" / "delivery-van.yaml"
    file.write_text(file.read_text().replace("fuel: 30", "fuel: 20"))
    mine = file.read_text()
    assert run("solvent demo").code == 2
    assert file.read_text() == mine


@pytest.mark.slow
def test_other_files_in_the_folder_do_no_harm(empty: Path) -> None:
    folder = empty / "notes"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    assert run("solvent demo --into notes --quiet").code == 0
    assert (folder / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("content", ["not json", "[1]", '{"delivery-van.yaml": 3}'])
def test_a_list_that_is_not_one(content: str, empty: Path) -> None:
    folder = empty / "solvent-demo"
    folder.mkdir()
    (folder / "demo-files.json").write_text(content)
    (folder / "van.policy").write_text("mine")
    assert run("solvent demo").code == 2
    assert (folder / "van.policy").read_text() == "mine"


@pytest.mark.parametrize("place", ["file/x", "/proc/here"])
def test_places_where_no_folder_can_be(place: str, empty: Path) -> None:
    (empty / "file").write_text("")
    done = run(f"solvent demo --into {place}")
    assert done.code == 2
    assert f"error: --into {place}\n  expected  a folder that can be created" in done.err


def installed(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the package as after an installation: no repository, an empty home, no compiled kernels."""
    site, home = tmp_path / "site", tmp_path / "home"
    package = Path(solvent.__file__).parent
    shutil.copytree(package, site / "solvent", ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()
    setting = {**os.environ, "PYTHONPATH": str(site), "HOME": str(home), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "solvent", *arguments],
        cwd=home, env=setting, capture_output=True, text=True, check=True,
    )  # fmt: skip


def test_the_package_needs_no_repository(tmp_path: Path) -> None:
    done = installed(tmp_path, "info", "--json", "delivery-van")
    assert json.loads(done.stdout)["model"]["name"] == "delivery-van"
    assert done.stderr == ""


@pytest.mark.slow
def test_the_demo_runs_on_a_fresh_install(tmp_path: Path) -> None:
    done = installed(tmp_path, "demo", "--json")
    assert json.loads(done.stdout)["never_over"]["status"] == "optimal"
    assert sorted(path.name for path in (tmp_path / "home" / "solvent-demo").iterdir()) == WRITTEN
