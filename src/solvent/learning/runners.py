"""Runners, which play episodes: in a model, by compiled code, or in any environment, one step at a time.

A runner follows the rows that a learner has chosen, counts the outcomes, and stops when a count has doubled or an
outcome occurs that was not known to be possible. A learner may count rounded costs. Violations are always judged by
true costs, exactly, against the limits as given.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import add
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MAX_TICKS, MINUS_INFINITY, PLUS_INFINITY, common_unit
from solvent.errors import ModelError, SolventError, UnmodeledOutcome, quote
from solvent.learning.account import ExactAccount
from solvent.learning.counts import Counts
from solvent.learning.environment import ExactEnvironment, Transition
from solvent.learning.graph import SafeGraph
from solvent.learning.kernels import (
    CYCLE,
    EXPLORING,
    NEW_OUTCOME,
    OPTIMISTIC,
    PLAYED,
    REPLAN,
    EpisodeRecord,
    WorldArrays,
    accumulate,
    play,
)
from solvent.learning.support import LearnedSupport, NewOutcome
from solvent.model.amounts import short_amount
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.lattice import AccountTicks, fixed_amounts
from solvent.model.rounding import round_to
from solvent.solvers.problem import Problem


@dataclass(frozen=True)
class Batch:
    """Episodes that were played.

    Attributes
    ----------
    end : int
        Why the batch ended: `PLAYED`, `REPLAN` or `NEW_OUTCOME`.
    episodes : int
    violations : int
        Number of episodes that broke a limit.
    returns : ndarray of float64, shape (E,)
        Sum of the rewards of each episode.
    costs : ndarray of float64, shape (E, D)
        What each episode spent in the end.
    new_outcomes : tuple of NewOutcome
        Outcomes that the graph does not have, in order of occurrence.
    """

    end: int
    episodes: int
    violations: int
    returns: NDArray[np.float64]
    costs: NDArray[np.float64]
    new_outcomes: tuple[NewOutcome, ...] = ()


class EpisodeRunner(Protocol):
    """Plays episodes for a learner."""

    @property
    def chunk(self) -> int:
        """Number of episodes to play between two checks of the time, the checkpoint and Ctrl-C."""

    @property
    def plan_growth(self) -> float:
        """Factor by which the number of episodes must have grown since the last plan."""

    def add_outcome(self, row: int, next_state: int, costs: tuple[Fraction, ...]) -> None:
        """Register an outcome of a row of the model that was added to the learned support."""

    def play(
        self,
        graph: SafeGraph,
        counts: Counts,
        row_PN: NDArray[np.int64],
        rng: NDArray[np.uint64],
        first: int,
        most: int,
        *,
        every_episode: bool,
        pause: Callable[[], bool] = lambda: False,
    ) -> Batch:
        """Play episodes and count their outcomes.

        Parameters
        ----------
        graph : SafeGraph
        counts : Counts
            Changed.
        row_PN : ndarray of int64, shape (3, N)
            The rows of a plan; which of them an episode takes depends on its number.
        rng : ndarray of uint64, shape (1,)
            State of the generator; changed.
        first : int
            Number of the first episode.
        most : int
            Maximum number of episodes.
        every_episode : bool
            Whether to stop after each episode.
        pause : callable
            Called between episodes that may take long; the batch ends early if it returns True.
        """


class ModelRunner:
    """Plays in a model, in compiled code.

    Parameters
    ----------
    problem : Problem
        Its origin is the model that is played, called the world here. The rows of a `LearnedSupport` are those of the
        problem.
    known : bool
        Whether all outcomes of the model are known to be possible.
    """

    chunk, plan_growth = 10_000, 1.02

    def __init__(self, problem: Problem, *, known: bool) -> None:
        self._world, self._counted_OD = _world_of(problem)
        self._true, self._units = _TrueCosts.of(problem, self._world), problem.lattice.units
        world, true = self._world, self._true
        cumulative_O = np.empty(world.n_outcomes)
        accumulate(world.outcome_indptr, world.probability, cumulative_O)
        self._arrays = WorldArrays(
            outcome_indptr=world.outcome_indptr,
            cumulative_O=cumulative_O,
            row_reward=world.row_reward,
            cost_OD=true.cost_OD,
            local_O=_places(world, self._counted_OD, problem) if known else np.full(world.n_outcomes, -1),
            upper_HD=true.upper_HD,
            lower_HD=true.lower_HD,
            initial_D=true.accounts.initial_D,
            floor_D=true.accounts.floor_D,
            ceiling_D=true.accounts.ceiling_D,
        )
        self._record = EpisodeRecord(
            spent=np.zeros(true.cost_OD.shape[1], np.int64),
            return_E=np.zeros(self.chunk),
            spent_ED=np.zeros((self.chunk, true.cost_OD.shape[1]), np.int64),
            drawn=np.zeros(world.horizon, np.int64),
            new_outcome=np.zeros(4, np.int64),
        )
        #: Number of known outcomes by row, if the support is learned.
        self._n_known: dict[int, int] = {}

    def __copy__(self) -> ModelRunner:
        """Return a runner of the same model that learns of new outcomes by itself."""
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__
        other._arrays = self._arrays._replace(local_O=self._arrays.local_O.copy())
        other._record = copy.deepcopy(self._record)
        other._n_known = dict(self._n_known)
        return other

    def add_outcome(self, row: int, next_state: int, costs: tuple[Fraction, ...]) -> None:
        """Register an outcome, for every outcome of the world with the same next state and costs as counted."""
        place = self._n_known.get(row, 0)
        self._n_known[row] = place + 1
        for o in range(int(self._world.outcome_indptr[row]), int(self._world.outcome_indptr[row + 1])):
            if self._world.next_state[o] == next_state and self._counted(o) == costs:
                self._arrays.local_O[o] = place

    def _counted(self, o: int) -> tuple[Fraction, ...]:
        """Return the costs of an outcome of the world as counted."""
        pairs = zip(self._counted_OD[o].tolist(), self._units, strict=True)
        return tuple(ticks * unit for ticks, unit in pairs)

    def play(
        self,
        graph: SafeGraph,
        counts: Counts,
        row_PN: NDArray[np.int64],
        rng: NDArray[np.uint64],
        first: int,
        most: int,
        *,
        every_episode: bool,
        pause: Callable[[], bool] = lambda: False,
    ) -> Batch:
        """Play episodes; see `EpisodeRunner.play`."""
        if self._true.fits:
            return self._play(graph, counts, row_PN, rng, first, most, every_episode=every_episode)
        batches: list[Batch] = []
        while True:  # one by one, each judged in fractions
            batch = self._play(graph, counts, row_PN, rng, first + len(batches), 1, every_episode=every_episode)
            batches.append(batch)
            if len(batches) == most or batch.end != PLAYED or pause():
                return _joined(batches)

    def _play(
        self, graph: SafeGraph, counts: Counts, row_PN: NDArray[np.int64], rng: NDArray[np.uint64], first: int,
        most: int, *, every_episode: bool,
    ) -> Batch:  # fmt: skip
        world, true, record = self._world, self._true, self._record
        record.drawn[:] = -1
        end, episodes, violations = play(
            counts.graph_arrays(graph), row_PN, self._arrays, counts.arrays, first, most, every_episode, rng, record
        )
        violations, new = int(violations), tuple[NewOutcome, ...]()
        returns = record.return_E[:episodes].copy()
        if end == NEW_OUTCOME:
            step, row, o, broken = record.new_outcome.tolist()
            after = record.spent + true.cost_OD[o]
            record.spent_ED[episodes - 1] = after
            if true.fits:
                judged = slice(step, _last_judged(world, step, o))
                broken |= ((after > true.upper_HD[judged]) | (after < true.lower_HD[judged])).any()
                violations += bool(broken)
            model_row = int(graph.layers.row[row])
            reward = float(world.row_reward[model_row])
            returns[-1] += reward
            new = (NewOutcome(model_row, int(world.next_state[o]), self._counted(o), reward),)
        if true.fits:
            costs = true.amounts(record.spent_ED[:episodes])
        else:
            drawn = record.drawn[record.drawn >= 0].tolist()
            violations = int(true.breaks(drawn, stopped=end == NEW_OUTCOME))
            costs = np.array([[as_float(amount) for amount in true.spent(drawn)]])
        return Batch(end, episodes, violations, returns, costs, new)


def as_float(amount: Fraction) -> float:
    """Return the nearest finite floating-point number.

    Examples
    --------
    >>> as_float(Fraction(1, 4)), as_float(Fraction(-(10**400))) == -sys.float_info.max
    (0.25, True)
    """
    try:
        return float(amount)
    except OverflowError:
        return sys.float_info.max if amount > 0 else -sys.float_info.max


def _joined(batches: list[Batch]) -> Batch:
    """Return consecutive batches as one."""
    return replace(
        batches[-1],
        episodes=sum(each.episodes for each in batches),
        violations=sum(each.violations for each in batches),
        returns=np.concatenate([each.returns for each in batches]),
        costs=np.concatenate([each.costs for each in batches]),
    )


def _last_judged(world: CMDP, step: int, o: int) -> int:
    """Return the end of the steps whose limits apply to an episode that the learner stops after an outcome.

    If the outcome ends the episode anyway, all later limits apply.
    """
    last = step + 1
    return world.horizon if last == world.horizon or world.is_terminal(last, int(world.next_state[o])) else last


def _world_of(problem: Problem) -> tuple[CMDP, NDArray[np.int64]]:
    """Return the model to play and its costs as counted, in ticks, shape (O, D).

    This is the user's model, whose outcomes have true costs, even if rounding merges several of them. Only continuous
    costs are played in bins.
    """
    origin, lattice = problem.origin, problem.lattice
    if origin is problem.model or _has_distributions(problem):
        return problem.model, lattice.cost_OD
    columns = [
        round_to(origin.cost[origin.resource_index(name)], unit, up=counting == "up")
        for name, unit, counting in zip(lattice.resources, lattice.units, problem.counting, strict=True)
    ]
    return origin, np.stack(columns, axis=1) if columns else np.zeros((origin.n_outcomes, 0), np.int64)


def _has_distributions(problem: Problem) -> bool:
    distributions, resources = problem.origin.distribution_DO, problem.limits.resources
    return distributions is not None and any(
        (distributions[problem.origin.resource_index(name)] != NO_DISTRIBUTION).any() for name in resources
    )


def _places(world: CMDP, counted_OD: NDArray[np.int64], problem: Problem) -> NDArray[np.int64]:
    """Return the position of each outcome of the world in its row of the problem's model."""
    starts = np.repeat(world.outcome_indptr[:-1], np.diff(world.outcome_indptr))
    if world is problem.model:
        return np.arange(world.n_outcomes) - starts
    model = problem.model
    sizes = np.diff(model.outcome_indptr)
    rows = np.repeat(np.arange(model.n_rows), sizes).tolist()
    places = (np.arange(model.n_outcomes) - np.repeat(model.outcome_indptr[:-1], sizes)).tolist()
    ticks = map(tuple, problem.lattice.cost_OD.tolist())
    found = dict(zip(zip(rows, model.next_state.tolist(), ticks, strict=True), places, strict=True))
    own = np.repeat(np.arange(world.n_rows), np.diff(world.outcome_indptr)).tolist()
    keys = zip(own, world.next_state.tolist(), map(tuple, counted_OD.tolist()), strict=True)
    return np.array([found[key] for key in keys], np.int64)


@dataclass(frozen=True, eq=False)
class _TrueCosts:
    """True costs of the outcomes of a world, and the limits as given.

    Attributes
    ----------
    fits : bool
        Whether true costs fit 64-bit ticks; if not, kernels get no costs, and each episode is judged in fractions.
    cost_OD : ndarray of int64, shape (O, D)
        Costs in ticks. A bin of continuous costs has two columns per resource, for its upper and its lower end. Costs
        within a bin are not drawn: an episode is a violation if any costs within its bins would be.
    upper_HD, lower_HD : ndarray of int64, shape (H, D)
    accounts : AccountTicks
        Where the accounts begin and saturate.
    world : CMDP
    limits : Limits
    units : tuple of Fraction
        The unit of each limited resource; empty if costs do not fit.
    """

    fits: bool
    cost_OD: NDArray[np.int64]
    upper_HD: NDArray[np.int64]
    lower_HD: NDArray[np.int64]
    accounts: AccountTicks
    world: CMDP
    limits: Limits
    units: tuple[Fraction, ...] = ()

    @classmethod
    def of(cls, problem: Problem, world: CMDP) -> _TrueCosts:
        limits = problem.limits
        if _has_distributions(problem):
            units, ends = problem.truth.units, (problem.truth.high_OD, problem.truth.low_OD)
            uppers, lowers = _in_ticks(limits, units, world.horizon)
            no_upper, no_lower = np.full_like(uppers, PLUS_INFINITY), np.full_like(lowers, MINUS_INFINITY)
            sides = np.hstack([uppers, no_upper]), np.hstack([no_lower, lowers])
            pairs = zip(problem.truth.high_accounts, problem.truth.low_accounts, strict=True)
            accounts = AccountTicks(*(np.concatenate(pair) for pair in pairs))
            return cls(True, np.ascontiguousarray(np.hstack(ends)), *sides, accounts, world, limits, units)
        columns = [problem.origin.cost[problem.origin.resource_index(name)] for name in limits.resources]
        sums = [problem.origin.cost_sums[problem.origin.resource_index(name)] for name in limits.resources]
        fixed = [fixed_amounts(problem.origin, limits, d) for d in range(len(columns))]
        units = tuple(common_unit([c.unit, *amounts]) for c, amounts in zip(columns, fixed, strict=True))
        reach = [
            (max(most) * column.unit + sum(map(abs, amounts))) / unit
            for column, most, amounts, unit in zip(columns, sums, fixed, units, strict=True)
        ]
        if not all(column.fits and most <= MAX_TICKS for column, most in zip(columns, reach, strict=True)):
            nothing = np.zeros((world.horizon, 0), np.int64)
            plain = AccountTicks.plain(0)
            return cls(False, np.zeros((world.n_outcomes, 0), np.int64), nothing, nothing, plain, world, limits)
        sides = _in_ticks(limits, units, world.horizon)
        ticks = [column.ticks * int(column.unit / unit) for column, unit in zip(columns, units, strict=True)]
        cost_OD = np.stack(ticks, axis=1) if columns else np.zeros((world.n_outcomes, 0))
        accounts = AccountTicks.of(problem.origin, limits, units, (False,) * len(units))
        return cls(True, np.ascontiguousarray(cost_OD, np.int64), *sides, accounts, world, limits, units)

    def amounts(self, spent_ED: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return amounts in ticks as numbers; of bins of continuous costs, the upper ends."""
        n = len(self.units)
        amounts: NDArray[np.float64] = spent_ED[:, :n] * np.array([float(unit) for unit in self.units]).reshape(1, n)
        return amounts

    def spent(self, outcomes: list[int]) -> tuple[Fraction, ...]:
        """Return what an episode with these outcomes spent."""
        spent = self.limits.initial
        for o in outcomes:
            spent = self._after(spent, o)
        return spent

    def _after(self, spent: tuple[Fraction, ...], o: int) -> tuple[Fraction, ...]:
        names, world = self.limits.resources, self.world
        return tuple(
            world.resource(name).clamp(amount + world.cost[world.resource_index(name)].value(o))
            for amount, name in zip(spent, names, strict=True)
        )

    def breaks(self, outcomes: list[int], *, stopped: bool) -> bool:
        """Return whether an episode with these outcomes broke a limit; `stopped` if the learner ended it early."""
        spent = self.limits.initial
        for step, o in enumerate(outcomes):
            spent = self._after(spent, o)
            if breaks(self.limits, spent, step):
                return True
        steps = len(outcomes)
        last = _last_judged(self.world, steps - 1, outcomes[-1]) if stopped else self.world.horizon
        return any(breaks(self.limits, spent, later) for later in range(steps, last))


def _in_ticks(limits: Limits, units: tuple[Fraction, ...], horizon: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return upper and lower limits rounded inward to whole ticks, which is exact for sums of whole ticks."""
    shape = horizon, len(units)
    uppers, lowers = np.full(shape, PLUS_INFINITY, np.int64), np.full(shape, MINUS_INFINITY, np.int64)
    for d, unit in enumerate(units):
        for step in range(horizon):
            most, least = limits.upper[d][step], limits.lower[d][step]
            if most is not None:  # limits beyond any sum are clipped
                uppers[step, d] = max(min(most // unit, PLUS_INFINITY), MINUS_INFINITY + 1)
            if least is not None:
                lowers[step, d] = max(min(-(-least // unit), PLUS_INFINITY - 1), MINUS_INFINITY)
    return uppers, lowers


def breaks(limits: Limits, spent: tuple[Fraction, ...], step: int) -> bool:
    """Return whether what was spent breaks a limit after a step."""
    for d, amount in enumerate(spent):
        most, least = limits.upper[d][step], limits.lower[d][step]
        if (most is not None and amount > most) or (least is not None and amount < least):
            return True
    return False


def breaks_within(limits: Limits, high: tuple[Fraction, ...], low: tuple[Fraction, ...], step: int) -> bool:
    """Return whether the most or the least spent within a step breaks the looser of the limits before and after it."""
    steps = {max(step - 1, 0), step}
    for d in range(len(limits.resources)):
        uppers, lowers = [limits.upper[d][h] for h in steps], [limits.lower[d][h] for h in steps]
        if all(limit is not None and high[d] > limit for limit in uppers):
            return True
        if all(limit is not None and low[d] < limit for limit in lowers):
            return True
    return False


#: The most costs whose ticks are kept for look-up, and the most moves.
_MOST_COUNTED = _MOST_MOVES = 100_000


class _Move(NamedTuple):
    """An outcome of a row as the environment reports it: what does not change while the graph stays the same.

    Attributes
    ----------
    costs : tuple of Fraction
        True costs, which are within the row's bound; kept so that the identity of the tuple stays unique.
    after : int
        Position of the next state; -1 if the support does not have it.
    counted : tuple of Fraction
        Costs as counted.
    ticks : tuple of int, or None
        The same in ticks; None if some cost is not a whole number of them.
    place : int or None
        Position among the outcomes of the row; None if the graph does not have it.
    """

    costs: tuple[Fraction, ...]
    after: int
    counted: tuple[Fraction, ...]
    ticks: tuple[int, ...] | None
    place: int | None


class _Episode(NamedTuple):
    """An episode in an environment.

    Attributes
    ----------
    earned : float
    spent : tuple of Fraction
    broke : bool
        Whether it broke a limit.
    due : bool
        Whether a count has doubled.
    new : list of NewOutcome
        Outcomes that the graph does not have.
    """

    earned: float
    spent: tuple[Fraction, ...]
    broke: bool
    due: bool
    new: list[NewOutcome]


class EnvironmentRunner:
    """Plays in any environment, one step at a time.

    Parameters
    ----------
    world : ExactEnvironment
    support : CMDP or LearnedSupport
        Has the environment's states by name. An outcome that is missing from a known support is an error.
    reward_range : (float, float)
        The least and the greatest reward allowed.
    return_range : (float, float) or None
        The least and the greatest sum of rewards of an episode allowed.
    same_rewards : bool
        Whether an outcome must always have the same reward.
    """

    chunk, plan_growth = 100, 1.1

    def __init__(
        self,
        world: ExactEnvironment,
        support: CMDP | LearnedSupport,
        reward_range: tuple[float, float],
        return_range: tuple[float, float] | None = None,
        *,
        same_rewards: bool,
    ) -> None:
        self._world, self._support, self._range, self._same = world, support, reward_range, same_rewards
        self._returns = return_range
        self._place = {name: index for index, name in enumerate(support.states)}
        self._graph: SafeGraph | None = None
        self._covered: dict[tuple[int, int], list[int]] = {}
        self._counted: dict[tuple[Fraction, ...], tuple[tuple[Fraction, ...], tuple[int, ...] | None]] = {}
        self._moves: dict[tuple[int, Hashable, int, int], _Move] = {}
        self._account: ExactAccount | None = None

    def add_outcome(self, row: int, next_state: int, costs: tuple[Fraction, ...]) -> None:
        """Do nothing: outcomes are looked up in the graph."""

    def play(
        self,
        graph: SafeGraph,
        counts: Counts,
        row_PN: NDArray[np.int64],
        rng: NDArray[np.uint64],
        first: int,
        most: int,
        *,
        every_episode: bool,
        pause: Callable[[], bool] = lambda: False,
    ) -> Batch:
        """Play episodes; see `EpisodeRunner.play`. The generator is not used."""
        self._begin(graph)
        played: list[_Episode] = []
        end = PLAYED
        for number in range(first, first + most):
            plan = OPTIMISTIC if number % CYCLE == CYCLE - 1 else EXPLORING
            episode = self._episode(graph, counts, row_PN[plan], number)
            played.append(episode)
            if episode.new or episode.due or every_episode:
                end = NEW_OUTCOME if episode.new else REPLAN
                break
            if pause():
                break
        costs = [[as_float(amount) for amount in each.spent] for each in played]
        return Batch(
            end, len(played), sum(each.broke for each in played), np.array([each.earned for each in played]),
            np.array(costs, np.float64).reshape(len(played), -1), tuple(played[-1].new),
        )  # fmt: skip

    def _begin(self, graph: SafeGraph) -> None:
        """Forget what was looked up in another graph."""
        if self._graph is graph:
            return
        self._graph, model, self._counted, self._moves = graph, graph.problem.model, {}, {}
        if self._account is None:  # limits and resources are the same in every graph
            limits = graph.problem.limits
            self._account = ExactAccount(limits, [model.resource(name) for name in limits.resources])

    def _episode(self, graph: SafeGraph, counts: Counts, row_N: NDArray[np.int64], number: int) -> _Episode:
        """Play one episode.

        With a bound on costs, an episode continues after an outcome that the graph does not have: it follows a node
        that stands for the worst case (`LearnedSupport.stand_in`), in which at least as much was spent, until it is at
        a node of the graph again.
        """
        layers, model, horizon = graph.layers, graph.problem.model, graph.problem.model.horizon
        layer_indptr, shift_H, row_indptr = layers.layer_indptr, layers.shift_H, layers.row_indptr
        entry_indptr, entry_next = layers.entry_indptr, layers.entry_next
        support = self._support if isinstance(self._support, LearnedSupport) else None
        account, moves = self._account, self._moves
        assert account is not None
        account.begin()
        node, step, over = 0, 0, False
        due = broke = False
        earned, new = 0.0, list[NewOutcome]()
        outside: int | None = None  # the state, if the node only stands for it
        total: list[int] | None = [0] * len(graph.problem.limits.resources)  # what was spent in ticks, if it is known
        self._world.reset(number)
        while step < horizon and not over:
            stored = node - shift_H.item(step)
            if row_indptr.item(stored) == row_indptr.item(stored + 1):
                break
            row = row_N.item(node)
            model_row = layers.row.item(row)
            if outside is not None:
                assert support is not None
                row, model_row = self._choose_outside(
                    graph, counts, graph.rows(step, node), support.rows(step, outside)
                )
            seen = self._world.step(model.actions[model.row_action.item(model_row)])
            reward, costs = seen.reward, seen.costs
            if seen.truncated and not seen.terminated and step + 1 < horizon:
                raise self._too_short(step + 1)
            over = seen.terminated or seen.truncated
            if step or not self._world.drawn:
                self._check_reward(reward, step)
            end = (2 if step == horizon - 1 else 1) if over else 0
            move = moves.get((model_row, seen.observation, end, id(costs))) if seen.within is None else None
            if move is None:
                move = self._read_move(graph, model_row, step, seen, end)
            broke = broke or self._breaks_within(seen, step)
            broke = account.charge(costs, step) or broke
            earned += reward
            after, j = move.after, move.place
            if j is not None:
                key = model_row if outside is not None else counts.row_key.item(row)
                self._check_same(counts, key, j, reward, step)
                due = counts.add(key, j, reward) or due
            elif support is None:
                raise self._missing(graph, model_row, step, seen.observation, costs)
            else:
                new.append(NewOutcome(model_row, after, move.counted, reward))
                if not support.is_bounded:
                    # later limits apply unless the learner ends the episode
                    broke = broke or (over and account.breaks_later(step + 1))
                    return _Episode(earned, account.spent, broke, due, new)
            step += 1
            total = None if total is None or move.ticks is None else list(map(add, total, move.ticks))
            if j is not None and outside is None:
                node = layer_indptr.item(step) + entry_next.item(entry_indptr.item(row) + j)
                self._check_end(graph, node, step, after, over=over)
            elif step < horizon and not over:
                assert support is not None
                found = None if total is None else graph.find(step, after, tuple(total))
                outside = after if found is None else None
                stand_in = entry_next.item(entry_indptr.item(row) + support.stand_in(after))
                node = layer_indptr.item(step) + stand_in if found is None else found
        self._check_return(earned, number)
        broke = broke or account.breaks_later(step)
        return _Episode(earned, account.spent, broke, due, new)

    def _read_move(self, graph: SafeGraph, row: int, step: int, seen: Transition, end: int) -> _Move:
        """Return an outcome of a row of the model, after checking it against its bound.

        Parameters
        ----------
        graph : SafeGraph
        row : int
        step : int
        seen : Transition
        end : {0, 1, 2}
            Whether the episode goes on, has ended, or has ended with the last step.
        """
        self._check_bound(graph, row, step, seen)
        after = self._next_state(seen.observation, over=end > 0, last=step == graph.problem.model.horizon - 1)
        counted, ticks = self._count(seen.costs)
        place = None if ticks is None else _find_outcome(graph.problem, row, after, ticks)
        move = _Move(seen.costs, after, counted, ticks, place)
        if seen.within is None and len(self._moves) < _MOST_MOVES:
            self._moves[row, seen.observation, end, id(seen.costs)] = move
        return move

    def _choose_outside(self, graph: SafeGraph, counts: Counts, offered: range, rows: range) -> tuple[int, int]:
        """Return a row of a node that stands for a state, and a row of the state that costs no more, tried least."""
        support, count_K = self._support, counts.count_K
        assert isinstance(support, LearnedSupport)
        least: tuple[int, int, int] | None = None
        for row in offered:
            stand_in = graph.layers.row.item(row)
            covered = self._covered.get((stand_in, rows.start))
            if covered is None:
                covered = self._covered[stand_in, rows.start] = support.covered(stand_in, rows)
            for own in covered:
                tries = int(count_K[own]) + support.tries[own]
                if least is None or tries < least[0]:
                    least = tries, row, own
        assert least is not None, "every bound of a harder kind of state covers an action"
        return least[1], least[2]

    def _check_return(self, earned: float, number: int) -> None:
        if self._returns is None:
            return
        low, high = self._returns
        slack = 1e-9 * max(abs(low), abs(high), 1.0)
        if not low - slack <= earned <= high + slack:
            hint = "pass return_range=(least, greatest), or leave it out"
            raise ModelError(f"episode {number}, return", f"a sum from {low:g} to {high:g}", f"{earned:g}", hint)

    def _breaks_within(self, seen: Transition, step: int) -> bool:
        if seen.within is None:
            return False
        assert self._graph is not None
        assert self._account is not None
        spent = self._account.spent
        model = self._graph.problem.model
        for name in self._graph.problem.limits.resources:
            if model.resource(name).saturates:
                expected = f"one step of the environment, as {quote(name)} saturates"
                raise ModelError(
                    f"step {self._shown(step)}", expected, "several at once", "take out the wrapper that repeats steps"
                )
        high, low = (tuple(a + b for a, b in zip(spent, side, strict=True)) for side in seen.within)
        return breaks_within(self._graph.problem.limits, high, low, step)

    def _next_state(self, observation: Hashable, *, over: bool, last: bool) -> int:
        """Return the position of the next state; -1 if the support does not have it."""
        if isinstance(self._support, LearnedSupport):
            return self._support.over if over and not last else self._place[observation]
        twin = self._place.get((observation, "done")) if over else None
        after = self._place.get(observation) if twin is None else twin
        return -1 if after is None else after

    def _count(self, costs: tuple[Fraction, ...]) -> tuple[tuple[Fraction, ...], tuple[int, ...] | None]:
        """Return costs as counted, and in ticks; None if some cost is not a whole number of ticks."""
        assert self._graph is not None
        known = self._counted.get(costs)
        if known is not None:
            return known
        problem, counted, ticks = self._graph.problem, [], []
        for cost, unit, counting in zip(costs, problem.lattice.units, problem.counting, strict=True):
            whole = -(-cost // unit) if counting == "up" else cost // unit
            exactly = counting == "exact"
            counted.append(cost if exactly else whole * unit)
            ticks.append(whole if not exactly or whole * unit == cost else None)
        found = tuple(tick for tick in ticks if tick is not None)
        result = tuple(counted), found if len(found) == len(ticks) else None
        if len(self._counted) < _MOST_COUNTED:
            self._counted[costs] = result
        return result

    def _check_reward(self, reward: float, step: int) -> None:
        low, high = self._range
        if not low <= reward <= high:
            hint = "pass reward_range=(least, greatest), or scale the rewards"
            raise ModelError(
                f"step {self._shown(step)}, reward", f"a number from {low:g} to {high:g}", f"{reward:g}", hint
            )

    def _check_bound(self, graph: SafeGraph, row: int, step: int, seen: Transition) -> None:
        """Raise an `UnmodeledOutcome` if a row costs more than its bound."""
        bound = self._support.bounds[row] if isinstance(self._support, LearnedSupport) else None
        costs = seen.costs if seen.within is None else seen.within[0]
        if bound is None or all(cost <= most for cost, most in zip(costs, bound, strict=True)):
            return
        names = graph.problem.limits.resources
        possible = ", ".join(f"{n} at most {short_amount(c)}" for n, c in zip(names, bound, strict=True))
        raise self._unmodeled(graph, row, step, _amounts(names, costs), (f"{possible}, as cost_bound says",))

    def _check_same(self, counts: Counts, key: int, j: int, reward: float, step: int) -> None:
        if not self._same:
            return
        o = int(counts.key_indptr[key]) + j
        if counts.count_O[o] and abs(counts.reward_sum_O[o] / counts.count_O[o] - reward) > 1e-9:
            before = counts.reward_sum_O[o] / counts.count_O[o]
            expected = f"the same reward as before with this outcome ({before:g}), as random_rewards=False says"
            raise ModelError(f"step {self._shown(step)}, reward", expected, f"{reward:g}", "leave it out")

    def _shown(self, step: int) -> int:
        """Return the number of a step, or a number of steps, without the step that draws the first state."""
        return step - self._world.drawn

    def _too_short(self, steps: int) -> ModelError:
        """Return the error for an episode that a time limit truncated, which is not an outcome of any state."""
        assert self._graph is not None
        horizon = self._shown(self._graph.problem.model.horizon)
        return ModelError(
            f"step {self._shown(steps)}", f"the episode to continue, as the horizon is {horizon}",
            "its end by a time limit", "use a horizon within the environment's time limit",
        )  # fmt: skip

    def _check_end(self, graph: SafeGraph, node: int, step: int, after: int, *, over: bool) -> None:
        model = graph.problem.model
        if step == model.horizon or over == model.is_terminal(step, after):
            return
        where = f"step {self._shown(step)}, state {quote(model.states[after])}"
        if over:
            horizon = self._shown(model.horizon)
            expected = f"the episode to continue, as the support and the horizon of {horizon} say"
            raise ModelError(where, expected, "its end", "use a horizon within the environment's time limit")
        raise ModelError(where, "the end of the episode, as the support says", "that it continues")

    def _missing(
        self, graph: SafeGraph, row: int, step: int, observation: Hashable, costs: tuple[Fraction, ...]
    ) -> SolventError:
        """Return the error for an outcome, or a first state, that a known support does not have."""
        if self._shown(step) < 0:
            firsts = [quote(each.next_state) for each in graph.problem.model.outcomes(row)]
            shown = " or ".join(firsts[:6]) + (f" or {len(firsts) - 6} more" if len(firsts) > 6 else "")
            return ModelError("reset", f"the episode to begin in {shown}, as the support says", quote(observation))
        possible = tuple(
            f"{quote(each.next_state)} at {', '.join(f'{n} {c}' for n, c in each.cost.items())}"
            for each in graph.problem.model.outcomes(row)
        )
        paid = _amounts(graph.problem.limits.resources, costs)
        return self._unmodeled(graph, row, step, f"{quote(observation)} at {paid}", possible)

    def _unmodeled(
        self, graph: SafeGraph, row: int, step: int, found: str, possible: tuple[str, ...]
    ) -> UnmodeledOutcome:
        """Return the error for an outcome of a row of the model."""
        model = graph.problem.model
        state = int(np.searchsorted(model.row_indptr, row, side="right") - 1) % model.n_states
        action = model.actions[int(model.row_action[row])]
        return UnmodeledOutcome(self._shown(step), model.states[state], action, found, possible)


def _find_outcome(problem: Problem, row: int, after: int, ticks: tuple[int, ...]) -> int | None:
    """Return the position of the first outcome of a row with a next state and costs in ticks; None if there is none."""
    begin, end = problem.model.outcome_indptr[row : row + 2].tolist()
    same = problem.model.next_state[begin:end] == after
    same &= (problem.lattice.cost_OD[begin:end] == ticks).all(axis=1)
    return int(np.argmax(same)) if same.any() else None


def _amounts(names: tuple[str, ...], costs: tuple[Fraction, ...]) -> str:
    return ", ".join(f"{name} {short_amount(cost)}" for name, cost in zip(names, costs, strict=True))
