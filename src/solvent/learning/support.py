"""The support: the set of possible outcomes (next state and costs) of each row, known from the start or learned.

A support is a model whose probabilities and rewards are not used. A known support fixes which nodes and actions are
safe. A learned support (`LearnedSupport`) starts empty: a row that was never tried leads, optimistically, to a state
where nothing more is spent or earned. Each new outcome is added to its row, for every step that shares the row and
every amount spent. If the costs of actions are bounded, rows also get outcomes that never occur and exclude actions
which the worst case would make unsafe (`solvent.learning.worst_case`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MAX_TICKS, MINUS_INFINITY, PLUS_INFINITY, exact_column
from solvent.errors import ModelError, quote
from solvent.learning.starts import START
from solvent.learning.worst_case import GONE, WorstCase
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.cost_bounds import Bound
from solvent.model.functions import from_function
from solvent.model.lattice import AccountTicks, Lattice
from solvent.model.rounding import limit_ticks, round_to
from solvent.policy.nodes import Counting
from solvent.solvers.problem import Problem, TrueCosts

#: Possible (next state, cost) pairs: a dict by (state, action), or a function of these. Actions without pairs are not
#: available.
SupportLike = CMDP | Mapping[tuple[Any, Any], Any] | Callable[..., Any]

#: Position of the next state, and exact costs.
Outcome = tuple[int, tuple[Fraction, ...]]

#: States of a learned support besides those of the environment: the outcome of a row never tried, and the end of an
#: episode.
UNEXPLORED, OVER = "(unexplored)", "(over)"


@dataclass(frozen=True)
class NewOutcome:
    """An outcome that was not in the learned support.

    Attributes
    ----------
    row : int
        Row of the model.
    next_state : int
    costs : tuple of Fraction
        Costs as counted, one per limited resource.
    reward : float
    """

    row: int
    next_state: int
    costs: tuple[Fraction, ...]
    reward: float


def read_support(
    support: SupportLike, *, start: Hashable, actions: range, horizon: int, resources: tuple[str, ...], stationary: bool
) -> CMDP:
    """Return a support as a model in which the outcomes of a row are equally likely.

    Raises
    ------
    ModelError
        If it is not a support, or a model with another horizon or start.

    Examples
    --------
    >>> possible = {(0, 0): [(0, 0)], (0, 1): [(0, 1), (1, 2)], (1, 0): [(1, 0)]}
    >>> read_support(possible, start=0, actions=range(2), horizon=3, resources=("cost",), stationary=True)
    CMDP(horizon 3, 2 states, 2 actions, 3 rows, 4 outcomes, stationary, resources ['cost'])
    """
    if isinstance(support, CMDP):
        if support.horizon != horizon:
            raise ModelError("support", f"a model of horizon {horizon}", f"one of {support.horizon}")
        if start != START and support.start != start:
            raise ModelError(
                "support", f"a model that starts in {quote(start)}, as the environment does", quote(support.start)
            )
        return support
    if start == START:
        hint = "or wrap the environment: solvent.gym.RandomStart(env)"
        raise ModelError("support", "a model, which has the first states, with random_start=True", quote(support), hint)
    if isinstance(support, Mapping):
        table = support

        def possible(*place: Any) -> Any:
            return table.get(place, ())
    elif callable(support):
        possible = support
    else:
        expected = "a CMDP, a dict by (state, action), or a function of them"
        raise ModelError("support", expected, quote(support))

    def listed(*place: Any) -> list[Any]:
        pairs = possible(*place)
        if pairs is None:
            return []
        if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes | Mapping):
            raise ModelError(f"support of {quote(place)}", "a list of pairs (next state, cost)", quote(pairs))
        return list(pairs)

    def offered(*place: Any) -> list[int]:
        return [action for action in actions if listed(*place, action)]

    def outcomes(*place: Any) -> list[Any]:
        pairs = listed(*place)
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise ModelError(f"support of {quote(place)}", "pairs (next state, cost)", quote(pair))
        return [(Fraction(1, len(pairs)), after, cost) for after, cost in pairs]

    try:
        return from_function(
            start, offered, outcomes, horizon, resources=resources, stationary=stationary, progress=False
        )
    except ModelError as error:
        raise error if error.where.startswith("support") else error.within("support") from None


def unrolled(model: CMDP) -> CMDP:
    """Return the same model with a separate table for each step.

    Examples
    --------
    >>> from solvent.model import instances
    >>> unrolled(instances.fuel_grid(2)).n_tables
    6
    """
    size = model.n_states
    rows = [np.arange(model.row_indptr[t * size], model.row_indptr[(t + 1) * size]) for t in model.table_of_step]
    row = np.concatenate(rows)
    per_state = np.concatenate([np.diff(model.row_indptr_at(step)) for step in range(model.horizon)])
    sizes = np.diff(model.outcome_indptr)[row]
    ends = np.cumsum(sizes)
    outcome = np.arange(int(ends[-1])) + np.repeat(model.outcome_indptr[row] - (ends - sizes), sizes)
    return replace(
        model,
        table_of_step=np.arange(model.horizon, dtype=np.int32),
        row_indptr=_indptr(per_state),
        row_action=model.row_action[row],
        row_reward=model.row_reward[row],
        outcome_indptr=_indptr(sizes),
        probability=model.probability[outcome],
        next_state=model.next_state[outcome],
        cost=tuple(column.take(outcome) for column in model.cost),
        distribution_DO=None
        if model.distribution_DO is None
        else np.ascontiguousarray(model.distribution_DO[:, outcome]),
    )


class LearnedSupport:
    """A learned support: the distinct (next state, cost) pairs seen in each row, in order of first occurrence.

    Parameters
    ----------
    names : CMDP or tuple
        A model with the states, actions and rows; or (start, states, actions) of an environment in which every action
        is available in every state. A state `START` among them draws the first state: it has one action.
    horizon : int
    limits : Limits
    stationary : bool
        Whether all steps share rows; ignored for a model.
    units : tuple of Fraction, optional
        The unit of each limited resource. Default: the largest that divides all costs seen.
    counting : tuple of {"exact", "down", "up"}, optional
        How costs are rounded to units.
    worst_case : WorstCase, optional
        Bounds on the costs of an environment's actions.

    Attributes
    ----------
    bounds : list of Bound
        Upper bound on the costs of each row; None if unknown.
    never : list of lists of Outcome
        Outcomes that each row must be safe for and that never occur.
    outcomes : list of lists of Outcome
        Outcomes seen in each row.
    pending : list
        Outcomes that occurred and are not in the graph yet, each as often as it occurred.
    tries : Counter
        Number of pending outcomes of each row.
    """

    def __init__(
        self,
        names: CMDP | tuple[Hashable, tuple[Hashable, ...], tuple[Hashable, ...]],
        horizon: int,
        limits: Limits,
        *,
        stationary: bool = True,
        units: tuple[Fraction, ...] | None = None,
        counting: tuple[Counting, ...] | None = None,
        worst_case: WorstCase | None = None,
    ) -> None:
        self.horizon, self.limits, self.units = horizon, limits, units
        exactly: Counting = "exact"
        self.counting = counting or (exactly,) * len(limits.resources)
        self.added: tuple[Hashable, ...] = (UNEXPLORED, OVER)
        self.bounds: list[Bound]
        if isinstance(names, CMDP):
            self.start, self.states, self.actions = names.start, names.states, names.actions
            self.table_of_step, n_tables = names.table_of_step, names.n_tables
            offered = np.diff(names.row_indptr).reshape(n_tables, -1)
            # the added states have no rows: they are terminal
            offered = np.pad(offered, ((0, 0), (0, len(self.added))))
            self.row_action, self.bounds = names.row_action, [None] * names.n_rows
        else:
            self.start, self.states, self.actions = names
            n_tables = 1 if stationary else horizon
            self.table_of_step = np.zeros(horizon, np.int32) if stationary else np.arange(horizon, dtype=np.int32)
            if worst_case is not None:
                self.added += (GONE, *(("worst", i) for i in range(len(worst_case.kinds))))
            actions = self._actions_by_state(worst_case)
            offered = np.tile([len(each) for each in actions], n_tables)
            self.row_action = np.tile(np.array([a for each in actions for a in each], np.int32), n_tables)
            self.bounds = self._bounds_by_row(worst_case) * n_tables
        #: Equal costs are the same tuple, so that they can be told apart by identity, which is faster.
        self._kept: dict[tuple[Fraction, ...], tuple[Fraction, ...]] = {}
        self.bounds = [None if bound is None else self._kept.setdefault(bound, bound) for bound in self.bounds]
        self.row_indptr = _indptr(offered.ravel())
        self.unexplored, self.over = len(self.states), len(self.states) + 1
        stand_ins = range(self.over + 1, len(self.states) + len(self.added))
        self.never: list[list[Outcome]] = [
            [] if bound is None else [(after, bound) for after in stand_ins] for bound in self.bounds
        ]
        self.outcomes: list[list[Outcome]] = [[] for _ in self.row_action]
        self.pending: list[NewOutcome] = []
        self.tries: Counter[int] = Counter()
        self._stand_in = [] if worst_case is None else [1 + kind for kind in worst_case.kind_of_state]

    @property
    def is_bounded(self) -> bool:
        """Whether there are bounds on the costs of actions."""
        return bool(self._stand_in)

    def stand_in(self, state: int) -> int:
        """Return the entry of every row that leads to a node at least as hard as a state after any of its outcomes."""
        return self._stand_in[state]

    def rows(self, step: int, state: int) -> range:
        """Return the rows of a state at a step."""
        first = int(self.table_of_step[step]) * (len(self.states) + len(self.added)) + state
        return range(int(self.row_indptr[first]), int(self.row_indptr[first + 1]))

    def covered(self, stand_in: int, rows: range) -> list[int]:
        """Return those rows that cost no more than a row of a node that stands for their state."""
        most, found = self.bounds[stand_in], []
        assert most is not None
        for row in rows:
            bound = self.bounds[row]
            assert bound is not None
            if all(a <= b for a, b in zip(bound, most, strict=True)):
                found.append(row)
        return found

    def postpone(self, new: Iterable[NewOutcome]) -> None:
        """Keep outcomes until the graph is built again."""
        for each in new:
            self.pending.append(each)
            self.tries[each.row] += 1

    def forget_pending(self) -> None:
        """Drop pending outcomes, which have been added and counted."""
        self.pending, self.tries = [], Counter()

    def add(self, row: int, next_state: int, costs: tuple[Fraction, ...]) -> bool:
        """Add an outcome to a row; return whether it is new."""
        known = (next_state, costs) in self.outcomes[row]
        if not known:
            self.outcomes[row].append((next_state, self._kept.setdefault(costs, costs)))
        return not known

    @property
    def first(self) -> int:
        """Position of the state in which episodes begin."""
        return self.states.index(self.start)

    def _actions_by_state(self, worst_case: WorstCase | None) -> list[list[int]]:
        every = list(range(len(self.actions)))
        if worst_case is None:
            return [every[:1] if name == START else every for name in self.states] + [[]] * len(self.added)
        allowed = [[a for a in every if row[a] is not None] for row in worst_case.bounds_S]
        return [*allowed, [], [], [], *(list(range(len(kind))) for kind in worst_case.kinds)]

    def _bounds_by_row(self, worst_case: WorstCase | None) -> list[Bound]:
        if worst_case is None:
            return [None] * sum(map(len, self._actions_by_state(None)))
        own: list[Bound] = [bound for row in worst_case.bounds_S for bound in row if bound is not None]
        return own + [bound for kind in worst_case.kinds for bound in kind]

    def place(self, new: NewOutcome) -> int:
        """Return the position of an outcome among all outcomes of its row."""
        return len(self.never[new.row]) + self.outcomes[new.row].index((new.next_state, new.costs))

    def model(self) -> CMDP:
        """Return the support as a model in which the outcomes of a row are equally likely."""
        optimistic = self._optimistic_cost()
        rows = [
            never + (seen or [(self.unexplored, optimistic if bound is None else bound)])
            for never, seen, bound in zip(self.never, self.outcomes, self.bounds, strict=True)
        ]
        sizes = np.array([len(row) for row in rows])
        flat = [outcome for row in rows for outcome in row]
        distinct = {id(costs): costs for _, costs in flat}
        place = {identity: i for i, identity in enumerate(distinct)}
        index = np.array([place[id(costs)] for _, costs in flat], np.int64)
        columns = tuple(
            exact_column([costs[d] for costs in distinct.values()], steps=self.horizon).take(index)
            for d in range(len(self.limits.resources))
        )
        return CMDP(
            horizon=self.horizon,
            start=self.start,
            states=(*self.states, *self.added),
            actions=self.actions,
            resources=self.limits.resources,
            table_of_step=self.table_of_step,
            row_indptr=self.row_indptr,
            row_action=self.row_action,
            row_reward=np.zeros(len(rows)),
            outcome_indptr=_indptr(sizes),
            probability=np.repeat(1 / sizes, sizes),
            next_state=np.array([after for after, _ in flat], np.int32),
            cost=columns,
            name="learned support",
        )

    def _optimistic_cost(self) -> tuple[Fraction, ...]:
        """Return a cost for actions never tried that is low enough to keep every limit."""
        zero, found = Fraction(0), []
        for d, side in enumerate(self.limits.upper):
            if _never_tightens(side):
                found.append(zero)
                continue
            highest = max([zero, *(costs[d] for outcomes in self.outcomes for _, costs in outcomes)])
            found.append(-self.horizon * highest - self.limits.largest(d))
        return tuple(found)

    def problem(self) -> Problem:
        """Return the problem of keeping the budget under the outcomes seen; raises as `Lattice.fit`."""
        model = self.model()
        lattice = self._lattice(model, self.units) if self.units else Lattice.fit(model, self.limits)
        truth = TrueCosts(
            lattice.units, lattice.cost_OD, lattice.cost_OD, lattice.accounts, lattice.accounts, exact=False
        )
        return Problem(model, self.limits, model, lattice, self.counting, truth)

    def _lattice(self, model: CMDP, units: tuple[Fraction, ...]) -> Lattice:
        limits, columns = self.limits, []
        for d, unit in enumerate(units):
            reach = max(model.cost_sums[d]) * model.cost[d].unit + limits.largest(d)
            if reach > MAX_TICKS * unit:
                expected = "a number for which sums of rounded costs fit 64 bits"
                raise ModelError("epsilon_cost", expected, f"units of {unit}", "make it larger")
            columns.append(round_to(model.cost[d], unit, up=self.counting[d] == "up"))
        sides = [
            np.stack([limit_ticks(side[d], units[d], end) for d in range(len(units))], axis=1)
            for side, end in ((limits.upper, PLUS_INFINITY), (limits.lower, MINUS_INFINITY))
        ]
        return Lattice(
            limits.resources, units, np.stack(columns, axis=1), sides[0], sides[1], *AccountTicks.plain(len(units))
        )


def _never_tightens(side: tuple[Fraction | None, ...]) -> bool:
    """Return whether upper limits start at 0 or more and never decrease, so that spending nothing keeps them."""
    pairs = pairwise((Fraction(0), *side))
    return all(after is None or (before is not None and before <= after) for before, after in pairs)


def _indptr(sizes: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
