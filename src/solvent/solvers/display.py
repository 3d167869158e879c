"""Solutions, curves, surfaces and levels as HTML, for notebooks. Nothing is computed that is not known already."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from solvent.core import html
from solvent.model.amounts import short_amount
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.solvers.solution import Solution, Status

if TYPE_CHECKING:
    from solvent.solvers.curve import Curve
    from solvent.solvers.levels.levels import Levels
    from solvent.solvers.surface import Surface

#: Points of curves and entries of surfaces that are drawn; larger ones are shown as tables.
_MOST_POINTS, _MOST_ENTRIES = 200_000, 20_000_000

TONES: dict[Status, html.Tone] = {
    Status.OPTIMAL: "good",
    Status.WITHIN_GAP: "good",
    Status.FEASIBLE: "good",
    Status.RELAXED: "doubtful",
    Status.LIMIT: "doubtful",
    Status.NOT_FOUND: "doubtful",
    Status.INFEASIBLE: "bad",
}


def value_text(value: float) -> str:
    """Return a value with ten digits, or "−∞"."""
    return "−∞" if value == -math.inf else "∞" if value == math.inf else f"{value:.10g}"


def solution_card(solution: Solution, asked: tuple[CMDP, Limits] | None) -> str:
    """Return the display of a solution, given the model and the limits it is for, if they are known.

    The policy is not made for it.

    Examples
    --------
    >>> import solvent
    >>> solution = solvent.solve(solvent.instances.knapsack([3, 4], [2, 3], capacity=5))
    >>> "<strong>Solution</strong> optimal" in solution_card(solution, None)
    True
    """
    name = "" if asked is None else asked[0].name
    status = solution.status.value.replace("_", " ")
    rows: list[tuple[str, object]] = []
    if math.isfinite(solution.value):
        rows.append(("value", value_text(solution.value)))
    if solution.status is not Status.INFEASIBLE and solution.gap:
        rows.append(("optimum", f"between {value_text(solution.value_lower)} and {value_text(solution.value_upper)}"))
    rows.append(("method", f"{solution.method}, {solution.stats.seconds:.3g} s"))
    if solution.approximation is not None:
        rows.append(("approximation", solution.approximation))
    parts = [html.facts(rows)]
    if solution.worst_spent:
        worst = "worst spent" if solution.worst_is_exact else "never spends more than"
        headings, cells = ["resource", worst], [[each, short_amount(x)] for each, x in solution.worst_spent.items()]
        if asked is not None:
            headings.append("limit")
            cells = [[*row, asked[1].texts.get(row[0], "none")] for row in cells]
        parts.append(html.table(headings, cells, numbers=[worst], total=len(cells)))
    parts.append(html.note(solution.message))
    return html.card("Solution", f"{status} · {name}" if name else status, *parts, tone=TONES[solution.status])


def curve_card(curve: Curve) -> str:
    """Return the display of a curve, with a picture, or a table without Matplotlib or if nothing is feasible."""
    what = "budget" if curve.vary == "budget" else "remaining at the start"
    least = "none is feasible" if curve.least_budget is None else short_amount(curve.least_budget)
    rows: list[tuple[str, object]] = [
        ("resource", f"{curve.resource}, {what} up to {short_amount(curve.max_budget)}"),
        ("least feasible", least),
    ]
    if curve.budgets:
        most, value = curve.budgets[-1], float(curve.values[-1])
        rows.append(("greatest value", f"{value_text(value)} from {short_amount(most)} on"))
    rows += [(f"limit on {name}", limit.text) for name, limit in curve.fixed_limits.items()]
    picture = None
    if 0 < len(curve) <= _MOST_POINTS:
        picture = html.figure(curve.plot, f"optimal value against the budget of {curve.resource}")
    if picture is None:
        steps = ((short_amount(b), value_text(float(v))) for b, v in zip(curve.budgets, curve.values, strict=True))
        picture = html.table([what, "value"], steps, numbers=[what, "value"], total=len(curve))
    return html.card("Curve", curve.model.name, html.facts(rows), picture, *_ignored(curve.ignored_limits))


def surface_card(surface: Surface) -> str:
    """Return the display of a surface, with a picture of two budgets, or a table without Matplotlib or of others."""
    names = surface.resources
    ends = ", ".join(f"{name} up to {short_amount(surface.max_budget[name])}" for name in names)
    rows: list[tuple[str, object]] = [("budgets", ends), ("efficient budgets", f"{len(surface):,}")]
    rows += [(f"limit on {name}", limit.text) for name, limit in surface.fixed_limits.items()]
    picture = None
    if len(names) == 2 and surface.table.size <= _MOST_ENTRIES:
        picture = html.figure(surface.plot, f"optimal value against the budgets of {names[0]} and {names[1]}")
    if picture is None:
        steps = ((*map(short_amount, budgets), value_text(value)) for budgets, value in _points(surface))
        picture = html.table([*names, "value"], steps, numbers=[*names, "value"], total=len(surface))
    return html.card("Surface", surface.model.name, html.facts(rows), picture, *_ignored(surface.ignored_limits))


def levels_card(levels: Levels) -> str:
    """Return the display of the least levels of states."""
    start = "not enough" if levels.start_level is None else short_amount(levels.start_level)
    rows: list[tuple[str, object]] = [
        ("objective", levels.objective),
        ("resource", f"{levels.resource}, up to {short_amount(levels.capacity)}"),
        ("possible from", f"{levels.n_possible:,} of {len(levels):,} states"),
        ("least level at the start", start),
    ]
    if levels.reload:
        rows.append(("reload states", html.names(levels.reload)))
    if levels.targets:
        rows.append(("targets", html.names(levels.targets)))
    shown = html.table(["state", "least level"], _level_rows(levels), numbers=["least level"], total=len(levels))
    return html.card("Levels", levels.model.name, html.facts(rows), shown)


def _points(surface: Surface) -> Iterator[tuple[tuple[Fraction, ...], float]]:
    yield from zip(surface.budgets, surface.values.tolist(), strict=True)


def _level_rows(levels: Levels) -> Iterator[tuple[object, object]]:
    for state in levels.model.states:
        level = levels.level(state)
        yield state, "none is enough" if level is None else short_amount(level)


def _ignored(limits: tuple[str, ...]) -> list[html.Fragment]:
    return [html.note(f"ignored limits, which policies can break: {'; '.join(limits)}")] if limits else []
