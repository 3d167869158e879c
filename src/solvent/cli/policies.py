"""`policy`: show what a policy does, and explain why."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solvent.cli.budgets import read_spent_options
from solvent.cli.completion import complete_budget, complete_resource, complete_state
from solvent.cli.drawing import plan_drawing
from solvent.cli.exits import finish
from solvent.cli.models import read_model, read_state
from solvent.cli.options import MemoryLimit, ModelArgument, PolicyArgument, PolicyPlotOption, TimeLimit
from solvent.cli.outputs import OutputFiles, plan_output, refuse_duplicates
from solvent.cli.session import ExitCode, Session
from solvent.core.tables import group
from solvent.errors import ModelError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solvent.model.cmdp import CMDP
    from solvent.policy.table import AugmentedPolicy


def policy(
    session: Session,
    model: ModelArgument,
    policy: PolicyArgument,
    step: Annotated[
        int | None, typer.Option("--step", metavar="H", help="Only this step, from 0.", show_default=False)
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state", metavar="NAME", help="Only this state.", autocompletion=complete_state, show_default=False
        ),
    ] = None,
    resource: Annotated[
        str | None,
        typer.Option(
            "--resource",
            "-r",
            metavar="NAME",
            help="Resource whose amounts are merged into ranges, if there are several. Default: the last.",
            autocompletion=complete_resource,
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Explain one node: the value of each action, and what forbids those that are not allowed. Needs "
            "--step and --state, and after the first step --spent.",
            show_default=False,
        ),
    ] = False,
    spent: Annotated[
        list[str] | None,
        typer.Option(
            "--spent",
            metavar="[NAME=]AMOUNT",
            help="With --explain: what has been spent of a resource before --step: fuel=5. Repeat for several "
            "resources.",
            autocompletion=complete_budget,
            show_default=False,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Print all rows.", show_default=False)] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a table in Markdown.", show_default=False)
    ] = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write all rows as CSV.", show_default=False)
    ] = None,
    plot: PolicyPlotOption = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Show what a policy does as a table, or explain one of its decisions."""
    from solvent.policy.files import load_policy

    output = plan_output("--csv", csv, inputs=(model, policy))
    drawing = plan_drawing(plot, "policy", (model, policy))
    drawn = None if drawing is None else drawing.output
    refuse_duplicates({"--csv": output, "--plot": drawn})
    session.plan_files(csv=output, plot=drawn)
    loaded = read_model(session, model)
    with session.working(f"reading {policy.name}"):
        followed = load_policy(policy, loaded)
    named = None if state is None else read_state(state, loaded)
    if explain:
        refused = {"--csv": csv, "--plot": plot, "--markdown": markdown, "--resource": resource, "--all": every}
        for option, given in refused.items():
            if given:
                raise ModelError(option, "no --explain with it", "--explain")
        return _explain(session, loaded, followed, step, named, spent, time_limit, memory_limit)
    if spent:
        raise ModelError("--spent", "--explain with it", "no --explain")
    from solvent.cli.text import plans
    from solvent.core.files import write_atomically

    with session.working("following the policy"):
        rows = followed.table(step=step, state=named, resource=resource, model=loaded)
    output_files = OutputFiles()
    output_files.write("csv", output, lambda path: write_atomically(path, plans.plan_csv(followed, rows).encode()))
    if drawing is not None:
        places: dict[str, Any] = {"states": None if named is None else [named], "step": step, "resource": resource}
        with session.working("drawing"):
            output_files.write("plot", drawing.output, lambda path: drawing.draw(path, loaded, followed, **places))
    record = plans.plan_record(loaded, followed, rows) | {"written": output_files.files}
    text: RenderableType | None = None
    if markdown and not session.as_json:
        print(plans.plan_markdown(followed, rows))  # not wrapped, as one line is one row
    else:
        text = plans.plan_text(followed, rows, every=every or session.verbose, files=output_files.files)
    return finish(session, text, record, ExitCode.OK, output_files.error)


def _explain(
    session: Session,
    model: CMDP,
    policy: AugmentedPolicy,
    step: int | None,
    state: Hashable,
    spent: list[str] | None,
    time_limit: float | None,
    memory_limit: str | None,
) -> int:
    """Explain what a policy does at one node."""
    from solvent.cli.text import records
    from solvent.solvers.explain import TIME_LIMIT
    from solvent.solvers.explain import explain as run

    if step is None or state is None:
        missing = "--step" if step is None else "--state"
        raise ModelError("--explain", f"{missing} with it, as a node is a step, a state and what was spent", "none")
    with session.working("explaining"):
        found = run(
            model, policy, step, state, read_spent_options(spent, model),
            time_limit=TIME_LIMIT if time_limit is None else time_limit, memory_limit=memory_limit,
        )  # fmt: skip
    session.print_result(group(found), {"model": records.identity(model), "explanation": found.to_dict()})
    unknown = any(option.allowed is None for option in found.options)
    return ExitCode.LIMIT if unknown else ExitCode.OK
