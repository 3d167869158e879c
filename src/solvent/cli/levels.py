"""`levels`: how much must be left of a resource, without a horizon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from solvent.cli.completion import complete_resource
from solvent.cli.exits import finish
from solvent.cli.models import read_any_model, read_state
from solvent.cli.options import MemoryLimit, ModelArgument, TimeLimit
from solvent.cli.session import ExitCode, Session
from solvent.errors import ModelError

if TYPE_CHECKING:
    pass


def levels(
    session: Session,
    model: ModelArgument,
    capacity: Annotated[
        str, typer.Option("--capacity", metavar="AMOUNT", help="The largest level.", show_default=False)
    ],
    resource: Annotated[
        str | None,
        typer.Option(
            "--resource",
            "-r",
            metavar="NAME",
            help="Resource whose level counts. Required if the model has several.",
            autocompletion=complete_resource,
            show_default=False,
        ),
    ] = None,
    reload: Annotated[
        list[str] | None,
        typer.Option(
            "--reload",
            metavar="STATE",
            help="A state that sets the level to the capacity. Repeat for several.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="STATE",
            help="A state to reach with probability one. Repeat for several.",
            show_default=False,
        ),
    ] = None,
    to_reload: Annotated[
        bool,
        typer.Option(
            "--to-reload", help="Ask for the level to reach a reload state surely, and no further.", show_default=False
        ),
    ] = False,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Compute the least level of each state to survive forever, or to reach states."""
    from solvent.cli.text import records, results
    from solvent.solvers.levels.levels import reach_levels, reload_levels, survival_levels

    if to_reload and target:
        raise ModelError("--to-reload", "no --target", "both")
    loaded = read_any_model(session, model)
    chargers = [read_state(text, loaded, "--reload") for text in reload or []]
    limits = {"time_limit": time_limit, "memory_limit": memory_limit, "progress": session.progress}
    if target:
        ends = [read_state(text, loaded, "--target") for text in target]
        found = reach_levels(loaded, ends, resource, capacity=capacity, reload=chargers, **limits)  # type: ignore[arg-type]
    else:
        ask = reload_levels if to_reload else survival_levels
        found = ask(loaded, resource, capacity=capacity, reload=chargers, **limits)  # type: ignore[arg-type]
    code = ExitCode.OK if found.start_level is not None else ExitCode.INFEASIBLE
    text = results.levels_text(found, verbose=session.verbose)
    return finish(session, text, records.levels_record(found), code, None)
