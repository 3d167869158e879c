"""Options for the files of model checkers, shared by all commands that read models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solvent.cli.completion import complete_resource
from solvent.errors import ModelError, quote
from solvent.formats.programs import ProgramOptions

if TYPE_CHECKING:
    from solvent.model.resources import Resource

_PANEL = "For PRISM, JANI, DRN and UMB files"

#: The options by parameter.
PROGRAM_OPTIONS: dict[str, Any] = {
    "constant": Annotated[
        list[str] | None,
        typer.Option(
            "--constant",
            metavar="NAME=VALUE",
            help=f"{_PANEL}: the value of an undefined constant. Repeat for several.",
            show_default=False,
        ),
    ],
    "cost": Annotated[
        list[str] | None,
        typer.Option(
            "--cost",
            metavar="NAME",
            help=f"{_PANEL}: a reward structure that is a cost, and becomes a resource: fuel, or fuel,floor=0 if it "
            "saturates. Repeat for several.",
            autocompletion=complete_resource,
            show_default=False,
        ),
    ],
    "reward": Annotated[
        str | None,
        typer.Option(
            "--reward",
            metavar="[-]NAME",
            help=f"{_PANEL}: the reward structure to maximize; with a minus sign, to minimize.",
            show_default=False,
        ),
    ],
    "horizon": Annotated[
        int | None,
        typer.Option("--horizon", metavar="N", help=f"{_PANEL}: the number of steps.", show_default=False),
    ],
    "goal": Annotated[
        str | None,
        typer.Option(
            "--goal",
            metavar="LABEL",
            help=f"{_PANEL}: the label of the states in which every episode must end.",
            show_default=False,
        ),
    ],
}  # fmt: skip


def read_program_options(
    constant: Sequence[str] | None = None,
    cost: Sequence[str] | None = None,
    reward: str | None = None,
    horizon: int | None = None,
    goal: str | None = None,
) -> ProgramOptions:
    """Return the options that a command line states.

    Raises
    ------
    ModelError
        If an option cannot be read.

    Examples
    --------
    >>> read_program_options(["N=3"], ["time", "fuel,floor=0"], "value", 80).costs
    (Resource('time'), Resource('fuel', floor=0))
    """
    return ProgramOptions.of(_read_constants(constant or ()), read_costs(cost or ()), reward, horizon, goal)


def _read_constants(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise ModelError("--constant", "NAME=VALUE, such as N=3", quote(text))
        if name in found:
            raise ModelError("--constant", "each constant once", f"{quote(name)} twice")
        found[name] = value
    return found


def read_costs(texts: Sequence[str]) -> list[Resource]:
    """Return resources from texts such as "time", "time,energy" or "fuel,floor=0,ceiling=9".

    Raises
    ------
    ModelError
        If a text is not of this form.
    """
    from solvent.model.resources import Resource

    found: list[dict[str, str]] = []
    for part in (part.strip() for text in texts for part in text.split(",")):
        name, equals, value = part.partition("=")
        if not equals and part:
            found.append({"name": part})
        elif name in ("floor", "ceiling") and found and value and name not in found[-1]:
            found[-1][name] = value
        else:
            raise ModelError("--cost", "NAME, NAME,floor=AMOUNT or NAME,ceiling=AMOUNT", quote(part))
    return [Resource(**each) for each in found]
