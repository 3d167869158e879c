"""The result of `frontier` with several resources: text, JSON record and CSV."""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from solvent.cli.text.records import amount, fixed_limits, identity
from solvent.cli.text.results import BAD, GOOD, headline, limit_rows, thinned
from solvent.core.tables import facts_grid, group
from solvent.errors import printable
from solvent.model.amounts import format_amount, short_amount

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solvent.solvers.surface import Surface

#: Least budgets that are listed unless --verbose is given, and rows and widths of columns of a table of two resources.
_MAX_LEAST, _MAX_ROWS, _COLUMN, _MAX_COLUMNS = 4, 12, 10, 8


def surface_text(surface: Surface, width: int, *, verbose: bool = False) -> RenderableType:
    """Return the text of `frontier` for several resources.

    Parameters
    ----------
    surface : Surface
    width : int
        Width of the terminal, in characters.
    verbose : bool
        Whether all least budgets and all efficient budgets are listed.
    """
    from rich.text import Text

    ends = _joined([f"{name} up to {short_amount(surface.max_budget[name])}" for name in surface.resources])
    limits = limit_rows(surface, "surface")
    every = f"budget of {ends}" if surface.vary == "budget" else f"amount of {ends} remaining at the start"
    if not surface.least_budgets:
        kept = "no policy keeps" if surface.vary == "budget" else "no policy is safe with"
        complete = all(surface.flat_beyond.values())
        why = "solvent solve tells why" if complete else "a larger --max-budget may be feasible"
        head = headline("infeasible", BAD, f"{kept} any {every}; {why}")
        return group(head, facts_grid(limits))
    head = headline("surface", GOOD, f"the best value for every {every}: {_points(len(surface))}")
    shown_least = surface.least_budgets if verbose else surface.least_budgets[:_MAX_LEAST]
    least = [_budgets_text(surface, budgets) for budgets in shown_least]
    more = len(surface.least_budgets) - len(least)
    if more:
        least.append(f"and {more:,} more: use --verbose to see all")
    label = "least budgets" if surface.vary == "budget" else "least remaining"
    facts = facts_grid([*((label if not i else "", text) for i, text in enumerate(least)), *limits])
    if verbose or len(surface.resources) > 2:
        shown = range(len(surface)) if verbose else thinned(len(surface))
        left_out = len(surface) - len(shown)
        note = Text(f"  {_points(left_out, 'more ')}: use --verbose or --csv FILE to see all") if left_out else None
        return group(head, facts, _list(surface, shown), note)
    return group(head, facts, _matrix(surface, width))


def _points(count: int, more: str = "") -> str:
    return f"{count:,} {more}point{'s' * (count > 1)}"


def _joined(parts: list[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _budgets_text(surface: Surface, budgets: tuple[Fraction, ...]) -> str:
    return ", ".join(f"{name} {short_amount(each)}" for name, each in zip(surface.resources, budgets, strict=True))


def _list(surface: Surface, shown: Any) -> RenderableType:
    from rich.table import Table

    table = Table(*map(printable, surface.resources), "best value")
    for column in table.columns:
        column.justify = "right"
    for i in shown:
        table.add_row(*(short_amount(each, 18) for each in surface.budgets[i]), f"{surface.values[i]:.10g}")
    return table


def _matrix(surface: Surface, width: int) -> RenderableType:
    """Return the values of two resources: rows for budgets of the first, columns for budgets of the second."""
    from rich.table import Table

    down, across = (surface.amounts(name) for name in surface.resources)
    count = max(min((width - 16) // _COLUMN, _MAX_COLUMNS), 2)
    rows, columns = thinned(len(down), _MAX_ROWS), thinned(len(across), count)
    head = rf"{surface.resources[0]} \ {surface.resources[1]}"
    table = Table(printable(head), *(short_amount(across[j], 8) for j in columns))
    for column in table.columns:
        column.justify = "right"
    for i in rows:
        values = (surface.table[i, j] for j in columns)
        table.add_row(
            short_amount(down[i], 12), *("-" if value == -float("inf") else f"{value:.5g}" for value in values)
        )
    return table


def surface_record(surface: Surface) -> dict[str, Any]:
    """Return the record of `frontier` for several resources: the least and all efficient budgets."""

    def by_name(budgets: tuple[Fraction, ...]) -> dict[str, str | None]:
        return dict(zip(surface.resources, map(amount, budgets), strict=True))

    return {
        "model": identity(surface.model),
        "resources": list(surface.resources),
        "vary": surface.vary,
        "fixed_limits": fixed_limits(surface.fixed_limits),
        "ignored_limits": list(surface.ignored_limits),
        "max_budget": {name: amount(surface.max_budget[name]) for name in surface.resources},
        "flat_beyond": {name: surface.flat_beyond[name] for name in surface.resources},
        "error": surface.error,
        "least_budgets": [by_name(budgets) for budgets in surface.least_budgets],
        "points": [
            {
                "budget": by_name(budgets),
                "budget_float": dict(zip(surface.resources, map(float, budgets), strict=True)),
                "value": value,
            }
            for budgets, value in zip(surface.budgets, surface.values.tolist(), strict=True)
        ],
    }


def surface_csv(surface: Surface) -> str:
    """Return the efficient budgets as CSV: exact budgets, budgets as floats, and values."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = [f"{what}_{name}" for what in ("budget", "budget_float") for name in surface.resources]
    writer.writerow([*head, "value"])
    for budgets, value in zip(surface.budgets, surface.values.tolist(), strict=True):
        writer.writerow([*map(format_amount, budgets), *map(repr, map(float, budgets)), repr(value)])
    return text.getvalue()
