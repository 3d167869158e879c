"""The fixed points behind least levels, in ticks.

Let a *level* be what is left of the resource, K the capacity, and L(s) the level with which a state s must be entered.
A row a with outcomes (cost c, next state s') can be taken with

    need(a, L) = max(0, max over outcomes of c + L(s')),     impossible if that is more than K,

because min(level - c, K) >= L(s') for levels L(s') <= K if and only if level >= c + L(s'). More is never worse, so that
each question has one least level per state, and sets of nodes (state, level) are functions L. In a reload state, L is 0
if the least need of its rows is possible. Levels are whole ticks in 0..K, or infinite.

*Survive* (`survive`). L is enough forever if and only if L(s) >= min over rows of need(a, L) in every state that has
rows. Such L are closed under minima, and the least of them is the limit of

    L_0 = 0,     L_k+1(s) = min over rows of need(a, L_k),

where L_k is what k steps need. The sequence rises, in whole ticks up to K, so it ends. Levels that are finite are at
most S times the largest cost: if there were a larger gap between two consecutive levels, all levels above it could be
lowered by one. With a capacity above that, a level is infinite as soon as it exceeds that bound.

If no cost is negative, this takes no longer with a finer unit or a larger capacity. Let Z be the greatest set of states
in which L can stay 0: terminal and reload states, and those with a row of cost 0 into Z. The least levels to reach Z
surely (see below) are sufficient, and they are least unless outcomes of cost 0 form a cycle outside Z: where L is
smaller than them, an adversary can keep the process outside Z forever, at a finite total cost, and so at no cost from
some step on. Reload states that cannot be left with the capacity are found in turn, and excluded.

*Reach surely* (`reach_surely`). The limit of the falling sequence that begins with 0 in goals and infinity elsewhere,

    L_k+1(s) = min over rows of need(a, L_k),

where L_k is what it needs to reach a goal within k steps. Levels are made final in increasing order, as in Dijkstra's
algorithm; if costs are negative, a level may fall again.

*Reach almost surely* (`reach_almost_surely`). With X what every outcome needs, and Y what one outcome needs,

    Y_k+1(s) = min over rows of max(need(a, X), max(0, min over outcomes of c + Y_k(s')))

falls to the least level to stay within X and to have a chance of reaching a goal within finitely many steps. X begins
with what survival until a goal needs. Every winning strategy keeps to X and to such Y, so the next X is the least one
above Y that survival allows. When Y = X, there is a chance of reaching a goal that is bounded below, again and again.

If no cost is negative, levels that rise need not rise by single costs, as they would where chance can charge a cost
again and again. A lower bound is what it takes to reach goals, or Z, surely, if outcomes within a strongly connected
part of the graph of outcomes of cost 0 do not count: all other outcomes lead to a smaller level, or to a later part.

The rules that lower a level (state, level, row) are recorded in order. An agent follows the first rule of its state
whose level it has: every outcome (surely) or one outcome (almost surely) leads to a state with an earlier rule whose
level it has.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.solvers.levels import kernels
from solvent.solvers.levels.arrays import IMPOSSIBLE, Falling, LevelArrays, Rising, RuleArrays, StateKinds

#: Rounds of reaching almost surely before bounds are computed that make levels rise faster.
_ROUNDS = 2


@dataclass(frozen=True)
class LevelProblem:
    """A model in ticks.

    Attributes
    ----------
    arrays : LevelArrays
    capacity : int
        Ticks.
    reload_S : ndarray of bool, shape (S,)
        The reload states.
    monitor : ResourceMonitor
    """

    arrays: LevelArrays
    capacity: int
    reload_S: NDArray[np.bool_]
    monitor: ResourceMonitor

    @cached_property
    def free_loops(self) -> NDArray[np.bool_]:
        """Outcomes of cost 0 that are part of a cycle of such outcomes, shape (O,)."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        arrays, n = self.arrays, self.n_states
        before = arrays.state_of_row[arrays.row_of_outcome]
        free = arrays.cost == 0
        edges = (np.ones(int(free.sum()), np.int32), (before[free], arrays.next_state[free]))
        _, part_S = connected_components(csr_array(edges, shape=(n, n)), directed=True, connection="strong")
        looped: NDArray[np.bool_] = free & (part_S[before] == part_S[arrays.next_state])
        return looped

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return len(self.reload_S)

    @property
    def n_rows(self) -> int:
        """Number of rows R."""
        return len(self.arrays.state_of_row)

    @property
    def most_cost(self) -> int:
        """The largest cost, at least 0."""
        return max(int(self.arrays.cost.max(initial=0)), 0)

    @property
    def charges(self) -> bool:
        """Whether some cost is negative."""
        return bool(self.arrays.cost.min(initial=0) < 0)

    def needs(self, level_S: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the level that each row needs, shape (R,)."""
        need_R = np.empty(self.n_rows, np.int64)
        kernels.fill_needs(self.arrays, self.capacity, level_S, need_R)
        return need_R

    def best(self, level_S: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the row of each state that needs least, or -1, and its need, shape (S,)."""
        best_S, need_S = np.empty(self.n_states, np.int64), np.empty(self.n_states, np.int64)
        kernels.fill_best(self.arrays, self.needs(level_S), best_S, need_S)
        return best_S, need_S


def survive(problem: LevelProblem, base_S: NDArray[np.int64], fixed_S: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the least levels of at least `base_S` that are enough forever.

    Parameters
    ----------
    problem : LevelProblem
    base_S : ndarray of int64, shape (S,)
    fixed_S : ndarray of bool, shape (S,)
        States where the level of `base_S` is enough and the process ends.
    """
    if not problem.charges:
        level_S = _survive_by_falling(problem, base_S, fixed_S)
        if level_S is not None:
            return level_S
    return _survive_by_rising(problem, base_S, fixed_S)


def _survive_by_rising(
    problem: LevelProblem, base_S: NDArray[np.int64], fixed_S: NDArray[np.bool_]
) -> NDArray[np.int64]:
    n, monitor = problem.n_states, problem.monitor
    if not problem.charges:
        base_S = np.maximum(base_S, _survival_bound(problem, base_S, fixed_S))
    # finite levels have no gaps of more than the largest cost above the largest finite level at the start
    most = int(base_S[base_S != IMPOSSIBLE].max(initial=0)) + n * problem.most_cost
    capacity = min(problem.capacity, most)
    out = Rising(
        base_S.copy(),
        np.empty(problem.n_rows, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.zeros(n, bool),
        np.zeros(2, np.int64),
    )
    kinds = StateKinds.of(fixed_S, problem.reload_S)
    kernels.start_rising(problem.arrays, capacity, kinds, out)
    while out.ends[1]:
        kernels.rise(problem.arrays, capacity, kinds, out, monitor.halt)
        monitor.check_time()
        monitor.sink.report("raising levels", n - int(out.ends[1]), n, {}, "state")
    return out.level_S


def _survive_by_falling(
    problem: LevelProblem, base_S: NDArray[np.int64], fixed_S: NDArray[np.bool_]
) -> NDArray[np.int64] | None:
    """Return the least levels for costs of at least 0, or None if a cycle of cost 0 needs the general method."""
    n, arrays = problem.n_states, problem.arrays
    base_S = base_S.copy()
    kept_S, stack_S, count_R = np.empty(n, bool), np.empty(n, np.int64), np.empty(problem.n_rows, np.int64)
    while True:
        kernels.keep(arrays, StateKinds.of(fixed_S, problem.reload_S), base_S, kept_S, stack_S, count_R)
        lost_S = base_S == IMPOSSIBLE
        start_S = np.where(kept_S, base_S, IMPOSSIBLE)
        level_S, _ = _fall(problem, start_S, kept_S | lost_S, base_S)
        _, need_S = problem.best(level_S)
        bad_S = problem.reload_S & ~fixed_S & ~lost_S & (need_S == IMPOSSIBLE) & (np.diff(arrays.row_indptr) > 0)
        if not bad_S.any():
            break
        base_S[bad_S] = IMPOSSIBLE
    if kernels.has_free_cycle(arrays, ~kept_S & ~lost_S, stack_S, np.empty(n, np.int64)):
        return None
    return level_S


def _survival_bound(problem: LevelProblem, base_S: NDArray[np.int64], fixed_S: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return a lower bound on survival levels if no cost is negative: outcomes on cycles of cost 0 do not count."""
    counts_R = np.zeros(problem.n_rows, bool)
    counts_R[problem.arrays.row_of_outcome[~problem.free_loops]] = True
    ends_S = np.diff(problem.arrays.row_indptr) == 0
    ends_S[problem.arrays.state_of_row[~counts_R]] = True
    given_S = fixed_S | ends_S | problem.reload_S | (base_S == IMPOSSIBLE)
    return _fall(problem, np.where(given_S, base_S, IMPOSSIBLE), given_S, base_S, loop_O=problem.free_loops)[0]


def _reach_bound(problem: LevelProblem, base_S: NDArray[np.int64], fixed_S: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return a lower bound on the levels to reach almost surely if no cost is negative, in the same way."""
    given_S = fixed_S | problem.reload_S | (base_S == IMPOSSIBLE)
    return _fall(problem, np.where(given_S, base_S, IMPOSSIBLE), given_S, base_S, loop_O=problem.free_loops)[0]


def reach_surely(problem: LevelProblem, goal_S: NDArray[np.bool_]) -> tuple[NDArray[np.int64], RuleArrays]:
    """Return the least levels to reach a goal surely, 0 in goals, and the rules.

    Parameters
    ----------
    problem : LevelProblem
    goal_S : ndarray of bool, shape (S,)
    """
    start_S = np.where(goal_S, 0, IMPOSSIBLE)
    return _fall(problem, start_S, goal_S, np.zeros(problem.n_states, np.int64))


def reach_almost_surely(
    problem: LevelProblem, goal_S: NDArray[np.bool_], after_S: NDArray[np.int64]
) -> tuple[NDArray[np.int64], RuleArrays]:
    """Return the least levels to reach a goal with probability one, and the rules.

    Parameters
    ----------
    problem : LevelProblem
    goal_S : ndarray of bool, shape (S,)
    after_S : ndarray of int64, shape (S,)
        Levels with which goals must be reached.
    """
    terminal_S = np.diff(problem.arrays.row_indptr) == 0
    given_S = goal_S | terminal_S
    base_S = np.where(goal_S, after_S, np.where(terminal_S, IMPOSSIBLE, 0))
    start_S = np.where(goal_S, after_S, IMPOSSIBLE)
    for rounds in itertools.count():
        if rounds >= _ROUNDS and not problem.charges:
            base_S = np.maximum(base_S, _reach_bound(problem, base_S, given_S))
        hold_S = survive(problem, base_S, given_S)
        level_S, rules = _fall(problem, start_S, given_S, hold_S, problem.needs(hold_S))
        if np.array_equal(level_S, hold_S):
            return level_S, rules
        base_S = level_S
    raise AssertionError("unreachable")


def _fall(
    problem: LevelProblem,
    start_S: NDArray[np.int64],
    fixed_S: NDArray[np.bool_],
    floor_S: NDArray[np.int64],
    hold_R: NDArray[np.int64] | None = None,
    loop_O: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.int64], RuleArrays]:
    """Return levels that fell from infinity, given those of fixed states, and the rules."""
    n, monitor = problem.n_states, problem.monitor
    out = Falling(
        np.full(n, IMPOSSIBLE),
        start_S.copy(),
        np.full(n, -1),
        np.empty(problem.n_rows, np.int64),
        np.empty(n, np.int64),
        np.full(n, -1),
        np.zeros(2, np.int64),
    )
    kinds = StateKinds.of(fixed_S, problem.reload_S)
    rules = RuleArrays(np.empty(n + 1, np.int32), np.empty(n + 1, np.int64), np.empty(n + 1, np.int64))
    monitor.reserve(20 * (n + 1), "the rules of the policy")
    loop_O = np.zeros(len(problem.arrays.cost), bool) if loop_O is None else loop_O
    kernels.start_falling(problem.arrays, kinds, loop_O, out)
    surely = hold_R is None
    hold_R = np.empty(0, np.int64) if hold_R is None else hold_R
    while out.sizes[0]:
        kernels.fall(problem.arrays, problem.capacity, kinds, loop_O, floor_S, hold_R, surely, out, rules, monitor.halt)
        monitor.check_time()
        monitor.sink.report("lowering levels", int((out.level_S != IMPOSSIBLE).sum()), n, {}, "state")
        if out.sizes[1] == len(rules.state):
            monitor.reserve(20 * len(rules.state), "the rules of the policy")
            rules = rules.resized(2 * len(rules.state))
    monitor.release(20 * len(rules.state))
    return out.level_S, rules.resized(int(out.sizes[1]))
