"""The rest of a model from one node (step, state, spent) on, as a model and limits of its own.

The tail has steps `step, ..., H - 1` of the model, one first state, and begins with the amounts spent before. A policy
is feasible from the node in the model if and only if it is feasible in the tail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.policy.choices import spread


def tail_model(model: CMDP, step: int, state: int, row: int | None = None) -> CMDP:
    """Return the model from a step and a state (by position) on; if a `row` is given, its action is the first one.

    Examples
    --------
    >>> from solvent.model import instances
    >>> tail_model(instances.knapsack([3, 4, 5], [2, 3, 1]), 1, 0)
    CMDP('knapsack': horizon 2, 1 states, 2 actions, 4 rows, 4 outcomes, 2 tables, resources ['weight'])
    """
    n_states, first = model.n_states, step if row is None else step + 1
    kept, table_of_step = np.unique(model.table_of_step[first:], return_inverse=True)
    places = (kept.astype(np.int64)[:, None] * n_states + np.arange(n_states)).ravel()
    sizes, rows = np.diff(model.row_indptr)[places], spread(model.row_indptr, places)[1]
    if row is not None:
        alone = np.zeros(n_states, np.int64)
        alone[state] = 1
        sizes, rows = np.concatenate([sizes, alone]), np.append(rows, row)
        table_of_step = np.concatenate([[len(kept)], table_of_step.ravel()])
    outcomes = spread(model.outcome_indptr, rows)[1]
    continuous = model.distribution_DO
    return replace(
        model,
        horizon=model.horizon - step,
        start=model.states[state],
        table_of_step=table_of_step.ravel().astype(np.int32),
        row_indptr=_ends(sizes),
        row_action=model.row_action[rows],
        row_reward=model.row_reward[rows],
        outcome_indptr=_ends(np.diff(model.outcome_indptr)[rows]),
        probability=model.probability[outcomes],
        next_state=model.next_state[outcomes],
        cost=tuple(column.take(outcomes) for column in model.cost),
        distribution_DO=None if continuous is None else continuous[:, outcomes],
        budget=None,
    )


def tail_limits(
    limits: Limits,
    step: int,
    spent: Mapping[str, Fraction],
    *,
    steps: int | None = None,
    until: int | None = None,
) -> Limits:
    """Return the limits after steps `step, step + 1, ...` given what was spent before, of resources that have any.

    If `steps` is given, it is the number of steps; if `until` is given, only the first `until` of them have limits.

    Examples
    --------
    >>> limits = Limits(("fuel",), ((None, Fraction(5)),), ((None, None),))
    >>> tail_limits(limits, 1, {"fuel": Fraction(2)})
    Limits(resources=('fuel',), upper=((Fraction(5, 1),),), lower=((None,),), initial=(Fraction(2, 1),))
    >>> tail_limits(limits, 0, {"fuel": Fraction(2)}, until=1).resources
    ()
    """

    def rest(side: tuple[Fraction | None, ...]) -> tuple[Fraction | None, ...]:
        later = side[step:] if steps is None else side[step : step + steps]
        return later if until is None else later[:until] + (None,) * (len(later) - until)

    upper, lower = [rest(side) for side in limits.upper], [rest(side) for side in limits.lower]
    limited = [d for d in range(len(limits.resources)) if any(limit is not None for limit in (*upper[d], *lower[d]))]
    names = tuple(limits.resources[d] for d in limited)
    return Limits(
        names,
        tuple(upper[d] for d in limited),
        tuple(lower[d] for d in limited),
        tuple(spent[name] for name in names),
    )


def _ends(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each of consecutive groups begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
