"""What a check found: the envelope of spending, the chance of going over, and a history that does."""

from __future__ import annotations

import io
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from solvent.model.amounts import format_amount
from solvent.model.distributions import CostDistribution

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

#: After each of the H steps: an exact amount, or None where there is no limit or no bound.
PerStep = tuple[Fraction | None, ...]


@dataclass(frozen=True)
class CostPart:
    """A stretch of a continuous cost that a policy on rounded costs cannot tell apart.

    Attributes
    ----------
    distribution : CostDistribution
    low : Fraction or None
        None if it has no lower end.
    high : Fraction
    """

    distribution: CostDistribution
    low: Fraction | None
    high: Fraction

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{format_amount(self.high)} of {self.distribution}"
        stretch = "at most" if self.low is None else f"{format_amount(self.low)} to"
        return f"{stretch} {format_amount(self.high)} of {self.distribution}"


@dataclass(frozen=True)
class WitnessStep:
    """One step of a history that breaks a limit.

    Attributes
    ----------
    step : int
    state : hashable
    action : hashable or None
        None if the history had ended before.
    cost : dict of str to Fraction, CostDistribution or CostPart
        By resource; a part of a distribution where the policy counts rounded costs.
    next_state : hashable
    spent : dict of str to Fraction
        After the step; where costs are continuous, the end of the possible amounts that is nearest to breaking a limit.
    upper, lower : dict of str to Fraction or None
        The limits after the step.
    """

    step: int
    state: Hashable
    action: Hashable | None
    cost: dict[str, Fraction | CostDistribution | CostPart]
    next_state: Hashable
    spent: dict[str, Fraction | None]
    upper: dict[str, Fraction | None]
    lower: dict[str, Fraction | None]


@dataclass(frozen=True)
class Witness:
    """A shortest history that breaks a limit; `print` shows it as a table.

    Attributes
    ----------
    steps : tuple of WitnessStep
        The last one breaks the limit.
    resource : str
        Whose limit.
    """

    steps: tuple[WitnessStep, ...]
    resource: str

    def __len__(self) -> int:
        return len(self.steps)

    def __rich__(self) -> RenderableType:
        from rich.table import Table

        names = list(self.steps[0].upper)
        table = Table(title=f"goes over {self.resource} after step {self.steps[-1].step}", title_justify="left")
        for heading in ("step", "state", "action"):
            table.add_column(heading)
        for name in names:
            suffix = f" {name}" if len(names) > 1 else ""
            for heading in ("cost", "spent", "limit"):
                table.add_column(heading + suffix, justify="right")
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
            table.add_row(*cells)
        return table

    def __str__(self) -> str:
        return render(self)


@dataclass(frozen=True)
class Report:
    """What `verify` found; `print` shows a summary.

    Attributes
    ----------
    feasible : bool
        Whether no history breaks a limit.
    value : float
        Expected reward. A history that has broken a limit and for which the policy decides nothing more earns
        nothing from there on.
    worst_spent, least_spent : dict of str to tuple of Fraction
        For every resource, the most and the least that any history has spent after each step; None where continuous
        costs have no lower end.
    violation_probability : float or None
        Of ever breaking any limit, above 0 if that can happen; None if it hangs on continuous costs.
    expected_excess : dict of str to float or None
        For each limited resource, the expectation of by how much its limits are broken at worst over time; None if
        that hangs on continuous costs.
    witness : Witness or None
        A shortest history that breaks a limit, if any does.
    nodes : int
        How many nodes were looked at.
    upper, lower : dict of str to tuple of Fraction or None
        The limits that were checked, after each step.
    """

    feasible: bool
    value: float
    worst_spent: dict[str, PerStep]
    least_spent: dict[str, PerStep]
    violation_probability: float | None
    expected_excess: dict[str, float | None]
    witness: Witness | None
    nodes: int
    upper: dict[str, PerStep]
    lower: dict[str, PerStep]

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        verdict = "never breaks a limit" if self.feasible else "breaks a limit"
        if not self.feasible and self.violation_probability is not None:
            verdict += f" with probability {self.violation_probability:.6g}"
        lines: list[RenderableType] = [f"{verdict}; value {self.value:.10g}; {self.nodes:,} nodes", self.table()]
        return Group(*lines, *([self.witness] if self.witness is not None else []))

    def table(self) -> Table:
        """Return, for each resource, where it comes nearest to its limit."""
        from rich.table import Table

        table = Table("resource", "tightest", "after step", "limit then", "least spent", "expected excess")
        for name, worst in self.worst_spent.items():
            step = max(range(len(worst)), key=lambda h: self._tightness(name, h))
            least = list(self.least_spent[name])
            bottom = None if None in least else min(amount for amount in least if amount is not None)
            limited = name in self.upper
            excess = self.expected_excess.get(name) if limited else 0.0
            table.add_row(
                name,
                _amount(worst[step]),
                str(step),
                _interval(self.lower[name][step], self.upper[name][step]) if limited else "-",
                _amount(bottom),
                "unknown" if excess is None else f"{excess:.6g}",
            )
        return table

    def _tightness(self, name: str, step: int) -> tuple[bool, Fraction]:
        """Order the steps by how near to its limit, or else how high, the most that was spent then is."""
        worst, limit = self.worst_spent[name][step], self.upper.get(name, (None,) * (step + 1))[step]
        assert worst is not None
        return (True, worst - limit) if limit is not None else (False, worst)

    def __str__(self) -> str:
        return render(self)


def _amount(value: Fraction | None) -> str:
    return "unbounded" if value is None else format_amount(value)


def _interval(lower: Fraction | None, upper: Fraction | None) -> str:
    if lower is None:
        return "-" if upper is None else f"<= {format_amount(upper)}"
    return f">= {format_amount(lower)}" if upper is None else f"{format_amount(lower)} to {format_amount(upper)}"


def render(item: RenderableType) -> str:
    """Return what the console would show, as text."""
    from solvent.core.terminal import make_console

    text = io.StringIO()
    make_console(file=text, width=120, color_system=None).print(item)
    return _strip(text.getvalue().rstrip().splitlines())


def _strip(lines: Iterable[str]) -> str:
    return "\n".join(line.rstrip() for line in lines)
