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
from solvent.verification.extremes import no_decision
from solvent.verification.findings import Findings
from solvent.verification.layers import NO_OUTCOME, PolicyLayer, Walk
from solvent.verification.report import CostPart, Witness, WitnessStep
from solvent.verification.saved import Reached, SavedPass


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
        walk, before = self.walk, self.before
        saved = SavedPass(walk, "violations", self.suspects, self.max_nodes, before.nodes, before.complete)
        reached = saved.load(traced=True)
        if reached is None:
            reached = Reached(walk.start(traced=True), Findings(nodes=before.nodes))
            reached.findings.end(walk, reached.layer)
            reached.trail.append(reached.layer)
            self._look_for_witness(reached)
        while not reached.done:
            if walk.monitor.should_save():
                saved.save(reached)
            walk.monitor.check_time()
            with walk.monitor.postponed():
                self._advance(reached)
        saved.save(reached)
        walk.monitor.check_time()
        layer = reached.layer
        witness = None if reached.record is None else self._witness(reached.record)
        if self._is_undecided(layer):
            assert witness is not None
            return self._undecided(witness)
        violated = _is_violated(layer)
        # the probability of a history may underflow; it is then the smallest positive float
        probability = min(max(math.fsum(layer.probability[violated].tolist()), math.ulp(0.0)), 1.0)
        excess: dict[int, float | None] = {r: self._expectation(layer, r) for r in self.suspects}
        return ViolationFindings(reached.findings, probability if witness is not None else 0.0, excess, witness)

    def _advance(self, reached: Reached) -> None:
        """Go one step ahead."""
        walk, layer, found = self.walk, reached.layer, reached.findings
        if layer.step == walk.model.horizon or (layer.step and self._is_undecided(layer)):
            reached.done = True
            return
        choices, rows, missing = walk.choices(layer)
        stopped = self._may_stop(layer, missing)
        found.earn(walk, layer, choices, rows)
        reached.layer = walk.advance(layer, choices, rows, self._identity, stopped)
        if layer.step and not reached.trail:
            walk.forget(layer)
        found.take(walk, reached.layer, self.max_nodes)
        if reached.record is None:
            reached.trail.append(reached.layer)
            self._look_for_witness(reached)

    def _is_undecided(self, layer: PolicyLayer) -> bool:
        """Return whether a limit is broken, and probabilities depend on continuous costs."""
        return any(self.walk.ledgers[r].continuous for r in self.suspects) and bool(_is_broken(layer).any())

    def _look_for_witness(self, reached: Reached) -> None:
        """Record a history to a violation in the last layer, and clear the trail, if there is one."""
        layer, trail = reached.layer, reached.trail
        violated = np.flatnonzero(_is_violated(layer))
        if not len(violated):
            return
        reached.record = self._record(trail, int(violated[np.argmax(layer.probability[violated])]))
        for each in trail[1:-1]:
            self.walk.forget(each)
        trail.clear()

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

    def _record(self, trail: list[PolicyLayer], node: int) -> dict[str, Any]:
        """Follow a node back to the first step; return the outcomes, the first state, and what is violated."""
        last = trail[-1]
        broken = [r for r, excess in enumerate(last.excess) if excess[node] > 0]
        astray = last.astray is not None and bool(last.astray[node])
        outcomes: list[int] = []
        for layer in trail[:0:-1]:
            outcomes.append(int(layer.outcome[node]))
            node = int(layer.parent[node])
        return {"outcomes": outcomes[::-1], "first": node, "broken": broken, "astray": int(astray)}

    def _witness(self, record: dict[str, Any]) -> Witness:
        """Keep the account of a history."""
        model, ledgers, astray = self.walk.model, self.walk.ledgers, bool(record["astray"])
        broken = [ledgers[r].name for r in record["broken"]]
        first = state = int(model.start_states[record["first"]])
        high, low = [ledger.initial for ledger in ledgers], [ledger.initial for ledger in ledgers]
        steps = []
        for step, outcome in enumerate(record["outcomes"]):
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
