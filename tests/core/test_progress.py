"""The progress line: silent for a second and where nobody watches, then it says what is going on."""

from __future__ import annotations

import io
import time
from contextlib import redirect_stderr

import pytest

from solvent.core import progress
from solvent.core.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress, "_PAUSE", 0.0)
    return Terminal()


def wait_for(screen: Terminal, text: str) -> None:
    until = time.monotonic() + 5
    while text not in screen.getvalue():
        assert time.monotonic() < until, f"{text!r} did not come: {screen.getvalue()!r}"
        time.sleep(0.01)


def test_it_says_what_it_waits_for_and_then_how_far_it_is(terminal: Terminal) -> None:
    with redirect_stderr(terminal), Progress(show=True, waiting="compiling [once]") as bar:
        wait_for(terminal, "compiling [once]")
        bar.report("layers forward", 3, 10, {"nodes": 1200})
        wait_for(terminal, "step 3/10  1,200 nodes")
        bar.report("rounds", 1, 10, {"lower": 72.389827934795, "upper": 73.0})
        wait_for(terminal, "lower 72.3898, upper 73")
        bar.line("a line [that] stays")
        wait_for(terminal, "a line [that] stays")
    ended = len(terminal.getvalue())
    time.sleep(0.15)
    assert len(terminal.getvalue()) == ended, "it went on after its end"


def test_short_work_shows_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 60.0)
    with redirect_stderr(terminal), Progress(show=True) as bar:
        bar.report("layers forward", 3, 10, {"nodes": 1200})
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("show", "screen", "kind"), [(False, Terminal, "xterm"), (True, io.StringIO, "xterm"), (True, Terminal, "dumb")]
)
def test_nobody_watches(
    show: bool, screen: type[io.StringIO], kind: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", kind)
    seen = screen()
    with redirect_stderr(seen), Progress(show=show) as bar:
        time.sleep(0.15)
        bar.report("layers forward", 3, 10, {"nodes": 1200})
        bar.line("a line that stays")
    assert seen.getvalue() == ""


def fail(terminal: Terminal) -> None:
    with redirect_stderr(terminal), Progress(show=True):
        wait_for(terminal, "preparing")
        raise ZeroDivisionError


def test_an_error_ends_it(terminal: Terminal) -> None:
    with pytest.raises(ZeroDivisionError):
        fail(terminal)
    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind("\x1b[?25l"), "the cursor is still hidden"
