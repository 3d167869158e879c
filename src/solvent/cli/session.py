"""One run of a command: where its answer goes, what is said beside it, and how it ends.

The answer goes to standard output, everything else (progress, notes, errors) to standard error.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from solvent.core.progress import Progress

#: Columns of output that nobody watches and whose width nobody asked for.
_PLAIN_WIDTH = 120


class Code(IntEnum):
    """What a command ends with."""

    OK = 0
    INFEASIBLE = 1
    BAD_INPUT = 2
    LIMIT = 3
    MISTAKE = 4
    INTERRUPTED = 130


def console_for(stream: Any) -> Console:
    """Return a console that prints text to the letter, no colors that nobody asked for."""
    import os

    from solvent.core.terminal import make_console

    watched = stream.isatty()
    width = None if watched or os.environ.get("COLUMNS", "").isdigit() else _PLAIN_WIDTH
    return make_console(file=stream, width=width, soft_wrap=False)


@dataclass
class Session:
    """What the options that all commands share ask for.

    Attributes
    ----------
    command : str
        The name of the command.
    as_json : bool
        Print one JSON object in place of text.
    quiet, verbose : bool
        Say less or more beside the answer.
    debug : bool
        Show the traceback of an error.
    interrupted : bool
        Whether Ctrl-C was pressed.
    """

    command: str
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    interrupted: bool = False

    @cached_property
    def out(self) -> Console:
        """Where the answer goes."""
        return console_for(sys.stdout)

    @cached_property
    def err(self) -> Console:
        """Where everything else goes."""
        return console_for(sys.stderr)

    @property
    def progress(self) -> bool:
        """Whether to show how far the work has come; on a terminal only, which `Progress` looks at."""
        return not self.quiet

    def working(self, what: str) -> Progress:
        """Return a context that names the work once it takes longer than a second."""
        from solvent.core.progress import Progress

        return Progress(show=self.progress, waiting=what)

    def answer(self, text: RenderableType, record: dict[str, Any]) -> None:
        """Print the answer, as text or as one JSON object."""
        if self.as_json:
            self.print_json(record)
        else:
            self.say(text)

    def say(self, text: RenderableType) -> None:
        """Print a part of the answer; where nobody watches, without blanks at the ends of lines."""
        if self.out.is_terminal:
            self.out.print(text)
            return
        with self.out.capture() as captured:
            self.out.print(text)
        print("\n".join(line.rstrip() for line in captured.get().splitlines()), file=sys.stdout)

    def print_json(self, record: dict[str, Any]) -> None:
        """Print one JSON object, the command and the version first."""
        from solvent._version import __version__
        from solvent.core.terminal import escape_json

        head = {"command": self.command, "version": __version__}
        text = json.dumps(head | record, indent=1, ensure_ascii=False, allow_nan=False)
        print(escape_json(text), file=sys.stdout)

    def note(self, text: str) -> None:
        """Say something beside the answer, unless asked to be quiet."""
        if not self.quiet:
            self.err.print(text, style="dim")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note Ctrl-C, so that a result found before it is told apart from one that took its time."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: Any) -> None:
            self.interrupted = True
            if not self.debug:
                sys.unraisablehook = _ignore  # a compiler stopped halfway complains when it is cleared away
            raise KeyboardInterrupt

        before, complain = signal.signal(signal.SIGINT, stop), sys.unraisablehook
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            sys.unraisablehook = complain


def _ignore(unraisable: Any) -> None:
    """Say nothing of an exception that nobody could have caught."""
