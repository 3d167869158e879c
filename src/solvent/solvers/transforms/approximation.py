"""The paper's approximation schemes: worth at least the optimum, or never over budget and slightly worse.

relaxed   costs rounded toward the limits: worth at least the optimum, over by at most epsilon (`cor: additive`) or
          epsilon * |B| (`cor: relative`); if the policy turns out never to exceed the budget, it is optimal
strict    never over budget: costs rounded away from the limits, or the paper's smaller budget, whichever is worth more
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from solvent.core.limits import REACHED, reason_of
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.amounts import format_amount, short_amount
from solvent.model.budget import Limits
from solvent.solvers.base import Answer, Run
from solvent.solvers.choice import solve_problem
from solvent.solvers.diagnosis import relaxed_value
from solvent.solvers.problem import Problem
from solvent.solvers.solution import Solution, Stats, Status
from solvent.solvers.transforms.base import BudgetedModel
from solvent.solvers.transforms.infeasible import explain_infeasible
from solvent.solvers.transforms.rounding import (
    EpsilonLike,
    RoundedCosts,
    Scheme,
    additive_lengths,
    read_epsilon,
    relative_lengths,
)

#: The schemes by name, with a summary each.
APPROXIMATIONS = {
    "additive": "costs rounded; over budget by at most epsilon, or never with strict",
    "relative": "costs rounded; over budget by at most the share epsilon of it, or never with strict",
}


@dataclass(frozen=True)
class Approximation:
    """An approximation that was asked for.

    Attributes
    ----------
    name : {"additive", "relative"}
    epsilons : tuple of Fraction
        Epsilon of each limited resource.
    strict : bool
        Whether the policy must never exceed the budget.
    method : str
        The method that solves the rounded problems.
    """

    name: str
    epsilons: tuple[Fraction, ...]
    strict: bool
    method: str

    @classmethod
    def read(
        cls, name: str, epsilon: EpsilonLike | None, limits: Limits, *, strict: bool, method: str = "auto"
    ) -> Approximation:
        """Return an approximation from arguments of `solve`."""
        check_approximation(name)
        if epsilon is None:
            raise ModelError(
                f'approximation="{name}"',
                "epsilon= with it, an amount" if name == "additive" else "epsilon= with it, a share of the limit",
                "no epsilon",
            )
        return cls(name, read_epsilon(epsilon, limits), strict, method)

    def transform(self, limits: Limits, horizon: int, scheme: Scheme) -> RoundedCosts:
        """Return the rounding of costs for a scheme."""
        if self.name == "additive":
            return RoundedCosts(additive_lengths(self.epsilons, limits, horizon), scheme)
        strict = scheme == "smaller budget"
        return RoundedCosts(relative_lengths(self.epsilons, limits, horizon, strict=strict), scheme)


def check_approximation(name: object) -> None:
    """Raise a `ModelError` unless there is an approximation of this name."""
    if not isinstance(name, str) or name not in APPROXIMATIONS:
        known = tuple(APPROXIMATIONS)
        raise ModelError(
            "approximation",
            f"one of {', '.join(known)}",
            quote(name),
            did_you_mean(name, known) if isinstance(name, str) else "",
        )


def approximate(given: BudgetedModel, asked: Approximation, run: Run) -> Solution:
    """Solve a problem on rounded costs; see `solve`."""
    return replace(_approximate(given, asked, run), approximation=asked.name)


def _approximate(given: BudgetedModel, asked: Approximation, run: Run) -> Solution:
    monitor, horizon = run.monitor, given.model.horizon

    def attempt(scheme: Scheme) -> tuple[RoundedCosts, Problem, Answer]:
        transform = asked.transform(given.limits, horizon, scheme)
        problem = transform.apply(given, monitor)
        return transform, problem, solve_problem(problem, asked.method, run)

    try:
        transform, problem, relaxed = attempt("relaxed")
    except REACHED as reached:
        upper = relaxed_value(given.model, monitor.seconds)
        more = _raise_it(reason_of(reached), asked.strict)
        return Solution.limit(asked.method, Stats.none(monitor.peak), upper, more)
    if not relaxed.feasible:
        return explain_infeasible(given, relaxed.method, relaxed.stats, monitor)
    solution = _relaxed(transform, problem, relaxed)
    if not asked.strict or solution.status is Status.OPTIMAL:
        return solution
    # at one length, rounding up is never worse than the smaller budget; relative lengths differ
    schemes: tuple[Scheme, ...] = ("rounded",) if asked.name == "additive" else ("rounded", "smaller budget")
    found: list[tuple[RoundedCosts, Problem, Answer]] = []
    stopped = ""
    for scheme in schemes:
        used = monitor.used
        try:
            found.append(attempt(scheme))
        except REACHED as reached:
            stopped = reason_of(reached)
            monitor.release(monitor.used - used)
    best = max(found, key=lambda each: each[2].value, default=None)
    if best is not None and best[2].feasible:
        return _strict(*best, relaxed)
    if stopped:
        return Solution.limit(asked.method, Stats.none(monitor.peak), relaxed.upper, _raise_it(stopped, strict=True))
    used_epsilons = ", ".join(format_amount(epsilon) for epsilon in dict.fromkeys(asked.epsilons))
    message = (
        f"with epsilon {used_epsilons} no policy was found that never exceeds the budget, although there may be one; "
        "use a smaller epsilon, a gap (gap=0.01), or an exact method"
    )
    return Solution.not_found(relaxed.method, replace(relaxed.stats, peak_bytes=monitor.peak), relaxed.upper, message)


def _raise_it(reason: str, strict: bool) -> str:
    larger = "epsilon" if strict else "epsilon, by which the policy may exceed the budget"
    return f"{reason}; raise the limit, or {larger}"


def _relaxed(transform: RoundedCosts, problem: Problem, answer: Answer) -> Solution:
    found = transform.invert(problem, answer)
    over = {name: amount for name, amount in found.excess.items() if amount > 0}
    if not over:
        message = "worth at least the optimum on rounded costs, and never over budget"
        return Solution.optimal(found, answer.lower, answer.upper, message)
    most = ", ".join(f"{name} {short_amount(amount)}" for name, amount in over.items())
    by = "by" if answer.worst_is_exact else "by at most"
    message = (
        f"worth at least the optimum, but it can exceed the budget {by} {most}; with strict=True it never exceeds it"
    )
    return Solution.relaxed(found, answer.upper, message)


def _strict(transform: RoundedCosts, problem: Problem, answer: Answer, relaxed: Answer) -> Solution:
    found = transform.invert(problem, answer)
    how = "costs rounded away from the limits" if transform.scheme == "rounded" else "a smaller budget"
    upper = max(relaxed.upper, answer.value)
    # the bounds have met if rounding errors alone can have kept them apart
    met = relaxed.upper - answer.lower <= 2 * (relaxed.noise_above + answer.noise_below)
    make = Solution.optimal if met else Solution.feasible
    return make(found, answer.lower, upper, f"never over budget, found with {how}")
