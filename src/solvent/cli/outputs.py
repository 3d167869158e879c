"""Output files: checked before any long computation, and written atomically."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from solvent.core.paths import check_suffix
from solvent.errors import ModelError, SolventError, quote

PLOT_SUFFIXES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Output:
    """A file that will be written.

    Attributes
    ----------
    path : Path
    replaces : bool
        Whether a file of this name existed before.
    before : tuple of int or None
        Device, inode, modification time and size of that file.
    """

    path: Path
    replaces: bool
    before: tuple[int, ...] | None = None

    def is_written(self) -> bool:
        """Whether the file was written since this object was made."""
        found = _identity(self.path)
        return found is not None and found != self.before

    def record(self) -> dict[str, str | int | bool]:
        """Return the path, the size in bytes, and whether a file was replaced."""
        return {"path": str(self.path), "bytes": self.path.stat().st_size, "replaced": self.replaces}


@dataclass
class OutputFiles:
    """Files written so far; a result is printed even if one of its files could not be written.

    Attributes
    ----------
    files : dict of str to dict
        `Output.record` of each file, by content ("policy", "plot", ...).
    error : SolventError or None
        The first failure; no more files are written after it.
    """

    files: dict[str, dict[str, str | int | bool]] = field(default_factory=dict)
    error: SolventError | None = None

    def write(self, content: str, output: Output | None, write: Callable[[Path], None]) -> None:
        """Write one file, unless it is None or an earlier one failed."""
        if output is None or self.error is not None:
            return
        try:
            write(output.path)
        except SolventError as error:
            self.error = error
        else:
            self.files[content] = output.record()


def plan_output(
    option: str, path: Path | None, *, inputs: tuple[Path, ...] = (), suffixes: tuple[str, ...] = ()
) -> Output | None:
    """Return the output file after checking that it can be written; None if `path` is None.

    Parameters
    ----------
    option : str
        The command-line option, for error messages.
    path : Path or None
    inputs : tuple of Path
        Files that are read and must not be overwritten.
    suffixes : tuple of str
        Allowed suffixes; empty for any.

    Raises
    ------
    ModelError
        If the file cannot be written, its suffix is not allowed, or it is one of the inputs.
    """
    if path is None:
        return None
    where = f"{option} {path}"
    if suffixes:
        check_suffix(path, suffixes, where=where)
    _check_writable(where, path)
    if any(_same(path, other) for other in inputs):
        raise ModelError(where, "a file other than the inputs", "an input file")
    return Output(path, path.exists(), _identity(path))


def refuse_duplicates(outputs: dict[str, Output | None]) -> None:
    """Raise a `ModelError` if two outputs are the same file."""
    seen: dict[str, str] = {}
    for option, output in outputs.items():
        if output is None:
            continue
        key = os.path.abspath(output.path)  # noqa: PTH100  # a file that does not exist yet cannot be resolved further
        if key in seen:
            raise ModelError(f"{option} {output.path}", "a different file", f"the same as {seen[key]}")
        seen[key] = option


def _check_writable(where: str, path: Path) -> None:
    expected = "a place that can be written"
    if path.is_dir():
        raise ModelError(where, expected, "a folder", "add a file name")
    if path.exists() and not path.is_file():
        raise ModelError(where, expected, "not a regular file", "a device or a pipe would be replaced by a file")
    try:
        with tempfile.TemporaryFile(dir=path.resolve().parent, prefix=".solvent-"):
            pass
    except FileNotFoundError as error:
        if path.parent.is_dir():
            raise ModelError(where, expected, f"a folder in which no file can be made ({error.strerror})") from None
        hint = f"create the folder first: mkdir -p {path.parent}"
        raise ModelError(where, expected, f"no folder {quote(str(path.parent))}", hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(where, expected, reason) from None


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return device, inode, modification time and size of a file; None if there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:  # one of them does not exist
        return False
