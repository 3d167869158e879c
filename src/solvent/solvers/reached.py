"""Whether a policy can get to a node: all nodes that it leads to are followed forward, in ticks."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from solvent.core.limits import ResourceMonitor
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.lattice import AccountTicks, Lattice
from solvent.policy.markov import MarkovPolicy
from solvent.policy.nodes import NodeTable
from solvent.policy.reach import reached_layers
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
        units, cost_OD = policy.units, policy.cost_ticks(model)
        accounts = AccountTicks(policy.initial_D, policy.floor_D, policy.ceiling_D)
    elif isinstance(policy, MarkovPolicy):
        lattice = Lattice.fit(model, limits, monitor)
        units, cost_OD, accounts = lattice.units, lattice.cost_OD, lattice.accounts
    else:
        return None
    wanted = [amount / unit for amount, unit in zip(spent, units, strict=True)]
    if any(ticks.denominator != 1 for ticks in wanted):
        return False
    target = np.array([int(ticks) for ticks in wanted], np.int64)
    if step == 0:
        return bool((model.start_states == state).any() and (accounts.initial_D == target).all())
    before = next(islice(reached_layers(policy, model, cost_OD, accounts, monitor), step - 1, step))
    # also where the episode is over
    ticks_OD = before.ticks_MD[before.node_C[before.choice_O]] + cost_OD[before.outcome_O]
    ticks_OD = np.minimum(np.maximum(ticks_OD, accounts.floor_D), accounts.ceiling_D)
    return bool(((model.next_state[before.outcome_O] == state) & (ticks_OD == target).all(1)).any())
