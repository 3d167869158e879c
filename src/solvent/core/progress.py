"""A progress line for long work, on a terminal only."""

from __future__ import annotations

import threading
import time
from typing import Any

from solvent.core.terminal import make_console

#: Work that takes less than so many seconds shows nothing.
PATIENCE = 1.0
#: Seconds between two looks at it.
_PAUSE = 0.1


#: Those being shown, the innermost last.
_shown: list[Progress] = []


def announce(text: str) -> bool:
    """Write a line above the progress that is being shown; return whether there is any."""
    return any(progress.line(text) for progress in reversed(_shown))


class Progress:
    """Shows the phase, how far it is, and a fact or two; silent for the first second and where nobody watches.

    Parameters
    ----------
    show : bool
        Whether to show anything at all.
    waiting : str
        What to say while nothing has been reported.

    Examples
    --------
    >>> with Progress(show=False) as bar:
    ...     bar.report("layers forward", 3, 10, {"nodes": 1200})
    """

    def __init__(self, *, show: bool, waiting: str = "preparing") -> None:
        self._waiting = waiting
        self._due = time.perf_counter() + PATIENCE
        self._bar: Any = _make_bar() if show else None
        self._begun = False
        self._tasks: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Progress:
        if self._bar is not None:
            _shown.append(self)
            self._timer = threading.Timer(PATIENCE, self._wait)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            _shown.remove(self)
        with self._lock:
            if self._begun:
                self._bar.stop()
            self._bar = None

    def line(self, text: object) -> bool:
        """Write a line that stays, above the progress if there is any; return whether anybody sees it."""
        with self._lock:
            if self._bar is not None:
                self._bar.console.print(str(text), markup=False, highlight=False)
            return self._bar is not None

    def report(self, phase: str, done: int, total: int, facts: dict[str, Any], unit: str = "step") -> None:
        """Take note of progress and show it once the work has taken a while."""
        if self._bar is None or time.perf_counter() < self._due:
            return
        self._due = time.perf_counter() + _PAUSE
        with self._lock:
            self._begin()
            if self._waiting in self._tasks:
                self._bar.remove_task(self._tasks.pop(self._waiting))
            if phase not in self._tasks:
                self._tasks[phase] = self._bar.add_task(phase, total=total, facts="")
            text = ", ".join(_fact(name, value) for name, value in facts.items())
            self._bar.update(self._tasks[phase], completed=done, facts=f"{unit} {done:,}/{total:,}  {text}")

    def _wait(self) -> None:
        with self._lock:
            if self._bar is not None and not self._tasks:
                self._begin()
                self._tasks[self._waiting] = self._bar.add_task(self._waiting, total=None, facts="")

    def _begin(self) -> None:
        if not self._begun:
            self._bar.start()
            self._begun = True


def _fact(name: str, value: Any) -> str:
    """Return a count with its noun, or a measure after its name."""
    return f"{name} {value:.6g}" if isinstance(value, float) else f"{value:,} {name}"


def _make_bar() -> Any:
    """Return a bar on standard error, or None where that is no terminal."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = make_console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    name, facts = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[facts]}"))
    return Bar(name, BarColumn(), facts, TimeElapsedColumn(), console=console, transient=True)
