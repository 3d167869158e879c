"""Checks: run every applicable method on a problem and compare the answers with the oracles.

The contract, with V the optimum of the stored model and all comparisons in fractions:

- "optimal": value_lower <= V <= value_upper, no wider than 1e-9 of what optimal policies earn along the way; the policy
  never breaks a limit, and its value lies between the bounds.
- "within_gap", "feasible": the policy never breaks a limit and is worth at least value_lower; the bounds enclose V.
- "relaxed": value_upper >= V, and limits are broken by no more than was asked for.
- "infeasible" if and only if no policy keeps the budget; "limit": the bounds enclose V.
- Exceptions are subclasses of `SolventError`, and each has a reason that can be checked. Problems with saturation,
  goals, end rewards, several first states or initial amounts may be refused with a `ModelError`, except by the methods
  of `_ANSWERS`; refusals are counted by call and feature.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import numpy as np

import solvent
from fuzz import continuous, discounted
from fuzz.generate import amount_of, fraction_of, least_budget
from fuzz.ledger import Comparison, Ledger, Run, Watch, forced, show
from fuzz.metamorphic import check_metamorphic
from fuzz.oracles import (
    NODE_CAP,
    Optimum,
    Setting,
    TooLarge,
    Walk,
    backward_value,
    exact_optimum,
    optimum,
    overflows,
    walk,
)
from fuzz.problems import Distribution, Limit, Number, Problem
from fuzz.transforms import Relation
from solvent.errors import LatticeOverflowError, LimitError, ModelError, SolventError
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice

#: By contract, bounds of an optimal answer are no further apart than this, relative to the scale of the optimum.
WIDTH = Fraction(1, 10**9)
#: Bounds may allow for underflow besides, by an amount that does not depend on the rewards.
UNDERFLOW = Fraction(2) ** -960
#: Share of small problems that are also transformed, and the two answers compared.
METAMORPHIC_SHARE = 0.3
#: Tolerance for numbers that are only accurate to doubles, such as values in reports.
CLOSE = Fraction(1, 10**9)
#: Limits for a surface; costs of many digits have too many amounts.
_SURFACE = {"memory_limit": 50_000_000, "time_limit": 2.0}


@dataclass(frozen=True)
class Case:
    """A problem that was built, with the results of the oracles."""

    problem: Problem
    model: Any
    budget: dict[str, Any]
    limits: Any
    best: Optimum | None

    @property
    def spent(self) -> dict[str, Any] | None:
        """What has been spent before the first step."""
        return self.problem.given.get("spent")

    @property
    def one_sided(self) -> bool:
        """Whether one resource is limited on one side, as frontiers require."""
        limits = self.limits
        return len(limits.resources) == 1 and not (_any(limits.upper) and _any(limits.lower))

    @property
    def certain(self) -> bool:
        """Whether every row has one outcome."""
        return bool(self.model.n_rows == self.model.n_outcomes)

    @property
    def walk_cap(self) -> int:
        """Nodes of a policy that are followed one by one; fewer where there are many, as every method has one."""
        if self.best is None:
            return 0
        return NODE_CAP if self.best.nodes < 4000 else 1500

    @property
    def reward_reach(self) -> float:
        """A bound on sums of |reward|; infinity if it is too large for a double."""
        end = 0.0 if self.model.end_reward is None else float(np.abs(self.model.end_reward).max())
        with np.errstate(over="ignore"):
            return float(self.model.horizon * np.abs(self.model.row_reward).max()) + end

    def walk(self, policy: Any, budget: Any = None) -> Walk:
        """Follow a policy, under another budget if one is given."""
        return walk(self.model, self.budget if budget is None else budget, policy, self.walk_cap, self.spent)

    def overflows(self, budget: Any = None) -> bool:
        """Whether amounts have no common unit that fits, under another budget if one is given."""
        return overflows(self.model, self.budget if budget is None else budget, spent=self.spent)


def _any(sides: tuple[tuple[Fraction | None, ...], ...]) -> bool:
    return any(limit is not None for side in sides for limit in side)


def check_problem(
    problem: Problem,
    seed: int,
    slack: Fraction = Fraction(0),
    only: Run | None = None,
    watch: Watch | None = None,
) -> Ledger:
    """Run everything that applies to a problem.

    Parameters
    ----------
    problem : Problem
    seed : int
        Random seed of options such as epsilons.
    slack : Fraction
        Rounding forgiven in bounds, relative to the scale of the optimum.
    only : Run, optional
        Make just this call; for shrinking.
    watch : callable, optional
        Called when each call begins and ends.
    """
    ledger = Ledger(slack, watch=watch)
    if only is None or only.function != "metamorphic":
        _check_answers(problem, seed, ledger, only)
    if only is None:
        if _is_quick(problem) and Random(f"metamorphic-{seed}").random() < METAMORPHIC_SHARE:
            check_metamorphic(problem, seed, ledger, limit=1)
    elif only.function == "metamorphic":
        check_metamorphic(problem, seed, ledger, only=only)
    return ledger


def _is_quick(problem: Problem) -> bool:
    """Whether a problem is small enough to be solved several times, and takes part in all comparisons."""
    large = {"timed", "midsize", "actions", "reward_extreme"} & problem.tags
    return not large and problem.outcome_count <= 80 and (problem.horizon or 0) <= 6


def _check_answers(problem: Problem, seed: int, ledger: Ledger, only: Run | None) -> None:
    """Compare every call on a problem with the oracles."""
    rng = Random(f"checks-{seed}")
    if problem.horizon is None:
        discounted.check(problem, rng, ledger, only)
        return
    if any(isinstance(cost, Distribution) for row in problem.rows for o in row.outcomes for cost in o.cost):
        continuous.check(problem, rng, ledger, only)
        return
    build = Run("build", "build")
    model = None
    with ledger.no_exception(build, "build"):
        try:
            model, budget = problem.build()
        except ModelError as error:
            reach = problem.horizon * max(abs(float(Fraction(row.reward))) for row in problem.rows)
            holds = reach > 1e300 and "fit 64-bit floats" in str(error)
            ledger.check("ModelError has a reason", build, holds, "a model", error)
    if model is None or (only is not None and only.function == "build"):
        return
    limits = resolve(model, budget, problem.given.get("spent"))
    case = Case(problem, model, budget, limits, _best(problem, model, budget))
    if case.best is None:
        ledger.skip("no oracle takes the problem")
    for run in runs(case, rng) if only is None else [only]:
        _CHECKS[run.function](case, run, ledger)


def _best(problem: Problem, model: Any, budget: dict[str, Any]) -> Optimum | None:
    """Return the optimum; None if no oracle solves the problem in reasonable time."""
    if "timed" in problem.tags:  # so large on purpose
        return None
    return optimum(model, budget, 4000 if "midsize" in problem.tags else NODE_CAP, problem.given.get("spent"))


def runs(case: Case, rng: Random) -> Iterator[Run]:
    """Yield every call that applies to a problem."""
    if "timed" in case.problem.tags:
        for _ in range(4):
            seconds = round(math.exp(rng.uniform(math.log(0.05), math.log(0.8))), 3)
            yield Run("gap, time limit", options={"gap": rng.choice([1e-4, 1e-3, 0.01]), "time_limit": seconds})
        return
    yield Run("auto")
    yield Run("reduction", options={"method": "reduction"})
    yield Run("reduction, no pruning", options={"method": "reduction", "prune": False})
    yield Run("reduction, hashed", options={"method": "reduction"}, settings={"reduction.layers._GRID_KEYS": 0})
    if case.one_sided:
        yield Run("frontier", options={"method": "frontier"})
        yield Run("frontier, points", options={"method": "frontier"}, settings={"frontier.bounds.DENSE_WIDTH": -1})
        yield Run("frontier, arrays", options={"method": "frontier"}, settings={"frontier.bounds.DENSE_FROM": 0})
    if case.limits.resources:
        boxes = {"method": "grid", "memory_limit": "200MB"}
        yield Run("grid", options=boxes)
        yield Run("grid, threads", options=boxes, settings={"grid.sweep._PARALLEL_FROM": 0})
        layers = {"grid.solver._SMALL_STEP": 0, "grid.choice._NODE_WORK": rng.choice([0, 1, 100])}
        yield Run("auto, layers or boxes", settings=layers | {"grid.choice._SCAN_WORK": 0})
    if case.certain and case.limits.resources:
        yield Run("labels", options={"method": "labels"})
        narrow = {
            "labels.several._WIDTH": 1,
            "labels.several._WIDER": 2,
            "labels.several._TRIES": rng.choice([1, 4, 40]),
        }
        yield Run("labels, few", options={"method": "labels"}, settings=narrow)
    size = _size_of_costs(case.problem)
    for _ in range(2):
        method = rng.choice(["additive", "additive", "relative"])
        epsilon = rng.choice([Fraction(1, 2), Fraction(1), Fraction(3), Fraction(7, 3), Fraction(1, 10)])
        epsilon = epsilon * size if method == "additive" else min(epsilon / 4, Fraction(9, 10))
        for strict in (False, True):
            how = "strict" if strict else "relaxed"
            options = {"approximation": method, "epsilon": str(epsilon), "strict": strict}
            yield Run(f"{method}, {how}", options=options)
            if case.one_sided and rng.random() < 0.4:
                yield Run(f"{method}, {how}, not followed", options=options, settings={"frontier.solver.MAX_NODES": 0})
    # if amounts have no common unit that fits, halving need not terminate
    timed = {"time_limit": 2.0} if case.overflows() else {}
    yield Run("gap", options={"gap": rng.choice([0, 1e-4, 0.01, 0.1, 0.5])} | timed)
    if rng.random() < 0.4:
        # as if there were no time to follow a policy that was found, and no problem small enough to be solved at once
        unhurried = {"gap": rng.choice([0.01, 0.1, 0.5]), "time_limit": 2.0}
        without_time = {"transforms.gap._FIRST_TRY": 0, "transforms.gap._FOLLOW": 0}
        yield Run("gap, not followed", options=unhurried, settings=without_time)
    if rng.random() < 0.3:
        yield Run("gap, time limit", options={"gap": 1e-4, "time_limit": rng.choice([1e-4, 0.003, 0.01, 0.05])})
    if rng.random() < 0.2:
        yield Run("auto, time limit", options={"time_limit": rng.choice([1e-4, 0.003, 0.01])})
    yield Run("augment", "augment", {"prune": rng.random() < 0.7})
    if case.problem.resources and case.best is not None and case.best.nodes < 3000:
        name = rng.choice(case.problem.resources)
        yield Run("frontier curve", "frontier", {"resource": name})
        if len(case.problem.resources) > 1:
            yield Run("curve, other limits kept", "frontier", {"resource": name, "kept": True})
            yield Run("surface", "surface", {"resources": rng.sample(list(case.problem.resources), 2)})
        limit = case.problem.limits.get(name, Limit())
        if case.problem.features and limit.upper is not None and not isinstance(limit.upper, tuple):
            yield Run("curve of what remains", "remaining", {"resource": name, "limit": str(fraction_of(limit.upper))})
    if case.problem.resources and rng.random() < 0.3:
        yield Run("chance, delta 0", "chance", {"delta": 0})
    if case.best is not None and case.best.nodes < 3000 and (case.problem.features or rng.random() < 0.1):
        yield Run("any policy", "verify", {"seed": rng.randrange(1000)})
    if 1e-80 < case.reward_reach < 1e80:
        yield Run("scaled rewards", "scaled", {"exponent": rng.choice([-40, -7, 3, 20, 60])})


def _size_of_costs(problem: Problem) -> Fraction:
    sizes = [abs(amount_of(cost)) for row in problem.rows for o in row.outcomes for cost in o.cost]
    positive = sorted(size for size in sizes if size)
    return positive[len(positive) // 2].limit_denominator(1000) or Fraction(1) if positive else Fraction(1)


# ---------------------------------------------------------------------------------------------------------------------
# solve


def _check_solve(case: Case, run: Run, ledger: Ledger) -> None:
    solution = None
    with ledger.no_exception(run):
        try:
            with forced(run):
                solution = solvent.solve(case.model, case.budget, **case.problem.given, **run.options)
        except SolventError as error:
            if _refuses(case, run, error, ledger):
                return
            reason = _has_reason(case, run, error)
            name = f"{type(error).__name__} has a reason"
            ledger.check(name, run, reason, "an answer", f"{type(error).__name__}: {error}")
    if solution is not None:
        ledger.answer(run.label, case.problem.features)
        check_solution(case, run, solution, ledger)


#: Calls that take every problem, and how much of the label says which they are.
_ANSWERS = ("auto", "reduction", "gap", "additive", "relative", "augment")


def _refuses(case: Case, run: Run, error: SolventError, ledger: Ledger) -> bool:
    """Return whether a call refuses a problem for what it has besides rows and limits, and count it."""
    features = case.problem.features
    if not features or not isinstance(error, ModelError) or run.label.startswith(_ANSWERS):
        return False
    ledger.refuse(run.label, features)
    return True


def _has_reason(case: Case, run: Run, error: SolventError) -> bool:
    if isinstance(error, LatticeOverflowError):
        return case.overflows()
    if case.reward_reach > 1e306:
        return isinstance(error, ModelError)
    if run.options.get("method") == "grid" and "few enough for a grid" in str(error):
        ticks_D = np.abs(Lattice.fit(case.model, case.limits).cost_OD.astype(float)).max(axis=0, initial=0.0)
        return bool(np.prod(2 * case.model.horizon * ticks_D + 1) > 1e15)
    if isinstance(error, ModelError) and run.options.get("approximation") == "relative":
        limits = case.limits
        if any(limit == 0 for d in range(len(limits.resources)) for limit in limits.distinct(d)):
            return True
    if isinstance(error, ModelError) and "epsilon" in run.options and "fit 64 bits" in str(error):
        return _too_fine(case, run)
    return False


def _too_fine(case: Case, run: Run) -> bool:
    """Return whether sums of costs rounded to what epsilon allows come near 64 bits."""
    epsilon, horizon = Fraction(run.options["epsilon"]), case.model.horizon
    for d, name in enumerate(case.limits.resources):
        low, high = case.model.cost_range(case.model.resource_index(name))
        limits = [abs(limit) for limit in case.limits.distinct(d)]
        share = epsilon if run.options["approximation"] == "additive" else epsilon * min(limits) / (1 + epsilon)
        if (horizon * max(abs(low), abs(high)) + max(limits)) * horizon > share * 2**58:
            return True
    return False


def _bound(value: float) -> Fraction | float:
    return Fraction(value) if math.isfinite(value) else value


def check_solution(case: Case, run: Run, solution: Any, ledger: Ledger) -> None:
    """Check that a solution keeps the contract."""
    status = solution.status.value
    numbers = (solution.value, solution.value_lower, solution.value_upper)
    if not ledger.check("numbers", run, not any(math.isnan(x) for x in numbers), "no NaN", numbers):
        return
    allowed = _allowed_status(run)
    if "gap" in run.options and status == "not_found" and case.overflows():
        allowed |= {"not_found"}  # bounds need not meet if 64 bits cannot distinguish the amounts
    ledger.check("status", run, status in allowed, " or ".join(sorted(allowed)), f"{status}: {solution.message}")
    lower, upper = _bound(solution.value_lower), _bound(solution.value_upper)
    ledger.check("bounds in order", run, lower <= upper, "value_lower <= value_upper", (lower, upper))
    _check_bounds(case, run, status, lower, upper, ledger)
    if status == "infeasible":
        _check_diagnosis(case, run, solution, ledger)
        return
    if status in ("limit", "not_found"):
        return
    _check_policy(case, run, solution, ledger)


def _allowed_status(run: Run) -> set[str]:
    options = run.options
    stopped = {"limit"} if "time_limit" in options or "memory_limit" in options else set()
    if "gap" in options:
        return {"optimal", "within_gap", "infeasible"} | stopped | ({"feasible"} if stopped else set())
    if options.get("approximation") in ("additive", "relative"):
        strict = {"feasible", "optimal", "not_found", "infeasible"}
        return strict if options.get("strict") else {"relaxed", "optimal", "infeasible"}
    return {"optimal", "infeasible"} | stopped | ({"feasible"} if stopped else set())


def _check_bounds(
    case: Case, run: Run, status: str, lower: Fraction | float, upper: Fraction | float, ledger: Ledger
) -> None:
    best = case.best
    if best is None:
        return
    if best.value is None:
        fine = status in ("infeasible", "relaxed", "limit", "not_found")
        ledger.check("infeasible is found", run, fine, "infeasible", status)
        ledger.check("bounds of the infeasible", run, lower == -math.inf, "value_lower of minus infinity", lower)
        return
    if not ledger.check("feasible is found", run, status != "infeasible", f"value {show(best.value)}", status):
        return
    room = ledger.slack * best.scale + best.error
    ledger.check("lower bound", run, lower <= best.value + room, f"at most the optimum, {show(best.value)}", lower)
    ledger.check("upper bound", run, upper >= best.value - room, f"at least the optimum, {show(best.value)}", upper)
    if status == "optimal":
        width = math.inf if math.inf in (upper, -lower) else Fraction(upper) - Fraction(lower)
        # plain layers and rounded costs allow nodes from which limits cannot be kept, and what could be earned there
        # is in the bounds
        wider = not run.options.get("prune", True) or "epsilon" in run.options
        scale: Fraction | float = best.scale
        if wider and case.reward_reach > scale:
            scale = case.reward_reach
        most = WIDTH * scale + UNDERFLOW
        ledger.check("width of bounds", run, width <= most, f"at most {show(most)}", width)
        near = lower >= best.value - WIDTH * scale - best.error - UNDERFLOW
        ledger.check("optimal is optimal", run, near, f"the optimum, {show(best.value)}", lower)
    if status == "within_gap" and "gap" in run.options:
        asked = fraction_of(run.options["gap"])
        if math.inf in (upper, -lower):
            ledger.check("gap", run, False, f"at most {asked}", (lower, upper))
            return
        size = max(abs(Fraction(lower)), abs(Fraction(upper)))
        wide = Fraction(upper) - Fraction(lower)
        ledger.check("gap", run, wide <= (asked + WIDTH) * size, f"at most {asked} of {show(size)}", wide)


def _check_diagnosis(case: Case, run: Run, solution: Any, ledger: Ledger) -> None:
    if solution.diagnosis is None:
        return
    for name, least in solution.diagnosis.least_budget.items():
        limit = case.problem.limits[name]
        plain = limit.lower is None and not limit.final and not isinstance(limit.upper, tuple)
        if plain and least is not None:
            expected = least_budget(case.problem, case.problem.resources.index(name))
            # floats of a column may be read as binary values where the others are, which the plain data cannot know
            if expected is not None and "cost_long_floats" not in case.problem.tags:
                ledger.check("least budget", run, least == expected, expected, least)


def _check_policy(case: Case, run: Run, solution: Any, ledger: Ledger) -> None:
    status = solution.status.value
    policy = None
    with ledger.no_exception(run, "policy"):
        policy = solution.policy
    if policy is None:
        return
    done = None
    with ledger.no_exception(run, "walk"):
        try:
            done = case.walk(policy)
        except TooLarge:
            ledger.skip("policy too large to walk")
    report = None
    with ledger.no_exception(run, "verify"):
        try:
            report = solvent.verify(case.model, policy, case.budget, **case.problem.given, time_limit=30)
        except LimitError:
            ledger.skip("policy too large to verify")
    if done is None:
        if report is not None and status != "relaxed":
            ledger.check("verified", run, report.feasible, "feasible", "over budget")
        return
    room = ledger.slack * done.scale
    ledger.check("policy decides", run, done.stuck is None, "an action at every node", done.stuck)
    lower, upper = _bound(solution.value_lower), _bound(solution.value_upper)
    ledger.check(
        "policy is worth the lower bound", run, done.value >= lower - room, f"at least {show(lower)}", done.value
    )
    if status == "optimal":
        ledger.check("policy is worth no more", run, done.value <= upper + room, f"at most {show(upper)}", done.value)
    if case.best is not None and case.best.value is not None and not done.broken:
        most = case.best.value + case.best.error
        ledger.check("oracles agree", run, done.value <= most, f"at most the optimum, {show(most)}", done.value)
    close = CLOSE * done.scale
    value = _bound(solution.value)
    finite = math.isfinite(solution.value)
    ledger.check("value of the policy", run, finite and value <= done.value + close, done.value, solution.value)
    if status == "relaxed":
        _check_excess(case, run, done, ledger)
    else:
        ledger.check("budget kept", run, not done.broken, "no limit broken", {"most": done.most, "least": done.least})
    _check_worst(case, run, solution, done, ledger)
    if report is not None:
        check_report(run, report, done, ledger)
    _check_elsewhere(case, run, policy, ledger)
    if case.problem.features and done.stuck is None and not done.stopped:
        _check_episodes(case, run, policy, done, ledger)
        _check_agent(case, run, policy, done, ledger)


def _check_excess(case: Case, run: Run, done: Walk, ledger: Ledger) -> None:
    """Check the excess of a relaxed policy: an amount, or a share of the smallest limit."""
    epsilon, limits = Fraction(run.options["epsilon"]), case.limits
    for d, name in enumerate(limits.resources):
        every = [abs(limit) for side in (limits.upper[d], limits.lower[d]) for limit in side if limit is not None]
        room = epsilon if run.options["approximation"] == "additive" else epsilon * min(every)
        for h in range(case.model.horizon):
            upper, lower = limits.upper[d][h], limits.lower[d][h]
            over = [] if upper is None else [done.most[name][h] - upper]
            over += [] if lower is None else [lower - done.least[name][h]]
            most = max(over, default=Fraction(0))
            ledger.check("excess", run, most <= room, f"at most {room} of {name} after step {h}", most)


def _check_worst(case: Case, run: Run, solution: Any, done: Walk, ledger: Ledger) -> None:
    limits = case.limits
    ledger.check("worst spent names", run, set(solution.worst_spent) == set(limits.resources), limits.resources,
                 list(solution.worst_spent))  # fmt: skip
    for d, name in enumerate(limits.resources):
        worst, claimed = max(done.most[name]), solution.worst_spent.get(name)
        fits = claimed == worst if solution.worst_is_exact else claimed is not None and claimed >= worst
        ledger.check("worst spent", run, fits, worst, claimed)
        over = [Fraction(0)]
        for h in range(case.model.horizon):
            upper, lower = limits.upper[d][h], limits.lower[d][h]
            over += [] if upper is None else [done.most[name][h] - upper]
            over += [] if lower is None else [lower - done.least[name][h]]
        if name in solution.excess:
            fits = solution.excess[name] == max(over) if solution.worst_is_exact else solution.excess[name] >= max(over)
            ledger.check("excess as told", run, fits, max(over), solution.excess[name])


def check_report(run: Run, report: Any, done: Walk, ledger: Ledger) -> None:
    """Compare the verifier's report with the walk of the oracle."""
    ledger.check("report: feasible", run, report.feasible != done.broken, not done.broken, report.feasible)
    near = math.isfinite(report.value) and abs(Fraction(report.value) - done.value) <= CLOSE * done.scale
    ledger.check("report: value", run, near, done.value, report.value)
    if not done.stopped:
        most = {name: list(amounts) for name, amounts in report.worst_spent_by_step.items()}
        least = {name: list(amounts) for name, amounts in report.least_spent_by_step.items()}
        ledger.check("report: worst spent", run, most == done.most, done.most, most)
        ledger.check("report: least spent", run, least == done.least, done.least, least)
    chance = report.violation_probability
    if chance is not None:
        true = done.violation_probability
        # each product of probabilities may lose half of the least float above 0
        near = math.isfinite(chance) and abs(Fraction(chance) - true) <= CLOSE * true + Fraction(5e-324) * report.nodes
        ledger.check("report: violation probability", run, near, true, chance)
        ledger.check("report: possible is likely", run, (chance > 0) == done.broken, done.broken, chance)
    ledger.check("report: witness", run, (report.witness is None) == report.feasible, "a witness if infeasible",
                 report.witness is not None)  # fmt: skip


def _check_elsewhere(case: Case, run: Run, policy: Any, ledger: Ledger) -> None:
    """Verify the policy under a smaller budget than its own, which it may exceed."""
    if run.label not in ("auto", "frontier", "additive, relaxed") or not case.limits.resources:
        return
    name = case.limits.resources[0]
    limit = case.problem.limits[name]
    if isinstance(limit.upper, tuple) or limit.upper is None:
        return
    tighter = fraction_of(limit.upper) - _size_of_costs(case.problem)
    if limit.lower is not None and not isinstance(limit.lower, tuple) and tighter < fraction_of(limit.lower):
        return
    if isinstance(limit.lower, tuple) and any(x is not None and tighter < fraction_of(x) for x in limit.lower):
        return
    run = replace(run, limits={name: limit._replace(upper=tighter)})
    smaller = case.problem.with_(limits={**case.problem.limits, **run.limits}).budget()
    report = done = None
    with ledger.no_exception(run, "verify a smaller budget"):
        try:
            done = case.walk(policy, smaller)
        except TooLarge:
            return
        try:
            report = solvent.verify(case.model, policy, smaller, **case.problem.given)
        except LatticeOverflowError:
            if not case.overflows(smaller):
                raise
    if report is not None and done is not None:
        check_report(run, report, done, ledger)


# ---------------------------------------------------------------------------------------------------------------------
# episodes


def _check_episodes(case: Case, run: Run, policy: Any, done: Walk, ledger: Ledger) -> None:
    """Check that simulated episodes stay within what the oracle found possible."""
    found = None
    with ledger.no_exception(run, "simulate"):
        found = solvent.simulate(case.model, policy, 40, 1, case.budget, **case.problem.given)
    if found is None:
        return
    if not done.broken:
        ledger.check("simulated: violations", run, found.violations == 0, 0, found.violations)
    for name, most in done.most.items():
        top = found.max_spent.get(name)
        ledger.check("simulated: most spent", run, top is None or top <= max(most), max(most), top)
        for h, each in enumerate(found.distributions.get(name, ())):
            low, high = float(done.least[name][h]), float(most[h])
            room = 1e-9 * max(abs(low), abs(high))
            fits = low - room <= each.values.min() and each.values.max() <= high + room
            ledger.check("simulated: amounts", run, fits, (low, high), (each.values.min(), each.values.max()))
    if case.certain and len(case.model.start_states) == 1:
        near = all(abs(Fraction(reward) - done.value) <= CLOSE * done.scale for reward in set(found.rewards.tolist()))
        ledger.check("simulated: reward", run, near, done.value, sorted(set(found.rewards.tolist())))


class AnyPolicy:
    """A policy that chooses by lot, but always alike at the same node."""

    counting = ("exact",)

    def __init__(self, case: Case, seed: int) -> None:
        self.model, self.seed, self.resources = case.model, seed, case.model.resources
        self.spare = len(self.resources) == 1

    def action(self, step: int, state: Any, spent: Mapping[str, Fraction]) -> Any:
        """Return the action at a node."""
        rows = self.model.rows(step, self.model.state_index(state))
        key = f"{self.seed}-{step}-{state}-{[str(spent[name]) for name in self.resources]}"
        return self.model.actions[self.model.row_action[Random(key).choice(rows)]]

    def __call__(self, step: int, state: Any, spent: Any) -> Any:
        """Return the action for amounts as `verify` passes them."""
        return self.action(step, state, {self.resources[0]: spent} if self.spare else spent or {})


def _check_verify(case: Case, run: Run, ledger: Ledger) -> None:
    """Compare the verifier with the oracle on a policy that knows nothing of limits and goals."""
    policy = AnyPolicy(case, run.options["seed"])
    done = report = None
    with ledger.no_exception(run, "walk"):
        try:
            done = case.walk(policy)
        except TooLarge:
            ledger.skip("policy too large to walk")
    if done is None:
        return
    with ledger.no_exception(run, "verify"):
        try:
            report = solvent.verify(case.model, policy, case.budget, **case.problem.given)
        except LatticeOverflowError as error:
            ledger.check("LatticeOverflowError has a reason", run, case.overflows(), "a report", error)
        except ModelError as error:
            ledger.check("ModelError has a reason", run, case.reward_reach > 1e306, "a report", error)
    if report is not None:
        check_report(run, report, done, ledger)
        if case.problem.features:
            _check_episodes(case, run, policy, done, ledger)


def _check_agent(case: Case, run: Run, policy: Any, done: Walk, ledger: Ledger) -> None:
    """Follow the agent of a policy along random outcomes, with an account of its own beside it."""
    model, rng = case.model, Random(f"agent-{run.label}")
    observed: list[tuple[Any, tuple[Fraction, ...]]] = []
    setting = Setting.of(model, case.budget, spent=case.spent, everything=True)
    for _ in range(3):
        first = model.states[rng.choice(model.start_states.tolist())]
        state, spent, broken = model.state_index(first), setting.initial, False
        observed.clear()
        with ledger.no_exception(replace(run, observed=observed), "agent"):
            agent = policy.agent(state=first) if len(model.start_states) > 1 else policy.agent()
            for step in range(model.horizon):
                rows = setting.rows(step, state)
                ledger.check("agent: done", run, agent.done == (not rows), not rows, agent.done)
                if not rows or agent.done:
                    broken |= not setting.keeps_to_the_end(step, spent)
                    break
                if rng.random() < 0.3:
                    agent = policy.agent(snapshot=json.loads(json.dumps(agent.snapshot())))
                action = agent.act()
                row = next(row for row in rows if model.actions[row.action] == action)
                outcome = rng.choice(row.outcomes)
                state, spent = outcome.next_state, setting.plus(spent, outcome.cost)
                cost = setting.amounts(outcome.cost)
                observed.append((model.states[state], tuple(cost.values())))
                agent.observe(model.states[state], cost)
                tracked = {name: agent.spent[name] for name in policy.resources}
                known = {name: setting.amounts(spent)[name] for name in policy.resources}
                ledger.check("agent: spent", run, tracked == known, known, tracked)
                broken |= not setting.keeps(step, spent)
            strayed = setting.ends[state] is None
            fits = done.broken or not (broken or strayed)
            ledger.check("agent: safe", run, fits, "limits and goals kept", {"broken": broken, "strayed": strayed})


# ---------------------------------------------------------------------------------------------------------------------
# everything else


class _Asked(NamedTuple):
    """Amounts at which a curve or a surface is compared with the optimum.

    Attributes
    ----------
    at : Fraction or tuple of Fraction
        What `value` and `policy` are asked for.
    limits : dict of limits by resource
        Those of the problem that this stands for.
    spent : dict of Fraction by resource, or None
        What has been spent before its first step.
    """

    at: Any
    limits: dict[str, Any]
    spent: dict[str, Any] | None


def _check_curve(case: Case, run: Run, ledger: Ledger) -> None:
    """Compare a curve with the optimum at and around budgets where it rises; limits of others are ignored, or kept."""
    name = run.options["resource"]
    kept = {other: case.budget[other] for other in case.model.resources if other != name}
    fixed = kept if run.options.get("kept") else dict.fromkeys(case.model.resources)
    options = {"budget": kept, **_SURFACE} if run.options.get("kept") else {"ignore_limits": True}
    # the limit of a curve is the most that can be spent
    curve = _find(case, run, ledger, "curve", {**fixed, name: 0}, name, **options, **case.problem.given)
    if curve is not None:
        budgets = _around(curve.budgets, [(0,), (Fraction(-1, 1000),), (Fraction(1, 3),)], 6)
        asked = [
            _Asked(budget, {**fixed, name: budget}, case.spent)
            for (budget,) in budgets
            if budget <= curve.max_budget or curve.flat_beyond
        ]
        values = _compare_values(case, run, ledger, "curve", curve, asked)
        ledger.check("curve: monotone", run, values == sorted(values), "non-decreasing values", values)


def _check_surface(case: Case, run: Run, ledger: Ledger) -> None:
    """Compare a surface with the optimum at and around some of its efficient budgets."""
    names = run.options["resources"]
    if not set(names) <= set(case.model.resources):  # a smaller problem
        return
    free: dict[str, Any] = dict.fromkeys(case.model.resources)
    zero, options = {**free, **dict.fromkeys(names, 0)}, {"ignore_limits": True, **_SURFACE}
    surface = _find(case, run, ledger, "surface", zero, names, **options, **case.problem.given)
    if surface is None:
        return
    moves = [(0, 0), (Fraction(-1, 1000), 0), (0, Fraction(-1, 1000)), (Fraction(1, 3), Fraction(1, 7))]
    asked = [
        _Asked(pair, {**free, **dict(zip(names, pair, strict=True))}, case.spent)
        for pair in _around(surface.budgets, moves, 5)
        if all(b <= surface.max_budget[n] or surface.flat_beyond[n] for n, b in zip(names, pair, strict=True))
    ]
    _compare_values(case, run, ledger, "surface", surface, asked)
    table = surface.table
    rising = all(
        (table.take(range(1, table.shape[d]), d) >= table.take(range(table.shape[d] - 1), d)).all() for d in (0, 1)
    )
    ledger.check("surface: monotone", run, rising, "non-decreasing values", table.tolist())


def _check_remaining(case: Case, run: Run, ledger: Ledger) -> None:
    """Compare a curve over what remains before the first step with the optimum from that amount on."""
    name, limit = run.options["resource"], Fraction(run.options["limit"])
    budget = {**dict.fromkeys(case.model.resources), name: limit}
    curve = _find(case, run, ledger, "curve", budget, name, vary="remaining", budget=budget)
    if curve is None:
        return
    asked, resource = [], case.model.resource(name)
    for (left,) in _around(curve.budgets, [(0,), (Fraction(-1, 1000),), (Fraction(1, 3),)], 6):
        beyond = left < 0 or (left > curve.max_budget and not curve.flat_beyond)
        if resource.clamp(limit - left) == limit - left and not beyond:
            asked.append(_Asked(left, budget, {**(case.spent or {}), name: limit - left}))
    values = _compare_values(case, run, ledger, "remaining", curve, asked)
    ledger.check("remaining: monotone", run, values == sorted(values), "non-decreasing values", values)


def _find(case: Case, run: Run, ledger: Ledger, what: str, limits: dict[str, Any], *given: Any, **options: Any) -> Any:
    """Return a curve or a surface; None if it is refused for a reason, of which `limits` may be one, or too large."""
    with ledger.no_exception(run):
        try:
            found = solvent.frontier(case.model, *given, **options)
            ledger.answer(run.label, case.problem.features)
            return found
        except LimitError:
            ledger.skip(f"{what} too large")
        except LatticeOverflowError as error:
            ledger.check("LatticeOverflowError has a reason", run, case.overflows(limits), f"a {what}", error)
        except ModelError as error:
            if not _refuses(case, run, error, ledger):
                ledger.check("ModelError has a reason", run, case.reward_reach > 1e306, f"a {what}", error)
    return None


def _around(budgets: Any, moves: list[tuple[Any, ...]], most: int) -> list[tuple[Fraction, ...]]:
    """Return about `most` of the budgets at which a value rises, each also moved a little, and nothing at all."""
    points = [each if isinstance(each, tuple) else (each,) for each in budgets]
    picked = (
        points if len(points) <= most else [points[0], *points[1 : -1 : max(1, len(points) // (most - 2))], points[-1]]
    )
    moved = {tuple(a + x for a, x in zip(each, move, strict=True)) for each in picked for move in moves}
    return sorted(moved | {(Fraction(0),) * len(moves[0])})


def _compare_values(
    case: Case, run: Run, ledger: Ledger, what: str, found: Any, asked: Iterable[_Asked]
) -> list[float]:
    """Compare values and policies of a curve or a surface with the optimum; return the values."""
    values: list[float] = []
    for at, limits, spent in asked:
        try:
            best = exact_optimum(case.model, limits, 3000, spent)
        except TooLarge:
            ledger.skip(f"{what} too large")
            return values
        here = replace(run, options={**run.options, "remaining" if what == "remaining" else "budget": at})
        value = None
        with ledger.no_exception(here, f"{what} value"):
            value = found.value(at)
        if value is None:
            continue
        values.append(value)
        if best.value is None:
            ledger.check(f"{what}: infeasible", here, value == -math.inf, f"minus infinity at {at}", value)
            continue
        near = math.isfinite(value) and abs(Fraction(value) - best.value) <= Fraction(found.error)
        ledger.check(f"{what}: value", here, near, f"{show(best.value)} within {found.error} at {at}", value)
        done = None
        with ledger.no_exception(here, f"{what} policy"):
            policy = found.policy(at)
            try:
                # what remains may be finer than all other amounts; the policy is then for slightly less
                if what != "remaining" or not overflows(case.model, limits, spent=spent):
                    done = walk(case.model, limits, policy, case.walk_cap, spent)
            except TooLarge:
                ledger.skip("policy too large to walk")
        if done is not None:
            ledger.check(f"{what}: budget kept", here, not done.broken, "no limit broken", done.most)
            fits = done.value >= best.value - CLOSE * best.scale
            ledger.check(f"{what}: policy value", here, fits, best.value, done.value)
    return values


def _check_augment(case: Case, run: Run, ledger: Ledger) -> None:
    """Solve the augmented MDP by backward induction and compare."""
    mdp = None
    with ledger.no_exception(run):
        try:
            mdp = solvent.augment(case.model, case.budget, **case.problem.given, **run.options)
        except LatticeOverflowError as error:
            ledger.check("LatticeOverflowError has a reason", run, case.overflows(), "an MDP", error)
        except LimitError:
            ledger.skip("augmented MDP too large")
        except ModelError as error:
            if not _refuses(case, run, error, ledger):
                ledger.check("ModelError has a reason", run, case.reward_reach > 1e306, "an MDP", error)
    if mdp is None or case.best is None:
        return
    ledger.answer(run.label, case.problem.features)
    ledger.check("augment: feasible", run, mdp.feasible == case.best.feasible, case.best.feasible, mdp.feasible)
    if case.best.value is None or not mdp.feasible or case.reward_reach > 1e300:
        return
    value = backward_value(mdp)
    near = (
        abs(Fraction(value) - case.best.value) <= CLOSE * case.best.scale + case.best.error
        if math.isfinite(value)
        else False
    )
    ledger.check("augment: value", run, near, case.best.value, value)


def _check_chance(case: Case, run: Run, ledger: Ledger) -> None:
    """With a probability of 0, the chance-constrained optimum is the anytime-constrained one."""
    if case.best is None or case.best.nodes > 4000:
        return
    found = None
    given = case.problem.given
    if given and "spent" not in inspect.signature(solvent.baselines.chance).parameters:
        ledger.refuse(run.label, ("initial",))
        return
    with ledger.no_exception(run):
        try:
            found = solvent.baselines.chance(case.model, case.budget, **given, **run.options)
        except LatticeOverflowError as error:
            ledger.check("LatticeOverflowError has a reason", run, case.overflows(), "a policy",
                         error)  # fmt: skip
        except ModelError as error:
            if not _refuses(case, run, error, ledger):
                ledger.check("ModelError has a reason", run, case.reward_reach > 1e306, "a policy", error)
    if found is None:
        return
    ledger.answer(run.label, case.problem.features)
    status = found.status.value
    ledger.check("chance: feasible", run, (status == "infeasible") != case.best.feasible, case.best.feasible, status)
    if case.best.value is not None and status != "infeasible":
        near = math.isfinite(found.value) and abs(Fraction(found.value) - case.best.value) <= CLOSE * case.best.scale
        ledger.check("chance: value", run, near, case.best.value, found.value)


def scaled(problem: Problem, exponent: int) -> Problem:
    """Return the problem with all rewards times a power of two."""

    def times(reward: Number) -> float:
        return math.ldexp(float(reward if isinstance(reward, float) else Fraction(reward)), exponent)

    rows = tuple(row._replace(reward=times(row.reward)) for row in problem.rows)
    return problem.with_(rows=rows, end_reward={state: times(reward) for state, reward in problem.end_reward.items()})


def _check_scaled(case: Case, run: Run, ledger: Ledger) -> None:
    """Rewards times a power of two change values by that power and nothing else."""
    least = float(min(case.model.probability.min(), case.model.start_probability.min()))
    ends = case.model.end_reward
    earned = case.model.row_reward if ends is None else np.append(case.model.row_reward, ends)
    rewards = np.abs(earned[earned != 0])
    if least < 1e-20 or (len(rewards) and float(rewards.min()) < 1e-60):
        return  # products may be subnormal, where a power of two is not exact
    exponent = run.options["exponent"]
    methods = ["reduction", *(["frontier"] if case.one_sided else [])]
    methods += ["labels"] if case.certain and case.limits.resources else []
    changed = scaled(case.problem, exponent)
    for method in methods:
        if run.options.get("method", method) != method:  # repeats a comparison by another method
            continue
        here = replace(run, options={"exponent": exponent, "method": method})
        call = Run(method, options={"method": method})
        both = Comparison(case.problem, changed, call, call, Relation(exponent=exponent, exact=True))
        once = twice = None
        with ledger.no_exception(here, comparison=both):
            try:
                given = case.problem.given
                once = solvent.solve(case.model, case.budget, **given, **call.options)
                twice = solvent.solve(changed.build()[0], case.budget, **given, **call.options)
            except LatticeOverflowError:
                return
            except ModelError as error:
                if not _refuses(case, call, error, ledger):
                    raise
        if once is None or twice is None:
            continue
        ledger.check("scaled: status", here, once.status == twice.status, once.status.value, twice.status.value, both)
        for name in ("value", "value_lower", "value_upper"):
            expected = getattr(once, name)
            expected = math.ldexp(expected, exponent) if math.isfinite(expected) else expected
            found = getattr(twice, name)
            same = expected == found
            if math.isfinite(expected) and math.isfinite(found):  # what bounds allow for underflow is not scaled
                same = same or abs(Fraction(expected) - Fraction(found)) <= UNDERFLOW
            ledger.check(f"scaled: {name}", here, same, f"{expected!r} by {method}", repr(found), both)
        ledger.check("scaled: worst spent", here, once.worst_spent == twice.worst_spent, once.worst_spent,
                     twice.worst_spent, both)  # fmt: skip


_CHECKS = {
    "solve": _check_solve,
    "augment": _check_augment,
    "frontier": _check_curve,
    "surface": _check_surface,
    "chance": _check_chance,
    "scaled": _check_scaled,
    "verify": _check_verify,
    "remaining": _check_remaining,
}
