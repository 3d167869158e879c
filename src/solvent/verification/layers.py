"""Layers of the nodes that a policy can reach, step by step.

A node represents all histories that end in one state and that the policy will not distinguish from now on. It stores
their total probability and, for each resource, the most and the least that any of them has spent:

    high'(n') = max over n, outcomes o from n to n' of clamp(high(n) + cost(o)),      low' with min,

where clamp moves an amount beyond the floor or the ceiling of a saturating resource to it. As clamp is monotone (see
`ledgers`), both are exact for any number of histories. Where the amounts themselves matter, nodes differ by amount, and
high equals low.

A history ends after the last step, or on entering a terminal state. If it matters where it ends, the layer at that
moment distinguishes the states in which histories end; later layers do not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import PLUS_INFINITY
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.core.preparation import working_time
from solvent.errors import PolicyError, quote
from solvent.model.amounts import format_amount
from solvent.model.cmdp import CMDP
from solvent.policy.choices import NO_ROW, Choices, TabularPolicy, find_rows, spread
from solvent.policy.locate import COLLAPSED
from solvent.policy.nodes import NodeTable
from solvent.policy.search import compact, pack
from solvent.policy.until_violation import UntilViolationPolicy
from solvent.verification.ledgers import Ledger
from solvent.verification.parts import Parts

#: In `PolicyLayer.outcome`: the history had already ended, so that there was no outcome.
NO_OUTCOME = -1
#: Outcomes that are processed at once.
_CHUNK = 2**20
#: Memory for merging nodes, in multiples of the memory of the nodes: copies, keys, and their order.
_MERGING = 3
#: Approximate number of nodes that are merged in a second.
_MERGED_PER_SECOND = 4e6


class SettledSplitError(Exception):
    """The policy distinguishes histories that were merged because a resource was settled."""


@dataclass
class PolicyLayer:
    """The nodes that a policy can reach before a step.

    Attributes
    ----------
    step : int
    state : ndarray of int64, shape (N,)
        Positions of states; S (one past the last) where the history has ended; S + 1 + s where it ends right now in
        state s, in a model in which it matters where histories end.
    probability : ndarray of float64, shape (N,)
    high, low : list of arrays of shape (N,), one per resource
        The most and the least that was spent, in ticks of the ledgers.
    excess : list of arrays of shape (N,), one per resource
        Greatest excess over a limit so far, in ticks; an empty list unless it is traced.
    parent, outcome : ndarray of int64, shape (N,)
        A node of the previous layer and an outcome, or `NO_OUTCOME`, that lead to the node.
    violated : ndarray of bool, shape (N,), or None
        Whether one of the policy's own limits was broken; None unless the policy is an `UntilViolationPolicy`.
    astray : ndarray of bool, shape (N,), or None
        Whether the history ended in a state in which it must not end; None unless it is traced.
    """

    step: int
    state: NDArray[np.int64]
    probability: NDArray[np.float64]
    high: list[NDArray[Any]]
    low: list[NDArray[Any]]
    excess: list[NDArray[Any]]
    parent: NDArray[np.int64]
    outcome: NDArray[np.int64]
    violated: NDArray[np.bool_] | None = None
    astray: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.state)


#: Function of a layer that returns the columns which, besides the state, distinguish its nodes.
Identity = Callable[[PolicyLayer], list[NDArray[Any]]]


@dataclass(frozen=True)
class Walk:
    """A model and a policy, with the costs in ledgers: computes each layer from the one before.

    Attributes
    ----------
    model : CMDP
    policy : TabularPolicy
    ledgers : tuple of Ledger
        One per resource of the model, then one per resource that a policy on rounded costs counts.
    parts : Parts or None
        How the outcomes of `model` were split, if they were.
    monitor : ResourceMonitor
        Memory for a layer stays reserved in it until `forget` is called.
    """

    model: CMDP
    policy: TabularPolicy
    ledgers: tuple[Ledger, ...]
    parts: Parts | None = None
    monitor: ResourceMonitor = field(default_factory=ResourceMonitor)

    @property
    def node_bytes(self) -> int:
        """Approximate memory of a node: state, probability, history, and two amounts per resource."""
        return 40 + sum(24 if ledger.high_O.dtype != object else 120 for ledger in self.ledgers)

    @property
    def ended(self) -> int:
        """The state of histories that have ended; larger ones are of those that end right now."""
        return self.model.n_states

    @property
    def tracked(self) -> list[tuple[int, int]]:
        """Ledger of each resource that the policy tracks, and the policy's unit in ticks of the ledger."""
        # ledgers of counted costs come last, and replace those of the same name
        place_of = {ledger.name: r for r, ledger in enumerate(self.ledgers)}
        places = [place_of[name] for name in self.policy.resources]
        return [(r, int(unit / self.ledgers[r].unit)) for r, unit in zip(places, self.policy.units, strict=True)]

    def start(self, traced: bool) -> PolicyLayer:
        """Return the first layer: the possible first states in their order, with what was spent before."""
        count = len(self.model.start_states)
        state = self.end(0, self.model.start_states)
        none = np.full(count, -1)
        return PolicyLayer(
            0,
            state,
            self.model.start_probability.copy(),
            [ledger.start(count) for ledger in self.ledgers],
            [ledger.start(count) for ledger in self.ledgers],
            [np.zeros_like(ledger.high_O, shape=count) for ledger in self.ledgers] if traced else [],
            none,
            none * 0 + NO_OUTCOME,
            np.zeros(count, bool) if isinstance(self.policy, UntilViolationPolicy) else None,
            self.goes_astray(state) if traced else None,
        )

    def end(self, step: int, state: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the states before a step, with those in which histories end replaced.

        They are replaced by `ended` or, if it matters where histories end, by `ended + 1` plus the state.
        """
        last = step == self.model.horizon
        ends = np.ones(self.ended, bool) if last else np.diff(self.model.row_indptr_at(step)) == 0
        if not ends.any():
            return state
        place = np.arange(self.ended + 1)
        at = np.flatnonzero(ends)
        place[at] = at + self.ended + 1 if self.model.has_end_values else self.ended
        return place[state]

    def ending(self, state: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which of some states from `end` are of histories that end right now, and where these end."""
        now = np.flatnonzero(state > self.ended)
        return now, state[now] - (self.ended + 1)

    def goes_astray(self, state: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of some states from `end` are of histories that end right now where they must not end."""
        astray = np.zeros(len(state), bool)
        if self.model.may_end is not None:
            now, where = self.ending(state)
            astray[now] = ~self.model.may_end[where]
        return astray

    def ticks(self, layer: PolicyLayer, nodes: NDArray[np.int64]) -> NDArray[Any]:
        """Return the amounts spent at some nodes, in the policy's ticks."""
        tracked = self.tracked
        if not tracked:
            return np.zeros((len(nodes), 0), np.int64)
        ticks = np.stack([layer.high[r][nodes] // factor for r, factor in tracked], axis=1)
        if isinstance(self.policy, NodeTable):
            # amounts that do not fit 64 bits are beyond all nodes of the table
            ticks = (np.clip(ticks, COLLAPSED + 1, PLUS_INFINITY) if ticks.dtype == object else ticks).astype(np.int64)
        return ticks

    def choices(self, layer: PolicyLayer) -> tuple[Choices, NDArray[np.int64], NDArray[np.int64]]:
        """Return the policy's choices at a layer, their rows, and the nodes where it has no decision but needs one.

        Raises
        ------
        PolicyError
            If the policy takes an action that is not available.
        """
        live = np.flatnonzero(layer.state < self.ended)
        found = self._ask(layer, live)
        choices = Choices(live[found.node], found.action, found.probability)
        rows = find_rows(self.model, layer.step, layer.state[choices.node], choices.action)
        bad = np.flatnonzero(rows == NO_ROW)
        if len(bad):
            node, action = int(choices.node[bad[0]]), self.model.actions[int(choices.action[bad[0]])]
            offered = self.model.rows(layer.step, int(layer.state[node]))
            names = ", ".join(quote(self.model.actions[self.model.row_action[row]]) for row in offered)
            raise PolicyError(self.place(layer, node), f"one of the available actions, {names}", quote(action))
        decided = np.zeros(len(layer), bool)
        decided[choices.node] = True
        return choices, rows, live[~decided[live]]

    def _ask(self, layer: PolicyLayer, live: NDArray[np.int64]) -> Choices:
        ticks = self.ticks(layer, live)
        if isinstance(self.policy, UntilViolationPolicy):
            assert layer.violated is not None
            return self.policy.choices_when(layer.step, layer.state[live], ticks, layer.violated[live])
        return self.policy.choices_at(layer.step, layer.state[live], ticks)

    def place(self, layer: PolicyLayer, node: int) -> str:
        """Return the step, state and amounts of a node, for messages."""
        spent = ", ".join(
            f"{ledger.name} {_between(ledger.amount(low[node]), ledger.amount(high[node]))}"
            + (" as counted" if ledger.counted else "")
            for ledger, high, low in zip(self.ledgers, layer.high, layer.low, strict=True)
        )
        state = quote(self.model.states[int(layer.state[node])])
        return f"step {layer.step}, state {state}" + (f", spent {spent}" if spent else "")

    def advance(
        self,
        layer: PolicyLayer,
        choices: Choices,
        rows: NDArray[np.int64],
        identity: Identity,
        stopped: NDArray[np.int64],
    ) -> PolicyLayer:
        """Return the layer after a step.

        Parameters
        ----------
        layer : PolicyLayer
        choices, rows
            Results of `choices`.
        identity : Identity
            What distinguishes the new nodes.
        stopped : ndarray of int64
            Nodes whose histories end here, in addition to those that have already ended.
        """
        pieces = []
        rate = _MERGED_PER_SECOND
        for piece in self._successors(layer, choices, rows, stopped):
            began = working_time()
            pieces.append(self._merge(piece, identity))
            # merging all nodes takes about twice as long per node as merging a piece, measured just now
            rate = min(rate, 0.5 * len(piece) / max(working_time() - began, 1e-3))
            self.monitor.release(_MERGING * self.node_bytes * len(piece))
            self.monitor.reserve(self.node_bytes * len(pieces[-1]), f"the nodes after step {layer.step}")
            self.monitor.check_time()
        if len(pieces) == 1:
            return pieces[0]
        count = sum(map(len, pieces))
        what = f"the nodes after step {layer.step}"
        if not self.monitor.has_time_for(count, rate):
            raise LimitReached(f"{what} would take longer than is left of the time limit of {self.monitor.seconds:g} s")
        with self.monitor.borrowed(_MERGING * self.node_bytes * count, what):
            merged = self._merge(_join(pieces), identity)
        self.monitor.release(self.node_bytes * (count - len(merged)))
        return merged

    def forget(self, layer: PolicyLayer) -> None:
        """Release the memory of a layer that is no longer needed."""
        self.monitor.release(self.node_bytes * len(layer))

    def _successors(
        self, layer: PolicyLayer, choices: Choices, rows: NDArray[np.int64], stopped: NDArray[np.int64]
    ) -> Iterator[PolicyLayer]:
        still = layer.state >= self.ended
        still[stopped] = True
        nodes = np.flatnonzero(still)
        if len(nodes):
            self.monitor.reserve(_MERGING * self.node_bytes * len(nodes), f"the nodes after step {layer.step}")
            state = np.full(len(nodes), self.ended)
            outcome = np.full(len(nodes), NO_OUTCOME)
            yield self._successor(layer, nodes, state, layer.probability[nodes], outcome)
        sizes = np.diff(self.model.outcome_indptr)[rows]
        chunk = np.cumsum(sizes) // _CHUNK
        bounds = [0, *(np.flatnonzero(np.diff(chunk)) + 1).tolist(), len(rows)]
        for first, last in itertools.pairwise(bounds):
            if first < last:
                size = _MERGING * self.node_bytes * int(sizes[first:last].sum())
                self.monitor.reserve(size, f"the nodes after step {layer.step}")
                owner, outcome = spread(self.model.outcome_indptr, rows[first:last])
                node = choices.node[first:last][owner]
                weight = layer.probability[node] * choices.probability[first:last][owner]
                yield self._successor(
                    layer,
                    node,
                    self.model.next_state[outcome].astype(np.int64),
                    weight * self.model.probability[outcome],
                    outcome,
                )

    def _successor(
        self,
        layer: PolicyLayer,
        node: NDArray[np.int64],
        state: NDArray[np.int64],
        probability: NDArray[np.float64],
        outcome: NDArray[np.int64],
    ) -> PolicyLayer:
        high, low = [spent[node] for spent in layer.high], [spent[node] for spent in layer.low]
        if len(outcome) and outcome[0] != NO_OUTCOME:
            for r, ledger in enumerate(self.ledgers):
                high[r] = ledger.clamp(high[r] + ledger.high_O[outcome])
                low[r] = ledger.clamp(low[r] + ledger.low_O[outcome])
        excess = [
            np.maximum(before[node], self.ledgers[r].excess(layer.step, high[r], low[r]))
            for r, before in enumerate(layer.excess)
        ]
        state = self.end(layer.step + 1, state)
        astray = None if layer.astray is None else layer.astray[node] | self.goes_astray(state)
        after = PolicyLayer(layer.step + 1, state, probability, high, low, excess, node, outcome, astray=astray)
        if isinstance(self.policy, UntilViolationPolicy):
            assert layer.violated is not None
            after.violated = layer.violated[node] | self._breaks_own_limits(after)
        return after

    def _breaks_own_limits(self, after: PolicyLayer) -> NDArray[np.bool_]:
        """Return the nodes at which one of the own limits of an `UntilViolationPolicy` is broken after a step."""
        assert isinstance(self.policy, UntilViolationPolicy)
        every = np.arange(len(after))
        most, least = (self.ticks(replace(after, high=spent), every) for spent in (after.high, after.low))
        broken = self.policy.breaks_limits(after.step - 1, most)
        merged = (most != least).any(1) & (after.state < self.ended)
        if (merged & (broken | self.policy.breaks_limits(after.step - 1, least))).any():
            raise SettledSplitError  # some of the merged amounts may break a limit, and others not
        return broken

    def _merge(self, layer: PolicyLayer, identity: Identity) -> PolicyLayer:
        """Merge the nodes that nothing distinguishes."""
        flags = [each.astype(np.int64) for each in (layer.violated, layer.astray) if each is not None]
        keys, position = compact(pack([layer.state, *identity(layer), *layer.excess, *flags]))
        example = np.zeros(len(keys), np.int64)
        example[position] = np.arange(len(position))
        high, low = [spent[example] for spent in layer.high], [spent[example] for spent in layer.low]
        if len(example) < len(layer):
            for r in range(len(high)):
                np.maximum.at(high[r], position, layer.high[r])
                np.minimum.at(low[r], position, layer.low[r])
        return PolicyLayer(
            layer.step,
            layer.state[example],
            np.asarray(np.bincount(position, layer.probability, len(keys)), np.float64),
            high,
            low,
            [each[example] for each in layer.excess],
            layer.parent[example],
            layer.outcome[example],
            None if layer.violated is None else layer.violated[example],
            None if layer.astray is None else layer.astray[example],
        )


def _join(pieces: list[PolicyLayer]) -> PolicyLayer:
    def columns(name: str) -> list[NDArray[Any]]:
        parts = [getattr(piece, name) for piece in pieces]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(piece, name) for piece in pieces])

    return PolicyLayer(
        pieces[0].step,
        column("state"),
        column("probability"),
        columns("high"),
        columns("low"),
        columns("excess"),
        column("parent"),
        column("outcome"),
        None if pieces[0].violated is None else column("violated"),
        None if pieces[0].astray is None else column("astray"),
    )


def _between(low: Fraction | None, high: Fraction | None) -> str:
    assert high is not None
    if low == high:
        return format_amount(high)
    return f"{'anything' if low is None else format_amount(low)} to {format_amount(high)}"
