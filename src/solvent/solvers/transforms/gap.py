"""Closing a gap: a policy that never exceeds the budget, and an upper bound on the optimum.

Every round solves two problems that enclose the true one, and keeps the best bounds so far:

    one resource, one side    costs rounded to a length (fast sweeps of arrays), then frontiers on exact costs whose
                              values are rounded to a resolution: down for the policy, up for the bound
    anything else             costs rounded to lengths: away from the limits for the policy, toward them for the bound

Rounding values by at most delta at each of H steps moves the value at the start by at most H * delta for any costs,
with at most range / delta points for each step and state. Hence the gap of one resource always closes, in time
polynomial in H, S, A and 1 / delta. Lengths are halved until the bounds meet or no cost is rounded any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.checkpoint import Section
from solvent.core.engines import LOCAL, Engine
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.exact import exact as exact_number
from solvent.core.interrupt import settle
from solvent.core.limits import REACHED, LimitReached, ResourceMonitor, reason_of
from solvent.errors import LatticeOverflowError, ModelError, quote
from solvent.solvers.base import Answer, Run, SolverOptions
from solvent.solvers.bounds.bounds import Interval
from solvent.solvers.choice import solve_problem
from solvent.solvers.diagnosis import relaxed_value
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.frontier.solver import SOLVER as FRONTIER
from solvent.solvers.problem import Problem
from solvent.solvers.registry import AUTO
from solvent.solvers.solution import Round, Solution, Stats, relative_gap
from solvent.solvers.transforms.base import BudgetedModel, Exact, require_never_over, true_extremes
from solvent.solvers.transforms.infeasible import explain_infeasible
from solvent.solvers.transforms.rounding import RoundedCosts, finest_lengths

#: Bytes for trying the exact problem first, since many are small even if their costs are fine.
_FIRST_TRY = 12_000_000
#: With several resources, that is divided by this number, as rounded problems take less time; without randomness, it is
#: multiplied by another one, as a search with bounds is likely to end.
_OF_SEVERAL, _OF_CERTAIN = 4, 6
#: Amounts per resource in the first round: one resource, or several.
_FIRST_AMOUNTS = (512, 24)
#: A length is no longer halved if the last halving left more than this share of the gap.
_STALLED = 0.7
#: Number of amounts beyond which arrays of one resource do not grow; then values are rounded instead.
_MOST_AMOUNTS = 2**18
#: Number of ticks beyond which floats are not exact.
_FAR = 2.0**50
#: Numbers that are saved of a solve.
_NUMBERS = ("lower", "upper", "noise_below", "noise_above")
#: What is saved of whether there are bounds on the amounts of nodes: their position here.
_HAS_BOX = (None, False, True)
#: Why rounds end before the gap is closed, if no limit was reached.
_NO_FINER = "no finer rounding of the costs fits 64 bits"
#: Share of the allowed error to aim at, so that the next round is likely to be the last.
_AIM = 0.8


def read_gap(gap: Any) -> float:
    """Return a relative gap; a `ModelError` unless it is a number of at least 0, in any form that numbers take."""
    try:
        number = float(exact_number(gap, "gap"))
    except (ModelError, OverflowError):
        number = -1.0
    if number < 0:
        raise ModelError("gap", "a relative gap of at least 0, such as 0.01", quote(gap))
    return number


@dataclass
class _Found:
    """What a round keeps of a solve. All of it is in the checkpoint, so that no finished round is solved again.

    Attributes
    ----------
    lower, upper, noise_below, noise_above : float
        As of `Answer`.
    nodes : int
        Number of nodes or points.
    feasible : bool
    never_over : bool
        Whether the policy keeps the true limits.
    box : pair of ndarrays of int64, shape (H, S, D), or None
        Bounds on the amounts of nodes that are not dead ends, if the method has any.
    has_box : bool or None
        Whether it has; None if that was not asked.
    answer : Answer or None
        None if it is known from the checkpoint only, or if there is none.
    again : callable or None
        Computes it again.
    section : Section or None
        Where it is saved.
    """

    lower: float
    upper: float
    noise_below: float
    noise_above: float
    nodes: int
    feasible: bool
    never_over: bool
    box: Interval | None = None
    has_box: bool | None = None
    answer: Answer | None = None
    again: Callable[[], _Found] | None = None
    section: Section | None = None

    @classmethod
    def of(cls, problem: Problem, answer: Answer) -> _Found:
        """Return what a round keeps of an answer."""
        never_over = answer.feasible and not any(true_extremes(problem, answer)[1].values())
        return cls(
            answer.lower, answer.upper, answer.noise_below, answer.noise_above, answer.stats.nodes, answer.feasible,
            never_over, answer=answer,
        )  # fmt: skip

    @classmethod
    def load(cls, section: Section, shape: tuple[int, int, int]) -> _Found:
        """Return what was saved; boxes have the given shape."""
        lower, upper, below, above = (section.number(name) for name in _NUMBERS)
        if any(map(math.isnan, (lower, upper, below, above))):
            raise section.damaged("lower", "numbers", "others")
        feasible, never_over = (bool(section.whole(name, 0, 1)) for name in ("feasible", "never_over"))
        has_box = _HAS_BOX[section.whole("has_box", 0, 2)]
        box = (section.array("low", np.int64, shape), section.array("high", np.int64, shape)) if has_box else None
        nodes = section.whole("nodes", 0, 2**62)
        return cls(lower, upper, below, above, nodes, feasible, never_over, box, has_box, section=section)

    def save(self) -> None:
        """Save it, if it is new and there is a checkpoint."""
        if self.section is None or self.section.state:
            return
        state: dict[str, Any] = {name: float(getattr(self, name)).hex() for name in _NUMBERS}
        state |= {"nodes": int(self.nodes), "feasible": int(self.feasible), "never_over": int(self.never_over)}
        box = self.box
        arrays = {} if box is None else {"low": box[0], "high": box[1]}
        self.section.save({**state, "has_box": _HAS_BOX.index(self.has_box)}, arrays)

    def recall(self) -> Answer:
        """Return the answer, computed again if only what a round keeps of it is known."""
        if self.answer is None:
            assert self.again is not None
            self.answer = self.again().answer
        assert self.answer is not None
        return self.answer

    def live_box(self) -> Interval | None:
        """Return bounds on the amounts of nodes that are not dead ends, if the method has any."""
        if self.has_box is None:
            make = self.recall().live_box
            self.box, self.has_box = None if make is None else make(), make is not None
        return self.box


@dataclass
class _Bracket:
    """The bounds so far, and the policy that attains the lower one.

    Attributes
    ----------
    gap : float
        The relative gap to reach.
    upper, lower : float
        No policy is worth more than `upper`; the best one found is worth at least `lower`.
    noise_above, noise_below : float
        The part of the distance between the bounds that rounding errors can account for.
    held : int
        Bytes that stay reserved for the best answer so far.
    engine : Engine
        Where solves run.
    """

    gap: float
    upper: float
    monitor: ResourceMonitor
    announce: Callable[[Round], None] | None
    lower: float = -math.inf
    noise_above: float = 0.0
    noise_below: float = 0.0
    best: tuple[Exact | RoundedCosts, Problem, _Found] | None = None
    held: int = 0
    rounds: list[Round] = field(default_factory=list)
    is_infeasible: bool = False
    engine: Engine = LOCAL

    def find(self, given: BudgetedModel, compute: Callable[[], _Found], *content: Any) -> _Found:
        """Return the result of a part of a round, which `content` determines, from the checkpoint if it is there."""
        section, model, limits = None, given.model, given.limits
        if self.monitor.checkpoint is not None:
            budget = (limits.resources, limits.upper, limits.lower, limits.initial)
            section = self.monitor.section("round", model.fingerprint, budget, *content)
            if section is not None and section.state:
                found = _Found.load(section, (model.horizon, model.n_states, len(limits.resources)))
                found.again = compute
                return found
        self.recall()
        found = compute()
        found.section = section
        return found

    def recall(self) -> None:
        """Compute the best answer so far again, if only its bounds are known, because finished rounds were skipped.

        With another memory limit, another method may be chosen for it, whose policy has a lower bound of its own.
        """
        if self.best is None or self.best[2].answer is not None:
            return
        found, used = self.best[2], self.monitor.used
        answer = found.recall()
        self.held += self.monitor.used - used
        if not answer.feasible:
            assert found.section is not None
            raise found.section.damaged("feasible", "that of the same problem", "another")
        if answer.lower < self.lower:
            self.lower, self.noise_below = answer.lower, answer.noise_below

    def raise_lower(self, transform: Exact | RoundedCosts, problem: Problem, found: _Found) -> None:
        if found.lower > self.lower:
            self.lower, self.noise_below, self.best = found.lower, found.noise_below, (transform, problem, found)

    def lower_upper(self, upper: float, noise: float) -> None:
        if upper == -math.inf:
            self.is_infeasible = True
        elif upper < self.upper:
            self.upper, self.noise_above = upper, noise

    def settle(self, transform: Exact | RoundedCosts, problem: Problem, found: _Found) -> None:
        """Set both bounds from an answer that is optimal."""
        if found.feasible:
            self.lower, self.noise_below, self.best = found.lower, found.noise_below, (transform, problem, found)
            self.upper, self.noise_above = found.upper, found.noise_above
        else:
            self.is_infeasible = True

    def close_part(self, used: int, found: _Found) -> None:
        """Save a part of a round, and release what was reserved for it since `used`, unless it is the best so far."""
        found.save()
        taken = self.monitor.used - used
        if self.best is not None and self.best[2] is found:
            taken, self.held = self.held, taken
        self.monitor.release(taken)

    @property
    def met(self) -> bool:
        """Whether the distance between the bounds is due to rounding errors only."""
        return self.upper - self.lower <= 2 * (self.noise_below + self.noise_above)

    @property
    def done(self) -> bool:
        return self.is_infeasible or self.met or relative_gap(self.lower, self.upper) <= self.gap

    def close_round(self, nodes: int) -> None:
        gap = 0.0 if self.met else relative_gap(self.lower, self.upper)
        found = Round(self.lower, self.upper, gap, nodes, self.monitor.elapsed)
        self.rounds.append(found)
        if self.announce is not None:
            self.announce(found)


def close_gap(
    given: BudgetedModel,
    gap: float,
    monitor: ResourceMonitor,
    announce: Callable[[Round], None] | None = None,
    engine: Engine = LOCAL,
) -> Solution:
    """Find a policy that never exceeds the budget and bounds on the optimum that are close; see `solve`.

    `announce` is called with each round. On an interrupt, the best so far is returned.
    """
    bracket = _Bracket(gap, relaxed_value(given.model, monitor.seconds), monitor, announce, engine=engine)
    stopped = ""
    try:
        with engine.keeping_actors():
            for nodes in _rounds(given, bracket):
                bracket.close_round(nodes)
                if bracket.done:
                    break
                monitor.check_time()
            bracket.recall()
    except REACHED as reached:
        stopped = reason_of(reached)
    except KeyboardInterrupt as interrupt:
        settle(interrupt)
        stopped = "interrupted"
    return _conclude(given, bracket, stopped)


def _rounds(given: BudgetedModel, bracket: _Bracket) -> Iterator[int]:
    """Narrow the bracket round by round; yields the number of nodes or points of each."""
    exact: Problem | None
    try:
        exact = Exact().apply(given, bracket.monitor)
    except (LatticeOverflowError, ModelError):
        exact = None
    if exact is not None:
        nodes = _try_exactly(exact, bracket)
        if nodes is not None:
            yield nodes
            return
    limits, one_sided = given.limits, given.limits.is_one_sided
    if one_sided:  # where the resource saturates on the side of its limits, frontiers may not apply
        r = given.model.resource_index(limits.resources[0])
        end = given.model.floors[r] if all(x is None for x in limits.upper[0]) else given.model.ceilings[r]
        one_sided = end is None
    yield from _by_lengths(given, bracket, one_sided=one_sided, until_stalled=one_sided and exact is not None)
    if one_sided and exact is not None and not bracket.done:
        yield from _by_resolution(exact, bracket)


def _try_exactly(exact: Problem, bracket: _Bracket) -> int | None:
    """Solve the exact problem if it is small; returns the number of nodes, or None if it is not."""
    whole = bracket.monitor
    size = _FIRST_TRY
    if not exact.limits.is_one_sided:
        size = _FIRST_TRY * _OF_CERTAIN if exact.model.is_deterministic else _FIRST_TRY // _OF_SEVERAL
    trial = whole.within(max(min(whole.room, size), 0))
    try:
        answer = solve_problem(exact, AUTO, Run(trial, SolverOptions(follow=_FOLLOW), bracket.engine))
    except LimitReached:
        whole.check_time()
        return None
    whole.record_part(trial)
    bracket.settle(Exact(), exact, _Found.of(exact, answer))
    return answer.stats.nodes


#: Nodes of one step up to which a policy is followed to find its true worst case.
_FOLLOW = 200_000


def _by_lengths(given: BudgetedModel, bracket: _Bracket, *, one_sided: bool, until_stalled: bool) -> Iterator[int]:
    model, limits = given.model, given.limits
    spans = _spans(given, bracket.monitor)
    finest = finest_lengths(model, limits)
    monitor = bracket.monitor
    amounts, before, known = _FIRST_AMOUNTS[not one_sided], math.inf, None
    # bounds on live nodes of a round, and the same in the ticks of the next
    boxes = 0 if one_sided else 6 * 8 * model.horizon * model.n_states * len(limits.resources)
    monitor.reserve(boxes, "bounds per step and state")
    options = SolverOptions(arrays=True if one_sided else None, follow=_FOLLOW)
    while True:
        lengths = tuple(max(_power_of_two(span / amounts), least) for span, least in zip(spans, finest, strict=True))
        used = monitor.used
        transform = RoundedCosts(lengths, "relaxed")
        relaxed, bound = _solve_rounded(given, transform, options, known, bracket)
        nodes = bound.nodes
        if relaxed.is_exact or not bound.feasible:
            bracket.settle(transform, relaxed, bound)
        else:
            bracket.lower_upper(bound.upper, bound.noise_above)
            if bound.never_over:
                bracket.settle(transform, relaxed, bound)
        is_done = bracket.done
        if not is_done:
            known = _Known.of(relaxed, bound)
        bracket.close_part(used, bound)
        del relaxed, bound
        if not is_done:
            used = monitor.used
            transform = RoundedCosts(lengths, "rounded")
            rounded, answer = _solve_rounded(given, transform, options, known, bracket)
            nodes += answer.nodes
            bracket.raise_lower(transform, rounded, answer)
            bracket.close_part(used, answer)
            del rounded, answer
        yield nodes
        closed = relative_gap(bracket.lower, bracket.upper)
        if lengths == finest or (until_stalled and (closed > _STALLED * before or amounts >= _MOST_AMOUNTS)):
            return
        before = closed
        # errors shrink with the length: no finer than likely needed
        wanted = closed / (_AIM * bracket.gap) if bracket.gap > 0 else math.inf
        amounts *= next((factor for factor in (2, 4) if factor >= wanted), 8) if one_sided else 2


def _solve_rounded(
    given: BudgetedModel, transform: RoundedCosts, options: SolverOptions, known: _Known | None, bracket: _Bracket
) -> tuple[Problem, _Found]:
    """Return a problem with rounded costs, and what a round keeps of its solution."""
    monitor, problem = bracket.monitor, transform.apply(given, bracket.monitor)
    within = None if known is None else known.inside(problem)

    def compute() -> _Found:
        run = Run(monitor, replace(options, within=within), bracket.engine)
        return _Found.of(problem, solve_problem(problem, AUTO, run))

    return problem, bracket.find(given, compute, transform.scheme, transform.lengths, options.arrays, within)


@dataclass(frozen=True)
class _Known:
    """Bounds from a coarser round on the amounts of nodes that are not dead ends.

    A policy that keeps finer limits keeps the coarser, relaxed ones: each history that survives a later round has a
    counterpart here, and the two counts differ by at most the rounding so far.

    Attributes
    ----------
    problem : Problem
        The relaxed problem of that round.
    low, high : ndarray of int64, shape (H, S, D)
        Bounds in its ticks.
    """

    problem: Problem
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    @classmethod
    def of(cls, problem: Problem, found: _Found) -> _Known | None:
        box = found.live_box()
        return None if box is None else cls(problem, *box)

    def inside(self, finer: Problem) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the same bounds in another problem's ticks, widened by the rounding of both."""
        low, high = np.empty_like(self.low), np.empty_like(self.high)
        steps = np.arange(self.low.shape[0])[:, None]
        for d, counting in enumerate(self.problem.counting):
            if self.problem.limits.initial[d]:  # which may have been rounded as well
                steps = 1 + np.arange(self.low.shape[0])[:, None]
            ratio = float(self.problem.lattice.units[d] / finer.lattice.units[d])
            hidden = steps if finer.counting[d] != "exact" else 0
            below, above = (steps if counting == side else 0 for side in ("up", "down"))
            # floats are accurate enough for bounds that are a tick wider; bounds far away count as open
            least = np.floor((self.low[..., d] - np.float64(below)) * ratio) - hidden - 1
            most = np.ceil((self.high[..., d] + np.float64(above)) * ratio) + hidden + 1
            low[..., d] = _whole(least, MINUS_INFINITY)
            high[..., d] = _whole(most, PLUS_INFINITY)
        none = self.low == PLUS_INFINITY
        low[none], high[none] = PLUS_INFINITY, MINUS_INFINITY
        return low, high


def _whole(ticks: NDArray[np.float64], open_end: int) -> NDArray[np.int64]:
    near = np.abs(ticks) < _FAR
    return np.where(near, np.where(near, ticks, 0).astype(np.int64), open_end)


def _spans(given: BudgetedModel, monitor: ResourceMonitor) -> tuple[Fraction, ...]:
    """Return the range of the amounts of each tracked resource that need be distinguished."""
    # a small share of what sums can reach is fine enough for that
    trial = tuple(length * 2**53 for length in finest_lengths(given.model, given.limits))
    used = monitor.used
    problem = RoundedCosts(trial, "relaxed").apply(given, monitor)
    monitor.release(monitor.used - used)
    pairs = zip(problem.ends, problem.lattice.units, strict=True)
    return tuple((high - low + 1) * unit for (low, high), unit in pairs)


def _power_of_two(least: Fraction) -> Fraction:
    """Return the largest power of two up to a number, so that finer lengths divide coarser ones."""
    exponent = least.numerator.bit_length() - least.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= least else power / 2


def _by_resolution(exact: Problem, bracket: _Bracket) -> Iterator[int]:
    work = FrontierBounds.at_start(exact.model, SingleResource.of(exact.lattice), bracket.monitor)
    horizon = exact.model.horizon
    distance = bracket.upper - bracket.lower
    value = max(abs(bracket.upper), abs(bracket.lower) if math.isfinite(bracket.lower) else 0.0)
    # without a gap to aim at, the bounds are brought closer by a factor each time, down to rounding errors
    delta = (bracket.gap * value or (distance if math.isfinite(distance) else value) / 64) / horizon
    given, monitor = BudgetedModel(exact.origin, exact.limits), bracket.monitor

    def solve_down(delta: float) -> _Found:
        return _Found.of(exact, FRONTIER.solve(exact, Run(monitor, SolverOptions(False, delta, _FOLLOW)), work))

    def bound_above(delta: float) -> _Found:
        found = build(work, monitor, arrays=False, resolution=delta, up=True)
        value = found.value(work.resource.initial_left)
        above = found.above(value, exact.rounding(pooled=False))
        return _Found(-math.inf, value + above, 0.0, above, sum(found.layer_sizes), feasible=True, never_over=False)

    while True:
        used = monitor.used
        down = bracket.find(given, partial(solve_down, delta), "down", delta)
        nodes = down.nodes
        if not down.feasible:
            bracket.settle(Exact(), exact, down)
            yield nodes
            return
        bracket.raise_lower(Exact(), exact, down)
        bracket.close_part(used, down)
        del down
        used = monitor.used
        up = bracket.find(given, partial(bound_above, delta), "up", delta)
        bracket.lower_upper(up.upper, up.noise_above)
        nodes += up.nodes
        bracket.close_part(used, up)
        del up
        yield nodes
        gap = relative_gap(bracket.lower, bracket.upper)
        delta *= min(0.5, _AIM * bracket.gap / gap) if bracket.gap > 0 and math.isfinite(gap) else 0.125


def _conclude(given: BudgetedModel, bracket: _Bracket, stopped: str) -> Solution:
    rounds = tuple(bracket.rounds)
    nodes = sum(each.nodes for each in rounds)
    stats = replace(Stats.none(bracket.monitor.peak), nodes=nodes)
    if bracket.is_infeasible:
        return replace(explain_infeasible(given, AUTO, stats, bracket.monitor), rounds=rounds)
    if bracket.best is None or bracket.best[2].answer is None:
        make = Solution.limit if stopped else Solution.not_found
        before = "any policy was found" if bracket.best is None else "the best policy so far was computed again"
        message = f"{stopped or _NO_FINER}, before {before}"
        return replace(make(AUTO, stats, bracket.upper, message), rounds=rounds)
    transform, problem, best = bracket.best
    found = transform.invert(problem, best.recall())
    require_never_over(found)
    found = replace(found, stats=replace(found.stats, nodes=nodes, peak_bytes=bracket.monitor.peak))
    closed = relative_gap(bracket.lower, bracket.upper)
    if bracket.met:
        make_with, message = Solution.optimal, "the bounds have met"
    elif closed <= bracket.gap:
        make_with, message = Solution.within_gap, f"the gap is {closed:.3g}"
    else:
        make_with, message = Solution.feasible, f"{stopped or _NO_FINER}, with a gap of {closed:.3g}"
    return replace(make_with(found, bracket.lower, max(bracket.upper, found.value), message), rounds=rounds)
