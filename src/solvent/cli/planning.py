"""`solve` and `frontier`: finding policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solvent.cli.budgets import read_budget_options, read_epsilon_options
from solvent.cli.failures import finish
from solvent.cli.models import read_model
from solvent.cli.options import (
    BudgetOption,
    MemoryLimit,
    MethodOption,
    ModelArgument,
    PlotOption,
    ResourceOption,
    TimeLimit,
)
from solvent.cli.outputs import PICTURES, Output, Writing, plan_output, refuse_doubles
from solvent.cli.session import Code, Session
from solvent.core.tables import group

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP
    from solvent.policy.table import AugmentedPolicy
    from solvent.solvers.solution import Solution

_CODES = {"infeasible": Code.INFEASIBLE, "limit": Code.LIMIT}


def solve(
    session: Session,
    model: ModelArgument,
    budget: BudgetOption = None,
    method: MethodOption = None,
    epsilon: Annotated[
        list[str] | None,
        typer.Option(
            "--epsilon",
            "-e",
            metavar="[NAME=]E",
            help="How far additive (an amount) and relative (a share of the budget) may be off.",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="With epsilon: never over budget.", show_default=False)
    ] = False,
    gap: Annotated[
        str | None,
        typer.Option("--gap", metavar="G", help="Stop once this near to the best: 0.01 is 1 %.", show_default=False),
    ] = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="POLICY", help="Write the policy.", show_default=False)
    ] = None,
    plot: PlotOption = None,
) -> int:
    """Find the best policy that never goes over budget."""
    from solvent.cli.text import answers, records
    from solvent.model.budget import resolve
    from solvent.solvers.solve import solve as run

    outputs = {
        "--out": plan_output("--out", out, inputs=(model,)),
        "--plot": plan_output("--plot", plot, inputs=(model,), endings=PICTURES),
    }
    refuse_doubles(outputs)
    session.will_write(policy=outputs["--out"], plot=outputs["--plot"])
    loaded = read_model(session, model)
    limited = read_budget_options(budget, loaded)
    limits = resolve(loaded, limited)
    solution = run(
        loaded, limited, method=method or "auto", epsilon=read_epsilon_options(epsilon, loaded), strict=strict, gap=gap,
        time_limit=time_limit, memory_limit=memory_limit, progress=session.progress,
    )  # fmt: skip
    if session.interrupted:
        found = solution.status.value != "limit"
        session.note(f"interrupted: {'this is the best that was found' if found else 'no policy was found yet'}")
    code = _CODES.get(solution.status.value, Code.OK)
    writing = _write(session, loaded, solution, outputs["--out"], outputs["--plot"])
    record = records.solution_record(loaded, solution, limits)
    text = answers.solution_text(solution, limits, verbose=session.verbose, written=writing.files)
    record |= {"written": writing.files, "interrupted": session.interrupted}
    if session.interrupted and code is Code.LIMIT:
        code = session.interrupted_code
    return finish(session, text, record, code, writing.error)


def _write(session: Session, model: CMDP, solution: Solution, out: Output | None, plot: Output | None) -> Writing:
    """Write what was asked for."""
    writing = Writing()
    if solution.status.value in _CODES:
        if out is not None or plot is not None:
            session.note("nothing was written, as there is no policy")
        return writing
    with session.working("writing"):
        writing.put("policy", out, lambda path: solution.policy.save(path))
        writing.put("plot", plot, lambda path: draw_spending(path, model, solution.policy))
    return writing


def draw_spending(path: Path, model: CMDP, policy: AugmentedPolicy, *given: Any, **options: Any) -> None:
    """Draw what a policy spends over time into a file."""
    from solvent.plot.files import save
    from solvent.plot.panels import spending_panels

    save(spending_panels(model, policy, *given, **options), path)


def frontier(
    session: Session,
    model: ModelArgument,
    resource: ResourceOption = None,
    max_budget: Annotated[
        str | None,
        typer.Option("--max-budget", metavar="BUDGET", help="The largest of interest.", show_default=False),
    ] = None,
    ignore_limits: Annotated[
        bool,
        typer.Option("--ignore-limits", help="Leave out what else the model's budget demands.", show_default=False),
    ] = False,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    plot: PlotOption = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write all points, exactly.", show_default=False)
    ] = None,
) -> int:
    """Price every budget of one resource at once."""
    from solvent import plot as figures
    from solvent.cli.text import answers, records
    from solvent.core.files import write_atomically
    from solvent.solvers.curve import frontier as run

    drawing = plan_output("--plot", plot, inputs=(model,), endings=PICTURES)
    table = plan_output("--csv", csv, inputs=(model,))
    refuse_doubles({"--plot": drawing, "--csv": table})
    session.will_write(plot=drawing, csv=table)
    loaded = read_model(session, model)
    curve = run(
        loaded, resource, max_budget, ignore_limits=ignore_limits, time_limit=time_limit, memory_limit=memory_limit,
        progress=session.progress,
    )  # fmt: skip
    writing = Writing()
    with session.working("writing"):
        writing.put("csv", table, lambda path: write_atomically(path, answers.curve_csv(curve).encode()))
        writing.put("plot", drawing, lambda path: figures.save(figures.frontier(curve), path))
    text = answers.curve_text(curve, answers.curve_plot(curve, session.out), verbose=session.verbose)
    record = records.curve_record(curve) | {"written": writing.files}
    code = Code.INFEASIBLE if curve.least_budget is None else Code.OK
    return finish(session, group(text, answers.written_text(writing.files)), record, code, writing.error)
