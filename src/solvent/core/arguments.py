"""Checks of arguments that several public functions share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from solvent.errors import LocatedError, ModelError, SolventError, quote


@overload
def read_switch(name: str, value: object, *, optional: Literal[False] = False) -> bool: ...
@overload
def read_switch(name: str, value: object, *, optional: Literal[True]) -> bool | None: ...
def read_switch(name: str, value: object, *, optional: bool = False) -> bool | None:
    """Return True or False, or None if `optional`."""
    if value is None and optional:
        return None
    if not isinstance(value, bool | np.bool_):
        raise ModelError(name, "True or False" + (" or None" if optional else ""), quote(value))
    return bool(value)


def read_jobs(jobs: object) -> int | None:
    """Return the largest number of processes, or None if it was not given.

    Examples
    --------
    >>> read_jobs(2)
    2
    >>> read_jobs(0)
    Traceback (most recent call last):
    solvent.errors.ModelError: jobs: expected an integer of at least 1, found 0
    """
    if jobs is None:
        return None
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ModelError("jobs", "an integer of at least 1", quote(jobs))
    return jobs


def place_error(error: Exception, where: str) -> Exception:
    """Return the error of one of several tasks with its place, such as "models[3]", before its text.

    An error of another package is returned as it is, with a note.

    Examples
    --------
    >>> place_error(ModelError("budget", "a number", "'x'"), "models[3]")
    ModelError('models[3]: budget', 'a number', "'x'", '')
    >>> place_error(SolventError("no such package"), "models[3]")
    SolventError('models[3]: no such package')
    """
    if isinstance(error, LocatedError):
        return error.within(where)
    if isinstance(error, SolventError):
        return type(error)(f"{where}: {error}")
    error.add_note(f"in {where}")
    return error


def check_signature(function: Callable[..., Any], arguments: Sequence[str], where: str) -> None:
    """Raise a `ModelError` if a function cannot be called with positional arguments, as far as this can be known.

    Examples
    --------
    >>> check_signature(lambda state: 0, ("observation", "action"), "cost_bound")
    Traceback (most recent call last):
    solvent.errors.ModelError: cost_bound: expected a function of (observation, action), found one of (state)
    """
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # a function that is not written in Python
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        expected = f"a function of ({', '.join(arguments)})"
        raise ModelError(where, expected, f"one of ({', '.join(signature.parameters)})") from None
