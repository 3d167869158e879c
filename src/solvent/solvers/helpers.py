"""Helper processes of `solve_many`: each solves some of the models, while the calling process solves others.

A helper is a new Python that imports the package. It does not import the caller's script, so that no
`if __name__ == "__main__"` is needed. Messages are pickles with their length in front:

    to a helper      a list of (model, budget), and the arguments for all of them
    from a helper    a list of solutions or exceptions; models in it are positions in the list it was sent

A message that cannot be pickled, or not be read by the other side (names of states may be objects of classes that only
the caller's script defines), comes back as None, and the caller solves these models itself. Helpers end when their
input does.
"""

from __future__ import annotations

import io
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, Any

from solvent.core.threads import set_thread_count

#: The length of a message.
_LENGTH = struct.Struct("<Q")

#: What is solved: a model and a budget.
Task = tuple[Any, Any]


class _ModelPickler(pickle.Pickler):
    """Replaces models by their positions."""

    def __init__(self, file: IO[bytes], tasks: Sequence[Task]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._places = {id(model): place for place, (model, _) in enumerate(tasks)}

    def persistent_id(self, obj: Any) -> int | None:
        return self._places.get(id(obj))


class _ModelUnpickler(pickle.Unpickler):
    """Replaces positions by models."""

    def __init__(self, file: IO[bytes], tasks: Sequence[Task]) -> None:
        super().__init__(file)
        self._tasks = tasks

    def persistent_load(self, pid: int) -> Any:
        return self._tasks[pid][0]


def dump_results(found: list[Any], tasks: Sequence[Task]) -> bytes:
    """Return a pickle of the solutions or exceptions of some tasks, with models replaced by their positions."""
    file = io.BytesIO()
    _ModelPickler(file, tasks).dump(found)
    return file.getvalue()


def load_results(content: bytes, tasks: Sequence[Task]) -> list[Any]:
    """Return what `dump_results` was given, with the models of these tasks."""
    found: list[Any] = _ModelUnpickler(io.BytesIO(content), tasks).load()
    return found


def _send(stream: IO[bytes], content: bytes) -> None:
    stream.write(_LENGTH.pack(len(content)) + content)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    """Return the next message; None at the end."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    content = stream.read(length)
    return content if len(content) == length else None


class Helpers:
    """Helper processes that take tasks until there are none left.

    Parameters
    ----------
    count : int
        Number of processes; fewer if some cannot be started.
    take : callable
        Returns the positions and the tasks to solve next, and an empty list at the end. Called in other threads.
    put : callable
        Takes these positions and their solutions or exceptions; None if a helper could not solve them.
    arguments : dict
        Further arguments of the function that solves a task, for all of them.
    """

    def __init__(
        self,
        count: int,
        take: Callable[[], tuple[list[int], list[Task]]],
        put: Callable[[list[int], list[Any] | None], None],
        arguments: dict[str, Any],
    ) -> None:
        self._take, self._put, self._arguments = take, put, arguments
        self._processes: list[subprocess.Popen[bytes]] = []
        code = f"import sys; sys.path[:] = {sys.path!r}; from solvent.solvers.many import help_others; help_others()"
        if sys.executable and not getattr(sys, "frozen", False):
            for _ in range(count):
                try:
                    # in a session of their own, so that Ctrl-C reaches only the caller
                    self._processes.append(
                        subprocess.Popen(
                            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, start_new_session=True,
                        )
                    )  # fmt: skip
                except OSError:
                    break
        self._threads = [
            threading.Thread(target=self._serve, args=(process,), name="solvent-helper", daemon=True)
            for process in self._processes
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        """Pass tasks to a process until there are none left, or it ends."""
        assert process.stdin is not None
        assert process.stdout is not None
        positions: list[int] = []
        try:
            while True:
                positions, tasks = self._take()
                if not positions:
                    return
                _send(process.stdin, pickle.dumps((tasks, self._arguments), pickle.HIGHEST_PROTOCOL))
                answer = _receive(process.stdout)
                found = None if answer is None else load_results(answer, tasks)
                self._put(positions, found)
                if answer is None:  # the process has ended
                    return
        except Exception:  # whatever cannot be pickled or read is solved by the caller
            if positions:
                self._put(positions, None)

    @property
    def working(self) -> bool:
        """Whether some process may still return solutions."""
        return any(thread.is_alive() for thread in self._threads)

    def wait(self, seconds: float) -> None:
        """Wait until no process may return solutions any more, or for some time."""
        for thread in self._threads:
            if thread.is_alive():
                thread.join(seconds)
                return

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def help_with(solve: Callable[..., Any]) -> None:
    """Solve what is sent to standard input, and send the solutions to standard output, until the input ends."""
    set_thread_count(1)
    input_, output = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what other code prints must not get into messages
    while (content := _receive(input_)) is not None:
        answer = pickle.dumps(None)
        try:
            tasks, arguments = pickle.loads(content)  # from the calling process
            found: list[Any] = []
            for model, budget in tasks:
                try:
                    found.append(solve(model, budget, **arguments))
                except Exception as error:
                    found.append(error)
            answer = dump_results(found, tasks)
        except Exception:  # the caller solves these models itself
            pass
        _send(output, answer)
