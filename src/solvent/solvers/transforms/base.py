"""Transformations: `apply` turns what is given into what a solver can work on, `invert` maps the answer back.

    transform       given              made                       answer      mapped back
    Exact           BudgetedModel      Problem in ticks           Answer      FoundPolicy for the user's model
    RoundedCosts    BudgetedModel      Problem, costs rounded     Answer      FoundPolicy that counts rounded costs
    Discounting     discounted model   PlannedSteps, finite       Solution    Solution for the discounted model

A gap is closed by rounds: each applies `Exact` or `RoundedCosts` to the same budgeted model, and the transform of the
best answer maps it back; see `solvent.solvers.transforms.gap`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

from solvent.core.limits import ResourceMonitor
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.solvers.base import Answer
from solvent.solvers.problem import Problem
from solvent.solvers.solution import FoundPolicy

Given = TypeVar("Given", contravariant=True)
Made = TypeVar("Made")
Answered = TypeVar("Answered", contravariant=True)
Mapped = TypeVar("Mapped", covariant=True)


class Transform(Protocol[Given, Made, Answered, Mapped]):
    """A change of the problem that is undone in the answer."""

    def apply(self, given: Given, monitor: ResourceMonitor) -> Made:
        """Return the transformed problem; its memory stays reserved."""

    def invert(self, made: Made, answer: Answered) -> Mapped:
        """Return the answer to what was given."""


@dataclass(frozen=True)
class BudgetedModel:
    """What a user asks for: a model, and limits resolved from a budget."""

    model: CMDP
    limits: Limits


@dataclass(frozen=True)
class Exact:
    """No change other than to ticks: costs and limits become integers, and equal outcomes are merged."""

    def apply(self, given: BudgetedModel, monitor: ResourceMonitor) -> Problem:
        """Return the problem in ticks; errors as of `Lattice.fit`."""
        return Problem.exact(given.model, given.limits, monitor=monitor)

    def invert(self, made: Problem, answer: Answer) -> FoundPolicy:
        """Return the policy with its worst case."""
        return found_policy(made, answer)


def found_policy(problem: Problem, answer: Answer) -> FoundPolicy:
    """Return the policy of an answer with its true worst case, in the user's units."""
    assert answer.make_policy is not None
    worst, excess = true_extremes(problem, answer)
    return FoundPolicy(
        answer.value, worst, excess, answer.worst_is_exact, answer.checked, answer.method, problem.rounding_name,
        answer.stats, answer.make_policy,
    )  # fmt: skip


def true_extremes(problem: Problem, answer: Answer) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
    """Return the worst spending and the excess of a policy; where these are bounds, at most what was promised."""
    worst, excess = problem.worst_spent(answer.peak_HD), problem.excess(answer.peak_HD, answer.trough_HD)
    if answer.worst_is_exact:
        return worst, excess
    for d, name in enumerate(problem.limits.resources):
        slack = problem.slack(d)
        excess[name] = min(excess[name], slack)
        uppers = problem.limits.upper[d]
        if None not in uppers:
            worst[name] = min(worst[name], max(limit for limit in uppers if limit is not None) + slack)
    return worst, excess


def require_never_over(found: FoundPolicy) -> None:
    """Raise if a policy that cannot exceed the budget by construction does."""
    if any(found.excess.values()):
        raise AssertionError(
            f"a policy that never exceeds the budget by construction exceeds it by {dict(found.excess)}; "
            "please report this"
        )
