"""`solve` and `frontier`: compute policies and values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from solvent.cli.budgets import read_amount_options, read_budget_options, read_epsilon_options, read_spent_options
from solvent.cli.completion import complete_budget, complete_vary
from solvent.cli.drawing import Drawing, plan_drawing
from solvent.cli.exits import finish
from solvent.cli.models import read_model
from solvent.cli.options import (
    AddressOption,
    ApproximationOption,
    BudgetOption,
    CheckpointEvery,
    CheckpointOption,
    EngineOption,
    EpsilonOption,
    GapOption,
    MemoryLimit,
    MethodOption,
    ModelArgument,
    PlotOption,
    PolicyPlotOption,
    ResourceOption,
    SpentOption,
    StrictOption,
    TimeLimit,
)
from solvent.cli.outputs import PLOT_SUFFIXES, Output, OutputFiles, plan_output, refuse_duplicates
from solvent.cli.session import ExitCode, Session
from solvent.core.tables import group

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solvent.model.budget import Limits
    from solvent.model.cmdp import CMDP
    from solvent.solvers.solution import Solution
    from solvent.verification.report import Witness

#: Exit codes of the statuses without a policy that keeps the budget.
CODES = {
    "infeasible": ExitCode.INFEASIBLE,
    "not_found": ExitCode.INFEASIBLE,
    "limit": ExitCode.LIMIT,
    "relaxed": ExitCode.RELAXED,
}
#: The gap to which problems with continuous costs are solved unless another way is asked for.
_CONTINUOUS_GAP = "0.01"
#: Seconds for the history that shows why a problem is infeasible.
_HISTORY_SECONDS = 5.0
#: Resources that can be named by --max-budget and --at.
_VARIES = "a resource that varies"


def solve(
    session: Session,
    model: ModelArgument,
    budget: BudgetOption = None,
    spent: SpentOption = None,
    method: MethodOption = None,
    approximation: ApproximationOption = None,
    epsilon: EpsilonOption = None,
    strict: StrictOption = False,
    gap: GapOption = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    checkpoint: CheckpointOption = None,
    checkpoint_every: CheckpointEvery = 60.0,
    engine: EngineOption = "local",
    address: AddressOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="POLICY", help="Write the policy.", show_default=False)
    ] = None,
    plot: PolicyPlotOption = None,
) -> int:
    """Find the best policy that never exceeds the budget."""
    from solvent.cli.text import records, results

    drawing = plan_drawing(plot, "spending", (model,))
    outputs = {
        "--out": plan_output("--out", out, inputs=(model,)),
        "--plot": None if drawing is None else drawing.output,
    }
    refuse_duplicates(outputs)
    session.plan_files(policy=outputs["--out"], plot=outputs["--plot"])
    task = read_task(session, model, budget, spent)
    loaded, limits = task.model, task.limits
    scheme = task.read_scheme(session, method, approximation, epsilon, gap, strict=strict)
    with session.checkpoint_notes(checkpoint):
        solution = task.solve(
            session, **scheme, time_limit=time_limit, memory_limit=memory_limit, checkpoint=checkpoint,
            checkpoint_every=checkpoint_every, engine=engine, address=address,
        )  # fmt: skip
    if session.interrupted:
        found = solution.status.has_policy
        session.note(f"interrupted: {'this is the best policy found so far' if found else 'no policy found yet'}")
    code = CODES.get(solution.status.value, ExitCode.OK)
    output_files = _write(session, loaded, solution, outputs["--out"], drawing)
    history = _why_infeasible(session, loaded, solution, limits, time_limit)
    record = records.solution_record(loaded, solution, limits, history)
    text = results.solution_text(solution, limits, verbose=session.verbose, written=output_files.files, history=history)
    warn_of_excess(session, solution)
    record |= {"written": output_files.files, "interrupted": session.interrupted}
    if session.interrupted and code is ExitCode.LIMIT:
        code = session.interrupted_code
    return finish(session, text, record, code, output_files.error)


class Task(NamedTuple):
    """What a command solves: a model, and its budget and what was spent before as options state them.

    Attributes
    ----------
    model : CMDP
    budget, spent
        As `solvent.solve` takes them.
    limits : Limits
        The limits that they put on each step.
    """

    model: CMDP
    budget: Any
    spent: Any
    limits: Limits

    def read_scheme(
        self,
        session: Session,
        method: str | None,
        approximation: str | None,
        epsilon: list[str] | None,
        gap: str | None,
        *,
        strict: bool,
    ) -> dict[str, Any]:
        """Return the arguments of `solvent.solve` that say how to solve it.

        Without any of the options, a model with continuous costs is solved to a small gap.
        """
        plain = approximation is None and epsilon is None and not strict and method in (None, "auto")
        if gap is None and plain and _has_continuous_costs(self.model, self.limits):
            session.note(f"costs are continuous, so that the answer is within a gap, as with --gap {_CONTINUOUS_GAP}")
            gap = _CONTINUOUS_GAP
        return {
            "method": method or "auto", "approximation": approximation, "strict": strict, "gap": gap,
            "epsilon": read_epsilon_options(epsilon, self.model),
        }  # fmt: skip

    def solve(self, session: Session, **options: Any) -> Solution:
        """Solve the problem; the options are those of `solvent.solve`."""
        from solvent.solvers.solve import solve as run

        return run(self.model, self.budget, spent=self.spent, progress=session.progress, **options)


def read_task(session: Session, path: Path, budget: list[str] | None, spent: list[str] | None) -> Task:
    """Load a model, and read the options `--budget` and `--spent`."""
    from solvent.model.budget import resolve

    model = read_model(session, path)
    limited, before = read_budget_options(budget, model), read_spent_options(spent, model)
    return Task(model, limited, before, resolve(model, limited, before))


def warn_of_excess(session: Session, solution: Solution) -> None:
    """Print a warning if a policy can exceed its budget."""
    from solvent.cli.text import results

    if solution.status.value == "relaxed":
        excess = results.excess_text(solution)
        session.warn(f"this policy can exceed the budget by {excess}; with --strict it never does")


def _has_continuous_costs(model: CMDP, limits: Limits) -> bool:
    """Return whether some limited resource has continuous costs, which exact methods do not accept."""
    if model.distribution_DO is None:
        return False
    tracked = [model.resource_index(name) for name in limits.resources]
    return bool((model.distribution_DO[tracked] >= 0).any())


def _why_infeasible(
    session: Session, model: CMDP, solution: Solution, limits: Limits, time_limit: float | None
) -> Witness | None:
    """Return how the most careful policy breaks a limit or misses its goal, if no policy is feasible."""
    if solution.status.value != "infeasible" or solution.diagnosis is None or session.interrupted:
        return None
    from solvent.solvers.explain import infeasible_history

    seconds = _HISTORY_SECONDS if time_limit is None else min(_HISTORY_SECONDS, time_limit)
    with session.working("looking for an example"):
        return infeasible_history(model, limits, time_limit=seconds)


def _write(session: Session, model: CMDP, solution: Solution, out: Output | None, plot: Drawing | None) -> OutputFiles:
    """Write the policy and the plot, if requested."""
    output_files = OutputFiles()
    if not solution.status.has_policy:
        if out is not None or plot is not None:
            session.note("nothing was written: there is no policy")
        return output_files
    with session.working("writing"):
        output_files.write("policy", out, lambda path: solution.policy.save(path))
        if plot is not None:
            output_files.write("plot", plot.output, lambda path: plot.draw(path, model, solution.policy))
    return output_files


def frontier(
    session: Session,
    model: ModelArgument,
    resource: ResourceOption = None,
    max_budget: Annotated[
        list[str] | None,
        typer.Option(
            "--max-budget",
            metavar="[NAME=]BUDGET",
            help="Largest budget of interest. Repeat for several resources.",
            autocompletion=complete_budget,
            show_default=False,
        ),
    ] = None,
    vary: Annotated[
        str,
        typer.Option(
            "--vary",
            metavar="WHAT",
            help="What varies: budget (the limit) or remaining (what remains of --budget before the first step).",
            autocompletion=complete_vary,
        ),
    ] = "budget",
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            "-b",
            metavar="[NAME=]LIMIT",
            help="Limit of a resource that does not vary; with --vary remaining, also the limit of which a part "
            "remains. Default: the model's own.",
            autocompletion=complete_budget,
            show_default=False,
        ),
    ] = None,
    spent: SpentOption = None,
    ignore_limits: Annotated[
        bool,
        typer.Option("--ignore-limits", help="Ignore all other limits of the model's own budget.", show_default=False),
    ] = False,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    checkpoint: CheckpointOption = None,
    checkpoint_every: CheckpointEvery = 60.0,
    engine: EngineOption = "local",
    address: AddressOption = None,
    plot: PlotOption = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="NAME=BUDGET",
            help="With --plot and more than two resources: budgets of all but two of them.",
            autocompletion=complete_budget,
            show_default=False,
        ),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write all points as CSV.", show_default=False)
    ] = None,
) -> int:
    """Compute the best value for every budget of one resource, or of several at once."""
    from solvent.cli.text import results
    from solvent.core.files import write_atomically
    from solvent.plot.files import save
    from solvent.solvers.every_budget import frontier as run
    from solvent.solvers.surface import Surface

    drawing = plan_output("--plot", plot, inputs=(model,), suffixes=PLOT_SUFFIXES)
    table = plan_output("--csv", csv, inputs=(model,))
    refuse_duplicates({"--plot": drawing, "--csv": table})
    session.plan_files(plot=drawing, csv=table)
    loaded = read_model(session, model)
    names = resource or (list(loaded.resources) if loaded.n_resources == 1 else [])
    fixed = _read_at(at, names, drawing)
    # if limits vary, only the other resources have a fixed limit
    limited = [name for name in loaded.resources if vary != "budget" or name not in names]
    largest = read_amount_options(max_budget if names else None, names, "--max-budget", _VARIES)
    with session.checkpoint_notes(checkpoint):
        found = run(
            loaded, names or None, largest, vary=vary, budget=read_budget_options(budget, loaded, limited),
            spent=read_spent_options(spent, loaded), ignore_limits=ignore_limits, time_limit=time_limit,
            memory_limit=memory_limit, checkpoint=checkpoint, checkpoint_every=checkpoint_every, engine=engine,
            address=address, progress=session.progress,
        )  # fmt: skip
    output_files = OutputFiles()
    result = _surface_result if isinstance(found, Surface) else _curve_result
    text, record, points = result(session, found)
    with session.working("writing"):
        output_files.write("csv", table, lambda path: write_atomically(path, points.encode()))
        output_files.write("plot", drawing, lambda path: save(found.plot(**fixed), path))
    record |= {"written": output_files.files}
    code = ExitCode.OK if len(found) else ExitCode.INFEASIBLE
    return finish(session, group(text, results.written_text(output_files.files)), record, code, output_files.error)


def _read_at(texts: list[str] | None, names: list[str], drawing: Output | None) -> dict[str, Any]:
    """Return the argument `at` of the plot of a surface of more than two resources."""
    from solvent.errors import BudgetError, quote

    given = read_amount_options(texts, names, "--at", _VARIES) or {}
    free = [name for name in names if name not in given]
    if given and (drawing is None or len(names) < 3):
        raise BudgetError("--at", "a plot of a surface of more than two resources", "none to draw", "add --plot FILE")
    if drawing is not None and len(names) > 2 and len(free) != 2:
        hint = f"add --at {free[-1]}=BUDGET" if len(free) > 2 else ""
        raise BudgetError("--at", "budgets of all but two resources", ", ".join(map(quote, given)) or "none", hint)
    return {"at": given} if given else {}


def _curve_result(session: Session, curve: Any) -> tuple[RenderableType, dict[str, Any], str]:
    """Return a curve as text, as a record and as CSV."""
    from solvent.cli.text import records, results

    text = results.curve_text(curve, results.curve_plot(curve, session.out), verbose=session.verbose)
    return text, records.curve_record(curve), results.curve_csv(curve)


def _surface_result(session: Session, surface: Any) -> tuple[RenderableType, dict[str, Any], str]:
    """Return a surface as text, as a record and as CSV."""
    from solvent.cli.text import surfaces

    text = surfaces.surface_text(surface, session.out.width, verbose=session.verbose)
    return text, surfaces.surface_record(surface), surfaces.surface_csv(surface)
