"""Ctrl-C between two pieces of work: an interrupt that arrives in compiled code is held back to a safe point.

A Python exception that is raised while a compiled kernel is called, returns or is compiled can be lost or turn into a
`SystemError`. So every call of a kernel from Python (see `solvent.core.jit`) runs within `held_back()`, where the
handlers of SIGINT and SIGTERM only note what they would have raised. It is raised when the kernel has returned, by
`check_interrupt` between two pieces of work, or when the outermost `held_back` ends. A second signal is not held back.

Functions that call many kernels enter `held_back` once for all of them, as replacing handlers takes longer than a small
kernel. Handlers are replaced in the main thread only, where Python runs them, and put back by the outermost context.
Those that are not Python functions (the default, which ends the process, or "ignore") are left alone.
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
    #: What `signal` wraps: the same without turning numbers into names, which takes longer than all else here.
    _raw: Any = importlib.import_module("_signal")
except ImportError:  # another Python
    _raw = signal
#: Seconds between two looks at the signals while a function runs aside; a lock is not woken up on every system.
_PAUSE = 0.05
#: What is set when a function that runs aside has returned, for each that has not.
_aside: set[threading.Event] = set()


class Interrupted(KeyboardInterrupt):
    """An interrupt that cannot get lost: `again` is called if it is swallowed, as by a finalizer, before it is settled.

    Python code that is interrupted anywhere includes code that drops all exceptions.

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
        """Note that somebody deals with it."""
        self._lost.detach()


def settle(error: BaseException | None) -> None:
    """Note that an interrupt is dealt with, and may be forgotten."""
    if isinstance(error, Interrupted):
        error.settle()


class _Held:
    """The handlers that were replaced, and the exception that is held back; of the main thread alone."""

    def __init__(self) -> None:
        self.depth = 0
        self.polled = 0
        self.handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self.error: BaseException | None = None

    def replace(self) -> None:
        """Put our handler in place of those that are Python functions; all of them, or none if one of those raises."""
        try:
            for number in _SIGNALS:
                before = _raw.getsignal(number)
                if callable(before) and before != self.note:
                    self.handlers[number] = before  # first, as ours looks it up
                    _raw.signal(number, self.note)
        except ValueError:  # not the main interpreter, which alone has handlers
            self.handlers = {}
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        """Put the handlers back, except where somebody has set another one meanwhile.

        One that is back may raise before the others are; they are put back all the same.
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
        """Call the handler that was there before, and keep what it raises; the second time, let it through."""
        try:
            self.handlers[number](number, frame)
        except BaseException as error:
            if self.error is not None:
                raise
            self.error = error.with_traceback(None)

    def take(self) -> BaseException | None:
        """Return what is held back, which then is dealt with."""
        error, self.error = self.error, None
        return error


#: The one there is; `error` is other than None while an interrupt is held back.
HELD = _Held()


def _after_fork() -> None:
    """Put the handlers back in a forked process: nothing there may ever reach a safe point of ours."""
    HELD.restore()
    HELD.error = None
    _aside.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class held_back:  # noqa: N801  # reads like a function
    """Hold interrupts back, within, to the end of a kernel, `check_interrupt`, or the end of the outermost context.

    Parameters
    ----------
    polled : bool
        Hold them back to calls of `take_interrupt` instead, for work that must not end between two kernels.

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
                HELD.replace()  # an interrupt before that leaves everything as it was
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
        # another error may be the trace of a second interrupt in compiled code, and must not swallow the first
        if waiting is not None and (kind is None or issubclass(kind, Exception)):
            raise waiting


def is_interruptible() -> bool:
    """Whether interrupts are held back here, so that long work should look for them."""
    return HELD.depth > 0 and _in_main_thread()


def check_interrupt() -> None:
    """Raise what is held back, if anything is and nobody polls it; in the main thread only."""
    if HELD.error is not None and not HELD.polled and _in_main_thread():
        error = HELD.take()
        assert error is not None
        raise error


def take_interrupt() -> bool:
    """Return whether Ctrl-C was held back, for work that then ends early by itself; anything else is raised.

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
    """Call a function of foreign compiled code that cannot be interrupted, so that Ctrl-C ends the wait for it.

    In the main thread the function runs in a thread of its own. After an interrupt nobody waits for it any more before
    the process ends. It must not change what others read.

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
        except BaseException as error:  # raised where it is waited for
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
    """Whether a function runs aside for which nobody waits any more, or not yet."""
    return bool(_aside)


@atexit.register
def _end_what_runs_aside() -> None:
    """Wait, when the process ends, for functions that run aside: Python would end their threads, and they abort it.

    If it ends by an interrupt that nobody has caught, or one comes while it waits, the signal ends it at once.
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
