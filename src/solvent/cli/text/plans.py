"""The plan of a policy as text, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from solvent.cli.text.records import amount, identity, name, number
from solvent.cli.text.results import Written, written_text
from solvent.core.tables import group
from solvent.errors import printable
from solvent.policy.plan import PlanRow, range_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solvent.model.cmdp import CMDP
    from solvent.policy.table import AugmentedPolicy

#: Rows that are printed unless all are asked for.
_MAX_ROWS = 40


def plan_text(
    policy: AugmentedPolicy, rows: Sequence[PlanRow], *, every: bool = False, files: Written | None = None
) -> RenderableType:
    """Return the text of `policy`: a table, without the step and the state where they repeat."""
    from rich.table import Table
    from rich.text import Text

    head = _headline(policy, rows)
    if not rows:
        return group(Text(head), written_text(files or {}))
    table = Table()
    for heading in _headings(policy):
        table.add_column(heading, justify="right" if heading in ("step", "value") else "left")
    shown = rows if every else rows[:_MAX_ROWS]
    before: PlanRow | None = None
    for row in shown:
        same = before is not None and before.step == row.step
        if before is not None and not same:
            table.add_section()
        repeated = same and before is not None and before.state == row.state
        cells = ["" if same else str(row.step), "" if repeated else str(row.state)]
        table.add_row(*cells, *(range_text(ends) for ends in row.remaining.values()), row.action_text, row.value_text)
        before = row
    left_out = len(rows) - len(shown)
    more = None
    if left_out:
        more = Text(f"  {left_out:,} more row{'s' * (left_out > 1)}: use --all, or --step and --state, or --csv FILE")
    return group(Text(head), table, more, _note(policy), written_text(files or {}))


def _headline(policy: AugmentedPolicy, rows: Sequence[PlanRow]) -> str:
    nodes = sum(row.nodes for row in rows)
    if not rows:
        return "no decisions: the policy never gets there, or the episode is over"
    return f"policy: {nodes:,} decision{'s' * (nodes > 1)} in {len(rows):,} row{'s' * (len(rows) > 1)}"


def _note(policy: AugmentedPolicy) -> RenderableType | None:
    from rich.text import Text

    return Text("  the policy counts rounded costs: what remains is as counted") if policy.rounds else None


def _headings(policy: AugmentedPolicy) -> list[str]:
    return ["step", "state", *(f"{resource} remaining" for resource in policy.resources), "action", "value"]


def plan_markdown(policy: AugmentedPolicy, rows: Sequence[PlanRow]) -> str:
    """Return all rows as a table in Markdown."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(printable(cell).replace("|", "\\|") for cell in cells) + " |"

    headings = _headings(policy)
    marks = ["---:" if heading in ("step", "value") else "---" for heading in headings]
    lines = [line(headings), "| " + " | ".join(marks) + " |"]
    for row in rows:
        ranges = [range_text(ends) for ends in row.remaining.values()]
        lines.append(line([str(row.step), str(row.state), *ranges, row.action_text, row.value_text]))
    return "\n".join(lines)


def plan_csv(policy: AugmentedPolicy, rows: Sequence[PlanRow]) -> str:
    """Return all rows as CSV: exact amounts, empty where there is no end."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ends = [
        f"{resource}_{kind}_{end}"
        for resource in policy.resources
        for kind in ("spent", "remaining")
        for end in ("from", "to")
    ]
    writer.writerow(["step", "state", *ends, "action", "value_from", "value_to", "nodes"])
    for row in rows:
        amounts = [
            amount(end) or ""
            for resource in policy.resources
            for kind in (row.spent, row.remaining)
            for end in kind[resource]
        ]
        values = ("", "") if row.value is None else tuple(map(repr, row.value))
        writer.writerow([row.step, row.state, *amounts, row.action_text, *values, row.nodes])
    return text.getvalue()


def plan_record(model: CMDP, policy: AugmentedPolicy, rows: Sequence[PlanRow]) -> dict[str, Any]:
    """Return the record of `policy`."""
    return {
        "model": identity(model),
        "resources": list(policy.resources),
        "rounded": policy.rounds,
        "rows": [
            {
                "step": row.step,
                "state": name(row.state),
                "spent": _ranges(row.spent),
                "remaining": _ranges(row.remaining),
                "action": name(next(iter(row.choices))),
                "value": None if row.value is None else list(map(number, row.value)),
                "nodes": row.nodes,
            }
            for row in rows
        ],
    }


def _ranges(ranges: dict[str, Any]) -> dict[str, list[str | None]]:
    return {resource: [amount(end) for end in ends] for resource, ends in ranges.items()}
