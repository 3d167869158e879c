"""The second sweep of a check, for policies that can break a limit: how likely, by how much, and a history that does.

Here nodes are told apart by what was spent of the suspect resources, and by the most by which their limits were broken
so far. Each node remembers one node and outcome that led to it, until the first limit is broken: following them back
gives a history of the fewest steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import nearest_float
from solvent.errors import ModelError
from solvent.model.distributions import CostDistribution
from solvent.verification.layers import NO_OUTCOME, Layer, Walk
from solvent.verification.report import CostPart, Witness, WitnessStep
from solvent.verification.sweep import Findings, no_decision


@dataclass(frozen=True)
class Traced:
    """What the second sweep adds; a probability or an excess is None if it hangs on continuous costs."""

    findings: Findings
    probability: float | None
    excess: dict[int, float | None]
    witness: Witness | None


@dataclass(frozen=True)
class Trace:
    """The second sweep.

    Attributes
    ----------
    walk : Walk
    max_nodes : int
    suspects : list of int
        The resources whose limits might be broken.
    before : Findings
        What the first sweep found.
    """

    walk: Walk
    max_nodes: int
    suspects: list[int]
    before: Findings

    def run(self) -> Traced:
        """Walk to the horizon, or, with continuous costs, to the first limit broken."""
        walk = self.walk
        found = Findings(nodes=self.before.nodes)
        layer = walk.start(traced=True)
        trail, witness = [layer], None
        for _ in range(walk.model.horizon):
            walk.monitor.check_time()
            choices, rows, missing = walk.choices(layer)
            stopped = self._may_stop(layer, missing)
            found.earn(walk.model, layer, choices, rows)
            before, layer = layer, walk.advance(layer, choices, rows, self._identity, stopped)
            if before.step and not trail:
                walk.forget(before)
            found.take(walk, layer, self.max_nodes)
            if witness is None:
                trail.append(layer)
                broken = np.flatnonzero(_is_broken(layer))
                if len(broken):
                    witness = self._witness(trail, int(broken[np.argmax(layer.probability[broken])]))
                    for each in trail[1:-1]:
                        walk.forget(each)
                    trail.clear()
                    if any(walk.ledgers[r].continuous for r in self.suspects):
                        return self._undecided(witness)
        broken_nodes = _is_broken(layer)
        # that of a history may be smaller than any float above 0, and then it is that float
        probability = min(max(math.fsum(layer.probability[broken_nodes].tolist()), math.ulp(0.0)), 1.0)
        excess: dict[int, float | None] = {r: self._expectation(layer, r) for r in self.suspects}
        return Traced(found, probability if witness is not None else 0.0, excess, witness)

    def _identity(self, layer: Layer) -> list[NDArray[Any]]:
        over = layer.state == self.walk.ended
        columns = [layer.high[r] for r in self.suspects]
        columns += [layer.low[r] for r in self.suspects if self.walk.ledgers[r].continuous]
        seen = [r for r, _ in self.walk.tracked if r not in self.suspects]
        return columns + [np.where(over, 0, layer.high[r]) for r in seen]

    def _may_stop(self, layer: Layer, missing: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the nodes without a decision, if all of them have broken a limit."""
        innocent = missing[~_is_broken(layer)[missing]]
        if len(innocent):
            raise no_decision(self.walk, layer, int(innocent[0]))
        return missing

    def _undecided(self, witness: Witness) -> Traced:
        if not self.before.complete:
            raise ModelError(
                "policy",
                "decisions everywhere it leads, as continuous costs leave open which histories break a limit",
                "none at some nodes",
            )
        return Traced(self.before, None, dict.fromkeys(self.suspects, None), witness)

    def _expectation(self, layer: Layer, r: int) -> float:
        unit = self.walk.ledgers[r].unit
        terms = zip(layer.probability.tolist(), layer.excess[r].tolist(), strict=True)
        try:
            return math.fsum(p * nearest_float(ticks * unit) for p, ticks in terms if ticks)
        except OverflowError:  # of a sum of finite numbers
            return math.inf

    def _witness(self, trail: list[Layer], node: int) -> Witness:
        """Follow a node back to the start, and add up what that one history spends."""
        ledgers = self.walk.ledgers
        resource = next(r for r in range(len(ledgers)) if trail[-1].excess[r][node] > 0)
        outcomes: list[int] = []
        for layer in trail[:0:-1]:
            outcomes.append(int(layer.outcome[node]))
            node = int(layer.parent[node])
        state = self.walk.model.start_index
        high, low = [0] * len(ledgers), [0] * len(ledgers)
        steps = []
        for step, outcome in enumerate(reversed(outcomes)):
            if outcome != NO_OUTCOME:
                high = [total + ledger.high_O[outcome] for total, ledger in zip(high, ledgers, strict=True)]
                low = [total + ledger.low_O[outcome] for total, ledger in zip(low, ledgers, strict=True)]
            steps.append(self._witness_step(step, state, outcome, high, low))
            state = state if outcome == NO_OUTCOME else int(self.walk.model.next_state[outcome])
        return Witness(tuple(steps), ledgers[resource].name)

    def _witness_step(self, step: int, state: int, outcome: int, high: list[Any], low: list[Any]) -> WitnessStep:
        walk, model = self.walk, self.walk.model
        limited = [(r, ledger) for r, ledger in enumerate(walk.ledgers) if ledger.limited]
        action, following = None, state
        cost: dict[str, Fraction | CostDistribution | CostPart] = {}
        if outcome != NO_OUTCOME:
            row = int(np.searchsorted(model.outcome_indptr, outcome, side="right")) - 1
            action = model.actions[int(model.row_action[row])]
            costs = walk.parts or model
            cost = {name: costs.cost_of(r, outcome) for r, name in enumerate(model.resources)}
            following = int(model.next_state[outcome])
        return WitnessStep(
            step=step,
            state=model.states[state],
            action=action,
            cost=cost,
            next_state=model.states[following],
            spent={
                each.name: each.amount(low[r] if _falls_short(each.lower[step], low[r]) else high[r])
                for r, each in limited
            },
            upper={each.name: each.limit(each.upper[step]) for _, each in limited},
            lower={each.name: each.limit(each.lower[step]) for _, each in limited},
        )


def _is_broken(layer: Layer) -> NDArray[np.bool_]:
    broken = np.zeros(len(layer), bool)
    for excess in layer.excess:
        broken |= (excess > 0).astype(bool)
    return broken


def _falls_short(lower: int | None, low: Any) -> bool:
    return lower is not None and bool(low < lower)
