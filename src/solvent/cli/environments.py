"""What is typed about registered environments: budgets, costs, arguments and ranges of rewards."""

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

#: What the resource of an environment is called that nobody named.
_ONLY = "cost"
_WORDS = {"true": True, "false": False, "none": None, "null": None}


def is_model_file(path: Path) -> bool:
    """Whether a file is meant, which is read and never run; else it is the name of a registered environment."""
    return find_format(path) is not None or path.is_file()


def read_environment_budget(texts: Sequence[str] | None) -> dict[str, Budget]:
    """Return the budget by resource; one that is not named is that of "cost".

    Raises
    ------
    BudgetError
        If there is none, a text is none, or a resource is named twice.

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
        name = name if equals else _ONLY
        if name in named:
            raise BudgetError("--budget", "each resource once", f"{quote(name)} twice")
        named[name] = read_limits(limits, f"--budget {text}")
    return named


def read_price(text: str | None) -> tuple[Fraction, ...] | Fraction | str | None:
    """Return what a step costs: a number, one for each action, or a key of `info`.

    Examples
    --------
    >>> read_price("1/2"), read_price("0,1,1"), read_price("fuel")
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
            raise ModelError("--cost", "a number, one for each action, or a key of info", quote(text)) from None
        return text
    return amounts[0] if len(amounts) == 1 else tuple(amounts)


def read_bound(text: str | None) -> Fraction | list[Fraction | None] | None:
    """Return what an action costs at most: a number, or one for each action, "none" for one that is forbidden.

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
        raise ModelError("--cost-bound", "a number, or one for each action, such as 0,1,none", quote(text)) from None
    return amounts[0] if len(amounts) == 1 else amounts


def read_arguments(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return arguments of an environment by name: numbers, true, false and lists as JSON has them, else text.

    Examples
    --------
    >>> read_arguments(["is_slippery=False", "map_name=8x8", 'desc=["SF", "FG"]', "n=3"])
    {'is_slippery': False, 'map_name': '8x8', 'desc': ['SF', 'FG'], 'n': 3}
    """
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ModelError(f"--env-arg {text}", "NAME=VALUE, such as is_slippery=true", quote(text))
        if name in found:
            raise ModelError("--env-arg", "each argument once", f"{quote(name)} twice")
        found[name] = _read_value(value)
    return found


def _read_value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_range(text: str | None) -> tuple[float, float] | None:
    """Return the least and the greatest reward, typed as `-1..5`.

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
        raise ModelError("--reward-range", "the least and the greatest reward, such as 0..1", quote(text)) from None
