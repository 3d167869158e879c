"""Where episodes are played: in a model, by compiled code, or in any environment, a step at a time.

Both play by the rows a learner has chosen, count what comes of them, and stop where a count has doubled or something
comes that was not known to be possible. A learner may count costs in rounded ticks. Violations never are: they are
judged by what was really spent, exactly, against the limits as they were given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MAX_TICKS
from solvent.errors import ModelError, UnmodeledOutcome, quote
from solvent.learning.counts import Counts
from solvent.learning.graph import Graph
from solvent.learning.kernels import DUE, PLAYED, SURPRISED, accumulate, play
from solvent.learning.support import Seen
from solvent.learning.world import Happened, World
from solvent.model.amounts import short_amount
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.rounding import NO_LOWER, NO_UPPER, round_to
from solvent.solvers.problem import Problem


@dataclass(frozen=True)
class Surprise:
    """An outcome that was not in the learned support: of which row of the model, its costs as they are counted."""

    row: int
    after: int
    costs: tuple[Fraction, ...]
    reward: float


@dataclass(frozen=True)
class Stretch:
    """What was played: how it ended (`PLAYED`, `DUE` or `SURPRISED`), and in how many episodes, some over budget."""

    end: int
    episodes: int
    violations: int
    surprise: Surprise | None = None


class Field(Protocol):
    """A place to play in."""

    @property
    def chunk(self) -> int:
        """How many episodes to play between two looks at the clock, the checkpoint and the keyboard."""

    def learn_of(self, row: int, after: int, costs: tuple[Fraction, ...]) -> None:
        """Take note of an outcome of a row of the model that was added to the learned support."""

    def play(
        self, graph: Graph, counts: Counts, row_N: NDArray[np.int64], rng: NDArray[np.uint64], first: int, most: int,
        *, every_episode: bool, pause: Callable[[], bool] = lambda: False,
    ) -> Stretch:  # fmt: skip
        """Play at most so many episodes, the first of them with this number; fewer where these may take long.

        `pause` says, between two of them, whether somebody waits for the end.
        """


class ModelField:
    """A model, stepped in compiled code.

    Parameters
    ----------
    problem : Problem
        Its origin is the world; on learned supports its rows are those of `Seen`.
    known : bool
        Whether every outcome of it is known to be possible.
    """

    chunk = 10_000

    def __init__(self, problem: Problem, *, known: bool) -> None:
        self._world, self._counted_OD = _world_of(problem)
        self._truth, self._units = _TrueCosts.of(problem, self._world), problem.lattice.units
        world = self._world
        self._cumulative = np.empty(world.n_outcomes)
        accumulate(world.outcome_indptr, world.probability, self._cumulative)
        self._local = _places(world, self._counted_OD, problem) if known else np.full(world.n_outcomes, -1)
        self._known_by_row: dict[int, int] = {}
        self._drawn = np.zeros(world.horizon, np.int64)

    def learn_of(self, row: int, after: int, costs: tuple[Fraction, ...]) -> None:
        """Take note of an outcome, for every outcome of the world that looks like it."""
        place = self._known_by_row.get(row, 0)
        self._known_by_row[row] = place + 1
        for o in range(int(self._world.outcome_indptr[row]), int(self._world.outcome_indptr[row + 1])):
            if self._world.next_state[o] == after and self._counted(o) == costs:
                self._local[o] = place

    def _counted(self, o: int) -> tuple[Fraction, ...]:
        """Return the costs of an outcome of the world as they are counted."""
        pairs = zip(self._counted_OD[o].tolist(), self._units, strict=True)
        return tuple(ticks * unit for ticks, unit in pairs)

    def play(
        self, graph: Graph, counts: Counts, row_N: NDArray[np.int64], rng: NDArray[np.uint64], first: int, most: int,
        *, every_episode: bool, pause: Callable[[], bool] = lambda: False,
    ) -> Stretch:  # fmt: skip
        """Play at most so many episodes; their numbers do not matter here, as the generator goes on."""
        if self._truth.fits:
            return self._play(graph, counts, row_N, rng, most, every_episode=every_episode)
        played = violations = 0
        while True:  # one by one, each to be judged in fractions
            stretch = self._play(graph, counts, row_N, rng, 1, every_episode=every_episode)
            played, violations = played + 1, violations + stretch.violations
            if played == most or stretch.end != PLAYED or pause():
                return replace(stretch, episodes=played, violations=violations)

    def _play(
        self, graph: Graph, counts: Counts, row_N: NDArray[np.int64], rng: NDArray[np.uint64], most: int,
        *, every_episode: bool,
    ) -> Stretch:  # fmt: skip
        world, truth = self._world, self._truth
        spent, found = np.zeros(truth.cost_OD.shape[1], np.int64), np.zeros(4, np.int64)
        self._drawn[:] = -1
        end, episodes, violations = play(
            graph.mdp.row_indptr, graph.row_model, counts.row_key, graph.entry_indptr, graph.entry_next,
            counts.key_indptr, row_N, world.outcome_indptr, self._cumulative, world.row_reward, truth.cost_OD,
            self._local, truth.upper_HD, truth.lower_HD, counts.planned_K, most, every_episode, rng,
            counts.count_K, counts.count_O, counts.reward_sum_O, spent, self._drawn, found,
        )  # fmt: skip
        if not truth.fits:
            violations = int(truth.breaks(self._drawn[self._drawn >= 0].tolist(), cut=end == SURPRISED))
        if end != SURPRISED:
            return Stretch(end, episodes, violations)
        step, row, o, broken = found.tolist()
        if truth.fits:
            after, judged = spent + truth.cost_OD[o], slice(step, _last_judged(world, step, o))
            broken |= ((after > truth.upper_HD[judged]) | (after < truth.lower_HD[judged])).any()
            violations += bool(broken)
        model_row = int(graph.row_model[row])
        reward = float(world.row_reward[model_row])
        surprise = Surprise(model_row, int(world.next_state[o]), self._counted(o), reward)
        return Stretch(end, episodes, violations, surprise)


def _last_judged(world: CMDP, step: int, o: int) -> int:
    """Return the end of the steps that an episode is judged by if a learner ends it after an outcome.

    Where the outcome ends it anyway, all later limits stay.
    """
    last = step + 1
    return world.horizon if last == world.horizon or world.is_terminal(last, int(world.next_state[o])) else last


def _world_of(problem: Problem) -> tuple[CMDP, NDArray[np.int64]]:
    """Return the model to play and its costs in ticks as they are counted, shape (O, D).

    That is the user's own, whose outcomes have true costs, also where rounding makes several of them count as one. Only
    continuous costs are played in bins.
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
    """Return for each outcome of the world its place in the row of the problem's model."""
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
    """What outcomes of a world really cost, and the limits as they were given.

    Attributes
    ----------
    fits : bool
        Whether true costs have 64-bit ticks; else kernels are told of none, and each episode is judged in fractions.
    cost_OD : ndarray of int64, shape (O, D)
        In ticks. Bins of continuous costs count at both ends, in two columns for each resource: whether a cost within a
        bin breaks a limit is not drawn, so that an episode counts if some of them would.
    upper_HD, lower_HD : ndarray of int64, shape (H, D)
    world : CMDP
    limits : Limits
    """

    fits: bool
    cost_OD: NDArray[np.int64]
    upper_HD: NDArray[np.int64]
    lower_HD: NDArray[np.int64]
    world: CMDP
    limits: Limits

    @classmethod
    def of(cls, problem: Problem, world: CMDP) -> _TrueCosts:
        limits = problem.limits
        if _has_distributions(problem):
            units, ends = problem.truth.units, (problem.truth.high_OD, problem.truth.low_OD)
            uppers, lowers = _in_ticks(limits, units, world.horizon)
            no_upper, no_lower = np.full_like(uppers, NO_UPPER), np.full_like(lowers, NO_LOWER)
            sides = np.hstack([uppers, no_upper]), np.hstack([no_lower, lowers])
            return cls(True, np.ascontiguousarray(np.hstack(ends)), *sides, world, limits)
        columns = [problem.origin.cost[problem.origin.resource_index(name)] for name in limits.resources]
        sums = [problem.origin.cost_sums[problem.origin.resource_index(name)] for name in limits.resources]
        if not all(column.fits and max(most) <= MAX_TICKS for column, most in zip(columns, sums, strict=True)):
            nothing = np.zeros((world.horizon, 0), np.int64)
            return cls(False, np.zeros((world.n_outcomes, 0), np.int64), nothing, nothing, world, limits)
        sides = _in_ticks(limits, tuple(column.unit for column in columns), world.horizon)
        cost_OD = np.stack([column.ticks for column in columns], axis=1) if columns else np.zeros((world.n_outcomes, 0))
        return cls(True, np.ascontiguousarray(cost_OD, np.int64), *sides, world, limits)

    def breaks(self, outcomes: list[int], *, cut: bool) -> bool:
        """Whether an episode of these outcomes broke a limit; `cut` says that the learner ended it."""
        spent = (Fraction(0),) * len(self.limits.resources)
        at = [self.world.resource_index(name) for name in self.limits.resources]
        for step, o in enumerate(outcomes):
            spent = tuple(a + self.world.cost[r].value(o) for a, r in zip(spent, at, strict=True))
            if breaks(self.limits, spent, step):
                return True
        steps = len(outcomes)
        last = _last_judged(self.world, steps - 1, outcomes[-1]) if cut else self.world.horizon
        return any(breaks(self.limits, spent, later) for later in range(steps, last))


def _in_ticks(limits: Limits, units: tuple[Fraction, ...], horizon: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return upper and lower limits in whole ticks, which sums of whole ticks keep exactly if they keep these."""
    shape = horizon, len(units)
    uppers, lowers = np.full(shape, NO_UPPER, np.int64), np.full(shape, NO_LOWER, np.int64)
    for d, unit in enumerate(units):
        for step in range(horizon):
            most, least = limits.upper[d][step], limits.lower[d][step]
            if most is not None:  # what no sum reaches is far enough
                uppers[step, d] = max(min(most // unit, NO_UPPER), NO_LOWER + 1)
            if least is not None:
                lowers[step, d] = max(min(-(-least // unit), NO_UPPER - 1), NO_LOWER)
    return uppers, lowers


def breaks(limits: Limits, spent: tuple[Fraction, ...], step: int) -> bool:
    """Whether what was spent breaks a limit after a step."""
    for d, amount in enumerate(spent):
        most, least = limits.upper[d][step], limits.lower[d][step]
        if (most is not None and amount > most) or (least is not None and amount < least):
            return True
    return False


def breaks_within(limits: Limits, high: tuple[Fraction, ...], low: tuple[Fraction, ...], step: int) -> bool:
    """Whether what was spent on the way breaks a limit: the looser of those before and after a step."""
    steps = {max(step - 1, 0), step}
    for d in range(len(limits.resources)):
        uppers, lowers = [limits.upper[d][h] for h in steps], [limits.lower[d][h] for h in steps]
        if all(limit is not None and high[d] > limit for limit in uppers):
            return True
        if all(limit is not None and low[d] < limit for limit in lowers):
            return True
    return False


class WorldField:
    """Any environment, one step at a time.

    Parameters
    ----------
    world : World
    support : CMDP or Seen
        Knows the environment's states by name; a known support is to have all that happens in it.
    reward_range : (float, float)
        Between what every reward is to lie.
    same_rewards : bool
        Whether an outcome must always come with the same reward.
    """

    chunk = 100

    def __init__(
        self, world: World, support: CMDP | Seen, reward_range: tuple[float, float], *, same_rewards: bool
    ) -> None:
        self._world, self._support, self._range, self._same = world, support, reward_range, same_rewards
        self._place = {name: index for index, name in enumerate(support.states)}
        self._graph: Graph | None = None
        self._outcome: dict[tuple[int, int, tuple[int, ...]], int] = {}

    def learn_of(self, row: int, after: int, costs: tuple[Fraction, ...]) -> None:
        """Nothing to do: outcomes are looked up in the graph."""

    def play(
        self, graph: Graph, counts: Counts, row_N: NDArray[np.int64], rng: NDArray[np.uint64], first: int, most: int,
        *, every_episode: bool, pause: Callable[[], bool] = lambda: False,
    ) -> Stretch:  # fmt: skip
        """Play at most so many episodes."""
        self._look_at(graph)
        violations = 0
        for number in range(first, first + most):
            due, broke, surprise = self._episode(graph, counts, row_N, number)
            violations += broke
            if surprise is not None:
                return Stretch(SURPRISED, number - first + 1, violations, surprise)
            if due or every_episode:
                return Stretch(DUE, number - first + 1, violations)
            if pause():
                return Stretch(PLAYED, number - first + 1, violations)
        return Stretch(PLAYED, most, violations)

    def _look_at(self, graph: Graph) -> None:
        if self._graph is graph:
            return
        self._graph, model = graph, graph.problem.model
        sizes = np.diff(model.outcome_indptr)
        rows = np.repeat(np.arange(model.n_rows), sizes).tolist()
        places = (np.arange(model.n_outcomes) - np.repeat(model.outcome_indptr[:-1], sizes)).tolist()
        ticks = map(tuple, graph.problem.lattice.cost_OD.tolist())
        self._outcome = {}
        for row, place, after, spent in zip(rows, places, model.next_state.tolist(), ticks, strict=True):
            self._outcome.setdefault((row, after, spent), place)

    def _episode(
        self, graph: Graph, counts: Counts, row_N: NDArray[np.int64], number: int
    ) -> tuple[bool, bool, Surprise | None]:
        mdp, problem, horizon = graph.mdp, graph.problem, graph.problem.model.horizon
        spent, node, step = (Fraction(0),) * len(problem.limits.resources), mdp.start, 0
        due = broke = False
        self._world.reset(number)
        while step < horizon and mdp.row_indptr[node] < mdp.row_indptr[node + 1]:
            row = int(row_N[node])
            model_row = int(graph.row_model[row])
            happened = self._world.step(problem.model.actions[mdp.row_action[row]])
            observation, reward, costs = happened.observation, happened.reward, happened.costs
            if happened.cut and not happened.over and step + 1 < horizon:
                raise self._too_short(step + 1, horizon)
            over = happened.over or happened.cut
            self._check_reward(reward, step)
            self._check_bound(graph, model_row, step, happened)
            broke = broke or self._breaks_on_the_way(spent, happened, step)
            spent = tuple(a + b for a, b in zip(spent, costs, strict=True))
            broke = broke or breaks(problem.limits, spent, step)
            after = self._after(observation, over=over, last=step == horizon - 1)
            counted, ticks = self._count(costs)
            j = None if ticks is None else self._outcome.get((model_row, after, ticks))
            if j is None:
                if isinstance(self._support, Seen):
                    last = horizon if over else step + 1  # else it is the learner who ends the episode
                    broke = broke or any(breaks(problem.limits, spent, later) for later in range(step + 1, last))
                    return due, broke, Surprise(model_row, after, counted, reward)
                raise self._unmodeled(graph, model_row, step, observation, costs)
            self._check_same(counts, row, j, reward, step)
            due |= counts.add(int(counts.row_key[row]), j, reward)
            node, step = int(graph.entry_next[graph.entry_indptr[row] + j]), step + 1
            self._check_end(graph, node, step, after, over=over)
        return due, broke or any(breaks(problem.limits, spent, later) for later in range(step, horizon)), None

    def _breaks_on_the_way(self, spent: tuple[Fraction, ...], happened: Happened, step: int) -> bool:
        assert self._graph is not None
        if happened.within is None:
            return False
        high, low = (tuple(a + b for a, b in zip(spent, side, strict=True)) for side in happened.within)
        return breaks_within(self._graph.problem.limits, high, low, step)

    def _after(self, observation: int, *, over: bool, last: bool) -> int:
        if isinstance(self._support, Seen):
            return self._support.over if over and not last else self._place[observation]
        twin = self._place.get((observation, "done")) if over else None
        after = self._place.get(observation) if twin is None else twin
        return -1 if after is None else after

    def _count(self, costs: tuple[Fraction, ...]) -> tuple[tuple[Fraction, ...], tuple[int, ...] | None]:
        """Return costs as they are counted, and in ticks; None if they are no whole number of them."""
        assert self._graph is not None
        problem, counted, ticks = self._graph.problem, [], []
        for cost, unit, counting in zip(costs, problem.lattice.units, problem.counting, strict=True):
            whole = -(-cost // unit) if counting == "up" else cost // unit
            exactly = counting == "exact"
            counted.append(cost if exactly else whole * unit)
            ticks.append(whole if not exactly or whole * unit == cost else None)
        found = tuple(tick for tick in ticks if tick is not None)
        return tuple(counted), found if len(found) == len(ticks) else None

    def _check_reward(self, reward: float, step: int) -> None:
        low, high = self._range
        if not low <= reward <= high:
            hint = "pass reward_range=(least, greatest), or scale the rewards"
            raise ModelError(f"step {step}, reward", f"a number from {low:g} to {high:g}", f"{reward:g}", hint)

    def _check_bound(self, graph: Graph, row: int, step: int, happened: Happened) -> None:
        """Raise an `UnmodeledOutcome` if a row costs more than it was said to cost at most."""
        bound = self._support.bounds[row] if isinstance(self._support, Seen) else None
        costs = happened.costs if happened.within is None else happened.within[0]
        if bound is None or all(cost <= most for cost, most in zip(costs, bound, strict=True)):
            return
        names = graph.problem.limits.resources
        possible = ", ".join(f"{n} at most {short_amount(c)}" for n, c in zip(names, bound, strict=True))
        raise _surprising(graph, row, step, _priced(names, costs), (f"{possible}, as cost_bound says",))

    def _check_same(self, counts: Counts, row: int, j: int, reward: float, step: int) -> None:
        if not self._same:
            return
        o = int(counts.key_indptr[counts.row_key[row]]) + j
        if counts.count_O[o] and abs(counts.reward_sum_O[o] / counts.count_O[o] - reward) > 1e-9:
            before = counts.reward_sum_O[o] / counts.count_O[o]
            expected = f"the reward that came with this outcome before ({before:g}), as random_rewards=False says"
            raise ModelError(f"step {step}, reward", expected, f"{reward:g}", "leave it out")

    @staticmethod
    def _too_short(steps: int, horizon: int) -> ModelError:
        """Return the error of an episode that was cut short by a time limit, which is no outcome of any state."""
        return ModelError(
            f"step {steps}", f"the episode to go on, as the horizon of {horizon} says", "its end by a time limit",
            "learn with a horizon within the environment's own",
        )  # fmt: skip

    def _check_end(self, graph: Graph, node: int, step: int, after: int, *, over: bool) -> None:
        model = graph.problem.model
        if step == model.horizon or over == model.is_terminal(step, after):
            return
        where = f"step {step}, state {quote(model.states[after])}"
        if over:
            expected = f"the episode to go on, as the support and the horizon of {model.horizon} say"
            raise ModelError(where, expected, "its end", "learn with a horizon within the environment's own")
        raise ModelError(where, "the end of the episode, as the support says", "that it goes on")

    def _unmodeled(
        self, graph: Graph, row: int, step: int, observation: int, costs: tuple[Fraction, ...]
    ) -> UnmodeledOutcome:
        possible = tuple(
            f"{quote(each.next_state)} at {', '.join(f'{n} {c}' for n, c in each.cost.items())}"
            for each in graph.problem.model.outcomes(row)
        )
        paid = _priced(graph.problem.limits.resources, costs)
        return _surprising(graph, row, step, f"{quote(observation)} at {paid}", possible)


def _surprising(graph: Graph, row: int, step: int, found: str, possible: tuple[str, ...]) -> UnmodeledOutcome:
    model = graph.problem.model
    state = int(np.searchsorted(model.row_indptr, row, side="right") - 1) % model.n_states
    return UnmodeledOutcome(step, model.states[state], model.actions[int(model.row_action[row])], found, possible)


def _priced(names: tuple[str, ...], costs: tuple[Fraction, ...]) -> str:
    return ", ".join(f"{name} {short_amount(cost)}" for name, cost in zip(names, costs, strict=True))
