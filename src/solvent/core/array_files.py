"""Arrays in numbered files of a folder: written once, read through memory maps, never changed."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import stat
import tempfile
import weakref
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from solvent.core.files import lock_file
from solvent.errors import ModelError, quote

#: Names of the files. Only files with such names are ever removed.
_FILE = re.compile(r"(\d{8,18})\.npy")
_PLAIN_TYPE = re.compile(r"[<|][iufb][1248]")
#: Number of bytes that are written or read at a time.
_PIECE = 1 << 24
_MOST_DIMENSIONS = 8
#: Length in bytes of the header of a file.
_HEADER = 128
#: Names of temporary folders, and of the file in each that is locked while it is used.
_TEMPORARY, _LOCK = "solvent-spill-", "lock"


@dataclass(frozen=True)
class ArrayFile:
    """Where an array is stored, and what it must look like when it is read.

    Attributes
    ----------
    number : int
        Number of the file.
    dtype : str
        Type of the entries, as in "<f8".
    shape : tuple of int
    crc : int
        CRC-32 of the content.
    """

    number: int
    dtype: str
    shape: tuple[int, ...]
    crc: int

    @property
    def name(self) -> str:
        """Name of the file."""
        return f"{self.number:08d}.npy"

    @property
    def size(self) -> int:
        """Number of bytes of the array."""
        return int(np.prod(self.shape, dtype=object)) * np.dtype(self.dtype).itemsize

    def to_json(self) -> list[Any]:
        """Return a description for a JSON file."""
        return [self.number, self.dtype, list(self.shape), self.crc]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return what `to_json` described; raises a `ModelError` if it is no such description."""
        try:
            number, dtype, shape, crc = value
            whole = [number, crc, *shape]
            fits = all(type(each) is int and 0 <= each < 2**62 for each in whole) and len(shape) <= _MOST_DIMENSIONS
            fits = fits and isinstance(dtype, str) and _PLAIN_TYPE.fullmatch(dtype) is not None
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise ModelError("array", "a number, a type, a shape and a checksum", quote(value))
        return cls(number, np.dtype(dtype).str, tuple(shape), crc)


class ArrayWriter:
    """A new file to which arrays of one type are appended, one after another.

    Parameters
    ----------
    path : Path
        The file; its name is a number.
    dtype : dtype
    """

    def __init__(self, path: Path, dtype: Any) -> None:
        self._path, self._dtype = path, np.dtype(dtype)
        if not _PLAIN_TYPE.fullmatch(self._dtype.str):
            raise TypeError(f"arrays of numbers or truth values only, not of {self._dtype}")
        self._crc, self.length = 0, 0
        self._file = path.open("xb", buffering=0)
        try:
            self._write(bytes(_HEADER))
        except BaseException:
            self.discard()
            raise

    def _write(self, content: bytes | memoryview) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[self._file.write(rest) :]

    def append(self, array: NDArray[Any]) -> None:
        """Write the entries of an array; its shape is lost."""
        array = np.ascontiguousarray(array, self._dtype)
        data = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
        for begin in range(0, len(data), _PIECE):
            piece = data[begin : begin + _PIECE]
            self._crc = zlib.crc32(piece, self._crc)
            self._write(piece)
        self.length += array.size

    def close(self, shape: tuple[int, ...] | None = None) -> ArrayFile:
        """Write the shape, by default all entries in one dimension, and return what was written."""
        shape = (self.length,) if shape is None else shape
        self._file.seek(0)
        self._write(_header(self._dtype, shape))
        self._file.close()
        return ArrayFile(int(self._path.stem), self._dtype.str, shape, self._crc)

    def discard(self) -> None:
        """Remove the file."""
        self._file.close()
        self._path.unlink(missing_ok=True)


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the first bytes of a file."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    text = header.getvalue()
    # longer padding, so that every header has the same length
    begin, rest = text[:8], text[10:].rstrip(b"\n ")
    rest = rest + b" " * (_HEADER - 11 - len(rest)) + b"\n"
    return begin + len(rest).to_bytes(2, "little") + rest


class ArrayFolder:
    """A folder of arrays.

    Parameters
    ----------
    path : Path
        The folder, which exists.

    Examples
    --------
    >>> folder = temporary_folder()
    >>> file = folder.write(np.arange(4.0))
    >>> folder.read(file)[1:3].tolist()
    [1.0, 2.0]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._next = 1 + max((number for number, _ in self._numbered()), default=0)
        #: Number of bytes that were written.
        self.written = 0

    def _numbered(self) -> list[tuple[int, Path]]:
        found = ((_FILE.fullmatch(entry.name), entry) for entry in self.path.iterdir())
        return [(int(match[1]), entry) for match, entry in found if match is not None]

    def writer(self, dtype: Any) -> ArrayWriter:
        """Return a new file for arrays of a type."""
        number = self._next
        self._next += 1
        return ArrayWriter(self.path / f"{number:08d}.npy", dtype)

    def write(self, array: NDArray[Any]) -> ArrayFile:
        """Write an array to a new file.

        Raises
        ------
        OSError
            If it cannot be written; nothing is left of it.
        """
        writer = self.writer(array.dtype)
        try:
            writer.append(array)
            file = writer.close(array.shape)
        except BaseException:
            writer.discard()
            raise
        self.written += array.nbytes
        return file

    def flush(self, files: Iterable[ArrayFile]) -> None:
        """Flush files to disk, so that they survive a power failure."""
        for file in files:
            descriptor = os.open(self.path / file.name, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def read(self, file: ArrayFile, *, check: bool = False) -> NDArray[Any]:
        """Return an array that was written, as a read-only memory map.

        Parameters
        ----------
        file : ArrayFile
        check : bool
            Whether to compare the checksum, which reads the whole file.

        Raises
        ------
        ModelError
            If the file is missing or damaged.
        """
        where, expected = str(self.path / file.name), f"{np.dtype(file.dtype)} of shape {file.shape}"
        try:
            # a device or a pipe of that name must not be waited for
            descriptor = os.open(where, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
            with os.fdopen(descriptor, "rb", buffering=0) as opened:
                state = os.fstat(descriptor)
                whole = stat.S_ISREG(state.st_mode) and state.st_size == _HEADER + file.size
                if not whole or opened.read(_HEADER) != _header(np.dtype(file.dtype), file.shape):
                    raise ModelError(where, expected, "something else")
                if not file.size:
                    return np.empty(file.shape, file.dtype)
                mapped = np.memmap(opened, np.dtype(file.dtype), "r", _HEADER, file.shape)
        except (OSError, ValueError) as error:
            raise ModelError(where, expected, getattr(error, "strerror", None) or str(error)) from None
        array: NDArray[Any] = mapped.view(np.ndarray)
        if check:
            crc, data = 0, array.reshape(-1).view(np.uint8).data
            for begin in range(0, len(data), _PIECE):
                crc = zlib.crc32(data[begin : begin + _PIECE], crc)
            if crc != file.crc:
                raise ModelError(where, f"content with the checksum {file.crc:08x}", f"{crc:08x}")
        return array

    def remove(self, number: int) -> None:
        """Remove the array with a number; maps of it stay valid."""
        (self.path / f"{number:08d}.npy").unlink(missing_ok=True)

    def keep_only(self, files: set[int]) -> None:
        """Remove all arrays except those with the given numbers."""
        for number, path in self._numbered():
            if number not in files:
                path.unlink(missing_ok=True)


def temporary_folder() -> ArrayFolder:
    """Return a new folder for temporary arrays, which is removed together with the object, or when the process ends.

    It is made where `tempfile` puts temporary files (TMPDIR). Folders that killed processes left there are removed.
    """
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{_TEMPORARY}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(left / _LOCK, os.O_RDWR)
            try:
                if lock_file(descriptor):
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
    made = Path(tempfile.mkdtemp(prefix=f"new-{_TEMPORARY}"))
    descriptor = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    lock_file(descriptor)
    path = made.rename(parent / made.name.removeprefix("new-"))  # only now may another process look at it
    folder = ArrayFolder(path)
    weakref.finalize(folder, _remove_folder, path, descriptor, os.getpid())
    return folder


def _remove_folder(path: Path, descriptor: int, process: int) -> None:
    if os.getpid() == process:  # not in a forked process
        os.close(descriptor)
        shutil.rmtree(path, ignore_errors=True)
