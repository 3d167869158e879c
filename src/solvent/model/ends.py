"""Where episodes begin and end: the distribution of the first state, the reward of the last one, and goals.

An episode ends after step H - 1, or on entering a terminal state. Ending in state s is worth `end_reward[s]`, and is
allowed only if s is in `must_end_in`, where that is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import Number, exact
from solvent.errors import ModelError, did_you_mean, quote

#: The first state: its name, or the probability of each possible one by name.
StartLike = Hashable | Mapping[Any, Number]
#: What it is worth to end in a state: by name, one number per state in order, or a function of the name.
EndRewardLike = Mapping[Any, Number] | Sequence[Number] | NDArray[Any] | Callable[[Any], Number]
#: The states in which an episode may end: names, or a function of the name that returns a bool.
GoalLike = Iterable[Hashable] | Callable[[Any], bool]

#: Largest accepted difference between 1 and the sum of the probabilities of first states.
_TOLERANCE = 1e-9


def read_start(start: Any) -> Hashable | dict[Hashable, float]:
    """Return the first state, or the probabilities of several by name.

    A distribution with one possible state is that state. States of probability zero are dropped.

    Raises
    ------
    ModelError
        If probabilities are not numbers from 0 to 1 with a sum of 1.

    Examples
    --------
    >>> read_start("home"), read_start({"a": "1/2", "b": "1/2", "c": 0}), read_start({"a": 1})
    ('home', {'a': 0.5, 'b': 0.5}, 'a')
    """
    if not isinstance(start, Mapping):
        return start  # type: ignore[no-any-return]
    read: dict[Hashable, float] = {}
    for name, value in start.items():
        where = f"start, probability of {quote(name)}"
        number = value if isinstance(value, float | np.floating) else exact(value, where)
        if not 0 <= number <= 2:
            raise ModelError(where, "a number from 0 to 1", str(value) if isinstance(value, float) else quote(value))
        if number > 0:
            read[name] = float(number) or 5e-324
    total = math.fsum(read.values())
    if not read or abs(total - 1) > _TOLERANCE:
        expected = f"probabilities with a sum of 1 (to within {_TOLERANCE})"
        raise ModelError("start", expected, repr(total) if read else "none")
    if len(read) == 1:
        return next(iter(read))
    off = abs(total - 1) > 4 * np.finfo(float).eps * (len(read) + 2)
    return {name: max(p / total, 5e-324) for name, p in read.items()} if off else read


def first_states(start: Hashable | Mapping[Hashable, float]) -> tuple[Hashable, ...]:
    """Return the names of the possible first states."""
    return tuple(start) if isinstance(start, Mapping) else (start,)


def read_end_reward(reward: Any, states: Sequence[Hashable]) -> NDArray[np.float64] | None:
    """Return the reward for ending in each state; None if all are 0.

    Raises
    ------
    ModelError
        If a name is unknown, or a reward is not a finite number.
    """
    if reward is None:
        return None
    found = np.zeros(len(states))
    if isinstance(reward, Mapping):
        place = _places(states)
        for name, value in reward.items():
            found[_find(place, name, "end_reward")] = read_finite(value, f"end_reward of {quote(name)}")
    elif callable(reward):
        for i, name in enumerate(states):
            found[i] = read_finite(reward(name), f"end_reward of {quote(name)}")
    elif isinstance(reward, Sequence | np.ndarray) and not isinstance(reward, str | bytes):
        if len(reward) != len(states):
            raise ModelError("end_reward", f"{len(states)} numbers, one per state", f"{len(reward)}")
        for i, value in enumerate(reward):
            found[i] = read_finite(value, f"end_reward of {quote(states[i])}")
    else:
        raise ModelError("end_reward", "a dict of numbers by state", quote(reward))
    return found + 0.0 if found.any() else None


def read_must_end_in(goals: Any, states: Sequence[Hashable]) -> NDArray[np.bool_] | None:
    """Return whether an episode may end in each state; None if it may end in all of them.

    Raises
    ------
    ModelError
        If a name is unknown, or no state is named.
    """
    if goals is None:
        return None
    if callable(goals):
        found = np.array([bool(goals(name)) for name in states])
    elif isinstance(goals, str | bytes | Mapping) or not isinstance(goals, Iterable):
        raise ModelError("must_end_in", "a list of states", quote(goals))
    else:
        place, found = _places(states), np.zeros(len(states), bool)
        listed = list(goals)
        for name in listed:
            found[_find(place, name, "must_end_in")] = True
        if not listed:
            raise ModelError("must_end_in", "at least one state", "none", "leave it out if an episode may end anywhere")
    return None if found.all() else found


def _places(states: Sequence[Hashable]) -> dict[Hashable, int]:
    return {name: i for i, name in enumerate(states)}


def _find(place: Mapping[Hashable, int], name: Any, where: str) -> int:
    try:
        return place[name]
    except Exception:  # an unknown name, or one whose __hash__ or __eq__ raises
        hint = did_you_mean(name, list(place))
        raise ModelError(where, "states of the model", f"unknown state {quote(name)}", hint) from None


def read_finite(value: Any, where: str) -> float:
    """Return a number as a float; a `ModelError` if it is not finite or too large for one."""
    try:
        number = float(value if isinstance(value, float | np.floating) else exact(value, where))
    except OverflowError:
        raise ModelError(where, "a number a float can hold", quote(value)) from None
    if not math.isfinite(number):
        raise ModelError(where, "a finite number", str(number))
    return number
