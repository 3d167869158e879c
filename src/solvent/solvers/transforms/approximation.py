"""The paper's approximation schemes: optimal value and slightly over, or never over and slightly worse.

relaxed   costs rounded toward the budget: worth at least the optimum, over by at most epsilon (`cor: additive`)
or epsilon * |B| (`cor: relative`); if the policy turns out never to be over, it is optimal
strict    never over: costs rounded away from the budget, or the paper's smaller budget, whichever is worth more
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from solvent.core.limits import REACHED, ResourceMonitor, reason_of
from solvent.errors import LatticeOverflowError, ModelError
from solvent.model.amounts import format_amount, short_amount
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.solvers.diagnosis import diagnose, relaxed_value
from solvent.solvers.methods import Answer, Options, run
from solvent.solvers.problem import Problem
from solvent.solvers.solution import Diagnosis, Solution, Stats, Status
from solvent.solvers.transforms.rounding import Scheme, additive_lengths, project, read_epsilon, relative_lengths


@dataclass(frozen=True)
class Approximation:
    """What was asked for: a method, its epsilon for each tracked resource, and whether it must never be over."""

    method: str
    epsilons: tuple[Fraction, ...]
    strict: bool

    @classmethod
    def read(cls, method: str, epsilon: Any, limits: Limits, *, strict: bool) -> Approximation:
        """Return it from what a user gave."""
        if epsilon is None:
            raise ModelError(f'method="{method}"', "epsilon=, how far it may be off", "none")
        return cls(method, read_epsilon(epsilon, limits), strict)

    def lengths(self, limits: Limits, horizon: int, scheme: Scheme) -> tuple[Fraction, ...]:
        """Return the length of a tick for each resource."""
        if self.method == "additive":
            return additive_lengths(self.epsilons, horizon)
        return relative_lengths(self.epsilons, limits, horizon, strict=scheme == "smaller budget")


def approximate(
    model: CMDP, limits: Limits, asked: Approximation, monitor: ResourceMonitor, *, prune: bool = True
) -> Solution:
    """Solve a problem on rounded costs; see `solve`."""

    def attempt(scheme: Scheme) -> tuple[Problem, Answer]:
        problem = project(model, limits, asked.lengths(limits, model.horizon, scheme), scheme, monitor)
        return problem, run(problem, "auto", monitor, options=Options(prune=prune))

    try:
        problem, relaxed = attempt("relaxed")
    except REACHED as reached:
        return _stopped(asked.method, relaxed_value(model, monitor.seconds), monitor, reason_of(reached))
    if not relaxed.feasible:
        return infeasible(model, limits, asked.method, relaxed.stats, monitor)
    solution = _relaxed(problem, relaxed, asked)
    if not asked.strict or solution.status is Status.OPTIMAL:
        return solution
    # at one length, rounding up is never worse than the smaller budget; relative lengths differ
    schemes: tuple[Scheme, ...] = ("rounded",) if asked.method == "additive" else ("rounded", "smaller budget")
    found: list[tuple[Scheme, Problem, Answer]] = []
    stopped = ""
    for scheme in schemes:
        used = monitor.used
        try:
            found.append((scheme, *attempt(scheme)))
        except REACHED as reached:
            stopped = reason_of(reached)
            monitor.release(monitor.used - used)
    best = max(found, key=lambda each: each[2].value, default=None)
    if best is None or not best[2].feasible:
        if stopped:
            return _stopped(asked.method, relaxed.upper, monitor, stopped)
        return _none_found(asked, relaxed, monitor)
    return _strict(*best, asked, relaxed)


def true_extremes(problem: Problem, answer: Answer) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
    """Return the worst spending and the excess of a policy, where they are bounds no larger than was promised."""
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


def _relaxed(problem: Problem, answer: Answer, asked: Approximation) -> Solution:
    worst, excess = true_extremes(problem, answer)
    over = {name: amount for name, amount in excess.items() if amount > 0}
    most = ", ".join(f"{name} {short_amount(amount)}" for name, amount in over.items())
    if over:
        status, lower = Status.RELAXED, -math.inf
        is_most = "it can be" if answer.worst_is_exact else "it can be at most"
        message = f"relaxed: worth at least the optimum, and {is_most} over by {most}; strict=True is never over"
    else:
        status, lower = Status.OPTIMAL, answer.lower
        message = "optimal: on rounded costs it is worth at least the optimum, and it is never over"
    return Solution(
        status, answer.value, lower, answer.upper, worst, asked.method, message, answer.stats,
        worst_is_exact=answer.worst_is_exact, excess=excess, value_checked=answer.checked,
        _make_policy=answer.make_policy,
    )  # fmt: skip


def _strict(scheme: Scheme, problem: Problem, answer: Answer, asked: Approximation, relaxed: Answer) -> Solution:
    worst, excess = true_extremes(problem, answer)
    if any(excess.values()):
        raise AssertionError(f"a policy that is never over by construction is over by {excess}; please report this")
    how = "costs rounded up" if scheme == "rounded" else "a smaller budget"
    # the bounds have met if rounding errors can have kept them apart
    met = relaxed.upper - answer.lower <= 2 * (relaxed.noise_above + answer.noise_below)
    status = Status.OPTIMAL if met else Status.FEASIBLE
    message = f"{status.value}: never over, found with {how}"
    return Solution(
        status, answer.value, answer.lower, max(relaxed.upper, answer.value), worst, f"{asked.method}, {how}", message,
        answer.stats, worst_is_exact=answer.worst_is_exact, excess=excess, value_checked=answer.checked,
        _make_policy=answer.make_policy,
    )  # fmt: skip


def _none_found(asked: Approximation, relaxed: Answer, monitor: ResourceMonitor) -> Solution:
    used = ", ".join(format_amount(epsilon) for epsilon in dict.fromkeys(asked.epsilons))
    message = (
        f"stopped: with epsilon {used} no policy was found that is never over, though there may be one; "
        "use a smaller epsilon, a gap, or an exact method"
    )
    stats = replace(relaxed.stats, peak_bytes=monitor.peak)
    return Solution(Status.LIMIT, -math.inf, -math.inf, relaxed.upper, {}, asked.method, message, stats)


def infeasible(
    model: CMDP, limits: Limits, method: str, stats: Stats, monitor: ResourceMonitor, problem: Problem | None = None
) -> Solution:
    """Return the answer that nothing is feasible, and why, as far as exact costs can tell."""
    diagnosis: Diagnosis | None = None
    try:
        problem = problem or Problem.exact(model, limits, monitor=monitor)
    except (LatticeOverflowError, ModelError, *REACHED):
        message = "infeasible: no policy keeps the budget, not even with costs rounded in its favor"
    else:
        # the answer is there; saying why may take as long again, and a second
        elapsed = monitor.elapsed
        left = math.inf if monitor.seconds is None else monitor.seconds - elapsed
        with ResourceMonitor(max(min(1 + elapsed, left), 0.1), monitor.bytes) as more:
            diagnosis = diagnose(problem.model, problem.lattice, limits, more)
        message = f"infeasible: {diagnosis}"
    return Solution(Status.INFEASIBLE, -math.inf, -math.inf, -math.inf, {}, method, message, stats, diagnosis)


def _stopped(method: str, upper: float, monitor: ResourceMonitor, reason: str) -> Solution:
    message = f"stopped: {reason}; raise the limit, or epsilon"
    stats = Stats(0.0, 0, (), None, monitor.peak, "nodes")
    return Solution(Status.LIMIT, -math.inf, -math.inf, upper, {}, method, message, stats)
