"""Discounted models: T steps are solved as a model with a last step, and the tail after them is bounded.

With discount g, all steps after the first T can add at most g^T max(0, c_max) / (1 - g) to what is spent. Two answers:

relaxed   half of epsilon is for the tail, which determines T (the paper's effective horizon), and the rest for
          rounding. After T steps the rule of the best reward takes over, and its value counts in the plan. Every policy
          that keeps the budget forever keeps it for T steps, and earns no more after them than that rule. So the policy
          is worth at least the optimum, and never exceeds the budget by more than epsilon.
strict    the last planned step chooses a rule to follow forever and pays at once all that this rule can ever spend.
          A policy that keeps the budget in that finite model keeps it forever. The amount set aside shrinks as T grows,
          so T is doubled if the model is infeasible with it, and rounding is made finer if only rounding prevents it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from solvent.core.limits import REACHED, ResourceMonitor, reason_of
from solvent.errors import BudgetError, LatticeOverflowError, ModelError, quote
from solvent.model.amounts import as_typed, short_amount
from solvent.model.budget import Budget, BudgetLike, Limits, resolve
from solvent.model.consistency import MAX_HORIZON
from solvent.model.discounted import DiscountedCMDP, constant_limits
from solvent.policy.discounted import DiscountedPolicy
from solvent.policy.tail import TailRule, close
from solvent.solvers.finite import Request, solve_finite
from solvent.solvers.registry import AUTO
from solvent.solvers.solution import FoundPolicy, Solution, Stats, Status, Tail
from solvent.solvers.transforms.base import BudgetedModel
from solvent.solvers.transforms.rounding import EpsilonLike, read_epsilon
from solvent.solvers.transforms.tail import Rules, make_rules

#: Number of attempts of a strict solve, each with twice the steps or half the rounding of the last.
ATTEMPTS = 4
#: A rule counts as the best if no state could earn more than this, relative to the largest value.
_SAME_VALUE = 1e-12

Sides = tuple[Fraction | None, Fraction | None]


@dataclass(frozen=True)
class _Task:
    """A discounted model with its limits, and how to solve it.

    Attributes
    ----------
    limits : dict of str to (Fraction or None, Fraction or None)
        Upper and lower limit of each limited resource.
    epsilons : dict of str to Fraction
    request : Request
        How the planned steps are solved; nothing is rounded unless its approximation is "additive".
    monitor : ResourceMonitor
    """

    model: DiscountedCMDP
    limits: dict[str, Sides]
    epsilons: dict[str, Fraction]
    request: Request
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
        """Return the part of each epsilon that the tail leaves, in 64ths of it, since the tail has very many digits."""
        left = {}
        for name, epsilon in self.epsilons.items():
            low, high = self.model.tail_range(name, steps)
            upper, lower = self.limits[name]
            used = [high] if upper is not None else []
            used += [-low] if lower is not None and low is not None else []
            left[name] = epsilon / 64 * max(32, (64 * (epsilon - max(used))) // epsilon)
        return left

    def budgets(self, steps: int, *, strict: bool) -> dict[str, Budget | None]:
        """Return the limits of a closed model: the same after all steps; if not strict, wider for the tail."""
        budgets: dict[str, Budget | None] = dict.fromkeys(self.model.resources)
        for name, (upper, lower) in self.limits.items():
            tail = Fraction(0) if strict else self.epsilons[name] / 2
            uppers = None if upper is None else [upper] * steps + [upper + tail]
            lowers = None if lower is None else [lower] * steps + [lower - tail]
            budgets[name] = Budget(upper=uppers, lower=lowers)
        return budgets


def solve_discounted(
    model: DiscountedCMDP, budget: BudgetLike | None, request: Request, monitor: ResourceMonitor
) -> Solution:
    """Solve a discounted model; `solvent.solve` calls this.

    Costs are rounded (`approximation="additive"`) unless a method is asked for by name and no approximation; then
    they are counted exactly, which may need more than 64 bits.

    Raises
    ------
    ModelError
        If there is no epsilon, or a lower limit on a resource whose costs are not bounded below.
    """
    if request.approximation not in (None, "additive"):
        raise ModelError(
            "approximation", 'approximation="additive" for a discounted model', quote(request.approximation)
        )
    if request.gap is not None:
        raise ModelError("gap", "epsilon= for a discounted model, which has no last step", f"gap={request.gap:g}")
    limits = read_limits(model, budget)
    if request.epsilon is None:
        raise ModelError(
            "epsilon", "epsilon=, an accuracy that discounted models require, as an amount of each resource", "none"
        )
    epsilons = _read_epsilons(request.epsilon, limits)
    if request.method == AUTO:
        request = replace(request, approximation="additive")
    task = _Task(model, limits, epsilons, request, monitor)
    try:
        rules = make_rules(model, limits, monitor)
        solution = _relaxed(task, rules)
        if request.strict and solution.status is Status.RELAXED:
            solution = _strict(task, rules, solution)
    except REACHED as reached:
        solution = _stopped(task, reason_of(reached))
    return replace(solution, approximation=request.approximation)


def _read_epsilons(epsilon: EpsilonLike, limits: dict[str, Sides]) -> dict[str, Fraction]:
    known = Limits(tuple(limits), ((None,),) * len(limits), ((None,),) * len(limits))
    return dict(zip(limits, read_epsilon(epsilon, known), strict=True))


def _larger(strict: bool) -> str:
    """Return the advice to raise epsilon, with what that means."""
    return "epsilon" if strict else "epsilon, by which the policy may exceed the budget"


def _stopped(task: _Task, reason: str) -> Solution:
    """Return the answer that a limit was reached before the planned steps were solved."""
    most = max(float(task.model.base.row_reward.max(initial=0.0)), 0.0) / float(1 - task.model.discount)
    stats = Stats.none(task.monitor.peak)
    return Solution.limit(
        task.request.method,
        stats,
        most * (1 + 2.0**-50),
        f"{reason}; raise the limit, or {_larger(task.request.strict)}",
    )


def read_limits(model: DiscountedCMDP, budget: BudgetLike | None) -> dict[str, Sides]:
    """Return the upper and lower limit of each limited resource.

    Raises
    ------
    BudgetError
        If limits vary by step, there is no budget, or a lower limit can never be guaranteed.
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


@dataclass(frozen=True)
class PlannedSteps(BudgetedModel):
    """The planned steps of a discounted model, and one more for the tail, as a model with a last step."""

    task: _Task


@dataclass(frozen=True)
class Discounting:
    """A transform: planned steps, followed forever by a rule, instead of a model without a last step.

    Attributes
    ----------
    rules : Rules
        The rules that the planned steps can end with. A relaxed answer uses only the first.
    steps : int
        Number of planned steps.
    relaxed : Solution or None
        For a strict answer, which sets aside all that a rule can spend: the relaxed one, which bounds the optimum.
    """

    rules: Rules
    steps: int
    relaxed: Solution | None = None

    @property
    def strict(self) -> bool:
        """Whether the policy never exceeds the budget."""
        return self.relaxed is not None

    @property
    def used(self) -> tuple[TailRule, ...]:
        """The rules that the last step chooses from."""
        return self.rules.rules if self.strict else self.rules.rules[:1]

    def apply(self, given: _Task, monitor: ResourceMonitor) -> PlannedSteps:
        """Return the planned steps with limits that leave room for the tail; their memory stays reserved."""
        closed = close(given.model, self.steps, self.used, monitor)
        return PlannedSteps(closed, resolve(closed, given.budgets(self.steps, strict=self.strict)), given)

    def invert(self, made: PlannedSteps, answer: Solution) -> Solution:
        """Return the answer for the discounted model, given the one for the planned steps."""
        if not answer.status.has_policy:
            return self.without_policy(made.task, answer)
        return self._set_aside(made.task, answer) if self.strict else self._relax(made.task, answer)

    def without_policy(self, given: _Task, answer: Solution) -> Solution:
        """Return the answer for the discounted model if the planned steps have none, or could not be made."""
        message = f"{answer.message} (in the first {self.steps} steps of a model without a last one)"
        return replace(
            answer, value_upper=answer.value_upper + self._slack(given), message=message, tail=self.tail(given)
        )

    def tail(self, given: _Task) -> Tail:
        """Return bounds on what the tail adds after the planned steps."""
        model, zero = given.model, Fraction(0)
        scale = model.discount**self.steps
        cost: dict[str, Fraction] = {}
        refund: dict[str, Fraction] = {}
        for name, (upper, lower) in given.limits.items():
            d = model.base.resource_index(name)
            least, most = model.tail_range(name, self.steps)
            if upper is not None:
                cost[name] = scale * max(max(rule.most_DS[d]) for rule in self.used) if self.strict else most
            if lower is not None:
                set_aside = -scale * min(min(rule.least_DS[d] or [zero]) for rule in self.used)
                refund[name] = set_aside if self.strict else -(least or zero)
        low = min(float(rule.value_S.min()) for rule in self.used) - self.rules.shortfall
        high = float(self.rules.rules[0].value_S.max()) + self.rules.slack
        return Tail(self.steps, cost, refund, float(scale) * low, float(scale) * high)

    def _slack(self, given: _Task) -> float:
        """Return the most by which the tail of an optimal policy is worth more than the first rule's computed value."""
        return float(given.model.discount**self.steps) * self.rules.slack

    def _lower(self, given: _Task, answer: Solution) -> float:
        """Return a lower bound on the value of the policy with its tail."""
        return answer.value_lower - float(given.model.discount**self.steps) * self.rules.shortfall

    def _relax(self, given: _Task, answer: Solution) -> Solution:
        tail, slack = self.tail(given), self._slack(given)
        upper, lower = answer.value_upper + slack, self._lower(given, answer)
        excess = {
            name: _excess(answer.worst_spent[name], sides, answer.excess[name], tail.refund.get(name, Fraction(0)))
            for name, sides in given.limits.items()
        }
        over = {name: amount for name, amount in excess.items() if amount > 0}
        found = self._followed_by_rules(given, answer, excess)
        if over:
            most = ", ".join(f"{name} {short_amount(amount)}" for name, amount in over.items())
            worth = "at least the optimum" if _is_best(self.rules) else f"at least the optimum, up to {slack:.2g}"
            message = f"worth {worth}, and never over budget by more than {most}; {_describe(tail)}"
            return replace(Solution.relaxed(found, upper, message), tail=tail)
        if _is_best(self.rules):
            message = f"worth at least the optimum, and never over budget; {_describe(tail)}"
            return replace(Solution.optimal(found, lower, upper, message), tail=tail)
        message = f"never over budget, and close to the optimum; {_describe(tail)}"
        return replace(Solution.feasible(found, lower, upper, message), tail=tail)

    def _set_aside(self, given: _Task, answer: Solution) -> Solution:
        assert self.relaxed is not None
        tail, worth, above = self.tail(given), self._lower(given, answer), self.relaxed.value_upper
        # the bounds have met if only the rounding errors of both answers keep them apart
        noise = above - self.relaxed.value + answer.value - worth
        met = _is_best(self.rules) and above - worth <= 2 * noise
        make = Solution.optimal if met else Solution.feasible
        found = self._followed_by_rules(given, answer, dict.fromkeys(given.limits, Fraction(0)))
        message = f"never over budget; {_describe(tail)}, which is set aside"
        return replace(make(found, worth, max(above, answer.value), message), tail=tail)

    def _followed_by_rules(self, given: _Task, answer: Solution, excess: dict[str, Fraction]) -> FoundPolicy:
        """Return the policy of the planned steps, followed forever by the rules of the tail."""
        used = self.used

        def make_policy() -> DiscountedPolicy:
            return DiscountedPolicy(answer.policy, used, given.model.discount, given.limits, given.model)

        return replace(answer.found, excess=excess, make_policy=make_policy)


def plan_finite(made: PlannedSteps, epsilons: dict[str, Fraction], *, strict: bool) -> Solution:
    """Solve the planned steps."""
    request, monitor = made.task.request, made.task.monitor
    if request.approximation is None:
        try:
            return solve_finite(made, replace(request, epsilon=None, strict=False, unfinished=False), monitor)
        except LatticeOverflowError as error:
            problem = str(error).partition("; solve with gap=")[0]
            raise LatticeOverflowError(
                f"{problem}; leave out method=, so that costs are rounded within epsilon; with strict=True the policy "
                "never exceeds the budget"
            ) from None
    return solve_finite(made, replace(request, epsilon=epsilons or 1, strict=strict), monitor)


def _relaxed(task: _Task, rules: Rules) -> Solution:
    transform = Discounting(rules, task.steps())
    try:
        made = transform.apply(task, task.monitor)
        answer = plan_finite(made, task.rounding(transform.steps), strict=False)
    except REACHED as reached:
        return transform.without_policy(task, _stopped(task, reason_of(reached)))
    return transform.invert(made, answer)


def _is_best(rules: Rules) -> bool:
    """Whether the first rule for the tail is known to be optimal without a budget, up to rounding."""
    return rules.slack <= _SAME_VALUE * rules.size


def _excess(worst: Fraction, sides: Sides, finite: Fraction, refund: Fraction) -> Fraction:
    """Return the most by which limits can be broken; `worst` includes the tail, `finite` does not."""
    upper, lower = sides
    over = Fraction(0) if upper is None else max(Fraction(0), worst - upper)
    return over if lower is None else max(over, finite + refund)


def _strict(task: _Task, rules: Rules, relaxed: Solution) -> Solution:
    """Solve with all that a rule can spend set aside, with more steps or finer rounding until that is feasible."""
    steps, share = task.steps(), Fraction(1)
    reason, reached_limit = "", False
    for attempt in range(ATTEMPTS):
        used = task.monitor.used
        epsilons = {name: share * left for name, left in task.rounding(steps).items()}
        reason = f"{steps} planned steps" + (f", epsilon {float(share):g} of that asked for" if share < 1 else "")
        transform = Discounting(rules, steps, relaxed)
        try:
            made = transform.apply(task, task.monitor)
            answer = plan_finite(made, epsilons, strict=True)
        except REACHED as reached:
            reason += f": {reason_of(reached)}"
            reached_limit = True
            break
        except (LatticeOverflowError, ModelError) as error:
            if attempt == 0:
                raise
            reason += f": {error}"
            break
        if answer.status.has_policy:
            return transform.invert(made, answer)
        reason += f": {answer.message}"
        if answer.status is Status.LIMIT:
            reached_limit = True
            break
        del made
        task.monitor.release(task.monitor.used - used)
        if answer.status is Status.INFEASIBLE and 2 * steps < MAX_HORIZON:
            steps *= 2
        else:
            share /= 2
    make = Solution.limit if reached_limit else Solution.not_found
    message = (
        "no policy was found that never exceeds the budget, although there may be one; use a smaller "
        f"epsilon; the last attempt: {reason}"
    )
    return replace(make(relaxed.method, relaxed.stats, relaxed.value_upper, message), tail=relaxed.tail)


def _describe(tail: Tail) -> str:
    parts = [f"{short_amount(amount)} of {name}" for name, amount in tail.cost.items()]
    parts += [f"a refund of {short_amount(amount)} of {name}" for name, amount in tail.refund.items()]
    adds = " and ".join(parts) or "nothing limited"
    return f"{tail.steps} steps are planned, and the tail after them adds at most {adds}"
