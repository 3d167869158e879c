"""Options for registered environments: budgets, costs, arguments and reward ranges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solvent.cli.budgets import read_limits
from solvent.errors import BudgetError, ModelError, quote
from solvent.formats.registry import find_format

if TYPE_CHECKING:
    from solvent.model.budget import Budget

#: Name of an environment's resource if the budget does not name it.
_DEFAULT_RESOURCE = "cost"
_WORDS = {"true": True, "false": False, "none": None, "null": None}


def is_model_file(path: Path) -> bool:
    """Whether the argument is a model file (read, never executed) rather than the name of an environment."""
    return find_format(path) is not None or path.is_file()


def read_environment_budget(texts: Sequence[str] | None) -> dict[str, Budget]:
    """Return the budget by resource; a budget without a name is that of "cost".

    Raises
    ------
    BudgetError
        If there is no budget, a text is not a budget, or a resource is named twice.

    Examples
    --------
    >>> read_environment_budget(["10"]), read_environment_budget(["fuel=10", "risk=1/2"])
    ({'cost': Budget(10)}, {'fuel': Budget(10), 'risk': Budget('0.5')})
    """
    if not texts:
        raise BudgetError("--budget", "a limit for an environment, such as 10 or fuel=10", "none")
    named: dict[str, Budget] = {}
    for text in texts:
        name, equals, limits = text.rpartition("=")
        name = name if equals else _DEFAULT_RESOURCE
        if name in named:
            raise BudgetError("--budget", "each resource once", f"{quote(name)} twice")
        named[name] = read_limits(limits, f"--budget {text}")
    return named


def read_step_cost(text: str | None) -> tuple[Fraction, ...] | Fraction | str | None:
    """Return the cost of a step: one number, one number per action, or a key of `info`.

    Examples
    --------
    >>> read_step_cost("1/2"), read_step_cost("0,1,1"), read_step_cost("fuel")
    (Fraction(1, 2), (Fraction(0, 1), Fraction(1, 1), Fraction(1, 1)), 'fuel')
    """
    if text is None:
        return None
    from solvent.core.exact import exact

    parts = [part.strip() for part in text.split(",")]
    try:
        amounts = [exact(part) for part in parts]
    except ModelError:
        if len(parts) > 1:
            raise ModelError("--cost", "a number, one number per action, or a key of info", quote(text)) from None
        return text
    return amounts[0] if len(amounts) == 1 else tuple(amounts)


def read_bound(text: str | None) -> Fraction | list[Fraction | None] | None:
    """Return upper bounds on the cost of actions: one number, or one per action with "none" for a forbidden action.

    Examples
    --------
    >>> read_bound("2"), read_bound("0,none")
    (Fraction(2, 1), [Fraction(0, 1), None])
    """
    if text is None:
        return None
    from solvent.core.exact import exact

    parts = [part.strip() for part in text.split(",")]
    try:
        amounts = [None if part == "none" else exact(part) for part in parts]
    except ModelError:
        raise ModelError("--cost-bound", "a number, or one per action, such as 0,1,none", quote(text)) from None
    return amounts[0] if len(amounts) == 1 else amounts


def read_arguments(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return keyword arguments of an environment: numbers, true, false and lists in JSON syntax, anything else text.

    Examples
    --------
    >>> read_arguments(["is_slippery=False", "map_name=8x8", 'desc=["SF", "FG"]', "n=3"])
    {'is_slippery': False, 'map_name': '8x8', 'desc': ['SF', 'FG'], 'n': 3}
    """
    return {name: read_value(text) for name, text in assignments(texts, "--env-arg", "is_slippery=true").items()}


def assignments(texts: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    """Return the texts of arguments given by an option as NAME=VALUE, by name.

    Raises
    ------
    ModelError
        If a text has another form, or a name is given twice.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ModelError(f"{option} {text}", f"NAME=VALUE, such as {example}", quote(text))
        if name in found:
            raise ModelError(option, "each argument once", f"{quote(name)} twice")
        found[name] = value
    return found


def read_value(text: str) -> Any:
    """Return the value of an argument: a number, true, false or a list in JSON syntax; anything else is text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_range(text: str | None, option: str = "--reward-range") -> tuple[float, float] | None:
    """Return the least and the greatest reward, or sum of rewards, written `-1..5`.

    Examples
    --------
    >>> read_range("-1..5")
    (-1.0, 5.0)
    """
    if text is None:
        return None
    low, dots, high = text.partition("..")
    try:
        return float(low), float(high if dots else "")
    except ValueError:
        raise ModelError(option, "the least and the greatest number, such as 0..1", quote(text)) from None
