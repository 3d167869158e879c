"""How many random problems the tests draw: a share of them by default, and all of them if slow tests run too.

`conftest.py` gives the mark `drawn` to tests that draw a share, and `extras` to tests that call `importorskip`,
so that `make test-slow` runs them although they are not slow.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings

#: By default, tests draw one of this many problems, but not fewer than `LEAST`.
SHARE, LEAST = 8, 4
#: Whether to draw all problems; set by `conftest.py` before tests are imported.
everything = False


def few(count: int) -> int:
    """Return the number of problems that are drawn by default out of `count`."""
    return min(count, max(count // SHARE, LEAST))


def some(count: int) -> int:
    """Return the number of problems to draw in this run out of `count`."""
    return count if everything else few(count)


def draws(count: int, **options: Any) -> settings:
    """Return settings of Hypothesis for `count` examples, or for a share of them in this run."""
    return settings(max_examples=some(count), **options)


def seeds(count: int) -> list[Any]:
    """Return seeds for `pytest.mark.parametrize`, of which all but a share are marked slow."""
    return first(few(count), range(count))


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """Return values for `pytest.mark.parametrize`, of which all but the first are marked slow.

    Parameters
    ----------
    count : int
        Number of values that are not marked.
    values : iterable
        Values of one parameter, or tuples of values of several parameters.
    """
    found = list(values)
    rest = [value if isinstance(value, tuple) else (value,) for value in found[count:]]
    return [*found[:count], *(pytest.param(*value, marks=pytest.mark.slow) for value in rest)]


def draws_a_share(function: Callable[..., object]) -> bool:
    """Return whether a test uses Hypothesis, calls `some`, or reads `everything`."""
    return getattr(function, "is_hypothesis_test", False) or not _names(function).isdisjoint({"some", "everything"})


def skips_without_a_package(function: Callable[..., object]) -> bool:
    """Return whether a test calls `pytest.importorskip`."""
    return "importorskip" in _names(function)


def _names(function: Callable[..., object]) -> set[str]:
    """Return the global names and the attributes that the code of a function uses."""
    return set(inspect.unwrap(function).__code__.co_names)
