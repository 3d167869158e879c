"""The story that `solvent demo` tells: a van, its tank, and what keeping a budget on average means on the road."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solvent.cli.text import answers, records
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
class Average:
    """A plan that keeps its budget on average: what it claims, what is true, and what was seen."""

    plan: Baseline
    report: VerifyReport
    runs: Simulation


@dataclass(frozen=True)
class Certain:
    """A plan that never goes over: what was found, what is true, and what was seen."""

    solution: Solution
    report: VerifyReport
    runs: Simulation


def play_average(model: CMDP, episodes: int) -> Average:
    """Plan under an expectation constraint, and see what comes of it."""
    from solvent.baselines import expectation
    from solvent.verification.simulate import simulate
    from solvent.verification.verify import verify

    plan = expectation(model)
    return Average(plan, verify(model, plan.policy), simulate(model, plan.policy, episodes, _SEED))


def get_ready(model: CMDP) -> None:
    """Have the kernels compiled, so that the times told are those of planning."""
    from solvent.solvers.solve import solve

    solve(model)


def play_certain(model: CMDP, episodes: int) -> Certain:
    """Plan so that the budget is never broken, and check it."""
    from solvent.solvers.solve import solve
    from solvent.verification.simulate import simulate
    from solvent.verification.verify import verify

    solution = solve(model)
    return Certain(solution, verify(model, solution.policy), simulate(model, solution.policy, episodes, _SEED))


def price(model: CMDP) -> Curve:
    """Return the best value for every tank."""
    from solvent.solvers.curve import frontier

    return frontier(model, max_budget=_LARGEST_TANK)


@dataclass(frozen=True)
class Teller:
    """Tells the chapters one by one, as they are known.

    Attributes
    ----------
    console : Console
        How wide the page is.
    say : callable
        Prints one part.
    silent : bool
        Whether to tell nothing.
    """

    console: Console
    say: Callable[[RenderableType], None]
    silent: bool = False

    def _tell(self, title: str, *parts: RenderableType) -> None:
        from rich.rule import Rule

        if not self.silent:
            self.say(group(Rule(title, align="left"), *parts, ""))

    def question(self, model: CMDP) -> None:
        """Say what is asked."""
        self._tell("The question", answers.model_text(model))

    def average(self, found: Average) -> None:
        """Say what a budget on average does."""
        chance = found.report.violation_probability or 0.0
        dry, days = found.runs.violations, found.runs.episodes
        witness: list[RenderableType] = []
        if found.report.witness is not None:
            witness = ["A shortest day on which it does:", found.report.witness]
        self._tell(
            "A budget kept on average",
            "The usual way: the best plan that burns at most 30 in expectation.",
            facts_grid(
                [
                    ("promises", f"{found.plan.value:.4f} a day"),
                    ("runs dry", f"with probability {chance:.4f}, computed exactly"),
                    ("simulated", f"{dry:,} of {days:,} days end with an empty tank on the road"),
                ]
            ),
            *witness,
        )

    def certain(self, model: CMDP, found: Certain) -> None:
        """Say what a budget never broken costs."""
        from solvent.model.budget import resolve

        verdict = "no day runs dry, whatever happens" if found.report.feasible else "a day can run dry"
        self._tell(
            "A budget never broken",
            "The best plan of all that never run dry: at no step, under no luck.",
            answers.solution_text(found.solution, resolve(model, None)),
            facts_grid(
                [
                    ("checked", f"{verdict}: {found.report.nodes:,} nodes looked at by a second program"),
                    ("simulated", f"{found.runs.violations:,} of {found.runs.episodes:,} days run dry"),
                ]
            ),
        )

    def price(self, curve: Curve) -> None:
        """Say what each liter is worth."""
        self._tell(
            "What another liter is worth",
            f"The best value for every tank up to {_LARGEST_TANK}, all {len(curve):,} levels from one solve.",
            answers.curve_plot(curve, self.console, budget=30),
        )

    def files(self, written: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
        """Say what was written, and what to try next."""
        self._tell(
            "Yours to keep",
            facts_grid((name, answers.file_text(file)) for name, file in written.items()),
            "\nTry another tank, and doubt the plan:",
            f"  solvent solve {folder / 'delivery-van.yaml'} --budget fuel=20\n"
            f"  solvent verify {folder / 'delivery-van.yaml'} {folder / 'van.policy'}\n"
            f"  solvent compare {folder / 'delivery-van.yaml'}",
        )


def demo_record(model: CMDP, average: Average, certain: Certain, curve: Curve) -> dict[str, Any]:
    """Return the story for machines."""
    from solvent.model.budget import resolve

    return {
        "on_average": {
            "value": average.plan.value,
            "violation_probability": average.report.violation_probability,
            "episodes": average.runs.episodes,
            "violations": average.runs.violations,
        },
        "never_over": records.solution_record(model, certain.solution, resolve(model, None))
        | {"feasible": certain.report.feasible, "violations": certain.runs.violations},
        "frontier": records.curve_record(curve),
    }
