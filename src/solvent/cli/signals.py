"""SIGINT and SIGTERM while the program `solvent` is not running a command: before one begins, and after it has ended.

While a command runs, its `Session` handles them.
"""

from __future__ import annotations

import signal

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal ended the program before a command began.

    Not a `KeyboardInterrupt` itself: if that is raised while Python executes a string, as `dataclasses` does, Python
    ends the process by SIGINT, even if it was caught.
    """


class Outside:
    """Handles both signals outside commands: they end the program until a command has ended, and are then ignored.

    What a command has printed and its exit code stand: a later signal must not add a second result.

    Attributes
    ----------
    code : int
        Exit code of a program that was interrupted before a command began.
    """

    def __init__(self) -> None:
        self.code = 128 + signal.SIGINT
        self._ended = False

    def handle(self) -> None:
        """Handle the signals of this process from now on."""
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
        if not self._ended:
            self.code = 128 + number
            raise Stopped


#: That of this process.
OUTSIDE = Outside()
