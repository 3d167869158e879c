"""Results of `verify`: extremes of spending, probability of a violation, and a violating history."""

from __future__ import annotations

import io
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from solvent.core import html
from solvent.core.frames import amounts_column, import_pandas
from solvent.errors import quote
from solvent.model.amounts import format_amount, short_amount
from solvent.model.distributions import CostDistribution

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

#: One exact amount after each of the H steps; None where there is no limit or no bound.
PerStep = tuple[Fraction | None, ...]


@dataclass(frozen=True)
class CostPart:
    """An interval of a continuous cost that a policy on rounded costs counts as one amount.

    Attributes
    ----------
    distribution : CostDistribution
    low, high : Fraction
        Ends of the interval; `low` is None if the cost is not bounded below.
    """

    distribution: CostDistribution
    low: Fraction | None
    high: Fraction

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{format_amount(self.high)} of {self.distribution}"
        start = "at most" if self.low is None else f"{format_amount(self.low)} to"
        return f"{start} {format_amount(self.high)} of {self.distribution}"


@dataclass(frozen=True)
class WitnessStep:
    """One step of a violating history.

    Attributes
    ----------
    step : int
    state : hashable
    action : hashable or None
        None if the history had already ended in a terminal state.
    cost : dict of str to Fraction, CostDistribution or CostPart
        Cost of the step by resource; a part of a distribution if the policy counts rounded costs.
    next_state : hashable
    spent : dict of str to Fraction
        Amount spent after the step, clamped to the floor and the ceiling of a saturating resource; if costs are
        continuous, the possible amount that is closest to breaking a limit.
    upper, lower : dict of str to Fraction or None
        Limits after the step.
    """

    step: int
    state: Hashable
    action: Hashable | None
    cost: dict[str, Fraction | CostDistribution | CostPart]
    next_state: Hashable
    spent: dict[str, Fraction | None]
    upper: dict[str, Fraction | None]
    lower: dict[str, Fraction | None]


#: Headings of a report's table, and most rows of a history in a notebook.
_HEADINGS = ["resource", "tightest", "after step", "limit then", "least spent", "expected excess"]
_MOST_STEPS = 20


@dataclass(frozen=True)
class Witness:
    """A shortest history that breaks a limit or ends where it must not end; `print` shows it as a table.

    Attributes
    ----------
    steps : tuple of WitnessStep
        The violation is after the last step. Empty if the first state is terminal and no history must end there.
    resource : str or None
        The resource whose limit is broken after the last step; None if no limit is.
    start : hashable
        The first state.
    initial : dict of str to Fraction
        What had been spent of each limited resource before the first step.
    ends_astray : bool
        Whether the history ends after the last step, in a state in which it must not end.
    ends_in : hashable or None
        That state, if so.
    must_end_in : tuple of hashables
        If so, the states in which a history may end.
    """

    steps: tuple[WitnessStep, ...]
    resource: str | None
    start: Hashable = None
    initial: dict[str, Fraction] = field(default_factory=dict)
    ends_astray: bool = False
    ends_in: Hashable | None = None
    must_end_in: tuple[Hashable, ...] = ()

    def __len__(self) -> int:
        return len(self.steps)

    def to_frame(self) -> Any:
        """Return the history as a pandas DataFrame, one row per step.

        The columns are `step`, `state`, `action`, `next`, and `cost_` and `spent_` followed by the name of each
        resource.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        pd = import_pandas()
        names = list(self.steps[0].spent) if self.steps else []
        columns: dict[str, Any] = {"step": [each.step for each in self.steps]}
        for key, field_name in (("state", "state"), ("action", "action"), ("next", "next_state")):
            columns[key] = pd.Series([getattr(each, field_name) for each in self.steps], dtype=object)
        for name in names:
            costs = [each.cost.get(name, Fraction(0)) for each in self.steps]
            plain = [cost for cost in costs if isinstance(cost, Fraction)]
            columns[f"cost_{name}"] = amounts_column(plain) if len(plain) == len(costs) else list(map(str, costs))
            columns[f"spent_{name}"] = amounts_column([each.spent[name] for each in self.steps])
        return pd.DataFrame(columns)

    def _title(self) -> str:
        what = []
        if self.resource is not None:
            what.append(f"breaks the limit of {self.resource} after step {self.steps[-1].step}")
        if self.ends_astray:
            when = "" if what else f" after step {self.steps[-1].step}" if self.steps else " before the first step"
            shown = ", ".join(map(quote, self.must_end_in[:4]))
            more = f" or {len(self.must_end_in) - 4:,} more" if len(self.must_end_in) > 4 else ""
            what.append(f"ends in {quote(self.ends_in)}{when}, expected {shown or 'no state'}{more}")
        before = ", ".join(f"{name} {format_amount(amount)}" for name, amount in self.initial.items() if amount)
        return " and ".join(what) + (f" (spent before the first step: {before})" if before else "")

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        title = Text(self._title(), style="table.title")
        if not self.steps:
            return title
        table = Table()
        for i, heading in enumerate(self._headings()):
            table.add_column(heading, justify="left" if i < 3 else "right")
        for row in self._rows():
            table.add_row(*row)
        return Group(title, table)

    def _headings(self) -> list[str]:
        names = list(self.steps[0].upper)
        suffixes = [f" {name}" if len(names) > 1 else "" for name in names]
        amounts = [heading + suffix for suffix in suffixes for heading in ("cost", "spent", "limit")]
        return ["step", "state", "action", *amounts]

    def _fragments(self) -> list[html.Fragment]:
        """Return the title and the table as HTML."""
        if not self.steps:
            return [html.note(self._title())]
        headings = self._headings()
        shown = html.table(headings, self._rows(), numbers=headings[3:], total=len(self.steps), most=_MOST_STEPS)
        return [html.note(f"A shortest history {self._title()}"), shown]

    def _repr_html_(self) -> str:
        return html.card("Witness", "", *self._fragments(), tone="bad")

    def _rows(self) -> Iterator[list[str]]:
        """Yield the cells of the table."""
        names = list(self.steps[0].upper)
        for each in self.steps:
            cells = [str(each.step), str(each.state), "(ended)" if each.action is None else str(each.action)]
            for name in names:
                cost = each.cost.get(name, Fraction(0))
                broken = each is self.steps[-1] and name == self.resource
                cells += [
                    format_amount(cost) if isinstance(cost, Fraction) else str(cost),
                    _amount(each.spent[name]) + (" !" if broken else ""),
                    _interval(each.lower[name], each.upper[name]),
                ]
            yield cells

    def __str__(self) -> str:
        return render(self)


@dataclass(frozen=True)
class VerifyReport:
    """Result of `verify`; `print` shows a summary.

    Attributes
    ----------
    feasible : bool
        Whether no history, from any possible first state, breaks a limit or ends in a state in which it must not end.
    value : float
        Expected reward, with the rewards for ending. A history that has broken a limit, and for which the policy has no
        further decisions, earns nothing from there on.
    worst_spent_by_step, least_spent_by_step : dict of str to tuple of Fraction
        For every resource, the most and the least that any history has spent after each of the H steps. The least is
        None where continuous costs are not bounded below.
    violation_probability : float or None
        Probability of ever breaking a limit or ending in a state in which a history must not end; positive if either
        can happen. None if it depends on continuous costs.
    expected_excess : dict of str to float or None
        For each limited resource, the expected greatest excess over its limits; None if it depends on continuous costs.
    witness : Witness or None
        A shortest history that breaks a limit or ends where it must not end, if there is one.
    nodes : int
        Number of nodes that were visited.
    upper, lower : dict of str to tuple of Fraction or None
        The limits after each step that were checked.
    initial : dict of str to Fraction
        What had been spent of each resource before the first step.
    has_goal : bool
        Whether there are states in which a history must not end.
    """

    feasible: bool
    value: float
    worst_spent_by_step: dict[str, tuple[Fraction, ...]]
    least_spent_by_step: dict[str, PerStep]
    violation_probability: float | None
    expected_excess: dict[str, float | None]
    witness: Witness | None
    nodes: int
    upper: dict[str, PerStep]
    lower: dict[str, PerStep]
    initial: dict[str, Fraction] = field(default_factory=dict)
    has_goal: bool = False

    @property
    def worst_spent(self) -> dict[str, Fraction]:
        """The most that any history has spent of each resource after any step."""
        return {name: max(amounts) for name, amounts in self.worst_spent_by_step.items()}

    @property
    def least_spent(self) -> dict[str, Fraction | None]:
        """The least that any history has spent of each resource after any step; None if it is not bounded below."""
        return {name: _least(amounts) for name, amounts in self.least_spent_by_step.items()}

    def to_frame(self) -> Any:
        """Return the extremes of spending as a pandas DataFrame, one row per step.

        For each resource there are columns `worst_`, `least_`, `upper_` and `lower_` followed by its name: the most and
        the least that any history has spent after the step, and the limits, missing where there is none. Amounts are
        integers, floats if these are exact, or text such as "1/3".

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        pd = import_pandas()
        columns: dict[str, Any] = {}
        for name, worst in self.worst_spent_by_step.items():
            columns["step"] = range(len(worst))
            none = (None,) * len(worst)
            columns[f"worst_{name}"] = amounts_column(worst)
            columns[f"least_{name}"] = amounts_column(self.least_spent_by_step[name])
            columns[f"upper_{name}"] = amounts_column(self.upper.get(name, none))
            columns[f"lower_{name}"] = amounts_column(self.lower.get(name, none))
        return pd.DataFrame(columns)

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        lines: list[RenderableType] = [f"{self._verdict}; value {self.value:.10g}; {self.nodes:,} nodes", self.table()]
        return Group(*lines, *([self.witness] if self.witness is not None else []))

    @property
    def _verdict(self) -> str:
        verdict = "never breaks a limit" if self.feasible else "breaks a limit"
        if self.has_goal:
            verdict += " and always ends where it may" if self.feasible else " or ends where it must not"
        if not self.feasible and self.violation_probability is not None:
            verdict += f" with probability {self.violation_probability:.6g}"
        return verdict

    def _repr_html_(self) -> str:
        rows = [("value", f"{self.value:.10g}"), ("verified", f"{self.nodes:,} nodes")]
        parts = [html.facts(rows)]
        if self.worst_spent_by_step:
            numbers = _HEADINGS[1:]
            total = len(self.worst_spent_by_step)
            parts.append(html.table(_HEADINGS, self._rows(), numbers=numbers, total=total))
        if self.witness is not None:
            parts += self.witness._fragments()
        return html.card("VerifyReport", self._verdict, *parts, tone="good" if self.feasible else "bad")

    def table(self) -> Table:
        """Return a table with the step at which each resource comes closest to its limit."""
        from rich.table import Table

        table = Table(*_HEADINGS)
        for row in self._rows():
            table.add_row(*row)
        return table

    def _rows(self) -> Iterator[list[str]]:
        """Yield the cells of the table."""
        for name in self.worst_spent_by_step:
            step, tightest = self._tightest(name)
            limited = name in self.upper
            excess = self.expected_excess.get(name) if limited else 0.0
            yield [
                name,
                _amount(tightest),
                str(step),
                _interval(self.lower[name][step], self.upper[name][step]) if limited else "-",
                _amount(_least(self.least_spent_by_step[name])),
                "unknown" if excess is None else f"{excess:.6g}",
            ]

    def _tightest(self, name: str) -> tuple[int, Fraction | None]:
        """Return the step at which an amount comes closest to a limit, upper or lower, and that amount.

        Without limits, the largest amount and its step. An amount that is not bounded below is beyond any lower limit.
        """
        worst, least = self.worst_spent_by_step[name], self.least_spent_by_step[name]
        found: list[tuple[bool, Fraction, int, Fraction | None]] = []
        for step, upper in enumerate(self.upper.get(name, ())):
            if upper is not None:
                found.append((False, worst[step] - upper, step, worst[step]))
        for step, lower in enumerate(self.lower.get(name, ())):
            if lower is not None:
                found.append((least[step] is None, lower - (least[step] or 0), step, least[step]))
        if not found:
            found = [(False, amount, step, amount) for step, amount in enumerate(worst)]
        _, _, at, tightest = max(found, key=lambda each: each[:2])
        return at, tightest

    def __str__(self) -> str:
        return render(self)


def _least(amounts: PerStep) -> Fraction | None:
    known = [amount for amount in amounts if amount is not None]
    return min(known) if len(known) == len(amounts) else None


def _amount(value: Fraction | None) -> str:
    return "unbounded" if value is None else short_amount(value)


def _interval(lower: Fraction | None, upper: Fraction | None) -> str:
    if lower is None:
        return "-" if upper is None else f"<= {short_amount(upper)}"
    return f">= {short_amount(lower)}" if upper is None else f"{short_amount(lower)} to {short_amount(upper)}"


def render(item: RenderableType) -> str:
    """Return the text that a console of 120 columns would show."""
    from solvent.core.terminal import make_console

    text = io.StringIO()
    make_console(file=text, width=120, color_system=None).print(item)
    return _strip(text.getvalue().rstrip().splitlines())


def _strip(lines: Iterable[str]) -> str:
    return "\n".join(line.rstrip() for line in lines)
