"""What people use today, done properly, to compare with: each returns a `Baseline` whose policy `verify` takes."""

from solvent.baselines.chance import chance
from solvent.baselines.compare import Comparison, ComparisonRow, compare
from solvent.baselines.expectation import expectation
from solvent.baselines.knapsack import knapsack_style
from solvent.baselines.result import Baseline, BaselineStatus
from solvent.baselines.smaller import smaller_budget
from solvent.baselines.unconstrained import unconstrained

__all__ = [
    "Baseline",
    "BaselineStatus",
    "Comparison",
    "ComparisonRow",
    "chance",
    "compare",
    "expectation",
    "knapsack_style",
    "smaller_budget",
    "unconstrained",
]
