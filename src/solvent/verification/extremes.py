"""First pass of a verification: merges the histories that the policy does not distinguish, and finds extremes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.errors import PolicyError
from solvent.policy.nodes import NodeTable
from solvent.verification.findings import Findings
from solvent.verification.layers import PolicyLayer, SettledSplitError, Walk
from solvent.verification.saved import Reached, SavedPass


@dataclass(frozen=True)
class ExtremesPass:
    """The first pass: nodes are what the policy distinguishes.

    Attributes
    ----------
    walk : Walk
    max_nodes : int
    settled : bool
        If True, merge amounts within the policy's settled intervals.
    """

    walk: Walk
    max_nodes: int
    settled: bool

    def run(self) -> Findings:
        """Go to the horizon, or to a step without a decision after a limit may have been broken."""
        walk = self.walk
        saved = SavedPass(walk, "extremes", self.settled, self.max_nodes)
        reached = saved.load(traced=False)
        if reached is None:
            reached = Reached(walk.start(traced=False), Findings())
            reached.findings.end(walk, reached.layer)
        while not reached.done:
            if walk.monitor.should_save():
                saved.save(reached)
            walk.monitor.check_time()
            with walk.monitor.postponed():
                self._advance(reached)
        saved.save(reached)
        walk.monitor.check_time()
        if reached.layer.step:
            walk.forget(reached.layer)
        return reached.findings

    def _advance(self, reached: Reached) -> None:
        """Go one step ahead."""
        walk, layer, found = self.walk, reached.layer, reached.findings
        if layer.step == walk.model.horizon:
            reached.done = True
            return
        choices, rows, missing = walk.choices(layer)
        walk.monitor.check_time()
        if len(missing):
            if not found.broken:
                raise no_decision(walk, layer, int(missing[0]))
            found.complete, reached.done = False, True
            return
        found.earn(walk, layer, choices, rows)
        walk.monitor.check_time()
        reached.layer = walk.advance(layer, choices, rows, self._identity, missing)
        if layer.step:
            walk.forget(layer)
        found.take(walk, reached.layer, self.max_nodes)

    def _identity(self, layer: PolicyLayer) -> list[NDArray[Any]]:
        walk = self.walk
        over = layer.state >= walk.ended
        settled = self._settled(layer, over)
        columns = []
        for d, (r, _) in enumerate(walk.tracked):
            merged = over | settled[:, d]
            if self.settled and (layer.high[r] != layer.low[r])[~merged].any():
                raise SettledSplitError
            columns += [settled[:, d].astype(np.int64), np.where(merged, 0, layer.high[r])]
        return columns

    def _settled(self, layer: PolicyLayer, over: NDArray[np.bool_]) -> NDArray[np.bool_]:
        policy, tracked = self.walk.policy, self.walk.tracked
        result = np.zeros((len(layer), len(tracked)), bool)
        if not self.settled or not isinstance(policy, NodeTable) or layer.step == self.walk.model.horizon:
            return result
        live = np.flatnonzero(~over)
        intervals = policy.settled_at(layer.step, layer.state[live])
        if intervals is None:
            return result
        low_MD, high_MD, known = intervals
        for d, (r, factor) in enumerate(tracked):
            high, low = layer.high[r][live] // factor, layer.low[r][live] // factor
            result[live, d] = known & (low_MD[:, d] <= low) & (high <= high_MD[:, d])
        return result


def no_decision(walk: Walk, layer: PolicyLayer, node: int) -> PolicyError:
    """Return the error for a node where the policy has no decision but needs one."""
    place = walk.place(layer, node)
    if isinstance(walk.policy, NodeTable):
        return walk.policy.no_decision(layer.step, int(layer.state[node]), place)
    return PolicyError(place, "a decision, as the policy leads here", "none")
