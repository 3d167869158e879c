"""`solvent report`: files, codes and messages; the page itself is tested in tests/report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shell import run

from solvent.report import page

SMALL = """\
solvent: 1
name: small
horizon: 2
start: here
resources: [fuel]
budget: {fuel: 3}
rows:
  - state: here
    action: go
    reward: 2
    outcomes:
      - {probability: 1/2, next: here, cost: {fuel: 1}}
      - {probability: 1/2, next: here, cost: {fuel: 2}}
  - state: here
    action: rest
    outcomes:
      - {probability: 1, next: here, cost: {fuel: 1/2}}
"""


@pytest.fixture(autouse=True)
def small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small model, in which pages are made without the charting library, which takes seconds."""
    monkeypatch.setattr(page, "chart_script", lambda: "/* library */")
    (folder / "small.yaml").write_text(SMALL)
    return folder


def test_a_page_is_written(small: Path) -> None:
    done = run("solvent report small.yaml -n 100")
    assert done.code == 0
    assert done.out.startswith("optimal: never over budget; no safe policy earns more")
    assert "wrote" in done.out
    assert "report report.html (" in done.out
    assert (small / "report.html").read_text().startswith("<!DOCTYPE html>")
    again = run("solvent report small.yaml -n 100 -o report.html --json")
    assert again.code == 0
    assert again.json["command"] == "report"
    assert again.json["written"]["report"]["replaced"] is True
    assert again.json["value"] == 3.0


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("--budget fuel=1/3", 1, "infeasible: no policy keeps this budget"),
        ("--approximation additive --epsilon 3", 5, "relaxed: earns at least as much"),
        ("--method reduction --time-limit 1e-9", 3, "limit: stopped at a limit"),
        ("--gap 0.1", 0, ""),
    ],
)
def test_every_status_has_a_page_and_its_code(options: str, code: int, said: str, small: Path) -> None:
    done = run(f"solvent report small.yaml {options} -n 100 --delta 0.1 --trajectories 1 --seed 4 -o page.html")
    assert done.code == code, done.err
    assert said in done.out
    assert "report page.html (" in done.out
    assert "seed 4" in (small / "page.html").read_text()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "small.yaml -o page.txt",
            "error: --out page.txt\n  expected  a name ending in .html or .htm\n  found     '.txt'",
        ),
        ("small.yaml -o nowhere/page.html", "no folder 'nowhere'"),
        ("small.yaml -n 0", "error: --episodes\n  expected  a whole number of at least 1\n  found     0"),
        ("small.yaml --delta 3", "error: --delta"),
        ("small.yaml --max-budget water=3", "a limited resource ('fuel')"),
        ("zzz.yaml", "no such file"),
    ],
)
def test_mistakes(line: str, said: str, small: Path) -> None:
    done = run(f"solvent report {line}")
    assert done.code == 2
    assert said in done.err
    assert not list(small.glob("*.html"))


def test_the_largest_budget_of_the_slider(small: Path) -> None:
    assert run("solvent report small.yaml --max-budget 4 --budget 2 -n 10 -q").code == 0
    assert '"text":"4"' in (small / "report.html").read_text()


def test_a_missing_extra_is_named(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    done = run("solvent report small.yaml")
    assert done.code == 2
    assert 'pip install "solvent[report]"' in done.err
    assert not list(small.glob("*.html"))


def test_discounted_models_are_refused(small: Path) -> None:
    text = SMALL.replace("horizon: 2", "horizon: null\ndiscount: 0.5")
    (small / "forever.yaml").write_text(text)
    done = run("solvent report forever.yaml")
    assert done.code == 2
    assert "a discounted model with an infinite horizon" in done.err
