"""The choice of a method for a problem, and the call of its solver.

Methods of other packages are not trusted: one that was not asked for by name and raises is ignored with a warning.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from solvent.core.limits import LimitReached
from solvent.core.logs import get_logger
from solvent.errors import ModelError, quote
from solvent.solvers.base import Answer, Refusal, Run, Solver
from solvent.solvers.problem import Problem
from solvent.solvers.registry import AUTO, external_solvers, get, names

_log = get_logger(__name__)


def _refusal(solver: Solver, problem: Problem) -> Refusal | None:
    """Return why a solver does not accept a problem, or None; a `ModelError` if it returns anything else."""
    refusal = solver.accepts(problem)
    if refusal is not None and not isinstance(refusal, Refusal):
        raise ModelError(f'method="{solver.name}"', "None or a `Refusal` from its `accepts`", quote(refusal))
    return refusal


def choose(problem: Problem, method: str, run: Run) -> tuple[Solver, Any]:
    """Return the solver to run on a problem, and what it prepared to estimate its work.

    Raises
    ------
    ModelError
        If a method was asked for by name that does not accept the problem.
    """
    if method != AUTO:
        solver = get(method)
        refusal = _refusal(solver, problem)
        if refusal is not None:
            raise ModelError(f'method="{method}"', refusal.expected, refusal.found, refusal.hint)
        return solver, None
    chosen: Solver | None = None
    least, prepared = float("inf"), None
    for name in reversed(names()):  # special methods first, as one that expects no work ends the search
        try:
            solver = get(name)
            refusal = _refusal(solver, problem)
            if refusal is not None:
                _log.debug("%s does not accept the problem: %s", name, refusal)
                continue
            estimate = solver.estimate(problem, run)
            if not isinstance(estimate.work, int | float):
                raise ModelError(f"the estimate of method {name!r}", "a number as work", quote(estimate.work))
        except LimitReached:
            raise
        except Exception as error:
            if name not in external_solvers():
                raise
            # a faulty method of another package, which was not asked for
            _log.warning("the solver %r is ignored: %s: %s", name, type(error).__name__, error)
            continue
        _log.debug("%s expects %.3g times the work of the reduction", solver.name, estimate.work)
        if not estimate.work < least:  # also if it is NaN
            solver.discard(estimate.prepared, run)
            continue
        if chosen is not None:
            chosen.discard(prepared, run)
        chosen, least, prepared = solver, estimate.work, estimate.prepared
        if least == 0:
            break
    assert chosen is not None, "the reduction accepts every problem"
    return chosen, prepared


def solve_problem(problem: Problem, method: str, run: Run) -> Answer:
    """Solve a problem with a method by name, or with the one that expects the least work ("auto").

    A method of this package that was not asked for by name may hand the problem over to another one.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    ModelError
        If the method does not accept the problem.
    """
    run.monitor.check_time()
    solver, prepared = choose(problem, method, run)
    answer = solver.solve(problem, run, prepared)
    if not isinstance(answer, Answer):
        raise ModelError(f'method="{solver.name}"', "an `Answer` from its solver", quote(answer))
    if answer.method != solver.name and solver.name in external_solvers():
        answer = replace(answer, method=solver.name)
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug(
            "%s: value %.10g, %d %s in %d steps, %.3f s so far", solver.name, answer.value, answer.stats.nodes,
            answer.stats.representation, problem.model.horizon, run.monitor.elapsed,
        )  # fmt: skip
    return answer
