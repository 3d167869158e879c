"""Actors of a Ray cluster that compute a problem step by step, each of them one part of its states.

At each step, an actor puts what other parts need into Ray's object store, from where their actors take it; the calling
process passes on references only. An actor begins a step as soon as it has what it needs, so that no actor waits for
the slowest part of a step, and the calling process asks for a few steps in advance.

If an actor or its machine is lost, new actors begin with what the calling process has kept last.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

from solvent.core.engines import RayEngine, start_worker
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.core.logs import get_logger
from solvent.errors import SolventError

#: Steps that actors may be ahead of the calling process.
_AHEAD = 3
#: Seconds between two times at which values are kept, without a checkpoint, and the share of the time that it may take.
_KEEP_EVERY, _SHARE = 30.0, 0.1
#: Seconds between two checks of the clock and for Ctrl-C.
_PAUSE = 0.1
#: The largest number of losses in a row without progress in between.
_MOST_LOSSES = 5

_logger = get_logger(__name__)


class Worker:
    """Holds the computation of one part; the class of Ray actors.

    The computation is an object that is made in the process of the actor. It can be replaced by another one, so that
    processes are not started anew for each problem.
    """

    def __init__(self) -> None:
        start_worker()
        self._part: Any = None

    def prepare(self, make: Callable[..., Any]) -> bool:
        """Return True, after importing what `make` needs, which it is pickled with."""
        return callable(make)

    def load(self, make: Callable[..., Any], *arguments: Any) -> bool:
        """Make the object for a part; return True."""
        self._part = None  # before memory is needed for another one
        self._part = make(*arguments)
        return True

    def call(self, name: str, *arguments: Any) -> Any:
        """Return the result of a method."""
        return getattr(self._part, name)(*arguments)

    def exchange(self, name: str, *arguments: Any) -> Any:
        """Return the results of a method, which returns a list, as Ray expects several of them."""
        results = getattr(self._part, name)(*arguments)
        return results[0] if len(results) == 1 else results


class Actors:
    """One actor for each part of a problem.

    Their processes begin to start at once, while parts are still being planned.

    Parameters
    ----------
    engine : RayEngine
    make : callable
        Returns the object that computes a part.
    most : int
        The largest number of parts.
    monitor : ResourceMonitor

    Attributes
    ----------
    arguments : list of tuple
        The arguments of `make` for each part, to be set before `run`. Those that are large should be references of
        Ray's object store.
    """

    def __init__(self, engine: RayEngine, make: Callable[..., Any], most: int, monitor: ResourceMonitor) -> None:
        self._engine, self._ray, self._make, self._monitor = engine, engine.ray, make, monitor
        self.arguments: list[tuple[Any, ...]] = []
        self._handles: list[Any] = []
        self._preparing: list[Any] = []
        self._processors: list[float] = []
        self._create(most)
        errors = engine.ray.exceptions
        self._lost = (errors.RayActorError, errors.ObjectLostError, errors.OwnerDiedError, errors.RaySystemError,
                      errors.WorkerCrashedError)  # fmt: skip

    def __len__(self) -> int:
        return len(self.arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, begin: Callable[[], None], advance: Callable[[], bool]) -> None:
        """Compute until `advance` returns True, with new actors whenever some are lost.

        Parameters
        ----------
        begin : callable
            Called after actors were started: gives them what was kept last.
        advance : callable
            Computes some steps and keeps what new actors would need to go on from there; returns whether all is done.

        Raises
        ------
        SolventError
            If actors are lost again and again.
        """
        losses, done, begun = 0, False, False
        try:
            while not done:
                try:
                    if not begun:
                        self._start()
                        begin()
                        begun = True
                    done = advance()
                    losses = 0
                except self._lost as error:
                    losses += 1
                    if losses > _MOST_LOSSES:
                        raise SolventError(f"workers of the cluster were lost {losses} times: {error}") from None
                    _logger.warning("a worker of the cluster was lost; going on from what was kept last")
                    self._end()
                    begun = False
        finally:
            self._end(idle=done)

    def _start(self) -> None:
        """Start an actor for each part, or take those that are idle, and load the parts."""
        count = len(self.arguments)
        for handle in self._handles[count:]:
            self._ray.kill(handle)
        del self._handles[count:]
        if len(self._handles) < count:
            self._end()
            self._create(count)
        while not self._are_ready():
            self._end()
            self._create(count)
        loaded = [
            handle.load.remote(self._make, *given) for handle, given in zip(self._handles, self.arguments, strict=True)
        ]
        self.wait(loaded)

    def _create(self, count: int) -> None:
        """Create actors, or take those that are idle; if there are fewer processors, actors share them."""
        idle = self._engine.idle_actors
        self._processors = self._found_processors()
        if idle is not None and len(idle) >= count:
            self._handles, self._preparing = idle[:count], []
            del idle[:count]
            return
        self._engine.end_idle_actors()
        together = 1
        while sum(math.floor(together * each) for each in self._processors) < count:
            together += 1  # actors that share a processor
        options = {"num_cpus": 1 / together, "scheduling_strategy": "SPREAD"}
        actor = self._ray.remote(Worker).options(**options)
        self._handles = [actor.remote() for _ in range(count)]
        self._preparing = [handle.prepare.remote(self._make) for handle in self._handles]

    def _are_ready(self) -> bool:
        """Wait for the actors; return whether the cluster has places for all of them, as machines may be lost."""
        while self._preparing:
            _, self._preparing = self._ray.wait(
                self._preparing, num_returns=len(self._preparing), timeout=_PAUSE
            )  # fmt: skip
            self._monitor.check_time()
            if self._preparing and sum(self._found_processors()) < sum(self._processors):
                return False
        return True

    def _found_processors(self) -> list[float]:
        """Return the number of processors of each machine; at least one in total."""
        found = [float(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        return found if sum(found) >= 1 else [1.0]

    def _end(self, *, idle: bool = False) -> None:
        """End all actors, or keep them for the next computation if they have nothing to do."""
        if idle and self._engine.idle_actors is not None:
            self._engine.idle_actors += self._handles
        else:
            for handle in self._handles:
                self._ray.kill(handle)
        self._handles = []

    def call(self, p: int, name: str, *arguments: Any) -> Any:
        """Call a method of a part; return a reference to its result."""
        return self._handles[p].call.remote(name, *arguments)

    def exchange(self, p: int, name: str, count: int, *arguments: Any) -> list[Any]:
        """Call a method of a part that returns a list of `count` results; return references to them."""
        found = self._handles[p].exchange.options(num_returns=count).remote(name, *arguments)
        return [] if count == 0 else found if isinstance(found, list) else [found]

    def wait(self, references: list[Any]) -> list[Any]:
        """Return the values of references; the clock and Ctrl-C are checked meanwhile.

        Raises
        ------
        LimitReached
            Also if a worker has too little memory.
        """
        while True:
            _, waiting = self._ray.wait(references, num_returns=len(references), timeout=_PAUSE, fetch_local=True)
            self._monitor.check_time()
            if not waiting:
                try:
                    found: list[Any] = self._ray.get(references)
                except self._ray.exceptions.RayTaskError as error:
                    if isinstance(error.cause, LimitReached):
                        raise LimitReached(f"on a worker: {error.cause}") from None
                    raise
                return found


class Ahead:
    """Steps that actors are asked for, a few of them in advance.

    Parameters
    ----------
    actors : Actors
    steps : iterable of int
    ask : callable
        Asks all parts for a step; returns references to their results.
    """

    def __init__(self, actors: Actors, steps: Iterable[int], ask: Callable[[int], list[Any]]) -> None:
        self._actors, self._left, self._ask = actors, iter(steps), ask
        self._asked: deque[tuple[int, list[Any]]] = deque()

    def ask(self) -> None:
        """Ask for the next steps, as far in advance as is allowed."""
        while len(self._asked) < _AHEAD and (h := next(self._left, None)) is not None:
            self._asked.append((h, self._ask(h)))

    def results(self, is_due: Callable[[], bool]) -> Iterator[tuple[int, list[Any]]]:
        """Yield steps and the results of all parts, until it is time to keep what was computed; at least one step.

        No steps are asked for any more when `is_due` returns that it is time, and those that were are finished.
        """
        some = False
        while True:
            if not some or not is_due():
                self.ask()
            if not self._asked:
                return
            h, references = self._asked.popleft()
            yield h, self._actors.wait(references)
            some = True


class Passing:
    """Blocks that parts give to each other, from one step to the next.

    Parameters
    ----------
    actors : Actors
    sources, targets : list of list of int
        For each part, the parts that it takes blocks of, and those that it gives blocks to.
    """

    def __init__(self, actors: Actors, sources: list[list[int]], targets: list[list[int]]) -> None:
        self._actors, self._sources, self._targets = actors, sources, targets
        self._given: list[dict[int, Any]] = [{} for _ in targets]

    def begin(self, name: str, arguments: Callable[[int], Sequence[Any]] | None = None) -> None:
        """Begin with the blocks that a method of each part returns; with none if there are no arguments for it."""
        self._given = [{} for _ in self._targets]
        if arguments is None:
            return
        for p, targets in enumerate(self._targets):
            found = self._actors.exchange(p, name, len(targets), *arguments(p))
            self._given[p] = dict(zip(targets, found, strict=True))

    def ask(self, name: str, arguments: Callable[[int], Sequence[Any]], then: str = "") -> list[Any]:
        """Call a method of each part with arguments and the blocks for it; return references to the results.

        The method returns its result and a block for each target. With `then`, it returns the blocks only, so that
        other parts do not wait for the rest, and the method of that name returns the result, given the same arguments.
        """
        given, results = self._given, []
        self._given = []
        for p, targets in enumerate(self._targets):
            blocks = [given[q][p] for q in self._sources[p] if p in given[q]]
            count = len(targets) if then else 1 + len(targets)
            found = self._actors.exchange(p, name, count, *arguments(p), *blocks)
            results.append(self._actors.call(p, then, *arguments(p)) if then else found.pop(0))
            self._given.append(dict(zip(targets, found, strict=True)))
        return results


class Intervals:
    """Times at which to keep what new actors would need to go on: those of the checkpoint if there is one."""

    def __init__(self, monitor: ResourceMonitor) -> None:
        self._monitor = monitor
        self._every = _KEEP_EVERY if monitor.checkpoint is None else monitor.checkpoint.every
        self._wait, self._last = self._every, time.monotonic()

    def is_due(self) -> bool:
        """Return whether it is time."""
        return self._monitor.should_save() or time.monotonic() - self._last >= self._wait

    def close(self, began: float) -> None:
        """Begin the next interval, after something was kept, which began at a time of `time.monotonic`."""
        self._last = time.monotonic()
        self._wait = max(self._every, (self._last - began) / _SHARE)
