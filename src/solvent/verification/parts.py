"""Continuous costs as a policy on rounded costs counts them: split into intervals of equal count.

With a unit l, a policy that rounds down counts every cost in [k l, (k + 1) l) as k ticks, and one that rounds up every
cost in ((k - 1) l, k l]. It cannot distinguish the costs of such an interval, so an outcome of continuous cost is
equivalent to one outcome per interval, with the interval's probability and its exact ends. The costs of several
resources in one outcome are independent, so all combinations of their intervals are outcomes.

The intervals cover all possible costs, both ends included; an interval is kept even if its probability is 0 in floating
point. If costs are not bounded below, one last interval holds all costs so low that the policy does not distinguish
them.

The costs of a saturating resource are split in the same way: what the policy counts is clamped to its own floor and
ceiling, which depends on the counts only, and the ends of the amounts that may truly have been spent are clamped to
those of the model (see `ledgers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY, ExactColumn
from solvent.core.limits import ResourceMonitor
from solvent.errors import PolicyError
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.distributions import CostDistribution
from solvent.policy.locate import COLLAPSED
from solvent.policy.nodes import NodeTable
from solvent.verification.report import CostPart

#: Measured memory per part of a distribution.
_BYTES_PER_PART = 700


@dataclass(frozen=True)
class Parts:
    """A model whose outcomes with continuous costs were split.

    Attributes
    ----------
    origin : CMDP
        The original model.
    model : CMDP
        The same rows with more outcomes; each tracked distribution is restricted to an interval.
    source_O : ndarray of int64, shape (O,)
        The outcome of `origin` that each outcome belongs to.
    count_OD : ndarray of int64, shape (O, D)
        Ticks that the policy counts for each outcome, per tracked resource.
    """

    origin: CMDP
    model: CMDP
    source_O: NDArray[np.int64]
    count_OD: NDArray[np.int64]

    def cost_of(self, resource: int, outcome: int) -> Fraction | CostDistribution | CostPart:
        """Return the cost of an outcome: exact, a distribution, or a part of one."""
        part = self.model.cost_of(resource, outcome)
        distribution = self.origin.cost_of(resource, int(self.source_O[outcome]))
        if (
            not isinstance(part, CostDistribution)
            or not isinstance(distribution, CostDistribution)
            or (part.low, part.high) == (distribution.low, distribution.high)
        ):
            return part
        return CostPart(distribution, part.low, part.high)


@dataclass(frozen=True)
class _Cuts:
    """Parts of several distributions, one after another; distribution i has `size[i]` parts from `first[i]` on."""

    first: NDArray[np.int64]
    size: NDArray[np.int64]
    count: NDArray[np.int64]
    probability: NDArray[np.float64]
    distributions: list[CostDistribution]


def take_apart(
    model: CMDP,
    policy: NodeTable,
    most: int,
    monitor: ResourceMonitor | None = None,
    spent: Mapping[str, Fraction] | None = None,
) -> Parts:
    """Split a model's outcomes into those that a policy on rounded costs distinguishes.

    Parameters
    ----------
    model : CMDP
    policy : NodeTable
    most : int
        Maximum number of outcomes.
    monitor : ResourceMonitor, optional
        Memory for the parts stays reserved in it.
    spent : mapping of str to Fraction, optional
        What has been spent before the first step, by resource; what the policy was made for if not given.

    Raises
    ------
    PolicyError
        If there would be more, or the policy does not round a continuous cost.
    LimitReached
        If a limit of the monitor is reached.

    Examples
    --------
    >>> from solvent.model.distributions import distribution
    >>> from solvent.model.budget import resolve
    >>> from solvent.model.lattice import AccountTicks, Lattice
    >>> from solvent.policy.table import AugmentedPolicy
    >>> b = CMDP.builder(horizon=1, start=0, resources=["x"], budget=3)
    >>> b.add(0, "go", outcomes=[(1, 0, distribution("uniform", low=0, high=2.5))])
    >>> model = b.build()
    >>> limits = np.full((1, 1), 3), np.zeros((1, 1), int)
    >>> lattice = Lattice(("x",), (Fraction(1),), np.zeros((1, 1), int), *limits, *AccountTicks.plain(1))
    >>> layers = [([0], [[0]], [0])]
    >>> policy = AugmentedPolicy.from_nodes(model, lattice, resolve(model, None), layers=layers, counting=("up",))
    >>> parts = take_apart(model, policy, most=10)
    >>> parts.count_OD.ravel().tolist(), parts.model.probability.round(6).tolist()
    ([0, 1, 2, 3], [0.0, 0.4, 0.4, 0.2])
    >>> print(parts.cost_of(0, 3))
    2 to 2.5 of uniform(low=0, high=2.5)
    """
    policy.check_model(model)
    monitor = monitor or ResourceMonitor()
    count_OD = plain_counts(model, policy)
    if model.distribution_DO is None:
        return Parts(model, model, np.arange(model.n_outcomes), count_OD)
    source, probability = np.arange(model.n_outcomes), model.probability
    distribution_DO, distributions = model.distribution_DO, list(model.distributions)
    for d, name in enumerate(policy.resources):
        r = model.resource_index(name)
        used = np.unique(distribution_DO[r][distribution_DO[r] != NO_DISTRIBUTION])
        if not len(used):
            continue
        cuts = _cut(model, policy, d, used, most, monitor, spent)
        distribution = distribution_DO[r]
        sizes = cuts.size[distribution]
        _refuse_too_many(int(sizes.sum()), most, name)
        monitor.reserve(int(sizes.sum()) * (60 + 16 * len(policy.resources)), f"the parts of costs of {name}")
        owner = np.repeat(np.arange(len(distribution)), sizes)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        source, probability, distribution_DO, count_OD = (
            source[owner],
            probability[owner],
            distribution_DO[:, owner],
            count_OD[owner],
        )
        cut = np.flatnonzero(distribution_DO[r] != NO_DISTRIBUTION)
        part = cuts.first[distribution_DO[r][cut]] + within[cut]
        probability[cut] *= cuts.probability[part]
        count_OD[cut, d] = cuts.count[part]
        distribution_DO[r, cut] = len(distributions) + part
        distributions += cuts.distributions
    return Parts(model, _expanded(model, source, probability, distribution_DO, distributions), source, count_OD)


def plain_counts(model: CMDP, policy: NodeTable) -> NDArray[np.int64]:
    """Return the ticks that a policy counts for each outcome, shape (O, D); 0 where a cost is continuous."""
    columns = [policy.plain_ticks(model, d) for d in range(len(policy.resources))]
    return np.stack(columns, axis=1) if columns else np.zeros((model.n_outcomes, 0), np.int64)


def first_count(policy: NodeTable, d: int, spent: Mapping[str, Fraction] | None) -> int:
    """Return the ticks with which a policy begins to count, given what has been spent before the first step."""
    own = policy.limits.initial[d]
    given = own if spent is None else spent.get(policy.resources[d], own)
    return int(policy.initial_D[d]) if given == own else policy.clamp(d, policy.count_spent(d, given))


def least_count(model: CMDP, policy: NodeTable, d: int, spent: Mapping[str, Fraction] | None = None) -> int:
    """Return a number of ticks such that no count of a single step below it ever changes the policy's decisions.

    With a floor, it is a count that leads to the floor from any amount that is possible before: smaller counts lead to
    the floor as well. Otherwise, the policy compares amounts with those of its nodes and with ends of settled
    intervals. An amount that is below all of these by more than the greatest costs could make up gives the same
    comparisons; a ceiling only makes it smaller.
    """
    looked_up = [policy.spent_ND[:, d]]
    looked_up += [ends[:, d] for ends in (policy.settled_low_GD, policy.settled_high_GD) if ends is not None]
    least = 0
    for ticks in looked_up:
        finite = ticks[(ticks != COLLAPSED) & (ticks != MINUS_INFINITY) & (ticks != PLUS_INFINITY)]
        least = min(least, int(finite.min(initial=0)))
    _, greatest = model.cost_range(model.resource_index(policy.resources[d]))
    rise, first, floor = max(policy.count(d, greatest), 0), first_count(policy, d, spent), int(policy.floor_D[d])
    if floor != MINUS_INFINITY:
        return floor - max(first, floor) - policy.horizon * rise
    return least - 2 * policy.horizon * rise - max(first, 0) - 1


def _cut(
    model: CMDP,
    policy: NodeTable,
    d: int,
    used: NDArray[np.int32],
    most: int,
    monitor: ResourceMonitor,
    spent: Mapping[str, Fraction] | None,
) -> _Cuts:
    """Split the distributions of one tracked resource into intervals of equal count."""
    # the last entry, at position NO_DISTRIBUTION, is for outcomes without a distribution
    first, size = np.zeros(len(model.distributions) + 1, np.int64), np.ones(len(model.distributions) + 1, np.int64)
    least, unit, up = least_count(model, policy, d, spent), policy.units[d], policy.counting[d] == "up"
    counts, probabilities = [], []
    distributions: list[CostDistribution] = []
    for i in used.tolist():
        distribution = model.distributions[i]
        low = least if distribution.low is None else max(policy.count(d, distribution.low), least)
        high = max(policy.count(d, distribution.high), low)
        _refuse_too_many(len(distributions) + high - low + 1, most, policy.resources[d])
        monitor.reserve(_BYTES_PER_PART * (high - low + 1), f"the parts of costs of {policy.resources[d]}")
        ends = [(k if up else k + 1) * unit for k in monitor.each(range(low, high))]
        reached = np.maximum.accumulate(distribution.cdf([float(end) for end in ends])) if ends else np.zeros(0)
        first[i], size[i] = len(distributions), high - low + 1
        counts.append(np.arange(low, high + 1))
        probabilities.append(np.diff(np.concatenate([[0.0], np.clip(reached, 0.0, 1.0), [1.0]])))
        lows: list[Fraction | None] = [distribution.low, *ends]
        distributions += [
            replace(distribution, low=a, high=b)
            for a, b in monitor.each(zip(lows, [*ends, distribution.high], strict=True))
        ]
    return _Cuts(first, size, np.concatenate(counts), np.concatenate(probabilities), distributions)


def _refuse_too_many(parts: int, most: int, name: str) -> None:
    if parts > most:
        raise PolicyError(
            f"costs of {name}",
            f"at most {most:,} parts that the policy distinguishes",
            f"{parts:,}",
            "raise max_nodes=",
        )


def _expanded(
    model: CMDP,
    source: NDArray[np.int64],
    probability: NDArray[np.float64],
    distribution_DO: NDArray[np.int32],
    distributions: list[CostDistribution],
) -> CMDP:
    row = np.repeat(np.arange(model.n_rows), np.diff(model.outcome_indptr))[source]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=model.n_rows))])
    return replace(
        model,
        outcome_indptr=indptr.astype(np.int64),
        probability=probability,
        next_state=model.next_state[source],
        cost=tuple(ExactColumn(column.ticks[source], column.unit, column.decimal_digits) for column in model.cost),
        distributions=tuple(distributions),
        distribution_DO=distribution_DO,
    )
