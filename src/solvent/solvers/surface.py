"""Surfaces: the optimal value for every combination of budgets of several resources.

The value never decreases in any budget. It is known where it is known on the *efficient* budgets, those of which no
part can be given up without loss:

    V(b) = max { V(e) : e <= b efficient },   e is efficient if V(e - one tick of any resource) < V(e).

The least efficient budgets form the Pareto front of feasible ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import Number, common_unit, exact
from solvent.core.frames import import_pandas
from solvent.errors import BudgetError, LatticeOverflowError, SolventError, did_you_mean, printable, quote
from solvent.model.amounts import format_amount, short_amount
from solvent.model.budget import Budget, Limits, resolve
from solvent.model.cmdp import CMDP
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.base import Run
from solvent.solvers.curve import Curve
from solvent.solvers.problem import Problem
from solvent.solvers.surface_sweep import Axis, sweep_surface
from solvent.solvers.varied import Reach, most_spent, reach_of_remaining, solved

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Budgets of a surface as users state them: by resource, or in the order of its resources.
BudgetsLike = Mapping[str, Number] | Sequence[Number]


@dataclass(frozen=True, eq=False)
class Surface:
    """The optimal value as a function of the budgets of several resources; it never decreases in any of them.

    Attributes
    ----------
    model : CMDP
    resources : tuple of str
        The resources whose budgets vary.
    max_budget : dict of Fraction by resource
        The largest budgets that the surface covers, unless `flat_beyond`.
    flat_beyond : dict of bool by resource
        Whether no policy can spend more than `max_budget` of a resource, so that larger budgets make no difference.
    table : ndarray of float64, one dimension per resource
        The optimal value of all budgets that can make a difference, as computed; minus infinity where no policy is
        feasible. `amounts` returns the budgets along each dimension.
    error : float
        Bound on the difference between any value and the optimum. Includes all rounding errors and tolerances.
    vary : {"budget", "remaining"}
        What the budgets of the surface are: limits, or amounts that remain of fixed limits before the first step.
    fixed_limits : dict of Budget by resource
        Limits on other resources that all policies of the surface keep.
    ignored_limits : tuple of str
        Limits of the model's own budget that the surface does not keep.
    """

    model: CMDP
    resources: tuple[str, ...]
    max_budget: Mapping[str, Fraction]
    flat_beyond: Mapping[str, bool]
    table: NDArray[np.float64]
    error: float
    vary: str
    fixed_limits: Mapping[str, Budget]
    ignored_limits: tuple[str, ...]
    _axes: tuple[Axis, ...] = field(repr=False)
    _start: Start = field(repr=False)

    def value(self, budget: BudgetsLike) -> float:
        """Return the optimal value for a budget of each resource; minus infinity if they are infeasible.

        Parameters
        ----------
        budget : dict of numbers by resource, or sequence of numbers
            A sequence has the order of `resources`.

        Raises
        ------
        BudgetError
            If a budget is missing, or exceeds `max_budget` unless `flat_beyond`.
        """
        return self._value(self._read(budget))

    def marginal(self, budget: BudgetsLike, extra: Number | Mapping[str, Number] = 1) -> dict[str, float]:
        """Return the value of additional budget of each resource alone.

        Parameters
        ----------
        budget : dict of numbers by resource, or sequence of numbers
        extra : number, or dict of numbers by resource
            Additional budget. With a dict, only its resources are in the result.

        Returns
        -------
        dict of float by resource
            Infinity if the budgets are feasible only with the additional one.
        """
        amounts = self._read(budget)
        now, gains = self._value(amounts), {}
        asked = extra if isinstance(extra, Mapping) else dict.fromkeys(self.resources, extra)
        for name, more in asked.items():
            i = self._axes.index(self._axis(name, "extra"))
            total = self._checked(name, amounts[i] + exact(more, "extra"))
            value = self._value((*amounts[:i], total, *amounts[i + 1 :]))
            gains[name] = 0.0 if value == now else value - now
        return gains

    def policy(self, budget: BudgetsLike) -> AugmentedPolicy:
        """Return the optimal policy for a budget of each resource, by one more solve.

        Raises
        ------
        SolventError
            If no policy is feasible with these budgets.
        """
        amounts = self._read(budget)
        if self._value(amounts) == -np.inf:
            given = ", ".join(f"{format_amount(a)} of {name}" for name, a in zip(self.resources, amounts, strict=True))
            raise SolventError(f"no policy is feasible with budgets of {given}: {self._remedy(amounts)}")
        try:
            problem = Problem.exact(self.model, self._start.limits(self.model, self.resources, amounts))
        except LatticeOverflowError:
            # an amount between two ticks, or beyond the surface, is as good as the one below it
            below = tuple(axis.amount(axis.index(a)) for axis, a in zip(self._axes, amounts, strict=True))
            problem = Problem.exact(self.model, self._start.limits(self.model, self.resources, below))
        return solved(problem)

    def curve(self, resource: str, at: Mapping[str, Number]) -> Curve:
        """Return a cut through the surface: the budget of one resource varies.

        Parameters
        ----------
        resource : str
        at : dict of numbers by resource
            Budgets of all other resources of the surface.

        Returns
        -------
        Curve
        """
        axis = self._axis(resource)
        fixed = self._fixed(at, (resource,))
        line = self._part((resource,), fixed)
        rises = np.flatnonzero(line > np.append(-np.inf, line[:-1]))
        budgets = tuple(axis.amount(i) for i in rises.tolist())
        others = {other: Budget(self._start.limit(other, amount)) for other, amount in fixed.items()}
        return Curve(
            self.model, resource, self.max_budget[resource], self.flat_beyond[resource], budgets, line[rises],
            self.error, self.vary, self.ignored_limits, _Cut(self, axis, fixed, line), {**self.fixed_limits, **others},
        )  # fmt: skip

    def amounts(self, resource: str) -> tuple[Fraction, ...]:
        """Return the budgets of a resource that `table` distinguishes, in increasing order.

        A budget between two of them is as good as the smaller one, and one beyond the last as good as the last.
        """
        axis = self._axis(resource)
        return tuple(axis.amount(i) for i in range(axis.size))

    @cached_property
    def least_budgets(self) -> tuple[tuple[Fraction, ...], ...]:
        """The Pareto front of feasible budgets, each in the order of `resources`.

        A combination of budgets is feasible if and only if each is at least that of one element. Empty if no
        combination up to `max_budget` is feasible.
        """
        feasible = self.table > -np.inf
        least = feasible.copy()
        for d in range(feasible.ndim):
            least[_from(1, d)] &= ~feasible[_to(-1, d)]
        return self._budgets_at(np.argwhere(least))

    @cached_property
    def budgets(self) -> tuple[tuple[Fraction, ...], ...]:
        """The efficient budgets, each in the order of `resources`: with less of any one, the value is lower.

        The value of any combination of budgets is the largest value of an element up to it.
        """
        return self._budgets_at(self._efficient)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The optimal value of each of `budgets`, as computed."""
        values: NDArray[np.float64] = self.table[tuple(self._efficient.T)]
        return values

    @cached_property
    def _efficient(self) -> NDArray[np.intp]:
        """Indices of the efficient budgets in the table, shape (N, D)."""
        rises = self.table > -np.inf
        for d in range(rises.ndim):
            rises[_from(1, d)] &= self.table[_from(1, d)] > self.table[_to(-1, d)]
        return np.argwhere(rises)

    def to_frame(self, *, every: bool = False) -> Any:
        """Return budgets and values as a pandas DataFrame, one row per efficient combination of budgets.

        The columns are `budget_` and the name of each resource, and `value`. Amounts are integers if the unit is an
        integer, else floats.

        Parameters
        ----------
        every : bool
            If True, return a row for every entry of `table`, with a value of minus infinity where no policy is
            feasible.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        pd = import_pandas()
        at = np.indices(self.table.shape).reshape(self.table.ndim, -1).T if every else self._efficient
        columns: dict[str, Any] = {}
        for d, axis in enumerate(self._axes):
            ticks, unit = at[:, d] + axis.low, axis.unit
            whole = ticks * unit.numerator
            columns[f"budget_{axis.name}"] = whole if unit.denominator == 1 else whole / unit.denominator
        columns["value"] = self.table.ravel() if every else self.values
        return pd.DataFrame(columns)

    def plot(
        self, ax: Axes | None = None, *, at: Mapping[str, Number] | None = None, budget: BudgetsLike | None = None
    ) -> Axes:
        """Plot the surface as a map of two budgets and return the Matplotlib axes; see `solvent.plot.surface`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; a new figure if not given.
        at : dict of numbers by resource, optional
            Budgets of all resources but two, if the surface has more.
        budget : dict of numbers by resource, or sequence of numbers, optional
            Budgets to mark.
        """
        from solvent.plot.surfaces import surface as draw

        return draw(self, ax, at=at, budget=budget)

    def __len__(self) -> int:
        return len(self._efficient)

    def __repr__(self) -> str:
        ends = ", ".join(f"{printable(name)} up to {short_amount(self.max_budget[name])}" for name in self.resources)
        count = len(self.least_budgets)
        least = f"{count} least budget{'s' * (count > 1)}" if count else "infeasible"
        return f"Surface({ends}, {len(self)} points, {least})"

    def _repr_html_(self) -> str:
        from solvent.solvers.display import surface_card

        return surface_card(self)

    def section(self, names: Sequence[str], at: Mapping[str, Number]) -> NDArray[np.float64]:
        """Return the part of `table` in which only some resources vary, in their given order.

        Parameters
        ----------
        names : sequence of str
            Resources that vary.
        at : dict of numbers by resource
            Budgets of all other resources of the surface.
        """
        return self._part(names, self._fixed(at, names))

    def _part(self, names: Sequence[str], fixed: Mapping[str, Fraction]) -> NDArray[np.float64]:
        """Return the values of all budgets of some resources, given those of the others."""
        kept = [axis.name for axis in self._axes if axis.name not in fixed]
        index = [axis.index(fixed[axis.name]) if axis.name in fixed else slice(None) for axis in self._axes]
        if any(isinstance(i, int) and i < 0 for i in index):
            sizes = {axis.name: axis.size for axis in self._axes}
            return np.full([sizes[name] for name in names], -np.inf)
        part: NDArray[np.float64] = self.table[tuple(index)].transpose([kept.index(name) for name in names])
        return part

    def _budgets_at(self, index_ND: NDArray[np.intp]) -> tuple[tuple[Fraction, ...], ...]:
        columns = [_amounts(axis, index) for axis, index in zip(self._axes, index_ND.T, strict=True)]
        return tuple(zip(*columns, strict=True))

    def _value(self, amounts: tuple[Fraction, ...]) -> float:
        index = tuple(axis.index(a) for axis, a in zip(self._axes, amounts, strict=True))
        return float(self.table[index]) if min(index) >= 0 else -np.inf

    def _read(self, budget: Any) -> tuple[Fraction, ...]:
        """Return a budget of each resource, in the order of `resources`."""
        if isinstance(budget, Mapping):
            for name in budget:
                self._axis(name, "budget")
            missing = [name for name in self.resources if name not in budget]
            if missing:
                raise BudgetError("budget", f"a budget of {quote(missing[0])}", "none", "a surface needs one of each")
            listed = [budget[name] for name in self.resources]
        elif isinstance(budget, Sequence | np.ndarray) and not isinstance(budget, str | bytes):
            listed = list(budget)
        else:
            listed = []
        if len(listed) != len(self.resources):
            names = ", ".join(map(quote, self.resources))
            raise BudgetError("budget", f"a budget of each of {names}, by name or in this order", quote(budget))
        pairs = zip(self.resources, listed, strict=True)
        return tuple(self._checked(name, exact(amount, f"budget of {name}")) for name, amount in pairs)

    def _checked(self, name: str, amount: Fraction) -> Fraction:
        """Return an amount of a resource if the surface covers it."""
        if self.vary == "remaining" and amount < 0:
            hint = "solve(model, budget, spent=...) takes amounts beyond the limit"
            raise BudgetError(f"{name} remaining", "at least 0", format_amount(amount), hint)
        if amount > self.max_budget[name] and not self.flat_beyond[name]:
            most = f"at most {format_amount(self.max_budget[name])}"
            hint = "compute the surface with a larger max_budget"
            raise BudgetError(f"budget of {name}", most, format_amount(amount), hint)
        return amount

    def _axis(self, name: str, where: str = "resource") -> Axis:
        """Return the axis of a resource."""
        for axis in self._axes:
            if axis.name == name:
                return axis
        known = ", ".join(map(quote, self.resources))
        hint = did_you_mean(name, self.resources)
        raise BudgetError(where, f"a resource of the surface ({known})", quote(name), hint)

    def _fixed(self, at: Any, free: Sequence[str]) -> dict[str, Fraction]:
        """Return the budgets of all resources that are not free, which `at` has to give."""
        others = [name for name in self.resources if name not in free]
        if not isinstance(at, Mapping) or set(at) != set(others):
            names = ", ".join(map(quote, others)) or "no other resource"
            raise BudgetError("at", f"a budget of each of {names}" if others else "no budgets", quote(at))
        return {name: self._checked(name, exact(at[name], f"at, {name}")) for name in others}

    def _remedy(self, amounts: tuple[Fraction, ...]) -> str:
        """Return what more of one resource would make budgets feasible, or which budgets are."""
        if not self.least_budgets:
            return "no budgets up to the largest are feasible"
        needs = []
        for axis in self._axes:
            pairs = zip(self.resources, amounts, strict=True)
            line = self._part((axis.name,), {name: amount for name, amount in pairs if name != axis.name})
            if line[-1] > -np.inf:
                least = axis.amount(int(np.argmax(line > -np.inf)))
                needs.append(f"{format_amount(least)} of {axis.name}")
        if needs:
            return f"with the others as they are, {' or '.join(needs)} is enough"
        first = zip(self.resources, self.least_budgets[0], strict=True)
        return f"feasible are, for example, {', '.join(f'{format_amount(a)} of {name}' for name, a in first)}"


@dataclass(frozen=True)
class Start:
    """What holds before the first step, and the limits that do not vary.

    Attributes
    ----------
    spent : dict of Fraction by resource
        What has been spent; of resources that vary, only if their limits vary.
    limits_of_remaining : dict of Fraction by resource, or None
        The limits of which a part remains; None if the limits vary.
    fixed : dict of Budget by resource
        Limits of the other resources.
    """

    spent: Mapping[str, Fraction]
    limits_of_remaining: Mapping[str, Fraction] | None
    fixed: Mapping[str, Budget]

    def limit(self, name: str, amount: Fraction) -> Fraction:
        """Return the limit of a resource that varies, given its budget."""
        return amount if self.limits_of_remaining is None else self.limits_of_remaining[name]

    def limits(self, model: CMDP, names: Sequence[str], amounts: Sequence[Fraction]) -> Limits:
        """Return the limits and the amounts spent before the first step, given budgets of resources."""
        budgets: dict[str, Any] = {**dict.fromkeys(model.resources), **self.fixed}
        spent = {name: model.resource(name).clamp(Fraction(0)) for name in model.resources} | dict(self.spent)
        for name, amount in zip(names, amounts, strict=True):
            budgets[name] = self.limit(name, amount)
            if self.limits_of_remaining is not None:
                spent[name] = self.limits_of_remaining[name] - amount
        return resolve(model, budgets, spent)


@dataclass(frozen=True)
class _Cut:
    """Values and policies of a curve that is a cut through a surface: the source of a `Curve`.

    Attributes
    ----------
    surface : Surface
    axis : Axis
        Of the resource that varies.
    fixed : dict of Fraction by resource
        Budgets of the others.
    line : ndarray of float64
        The values along the axis.
    """

    surface: Surface
    axis: Axis
    fixed: Mapping[str, Fraction]
    line: NDArray[np.float64]

    @property
    def unit(self) -> Fraction:
        return self.axis.unit

    def value(self, ticks: int) -> float:
        at = min(ticks - self.axis.low, self.axis.size - 1)
        return float(self.line[at]) if at >= 0 else -np.inf

    def policy(self, ticks: int, amount: Fraction) -> AugmentedPolicy:
        return self.surface.policy({**self.fixed, self.axis.name: amount})


def surface_of(
    model: CMDP,
    names: tuple[str, ...],
    given: Mapping[str, Fraction],
    vary: str,
    start: Start,
    ignored: tuple[str, ...],
    run: Run,
) -> Surface:
    """Compute a surface; the arguments of `frontier` have been read.

    Parameters
    ----------
    model : CMDP
    names : tuple of str
        The resources that vary.
    given : mapping of Fraction by resource
        The largest amounts of interest, where they are known.
    vary : {"budget", "remaining"}
    start : Start
    ignored : tuple of str
        Limits that the surface does not keep, as text.
    run : Run

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    monitor = run.monitor
    reaches = {}
    for name in names:
        if start.limits_of_remaining is None:
            all_of_it = most_spent(model, name, start.spent[name], monitor)
            largest = given.get(name, all_of_it)
            reaches[name] = Reach(largest, largest >= all_of_it)
        else:
            limit = start.limits_of_remaining[name]
            reaches[name] = reach_of_remaining(
                model, name, limit, given.get(name), monitor, where=f"max_budget, {name}"
            )
    # amounts between two multiples of the unit of costs make no difference
    most = {
        name: reach.most // _unit(model, start, name) * _unit(model, start, name) for name, reach in reaches.items()
    }
    limits = start.limits(model, names, [most[name] for name in names])
    problem = Problem.exact(model, limits, monitor=monitor)
    remaining = start.limits_of_remaining
    origins = {name: start.spent[name] + most[name] if remaining is None else remaining[name] for name in names}
    found = sweep_surface(problem, origins, run, from_zero=remaining is not None)
    found.table.flags.writeable = False
    return Surface(
        model, names, {name: reach.most for name, reach in reaches.items()},
        {name: reach.flat for name, reach in reaches.items()}, found.table, found.error, vary, start.fixed, ignored,
        found.axes, start,
    )  # fmt: skip


def _unit(model: CMDP, start: Start, name: str) -> Fraction:
    """Return the greatest amount that divides all costs of a resource and all other amounts that do not vary."""
    column, resource = model.cost[model.resource_index(name)], model.resource(name)
    fixed = start.spent.get(name) if start.limits_of_remaining is None else start.limits_of_remaining[name]
    costs = [column.unit] if column.ticks.any() else []
    return common_unit([*costs, *(amount for amount in (fixed, resource.floor, resource.ceiling) if amount)])


def _amounts(axis: Axis, index: NDArray[np.intp]) -> list[Fraction]:
    """Return the budgets at indices, each made once."""
    used, place = np.unique(index, return_inverse=True)
    made = [axis.amount(i) for i in used.tolist()]
    return [made[i] for i in place.ravel().tolist()]


def _from(begin: int, d: int) -> tuple[slice, ...]:
    return (slice(None),) * d + (slice(begin, None),)


def _to(end: int, d: int) -> tuple[slice, ...]:
    return (slice(None),) * d + (slice(None, end),)
