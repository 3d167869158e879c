"""Solving models with a last step, within given limits of time and memory: exactly, approximately, or to a gap."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from solvent.core.engines import LOCAL, Engine
from solvent.core.limits import REACHED, ResourceMonitor, reason_of
from solvent.core.logs import get_logger
from solvent.solvers.base import Run, SolverOptions
from solvent.solvers.choice import solve_problem
from solvent.solvers.diagnosis import relaxed_value
from solvent.solvers.registry import AUTO
from solvent.solvers.solution import Round, Solution, Stats
from solvent.solvers.transforms.approximation import Approximation, approximate
from solvent.solvers.transforms.base import BudgetedModel, Exact
from solvent.solvers.transforms.gap import close_gap
from solvent.solvers.transforms.infeasible import explain_infeasible
from solvent.solvers.transforms.rounding import EpsilonLike

#: What to try when a limit was reached.
_MORE = (
    "raise the limit, ask for a gap (gap=0.01), or give the costs fewer digits, rounded to the safe side (up for upper "
    "limits)"
)

_log = get_logger(__name__)


@dataclass(frozen=True)
class Request:
    """How a model is to be solved; the arguments of `solve` after they were checked.

    Attributes
    ----------
    method : str
        Name of a method, or "auto".
    approximation : {"additive", "relative"} or None
    epsilon : number, mapping of them by resource, or None
    strict : bool
    gap : float or None
    prune : bool
    unfinished : bool
        Whether the best policy so far is an answer if a limit ends an exact method.
    engine : Engine
        Where it runs.
    """

    method: str = AUTO
    approximation: str | None = None
    epsilon: EpsilonLike | None = None
    strict: bool = False
    gap: float | None = None
    prune: bool = True
    unfinished: bool = True
    engine: Engine = field(default=LOCAL, repr=False)


def solve_finite(
    given: BudgetedModel, request: Request, monitor: ResourceMonitor, log: Callable[[Round], None] | None = None
) -> Solution:
    """Solve a model with resolved limits within what is left of time and memory.

    `log` is called with each round of closing a gap.
    """
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug(
            "solving %d states, %d outcomes, %d steps, limits on %s: %s", given.model.n_states, given.model.n_outcomes,
            given.model.horizon, ", ".join(given.limits.resources) or "nothing", request,
        )  # fmt: skip
    if request.approximation is not None:
        asked = Approximation.read(
            request.approximation, request.epsilon, given.limits, strict=request.strict, method=request.method
        )
        return approximate(given, asked, Run(monitor, SolverOptions(prune=request.prune), request.engine))
    if request.gap is not None:
        return close_gap(given, request.gap, monitor, log, request.engine)
    return _exactly(given, request, monitor)


def _exactly(given: BudgetedModel, request: Request, monitor: ResourceMonitor) -> Solution:
    transform = Exact()
    try:
        problem = transform.apply(given, monitor)
        options = SolverOptions(prune=request.prune, unfinished=request.unfinished, spill=True)
        answer = solve_problem(problem, request.method, Run(monitor, options, request.engine))
    except REACHED as reached:
        return stopped(given, request.method, monitor, reason_of(reached))
    if not answer.feasible:
        return explain_infeasible(given, answer.method, answer.stats, monitor, problem)
    found = transform.invert(problem, answer)
    if answer.stopped:
        message = f"{answer.stopped}; never over budget, and the optimum is at most {answer.upper:.10g}; {_MORE}"
        return Solution.feasible(found, answer.lower, answer.upper, message)
    return Solution.optimal(found, answer.lower, answer.upper, "never over budget, and no such policy is worth more")


def stopped(given: BudgetedModel, method: str, monitor: ResourceMonitor, reason: str) -> Solution:
    """Return the answer that a limit was reached before a policy was found."""
    upper = relaxed_value(given.model, monitor.seconds)
    return Solution.limit(method, Stats.none(monitor.peak), upper, f"{reason}; {_MORE}")
