"""The paper's projection: costs counted in integer multiples of a length (Section 4, `lem: approx`).

With length l, a cost c counts as floor(c / l) ticks, so that after h steps

    counted <= spent <= counted + h * l,

and a policy that keeps the budget as counted exceeds it by at most h * l (`thm: approx`), while every feasible policy
keeps it as counted: the optimum on counted costs is at least the true one. Two schemes give policies that never exceed
the budget: counting against limits that are smaller by H * l, as in the paper (`prop: feasible-scheme`), and rounding
costs *up* against the given limits, which at the same length is never worse.

The same holds if the resource saturates, with its floor and ceiling rounded as costs are, since clamping is monotone
and never enlarges a difference. An amount spent before the first step is rounded as one more cost.

For lower limits all directions are reversed. A resource with limits on both sides is rounded down, and the limits on
the side where that is unsafe are moved by one tick per step. The paper truncates amounts far below the budget; here
they lie in the interval in which a resource is *settled*, which has the same effect without a special case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MAX_TICKS, MINUS_INFINITY, PLUS_INFINITY, Number, common_unit, exact
from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.amounts import short_amount
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.lattice import AccountTicks, Lattice, fixed_amounts
from solvent.model.rounding import limit_ticks
from solvent.policy.nodes import Counting
from solvent.solvers.base import Answer
from solvent.solvers.problem import Problem
from solvent.solvers.solution import FoundPolicy
from solvent.solvers.transforms.base import BudgetedModel, found_policy, require_never_over
from solvent.solvers.transforms.bins import Measure, split

#: The purpose of a rounded problem: an upper bound on the optimum, or policies that never exceed the budget (two ways).
Scheme = Literal["relaxed", "rounded", "smaller budget"]
#: Sums stay below this, so that what is added to them before comparisons does not overflow.
_MOST = MAX_TICKS // 8


#: One number, or a number for each limited resource.
EpsilonLike = Number | Mapping[str, Number]


@dataclass(frozen=True)
class RoundedCosts:
    """A transform: costs rounded to whole multiples of a length for each limited resource.

    Attributes
    ----------
    lengths : tuple of Fraction
    scheme : {"relaxed", "rounded", "smaller budget"}
        "relaxed" bounds the optimum from above; policies of the other two never exceed the budget.
    """

    lengths: tuple[Fraction, ...]
    scheme: Scheme

    def apply(self, given: BudgetedModel, monitor: ResourceMonitor) -> Problem:
        """Return the problem on rounded costs; errors as of `project`."""
        return project(given.model, given.limits, self.lengths, self.scheme, monitor)

    def invert(self, made: Problem, answer: Answer) -> FoundPolicy:
        """Return the policy, which counts rounded costs, with its true worst case."""
        found = found_policy(made, answer)
        if self.scheme != "relaxed":
            require_never_over(found)
        return found


def read_epsilon(epsilon: EpsilonLike, limits: Limits, where: str = "epsilon") -> tuple[Fraction, ...]:
    """Return epsilon for each tracked resource, from one number or a mapping by name; errors refer to `where`.

    Raises
    ------
    ModelError
        If a number is not positive, or a mapping does not name exactly the limited resources.
    """
    if not isinstance(epsilon, Mapping):
        return (_positive(epsilon, where),) * len(limits.resources)
    for name in epsilon:
        if name not in limits.resources:
            known = ", ".join(map(quote, limits.resources)) or "none"
            raise ModelError(where, f"a limited resource ({known})", quote(name), did_you_mean(name, limits.resources))
    for name in limits.resources:
        if name not in epsilon:
            raise ModelError(where, f"a number for resource {quote(name)}", "none")
    return tuple(_positive(epsilon[name], f"{where}, {name}") for name in limits.resources)


def _positive(value: Any, where: str) -> Fraction:
    number = exact(value, where)
    if number <= 0:
        raise ModelError(where, "a number above 0", quote(value))
    return number


def additive_lengths(epsilons: tuple[Fraction, ...], limits: Limits, horizon: int) -> tuple[Fraction, ...]:
    """Return the length for each tracked resource with which H steps add up to epsilon (`cor: additive`)."""
    return tuple(epsilon / _roundings(limits, d, horizon) for d, epsilon in enumerate(epsilons))


def _roundings(limits: Limits, d: int, horizon: int) -> int:
    """Return how often amounts of a resource are rounded: at each step, and at the start unless nothing is spent."""
    return horizon + bool(limits.initial[d])


def relative_lengths(
    epsilons: tuple[Fraction, ...], limits: Limits, horizon: int, *, strict: bool = False
) -> tuple[Fraction, ...]:
    """Return the length for each tracked resource with which H steps add up to the share epsilon of its smallest limit.

    The smaller budget of the strict scheme is B' = B / (1 + epsilon * sign(B)), smaller than B by epsilon * |B'|. For
    epsilon >= 1 and a negative limit there is no such B', and epsilon * |B| is used.

    Raises
    ------
    ModelError
        If a limit is 0.
    """
    lengths = []
    for d, (name, epsilon) in enumerate(zip(limits.resources, epsilons, strict=True)):
        smallest = min(limits.distinct(d), key=abs)
        if smallest == 0:
            raise ModelError(
                f"budget, {name}",
                'a limit other than 0 with approximation="relative", whose epsilon is a share of it',
                "0",
                'use approximation="additive", whose epsilon is an amount',
            )
        if strict:
            factor = 1 + epsilon if smallest > 0 else 1 - epsilon
            smallest = smallest / factor if factor > 0 else smallest
        lengths.append(epsilon * abs(smallest) / _roundings(limits, d, horizon))
    return tuple(lengths)


def finest_lengths(model: CMDP, limits: Limits) -> tuple[Fraction, ...]:
    """Return the least power of two for each tracked resource in which sums of rounded costs fit 64 bits."""
    lengths = []
    for d, name in enumerate(limits.resources):
        r, length = model.resource_index(name), Fraction(1)
        while not _fits(model, r, limits, d, length):
            length *= 2
        while reach_of(model, r, limits, d) and _fits(model, r, limits, d, length / 2):
            length /= 2
        lengths.append(length)
    return tuple(lengths)


def _fits(model: CMDP, r: int, limits: Limits, d: int, length: Fraction) -> bool:
    """Whether sums of costs rounded to a length fit 64 bits."""
    return _reach_in_bins(model, r, limits, d, length) <= (_MOST - model.horizon - 1) * length


@dataclass(frozen=True)
class _Sides:
    """Which sides of a resource have limits, and so which way costs are rounded and limits moved."""

    upper: bool
    lower: bool

    @classmethod
    def of(cls, limits: Limits, d: int) -> _Sides:
        return cls(any(x is not None for x in limits.upper[d]), any(x is not None for x in limits.lower[d]))

    def counting(self, scheme: Scheme) -> Counting:
        if self.upper and self.lower:
            return "down"
        return "up" if self.upper == (scheme == "rounded") else "down"

    def moves(
        self, scheme: Scheme, horizon: int, begun: int
    ) -> tuple[NDArray[np.int64] | int, NDArray[np.int64] | int]:
        """Return what is added to the upper and the lower limits, in ticks.

        `begun` is the number of roundings before the first step, 0 or 1.
        """
        hidden = begun + np.arange(1, horizon + 1)
        if scheme == "smaller budget":
            return (-horizon - begun, 0) if self.upper else (0, horizon + begun)
        if not (self.upper and self.lower):
            return 0, 0
        return (0, -hidden) if scheme == "relaxed" else (-hidden, 0)


def project(
    model: CMDP,
    limits: Limits,
    lengths: tuple[Fraction, ...],
    scheme: Scheme,
    monitor: ResourceMonitor | None = None,
) -> Problem:
    """Return a problem with costs rounded to integer multiples of a length for each tracked resource.

    A resource whose unit is at least as coarse as the length keeps its unit and is not rounded.

    Raises
    ------
    ModelError
        If a length is so small that sums would not fit 64 bits.
    LimitReached
        If the bins of continuous costs would not fit into the memory limit.
    """
    horizon = model.horizon
    measures = []
    upper_HD = np.full((horizon, len(limits.resources)), PLUS_INFINITY, np.int64)
    lower_HD = np.full((horizon, len(limits.resources)), MINUS_INFINITY, np.int64)
    for d, name in enumerate(limits.resources):
        r, sides = model.resource_index(name), _Sides.of(limits, d)
        continuous = _is_continuous(model, r)
        counting: Counting = sides.counting(scheme)
        fixed = fixed_amounts(model, limits, d)
        unit = lengths[d]
        move_upper, move_lower = sides.moves(scheme, horizon, int(bool(limits.initial[d] % unit)))
        finest = common_unit([model.cost[r].unit, *fixed])
        if not continuous and finest >= unit:
            unit, counting, move_upper, move_lower = finest, "exact", 0, 0
        bottom = None if not continuous else _bottom(model, r, limits, d, unit)
        reach = _reach_in_bins(model, r, limits, d, unit)
        if reach > (_MOST - horizon - 1) * unit:
            raise ModelError(
                f"epsilon, {name}",
                f"at least {short_amount(reach * horizon / _MOST)}, so that sums of rounded costs fit 64 bits",
                short_amount(unit * horizon),
            )
        upper_HD[:, d] = limit_ticks(limits.upper[d], unit, PLUS_INFINITY, move_upper)
        lower_HD[:, d] = limit_ticks(limits.lower[d], unit, MINUS_INFINITY, move_lower)
        measures.append(Measure(r, unit, counting, bottom, reach, tuple(fixed)))
    parts = split(model, limits, tuple(measures), monitor)
    units = tuple(each.unit for each in measures)
    accounts = AccountTicks.of(model, limits, units, [each.counting == "up" for each in measures])
    lattice = Lattice(limits.resources, units, parts.ticks_OD, upper_HD, lower_HD, *accounts)
    spans = [_Span.of(lattice, d) for d in range(len(measures))]
    settled = [span.truncation() for span in spans]
    truncation = tuple(np.stack(side, axis=1) for side in zip(*settled, strict=True)) if spans else (upper_HD, lower_HD)
    return Problem(
        model, limits, parts.model, lattice, tuple(each.counting for each in measures), parts.truth,
        (truncation[0], truncation[1]), tuple(span.ends() for span in spans), parts.lumped, scheme,
        parts.error,
    )  # fmt: skip


def _is_continuous(model: CMDP, r: int) -> bool:
    return model.distribution_DO is not None and bool((model.distribution_DO[r] != NO_DISTRIBUTION).any())


def _reach_in_bins(model: CMDP, r: int, limits: Limits, d: int, unit: Fraction) -> Fraction:
    """Return a bound on the absolute value of all sums of costs and limits, with continuous costs in bins."""
    reach = reach_of(model, r, limits, d)
    if not _is_continuous(model, r):
        return reach
    return reach + model.horizon * abs(_bottom(model, r, limits, d, unit)) * unit


def _bottom(model: CMDP, r: int, limits: Limits, d: int, unit: Fraction) -> int:
    """Return ticks so low that, once added, no upper limit can be reached and no lower limit can be kept any more.

    They are at most the upper end of each distribution, so that no cost counts as more than it is. If the resource has
    a floor, they lead to it from every amount.
    """
    assert model.distribution_DO is not None
    used = np.unique(model.distribution_DO[r][model.distribution_DO[r] != NO_DISTRIBUTION])
    rise = model.horizon * (max(model.cost_range(r)[1], Fraction(0)) + unit)
    fixed = fixed_amounts(model, limits, d)
    bottom = min([Fraction(0), *limits.distinct(d), *fixed]) - sum(map(abs, fixed)) - 2 * rise
    return int(min([bottom, *(model.distributions[i].high for i in used)]) // unit)


def reach_of(model: CMDP, r: int, limits: Limits, d: int) -> Fraction:
    """Return a bound on the absolute value of all sums of costs and limits."""
    reach = max(model.cost_sums[r]) * model.cost[r].unit + limits.largest(d)
    reach += sum(map(abs, fixed_amounts(model, limits, d)))
    if model.distribution_DO is not None:
        used = model.distribution_DO[r]
        used_distributions = [model.distributions[i] for i in np.unique(used[used != NO_DISTRIBUTION])]
        ends = [abs(end) for each in used_distributions for end in (each.low, each.high) if end is not None]
        reach += model.horizon * max(ends, default=Fraction(0))
    return reach


@dataclass(frozen=True)
class _Span:
    """The range of one resource in ticks: its largest and its least cost of a step, and its limits."""

    largest: int
    least: int
    upper: NDArray[np.int64]
    lower: NDArray[np.int64]
    initial: int
    floor: int
    ceiling: int

    @classmethod
    def of(cls, lattice: Lattice, d: int) -> _Span:
        ticks = lattice.cost_OD[:, d]
        largest, least = int(ticks.max(initial=0)), int(ticks.min(initial=0))
        accounts = (int(each[d]) for each in lattice.accounts)
        return cls(largest, least, lattice.upper_HD[:, d], lattice.lower_HD[:, d], *accounts)

    def truncation(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the amounts before each step from which no limit can be broken: below the paper's B - (H - h) cmax.

        If only lower limits remain, the mirror image; if both do, no amounts.
        """
        left = np.arange(len(self.upper), 0, -1)
        upper = np.minimum.accumulate(self.upper[::-1])[::-1]
        lower = np.maximum.accumulate(self.lower[::-1])[::-1]
        has_upper, has_lower = upper != PLUS_INFINITY, lower != MINUS_INFINITY
        high = np.where(has_upper, np.where(has_upper, upper, 0) - self.largest * left, PLUS_INFINITY)
        low = np.where(has_lower, np.where(has_lower, lower, 0) - self.least * left, MINUS_INFINITY)
        both = has_upper & has_lower
        return np.where(both, PLUS_INFINITY, low), np.where(both, MINUS_INFINITY, high)

    def ends(self) -> tuple[int, int]:
        """Return the ends of the amounts to distinguish (`lem: approx`; `cor: improved` if no cost is negative)."""
        horizon = len(self.upper)
        rise, fall = horizon * self.largest, horizon * self.least
        uppers, lowers = self.upper[self.upper != PLUS_INFINITY], self.lower[self.lower != MINUS_INFINITY]
        low, high = max(self.initial + fall, self.floor), min(self.initial + rise, self.ceiling)
        if len(uppers) == horizon:
            high = min(high, int(uppers.max()))
        if len(lowers) == horizon:
            low = max(low, int(lowers.min()))
        if not len(lowers) and len(uppers):
            low = max(low, int(uppers.min()) - rise)
        if not len(uppers) and len(lowers):
            high = min(high, int(lowers.max()) - fall)
        return min(low, self.initial), max(high, self.initial)
