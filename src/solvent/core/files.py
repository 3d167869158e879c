"""Files that are written whole or not at all, and read only if they are plain and not too large."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from solvent.core.loading import check_limit, current_limits
from solvent.errors import ModelError, printable

#: Temporary files: host, process and a number. Only names of this form are ever removed.
_PREFIX = ".solvent-"
_TEMPORARY = re.compile(r"\.solvent-([A-Za-z0-9_]{1,64})-(\d{1,10})-(\d{1,10})\.tmp")
#: A temporary file of another host is left over if nobody has written to it for this many seconds.
_LEFT_OVER_SECONDS = 24 * 3600.0
#: One of this host, once its process is gone and this many seconds have passed: numbers of processes mean nothing
#: across containers, which may have the same name.
_DEAD_SECONDS = 60.0
_numbers = count()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and move it into place, so that it is never seen half-written.

    The content is on disk before the move, and the move before this returns, as far as the file system keeps its word.
    A link is followed, and what is no plain file (a device, a pipe) is refused: it would be replaced by one.
    Temporary files that killed processes left in the same folder are removed.

    Raises
    ------
    ModelError
        If the place cannot be written.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            found = "a folder" if target.is_dir() else "no plain file"
            raise ModelError(str(path), "a place that can be written", found)
        with _temporary(target.parent) as temporary:
            temporary.write_durably(content)
            os.replace(temporary.path, target)  # noqa: PTH105
        _sync_folder(target.parent)
        _remove_left_over(target.parent)
    except ModelError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(str(path), "a place that can be written", reason) from None


class _Temporary:
    """A new file, locked while it is written."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    def write_durably(self, content: bytes) -> None:
        """Write all of it, and wait until it is on disk."""
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]
        os.fsync(self.descriptor)


def _host() -> str:
    """Return the name of this machine, as it stands in the names of temporary files."""
    return re.sub(r"\W", "_", socket.gethostname(), flags=re.ASCII)[:64] or "host"


@contextmanager
def _temporary(folder: Path) -> Iterator[_Temporary]:
    """Make a file of a name of our own, and remove it unless it was moved away."""
    umask = os.umask(0)
    os.umask(umask)
    while True:
        path = folder / f"{_PREFIX}{_host()}-{os.getpid()}-{next(_numbers)}.tmp"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            descriptor = os.open(path, flags, 0o666 & ~umask)
            break
        except FileExistsError:  # of a process that had the same number before a restart
            continue
    try:
        _lock(descriptor)
        yield _Temporary(path, descriptor)
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


def _lock(descriptor: int) -> bool:
    """Lock an open file for this process until it is closed; return whether that could be done."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # a file system without locks says so in other words, and then names and age decide
        return error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
    return True


def _sync_folder(folder: Path) -> None:
    """Wait until a move within a folder is on disk, where the system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_left_over(folder: Path) -> None:
    """Remove temporary files that killed processes left: a minute old and of a process of this host, or a day old.

    A file that is being written is locked, which counts on this host whatever its name says.
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
                if stat.S_ISREG(state.st_mode) and age > (_DEAD_SECONDS if dead else _LEFT_OVER_SECONDS):
                    _remove_unless_locked(path)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of somebody else
        return True
    return True


def _remove_unless_locked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        if _lock(descriptor):
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def read_plain(path: Path, limit: str = "file_bytes") -> bytes:
    """Return the content of a plain file of at most as many bytes as the limits in effect allow.

    A device or a pipe is refused without waiting for it.

    Parameters
    ----------
    path : Path
    limit : {"file_bytes", "text_bytes"}
        Which of the limits on loading (`solvent.LoadLimits`) applies.

    Raises
    ------
    OSError, ValueError
        If it cannot be read; `FileNotFoundError` if there is none.
    LoadLimitError
        If it is larger.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        state = os.fstat(descriptor)
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "no plain file, but a device or a pipe")
        what = "bytes of text" if limit == "text_bytes" else "bytes"
        check_limit(limit, state.st_size, what, printable(str(path)))
        most = int(min(getattr(current_limits(), limit), 2**62))
        pieces, left = [], most + 1  # files of /proc and the like say that they are empty, and others grow
        while left > 0:
            piece = file.read(min(left, 1 << 24))
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
    content = b"".join(pieces)
    check_limit(limit, len(content), what, printable(str(path)))
    return content
