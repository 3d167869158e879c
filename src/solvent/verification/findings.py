"""What the passes of a verification find, layer by layer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.errors import NodeLimitError
from solvent.policy.choices import Choices
from solvent.verification.layers import PolicyLayer, Walk

#: Number of rewards that are added up between two checks of the time limit.
_PIECE = 1 << 16


@dataclass
class Findings:
    """What one pass found.

    Attributes
    ----------
    earned : list of float
        Expected reward of each step, and of ending.
    worst, least : list of tuples
        The most and the least spent after each step, one number of ticks per ledger.
    broken : set of int
        Positions of the resources whose limits were broken.
    astray : bool
        Whether a history ended in a state in which it must not end.
    nodes : int
        Nodes visited.
    complete : bool
        False if the pass ended where the policy has no decision.
    """

    earned: list[float] = field(default_factory=list)
    worst: list[tuple[Any, ...]] = field(default_factory=list)
    least: list[tuple[Any, ...]] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    astray: bool = False
    nodes: int = 0
    complete: bool = True

    def take(self, walk: Walk, layer: PolicyLayer, max_nodes: int) -> None:
        """Record the extremes of a layer."""
        self.nodes += len(layer)
        if self.nodes > max_nodes:
            raise NodeLimitError(
                f"verify, step {layer.step - 1}", f"at most {max_nodes:,} nodes", "more", "raise max_nodes="
            )
        self.worst.append(tuple(high.max() for high in layer.high))
        self.least.append(tuple(low.min() for low in layer.low))
        for r, ledger in enumerate(walk.ledgers):
            high, low = np.array([self.worst[-1][r]], object), np.array([self.least[-1][r]], object)
            if ledger.excess(layer.step - 1, high, low)[0] > 0:
                self.broken.add(r)
        self.end(walk, layer)

    def end(self, walk: Walk, layer: PolicyLayer) -> None:
        """Record the histories that end in a layer: what that is worth, and whether they may end there."""
        if not walk.model.has_end_values:
            return
        self.astray |= bool(walk.goes_astray(layer.state).any())
        if walk.model.end_reward is not None:
            now, where = walk.ending(layer.state)
            self._add(walk, layer.probability[now] * walk.model.end_reward[where])

    def earn(self, walk: Walk, layer: PolicyLayer, choices: Choices, rows: NDArray[np.int64]) -> None:
        """Record the expected reward of a step."""
        self._add(walk, layer.probability[choices.node] * choices.probability * walk.model.row_reward[rows])

    def _add(self, walk: Walk, gains: NDArray[np.float64]) -> None:
        self.earned.append(math.fsum(itertools.chain.from_iterable(_in_pieces(gains, walk.monitor))))


def _in_pieces(values: NDArray[np.float64], monitor: ResourceMonitor) -> Iterator[list[float]]:
    for first in range(0, len(values), _PIECE):
        monitor.check_time()
        yield values[first : first + _PIECE].tolist()
