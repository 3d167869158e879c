"""Logs of learning: callbacks that write each moment to a CSV file or to TensorBoard."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from solvent.core.files import write_atomically
from solvent.errors import ModelError, SolventError
from solvent.learning.result import LearnProgress


class CsvLog:
    """Keeps a CSV file with a line for each plan.

    Parameters
    ----------
    path : str or Path
        Written whole every `every` plans and when the log is closed, so that it is never seen half-written.
    every : int

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

    def __call__(self, moment: LearnProgress) -> None:
        """Note a moment."""
        self._writer.writerow(moment)
        self._pending += 1
        if self._pending >= self._every:
            self.close()

    def close(self) -> None:
        """Write what has been noted so far; more may follow."""
        write_atomically(self._path, self._text.getvalue().encode())
        self._pending = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class TensorBoardLog:
    """Writes the gap, the bounds and the violations of each plan as TensorBoard scalars, by episodes.

    Parameters
    ----------
    writer : str, Path, or object with `add_scalar(tag, value, step)`
        A folder for a new `torch.utils.tensorboard.SummaryWriter`, which is closed with the log, or a writer that is
        there already, which is not.

    Raises
    ------
    SolventError
        If a folder is given and torch or tensorboard is not installed, or it cannot be written.

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

    def __init__(self, writer: Any) -> None:
        self._own = isinstance(writer, str | Path)
        self._writer = _folder_writer(writer) if isinstance(writer, str | Path) else writer

    def __call__(self, moment: LearnProgress) -> None:
        """Write a moment."""
        for name in ("gap", "value_lower", "value_upper", "violations"):
            self._writer.add_scalar(f"learning/{name}", getattr(moment, name), moment.episodes)

    def close(self) -> None:
        """Write what is still to be written, and close the files if they are the log's own."""
        if self._own:
            self._writer.close()
        elif hasattr(self._writer, "flush"):
            self._writer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _folder_writer(folder: str | Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise SolventError(
            f"TensorBoardLog: expected torch and tensorboard, found {error}; pip install 'solvent[rl]', or torch and "
            "tensorboard, or pass a writer with add_scalar(tag, value, step)"
        ) from None
    try:
        return SummaryWriter(str(folder))  # type: ignore[no-untyped-call, unused-ignore]
    except OSError as error:
        raise ModelError(str(folder), "a folder that can be written", error.strerror or str(error)) from None
