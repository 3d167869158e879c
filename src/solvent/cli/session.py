"""One run of a command: its output streams, shared options, output files and interrupts.

The result goes to standard output, everything else (progress, notes, errors) to standard error.
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

from solvent.cli.signals import OUTSIDE
from solvent.formats.programs import ProgramOptions

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console, RenderableType

    from solvent.cli.outputs import Output
    from solvent.core.progress import ProgressSink

#: Seconds after which a lost interrupt is raised again.
_RETRY_DELAY = 0.02
#: Columns of output that is not a terminal, unless COLUMNS is set.
_DEFAULT_WIDTH = 120


class ExitCode(IntEnum):
    """Exit code of a command."""

    OK = 0
    INFEASIBLE = 1
    BAD_INPUT = 2
    LIMIT = 3
    INTERNAL_ERROR = 4
    RELAXED = 5
    INTERRUPTED = 130
    TERMINATED = 143


def console_for(stream: Any) -> Console:
    """Return a console that prints text literally, with colors only on a terminal."""
    import os

    from solvent.core.terminal import make_console

    width = None if stream.isatty() or os.environ.get("COLUMNS", "").isdigit() else _DEFAULT_WIDTH
    return make_console(file=stream, width=width, soft_wrap=False)


@dataclass
class Session:
    """One run of a command, with the options that all commands share.

    Attributes
    ----------
    command : str
        Name of the command.
    as_json : bool
        Print one JSON object instead of text.
    quiet, verbose : bool
        Print fewer notes, or more details.
    debug : bool
        Show the traceback of an error.
    interrupted : bool
        Whether the run received Ctrl-C (SIGINT) or SIGTERM.
    interrupted_code : ExitCode
        Exit code if the run is interrupted before there is a result.
    planned : dict of str to Output
        Files that will be written, by content.
    checkpoint : Path or None
        The folder from which an interrupted run can go on.
    program : ProgramOptions
        What to read from the file of a model checker.
    """

    command: str
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    interrupted: bool = False
    interrupted_code: ExitCode = ExitCode.INTERRUPTED
    planned: dict[str, Output] = field(default_factory=dict)
    checkpoint: Path | None = None
    program: ProgramOptions = field(default_factory=ProgramOptions)

    @cached_property
    def out(self) -> Console:
        """Console for the result (standard output)."""
        return console_for(sys.stdout)

    @cached_property
    def err(self) -> Console:
        """Console for progress, notes and errors (standard error)."""
        return console_for(sys.stderr)

    @property
    def progress(self) -> bool:
        """Whether to show progress; `open_progress` shows it on a terminal only."""
        return not self.quiet

    def working(self, what: str) -> AbstractContextManager[ProgressSink]:
        """Return a context that shows what is being done if it takes longer than a second."""
        from solvent.core.progress import open_progress

        return open_progress(self.progress, what)

    def print_result(self, text: RenderableType | None, record: dict[str, Any]) -> None:
        """Print the result as text, unless it is None, or as one JSON object."""
        if self.as_json:
            self.print_json(record)
        elif text is not None:
            self.print_text(text)

    def print_text(self, text: RenderableType) -> None:
        """Print a part of the result, without trailing blanks if the output is not a terminal."""
        if self.out.is_terminal:
            self.out.print(text)
            return
        with self.out.capture() as captured:
            self.out.print(text)
        print("\n".join(line.rstrip() for line in captured.get().splitlines()), file=sys.stdout)

    def print_json(self, record: dict[str, Any]) -> None:
        """Print one JSON object that starts with the command and the version."""
        from solvent._version import __version__
        from solvent.core.terminal import escape_json

        head = {"command": self.command, "version": __version__}
        text = json.dumps(head | record, indent=1, ensure_ascii=False, allow_nan=False)
        print(escape_json(text), file=sys.stdout)

    def warn(self, text: str) -> None:
        """Print a warning to standard error, also if `quiet`."""
        from rich.text import Text

        self.err.print(Text().append("warning: ", style="bold yellow").append(text), soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a note to standard error, unless `quiet`."""
        if not self.quiet:
            self.err.print(text, style="dim")

    def plan_files(self, **outputs: Output | None) -> None:
        """Register the files that will be written, so that an interrupted run can report which of them exist."""
        self.planned |= {content: output for content, output in outputs.items() if output is not None}

    def written(self) -> dict[str, dict[str, str | int | bool]]:
        """Return records of the planned files that have been written, by content."""
        return {content: output.record() for content, output in self.planned.items() if output.is_written()}

    @contextmanager
    def checkpoint_notes(self, checkpoint: Path | None) -> Iterator[None]:
        """Print warnings about checkpoints as notes; an interrupted run says where it can go on from."""
        import warnings

        from solvent.errors import CheckpointWarning

        self.checkpoint = checkpoint
        with warnings.catch_warnings():
            warnings.simplefilter("always", CheckpointWarning)
            show = warnings.showwarning

            def note(message: Warning | str, category: type[Warning], *place: Any) -> None:
                if issubclass(category, CheckpointWarning):
                    self.note(str(message))
                else:
                    show(message, category, *place)

            warnings.showwarning = note  # type: ignore[assignment]
            yield

    @contextmanager
    def handle_interrupts(self) -> Iterator[None]:
        """Turn SIGINT and SIGTERM into `Interrupted` and record them in `interrupted`."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        from solvent.core.interrupt import Interrupted

        active = True

        def again(number: int) -> None:
            if active:  # from another thread: raised here, it would be lost once more
                Timer(_RETRY_DELAY, _thread.interrupt_main, (number,)).start()

        def stop(number: int, frame: Any) -> None:
            self.interrupted = True
            self.interrupted_code = ExitCode.TERMINATED if number == signal.SIGTERM else ExitCode.INTERRUPTED
            if not self.debug:
                sys.unraisablehook = _ignore  # an interrupted compiler raises when its objects are deleted
            raise Interrupted(partial(again, number))

        hook = sys.unraisablehook
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            active = False
            OUTSIDE.end()
            for number, handler in before.items():
                signal.signal(number, handler)
            sys.unraisablehook = hook


def _ignore(unraisable: Any) -> None:
    """Ignore an exception that no code can catch."""
