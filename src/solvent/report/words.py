"""The sentences of the page: statuses, the problem, limits."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction

from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.report.markup import shown
from solvent.report.numbers import amount_text
from solvent.solvers.solution import Solution, Status

#: Names in a list before the rest is counted.
_MOST_NAMED = 24

#: For each status: how it is colored, its name, and what it means.
STATUS = {
    Status.OPTIMAL: ("good", "Optimal", "This plan never exceeds the budget, and no plan that never does earns more."),
    Status.WITHIN_GAP: (
        "good", "Within the requested gap",
        "This plan never exceeds the budget, and its value is within the requested gap of the best possible one.",
    ),
    Status.FEASIBLE: (
        "fair", "Feasible",
        "This plan never exceeds the budget. A better one may exist, within the bounds below.",
    ),
    Status.RELAXED: (
        "fair", "Relaxed",
        "This plan earns at least as much as any that keeps the budget, but it can exceed it by the amount below.",
    ),
    Status.INFEASIBLE: ("bad", "Infeasible", "No plan keeps this budget under every outcome."),
    Status.LIMIT: ("bad", "Not finished", "A limit of time or memory was reached before a plan was found."),
    Status.NOT_FOUND: (
        "bad", "Not found", "No plan was found with this rounding of costs, although one may exist.",
    ),
}  # fmt: skip


def listed(names: Sequence[Hashable]) -> str:
    """Return names in a row, and the number of those that are left out.

    Examples
    --------
    >>> listed(["a", "b"]), listed(range(30))[-27:]
    ('a, b', '21, 22, 23 and 6 more of 30')
    """
    more = f" and {len(names) - _MOST_NAMED:,} more of {len(names):,}" if len(names) > _MOST_NAMED else ""
    return ", ".join(map(shown, names[:_MOST_NAMED])) + more


def start_text(start: Hashable | Mapping[Hashable, float]) -> str:
    """Return where episodes begin."""
    if not isinstance(start, Mapping):
        return shown(start)
    parts = [f"{shown(state)} ({100 * p:.4g} %)" for state, p in start.items()]
    more = f" and {len(parts) - _MOST_NAMED:,} more" if len(parts) > _MOST_NAMED else ""
    return ", ".join(parts[:_MOST_NAMED]) + more


def limit_texts(model: CMDP, limits: Limits) -> dict[str, str]:
    """Return the limits of each resource in words."""
    found = dict.fromkeys(model.resources, "no limit")
    for name, upper, lower in zip(limits.resources, limits.upper, limits.lower, strict=True):
        found[name] = _limits_text(list(zip(lower, upper, strict=True)))
    return found


def _limits_text(pairs: list[tuple[Fraction | None, Fraction | None]]) -> str:
    """Return limits after each step in words, equal ones together."""
    if len(set(pairs)) == 1:
        return _ends_text(*pairs[0])
    parts, begin = [], 0
    for end in range(1, len(pairs) + 1):
        if end == len(pairs) or pairs[end] != pairs[begin]:
            if pairs[begin] != (None, None):
                steps = f"step {begin}" if end == begin + 1 else f"steps {begin} to {end - 1}"
                parts.append(f"{_ends_text(*pairs[begin])} after {steps}")
            begin = end
    more = f", and {len(parts) - _MOST_NAMED} more" if len(parts) > _MOST_NAMED else ""
    return ", ".join(parts[:_MOST_NAMED]) + more


def _ends_text(low: Fraction | None, high: Fraction | None) -> str:
    if low is None:
        return "no limit" if high is None else f"at most {amount_text(high)}"
    return f"at least {amount_text(low)}" if high is None else f"between {amount_text(low)} and {amount_text(high)}"


def problem_text(model: CMDP, limits: Limits) -> str:
    """Return the problem in two sentences."""
    steps = "one step" if model.horizon == 1 else f"{model.horizon:,} steps"
    said = (
        f"There are {steps}, numbered from 0. At each of them one action is chosen; its cost and the next state can be "
        "random."
    )
    if not limits.resources:
        return f"{said} No resource is limited."
    kept = " and ".join(shown(name) for name in limits.resources)
    return (
        f"{said} What is spent of {kept} adds up from step to step, and must stay within its limits after every step, "
        "under every outcome that has any probability at all. Among all plans that do, the best has the greatest "
        "expected reward."
    )


def fault_text(model: CMDP, limits: Limits, *, noun: bool = False) -> str:
    """Return what a plan must never do, as in "it breaks a limit or misses the goal"; as a noun, "breaking a limit"."""
    breaks, misses = ("breaking a limit", "missing the goal") if noun else ("breaks a limit", "misses the goal")
    faults = [*([breaks] if limits.resources else []), *([misses] if _has_goal(model) else [])]
    return " or ".join(faults) or breaks


def _has_goal(model: CMDP) -> bool:
    return model.may_end is not None


def excess_text(solution: Solution) -> str:
    """Return by how much a relaxed policy can exceed its limits."""
    over = {name: amount for name, amount in solution.excess.items() if amount > 0}
    return ", ".join(f"{shown(name)} by at most {amount_text(amount)}" for name, amount in over.items())
