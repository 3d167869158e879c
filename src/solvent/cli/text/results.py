"""Results as text for a terminal, the most important facts first."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from solvent.cli.text.errors import in_shell
from solvent.cli.text.records import fixed_limits
from solvent.core.tables import facts_grid, group
from solvent.errors import printable
from solvent.model.amounts import as_typed, format_amount, short_amount

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from solvent.model.budget import Limits
    from solvent.model.cmdp import CMDP
    from solvent.model.discounted import DiscountedCMDP
    from solvent.solvers.curve import Curve
    from solvent.solvers.levels.levels import Levels
    from solvent.solvers.solution import Round, Solution
    from solvent.solvers.surface import Surface
    from solvent.verification.report import VerifyReport, Witness
    from solvent.verification.simulate import Simulation

#: Rows of a table of points; larger tables are thinned.
_MAX_ROWS = 16
#: Columns of a plot.
_MIN_PLOT_WIDTH, _MAX_PLOT_WIDTH = 30, 76
GOOD, FAIR, BAD = "bold green", "bold yellow", "bold red"

_STATUS = {
    "optimal": (GOOD, "never over budget; no safe policy earns more"),
    "within_gap": (GOOD, "never over budget; within the requested gap of the optimum"),
    "feasible": (FAIR, "never over budget; the optimum may be higher, within the bounds below"),
    "relaxed": (FAIR, "earns at least as much as any safe policy; may exceed the budget by the amount below"),
    "infeasible": (BAD, "no policy keeps this budget"),
    "not_found": (BAD, "no policy found with this epsilon; one may exist"),
    "limit": (BAD, "stopped at a limit before a policy was found"),
}


def headline(word: str, style: str, rest: str) -> RenderableType:
    """Return the first line of a result."""
    from rich.text import Text

    return Text().append(word, style=style).append(f": {rest}")


Written = Mapping[str, Mapping[str, Any]]


def written_text(files: Written) -> RenderableType | None:
    """Return the list of files written; None if there are none."""
    return facts_grid(written_rows(files)) if files else None


def written_rows(files: Written) -> list[tuple[str, str]]:
    """Return rows for `facts_grid`, one per file written."""
    return [("wrote" if not i else "", f"{what} {file_text(file)}") for i, (what, file) in enumerate(files.items())]


def file_text(file: Mapping[str, Any]) -> str:
    """Return the path and the size of a file written."""
    replaced = ", replaced" if file["replaced"] else ""
    return f"{file['path']} ({file['bytes']:,} bytes{replaced})"


def model_text(model: CMDP | DiscountedCMDP, *, verbose: bool = False) -> RenderableType:
    """Return the text of `info`."""
    from rich.text import Text

    description = Text(f"\n{model.description}") if model.description else None
    names = None
    if verbose:
        names = facts_grid(
            [
                ("start", _start_text(model.start)),
                ("states", ", ".join(map(str, model.states))),
                ("actions", ", ".join(map(str, model.actions))),
                ("fingerprint", model.fingerprint),
            ]
        )
    return group(model.describe(), description, names)


def _start_text(start: Hashable | Mapping[Hashable, float]) -> str:
    return ", ".join(f"{state} ({p:.6g})" for state, p in start.items()) if isinstance(start, Mapping) else str(start)


def limit_text(lower: tuple[Fraction | None, ...], upper: tuple[Fraction | None, ...]) -> str:
    """Return a short description of the limits of one resource.

    Examples
    --------
    >>> limit_text((None, None), (Fraction(30), Fraction(30)))
    'limit 30'
    >>> limit_text((None, None), (None, Fraction(1, 3)))
    'limit 1/3 at the end'
    >>> limit_text((None, Fraction(0)), (Fraction(9), Fraction(8)))
    'limits per step, last 0 to 8'
    """
    pairs = list(zip(lower, upper, strict=True))
    last = pairs[-1]
    if all(pair == last for pair in pairs):
        return f"limit {_side(*last)}"
    if all(pair == (None, None) for pair in pairs[:-1]):
        return f"limit {_side(*last)} at the end"
    return f"limits per step, last {_side(*last)}"


def _side(low: Fraction | None, high: Fraction | None) -> str:
    if low is None:
        return "none" if high is None else format_amount(high)
    return f"at least {format_amount(low)}" if high is None else f"{format_amount(low)} to {format_amount(high)}"


def solution_text(
    solution: Solution,
    limits: Limits,
    *,
    verbose: bool = False,
    written: Written | None = None,
    history: Witness | None = None,
) -> RenderableType:
    """Return the text of `solve`; `history` shows why a problem is infeasible."""
    from rich.text import Text

    status = solution.status.value
    style, meaning = _STATUS[status]
    facts = _solution_facts(solution, limits, verbose) + written_rows(written or {})
    example = None if history is None else Text("even the most careful policy", style="table.title")
    return group(headline(status.replace("_", " "), style, meaning), facts_grid(facts), example, history)


def excess_text(solution: Solution) -> str:
    """Return by how much a policy can exceed its limits."""
    over = {name: amount for name, amount in solution.excess.items() if amount > 0}
    return ", ".join(f"{name} {short_amount(amount)}" for name, amount in over.items())


def _solution_facts(solution: Solution, limits: Limits, verbose: bool) -> list[tuple[str, str]]:
    status = solution.status.value
    rows: list[tuple[str, str]] = []
    if math.isfinite(solution.value):
        rows.append(("value", f"{solution.value:.10g}"))
    if status not in ("optimal", "infeasible"):  # the bounds of these differ by floating-point errors only
        low, high = (f"{bound:.10g}" for bound in (solution.value_lower, solution.value_upper))
        rows.append(("optimum", f"at most {high}" if low == "-inf" else f"between {low} and {high}"))
        if math.isfinite(solution.gap):
            rows.append(("gap", f"{100 * solution.gap:.4g} %"))
    rows += _spending(solution, limits)
    if status == "infeasible" and solution.diagnosis is not None:
        rows += [("why" if not i else "", part) for i, part in enumerate(str(solution.diagnosis).split("; "))]
    elif status not in ("optimal", "within_gap", "infeasible"):
        message = in_shell(solution.message.removeprefix(f"{status}: "))
        rows.append(("why" if status in ("limit", "not_found") else "note", message))
    stats = solution.stats
    kind = "points" if stats.representation in ("points", "arrays") else stats.representation
    rows.append(("method", f"{solution.method}, {stats.nodes:,} {kind} in {stats.seconds:.2f} s"))
    if solution.approximation is not None:
        rows.append(("approximation", solution.approximation))
    if math.isfinite(solution.value) and not solution.value_checked:
        rows.append(("not checked", "the value: the policy has too many nodes to evaluate it again"))
    if verbose:
        if status == "optimal":
            rows.append(("error", f"at most {solution.value_upper - solution.value_lower:.0e} in the value"))
        rows.append(("largest layer", f"{max(stats.layer_sizes, default=0):,} {kind}"))
        rows.append(("memory", f"{stats.peak_bytes / 1e6:,.1f} MB reserved"))
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
        extra = f", exceeded by at most {short_amount(over)}" if over > 0 else ""
        limit = limit_text(limits.lower[d], limits.upper[d])
        when = "" if len(set(limits.upper[d])) == 1 else " at some step"
        rows.append((name, f"at most {short_amount(solution.worst_spent[name])} spent{when}{bound}, {limit}{extra}"))
    return rows


def _round(each: Round) -> str:
    bounds = f"{each.lower:.10g} to {each.upper:.10g}"
    return f"{bounds}, gap {100 * each.gap:.4g} %, {each.nodes:,} nodes, {each.seconds:.2f} s"


def curve_text(curve: Curve, plot: str | None = None, *, verbose: bool = False) -> RenderableType:
    """Return the text of `frontier`: the least budget, the points, and a plot if given."""
    from rich.table import Table
    from rich.text import Text

    largest, amounts = short_amount(curve.max_budget), curve_amounts(curve)
    limits = limit_rows(curve, "curve")
    if curve.least_budget is None:
        kept = "no policy keeps" if curve.vary == "budget" else "no policy is safe with"
        why = "solvent solve tells why" if curve.flat_beyond else "a larger --max-budget may be feasible"
        head = headline("infeasible", BAD, f"{kept} {amounts.one} up to {largest}; {why}")
        return group(head, facts_grid(limits))
    head = headline(
        "frontier",
        GOOD,
        f"the best value for {amounts.every} up to {largest}: {len(curve):,} point{'s' * (len(curve) > 1)}",
    )
    facts = facts_grid([(amounts.least, format_amount(curve.least_budget)), *limits])
    extra = as_typed(curve.shown_extra)
    table = Table(amounts.short, "best value", f"gain of +{short_amount(curve.shown_extra)}")
    for column in table.columns:
        column.justify = "right"
    shown = range(len(curve)) if verbose else thinned(len(curve))
    for i in shown:
        gain = curve.known_marginal(as_typed(curve.budgets[i]), extra)
        table.add_row(
            short_amount(curve.budgets[i], 18), f"{curve.values[i]:.10g}", "-" if gain is None else f"{gain:.4g}"
        )
    left_out = len(curve) - len(shown)
    more = (
        Text(f"  {left_out:,} more point{'s' * (left_out > 1)}: use --verbose or --csv FILE to see all")
        if left_out
        else None
    )
    return group(head, facts, table, more, Text(f"\n{plot}") if plot else None)


def limit_rows(found: Curve | Surface, what: str) -> list[tuple[str, str]]:
    """Return rows for `facts_grid`: limits that a curve or a surface keeps, and those that it ignores."""
    ignored = _ignored(found.ignored_limits, f"policies of this {what}")
    return [*_labeled("kept", fixed_limits(found.fixed_limits)), *_labeled("ignored", ignored)]


def _ignored(limits: Iterable[str], who: str) -> list[str]:
    return [f"{limit}, which {who} can break" for limit in limits]


def _labeled(label: str, texts: list[str]) -> list[tuple[str, str]]:
    """Return rows for `facts_grid`, of which the first has the label."""
    return [("" if i else label, text) for i, text in enumerate(texts)]


class CurveAmounts(NamedTuple):
    """How the amounts of a curve are called: in a heading, and in a sentence."""

    short: str
    least: str
    one: str
    every: str


def curve_amounts(curve: Curve) -> CurveAmounts:
    """Return how the amounts of a curve are called."""
    if curve.vary == "remaining":
        name = f"{curve.resource} remaining"
        return CurveAmounts(
            "remaining", "least remaining", f"{name} at the start", f"every amount of {name} at the start"
        )
    return CurveAmounts(
        "budget", "least budget", f"a budget of {curve.resource}", f"every budget of {curve.resource}"
    )  # fmt: skip


def curve_plot(curve: Curve, console: Console, budget: Any = None) -> str:
    """Return a plot of a frontier as text that fits the console."""
    from solvent.plot.terminal import terminal_frontier

    width = max(min(console.width - 2, _MAX_PLOT_WIDTH), _MIN_PLOT_WIDTH)
    ascii_only = not (console.encoding or "").lower().startswith("utf")
    return terminal_frontier(curve, budget=budget, width=width, ascii=ascii_only)


def thinned(count: int, most: int = _MAX_ROWS) -> list[int]:
    """Return at most `most` evenly spaced indices below `count`, including the first and the last."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def curve_csv(curve: Curve) -> str:
    """Return the whole curve as CSV: exact budgets, budgets as floats, and values."""
    lines = ["budget,budget_float,value"]
    for budget, value in zip(curve.budgets, curve.values.tolist(), strict=True):
        lines.append(f"{format_amount(budget)},{float(budget)!r},{value!r}")
    return "\n".join(lines) + "\n"


#: Objectives of levels in words.
_PURPOSES = {
    "survive": "to survive forever",
    "reload": "to reach a reload state surely",
    "reach": "to reach a target with probability one and survive forever",
}


def levels_text(found: Levels, *, verbose: bool = False) -> RenderableType:
    """Return the text of `levels`: the level at the start, and the level and the action of each state."""
    from rich.table import Table
    from rich.text import Text

    start = found.start_level
    what = f"the least {found.resource} left {_PURPOSES[found.objective]}, of at most {short_amount(found.capacity)}"
    head = headline("levels", GOOD, what) if start is not None else headline("impossible", BAD, f"{what}: none")
    facts = facts_grid(
        [
            ("start", f"{_start_text(found.model.start)}: {'impossible' if start is None else short_amount(start)}"),
            ("possible", f"from {found.n_possible:,} of {len(found):,} states"),
            *_labeled("ignored", _ignored(found.ignored_limits, "the policy")),
        ]
    )
    table = Table("state", "level", "action when full")
    table.columns[1].justify = "right"
    states = list(found.levels.items())
    shown = range(len(states)) if verbose else thinned(len(states))
    for i in shown:
        state, level = states[i]
        rules = found.policy.after.rules(state) if state in found.targets and found.policy.after else None
        rules = found.policy.rules(state) if rules is None else rules
        table.add_row(
            printable(str(state)),
            "impossible" if level is None else short_amount(level, 18),
            printable(str(rules[0][1])) if rules else "",
        )
    left_out = len(states) - len(shown)
    more = Text(f"  {left_out:,} more states: use --verbose or --json to see all") if left_out else None
    return group(head, facts, table, more)


def report_text(report: VerifyReport, *, verbose: bool = False) -> RenderableType:
    """Return the text of `verify`: the verdict, the worst and least spending, and a violating history."""
    style, word = (GOOD, "feasible") if report.feasible else (BAD, "violated")
    rest = "no history breaks a limit" + (" or ends where it must not" if report.has_goal else "")
    if not report.feasible:
        chance = report.violation_probability
        rest = "a limit can be broken" + (" or an episode can end where it must not" if report.has_goal else "")
        rest += "" if chance is None else f", with probability {chance:.6g}"
    facts = facts_grid([("value", f"{report.value:.10g}"), ("checked", f"{report.nodes:,} nodes")])
    table = _spending_table(report) if verbose else report.table()
    return group(headline(word, style, rest), facts, table, report.witness)


def _spending_table(report: VerifyReport) -> Table:
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
    """Return the text of `simulate`: the reward, the violations and what was spent."""
    from rich.table import Table

    from solvent.verification.simulate import LEVELS

    n, broken = simulation.episodes, simulation.violations
    style, word = (GOOD, "no violations") if not broken else (BAD, "violated")
    head = headline(word, style, f"{broken:,} of {n:,} episodes broke a limit" if broken else f"{n:,} episodes")
    error = "" if math.isnan(simulation.standard_error) else f" ± {simulation.standard_error:.3g}"
    facts = facts_grid(
        [("mean reward", f"{simulation.mean_reward:.8g}{error}")]
        + [(f"max {name}", short_amount(most)) for name, most in simulation.max_spent.items()]
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
