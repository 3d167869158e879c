"""Errors as text and as JSON: where, expected, found, hint."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from solvent.errors import LocatedError, SolventError

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Arguments of functions whose options have the same names, with dashes.
_ARGUMENTS = (
    *("method", "approximation", "epsilon", "strict", "gap", "time_limit", "memory_limit", "max_nodes"),
    *(
        "budget",
        "spent",
        "vary",
        "resource",
        "max_budget",
        "ignore_limits",
        "episodes",
        "seed",
        "delta",
        "horizon",
        "bonus",
        "replan",
    ),
    *("max_episodes", "cost", "cost_bound", "epsilon_cost", "reward_range", "resume", "checkpoint", "checkpoint_every"),
)
#: An argument in Python syntax: method="reduction", strict=True, gap=0.01, budget=...
_ARGUMENT = re.compile(
    rf"""\b(?P<name>{"|".join(_ARGUMENTS)})=(?:True\b|(?P<quote>["'])(?P<choice>[\w-]+)(?P=quote)|(?P<number>[\d.]*\d)|\.\.\.)?"""
)
#: An amount spent in Python syntax: spent={'fuel': ...}
_SPENT = re.compile(r"spent=\{'([^']*)': \.\.\.\}")
#: Other parts of messages for users of Python, and what to print instead.
_PHRASES = {
    'approximation="additive" or "relative"': "--approximation additive or relative",
    "with epsilon= and strict=True": "with --epsilon and --strict",
    "solve(model, budget)": "solvent solve --budget",
    "raise max_episodes or epsilon": "raise --max-episodes or --epsilon",
    "pass reward_range=(least, greatest)": "pass --reward-range LOW..HIGH",
    "pass cost=...: another key, a number, or a function of (observation, action, next_observation)": (
        "pass --cost: another key, or a number"
    ),
    "checkpoint=... to go on from": "--checkpoint FOLDER to go on from",
    "as cost_bound says": "as --cost-bound says",
    '"practical" with a learned support': "practical with a learned support",
    "lower max_budget": "lower --max-budget",
    "use None for": "write none for",
    "solvent.load_policy reads policies": "the model comes first, then the policy",
}


def error_text(error: BaseException) -> RenderableType:
    """Return an error as one block.

    Examples
    --------
    >>> from rich.console import Console
    >>> from solvent.errors import ModelError
    >>> block = error_text(ModelError("van.yaml: start", "a state", "'dpot'", "did you mean 'depot'?"))
    >>> Console(color_system=None).print(block)
    error: van.yaml: start
      expected  a state
      found     'dpot'
      hint      did you mean 'depot'?
    """
    if not isinstance(error, LocatedError):
        return _block(in_shell(str(error)) if isinstance(error, SolventError) else _unexpected(error), _hints(error))
    hint = [("hint", in_shell(error.hint))] if error.hint else []
    expected, found = in_shell(error.expected), in_shell(error.found)
    return _block(in_shell(error.where), [("expected", expected), ("found", found), *hint])


def in_shell(text: str) -> str:
    """Return the text of an error with Python arguments replaced by command-line options.

    Examples
    --------
    >>> in_shell('use method="auto", which chooses the fastest')
    'use --method auto, which chooses the fastest'
    >>> in_shell("pass ignore_limits=True or budget=..., or ask for a gap (gap=0.01)")
    'pass --ignore-limits or --budget, or ask for a gap (--gap 0.01)'
    >>> in_shell("say what has been spent before the first step: spent={'fuel': ...}")
    'say what has been spent before the first step: --spent fuel=AMOUNT'
    """
    if text == "cost_support":
        return "--support"
    if text in _ARGUMENTS:
        return _option(text)
    text = _SPENT.sub(r"--spent \1=AMOUNT", text)
    for python, shell in _PHRASES.items():
        text = text.replace(python, shell)
    return _ARGUMENT.sub(_replace_argument, text)


def _option(argument: str) -> str:
    return "--" + argument.replace("_", "-")


def _replace_argument(match: re.Match[str]) -> str:
    value = match["choice"] or match["number"]
    return _option(match["name"]) + (f" {value}" if value else "")


def usage_text(message: str, command: str, hint: str = "") -> RenderableType:
    """Return the block for an invalid command line."""
    return _block(message.rstrip("."), [*([("hint", hint)] if hint else []), ("help", f"{command} --help")])


def error_record(error: BaseException) -> dict[str, Any]:
    """Return the JSON record of an error."""
    record: dict[str, Any] = {"kind": type(error).__name__, "message": str(error) or _unexpected(error)}
    if isinstance(error, LocatedError):
        record |= {"expected": in_shell(error.expected), "found": in_shell(error.found)}
        record["where"], record["hint"] = in_shell(error.where), in_shell(error.hint) or None
    return record


def _unexpected(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory"
    detail = str(error).split("\n")[0]
    return f"internal error: {type(error).__name__}" + (f": {detail}" if detail else "")


def _hints(error: BaseException) -> list[tuple[str, str]]:
    if isinstance(error, SolventError):
        return []
    if isinstance(error, MemoryError):
        return [("hint", "set --memory-limit, or use --gap 0.01")]
    return [("hint", "this is a bug in Solvent: run again with --debug and report the output")]


def _block(head: str, lines: list[tuple[str, str]]) -> RenderableType:
    from rich.text import Text

    text = Text().append("error: ", style="bold red").append(head, style="bold")
    for label, value in lines:
        text.append(f"\n  {label:<10}", style="dim").append(value)
    return text
