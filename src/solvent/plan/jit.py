"""Numba, with kernels cached on disk where there is a place to write and compiled anew where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F | None = None, **options: Any) -> Any:
    """Compile a kernel: `@jit`, or `@jit(parallel=True)`.

    Kernels are cached beside their source or, if that is read-only, in the user's cache folder; if neither can be
    written they are compiled once per process.
    """
    if function is None:
        return lambda kernel: jit(kernel, **options)
    try:
        return numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # numba found no folder to cache in
        return numba.njit(nogil=True, **options)(function)
