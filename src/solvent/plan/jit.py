"""Numba, with kernels cached on disk where there is a place to write and compiled anew where there is none."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _renamed(function: Any, suffix: str) -> Any:
    """Return a copy under another name: numba finds cached kernels by name, not by how they were compiled."""
    copy = types.FunctionType(function.__code__, function.__globals__, function.__name__ + suffix)
    copy.__qualname__, copy.__doc__ = function.__qualname__ + suffix, function.__doc__
    return copy


def jit(function: F | None = None, **options: Any) -> Any:
    """Compile a kernel: `@jit`, or `@jit(parallel=True)`.

    Kernels are cached beside their source or, if that is read-only, in the user's cache folder; if neither can be
    written they are compiled once per process.
    """
    if function is None:
        return lambda kernel: jit(kernel, **options)
    if options.get("parallel"):
        function = _renamed(function, "_parallel")
    try:
        return numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # numba found no folder to cache in
        return numba.njit(nogil=True, **options)(function)
