"""The three methods on a problem, exact or rounded: which to take, what it finds, and the check of what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import ModelError, SolventError, quote
from solvent.model.lattice import Lattice
from solvent.model.rounding import NO_LOWER, NO_UPPER
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.accuracy import AGREEMENT, Followed
from solvent.solvers.bounds.bounds import Interval
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.following import MAX_NODES, follow_policy
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.labels.search import best_path
from solvent.solvers.problem import Problem
from solvent.solvers.reduction import layers as reduction
from solvent.solvers.solution import Stats

#: Outcomes that are followed in a second.
_USUAL_RATE = 2e8
#: Nodes of one step that are followed to find the true worst case of a frontier's policy.
MOST_FOLLOWED = MAX_NODES


@dataclass(frozen=True)
class Answer:
    """What a method found for a problem.

    Attributes
    ----------
    value : float
        The optimum of the problem as computed; minus infinity if nothing is feasible there, and then only `method` and
        `stats` mean anything.
    lower, upper : float
        Bounds: the policy is worth at least `lower`, and no policy is worth more than `upper`. Both contain every
        rounding error and every tolerance.
    method : {"frontier", "labels", "reduction"}
    stats : Stats
    peak_HD, trough_HD : ndarray of int64, shape (H, D)
        The most and the least that the policy can truly have spent after each step, in the truth's ticks.
    worst_is_exact : bool
        Whether these are attained; else they are bounds.
    make_policy : callable
        Returns the policy, for the user's model.
    live_box : callable or None
        From the reduction: returns between what amounts the nodes of each step and state lie that are no dead ends.
    stopped : str
        Which limit ended the search before `upper` was as low as the value, if one did.
    noise_above, noise_below : float
        How far from the value rounding errors and tolerances alone can have brought each bound.
    checked : bool
        Whether the policy was followed forward and found to be worth what was computed backward.
    """

    value: float
    lower: float
    upper: float
    method: str
    stats: Stats
    peak_HD: NDArray[np.int64]
    trough_HD: NDArray[np.int64]
    worst_is_exact: bool
    make_policy: Callable[[], AugmentedPolicy] | None
    live_box: Callable[[], Interval] | None = None
    stopped: str = ""
    noise_above: float = 0.0
    noise_below: float = 0.0
    checked: bool = True

    @property
    def feasible(self) -> bool:
        """Whether there is a policy."""
        return self.make_policy is not None


@dataclass(frozen=True)
class Options:
    """How a method is to go about it.

    Attributes
    ----------
    arrays : bool or None
        Whether frontiers are swept as arrays or kept as points; None leaves that to them.
    resolution : float
        Values of points that differ by no more than this are rounded down to one.
    follow : int or None
        How many nodes of one step are followed to find the true worst case of a frontier's policy; None leaves that to
        `MOST_FOLLOWED`.
    prune : bool
        Whether the reduction leaves out doomed nodes and strikes settled resources.
    within : pair of ndarrays of int64, shape (H, S, D), or None
        What the reduction may leave out besides: nodes outside are known to be doomed.
    unfinished : bool
        Whether the best so far will do if a limit ends the search; else that is a `LimitReached`.
    """

    arrays: bool | None = None
    resolution: float = 0.0
    follow: int | None = None
    prune: bool = True
    within: Interval | None = None
    unfinished: bool = False


_USUAL = Options()


def run(
    problem: Problem,
    method: str,
    monitor: ResourceMonitor,
    *,
    options: Options = _USUAL,
    work: FrontierBounds | None = None,
) -> Answer:
    """Solve a problem by the method named, or by the one expected to be quicker ("auto").

    `work` saves time where the frontier's bounds were made already.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    ModelError
        If the method does not fit the problem.
    """
    monitor.check_time()
    chosen, made = _choose(problem, method, options, monitor)
    if chosen == "labels":
        return _by_paths(problem, monitor, options)
    if chosen == "frontier":
        return _by_frontier(problem, monitor, work or made, options)
    return _by_reduction(problem, monitor, options)


def is_one_sided(lattice: Lattice) -> bool:
    """Whether one resource is limited, and on one side only, so that frontiers will do."""
    if len(lattice.resources) != 1:
        return False
    return bool((lattice.lower_HD == NO_LOWER).all() or (lattice.upper_HD == NO_UPPER).all())


def _choose(
    problem: Problem, method: str, options: Options, monitor: ResourceMonitor
) -> tuple[str, FrontierBounds | None]:
    """Return the method to use, and the frontier's bounds if they were needed to decide."""
    lattice = problem.lattice
    if method in ("frontier", "labels"):
        _check_fits(problem, method)
    if method != "auto":
        return method, None
    if not is_one_sided(lattice) or _may_fall_below(problem):
        return "reduction", None
    if problem.model.is_certain and not problem.lumped and options.arrays is None and options.resolution == 0:
        return "labels", None
    work = FrontierBounds(problem.model, SingleResource.of(lattice), monitor)
    if options.arrays or not work.is_quicker_by_nodes():
        return "frontier", work
    monitor.release(work.bytes)
    return "reduction", None


def _check_fits(problem: Problem, method: str) -> None:
    """Refuse a method that does not fit the problem."""
    lattice, where = problem.lattice, f'method="{method}"'
    if not is_one_sided(lattice):
        found = (
            f"{len(lattice.resources)} limited resources ({', '.join(lattice.resources)})"
            if len(lattice.resources) != 1
            else f"both lower and upper limits of {lattice.resources[0]}"
        )
        expected, hint = (
            "one limited resource, with limits on one side",
            'use method="reduction", which takes any limits',
        )
        raise ModelError(where, expected, found, hint)
    if method == "labels" and not problem.model.is_certain:
        sizes = np.diff(problem.model.outcome_indptr)
        row = int(np.argmax(sizes))
        found = f"{sizes[row]} outcomes of {quote(problem.model.actions[problem.model.row_action[row]])}"
        raise ModelError(where, "a model that leaves nothing to chance", found, 'use method="frontier"')


def _may_fall_below(problem: Problem) -> bool:
    """Whether draws may lie below all amounts that a frontier under lower limits has points for.

    Once no such limit is left they may do so, and only the reduction knows such amounts as settled.
    """
    return problem.lumped and bool((problem.lattice.upper_HD == NO_UPPER).all())


def _by_frontier(problem: Problem, monitor: ResourceMonitor, work: FrontierBounds | None, options: Options) -> Answer:
    resource = SingleResource.of(problem.lattice)
    bounds = work or FrontierBounds(problem.model, resource, monitor)
    found = build(bounds, monitor, arrays=options.arrays, resolution=options.resolution)
    sizes = found.layer_sizes
    amounts = None
    if not problem.is_exact:
        amounts = found.distinct_amounts(*resource.range_left(*problem.ends[0]))
    stats = Stats(
        0.0, sum(sizes), sizes, None, monitor.peak, "arrays" if found.dense else "points", amounts,
        problem.most_amounts,
    )  # fmt: skip
    value = found.value(0)
    if value == -np.inf:
        return _nothing("frontier", stats, problem)
    # the answer is there: following it to its worst case must not take it away
    most = float(np.diff(problem.model.outcome_indptr).max(initial=0)) * (work.amounts if work else 0.0)
    follow = MOST_FOLLOWED if options.follow is None else options.follow
    if not (problem.is_exact or monitor.has_time_for(most, _USUAL_RATE)):
        follow = 0
    true_cost = resource.oriented(problem.truth.low_OD[:, 0], problem.truth.high_OD[:, 0])
    followed = follow_policy(problem.model, resource, found, true_cost=true_cost, max_nodes=follow, monitor=monitor)
    trough, peak = resource.oriented(followed.least, followed.most)
    if problem.is_exact:
        _check_limits(problem.lattice, peak[:, None], trough[:, None])

    def make_policy() -> AugmentedPolicy:
        model = problem.origin
        layers = [
            (state, resource.spent(need)[:, None], action) for state, need, action in found.layers(model, followed.used)
        ]
        return AugmentedPolicy.from_nodes(
            model, problem.lattice, problem.limits, layers=layers, lookup=resource.lookup,
            counting=problem.counting,
        )  # fmt: skip

    exact = followed.complete and problem.truth.exact
    rounding = problem.rounding(pooled=found.pooled)
    above, noise = found.above(value, rounding), found.noise(value, rounding)
    if followed.followed is None:
        below = found.extremes.below(rounding)
    else:
        below = followed.followed.below(rounding, found.resolution) + found.extremes.shifted(rounding)
        _check_value(value, followed.followed, below, above)
    return Answer(
        value, value - below, value + above, "frontier", stats, peak[:, None], trough[:, None], exact, make_policy,
        noise_above=noise, noise_below=below, checked=followed.followed is not None,
    )  # fmt: skip


def _by_paths(problem: Problem, monitor: ResourceMonitor, options: Options) -> Answer:
    model, lattice = problem.model, problem.lattice
    path = best_path(model, SingleResource.of(lattice), monitor, problem.drift)
    if path.stopped and not options.unfinished:
        raise LimitReached(path.stopped)
    amounts = None if problem.is_exact else max(path.sizes, default=0)
    stats = Stats(0.0, sum(path.sizes), path.sizes, None, monitor.peak, "labels", amounts, problem.most_amounts)
    if path.value == -np.inf:
        return _nothing("labels", stats, problem)
    taken = path.row_H[path.row_H >= 0]
    counted_HD, peak_HD, trough_HD = (
        _running(cost_OD[taken], model.horizon)
        for cost_OD in (lattice.cost_OD, problem.truth.high_OD, problem.truth.low_OD)
    )
    _check_limits(lattice, counted_HD, counted_HD)

    def make_policy() -> AugmentedPolicy:
        before = np.concatenate([np.zeros((1, 1), np.int64), counted_HD])
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
        path.value, path.lower, path.upper, "labels", stats, peak_HD, trough_HD, exact, make_policy,
        stopped=path.stopped, noise_above=path.upper - path.value, noise_below=path.value - path.lower,
    )  # fmt: skip


def _running(cost_TD: NDArray[np.int64], horizon: int) -> NDArray[np.int64]:
    """Return what was spent after each step, shape (H, D), if nothing more is after the last cost."""
    spent_HD = np.zeros((horizon, cost_TD.shape[1]), np.int64)
    spent_HD[: len(cost_TD)] = np.cumsum(cost_TD, axis=0)
    spent_HD[len(cost_TD) :] = spent_HD[len(cost_TD) - 1] if len(cost_TD) else 0
    return spent_HD


def _by_reduction(problem: Problem, monitor: ResourceMonitor, options: Options) -> Answer:
    model, lattice, prune = problem.model, problem.lattice, options.prune
    found = reduction.reduce(model, lattice, monitor, prune=prune, truncation=problem.truncation, within=options.within)
    sizes = tuple(len(layer) for layer in found.layers)
    amounts = None if problem.is_exact else max(layer.distinct_amounts(problem.settled_as) for layer in found.layers)
    stats = Stats(0.0, sum(sizes), sizes, found.cost_diversity, monitor.peak, "nodes", amounts, problem.most_amounts)
    if found.value == -np.inf:
        return _nothing("reduction", stats, problem)
    traced = reduction.trace(model, lattice, found, problem.truth.high_OD, problem.truth.low_OD, monitor)
    if problem.is_exact:
        _check_limits(lattice, traced.peak_HD, traced.trough_HD)
    rounding = problem.rounding(pooled=found.pooled)
    above = found.extremes.above(found.value, rounding)
    below = traced.followed.below(rounding) + found.extremes.shifted(rounding)
    _check_value(found.value, traced.followed, below, above)

    def make_policy() -> AugmentedPolicy:
        layers = []
        for layer, row, weight in zip(found.layers, found.rows, traced.weight, strict=True):
            keep = (weight > 0) & (row >= 0)
            layers.append((layer.state[keep], layer.spent[keep], model.row_action[row[keep]]))
        settled = [(found.bounds.settled_low[h], found.bounds.settled_high[h]) for h in range(model.horizon)]
        return AugmentedPolicy.from_nodes(
            problem.origin, lattice, problem.limits, layers=layers,
            settled=settled if prune or problem.truncation is not None else None, counting=problem.counting,
        )  # fmt: skip

    return Answer(
        found.value,
        found.value - below,
        found.value + above,
        "reduction",
        stats,
        traced.peak_HD,
        traced.trough_HD,
        problem.truth.exact,
        make_policy,
        found.live_box,
        noise_above=above,
        noise_below=below,
    )


def _nothing(method: str, stats: Stats, problem: Problem) -> Answer:
    none = np.zeros((0, len(problem.limits.resources)), np.int64)
    return Answer(-np.inf, -np.inf, -np.inf, method, stats, none, none, worst_is_exact=True, make_policy=None)


def _check_limits(lattice: Lattice, peak_HD: NDArray[np.int64], trough_HD: NDArray[np.int64]) -> None:
    kept = (peak_HD <= lattice.upper_HD) & (trough_HD >= lattice.lower_HD)
    if not kept.all():
        raise SolventError(
            f"the policy found breaks a limit at step {int(np.argwhere(~kept)[0][0])}; please report this"
        )


def _check_value(value: float, followed: Followed, below: float, above: float) -> None:
    """Raise unless a policy, followed forward, is worth what was computed backward, up to the errors of both."""
    noise = AGREEMENT * followed.total + followed.floor + len(followed.size) * 2.0**-1060
    if not value - below - noise <= followed.value <= value + above + noise:
        raise SolventError(
            f"the policy is worth {followed.value!r} followed forward, but {value!r} was computed backward; "
            "please report this"
        )
