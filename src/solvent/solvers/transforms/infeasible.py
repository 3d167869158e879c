"""The answer that no policy keeps the budget, with a diagnosis where there is time for one."""

from __future__ import annotations

import math

from solvent.core.limits import REACHED, ResourceMonitor
from solvent.errors import LatticeOverflowError, ModelError
from solvent.solvers.diagnosis import diagnose
from solvent.solvers.problem import Problem
from solvent.solvers.solution import Solution, Stats
from solvent.solvers.transforms.base import BudgetedModel


def explain_infeasible(
    given: BudgetedModel, method: str, stats: Stats, monitor: ResourceMonitor, problem: Problem | None = None
) -> Solution:
    """Return the answer that no policy is feasible, and why, as far as exact costs can tell.

    `problem` saves time if the exact problem is at hand.
    """
    try:
        problem = problem or Problem.exact(given.model, given.limits, monitor=monitor)
    except (LatticeOverflowError, ModelError, *REACHED):
        message = "no policy keeps the budget, not even with costs rounded in its favor"
        return Solution.infeasible(method, stats, message)
    # the answer is known; the diagnosis may take as long again, and at least a second
    elapsed = monitor.elapsed
    left = math.inf if monitor.seconds is None else monitor.seconds - elapsed
    with ResourceMonitor(max(min(1 + elapsed, left), 0.1), monitor.bytes) as more:
        diagnosis = diagnose(problem.model, problem.lattice, given.limits, more)
    return Solution.infeasible(method, stats, str(diagnosis), diagnosis)
