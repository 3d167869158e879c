"""`--help` loads no heavy module, and shell completion works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from shell import EXAMPLES, ROOT

import solvent
from solvent.cli import main
from solvent.cli.completion import resource_names
from solvent.solvers import registry

HEAVY = ["numpy", "numba", "scipy", "matplotlib", "gymnasium", "torch", "yaml", "pandas"]


def python(code: str) -> str:
    setting = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=setting, check=True, capture_output=True, text=True)
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("line", [["--help"], [], ["--version"]])
def test_help_loads_not_even_pydantic(line: list[str]) -> None:
    code = f"import sys\nfrom solvent.cli import main\nmain({line})\nprint('pydantic' in sys.modules)"
    assert python(code) == "False"


@pytest.mark.parametrize("line", [["--help"], ["solve", "--help"], ["learn", "--help"], ["--version"], ["slove"]])
def test_help_loads_nothing_heavy(line: list[str]) -> None:
    code = f"""
import sys
from solvent.cli import main
main({line})
print([name for name in {HEAVY} if name in sys.modules])
"""
    assert python(code) == "[]"


def asked(words: str, shell: str) -> dict[str, str]:
    """Return the variables by which a shell asks for completions."""
    place = str(len(words.split(" ")) - 1)
    asked = {"COMP_WORDS": words, "COMP_CWORD": place, "_TYPER_COMPLETE_ARGS": words}
    return {"_SOLVENT_COMPLETE": f"complete_{shell}", **asked}


def complete(words: str, folder: Path, shell: str = "bash") -> list[str]:
    """Return the completions of these words, from a process as a shell starts it."""
    setting = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **asked(words, shell)}
    code = "import sys; from solvent.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=setting, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("solvent so", ["solve"]),
        ("solvent s", ["solve", "simulate", "schema"]),
        ("solvent solve --me", ["--method", "--memory-limit"]),
        ("solvent solve drone.yaml --method re", ["reduction"]),
        ("solvent solve drone.yaml --method ", ["auto", *registry.names()]),
        ("solvent solve drone.yaml --approximation ", ["additive", "relative"]),
        ("solvent solve drone.yaml --budget ", ["battery=", "risk="]),
        ("solvent solve drone.yaml --budget ba", ["battery="]),
        ("solvent frontier drone.yaml --resource r", ["risk"]),
        ("solvent frontier drone.yaml --resource risk --resource b", ["battery"]),
        ("solvent frontier drone.yaml --resource risk --max-budget ", ["battery=", "risk="]),
        ("solvent frontier drone.yaml --vary ", ["budget", "remaining"]),
        ("solvent solve drone.yaml --spent r", ["risk="]),
        ("solvent policy drone.yaml x.policy --state n", ["nest"]),
        ("solvent policy nothing.yaml x.policy --state n", []),
        ("solvent policy drone.yaml x.policy --resource b", ["battery"]),
        ("solvent paper va", ["value"]),
        ("solvent paper value --f", ["--fresh"]),
        ("solvent frontier nothing.yaml --resource r", []),
        ("solvent frontier --resource r", []),
        ("solvent learn drone.yaml --budget ba", ["battery="]),
        ("solvent learn drone.yaml --support ", ["known", "learned"]),
        ("solvent learn drone.yaml --bonus t", ["theory"]),
        ("solvent learn drone.yaml --replan d", ["doubling"]),
    ],
)
def test_completion(
    words: str, offered: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in asked(words, "bash").items():
        monkeypatch.setenv(name, value)
    main([])
    shown = capsys.readouterr()
    assert shown.err == ""
    assert sorted(shown.out.split()) == sorted(offered)


def test_completion_by_the_program(folder: Path) -> None:
    assert complete("solvent solve --me", folder) == ["--method", "--memory-limit"]


def test_completion_scripts_can_be_had() -> None:
    # otherwise typer detects the shell from the parent processes, which may be one that it does not support
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    setting = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **named}
    for shell in ("bash", "zsh", "fish"):
        code = "import sys; from solvent.cli import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", code, "--show-completion", shell],
            env=setting, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "_SOLVENT_COMPLETE" in done.stdout


@pytest.mark.parametrize("name", sorted(file.stem for file in EXAMPLES.glob("*.yaml")))
@pytest.mark.parametrize("ending", ["yaml", "json", "npz"])
def test_resources_are_read_off_any_model_file(name: str, ending: str, tmp_path: Path) -> None:
    model = solvent.load_model(EXAMPLES / f"{name}.yaml")
    file = tmp_path / f"model.{ending}"
    model.save(file)
    assert resource_names(file) == list(model.resources)
    assert resource_names(EXAMPLES / f"{name}.yaml") == list(model.resources)


def test_resources_below_each_other(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text("solvent: 1\nresources:\n- fuel  # liters\n\n- 'two words'\nhorizon: 3\n")
    assert resource_names(file) == ["fuel", "two words"]
    file.write_text("horizon: 3\n")
    assert resource_names(file) == []


def test_large_files_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text("resources: [fuel]\n" + "# " + "x" * 4_000_000)
    assert resource_names(file) == []
