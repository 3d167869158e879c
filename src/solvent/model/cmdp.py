"""The CMDP: an immutable finite-horizon constrained Markov decision process in flat arrays.

A *row* is one (table, state, action): an expected reward and a list of joint *outcomes* (probability, next state, cost
of each resource). Rows and outcomes are stored as in a CSR matrix:

    rows of (step, state)   row_indptr[table_of_step[step] * S + state] : the next entry
    outcomes of a row       outcome_indptr[row] : outcome_indptr[row + 1]

A stationary model has one table for all steps, a periodic model one table for each step of its period. A state without
rows at a step is terminal at that step.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import ExactColumn, exact
from solvent.errors import ModelError, did_you_mean, printable, quote
from solvent.model.budget import Budget, Limits, limits_of
from solvent.model.consistency import check_fields, check_horizon, tables_of_steps
from solvent.model.constructors import ModelConstructors
from solvent.model.distributions import CostDistribution
from solvent.model.ends import first_states
from solvent.model.resources import Resource

if TYPE_CHECKING:
    from solvent.model.describe import Description

#: Entry of `distribution_DO` for a cost that is a number.
NO_DISTRIBUTION = -1


class Outcome(NamedTuple):
    """One joint outcome of a row, by name; costs are exact numbers or distributions."""

    probability: float
    next_state: Hashable
    cost: dict[str, Fraction | CostDistribution]


@dataclass(frozen=True, eq=False, repr=False)
class CMDP(ModelConstructors):
    """A finite-horizon constrained Markov decision process.

    Use `CMDP.builder`, `CMDP.from_arrays`, `CMDP.from_function`, `CMDP.from_gymnasium`, `CMDP.from_frame`,
    `CMDP.from_graph`, `CMDP.from_episodes` or `solvent.load_model` to make one. All fields are read-only.
    `dataclasses.replace(model, ...)` returns a changed copy, whose fields are checked. If the model is stationary, its
    horizon can be changed alone; if rows depend on the step, `table_of_step` must be given too.

    Attributes
    ----------
    horizon : int
        Number of steps H.
    start : hashable, or dict of hashable to float
        Name of the state at step 0, or the probability of each possible one by name.
    states, actions : tuple of hashables
        Names. The arrays refer to them by position.
    resources : tuple of str
        Names of the resources.
    table_of_step : ndarray of int32, shape (H,)
        Table of each step.
    row_indptr : ndarray of int64, shape (T * S + 1,)
        First row of each (table, state).
    row_action : ndarray of int32, shape (R,)
        Action of each row; increasing within a state.
    row_reward : ndarray of float64, shape (R,)
        Expected reward of each row.
    outcome_indptr : ndarray of int64, shape (R + 1,)
        First outcome of each row.
    probability : ndarray of float64, shape (O,)
        Probability of each outcome; positive, with a sum of one over each row.
    next_state : ndarray of int32, shape (O,)
        Next state of each outcome.
    cost : tuple of ExactColumn, each of length O
        Exact costs, one column per resource; zero where the cost is a distribution.
    distributions : tuple of CostDistribution
        Continuous cost distributions.
    distribution_DO : ndarray of int32, shape (D, O), or None
        Index into `distributions`, or `NO_DISTRIBUTION`; None if no cost is continuous.
    budget : mapping of str to Budget, or None
        Default budget.
    name, description : str
        Title and description.
    floors, ceilings : tuple of Fraction or None
        For each resource, the least and the most that can have been spent: beyond it, it saturates. None for no end.
    end_reward : ndarray of float64, shape (S,), or None
        What it is worth to be in each state when the episode ends; None if nothing.
    may_end : ndarray of bool, shape (S,), or None
        Whether an episode may end in each state; None if in all of them.
    """

    horizon: int
    start: Hashable | dict[Hashable, float]
    states: tuple[Hashable, ...]
    actions: tuple[Hashable, ...]
    resources: tuple[str, ...]
    table_of_step: NDArray[np.int32]
    row_indptr: NDArray[np.int64]
    row_action: NDArray[np.int32]
    row_reward: NDArray[np.float64]
    outcome_indptr: NDArray[np.int64]
    probability: NDArray[np.float64]
    next_state: NDArray[np.int32]
    cost: tuple[ExactColumn, ...]
    distributions: tuple[CostDistribution, ...] = ()
    distribution_DO: NDArray[np.int32] | None = None
    budget: Mapping[str, Budget] | None = None
    name: str = ""
    description: str = field(default="")
    floors: tuple[Fraction | None, ...] = ()
    ceilings: tuple[Fraction | None, ...] = ()
    end_reward: NDArray[np.float64] | None = None
    may_end: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", check_horizon(self.horizon))
        for side in ("floors", "ceilings"):
            if not getattr(self, side):
                object.__setattr__(self, side, (None,) * len(self.resources))
        if isinstance(self.start, Mapping):
            object.__setattr__(self, "start", dict(self.start))
        object.__setattr__(self, "table_of_step", tables_of_steps(self))
        object.__setattr__(self, "budget", check_fields(self))
        for side in ("floors", "ceilings"):  # any numbers, as those of a `Resource`
            ends = tuple(None if end is None else exact(end, side) for end in getattr(self, side))
            object.__setattr__(self, side, ends)
        for array in (*self._arrays(), *(column.ticks for column in self.cost)):
            array.flags.writeable = False

    def _arrays(self) -> list[NDArray[Any]]:
        values = (getattr(self, each.name) for each in fields(self))
        return [value for value in values if isinstance(value, np.ndarray)]

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return len(self.states)

    @property
    def n_actions(self) -> int:
        """Number of actions A over all states."""
        return len(self.actions)

    @property
    def n_resources(self) -> int:
        """Number of resources D."""
        return len(self.resources)

    @property
    def n_tables(self) -> int:
        """Number of tables T: 1 for a stationary model."""
        return (len(self.row_indptr) - 1) // self.n_states

    @property
    def n_rows(self) -> int:
        """Number of rows R over all tables."""
        return len(self.row_action)

    @property
    def n_outcomes(self) -> int:
        """Number of outcomes O over all tables."""
        return len(self.probability)

    @property
    def is_stationary(self) -> bool:
        """Whether every step uses the same table."""
        return self.n_tables == 1

    @property
    def has_continuous_costs(self) -> bool:
        """Whether some cost is a continuous distribution."""
        return self.distribution_DO is not None

    @cached_property
    def _state_index(self) -> dict[Hashable, int]:
        return {name: index for index, name in enumerate(self.states)}

    @cached_property
    def _action_index(self) -> dict[Hashable, int]:
        return {name: index for index, name in enumerate(self.actions)}

    @cached_property
    def _resource_index(self) -> dict[Hashable, int]:
        return {name: index for index, name in enumerate(self.resources)}

    def state_index(self, name: Hashable) -> int:
        """Return the position of a state; raise `ModelError` if the name is unknown."""
        return _find(self._state_index, name, "state")

    def action_index(self, name: Hashable) -> int:
        """Return the position of an action; raise `ModelError` if the name is unknown."""
        return _find(self._action_index, name, "action")

    def resource_index(self, name: str) -> int:
        """Return the position of a resource; raise `ModelError` if the name is unknown."""
        return _find(self._resource_index, name, "resource")

    @property
    def start_index(self) -> int:
        """Position of the start state.

        Raises
        ------
        ModelError
            If the first state is drawn from several.
        """
        if isinstance(self.start, dict):
            raise ModelError("start", "a model with one first state", f"a distribution over {len(self.start)} states")
        return self._state_index[self.start]

    @cached_property
    def start_states(self) -> NDArray[np.int64]:
        """Positions of the possible states at step 0, in increasing order, shape (K,)."""
        return np.array(sorted(self._state_index[name] for name in first_states(self.start)), np.int64)

    @cached_property
    def start_probability(self) -> NDArray[np.float64]:
        """Probability of each of `start_states`, shape (K,)."""
        if not isinstance(self.start, dict):
            return np.ones(1)
        return np.array([self.start[self.states[s]] for s in self.start_states.tolist()])

    @cached_property
    def is_saturating(self) -> bool:
        """Whether some resource has a floor or a ceiling."""
        return any(end is not None for end in (*self.floors, *self.ceilings))

    def resource(self, name: str) -> Resource:
        """Return a resource by name, with its floor and its ceiling.

        Examples
        --------
        >>> from solvent.model import instances
        >>> instances.knapsack([1], [1]).resource("weight")
        Resource('weight')
        """
        d = self.resource_index(name)
        return Resource(name, floor=self.floors[d], ceiling=self.ceilings[d])

    @cached_property
    def end_value(self) -> NDArray[np.float64]:
        """What it is worth to end in each state; minus infinity where an episode must not end, shape (S,)."""
        value = np.zeros(self.n_states) if self.end_reward is None else self.end_reward.copy()
        if self.may_end is not None:
            value[~self.may_end] = -np.inf
        value.flags.writeable = False
        return value

    @property
    def has_end_values(self) -> bool:
        """Whether it matters in which state an episode ends."""
        return self.end_reward is not None or self.may_end is not None

    def rows(self, step: int, state: int) -> range:
        """Return the rows of a state (by position) at a step; empty if the state is terminal."""
        first = int(self.table_of_step[step]) * self.n_states + state
        return range(int(self.row_indptr[first]), int(self.row_indptr[first + 1]))

    def row_indptr_at(self, step: int) -> NDArray[np.int64]:
        """Return the first row of each state at a step, shape (S + 1,)."""
        first = int(self.table_of_step[step]) * self.n_states
        return self.row_indptr[first : first + self.n_states + 1]

    def is_terminal(self, step: int, state: int) -> bool:
        """Return whether a state (by position) is terminal at a step: nothing more is earned or spent."""
        return len(self.rows(step, state)) == 0

    def outcomes(self, row: int) -> list[Outcome]:
        """Return the outcomes of a row, by name.

        Examples
        --------
        >>> b = CMDP.builder(horizon=1, start="home", resources=["fuel"])
        >>> b.add("home", "go", outcomes=[(1, "away", "3/2")])
        >>> b.build().outcomes(0)
        [Outcome(probability=1.0, next_state='away', cost={'fuel': Fraction(3, 2)})]
        """
        return [
            Outcome(
                float(self.probability[o]),
                self.states[self.next_state[o]],
                {name: self.cost_of(d, o) for d, name in enumerate(self.resources)},
            )
            for o in range(int(self.outcome_indptr[row]), int(self.outcome_indptr[row + 1]))
        ]

    def cost_of(self, resource: int, outcome: int) -> Fraction | CostDistribution:
        """Return the cost of an outcome (both by position): an exact number or a distribution."""
        if self.distribution_DO is not None and self.distribution_DO[resource, outcome] != NO_DISTRIBUTION:
            return self.distributions[int(self.distribution_DO[resource, outcome])]
        return self.cost[resource].value(outcome)

    def refuse_continuous(self, resource: int, expected: str, hint: str, where: str = "") -> None:
        """Raise a `ModelError` if some cost of a resource (by position) is a continuous distribution.

        Parameters
        ----------
        resource : int
        expected, hint : str
            What is expected instead, and what to do.
        where : str
            Put before the place of the first such cost.
        """
        if self.distribution_DO is None:
            return
        used = np.flatnonzero(self.distribution_DO[resource] != NO_DISTRIBUTION)
        if len(used):
            first = int(used[0])
            place = f"{where}{self.place_of(first)}, cost of {self.resources[resource]}"
            raise ModelError(place, expected, str(self.cost_of(resource, first)), hint)

    def place_of(self, outcome: int) -> str:
        """Return the place of an outcome for messages: its state, action and, with several tables, a step."""
        row = int(np.searchsorted(self.outcome_indptr, outcome, side="right")) - 1
        table, state = divmod(int(np.searchsorted(self.row_indptr, row, side="right")) - 1, self.n_states)
        place = printable(f"{self.states[state]}/{self.actions[self.row_action[row]]}")
        steps = np.flatnonzero(self.table_of_step == table)
        if self.n_tables > 1 and len(steps):
            place += f" at step {int(steps[0])}"
        return place

    def cost_range(self, resource: int) -> tuple[Fraction | None, Fraction]:
        """Return the least and the greatest cost of a resource (by position); the least is None if unbounded."""
        plain = self.cost[resource].ticks
        ends: list[tuple[Fraction | None, Fraction]] = []
        if self.distribution_DO is not None:
            used = self.distribution_DO[resource]
            ends = [
                (self.distributions[i].low, self.distributions[i].high)
                for i in np.unique(used[used != NO_DISTRIBUTION])
            ]
            plain = plain[used == NO_DISTRIBUTION]
        if len(plain):
            unit = self.cost[resource].unit
            ends.append((int(plain.min()) * unit, int(plain.max()) * unit))
        lows = [low for low, _ in ends]
        low = None if None in lows else min((x for x in lows if x is not None), default=Fraction(0))
        return low, max((high for _, high in ends), default=Fraction(0))

    @cached_property
    def cost_sums(self) -> tuple[tuple[int, int], ...]:
        """Bounds on total cost, in ticks: per resource, the sum over steps of the largest cost and of minus the least.

        A negative term counts as zero.
        """
        bounds = self.outcome_indptr[self.row_indptr[:: self.n_states]]
        used = np.bincount(self.table_of_step, minlength=self.n_tables)
        filled = np.flatnonzero(np.diff(bounds) > 0)
        sums = []
        for column in self.cost:
            if not len(filled):
                sums.append((0, 0))
                continue
            highs = np.maximum(np.maximum.reduceat(column.ticks, bounds[filled]), 0)
            lows = np.minimum(np.minimum.reduceat(column.ticks, bounds[filled]), 0)
            sums.append((_weighted_sum(used[filled], highs), -_weighted_sum(used[filled], lows)))
        return tuple(sums)

    @cached_property
    def own_limits(self) -> Limits:
        """The limits that the default budget, which the model must have, puts on each step."""
        assert self.budget is not None
        return limits_of(self.budget, self.horizon)

    @property
    def is_deterministic(self) -> bool:
        """Whether the model is deterministic: every row has one outcome.

        Examples
        --------
        >>> from solvent.model import instances
        >>> instances.knapsack([60], [10]).is_deterministic, instances.fuel_grid(3).is_deterministic
        (True, False)
        """
        return self.n_outcomes == self.n_rows

    @cached_property
    def is_certain(self) -> bool:
        """Whether every outcome has the probability 1, with no rounding error."""
        return bool((self.probability == 1).all())

    @cached_property
    def most_outcomes(self) -> int:
        """The largest number of outcomes of a row, at least 1."""
        return int(np.diff(self.outcome_indptr).max(initial=1))

    @cached_property
    def arrivals(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Predecessors in a deterministic model, as three arrays.

        The first row, in the second array, of each (table, state); rows sorted by the (table, state) they lead to; and
        the state of each row.
        """
        place = np.repeat(np.arange(len(self.row_indptr) - 1), np.diff(self.row_indptr))
        table, state = np.divmod(place, self.n_states)
        target = table * self.n_states + self.next_state
        order = np.argsort(target, kind="stable")
        counts = np.bincount(target, minlength=len(self.row_indptr) - 1)
        return np.concatenate([[0], np.cumsum(counts)]), order, state

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that matters to a policy; not of the budget, the title or the description."""
        start = self.start
        if isinstance(start, dict):  # in the order of the states, since dicts in another order are equal
            start = tuple((self.states[s], start[self.states[s]]) for s in self.start_states.tolist())
        content: list[Any] = [
            self.horizon, _bare(start), _bare(self.states), _bare(self.actions), self.resources, self.distributions,
            [c.unit for c in self.cost],
        ]  # fmt: skip
        if self.is_saturating:  # otherwise as before there were floors and ceilings
            content += [self.floors, self.ceilings]
        digest = hashlib.sha256(repr(tuple(content)).encode())
        for array in (*self._arrays(), *(column.ticks for column in self.cost)):
            wide = array.dtype == object  # hexadecimal: conversion of long numbers to decimal text is slow
            digest.update(" ".join(map(hex, array.tolist())).encode() if wide else array.tobytes())
        return digest.hexdigest()[:32]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CMDP):
            return NotImplemented
        return all(same(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    def __hash__(self) -> int:
        # not of the fingerprint: names such as 1 and 1.0 are equal but have different fingerprints
        return hash(
            (
                self.horizon,
                tuple(self.start_states.tolist()),
                self.states,
                self.actions,
                self.resources,
                self.n_outcomes,
            )
        )

    def __repr__(self) -> str:
        title = f"{self.name!r}: " if self.name else ""
        steps = "stationary" if self.is_stationary else f"{self.n_tables} tables"
        return (
            f"CMDP({title}horizon {self.horizon}, {self.n_states} states, {self.n_actions} actions, "
            f"{self.n_rows} rows, {self.n_outcomes} outcomes, {steps}, resources {self._listed_resources()}"
            f"{self._ends()})"
        )

    def _repr_html_(self) -> str:
        from solvent.model.display import model_card

        return model_card(self)

    def _listed_resources(self) -> str:
        listed = (self.resource(name) for name in self.resources)
        return f"[{', '.join(repr(each if each.saturates else each.name) for each in listed)}]"

    def _ends(self) -> str:
        """Return the number of first states if there are several, of states with an end reward, and of goals."""
        parts = [f"{len(self.start)} first states"] if isinstance(self.start, dict) else []
        for values, text in ((self.end_reward, "end rewards in {}"), (self.may_end, "must end in {}")):
            if values is not None:
                count = int(np.count_nonzero(values))
                parts.append(text.format(f"{count} state{'' if count == 1 else 's'}"))
        return "".join(f", {part}" for part in parts)

    def describe(self) -> Description:
        """Return a summary that prints as a table.

        Examples
        --------
        >>> from solvent.model import instances
        >>> print(instances.knapsack([3, 4], [2, 3]).describe())  # doctest: +ELLIPSIS
        knapsack
        ...
        """
        from solvent.model.describe import describe

        return describe(self)

    def to_frame(self) -> Any:
        """Return the outcomes as a pandas DataFrame, in the form that `CMDP.from_frame` reads.

        The columns are `state`, `action`, `probability`, `next`, `cost_` followed by the name of each resource, and
        `reward`, the expected reward of the row. If rows depend on the step, there is a column `step`, and rows are
        repeated for each step. Costs are integers, floats if these are exact, or text such as "1/3".

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        from solvent.model.outcome_frames import to_frame

        return to_frame(self)

    def save(self, path: str | Path) -> None:
        """Write the model to a file in the format of its suffix: .yaml, .json, .npz, .prism, .drn, .umb or .tra.

        See `solvent.load_model`. The last four are for model checkers; docs/formats.md says what they hold.
        """
        from solvent.formats.files import save_model

        save_model(self, path)

    def steps_of_table(self) -> Iterator[tuple[int, list[int]]]:
        """Yield each table that some step uses, with the steps that use it."""
        for table in range(self.n_tables):
            steps = np.flatnonzero(self.table_of_step == table).tolist()
            if steps:
                yield table, steps


def _weighted_sum(weights: NDArray[np.int64], ticks: NDArray[Any]) -> int:
    """Return the exact sum of products of integers, the second of which all have the same sign."""
    if ticks.dtype != object and abs(float(weights @ ticks.astype(np.float64))) < 2.0**62:
        return int(weights @ ticks)
    return sum(map(operator.mul, weights.tolist(), ticks.tolist()))


def same(mine: Any, other: Any) -> bool:
    """Return whether two fields are equal; arrays are compared entry by entry."""
    if isinstance(mine, np.ndarray) or isinstance(other, np.ndarray):
        return mine is not None and other is not None and bool(np.array_equal(mine, other))
    return bool(mine == other)


def _bare(name: Any) -> Any:
    """Return a name with NumPy scalars replaced by Python numbers, as files give them back."""
    if isinstance(name, tuple):
        return tuple(_bare(part) for part in name)
    return name.item() if isinstance(name, np.generic) else name


def _find(index: Mapping[Any, int], name: Any, kind: str) -> int:
    try:
        return index[name]
    except Exception:  # an unknown name, or one whose __hash__ or __eq__ raises
        names = list(index)
        known = ", ".join(map(quote, names[:6])) + (", ..." if len(names) > 6 else "")
        raise ModelError(
            kind, f"one of the model's {kind}s ({known})", quote(name), did_you_mean(name, names)
        ) from None
