"""The approximate MDP: learning with real-valued costs that are rounded, additively and relatively, down or up.

Rounding down, the policy may exceed the budget by at most `epsilon_cost` and earns at least the optimum. Rounding up
("strict"), it never exceeds the budget. Policies are judged with `solvent.verify` by the exact costs of the model.
"""

from __future__ import annotations

import importlib.metadata
from fractions import Fraction
from typing import Any

import solvent
from solvent import CMDP, instances

#: Titles of the schemes, their options, and what each is asked for: an amount, or a share of the budget.
SCHEMES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "additive": ("additive", {"approximation": "additive"}, ("3", "1", "1/3")),
    "relative": ("relative", {"approximation": "relative"}, ("1/4", "1/10", "1/50")),
    "additive strict": ("additive, strict", {"approximation": "additive", "strict": True}, ("3", "1", "1/3")),
    "relative strict": ("relative, strict", {"approximation": "relative", "strict": True}, ("1/4", "1/10", "1/50")),
}
#: Seeds and budgets of random problems that have a feasible policy, and whose budget matters.
PROBLEMS: dict[str, tuple[int, int]] = {"random 5": (5, 8), "random 11": (11, 10)}


def problem(name: str) -> CMDP:
    """Return a random stationary problem whose costs are real numbers (multiples of 2**-53)."""
    seed, budget = PROBLEMS[name]
    return instances.random(4, 3, horizon=5, real_costs=True, cost_range=(0, 3), budget=budget, seed=seed)


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Learn with every scheme until the gap is proved; return values and excesses of the policies."""
    model, settings = problem(job["task"]), job["settings"]
    points = [
        {"scheme": name, "epsilon_cost": amount, **_learn(model, options, Fraction(amount), job["seed"], settings)}
        for name, (_, options, amounts) in SCHEMES.items()
        for amount in amounts
    ]
    return {
        "points": points,
        "optimum": solvent.solve(model).value,
        "nodes": solvent.augment(model, prune=False).n_nodes,
        "training": {part: sum(p[part] for p in points) for part in ("episodes", "over")},
        "versions": {"numpy": importlib.metadata.version("numpy")},
    }


def _learn(
    model: CMDP, options: dict[str, Any], epsilon_cost: Fraction, seed: int, settings: dict[str, Any]
) -> dict[str, Any]:
    (limit,) = model.budget.values()
    learned = solvent.learn(
        model, epsilon=settings["epsilon"], seed=seed, epsilon_cost=epsilon_cost,
        max_episodes=settings["max_episodes"], **options,
    )  # fmt: skip
    found = {"status": learned.status.value, "episodes": learned.episodes, "over": learned.violations}
    if learned.status == "infeasible":
        return found
    share = limit.upper if options["approximation"] == "relative" else 1
    allowed = Fraction(0) if options.get("strict") else epsilon_cost * share
    report = solvent.verify(model, learned.policy)
    (worst,) = report.worst_spent.values()
    return {
        **found,
        "value": report.value,
        "excess": float(max(worst - limit.upper, 0)),
        "bound": float(allowed),
        "within": bool(worst - limit.upper <= allowed),
        "nodes": learned.history[-1].nodes,
    }
