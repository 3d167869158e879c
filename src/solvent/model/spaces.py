"""States and actions of an environment: the names that its discrete spaces give them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from solvent.errors import ModelError, quote

#: The most states of an environment.
_MOST_STATES = 1_000_000


def finite_states(space: Any) -> Sequence[Hashable]:
    """Return the names of all states of an observation space: numbers, or tuples of them.

    Raises
    ------
    ModelError
        If there are not finitely many, or more than a million.

    Examples
    --------
    >>> import gymnasium
    >>> two = gymnasium.spaces.Discrete(2)
    >>> finite_states(gymnasium.spaces.Dict(door=two, place=gymnasium.spaces.Discrete(2, start=5)))
    [(0, 5), (0, 6), (1, 5), (1, 6)]
    """
    parts = _parts(space)
    if parts is None:
        return numbers_of(space, "observation_space", "states", "a Discrete space, or a Tuple or Dict of them")
    lists = [each if isinstance(each, range) else finite_states(each) for each in parts]
    size = math.prod(map(len, lists))
    if size > _MOST_STATES:
        raise ModelError("environment, observation_space", f"at most {_MOST_STATES:,} states", f"{size:,}")
    return list(itertools.product(*lists))


def state_reader(space: Any) -> Callable[[Any], Hashable] | None:
    """Return a function that maps an observation to the name of its state; None if the space is not discrete.

    Examples
    --------
    >>> import gymnasium
    >>> state_reader(gymnasium.spaces.MultiBinary(3))(np.array([1, 0, 1], np.int8))
    (1, 0, 1)
    """
    parts = _parts(space)
    if parts is None:
        return int if getattr(space, "n", None) is not None else None
    inside = getattr(space, "spaces", None)
    if inside is None:
        return lambda observation: tuple(map(int, np.asarray(observation).ravel().tolist()))
    keys = list(inside) if isinstance(inside, Mapping) else list(range(len(parts)))
    readers = [state_reader(each) for each in parts]
    known = [(key, read) for key, read in zip(keys, readers, strict=True) if read is not None]
    if len(known) < len(parts):
        return None
    return lambda observation: tuple(read(observation[key]) for key, read in known)


def _parts(space: Any) -> list[Any] | None:
    """Return the spaces, or the ranges of numbers, that a space is a product of; None if it is none."""
    spaces, sizes, shape = (getattr(space, name, None) for name in ("spaces", "nvec", "shape"))
    if spaces is not None:
        return list(spaces.values() if isinstance(spaces, Mapping) else spaces)
    if sizes is not None:
        starts = np.broadcast_to(getattr(space, "start", 0), np.shape(sizes)).ravel().tolist()
        return [range(first, first + n) for first, n in zip(starts, np.ravel(sizes).tolist(), strict=True)]
    if getattr(space, "n", None) is not None and shape not in (None, ()):
        return [range(2)] * math.prod(shape)
    return None


def numbers_of(space: Any, name: str, kind: str, expected: str) -> range:
    """Return the numbers of a `Discrete` space; raise a `ModelError` with what was expected otherwise."""
    n = getattr(space, "n", None)
    if n is None or getattr(space, "shape", ()) not in ((), None):
        raise ModelError(
            f"environment, {name}", f"{expected}, as {kind} must be numbered", quote(space),
            f"learn in a CMDP, or wrap the environment so that its {kind} are numbered",
        )  # fmt: skip
    first = int(getattr(space, "start", 0))
    return range(first, first + int(n))
