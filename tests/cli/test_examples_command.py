"""`solvent examples`, and names of examples in place of model files."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import run

from solvent import examples


@pytest.fixture
def empty(plain_terminal: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_list_has_every_example(empty: Path) -> None:
    done = run("solvent examples")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines()] == list(examples.names())
    listed = run("solvent examples --json").json["examples"]
    assert listed == {name: examples.summary(name) for name in examples.names()}
    assert list(empty.iterdir()) == []


def test_files_are_copied_as_they_are(empty: Path) -> None:
    (empty / "models").mkdir()
    done = run("solvent examples drone dose --into models --json")
    assert done.code == 0
    assert set(done.json["written"]) == {"drone", "dose"}
    for name in ("drone", "dose"):
        assert (empty / "models" / f"{name}.yaml").read_bytes() == examples.path(name).read_bytes()
    assert run("solvent examples robot").out.startswith("wrote robot.yaml (")
    assert (empty / "robot.yaml").read_bytes() == examples.path("robot").read_bytes()


def test_existing_files_are_not_replaced(empty: Path) -> None:
    (empty / "drone.yaml").write_text("mine")
    done = run("solvent examples robot drone")
    assert done.code == 2
    assert "found     'drone.yaml'\n  hint      remove it, or choose another folder" in done.err
    assert [path.name for path in empty.iterdir()] == ["drone.yaml"]
    assert (empty / "drone.yaml").read_text() == "mine"


def test_folders_that_do_not_exist_are_refused(empty: Path) -> None:
    done = run("solvent examples drone --into nowhere")
    assert done.code == 2
    assert "mkdir -p nowhere" in done.err


def test_unknown_names_are_refused(empty: Path) -> None:
    done = run("solvent examples robt")
    assert done.code == 2
    assert "expected  one of 'campaign', 'cash-line'" in done.err
    assert "did you mean 'robot'?" in done.err


@pytest.mark.parametrize("line", ["info {}", "solve {}", "levels {} --capacity 30", "convert {} van.npz"])
def test_a_name_stands_for_the_file(line: str, empty: Path) -> None:
    by_name = run(f"solvent {line.format('delivery-van')} --quiet")
    assert by_name.code == 0, by_name.err
    assert run("solvent examples delivery-van").code == 0
    (empty / "van.npz").unlink(missing_ok=True)
    by_file = run(f"solvent {line.format('delivery-van.yaml')} --quiet")
    assert by_name.transcript().splitlines()[1:] == by_file.transcript().splitlines()[1:]


def test_learn_accepts_a_name(empty: Path) -> None:
    assert run("solvent learn cash-line --max-episodes 5 --json").json["name"] == "cash-line"


def test_a_file_comes_before_an_example(empty: Path) -> None:
    (empty / "drone").write_text("not a model")
    done = run("solvent info drone")
    assert done.code == 2
    assert "found     no ending" in done.err


def test_a_folder_does_not_hide_an_example(empty: Path) -> None:
    (empty / "drone").mkdir()
    assert run("solvent info drone").code == 0


@pytest.mark.parametrize(
    ("name", "hint"), [("delivery-vn", "did you mean 'delivery-van'?"), ("x", "solvent examples lists the examples")]
)
def test_a_name_that_is_no_example(name: str, hint: str, empty: Path) -> None:
    done = run(f"solvent solve {name}")
    assert done.code == 2
    assert f"error: {name}\n  expected  a file ending in " in done.err
    assert ", or the name of an example\n  found     no such file\n" in done.err
    assert f"hint      {hint}" in done.err


def test_an_example_is_not_overwritten(empty: Path) -> None:
    before = examples.path("drone").read_bytes()
    assert run(["solvent", "convert", "drone", examples.path("drone")]).code == 2
    assert examples.path("drone").read_bytes() == before
