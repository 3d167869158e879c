"""Names and titles from files are shown, never obeyed: no control character reaches the terminal."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.table import Table
from rich.text import Text
from shell import Run, run

import effort
import solvent
from solvent.cli import main
from solvent.cli.completion import resource_names
from solvent.core.terminal import escape_json, make_console
from solvent.errors import PolicyError, UnmodeledOutcome, printable, quote

#: OSC 52 writes the clipboard, CSI moves the cursor, C1 does the same in one byte, marks of direction reorder text.
EVIL = "\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\x7f\x08\r\u202e\u2066\u061c\u2028\x85[/][red]"
HOSTILE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def evil(name: str) -> str:
    return f"{name}{EVIL}"


def model() -> solvent.CMDP:
    fuel, risk = evil("fuel"), evil("risk")
    b = solvent.CMDP.builder(
        horizon=3, start=evil("home"), resources=[fuel, risk], budget={fuel: 3, risk: 2}, name=evil("title"),
        description=evil("description") + "\nmore",
    )  # fmt: skip
    b.add(evil("home"), evil("go"), reward=0.5, outcomes=[(0.5, evil("home"), [1, 0]), (0.5, evil("away"), [2, 1])])
    b.add(evil("home"), evil("rest"), outcomes=[(1, evil("home"), 0)])
    b.add(evil("away"), evil("go"), reward=0.25, outcomes=[(1, evil("home"), [1, 1])])
    return b.build()


def single() -> solvent.CMDP:
    fuel = evil("fuel")
    b = solvent.CMDP.builder(horizon=3, start=evil("home"), resources=[fuel], budget=3, name=evil("title"))
    b.add(evil("home"), evil("go"), reward=0.5, outcomes=[(0.5, evil("home"), 1), (0.5, evil("away"), 2)])
    b.add(evil("home"), evil("rest"), outcomes=[(1, evil("home"), 0)])
    b.add(evil("away"), evil("go"), reward=0.25, outcomes=[(1, evil("home"), 1)])
    return b.build()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with models and policies, which are written once."""
    place = tmp_path_factory.mktemp("files")
    for kind in ("yaml", "json", "npz"):
        single().save(place / f"one.{kind}")
        model().save(place / f"two.{kind}")
    single().save(place / (evil("file").replace("/", "") + ".yaml"))
    solvent.solve(single()).policy.save(place / "one.policy")
    solvent.solve(model()).policy.save(place / "two.policy")
    return place


@pytest.fixture
def folder(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with copies of these files."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    return tmp_path


def run_arguments(*arguments: str) -> Run:
    """Run a command line that no shell could have read."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    return Run(repr(arguments), code, out.getvalue(), err.getvalue())


def check(done: Run) -> None:
    for text in (done.out, done.err):
        found = HOSTILE.search(text)
        assert found is None, (done.line, found, text[max(found.start() - 60, 0) : found.end() + 20])


LINES = [
    "solvent info {m}.yaml",
    "solvent info {m}.npz --verbose",
    "solvent solve {m}.json",
    "solvent solve {m}.yaml --verbose",
    "solvent solve {m}.yaml --approximation additive --epsilon 0.5",
    "solvent solve {m}.yaml --budget nothing=3",
    "solvent solve {m}.yaml --gap 0.1",
    "solvent verify {m}.yaml {m}.policy",
    "solvent verify {m}.yaml {m}.policy --verbose",
    "solvent simulate {m}.yaml {m}.policy --episodes 50",
    "solvent simulate {m}.yaml {m}.policy --episodes 50 --verbose",
    "solvent compare {m}.yaml",
    "solvent learn {m}.yaml --max-episodes 20",
    "solvent learn {m}.yaml -n 9 --support learned",
    "solvent convert {m}.yaml copy.json",
    "solvent schema",
    "solvent frontier {m}.yaml --resource nothing --max-budget 3",
    "solvent verify {m}.yaml {other}.policy",
    "solvent solve {m}.policy",
    "solvent info missing.yaml",
    "solvent solve {m}.yaml --budget 0",
    "solvent warmup --help",
]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("form", ["", " --json", pytest.param(" --debug", marks=pytest.mark.slow)])
def test_no_command_prints_control_characters(line: str, form: str, folder: Path) -> None:
    if form and ("schema" in line or "help" in line):
        return
    pairs = [("one", "two"), ("two", "one")]
    for m, other in pairs if effort.everything else pairs[: 1 if form else 2]:
        done = run(line.format(m=m, other=other) + form)
        check(done)
        if form == " --json" and done.out.startswith("{"):
            assert isinstance(done.json, dict)


def test_what_is_typed_is_escaped_as_well(folder: Path) -> None:
    for arguments in ([f"missing{EVIL}.yaml"], ["one.yaml", "--budget", f"{EVIL}=3"], ["one.yaml", "--" + EVIL]):
        check(run_arguments("solve", *arguments))


def test_frontiers_and_limits_on_one_resource(folder: Path) -> None:
    for extra in ([], ["--verbose"], ["--json"]):
        done = run_arguments("frontier", "one.yaml", "--max-budget", "4", *extra)
        assert done.code == 0
        check(done)


def test_surfaces(folder: Path) -> None:
    names = [argument for name in model().resources for argument in ("--resource", name)]
    for extra in ([], ["--verbose"], ["--json"], ["--csv", "out.csv", "--plot", "out.png"]):
        done = run_arguments("frontier", "two.yaml", *names, "--ignore-limits", *extra)
        assert done.code == 0
        check(done)


def things() -> dict[str, Any]:
    """Return everything that shows names."""
    one, two = single(), model()
    solution = solvent.solve(two)
    agent = solution.policy.agent()
    agent.act()
    ever = solvent.CMDP.builder(horizon=None, discount="1/2", start=evil("s"), resources=[evil("z")], budget=2)
    ever.add(evil("s"), evil("a"), reward=1, outcomes=[(0.5, evil("s"), 1), (0.5, evil("s"), 0)])
    ever.add(evil("s"), evil("b"), outcomes=[(1, evil("s"), 0)])
    discounted = ever.build()
    planned = solvent.solve(discounted, epsilon="1/2")
    bold = solvent.verify(one, np.zeros((3, 2), int))
    return {
        "model": one, "description": two.describe(), "solution": solution, "policy": solution.policy, "agent": agent,
        "report": solvent.verify(two, solution.policy), "witness": bold.witness, "over": bold,
        "curve": solvent.frontier(one, max_budget=4),
        "surface": solvent.frontier(two, list(two.resources), ignore_limits=True), "augmented": solvent.augment(two),
        "comparison": solvent.compare(one),
        "infeasible": solvent.solve(two, {evil("fuel"): -1, evil("risk"): 2}).diagnosis,
        "simulation": solvent.simulate(two, solution.policy, 20), "discounted": discounted, "planned": planned,
        "tail": planned.policy, "discounted report": solvent.verify(discounted, planned.policy),
        "budget": two.budget, "learned": solvent.learn(one, max_episodes=5),
    }  # fmt: skip


def test_nothing_that_is_printed_in_python_has_control_characters() -> None:
    for what, thing in things().items():
        for text in (str(thing), repr(thing)):
            found = HOSTILE.search(text)
            assert found is None, (what, found, text[:300])


def test_messages_and_warnings() -> None:
    one, policy = single(), solvent.solve(single()).policy

    def unmodeled() -> None:
        agent = policy.agent()
        agent.act()
        agent.observe(evil("nowhere"), 7)

    b = solvent.CMDP.builder(horizon=3, start=evil("home"), resources=[evil("fuel")])
    calls: list[Any] = [
        unmodeled, lambda: policy.action(0, evil("x"), 0), lambda: policy.action(0, evil("home"), "99"),
        lambda: solvent.solve(one, {evil("x"): 3}), lambda: solvent.solve(one, {evil("fuel"): EVIL}),
        lambda: one.state_index(EVIL), lambda: solvent.load_model(EVIL + ".yaml"), lambda: solvent.load_policy(EVIL),
        lambda: b.add(EVIL, EVIL, outcomes=[(3, EVIL)]), lambda: b.add(EVIL, EVIL, outcomes=[(EVIL, EVIL, EVIL)]),
        lambda: solvent.frontier(one, EVIL), lambda: one.save(EVIL), lambda: solvent.verify(model(), policy),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(solvent.SolventError) as caught:
            call()
        assert HOSTILE.search(str(caught.value)) is None, str(caught.value)
        assert "\n" not in str(caught.value)
    b = solvent.CMDP.builder(horizon=1, start="home" + EVIL, resources=[])
    b.add("home" + EVIL, EVIL, outcomes=[(1, "hoem" + EVIL)])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        b.build()
    assert said
    assert HOSTILE.search(str(said[0].message)) is None


def test_one_function_escapes() -> None:
    for code in [*range(0x300), *range(0x2000, 0x2070), 0xD800, 0xDFFF, 0x1F600]:
        letter = chr(code)
        shown = printable(f"a{letter}b")
        assert HOSTILE.search(shown) is None
        assert "\n" not in shown
        assert HOSTILE.search(quote(letter)) is None
        assert (shown == f"a{letter}b") == (HOSTILE.search(letter) is None and letter != "\n")
        assert HOSTILE.search(escape_json(json.dumps(letter, ensure_ascii=False))) is None
        assert json.loads(escape_json(json.dumps(letter, ensure_ascii=False))) == letter
    assert printable("a\nb\x1b", lines=True) == "a\nb\\x1b"
    assert str(solvent.SolventError("a\nb\x1b")) == "a\nb\\x1b"
    error = UnmodeledOutcome(0, EVIL, EVIL, EVIL, (EVIL,))
    assert HOSTILE.search(str(error)) is None
    assert HOSTILE.search(str(PolicyError(EVIL, EVIL, EVIL, EVIL))) is None


def test_consoles_escape_on_terminals_too() -> None:
    out = io.StringIO()
    console = make_console(file=out, force_terminal=True, width=400, color_system="truecolor")
    table = Table(EVIL, title=EVIL)
    table.add_column(Text(EVIL, style="bold"))
    table.add_row(EVIL, Text(EVIL))
    for thing in (EVIL, Text(EVIL, style="red"), table):
        console.print(thing)
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())  # rich's own styling
    assert HOSTILE.search(text) is None
    assert "52;c;aGk=" in text


def test_completions_leave_such_names_out(folder: Path) -> None:
    for kind in ("yaml", "json", "npz"):
        assert resource_names(folder / f"two.{kind}") == []
