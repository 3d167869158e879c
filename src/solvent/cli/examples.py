"""`examples`: list and copy the example models; every command that reads a model accepts their names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from solvent import examples as shipped
from solvent.cli.outputs import plan_output
from solvent.cli.session import ExitCode, Session
from solvent.errors import ModelError, quote


def find_model(path: Path) -> Path:
    """Return the path of an example model if its name is given and there is no such file, else the path itself.

    Examples
    --------
    >>> find_model(Path("delivery-van")).name, find_model(Path("van.yaml")).name
    ('delivery-van.yaml', 'van.yaml')
    """
    name = str(path)
    return shipped.path(name) if name in shipped.names() and not path.is_file() else path


def complete_example(incomplete: str) -> list[tuple[str, str]]:
    """Return the example models whose names start with the given text."""
    return [(name, shipped.summary(name)) for name in shipped.names() if name.startswith(incomplete)]


def examples(
    session: Session,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Examples to copy. Default: list all.", autocompletion=complete_example,
            show_default=False,
        ),
    ] = None,
    into: Annotated[Path, typer.Option("--into", metavar="FOLDER", help="Folder to copy to.")] = Path(),
) -> int:  # fmt: skip
    """List the example models, or copy some of them to a folder.

    Every command that reads a model accepts the name of an example: solvent solve delivery-van.
    """
    from rich.console import Group

    from solvent.cli.text import results
    from solvent.core.files import write_atomically
    from solvent.core.tables import facts_grid

    if not names:
        listed = {name: shipped.summary(name) for name in shipped.names()}
        session.print_result(facts_grid(list(listed.items())), {"examples": listed})
        return ExitCode.OK
    sources = {name: shipped.path(name) for name in names}
    for source in sources.values():
        if (into / source.name).exists():
            found, hint = quote(str(into / source.name)), "remove it, or choose another folder"
            raise ModelError(f"--into {into}", "no file of the example's name", found, hint)
    outputs = {name: plan_output("--into", into / source.name) for name, source in sources.items()}
    session.plan_files(**outputs)
    written = {}
    for name, output in outputs.items():
        assert output is not None
        write_atomically(output.path, sources[name].read_bytes())
        written[name] = output.record()
    text = Group(*(f"wrote {results.file_text(record)}" for record in written.values()))
    session.print_result(text, {"written": written})
    return ExitCode.OK
