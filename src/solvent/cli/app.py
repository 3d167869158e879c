"""The application: its list of commands, and the exit code of a run."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated

import typer
import typer.main

from solvent._version import __version__
from solvent.cli import (
    checking,
    demo,
    examples,
    experiments,
    learning,
    levels,
    models,
    policies,
    reporting,
    solving,
    warmup,
)
from solvent.cli.command import add_command
from solvent.cli.exits import fail, usage_error
from solvent.cli.session import ExitCode, Session
from solvent.errors import SolventError, did_you_mean

#: Base class of the errors that the parser raises for an invalid command line: click's own, or typer's copy of it.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
#: Exit code when the reader of the output closes the pipe: 128 plus the number of SIGPIPE.
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
  solvent solve delivery-van
  solvent solve van.yaml --budget fuel=30 --out van.policy
  solvent verify van.yaml van.policy

\b
Exit codes: 0 ok, 1 no policy or violated, 2 bad input, 3 limit reached, 5 a policy that may exceed
  its budget, 130 interrupted.
"""


@app.callback(epilog=_EPILOG)
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Compute policies that never exceed a budget: at any step, under any outcome."""


add_command(app, demo.demo, "solvent demo", "solvent demo --into /tmp/van")
add_command(
    app,
    examples.examples,
    "solvent examples",
    "solvent examples delivery-van drone",
    "solvent examples robot --into /tmp",
)
add_command(app, models.info, "solvent info van.yaml", "solvent info van.yaml --json", reads_model=True)
add_command(
    app,
    solving.solve,
    "solvent solve van.yaml",
    "solvent solve van.yaml --budget fuel=30 --out van.policy --plot van.png",
    "solvent solve drone.yaml -b battery=20 -b risk=0.1 --method reduction",
    "solvent solve van.yaml --approximation additive --epsilon 0.1 --strict",
    "solvent solve van.yaml --gap 0.01 --time-limit 60 --memory-limit 8GB",
    "solvent solve van.yaml --checkpoint run.ckpt --checkpoint-every 10",
    "solvent solve van.yaml --spent fuel=5",
    "solvent solve rover.prism --cost time --cost energy --reward value --horizon 80 -b time=180 -b energy=100",
    reads_model=True,
)
add_command(
    app,
    solving.frontier,
    "solvent frontier van.yaml --resource fuel --max-budget 60",
    "solvent frontier van.yaml --max-budget 60 --csv van.csv --plot van.png",
    "solvent frontier van.yaml --vary remaining --budget fuel=30",
    "solvent frontier drone.yaml -r battery -r risk --ignore-limits --max-budget risk=1 --plot drone.png",
    reads_model=True,
)
add_command(
    app,
    levels.levels,
    "solvent levels van.yaml --capacity 30 --reload depot",
    "solvent levels van.yaml --capacity 30 --resource fuel --target farm --target harbor",
    "solvent levels van.yaml --capacity 30 --reload depot --to-reload --json",
    reads_model=True,
)
add_command(
    app,
    policies.policy,
    "solvent policy van.yaml van.policy",
    "solvent policy van.yaml van.policy --step 3 --state town",
    "solvent policy van.yaml van.policy --explain --step 3 --state town --spent fuel=21",
    "solvent policy van.yaml van.policy --csv plan.csv",
    reads_model=True,
)
add_command(
    app,
    checking.verify,
    "solvent verify van.yaml van.policy",
    "solvent verify van.yaml van.policy --budget fuel=25",
    "solvent verify van.yaml van.policy --checkpoint run.ckpt",
    reads_model=True,
)
add_command(
    app,
    checking.simulate,
    "solvent simulate van.yaml van.policy",
    "solvent simulate van.yaml van.policy --episodes 1000000 --seed 7 --plot spending.png",
    reads_model=True,
)
add_command(
    app, checking.compare, "solvent compare van.yaml", "solvent compare van.yaml --budget fuel=20", reads_model=True
)
add_command(
    app,
    learning.learn,
    "solvent learn van.yaml --epsilon 1 --out van.policy",
    "solvent learn van.yaml --support learned --budget fuel=20 --log van.csv",
    "solvent learn FrozenLake-v1 --horizon 40 --budget 10 --cost 0,1,1,1 --env-arg is_slippery=true",
    "solvent learn package.module:Env-v0 --horizon 20 --budget fuel=8 --cost-bound 2",
    "solvent learn van.yaml --epsilon 0.01 --checkpoint run.ckpt --resume",
    reads_model=True,
)
add_command(
    app,
    reporting.report,
    "solvent report van.yaml -o van.html",
    "solvent report van.yaml --budget fuel=20 --max-budget fuel=60 --seed 7 -o van.html",
    "solvent report campaign.yaml --gap 0.01 --time-limit 120 -o campaign.html",
    reads_model=True,
)
add_command(
    app,
    models.convert,
    "solvent convert van.yaml van.npz",
    "solvent convert van.npz van.json",
    "solvent convert van.yaml van.prism",
    "solvent convert robot.py:make_model robot.yaml --set size=6",
    reads_model=True,
)
add_command(app, models.schema, "solvent schema", "solvent schema --out model.schema.json")
add_command(
    app,
    experiments.paper,
    "solvent paper",
    "solvent paper value scale --out figures --jobs 2",
    "solvent paper --quick --out /tmp/figures",
)
add_command(app, warmup.warmup, "solvent warmup", "solvent warmup --json")


@cache
def _parser() -> Callable[..., object]:
    """Return the parser of all commands, which takes longer to build than many commands take to run."""
    return typer.main.get_command(app)


def run(given: list[str]) -> int:
    """Run the command line with these arguments (without the program name) and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # a replaced stream keeps its own encoding
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = _parser()(args=given, prog_name="solvent", standalone_mode=False)
        sys.stdout.flush()
    except OSError as error:
        return _output_failed(error, given)
    except SystemExit as end:  # typer exits this way on a broken pipe, and after printing completions
        return _output_failed(BrokenPipeError(), given) if end.code == 1 else int(end.code or 0)
    except _USAGE_ERROR as error:
        return _usage_error(error, given)
    except typer.Abort:
        raise KeyboardInterrupt from None
    # typer returns a number of its own if it is interrupted itself; commands return an ExitCode
    if code == ExitCode.INTERRUPTED and not isinstance(code, ExitCode):
        raise KeyboardInterrupt
    return code if isinstance(code, int) else ExitCode.OK


def _output_failed(error: OSError, given: list[str]) -> int:
    """Return the exit code of a run whose result cannot be printed: closed pipe, full disk."""
    # the interpreter flushes standard output once more at exit, which would raise again
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    if isinstance(error, BrokenPipeError):
        return _BROKEN_PIPE
    reason = f"the result could not be printed: {error.strerror or error}"
    return fail(Session("solvent", debug="--debug" in given), SolventError(reason))


def _usage_error(error: Exception, given: list[str]) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "solvent"
    if type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help() if context is not None else "")
        return ExitCode.OK
    asked = "--json" in given
    option = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and option is not None and context is not None:
        known = [name for parameter in context.command.params for name in parameter.opts]
        return usage_error(f"there is no option {option}", path, as_json=asked, hint=did_you_mean(option, known))
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    return usage_error(message, path, as_json=asked)
