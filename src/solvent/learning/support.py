"""What can happen: known beforehand, or learned by seeing it.

A support is a model whose probabilities and rewards nobody looks at. A known one decides once and for all which nodes
and actions are safe. A learned one (`Seen`) begins with nothing: a row that was never tried leads to a place where
nothing more happens, which is how an optimist sees it; each new outcome is added to its row, for every step that
shares the row and whatever had been spent. Where it is known what actions cost at most, rows also have outcomes that
never happen, which keep from them whatever the worst luck could make unsafe (`solvent.learning.worst`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MAX_TICKS, exact_column
from solvent.errors import ModelError, quote
from solvent.learning.worst import GONE, Worst
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.cost_bounds import Bound
from solvent.model.functions import from_function
from solvent.model.lattice import Lattice
from solvent.model.rounding import NO_LOWER, NO_UPPER, limit_ticks, round_to
from solvent.policy.nodes import Counting
from solvent.solvers.problem import Problem, TrueCosts

#: Possible (next state, cost) pairs: by (state, action), or a function of these; an action without any is not offered.
SupportLike = CMDP | Mapping[tuple[Any, Any], Any] | Callable[..., Any]

#: A next state, by position, and exact costs.
Outcome = tuple[int, tuple[Fraction, ...]]

#: States of a learned support beside those of the environment: nobody knows what comes, and the episode is over.
UNEXPLORED, OVER = "unexplored", "over"


def read_support(
    support: SupportLike, *, start: Hashable, actions: range, horizon: int, resources: tuple[str, ...], stationary: bool
) -> CMDP:
    """Return the support as a model, its outcomes equally likely.

    Raises
    ------
    ModelError
        If it is none, or its horizon is another.

    Examples
    --------
    >>> possible = {(0, 0): [(0, 0)], (0, 1): [(0, 1), (1, 2)], (1, 0): [(1, 0)]}
    >>> read_support(possible, start=0, actions=range(2), horizon=3, resources=("cost",), stationary=True)
    CMDP(horizon 3, 2 states, 2 actions, 3 rows, 4 outcomes, stationary, resources ['cost'])
    """
    if isinstance(support, CMDP):
        if support.horizon != horizon:
            raise ModelError("support", f"a model of horizon {horizon}", f"one of {support.horizon}")
        if support.start != start:
            raise ModelError(
                "support", f"a model that starts in {quote(start)}, as the environment does", quote(support.start)
            )
        return support
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
    """Return the same model with a table of its own for each step, so that nothing is shared between steps.

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


class Seen:
    """The learned support: per row, the distinct (next state, cost) pairs that were seen, in the order they came.

    Parameters
    ----------
    names : CMDP or tuple
        A model whose states, actions and rows are offered; or (start, states, actions) of an environment in which every
        action is offered everywhere.
    horizon : int
    limits : Limits
    stationary : bool
        Whether all steps share rows; of a model, it says itself.
    units : tuple of Fraction, optional
        What a tick of each limited resource is worth; the greatest that divides what was seen, if not given.
    counting : tuple of {"exact", "down", "up"}
    worst : Worst, optional
        What actions cost at most, in an environment.

    Attributes
    ----------
    bounds : list of Bound
        What each row costs at most; None if that is not known.
    never : list of lists of Outcome
        What each row has to be safe for and never leads to.
    outcomes : list of lists of Outcome
        What was seen of each row.
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
        worst: Worst | None = None,
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
            # the added states have no rows: nothing more is earned or spent there
            offered = np.pad(offered, ((0, 0), (0, len(self.added))))
            self.row_action, self.bounds = names.row_action, [None] * names.n_rows
        else:
            self.start, self.states, self.actions = names
            n_tables = 1 if stationary else horizon
            self.table_of_step = np.zeros(horizon, np.int32) if stationary else np.arange(horizon, dtype=np.int32)
            if worst is not None:
                self.added += (GONE, *(("worst", i) for i in range(len(worst.kinds))))
            actions = self._actions_by_state(worst)
            offered = np.tile([len(each) for each in actions], n_tables)
            self.row_action = np.tile(np.array([a for each in actions for a in each], np.int32), n_tables)
            self.bounds = self._bounds_by_row(worst) * n_tables
        self.row_indptr = _indptr(offered.ravel())
        self.unexplored, self.over = len(self.states), len(self.states) + 1
        stand_ins = range(self.over + 1, len(self.states) + len(self.added))
        self.never: list[list[Outcome]] = [
            [] if bound is None else [(after, bound) for after in stand_ins] for bound in self.bounds
        ]
        self.outcomes: list[list[Outcome]] = [[] for _ in self.row_action]

    def _actions_by_state(self, worst: Worst | None) -> list[list[int]]:
        every = list(range(len(self.actions)))
        if worst is None:
            return [every] * len(self.states) + [[]] * len(self.added)
        allowed = [[a for a in every if row[a] is not None] for row in worst.bounds_S]
        return [*allowed, [], [], [], *(list(range(len(kind))) for kind in worst.kinds)]

    def _bounds_by_row(self, worst: Worst | None) -> list[Bound]:
        if worst is None:
            return [None] * (len(self.states) * len(self.actions))
        own: list[Bound] = [bound for row in worst.bounds_S for bound in row if bound is not None]
        return own + [bound for kind in worst.kinds for bound in kind]

    def add(self, row: int, after: int, costs: tuple[Fraction, ...]) -> bool:
        """Add an outcome to a row; return whether it is the first there."""
        self.outcomes[row].append((after, costs))
        return len(self.outcomes[row]) == 1

    def newest(self, row: int) -> int:
        """Return the position of the outcome that was last added to a row among all of it."""
        return len(self.never[row]) + len(self.outcomes[row]) - 1

    def model(self) -> CMDP:
        """Return the model of what was seen, outcomes of a row equally likely."""
        hope = self._hope()
        rows = [
            never + (seen or [(self.unexplored, hope if bound is None else bound)])
            for never, seen, bound in zip(self.never, self.outcomes, self.bounds, strict=True)
        ]
        sizes = np.array([len(row) for row in rows])
        flat = [outcome for row in rows for outcome in row]
        columns = tuple(
            exact_column([costs[d] for _, costs in flat], steps=self.horizon) for d in range(len(self.limits.resources))
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
            name="what was seen",
        )

    def _hope(self) -> tuple[Fraction, ...]:
        """Return what an optimist thinks an action costs that was never tried: so little that it keeps every limit."""
        nothing, hope = Fraction(0), []
        for d, side in enumerate(self.limits.upper):
            dearest = max([nothing, *(costs[d] for outcomes in self.outcomes for _, costs in outcomes)])
            hope.append(nothing if _only_rise(side) else -self.horizon * dearest - self.limits.largest(d))
        return tuple(hope)

    def problem(self) -> Problem:
        """Return the problem of keeping the budget as far as is known; errors as of `Lattice.fit`."""
        model = self.model()
        lattice = Lattice.fit(model, self.limits) if self.units is None else self._lattice(model, self.units)
        truth = TrueCosts(lattice.units, lattice.cost_OD, lattice.cost_OD, exact=False)
        return Problem(model, self.limits, model, lattice, self.counting, truth)

    def _lattice(self, model: CMDP, units: tuple[Fraction, ...]) -> Lattice:
        limits, columns = self.limits, []
        for d, unit in enumerate(units):
            reach = max(model.cost_sums[d]) * model.cost[d].unit + limits.largest(d)
            if reach > MAX_TICKS * unit:
                expected = "so much that sums of costs fit 64 bits"
                raise ModelError("epsilon_cost", expected, f"a length of {unit}", "make it larger")
            columns.append(round_to(model.cost[d], unit, up=self.counting[d] == "up"))
        sides = [
            np.stack([limit_ticks(side[d], units[d], end) for d in range(len(units))], axis=1)
            for side, end in ((limits.upper, NO_UPPER), (limits.lower, NO_LOWER))
        ]
        return Lattice(limits.resources, units, np.stack(columns, axis=1), sides[0], sides[1])


def _only_rise(side: tuple[Fraction | None, ...]) -> bool:
    """Whether what kept an upper limit keeps all later ones at no cost, beginning with nothing spent."""
    pairs = pairwise((Fraction(0), *side))
    return all(after is None or (before is not None and before <= after) for before, after in pairs)


def _indptr(sizes: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
