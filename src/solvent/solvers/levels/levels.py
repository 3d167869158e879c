"""`survival_levels`, `reload_levels` and `reach_levels`: how much must be left, without a horizon.

`solvent.solvers.levels.fixed_points` defines and explains the computation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.arguments import read_switch
from solvent.core.exact import Number, exact
from solvent.core.interrupt import held_back
from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.core.progress import ProgressLike, open_progress
from solvent.errors import LimitError, PolicyError, printable
from solvent.model.amounts import as_typed, format_amount
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP
from solvent.model.ends import first_states
from solvent.policy.levels import LevelAgent, LevelPolicy, Objective
from solvent.solvers.levels.arrays import IMPOSSIBLE, RuleArrays
from solvent.solvers.levels.fixed_points import LevelProblem, reach_almost_surely, reach_surely, survive
from solvent.solvers.levels.question import Question


@dataclass(frozen=True, eq=False, repr=False)
class Levels:
    """The least level of a resource in each state, and a policy for all levels that are enough.

    Attributes
    ----------
    model : CMDP or DiscountedCMDP
    objective : {"survive", "reload", "reach"}
        What the levels are for: `survival_levels`, `reload_levels` or `reach_levels`.
    resource : str
    capacity : Fraction
        The largest level.
    reload, targets : tuple of hashables
        Names of the reload states, and of the targets.
    unit : Fraction
        Amount of one tick.
    ticks : ndarray of int64, shape (S,)
        Least level of each state in ticks; the largest int64 where no level is enough.
    policy : LevelPolicy
    """

    model: CMDP | DiscountedCMDP
    objective: Objective
    resource: str
    capacity: Fraction
    reload: tuple[Hashable, ...]
    targets: tuple[Hashable, ...]
    unit: Fraction
    ticks: NDArray[np.int64]
    policy: LevelPolicy

    @cached_property
    def levels(self) -> dict[Hashable, Fraction | None]:
        """The least level of each state; None where no level up to the capacity is enough."""
        amounts = {ticks: ticks * self.unit for ticks in np.unique(self.ticks).tolist() if ticks != IMPOSSIBLE}
        return {name: amounts.get(t) for name, t in zip(self.model.states, self.ticks.tolist(), strict=True)}

    def level(self, state: Hashable) -> Fraction | None:
        """Return the least level of a state; None if no level up to the capacity is enough.

        Raises
        ------
        ModelError
            If the model has no such state.
        """
        ticks = int(self.ticks[self.policy.model.state_index(state)])
        return None if ticks == IMPOSSIBLE else ticks * self.unit

    @property
    def n_possible(self) -> int:
        """Number of states from which some level up to the capacity is enough."""
        return int((self.ticks != IMPOSSIBLE).sum())

    @property
    def ignored_limits(self) -> tuple[str, ...]:
        """Limits of the model on other resources, which the policy can break."""
        others = [(name, each) for name, each in (self.model.budget or {}).items() if name != self.resource]
        return tuple(f"{name}: {each.text}" for name, each in others if (each.upper, each.lower) != (None, None))

    def action(self, state: Hashable, level: Number | None = None) -> Hashable:
        """Return the action of the policy; by default, with a full account.

        Raises
        ------
        PolicyError
            If the level is too low, or there is nothing to do in this state.
        """
        return self.policy.action(state, self.capacity if level is None else level)

    @property
    def start_level(self) -> Fraction | None:
        """The least level that is enough in every possible first state of the model; None if there is none."""
        levels = [self.level(state) for state in first_states(self.model.start)]
        return None if None in levels else max(level for level in levels if level is not None)

    def agent(
        self,
        state: Hashable | None = None,
        level: Number | None = None,
        *,
        snapshot: Mapping[str, Any] | None = None,
    ) -> LevelAgent:
        """Return an agent that follows the policy.

        Parameters
        ----------
        state : hashable, optional
            First state. Default: the start of the model.
        level : number, optional
            What is left at the start. Default: the capacity.
        snapshot : mapping, optional
            What `snapshot` of another agent returned; the new agent goes on from there.

        Raises
        ------
        PolicyError
            If this level is not enough in this state, or the model has several first states and none is given.
        """
        if state is None:
            if isinstance(self.model.start, dict) and snapshot is None:
                expected = f"one of the {len(self.model.start)} possible first states"
                raise PolicyError("agent, state", expected, "none", "use levels.agent(state=...)")
            state = first_states(self.model.start)[0]
        return LevelAgent(self.policy, state, self.capacity if level is None else exact(level, "level"), snapshot)

    def to_dict(self) -> dict[str, Any]:
        """Return all levels as plain objects: whole numbers, or text for other amounts."""
        return {
            "objective": self.objective,
            "resource": self.resource,
            "capacity": as_typed(self.capacity),
            "reload": list(self.reload),
            "targets": list(self.targets),
            "levels": [
                {"state": name, "level": None if level is None else as_typed(level)}
                for name, level in self.levels.items()
            ],
        }

    def __len__(self) -> int:
        return len(self.ticks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Levels):
            return NotImplemented
        return self.model == other.model and self.policy == other.policy and np.array_equal(self.ticks, other.ticks)

    def __hash__(self) -> int:
        return hash((self.objective, self.resource, self.capacity, len(self)))

    def __repr__(self) -> str:
        return (
            f"Levels({self.objective}, {printable(self.resource)} up to {format_amount(self.capacity)}, possible from "
            f"{self.n_possible:,} of {len(self):,} states)"
        )

    def _repr_html_(self) -> str:
        from solvent.solvers.display import levels_card

        return levels_card(self)


def survival_levels(
    model: CMDP | DiscountedCMDP,
    resource: str | None = None,
    *,
    capacity: Number,
    reload: Iterable[Hashable] = (),
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    progress: ProgressLike = False,
) -> Levels:
    """Compute the least level of each state from which the account never runs dry, forever.

    The *level* is what is left of a resource. An outcome of cost c changes it to min(level - c, capacity), which must
    not be negative under any outcome. Negative costs charge.

    Parameters
    ----------
    model : CMDP or DiscountedCMDP
        Its steps must be alike (stationary). Its horizon or discount, rewards and budget are not used; `ignored_limits`
        of the result lists limits on other resources.
    resource : str, optional
        May be omitted if the model has only one.
    capacity : number
        The largest level.
    reload : iterable of hashables
        States in which the level is set to the capacity before acting. Arriving there needs a level of 0.
    time_limit, memory_limit, progress : optional
        As for `solve`.

    Returns
    -------
    Levels
        A terminal state needs a level of 0.

    Raises
    ------
    ModelError
        If an argument does not fit the model, its steps differ, or the resource has continuous costs.
    LatticeOverflowError
        If the capacity is more than 2^62 times the common unit of the costs.
    LimitError
        If the time or memory limit was reached.

    Examples
    --------
    >>> b = CMDP.builder(horizon=1, start="dock", resources=["energy"])
    >>> b.add("dock", "drive", outcomes=[(0.9, "hall", 2), (0.1, "dock", 1)])
    >>> b.add("hall", "drive", outcomes=[(0.9, "dock", 2), (0.1, "hall", 1)])
    >>> b.add("hall", "crawl", outcomes=[(1, "dock", 5)])
    >>> robot = survival_levels(b.build(), capacity=10, reload=["dock"])
    >>> robot
    Levels(survive, energy up to 10, possible from 2 of 2 states)
    >>> robot.levels
    {'dock': Fraction(0, 1), 'hall': Fraction(5, 1)}
    >>> agent = robot.agent("hall", level=6)
    >>> agent.act()
    'crawl'
    >>> agent.observe("dock", 5)
    >>> agent.level
    Fraction(10, 1)
    """
    question = Question.read(model, resource, capacity, reload)

    def answer(problem: LevelProblem) -> Levels:
        level_S, policy = _survive(question, problem)
        return _levels(question, level_S, policy)

    return _compute(question, answer, time_limit, memory_limit, progress)


def reload_levels(
    model: CMDP | DiscountedCMDP,
    resource: str | None = None,
    *,
    capacity: Number,
    reload: Iterable[Hashable],
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    progress: ProgressLike = False,
) -> Levels:
    """Compute the least level of each state to reach a reload state surely, at least one step later.

    For a reload state this is the level to leave it with: what the next leg takes, of the capacity. What happens after
    a reload state is reached does not count. "Surely" means under every outcome, within a bounded number of steps.

    Parameters
    ----------
    model, resource, capacity, time_limit, memory_limit, progress
        As for `survival_levels`.
    reload : iterable of hashables
        The reload states.

    Returns
    -------
    Levels
        No level is enough in a terminal state. Its agents are done when they reach a reload state.

    Raises
    ------
    ModelError, LatticeOverflowError, LimitError
        As for `survival_levels`.

    Examples
    --------
    >>> b = CMDP.builder(horizon=1, start="dock", resources=["energy"])
    >>> b.add("dock", "drive", outcomes=[(1, "hall", 2)])
    >>> b.add("hall", "drive", outcomes=[(0.9, "dock", 1), (0.1, "hall", 1)])
    >>> b.add("hall", "crawl", outcomes=[(1, "dock", 5)])
    >>> reload_levels(b.build(), capacity=10, reload=["dock"]).levels
    {'dock': Fraction(7, 1), 'hall': Fraction(5, 1)}
    """
    question = Question.read(model, resource, capacity, reload)

    def answer(problem: LevelProblem) -> Levels:
        level_S, rules = reach_surely(problem, question.reload_S)
        best_S, need_S = problem.best(level_S)
        level_S = np.where(question.reload_S, need_S, level_S)
        first = np.flatnonzero(question.reload_S & (need_S != IMPOSSIBLE))
        rules = RuleArrays(
            np.concatenate([rules.state, first.astype(np.int32)]),
            np.concatenate([rules.level, need_S[first]]),
            np.concatenate([rules.row, best_S[first]]),
        )
        return _levels(question, level_S, _policy(question, "reload", question.reload_S, rules))

    return _compute(question, answer, time_limit, memory_limit, progress)


def reach_levels(
    model: CMDP | DiscountedCMDP,
    targets: Iterable[Hashable],
    resource: str | None = None,
    *,
    capacity: Number,
    reload: Iterable[Hashable] = (),
    survive: bool = True,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    progress: ProgressLike = False,
) -> Levels:
    """Compute the least level of each state to reach a target with probability one without ever running dry.

    Parameters
    ----------
    model, resource, capacity, reload, time_limit, memory_limit, progress
        As for `survival_levels`.
    targets : iterable of hashables
        States to reach. In a target, at the start too, the target is reached.
    survive : bool
        If True, the account must not run dry after a target was reached either, forever. If False, the first target
        is the end, and may be reached with a level of 0.

    Returns
    -------
    Levels
        Its agents go on to survive after a target was reached, unless `survive` is False.

    Raises
    ------
    ModelError, LatticeOverflowError, LimitError
        As for `survival_levels`.

    Examples
    --------
    >>> b = CMDP.builder(horizon=1, start="dock", resources=["energy"])
    >>> b.add("dock", "drive", outcomes=[(0.9, "hall", 2), (0.1, "dock", 2)])
    >>> b.add("hall", "back", outcomes=[(1, "dock", 2)])
    >>> b.add("hall", "serve", outcomes=[(0.5, "desk", 3), (0.5, "hall", 1)])
    >>> b.add("desk", "back", outcomes=[(1, "dock", 4)])
    >>> reach_levels(b.build(), ["desk"], capacity=10, reload=["dock"]).levels
    {'dock': Fraction(0, 1), 'hall': Fraction(2, 1), 'desk': Fraction(4, 1)}
    """
    question = Question.read(model, resource, capacity, reload)
    goal_S = question.states_of(targets, "targets")
    go_on = read_switch("survive", survive)

    def answer(problem: LevelProblem) -> Levels:
        after_S, after = _survive(question, problem) if go_on else (np.zeros(len(goal_S), np.int64), None)
        level_S, rules = reach_almost_surely(problem, goal_S, after_S)
        return _levels(question, level_S, _policy(question, "reach", goal_S, rules, after))

    return _compute(question, answer, time_limit, memory_limit, progress)


def _compute(
    question: Question,
    answer: Callable[[LevelProblem], Levels],
    time_limit: float | None,
    memory_limit: int | str | None,
    progress: ProgressLike,
) -> Levels:
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    try:
        with held_back(), open_progress(progress) as bar, ResourceMonitor(seconds, memory, bar) as monitor:
            return answer(question.problem(monitor))
    except LimitReached as reached:
        raise LimitError(f"the levels were not finished: {reached}; raise the limit or lower the capacity") from None


def _survive(question: Question, problem: LevelProblem) -> tuple[NDArray[np.int64], LevelPolicy]:
    n = problem.n_states
    level_S = survive(problem, np.zeros(n, np.int64), np.zeros(n, bool))
    best_S, need_S = problem.best(level_S)
    possible = np.flatnonzero(need_S != IMPOSSIBLE)
    rules = RuleArrays(possible.astype(np.int32), need_S[possible], best_S[possible])
    return level_S, _policy(question, "survive", np.zeros(n, bool), rules)


def _policy(
    question: Question,
    objective: Objective,
    goal_S: NDArray[np.bool_],
    rules: RuleArrays,
    after: LevelPolicy | None = None,
) -> LevelPolicy:
    order = np.argsort(rules.state, kind="stable")
    counts = np.bincount(rules.state, minlength=len(goal_S))
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return LevelPolicy(
        question.model, objective, question.resource, question.capacity, question.unit, question.reload_S, goal_S,
        indptr, rules.level[order], rules.row[order], after,
    )  # fmt: skip


def _levels(question: Question, level_S: NDArray[np.int64], policy: LevelPolicy) -> Levels:
    states = question.model.states
    level_S.flags.writeable = False
    targets = policy.goal_S if policy.objective == "reach" else np.zeros(len(level_S), bool)
    return Levels(
        question.given,
        policy.objective,
        question.resource,
        question.capacity,
        tuple(states[i] for i in np.flatnonzero(question.reload_S)),
        tuple(states[i] for i in np.flatnonzero(targets)),
        question.unit,
        level_S,
        policy,
    )
