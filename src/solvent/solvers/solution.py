"""What a solve returns: a status, bounds, a policy, and how it was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from solvent.errors import SolventError, printable
from solvent.model.amounts import format_amount, short_amount
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.transforms.tail import Tail


class Status(StrEnum):
    """How a solve ended."""

    OPTIMAL = "optimal"
    WITHIN_GAP = "within_gap"
    FEASIBLE = "feasible"
    RELAXED = "relaxed"
    INFEASIBLE = "infeasible"
    LIMIT = "limit"
    NOT_FOUND = "not_found"
    REFUSED = "refused"


@dataclass(frozen=True)
class Diagnosis:
    """Why nothing is feasible.

    Attributes
    ----------
    least_budget : dict of str to Fraction or None
        Per resource that can be the reason by itself: the least limit that would do for it, the other resources
        unlimited; None if no limit would. For limits that vary by step, see `shortfall`.
    shortfall : dict of str to Fraction or None
        Per resource that cannot keep its limits even by itself: by how much they would all have to be raised (lower
        limits: be lowered); None if that would not help.
    stuck_step : int
        The first step that no policy can be sure to survive: every one of them may break a limit by then.
    stuck_is_first : bool
        Whether that is certain; else, as finding out would have taken too long, it may be an earlier one.
    undetermined : tuple of str
        Resources of which finding out whether they are the reason by themselves would have taken too long.
    """

    least_budget: Mapping[str, Fraction | None]
    shortfall: Mapping[str, Fraction | None]
    stuck_step: int
    stuck_is_first: bool = True
    undetermined: tuple[str, ...] = ()

    def __str__(self) -> str:
        earlier = "" if self.stuck_is_first else ", if so far"
        parts = [f"no policy can be sure to get past step {self.stuck_step}{earlier}"]
        for name, least in self.least_budget.items():
            if least is None:
                parts.append(f"no budget of {name} would do")
            else:
                parts.append(f"the least budget of {name} that would do by itself is {format_amount(least)}")
        for name, extra in self.shortfall.items():
            if extra is not None and name not in self.least_budget:
                parts.append(f"the limits of {name} are too tight by {format_amount(extra)}")
        for name in self.undetermined:
            parts.append(f"whether {name} is the reason by itself would have taken too long to find out")
        if not self.least_budget and not self.shortfall and not self.undetermined:
            parts.append("each resource could be kept by itself, but not all of them together")
        return printable("; ".join(parts))


@dataclass(frozen=True)
class Stats:
    """How much work it was.

    Attributes
    ----------
    seconds : float
        Wall time of the whole solve.
    nodes : int
        Nodes (reduction), points (frontier) or labels (paths) in all layers.
    layer_sizes : tuple of int
        The same, per step.
    cost_diversity : int or None
        The paper's D_M (`def: diversity`): the most distinct amounts spent in one layer. Counted only by the reduction
        with `prune=False`, whose layers are the paper's.
    peak_bytes : int
        Most memory planned at one time.
    representation : str
        "nodes", for frontiers "points" or "arrays", for paths "labels".
    approximate_costs : int or None
        The most distinct amounts in one layer as counted, where costs were rounded.
    approximate_costs_bound : int or None
        What the paper bounds that by (`lem: approx`, or `cor: improved` where no cost is negative).
    """

    seconds: float
    nodes: int
    layer_sizes: tuple[int, ...]
    cost_diversity: int | None
    peak_bytes: int
    representation: str
    approximate_costs: int | None = None
    approximate_costs_bound: int | None = None


def relative_gap(lower: float, upper: float) -> float:
    """Return the distance of two bounds relative to the lower one: 0 if they meet, infinity if one is missing or 0.

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
    """One round of closing the gap: the bounds so far, how many nodes it took, and the time since the start."""

    lower: float
    upper: float
    gap: float
    nodes: int
    seconds: float

    def __str__(self) -> str:
        gap = "-" if math.isinf(self.gap) else f"{self.gap:.3%}"
        return f"{self.lower:>14.8g} {self.upper:>14.8g} {gap:>10} {self.nodes:>13,} {self.seconds:>8.2f}s"


ROUND_HEADER = f"{'lower':>14} {'upper':>14} {'gap':>10} {'nodes':>13} {'time':>9}"


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer to a problem.

    Attributes
    ----------
    status : Status
        "optimal"; "within_gap", "feasible" (never over, but maybe not optimal); "relaxed" (worth at least the optimum,
        but may go over by what was asked for); "infeasible"; "limit" (stopped without a policy).
    value : float
        Of the policy, or what it is worth at least if its values were rounded; minus infinity if there is none.
    value_lower, value_upper : float
        Bounds that enclose the optimum. They contain every rounding error and every tolerance, and with status
        "optimal" they differ by nothing else.
    worst_spent : dict of str to Fraction
        The most that the policy can ever have spent, per tracked resource, over all its histories.
    excess : dict of str to Fraction
        By how much that can break a limit, per tracked resource; 0 everywhere unless the status is "relaxed".
    method : str
        The method that found it.
    message : str
        What happened, and what to try if that was not an answer.
    stats : Stats
    diagnosis : Diagnosis or None
        Why, if nothing is feasible.
    worst_is_exact : bool
        Whether `worst_spent` is attained; else it is a bound, since there were too many nodes to follow or no 64-bit
        unit for the true costs.
    value_checked : bool
        Whether the policy was followed forward from the start and found to be worth `value`, up to rounding; False if
        there is no policy, or if it has too many nodes to be followed.
    rounds : tuple of Round
        How the bounds closed, if a gap was asked for.
    tail : Tail or None
        For a discounted model, how many steps were planned and what those after them can add.
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
    rounds: tuple[Round, ...] = ()
    tail: Tail | None = None
    _make_policy: Callable[[], AugmentedPolicy] | None = field(default=None, repr=False, compare=False)

    @property
    def gap(self) -> float:
        """Relative distance of the bounds: infinity if one is missing, 0 if they differ by rounding errors only."""
        return 0.0 if self.status is Status.OPTIMAL else relative_gap(self.value_lower, self.value_upper)

    @property
    def log(self) -> str:
        """How the bounds closed, a line per round."""
        return "\n".join([ROUND_HEADER, *map(str, self.rounds)]) if self.rounds else ""

    @cached_property
    def policy(self) -> AugmentedPolicy:
        """The policy; a `SolventError` if there is none."""
        if self._make_policy is None:
            raise SolventError(f"there is no policy: the status is {self.status.value!r}. {self.message}")
        return self._make_policy()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy in another process needs: the policy itself in place of how to make it."""
        state = dict(self.__dict__)
        if self._make_policy is not None:
            state |= {"policy": self.policy, "_make_policy": None}
        return state

    def __repr__(self) -> str:
        worst = printable(", ".join(f"{name} {short_amount(spent)}" for name, spent in self.worst_spent.items()))
        detail = f", worst spent {worst}" if worst else ""
        if self.status is Status.LIMIT:
            detail = f", at most {self.value_upper:.10g}"
        return f"Solution({self.status.value}, value {self.value:.10g}{detail}, {self.method})"
