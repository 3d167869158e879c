"""Comparison of standard methods: each plans, and its policy is verified exactly."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from solvent.baselines.chance import chance, read_delta
from solvent.baselines.expectation import expectation
from solvent.baselines.knapsack import knapsack_style
from solvent.baselines.result import Baseline
from solvent.baselines.smaller import as_budget, smaller_budget
from solvent.baselines.unconstrained import unconstrained
from solvent.core import html
from solvent.core.engines import open_engine
from solvent.core.exact import Number, nearest_float
from solvent.core.frames import import_pandas
from solvent.core.limits import REACHED, ResourceMonitor, read_memory, read_seconds, reason_of
from solvent.core.preparation import working_time
from solvent.core.progress import ProgressLike, open_progress
from solvent.errors import (
    LatticeOverflowError,
    ModelError,
    PolicyError,
    ProgramError,
    did_you_mean,
    quote,
)
from solvent.model.amounts import short_amount
from solvent.model.budget import Budget, BudgetLike, Limits, SpentLike, read_spent, resolve
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.solvers.finite import Request, solve_finite
from solvent.solvers.solution import Status
from solvent.solvers.transforms.base import BudgetedModel
from solvent.verification.finite import verify_within
from solvent.verification.policies import PolicyLike
from solvent.verification.report import VerifyReport

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class ComparisonRow:
    """The result of one method.

    Attributes
    ----------
    method : str
    status : Status
        Status of the method's own result; "refused" if the method does not accept the problem, and "limit" if the time
        or memory limit of the comparison was reached. `message` has the reason.
    claimed : float or None
        The value that the method claims; None if it has no policy.
    value : float or None
        The value of its policy, computed by `verify`.
    worst_spent, least_spent : dict of str to Fraction or None
        For each limited resource, the most and the least that any history has spent after any step; None if unbounded.
        Empty if there is no policy.
    violation_probability : float or None
        Probability of ever breaking any limit; None if there is no policy, or if it depends on continuous costs.
    expected_excess : dict of str to float or None
        For each limited resource, the expectation of the largest excess over all steps.
    feasible : bool or None
        Whether no history breaks a limit; None if there is no policy.
    seconds : float
        Planning time, without verification and without compiling or loading kernels.
    message : str
        What the method reports about its result.
    """

    method: str
    status: Status
    claimed: float | None
    value: float | None
    worst_spent: Mapping[str, Fraction | None]
    least_spent: Mapping[str, Fraction | None]
    violation_probability: float | None
    expected_excess: Mapping[str, float | None]
    feasible: bool | None
    seconds: float
    message: str


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`; `print` shows it as a table.

    Attributes
    ----------
    title : str
    rows : tuple of ComparisonRow
        One row per method, in the order of `METHODS` or of the argument `methods`.
    limits : Limits
        The limits against which all policies were verified.
    """

    title: str
    rows: tuple[ComparisonRow, ...]
    limits: Limits

    def __getitem__(self, method: str) -> ComparisonRow:
        """Return the row of a method."""
        by_name = {row.method: row for row in self.rows}
        if method not in by_name:
            known = ", ".join(map(quote, by_name))
            expected = f"a method that was compared ({known})"
            raise ModelError("method", expected, quote(method), did_you_mean(method, by_name))
        return by_name[method]

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame, with amounts as floats and one column per limited resource.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        return import_pandas().DataFrame([self._record(row) for row in self.rows])

    def _record(self, row: ComparisonRow) -> dict[str, Any]:
        record: dict[str, Any] = {name: getattr(row, name) for name in ("method", "status", "claimed", "value")}
        for name in self.limits.resources:
            worst, least = row.worst_spent.get(name), row.least_spent.get(name)
            record[f"worst_{name}"] = math.nan if worst is None else nearest_float(worst)
            record[f"least_{name}"] = math.nan if least is None else nearest_float(least)
        record["violation_probability"] = row.violation_probability
        for name in self.limits.resources:
            record[f"expected_excess_{name}"] = row.expected_excess.get(name)
        return record | {"feasible": row.feasible, "seconds": row.seconds, "message": row.message}

    def _headings(self) -> tuple[list[str], list[str]]:
        """Return all headings, and those of numbers."""
        numbers = ["claims", "value", *self._spent_headings(), "P(over)", *self._excess_headings()]
        return ["method", "status", *numbers, "feasible", "seconds"], [*numbers, "seconds"]

    def _repr_html_(self) -> str:
        headings, numbers = self._headings()
        shown = html.table(headings, map(self._cells, self.rows), numbers=numbers, total=len(self.rows), most=20)
        return html.card("Comparison", self.title, shown, *map(html.note, self._notes()))

    def _notes(self) -> list[str]:
        noted = [row for row in self.rows if row.feasible is None or row.status is Status.FEASIBLE]
        return [f"{row.method}: {row.message}" for row in noted]

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(self.title), title_justify="left")
        headings, numbers = self._headings()
        for heading in headings:
            table.add_column(heading, justify="right" if heading in numbers else "left")
        for row in self.rows:
            table.add_row(*map(Text, self._cells(row)))
        return Group(table, *map(Text, self._notes()))

    def _spent_headings(self) -> list[str]:
        return [f"worst {name}" for name in self.limits.resources]

    def _excess_headings(self) -> list[str]:
        names = self.limits.resources
        return ["mean excess"] if len(names) == 1 else [f"excess {name}" for name in names]

    def _cells(self, row: ComparisonRow) -> list[str]:
        spent = [self._spent(row, d) for d in range(len(self.limits.resources))]
        excess = [_number(row, row.expected_excess.get(name)) for name in self.limits.resources]
        verdict = "-" if row.feasible is None else "yes" if row.feasible else "no"
        return [
            row.method,
            row.status.value.replace("_", " "),
            "-" if row.claimed is None else f"{row.claimed:.6g}",
            "-" if row.value is None else f"{row.value:.6g}",
            *spent,
            _number(row, row.violation_probability),
            *excess,
            verdict,
            f"{row.seconds:.2f}",
        ]

    def _spent(self, row: ComparisonRow, d: int) -> str:
        """Return the most spent if there are upper limits, and the least spent if there are lower limits."""
        if row.feasible is None:
            return "-"
        name = self.limits.resources[d]
        ends = [
            "unbounded" if amount is None else short_amount(amount)
            for amount, limits in (
                (row.least_spent[name], self.limits.lower[d]),
                (row.worst_spent[name], self.limits.upper[d]),
            )
            if any(limit is not None for limit in limits)
        ]
        return " to ".join(ends)

    def __str__(self) -> str:
        from solvent.core.terminal import make_console

        text = io.StringIO()
        make_console(file=text, width=140, color_system=None).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())


def _number(row: ComparisonRow, value: float | None) -> str:
    if row.feasible is None:
        return "-"
    return "unknown" if value is None else f"{value:.4g}"


@dataclass(frozen=True)
class _Planned:
    """The result of a method before verification: status, claimed value, message, and policy if there is one."""

    status: Status
    claimed: float
    message: str
    policy: PolicyLike | None

    @classmethod
    def of(cls, found: Baseline) -> _Planned:
        policy = found.policy if found.has_policy else None
        return cls(found.status, found.value, found.message, policy)


@dataclass(frozen=True)
class _Task:
    """The problem that each method plans for."""

    model: CMDP
    limits: Limits
    delta: float
    spent: SpentLike | None
    monitor: ResourceMonitor

    @property
    def budget(self) -> dict[str, Budget]:
        return as_budget(self.model, self.limits)

    @property
    def options(self) -> dict[str, Any]:
        return {"spent": self.spent, "monitor": self.monitor}


def _exact(task: _Task) -> _Planned:
    solution = solve_finite(BudgetedModel(task.model, task.limits), Request(), task.monitor)
    policy = solution.policy if solution.status.has_policy else None
    return _Planned(solution.status, solution.value, solution.message, policy)


def _expectation(task: _Task) -> _Planned:
    return _Planned.of(expectation(task.model, task.budget, **task.options))


def _chance(task: _Task) -> _Planned:
    return _Planned.of(chance(task.model, task.budget, task.delta, **task.options))


def _smaller_expectation(task: _Task) -> _Planned:
    return _Planned.of(smaller_budget(task.model, task.budget, **task.options))


def _smaller_chance(task: _Task) -> _Planned:
    return _Planned.of(smaller_budget(task.model, task.budget, "chance", task.delta, **task.options))


def _knapsack(task: _Task) -> _Planned:
    return _Planned.of(knapsack_style(task.model, task.budget, **task.options))


def _unconstrained(task: _Task) -> _Planned:
    return _Planned.of(unconstrained(task.model, task.budget, **task.options))


#: The methods of `compare`, in order. To add one, add a planner here.
_PLANNERS: dict[str, Callable[[_Task], _Planned]] = {
    "exact": _exact,
    "expectation": _expectation,
    "chance": _chance,
    "smaller expectation": _smaller_expectation,
    "smaller chance": _smaller_chance,
    "knapsack": _knapsack,
    "unconstrained": _unconstrained,
}
#: Names of the methods; "exact" is `solve`.
METHODS = tuple(_PLANNERS)


def _read_methods(methods: Any) -> tuple[str, ...]:
    if methods is None:
        return METHODS
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise ModelError("methods", "a list of names", quote(methods))
    wanted = tuple(methods)
    for name in wanted:
        if not isinstance(name, str) or name not in METHODS:
            hint = did_you_mean(name, METHODS) if isinstance(name, str) else ""
            raise ModelError("methods", f"some of {', '.join(METHODS)}", quote(name), hint)
    return wanted


def compare(
    model: CMDP,
    budget: BudgetLike | None = None,
    *,
    delta: Number = 0.05,
    spent: SpentLike | None = None,
    methods: Sequence[str] | None = None,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: ProgressLike = False,
) -> Comparison:
    """Compare `solve` with standard methods: plan with each, and verify each policy against the budget.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        The budget. Default: that of the model.
    delta : number
        Probability of exceeding the budget that the chance-constrained methods allow.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step. Default: nothing.
    methods : sequence of str, optional
        Some of "exact", "expectation", "chance", "smaller expectation", "smaller chance", "knapsack" and
        "unconstrained". Default: all.
    time_limit : float, optional
        Seconds for the whole comparison. A method that does not finish in time gets status "limit".
    memory_limit : int or str, optional
        Bytes, or text such as "8GB". Default: most of the free memory. The limit is checked before memory is used; a
        method that would need more gets status "limit".
    engine : {"local", "ray"}
        Where the methods run: in this process, one after the other, or on workers of a Ray cluster (`pip install
        "solvent[ray]"`), all at once. The rows are the same, except for the times.
    address : str, optional
        Address of the cluster, as for `solve`.
    progress : bool, "log", ProgressSink or callable
        As for `solve`.

    Returns
    -------
    Comparison
        With a row for each method; a method that does not accept the problem gets status "refused".

    Raises
    ------
    ModelError
        If the budget does not fit the model, `delta` is not a probability, or a method is unknown.

    Notes
    -----
    Every number except `claimed` and `seconds` is computed by `verify` from the policy, followed to the horizon. Where
    its own rules would end the episode, the knapsack-style policy continues with the unconstrained optimum. A history
    that ends outside the goal of the model counts as one that breaks a limit.

    Examples
    --------
    >>> from solvent.model import instances
    >>> found = compare(instances.markov_gap(prize=10), methods=["exact", "expectation"])
    >>> [(row.method, round(row.value, 9), row.feasible, row.violation_probability) for row in found.rows]
    [('exact', 5.0, True, 0.0), ('expectation', 5.0, False, 0.25)]
    """
    check_model(model)
    wanted = _read_methods(methods)
    limits, probability = resolve(model, budget, spent), read_delta(delta)
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    rows: dict[int, ComparisonRow] = {}
    with open_engine(engine, address) as opened, open_progress(progress) as bar:
        clock = ResourceMonitor(seconds, memory)
        bar.report("comparing", 0, len(wanted), {})
        compared = _Compared(model, limits, probability, spent, seconds, memory)
        # none is sent ahead, as each is told how much of the time has passed
        items = ((name, clock.elapsed) for name in wanted)
        with closing(opened.map(compared, items, jobs=opened.workers)) as results:
            for index, row in results:
                rows[index] = row
                bar.report("comparing", len(rows), len(wanted), {})
    return Comparison(model.name or "model", tuple(rows[i] for i in range(len(wanted))), limits)


@dataclass(frozen=True)
class _Compared:
    """A comparison, in this process or in a worker of a cluster."""

    model: CMDP
    limits: Limits
    delta: float
    spent: SpentLike | None
    seconds: float | None
    memory: int | None

    def __call__(self, item: tuple[str, float]) -> ComparisonRow:
        """Return the row of a method that begins some seconds after the comparison did."""
        name, passed = item
        with ResourceMonitor(self.seconds, self.memory, began=working_time() - passed) as monitor:
            return _row(name, _Task(self.model, self.limits, self.delta, self.spent, monitor))


def _row(name: str, task: _Task) -> ComparisonRow:
    began = working_time()
    try:
        task.monitor.check_time()
        planned = _PLANNERS[name](task)
    except (ModelError, LatticeOverflowError, ProgramError) as error:
        planned = _Planned(Status.REFUSED, -math.inf, str(error), None)
    except REACHED as reached:
        planned = _Planned(Status.LIMIT, -math.inf, f"not finished: {reason_of(reached)}", None)
    seconds = working_time() - began
    if planned.policy is None:
        return _without_policy(name, planned.status, planned.message, seconds)
    try:
        before = read_spent(task.model, task.spent)
        report = verify_within(task.model, planned.policy, task.limits, task.monitor, spent=before)
    except PolicyError as error:
        return _without_policy(name, Status.REFUSED, f"verification stopped: {error}", seconds)
    except REACHED as reached:
        return _without_policy(name, Status.LIMIT, f"verification was not finished: {reason_of(reached)}", seconds)
    return _verified(name, planned, report, task.limits, seconds)


def _without_policy(name: str, status: Status, message: str, seconds: float) -> ComparisonRow:
    return ComparisonRow(name, status, None, None, {}, {}, None, {}, None, seconds, message)


def _verified(name: str, planned: _Planned, report: VerifyReport, limits: Limits, seconds: float) -> ComparisonRow:
    return ComparisonRow(
        name,
        planned.status,
        planned.claimed,
        report.value,
        {resource: report.worst_spent[resource] for resource in limits.resources},
        {resource: report.least_spent[resource] for resource in limits.resources},
        report.violation_probability,
        report.expected_excess,
        report.feasible,
        seconds,
        planned.message,
    )
