"""The optimal value for every size of an account that saturates: one solve for each size that matters.

If a resource does not saturate, another limit shifts all amounts, and one frontier has the values of all limits. If it
does, the distance between the limit and the floor matters, and each limit is a problem of its own. Two facts leave few
of them. Let V(b) be the optimal value with limit b, and w the most that the policy found for b ever spends:

    V is non-decreasing in b, since what is spent does not depend on the limit;
    V(b') = V(b) for w <= b' <= b, since the policy for b also keeps the limit w.

So sizes between two that have the same value need not be solved. The search goes down from the largest size: the next
one to solve is the largest below w. If it has the same value, because another policy is as good and spends less, the
size at which this value begins is found by bisection. That is one or two solves for most sizes at which the value
rises, and at most the logarithm of the number of sizes. Solves run side by side, each on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from solvent.core.engines import LOCAL, Engine, RayEngine
from solvent.core.limits import ResourceMonitor
from solvent.core.progress import NoProgress
from solvent.core.threads import one_thread, thread_count
from solvent.solvers.accuracy import SAME_POINT
from solvent.solvers.arrays import ModelArrays, TickCosts
from solvent.solvers.base import Answer, Run
from solvent.solvers.bounds.bounds import Bounds, look_ahead
from solvent.solvers.choice import solve_problem
from solvent.solvers.problem import Problem
from solvent.solvers.registry import AUTO


@dataclass(frozen=True)
class SizedProblem:
    """A problem with one limited resource, whose anytime upper limit varies."""

    problem: Problem

    def at(self, ticks: int, limit: Fraction | None = None) -> Problem:
        """Return the problem with a limit in ticks, which stands for `limit` if that lies between two of them."""
        lattice, limits = self.problem.lattice, self.problem.limits
        upper = (ticks * lattice.units[0] if limit is None else limit,) * self.problem.model.horizon
        return replace(
            self.problem,
            lattice=replace(lattice, upper_HD=np.full_like(lattice.upper_HD, ticks)),
            limits=replace(limits, upper=(upper,)),
        )

    def _bounds(self, ticks: int, monitor: ResourceMonitor) -> Bounds:
        model, lattice = self.problem.model, self.problem.lattice
        size = 8 * 4 * (model.horizon + 1) * model.n_states
        with monitor.borrowed(size, "bounds per step and state"):
            upper_HD = np.full_like(lattice.upper_HD, ticks)
            return look_ahead(model, TickCosts.of(lattice), upper_HD, lattice.lower_HD, monitor)

    def least_feasible(self, most: int, monitor: ResourceMonitor) -> int | None:
        """Return the least feasible limit up to `most`, in ticks; None if there is none."""
        lattice, starts = self.problem.lattice, self.problem.model.start_states
        initial = int(lattice.initial_D[0])
        reach = int(np.abs(lattice.cost_OD).max(initial=0)) * self.problem.model.horizon
        lowest = max(initial - reach, int(lattice.floor_D[0])) - 1

        def feasible(ticks: int) -> bool:
            return bool((self._bounds(ticks, monitor).safe_high[0, starts, 0] >= initial).all())

        return _first(feasible, min(lowest, most), most)

    def most_spent(self, monitor: ResourceMonitor) -> int:
        """Return the most that any policy can have spent after any step: with that limit, no policy can break it."""
        lattice, starts = self.problem.lattice, self.problem.model.start_states
        initial = int(lattice.initial_D[0])
        reach = int(np.abs(lattice.cost_OD).max(initial=0)) * self.problem.model.horizon
        floor = int(lattice.floor_D[0])
        highest = min(max(initial + reach, floor), int(lattice.ceiling_D[0]))
        lowest = max(initial - reach, floor) - 1

        def settled(ticks: int) -> bool:
            return bool((self._bounds(ticks, monitor).settled_high[0, starts, 0] >= initial).all())

        found = _first(settled, min(lowest, highest), highest)
        return highest if found is None else found


def _first(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the first integer above `low`, up to `high`, from which on a condition holds; None if there is none."""
    if not holds(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class SizeValues:
    """The optimal value as a step function of the limit.

    Attributes
    ----------
    need : ndarray of int64, shape (P,)
        Limits at which the value rises, in ticks, beginning with the least feasible one.
    value : ndarray of float64, shape (P,)
    error : float
        Bound on the difference between any of these values and the optimum.
    solves : int
        Number of sizes that were solved.
    """

    need: np.ndarray[tuple[int], np.dtype[np.int64]]
    value: np.ndarray[tuple[int], np.dtype[np.float64]]
    error: float
    solves: int


def values_by_size(sized: SizedProblem, most: int, monitor: ResourceMonitor, engine: Engine = LOCAL) -> SizeValues:
    """Return the optimal value for every limit up to `most` ticks; sizes are solved on the workers of an engine.

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    least = sized.least_feasible(most, monitor)
    if least is None:
        return SizeValues(np.empty(0, np.int64), np.empty(0), 0.0, 0)
    found = _Search(sized, least, most, monitor, engine)
    found.run()
    needs = sorted(found.value)
    values = [found.value[need] for need in needs]
    # a size solved last may have the value of a smaller one
    kept = [i for i in range(len(needs)) if i == 0 or not _same(values[i], values[i - 1])]
    points = np.array([needs[i] for i in kept], np.int64), np.maximum.accumulate([values[i] for i in kept])
    return SizeValues(*points, found.error + 2 * SAME_POINT * float(np.abs(points[1]).max()), found.solves)


class _Interval(NamedTuple):
    """Sizes between two that have been solved, with different values.

    Attributes
    ----------
    low, high : int
        Limits in ticks.
    below, above : float
        Their values.
    bisect : bool
        Whether the size to solve next is the one in the middle, instead of the largest.
    """

    low: int
    high: int
    below: float
    above: float
    bisect: bool

    @property
    def next(self) -> int:
        """The size to solve next."""
        return (self.low + self.high) // 2 if self.bisect else self.high - 1


class _Solved(NamedTuple):
    """The answer for one size.

    Attributes
    ----------
    begin : int
        The least limit that its policy keeps.
    value, error : float
        The optimal value, and a bound on its error.
    """

    begin: int
    value: float
    error: float


class _Search:
    """Solves sizes until the value of every size is known.

    Attributes
    ----------
    value : dict of int to float
        The value from each of these limits on, up to the next.
    error : float
        Bound on the difference between any of these values and the optimum.
    solves : int
        Number of sizes solved.
    """

    def __init__(
        self, sized: SizedProblem, least: int, most: int, monitor: ResourceMonitor, engine: Engine = LOCAL
    ) -> None:
        self._engine = engine
        self._sized, self._least, self._most, self._monitor = sized, least, most, monitor
        self.value: dict[int, float] = {}
        self.error, self.solves = 0.0, 0
        # with Ray, threads only wait for workers
        self._workers = engine.workers if isinstance(engine, RayEngine) else max(1, thread_count())
        self._waiting: list[_Interval] = []
        self._flag = monitor.new_flag()
        self._solved: dict[int, _Solved] = {}
        self._section = None
        if monitor.checkpoint is not None:
            problem = sized.problem
            arrays = (*ModelArrays.of(problem.model), *TickCosts.of(problem.lattice), problem.lattice.initial_D)
            content = (*arrays, problem.model.start_states, problem.model.start_probability, least, most)
            self._section = monitor.section("sizes", *content)
            self._load()

    def run(self) -> None:
        """Solve until the value of every size is known."""
        begins = [self._take(ticks, self._solve(ticks, 1)) for ticks in (self._least, self._most)]
        # from the middle first, so that there is work for every thread
        self._divide(*begins, bisect=True)
        running: dict[Future[_Solved], _Interval] = {}
        with one_thread(), ThreadPoolExecutor(self._workers, thread_name_prefix="solvent-sizes") as pool:
            try:
                while self._waiting or running:
                    while self._waiting and len(running) < self._workers:
                        interval = self._waiting.pop()
                        running[pool.submit(self._solve, interval.next, self._workers)] = interval
                    done, _ = wait(running, timeout=0.1, return_when=FIRST_COMPLETED)
                    for future in done:
                        interval = running.pop(future)
                        begin = self._take(interval.next, future.result())
                        tied = _same(self.value[begin], interval.above)
                        if not tied:
                            self.value.setdefault(interval.next, self.value[begin])
                            self._divide(interval.next, interval.high, bisect=interval.bisect)
                        self._divide(interval.low, begin, bisect=tied)
                    if self._monitor.should_save():
                        self._save()
                    self._monitor.check_time()
            except BaseException:
                self._flag[0] = True  # ends the solves that are running
                raise
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        self._save()
        self._monitor.check_time()

    def _divide(self, low: int, high: int, *, bisect: bool) -> None:
        """Note the sizes between two that have been solved, if their values are not known yet."""
        below, above = self.value[low], self.value[high]
        if high - low > 1 and not _same(below, above):
            self._waiting.append(_Interval(low, high, below, above, bisect))

    def _solve(self, ticks: int, beside: int) -> _Solved:
        """Solve one size with an equal share of the memory, of which `beside` solves run at the same time."""
        if ticks in self._solved:
            return self._solved[ticks]
        part = self._monitor.within(max(self._monitor.room // beside, 0), self._flag)
        part.sink = NoProgress()  # only the number of sizes is reported, by the thread that waits
        part.checkpoint = None  # only finished solves are saved, by the same thread
        if isinstance(self._engine, RayEngine):
            answer = self._engine.call(partial(_answer, self._sized, ticks, part.bytes), part.check_time)
        else:
            answer = solve_problem(self._sized.at(ticks), AUTO, Run(part))
        begin = max(min(int(answer.peak_HD.max()), ticks), self._least) if answer.worst_is_exact else ticks
        return _Solved(begin, answer.value, max(answer.upper - answer.value, answer.value - answer.lower))

    def _save(self) -> None:
        """Save the answers so far."""
        if self._section is not None:
            ticks = np.array([(ticks, each.begin) for ticks, each in self._solved.items()], np.int64).reshape(-1, 2)
            value = np.array([(each.value, each.error) for each in self._solved.values()]).reshape(-1, 2)
            self._section.save({"solves": len(ticks)}, {"ticks": ticks, "value": value})

    def _load(self) -> None:
        section = self._section
        if section is None or not section.state:
            return
        count = section.whole("solves", 0, 2**31)
        ticks, value = section.array("ticks", np.int64, (count, 2)), section.array("value", np.float64, (count, 2))
        inside = (ticks >= self._least) & (ticks <= self._most)
        if not inside.all() or (ticks[:, 1] > ticks[:, 0]).any() or not np.isfinite(value).all():
            raise section.damaged("ticks", f"limits from {self._least} to {self._most} and their values", "others")
        for (size, begin), (worth, error) in zip(ticks.tolist(), value.tolist(), strict=True):
            self._solved[size] = _Solved(begin, worth, error)

    def _take(self, ticks: int, answer: _Solved) -> int:
        """Record an answer; return the least limit that its policy keeps."""
        self._solved[ticks], begin = answer, answer.begin
        self.value[begin] = answer.value
        self.error = max(self.error, answer.error)
        self.solves += 1
        self._monitor.tell("sizes", self.solves, self.solves + 1, levels=len(self.value))
        return begin


def _answer(sized: SizedProblem, ticks: int, memory: int | None) -> Answer:
    """Return the answer for one size, without what cannot be sent from a worker: its policy."""
    with ResourceMonitor(None, memory) as monitor:
        answer = solve_problem(sized.at(ticks), AUTO, Run(monitor))
    return replace(answer, make_policy=None, live_box=None)


def _same(value: float, other: float) -> bool:
    return abs(value - other) <= SAME_POINT * max(abs(value), abs(other))
