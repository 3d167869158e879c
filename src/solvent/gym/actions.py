"""Actions: conversion to positions in the mask, and replacement of masked actions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.errors import ModelError, PolicyError, quote

#: What replaces a masked action: None (the action raises an error), "first" (the first safe action), an action, or a
#: function of (observation, mask).
Fallback = None | str | int | Callable[[Any, NDArray[np.bool_]], Any]


def check_discrete(space: Any, where: str) -> gymnasium.spaces.Discrete:
    """Return the action space if it is `Discrete`; raise a `ModelError` otherwise."""
    if not isinstance(space, gymnasium.spaces.Discrete):
        hint = "masks need numbered actions; ContinuousBudgetWrapper is for Box, MultiDiscrete and MultiBinary"
        raise ModelError(where, "a Discrete action space", quote(space), hint)
    return space


def check_fallback(fallback: Any, space: gymnasium.spaces.Discrete) -> Fallback:
    """Return the fallback if it is valid for an action space; raise a `ModelError` otherwise."""
    if fallback is None or (isinstance(fallback, str) and fallback == "first") or callable(fallback):
        return fallback  # type: ignore[no-any-return]
    if isinstance(fallback, int | np.integer) and not isinstance(fallback, bool) and space.contains(int(fallback)):
        return int(fallback)
    expected = f"None, 'first', a function of (observation, mask), or an action of {space}"
    raise ModelError("fallback", expected, quote(fallback))


def position(action: Any, space: gymnasium.spaces.Discrete, where: str) -> int:
    """Return the position of an action in masks; raise a `PolicyError` if the space has no such action.

    Examples
    --------
    >>> position(np.int64(3), gymnasium.spaces.Discrete(4, start=1), "step 0")
    2
    """
    given = action.item() if isinstance(action, np.ndarray) and action.size == 1 else action
    try:
        number = operator.index(given)
    except TypeError:
        number = None
    if number is None or isinstance(given, bool | np.bool_) or not space.contains(number):
        raise PolicyError(where, f"an action of {space}", quote(action))
    return number - int(space.start)


def as_array(given: Any) -> NDArray[Any] | None:
    """Return actions or numbers as an array; None if their rows differ in length.

    Examples
    --------
    >>> as_array([1, 2]), as_array([[1], [1, 2]])
    (array([1, 2]), None)
    """
    try:
        return np.asarray(given)
    except ValueError:
        return None


def replacement(
    fallback: Fallback, observation: Any, mask: NDArray[np.bool_], space: gymnasium.spaces.Discrete, where: str
) -> int:
    """Return the position of the action that replaces a masked one; raise a `PolicyError` if it is masked as well."""
    if fallback == "first":
        return int(np.argmax(mask))
    wanted = fallback(observation, mask.copy()) if callable(fallback) else fallback
    found = position(wanted, space, f"{where}, fallback")
    if not mask[found]:
        raise PolicyError(f"{where}, fallback", allowed(mask, space), f"{quote(wanted)}, which is also masked")
    return found


def allowed(mask: NDArray[np.bool_], space: gymnasium.spaces.Discrete) -> str:
    """Return the actions that a mask allows, as text for messages."""
    actions = (np.flatnonzero(mask) + int(space.start)).tolist()
    shown = ", ".join(map(str, actions[:8])) + (f", ... ({len(actions)} in total)" if len(actions) > 8 else "")
    return f"an action the mask allows ({shown or 'none'})"
