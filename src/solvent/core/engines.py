"""Engines: where independent tasks, and the parts of one large solve, run.

The engine "local" is this process. The engine "ray" is a Ray cluster: many machines, or many processes of this one.
Public functions take the arguments `engine` and `address`, and open the engine for the duration of the call:

    with open_engine(engine, address) as opened:
        for index, result in opened.map(function, items):
            ...

Results do not depend on the engine. Ray is imported when it is asked for, never by `import solvent`.

Functions, items and results are pickled by value (cloudpickle) into bytes of their own, so that arrays in them are
copies: those that Ray shares between processes cannot be written to. A function is sent once and kept by each worker,
so that what all items need, such as a model, belongs into it (`functools.partial`).
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import logging
import math
import os
import re
import shutil
import signal
import socket
import tempfile
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from solvent._version import __version__
from solvent.core.interrupt import check_interrupt
from solvent.core.logs import get_logger
from solvent.core.threads import set_thread_count
from solvent.errors import ModelError, SolventError, did_you_mean, quote

T = TypeVar("T")
R = TypeVar("R")

#: Names of the engines.
ENGINES = ("local", "ray")

#: How often a task is started again after its worker, or the machine of it, was lost.
_RETRIES = 3
#: Tasks that are sent ahead to each worker, so that none waits for the next.
_AHEAD = 4
#: Seconds between two checks for Ctrl-C.
_PAUSE = 0.1
#: Seconds to wait for an answer from the address of a cluster.
_PATIENCE = 10.0
#: Longest name of a temporary folder in which the sockets of a local instance have names that systems accept.
_LONGEST_FOLDER = 32
#: Environment variables with which Ray is started; those that the user has set are kept.
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # otherwise a warning, although no task asks for accelerators
}

#: An address: a word that Ray knows, a host and a port, or Ray's protocol for clients.
_ADDRESS = re.compile(r"auto|local|(ray://)?[^\s/]+:\d+")

_logger = get_logger(__name__)


class LocalEngine:
    """The current process: tasks run one after the other, and their kernels on all its threads."""

    name = "local"
    #: Number of tasks that run at the same time.
    workers = 1

    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        prepare: Callable[[], object] | None = None,
        jobs: int | None = None,
        check: Callable[[], None] = check_interrupt,
    ) -> Generator[tuple[int, R]]:
        """Yield the position of each item and the result of the function for it; see `RayEngine.map`."""
        if prepare is not None:
            prepare()
        for index, item in enumerate(items):
            check()
            yield index, function(item)

    def call(self, function: Callable[[], R], check: Callable[[], None] = check_interrupt) -> R:
        """Return the result of a function."""
        return function()

    def keeping_actors(self) -> contextlib.AbstractContextManager[None]:
        """Return a context without effect; see `RayEngine.keeping_actors`."""
        return contextlib.nullcontext()


class RayEngine:
    """A Ray cluster to which this process is connected; see `open_engine`.

    Attributes
    ----------
    ray : module
    workers : int
        Number of CPUs of the cluster. As many tasks run at the same time, each on one thread.
    idle_actors : list or None
        Actors that have nothing to do, within `keeping_actors`; None otherwise.
    """

    name = "ray"

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.idle_actors: list[Any] | None = None
        self._run = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run)

    @property
    def workers(self) -> int:
        """Number of CPUs of the cluster, at least 1."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        prepare: Callable[[], object] | None = None,
        jobs: int | None = None,
        check: Callable[[], None] = check_interrupt,
    ) -> Generator[tuple[int, R]]:
        """Yield the position of each item and the result of the function for it, in the order in which they finish.

        Parameters
        ----------
        function : callable
            Takes an item. Sent to each worker once.
        items : iterable
        prepare : callable, optional
            Called by each worker before its first item.
        jobs : int, optional
            The largest number of items at the same time. Default: as many as the cluster has CPUs.
        check : callable, optional
            Called again and again while tasks run. An exception that it raises, such as that of a time limit or of
            Ctrl-C, ends them.

        Raises
        ------
        SolventError
            If workers were lost again and again, or if something cannot be pickled.
        Exception
            The error of the first item that fails, after the results of all items before it, as in a loop. The
            traceback of the worker is its cause.
        """
        ray = self.ray
        work = [ray.put(_dumps((function, prepare)))]  # in a list, so that workers fetch it only once
        key = os.urandom(16)
        most = jobs or _AHEAD * self.workers
        entries = enumerate(items)
        pending: dict[Any, int] = {}
        failed: tuple[float, BaseException | None] = math.inf, None
        try:
            while True:
                for index, item in itertools.islice(entries, max(0, most - len(pending)) if failed[1] is None else 0):
                    pending[self._run.remote(work, key, __version__, _dumps(item))] = index
                if not pending:
                    break
                ready, _ = ray.wait(list(pending), num_returns=1, timeout=_PAUSE)
                check()
                for task in ready:
                    index = pending.pop(task)
                    done, result = self._result(task)
                    if done:
                        yield index, result
                    elif index < failed[0]:
                        failed = index, result
                        later = [other for other, position in pending.items() if position > index]
                        self._cancel(later)
                        for other in later:
                            del pending[other]
            if failed[1] is not None:
                raise failed[1]
        finally:
            self._cancel(pending)

    def call(self, function: Callable[[], R], check: Callable[[], None] = check_interrupt) -> R:
        """Return the result of a function that runs on one worker; several threads may call at the same time."""
        ((_, result),) = self.map(_call, [function], check=check)
        return result

    @contextlib.contextmanager
    def keeping_actors(self) -> Iterator[None]:
        """Context in which one computation leaves its actors to the next; no tasks may run, as actors occupy CPUs."""
        if self.idle_actors is not None:
            yield
            return
        self.idle_actors = []
        try:
            yield
        finally:
            self.end_idle_actors()
            self.idle_actors = None

    def end_idle_actors(self) -> None:
        """End the actors that were kept."""
        for actor in self.idle_actors or ():
            with contextlib.suppress(Exception):  # the cluster is gone
                self.ray.kill(actor)
        if self.idle_actors is not None:
            self.idle_actors.clear()

    def _result(self, task: Any) -> tuple[bool, Any]:
        """Return whether a task that has ended was successful, and its result or exception."""
        try:
            done, result, text = _loads(self.ray.get(task))
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            return False, SolventError(f"engine='ray': a worker cannot run tasks of Solvent: {cause}")
        except self.ray.exceptions.RayError as error:
            first = str(error).strip().partition("\n")[0]
            return False, SolventError(f"engine='ray': a task was lost {_RETRIES + 1} times, the last time: {first}")
        if not done:
            result.__cause__ = _WorkerTraceback(text)
        return done, result

    def _cancel(self, tasks: Iterable[Any]) -> None:
        """Interrupt tasks; those that run end like a computation after Ctrl-C, and their processes stay.

        Ray may end this process if a task is interrupted at the moment when it ends (a failed check of its own), so
        those that are about to end are waited for.
        """
        left = list(tasks)
        with contextlib.suppress(Exception):  # there are none, or the cluster is gone
            _, left = self.ray.wait(left, num_returns=len(left), timeout=_PAUSE)
        for task in left:
            with contextlib.suppress(Exception):  # finished meanwhile, or the cluster is gone
                self.ray.cancel(task)


Engine = LocalEngine | RayEngine

#: The engine of calls that ask for no other.
LOCAL = LocalEngine()


class _WorkerTraceback(Exception):  # noqa: N818  # shown as the cause of an error
    """The traceback of an error in another process."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


@contextlib.contextmanager
def open_engine(engine: str | Engine = "local", address: str | None = None) -> Iterator[Engine]:
    """Open an engine for the duration of this context.

    Parameters
    ----------
    engine : {"local", "ray"} or Engine
        One that is open stays so.
    address : str, optional
        Address of a Ray cluster: "auto" for one that was started on this machine, "host:port", or "ray://host:port".
        Default: that of the environment variable RAY_ADDRESS or, if it is not set, a new instance on this machine,
        which ends with the context. If this process is connected to a cluster already (`ray.init`), that one is used,
        and stays connected.

    Raises
    ------
    ModelError
        If the name of the engine is unknown, an address is given for the local one, or the process is connected to
        another cluster.
    SolventError
        If Ray is not installed, or there is no cluster at the address.

    Examples
    --------
    >>> with open_engine("local") as engine:
    ...     sorted(engine.map(abs, [-3, 4]))
    [(0, 3), (1, 4)]
    """
    if isinstance(engine, LocalEngine | RayEngine):
        yield engine
        return
    check_engine(engine, address)
    if engine == "local":
        yield LOCAL
        return
    ray = _import_ray()
    if ray.is_initialized():
        _check_connection(ray, address)
        yield RayEngine(ray)
        return
    with _connected(ray, address or os.environ.get("RAY_ADDRESS") or "local"):
        yield RayEngine(ray)


def check_engine(engine: Any, address: Any) -> None:
    """Raise an error unless these are arguments of `open_engine`."""
    if engine not in ENGINES:
        hint = did_you_mean(engine, ENGINES) if isinstance(engine, str) else ""
        raise ModelError("engine", f"one of {', '.join(map(quote, ENGINES))}", quote(engine), hint)
    if address is None:
        return
    if engine == "local":
        raise ModelError("address", "none with engine='local'", quote(address), "add engine='ray'")
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise ModelError("address", "'auto', 'host:port' or 'ray://host:port'", quote(address))


def start_worker() -> None:
    """Let kernels run on one thread, in a process of which there is one for each CPU."""
    set_thread_count(1)


def _import_ray() -> Any:
    with _environment():
        try:
            return importlib.import_module("ray")
        except ImportError:
            hint = 'pip install "solvent[ray]"'
            raise SolventError(f"engine='ray': expected the package ray, found no such package; {hint}") from None


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Set the environment variables with which Ray is imported and started."""
    added = {name: value for name, value in _SETTINGS.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces by its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _check_connection(ray: Any, address: str | None) -> None:
    """Raise an error if an address differs from that of the cluster that this process is connected to."""
    if address is None or address in ("auto", "local") or "://" in address:
        return
    connected = ray.get_runtime_context().gcs_address
    (host, port), (other, other_port) = _place(address), _place(connected)
    if port != other_port or (host != other and not host.startswith("127.")):
        raise ModelError("address", f"that of the cluster this process is connected to, {connected}", quote(address))


def _place(address: str) -> tuple[str, str]:
    """Return the IP address and the port of an address."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        host = socket.gethostbyname(host)
    return host, port


@contextlib.contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine, and disconnect from it or end it.

    Environment variables that Ray sets are removed in the end.
    """
    _check_reachable(address)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    folder = None
    if address == "local":
        options["include_dashboard"] = False
        folder = _make_folder()
        if folder is not None:
            options["_temp_dir"] = str(folder)
    before = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    stack = contextlib.ExitStack()
    try:
        try:
            with _environment(), _signals_kept():
                ray.init(address=address, **options)
            stack.enter_context(_logged_messages())
        except Exception as error:
            what = "Ray did not start" if address == "local" else f"no Ray cluster found at {quote(address)}"
            reasons = [str(each).strip().partition("\n")[0] for each in (error, error.__cause__) if each is not None]
            raise SolventError(f"engine='ray': {what}: {': '.join(reasons)}") from error
        _logger.debug("connected to a Ray cluster: %s", ray.cluster_resources())
        yield
    finally:
        with _signals_kept():
            ray.shutdown()
        stack.close()
        for name in [name for name in os.environ if name.startswith("RAY_") and name not in before]:
            del os.environ[name]
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _logged_messages() -> Iterator[None]:
    """Log what Ray reports about lost workers; it would write this to standard output."""
    module: Any = importlib.import_module("ray._private.worker")
    before = getattr(module, "print_to_stdstream", None)
    if before is None:
        yield
        return
    module.print_to_stdstream = lambda data, *_, **__: _logger.info("Ray: %s", "\n".join(data.get("lines", ())))
    try:
        yield
    finally:
        module.print_to_stdstream = before


def _make_folder() -> Path | None:
    """Return a new folder for the files of a local instance; None if its name is too long for sockets in it."""
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    if len(str(folder)) <= _LONGEST_FOLDER:
        return folder
    folder.rmdir()
    return None


def _check_reachable(address: str) -> None:
    """Raise an error if nothing answers at an address; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise SolventError(f"engine='ray': no Ray cluster found at {quote(address)}: {error}") from None


def _dumps(content: Any) -> bytes:
    """Return a pickle, with functions and classes of scripts by value."""
    cloudpickle = importlib.import_module("ray.cloudpickle")
    try:
        pickled: bytes = cloudpickle.dumps(content, protocol=5)
    except Exception as error:
        raise SolventError(f"engine='ray': expected objects that can be pickled, found {error}") from error
    return pickled


def _loads(pickled: bytes) -> Any:
    return importlib.import_module("ray.cloudpickle").loads(pickled)


#: The function that this worker process has loaded, and the call of `RayEngine.map` that it belongs to.
_loaded: tuple[bytes, Callable[[Any], Any] | None] = b"", None


def _call(function: Callable[[], R]) -> R:
    return function()


def _run(work: list[Any], key: bytes, version: str, item: bytes) -> bytes:
    """Run one task in a worker process, and return a pickle of its result, or of its exception and a traceback."""
    global _loaded
    try:
        if _loaded[0] != key:
            if version != __version__:
                raise SolventError(f"engine='ray': expected Solvent {version} on all machines, found {__version__}")
            start_worker()
            function, prepare = _loads(importlib.import_module("ray").get(work[0]))
            if prepare is not None:
                prepare()
            _loaded = key, function
        assert _loaded[1] is not None
        return _dumps((True, _loaded[1](_loads(item)), ""))
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        try:
            pickled = _dumps((False, error.with_traceback(None), text))
            _loads(pickled)
        except Exception:
            pickled = _dumps((False, SolventError(f"{type(error).__name__}: {error}"), text))
        return pickled
