"""Bounds that close: a policy that is never over, and how far from the optimum it can be at most.

Every round solves two problems that enclose the true one, and keeps the best bounds so far:

    one resource, one side    costs rounded to a length (quick sweeps of arrays), then frontiers on exact costs whose
                              values are rounded to a resolution: down for the policy, up for the bound
    anything else             costs rounded to lengths: away from the limits for the policy, toward them for the bound

Rounding values by at most delta at each of H steps moves the value at the start by at most H * delta, whatever the
costs are, with at most range / delta points for each step and state: so the gap of one resource always closes, in time
polynomial in H, S, A and 1 / delta. Lengths are halved until the bounds meet, or no cost is rounded any more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact as exact_number
from solvent.core.interrupt import settle
from solvent.core.limits import REACHED, LimitReached, ResourceMonitor, reason_of
from solvent.errors import LatticeOverflowError, ModelError, quote
from solvent.solvers.base import Answer, Run, SolverOptions
from solvent.solvers.bounds.kernels import DOWN, UP
from solvent.solvers.diagnosis import relaxed_value
from solvent.solvers.frontier import frontiers
from solvent.solvers.frontier.solver import SOLVER as FRONTIER
from solvent.solvers.frontier.solver import purse_of
from solvent.solvers.problem import Problem
from solvent.solvers.registry import AUTO, solve_problem
from solvent.solvers.solution import Round, Solution, Stats, relative_gap
from solvent.solvers.transforms.base import BudgetedModel, found_policy, require_never_over, true_extremes
from solvent.solvers.transforms.infeasible import explain_infeasible
from solvent.solvers.transforms.rounding import RoundedCosts, finest_lengths

#: The exact problem is tried first with this much memory, since many are small however fine their costs.
_FIRST_TRY = 12_000_000
#: Amounts per resource in the first round: one resource, or several.
_FIRST_AMOUNTS = (512, 24)
#: A length is no longer halved if that has not brought the bounds closer by so much.
_STALLED = 0.7
#: Arrays of one resource do not grow beyond so many amounts; then values are rounded instead.
_MOST_AMOUNTS = 2**18
#: Beyond so many ticks, floats would no longer be exact.
_FAR = 2.0**50
#: Why rounds end before the gap is closed, if no limit was reached.
_NO_FINER = "no finer rounding of the costs fits 64 bits"
#: Part of the allowed error that is aimed at, so that the next round is likely to be the last.
_AIM = 0.8


def read_gap(gap: Any) -> float:
    """Return a relative gap; a `ModelError` unless it is a number of at least 0, in any form that numbers take."""
    try:
        number = exact_number(gap, "gap")
    except ModelError:
        number = Fraction(-1)
    if number < 0:
        raise ModelError("gap", "a relative gap of at least 0, such as 0.01", quote(gap))
    return float(number)


@dataclass
class _Bracket:
    """The bounds so far, and the policy that attains the lower one.

    Attributes
    ----------
    gap : float
        Asked for.
    upper, lower : float
        No policy is worth more than `upper`, and the best one found is worth at least `lower`.
    noise_above, noise_below : float
        How much of the distance of these bounds the errors of the two answers can make up.
    held : int
        Bytes that the best answer so far keeps reserved.
    """

    gap: float
    upper: float
    monitor: ResourceMonitor
    announce: Callable[[Round], None] | None
    lower: float = -math.inf
    noise_above: float = 0.0
    noise_below: float = 0.0
    best: tuple[Problem, Answer] | None = None
    held: int = 0
    rounds: list[Round] = field(default_factory=list)
    is_infeasible: bool = False

    def raise_lower(self, problem: Problem, answer: Answer) -> None:
        if answer.lower > self.lower:
            self.lower, self.best, self.noise_below = answer.lower, (problem, answer), answer.noise_below

    def lower_upper(self, upper: float, noise: float) -> None:
        if upper == -math.inf:
            self.is_infeasible = True
        elif upper < self.upper:
            self.upper, self.noise_above = upper, noise

    def settle(self, problem: Problem, answer: Answer) -> None:
        """Take an answer that is the optimum itself."""
        if answer.feasible:
            self.lower, self.best, self.noise_below = answer.lower, (problem, answer), answer.noise_below
            self.upper, self.noise_above = answer.upper, answer.noise_above
        else:
            self.is_infeasible = True

    def close_part(self, used: int, answer: Answer) -> None:
        """Release what was reserved for an answer, beyond what was in use before, unless it is the best so far."""
        taken = self.monitor.used - used
        if self.best is not None and self.best[1] is answer:
            taken, self.held = self.held, taken
        self.monitor.release(taken)

    @property
    def met(self) -> bool:
        """Whether the bounds are no further apart than rounding errors make them."""
        return self.upper - self.lower <= 2 * (self.noise_below + self.noise_above)

    @property
    def done(self) -> bool:
        return self.is_infeasible or self.met or relative_gap(self.lower, self.upper) <= self.gap

    def close_round(self, nodes: int) -> None:
        gap = 0.0 if self.met else relative_gap(self.lower, self.upper)
        found = Round(self.lower, self.upper, gap, nodes, time.perf_counter() - self.monitor.began)
        self.rounds.append(found)
        if self.announce is not None:
            self.announce(found)


def close_gap(
    given: BudgetedModel, gap: float, monitor: ResourceMonitor, announce: Callable[[Round], None] | None = None
) -> Solution:
    """Find a policy that is never over and bounds on the optimum that are close; see `solve`.

    `announce` is told of each round. On an interrupt, the best so far is returned.
    """
    bracket = _Bracket(gap, relaxed_value(given.model, monitor.seconds), monitor, announce)
    stopped = ""
    try:
        for nodes in _rounds(given, bracket):
            bracket.close_round(nodes)
            if bracket.done:
                break
            monitor.check_time()
    except REACHED as reached:
        stopped = reason_of(reached)
    except KeyboardInterrupt as interrupt:
        settle(interrupt)
        stopped = "interrupted"
    return _conclude(given, bracket, stopped)


def _rounds(given: BudgetedModel, bracket: _Bracket) -> Iterator[int]:
    """Narrow the bracket round by round; yields how many nodes or points each took."""
    exact: Problem | None
    try:
        exact = Problem.exact(given.model, given.limits, monitor=bracket.monitor)
    except (LatticeOverflowError, ModelError):
        exact = None
    if exact is not None:
        nodes = _try_exactly(exact, bracket)
        if nodes is not None:
            yield nodes
            return
    limits = given.limits
    one_sided = len(limits.resources) == 1 and (
        all(x is None for x in limits.upper[0]) or all(x is None for x in limits.lower[0])
    )
    yield from _by_lengths(given, bracket, one_sided=one_sided, until_stalled=one_sided and exact is not None)
    if one_sided and exact is not None and not bracket.done:
        yield from _by_resolution(exact, bracket)


def _try_exactly(exact: Problem, bracket: _Bracket) -> int | None:
    """Solve the problem itself if it is small; returns how many nodes that took, or None."""
    whole = bracket.monitor
    trial = whole.within(max(min(whole.room, _FIRST_TRY), 0))
    try:
        answer = solve_problem(exact, AUTO, Run(trial, SolverOptions(follow=_FOLLOW)))
    except LimitReached:
        whole.check_time()
        return None
    whole.peak = max(whole.peak, whole.used + trial.peak)
    bracket.settle(exact, answer)
    return answer.stats.nodes


#: Nodes of one step that are followed to find the true worst case.
_FOLLOW = 200_000


def _by_lengths(given: BudgetedModel, bracket: _Bracket, *, one_sided: bool, until_stalled: bool) -> Iterator[int]:
    model, limits = given.model, given.limits
    spans = _spans(given, bracket.monitor)
    finest = finest_lengths(model, limits)
    monitor = bracket.monitor
    amounts, before, known = _FIRST_AMOUNTS[not one_sided], math.inf, None
    # what a round knows of dead ends, and the same in the ticks of the next
    boxes = 0 if one_sided else 6 * 8 * model.horizon * model.n_states * len(limits.resources)
    monitor.reserve(boxes, "bounds per step and state")
    options = SolverOptions(arrays=True if one_sided else None, follow=_FOLLOW)
    while True:
        lengths = tuple(max(_power_of_two(span / amounts), least) for span, least in zip(spans, finest, strict=True))
        used = monitor.used
        relaxed = RoundedCosts(lengths, "relaxed").apply(given, monitor)
        bound = solve_problem(relaxed, AUTO, Run(monitor, _within(options, known, relaxed)))
        nodes = bound.stats.nodes
        if relaxed.is_exact or not bound.feasible:
            bracket.settle(relaxed, bound)
        else:
            bracket.lower_upper(bound.upper, bound.noise_above)
            if not any(true_extremes(relaxed, bound)[1].values()):
                bracket.settle(relaxed, bound)
        is_done = bracket.done
        if not is_done:
            known = _Known.of(relaxed, bound)
        bracket.close_part(used, bound)
        del relaxed, bound
        if not is_done:
            used = monitor.used
            rounded = RoundedCosts(lengths, "rounded").apply(given, monitor)
            answer = solve_problem(rounded, AUTO, Run(monitor, _within(options, known, rounded)))
            nodes += answer.stats.nodes
            bracket.raise_lower(rounded, answer)
            bracket.close_part(used, answer)
            del rounded, answer
        yield nodes
        closed = relative_gap(bracket.lower, bracket.upper)
        if lengths == finest or (until_stalled and (closed > _STALLED * before or amounts >= _MOST_AMOUNTS)):
            return
        before = closed
        # errors shrink with the length: no finer than is likely to do
        wanted = closed / (_AIM * bracket.gap) if bracket.gap > 0 else math.inf
        amounts *= next((factor for factor in (2, 4) if factor >= wanted), 8) if one_sided else 2


@dataclass(frozen=True)
class _Known:
    """What a coarser round proved: between what amounts a node must lie if it is no dead end.

    A policy that keeps finer limits keeps the coarser, relaxed ones: each history that can go on in a later round has
    its counterpart here, and the two counts differ by at most what rounding can have hidden by then.

    Attributes
    ----------
    problem : Problem
        That round's relaxed one.
    low, high : ndarray of int64, shape (H, S, D)
        In its ticks.
    """

    problem: Problem
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    @classmethod
    def of(cls, problem: Problem, answer: Answer) -> _Known | None:
        return None if answer.live_box is None else cls(problem, *answer.live_box())

    def inside(self, finer: Problem) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the same bounds in another problem's ticks, wider by what rounding hides in both."""
        low, high = np.empty_like(self.low), np.empty_like(self.high)
        steps = np.arange(self.low.shape[0])[:, None]
        for d, counting in enumerate(self.problem.counting):
            ratio = float(self.problem.lattice.units[d] / finer.lattice.units[d])
            hidden = steps if finer.counting[d] != "exact" else 0
            below, above = (steps if counting == side else 0 for side in ("up", "down"))
            # floats are exact enough for a bound that is a tick wider; what is far away is as good as open
            least = np.floor((self.low[..., d] - np.float64(below)) * ratio) - hidden - 1
            most = np.ceil((self.high[..., d] + np.float64(above)) * ratio) + hidden + 1
            low[..., d] = _whole(least, DOWN)
            high[..., d] = _whole(most, UP)
        nobody = self.low == UP
        low[nobody], high[nobody] = UP, DOWN
        return low, high


def _whole(ticks: NDArray[np.float64], open_end: int) -> NDArray[np.int64]:
    near = np.abs(ticks) < _FAR
    return np.where(near, np.where(near, ticks, 0).astype(np.int64), open_end)


def _within(options: SolverOptions, known: _Known | None, problem: Problem) -> SolverOptions:
    return options if known is None else replace(options, within=known.inside(problem))


def _spans(given: BudgetedModel, monitor: ResourceMonitor) -> tuple[Fraction, ...]:
    """Return how far apart the amounts of each tracked resource can be that need be told apart."""
    # a hundredth of what sums can reach is fine enough for that
    trial = tuple(length * 2**53 for length in finest_lengths(given.model, given.limits))
    used = monitor.used
    problem = RoundedCosts(trial, "relaxed").apply(given, monitor)
    monitor.release(monitor.used - used)
    pairs = zip(problem.ends, problem.lattice.units, strict=True)
    return tuple((high - low + 1) * unit for (low, high), unit in pairs)


def _power_of_two(least: Fraction) -> Fraction:
    """Return the largest power of two that is no larger, so that finer lengths divide coarser ones."""
    exponent = least.numerator.bit_length() - least.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= least else power / 2


def _by_resolution(exact: Problem, bracket: _Bracket) -> Iterator[int]:
    purse, _ = purse_of(exact.lattice)
    work = frontiers.Work(exact.model, purse, bracket.monitor)
    horizon = exact.model.horizon
    distance = bracket.upper - bracket.lower
    value = max(abs(bracket.upper), abs(bracket.lower) if math.isfinite(bracket.lower) else 0.0)
    # with no gap to aim at, the bounds are brought closer by some factor each time, down to what rounding hides
    delta = (bracket.gap * value or (distance if math.isfinite(distance) else value) / 64) / horizon
    while True:
        used = bracket.monitor.used
        answer = FRONTIER.solve(exact, Run(bracket.monitor, SolverOptions(False, delta, _FOLLOW)), work)
        nodes = answer.stats.nodes
        if not answer.feasible:
            bracket.settle(exact, answer)
            yield nodes
            return
        bracket.raise_lower(exact, answer)
        bracket.close_part(used, answer)
        del answer
        used = bracket.monitor.used
        found = frontiers.build(exact.model, purse, bracket.monitor, work, arrays=False, resolution=delta, up=True)
        above = found.above(found.value(0), exact.rounding(pooled=False))
        bracket.lower_upper(found.value(0) + above, above)
        nodes += sum(found.layer_sizes)
        del found
        bracket.monitor.release(bracket.monitor.used - used)
        yield nodes
        gap = relative_gap(bracket.lower, bracket.upper)
        delta *= min(0.5, _AIM * bracket.gap / gap) if bracket.gap > 0 and math.isfinite(gap) else 0.125


def _conclude(given: BudgetedModel, bracket: _Bracket, stopped: str) -> Solution:
    rounds = tuple(bracket.rounds)
    nodes = sum(each.nodes for each in rounds)
    stats = replace(Stats.none(bracket.monitor.peak), nodes=nodes)
    if bracket.is_infeasible:
        return replace(explain_infeasible(given, AUTO, stats, bracket.monitor), rounds=rounds)
    if bracket.best is None:
        make = Solution.limit if stopped else Solution.not_found
        message = f"{stopped or _NO_FINER}, before any policy was found"
        return replace(make(AUTO, stats, bracket.upper, message), rounds=rounds)
    found = found_policy(*bracket.best)
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
