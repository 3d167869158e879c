"""The value of other budgets: a curve of `frontier` where there is one, else one solve for each budget.

A resource with one anytime limit has a curve, unless it saturates beside another limited resource. Otherwise each value
is the optimum of a problem of its own, whose upper limits (lower limits, if there are only those) are moved together by
multiples of the unit of costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from solvent.baselines.smaller import as_budget
from solvent.core.exact import Number, exact
from solvent.errors import LatticeOverflowError, LimitError
from solvent.model.amounts import as_typed, format_amount
from solvent.model.budget import Budget, Limits
from solvent.model.cmdp import CMDP
from solvent.policy.table import AugmentedPolicy
from solvent.report.markup import shown
from solvent.report.numbers import amount_text, as_float, finite
from solvent.report.settings import Clock, Settings
from solvent.solvers.curve import Curve
from solvent.solvers.every_budget import frontier
from solvent.solvers.solution import Solution, Stats, Status
from solvent.solvers.solve import solve

#: Positions of a slider.
_MOST_POSITIONS = 240
#: Single solves on each side of the budget.
_MOST_MOVES = 30
#: A curve reaches to this multiple of the budget.
_REACH = 2


@dataclass
class Position:
    """One budget that the slider can show.

    Attributes
    ----------
    amount : Fraction
        The budget, or by how much all limits are moved.
    value : float
        The optimal value; minus infinity if no policy is feasible.
    marginal : float or None
        The gain of `BudgetValues.extra` more, as `Curve.marginal` defines it; None if that is unknown or nothing is
        feasible.
    rise : tuple of Fraction and float, or None
        The next larger budget with a larger value, and that value.
    plan : int or None
        Number of its plan on the page.
    """

    amount: Fraction
    value: float
    marginal: float | None = None
    rise: tuple[Fraction, float] | None = None
    plan: int | None = None


@dataclass
class BudgetValues:
    """Values of other budgets of one resource.

    Attributes
    ----------
    resource : str
    moved : bool
        Whether amounts are changes of all limits, and not budgets.
    positions : list of Position
        By increasing amount.
    marked : int
        The position of the budget of the solution.
    extra : Fraction
        The additional budget of marginal values.
    is_complete : bool
        Whether the value of each amount between two positions is that of the lower one.
    note : str
        What to know about the curve; may be empty.
    policy_at : callable
        Returns the policy of an amount.
    """

    resource: str
    moved: bool
    positions: list[Position]
    marked: int
    extra: Fraction
    is_complete: bool
    note: str
    policy_at: Callable[[Fraction], AugmentedPolicy] = field(repr=False)

    @property
    def axis(self) -> str:
        """What the amounts are."""
        name = shown(self.resource)
        return f"change of all limits of {name}" if self.moved else f"budget of {name}"

    @property
    def notes(self) -> str:
        """What to know about the curve, and what the gain is."""
        extra = amount_text(self.extra)
        more = f"all limits relaxed by {extra} more" if self.moved else f"{extra} more budget"
        return f"{self.note} The gain of +{extra} is the best expected value with {more}, minus that without.".strip()

    def to_data(self) -> dict[str, Any]:
        """Return the values for the page."""
        return {
            "resource": shown(self.resource),
            "axis": self.axis,
            "moved": self.moved,
            "marked": self.marked,
            "extra": amount_text(self.extra),
            "note": self.notes,
            "positions": [
                {
                    "text": self._text(each.amount),
                    "x": as_float(each.amount),
                    "value": finite(each.value),
                    "marginal": finite(each.marginal),
                    "rise": None if each.rise is None else [self._text(each.rise[0]), finite(each.rise[1])],
                    "plan": each.plan,
                }
                for each in self.positions
            ],
        }

    def _text(self, amount: Fraction) -> str:
        return f"{'+' if self.moved and amount > 0 else ''}{amount_text(amount)}"


@dataclass(frozen=True)
class NoValues:
    """Why there is no curve of a resource."""

    resource: str
    reason: str


def budget_values(
    model: CMDP, limits: Limits, solution: Solution, name: str, settings: Settings, clock: Clock
) -> BudgetValues | NoValues:
    """Return the values of other budgets of one limited resource, or why there are none."""
    d = limits.resources.index(name)
    if model.distribution_DO is not None:
        tracked = [model.resource_index(each) for each in limits.resources]
        if (model.distribution_DO[tracked] >= 0).any():
            return NoValues(
                name,
                "There are no values of other budgets: costs are continuous, and exact values need costs of finite "
                "support.",
            )
    upper, lower = limits.upper[d], limits.lower[d]
    plain = upper[0] is not None and len(set(upper)) == 1 and all(each is None for each in lower)
    alone = not model.resource(name).saturates or len(limits.resources) == 1
    try:
        if plain and alone:
            return _from_frontier(model, limits, solution, name, upper[0] or Fraction(0), settings, clock)
        return _from_solves(model, limits, solution, name, settings, clock)
    except LimitError:
        return NoValues(name, f"The values of other budgets were not computed within the limits{_seconds(settings)}.")
    except LatticeOverflowError:
        return NoValues(
            name,
            "There are no values of other budgets: exact values need a common unit in which all sums of costs and "
            "limits fit 64-bit integers.",
        )


def _seconds(settings: Settings) -> str:
    return "" if settings.time_limit is None else f" ({settings.time_limit:g} s for each part of this page)"


def _no_feasible_budget(
    limits: Limits, solution: Solution, name: str, largest: Fraction, least: Fraction | None = None
) -> NoValues:
    """Return that no budget up to the largest of the slider is feasible, and the least one that is, if it is known."""
    found = solution.diagnosis
    others = " while the other limits stay as they are" if len(limits.resources) > 1 else ""
    said = f"No budget of {shown(name)} up to {amount_text(largest)} is feasible{others}, so that there is no curve."
    if least is None and found is not None:
        known = found.sufficient_budget if len(limits.resources) > 1 else found.least_budget
        least = known.get(name)
    if least is not None:
        said += f" The least feasible budget is {amount_text(least)}; with max_budget of at least that, it is shown."
    elif found is not None and name in found.least_budget and found.least_budget[name] is None:
        said += " No larger budget is feasible either."
    return NoValues(name, said)


def _from_frontier(
    model: CMDP, limits: Limits, solution: Solution, name: str, budget: Fraction, settings: Settings, clock: Clock
) -> BudgetValues | NoValues:
    unit = _unit(model, name)
    given = settings.max_budget.get(name)
    largest = _REACH * budget if budget > 0 else None
    if given is not None:
        largest = max(exact(given, "max_budget"), budget)  # the budget of the solution is on every curve
    extra = _extra(largest if largest is not None else budget, unit)
    others = {each: limit for each, limit in as_budget(model, limits).items() if each != name}
    curve = frontier(
        model, name, None if largest is None else as_typed(largest + extra), budget=others or None,
        spent=_spent(model, limits), ignore_limits=True, time_limit=clock.left, memory_limit=settings.memory_limit,
        progress=settings.inner_progress,
    )  # fmt: skip
    if curve.least_budget is None or (largest is not None and curve.least_budget > largest):
        # the curve reaches a little further than the slider
        end = curve.max_budget if largest is None else largest
        return _no_feasible_budget(limits, solution, name, end, curve.least_budget)
    low, end = min(budget, curve.least_budget), max(budget, curve.budgets[-1])
    # a little more than the last rise shows that the curve is flat from there on
    last = end + max(1, round((end - low) / unit / 10)) * unit
    if largest is not None:
        last = largest if given is not None else min(last, largest)
    amounts, note = _amounts(curve, low, last, unit, budget)
    positions = [_position(curve, amount, extra) for amount in amounts]
    kept = ", ".join(f"{shown(other)} {limit.text}" for other, limit in curve.fixed_limits.items())
    notes = [*([f"The other limits stay as they are: {kept}."] if kept else []), *([note] if note else [])]
    return BudgetValues(
        name, False, positions, amounts.index(budget), extra, True, " ".join(notes),
        lambda amount: curve.policy(as_typed(amount)),
    )  # fmt: skip


def _amounts(
    curve: Curve, low: Fraction, last: Fraction, unit: Fraction, budget: Fraction
) -> tuple[list[Fraction], str]:
    """Return the budgets of the slider, and a note if some at which the value rises are left out."""
    if (last - low) / unit <= _MOST_POSITIONS:
        count = int((last - low) / unit)
        every = {low + k * unit for k in range(count + 1)}
        return sorted(every | {each for each in curve.budgets if each <= last} | {budget, last}), ""
    rises = [each for each in curve.budgets if each <= last]
    places = range(_MOST_POSITIONS) if rises else ()  # none if the least budget is beyond the last one
    kept = {rises[round(k * (len(rises) - 1) / (_MOST_POSITIONS - 1))] for k in places}
    left_out = len(rises) - len(kept)
    note = f"The value rises at {len(rises):,} budgets; {left_out:,} of them are left out here." if left_out else ""
    return sorted(kept | {low, budget, last}), note


def _position(curve: Curve, amount: Fraction, extra: Fraction) -> Position:
    value, marginal = curve.value(as_typed(amount)), curve.known_marginal(as_typed(amount), as_typed(extra))
    place = next((i for i, each in enumerate(curve.budgets) if each > amount), None)
    rise = None if place is None else (curve.budgets[place], float(curve.values[place]))
    return Position(amount, value, marginal, rise)


def _from_solves(
    model: CMDP, limits: Limits, solution: Solution, name: str, settings: Settings, clock: Clock
) -> BudgetValues | NoValues:
    """Solve the problem with limits moved by multiples of the unit, outwards from the budget."""
    d, unit = limits.resources.index(name), _unit(model, name)
    up, down, stride = _moves(limits, d, unit, settings.max_budget.get(name))
    found: dict[Fraction, Solution] = {}
    stopped = False
    if solution.status in (Status.OPTIMAL, Status.INFEASIBLE):
        found[Fraction(0)] = solution
    for moves in (up, down):
        for move in moves:
            if move in found:
                continue
            settings.sink.report("solving for other budgets", len(found), len(up) + len(down), {}, "budget")
            one = _moved_solution(model, limits, d, move, settings, clock)
            if one is None:
                stopped = True
                break
            found[move] = one
            if move < 0 and one.status is Status.INFEASIBLE:
                break  # with less, nothing is feasible either
    if 0 not in found or len(found) < 2:
        raise LimitError("no other budget was solved")
    base = limits.upper[d][0] if len(set(limits.upper[d])) == 1 else None
    if all(each.status is Status.INFEASIBLE for each in found.values()):
        if base is not None:
            return _no_feasible_budget(limits, solution, name, base + max(found))
        return _no_feasible_change(solution, name, limits.upper[d], max(found))
    positions = [Position((base or Fraction(0)) + move, found[move].value) for move in sorted(found)]
    values = {each.amount: each.value for each in positions}
    for i, each in enumerate(positions):
        after = values.get(each.amount + stride * unit)
        if after is not None and each.value > -math.inf:
            each.marginal = 0.0 if after == each.value else after - each.value
        each.rise = next(((more.amount, more.value) for more in positions[i:] if more.value > each.value), None)
    policies = {each.amount: found[move] for each, move in zip(positions, sorted(found), strict=True)}
    side, moved = _side(limits.upper[d])
    notes = ["Each budget is solved for itself, exactly; all other limits stay as they are."]
    if base is None:
        notes = [
            f"The limits of {shown(name)} differ by step or are lower limits, so that there is no single budget to "
            f"vary. Here all its {side} are {moved} by the same amount, "
            "with one exact solve for each."
        ]
    if stride > 1:
        notes.append(f"Only every {format_amount(stride * unit)} is solved; values between two points are not known.")
    if stopped:
        notes.append("The time limit ended the search for more.")
    return BudgetValues(
        name, base is None, positions, [each.amount for each in positions].index(base or Fraction(0)), stride * unit,
        stride == 1, " ".join(notes), lambda amount: policies[amount].policy,
    )  # fmt: skip


def _moves(limits: Limits, d: int, unit: Fraction, given: Number | None) -> tuple[list[Fraction], list[Fraction], int]:
    """Return by how much the limits of a resource are moved up and down, and how many units apart.

    The last move up ends at the budget `given`, which the largest of the moved limits is then; without it, and
    downwards, moves end at the size of the largest limit.
    """
    sizes = [abs(each) for each in (*limits.upper[d], *limits.lower[d]) if each is not None]
    span = max(*sizes, 6 * unit)
    reach = span
    if given is not None:
        reach = max(exact(given, "max_budget") - max(each for each in limits.upper[d] if each is not None), Fraction(0))
    stride = max(1, math.ceil(max(span, reach) / unit / _MOST_MOVES))
    step = stride * unit
    down = [-k * step for k in range(1, math.ceil(span / step) + 1)]
    if given is None:
        return [k * step for k in range(math.ceil(span / step) + 1)], down, stride
    return [*(k * step for k in range(math.ceil(reach / step))), reach], down, stride


def _side(upper: tuple[Fraction | None, ...]) -> tuple[str, str]:
    """Return which limits of a resource are moved, and where to."""
    has_upper = any(each is not None for each in upper)
    return ("upper limits", "raised") if has_upper else ("lower limits", "lowered")


def _no_feasible_change(
    solution: Solution, name: str, upper: tuple[Fraction | None, ...], largest: Fraction
) -> NoValues:
    """Return that moving all limits of a resource does not help, and how far they would have to be moved, if known."""
    side, moved = _side(upper)
    said = (
        f"Nothing is feasible even if all {side} of {shown(name)} are {moved} by {amount_text(largest)}, so that there "
        "is no curve."
    )
    found = solution.diagnosis
    extra = None if found is None else found.sufficient_extra.get(name) or found.shortfall.get(name)
    if extra is not None:
        said += f" They are too tight by {amount_text(extra)}."
    return NoValues(name, said)


def _moved_solution(
    model: CMDP, limits: Limits, d: int, move: Fraction, settings: Settings, clock: Clock
) -> Solution | None:
    """Return the solution with the limits of a resource moved; None if time runs out."""
    if clock.is_over:
        return None
    budgets = as_budget(model, limits)
    upper, lower = limits.upper[d], limits.lower[d]
    if any(each is not None for each in upper):
        moved = tuple(None if each is None else each + move for each in upper)
        if any(a is not None and b is not None and a < b for a, b in zip(moved, lower, strict=True)):
            return Solution.infeasible("auto", Stats.none(0), "an upper limit is below a lower limit")
        budgets[limits.resources[d]] = Budget(upper=moved, lower=lower)
    else:
        budgets[limits.resources[d]] = Budget(lower=tuple(None if each is None else each - move for each in lower))
    given: Mapping[str, Any] = budgets
    found = solve(
        model, given, spent=_spent(model, limits), time_limit=clock.left, memory_limit=settings.memory_limit
    )  # fmt: skip
    return found if found.status in (Status.OPTIMAL, Status.INFEASIBLE) else None


def _spent(model: CMDP, limits: Limits) -> dict[str, Any]:
    """Return what has been spent of each resource before the first step."""
    before: dict[str, Fraction] = {name: model.resource(name).clamp(Fraction(0)) for name in model.resources}
    before |= dict(zip(limits.resources, limits.initial, strict=True))
    return {name: as_typed(amount) for name, amount in before.items()}


def _unit(model: CMDP, name: str) -> Fraction:
    """Return the greatest amount that divides all costs of a resource; 1 if there are none."""
    column = model.cost[model.resource_index(name)]
    return column.unit if column.ticks.any() else Fraction(1)


def _extra(largest: Fraction, unit: Fraction) -> Fraction:
    """Return a round amount of additional budget: 1, or a smaller power of ten if the range is small.

    Examples
    --------
    >>> _extra(Fraction(60), Fraction(1)), _extra(Fraction(2), Fraction(1, 20)), _extra(Fraction(9000), Fraction(100))
    (Fraction(1, 1), Fraction(1, 10), Fraction(100, 1))
    """
    size = abs(largest)
    power = Fraction(1)
    while size and size < 8 * power:
        power /= 10
    return max(power, unit)
