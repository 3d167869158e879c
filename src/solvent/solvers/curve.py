"""`frontier`: the optimal value of every budget of one resource, from a single solve."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import Number, exact
from solvent.core.interrupt import held_back
from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.core.progress import ProgressLike, open_progress
from solvent.errors import BudgetError, LimitError, ModelError, SolventError, printable, quote
from solvent.model.amounts import as_typed, format_amount
from solvent.model.budget import Limits, resolve
from solvent.model.cmdp import CMDP, check_model
from solvent.model.lattice import Lattice
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.frontier import frontiers
from solvent.solvers.frontier.following import visit
from solvent.solvers.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Curve:
    """The optimal value as a function of the budget: a non-decreasing step function.

    Attributes
    ----------
    model : CMDP
    resource : str
    max_budget : Fraction
        The largest budget it speaks of; any budget at all, if `flat_beyond`.
    flat_beyond : bool
        Whether more than `max_budget` could never be spent, so that the curve goes on flat.
    budgets : tuple of Fraction
        Where it rises, the first being the least budget that is feasible; empty if none is.
    values : ndarray of float64
        The optimal value from each of them on, as computed.
    error : float
        No value differs from the optimum by more than this: every rounding error and every tolerance is in it.
    """

    model: CMDP
    resource: str
    max_budget: Fraction
    flat_beyond: bool
    budgets: tuple[Fraction, ...]
    values: NDArray[np.float64]
    error: float
    _problem: Problem = field(repr=False)
    _purse: frontiers.Purse = field(repr=False)
    _points: frontiers.Frontier = field(repr=False)

    @property
    def least_budget(self) -> Fraction | None:
        """The least budget with which any policy is feasible; None if none up to `max_budget` is."""
        return self.budgets[0] if self.budgets else None

    def value(self, budget: Number) -> float:
        """Return the optimal value for a budget; minus infinity if it is infeasible.

        Raises
        ------
        BudgetError
            If the budget lies beyond `max_budget`.
        """
        return self._points.value(self._ticks(budget))

    def marginal(self, budget: Number, extra: Number = 1) -> float:
        """Return what `extra` more of the budget would be worth: `value(budget + extra) - value(budget)`."""
        total = exact(budget, "budget") + exact(extra, "extra")
        now, more = self.value(budget), self.value(as_typed(total))
        return 0.0 if now == more else more - now

    def policy(self, budget: Number) -> AugmentedPolicy:
        """Return the optimal policy for a budget.

        Raises
        ------
        SolventError
            If no policy is feasible with it.
        """
        left = self._ticks(budget)
        if self._points.value(left) == -np.inf:
            least = "none is" if self.least_budget is None else f"the least is {format_amount(self.least_budget)}"
            raise SolventError(f"no policy is feasible with a budget of {quote(budget)} of {self.resource}: {least}")
        visited = visit(self._problem.model, self._purse, self._points, left, self._purse.cost, self._purse.cost)
        limits = _only(self.model, self.resource, exact(budget, "budget"))
        layers = [
            (state, (left - need)[:, None], action)
            for state, need, action in self._points.layers(self.model, visited.used)
        ]
        return AugmentedPolicy.from_nodes(self.model, self._problem.lattice, limits, layers=layers, lookup="at_most")

    def plot(self, ax: Axes | None = None, *, budget: Number | None = None) -> Axes:
        """Draw the curve and return the matplotlib Axes; see `solvent.plot.frontier`.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure if not given.
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

    def _ticks(self, budget: Number) -> int:
        amount = exact(budget, "budget")
        if amount > self.max_budget:
            if not self.flat_beyond:
                raise BudgetError(
                    f"budget of {self.resource}", f"at most {format_amount(self.max_budget)}", quote(budget),
                    "make the curve with a larger max_budget",
                )  # fmt: skip
            amount = self.max_budget
        return int(amount // self._problem.lattice.units[0])


def frontier(
    model: CMDP,
    resource: str | None = None,
    max_budget: Number | None = None,
    *,
    ignore_limits: bool = False,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    progress: ProgressLike = False,
) -> Curve:
    """Solve for every budget of one resource at once.

    Parameters
    ----------
    model : CMDP
    resource : str, optional
        Whose budget to vary; the only one, if not given. A curve speaks of one anytime limit on one resource.
    max_budget : number, optional
        The largest budget of interest; what the dearest course could cost, if not given.
    ignore_limits : bool
        Leave out what else the model's own budget demands: limits of other resources, and lower, final or varying ones
        of this. Without, a model that has any is refused, since policies of the curve would break them.
    time_limit, memory_limit : optional
        As for `solve`.
    progress : bool, "log", ProgressSink or callable
        If True, show progress on a terminal or in a notebook; if "log", log it under "solvent.progress". A callable is
        called with phase, done, total and facts.

    Returns
    -------
    Curve

    Raises
    ------
    ModelError
        If there is no such resource, or the model's own budget has limits that a curve cannot keep.
    LimitError
        If a limit of time or memory was reached: there is no part of a curve.

    Examples
    --------
    >>> from solvent.model import instances
    >>> curve = frontier(instances.knapsack([60, 100, 120], [10, 20, 30]))
    >>> curve
    Curve(weight up to 60, 7 points, least budget 0)
    >>> curve.value(50), curve.marginal(50, extra=10)
    (220.0, 60.0)
    """
    check_model(model)
    name = _read_resource(model, resource)
    if not ignore_limits:
        _refuse_other_limits(model, name)
    given = None if max_budget is None else exact(max_budget, "max_budget")
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    try:
        with (
            held_back(),
            open_progress(progress) as bar,
            ResourceMonitor(seconds, memory, bar) as m,
        ):
            dearest = _dearest(model, _only(model, name, Fraction(0)), m)
            most = dearest if given is None else given
            problem = Problem.exact(model, _only(model, name, most), monitor=m)
            lattice = problem.lattice
            floor = np.zeros(model.horizon, np.int64)
            m.reserve(8 * len(lattice.cost_OD), "costs in ticks")
            purse = frontiers.Purse(
                np.ascontiguousarray(lattice.cost_OD[:, 0]), floor, None, int(most // lattice.units[0])
            )
            points = frontiers.build(problem.model, purse, m)
    except LimitReached as reached:
        raise LimitError(f"the curve was not finished: {reached}; raise the limit or lower max_budget") from None
    unit = lattice.units[0]
    budgets = tuple(int(need) * unit for need in points.start_need)
    error = _error(problem, points)
    return Curve(model, name, most, most >= dearest, budgets, points.start_value, error, problem, purse, points)


def _read_resource(model: CMDP, resource: str | None) -> str:
    if resource is not None:
        return model.resources[model.resource_index(resource)]
    if model.n_resources != 1:
        names = ", ".join(map(quote, model.resources)) or "none"
        raise ModelError("resource", f"one of the model's resources ({names})", "none given")
    return model.resources[0]


def _refuse_other_limits(model: CMDP, name: str) -> None:
    for other, budget in (model.budget or {}).items():
        if budget.upper is None and budget.lower is None:
            continue
        plain = isinstance(budget.upper, Fraction) and budget.lower is None and not budget.only_final
        if other != name or not plain:
            raise ModelError(
                "frontier",
                f"a model whose own budget is one anytime limit on {name}, or none",
                f"{other}: {budget!r}",
                "pass ignore_limits=True for the curve without it, or use solve(model, budget) for single budgets",
            )


def _only(model: CMDP, name: str, limit: Fraction) -> Limits:
    """Return the limits of a budget for one resource, the others being free."""
    budgets: dict[str, Any] = dict.fromkeys(model.resources)
    return resolve(model, {**budgets, name: limit})


def _error(problem: Problem, points: frontiers.Frontier) -> float:
    """Return a bound on the distance of any value at the start from the optimum of its budget."""
    if not len(points.start_value):
        return 0.0
    rounding = problem.rounding(pooled=points.pooled)
    least = float(points.start_value[0])
    return max(points.above(least, rounding), points.extremes.below(least, rounding))


def _dearest(model: CMDP, limits: Limits, monitor: ResourceMonitor) -> Fraction:
    """Return the most that any course could ever have spent; no budget beyond it can matter."""
    with monitor.borrowed(24 * model.n_outcomes, "costs in ticks"):
        lattice = Lattice.fit(model, limits, monitor)
        settled = frontiers.settled_need(model, np.ascontiguousarray(lattice.cost_OD[:, 0]), monitor)
    return max(settled, 0) * lattice.units[0]
