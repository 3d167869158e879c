"""Sweeps of boxes on a Ray cluster: each part of the states is swept by an actor.

At each step, an actor gives the values that other parts need. Runs of best rows go to files of the calling process,
step by step. From time to time the values of all parts are written to files as well. If an actor or its machine is
lost, new actors begin with these values, and the steps since then are swept again. The result is the same, bit for bit.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.engines import RayEngine
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.solvers.arrays import read_only
from solvent.solvers.bounds.arrays import Bounds
from solvent.solvers.engines.actors import Actors, Ahead, Intervals, Passing
from solvent.solvers.grid import kernels
from solvent.solvers.grid.arrays import Boxes, RowRuns
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.parts import Part, PartBuffers, PartSweep
from solvent.solvers.grid.record import PartedRecord
from solvent.solvers.grid.spilled import plan_parts
from solvent.solvers.grid.swept import Swept


class SweptPart:
    """Holds the values of one part, and sweeps its steps.

    Parameters
    ----------
    part : Part
    sent : list of ndarray of int64
        For each part that needs values of this one, the positions of the states among its own.
    received : list of ndarray of int64
        For each part that this one needs values of, the positions of the states in its halo.
    """

    def __init__(self, part: Part, sent: list[NDArray[np.int64]], received: list[NDArray[np.int64]]) -> None:
        # Ray's arrays are read-only, and kernels are compiled for writable ones
        bounds, boxes = Bounds(*map(np.array, part.bounds)), Boxes(*map(np.array, part.boxes))
        part = replace(part, bounds=bounds, boxes=boxes)
        self._part, self._sent, self._received = part, sent, received
        self._sweep = PartSweep(part, PartBuffers.of([part]), np.zeros(1, bool))
        largest_S = np.diff(part.own_boxes.offset, axis=1).max(axis=0)
        # Ray copies what a method returns before it calls the next one
        self._blocks = [np.empty(int(largest_S[states].sum())) for states in sent]

    def restore(self, h: int, value: NDArray[np.float64]) -> list[Any]:
        """Begin with the values of its own states at step h; return what other parts need of them."""
        self._sweep.own_values(h)[:] = value
        return self._needed(h)

    def step(self, h: int, *blocks: NDArray[np.float64]) -> list[Any]:
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
        return [(runs.start, runs.row, extremes), *self._needed(h)]

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


def sweep_on_ray(layout: BoxLayout, engine: RayEngine, monitor: ResourceMonitor) -> Swept:
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
        return _RaySweep(PartedRecord(layout, sets, monitor), engine, monitor).run()
    except OSError as error:
        raise LimitReached(f"values could not be written to disk: {error.strerror or error}") from None


class _RaySweep:
    """A sweep of boxes by actors: the steps down to `_step` are swept, and the values of `_kept` are in files."""

    def __init__(self, record: PartedRecord, engine: RayEngine, monitor: ResourceMonitor) -> None:
        self._record, self._monitor = record, monitor
        exchange, receivers = record.exchange, record.exchange.receivers
        arguments = [
            (
                engine.ray.put(part), [exchange.sent[p, q] for q in receivers[p]],
                [exchange.received[q, p] for q in exchange.senders[p]],
            )
            for p, part in enumerate(record.parts)
        ]  # fmt: skip
        self._actors = Actors(engine, SweptPart, arguments, monitor)
        self._passing = Passing(self._actors, exchange.senders, receivers)
        self._intervals = Intervals(monitor)
        self._ahead = Ahead(self._actors, (), self._ask)
        self._step = self._kept = record.layout.model.horizon

    def run(self) -> Swept:
        """Sweep all steps."""
        record = self._record
        record.check_disk()
        self._step = self._kept = record.resumed()
        if self._step == 0:
            return record.finished()
        try:
            self._actors.run(self._begin, self._advance)
        except BaseException:
            if self._monitor.checkpoint is not None and self._kept == self._step:
                record.save(self._step)
            raise
        return record.finished()

    def _begin(self) -> None:
        """Give the values that were kept last to the actors; steps since then are swept again."""
        record, h = self._record, self._kept
        record.forget_before(h)
        self._step = h
        self._ahead = Ahead(self._actors, range(h - 1, -1, -1), self._ask)
        if h == record.layout.model.horizon:
            self._passing.begin("restore")
        else:
            self._passing.begin("restore", lambda p: (h, np.array(record.folder.read(record.values[p]))))

    def _advance(self) -> bool:
        """Sweep steps until values are to be kept, or to the end."""
        for h, found in self._ahead.results(self._intervals.is_due):
            with self._record.step(h) as step:
                for p, (start, row, extremes) in enumerate(found):
                    step.add(p, RowRuns(start, row), extremes)
            self._step = h
        self._keep_values()
        return self._step == 0

    def _ask(self, h: int) -> list[Any]:
        horizon, cells_H = self._record.layout.model.horizon, self._record.layout.sizes.cells_H
        self._monitor.tell("backward", horizon - h - 1, horizon, cells=int(cells_H[h]), parts=len(self._actors))
        return self._passing.ask("step", lambda p: (h,))

    def _keep_values(self) -> None:
        """Write the values of the step that was swept last to files, while actors go on with the next steps."""
        record, h, began = self._record, self._step, time.monotonic()
        references = [self._actors.call(p, "values", h) for p in range(len(self._actors))]
        self._ahead.ask()
        files = []
        for reference in references:  # one after another, so that only one is in memory here
            (value,) = self._actors.wait([reference])
            files.append(record.folder.write(value))
        record.replace_values(files)
        self._kept = h
        if h:
            record.save(h)
        self._intervals.close(began)
