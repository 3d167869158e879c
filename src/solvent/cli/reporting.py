"""`report`: solve a model and write a page about the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from solvent.cli.budgets import read_amount_options
from solvent.cli.completion import complete_budget
from solvent.cli.exits import finish
from solvent.cli.options import (
    ApproximationOption,
    BudgetOption,
    EpsilonOption,
    GapOption,
    MemoryLimit,
    MethodOption,
    ModelArgument,
    SeedOption,
    SpentOption,
    StrictOption,
)
from solvent.cli.outputs import OutputFiles, plan_output
from solvent.cli.session import Session
from solvent.cli.solving import CODES, read_task, warn_of_excess

#: Seconds for each part of the page, unless a time limit is given.
_SECONDS = 60.0


def report(
    session: Session,
    model: ModelArgument,
    budget: BudgetOption = None,
    spent: SpentOption = None,
    method: MethodOption = None,
    approximation: ApproximationOption = None,
    epsilon: EpsilonOption = None,
    strict: StrictOption = False,
    gap: GapOption = None,
    max_budget: Annotated[
        list[str] | None,
        typer.Option(
            "--max-budget",
            metavar="[NAME=]BUDGET",
            help="Largest budget of the slider. Repeat for several resources. Default: twice the limit.",
            autocompletion=complete_budget,
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", metavar="N", help="Number of simulated episodes.")] = (
        10_000
    ),
    trajectories: Annotated[
        int, typer.Option("--trajectories", metavar="N", help="Number of episodes to show step by step.")
    ] = 5,
    seed: SeedOption = 0,
    delta: Annotated[
        float, typer.Option("--delta", metavar="P", help="Violation probability that chance constraints allow.")
    ] = 0.05,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            metavar="SECONDS",
            help="Time for the solve and for each part of the page; parts that are not finished are left out. Default: "
            "no limit for the solve, 60 for each part.",
            show_default=False,
        ),
    ] = None,
    memory_limit: MemoryLimit = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page to write: .html.")] = Path(
        "report.html"
    ),
) -> int:
    """Solve a model and write a page about the answer: one HTML file that works offline.

    Needs the extra `report`: pip install "solvent[report]".
    """
    from solvent.cli.text import records, results
    from solvent.report.bundle import check_installed
    from solvent.report.write import SUFFIXES, read_settings, write_report

    output = plan_output("--out", out, inputs=(model,), suffixes=SUFFIXES)
    check_installed()
    session.plan_files(report=output)
    task = read_task(session, model, budget, spent)
    loaded, limits = task.model, task.limits
    largest = read_amount_options(max_budget, list(limits.resources), "--max-budget", "a limited resource")
    settings = read_settings(
        limits, largest, episodes, seed, trajectories, delta, _SECONDS if time_limit is None else time_limit,
        memory_limit,
    )  # fmt: skip
    scheme = task.read_scheme(session, method, approximation, epsilon, gap, strict=strict)
    solution = task.solve(session, **scheme, time_limit=time_limit, memory_limit=memory_limit)
    if session.interrupted:
        session.note("interrupted: the page is about what was found so far")
    output_files = OutputFiles()
    output_files.write(
        "report", output, lambda path: write_report(loaded, limits, solution, path, settings, session.progress)
    )
    text = results.solution_text(solution, limits, verbose=session.verbose, written=output_files.files)
    record = records.solution_record(loaded, solution, limits)
    record |= {"written": output_files.files, "interrupted": session.interrupted}
    code = CODES.get(solution.status.value, 0)
    warn_of_excess(session, solution)
    return finish(session, text, record, code, output_files.error)
