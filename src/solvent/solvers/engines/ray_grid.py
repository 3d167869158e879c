"""Sweeps of boxes on a Ray cluster: each part of the states is swept by an actor.

At each step, an actor sends the values that other parts need to Ray's object store, from where their actors take them;
the calling process passes on references only. An actor begins a step as soon as the values of its halo are there, so
that no actor waits for the slowest part of a step. Runs of best rows go to files of the calling process, step by step.

From time to time the values of all parts are written to files as well. If an actor or its machine is lost, new actors
begin with these values, and the steps since then are swept again. The result is the same, bit for bit.
"""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.core.logs import get_logger
from solvent.core.threads import set_thread_count
from solvent.errors import SolventError
from solvent.solvers.arrays import read_only
from solvent.solvers.bounds.arrays import Bounds
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import Boxes, RowRuns
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.parts import Part, PartBuffers, PartSweep
from solvent.solvers.grid.record import PartedRecord
from solvent.solvers.grid.spilled import plan_parts
from solvent.solvers.grid.swept import Swept

#: Steps that actors may be ahead of the calling process.
_AHEAD = 3
#: Seconds between two saves of all values, without a checkpoint, and the share of the time that they may take.
_SAVE_EVERY, _SHARE = 30.0, 0.1
#: Seconds between two checks of the clock and for Ctrl-C.
_PAUSE = 0.1
#: The largest number of losses in a row without a step in between.
_MOST_LOSSES = 5

_logger = get_logger(__name__)


class PartActor:
    """Holds the values of one part, and sweeps its steps; the class of Ray actors.

    Parameters
    ----------
    part : Part
    sent : list of ndarray of int64
        For each part that needs values of this one, the positions of the states among its own.
    received : list of ndarray of int64
        For each part that this one needs values of, the positions of the states in its halo.
    """

    def __init__(self, part: Part, sent: list[NDArray[np.int64]], received: list[NDArray[np.int64]]) -> None:
        set_thread_count(1)
        # Ray's arrays are read-only, and kernels are compiled for writable ones
        bounds, boxes = Bounds(*map(np.array, part.bounds)), Boxes(*map(np.array, part.boxes))
        part = replace(part, bounds=bounds, boxes=boxes)
        self._part, self._sent, self._received = part, sent, received
        self._sweep = PartSweep(part, PartBuffers.of([part]), np.zeros(1, bool))
        largest_S = np.diff(part.own_boxes.offset, axis=1).max(axis=0)
        # Ray copies what a method returns before it calls the next one
        self._blocks = [np.empty(int(largest_S[states].sum())) for states in sent]

    def ready(self) -> bool:
        """Return True, once the actor is there."""
        return True

    def restore(self, h: int, value: NDArray[np.float64]) -> Any:
        """Begin with the values of its own states at step h; return what other parts need of them."""
        self._sweep.own_values(h)[:] = value
        return _as_returns(self._needed(h))

    def step(self, h: int, *blocks: NDArray[np.float64]) -> Any:
        """Sweep step h, given the values of its halo at step h + 1, one array for each part that they come from.

        Returns
        -------
        list
            Runs of best rows and extreme values, then the values at step h that each other part needs.
        """
        part, after = self._part, h + 1
        if after == len(part.boxes.pitch_H) - 1:
            self._sweep.end()
        else:
            sizes = np.diff(part.boxes.offset[after])[len(part.own) :]
            for at, block in zip(self._received, blocks, strict=True):
                offset = np.concatenate([[0], np.cumsum(sizes[at])])
                self._sweep.receive(after, at, block, offset, np.arange(len(at)))
        runs, extremes = self._sweep.sweep(h)
        return _as_returns([(runs.start, runs.row, extremes), *self._needed(h)])

    def _needed(self, h: int) -> list[NDArray[np.float64]]:
        """Return the values at step h that each other part needs."""
        offset, value = read_only(self._part.own_boxes.offset[h]), read_only(self._sweep.own_values(h))
        found = []
        for states, block in zip(self._sent, self._blocks, strict=True):
            to = np.concatenate([[0], np.cumsum(np.diff(offset)[states])])
            places = np.arange(len(states))
            kernels.copy_blocks(value, offset, read_only(states), block, to, read_only(places))
            found.append(block[: to[-1]])
        return found

    def values(self, h: int) -> NDArray[np.float64]:
        """Return the values of its own states at step h, which was swept last."""
        return self._sweep.own_values(h)


def _as_returns(values: list[Any]) -> Any:
    """Return values as Ray expects several of them: a single one is not in a list."""
    return values[0] if len(values) == 1 else values


def sweep_on_ray(layout: BoxLayout, engine: Any, monitor: ResourceMonitor) -> Swept:
    """Sweep a problem on the workers of a Ray engine.

    Raises
    ------
    LimitReached
        If time, memory of this process or space on its disk runs out.
    SolventError
        If actors are lost again and again.
    """
    sets = plan_parts(layout, 2**62, least=engine.workers)
    assert sets is not None
    try:
        return _RaySweep(PartedRecord(layout, sets, monitor), engine.ray, monitor).run()
    except OSError as error:
        raise LimitReached(f"values could not be written to disk: {error.strerror or error}") from None


class _RaySweep:
    """Actors, and the steps they have been asked for."""

    def __init__(self, record: PartedRecord, ray: Any, monitor: ResourceMonitor) -> None:
        self._record, self._ray, self._monitor = record, ray, monitor
        exchange, count = record.exchange, len(record.parts)
        self._receivers = [[q for q in range(count) if p in exchange.senders[q]] for p in range(count)]
        self._class = ray.remote(PartActor)
        self._parts = [ray.put(part) for part in record.parts]
        self._actors: list[Any] = []
        self._needed: list[dict[int, Any]] = []
        self._asked: deque[list[Any]] = deque()
        every = monitor.checkpoint.every if monitor.checkpoint is not None else _SAVE_EVERY
        self._every, self._wait, self._saved_at = every, every, time.monotonic()

    def run(self) -> Swept:
        """Sweep all steps."""
        record = self._record
        errors = self._ray.exceptions
        lost = (errors.RayActorError, errors.ObjectLostError, errors.OwnerDiedError, errors.RaySystemError,
                errors.WorkerCrashedError)  # fmt: skip
        record.check_disk()
        h = saved = record.resumed()
        losses = 0
        try:
            while h > 0 or not record.values:
                try:
                    if not self._actors:
                        self._start(saved)
                        h = saved
                    h, losses = self._sweep_from(h), 0
                    self._keep_values(h)
                    saved = h
                except lost as error:
                    losses += 1
                    if losses > _MOST_LOSSES:
                        raise SolventError(f"workers of the cluster were lost {losses} times: {error}") from None
                    _logger.warning("a worker of the cluster was lost; sweeping again from step %d", saved)
                    self._end()
                    record.forget_before(saved)
        except BaseException:
            if self._monitor.checkpoint is not None and saved == h:
                record.save(h)
            raise
        finally:
            self._end()
        return record.finished()

    def _start(self, h: int) -> None:
        """Start an actor for each part, with the values of step h."""
        record = self._record
        while not self._place():
            self._end()
        self._needed = [{} for _ in self._actors]
        if h == record.layout.model.horizon:
            return
        for p, actor in enumerate(self._actors):
            value = np.array(record.folder.read(record.values[p]))
            given = actor.restore.options(num_returns=len(self._receivers[p])).remote(h, value)
            self._note_needed(p, given)

    def _place(self) -> bool:
        """Create an actor for each part; return whether the cluster has places for all of them.

        If machines were lost, there may be fewer processors than parts, which then share them.
        """
        exchange, count = self._record.exchange, len(self._parts)
        processors, together = self._processors(), 1
        while sum(math.floor(together * each) for each in processors) < count:
            together += 1  # actors that share a processor
        self._actors = [
            self._class.options(num_cpus=1 / together, scheduling_strategy="SPREAD").remote(
                part, [exchange.sent[p, q] for q in self._receivers[p]],
                [exchange.received[q, p] for q in exchange.senders[p]],
            )
            for p, part in enumerate(self._parts)
        ]  # fmt: skip
        ready = [actor.ready.remote() for actor in self._actors]
        while ready:
            _, ready = self._ray.wait(ready, num_returns=len(ready), timeout=_PAUSE)
            self._monitor.check_time()
            if ready and sum(self._processors()) < sum(processors):
                return False
        self._ray.get([actor.ready.remote() for actor in self._actors])
        return True

    def _processors(self) -> list[float]:
        """Return the number of processors of each machine; at least one in total."""
        found = [float(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        return found if sum(found) >= 1 else [1.0]

    def _note_needed(self, p: int, references: Any) -> None:
        listed = references if isinstance(references, list) else [references] if self._receivers[p] else []
        self._needed[p] = dict(zip(self._receivers[p], listed, strict=True))

    def _ask(self, h: int) -> None:
        """Ask for the steps before h, which was swept last, that were not asked for: at most a few ahead."""
        exchange, horizon = self._record.exchange, self._record.layout.model.horizon
        for step in range(h - len(self._asked) - 1, max(h - _AHEAD, 0) - 1, -1):
            results, after = [], self._needed
            self._needed = [{} for _ in self._actors]
            for p, actor in enumerate(self._actors):
                blocks = [after[q][p] for q in exchange.senders[p]] if step < horizon - 1 else []
                references = actor.step.options(num_returns=1 + len(self._receivers[p])).remote(step, *blocks)
                listed = references if isinstance(references, list) else [references]
                results.append(listed[0])
                self._note_needed(p, listed[1:])
            self._asked.append(results)

    def _sweep_from(self, h: int) -> int:
        """Sweep steps until values are to be kept, or to the end; return the last one."""
        record, monitor = self._record, self._monitor
        horizon, cells_H = record.layout.model.horizon, record.layout.sizes.cells_H
        first = h
        while True:
            if h == first or not (self._is_due() or monitor.should_save()):
                self._ask(h)
            if not self._asked:
                return h
            monitor.tell("backward", horizon - h, horizon, cells=int(cells_H[h - 1]), parts=len(self._actors))
            found = self._await(self._asked.popleft())
            h -= 1
            with record.step(h) as step:
                for p, (start, row, extremes) in enumerate(found):
                    step.add(p, RowRuns(start, row), extremes)

    def _is_due(self) -> bool:
        return time.monotonic() - self._saved_at >= self._wait

    def _keep_values(self, h: int) -> None:
        """Write the values of step h to files, while actors go on with the next steps."""
        record, began = self._record, time.monotonic()
        references = [actor.values.remote(h) for actor in self._actors]
        self._ask(h)
        files = []
        for reference in references:  # one after another, so that only one is in memory here
            (value,) = self._await([reference])
            files.append(record.folder.write(value))
        record.replace_values(files)
        if h:
            record.save(h)
        self._saved_at = time.monotonic()
        self._wait = max(self._every, (self._saved_at - began) / _SHARE)

    def _await(self, references: list[Any]) -> list[Any]:
        """Return the values of references; the clock and Ctrl-C are checked meanwhile."""
        while True:
            _, waiting = self._ray.wait(references, num_returns=len(references), timeout=_PAUSE, fetch_local=True)
            self._monitor.check_time()
            if not waiting:
                found: list[Any] = self._ray.get(references)
                return found

    def _end(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors, self._needed = [], []
        self._asked.clear()
