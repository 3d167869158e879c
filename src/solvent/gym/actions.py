"""Actions: from what an agent hands over to a position in the mask, and what stands in for one that is masked."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.errors import ModelError, PolicyError, quote

#: What replaces a masked action: nothing (None: it is refused), the first safe one, one action, or a function
#: of (observation, mask).
Fallback = None | str | int | Callable[[Any, NDArray[np.bool_]], Any]


def check_discrete(space: Any, where: str) -> gymnasium.spaces.Discrete:
    """Return an action space that is `Discrete`; any other is a `ModelError`."""
    if not isinstance(space, gymnasium.spaces.Discrete):
        hint = "masks speak of single numbered actions; wrap the environment so that it has those"
        raise ModelError(where, "a Discrete action space", quote(space), hint)
    return space


def check_fallback(fallback: Any, space: gymnasium.spaces.Discrete) -> Fallback:
    """Return a fallback that can be used with an action space; a `ModelError` for any other."""
    if fallback is None or fallback == "first" or callable(fallback):
        return fallback  # type: ignore[no-any-return]
    if isinstance(fallback, int | np.integer) and not isinstance(fallback, bool) and space.contains(int(fallback)):
        return int(fallback)
    expected = f"None, 'first', a function of (observation, mask), or an action of {space}"
    raise ModelError("fallback", expected, quote(fallback))


def position(action: Any, space: gymnasium.spaces.Discrete, where: str) -> int:
    """Return the position of an action in masks; a `PolicyError` if the space has no such action.

    Examples
    --------
    >>> position(np.int64(3), gymnasium.spaces.Discrete(4, start=1), "step 0")
    2
    """
    try:
        number = operator.index(action.item() if isinstance(action, np.ndarray) and action.size == 1 else action)
    except TypeError:
        number = None
    if number is None or isinstance(action, bool | np.bool_) or not space.contains(number):
        raise PolicyError(where, f"an action of {space}", quote(action))
    return number - int(space.start)


def replacement(
    fallback: Fallback, observation: Any, mask: NDArray[np.bool_], space: gymnasium.spaces.Discrete, where: str
) -> int:
    """Return the position that stands in for a masked one; a `PolicyError` if the fallback is masked itself."""
    if fallback == "first":
        return int(np.argmax(mask))
    wanted = fallback(observation, mask.copy()) if callable(fallback) else fallback
    found = position(wanted, space, f"{where}, fallback")
    if not mask[found]:
        raise PolicyError(f"{where}, fallback", allowed(mask, space), f"{quote(wanted)}, which is masked as well")
    return found


def allowed(mask: NDArray[np.bool_], space: gymnasium.spaces.Discrete) -> str:
    """Return the actions a mask allows, for messages."""
    actions = (np.flatnonzero(mask) + int(space.start)).tolist()
    shown = ", ".join(map(str, actions[:8])) + (f", ... ({len(actions)} in all)" if len(actions) > 8 else "")
    return f"an action the mask allows ({shown or 'none'})"
