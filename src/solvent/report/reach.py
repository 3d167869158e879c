"""What can remain of a resource where a row of a plan applies: the amounts that the page shows end there.

A policy decides for all amounts, also for more than can ever remain. The histories of the policy are followed by boxes:
for each step and state, the least and the most that can have been spent of each resource, as the policy counts it. The
part of a box in which a row applies leads to the sums of its ends and the costs of the row's outcomes, after
saturation and within the limits; the box of a state is the smallest one that contains all that leads there.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.errors import PolicyError
from solvent.model.cmdp import CMDP
from solvent.model.distributions import CostDistribution
from solvent.policy.plan import PlanRow, Range
from solvent.policy.remaining import RemainingBudget
from solvent.policy.table import AugmentedPolicy

#: The largest number of ticks of a cost.
_MOST_TICKS = 2**62
#: The least and the most that can have been spent of each resource, by step and state (by position).
Boxes = dict[tuple[int, int], list[tuple[Fraction, Fraction]]]


class _CostEnds(NamedTuple):
    """Bounds on the cost of each outcome as a policy counts it, in ticks, shape (O, D) each."""

    least: NDArray[np.int64]
    most: NDArray[np.int64]


class Reach:
    """What policies for a model can have spent.

    Parameters
    ----------
    model : CMDP
    """

    def __init__(self, model: CMDP) -> None:
        self._model = model
        self._costs: dict[tuple[object, ...], _CostEnds | None] = {}

    def boxes(self, policy: AugmentedPolicy, rows: Sequence[PlanRow]) -> Boxes:
        """Return what a policy with these rows, in the order of their steps, can have spent; empty if not known."""
        key = policy.resources, policy.units, policy.counting
        if key not in self._costs:
            self._costs[key] = _cost_ends(policy, self._model)
        costs = self._costs[key]
        if costs is None:
            return {}
        model, initial = self._model, [Fraction(int(x)) for x in policy.initial_D]
        start = [(x * unit, x * unit) for x, unit in zip(initial, policy.units, strict=True)]
        found: Boxes = {(0, int(state)): start for state in model.start_states}
        for row in rows:
            state = model.state_index(row.state)
            part = _part(found.get((row.step, state)), row, policy)
            if part is None:
                continue
            taken = {model.action_index(action) for action in row.choices}
            for r in model.rows(row.step, state):
                if int(model.row_action[r]) not in taken:
                    continue
                for o in range(int(model.outcome_indptr[r]), int(model.outcome_indptr[r + 1])):
                    after = (row.step + 1, int(model.next_state[o]))
                    led = [_after(policy, row.step, d, ends, costs, o) for d, ends in enumerate(part)]
                    known = found.get(after)
                    found[after] = led if known is None else [_hull(*pair) for pair in zip(known, led, strict=True)]
        return found


def _part(
    box: list[tuple[Fraction, Fraction]] | None, row: PlanRow, policy: AugmentedPolicy
) -> list[tuple[Fraction, Fraction]] | None:
    """Return the part of a box in which a row applies; None if there is none."""
    if box is None:
        return None
    part = []
    for (least, most), name in zip(box, policy.resources, strict=True):
        low, high = row.spent[name]
        part.append((least if low is None else max(low, least), most if high is None else min(high, most)))
    return part if all(low <= high for low, high in part) else None


def _after(
    policy: AugmentedPolicy, step: int, d: int, spent: tuple[Fraction, Fraction], costs: _CostEnds, outcome: int
) -> tuple[Fraction, Fraction]:
    """Return what can have been spent of a resource after an outcome."""
    unit, limits = policy.units[d], policy.limits
    floor, ceiling = int(policy.floor_D[d]) * unit, int(policy.ceiling_D[d]) * unit
    least, most = (
        min(max(end + int(side[outcome, d]) * unit, floor), ceiling) for end, side in zip(spent, costs, strict=True)
    )
    if policy.counting[d] == "exact":
        place = limits.resources.index(policy.resources[d])
        lower, upper = limits.lower[place][step], limits.upper[place][step]
        least = least if lower is None else max(least, min(lower, most))
        most = most if upper is None else min(most, max(upper, least))
    return least, most


def _hull(one: tuple[Fraction, Fraction], other: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    return min(one[0], other[0]), max(one[1], other[1])


def _cost_ends(policy: AugmentedPolicy, model: CMDP) -> _CostEnds | None:
    """Return bounds on the cost of each outcome as a policy counts it; None if they are not known."""
    if not model.has_continuous_costs:
        try:
            cost_OD = policy.cost_ticks(model)
        except PolicyError:
            return None
        return _CostEnds(cost_OD, cost_OD)
    shape = model.n_outcomes, len(policy.resources)
    least, most = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for d, (name, unit) in enumerate(zip(policy.resources, policy.units, strict=True)):
        r = model.resource_index(name)
        for o in range(model.n_outcomes):
            cost = model.cost_of(r, o)
            low, high = (cost.low, cost.high) if isinstance(cost, CostDistribution) else (cost, cost)
            if low is None or max(abs(low), abs(high)) / unit >= _MOST_TICKS:
                return None
            least[o, d], most[o, d] = low // unit, -(-high // unit)
    return _CostEnds(least, most)


def reachable_range(row: PlanRow, name: str, policy: AugmentedPolicy, boxes: Boxes) -> Range:
    """Return what remains of a resource for a row, without amounts above the most that can remain there."""
    low, high = row.remaining[name]
    box = boxes.get((row.step, policy.states.index(row.state)))
    if box is None or low is None:
        return low, high
    remaining = RemainingBudget(policy.limits)
    ends = (dict.fromkeys(policy.limits.resources, end) for end in box[policy.resources.index(name)])
    # the most remains with the least spent, or with the most spent if there are lower limits only
    most = max(low, *(remaining(row.step, end)[name] for end in ends))
    return low, most if high is None else min(high, most)
