"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from solvent.cli.complete import complete_budget, complete_method, complete_resource
from solvent.formats.registry import suffixes_text

ModelArgument = Annotated[Path, typer.Argument(help=f"A model file: {suffixes_text()}.", show_default=False)]
PolicyArgument = Annotated[Path, typer.Argument(help="A policy file, as solve --out writes it.", show_default=False)]
BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--budget", "-b",
        metavar="[NAME=]LIMITS",
        help="A limit: fuel=30, fuel=0..30, fuel=10,20,30 (by step), fuel=final:30, fuel=none. May be given for each "
        "resource; without the name if there is only one. Others keep the model's own.",
        autocompletion=complete_budget,
        show_default=False,
    ),
]  # fmt: skip
ResourceOption = Annotated[
    str | None,
    typer.Option(
        "--resource", "-r",
        metavar="NAME",
        help="Whose budget; the only one, if not given.",
        autocompletion=complete_resource,
        show_default=False,
    ),
]  # fmt: skip
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method", "-m",
        metavar="METHOD",
        help="auto, if not given; reduction, frontier, additive or relative.",
        autocompletion=complete_method,
        show_default=False,
    ),
]  # fmt: skip
TimeLimit = Annotated[
    float | None, typer.Option("--time-limit", metavar="SECONDS", help="Stop after so long.", show_default=False)
]
MemoryLimit = Annotated[
    str | None,
    typer.Option("--memory-limit", metavar="SIZE", help="Stop before taking more, such as 8GB.", show_default=False),
]
PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.", show_default=False),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Of the draws; the same seed, the same episodes.")]
