"""Sweeps of boxes on a Ray cluster: each part of the states is swept by an actor.

At each step, an actor first sweeps the states that other parts need, whose actors take these values from Ray's object
store while it goes on with all others. Runs of best rows go to files of the calling process, step by step. From time to
time the values of all parts are written to files as well. If an actor or its machine is lost, new actors begin with
these values, and the steps since then are swept again. The result is the same, bit for bit.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.engines import RayEngine
from solvent.core.limits import ResourceMonitor
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
        # values that are not contiguous are copied to buffers; Ray copies what a method returns before the next one
        self._blocks = [
            None if _is_range(states) else np.empty(int(largest_S[states].sum())) for states in sent
        ]  # fmt: skip

    def restore(self, h: int, value: NDArray[np.float64]) -> list[Any]:
        """Begin with the values of its own states at step h; return what other parts need of them."""
        self._sweep.own_values(h)[:] = value
        self._sweep.arrive(h)
        return self._needed(h)

    def sweep_border(self, h: int, *blocks: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Sweep the states that other parts need at step h.

        Parameters
        ----------
        h : int
        *blocks : ndarray of float64
            The values of its halo at step h + 1, one array for each part that they come from.

        Returns
        -------
        list of ndarray of float64
            The values at step h that each other part needs.
        """
        part, after, sweep = self._part, h + 1, self._sweep
        if after == len(part.boxes.pitch_H) - 1:
            sweep.end()
        else:
            sizes = np.diff(part.boxes.offset[after])[len(part.own) :]
            for halo, block in zip(self._received, blocks, strict=True):
                sweep.receive(after, halo, block, np.cumsum(sizes[halo]) - sizes[halo])
        begin, end = part.inner
        sweep.sweep(h, 0, begin)
        sweep.sweep(h, end, len(part.own))
        return self._needed(h)

    def sweep_rest(self, h: int) -> tuple[NDArray[np.int32], NDArray[np.uint16], NDArray[np.float64]]:
        """Sweep all other states at step h; return runs of best rows and extreme values.

        In advance, arrivals are filled for the step before, as far as no other part is needed.
        """
        self._sweep.sweep(h, *self._part.inner)
        runs, extremes = self._sweep.finish(h)
        if h:
            self._sweep.arrive(h)
        return runs.start, runs.row, extremes

    def _needed(self, h: int) -> list[NDArray[np.float64]]:
        """Return the values at step h that each other part needs."""
        offset, value = read_only(self._part.own_boxes.offset[h]), read_only(self._sweep.own_values(h))
        found = []
        for states, block in zip(self._sent, self._blocks, strict=True):
            if block is None:
                found.append(value[offset[states[0]] : offset[states[-1] + 1]])
                continue
            to = np.concatenate([[0], np.cumsum(np.diff(offset)[states])])
            places = np.arange(len(states))
            kernels.copy_blocks(value, offset, read_only(states), block, to, read_only(places))
            found.append(block[: to[-1]])
        return found

    def values(self, h: int) -> NDArray[np.float64]:
        """Return the values of its own states at step h, which was swept last."""
        return self._sweep.own_values(h)


def _is_range(states: NDArray[np.int64]) -> bool:
    return bool((np.diff(states) == 1).all())


def sweep_on_ray(layout: BoxLayout, engine: RayEngine, monitor: ResourceMonitor) -> Swept:
    """Sweep a problem on the workers of a Ray engine.

    Raises
    ------
    LimitReached
        If time, memory of this process or space on its disk runs out.
    SolventError
        If actors are lost again and again.
    """
    try:
        with Actors(engine, SweptPart, min(engine.workers, layout.model.n_states), monitor) as actors:
            sets = plan_parts(layout, 2**62, least=engine.workers)
            assert sets is not None
            return _RaySweep(PartedRecord(layout, sets, monitor), actors, engine, monitor).run()
    except OSError as error:
        raise monitor.disk_limit("values", error) from None


class _RaySweep:
    """A sweep of boxes by actors: the steps down to `_step` are swept, and the values of `_kept` are in files."""

    def __init__(self, record: PartedRecord, actors: Actors, engine: RayEngine, monitor: ResourceMonitor) -> None:
        self._record, self._actors, self._monitor = record, actors, monitor
        exchange, receivers = record.exchange, record.exchange.receivers
        actors.arguments = [
            (
                engine.ray.put(part), [exchange.sent[p, q] for q in receivers[p]],
                [exchange.received[q, p] for q in exchange.senders[p]],
            )
            for p, part in enumerate(record.parts)
        ]  # fmt: skip
        self._passing = Passing(self._actors, exchange.senders, receivers)
        self._intervals = Intervals(monitor)
        self._ahead = Ahead(self._actors, (), self._ask)
        self._step = self._kept = record.layout.model.horizon

    def run(self) -> Swept:
        """Sweep all steps."""
        record = self._record
        self._step = self._kept = record.resumed()
        record.check_disk(self._step)
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
                for start, row, extremes in found:
                    step.add(RowRuns(start, row), extremes)
            self._step = h
        self._keep_values()
        return self._step == 0

    def _ask(self, h: int) -> list[Any]:
        horizon, cells_H = self._record.layout.model.horizon, self._record.layout.sizes.cells_H
        self._monitor.tell("backward", horizon - h - 1, horizon, cells=int(cells_H[h]), parts=len(self._actors))
        return self._passing.ask("sweep_border", lambda p: (h,), then="sweep_rest")

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
