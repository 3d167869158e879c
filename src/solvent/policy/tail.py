"""Tail rules: what a policy for a discounted model does after its planned steps, with bounds on what that can spend.

A tail rule takes one action in each state. It comes with numbers `most(s) >= 0` for each resource such that

    most(s) >= c + g * most(s')     for every outcome (s', c) of its action in s.

By induction, no sum c_0 + g c_1 + ... + g^n c_n of steps taken from s exceeds most(s). `least` is the mirror image.
These inequalities can be checked independently, and `verify` does so.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MAX_TICKS, ExactColumn, common_unit
from solvent.core.limits import ResourceMonitor
from solvent.errors import PolicyError, quote
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.discounted import DiscountedCMDP
from solvent.policy.choices import NO_ROW, find_rows
from solvent.policy.markov import UNDECIDED


@dataclass(frozen=True, eq=False)
class TailRule:
    """A stationary rule, with its value and bounds on its costs, discounted to the step from which it is followed.

    Attributes
    ----------
    name : str
    action_S : ndarray of int32, shape (S,)
        Positions of actions; `UNDECIDED` in terminal states.
    value_S : ndarray of float64, shape (S,)
        Expected discounted reward from each state on.
    most_DS : tuple of tuples of Fraction
        For every resource and state, the most that following the rule can add.
    least_DS : tuple of (tuple of Fraction, or None)
        The least that it can add; None for a resource whose costs are not bounded below.
    """

    name: str
    action_S: NDArray[np.int32]
    value_S: NDArray[np.float64]
    most_DS: tuple[tuple[Fraction, ...], ...]
    least_DS: tuple[tuple[Fraction, ...] | None, ...]

    def __post_init__(self) -> None:
        self.action_S.flags.writeable = False
        self.value_S.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TailRule):
            return NotImplemented
        return (
            (self.name, self.most_DS, self.least_DS) == (other.name, other.most_DS, other.least_DS)
            and bool(np.array_equal(self.action_S, other.action_S))
            and bool(np.array_equal(self.value_S, other.value_S))
        )

    def __hash__(self) -> int:
        return hash((self.name, self.action_S.tobytes()))

    def rows(self, base: CMDP) -> NDArray[np.int64]:
        """Return the row that it takes in each state, or `NO_ROW` in terminal states.

        Raises
        ------
        PolicyError
            If its size is not that of the model, or it takes an action that is not available.
        """
        if self.action_S.shape != (base.n_states,):
            raise PolicyError(f"tail rule {self.name}", f"{base.n_states} actions", f"{len(self.action_S)}")
        rows = find_rows(base, 0, np.arange(base.n_states), np.maximum(self.action_S, 0))
        ends = np.diff(base.row_indptr_at(0)) == 0
        wrong = np.flatnonzero(((rows == NO_ROW) | (self.action_S == UNDECIDED)) & ~ends)
        if len(wrong):
            state = int(wrong[0])
            offered = [base.actions[base.row_action[row]] for row in base.rows(0, state)]
            chosen = int(self.action_S[state])
            found = "no decision" if chosen == UNDECIDED else quote(base.actions[chosen])
            raise PolicyError(
                f"tail rule {self.name}, state {quote(base.states[state])}", f"one of {quote(offered)}", found
            )
        return np.where(ends, NO_ROW, rows)


def tail_actions(base: CMDP, names: Sequence[str]) -> tuple[Hashable, ...]:
    """Return names, not used by the model, for the actions that choose a tail rule.

    Examples
    --------
    >>> from solvent.model import instances
    >>> tail_actions(instances.markov_gap(), ["careful"])
    (('tail', 'careful'),)
    """
    prefix: tuple[str, ...] = ("tail",)
    while any((*prefix, name) in base.actions for name in names):
        prefix = ("tail", *prefix)
    return tuple((*prefix, name) for name in names)


def close(model: DiscountedCMDP, steps: int, rules: Sequence[TailRule], monitor: ResourceMonitor | None = None) -> CMDP:
    """Return the first steps of a discounted model as a finite model, with one more step that represents the rest.

    The actions of that last step are to choose one of the tail rules. The reward is the value of the rule from there
    on. The costs are the most and the least that the rule can add, as two outcomes, so that a policy that keeps its
    limits in this model keeps them at all steps of the discounted model.

    Parameters
    ----------
    model : DiscountedCMDP
    steps : int
    rules : sequence of TailRule
    monitor : ResourceMonitor, optional
        Time and memory limits; memory for the result stays reserved in it.

    Raises
    ------
    LimitReached
        If a limit of the monitor is reached.
    """
    monitor, used = monitor or ResourceMonitor(), 0 if monitor is None else monitor.used
    base = model.base
    acting = np.flatnonzero(np.diff(base.row_indptr_at(0)) > 0)
    # a second copy of the model and, temporarily, its numbers in lists; in the last step, two amounts for each rule
    size = model.unrolled_bytes(steps)
    ends = 2 * len(acting) * len(rules) * base.n_resources * (3 * model.digits_bytes(steps) + 200)
    lists = (16 + 8 * base.n_resources) * steps * base.n_outcomes + 2 * size
    monitor.reserve(lists + ends, f"a model of {steps:,} steps")
    first = model.unrolled(steps, monitor)
    scale = model.discount**steps
    n_rules, per_row = len(rules), 2 * np.ones(len(acting) * len(rules), np.int64)
    spread: list[list[Fraction]] = [[] for _ in base.resources]
    for state in monitor.each(acting.tolist(), 16):
        for rule in rules:
            for d, column in enumerate(spread):
                most, lows = rule.most_DS[d][state], rule.least_DS[d]
                column += [scale * most, scale * (most if lows is None else lows[state])]
    rows_per_state = np.zeros(base.n_states, np.int64)
    rows_per_state[acting] = n_rules
    value = np.array([[rule.value_S[state] for rule in rules] for state in acting.tolist()], np.float64)
    closed = replace(
        first,
        horizon=steps + 1,
        actions=(*base.actions, *tail_actions(base, [rule.name for rule in rules])),
        table_of_step=np.arange(steps + 1, dtype=np.int32),
        row_indptr=_append(first.row_indptr, rows_per_state),
        row_action=_join(first.row_action, np.tile(base.n_actions + np.arange(n_rules), len(acting))),
        row_reward=_join(first.row_reward, float(scale) * value.ravel()),
        outcome_indptr=_append(first.outcome_indptr, per_row),
        probability=_join(first.probability, np.full(int(per_row.sum()), 0.5)),
        next_state=_join(first.next_state, np.repeat(acting, 2 * n_rules)),
        cost=tuple(_extend(column, extra, monitor) for column, extra in zip(first.cost, spread, strict=True)),
        distribution_DO=None
        if first.distribution_DO is None
        else _no_distributions(first.distribution_DO, int(per_row.sum())),
    )
    monitor.release(monitor.used - used - size - ends)
    return closed


def _append(indptr: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([indptr, indptr[-1] + np.cumsum(sizes)]).astype(np.int64)


def _join(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([first, second.astype(first.dtype)])


def _no_distributions(distribution_DO: NDArray[np.int32], n_outcomes: int) -> NDArray[np.int32]:
    return np.concatenate(
        [distribution_DO, np.full((len(distribution_DO), n_outcomes), NO_DISTRIBUTION, np.int32)], axis=1
    )


def _extend(column: ExactColumn, extra: list[Fraction], monitor: ResourceMonitor) -> ExactColumn:
    """Return a column with more entries, in the greatest unit that divides the old one and all of them."""
    distinct = list(dict.fromkeys(monitor.each(extra)))
    costs = [column.unit] if column.ticks.any() else []
    unit = common_unit(monitor.each([*costs, *distinct], 16))
    place = {amount: int(amount / unit) for amount in monitor.each(distinct, 16)}
    factor = int(column.unit / unit) if costs else 0
    ticks = column.ticks.tolist()
    # entries that share one long number still share it
    known = {id(each): each for each in monitor.each(ticks)}
    scaled = {key: each * factor for key, each in monitor.each(known.items())}
    whole = [*(scaled[id(each)] for each in monitor.each(ticks)), *(place[amount] for amount in extra)]
    longest = max((abs(each) for each in monitor.each([*scaled.values(), *place.values()])), default=0)
    return ExactColumn(np.array(whole, np.int64 if longest <= MAX_TICKS else object), unit, column.decimal_digits)
