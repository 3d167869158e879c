"""The method "reduction": any number of resources and any limits, by layers of reachable safe nodes."""

from __future__ import annotations

import numpy as np

from solvent.policy.table import AugmentedPolicy
from solvent.solvers.base import Answer, Estimate, Refusal, Run, check_limits, check_value
from solvent.solvers.problem import Problem
from solvent.solvers.reduction.following import trace
from solvent.solvers.reduction.reduce import Reduction, reduce
from solvent.solvers.solution import Stats


class ReductionSolver:
    """The paper's reduction (Algorithm 1): layers forward, values backward, with two exact prunings."""

    name = "reduction"
    summary = "exact; any number of resources, any limits"

    def accepts(self, problem: Problem) -> Refusal | None:
        """Return None: every problem is accepted."""
        return None

    def estimate(self, problem: Problem, run: Run) -> Estimate:
        """Return 1, the unit of the other estimates."""
        return Estimate(1.0)

    def discard(self, prepared: object, run: Run) -> None:
        """Do nothing: nothing was prepared."""

    def solve(self, problem: Problem, run: Run, prepared: object = None) -> Answer:
        """Expand layers of safe nodes, compute values backward and follow the policy."""
        found = reduce(
            problem.model, problem.lattice, run.monitor, prune=run.options.prune, truncation=problem.truncation,
            within=run.options.within, engine=run.engine,
        )  # fmt: skip
        return self.conclude(problem, run, found)

    def conclude(self, problem: Problem, run: Run, found: Reduction) -> Answer:
        """Follow the policy of a problem that has been reduced."""
        monitor = run.monitor
        model, lattice, prune = problem.model, problem.lattice, run.options.prune
        sizes = tuple(len(layer) for layer in found.layers)
        amounts = (
            None if problem.is_exact else max(layer.distinct_amounts(problem.settled_as) for layer in found.layers)
        )
        stats = Stats(
            0.0, sum(sizes), sizes, found.cost_diversity, monitor.peak, "nodes", amounts, problem.most_amounts
        )
        if found.value == -np.inf:
            return Answer.infeasible(self.name, stats, problem)
        traced = trace(model, lattice, found, problem.truth, monitor)
        if problem.is_exact:
            check_limits(lattice, traced.peak_HD, traced.trough_HD)
        rounding = problem.rounding(pooled=found.pooled)
        above = found.extremes.above(found.value, rounding) + found.start_error
        below = traced.followed.below(rounding) + found.extremes.shifted(rounding) + found.start_error
        check_value(found.value, traced.followed, below, above)

        def make_policy() -> AugmentedPolicy:
            kept = []
            for layer, rows, reached in zip(found.layers, found.rows, traced.reached, strict=True):
                row = rows[reached]
                at = reached[row >= 0]
                kept.append((layer.state_of(at), layer.spent[at], model.row_action[row[row >= 0]]))
            settled = [(found.bounds.settled_low[h], found.bounds.settled_high[h]) for h in range(model.horizon)]
            return AugmentedPolicy.from_nodes(
                problem.origin, lattice, problem.limits, layers=kept,
                settled=settled if prune or problem.truncation is not None else None, counting=problem.counting,
            )  # fmt: skip

        return Answer(
            found.value,
            found.value - below,
            found.value + above,
            self.name,
            stats,
            traced.peak_HD,
            traced.trough_HD,
            problem.truth.exact,
            make_policy,
            found.live_box,
            noise_above=above,
            noise_below=below,
        )


#: The instance that the registry refers to.
SOLVER = ReductionSolver()
