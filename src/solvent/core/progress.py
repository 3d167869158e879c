"""Progress reporting: long computations tell a sink how far they have come, and the sink decides how to show it.

A sink has two methods, see `ProgressSink`. The package has four: a progress bar on a terminal, a bar in a
notebook, records of the logger "solvent.progress", and one that does nothing. `open_progress` chooses one of them for
the `progress` argument of a public function, or takes the caller's own.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Protocol, Self, runtime_checkable

from solvent.core.html import bar
from solvent.core.logs import get_logger
from solvent.core.terminal import make_console
from solvent.errors import ModelError, printable, quote

#: Seconds during which a terminal or a notebook shows nothing.
PATIENCE = 1.0
#: Seconds between two updates of a terminal or a notebook.
_PAUSE = 0.1
#: Seconds between two log records of one phase.
_LOG_PAUSE = 10.0


@runtime_checkable
class ProgressSink(Protocol):
    """Receives reports on how far a computation has come.

    Exceptions that it raises end the computation.
    """

    def report(self, phase: str, done: int, total: int, facts: Mapping[str, Any], unit: str = "step") -> None:
        """Take in how far a phase has come.

        Parameters
        ----------
        phase : str
            Name of the phase, such as "forward".
        done, total : int
            How many of its `unit` are done, and how many there are.
        facts : mapping of str to int or float
            Counts by noun (`{"nodes": 1200}`) and measures by name (`{"gap": 0.25}`).
        unit : str
            What `done` and `total` count.
        """

    def message(self, text: str) -> None:
        """Take in a line of text that stays, such as one round of closing a gap."""


#: What a function without a `message` is called with: phase, done, total and facts.
ProgressCallback = Callable[[str, int, int, Mapping[str, Any]], None]
#: What the `progress` argument of a public function accepts.
ProgressLike = bool | Literal["log"] | ProgressSink | ProgressCallback

#: The sinks in use, the innermost last; without `NO_PROGRESS`.
_open: list[ProgressSink] = []


class NoProgress:
    """A sink that does nothing."""

    def report(self, phase: str, done: int, total: int, facts: Mapping[str, Any], unit: str = "step") -> None:
        """Do nothing."""

    def message(self, text: str) -> None:
        """Do nothing."""


#: The sink of computations whose progress is not reported.
NO_PROGRESS = NoProgress()


class CallbackProgress:
    """A sink that calls a function of (phase, done, total, facts) for each report, and drops messages.

    Examples
    --------
    >>> sink = CallbackProgress(lambda phase, done, total, facts: print(phase, done, total, dict(facts)))
    >>> sink.report("forward", 3, 10, {"nodes": 1200})
    forward 3 10 {'nodes': 1200}
    """

    def __init__(self, function: ProgressCallback) -> None:
        self._function = function

    def report(self, phase: str, done: int, total: int, facts: Mapping[str, Any], unit: str = "step") -> None:
        """Call the function."""
        self._function(phase, done, total, facts)

    def message(self, text: str) -> None:
        """Do nothing."""


class LogProgress:
    """A sink that logs to "solvent.progress" at level INFO.

    The first and the last report of a phase are logged, and between them one every ten seconds.
    """

    def __init__(self) -> None:
        self._logger = get_logger("solvent.progress")
        self._due: dict[str, float] = {}

    def report(self, phase: str, done: int, total: int, facts: Mapping[str, Any], unit: str = "step") -> None:
        """Log the report, unless the phase was logged less than ten seconds ago."""
        now = time.perf_counter()
        if now >= self._due.get(phase, 0.0) or done >= total:
            self._due[phase] = now + _LOG_PAUSE
            self._logger.info("%s: %s", phase, _describe(done, total, facts, unit))

    def message(self, text: str) -> None:
        """Log the text."""
        self._logger.info("%s", text)


class _DelayedProgress:
    """Base of sinks that show nothing for the first second, and then the current phase.

    A context: what is shown disappears at its end. Until the first report, `waiting` is shown.
    """

    def __init__(self, waiting: str) -> None:
        self._waiting = waiting
        self._due = time.perf_counter() + PATIENCE
        self._reported = self._closed = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._wait)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            self._clear()

    def report(self, phase: str, done: int, total: int, facts: Mapping[str, Any], unit: str = "step") -> None:
        """Show the report, if the computation has taken a second and the last update is not too recent."""
        if time.perf_counter() < self._due:
            return
        self._due = time.perf_counter() + _PAUSE
        with self._lock:
            if not self._closed:
                self._reported = True
                self._show(phase, done, total, _describe(done, total, facts, unit))

    def message(self, text: str) -> None:
        """Write a line that stays."""
        with self._lock:
            if not self._closed:
                self._write(text)

    def _wait(self) -> None:
        with self._lock:
            if not self._reported and not self._closed:
                self._show(self._waiting, None, None, "")

    def _show(self, phase: str, done: int | None, total: int | None, text: str) -> None:
        raise NotImplementedError

    def _write(self, text: str) -> None:
        raise NotImplementedError

    def _clear(self) -> None:
        raise NotImplementedError


class TerminalProgress(_DelayedProgress):
    """A sink that shows a progress bar for each phase, on standard error."""

    def __init__(self, waiting: str, bar: Any) -> None:
        super().__init__(waiting)
        self._bar = bar
        self._begun = False
        self._tasks: dict[str, Any] = {}

    @classmethod
    def on_stderr(cls, waiting: str) -> TerminalProgress | None:
        """Return a sink, or None if standard error is not a terminal that can show it."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = make_console(stderr=True)
        if not console.is_terminal or console.is_dumb_terminal:
            return None
        name, facts = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[facts]}"))
        return cls(waiting, Progress(name, BarColumn(), facts, TimeElapsedColumn(), console=console, transient=True))

    def _show(self, phase: str, done: int | None, total: int | None, text: str) -> None:
        if not self._begun:
            self._bar.start()
            self._begun = True
        if done is not None and self._waiting in self._tasks:
            self._bar.remove_task(self._tasks.pop(self._waiting))
        if phase not in self._tasks:
            self._tasks[phase] = self._bar.add_task(phase, total=total, facts="")
        if done is not None:
            self._bar.update(self._tasks[phase], completed=done, facts=text)

    def _write(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def _clear(self) -> None:
        if self._begun:
            self._bar.stop()


class NotebookProgress(_DelayedProgress):
    """A sink that shows the current phase as a progress bar in the output of a notebook's cell.

    The bar is an element of HTML, which needs no widgets; programs that show text only have a line of text.
    """

    def __init__(self, waiting: str) -> None:
        super().__init__(waiting)
        self._display = importlib.import_module("IPython.display").display
        self._line: Any = None

    @classmethod
    def in_kernel(cls, waiting: str) -> NotebookProgress | None:
        """Return a sink, or None if this is not a Jupyter kernel; IPython is not imported to find out."""
        get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
        shell = None if get_shell is None else get_shell()
        return cls(waiting) if hasattr(shell, "kernel") else None

    def _show(self, phase: str, done: int | None, total: int | None, text: str) -> None:
        line = printable(f"{phase}: {text}" if text else f"{phase}...")
        self._update(line, bar(line, done, total))

    def _update(self, line: str, shown: str) -> None:
        data = {"text/plain": line, "text/html": shown}
        if self._line is None:
            self._line = self._display(data, raw=True, display_id=True)
        else:
            self._line.update(data, raw=True)

    def _write(self, text: str) -> None:
        self._display({"text/plain": printable(text, lines=True)}, raw=True)

    def _clear(self) -> None:
        if self._line is not None:
            self._update("", "")


@contextmanager
def open_progress(progress: ProgressLike = False, waiting: str = "preparing") -> Iterator[ProgressSink]:
    """Choose the sink of the `progress` argument of a public function, and use it within.

    Parameters
    ----------
    progress : bool, "log", ProgressSink or callable
        If True, show progress in a notebook or on a terminal, where standard error is one. If "log", log it under
        "solvent.progress". A callable is called with phase, done, total and facts.
    waiting : str
        What a terminal or a notebook shows before the first report.

    Raises
    ------
    ModelError
        If `progress` is none of these.

    Examples
    --------
    >>> with open_progress(lambda phase, done, total, facts: print(f"{phase}: {done} of {total}")) as sink:
    ...     sink.report("forward", 3, 10, {"nodes": 1200})
    forward: 3 of 10
    """
    sink = _choose(progress, waiting)
    if isinstance(sink, NoProgress):
        yield sink
        return
    _open.append(sink)
    try:
        if isinstance(sink, _DelayedProgress):
            with sink:
                yield sink
        else:
            yield sink
    finally:
        _open.remove(sink)


def announce(text: str) -> bool:
    """Send a message to the innermost sink that is in use; return whether there is one."""
    if _open:
        _open[-1].message(text)
    return bool(_open)


def _choose(progress: Any, waiting: str) -> ProgressSink:
    if progress is None or progress is False:
        return NO_PROGRESS
    if progress is True:
        return NotebookProgress.in_kernel(waiting) or TerminalProgress.on_stderr(waiting) or NO_PROGRESS
    if isinstance(progress, str) and progress == "log":
        return LogProgress()
    if isinstance(progress, ProgressSink):
        return progress
    if callable(progress):
        return CallbackProgress(progress)
    raise ModelError("progress", 'True, False, "log", a ProgressSink or a function', quote(progress))


def _describe(done: int, total: int, facts: Mapping[str, Any], unit: str) -> str:
    """Return a report as text: the count, then each fact."""
    texts = (
        f"{name} {value:.6g}" if isinstance(value, float) else f"{value:,} {name}" for name, value in facts.items()
    )
    return f"{unit} {done:,}/{total:,}  {', '.join(texts)}".rstrip()
