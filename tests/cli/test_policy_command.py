"""`policy`: all rows in every format, and exit codes; relaxed answers and infeasible ones of `solve`."""

from __future__ import annotations

import csv
import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from shell import run

import solvent
from effort import slow_after


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The policy of the robot, solved once."""
    file = tmp_path_factory.mktemp("plan") / "robot.policy"
    assert run(["solvent", "solve", solvent.examples.path("robot"), "--out", file]).code == 0
    return file


@pytest.fixture
def robot(folder: Path, plan: Path) -> Path:
    """The current folder, with all example models and the policy of the robot."""
    shutil.copy(plan, folder)
    return folder


def test_every_row_is_in_every_format(robot: Path) -> None:
    record = run("solvent policy robot.yaml robot.policy --json --csv plan.csv").json
    assert set(record) == {"command", "version", "model", "resources", "rounded", "rows", "written"}
    policy = solvent.load_policy(robot / "robot.policy", solvent.load_model(robot / "robot.yaml"))
    rows = policy.table()
    assert len(record["rows"]) == len(rows)
    for found, row in zip(record["rows"], rows, strict=True):
        assert (found["step"], found["state"], found["action"]) == (row.step, row.state, row.action_text)
        ends = [None if end is None else Fraction(end) for end in found["remaining"]["battery"]]
        assert tuple(ends) == row.remaining["battery"]
        assert tuple(found["value"]) == row.value
    with (robot / "plan.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert (int(line["step"]), line["state"], line["action"]) == (row.step, row.state, row.action_text)
        low, high = row.remaining["battery"]
        assert (Fraction(line["battery_remaining_from"]), Fraction(line["battery_remaining_to"])) == (low, high)
        assert (float(line["value_from"]), float(line["value_to"])) == row.value
    text = run("solvent policy robot.yaml robot.policy --markdown").out.splitlines()
    assert len(text) == len(rows) + 2
    assert text[0] == "| step | state | battery remaining | action | value |"


def test_long_plans_are_cut_and_say_so(robot: Path) -> None:
    short, full = (
        run("solvent policy robot.yaml robot.policy").out,
        run("solvent policy robot.yaml robot.policy --all").out,
    )
    assert "more rows: use --all, or --step and --state, or --csv FILE" in short
    assert "more rows" not in full
    assert len(full.splitlines()) > len(short.splitlines())


def test_explanations_as_json(robot: Path) -> None:
    record = run("solvent policy robot.yaml robot.policy --explain --step 20 --state d4 --spent 3 --json").json
    assert set(record) == {"command", "version", "model", "explanation"}
    assert record["explanation"]["feasible"] is False
    assert all(option["forbidden_by"] for option in record["explanation"]["options"])


def test_an_explanation_that_is_cut_short_ends_with_3(robot: Path) -> None:
    done = run("solvent policy robot.yaml robot.policy --explain --step 0 --state a1 --time-limit 1e-9")
    assert done.code == 3
    assert "note: cut short" in done.out


def test_long_and_hostile_names(folder: Path) -> None:
    names = ["a|b" * 60, "c\x1b[31m\nd", "=1+1"]
    b = solvent.CMDP.builder(horizon=2, start=names[0], resources=["x|y"], budget=2)
    for i, name in enumerate(names):
        b.add(name, "go\x07", outcomes=[(1, names[(i + 1) % 3], 1)])
    b.build().save(folder / "names.yaml")
    assert run("solvent solve names.yaml --out names.policy").code == 0
    lines = run("solvent policy names.yaml names.policy --markdown").out.splitlines()
    assert len(lines) == 4
    assert all(line.replace("\\|", "").count("|") == 6 for line in lines)
    for option in ("", "--markdown", f"--explain --step 0 --state '{names[0]}'"):
        out = run(f"solvent policy names.yaml names.policy {option}").out
        assert out
        assert all(character.isprintable() or character == "\n" for character in out)


def test_states_that_are_written_alike(folder: Path) -> None:
    b = solvent.CMDP.builder(horizon=1, start=1, resources=["x"], budget=1, states=[1, "1"])
    b.add(1, "go", outcomes=[(1, "1", 1)])
    b.add("1", "go", outcomes=[(1, "1", 1)])
    b.build().save(folder / "alike.yaml")
    assert run("solvent solve alike.yaml --out alike.policy").code == 0
    done = run("solvent policy alike.yaml alike.policy --state 1")
    assert done.code == 2
    assert "1 and '1', which are written alike" in done.err


def test_relaxed_answers_end_with_5_and_a_warning(folder: Path) -> None:
    done = run("solvent solve campaign.yaml --approximation additive --epsilon 1 --quiet")
    assert done.code == 5
    assert done.out.startswith("relaxed: ")
    assert done.err.startswith("warning: this policy can exceed the budget by ")
    assert "with --strict it never does" in done.err
    record = run("solvent solve campaign.yaml --approximation additive --epsilon 1 --json --out r.policy")
    assert record.code == 5
    assert record.json["status"] == "relaxed"
    assert (folder / "r.policy").exists()
    strict = run("solvent solve campaign.yaml --approximation additive --epsilon 1 --strict")
    assert (strict.code, strict.err) == (0, "")


def test_why_a_problem_is_infeasible(folder: Path) -> None:
    record = run("solvent solve robot.yaml --spent battery=14 --budget battery=-1 --json")
    assert record.code == 1
    diagnosis = record.json["diagnosis"]
    assert diagnosis["blame"] == ["battery"]
    assert diagnosis["history"]["steps"]
    b = solvent.CMDP.builder(horizon=2, start="away", resources=["fuel"], budget=3, must_end_in=["home"])
    b.add("away", "walk", outcomes=[(0.5, "home", 1), (0.5, "away", 1)])
    b.add("home", "stay", outcomes=[(1, "home", 0)])
    b.build().save(folder / "goal.yaml")
    done = run("solvent solve goal.yaml")
    assert "every policy can end outside must_end_in, even without any limit" in done.out
    assert "even the most careful policy\nends in 'away' after step 1, expected 'home'" in done.out
    diagnosis = run("solvent solve goal.yaml --json").json["diagnosis"]
    assert (diagnosis["goal"], diagnosis["blame"]) == ("unreachable", ["must_end_in"])
    assert [step["action"] for step in diagnosis["history"]["steps"]] == ["walk", "walk"]


def test_ignored_limits_are_named(folder: Path) -> None:
    text = run("solvent frontier drone.yaml --resource risk --ignore-limits").out
    assert "ignored       battery: between 0 and 20, which policies of this curve can break" in text
    record = run("solvent frontier drone.yaml --resource risk --ignore-limits --json").json
    assert record["ignored_limits"] == ["battery: between 0 and 20"]
    assert record["vary"] == "budget"


def test_compare_begins_with_what_was_spent(folder: Path) -> None:
    record = run("solvent compare covering.yaml --spent grain=1 --json").json
    (exact,) = (row for row in record["rows"] if row["method"] == "exact")
    model = solvent.load_model(folder / "covering.yaml")
    assert exact["value"] == solvent.solve(model, spent=1).value
    assert exact["value"] != solvent.solve(model).value


#: What is drawn by default, and each kind of plot by another command, first.
PLOTS = [
    ("solve robot.yaml", "spending="), ("policy robot.yaml robot.policy --step 3", "states="),
    ("simulate robot.yaml robot.policy -n 50", ""), ("simulate robot.yaml robot.policy -n 50", "value="),
    ("solve robot.yaml", "policy="),
]  # fmt: skip
PLOTS += sorted(
    {(command, kind) for command, _ in PLOTS for kind in ("", "policy=", "states=", "value=", "spending=")} - {*PLOTS}
)


@pytest.mark.parametrize(("command", "kind"), slow_after(5, PLOTS))
def test_plots_of_a_policy(robot: Path, command: str, kind: str) -> None:
    done = run(f"solvent {command} --plot {kind}drawn.png --json")
    assert done.code == 0, done.err
    assert done.json["written"]["plot"]["path"] == "drawn.png"
    assert (robot / "drawn.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("--plot policy", "--plot|policy=FILE|'policy'|write --plot policy=policy.png"),
        ("--plot states=", "--plot|states=FILE|'states='|write --plot states=states.png"),
        (
            "--plot polcy=x.png",
            "--plot polcy=x.png|one of spending, policy, states, value|'polcy'|did you mean 'policy'?",
        ),
        ("--plot value=x.gif", "--plot x.gif|a name ending in .png, .svg or .pdf|'.gif'"),
        ("--plot plan=x.png --csv plan=x.png", "--plot plan=x.png|a different file|the same as --csv"),
        ("--plot x.png --explain --step 0 --state a1", "--plot|no --explain with it|--explain"),
    ],
)  # fmt: skip
def test_mistakes_in_plots(robot: Path, options: str, error: str) -> None:
    done = run(f"solvent policy robot.yaml robot.policy {options}")
    assert done.code == 2
    where, expected, found, *hint = error.split("|")
    lines = [f"error: {where}", f"  expected  {expected}", f"  found     {found}", *(f"  hint      {x}" for x in hint)]
    assert done.err.splitlines()[: len(lines)] == lines


def test_kinds_of_plots_are_completed() -> None:
    from solvent.cli.completion import complete_plot

    assert [name for name, _ in complete_plot("")] == ["spending=", "policy=", "states=", "value="]
    assert [name for name, _ in complete_plot("po")] == ["policy="]
