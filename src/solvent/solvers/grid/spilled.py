"""Sweeps whose values do not fit into memory: parts are swept one after another, with values and runs on disk.

At each step, every part reads the values of its own states and of its halo at the next step from files, and writes its
own values and runs to new ones. So memory is needed for the largest part only, and for the boxes themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.core.array_files import ArrayFile
from solvent.core.limits import ResourceMonitor
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.parts import PartBuffers, PartSweep
from solvent.solvers.grid.record import PartedRecord
from solvent.solvers.grid.swept import Swept
from solvent.solvers.parts import rows_of, split_states

#: Share of the memory that is left which one part may take.
_SHARE = 0.8
#: Memory of the arrays of a part, per state and step: four bounds, four ends of boxes, and three offsets.
_FIXED_PER_RESOURCE, _FIXED_PER_STATE = 64, 24


def plan_parts(layout: BoxLayout, room: int, least: int = 1) -> list[NDArray[np.int64]] | None:
    """Return the states of each part, so that every part fits into memory; None if a single state does not.

    Parameters
    ----------
    layout : BoxLayout
    room : int
        Bytes.
    least : int
        The least number of parts.
    """
    model, boxes = layout.model, layout.boxes
    stored_HS, arrivals_HS = np.diff(boxes.offset, axis=1), np.diff(boxes.arrival_offset, axis=1)
    cells_HS = np.diff(boxes.cell, axis=1)
    per_state = len(boxes.low) * (_FIXED_PER_RESOURCE * boxes.low.shape[2] + _FIXED_PER_STATE)
    weight_S = (stored_HS + arrivals_HS).sum(0).astype(float) + 1.0
    n_parts = min(least, model.n_states)
    while True:
        sets = split_states(model, weight_S, n_parts)
        left, most = room, 0
        for own in sets:
            states = np.union1d(own, rows_of(layout, own).after)
            left -= per_state * len(states)
            size = 10 * int(stored_HS[:, own].sum(1).max()) + 8 * int(arrivals_HS[:, states].sum(1).max())
            most = max(most, size + 6 * int(cells_HS[:, own].sum(1).max()))
        if most <= _SHARE * left:
            return sets
        if n_parts == model.n_states:
            return None
        n_parts = min(2 * n_parts, model.n_states)


def sweep_parts(layout: BoxLayout, sets: list[NDArray[np.int64]], monitor: ResourceMonitor) -> Swept:
    """Sweep a problem part by part, with the values of two steps and all runs on disk.

    Raises
    ------
    LimitReached
        If time, memory or space on the disk runs out.
    """
    try:
        return _sweep(PartedRecord(layout, sets, monitor), monitor)
    except OSError as error:
        raise monitor.disk_limit("values", error) from None


def _sweep(record: PartedRecord, monitor: ResourceMonitor) -> Swept:
    parts, horizon, cells_H = record.parts, record.layout.model.horizon, record.layout.sizes.cells_H
    h = record.resumed()
    record.check_disk(h)
    buffers = PartBuffers.of(parts)
    largest = sum(each.nbytes for each in buffers) + 6 * max(int(part.cells_H.max()) for part in parts)
    with monitor.borrowed(largest, "values of boxes of amounts"):
        while h > 0:
            if monitor.should_save():
                record.save(h)
            monitor.check_time()
            monitor.tell("backward", horizon - h, horizon, cells=int(cells_H[h - 1]), parts=len(parts))
            h -= 1
            with monitor.postponed():
                _sweep_step(record, h, buffers, monitor)
        del buffers
    return record.finished()


def _sweep_step(record: PartedRecord, h: int, buffers: PartBuffers, monitor: ResourceMonitor) -> None:
    values: list[ArrayFile] = []
    with record.step(h) as step:
        for p, part in enumerate(record.parts):
            sweep = PartSweep(part, buffers, monitor.halt)
            _fill_arrivals(record, p, sweep, h + 1)
            sweep.sweep(h, 0, len(part.own))
            runs, extremes = sweep.finish(h)
            monitor.check_time()
            step.add(runs, extremes)
            values.append(record.folder.write(sweep.own_values(h)))
    record.replace_values(values)


def _fill_arrivals(record: PartedRecord, p: int, sweep: PartSweep, h: int) -> None:
    """Fill the arrivals of a part and its halo at step h."""
    if h == record.layout.model.horizon:
        sweep.end()
        return
    folder, exchange = record.folder, record.exchange
    sweep.own_values(h)[:] = folder.read(record.values[p])
    sweep.arrive(h)
    for q in exchange.senders[p]:
        at = record.parts[q].own_boxes.offset[h, exchange.sent[q, p]]
        sweep.receive(h, exchange.received[q, p], folder.read(record.values[q]), at)
