"""Standard methods for budgets, to compare with: each returns a `Baseline` whose policy `verify` accepts."""

from solvent.baselines.chance import chance
from solvent.baselines.compare import Comparison, ComparisonRow, compare
from solvent.baselines.expectation import expectation
from solvent.baselines.knapsack import knapsack_style
from solvent.baselines.result import Baseline
from solvent.baselines.smaller import smaller_budget
from solvent.baselines.unconstrained import unconstrained

__all__ = [
    "Baseline",
    "Comparison",
    "ComparisonRow",
    "chance",
    "compare",
    "expectation",
    "knapsack_style",
    "smaller_budget",
    "unconstrained",
]
