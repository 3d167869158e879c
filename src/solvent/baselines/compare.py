"""The known ways side by side, each checked exactly: what they claim, and what they do."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from solvent.baselines.chance import chance, read_delta
from solvent.baselines.expectation import expectation
from solvent.baselines.knapsack import knapsack_style
from solvent.baselines.occupancy import ProgramError
from solvent.baselines.result import Baseline, BaselineStatus
from solvent.baselines.smaller import as_budget, smaller_budget
from solvent.baselines.unconstrained import unconstrained
from solvent.core.exact import Number, nearest_float
from solvent.core.limits import REACHED, ResourceMonitor, read_memory, read_seconds, reason_of
from solvent.core.progress import Progress
from solvent.errors import LatticeOverflowError, ModelError, PolicyError, SolventError, did_you_mean, quote
from solvent.model.amounts import short_amount
from solvent.model.budget import BudgetLike, Limits, resolve
from solvent.model.cmdp import CMDP, check_model
from solvent.solvers.finite import Request, solve_finite
from solvent.solvers.transforms.base import BudgetedModel
from solvent.verification.report import Report
from solvent.verification.verify import PolicyLike, verify_within

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Why a method has no policy for a problem that it cannot take.
REFUSED = "refused"
#: A limit of the whole call was reached first.
NOT_FINISHED = "limit"


@dataclass(frozen=True)
class ComparisonRow:
    """One method on one problem.

    Attributes
    ----------
    method : str
    status : str
        Of the method's own answer; "refused" if it cannot do the problem, and "limit" if the time or memory of the
        whole call ended before it was done. `message` says why.
    claimed : float or None
        The value the method claims; None if it has no policy.
    value : float or None
        The value of its policy, as `verify` finds it.
    worst_spent, least_spent : dict of str to Fraction or None
        For each limited resource, the most and the least that any history has spent after any step; None where there is
        no bound. Empty if there is no policy.
    violation_probability : float or None
        Of ever breaking any limit; None if there is no policy, or that hangs on continuous costs.
    expected_excess : dict of str to float or None
        For each limited resource, the expectation of by how much its limits are broken at worst over time.
    feasible : bool or None
        Whether no history breaks a limit; None if there is no policy.
    seconds : float
        That planning took, the check not included.
    message : str
        What the method says about its answer.
    """

    method: str
    status: str
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
    """What `compare` found; `print` shows it as a table.

    Attributes
    ----------
    title : str
    rows : tuple of ComparisonRow
        In the order of `METHODS`, or as asked for.
    limits : Limits
        The budget that all were checked against.
    """

    title: str
    rows: tuple[ComparisonRow, ...]
    limits: Limits

    def __getitem__(self, method: str) -> ComparisonRow:
        """Return the row of a method."""
        by_name = {row.method: row for row in self.rows}
        if method not in by_name:
            known = ", ".join(map(quote, by_name))
            raise ModelError("method", f"one that was compared ({known})", quote(method), did_you_mean(method, by_name))
        return by_name[method]

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame; amounts are floats, one column per limited resource.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        try:
            import pandas as pd  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError:
            raise SolventError("to_frame: expected pandas, found no such package; pip install pandas") from None
        return pd.DataFrame([self._record(row) for row in self.rows])

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

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(self.title), title_justify="left")
        for heading in ("method", "status"):
            table.add_column(heading)
        for heading in ("claims", "value", *self._spent_headings(), "P(over)", *self._excess_headings()):
            table.add_column(heading, justify="right")
        table.add_column("feasible")
        table.add_column("seconds", justify="right")
        for row in self.rows:
            table.add_row(*map(Text, self._cells(row)))
        told = [row for row in self.rows if row.feasible is None or row.status == BaselineStatus.HEURISTIC]
        notes = [Text(f"{row.method}: {row.message}") for row in told]
        return Group(table, *notes)

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
            row.status,
            "-" if row.claimed is None else f"{row.claimed:.6g}",
            "-" if row.value is None else f"{row.value:.6g}",
            *spent,
            _number(row, row.violation_probability),
            *excess,
            verdict,
            f"{row.seconds:.2f}",
        ]

    def _spent(self, row: ComparisonRow, d: int) -> str:
        """Return the amount nearest to the limits: the most, or the least where only lower ones hold, or both."""
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
    """What a method says: its status, what it claims, a sentence, and its policy if there is one."""

    status: str
    claimed: float
    message: str
    policy: PolicyLike | None

    @classmethod
    def of(cls, found: Baseline) -> _Planned:
        policy = found.policy if found.has_policy else None
        return cls(found.status.value, found.value, found.message, policy)


def _exact(model: CMDP, limits: Limits, _: float, monitor: ResourceMonitor) -> _Planned:
    solution = solve_finite(BudgetedModel(model, limits), Request(), monitor)
    policy = solution.policy if math.isfinite(solution.value) else None
    return _Planned(solution.status.value, solution.value, solution.message, policy)


def _baseline(function: Callable[..., Baseline], *given: Any) -> _Planner:
    """Return how to plan by a baseline; those of chance are given delta."""

    def plan(model: CMDP, limits: Limits, delta: float, monitor: ResourceMonitor) -> _Planned:
        more = [delta if each is _DELTA else each for each in given]
        return _Planned.of(function(model, as_budget(model, limits), *more, monitor=monitor))

    return plan


#: A method: plans for resolved limits, with a probability of going over, within what is left of time and memory.
_Planner = Callable[[CMDP, Limits, float, ResourceMonitor], _Planned]
_DELTA = object()
_PLANNERS: dict[str, _Planner] = {
    "exact": _exact,
    "expectation": _baseline(expectation),
    "chance": _baseline(chance, _DELTA),
    "smaller expectation": _baseline(smaller_budget),
    "smaller chance": _baseline(smaller_budget, "chance", _DELTA),
    "knapsack": _baseline(knapsack_style),
    "unconstrained": _baseline(unconstrained),
}
#: The methods `compare` knows; "exact" is Solvent's own.
METHODS = tuple(_PLANNERS)


def compare(
    model: CMDP,
    budget: BudgetLike | None = None,
    *,
    delta: Number = 0.05,
    methods: Sequence[str] | None = None,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    progress: bool = False,
) -> Comparison:
    """Plan by each of the known ways, and check what each policy does to the budget.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        The model's own default, if not given.
    delta : number
        The probability of going over that the chance-constrained methods allow.
    methods : sequence of str, optional
        Some of "exact", "expectation", "chance", "smaller expectation", "smaller chance", "knapsack" and
        "unconstrained"; all if not given.
    time_limit : float, optional
        Seconds for the whole call. A method that is not done by then is a row with status "limit".
    memory_limit : int or str, optional
        Bytes, or text such as "8GB"; most of what is free, if not given. It is checked before memory is used, and a
        method that would need more is a row with status "limit".
    progress : bool
        Show how far it has come, on a terminal.

    Returns
    -------
    Comparison
        With a row for each method; one that cannot do the problem is a row that says why.

    Raises
    ------
    ModelError
        If the budget does not fit the model, `delta` is no probability, or there is no such method.

    Notes
    -----
    Every number except `claimed` and `seconds` comes from `verify` and the returned policy, run to the horizon. The
    knapsack-style policy goes on with the unconstrained optimum where its own rules would have ended the episode.

    Examples
    --------
    >>> from solvent.model import instances
    >>> found = compare(instances.markov_gap(prize=10), methods=["exact", "expectation"])
    >>> [(row.method, round(row.value, 9), row.feasible, row.violation_probability) for row in found.rows]
    [('exact', 5.0, True, 0.0), ('expectation', 5.0, False, 0.25)]
    """
    check_model(model)
    wanted = METHODS if methods is None else tuple(methods)
    for name in wanted:
        if name not in _PLANNERS:
            raise ModelError("methods", f"some of {', '.join(METHODS)}", quote(name), did_you_mean(name, METHODS))
    limits, probability = resolve(model, budget), read_delta(delta)
    rows = []
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    with Progress(show=progress) as bar, ResourceMonitor(seconds, memory) as monitor:
        for done, name in enumerate(wanted):
            bar.report("comparing", done, len(wanted), {})
            used = monitor.used
            rows.append(_row(name, model, limits, probability, monitor))
            monitor.release(monitor.used - used)
    return Comparison(model.name or "model", tuple(rows), limits)


def _row(name: str, model: CMDP, limits: Limits, delta: float, monitor: ResourceMonitor) -> ComparisonRow:
    began = time.perf_counter()
    try:
        monitor.check_time()
        planned = _PLANNERS[name](model, limits, delta, monitor)
    except (ModelError, LatticeOverflowError, ProgramError) as error:
        planned = _Planned(REFUSED, -math.inf, str(error), None)
    except REACHED as reached:
        planned = _Planned(NOT_FINISHED, -math.inf, f"not finished: {reason_of(reached)}", None)
    seconds = time.perf_counter() - began
    if planned.policy is None:
        return _without(name, planned.status, planned.message, seconds)
    try:
        report = verify_within(model, planned.policy, limits, monitor)
    except PolicyError as error:
        return _without(name, REFUSED, f"the check stopped: {error}", seconds)
    except REACHED as reached:
        return _without(name, NOT_FINISHED, f"the check was not finished: {reason_of(reached)}", seconds)
    return _checked(name, planned, report, limits, seconds)


def _without(name: str, status: str, message: str, seconds: float) -> ComparisonRow:
    return ComparisonRow(name, status, None, None, {}, {}, None, {}, None, seconds, message)


def _checked(name: str, planned: _Planned, report: Report, limits: Limits, seconds: float) -> ComparisonRow:
    def extreme(amounts: tuple[Fraction | None, ...], pick: Callable[..., Fraction]) -> Fraction | None:
        known = [amount for amount in amounts if amount is not None]
        return pick(known) if len(known) == len(amounts) else None

    return ComparisonRow(
        name,
        planned.status,
        planned.claimed,
        report.value,
        {resource: extreme(report.worst_spent[resource], max) for resource in limits.resources},
        {resource: extreme(report.least_spent[resource], min) for resource in limits.resources},
        report.violation_probability,
        report.expected_excess,
        report.feasible,
        seconds,
        planned.message,
    )
