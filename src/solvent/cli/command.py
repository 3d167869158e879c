"""How a function becomes a command: it takes a `Session` first, and the options that all commands share are added."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from solvent.cli.failures import fail, stop
from solvent.cli.session import Session
from solvent.errors import SolventError

_SHARED: dict[str, Any] = {
    "as_json": Annotated[bool, typer.Option("--json", help="Print one JSON object.", show_default=False)],
    "quiet": Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.", show_default=False)],
    "verbose": Annotated[bool, typer.Option("--verbose", "-v", help="Say more.", show_default=False)],
    "debug": Annotated[bool, typer.Option("--debug", help="Show where an error arose.", show_default=False)],
}


def add_command(app: typer.Typer, function: Callable[..., int], *examples: str) -> None:
    """Register a function as a command; it is given a `Session` and returns the exit code.

    Parameters
    ----------
    app : Typer
    function : callable
        Its name is that of the command, its docstring the help, and its annotated parameters are the options.
    *examples : str
        Lines for the foot of its `--help`.
    """

    def run(**given: Any) -> int:
        session = Session(function.__name__, **{key: given.pop(key) for key in _SHARED})
        try:
            with session.watching():
                return int(function(session, **given))
        except KeyboardInterrupt:
            return stop(session)
        except OSError:
            raise  # of standard output, as files report theirs otherwise: the end of the run deals with it
        except Exception as error:  # every error becomes one readable block, and an exit code
            if session.interrupted and not isinstance(error, SolventError):
                return stop(session)  # what a second Ctrl-C makes of compiled code that it hits
            return fail(session, error)

    parameters = [*_own_parameters(function), *_shared_parameters()]
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
