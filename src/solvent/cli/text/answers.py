"""Answers as text for a terminal: what was found, in the order in which people ask."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from solvent.cli.text.failures import in_shell
from solvent.core.tables import facts_grid, group
from solvent.model.amounts import format_amount, short_amount

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from solvent.model.budget import Limits
    from solvent.model.cmdp import CMDP
    from solvent.model.discounted import DiscountedCMDP
    from solvent.solvers.curve import Curve
    from solvent.solvers.solution import Round, Solution
    from solvent.verification.report import VerifyReport
    from solvent.verification.simulate import Simulation

#: Rows of a table of points; more are thinned.
_MOST_ROWS = 16
#: Columns of a plot.
_NARROWEST_PLOT, _WIDEST_PLOT = 30, 76
_GOOD, _FAIR, _BAD = "bold green", "bold yellow", "bold red"

_STATUS = {
    "optimal": (_GOOD, "never over budget, and no policy that never is earns more"),
    "within_gap": (_GOOD, "never over budget, and as near to the best as was asked for"),
    "feasible": (_FAIR, "never over budget; the best may earn more, within the bounds below"),
    "relaxed": (_FAIR, "earns at least as much as any policy within budget, but may go over by what is said below"),
    "infeasible": (_BAD, "no policy keeps this budget"),
    "limit": (_BAD, "stopped before there was a policy"),
}


def headline(word: str, style: str, rest: str) -> RenderableType:
    """Return the line that an answer begins with."""
    from rich.text import Text

    return Text().append(word, style=style).append(f": {rest}")


Written = Mapping[str, Mapping[str, Any]]


def written_text(files: Written) -> RenderableType | None:
    """Return which files were written, if any were."""
    return facts_grid(written_rows(files)) if files else None


def written_rows(files: Written) -> list[tuple[str, str]]:
    """Return rows for `facts_grid`, one for each file that was written."""
    return [("wrote" if not i else "", f"{what} {file_text(file)}") for i, (what, file) in enumerate(files.items())]


def file_text(file: Mapping[str, Any]) -> str:
    """Return what there is to tell of a file that was written."""
    replaced = ", replacing the one before" if file["replaced"] else ""
    return f"{file['path']} ({file['bytes']:,} bytes{replaced})"


def model_text(model: CMDP | DiscountedCMDP, *, verbose: bool = False) -> RenderableType:
    """Return what `info` says."""
    from rich.text import Text

    about = Text(f"\n{model.description}") if model.description else None
    names = None
    if verbose:
        names = facts_grid(
            [
                ("start", str(model.start)),
                ("states", ", ".join(map(str, model.states))),
                ("actions", ", ".join(map(str, model.actions))),
                ("fingerprint", model.fingerprint),
            ]
        )
    return group(model.describe(), about, names)


def limit_text(lower: tuple[Fraction | None, ...], upper: tuple[Fraction | None, ...]) -> str:
    """Return the limits of one resource in a few words.

    Examples
    --------
    >>> limit_text((None, None), (Fraction(30), Fraction(30)))
    'limit 30'
    >>> limit_text((None, None), (None, Fraction(1, 3)))
    'limit 1/3 at the end'
    >>> limit_text((None, Fraction(0)), (Fraction(9), Fraction(8)))
    'limits by step, last 0 to 8'
    """
    pairs = list(zip(lower, upper, strict=True))
    last = pairs[-1]
    if all(pair == last for pair in pairs):
        return f"limit {_side(*last)}"
    if all(pair == (None, None) for pair in pairs[:-1]):
        return f"limit {_side(*last)} at the end"
    return f"limits by step, last {_side(*last)}"


def _side(low: Fraction | None, high: Fraction | None) -> str:
    if low is None:
        return "none" if high is None else format_amount(high)
    return f"at least {format_amount(low)}" if high is None else f"{format_amount(low)} to {format_amount(high)}"


def solution_text(
    solution: Solution, limits: Limits, *, verbose: bool = False, written: Written | None = None
) -> RenderableType:
    """Return what `solve` says."""
    status = solution.status.value
    style, meaning = _STATUS[status]
    facts = _solution_facts(solution, limits, verbose) + written_rows(written or {})
    return group(headline(status.replace("_", " "), style, meaning), facts_grid(facts))


def _solution_facts(solution: Solution, limits: Limits, verbose: bool) -> list[tuple[str, str]]:
    status = solution.status.value
    rows: list[tuple[str, str]] = []
    if math.isfinite(solution.value):
        rows.append(("value", f"{solution.value:.10g}"))
    if status not in ("optimal", "infeasible"):  # there rounding errors alone keep the bounds apart
        low, high = (f"{bound:.10g}" for bound in (solution.value_lower, solution.value_upper))
        rows.append(("best lies", f"at most {high}" if low == "-inf" else f"from {low} to {high}"))
        if math.isfinite(solution.gap):
            rows.append(("gap", f"{100 * solution.gap:.4g} %"))
    rows += _spending(solution, limits)
    if status == "infeasible" and solution.diagnosis is not None:
        rows += [("why" if not i else "", part) for i, part in enumerate(str(solution.diagnosis).split("; "))]
    elif status not in ("optimal", "within_gap", "infeasible"):
        said = in_shell(solution.message.removeprefix(f"{status}: "))
        rows.append(("why" if status == "limit" else "note", said))
    stats = solution.stats
    kind = "points" if stats.representation in ("points", "arrays") else stats.representation
    rows.append(("method", f"{solution.method}, {stats.nodes:,} {kind} in {stats.seconds:.2f} s"))
    if math.isfinite(solution.value) and not solution.value_checked:
        rows.append(("not checked", "the value: the policy has too many nodes to be followed forward"))
    if verbose:
        if status == "optimal":
            rows.append(("error", f"the value is off by at most {solution.value_upper - solution.value_lower:.0e}"))
        rows.append(("largest layer", f"{max(stats.layer_sizes, default=0):,} {kind}"))
        rows.append(("memory", f"{stats.peak_bytes / 1e6:,.1f} MB planned"))
        if stats.cost_diversity is not None:
            rows.append(("cost diversity", f"{stats.cost_diversity:,}"))
        rows += [(f"round {i + 1}", _round(each)) for i, each in enumerate(solution.rounds)]
    return rows


def _spending(solution: Solution, limits: Limits) -> list[tuple[str, str]]:
    rows = []
    for d, name in enumerate(limits.resources):
        if name not in solution.worst_spent:
            continue
        bound = "" if solution.worst_is_exact else " (a bound)"
        over = solution.excess.get(name, Fraction(0))
        extra = f", over by up to {short_amount(over)}" if over > 0 else ""
        limit = limit_text(limits.lower[d], limits.upper[d])
        way = "" if len(set(limits.upper[d])) == 1 else " on the way"
        rows.append((name, f"at worst {short_amount(solution.worst_spent[name])} spent{way}{bound}, {limit}{extra}"))
    return rows


def _round(each: Round) -> str:
    bounds = f"{each.lower:.10g} to {each.upper:.10g}"
    return f"{bounds}, gap {100 * each.gap:.4g} %, {each.nodes:,} nodes, {each.seconds:.2f} s"


def curve_text(curve: Curve, plot: str | None = None, *, verbose: bool = False) -> RenderableType:
    """Return what `frontier` says: the least budget, the points, and a plot if there is one."""
    from rich.table import Table
    from rich.text import Text

    upto = short_amount(curve.max_budget)
    if curve.least_budget is None:
        return headline("infeasible", _BAD, f"no budget of {curve.resource} up to {upto} is enough for any policy")
    head = headline(
        "frontier",
        _GOOD,
        f"the best value for every budget of {curve.resource} up to {upto}: {len(curve):,} levels",
    )
    least = facts_grid([("least budget", format_amount(curve.least_budget))])
    table = Table("budget", "best value", "per unit")
    for column in table.columns:
        column.justify = "right"
    shown = range(len(curve)) if verbose else _thinned(len(curve))
    before: int | None = None
    for i in shown:
        price = "" if before is None else f"{_price(curve, before, i):.4g}"
        table.add_row(short_amount(curve.budgets[i], 18), f"{curve.values[i]:.10g}", price)
        before = i
    left_out = len(curve) - len(shown)
    more = Text(f"  {left_out:,} levels between are not shown: --verbose or --csv FILE for all") if left_out else None
    return group(head, least, table, more, Text(f"\n{plot}") if plot else None)


def curve_plot(curve: Curve, console: Console, budget: Any = None) -> str:
    """Return a frontier drawn for a console, as wide as it allows."""
    from solvent.plot.terminal import terminal_frontier

    width = max(min(console.width - 2, _WIDEST_PLOT), _NARROWEST_PLOT)
    ascii_only = not (console.encoding or "").lower().startswith("utf")
    return terminal_frontier(curve, budget=budget, width=width, ascii=ascii_only)


def _price(curve: Curve, first: int, last: int) -> float:
    return float(curve.values[last] - curve.values[first]) / float(curve.budgets[last] - curve.budgets[first])


def _thinned(count: int) -> list[int]:
    """Return places that are spread over so many, the first and the last among them."""
    if count <= _MOST_ROWS:
        return list(range(count))
    return sorted({round(i * (count - 1) / (_MOST_ROWS - 1)) for i in range(_MOST_ROWS)})


def curve_csv(curve: Curve) -> str:
    """Return the whole curve as CSV: exact budgets, the same as floats, and values."""
    lines = ["budget,budget_float,value"]
    for budget, value in zip(curve.budgets, curve.values.tolist(), strict=True):
        lines.append(f"{format_amount(budget)},{float(budget)!r},{value!r}")
    return "\n".join(lines) + "\n"


def report_text(report: VerifyReport, *, verbose: bool = False) -> RenderableType:
    """Return what `verify` says: the verdict, the envelope of spending, and a history that breaks a limit."""
    style, word = (_GOOD, "kept") if report.feasible else (_BAD, "violated")
    rest = "no history breaks a limit"
    if not report.feasible:
        chance = report.violation_probability
        rest = "a limit can be broken" + ("" if chance is None else f", with probability {chance:.6g}")
    facts = facts_grid([("value", f"{report.value:.10g}"), ("looked at", f"{report.nodes:,} nodes")])
    table = _envelope(report) if verbose else report.table()
    return group(headline(word, style, rest), facts, table, report.witness)


def _envelope(report: VerifyReport) -> Table:
    from rich.table import Table

    table = Table(
        "after step", *(f"{name} {side}" for name in report.worst_spent for side in ("least", "worst", "limit"))
    )
    horizon = len(next(iter(report.worst_spent_by_step.values()), ()))
    for step in range(horizon):
        cells = [str(step)]
        for name in report.worst_spent:
            lower, upper = (side.get(name, (None,) * horizon)[step] for side in (report.lower, report.upper))
            least, worst = report.least_spent_by_step[name][step], report.worst_spent_by_step[name][step]
            cells += ["unbounded" if each is None else short_amount(each) for each in (least, worst)]
            cells.append(_side(lower, upper))
        table.add_row(*cells)
    return table


def simulation_text(simulation: Simulation, *, verbose: bool = False) -> RenderableType:
    """Return what `simulate` says: the reward, the violations and what was spent."""
    from rich.table import Table

    from solvent.verification.simulate import LEVELS

    n, broken = simulation.episodes, simulation.violations
    style, word = (_GOOD, "kept") if not broken else (_BAD, "violated")
    head = headline(word, style, f"{broken:,} of {n:,} episodes broke a limit" if broken else f"in all {n:,} episodes")
    error = "" if math.isnan(simulation.standard_error) else f" ± {simulation.standard_error:.3g}"
    facts = facts_grid(
        [("mean reward", f"{simulation.mean_reward:.8g}{error}")]
        + [(f"most {name}", short_amount(most)) for name, most in simulation.max_spent.items()]
    )
    table = Table("spent", "after step", *(_level(level) for level in LEVELS))
    for column in table.columns[1:]:
        column.justify = "right"
    for name, levels in simulation.spent_quantiles.items():
        horizon = levels.shape[1]
        for step in range(horizon) if verbose else sorted({(horizon - 1) // 2, horizon - 1}):
            table.add_row(name, str(step), *(f"{value:.6g}" for value in levels[:, step].tolist()))
    return group(head, facts, table if simulation.spent_quantiles else None)


def _level(level: float) -> str:
    return {0.0: "least", 0.5: "median", 1.0: "most"}.get(level, f"{100 * level:g} %")
