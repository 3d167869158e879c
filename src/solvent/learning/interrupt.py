"""Ctrl-C, noted in place of breaking off, so that a run ends between two episodes and loses nothing."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupt:
    """Notes the first Ctrl-C; a second one breaks off as usual. Elsewhere than in the main thread it does nothing.

    Attributes
    ----------
    pressed : bool

    Examples
    --------
    >>> with Interrupt() as interrupt:
    ...     signal.raise_signal(signal.SIGINT)
    ...     interrupt.pressed
    True
    """

    def __init__(self) -> None:
        self.pressed = False
        self._before: Any = None

    def __enter__(self) -> Self:
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(before):
            self._before = before
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        try:
            self._before(number, frame)
        except KeyboardInterrupt:
            if self.pressed:
                raise
            self.pressed = True
