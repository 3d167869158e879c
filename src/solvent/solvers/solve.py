"""`solve`: read the arguments, choose a transform and a method, and return a solution.

resolve budget -> transform.apply -> registry.choose -> solver.solve -> transform.invert -> Solution
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from solvent.core.arguments import read_switch
from solvent.core.checkpoint import EVERY, digest, open_checkpoint
from solvent.core.engines import open_engine
from solvent.core.interrupt import held_back
from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.core.preparation import working_time
from solvent.core.progress import ProgressLike, ProgressSink, open_progress
from solvent.errors import ModelError, quote
from solvent.model.amounts import quote_amounts
from solvent.model.budget import BudgetLike, SpentLike, resolve
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP, check_model
from solvent.solvers.finite import Request, solve_finite, stopped
from solvent.solvers.registry import AUTO, check_method, names
from solvent.solvers.solution import ROUND_HEADER, Round, Solution
from solvent.solvers.transforms.approximation import APPROXIMATIONS, check_approximation
from solvent.solvers.transforms.base import BudgetedModel
from solvent.solvers.transforms.discounted import read_limits, solve_discounted
from solvent.solvers.transforms.gap import read_gap
from solvent.solvers.transforms.rounding import EpsilonLike


def solve(
    model: CMDP | DiscountedCMDP,
    budget: BudgetLike | None = None,
    *,
    spent: SpentLike | None = None,
    method: str = AUTO,
    approximation: str | None = None,
    epsilon: EpsilonLike | None = None,
    strict: bool = False,
    gap: Any = None,
    prune: bool = True,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = EVERY,
    engine: str = "local",
    address: str | None = None,
    progress: ProgressLike = False,
) -> Solution:
    """Find a policy of greatest expected reward that never exceeds the budget: at any step, under any outcome.

    Parameters
    ----------
    model : CMDP or DiscountedCMDP
        A discounted model needs an `epsilon`.
    budget : number, Budget, or dict of them by resource, optional
        The model's own budget if not given.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step. Default: nothing.
    method : {"auto", "reduction", "frontier", "grid", "labels"}
        The algorithm. "reduction" accepts any number of resources and any limits; "grid" as well, if amounts are few
        enough for arrays; "frontier" one limited resource with limits on one side; "labels" models without randomness,
        with any limits. "auto" chooses the one expected to be fastest. Further methods can be installed as entry points
        of the group `solvent.solvers`.
    approximation : {"additive", "relative"}, optional
        Round costs instead of solving exactly. Accepts continuous costs and needs an `epsilon`.
    epsilon : number, or dict of them by resource, optional
        The most by which the policy may exceed a limit: an amount ("additive"), or a share of the budget ("relative";
        with limits that vary by step, of the smallest).
    strict : bool
        If True, an approximate policy never exceeds the budget, and `epsilon` says how finely costs are rounded.
    gap : number, optional
        Stop when the relative gap between bounds on the optimum is at most `gap`. The policy never exceeds the budget.
    prune : bool
        If False, the reduction keeps doomed nodes and does not collapse settled resources, so that its layers are
        exactly the paper's. Not possible together with `gap`.
    time_limit : float, optional
        Seconds. When they are used up, the best policy so far is returned if there is one (`gap`, "labels"), otherwise
        the status is "limit". Compilation does not count.
    memory_limit : int or str, optional
        Bytes, or text such as "8GB"; most of the free memory if not given. Checked before memory is allocated. Values
        of the method "grid" that do not fit are kept in temporary files (in TMPDIR), which is slower.
    checkpoint : path, optional
        Folder to which finished parts of the work are saved, so that they survive a crash. The same call goes on from
        there and returns the same solution, bit for bit; a checkpoint of another model, budget or method is refused.
        Ctrl-C and SIGTERM save once more. If saving fails, solving continues after a `CheckpointWarning`.
    checkpoint_every : float
        Seconds between two saves; 0 saves as often as possible.
    engine : {"local", "ray"}
        Where the solve runs: on the threads of this process, or on a Ray cluster (`pip install "solvent[ray]"`). The
        solution is the same, bit for bit. A connection to a cluster (`ray.init`) is used if there is one.
    address : str, optional
        With engine "ray": "auto" for a cluster that was started on this machine, "host:port" or "ray://host:port".
        Default: RAY_ADDRESS if it is set, otherwise an instance on this machine that ends with the call.
    progress : bool, "log", ProgressSink or callable
        If True, show progress on a terminal or in a notebook; if "log", log it under "solvent.progress". A callable is
        called with phase, done, total and facts.

    Returns
    -------
    Solution
        With status "infeasible" if no policy keeps the budget: that is an answer, not an error.

    Raises
    ------
    ModelError
        If the budget does not fit the model, or the method does not accept the problem.
    LatticeOverflowError
        If costs and limits have no common unit in which sums fit 64 bits.

    Notes
    -----
    Optimality is Theorem 3 of the paper (`thm: optimality`); the prunings and frontiers are proved exact in
    `docs/guarantees.md`. A relaxed policy is worth at least the optimum and exceeds a limit by at most epsilon
    (`thm: approx`, `cor: additive`, `cor: relative`); if it turns out never to exceed the budget, its status is
    "optimal".

    Examples
    --------
    >>> from solvent.model import instances
    >>> solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50))
    Solution(optimal, value 220, worst spent weight 50, labels)
    >>> solve(instances.partition([3, 1, 1])).status.value
    'infeasible'
    >>> hard = instances.paper(20, seed=2, budget=3)
    >>> solve(hard, approximation="relative", epsilon=0.1).status.value
    'relaxed'
    >>> solve(hard, approximation="relative", epsilon=0.1, strict=True).status.value
    'feasible'

    A run that is interrupted goes on from its checkpoint:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stopped = solve(hard, method="reduction", time_limit=1e-9, checkpoint=f"{folder}/run.ckpt")
    ...     found = solve(hard, method="reduction", checkpoint=f"{folder}/run.ckpt")
    >>> stopped.status.value, found.status.value
    ('limit', 'optimal')
    """
    began = working_time()
    request = read_request(model, method, approximation, epsilon, strict, gap, prune)
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    monitor = ResourceMonitor(seconds, memory, began=began)
    plain = checkpoint is None and checkpoint_every is EVERY and engine == "local" and address is None
    if plain:  # the most frequent; contexts take time
        return run_request(model, budget, spent, request, monitor, progress)
    identity = partial(_identity, model, budget, spent, request)
    with ExitStack() as stack:
        saved = stack.enter_context(open_checkpoint(checkpoint, checkpoint_every, "solve", identity))
        request = replace(request, engine=stack.enter_context(open_engine(engine, address)))
        monitor.checkpoint = saved
        monitor.began = working_time()  # without the time in which an engine starts
        return run_request(model, budget, spent, request, monitor, progress)


def _identity(
    model: CMDP | DiscountedCMDP, budget: BudgetLike | None, spent: SpentLike | None, request: Request
) -> dict[str, str]:
    """Return what must be equal for a solve to go on from a checkpoint; a gap may differ, as rounds do not."""
    if isinstance(model, DiscountedCMDP):
        limits = digest(tuple(read_limits(model, budget).items()))
    else:
        check_model(model)
        found = resolve(model, budget, spent)
        limits = digest((found.resources, found.upper, found.lower, found.initial))
    options = f"approximation={request.approximation}, epsilon={request.epsilon}, strict={request.strict}"
    options += f", prune={request.prune}"
    return {"model": model.fingerprint, "budget": limits, "method": request.method, "options": options}


def run_request(
    model: CMDP | DiscountedCMDP,
    budget: BudgetLike | None,
    spent: SpentLike | None,
    request: Request,
    monitor: ResourceMonitor,
    progress: ProgressLike = False,
) -> Solution:
    """Return the solution of a model; the arguments of `solve` that do not depend on it were read before."""
    asked = None
    if isinstance(model, DiscountedCMDP):
        if spent is not None:
            raise ModelError("spent", "none with a discounted model", quote_amounts(spent))
        with open_progress(progress) as bar, monitor:
            monitor.sink = bar
            solution = solve_discounted(model, budget, request, monitor)
    else:
        check_model(model)
        given = BudgetedModel(model, resolve(model, budget, spent))
        asked = (model, given.limits)
        try:
            with held_back(), monitor:
                if progress is False:  # the most frequent; contexts take time
                    solution = solve_finite(given, request, monitor)
                else:
                    with open_progress(progress) as monitor.sink:
                        solution = solve_finite(given, request, monitor, _RoundLog(monitor.sink) if progress else None)
        except LimitReached as reached:
            solution = stopped(given, request.method, monitor, str(reached))
    return solution.taking(monitor.elapsed, asked)


#: The request of a call without options.
_PLAIN = Request()


def read_request(
    model: Any,
    method: str,
    approximation: str | None,
    epsilon: EpsilonLike | None,
    strict: bool,
    gap: Any,
    prune: bool,
) -> Request:
    """Return the arguments of `solve` that say how to solve, after checking that they fit together."""
    if method is AUTO and approximation is epsilon is gap is None and strict is False and prune is True:
        return _PLAIN
    if isinstance(method, str) and method in APPROXIMATIONS:
        hint = (
            f'use approximation="{method}" for the approximation scheme of that name; with strict=True the policy '
            "never exceeds the budget"
        )
        raise ModelError("method", f"one of {', '.join((AUTO, *names()))}", quote(method), hint)
    check_method(method)
    strict, prune = read_switch("strict", strict), read_switch("prune", prune)
    discounted = isinstance(model, DiscountedCMDP)
    if approximation is not None:
        check_approximation(approximation)
    elif not discounted and (epsilon is not None or strict):
        found = "epsilon" if epsilon is not None else "strict=True"
        hint = "with strict=True the policy never exceeds the budget" if not strict else ""
        raise ModelError(found, 'together with approximation="additive" or "relative"', "no approximation", hint)
    if gap is not None and (approximation is not None or method != AUTO):
        found = f"approximation={quote(approximation)}" if approximation is not None else f"method={quote(method)}"
        raise ModelError("gap", "without method= and approximation=, which it chooses itself", found)
    if gap is not None and not prune:
        raise ModelError("gap", "without prune=False, as closing a gap relies on pruned layers", "prune=False")
    return Request(method, approximation, epsilon, strict, None if gap is None else read_gap(gap), prune)


class _RoundLog:
    """Shows the rounds of closing a gap as they are finished, under a heading."""

    def __init__(self, bar: ProgressSink) -> None:
        self._bar, self._begun = bar, False

    def __call__(self, found: Round) -> None:
        """Show one round."""
        if not self._begun:
            self._bar.message(ROUND_HEADER)
        self._begun = True
        self._bar.message(str(found))
