"""Curves: the optimal value for every budget of one resource.

Two amounts can vary: the limit (`vary="budget"`: how large should the tank be?), or what remains of it before the first
step (`vary="remaining"`: how full must the tank be?). If the resource does not saturate, these are the same, and one
frontier has all values. If it does, what remains still takes one frontier, and each limit is a problem of its own
(`solvent.solvers.frontier.sizes`).

If limits of other resources are to be kept, values depend on what is spent of them too. Such a curve is a surface of
one resource (`solvent.solvers.surface`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import Number, exact
from solvent.core.frames import amounts_column, import_pandas
from solvent.core.limits import ResourceMonitor
from solvent.errors import BudgetError, LatticeOverflowError, SolventError, printable, quote
from solvent.model.amounts import as_typed, format_amount
from solvent.model.budget import Budget
from solvent.model.cmdp import CMDP
from solvent.policy.nodes import run_lookup
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.base import Run
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.following import follow_policy
from solvent.solvers.frontier.frontier import Frontier
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.frontier.sizes import SizedProblem, SizeValues, values_by_size
from solvent.solvers.problem import Problem
from solvent.solvers.varied import (
    Reach,
    limit_of,
    most_spent,
    only,
    reach_of_remaining,
    solved,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Source(Protocol):
    """Where a curve finds its values and policies; amounts are in ticks of the horizontal axis."""

    @property
    def unit(self) -> Fraction:
        """Amount of one tick."""

    def value(self, ticks: int) -> float:
        """Return the optimal value; minus infinity if nothing is feasible."""

    def policy(self, ticks: int, amount: Fraction) -> AugmentedPolicy:
        """Return the optimal policy for an amount and the ticks it was rounded to."""


@dataclass(frozen=True)
class _OneSweep:
    """Values of all amounts from one frontier.

    Attributes
    ----------
    problem : Problem
    resource : SingleResource
    frontier : Frontier
    shift : int
        The amount left at the start less the ticks of the horizontal axis.
    limit : Fraction or None
        The limit, if what remains of it varies; None if the limit itself varies.
    """

    problem: Problem
    resource: SingleResource
    frontier: Frontier
    shift: int
    limit: Fraction | None

    @property
    def unit(self) -> Fraction:
        return self.problem.lattice.units[0]

    def value(self, ticks: int) -> float:
        return self.frontier.value(ticks + self.shift)

    def policy(self, ticks: int, amount: Fraction) -> AugmentedPolicy:
        model, name = self.problem.origin, self.problem.limits.resources[0]
        if self.limit is not None:
            try:
                problem = Problem.exact(model, only(model, name, self.limit, self.limit - amount))
            except LatticeOverflowError:
                # an amount between two ticks, or beyond the curve, is as good as the one below it
                problem = Problem.exact(model, only(model, name, self.limit, self.limit - ticks * self.unit))
            return solved(problem)
        left = ticks + self.shift
        used = follow_policy(self.problem.model, self.resource, self.frontier, left, origin=ticks).used
        # nothing is left when the whole budget is spent
        layers = [(state, (ticks - need)[:, None], action) for state, need, action in self.frontier.layers(model, used)]
        lattice, limits = self.problem.lattice, only(model, name, amount, self.problem.limits.initial[0])
        return AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers, lookup=run_lookup(limits))


@dataclass(frozen=True)
class _BySize:
    """Values of all limits of a resource that saturates; a policy is found by one more solve."""

    sized: SizedProblem
    values: SizeValues

    @property
    def unit(self) -> Fraction:
        return self.sized.problem.lattice.units[0]

    def value(self, ticks: int) -> float:
        at = int(np.searchsorted(self.values.need, ticks, side="right")) - 1
        return float(self.values.value[at]) if at >= 0 else -np.inf

    def policy(self, ticks: int, amount: Fraction) -> AugmentedPolicy:
        return solved(self.sized.at(ticks, amount))


@dataclass(frozen=True, eq=False)
class Curve:
    """The optimal value as a function of the budget: a non-decreasing step function.

    Attributes
    ----------
    model : CMDP
    resource : str
    max_budget : Fraction
        The largest budget the curve covers, unless `flat_beyond`.
    flat_beyond : bool
        Whether no policy can spend more than `max_budget`, so that the curve is constant beyond it.
    budgets : tuple of Fraction
        The budgets at which the value rises, beginning with the least feasible budget; empty if no budget is feasible.
    values : ndarray of float64
        The optimal value from each of these budgets on, as computed.
    error : float
        Bound on the difference between any value and the optimum. Includes all rounding errors and tolerances.
    vary : {"budget", "remaining"}
        What the budgets of the curve are: limits, or amounts that remain of one limit before the first step.
    ignored_limits : tuple of str
        Limits of the model's own budget that the curve does not keep.
    fixed_limits : dict of Budget by resource
        Limits on other resources that all policies of the curve keep.
    """

    model: CMDP
    resource: str
    max_budget: Fraction
    flat_beyond: bool
    budgets: tuple[Fraction, ...]
    values: NDArray[np.float64]
    error: float
    vary: str
    ignored_limits: tuple[str, ...]
    _source: Source = field(repr=False)
    fixed_limits: Mapping[str, Budget] = field(default_factory=dict)

    @property
    def least_budget(self) -> Fraction | None:
        """The least feasible budget; None if no budget up to `max_budget` is feasible."""
        return self.budgets[0] if self.budgets else None

    def value(self, budget: Number) -> float:
        """Return the optimal value for a budget; minus infinity if it is infeasible.

        Raises
        ------
        BudgetError
            If the budget exceeds `max_budget`, unless `flat_beyond`.
        """
        return self._source.value(self._ticks(budget))

    def marginal(self, budget: Number, extra: Number = 1) -> float:
        """Return the marginal value, the gain of `extra` more budget: `value(budget + extra) - value(budget)`.

        Tables, figures and reports show the same difference as "gain of +1", with `extra` in place of 1.
        """
        total = exact(budget, "budget") + exact(extra, "extra")
        now, more = self.value(budget), self.value(as_typed(total))
        return 0.0 if now == more else more - now

    @property
    def shown_extra(self) -> Fraction:
        """The `extra` of the marginal values in tables and figures of this curve.

        That is 1 if it suits the range of budgets, otherwise a round share of the range; or the greatest common divisor
        of all increments of the budget, if that is larger.

        Examples
        --------
        >>> import solvent
        >>> sacks = solvent.instances.knapsack([1, 1], [30, 31]), solvent.instances.knapsack([1, 1], [3000, 4001])
        >>> [solvent.frontier(sack).shown_extra for sack in sacks]
        [Fraction(1, 1), Fraction(200, 1)]
        """
        span = max(self.max_budget, self.budgets[-1]) - self.budgets[0] if self.budgets else Fraction(0)
        if not span:
            return Fraction(1)
        power = Fraction(10) ** math.floor(math.log10(span / 50))
        share = next(power * lead for lead in (1, 2, 5, 10) if power * lead * 50 >= span)
        extra = Fraction(1) if 6 <= span <= 120 else share
        whole = math.lcm(*(budget.denominator for budget in self.budgets))
        points = [int(budget * whole) for budget in self.budgets]
        apart = Fraction(math.gcd(*(point - points[0] for point in points)), whole)
        return apart if extra < apart <= span / 5 else extra

    def known_marginal(self, budget: Number, extra: Number = 1) -> float | None:
        """Return the marginal value; None if the curve does not reach `budget + extra`, or the budget is infeasible."""
        try:
            return None if self.value(budget) == -np.inf else self.marginal(budget, extra)
        except BudgetError:
            return None

    def policy(self, budget: Number) -> AugmentedPolicy:
        """Return the optimal policy for a budget.

        Raises
        ------
        SolventError
            If no policy is feasible with this budget.
        """
        ticks = self._ticks(budget)
        if self._source.value(ticks) == -np.inf:
            hint = (
                f"no budget up to {format_amount(self.max_budget)} is feasible"
                if self.least_budget is None
                else f"the least feasible budget is {format_amount(self.least_budget)}"
            )
            raise SolventError(f"no policy is feasible with a budget of {quote(budget)} of {self.resource}: {hint}")
        return self._source.policy(ticks, exact(budget, "budget"))

    def to_frame(self, *, extra: Number = 1) -> Any:
        """Return the curve as a pandas DataFrame, one row for each budget at which the value rises.

        The columns are `budget`, `value` and `marginal`, as `marginal(budget, extra)` returns it; NaN where the curve
        does not reach that far. Budgets are integers, floats if these are exact, or text such as "1/3".

        Parameters
        ----------
        extra : number
            The additional budget of marginal values.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        gains = [self.known_marginal(as_typed(budget), extra) for budget in self.budgets]
        worth = np.array([np.nan if gain is None else gain for gain in gains], np.float64)
        columns = {"budget": amounts_column(self.budgets), "value": self.values, "marginal": worth}
        return import_pandas().DataFrame(columns)

    def plot(self, ax: Axes | None = None, *, budget: Number | None = None) -> Axes:
        """Plot the curve and return the Matplotlib axes; see `solvent.plot.frontier`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; a new figure if not given.
        budget : number, optional
            A budget to mark.
        """
        from solvent.plot.value import frontier as draw

        return draw(self, ax, budget=budget)

    def __len__(self) -> int:
        return len(self.budgets)

    def __repr__(self) -> str:
        least = "infeasible" if self.least_budget is None else f"least budget {format_amount(self.least_budget)}"
        return f"Curve({printable(self.resource)} up to {format_amount(self.max_budget)}, {len(self)} points, {least})"

    def _repr_html_(self) -> str:
        from solvent.solvers.display import curve_card

        return curve_card(self)

    def _ticks(self, budget: Number) -> int:
        amount = exact(budget, "budget")
        if self.vary == "remaining" and amount < 0:
            where, hint = f"{self.resource} remaining", "solve(model, budget, spent=...) takes amounts beyond the limit"
            raise BudgetError(where, "at least 0", quote(budget), hint)
        if amount > self.max_budget:
            if not self.flat_beyond:
                raise BudgetError(
                    f"budget of {self.resource}", f"at most {format_amount(self.max_budget)}", quote(budget),
                    "compute the curve with a larger max_budget",
                )  # fmt: skip
            amount = self.max_budget
        return int(amount // self._source.unit)


def curve_of(
    model: CMDP,
    name: str,
    given: Fraction | None,
    vary: str,
    own: Mapping[str, Budget] | None,
    ignored: tuple[str, ...],
    initial: Fraction,
    run: Run,
) -> Curve:
    """Compute a curve along which no other limits are kept; the arguments of `frontier` have been read.

    Parameters
    ----------
    model : CMDP
    name : str
        The resource that varies.
    given : Fraction or None
        The largest amount of interest.
    vary : {"budget", "remaining"}
    own : mapping of Budget by resource, or None
        The budget of which a part remains, if that varies.
    ignored : tuple of str
        Limits that the curve does not keep, as text.
    initial : Fraction
        What has been spent before the first step, if the limit varies.
    run : Run

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    monitor = run.monitor
    source: _OneSweep | _BySize
    if vary == "remaining":
        source, reach = _by_remaining(model, name, limit_of(own, name), given, monitor)
    elif model.resource(name).saturates:
        source, reach = _by_size(model, name, initial, given, run)
    else:
        source, reach = _by_budget(model, name, initial, given, monitor)
    if isinstance(source, _BySize):
        needs, values, error = source.values.need, source.values.value, source.values.error
    else:
        found = source.frontier
        needs, values, error = found.start_need - source.shift, found.start_value, _error(source.problem, found)
    budgets = tuple(int(need) * source.unit for need in needs)
    return Curve(model, name, *reach, budgets, values, error, vary, ignored, source)


def _by_budget(
    model: CMDP, name: str, initial: Fraction, given: Fraction | None, monitor: ResourceMonitor
) -> tuple[_OneSweep, Reach]:
    """Return the values of all limits of a resource that does not saturate, and how far they go."""
    all_of_it = most_spent(model, name, initial, monitor)
    most = all_of_it if given is None else given
    problem = Problem.exact(model, only(model, name, most, initial), monitor=monitor)
    lattice = problem.lattice
    monitor.reserve(8 * len(lattice.cost_OD), "costs in ticks")
    # the amount left at the start is the budget less what has been spent, and must never be negative
    costs, begun = np.ascontiguousarray(lattice.cost_OD[:, 0]), int(lattice.initial_D[0])
    resource = SingleResource(costs, np.zeros(model.horizon, np.int64))
    high = int(most // lattice.units[0]) - begun
    bounds = FrontierBounds(problem.model, resource, monitor, start_low=None, start_high=high)
    return _OneSweep(problem, resource, build(bounds, monitor), -begun, None), Reach(most, most >= all_of_it)


def _by_size(model: CMDP, name: str, initial: Fraction, given: Fraction | None, run: Run) -> tuple[_BySize, Reach]:
    """Return the values of all limits of a resource that saturates, and how far they go."""
    monitor = run.monitor
    trial = SizedProblem(Problem.exact(model, only(model, name, initial, initial), monitor=monitor))
    all_of_it = trial.most_spent(monitor) * trial.problem.lattice.units[0]
    most = all_of_it if given is None else given
    sized = SizedProblem(Problem.exact(model, only(model, name, most, initial), monitor=monitor))
    values = values_by_size(sized, int(most // sized.problem.lattice.units[0]), monitor, run.engine)
    return _BySize(sized, values), Reach(most, most >= all_of_it)


def _by_remaining(
    model: CMDP, name: str, limit: Fraction, given: Fraction | None, monitor: ResourceMonitor
) -> tuple[_OneSweep, Reach]:
    """Return the values for all amounts that remain of a limit, and how far they go."""
    reach = reach_of_remaining(model, name, limit, given, monitor)
    problem = Problem.exact(model, only(model, name, limit, limit - reach.most), monitor=monitor)
    resource = SingleResource.of(problem.lattice)
    shift, between = divmod(-limit, problem.lattice.units[0])
    if between:  # only if no unit of 64 bits divides the limit too
        raise LatticeOverflowError(
            f"resource {name!r}: expected a limit that is a multiple of {format_amount(problem.lattice.units[0])}, the "
            f"unit of its costs, found {format_amount(limit)}; give the limit fewer digits"
        )
    # less than nothing remains only if the limit was exceeded before, which a curve need not show
    bounds = FrontierBounds(problem.model, resource, monitor, start_low=shift, start_high=resource.initial_left)
    return _OneSweep(problem, resource, build(bounds, monitor), shift, limit), reach


def _error(problem: Problem, found: Frontier) -> float:
    """Return a bound on the difference between any value at the start and the optimum for its budget."""
    if not len(found.start_value):
        return 0.0
    rounding = problem.rounding(pooled=found.pooled)
    least = float(found.start_value[0])
    return max(found.above(least, rounding), found.extremes.below(least, rounding) + found.start_error)
