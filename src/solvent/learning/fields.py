"""Where episodes are played: in a model, by compiled code, or in any environment, a step at a time.

Both play by the rows a learner has chosen, count what comes of them, and stop where a count has doubled or something
comes that was not known to be possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.errors import ModelError, UnmodelledOutcome, quote
from solvent.learning.counts import Counts
from solvent.learning.graph import Graph
from solvent.learning.kernels import DUE, PLAYED, SURPRISED, accumulate, play
from solvent.learning.support import Seen
from solvent.learning.world import World
from solvent.model.amounts import short_amount
from solvent.model.cmdp import CMDP
from solvent.plan.problem import Problem


@dataclass(frozen=True)
class Surprise:
    """An outcome that was not in the learned support: of which row of the model, and whether it broke a limit."""

    row: int
    after: int
    costs: tuple[Fraction, ...]
    reward: float
    broke: bool


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
        *, every_episode: bool,
    ) -> Stretch:  # fmt: skip
        """Play at most so many episodes, the first of them with this number."""


class ModelField:
    """A model, stepped in compiled code.

    Parameters
    ----------
    problem : Problem
        With the world as its model; on learned supports its rows are those of `Seen`.
    known : bool
        Whether every outcome of it is known to be possible.
    """

    chunk = 10_000

    def __init__(self, problem: Problem, *, known: bool) -> None:
        self._world, self._lattice = problem.model, problem.lattice
        world = problem.model
        starts = world.outcome_indptr[:-1]
        self._cumulative = np.empty(world.n_outcomes)
        accumulate(world.outcome_indptr, world.probability, self._cumulative)
        offset = np.arange(world.n_outcomes) - np.repeat(starts, np.diff(world.outcome_indptr))
        self._local = offset if known else np.full(world.n_outcomes, -1)
        self._known_by_row: dict[int, int] = {}

    def learn_of(self, row: int, after: int, costs: tuple[Fraction, ...]) -> None:
        """Take note of an outcome, for every outcome of the world that looks like it."""
        place = self._known_by_row.get(row, 0)
        self._known_by_row[row] = place + 1
        for o in range(int(self._world.outcome_indptr[row]), int(self._world.outcome_indptr[row + 1])):
            if self._world.next_state[o] == after and self._costs(o) == costs:
                self._local[o] = place

    def _costs(self, o: int) -> tuple[Fraction, ...]:
        lattice = self._lattice
        return tuple(lattice.amount(d, ticks) for d, ticks in enumerate(lattice.cost_OD[o].tolist()))

    def play(
        self, graph: Graph, counts: Counts, row_N: NDArray[np.int64], rng: NDArray[np.uint64], first: int, most: int,
        *, every_episode: bool,
    ) -> Stretch:  # fmt: skip
        """Play at most so many episodes; their numbers do not matter here, as the generator goes on."""
        world, lattice = self._world, self._lattice
        spent, found = np.zeros(len(lattice.resources), np.int64), np.zeros(3, np.int64)
        end, episodes, violations = play(
            graph.mdp.row_indptr, graph.row_model, counts.row_key, graph.entry_indptr, graph.entry_next,
            counts.key_indptr, row_N, world.outcome_indptr, self._cumulative, world.row_reward, lattice.cost_OD,
            self._local, lattice.upper_HD, lattice.lower_HD, counts.planned_K, most, every_episode, rng,
            counts.count_K, counts.count_O, counts.reward_sum_O, spent, found,
        )  # fmt: skip
        if end != SURPRISED:
            return Stretch(end, episodes, violations)
        step, row, o = found.tolist()
        after = spent + lattice.cost_OD[o]
        broke = bool((after > lattice.upper_HD[step]).any() or (after < lattice.lower_HD[step]).any())
        model_row = int(graph.row_model[row])
        reward = float(world.row_reward[model_row])
        surprise = Surprise(model_row, int(world.next_state[o]), self._costs(o), reward, broke)
        return Stretch(end, episodes, violations + broke, surprise)


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
        *, every_episode: bool,
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
            observation, reward, costs, over, cut = self._world.step(problem.model.actions[mdp.row_action[row]])
            if cut and not over and step + 1 < horizon:
                raise self._too_short(step + 1, horizon)
            over = over or cut
            self._check_reward(reward, step)
            self._check_bound(graph, model_row, step, costs)
            after = self._after(observation, over=over, last=step == horizon - 1)
            counted, ticks = self._count(costs)
            spent = tuple(a + b for a, b in zip(spent, counted, strict=True))
            broke = broke or self._breaks(spent, step)
            j = None if ticks is None else self._outcome.get((model_row, after, ticks))
            if j is None:
                if isinstance(self._support, Seen):
                    return due, broke, Surprise(model_row, after, counted, reward, broke)
                raise self._unmodelled(graph, model_row, step, observation, costs)
            self._check_same(counts, row, j, reward, step)
            due |= counts.add(int(counts.row_key[row]), j, reward)
            node, step = int(graph.entry_next[graph.entry_indptr[row] + j]), step + 1
            self._check_end(graph, node, step, after, over=over)
        return due, broke or any(self._breaks(spent, later) for later in range(step, horizon)), None

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

    def _breaks(self, spent: tuple[Fraction, ...], step: int) -> bool:
        assert self._graph is not None
        limits = self._graph.problem.limits
        for d, amount in enumerate(spent):
            most, least = limits.upper[d][step], limits.lower[d][step]
            if (most is not None and amount > most) or (least is not None and amount < least):
                return True
        return False

    def _check_reward(self, reward: float, step: int) -> None:
        low, high = self._range
        if not low <= reward <= high:
            hint = "pass reward_range=(least, greatest), or scale the rewards"
            raise ModelError(f"step {step}, reward", f"a number from {low:g} to {high:g}", f"{reward:g}", hint)

    def _check_bound(self, graph: Graph, row: int, step: int, costs: tuple[Fraction, ...]) -> None:
        """Raise an `UnmodelledOutcome` if a row costs more than it was said to cost at most."""
        bound = self._support.bounds[row] if isinstance(self._support, Seen) else None
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

    def _unmodelled(
        self, graph: Graph, row: int, step: int, observation: int, costs: tuple[Fraction, ...]
    ) -> UnmodelledOutcome:
        possible = tuple(
            f"{quote(each.next_state)} at {', '.join(f'{n} {c}' for n, c in each.cost.items())}"
            for each in graph.problem.model.outcomes(row)
        )
        paid = _priced(graph.problem.limits.resources, costs)
        return _surprising(graph, row, step, f"{quote(observation)} at {paid}", possible)


def _surprising(graph: Graph, row: int, step: int, found: str, possible: tuple[str, ...]) -> UnmodelledOutcome:
    model = graph.problem.model
    state = int(np.searchsorted(model.row_indptr, row, side="right") - 1) % model.n_states
    return UnmodelledOutcome(step, model.states[state], model.actions[int(model.row_action[row])], found, possible)


def _priced(names: tuple[str, ...], costs: tuple[Fraction, ...]) -> str:
    return ", ".join(f"{name} {short_amount(cost)}" for name, cost in zip(names, costs, strict=True))
