"""The application: its commands, and how a run ends."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Annotated

import typer

from solvent._version import __version__
from solvent.cli import checking, experiments, learning, models, planning, story, warming
from solvent.cli.command import add_command
from solvent.cli.failures import fail, misuse
from solvent.cli.session import Code, Session
from solvent.errors import SolventError, did_you_mean

#: What the parser raises for a line it cannot read: the base of all its errors, click's own or typer's copy of it.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
#: What a program that is cut off by the reader of its output ends with: 128 and the number of the signal.
_BROKEN_PIPE = 141

app = typer.Typer(
    name="solvent",
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"solvent {__version__}")
        raise typer.Exit


_EPILOG = """\b
Examples:
  solvent demo
  solvent solve van.yaml --budget fuel=30 --out van.policy
  solvent verify van.yaml van.policy

\b
Exit codes: 0 ok, 1 infeasible or violated, 2 bad input, 3 a limit was reached, 130 interrupted.
"""


@app.callback(epilog=_EPILOG)
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Plan policies that never go over budget: at no step, under no luck."""


add_command(app, story.demo, "solvent demo", "solvent demo --into /tmp/van")
add_command(app, models.info, "solvent info van.yaml", "solvent info van.yaml --json")
add_command(
    app,
    planning.solve,
    "solvent solve van.yaml",
    "solvent solve van.yaml --budget fuel=30 --out van.policy --plot van.png",
    "solvent solve drone.yaml -b battery=20 -b risk=0.1 --method reduction",
    "solvent solve van.yaml --method additive --epsilon 0.1 --strict",
    "solvent solve van.yaml --gap 0.01 --time-limit 60 --memory-limit 8GB",
)
add_command(
    app,
    planning.frontier,
    "solvent frontier van.yaml --resource fuel --max-budget 60",
    "solvent frontier van.yaml --max-budget 60 --csv van.csv --plot van.png",
)
add_command(
    app,
    checking.verify,
    "solvent verify van.yaml van.policy",
    "solvent verify van.yaml van.policy --budget fuel=25",
)
add_command(
    app,
    checking.simulate,
    "solvent simulate van.yaml van.policy",
    "solvent simulate van.yaml van.policy --episodes 1000000 --seed 7 --plot spending.png",
)
add_command(app, checking.compare, "solvent compare van.yaml", "solvent compare van.yaml --budget fuel=20")
add_command(
    app,
    learning.learn,
    "solvent learn van.yaml --epsilon 1 --out van.policy",
    "solvent learn van.yaml --support learned --budget fuel=20 --log van.csv",
    "solvent learn FrozenLake-v1 --horizon 40 --budget 10 --cost 0,1,1,1 --env-arg is_slippery=true",
    "solvent learn package.module:Env-v0 --horizon 20 --budget fuel=8 --cost-bound 2",
    "solvent learn van.yaml --epsilon 0.01 --checkpoint run.npz --resume",
)
add_command(app, models.convert, "solvent convert van.yaml van.npz", "solvent convert van.npz van.json")
add_command(app, models.schema, "solvent schema", "solvent schema --out model.schema.json")
add_command(
    app,
    experiments.paper,
    "solvent paper",
    "solvent paper value scale --out figures --jobs 2",
    "solvent paper --quick --out /tmp/figures",
)
add_command(app, warming.warmup, "solvent warmup", "solvent warmup --json")


def run(given: list[str]) -> int:
    """Run the command line on what follows the name of the program, and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # whoever replaced the stream decides about its encoding
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = app(args=given, prog_name="solvent", standalone_mode=False)
        sys.stdout.flush()
    except OSError as error:
        return _unheard(error, given)
    except SystemExit as end:  # typer ends so where it finds a pipe broken, or has printed completions
        return _unheard(BrokenPipeError(), given) if end.code == 1 else int(end.code or 0)
    except _USAGE_ERROR as error:
        return _misused(error, given)
    except typer.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else Code.OK


def _unheard(error: OSError, given: list[str]) -> int:
    """End a run whose answer cannot be printed: a reader that went away, a disk that is full."""
    # the interpreter would flush once more when it ends, and complain
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    if isinstance(error, BrokenPipeError):
        return _BROKEN_PIPE
    reason = f"the answer could not be printed: {error.strerror or error}"
    return fail(Session("solvent", debug="--debug" in given), SolventError(reason))


def _misused(error: Exception, given: list[str]) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "solvent"
    if type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help() if context is not None else "")
        return Code.OK
    asked = "--json" in given
    option = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and option is not None and context is not None:
        known = [name for parameter in context.command.params for name in parameter.opts]
        return misuse(f"there is no option {option}", path, as_json=asked, hint=did_you_mean(option, known))
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    return misuse(message, path, as_json=asked)
