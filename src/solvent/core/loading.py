"""Limits on loading files: size, expanded size and time.

Files may be untrusted, and a small file can expand to a large model: ranges of steps, aliases, compressed arrays, long
numbers. Readers check the limits in effect before they do the work.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from solvent.errors import LoadLimitError, ModelError, quote

#: The environment variable that sets limits, as in "seconds=3600 entries=1e9".
VARIABLE = "SOLVENT_LOAD_LIMITS"


@dataclass(frozen=True)
class LoadLimits:
    """Limits on loading a file.

    `solvent.load_model`, `solvent.load_policy` and `solvent.learn` have an argument `limits`. If it is not given, the
    environment variable `SOLVENT_LOAD_LIMITS` applies, as in `SOLVENT_LOAD_LIMITS="seconds=3600 entries=1e9"`, and
    otherwise the defaults below.

    Parameters
    ----------
    file_bytes : int
        Size of a binary file (NPZ model, policy), or of the arrays of a learner's checkpoint, in bytes.
    text_bytes : int
        Size of a text file (YAML, JSON) in bytes.
    expanded_bytes : int
        Total size of the arrays of a binary file in bytes.
    expansion : int
        Total size of the arrays relative to the size of the file. Arrays of up to 64 MiB are always allowed.
    nodes : int
        Number of values in a YAML file after its aliases are expanded. Ten times the number of values before is always
        allowed.
    entries : int
        Number of rows, outcomes and costs in all tables of a YAML or JSON file. Ten times the number in the file itself
        is always allowed.
    resources : int
        Number of resources.
    digits : int
        Number of digits of a number, at most 400.
    seconds : float
        Time in seconds. It is checked between pieces of work, so loading may take slightly longer.

    Examples
    --------
    >>> import solvent
    >>> solvent.LoadLimits(seconds=60).seconds
    60
    >>> from solvent.formats.files import parse_model
    >>> parse_model("{solvent: 1, horizon: 2}", limits=LoadLimits(text_bytes=10))
    Traceback (most recent call last):
    solvent.errors.LoadLimitError: file: expected at most 10 bytes of text, found 24; raise it with
    limits=LoadLimits(text_bytes=...) or SOLVENT_LOAD_LIMITS="text_bytes=..."
    """

    file_bytes: int = 4 * 2**30
    text_bytes: int = 256 * 2**20
    expanded_bytes: int = 16 * 2**30
    expansion: int = 200
    nodes: int = 100_000
    entries: int = 10_000_000
    resources: int = 1000
    digits: int = 400
    seconds: float = 600.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ModelError(f"LoadLimits, {each.name}", "a number above 0", quote(value))

    @classmethod
    def default(cls) -> LoadLimits:
        """Return the limits of the environment variable, or else the defaults.

        Raises
        ------
        ModelError
            If the variable is not of the form "name=number name=number".
        """
        text = os.environ.get(VARIABLE, "")
        if not text:
            return _DEFAULT
        known = {each.name for each in fields(cls)}
        values: dict[str, Any] = {}
        for part in text.replace(",", " ").split():
            name, _, number = part.partition("=")
            try:
                value = float(number)
            except ValueError:
                value = -1.0
            if name not in known or not value > 0:
                expected = f"limits such as seconds=60, of {', '.join(sorted(known))}"
                raise ModelError(VARIABLE, expected, quote(part))
            values[name] = value if name == "seconds" or value == float("inf") else int(value)
        return cls(**values)


_DEFAULT = LoadLimits()


@dataclass
class Load:
    """A load in progress: its limits and its start time."""

    limits: LoadLimits
    began: float

    def check_time(self) -> None:
        """Raise a `LoadLimitError` if the time limit is reached."""
        if time.monotonic() - self.began > self.limits.seconds:
            refuse("seconds", f"to load within {self.limits.seconds:g} seconds", "a file that takes longer")


_current: ContextVar[Load | None] = ContextVar("solvent_load", default=None)


@contextmanager
def loading(limits: LoadLimits | None) -> Iterator[Load]:
    """Apply limits while a file is loaded; without limits of its own, an inner load keeps those of the outer load."""
    outer = _current.get()
    if outer is not None and limits is None:
        yield outer
        return
    if limits is not None and not isinstance(limits, LoadLimits):
        raise ModelError("limits", "a LoadLimits, or None", quote(limits))
    load = Load(LoadLimits.default() if limits is None else limits, time.monotonic())
    token = _current.set(load)
    try:
        yield load
    finally:
        _current.reset(token)


def current_load() -> Load | None:
    """Return the load in progress; None if no file is being loaded."""
    return _current.get()


def current_limits() -> LoadLimits:
    """Return the limits of the load in progress, or the defaults."""
    load = _current.get()
    return LoadLimits.default() if load is None else load.limits


def check_time() -> None:
    """Raise a `LoadLimitError` if a load is in progress and its time limit is reached."""
    load = _current.get()
    if load is not None:
        load.check_time()


def check_limit(name: str, found: int, what: str, where: str = "file", *, always: int = 0) -> None:
    """Raise a `LoadLimitError` if a number exceeds both the limit of the given name and `always`.

    Parameters
    ----------
    name : str
        Field of `LoadLimits`.
    found : int
        The number.
    what : str
        What is counted, for the message.
    where : str
        Place for the message.
    always : int
        Number that is allowed regardless of the limit.

    Examples
    --------
    >>> check_limit("resources", 3, "resources")
    >>> check_limit("resources", 30_000, "resources")
    Traceback (most recent call last):
    solvent.errors.LoadLimitError: file: expected at most 1,000 resources, found 30,000; raise it with
    limits=LoadLimits(resources=...) or SOLVENT_LOAD_LIMITS="resources=..."
    """
    most = max(getattr(current_limits(), name), always)
    if found > most:
        refuse(name, f"at most {most:,} {what}", f"{found:,}", where)


def refuse(name: str, expected: str, found: str, where: str = "file") -> NoReturn:
    """Raise a `LoadLimitError` with a hint on how to raise the limit of the given name."""
    hint = f'raise it with limits=LoadLimits({name}=...) or {VARIABLE}="{name}=..."'
    raise LoadLimitError(where, expected, found, hint)
