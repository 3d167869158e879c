"""What varies along curves and surfaces: the limit of a resource, or what remains of it before the first step.

Without saturation only the difference between the limit and the amount spent matters, so that the two are the same. A
resource that saturates distinguishes them: a large tank that is half empty can be filled, a small one that is full
cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from solvent.core.interrupt import held_back
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import BudgetError, LimitError, ModelError, quote
from solvent.model.amounts import as_typed, format_amount
from solvent.model.budget import Budget, Limits, resolve
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.base import Run
from solvent.solvers.choice import solve_problem
from solvent.solvers.frontier.bounds import settled_need
from solvent.solvers.problem import Problem
from solvent.solvers.registry import AUTO

#: What `frontier` can vary, with a summary each.
VARIED = {
    "budget": "the limit",
    "remaining": "what remains of a fixed limit before the first step",
}
_CONTINUOUS = "for single budgets, solve with gap=0.01, which accepts continuous costs and never exceeds the budget"


class Reach(NamedTuple):
    """How far the amounts of one resource go.

    Attributes
    ----------
    most : Fraction
        The largest amount of interest.
    flat : bool
        Whether no policy can spend more, so that larger amounts make no difference.
    """

    most: Fraction
    flat: bool


def check_vary(vary: Any) -> None:
    """Raise a `ModelError` unless `vary` is one of `VARIED`."""
    if vary not in VARIED:
        raise ModelError("vary", f"one of {', '.join(VARIED)}", quote(vary))


def refuse_continuous(model: CMDP, names: Iterable[str], what: str) -> None:
    """Raise a `ModelError` if a resource has continuous costs; `what` is a curve or a surface."""
    for name in names:
        expected = f"costs of finite support, which {what} needs"
        model.refuse_continuous(model.resource_index(name), expected, _CONTINUOUS, "frontier, ")


def is_plain(budget: Budget) -> bool:
    """Return whether a budget is one upper limit after every step, or no limit."""
    no_upper = budget.upper is None
    return budget.lower is None and (no_upper or (isinstance(budget.upper, Fraction) and not budget.only_final))


def is_limited(budget: Budget) -> bool:
    """Return whether a budget has a limit at all."""
    return budget.upper is not None or budget.lower is not None


def only(model: CMDP, name: str, limit: Fraction, initial: Fraction) -> Limits:
    """Return limits that consist of an anytime limit on one resource, of which some may have been spent."""
    budgets: dict[str, Any] = dict.fromkeys(model.resources)
    spent = {other: model.resource(other).clamp(Fraction(0)) for other in model.resources if other != name}
    return resolve(model, {**budgets, name: limit}, {**spent, name: initial})


def most_spent(model: CMDP, name: str, initial: Fraction, monitor: ResourceMonitor) -> Fraction:
    """Return the largest amount that any policy can have spent after any step; a larger budget makes no difference.

    Saturation is ignored.
    """
    with monitor.borrowed(24 * model.n_outcomes, "costs in ticks"):
        lattice = Lattice.fit(model, only(model, name, Fraction(0), initial), monitor)
        settled = settled_need(model, np.ascontiguousarray(lattice.cost_OD[:, 0]), monitor)
    return initial + max(settled, 0) * lattice.units[0]


def limit_of(budgets: Mapping[str, Budget] | None, name: str) -> Fraction:
    """Return the limit of a resource of which a part remains.

    Raises
    ------
    BudgetError
        If there is no upper limit that is the same after every step.
    """
    limit = None if budgets is None else budgets[name].upper
    if not isinstance(limit, Fraction):
        found = "none" if budgets is None else budgets[name].text
        raise BudgetError("frontier", f"a limit of {name}, of which a part remains", found, "pass budget=...")
    return limit


def reach_of_remaining(
    model: CMDP, name: str, limit: Fraction, given: Fraction | None, monitor: ResourceMonitor, where: str = "max_budget"
) -> Reach:
    """Return the largest amount that is to remain of a limit: `given`, or all that can.

    Raises
    ------
    ModelError
        If the resource has a ceiling up to its limit.
    BudgetError
        If the limit is below the floor, or more is given than remains there.
    """
    r = model.resource_index(name)
    floor, ceiling = model.floors[r], model.ceilings[r]
    if ceiling is not None and ceiling <= limit:
        expected = f"no ceiling of {name} up to its limit of {as_typed(limit)}"
        raise ModelError("frontier", expected, model.resource(name).text)
    if floor is not None and limit < floor:
        raise BudgetError(
            "frontier", f"a limit of {name} of at least its floor, {as_typed(floor)}", str(as_typed(limit))
        )
    full = None if floor is None else limit - floor
    all_of_it = most_spent(model, name, model.resource(name).clamp(Fraction(0)), monitor) if full is None else full
    most = all_of_it if given is None else given
    if most < 0:
        raise BudgetError(where, "at least 0, as less than nothing cannot remain", format_amount(most))
    if full is not None and most > full:
        hint = "that remains at the floor; the amount spent is never less"
        raise BudgetError(where, f"at most {format_amount(full)}", format_amount(most), hint)
    return Reach(most, full is None and most >= all_of_it)


def solved(problem: Problem) -> AugmentedPolicy:
    """Return the optimal policy of a problem that is feasible.

    Raises
    ------
    LimitError
        If there is not enough memory.
    """
    try:
        with held_back(), ResourceMonitor() as monitor:
            answer = solve_problem(problem, AUTO, Run(monitor))
            assert answer.make_policy is not None
            return answer.make_policy()
    except LimitReached as reached:
        raise LimitError(f"the policy was not found: {reached}") from None
