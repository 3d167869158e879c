"""Whether a policy can get to a node: all nodes that it leads to are followed forward, in ticks."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from solvent.core.limits import ResourceMonitor
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.lattice import AccountTicks, Lattice
from solvent.policy.choices import find_rows, spread
from solvent.policy.markov import MarkovPolicy
from solvent.policy.nodes import NodeTable
from solvent.policy.until_violation import UntilViolationPolicy


def reaches(
    model: CMDP,
    policy: Any,
    limits: Limits,
    step: int,
    state: int,
    spent: Sequence[Fraction],
    monitor: ResourceMonitor,
) -> bool | None:
    """Return whether a policy leads to a node with positive probability.

    None for policies whose decisions are not a function of what was spent, or that are not known.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.model.budget import resolve
    >>> from solvent.solvers.solve import solve
    >>> model = instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50)
    >>> policy, limits = solve(model).policy, resolve(model, None)
    >>> [reaches(model, policy, limits, 2, 0, [Fraction(amount)], ResourceMonitor()) for amount in (20, 30)]
    [True, False]
    """
    if isinstance(policy, NodeTable) and not policy.rounds and not isinstance(policy, UntilViolationPolicy):
        units, costs_OD = policy.units, policy.cost_ticks(model)
        accounts = AccountTicks(policy.initial_D, policy.floor_D, policy.ceiling_D)
    elif isinstance(policy, MarkovPolicy):
        lattice = Lattice.fit(model, limits, monitor)
        units, costs_OD, accounts = lattice.units, lattice.cost_OD, lattice.accounts
    else:
        return None
    wanted = [amount / unit for amount, unit in zip(spent, units, strict=True)]
    if any(ticks.denominator != 1 for ticks in wanted):
        return False
    states = model.start_states
    ticks_MD = np.tile(accounts.initial_D, (len(states), 1))
    for at in range(step):
        monitor.check_time()
        choices = policy.choices_at(at, states, ticks_MD)
        rows = find_rows(model, at, states[choices.node], choices.action)
        total = int(np.diff(model.outcome_indptr)[rows].sum())
        with monitor.borrowed(6 * 8 * total * (2 + len(units)), "nodes that the policy leads to"):
            taken, outcomes = spread(model.outcome_indptr, rows)
            moved = ticks_MD[choices.node[taken]] + costs_OD[outcomes]
            moved = np.minimum(np.maximum(moved, accounts.floor_D), accounts.ceiling_D)
            nodes = np.unique(np.column_stack([model.next_state[outcomes].astype(np.int64), moved]), axis=0)
        states, ticks_MD = np.ascontiguousarray(nodes[:, 0]), np.ascontiguousarray(nodes[:, 1:])
    target = np.array([int(ticks) for ticks in wanted], np.int64)
    return bool(((states == state) & (ticks_MD == target).all(1)).any())
