"""Turns a function into a command: it receives a `Session`, and the options shared by all commands are added."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from solvent.cli.exits import fail, stop
from solvent.cli.programs import PROGRAM_OPTIONS, read_program_options
from solvent.cli.session import ExitCode, Session
from solvent.errors import SolventError

_SHARED: dict[str, Any] = {
    "as_json": Annotated[bool, typer.Option("--json", help="Print one JSON object.", show_default=False)],
    "quiet": Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.", show_default=False)],
    "verbose": Annotated[bool, typer.Option("--verbose", "-v", help="Print more details.", show_default=False)],
    "debug": Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", show_default=False)],
}


def add_command(app: typer.Typer, function: Callable[..., int], *examples: str, reads_model: bool = False) -> None:
    """Register a function as a command.

    Parameters
    ----------
    app : Typer
    function : callable
        Takes a `Session` first and returns the exit code. Its name becomes the command's name, its docstring the help
        text, and its annotated parameters the options.
    *examples : str
        Example command lines, printed at the end of `--help`.
    reads_model : bool
        Whether the command reads a model, and so has the options of `solvent.cli.programs` that the function does not
        define itself. They are read into `Session.program`.
    """
    own = _own_parameters(function)
    named = {each.name for each in own}
    extra = {key: kind for key, kind in PROGRAM_OPTIONS.items() if reads_model and key not in named}

    def run(**given: Any) -> int:
        session = Session(function.__name__, **{key: given.pop(key) for key in _SHARED})
        try:
            with session.handle_interrupts():
                session.program = read_program_options(**{key: given.pop(key) for key in extra})
                return ExitCode(function(session, **given))
        except KeyboardInterrupt:
            return stop(session)
        except OSError:
            raise  # of standard output (errors of files are SolventErrors): handled in app.run
        except Exception as error:  # every error becomes one readable block and an exit code
            if session.interrupted and not isinstance(error, SolventError):
                return stop(session)  # a second Ctrl-C in compiled code can surface as any exception
            return fail(session, error)

    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(key, keyword, default=None, annotation=kind) for key, kind in extra.items()]
    parameters = [*own, *added, *_shared_parameters()]
    run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)])
    app.command(function.__name__, epilog=epilog)(run)


def _own_parameters(function: Callable[..., int]) -> list[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    own = list(inspect.signature(function).parameters.values())[1:]
    return [each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY) for each in own]


def _shared_parameters() -> list[inspect.Parameter]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(key, keyword, default=False, annotation=kind) for key, kind in _SHARED.items()]
