"""Everything that a page shows, computed: verification, simulation, other budgets, plans and a comparison.

A part that cannot be computed is a sentence that says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from solvent.baselines.compare import METHODS, Comparison, compare
from solvent.baselines.smaller import as_budget
from solvent.errors import LimitError, ModelError, NodeLimitError, SolventError
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.policy.table import AugmentedPolicy
from solvent.report.curves import BudgetValues, NoValues, budget_values
from solvent.report.episodes import episode_data
from solvent.report.maps import map_data
from solvent.report.plans import MOST_ROWS_OF_ALL, Names, Plan, counting_note, plan_of
from solvent.report.reach import Reach
from solvent.report.settings import Clock, Settings
from solvent.solvers.explain import infeasible_history
from solvent.solvers.solution import Solution, Status
from solvent.verification.report import VerifyReport, Witness
from solvent.verification.simulate import Simulation, simulate
from solvent.verification.verify import verify

#: Seconds for the history that shows why a problem is infeasible.
_HISTORY_SECONDS = 5.0

Found = TypeVar("Found")


@dataclass
class Contents:
    """What a page shows; a part that is missing is text that says why.

    Attributes
    ----------
    model : CMDP
    limits : Limits
    solution : Solution
    settings : Settings
    verified : VerifyReport or str
    simulated : Simulation or str
    compared : Comparison or str
    values : list of BudgetValues or NoValues
        One of each limited resource.
    values_note : str
        Which plans of other budgets are left out; may be empty.
    plans : list of Plan
        The plan of the solution first, if it has one.
    counting : str
        How the policy rounds costs; may be empty.
    names : Names
    map : dict or None
    episodes : list of dict
    history : Witness or None
        If no policy is feasible: how the most careful one breaks a limit.
    """

    model: CMDP
    limits: Limits
    solution: Solution
    settings: Settings
    verified: VerifyReport | str = "There is no policy to verify."
    simulated: Simulation | str = "There is no policy to simulate."
    compared: Comparison | str = ""
    values: list[BudgetValues | NoValues] = field(default_factory=list)
    values_note: str = ""
    plans: list[Plan] = field(default_factory=list)
    counting: str = ""
    names: Names = field(default_factory=Names)
    map: dict[str, Any] | None = None
    episodes: list[dict[str, Any]] = field(default_factory=list)
    history: Witness | None = None

    @property
    def has_policy(self) -> bool:
        """Whether there is a policy to show."""
        return self.solution.status.has_policy


def gather(model: CMDP, limits: Limits, solution: Solution, settings: Settings) -> Contents:
    """Compute everything that a page shows."""
    found = Contents(model, limits, solution, settings, names=Names(model.actions))
    found.map = map_data(model, found.names)
    if found.has_policy:
        _follow(found, solution.policy)
    elif solution.status is Status.INFEASIBLE and not _is_continuous(model, limits):
        seconds = _HISTORY_SECONDS if settings.time_limit is None else min(_HISTORY_SECONDS, settings.time_limit)
        found.history = infeasible_history(model, limits, time_limit=seconds)
    with settings.part("values of budgets") as clock:
        found.values = [budget_values(model, limits, solution, each, settings, clock) for each in limits.resources]
    with settings.part("plans") as clock:
        _plans(found, clock)
    with settings.part("comparing") as clock:
        found.compared = _attempt(lambda: _compare(found, clock), "The comparison was not finished")
    return found


def _follow(found: Contents, policy: AugmentedPolicy) -> None:
    """Verify and simulate the policy."""
    settings, model, limits = found.settings, found.model, found.limits
    budget: Any = as_budget(model, limits)
    options: dict[str, Any] = {"memory_limit": settings.memory_limit}
    with settings.part("verifying") as clock:
        try:
            found.verified = verify(model, policy, budget, time_limit=clock.left, **options)
        except (LimitError, NodeLimitError) as error:
            found.verified = f"The plan is not verified: {error}."
        except ModelError as error:
            found.verified = f"The plan cannot be verified: {error}."
    with settings.part("simulating") as clock:
        try:
            found.simulated = simulate(
                model, policy, settings.episodes, settings.seed, budget, time_limit=clock.left,
                trajectories=min(settings.trajectories, settings.episodes), **options,
            )  # fmt: skip
        except LimitError as error:
            found.simulated = f"The plan was not simulated: {error}."
            return
    runs = found.simulated
    if runs.trajectories is not None:
        found.episodes = episode_data(model, limits, runs.trajectories, runs.rewards, found.names)


def _plans(found: Contents, clock: Clock) -> None:
    """Make the plan of the solution, then those of other budgets, the nearest first."""
    rows, reach = 0, Reach(found.model)
    if found.has_policy:
        policy = found.solution.policy
        found.plans.append(plan_of(policy, found.names, reach))
        found.counting = counting_note(policy)
        rows = found.plans[0].rows
    missing, late = 0, False
    has_curve = any(isinstance(values, BudgetValues) for values in found.values)
    for values in found.values:
        if not isinstance(values, BudgetValues):
            continue
        here = values.positions[values.marked]
        if found.has_policy:
            here.plan = 0
        waiting = [each for each in values.positions if each.value > float("-inf") and each.plan is None]
        for each in sorted(waiting, key=lambda position: abs(position.amount - here.amount)):
            if clock.is_over or rows >= MOST_ROWS_OF_ALL:
                missing, late = missing + 1, clock.is_over
                continue
            found.settings.sink.report("plans of other budgets", len(found.plans), len(waiting), {}, "budget")
            plan = plan_of(values.policy_at(each.amount), found.names, reach, along=values.resource)
            each.plan, rows = len(found.plans), rows + plan.rows
            found.plans.append(plan)
    notes = []
    if found.has_policy and found.solution.status is not Status.OPTIMAL and has_curve:
        notes.append("The values are exact optima. At its own budget, the plan shown is that of the solution.")
    if missing:
        why = "because the time for them was over" if late else "to keep this page small"
        notes.append(f"Plans of {missing:,} other budgets are left out, {why}.")
    found.values_note = " ".join(notes)


def _compare(found: Contents, clock: Clock) -> Comparison:
    limits = found.limits
    spent: Any = dict(zip(limits.resources, limits.initial, strict=True))
    budget: Any = as_budget(found.model, limits)
    others = [name for name in METHODS if name != "exact"]
    return compare(
        found.model, budget, delta=found.settings.delta, spent=spent if any(spent.values()) else None, methods=others,
        time_limit=clock.left, memory_limit=found.settings.memory_limit, progress=found.settings.inner_progress,
    )  # fmt: skip


def _attempt(compute: Callable[[], Found], what: str) -> Found | str:
    try:
        return compute()
    except LimitError as error:
        return f"{what}: {error}."
    except SolventError as error:
        return f"{what}: {error}."


def _is_continuous(model: CMDP, limits: Limits) -> bool:
    if model.distribution_DO is None:
        return False
    tracked = [model.resource_index(name) for name in limits.resources]
    return bool((model.distribution_DO[tracked] >= 0).any())
