"""SIGINT and SIGTERM while the program `solvent` is not running a command: before one begins, and after it has ended.

While a command runs, its `Session` handles them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDOUT, _STDERR = 1, 2


def interrupted_texts(code: int, as_json: bool) -> tuple[str, str]:
    """Return what a program that was interrupted before a command began prints: its result and its message."""
    error = {"kind": "Interrupted", "message": "interrupted"}
    record = {"error": error, "exit_code": code, "written": {}, "interrupted": True}
    return (json.dumps(record, indent=1) + "\n" if as_json else ""), "interrupted\n"


class Outside:
    """Handles both signals outside commands: they end the program until a command has ended, and are then ignored.

    What a command has printed and its exit code stand: a later signal must not add a second result.
    """

    def __init__(self) -> None:
        self._ended = False
        self._as_json = False

    def handle(self, as_json: bool) -> None:
        """Handle the signals of this process from now on, and print JSON if one ends it."""
        self._as_json = as_json
        for number in _SIGNALS:
            signal.signal(number, self._interrupt)

    def end(self) -> None:
        """Ignore the signals from now on, because a command has ended."""
        self._ended = True

    def ignore(self) -> None:
        """Let the system ignore the signals, for the rest of the process."""
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _interrupt(self, number: int, frame: object) -> None:
        """End the process at once, as there is nothing to clean up before a command begins.

        An exception could be lost, because this may be called anywhere, also in callbacks of Python's import system. A
        stream cannot be used, because it may be in the middle of an operation.
        """
        if self._ended:
            return
        code = 128 + number
        for file, text in zip((_STDOUT, _STDERR), interrupted_texts(code, self._as_json), strict=True):
            with contextlib.suppress(OSError):  # closed
                os.write(file, text.encode("ascii"))
        os._exit(code)


#: That of this process.
OUTSIDE = Outside()
