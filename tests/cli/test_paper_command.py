"""`solvent paper`: figures, rows that are kept, and how it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from shell import mask, run

from solvent.cli.completion import complete_figure
from solvent.experiments import paper


@pytest.fixture
def here(plain_terminal: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_figure_is_made_and_told(here: Path) -> None:
    done = run("solvent paper precision --quick --jobs 1 --out figures")
    assert (done.code, done.err) == (0, "")
    lines = mask(done.out).splitlines()
    assert lines[0] == "precision: costs truncated to k decimals (lem: precision)"
    assert lines[1].startswith("  shows  at H = 6 the plain reduction has ")
    assert "  wrote  figures/precision.csv, figures/precision.png, figures/precision.json" in lines
    assert "  from   36 rows, in #.## s" in lines
    assert lines[-1] == "  total  1 figure in #.## s"
    names = {"precision.csv", "precision.png", "precision.json"}
    assert {path.name for path in (here / "figures").iterdir()} == names

    rows = (here / "figures" / "precision.csv").read_bytes()
    picture = (here / "figures" / "precision.png").read_bytes()
    again = run("solvent paper precision --quick --jobs 1 --out figures --json")
    (figure,) = again.json["figures"]
    assert figure["rows"] == 36
    assert figure["finding"] in " ".join(done.out.split())
    assert again.json["claims"] is None
    assert (here / "figures" / "precision.csv").read_bytes() == rows  # nothing was measured again
    assert (here / "figures" / "precision.png").read_bytes() == picture

    assert run("solvent paper precision --quick --jobs 1 --out figures --fresh").code == 0
    assert (here / "figures" / "precision.csv").read_bytes() != rows  # times differ


def test_an_unknown_figure(here: Path) -> None:
    done = run("solvent paper vale")
    assert done.code == 2
    assert done.err == (
        "error: figure\n"
        "  expected  one of value, scale, approximation, never-over, precision, far, average, smoothed\n"
        "  found     'vale'\n"
        "  hint      did you mean 'value'?\n"
    )
    assert not (here / "solvent-paper").exists()


def test_no_processes_at_all(here: Path) -> None:
    done = run("solvent paper --quick --jobs 0")
    assert done.code == 2
    assert done.err == "error: jobs\n  expected  an integer of at least 1\n  found     0\n"


def test_a_folder_that_is_none(here: Path) -> None:
    (here / "file").write_text("")
    done = run("solvent paper far --quick --jobs 1 --out file")
    assert done.code == 2
    assert done.err.startswith("error: file\n  expected  a folder\n  found     a file\n")


def test_rows_of_something_else_are_left_alone(here: Path) -> None:
    (here / "far.csv").write_text("mine,yours\n1,2\n")
    done = run("solvent paper far --quick --jobs 1 --out .")
    assert done.code == 2
    assert done.err.startswith("error: far.csv, line 1\n  expected  the columns solvent,method,horizon,")
    assert "--fresh" in done.err
    assert (here / "far.csv").read_text() == "mine,yours\n1,2\n"


def test_interrupted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("unreachable")

    monkeypatch.setattr(paper, "run", slow)
    done = run("solvent paper --quick --out figures")
    assert done.code == 130
    assert done.out == ""
    assert done.err == (
        "interrupted: measurements so far are saved in figures; the same command continues from there\n"
    )
    assert run("solvent paper --quick --out figures --json").json["exit_code"] == 130


def test_every_figure_is_offered() -> None:
    assert [name for name, _ in complete_figure("")] == list(paper.ALL)
    assert [name for name, _ in complete_figure("ne")] == ["never-over"]
