"""The method "frontier": one limited resource, as a value function over what remains of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.model.lattice import Lattice
from solvent.model.rounding import NO_LOWER, NO_UPPER
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.base import Answer, Estimate, Refusal, Run, check_limits, check_value
from solvent.solvers.bounds.kernels import DOWN
from solvent.solvers.frontier import frontiers
from solvent.solvers.frontier.following import visit
from solvent.solvers.problem import Problem
from solvent.solvers.solution import Stats

#: Outcomes that are followed in a second.
_USUAL_RATE = 2e8
#: Nodes of one step up to which a policy is followed to find its true worst case.
MOST_FOLLOWED = 2_000_000


def is_one_sided(lattice: Lattice) -> bool:
    """Whether one resource is limited, and on one side only."""
    if len(lattice.resources) != 1:
        return False
    return bool((lattice.lower_HD == NO_LOWER).all() or (lattice.upper_HD == NO_UPPER).all())


def refuse_other_limits(problem: Problem) -> Refusal | None:
    """Return why a problem does not have exactly one limited resource with limits on one side, or None."""
    lattice = problem.lattice
    if is_one_sided(lattice):
        return None
    found = (
        f"{len(lattice.resources)} limited resources ({', '.join(lattice.resources)})"
        if len(lattice.resources) != 1
        else f"both lower and upper limits of {lattice.resources[0]}"
    )
    return Refusal("one limited resource, with limits on one side", found)


def purse_of(lattice: Lattice) -> tuple[frontiers.Purse, bool]:
    """Return the one resource of a lattice as a purse, and whether its signs were turned (lower limits only)."""
    turned = bool((lattice.upper_HD == NO_UPPER).all() and (lattice.lower_HD != NO_LOWER).any())
    cost = np.ascontiguousarray(lattice.cost_OD[:, 0])
    if turned:
        lower = lattice.lower_HD[:, 0]
        return frontiers.Purse(-cost, np.where(lower == NO_LOWER, DOWN, lower), 0, 0), True
    upper = lattice.upper_HD[:, 0]
    return frontiers.Purse(cost, np.where(upper == NO_UPPER, DOWN, -upper), 0, 0), False


class FrontierSolver:
    """Value functions over the remaining budget, kept as Pareto points or swept as arrays."""

    name = "frontier"
    summary = "exact; one resource, limits on one side"

    def accepts(self, problem: Problem) -> Refusal | None:
        """Return None for one limited resource with limits on one side, otherwise what does not fit."""
        refusal = refuse_other_limits(problem)
        if refusal is None and problem.lumped and bool((problem.lattice.upper_HD == NO_UPPER).all()):
            # once no such limit is left, draws may lie below all amounts that have points; only the reduction
            # collapses these into one settled node
            found = f"continuous costs under lower limits of {problem.lattice.resources[0]}"
            return Refusal("upper limits where costs are continuous", found)
        return refusal

    def estimate(self, problem: Problem, run: Run) -> Estimate:
        """Return the expected work; the bounds on amounts that it needs are kept for the solve."""
        work = frontiers.Work(problem.model, purse_of(problem.lattice)[0], run.monitor)
        if run.options.arrays:
            return Estimate(0.0, work)
        return Estimate(2.0 if work.is_quicker_by_nodes() else 0.5, work)

    def discard(self, prepared: frontiers.Work | None, run: Run) -> None:
        """Release the memory of the bounds on amounts."""
        if prepared is not None:
            run.monitor.release(prepared.bytes)

    def solve(self, problem: Problem, run: Run, prepared: frontiers.Work | None = None) -> Answer:
        """Build the frontier of the start and follow its policy."""
        monitor, options = run.monitor, run.options
        purse, turned = purse_of(problem.lattice)
        found = frontiers.build(
            problem.model, purse, monitor, prepared, arrays=options.arrays, resolution=options.resolution
        )
        sizes = found.layer_sizes
        amounts = None
        if not problem.is_exact:
            low, high = problem.ends[0]
            amounts = found.distinct_amounts(*((low, high) if turned else (-high, -low)))
        stats = Stats(
            0.0, sum(sizes), sizes, None, monitor.peak, "arrays" if found.dense else "points", amounts,
            problem.most_amounts,
        )  # fmt: skip
        value = found.value(0)
        if value == -np.inf:
            return Answer.infeasible(self.name, stats, problem)
        # the value is known; following the policy to its worst case must not exceed the time limit
        most = float(np.diff(problem.model.outcome_indptr).max(initial=0)) * (prepared.amounts if prepared else 0.0)
        follow = MOST_FOLLOWED if options.follow is None else options.follow
        if not (problem.is_exact or monitor.has_time_for(most, _USUAL_RATE)):
            follow = 0
        visited = visit(problem.model, purse, found, 0, *_true_costs(problem, turned), follow, monitor)
        peak, trough = (-visited.trough, -visited.peak) if turned else (visited.peak, visited.trough)
        if problem.is_exact:
            check_limits(problem.lattice, peak[:, None], trough[:, None])

        def make_policy() -> AugmentedPolicy:
            sign = 1 if turned else -1
            model = problem.origin
            layers = [
                (state, sign * need[:, None], action) for state, need, action in found.layers(model, visited.used)
            ]
            return AugmentedPolicy.from_nodes(
                model, problem.lattice, problem.limits, layers=layers, lookup="at_least" if turned else "at_most",
                counting=problem.counting,
            )  # fmt: skip

        exact = visited.complete and problem.truth.exact
        rounding = problem.rounding(pooled=found.pooled)
        above, noise = found.above(value, rounding), found.noise(value, rounding)
        if visited.followed is None:
            below = found.extremes.below(value, rounding)
        else:
            below = visited.followed.below(rounding, found.resolution) + found.extremes.shifted(rounding)
            check_value(value, visited.followed, below, above)
        return Answer(
            value, value - below, value + above, self.name, stats, peak[:, None], trough[:, None], exact, make_policy,
            noise_above=noise, noise_below=below, checked=visited.followed is not None,
        )  # fmt: skip


def _true_costs(problem: Problem, turned: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most and the least that each outcome truly takes from what remains."""
    high, low = problem.truth.high_OD[:, 0], problem.truth.low_OD[:, 0]
    pair = (-low, -high) if turned else (high, low)
    return np.ascontiguousarray(pair[0]), np.ascontiguousarray(pair[1])


#: The instance that the registry refers to.
SOLVER = FrontierSolver()
