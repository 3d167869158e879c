"""The most that can remain of a resource at a step, in a state: the amounts of rows of a plan end there.

A policy decides for all amounts, also for more than can ever remain. With l_h(s) the least that any history can have
spent before step h in state s, as the policy counts it,

    l_0(s) = initial,   l_{h+1}(s') = min over outcomes (s, c, s') of min(max(l_h(s) + c, floor), ceiling),

but at least the lower limit after step h; and likewise with the most for a resource that has lower limits only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.errors import PolicyError
from solvent.model.cmdp import CMDP
from solvent.model.distributions import CostDistribution
from solvent.policy.plan import PlanRow, Range
from solvent.policy.remaining import RemainingBudget
from solvent.policy.table import AugmentedPolicy

#: Steps times outcomes of the largest model whose histories are followed.
_MOST_WORK = 5_000_000
#: Amounts of this size, in ticks, do not occur: a state that cannot be reached, or no floor or ceiling.
_FAR = 2**61


class Ends(NamedTuple):
    """The least and the most that can have been spent, in ticks, shape (H, S, D) each; or costs, shape (O, D)."""

    least: NDArray[np.int64]
    most: NDArray[np.int64]


class Reach:
    """What can have been spent at each step, in each state of a model.

    Parameters
    ----------
    model : CMDP
    """

    def __init__(self, model: CMDP) -> None:
        self._model = model
        self._known: dict[tuple[object, ...], Ends | None] = {}

    def ends(self, policy: AugmentedPolicy) -> Ends | None:
        """Return what any history can have spent as a policy counts it; None if that is not known."""
        if not policy.resources or self._model.horizon * self._model.n_outcomes > _MOST_WORK:
            return None
        accounts = (policy.initial_D, policy.floor_D, policy.ceiling_D)
        limits = policy.limits
        key = (
            policy.resources, policy.units, policy.counting, limits.lower, limits.upper,
            *(each.tobytes() for each in accounts),
        )  # fmt: skip
        if key not in self._known:
            self._known[key] = self._follow(policy)
        return self._known[key]

    def _follow(self, policy: AugmentedPolicy) -> Ends | None:
        model = self._model
        costs = _cost_ends(policy, model)
        if costs is None or max(float(np.abs(cost_OD).max(initial=0)) for cost_OD in costs) * model.horizon >= _FAR / 2:
            return None
        shape = model.horizon, model.n_states, len(policy.resources)
        least, most = np.full(shape, _FAR), np.full(shape, -_FAR)
        least[0, model.start_states] = most[0, model.start_states] = policy.initial_D
        row_O = np.repeat(np.arange(model.n_rows), np.diff(model.outcome_indptr))
        place_R = np.repeat(np.arange(model.n_tables * model.n_states), np.diff(model.row_indptr))
        table_O, state_O = np.divmod(place_R[row_O], model.n_states)
        used = [np.flatnonzero(table_O == table) for table in range(model.n_tables)]
        for step in range(model.horizon - 1):
            at = used[int(model.table_of_step[step])]
            at = at[least[step, state_O[at], 0] < _FAR]
            after = model.next_state[at]
            for found, extreme, cost_OD in ((least, np.minimum, costs.least), (most, np.maximum, costs.most)):
                spent = np.clip(found[step, state_O[at]] + cost_OD[at], policy.floor_D, policy.ceiling_D)
                extreme.at(found[step + 1], after, spent)
            if all(way == "exact" for way in policy.counting):
                _keep_limits(least[step + 1], most[step + 1], policy, step)
        return Ends(least, most)


def _cost_ends(policy: AugmentedPolicy, model: CMDP) -> Ends | None:
    """Return bounds on the cost of each outcome as a policy counts it, in ticks, shape (O, D) each; None if unknown."""
    if not model.has_continuous_costs:
        try:
            cost_OD = policy.cost_ticks(model)
        except PolicyError:
            return None
        return Ends(cost_OD, cost_OD)
    shape = model.n_outcomes, len(policy.resources)
    least, most = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for d, (name, unit) in enumerate(zip(policy.resources, policy.units, strict=True)):
        r = model.resource_index(name)
        for o in range(model.n_outcomes):
            cost = model.cost_of(r, o)
            low, high = (cost.low, cost.high) if isinstance(cost, CostDistribution) else (cost, cost)
            if low is None or max(abs(low), abs(high)) / unit >= _FAR:
                return None
            least[o, d], most[o, d] = low // unit, -(-high // unit)
    return Ends(least, most)


def _keep_limits(least_SD: NDArray[np.int64], most_SD: NDArray[np.int64], policy: AugmentedPolicy, step: int) -> None:
    """Leave out amounts beyond the limits after a step: the policy never has spent them."""
    limits, reached = policy.limits, least_SD[:, 0] < _FAR
    for d, name in enumerate(policy.resources):
        place = limits.resources.index(name)
        lower, upper = limits.lower[place][step], limits.upper[place][step]
        if lower is not None:
            least_SD[reached, d] = np.maximum(least_SD[reached, d], _ticks(-(-lower // policy.units[d])))
        if upper is not None:
            most_SD[reached, d] = np.minimum(most_SD[reached, d], _ticks(upper // policy.units[d]))


def _ticks(amount: int) -> int:
    return min(max(amount, -_FAR), _FAR)


def reachable_range(row: PlanRow, name: str, policy: AugmentedPolicy, ends: Ends | None) -> Range:
    """Return what remains of a resource for a row, without amounts above the most that can remain there."""
    low, high = row.remaining[name]
    if ends is None or low is None:
        return low, high
    d, state = policy.resources.index(name), policy.states.index(row.state)
    remaining = RemainingBudget(policy.limits)
    both = []
    for ticks in (int(side[row.step, state, d]) for side in ends):
        if abs(ticks) >= _FAR:
            return low, high
        amounts = dict.fromkeys(policy.limits.resources, ticks * policy.units[d])
        both.append(remaining(row.step, amounts)[name])
    most = max(both)  # the least spent, or the most if there are lower limits only
    return low, most if low <= most and (high is None or most < high) else high
