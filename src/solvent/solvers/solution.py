"""What a solve returns: a status, bounds on the optimum, a policy, and how it was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from solvent.errors import ModelError, SolventError, printable, quote
from solvent.model.amounts import format_amount, short_amount
from solvent.model.budget import Limits, SpentLike
from solvent.model.cmdp import CMDP
from solvent.policy.table import AugmentedPolicy

if TYPE_CHECKING:
    from pathlib import Path

    from solvent.core.exact import Number
    from solvent.core.progress import ProgressLike
    from solvent.solvers.explanation import Explanation


class Status(StrEnum):
    """How a solve ended.

    Attributes
    ----------
    OPTIMAL
        The policy never exceeds the budget, and no policy that never does is worth more.
    WITHIN_GAP
        The policy never exceeds the budget, and the bounds on the optimum are as close as was asked for.
    FEASIBLE
        The policy never exceeds the budget; the optimum lies between the bounds.
    RELAXED
        The policy is worth at least the optimum and may exceed the budget by the `excess` reported.
    INFEASIBLE
        No policy keeps the budget.
    LIMIT
        A time or memory limit was reached before a policy was found.
    NOT_FOUND
        No policy was found with this rounding, although there may be one: use a smaller epsilon.
    REFUSED
        The method does not accept the problem; only in comparisons, as `solve` raises an error.
    """

    OPTIMAL = "optimal"
    WITHIN_GAP = "within_gap"
    FEASIBLE = "feasible"
    RELAXED = "relaxed"
    INFEASIBLE = "infeasible"
    LIMIT = "limit"
    NOT_FOUND = "not_found"
    REFUSED = "refused"

    @property
    def has_policy(self) -> bool:
        """Whether solutions with this status have a policy.

        Examples
        --------
        >>> [status.value for status in Status if not status.has_policy]
        ['infeasible', 'limit', 'not_found', 'refused']
        """
        return self not in (Status.INFEASIBLE, Status.LIMIT, Status.NOT_FOUND, Status.REFUSED)


#: What `Diagnosis.blame` calls the set of states in which episodes must end.
GOAL = "must_end_in"


@dataclass(frozen=True)
class Diagnosis:
    """Why no policy is feasible.

    Attributes
    ----------
    least_budget : dict of str to Fraction or None
        For each resource that is infeasible by itself: the least limit that would be feasible with the other resources
        unlimited; None if no limit would be. For limits that vary by step, see `shortfall`.
    shortfall : dict of str to Fraction or None
        For each resource that cannot keep its limits even by itself: the amount by which all of them would have to be
        raised (lower limits: lowered); None if that would not help.
    stuck_step : int or None
        The first step at which every policy can break a limit, or could have broken one before; None if the limits
        alone can be kept.
    stuck_is_first : bool
        Whether that is certain; otherwise the first such step may be an earlier one, since the search was cut short.
    undetermined : tuple of str
        Resources for which the search was cut short.
    goal : {"unreachable", "with limits"} or None
        Whether some episode must end outside `must_end_in` whatever is spent, or only within the limits; None if the
        goal is not to blame.
    blame : tuple of str
        A smallest set of constraints without which there is a feasible policy: names of resources whose limits would
        be removed, and `"must_end_in"`; empty if the search was cut short.
    n_constraints : int
        Number of limited resources, and one more if there is a goal.
    sufficient_budget : dict of str to Fraction
        If there are several constraints, the least limit of each resource with which there is a feasible policy while
        all other constraints are kept; without resources for which there is none. For limits that vary by step, see
        `sufficient_extra`.
    sufficient_extra : dict of str to Fraction
        The same as the amount by which all limits of this resource would have to be raised (lower limits: lowered).
    sufficient_together : dict of str to Fraction
        If `blame` has several resources, each with one upper limit: limits of these, at the same steps, with which
        there is a feasible policy while all other constraints are kept, and of which none can be lower.
    stuck_at : tuple of state and resources, or None
        If nothing is random: a state at `stuck_step` to which a path leads that keeps all limits before, and the
        resources whose limits are broken by the actions there.
    """

    least_budget: Mapping[str, Fraction | None]
    shortfall: Mapping[str, Fraction | None]
    stuck_step: int | None
    stuck_is_first: bool = True
    undetermined: tuple[str, ...] = ()
    goal: str | None = None
    blame: tuple[str, ...] = ()
    n_constraints: int = 0
    sufficient_budget: Mapping[str, Fraction] = field(default_factory=dict)
    sufficient_extra: Mapping[str, Fraction] = field(default_factory=dict)
    sufficient_together: Mapping[str, Fraction] = field(default_factory=dict)
    stuck_at: tuple[Hashable, tuple[str, ...]] | None = None

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, goal: str = GOAL) -> str:
        """Return the diagnosis in words, in which the goal of the model is called `goal`."""
        parts = []
        if self.stuck_step is not None:
            earlier = "" if self.stuck_is_first else " (possibly an earlier one)"
            parts.append(f"every policy can break a limit at or before step {self.stuck_step}{earlier}")
            if self.stuck_at is not None:
                state, names = self.stuck_at
                broken = " or ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])
                parts[-1] += f", for example in state {quote(state)}, where every action breaks a limit of {broken}"
        if self.goal == "unreachable":
            parts.append(f"every policy can end outside {goal}, even without any limit")
        elif self.goal is not None:
            parts.append(f"every policy that keeps the limits can end outside {goal}")
        for name, least in self.least_budget.items():
            if least is None:
                parts.append(f"no budget of {name} is enough")
            else:
                several = len(self.least_budget) > 1 or self.sufficient_budget.get(name, least) != least
                alone = ", with other resources unlimited," if several else ""
                parts.append(f"the least feasible budget of {name}{alone} is {format_amount(least)}")
        for name, extra in self.shortfall.items():
            if extra is not None and name not in self.least_budget:
                parts.append(f"the limits of {name} are too tight by {format_amount(extra)}")
        for name in self.undetermined:
            parts.append(f"there was no time to find out whether {name} is infeasible by itself")
        if not self.least_budget and not self.shortfall and not self.undetermined and self.goal is None:
            parts.append("each resource can be kept within its limits by itself, but not all of them together")
        enough = [
            f"{format_amount(self.sufficient_budget[name])} of {name}"
            if name in self.sufficient_budget
            else f"relaxing the limits of {name} by {format_amount(extra)}"
            for name, extra in self.sufficient_extra.items()
            if name not in self.least_budget or self.sufficient_budget[name] != self.least_budget[name]
        ]
        if enough:
            parts.append(f"with everything else as it is, {' or '.join(enough)} is enough")
        elif self.sufficient_together:
            amounts = " and ".join(
                f"{format_amount(each)} of {name}" for name, each in self.sufficient_together.items()
            )
            parts.append(f"with everything else as it is, {amounts} together are enough, for example")
        elif self.blame and self.n_constraints > 1 and not self.sufficient_extra:
            removed = " and ".join("the goal" if name == GOAL else f"the limits of {name}" for name in self.blame)
            only = "only " if len(self.blame) == self.n_constraints else ""
            parts.append(f"{only}without {removed} there is a feasible policy")
        return printable("; ".join(parts))


@dataclass(frozen=True)
class Stats:
    """How much work a solve took.

    Attributes
    ----------
    seconds : float
        Wall time of the whole solve, without compiling or loading kernels.
    nodes : int
        Nodes (reduction), points (frontier), amounts in boxes (grid) or labels (labels) in all layers.
    layer_sizes : tuple of int
        The same, per step.
    cost_diversity : int or None
        The paper's D_M (`def: diversity`): the largest number of distinct amounts spent in one layer. Counted only by
        the reduction with `prune=False`, whose layers are the paper's.
    peak_bytes : int
        Most memory planned at one time.
    representation : str
        "nodes", "points", "arrays", "amounts" or "labels".
    approximate_costs : int or None
        The largest number of distinct amounts in one layer as counted, if costs were rounded.
    approximate_costs_bound : int or None
        The paper's bound on that number (`lem: approx`, or `cor: improved` if no cost is negative).
    """

    seconds: float
    nodes: int
    layer_sizes: tuple[int, ...]
    cost_diversity: int | None
    peak_bytes: int
    representation: str
    approximate_costs: int | None = None
    approximate_costs_bound: int | None = None

    @classmethod
    def none(cls, peak_bytes: int) -> Stats:
        """Return the statistics of a solve that was stopped before anything was finished."""
        return cls(0.0, 0, (), None, peak_bytes, "nodes")


@dataclass(frozen=True)
class Tail:
    """What the steps after the planned ones can add.

    Attributes
    ----------
    steps : int
        The planned steps T.
    cost : dict of str to Fraction
        For each limited resource, the most that all further steps together can add to what is spent.
    refund : dict of str to Fraction
        For each resource with a lower limit, the most that they can subtract.
    reward_low, reward_high : float
        Bounds on the expected reward of all further steps.
    """

    steps: int
    cost: dict[str, Fraction]
    refund: dict[str, Fraction]
    reward_low: float
    reward_high: float


def relative_gap(lower: float, upper: float) -> float:
    """Return the distance of two bounds relative to the lower: 0 if equal, infinity if one is not finite or 0.

    Examples
    --------
    >>> relative_gap(100.0, 101.0), relative_gap(-math.inf, 1.0), relative_gap(0.0, 1e-30)
    (0.01, inf, inf)
    """
    if lower == upper:
        return 0.0
    if lower == 0 or not math.isfinite(lower) or not math.isfinite(upper):
        return math.inf
    return max(upper - lower, 0.0) / abs(lower)


class Round(NamedTuple):
    """One round of closing the gap: the bounds so far, the number of nodes, and the time since the start."""

    lower: float
    upper: float
    gap: float
    nodes: int
    seconds: float

    def __str__(self) -> str:
        gap = "-" if math.isinf(self.gap) else f"{self.gap:.3%}"
        return f"{self.lower:>14.8g} {self.upper:>14.8g} {gap:>10} {self.nodes:>13,} {self.seconds:>8.2f}s"


ROUND_HEADER = f"{'lower':>14} {'upper':>14} {'gap':>10} {'nodes':>13} {'time':>9}"


@dataclass(frozen=True)
class FoundPolicy:
    """A policy that was found, and what is known about it; solutions with a policy are made of one.

    Attributes
    ----------
    value : float
        Expected reward of the policy, or a lower bound on it if values were rounded.
    worst_spent, excess : dict of str to Fraction
        As in `Solution`.
    worst_is_exact, value_checked : bool
        As in `Solution`.
    method : str
        Name of the method that found it.
    rounding : str or None
        As in `Solution`.
    stats : Stats
    make_policy : callable
        Returns the policy.
    """

    value: float
    worst_spent: Mapping[str, Fraction]
    excess: Mapping[str, Fraction]
    worst_is_exact: bool
    value_checked: bool
    method: str
    rounding: str | None
    stats: Stats
    make_policy: Callable[[], Any]


@dataclass(frozen=True)
class _KnownPolicy:
    """Returns a policy that was made before: what copies of a solution have in place of how to make it."""

    policy: Any

    def __call__(self) -> Any:
        return self.policy


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer to a problem.

    Attributes
    ----------
    status : Status
        "optimal", "within_gap", "feasible", "relaxed", "infeasible", "limit" or "not_found".
    value : float
        Expected reward of the policy, or a lower bound on it if values were rounded; minus infinity without a policy.
    value_lower, value_upper : float
        Bounds that enclose the optimum. They contain every rounding error and every tolerance, and with status
        "optimal" they differ by nothing else.
    worst_spent : dict of str to Fraction
        The most that the policy can ever have spent, per tracked resource, over all its histories.
    excess : dict of str to Fraction
        The most by which a limit can be broken, per tracked resource; 0 unless the status is "relaxed".
    method : str
        Name of the method that found the policy, one that `solve(method=...)` accepts; "auto" if none finished.
    approximation : {"additive", "relative"} or None
        The approximation scheme that was asked for.
    rounding : {"toward the limits", "away from the limits", "against smaller limits"} or None
        How costs were rounded to find this policy; None if they were not.
    message : str
        What happened, and what to try if there is no policy.
    stats : Stats
    diagnosis : Diagnosis or None
        Why no policy is feasible, if none is.
    worst_is_exact : bool
        Whether `worst_spent` is attained; otherwise it is an upper bound, because there were too many nodes to follow
        or true costs have no 64-bit unit.
    value_checked : bool
        Whether the policy was followed forward from the start and found to be worth `value`, up to rounding. False
        without a policy, or if the policy has too many nodes to be followed.
    rounds : tuple of Round
        How the bounds closed, if a gap was asked for.
    tail : Tail or None
        For a discounted model, the number of planned steps and what the steps after them can add.
    """

    status: Status
    value: float
    value_lower: float
    value_upper: float
    worst_spent: Mapping[str, Fraction]
    method: str
    message: str
    stats: Stats
    diagnosis: Diagnosis | None = None
    worst_is_exact: bool = True
    excess: Mapping[str, Fraction] = field(default_factory=dict)
    value_checked: bool = False
    approximation: str | None = None
    rounding: str | None = None
    rounds: tuple[Round, ...] = ()
    tail: Tail | None = None
    _make_policy: Callable[[], Any] | None = field(default=None, repr=False, compare=False)
    _asked: tuple[CMDP, Limits] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def _with(cls, status: Status, found: FoundPolicy, lower: float, upper: float, message: str) -> Solution:
        """Return a solution that has a policy."""
        return cls(
            status, found.value, lower, upper, found.worst_spent, found.method, f"{status.value}: {message}",
            found.stats, worst_is_exact=found.worst_is_exact, excess=found.excess, value_checked=found.value_checked,
            rounding=found.rounding, _make_policy=found.make_policy,
        )  # fmt: skip

    @classmethod
    def _without(cls, status: Status, method: str, stats: Stats, upper: float, message: str) -> Solution:
        """Return a solution without a policy."""
        return cls(status, -math.inf, -math.inf, upper, {}, method, f"{status.value}: {message}", stats)

    @classmethod
    def optimal(cls, found: FoundPolicy, lower: float, upper: float, message: str) -> Solution:
        """Return a solution whose bounds differ by rounding errors only."""
        return cls._with(Status.OPTIMAL, found, lower, upper, message)

    @classmethod
    def within_gap(cls, found: FoundPolicy, lower: float, upper: float, message: str) -> Solution:
        """Return a solution whose bounds are as close as was asked for."""
        return cls._with(Status.WITHIN_GAP, found, lower, upper, message)

    @classmethod
    def feasible(cls, found: FoundPolicy, lower: float, upper: float, message: str) -> Solution:
        """Return a solution whose policy keeps the budget and may be worth less than the optimum."""
        return cls._with(Status.FEASIBLE, found, lower, upper, message)

    @classmethod
    def relaxed(cls, found: FoundPolicy, upper: float, message: str) -> Solution:
        """Return a solution that is worth at least the optimum and may exceed the budget; it bounds nothing below."""
        return cls._with(Status.RELAXED, found, -math.inf, upper, message)

    @classmethod
    def infeasible(cls, method: str, stats: Stats, message: str, diagnosis: Diagnosis | None = None) -> Solution:
        """Return the answer that no policy keeps the budget."""
        solution = cls._without(Status.INFEASIBLE, method, stats, -math.inf, message)
        return replace(solution, diagnosis=diagnosis)

    @classmethod
    def limit(cls, method: str, stats: Stats, upper: float, message: str) -> Solution:
        """Return the answer that a time or memory limit was reached before a policy was found."""
        return cls._without(Status.LIMIT, method, stats, upper, message)

    @classmethod
    def not_found(cls, method: str, stats: Stats, upper: float, message: str) -> Solution:
        """Return the answer that rounding left no policy, although there may be one."""
        return cls._without(Status.NOT_FOUND, method, stats, upper, message)

    def taking(self, seconds: float, asked: tuple[CMDP, Limits] | None = None) -> Solution:
        """Return the same solution with the wall time of the whole solve, and the model and limits it is for."""
        # as `dataclasses.replace` does, which takes a few microseconds of every solve
        stats, solution = object.__new__(Stats), object.__new__(Solution)
        stats.__dict__.update(self.stats.__dict__, seconds=seconds)
        solution.__dict__.update(self.__dict__, stats=stats, _asked=asked)
        return solution

    @property
    def found(self) -> FoundPolicy:
        """The policy with what is known about it, for transforms; a `SolventError` if there is none."""
        if self._make_policy is None:
            raise self._no_policy()
        return FoundPolicy(
            self.value, self.worst_spent, self.excess, self.worst_is_exact, self.value_checked, self.method,
            self.rounding, self.stats, self._make_policy,
        )  # fmt: skip

    def _no_policy(self) -> SolventError:
        return SolventError(f"policy: expected a solution with a policy, found status {self.message}")

    @property
    def gap(self) -> float:
        """Relative distance of the bounds: 0 if they differ by rounding errors only, infinity if one is not finite."""
        return 0.0 if self.status is Status.OPTIMAL else relative_gap(self.value_lower, self.value_upper)

    @property
    def asked(self) -> tuple[CMDP, Limits] | None:
        """The model and the limits that were solved; None for a discounted model."""
        return self._asked

    @property
    def log(self) -> str:
        """How the bounds closed, one line per round."""
        return "\n".join([ROUND_HEADER, *map(str, self.rounds)]) if self.rounds else ""

    @cached_property
    def policy(self) -> AugmentedPolicy:
        """The policy; a `SolventError` if the status has none."""
        if self._make_policy is None:
            raise self._no_policy()
        policy: AugmentedPolicy = self._make_policy()
        return policy

    def explain(
        self,
        step: int,
        state: Hashable,
        spent: SpentLike | None = None,
        *,
        time_limit: float | None = 30.0,
        memory_limit: int | str | None = None,
    ) -> Explanation:
        """Explain one node: the value of each action, and what forbids those that are not allowed.

        Works at every node of the model, also where the policy never gets and where there is no policy; see
        `solvent.explain`.

        Raises
        ------
        ModelError
            If the model is discounted, or a limited resource has continuous costs.

        Examples
        --------
        >>> from solvent.model import instances
        >>> from solvent.solvers.solve import solve
        >>> solution = solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50))
        >>> why = solution.explain(2, "knapsack", 30)
        >>> why["leave"].value, why["take"].allowed
        (0.0, False)
        >>> print(why["take"].forbidden_by)
        leads to 'knapsack' and costs weight 30: 60 of weight spent, more than the limit of 50
        """
        from solvent.solvers.explain import explain_at

        model, limits = self._problem("explain")
        policy = None if self._make_policy is None else self.policy
        return explain_at(model, policy, limits, step, state, spent, time_limit=time_limit, memory_limit=memory_limit)

    def report(
        self,
        path: str | Path,
        *,
        max_budget: Number | Mapping[str, Number] | None = None,
        episodes: int = 10_000,
        seed: int = 0,
        trajectories: int = 5,
        delta: Number = 0.05,
        time_limit: float | None = 60.0,
        memory_limit: int | str | None = None,
        progress: ProgressLike = False,
    ) -> None:
        """Write a report: one HTML page that needs no server and loads nothing from the network.

        The page has the problem, the answer and its verification, the value of other budgets with a slider, the plan
        as charts and as a table, spending over time, other methods, and sample episodes. Without a policy, it says why
        there is none. The file is written atomically. See docs/report.md.

        Parameters
        ----------
        path : str or Path
            The file to write; its name ends in .html or .htm.
        max_budget : number, or dict of numbers by resource, optional
            The largest budget of the slider, at least the limit; if upper limits differ by step, the largest of them
            after all are moved by the same amount. Refused for a resource that has only lower limits. Default: twice
            the limit, or a little more than the last budget at which the value rises, if that is less.
        episodes : int
            Number of simulated episodes.
        seed : int
            Random seed.
        trajectories : int
            Number of episodes to show step by step, at most 50.
        delta : number
            Probability of exceeding the budget that the chance-constrained methods allow, as for `compare`.
        time_limit : float, optional
            Seconds for each part of the page. A part that is not finished is left out, and the page says so.
        memory_limit : int or str, optional
            As for `solve`.
        progress : bool, "log", ProgressSink or callable
            As for `solve`.

        Raises
        ------
        SolventError
            If the package `vl-convert-python` is not installed: `pip install "solvent[report]"`.
        ModelError
            If an argument is not valid, the file cannot be written, or the model is discounted. For a discounted model,
            write a report of its first steps: `solve(model.unrolled(steps)).report(path)`.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from solvent.model import instances
        >>> from solvent.solvers.solve import solve
        >>> solution = solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "knapsack.html"
        ...     solution.report(file)
        ...     file.read_text()[:15]
        '<!DOCTYPE html>'
        """
        from solvent.report import write

        model, limits = self._problem("report")
        settings = write.read_settings(
            limits, max_budget, episodes, seed, trajectories, delta, time_limit, memory_limit
        )  # fmt: skip
        write.write_report(model, limits, self, path, settings, progress)

    def _problem(self, what: str) -> tuple[CMDP, Limits]:
        """Return the model and the limits; raise a `ModelError` if there are none, as for a discounted model."""
        if self._asked is not None:
            return self._asked
        expected = "a solution of a model with a last step, as `solve` returns it"
        if self.tail is None:
            raise ModelError(what, expected, "a solution without a model")
        hint = (
            "for the first steps, take the solution of solve(model.unrolled(steps)); verify(model, solution) checks "
            "this one"
        )
        raise ModelError(what, expected, "a solution of a discounted model", hint)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy in another process needs: the policy itself in place of how to make it."""
        state = dict(self.__dict__)
        if self._make_policy is not None:
            state |= {"policy": self.policy, "_make_policy": _KnownPolicy(self.policy)}
        return state

    def _repr_html_(self) -> str:
        from solvent.solvers.display import solution_card

        return solution_card(self, self.asked)

    def __repr__(self) -> str:
        worst = printable(", ".join(f"{name} {short_amount(spent)}" for name, spent in self.worst_spent.items()))
        detail = f", worst spent {worst}" if worst else ""
        if self.status in (Status.LIMIT, Status.NOT_FOUND):
            detail = f", at most {self.value_upper:.10g}"
        return f"Solution({self.status.value}, value {self.value:.10g}{detail}, {self.method})"
