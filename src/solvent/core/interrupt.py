"""Interrupts (Ctrl-C) in compiled code: they are held back until a safe point.

A Python exception that is raised while a compiled kernel is called, returns or is compiled can be lost or turn into a
`SystemError`. Therefore every call of a kernel from Python (see `solvent.core.jit`) runs within `held_back()`, where
the handlers of SIGINT and SIGTERM only store the exception that they would have raised. It is raised when the kernel
has returned, by `check_interrupt` between two pieces of work, or when the outermost `held_back` ends. A second signal
is not held back.

Functions that call many kernels enter `held_back` once for all of them, because replacing handlers takes longer than a
small kernel. Handlers are replaced in the main thread only, where Python runs them, and restored by the outermost
context. Handlers that are not Python functions (the default, which ends the process, or "ignore") are not replaced.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import importlib
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

_SIGNALS = (int(signal.SIGINT), int(signal.SIGTERM))
try:
    #: The module that `signal` wraps: faster, as it does not convert numbers into enum members.
    _raw: Any = importlib.import_module("_signal")
except ImportError:  # another Python implementation
    _raw = signal
#: Seconds between two checks for signals while a function runs aside; not every system wakes up a waiting lock.
_PAUSE = 0.05
#: For each function of `run_aside` that is running, an event that is set when it returns.
_aside: set[threading.Event] = set()


class Interrupted(KeyboardInterrupt):
    """An interrupt that cannot get lost: `again` is called if it is swallowed before it is settled.

    An interrupt can be raised anywhere, also in code that ignores all exceptions, such as a finalizer.

    Examples
    --------
    >>> try:
    ...     raise Interrupted(lambda: print("lost"))
    ... except KeyboardInterrupt:
    ...     pass
    lost
    """

    def __init__(self, again: Callable[[], None]) -> None:
        super().__init__()
        self._lost = weakref.finalize(self, again)
        self._lost.atexit = False

    def settle(self) -> None:
        """Mark the interrupt as handled."""
        self._lost.detach()


def settle(error: BaseException | None) -> None:
    """Mark an interrupt as handled."""
    if isinstance(error, Interrupted):
        error.settle()


class Terminated(SystemExit):
    """SIGTERM was received."""


class terminable:  # noqa: N801  # reads like a function
    """Context in which SIGTERM raises `Terminated`, so that work can be saved, and then ends the process as usual.

    Nothing changes if SIGTERM has a handler already, or in a thread other than the main one.
    """

    def __init__(self) -> None:
        self._replaced = False

    def __enter__(self) -> Self:
        if _in_main_thread():
            with contextlib.suppress(ValueError):  # only the main interpreter has handlers
                if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                    signal.signal(signal.SIGTERM, _raise_terminated)
                    self._replaced = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._replaced:
            return
        self._replaced = False
        if signal.getsignal(signal.SIGTERM) == _raise_terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if isinstance(error, Terminated):
            signal.raise_signal(signal.SIGTERM)


def _raise_terminated(number: int, frame: FrameType | None) -> None:
    raise Terminated(128 + number)


class _Held:
    """The handlers that were replaced, and the exception that is held back; used by the main thread only."""

    def __init__(self) -> None:
        self.depth = 0
        self.polled = 0
        self.handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self.error: BaseException | None = None

    def replace(self) -> None:
        """Replace all handlers that are Python functions by `note`; none of them if one raises an exception."""
        try:
            for number in _SIGNALS:
                before = _raw.getsignal(number)
                if callable(before) and before != self.note:
                    self.handlers[number] = before  # first, because `note` looks it up
                    _raw.signal(number, self.note)
        except ValueError:  # only the main interpreter has handlers
            self.handlers = {}
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        """Restore the handlers, except where another one was set meanwhile.

        A restored handler may raise an exception before the others are restored; they are restored nevertheless.
        """
        raised: BaseException | None = None
        while self.handlers:
            try:
                for number, before in self.handlers.items():
                    if _raw.getsignal(number) == self.note:
                        _raw.signal(number, before)
                self.handlers = {}
            except ValueError:  # not the main interpreter any more
                self.handlers = {}
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised

    def note(self, number: int, frame: FrameType | None) -> None:
        """Call the original handler and store the exception that it raises; a second exception is not held back."""
        try:
            self.handlers[number](number, frame)
        except BaseException as error:
            if self.error is not None:
                raise
            self.error = error.with_traceback(None)

    def take(self) -> BaseException | None:
        """Return the exception that is held back, and forget it."""
        error, self.error = self.error, None
        return error


#: The only instance; `error` is not None while an interrupt is held back.
HELD = _Held()


def _after_fork() -> None:
    """Restore the handlers in a forked process, which may never reach a safe point."""
    HELD.restore()
    HELD.error = None
    _aside.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class held_back:  # noqa: N801  # reads like a function
    """Context in which interrupts are held back until a kernel returns, `check_interrupt`, or the outermost one ends.

    Parameters
    ----------
    polled : bool
        If True, hold them back until `take_interrupt` is called, for work that must not end between two kernels.

    Examples
    --------
    >>> try:
    ...     with held_back():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("still here")
    ...         check_interrupt()
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    still here
    interrupted
    """

    def __init__(self, *, polled: bool = False) -> None:
        self._polled = polled

    def __enter__(self) -> Self:
        self._main = _in_main_thread()
        if self._main:
            if HELD.depth == 0:
                HELD.error = None
                HELD.replace()  # an interrupt before this changes nothing
            HELD.polled += self._polled
            HELD.depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._main:
            return
        HELD.polled -= self._polled
        HELD.depth -= 1
        if HELD.depth > 0:
            return
        HELD.restore()
        waiting = HELD.take()
        # another error may be caused by a second interrupt in compiled code, and must not replace the first one
        if waiting is not None and (kind is None or issubclass(kind, Exception)):
            raise waiting


def is_interruptible() -> bool:
    """Return whether interrupts are held back here, so that long work should check for them."""
    return HELD.depth > 0 and _in_main_thread()


def check_interrupt() -> None:
    """Raise the exception that is held back, if there is one and it is not polled; in the main thread only."""
    if HELD.error is not None and not HELD.polled and _in_main_thread():
        error = HELD.take()
        assert error is not None
        raise error


def take_interrupt() -> bool:
    """Return whether Ctrl-C was held back, for work that then ends by itself; other exceptions are raised.

    Examples
    --------
    >>> with held_back(polled=True):
    ...     signal.raise_signal(signal.SIGINT)
    ...     take_interrupt(), take_interrupt()
    (True, False)
    """
    if HELD.error is None or not _in_main_thread():
        return False
    error = HELD.take()
    if not isinstance(error, KeyboardInterrupt):
        assert error is not None
        raise error
    settle(error)
    return True


def run_aside(function: Callable[[], T]) -> T:
    """Call a function that cannot be interrupted, such as a solver library, so that Ctrl-C ends the wait for it.

    When called from the main thread, the function runs in another thread. After an interrupt its result is ignored, and
    it is waited for only when the process ends. It must not modify shared data.

    Examples
    --------
    >>> run_aside(lambda: 6 * 7)
    42
    """
    if not _in_main_thread():
        return function()
    results: list[T] = []
    errors: list[BaseException] = []
    context = contextvars.copy_context()

    returned = threading.Event()

    def work() -> None:
        try:
            results.append(context.run(function))
        except BaseException as error:  # raised by the waiting thread
            errors.append(error)
        finally:
            _aside.discard(returned)
            returned.set()

    _aside.add(returned)
    # a thread that is interrupted in `join` counts as stopped, so the event is waited for
    threading.Thread(target=work, name="solvent-aside", daemon=True).start()
    while not returned.wait(_PAUSE):
        check_interrupt()
    if errors:
        raise errors[0]
    return results[0]


def runs_aside() -> bool:
    """Return whether a function of `run_aside` is still running."""
    return bool(_aside)


@atexit.register
def _end_what_runs_aside() -> None:
    """Wait for functions of `run_aside` when the process ends: if Python ended their threads, the process would abort.

    If the process ends by an uncaught interrupt, or is interrupted while it waits, the signal ends it at once.
    """
    interrupted = isinstance(getattr(sys, "last_value", None), KeyboardInterrupt)
    try:
        for returned in list(_aside):
            if interrupted:
                raise KeyboardInterrupt
            returned.wait()
    except KeyboardInterrupt:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
