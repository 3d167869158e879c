"""Progress sinks: terminal, notebook, log, callback, none; and the choice between them."""

from __future__ import annotations

import io
import logging
import sys
import time
import types
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from typing import Any

import pytest

from solvent.core import progress
from solvent.core.limits import ResourceMonitor
from solvent.core.progress import NO_PROGRESS, NotebookProgress, ProgressSink, announce, open_progress
from solvent.errors import ModelError
from solvent.model import instances
from solvent.solvers.solve import solve


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress, "_PAUSE", 0.0)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, quick: None) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def wait_for(text: str, shown: Callable[[], str]) -> None:
    until = time.monotonic() + 60
    while text not in shown():
        assert time.monotonic() < until, f"{text!r} did not come: {shown()!r}"
        time.sleep(0.01)


def test_a_terminal_shows_the_phase_and_how_far_it_is(terminal: Terminal) -> None:
    with redirect_stderr(terminal), open_progress(True, "compiling [once]") as sink:
        wait_for("compiling [once]", terminal.getvalue)
        sink.report("layers forward", 3, 10, {"nodes": 1200})
        wait_for("step 3/10  1,200 nodes", terminal.getvalue)
        sink.report("rounds", 1, 10, {"lower": 72.389827934795, "upper": 73.0})
        wait_for("lower 72.3898, upper 73", terminal.getvalue)
        sink.report("learning", 5, 10, {}, "episode")
        wait_for("episode 5/10", terminal.getvalue)
        sink.message("a line [that] stays")
        wait_for("a line [that] stays", terminal.getvalue)
        assert announce("from elsewhere")
        wait_for("from elsewhere", terminal.getvalue)
    ended = len(terminal.getvalue())
    assert not announce("too late")
    time.sleep(0.15)
    assert len(terminal.getvalue()) == ended, "it went on after its end"


def test_short_work_shows_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 60.0)
    with redirect_stderr(terminal), open_progress(True) as sink:
        sink.report("layers forward", 3, 10, {"nodes": 1200})
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("show", "screen", "kind"), [(False, Terminal, "xterm"), (True, io.StringIO, "xterm"), (True, Terminal, "dumb")]
)
def test_nothing_is_shown_without_a_terminal_or_if_not_asked_for(
    show: bool, screen: type[io.StringIO], kind: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", kind)
    seen = screen()
    with redirect_stderr(seen), open_progress(show) as sink:
        assert sink is NO_PROGRESS
        time.sleep(0.15)
        sink.report("layers forward", 3, 10, {"nodes": 1200})
        sink.message("a line that stays")
        assert not announce("from elsewhere")
    assert seen.getvalue() == ""


def fail(terminal: Terminal) -> None:
    with redirect_stderr(terminal), open_progress(True):
        wait_for("preparing", terminal.getvalue)
        raise ZeroDivisionError


def test_an_error_ends_it(terminal: Terminal) -> None:
    with pytest.raises(ZeroDivisionError):
        fail(terminal)
    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind("\x1b[?25l"), "the cursor is still hidden"


class Notebook:
    """The part of IPython that the notebook sink uses; each display is a list of its contents over time."""

    def __init__(self, *, kernel: bool) -> None:
        self.displays: list[list[str]] = []
        self.shell = types.SimpleNamespace(**({"kernel": object()} if kernel else {}))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        ipython.get_ipython = lambda: self.shell  # type: ignore[attr-defined]
        display.display = self.display  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool = False) -> Any:
        assert raw
        contents = [data["text/plain"]]
        self.displays.append(contents)
        return types.SimpleNamespace(update=lambda data, raw: contents.append(data["text/plain"]))

    def shown(self) -> str:
        return "\n".join(text for contents in self.displays for text in contents)


def test_a_notebook_shows_one_line_that_is_updated(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(kernel=True)
    notebook.install(monkeypatch)
    with open_progress(True, "compiling") as sink:
        assert isinstance(sink, NotebookProgress)
        wait_for("compiling...", notebook.shown)
        sink.report("forward", 3, 10, {"nodes": 1200})
        sink.message("one round\x1b[2J")
        sink.report("forward", 4, 10, {"nodes": 7})
    line, message = notebook.displays
    assert line == ["compiling...", "forward: step 3/10  1,200 nodes", "forward: step 4/10  7 nodes", ""]
    assert message == [r"one round\x1b[2J"]


def test_ipython_in_a_terminal_has_a_terminal_bar(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(kernel=False)
    notebook.install(monkeypatch)
    with redirect_stderr(terminal), open_progress(True) as sink:
        wait_for("preparing", terminal.getvalue)
        sink.report("forward", 3, 10, {"nodes": 1200})
    assert notebook.displays == []


def test_ipython_is_neither_needed_nor_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "IPython"]:
        monkeypatch.delitem(sys.modules, name)
    with redirect_stderr(io.StringIO()), open_progress(True) as sink:
        assert sink is NO_PROGRESS
    assert "IPython" not in sys.modules


def test_the_log_has_the_first_and_the_last_of_each_phase(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.INFO, "solvent.progress"), open_progress("log") as sink:
        for done in range(1, 11):
            sink.report("forward", done, 10, {"nodes": 100 * done})
        sink.report("backward", 1, 10, {"gap": 0.25})
        sink.message("round 1")
        monkeypatch.setattr(progress, "_LOG_PAUSE", 0.0)
        sink.report("learning", 1, 3, {}, "episode")
        sink.report("learning", 2, 3, {}, "episode")
    assert {record.name for record in caplog.records} == {"solvent.progress"}
    assert caplog.messages == [
        "forward: step 1/10  100 nodes",
        "forward: step 10/10  1,000 nodes",
        "backward: step 1/10  gap 0.25",
        "round 1",
        "learning: episode 1/3",
        "learning: episode 2/3",
    ]


class Recorder:
    """A sink of the caller's own."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int, int, dict[str, Any]]] = []
        self.messages: list[str] = []

    def report(self, phase: str, done: int, total: int, facts: Mapping[str, Any], unit: str = "step") -> None:
        self.reports.append((phase, done, total, dict(facts)))

    def message(self, text: str) -> None:
        self.messages.append(text)


def test_a_sink_of_the_callers_own_gets_everything() -> None:
    mine = Recorder()
    assert isinstance(mine, ProgressSink)
    with open_progress(mine) as sink:
        assert sink is mine
        sink.report("forward", 1, 2, {"nodes": 3})
        assert announce("from elsewhere")
    assert (mine.reports, mine.messages) == ([("forward", 1, 2, {"nodes": 3})], ["from elsewhere"])


def test_a_function_gets_reports_and_no_messages() -> None:
    calls: list[tuple[Any, ...]] = []
    with open_progress(lambda *given: calls.append(given)) as sink:
        sink.report("forward", 1, 2, {"nodes": 3}, "layer")
        sink.message("dropped")
    assert calls == [("forward", 1, 2, {"nodes": 3})]


@pytest.mark.parametrize("wrong", ["bar", 3, 1.0, [True]])
def test_anything_else_is_refused(wrong: Any) -> None:
    with (
        pytest.raises(ModelError, match='progress: expected True, False, "log", a ProgressSink or a function, found'),
        open_progress(wrong),
    ):
        pass


def test_the_innermost_sink_gets_announcements() -> None:
    outer, inner = Recorder(), Recorder()
    with open_progress(outer), open_progress(inner), open_progress(False):
        announce("once")
    assert (outer.messages, inner.messages) == ([], ["once"])


def test_a_monitor_reports_to_its_sink() -> None:
    mine = Recorder()
    monitor = ResourceMonitor(sink=mine)
    monitor.tell("forward", 1, 4, nodes=7)
    assert mine.reports == [("forward", 1, 4, {"nodes": 7})]
    assert monitor.watched
    assert monitor.within(1000).sink is mine
    assert not ResourceMonitor().watched


def test_solve_reports_to_a_sink() -> None:
    mine = Recorder()
    found = solve(instances.fuel_grid(3), method="reduction", progress=mine)
    assert found.value == solve(instances.fuel_grid(3), method="reduction").value
    phases = {phase for phase, *_ in mine.reports}
    assert {"forward", "backward"} <= phases
    assert all(0 <= done <= total for _, done, total, _ in mine.reports)


def test_an_error_in_a_sink_ends_the_computation() -> None:
    def stop(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        solve(instances.fuel_grid(3), method="reduction", progress=stop)
