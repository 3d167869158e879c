"""A progress line for long work, on a terminal only."""

from __future__ import annotations

import time
from typing import Any

#: Work that takes less than so many seconds shows nothing.
PATIENCE = 1.0
#: Seconds between two looks at it.
_PAUSE = 0.1


class Progress:
    """Shows the phase, how far it is, and a fact or two; silent for the first second and where nobody watches."""

    def __init__(self, *, show: bool) -> None:
        self._show = show
        self._due = time.perf_counter() + PATIENCE
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def line(self, text: object) -> None:
        """Write a line that stays, above the progress if there is any."""
        if not self._show:
            return
        from rich.console import Console

        console = self._bar.console if self._bar is not None else Console(stderr=True)
        if console.is_terminal:
            console.print(str(text), markup=False, highlight=False)

    def report(self, phase: str, done: int, total: int, facts: dict[str, Any]) -> None:
        """Take note of progress and show it once the work has taken a while."""
        if not self._show or time.perf_counter() < self._due:
            return
        self._due = time.perf_counter() + _PAUSE
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            console = Console(stderr=True)
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("step {task.completed}/{task.total}  {task.fields[facts]}"),
                TimeElapsedColumn(),
            )
            self._bar = Bar(*columns, console=console, disable=not console.is_terminal, transient=True)
            self._bar.start()
        if phase not in self._tasks:
            self._tasks[phase] = self._bar.add_task(phase, total=total, facts="")
        text = ", ".join(f"{value:,} {name}" for name, value in facts.items())
        self._bar.update(self._tasks[phase], completed=done, facts=text)
