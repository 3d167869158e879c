"""Logs of learning: callbacks that write the progress of each plan to a CSV file, TensorBoard or Weights & Biases."""

from __future__ import annotations

import csv
import io
import os
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from solvent.core.files import write_atomically
from solvent.core.paths import read_path
from solvent.errors import ModelError, SolventError, quote
from solvent.learning.result import LearnProgress

#: The fields of a `LearnProgress` that are logged as scalars.
_SCALARS = ("gap", "value_lower", "value_upper", "violations")


class CsvLog:
    """Callback of `learn` that writes a CSV file with a line for each plan.

    The file is complete when `learn` ends, also by Ctrl-C or an error, so a log need not be closed. A log that is used
    for several runs has the lines of all of them.

    Parameters
    ----------
    path : str or Path
        The file. It is replaced as a whole, so a reader never sees a part of it. If it cannot be written during a run,
        for example because the disk is full, learning continues after a warning, and the next write is tried again.
    every : int
        Number of plans between two writes during a run.

    Raises
    ------
    ModelError
        If no file can be written at `path`, or `every` is not a whole number of at least 1.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from solvent.learning.learn import learn
    >>> from solvent.model import instances
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "log.csv"
    ...     _ = learn(instances.markov_gap(), callback=CsvLog(file))
    ...     file.read_text().splitlines()[0]
    'episodes,gap,value_lower,value_upper,violations,nodes'
    """

    def __init__(self, path: str | Path, every: int = 1000) -> None:
        if isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1:
            raise ModelError("every", "a whole number of at least 1", quote(every))
        self._path, self._every = read_path(path, "path", "the path of a CSV file"), every
        _check_place(self._path)
        self._text, self._pending, self._written = io.StringIO(), 0, False
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._writer.writerow(LearnProgress._fields)

    def __call__(self, progress: LearnProgress) -> None:
        """Add a line."""
        self._writer.writerow(progress)
        self._pending, self._written = self._pending + 1, False
        if self._pending >= self._every:
            self._pending = 0
            flush(self)

    def flush(self) -> None:
        """Write the file, if it is not complete; `learn` calls this at its end.

        Raises
        ------
        ModelError
            If the file cannot be written.
        """
        if not self._written:
            write_atomically(self._path, self._text.getvalue().encode())
            self._pending, self._written = 0, True

    def close(self) -> None:
        """Write the file, if it is not complete; the log can be used further."""
        self.flush()

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
    ModelError
        If `writer` is something else.
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
        if not self._owned and not callable(getattr(writer, "add_scalar", None)):
            expected = "a folder, or an object with add_scalar(tag, value, step)"
            raise ModelError("writer", expected, quote(writer))
        self._writer = _open_writer(writer) if isinstance(writer, str | Path) else writer

    def __call__(self, progress: LearnProgress) -> None:
        """Write the scalars of a plan."""
        for name in _SCALARS:
            self._writer.add_scalar(f"learning/{name}", getattr(progress, name), progress.episodes)

    def flush(self) -> None:
        """Flush the writer; `learn` calls this at its end."""
        finish = getattr(self._writer, "flush", None)
        if finish is not None:
            finish()

    def close(self) -> None:
        """Flush the writer, and close it if the log opened it."""
        finish = getattr(self._writer, "close" if self._owned else "flush", None)
        if finish is not None:
            finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class MetricRun(Protocol):
    """Object with the method of a W&B run that a log needs."""

    def log(self, data: dict[str, float], step: int) -> object:
        """Record values at a step."""


class WandbLog:
    """Callback of `learn` that logs the gap, the bounds and the violations to Weights & Biases, by episode.

    Parameters
    ----------
    run : str, or object with `log(data, step)`
        Name of the project of a new run, which is finished with the log, or an existing run, which is not.

    Raises
    ------
    ModelError
        If `run` is something else.
    SolventError
        If a name is given and wandb is not installed.

    Examples
    --------
    >>> class Run:
    ...     def log(self, data, step):
    ...         print(step, data)
    >>> WandbLog(Run())(LearnProgress(7, 0.5, 1.0, 1.5, 0, 12))
    7 {'learning/gap': 0.5, 'learning/value_lower': 1.0, 'learning/value_upper': 1.5, 'learning/violations': 0}
    """

    def __init__(self, run: str | MetricRun) -> None:
        self._owned = isinstance(run, str)
        if not self._owned and not callable(getattr(run, "log", None)):
            hint = "wandb.run is None until wandb.init() is called" if run is None else ""
            raise ModelError("run", "the name of a project, or an object with log(data, step)", quote(run), hint)
        self._run: MetricRun = _open_run(run) if isinstance(run, str) else run

    def __call__(self, progress: LearnProgress) -> None:
        """Log the values of a plan."""
        self._run.log({f"learning/{name}": getattr(progress, name) for name in _SCALARS}, progress.episodes)

    def close(self) -> None:
        """Finish the run if the log began it."""
        finish = getattr(self._run, "finish", None)
        if self._owned and finish is not None:
            finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def flush(callback: object) -> None:
    """Flush a callback, if it has a method `flush`; warn if that fails, because a log must not end a run."""
    method = getattr(callback, "flush", None)
    if not callable(method):
        return
    try:
        method()
    except Exception as error:  # callbacks of users may raise anything
        found = str(error) if isinstance(error, SolventError) else f"{type(error).__name__}: {error}"
        warnings.warn(f"a log of learning is not complete: {found}", UserWarning, stacklevel=2)


@contextmanager
def flushed(callbacks: Sequence[object]) -> Iterator[None]:
    """Return a context at whose end callbacks are flushed, also after an error."""
    try:
        yield
    finally:
        for each in callbacks:
            flush(each)


def _check_place(path: Path) -> None:
    """Raise a `ModelError` if no file can be written at a path, as far as that is known without writing."""
    expected = "a place that can be written"
    try:
        target = path.resolve()
        try:
            mode: int | None = target.stat().st_mode
        except FileNotFoundError:
            mode = None
        folder = target.parent
        if mode is None and not folder.exists():
            raise ModelError(str(path), expected, f"no folder {quote(str(folder))}", "create the folder first")
        if mode is not None and not stat.S_ISREG(mode):
            is_folder = stat.S_ISDIR(mode)
            hint = "add the name of a file" if is_folder else ""
            raise ModelError(str(path), expected, "a folder" if is_folder else "a device or a pipe", hint)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ModelError(str(path), expected, f"a folder that cannot be written, {quote(str(folder))}")
    except ModelError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a cycle of links
        raise ModelError(str(path), expected, getattr(error, "strerror", None) or str(error)) from None


def _open_run(project: str) -> MetricRun:
    try:
        import wandb  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise SolventError(
            f"WandbLog: expected wandb, found {error}; pip install wandb, or pass a run with log(data, step)"
        ) from None
    run: MetricRun = wandb.init(project=project)
    return run


def _open_writer(folder: str | Path) -> ScalarWriter:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise SolventError(
            f'TensorBoardLog: expected torch and tensorboard, found {error}; pip install "solvent[rl]", or pass a '
            "writer with add_scalar(tag, value, step)"
        ) from None
    try:
        writer: ScalarWriter = SummaryWriter(str(folder))  # type: ignore[no-untyped-call, unused-ignore]
    except OSError as error:
        raise ModelError(str(folder), "a folder that can be written", error.strerror or str(error)) from None
    return writer
