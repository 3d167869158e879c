"""Compiled kernels on disk: one file for each kernel and types of its arguments, named by all that determines it.

    name = digest(versions, processor, types of arguments, options and content of the kernel)
    file = digest(name, data), data

The content of a kernel is its bytecode and the values of the globals that it names, including, in the same way, the
functions that it calls. File names, line numbers and dates are not part of it, so that an installed package and a clone
share entries. Data are a pickle with machine code: a folder or file that other users could have changed is not used.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import CodeType, EllipsisType, FunctionType, ModuleType, NoneType
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np

from solvent.core.logs import get_logger

#: Parts of Numba without type annotations.
_core: Any = numba.core
_logger = get_logger(__name__)

_PYTHON = (sys.implementation.cache_tag, getattr(sys, "abiflags", ""))
_VERSIONS = (numba.__version__, llvmlite.__version__, np.__version__, *_PYTHON)
#: Types whose values are determined by `repr`.
_PLAIN = (bool, int, float, complex, str, bytes, slice, NoneType, EllipsisType)
#: What a code object does, without where it comes from; Numba changes `co_flags` if a kernel is profiled.
_CODE = (
    "co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount",
    "co_posonlyargcount", "co_kwonlyargcount", "co_exceptiontable",
)  # fmt: skip
#: Settings of Numba that change the code of kernels.
_SETTINGS = (
    "BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT", "USING_SVML", "DISABLE_INTEL_SVML",
)  # fmt: skip
#: Modules whose content is determined by the versions above.
_MODULES = ("math", "numpy")
#: Seconds after which an entry that was not used is removed, and between two updates of when it was used.
_KEPT, _NOTED = 90 * 86400.0, 86400.0


class _UnknownContent(Exception):  # noqa: N818  # caught below: the kernel is not cached
    """A global whose content cannot be determined."""


def digest(kernel: Any, known: dict[int, str | None] | None = None) -> str:
    """Return a digest of a kernel and of all that it calls; `known` has those of kernels that were met before.

    Raise an error if there is none, or if the kernel was compiled in this process from something else: machine code of
    kernels that call it may contain that.
    """
    known = {} if known is None else known
    if id(kernel) not in known:
        known[id(kernel)] = None  # in case it calls itself
        facts = (sorted(kernel.targetoptions.items()), content(kernel.py_func, known))
        known[id(kernel)] = hashlib.sha256(repr(facts).encode()).hexdigest()
    found = known[id(kernel)]
    if found is None or getattr(kernel._cache, "used", None) not in (None, found):
        raise _UnknownContent(kernel)
    return found


def content(value: Any, known: dict[int, str | None] | None = None, seen: dict[Any, int] | None = None) -> Any:
    """Return nested tuples of text and numbers that are equal for equal constants, functions or types of arguments."""
    known = {} if known is None else known
    seen = {} if seen is None else seen
    inner = functools.partial(content, known=known, seen=seen)
    kind = type(value).__name__
    if type(value) in _PLAIN:
        return kind, repr(value)
    if type(value) is tuple:
        return kind, *map(inner, value)
    if type(value) is frozenset:  # in an order that does not depend on hashes
        return kind, *sorted(map(inner, value), key=repr)
    if isinstance(value, np.generic | np.ndarray):
        return kind, repr(value.dtype), value.shape, value.tobytes()
    if isinstance(value, ModuleType) and value.__name__ in _MODULES:
        return kind, value.__name__
    if isinstance(value, CodeType):
        return kind, *(inner(getattr(value, name)) for name in _CODE)
    if isinstance(value, _core.registry.CPUDispatcher):
        return kind, digest(value, known)
    if isinstance(value, type) and issubclass(value, tuple):  # a named tuple
        defaults = tuple(getattr(value, "_field_defaults", {}).items())
        return kind, value.__module__, value.__qualname__, getattr(value, "_fields", ()), inner(defaults)
    if isinstance(value, numba.types.Type) and " at 0x" not in str(value):  # otherwise it is known by address only
        return kind, str(value), inner(getattr(value, "instance_class", None)), *map(inner, getattr(value, "types", ()))
    if isinstance(value, FunctionType):
        if value in seen:
            return kind, seen[value]
        seen[value] = len(seen)
        around = value.__globals__
        used = tuple((name, inner(around[name])) for name in _names(value.__code__) if name in around)
        cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
        own = (value.__code__, value.__defaults__, tuple((value.__kwdefaults__ or {}).items()), cells)
        return kind, value.__module__, value.__qualname__, inner(own), used
    raise _UnknownContent(value)


def _names(code: CodeType) -> list[str]:
    """Return the names that code and the functions within it use, of globals and of attributes."""
    nested = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return sum(nested, list(code.co_names))


class KernelCache(_core.caching.NullCache):  # type: ignore[misc]
    """The entries of one kernel, in place of Numba's cache.

    Numba's file names, and its checks of whether an entry is up to date, depend on paths and on one source file.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        #: Digest of the kernel when this process first compiled or loaded it; globals may be changed later.
        self.used: str | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a cached kernel, or None."""
        with suppress(Exception):  # a pickle can raise any error
            target_context.refresh()
            path = self._path(sig, target_context)
            data = None if path is None else _read(path)
            if data is not None:
                return _core.compiler.CompileResult._rebuild(target_context, *pickle.loads(data))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a kernel to the cache if possible."""
        with suppress(Exception):  # a full or read-only disk, for example: the kernel stays in memory
            path = None if data.lifted or data.library.has_dynamic_globals else self._path(sig, data.target_context)
            if path is not None:
                _write(path, _core.serialize.dumps(data._reduce()))
                _remove_unused(path.parent)

    def _path(self, sig: Any, target_context: Any) -> Path | None:
        """Return the path of an entry; None if the kernel cannot be cached."""
        folder = cache_folder()
        if folder is None:
            return None
        try:
            facts = (content(tuple(sig)), digest(self._kernel))
        except _UnknownContent:
            return None
        self.used = facts[1]
        settings = [int(getattr(_core.config, name, 0) or 0) for name in _SETTINGS]
        key = (_VERSIONS, target_context.codegen().magic_tuple(), settings, facts)
        return folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()}.kernel"


def cache_folder() -> Path | None:
    """Return the folder of all entries; None if none can be used."""
    return _folder(_core.config.CACHE_DIR)


@functools.cache
def _folder(chosen: str) -> Path | None:
    """Return the folder of all entries, within the one chosen by NUMBA_CACHE_DIR or the user's cache folder."""
    own = _core.caching.AppDirs("solvent", appauthor=False).user_cache_dir
    try:
        folder = Path(chosen, "solvent").absolute() if chosen else Path(own)
        if not folder.is_absolute():  # there is no home folder
            return None
        for each in (*reversed(folder.parents), folder):
            if not each.exists():
                each.mkdir(mode=0o700, exist_ok=True)
        around = {*folder.parents, *folder.resolve().parents}  # those of a link and of where it leads
        safe = _is_safe(folder, folder.stat()) and all(_is_safe(each, each.stat(), own=False) for each in around)
    except (OSError, RuntimeError):  # RuntimeError: a cycle of links
        return None
    return folder if safe else None


def _is_safe(path: Path, state: os.stat_result, *, own: bool = True) -> bool:
    """Return whether no other user can change a file or folder; otherwise log a warning.

    If not `own`, it is a folder around that of the cache: it may belong to the administrator or be writable for the
    user's own group, and others may add to it, but not replace what is in it.
    """
    if not hasattr(os, "geteuid"):
        return True
    user, mode = os.geteuid(), stat.S_IMODE(state.st_mode)
    if own:
        safe = state.st_uid == user and not mode & 0o022
    else:
        others = 0o002 if state.st_gid == os.getegid() else 0o022
        safe = state.st_uid in (0, user) and (not mode & others or bool(mode & stat.S_ISVTX))
    if not safe:
        _logger.warning(
            "%s: expected a cache of compiled kernels that only user %d can change, found owner %d and mode %o; "
            "not used", path, user, state.st_uid, mode,
        )  # fmt: skip
    return safe


def _read(path: Path) -> bytes | None:
    """Return the data of an entry; None if there is none, or if it is damaged."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode) or not _is_safe(path, state):
            return None
        found = file.read()
    if time.time() - state.st_mtime > _NOTED:
        with suppress(OSError):
            os.utime(path)
    checksum, data = found[:32], found[32:]
    return data if checksum == _checksum(path, data) else None


def _write(path: Path, data: bytes) -> None:
    """Write an entry, readable by this user only, under a temporary name and move it into place."""
    descriptor, temporary = tempfile.mkstemp(path.suffix, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_checksum(path, data) + data)
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        os.unlink(temporary)  # noqa: PTH108
        raise


def _checksum(path: Path, data: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + data).digest()


@functools.cache
def _remove_unused(folder: Path) -> None:
    """Remove entries that were not used for a long time; called when one was added, once per process."""
    for path in folder.glob("*.kernel"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT:
                path.unlink()
