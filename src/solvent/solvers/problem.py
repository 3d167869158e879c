"""What a solver works on: a model, its costs and limits in ticks, and what the ticks stand for.

In an exact problem ticks are the user's costs. A rounded problem has other outcomes and costs: a policy found for it
is a policy for the user's model that counts rounded costs, and every outcome has bounds on its true cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.lattice import AccountTicks, Lattice
from solvent.model.rounding import inside
from solvent.policy.locate import COLLAPSED
from solvent.policy.nodes import Counting
from solvent.solvers.accuracy import Rounding
from solvent.solvers.bounds.bounds import Interval
from solvent.solvers.outcomes.merging import merge_twins

#: What `Solution.rounding` says for each scheme of rounding.
ROUNDING_NAMES = {
    "relaxed": "toward the limits",
    "rounded": "away from the limits",
    "smaller budget": "against smaller limits",
}


_NOTHING = Fraction(0)


@dataclass(frozen=True)
class TrueCosts:
    """Bounds on each outcome's true cost, in the finest unit.

    Attributes
    ----------
    units : tuple of Fraction
        Unit of each tracked resource.
    high_OD, low_OD : ndarray of int64, shape (O, D)
    high_accounts, low_accounts : AccountTicks
        Bounds on where each account begins and saturates.
    exact : bool
        Whether these are the true costs; otherwise no 64-bit unit divides them, and the bounds are less than a tick
        wide.
    """

    units: tuple[Fraction, ...]
    high_OD: NDArray[np.int64]
    low_OD: NDArray[np.int64]
    high_accounts: AccountTicks
    low_accounts: AccountTicks
    exact: bool


@dataclass(frozen=True)
class Problem:
    """A model and its limits in ticks.

    Attributes
    ----------
    origin : CMDP
        The user's model.
    limits : Limits
        The user's budget.
    model : CMDP
        The model to solve: the same states, actions and rows; outcomes may be split or merged.
    lattice : Lattice
        Ticks of `model` and limits for them.
    counting : tuple of {"exact", "down", "up"}
        How a true cost of each tracked resource is counted.
    truth : TrueCosts
    truncation : pair of ndarrays of int64, shape (H, D), or None
        Amounts before each step from which no limit can be reached any more; the paper's truncation.
    ends : tuple of (int, int)
        The least and the greatest amount of each resource that need be distinguished.
    lumped : bool
        Whether some outcome stands for costs that a policy counts differently, all beyond the amounts that matter.
    scheme : {"relaxed", "rounded", "smaller budget"} or None
        What costs were rounded for, if they were.
    bin_error : float
        Bound on the total error of the probabilities of a row's outcomes, where continuous costs are in bins.
    """

    origin: CMDP
    limits: Limits
    model: CMDP
    lattice: Lattice
    counting: tuple[Counting, ...]
    truth: TrueCosts
    truncation: Interval | None = None
    ends: tuple[tuple[int, int], ...] = ()
    lumped: bool = False
    scheme: str | None = None
    bin_error: float = 0.0

    @classmethod
    def exact(
        cls, model: CMDP, limits: Limits, *, merge: bool = True, monitor: ResourceMonitor | None = None
    ) -> Problem:
        """Return a problem with nothing rounded and equal outcomes merged (unless `merge` is False).

        Errors as of `Lattice.fit`.

        Memory for costs in ticks, and for merged outcomes, stays reserved.
        """
        monitor = monitor or ResourceMonitor()
        per_outcome = 8 * len(limits.resources)
        monitor.reserve(2 * per_outcome * model.n_outcomes, "costs in ticks")
        lattice = Lattice.fit(model, limits, monitor)
        monitor.release(per_outcome * model.n_outcomes)
        monitor.check_time()
        merged = model
        if merge and not model.is_deterministic:
            # memory of sorting and merging
            with monitor.borrowed((80 + 5 * per_outcome) * model.n_outcomes, "merging outcomes"):
                merged, ticks_OD = merge_twins(model, lattice.cost_OD)
            if merged is not model:
                monitor.reserve((20 + per_outcome) * merged.n_outcomes, "merged outcomes")
            monitor.check_time()
            lattice = lattice if merged is model else replace(lattice, cost_OD=ticks_OD)
        accounts = lattice.accounts
        truth = TrueCosts(lattice.units, lattice.cost_OD, lattice.cost_OD, accounts, accounts, exact=True)
        exactly: Counting = "exact"
        return cls(model, limits, merged, lattice, (exactly,) * len(limits.resources), truth)

    @property
    def is_exact(self) -> bool:
        """Whether no cost was rounded."""
        return all(counting == "exact" for counting in self.counting)

    @property
    def relaxed(self) -> bool:
        """Whether a policy that keeps the limits as counted may break the true ones by what rounding hides."""
        return self.scheme == "relaxed"

    @property
    def rounding_name(self) -> str | None:
        """How costs were rounded, as `Solution.rounding` reports it."""
        return None if self.is_exact or self.scheme is None else ROUNDING_NAMES[self.scheme]

    @property
    def settled_as(self) -> tuple[int, ...]:
        """The amount of each resource that stands for all settled amounts when distinct amounts are counted."""
        lattice = self.lattice
        return tuple(
            low
            if (lattice.lower_HD[:, d] == MINUS_INFINITY).all()
            else high
            if (lattice.upper_HD[:, d] == PLUS_INFINITY).all()
            else COLLAPSED
            for d, (low, high) in enumerate(self.ends)
        )

    @property
    def most_amounts(self) -> int | None:
        """The paper's bound on the number of distinct amounts of a layer (`lem: approx`, `cor: improved`).

        One more per resource with limits on both sides, for the settled amounts between them.
        """
        if self.truncation is None:
            return None
        pairs = zip(self.ends, self.settled_as, strict=True)
        return math.prod(high - low + 1 + (stand_in == COLLAPSED) for (low, high), stand_in in pairs)

    def excess(self, peak_HD: NDArray[np.int64], trough_HD: NDArray[np.int64]) -> dict[str, Fraction]:
        """Return the most by which true spending between two extremes after each step breaks limits, per resource."""
        result = {}
        for d, name in enumerate(self.limits.resources):
            unit, (upper, lower) = self.truth.units[d], (self.limits.upper[d], self.limits.lower[d])
            fixed_upper, fixed_lower = self.limits.constant[d]
            # compared as integers first
            over = [
                most * unit - limit
                for limit, most in _by_limit(upper, peak_HD[:, d], max, constant=fixed_upper)
                if most > inside(limit, unit, PLUS_INFINITY)
            ]
            under = [
                limit - least * unit
                for limit, least in _by_limit(lower, trough_HD[:, d], min, constant=fixed_lower)
                if least < inside(limit, unit, MINUS_INFINITY)
            ]
            result[name] = max(over + under, default=_NOTHING)
        return result

    def slack(self, d: int) -> Fraction:
        """Return the most by which a policy that keeps the limits as counted can break the true ones."""
        hides = self.relaxed and self.counting[d] != "exact"
        if not hides:
            return Fraction(0)
        unit = self.lattice.units[d]
        return (self.model.horizon + bool(self.limits.initial[d] % unit)) * unit

    def rounding(self, *, pooled: bool) -> Rounding:
        """Return bounds on the errors of evaluating a row; `pooled` if independent costs are averaged separately."""
        return Rounding.of(self.origin, self.model, pooled=pooled, bin_error=self.bin_error)

    @property
    def drift(self) -> float:
        """Bound on the difference of a row's total probability from 1, where each row has one outcome."""
        if self.model is self.origin and self.model.is_certain:
            return 0.0
        return 10 * self.rounding(pooled=False).row

    def worst_spent(self, peak_HD: NDArray[np.int64]) -> dict[str, Fraction]:
        """Return the most that is ever spent, given the most after each step."""
        units = self.truth.units
        return {
            name: Fraction(int(peak_HD[:, d].max()) * units[d].numerator, units[d].denominator)
            for d, name in enumerate(self.limits.resources)
        }


def _by_limit(
    side: tuple[Fraction | None, ...], ticks_H: NDArray[np.int64], extreme: Callable[..., int], *, constant: bool
) -> Iterator[tuple[Fraction, int]]:
    """Yield each distinct limit with the extreme of the ticks at its steps."""
    if constant:
        if side[0] is not None:
            yield side[0], int(ticks_H.max() if extreme is max else ticks_H.min())
        return
    found: dict[int, tuple[Fraction, int]] = {}
    for limit, ticks in zip(side, ticks_H.tolist(), strict=True):
        if limit is not None:
            key = id(limit)
            found[key] = (limit, extreme(found[key][1], ticks) if key in found else ticks)
    yield from found.values()
