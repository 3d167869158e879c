"""The computations and the text of `solvent demo`: a van whose budget is kept on average, or never exceeded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solvent.cli.text import records, results
from solvent.core.tables import facts_grid, group

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from solvent.baselines.result import Baseline
    from solvent.model.cmdp import CMDP
    from solvent.solvers.curve import Curve
    from solvent.solvers.solution import Solution
    from solvent.verification.report import VerifyReport
    from solvent.verification.simulate import Simulation

_SEED = 1
_LARGEST_TANK = 60


@dataclass(frozen=True)
class AverageResult:
    """A policy that keeps its budget in expectation, its exact verification, and a simulation."""

    plan: Baseline
    report: VerifyReport
    runs: Simulation


@dataclass(frozen=True)
class SafeResult:
    """A policy that never exceeds its budget, its exact verification, and a simulation."""

    solution: Solution
    report: VerifyReport
    runs: Simulation


def solve_average(model: CMDP, episodes: int) -> AverageResult:
    """Solve under an expectation constraint, verify and simulate."""
    from solvent.baselines import expectation
    from solvent.verification.simulate import simulate
    from solvent.verification.verify import verify

    plan = expectation(model)
    return AverageResult(plan, verify(model, plan.policy), simulate(model, plan.policy, episodes, _SEED))


def compile_kernels(model: CMDP) -> None:
    """Compile the kernels, so that the printed times are solution times only."""
    from solvent.solvers.solve import solve

    solve(model)


def solve_safe(model: CMDP, episodes: int) -> SafeResult:
    """Solve for a budget that is never exceeded, verify and simulate."""
    from solvent.solvers.solve import solve
    from solvent.verification.simulate import simulate
    from solvent.verification.verify import verify

    solution = solve(model)
    return SafeResult(solution, verify(model, solution.policy), simulate(model, solution.policy, episodes, _SEED))


def compute_frontier(model: CMDP) -> Curve:
    """Return the best value for every size of the tank."""
    from solvent.solvers.every_budget import frontier

    return frontier(model, max_budget=_LARGEST_TANK)


@dataclass(frozen=True)
class DemoText:
    """Prints the sections of the demo one by one.

    Attributes
    ----------
    console : Console
        Console whose width the plot uses.
    print_text : callable
        Prints one section.
    silent : bool
        Whether to print nothing.
    """

    console: Console
    print_text: Callable[[RenderableType], None]
    silent: bool = False

    def _section(self, title: str, *parts: RenderableType) -> None:
        from rich.rule import Rule

        if not self.silent:
            self.print_text(group(Rule(title, align="left"), *parts, ""))

    def problem(self, model: CMDP) -> None:
        """Print the problem."""
        self._section("The problem", results.model_text(model))

    def average(self, found: AverageResult) -> None:
        """Print the results for a budget kept in expectation."""
        chance = found.report.violation_probability or 0.0
        dry, days = found.runs.violations, found.runs.episodes
        witness: list[RenderableType] = []
        if found.report.witness is not None:
            witness = ["A shortest day on which it runs dry:", found.report.witness]
        self._section(
            "A budget kept on average",
            "The standard approach: the best policy whose expected costs are at most 30. It does not know that a full "
            "tank takes no more.",
            facts_grid(
                [
                    ("value", f"{found.plan.value:.4f} a day"),
                    ("runs dry", f"with probability {chance:.4f}, computed exactly"),
                    ("simulated", f"{dry:,} of {days:,} days end with an empty tank on the road"),
                ]
            ),
            *witness,
        )

    def safe(self, model: CMDP, found: SafeResult) -> None:
        """Print the results for a budget that is never exceeded."""
        from solvent.model.budget import resolve

        verdict = "no day runs dry, under any outcome" if found.report.feasible else "a day can run dry"
        self._section(
            "A budget never exceeded",
            "The best policy that never runs dry: at any step, under any outcome.",
            results.solution_text(found.solution, resolve(model, None)),
            facts_grid(
                [
                    ("verified", f"{verdict}: {found.report.nodes:,} nodes checked by independent code"),
                    ("simulated", f"{found.runs.violations:,} of {found.runs.episodes:,} days run dry"),
                ]
            ),
        )

    def frontier(self, curve: Curve) -> None:
        """Print the value of every size of the tank."""
        self._section(
            "What another liter is worth",
            f"The best value for every tank up to {_LARGEST_TANK}: {len(curve):,} points, each exact.",
            results.curve_plot(curve, self.console, budget=30),
        )

    def files(self, written: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
        """Print the files written, and what to try next."""
        self._section(
            "Files",
            facts_grid((name, results.file_text(file)) for name, file in written.items()),
            "\nTry another tank, verify the policy, compare methods:",
            f"  solvent solve {folder / 'delivery-van.yaml'} --budget fuel=20\n"
            f"  solvent verify {folder / 'delivery-van.yaml'} {folder / 'van.policy'}\n"
            f"  solvent compare {folder / 'delivery-van.yaml'}",
        )


def demo_record(model: CMDP, average: AverageResult, safe: SafeResult, curve: Curve) -> dict[str, Any]:
    """Return the JSON record of the demo."""
    from solvent.model.budget import resolve

    return {
        "on_average": {
            "value": average.plan.value,
            "violation_probability": average.report.violation_probability,
            "episodes": average.runs.episodes,
            "violations": average.runs.violations,
        },
        "never_over": records.solution_record(model, safe.solution, resolve(model, None))
        | {"feasible": safe.report.feasible, "violations": safe.runs.violations},
        "frontier": records.curve_record(curve),
    }
