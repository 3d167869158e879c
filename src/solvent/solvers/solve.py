"""`solve`: choose a method, run it, check what it found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from solvent.core.interrupt import held_back
from solvent.core.limits import REACHED, LimitReached, ResourceMonitor, read_memory, read_seconds, reason_of
from solvent.core.progress import ProgressSink, open_progress
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.budget import BudgetLike, Limits, resolve
from solvent.model.cmdp import CMDP, check_model
from solvent.model.discounted import DiscountedCMDP
from solvent.solvers.diagnosis import relaxed_value
from solvent.solvers.methods import Options, run
from solvent.solvers.problem import Problem
from solvent.solvers.solution import ROUND_HEADER, Round, Solution, Stats, Status
from solvent.solvers.transforms.approximation import Approximation, approximate, infeasible, true_extremes
from solvent.solvers.transforms.discounted import solve_discounted
from solvent.solvers.transforms.gap import certify, read_gap

EXACT = ("auto", "reduction", "frontier", "labels")
APPROXIMATE = ("additive", "relative")
#: What to try when a limit was reached.
_MORE = "raise the limit, ask for a gap (gap=0.01), or give the costs a coarser unit (fewer digits)"


def solve(
    model: CMDP | DiscountedCMDP,
    budget: BudgetLike | None = None,
    *,
    method: str = "auto",
    epsilon: Any = None,
    strict: bool = False,
    gap: Any = None,
    prune: bool = True,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    progress: bool = False,
) -> Solution:
    """Find a policy of greatest expected reward that never goes over budget, at no step and under no luck.

    Parameters
    ----------
    model : CMDP or DiscountedCMDP
        A discounted model needs an `epsilon`; see `solvent.solvers.transforms.discounted`.
    budget : number, Budget, or dict of them by resource, optional
        The model's own default, if not given.
    method : {"auto", "reduction", "frontier", "labels", "additive", "relative"}
        "reduction" takes any number of resources and any limits; "frontier" takes one limited resource with limits on
        one side; "labels" the same where nothing is left to chance. "auto" takes the one it expects to be quickest. All
        of these are exact. "additive" and "relative" round costs, and need an `epsilon`; they take continuous costs
        too.
    epsilon : number, or dict of them by resource, optional
        By how much the policy may be over at any time: an amount ("additive"), or a share of the budget ("relative";
        with limits that vary by step, of the smallest).
    strict : bool
        Never be over: round costs, or shrink the budget, so that what rounding hides cannot break it.
    gap : number, optional
        End once bounds on the optimum are so close, relatively, with a policy that is never over.
    prune : bool
        Whether the reduction leaves out doomed nodes and strikes settled resources. Without, its layers are exactly
        the paper's.
    time_limit : float, optional
        Seconds after which to end: with the best found so far if a gap was asked for, else with status "limit".
    memory_limit : int or str, optional
        Bytes, or text such as "8GB"; most of what is free, if not given. It is checked before memory is used.
    progress : bool
        Show how far it has come, on a terminal.

    Returns
    -------
    Solution
        With status "infeasible" if no policy keeps the budget: that is an answer, not an error.

    Raises
    ------
    ModelError
        If the budget does not fit the model, or the method does not fit the problem.
    LatticeOverflowError
        If costs and limits have no common unit in which sums fit 64 bits.

    Notes
    -----
    Optimality is Theorem 3 of the paper (`thm: optimality`); the prunings and frontiers are shown exact in
    `docs/guarantees.md`. Relaxed policies are worth at least the optimum and over by at most epsilon (`thm: approx`,
    `cor: additive`, `cor: relative`); if one turns out never to be over, its status is "optimal".

    Examples
    --------
    >>> from solvent.model import instances
    >>> solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50))
    Solution(optimal, value 220, worst spent weight 50, labels)
    >>> solve(instances.partition([3, 1, 1])).status.value
    'infeasible'
    >>> hard = instances.paper(20, seed=2, budget=3)
    >>> solve(hard, method="relative", epsilon=0.1).status.value
    'relaxed'
    >>> solve(hard, method="relative", epsilon=0.1, strict=True).status.value
    'feasible'
    """
    if isinstance(model, DiscountedCMDP):
        return solve_discounted(
            model, budget, method=method, epsilon=epsilon, strict=strict, gap=gap, prune=prune, time_limit=time_limit,
            memory_limit=memory_limit, progress=progress,
        )  # fmt: skip
    began = time.perf_counter()
    _check_options(method, epsilon, strict, gap)
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    check_model(model)
    limits = resolve(model, budget)
    monitor = ResourceMonitor(seconds, memory, began=began)
    try:
        with held_back(), open_progress(progress) as bar, monitor:
            monitor.sink = bar
            solution = solve_within(
                model, limits, monitor, method=method, epsilon=epsilon, strict=strict, gap=gap, prune=prune,
                log=_RoundLog(bar) if progress else None,
            )  # fmt: skip
    except LimitReached as reached:
        solution = _stopped(model, method, monitor, str(reached))
    return replace(solution, stats=replace(solution.stats, seconds=time.perf_counter() - began))


def solve_within(
    model: CMDP,
    limits: Limits,
    monitor: ResourceMonitor,
    *,
    method: str = "auto",
    epsilon: Any = None,
    strict: bool = False,
    gap: Any = None,
    prune: bool = True,
    log: Callable[[Round], None] | None = None,
) -> Solution:
    """Solve a problem with resolved limits within what is left of time and memory; see `solve`."""
    if method in APPROXIMATE:
        asked = Approximation.read(method, epsilon, limits, strict=strict)
        return approximate(model, limits, asked, monitor, prune=prune)
    if gap is not None:
        return certify(model, limits, read_gap(gap), monitor, log)
    return _exactly(model, limits, method, monitor, prune=prune)


class _RoundLog:
    """Shows the rounds of closing a gap as they come, under a heading."""

    def __init__(self, bar: ProgressSink) -> None:
        self._bar, self._begun = bar, False

    def __call__(self, found: Round) -> None:
        """Show one."""
        if not self._begun:
            self._bar.message(ROUND_HEADER)
        self._begun = True
        self._bar.message(str(found))


def _check_options(method: str, epsilon: Any, strict: bool, gap: Any) -> None:
    methods = (*EXACT, *APPROXIMATE)
    if method not in methods:
        raise ModelError("method", f"one of {', '.join(methods)}", quote(method), did_you_mean(method, methods))
    if method not in APPROXIMATE and (epsilon is not None or strict):
        given = "epsilon" if epsilon is not None else "strict=True"
        raise ModelError(given, 'method="additive" or "relative" with it', f"method={quote(method)}")
    if gap is not None and method != "auto":
        raise ModelError("gap", 'method="auto" with it, which chooses how to close it', f"method={quote(method)}")


def _exactly(model: CMDP, limits: Limits, method: str, monitor: ResourceMonitor, *, prune: bool) -> Solution:
    try:
        problem = Problem.exact(model, limits, monitor=monitor)
        answer = run(problem, method, monitor, options=Options(prune=prune, unfinished=True))
    except REACHED as reached:
        return _stopped(model, method, monitor, reason_of(reached))
    if not answer.feasible:
        return infeasible(model, limits, answer.method, answer.stats, monitor, problem)
    worst, excess = true_extremes(problem, answer)
    status, message = Status.OPTIMAL, "optimal"
    if answer.stopped:
        status = Status.FEASIBLE
        message = f"stopped: {answer.stopped}; never over, and the optimum is at most {answer.upper:.10g}; {_MORE}"
    return Solution(
        status, answer.value, answer.lower, answer.upper, worst, answer.method, message, answer.stats,
        worst_is_exact=answer.worst_is_exact, excess=excess, value_checked=answer.checked,
        _make_policy=answer.make_policy,
    )  # fmt: skip


def _stopped(model: CMDP, method: str, monitor: ResourceMonitor, reason: str) -> Solution:
    stats = Stats(0.0, 0, (), None, monitor.peak, "nodes" if method == "reduction" else "points")
    return Solution(
        Status.LIMIT, -math.inf, -math.inf, relaxed_value(model, monitor.seconds), {}, method,
        f"stopped: {reason}; {_MORE}", stats,
    )  # fmt: skip
