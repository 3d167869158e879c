"""How many random problems the tests draw: a share of them by default, and all of them with `--everything`.

`make nightly` draws all. `conftest.py` gives the mark `extras` to tests that call `importorskip`, so that
`make test-slow` runs them although they are not slow.
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


def some(count: int) -> int:
    """Return the number of problems to draw in this run out of `count`."""
    return count if everything else min(count, max(count // SHARE, LEAST))


def draws(count: int, **options: Any) -> settings:
    """Return settings of Hypothesis for `count` examples, or for a share of them in this run."""
    return settings(max_examples=some(count), **options)


def seeds(count: int) -> range:
    """Return the seeds of this run out of `count`, for `pytest.mark.parametrize`."""
    return range(some(count))


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """Return values for `pytest.mark.parametrize`: all of them with `--everything`, else the first ones."""
    found = list(values)
    return found if everything else found[:count]


def slow_after(count: int, values: Iterable[Any]) -> list[Any]:
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


def skips_without_a_package(function: Callable[..., object]) -> bool:
    """Return whether a test calls `pytest.importorskip`."""
    return "importorskip" in inspect.unwrap(function).__code__.co_names
