"""The reduction on a Ray cluster: the nodes of each part of the states are expanded and valued by an actor.

Forward, an actor gives the nodes that it has found in states of other parts to their actors. Each layer goes to a file
of the calling process, from which parts of it are sent to the actors again in the backward pass. Backward, an actor
gives the nodes and values of states that other parts lead to; best rows go to files, step by step. So no actor holds
more than two layers of its part, and the calling process no more than one layer.

From time to time, the values of a layer are kept as well. If an actor or its machine is lost, new actors begin with the
last layer, or with the values that were kept last. The result is the same, bit for bit, for any number of parts.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.engines import RayEngine
from solvent.core.limits import ResourceMonitor
from solvent.solvers.accuracy import Extremes
from solvent.solvers.engines.actors import Actors, Ahead, Intervals, Passing
from solvent.solvers.parts import Exchange, part_of, ranges, split_states
from solvent.solvers.reduction.backward import last_rows
from solvent.solvers.reduction.layers import NodeLayer
from solvent.solvers.reduction.parts import LayerPart
from solvent.solvers.reduction.saved import SavedPasses
from solvent.solvers.reduction.steps import StepArrays

#: Share of the weight of states that they have alike, because nodes of later layers may be in any of them.
_ALIKE = 0.2


def reduce_on_ray(steps: StepArrays, passes: SavedPasses, engine: RayEngine, monitor: ResourceMonitor) -> Extremes:
    """Compute the layers that are missing, and rows and values of all, on the workers of a Ray engine.

    Returns
    -------
    Extremes
        Of values and rewards. Layers, rows and the values of the first step are in `passes`.

    Raises
    ------
    LimitReached
        If time, memory of this process or a worker, or space on the disk runs out.
    SolventError
        If actors are lost again and again.
    """
    try:
        with Actors(engine, LayerPart, min(engine.workers, steps.model.n_states), monitor) as actors:
            return _RayPasses(steps, passes, actors, engine, monitor).run()
    except OSError as error:
        raise monitor.disk_limit("nodes", error) from None


class _RayPasses:
    """Both passes of a reduction by actors."""

    def __init__(
        self, steps: StepArrays, passes: SavedPasses, actors: Actors, engine: RayEngine, monitor: ResourceMonitor
    ) -> None:
        self._steps, self._passes, self._monitor = steps, passes, monitor
        model = steps.model
        self._sets = split_states(model, _weights(steps, passes.layers), engine.workers)
        parts = [part_of(steps, own) for own in self._sets]
        exchange = Exchange.between(parts, model.n_states)
        senders, receivers = exchange.senders, exchange.receivers
        actors.arguments = [
            (
                engine.ray.put(part), [exchange.sent[p, q] for q in receivers[p]],
                [exchange.received[q, p] for q in senders[p]], monitor.bytes,
            )
            for p, part in enumerate(parts)
        ]  # fmt: skip
        self._actors = actors
        self._forward = Passing(self._actors, receivers, senders)
        self._backward = Passing(self._actors, senders, receivers)
        self._intervals = Intervals(monitor)
        self._ahead = Ahead(self._actors, (), self._ask_forward)
        self._extremes: Extremes | None = None

    def run(self) -> Extremes:
        """Compute both passes."""
        passes = self._passes
        if passes.step > 0:
            try:
                self._actors.run(self._begin, self._advance)
            except (Exception, KeyboardInterrupt, SystemExit):
                if self._monitor.checkpoint is not None:
                    passes.save(self._extremes)
                raise
        passes.save(self._found_extremes())
        self._monitor.check_time()
        return self._found_extremes()

    @property
    def _is_expanded(self) -> bool:
        return len(self._passes.layers) == self._steps.model.horizon

    def _found_extremes(self) -> Extremes:
        """Return the extremes of values and rewards so far, once all layers are known."""
        if self._extremes is None:
            layers = self._passes.layers
            self._extremes = Extremes.none(self._steps.model, lambda: last_rows(self._steps, layers[-1]))
            self._passes.restore(self._extremes)
        return self._extremes

    def _begin(self) -> None:
        """Give the last layer, or the nodes whose values were kept last, to the actors."""
        passes = self._passes
        if not self._is_expanded:
            h = len(passes.layers) - 1
            self._ahead = Ahead(self._actors, range(h + 1, self._steps.model.horizon), self._ask_forward)
            self._forward.begin("expand", lambda p: (h, *self._nodes(h, p)))
            return
        passes.forget_rows()
        h = passes.step
        self._ahead = Ahead(self._actors, range(h - 1, -1, -1), self._ask_backward)
        if h == self._steps.model.horizon:
            self._backward.begin("restore")
            return
        indptr, value = passes.layers[h].indptr, passes.value
        self._backward.begin("restore", lambda p: (*self._nodes(h, p), value[ranges(indptr, self._sets[p])[0]]))

    def _nodes(self, h: int, p: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the nodes of a part, as in `OwnNodes`."""
        layer = self._passes.layers[h]
        at, count = ranges(layer.indptr, self._sets[p])
        return count, layer.spent[at]

    def _advance(self) -> bool:
        """Compute steps until something is to be kept, or the pass ends."""
        if not self._is_expanded:
            self._expand()
            if self._is_expanded:
                self._begin()
            return False
        self._choose()
        return self._passes.step == 0

    def _ask_forward(self, h: int) -> list[Any]:
        layers, horizon = self._passes.layers, self._steps.model.horizon
        self._monitor.tell("forward", h, horizon, nodes=len(layers[-1]), parts=len(self._actors))
        return self._forward.ask("extend", lambda p: (h,))

    def _expand(self) -> None:
        """Add layers, and save them while actors go on with the next ones."""
        for _, found in self._ahead.results(self._intervals.is_due):
            self._add_layer(found)
        began = time.monotonic()
        self._ahead.ask()
        self._passes.save()
        self._intervals.close(began)

    def _add_layer(self, found: list[Any]) -> None:
        """Put the nodes of all parts together, in the order of states."""
        steps, passes = self._steps, self._passes
        counts_S = np.zeros(steps.model.n_states, np.int64)
        for own, (count, _) in zip(self._sets, found, strict=True):
            counts_S[own] = count
        indptr = np.concatenate([[0], np.cumsum(counts_S)])
        shape = (int(indptr[-1]), len(steps.lattice.resources))
        with self._monitor.borrowed(8 * shape[0] * (shape[1] + 1), f"the nodes of step {len(passes.layers)}"):
            spent = np.empty(shape, np.int64)
            for own, (_, nodes) in zip(self._sets, found, strict=True):
                spent[ranges(indptr, own)[0]] = nodes
            passes.store_layer(NodeLayer(indptr, spent))

    def _ask_backward(self, h: int) -> list[Any]:
        nodes, horizon = len(self._passes.layers[h]), self._steps.model.horizon
        self._monitor.tell("backward", horizon - h, horizon, nodes=nodes, parts=len(self._actors))
        return self._backward.ask("choose", lambda p: (h, *self._nodes(h, p)))

    def _choose(self) -> None:
        """Compute the rows of further steps, and keep the values of the last one while actors go on with the next."""
        passes, extremes = self._passes, self._found_extremes()
        last = passes.step
        for h, found in self._ahead.results(self._intervals.is_due):
            last = h
            passes.store_rows(h, self._together(h, [row for row, _ in found], np.dtype(np.int32)))
            for _, each in found:
                extremes.add(h, each)
        began = time.monotonic()
        references = [self._actors.call(p, "values") for p in range(len(self._actors))]
        self._ahead.ask()
        values = self._actors.wait(references)
        passes.value, passes.step = self._together(last, values, np.dtype(np.float64)), last
        passes.save(extremes)
        self._intervals.close(began)

    def _together(self, h: int, parts: list[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return one array over the nodes of step h, from those of all parts."""
        layer = self._passes.layers[h]
        found = np.empty(len(layer), dtype)
        for own, each in zip(self._sets, parts, strict=True):
            found[ranges(layer.indptr, own)[0]] = each
        return found


def _weights(steps: StepArrays, layers: list[NodeLayer]) -> NDArray[np.float64]:
    """Return the expected work of each state, from the largest layer so far."""
    h = max(range(len(layers)), key=lambda h: len(layers[h]))
    work_S = steps.work_of_states(h, layers[h])
    weight_S: NDArray[np.float64] = (1 - _ALIKE) * work_S / max(float(work_S.sum()), 1.0) + _ALIKE / len(work_S)
    return weight_S
