"""One run of a command: where its answer goes, what is said beside it, and how it ends.

The answer goes to standard output, everything else (progress, notes, errors) to standard error.
"""

from __future__ import annotations

import _thread
import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, partial
from threading import Timer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from solvent.cli.outputs import Output
    from solvent.core.progress import ProgressSink

#: Seconds after which an interrupt that got lost is raised again.
_LATER = 0.02
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
    TERMINATED = 143


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
        Whether Ctrl-C was pressed, or the process was asked to end (SIGTERM).
    interrupted_code : Code
        The exit code of a run that is interrupted before there is an answer.
    planned : dict of str to Output
        The files that are to be written, by what they hold.
    """

    command: str
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    interrupted: bool = False
    interrupted_code: Code = Code.INTERRUPTED
    planned: dict[str, Output] = field(default_factory=dict)

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
        """Whether to show how far the work has come; on a terminal only, which `open_progress` looks at."""
        return not self.quiet

    def working(self, what: str) -> AbstractContextManager[ProgressSink]:
        """Return a context that names the work once it takes longer than a second."""
        from solvent.core.progress import open_progress

        return open_progress(self.progress, what)

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

    def will_write(self, **outputs: Output | None) -> None:
        """Note the files that are to be written, so that a run that is interrupted can tell which of them are there."""
        self.planned |= {what: output for what, output in outputs.items() if output is not None}

    def written(self) -> dict[str, dict[str, str | int | bool]]:
        """Return those of the planned files that are there by now, by what they hold."""
        return {what: output.written() for what, output in self.planned.items() if output.is_there()}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note Ctrl-C and SIGTERM, so that a result found before it is told apart from one that took its time."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        from solvent.core.interrupt import Interrupted

        watching = True

        def again(number: int) -> None:
            if watching:  # not from here, where it would be lost once more
                Timer(_LATER, _thread.interrupt_main, (number,)).start()

        def stop(number: int, frame: Any) -> None:
            self.interrupted = True
            self.interrupted_code = Code.TERMINATED if number == signal.SIGTERM else Code.INTERRUPTED
            if not self.debug:
                sys.unraisablehook = _ignore  # a compiler stopped halfway complains when it is cleared away
            raise Interrupted(partial(again, number))

        complain = sys.unraisablehook
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            watching = False
            for number, handler in before.items():
                signal.signal(number, handler)
            sys.unraisablehook = complain


def _ignore(unraisable: Any) -> None:
    """Say nothing of an exception that nobody could have caught."""
