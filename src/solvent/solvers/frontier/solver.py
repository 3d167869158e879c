"""The method "frontier": one limited resource, as a value function of the amount left."""

from __future__ import annotations

import numpy as np

from solvent.core.exact import PLUS_INFINITY
from solvent.policy.nodes import run_lookup
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.base import Answer, Estimate, Refusal, Run, check_limits, check_value
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.following import MAX_NODES, follow_policy
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.problem import Problem
from solvent.solvers.solution import Stats

#: Outcomes that are followed in a second.
_USUAL_RATE = 2e8


def refuse_other_limits(problem: Problem) -> Refusal | None:
    """Return why a problem does not have exactly one limited resource with limits on one side, or None."""
    if problem.limits.is_one_sided:
        return None
    resources = problem.limits.resources
    found = (
        f"{len(resources)} limited resources ({', '.join(resources)})"
        if len(resources) != 1
        else f"both lower and upper limits of {resources[0]}"
    )
    return Refusal("one limited resource, with limits on one side", found)


def refuse_cut_short(problem: Problem) -> Refusal | None:
    """Return why a single resource does not saturate only where much is left, or None."""
    if not problem.model.is_saturating or not SingleResource.cut_short(problem.lattice):
        return None
    expected = "no ceiling at or below an upper limit, and no floor at or above a lower one"
    return Refusal(expected, repr(problem.origin.resource(problem.limits.resources[0])))


class FrontierSolver:
    """Value functions over the remaining budget, kept as Pareto points or swept as arrays."""

    name = "frontier"
    summary = "exact; one resource, limits on one side"

    def accepts(self, problem: Problem) -> Refusal | None:
        """Return None for one limited resource with limits on one side, otherwise what does not fit."""
        refusal = refuse_other_limits(problem)
        if refusal is None and problem.lumped and bool((problem.lattice.upper_HD == PLUS_INFINITY).all()):
            # once no such limit is left, draws may lie below all amounts that have points; only the reduction
            # collapses these into one settled node
            found = f"continuous costs under lower limits of {problem.lattice.resources[0]}"
            return Refusal("upper limits where costs are continuous", found)
        return refusal or refuse_cut_short(problem)

    def estimate(self, problem: Problem, run: Run) -> Estimate:
        """Return the expected work; the bounds on amounts that it needs are kept for the solve."""
        bounds = FrontierBounds.at_start(problem.model, SingleResource.of(problem.lattice), run.monitor)
        if run.options.arrays:
            return Estimate(0.0, bounds)
        return Estimate(bounds.relative_work(), bounds)

    def discard(self, prepared: FrontierBounds | None, run: Run) -> None:
        """Release the memory of the bounds on amounts."""
        if prepared is not None:
            run.monitor.release(prepared.bytes)

    def solve(self, problem: Problem, run: Run, prepared: FrontierBounds | None = None) -> Answer:
        """Build the frontier of the start and follow its policy."""
        monitor, options = run.monitor, run.options
        resource = prepared.resource if prepared else SingleResource.of(problem.lattice)
        bounds = prepared or FrontierBounds.at_start(problem.model, resource, monitor)
        found = build(bounds, monitor, arrays=options.arrays, resolution=options.resolution)
        sizes = found.layer_sizes
        amounts = None
        if not problem.is_exact:
            amounts = found.distinct_amounts(*resource.range_left(*problem.ends[0]))
        stats = Stats(
            0.0, sum(sizes), sizes, None, monitor.peak, "arrays" if found.dense else "points", amounts,
            problem.most_amounts,
        )  # fmt: skip
        value = found.value(resource.initial_left)
        if value == -np.inf:
            return Answer.infeasible(self.name, stats, problem)
        # the value is known; following the policy to its worst case must not exceed the time limit
        most = problem.model.most_outcomes * (prepared.amounts if prepared else 0.0)
        follow = MAX_NODES if options.follow is None else options.follow
        if not (problem.is_exact or monitor.has_time_for(most, _USUAL_RATE)):
            follow = 0
        truth = None if problem.is_exact else problem.truth
        following = follow_policy(
            problem.model, resource, found, resource.initial_left, truth=truth, max_nodes=follow, monitor=monitor
        )
        trough, peak = resource.oriented(following.least, following.most)
        if problem.is_exact:
            check_limits(problem.lattice, peak[:, None], trough[:, None])

        def make_policy() -> AugmentedPolicy:
            model = problem.origin
            layers = [
                (state, resource.spent(need)[:, None], action)
                for state, need, action in found.layers(model, following.used)
            ]
            return AugmentedPolicy.from_nodes(
                model, problem.lattice, problem.limits, layers=layers, lookup=run_lookup(problem.limits),
                counting=problem.counting,
            )  # fmt: skip

        exact = following.complete and problem.truth.exact
        rounding = problem.rounding(pooled=found.pooled)
        above = found.above(value, rounding)
        noise = found.noise(value, rounding) if found.dense or found.resolution else above
        if following.followed is None:
            below = found.extremes.below(value, rounding) + found.start_error
        else:
            below = following.followed.below(rounding, found.resolution) + found.extremes.shifted(rounding)
            below += found.start_error
            check_value(value, following.followed, below, above)
        return Answer(
            value, value - below, value + above, self.name, stats, peak[:, None], trough[:, None], exact, make_policy,
            noise_above=noise, noise_below=below, checked=following.followed is not None,
        )  # fmt: skip


#: The instance that the registry refers to.
SOLVER = FrontierSolver()
