"""Second pass of a verification, for policies that may break a limit: probability, excess, and a shortest history.

Nodes differ by the amounts spent of the suspect resources, and by the greatest excess over their limits so far. Until
the first limit is broken, each node stores one node and one outcome that lead to it; following these back gives a
shortest history.
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
from solvent.verification.extremes import Findings, no_decision
from solvent.verification.layers import NO_OUTCOME, PolicyLayer, Walk
from solvent.verification.report import CostPart, Witness, WitnessStep


@dataclass(frozen=True)
class ViolationFindings:
    """What the second pass found; a probability or an excess is None if it depends on continuous costs.

    Attributes
    ----------
    findings : Findings
    probability : float or None
        Probability of breaking a limit.
    excess : dict of int to float or None
        Expected greatest excess of each suspect resource, by position.
    witness : Witness or None
    """

    findings: Findings
    probability: float | None
    excess: dict[int, float | None]
    witness: Witness | None


@dataclass(frozen=True)
class ViolationPass:
    """The second pass.

    Attributes
    ----------
    walk : Walk
    max_nodes : int
    suspects : list of int
        Positions of the resources whose limits may be broken.
    before : Findings
        What the first pass found.
    """

    walk: Walk
    max_nodes: int
    suspects: list[int]
    before: Findings

    def run(self) -> ViolationFindings:
        """Go to the horizon or, with continuous costs, to the first broken limit."""
        walk = self.walk
        found = Findings(nodes=self.before.nodes)
        layer = walk.start(traced=True)
        trail, witness = [layer], None
        for _ in range(walk.model.horizon):
            walk.monitor.check_time()
            choices, rows, missing = walk.choices(layer)
            stopped = self._may_stop(layer, missing)
            found.earn(walk, layer, choices, rows)
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
        # the probability of a history may underflow; it is then the smallest positive float
        probability = min(max(math.fsum(layer.probability[broken_nodes].tolist()), math.ulp(0.0)), 1.0)
        excess: dict[int, float | None] = {r: self._expectation(layer, r) for r in self.suspects}
        return ViolationFindings(found, probability if witness is not None else 0.0, excess, witness)

    def _identity(self, layer: PolicyLayer) -> list[NDArray[Any]]:
        over = layer.state == self.walk.ended
        columns = [layer.high[r] for r in self.suspects]
        columns += [layer.low[r] for r in self.suspects if self.walk.ledgers[r].continuous]
        seen = [r for r, _ in self.walk.tracked if r not in self.suspects]
        return columns + [np.where(over, 0, layer.high[r]) for r in seen]

    def _may_stop(self, layer: PolicyLayer, missing: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the nodes without a decision; raise an error unless a limit was broken at all of them."""
        innocent = missing[~_is_broken(layer)[missing]]
        if len(innocent):
            raise no_decision(self.walk, layer, int(innocent[0]))
        return missing

    def _undecided(self, witness: Witness) -> ViolationFindings:
        if not self.before.complete:
            raise ModelError(
                "policy",
                "a decision wherever it leads, because with continuous costs any history may keep all limits",
                "none at some nodes",
            )
        return ViolationFindings(self.before, None, dict.fromkeys(self.suspects, None), witness)

    def _expectation(self, layer: PolicyLayer, r: int) -> float:
        unit = self.walk.ledgers[r].unit
        terms = zip(layer.probability.tolist(), layer.excess[r].tolist(), strict=True)
        try:
            return math.fsum(p * nearest_float(ticks * unit) for p, ticks in terms if ticks)
        except OverflowError:  # the sum of finite numbers is not finite
            return math.inf

    def _witness(self, trail: list[PolicyLayer], node: int) -> Witness:
        """Follow a node back to the start, and add up the costs of that history."""
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


def _is_broken(layer: PolicyLayer) -> NDArray[np.bool_]:
    broken = np.zeros(len(layer), bool)
    for excess in layer.excess:
        broken |= (excess > 0).astype(bool)
    return broken


def _falls_short(lower: int | None, low: Any) -> bool:
    return lower is not None and bool(low < lower)
