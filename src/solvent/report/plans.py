"""Plans for the page: rows of policies, with names and amounts replaced by their numbers in shared lists."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from solvent.plot.palette import action_style
from solvent.policy.plan import PlanRow
from solvent.policy.remaining import RemainingBudget
from solvent.policy.table import AugmentedPolicy
from solvent.report.markup import shown
from solvent.report.numbers import amount_text, as_float
from solvent.report.reach import Boxes, Reach, reachable_range

#: Rows of one plan, and of all plans on a page.
MOST_ROWS, MOST_ROWS_OF_ALL = 4_000, 40_000
#: Nodes of a policy beyond which values are left out and steps are read one by one.
_MOST_NODES = 20_000
#: Number of an amount that is not bounded.
OPEN = -1


class Names:
    """Lists of what rows refer to by number: states, actions with their styles, and amounts with their text.

    Parameters
    ----------
    actions : sequence of hashables
        The actions of the model, whose order determines their styles.
    """

    def __init__(self, actions: Sequence[Hashable] = ()) -> None:
        self._place = {name: i for i, name in enumerate(actions)}
        self.states: dict[Hashable, int] = {}
        self.actions: dict[Hashable, int] = {}
        self.amounts: dict[Fraction, int] = {}

    def state(self, name: Hashable) -> int:
        """Return the number of a state."""
        return self.states.setdefault(name, len(self.states))

    def action(self, name: Hashable) -> int:
        """Return the number of an action."""
        return self.actions.setdefault(name, len(self.actions))

    def amount(self, value: Fraction | None) -> int:
        """Return the number of an amount; `OPEN` for None."""
        return OPEN if value is None else self.amounts.setdefault(value, len(self.amounts))

    def to_data(self) -> dict[str, Any]:
        """Return the lists for the page."""
        return {
            "states": [shown(name) for name in self.states],
            "actions": [shown(name) for name in self.actions],
            "styles": [self._style(name) for name in self.actions],
            "amounts": [[amount_text(value), as_float(value)] for value in self.amounts],
        }

    def _style(self, action: Hashable) -> list[str]:
        """Return color, hatch and color of the hatch of an action, as in figures."""
        style = action_style(self._place[action])
        return [style.color, style.hatch[:1], style.hatch_color]


@dataclass(frozen=True)
class Plan:
    """A plan on the page.

    Attributes
    ----------
    tables : tuple of dict
        For each resource along which amounts are merged, the rows: [step, state, action, low and high amount that
        remains of each tracked resource, value as text].
    first : list of (int, int)
        The first action in each possible first state, as numbers.
    rows : int
        Number of rows in all tables.
    note : str
        What was left out; empty if nothing was.
    """

    tables: tuple[dict[str, Any], ...]
    first: list[tuple[int, int]]
    rows: int
    note: str

    def to_data(self) -> dict[str, Any]:
        """Return the plan for the page."""
        return {"tables": list(self.tables), "first": self.first, "note": self.note}


def plan_of(policy: AugmentedPolicy, names: Names, reach: Reach, *, along: str | None = None) -> Plan:
    """Return the plan of a policy.

    Parameters
    ----------
    policy : AugmentedPolicy
    names : Names
    reach : Reach
        What can remain at most.
    along : str, optional
        The only resource along which amounts are merged. Default: each of the tracked ones, in a table of its own.
    """
    chosen: list[str | None] = list(policy.resources) if along not in policy.resources else [along]
    tables: list[dict[str, Any]] = []
    notes: list[str] = []
    boxes: Boxes | None = None
    for resource in chosen or [None]:
        rows, note = _rows(policy, resource)
        notes.append(note)
        boxes = reach.boxes(policy, rows) if boxes is None else boxes
        tables.append(
            {
                "along": -1 if resource is None else policy.resources.index(resource),
                "resources": [shown(name) for name in policy.resources],
                "units": [as_float(unit) for unit in policy.units],
                "rows": [_row(row, policy, names, boxes) for row in rows],
            }
        )
    count = sum(len(each["rows"]) for each in tables)
    return Plan(tuple(tables), _first_actions(policy, names), count, notes[0])


def _rows(policy: AugmentedPolicy, resource: str | None) -> tuple[list[PlanRow], str]:
    if len(policy) <= _MOST_NODES:
        rows = policy.table(resource=resource)
        left_out = len(rows) - MOST_ROWS
        return rows[:MOST_ROWS], f"the last {left_out:,} of {len(rows):,} rows are left out" if left_out > 0 else ""
    plain, rows = replace(policy, model=None), []
    for step in range(policy.horizon):
        if _nodes_of(policy, step) > 10 * _MOST_NODES or len(rows) >= MOST_ROWS:
            end = min(len(rows), MOST_ROWS)
            return rows[:end], f"the policy has {len(policy):,} nodes; only {end:,} rows of its first steps are listed"
        rows += plain.table(step=step, resource=resource)
    return rows[:MOST_ROWS], f"the policy has {len(policy):,} nodes; values of rows are left out"


def _nodes_of(policy: AugmentedPolicy, step: int) -> int:
    first, last = (int(policy.node_indptr[int(policy.step_indptr[h])]) for h in (step, step + 1))
    return last - first


def _row(row: PlanRow, policy: AugmentedPolicy, names: Names, boxes: Boxes) -> list[Any]:
    amounts: list[int] = []
    for name in policy.resources:
        low, high = reachable_range(row, name, policy, boxes)
        amounts += [names.amount(low), names.amount(high)]
    action = next(iter(row.choices))
    return [row.step, names.state(row.state), names.action(action), *amounts, row.value_text]


def _first_actions(policy: AugmentedPolicy, names: Names) -> list[tuple[int, int]]:
    starts = list(policy.start) if isinstance(policy.start, dict) else [policy.start]
    spent = [int(ticks) for ticks in policy.initial_D]
    found = []
    for state in starts:
        index = policy.action_index(0, policy.states.index(state), spent)
        if index >= 0:
            found.append((names.state(state), names.action(policy.actions[index])))
    return found


def counting_note(policy: AugmentedPolicy) -> str:
    """Return how a policy counts costs that are not multiples of its units; empty if it counts them exactly."""
    parts = [
        f"each cost of {shown(name)} is counted in multiples of {amount_text(unit)}, rounded {way}"
        for name, unit, way in zip(policy.resources, policy.units, policy.counting, strict=True)
        if way != "exact"
    ]
    return "; ".join(parts)


def starting_amounts(policy: AugmentedPolicy) -> dict[str, Fraction]:
    """Return what remains of each limited resource before the first step."""
    limits = policy.limits
    return RemainingBudget(limits)(0, dict(zip(limits.resources, limits.initial, strict=True)))
