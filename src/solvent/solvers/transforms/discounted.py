"""Planning without a last step: so many steps are planned, and what comes after is bounded.

With discount g, all steps after the first T can add at most g^T max(0, c_max) / (1 - g) to what is spent. Two answers:

relaxed   half of epsilon is left for the tail, which decides T (the paper's effective horizon), and what the tail does
          not use of it for rounding. After T steps the rule of the best reward takes over, and its worth counts in the
          plan. Every policy that keeps the budget for ever keeps it for T steps, and earns no more after them than that
          rule does. So the policy is worth at least the optimum, and it is never over by more than epsilon.
strict    the last planned step chooses a rule to follow for ever and pays at once all that this rule can ever spend.
          A policy that keeps the budget in that finite model keeps it for ever. What is set aside shrinks as T grows,
          so T is doubled where there is no room for it; where there would be but for the rounding, that is made finer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from solvent.core.limits import REACHED, ResourceMonitor, read_memory, read_seconds, reason_of
from solvent.core.progress import Progress
from solvent.errors import BudgetError, LatticeOverflowError, ModelError, did_you_mean, quote
from solvent.model.amounts import as_typed, short_amount
from solvent.model.budget import Budget, BudgetLike, Limits, resolve
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP, constant_limits
from solvent.model.validation import MAX_HORIZON
from solvent.policy.discounted import DiscountedPolicy
from solvent.policy.tail import TailRule, close
from solvent.solvers.solution import Solution, Stats, Status
from solvent.solvers.transforms.rounding import read_epsilon
from solvent.solvers.transforms.tail import Rules, Tail, make_rules

METHODS = ("auto", "additive", "reduction", "frontier")
#: How often a strict solve is tried, each time with twice the steps or half the rounding, before it gives up.
ATTEMPTS = 4
#: A rule is as good as the best one if no state could earn more than this, relative to the largest worth of any.
_SAME_VALUE = 1e-12

Sides = tuple[Fraction | None, Fraction | None]


@dataclass(frozen=True)
class _Task:
    """What was asked for.

    Attributes
    ----------
    limits : dict of str to (Fraction or None, Fraction or None)
        Upper and lower limit of each limited resource.
    epsilons : dict of str to Fraction
    method : str
        "additive", or an exact one, with which nothing is rounded.
    options : dict
        Whether to `prune`, as `solve` takes it.
    monitor : ResourceMonitor
    """

    model: DiscountedCMDP
    limits: dict[str, Sides]
    epsilons: dict[str, Fraction]
    method: str
    options: dict[str, Any]
    monitor: ResourceMonitor = field(default_factory=ResourceMonitor)

    def steps(self) -> int:
        """Return the effective horizon: the least T after which the tail is at most half of each epsilon."""
        result = 1
        for name, (upper, lower) in self.limits.items():
            low, high = self.model.tail_range(name, 0)
            for side, total in ((upper, high), (lower, None if low is None else -low)):
                if side is not None and total is not None:
                    result = max(result, self.model.steps_until(self.epsilons[name] / 2, total))
        return result

    def rounding(self, steps: int) -> dict[str, Fraction]:
        """Return what the tail leaves of each epsilon, in whole 64ths of it, as the tail has a great many digits."""
        left = {}
        for name, epsilon in self.epsilons.items():
            low, high = self.model.tail_range(name, steps)
            upper, lower = self.limits[name]
            used = [high] if upper is not None else []
            used += [-low] if lower is not None and low is not None else []
            left[name] = epsilon / 64 * max(32, (64 * (epsilon - max(used))) // epsilon)
        return left

    def budgets(self, steps: int, *, strict: bool) -> dict[str, Budget | None]:
        """Return the limits of a closed model: the same after all steps; if not strict, with room for the tail."""
        budgets: dict[str, Budget | None] = dict.fromkeys(self.model.resources)
        for name, (upper, lower) in self.limits.items():
            room = Fraction(0) if strict else self.epsilons[name] / 2
            uppers = None if upper is None else [upper] * steps + [upper + room]
            lowers = None if lower is None else [lower] * steps + [lower - room]
            budgets[name] = Budget(upper=uppers, lower=lowers)
        return budgets


def solve_discounted(
    model: DiscountedCMDP,
    budget: BudgetLike | None = None,
    *,
    method: str = "auto",
    epsilon: Any = None,
    strict: bool = False,
    gap: Any = None,
    prune: bool = True,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    progress: bool = False,
) -> Solution:
    """Plan for a discounted model; `solvent.solve` calls this. See there for the parameters.

    Parameters
    ----------
    method : {"auto", "additive", "reduction", "frontier"}
        "additive", which is also "auto", rounds costs; the exact methods do not, and may then need more than 64 bits.
    epsilon : number, or dict of them by resource
        By how much the policy may ever be over; with `strict`, how finely is planned.

    Raises
    ------
    ModelError
        If there is no epsilon, or a lower limit on a resource whose costs are not bounded below.

    Examples
    --------
    >>> b = CMDP.builder(horizon=None, discount="1/2", start="home", resources=["fuel"], budget=3)
    >>> b.add("home", "go", reward=1, outcomes=[(1, "home", 2)])
    >>> b.add("home", "rest", outcomes=[(1, "home")])
    >>> solution = solve_discounted(b.build(), epsilon=0.25, strict=True)
    >>> solution.status.value, solution.value, solution.worst_spent["fuel"] <= 3
    ('feasible', 1.5, True)
    """
    began = time.perf_counter()
    if method not in METHODS:
        raise ModelError(
            "method",
            f"one of {', '.join(METHODS)} for a discounted model",
            quote(method),
            did_you_mean(method, METHODS),
        )
    if gap is not None:
        raise ModelError("gap", "epsilon= for a discounted model, which has no last step", f"gap={quote(gap)}")
    limits = read_limits(model, budget)
    if epsilon is None:
        raise ModelError("epsilon", "how far a policy of a discounted model may be off", "none", "pass epsilon=...")
    known = Limits(tuple(limits), ((None,),) * len(limits), ((None,),) * len(limits))
    epsilons = dict(zip(limits, read_epsilon(epsilon, known), strict=True))
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    chosen = "additive" if method == "auto" else method
    with Progress(show=progress) as bar, ResourceMonitor(seconds, memory, bar.report if progress else None, began) as m:
        task = _Task(model, limits, epsilons, chosen, {"prune": prune}, m)
        try:
            rules = make_rules(model, limits, m)
            solution = _relaxed(task, rules)
            if strict and solution.status is Status.RELAXED:
                solution = _strict(task, rules, solution)
        except REACHED as reached:
            solution = _stopped(task, reason_of(reached))
    return replace(solution, stats=replace(solution.stats, seconds=time.perf_counter() - began))


def _stopped(task: _Task, reason: str) -> Solution:
    """Return the answer that a limit was reached before the planned steps were planned."""
    most = max(float(task.model.base.row_reward.max(initial=0.0)), 0.0) / float(1 - task.model.discount)
    message = f"stopped: {reason}; raise the limit, or epsilon"
    stats = Stats(0.0, 0, (), None, task.monitor.peak, "nodes")
    return Solution(Status.LIMIT, -math.inf, -math.inf, most * (1 + 2.0**-50), {}, task.method, message, stats)


def read_limits(model: DiscountedCMDP, budget: BudgetLike | None) -> dict[str, Sides]:
    """Return the upper and lower limit, for all time, of each resource that has one.

    Raises
    ------
    BudgetError
        If limits vary by step, there is no budget, or a lower limit can never be kept for sure.
    """
    if budget is None and model.budget is None:
        raise BudgetError("budget", "a budget", "none", "the model carries no default: pass budget=...")
    limits = constant_limits(model.budget if budget is None else budget, model.resources)  # type: ignore[arg-type]
    for name, (_, lower) in limits.items():
        if lower is not None and model.tail_range(name, 0)[0] is None:
            raise BudgetError(
                f"budget, {name}", "no lower limit, as its costs are not bounded below", f"at least {as_typed(lower)}"
            )
    return limits


def plan_finite(
    closed: CMDP, budgets: dict[str, Budget | None], epsilons: dict[str, Fraction], strict: bool, task: _Task
) -> Solution:
    """Solve the planned steps, and one more for the tail, as a problem with a last step."""
    from solvent.solvers.solve import solve_within

    limits = resolve(closed, budgets)
    if task.method != "additive":
        return solve_within(closed, limits, task.monitor, method=task.method, **task.options)
    return solve_within(
        closed, limits, task.monitor, method="additive", epsilon=epsilons or 1, strict=strict, **task.options
    )


def _relaxed(task: _Task, rules: Rules) -> Solution:
    model, steps = task.model, task.steps()
    used = rules.rules[:1]
    try:
        closed = close(model, steps, used, task.monitor)
        finite = plan_finite(closed, task.budgets(steps, strict=False), task.rounding(steps), False, task)
    except REACHED as reached:
        finite = _stopped(task, reason_of(reached))
    zero = Fraction(0)
    ranges = {name: model.tail_range(name, steps) for name in task.limits}
    cost = {name: high for name, (_, high) in ranges.items() if task.limits[name][0] is not None}
    refund = {name: -(low or zero) for name, (low, _) in ranges.items() if task.limits[name][1] is not None}
    tail = _tail(model, steps, used, rules, cost, refund)
    slack = float(model.discount**steps) * rules.slack
    upper = finite.value_upper + slack
    if finite.status in (Status.INFEASIBLE, Status.LIMIT):
        message = f"{finite.message} (in the first {steps} steps of a model without a last one)"
        return replace(finite, value_upper=upper, message=message, tail=tail)
    excess = {
        name: _excess(finite.worst_spent[name], sides, finite.excess[name], refund.get(name, zero))
        for name, sides in task.limits.items()
    }
    over = {name: amount for name, amount in excess.items() if amount > 0}
    if over:
        status = Status.RELAXED
        most = ", ".join(f"{name} {short_amount(amount)}" for name, amount in over.items())
        worth = "at least the optimum" if _is_best(rules) else f"at least the optimum, up to {slack:.2g}"
        message = f"relaxed: worth {worth}, and never over by more than {most}"
    elif _is_best(rules):
        status = Status.OPTIMAL
        message = "optimal: worth at least the optimum, and it is never over"
    else:
        status = Status.FEASIBLE
        message = "feasible: never over, and close to the optimum"
    return replace(
        finite,
        status=status,
        value_lower=-math.inf if over else finite.value_lower - float(model.discount**steps) * rules.shortfall,
        value_upper=upper,
        message=f"{message}; {_describe(tail)}",
        excess=excess,
        tail=tail,
        _make_policy=_maker(task, finite, used),
    )


def _is_best(rules: Rules) -> bool:
    """Whether the best rule for the tail is known to be worth as much as any, up to rounding."""
    return rules.slack <= _SAME_VALUE * rules.size


def _excess(worst: Fraction, sides: Sides, finite: Fraction, refund: Fraction) -> Fraction:
    """Return by how much limits can be broken: `worst` has the tail in it, `finite` leaves room for it."""
    upper, lower = sides
    over = Fraction(0) if upper is None else max(Fraction(0), worst - upper)
    return over if lower is None else max(over, finite + refund)


def _strict(task: _Task, rules: Rules, relaxed: Solution) -> Solution:
    """Plan with all that a rule can spend set aside, with more steps or finer rounding until there is room for it."""
    steps, share = task.steps(), Fraction(1)
    reason = ""
    for attempt in range(ATTEMPTS):
        used = task.monitor.used
        epsilons = {name: share * left for name, left in task.rounding(steps).items()}
        reason = f"{steps} planned steps" + (f", epsilon {float(share):g} of that asked for" if share < 1 else "")
        try:
            closed = close(task.model, steps, rules.rules, task.monitor)
            finite = plan_finite(closed, task.budgets(steps, strict=True), epsilons, True, task)
        except REACHED as reached:
            reason += f": {reason_of(reached)}"
            break
        except (LatticeOverflowError, ModelError) as error:
            if attempt == 0:
                raise
            reason += f": {error}"  # no finer numbers than these fit
            break
        if finite.status not in (Status.INFEASIBLE, Status.LIMIT):
            return _reserved(task, rules, relaxed, finite, steps)
        reason += f": {finite.message}"
        if finite.status is Status.LIMIT and not finite.stats.nodes:  # out of time or memory
            break
        del closed
        task.monitor.release(task.monitor.used - used)
        if finite.status is Status.INFEASIBLE and 2 * steps < MAX_HORIZON:
            steps *= 2
        else:
            share /= 2
    message = (
        f"stopped: no policy was found that is never over, for ever, though there may be one; use a smaller epsilon; "
        f"the last attempt: {reason}"
    )
    return replace(
        relaxed, status=Status.LIMIT, value=-math.inf, value_lower=-math.inf, worst_spent={}, excess={},
        message=message, _make_policy=None,
    )  # fmt: skip


def _reserved(task: _Task, rules: Rules, relaxed: Solution, finite: Solution, steps: int) -> Solution:
    model = task.model
    scale = model.discount**steps
    zero, cost, refund = Fraction(0), {}, {}
    for name, (upper, lower) in task.limits.items():
        d = model.base.resource_index(name)
        if upper is not None:
            cost[name] = scale * max(max(rule.most_DS[d]) for rule in rules.rules)
        if lower is not None:
            refund[name] = -scale * min(min(rule.least_DS[d] or [zero]) for rule in rules.rules)
    tail = _tail(model, steps, rules.rules, rules, cost, refund)
    worth = finite.value_lower - float(scale) * rules.shortfall
    # both answers are off by rounding, and no more than that keeps the bounds apart
    noise = relaxed.value_upper - relaxed.value + finite.value - worth
    met = _is_best(rules) and relaxed.value_upper - worth <= 2 * noise
    status = Status.OPTIMAL if met else Status.FEASIBLE
    return replace(
        finite,
        status=status,
        value_lower=worth,
        value_upper=max(relaxed.value_upper, finite.value),
        message=f"{status.value}: never over, for ever; {_describe(tail)}, which is set aside",
        excess=dict.fromkeys(task.limits, zero),
        tail=tail,
        _make_policy=_maker(task, finite, rules.rules),
    )


def _tail(
    model: DiscountedCMDP,
    steps: int,
    used: tuple[TailRule, ...],
    rules: Rules,
    cost: dict[str, Fraction],
    refund: dict[str, Fraction],
) -> Tail:
    scale = float(model.discount**steps)
    low = min(float(rule.value_S.min()) for rule in used) - rules.shortfall
    return Tail(steps, cost, refund, scale * low, scale * (float(rules.rules[0].value_S.max()) + rules.slack))


def _describe(tail: Tail) -> str:
    parts = [f"{short_amount(amount)} of {name}" for name, amount in tail.cost.items()]
    parts += [f"a refund of {short_amount(amount)} of {name}" for name, amount in tail.refund.items()]
    adds = " and ".join(parts) or "nothing limited"
    return f"{tail.steps} steps are planned, and the tail after them adds at most {adds}"


def _maker(task: _Task, finite: Solution, used: tuple[TailRule, ...]) -> Callable[[], Any]:
    def make_policy() -> DiscountedPolicy:
        return DiscountedPolicy(finite.policy, used, task.model.discount, task.limits, task.model)

    return make_policy
