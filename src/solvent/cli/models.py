"""`info`, `convert` and `schema`: inspect and convert model files."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solvent.cli.examples import find_model
from solvent.cli.options import ModelArgument
from solvent.cli.outputs import plan_output
from solvent.cli.session import ExitCode, Session
from solvent.errors import ModelError, did_you_mean, quote
from solvent.formats.registry import model_suffixes, suffixes_text

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP
    from solvent.model.discounted import DiscountedCMDP


def read_state(text: str, model: CMDP | DiscountedCMDP, where: str = "--state") -> Hashable:
    """Return the state whose name is written like this, up to blanks.

    Raises
    ------
    ModelError
        If there is none, or several states are written alike.

    Examples
    --------
    >>> from solvent.model import instances
    >>> read_state("(0,1)", instances.fuel_grid(2))
    (0, 1)
    """
    names = [str(name) for name in model.states]
    found = [state for state, name in zip(model.states, names, strict=True) if name == text]
    if not found:
        plain = "".join(text.split())
        found = [state for state, name in zip(model.states, names, strict=True) if "".join(name.split()) == plain]
    if len(found) == 1:
        return found[0]
    if found:
        kinds = " and ".join(quote(name) for name in found)
        raise ModelError(where, "a name that only one state has", f"{kinds}, which are written alike")
    known = ", ".join(map(quote, model.states[:6])) + (", ..." if len(names) > 6 else "")
    raise ModelError(where, f"one of the model's states ({known})", quote(text), did_you_mean(text, names))


def read_any_model(session: Session, path: Path) -> CMDP | DiscountedCMDP:
    """Load a model, showing progress if it takes long."""
    from solvent import examples
    from solvent.formats.files import load_model

    if not path.suffix and not path.exists():
        hint = did_you_mean(path.name, examples.names()) or "solvent examples lists the examples"
        expected = f"a file ending in {suffixes_text()}, or the name of an example"
        raise ModelError(str(path), expected, "no such file", hint)
    with session.working(f"reading {path.name}"):
        program = session.program
        return load_model(
            path, discounted=None, constants=program.constants, costs=program.costs, reward=program.reward,
            horizon=program.horizon, goal=program.goal,
        )  # fmt: skip


def read_model(session: Session, path: Path) -> CMDP:
    """Load a model with a finite horizon.

    Raises
    ------
    ModelError
        If the model is discounted, with an infinite horizon.
    """
    from solvent.model.discounted import DiscountedCMDP

    loaded = read_any_model(session, path)
    if isinstance(loaded, DiscountedCMDP):
        raise ModelError(
            str(path), "a model with a finite horizon", "a discounted model with an infinite horizon",
            "discounted models are solved in Python; see docs/planning.md, section Infinite horizon; "
            "model.unrolled(steps) is a model of the first steps, which can be saved",
        )  # fmt: skip
    return loaded


def info(session: Session, model: ModelArgument) -> int:
    """Show the size, costs and budget of a model."""
    from solvent.cli.text import records, results

    loaded = read_any_model(session, model)
    session.print_result(results.model_text(loaded, verbose=session.verbose), records.model_record(loaded))
    return ExitCode.OK


def convert(
    session: Session,
    source: Annotated[
        Path,
        typer.Argument(
            help="The model file to read, or the name of an example, or a Python file and a function that returns a "
            "model, as in model.py:make_model. The file is then run.",
            callback=find_model,
            show_default=False,
        ),
    ],
    target: Annotated[
        Path, typer.Argument(help=f"The model file to write: {suffixes_text(writing=True)}.", show_default=False)
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="An argument of the function: a number or text. Repeat for several.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Write a model in another format, or the model that a Python function returns.

    A Python file is run, with all rights of the user: name only files that you trust. Model files never run code.
    """
    from solvent.cli.functions import make_model, read_settings, split_source
    from solvent.cli.text import results

    called = split_source(str(source))
    if called is None and settings:
        raise ModelError("--set", "a function as the source, such as model.py:make_model", quote(str(source)))
    path = source if called is None else called[0]
    output = plan_output("TARGET", target, inputs=(path,), suffixes=model_suffixes(writing=True))
    assert output is not None
    session.plan_files(model=output)
    if called is None:
        loaded = read_any_model(session, path)
    else:
        arguments = read_settings(settings)
        with session.working(f"running {path.name}"):
            loaded = make_model(*called, arguments)
    with session.working(f"writing {target.name}"):
        loaded.save(output.path)
    files = {"model": output.record()}
    session.print_result(
        f"wrote {results.file_text(files['model'])}", {"written": files, "fingerprint": loaded.fingerprint}
    )
    return ExitCode.OK


def schema(
    session: Session,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it to a file.", show_default=False)
    ] = None,
) -> int:
    """Print the JSON Schema of model files."""
    from importlib.resources import files

    text = files("solvent.formats").joinpath("model.schema.json").read_text(encoding="utf-8")
    output = plan_output("--out", out)
    session.plan_files(schema=output)
    if output is None:
        print(text.rstrip())
        return ExitCode.OK
    from solvent.cli.text import results
    from solvent.core.files import write_atomically

    write_atomically(output.path, text.encode())
    written = {"schema": output.record()}
    session.print_result(f"wrote {results.file_text(written['schema'])}", {"written": written})
    return ExitCode.OK
