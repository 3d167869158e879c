"""The method "labels": models without randomness, by label setting with bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import LimitReached
from solvent.errors import quote
from solvent.model.lattice import AccountTicks, Lattice
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.base import FEWER_AMOUNTS, Answer, Estimate, Refusal, Run, check_limits
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.frontier.solver import refuse_cut_short
from solvent.solvers.grid.layout import spans
from solvent.solvers.labels.search import best_path
from solvent.solvers.labels.several import SeveralSearch
from solvent.solvers.problem import Problem
from solvent.solvers.solution import Stats

#: Rows times steps times amounts of a tiny problem.
_TINY = 5_000
#: Amounts beyond which differences of limits might not fit 64 bits.
_FAR = 2**60


class LabelsSolver:
    """Label setting with dominance and Lagrangian bounds; stopped by a limit, it has the best path and a bound."""

    name = "labels"
    summary = "exact; any resources and limits, no randomness"

    def accepts(self, problem: Problem) -> Refusal | None:
        """Return None for a model without randomness, otherwise what does not fit."""
        model = problem.model
        if not model.is_deterministic:
            row = int(np.argmax(np.diff(model.outcome_indptr)))
            found = f"{model.most_outcomes} outcomes of {quote(model.actions[model.row_action[row]])}"
            return Refusal("a model without randomness", found)
        if not problem.limits.resources:
            return Refusal("a limited resource", "no limits")
        if isinstance(model.start, dict) and len(model.start_states) > 1:
            return Refusal("one first state", f"a distribution over {len(model.start_states)} states")
        if problem.lumped:
            # its policy would need one action for costs that are counted differently
            return Refusal("costs without a density", "continuous costs")
        if not _is_plain(problem) and _reach(problem.lattice) > _FAR:
            found = f"sums of up to {_reach(problem.lattice):.3g}"
            return Refusal("amounts of at most 2**60 units", found, FEWER_AMOUNTS)
        return None

    def estimate(self, problem: Problem, run: Run) -> Estimate:
        """Return the expected work; 0 if the search, which is kept for the solve, has found the best path.

        For one resource with limits on one side no other method is faster. Other problems are searched with more and
        more labels, as long as that is expected to take less work than another method.
        """
        if run.options.arrays is not None or run.options.resolution != 0:
            return Estimate(float("inf"))
        if _is_plain(problem):
            return Estimate(0.0)
        if not run.options.prune or _is_tiny_frontier(problem):
            return Estimate(float("inf"))
        used = run.monitor.used
        try:
            search = SeveralSearch(problem, run.monitor)
        except LimitReached:
            run.monitor.check_time()
            run.monitor.release(run.monitor.used - used)
            return Estimate(float("inf"))
        return Estimate(search.run(compare=True), search)

    def discard(self, prepared: SeveralSearch | None, run: Run) -> None:
        """Release the memory of a search."""
        if prepared is not None:
            prepared.release()

    def solve(self, problem: Problem, run: Run, prepared: SeveralSearch | None = None) -> Answer:
        """Search for the best path."""
        monitor = run.monitor
        model, lattice = problem.model, problem.lattice
        if _is_plain(problem):
            path = best_path(model, SingleResource.of(lattice).from_zero(), monitor, problem.drift)
        else:
            search = prepared or SeveralSearch(problem, monitor)
            if not search.stopped:
                search.run()
            path = search.conclude()
        if path.stopped and not run.options.unfinished:
            raise LimitReached(path.stopped)
        amounts = None if problem.is_exact else max(path.sizes, default=0)
        stats = Stats(0.0, sum(path.sizes), path.sizes, None, monitor.peak, "labels", amounts, problem.most_amounts)
        if path.value == -np.inf:
            return Answer.infeasible(self.name, stats, problem)
        taken = path.row_H if path.row_H[-1] >= 0 else path.row_H[path.row_H >= 0]
        counted_HD = peak_HD = trough_HD = _running(lattice.accounts, lattice.cost_OD.take(taken, 0), model.horizon)
        if not problem.is_exact:
            truth = problem.truth
            peak_HD = _running(truth.high_accounts, truth.high_OD[taken], model.horizon)
            trough_HD = _running(truth.low_accounts, truth.low_OD[taken], model.horizon)
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


def _is_plain(problem: Problem) -> bool:
    """Whether the search for one resource applies: limits on one side, no saturation, no end rewards and no goal."""
    saturates = problem.model.is_saturating and problem.lattice.saturates
    return problem.limits.is_one_sided and not saturates and not problem.model.has_end_values


def _is_tiny_frontier(problem: Problem) -> bool:
    """Whether the method "frontier" solves a problem in less time than a search takes to begin."""
    model = problem.model
    if not problem.limits.is_one_sided or model.n_rows * model.horizon > _TINY:
        return False
    return model.n_rows * model.horizon * spans(model, problem.lattice)[0] <= _TINY and not refuse_cut_short(problem)


def _reach(lattice: Lattice) -> float:
    """Return an upper bound on all amounts and limits, in ticks."""
    limits = (lattice.upper_HD, lattice.lower_HD, lattice.initial_D, lattice.floor_D, lattice.ceiling_D)
    finite = (abs(float(each)) for limit in limits for each in _extremes(limit))
    costs = (abs(float(each)) for each in _extremes(lattice.cost_OD))
    return max(finite, default=0.0) + len(lattice.upper_HD) * max(costs, default=0.0)


def _extremes(ticks: NDArray[np.int64]) -> list[np.int64]:
    """Return the least and the greatest of all finite amounts."""
    finite = ticks[(ticks != PLUS_INFINITY) & (ticks != MINUS_INFINITY)]
    return [finite.min(), finite.max()] if len(finite) else []


def _running(accounts: AccountTicks, cost_TD: NDArray[np.int64], horizon: int) -> NDArray[np.int64]:
    """Return what was spent after each step, shape (H, D), if nothing more is after the last cost."""
    initial_D, floor_D, ceiling_D = accounts
    spent_HD = np.empty((horizon, cost_TD.shape[1]), np.int64)
    if (floor_D == MINUS_INFINITY).all() and (ceiling_D == PLUS_INFINITY).all():
        spent_HD[: len(cost_TD)] = initial_D + np.cumsum(cost_TD, axis=0)
    else:
        spent_D = initial_D
        for h, cost_D in enumerate(cost_TD):
            spent_HD[h] = spent_D = np.minimum(np.maximum(spent_D + cost_D, floor_D), ceiling_D)
    spent_HD[len(cost_TD) :] = spent_HD[len(cost_TD) - 1] if len(cost_TD) else initial_D
    return spent_HD


#: The instance that the registry refers to.
SOLVER = LabelsSolver()
