"""Places to write to: looked at before any long work, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from solvent.errors import ModelError, SolventError, did_you_mean, quote

PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Output:
    """A file to be written.

    Attributes
    ----------
    path : Path
    replaces : bool
        Whether there was one of this name before.
    before : tuple of int or None
        What tells that one from any other.
    """

    path: Path
    replaces: bool
    before: tuple[int, ...] | None = None

    def is_there(self) -> bool:
        """Whether the file was written since it was planned."""
        found = _identity(self.path)
        return found is not None and found != self.before

    def written(self) -> dict[str, str | int | bool]:
        """Return what to tell of it once it is there."""
        return {"path": str(self.path), "bytes": self.path.stat().st_size, "replaced": self.replaces}


@dataclass
class Writing:
    """What was written so far; an answer is not lost because a file of it could not be written.

    Attributes
    ----------
    files : dict
        By what they hold, what to tell of each.
    error : SolventError or None
        Why one of them is not there; nothing more is written then.
    """

    files: dict[str, dict[str, str | int | bool]] = field(default_factory=dict)
    error: SolventError | None = None

    def put(self, what: str, output: Output | None, write: Callable[[Path], None]) -> None:
        """Write one file, if it is asked for and none failed before."""
        if output is None or self.error is not None:
            return
        try:
            write(output.path)
        except SolventError as error:
            self.error = error
        else:
            self.files[what] = output.written()


def plan_output(
    option: str, path: Path | None, *, inputs: tuple[Path, ...] = (), endings: tuple[str, ...] = ()
) -> Output | None:
    """Return where to write, having made sure that it can be done; None if nothing is asked for.

    Parameters
    ----------
    option : str
        What asked for it.
    path : Path or None
    inputs : tuple of Path
        Files that are read, and so must not be written.
    endings : tuple of str
        Those that the name may have; any, if empty.

    Raises
    ------
    ModelError
        If the place cannot be written, the ending is not among them, or the file is one of those read.
    """
    if path is None:
        return None
    where = f"{option} {path}"
    if endings and path.suffix.lower() not in endings:
        found = quote(path.suffix) if path.suffix else "no ending"
        hint = did_you_mean(path.suffix, endings) if path.suffix else ""
        raise ModelError(where, f"a name ending in {_either(endings)}", found, hint)
    _refuse_place(where, path)
    if any(_same(path, other) for other in inputs):
        raise ModelError(where, "a file other than those that are read", "one of them")
    return Output(path, path.exists(), _identity(path))


def refuse_doubles(outputs: dict[str, Output | None]) -> None:
    """Raise a `ModelError` if two outputs are one file."""
    seen: dict[str, str] = {}
    for option, output in outputs.items():
        if output is None:
            continue
        key = os.path.abspath(output.path)  # noqa: PTH100  # a file that is not there yet cannot be resolved further
        if key in seen:
            raise ModelError(f"{option} {output.path}", "a file of its own", f"that of {seen[key]}")
        seen[key] = option


def _refuse_place(where: str, path: Path) -> None:
    expected = "a place that can be written"
    if path.is_dir():
        raise ModelError(where, expected, "a folder", "add the name of a file")
    if path.exists() and not path.is_file():
        raise ModelError(where, expected, "no plain file", "a device or a pipe would be replaced by a file")
    try:
        with tempfile.TemporaryFile(dir=path.resolve().parent, prefix=".solvent-"):
            pass
    except FileNotFoundError as error:
        if path.parent.is_dir():
            raise ModelError(where, expected, f"a folder that takes no files ({error.strerror})") from None
        hint = f"make the folder first: mkdir -p {path.parent}"
        raise ModelError(where, expected, f"no folder {quote(str(path.parent))}", hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(where, expected, reason) from None


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return what tells a file from those that replace it; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:  # one of them is not there
        return False


def _either(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
