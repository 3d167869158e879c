"""What loading a file may cost at most: its size, what it expands to, and time.

Files come from anywhere, and a small one can ask for a lot: ranges of steps, aliases, compressed arrays, long numbers.
Readers look up the limits in effect here and refuse before the work is begun.
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
    """Limits on what loading a file may cost.

    `solvent.load_model`, `solvent.load_policy` and `solvent.learn` take one as `limits`. Otherwise the environment
    variable `SOLVENT_LOAD_LIMITS` decides, as in `SOLVENT_LOAD_LIMITS="seconds=3600 entries=1e9"`, or else the defaults
    below.

    Parameters
    ----------
    file_bytes : int
        Size of a binary file: NPZ models, policies, checkpoints.
    text_bytes : int
        Size of a YAML or JSON file.
    expanded_bytes : int
        Size of all arrays of a binary file once unpacked.
    expansion : int
        Size of these arrays relative to that of the file, where they take more than 64 MiB.
    nodes : int
        Values in a YAML file once its aliases are expanded; ten times as many as the file has are always allowed.
    entries : int
        Rows, outcomes and costs of all tables that the rows and steps of a YAML or JSON file stand for; ten times as
        many as the file has are always allowed.
    resources : int
        Number of resources.
    digits : int
        Digits of a number; at most 400, which is what numbers may have anywhere.
    seconds : float
        Time. It is looked at between pieces of work, so that loading may take a little longer.

    Examples
    --------
    >>> import solvent
    >>> solvent.LoadLimits(seconds=60).seconds
    60
    >>> from solvent.formats.files import loads
    >>> loads("{solvent: 1, horizon: 2}", limits=LoadLimits(text_bytes=10))
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
        """Return the limits that the environment variable sets, or the defaults.

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
                expected = f"limits such as seconds=60, out of {', '.join(sorted(known))}"
                raise ModelError(VARIABLE, expected, quote(part))
            values[name] = value if name == "seconds" or value == float("inf") else int(value)
        return cls(**values)


_DEFAULT = LoadLimits()


@dataclass
class Load:
    """One load under way: its limits, and when it began."""

    limits: LoadLimits
    began: float

    def check_time(self) -> None:
        """Raise a `LoadLimitError` once time is up."""
        if time.monotonic() - self.began > self.limits.seconds:
            refuse("seconds", f"to load within {self.limits.seconds:g} seconds", "a file that takes longer")


_current: ContextVar[Load | None] = ContextVar("solvent_load", default=None)


@contextmanager
def loading(limits: LoadLimits | None) -> Iterator[Load]:
    """Put limits into effect while a file is loaded; the outermost ones count."""
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
    """Return the load under way; None if what is read does not come from a file."""
    return _current.get()


def current_limits() -> LoadLimits:
    """Return the limits of the load under way, or the defaults."""
    load = _current.get()
    return LoadLimits.default() if load is None else load.limits


def check_time() -> None:
    """Raise a `LoadLimitError` if a load is under way whose time is up."""
    load = _current.get()
    if load is not None:
        load.check_time()


def check_limit(name: str, found: int, what: str, where: str = "file", *, always: int = 0) -> None:
    """Raise a `LoadLimitError` if there is more of something than `always` and than the limit of that name allows.

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
    """Raise the `LoadLimitError` that names a limit and how to raise it."""
    hint = f'raise it with limits=LoadLimits({name}=...) or {VARIABLE}="{name}=..."'
    raise LoadLimitError(where, expected, found, hint)
