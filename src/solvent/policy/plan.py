"""The plan of a policy as rows: consecutive amounts with the same decision are one row, with values where known.

The value of a row is what the policy earns from there on, with the amounts that it leads to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from solvent.core.exact import MAX_TICKS
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import PolicyError, did_you_mean, quote
from solvent.model.amounts import short_amount
from solvent.model.cmdp import CMDP
from solvent.model.lattice import AccountTicks
from solvent.policy.locate import COLLAPSED
from solvent.policy.nodes import NO_NODE, NodeTable
from solvent.policy.reach import layer_values, reached_layers
from solvent.policy.remaining import RemainingBudget
from solvent.policy.runs import run_bounds

#: Seconds for the values of a plan; if there are too many nodes, it has none.
_SECONDS = 20.0
#: Nodes of one state and step that are turned into rows for a display.
_MOST_NODES = 5_000
#: The least and the greatest amount of a row; None where there is no end.
Range = tuple[Fraction | None, Fraction | None]
#: The same in ticks.
Span = tuple[int | None, int | None]


@dataclass(frozen=True)
class PlanRow:
    """One row of a plan: what is done at a step, in a state, for a range of amounts.

    Attributes
    ----------
    step : int
    state : hashable
    spent, remaining : dict of str to (Fraction or None, Fraction or None)
        For each tracked resource, the least and the greatest amount to which the row applies; None where there is no
        end.
    choices : dict of hashable to float
        The actions and their probabilities; one action with probability 1 for a deterministic policy.
    value : (float, float) or None
        The least and the greatest expected reward from there on, over the amounts that the policy leads to; None if
        that is not known.
    nodes : int
        Number of nodes of the policy that the row stands for.
    """

    step: int
    state: Hashable
    spent: dict[str, Range]
    remaining: dict[str, Range]
    choices: dict[Hashable, float]
    value: tuple[float, float] | None
    nodes: int

    @property
    def action_text(self) -> str:
        """The action, or all actions with their probabilities, as text."""
        if len(self.choices) == 1:
            return str(next(iter(self.choices)))
        return ", ".join(f"{action} ({probability:.4g})" for action, probability in self.choices.items())

    @property
    def value_text(self) -> str:
        """The value or the range of values as text; empty if not known."""
        if self.value is None:
            return ""
        low, high = (f"{value:.6g}" for value in self.value)
        return low if low == high else f"{low} to {high}"


def range_text(ends: Range) -> str:
    """Return a range of amounts as text.

    Examples
    --------
    >>> one, two = Fraction(1), Fraction(2)
    >>> [range_text(ends) for ends in [(one, one), (one, two), (one, None), (None, two), (None, None)]]
    ['1', '1 to 2', '1 or more', '2 or less', 'any']
    """
    low, high = ends
    if low is None:
        return "any" if high is None else f"{short_amount(high)} or less"
    if high is None:
        return f"{short_amount(low)} or more"
    return short_amount(low) if low == high else f"{short_amount(low)} to {short_amount(high)}"


def plan_rows(
    policy: NodeTable,
    *,
    step: int | None = None,
    state: Hashable = None,
    resource: str | None = None,
    model: CMDP | None = None,
) -> list[PlanRow]:
    """Return the rows of a policy's plan; see `AugmentedPolicy.table`."""
    model = model or policy.model
    if step is not None:
        step = policy.check_step(step)
    wanted = None if state is None else policy.find_state(state)
    if resource is not None and resource not in policy.resources:
        tracked = ", ".join(map(quote, policy.resources)) or "none"
        hint = did_you_mean(resource, policy.resources)
        raise PolicyError("resource", f"one of the tracked resources ({tracked})", quote(resource), hint)
    along = policy.resources.index(resource) if resource is not None else len(policy.resources) - 1
    values = {} if model is None else _reached_values(policy, model)
    remaining = RemainingBudget(policy.limits)
    rows = []
    for at in range(policy.horizon) if step is None else [step]:
        for group in range(int(policy.step_indptr[at]), int(policy.step_indptr[at + 1])):
            if wanted is None or int(policy.group_state[group]) == wanted:
                rows += list(_group_rows(policy, at, group, along, values, remaining))
    return rows


def first_rows(policy: NodeTable) -> Iterator[PlanRow]:
    """Yield the first rows of a policy's plan, without values; none after a state with very many nodes."""
    remaining = RemainingBudget(policy.limits)
    for step in range(policy.horizon):
        for group in range(int(policy.step_indptr[step]), int(policy.step_indptr[step + 1])):
            if int(policy.node_indptr[group + 1] - policy.node_indptr[group]) > _MOST_NODES:
                return
            yield from _group_rows(policy, step, group, len(policy.resources) - 1, {}, remaining)


def _group_rows(
    policy: NodeTable,
    step: int,
    group: int,
    along: int,
    values: dict[int, tuple[float, float]],
    remaining: RemainingBudget,
) -> Iterator[PlanRow]:
    first, last = int(policy.node_indptr[group]), int(policy.node_indptr[group + 1])
    nodes = np.arange(first, last)
    others = [d for d in range(len(policy.resources)) if d != along]
    if others:
        order = np.lexsort([policy.spent_ND[first:last, d] for d in (along, *reversed(others))])
        nodes = nodes[order]
    state = policy.states[int(policy.group_state[group])]
    spans = [[each[node - first] for node in nodes.tolist()] for each in _spans(policy, group)]
    is_settled = policy.spent_ND[nodes, along] == COLLAPSED if along >= 0 else np.zeros(len(nodes), bool)
    decisions = [_decision(policy, node) for node in nodes.tolist()]

    def key(i: int) -> Any:
        # an amount that no longer matters is not next to any other
        return [spans[d][i] for d in others], decisions[i], bool(is_settled[i])

    begin = 0
    for i in range(1, len(nodes) + 1):
        if i < len(nodes) and key(i) == key(begin):
            continue
        spent: dict[str, Range] = {}
        for d, name in enumerate(policy.resources):
            low, high = spans[d][begin][0], spans[d][i - 1][1]
            unit = policy.units[d]
            spent[name] = (None if low is None else low * unit, None if high is None else high * unit)
        left = {name: _left(remaining, step, name, pair) for name, pair in spent.items()}
        choices = {policy.actions[action]: probability for action, probability in decisions[begin]}
        worth = [values[node] for node in nodes[begin:i].tolist() if node in values]
        known = (min(low for low, _ in worth), max(high for _, high in worth)) if worth else None
        yield PlanRow(step, state, spent, left, choices, known, i - begin)
        begin = i


def _decision(policy: NodeTable, node: int) -> tuple[tuple[int, float], ...]:
    actions, weights = policy.choices(node)
    return tuple(zip(actions.tolist(), weights.tolist(), strict=True))


def _spans(policy: NodeTable, group: int) -> list[list[Span]]:
    """Return, for each resource, the range of amounts to which each node of a group applies, in ticks."""
    nodes = slice(int(policy.node_indptr[group]), int(policy.node_indptr[group + 1]))
    spans = []
    for d in range(len(policy.resources)):
        low = high = policy.spent_ND[nodes, d]
        if d == len(policy.resources) - 1:
            low, high = run_bounds(policy, group)
        elif policy.settled_low_GD is not None and policy.settled_high_GD is not None:
            settled = low == COLLAPSED
            low = np.where(settled, policy.settled_low_GD[group, d], low)
            high = np.where(settled, policy.settled_high_GD[group, d], high)
        spans.append([(_finite(a), _finite(b)) for a, b in zip(low.tolist(), high.tolist(), strict=True)])
    return spans


def _finite(ticks: int) -> int | None:
    return None if abs(ticks) > MAX_TICKS else ticks


def _left(remaining: RemainingBudget, step: int, name: str, spent: Range) -> Range:
    """Return what remains of a resource for a range of amounts spent, the least first."""
    if spent == (None, None):
        return None, None
    some = [Fraction(0) if amount is None else amount for amount in spent]
    ends = [
        None if given is None else remaining(step, dict.fromkeys(remaining.resources, amount))[name]
        for given, amount in zip(spent, some, strict=True)
    ]
    zero, one = (remaining(step, dict.fromkeys(remaining.resources, Fraction(x)))[name] for x in (0, 1))
    return (ends[1], ends[0]) if one < zero else (ends[0], ends[1])


def _reached_values(policy: NodeTable, model: CMDP) -> dict[int, tuple[float, float]]:
    """Return the least and the greatest value of the amounts that the policy leads to, for each of its nodes.

    Empty if costs are continuous, or if there are too many nodes to follow.
    """
    policy.check_model(model)
    try:
        cost_OD = policy.cost_ticks(model)
    except PolicyError:
        return {}
    accounts = AccountTicks(policy.initial_D, policy.floor_D, policy.ceiling_D)
    try:
        with ResourceMonitor(_SECONDS) as monitor:
            layers = list(reached_layers(policy, model, cost_OD, accounts, monitor))
    except LimitReached:
        return {}
    low, high = np.full(len(policy), np.inf), np.full(len(policy), -np.inf)
    for step, (layer, values) in enumerate(zip(layers, layer_values(model, layers), strict=True)):
        nodes = policy.locate(step, layer.states, layer.ticks_MD)
        known = nodes != NO_NODE
        np.minimum.at(low, nodes[known], values[known])
        np.maximum.at(high, nodes[known], values[known])
    return {int(node): (float(low[node]), float(high[node])) for node in np.flatnonzero(low < np.inf)}
