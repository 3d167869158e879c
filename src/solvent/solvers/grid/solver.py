"""The method "grid": several resources, as values over dense boxes of amounts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from solvent.core.array_files import temporary_folder
from solvent.core.engines import RayEngine
from solvent.core.limits import LimitReached
from solvent.policy.nodes import run_lookup
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.base import FEWER_AMOUNTS, Answer, Estimate, Refusal, Run, check_limits, check_value
from solvent.solvers.bounds.bounds import Interval
from solvent.solvers.frontier.solver import refuse_cut_short
from solvent.solvers.grid import kernels
from solvent.solvers.grid.choice import reduce_if_cheaper
from solvent.solvers.grid.following import follow
from solvent.solvers.grid.layout import MOST_CELLS, MOST_ROWS, BoxLayout, spans
from solvent.solvers.grid.runs import KeptRuns
from solvent.solvers.grid.spilled import plan_parts
from solvent.solvers.grid.sweep import DISTRIBUTED_FROM, sweep
from solvent.solvers.problem import Problem
from solvent.solvers.reduction.solver import SOLVER as REDUCTION
from solvent.solvers.solution import Stats
from solvent.solvers.starts import expectation_error, expected_value

#: Evaluations of a sweep beyond which it is not chosen unless asked for.
_MOST_WORK = 1e11
#: Number of amounts, counting those out of reach, beyond which no boxes are computed.
_FAR_TOO_MANY = 1e15
#: Evaluations per step of a sweep that takes no longer than the least a step of the reduction takes.
_SMALL_STEP = 3e5


def _frontier_is_better(problem: Problem) -> bool:
    """Whether there is one resource with limits on one side, for which frontiers have fewer points than amounts."""
    return problem.limits.is_one_sided and refuse_cut_short(problem) is None


class GridSolver:
    """Values over boxes of amounts: dense arrays that are swept backward at the speed of memory."""

    name = "grid"
    summary = "exact; any number of resources with few amounts, any limits"

    def accepts(self, problem: Problem) -> Refusal | None:
        """Return None unless nothing is limited or a state has too many actions."""
        if not problem.limits.resources:
            return Refusal("a limited resource", "none")
        most = int(np.diff(problem.model.row_indptr).max(initial=0))
        if most > MOST_ROWS:
            return Refusal(f"at most {MOST_ROWS:,} actions per state", f"{most:,}")
        amounts = float(np.prod(spans(problem.model, problem.lattice)))
        if amounts > _FAR_TOO_MANY:
            return Refusal("amounts that are few enough for a grid", f"up to {amounts:.1g} of them", FEWER_AMOUNTS)
        return None

    def estimate(self, problem: Problem, run: Run) -> Estimate:
        """Return the expected work; the boxes are kept for the solve."""
        if not run.options.prune or _frontier_is_better(problem):
            return Estimate(math.inf)
        model, monitor = problem.model, run.monitor
        size = 8 * 8 * (model.horizon + 1) * (model.n_states + 1) * (len(problem.limits.resources) + 1)
        if size > monitor.room // 2:
            return Estimate(math.inf)
        layout = BoxLayout.at_start(model, problem.lattice, monitor, within=run.options.within)
        sizes = layout.sizes
        fits = sizes.cells_H.max() <= MOST_CELLS and layout.work < _MOST_WORK and self._fits(layout, run)
        return Estimate(0.5 if fits else math.inf, layout)

    def _fits(self, layout: BoxLayout, run: Run) -> bool:
        """Whether values fit into memory, or can be kept elsewhere."""
        if layout.peak_bytes <= run.monitor.room / 2:
            return True
        if isinstance(run.engine, RayEngine) and layout.work >= DISTRIBUTED_FROM:
            return True
        return run.options.spill and plan_parts(layout, run.monitor.room) is not None

    def discard(self, prepared: BoxLayout | None, run: Run) -> None:
        """Release the memory of the boxes."""
        if prepared is not None:
            run.monitor.release(prepared.bytes)

    def solve(self, problem: Problem, run: Run, prepared: BoxLayout | None = None) -> Answer:
        """Sweep the boxes and follow the policy."""
        monitor = run.monitor
        model, lattice = problem.model, problem.lattice
        if prepared is not None and prepared.work > _SMALL_STEP * model.horizon:
            used = monitor.used
            try:
                found = reduce_if_cheaper(problem, run, prepared)
            except LimitReached:
                monitor.check_time()
                found = None  # layers do not fit into memory
                monitor.release(monitor.used - used)
            if found is not None:
                self.discard(prepared, run)
                return REDUCTION.conclude(problem, run, found)
        layout = prepared or BoxLayout.at_start(model, lattice, monitor, within=run.options.within)
        swept = sweep(layout, monitor, spill=run.options.spill, engine=run.engine)
        layout = swept.layout
        sizes = tuple(layout.sizes.cells_H[:-1].astype(np.int64).tolist())
        amounts = None if problem.is_exact else _distinct_amounts(layout, problem)
        stats = Stats(0.0, sum(sizes), sizes, None, monitor.peak, "amounts", amounts, problem.most_amounts)
        values = swept.value_of(lattice.initial_D[None])[0].tolist()
        value, start_error = expected_value(model, values), expectation_error(model, values)
        if value == -np.inf:
            return Answer.infeasible(self.name, stats, problem)
        trace, runs = follow(problem, swept, monitor, spill=run.options.spill), swept.runs
        stats = replace(stats, peak_bytes=monitor.peak)
        if problem.is_exact:
            check_limits(lattice, trace.peak_HD, trace.trough_HD)
        rounding = problem.rounding(pooled=False)
        above = swept.extremes.above(value, rounding) + start_error
        below = trace.followed.below(rounding) + swept.extremes.shifted(rounding) + start_error
        check_value(value, trace.followed, below, above)

        def make_policy() -> AugmentedPolicy:
            reached = (trace.layer(layout, h) for h in range(model.horizon))
            layers = ((state, spent, model.row_action[row]) for state, spent, row in reached)
            ends = (layout.bounds.settled_low, layout.bounds.settled_high)
            settled = [(layout.restored(ends[0][h]), layout.restored(ends[1][h])) for h in range(model.horizon)]
            return AugmentedPolicy.from_nodes(
                problem.origin, lattice, problem.limits, layers=layers, settled=settled,
                lookup=run_lookup(problem.limits), counting=problem.counting,
                folder=temporary_folder() if trace.is_stored else None,
            )  # fmt: skip

        def live_box() -> Interval:
            low, high = (np.empty_like(layout.bounds.safe_low[:-1]) for _ in range(2))
            assert isinstance(runs, KeptRuns)
            kernels.fill_live_box(layout.arrays, layout.bounds, layout.boxes, runs.all, low, high)
            return layout.restored(low), layout.restored(high)

        return Answer(
            value, value - below, value + above, self.name, stats, trace.peak_HD, trace.trough_HD, problem.truth.exact,
            make_policy, live_box if isinstance(runs, KeptRuns) else None, noise_above=above, noise_below=below,
        )  # fmt: skip


def _distinct_amounts(layout: BoxLayout, problem: Problem) -> int:
    """Return the largest number of amounts, over all states, that one step distinguishes."""
    boxes = layout.boxes
    some = boxes.width[:-1, :, 0] > 0
    low = np.where(some[..., None], boxes.low[:-1], np.iinfo(np.int64).max)
    high = np.where(some[..., None], boxes.low[:-1] + boxes.width[:-1] - 1, np.iinfo(np.int64).min)
    lows, highs = low.min(1), high.max(1)
    most = 0
    for first, last in zip(lows.tolist(), highs.tolist(), strict=True):
        count = 1
        for d, (a, b) in enumerate(zip(first, last, strict=True)):
            least, greatest = problem.ends[int(layout.order[d])]
            count *= min(max(b, least), greatest) - min(max(a, least), greatest) + 1 if a <= b else 0
        most = max(most, count)
    return most


#: The instance that the registry refers to.
SOLVER = GridSolver()
