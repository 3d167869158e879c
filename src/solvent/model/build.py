"""The builder: state a model row by row, in names."""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from solvent.core.exact import exact, exact_column
from solvent.core.loading import check_limit, check_time, current_load
from solvent.errors import ModelError, did_you_mean, looks_misspelled, printable, quote
from solvent.model.budget import BudgetLike
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.consistency import check_horizon, check_names
from solvent.model.distributions import CostDistribution, from_scipy, is_scipy
from solvent.model.ends import EndRewardLike, GoalLike, StartLike, first_states, read_finite, read_start
from solvent.model.resources import ResourceLike, as_resources
from solvent.model.steps import StepSet
from solvent.model.validation import Accounts, Names, Rows, build_model

_NO_STEPS = StepSet(())
_OUTCOME = "(probability, next state), (probability, next state, cost) or (..., cost, reward)"


@dataclass(frozen=True)
class _Row:
    """Arguments of one call of `Builder.add`; costs have one entry per resource."""

    state: Hashable
    action: Hashable
    steps: StepSet | None
    reward: float
    probability: list[float]
    next_state: list[Hashable]
    cost: list[list[Any]]

    @property
    def place(self) -> str:
        return printable(f"{self.state}/{self.action}")


class Builder:
    """Build a `CMDP` row by row, in names.

    Parameters
    ----------
    horizon : int
        Number of steps.
    start : hashable, or dict of hashable to number
        Name of the state at step 0, or the probability of each possible one by name.
    resources : sequence of str or Resource
        Resources; a `Resource` may have a floor or a ceiling.
    states, actions : sequence of hashables, optional
        All names, in order. If given, any other name is an error. Otherwise names are ordered by first use, and a next
        state without rows is terminal.
    budget : number, Budget, or dict of these by resource, optional
        Default budget of the model.
    end_reward : dict of state to number, or function of the state, optional
        What it is worth to be in a state when the episode ends: after the last step, or on entering a terminal state.
    must_end_in : sequence of states, or function of the state, optional
        States in which every episode must end. Default: all.
    name, description : str
        Title and description of the model.

    Examples
    --------
    >>> b = Builder(horizon=3, start="home", resources=["fuel"])
    >>> b.add("home", "go", reward=1, outcomes=[(0.7, "home", {"fuel": 1}), (0.3, "away", {"fuel": "3/2"})])
    >>> b.add("away", "wait", outcomes=[(1, "away", 0)], steps=[1, 2])
    >>> b.build()
    CMDP(horizon 3, 2 states, 2 actions, 3 rows, 5 outcomes, 2 tables, resources ['fuel'])
    """

    def __init__(
        self,
        *,
        horizon: int,
        start: StartLike,
        resources: Sequence[ResourceLike] = (),
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        budget: BudgetLike | None = None,
        end_reward: EndRewardLike | None = None,
        must_end_in: GoalLike | None = None,
        name: str = "",
        description: str = "",
    ) -> None:
        self.horizon = check_horizon(horizon)
        accounts = as_resources(resources)
        self.resources = tuple(each.name for each in accounts)
        self._accounts = Accounts(accounts, end_reward, must_end_in)
        self._start, self._budget, self._name, self._description = read_start(start), budget, name, description
        self._states = check_names(states, "states")
        self._actions = check_names(actions, "actions")
        self._known = {"state": _as_set(self._states), "action": _as_set(self._actions)}
        for first in first_states(self._start):
            self._check_known(first, "state", "start")
        self._rows: list[_Row] = []
        self._taken: dict[tuple[Hashable, Hashable], StepSet | None] = {}
        self._terminal: dict[Hashable, StepSet | None] = {}

    def add(
        self,
        state: Hashable,
        action: Hashable,
        *,
        outcomes: Iterable[Any],
        reward: float = 0,
        steps: Iterable[int] | None = None,
    ) -> None:
        """Add a row: the outcomes of an action in a state.

        Parameters
        ----------
        state, action : hashable
            Names.
        outcomes : iterable of tuples
            Tuples `(probability, next state)`, `(probability, next state, cost)` or `(probability, next state, cost,
            reward)`. The default cost and reward are 0. A cost is a number (for one resource), a sequence in the order
            of the resources, or a dict by resource, in which a missing resource costs 0. Instead of a number, a cost
            may be a `CostDistribution` or a frozen `scipy.stats` distribution.
        reward : float
            Expected reward of the row, to which the expected reward of its outcomes is added.
        steps : iterable of int, optional
            Steps at which the row applies. Default: all.

        Raises
        ------
        ModelError
            If the row exists already, or an argument is invalid.
        """
        place = printable(f"{state}/{action}")
        self._check_known(state, "state", place)
        self._check_known(action, "action", place)
        when = self._read_steps(steps, place)
        probability: list[float] = []
        following: list[Hashable] = []
        costs: list[list[Any]] = []
        extra: list[float] = []
        if isinstance(outcomes, str | Mapping) or not isinstance(outcomes, Iterable):
            raise ModelError(f"{place}, outcomes", "a list of outcomes", quote(outcomes))
        for i, outcome in enumerate(outcomes):
            where = f"{place}, outcome {i}"
            if isinstance(outcome, str) or not isinstance(outcome, Sequence) or not 2 <= len(outcome) <= 4:
                raise ModelError(where, _OUTCOME, quote(outcome))
            probability.append(read_probability(outcome[0], f"{where}, probability"))
            self._check_known(outcome[1], "state", f"{where}, next state")
            following.append(outcome[1])
            costs.append(read_costs(outcome[2] if len(outcome) > 2 else 0, self.resources, where))
            extra.append(read_reward(outcome[3], where) if len(outcome) > 3 else 0.0)
        if not probability:
            raise ModelError(place, "at least one outcome", "none")
        row_reward = read_reward(reward, place) + _expectation(probability, extra)
        self._take(state, action, when, place)
        self._rows.append(_Row(state, action, when, row_reward, probability, following, costs))

    def terminal(self, *states: Hashable, steps: Iterable[int] | None = None) -> None:
        """Declare states terminal: the episode ends there.

        Once a state has been declared terminal at all steps, every state without rows must be declared.

        Parameters
        ----------
        *states : hashable
            Names.
        steps : iterable of int, optional
            Steps at which the states are terminal. Default: all.
        """
        for state in states:
            self._check_known(state, "state", "terminal")
            when = self._read_steps(steps, f"terminal {quote(state)}")
            known = self._terminal.get(state, _NO_STEPS)
            self._terminal[state] = None if when is None or known is None else known | when

    def build(self) -> CMDP:
        """Return the model.

        Raises
        ------
        ModelError
            If the rows are not a valid model.
        """
        if not self._rows:
            raise ModelError("model", "at least one row", "none", "call add(state, action, outcomes=...)")
        states = self._states or self._names_of_states()
        actions = self._actions or tuple(dict.fromkeys(row.action for row in self._rows))
        state_at = {name: i for i, name in enumerate(states)}
        action_at = {name: i for i, name in enumerate(actions)}
        names = Names(self._start, states, actions, self.resources, self._name, self._description)
        order = sorted(
            range(len(self._rows)),
            key=lambda i: (state_at[self._rows[i].state], action_at[self._rows[i].action]),
        )
        self._rows = [self._rows[i] for i in order]
        tables, table_of_step = self._tables()
        return build_model(
            names,
            self._flatten(tables, state_at, action_at),
            horizon=self.horizon,
            table_of_step=table_of_step,
            budget=self._budget,
            terminal_at=self._terminal_at(state_at),
            accounts=self._accounts,
        )

    @property
    def has_rows(self) -> bool:
        """Whether any row has been added."""
        return bool(self._rows)

    def _read_steps(self, steps: Iterable[int] | StepSet | None, place: str) -> StepSet | None:
        if steps is None:
            return None
        if isinstance(steps, int) and not isinstance(steps, bool):
            steps = [steps]
        if not isinstance(steps, StepSet):
            steps = self._list_steps(steps, place)
        for end in (steps.ranges[0].start, steps.ranges[-1].stop - 1):
            if not 0 <= end < self.horizon:
                raise ModelError(f"{place}, steps", f"steps from 0 to {self.horizon - 1}", quote(end))
        return steps

    def _list_steps(self, steps: Iterable[int], place: str) -> StepSet:
        try:
            listed = list(steps)
        except TypeError:
            raise ModelError(f"{place}, steps", "a list of steps", quote(steps)) from None
        for step in listed:
            whole = isinstance(step, int | np.integer) and not isinstance(step, bool | np.timedelta64)
            if not whole or not 0 <= step < self.horizon:
                raise ModelError(f"{place}, steps", f"steps from 0 to {self.horizon - 1}", quote(step))
        if not listed:
            raise ModelError(f"{place}, steps", "at least one step", "none")
        return StepSet.of(map(int, listed))

    def _take(self, state: Hashable, action: Hashable, steps: StepSet | None, place: str) -> None:
        """Record the steps of a row, None for all; refuse steps that an earlier row of the action has."""
        if (state, action) not in self._taken:
            self._taken[state, action] = steps
            return
        taken = self._taken[state, action]
        both = steps if taken is None else taken
        at = taken.first_shared(steps) if taken is not None and steps is not None else None
        if taken is None or steps is None or at is not None:
            first = at if at is not None else None if taken is None or both is None else both.ranges[0].start
            when = f" for step {first}" if first is not None else ""
            raise ModelError(place, "each row once", f"a second one{when}")
        self._taken[state, action] = taken | steps

    def _check_known(self, name: Hashable, kind: str, where: str) -> None:
        declared = self._known[kind]
        try:
            unknown = name not in (declared or ())
            hash(name)
        except TypeError:
            hint = "for several first states, give a dict with the probability of each" if where == "start" else ""
            raise ModelError(where, f"a hashable {kind} name", quote(name), hint) from None
        if unknown and declared is not None:
            hint = did_you_mean(name, declared)
            raise ModelError(where, f"a declared {kind}", f"unknown {kind} {quote(name)}", hint)

    def _names_of_states(self) -> tuple[Hashable, ...]:
        acting = dict.fromkeys(row.state for row in self._rows)
        starts = first_states(self._start)
        for start in starts:
            if start not in acting and start not in self._terminal:
                hint = did_you_mean(start, acting)
                raise ModelError("start", "a state with actions or one declared terminal", quote(start), hint)
        names = dict.fromkeys([*starts, *acting])
        closed = any(steps is None for steps in self._terminal.values())
        for row in self._rows:
            for i, state in enumerate(row.next_state):
                if state not in acting and state not in self._terminal and closed:
                    raise ModelError(
                        f"{row.place}, outcome {i}",
                        "a state with actions or one declared terminal",
                        f"unknown state {quote(state)}",
                        did_you_mean(state, [*acting, *self._terminal]),
                    )
                if state not in names:
                    self._warn_of_typo(row.place, state, acting)
                names.setdefault(state)
        names.update(dict.fromkeys(self._terminal))
        return tuple(names)

    def _warn_of_typo(self, place: str, state: Hashable, acting: Iterable[Hashable]) -> None:
        """Warn if a state without rows, which is therefore terminal, looks like a misspelled name."""
        if self._states is not None or state in self._terminal or not isinstance(state, str):
            return
        similar = [name for name in acting if isinstance(name, str) and looks_misspelled(state, name)]
        if similar:
            warnings.warn(
                f"{place} leads to {quote(state)}, which has no actions and is therefore terminal; did you mean "
                f"{quote(similar[0])}? If not, declare it: terminal({quote(state)})",
                stacklevel=4,
            )

    def _terminal_at(self, state_at: Mapping[Hashable, int]) -> dict[int, StepSet]:
        always = StepSet([range(self.horizon)])
        for row in self._rows:
            declared = self._terminal.get(row.state, _NO_STEPS)
            clash = (always if declared is None else declared).first_shared(always if row.steps is None else row.steps)
            if clash is not None:
                raise ModelError(row.place, f"no action in a terminal state at step {clash}", "this row")
        return {state_at[name]: always if steps is None else steps for name, steps in self._terminal.items()}

    def _tables(self) -> tuple[list[list[int]], np.ndarray[Any, np.dtype[np.int32]]]:
        """Return the rows of each distinct table, and the table of each step.

        Tables can change only at steps at which some row begins or ceases to apply.
        """
        begins: dict[int, list[int]] = {}
        ends: dict[int, list[int]] = {}
        for i, row in enumerate(self._rows):
            for each in () if row.steps is None else row.steps.ranges:
                begins.setdefault(each.start, []).append(i)
                ends.setdefault(each.stop, []).append(i)
        always = [i for i, row in enumerate(self._rows) if row.steps is None]
        n_always = sum(self._entries(self._rows[i]) for i in always)
        n_written = sum(self._entries(row) for row in self._rows)
        bounds = sorted({0, *begins, *ends} - {self.horizon})
        # a set of rows is identified by the sum of random numbers of its rows, which is cheap to update
        marks = [secrets.randbits(128) for _ in self._rows]
        known: dict[int, int] = {}
        tables: list[list[int]] = []
        table_of_step = np.zeros(self.horizon, np.int32)
        holding: set[int] = set()
        mark = size = 0
        for first, after in pairwise([*bounds, self.horizon]):
            for i in ends.get(first, ()):
                holding.discard(i)
                mark -= marks[i]
            for i in begins.get(first, ()):
                holding.add(i)
                mark += marks[i]
            if mark not in known:
                size += n_always + sum(self._entries(self._rows[i]) for i in holding)
                if current_load() is not None:  # models stated in Python have no limits
                    check_limit("entries", size, "rows, outcomes and costs over all tables", always=10 * n_written)
                    check_time()
                known[mark] = len(known)
                tables.append(sorted([*always, *holding]))
            table_of_step[first:after] = known[mark]
        return tables, table_of_step

    def _entries(self, row: _Row) -> int:
        return 1 + len(row.probability) * (1 + len(self.resources))

    def _flatten(
        self,
        tables: list[list[int]],
        state_at: Mapping[Hashable, int],
        action_at: Mapping[Hashable, int],
    ) -> Rows:
        n_outcomes = [len(row.probability) for row in self._rows]
        first = np.concatenate([[0], np.cumsum(n_outcomes)]).astype(np.int64)
        picked = np.array([i for table in tables for i in table], np.int64)
        lengths = np.array(n_outcomes, np.int64)[picked]
        outcome_indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        outcome = np.repeat(first[picked] - outcome_indptr[:-1], lengths) + np.arange(outcome_indptr[-1])
        state = np.array([state_at[row.state] for row in self._rows], np.int64)
        n_states = len(state_at)
        table_of_row = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        per_state = np.bincount(table_of_row * n_states + state[picked], minlength=len(tables) * n_states)
        cost, distributions, distribution_DO = self._read_cost_columns(first)
        flat = [state_at[name] for row in self._rows for name in row.next_state]
        return Rows(
            row_indptr=np.concatenate([[0], np.cumsum(per_state)]).astype(np.int64),
            row_action=np.array([action_at[row.action] for row in self._rows], np.int32)[picked],
            row_reward=np.array([row.reward for row in self._rows], np.float64)[picked],
            outcome_indptr=outcome_indptr,
            probability=np.array([p for row in self._rows for p in row.probability], np.float64)[outcome],
            next_state=np.array(flat, np.int32)[outcome],
            cost=tuple(column.take(outcome) for column in cost),
            distributions=distributions,
            distribution_DO=None if distribution_DO is None else np.ascontiguousarray(distribution_DO[:, outcome]),
        )

    def _read_cost_columns(self, first: np.ndarray[Any, np.dtype[np.int64]]) -> tuple[Any, Any, Any]:
        def where(index: int, resource: str) -> str:
            row = int(np.searchsorted(first, index, side="right")) - 1
            return f"{self._rows[row].place}, outcome {index - int(first[row])}, cost of {resource}"

        distributions: dict[CostDistribution, int] = {}
        distribution_DO = np.full((len(self.resources), int(first[-1])), NO_DISTRIBUTION, np.int32)
        columns = []
        for d, resource in enumerate(self.resources):
            plain = []
            for o, cost in enumerate(entry[d] for row in self._rows for entry in row.cost):
                if is_scipy(cost):
                    cost = from_scipy(cost, where(o, resource))
                if isinstance(cost, CostDistribution):
                    distribution_DO[d, o] = distributions.setdefault(cost, len(distributions))
                    cost = 0
                plain.append(cost)
            columns.append(
                exact_column(plain, steps=self.horizon, where=lambda i, name=resource: where(i, name))  # type: ignore[misc]
            )
        return columns, tuple(distributions), distribution_DO if distributions else None


def _as_set(names: tuple[Hashable, ...] | None) -> frozenset[Hashable] | None:
    return None if names is None else frozenset(names)


def _expectation(probability: list[float], reward: list[float]) -> float:
    if not any(reward):
        return 0.0
    try:
        total = math.fsum(probability) or 1.0
        return math.fsum(p * r for p, r in zip(probability, reward, strict=True)) / total
    except OverflowError:  # refused, with its place, when the model is built
        return math.inf


def read_probability(value: Any, where: str) -> float:
    """Return a probability as a float, which is zero only if the given number is zero."""
    number = value if isinstance(value, float | np.floating) else exact(value, where)
    if not 0 <= number <= 2:  # the sum may exceed 1 slightly; `build_model` checks it
        raise ModelError(where, "a number from 0 to 1", str(value) if isinstance(value, float) else quote(value))
    return float(number) or (5e-324 if number > 0 else 0.0)


def read_reward(value: Any, where: str) -> float:
    """Return a reward as a float."""
    return read_finite(value, f"{where}, reward")


def read_costs(cost: Any, resources: tuple[str, ...], where: str) -> list[Any]:
    """Return a list with the cost of each resource, from a number, a sequence or a dict by name."""
    if isinstance(cost, Mapping):
        strange = cost.keys() - set(resources) if len(cost) > 8 else [name for name in cost if name not in resources]
        for name in cost if strange else ():
            if name not in resources:
                known = ", ".join(map(quote, resources)) or "none"
                hint = did_you_mean(name, resources)
                raise ModelError(f"{where}, cost", f"resources of the model ({known})", quote(name), hint)
        return [cost.get(name, 0) for name in resources]
    if isinstance(cost, np.ndarray) and cost.ndim == 0:
        cost = cost[()]
    scalar = isinstance(cost, str | bytes) or cost is np.ma.masked  # an array without length
    if isinstance(cost, Sequence | np.ndarray) and not scalar:
        if len(cost) != len(resources):
            raise ModelError(
                f"{where}, cost", f"{len(resources)} costs, one per resource", f"{len(cost)}: {quote(cost)}"
            )
        return list(cost)
    if len(resources) != 1:
        number = isinstance(cost, int | float | Fraction | Decimal | np.number) and not isinstance(cost, np.timedelta64)
        if number and not cost and cost is not False:
            return [0] * len(resources)
        names = ", ".join(map(quote, resources)) or "none"
        raise ModelError(f"{where}, cost", f"a cost for each resource ({names}), by name or in order", quote(cost))
    return [cost]
