"""Checks of problems with continuous costs: an enclosure of the optimum by cells, and the guarantees of rounding.

Costs are cut into cells. With all probability of a cell on the end that is worse for the limits, every policy of the
cut problem can be followed in the true one: its optimum is a lower bound. On the other end, every policy of the true
problem can be simulated in the cut one: an upper bound. Where both sides are limited, costs are rounded down and the
limits are moved by what that hides. Saturation preserves the order of amounts and never increases their distance, so
that all of this holds for amounts that saturate.

A policy that counts rounded costs is followed over the bins it counts alike, each with the ends of its support.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple, Protocol

import numpy as np

import solvent
from fuzz.answers import policy_and_report
from fuzz.encodings import clamped
from fuzz.generate import fraction_of, support
from fuzz.ledger import Ledger, Run, forced, show
from fuzz.oracles import TooLarge, exact_optimum
from fuzz.problems import Cost, Distribution, Limit, Outcome, Problem
from solvent.errors import ModelError, SolventError
from solvent.model.budget import resolve

CELL = Fraction(1, 4)
#: Where a support has no lower end, everything below this is one cell,
DEEP = Fraction(-40)
#: which counts as this much if it is rounded down: no other cost makes up for it.
DEEPER = Fraction(-10_000)
#: More combinations of a node and a bin than this are not followed in one step.
MOST_ARRIVALS = 30_000
#: Distribution functions are evaluated in doubles.
CLOSE = Fraction(1, 10**8)


class Frozen(Protocol):
    """The methods of a frozen `scipy.stats` distribution that are used here."""

    def cdf(self, x: float, /) -> float:
        """Return the probability of at most x."""

    def sf(self, x: float, /) -> float:
        """Return the probability of more than x."""


def cdf(cost: Distribution, x: float) -> float:
    """Return the probability of a cost of at most x."""
    from scipy import stats

    p = {key: float(fraction_of(value)) for key, value in cost.parameters}
    frozen: Frozen
    if cost.name == "uniform":
        frozen = stats.uniform(p["low"], p["high"] - p["low"])
    elif cost.name == "triangular":
        width = p["high"] - p["low"]
        frozen = stats.triang((p["mode"] - p["low"]) / width, p["low"], width)
    elif cost.name == "truncated_normal":
        ends = (p.get("low", -math.inf), p.get("high", math.inf))
        low, high = ((end - p["mean"]) / p["sd"] for end in ends)
        frozen = stats.truncnorm(low, high, p["mean"], p["sd"])
    elif cost.name == "beta":
        low, high = p.get("low", 0.0), p.get("high", 1.0)
        frozen = stats.beta(p["a"], p["b"], low, high - low)
    elif cost.name == "exponential":
        low = p.get("low", 0.0)
        frozen = stats.expon(low, p["scale"])
        if "high" in p:
            frozen = stats.truncexpon((p["high"] - low) / p["scale"], low, p["scale"])
    else:
        raise ValueError(f"unknown distribution {cost.name!r}")
    return float(frozen.sf(-x)) if cost.negate else float(frozen.cdf(x))


def cells(cost: Cost, width: Fraction, up: bool) -> list[tuple[float, Fraction]]:
    """Return probability and position of each cell of a cost, on its upper or its lower end."""
    if not isinstance(cost, Distribution):
        return [(1.0, fraction_of(cost))]
    low, high = support(cost)
    first, last = math.floor((DEEP if low is None else low) / width), math.ceil(high / width)
    edges = [k * width for k in range(first, last + 1)]
    chance = np.diff([cdf(cost, float(edge)) for edge in edges]).tolist()
    found = [(p, b if up else a) for p, a, b in zip(chance, edges[:-1], edges[1:], strict=True)]
    if low is None:
        found.append((cdf(cost, float(edges[0])), edges[0] if up else DEEPER))
    # a possible cost must not be dropped, regardless of its probability
    return [(max(p, 1e-30), at) for p, at in found]


def cut(problem: Problem, width: Fraction, up: list[bool]) -> Problem:
    """Return the problem with its costs on the ends of cells, for each resource the upper or the lower ones."""
    rows = []
    for row in problem.rows:
        outcomes = []
        for outcome in row.outcomes:
            parts = [cells(cost, width, side) for cost, side in zip(outcome.cost, up, strict=True)]
            if math.prod(map(len, parts)) > 300:
                raise TooLarge("too many cells")
            for combined in itertools.product(*parts):
                chance = float(fraction_of(outcome.probability)) * math.prod(p for p, _ in combined)
                if chance > 0 or outcome.probability:
                    at: tuple[Cost, ...] = tuple(x for _, x in combined)
                    outcomes.append(Outcome(max(chance, 5e-324), outcome.next_state, at))
        rows.append(row._replace(outcomes=tuple(outcomes)))
    return problem.with_(rows=tuple(rows))


def enclosure(problem: Problem, width: Fraction = CELL) -> tuple[Fraction | float, Fraction | float, Fraction]:
    """Return bounds on the optimum and its scale.

    Raises
    ------
    TooLarge
        If the cut problems have too many nodes.
    """
    model, budget = problem.build()
    limits = resolve(model, budget, problem.given.get("spent"))
    horizon = model.horizon
    found: list[Fraction | float] = []
    scale = Fraction(0)
    for favor in (False, True):
        ups: list[bool] = []
        moved: dict[str, Limit] = {}
        possible = True
        for name in problem.resources:
            if name not in limits.resources:
                ups.append(False)
                continue
            d = limits.resources.index(name)
            upper, lower = limits.upper[d], limits.lower[d]
            has_upper, has_lower = (any(x is not None for x in side) for side in (upper, lower))
            hidden = [width * (h + 1) for h in range(horizon)]
            if has_upper and has_lower:
                ups.append(False)
                if favor:
                    lower = tuple(None if x is None else x - y for x, y in zip(lower, hidden, strict=True))
                else:
                    upper = tuple(None if x is None else x - y for x, y in zip(upper, hidden, strict=True))
                    pairs = zip(upper, lower, strict=True)
                    possible &= not any(x is not None and y is not None and x < y for x, y in pairs)
                    column = problem.resources.index(name)
                    lows = [support(o.cost[column])[0] for row in problem.rows for o in row.outcomes]
                    possible &= None not in lows
            else:
                ups.append(has_upper != favor)
            moved[name] = Limit(upper=tuple(upper), lower=tuple(lower))
        if not possible:
            found.append(-math.inf)
            continue
        # unlimited resources do not matter, and would only add cells
        kept = [d for d, name in enumerate(problem.resources) if name in moved]
        small = problem.with_(
            resources=tuple(problem.resources[d] for d in kept),
            rows=tuple(
                row._replace(outcomes=tuple(o._replace(cost=tuple(o.cost[d] for d in kept)) for o in row.outcomes))
                for row in problem.rows
            ),
            limits=moved,
            accounts={name: account for name, account in problem.accounts.items() if name in moved},
        )
        cut_model, cut_budget = cut(small, width, [ups[d] for d in kept]).build()
        best = exact_optimum(cut_model, cut_budget, 2500, small.given.get("spent"))
        scale = max(scale, best.scale)
        found.append(-math.inf if best.value is None else best.value)
    return found[0], found[1], scale


def bins(cost: Cost, unit: Fraction, up: bool) -> list[tuple[float, int, Fraction, Fraction]]:
    """Return what a policy counts alike: probability, ticks, and the ends of the costs, all of the support."""
    if not isinstance(cost, Distribution):
        value = fraction_of(cost)
        return [(1.0, math.ceil(value / unit) if up else math.floor(value / unit), value, value)]
    low, high = support(cost)
    bottom = min(DEEP, high - 40) if low is None else low
    first, last = (math.ceil if up else math.floor)(bottom / unit), (math.ceil if up else math.floor)(high / unit)
    if last - first > 150:
        raise TooLarge("too many bins")
    found = []
    for k in range(first, last + 1):
        start, end = ((k - 1) * unit, k * unit) if up else (k * unit, (k + 1) * unit)
        a, b = max(start, bottom), min(end, high)
        chance = cdf(cost, float(b)) - (0.0 if k == first else cdf(cost, float(a)))
        found.append((max(chance, 0.0), k, a, b))
    return found


class Over(NamedTuple):
    """The state of an episode that has ended in a state."""

    state: Any


class Followed:
    """A policy on rounded costs, followed over its bins.

    Attributes
    ----------
    value : float
    most, least : dict of str to list of Fraction
        Bounds on the amount spent after each step, per limited resource.
    stuck : str or None
    strayed : bool
        Whether some history ends where it must not.
    """

    def __init__(self, problem: Problem, model: Any, policy: Any) -> None:
        self.value, self.stuck, self.strayed = 0.0, None, False
        columns = [problem.resources.index(name) for name in policy.resources]
        units, ups = policy.units, [kind == "up" for kind in policy.counting]
        self.most: dict[str, list[Fraction]] = {name: [] for name in policy.resources}
        self.least: dict[str, list[Fraction]] = {name: [] for name in policy.resources}
        by_key = {}
        for row in problem.rows:
            for step in range(model.horizon) if row.steps is None else row.steps:
                by_key[step, row.state, row.action] = row
        has_rows = {(step, state) for step, state, _ in by_key}
        expanded: dict[int, list[Any]] = {}
        accounts = [problem.account(name) for name in policy.resources]
        ends = list(zip(policy.floor_D.tolist(), policy.ceiling_D.tolist(), strict=True))
        counted_first = tuple(policy.initial_D.tolist())
        initial = [fraction_of(account.initial) for account in accounts]
        layer: dict[Any, list[Any]] = {}
        for first, p in problem.first_states.items():
            if fraction_of(p):
                layer[first, counted_first] = [float(fraction_of(p)), initial, initial]
        for step in range(model.horizon):
            following: dict[Any, list[Any]] = {}
            arrivals = 0
            for (state, counted), (weight, low, high) in layer.items():
                if isinstance(state, Over) or (step, state) not in has_rows:
                    over = state if isinstance(state, Over) else Over(state)
                    _merge(following, (over, counted), weight, low, high)
                    continue
                index = int(policy.action_index(step, model.state_index(state), counted))
                if index < 0:
                    self.stuck = self.stuck or f"step {step}, state {state}, counted {counted}"
                    _merge(following, (Over(state), counted), weight, low, high)
                    continue
                row = by_key[step, state, model.actions[index]]
                self.value += weight * float(fraction_of(row.reward))
                if id(row) not in expanded:
                    expanded[id(row)] = list(_expanded(row.outcomes, columns, units, ups))
                arrivals += len(expanded[id(row)])
                if arrivals > MOST_ARRIVALS:
                    raise TooLarge("too many bins")
                for p, after, ticks, lows, highs in expanded[id(row)]:
                    then = (min(max(a + b, x), y) for a, b, (x, y) in zip(counted, ticks, ends, strict=True))
                    _merge(
                        following, (after, tuple(then)), weight * p,
                        [clamped(c, a + b) for a, b, c in zip(low, lows, accounts, strict=True)],
                        [clamped(c, a + b) for a, b, c in zip(high, highs, accounts, strict=True)],
                    )  # fmt: skip
            layer = following
            for d, name in enumerate(policy.resources):
                self.most[name].append(max(high[d] for _, _, high in layer.values()))
                self.least[name].append(min(low[d] for _, low, _ in layer.values()))
        for (last, _), (weight, _, _) in layer.items():
            state = last.state if isinstance(last, Over) else last
            self.value += weight * float(fraction_of(problem.end_reward.get(state, 0)))
            self.strayed |= problem.goals is not None and state not in problem.goals


def _expanded(outcomes: tuple[Outcome, ...], columns: list[int], units: Any, ups: list[bool]) -> Iterator[Any]:
    for outcome in outcomes:
        parts = [bins(outcome.cost[d], unit, up) for d, unit, up in zip(columns, units, ups, strict=True)]
        if math.prod(map(len, parts)) > 600:
            raise TooLarge("too many bins")
        for combined in itertools.product(*parts):
            p = float(fraction_of(outcome.probability)) * math.prod(each[0] for each in combined)
            ticks, lows, highs = ([each[k] for each in combined] for k in (1, 2, 3))
            yield p, outcome.next_state, tuple(ticks), lows, highs


def _merge(layer: dict[Any, list[Any]], key: Any, weight: float, low: list[Fraction], high: list[Fraction]) -> None:
    known = layer.get(key)
    if known is None:
        layer[key] = [weight, low, high]
        return
    known[0] += weight
    known[1] = [min(a, b) for a, b in zip(known[1], low, strict=True)]
    known[2] = [max(a, b) for a, b in zip(known[2], high, strict=True)]


def check(problem: Problem, rng: Random, ledger: Ledger, only: Run | None = None) -> None:
    """Check the guarantees of the approximate methods on a problem with continuous costs."""
    model = None
    with ledger.no_exception(Run("build", "build"), "build"):
        model, budget = problem.build()
    if model is None:
        return
    bounds: tuple[Fraction | float, Fraction | float, Fraction] | None = None
    try:
        bounds = enclosure(problem)
    except TooLarge:
        ledger.skip("enclosure too large")
    for run in _runs(problem, rng) if only is None else [only]:
        _check_run(problem, model, budget, bounds, run, ledger)


def _runs(problem: Problem, rng: Random) -> Iterator[Run]:
    assert problem.horizon is not None
    widths = [
        high - low
        for row in problem.rows
        for o in row.outcomes
        for low, high in map(support, o.cost)
        if low is not None and high > low
    ]
    # as wide as a whole support: one bin, whose edges are its ends
    shares = [Fraction(1), Fraction(1), Fraction(1), Fraction(2), Fraction(1, 2)]
    whole = problem.horizon * rng.choice(sorted(widths) or [Fraction(1)]) * rng.choice(shares)
    epsilons = [("additive", rng.choice(["1/2", "1", "3", "7/3", "1/4"])), ("additive", str(whole))]
    if rng.random() < 0.5:
        epsilons.append(("relative", rng.choice(["1/4", "1/2", "1/10"])))
    for method, epsilon in epsilons:
        for strict in (False, True):
            how = "strict" if strict else "relaxed"
            settings = {"frontier.solver.MAX_NODES": 0} if rng.random() < 0.3 else {}
            options = {"approximation": method, "epsilon": epsilon, "strict": strict}
            yield Run(f"{method}, {how}", options=options, settings=settings)
    if rng.random() < 0.3:
        yield Run("gap", options={"gap": rng.choice([0.5, 0.1]), "time_limit": 0.5})
    yield Run("auto", options={"method": rng.choice(["auto", "reduction"])})


def _check_run(problem: Problem, model: Any, budget: Any, bounds: Any, run: Run, ledger: Ledger) -> None:
    limits = resolve(model, budget, problem.given.get("spent"))
    limited = [problem.resources.index(name) for name in limits.resources]
    dense = any(isinstance(o.cost[d], Distribution) for row in problem.rows for o in row.outcomes for d in limited)
    solution = None
    with ledger.no_exception(run), forced(run):
        try:
            solution = solvent.solve(model, budget, **problem.given, **run.options)
        except SolventError as error:
            zero = run.options.get("approximation") == "relative" and any(
                limit == 0 for d in range(len(limits.resources)) for limit in limits.distinct(d)
            )
            exact = run.label == "auto" and dense
            holds = isinstance(error, ModelError) and (zero or exact)
            ledger.check("ModelError has a reason", run, holds, "an answer", f"{type(error).__name__}: {error}")
    if solution is None:
        return
    status = solution.status.value
    ledger.check("exact methods refuse densities", run, run.label != "auto" or not dense, "ModelError", status)
    lower, upper = solution.value_lower, solution.value_upper
    ordered = not math.isnan(lower) and not math.isnan(upper) and lower <= upper
    ledger.check("bounds in order", run, ordered, "value_lower <= value_upper", (lower, upper))
    if bounds is not None:
        _check_enclosure(bounds, run, solution, ledger)
    ledger.answer(run.label, problem.features)
    policy, report = policy_and_report(model, budget, solution, run, ledger, **problem.given)
    if policy is None:
        return
    done = None
    with ledger.no_exception(run, "walk"):
        try:
            done = Followed(problem, model, policy)
        except TooLarge:
            ledger.skip("policy too large to walk")
    strict = status != "relaxed"
    if report is not None:
        ledger.check("report: feasible", run, report.feasible or not strict, "feasible", "over budget")
    if done is None:
        return
    ledger.check("policy decides", run, done.stuck is None, "an action at every node", done.stuck)
    ledger.check("goals kept", run, not done.strayed, "ends in goals only", "ends elsewhere")
    scale = _scale(problem)
    close = float(CLOSE * scale)
    ledger.check("value of the policy", run, abs(done.value - solution.value) <= close, done.value, solution.value)
    if report is not None:
        ledger.check("report: value", run, abs(done.value - report.value) <= close, done.value, report.value)
    for d, name in enumerate(limits.resources):
        every = [abs(limit) for limit in limits.distinct(d)]
        room = Fraction(0)
        if not strict:
            room = Fraction(run.options["epsilon"]) * (min(every) if run.options["approximation"] == "relative" else 1)
        over = [Fraction(0)]
        for h in range(model.horizon):
            top, bottom = limits.upper[d][h], limits.lower[d][h]
            over += [] if top is None else [done.most[name][h] - top]
            over += [] if bottom is None else [bottom - done.least[name][h]]
        ledger.check("excess", run, max(over) <= room, f"at most {room} of {name}", max(over))
        claimed = solution.excess.get(name, Fraction(0))
        ledger.check("excess as told", run, claimed >= max(over), f"at least {max(over)}", claimed)
        worst = solution.worst_spent.get(name)
        ledger.check("worst spent", run, worst is not None and worst >= max(done.most[name]), max(done.most[name]),
                     worst)  # fmt: skip
        if report is not None:
            told = list(report.worst_spent_by_step[name])
            ledger.check("report: worst spent", run, told == done.most[name], done.most[name], told)


def _scale(problem: Problem) -> Fraction:
    usual = [abs(fraction_of(row.reward)) for row in problem.rows if row.action not in ("awful", "unsafe")]
    end = max((abs(fraction_of(reward)) for reward in problem.end_reward.values()), default=Fraction(0))
    return (problem.horizon or 1) * max(usual, default=Fraction(0)) + end


def _check_enclosure(bounds: Any, run: Run, solution: Any, ledger: Ledger) -> None:
    low, high, scale = bounds
    room = CLOSE * scale
    status = solution.status.value
    lower, upper = (Fraction(x) if math.isfinite(x) else x for x in (solution.value_lower, solution.value_upper))
    ledger.check("upper bound", run, upper >= low - room, f"at least {show(low)}", upper)
    ledger.check("lower bound", run, lower <= high + room, f"at most {show(high)}", lower)
    if status == "infeasible":
        ledger.check("feasible is found", run, low == -math.inf, f"a policy worth {low}", status)
    if high == -math.inf:
        fine = status in ("infeasible", "relaxed", "limit", "not_found")
        ledger.check("infeasible is found", run, fine, "infeasible", status)
    if status == "optimal":
        # how far the probabilities of bins can be wrong is part of the bounds
        stated = upper - lower
        ledger.check("optimal is optimal", run, lower >= low - room - stated, f"at least {show(low)}", lower)
