"""What `learn` says, as text for a terminal and as a record for machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from solvent.cli.text.answers import headline, limit_text, written_rows
from solvent.cli.text.failures import in_shell
from solvent.cli.text.records import amount, identity, number
from solvent.core.tables import facts_grid, group
from solvent.model.amounts import short_amount

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from solvent.learning.result import LearnResult
    from solvent.model.cmdp import CMDP
    from solvent.verification.report import Report

#: Plans that are shown of a run; more are thinned.
_MOST_ROWS = 16

_PROMISE = {
    "known": "never over budget",
    "bound": "never over budget",
    "learned": "within budget in all that was seen",
}
_KNOWN = {
    "known": "known: what can happen",
    "bound": "known: what an action costs at most",
    "learned": "learned: by seeing what happens",
}


@dataclass(frozen=True)
class Told:
    """What was learned, and what came of checking it.

    Attributes
    ----------
    name : str
        Of the model or the environment.
    truth : CMDP or None
        The model it was checked with.
    learned : LearnResult
    support : {"known", "bound", "learned"}
    report : Report or None
    unchecked : str
        Why there is no report.
    rounded : bool
        Whether costs were rounded, so that the policy may be over by what was allowed.
    epsilon, delta : float
    bonus : str
    seed : int
    """

    name: str
    truth: CMDP | None
    learned: LearnResult
    support: str
    report: Report | None
    unchecked: str
    rounded: bool
    epsilon: float
    delta: float
    bonus: str
    seed: int

    @property
    def status(self) -> str:
        """How learning ended."""
        return self.learned.status.value

    @property
    def kept(self) -> bool:
        """Whether there is a policy, and it keeps the budget as far as is known."""
        if self.status == "infeasible":
            return False
        return self.report is None or self.report.feasible or self.rounded


def learned_text(
    told: Told, *, verbose: bool = False, written: Mapping[str, Mapping[str, Any]] | None = None
) -> RenderableType:
    """Return the status, the bounds, what the policy is truly worth, and what it took."""
    facts = facts_grid([*_facts(told), *written_rows(written or {})])
    return group(_head(told), facts, _plans(told.learned) if verbose else None)


def _head(told: Told) -> RenderableType:
    if told.status == "infeasible":
        return headline("infeasible", "bold red", "no policy keeps this budget, given what is known to be possible")
    promise = "over by no more than the rounding of costs allows" if told.rounded else _PROMISE[told.support]
    if not told.kept:
        return headline("violated", "bold red", "what was never seen while learning can break a limit")
    if told.status == "within_gap":
        return headline("within epsilon", "bold green", f"{promise}, and as near to the best as was asked for")
    return headline("limit", "bold yellow", f"{promise}; stopped before it was as near to the best as was asked for")


def _facts(told: Told) -> list[tuple[str, str]]:
    learned = told.learned
    rows: list[tuple[str, str]] = []
    if told.report is not None:
        rows.append(("true value", f"{told.report.value:.10g}, by verify"))
        rows += [(name, _spent(told.report, name)) for name in told.report.upper]
    elif told.status != "infeasible":
        rows.append(("true value", f"not checked: {told.unchecked}"))
    if told.status != "infeasible":
        sure = f"with probability {1 - told.delta:g}" if learned.guaranteed else "estimates, no guarantee"
        rows.append(
            ("bounds", f"worth at least {learned.value_lower:.6g}, the best at most {learned.value_upper:.6g} ({sure})")
        )
        rows.append(("gap", f"{learned.gap:.6g}, asked for {told.epsilon:g}"))
    over = f"{learned.violations:,} of them over budget"
    rows.append(("episodes", f"{learned.episodes:,}, {over}"))
    rows.append(("support", _KNOWN[told.support]))
    if told.status == "limit":
        rows.append(("note", in_shell(learned.message)))
    return rows


def _spent(report: Report, name: str) -> str:
    """Return the most that is ever spent of a resource, beside its limit."""
    most, upper = _worst(report, name), report.upper[name]
    way = "" if len(set(upper)) == 1 else " on the way"
    spent = "any amount" if most is None else short_amount(most)
    return f"at worst {spent} spent{way}, {limit_text(report.lower[name], upper)}"


def _plans(learned: LearnResult) -> Table:
    from rich.table import Table

    table = Table("episodes", "worth", "best", "gap", "over budget", "nodes")
    for column in table.columns:
        column.justify = "right"
    count = len(learned.history)
    shown = range(count)
    if count > _MOST_ROWS:
        shown = sorted({round(i * (count - 1) / (_MOST_ROWS - 1)) for i in range(_MOST_ROWS)})  # type: ignore[assignment]
    for i in shown:
        each = learned.history[i]
        table.add_row(
            f"{each.episodes:,}", f"{each.value_lower:.6g}", f"{each.value_upper:.6g}", f"{each.gap:.6g}",
            f"{each.violations:,}", f"{each.nodes:,}",
        )  # fmt: skip
    return table


def learned_record(told: Told) -> dict[str, Any]:
    """Return the same for machines."""
    learned, report = told.learned, told.report
    return {
        "name": told.name,
        "model": None if told.truth is None else identity(told.truth),
        "status": told.status,
        "value": None if report is None else number(report.value),
        "feasible": None if report is None else report.feasible,
        "worst_spent": None if report is None else {name: amount(_worst(report, name)) for name in report.worst_spent},
        "unchecked": told.unchecked or None,
        "value_lower": number(learned.value_lower),
        "value_upper": number(learned.value_upper),
        "gap": number(learned.gap),
        "guaranteed": learned.guaranteed,
        "epsilon": told.epsilon,
        "delta": told.delta,
        "bonus": told.bonus,
        "support": told.support,
        "seed": told.seed,
        "episodes": learned.episodes,
        "violations": learned.violations,
        "plans": len(learned.history),
        "message": learned.message,
        "limit_reached": learned.limit_reached,
    }


def _worst(report: Report, name: str) -> Fraction | None:
    """Return the most that is ever spent of a resource; None if that is unbounded."""
    worst = [each for each in report.worst_spent[name] if each is not None]
    return max(worst) if len(worst) == len(report.worst_spent[name]) else None
