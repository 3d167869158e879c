"""`paper`: the figures of the paper, made again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from solvent.cli.complete import complete_figure
from solvent.cli.failures import stop
from solvent.cli.session import Code, Session


def paper(
    session: Session,
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FIGURE",
            help="value, scale, approximation, never-over, precision, far, average or smoothed; all, if none is named.",
            autocompletion=complete_figure,
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where to write.")] = Path("solvent-paper"),
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", metavar="N", help="How many processes; one per core, if not given.", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, to see that it works.", show_default=False)
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure anew what an earlier run has measured.", show_default=False)
    ] = False,
) -> int:
    """Make the paper's figures again, and those of the average case.

    Rows are kept as they are measured: a run that was stopped goes on where it was. Each figure is written as data
    (.csv), picture (.png) and facts (.json), and all of them together give a table of what the paper claims.
    """
    from solvent.experiments import report
    from solvent.experiments.paper import Reproduced, choose, reproduce, write_claims
    from solvent.experiments.runs import available_cores

    began = time.perf_counter()
    names = choose(figures or [])
    made: list[Reproduced] = []
    workers = available_cores() if jobs is None else jobs
    try:
        for each in reproduce(names, out, jobs=workers, quick=quick, fresh=fresh, progress=session.progress):
            made.append(each)
            if not session.as_json:
                session.say(report.figure_text(each))
        claims = write_claims(made, out, quick=quick)
    except KeyboardInterrupt:
        return stop(
            session, f"interrupted: what was measured is kept in {out}, and the same command goes on from there"
        )
    seconds = time.perf_counter() - began
    session.answer(report.closing_text(made, claims, seconds), report.paper_record(made, claims, seconds))
    return Code.OK
