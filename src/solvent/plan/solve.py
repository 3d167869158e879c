"""`solve`: choose a method, run it, check what it found."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvent.errors import ModelError, SolventError, did_you_mean, quote
from solvent.model.budget import BudgetLike, Limits, resolve
from solvent.model.cmdp import CMDP, check_model
from solvent.model.lattice import NO_LOWER, NO_UPPER, Lattice
from solvent.model.progress import Progress
from solvent.plan import frontier, reduction
from solvent.plan.bound_kernels import DOWN
from solvent.plan.diagnose import diagnose, relaxed_value
from solvent.plan.limits import Allowance, LimitReached, read_memory, read_seconds
from solvent.plan.solution import Solution, Stats, Status
from solvent.policy.table import AugmentedPolicy

METHODS = ("auto", "reduction", "frontier")
#: The value of a policy, followed forward, may differ from the one computed backward by rounding: so much, relatively.
_AGREEMENT = 1e-9


def solve(
    model: CMDP,
    budget: BudgetLike | None = None,
    *,
    method: str = "auto",
    prune: bool = True,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    progress: bool = False,
) -> Solution:
    """Find a policy of greatest expected reward that never goes over budget, at no step and under no luck.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        The model's own default, if not given.
    method : {"auto", "reduction", "frontier"}
        "reduction" takes any number of resources and any limits; "frontier" takes one limited resource with limits on
        one side. "auto" takes the one it expects to be quicker. Both are exact.
    prune : bool
        Whether the reduction leaves out doomed nodes and strikes settled resources. Without, its layers are exactly
        the paper's.
    time_limit : float, optional
        Seconds after which to end with status "limit".
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
    `docs/guarantees.md`.

    Examples
    --------
    >>> from solvent.model import instances
    >>> solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50))
    Solution(optimal, value 220, worst spent weight 50, frontier)
    >>> solve(instances.partition([3, 1, 1])).status.value
    'infeasible'
    """
    began = time.perf_counter()
    if method not in METHODS:
        raise ModelError("method", f"one of {', '.join(METHODS)}", quote(method), did_you_mean(method, METHODS))
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    check_model(model)
    limits = resolve(model, budget)
    lattice = Lattice.fit(model, limits)
    with Progress(show=progress) as bar:
        allowance = Allowance(seconds, memory, bar.report if progress else None, began)
        chosen, work = _choose(model, lattice, method)
        try:
            allowance.check_time()
            if chosen == "frontier":
                solution = _by_frontier(model, limits, lattice, allowance, work)
            else:
                solution = _by_reduction(model, limits, lattice, allowance, prune=prune)
        except LimitReached as reached:
            solution = _stopped(model, chosen, allowance, str(reached))
    return replace(solution, stats=replace(solution.stats, seconds=time.perf_counter() - began))


def _one_sided(lattice: Lattice) -> bool:
    if len(lattice.resources) != 1:
        return False
    return bool((lattice.lower_HD == NO_LOWER).all() or (lattice.upper_HD == NO_UPPER).all())


def _choose(model: CMDP, lattice: Lattice, method: str) -> tuple[str, frontier.Work | None]:
    """Return the method to use, and the frontier's bounds if they were needed to decide."""
    if method == "frontier" and not _one_sided(lattice):
        found = (
            f"{len(lattice.resources)} limited resources ({', '.join(lattice.resources)})"
            if len(lattice.resources) != 1
            else f"both lower and upper limits of {lattice.resources[0]}"
        )
        raise ModelError(
            'method="frontier"',
            "one limited resource, with limits on one side",
            found,
            'use method="reduction", which takes any limits',
        )
    if method != "auto":
        return method, None
    if not _one_sided(lattice):
        return "reduction", None
    work = frontier.Work(model, purse_of(lattice)[0])
    return ("reduction", None) if work.is_quicker_by_nodes() else ("frontier", work)


def purse_of(lattice: Lattice) -> tuple[frontier.Purse, bool]:
    """Return the one resource of a lattice as a purse, and whether its signs were turned (lower limits only)."""
    turned = bool((lattice.upper_HD == NO_UPPER).all() and (lattice.lower_HD != NO_LOWER).any())
    cost = np.ascontiguousarray(lattice.cost_OD[:, 0])
    if turned:
        lower = lattice.lower_HD[:, 0]
        return frontier.Purse(-cost, np.where(lower == NO_LOWER, DOWN, lower), 0, 0), True
    upper = lattice.upper_HD[:, 0]
    return frontier.Purse(cost, np.where(upper == NO_UPPER, DOWN, -upper), 0, 0), False


def _by_frontier(
    model: CMDP, limits: Limits, lattice: Lattice, allowance: Allowance, work: frontier.Work | None
) -> Solution:
    purse, turned = purse_of(lattice)
    found = frontier.build(model, purse, allowance, work)
    value = found.value(0)
    sizes = found.layer_sizes
    stats = Stats(0.0, sum(sizes), sizes, None, allowance.peak, "arrays" if found.dense else "points")
    if value == -np.inf:
        return _infeasible(model, lattice, limits, "frontier", stats, allowance)
    visit = frontier.visit(model, purse, found, 0)
    _check_limits((purse.floor == DOWN) | (visit.least_left >= purse.floor))
    # what is left is minus what was spent, or the amount itself where signs were turned
    most_ticks = int(visit.most_left.max()) if turned else -int(visit.least_left.min())
    worst = {limits.resources[0]: lattice.amount(0, most_ticks)} if visit.complete or not turned else {}

    def make_policy() -> AugmentedPolicy:
        sign = 1 if turned else -1
        layers = [(state, sign * need[:, None], action) for state, need, action in found.layers(model, visit.used)]
        return AugmentedPolicy.from_nodes(
            model, lattice, limits, layers=layers, lookup="at_least" if turned else "at_most"
        )

    return Solution(
        Status.OPTIMAL, value, value, value, worst, "frontier", "optimal", stats,
        worst_is_exact=visit.complete, _make_policy=make_policy,
    )  # fmt: skip


def _by_reduction(model: CMDP, limits: Limits, lattice: Lattice, allowance: Allowance, *, prune: bool) -> Solution:
    found = reduction.reduce(model, lattice, allowance, prune=prune)
    sizes = tuple(len(layer) for layer in found.layers)
    stats = Stats(0.0, sum(sizes), sizes, found.cost_diversity, allowance.peak, "nodes")
    if found.value == -np.inf:
        return _infeasible(model, lattice, limits, "reduction", stats, allowance)
    traced = reduction.trace(model, lattice, found)
    _check_limits((traced.peak_HD <= lattice.upper_HD) & (traced.trough_HD >= lattice.lower_HD))
    expected = sum(
        float(weight[row >= 0] @ model.row_reward[row[row >= 0]])
        for weight, row in zip(traced.weight, found.rows, strict=True)
    )
    size = max(1.0, abs(found.value), model.horizon * float(np.abs(model.row_reward).max()))
    if abs(expected - found.value) > _AGREEMENT * size:
        raise SolventError(
            f"the policy is worth {expected!r} followed forward, but {found.value!r} was computed backward"
        )
    worst = {name: lattice.amount(d, int(traced.peak_HD[:, d].max())) for d, name in enumerate(limits.resources)}

    def make_policy() -> AugmentedPolicy:
        layers = []
        for layer, row, weight in zip(found.layers, found.rows, traced.weight, strict=True):
            keep = (weight > 0) & (row >= 0)
            layers.append((layer.state[keep], layer.spent[keep], model.row_action[row[keep]]))
        settled = [(found.bounds.settled_low[h], found.bounds.settled_high[h]) for h in range(model.horizon)]
        return AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers, settled=settled if prune else None)

    return Solution(
        Status.OPTIMAL, found.value, found.value, found.value, worst, "reduction", "optimal", stats,
        _make_policy=make_policy,
    )  # fmt: skip


def _check_limits(kept: NDArray[np.bool_]) -> None:
    if not kept.all():
        raise SolventError(
            f"the policy found breaks a limit at step {int(np.argwhere(~kept)[0][0])}; please report this"
        )


def _infeasible(
    model: CMDP, lattice: Lattice, limits: Limits, method: str, stats: Stats, allowance: Allowance
) -> Solution:
    # the answer is there; saying why may take as long again, and a second
    elapsed = time.perf_counter() - allowance.began
    left = math.inf if allowance.seconds is None else allowance.seconds - elapsed
    share = Allowance(max(min(1 + elapsed, left), 0.1), allowance.bytes)
    diagnosis = diagnose(model, lattice, limits, share)
    return Solution(
        Status.INFEASIBLE, -np.inf, -np.inf, -np.inf, {}, method, f"infeasible: {diagnosis}", stats, diagnosis
    )


def _stopped(model: CMDP, method: str, allowance: Allowance, reason: str) -> Solution:
    stats = Stats(0.0, 0, (), None, allowance.peak, "nodes" if method == "reduction" else "points")
    hint = "raise the limit, give the costs a coarser unit (fewer digits), or shorten the horizon"
    return Solution(
        Status.LIMIT, -np.inf, -np.inf, relaxed_value(model), {}, method, f"stopped: {reason}; {hint}", stats
    )
