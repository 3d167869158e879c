"""`frontier`: the optimal value for every budget of one resource.

Two amounts can vary: the limit (`vary="budget"`: how large should the tank be?), or what remains of it before the first
step (`vary="remaining"`: how full must the tank be?). If the resource does not saturate, these are the same, and one
frontier has all values. If it does, what remains still takes one frontier, and each limit is a problem of its own
(`solvent.solvers.frontier.sizes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import Number, exact
from solvent.core.interrupt import held_back
from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.core.progress import ProgressLike, open_progress
from solvent.errors import BudgetError, LatticeOverflowError, LimitError, ModelError, SolventError, printable, quote
from solvent.model.amounts import as_typed, format_amount
from solvent.model.budget import BudgetLike, Limits, SpentLike, read_budgets, read_spent, resolve
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.model.lattice import Lattice
from solvent.policy.nodes import run_lookup
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.base import Run
from solvent.solvers.choice import solve_problem
from solvent.solvers.frontier.bounds import FrontierBounds, settled_need
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.following import follow_policy
from solvent.solvers.frontier.frontier import Frontier
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.frontier.sizes import SizedProblem, SizeValues, values_by_size
from solvent.solvers.problem import Problem
from solvent.solvers.registry import AUTO

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What `frontier` can vary, with a summary each.
VARIED = {
    "budget": "the limit",
    "remaining": "what remains of a fixed limit before the first step",
}


class _Source(Protocol):
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
                problem = Problem.exact(model, _only(model, name, self.limit, self.limit - amount))
            except LatticeOverflowError:
                # an amount between two ticks, or beyond the curve, is as good as the one below it
                problem = Problem.exact(model, _only(model, name, self.limit, self.limit - ticks * self.unit))
            return _solved(problem)
        left = ticks + self.shift
        used = follow_policy(self.problem.model, self.resource, self.frontier, left, origin=ticks).used
        # nothing is left when the whole budget is spent
        layers = [(state, (ticks - need)[:, None], action) for state, need, action in self.frontier.layers(model, used)]
        lattice, limits = self.problem.lattice, _only(model, name, amount, self.problem.limits.initial[0])
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
        return _solved(self.sized.at(ticks, amount))


def _solved(problem: Problem) -> AugmentedPolicy:
    """Return the optimal policy of a problem that is feasible."""
    answer = solve_problem(problem, AUTO, Run(ResourceMonitor()))
    assert answer.make_policy is not None
    return answer.make_policy()


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
    _source: _Source = field(repr=False)

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
        ticks = self._ticks(budget)
        if self._source.value(ticks) == -np.inf:
            hint = (
                f"no budget up to {format_amount(self.max_budget)} is feasible"
                if self.least_budget is None
                else f"the least feasible budget is {format_amount(self.least_budget)}"
            )
            raise SolventError(f"no policy is feasible with a budget of {quote(budget)} of {self.resource}: {hint}")
        return self._source.policy(ticks, exact(budget, "budget"))

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


def frontier(
    model: CMDP,
    resource: str | None = None,
    max_budget: Number | None = None,
    *,
    vary: str = "budget",
    budget: BudgetLike | None = None,
    spent: SpentLike | None = None,
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
        The largest budget of interest. By default, the largest amount that any policy can spend or, if `vary` is
        "remaining" and the resource has a floor, what remains there: a full tank.
    vary : {"budget", "remaining"}
        What varies: the limit ("budget"), or what remains of a fixed limit before the first step ("remaining").
        The two differ only for a resource that saturates.
    budget : number, Budget, or dict of them by resource, optional
        With `vary="remaining"`, the fixed limit of the resource; the model's own if not given.
    spent : number, or dict of numbers by resource, optional
        With `vary="budget"`, what has been spent before the first step. Default: nothing.
    ignore_limits : bool
        If the model's own budget has limits that a curve cannot keep, ignore them: limits on other resources, and
        lower, final or step-dependent limits on this one. By default such a model is rejected, because policies of
        the curve could violate these limits. `Curve.ignored_limits` lists them.
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

    Notes
    -----
    For a resource without a floor or a ceiling, the curve takes one solve. The same holds for `vary="remaining"`. For
    the limit of a resource that saturates, it takes one or two solves for most budgets at which the value rises; they
    run on all cores.

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
    _check_varied(vary, budget, spent)
    own = model.budget if budget is None else read_budgets(budget, model.resources, model.horizon)
    ignored = _other_limits(own or {}, name)
    if ignored and not ignore_limits:
        raise ModelError(
            "frontier",
            f"a model whose own budget is one anytime limit on {name}, or none",
            ignored[0],
            "use solve(model, budget) for single budgets, which keeps it; with ignore_limits=True, policies of the "
            "curve can break it",
        )
    hint = "for single budgets, solve with gap=0.01, which accepts continuous costs and never exceeds the budget"
    expected = "costs of finite support, which a curve needs"
    model.refuse_continuous(model.resource_index(name), expected, hint, "frontier, ")
    given = None if max_budget is None else exact(max_budget, "max_budget")
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    try:
        with (
            held_back(),
            open_progress(progress) as bar,
            ResourceMonitor(seconds, memory, bar) as m,
        ):
            source: _OneSweep | _BySize
            if vary == "remaining":
                source, most, flat = _by_remaining(model, name, own, given, m)
            elif model.resource(name).saturates:
                source, most, flat = _by_size(model, name, read_spent(model, spent)[name], given, m)
            else:
                source, most, flat = _by_budget(model, name, read_spent(model, spent)[name], given, m)
    except LimitReached as reached:
        raise LimitError(f"the curve was not finished: {reached}; raise the limit or lower max_budget") from None
    if isinstance(source, _BySize):
        needs, values, error = source.values.need, source.values.value, source.values.error
    else:
        found = source.frontier
        needs, values, error = found.start_need - source.shift, found.start_value, _error(source.problem, found)
    budgets = tuple(int(need) * source.unit for need in needs)
    return Curve(model, name, most, flat, budgets, values, error, vary, ignored, source)


def _by_budget(
    model: CMDP, name: str, initial: Fraction, given: Fraction | None, monitor: ResourceMonitor
) -> tuple[_OneSweep, Fraction, bool]:
    """Return the values of all limits of a resource that does not saturate, the largest limit, and if that is all."""
    most_spent = _most_spent(model, _only(model, name, Fraction(0), initial), monitor)
    most = most_spent if given is None else given
    problem = Problem.exact(model, _only(model, name, most, initial), monitor=monitor)
    lattice = problem.lattice
    monitor.reserve(8 * len(lattice.cost_OD), "costs in ticks")
    # the amount left at the start is the budget less what has been spent, and must never be negative
    costs, begun = np.ascontiguousarray(lattice.cost_OD[:, 0]), int(lattice.initial_D[0])
    only = SingleResource(costs, np.zeros(model.horizon, np.int64))
    high = int(most // lattice.units[0]) - begun
    bounds = FrontierBounds(problem.model, only, monitor, start_low=None, start_high=high)
    return _OneSweep(problem, only, build(bounds, monitor), -begun, None), most, most >= most_spent


def _by_size(
    model: CMDP, name: str, initial: Fraction, given: Fraction | None, monitor: ResourceMonitor
) -> tuple[_BySize, Fraction, bool]:
    """Return the values of all limits of a resource that saturates, the largest limit, and if that is all."""
    trial = SizedProblem(Problem.exact(model, _only(model, name, initial, initial), monitor=monitor))
    most_spent = trial.most_spent(monitor) * trial.problem.lattice.units[0]
    most = most_spent if given is None else given
    sized = SizedProblem(Problem.exact(model, _only(model, name, most, initial), monitor=monitor))
    values = values_by_size(sized, int(most // sized.problem.lattice.units[0]), monitor)
    return _BySize(sized, values), most, most >= most_spent


def _by_remaining(
    model: CMDP, name: str, own: Any, given: Fraction | None, monitor: ResourceMonitor
) -> tuple[_OneSweep, Fraction, bool]:
    """Return the values for all amounts that remain of a limit, the largest such amount, and if that is all."""
    limit = None if own is None else own[name].upper
    if not isinstance(limit, Fraction):
        found = "none" if own is None else repr(own[name])
        raise BudgetError("frontier", f"a limit of {name}, of which a part remains", found, "pass budget=...")
    r = model.resource_index(name)
    floor, ceiling = model.floors[r], model.ceilings[r]
    if ceiling is not None and ceiling <= limit:
        found = repr(model.resource(name))
        raise ModelError("frontier", f"no ceiling of {name} up to its limit of {as_typed(limit)}", found)
    if floor is not None and limit < floor:
        raise BudgetError(
            "frontier", f"a limit of {name} of at least its floor, {as_typed(floor)}", str(as_typed(limit))
        )
    full = None if floor is None else limit - floor
    trial = _only(model, name, Fraction(0), model.resource(name).clamp(Fraction(0)))
    most = given if given is not None else full if full is not None else _most_spent(model, trial, monitor)
    if most < 0:
        raise BudgetError("max_budget", "at least 0, as less than nothing cannot remain", format_amount(most))
    if full is not None and most > full:
        hint = "that remains at the floor; the amount spent is never less"
        raise BudgetError("max_budget", f"at most {format_amount(full)}", format_amount(most), hint)
    problem = Problem.exact(model, _only(model, name, limit, limit - most), monitor=monitor)
    resource = SingleResource.of(problem.lattice)
    shift, between = divmod(-limit, problem.lattice.units[0])
    if between:  # only if no unit of 64 bits divides the limit too
        raise LatticeOverflowError(
            f"resource {name!r}: expected a limit that is a multiple of {format_amount(problem.lattice.units[0])}, the "
            f"unit of its costs, found {format_amount(limit)}; give the limit fewer digits"
        )
    # less than nothing remains only if the limit was exceeded before, which a curve need not show
    bounds = FrontierBounds(problem.model, resource, monitor, start_low=shift, start_high=resource.initial_left)
    flat = floor is None and most >= _most_spent(model, trial, monitor)
    return _OneSweep(problem, resource, build(bounds, monitor), shift, limit), most, flat


def _check_varied(vary: Any, budget: Any, spent: Any) -> None:
    if vary not in VARIED:
        raise ModelError("vary", f"one of {', '.join(VARIED)}", quote(vary))
    if vary == "budget" and budget is not None:
        raise ModelError("budget", 'vary="remaining" with it', 'vary="budget"', "pass max_budget=... for the largest")
    if vary == "remaining" and spent is not None:
        raise ModelError("spent", 'vary="budget" with it', 'vary="remaining", which varies it')


def _read_resource(model: CMDP, resource: str | None) -> str:
    if resource is not None:
        return model.resources[model.resource_index(resource)]
    if model.n_resources != 1:
        names = ", ".join(map(quote, model.resources)) or "none"
        hint = f"pass resource={model.resources[0]!r}" if model.resources else "a curve is about a limited resource"
        raise ModelError("resource", f"one of the model's resources ({names})", "no resource", hint)
    return model.resources[0]


def _other_limits(budgets: Any, name: str) -> tuple[str, ...]:
    """Return the limits of a budget that a curve over the limit of one resource does not keep, as text."""
    ignored = []
    for other, budget in budgets.items():
        if budget.upper is None and budget.lower is None:
            continue
        plain = isinstance(budget.upper, Fraction) and budget.lower is None and not budget.only_final
        if other != name or not plain:
            ignored.append(f"{other}: {budget!r}")
    return tuple(ignored)


def _only(model: CMDP, name: str, limit: Fraction, initial: Fraction) -> Limits:
    """Return limits that consist of an anytime limit on one resource, of which some may have been spent."""
    budgets: dict[str, Any] = dict.fromkeys(model.resources)
    spent = {other: model.resource(other).clamp(Fraction(0)) for other in model.resources if other != name}
    return resolve(model, {**budgets, name: limit}, {**spent, name: initial})


def _error(problem: Problem, found: Frontier) -> float:
    """Return a bound on the difference between any value at the start and the optimum for its budget."""
    if not len(found.start_value):
        return 0.0
    rounding = problem.rounding(pooled=found.pooled)
    least = float(found.start_value[0])
    return max(found.above(least, rounding), found.extremes.below(least, rounding) + found.start_error)


def _most_spent(model: CMDP, limits: Limits, monitor: ResourceMonitor) -> Fraction:
    """Return the largest amount that any policy can have spent after any step; a larger budget makes no difference."""
    with monitor.borrowed(24 * model.n_outcomes, "costs in ticks"):
        lattice = Lattice.fit(model, limits, monitor)
        settled = settled_need(model, np.ascontiguousarray(lattice.cost_OD[:, 0]), monitor)
    return limits.initial[0] + max(settled, 0) * lattice.units[0]
