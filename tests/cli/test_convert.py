"""`solvent convert`: between formats, and from a Python function, which runs the user's code on request only."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from shell import run

import solvent
from solvent.cli.functions import read_settings, split_source
from solvent.formats.registry import suffixes_text

GOOD = """
import solvent
from beside import PRICE

print("hello from the file")


def make_model(size=3, price=PRICE, title="walk"):
    print("hello from the function")
    import beside

    def actions(state):
        return ["go"] if state < size else []

    def outcomes(state, action):
        return [(1, state + 1, price)]

    return solvent.CMDP.from_function(
        0, actions, outcomes, 9, resources=[solvent.Resource("x", floor=0)], budget=9, must_end_in=[size], name=title
    )


def needs(size, *, slip):
    return make_model(size)


def nothing():
    pass


def builder():
    return solvent.CMDP.builder(horizon=1, start=0)


def wrong_model():
    return solvent.CMDP.builder(horizon=0, start=0)


def raises():
    return 1 / 0


def leaves():
    raise SystemExit(0)


def limited():
    raise solvent.LimitError("too long")


def positional(size, /):
    return make_model(size)


def anything(**options):
    return make_model(**options)


constant = 5

if __name__ == "__main__":
    raise RuntimeError("this is not the main program")
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "walk.py").write_text(GOOD)
    (folder / "beside.py").write_text("PRICE = '1/3'\n")
    return folder / "walk.py"


def test_a_function_becomes_a_file(source: Path, tmp_path: Path) -> None:
    search = list(sys.path)
    done = run("solvent convert models/walk.py:make_model walk.yaml")
    assert done.code == 0
    assert done.out.startswith("wrote walk.yaml (")
    assert "hello from the file" in done.err
    assert "hello from the function" in done.err
    model = solvent.load_model(tmp_path / "walk.yaml")
    assert model.states == (0, 1, 2, 3)
    assert model.floors == (0,)
    assert [str(c["x"]) for c in (model.outcomes(0)[0].cost,)] == ["1/3"]
    assert sys.path == search
    assert "solvent_model_source" not in sys.modules
    sys.modules.pop("beside", None)


def test_every_format_can_be_written_from_every_source(source: Path, tmp_path: Path) -> None:
    assert run("solvent convert models/walk.py:make_model walk.json").code == 0
    models = [solvent.load_model("walk.json")]
    kinds = ["json", "yaml", "yml", "npz", "json"]
    for kind, after in pairwise(kinds):
        assert run(f"solvent convert walk.{kind} next.{after}").code == 0
        Path(f"next.{after}").rename(f"walk.{after}")
        models.append(solvent.load_model(f"walk.{after}"))
    assert all(each == models[0] for each in models)


def test_json_is_not_disturbed_by_what_the_code_prints(source: Path) -> None:
    done = run("solvent convert models/walk.py:make_model walk.npz --json")
    record = json.loads(done.out)
    assert record["fingerprint"] == solvent.load_model("walk.npz").fingerprint
    assert record["written"]["model"]["path"] == "walk.npz"


def test_arguments(source: Path) -> None:
    line = "solvent convert models/walk.py:make_model walk.yaml --set size=5 --set price=0.25 --set 'title=a b'"
    assert run(line).code == 0
    model = solvent.load_model("walk.yaml")
    assert (model.n_states, model.name, str(model.outcomes(0)[0].cost["x"])) == (6, "a b", "1/4")
    assert run("solvent convert models/walk.py:needs walk.yaml --set size=2 --set slip=true").code == 0
    assert run("solvent convert models/walk.py:anything walk.yaml --set size=2").code == 0
    assert solvent.load_model("walk.yaml").n_states == 3


def test_values_are_numbers_or_text() -> None:
    given = ["a=3", "b=-0.5", "c=1/3", "d=", "e=true", "f=[1]", "g=NaN", "h=none", "i=x=y", "j=1e3", "k={}"]
    assert read_settings(given) == {
        **{"a": 3, "b": -0.5, "c": "1/3", "d": "", "e": True, "f": "[1]"},
        **{"g": "NaN", "h": None, "i": "x=y", "j": 1000.0, "k": "{}"},
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "models/wolk.py:make_model",
            "models/wolk.py: expected a Python file, found no such file; did you mean 'walk.py'?",
        ),
        ("nowhere/walk.py:make_model", "nowhere/walk.py: expected a Python file, found no such file"),
        ("models.py:make_model", "models.py: expected a Python file, found no such file"),
        ("folder.py:make_model", "folder.py: expected a Python file that can be read, found Is a directory"),
        (
            "models/walk.py:make_modle",
            "models/walk.py:make_modle: expected a function that returns a model, found no such function; did you mean "
            "'make_model'?",
        ),
        (
            "models/walk.py:",
            "models/walk.py:: expected the name of a function, found ''; the file defines make_model, needs, nothing, "
            "builder, wrong_model, raises",
        ),
        ("models/walk.py:a.b", "models/walk.py:: expected the name of a function, found 'a.b'; the file defines"),
        ("models/walk.py:constant", "models/walk.py:constant: expected a function that returns a model, found 5"),
        (
            "models/walk.py:nothing",
            "models/walk.py:nothing: expected a function that returns a CMDP or a DiscountedCMDP, found nothing",
        ),
        ("models/walk.py:builder", "; return builder.build()"),
        (
            "models/walk.py:wrong_model",
            "models/walk.py:wrong_model: horizon: expected a whole number of at least 1, found 0",
        ),
        (
            "models/walk.py:raises",
            "models/walk.py:raises: expected a function that returns a model, found ZeroDivisionError: division by "
            "zero (line 40); --debug shows the traceback",
        ),
        ("models/walk.py:leaves", "expected a function that returns a model, found SystemExit: 0 (line 44)"),
        (
            "models/walk.py:needs",
            "models/walk.py:needs: expected a value of its argument 'size', found none; --set size=...",
        ),
        ("models/walk.py:needs --set size=1", "expected a value of its argument 'slip', found none; --set slip=..."),
        (
            "models/walk.py:make_model --set siez=1",
            "--set siez: expected an argument of the function (size, price, title), found an unknown one; did you mean "
            "'size'?",
        ),
        ("models/walk.py:positional --set size=1", "--set size: expected an argument of the function (none)"),
        ("models/walk.py:positional", "expected a function with named arguments, found missing a required"),
        ("models/walk.py:make_model --set size", "--set size: expected NAME=VALUE, such as size=6, found 'size'"),
        (
            "models/walk.py:make_model --set size=1 --set size=2",
            "--set: expected each argument once, found 'size' twice",
        ),
        ("models/bad.py:make_model", "models/bad.py: expected valid Python, found invalid syntax (line 2)"),
        ("models/null.py:make_model", "models/null.py: expected valid Python, found "),
        (
            "models/fails.py:make_model",
            "models/fails.py: expected a Python file that runs, found ModuleNotFoundError: No module named "
            "'nowhere_to_be' (line 1); --debug shows the traceback",
        ),
        (
            "models/walk.py",
            f"models/walk.py: expected a file ending in {suffixes_text(usual=False)}, found '.py'; loading never runs "
            "code; to write the model of a function to a file, run: solvent convert "
            "models/walk.py:make_model model.yaml",
        ),
        ("models/model.yaml --set size=2", "--set: expected a function as the source, such as model.py:make_model"),
    ],
)
def test_mistakes(source: Path, arguments: str, message: str, tmp_path: Path) -> None:
    (source.parent / "bad.py").write_text("x = 1\ndef make_model(:\n")
    (source.parent / "null.py").write_bytes(b"x = 1\0")
    (source.parent / "fails.py").write_text("import nowhere_to_be\n")
    (tmp_path / "folder.py").mkdir()
    done = run(f"solvent convert {arguments.split()[0]} out.yaml --json {' '.join(arguments.split()[1:])}")
    assert done.code == 2, done.err
    assert message in done.json["error"]["message"]
    assert not (tmp_path / "out.yaml").exists()


def test_the_traceback_is_shown_on_request(source: Path) -> None:
    done = run("solvent convert models/walk.py:raises out.yaml --debug")
    assert "return 1 / 0" in done.err
    assert "Traceback" not in run("solvent convert models/walk.py:raises out.yaml").err


def test_a_limit_of_the_code_is_reported_as_one(source: Path) -> None:
    assert run("solvent convert models/walk.py:limited out.yaml").code == 3


def test_a_failure_keeps_the_old_file(source: Path) -> None:
    assert run("solvent convert models/walk.py:make_model walk.yaml").code == 0
    before = Path("walk.yaml").read_bytes()
    assert run("solvent convert models/walk.py:raises walk.yaml").code == 2
    assert Path("walk.yaml").read_bytes() == before


def test_a_file_of_that_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert split_source("a.py:b") == (Path("a.py"), "b")
    Path("a.py:b").write_text("x")
    assert split_source("a.py:b") is None


@pytest.mark.parametrize("name", ["walk.py", "walk.py:make_model", "WALK.PY"])
def test_loading_never_runs_code(tmp_path: Path, name: str) -> None:
    trace = tmp_path / "ran"
    (tmp_path / name).write_text(f"open({str(trace)!r}, 'w')")
    with pytest.raises(solvent.ModelError, match=r"loading never runs code; .* run: solvent convert .*model.yaml$"):
        solvent.load_model(tmp_path / name)
    for command in ("info", "solve", "frontier"):
        done = run(["solvent", command, tmp_path / name])
        assert done.code == 2
        assert "loading never runs code" in " ".join(done.err.split())
    assert not trace.exists()
