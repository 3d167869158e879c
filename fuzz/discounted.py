"""Checks of discounted problems: bounds from the first steps, and episodes that look for the worst case.

With g the discount and T steps of the model unrolled, the optimum is at most that of T steps plus g**T max(0, r) /
(1 - g), and at least that of T steps whose last limits leave room for everything that later steps can add, plus
g**T min(0, r) / (1 - g).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import solvent
from fuzz.answers import policy_and_report
from fuzz.generate import amount_of, fraction_of
from fuzz.ledger import Ledger, Run, show
from fuzz.oracles import TooLarge, exact_optimum
from fuzz.problems import Problem, Side, constant
from solvent.errors import LatticeOverflowError, ModelError, SolventError

#: Rewards of unrolled steps are rounded to doubles.
CLOSE = Fraction(1, 10**9)
EPISODES = 12
STEPS = 14
_ZERO = Fraction(0)


def limit_of(side: Side) -> Fraction | None:
    """Return a limit, which is the same at every step; None if there is none."""
    number = constant(side)
    return None if number is None else fraction_of(number)


def enclosure(problem: Problem, model: Any) -> tuple[Fraction | float, Fraction | float] | None:
    """Return bounds on the optimum; None if too many nodes would be needed."""
    assert problem.discount is not None
    g = fraction_of(problem.discount)
    rewards = [fraction_of(row.reward) for row in problem.rows]
    for steps in (10, 6, 4, 2, 1):
        tail = g**steps / (1 - g)
        unrolled = model.unrolled(steps)
        tight: dict[str, Any] = dict.fromkeys(problem.resources)
        loose: dict[str, Any] = dict.fromkeys(problem.resources)
        possible = True
        for name, limit in problem.limits.items():
            d = problem.resources.index(name)
            costs = [amount_of(o.cost[d]) for row in problem.rows for o in row.outcomes]
            upper = limit_of(limit.upper)
            lower = limit_of(limit.lower)
            most, least = tail * max([_ZERO, *costs]), tail * min([_ZERO, *costs])
            uppers = None if upper is None else [upper] * (steps - 1) + [upper - most]
            lowers = None if lower is None else [lower] * (steps - 1) + [lower - least]
            possible &= uppers is None or lowers is None or uppers[-1] >= lowers[-1]
            loose[name] = solvent.Budget(upper=upper, lower=lower)
            if possible:
                tight[name] = solvent.Budget(upper=uppers, lower=lowers)
        try:
            top = exact_optimum(unrolled, loose, 3000)
            bottom = exact_optimum(unrolled, tight, 3000) if possible else None
        except TooLarge:
            continue
        high = -math.inf if top.value is None else top.value + tail * max([_ZERO, *rewards])
        low = -math.inf if bottom is None or bottom.value is None else bottom.value + tail * min([_ZERO, *rewards])
        return low, high
    return None


def check(problem: Problem, rng: Random, ledger: Ledger, only: Run | None = None) -> None:
    """Check the guarantees of relaxed and strict policies of a discounted problem."""
    model = None
    with ledger.no_exception(Run("build", "build"), "build"):
        model, budget = problem.build()
    if model is None:
        return
    bounds = enclosure(problem, model)
    if bounds is None:
        ledger.skip("enclosure too large")
    for run in _runs(problem, rng) if only is None else [only]:
        _check_run(problem, model, budget, bounds, run, ledger)


def _runs(problem: Problem, rng: Random) -> Iterator[Run]:
    sizes = [abs(amount_of(cost)) for row in problem.rows for o in row.outcomes for cost in o.cost]
    size = max(sizes, default=Fraction(1)) or Fraction(1)
    epsilon = str(size * rng.choice([Fraction(1, 4), Fraction(1), Fraction(1, 20)]))
    for strict in (False, True):
        how = "strict" if strict else "relaxed"
        yield Run(f"discounted, {how}", options={"epsilon": epsilon, "strict": strict, "time_limit": 20})


def _check_run(problem: Problem, model: Any, budget: Any, bounds: Any, run: Run, ledger: Ledger) -> None:
    assert problem.discount is not None
    solution = None
    with ledger.no_exception(run):
        try:
            solution = solvent.solve(model, budget, **run.options)
        except LatticeOverflowError:
            ledger.skip("discounted costs beyond 64 bits")
        except SolventError as error:
            fine = isinstance(error, ModelError) and "64 bits" in str(error)
            ledger.check("ModelError has a reason", run, fine, "an answer", f"{type(error).__name__}: {error}")
    if solution is None:
        return
    status, strict = solution.status.value, run.options["strict"]
    allowed = {"feasible", "optimal", "infeasible", "limit", "not_found"} | (set() if strict else {"relaxed"})
    ledger.check("status", run, status in allowed, " or ".join(sorted(allowed)), status)
    scale = max((abs(fraction_of(row.reward)) for row in problem.rows), default=Fraction(0))
    room = CLOSE * scale / (1 - fraction_of(problem.discount))
    lower, upper = (Fraction(x) if math.isfinite(x) else x for x in (solution.value_lower, solution.value_upper))
    ledger.check("bounds in order", run, lower <= upper + room, "value_lower <= value_upper", (lower, upper))
    if bounds is not None:
        low, high = bounds
        ledger.check("upper bound", run, upper >= low - room, f"at least {show(low)}", upper)
        ledger.check("lower bound", run, lower <= high + room, f"at most {show(high)}", lower)
        if status == "optimal":
            ledger.check("optimal is optimal", run, lower >= low - room, f"at least {show(low)}", lower)
        if status == "infeasible":
            ledger.check("feasible is found", run, low == -math.inf, f"a policy worth {low}", status)
        if high == -math.inf:
            fine = status in ("infeasible", "relaxed", "limit", "not_found")
            ledger.check("infeasible is found", run, fine, "infeasible", status)
    policy, report = policy_and_report(model, budget, solution, run, ledger)
    if policy is None:
        return
    if report is not None:
        near = math.isfinite(solution.value) and abs(Fraction(report.value) - Fraction(solution.value)) <= room
        ledger.check("report: value", run, near, solution.value, report.value)
        ledger.check("report: feasible", run, report.feasible or status == "relaxed", "feasible", "over budget")
    allowance = Fraction(run.options["epsilon"]) if status == "relaxed" else Fraction(0)
    observed: list[tuple[Any, tuple[Fraction, ...]]] = []
    with ledger.no_exception(replace(run, observed=observed), "agent"):
        _check_episodes(problem, model, policy, allowance, run, ledger, observed)


def _check_episodes(
    problem: Problem,
    model: Any,
    policy: Any,
    allowance: Fraction,
    run: Run,
    ledger: Ledger,
    observed: list[tuple[Any, tuple[Fraction, ...]]],
) -> None:
    """Follow the agent along random outcomes, the costlier ones more often, and add up what it spends.

    What it is told in the current episode is in `observed`.
    """
    assert problem.discount is not None
    rng, g = Random("episodes"), fraction_of(problem.discount)
    by_key = {(row.state, row.action): row for row in problem.rows}
    acting = {row.state for row in problem.rows}
    for episode in range(EPISODES):
        observed.clear()
        agent = policy.agent(model)
        state, spent = problem.start, [Fraction(0)] * len(problem.resources)
        for step in range(STEPS):
            if state not in acting:
                break
            row = by_key[state, agent.act()]
            possible = [o for o in row.outcomes if fraction_of(o.probability)]
            key = [sum(map(amount_of, o.cost)) for o in possible]
            sign = 1 if episode % 2 else -1
            dear = max(range(len(possible)), key=lambda k: sign * key[k])
            outcome = possible[dear] if rng.random() < 0.5 else rng.choice(possible)
            # the agent observes undiscounted costs
            costs = tuple(amount_of(cost) for cost in outcome.cost)
            observed.append((outcome.next_state, costs))
            agent.observe(outcome.next_state, list(costs))
            spent = [a + g**step * b for a, b in zip(spent, costs, strict=True)]
            state = outcome.next_state
            for name, limit in problem.limits.items():
                x = spent[problem.resources.index(name)]
                upper, lower = limit_of(limit.upper), limit_of(limit.lower)
                over = [] if upper is None else [x - upper]
                over += [] if lower is None else [lower - x]
                most = max(over)
                here = run if most <= allowance else replace(run, observed=tuple(observed))
                ledger.check("budget kept", here, most <= allowance, f"excess of at most {allowance}", most)
