"""Policies as HTML, for notebooks: what they are, and their first decisions."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from solvent.core import html
from solvent.model.amounts import short_amount
from solvent.model.budget import Budget
from solvent.model.ends import first_states
from solvent.policy.plan import PlanRow, first_rows, range_text

if TYPE_CHECKING:
    from solvent.policy.discounted import DiscountedPolicy
    from solvent.policy.levels import LevelPolicy
    from solvent.policy.markov import MarkovPolicy
    from solvent.policy.nodes import NodeTable


def table_card(policy: NodeTable) -> str:
    """Return the display of a policy that depends on the amounts spent.

    Examples
    --------
    >>> import solvent
    >>> "at most 5" in table_card(solvent.solve(solvent.instances.knapsack([3, 4], [2, 3], capacity=5)).policy)
    True
    """
    rows = [("decisions", f"{len(policy):,} nodes over {policy.horizon:,} steps"), *_limits(policy)]
    for name, way, unit in zip(policy.resources, policy.counting, policy.units, strict=True):
        if way != "exact":
            rows.append((f"counts {name}", f"rounded {way} to multiples of {short_amount(unit)}"))
    return html.card(type(policy).__name__, _title(policy), html.facts(rows), _plan(policy))


def discounted_card(policy: DiscountedPolicy) -> str:
    """Return the display of a policy for a discounted model."""
    rules = html.names([rule.name for rule in policy.rules])
    rows = [
        ("decisions", f"{len(policy.finite):,} nodes over {policy.steps:,} steps"),
        ("then", rules),
        ("discount", short_amount(policy.discount)),
        *((f"limit on {name}", _ends(*ends)) for name, ends in policy.limits.items()),
    ]
    title = "" if policy.model is None else policy.model.name
    return html.card("DiscountedPolicy", title, html.facts(rows), _plan(policy.finite, "policy.finite"))


def markov_card(policy: MarkovPolicy) -> str:
    """Return the display of a policy that depends on step and state only."""
    kind = "deterministic" if policy.is_deterministic else "randomized"
    rows = [("kind", f"{kind}, depends on step and state only"), ("horizon", f"{policy.model.horizon:,} steps")]
    shown = html.table(["step", "state", "action"], _markov_rows(policy), numbers=["step"])
    return html.card("MarkovPolicy", policy.model.name, html.facts(rows), shown)


def level_card(policy: LevelPolicy) -> str:
    """Return the display of a policy by state and level."""
    rows = [
        ("objective", policy.objective),
        ("resource", f"{policy.resource}, up to {short_amount(policy.capacity)}"),
        ("rules", f"{len(policy.rule_row):,} for {policy.model.n_states:,} states"),
    ]
    shown = html.table(["state", "level", "action"], _level_rows(policy), total=len(policy.rule_row))
    return html.card("LevelPolicy", policy.model.name, html.facts(rows), shown)


def _ends(upper: Fraction | None, lower: Fraction | None) -> str:
    return Budget(upper=upper, lower=lower).text


def _title(policy: NodeTable) -> str:
    return "" if policy.model is None else policy.model.name


def _limits(policy: NodeTable) -> list[tuple[str, str]]:
    texts = policy.limits.texts
    return [(f"limit on {name}", texts.get(name, "none")) for name in policy.resources] or [("depends on", "no amount")]


def _plan(policy: NodeTable, whole: str = "policy") -> html.Fragment:
    """Return the first decisions as a table."""
    names, rest = list(policy.resources), f"{whole}.table() has all"
    headings = ["step", "state", *(f"remaining {name}" for name in names), "action"]
    return html.table(headings, (_cells(row, names) for row in first_rows(policy)), numbers=["step"], rest=rest)


def _cells(row: PlanRow, names: list[str]) -> list[object]:
    return [row.step, row.state, *(range_text(row.remaining[name]) for name in names), row.action_text]


def _markov_rows(policy: MarkovPolicy) -> Iterator[tuple[object, ...]]:
    """Yield decisions at the first states, and then those of the following steps."""
    model = policy.model
    starts = [model.state_index(state) for state in first_states(model.start)]
    for step in range(model.horizon):
        states = starts if step == 0 else range(model.n_states)
        for state in states:
            actions, weights = policy.choices(step, state)
            taken = [f"{model.actions[a]}" for a in actions.tolist()]
            if len(taken) > 1:
                taken = [f"{name} ({weight:.4g})" for name, weight in zip(taken, weights.tolist(), strict=True)]
            if taken:
                yield step, model.states[state], ", ".join(taken)


def _level_rows(policy: LevelPolicy) -> Iterator[tuple[object, ...]]:
    model = policy.model
    state_of_rule = np.repeat(np.arange(model.n_states), np.diff(policy.rule_indptr))
    for state, ticks, row in zip(state_of_rule.tolist(), policy.rule_level, policy.rule_row, strict=True):
        level = f"{short_amount(int(ticks) * policy.unit)} or more"
        yield model.states[state], level, model.actions[int(model.row_action[int(row)])]
