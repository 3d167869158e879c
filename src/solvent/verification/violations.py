"""Second pass of a verification, for policies that may not be feasible: probability, excess, and a shortest history.

Nodes differ by the amounts spent of the suspect resources, by the greatest excess over their limits so far, and by
whether the history ended where it must not end. Until the first violation, each node stores one node and one outcome
that lead to it; following these back gives a shortest history.
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
        Probability of breaking a limit or ending where a history must not end.
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
        """Go to the horizon or, if it depends on continuous costs, to the first broken limit."""
        walk = self.walk
        found = Findings(nodes=self.before.nodes)
        layer = walk.start(traced=True)
        found.end(walk, layer)
        trail = [layer]
        witness = self._find_witness(trail)
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
                witness = self._find_witness(trail)
            if any(walk.ledgers[r].continuous for r in self.suspects) and _is_broken(layer).any():
                assert witness is not None
                return self._undecided(witness)
        violated = _is_violated(layer)
        # the probability of a history may underflow; it is then the smallest positive float
        probability = min(max(math.fsum(layer.probability[violated].tolist()), math.ulp(0.0)), 1.0)
        excess: dict[int, float | None] = {r: self._expectation(layer, r) for r in self.suspects}
        return ViolationFindings(found, probability if witness is not None else 0.0, excess, witness)

    def _find_witness(self, trail: list[PolicyLayer]) -> Witness | None:
        """Return a history to a violation in the last layer, and clear the trail; None if there is none."""
        layer = trail[-1]
        violated = np.flatnonzero(_is_violated(layer))
        if not len(violated):
            return None
        witness = self._witness(trail, int(violated[np.argmax(layer.probability[violated])]))
        for each in trail[1:-1]:
            self.walk.forget(each)
        trail.clear()
        return witness

    def _identity(self, layer: PolicyLayer) -> list[NDArray[Any]]:
        over = layer.state >= self.walk.ended
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
        """Follow a node back to the first step, and keep the account of that history."""
        model, ledgers, last = self.walk.model, self.walk.ledgers, trail[-1]
        broken = [ledger.name for ledger, excess in zip(ledgers, last.excess, strict=True) if excess[node] > 0]
        astray = last.astray is not None and bool(last.astray[node])
        outcomes: list[int] = []
        for layer in trail[:0:-1]:
            outcomes.append(int(layer.outcome[node]))
            node = int(layer.parent[node])
        first = state = int(model.start_states[node])
        high, low = [ledger.initial for ledger in ledgers], [ledger.initial for ledger in ledgers]
        steps = []
        for step, outcome in enumerate(reversed(outcomes)):
            if outcome != NO_OUTCOME:
                high = [ledger.add(total, ledger.high_O[outcome]) for total, ledger in zip(high, ledgers, strict=True)]
                low = [ledger.add(total, ledger.low_O[outcome]) for total, ledger in zip(low, ledgers, strict=True)]
            steps.append(self._witness_step(step, state, outcome, high, low))
            state = state if outcome == NO_OUTCOME else int(model.next_state[outcome])
        goals = () if model.may_end is None or not astray else np.flatnonzero(model.may_end).tolist()
        return Witness(
            tuple(steps),
            broken[0] if broken else None,
            start=model.states[first],
            initial={each.name: each.initial * each.unit for each in ledgers if each.limited},
            ends_astray=astray,
            ends_in=model.states[state] if astray else None,
            must_end_in=tuple(model.states[goal] for goal in goals),
        )

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
    """Return the nodes whose histories have broken a limit."""
    broken = np.zeros(len(layer), bool)
    for excess in layer.excess:
        broken |= (excess > 0).astype(bool)
    return broken


def _is_violated(layer: PolicyLayer) -> NDArray[np.bool_]:
    """Return the nodes whose histories have broken a limit, or ended where they must not end."""
    assert layer.astray is not None
    return _is_broken(layer) | layer.astray


def _falls_short(lower: int | None, low: Any) -> bool:
    return lower is not None and bool(low < lower)
