"""Checkpoints: what a long computation has finished so far, in a folder that survives a crash.

    run.ckpt/checkpoint.json    the state of each section, and which files contain its arrays
    run.ckpt/00000017.npy       one array each, written once and never changed

Arrays are written to new files first. They belong to the checkpoint as soon as `checkpoint.json` has been replaced,
atomically. Whenever the process ends, the folder therefore contains the last state that was saved. Arrays that are not
listed are removed; a folder without `checkpoint.json` that contains anything else is refused.

A *section* is one part of a computation, such as a backward sweep. Its name contains a digest of everything that
determines its result. A computation that finds its section goes on from there, any other begins anew. A checkpoint can
thus change how much work is repeated, but not the result.

Checksums reveal damaged files. A computation that loads a section checks shapes and positions as well, because kernels
do not.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from solvent._version import __version__
from solvent.core.array_files import ArrayFile, ArrayFolder
from solvent.core.files import is_temporary, lock_file, read_plain, write_atomically
from solvent.core.interrupt import held_back, terminable
from solvent.core.loading import LoadLimits, loading
from solvent.core.logs import get_logger
from solvent.core.paths import read_path
from solvent.errors import CheckpointWarning, ModelError, SolventError, quote

#: The format in which checkpoints are written.
FORMAT = 1
#: Seconds between two saves, unless given.
EVERY = 60.0
#: The longest interval between two saves, in seconds.
_LONGEST = 1e9
_MANIFEST, _LOCK = "checkpoint.json", "lock"
#: Saving takes at most about this share of the time.
_SHARE = 0.1
_ANEW = "give another path, or remove the folder to begin anew"

_logger = get_logger(__name__)


def read_checkpoint_path(checkpoint: Any) -> Path | None:
    """Return the argument `checkpoint` after checking it."""
    return None if checkpoint is None else read_path(checkpoint, "checkpoint")


def open_checkpoint(
    checkpoint: Any, every: Any, kind: str, problem: Callable[[], Mapping[str, str]]
) -> contextlib.AbstractContextManager[Checkpoint | None]:
    """Return the checkpoint that the arguments `checkpoint` and `checkpoint_every` ask for; None if they do not.

    `problem` is called only if there is one; see `Checkpoint`.
    """
    if isinstance(every, bool) or not isinstance(every, int | float | np.integer) or not 0 <= every <= _LONGEST:
        raise ModelError("checkpoint_every", "seconds, at least 0", quote(every))
    path = read_checkpoint_path(checkpoint)
    if path is None:
        return contextlib.nullcontext()
    return Checkpoint(path, kind, problem(), float(every))


class Checkpoint:
    """A checkpoint that is being written, and what it contained when it was opened.

    As a context, it holds Ctrl-C and SIGTERM back until the state can be saved, and unlocks the folder at the end.

    Parameters
    ----------
    path : Path
        The folder; created if there is none.
    kind : str
        The function that computes, as in "solve".
    problem : mapping of str to str
        What must be equal for a computation to go on: the model, the budget, and options.
    every : float
        Seconds between two saves; 0 to save at every opportunity.
    anew : bool
        Whether to begin anew, whatever a checkpoint that is in the folder contains.
    limits : LoadLimits, optional
        Limits on reading `checkpoint.json`.

    Attributes
    ----------
    path : Path
    error : str
        Why the last save failed; empty if it did not.
    saving_time : float
        Seconds that the last save took.

    Raises
    ------
    ModelError
        If the path is something else, the checkpoint is of another problem, is damaged, or another process uses it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.ckpt"
    ...     with Checkpoint(path, "solve", {"model": "van"}) as checkpoint:
    ...         _ = checkpoint.section("sweep", 3).save({"step": 2}, {"value": np.ones(2)})
    ...     with Checkpoint(path, "solve", {"model": "van"}) as checkpoint:
    ...         section = checkpoint.section("sweep", 3)
    ...         section.whole("step", 0, 3), section.array("value", float, (2,)).tolist()
    (2, [1.0, 1.0])
    """

    def __init__(
        self,
        path: Path,
        kind: str,
        problem: Mapping[str, str],
        every: float = EVERY,
        *,
        anew: bool = False,
        limits: LoadLimits | None = None,
    ) -> None:
        self.path, self._kind, self._problem, self.every = path, kind, dict(problem), every
        self._wait = every
        self._contexts = contextlib.ExitStack()
        self._warned = False
        self._sections: dict[str, Section] = {}
        self._lock = -1
        self.error, self.saving_time = "", 0.0
        self._open(limits, anew=anew)
        self._saved = time.monotonic()

    def __enter__(self) -> Self:
        self._contexts.enter_context(terminable())
        self._contexts.callback(self.close)
        self._contexts.enter_context(held_back())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._contexts.__exit__(kind, error, at)

    def close(self) -> None:
        """Unlock the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self, limits: LoadLimits | None, *, anew: bool) -> None:
        where, expected = str(self.path), "a folder for a checkpoint"
        try:
            self._refuse_others()
            self.path.mkdir(exist_ok=True)
            self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
            if not lock_file(self._lock):
                raise ModelError(where, "a checkpoint that no other process uses", "one in use")
            self._refuse_others()  # another process may have been faster
            try:
                with loading(limits):
                    content = read_plain(self.path / _MANIFEST, "text_bytes")
            except FileNotFoundError:
                anew = True
            else:
                self._restore(content, anew=anew)
            self.folder = ArrayFolder(self.path)
            self._listed = self._numbers()
            if anew:
                self._begin()
            self.folder.keep_only(self._listed)
        except BaseException as error:
            self.close()
            if isinstance(error, SolventError) or not isinstance(error, OSError | ValueError):
                raise
            found = "a file" if self.path.is_file() else getattr(error, "strerror", None) or str(error)
            raise ModelError(where, expected, found) from None

    def _begin(self) -> None:
        """Write a checkpoint without sections; a full disk is no error, as it may change."""
        try:
            write_atomically(self.path / _MANIFEST, self._content())
        except ModelError as error:
            if error.found not in map(os.strerror, (errno.ENOSPC, errno.EDQUOT)):
                raise
            self.fail(error)

    def _refuse_others(self) -> None:
        """Refuse a folder that is no checkpoint and contains other things, so that none of them is ever removed."""
        names = {entry.name for entry in self.path.iterdir()} if self.path.exists() else set()
        others = sorted(name for name in names if name != _LOCK and not is_temporary(name))
        if others and _MANIFEST not in names:
            raise ModelError(str(self.path), "an empty folder or a checkpoint", f"a folder with {quote(others[0])}")

    def _restore(self, content: bytes, *, anew: bool) -> None:
        where = str(self.path / _MANIFEST)
        try:
            found = json.loads(content)
            stated, sections = found.pop("checksum"), found["sections"]
            whole = isinstance(sections, dict) and stated == _checksum(found)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            whole = False
        if not whole:
            raise ModelError(where, "a checkpoint with a valid checksum", "something else", _ANEW)
        if found.get("kind") != self._kind:
            expected = f"a checkpoint of {self._kind}"
            raise ModelError(str(self.path), expected, f"one of {quote(found.get('kind'))}", _ANEW)
        if anew:
            return
        if found.get("solvent_checkpoint") != FORMAT or found.get("version") != __version__:
            expected = f"a checkpoint of Solvent {__version__}"
            raise ModelError(where, expected, f"one of {quote(found.get('version'))}", _ANEW)
        problem = found.get("problem")
        for name, value in self._problem.items():
            other = problem.get(name) if isinstance(problem, dict) else None
            if other != value:
                raise ModelError(f"{self.path}, {name}", f"the same as now, {quote(value)}", quote(other), _ANEW)
        try:
            for name, section in sections.items():
                files = {
                    array: [ArrayFile.from_json(file) for file in listed] for array, listed in section["arrays"].items()
                }
                self._sections[name] = Section(self, name, dict(section["state"]), files)
        except (TypeError, KeyError, AttributeError, ValueError, SolventError):
            raise ModelError(where, "the state and the arrays of each section", "something else", _ANEW) from None
        _logger.info("going on from the checkpoint %s", self.path)

    def _numbers(self) -> set[int]:
        return {file.number for section in self._sections.values() for file in section.files}

    def section(self, name: str, *content: Any) -> Section:
        """Return the section of a computation, with what was saved of it.

        Parameters
        ----------
        name : str
        *content
            Everything that determines the result: arrays, numbers, texts, and tuples of these.
        """
        full = f"{name} {digest(content)}"
        if full not in self._sections:
            return Section(self, full, {}, {})
        return self._sections[full]

    @property
    def due(self) -> bool:
        """Whether enough time has passed since the last save."""
        return time.monotonic() - self._saved >= self._wait

    def commit(self, section: Section, began: float) -> bool:
        """Save the state of a section that began to be written at a time; return whether that succeeded.

        If it fails, for example because the disk is full, a `CheckpointWarning` is given once, and the computation goes
        on.
        """
        before = self._sections.get(section.name)
        self._sections[section.name] = section
        numbers = self._numbers()
        try:
            self.folder.flush(file for file in section.files if file.number not in self._listed)
            write_atomically(self.path / _MANIFEST, self._content())
        except (ModelError, OSError) as error:
            if before is None:
                del self._sections[section.name]
            self.fail(error)
            return False
        unused, self._listed = self._listed - numbers, numbers
        for number in unused:
            with contextlib.suppress(OSError):  # what is not listed does no harm
                self.folder.remove(number)
        self.error = ""
        self._saved = time.monotonic()
        self.saving_time = self._saved - began
        self._wait = max(self.every, self.saving_time / _SHARE) if self.every else 0.0
        return True

    def _content(self) -> bytes:
        """Return the content of `checkpoint.json`."""
        content: dict[str, Any] = {
            "solvent_checkpoint": FORMAT,
            "version": __version__,
            "kind": self._kind,
            "problem": self._problem,
            "sections": {name: each.to_json() for name, each in self._sections.items()},
        }
        content["checksum"] = _checksum(content)
        return json.dumps(content).encode()

    def discard(self, file: ArrayFile) -> None:
        """Remove an array, unless the checkpoint as saved last needs it."""
        if file.number not in self._listed:
            self.folder.remove(file.number)

    def fail(self, error: Exception) -> None:
        """Report that nothing could be saved; the next time to try again is after the usual interval."""
        self.error = getattr(error, "strerror", None) or str(error)
        self._saved = time.monotonic()
        if not self._warned:
            self._warned = True
            reason = f"the checkpoint could not be written, and the computation continues without it: {self.error}"
            warnings.warn(CheckpointWarning(reason), stacklevel=2)


class Section:
    """One part of a computation in a checkpoint.

    Attributes
    ----------
    name : str
    state : dict
        Numbers and texts that were saved; empty if there is nothing yet.
    """

    def __init__(
        self, checkpoint: Checkpoint, name: str, state: dict[str, Any], files: dict[str, list[ArrayFile]]
    ) -> None:
        self._checkpoint, self.name, self.state, self._files = checkpoint, name, state, files

    @property
    def files(self) -> list[ArrayFile]:
        """The files of all arrays."""
        return [file for files in self._files.values() for file in files]

    def to_json(self) -> dict[str, Any]:
        """Return a description for a JSON file."""
        return {
            "state": self.state,
            "arrays": {name: [file.to_json() for file in files] for name, files in self._files.items()},
        }

    def save(
        self,
        state: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]] | None = None,
        added: Mapping[str, NDArray[Any]] | None = None,
        added_files: Mapping[str, list[ArrayFile]] | None = None,
        files: Mapping[str, list[ArrayFile]] | None = None,
        dropped: Iterable[str] = (),
    ) -> bool:
        """Save the state; return whether that succeeded.

        Parameters
        ----------
        state : mapping
            Numbers and texts.
        arrays : mapping of arrays, optional
            Replace those of the same names.
        added : mapping of arrays, optional
            Are added to those of the same names. If saving fails, they are not.
        added_files : mapping of lists of ArrayFile, optional
            Arrays that are in the folder already; are added after those of `added`.
        files : mapping of lists of ArrayFile, optional
            Arrays that are in the folder already; replace those of the same names.
        dropped : iterable of str
            Names of arrays that are no longer needed.
        """
        before = self.state, self._files
        listed = {name: list(each) for name, each in {**self._files, **(files or {})}.items() if name not in dropped}
        written: list[ArrayFile] = []
        folder, began = self._checkpoint.folder, time.monotonic()
        try:
            for name, array in (arrays or {}).items():
                written.append(folder.write(array))
                listed[name] = written[-1:]
            for name, array in (added or {}).items():
                written.append(folder.write(array))
                listed.setdefault(name, []).append(written[-1])
            for name, more in (added_files or {}).items():
                listed[name] = [*listed.get(name, []), *more]
        except OSError as error:
            self._checkpoint.fail(error)
        else:
            self.state, self._files = dict(state), listed
            if self._checkpoint.commit(self, began):
                return True
            self.state, self._files = before
        for file in written:
            with contextlib.suppress(OSError):
                folder.remove(file.number)
        return False

    def whole(self, name: str, low: int, high: int) -> int:
        """Return a whole number of the state, which must be from `low` to `high`."""
        value = self.state.get(name)
        if type(value) is not int or not low <= value <= high:
            raise self.damaged(name, f"a whole number from {low} to {high}", quote(value))
        return value

    def number(self, name: str) -> float:
        """Return a number of the state that was saved as `float.hex`, so that infinities can be stored."""
        try:
            return float.fromhex(self.state[name])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self.damaged(name, "a number in hexadecimal digits", quote(self.state.get(name))) from None

    def array(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """Return an array, which must have this type and shape; None stands for any length."""
        files = self._files.get(name, [])
        if len(files) != 1:
            raise self.damaged(name, "one array", f"{len(files)}")
        return self._read(name, files[0], dtype, shape)

    def files_of(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> list[ArrayFile]:
        """Return the files of all arrays of a name, after comparing their types, shapes and checksums."""
        self.pieces(name, dtype, shape)
        return self._files.get(name, [])

    def pieces(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> list[NDArray[Any]]:
        """Return all arrays of a name, which must have this type and shape."""
        return [self._read(name, file, dtype, shape) for file in self._files.get(name, [])]

    def _read(self, name: str, file: ArrayFile, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
        found = len(file.shape) == len(shape) and all(
            n is None or n == m for n, m in zip(shape, file.shape, strict=True)
        )
        if not found or np.dtype(file.dtype) != np.dtype(dtype):
            raise self.damaged(name, f"{np.dtype(dtype)} of shape {shape}", f"{file.dtype} of shape {file.shape}")
        try:
            return self._checkpoint.folder.read(file, check=True)
        except ModelError as error:
            raise ModelError(error.where, error.expected, error.found, _ANEW) from None

    def damaged(self, name: str, expected: str, found: str) -> ModelError:
        """Return the error for content that cannot have been saved."""
        return ModelError(f"{self._checkpoint.path}, {self.name.split()[0]}, {name}", expected, found, _ANEW)


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest(content: Any) -> str:
    """Return a digest of arrays, numbers, texts, and nested tuples of these; equal only if all of them are equal.

    Examples
    --------
    >>> digest((np.arange(3), 1)) == digest((np.arange(3), 1)), digest((1, 2)) == digest(((1, 2),))
    (True, False)
    """
    found = hashlib.sha256()
    _add(found, content)
    return found.hexdigest()[:32]


def _add(found: Any, content: Any) -> None:
    if isinstance(content, np.ndarray):
        array = np.ascontiguousarray(content)
        found.update(f"array {array.dtype.str} {content.shape}\n".encode())
        found.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    elif isinstance(content, tuple | list):
        found.update(f"tuple {len(content)}\n".encode())
        for each in content:
            _add(found, each)
    elif content is None or isinstance(content, str | int | float | bool | Fraction | np.generic):
        text = repr(content.item() if isinstance(content, np.generic) else content)
        found.update(f"{type(content).__name__} {len(text)} {text}\n".encode())
    else:
        raise TypeError(f"no digest of {type(content).__name__}")
