"""How runs end: exit codes, Ctrl-C, tracebacks only with --debug, and no partially written files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from shell import ROOT, run

from solvent.cli import command
from solvent.core.interrupt import settle
from solvent.solvers import solve as solving
from solvent.solvers.transforms import gap as certified


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("solvent", 0, ""),
        ("solvent --help", 0, ""),
        ("solvent -h", 0, ""),
        ("solvent --version", 0, ""),
        ("solvent solve", 2, "error: Missing argument"),
        ("solvent slove", 2, "No such command 'slove'. Did you mean 'solve'"),
        ("solvent solve delivery-van.yaml --time-limit soon", 2, "'--time-limit'"),
        ("solvent solve delivery-van.yaml extra", 2, "extra"),
        ("solvent simulate delivery-van.yaml x --episodes many", 2, "'--episodes'"),
        ("solvent solve delivery-van.yaml --out", 2, "--out"),
    ],
)
def test_lines_that_the_parser_ends(line: str, code: int, said: str, folder: Path) -> None:
    done = run(line)
    assert done.code == code
    assert said in done.err
    assert "Traceback" not in done.err
    assert (done.out == "") == bool(said)


COMMANDS = [
    "demo", "examples", "info", "solve", "frontier", "levels", "policy", "verify", "simulate", "compare", "learn",
    "report", "convert", "schema", "paper", "warmup",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str) -> None:
    done = run(f"solvent {command} --help")
    assert done.code == 0
    assert f"Examples:\n    solvent {command}" in done.out
    assert "--json" in done.out
    assert "--debug" in done.out
    assert command in run("solvent --help").out


def test_every_command_of_the_help_is_known() -> None:
    lines = run("solvent --help").out.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == COMMANDS


def test_a_traceback_only_when_asked_for(folder: Path) -> None:
    assert "Traceback" not in run("solvent info zzz.yaml").err
    debug = run("solvent info zzz.yaml --debug")
    assert debug.code == 2
    assert debug.err.startswith("Traceback (most recent call last)")
    assert debug.err.endswith("error: zzz.yaml\n  expected  a model file\n  found     no such file\n")


def test_an_internal_error_is_reported_as_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a slip")

    monkeypatch.setattr(solving, "solve", broken)
    done = run("solvent solve delivery-van.yaml")
    assert done.code == 4
    assert done.err == (
        "error: internal error: ZeroDivisionError: a slip\n"
        "  hint      this is a bug in Solvent: run again with --debug and report the output\n"
    )


def test_too_little_memory_is_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(solving, "solve", greedy)
    done = run("solvent solve delivery-van.yaml --json")
    assert done.code == done.json["exit_code"] == 3
    assert "error: not enough memory" in done.err


def test_interrupted_before_there_was_anything(van: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("unreachable")

    monkeypatch.setattr(solving, "solve", slow)
    before = (van / "van.policy").read_bytes()
    done = run("solvent solve delivery-van.yaml --out van.policy")
    assert done.code == 130
    assert done.out == ""
    assert done.err == "interrupted: no result yet, nothing was written\n"
    assert (van / "van.policy").read_bytes() == before
    assert run("solvent solve delivery-van.yaml --json").json["exit_code"] == 130


def test_interrupted_before_the_command_begins(van: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "Session", interrupted)  # called by typer, which has an exit code of its own
    done = run("solvent info delivery-van.yaml --json")
    assert done.code == done.json["exit_code"] == 130
    assert done.json["interrupted"] is True
    assert done.err == "interrupted\n"


def test_interrupted_with_something_in_hand(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = solving.solve

    def patient(*given: object, **options: object) -> object:
        found = genuine(*given, **options)  # type: ignore[arg-type]
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt as interrupt:
            settle(interrupt)
            return found
        raise AssertionError("unreachable")

    monkeypatch.setattr(solving, "solve", patient)
    done = run("solvent solve delivery-van.yaml --out best.policy")
    assert done.code == 0
    assert done.err == "interrupted: this is the best policy found so far\n"
    assert "wrote   policy best.policy" in done.out
    assert (folder / "best.policy").exists()
    assert run("solvent solve delivery-van.yaml --json").json["interrupted"] is True
    assert run("solvent solve delivery-van.yaml --quiet").err == ""
    assert run("solvent solve delivery-van.yaml --budget fuel=-1").code == 1


def test_interrupted_while_a_gap_closes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = certified._Bracket.close_round

    def close(self: certified._Bracket, nodes: int) -> None:
        real(self, nodes)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(certified._Bracket, "close_round", close)
    done = run("solvent solve campaign.yaml --gap 0.000001 --json --out best.policy")
    assert done.code == 0
    assert done.err == "interrupted: this is the best policy found so far\n"
    assert done.json["interrupted"] is True
    assert done.json["status"] == "feasible"
    assert len(done.json["rounds"]) == 1
    assert done.json["value_lower"] <= done.json["value"] < done.json["value_upper"]
    assert (folder / "best.policy").exists()


def test_interrupted_before_the_first_round_of_a_gap(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        yield 0

    monkeypatch.setattr(certified, "_rounds", none)
    done = run("solvent solve delivery-van.yaml --gap 0.01 --out best.policy")
    assert done.code == 130
    assert done.err == "interrupted: no policy found yet\nnothing was written: there is no policy\n"
    assert done.out.startswith("limit: stopped at a limit before a policy was found\n")
    assert not (folder / "best.policy").exists()


def test_ctrl_c_works_as_before_afterwards(folder: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    run("solvent info delivery-van.yaml")
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("solvent solve delivery-van.yaml --out kept", "kept"),
        ("solvent solve delivery-van.yaml --plot kept.png", "kept.png"),
        ("solvent frontier delivery-van.yaml --csv kept.csv", "kept.csv"),
        ("solvent frontier delivery-van.yaml --plot kept.svg", "kept.svg"),
        ("solvent simulate delivery-van.yaml van.policy --episodes 10 --plot kept.pdf", "kept.pdf"),
        ("solvent convert delivery-van.yaml kept.npz", "kept.npz"),
        ("solvent schema --out kept.json", "kept.json"),
    ],
)
def test_a_disk_that_fills_up_leaves_no_half_file(
    line: str, name: str, van: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (van / name).write_text("what was there before")
    before = sorted(path.name for path in van.iterdir())
    monkeypatch.setattr(os, "replace", full)
    done = run(line)
    assert done.code == 2
    assert done.err == f"error: {name}\n  expected  a place that can be written\n  found     No space left on device\n"
    # what was found is told all the same
    assert (done.out == "") == line.startswith(("solvent convert", "solvent schema"))
    assert "wrote" not in done.out
    assert sorted(path.name for path in van.iterdir()) == before
    assert (van / name).read_text() == "what was there before"


def test_an_answer_whose_file_could_not_be_written_is_still_one_object(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    done = run("solvent solve delivery-van.yaml --json --out van.policy")
    assert done.code == done.json["exit_code"] == 2
    assert done.json["status"] == "optimal"
    assert done.json["written"] == {}
    assert done.json["error"]["where"] == "van.policy"


def test_a_panel_for_each_resource(folder: Path) -> None:
    done = run("solvent solve drone.yaml --out drone.policy --plot drone.svg")
    assert done.code == 0
    assert run("solvent simulate drone.yaml drone.policy --episodes 100 --plot again.svg").code == 0
    for name in ("drone.svg", "again.svg"):
        assert (folder / name).stat().st_size > 10_000


@pytest.mark.parametrize("place", ["nowhere/x", ".", "delivery-van.yaml/x", "/proc/x"])
def test_places_are_looked_at_before_the_work(place: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work was begun")

    monkeypatch.setattr(solving, "solve", work)
    done = run(f"solvent solve delivery-van.yaml --out {place}")
    assert done.code == 2
    assert done.err.startswith(f"error: --out {place}\n  expected  a place that can be written\n")


def program(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in a separate process in which `solvent` is a command."""
    setting = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(folder), **environment}
    script = f'solvent() {{ "{sys.executable}" -m solvent "$@"; }}\n{line}'
    return subprocess.run(["bash", "-c", script], cwd=folder, env=setting, capture_output=True, text=True, check=False)


def test_it_is_a_program(folder: Path) -> None:
    done = program("solvent info delivery-van.yaml", folder)
    assert done.returncode == 0
    assert done.stdout.startswith("delivery-van\nhorizon")
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    done = program("solvent schema | head -n 1; echo ${PIPESTATUS[0]}", folder)
    assert done.stdout.splitlines()[0] == "{"
    assert done.stdout.splitlines()[1] in ("0", "141")
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_an_answer_that_cannot_be_printed(folder: Path) -> None:
    done = program("solvent schema > /dev/full", folder)
    assert done.returncode == 2
    assert "the result could not be printed: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_terminals_that_know_only_ascii(van: Path) -> None:
    done = program(
        "solvent frontier delivery-van.yaml --max-budget 20; solvent simulate delivery-van.yaml van.policy -n 10",
        van,
        PYTHONIOENCODING="ascii",
        PYTHONUTF8="0",
    )
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "least budget 0" in done.stdout
