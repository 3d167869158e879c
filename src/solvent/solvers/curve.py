"""`frontier`: the optimal value for every budget of one resource, from a single solve."""

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
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.model.lattice import Lattice
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.frontier.bounds import FrontierBounds, settled_need
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.following import follow_policy
from solvent.solvers.frontier.frontier import Frontier
from solvent.solvers.frontier.resource import SingleResource
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
        The largest budget the curve covers, unless `flat_beyond`.
    flat_beyond : bool
        Whether no policy can spend more than `max_budget`, so that the curve is constant beyond it.
    budgets : tuple of Fraction
        The budgets at which the value rises, beginning with the least feasible budget; empty if no budget is feasible.
    values : ndarray of float64
        The optimal value from each of these budgets on, as computed.
    error : float
        Bound on the difference between any value and the optimum. Includes all rounding errors and tolerances.
    """

    model: CMDP
    resource: str
    max_budget: Fraction
    flat_beyond: bool
    budgets: tuple[Fraction, ...]
    values: NDArray[np.float64]
    error: float
    _problem: Problem = field(repr=False)
    _resource: SingleResource = field(repr=False)
    _frontier: Frontier = field(repr=False)

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
        return self._frontier.value(self._ticks(budget))

    def marginal(self, budget: Number, extra: Number = 1) -> float:
        """Return the value of `extra` additional budget: `value(budget + extra) - value(budget)`."""
        total = exact(budget, "budget") + exact(extra, "extra")
        now, more = self.value(budget), self.value(as_typed(total))
        return 0.0 if now == more else more - now

    def policy(self, budget: Number) -> AugmentedPolicy:
        """Return the optimal policy for a budget.

        Raises
        ------
        SolventError
            If no policy is feasible with this budget.
        """
        left = self._ticks(budget)
        if self._frontier.value(left) == -np.inf:
            hint = (
                f"no budget up to {format_amount(self.max_budget)} is feasible"
                if self.least_budget is None
                else f"the least feasible budget is {format_amount(self.least_budget)}"
            )
            raise SolventError(f"no policy is feasible with a budget of {quote(budget)} of {self.resource}: {hint}")
        used = follow_policy(self._problem.model, self._resource, self._frontier, left).used
        limits = _only(self.model, self.resource, exact(budget, "budget"))
        layers = [
            (state, (left - need)[:, None], action) for state, need, action in self._frontier.layers(self.model, used)
        ]
        return AugmentedPolicy.from_nodes(
            self.model, self._problem.lattice, limits, layers=layers, lookup=self._resource.lookup
        )

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

    def _ticks(self, budget: Number) -> int:
        amount = exact(budget, "budget")
        if amount > self.max_budget:
            if not self.flat_beyond:
                raise BudgetError(
                    f"budget of {self.resource}", f"at most {format_amount(self.max_budget)}", quote(budget),
                    "compute the curve with a larger max_budget",
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
    """Compute the optimal value and policy for every budget of one resource at once.

    The budget is an anytime limit: the amount spent must not exceed it after any step.

    Parameters
    ----------
    model : CMDP
    resource : str, optional
        The resource whose budget varies. May be omitted if the model has only one.
    max_budget : number, optional
        The largest budget of interest. By default, the largest amount that any policy can spend.
    ignore_limits : bool
        If the model's own budget has limits that a curve cannot keep, ignore them: limits on other resources, and
        lower, final or step-dependent limits on this one. By default such a model is rejected, because policies of
        the curve could violate these limits.
    time_limit, memory_limit, progress : optional
        As for `solve`.

    Returns
    -------
    Curve

    Raises
    ------
    ModelError
        If the resource does not exist, or the model's own budget has limits that a curve cannot keep.
    LimitError
        If the time or memory limit was reached. No partial curve is returned.

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
            most_spent = _most_spent(model, _only(model, name, Fraction(0)), m)
            most = most_spent if given is None else given
            problem = Problem.exact(model, _only(model, name, most), monitor=m)
            unit = problem.lattice.units[0]
            m.reserve(8 * len(problem.lattice.cost_OD), "costs in ticks")
            # the amount left at the start is the budget, and must never be negative
            costs = np.ascontiguousarray(problem.lattice.cost_OD[:, 0])
            only = SingleResource(costs, np.zeros(model.horizon, np.int64))
            bounds = FrontierBounds(problem.model, only, m, start_low=None, start_high=int(most // unit))
            found = build(bounds, m)
    except LimitReached as reached:
        raise LimitError(f"the curve was not finished: {reached}; raise the limit or lower max_budget") from None
    budgets = tuple(int(need) * unit for need in found.start_need)
    error = _error(problem, found)
    return Curve(model, name, most, most >= most_spent, budgets, found.start_value, error, problem, only, found)


def _read_resource(model: CMDP, resource: str | None) -> str:
    if resource is not None:
        return model.resources[model.resource_index(resource)]
    if model.n_resources != 1:
        names = ", ".join(map(quote, model.resources)) or "none"
        raise ModelError("resource", f"one of the model's resources ({names})", "None", "pass resource=...")
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
    """Return limits that consist of an anytime limit on one resource."""
    budgets: dict[str, Any] = dict.fromkeys(model.resources)
    return resolve(model, {**budgets, name: limit})


def _error(problem: Problem, found: Frontier) -> float:
    """Return a bound on the difference between any value at the start and the optimum for its budget."""
    if not len(found.start_value):
        return 0.0
    rounding = problem.rounding(pooled=found.pooled)
    least = float(found.start_value[0])
    return max(found.above(least, rounding), found.extremes.below(least, rounding))


def _most_spent(model: CMDP, limits: Limits, monitor: ResourceMonitor) -> Fraction:
    """Return the largest amount that any policy can have spent after any step; a larger budget makes no difference."""
    with monitor.borrowed(24 * model.n_outcomes, "costs in ticks"):
        lattice = Lattice.fit(model, limits, monitor)
        settled = settled_need(model, np.ascontiguousarray(lattice.cost_OD[:, 0]), monitor)
    return max(settled, 0) * lattice.units[0]
