"""The smaller-budget heuristic: plan for a surrogate budget, smaller than the true one, that the policy never exceeds.

The limits are tightened by t: an upper limit u becomes u - t g and a lower limit l becomes l + t g. The shift g is |u|
or |l| for positive upper and negative lower limits, which are thereby scaled by 1 - t. For covering limits (upper
limits at or below 0, lower limits at or above 0), which scaling would loosen, g is the most that could be spent or
refunded over the horizon. The same t applies to all resources and steps.

Whether a surrogate can be planned for is monotone in t, but whether its policy keeps the true budget is not, because
each surrogate has its own policy. So this is a search without a guarantee: a grid from loose to tight, then bisection
between the last policy that breaks a limit and the first that does not, and finally the simplest fraction between the
two, as a policy may keep the budget at a single t only. Each policy is checked by `verify`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from solvent.baselines.chance import chance_within, read_delta
from solvent.baselines.choice_graph import MAX_NODES
from solvent.baselines.expectation import bound_ends, expectation_within
from solvent.baselines.occupancy import Ends, Occupancy
from solvent.baselines.result import Baseline
from solvent.core.exact import Number, common_unit
from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.amounts import short_amount
from solvent.model.budget import Budget, BudgetLike, Limits, SpentLike, read_spent, resolve
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.solvers.solution import Status
from solvent.verification.finite import verify_within

#: Number of surrogates tried from loose to tight, and of bisections after that.
GRID = 32
ROUNDS = 16
#: Length of the longest amount that messages state exactly.
_DIGITS = 12
_OF = ("expectation", "chance")
#: The greatest t of a linear program is replaced by a fraction with at most this denominator if one is within `_NEAR`.
_SIMPLEST = 10**6
_NEAR = Fraction(1, 10**9)
_LONGEST = 80


def smaller_budget(
    model: CMDP,
    budget: BudgetLike | None = None,
    of: Literal["expectation", "chance"] = "expectation",
    delta: Number = 0.05,
    *,
    spent: SpentLike | None = None,
    max_nodes: int = MAX_NODES,
    monitor: ResourceMonitor | None = None,
) -> Baseline:
    """Search for the largest surrogate budget whose policy never exceeds the true budget, as proved by `verify`.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        The true budget. Default: that of the model.
    of : {"expectation", "chance"}
        The method that plans for the surrogate.
    delta : number
        For "chance": maximum probability that the *surrogate* is exceeded.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step. Default: nothing.
    max_nodes : int
        For "chance": maximum number of nodes (step, state, spent).
    monitor : ResourceMonitor, optional
        Time and memory limits; used by `compare`.

    Returns
    -------
    Baseline
        With status "feasible" and a policy that keeps the true budget; `limits` are those of the surrogate. Status
        "not_found" if every surrogate tried cannot be planned for or has a policy that exceeds the true budget.

    Raises
    ------
    ModelError
        If `of` or `delta` is invalid, there are too many nodes, or a limited resource has continuous costs.
    LatticeOverflowError
        For "chance", if costs and limits have no common unit in which all sums fit 64 bits.

    Notes
    -----
    Corollary 1 of the paper (`cor: cMDP-failure`): the policy found can be worth arbitrarily less than the optimum, and
    with chance constraints there may be none. For "expectation", the tightest surrogate that can be planned for is
    found by a separate linear program and is among those tried.

    Examples
    --------
    >>> from solvent.model import instances
    >>> found = smaller_budget(instances.markov_gap(prize=10))
    >>> found, found.message
    (Baseline(expectation, smaller budget, feasible, value 0), 'planned for cost at most 0.5')
    >>> smaller_budget(instances.markov_gap(prize=10), of="chance").status.value
    'not_found'
    """
    check_model(model)
    if of not in _OF:
        raise ModelError("of", f"one of {', '.join(_OF)}", quote(of), did_you_mean(of, _OF))
    limits, probability = resolve(model, budget, spent), read_delta(delta)
    gaps, monitor = _gaps(model, limits), monitor or ResourceMonitor()
    if of == "expectation":
        program = Occupancy(model, limits.resources, monitor)
        plan, tightest = _by_expectation(program), _tightest(program, limits, gaps)
    else:
        plan, tightest = _by_chance(model, probability, max_nodes, monitor), Fraction(1)
    name = f"{of}, smaller budget"
    search = _Search(model, limits, read_spent(model, spent), gaps, plan, {}, monitor)
    found = None if tightest is None else search.run(tightest)
    if found is None:
        why = "the budget itself cannot be kept in expectation"
        if model.may_end is not None:
            why = "every policy exceeds the budget itself in expectation, or may end outside the goal"
        message = f"no smaller budget was tried, since {why}"
        if tightest is not None:
            message = f"none of {len(search.tried)} surrogate budgets has a policy that never exceeds the true budget"
        return Baseline.without_policy(name, Status.NOT_FOUND, message, limits)
    message = f"planned for {_show(found.limits)}" if limits.resources else "nothing is limited"
    return replace(found, method=name, status=Status.FEASIBLE, message=message)


def _gaps(model: CMDP, limits: Limits) -> Limits:
    """Return the shift of each limit for t = 1."""
    reaches = []
    for name in limits.resources:
        low, high = model.cost_range(model.resource_index(name))
        reaches.append(model.horizon * max(abs(low or Fraction(0)), abs(high)) or Fraction(1))
    return Limits(
        limits.resources,
        tuple(
            tuple(None if u is None else (u if u > 0 else reach) for u in side)
            for side, reach in zip(limits.upper, reaches, strict=True)
        ),
        tuple(
            tuple(None if x is None else (-x if x < 0 else reach) for x in side)
            for side, reach in zip(limits.lower, reaches, strict=True)
        ),
    )


def tighten(limits: Limits, gaps: Limits, t: Fraction) -> Limits:
    """Return the limits tightened by t times `gaps`.

    Examples
    --------
    >>> half = Fraction(1, 2)
    >>> limits = Limits(("fuel",), ((Fraction(30), None),), ((None, Fraction(-4)),))
    >>> gaps = Limits(("fuel",), ((Fraction(30), None),), ((None, Fraction(4)),))
    >>> moved = tighten(limits, gaps, half)
    >>> moved.upper, moved.lower
    (((Fraction(15, 1), None),), ((None, Fraction(-2, 1)),))
    """

    def moved(
        sides: tuple[tuple[Fraction | None, ...], ...], by: tuple[tuple[Fraction | None, ...], ...], sign: int
    ) -> tuple[tuple[Fraction | None, ...], ...]:
        pairs = (zip(side, gap, strict=True) for side, gap in zip(sides, by, strict=True))
        return tuple(tuple(None if x is None or g is None else x + sign * t * g for x, g in side) for side in pairs)

    return replace(limits, upper=moved(limits.upper, gaps.upper, -1), lower=moved(limits.lower, gaps.lower, 1))


def _crossed(limits: Limits) -> bool:
    sides = zip(limits.upper, limits.lower, strict=True)
    pairs = (pair for upper, lower in sides for pair in zip(upper, lower, strict=True))
    return any(most is not None and least is not None and least > most for most, least in pairs)


def _by_expectation(program: Occupancy) -> Callable[[Limits], Baseline]:
    return lambda limits: expectation_within(program, limits)


def _by_chance(model: CMDP, delta: float, max_nodes: int, monitor: ResourceMonitor) -> Callable[[Limits], Baseline]:
    """Return a planner by chance that rounds limits inward to multiples of the unit, which is an equivalent budget."""

    def unit_of(limits: Limits, d: int) -> Fraction:
        resource = model.resource_index(limits.resources[d])
        fixed = (limits.initial[d], model.floors[resource], model.ceilings[resource])
        return common_unit([model.cost[resource].unit, *(amount for amount in fixed if amount)])

    def plan(limits: Limits) -> Baseline:
        units = [unit_of(limits, d) for d in range(len(limits.resources))]
        upper, lower = (
            tuple(
                tuple(None if x is None else sign * (sign * x // unit) * unit for x in side)
                for unit, side in zip(units, sides, strict=True)
            )
            for sign, sides in ((1, limits.upper), (-1, limits.lower))
        )
        return chance_within(model, replace(limits, upper=upper, lower=lower), delta, max_nodes, monitor)

    return plan


def _tightest(program: Occupancy, limits: Limits, gaps: Limits) -> Fraction | None:
    """Return the greatest t for which the surrogate can be kept in expectation; None if the budget cannot be."""
    ends = bound_ends(limits, every_step=False)

    def gap_of(sides: tuple[tuple[Fraction | None, ...], ...], step: int, d: int) -> Fraction:
        gap = sides[d][step]
        assert gap is not None
        return gap

    moves = Ends(
        [(step, d, gap_of(gaps.upper, step, d)) for step, d, _ in ends.upper],
        [(step, d, gap_of(gaps.lower, step, d)) for step, d, _ in ends.lower],
    )
    if not limits.resources:
        return Fraction(0)
    found = program.tightest(ends, moves)
    if found is None:
        return None
    simple = Fraction(found).limit_denominator(_SIMPLEST)
    return simple if abs(simple - Fraction(found)) <= _NEAR else Fraction(found)


@dataclass(frozen=True)
class _Search:
    """Plans for surrogates and verifies the policies, each only once."""

    model: CMDP
    limits: Limits
    spent: dict[str, Fraction]
    gaps: Limits
    plan: Callable[[Limits], Baseline]
    tried: dict[Fraction, Baseline | None]
    monitor: ResourceMonitor

    def run(self, tightest: Fraction) -> Baseline | None:
        """Return the plan for the loosest surrogate found whose policy never exceeds the true budget."""
        fails, holds, best = Fraction(0), Fraction(0), None
        for k in range(GRID + 1):
            holds = tightest * k / GRID
            best = self._attempt(holds)
            if best is not None or tightest == 0:
                break
            fails = holds
        if best is None:
            return None
        for _ in range(ROUNDS if holds > fails else 0):
            middle = (fails + holds) / 2
            found = self._attempt(middle)
            if found is None:
                fails = middle
            else:
                holds, best = middle, found
        return (self._attempt(simplest_between(fails, holds)) if fails < holds else None) or best

    def _attempt(self, t: Fraction) -> Baseline | None:
        """Return the plan for a surrogate, or None if there is none or it may exceed the true budget."""
        if t not in self.tried:
            self.monitor.check_time()
            used = self.monitor.used
            self.tried[t] = self._checked(tighten(self.limits, self.gaps, t))
            self.monitor.release(self.monitor.used - used)
        return self.tried[t]

    def _checked(self, surrogate: Limits) -> Baseline | None:
        if _crossed(surrogate):
            return None
        planned = self.plan(surrogate)
        if not planned.has_policy:
            return None
        report = verify_within(self.model, planned.policy, self.limits, self.monitor, spent=self.spent)
        return planned if report.feasible else None


def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction with the smallest denominator in (low, high], for 0 <= low < high.

    Examples
    --------
    >>> simplest_between(Fraction(39, 100), Fraction(41, 100)), simplest_between(Fraction(0), Fraction(1, 3))
    (Fraction(2, 5), Fraction(1, 3))
    """
    whole = low.__floor__()
    if whole + 1 <= high:
        return Fraction(whole + 1)
    # both lie between two whole numbers: find the simplest inverse of the fractional part
    near = high - whole
    if low == whole:
        return whole + 1 / Fraction((1 / near).__ceil__())
    return whole + 1 / _simplest_from(1 / near, 1 / (low - whole))


def _simplest_from(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction with the smallest denominator in [low, high)."""
    whole = low.__ceil__()
    if whole < high:
        return Fraction(whole)
    below = low.__floor__()
    return below + 1 / simplest_between(1 / (high - below), 1 / (low - below))


def as_budget(model: CMDP, limits: Limits) -> dict[str, Budget]:
    """Return resolved limits as a budget, with no limits for resources that are not limited."""
    budgets = {name: Budget() for name in model.resources}
    for name, upper, lower in zip(limits.resources, limits.upper, limits.lower, strict=True):
        budgets[name] = Budget(upper=upper, lower=lower)
    return budgets


def _show(limits: Limits) -> str:
    """Return limits in words; an upper limit below 0 is also stated as what must be refunded.

    Examples
    --------
    >>> from solvent.model.budget import limits_of
    >>> _show(limits_of({"fuel": Budget(-120), "cost": Budget("1/2")}, horizon=2))
    'fuel at most -120, that is, a refund of at least 120, and cost at most 0.5'
    """
    parts = []
    for name, upper, lower in zip(limits.resources, limits.upper, limits.lower, strict=True):
        one = upper[0] if len(set(upper)) == 1 and all(x is None for x in lower) else None
        if one is None:
            text = limits.texts[name]
            parts.append(f"{name} {text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}")
        else:
            refund = f", that is, a refund of at least {short_amount(-one, _DIGITS)}" if one < 0 else ""
            parts.append(f"{name} at most {short_amount(one, _DIGITS)}{refund}")
    return ", and ".join(parts)


def _unless_open(side: tuple[Fraction | None, ...]) -> tuple[Fraction | None, ...] | None:
    return side if any(limit is not None for limit in side) else None
