"""Arguments and options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from solvent.cli.completion import (
    complete_approximation,
    complete_budget,
    complete_engine,
    complete_method,
    complete_plot,
    complete_resource,
)
from solvent.cli.examples import find_model
from solvent.formats.registry import suffixes_text
from solvent.solvers import registry

ModelArgument = Annotated[
    Path,
    typer.Argument(
        help=f"A model file: {suffixes_text()}. Or the name of an example: see solvent examples.",
        callback=find_model,
        show_default=False,
    ),
]
PolicyArgument = Annotated[Path, typer.Argument(help="A policy file, written by solve --out.", show_default=False)]
BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--budget", "-b",
        metavar="[NAME=]LIMITS",
        help="Limit of a resource: fuel=30, fuel=0..30, fuel=10,20,30 (per step), fuel=final:30, fuel=none. Repeat for "
        "several resources; the name is optional if there is only one. Default: the model's own limits.",
        autocompletion=complete_budget,
        show_default=False,
    ),
]  # fmt: skip
SpentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--spent",
        metavar="[NAME=]AMOUNT",
        help="What has been spent of a resource before the first step: fuel=5. Repeat for several resources.",
        autocompletion=complete_budget,
        show_default=False,
    ),
]
ResourceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--resource", "-r",
        metavar="NAME",
        help="Resource whose budget varies. Required if the model has several. Repeat to vary several budgets at once.",
        autocompletion=complete_resource,
        show_default=False,
    ),
]  # fmt: skip
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method", "-m",
        metavar="METHOD",
        help=f"Algorithm: {', '.join((registry.AUTO, *registry.names()))}. Default: auto, the one expected to be "
        "fastest.",
        autocompletion=complete_method,
        show_default=False,
    ),
]  # fmt: skip
ApproximationOption = Annotated[
    str | None,
    typer.Option(
        "--approximation", "-a",
        metavar="SCHEME",
        help="Round costs: additive (by an amount) or relative (by a share of the budget). Needs --epsilon.",
        autocompletion=complete_approximation,
        show_default=False,
    ),
]  # fmt: skip
EpsilonOption = Annotated[
    list[str] | None,
    typer.Option(
        "--epsilon", "-e",
        metavar="[NAME=]E",
        help="By how much the policy may exceed the budget, or with --strict how finely costs are rounded: an "
        "amount (additive) or a share of the budget (relative).",
        show_default=False,
    ),
]  # fmt: skip
StrictOption = Annotated[
    bool, typer.Option("--strict", help="With --approximation: never exceed the budget.", show_default=False)
]
GapOption = Annotated[
    str | None,
    typer.Option(
        "--gap", metavar="G", help="Stop when the relative gap is at most G: 0.01 is 1 %.", show_default=False
    ),
]
TimeLimit = Annotated[
    float | None, typer.Option("--time-limit", metavar="SECONDS", help="Stop after this time.", show_default=False)
]
MemoryLimit = Annotated[
    str | None,
    typer.Option("--memory-limit", metavar="SIZE", help="Use at most this memory, such as 8GB.", show_default=False),
]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Where to run: local (this machine), or ray (a Ray cluster, or workers on this machine).",
        autocompletion=complete_engine,
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="With --engine ray, the cluster to use: auto, HOST:PORT or ray://HOST:PORT. Default: RAY_ADDRESS if it is "
        "set, else workers are started on this machine.",
        show_default=False,
    ),
]
PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Write a plot: .png, .svg or .pdf.", show_default=False),
]
PolicyPlotOption = Annotated[
    str | None,
    typer.Option(
        "--plot",
        metavar="[KIND=]FILE",
        help="Write a plot: .png, .svg or .pdf. KIND is spending, policy (actions by state, step and remaining "
        "budget), states (a map of the actions in all states) or value (of what it is worth there).",
        autocompletion=complete_plot,
        show_default=False,
    ),
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FOLDER",
        help="Save finished work to a folder; the same command goes on from there.",
        show_default=False,
    ),
]
CheckpointEvery = Annotated[
    float, typer.Option("--checkpoint-every", metavar="SECONDS", help="Time between two saves.")
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")]
