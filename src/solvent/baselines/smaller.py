"""The smaller-budget heuristic: plan for less than there is, until the policy never goes over what there is.

Let the limits be moved inwards by t: an upper limit u becomes u - t g and a lower limit l becomes l + t g. The gap g
is the limit's own size where it lies on the generous side of 0, so that all these limits are scaled by 1 - t; where it
is a covering limit (an upper one at or below 0, a lower one at or above) it is the most that could be spent or refunded
over the horizon, since scaling would loosen it. One t serves all resources and steps.

Whether a tighter surrogate exists is monotone in t, but whether its policy keeps the true budget is not: a different
surrogate is a different policy. So this is a search, not a proof: a grid from loose to tight, then bisection between
the last policy that breaks a limit and the first that does not, and at last the simplest fraction between the two, as a
policy may hold at one point only. Each is checked by `verify`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from solvent.baselines.chance import chance_within, read_delta
from solvent.baselines.expectation import bound_ends, expectation_within
from solvent.baselines.nodes import MAX_NODES
from solvent.baselines.occupancy import Ends, Occupancy
from solvent.baselines.result import Baseline, BaselineStatus
from solvent.core.exact import Number
from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.amounts import short_amount
from solvent.model.budget import Budget, BudgetLike, Limits, resolve
from solvent.model.cmdp import CMDP, check_model
from solvent.verification.finite import verify_within

#: Surrogates tried from loose to tight, and halvings after that.
GRID = 32
ROUNDS = 16
_OF = ("expectation", "chance")
#: The greatest t of a linear program is taken for a fraction this simple if it is one, to within a billionth.
_SIMPLEST = 10**6
_NEAR = Fraction(1, 10**9)
_LONGEST = 80


def smaller_budget(
    model: CMDP,
    budget: BudgetLike | None = None,
    of: Literal["expectation", "chance"] = "expectation",
    delta: Number = 0.05,
    *,
    max_nodes: int = MAX_NODES,
    monitor: ResourceMonitor | None = None,
) -> Baseline:
    """Search for the largest surrogate budget whose policy never goes over the true one, as `verify` proves.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        The true one; the model's own default, if not given.
    of : {"expectation", "chance"}
        What the surrogate is planned with.
    delta : number
        For "chance": the probability with which the *surrogate* may be broken.
    max_nodes : int
        For "chance": refuse beyond so many nodes.
    monitor : ResourceMonitor, optional
        Time and memory limits, as `compare` sets them.

    Returns
    -------
    Baseline
        With status "heuristic" and a feasible policy; `limits` are the surrogate's. Or status "not found", if every
        surrogate that was tried breaks the true budget or cannot be planned for.

    Raises
    ------
    ModelError
        If the method or `delta` is none, there are too many nodes, or a limited resource has continuous costs.
    LatticeOverflowError
        For "chance", if costs and limits have no common unit in which sums fit 64 bits.

    Notes
    -----
    Corollary 1 of the paper (`cor: cMDP-failure`): what is found can be worth arbitrarily less than the optimum, and
    with chance constraints there may be nothing to find. For "expectation" the tightest surrogate that can be planned
    for at all is found by a linear program of its own and is among those tried.

    Examples
    --------
    >>> from solvent.model import instances
    >>> found = smaller_budget(instances.markov_gap(prize=10))
    >>> found, found.message
    (Baseline(expectation, smaller budget, heuristic, value 0), 'planned for cost 0.5')
    >>> smaller_budget(instances.markov_gap(prize=10), of="chance").status.value
    'not found'
    """
    check_model(model)
    if of not in _OF:
        raise ModelError("of", f"one of {', '.join(_OF)}", quote(of), did_you_mean(of, _OF))
    limits, probability = resolve(model, budget), read_delta(delta)
    gaps, monitor = _gaps(model, limits), monitor or ResourceMonitor()
    if of == "expectation":
        program = Occupancy(model, limits.resources, monitor)
        plan, tightest = _by_expectation(program), _tightest(program, limits, gaps)
    else:
        plan, tightest = _by_chance(model, probability, max_nodes, monitor), Fraction(1)
    name = f"{of}, smaller budget"
    search = _Search(model, limits, gaps, plan, {}, monitor)
    found = None if tightest is None else search.run(tightest)
    if found is None:
        message = f"none of {len(search.tried)} surrogate budgets has a policy that never goes over the true one"
        return Baseline.none(name, BaselineStatus.NOT_FOUND, message, limits)
    message = f"planned for {_show(found.limits)}" if limits.resources else "nothing is limited"
    return replace(found, method=name, status=BaselineStatus.HEURISTIC, message=message)


def _gaps(model: CMDP, limits: Limits) -> Limits:
    """Return by how much each limit is moved for t = 1."""
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
    """Return the limits moved inwards by t times `gaps`.

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

    return Limits(limits.resources, moved(limits.upper, gaps.upper, -1), moved(limits.lower, gaps.lower, 1))


def _crossed(limits: Limits) -> bool:
    sides = zip(limits.upper, limits.lower, strict=True)
    pairs = (pair for upper, lower in sides for pair in zip(upper, lower, strict=True))
    return any(most is not None and least is not None and least > most for most, least in pairs)


def _by_expectation(program: Occupancy) -> Callable[[Limits], Baseline]:
    return lambda limits: expectation_within(program, limits)


def _by_chance(model: CMDP, delta: float, max_nodes: int, monitor: ResourceMonitor) -> Callable[[Limits], Baseline]:
    """Return how to plan by chance: limits rounded inwards to whole costs, which changes nothing but the unit."""
    units = {name: model.cost[model.resource_index(name)].unit for name in model.resources}

    def plan(limits: Limits) -> Baseline:
        upper, lower = (
            tuple(
                tuple(None if x is None else sign * (sign * x // units[name]) * units[name] for x in side)
                for name, side in zip(limits.resources, sides, strict=True)
            )
            for sign, sides in ((1, limits.upper), (-1, limits.lower))
        )
        return chance_within(model, Limits(limits.resources, upper, lower), delta, max_nodes, monitor)

    return plan


def _tightest(program: Occupancy, limits: Limits, gaps: Limits) -> Fraction | None:
    """Return the greatest t for which the surrogate can be kept on average; None if not even the budget can be."""
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
    """Plans for surrogates and checks what comes of them, each only once."""

    model: CMDP
    limits: Limits
    gaps: Limits
    plan: Callable[[Limits], Baseline]
    tried: dict[Fraction, Baseline | None]
    monitor: ResourceMonitor

    def run(self, tightest: Fraction) -> Baseline | None:
        """Return the plan for the loosest surrogate found whose policy never goes over."""
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
        """Return the plan for a surrogate, or None if there is none or it goes over the true budget."""
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
        return planned if verify_within(self.model, planned.policy, self.limits, self.monitor).feasible else None


def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction of the smallest denominator above `low` and up to `high`, both at least 0.

    Examples
    --------
    >>> simplest_between(Fraction(39, 100), Fraction(41, 100)), simplest_between(Fraction(0), Fraction(1, 3))
    (Fraction(2, 5), Fraction(1, 3))
    """
    whole = low.__floor__()
    if whole + 1 <= high:
        return Fraction(whole + 1)
    # both lie between two whole numbers: the simplest inverse of what is beyond the lower one
    near = high - whole
    if low == whole:
        return whole + 1 / Fraction((1 / near).__ceil__())
    return whole + 1 / _simplest_from(1 / near, 1 / (low - whole))


def _simplest_from(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction of the smallest denominator from `low` on and below `high`."""
    whole = low.__ceil__()
    if whole < high:
        return Fraction(whole)
    below = low.__floor__()
    return below + 1 / simplest_between(1 / (high - below), 1 / (low - below))


def as_budget(model: CMDP, limits: Limits) -> dict[str, Budget]:
    """Return resolved limits in the form users give them, with no limit for what is not tracked."""
    budgets = {name: Budget() for name in model.resources}
    for name, upper, lower in zip(limits.resources, limits.upper, limits.lower, strict=True):
        budgets[name] = Budget(upper=upper, lower=lower)
    return budgets


def _show(limits: Limits) -> str:
    """Return the limits for people: a number where all steps have one and the same upper one, else a budget."""
    parts = []
    for name, upper, lower in zip(limits.resources, limits.upper, limits.lower, strict=True):
        if len(set(upper)) == 1 and upper[0] is not None and all(x is None for x in lower):
            parts.append(f"{name} {short_amount(upper[0])}")
        else:
            text = repr(Budget(upper=_unless_open(upper), lower=_unless_open(lower)))
            parts.append(f"{name} {text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}")
    return ", ".join(parts)


def _unless_open(side: tuple[Fraction | None, ...]) -> tuple[Fraction | None, ...] | None:
    return side if any(limit is not None for limit in side) else None
