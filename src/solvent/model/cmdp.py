"""The CMDP: a finite-horizon constrained decision process, frozen, in flat arrays.

A *row* is one (table, state, action): an expected reward and a list of joint *outcomes* (probability, next state, cost
of each resource). The rows of a state in a table lie together, and so do the outcomes of a row, CSR fashion:

    rows of (step, state)   row_indptr[table_of_step[step] * S + state] : the next entry
    outcomes of a row       outcome_indptr[row] : outcome_indptr[row + 1]

A stationary model has one table for all steps; a periodic one has as many as its period. A state without rows at a
step is terminal there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import ExactColumn
from solvent.errors import ModelError, did_you_mean, printable, quote
from solvent.model.budget import Budget
from solvent.model.constructors import ModelConstructors
from solvent.model.distributions import CostDistribution

if TYPE_CHECKING:
    from solvent.model.describe import Description

#: In `distribution_DO`: the cost of this outcome is a plain number.
NO_DISTRIBUTION = -1


class Outcome(NamedTuple):
    """One joint outcome of a row, in the user's words; its costs are exact numbers or distributions."""

    probability: float
    next_state: Hashable
    cost: dict[str, Fraction | CostDistribution]


@dataclass(frozen=True, eq=False, repr=False)
class CMDP(ModelConstructors):
    """A finite-horizon constrained Markov decision process.

    Made by `CMDP.builder`, `CMDP.from_arrays`, `CMDP.from_function`, `CMDP.from_gymnasium` or `solvent.load_model`; the
    fields are read-only.

    Attributes
    ----------
    horizon : int
        Number of steps H.
    start : hashable
        Name of the state at step 0.
    states, actions : tuple of hashables
        Names; everything else speaks of their positions.
    resources : tuple of str
        Names of what is spent.
    table_of_step : ndarray of int32, shape (H,)
        Which table each step uses.
    row_indptr : ndarray of int64, shape (T * S + 1,)
        Where the rows of each (table, state) begin.
    row_action : ndarray of int32, shape (R,)
        The action of each row; increasing within a state.
    row_reward : ndarray of float64, shape (R,)
        Expected reward.
    outcome_indptr : ndarray of int64, shape (R + 1,)
        Where the outcomes of each row begin.
    probability : ndarray of float64, shape (O,)
        Positive, and summing to one over each row.
    next_state : ndarray of int32, shape (O,)
    cost : tuple of ExactColumn, each of length O
        Exact costs, one column per resource; zero where a distribution takes their place.
    distributions : tuple of CostDistribution
        The continuous cost distributions in use.
    distribution_DO : ndarray of int32, shape (D, O), or None
        Index into `distributions`, or `NO_DISTRIBUTION`; None if no cost is continuous.
    budget : mapping of str to Budget, or None
        The default budget.
    name, description : str
        For people.
    """

    horizon: int
    start: Hashable
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

    def __post_init__(self) -> None:
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
        """Number of action names A; a state may offer fewer."""
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
        """Whether some cost has a density."""
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
        """Return the position of a state; a `ModelError` if there is none of that name."""
        return _find(self._state_index, name, "state")

    def action_index(self, name: Hashable) -> int:
        """Return the position of an action; a `ModelError` if there is none of that name."""
        return _find(self._action_index, name, "action")

    def resource_index(self, name: str) -> int:
        """Return the position of a resource; a `ModelError` if there is none of that name."""
        return _find(self._resource_index, name, "resource")

    @property
    def start_index(self) -> int:
        """Position of the start state."""
        return self._state_index[self.start]

    def rows(self, step: int, state: int) -> range:
        """Return the rows of a state (by position) at a step; empty if it is terminal there."""
        first = int(self.table_of_step[step]) * self.n_states + state
        return range(int(self.row_indptr[first]), int(self.row_indptr[first + 1]))

    def row_indptr_at(self, step: int) -> NDArray[np.int64]:
        """Return where the rows of each state at a step begin, shape (S + 1,)."""
        first = int(self.table_of_step[step]) * self.n_states
        return self.row_indptr[first : first + self.n_states + 1]

    def is_terminal(self, step: int, state: int) -> bool:
        """Whether nothing more is earned or spent from this state (by position) at this step."""
        return len(self.rows(step, state)) == 0

    def outcomes(self, row: int) -> list[Outcome]:
        """Return the outcomes of a row in the user's words.

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
        """Return the cost of one outcome (by position): exact, or a distribution."""
        if self.distribution_DO is not None and self.distribution_DO[resource, outcome] != NO_DISTRIBUTION:
            return self.distributions[int(self.distribution_DO[resource, outcome])]
        return self.cost[resource].value(outcome)

    def place_of(self, outcome: int) -> str:
        """Return where an outcome stands, for messages: state, action and, if they matter, its table."""
        row = int(np.searchsorted(self.outcome_indptr, outcome, side="right")) - 1
        table, state = divmod(int(np.searchsorted(self.row_indptr, row, side="right")) - 1, self.n_states)
        place = printable(f"{self.states[state]}/{self.actions[self.row_action[row]]}")
        if self.n_tables > 1:
            place += f" at step {int(np.flatnonzero(self.table_of_step == table)[0])}"
        return place

    def cost_range(self, resource: int) -> tuple[Fraction | None, Fraction]:
        """Return the least and the greatest cost of a resource (by position); None if unbounded below."""
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
        """Per resource, bounds in ticks on what the dearest and the most refunding course could add up to."""
        bounds = self.outcome_indptr[self.row_indptr[:: self.n_states]]
        used = np.bincount(self.table_of_step, minlength=self.n_tables)
        filled = np.flatnonzero(np.diff(bounds) > 0)
        sums = []
        for column in self.cost:
            highs: list[int] = np.maximum.reduceat(column.ticks, bounds[filled]).tolist() if len(filled) else []
            lows: list[int] = np.minimum.reduceat(column.ticks, bounds[filled]).tolist() if len(filled) else []
            up = sum(int(n) * max(0, int(high)) for n, high in zip(used[filled], highs, strict=True))
            down = sum(int(n) * max(0, -int(low)) for n, low in zip(used[filled], lows, strict=True))
            sums.append((up, down))
        return tuple(sums)

    @property
    def is_certain(self) -> bool:
        """Whether nothing is left to chance: every row has one outcome.

        Examples
        --------
        >>> from solvent.model import instances
        >>> instances.knapsack([60], [10]).is_certain, instances.fuel_grid(3).is_certain
        (True, False)
        """
        return self.n_outcomes == self.n_rows

    @cached_property
    def arrivals(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The rows that lead to each state, table by table, and the state that each row leaves; of a certain model.

        Three arrays: where the rows that lead to each (table, state) begin, these rows, and the state of each row.
        """
        place = np.repeat(np.arange(len(self.row_indptr) - 1), np.diff(self.row_indptr))
        table, state = np.divmod(place, self.n_states)
        target = table * self.n_states + self.next_state
        order = np.argsort(target, kind="stable")
        counts = np.bincount(target, minlength=len(self.row_indptr) - 1)
        return np.concatenate([[0], np.cumsum(counts)]), order, state

    @cached_property
    def reward_unit(self) -> float:
        """A power of two of which all rewards are whole multiples, if all sums of them are then exact; else 0.

        Examples
        --------
        >>> from solvent.model import instances
        >>> instances.knapsack([60, 100, 120], [10, 20, 30]).reward_unit, instances.knapsack([0.1], [1]).reward_unit
        (4.0, 0.0)
        """
        rewards = self.row_reward[self.row_reward != 0]
        if not len(rewards):
            return 1.0
        mantissa, exponent = np.frexp(np.abs(rewards))
        whole = (mantissa * 2.0**53).astype(np.int64)
        # the lowest bit that is set in any of them
        lowest = int((exponent - 53 + np.frexp((whole & -whole).astype(float))[1] - 1).min())
        # 2 H times the largest is less than 2**53 units, and so are all sums
        fits = int(exponent.max()) - lowest + int(2 * self.horizon).bit_length() <= 53
        return math.ldexp(1.0, lowest) if fits and lowest > -1000 else 0.0

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that bears on a policy; names and texts for people do not."""
        digest = hashlib.sha256(
            repr(
                (
                    self.horizon,
                    _bare(self.start),
                    _bare(self.states),
                    _bare(self.actions),
                    self.resources,
                    self.distributions,
                    [c.unit for c in self.cost],
                )
            ).encode()
        )
        for array in (*self._arrays(), *(column.ticks for column in self.cost)):
            wide = array.dtype == object  # hexadecimal, since the decimal text of a long number takes long to make
            digest.update(" ".join(map(hex, array.tolist())).encode() if wide else array.tobytes())
        return digest.hexdigest()[:32]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CMDP):
            return NotImplemented
        return all(same(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    def __hash__(self) -> int:
        # names such as 1 and 1.0 are equal but print differently, so a hash of the fingerprint would not do
        return hash((self.horizon, self.start, self.states, self.actions, self.resources, self.n_outcomes))

    def __repr__(self) -> str:
        title = f"{self.name!r}: " if self.name else ""
        steps = "stationary" if self.is_stationary else f"{self.n_tables} tables"
        return (
            f"CMDP({title}horizon {self.horizon}, {self.n_states} states, {self.n_actions} actions, "
            f"{self.n_rows} rows, {self.n_outcomes} outcomes, {steps}, resources {list(self.resources)})"
        )

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

    def save(self, path: str | Path) -> None:
        """Write the model to a .yaml, .json or .npz file, whole or not at all."""
        from solvent.formats.files import save_model

        save_model(self, path)

    def steps_of_table(self) -> Iterator[tuple[int, list[int]]]:
        """Yield each table with the steps that use it."""
        for table in range(self.n_tables):
            yield table, np.flatnonzero(self.table_of_step == table).tolist()


def same(mine: Any, other: Any) -> bool:
    """Whether two fields are equal, arrays entry by entry."""
    if isinstance(mine, np.ndarray) or isinstance(other, np.ndarray):
        return mine is not None and other is not None and bool(np.array_equal(mine, other))
    return bool(mine == other)


def _bare(name: Any) -> Any:
    """Return a name without numpy's types, which print differently from what files give back."""
    if isinstance(name, tuple):
        return tuple(_bare(part) for part in name)
    return name.item() if isinstance(name, np.generic) else name


def _find(index: Mapping[Any, int], name: Any, kind: str) -> int:
    try:
        return index[name]
    except Exception:  # no such name, or one that cannot be looked up, whatever its __hash__ and __eq__ raise
        names = list(index)
        known = ", ".join(map(quote, names[:6])) + (", ..." if len(names) > 6 else "")
        raise ModelError(
            kind, f"one of the model's {kind}s ({known})", quote(name), did_you_mean(name, names)
        ) from None


def check_model(model: Any) -> None:
    """Raise a `ModelError` unless `model` is a `CMDP`; a path to one is a natural slip."""
    if isinstance(model, CMDP):
        return
    from solvent.model.discounted import DiscountedCMDP

    if isinstance(model, DiscountedCMDP):
        raise ModelError(
            "model",
            "a CMDP, which has a last step",
            "a DiscountedCMDP",
            "model.unrolled(steps) is the CMDP of its first steps; solvent.solve and solvent.verify take it as it is",
        )
    hint = "solvent.load_model(path) reads a file" if isinstance(model, str | Path) else ""
    raise ModelError("model", "a CMDP", quote(model), hint)
