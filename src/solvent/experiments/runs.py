"""Runs of an experiment: many small measurements whose rows are saved, so that an interrupted run can be resumed.

A `Study` is a name, a tuple of cases and a function that measures one of them. A case and its result are frozen
dataclasses of plain fields (int, float, str, bool, or one of these or None). `run` measures the cases that have no row
yet and returns a `Row` for each case, in the order of the cases:

    @dataclass(frozen=True)
    class Case:
        horizon: int
        seed: int

    @dataclass(frozen=True)
    class Measured:
        points: int

    def measure(case: Case) -> Measured: ...      # at the top of a module: worker processes import it

    study = Study("growth", tuple(Case(h, s) for h in (10, 20) for s in range(5)), measure, Measured)
    rows = run(study, folder, jobs=2, progress=True)
    rows[0].case.horizon, rows[0].result.points

The rows are in `folder/growth.csv`: the version of Solvent, the fields of the case, those of the result. The first two
are the key, so that rows of other arguments or another version are never confused; they stay in the file. Each row is
written in a single operation as soon as it is measured. An incomplete last line, left by a killed process, is dropped.
A file with other content is refused. An exception in `measure` ends the run with a note that names the case; Ctrl-C
ends it too. All rows measured before are kept.

With engine "ray", workers of a Ray cluster measure, each on one thread.

With `jobs` above 1, each worker is a new process that calls `study.prepare` before it measures anything. This loads the
kernels (from Numba's cache on disk, which the first call of `prepare`, in this process, fills), so that no measured
time contains compilation. Numba's threads are divided among the workers.
"""

from __future__ import annotations

import csv
import io
import multiprocessing
import os
import signal
import threading
import types
import typing
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from solvent._version import __version__
from solvent.core.arguments import read_jobs
from solvent.core.engines import Engine, RayEngine, open_engine
from solvent.core.paths import read_path
from solvent.core.progress import open_progress
from solvent.errors import ModelError, SolventError, quote

C = TypeVar("C")
R = TypeVar("R")

#: The first column of every file.
_VERSION = "solvent"
_PLAIN = (int, float, str, bool)
_ANEW = "name another folder, or discard these rows with --fresh (fresh=True)"


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def nothing_to_prepare() -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Study(Generic[C, R]):
    """A set of measurements.

    Attributes
    ----------
    name : str
        Name of the file: the rows are in `<name>.csv`.
    cases : tuple
        Frozen dataclasses of one type with plain fields; duplicates are measured once.
    measure : callable
        Takes a case and returns a `result`.
    result : type
        A frozen dataclass of plain fields.
    prepare : callable
        Called once in each process before it measures anything.
    """

    name: str
    cases: tuple[C, ...]
    measure: Callable[[C], R]
    result: type[R]
    prepare: Callable[[], None] = nothing_to_prepare


@dataclass(frozen=True)
class Row(Generic[C, R]):
    """One case and its result."""

    case: C
    result: R


def run(
    study: Study[C, R],
    folder: str | Path,
    jobs: int | None = 1,
    progress: bool = False,
    *,
    fresh: bool = False,
    engine: str | Engine = "local",
    address: str | None = None,
) -> list[Row[C, R]]:
    """Measure every case that has no row yet and return the rows of all, in the order of the cases.

    Parameters
    ----------
    study : Study
    folder : str or Path
        Folder of the file; created if it does not exist.
    jobs : int or None
        Number of processes; 1 measures in this process, unless `engine` is "ray". None for one per core, or per CPU of
        the Ray cluster.
    progress : bool
        If True, show progress on a terminal.
    fresh : bool
        If True, discard all rows of earlier runs first.
    engine : {"local", "ray"} or Engine
        Where cases are measured: by processes of this machine, or by workers of a Ray cluster.
    address : str, optional
        Address of the cluster, as for `solve`.

    Raises
    ------
    ModelError
        If the file has other content, the folder cannot be written, or `jobs` is not a positive integer.
    SolventError
        If a worker process ended without a result.

    Examples
    --------
    >>> import tempfile
    >>> @dataclass(frozen=True)
    ... class Number:
    ...     n: int
    >>> @dataclass(frozen=True)
    ... class Square:
    ...     square: int
    >>> study = Study("squares", (Number(3), Number(12)), lambda case: Square(case.n**2), Square)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = run(study, folder)
    ...     print((Path(folder) / "squares.csv").read_text())  # doctest: +ELLIPSIS
    solvent,n,square
    ...,3,9
    ...,12,144
    >>> rows[1].result.square
    144
    """
    jobs = read_jobs(jobs)
    if not study.cases:
        return []
    place = read_path(folder, "folder", "the path of a folder")
    _check_folder(place)
    table = _Table(place / f"{study.name}.csv", type(study.cases[0]), study.result)
    known = {} if fresh else table.read()
    if fresh:
        table.remove()
    wanted = dict.fromkeys(study.cases)
    missing = [case for case in wanted if table.key(case) not in known]
    if missing:
        with (
            open_progress(progress, waiting=f"{study.name}: preparing") as bar,
            table,
            open_engine(engine, address) as opened,
        ):
            kept = len(wanted) - len(missing)
            with closing(_measured(study, missing, jobs, opened)) as measured:  # ends workers even after an exception
                for done, (case, result) in enumerate(measured, 1):
                    table.append(case, result)
                    known[table.key(case)] = result
                    bar.report(study.name, kept + done, len(wanted), {"kept from before": kept} if kept else {})
    return [Row(case, known[table.key(case)]) for case in study.cases]


def _check_folder(folder: Path) -> None:
    """Raise an error if the folder, or one of its parents, is a file."""
    there = next((place for place in (folder, *folder.parents) if place.exists()), None)
    if there is not None and not there.is_dir():
        raise ModelError(str(there), "a folder", "a file", "name a folder; it is created if it does not exist")


def _measured(study: Study[C, R], cases: list[C], jobs: int | None, engine: Engine) -> Generator[tuple[C, R]]:
    """Return the generator of cases and results, in any order."""
    if isinstance(engine, RayEngine):
        return _on_cluster(study, cases, jobs, engine)
    jobs = available_cores() if jobs is None else jobs
    return _here(study, cases) if jobs == 1 else _elsewhere(study, cases, min(jobs, len(cases)))


def _on_cluster(study: Study[C, R], cases: list[C], jobs: int | None, engine: RayEngine) -> Generator[tuple[C, R]]:
    study.prepare()  # once, so that several processes of this machine do not compile the same kernels at the same time
    results = engine.map(partial(_measure, study.measure), cases, study.prepare, jobs)
    with closing(results):
        for index, result in results:
            yield cases[index], result


def _here(study: Study[C, R], cases: list[C]) -> Generator[tuple[C, R]]:
    study.prepare()
    for case in cases:
        yield case, _measure(study.measure, case)


def _measure(measure: Callable[[C], R], case: C) -> R:
    try:
        return measure(case)
    except Exception as error:
        error.add_note(f"while measuring {case}")
        raise


def _elsewhere(study: Study[C, R], cases: list[C], jobs: int) -> Generator[tuple[C, R]]:
    """Yield results as worker processes finish them, and end the workers when the generator is closed."""
    study.prepare()  # once, so that several processes do not compile the same kernels at the same time
    others = set(multiprocessing.active_children())
    threads = max(1, available_cores() // jobs)
    pool = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=_start_worker, initargs=(study.prepare, threads)
    )
    with _interrupts_blocked():  # workers begin with the first calls, and must not see Ctrl-C before they ignore it
        waiting = {pool.submit(_measure, study.measure, case): case for case in cases}
    try:
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()
    except BrokenProcessPool:
        raise SolventError(
            f"{study.name}: a worker process ended without a result, possibly because memory ran out; the rows "
            "measured so far are kept, and running again with fewer jobs continues from there"
        ) from None
    finally:
        if waiting:  # stopped early, by Ctrl-C or an error
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
        pool.shutdown()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Delay Ctrl-C for this thread; processes that are started meanwhile do not see it at all."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(prepare: Callable[[], None], threads: int) -> None:
    """Ignore Ctrl-C, which the parent handles, exit with the parent, limit the threads, and load kernels."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from solvent.core.threads import set_thread_count, thread_count

    set_thread_count(min(threads, thread_count()))
    prepare()


def _end_with_parent() -> None:
    """Wait until the parent process has ended, then exit: no process would read the results."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Table(Generic[C, R]):
    """The file of a study: a header, and a line for each row."""

    def __init__(self, path: Path, case: type[C], result: type[R]) -> None:
        self._path, self._case, self._result = path, case, result
        self._case_kinds, self._result_kinds = _kinds(case), _kinds(result)
        self._header = [_VERSION, *self._case_kinds, *self._result_kinds]
        if len(set(self._header)) < len(self._header):
            raise ModelError(path.name, "different names for the fields of case and result", quote(self._header))
        self._file: io.FileIO | None = None

    def key(self, case: C) -> tuple[str, ...]:
        """Return the cells that identify a case."""
        return (__version__, *_cells(case, self._case_kinds))

    def read(self) -> dict[tuple[str, ...], R]:
        """Return the rows by key; of two rows with one key, the first."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ModelError(str(self._path), "a file of rows", error.strerror or str(error)) from None
        found: dict[tuple[str, ...], R] = {}
        width = 1 + len(self._case_kinds)
        for number, cells in enumerate(_whole_lines(content, self._path), 1):
            if number == 1:
                self._check_header(cells)
                continue
            if len(cells) != len(self._header):
                raise self._foreign(number, f"{len(self._header)} cells", f"{len(cells)}")
            try:
                result = self._result(*map(_parse, cells[width:], self._result_kinds.values()))
            except ValueError as error:
                raise self._foreign(number, "a row of this experiment", str(error)) from None
            found.setdefault(tuple(cells[:width]), result)
        return found

    def _check_header(self, cells: list[str]) -> None:
        if cells != self._header:
            raise self._foreign(1, f"the columns {','.join(self._header)}", ",".join(cells))

    def _foreign(self, line: int, expected: str, found: str) -> ModelError:
        return ModelError(f"{self._path}, line {line}", expected, quote(found), _ANEW)

    def remove(self) -> None:
        """Remove all rows."""
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> _Table[C, R]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            content = self._path.read_bytes() if self._path.exists() else b""
            self._file = self._path.open("ab", buffering=0)
        except OSError as error:
            raise ModelError(str(self._path), "a writable place", error.strerror or str(error)) from None
        end = content.rfind(b"\n") + 1
        if end < len(content):
            self._file.truncate(end)  # an incomplete last line
        if not end:
            self._file.write(_line(self._header))
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, case: C, result: R) -> None:
        """Write a row in a single operation."""
        assert self._file is not None
        cells = [*self.key(case), *_cells(result, self._result_kinds)]
        try:
            self._file.write(_line(cells))
        except OSError as error:
            raise ModelError(str(self._path), "a writable place", error.strerror or str(error)) from None


def _whole_lines(content: bytes, path: Path) -> Iterator[list[str]]:
    """Yield the cells of each complete line."""
    try:
        text = content[: content.rfind(b"\n") + 1].decode()
    except UnicodeDecodeError:
        raise ModelError(str(path), "a file of rows", "bytes that are not UTF-8 text", _ANEW) from None
    try:
        yield from csv.reader(io.StringIO(text, newline=""))
    except csv.Error as error:
        raise ModelError(str(path), "a file of rows", str(error), _ANEW) from None


def _line(cells: list[str]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _kinds(record: type[Any]) -> dict[str, tuple[type, bool]]:
    """Return for each field of a dataclass its type, and whether it may be None."""
    hints = typing.get_type_hints(record)
    return {field.name: _kind(hints[field.name], f"{record.__name__}.{field.name}") for field in fields(record)}


def _kind(hint: Any, where: str) -> tuple[type, bool]:
    options = set(typing.get_args(hint)) if isinstance(hint, types.UnionType) else {hint}
    kinds = options - {type(None)}
    if len(kinds) == 1 and (kind := kinds.pop()) in _PLAIN:
        return kind, type(None) in options
    raise ModelError(where, "an int, float, str or bool, or one of these or None", quote(hint))


def _cells(record: Any, kinds: dict[str, tuple[type, bool]]) -> list[str]:
    return [_format(value, *kind) for value, kind in zip(astuple(record), kinds.values(), strict=True)]


def _format(value: Any, kind: type, optional: bool) -> str:
    """Return a value as a cell, which `_parse` reads back exactly; 1 in a float field is written as 1.0."""
    if value is None and optional:
        return ""
    text = value if kind is str else repr(kind(value))
    if not isinstance(text, str) or "\n" in text or "\r" in text or (optional and not text):
        raise ModelError("row", f"a plain {kind.__name__} on one line", quote(value))
    return text


def _parse(cell: str, kind: tuple[type, bool]) -> Any:
    of, optional = kind
    if optional and not cell:
        return None
    if of is bool:
        if cell not in ("True", "False"):
            raise ValueError(f"{cell!r} for True or False")
        return cell == "True"
    return of(cell)
