"""`paper`: reproduce the figures of the paper."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from solvent.cli.completion import complete_figure
from solvent.cli.exits import stop
from solvent.cli.options import AddressOption, EngineOption
from solvent.cli.session import ExitCode, Session


def paper(
    session: Session,
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FIGURE",
            help="value, scale, approximation, never-over, precision, far, average or smoothed. Default: all.",
            autocompletion=complete_figure,
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Output folder.")] = Path("solvent-paper"),
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", metavar="N", help="Number of processes. Default: one per core.", show_default=False
        ),
    ] = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use small sizes, as a test.", show_default=False)] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Discard the measurements of earlier runs.", show_default=False)
    ] = False,
) -> int:
    """Reproduce the paper's figures.

    The figures average and smoothed are on the average case. Measurements are saved as they are made: the same command
    continues a run that was stopped. Each figure is written as data (.csv), plot (.png) and summary (.json); if all
    figures are made, so is a table of the paper's claims.
    """
    from solvent.experiments import report
    from solvent.experiments.paper import Reproduced, choose, reproduce, write_claims

    began = time.perf_counter()
    names = choose(figures or [])
    made: list[Reproduced] = []
    figures_made = reproduce(
        names, out, jobs=jobs, quick=quick, fresh=fresh, engine=engine, address=address, progress=session.progress
    )
    try:
        for each in figures_made:
            made.append(each)
            if not session.as_json:
                session.print_text(report.figure_text(each))
        claims = write_claims(made, out, quick=quick)
    except KeyboardInterrupt:
        return stop(
            session, f"interrupted: measurements so far are saved in {out}; the same command continues from there"
        )
    seconds = time.perf_counter() - began
    session.print_result(report.closing_text(made, claims, seconds), report.paper_record(made, claims, seconds))
    return ExitCode.OK
