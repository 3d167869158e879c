"""Logs of learning: callbacks that write each moment to a CSV file or to TensorBoard."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from solvent.errors import ModelError, SolventError
from solvent.learning.result import Moment
from solvent.model.files import write_whole


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
        self._writer.writerow(Moment._fields)

    def __call__(self, moment: Moment) -> None:
        """Note a moment."""
        self._writer.writerow(moment)
        self._pending += 1
        if self._pending >= self._every:
            self.close()

    def close(self) -> None:
        """Write what has been noted so far; more may follow."""
        write_whole(self._path, self._text.getvalue().encode())
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
        A folder for a new `torch.utils.tensorboard.SummaryWriter`, or a writer that is there already.

    Raises
    ------
    SolventError
        If a folder is given and torch or tensorboard is not installed.

    Examples
    --------
    >>> class Writer:
    ...     def add_scalar(self, tag, value, step):
    ...         print(tag, value, step)
    >>> TensorBoardLog(Writer())(Moment(7, 0.5, 1.0, 1.5, 0, 12))
    learning/gap 0.5 7
    learning/value_lower 1.0 7
    learning/value_upper 1.5 7
    learning/violations 0 7
    """

    def __init__(self, writer: Any) -> None:
        if isinstance(writer, str | Path):
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise SolventError(
                    f"TensorBoardLog: expected torch and tensorboard, found {error}; pip install tensorboard torch, "
                    "or pass a writer with add_scalar(tag, value, step)"
                ) from None
            writer = SummaryWriter(str(writer))  # type: ignore[no-untyped-call, unused-ignore]
        self._writer = writer

    def __call__(self, moment: Moment) -> None:
        """Write a moment."""
        for name in ("gap", "value_lower", "value_upper", "violations"):
            self._writer.add_scalar(f"learning/{name}", getattr(moment, name), moment.episodes)
