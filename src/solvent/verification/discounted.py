"""Verification of policies for discounted models: exact for the planned steps, with an exact bound for the tail.

A tail rule comes with bounds on what it can add (`solvent.policy.tail`). They are not trusted: the inequalities that
make them bounds are checked one by one, in fractions. With these bounds, the planned steps and the tail are one finite
model, and the verification of finite models finds the extremes of spending.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from solvent.core import html
from solvent.core.limits import ResourceMonitor
from solvent.errors import PolicyError, quote
from solvent.model.amounts import format_amount, short_amount
from solvent.model.budget import BudgetLike, resolve
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP, constant_limits
from solvent.model.distributions import CostDistribution
from solvent.policy.choices import NO_ROW
from solvent.policy.discounted import DiscountedPolicy
from solvent.policy.tail import TailRule
from solvent.verification.finite import verify_within
from solvent.verification.report import VerifyReport, render

if TYPE_CHECKING:
    from rich.console import RenderableType


_HEADINGS = ["resource", "never spends more than", "of which the tail", "never less than", "excess"]


@dataclass(frozen=True)
class DiscountedVerifyReport:
    """Result of `verify` for a policy of a discounted model; `print` shows a summary.

    Attributes
    ----------
    feasible : bool
        Whether it is proved that no history ever breaks a limit.
    value : float
        Expected discounted reward over the infinite horizon.
    value_error : float
        Bound on the error of `value`: the value of the tail comes from the policy, and is only checked to satisfy its
        equation up to rounding.
    worst_spent : dict of str to Fraction
        For every resource, an amount that no history ever exceeds: the maximum over all histories of the planned steps
        of what was spent, with the most that the tail can add.
    least_spent : dict of str to Fraction or None
        The same for the least amount; None where costs are not bounded below.
    excess : dict of str to Fraction or None
        For each limited resource, a bound on the excess over its limits; None if there is no bound.
    tail : dict of str to Fraction
        For every resource, the most that the steps after the planned ones can add.
    steps : int
        Number of planned steps.
    planned : VerifyReport
        Report on the planned steps, with the tail as one more step at the end, without limits.
    """

    feasible: bool
    value: float
    value_error: float
    worst_spent: dict[str, Fraction]
    least_spent: dict[str, Fraction | None]
    excess: dict[str, Fraction | None]
    tail: dict[str, Fraction]
    steps: int
    planned: VerifyReport

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table

        table = Table(*_HEADINGS)
        for row in self._rows():
            table.add_row(*row)
        line = f"{self._verdict}; value {self.value:.10g}; {self.steps} steps and a tail; {self.planned.nodes:,} nodes"
        return Group(line, table)

    @property
    def _verdict(self) -> str:
        return "never breaks a limit" if self.feasible else "may break a limit"

    def _rows(self) -> Iterator[list[str]]:
        """Yield the cells of the table."""
        for name, worst in self.worst_spent.items():
            least, excess = self.least_spent[name], self.excess.get(name, Fraction(0))
            cells = ("unbounded" if amount is None else short_amount(amount) for amount in (least, excess))
            yield [name, short_amount(worst), short_amount(self.tail[name]), *cells]

    def _repr_html_(self) -> str:
        rows = [
            ("value", f"{self.value:.10g}"),
            ("planned", f"{self.steps:,} steps and a tail"),
            ("verified", f"{self.planned.nodes:,} nodes"),
        ]
        shown = html.table(_HEADINGS, self._rows(), numbers=_HEADINGS[1:], total=len(self.worst_spent))
        tone: html.Tone = "good" if self.feasible else "doubtful"
        return html.card("DiscountedVerifyReport", self._verdict, html.facts(rows), shown, tone=tone)

    def __str__(self) -> str:
        return render(self)


def verify_discounted(
    model: DiscountedCMDP,
    policy: object,
    budget: BudgetLike | None,
    monitor: ResourceMonitor,
    *,
    max_nodes: int = 20_000_000,
) -> DiscountedVerifyReport:
    """Return a bound on the worst case of a policy for a discounted model, and its value.

    Raises
    ------
    PolicyError
        If it is not such a policy, was made for another model, or the bounds of a tail rule do not hold; also if it
        counts rounded draws of a continuous cost.

    Notes
    -----
    Amounts spent within the planned steps are exact. Those of the tail are bounds, which may not be attained. To find a
    history that breaks a limit within the planned steps, use `verify(policy.closed(), policy.finite, budget)`.
    """
    if not isinstance(policy, DiscountedPolicy):
        raise PolicyError(
            "policy",
            "a DiscountedPolicy, as the model has no last step",
            quote(policy),
            "verify the first steps of any other policy with verify(model.unrolled(steps), policy)",
        )
    closed = policy.closed(model, monitor)
    error = max(_check_rule(model, rule, monitor) for rule in policy.rules)
    limits = _limits(model, policy, budget)
    unlimited = resolve(closed, dict.fromkeys(model.resources))
    planned = verify_within(closed, policy.finite, unlimited, monitor, max_nodes=max_nodes)
    worst = planned.worst_spent
    least: dict[str, Fraction | None] = {}
    for d, (name, amount) in enumerate(planned.least_spent.items()):
        least[name] = amount if all(rule.least_DS[d] is not None for rule in policy.rules) else None
    excess = {name: _excess(sides, worst[name], least[name]) for name, sides in limits.items()}
    scale = model.discount**policy.steps
    return DiscountedVerifyReport(
        feasible=not any(amount is None or amount > 0 for amount in excess.values()),
        value=planned.value,
        value_error=float(scale) * error,
        worst_spent=worst,
        least_spent=least,
        excess=excess,
        tail={
            name: scale * max(max(rule.most_DS[d]) for rule in policy.rules) for d, name in enumerate(model.resources)
        },
        steps=policy.steps,
        planned=planned,
    )


def _excess(sides: tuple[Fraction | None, Fraction | None], worst: Fraction, least: Fraction | None) -> Fraction | None:
    upper, lower = sides
    over = Fraction(0) if upper is None else max(Fraction(0), worst - upper)
    if lower is None:
        return over
    return None if least is None else max(over, lower - least)


def _limits(
    model: DiscountedCMDP, policy: DiscountedPolicy, budget: BudgetLike | None
) -> dict[str, tuple[Fraction | None, Fraction | None]]:
    if budget is None:
        return policy.limits
    return constant_limits(budget, model.resources)


def _check_rule(model: DiscountedCMDP, rule: TailRule, monitor: ResourceMonitor) -> float:
    """Check the bounds of a tail rule, and return a bound on the error of its values.

    Raises
    ------
    PolicyError
        If one of its numbers is not a bound.
    """
    base, g = model.base, model.discount
    rows = rule.rows(base)
    acting = np.flatnonzero(rows != NO_ROW)
    for d, name in enumerate(model.resources):
        most, least = rule.most_DS[d], rule.least_DS[d]
        if len(most) != base.n_states or (least is not None and len(least) != base.n_states):
            raise PolicyError(f"tail rule {rule.name}", f"{base.n_states} bounds of {name}", "another number")
        for state in range(base.n_states):
            if most[state] < 0 or (least is not None and least[state] > 0):
                raise _refused(model, rule, state, name, "bounds on both sides of 0", "others")
        for state in monitor.each(acting.tolist()):
            _check_bounds(model, rule, state, int(rows[state]), d)
        if least is None and base.cost_range(d)[0] is not None:
            raise PolicyError(f"tail rule {rule.name}", f"a lower bound of {name}", "none")
    expected = _look_ahead(base, rows, acting, rule.value_S, float(g))
    residual = float(np.abs(expected - rule.value_S).max(initial=0.0))
    return residual / float(1 - g)


def _check_bounds(model: DiscountedCMDP, rule: TailRule, state: int, row: int, d: int) -> None:
    base, g = model.base, model.discount
    most, least = rule.most_DS[d], rule.least_DS[d]
    for o in range(int(base.outcome_indptr[row]), int(base.outcome_indptr[row + 1])):
        cost, after = base.cost_of(d, o), int(base.next_state[o])
        high, low = (cost.high, cost.low) if isinstance(cost, CostDistribution) else (cost, cost)
        reached = high + g * most[after]
        if reached > most[state]:
            expected, found = f"at least {short_amount(reached)}", short_amount(most[state])
            raise _refused(model, rule, state, base.resources[d], f"a bound of {expected}", found)
        if least is None:
            continue
        if low is None:
            raise _refused(model, rule, state, base.resources[d], "no lower bound", format_amount(least[state]))
        reached = low + g * least[after]
        if reached < least[state]:
            expected, found = f"at most {format_amount(reached)}", format_amount(least[state])
            raise _refused(model, rule, state, base.resources[d], f"a lower bound of {expected}", found)


def _refused(
    model: DiscountedCMDP, rule: TailRule, state: int, resource: str, expected: str, found: str
) -> PolicyError:
    place = f"tail rule {rule.name}, state {quote(model.states[state])}, {resource}"
    return PolicyError(place, f"{expected}, because of its outcomes", found)


def _look_ahead(
    base: CMDP, rows: NDArray[np.int64], acting: NDArray[np.int64], value_S: NDArray[np.float64], g: float
) -> NDArray[np.float64]:
    """Return the value of each state if its successors have values `value_S`."""
    expected = np.zeros(base.n_states)
    for state in acting.tolist():
        row = int(rows[state])
        part = slice(int(base.outcome_indptr[row]), int(base.outcome_indptr[row + 1]))
        later = math.fsum((base.probability[part] * value_S[base.next_state[part]]).tolist())
        expected[state] = float(base.row_reward[row]) + g * later
    return expected
