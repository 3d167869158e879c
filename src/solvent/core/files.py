"""Atomic writes, and reads of regular files of limited size."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

from solvent.core.loading import check_limit, current_limits
from solvent.errors import ModelError, printable

#: Names of temporary files: host, process id and a number. Only files with such names are ever removed.
_PREFIX = ".solvent-"
_TEMPORARY = re.compile(r"\.solvent-([A-Za-z0-9_]{1,64})-(\d{1,10})-(\d{1,10})\.tmp")
#: A temporary file of another host is stale if it was not written to for this many seconds.
_STALE_SECONDS = 24 * 3600.0
#: A temporary file of this host is stale if its process has ended and it was not written to for this many seconds;
#: containers may share a host name but not process ids.
_DEAD_SECONDS = 60.0
_numbers = count()


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], None]) -> None:
    """Write a file under a temporary name and move it into place, so that no partial file is ever visible.

    The content may be a function that writes it to an open file. It is flushed to disk before the move, and the move
    before this function returns. Links are followed. Devices and pipes are refused, since a regular file would replace
    them. Stale temporary files in the same folder, which killed processes left, are removed.

    Raises
    ------
    ModelError
        If the file cannot be written.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            found = "a folder" if target.is_dir() else "a device or a pipe"
            raise ModelError(str(path), "a place that can be written", found)
        with _temporary(target.parent) as temporary:
            temporary.write_durably(content)
            os.replace(temporary.path, target)  # noqa: PTH105
        _sync_folder(target.parent)
        _remove_stale(target.parent)
    except ModelError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a cycle of links
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(str(path), "a place that can be written", reason) from None


class _Temporary:
    """A new file, locked while it is written."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    def write_durably(self, content: bytes | Callable[[BinaryIO], None]) -> None:
        """Write the content and flush it to disk."""
        if callable(content):
            with os.fdopen(self.descriptor, "wb", closefd=False) as file:
                content(file)
        else:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
        os.fsync(self.descriptor)


def _host() -> str:
    """Return the name of this machine as used in the names of temporary files."""
    return re.sub(r"\W", "_", socket.gethostname(), flags=re.ASCII)[:64] or "host"


@contextmanager
def _temporary(folder: Path) -> Iterator[_Temporary]:
    """Create a temporary file, and remove it at the end unless it was moved."""
    umask = os.umask(0)
    os.umask(umask)
    while True:
        path = folder / f"{_PREFIX}{_host()}-{os.getpid()}-{next(_numbers)}.tmp"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            descriptor = os.open(path, flags, 0o666 & ~umask)
            break
        except FileExistsError:  # left by an earlier process with the same id
            continue
    try:
        lock_file(descriptor)
        yield _Temporary(path, descriptor)
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


def lock_file(descriptor: int) -> bool:
    """Lock an open file until it is closed; return False if another process holds the lock."""
    try:
        import fcntl
    except ImportError:  # not available on this system
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # other errors mean that the file system has no locks: then names and age decide
        return error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
    return True


def is_temporary(name: str) -> bool:
    """Return whether a file has the name of a temporary file of this module."""
    return _TEMPORARY.fullmatch(name) is not None


def _sync_folder(folder: Path) -> None:
    """Flush a folder to disk, if the system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_stale(folder: Path) -> None:
    """Remove stale temporary files: a minute old if their process on this host has ended, else a day old.

    Files that are being written on this host are locked and never removed.
    """
    with suppress(OSError):
        for path in list(folder.iterdir()):
            found = _TEMPORARY.fullmatch(path.name)
            if found is None:
                continue
            with suppress(OSError):
                state = path.lstat()
                age = time.time() - state.st_mtime
                dead = found[1] == _host() and not _is_alive(int(found[2]))
                if stat.S_ISREG(state.st_mode) and age > (_DEAD_SECONDS if dead else _STALE_SECONDS):
                    _remove_unless_locked(path)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # a process of another user
        return True
    return True


def _remove_unless_locked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        if lock_file(descriptor):
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def read_plain(path: Path, limit: str = "file_bytes") -> bytes:
    """Return the content of a regular file, if its size is within the limits in effect.

    Devices and pipes are refused without waiting for input.

    Parameters
    ----------
    path : Path
    limit : {"file_bytes", "text_bytes"}
        Field of `solvent.LoadLimits` that limits the size.

    Raises
    ------
    OSError, ValueError
        If the file cannot be read; `FileNotFoundError` if it does not exist.
    LoadLimitError
        If the file is larger than the limit.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        state = os.fstat(descriptor)
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "a device or a pipe")
        what = "bytes of text" if limit == "text_bytes" else "bytes"
        check_limit(limit, state.st_size, what, printable(str(path)))
        most = int(min(getattr(current_limits(), limit), 2**62))
        pieces, left = [], most + 1  # the reported size may be 0 (/proc) or out of date
        while left > 0:
            piece = file.read(min(left, 1 << 24))
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
    content = b"".join(pieces)
    check_limit(limit, len(content), what, printable(str(path)))
    return content
