"""The result of `learn`, as text for a terminal and as a JSON record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from solvent.cli.text.errors import in_shell
from solvent.cli.text.records import amount, identity, number
from solvent.cli.text.results import headline, limit_text, written_rows
from solvent.core.tables import facts_grid, group
from solvent.model.amounts import short_amount

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from solvent.learning.result import LearnResult
    from solvent.model.cmdp import CMDP
    from solvent.verification.report import VerifyReport

#: Rows of the table of planning steps; larger tables are thinned.
_MAX_ROWS = 16

_GUARANTEE = {
    "known": "never over budget",
    "bound": "never over budget",
    "learned": "within budget for all observed outcomes",
}
_SUPPORT = {
    "known": "known: all possible outcomes",
    "bound": "known: an upper bound on costs",
    "learned": "learned from observed outcomes",
}


@dataclass(frozen=True)
class LearnSummary:
    """The result of learning, its verification, and the options used.

    Attributes
    ----------
    name : str
        Name of the model or the environment.
    true_model : CMDP or None
        The model used for verification.
    learned : LearnResult
    support : {"known", "bound", "learned"}
    report : VerifyReport or None
        Verification of the learned policy in the true model.
    unchecked : str
        Why there is no report.
    rounded : bool
        Whether costs were rounded down, so that the policy may exceed the budget by the allowed amount.
    epsilon, delta : float
    bonus : str
    seed : int
    """

    name: str
    true_model: CMDP | None
    learned: LearnResult
    support: str
    report: VerifyReport | None
    unchecked: str
    rounded: bool
    epsilon: float
    delta: float
    bonus: str
    seed: int

    @property
    def status(self) -> str:
        """Status of the result: within_gap, limit or infeasible."""
        return self.learned.status.value

    @property
    def feasible(self) -> bool:
        """Whether there is a policy and verification, if possible, found no unexpected violation."""
        if self.status == "infeasible":
            return False
        return self.report is None or self.report.feasible or self.rounded


def learn_text(
    summary: LearnSummary, *, verbose: bool = False, written: Mapping[str, Mapping[str, Any]] | None = None
) -> RenderableType:
    """Return the text of `learn`: status, true value, bounds, episodes and violations."""
    facts = facts_grid([*_facts(summary), *written_rows(written or {})])
    return group(_head(summary), facts, _history(summary.learned) if verbose else None)


def _head(summary: LearnSummary) -> RenderableType:
    if summary.status == "infeasible":
        return headline("infeasible", "bold red", in_shell(summary.learned.message))
    rounded = "exceeds the budget by at most the allowed rounding"
    guarantee = rounded if summary.rounded else _GUARANTEE[summary.support]
    if not summary.feasible:
        return headline("violated", "bold red", "an outcome that was never observed can break a limit")
    if summary.status == "within_gap":
        return headline("within gap", "bold green", f"{guarantee}; the gap is at most epsilon")
    return headline("limit", "bold yellow", f"{guarantee}; stopped before the gap was at most epsilon")


def _facts(summary: LearnSummary) -> list[tuple[str, str]]:
    learned = summary.learned
    rows: list[tuple[str, str]] = []
    if summary.report is not None:
        rows.append(("true value", f"{summary.report.value:.10g}, by verify"))
        rows += [(name, _spent(summary.report, name)) for name in summary.report.upper]
    elif summary.status != "infeasible":
        rows.append(("true value", f"not verified: {summary.unchecked}"))
    if summary.status != "infeasible":
        sure = f"with probability {1 - summary.delta:g}" if learned.guaranteed else "estimates, no guarantee"
        rows.append(
            ("bounds", f"value at least {learned.value_lower:.6g}, optimum at most {learned.value_upper:.6g} ({sure})")
        )
        rows.append(("gap", f"{learned.gap:.6g}, epsilon {summary.epsilon:g}"))
    rows.append(("episodes", f"{learned.episodes:,}, {learned.violations:,} of them over budget"))
    rows.append(("support", _SUPPORT[summary.support]))
    if summary.status == "limit":
        rows.append(("note", in_shell(learned.message)))
    return rows


def _spent(report: VerifyReport, name: str) -> str:
    """Return the worst case of what is spent of a resource, and its limit."""
    worst, upper = report.worst_spent[name], report.upper[name]
    when = "" if len(set(upper)) == 1 else " at some step"
    return f"at most {short_amount(worst)} spent{when}, {limit_text(report.lower[name], upper)}"


def _history(learned: LearnResult) -> Table:
    from rich.table import Table

    table = Table("episodes", "lower bound", "upper bound", "gap", "over budget", "nodes")
    for column in table.columns:
        column.justify = "right"
    count = len(learned.history)
    shown = range(count)
    if count > _MAX_ROWS:
        shown = sorted({round(i * (count - 1) / (_MAX_ROWS - 1)) for i in range(_MAX_ROWS)})  # type: ignore[assignment]
    for i in shown:
        each = learned.history[i]
        table.add_row(
            f"{each.episodes:,}", f"{each.value_lower:.6g}", f"{each.value_upper:.6g}", f"{each.gap:.6g}",
            f"{each.violations:,}", f"{each.nodes:,}",
        )  # fmt: skip
    return table


def learn_record(summary: LearnSummary) -> dict[str, Any]:
    """Return the JSON record of `learn`."""
    learned, report = summary.learned, summary.report
    return {
        "name": summary.name,
        "model": None if summary.true_model is None else identity(summary.true_model),
        "status": summary.status,
        "value": None if report is None else number(report.value),
        "feasible": None if report is None else report.feasible,
        "worst_spent": None if report is None else {name: amount(worst) for name, worst in report.worst_spent.items()},
        "unchecked": summary.unchecked or None,
        "value_lower": number(learned.value_lower),
        "value_upper": number(learned.value_upper),
        "gap": number(learned.gap),
        "guaranteed": learned.guaranteed,
        "epsilon": summary.epsilon,
        "delta": summary.delta,
        "bonus": summary.bonus,
        "support": summary.support,
        "seed": summary.seed,
        "episodes": learned.episodes,
        "violations": learned.violations,
        "plans": len(learned.history),
        "message": learned.message,
        "limit_reached": learned.limit_reached,
    }
