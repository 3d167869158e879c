"""Checking policies for discounted models: the planned steps are followed exactly, the tail is bounded exactly.

A rule for ever comes with what it can add at most (`solvent.policy.tail`). Those numbers are not believed: the
inequalities that make them bounds are checked, one by one and in fractions. With them the planned steps and the tail
are one finite model, and the checker of finite models finds the extremes of what is spent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
from solvent.verification.report import PerStep, Report, render

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class DiscountedReport:
    """What `verify` found of a policy for a discounted model; `print` shows a summary.

    Attributes
    ----------
    feasible : bool
        Whether it is proved that no history ever breaks a limit.
    value : float
        Expected discounted reward, for ever.
    value_error : float
        By how much `value` may be off, because the worth of the tail is a number of the policy's that was only checked
        to satisfy its equation up to rounding.
    worst_spent : dict of str to Fraction
        For every resource, what is never exceeded, at no step and for ever: the most after the planned steps, each
        history with the most that its tail can add.
    least_spent : dict of str to Fraction or None
        The mirror image; None where costs are not bounded below.
    excess : dict of str to Fraction or None
        For each limited resource, by how much its limits can be broken at most; None if there is no bound.
    tail : dict of str to Fraction
        Of each resource, the most that the part after the planned steps can add.
    steps : int
        The planned steps.
    planned : Report
        On the planned steps, with the tail as one more step at the end, without limits.
    """

    feasible: bool
    value: float
    value_error: float
    worst_spent: dict[str, Fraction]
    least_spent: dict[str, Fraction | None]
    excess: dict[str, Fraction | None]
    tail: dict[str, Fraction]
    steps: int
    planned: Report

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table

        verdict = "never breaks a limit, for ever" if self.feasible else "may break a limit"
        table = Table("resource", "never spends more than", "of which the tail", "never less than", "excess")
        for name, worst in self.worst_spent.items():
            least, excess = self.least_spent[name], self.excess.get(name, Fraction(0))
            cells = ("unbounded" if amount is None else short_amount(amount) for amount in (least, excess))
            table.add_row(name, short_amount(worst), short_amount(self.tail[name]), *cells)
        line = f"{verdict}; value {self.value:.10g}; {self.steps} steps and a tail; {self.planned.nodes:,} nodes"
        return Group(line, table)

    def __str__(self) -> str:
        return render(self)


def verify_discounted(
    model: DiscountedCMDP,
    policy: object,
    budget: BudgetLike | None,
    monitor: ResourceMonitor,
    *,
    max_nodes: int = 20_000_000,
) -> DiscountedReport:
    """Return what a policy for a discounted model can spend at worst, for ever, and what it is worth.

    Raises
    ------
    PolicyError
        If it is no such policy, was made for another model, or what it says of its tail does not hold; also if it
        counts rounded draws of a continuous cost, which cannot be followed one by one.

    Notes
    -----
    What is spent within the planned steps is exact. The tail is a bound: no history exceeds it, none need attain it.
    A history that breaks a limit within the planned steps, if there is one, is found by
    `verify(policy.closed(), policy.finite, budget)`.
    """
    from solvent.verification.verify import verify_within

    if not isinstance(policy, DiscountedPolicy):
        raise PolicyError(
            "policy",
            "a DiscountedPolicy, as the model has no last step",
            quote(policy),
            "check the first steps of any other with verify(model.unrolled(steps), policy)",
        )
    closed = policy.closed(model, monitor)
    error = max(_check_rule(model, rule, monitor) for rule in policy.rules)
    limits = _limits(model, policy, budget)
    unlimited = resolve(closed, dict.fromkeys(model.resources))
    planned = verify_within(closed, policy.finite, unlimited, monitor, max_nodes=max_nodes)
    worst = {name: _most(amounts) for name, amounts in planned.worst_spent.items()}
    least: dict[str, Fraction | None] = {}
    for d, (name, amounts) in enumerate(planned.least_spent.items()):
        bounded = None not in amounts and all(rule.least_DS[d] is not None for rule in policy.rules)
        least[name] = -_most(tuple(-x for x in amounts if x is not None)) if bounded else None
    excess = {name: _excess(sides, worst[name], least[name]) for name, sides in limits.items()}
    scale = model.discount**policy.steps
    return DiscountedReport(
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


def _most(amounts: PerStep) -> Fraction:
    return max(amount for amount in amounts if amount is not None)


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
    """Check what a rule says of itself, and return by how much its values may be off.

    Raises
    ------
    PolicyError
        If some number of it is no bound.
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
    return PolicyError(place, f"{expected}, as its outcomes demand", found)


def _look_ahead(
    base: CMDP, rows: NDArray[np.int64], acting: NDArray[np.int64], value_S: NDArray[np.float64], g: float
) -> NDArray[np.float64]:
    """Return what each state is worth if its successors are worth `value_S`."""
    expected = np.zeros(base.n_states)
    for state in acting.tolist():
        row = int(rows[state])
        part = slice(int(base.outcome_indptr[row]), int(base.outcome_indptr[row + 1]))
        later = math.fsum((base.probability[part] * value_S[base.next_state[part]]).tolist())
        expected[state] = float(base.row_reward[row]) + g * later
    return expected
