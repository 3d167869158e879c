"""How much memory is available: what the system, the container and the limits of the process leave.

system       MemAvailable of /proc/meminfo
container    limit - usage + inactive file cache of every control group from that of the process up to the root,
cgroup v1 (memory.limit_in_bytes) and v2 (memory.max)
process      RLIMIT_AS - VmSize and RLIMIT_DATA - VmData (`ulimit -v` and `ulimit -d`)
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

from solvent.errors import AddressSpaceError

#: Free memory, in bytes, that is assumed if the system does not report it.
_UNKNOWN = 2 * 10**9
#: Address space that importing Numba, NumPy and SciPy takes, as measured, with a margin.
IMPORTS = 360_000_000
#: Address space that loading and compiling a kernel needs: LLVM ends the process if there is less. The first kernel
#: needs most, for LLVM itself.
FIRST_LOADING, LOADING, COMPILING = 150_000_000, 48_000_000, 128_000_000
#: Control groups of version 1 without a limit report a little less than 2**63.
_NO_LIMIT = 2**60
#: Files of a control group by version: limit, usage, and the entry of memory.stat that can be reclaimed.
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = ("memory.max", "memory.current", "inactive_file")


def free_memory(root: str | Path = "/") -> int:
    """Return the bytes that can be allocated without swapping or reaching a limit; 2 GB if the system does not tell.

    Parameters
    ----------
    root : path
        Folder that contains `proc` and `sys`.
    """
    root = Path(root)
    known = [each for each in (_available(root), container_memory(root), process_memory(root)) if each is not None]
    return max(min(known, default=_UNKNOWN), 0)


def hard_memory() -> int | None:
    """Return the bytes that the container and the limits of the process leave; None if there is no such limit."""
    root = Path("/")
    known = [each for each in (container_memory(root), process_memory(root)) if each is not None]
    return max(min(known), 0) if known else None


def _available(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def container_memory(root: Path) -> int | None:
    """Return the least that a control group of this process leaves, in bytes; None if none has a limit."""
    left = [
        limit - usage + cache
        for folder, names in _groups(root)
        if (limit := _number(folder / names[0])) is not None
        and (usage := _number(folder / names[1])) is not None
        and (cache := _stat(folder / "memory.stat", names[2])) is not None
    ]
    return min(left, default=None)


def _groups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Yield the folder of each control group of this process and of its parents, with the names of its files."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            mounts, names = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"], _V2
        elif "memory" in controllers.split(","):
            mounts, names = [root / "sys/fs/cgroup/memory"], _V1
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for mount in mounts:
            for depth in range(len(parts), -1, -1):
                yield mount.joinpath(*parts[:depth]), names


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
        # "max", or a huge number, means that there is no limit
        return int(text) if text.isdigit() and int(text) < _NO_LIMIT else None
    except OSError:
        return None


def _stat(path: Path, name: str) -> int | None:
    """Return an entry of a file of statistics; 0 if it is missing."""
    try:
        for line in path.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    except (OSError, ValueError):
        pass
    return 0


def process_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that RLIMIT_AS and RLIMIT_DATA leave to this process; None if neither is set."""
    left = [limit - used for limit, used in _process_limits(root)]
    return min(left, default=None)


def _process_limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield each memory limit of this process that is set, and how much of it is used, in bytes."""
    try:
        import resource
    except ImportError:  # not a Unix system
        return
    kinds = (("VmSize:", resource.RLIMIT_AS), ("VmData:", resource.RLIMIT_DATA))
    limits = {name: resource.getrlimit(kind)[0] for name, kind in kinds}
    limits = {name: limit for name, limit in limits.items() if limit != resource.RLIM_INFINITY}
    if not limits:
        return
    try:
        lines = (root / "proc/self/status").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, _, value = line.partition("\t")
        if name in limits:
            yield limits[name], int(value.split()[0]) * 1024


def require_address_space(size: int, what: str) -> None:
    """Raise an `AddressSpaceError` if the limits of the process (`ulimit -v`) leave less than `size` bytes.

    Libraries that run out of address space while loading or compiling end the process or hang, so that this must be
    checked before.
    """
    left = process_memory()
    if left is not None and left < size:
        raise AddressSpaceError(
            f"{what} needs about {size / 1e6:,.0f} MB of address space, and the limits of this process (ulimit -v) "
            f"leave {max(left, 0) / 1e6:,.0f} MB; raise them"
        )


@functools.cache
def _trimmer() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library
        return None


def trim_memory() -> None:
    """Return freed memory that the C library keeps to the system, if the library supports it."""
    trim = _trimmer()
    if trim is not None:
        trim(0)
