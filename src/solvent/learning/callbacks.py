"""Logs of learning: callbacks that write the progress of each plan to a CSV file or to TensorBoard."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from solvent.core.files import write_atomically
from solvent.errors import ModelError, SolventError
from solvent.learning.result import LearnProgress


class CsvLog:
    """Callback of `learn` that writes a CSV file with a line for each plan.

    Parameters
    ----------
    path : str or Path
        The file. It is replaced as a whole, so a reader never sees a part of it.
    every : int
        Number of plans between two writes; the file is also written when the log is closed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from solvent.learning.learn import learn
    >>> from solvent.model import instances
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "log.csv"
    ...     with CsvLog(file) as log:
    ...         _ = learn(instances.markov_gap(), callback=log)
    ...     file.read_text().splitlines()[0]
    'episodes,gap,value_lower,value_upper,violations,nodes'
    """

    def __init__(self, path: str | Path, every: int = 1000) -> None:
        if every < 1:
            raise ModelError("every", "a whole number of at least 1", str(every))
        self._path, self._every = Path(path), every
        self._text, self._pending = io.StringIO(), 0
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._writer.writerow(LearnProgress._fields)

    def __call__(self, progress: LearnProgress) -> None:
        """Add a line."""
        self._writer.writerow(progress)
        self._pending += 1
        if self._pending >= self._every:
            self.close()

    def close(self) -> None:
        """Write the file; the log can be used further."""
        write_atomically(self._path, self._text.getvalue().encode())
        self._pending = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class ScalarWriter(Protocol):
    """Object with the method of TensorBoard's `SummaryWriter` that a log needs."""

    def add_scalar(self, tag: str, value: float, step: int, /) -> object:
        """Record a value at a step."""


class TensorBoardLog:
    """Callback of `learn` that writes the gap, the bounds and the violations as TensorBoard scalars, by episode.

    Parameters
    ----------
    writer : str, Path, or object with `add_scalar(tag, value, step)`
        A folder for a new `torch.utils.tensorboard.SummaryWriter`, which is closed with the log, or an existing writer,
        which is not closed.

    Raises
    ------
    SolventError
        If a folder is given and torch or tensorboard is not installed, or the folder cannot be written.

    Examples
    --------
    >>> class Writer:
    ...     def add_scalar(self, tag, value, step):
    ...         print(tag, value, step)
    >>> TensorBoardLog(Writer())(LearnProgress(7, 0.5, 1.0, 1.5, 0, 12))
    learning/gap 0.5 7
    learning/value_lower 1.0 7
    learning/value_upper 1.5 7
    learning/violations 0 7
    """

    def __init__(self, writer: str | Path | ScalarWriter) -> None:
        self._owned = isinstance(writer, str | Path)
        self._writer = _open_writer(writer) if isinstance(writer, str | Path) else writer

    def __call__(self, progress: LearnProgress) -> None:
        """Write the scalars of a plan."""
        for name in ("gap", "value_lower", "value_upper", "violations"):
            self._writer.add_scalar(f"learning/{name}", getattr(progress, name), progress.episodes)

    def close(self) -> None:
        """Flush the writer, and close it if the log opened it."""
        finish = getattr(self._writer, "close" if self._owned else "flush", None)
        if finish is not None:
            finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _open_writer(folder: str | Path) -> ScalarWriter:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise SolventError(
            f"TensorBoardLog: expected torch and tensorboard, found {error}; pip install 'solvent[rl]', or pass a "
            "writer with add_scalar(tag, value, step)"
        ) from None
    try:
        writer: ScalarWriter = SummaryWriter(str(folder))  # type: ignore[no-untyped-call, unused-ignore]
    except OSError as error:
        raise ModelError(str(folder), "a folder that can be written", error.strerror or str(error)) from None
    return writer
