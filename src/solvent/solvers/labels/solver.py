"""The method "labels": one limited resource and no randomness, by label setting with bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import LimitReached
from solvent.errors import quote
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.base import Answer, Estimate, Refusal, Run, check_limits
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.frontier.solver import refuse_other_limits
from solvent.solvers.labels.search import best_path
from solvent.solvers.problem import Problem
from solvent.solvers.solution import Stats


class LabelsSolver:
    """Label setting with dominance and Lagrangian bounds; stopped by a limit, it has the best path and a bound."""

    name = "labels"
    summary = "exact; one resource, limits on one side, no randomness"

    def accepts(self, problem: Problem) -> Refusal | None:
        """Return None for one resource, limits on one side and no randomness, otherwise what does not fit."""
        model, other = problem.model, 'use method="frontier"'
        if not model.is_deterministic:
            row = int(np.argmax(np.diff(model.outcome_indptr)))
            found = f"{model.most_outcomes} outcomes of {quote(model.actions[model.row_action[row]])}"
            return Refusal("a model without randomness", found, other)
        refusal = refuse_other_limits(problem)
        if refusal is not None:
            return refusal
        if model.is_saturating and problem.lattice.saturates:
            found = repr(problem.origin.resource(problem.limits.resources[0]))
            return Refusal("a resource without a floor or a ceiling", found, other)
        if model.has_end_values:
            return Refusal("no end rewards and no goal", "a model with one of them", other)
        if isinstance(model.start, dict) and len(model.start_states) > 1:
            return Refusal("one first state", f"a distribution over {len(model.start_states)} states", other)
        if problem.lumped:
            # its policy would need one action for costs that are counted differently
            return Refusal("costs without a density", "continuous costs", other)
        return None

    def estimate(self, problem: Problem, run: Run) -> Estimate:
        """Return 0: where there is no randomness, no other method is faster."""
        plain = run.options.arrays is None and run.options.resolution == 0
        return Estimate(0.0 if plain else float("inf"))

    def discard(self, prepared: object, run: Run) -> None:
        """Do nothing: nothing was prepared."""

    def solve(self, problem: Problem, run: Run, prepared: object = None) -> Answer:
        """Search for the best path."""
        monitor = run.monitor
        model, lattice = problem.model, problem.lattice
        path = best_path(model, SingleResource.of(lattice).from_zero(), monitor, problem.drift)
        if path.stopped and not run.options.unfinished:
            raise LimitReached(path.stopped)
        amounts = None if problem.is_exact else max(path.sizes, default=0)
        stats = Stats(0.0, sum(path.sizes), path.sizes, None, monitor.peak, "labels", amounts, problem.most_amounts)
        if path.value == -np.inf:
            return Answer.infeasible(self.name, stats, problem)
        taken = path.row_H if path.row_H[-1] >= 0 else path.row_H[path.row_H >= 0]
        counted_HD = peak_HD = trough_HD = lattice.initial_D + _running(lattice.cost_OD.take(taken, 0), model.horizon)
        if not problem.is_exact:
            truth = problem.truth
            peak_HD = truth.high_accounts.initial_D + _running(truth.high_OD[taken], model.horizon)
            trough_HD = truth.low_accounts.initial_D + _running(truth.low_OD[taken], model.horizon)
        check_limits(lattice, counted_HD, counted_HD)

        def make_policy() -> AugmentedPolicy:
            before = np.concatenate([lattice.initial_D[None], counted_HD])
            state = np.append(model.start_index, model.next_state[taken])
            action = model.row_action[taken]
            # one node at each step, and none once the episode is over
            ends = [(h, min(h + 1, len(taken))) for h in range(model.horizon)]
            layers = [(state[h:end], before[h:end], action[h:end]) for h, end in ends]
            return AugmentedPolicy.from_nodes(
                problem.origin, lattice, problem.limits, layers=layers, counting=problem.counting
            )

        exact = problem.truth.exact
        return Answer(
            path.value, path.lower, path.upper, self.name, stats, peak_HD, trough_HD, exact, make_policy,
            stopped=path.stopped, noise_above=path.upper - path.value, noise_below=path.value - path.lower,
        )  # fmt: skip


def _running(cost_TD: NDArray[np.int64], horizon: int) -> NDArray[np.int64]:
    """Return what was spent after each step, shape (H, D), if nothing more is after the last cost."""
    if len(cost_TD) == horizon:
        return cost_TD.cumsum(axis=0)
    spent_HD = np.zeros((horizon, cost_TD.shape[1]), np.int64)
    spent_HD[: len(cost_TD)] = np.cumsum(cost_TD, axis=0)
    spent_HD[len(cost_TD) :] = spent_HD[len(cost_TD) - 1] if len(cost_TD) else 0
    return spent_HD


#: The instance that the registry refers to.
SOLVER = LabelsSolver()
