"""Numba kernels: cached on disk if a cache folder can be written, else compiled once per process.

Time spent on preparing a kernel (waiting for the compiler, loading it from the cache or compiling it) is measured
separately, so that time limits and reported times are those of the computation alone. The first compilation is
announced on the terminal.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from solvent.core.interrupt import HELD, check_interrupt, held_back
from solvent.core.logs import get_logger
from solvent.core.memory import COMPILING, FIRST_LOADING, IMPORTS, LOADING, require_address_space
from solvent.core.preparation import preparing
from solvent.core.progress import announce

require_address_space(IMPORTS // 2, "importing Numba")

import numba  # noqa: E402  # with too little address space the import may hang or end the process

from solvent.core.kernel_cache import KernelCache, cache_folder  # noqa: E402

#: Parts of Numba without type annotations.
_core: Any = numba.core
_logger = get_logger(__name__)

__all__ = ["KERNELS", "compiled_kernels", "jit"]

F = TypeVar("F", bound=Callable[..., Any])

#: All kernels of the modules imported so far, without those that are always inlined.
KERNELS: list[Any] = []
#: Whether this process has loaded or compiled a kernel.
_loaded = False
#: No checks for division by zero, which no kernel performs, and no entry points for C, which are not used.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_NOTICE = "Compiling kernels for this machine (once, a few seconds)..."
_NOT_KEPT = "Compiling kernels (a few seconds in each process, as no folder can keep them)..."


def jit(function: F | None = None, **options: Any) -> Any:
    """Compile a kernel: `@jit`, or `@jit(inner=True)` for one that only other kernels call.

    A kernel that is called in a single place compiles fastest with `inline="always"`, and one that other kernels call
    in several places with `inner=True`. Pass counters as `np.int64(0)`: a literal 0 has its own type, for which the
    called kernel would be compiled once more.

    Compiled kernels are kept on disk (`kernel_cache`) or, if that is not possible, compiled once per process.
    """
    if function is None:
        return lambda kernel: jit(kernel, **options)
    if _core.config.DISABLE_JIT:
        # hashes and random numbers overflow, which compiled code ignores
        return np.errstate(over="ignore")(function)
    if options.pop("inner", False):
        options["no_cpython_wrapper"] = True
    kernel = numba.njit(**(_OPTIONS | options))(function)
    kernel._cache = KernelCache(kernel)
    kernel.__class__ = _Kernel
    if options.get("inline") != "always":
        KERNELS.append(kernel)
    return kernel


class _Kernel(_core.registry.CPUDispatcher):  # type: ignore[misc]
    """A compiled function that, called from Python, holds interrupts back until it has returned."""

    def __call__(self, *arguments: Any) -> Any:
        if HELD.depth == 0:
            with held_back():
                return super().__call__(*arguments)
        result = super().__call__(*arguments)
        if HELD.error is not None:
            check_interrupt()
        return result

    def _compile_for_args(self, *arguments: Any, **options: Any) -> Any:
        """Load or compile the kernel, or wait for another thread that does, while the clock of this thread stands.

        Raise an error if there is too little address space, as LLVM would end the process.
        """
        global _loaded
        require_address_space(LOADING if _loaded else FIRST_LOADING, "loading compiled kernels")
        _loaded = True
        with preparing():
            return super()._compile_for_args(*arguments, **options)


class _Compilation(_core.event.Listener):  # type: ignore[misc]
    """Records and logs compiled kernels, announces the first one, and pauses the garbage collector meanwhile.

    The collector would take a tenth of the time and find little. The compiler holds a lock, so that only one thread at
    a time gets here.
    """

    def __init__(self) -> None:
        self.kernels: list[Any] = []
        self._announced = self._collecting = False
        self._depth = 0

    def on_start(self, event: Any) -> None:
        """Record and log a kernel, and announce the first one."""
        if self._depth == 0:
            self._collecting = gc.isenabled()
            gc.disable()
        self._depth += 1  # `on_end` is also called if this raises an error
        check_interrupt()  # a kernel and those that it calls may take a long time
        require_address_space(COMPILING, "compiling kernels")
        if event.data["dispatcher"] not in KERNELS:  # a kernel of Numba itself, or of another package
            return
        self.kernels.append(event.data["dispatcher"])
        _logger.debug("compiling kernel %s", event.data["dispatcher"].py_func.__qualname__)
        if not self._announced:
            self._announced = announce(_NOTICE if cache_folder() else _NOT_KEPT)

    def on_end(self, event: Any) -> None:
        """Resume garbage collection after the outermost kernel, whether it could be compiled or not."""
        self._depth -= 1
        if self._depth == 0 and self._collecting:
            gc.enable()


_compilation = _Compilation()
_core.event.register("numba:compile", _compilation)


def compiled_kernels() -> list[Any]:
    """Return the kernels that this process has compiled, once for each combination of argument types."""
    return list(_compilation.kernels)
