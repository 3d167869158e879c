"""Numba, with kernels cached on disk where there is a place to write and compiled in memory where there is none.

Preparing a kernel (waiting for the compiler, loading from the cache or compiling) is timed apart, so that limits on
time hold for the work alone, and is announced on a terminal when it really is a compilation.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from solvent.core.interrupt import HELD, check_interrupt, held_back
from solvent.core.memory import COMPILING, FIRST_LOADING, IMPORTS, LOADING, require_address_space
from solvent.core.preparation import preparation_clock, preparation_seconds
from solvent.core.progress import announce

require_address_space(IMPORTS // 2, "importing Numba")

import numba  # noqa: E402  # only where there is enough address space: else the process may end, or never return

#: Parts of numba that have no types.
_core: Any = numba.core

__all__ = ["KERNELS", "compiled_kernels", "jit", "preparation_seconds"]

F = TypeVar("F", bound=Callable[..., Any])

#: Every kernel of the modules imported so far, except those that only become part of others.
KERNELS: list[Any] = []
#: Without checks for divisions by zero, which no kernel makes, and without entry points for C, which nobody uses.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_NOTICE = "Compiling kernels for this machine (once, a few seconds)..."


def jit(function: F | None = None, **options: Any) -> Any:
    """Compile a kernel: `@jit`, or `@jit(inner=True)` for one that only other kernels call.

    A kernel that one other calls, in one place, takes least time to compile with `inline="always"`, and one that is
    called in several places with `inner=True`. Pass numbers that are counted up as `np.int64(0)`: a plain 0 has a type
    of its own, for which the called kernel is compiled once more.

    Kernels are cached beside their source or, if that is read-only, in the user's cache folder; if neither can be
    written, or the disk is full, they are compiled once per process.
    """
    if function is None:
        return lambda kernel: jit(kernel, **options)
    if _core.config.DISABLE_JIT:
        return np.errstate(over="ignore")(
            function
        )  # hashes and random numbers overflow, and compiled code says nothing
    if options.pop("inner", False):
        options["no_cpython_wrapper"] = True
    kernel = numba.njit(**(_OPTIONS | options))(function)
    with contextlib.suppress(RuntimeError):  # numba found no folder to cache in
        kernel._cache = _Cache(function)
    kernel.__class__ = _Kernel
    if options.get("inline") != "always":
        KERNELS.append(kernel)
    return kernel


class _Kernel(_core.registry.CPUDispatcher):  # type: ignore[misc]
    """A compiled function which, called from Python, holds interrupts back until it has returned."""

    def __call__(self, *arguments: Any) -> Any:
        if HELD.depth == 0:
            with held_back():
                return super().__call__(*arguments)
        result = super().__call__(*arguments)
        if HELD.error is not None:
            check_interrupt()
        return result


class _Cache(_core.caching.FunctionCache):  # type: ignore[misc]
    """Numba's cache, in which a file that cannot be read or written is no error.

    Numba's key of an entry is made of the kernel's signature, its code and the processor. Here it also says whether
    array bounds are checked, and holds a digest of all kernels, as a kernel contains those that it calls.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a cached kernel, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a damaged file can make the reader raise anything
            try:
                self.flush()  # else it could not be written either
            except OSError:
                self.disable()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a kernel to the cache if possible."""
        try:
            super().save_overload(sig, data)
        except OSError:  # a full or read-only disk: the kernel stays in memory
            self.disable()

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), bool(_core.config.BOUNDSCHECK), _digest_of_kernels())


@functools.cache
def _digest_of_kernels() -> str:
    """Return a digest of the source of all kernels and of the named tuples that they take."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted([*package.rglob("*kernels.py"), *package.rglob("arrays.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Preparation(_core.event.Listener):  # type: ignore[misc]
    """Tells the clock of each thread when it prepares kernels; the compiler calls itself for kernels within kernels."""

    _used = False

    def on_start(self, event: Any) -> None:
        """Start the clock, unless there is too little address space: LLVM would end the process."""
        require_address_space(LOADING if self._used else FIRST_LOADING, "loading compiled kernels")
        self._used = True
        preparation_clock().begin()

    def on_end(self, event: Any) -> None:
        """Stop the clock."""
        preparation_clock().end()


class _Compilation(_core.event.Listener):  # type: ignore[misc]
    """Notes kernels that are compiled, announces the first, and keeps the garbage collector from the compiler.

    The collector would take a tenth of the time and find little. The compiler holds its lock meanwhile, so this is one
    thread at a time.
    """

    def __init__(self) -> None:
        self.kernels: list[Any] = []
        self._announced = self._collecting = False
        self._depth = 0

    def on_start(self, event: Any) -> None:
        """Note a kernel, and announce the first."""
        check_interrupt()  # a kernel and those that it calls may take long
        require_address_space(COMPILING, "compiling kernels")
        if self._depth == 0:
            self._collecting = gc.isenabled()
            gc.disable()
        self._depth += 1
        if event.data["dispatcher"] not in KERNELS:  # a part of numba's own, or somebody else's
            return
        self.kernels.append(event.data["dispatcher"])
        if not self._announced:
            self._announced = announce(_NOTICE)

    def on_end(self, event: Any) -> None:
        """Let the collector go on after the outermost kernel, whether it could be compiled or not."""
        self._depth -= 1
        if self._depth == 0 and self._collecting:
            gc.enable()


_preparation, _compilation = _Preparation(), _Compilation()
_core.event.register("numba:compiler_lock", _preparation)
_core.event.register("numba:compile", _compilation)


def compiled_kernels() -> list[Any]:
    """Return the kernels that this process has compiled, each as often as there were other types of arguments."""
    return list(_compilation.kernels)
