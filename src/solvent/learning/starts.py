"""Episodes that begin in a random state: the draw is a step before the first one, and is learned like any other.

The additional state `START` has one action, which earns and costs nothing and leads to the first state. Limits are
those of the steps that follow, so the horizon of the problem is one more than the user's.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from solvent.core.exact import canonical
from solvent.errors import ModelError, quote
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION

#: The state before the first one. All additional states have names in parentheses, since a model may have a "start".
START = "(draw of the first state)"


def with_draw(model: CMDP) -> CMDP:
    """Return a model with one step more, which draws the first state.

    Raises
    ------
    ModelError
        If a state is named like the additional one.

    Examples
    --------
    >>> b = CMDP.builder(horizon=2, start={"a": 0.5, "b": 0.5}, resources=["x"])
    >>> for state in "ab":
    ...     b.add(state, "go", outcomes=[(1, state, 1)])
    >>> with_draw(b.build())
    CMDP(horizon 3, 3 states, 1 actions, 3 rows, 4 outcomes, 2 tables, resources ['x'])
    """
    if START in model.states:
        raise ModelError("states", f"no state named {quote(START)} besides the draw of the first state", "one")
    firsts, n_tables = model.start_states, model.n_tables
    offered = np.pad(np.diff(model.row_indptr).reshape(n_tables, -1), ((0, 1), (0, 1)))
    offered[-1, -1] = 1
    zeros = np.zeros(len(firsts), np.int64)
    return replace(
        model,
        horizon=model.horizon + 1,
        start=START,
        states=(*model.states, START),
        table_of_step=np.concatenate([[n_tables], model.table_of_step]).astype(np.int32),
        row_indptr=np.concatenate([[0], np.cumsum(offered.ravel())]).astype(np.int64),
        row_action=np.append(model.row_action, np.int32(0)),
        row_reward=np.append(model.row_reward, 0.0),
        outcome_indptr=np.append(model.outcome_indptr, model.n_outcomes + len(firsts)),
        probability=np.concatenate([model.probability, model.start_probability]),
        next_state=np.concatenate([model.next_state, firsts]).astype(np.int32),
        cost=tuple(
            canonical(np.concatenate([each.ticks, zeros]), each.unit, each.decimal_digits) for each in model.cost
        ),
        distribution_DO=None
        if model.distribution_DO is None
        else np.pad(model.distribution_DO, ((0, 0), (0, len(firsts))), constant_values=NO_DISTRIBUTION),
        budget=None,
        may_end=None if model.may_end is None else np.append(model.may_end, False),
    )


def without_draw(model: CMDP, firsts: list[Hashable]) -> CMDP:
    """Return a model without its first step, whose episodes begin in any of the given states.

    Probabilities of first states are equal: they are not known.
    """
    return replace(
        model,
        horizon=model.horizon - 1,
        start={name: 1 / len(firsts) for name in firsts} if len(firsts) > 1 else firsts[0],
        table_of_step=model.table_of_step[1:].copy(),
    )


def limits_with_draw(limits: Limits) -> Limits:
    """Return limits with one step more, after which every amount that was spent before is within the limits.

    Examples
    --------
    >>> from solvent.model.budget import Budget, limits_of
    >>> limits_with_draw(limits_of({"x": Budget(upper=[3, 4])}, 2)).upper
    ((Fraction(3, 1), Fraction(3, 1), Fraction(4, 1)),)
    """
    upper = tuple(
        (None if side[0] is None else max(side[0], amount), *side)
        for side, amount in zip(limits.upper, limits.initial, strict=True)
    )
    lower = tuple(
        (None if side[0] is None else min(side[0], amount), *side)
        for side, amount in zip(limits.lower, limits.initial, strict=True)
    )
    return replace(limits, upper=upper, lower=lower)
